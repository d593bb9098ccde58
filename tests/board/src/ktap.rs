// SPDX-License-Identifier: GPL-2.0-only
//! Parser for KTAP, the kernel's test output format, from programs and from KUnit.

/// The outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The test passed.
    Passed,
    /// The test failed.
    Failed,
    /// The test could not run here.
    Skipped,
}

/// A test without subtests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Names from the outermost suite inward, joined by '/'.
    pub name: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// Lines before its result, or the reason for skipping.
    pub detail: Vec<String>,
}

/// Maximum number of detail lines kept per case.
const MOST_DETAIL: usize = 40;

#[derive(Default)]
struct Level {
    indent: usize,
    plan: Option<usize>,
    results: usize,
    cases: Vec<Case>,
    detail: Vec<String>,
}

impl Level {
    /// Adds a failure if the number of results differs from the plan.
    fn check_plan(&mut self) {
        if let Some(plan) = self.plan.take() {
            if plan != self.results {
                self.cases.push(Case {
                    name: "plan".to_string(),
                    outcome: Outcome::Failed,
                    detail: vec![format!(
                        "{plan} results were announced, {} came",
                        self.results
                    )],
                });
            }
        }
        self.results = 0;
    }

    fn note(&mut self, line: &str) {
        if self.detail.len() < MOST_DETAIL {
            self.detail.push(line.to_string());
        }
    }
}

/// Parses all cases in `text`, in order. Lines that are not KTAP become details of the next result.
pub fn parse(text: &str) -> Vec<Case> {
    let mut levels = vec![Level::default()];
    for line in text.lines() {
        let line = line.trim_end();
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        match Line::of(content) {
            Line::Version => {
                let level = level_at(&mut levels, indent);
                level.check_plan();
                level.detail.clear();
            }
            Line::Plan(count) => {
                let level = level_at(&mut levels, indent);
                level.check_plan();
                level.plan = Some(count);
            }
            Line::Result(result) => {
                let below = close_below(&mut levels, indent);
                add_result(level_at(&mut levels, indent), result, below);
            }
            Line::BailOut(reason) => {
                let level = level_at(&mut levels, indent);
                level.cases.push(Case {
                    name: "bail out".to_string(),
                    outcome: Outcome::Failed,
                    detail: vec![reason.to_string()],
                });
            }
            Line::Other if content.is_empty() => {}
            Line::Other => {
                if let Some(level) = levels.last_mut() {
                    level.note(content);
                }
            }
        }
    }
    let mut cases = Vec::new();
    for mut level in levels {
        level.check_plan();
        cases.append(&mut level.cases);
    }
    cases
}

/// The level with this indentation. Opens it if it is deeper than the current one.
fn level_at(levels: &mut Vec<Level>, indent: usize) -> &mut Level {
    let position = match levels.iter().position(|level| level.indent >= indent) {
        Some(position) => position,
        None => {
            levels.push(Level {
                indent,
                ..Level::default()
            });
            levels.len() - 1
        }
    };
    &mut levels[position]
}

/// Ends the levels deeper than `indent`. Their cases belong to the next result.
fn close_below(levels: &mut Vec<Level>, indent: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    while levels.len() > 1 && levels[levels.len() - 1].indent > indent {
        if let Some(mut level) = levels.pop() {
            level.check_plan();
            level.cases.append(&mut cases);
            cases = level.cases;
        }
    }
    cases
}

fn add_result(level: &mut Level, result: TestResult, below: Vec<Case>) {
    level.results += 1;
    let detail = std::mem::take(&mut level.detail);
    if below.is_empty() {
        let reason = result.reason.map(str::to_string);
        level.cases.push(Case {
            name: result.name.to_string(),
            outcome: result.outcome,
            detail: detail.into_iter().chain(reason).collect(),
        });
        return;
    }
    let explained = below.iter().any(|case| case.outcome == Outcome::Failed);
    level.cases.extend(below.into_iter().map(|case| Case {
        name: format!("{}/{}", result.name, case.name),
        ..case
    }));
    if result.outcome == Outcome::Failed && !explained {
        level.cases.push(Case {
            name: result.name.to_string(),
            outcome: Outcome::Failed,
            detail,
        });
    }
}

struct TestResult<'a> {
    outcome: Outcome,
    name: &'a str,
    reason: Option<&'a str>,
}

enum Line<'a> {
    Version,
    Plan(usize),
    Result(TestResult<'a>),
    BailOut(&'a str),
    Other,
}

impl<'a> Line<'a> {
    fn of(content: &'a str) -> Line<'a> {
        if content.starts_with("KTAP version") || content.starts_with("TAP version") {
            return Line::Version;
        }
        if let Some(reason) = content.strip_prefix("Bail out!") {
            return Line::BailOut(reason.trim());
        }
        if let Some(plan) = content.strip_prefix("1..") {
            let count = plan.split_whitespace().next().unwrap_or("");
            return count.parse().map_or(Line::Other, Line::Plan);
        }
        let (passed, rest) = if let Some(rest) = content.strip_prefix("ok ") {
            (true, rest)
        } else if let Some(rest) = content.strip_prefix("not ok ") {
            (false, rest)
        } else {
            return Line::Other;
        };
        let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        if number.parse::<u64>().is_err() {
            return Line::Other;
        }
        Line::Result(TestResult::of(passed, number, rest))
    }
}

impl<'a> TestResult<'a> {
    fn of(passed: bool, number: &'a str, rest: &'a str) -> TestResult<'a> {
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("- ").unwrap_or(rest);
        let (name, directive) = rest.split_once('#').unwrap_or((rest, ""));
        let name = name.trim();
        let directive = directive.trim();
        let word = directive.split_whitespace().next().unwrap_or("");
        let skipped = ["SKIP", "TODO", "XFAIL"]
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known));
        TestResult {
            outcome: match (passed, skipped) {
                (_, true) => Outcome::Skipped,
                (true, false) => Outcome::Passed,
                (false, false) => Outcome::Failed,
            },
            name: if name.is_empty() { number } else { name },
            reason: (!directive.is_empty()).then_some(directive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cases: &[Case]) -> Vec<(&str, Outcome)> {
        cases
            .iter()
            .map(|case| (case.name.as_str(), case.outcome))
            .collect()
    }

    #[test]
    fn a_flat_program() {
        let cases = parse(
            "TAP version 13\n1..3\n# looks at a\nok 1 - a\nwhat b saw\nnot ok 2 b\nok 3 c # SKIP no 2D\n",
        );
        assert_eq!(
            names(&cases),
            [
                ("a", Outcome::Passed),
                ("b", Outcome::Failed),
                ("c", Outcome::Skipped)
            ]
        );
        assert_eq!(cases[1].detail, ["what b saw"]);
        assert_eq!(cases[2].detail, ["SKIP no 2D"]);
    }

    #[test]
    fn kunit_suites_nest() {
        let cases = parse(
            "\
KTAP version 1
1..2
    KTAP version 1
    # Subtest: heap
    # module: galcore
    1..2
    ok 1 splits
    # merges: EXPECTATION FAILED at src/memory/heap.rs:1
    not ok 2 merges
# heap: pass:1 fail:1 skip:0 total:2
not ok 1 heap
    KTAP version 1
    # Subtest: words
    1..1
    ok 1 link
# words: pass:1 fail:0 skip:0 total:1
ok 2 words
",
        );
        assert_eq!(
            names(&cases),
            [
                ("heap/splits", Outcome::Passed),
                ("heap/merges", Outcome::Failed),
                ("words/link", Outcome::Passed)
            ]
        );
        assert!(cases[1].detail.iter().any(|l| l.contains("EXPECTATION")));
    }

    #[test]
    fn missing_results_fail() {
        let cases = parse("1..3\nok 1 a\n");
        assert_eq!(
            names(&cases),
            [("a", Outcome::Passed), ("plan", Outcome::Failed)]
        );
    }

    #[test]
    fn a_suite_that_fails_on_its_own_is_a_case() {
        let cases = parse("1..1\n    1..1\n    ok 1 a\nnot ok 1 suite\n");
        assert_eq!(
            names(&cases),
            [("suite/a", Outcome::Passed), ("suite", Outcome::Failed)]
        );
    }

    #[test]
    fn a_suite_cut_off_in_the_middle_keeps_its_cases() {
        let cases = parse("1..1\n    1..2\n    ok 1 a\n");
        assert_eq!(
            names(&cases),
            [
                ("plan", Outcome::Failed),
                ("a", Outcome::Passed),
                ("plan", Outcome::Failed)
            ]
        );
    }

    #[test]
    fn two_documents_after_each_other() {
        let cases = parse("KTAP version 1\n1..1\nok 1 a\nKTAP version 1\n1..1\nok 1 b\n");
        assert_eq!(
            names(&cases),
            [("a", Outcome::Passed), ("b", Outcome::Passed)]
        );
    }

    #[test]
    fn bail_out_and_words_that_only_look_like_results() {
        let cases = parse("ok then\nnot ok at all\nBail out! no device\n");
        assert_eq!(names(&cases), [("bail out", Outcome::Failed)]);
        assert_eq!(cases[0].detail, ["no device"]);
    }
}
