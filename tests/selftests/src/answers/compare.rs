// SPDX-License-Identifier: GPL-2.0-only
//! Answers beside those that were recorded of another driver.

use std::collections::HashMap;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;

/// Between a case's name and what is told of it.
pub const SEPARATOR: &str = " | ";

/// What a table says of a case that the driver, or a process, did not survive.
pub const CRASH: &str = "does not come back";

/// What a driver answered to each case.
#[derive(Debug, Default)]
pub struct Table<'a>(HashMap<&'a str, Vec<&'a str>>);

impl<'a> Table<'a> {
    /// Reads what `answers --print` has written.
    pub fn read(text: &'a str) -> Result<Self> {
        let mut table = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (case, answer) = line.split_once(SEPARATOR).context("no answer")?;
            table.0.entry(case).or_default().push(answer);
        }
        Ok(table)
    }

    /// The answers to a case.
    pub fn of(&self, case: &str) -> Option<&[&'a str]> {
        self.0.get(case).map(Vec::as_slice)
    }

    /// How many cases there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why some cases are answered otherwise.
#[derive(Debug)]
pub struct Difference<'a> {
    pattern: &'a str,
    /// The reason.
    pub reason: &'a str,
}

/// Kinds of reasons.
const KINDS: [&str; 5] = [
    "security",
    "vendor's fault",
    "number only",
    "not built",
    "set-up",
];

/// Reads the list of differences: patterns of cases' names, the kind, the reason.
pub fn differences(text: &str) -> Result<Vec<Difference<'_>>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut differences = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (patterns, reason) = line.split_once(SEPARATOR).context("no reason")?;
        let (kind, _) = reason.split_once(": ").context("no kind")?;
        ensure!(KINDS.contains(&kind), "{line:?}: there is no such kind");
        let patterns = patterns.split_whitespace();
        differences.extend(patterns.map(|pattern| Difference { pattern, reason }));
    }
    Ok(differences)
}

impl Difference<'_> {
    /// Whether it is about this case. `*` stands for anything.
    pub fn is_about(&self, case: &str) -> bool {
        let mut parts = self.pattern.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = case.strip_prefix(first) else {
            return false;
        };
        let mut last = None;
        for part in parts {
            last = Some(part);
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        match last {
            None => rest.is_empty(),
            Some(part) => case.ends_with(part),
        }
    }
}

/// What came of comparing one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same.
    Equal,
    /// Not the same, and there is a reason.
    Explained,
    /// Not the same, and nobody says why.
    Unexplained,
    /// The same, though the list of differences has it.
    Outdated,
}

/// Compares one case's answers.
pub fn verdict(
    case: &str,
    found: &[&str],
    recorded: &[&str],
    differences: &[Difference<'_>],
) -> Verdict {
    let is_listed = differences.iter().any(|one| one.is_about(case));
    let survives = !found.contains(&CRASH);
    match (found == recorded, is_listed) {
        // Whoever does not come back is no example.
        (_, false) if recorded.contains(&CRASH) && survives => Verdict::Explained,
        (true, false) if survives => Verdict::Equal,
        (true, true) => Verdict::Outdated,
        (false, true) if survives => Verdict::Explained,
        _ => Verdict::Unexplained,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_cases() {
        let list = "# A list.\n\nlock/node=* */op=1 | security: why\nend | not built: it\n";
        let list = differences(list).unwrap();
        let about =
            |case: &str| -> Vec<bool> { list.iter().map(|one| one.is_about(case)).collect() };
        assert_eq!(about("lock/node=5"), [true, false, false]);
        assert_eq!(about("lock/op=1"), [false, true, false]);
        assert_eq!(about("lock/op=10"), [false; 3]);
        assert_eq!(about("end"), [false, false, true]);
        assert_eq!(about("the end"), [false; 3]);
        assert!(differences("a | because: why\n").is_err());
    }

    #[test]
    fn nothing_is_passed_over() {
        let table = Table::read("# Of a driver.\na | X -> 0\na | Y -> 0\nb | X -> -1\n").unwrap();
        let list = differences("a | security: why\n").unwrap();
        let told = |case, found: &[&str]| verdict(case, found, table.of(case).unwrap(), &list);
        assert_eq!(table.len(), 2);
        assert_eq!(told("a", &["X -> 0", "Y -> 0"]), Verdict::Outdated);
        assert_eq!(told("a", &["X -> 0", "Y -> -1"]), Verdict::Explained);
        assert_eq!(told("a", &[CRASH]), Verdict::Unexplained);
        assert_eq!(told("b", &["X -> -1"]), Verdict::Equal);
        assert_eq!(told("b", &["X -> 0"]), Verdict::Unexplained);
        assert_eq!(
            verdict("b", &["X -> 0"], &[CRASH], &list),
            Verdict::Explained
        );
        assert_eq!(
            verdict("b", &[CRASH], &[CRASH], &list),
            Verdict::Unexplained
        );
    }

    #[test]
    fn the_lists_can_be_read() {
        let text = include_str!("../../../abi/behaviour/differences.txt");
        differences(text).unwrap();
    }
}
