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
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::cli::TestArgs;
use crate::cli::Tools;
use crate::commands::say;
use crate::signals::Signals;
use guest::Session;
use progress::Progress;
use results::Results;
use results::SuiteResult;
use suites::Group;
use suites::Table;

/// `scripts/board test` and, with `soak`, `scripts/board soak`.
pub fn test(tools: &Tools, arguments: &TestArgs, soak: bool, signals: &Signals) -> Result<u8> {
    let table = Table::load(soak)?.on_kernel(&tools.kernel);
    let table = table.select(&arguments.suites)?;
    if arguments.needs {
        let place = match table.groups().is_empty() {
            true => "host",
            false => "board",
        };
        println!("{place}");
        if table.wants_mesa() {
            println!("+mesa");
        }
        for kernel in table.kernels() {
            println!("{kernel}");
        }
        return Ok(0);
    }
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
    let kernel = Mutex::new(None);
    let run = Run {
        tools,
        kernel: &kernel,
        table: &table,
        logs: &logs,
        progress: Progress::new(table.steps()),
        signals,
    };
    let mut suites = run.host()?;
    suites.extend(run.guest(arguments.jobs.map_or_else(default_jobs, usize::from))?);
    run.progress.finish();
    let mut results = Results::from(suites);
    if let Some(release) = kernel.into_inner().unwrap_or_else(PoisonError::into_inner) {
        results.kernel = Some(format!("Linux {release} ({})", tools.kernel));
    }
    results.write(&out, &logs)?;
    conclude(&results, signals)
}

/// Boots at once: a boot keeps one processor busy.
fn default_jobs() -> usize {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    processors.min(MOST_JOBS)
}

/// Each boot takes about half a GiB of the host's memory.
const MOST_JOBS: usize = 4;

/// A run of the tests.
struct Run<'a> {
    tools: &'a Tools,
    /// What the kernel called itself, once one has run.
    kernel: &'a Mutex<Option<String>>,
    table: &'a Table,
    logs: &'a Path,
    progress: Progress,
    signals: &'a Signals,
}

impl Run<'_> {
    fn host(&self) -> Result<Vec<SuiteResult>> {
        let mut results = Vec::new();
        for suite in &self.table.host {
            if self.signals.last() == 0 {
                let result = host::run(self.tools, suite, self.logs, &self.progress, self.signals)?;
                results.push(result);
            }
        }
        Ok(results)
    }

    /// Makes the boots, `jobs` at once; those with several processors alone.
    fn guest(&self, jobs: usize) -> Result<Vec<SuiteResult>> {
        let groups = self.table.groups();
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let session = Session {
            tools: self.tools,
            kernel: self.kernel,
            assets: &self.tools.assets(true)?,
            logs: self.logs,
            progress: &self.progress,
            signals: self.signals,
        };
        let (small, large): (Vec<_>, Vec<_>) = groups
            .iter()
            .enumerate()
            .partition(|(_, group)| group.needs.smp == 1);
        let mut results = work_off(small, jobs, self.signals, &session)?;
        results.extend(work_off(large, 1, self.signals, &session)?);
        results.sort_by_key(|(number, _)| *number);
        Ok(results.into_iter().flat_map(|(_, suites)| suites).collect())
    }
}

/// Runs the groups with `jobs` threads, which take the next one when they are free.
fn work_off(
    groups: Vec<(usize, &Group)>,
    jobs: usize,
    signals: &Signals,
    session: &Session,
) -> Result<Vec<(usize, Vec<SuiteResult>)>> {
    let jobs = jobs.min(groups.len());
    let queue = Mutex::new(groups.into_iter());
    let work = || {
        let mut done = Vec::new();
        while signals.last() == 0 {
            // A thread that panicked has not left the iterator in a bad state.
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, group)) = next else {
                break;
            };
            done.push((number, session.run(number, group)?));
        }
        Ok(done)
    };
    let parts: Vec<Result<Vec<_>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| {
                let result = thread.join();
                result.unwrap_or_else(|_| Err(anyhow!("the test runner has a mistake: see above")))
            })
            .collect()
    });
    let mut results = Vec::new();
    for part in parts {
        results.extend(part?);
    }
    Ok(results)
}

fn conclude(results: &Results, signals: &Signals) -> Result<u8> {
    for line in results.failures() {
        println!("{line}");
    }
    if signals.last() != 0 {
        say("interrupted; not all tests were run");
    }
    for line in results.not_run() {
        println!("{line}");
    }
    if let Some(kernel) = &results.kernel {
        println!("kernel: {kernel}");
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
