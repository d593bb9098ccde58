// SPDX-License-Identifier: GPL-2.0-only
//! The interrupt line: a level inside the model, edges of an eventfd outside, like vfio's INTx.
//!
//! vfio masks INTx itself when it fires. So the model writes the eventfd once, treats the line as masked, and checks
//! the level again at UNMASK. QEMU unmasks at any access to a BAR. A handler that reads another register before the
//! acknowledge register would therefore see a second interrupt at once. To avoid this, the line waits for [`HOLD_BACK`]
//! if UNMASK comes before the acknowledge.
//!
//! If the level falls before QEMU has seen the edge, the edge is withdrawn: a line that is low must not interrupt. QEMU
//! would keep a late edge raised until the next access, and a core without power gets no accesses.

use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;
use std::time::Instant;

/// Time for which a line that was unmasked but not acknowledged stays quiet.
pub const HOLD_BACK: Duration = Duration::from_millis(2);

/// Destination of interrupts.
pub trait Sink: Send {
    /// Delivers one interrupt.
    fn fire(&mut self);

    /// Withdraws the interrupt delivered last. Returns `false` if it has been seen.
    fn withdraw(&mut self) -> bool;
}

/// State of the line. The caller passes the time, so tests need not wait.
#[derive(Default)]
struct Line {
    sink: Option<Box<dyn Sink>>,
    level: bool,
    masked: bool,
    acknowledged: bool,
    /// The last interrupt was delivered for the current high level.
    raised: bool,
    /// Earliest time at which a high level may fire.
    not_before: Option<Instant>,
    /// Number of interrupts with nothing pending that directly follow an acknowledge.
    doubles: u32,
    /// Number of interrupts with nothing pending, and the earliest time of the next one.
    spurious: u32,
    spurious_not_before: Option<Instant>,
    /// A fixed level that overrides the real one.
    stuck: Option<bool>,
    /// The core has no power and raises no interrupts.
    is_off: bool,
    delivered: u64,
}

impl Line {
    /// Fires if an interrupt is due. Returns the time of the next check if that depends only on time.
    fn service(&mut self, now: Instant) -> Option<Instant> {
        if self.masked || self.sink.is_none() {
            return None;
        }
        let due = |time: Option<Instant>| time.filter(|time| now < *time);
        if self.stuck == Some(false) {
            return None;
        } else if self.stuck == Some(true) {
            if let Some(time) = due(self.spurious_not_before) {
                return Some(time);
            }
            self.spurious_not_before = Some(now + HOLD_BACK);
        } else if self.level {
            if let Some(time) = due(self.not_before) {
                return Some(time);
            }
        } else if self.is_off {
            return None;
        } else if self.doubles > 0 && self.acknowledged {
            self.doubles -= 1;
        } else if self.spurious > 0 {
            if let Some(time) = due(self.spurious_not_before) {
                return Some(time);
            }
            self.spurious -= 1;
            self.spurious_not_before = Some(now + HOLD_BACK);
        } else {
            return None;
        }
        self.raised = self.level && self.stuck.is_none();
        if let Some(sink) = self.sink.as_mut() {
            sink.fire();
        }
        self.delivered += 1;
        self.masked = true;
        self.acknowledged = false;
        self.not_before = None;
        None
    }

    fn set_level(&mut self, level: bool, delay: Duration, now: Instant) {
        if level && !self.level && !delay.is_zero() {
            self.not_before = Some(now + delay);
        }
        self.level = level;
        if !level {
            self.withdraw();
        }
    }

    /// Handles a falling level: withdraws an interrupt that has not been seen yet.
    fn withdraw(&mut self) {
        let raised = std::mem::take(&mut self.raised);
        if raised && self.sink.as_mut().is_some_and(|sink| sink.withdraw()) {
            self.delivered = self.delivered.saturating_sub(1);
            self.masked = false;
        }
    }

    /// Sets the core's power state. Loss of power also withdraws interrupts without a cause.
    fn set_off(&mut self, is_off: bool) {
        self.is_off = is_off;
        if is_off && self.stuck.is_none() {
            self.raised |= self.masked;
            self.withdraw();
        }
    }

    /// Restarts the delay of an interrupt that is already delayed.
    fn postpone(&mut self, delay: Duration, now: Instant) {
        if self.not_before.is_some() {
            self.not_before = Some(now + delay);
        }
    }

    fn acknowledge(&mut self) {
        self.level = false;
        self.acknowledged = true;
        self.not_before = None;
        self.withdraw();
    }

    fn unmask(&mut self, now: Instant) {
        if !self.masked {
            return;
        }
        self.masked = false;
        if self.level && !self.acknowledged && self.not_before.is_none() {
            self.not_before = Some(now + HOLD_BACK);
        }
    }
}

/// The interrupt line, shared by the front end, the register block and the server.
#[derive(Default)]
pub struct InterruptLine {
    line: Mutex<Line>,
    changed: Condvar,
}

impl InterruptLine {
    fn with<R>(&self, change: impl FnOnce(&mut Line, Instant) -> R) -> R {
        let mut line = self.lock();
        let now = Instant::now();
        let result = change(&mut line, now);
        if line.service(now).is_some() {
            self.changed.notify_all();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Sets the level. A rising edge takes effect after `delay`.
    pub fn set_level(&self, level: bool, delay: Duration) {
        self.with(|line, now| line.set_level(level, delay, now));
    }

    /// Sets the core's power state: `true` means no power.
    pub fn set_off(&self, is_off: bool) {
        self.with(|line, _| line.set_off(is_off));
    }

    /// Restarts the delay of an interrupt that is already delayed: it comes after `delay` from now.
    pub fn postpone(&self, delay: Duration) {
        self.with(|line, now| line.postpone(delay, now));
    }

    /// Handles a read of the acknowledge register: the level falls.
    pub fn acknowledge(&self) {
        self.with(|line, _| line.acknowledge());
    }

    /// Adds interrupts with nothing pending.
    pub fn add_spurious(&self, count: u32) {
        self.with(|line, _| line.spurious = line.spurious.saturating_add(count));
    }

    /// Adds an interrupt with nothing pending that directly follows the next acknowledge.
    pub fn add_double(&self) {
        self.with(|line, _| line.doubles = line.doubles.saturating_add(1));
    }

    /// Remaining interrupts with nothing pending, without doubles.
    pub fn spurious(&self) -> u32 {
        self.lock().spurious
    }

    /// Drops the remaining interrupts with nothing pending.
    pub fn clear_spurious(&self) {
        let mut line = self.lock();
        line.spurious = 0;
        line.doubles = 0;
    }

    /// Makes the line stick at a level; `None`: makes it work again.
    pub fn set_stuck(&self, stuck: Option<bool>) {
        self.with(|line, _| line.stuck = stuck);
    }

    /// The level at which the line sticks.
    pub fn stuck(&self) -> Option<bool> {
        self.lock().stuck
    }

    /// Connects or disconnects the line.
    pub fn connect(&self, sink: Option<Box<dyn Sink>>) {
        self.with(|line, _| {
            line.sink = sink;
            line.masked = false;
            line.raised = false;
        });
    }

    /// The host masked the line.
    pub fn mask(&self) {
        self.with(|line, _| line.masked = true);
    }

    /// The host unmasked the line.
    pub fn unmask(&self) {
        self.with(|line, now| line.unmask(now));
    }

    /// Interrupts delivered since the last [`InterruptLine::reset_delivered`].
    pub fn delivered(&self) -> u64 {
        self.lock().delivered
    }

    /// Restarts the count of delivered interrupts from 0.
    pub fn reset_delivered(&self) {
        self.lock().delivered = 0;
    }

    /// Fires delayed interrupts. Never returns; runs in its own thread.
    pub fn run(&self) -> ! {
        let mut line = self.lock();
        loop {
            let now = Instant::now();
            line = match line.service(now) {
                None => self
                    .changed
                    .wait(line)
                    .unwrap_or_else(|poison| poison.into_inner()),
                Some(time) => {
                    let wait = time.saturating_duration_since(now);
                    match self.changed.wait_timeout(line, wait) {
                        Ok((line, _)) => line,
                        Err(poison) => poison.into_inner().0,
                    }
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::Arc;

    use super::*;

    /// Counts delivered interrupts. The second field: whether an interrupt can be withdrawn.
    struct Count(Arc<AtomicU32>, bool);

    impl Sink for Count {
        fn fire(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }

        fn withdraw(&mut self) -> bool {
            self.1
        }
    }

    struct Bench {
        line: Line,
        fired: Arc<AtomicU32>,
        now: Instant,
    }

    impl Bench {
        fn new() -> Self {
            Self::with(false)
        }

        /// `is_slow`: no interrupt is seen before it is withdrawn.
        fn with(is_slow: bool) -> Self {
            let fired = Arc::new(AtomicU32::new(0));
            let line = Line {
                sink: Some(Box::new(Count(fired.clone(), is_slow))),
                ..Line::default()
            };
            Self {
                line,
                fired,
                now: Instant::now(),
            }
        }

        fn fired_after(&mut self, time: Duration) -> u32 {
            self.now += time;
            self.line.service(self.now);
            self.fired.load(Relaxed)
        }
    }

    const AT_ONCE: Duration = Duration::ZERO;

    #[test]
    fn fires_once_until_unmasked_and_high_again() {
        let mut bench = Bench::new();
        bench.line.set_level(true, AT_ONCE, bench.now);
        assert_eq!(bench.fired_after(AT_ONCE), 1);
        assert_eq!(bench.fired_after(HOLD_BACK), 1);
        bench.line.acknowledge();
        bench.line.unmask(bench.now);
        assert_eq!(bench.fired_after(HOLD_BACK * 2), 1);
        bench.line.set_level(true, AT_ONCE, bench.now);
        assert_eq!(bench.fired_after(AT_ONCE), 2);
    }

    #[test]
    fn unmask_before_acknowledge_is_held_back() {
        let mut bench = Bench::new();
        bench.line.set_level(true, AT_ONCE, bench.now);
        bench.fired_after(AT_ONCE);
        bench.line.unmask(bench.now);
        assert_eq!(bench.fired_after(HOLD_BACK / 2), 1);
        assert_eq!(bench.fired_after(HOLD_BACK), 2);
        // Acknowledged in time: no interrupt comes.
        bench.line.unmask(bench.now);
        bench.line.acknowledge();
        assert_eq!(bench.fired_after(HOLD_BACK * 2), 2);
    }

    #[test]
    fn what_nobody_has_seen_is_taken_back() {
        for is_slow in [false, true] {
            let mut bench = Bench::with(is_slow);
            bench.line.set_level(true, AT_ONCE, bench.now);
            assert_eq!(bench.fired_after(AT_ONCE), 1);
            bench.line.set_level(false, AT_ONCE, bench.now);
            assert_eq!(bench.line.masked, !is_slow);
            assert_eq!(bench.line.delivered, u64::from(!is_slow));
            // The next one may fire at once, without an UNMASK.
            bench.line.set_level(true, AT_ONCE, bench.now);
            assert_eq!(bench.fired_after(AT_ONCE), 1 + u32::from(is_slow));
            bench.line.acknowledge();
            assert_eq!(bench.line.masked, !is_slow);
        }
    }

    #[test]
    fn an_interrupt_for_nothing_is_not_taken_back() {
        let mut bench = Bench::with(true);
        bench.line.spurious = 1;
        assert_eq!(bench.fired_after(AT_ONCE), 1);
        bench.line.acknowledge();
        bench.line.set_level(false, AT_ONCE, bench.now);
        assert!(bench.line.masked);
        assert_eq!(bench.line.delivered, 1);
    }

    #[test]
    fn an_event_between_acknowledge_and_unmask_fires_at_once() {
        let mut bench = Bench::new();
        bench.line.set_level(true, AT_ONCE, bench.now);
        bench.fired_after(AT_ONCE);
        bench.line.acknowledge();
        bench.line.set_level(true, AT_ONCE, bench.now);
        assert_eq!(bench.fired_after(AT_ONCE), 1);
        bench.line.unmask(bench.now);
        assert_eq!(bench.fired_after(AT_ONCE), 2);
    }

    #[test]
    fn delay_counts_from_the_rise() {
        let mut bench = Bench::new();
        let delay = Duration::from_micros(500);
        bench.line.set_level(true, delay, bench.now);
        assert_eq!(bench.fired_after(delay / 2), 0);
        bench.line.set_level(true, delay, bench.now);
        assert_eq!(bench.fired_after(delay / 2), 1);
    }

    #[test]
    fn what_is_late_can_be_late_again() {
        let mut bench = Bench::new();
        let delay = Duration::from_micros(500);
        // No interrupt is delayed.
        bench.line.postpone(delay, bench.now);
        bench.line.set_level(true, delay, bench.now);
        assert_eq!(bench.fired_after(delay / 2), 0);
        bench.line.postpone(delay, bench.now);
        assert_eq!(bench.fired_after(delay * 3 / 4), 0);
        assert_eq!(bench.fired_after(delay / 4), 1);
    }

    #[test]
    fn spurious_interrupts_come_apart() {
        let mut bench = Bench::new();
        bench.line.spurious = 2;
        assert_eq!(bench.fired_after(AT_ONCE), 1);
        bench.line.acknowledge();
        bench.line.unmask(bench.now);
        assert_eq!(bench.fired_after(AT_ONCE), 1);
        assert_eq!(bench.fired_after(HOLD_BACK), 2);
        bench.line.unmask(bench.now);
        assert_eq!(bench.fired_after(HOLD_BACK * 2), 2);
    }

    #[test]
    fn a_core_that_is_off_raises_nothing() {
        let mut bench = Bench::new();
        bench.line.set_off(true);
        bench.line.spurious = 1;
        assert_eq!(bench.fired_after(HOLD_BACK * 2), 0);
        bench.line.set_off(false);
        assert_eq!(bench.fired_after(AT_ONCE), 1);
    }

    #[test]
    fn a_line_can_be_stuck() {
        let mut bench = Bench::new();
        bench.line.stuck = Some(false);
        bench.line.set_level(true, AT_ONCE, bench.now);
        assert_eq!(bench.fired_after(HOLD_BACK), 0);
        bench.line.stuck = None;
        assert_eq!(bench.fired_after(AT_ONCE), 1);
        bench.line.stuck = Some(true);
        for fired in 2..5 {
            bench.line.acknowledge();
            bench.line.unmask(bench.now);
            assert_eq!(bench.fired_after(HOLD_BACK), fired);
        }
        bench.line.unmask(bench.now);
        assert_eq!(bench.fired_after(HOLD_BACK / 2), 4);
        bench.line.stuck = None;
        assert_eq!(bench.fired_after(HOLD_BACK * 4), 4);
    }

    #[test]
    fn spurious_interrupts_do_not_delay_true_ones() {
        let mut bench = Bench::new();
        bench.line.spurious = 2;
        bench.fired_after(AT_ONCE);
        bench.line.acknowledge();
        bench.line.unmask(bench.now);
        bench.line.set_level(true, AT_ONCE, bench.now);
        assert_eq!(bench.fired_after(AT_ONCE), 2);
        assert_eq!(bench.line.spurious, 1);
    }

    #[test]
    fn a_double_follows_the_acknowledge() {
        let mut bench = Bench::new();
        bench.line.doubles = 1;
        assert_eq!(bench.fired_after(AT_ONCE), 0);
        bench.line.set_level(true, AT_ONCE, bench.now);
        assert_eq!(bench.fired_after(AT_ONCE), 1);
        bench.line.acknowledge();
        bench.line.unmask(bench.now);
        assert_eq!(bench.fired_after(AT_ONCE), 2);
        bench.line.acknowledge();
        bench.line.unmask(bench.now);
        assert_eq!(bench.fired_after(HOLD_BACK * 2), 2);
    }

    #[test]
    fn a_line_that_nobody_hears_waits() {
        let line = InterruptLine::default();
        line.set_level(true, AT_ONCE);
        let fired = Arc::new(AtomicU32::new(0));
        line.connect(Some(Box::new(Count(fired.clone(), false))));
        assert_eq!(fired.load(Relaxed), 1);
        assert_eq!(line.delivered(), 1);
    }
}
