// SPDX-License-Identifier: GPL-2.0-only
//! Results: counts, display, files.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use super::suites::Group;
use crate::ktap::Case;
use crate::ktap::Outcome;

/// Suite name of the results of a boot itself.
pub const BOOT: &str = "boot";

/// Number of slowest suites that are listed.
const SLOWEST: usize = 10;

/// The result of one suite in one place.
#[derive(Debug, Default)]
pub struct SuiteResult {
    /// The suite's name.
    pub name: String,
    /// Where it ran: host or a board.
    pub place: String,
    /// Its tests.
    pub cases: Vec<Case>,
    /// Text to print if a test failed.
    pub notes: Vec<String>,
    /// Folder or file with its whole output.
    pub log: PathBuf,
    /// Run time.
    pub time: Duration,
    /// Host processor time of its board.
    pub processor_time: Duration,
    /// A boot of its own, for a second run.
    pub alone: Option<Box<Group>>,
    /// Result of the second run.
    pub again: Option<Again>,
}

/// A second run that passed, of a suite that had failed.
#[derive(Debug)]
pub struct Again {
    /// Its result.
    pub result: Box<SuiteResult>,
    /// Whether this result replaces the first one.
    pub counts: bool,
}

/// Numbers of tests by outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that could not run here.
    pub skipped: usize,
}

impl Count {
    fn of(cases: &[Case]) -> Count {
        let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count();
        Count {
            passed: count(Outcome::Passed),
            failed: count(Outcome::Failed),
            skipped: count(Outcome::Skipped),
        }
    }

    /// "N passed, N failed, N skipped"
    pub fn summary(&self) -> String {
        let Count {
            passed,
            failed,
            skipped,
        } = self;
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }
}

impl SuiteResult {
    /// Counts its tests by outcome.
    pub fn count(&self) -> Count {
        Count::of(&self.that_counts().cases)
    }

    fn that_counts(&self) -> &SuiteResult {
        match &self.again {
            Some(again) if again.counts => &again.result,
            _ => self,
        }
    }

    /// Its name and place, which identify it in another run.
    pub fn title(&self) -> String {
        format!("{} ({})", self.name, self.place)
    }

    /// A line for the progress display.
    pub fn line(&self) -> String {
        let count = self.count();
        let word = match (count.failed, count.passed, count.skipped) {
            (1.., ..) => "FAIL",
            (0, 0, 1..) => "SKIP",
            _ => "ok  ",
        };
        format!(
            "{word} {}: {} in {:.1} s, {:.1} s of processors",
            self.title(),
            count.summary(),
            self.time.as_secs_f64(),
            self.processor_time.as_secs_f64()
        )
    }
}

/// A test case that the runner itself adds.
pub fn case(name: &str, outcome: Outcome, detail: Vec<String>) -> Case {
    Case {
        name: name.to_string(),
        outcome,
        detail,
    }
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Results {
    /// The results of each suite in each place.
    pub suites: Vec<SuiteResult>,
    /// The kernel's release, if one ran.
    pub kernel: Option<String>,
}

impl From<Vec<SuiteResult>> for Results {
    fn from(suites: Vec<SuiteResult>) -> Results {
        Results {
            suites,
            kernel: None,
        }
    }
}

impl Results {
    /// Counts the tests by outcome.
    pub fn count(&self) -> Count {
        let mut total = Count::default();
        for suite in &self.suites {
            let count = suite.count();
            total.passed += count.passed;
            total.failed += count.failed;
            total.skipped += count.skipped;
        }
        total
    }

    /// The last line of a run.
    pub fn summary(&self) -> String {
        self.count().summary()
    }

    /// The failures, with details.
    pub fn failures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for suite in &self.suites {
            if Count::of(&suite.cases).failed == 0 {
                continue;
            }
            lines.push(String::new());
            lines.push(format!("==== {} ====", suite.title()));
            for case in &suite.cases {
                if case.outcome == Outcome::Failed {
                    lines.push(format!("FAILED: {}", case.name));
                    lines.extend(case.detail.iter().map(|line| format!("    {line}")));
                }
            }
            lines.extend(suite.notes.iter().cloned());
            lines.push(format!("everything it printed: {}", suite.log.display()));
            if let Some(again) = &suite.again {
                let what = if again.counts {
                    "that is what counts"
                } else {
                    "it counts as failed all the same"
                };
                lines.push(format!(
                    "UNSTEADY: run again alone it passed, and {what}: {}",
                    again.result.log.display()
                ));
                lines.extend(again.result.notes.iter().cloned());
            }
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines
    }

    /// A line for each suite that did not run, with the reason.
    pub fn not_run(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for suite in &self.suites {
            let count = suite.count();
            if count.skipped > 0 && count.passed + count.failed == 0 {
                // The last detail is the reason; earlier ones are output.
                let mut reasons = suite.cases.iter().filter_map(|case| case.detail.last());
                let reason = reasons.next().map_or("it does not say why", String::as_str);
                lines.push(format!("NOT RUN: {}: {reason}", suite.title()));
            }
        }
        lines
    }

    /// The slowest suites, and the total time.
    pub fn times(&self, passed: Duration) -> Vec<String> {
        let (boots, mut suites): (Vec<_>, Vec<_>) =
            self.suites.iter().partition(|suite| suite.name == BOOT);
        suites.sort_by_key(|suite| std::cmp::Reverse(suite.time));
        let mut lines = Vec::new();
        if suites.len() > SLOWEST {
            lines.push("the slowest suites:".to_string());
        }
        let shown = suites
            .iter()
            .take(SLOWEST)
            .filter(|_| suites.len() > SLOWEST);
        lines.extend(shown.map(|suite| {
            format!(
                "{:7.1} s, {:6.1} s of processors: {}",
                suite.time.as_secs_f64(),
                suite.processor_time.as_secs_f64(),
                suite.title()
            )
        }));
        let busy: Duration = boots.iter().map(|boot| boot.processor_time).sum();
        lines.push(format!(
            "{} boots; {:.1} min in all, {:.1} min of processors for the boots",
            boots.len(),
            passed.as_secs_f64() / 60.0,
            busy.as_secs_f64() / 60.0
        ));
        lines
    }

    /// Writes `test.summary` and `test.notrun` to `out`, and `results.xml` in JUnit format to `logs`.
    pub fn write(&self, out: &Path, logs: &Path) -> Result<()> {
        let count = self.count();
        let summary = out.join("test.summary");
        let numbers = format!("{} {} {}\n", count.passed, count.failed, count.skipped);
        fs::write(&summary, numbers)
            .with_context(|| format!("cannot write {}", summary.display()))?;
        let not_run = out.join("test.notrun");
        let lines = self.not_run().into_iter().map(|line| line + "\n");
        fs::write(&not_run, lines.collect::<String>())
            .with_context(|| format!("cannot write {}", not_run.display()))?;
        let junit = logs.join("results.xml");
        fs::write(&junit, self.junit()).with_context(|| format!("cannot write {}", junit.display()))
    }

    fn junit(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        for suite in &self.suites {
            let count = suite.count();
            // Writing to a string cannot fail.
            let _ = writeln!(
                xml,
                "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
                escape(&suite.title()),
                suite.that_counts().cases.len(),
                count.failed,
                count.skipped,
                suite.time.as_secs_f64()
            );
            if let Some(kernel) = &self.kernel {
                let kernel = escape(kernel);
                let _ = writeln!(
                    xml,
                    "<properties><property name=\"kernel\" value=\"{kernel}\"/></properties>"
                );
            }
            for case in &suite.that_counts().cases {
                let detail = escape(&case.detail.join("\n"));
                let inside = match case.outcome {
                    Outcome::Passed => String::new(),
                    Outcome::Failed => format!("<failure>{detail}</failure>"),
                    Outcome::Skipped => format!("<skipped message=\"{detail}\"/>"),
                };
                let name = escape(&case.name);
                let _ = writeln!(xml, "<testcase name=\"{name}\">{inside}</testcase>");
            }
            xml.push_str("</testsuite>\n");
        }
        xml.push_str("</testsuites>\n");
        xml
    }
}

/// Escapes text for XML, which does not allow most control characters.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c < ' ' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        Results::from(vec![SuiteResult {
            name: "memory".to_string(),
            place: "dove dt".to_string(),
            cases: vec![
                case("a", Outcome::Passed, vec![]),
                case("b <x>", Outcome::Failed, vec!["1 \"is\" not 2".to_string()]),
                case("c", Outcome::Skipped, vec!["no 2D".to_string()]),
            ],
            notes: vec!["note".to_string()],
            log: PathBuf::from("out/x"),
            time: Duration::from_millis(1500),
            ..SuiteResult::default()
        }])
    }

    #[test]
    fn the_last_line_counts() {
        assert_eq!(results().summary(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(
            Results::default().summary(),
            "0 passed, 0 failed, 0 skipped"
        );
    }

    #[test]
    fn failures_are_told_with_their_words() {
        let text = results().failures().join("\n");
        assert!(text.contains("FAILED: b <x>\n    1 \"is\" not 2\nnote\n"));
        assert!(!text.contains("FAILED: a"));
        assert!(Results::default().failures().is_empty());
    }

    /// A suite that ran in part is not listed.
    #[test]
    fn suites_of_which_nothing_ran_are_told() {
        let without = |name: &str, detail: Vec<String>| SuiteResult {
            name: name.to_string(),
            place: "dove dt".to_string(),
            cases: vec![case("Mesa", Outcome::Skipped, detail)],
            ..SuiteResult::default()
        };
        let mut all = results();
        assert!(all.not_run().is_empty());
        let suite = without("mesa", vec!["no packages".to_string()]);
        assert!(suite.line().starts_with("SKIP mesa"));
        all.suites.push(suite);
        all.suites.push(without("other", vec![]));
        let lines = [
            "NOT RUN: mesa (dove dt): no packages",
            "NOT RUN: other (dove dt): it does not say why",
        ];
        assert_eq!(all.not_run(), lines);
        assert_eq!(all.summary(), "1 passed, 1 failed, 3 skipped");
        let dir = tempfile::tempdir().unwrap();
        all.write(dir.path(), dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join("test.notrun")).unwrap();
        assert_eq!(text, lines.join("\n") + "\n");
    }

    #[test]
    fn an_unsteady_suite_counts_as_the_branch_wants() {
        let mut results = results();
        for (counts, summary, words) in [
            (
                true,
                "1 passed, 0 failed, 0 skipped",
                "is what counts: out/y",
            ),
            (
                false,
                "1 passed, 1 failed, 1 skipped",
                "as failed all the same: out/y",
            ),
        ] {
            let again = SuiteResult {
                cases: vec![case("a", Outcome::Passed, vec![])],
                log: PathBuf::from("out/y"),
                ..SuiteResult::default()
            };
            results.suites[0].again = Some(Again {
                result: Box::new(again),
                counts,
            });
            assert_eq!(results.summary(), summary);
            let text = results.failures().join("\n");
            assert!(text.contains("FAILED: b <x>") && text.contains("out/x"));
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn the_slowest_suites_are_told() {
        let mut results = results();
        let line = "0 boots; 1.5 min in all, 0.0 min of processors for the boots";
        assert_eq!(results.times(Duration::from_secs(90)), [line]);
        for seconds in 0..12 {
            results.suites.push(SuiteResult {
                name: format!("suite-{seconds}"),
                place: "dove dt".to_string(),
                time: Duration::from_secs(seconds),
                ..SuiteResult::default()
            });
        }
        results.suites.push(SuiteResult {
            name: BOOT.to_string(),
            time: Duration::from_secs(100),
            processor_time: Duration::from_secs(30),
            ..SuiteResult::default()
        });
        let lines = results.times(Duration::from_secs(90));
        assert_eq!(lines.len(), SLOWEST + 2);
        assert!(lines[1].ends_with("suite-11 (dove dt)"), "{}", lines[1]);
        assert!(lines[SLOWEST + 1].starts_with("1 boots; 1.5 min in all, 0.5 min"));
    }

    #[test]
    fn files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        results().write(dir.path(), dir.path()).unwrap();
        let summary = fs::read_to_string(dir.path().join("test.summary")).unwrap();
        assert_eq!(summary, "1 1 1\n");
        let xml = fs::read_to_string(dir.path().join("results.xml")).unwrap();
        assert!(xml.contains("<testcase name=\"b &lt;x&gt;\"><failure>1 &quot;is&quot; not 2"));
        assert!(xml.contains("tests=\"3\" failures=\"1\" skipped=\"1\" time=\"1.500\""));
    }
}
