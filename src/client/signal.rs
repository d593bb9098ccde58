// SPDX-License-Identifier: GPL-2.0-only

//! User signals. The threads of a process wait for them.
//!
//! A signal is a flag. A manual-reset signal stays set until a client resets it, and wakes all
//! waiters. An automatic-reset signal ends one wait, which resets it. Source: sources.md, signals.
//! The C driver wakes only one waiter of a manual-reset signal.

use super::usage::OneFence;
use crate::{
    limits::MAX_FENCES,
    prelude::*,
    ring::{
        Account,
        Outcome, //
    },
    sys::file::{
        Fence,
        NewFile, //
    }, //
};
use kernel::{
    bindings,
    sync::CondVarTimeoutResult, //
};

type Fences = [Option<(Fence, OneFence)>; MAX_FENCES];

/// Nanoseconds in a millisecond.
const NANOSECONDS: u64 = 1_000_000;

/// The shortest timeout, in milliseconds, that is only measured in jiffies. Most waits for jobs are
/// such, few time out, and reading a clock in each would cost time.
const LONG: u32 = 1_000;

/// Jiffies that are added to a long wait, so that late ticks do not make it too short.
const LATE: Jiffies = bindings::HZ as Jiffies / 4;

/// The timeout of an unlimited wait.
const FOREVER: u32 = u32::MAX;

struct State {
    set: bool,
    /// The signal has been destroyed.
    over: bool,
    /// Fences that are signaled when the signal is next set.
    fences: Option<KBox<Fences>>,
}

/// The time, in nanoseconds, at which a wait of `milliseconds` that begins now ends.
#[cold]
#[inline(never)]
fn end_of(milliseconds: u32) -> u64 {
    sys::monotonic_ns().saturating_add(u64::from(milliseconds) * NANOSECONDS)
}

#[cold]
#[inline(never)]
fn is_past(end: u64) -> bool {
    sys::monotonic_ns() >= end
}

/// A user signal.
#[pin_data]
pub(crate) struct Signal {
    manual_reset: bool,
    #[pin]
    state: SpinLock<State>,
    #[pin]
    changed: CondVar,
}

impl Signal {
    /// A signal that is not yet set.
    pub(crate) fn new(manual_reset: bool) -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                manual_reset,
                state <- new_spinlock!(State {
                    set: false,
                    over: false,
                    fences: None,
                }, "galcore signal"),
                changed <- new_condvar!("galcore signal"),
            }),
            sys::GFP_CLIENT,
        )?)
    }

    /// Sets or resets the signal.
    pub(crate) fn signal(&self, state: bool) {
        self.set(state, Outcome::Done);
    }

    /// Sets the signal: its job has ended. If the GPU has not done the job, the fences end with an
    /// error.
    pub(crate) fn job_ended(&self, outcome: Outcome) {
        self.set(true, outcome);
    }

    fn set(&self, state: bool, outcome: Outcome) {
        let fences = {
            let mut own = self.state.lock();
            own.set = state;
            if state {
                own.fences.take()
            } else {
                return;
            }
        };
        if self.manual_reset {
            self.changed.notify_all();
        } else {
            self.changed.notify_one();
        }
        if let Some(mut fences) = fences {
            // A fence that is dropped before it is signaled ends with an error.
            for (fence, _one) in fences.iter_mut().filter_map(Option::take) {
                if let Outcome::Done = outcome {
                    fence.signal();
                }
            }
        }
    }

    /// A sync file of a fence. The fence is signaled when the signal is set, or at once if it is
    /// set already. It ends with an error when the signal is destroyed, or after a timeout
    /// ([`Fence`]). It counts for the process of `account`.
    ///
    /// `NotFound`: the signal was destroyed. `OutOfResources`: no descriptor is left, the signal
    /// has [`MAX_FENCES`], or the process
    /// [`MAX_PROCESS_FENCES`](crate::limits::MAX_PROCESS_FENCES). `NotSupported`: the kernel has no
    /// sync files. `OutOfMemory`.
    pub(crate) fn fence_file(&self, account: &Arc<Account>) -> Result<NewFile> {
        // Allocate before taking the lock: a thread that sets the signal must not wait for memory.
        let room = KBox::new([const { None }; MAX_FENCES], sys::GFP_CLIENT)?;
        let fence = Fence::new()?;
        let file = fence.file()?;
        let is_over = {
            let mut state = self.state.lock();
            if !state.over && !state.set {
                let fences = state.fences.get_or_insert(room);
                let mut free = fences
                    .iter_mut()
                    .filter(|place| place.as_ref().is_none_or(|(fence, _)| fence.is_over()));
                let place = free.next().ok_or(Error::OutOfResources)?;
                let one = OneFence::new(account)?;
                let old = place.replace((fence, one));
                drop(state);
                drop(old);
                return Ok(file);
            }
            state.over
        };
        if is_over {
            return Err(Error::NotFound);
        }
        fence.signal();
        Ok(file)
    }

    /// Destroys the signal: ends all current and later waits.
    pub(crate) fn end(&self) {
        let fences = {
            let mut state = self.state.lock();
            state.over = true;
            state.fences.take()
        };
        self.changed.notify_all();
        drop(fences);
    }

    /// Returns whether the signal is set. Resets it if it is an automatic-reset signal.
    fn take(&self, state: &mut State) -> bool {
        let was = state.set;
        if was && !self.manual_reset {
            state.set = false;
        }
        was
    }

    /// Waits for the signal for at least `milliseconds`, or without limit ([`FOREVER`]).
    ///
    /// `Timeout`: it was not set in that time. `Interrupted`: a Unix signal interrupts the wait.
    /// `NotFound`: the signal was destroyed.
    pub(crate) fn wait(&self, milliseconds: u32) -> Result {
        let mut state = self.state.lock();
        // Add a jiffy, because the current one may be almost over.
        let mut left = match milliseconds {
            0 => 0,
            LONG.. => msecs_to_jiffies(milliseconds).saturating_add(LATE),
            ms => msecs_to_jiffies(ms).saturating_add(1),
        };
        // Late ticks come all at once, so short waits also check the clock.
        let mut end = None;
        loop {
            if self.take(&mut state) {
                return Ok(());
            }
            if state.over {
                return Err(Error::NotFound);
            }
            if milliseconds == FOREVER {
                if kernel::current!().signal_pending()
                    || self.changed.wait_interruptible(&mut state)
                {
                    return self.interrupted(&mut state);
                }
                continue;
            }
            if left == 0 {
                if end.is_none_or(is_past) {
                    return Err(Error::Timeout);
                }
                left = 1;
            }
            if milliseconds < LONG && end.is_none() {
                end = Some(end_of(milliseconds));
            }
            match self.changed.wait_interruptible_timeout(&mut state, left) {
                CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                CondVarTimeoutResult::Timeout => left = 0,
                CondVarTimeoutResult::Signal { .. } => return self.interrupted(&mut state),
            }
        }
    }

    /// Ends an interrupted wait. A concurrent wake-up is not lost.
    fn interrupted(&self, state: &mut State) -> Result {
        if self.take(state) {
            Ok(())
        } else {
            Err(Error::Interrupted)
        }
    }
}

/// A signal in a process's table.
pub(super) struct SignalEntry {
    pub(super) signal: Arc<Signal>,
    /// 1 for CREATE, and 1 for each MAP.
    pub(super) references: u32,
}

impl SignalEntry {
    /// A signal with one reference.
    pub(super) fn new(signal: Arc<Signal>) -> Self {
        Self {
            signal,
            references: 1,
        }
    }

    /// Adds a reference. `OutOfResources`: too many.
    pub(super) fn map_again(&mut self) -> Result {
        let more = self.references.checked_add(1);
        self.references = more.ok_or(Error::OutOfResources)?;
        Ok(())
    }
}

#[kunit_tests(galcore_signal)]
mod tests {
    use super::*;

    #[test]
    fn automatic_reset_is_taken_once() {
        let signal = Signal::new(false).unwrap();
        assert_eq!(signal.wait(0), Err(Error::Timeout));
        signal.signal(true);
        signal.signal(true);
        assert_eq!(signal.wait(0), Ok(()));
        assert_eq!(signal.wait(0), Err(Error::Timeout));
    }

    #[test]
    fn a_destroyed_signal_ends_waits() {
        let signal = Signal::new(false).unwrap();
        signal.end();
        assert_eq!(signal.wait(FOREVER), Err(Error::NotFound));
    }

    #[test]
    fn manual_reset_stays() {
        let signal = Signal::new(true).unwrap();
        signal.signal(true);
        assert_eq!(signal.wait(0), Ok(()));
        assert_eq!(signal.wait(1), Ok(()));
        signal.signal(false);
        assert_eq!(signal.wait(1), Err(Error::Timeout));
    }
}
