// SPDX-License-Identifier: GPL-2.0-only
//! Answers beside those that were recorded of another driver, and those that this one gave when a difference was judged.

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

    /// The cases.
    pub fn cases(&self) -> impl Iterator<Item = &'a str> + use<'_, 'a> {
        self.0.keys().copied()
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
    kind: &'a str,
}

/// Of what is only there as the other driver was loaded otherwise.
const SET_UP: &str = "set-up";

/// Kinds of reasons.
const KINDS: [&str; 5] = [
    "security",
    "vendor's fault",
    "number only",
    "not built",
    SET_UP,
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
        differences.extend(patterns.map(|pattern| Difference { pattern, kind }));
    }
    Ok(differences)
}

impl Difference<'_> {
    /// Whether there is none where both drivers are loaded alike.
    pub fn is_set_up(&self) -> bool {
        self.kind == SET_UP
    }

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
    /// Not the same, there is a reason, and it is the answer that the reason is about.
    Explained,
    /// Not the same, and there is a reason for another answer.
    Changed,
    /// Not the same, and nobody says why.
    Unexplained,
    /// The same, though the list of differences or this driver's table has it.
    Outdated,
}

/// Compares one case's answers with those of the other driver, and where there is a reason to differ with `ours`, those
/// of this one that the reason is about.
pub fn verdict(
    case: &str,
    found: &[&str],
    recorded: &[&str],
    ours: Option<&[&str]>,
    differences: &[Difference<'_>],
) -> Verdict {
    let is_listed = is_listed(case, differences);
    // Whoever does not come back is no example.
    let is_reason = is_listed || recorded.contains(&CRASH);
    match ours {
        _ if found.contains(&CRASH) => Verdict::Unexplained,
        None if found == recorded && !is_listed => Verdict::Equal,
        _ if found == recorded => Verdict::Outdated,
        _ if !is_reason => Verdict::Unexplained,
        Some(ours) if ours == found => Verdict::Explained,
        _ => Verdict::Changed,
    }
}

fn is_listed(case: &str, differences: &[Difference<'_>]) -> bool {
    differences.iter().any(|one| one.is_about(case))
}

#[cfg(test)]
mod tests {
    use gpu_control::Board;

    use super::*;
    use crate::answers::cases;
    use crate::answers::recording;
    use crate::answers::CASES;
    use crate::answers::DIFFERENCES;

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
        let table = "# Of a driver.\na | X -> 0\na | Y -> 0\nb | X -> -1\nc | does not come back\n";
        let table = Table::read(table).unwrap();
        let ours = Table::read("a | X -> 0\na | Y -> -1\nc | X -> -1\n").unwrap();
        let list = differences("a | security: why\n").unwrap();
        let told = |case, found: &[&str]| {
            verdict(case, found, table.of(case).unwrap(), ours.of(case), &list)
        };
        assert_eq!(table.len(), 3);
        assert_eq!(told("a", &["X -> 0", "Y -> 0"]), Verdict::Outdated);
        assert_eq!(told("a", &["X -> 0", "Y -> -1"]), Verdict::Explained);
        assert_eq!(told("a", &["X -> 0", "Y -> -2"]), Verdict::Changed);
        assert_eq!(told("a", &[CRASH]), Verdict::Unexplained);
        assert_eq!(told("b", &["X -> -1"]), Verdict::Equal);
        assert_eq!(told("b", &["X -> 0"]), Verdict::Unexplained);
        assert_eq!(told("c", &["X -> -1"]), Verdict::Explained);
        assert_eq!(told("c", &["X -> 0"]), Verdict::Changed);
        assert_eq!(told("c", &[CRASH]), Verdict::Unexplained);
        // What nobody has kept is not compared with nothing.
        let found = ["X -> 0", "Y -> -1"];
        let recorded = table.of("a").unwrap();
        assert_eq!(
            verdict("a", &found, recorded, None, &list),
            Verdict::Changed
        );
    }

    #[test]
    fn the_lists_agree() {
        let list = differences(DIFFERENCES).unwrap();
        let mut used = vec![false; list.len()];
        for board in Board::ALL {
            let Some(recording) = recording(board) else {
                continue;
            };
            let table = Table::read(recording.theirs).unwrap();
            let ours = Table::read(recording.ours).unwrap();
            let known = cases::read(CASES).unwrap();
            let (mut equal, mut all) = (0, 0);
            for case in &known {
                let case = case.name.as_str();
                let (theirs, kept) = (table.of(case), ours.of(case));
                if let Some(theirs) = theirs.filter(|theirs| !theirs.contains(&CRASH)) {
                    let same = kept.unwrap_or(theirs).iter().zip(theirs);
                    equal += same.filter(|(ours, theirs)| ours == theirs).count();
                    all += theirs.len();
                }
                assert!(theirs.is_some(), "{case} was not recorded");
                let has_reason = is_listed(case, &list) || theirs.unwrap().contains(&CRASH);
                assert_eq!(has_reason, kept.is_some(), "{case}: reason, and our answer");
                assert_ne!(theirs, kept, "{case} is no difference");
                for (used, one) in used.iter_mut().zip(&list) {
                    *used |= kept.is_some() && one.is_about(case);
                }
            }
            assert!(equal * 10 >= all * 9, "{equal} of {all} answers are equal");
            let is_known = |name: &str| known.iter().any(|case| case.name == name);
            let unknown: Vec<_> = ours.cases().filter(|case| !is_known(case)).collect();
            assert!(unknown.is_empty(), "{unknown:?}");
        }
        for (one, used) in list.iter().zip(used) {
            assert!(used, "{} is about nothing", one.pattern);
        }
    }
}
