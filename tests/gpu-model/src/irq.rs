// SPDX-License-Identifier: GPL-2.0-only
//! The interrupt line: level inside, edges of an eventfd outside, as vfio does INTx.
//!
//! vfio masks INTx by itself when it fires: the model writes the eventfd once, counts the line as masked and looks
//! again at UNMASK. QEMU unmasks at any access to a BAR, so a handler that reads another register before the
//! acknowledge register would see a second interrupt at once; the line therefore holds back for [`HOLD_BACK`]
//! when UNMASK comes before the acknowledge.
//!
//! An edge that QEMU has not seen when the level falls is taken back: a line that has fallen interrupts nobody, and
//! one that QEMU raised late would stay up until the next access, which a core that was switched off never has.

use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;
use std::time::Instant;

/// How long a line that was unmasked but not acknowledged stays quiet.
pub const HOLD_BACK: Duration = Duration::from_millis(2);

/// Where interrupts go.
pub trait Sink: Send {
    /// Delivers one interrupt.
    fn fire(&mut self);

    /// Takes back the one that was delivered last; `false`: it has been seen.
    fn withdraw(&mut self) -> bool;
}

/// The line's state. Time comes from outside, so that it can be tested without waiting.
#[derive(Default)]
struct Line {
    sink: Option<Box<dyn Sink>>,
    level: bool,
    masked: bool,
    acknowledged: bool,
    /// The last one was delivered since the level was high, which it still is.
    raised: bool,
    /// When a high level may fire.
    not_before: Option<Instant>,
    /// Interrupts with nothing pending that follow an acknowledge at once.
    doubles: u32,
    /// Interrupts with nothing pending, and when the next of them may fire.
    spurious: u32,
    spurious_not_before: Option<Instant>,
    /// The level that it has whatever it should be.
    stuck: Option<bool>,
    /// The core has no power: it raises nothing by itself.
    is_off: bool,
    delivered: u64,
}

impl Line {
    /// Fires if it is time. Returns when to look again if that depends on time alone.
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

    /// The level has fallen: what nobody has seen yet of it is no interrupt.
    fn withdraw(&mut self) {
        let raised = std::mem::take(&mut self.raised);
        if raised && self.sink.as_mut().is_some_and(|sink| sink.withdraw()) {
            self.delivered = self.delivered.saturating_sub(1);
            self.masked = false;
        }
    }

    /// The core loses its power, or gets it: what it has raised without a cause goes with it, too.
    fn set_off(&mut self, is_off: bool) {
        self.is_off = is_off;
        if is_off && self.stuck.is_none() {
            self.raised |= self.masked;
            self.withdraw();
        }
    }

    /// Makes an interrupt that is late already late anew.
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

    /// Sets the level; a rise takes effect after `delay`.
    pub fn set_level(&self, level: bool, delay: Duration) {
        self.with(|line, now| line.set_level(level, delay, now));
    }

    /// The core loses its power, or gets it.
    pub fn set_off(&self, is_off: bool) {
        self.with(|line, _| line.set_off(is_off));
    }

    /// An interrupt that is late already comes after `delay` from now.
    pub fn postpone(&self, delay: Duration) {
        self.with(|line, now| line.postpone(delay, now));
    }

    /// The acknowledge register was read: the level falls.
    pub fn acknowledge(&self) {
        self.with(|line, _| line.acknowledge());
    }

    /// Adds interrupts with nothing pending.
    pub fn add_spurious(&self, count: u32) {
        self.with(|line, _| line.spurious = line.spurious.saturating_add(count));
    }

    /// Adds an interrupt with nothing pending that follows the next acknowledge at once.
    pub fn add_double(&self) {
        self.with(|line, _| line.doubles = line.doubles.saturating_add(1));
    }

    /// Interrupts with nothing pending that are still to come, doubles not counted.
    pub fn spurious(&self) -> u32 {
        self.lock().spurious
    }

    /// Takes back what is still to come without anything pending.
    pub fn clear_spurious(&self) {
        let mut line = self.lock();
        line.spurious = 0;
        line.doubles = 0;
    }

    /// Makes the line stick at a level, or work again.
    pub fn set_stuck(&self, stuck: Option<bool>) {
        self.with(|line, _| line.stuck = stuck);
    }

    /// The level that it is stuck at.
    pub fn stuck(&self) -> Option<bool> {
        self.lock().stuck
    }

    /// Connects the line, or disconnects it.
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

    /// Counts delivered interrupts from 0 again.
    pub fn reset_delivered(&self) {
        self.lock().delivered = 0;
    }

    /// Fires what was delayed, for ever. Runs in a thread of its own.
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

    /// Counts what was delivered; the second tells whether that can be taken back.
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

        /// `is_slow`: nobody sees an interrupt before it is taken back.
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
        // Acknowledged within the time: nothing comes.
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
            // It is the next one's turn at once, without an UNMASK.
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
        // Nothing is late.
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
