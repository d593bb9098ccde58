// SPDX-License-Identifier: GPL-2.0-only
//! The board's time: wall time without the time in which the host let the board's processes wait for a processor.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

/// Interval for reading the threads' times.
const LOOK: Duration = Duration::from_millis(200);

/// At least one part in this many of wall time counts, so that every wait ends.
const LEAST: u32 = 5;

/// A clock that runs slower while other processes use the host.
pub struct Clock {
    /// The `task` folders of the processes.
    threads: Vec<PathBuf>,
    /// The last known times of each thread.
    last: BTreeMap<PathBuf, Shares>,
    looked: Instant,
    counted: Duration,
    processor_time: Duration,
}

/// The times of a thread, from the kernel's scheduler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Shares {
    /// Time on a processor.
    ran: Duration,
    /// Time runnable without a processor.
    waited: Duration,
}

impl Clock {
    /// Starts at 0.
    pub fn new() -> Clock {
        Clock {
            threads: Vec::new(),
            last: BTreeMap::new(),
            looked: Instant::now(),
            counted: Duration::ZERO,
            processor_time: Duration::ZERO,
        }
    }

    /// Adds a process, with its threads.
    pub fn add(&mut self, process: u32) {
        self.threads
            .push(PathBuf::from(format!("/proc/{process}/task")));
    }

    /// The current time, with a granularity of [`LOOK`].
    pub fn now(&mut self) -> Duration {
        if self.looked.elapsed() >= LOOK {
            self.look();
        }
        self.counted
    }

    /// Processor time of the processes so far.
    pub fn processor_time(&mut self) -> Duration {
        self.look();
        self.processor_time
    }

    fn look(&mut self) {
        let passed = self.looked.elapsed();
        self.looked += passed;
        let mut now = BTreeMap::new();
        for folder in &self.threads {
            // A process that has ended has no threads.
            for thread in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = thread.path();
                if let Some(shares) = shares(&path) {
                    now.insert(path, shares);
                }
            }
        }
        let (ran, waited) = since(&self.last, &now);
        self.processor_time += ran;
        self.counted += counted(passed, waited);
        self.last = now;
    }
}

/// `None` if the host's kernel has no statistics, or the thread has ended.
fn shares(thread: &Path) -> Option<Shares> {
    parse(&fs::read_to_string(thread.join("schedstat")).ok()?)
}

fn parse(schedstat: &str) -> Option<Shares> {
    let mut numbers = schedstat.split_whitespace().map(|n| n.parse().ok());
    let mut time = || numbers.next().flatten().map(Duration::from_nanos);
    Some(Shares {
        ran: time()?,
        waited: time()?,
    })
}

/// The total of all threads' times since `last`, and the longest wait of a single thread.
fn since(
    last: &BTreeMap<PathBuf, Shares>,
    now: &BTreeMap<PathBuf, Shares>,
) -> (Duration, Duration) {
    let mut ran = Duration::ZERO;
    let mut waited = Duration::ZERO;
    for (thread, shares) in now {
        let before = last.get(thread).copied().unwrap_or_default();
        ran += shares.ran.saturating_sub(before.ran);
        waited = waited.max(shares.waited.saturating_sub(before.waited));
    }
    (ran, waited)
}

/// The part of the elapsed time that counts.
fn counted(passed: Duration, waited: Duration) -> Duration {
    passed.saturating_sub(waited).max(passed / LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_schedulers_words_are_read() {
        let shares = Shares {
            ran: ms(1),
            waited: ms(2),
        };
        assert_eq!(parse("1000000 2000000 7\n"), Some(shares));
        assert_eq!(parse("1000000"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_board_that_waits_for_the_host_has_time() {
        assert_eq!(counted(ms(200), ms(0)), ms(200));
        assert_eq!(counted(ms(200), ms(150)), ms(50));
        assert_eq!(counted(ms(200), ms(1000)), ms(40));
        let thread = |name: &str, ran, waited| (PathBuf::from(name), Shares { ran, waited });
        let last = [thread("a", ms(10), ms(5))].into();
        let now = [thread("a", ms(30), ms(6)), thread("b", ms(7), ms(9))].into();
        assert_eq!(since(&last, &now), (ms(27), ms(9)));
    }

    #[test]
    fn work_of_this_process_is_seen() {
        let mut clock = Clock::new();
        clock.add(std::process::id());
        let begin = Instant::now();
        while begin.elapsed() < ms(50) {
            std::hint::spin_loop();
        }
        // A kernel without scheduler statistics reports nothing.
        if Path::new("/proc/self/schedstat").exists() {
            assert!(clock.processor_time() >= ms(1));
        }
        assert!(clock.counted <= begin.elapsed());
    }
}
