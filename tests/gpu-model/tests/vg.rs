// SPDX-License-Identifier: GPL-2.0-only
//! The VG core through the whole model, on plain memory: valid driver behavior, and forbidden behavior.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use gpu_control::counter;
use gpu_control::fault;
use gpu_control::Board;
use gpu_control::FrontEndState;
use gpu_control::ViolationKind;
use gpu_model::control::ControlBar;
use gpu_model::frontend::Step;
use gpu_model::gpu::Gpu;
use gpu_model::gpu::Options;
use gpu_model::registers::state::vg::*;
use gpu_model::registers::*;

/// Guest RAM. Addresses are physical.
const RAM: u32 = 0x4000_0000;
const RAM_BYTES: usize = 4 << 20;
const BUFFER: u32 = RAM + 0x1000;
const SECOND: u32 = RAM + 0x2000;
const TABLE: u32 = RAM + 0x10_0000;
const TARGET: u32 = RAM + 0x20_0000;
const STRIDE: u32 = 256;

const END: u32 = 13;
const PIXEL: u32 = 0x07;
const VG: u32 = 0x0f;
const TESSELLATION: u32 = 0x10;

const fn state(word: u32, count: u32) -> u32 {
    0x3000_0000 | (count << 16) | word
}

const fn fetch(units: u32) -> u32 {
    0x5000_0000 | units
}

const fn call(units: u32) -> u32 {
    0x6000_0000 | units
}

const RETURN: [u32; 2] = [0x7000_0000, 0];

fn event(module: u32, id: u32) -> [u32; 2] {
    [state(EVENT, 1), module << 8 | id]
}

fn semaphore_and_stall(module: u32) -> [u32; 4] {
    [0x1000_0000 | module, 0, 0x2000_0000 | module, 0]
}

/// The smallest drawing, without END.
fn rectangle(address: u32, format: u32, color: u32) -> Vec<u32> {
    let mut words = vec![state(TARGET_FORMAT, 1), 0x200 | format];
    words.extend([state(TARGET_ADDRESS, 1), address]);
    words.extend([state(TARGET_STRIDE, 1), STRIDE]);
    words.extend([state(TARGET_SIZE, 1), 16 << 16 | 32]);
    words.extend([state(TESSELLATOR, 1), 0, state(COLOR, 1), color]);
    words.extend([state(CONTROL, 1), 0x1000_0001]);
    words.extend([0x4000_0001, 0, 3 << 16 | 2, 4 << 16 | 8]);
    words.extend([state(FLUSH, 1), 0x11]);
    words
}

struct Rig {
    gpu: Arc<Gpu>,
    bar: ControlBar,
}

impl Rig {
    fn new() -> Self {
        let gpu = Gpu::new(Options::new(Board::Gc355)).unwrap();
        gpu.memory.add_anonymous(RAM.into(), RAM_BYTES).unwrap();
        let rig = Self {
            gpu: Arc::new(gpu),
            bar: ControlBar::default(),
        };
        rig.initialise();
        rig
    }

    /// Writes a driver's register setup after reset.
    fn initialise(&self) {
        self.gpu.mmio_write(HI_CLOCK_CONTROL, 0x100);
        for offset in (MC_MMU_FE_PAGE_TABLE..=MC_MMU_RA_PAGE_TABLE).step_by(4) {
            self.gpu.mmio_write(offset, TABLE);
        }
    }

    fn put(&self, address: u32, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.gpu.memory.snapshot().write(address, &bytes).unwrap();
    }

    fn word(&self, address: u32) -> u32 {
        self.gpu.memory.snapshot().read_u32(address).unwrap()
    }

    fn start(&self, address: u32, units: u32) {
        self.gpu.mmio_write(HI_INTR_ENBL, 0xffff_fffe);
        self.gpu.mmio_write(VG_FETCH_ADDRESS, address);
        self.gpu.mmio_write(VG_FETCH_COUNT, units);
    }

    /// Starts the words without changes.
    fn run_raw(&self, words: &[u32]) {
        self.put(BUFFER, words);
        self.start(BUFFER, words.len() as u32 / 2);
        self.gpu.run_until_idle();
    }

    /// Starts the words, followed by END.
    fn run(&self, words: &[u32]) {
        self.run_raw(&[words, &[END, 0]].concat());
    }

    fn acknowledge(&self) -> u32 {
        self.gpu.mmio_read(HI_INTR_ACKNOWLEDGE)
    }

    fn kinds(&self) -> Vec<&'static str> {
        let report = self.gpu.recorder.report();
        report.violations.iter().map(|v| v.kind).collect()
    }

    fn clean(&self) {
        assert_eq!(self.kinds(), [""; 0]);
    }

    /// Expects these violations and this state of the front end.
    fn broke(&self, kinds: &[ViolationKind], state: FrontEndState) {
        let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
        assert_eq!(self.kinds(), names);
        assert_eq!(self.gpu.front_end_state(), state);
    }

    fn state(&self) -> FrontEndState {
        self.gpu.front_end_state()
    }
}

#[test]
fn identity_and_idle_are_the_cores() {
    let rig = Rig::new();
    let read = |offset| rig.gpu.mmio_read(offset);
    assert_eq!(read(HI_CHIP_MODEL), 0x355);
    assert_eq!(read(HI_CHIP_REV), 0x1215);
    assert_eq!(read(HI_CHIP_FEATURE), 0x1e2c_7cc8);
    assert_eq!(read(HI_CHIP_MINOR_FEATURE_0), 0x0024_207f);
    assert_eq!(read(HI_CHIP_MINOR_FEATURE_1), 0x0001_0104);
    assert_eq!(read(HI_IDLE_STATE), 0xf05);
    assert_eq!(
        read(HI_CLOCK_CONTROL) & CLOCK_CONTROL_IDLE,
        CLOCK_CONTROL_IDLE
    );
    rig.clean();
    for offset in [
        FE_COMMAND_ADDRESS,
        FE_DMA_ADDRESS,
        MMUV2_CONTROL,
        PM_PULSE_EATER,
    ] {
        read(offset);
        assert_eq!(rig.kinds().pop(), Some("unknown-register"), "{offset:#x}");
    }
    assert_eq!(rig.kinds().len(), 4);
    let other = Gpu::new(Options::new(Board::Gc355Qp)).unwrap();
    assert_eq!(other.mmio_read(HI_CHIP_REV), 0x1216);
    assert_eq!(other.mmio_read(HI_CHIP_MINOR_FEATURE_1), 0x0101_0104);
    // And the reverse.
    let other = Gpu::new(Options::new(Board::Gc2000)).unwrap();
    other.mmio_read(VG_FETCH_COUNT);
    assert_eq!(other.recorder.violation_count(), 1);
}

#[test]
fn the_drivers_reset_works() {
    let rig = Rig::new();
    rig.run(&[state(COLOR, 1), 7]);
    let control = rig.gpu.mmio_read(HI_CLOCK_CONTROL);
    for (offset, value) in [
        (PM_MODULE_CONTROLS, 0),
        (HI_CLOCK_CONTROL, control | CLOCK_CONTROL_ISOLATE_GPU),
        (
            HI_CLOCK_CONTROL,
            control | CLOCK_CONTROL_ISOLATE_GPU | CLOCK_CONTROL_SOFT_RESET,
        ),
        (HI_CLOCK_CONTROL, control | CLOCK_CONTROL_ISOLATE_GPU),
        (HI_CLOCK_CONTROL, control),
    ] {
        rig.gpu.mmio_write(offset, value);
    }
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE) & 1, 1);
    assert_eq!(rig.gpu.mmio_read(HI_CLOCK_CONTROL) & 0x3_0000, 0x3_0000);
    assert_eq!(rig.gpu.state(COLOR), 0);
    assert_eq!(rig.gpu.mmio_read(MC_MMU_FE_PAGE_TABLE), 0);
    assert_eq!(rig.acknowledge(), 0);
    rig.clean();
}

#[test]
fn a_rectangle_is_drawn_in_both_formats() {
    for (format, bytes, pixel) in [(3, 4u32, 0xff11_2233u32), (1, 2, 0x1106)] {
        let rig = Rig::new();
        let mut words = rectangle(TARGET, format, 0xff33_2211);
        words.extend(semaphore_and_stall(PIXEL));
        rig.run(&words);
        rig.clean();
        assert_eq!(rig.acknowledge(), 1 << END);
        assert_eq!(rig.state(), FrontEndState::Stopped);
        let at = |x, y| TARGET + y * STRIDE + x * bytes;
        let double = if bytes == 2 {
            pixel << 16 | pixel
        } else {
            pixel
        };
        for (x, y, wanted) in [
            (2, 3, double),
            (8, 6, double),
            (10, 3, 0),
            (0, 3, 0),
            (2, 2, 0),
            (2, 7, 0),
        ] {
            assert_eq!(rig.word(at(x, y)), wanted, "{x} {y}");
        }
        let counted = |offset| rig.gpu.counters.get(offset);
        assert_eq!(counted(counter::VG_RECTANGLES), 1);
        assert_eq!(counted(counter::PIXELS), 32);
    }
}

#[test]
fn states_are_stored_by_pipe() {
    let rig = Rig::new();
    rig.run(&[state(0xa40, 3), 1, 2, 3, 0x3001_1a40, 9]);
    rig.clean();
    let words = [0xa40, 0xa41, 0xa42, 0x1a40].map(|word| rig.gpu.state(word));
    assert_eq!(words, [1, 2, 3, 9]);
}

#[test]
fn fetch_call_and_return_are_followed() {
    let rig = Rig::new();
    rig.put(SECOND, &[state(0xa40, 1), 1, RETURN[0], RETURN[1]]);
    rig.put(
        SECOND + 0x100,
        &[state(0xa42, 1), 3, 0x8000_0000, 0, END, 0, 0xf000_0000, 0],
    );
    let words = [
        call(2),
        SECOND,
        state(0xa41, 1),
        2,
        fetch(3),
        SECOND + 0x100,
    ];
    rig.run_raw(&words);
    rig.clean();
    let words = [0xa40, 0xa41, 0xa42].map(|word| rig.gpu.state(word));
    assert_eq!(words, [1, 2, 3]);
    assert_eq!(rig.acknowledge(), 1 << END);
    // The words after END are not read.
    assert_eq!(rig.gpu.mmio_read(VG_FETCH_CURRENT), SECOND + 0x110);
}

#[test]
fn what_the_front_end_cannot_do_is_told() {
    use FrontEndState::*;
    use ViolationKind::*;
    let cases: [(&[u32], ViolationKind, FrontEndState); 20] = [
        (&[0xa000_0000, 0], IllegalOpcode, Hung),
        (&[0xf000_0000, 0], IllegalOpcode, Hung),
        (&RETURN, VgCommand, Hung),
        (&[0x2000_0007, 0], UnarmedStall, Hung),
        (&[0x1000_0005, 0], VgCommand, Hung),
        (&[state(STALL, 1), 0x710], UnarmedStall, Hung),
        (&[state(COLOR, 0), 0], VgCommand, Stopped),
        (&[fetch(1), SECOND + 4], MisalignedLink, Hung),
        (&[fetch(0), SECOND], PrefetchOverrun, Stopped),
        (&[fetch(1), SECOND + 1], VgAddress, Hung),
        (&[fetch(1), 0x0200_0002], VgAddress, Hung),
        (&[fetch(1), 0x9000_0000], BusError, Hung),
        (&[0x9000_0000, 0], Unsupported, Stopped),
        (&[state(TARGET_ADDRESS, 1), TARGET + 3], VgAddress, Stopped),
        (&event(PIXEL, 13), BadEvent, Stopped),
        (&event(PIXEL, 0), BadEvent, Stopped),
        (&event(PIXEL, 31), BadEvent, Stopped),
        (&event(0x13, 5), BadEvent, Stopped),
        (&[state(EVENT, 1), 5 | 1 << 6], BadEvent, Stopped),
        (
            &[state(CONTROL, 1), 2, 0x4000_0001, 0, 0, 0],
            BadDraw,
            Stopped,
        ),
    ];
    for (words, kind, state) in cases {
        let rig = Rig::new();
        rig.run(words);
        let kinds = match words {
            // The module is invalid too.
            [_, value] if *value == 5 | 1 << 6 => vec![kind, kind],
            _ => vec![kind],
        };
        rig.broke(&kinds, state);
    }
}

#[test]
fn the_count_is_the_end() {
    for words in [
        // The end of the whole stream, within a command, within a CALL.
        vec![0x8000_0000, 0],
        vec![state(0xa40, 4), 1],
        vec![0x4000_0002, 0, 0, 0],
    ] {
        let rig = Rig::new();
        rig.put(BUFFER + 4 * words.len() as u32, &[END, 0]);
        rig.run_raw(&words);
        let kinds = rig.kinds();
        assert_eq!(kinds.last(), Some(&"prefetch-overrun"), "{words:x?}");
        assert_eq!(rig.state(), FrontEndState::Stopped);
        assert_eq!(rig.acknowledge(), 0);
    }
    let rig = Rig::new();
    rig.put(SECOND, &[0x8000_0000, 0, RETURN[0], RETURN[1]]);
    rig.run(&[call(1), SECOND]);
    rig.broke(&[ViolationKind::PrefetchOverrun], FrontEndState::Stopped);
}

#[test]
fn a_call_within_a_call_is_told() {
    let rig = Rig::new();
    rig.put(SECOND, &[call(1), SECOND + 64]);
    rig.run(&[call(1), SECOND]);
    rig.broke(&[ViolationKind::Unsupported], FrontEndState::Hung);
}

#[test]
fn starts_that_cannot_work_are_told() {
    let rig = Rig::new();
    rig.start(BUFFER, 0);
    rig.gpu.run_until_idle();
    rig.broke(&[ViolationKind::FrontEndStart], FrontEndState::Stopped);

    let rig = Rig::new();
    rig.put(BUFFER, &[END, 0]);
    rig.start(BUFFER + 4, 1);
    rig.gpu.run_until_idle();
    rig.broke(&[ViolationKind::MisalignedLink], FrontEndState::Hung);

    let rig = Rig::new();
    rig.put(BUFFER, &[END, 0]);
    rig.start(BUFFER, 1);
    rig.start(BUFFER, 1);
    rig.gpu.run_until_idle();
    rig.broke(&[ViolationKind::FrontEndStart], FrontEndState::Stopped);

    let rig = Rig::new();
    rig.gpu.mmio_write(HI_CLOCK_CONTROL, 2);
    rig.run(&[]);
    rig.broke(&[ViolationKind::FrontEndStart], FrontEndState::Stopped);

    // The clock differs from that of the 3D cores.
    let rig = Rig::new();
    rig.gpu.mmio_write(HI_CLOCK_CONTROL, 1);
    rig.run(&[]);
    rig.clean();
}

#[test]
fn addresses_go_by_their_tags() {
    let rig = Rig::new();
    for page in 0..4 {
        rig.put(TABLE + 4 * (16 + page), &[TARGET + 0x1000 * (3 - page)]);
    }
    rig.put(TABLE + 4 * 2, &[BUFFER & !0xfff]);
    let words = [rectangle(0x1_0002, 3, 0xff33_2211), vec![END, 0]].concat();
    rig.put(BUFFER, &words);
    rig.start(0x2002, words.len() as u32 / 2);
    rig.gpu.run_until_idle();
    rig.clean();
    let at = TARGET + 0x3000 + 3 * STRIDE + 2 * 4;
    assert_eq!(rig.word(at), 0xff11_2233);
    assert_eq!(rig.gpu.mmio_read(VG_FETCH_CURRENT) & 3, 2);

    // The table changes while the TLBs keep the old entry: reported until a flush.
    rig.put(TABLE + 4 * 16, &[TARGET]);
    rig.run(&rectangle(0x1_0002, 3, 0xff33_2211));
    assert_eq!(rig.kinds(), ["stale-tlb"]);
    let flush = [state(FLUSH_MMU, 1), 0x1f].to_vec();
    rig.run(&[flush, rectangle(0x1_0002, 3, 0xff33_2211)].concat());
    assert_eq!(rig.kinds(), ["stale-tlb"]);
    assert_eq!(rig.word(TARGET + 3 * STRIDE + 2 * 4), 0xff11_2233);
}

#[test]
fn a_free_entry_and_a_table_that_is_missing_are_told() {
    let rig = Rig::new();
    rig.put(TABLE + 4 * 16, &[u32::MAX]);
    rig.run(&rectangle(0x1_0002, 3, 0xff33_2211));
    assert_eq!(rig.kinds(), ["bus-error"]);
    assert_ne!(rig.acknowledge() & INTR_AXI_BUS_ERROR, 0);

    let gpu = Gpu::new(Options::new(Board::Gc355)).unwrap();
    gpu.memory.add_anonymous(RAM.into(), RAM_BYTES).unwrap();
    gpu.mmio_write(VG_FETCH_ADDRESS, 0x1_0002);
    gpu.mmio_write(VG_FETCH_COUNT, 1);
    gpu.run_until_idle();
    let violations = gpu.recorder.report().violations;
    let kinds: Vec<_> = violations.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, ["front-end-start", "no-page-table"]);
}

#[test]
fn a_paths_addresses_are_looked_at() {
    // A STATE of four words ends with a pad word.
    let path = |buffer: u32, level_2: u32| {
        let parts = [buffer, TARGET, level_2, 1024, 0x8000_0000];
        let mut words = vec![state(TS_WRITE, 4)];
        words.extend(parts);
        words.push(state(TS_READ, 4));
        words.extend(parts);
        words.extend([state(TS_SIZE, 1), 16 << 16 | 128]);
        words.extend([state(TS_LEVEL_2, 1), 1]);
        words.extend([state(TARGET_ADDRESS, 1), TARGET]);
        words.extend([state(TESSELLATOR, 1), 0x0100_0200]);
        words.extend([0x4000_0001, 0, 0x1234_5602, 0]);
        words
    };
    let good = path(RAM + 0x30_0000, RAM + 0x31_0000);
    let rig = Rig::new();
    rig.run(&good);
    rig.clean();
    assert_eq!(rig.gpu.counters.get(counter::VG_PATHS), 1);
    assert_eq!(rig.gpu.state(TS_WRITE_STRIDE), 1024);
    assert_eq!(rig.gpu.state(TS_READ_STRIDE), 1024);
    // The buffer extends beyond memory, or its second level is outside.
    for bad in [
        path(RAM + RAM_BYTES as u32 - 0x1000, RAM),
        path(RAM, 0x9000_0000),
    ] {
        let rig = Rig::new();
        rig.run(&bad);
        assert_eq!(rig.kinds(), ["bus-error"; 2], "TS writes, VG reads");
    }
}

#[test]
fn a_modules_events_keep_their_order() {
    let rig = Rig::new();
    rig.gpu.mmio_write(HI_INTR_ENBL, u32::MAX);
    let draw = rectangle(TARGET, 3, 0xff33_2211);
    let events = [
        event(TESSELLATION, 1),
        event(VG, 2),
        event(PIXEL, 3),
        event(PIXEL, 4),
    ];
    let words = [draw, events.concat(), vec![END, 0]].concat();
    for seed in 1..40 {
        rig.bar.write(&rig.gpu, fault::POLL_SEED, seed);
        rig.put(TARGET + 3 * STRIDE + 8, &[0]);
        rig.put(BUFFER, &words);
        rig.start(BUFFER, words.len() as u32 / 2);
        let mut seen = 0;
        while rig.gpu.step() == Step::Busy {
            let bits = rig.gpu.pending_interrupts() & 0x1e;
            assert_eq!(bits & (bits + 2), 0, "{bits:#x}: no gaps");
            assert!(bits & seen == seen);
            seen = bits;
            if bits & 1 << 3 != 0 {
                let pixel = rig.word(TARGET + 3 * STRIDE + 8);
                assert_eq!(pixel, 0xff11_2233, "drawn before the event");
            }
        }
        assert_eq!(rig.acknowledge(), 0x1e | 1 << END);
    }
    rig.clean();
}

#[test]
fn events_come_before_and_after_the_end() {
    let rig = Rig::new();
    let nops = [0x8000_0000, 0].repeat(8);
    let words = [
        rectangle(TARGET, 3, 0xff33_2211),
        event(PIXEL, 3).to_vec(),
        nops,
    ];
    let words = words.concat();
    let first_bits = |order: u32, seed: u32| {
        rig.bar.write(&rig.gpu, fault::EVENT_ORDER, order);
        rig.bar.write(&rig.gpu, fault::POLL_SEED, seed);
        rig.put(BUFFER, &[words.as_slice(), &[END, 0]].concat());
        rig.start(BUFFER, words.len() as u32 / 2 + 1);
        while rig.gpu.pending_interrupts() == 0 {
            rig.gpu.step();
        }
        let first = rig.gpu.pending_interrupts();
        rig.gpu.run_until_idle();
        let both = rig.gpu.pending_interrupts();
        rig.acknowledge();
        rig.gpu.run_until_idle();
        let late = rig.acknowledge();
        assert_eq!(both | late, 1 << END | 1 << 3);
        (first, late)
    };
    let all: Vec<_> = (1..40)
        .map(|seed| first_bits(fault::EVENTS_FREE, seed))
        .collect();
    assert!(all.contains(&(1 << END, 0)) && all.contains(&(1 << 3, 0)));
    for seed in 1..40 {
        let (first, late) = first_bits(fault::EVENTS_FIRST, seed);
        assert_eq!((first, late), (1 << 3, 0));
        let (first, late) = first_bits(fault::EVENTS_LAST, seed);
        assert_eq!((first, late), (1 << END, 1 << 3));
    }
    rig.clean();
}

#[test]
fn events_that_come_last_come_without_an_acknowledge_too() {
    let rig = Rig::new();
    rig.bar
        .write(&rig.gpu, fault::EVENT_ORDER, fault::EVENTS_LAST);
    rig.run(&event(PIXEL, 3));
    assert_eq!(rig.gpu.pending_interrupts(), 1 << END);
    let begun = Instant::now();
    while rig.gpu.pending_interrupts() & 1 << 3 == 0 {
        assert!(begun.elapsed() < Duration::from_secs(5));
        rig.gpu.step();
    }
    assert!(begun.elapsed() >= Duration::from_millis(15));
}

#[test]
fn a_stall_waits_for_its_module() {
    let rig = Rig::new();
    rig.bar
        .write(&rig.gpu, fault::EVENT_ORDER, fault::EVENTS_LAST);
    for module in [PIXEL, VG, TESSELLATION] {
        let words = [
            rectangle(TARGET, 3, 0xff33_2211),
            event(module, 3).to_vec(),
            semaphore_and_stall(module).to_vec(),
        ];
        rig.run(&words.concat());
        // The stall lets the event come before END.
        assert_eq!(rig.acknowledge(), 1 << END | 1 << 3, "{module:#x}");
    }
    rig.clean();
}

#[test]
fn an_event_that_is_not_acknowledged_is_not_raised_again() {
    let rig = Rig::new();
    rig.run(&[event(PIXEL, 3), event(PIXEL, 3)].concat());
    assert_eq!(rig.kinds(), ["event-merge"]);
}

#[test]
fn the_power_stall_is_the_kernels() {
    let rig = Rig::new();
    rig.run(&event(PIXEL, 30));
    rig.clean();
    assert_eq!(rig.acknowledge(), 1 << 30 | 1 << END);
    rig.run(&[rectangle(TARGET, 3, 0), event(PIXEL, 30).to_vec()].concat());
    assert_eq!(rig.kinds(), ["bad-event"]);
}

#[test]
fn old_words_end_the_stream() {
    let rig = Rig::new();
    rig.run(&[0x0801_0e04, 0x1f]);
    rig.clean();
    assert_eq!(rig.gpu.recorder.warning_count(), 1);
    assert_eq!(rig.acknowledge(), 1 << 4);
}

#[test]
fn a_held_core_stands_still_until_it_is_let_go() {
    let rig = Rig::new();
    rig.bar.write(&rig.gpu, fault::HOLD, 1);
    rig.run(&[state(COLOR, 1), 7]);
    assert_eq!(
        (rig.state(), rig.gpu.state(COLOR)),
        (FrontEndState::Running, 0)
    );
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE) & 1, 0);
    rig.bar.write(&rig.gpu, fault::HOLD, 0);
    rig.gpu.run_until_idle();
    assert_eq!(
        (rig.state(), rig.gpu.state(COLOR)),
        (FrontEndState::Stopped, 7)
    );
    rig.clean();
}

#[test]
fn armed_hangs_hang() {
    let rig = Rig::new();
    rig.bar.write(&rig.gpu, fault::HANG_AT_COMMAND, 2);
    rig.run(&[state(COLOR, 1), 7, state(COLOR, 1), 8]);
    assert_eq!(
        (rig.state(), rig.gpu.state(COLOR)),
        (FrontEndState::Hung, 7)
    );
    let rig = Rig::new();
    rig.bar.write(&rig.gpu, fault::HANG_AT_DRAW, 1);
    rig.run(&rectangle(TARGET, 3, 0));
    assert_eq!(rig.state(), FrontEndState::Hung);
    rig.clean();
}

#[test]
fn hangs_are_of_any_kind_here_too() {
    for (kind, state, bits) in [
        (fault::HANG_STALL, FrontEndState::Stalled, 0),
        (
            fault::HANG_BUS_ERROR,
            FrontEndState::Hung,
            INTR_AXI_BUS_ERROR,
        ),
        (
            fault::HANG_MMU_EXCEPTION,
            FrontEndState::Hung,
            INTR_MMU_EXCEPTION,
        ),
    ] {
        let rig = Rig::new();
        rig.bar.write(&rig.gpu, fault::HANG_KIND, kind);
        rig.bar.write(&rig.gpu, fault::HANG_AT_DRAW, 1);
        rig.run(&rectangle(TARGET, 3, 0));
        assert_eq!((rig.state(), rig.acknowledge()), (state, bits));
        assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE) & 1, 0);
        rig.clean();
    }
}

#[test]
fn a_draw_can_be_endless_or_slow() {
    let rig = Rig::new();
    rig.bar.write(&rig.gpu, fault::ENDLESS_DRAW, 1);
    let draw = [rectangle(TARGET, 3, 0xff33_2211), event(PIXEL, 3).to_vec()].concat();
    rig.run(&draw);
    rig.gpu.run_until_idle();
    assert_eq!(rig.acknowledge(), 1 << END);
    assert_eq!(
        rig.gpu.mmio_read(HI_IDLE_STATE),
        0xf05 & !(IDLE_STATE_VG | IDLE_STATE_PE | IDLE_STATE_TS)
    );
    // The modules above it continue.
    rig.run(&event(VG, 2));
    while rig.gpu.pending_interrupts() & 1 << 2 == 0 {
        rig.gpu.step();
    }
    rig.bar.write(&rig.gpu, fault::CLEAR_ALL, 1);
    rig.gpu.run_until_idle();
    assert_eq!(rig.acknowledge(), 1 << END | 1 << 2 | 1 << 3);

    rig.bar.write(&rig.gpu, fault::SLOW_DRAWS, 30_000);
    let begun = Instant::now();
    rig.run(&draw);
    while rig.gpu.pending_interrupts() & 1 << 3 == 0 {
        rig.gpu.step();
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    assert!(begun.elapsed() >= Duration::from_millis(30));
    rig.clean();
}
