// SPDX-License-Identifier: GPL-2.0-only
//! Violations: what silicon forbids, with the position in the stream, and the report about it.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Mutex;
use std::sync::MutexGuard;

use gpu_control::ViolationKind;
use gpu_control::EXPECT_ANY_NUMBER;
use serde::Serialize;

use crate::control::Counters;

/// Violations kept in full. Later ones are only counted.
const KEPT: usize = 100;

/// A command that the front end fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fetched {
    /// GPU address of its first word.
    pub address: String,
    /// Its first words.
    pub words: Vec<String>,
    /// The decoded command as text.
    pub command: String,
}

/// One violation as reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Name of its [`ViolationKind`].
    pub kind: &'static str,
    /// What happened.
    pub detail: String,
    /// Stream position (GPU address), or register offset.
    pub address: String,
    /// Words at that position.
    pub words: Vec<String>,
    /// Commands fetched before it, oldest first.
    pub recent: Vec<Fetched>,
}

/// A violation to report.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// What happened.
    pub detail: String,
    /// Stream position (GPU address), or register offset.
    pub address: u32,
    /// Words at that position.
    pub words: Vec<u32>,
    /// Commands fetched before it, oldest first.
    pub recent: Vec<Fetched>,
}

/// The result of a run, as JSON.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Board name.
    pub board: &'static str,
    /// Counters by the names of [`gpu_control::counter::ALL`].
    pub counters: BTreeMap<&'static str, u64>,
    /// Number of violations that no test declared.
    pub violation_count: u32,
    /// The first of these violations.
    pub violations: Vec<Violation>,
    /// Number of violations that a test declared.
    pub expected_count: u32,
    /// The first of the declared violations.
    pub expected: Vec<Violation>,
    /// Declared violations that did not occur.
    pub unmet_expectations: Vec<String>,
    /// Number of warnings.
    pub warning_count: u32,
    /// Each different warning once.
    pub warnings: Vec<String>,
    /// Whether violations leave the run successful.
    pub lenient: bool,
}

#[derive(Default)]
struct Inner {
    violations: Vec<Violation>,
    expected: Vec<Violation>,
    /// Expected number per kind; `u32::MAX` = any number.
    expectations: BTreeMap<ViolationKind, u32>,
    warnings: Vec<String>,
    seen_warnings: HashSet<String>,
}

/// Collects violations and warnings; writes the report.
pub struct Recorder {
    inner: Mutex<Inner>,
    path: Option<PathBuf>,
    board: &'static str,
    lenient: bool,
    counters: std::sync::Arc<Counters>,
    violations: AtomicU32,
    expected: AtomicU32,
    warnings: AtomicU32,
    last_kind: AtomicU32,
    last_address: AtomicU32,
}

impl Recorder {
    /// A recorder for a board. Writes its report to `path`, if given.
    pub fn new(
        board: &'static str,
        path: Option<PathBuf>,
        lenient: bool,
        counters: std::sync::Arc<Counters>,
    ) -> Self {
        Self {
            inner: Mutex::default(),
            path,
            board,
            lenient,
            counters,
            violations: AtomicU32::new(0),
            expected: AtomicU32::new(0),
            warnings: AtomicU32::new(0),
            last_kind: AtomicU32::new(0),
            last_address: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Records a violation. Writes the report at once, so a killed model leaves one.
    pub fn violation(&self, kind: ViolationKind, finding: Finding) {
        let mut inner = self.lock();
        self.last_kind.store(kind as u32, Relaxed);
        self.last_address.store(finding.address, Relaxed);
        let expected = match inner.expectations.get_mut(&kind) {
            None => false,
            Some(&mut u32::MAX) => true,
            Some(left) => {
                *left -= 1;
                if *left == 0 {
                    inner.expectations.remove(&kind);
                }
                true
            }
        };
        let total = if expected {
            &self.expected
        } else {
            &self.violations
        };
        let number = total.fetch_add(1, Relaxed) + 1;
        let list = if expected {
            &mut inner.expected
        } else {
            &mut inner.violations
        };
        if !expected && number as usize <= KEPT {
            log::error!(
                "violation {}: {} at {:#010x}",
                kind.name(),
                finding.detail,
                finding.address
            );
        }
        if list.len() < KEPT {
            list.push(Violation {
                kind: kind.name(),
                detail: finding.detail,
                address: hex(finding.address),
                words: finding.words.into_iter().map(hex).collect(),
                recent: finding.recent,
            });
        }
        drop(inner);
        if number <= 32 || number.is_power_of_two() {
            self.write_report();
        }
    }

    /// Records a suspicious event that is not a violation. Equal texts are kept once.
    pub fn warning(&self, text: impl Into<String>) {
        let text = text.into();
        self.warnings.fetch_add(1, Relaxed);
        let mut inner = self.lock();
        if inner.warnings.len() < KEPT && inner.seen_warnings.insert(text.clone()) {
            log::warn!("{text}");
            inner.warnings.push(text);
        }
    }

    /// Declares violations in the format of [`gpu_control::EXPECT_VIOLATION`]. Unknown kinds are ignored.
    pub fn expect(&self, word: u32) {
        let Some(kind) = ViolationKind::from_code(word & 0xffff) else {
            self.warning(format!(
                "expectation of unknown violation kind {}",
                word & 0xffff
            ));
            return;
        };
        let count = match word & EXPECT_ANY_NUMBER {
            EXPECT_ANY_NUMBER => u32::MAX,
            0 => 1,
            shifted => shifted >> 16,
        };
        let mut inner = self.lock();
        let left = inner.expectations.entry(kind).or_insert(0);
        *left = left.saturating_add(count);
    }

    /// Drops all expectations.
    pub fn clear_expectations(&self) {
        self.lock().expectations.clear();
    }

    /// Number of open expectations, without those of any number.
    pub fn open_expectations(&self) -> u32 {
        self.lock()
            .expectations
            .values()
            .filter(|left| **left != u32::MAX)
            .sum()
    }

    /// Number of violations that no test declared.
    pub fn violation_count(&self) -> u32 {
        self.violations.load(Relaxed)
    }

    /// Number of violations that a test declared.
    pub fn expected_count(&self) -> u32 {
        self.expected.load(Relaxed)
    }

    /// Number of warnings.
    pub fn warning_count(&self) -> u32 {
        self.warnings.load(Relaxed)
    }

    /// Code of the latest violation's kind; 0 = none.
    pub fn last_kind(&self) -> u32 {
        self.last_kind.load(Relaxed)
    }

    /// Position of the latest violation.
    pub fn last_address(&self) -> u32 {
        self.last_address.load(Relaxed)
    }

    /// Whether the front end continues after violations that silicon may survive.
    pub fn lenient(&self) -> bool {
        self.lenient
    }

    /// Whether the run failed.
    pub fn failed(&self) -> bool {
        !self.lenient && self.violation_count() > 0
    }

    /// The report at this time.
    pub fn report(&self) -> Report {
        let inner = self.lock();
        Report {
            board: self.board,
            counters: self.counters.named().collect(),
            violation_count: self.violation_count(),
            violations: inner.violations.clone(),
            expected_count: self.expected_count(),
            expected: inner.expected.clone(),
            unmet_expectations: inner
                .expectations
                .iter()
                .filter(|(_, left)| **left != u32::MAX)
                .map(|(kind, left)| format!("{} x {left}", kind.name()))
                .collect(),
            warning_count: self.warning_count(),
            warnings: inner.warnings.clone(),
            lenient: self.lenient,
        }
    }

    /// Writes the report to a temporary file and renames it, so a reader never sees a partial report.
    pub fn write_report(&self) {
        let Some(path) = &self.path else { return };
        let mut partial = path.clone().into_os_string();
        partial.push(".part");
        let result = serde_json::to_vec_pretty(&self.report())
            .map_err(std::io::Error::from)
            .and_then(|mut text| {
                text.push(b'\n');
                fs::write(&partial, text)
            })
            .and_then(|()| fs::rename(&partial, path));
        if let Err(error) = result {
            log::error!("cannot write the report {}: {error}", path.display());
        }
    }
}

/// Formats addresses and words for reports.
pub fn hex(word: u32) -> String {
    format!("{word:#010x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(address: u32) -> Finding {
        Finding {
            detail: "test".into(),
            address,
            words: vec![0x1800_0000],
            recent: Vec::new(),
        }
    }

    fn recorder(lenient: bool, path: Option<PathBuf>) -> Recorder {
        Recorder::new("dove", path, lenient, Default::default())
    }

    #[test]
    fn undeclared_violations_fail_the_run() {
        let recorder = recorder(false, None);
        assert!(!recorder.failed());
        recorder.violation(ViolationKind::StaleTlb, finding(0x80001000));
        assert!(recorder.failed());
        assert_eq!(recorder.last_kind(), ViolationKind::StaleTlb as u32);
        assert_eq!(recorder.last_address(), 0x80001000);
        let report = serde_json::to_value(recorder.report()).unwrap();
        assert_eq!(report["violations"][0]["kind"], "stale-tlb");
        assert_eq!(report["violations"][0]["address"], "0x80001000");
        assert_eq!(report["violations"][0]["words"][0], "0x18000000");
    }

    #[test]
    fn lenient_counts_but_does_not_fail() {
        let recorder = recorder(true, None);
        recorder.violation(ViolationKind::StaleTlb, finding(0));
        assert!(!recorder.failed());
        assert_eq!(recorder.violation_count(), 1);
    }

    #[test]
    fn a_declared_violation_counts_apart_and_once() {
        let recorder = recorder(false, None);
        recorder.expect(ViolationKind::BusError as u32);
        recorder.expect(ViolationKind::IllegalOpcode as u32 | (2 << 16));
        assert_eq!(recorder.open_expectations(), 3);
        recorder.violation(ViolationKind::BusError, finding(0));
        assert!(!recorder.failed());
        assert_eq!(recorder.expected_count(), 1);
        recorder.violation(ViolationKind::BusError, finding(0));
        assert!(recorder.failed());
        assert_eq!(recorder.open_expectations(), 2);
        assert_eq!(recorder.report().unmet_expectations, ["illegal-opcode x 2"]);
    }

    #[test]
    fn any_number_lasts_until_cleared() {
        let recorder = recorder(false, None);
        recorder.expect(ViolationKind::BusError as u32 | EXPECT_ANY_NUMBER);
        for _ in 0..5 {
            recorder.violation(ViolationKind::BusError, finding(0));
        }
        assert_eq!(
            (recorder.violation_count(), recorder.expected_count()),
            (0, 5)
        );
        recorder.clear_expectations();
        recorder.violation(ViolationKind::BusError, finding(0));
        assert_eq!(recorder.violation_count(), 1);
    }

    #[test]
    fn the_report_is_on_disk_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let recorder = recorder(false, Some(path.clone()));
        recorder.violation(ViolationKind::WrongPipe, finding(0x40));
        let report: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(report["board"], "dove");
        assert_eq!(report["violation_count"], 1);
        assert_eq!(report["counters"]["commands"], 0);
    }

    #[test]
    fn equal_warnings_are_kept_once() {
        let recorder = recorder(false, None);
        recorder.warning("odd");
        recorder.warning("odd");
        assert_eq!(recorder.warning_count(), 2);
        assert_eq!(recorder.report().warnings, ["odd"]);
        assert!(!recorder.failed());
    }
}
