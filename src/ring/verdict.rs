// SPDX-License-Identifier: GPL-2.0-only

//! What becomes of each job when the core was reset: who is guilty, what is dropped, what runs once
//! more.
//!
//! Pure logic. The kernel's drain at the end of each job keeps the front end from going on before
//! the pixel engine has, so the jobs in front of the one that it is in are done, and those behind
//! it have not begun. The one that it is in is guilty if there are commands of a process's in it:
//! it is dropped, and all that this process has behind it, which counts on it. All others run once
//! more from their start, in their order: none of them has done anything yet.
//!
//! The reset takes the states with it, and with them the context that was loaded. A job that loads
//! its own does not mind; behind a guilty one that is so, as that was another process's. One that
//! goes on in the context of a job that is done already, or is dropped, cannot run: it is *lost*,
//! by nobody's guilt. That can only be where the core hung outside of all commands.

use super::inflight::IDS;

/// What is to be known of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Suspect {
    /// The process that has submitted it, by its number; 0: the driver.
    pub(super) process: u64,
    /// There are commands of a process's in it.
    pub(super) has_commands: bool,
    /// These run in the context of the commands in front of them, and do not load it.
    pub(super) continues: bool,
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It runs, from its start.
    #[default]
    Runs,
    /// It is dropped: it hung.
    Guilty,
    /// It is dropped: it counts on one of its process's that is.
    Behind,
    /// It is dropped: its context is gone.
    Lost,
}

impl Fate {
    /// Whether the job is dropped.
    pub(crate) fn is_dropped(self) -> bool {
        self != Fate::Runs
    }
}

/// The fates of `jobs`, of which none has ended, oldest first. `has_begun`: the front end is in the
/// oldest.
pub(super) fn judge(jobs: &[Suspect], has_begun: bool) -> [Fate; IDS] {
    let mut fates = [Fate::Runs; IDS];
    let guilty = jobs
        .first()
        .filter(|job| has_begun && job.has_commands && job.process != 0)
        .map(|job| job.process);
    // What the commands before leave is there.
    let mut is_context_there = false;
    for (age, job) in jobs.iter().enumerate().take(IDS) {
        let is_lost_before = || {
            let before = jobs[..age].iter().zip(&fates).rev();
            let mut own = before.filter(|(other, _)| other.process == job.process);
            own.next().is_some_and(|(_, fate)| fate.is_dropped())
        };
        let fate = match guilty {
            Some(process) if process == job.process && age == 0 => Fate::Guilty,
            Some(process) if process == job.process => Fate::Behind,
            _ if job.has_commands && job.continues && !is_context_there => Fate::Lost,
            // Its records tell of the commands in front of it.
            _ if !job.has_commands && job.process != 0 && is_lost_before() => Fate::Behind,
            _ => Fate::Runs,
        };
        fates[age] = fate;
        if job.has_commands {
            is_context_there = !fate.is_dropped();
        }
    }
    fates
}

#[kernel::macros::kunit_tests(galcore_verdict)]
mod tests {
    use super::{
        Fate::{
            Behind,
            Guilty,
            Lost,
            Runs, //
        },
        *,
    };

    /// Commands of a process that load their context.
    fn loads(process: u64) -> Suspect {
        Suspect {
            process,
            has_commands: true,
            continues: false,
        }
    }

    /// Commands that do not.
    fn continues(process: u64) -> Suspect {
        Suspect {
            continues: true,
            ..loads(process)
        }
    }

    /// Records alone.
    fn records(process: u64) -> Suspect {
        Suspect {
            process,
            ..Suspect::default()
        }
    }

    #[test]
    fn the_guilty_loses_what_it_has_queued_and_nobody_else_does() {
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
        let fates = judge(&jobs, true);
        assert_eq!(
            fates[..jobs.len()],
            [Guilty, Behind, Runs, Runs, Runs, Behind, Runs, Runs, Runs]
        );
        assert_eq!(fates[jobs.len()..], [Runs; IDS - 9]);
    }

    #[test]
    fn the_guilty_may_go_on_in_its_own_context() {
        let fates = judge(&[continues(1), continues(1), loads(2)], true);
        assert_eq!(fates[..3], [Guilty, Behind, Runs]);
    }

    #[test]
    fn without_commands_nobody_is_guilty() {
        // The driver's job, or records: what was to be done in front of them is.
        for first in [records(0), records(1)] {
            let fates = judge(&[first, loads(1), records(1)], true);
            assert_eq!(fates[..3], [Runs, Runs, Runs]);
        }
        // It has not begun.
        let fates = judge(&[loads(1), loads(2)], false);
        assert_eq!(fates[..2], [Runs, Runs]);
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
            judge(&jobs, true)[..jobs.len()],
            [Runs, Lost, Behind, Lost, Runs, Runs, Behind, Runs, Runs]
        );
    }

    #[test]
    fn nothing_is_judged_where_nothing_is() {
        assert_eq!(judge(&[], true), [Runs; IDS]);
    }
}
