// SPDX-License-Identifier: GPL-2.0-only

//! What the admin does to a ring by `/proc/driver/gc`.
//!
//! *A LINK that leads nowhere*: of [`LINKS`] to a client's commands one leads into an idle loop of
//! its own ([`TRAP`](super::TRAP)), so that the core hangs. (The vendor's driver cuts the address
//! off, and has the front end run whatever lies there.) The front end has begun nothing, so nobody
//! is guilty; the recovery makes the links anew, and as such a job loads its own context, none is
//! lost.
//!
//! *A reset*: it is the hang check's, as any is. See [`super::recovery`].

use super::{
    engine::{
        Engine,
        FrontEnd, //
    },
    phase::Phase,
    recovery::RESET_TIME,
    state::{
        RingState,
        State, //
    },
    Payload,
    RingEnd, //
};
use crate::{
    log::{
        RateLimit,
        ThisProcess, //
    },
    modes::{
        self,
        Mode, //
    },
    sys,
    wait, //
};
use kernel::{
    fmt,
    prelude::*,
    sync::Arc,
    time::msecs_to_jiffies, //
};

/// One of so many LINKs to commands leads nowhere. Source: the vendor's driver.
const LINKS: u32 = 50;

/// How long a core that an admin says hangs is watched, in milliseconds: until it has been seen to
/// stand still for 100, by looks that are 30 apart.
const HURRY_TIME: u32 = 400;

/// Words of commands in one line of the log.
pub(crate) const LINE_WORDS: usize = 8;
/// Lines of one job at most.
pub(crate) const MAX_LINES: usize = 32;

/// Commands, of whatever process.
static COMMANDS: RateLimit = RateLimit::of(Mode::Commands);

impl<F: FrontEnd> State<F> {
    /// Does from now on what the admin wants.
    pub(super) fn follow_modes(&mut self) {
        self.prints = modes::is_on(Mode::Commands);
        F::follow_modes(&mut self.front);
    }

    /// Hurries no longer if the time for it is over, or there is nothing to hurry.
    pub(super) fn end_hurry(&mut self, now: usize) {
        let is_over = self.has_nothing_to_do() || !self.may_be_reset();
        // They are close, but the count may have begun again between them.
        self.hurry = self
            .hurry
            .filter(|until| !is_over && now.wrapping_sub(*until) > usize::MAX / 2);
    }

    /// Whether there is something to be reset.
    pub(super) fn may_be_reset(&self) -> bool {
        self.phase == Phase::Open && !self.is_off
    }
}

impl RingState {
    /// Does from now on what the admin wants.
    pub(super) fn follow_modes(&mut self) {
        self.links_left = match (modes::is_on(Mode::Hangs), self.links_left) {
            (false, _) => 0,
            (true, 0) => LINKS,
            (true, left) => left,
        };
    }
}

impl<P: Payload> State<RingEnd<P>> {
    /// Whether the LINK to a job that has commands, or not, is to lead nowhere. A core that is off
    /// has its links made when it comes on.
    #[cold]
    pub(super) fn is_last_link(&self, has_commands: bool) -> bool {
        has_commands && self.front.links_left == 1 && !self.is_off
    }

    /// There is one more LINK.
    #[cold]
    pub(super) fn count_link(&mut self, has_commands: bool) {
        if self.is_last_link(has_commands) {
            self.front.links_left = LINKS;
        } else if has_commands {
            self.front.links_left = (self.front.links_left - 1).max(1);
        }
    }
}

impl<F: FrontEnd> Engine<F> {
    /// The modes have changed.
    pub(crate) fn follow_modes(&self) {
        self.state.lock().follow_modes();
    }

    /// Resets the core, unless it is off: then it is reset as it comes on. The job that runs is
    /// dropped if it does not end soon, and so is what its process has behind it; all others run.
    /// Nobody is guilty. Waits until it is done, [`RESET_TIME`] at most.
    pub(crate) fn reset_now(self: &Arc<Self>) {
        let checks = {
            let mut state = self.state.lock();
            if !state.may_be_reset() {
                return;
            }
            state.is_reset_asked = true;
            state.needs_check()
        };
        if checks {
            self.check_soon(true);
        }
        let is_done = || (!self.state.lock().is_reset_asked).then_some(());
        if wait::poll(RESET_TIME, is_done).is_none() {
            dev_warn!(
                self.hardware.device(),
                "the reset that was asked for takes long\n"
            );
        }
    }

    /// Has the hang check look now, if there is something under way: it is said to hang.
    pub(crate) fn look_now(self: &Arc<Self>) {
        let checks = {
            let mut state = self.state.lock();
            state.may_be_reset() && !state.has_nothing_to_do() && state.needs_check()
        };
        if checks {
            self.check_soon(true);
        }
    }

    /// Resets the core if it makes no progress for 100 ms within the next [`HURRY_TIME`], as a hang
    /// without a charge; whether it was reset. Also without recovery. Waits until that is
    /// known.
    pub(crate) fn reset_if_hung(self: &Arc<Self>) -> bool {
        let before = self.resets();
        {
            let mut state = self.state.lock();
            // CAST: jiffies have the machine's width.
            let time = msecs_to_jiffies(HURRY_TIME) as usize;
            state.hurry = Some(sys::jiffies().wrapping_add(time));
            state.end_hurry(sys::jiffies());
        }
        self.look_now();
        let is_done = || self.state.lock().hurry.is_none().then_some(());
        let _: Option<()> = wait::poll(RESET_TIME, is_done);
        self.resets() != before
    }

    /// Lets the core raise interrupts from now on, or not. If not, the hang check finds what has
    /// ended.
    pub(crate) fn set_interrupts(&self, on: bool) {
        self.hardware.set_silenced(!on);
        let _completing = self.hold_completion();
        if self.state.lock().phase.is_stopped() || self.hardware.is_isolated() {
            return;
        }
        let kept_on = self.hardware.supply().if_on();
        // One that comes on is told then.
        if let Some(_kept_on) = kept_on.filter(|_| self.hardware.is_on()) {
            F::enable_interrupts(&self.hardware);
        }
    }
}

/// Prints the commands of job `number` of core `core`, which the calling process has submitted.
#[cold]
#[inline(never)]
pub(crate) fn print_words(core: usize, number: u64, parts: &[&[u32]]) {
    if !COMMANDS.allow() {
        return;
    }
    let count: usize = parts.iter().map(|words| words.len()).sum();
    pr_info!("{ThisProcess}: job {number:#x} of core {core}, {count} words\n");
    let mut lines = MAX_LINES;
    for words in parts {
        let line_count = words.len().div_ceil(LINE_WORDS).min(lines);
        lines -= line_count;
        for line in words.chunks(LINE_WORDS).take(line_count) {
            pr_info!("{}\n", WordLine(line));
        }
    }
    if lines == 0 && count > MAX_LINES * LINE_WORDS {
        pr_info!("...\n");
    }
}

/// Words in a line.
pub(crate) struct WordLine<'a>(pub(crate) &'a [u32]);

impl fmt::Display for WordLine<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|word| out.write_fmt(fmt!(" {word:08x}")))
    }
}

#[kunit_tests(galcore_ring_debug)]
mod tests {
    use super::*;
    use crate::ring::{
        history::History,
        Past, //
    };

    #[test]
    fn one_link_of_fifty_leads_nowhere() {
        let mut state = KBox::init(
            State::<RingEnd<u32>>::init(KVVec::new(), &Past::default(), History::none()),
            GFP_KERNEL,
        )
        .unwrap();
        state.start();
        state.front.links_left = LINKS;
        let mut spoiled = [0; 3];
        let mut links = 0;
        for count in &mut spoiled {
            // Ends: there is one among so many.
            for _ in 0..LINKS {
                // Jobs of no commands do not count.
                assert!(!state.is_last_link(false));
                state.count_link(false);
                links += 1;
                let is_last = state.is_last_link(true);
                state.count_link(true);
                if is_last {
                    break;
                }
            }
            *count = links;
        }
        assert_eq!(spoiled, [LINKS, 2 * LINKS, 3 * LINKS]);
        // It waits for the core to be on.
        state.front.links_left = 1;
        state.is_off = true;
        assert!(!state.is_last_link(true));
        state.count_link(true);
        state.is_off = false;
        assert!(state.is_last_link(true));
    }
}
