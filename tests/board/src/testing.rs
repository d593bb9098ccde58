// SPDX-License-Identifier: GPL-2.0-only
//! The test runner: what `make test` calls.
//!
//! Runs the host's unit tests, the module's KUnit suites and the guest's
//! programs (as many in one boot as want the same board), and counts.

mod guest;
mod host;
mod progress;
mod results;
mod suites;

use std::fs;
use std::path::Path;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::cli::TestArgs;
use crate::cli::Tools;
use crate::commands::say;
use crate::signals::Signals;
use progress::Progress;
use results::Results;
use suites::Table;

/// `scripts/board test` and, with `soak`, `scripts/board soak`.
pub fn test(tools: &Tools, arguments: &TestArgs, soak: bool, signals: &Signals) -> Result<u8> {
    let table = Table::load(soak)?;
    let table = table.select(&arguments.suites)?;
    if arguments.list {
        print!("{}", table.list());
        return Ok(0);
    }
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => tools.top.join("out"),
    };
    let logs = out.join(if soak { "soak" } else { "test" });
    empty_folder(&logs)?;
    let groups = table.groups();
    let mut progress = Progress::new(table.steps());
    let mut results = Results::default();
    for suite in &table.host {
        if signals.last() == 0 {
            host::run(tools, suite, &logs, &mut progress, &mut results, signals)?;
        }
    }
    if !groups.is_empty() {
        let assets = tools.assets(true)?;
        for (number, group) in groups.iter().enumerate() {
            if signals.last() == 0 {
                let session = guest::Session {
                    tools,
                    assets: &assets,
                    logs: &logs,
                    number,
                    signals,
                };
                session.run(group, &mut progress, &mut results)?;
            }
        }
    }
    progress.finish();
    results.write(&out, &logs)?;
    conclude(&results, signals)
}

fn conclude(results: &Results, signals: &Signals) -> Result<u8> {
    for line in results.failures() {
        println!("{line}");
    }
    if signals.last() != 0 {
        say("interrupted; not all tests were run");
    }
    println!("{}", results.summary());
    if signals.last() != 0 {
        return Ok(u8::try_from(128 + signals.last())?);
    }
    Ok(u8::from(results.count().failed > 0))
}

/// Makes `dir` an empty folder. Refuses what does not look like its own.
fn empty_folder(dir: &Path) -> Result<()> {
    if dir.exists() {
        if !dir.join(MARK).is_file() && fs::read_dir(dir)?.next().is_some() {
            bail!(
                "{} has files that are not the test runner's; name another folder with --out",
                dir.display()
            );
        }
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    fs::write(dir.join(MARK), "").with_context(|| format!("cannot write to {}", dir.display()))
}

/// A file by which the runner knows a folder of its own.
const MARK: &str = ".galcore-test";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_our_own_are_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let logs = dir.path().join("test");
        empty_folder(&logs).unwrap();
        fs::write(logs.join("old"), "").unwrap();
        empty_folder(&logs).unwrap();
        assert!(!logs.join("old").exists());
        let other = dir.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("thesis"), "").unwrap();
        assert!(empty_folder(&other).is_err());
        assert!(other.join("thesis").exists());
    }
}
