// SPDX-License-Identifier: GPL-2.0-only

//! What the resets of cores have cost a process, and what it pays for those that it has caused.
//!
//! A process whose commands hang a core costs all others the time until that is noticed. The first
//! time is free. From the second on it waits in front of its next commands, twice as long each time;
//! who goes on all the same is refused, until it has closed its files. Whoever behaves for a while
//! begins anew.
//!
//! No lock: written by the hang checks, one a core, and read in front of commands, where one word
//! says that there is nothing to be done.

use crate::{
    error::{
        Error,
        Result, //
    },
    ring::Toll,
    sys::{
        self,
        CommandName, //
    }, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    time::msecs_to_jiffies, //
};

/// The wait behind the second hang, in milliseconds.
const FIRST_WAIT: u32 = 100;

/// Hangs after which commands are refused.
const MAX_HANGS: u32 = 8;

/// How long a process must not have hung a core to begin anew, in milliseconds.
const GOOD_TIME: u32 = 60_000;

/// How long one sleep is, in milliseconds.
const STEP: u32 = 20;

/// The resets that a process was in.
pub(crate) struct Resets {
    /// How many it has caused.
    guilty: Atomic<u32>,
    /// How many others, or nobody, have caused while it had jobs there.
    innocent: Atomic<u32>,
    /// Its jobs that were dropped.
    dropped: Atomic<u32>,
    /// Those that it has caused and has to pay for.
    owed: Atomic<u32>,
    /// When it has caused the last one, in jiffies.
    last: Atomic<usize>,
    /// The name of its program.
    name: CommandName,
}

/// How many resets a process was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// It has caused them.
    pub(crate) guilty: u32,
    /// It has not.
    pub(crate) innocent: u32,
    /// Jobs that it has lost.
    pub(crate) dropped: u32,
}

impl Resets {
    /// None, for the calling process.
    pub(super) fn new() -> Self {
        Self {
            guilty: Atomic::new(0),
            innocent: Atomic::new(0),
            dropped: Atomic::new(0),
            owed: Atomic::new(0),
            last: Atomic::new(0),
            name: CommandName::of_caller(),
        }
    }

    /// How many there were.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            guilty: self.guilty.load(Relaxed),
            innocent: self.innocent.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
        }
    }

    /// Core `core` was reset, which has cost the process, whose id is `id`, this.
    pub(super) fn note(&self, id: i32, core: usize, toll: &Toll) {
        self.dropped.fetch_add(toll.dropped, Relaxed);
        if !toll.is_guilty {
            self.innocent.fetch_add(1, Relaxed);
            return;
        }
        self.guilty.fetch_add(1, Relaxed);
        let now = sys::jiffies();
        let since = now.wrapping_sub(self.last.xchg(now, Relaxed));
        let owed = owed_after(self.owed.load(Relaxed), since);
        // Behind the time.
        self.owed.xchg(owed, Full);
        let what = match owed {
            MAX_HANGS.. => "its commands are refused from now on",
            2.. => "its next commands have to wait",
            _ => "what it has queued there is dropped",
        };
        // At most so many lines of one process: it is refused then.
        pr_warn!(
            "process {id} ({}) has hung the GPU (core {core}, time {owed}): {what}\n",
            self.name
        );
    }

    /// In front of commands: waits as long as is due. `GpuNotResponding`: it is over. `Interrupted`: a
    /// Unix signal came.
    #[inline]
    pub(super) fn pay(&self) -> Result {
        match self.owed.load(Relaxed) {
            0 => Ok(()),
            owed => self.pay_for(owed),
        }
    }

    #[cold]
    #[inline(never)]
    fn pay_for(&self, owed: u32) -> Result {
        if owed >= MAX_HANGS {
            return Err(Error::GpuNotResponding);
        }
        // CAST: jiffies have the machine's width.
        let wait = msecs_to_jiffies(wait_for(owed)) as usize;
        // Counted from the hang, so a call that is restarted does not begin anew. Ends: another hang
        // takes another job, and there are so many.
        while sys::jiffies().wrapping_sub(self.last.load(Relaxed)) < wait {
            sys::sleep(STEP).map_err(|_| Error::Interrupted)?;
        }
        Ok(())
    }
}

/// What is owed behind one more hang, `since` jiffies behind the last.
fn owed_after(owed: u32, since: usize) -> u32 {
    // CAST: jiffies have the machine's width.
    let is_forgotten = since > msecs_to_jiffies(GOOD_TIME) as usize;
    match owed {
        MAX_HANGS.. => owed,
        _ if is_forgotten => 1,
        _ => owed + 1,
    }
}

/// How long commands wait behind so many hangs, in milliseconds.
fn wait_for(owed: u32) -> u32 {
    match owed {
        0 | 1 => 0,
        _ => FIRST_WAIT << (owed.min(MAX_HANGS) - 2),
    }
}

#[kunit_tests(galcore_resets)]
mod tests {
    use super::*;

    #[test]
    fn who_hangs_it_again_and_again_pays_more_each_time() {
        let waits: [u32; 8] = core::array::from_fn(|owed| wait_for(owed as u32));
        assert_eq!(waits, [0, 0, 100, 200, 400, 800, 1600, 3200]);
        let mut owed = 0;
        for wanted in 1..=MAX_HANGS {
            owed = owed_after(owed, 10);
            assert_eq!(owed, wanted);
        }
        assert_eq!(owed_after(owed, 10), MAX_HANGS);
        // For good.
        assert_eq!(owed_after(owed, usize::MAX), MAX_HANGS);
    }

    #[test]
    fn who_behaves_begins_anew() {
        assert_eq!(owed_after(5, usize::MAX), 1);
        assert_eq!(owed_after(0, usize::MAX), 1);
    }

    #[test]
    fn the_innocent_pay_nothing() {
        let resets = Resets::new();
        let toll = Toll {
            process: 1,
            is_guilty: false,
            dropped: 2,
        };
        resets.note(1, 0, &toll);
        let counts = resets.counts();
        assert_eq!((counts.guilty, counts.innocent, counts.dropped), (0, 1, 2));
        assert_eq!(resets.pay(), Ok(()));
    }
}
