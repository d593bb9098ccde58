// SPDX-License-Identifier: GPL-2.0-only
//! Estimates the time of boots from the time that their suites took in the last run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use super::results::SuiteResult;
use super::results::BOOT;
use super::suites::Group;

/// Time of a suite that has not run yet.
const UNKNOWN: Duration = Duration::from_secs(10);

/// Time of a boot without suites.
const BARE: Duration = Duration::from_secs(5);

/// Times of suites, by name and place. They only determine the order, so missing or wrong values do no harm.
pub struct Estimates {
    file: PathBuf,
    seconds: BTreeMap<String, f64>,
}

impl Estimates {
    /// Loads the times that earlier runs saved in `cache`.
    pub fn load(cache: &Path) -> Estimates {
        let file = cache.join("suite-seconds.json");
        let text = fs::read(&file).unwrap_or_default();
        let seconds = serde_json::from_slice(&text).unwrap_or_default();
        Estimates { file, seconds }
    }

    /// Estimated time of a boot.
    pub fn of(&self, group: &Group) -> Duration {
        let seconds = |title: String| {
            let known = self.seconds.get(&title).copied();
            known.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        };
        let suites = group.steps.iter().map(|step| {
            let place = group.needs.describe_with(&step.module);
            seconds(format!("{} ({place})", step.name)).unwrap_or(UNKNOWN)
        });
        BARE + suites.sum::<Duration>()
    }

    /// Records the times of suites.
    pub fn learn(&mut self, suites: &[SuiteResult]) {
        for suite in suites.iter().filter(|suite| suite.name != BOOT) {
            self.seconds.insert(suite.title(), suite.time.as_secs_f64());
        }
    }

    /// Saves the times for the next run.
    pub fn save(&self) {
        let Ok(text) = serde_json::to_vec_pretty(&self.seconds) else {
            return;
        };
        // Another run may write the file at the same time.
        let new = self.file.with_extension(std::process::id().to_string());
        let _ = self.file.parent().map(fs::create_dir_all);
        let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::suites::Table;

    #[test]
    fn what_took_long_will_take_long() {
        let dir = tempfile::tempdir().unwrap();
        let groups = Table::load(false).unwrap().groups();
        let group = groups.iter().find(|group| group.steps.len() > 1).unwrap();
        let mut estimates = Estimates::load(dir.path());
        let unknown = estimates.of(group);
        assert_eq!(
            unknown,
            BARE + UNKNOWN * u32::try_from(group.steps.len()).unwrap()
        );
        let suite = SuiteResult {
            name: group.steps[0].name.clone(),
            place: group.needs.describe_with(&group.steps[0].module),
            time: Duration::from_secs(100),
            ..SuiteResult::default()
        };
        estimates.learn(&[suite]);
        estimates.save();
        let again = Estimates::load(dir.path());
        assert_eq!(again.of(group), unknown + Duration::from_secs(90));
        fs::write(&again.file, "no JSON").unwrap();
        assert_eq!(Estimates::load(dir.path()).of(group), unknown);
    }
}
