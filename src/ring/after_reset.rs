// SPDX-License-Identifier: GPL-2.0-only

//! Why a core is reset, and what becomes of each job then: guilty, dropped, or run again.
//!
//! Pure logic. The drain at the end of each job keeps the front end from running ahead of the pixel
//! engine. So the jobs before the one that the front end is in are done, and later ones have not
//! begun. The one that it is in is guilty if it has commands of a process: it is dropped, with all
//! later jobs of this process, which depend on it. All others run from their start, in order: none
//! has done anything yet.
//!
//! The reset clears the states, and with them the loaded context. A job that loads its own context
//! is not affected. The first one after a guilty job does, as the loaded context was another
//! process's. A job that continues in the context of a finished or dropped job cannot run: it is
//! *lost*, without a guilty process. That happens only if the core hung outside of all commands.

use super::inflight::IDS;

/// Why a core is reset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It makes no progress.
    Hang,
    /// It makes no progress, and an administrator has requested a reset without the usual time
    /// limit.
    Hurry,
    /// It makes progress, but the running job has delayed others for too long.
    TooLong,
    /// An administrator has requested it.
    Asked,
}

/// What a decision depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JobFacts {
    /// The number of the process that submitted it; 0: the driver.
    pub(super) process: u64,
    /// It has commands of a process.
    pub(super) has_commands: bool,
    /// These run in the context that earlier commands have loaded.
    pub(super) continues: bool,
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AfterReset {
    /// It runs from its start.
    #[default]
    Runs,
    /// It is dropped: it hung.
    Guilty,
    /// It is dropped: it depends on a dropped job of its process.
    Dependent,
    /// It is dropped: its context is gone.
    Lost,
}

impl AfterReset {
    /// Whether the job is dropped.
    pub(crate) fn is_dropped(self) -> bool {
        self != AfterReset::Runs
    }
}

/// Decides what becomes of `jobs`, oldest first. None has ended. `has_begun`: the front end is in
/// the oldest.
pub(super) fn decide(jobs: &[JobFacts], has_begun: bool) -> [AfterReset; IDS] {
    let mut decisions = [AfterReset::Runs; IDS];
    let guilty = jobs
        .first()
        .filter(|job| has_begun && job.has_commands && job.process != 0)
        .map(|job| job.process);
    // Whether the context of the last commands is loaded.
    let mut is_context_there = false;
    for (age, job) in jobs.iter().enumerate().take(IDS) {
        let is_lost_before = || {
            let before = jobs[..age].iter().zip(&decisions).rev();
            let mut own = before.filter(|(other, _)| other.process == job.process);
            own.next()
                .is_some_and(|(_, decision)| decision.is_dropped())
        };
        let decision = match guilty {
            Some(process) if process == job.process && age == 0 => AfterReset::Guilty,
            Some(process) if process == job.process => AfterReset::Dependent,
            _ if job.has_commands && job.continues && !is_context_there => AfterReset::Lost,
            // Its records report on commands that are dropped.
            _ if !job.has_commands && job.process != 0 && is_lost_before() => AfterReset::Dependent,
            _ => AfterReset::Runs,
        };
        decisions[age] = decision;
        if job.has_commands {
            is_context_there = !decision.is_dropped();
        }
    }
    decisions
}

#[kernel::macros::kunit_tests(galcore_after_reset)]
mod tests {
    use super::{
        AfterReset::{
            Dependent,
            Guilty,
            Lost,
            Runs, //
        },
        *,
    };

    /// Commands of a process that load their context.
    fn loads(process: u64) -> JobFacts {
        JobFacts {
            process,
            has_commands: true,
            continues: false,
        }
    }

    /// Commands that do not.
    fn continues(process: u64) -> JobFacts {
        JobFacts {
            continues: true,
            ..loads(process)
        }
    }

    /// Records alone.
    fn records(process: u64) -> JobFacts {
        JobFacts {
            process,
            ..JobFacts::default()
        }
    }

    #[test]
    fn only_the_guilty_loses_its_queued_jobs() {
        let jobs = [
            loads(1),
            records(1),
            loads(2),
            continues(2),
            records(0),
            loads(1),
            loads(3),
            records(2),
            loads(2),
        ];
        let decisions = decide(&jobs, true);
        assert_eq!(
            decisions[..jobs.len()],
            [Guilty, Dependent, Runs, Runs, Runs, Dependent, Runs, Runs, Runs]
        );
        assert_eq!(decisions[jobs.len()..], [Runs; IDS - 9]);
    }

    #[test]
    fn the_guilty_may_go_on_in_its_own_context() {
        let decisions = decide(&[continues(1), continues(1), loads(2)], true);
        assert_eq!(decisions[..3], [Guilty, Dependent, Runs]);
    }

    #[test]
    fn without_commands_none_is_guilty() {
        // Jobs of the driver, or records: all that they wait for is done.
        for first in [records(0), records(1)] {
            let decisions = decide(&[first, loads(1), records(1)], true);
            assert_eq!(decisions[..3], [Runs, Runs, Runs]);
        }
        // It has not begun.
        let decisions = decide(&[loads(1), loads(2)], false);
        assert_eq!(decisions[..2], [Runs, Runs]);
    }

    #[test]
    fn what_goes_on_in_a_context_that_is_gone_is_lost() {
        let jobs = [
            records(2),
            continues(1),
            records(1),
            continues(1),
            loads(2),
            records(2),
            records(1),
            loads(1),
            records(1),
        ];
        assert_eq!(
            decide(&jobs, true)[..jobs.len()],
            [Runs, Lost, Dependent, Lost, Runs, Runs, Dependent, Runs, Runs]
        );
    }

    #[test]
    fn without_jobs_nothing_is_decided() {
        assert_eq!(decide(&[], true), [Runs; IDS]);
    }
}
