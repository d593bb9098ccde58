// SPDX-License-Identifier: GPL-2.0-only
//! The result of a boot: the exit status, and the text that explains it.

use std::path::Path;

use crate::kernel_log::Finding;
use crate::machine::End;
use crate::machine::Outcome;

/// Exit status: the board could not be set up, and nothing was booted.
pub const SETUP: u8 = 69;
/// Exit status: the kernel reported an error, or the GPU model saw a violation of the hardware's rules.
pub const COMPLAINTS: u8 = 70;
/// Exit status: the GPU model died.
pub const MODEL_DIED: u8 = 71;
/// Exit status: the guest or the program exceeded its time limit.
pub const TIMEOUT: u8 = 72;
/// Exit status: the board did not come up, or the module did not load.
pub const BOARD: u8 = 73;
/// Exit status: wrong command line.
pub const USAGE: u8 = 64;

/// The exit status of a boot, if it overrides the program's status.
pub fn status_of_boot(outcome: &Outcome) -> Option<u8> {
    let complaints = !outcome.findings.is_empty() || !outcome.violations().is_empty();
    match &outcome.end {
        End::Interrupted(signal) => Some(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
        End::ModelDied(_) => Some(MODEL_DIED),
        End::Hung(_) => Some(TIMEOUT),
        End::Panicked => Some(COMPLAINTS),
        _ if complaints => Some(COMPLAINTS),
        End::GuestFailed(_) | End::QemuDied(_) => Some(BOARD),
        End::Done if outcome.tasks.iter().any(|task| task.late) => Some(TIMEOUT),
        End::Done => None,
    }
}

/// The lines that explain a failure; empty after success.
pub fn explain(outcome: &Outcome, out: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for finding in &outcome.findings {
        lines.extend(explain_finding(finding, out));
    }
    for violation in outcome.violations() {
        lines.push(format!(
            "the GPU model saw a breach of the hardware's rules: {}: {} ({})",
            violation.kind,
            violation.detail,
            out.join("gpu.json").display()
        ));
    }
    match &outcome.end {
        End::Done => {}
        end @ (End::ModelDied(_) | End::QemuDied(_)) => lines.push(end.to_string()),
        End::Interrupted(_) => lines.push("interrupted".to_string()),
        End::Panicked if !outcome.findings.is_empty() => {}
        end => {
            lines.push(end.to_string());
            lines.push(format!(
                "the kernel log's last lines ({}):",
                out.join("kernel.log").display()
            ));
            lines.extend(tail(&outcome.log, 15));
        }
    }
    if outcome.tasks.iter().any(|task| task.late) {
        lines.push("the program's time was up (--timeout); it was killed".to_string());
    }
    lines
}

/// The heading and the lines of a finding.
pub fn explain_finding(finding: &Finding, out: &Path) -> Vec<String> {
    let place = out.join("kernel.log");
    let mut lines = vec![format!(
        "kernel {} ({}:{}):",
        finding.kind,
        place.display(),
        finding.line + 1
    )];
    lines.extend(finding.text.iter().map(|line| format!("    {line}")));
    lines
}

/// The last lines of a text, indented.
pub fn tail(text: &str, count: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..]
        .iter()
        .map(|line| format!("    {line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kernel_log;
    use crate::machine::Report;
    use crate::machine::TaskOutcome;
    use crate::machine::Violation;

    fn outcome(end: End) -> Outcome {
        Outcome {
            end,
            tasks: vec![TaskOutcome {
                started: true,
                status: Some(0),
                ..TaskOutcome::default()
            }],
            log: String::new(),
            findings: vec![],
            report: Some(Report::default()),
            boot_time: Duration::ZERO,
            total_time: Duration::ZERO,
            processor_time: Duration::ZERO,
            said: vec![],
        }
    }

    #[test]
    fn a_good_boot_leaves_the_status_to_the_program() {
        assert_eq!(status_of_boot(&outcome(End::Done)), None);
        assert_eq!(explain(&outcome(End::Done), Path::new("out")), [""; 0]);
    }

    #[test]
    fn every_bad_end_has_its_status() {
        let status = |end| status_of_boot(&outcome(end));
        assert_eq!(status(End::Interrupted(2)), Some(130));
        assert_eq!(status(End::ModelDied(String::new())), Some(MODEL_DIED));
        assert_eq!(status(End::Hung(String::new())), Some(TIMEOUT));
        assert_eq!(status(End::Panicked), Some(COMPLAINTS));
        assert_eq!(status(End::GuestFailed(String::new())), Some(BOARD));
        assert_eq!(status(End::QemuDied(String::new())), Some(BOARD));
    }

    #[test]
    fn complaints_and_late_programs_count_though_all_went_on() {
        let mut boot = outcome(End::Done);
        boot.tasks[0].late = true;
        assert_eq!(status_of_boot(&boot), Some(TIMEOUT));
        boot.findings = kernel_log::scan("WARNING: x\n");
        assert_eq!(status_of_boot(&boot), Some(COMPLAINTS));
        let mut boot = outcome(End::Done);
        boot.report = Some(Report {
            violations: vec![Violation {
                kind: "prefetch".to_string(),
                detail: "overrun".to_string(),
            }],
        });
        assert_eq!(status_of_boot(&boot), Some(COMPLAINTS));
        assert!(explain(&boot, Path::new("out"))[0].contains("prefetch: overrun"));
    }
}
