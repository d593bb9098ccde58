// SPDX-License-Identifier: GPL-2.0-only
//! The test runner, which `make test` calls.
//!
//! It runs the host's unit tests, the module's KUnit suites, and the guest's programs, and counts the results.
//! Programs that need the same board share a boot.

mod estimate;
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
use std::time::Instant;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::cli::TestArgs;
use crate::cli::Tools;
use crate::commands::say;
use crate::signals::Signals;
use estimate::Estimates;
use guest::Session;
use progress::Progress;
use results::Again;
use results::Results;
use results::SuiteResult;
use results::BOOT;
use suites::Group;
use suites::Table;

/// `scripts/board test`, and with `soak`, `scripts/board soak`.
pub fn test(tools: &Tools, arguments: &TestArgs, soak: bool, signals: &Signals) -> Result<u8> {
    let table = Table::load(soak)?.on_kernel(&tools.kernel);
    let mut table = table.select(&arguments.suites)?;
    table.quick &= !arguments.checked;
    if let Some(board) = arguments.board {
        table = table.on_board(board)?;
    }
    if arguments.once {
        table = table.once(&arguments.suites);
    }
    if !arguments.arguments.is_empty() {
        table = table.with_arguments(&arguments.arguments);
    }
    if arguments.needs {
        let place = if table.groups().is_empty() {
            "host"
        } else {
            "board"
        };
        println!("{place}");
        if table.wants_mesa() {
            println!("+mesa");
        }
        if table.wants_beside("piglit.tar") {
            println!("+piglit");
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
    let begin = Instant::now();
    let jobs = arguments.jobs.map_or_else(default_jobs, usize::from);
    let mut suites = run.all(jobs)?;
    // Do not repeat soak runs, nor a run that the user limited to one.
    if !soak && !arguments.once {
        run.again(&mut suites, has_to_be_steady(&tools.top))?;
    }
    run.progress.finish();
    let mut results = Results::from(suites);
    if let Some(release) = kernel.into_inner().unwrap_or_else(PoisonError::into_inner) {
        results.kernel = Some(format!("Linux {release} ({})", tools.kernel));
    }
    results.write(&out, &logs)?;
    for line in results.times(begin.elapsed()) {
        say(&line);
    }
    conclude(&results, signals)
}

/// Whether a suite that passes only in a second run counts as failed. True in continuous integration and on the main
/// branch.
fn has_to_be_steady(top: &Path) -> bool {
    let head = fs::read_to_string(top.join(".git/HEAD")).unwrap_or_default();
    is_main(&head) || std::env::var("CI").is_ok_and(|value| !matches!(&*value, "" | "0" | "false"))
}

fn is_main(head: &str) -> bool {
    head.trim() == "ref: refs/heads/main"
}

/// Default number of parallel boots. A boot keeps half of a processor busy, because suites wait for timeouts.
fn default_jobs() -> usize {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    (processors * 2).clamp(1, MOST_JOBS)
}

/// Each boot needs about half a GiB of the host's memory.
const MOST_JOBS: usize = 4;

/// A run of the tests.
struct Run<'a> {
    tools: &'a Tools,
    /// The kernel's release string, known after the first boot.
    kernel: &'a Mutex<Option<String>>,
    table: &'a Table,
    logs: &'a Path,
    progress: Progress,
    signals: &'a Signals,
}

/// A unit of work for one thread.
enum Job<'a> {
    /// The host's suites. They wait for each other's builds.
    Host,
    /// A boot, with its number.
    Boot(usize, &'a Group),
}

impl Run<'_> {
    /// Runs everything with `jobs` threads, the longest parts first.
    fn all(&self, jobs: usize) -> Result<Vec<SuiteResult>> {
        let groups = self.table.groups();
        let mut estimates = Estimates::load(&self.tools.cache);
        let mut work: Vec<Job> = groups
            .iter()
            .enumerate()
            .map(|(number, group)| Job::Boot(number, group))
            .collect();
        work.sort_by_key(|job| match job {
            Job::Boot(_, group) => std::cmp::Reverse(estimates.of(group)),
            Job::Host => std::cmp::Reverse(std::time::Duration::ZERO),
        });
        if !self.table.host.is_empty() {
            // The host suites are many small steps; the second thread boots in parallel.
            work.insert(0, Job::Host);
        }
        let suites = self.work_off(work, jobs)?;
        estimates.learn(&suites);
        estimates.save();
        Ok(suites)
    }

    fn session<T>(&self, run: impl FnOnce(&Session) -> Result<T>) -> Result<T> {
        run(&Session {
            tools: self.tools,
            kernel: self.kernel,
            assets: &self.tools.assets(true)?,
            logs: self.logs,
            progress: &self.progress,
            signals: self.signals,
        })
    }

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

    /// Repeats failed suites once, each in its own boot with nothing else running. With `steady`, the second result
    /// does not count. Many failures are not repeated, as they are no coincidence.
    fn again(&self, suites: &mut [SuiteResult], steady: bool) -> Result<()> {
        let failed = |suite: &&mut SuiteResult| suite.count().failed > 0;
        if suites.iter_mut().filter(failed).count() > MOST_AGAIN {
            return Ok(());
        }
        let boots = self.table.groups().len();
        for (number, suite) in suites.iter_mut().filter(failed).enumerate() {
            let Some(group) = suite.alone.take() else {
                continue;
            };
            if self.signals.last() != 0 {
                break;
            }
            self.progress
                .note(&format!("once more, alone: {}", suite.title()));
            let mut results = self.session(|session| session.run(boots + number, &group))?;
            if results.iter().any(|result| result.count().failed > 0) {
                continue;
            }
            let second = results.iter().position(|result| result.name != BOOT);
            suite.again = second.map(|position| Again {
                result: Box::new(results.swap_remove(position)),
                counts: !steady,
            });
        }
        Ok(())
    }

    /// Runs the work with `jobs` threads; each takes the next part when it is free. Results are in the order of the
    /// table.
    fn work_off(&self, work: Vec<Job>, jobs: usize) -> Result<Vec<SuiteResult>> {
        let jobs = jobs.min(work.len());
        let queue = Mutex::new(work.into_iter());
        let work = || {
            let mut done = Vec::new();
            while self.signals.last() == 0 {
                // A panic in another thread leaves the iterator intact.
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                match next {
                    Some(Job::Host) => done.push((0, self.host()?)),
                    Some(Job::Boot(number, group)) => {
                        let suites = self.session(|session| session.run(number, group))?;
                        done.push((number + 1, suites));
                    }
                    None => break,
                }
            }
            Ok(done)
        };
        let parts: Vec<Result<Vec<_>>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .map(|thread| {
                    let result = thread.join();
                    result.unwrap_or_else(|_| {
                        Err(anyhow!("the test runner has a mistake: see above"))
                    })
                })
                .collect()
        });
        let mut results = Vec::new();
        for part in parts {
            results.extend(part?);
        }
        results.sort_by_key(|(number, _)| *number);
        Ok(results.into_iter().flat_map(|(_, suites)| suites).collect())
    }
}

/// Maximum number of suites to repeat.
const MOST_AGAIN: usize = 10;

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

/// Makes `dir` an empty folder. Refuses a folder that the runner did not make.
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

/// A file that marks a folder as the runner's.
const MARK: &str = ".galcore-test";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_branch_is_known() {
        assert!(is_main("ref: refs/heads/main\n"));
        assert!(!is_main("ref: refs/heads/main-2\n"));
        assert!(!is_main("0123456789abcdef\n"));
    }

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
