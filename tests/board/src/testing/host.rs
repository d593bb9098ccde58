// SPDX-License-Identifier: GPL-2.0-only
//! Runs the unit tests of the host's crates.

use std::fs;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use super::progress::Progress;
use super::results::case;
use super::results::SuiteResult;
use super::suites::HostSuite;
use crate::cli::Tools;
use crate::judgement;
use crate::ktap::Case;
use crate::ktap::Outcome;
use crate::process;
use crate::process::Process;
use crate::signals::Signals;

/// Time limit for building and running a crate's tests, without waits for other builds.
const LIMIT: Duration = Duration::from_secs(3600);

/// Time limit between two lines of cargo or of a test. A busy machine needs minutes for a crate, so the whole run
/// gets more.
const SILENCE: Duration = Duration::from_secs(1800);

/// Runs the suite.
pub fn run(
    tools: &Tools,
    suite: &HostSuite,
    logs: &Path,
    progress: &Progress,
    signals: &Signals,
) -> Result<SuiteResult> {
    progress.running(&format!("{} (host)", suite.name));
    let start = Instant::now();
    let manifest = tools.top.join("tests/Cargo.toml");
    let arguments = [
        "test".to_string(),
        // The programs and the software GPU are built with this profile already.
        "--release".to_string(),
        "--manifest-path".to_string(),
        manifest.to_string_lossy().into_owned(),
        "--package".to_string(),
        suite.package.clone(),
    ];
    let (status, text) = output_of("cargo", &arguments, progress, signals)?;
    let log = logs.join(format!("{}.log", suite.name));
    fs::write(&log, &text).with_context(|| format!("cannot write {}", log.display()))?;
    let mut cases = parse(&text);
    let mut notes = Vec::new();
    let explained = cases.iter().any(|case| case.outcome == Outcome::Failed);
    if status != Some(0) {
        notes = judgement::tail(&text, 40);
        if !explained {
            let how = match status {
                Some(status) => format!("cargo test ended with status {status}"),
                None => "it took too long, or was interrupted".to_string(),
            };
            cases.push(case("cargo test", Outcome::Failed, vec![how]));
        }
    }
    let result = SuiteResult {
        name: suite.name.clone(),
        place: "host".to_string(),
        cases,
        notes,
        log,
        time: start.elapsed(),
        ..SuiteResult::default()
    };
    progress.done(&result);
    Ok(result)
}

/// cargo's message that another build holds the folder's lock.
const BLOCKED: &str = "Blocking waiting for file lock";

/// Whether cargo's last message is that it waits for another build.
fn is_blocked(output: &[u8]) -> bool {
    let mut lines = output.rsplit(|byte| *byte == b'\n');
    let last = lines.find(|line| !line.is_empty()).unwrap_or_default();
    String::from_utf8_lossy(last).contains(BLOCKED)
}

/// Runs cargo. Returns its status (`None` if it was killed) and its output.
fn output_of(
    name: &str,
    arguments: &[String],
    progress: &Progress,
    signals: &Signals,
) -> Result<(Option<i32>, String)> {
    let Some(program) = process::find(name) else {
        bail!("{name} is missing: start the tests by scripts/board, which brings it");
    };
    let mut start = Instant::now();
    let mut heard = start;
    let mut told = false;
    let mut child = Process::start(&program, arguments)?;
    let (sender, receiver) = sync_channel(64);
    if let (Some(stdout), Some(stderr)) = (child.stdout(), child.stderr()) {
        process::forward(stdout, sender.clone(), |bytes| bytes, vec![]);
        process::forward(stderr, sender, |bytes| bytes, vec![]);
    }
    let mut bytes = Vec::new();
    loop {
        let ended = child.ended();
        while let Ok(more) = receiver.recv_timeout(Duration::from_millis(10)) {
            bytes.extend(more);
            heard = Instant::now();
        }
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        if let Some(status) = ended {
            return Ok((Some(status.code().unwrap_or(-1)), text()));
        }
        if is_blocked(&bytes) {
            start = Instant::now();
            heard = start;
            if !told {
                progress.note("waiting for another build: cargo has its folder locked");
                told = true;
            }
        }
        let is_late = start.elapsed() > LIMIT || heard.elapsed() > SILENCE;
        if is_late || signals.last() != 0 {
            child.kill();
            return Ok((None, text()));
        }
    }
}

/// Parses the tests in the output of `cargo test`.
fn parse(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("test ") else {
            continue;
        };
        let Some((name, outcome)) = rest.rsplit_once(" ... ") else {
            continue;
        };
        let outcome = match outcome.split(',').next().unwrap_or("").trim() {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            "ignored" => Outcome::Skipped,
            _ => continue,
        };
        let detail = match outcome {
            Outcome::Failed => words_of(text, name),
            _ => Vec::new(),
        };
        cases.push(case(name, outcome, detail));
    }
    cases
}

/// The output of a failed test.
fn words_of(text: &str, name: &str) -> Vec<String> {
    let heading = format!("---- {name} stdout ----");
    text.lines()
        .skip_while(|line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with("---- ") && *line != "failures:")
        .filter(|line| !line.is_empty())
        .take(30)
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_another_build_is_seen() {
        let line = b"    Blocking waiting for file lock on build directory\n";
        assert!(is_blocked(line));
        assert!(!is_blocked(b""));
        let mut more = line.to_vec();
        more.extend(b"   Compiling x v0.1.0\n");
        assert!(!is_blocked(&more));
    }

    #[test]
    fn tests_of_cargo_are_counted() {
        let cases = parse(
            "running 4 tests
test a::works ... ok
test a::fails ... FAILED
test a::later ... ignored, not yet
test src/lib.rs - doc (line 3) ... ok
failures:

---- a::fails stdout ----

thread 'a::fails' panicked at src/x.rs:1:1:
left: 1

failures:
    a::fails

test result: FAILED. 2 passed; 1 failed; 1 ignored
",
        );
        let outcomes: Vec<Outcome> = cases.iter().map(|case| case.outcome).collect();
        assert_eq!(
            outcomes,
            [
                Outcome::Passed,
                Outcome::Failed,
                Outcome::Skipped,
                Outcome::Passed
            ]
        );
        assert_eq!(
            cases[1].detail,
            ["thread 'a::fails' panicked at src/x.rs:1:1:", "left: 1"]
        );
    }
}
