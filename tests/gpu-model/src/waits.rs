// SPDX-License-Identifier: GPL-2.0-only
//! Time that the virtual machine and this model wait for a host processor.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// Total time that the threads of this process and of the machine have waited so far. The file `machine` holds the
/// machine's process number. Waits of threads that have ended do not count.
pub fn so_far(machine: Option<&Path>) -> Duration {
    let own = of_process("self");
    let number = machine.and_then(|file| fs::read_to_string(file).ok());
    own + number.map_or(Duration::ZERO, |number| of_process(number.trim()))
}

fn of_process(name: &str) -> Duration {
    let threads = fs::read_dir(Path::new("/proc").join(name).join("task"));
    let threads = threads.into_iter().flatten().flatten();
    threads
        .filter_map(|thread| parse(&fs::read_to_string(thread.path().join("schedstat")).ok()?))
        .sum()
}

/// The second of three numbers, in nanoseconds.
fn parse(schedstat: &str) -> Option<Duration> {
    let waited = schedstat.split_whitespace().nth(1)?;
    waited.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_words_are_read() {
        assert_eq!(parse("5 2000000 7\n"), Some(Duration::from_millis(2)));
        assert_eq!(parse("5"), None);
    }

    #[test]
    fn the_machine_counts_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("machine");
        let alone = so_far(Some(&file));
        // This process represents the machine.
        fs::write(&file, format!("{}\n", std::process::id())).unwrap();
        assert!(so_far(Some(&file)) >= 2 * alone);
    }
}
