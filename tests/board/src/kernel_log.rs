// SPDX-License-Identifier: GPL-2.0-only
//! Searches the guest's kernel log for messages that must not occur.

/// Messages that mean an error in the kernel, and their names. None of them appears in a clean boot.
const TROUBLE: &[(&str, &str)] = &[
    (PANIC, "panic"),
    ("Internal error: ", "oops"),
    ("Unable to handle kernel", "oops"),
    ("Unhandled fault: ", "oops"),
    ("Unhandled prefetch abort", "oops"),
    ("Bad mode in ", "oops"),
    ("Division by zero in kernel", "division by zero"),
    ("KASAN: ", "KASAN"),
    ("UBSAN: ", "UBSAN"),
    ("KFENCE: ", "KFENCE"),
    ("possible circular locking dependency", "lockdep"),
    ("possible recursive locking", "lockdep"),
    ("possible irq lock inversion", "lockdep"),
    ("inconsistent lock state", "lockdep"),
    ("Invalid wait context", "lockdep"),
    ("bad unlock balance", "lockdep"),
    ("held lock freed", "lockdep"),
    ("lock held when returning to user space", "lockdep"),
    ("locks held at exit", "lockdep"),
    ("INFO: trying to register non-static key", "lockdep"),
    ("DEBUG_LOCKS_WARN_ON", "lockdep"),
    ("suspicious RCU usage", "RCU"),
    ("detected stall", "RCU stall"),
    ("detected stalls", "RCU stall"),
    ("detected expedited stalls", "RCU stall"),
    (" blocked for more than ", "hung task"),
    ("nobody cared", "interrupt"),
    ("Disabling IRQ #", "interrupt"),
    ("refcount_t: ", "refcount"),
    ("new suspected memory leaks", "kmemleak"),
    ("page allocation failure", "memory"),
    ("Bad page state", "memory"),
    ("cannot create duplicate filename", "sysfs"),
    ("rust_kernel: panicked at", "Rust panic"),
    ("BUG: ", "BUG"),
    ("kernel BUG at ", "BUG"),
    ("WARNING: ", "WARNING"),
    ("------------[ cut here ]------------", "WARNING"),
];

/// Warnings about races in the kernel itself. printk (Linux 7.3): one CPU finds the consoles running, another suspends
/// them, and the first wakes their threads.
const OF_KERNEL: &[&str] = &[" at nbcon_kthreads_wake+"];

/// The kernel's panic message.
const PANIC: &str = "Kernel panic - not syncing";

/// Number of lines shown before a finding.
const BEFORE: usize = 3;

/// Maximum number of lines of a finding. Reports of lockdep and oopses are the longest.
const MOST: usize = 200;

/// Prefix of the lines of the guest's `/init` in the log.
const MARK: &str = "galcore-board: ";

/// A report of the kernel, with context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind, in one or two words.
    pub kind: &'static str,
    /// Index of the line that was recognized, from 0.
    pub line: usize,
    /// The program that was running.
    pub task: Option<usize>,
    /// The lines to show.
    pub text: Vec<String>,
}

/// A line without printk's time stamp and caller.
pub fn message(line: &str) -> &str {
    let mut rest = line;
    while let Some(after) = rest.strip_prefix('[') {
        let Some((inside, tail)) = after.split_once(']') else {
            break;
        };
        let inside = inside.trim_start();
        let stamp = inside.chars().all(|c| c.is_ascii_digit() || c == '.');
        let caller = inside.starts_with(['T', 'C'])
            && inside.len() > 1
            && inside[1..].chars().all(|c| c.is_ascii_digit());
        if !stamp && !caller {
            break;
        }
        rest = tail;
    }
    if rest.len() < line.len() {
        rest.strip_prefix(' ').unwrap_or(rest)
    } else {
        line
    }
}

fn trouble(line: &str) -> Option<&'static str> {
    let message = message(line);
    if message.starts_with(MARK) {
        return None;
    }
    TROUBLE
        .iter()
        .find(|(needle, _)| message.contains(needle))
        .map(|&(_, kind)| kind)
}

/// The message of the guest's `/init` on this line.
fn mark(line: &str) -> Option<&str> {
    message(line).strip_prefix(MARK)
}

/// The release of the kernel that wrote `log`, in the format of uname.
pub fn release(log: &str) -> Option<&str> {
    log.lines()
        .find_map(|line| message(line).strip_prefix("Linux version "))
        .and_then(|rest| rest.split_whitespace().next())
}

/// The reports in `log`, in order. A report inside the lines of another one is part of it.
pub fn scan(log: &str) -> Vec<Finding> {
    let lines: Vec<&str> = log.lines().collect();
    let tasks = tasks_of_lines(&lines);
    let mut findings = Vec::new();
    let mut next = 0;
    while next < lines.len() {
        let Some(mut kind) = trouble(lines[next]) else {
            next += 1;
            continue;
        };
        let first = next.saturating_sub(BEFORE);
        let end = end_of_report(&lines, next);
        let warns_of = |line: &&str| OF_KERNEL.iter().any(|place| line.contains(place));
        let named = lines[next..end]
            .iter()
            .find(|line| line.contains("WARNING: "));
        if named.is_some_and(warns_of) {
            next = end;
            continue;
        }
        // "cut here" precedes every kind of report; the following lines are more specific.
        if lines[next].contains("[ cut here ]") {
            kind = lines[next + 1..end]
                .iter()
                .find_map(|line| trouble(line))
                .unwrap_or(kind);
        }
        findings.push(Finding {
            kind,
            line: next,
            task: tasks[next],
            text: lines[first..end]
                .iter()
                .filter(|line| !is_dump(line))
                .map(|line| line.to_string())
                .collect(),
        });
        next = end;
    }
    findings
}

/// Whether a line belongs to a dump of raw memory or of decoded registers. ARM prints many of these lines; kernel.log
/// has them all.
fn is_dump(line: &str) -> bool {
    let message = message(line);
    if message.starts_with("Register r") && message.contains(" information:") {
        return true;
    }
    message.split_once(": ").is_some_and(|(address, words)| {
        address.len() == 4
            && address.bytes().all(|b| b.is_ascii_hexdigit())
            && words
                .split_whitespace()
                .all(|word| word.len() == 8 && word.bytes().all(|b| b.is_ascii_hexdigit()))
    })
}

/// Index after the last line of the report that starts at `start`.
fn end_of_report(lines: &[&str], start: usize) -> usize {
    let limit = lines.len().min(start + MOST);
    for (index, line) in lines.iter().enumerate().take(limit).skip(start + 1) {
        if mark(line).is_some() {
            return index;
        }
        if message(line).starts_with("---[ end ") {
            // A panic after an oops is part of the same report.
            let then = lines.get(index + 1).is_some_and(|l| l.contains(PANIC));
            return if then { index + 2 } else { index + 1 };
        }
    }
    limit
}

/// The program that was running at each line. Unloading the module counts to the program before, and loading it to
/// the program after.
fn tasks_of_lines(lines: &[&str]) -> Vec<Option<usize>> {
    let (mut current, mut last) = (None, None);
    lines
        .iter()
        .map(|line| {
            let mut of_line = current;
            if let Some(words) = mark(line) {
                let words: Vec<&str> = words.split_whitespace().collect();
                let number = |word: &str| word.parse().ok();
                let begun = match words[..] {
                    ["program", index, "begins"] | ["loading", index] => number(index),
                    ["unloading"] => last,
                    ["program", _, "ends", ..] | ["loaded" | "unloaded", ..] => {
                        current = None;
                        None
                    }
                    _ => None,
                };
                if begun.is_some() {
                    (of_line, current, last) = (begun, begun, begun);
                }
            }
            of_line
        })
        .collect()
}

/// The part of `log` from the time when program `task` ran.
pub fn of_task(log: &str, task: usize) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let tasks = tasks_of_lines(&lines);
    let mut text = String::new();
    for (line, of) in lines.iter().zip(tasks) {
        if of == Some(task) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The messages between "loading" and "loaded", without time stamps. The module's KUnit suites report there.
pub fn of_loading(log: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for line in log.lines() {
        match mark(line) {
            Some("loading") => inside = true,
            Some(_) => inside = false,
            None if inside => {
                text.push_str(message(line));
                text.push('\n');
            }
            None => {}
        }
    }
    text
}

/// The driver's own lines, which explain why it did not load.
pub fn of_driver(log: &str) -> Vec<String> {
    log.lines()
        .filter(|line| mark(line).is_none() && message(line).contains("galcore"))
        .map(|line| message(line).to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "\
[    0.000000] Booting Linux on physical CPU 0x0
[    0.000000] Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
[    0.000000] rcu: \tRCU lockdep checking is enabled.
[    0.100000] galcore: loading out-of-tree module taints kernel.
[    0.200000] galcore-board: program 0 begins
[    0.300000] galcore-board: program 0 ends with 0
";

    #[test]
    fn the_kernel_says_its_release() {
        let log = "Booting\n[    0.000000] Linux version 7.2.12+deb14-armmp (debian@x) (gcc)\n";
        assert_eq!(release(log), Some("7.2.12+deb14-armmp"));
        assert_eq!(release("nothing"), None);
    }

    #[test]
    fn stamps_and_callers_are_stripped() {
        assert_eq!(message("[    1.234567] galcore: hello"), "galcore: hello");
        assert_eq!(message("[    1.234567][   T12] x"), "x");
        assert_eq!(message("[    1.5]     ok 1 name"), "    ok 1 name");
        assert_eq!(message("[drm] nothing"), "[drm] nothing");
        assert_eq!(message("no stamp"), "no stamp");
    }

    #[test]
    fn a_clean_log_has_no_findings() {
        assert_eq!(scan(CLEAN), []);
    }

    #[test]
    fn a_race_of_the_kernel_is_no_finding() {
        let log = "\
[    1.0] ------------[ cut here ]------------
[    1.0] WARNING: kernel/printk/nbcon.c:1325 at nbcon_kthreads_wake+0x60/0x80, CPU#1: power/71
[    1.0] Call trace:
[    1.0]  vprintk_emit from _printk+0x3c/0x48
[    1.0] ---[ end trace 0000000000000000 ]---
";
        assert_eq!(scan(log), []);
        let other = "[    2.0] WARNING: mm/slab.c:12 at kfree+0x12/0x30, CPU#0: init/1\n";
        assert_eq!(scan(&format!("{log}{other}")).len(), 1);
        let by_another = log.replace("nbcon_kthreads_wake", "galcore");
        assert_eq!(scan(&by_another).len(), 1);
    }

    #[test]
    fn a_warning_is_found_with_context_and_program() {
        let log = format!(
            "{CLEAN}\
[    1.0] galcore-board: program 1 begins
[    1.1] galcore: before
[    1.2] ------------[ cut here ]------------
[    1.2] WARNING: CPU: 0 PID: 1 at x.c:1
[    1.3] ---[ end trace 0000000000000000 ]---
[    1.4] after
[    1.5] galcore-board: program 1 ends with 0
[    1.6] BUG: scheduling while atomic: x
"
        );
        let findings = scan(&log);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].kind, "WARNING");
        assert_eq!(findings[0].task, Some(1));
        assert_eq!(findings[0].text.len(), BEFORE + 3);
        assert!(findings[0].text.last().unwrap().contains("---[ end trace"));
        assert_eq!(findings[1].kind, "BUG");
        assert_eq!(findings[1].task, None);
    }

    #[test]
    fn kinds_are_told_apart() {
        let cases = [
            ("Internal error: Oops: 5 [#1] SMP ARM", "oops"),
            (
                "INFO: task x:12 blocked for more than 30 seconds.",
                "hung task",
            ),
            (
                "rcu: INFO: rcu_sched self-detected stall on CPU",
                "RCU stall",
            ),
            ("irq 36: nobody cared (try booting with", "interrupt"),
            ("BUG: KASAN: slab-use-after-free in x", "KASAN"),
            (
                "WARNING: possible circular locking dependency detected",
                "lockdep",
            ),
            ("Kernel panic - not syncing: x", "panic"),
            ("rust_kernel: panicked at src/x.rs:1:1:", "Rust panic"),
        ];
        for (line, kind) in cases {
            let findings = scan(&format!("[    1.0] {line}\n"));
            assert_eq!(findings.len(), 1, "{line}");
            assert_eq!(findings[0].kind, kind, "{line}");
        }
    }

    #[test]
    fn an_oops_that_ends_in_a_panic_is_one_finding_without_dumps() {
        let mut log = String::from("Internal error: Oops: 5 [#1] SMP ARM\n");
        for _ in 0..64 {
            log.push_str("[    1.0] d5e0:                   000186a0 00000004\n");
        }
        log.push_str("Register r0 information: NULL pointer\nCall trace:\n");
        log.push_str("---[ end trace 0000000000000000 ]---\n");
        log.push_str("Kernel panic - not syncing: Fatal exception\n");
        let findings = scan(&log);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].text[1..],
            [
                "Call trace:",
                "---[ end trace 0000000000000000 ]---",
                "Kernel panic - not syncing: Fatal exception"
            ]
        );
    }

    #[test]
    fn the_log_splits_by_program() {
        let log =
            "a\ngalcore-board: program 3 begins\nb\ngalcore-board: program 3 ends with 0\nc\n";
        assert_eq!(
            of_task(log, 3),
            "galcore-board: program 3 begins\nb\ngalcore-board: program 3 ends with 0\n"
        );
        assert_eq!(of_task(log, 2), "");
    }

    #[test]
    fn what_comes_of_unloading_and_loading_is_a_programs() {
        let marks = [
            "loading 0",
            "WARNING: a",
            "loaded",
            "WARNING: b",
            "program 0 begins",
            "program 0 ends with 0",
            "unloading",
            "WARNING: c",
            "unloaded",
            "loading 1",
            "WARNING: d",
            "loaded not",
            "unloading",
            "WARNING: e",
        ];
        let log: String = marks
            .iter()
            .map(|line| {
                if line.starts_with("WARNING") {
                    format!("{line}\n---[ end trace 0 ]---\n")
                } else {
                    format!("galcore-board: {line}\n")
                }
            })
            .collect();
        let tasks: Vec<_> = scan(&log).iter().map(|finding| finding.task).collect();
        assert_eq!(tasks, [Some(0), None, Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn the_loading_part_is_cut_out() {
        let log = "x\n[ 1.0] galcore-board: loading\n[ 1.0]     ok 1 a\n[ 1.0] galcore-board: loaded\ny\n";
        assert_eq!(of_loading(log), "    ok 1 a\n");
    }
}
