// SPDX-License-Identifier: GPL-2.0-only
//! Tests on the board: one boot per group, and more if a boot breaks in the middle.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::Context;
use anyhow::Result;

use super::progress::Progress;
use super::results::case;
use super::results::SuiteResult;
use super::results::BOOT;
use super::suites::Group;
use super::suites::Needs;
use super::suites::Step;
use crate::boards;
use crate::cli::Tools;
use crate::etnaviv;
use crate::initramfs::GuestFile;
use crate::judgement;
use crate::kernel_log;
use crate::kernel_log::Finding;
use crate::ktap;
use crate::ktap::Case;
use crate::ktap::Outcome;
use crate::machine;
use crate::machine::Assets;
use crate::machine::Boot;
use crate::machine::End;
use crate::machine::Outcome as BootOutcome;
use crate::machine::Task;
use crate::machine::TaskOutcome;
use crate::machine::Watcher;
use crate::machine::Work;
use crate::mesa;
use crate::processor::Processor;
use crate::signals::Signals;

/// Exit status of a kselftest that was skipped.
const KSELFTEST_SKIP: i32 = 4;

/// Number of last lines of a failed program's output that are shown.
const TAIL: usize = 25;

/// Name of the test case for violations of the hardware's rules.
const STRICT: &str = "strict GPU model";

/// Data that all boots of a run share.
pub struct Session<'a> {
    /// Paths of tools.
    pub tools: &'a Tools,
    /// Receives the kernel's release string.
    pub kernel: &'a Mutex<Option<String>>,
    /// Programs and files of the boots.
    pub assets: &'a Assets,
    /// Folder for the logs.
    pub logs: &'a Path,
    /// Progress display.
    pub progress: &'a Progress,
    /// Signals to the runner.
    pub signals: &'a Signals,
}

/// One boot of a group: the suites that ran and their results.
struct Booted<'a> {
    needs: &'a Needs,
    steps: &'a [Step],
    outcome: BootOutcome,
    out: PathBuf,
}

impl Session<'_> {
    /// Runs the suites of the group. `number` is the group's number, used in folder names.
    pub fn run(&self, number: usize, group: &Group) -> Result<Vec<SuiteResult>> {
        let missing = self.no_mesa(&group.needs);
        if let Some(problem) = missing.or_else(|| self.no_kernel(&group.needs)) {
            let steps = group.steps.iter();
            return Ok(steps
                .map(|step| self.told(self.left_out(step, &group.needs, &problem)))
                .collect());
        }
        let (mut steps, missing): (Vec<Step>, Vec<Step>) = group
            .steps
            .iter()
            .cloned()
            .partition(|step| self.program(step).is_file());
        let mut results: Vec<SuiteResult> = Vec::new();
        for step in &missing {
            results.push(self.told(self.not_built(step, &group.needs)));
        }
        let mut kunit = group.kunit.as_deref();
        if self.tools.no_kunit.is_some() {
            if let Some(name) = kunit.take() {
                results.push(self.told(self.no_kunit(name, &group.needs)));
            }
        }
        let mut boots = 0;
        while kunit.is_some() || !steps.is_empty() {
            let name = folder(number, boots, &group.needs);
            let booted = self.boot(&group.needs, &steps, &name)?;
            if let End::Interrupted(_) = booted.outcome.end {
                booted.write_logs()?;
                break;
            }
            boots += 1;
            if boots == 1 && booted.outcome.hung_before_init() {
                let again = booted.booted_again();
                self.progress.note(&again.line());
                results.push(again);
                continue;
            }
            if let Some(name) = kunit.take() {
                results.push(self.told(booted.kunit(name)));
            }
            // A boot that broke before any program ran would break again.
            let started = booted.outcome.tasks.iter().filter(|t| t.started).count();
            let judged = if started == 0 { steps.len() } else { started };
            for index in 0..judged {
                results.push(self.told(booted.suite(index)));
            }
            let board = booted.board();
            if board.count().failed > 0 {
                self.progress.note(&board.line());
            }
            results.push(board);
            booted.write_logs()?;
            steps.drain(..judged);
        }
        Ok(results)
    }

    /// Shows a result in the progress display and returns it.
    fn told(&self, result: SuiteResult) -> SuiteResult {
        self.progress.done(&result);
        result
    }

    fn program(&self, step: &Step) -> PathBuf {
        self.tools.programs.join(&step.program)
    }

    fn not_built(&self, step: &Step, needs: &Needs) -> SuiteResult {
        let detail = format!(
            "there is no program {}: is it a binary of tests/selftests or tests/client?",
            self.program(step).display()
        );
        SuiteResult {
            name: step.name.clone(),
            place: needs.describe_with(&step.module),
            cases: vec![case("built", Outcome::Failed, vec![detail])],
            log: self.logs.to_path_buf(),
            ..SuiteResult::default()
        }
    }

    /// Why Mesa is not available for a guest that needs it and whose kernel supports it.
    fn no_mesa(&self, needs: &Needs) -> Option<(Outcome, String)> {
        if !needs.mesa {
            return None;
        }
        let modules = self.tools.build.as_deref().and_then(etnaviv::modules);
        // Neither reason is a fault of the code under test.
        let text = match (modules, &self.tools.mesa_folder) {
            (None, _) => format!("the kernel '{}' has no etnaviv", self.tools.kernel),
            (Some(_), Some(_)) => return None,
            (Some(_), None) => {
                "Debian's Mesa could not be fetched: scripts/mesa says why".to_string()
            }
        };
        Some((Outcome::Skipped, text))
    }

    /// Why one of Debian's kernels is missing, if a suite needs it besides the chosen kernel. The archive may not
    /// have all of them.
    fn no_kernel(&self, needs: &Needs) -> Option<(Outcome, String)> {
        let is_missing =
            needs.kernel.starts_with("debian") && !self.tools.has_kernel(&needs.kernel);
        let text = format!(
            "the kernel '{}' could not be had: scripts/kernel says why",
            needs.kernel
        );
        is_missing.then_some((Outcome::Skipped, text))
    }

    fn left_out(
        &self,
        step: &Step,
        needs: &Needs,
        (outcome, problem): &(Outcome, String),
    ) -> SuiteResult {
        SuiteResult {
            name: step.name.clone(),
            place: needs.describe_with(&step.module),
            cases: vec![case("what it needs", *outcome, vec![problem.clone()])],
            log: self.logs.to_path_buf(),
            ..SuiteResult::default()
        }
    }

    fn no_kunit(&self, name: &str, needs: &Needs) -> SuiteResult {
        let detail = format!("the kernel '{}' is built without KUnit", self.tools.kernel);
        SuiteResult {
            name: name.to_string(),
            place: needs.describe(),
            cases: vec![case("results", Outcome::Skipped, vec![detail])],
            log: self.logs.to_path_buf(),
            ..SuiteResult::default()
        }
    }

    fn boot<'a>(&self, needs: &'a Needs, steps: &'a [Step], name: &str) -> Result<Booted<'a>> {
        let out = self.logs.join(name);
        let guest = |step: &Step| format!("/galcore/bin/{}", step.program);
        let mut files: Vec<GuestFile> = steps
            .iter()
            .flat_map(|step| std::iter::once(&step.program).chain(&step.with))
            .map(|program| GuestFile {
                host: self.tools.programs.join(program),
                guest: format!("/galcore/bin/{program}"),
            })
            .collect();
        files.sort();
        files.dedup();
        // The build folder is known for the usual kernel only.
        if let (true, "", Some(build)) = (needs.etnaviv, needs.kernel.as_str(), &self.tools.build) {
            files.extend(etnaviv::modules(build).into_iter().flatten());
        }
        if needs.mesa {
            files.extend(mesa::files(self.tools)?);
        }
        let assets = match needs.kernel.as_str() {
            "" => self.assets.clone(),
            kernel => self.tools.with_kernel(self.assets, kernel)?,
        };
        let tasks = steps
            .iter()
            .map(|step| Task {
                command: std::iter::once(guest(step))
                    .chain(step.args.iter().cloned())
                    .collect(),
                limit: step.limit,
                files_to: out.join(&step.name),
                module: Some(step.module.clone()),
            })
            .collect();
        let boot = Boot {
            board: needs.board,
            binding: needs.binding,
            smp: needs.smp,
            memory: if boards::has_places(&needs.tree) {
                needs.memory
            } else {
                with_checks(needs.memory, assets.processor)
            },
            append: needs.append.clone(),
            tree: needs.tree.clone(),
            dtb: String::new(),
            kunit: needs.kunit,
            seed: None,
            icount: false,
            trace: false,
            monitor: None,
            insmod: String::new(),
            load: needs.kunit,
            drm: false,
            files,
            work: Work::Programs(tasks),
            out: out.clone(),
        };
        self.progress
            .running(&format!("booting ({})", needs.describe()));
        let mut watcher = Shown {
            steps,
            needs,
            progress: self.progress,
        };
        let outcome = machine::boot(&assets, &boot, &mut watcher, self.signals)?;
        // Suites that select their own kernel name it in their results.
        if needs.kernel.is_empty() {
            if let Some(release) = kernel_log::release(&outcome.log) {
                let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
                *kernel = Some(release.to_string());
            }
        }
        Ok(Booted {
            needs,
            steps,
            outcome,
            out,
        })
    }
}

/// Additional MiB for the 64-bit kernel, which checks every access.
const CHECKS_MIB: u32 = 256;

/// RAM of a boot with suites that need `memory` MiB. Each kernel leaves them the same amount.
fn with_checks(memory: u32, processor: Processor) -> u32 {
    if processor.is_64_bit() {
        (memory + CHECKS_MIB).min(boards::REACHED_MIB).max(memory)
    } else {
        memory
    }
}

/// The folder of a boot. For example, "boot-03a-dove-dt" is the first boot of the third group.
fn folder(number: usize, boots: usize, needs: &Needs) -> String {
    let letter = char::from(b"abcdefghijklmnopqrstuvwxyz"[boots % 26]);
    format!(
        "boot-{:02}{letter}-{}-{}",
        number + 1,
        needs.board.name(),
        needs.binding.name()
    )
}

/// Shows the running program in the progress display.
struct Shown<'a> {
    steps: &'a [Step],
    needs: &'a Needs,
    progress: &'a Progress,
}

impl Watcher for Shown<'_> {
    fn started(&mut self, task: usize) {
        if let Some(step) = self.steps.get(task) {
            self.progress.running(&format!(
                "{} ({})",
                step.name,
                self.needs.describe_with(&step.module)
            ));
        }
    }
}

impl Booted<'_> {
    /// The result of program `index`.
    fn suite(&self, index: usize) -> SuiteResult {
        let (step, task) = (&self.steps[index], &self.outcome.tasks[index]);
        let log = self.out.join(&step.name);
        let mut cases = ktap::parse(&String::from_utf8_lossy(&task.stdout));
        if let Some(problem) = self.problem(index, step, task, &cases) {
            cases.push(case("program", Outcome::Failed, vec![problem]));
        } else if cases.is_empty() {
            let outcome = match task.status {
                Some(KSELFTEST_SKIP) => Outcome::Skipped,
                _ => Outcome::Passed,
            };
            cases.push(case("program", outcome, Vec::new()));
        }
        for name in &step.leaves {
            let left = fs::metadata(log.join(name)).is_ok_and(|facts| facts.len() > 0);
            let (outcome, detail) = if left {
                (Outcome::Passed, vec![])
            } else {
                (Outcome::Failed, vec![format!("it left no {name}")])
            };
            cases.push(case(&format!("leaves {name}"), outcome, detail));
        }
        for finding in self.findings(Some(index)) {
            cases.push(self.case_of(finding));
        }
        let said = self.outcome.said.iter();
        let said = said.filter(|(task, _)| *task == Some(index));
        let said: Vec<_> = said.map(|(_, complaint)| complaint.clone()).collect();
        if !said.is_empty() {
            cases.push(case(STRICT, Outcome::Failed, said));
        }
        SuiteResult {
            name: step.name.clone(),
            place: self.needs.describe_with(&step.module),
            notes: self.notes(task),
            cases,
            log,
            time: task.time,
            processor_time: task.processor_time,
            alone: Some(Box::new(Group {
                needs: self.needs.clone(),
                alone: true,
                kunit: None,
                steps: vec![step.clone()],
            })),
            again: None,
        }
    }

    /// A problem of a program other than the tests that it reports.
    fn problem(
        &self,
        index: usize,
        step: &Step,
        task: &TaskOutcome,
        cases: &[Case],
    ) -> Option<String> {
        if let Some(reason) = &task.refused {
            return Some(format!("the module does not load for it: {reason}"));
        }
        if !task.started {
            return Some(format!("it was not started: {}", self.outcome.end));
        }
        if task.late {
            return Some(format!(
                "it took more than {} s and was killed",
                step.limit.as_secs()
            ));
        }
        let Some(status) = task.status else {
            return Some(format!("it did not end: {}", self.outcome.end));
        };
        let explained = cases.iter().any(|case| case.outcome == Outcome::Failed);
        match status {
            0 | KSELFTEST_SKIP => None,
            // kselftests also return status 1 when a test fails, which the results already show.
            _ if explained && status < 128 => None,
            _ if status > 128 => Some(format!(
                "program {index} was killed by signal {}",
                status - 128
            )),
            _ => Some(format!("it ended with status {status}")),
        }
    }

    /// The result of the KUnit suites that ran when the module loaded.
    fn kunit(&self, name: &str) -> SuiteResult {
        let text = kernel_log::of_loading(&self.outcome.log);
        let mut cases = ktap::parse(&text);
        if cases.is_empty() {
            let detail = vec!["the kernel log has no results of KUnit".to_string()];
            cases.push(case("results", Outcome::Failed, detail));
        }
        SuiteResult {
            name: name.to_string(),
            place: self.needs.describe(),
            cases,
            log: self.out.join("kernel.log"),
            time: self.outcome.total_time,
            processor_time: self.outcome.processor_time,
            ..SuiteResult::default()
        }
    }

    /// The result of a boot whose kernel hung before it ran a program or loaded the module. This was seen once, in
    /// QEMU's WFE; see the kernel arguments in [`machine`].
    fn booted_again(&self) -> SuiteResult {
        let mut detail = vec![
            self.outcome.end.to_string(),
            "nothing of the driver ran yet: it is booted once more".to_string(),
        ];
        detail.extend(judgement::tail(&self.outcome.log, TAIL));
        SuiteResult {
            name: BOOT.to_string(),
            place: self.needs.describe(),
            cases: vec![case("boots at once", Outcome::Skipped, detail)],
            log: self.out.clone(),
            time: self.outcome.total_time,
            processor_time: self.outcome.processor_time,
            ..SuiteResult::default()
        }
    }

    /// The result of the boot itself: start and end, kernel log outside the programs, and the GPU model's rules.
    fn board(&self) -> SuiteResult {
        let mut cases = Vec::new();
        let end = &self.outcome.end;
        match end {
            End::Done => cases.push(case("boots and powers off", Outcome::Passed, vec![])),
            // This failure belongs to the suite.
            _ if self.outcome.tasks.iter().any(TaskOutcome::did_not_end) => {}
            End::Panicked => {}
            _ => {
                let mut detail = vec![end.to_string()];
                if matches!(end, End::GuestFailed(_)) {
                    detail.extend(kernel_log::of_driver(&self.outcome.log));
                }
                cases.push(case("boots and powers off", Outcome::Failed, detail));
            }
        }
        let outside: Vec<&Finding> = self.findings(None).collect();
        if outside.is_empty() {
            cases.push(case("clean kernel log", Outcome::Passed, vec![]));
        }
        cases.extend(outside.into_iter().map(|finding| self.case_of(finding)));
        let violations = self.outcome.violations();
        let said = self.outcome.said.iter();
        if said.filter(|(task, _)| task.is_some()).count() >= violations.len() {
            cases.push(case(STRICT, Outcome::Passed, vec![]));
        } else {
            let words = violations
                .iter()
                .map(|v| format!("{}: {}", v.kind, v.detail));
            cases.push(case(STRICT, Outcome::Failed, words.collect()));
        }
        let notes = match end {
            End::Done => Vec::new(),
            _ => {
                let mut notes = vec!["last lines of the kernel log:".to_string()];
                notes.extend(judgement::tail(&self.outcome.log, TAIL));
                notes
            }
        };
        SuiteResult {
            name: BOOT.to_string(),
            place: self.needs.describe(),
            cases,
            notes,
            log: self.out.clone(),
            time: self.outcome.total_time,
            processor_time: self.outcome.processor_time,
            ..SuiteResult::default()
        }
    }

    /// The last lines of a program's output, and of the kernel log if the program broke the board. They are shown
    /// after a failure.
    fn notes(&self, task: &TaskOutcome) -> Vec<String> {
        let mut notes = Vec::new();
        for (name, bytes) in [("stdout", &task.stdout), ("stderr", &task.stderr)] {
            if !bytes.is_empty() {
                notes.push(format!("its last lines on {name}:"));
                notes.extend(judgement::tail(&String::from_utf8_lossy(bytes), TAIL));
            }
        }
        if task.did_not_end() {
            notes.push("last lines of the kernel log:".to_string());
            notes.extend(judgement::tail(&self.outcome.log, TAIL));
        }
        notes
    }

    fn findings(&self, task: Option<usize>) -> impl Iterator<Item = &Finding> {
        self.outcome
            .findings
            .iter()
            .filter(move |finding| finding.task == task)
    }

    fn case_of(&self, finding: &Finding) -> Case {
        case(
            &format!("kernel log: {}", finding.kind),
            Outcome::Failed,
            judgement::explain_finding(finding, &self.out),
        )
    }

    /// Writes each program's output and its part of the kernel log.
    fn write_logs(&self) -> Result<()> {
        for (index, (step, task)) in self.steps.iter().zip(&self.outcome.tasks).enumerate() {
            let dir = self.out.join(&step.name);
            let write = |name: &str, content: &[u8]| {
                fs::create_dir_all(&dir)
                    .and_then(|()| fs::write(dir.join(name), content))
                    .with_context(|| format!("cannot write to {}", dir.display()))
            };
            if task.started {
                write("stdout", &task.stdout)?;
                write("stderr", &task.stderr)?;
                let log = kernel_log::of_task(&self.outcome.log, index);
                write("kernel.log", log.as_bytes())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::boards::Binding;
    use crate::boards::Board;
    use crate::machine::Module;
    use crate::machine::Report;
    use crate::machine::Violation;

    fn needs() -> Needs {
        Needs {
            board: Board::Dove,
            binding: Binding::Dt,
            kunit: false,
            append: String::new(),
            tree: String::new(),
            etnaviv: false,
            mesa: false,
            kernel: String::new(),
            smp: 2,
            memory: 512,
        }
    }

    fn step() -> Step {
        Step {
            name: "memory".to_string(),
            program: "memory".to_string(),
            args: vec![],
            limit: Duration::from_secs(5),
            leaves: vec![],
            with: vec![],
            module: Module {
                load: true,
                drm: false,
                parameters: String::new(),
            },
        }
    }

    /// The counts of a program's suite and of the boot, if both end this way.
    fn judge(end: End, status: Option<i32>, stdout: &str, log: &str) -> [String; 2] {
        judge_changed(end, status, stdout, log, |_| {})
    }

    fn judge_changed(
        end: End,
        status: Option<i32>,
        stdout: &str,
        log: &str,
        change: impl FnOnce(&mut BootOutcome),
    ) -> [String; 2] {
        let (needs, steps) = (needs(), [step()]);
        let mut booted = Booted {
            needs: &needs,
            steps: &steps,
            outcome: BootOutcome {
                end,
                tasks: vec![TaskOutcome {
                    started: true,
                    status,
                    stdout: stdout.as_bytes().to_vec(),
                    ..TaskOutcome::default()
                }],
                findings: kernel_log::scan(log),
                log: log.to_string(),
                report: Some(Report::default()),
                boot_time: Duration::ZERO,
                total_time: Duration::ZERO,
                processor_time: Duration::ZERO,
                said: vec![],
            },
            out: PathBuf::from("/nowhere"),
        };
        change(&mut booted.outcome);
        [
            booted.suite(0).count().summary(),
            booted.board().count().summary(),
        ]
    }

    const GOOD_BOARD: &str = "3 passed, 0 failed, 0 skipped";

    #[test]
    fn good_programs_count_by_their_results() {
        let ktap = "1..2\nok 1 a\nok 2 b # SKIP x\n";
        assert_eq!(
            judge(End::Done, Some(0), ktap, ""),
            ["1 passed, 0 failed, 1 skipped", GOOD_BOARD]
        );
        assert_eq!(
            judge(End::Done, Some(0), "no results", "")[0],
            "1 passed, 0 failed, 0 skipped"
        );
        assert_eq!(
            judge(End::Done, Some(4), "", "")[0],
            "0 passed, 0 failed, 1 skipped"
        );
    }

    #[test]
    fn a_status_counts_where_results_do_not_explain_it() {
        let ktap = "1..1\nnot ok 1 a\n";
        assert_eq!(
            judge(End::Done, Some(1), ktap, "")[0],
            "0 passed, 1 failed, 0 skipped"
        );
        let ktap = "1..1\nok 1 a\n";
        assert_eq!(
            judge(End::Done, Some(1), ktap, "")[0],
            "1 passed, 1 failed, 0 skipped"
        );
        assert_eq!(
            judge(End::Done, Some(139), ktap, "")[0],
            "1 passed, 1 failed, 0 skipped"
        );
    }

    #[test]
    fn a_program_that_takes_the_board_down_fails() {
        let hung = End::Hung("the program memory".to_string());
        assert_eq!(
            judge(hung, None, "", ""),
            [
                "0 passed, 1 failed, 0 skipped",
                "2 passed, 0 failed, 0 skipped"
            ]
        );
        let failed = End::GuestFailed("galcore.ko cannot be unloaded".to_string());
        assert_eq!(
            judge(failed, Some(0), "", "")[1],
            "2 passed, 1 failed, 0 skipped"
        );
    }

    #[test]
    fn a_module_that_does_not_load_fails_its_suite_alone() {
        let refuse = |outcome: &mut BootOutcome| {
            outcome.tasks[0].refused = Some("Invalid argument".to_string());
        };
        assert_eq!(
            judge_changed(End::Done, None, "", "", refuse),
            ["0 passed, 1 failed, 0 skipped", GOOD_BOARD]
        );
    }

    #[test]
    fn the_models_complaints_go_to_the_program_that_ran() {
        let complain = |said: Option<usize>| {
            move |outcome: &mut BootOutcome| {
                let violation = Violation {
                    kind: "prefetch".to_string(),
                    detail: "overrun".to_string(),
                };
                outcome.report = Some(Report {
                    violations: vec![violation],
                });
                outcome.said.push((said, "prefetch: overrun".to_string()));
            }
        };
        assert_eq!(
            judge_changed(End::Done, Some(0), "", "", complain(Some(0))),
            ["1 passed, 1 failed, 0 skipped", GOOD_BOARD]
        );
        assert_eq!(
            judge_changed(End::Done, Some(0), "", "", complain(None)),
            [
                "1 passed, 0 failed, 0 skipped",
                "2 passed, 1 failed, 0 skipped"
            ]
        );
    }

    #[test]
    fn kernel_complaints_go_to_the_program_that_ran() {
        let log = "galcore-board: program 0 begins\nWARNING: x\n\
                   galcore-board: program 0 ends with 0\n";
        assert_eq!(
            judge(End::Done, Some(0), "", log),
            ["1 passed, 1 failed, 0 skipped", GOOD_BOARD]
        );
        assert_eq!(
            judge(End::Done, Some(0), "", "BUG: y\n"),
            [
                "1 passed, 0 failed, 0 skipped",
                "2 passed, 1 failed, 0 skipped"
            ]
        );
    }

    #[test]
    fn only_a_silent_hang_before_init_is_booted_again() {
        let outcome = |end: End, log: &str, boot_time: u64| BootOutcome {
            end,
            tasks: vec![],
            findings: kernel_log::scan(log),
            log: log.to_string(),
            report: None,
            boot_time: Duration::from_secs(boot_time),
            total_time: Duration::ZERO,
            processor_time: Duration::ZERO,
            said: vec![],
        };
        let hung = || End::Hung("the kernel to start".to_string());
        assert!(outcome(hung(), "", 0).hung_before_init());
        assert!(!outcome(hung(), "", 2).hung_before_init());
        assert!(!outcome(End::Panicked, "", 0).hung_before_init());
        let warning = "[    1.000000] WARNING: mm/slab.c:12 at kfree+0x12/0x30, CPU#0: init/1\n";
        assert!(!kernel_log::scan(warning).is_empty());
        assert!(!outcome(hung(), warning, 0).hung_before_init());
    }
}
