// SPDX-License-Identifier: GPL-2.0-only
//! Command streams through the whole model, on plain memory: valid driver behavior, and forbidden behavior.

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
use gpu_model::gpu::IDLE_ROUND;
use gpu_model::irq::Sink;
use gpu_model::irq::HOLD_BACK;
use gpu_model::registers::*;

/// Guest RAM, and the address of GPU address 0 (set in the memory base registers).
const RAM: u32 = 0x4000_0000;
const RAM_BYTES: usize = 4 << 20;
/// GPU addresses.
const RING: u32 = 0x0000;
const BUFFER: u32 = 0x1000;
const TABLE: u32 = 0x10_0000;
const SURFACE: u32 = 0x20_0000;
const VERTICES: u32 = 0x30_0000;
const QUERY: u32 = 0x31_0000;

const WAIT: u32 = 0x3800_00c8;
const END: u32 = 0x1000_0000;
const NOP: u32 = 0x1800_0000;
const STALL: u32 = 0x4800_0000;
const FE_TO_PE: u32 = 0x701;

const fn link(bytes: u32) -> u32 {
    0x4000_0000 | bytes.div_ceil(8)
}

const fn load(address: u32, count: u32) -> u32 {
    0x0800_0000 | (count << 16) | (address / 4)
}

struct Rig {
    gpu: Arc<Gpu>,
}

impl Rig {
    fn new(board: Board) -> Self {
        Self::with(Options::new(board))
    }

    fn with(options: Options) -> Self {
        let gpu = Gpu::new(options).unwrap();
        gpu.memory.add_anonymous(RAM.into(), RAM_BYTES).unwrap();
        let rig = Self { gpu: Arc::new(gpu) };
        rig.initialise();
        rig
    }

    /// Writes a driver's register setup after reset.
    fn initialise(&self) {
        self.gpu.mmio_write(HI_CLOCK_CONTROL, 0x100);
        for offset in [
            MC_MEMORY_BASE_ADDR_FE,
            MC_MEMORY_BASE_ADDR_RA,
            MC_MEMORY_BASE_ADDR_TX,
            MC_MEMORY_BASE_ADDR_PE,
            MC_MEMORY_BASE_ADDR_PEZ,
        ] {
            self.gpu.mmio_write(offset, RAM);
        }
        for offset in (MC_MMU_FE_PAGE_TABLE..=MC_MMU_RA_PAGE_TABLE).step_by(4) {
            self.gpu.mmio_write(offset, RAM + TABLE);
        }
        self.gpu.mmio_write(HI_INTR_ENBL, u32::MAX);
    }

    fn put(&self, address: u32, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.gpu
            .memory
            .snapshot()
            .write(RAM + address, &bytes)
            .unwrap();
    }

    fn word(&self, address: u32) -> u32 {
        self.gpu.memory.snapshot().read_u32(RAM + address).unwrap()
    }

    fn start(&self, address: u32, bytes: u32) {
        self.gpu.mmio_write(FE_COMMAND_ADDRESS, address);
        self.gpu.mmio_write(
            FE_COMMAND_CONTROL,
            COMMAND_CONTROL_ENABLE | bytes.div_ceil(8),
        );
    }

    /// Starts the kernel's idle loop at the start of the ring.
    fn start_ring(&self) {
        self.put(RING, &[WAIT, 0, link(16), RING]);
        self.start(RING, 16);
        self.gpu.run_until_idle();
    }

    /// Runs words, then END, from a stopped front end.
    fn run(&self, words: &[u32]) {
        let mut stream = words.to_vec();
        if stream.len() % 2 != 0 {
            stream.push(0);
        }
        stream.extend([END, 0]);
        self.put(BUFFER, &stream);
        self.start(BUFFER, 4 * stream.len() as u32);
        self.gpu.run_until_idle();
    }

    /// The same on the model's own thread.
    fn run_on_thread(&self, words: &[u32]) {
        let stream = [words, &[END, 0]].concat();
        self.put(BUFFER, &stream);
        self.start(BUFFER, 4 * stream.len() as u32);
        let begun = Instant::now();
        while self.gpu.front_end_state() != FrontEndState::Stopped {
            assert!(begun.elapsed() < Duration::from_secs(5));
            std::thread::yield_now();
        }
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.gpu
            .recorder
            .report()
            .violations
            .iter()
            .map(|violation| violation.kind)
            .collect()
    }

    fn clean(&self) {
        assert_eq!(self.kinds(), [""; 0]);
    }

    /// Expects this as the only violation, and a hung front end.
    fn hung_by(&self, kind: ViolationKind) {
        assert_eq!(self.kinds(), [kind.name()]);
        assert_eq!(self.gpu.front_end_state(), FrontEndState::Hung);
    }

    /// Expects this as the only violation, and a front end that continued.
    fn survived(&self, kind: ViolationKind) {
        assert_eq!(self.kinds(), [kind.name()]);
        assert_eq!(self.gpu.front_end_state(), FrontEndState::Stopped);
    }

    fn soft_reset(&self) {
        for value in [0x8_0100, 0x8_1100, 0x8_0100, 0x100] {
            self.gpu.mmio_write(HI_CLOCK_CONTROL, value);
        }
    }

    fn counter(&self, offset: usize) -> u64 {
        self.gpu.counters.get(offset)
    }
}

/// States of a 2D clear of the square (1, 1) to (3, 3), then the draw.
fn clear_square(target: u32, pe20: bool) -> Vec<u32> {
    let mut words = Vec::new();
    let color = 0xff12_3456;
    let mut set = |address, value| words.extend([load(address, 1), value]);
    set(state::DE_DEST_ADDRESS, target);
    set(state::DE_DEST_STRIDE, 64);
    set(state::DE_DEST_CONFIG, 6);
    set(state::DE_CLIP_TOP_LEFT, 0);
    set(state::DE_CLIP_BOTTOM_RIGHT, (16 << 16) | 16);
    if pe20 {
        set(state::DE_CLEAR_PIXEL_VALUE32, color);
    } else {
        set(state::DE_CLEAR_BYTE_MASK, 0xff);
        set(state::DE_CLEAR_PIXEL_VALUE_LOW, color);
        set(state::DE_CLEAR_PIXEL_VALUE_HIGH, color);
    }
    words.extend([0x2000_0100, 0xdead_deed, (1 << 16) | 1, (3 << 16) | 3]);
    words
}

fn select_2d() -> Vec<u32> {
    let sync = [
        load(state::GL_FLUSH_CACHE, 1),
        3,
        load(state::GL_SEMAPHORE_TOKEN, 1),
        FE_TO_PE,
        STALL,
        FE_TO_PE,
    ];
    sync.into_iter()
        .chain([load(state::GL_PIPE_SELECT, 1), 1])
        .collect()
}

fn flush_and_event(id: u32) -> Vec<u32> {
    vec![
        load(state::GL_FLUSH_CACHE, 1),
        8,
        load(state::GL_EVENT, 1),
        id | state::EVENT_FROM_PE,
        load(0x400, 5),
        0,
        0,
        0,
        0,
        0,
    ]
}

#[test]
fn a_round_of_the_idle_loop_is_one_step_and_a_wait() {
    let rig = Rig::new(Board::Dove);
    rig.start_ring();
    for _ in 0..10 {
        let busy = (0..).take_while(|_| rig.gpu.step() == Step::Busy).count();
        assert_eq!(busy, IDLE_ROUND as usize);
    }
}

#[test]
fn the_ring_idles_and_takes_a_commit() {
    let rig = Rig::new(Board::Dove);
    rig.start_ring();
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Waiting);
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), 0xfe);
    assert_eq!(rig.gpu.mmio_read(HI_CLOCK_CONTROL) & CLOCK_CONTROL_IDLE, 0);
    let addresses = [(); 4].map(|()| rig.gpu.mmio_read(FE_DMA_ADDRESS));
    assert_eq!(addresses, [RING, RING + 8, RING, RING + 8]);
    // A buffer that ends with a LINK to a new WAIT. Then the old WAIT becomes a LINK, word 1 first.
    let mut words = select_2d();
    words.extend(clear_square(SURFACE, false));
    words.extend(flush_and_event(3));
    let bytes = 4 * words.len() as u32 + 8;
    words.extend([link(16), RING + 16]);
    rig.put(BUFFER, &words);
    rig.put(RING + 16, &[WAIT, 0, link(16), RING + 16]);
    rig.put(RING + 4, &[BUFFER]);
    rig.put(RING, &[link(bytes)]);
    rig.gpu.step();
    rig.gpu.run_until_idle();
    rig.gpu.run_until_idle();
    rig.clean();
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Waiting);
    assert_eq!(rig.gpu.front_end_address(), RING + 16);
    assert_eq!(rig.word(SURFACE + 64 + 4), 0xff12_3456);
    assert_eq!(rig.word(SURFACE + 64), 0);
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 1 << 3);
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 0);
    assert_eq!(rig.counter(counter::DRAWS_2D), 1);
    assert_eq!(rig.counter(counter::EVENTS), 1);
    assert_eq!(rig.counter(counter::PIXELS), 4);
    assert_eq!(rig.counter(counter::ACKNOWLEDGES), 2);
}

#[test]
fn the_idle_loop_is_not_counted_however_long_it_runs() {
    let rig = Rig::new(Board::Dove);
    rig.start_ring();
    let before = rig.counter(counter::COMMANDS);
    for _ in 0..50 {
        rig.gpu.step();
    }
    assert_eq!(rig.counter(counter::COMMANDS), before);
    assert_eq!(rig.counter(counter::BYTES_READ), 0);
    rig.clean();
}

#[test]
fn end_stops_at_once_and_can_be_started_again() {
    let rig = Rig::new(Board::Gc2000);
    for _ in 0..2 {
        rig.run(&[NOP, 0]);
        assert_eq!(rig.gpu.front_end_state(), FrontEndState::Stopped);
        assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), IDLE_STATE_ALL);
        assert_eq!(
            rig.gpu.mmio_read(HI_CLOCK_CONTROL) & CLOCK_CONTROL_IDLE,
            CLOCK_CONTROL_IDLE
        );
    }
    assert_eq!(rig.counter(counter::COMMANDS), 4);
    assert_eq!(rig.counter(counter::STARTS), 2);
    rig.clean();
}

#[test]
fn states_are_stored_converted_and_masked() {
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[
        load(0xa00, 3) | (1 << 26),
        0x0001_0000,
        0xffff_8000,
        0,
        NOP,
        0,
        load(0xa10, 2),
        5,
        6,
    ]);
    assert_eq!(rig.gpu.state(0xa00 / 4), 1.0f32.to_bits());
    assert_eq!(rig.gpu.state(0xa04 / 4), (-0.5f32).to_bits());
    assert_eq!([rig.gpu.state(0xa10 / 4), rig.gpu.state(0xa14 / 4)], [5, 6]);
    rig.clean();
    let rig = Rig::new(Board::Gc320);
    rig.run(&[load(0x12d4, 1), 0x333, load(0x12d4, 1), 1 << 12]);
    assert_eq!(rig.gpu.state(0x12d4 / 4), (1 << 12) | 0x333);
    rig.clean();
}

#[test]
fn a_count_of_1024_fits_one_command() {
    let rig = Rig::new(Board::Gc2000);
    let mut words = vec![0x0800_0000 | (0x4000 / 4)];
    words.extend(1..=1024);
    rig.run(&words);
    assert_eq!(rig.gpu.state(0x4000 / 4), 1);
    assert_eq!(rig.gpu.state(0x4000 / 4 + 1023), 1024);
    assert_eq!(rig.counter(counter::STATE_WORDS), 1024);
    rig.clean();
}

#[test]
fn call_and_return() {
    let rig = Rig::new(Board::Gc2000);
    rig.put(0x3000, &[load(0xa14, 1), 42, 11 << 27, 0]);
    rig.run(&[(10 << 27) | 2, 0x3000, 4, BUFFER + 16, load(0xa18, 1), 43]);
    assert_eq!(
        [rig.gpu.state(0xa14 / 4), rig.gpu.state(0xa18 / 4)],
        [42, 43]
    );
    rig.clean();
    rig.run(&[11 << 27, 0]);
    rig.hung_by(ViolationKind::IllegalOpcode);
}

#[test]
fn fetching_past_the_window_hangs() {
    let rig = Rig::new(Board::Gc2000);
    rig.put(BUFFER, &[NOP, 0, NOP, 0, END, 0]);
    rig.start(BUFFER, 16);
    rig.gpu.run_until_idle();
    rig.hung_by(ViolationKind::PrefetchOverrun);
    let violation = &rig.gpu.recorder.report().violations[0];
    assert_eq!(violation.address, "0x00001010");
    assert_eq!(violation.recent.len(), 2);
    assert_eq!(violation.recent[1].command, "NOP");
    // The whole command must fit, not only its header.
    let rig = Rig::new(Board::Gc2000);
    rig.put(BUFFER, &[load(0xa00, 3), 1, 2, 3, END, 0]);
    rig.start(BUFFER, 8);
    rig.gpu.run_until_idle();
    rig.hung_by(ViolationKind::PrefetchOverrun);
}

#[test]
fn a_lenient_model_goes_on_where_silicon_may() {
    let rig = Rig::with(Options {
        lenient: true,
        ..Options::new(Board::Gc2000)
    });
    rig.put(BUFFER, &[NOP, 0, END, 0]);
    rig.start(BUFFER, 8);
    rig.gpu.run_until_idle();
    rig.survived(ViolationKind::PrefetchOverrun);
    assert!(!rig.gpu.recorder.failed());
}

#[test]
fn illegal_opcodes_hang_with_a_frozen_position() {
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[NOP, 0, 0xf800_0000, 7]);
    rig.hung_by(ViolationKind::IllegalOpcode);
    let look = || {
        [FE_DMA_ADDRESS, FE_DMA_DEBUG_STATE, FE_DMA_LOW, FE_DMA_HIGH]
            .map(|offset| rig.gpu.mmio_read(offset))
    };
    assert_eq!(look(), [BUFFER + 8, dma_state::DEC, 0xf800_0000, 7]);
    assert_eq!(look(), look());
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE) & IDLE_STATE_FE, 0);
    assert_eq!(
        rig.gpu.recorder.report().violations[0].words,
        ["0xf8000000", "0x00000007"]
    );
    // Only a reset recovers it.
    rig.start_ring();
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Hung);
    rig.soft_reset();
    rig.initialise();
    rig.start_ring();
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Waiting);
}

#[test]
fn links_must_be_aligned() {
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[link(16), BUFFER + 4]);
    rig.hung_by(ViolationKind::MisalignedLink);
    let rig = Rig::new(Board::Gc2000);
    rig.start(BUFFER + 4, 16);
    rig.gpu.run_until_idle();
    rig.hung_by(ViolationKind::MisalignedLink);
}

#[test]
fn draws_need_their_pipe() {
    let rig = Rig::new(Board::Dove);
    rig.run(&clear_square(SURFACE, false));
    rig.hung_by(ViolationKind::WrongPipe);
    assert_eq!(rig.word(SURFACE + 64 + 4), 0);
    let rig = Rig::new(Board::Dove);
    let mut words = select_2d();
    words.extend([5 << 27, 4, 0, 1]);
    rig.run(&words);
    rig.hung_by(ViolationKind::WrongPipe);
    let rig = Rig::new(Board::Dove);
    let mut words = select_2d();
    words.extend([load(state::RS_KICKER, 1), 1]);
    rig.run(&words);
    rig.hung_by(ViolationKind::WrongPipe);
}

#[test]
fn draws_need_their_engine() {
    let rig = Rig::new(Board::Gc2000);
    rig.run(&clear_square(SURFACE, true));
    rig.hung_by(ViolationKind::MissingEngine);
    let rig = Rig::new(Board::Gc320);
    rig.run(&[load(state::RS_KICKER, 1), 1]);
    rig.hung_by(ViolationKind::MissingEngine);
    let rig = Rig::new(Board::Gc880);
    rig.run(&[load(state::GL_PIPE_SELECT, 1), 1]);
    rig.survived(ViolationKind::MissingEngine);
}

#[test]
fn draws_in_3d_are_consumed() {
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[
        5 << 27,
        4,
        0,
        1, //
        6 << 27,
        4,
        0,
        1,
        0,
        0, //
        12 << 27 | 4 << 16 | 1,
        3,
        0,
        0, //
        13 << 27,
        0,
    ]);
    rig.clean();
    assert_eq!(rig.counter(counter::DRAWS_3D), 3);
}

/// States of a sheet over all 64 x 64 pixels of [`SURFACE`], which GC880's two shaders fill with the constant color
/// 0xff336699, followed by the draw.
fn sheet() -> Vec<u32> {
    use state::*;
    let float = |value: f32| value.to_bits();
    let half = float(32.0);
    let mut words = Vec::new();
    let mut set = |address, value| words.extend([load(address, 1), value]);
    for (address, value) in [
        (FE_VERTEX_ELEMENT_CONFIG, 8 | 2 << 12),
        (FE_VERTEX_STREAMS_BASE_ADDR, VERTICES),
        (FE_VERTEX_STREAMS_CONTROL, 8),
        (VS_OUTPUT_COUNT, 1),
        (VS_INPUT_COUNT, 1),
        (VS_TEMP_REGISTER_CONTROL, 1),
        (PA_VIEWPORT_SCALE, half),
        (PA_VIEWPORT_SCALE + 4, half),
        (PA_VIEWPORT_SCALE + 8, float(1.0)),
        (PA_VIEWPORT_OFFSET, half),
        (PA_VIEWPORT_OFFSET + 4, half),
        (PA_SYSTEM_MODE, 0x11),
        (PA_CONFIG, 2 << 12 | 1 << 16),
        (SE_SCISSOR + 8, float(64.07)),
        (SE_SCISSOR + 12, float(64.07)),
        (PS_OUTPUT_REG, 1),
        (PS_INPUT_COUNT, 1),
        (PS_TEMP_REGISTER_CONTROL, 2),
        (PS_RANGE, 0x100_0100),
        (PE_COLOR_FORMAT, 6 | 0xf << 8),
        (PE_COLOR_ADDR, SURFACE),
        (PE_COLOR_STRIDE, 256),
        (PE_DITHER, u32::MAX),
        (PE_DITHER + 4, u32::MAX),
        (PS_UNIFORMS, float(0.2)),
        (PS_UNIFORMS + 4, float(0.4)),
        (PS_UNIFORMS + 8, float(0.6)),
        (PS_UNIFORMS + 12, float(1.0)),
        // mov t1, u0
        (SH_INST_MEM + 0x1000, 0x0781_1009),
        (SH_INST_MEM + 0x100c, 0x2039_0008),
    ] {
        set(address, value);
    }
    words.extend([5 << 27, 5, 0, 2]);
    words
}

/// A rig with the sheet's vertices.
fn sheet_rig() -> Rig {
    let rig = Rig::new(Board::Gc880);
    let corners = [-1.0f32, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0];
    rig.put(VERTICES, &corners.map(f32::to_bits));
    rig
}

#[test]
fn triangles_are_drawn_and_counted() {
    let rig = sheet_rig();
    rig.gpu.mmio_write(MC_PROFILE_CONFIG0, 0);
    let mut words = vec![load(state::GL_OCCLUSION_QUERY_ADDR, 1), QUERY];
    words.extend(sheet());
    words.extend([load(state::GL_OCCLUSION_QUERY_CONTROL, 1), 1]);
    words.extend(flush_and_event(1));
    rig.run(&words);
    rig.clean();
    for pixel in 0..64 * 64 {
        assert_eq!(rig.word(SURFACE + 4 * pixel), 0xff33_6699, "{pixel}");
    }
    assert_eq!(rig.word(SURFACE + 4 * 64 * 64), 0);
    assert_eq!([rig.word(QUERY), rig.word(QUERY + 4)], [64 * 64, 0]);
    for (counter, wanted) in [
        (counter::VERTICES, 4),
        (counter::PRIMITIVES, 2),
        (counter::CULLED, 0),
        (counter::CLIPPED, 0),
        (counter::PIXELS_3D, 64 * 64),
        // Each square on the diagonal is shaded twice.
        (counter::QUADS, 32 * 33),
        (counter::INSTRUCTIONS, 4 + 4 * 32 * 33),
    ] {
        assert_eq!(rig.counter(counter), wanted, "{counter:#x}");
    }
    // Only the port and selector of a counter's block show it.
    for (config, shift, port, select, wanted) in [
        (MC_PROFILE_CONFIG0, 16, MC_PROFILE_PE_READ, 2, 64 * 64),
        (MC_PROFILE_CONFIG0, 24, MC_PROFILE_SH_READ, 7, 4 * 32 * 33),
        (MC_PROFILE_CONFIG0, 24, MC_PROFILE_SH_READ, 9, 4),
        (MC_PROFILE_CONFIG0, 24, MC_PROFILE_SH_READ, 10, 4),
        (MC_PROFILE_CONFIG1, 0, MC_PROFILE_PA_READ, 3, 4),
        (MC_PROFILE_CONFIG1, 0, MC_PROFILE_PA_READ, 4, 2),
        (MC_PROFILE_CONFIG1, 0, MC_PROFILE_PA_READ, 8, 0),
        (MC_PROFILE_CONFIG1, 16, MC_PROFILE_RA_READ, 0, 64 * 64),
        (MC_PROFILE_CONFIG1, 16, MC_PROFILE_RA_READ, 1, 32 * 33),
        (MC_PROFILE_CONFIG1, 16, MC_PROFILE_RA_READ, 3, 2),
    ] {
        rig.gpu.mmio_write(config, select << shift);
        assert_eq!(rig.gpu.mmio_read(port), wanted, "{port:#x} {select}");
    }
    // Drivers add up the counters of all pixel pipes.
    rig.gpu.mmio_write(MC_PROFILE_CONFIG0, 9 << 24);
    for (pipe, wanted) in [(1, 0), (0, 4)] {
        rig.gpu.mmio_write(HI_CLOCK_CONTROL, 0x100 | pipe << 20);
        assert_eq!(rig.gpu.mmio_read(MC_PROFILE_SH_READ), wanted);
    }
    // Selecting the signature resets a block.
    rig.gpu.mmio_write(MC_PROFILE_CONFIG0, 15 << 24);
    rig.gpu.mmio_write(MC_PROFILE_CONFIG0, 9 << 24);
    assert_eq!(rig.gpu.mmio_read(MC_PROFILE_SH_READ), 0);
    rig.gpu.mmio_write(MC_PROFILE_CONFIG1, 4);
    assert_eq!(rig.gpu.mmio_read(MC_PROFILE_PA_READ), 2);
}

/// The sheet over 128 x 128 pixels, large enough to be split into parts, through the page table.
fn large_sheet() -> Vec<u32> {
    use state::*;
    let mut words = sheet();
    let (half, edge) = (64f32.to_bits(), 128.07f32.to_bits());
    let changes = [
        (PA_VIEWPORT_SCALE, half),
        (PA_VIEWPORT_SCALE + 4, half),
        (PA_VIEWPORT_OFFSET, half),
        (PA_VIEWPORT_OFFSET + 4, half),
        (SE_SCISSOR + 8, edge),
        (SE_SCISSOR + 12, edge),
        (PE_COLOR_ADDR, 0x8000_0000),
        (PE_COLOR_STRIDE, 512),
    ];
    let draw = words.len() - 4;
    let changes = changes.map(|(address, value)| [load(address, 1), value]);
    words.splice(draw..draw, changes.into_iter().flatten());
    words
}

/// A rig with the sheet's vertices, the pages of its target, and this number of threads.
fn cut_rig(threads: usize) -> Rig {
    let rig = Rig::with(Options {
        threads,
        ..Options::new(Board::Gc880)
    });
    let corners = [-1.0f32, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0];
    rig.put(VERTICES, &corners.map(f32::to_bits));
    let pages: Vec<_> = (0..16).map(|page| RAM + SURFACE + page * 0x1000).collect();
    rig.put(TABLE, &pages);
    rig
}

/// Memory, counters and reported violations do not depend on the number of threads.
#[test]
fn threads_change_nothing_but_the_time() {
    let pixels = |rig: &Rig, from: u32| {
        let all = (0..128 * 128).filter(|at| rig.word(from + 4 * at) == 0xff33_6699);
        all.count()
    };
    type Change<'a> = &'a dyn Fn(&Rig);
    let cases: [(&[&str], [usize; 2], u64, Change<'_>); 3] = [
        (&[], [16 * 1024, 0], 16, &|_| {}),
        // The table's page differs from the TLB's.
        (&["stale-tlb"], [16 * 1024, 0], 16, &|rig| {
            rig.put(TABLE + 4 * 5, &[RAM + SURFACE + 0x2_0000]);
        }),
        // A page outside memory that was not used before.
        (&["bus-error"], [15 * 1024, 0], 32, &|rig| {
            rig.put(TABLE + 4 * 5, &[0x1000]);
            let flush = [load(state::GL_FLUSH_CACHE, 1), 3];
            rig.run(&[flush, [load(state::GL_FLUSH_MMU, 1), 0x1f]].concat());
        }),
    ];
    for (kinds, wanted, fills, change) in cases {
        let mut first = None;
        for threads in [1, 2, 4] {
            let rig = cut_rig(threads);
            rig.run(&large_sheet());
            rig.clean();
            rig.put(SURFACE, &[0; 128 * 128]);
            change(&rig);
            rig.run(&large_sheet());
            assert_eq!(rig.kinds(), kinds);
            assert_eq!(
                [SURFACE, SURFACE + 0x2_0000].map(|at| pixels(&rig, at)),
                wanted
            );
            assert_eq!(rig.counter(counter::TLB_FILLS), fills);
            let units = counter(&rig, MC_PROFILE_CONFIG2, 0, MC_PROFILE_MC_READ, 3);
            let sent = counter(&rig, MC_PROFILE_CONFIG0, 0, MC_PROFILE_FE_READ, 9);
            let mut report = serde_json::to_value(rig.gpu.recorder.report()).unwrap();
            report["counters"] =
                serde_json::to_value(rig.gpu.counters.named().collect::<Vec<_>>()).unwrap();
            let done = (report, units, sent);
            assert_eq!(
                done,
                *first.get_or_insert_with(|| done.clone()),
                "{threads}"
            );
        }
    }
}

/// Mesa 26 loads these states on a GC3000: first and last instructions separately, with the pixel shader's code
/// directly after the vertex shader's, through the other address of that memory. On a core without these states they
/// have no effect.
#[test]
fn shaders_are_where_their_new_ranges_say() {
    for (board, wanted) in [(Board::Gc3000, 7 << 16 | 4), (Board::Gc880, 0x100_0100)] {
        let rig = Rig::new(board);
        rig.run(&[
            load(state::PS_RANGE, 1),
            0x100_0100,
            load(state::PS_NEWRANGE_LOW, 1),
            4,
            load(state::PS_NEWRANGE_HIGH, 1),
            7,
        ]);
        assert_eq!(rig.gpu.drawn_state(state::PS_RANGE), wanted, "{board:?}");
        // The states themselves keep their loaded values.
        assert_eq!(rig.gpu.state(state::PS_RANGE / 4), 0x100_0100);
        // The last loaded form applies.
        rig.run(&[load(state::PS_RANGE, 1), 0x120_0110]);
        assert_eq!(rig.gpu.drawn_state(state::PS_RANGE), 0x120_0110);
    }
}

#[test]
fn states_of_3d_draws_that_hang_are_found_at_the_draw() {
    for change in [
        // One more element, one temporary less, a scissor on whole pixels.
        [load(state::FE_VERTEX_ELEMENT_CONFIG + 4, 1), 8],
        [load(state::PS_TEMP_REGISTER_CONTROL, 1), 1],
        [load(state::SE_SCISSOR + 8, 1), 64f32.to_bits()],
        // An instruction that does not exist.
        [load(state::SH_INST_MEM_MIRROR + 0x1000, 1), 0x3f],
    ] {
        let rig = sheet_rig();
        let mut words = sheet();
        let draw = words.len() - 4;
        words.splice(draw..draw, change);
        rig.run(&words);
        rig.hung_by(ViolationKind::DrawState);
        let at = BUFFER + 4 * (draw as u32 + 2);
        assert_eq!(rig.gpu.recorder.last_address(), at, "{change:x?}");
        assert_eq!(rig.word(SURFACE), 0);
    }
}

#[test]
fn a_shader_that_never_ends_holds_up_what_follows() {
    let rig = sheet_rig();
    let mut words = sheet();
    let draw = words.len() - 4;
    // branch 0
    let code = state::SH_INST_MEM + 0x1000;
    let branch = [load(code, 1), 0x16, load(code + 12, 1), 0];
    words.splice(draw..draw, branch);
    words.extend(flush_and_event(1));
    rig.run(&words);
    rig.clean();
    assert!(rig.gpu.work_pending());
    assert_eq!(rig.gpu.pending_interrupts(), 0);
    rig.soft_reset();
    assert!(!rig.gpu.work_pending());
    rig.initialise();
    rig.run(&sheet());
    rig.gpu.run_until_idle();
    assert_eq!(rig.word(SURFACE), 0xff33_6699);
    rig.clean();
}

#[test]
fn masked_states_of_3d_keep_their_fields() {
    let rig = Rig::new(Board::Gc2000);
    let set = |address: u32, value: u32| [load(address, 1), value];
    let words = [
        set(state::PE_DEPTH_CONFIG, 0x0001_1711),
        // Change only the function.
        set(state::PE_DEPTH_CONFIG, !0x700 & !0x800 | 0x300),
        set(state::PA_CONFIG, 0x0040_2000),
        set(state::PA_CONFIG, 0xffff_fbff & !0x300 | 0x200),
        set(state::PE_STENCIL_CONFIG, 0x1234_5601),
        set(state::PE_STENCIL_CONFIG, 0xffff_ffdf & !0xff00),
    ];
    rig.run(&words.concat());
    rig.clean();
    let state = |address: u32, field: u32| rig.gpu.state(address / 4) & field;
    assert_eq!(state(state::PE_DEPTH_CONFIG, 0x0501_1713), 0x0001_1311);
    assert_eq!(state(state::PA_CONFIG, 0x0043_3314), 0x0040_2200);
    assert_eq!(state(state::PE_STENCIL_CONFIG, 0xffff_ff03), 0x1234_0001);
}

#[test]
fn a_stall_needs_its_semaphore() {
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[STALL, FE_TO_PE]);
    rig.hung_by(ViolationKind::UnarmedStall);
    // One semaphore allows one stall.
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[
        load(state::GL_SEMAPHORE_TOKEN, 1),
        FE_TO_PE,
        STALL,
        FE_TO_PE,
        STALL,
        FE_TO_PE,
    ]);
    rig.hung_by(ViolationKind::UnarmedStall);
    // The same applies to another module's stall.
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[
        load(state::GL_SEMAPHORE_TOKEN, 1),
        0x705,
        load(state::GL_STALL_TOKEN, 1),
        0x705,
    ]);
    rig.clean();
    rig.run(&[load(state::GL_STALL_TOKEN, 1), 0x705]);
    rig.hung_by(ViolationKind::UnarmedStall);
    // The front end only waits for its own command.
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[
        load(state::GL_SEMAPHORE_TOKEN, 1),
        FE_TO_PE,
        load(state::GL_STALL_TOKEN, 1),
        FE_TO_PE,
    ]);
    rig.hung_by(ViolationKind::UnarmedStall);
}

#[test]
fn a_stall_waits_for_the_pixel_engine() {
    // After the stall the pixels are in memory, independent of the lag.
    for seed in 1..40 {
        let rig = Rig::with(Options {
            seed,
            ..Options::new(Board::Gc320)
        });
        let mut words = select_2d();
        for _ in 0..8 {
            words.extend(clear_square(SURFACE, true));
        }
        words.extend([
            load(state::GL_SEMAPHORE_TOKEN, 1),
            FE_TO_PE,
            STALL,
            FE_TO_PE,
        ]);
        words.extend([load(state::GL_EVENT, 1), 5 | state::EVENT_FROM_FE, END, 0]);
        rig.put(BUFFER, &words);
        rig.start(BUFFER, 4 * words.len() as u32);
        while rig.gpu.pending_interrupts() == 0 {
            rig.gpu.step();
        }
        assert_eq!(rig.counter(counter::DRAWS_2D), 8, "seed {seed}");
        rig.clean();
    }
}

#[test]
fn an_event_from_the_front_end_does_not_wait_for_pixels() {
    let early = (1..40).filter(|seed| {
        let rig = Rig::with(Options {
            seed: *seed,
            ..Options::new(Board::Gc320)
        });
        let mut words = select_2d();
        for _ in 0..8 {
            words.extend(clear_square(SURFACE, true));
        }
        words.extend([load(state::GL_EVENT, 1), 5 | state::EVENT_FROM_FE, END, 0]);
        rig.put(BUFFER, &words);
        rig.start(BUFFER, 4 * words.len() as u32);
        while rig.gpu.pending_interrupts() == 0 {
            rig.gpu.step();
        }
        let early = rig.counter(counter::DRAWS_2D) < 8;
        rig.gpu.run_until_idle();
        assert_eq!(rig.counter(counter::DRAWS_2D), 8);
        early
    });
    assert!(early.count() > 0);
}

#[test]
fn events_from_the_pixel_engine_keep_their_order() {
    let rig = Rig::new(Board::Gc320);
    let mut words = select_2d();
    words.extend(clear_square(SURFACE, true));
    words.extend([load(state::GL_FLUSH_CACHE, 1), 8]);
    for id in 0..4 {
        words.extend([load(state::GL_EVENT, 1), id | state::EVENT_FROM_PE]);
    }
    words.extend([END, 0]);
    rig.put(BUFFER, &words);
    rig.start(BUFFER, 4 * words.len() as u32);
    let mut order = Vec::new();
    loop {
        let step = rig.gpu.step();
        let bits = rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE);
        order.extend((0..32).filter(|id| bits & (1 << id) != 0));
        if step == gpu_model::frontend::Step::Idle {
            break;
        }
    }
    assert_eq!(order, [0, 1, 2, 3]);
    rig.clean();
}

#[test]
fn gc600_needs_delay_words_between_events() {
    let rig = Rig::new(Board::Dove);
    let event = |id| [load(state::GL_EVENT, 1), id | state::EVENT_FROM_PE];
    rig.run(&[event(1), event(2)].concat());
    rig.survived(ViolationKind::EventMerge);
    let rig = Rig::new(Board::Dove);
    rig.run(&[flush_and_event(1), flush_and_event(2)].concat());
    rig.clean();
    // The delay words must not load the page-table registers.
    assert_eq!(rig.gpu.mmio_read(MC_MMU_FE_PAGE_TABLE), RAM + TABLE);
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[event(1), event(2)].concat());
    rig.clean();
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 0b110);
}

/// Cache contents must be in memory before an event reports the end of drawing, and before addresses change.
#[test]
fn caches_are_written_back_before_events_and_flushes() {
    let with_status = |behind: &[u32]| {
        let rig = Rig::new(Board::Gc2000);
        let mut words = fill(SURFACE, 5);
        // Color and depth.
        words.splice(0..0, [load(state::TS_MEM_CONFIG, 1), 3]);
        words.extend(behind);
        rig.run(&words);
        rig.kinds()
    };
    let pixels = [load(state::GL_FLUSH_CACHE, 1), 3];
    let status = [load(state::TS_FLUSH_CACHE, 1), 1];
    let event = [load(state::GL_EVENT, 1), 3 | state::EVENT_FROM_PE];
    let translations = [load(state::GL_FLUSH_MMU, 1), 0x1f];
    let unflushed = ["unflushed-cache"];
    for last in [event, translations] {
        assert_eq!(with_status(&[pixels, last].concat()), unflushed);
        assert!(with_status(&[pixels, status, last].concat()).is_empty());
    }
    assert_eq!(with_status(&[status, translations].concat()), unflushed);
    // Without tile status, its cache needs no flush.
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[fill(SURFACE, 5), pixels.into(), event.into()].concat());
    rig.clean();
}

#[test]
fn events_need_one_source() {
    for value in [
        3,
        3 | state::EVENT_FROM_FE | state::EVENT_FROM_PE,
        31 | state::EVENT_FROM_FE,
    ] {
        let rig = Rig::new(Board::Gc2000);
        rig.run(&[load(state::GL_EVENT, 1), value]);
        rig.survived(ViolationKind::BadEvent);
    }
}

#[test]
fn host_registers_cannot_be_loaded() {
    for (address, allowed) in [(0x0, true), (0x4, true), (0x400, true), (0x410, true)]
        .into_iter()
        .chain([
            (0x10, false),
            (0x14, false),
            (0x41c, false),
            (0x184, false),
            (0x654, false),
            (0x658, false),
        ])
    {
        let rig = Rig::new(Board::Gc2000);
        let before: Vec<_> = [HI_INTR_ENBL, MC_MMU_FE_PAGE_TABLE, MC_MEMORY_BASE_ADDR_FE]
            .map(|offset| rig.gpu.mmio_read(offset))
            .into();
        rig.run(&[load(address, 1), 0x1234]);
        if allowed {
            rig.clean();
        } else {
            rig.survived(ViolationKind::HostRegisterLoad);
        }
        let after: Vec<_> = [HI_INTR_ENBL, MC_MMU_FE_PAGE_TABLE, MC_MEMORY_BASE_ADDR_FE]
            .map(|offset| rig.gpu.mmio_read(offset))
            .into();
        assert_eq!(before, after, "{address:#x}");
    }
}

#[test]
fn switching_pipes_needs_a_stall() {
    let rig = Rig::new(Board::Dove);
    rig.run(&[5 << 27, 4, 0, 1, load(state::GL_PIPE_SELECT, 1), 1]);
    rig.survived(ViolationKind::PipeSwitchBusy);
    let rig = Rig::new(Board::Dove);
    rig.run(&[vec![5 << 27, 4, 0, 1], select_2d()].concat());
    rig.clean();
}

#[test]
fn what_the_2d_engine_lacks_leaves_memory_alone() {
    let rig = Rig::new(Board::Gc320);
    let mut words = select_2d();
    words.extend([load(state::DE_DEST_ROTATION_CONFIG, 1), 1 << 16]);
    words.extend(clear_square(SURFACE, true));
    rig.run(&words);
    rig.survived(ViolationKind::Unsupported);
    assert_eq!(rig.word(SURFACE + 64 + 4), 0);
    let rig = Rig::new(Board::Gc320);
    let mut words = select_2d();
    words.extend([load(state::DE_VR_CONFIG, 1), 2]);
    rig.run(&words);
    rig.survived(ViolationKind::Unsupported);
}

#[test]
fn a_filter_blit_is_a_draw() {
    let rig = Rig::new(Board::Gc320);
    rig.run(&[load(state::DE_VR_CONFIG, 1), 0]);
    rig.hung_by(ViolationKind::WrongPipe);
    let rig = Rig::new(Board::Gc2000);
    rig.run(&[load(state::DE_VR_CONFIG, 1), 0]);
    rig.hung_by(ViolationKind::MissingEngine);
    // A value whose mask bit is set starts nothing. An empty window is a mistake.
    let rig = Rig::new(Board::Gc320);
    let mut words = select_2d();
    words.extend([load(state::DE_VR_CONFIG, 1), 1 << 3]);
    words.extend([load(state::DE_VR_CONFIG, 1), 0]);
    rig.run(&words);
    rig.survived(ViolationKind::BadDraw);
}

#[test]
fn resolve_fills_on_each_3d_core() {
    for board in [Board::Dove, Board::Gc2000, Board::Gc880] {
        let rig = Rig::new(board);
        let mut words = Vec::new();
        let mut set = |address, value| words.extend([load(address, 1), value]);
        set(state::RS_CONFIG, (6 << 8) | 6);
        set(state::RS_DEST_STRIDE, 64);
        if board == Board::Gc2000 {
            set(state::RS_PIPE_DEST_ADDR, SURFACE);
            set(state::RS_PIPE_OFFSET + 4, 4 << 16);
            set(state::RS_WINDOW_SIZE, (4 << 16) | 16);
        } else {
            set(state::RS_DEST_ADDR, SURFACE);
            set(state::RS_WINDOW_SIZE, (8 << 16) | 16);
        }
        set(state::RS_CLEAR_CONTROL, (1 << 16) | 0xffff);
        set(state::RS_FILL_VALUE, 0x1122_3344);
        set(state::RS_KICKER, 0xbeeb_beeb);
        rig.run(&words);
        rig.clean();
        assert_eq!(rig.word(SURFACE), 0x1122_3344);
        assert_eq!(rig.word(SURFACE + 8 * 64 - 4), 0x1122_3344);
        assert_eq!(rig.word(SURFACE + 8 * 64), 0);
        assert_eq!(rig.counter(counter::RESOLVES), 1);
        assert_eq!(rig.counter(counter::PIXELS), 128);
    }
}

#[test]
fn resolve_windows_that_hang_silicon_hang() {
    let rig = Rig::new(Board::Gc880);
    rig.run(&[
        load(state::RS_CONFIG, 1),
        0x606,
        load(state::RS_WINDOW_SIZE, 1),
        (4 << 16) | 8,
        load(state::RS_KICKER, 1),
        1,
    ]);
    rig.hung_by(ViolationKind::ResolveWindow);
}

#[test]
fn pages_are_followed_and_stale_ones_found() {
    let rig = Rig::new(Board::Gc320);
    let virtual_surface = 0x8000_0000;
    rig.put(TABLE, &[RAM + SURFACE, RAM + SURFACE + 0x1000]);
    let mut words = select_2d();
    words.extend(clear_square(virtual_surface, true));
    rig.run(&words);
    rig.clean();
    assert_eq!(rig.word(SURFACE + 64 + 4), 0xff12_3456);
    assert_eq!(rig.counter(counter::TLB_FILLS), 1);
    // The table changes. A draw to the old page without a flush is a violation.
    rig.put(TABLE, &[RAM + SURFACE + 0x8000]);
    rig.put(SURFACE + 64 + 4, &[0]);
    rig.run(&clear_square(virtual_surface, true));
    assert_eq!(rig.kinds(), ["stale-tlb"]);
    assert_eq!(rig.word(SURFACE + 64 + 4), 0xff12_3456);
    assert_eq!(rig.word(SURFACE + 0x8000 + 64 + 4), 0);
    // After a flush through the stream, the new page is used.
    let mut words = vec![
        load(state::GL_FLUSH_CACHE, 1),
        8,
        load(state::GL_FLUSH_MMU, 1),
        0x1f,
    ];
    words.extend(clear_square(virtual_surface, true));
    rig.run(&words);
    assert_eq!(rig.kinds().len(), 1);
    assert_eq!(rig.word(SURFACE + 0x8000 + 64 + 4), 0xff12_3456);
    assert_eq!(rig.counter(counter::TLB_FLUSHES), 5);
}

#[test]
fn the_front_end_itself_goes_through_the_table() {
    let rig = Rig::new(Board::Gc2000);
    rig.put(TABLE, &[RAM + BUFFER]);
    rig.put(BUFFER, &[load(0xa14, 1), 9, END, 0]);
    rig.start(0x8000_0000, 16);
    rig.gpu.run_until_idle();
    rig.clean();
    assert_eq!(rig.gpu.state(0xa14 / 4), 9);
}

#[test]
fn a_missing_page_table_is_found() {
    let rig = Rig::new(Board::Gc320);
    rig.soft_reset();
    rig.gpu.mmio_write(MC_MEMORY_BASE_ADDR_FE, RAM);
    let mut words = select_2d();
    words.extend(clear_square(0x8000_0000, true));
    rig.run(&words);
    rig.survived(ViolationKind::NoPageTable);
}

/// Second-level tables, after the first-level table at TABLE.
const LARGE: u32 = TABLE + 0x1000;
const SMALL: u32 = TABLE + 0x2000;
const SAFE: u32 = TABLE + 0x3000;
const VIRTUAL: u32 = 0x8000_0000;

/// A core whose MMU v2 maps RAM at 0 in pages of 64 KiB, and the test's entries in SMALL at 2 GiB.
fn mmu_v2_rig_of(board: Board) -> Rig {
    let rig = Rig::new(board);
    rig.put(TABLE, &[2; 1024]);
    rig.put(SMALL, &[2; 1024]);
    rig.put(TABLE, &[RAM + LARGE | 1 << 2 | 1]);
    rig.put(TABLE + 4 * (VIRTUAL >> 22), &[RAM + SMALL | 1]);
    let pages: Vec<_> = (0..64).map(|page| (RAM + (page << 16)) | 5).collect();
    rig.put(LARGE, &pages);
    rig
}

fn mmu_v2_rig() -> Rig {
    mmu_v2_rig_of(Board::Gc3000)
}

fn enable_mmu_v2(rig: &Rig) {
    rig.run(&[load(0x184, 1), RAM + TABLE, load(0x180, 1), RAM + SAFE]);
    rig.gpu.mmio_write(MMUV2_CONTROL, MMUV2_CONTROL_ENABLE);
}

const FLUSH_MMU_V2: [u32; 2] = [load(0x184, 1), 0x118];

/// Fills 16 x 8 pixels.
fn fill(target: u32, value: u32) -> Vec<u32> {
    let mut words = Vec::new();
    let mut set = |address, value| words.extend([load(address, 1), value]);
    set(state::RS_CONFIG, (6 << 8) | 6);
    set(state::RS_DEST_STRIDE, 64);
    set(state::RS_PIPE_DEST_ADDR, target);
    set(state::RS_PIPE_OFFSET + 4, 4 << 16);
    set(state::RS_WINDOW_SIZE, (4 << 16) | 16);
    set(state::RS_CLEAR_CONTROL, (1 << 16) | 0xffff);
    set(state::RS_FILL_VALUE, value);
    set(state::RS_KICKER, 1);
    words
}

/// Tile status goes through the MMU, as the surface does.
#[test]
fn tiles_are_filled_in_place_where_the_core_can() {
    let rig = mmu_v2_rig();
    enable_mmu_v2(&rig);
    // Tiles 0, 2 and 4 are cleared. The last one is beyond the count.
    rig.put(SURFACE + 0x1000, &[0x111]);
    let mut words = Vec::new();
    let mut set = |address, value| words.extend([load(address, 1), value]);
    set(state::TS_MEM_CONFIG, state::TS_COLOR_FAST_CLEAR);
    set(state::TS_COLOR_STATUS_BASE, SURFACE + 0x1000);
    set(state::TS_COLOR_SURFACE_BASE, SURFACE);
    set(state::TS_COLOR_CLEAR_VALUE, 0x1122_3344);
    set(state::RS_KICKER_INPLACE, 4);
    rig.run(&words);
    rig.clean();
    for (at, value) in [
        (0, 0x1122_3344),
        (60, 0x1122_3344),
        (64, 0),
        (128, 0x1122_3344),
        (256, 0),
    ] {
        assert_eq!(rig.word(SURFACE + at), value, "{at}");
    }
    assert_eq!(rig.counter(counter::RESOLVES), 1);
    assert_eq!(rig.counter(counter::PIXELS), 32);
    // Without tile status there is nothing to do.
    rig.put(SURFACE, &[7]);
    rig.run(&[
        load(state::TS_MEM_CONFIG, 1),
        0,
        load(state::RS_KICKER_INPLACE, 1),
        4,
    ]);
    rig.clean();
    assert_eq!(rig.word(SURFACE), 7);

    let older = Rig::new(Board::Gc2000);
    older.run(&[load(state::RS_KICKER_INPLACE, 1), 4]);
    older.hung_by(ViolationKind::MissingEngine);
}

#[test]
fn mmu_v2_translates_pages_of_both_kinds() {
    let rig = mmu_v2_rig();
    rig.put(SMALL + 4, &[(RAM + SURFACE + 0x3000) | 5]);
    enable_mmu_v2(&rig);
    assert_eq!(rig.gpu.mmio_read(MMUV2_CONTROL), 1);
    rig.run(&fill(VIRTUAL + 0x1000, 0x1122_3344));
    rig.run(&fill(SURFACE, 0x5566_7788));
    rig.clean();
    assert_eq!(rig.word(SURFACE + 0x3000), 0x1122_3344);
    assert_eq!(rig.word(SURFACE), 0x5566_7788);
    // The flush state of MMU v1 does not apply.
    rig.put(SMALL + 4, &[(RAM + SURFACE + 0x4000) | 5]);
    let words = [
        vec![load(state::GL_FLUSH_MMU, 1), 0x1f],
        fill(VIRTUAL + 0x1000, 1),
        vec![load(state::GL_FLUSH_CACHE, 1), 3],
    ];
    rig.run(&words.concat());
    assert_eq!(rig.kinds(), ["stale-tlb"]);
    rig.run(&[FLUSH_MMU_V2.to_vec(), fill(VIRTUAL + 0x1000, 2)].concat());
    assert_eq!(rig.kinds().len(), 1);
    assert_eq!(rig.word(SURFACE + 0x4000), 2);
    assert_eq!(rig.counter(counter::TLB_FLUSHES), 5);
}

#[test]
fn mmu_v2_tells_of_what_it_does_not_let_through() {
    let rig = mmu_v2_rig();
    rig.put(SMALL, &[(RAM + SURFACE) | 1]);
    enable_mmu_v2(&rig);
    for (address, status) in [(0x9000_0000, 1), (VIRTUAL + 0x5000, 2), (VIRTUAL, 3)] {
        let before = rig.kinds().len();
        rig.run(&fill(address, 0xdead_dead));
        assert_eq!(rig.kinds()[before..], ["mmu-exception"]);
        assert_eq!(rig.gpu.front_end_state(), FrontEndState::Stopped);
        assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 1 << 30);
        assert_eq!(rig.gpu.mmio_read(MMUV2_STATUS), status);
        assert_eq!(rig.gpu.mmio_read(MMUV2_EXCEPTION_ADDR), address);
    }
    assert_eq!(rig.word(SURFACE), 0);
    assert_eq!(rig.word(SAFE), 0);
    // An entry that requests no exception is silent towards the host.
    rig.put(SMALL + 4 * 7, &[0]);
    rig.run(&fill(VIRTUAL + 0x7000, 1));
    assert_eq!(rig.kinds().len(), 4);
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 0);
    // A stream that does not exist reads from the safe address. Zeros are not a command.
    rig.start(0x9000_0000, 16);
    rig.gpu.run_until_idle();
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Hung);
    rig.soft_reset();
    for register in [MMUV2_CONTROL, MMUV2_STATUS, MMUV2_CONFIGURATION] {
        assert_eq!(rig.gpu.mmio_read(register), 0);
    }
}

/// An NPU whose page table array has the same tables, with a driver's register setup before the front end loads it.
fn secure_rig() -> Rig {
    let rig = mmu_v2_rig_of(Board::Npu);
    rig.put(SAFE + 0x1000, &[RAM + TABLE, 0]);
    rig.prepare_array(RAM + SAFE + 0x1000);
    rig
}

impl Rig {
    fn prepare_array(&self, array: u32) {
        for (register, value) in [
            (MMUV2_AHB_CONTROL, AHB_CONTROL_NONSEC_ACCESS),
            (MMUV2_PTA_ADDRESS_LOW, array),
            (MMUV2_PTA_ADDRESS_HIGH, 0),
            (MMUV2_PTA_CONTROL, 1),
            (MMUV2_NONSEC_SAFE_ADDR_LOW, RAM + SAFE),
            (MMUV2_SAFE_ADDRESS_CONFIG, 0),
        ] {
            self.gpu.mmio_write(register, value);
        }
    }

    /// Runs words on a secure core.
    fn run_secure(&self, words: &[u32]) {
        let stream = [words, &[END, 0]].concat();
        self.put(BUFFER, &stream);
        let window = COMMAND_CONTROL_ENABLE | stream.len() as u32 / 2;
        self.gpu.mmio_write(FE_COMMAND_ADDRESS, BUFFER);
        self.gpu.mmio_write(FE_COMMAND_CONTROL, window);
        self.gpu.run_until_idle();
        assert_eq!(self.gpu.front_end_state(), FrontEndState::Stopped);
        self.gpu.mmio_write(MMUV2_SEC_COMMAND_CONTROL, window);
        self.gpu.run_until_idle();
    }
}

#[test]
fn a_secure_mmu_takes_its_tables_from_an_array() {
    let rig = secure_rig();
    rig.run_secure(&[load(MMUV2_PTA_CONFIG, 1), 0]);
    rig.gpu.mmio_write(MMUV2_SEC_CONTROL, MMUV2_CONTROL_ENABLE);
    rig.put(SMALL + 4, &[(RAM + BUFFER) | 1]);
    rig.run_secure(&FLUSH_MMU_V2);
    rig.run_secure(&[load(0xa14, 1), 9]);
    rig.clean();
    assert_eq!(rig.gpu.state(0xa14 / 4), 9);
    // Refused accesses are reported in separate registers.
    rig.run_secure(&[link(16), VIRTUAL]);
    assert_eq!(rig.gpu.mmio_read(MMUV2_SEC_STATUS), 2);
    assert_eq!(rig.gpu.mmio_read(MMUV2_SEC_EXCEPTION_ADDR), VIRTUAL);
    assert_eq!(rig.gpu.mmio_read(MMUV2_STATUS), 0);
    // The clock register does not reset a secure core.
    rig.soft_reset();
    assert_eq!(rig.gpu.mmio_read(MMUV2_SEC_CONTROL), 1);
    rig.gpu
        .mmio_write(HI_CLOCK_CONTROL, 0x100 | CLOCK_CONTROL_ISOLATE_GPU);
    rig.gpu.mmio_write(MMUV2_AHB_CONTROL, AHB_CONTROL_RESET);
    assert_eq!(rig.gpu.mmio_read(MMUV2_SEC_CONTROL), 0);
    assert_eq!(rig.gpu.mmio_read(MMUV2_SEC_STATUS), 0);
}

#[test]
fn a_secure_mmu_has_to_be_set_up_right() {
    let is_wrong = |kind, prepare: &dyn Fn(&Rig)| {
        let rig = secure_rig();
        prepare(&rig);
        assert_eq!(rig.kinds(), [kind]);
    };
    let setup = "mmu-setup";
    is_wrong(setup, &|rig| {
        rig.gpu.mmio_write(MMUV2_SEC_CONTROL, 1);
    });
    is_wrong(setup, &|rig| {
        rig.run_secure(&[load(MMUV2_CONFIGURATION, 1), RAM + TABLE]);
    });
    is_wrong(setup, &|rig| {
        rig.gpu.mmio_write(MMUV2_PTA_CONTROL, 0);
        rig.run_secure(&[load(MMUV2_PTA_CONFIG, 1), 0]);
    });
    is_wrong(setup, &|rig| {
        rig.run_secure(&[load(MMUV2_PTA_CONFIG, 1), 1]);
    });
    is_wrong("host-register-load", &|rig| {
        rig.run_secure(&[load(MMUV2_SAFE_ADDRESS, 1), RAM + SAFE]);
    });
    is_wrong("front-end-start", &|rig| {
        rig.gpu.mmio_write(MMUV2_AHB_CONTROL, 0);
        rig.run_secure(&[load(0xa14, 1), 9]);
    });
    is_wrong("reset-sequence", &|rig| {
        rig.gpu.mmio_write(MMUV2_AHB_CONTROL, AHB_CONTROL_RESET);
    });
    is_wrong("unknown-register", &|rig| {
        rig.gpu.mmio_write(MMUV2_CONTROL, 1);
    });
}

#[test]
fn mmu_v2_has_to_be_set_up_right() {
    let is_wrong = |prepare: &dyn Fn(&Rig)| {
        let rig = mmu_v2_rig();
        prepare(&rig);
        assert_eq!(rig.kinds(), ["mmu-setup"]);
    };
    is_wrong(&|rig| rig.gpu.mmio_write(MMUV2_CONTROL, 1));
    is_wrong(&|rig| {
        rig.run(&[load(0x184, 1), RAM + TABLE]);
        rig.gpu.mmio_write(MMUV2_CONTROL, 1);
    });
    is_wrong(&|rig| rig.run(&[load(0x184, 1), RAM + TABLE + 0x400]));
    is_wrong(&|rig| rig.run(&[load(0x180, 1), RAM + SAFE + 32]));
    is_wrong(&|rig| {
        enable_mmu_v2(rig);
        rig.run(&[load(0x180, 1), RAM + SAFE + 64]);
    });
    is_wrong(&|rig| {
        enable_mmu_v2(rig);
        rig.gpu.mmio_write(MMUV2_CONTROL, 0);
    });
}

#[test]
fn access_outside_memory_is_a_bus_error() {
    let rig = Rig::new(Board::Gc320);
    let mut words = select_2d();
    words.extend(clear_square(RAM_BYTES as u32 - 64, true));
    rig.run(&words);
    rig.survived(ViolationKind::BusError);
    assert_eq!(rig.gpu.mmio_read(HI_AXI_STATUS) & 0x300, 0x100);
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 1 << 31);
    // The stream itself is outside memory: the front end cannot continue.
    let rig = Rig::new(Board::Gc320);
    rig.start(RAM_BYTES as u32, 16);
    rig.gpu.run_until_idle();
    rig.hung_by(ViolationKind::BusError);
    assert_eq!(rig.gpu.mmio_read(HI_AXI_STATUS) & 0x300, 0x200);
    rig.soft_reset();
    assert_eq!(rig.gpu.mmio_read(HI_AXI_STATUS), 0);
}

#[test]
fn soft_reset_clears_what_it_should() {
    let rig = Rig::new(Board::Gc320);
    let mut words = select_2d();
    words.extend(flush_and_event(7));
    rig.run(&words);
    assert_ne!(rig.gpu.state(state::GL_PIPE_SELECT / 4), 0);
    rig.soft_reset();
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), IDLE_STATE_ALL);
    assert_eq!(
        rig.gpu.mmio_read(HI_CLOCK_CONTROL),
        0x100 | CLOCK_CONTROL_IDLE
    );
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 0);
    for offset in [HI_INTR_ENBL, MC_MMU_FE_PAGE_TABLE, MC_MEMORY_BASE_ADDR_FE] {
        assert_eq!(rig.gpu.mmio_read(offset), 0, "{offset:#x}");
    }
    assert_eq!(rig.gpu.mmio_read(PM_PULSE_EATER), PULSE_EATER_RESET);
    assert_eq!(rig.gpu.mmio_read(HI_CHIP_MODEL), 0x320);
    assert_eq!(rig.gpu.state(state::GL_PIPE_SELECT / 4), 0);
    assert_eq!(rig.counter(counter::RESETS), 1);
    rig.clean();
    // The reset selected the 3D pipe and cleared the semaphores.
    rig.initialise();
    rig.run(&clear_square(SURFACE, true));
    rig.hung_by(ViolationKind::WrongPipe);
}

#[test]
fn a_driver_that_forgets_to_reprogram_fails_visibly() {
    let rig = Rig::new(Board::Dove);
    rig.soft_reset();
    rig.gpu.mmio_write(HI_INTR_ENBL, u32::MAX);
    rig.start_ring();
    assert_eq!(rig.kinds(), ["front-end-start", "bus-error"]);
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Hung);
}

#[test]
fn starts_that_cannot_work_are_found() {
    for (clock, base) in [(0x103, RAM), (0x8_0100, RAM)] {
        let rig = Rig::new(Board::Dove);
        rig.gpu.mmio_write(MC_MEMORY_BASE_ADDR_FE, base);
        rig.gpu.mmio_write(HI_CLOCK_CONTROL, clock);
        rig.start_ring();
        assert_eq!(rig.kinds(), ["front-end-start"]);
    }
    let rig = Rig::new(Board::Dove);
    rig.start_ring();
    rig.start(RING, 16);
    assert_eq!(rig.kinds(), ["front-end-start"]);
}

#[test]
fn a_start_needs_the_memory_base_where_addresses_count_from_it() {
    let boards = [
        (Board::Gc2000, &["front-end-start"][..]),
        (Board::Gc3000, &[]),
    ];
    for (board, wanted) in boards {
        let rig = Rig::new(board);
        for clock in [0x8_0100, 0x8_1100, 0x8_0100, 0x100] {
            rig.gpu.mmio_write(HI_CLOCK_CONTROL, clock);
        }
        rig.put(RING, &[WAIT, 0, link(16), RAM + RING]);
        rig.start(RAM + RING, 16);
        assert_eq!(rig.kinds(), wanted);
    }
}

#[test]
fn reset_without_isolation_is_found() {
    let rig = Rig::new(Board::Dove);
    rig.gpu.mmio_write(HI_CLOCK_CONTROL, 0x1100);
    rig.gpu.mmio_write(HI_CLOCK_CONTROL, 0x100);
    assert_eq!(rig.kinds(), ["reset-sequence"]);
}

/// Draws, and resets during the draw, as soon as a pixel is `drawn`.
fn nothing_survives(rig: &Rig, draws: &[u32], drawn: u32) {
    rig.gpu.spawn_threads().unwrap();
    let words = [draws, &[END, 0]].concat();
    rig.put(BUFFER, &words);
    rig.start(BUFFER, 4 * words.len() as u32);
    let begun = Instant::now();
    while rig.word(SURFACE) != drawn && begun.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    rig.soft_reset();
    rig.put(SURFACE, &[0; 1 << 18]);
    std::thread::sleep(Duration::from_millis(20));
    assert!((0..1 << 18).all(|at| rig.word(SURFACE + 4 * at) == 0));
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), IDLE_STATE_ALL);
    rig.clean();
}

#[test]
fn nothing_of_the_old_work_survives_a_reset() {
    let rig = Rig::new(Board::Gc320);
    // Thousands of large clears.
    let mut words = select_2d();
    let mut set = |address, value| words.extend([load(address, 1), value]);
    set(state::DE_DEST_ADDRESS, SURFACE);
    set(state::DE_DEST_STRIDE, 2048);
    set(state::DE_DEST_CONFIG, 6);
    set(state::DE_CLIP_BOTTOM_RIGHT, (512 << 16) | 512);
    set(state::DE_CLEAR_PIXEL_VALUE32, 0x5555_5555);
    for _ in 0..200 {
        words.extend([0x2000_0100, 0, 0, (512 << 16) | 512]);
    }
    nothing_survives(&rig, &words, 0x5555_5555);
    assert!(rig.counter(counter::DRAWS_2D) < 200);
}

#[test]
fn nothing_of_a_cut_draw_survives_a_reset() {
    let rig = cut_rig(4);
    let mut words = large_sheet();
    let draw = words[words.len() - 4..].to_vec();
    words.extend(draw.repeat(400));
    nothing_survives(&rig, &words, 0xff33_6699);
    assert!(rig.counter(counter::DRAWS_3D) < 400);
}

#[test]
fn the_thread_notices_a_patched_wait() {
    let rig = Rig::new(Board::Gc2000);
    rig.gpu.spawn_threads().unwrap();
    rig.put(RING, &[WAIT, 0, link(16), RING]);
    rig.start(RING, 16);
    rig.put(
        RING + 16,
        &[
            load(state::GL_EVENT, 1),
            4 | state::EVENT_FROM_FE,
            WAIT,
            0,
            link(16),
            RING + 24,
        ],
    );
    std::thread::sleep(Duration::from_millis(5));
    rig.put(RING + 4, &[RING + 16]);
    rig.put(RING, &[link(24)]);
    let begun = Instant::now();
    while rig.gpu.pending_interrupts() == 0 && begun.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 1 << 4);
    rig.clean();
}

#[test]
fn a_link_to_itself_does_not_block_the_host() {
    let rig = Rig::new(Board::Gc2000);
    rig.gpu.spawn_threads().unwrap();
    rig.put(BUFFER, &[link(8), BUFFER]);
    rig.start(BUFFER, 8);
    let begun = Instant::now();
    for _ in 0..1000 {
        rig.gpu.mmio_read(HI_IDLE_STATE);
    }
    rig.soft_reset();
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), IDLE_STATE_ALL);
}

#[test]
fn masked_interrupts_stay_pending() {
    let rig = Rig::new(Board::Gc2000);
    rig.gpu.mmio_write(HI_INTR_ENBL, 0);
    rig.run(&[load(state::GL_EVENT, 1), 2 | state::EVENT_FROM_FE]);
    assert_eq!(rig.gpu.pending_interrupts(), 4);
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 4);
}

#[test]
fn registers_that_silicon_lacks_are_found() {
    let rig = Rig::new(Board::Dove);
    rig.gpu.mmio_read(HI_CHIP_PRODUCT_ID);
    rig.gpu.mmio_write(0x554, 3);
    rig.gpu.mmio_write(HI_CHIP_MODEL, 1);
    assert_eq!(rig.kinds(), ["unknown-register"; 3]);
    assert_eq!(rig.gpu.mmio_read(HI_CHIP_MODEL), 0x600);
}

#[test]
fn profile_ports_show_signatures() {
    let rig = Rig::new(Board::Gc2000);
    rig.gpu.mmio_write(MC_PROFILE_CONFIG1, 15 << 16);
    assert_eq!(rig.gpu.mmio_read(MC_PROFILE_RA_READ), 0x1234_4321);
    rig.gpu
        .mmio_write(MC_PROFILE_CONFIG0, (15 << 24) | (15 << 16));
    assert_eq!(rig.gpu.mmio_read(MC_PROFILE_SH_READ), 0xdead_beef);
    assert_eq!(rig.gpu.mmio_read(MC_PROFILE_PE_READ), 0xbabe_f00d);
    rig.clean();
}

/// Value of a profile port for a selector.
fn counter(rig: &Rig, config: u32, shift: u32, port: u32, select: u32) -> u32 {
    rig.gpu.mmio_write(config, select << shift);
    rig.gpu.mmio_read(port)
}

#[test]
fn pixels_and_units_are_counted_until_the_block_is_reset() {
    let rig = Rig::new(Board::Gc320);
    let mut words = select_2d();
    words.extend(clear_square(SURFACE, true));
    rig.run(&words);
    let pixels = |select| counter(&rig, MC_PROFILE_CONFIG0, 16, MC_PROFILE_PE_READ, select);
    let units = |select| counter(&rig, MC_PROFILE_CONFIG2, 0, MC_PROFILE_MC_READ, select);
    // A square of 2 x 2.
    assert_eq!([pixels(2), pixels(11)], [0, 4]);
    assert_eq!([units(1), units(3)], [0, 2]);
    let fetched = units(2);
    assert_eq!(rig.gpu.mmio_read(HI_PROFILE_READ_BYTES8), fetched);
    assert_eq!(pixels(15), 0xbabe_f00d);
    assert_eq!([pixels(11), units(3), units(2)], [0, 2, fetched]);
    assert_eq!(units(15), 0x1234_5678);
    assert_eq!([units(3), units(2)], [0, 0]);
    rig.clean();
}

#[test]
fn each_pixel_pipe_counts_its_own() {
    let rig = Rig::new(Board::Gc2000);
    let window = 16 * 4;
    rig.run(&[
        load(state::RS_CONFIG, 1),
        (6 << 8) | 6,
        load(state::RS_DEST_STRIDE, 1),
        64,
        load(state::RS_WINDOW_SIZE, 1),
        (4 << 16) | 16,
        load(state::RS_CLEAR_CONTROL, 1),
        (1 << 16) | 0xffff,
        load(state::RS_PIPE_DEST_ADDR, 1),
        SURFACE,
        load(state::RS_PIPE_OFFSET + 4, 1),
        4 << 16,
        load(state::RS_KICKER, 1),
        1,
    ]);
    let clock = rig.gpu.mmio_read(HI_CLOCK_CONTROL) & 0xfff;
    for pipe in 0..2 {
        rig.gpu.mmio_write(HI_CLOCK_CONTROL, clock | pipe << 20);
        let pixels = counter(&rig, MC_PROFILE_CONFIG0, 16, MC_PROFILE_PE_READ, 2);
        assert_eq!(pixels, window, "pipe {pipe}");
        assert_eq!(rig.gpu.mmio_read(HI_PROFILE_WRITE_BYTES8), window / 2);
    }
    rig.gpu.mmio_write(HI_CLOCK_CONTROL, clock | 2 << 20);
    assert_eq!(rig.gpu.mmio_read(HI_PROFILE_WRITE_BYTES8), 0);
    rig.clean();
}

#[test]
fn memory_counters_hold_and_run() {
    let rig = Rig::new(Board::Gc320);
    let mut words = select_2d();
    words.extend(clear_square(SURFACE, true));
    rig.gpu.mmio_write(HI_MEMORY_COUNTER_RESET, 1);
    rig.run(&words);
    assert_eq!(rig.gpu.mmio_read(HI_PROFILE_WRITE_BYTES8), 0);
    rig.gpu.mmio_write(HI_MEMORY_COUNTER_RESET, 0);
    rig.run(&clear_square(SURFACE, true));
    assert_eq!(rig.gpu.mmio_read(HI_PROFILE_WRITE_BYTES8), 2);
    assert!(rig.gpu.mmio_read(HI_PROFILE_READ_BYTES8) > 0);
}

#[test]
fn armed_faults_do_what_they_say() {
    let bar = ControlBar::default();

    let rig = Rig::new(Board::Gc2000);
    bar.write(&rig.gpu, fault::HANG_AT_COMMAND, 3);
    rig.run(&[load(0xa14, 1), 1, load(0xa18, 1), 2, load(0xa1c, 1), 3]);
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Hung);
    assert_eq!([rig.gpu.state(0xa18 / 4), rig.gpu.state(0xa1c / 4)], [2, 0]);
    rig.clean();

    let rig = Rig::new(Board::Gc2000);
    bar.write(&rig.gpu, fault::HANG_AT_DRAW, 2);
    rig.run(&[5 << 27, 4, 0, 1, 5 << 27, 4, 0, 1]);
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Hung);
    assert_eq!(rig.counter(counter::DRAWS_3D), 1);
    rig.clean();

    let rig = Rig::new(Board::Gc2000);
    bar.write(&rig.gpu, fault::LOSE_EVENTS, 1);
    let event = |id| [load(state::GL_EVENT, 1), id | state::EVENT_FROM_FE];
    rig.run(&[event(1), event(2)].concat());
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 1 << 2);

    bar.write(&rig.gpu, fault::RAISE_BITS, 1 << 30);
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE), 1 << 30);

    bar.write(&rig.gpu, fault::IDENTITY, fault::IDENTITY_ZERO);
    assert_eq!(rig.gpu.mmio_read(HI_CHIP_MODEL), 0);
    bar.write(&rig.gpu, fault::DEAD, 1);
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), u32::MAX);
    rig.gpu.mmio_write(HI_INTR_ENBL, 0);
    bar.write(&rig.gpu, fault::CLEAR_ALL, 1);
    assert_eq!(rig.gpu.mmio_read(HI_CHIP_MODEL), 0x2000);
    assert_eq!(rig.gpu.mmio_read(HI_INTR_ENBL), u32::MAX);
    rig.clean();
}

#[test]
fn a_hang_can_be_of_any_kind() {
    let bar = ControlBar::default();
    let hung = |board, kind| {
        let rig = Rig::new(board);
        bar.write(&rig.gpu, fault::HANG_KIND, kind);
        bar.write(&rig.gpu, fault::HANG_AT_COMMAND, 2);
        rig.run(&[NOP, 0, NOP, 0]);
        rig.clean();
        assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE) & 1, 0);
        assert_eq!(rig.gpu.front_end_address(), BUFFER + 8);
        // Only a reset helps.
        rig.gpu.run_until_idle();
        rig
    };
    let works_again = |rig: &Rig| {
        bar.write(&rig.gpu, fault::CLEAR_ALL, 1);
        rig.soft_reset();
        rig.initialise();
        rig.run(&[load(0xa14, 1), 7]);
        assert_eq!(rig.gpu.state(0xa14 / 4), 7);
        rig.clean();
    };
    for (kind, state) in [
        (fault::HANG_SILENT, FrontEndState::Hung),
        (fault::HANG_ILLEGAL_OPCODE, FrontEndState::Hung),
        (fault::HANG_STALL, FrontEndState::Stalled),
        (fault::HANG_MMU_EXCEPTION, FrontEndState::Hung),
        (fault::HANG_BUS_ERROR, FrontEndState::Hung),
    ] {
        for board in [Board::Gc320, Board::Gc2000, Board::Gc3000] {
            let rig = hung(board, kind);
            assert_eq!(rig.gpu.front_end_state(), state);
            let illegal = rig.gpu.mmio_read(FE_DMA_LOW) >> 27 == 31;
            assert_eq!(illegal, kind == fault::HANG_ILLEGAL_OPCODE);
            let bits = rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE);
            let wanted = match kind {
                fault::HANG_MMU_EXCEPTION => INTR_MMU_EXCEPTION,
                fault::HANG_BUS_ERROR => INTR_AXI_BUS_ERROR,
                _ => 0,
            };
            assert_eq!(bits, wanted, "{board:?} {kind}");
            let bus = rig.gpu.mmio_read(HI_AXI_STATUS);
            assert_eq!(bus != 0, kind == fault::HANG_BUS_ERROR);
            if kind == fault::HANG_MMU_EXCEPTION && board == Board::Gc3000 {
                assert_ne!(rig.gpu.mmio_read(MMUV2_STATUS), 0);
                assert_eq!(rig.gpu.mmio_read(MMUV2_EXCEPTION_ADDR), BUFFER + 8);
            }
            works_again(&rig);
        }
    }
}

/// Commits a clear with its event to the ring, followed by the idle loop.
fn commit_a_clear(rig: &Rig, id: u32) {
    let mut words = select_2d();
    words.extend(clear_square(SURFACE, true));
    words.extend(flush_and_event(id));
    words.extend([link(16), RING + 16]);
    rig.put(BUFFER, &words);
    rig.put(RING + 16, &[WAIT, 0, link(16), RING + 16]);
    rig.put(RING + 4, &[BUFFER]);
    rig.put(RING, &[link(4 * words.len() as u32)]);
}

fn run_for(rig: &Rig, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        rig.gpu.step();
    }
}

#[test]
fn a_draw_can_be_endless() {
    let (rig, bar) = (Rig::new(Board::Gc320), ControlBar::default());
    bar.write(&rig.gpu, fault::ENDLESS_DRAW, 1);
    rig.start_ring();
    commit_a_clear(&rig, 3);
    run_for(&rig, Duration::from_millis(50));
    // The front end idles in its loop, and the event does not come.
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Waiting);
    assert_eq!(rig.gpu.front_end_address(), RING + 16);
    assert_eq!(rig.gpu.pending_interrupts(), 0);
    assert_eq!(rig.word(SURFACE + 64 + 4), 0);
    let idle = rig.gpu.mmio_read(HI_IDLE_STATE);
    assert_eq!(idle & (IDLE_STATE_PE | IDLE_STATE_DE), 0);
    // The commands after it stall.
    rig.put(BUFFER + 0x800, &select_2d());
    rig.put(BUFFER + 0x820, &[END, 0]);
    rig.put(RING + 20, &[BUFFER + 0x800]);
    rig.put(RING + 16, &[link(40)]);
    run_for(&rig, Duration::from_millis(50));
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Stalled);
    bar.write(&rig.gpu, fault::ENDLESS_DRAW, 0);
    rig.gpu.run_until_idle();
    assert_eq!(rig.gpu.pending_interrupts(), 1 << 3);
    assert_eq!(rig.word(SURFACE + 64 + 4), 0xff12_3456);
    rig.clean();

    // A reset drops the draw.
    let rig = Rig::new(Board::Gc320);
    bar.write(&rig.gpu, fault::ENDLESS_DRAW, 1);
    rig.start_ring();
    commit_a_clear(&rig, 3);
    run_for(&rig, Duration::from_millis(5));
    rig.soft_reset();
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), IDLE_STATE_ALL);
    rig.initialise();
    rig.start_ring();
    commit_a_clear(&rig, 4);
    run_for(&rig, Duration::from_millis(20));
    assert_eq!(rig.gpu.pending_interrupts(), 1 << 4);
    rig.clean();
}

#[test]
fn draws_of_one_colour_can_hang() {
    let (rig, bar) = (Rig::new(Board::Gc320), ControlBar::default());
    let mut words = select_2d();
    words.extend(clear_square(SURFACE, true));
    words.extend(flush_and_event(3));
    // The color of that square, then another one.
    bar.write(&rig.gpu, fault::HANG_AT_COLOUR, 0xff12_3455);
    rig.run(&words);
    assert_eq!(rig.gpu.pending_interrupts(), 1 << 3);
    bar.write(&rig.gpu, fault::HANG_AT_COLOUR, 0xff12_3456);
    rig.run(&words);
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Hung);
    rig.clean();
}

#[test]
fn a_draw_can_be_slow() {
    let (rig, bar) = (Rig::new(Board::Gc320), ControlBar::default());
    bar.write(&rig.gpu, fault::SLOW_DRAWS, 100_000);
    rig.start_ring();
    commit_a_clear(&rig, 3);
    let begun = Instant::now();
    rig.gpu.mmio_write(MC_PROFILE_CONFIG0, 11 << 16);
    let mut progress = 0;
    while rig.gpu.pending_interrupts() == 0 {
        rig.gpu.step();
        let now = rig.gpu.mmio_read(MC_PROFILE_PE_READ);
        assert!(now >= progress);
        progress = now;
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    assert!(begun.elapsed() >= Duration::from_millis(100));
    assert!(progress > 100, "{progress}");
    assert_eq!(rig.word(SURFACE + 64 + 4), 0xff12_3456);
    rig.clean();
}

#[test]
fn a_core_can_come_back_as_another() {
    let (rig, bar) = (Rig::new(Board::Gc2000), ControlBar::default());
    bar.write(&rig.gpu, fault::IDENTITY_AFTER_RESET, fault::IDENTITY_OTHER);
    assert_eq!(rig.gpu.mmio_read(HI_CHIP_MODEL), 0x2000);
    rig.soft_reset();
    assert_eq!(rig.gpu.mmio_read(HI_CHIP_MODEL), 0x1000);
    assert_eq!(bar.read(&rig.gpu, fault::IDENTITY_AFTER_RESET), 0);
    rig.soft_reset();
    assert_eq!(rig.gpu.mmio_read(HI_CHIP_MODEL), 0x1000);
    bar.write(&rig.gpu, fault::CLEAR_ALL, 1);
    assert_eq!(rig.gpu.mmio_read(HI_CHIP_MODEL), 0x2000);
    rig.clean();
}

#[test]
fn a_held_front_end_stays_where_it_is() {
    let (rig, bar) = (Rig::new(Board::Gc320), ControlBar::default());
    rig.start_ring();
    bar.write(&rig.gpu, fault::HOLD, 1);
    commit_a_clear(&rig, 3);
    run_for(&rig, Duration::from_millis(5));
    assert_eq!(rig.gpu.front_end_address(), RING);
    assert_eq!(rig.gpu.pending_interrupts(), 0);
    bar.write(&rig.gpu, fault::HOLD, 0);
    run_for(&rig, Duration::from_millis(20));
    assert_eq!(rig.gpu.pending_interrupts(), 1 << 3);
    rig.clean();
}

#[test]
fn a_reset_can_be_made_to_fail() {
    let (rig, bar) = (Rig::new(Board::Dove), ControlBar::default());
    bar.write(&rig.gpu, fault::RESET_STUCK, 1);
    rig.soft_reset();
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), 0);
    assert_eq!(rig.gpu.mmio_read(HI_CLOCK_CONTROL), 0x100);
    rig.soft_reset();
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), IDLE_STATE_FIRST_ALL);
    bar.write(&rig.gpu, fault::RESET_STUCK, u32::MAX);
    for _ in 0..3 {
        rig.soft_reset();
        assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), 0);
    }
    bar.write(&rig.gpu, fault::CLEAR_ALL, 0);
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), IDLE_STATE_FIRST_ALL);
    rig.clean();
}

#[test]
fn idle_can_be_made_late() {
    let (rig, bar) = (Rig::new(Board::Gc2000), ControlBar::default());
    bar.write(&rig.gpu, fault::IDLE_DELAY, 300_000);
    rig.run(&[NOP, 0]);
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE) & 7, 0);
    std::thread::sleep(Duration::from_millis(320));
    assert_eq!(rig.gpu.mmio_read(HI_IDLE_STATE), IDLE_STATE_ALL);
}

#[test]
fn a_declared_hang_does_not_fail_the_run() {
    let (rig, bar) = (Rig::new(Board::Gc2000), ControlBar::default());
    bar.write(
        &rig.gpu,
        gpu_control::EXPECT_VIOLATION,
        ViolationKind::IllegalOpcode as u32,
    );
    rig.run(&[0, 0]);
    assert_eq!(rig.gpu.front_end_state(), FrontEndState::Hung);
    assert!(!rig.gpu.recorder.failed());
    assert_eq!(bar.read(&rig.gpu, gpu_control::EXPECTED_SEEN), 1);
    assert_eq!(
        bar.read(&rig.gpu, gpu_control::FE_STATE),
        FrontEndState::Hung as u32
    );
    assert_eq!(bar.read(&rig.gpu, gpu_control::FE_ADDRESS), BUFFER);
    bar.write(&rig.gpu, gpu_control::STATE_INDEX, 0xa00 / 4);
    assert_eq!(bar.read(&rig.gpu, gpu_control::STATE_VALUE), 0);
}

struct Nobody;

impl Sink for Nobody {
    fn fire(&mut self) {}

    fn withdraw(&mut self) -> bool {
        false
    }
}

#[test]
fn interrupts_can_be_dropped_doubled_and_invented() {
    let (rig, bar) = (Rig::new(Board::Gc2000), ControlBar::default());
    rig.gpu.interrupts.connect(Some(Box::new(Nobody)));
    rig.gpu.spawn_threads().unwrap();
    let event = |id| {
        rig.run_on_thread(&[load(state::GL_EVENT, 1), id | state::EVENT_FROM_FE]);
    };
    let delivered = || rig.gpu.interrupts.delivered();
    let answer = || {
        let bits = rig.gpu.mmio_read(HI_INTR_ACKNOWLEDGE);
        rig.gpu.interrupts.unmask();
        bits
    };

    event(1);
    assert_eq!((delivered(), answer()), (1, 1 << 1));

    // Dropped: pending, but without an interrupt until the next event.
    bar.write(&rig.gpu, fault::DROP_INTERRUPTS, 1);
    event(2);
    assert_eq!(delivered(), 1);
    event(3);
    assert_eq!((delivered(), answer()), (2, (1 << 2) | (1 << 3)));

    // Doubled: one more interrupt with nothing pending.
    bar.write(&rig.gpu, fault::DUPLICATE_INTERRUPTS, 1);
    event(4);
    assert_eq!((delivered(), answer()), (3, 1 << 4));
    std::thread::sleep(HOLD_BACK * 10);
    assert_eq!((delivered(), answer()), (4, 0));

    bar.write(&rig.gpu, fault::SPURIOUS_INTERRUPTS, 1);
    assert_eq!((delivered(), answer()), (5, 0));

    bar.write(&rig.gpu, fault::RAISE_BITS, 1 << 30);
    assert_eq!((delivered(), answer()), (6, 1 << 30));

    // Delayed: the interrupt comes later.
    bar.write(&rig.gpu, fault::DELAY_INTERRUPTS, 300_000);
    event(5);
    assert_eq!(delivered(), 6);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!((delivered(), answer()), (7, 1 << 5));
    rig.clean();
}
