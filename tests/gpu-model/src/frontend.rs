// SPDX-License-Identifier: GPL-2.0-only
//! The front end: fetches the command stream, executes it, and feeds the pixel engine's queue.
//!
//! The pixel engine lags by a random amount on purpose: draws, resolves, its events and semaphores wait in a queue that
//! is processed in order. The queue is certain to be empty only where silicon guarantees it too: after a stall, and
//! before an event from the pixel engine fires. This detects streams without the necessary synchronization.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use gpu_control::counter;
use gpu_control::FrontEndState;
use gpu_control::ViolationKind;

use crate::bus::History;
use crate::bus::MemoryBus;
use crate::control::Faults;
use crate::draw;
use crate::draw::Draw;
use crate::draw::Stop;
use crate::draw::Workers;
use crate::engine2d::Bus;
use crate::engine2d::Engine;
use crate::engine2d::Rectangle;
use crate::engine2d::StateBlock;
use crate::gpu::lock;
use crate::gpu::Gpu;
use crate::gpu::Options;
use crate::gpu::Random;
use crate::gpu::Request;
use crate::memory::Snapshot;
use crate::mmu::Mmu;
use crate::mmu::MmuV1;
use crate::mmu::Port;
use crate::mmu::Setup;
use crate::mmu_v2::MmuV2;
use crate::personality::Personality;
use crate::profile::Mover;
use crate::registers::dma_state;
use crate::registers::mmuv2_configuration;
use crate::registers::state::*;
use crate::registers::INTR_AXI_BUS_ERROR;
use crate::registers::MMUV2_CONFIGURATION;
use crate::registers::MMUV2_NONSEC_SAFE_ADDR_LOW;
use crate::registers::MMUV2_PTA_ADDRESS_HIGH;
use crate::registers::MMUV2_PTA_ADDRESS_LOW;
use crate::registers::MMUV2_PTA_CONFIG;
use crate::registers::MMUV2_PTA_CONTROL;
use crate::registers::MMUV2_SAFE_ADDRESS;
use crate::registers::MMUV2_SAFE_ADDRESS_CONFIG;
use crate::resolve::Resolve;
use crate::shader::Features;
use crate::shader::Illegal;
use crate::shader::Program;
use crate::stream::fixed_to_float;
use crate::stream::Command;
use crate::strict::hex;
use crate::strict::Finding;
use crate::tile_status::TileStatus;
use crate::tiler::Tiler;

/// Capacity of the pixel engine's queue, in jobs.
const QUEUE: usize = 512;
/// Number of decoded shaders kept.
const PROGRAMS: usize = 16;
/// Pixels of 32 bits in a tile that has a status.
const PIXELS_OF_TILE: u64 = 16;
/// Words required between two events from the pixel engine on cores that need a delay.
const DELAY_WORDS: u32 = 5;
/// First word address of the delay loads. These are the addresses of the page-table registers; loads from a stream have
/// no effect on them.
const DELAY_FIRST: u32 = 0x100;
/// Flush bits of all ports.
const ALL_TLBS: u32 = 0x1f;
/// Word addresses of the MMU v2 host registers that the front end loads.
const MMUV2_WORD_SAFE_ADDRESS: u32 = MMUV2_SAFE_ADDRESS / 4;
const MMUV2_WORD_CONFIGURATION: u32 = MMUV2_CONFIGURATION / 4;
const MMUV2_WORD_PTA_CONFIG: u32 = MMUV2_PTA_CONFIG / 4;
/// FROM and TO of a semaphore token.
const TOKEN: u32 = 0x1f1f;
/// FROM, and its value for the front end.
const FROM: u32 = 0x1f;
const FROM_FE: u32 = 1;

/// Fields of a state that keep their old value when a mask bit is set, each with its mask bit.
fn masked(state: u32) -> &'static [(u32, u32)] {
    match state {
        DE_PE_CONFIG | DE_VR_CONFIG => &[(0x3, 1 << 3)],
        DE_ROT_ANGLE => &[
            (0x7, 1 << 8),
            (0x38, 1 << 9),
            (0x3000, 1 << 15),
            (0x3_0000, 1 << 19),
        ],
        DE_PE_TRANSPARENCY => &[(0x333, 1 << 12), (0x333_0000, 1 << 28), (1 << 29, 1 << 31)],
        DE_PE_CONTROL => &[(1 << 0, 1 << 3), (1 << 4, 1 << 7), (1 << 8, 1 << 11)],
        PA_CONFIG => &[
            (0x4, 1 << 3),
            (0x10, 1 << 5),
            (0x300, 1 << 10),
            (0x3000, 1 << 14),
            (0x3_0000, 1 << 18),
            (1 << 22, 1 << 23),
        ],
        PE_DEPTH_CONFIG => &[
            (0x3, 1 << 3),
            (1 << 4, 1 << 5),
            (0x700, 1 << 11),
            (1 << 12, 1 << 13),
            (1 << 16, 1 << 17),
            (1 << 18, 1 << 19),
            (1 << 20, 1 << 21),
            (1 << 24, 1 << 25),
            (1 << 26, 1 << 27),
        ],
        PE_STENCIL_OP => &[
            (0x7, 1 << 3),
            (0x70, 1 << 7),
            (0x700, 1 << 11),
            (0x7000, 1 << 15),
            (0x7_0000, 1 << 19),
            (0x70_0000, 1 << 23),
            (0x700_0000, 1 << 27),
            (0x7000_0000, 1 << 31),
        ],
        PE_STENCIL_CONFIG => &[
            (0x3, 1 << 4),
            (0xff00, 1 << 5),
            (0xff_0000, 1 << 6),
            (0xff00_0000, 1 << 7),
        ],
        PE_ALPHA_OP => &[(0x1, 1 << 1), (0x70, 1 << 7), (0xff00, 1 << 16)],
        PE_ALPHA_CONFIG => &[
            (0x1, 1 << 1),
            (0xf0, 1 << 2),
            (0xf00, 1 << 3),
            (0x7000, 1 << 15),
            (1 << 16, 1 << 17),
            (0xf0_0000, 1 << 18),
            (0xf00_0000, 1 << 19),
            (0x7000_0000, 1 << 31),
        ],
        PE_COLOR_FORMAT => &[
            (0xf, 1 << 4),
            (0xf00, 1 << 12),
            (1 << 16, 1 << 17),
            (1 << 20, 1 << 21),
            (0x7f00_0000, 1 << 31),
        ],
        PE_STENCIL_CONFIG_EXT => &[(0xff, 1 << 8), (0xffff_0000, 1 << 9)],
        PE_LOGIC_OP => &[(0xf, 1 << 4), (0x300, 1 << 7), (1 << 31, 1 << 30)],
        GL_MULTI_SAMPLE_CONFIG => &[
            (0x3, 1 << 3),
            (0xf0, 1 << 8),
            (0x7000, 1 << 15),
            (0x3_0000, 1 << 19),
        ],
        _ => &[],
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The step did work, and more remains.
    Busy,
    /// In a WAIT, or waiting for a slow engine: nothing to do for some time.
    Waiting,
    /// Stopped or hung, with an empty queue.
    Idle,
}

/// A front end with its engines.
pub trait Processor: Send {
    /// Executes at most one command, or one job of an engine.
    fn step(&mut self, gpu: &Gpu) -> Step;

    /// Drops all state except the random phase.
    fn reset(&mut self);
}

/// State of the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Stopped,
    Running,
    Waiting,
    /// Until the queue has passed this mark.
    Stalled(u64),
    Hung,
}

/// The command stream cannot continue.
struct Hang;

/// Result of running an engine's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// A job was completed.
    Job,
    /// The queue is empty.
    Nothing,
    /// The current draw has not finished.
    NotOver,
}

/// A fault that a test injects into a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Burden {
    /// The draw never ends.
    Endless,
    /// The draw takes this much longer.
    Slow(Duration),
}

impl Burden {
    /// The fault that a test armed for the draw that starts now.
    pub(crate) fn of_draw(gpu: &Gpu) -> Option<Self> {
        if Faults::reached(&gpu.faults.endless_draw) {
            gpu.endless.store(true, SeqCst);
            return Some(Burden::Endless);
        }
        let micros = gpu.faults.slow_draws.load(Relaxed);
        (micros != 0).then(|| Burden::Slow(Duration::from_micros(micros.into())))
    }

    /// Whether the fault still delays a draw that started at `since`.
    pub(crate) fn weighs(self, gpu: &Gpu, since: &mut Option<Instant>) -> bool {
        let since = *since.get_or_insert_with(Instant::now);
        match self {
            Burden::Endless => gpu.endless.load(SeqCst),
            Burden::Slow(time) => {
                gpu.progress.fetch_add(1, Relaxed);
                gpu.faults.slow_draws.load(Relaxed) != 0 && since.elapsed() < time
            }
        }
    }
}

/// A job of the pixel engine.
enum Job {
    Rectangle {
        states: Arc<StateBlock>,
        data: Arc<[u32]>,
        rectangle: Rectangle,
        position: u32,
    },
    Filter {
        states: Box<StateBlock>,
        position: u32,
    },
    Resolve {
        resolve: Box<Resolve>,
        position: u32,
    },
    Tile {
        tiler: Box<Tiler>,
        position: u32,
    },
    /// An in-place resolve.
    Fill {
        status: TileStatus,
        tiles: u32,
        position: u32,
    },
    Draw {
        draw: Box<Draw>,
        position: u32,
    },
    /// Start of an occlusion query that writes to an address, or (`None`) its end.
    Query(Option<u32>),
    FlushTextures,
    Event(u32),
    Mark(u64),
    FlushMmu(u32),
    Burden(Burden),
}

/// The most recently decoded shaders, by code.
#[derive(Default)]
struct Programs(VecDeque<(Vec<u32>, Arc<Program>)>);

impl Programs {
    fn decode(&mut self, code: Vec<u32>, features: &Features) -> Result<Arc<Program>, Illegal> {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| *known == code) {
            return Ok(known.clone());
        }
        let program = Arc::new(Program::decode(&code, features)?);
        if self.0.len() == PROGRAMS {
            self.0.pop_front();
        }
        self.0.push_back((code, program.clone()));
        Ok(program)
    }
}

/// The front end with its stream position and the pixel engine's queue.
pub struct FrontEnd {
    phase: Phase,
    /// GPU address of the next unit to fetch.
    next: u32,
    /// Bytes that it may still fetch.
    window: u32,
    /// GPU address and first words of the current command.
    current: (u32, u64),
    return_to: Option<(u32, u32)>,
    pipe_2d: bool,
    mmu: Box<dyn Mmu>,
    semaphores: HashMap<u32, u64>,
    queue: VecDeque<Job>,
    /// Start time of the current draw.
    drawing_since: Option<Instant>,
    /// Marks and draws share one numbering. These are the last number assigned, the last draw, the last mark stalled
    /// for, and the last mark passed.
    last_number: u64,
    last_draw: u64,
    stalled_for: u64,
    passed: u64,
    /// The pixel engine's caches hold data that was not flushed.
    dirty: bool,
    /// The tile status cache holds data that was not flushed.
    status_dirty: bool,
    /// Delay words since the last event from the pixel engine.
    delay_words: u32,
    history: History,
    random: Random,
    engine: Engine,
    links: u32,
    /// Vertex elements loaded since the first element was, one bit each.
    elements: u32,
    programs: Programs,
    workers: Box<Workers>,
    /// The current occlusion query: its target address and the samples so far.
    query: Option<(u32, u64)>,
    /// The hang that a test armed is a stall.
    hangs_in_stall: bool,
}

impl FrontEnd {
    /// A front end at power-on.
    pub fn new(personality: &Personality, options: &Options) -> Self {
        Self {
            phase: Phase::Stopped,
            next: 0,
            window: 0,
            current: (0, 0),
            return_to: None,
            pipe_2d: false,
            mmu: if personality.has_mmu_v2() {
                Box::new(MmuV2::default())
            } else {
                Box::new(MmuV1::default())
            },
            semaphores: HashMap::new(),
            queue: VecDeque::new(),
            drawing_since: None,
            last_number: 0,
            last_draw: 0,
            stalled_for: 0,
            passed: 0,
            dirty: false,
            status_dirty: false,
            delay_words: DELAY_WORDS,
            history: History::new(|word0, word1| Command::decode(word0).describe(word1)),
            random: Random::new(options.seed),
            engine: Engine::of(personality, options.line_inclusive),
            links: 0,
            elements: 0,
            programs: Programs::default(),
            workers: Box::new(Workers::new(options.threads)),
            query: None,
            hangs_in_stall: false,
        }
    }

    /// Runs a job of the pixel engine while the front end executes nothing.
    fn run_engines(&mut self, gpu: &Gpu) -> Step {
        match self.run_job(gpu) {
            Ran::Job => Step::Busy,
            Ran::Nothing => Step::Idle,
            Ran::NotOver => Step::Waiting,
        }
    }

    fn take_request(&mut self, gpu: &Gpu) {
        let mut slot = lock(&gpu.request);
        gpu.has_request.store(false, SeqCst);
        let Some(request) = slot.take() else { return };
        match request {
            Request::Start { address, window } => {
                gpu.trace(|| format!("start {}", hex(address)));
                self.next = address;
                self.window = window;
                self.current = (address, 0);
                self.return_to = None;
                self.phase = Phase::Running;
                if address % 8 != 0 {
                    drop(slot);
                    self.report(
                        gpu,
                        ViolationKind::MisalignedLink,
                        "start at a misaligned address".into(),
                    );
                    self.phase = Phase::Hung;
                    gpu.publish(FrontEndState::Hung, dma_state::DEC);
                }
            }
            Request::Stop => {
                self.phase = Phase::Stopped;
                gpu.publish(FrontEndState::Stopped, dma_state::IDLE);
            }
        }
    }

    fn run_command(&mut self, gpu: &Gpu) -> Step {
        if self.execute(gpu).is_err() {
            if mem::take(&mut self.hangs_in_stall) {
                self.phase = Phase::Stalled(u64::MAX);
                gpu.publish(FrontEndState::Stalled, dma_state::STALL);
                return Step::Busy;
            }
            self.phase = Phase::Hung;
            gpu.trace(|| format!("hung at {}", hex(self.current.0)));
            gpu.flush_trace();
            gpu.publish(FrontEndState::Hung, dma_state::DEC);
            return Step::Busy;
        }
        match self.phase {
            Phase::Waiting if self.queue.is_empty() || self.drawing_since.is_some() => {
                Step::Waiting
            }
            _ => Step::Busy,
        }
    }

    fn execute(&mut self, gpu: &Gpu) -> Result<(), Hang> {
        let position = self.next;
        self.current = (position, 0);
        let unit = self.fetch(gpu)?;
        self.current.1 = unit;
        let (word0, word1) = (unit as u32, (unit >> 32) as u32);
        let command = Command::decode(word0);
        let idle_loop = match command {
            Command::Wait { .. } => true,
            Command::Link { .. } => word1 == position.wrapping_sub(8),
            _ => false,
        };
        if !idle_loop {
            gpu.visible.address.store(position, Relaxed);
            self.note(gpu, command, position, unit)?;
        }
        match command {
            Command::LoadState {
                address,
                count,
                fixed_point,
            } => self.load_states(gpu, address, count, fixed_point, word1),
            Command::End => {
                self.stop(gpu);
                Ok(())
            }
            Command::Nop | Command::ChipSelect => Ok(()),
            Command::Draw2d { rectangles, data } => self.draw_2d(gpu, rectangles, data),
            Command::DrawPrimitives | Command::DrawIndexed | Command::DrawInstanced => {
                let mut words = vec![word0, word1];
                for _ in 1..command.units() {
                    let unit = self.fetch(gpu)?;
                    words.extend([unit as u32, (unit >> 32) as u32]);
                }
                self.draw_3d(gpu, command, &words)
            }
            Command::Wait { .. } => {
                self.phase = Phase::Waiting;
                gpu.visible.address.store(position, Relaxed);
                gpu.publish(FrontEndState::Waiting, dma_state::WAIT);
                Ok(())
            }
            Command::Link { prefetch } => {
                if !idle_loop {
                    gpu.publish(FrontEndState::Running, dma_state::LINK);
                }
                self.breathe_between_links(position, word1);
                self.jump(gpu, word1, prefetch)
            }
            Command::Stall => self.stall(gpu, word1),
            Command::Call { prefetch } => {
                let unit = self.fetch(gpu)?;
                self.return_to = Some(((unit >> 32) as u32, unit as u32 & 0xffff));
                self.jump(gpu, word1, prefetch)
            }
            Command::Return => match self.return_to.take() {
                Some((address, prefetch)) => self.jump(gpu, address, prefetch),
                None => self.hang(
                    gpu,
                    ViolationKind::IllegalOpcode,
                    "RETURN without CALL".into(),
                ),
            },
            Command::Illegal { opcode } => self.hang(
                gpu,
                ViolationKind::IllegalOpcode,
                format!("opcode {opcode} ({word0:#010x})"),
            ),
        }
    }

    /// Counts, traces and remembers a command outside the idle loop. Hangs if a test armed a hang for it.
    fn note(&mut self, gpu: &Gpu, command: Command, position: u32, unit: u64) -> Result<(), Hang> {
        if Faults::reached(&gpu.faults.hang_at_command) {
            self.hangs_in_stall = gpu.hang_as_armed(position);
            return Err(Hang);
        }
        if gpu.front_end_state() != FrontEndState::Running {
            gpu.publish(FrontEndState::Running, dma_state::DEC);
        }
        gpu.counters.add(counter::COMMANDS, 1);
        gpu.count_traffic(Mover::FrontEnd, u64::from(command.units()) * 8, 0);
        self.history.note(position, unit);
        let (word0, word1) = (unit as u32, (unit >> 32) as u32);
        gpu.trace(|| {
            format!(
                "{} {word0:08x} {word1:08x} {}",
                hex(position),
                command.describe(word1)
            )
        });
        Ok(())
    }

    /// Fetches the next 64-bit unit in one access.
    fn fetch(&mut self, gpu: &Gpu) -> Result<u64, Hang> {
        if self.window < 8 {
            let text = format!("fetch at {:#010x}, past the announced window", self.next);
            self.survivable(gpu, ViolationKind::PrefetchOverrun, text)?;
        }
        let setup = gpu.setup();
        let memory = gpu.memory.snapshot();
        let address = self.next;
        let physical = {
            let mut bus = self.bus(gpu, &setup, &memory, self.current.0);
            bus.translate(Port::FrontEnd, address, false)
                .map(|(physical, _)| physical)
        };
        let Some(physical) = physical else {
            return Err(Hang);
        };
        let Ok(unit) = memory.read_u64(physical) else {
            let detail = format!(
                "command fetch at {address:#010x} (physical {physical:#010x}) is outside memory"
            );
            gpu.bus_error(Port::FrontEnd, false, self.finding(detail));
            return Err(Hang);
        };
        gpu.note_fetch(address, unit);
        gpu.check_fetch(physical, unit, |text| self.finding(text));
        gpu.visible.low.store(unit as u32, Relaxed);
        gpu.visible.high.store((unit >> 32) as u32, Relaxed);
        self.next = self.next.wrapping_add(8);
        self.window = self.window.saturating_sub(8);
        Ok(unit)
    }

    fn jump(&mut self, gpu: &Gpu, address: u32, prefetch: u32) -> Result<(), Hang> {
        if address % 8 != 0 {
            return self.hang(
                gpu,
                ViolationKind::MisalignedLink,
                format!("jump to {address:#010x}"),
            );
        }
        self.next = address;
        self.window = prefetch * 8;
        Ok(())
    }

    /// Limits the processor time of a loop that consists only of LINKs.
    fn breathe_between_links(&mut self, from: u32, to: u32) {
        if to > from || from - to > 64 {
            self.links = 0;
            return;
        }
        self.links += 1;
        if self.links % 32 == 0 {
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }

    fn stop(&mut self, gpu: &Gpu) {
        self.phase = Phase::Stopped;
        // Keep a start visible that arrived in the meantime.
        let slot = lock(&gpu.request);
        if slot.is_none() {
            gpu.publish(FrontEndState::Stopped, dma_state::END);
        }
    }

    /// A report about the current position.
    fn finding(&self, detail: String) -> Finding {
        self.history.finding(detail, self.current)
    }

    fn report(&self, gpu: &Gpu, kind: ViolationKind, detail: String) {
        gpu.trace(|| format!("violation {}: {detail}", kind.name()));
        gpu.recorder.violation(kind, self.finding(detail));
    }

    /// Reports a violation that hangs silicon.
    fn hang<T>(&self, gpu: &Gpu, kind: ViolationKind, detail: String) -> Result<T, Hang> {
        self.report(gpu, kind, detail);
        Err(Hang)
    }

    /// Reports a violation that silicon may survive. The strict model hangs.
    fn survivable(&self, gpu: &Gpu, kind: ViolationKind, detail: String) -> Result<(), Hang> {
        self.report(gpu, kind, detail);
        if gpu.recorder.lenient() {
            Ok(())
        } else {
            Err(Hang)
        }
    }

    fn load_states(
        &mut self,
        gpu: &Gpu,
        address: u32,
        count: u32,
        fixed_point: bool,
        first: u32,
    ) -> Result<(), Hang> {
        gpu.counters.add(counter::STATE_WORDS, count.into());
        let mut unit = u64::from(first) << 32;
        for index in 0..count {
            // A unit has two words. The first value shares its unit with the header.
            let value = if index % 2 == 0 {
                (unit >> 32) as u32
            } else {
                unit = self.fetch(gpu)?;
                unit as u32
            };
            let value = if fixed_point {
                fixed_to_float(value)
            } else {
                value
            };
            self.load_state(gpu, (address + index) & 0xffff, value)?;
        }
        Ok(())
    }

    fn load_state(&mut self, gpu: &Gpu, word: u32, value: u32) -> Result<(), Hang> {
        let address = word * 4;
        if address < FIRST {
            self.load_host_register(gpu, word, value);
            return Ok(());
        }
        if (FE_COMMAND_FIRST..=FE_COMMAND_LAST).contains(&address) {
            let text = format!("load of front end register {address:#06x} with {value:#x}");
            self.report(gpu, ViolationKind::HostRegisterLoad, text);
            return Ok(());
        }
        let cell = &gpu.states[word as usize];
        let old = cell.load(Relaxed);
        let kept = masked(address)
            .iter()
            .filter(|(_, mask)| value & mask != 0)
            .fold(0, |kept, (field, _)| kept | field);
        cell.store(value & !kept | old & kept, Relaxed);
        if let Some(twin) = gpu.twin(address) {
            gpu.states[(twin / 4) as usize].store(value, Relaxed);
        }
        gpu.note_range(address);
        match address {
            GL_PIPE_SELECT => self.select_pipe(gpu, value & 1 != 0),
            GL_EVENT => self.event(gpu, value),
            GL_SEMAPHORE_TOKEN => self.arm(gpu, value & TOKEN),
            GL_FLUSH_CACHE => {
                if value & FLUSH_CACHE_PIXELS != 0 {
                    self.dirty = false;
                }
                if value & FLUSH_CACHE_TEXTURES != 0 {
                    self.push(gpu, Job::FlushTextures);
                }
            }
            TS_FLUSH_CACHE if value & 1 != 0 => self.status_dirty = false,
            // This state belongs to MMU v1. The states of MMU v2 are host registers.
            GL_FLUSH_MMU if !gpu.personality.has_mmu_v2() => self.flush_mmu(gpu, value),
            GL_STALL_TOKEN if value & FROM == FROM_FE => {
                return self.hang(
                    gpu,
                    ViolationKind::UnarmedStall,
                    format!("stall token {:#x} loaded to {address:#x}", value & TOKEN),
                );
            }
            GL_STALL_TOKEN
                // Another module waits, not the front end. The queue keeps its order anyway.
                if self.semaphores.remove(&(value & TOKEN)).is_none() => {
                    return self.hang(
                        gpu,
                        ViolationKind::UnarmedStall,
                        format!("stall token {:#x}", value & TOKEN),
                    );
                }
            FE_VERTEX_ELEMENT_CONFIG => self.elements = 1,
            FE_VERTEX_ELEMENT_CONFIG..FE_VERTEX_ELEMENT_END => {
                self.elements |= 1 << ((address - FE_VERTEX_ELEMENT_CONFIG) / 4);
            }
            GL_OCCLUSION_QUERY_ADDR if gpu.personality.has_halti0() => {
                self.push(gpu, Job::Query(Some(value)));
            }
            GL_OCCLUSION_QUERY_CONTROL if gpu.personality.has_halti0() => {
                self.push(gpu, Job::Query(None));
            }
            RS_KICKER => return self.kick_resolve(gpu),
            RS_KICKER_INPLACE => return self.fill_tiles(gpu, value),
            DE_VR_CONFIG if value & (1 << 3) == 0 => return self.kick_filter(gpu),
            _ => {}
        }
        Ok(())
    }

    /// Loads into host registers have no effect, except for those of MMU v2 below. Clients load words 0 and 1, and the
    /// kernel loads the delay words, only to pass time. Any other load is a mistake.
    fn load_host_register(&mut self, gpu: &Gpu, word: u32, value: u32) {
        let is_v2 = gpu.personality.has_mmu_v2();
        let is_secure = gpu.personality.has_secure_mmu();
        match word {
            0 | 1 => {}
            DELAY_FIRST..=0x104 => self.delay_words += 1,
            MMUV2_WORD_CONFIGURATION if is_v2 => self.configure_mmu(gpu, value),
            MMUV2_WORD_SAFE_ADDRESS if is_v2 && !is_secure => self.set_safe_address(gpu, value),
            MMUV2_WORD_PTA_CONFIG if is_secure => self.load_page_tables(gpu, value),
            _ => {
                let text = format!("load of host register {:#06x} with {value:#x}", word * 4);
                self.report(gpu, ViolationKind::HostRegisterLoad, text);
            }
        }
    }

    /// Loads MMU v2's configuration: fields whose mask bit is clear change. A flush reaches the pixel engine's side in
    /// queue order.
    fn configure_mmu(&mut self, gpu: &Gpu, value: u32) {
        use mmuv2_configuration::*;
        let mut word = gpu.registers.get(MMUV2_CONFIGURATION);
        if value & MODE_MASK == 0 {
            word = word & !MODE | value & MODE;
            if value & MODE != 0 {
                self.report(
                    gpu,
                    ViolationKind::Unsupported,
                    "MMU v2 with a first level of 1 KiB".into(),
                );
            }
        }
        if value & ADDRESS_MASK == 0 {
            let table = value & ADDRESS;
            if gpu.personality.has_secure_mmu() {
                let text = format!("first-level table at {table:#010x} of a secure core");
                return self.report(gpu, ViolationKind::MmuSetup, text);
            }
            if table % 4096 != 0 {
                let text = format!("first-level table at {table:#010x}, not on 4 KiB");
                self.report(gpu, ViolationKind::MmuSetup, text);
            }
            word = word & !ADDRESS | table;
        }
        if value & (MODE_MASK | ADDRESS_MASK) != MODE_MASK | ADDRESS_MASK {
            gpu.registers.set(MMUV2_CONFIGURATION, word);
        }
        if value & FLUSH != 0 && value & FLUSH_MASK == 0 {
            self.flush_mmu(gpu, ALL_TLBS);
        }
    }

    /// Loads the page tables of a secure MMU from a 64-bit entry of the page table array. The safe address comes from
    /// its own register.
    fn load_page_tables(&mut self, gpu: &Gpu, entry: u32) {
        let registers = &gpu.registers;
        let array = registers.get(MMUV2_PTA_ADDRESS_LOW);
        let at = u64::from(registers.get(MMUV2_PTA_ADDRESS_HIGH) & 0xff) << 32
            | u64::from(array) + 8 * u64::from(entry & 0xffff);
        let memory = gpu.memory.snapshot();
        let words = [at, at + 4].map(|at| memory.read_u32(at));
        let safe = registers.get(MMUV2_NONSEC_SAFE_ADDR_LOW);
        let problem = match words {
            _ if registers.get(MMUV2_PTA_CONTROL) & 1 == 0 => "without a page table array",
            _ if array % 4096 != 0 => "from an array that is not on 4 KiB",
            _ if safe == 0 || safe % 64 != 0 => "without a safe address on 64 bytes",
            _ if !registers.was_written(MMUV2_SAFE_ADDRESS_CONFIG) => {
                "without the high half of the safe address"
            }
            [Ok(low), Ok(0)] if low % 4096 == 0 && low != 0 => {
                registers.set(MMUV2_CONFIGURATION, low);
                registers.set(MMUV2_SAFE_ADDRESS, safe);
                return;
            }
            [Ok(_), Ok(_)] => "that begin at no page below 4 GiB",
            _ => "from outside of memory",
        };
        let text = format!("load of page tables {entry} {problem}");
        self.report(gpu, ViolationKind::MmuSetup, text);
    }

    /// Sets MMU v2's safe address, once per reset.
    fn set_safe_address(&mut self, gpu: &Gpu, value: u32) {
        let problem = if value % 64 != 0 {
            "not on 64 bytes"
        } else if gpu.registers.was_written(MMUV2_SAFE_ADDRESS)
            && gpu.registers.get(MMUV2_SAFE_ADDRESS) != value
        {
            "loaded again"
        } else {
            gpu.registers.set(MMUV2_SAFE_ADDRESS, value);
            return;
        };
        let text = format!("safe address {value:#010x} {problem}");
        self.report(gpu, ViolationKind::MmuSetup, text);
    }

    fn select_pipe(&mut self, gpu: &Gpu, pipe_2d: bool) {
        let present = if pipe_2d {
            gpu.personality.has_2d()
        } else {
            gpu.personality.has_3d()
        };
        if !present {
            let text = format!("selection of the {} pipe", pipe_name(pipe_2d));
            self.report(gpu, ViolationKind::MissingEngine, text);
        }
        if pipe_2d != self.pipe_2d && self.last_draw > self.stalled_for {
            let text = format!(
                "switch to the {} pipe with work not stalled for",
                pipe_name(pipe_2d)
            );
            self.report(gpu, ViolationKind::PipeSwitchBusy, text);
        }
        self.pipe_2d = pipe_2d;
    }

    fn event(&mut self, gpu: &Gpu, value: u32) {
        let id = value & 0x1f;
        if 1 << id == INTR_AXI_BUS_ERROR {
            self.report(
                gpu,
                ViolationKind::BadEvent,
                "event 31 is the bus error's bit".into(),
            );
        }
        match (value & EVENT_FROM_FE != 0, value & EVENT_FROM_PE != 0) {
            (true, false) => gpu.fire_event(id),
            (false, true) => {
                if gpu.personality.needs_extra_event_states() && self.delay_words < DELAY_WORDS {
                    let text = format!(
                        "event {id} with {} delay words since the last",
                        self.delay_words
                    );
                    self.report(gpu, ViolationKind::EventMerge, text);
                }
                self.delay_words = 0;
                if self.dirty {
                    gpu.recorder.warning(
                        "an event from the pixel engine without a cache flush after the drawing",
                    );
                    self.dirty = false;
                }
                self.expect_written_back(gpu, "an event from the pixel engine");
                self.push(gpu, Job::Event(id));
            }
            (fe, _) => {
                let text = format!(
                    "event {id} with {} source",
                    if fe { "more than one" } else { "no" }
                );
                self.report(gpu, ViolationKind::BadEvent, text);
            }
        }
    }

    fn arm(&mut self, gpu: &Gpu, token: u32) {
        self.last_number += 1;
        let number = self.last_number;
        self.push(gpu, Job::Mark(number));
        if self.semaphores.insert(token, number).is_some() {
            gpu.recorder
                .warning(format!("semaphore {token:#x} armed twice"));
        }
    }

    fn stall(&mut self, gpu: &Gpu, token: u32) -> Result<(), Hang> {
        let Some(mark) = self.semaphores.remove(&(token & TOKEN)) else {
            return self.hang(
                gpu,
                ViolationKind::UnarmedStall,
                format!("stall on token {:#x}", token & TOKEN),
            );
        };
        self.stalled_for = self.stalled_for.max(mark);
        if self.passed < mark {
            self.phase = Phase::Stalled(mark);
            let address = self.fetched_ahead(gpu);
            gpu.visible.address.store(address, Relaxed);
            gpu.publish(FrontEndState::Stalled, dma_state::STALL);
        }
        Ok(())
    }

    /// The address register's value during a stall. On silicon it may run ahead along the stream.
    fn fetched_ahead(&mut self, gpu: &Gpu) -> u32 {
        let units = gpu.faults.fetch_ahead.load(Relaxed).min(64) / 8;
        let (setup, memory) = (gpu.setup(), gpu.memory.snapshot());
        let mut address = self.current.0;
        for _ in 0..units {
            let mut bus = self.bus(gpu, &setup, &memory, address);
            let physical = bus.translate(Port::FrontEnd, address, false);
            let unit = physical.and_then(|(physical, _)| memory.read_u64(physical).ok());
            address = match unit.map(|unit| (Command::decode(unit as u32), (unit >> 32) as u32)) {
                Some((Command::Link { .. }, target)) => target,
                _ => address.wrapping_add(8),
            };
        }
        address
    }

    /// Checks that the tile status cache holds nothing that is not in memory.
    fn expect_written_back(&mut self, gpu: &Gpu, what: &str) {
        if mem::take(&mut self.status_dirty) {
            let text = format!("{what} without a flush of tile status after the drawing");
            self.report(gpu, ViolationKind::UnflushedCache, text);
        }
    }

    fn flush_mmu(&mut self, gpu: &Gpu, bits: u32) {
        if mem::take(&mut self.dirty) {
            let text = "a flush of translations without a cache flush after the drawing".into();
            self.report(gpu, ViolationKind::UnflushedCache, text);
        }
        self.expect_written_back(gpu, "a flush of translations");
        let front_end = bits & Port::FrontEnd.flush_bit();
        let flushed = self.mmu.flush(front_end);
        gpu.counters.add(counter::TLB_FLUSHES, flushed.into());
        self.push(gpu, Job::FlushMmu(bits & !front_end));
    }

    /// Checks and bookkeeping before every draw. `target`: the address that the draw writes; 0: not known.
    fn start_draw(
        &mut self,
        gpu: &Gpu,
        needs_2d: bool,
        what: &str,
        target: u32,
    ) -> Result<(), Hang> {
        let is_counted = target < gpu_control::SCRATCH;
        let colour = if needs_2d {
            gpu.state(DE_CLEAR_PIXEL_VALUE32 / 4)
        } else {
            gpu.state(RS_FILL_VALUE / 4)
        };
        let bad = gpu.faults.hang_at_colour.load(Relaxed);
        let is_bad = bad != 0 && colour == bad;
        if is_counted && Faults::reached(&gpu.faults.hang_at_draw) || is_bad {
            self.hangs_in_stall = gpu.hang_as_armed(self.current.0);
            return Err(Hang);
        }
        let present = if needs_2d {
            gpu.personality.has_2d()
        } else {
            gpu.personality.has_3d()
        };
        if !present {
            let text = format!("{what} on a core without {} engine", pipe_name(needs_2d));
            return self.hang(gpu, ViolationKind::MissingEngine, text);
        }
        if self.pipe_2d != needs_2d {
            let text = format!("{what} in the {} pipe", pipe_name(self.pipe_2d));
            return self.hang(gpu, ViolationKind::WrongPipe, text);
        }
        self.last_number += 1;
        self.last_draw = self.last_number;
        self.dirty = true;
        let fast_clear = TS_COLOR_FAST_CLEAR | TS_DEPTH_FAST_CLEAR;
        self.status_dirty |= !needs_2d && gpu.state(TS_MEM_CONFIG / 4) & fast_clear != 0;
        let burden = is_counted.then(|| Burden::of_draw(gpu)).flatten();
        if let Some(burden) = burden {
            self.push(gpu, Job::Burden(burden));
        }
        Ok(())
    }

    fn block(&self, gpu: &Gpu, first: u32, end: u32) -> StateBlock {
        StateBlock::new(first, self.words(gpu, first, end))
    }

    fn words(&self, gpu: &Gpu, first: u32, end: u32) -> Vec<u32> {
        (first / 4..end / 4).map(|word| gpu.state(word)).collect()
    }

    /// Starts a 3D draw from all words of its command.
    fn draw_3d(&mut self, gpu: &Gpu, command: Command, words: &[u32]) -> Result<(), Hang> {
        self.start_draw(gpu, false, command.name(), 0)?;
        gpu.counters.add(counter::DRAWS_3D, 1);
        if gpu.personality.has_halti5() {
            let text = format!(
                "{} of HALTI5, which the model does not draw",
                command.name()
            );
            self.report(gpu, ViolationKind::Unsupported, text);
            return Ok(());
        }
        let command = match (command, words) {
            (Command::DrawInstanced, [first, second, start, ..]) => {
                draw::Command::of_instances([*first, *second, *start])
            }
            (Command::DrawIndexed, [_, kind, start, count, base, ..]) => {
                draw::Command::of_primitives(*kind, *start, *count, Some(*base))
            }
            (_, [_, kind, start, count, ..]) => {
                draw::Command::of_primitives(*kind, *start, *count, None)
            }
            _ => return Ok(()),
        };
        let core = draw::Core::of(&gpu.personality, gpu.status_format());
        let mut programs = mem::take(&mut self.programs);
        let draw = Draw::new(
            core,
            command,
            self.elements.count_ones(),
            |state| gpu.drawn_state(state),
            |address, count| self.code(gpu, address, count),
            |code| programs.decode(code, &core.features),
        );
        self.programs = programs;
        match draw {
            Err((ViolationKind::DrawState, text)) => {
                return self.hang(gpu, ViolationKind::DrawState, text);
            }
            Err((kind, text)) => self.report(gpu, kind, text),
            Ok(draw) => {
                let (draw, position) = (Box::new(draw), self.current.0);
                self.push(gpu, Job::Draw { draw, position });
            }
        }
        Ok(())
    }

    /// Reads a shader's words from memory.
    fn code(&mut self, gpu: &Gpu, address: u32, count: u32) -> Vec<u32> {
        let mut bytes = vec![[0; 4]; count as usize];
        self.on_bus(gpu, self.current.0, |bus| {
            bus.read(Port::FrontEnd, address, bytes.as_flattened_mut());
            0
        });
        bytes.into_iter().map(u32::from_le_bytes).collect()
    }

    /// Runs a 3D draw. If the draw does not end, leaves an endless one in the queue.
    fn run_draw(&mut self, gpu: &Gpu, draw: &Draw, position: u32) {
        let (setup, memory) = (gpu.setup(), gpu.memory.snapshot());
        let at = (position, self.current.1);
        let mmu = self.mmu.as_mut();
        let mut bus = MemoryBus::new(gpu, mmu, &setup, &memory, &self.history, at);
        let (counts, result) = draw.run(&mut self.workers, &mut bus);
        // Account for traffic that the draw has not reported yet.
        bus.end_pipe(0, 0);
        if let Some((_, samples)) = &mut self.query {
            *samples += counts.pixels;
        }
        gpu.profile.count_draw(&counts);
        for (counter, amount) in [
            (counter::VERTICES, counts.vertices),
            (counter::PRIMITIVES, counts.primitives),
            (counter::CULLED, counts.culled),
            (counter::CLIPPED, counts.clipped),
            (counter::QUADS, counts.quads),
            (counter::PIXELS_3D, counts.pixels),
            (counter::INSTRUCTIONS, counts.instructions.iter().sum()),
            (counter::TEXELS, counts.texels),
        ] {
            gpu.counters.add(counter, amount);
        }
        match result {
            Ok(()) | Err(Stop::Aborted) => return,
            Err(Stop::Endless(at)) => {
                gpu.trace(|| format!("{} a shader never ends, at instruction {at}", hex(position)));
            }
            Err(Stop::Hang(text)) => {
                let finding = self.history.finding(text, (position, 0));
                gpu.recorder.violation(ViolationKind::DrawState, finding);
            }
        }
        gpu.endless.store(true, SeqCst);
        self.queue.push_front(Job::Burden(Burden::Endless));
    }

    fn run_query(&mut self, gpu: &Gpu, begins: Option<u32>) {
        match begins {
            Some(address) => self.query = Some((address, 0)),
            None => {
                if let Some((address, samples)) = self.query.take() {
                    self.on_bus(gpu, self.current.0, |bus| {
                        bus.write(Port::Pixel, address, &samples.to_le_bytes());
                        0
                    });
                }
            }
        }
    }

    fn draw_2d(&mut self, gpu: &Gpu, rectangles: u32, data: u32) -> Result<(), Hang> {
        let mut list = Vec::with_capacity(rectangles as usize);
        for _ in 0..rectangles {
            let unit = self.fetch(gpu)?;
            list.push(Rectangle::from_words(unit as u32, (unit >> 32) as u32));
        }
        let mut words = Vec::with_capacity(data as usize + 1);
        for _ in 0..data.div_ceil(2) {
            let unit = self.fetch(gpu)?;
            words.extend([unit as u32, (unit >> 32) as u32]);
        }
        words.truncate(data as usize);
        self.start_draw(gpu, true, "DRAW_2D", gpu.state(DE_DEST_ADDRESS / 4))?;
        let states = self.states_2d(gpu);
        let checked = self.engine.check(&states);
        let checked =
            checked.and_then(|()| self.engine.check_rectangles(&states, &list, words.len()));
        if let Err((kind, text)) = checked {
            self.report(gpu, kind, text);
            return Ok(());
        }
        let (states, data) = (Arc::new(states), Arc::from(words));
        let position = self.current.0;
        for rectangle in list {
            self.push(
                gpu,
                Job::Rectangle {
                    states: states.clone(),
                    data: Arc::clone(&data),
                    rectangle,
                    position,
                },
            );
        }
        Ok(())
    }

    /// The states that a 2D draw uses.
    fn states_2d(&self, gpu: &Gpu) -> StateBlock {
        let mut states = self.block(gpu, DE_FIRST, DE_END);
        // The color tables are large, and few draws use them.
        if self.engine.is_indexed(&states) {
            for first in [DE_INDEX_COLOR_TABLE, DE_INDEX_COLOR_TABLE32] {
                states = states.with(first, self.words(gpu, first, first + 0x400));
            }
        }
        states
    }

    fn kick_filter(&mut self, gpu: &Gpu) -> Result<(), Hang> {
        self.start_draw(gpu, true, "filter blit", 0)?;
        let kernel = self.words(gpu, DE_FILTER_KERNEL, DE_FILTER_KERNEL_END);
        let states = Box::new(self.states_2d(gpu).with(DE_FILTER_KERNEL, kernel));
        match self.engine.check_filter(&states) {
            Err((kind, text)) => self.report(gpu, kind, text),
            Ok(()) => {
                let position = self.current.0;
                self.push(gpu, Job::Filter { states, position });
            }
        }
        Ok(())
    }

    fn kick_resolve(&mut self, gpu: &Gpu) -> Result<(), Hang> {
        let target = match gpu.personality.pixel_pipes() {
            1 => RS_DEST_ADDR,
            _ => RS_PIPE_DEST_ADDR,
        };
        let states = self.block(gpu, RS_FIRST, RS_END);
        if Tiler::is_on(&states) {
            return self.kick_tiler(gpu, Tiler::new(states));
        }
        self.start_draw(gpu, false, "resolve", gpu.state(target / 4))?;
        let resolve = Box::new(Resolve::new(
            states,
            gpu.personality.pixel_pipes(),
            gpu.status_format(),
        ));
        match resolve.check() {
            Err((ViolationKind::ResolveWindow, text)) => {
                return self.hang(gpu, ViolationKind::ResolveWindow, text);
            }
            Err((kind, text)) => self.report(gpu, kind, text),
            Ok(()) => {
                let position = self.current.0;
                self.push(gpu, Job::Resolve { resolve, position });
            }
        }
        Ok(())
    }

    fn kick_tiler(&mut self, gpu: &Gpu, tiler: Tiler) -> Result<(), Hang> {
        let target = gpu.state(YUV_DEST_BASE / 4);
        self.start_draw(gpu, false, "YUV tiler", target)?;
        if !gpu.personality.has_yuv_tiler() {
            let text = "YUV tiler on a core without it".into();
            return self.hang(gpu, ViolationKind::MissingEngine, text);
        }
        match tiler.check() {
            Err((kind, text)) => self.report(gpu, kind, text),
            Ok(()) => {
                let (tiler, position) = (Box::new(tiler), self.current.0);
                self.push(gpu, Job::Tile { tiler, position });
            }
        }
        Ok(())
    }

    /// Resolves the first `tiles` tiles in place.
    fn fill_tiles(&mut self, gpu: &Gpu, tiles: u32) -> Result<(), Hang> {
        self.start_draw(gpu, false, "in-place resolve", 0)?;
        if !gpu.personality.has_single_buffer() {
            let text = "in-place resolve on a core without it".into();
            return self.hang(gpu, ViolationKind::MissingEngine, text);
        }
        let states = self.block(gpu, RS_FIRST, RS_END);
        if let Some(status) = TileStatus::new(&states, gpu.status_format()) {
            let position = self.current.0;
            self.push(
                gpu,
                Job::Fill {
                    status,
                    tiles,
                    position,
                },
            );
        }
        Ok(())
    }

    fn push(&mut self, gpu: &Gpu, job: Job) {
        self.queue.push_back(job);
        gpu.set_work(self.queue.len());
        while self.queue.len() > QUEUE && self.run_job(gpu) == Ran::Job {}
    }

    /// Runs the oldest job of the queue.
    fn run_job(&mut self, gpu: &Gpu) -> Ran {
        if let Some(Job::Burden(burden)) = self.queue.front() {
            if burden.weighs(gpu, &mut self.drawing_since) {
                return Ran::NotOver;
            }
            self.drawing_since = None;
        }
        let Some(job) = self.queue.pop_front() else {
            return Ran::Nothing;
        };
        match job {
            Job::Rectangle {
                states,
                data,
                rectangle,
                position,
            } => {
                let engine = self.engine;
                let draw = |bus: &mut dyn Bus| engine.draw(&states, &data, rectangle, bus);
                let pixels = self.on_bus(gpu, position, draw);
                count_2d(gpu, pixels);
            }
            Job::Filter { states, position } => {
                let engine = self.engine;
                let pixels = self.on_bus(gpu, position, |bus| engine.filter(&states, bus));
                count_2d(gpu, pixels);
            }
            Job::Resolve { resolve, position } => {
                let pixels = self.on_bus(gpu, position, |bus| resolve.run(bus));
                gpu.counters.add(counter::RESOLVES, 1);
                gpu.counters.add(counter::PIXELS, pixels);
            }
            Job::Tile { tiler, position } => {
                let pixels = self.on_bus(gpu, position, |bus| tiler.run(bus));
                gpu.counters.add(counter::RESOLVES, 1);
                gpu.counters.add(counter::PIXELS, pixels);
            }
            Job::Fill {
                status,
                tiles,
                position,
            } => {
                let pixels = self.on_bus(gpu, position, |bus| {
                    let pixels = status.fill(tiles, bus) * PIXELS_OF_TILE;
                    bus.end_pipe(0, pixels);
                    pixels
                });
                gpu.counters.add(counter::RESOLVES, 1);
                gpu.counters.add(counter::PIXELS, pixels);
            }
            Job::Draw { draw, position } => self.run_draw(gpu, &draw, position),
            Job::FlushTextures => self.workers.drop_textures(),
            Job::Query(begins) => self.run_query(gpu, begins),
            Job::Event(id) => {
                // The queue must look empty to the process that the event wakes.
                gpu.set_work(self.queue.len());
                if !gpu.abort.load(SeqCst) {
                    gpu.fire_event(id);
                }
            }
            Job::Mark(number) => self.passed = number,
            Job::FlushMmu(bits) => {
                let flushed = self.mmu.flush(bits);
                gpu.counters.add(counter::TLB_FLUSHES, flushed.into());
            }
            Job::Burden(_) => {}
        }
        gpu.set_work(self.queue.len());
        Ran::Job
    }

    fn on_bus(&mut self, gpu: &Gpu, position: u32, work: impl FnOnce(&mut dyn Bus) -> u64) -> u64 {
        let (setup, memory) = (gpu.setup(), gpu.memory.snapshot());
        let mut bus = self.bus(gpu, &setup, &memory, position);
        let pixels = work(&mut bus);
        let (read, written) = (mem::take(&mut bus.read), mem::take(&mut bus.written));
        gpu.count_traffic(Mover::Pipe(0), read, written);
        pixels
    }

    fn bus<'a>(
        &'a mut self,
        gpu: &'a Gpu,
        setup: &'a Setup,
        memory: &'a Snapshot,
        position: u32,
    ) -> MemoryBus<'a> {
        let at = (position, self.current.1);
        MemoryBus::new(gpu, self.mmu.as_mut(), setup, memory, &self.history, at)
    }
}

impl Processor for FrontEnd {
    fn reset(&mut self) {
        self.phase = Phase::Stopped;
        self.return_to = None;
        self.pipe_2d = false;
        self.mmu.reset();
        self.semaphores.clear();
        self.queue.clear();
        self.drawing_since = None;
        self.last_draw = 0;
        self.last_number = 0;
        self.stalled_for = 0;
        self.passed = 0;
        self.dirty = false;
        self.status_dirty = false;
        self.delay_words = DELAY_WORDS;
        self.history.clear();
        self.elements = 0;
        self.workers.drop_textures();
        self.query = None;
    }

    fn step(&mut self, gpu: &Gpu) -> Step {
        if gpu.abort.load(SeqCst) {
            return Step::Idle;
        }
        if gpu.has_request.load(SeqCst) {
            self.take_request(gpu);
        }
        let seed = gpu.new_seed.swap(0, Relaxed);
        if seed != 0 {
            self.random = Random::new(seed.into());
        }
        match self.phase {
            Phase::Stopped | Phase::Hung => self.run_engines(gpu),
            Phase::Running | Phase::Waiting if gpu.faults.hold.load(Relaxed) != 0 => {
                self.run_engines(gpu)
            }
            Phase::Stalled(mark) => {
                if self.passed < mark {
                    // A semaphore that is not in the queue never arrives.
                    return match self.run_job(gpu) {
                        Ran::Job => Step::Busy,
                        Ran::Nothing => Step::Idle,
                        Ran::NotOver => Step::Waiting,
                    };
                }
                self.phase = Phase::Running;
                gpu.publish(FrontEndState::Running, dma_state::DEC);
                Step::Busy
            }
            Phase::Waiting if !self.queue.is_empty() => match self.run_job(gpu) {
                // The idle loop continues in the meantime.
                Ran::NotOver => {
                    self.phase = Phase::Running;
                    self.run_command(gpu)
                }
                _ if self.queue.is_empty() => Step::Waiting,
                _ => Step::Busy,
            },
            Phase::Waiting => {
                self.phase = Phase::Running;
                self.run_command(gpu)
            }
            Phase::Running => {
                let full = self.queue.len() >= QUEUE;
                if full || self.random.below(4) == 0 {
                    let ran = self.run_job(gpu);
                    if full && ran == Ran::NotOver {
                        return Step::Waiting;
                    }
                }
                self.run_command(gpu)
            }
        }
    }
}

/// Counts a drawn rectangle of the 2D engine.
fn count_2d(gpu: &Gpu, pixels: u64) {
    gpu.counters.add(counter::DRAWS_2D, 1);
    gpu.counters.add(counter::PIXELS, pixels);
    gpu.profile.count_pixels(0, true, pixels);
}

fn pipe_name(pipe_2d: bool) -> &'static str {
    if pipe_2d {
        "2D"
    } else {
        "3D"
    }
}
