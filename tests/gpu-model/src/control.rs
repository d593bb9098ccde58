// SPDX-License-Identifier: GPL-2.0-only
//! The control BAR: counters and armed faults, and their registers (layout: crate `gpu-control`).

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use gpu_control as layout;
use gpu_control::counter;
use gpu_control::fault;

use crate::gpu::Gpu;
use crate::registers::state;

/// Counters, addressed by their offsets in the control BAR.
#[derive(Default)]
pub struct Counters([AtomicU64; counter::ALL.len()]);

impl Counters {
    fn cell(&self, offset: usize) -> &AtomicU64 {
        &self.0[counter::place(offset)]
    }

    /// Adds to a counter of [`gpu_control::counter`].
    pub fn add(&self, offset: usize, amount: u64) {
        self.cell(offset).fetch_add(amount, Relaxed);
    }

    /// A counter's value.
    pub fn get(&self, offset: usize) -> u64 {
        self.cell(offset).load(Relaxed)
    }

    /// Sets a counter.
    pub fn set(&self, offset: usize, value: u64) {
        self.cell(offset).store(value, Relaxed);
    }

    /// Sets all counters to 0.
    pub fn reset(&self) {
        self.0.iter().for_each(|cell| cell.store(0, Relaxed));
    }

    /// Names and values of all counters.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        counter::ALL
            .iter()
            .map(|(name, offset)| (*name, self.get(*offset)))
    }
}

/// Faults that the guest armed. The fields are registers of [`gpu_control::fault`].
#[derive(Default)]
pub struct Faults {
    /// Commands until the front end hangs.
    pub hang_at_command: AtomicU32,
    /// Draws until the front end hangs.
    pub hang_at_draw: AtomicU32,
    /// Number of events that raise no interrupt.
    pub drop_interrupts: AtomicU32,
    /// Delay of interrupts in microseconds.
    pub delay_interrupts: AtomicU32,
    /// Delayed interrupts wait for further events.
    pub gather_interrupts: AtomicU32,
    /// Number of events that raise an additional interrupt.
    pub duplicate_interrupts: AtomicU32,
    /// Number of resets that never become idle.
    pub reset_stuck: AtomicU32,
    /// Value of the model register.
    pub identity: AtomicU32,
    /// The register block is dead.
    pub dead: AtomicU32,
    /// Microseconds by which idle bits lag.
    pub idle_delay: AtomicU32,
    /// TLBs keep nothing.
    pub tlb_off: AtomicU32,
    /// Number of lost events.
    pub lose_events: AtomicU32,
    /// The front end does not run.
    pub hold: AtomicU32,
    /// Order of a VG core's events.
    pub event_order: AtomicU32,
    /// Kind of the front end's hang.
    pub hang_kind: AtomicU32,
    /// Draws until one that never ends.
    pub endless_draw: AtomicU32,
    /// Additional microseconds for each draw.
    pub slow_draws: AtomicU32,
    /// Value of the model register after the next reset.
    pub identity_after_reset: AtomicU32,
    /// Draws of this color hang.
    pub hang_at_colour: AtomicU32,
    /// Soft resets do not become idle until the reset line resets the core.
    pub reset_needs_line: AtomicU32,
    /// Soft resets do not become idle until the core has lost its power.
    pub reset_needs_power: AtomicU32,
    /// Bytes by which the front end's address runs ahead of a stall.
    pub fetch_ahead: AtomicU32,
}

impl Faults {
    /// Counts down a fault that is armed for the next n occasions. Returns true if it was armed.
    pub fn take(cell: &AtomicU32) -> bool {
        let less = |left| match left {
            0 => None,
            u32::MAX => Some(u32::MAX),
            left => Some(left - 1),
        };
        cell.fetch_update(Relaxed, Relaxed, less).is_ok()
    }

    /// Counts down a fault that is armed for the n-th occasion. Returns true at that occasion.
    pub fn reached(cell: &AtomicU32) -> bool {
        cell.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) == Ok(1)
    }

    fn all(&self) -> [&AtomicU32; 22] {
        [
            &self.hang_at_command,
            &self.hang_at_draw,
            &self.drop_interrupts,
            &self.delay_interrupts,
            &self.gather_interrupts,
            &self.duplicate_interrupts,
            &self.reset_stuck,
            &self.identity,
            &self.dead,
            &self.idle_delay,
            &self.tlb_off,
            &self.lose_events,
            &self.hold,
            &self.event_order,
            &self.hang_kind,
            &self.endless_draw,
            &self.slow_draws,
            &self.identity_after_reset,
            &self.hang_at_colour,
            &self.reset_needs_line,
            &self.reset_needs_power,
            &self.fetch_ahead,
        ]
    }

    fn register(&self, offset: usize) -> Option<&AtomicU32> {
        Some(match offset {
            fault::HANG_AT_COMMAND => &self.hang_at_command,
            fault::HANG_AT_DRAW => &self.hang_at_draw,
            fault::DROP_INTERRUPTS => &self.drop_interrupts,
            fault::DELAY_INTERRUPTS => &self.delay_interrupts,
            fault::GATHER_INTERRUPTS => &self.gather_interrupts,
            fault::DUPLICATE_INTERRUPTS => &self.duplicate_interrupts,
            fault::RESET_STUCK => &self.reset_stuck,
            fault::IDENTITY => &self.identity,
            fault::DEAD => &self.dead,
            fault::IDLE_DELAY => &self.idle_delay,
            fault::TLB_OFF => &self.tlb_off,
            fault::LOSE_EVENTS => &self.lose_events,
            fault::HOLD => &self.hold,
            fault::EVENT_ORDER => &self.event_order,
            fault::HANG_KIND => &self.hang_kind,
            fault::ENDLESS_DRAW => &self.endless_draw,
            fault::SLOW_DRAWS => &self.slow_draws,
            fault::IDENTITY_AFTER_RESET => &self.identity_after_reset,
            fault::HANG_AT_COLOUR => &self.hang_at_colour,
            fault::RESET_NEEDS_LINE => &self.reset_needs_line,
            fault::RESET_NEEDS_POWER => &self.reset_needs_power,
            fault::FETCH_AHEAD => &self.fetch_ahead,
            _ => return None,
        })
    }
}

/// State of the control BAR's own registers.
#[derive(Default)]
pub struct ControlBar {
    state_index: AtomicU32,
    latched_high: AtomicU32,
}

impl ControlBar {
    /// Reads the word at an aligned offset.
    pub fn read(&self, gpu: &Gpu, offset: usize) -> u32 {
        match offset {
            layout::MAGIC => layout::MAGIC_VALUE,
            layout::VERSION => layout::VERSION_VALUE,
            layout::BOARD => gpu.personality.board as u32,
            layout::FE_STATE => gpu.front_end_state() as u32,
            layout::FE_ADDRESS => gpu.front_end_address(),
            layout::VIOLATIONS => gpu.recorder.violation_count(),
            layout::LAST_VIOLATION => gpu.recorder.last_kind(),
            layout::LAST_VIOLATION_ADDRESS => gpu.recorder.last_address(),
            layout::EXPECTED_SEEN => gpu.recorder.expected_count(),
            layout::WARNINGS => gpu.recorder.warning_count(),
            layout::PENDING_INTERRUPTS => gpu.pending_interrupts(),
            layout::WORK_PENDING => gpu.work_pending().into(),
            layout::HOST_WAIT => gpu.host_wait(),
            layout::STATE_INDEX => self.state_index.load(Relaxed),
            layout::STATE_VALUE => gpu.state(self.state_index.load(Relaxed)),
            layout::EXPECT_VIOLATION => gpu.recorder.open_expectations(),
            layout::RESET_LINE => gpu.reset_line().into(),
            layout::POWER => gpu.power(),
            layout::SCALE => gpu.scale.load(Relaxed),
            fault::SPURIOUS_INTERRUPTS => gpu.interrupts.spurious(),
            fault::LINE => match gpu.interrupts.stuck() {
                None => fault::LINE_WORKS,
                Some(false) => fault::LINE_LOW,
                Some(true) => fault::LINE_HIGH,
            },
            _ => match gpu.faults.register(offset) {
                Some(cell) => cell.load(Relaxed),
                None => self.read_counter(gpu, offset),
            },
        }
    }

    fn read_counter(&self, gpu: &Gpu, offset: usize) -> u32 {
        let known = counter::ALL.iter().any(|(_, known)| *known == offset & !7);
        if !known {
            return 0;
        }
        if offset % 8 == 4 {
            return self.latched_high.load(Relaxed);
        }
        gpu.sync_counters();
        let value = gpu.counters.get(offset);
        self.latched_high.store((value >> 32) as u32, Relaxed);
        value as u32
    }

    /// Writes the word at an aligned offset.
    pub fn write(&self, gpu: &Gpu, offset: usize, value: u32) {
        match offset {
            layout::RESET_COUNTERS => {
                gpu.counters.reset();
                gpu.interrupts.reset_delivered();
            }
            layout::STATE_INDEX => self.state_index.store(value % state::WORDS as u32, Relaxed),
            layout::STATE_DUMP => gpu.dump_states(value),
            layout::FETCH_DUMP => gpu.dump_fetched(value),
            layout::WRITEABLE_DUMP => gpu.dump_writeable(value),
            layout::RESET_LINE => gpu.drive_reset_line(value & 1 != 0),
            layout::POWER => gpu.set_power(value),
            layout::EXPECT_VIOLATION => gpu.recorder.expect(value),
            layout::CLEAR_EXPECTATIONS => gpu.recorder.clear_expectations(),
            fault::CLEAR_ALL => {
                gpu.faults
                    .all()
                    .iter()
                    .for_each(|cell| cell.store(0, Relaxed));
                gpu.interrupts.clear_spurious();
                gpu.interrupts.set_stuck(None);
                gpu.unstick();
                gpu.end_endless_draw();
                gpu.wake();
            }
            fault::SPURIOUS_INTERRUPTS => gpu.interrupts.add_spurious(value),
            fault::RAISE_BITS => gpu.raise(value),
            fault::POLL_SEED => gpu.reseed(value),
            fault::LINE => gpu.interrupts.set_stuck(match value {
                fault::LINE_LOW => Some(false),
                fault::LINE_HIGH => Some(true),
                _ => None,
            }),
            _ => {
                if let Some(cell) = gpu.faults.register(offset) {
                    cell.store(value, Relaxed);
                }
                match offset {
                    fault::RESET_STUCK | fault::RESET_NEEDS_LINE | fault::RESET_NEEDS_POWER
                        if value == 0 =>
                    {
                        gpu.unstick()
                    }
                    fault::ENDLESS_DRAW if value == 0 => gpu.end_endless_draw(),
                    fault::HOLD | fault::EVENT_ORDER => gpu.wake(),
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gpu_control::Board;
    use gpu_control::ViolationKind;

    use super::*;
    use crate::gpu::Options;
    use crate::registers::HI_CLOCK_CONTROL;
    use crate::registers::HI_IDLE_STATE;
    use crate::registers::MC_MEMORY_BASE_ADDR_FE;

    fn gpu() -> Gpu {
        Gpu::new(Options::new(Board::Gc320)).unwrap()
    }

    #[test]
    fn identity_of_the_bar() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        assert_eq!(bar.read(&gpu, layout::MAGIC), layout::MAGIC_VALUE);
        assert_eq!(bar.read(&gpu, layout::VERSION), 1);
        assert_eq!(
            Board::from_code(bar.read(&gpu, layout::BOARD)),
            Some(Board::Gc320)
        );
        assert_eq!(bar.read(&gpu, 0xffc), 0);
    }

    #[test]
    fn counters_read_in_two_halves_that_fit_together() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        gpu.counters.add(counter::BYTES_READ, 0x1_ffff_fff0);
        assert_eq!(bar.read(&gpu, counter::BYTES_READ), 0xffff_fff0);
        gpu.counters.add(counter::BYTES_READ, 0x100);
        assert_eq!(bar.read(&gpu, counter::BYTES_READ + 4), 1);
        assert_eq!(bar.read(&gpu, counter::BYTES_READ), 0xf0);
        assert_eq!(bar.read(&gpu, counter::BYTES_READ + 4), 2);
        bar.write(&gpu, layout::RESET_COUNTERS, 1);
        assert_eq!(bar.read(&gpu, counter::BYTES_READ), 0);
    }

    #[test]
    fn counters_are_dense_and_known_by_offset() {
        for (index, (_, offset)) in counter::ALL.iter().enumerate() {
            assert_eq!(counter::place(*offset), index);
        }
    }

    #[test]
    fn faults_read_back_and_clear() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        bar.write(&gpu, fault::HANG_AT_COMMAND, 7);
        bar.write(&gpu, fault::DEAD, 1);
        assert_eq!(bar.read(&gpu, fault::HANG_AT_COMMAND), 7);
        assert_eq!(bar.read(&gpu, fault::DEAD), 1);
        bar.write(&gpu, fault::CLEAR_ALL, 1);
        assert_eq!(bar.read(&gpu, fault::HANG_AT_COMMAND), 0);
        assert_eq!(bar.read(&gpu, fault::DEAD), 0);
    }

    #[test]
    fn what_soft_resets_do_not_end_the_line_ends() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        let soft_reset = || {
            for control in [0x8_0100, 0x8_1100, 0x8_0100, 0x100] {
                gpu.mmio_write(HI_CLOCK_CONTROL, control);
            }
            gpu.mmio_read(HI_IDLE_STATE) != 0
        };
        let pulse = || {
            bar.write(&gpu, layout::RESET_LINE, 1);
            assert_eq!(bar.read(&gpu, layout::RESET_LINE), 1);
            bar.write(&gpu, layout::RESET_LINE, 0);
            assert_eq!(bar.read(&gpu, layout::RESET_LINE), 0);
        };
        assert!(soft_reset());
        bar.write(&gpu, fault::RESET_NEEDS_LINE, 1);
        assert!(!soft_reset() && !soft_reset());
        gpu.mmio_write(MC_MEMORY_BASE_ADDR_FE, 0x1000);
        pulse();
        assert_eq!(gpu.mmio_read(MC_MEMORY_BASE_ADDR_FE), 0);
        assert_eq!(bar.read(&gpu, fault::RESET_NEEDS_LINE), 0);
        assert!(soft_reset());
        assert_eq!(bar.read(&gpu, counter::LINE_RESETS), 1);
        // If the core never resets, its reset line does not help either.
        bar.write(&gpu, fault::RESET_STUCK, u32::MAX);
        pulse();
        assert!(!soft_reset());
    }

    #[test]
    fn a_core_without_clock_or_power_has_no_registers() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        let last = || ViolationKind::from_code(bar.read(&gpu, layout::LAST_VIOLATION));
        assert_eq!(
            bar.read(&gpu, layout::POWER),
            layout::POWER_CLOCK | layout::POWER_DOMAIN
        );
        gpu.mmio_write(MC_MEMORY_BASE_ADDR_FE, 0x1000);
        // The clock alone: the core keeps its state.
        bar.write(&gpu, layout::POWER, layout::POWER_DOMAIN);
        assert_eq!(last(), None);
        gpu.mmio_read(HI_IDLE_STATE);
        assert_eq!(last(), Some(ViolationKind::PoweredOff));
        bar.write(
            &gpu,
            layout::POWER,
            layout::POWER_DOMAIN | layout::POWER_CLOCK,
        );
        assert_eq!(gpu.mmio_read(MC_MEMORY_BASE_ADDR_FE), 0x1000);
        // Power: the core loses its state.
        bar.write(&gpu, layout::POWER, 0);
        gpu.mmio_write(MC_MEMORY_BASE_ADDR_FE, 0x2000);
        bar.write(
            &gpu,
            layout::POWER,
            layout::POWER_DOMAIN | layout::POWER_CLOCK,
        );
        assert_eq!(gpu.mmio_read(MC_MEMORY_BASE_ADDR_FE), 0);
        assert_eq!(bar.read(&gpu, layout::VIOLATIONS), 2);
        assert_eq!(bar.read(&gpu, counter::POWER_UPS), 1);
        assert_eq!(bar.read(&gpu, counter::CLOCK_UPS), 2);
    }

    #[test]
    fn the_divider_is_loaded_by_its_strobe() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        assert_eq!(bar.read(&gpu, layout::SCALE), 64);
        gpu.mmio_write(HI_CLOCK_CONTROL, 16 << 2);
        assert_eq!(bar.read(&gpu, layout::SCALE), 64);
        gpu.mmio_write(HI_CLOCK_CONTROL, 16 << 2 | 1 << 9);
        assert_eq!(bar.read(&gpu, layout::SCALE), 16);
        bar.write(
            &gpu,
            layout::EXPECT_VIOLATION,
            ViolationKind::ClockDivider as u32,
        );
        gpu.mmio_write(HI_CLOCK_CONTROL, 65 << 2 | 1 << 9);
        assert_eq!(bar.read(&gpu, layout::EXPECTED_SEEN), 1);
        assert_eq!(bar.read(&gpu, layout::SCALE), 16);
        bar.write(&gpu, layout::POWER, layout::POWER_CLOCK);
        bar.write(
            &gpu,
            layout::POWER,
            layout::POWER_CLOCK | layout::POWER_DOMAIN,
        );
        assert_eq!(bar.read(&gpu, layout::SCALE), 64);
    }

    #[test]
    fn a_core_that_works_must_not_lose_its_clock() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        gpu.publish_running_for_test();
        bar.write(&gpu, layout::POWER, layout::POWER_DOMAIN);
        assert_eq!(
            bar.read(&gpu, layout::LAST_VIOLATION),
            ViolationKind::PowerOffBusy as u32
        );
    }

    #[test]
    fn counting_down() {
        let cell = AtomicU32::new(2);
        assert_eq!([(); 3].map(|()| Faults::take(&cell)), [true, true, false]);
        cell.store(u32::MAX, Relaxed);
        assert!(Faults::take(&cell) && Faults::take(&cell));
        assert_eq!(cell.load(Relaxed), u32::MAX);
        cell.store(2, Relaxed);
        assert_eq!(
            [(); 3].map(|()| Faults::reached(&cell)),
            [false, true, false]
        );
    }

    #[test]
    fn all_states_are_dumped() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        gpu.memory.add_anonymous(0x1000, 0x5_0000).unwrap();
        gpu.states[0x481].store(0x1234_5678, Relaxed);
        gpu.states[0xffff].store(9, Relaxed);
        bar.write(&gpu, layout::STATE_DUMP, 0x2000);
        let memory = gpu.memory.snapshot();
        assert_eq!(
            memory.read_u32(0x2000u32 + 4 * 0x481).ok(),
            Some(0x1234_5678)
        );
        assert_eq!(memory.read_u32(0x2000u32 + 4 * 0xffff).ok(), Some(9));
        assert_eq!(memory.read_u32(0x2000u32 + 4 * 0x482).ok(), Some(0));
        // No memory at this address.
        bar.write(&gpu, layout::STATE_DUMP, 0x9000_0000);
    }

    #[test]
    fn what_was_fetched_is_dumped_once() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        gpu.memory.add_anonymous(0x1000, 0x5_0000).unwrap();
        let word = |index: u32| gpu.memory.snapshot().read_u32(0x2000 + 4 * index).ok();
        let loop_units = [(0x100, 0x3800_00c8), (0x108, 0x100_4000_0002)];
        for (address, unit) in [loop_units, loop_units, loop_units].concat() {
            gpu.note_fetch(address, unit);
        }
        gpu.note_fetch(0x100, 0x200_4000_0008);
        bar.write(&gpu, layout::FETCH_DUMP, 0x2000);
        let wanted = [
            [0x100, 0x3800_00c8, 0, 1],
            [0x108, 0x4000_0002, 0x100, 1],
            [0x100, 0x4000_0008, 0x200, 1],
            [0; 4],
        ];
        for (index, wanted) in (0..).zip(wanted.concat()) {
            assert_eq!(word(index), Some(wanted), "word {index}");
        }
        for address in 0..=layout::FETCH_DUMP_UNITS as u32 {
            gpu.note_fetch(8 * address, 0);
        }
        bar.write(&gpu, layout::FETCH_DUMP, 0x2000);
        assert_eq!(word(0), Some(8));
        bar.write(&gpu, layout::FETCH_DUMP, 0x2000);
        assert_eq!(word(0), Some(0));
    }

    #[test]
    fn expectations_and_violations_show() {
        let (gpu, bar) = (gpu(), ControlBar::default());
        bar.write(
            &gpu,
            layout::EXPECT_VIOLATION,
            ViolationKind::UnknownRegister as u32,
        );
        assert_eq!(bar.read(&gpu, layout::EXPECT_VIOLATION), 1);
        gpu.mmio_read(0x900);
        assert_eq!(bar.read(&gpu, layout::EXPECTED_SEEN), 1);
        assert_eq!(bar.read(&gpu, layout::VIOLATIONS), 0);
        gpu.mmio_read(0x904);
        assert_eq!(bar.read(&gpu, layout::VIOLATIONS), 1);
        assert_eq!(
            bar.read(&gpu, layout::LAST_VIOLATION),
            ViolationKind::UnknownRegister as u32
        );
        assert_eq!(bar.read(&gpu, layout::LAST_VIOLATION_ADDRESS), 0x904);
    }
}
