// SPDX-License-Identifier: GPL-2.0-only
//! One GPU: the state that the server, front end and interrupt threads share.
//!
//! The server thread never waits for the front end, with one exception: a soft reset raises `abort` and waits until the
//! front end releases `engine`, which takes at most one row of pixels. Lock order: `engine`, `request`, `pending`,
//! `fetched`, then the locks inside [`InterruptLine`] and [`Recorder`].

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufWriter;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use gpu_control::counter;
use gpu_control::fault;
use gpu_control::Board;
use gpu_control::FrontEndState;
use gpu_control::ViolationKind;
use gpu_control::FETCH_DUMP_BYTES;
use gpu_control::FETCH_DUMP_UNITS;
use gpu_control::POWER_CLOCK;
use gpu_control::POWER_DOMAIN;
use gpu_control::WRITEABLE_DUMP_BYTES;
use gpu_control::WRITEABLE_DUMP_RANGES;

use crate::control::Counters;
use crate::control::Faults;
use crate::frontend::FrontEnd;
use crate::frontend::Processor;
use crate::frontend::Step;
use crate::irq::InterruptLine;
use crate::memory::GuestMemory;
use crate::mmu::Cause;
use crate::mmu::Port;
use crate::mmu::PortSetup;
use crate::mmu::Setup;
use crate::mmu::V2Setup;
use crate::mmu_v2;
use crate::personality::Personality;
use crate::profile::Profile;
use crate::registers::*;
use crate::strict::Finding;
use crate::strict::Recorder;
use crate::vg::VgFrontEnd;
use crate::waits;
use crate::written::Written;

/// An opcode word that no core has.
const ILLEGAL_WORD: u32 = 0xf800_0000;
/// Bit of [`HI_AXI_STATUS`].
const AXI_READ_ERROR: u32 = 1 << 9;

/// Start options of a model.
#[derive(Clone, Debug)]
pub struct Options {
    /// The board to model.
    pub board: Board,
    /// Path of the report.
    pub report: Option<PathBuf>,
    /// Path of the trace of commands and register accesses.
    pub trace: Option<PathBuf>,
    /// Seed for the random phases.
    pub seed: u64,
    /// Violations do not fail the run, and violations that silicon may survive do not hang the front end.
    pub lenient: bool,
    /// Lines include their last pixel.
    pub line_inclusive: bool,
    /// A file with the process number of the virtual machine, once it runs.
    pub machine: Option<PathBuf>,
    /// Memory written by the engines of all cores of the machine.
    pub written: Arc<Written>,
    /// Number of threads for 3D draws.
    pub threads: usize,
}

impl Options {
    /// A strict model of a board without report or trace.
    pub fn new(board: Board) -> Self {
        Self {
            board,
            report: None,
            trace: None,
            seed: 1,
            lenient: false,
            line_inclusive: false,
            machine: None,
            written: Arc::default(),
            threads: 1,
        }
    }
}

/// The host's request to the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Start fetching.
    Start {
        /// GPU address.
        address: u32,
        /// Window in bytes.
        window: u32,
    },
    /// Stop fetching.
    Stop,
}

/// Storage of the registers: one word each, and whether it was written since reset.
pub(crate) struct RegisterFile {
    words: Vec<AtomicU32>,
    written: Vec<AtomicBool>,
}

impl RegisterFile {
    fn new() -> Self {
        let count = (REGISTER_FILE_BYTES / 4) as usize;
        let file = Self {
            words: (0..count).map(|_| AtomicU32::new(0)).collect(),
            written: (0..count).map(|_| AtomicBool::new(false)).collect(),
        };
        file.reset();
        file
    }

    fn reset(&self) {
        let clock = self.get(HI_CLOCK_CONTROL);
        self.words.iter().for_each(|word| word.store(0, Relaxed));
        self.written
            .iter()
            .for_each(|written| written.store(false, Relaxed));
        self.words[(HI_CLOCK_CONTROL / 4) as usize].store(clock, Relaxed);
        self.words[(PM_PULSE_EATER / 4) as usize].store(PULSE_EATER_RESET, Relaxed);
    }

    pub(crate) fn get(&self, offset: u32) -> u32 {
        self.words[(offset / 4) as usize].load(Relaxed)
    }

    pub(crate) fn set(&self, offset: u32, value: u32) {
        self.words[(offset / 4) as usize].store(value, Relaxed);
        self.written[(offset / 4) as usize].store(true, Relaxed);
    }

    pub(crate) fn was_written(&self, offset: u32) -> bool {
        self.written[(offset / 4) as usize].load(Relaxed)
    }
}

/// The front end's state that the host can read without stopping it.
#[derive(Default)]
pub(crate) struct Visible {
    pub(crate) state: AtomicU32,
    pub(crate) address: AtomicU32,
    pub(crate) dma_state: AtomicU32,
    pub(crate) low: AtomicU32,
    pub(crate) high: AtomicU32,
    /// Changes with each read of a waiting front end.
    pub(crate) looks: AtomicU32,
}

#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) bits: u32,
    /// Bits that must not raise the line because a fault dropped their interrupt.
    pub(crate) silent: u32,
}

/// A GPU.
pub struct Gpu {
    /// The core's identity.
    pub personality: Personality,
    /// The guest's memory.
    pub memory: GuestMemory,
    /// The core's counters.
    pub counters: Arc<Counters>,
    /// Faults that the guest armed.
    pub faults: Faults,
    /// Recorder of violations.
    pub recorder: Recorder,
    /// The core's interrupt line.
    pub interrupts: InterruptLine,
    pub(crate) registers: RegisterFile,
    pub(crate) states: Vec<AtomicU32>,
    /// Whether the instruction range of the vertex shader, and of the pixel shader, was last loaded in HALTI1's form.
    newer_ranges: [AtomicBool; 2],
    pub(crate) visible: Visible,
    /// The last fetched units with their addresses.
    fetched: Mutex<VecDeque<(u32, u64)>>,
    pub(crate) pending: Mutex<Pending>,
    pub(crate) abort: AtomicBool,
    pub(crate) has_request: AtomicBool,
    pub(crate) request: Mutex<Option<Request>>,
    pub(crate) new_seed: AtomicU32,
    pub(crate) stuck: AtomicBool,
    /// The reset line holds the core in reset.
    is_held: AtomicBool,
    /// Clock and domain bits from the power controller.
    power: AtomicU32,
    /// Current clock in 64ths of the full clock.
    pub(crate) scale: AtomicU32,
    /// The queue contains a draw that never ends; false lets it end.
    pub(crate) endless: AtomicBool,
    /// Changes while a slow draw is in progress.
    pub(crate) progress: AtomicU32,
    pub(crate) work: AtomicU32,
    pub(crate) busy_until: AtomicU64,
    pub(crate) profile: Profile,
    pub(crate) cycle_base: AtomicU64,
    pub(crate) total_base: AtomicU64,
    epoch: Instant,
    engine: Mutex<Box<dyn Processor>>,
    thread: OnceLock<thread::Thread>,
    trace: Option<Mutex<BufWriter<File>>>,
    options: Options,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl Gpu {
    /// A GPU after power-on, without memory.
    pub fn new(options: Options) -> anyhow::Result<Self> {
        let personality = Personality::of(options.board);
        let counters = Arc::new(Counters::default());
        let trace = match &options.trace {
            None => None,
            Some(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot create {}", path.display()))?;
                Some(Mutex::new(BufWriter::new(file)))
            }
        };
        Ok(Self {
            memory: GuestMemory::new(),
            recorder: Recorder::new(
                options.board.name(),
                options.report.clone(),
                options.lenient,
                counters.clone(),
            ),
            counters,
            faults: Faults::default(),
            interrupts: InterruptLine::default(),
            registers: RegisterFile::new(),
            states: (0..state::WORDS as u32)
                .map(|word| AtomicU32::new(state::at_reset(4 * word)))
                .collect(),
            newer_ranges: Default::default(),
            visible: Visible::default(),
            fetched: Mutex::default(),
            pending: Mutex::default(),
            abort: AtomicBool::new(false),
            has_request: AtomicBool::new(false),
            request: Mutex::new(None),
            new_seed: AtomicU32::new(0),
            stuck: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            power: AtomicU32::new(POWER_CLOCK | POWER_DOMAIN),
            scale: AtomicU32::new(FULL_SCALE),
            endless: AtomicBool::new(false),
            progress: AtomicU32::new(0),
            work: AtomicU32::new(0),
            busy_until: AtomicU64::new(0),
            profile: Profile::default(),
            cycle_base: AtomicU64::new(0),
            total_base: AtomicU64::new(0),
            epoch: Instant::now(),
            engine: Mutex::new(if personality.has_vg() {
                Box::new(VgFrontEnd::new(&options))
            } else {
                Box::new(FrontEnd::new(&personality, &options))
            }),
            thread: OnceLock::new(),
            trace,
            personality,
            options,
        })
    }

    /// Starts the threads of the front end and the interrupt line. They run until the process ends.
    pub fn spawn_threads(self: &Arc<Self>) -> anyhow::Result<()> {
        let gpu = self.clone();
        let handle = thread::Builder::new()
            .name("front-end".into())
            .spawn(move || gpu.run_front_end())
            .context("cannot start the front end's thread")?;
        let _ = self.thread.set(handle.thread().clone());
        let gpu = self.clone();
        thread::Builder::new()
            .name("interrupts".into())
            .spawn(move || gpu.interrupts.run())
            .context("cannot start the interrupt thread")?;
        Ok(())
    }

    /// One step of the front end and the pixel engine: executes at most one command.
    pub fn step(&self) -> Step {
        if self.abort.load(SeqCst) {
            return Step::Idle;
        }
        lock(&self.engine).step(self)
    }

    /// Steps until the front end waits in its idle loop, stops or hangs, and the pixel engine is idle. For tests.
    pub fn run_until_idle(&self) {
        for _ in 0..10_000_000 {
            match self.step() {
                Step::Busy => {}
                Step::Waiting | Step::Idle => return,
            }
        }
    }

    fn run_front_end(&self) -> ! {
        shorten_timer_slack();
        let mut poll = Poll::new(self.options.seed);
        loop {
            match self.step() {
                Step::Busy => poll.active(),
                Step::Waiting => thread::park_timeout(poll.interval()),
                Step::Idle if self.abort.load(SeqCst) => thread::yield_now(),
                Step::Idle if self.has_request.load(SeqCst) => {}
                Step::Idle => thread::park_timeout(Duration::from_millis(20)),
            }
        }
    }

    /// Wakes a sleeping front end.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Resets everything except the identity and the clock register. Work in flight is dropped: none of it reaches
    /// memory after this function returns.
    pub fn reset(&self) {
        self.abort.store(true, SeqCst);
        let mut engine = lock(&self.engine);
        engine.reset();
        *lock(&self.request) = None;
        self.has_request.store(false, SeqCst);
        for (word, state) in (0..).zip(&self.states) {
            state.store(state::at_reset(4 * word), Relaxed);
        }
        for is_newer in &self.newer_ranges {
            is_newer.store(false, Relaxed);
        }
        self.registers.reset();
        self.publish(FrontEndState::Stopped, dma_state::IDLE);
        self.visible.address.store(0, Relaxed);
        self.visible.low.store(0, Relaxed);
        self.visible.high.store(0, Relaxed);
        self.work.store(0, Relaxed);
        self.endless.store(false, SeqCst);
        self.profile.clear();
        self.progress.store(0, Relaxed);
        let now = self.micros();
        self.cycle_base.store(now, Relaxed);
        self.total_base.store(now, Relaxed);
        let mut pending = lock(&self.pending);
        *pending = Pending::default();
        self.interrupts.set_level(false, Duration::ZERO);
        drop(pending);
        self.abort.store(false, SeqCst);
    }

    /// Restores the power-on state with clocks on. Keeps counters, faults and violations.
    pub fn power_on_reset(&self) {
        self.registers.set(HI_CLOCK_CONTROL, 0);
        self.scale.store(FULL_SCALE, SeqCst);
        self.reset();
        self.stuck.store(false, SeqCst);
    }

    /// Whether the reset line holds the core in reset.
    pub(crate) fn reset_line(&self) -> bool {
        self.is_held.load(SeqCst)
    }

    /// Sets the reset line. Asserting it resets the core, and releasing it restores the power-on state.
    pub(crate) fn drive_reset_line(&self, is_held: bool) {
        let was_held = self.is_held.swap(is_held, SeqCst);
        if is_held {
            self.reset();
        } else if was_held {
            self.trace(|| "reset by the line".to_string());
            self.power_on_reset();
            self.counters.add(counter::LINE_RESETS, 1);
            self.faults.reset_needs_line.store(0, Relaxed);
            let stuck = Faults::take(&self.faults.reset_stuck);
            self.stuck.store(stuck, SeqCst);
        }
    }

    /// Clock and domain bits from the power controller.
    pub(crate) fn power(&self) -> u32 {
        self.power.load(SeqCst)
    }

    /// Whether the registers are accessible: both clock and power domain are on.
    pub(crate) fn has_power(&self) -> bool {
        self.power() == (POWER_CLOCK | POWER_DOMAIN)
    }

    /// Applies the power controller's clock and domain bits.
    pub(crate) fn set_power(&self, power: u32) {
        let power = power & (POWER_CLOCK | POWER_DOMAIN);
        let before = self.power.swap(power, SeqCst);
        let (gone, come) = (before & !power, power & !before);
        if gone != 0 {
            self.trace(|| format!("power {power:#x}"));
            let control = self.registers.get(HI_CLOCK_CONTROL);
            let is_cut_off = control & CLOCK_CONTROL_ISOLATE_GPU != 0 || self.reset_line();
            let is_at_rest =
                self.front_end_state() == FrontEndState::Stopped && !self.work_pending();
            if before & POWER_CLOCK != 0 && !is_cut_off && !is_at_rest {
                let finding = Finding {
                    detail: format!("front end {:?}", self.front_end_state()),
                    address: self.front_end_address(),
                    ..Finding::default()
                };
                self.recorder
                    .violation(ViolationKind::PowerOffBusy, finding);
            }
        }
        self.interrupts.set_off(!self.has_power());
        if gone & POWER_DOMAIN != 0 {
            self.reset();
        }
        if come & POWER_DOMAIN != 0 {
            self.power_on_reset();
            self.counters.add(counter::POWER_UPS, 1);
            self.faults.reset_needs_power.store(0, Relaxed);
            let stuck = Faults::take(&self.faults.reset_stuck)
                || self.faults.reset_needs_line.load(Relaxed) != 0;
            self.stuck.store(stuck, SeqCst);
        }
        if come & POWER_CLOCK != 0 {
            self.counters.add(counter::CLOCK_UPS, 1);
        }
    }

    /// Publishes the state of a running front end.
    #[cfg(test)]
    pub(crate) fn publish_running_for_test(&self) {
        self.visible
            .state
            .store(FrontEndState::Running as u32, SeqCst);
    }

    /// Ends a draw that never ends by itself.
    pub(crate) fn end_endless_draw(&self) {
        self.endless.store(false, SeqCst);
        self.wake();
    }

    /// Hangs the front end in the way that a test armed. Returns true if the hang is a stall.
    pub(crate) fn hang_as_armed(&self, address: u32) -> bool {
        let kind = self.faults.hang_kind.load(Relaxed);
        self.trace(|| format!("armed hang of kind {kind}"));
        match kind {
            fault::HANG_ILLEGAL_OPCODE => self.visible.low.store(ILLEGAL_WORD, Relaxed),
            fault::HANG_MMU_EXCEPTION => self.mmu_exception(Cause::NoPage, address),
            fault::HANG_BUS_ERROR => {
                let status = self.registers.get(HI_AXI_STATUS);
                self.registers.set(HI_AXI_STATUS, status | AXI_READ_ERROR);
                self.raise(INTR_AXI_BUS_ERROR);
            }
            _ => {}
        }
        kind == fault::HANG_STALL
    }

    /// Ends a reset that a test armed never to complete.
    pub(crate) fn unstick(&self) {
        self.stuck.store(false, SeqCst);
    }

    pub(crate) fn publish(&self, state: FrontEndState, dma_state: u32) {
        let before = self.visible.state.swap(state as u32, SeqCst);
        self.visible.dma_state.store(dma_state, Relaxed);
        if state == FrontEndState::Stopped && before != state as u32 {
            self.became_idle();
        }
    }

    pub(crate) fn set_work(&self, jobs: usize) {
        let before = self.work.swap(jobs as u32, SeqCst);
        if jobs == 0 && before != 0 {
            self.became_idle();
        }
    }

    fn became_idle(&self) {
        let delay = self.faults.idle_delay.load(Relaxed);
        if delay != 0 {
            self.busy_until
                .store(self.micros() + u64::from(delay), Relaxed);
        }
    }

    /// Microseconds since the model started.
    pub(crate) fn micros(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }

    /// State of the front end.
    pub fn front_end_state(&self) -> FrontEndState {
        FrontEndState::from_code(self.visible.state.load(SeqCst)).unwrap_or(FrontEndState::Stopped)
    }

    /// GPU address of the front end's current command.
    pub fn front_end_address(&self) -> u32 {
        self.visible.address.load(Relaxed)
    }

    /// Whether the pixel engine has work.
    pub fn work_pending(&self) -> bool {
        self.work.load(SeqCst) != 0
    }

    /// Milliseconds that the virtual machine and the model have waited for the host's processors.
    pub fn host_wait(&self) -> u32 {
        let waited = waits::so_far(self.options.machine.as_deref());
        waited.as_millis() as u32
    }

    /// Pending interrupt bits.
    pub fn pending_interrupts(&self) -> u32 {
        lock(&self.pending).bits
    }

    /// A word of the state memory, by word address; 0 beyond its end.
    pub fn state(&self, word: u32) -> u32 {
        self.states
            .get(word as usize)
            .map_or(0, |word| word.load(Relaxed))
    }

    /// The other byte address of a state that has two addresses: shader instructions, and HALTI5's samplers and
    /// uniforms.
    pub(crate) fn twin(&self, address: u32) -> Option<u32> {
        let distance = state::SH_INST_MEM - state::SH_INST_MEM_MIRROR;
        let has_twins = self.personality.has_3d() && self.personality.has_more_minor_features();
        match address {
            _ if !has_twins => None,
            state::SH_INST_MEM..state::SH_INST_MEM_END => Some(address - distance),
            state::SH_INST_MEM_MIRROR..state::SH_INST_MEM_MIRROR_END => Some(address + distance),
            _ if !self.personality.has_halti5() => None,
            0x1_5800..0x1_5c00 => Some(address + 0x400),
            0x1_5c00..0x1_6000 => Some(address - 0x400),
            0x1_6000..0x1_6a00 => Some(address + 0xc00),
            0x1_6c00..0x1_7600 => Some(address - 0xc00),
            0x3_4000..0x3_6000 => Some(address + 0x2000),
            0x3_6000..0x3_8000 => Some(address - 0x2000),
            _ => None,
        }
    }

    /// Notes the load of a state. Shaders have two states for the instruction range; the one loaded last applies.
    pub(crate) fn note_range(&self, address: u32) {
        let (shader, is_newer) = match address {
            state::VS_RANGE => (0, false),
            state::VS_NEWRANGE_LOW | state::VS_NEWRANGE_HIGH => (0, true),
            state::PS_RANGE => (1, false),
            state::PS_NEWRANGE_LOW | state::PS_NEWRANGE_HIGH => (1, true),
            _ => return,
        };
        // HALTI1. Mesa 26 loads these states on a GC3000 and places the pixel shader directly after the vertex shader.
        let has_newer = self.personality.has_3d() && self.personality.minor[2] >> 11 & 1 != 0;
        self.newer_ranges[shader].store(is_newer && has_newer, Relaxed);
    }

    /// The state at byte address `address` as a draw uses it.
    pub fn drawn_state(&self, address: u32) -> u32 {
        let (shader, low) = match address {
            state::VS_RANGE => (0, state::VS_NEWRANGE_LOW),
            state::PS_RANGE => (1, state::PS_NEWRANGE_LOW),
            _ => return self.state(address / 4),
        };
        if !self.newer_ranges[shader].load(Relaxed) {
            return self.state(address / 4);
        }
        let [first, last] = [0, 1].map(|at| self.state(low / 4 + at));
        last << 16 | first & 0xffff
    }

    /// Writes the whole state memory to guest memory at a physical address.
    pub(crate) fn dump_states(&self, address: u32) {
        let bytes: Vec<u8> = self
            .states
            .iter()
            .flat_map(|word| word.load(Relaxed).to_le_bytes())
            .collect();
        // A dump to an address outside memory is lost.
        let _ = self.memory.snapshot().write(address, &bytes);
    }

    /// Writes the ranges that the page tables let engines write to guest memory at a physical address.
    pub(crate) fn dump_writeable(&self, address: u32) {
        let memory = self.memory.snapshot();
        let table = self.setup().v2.table;
        let ranges = table.map_or_else(Vec::new, |table| mmu_v2::writeable(table, &memory));
        let words = ranges.into_iter().take(WRITEABLE_DUMP_RANGES);
        let words = words.flat_map(|it| {
            [
                it.address,
                it.physical as u32,
                it.bytes,
                (it.physical >> 24) as u32 & 0xff00 | 1,
            ]
        });
        let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        bytes.resize(WRITEABLE_DUMP_BYTES, 0);
        // A dump to an address outside memory is lost.
        let _ = memory.write(address, &bytes);
    }

    /// Notes an engine's write to memory.
    pub(crate) fn note_write(&self, physical: u64, data: &[u8]) {
        self.options.written.note(physical, data);
    }

    /// Checks a unit that the front end fetched: data that an engine wrote must not be executed.
    pub(crate) fn check_fetch(
        &self,
        physical: u64,
        unit: u64,
        finding: impl FnOnce(String) -> Finding,
    ) {
        if self.options.written.is_executed(physical, unit) {
            let text = format!("fetch of what an engine wrote (physical {physical:#010x})");
            let finding = finding(text);
            self.recorder
                .violation(ViolationKind::ExecutedWrite, finding);
        }
    }

    /// Remembers a unit that the front end fetched. A loop of two units is remembered once.
    pub(crate) fn note_fetch(&self, address: u32, unit: u64) {
        let mut fetched = lock(&self.fetched);
        if fetched
            .iter()
            .rev()
            .take(2)
            .any(|last| *last == (address, unit))
        {
            return;
        }
        if fetched.len() == FETCH_DUMP_UNITS {
            fetched.pop_front();
        }
        fetched.push_back((address, unit));
    }

    /// Writes the remembered units to guest memory at a physical address and clears the list.
    pub(crate) fn dump_fetched(&self, address: u32) {
        let fetched = std::mem::take(&mut *lock(&self.fetched));
        let words = fetched
            .into_iter()
            .flat_map(|(address, unit)| [address, unit as u32, (unit >> 32) as u32, 1]);
        let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        bytes.resize(FETCH_DUMP_BYTES, 0);
        // A dump to an address outside memory is lost.
        let _ = self.memory.snapshot().write(address, &bytes);
    }

    /// Sets a new seed for the random phases.
    pub(crate) fn reseed(&self, seed: u32) {
        self.new_seed.store(seed.max(1), Relaxed);
    }

    /// Updates the counters that other modules keep.
    pub(crate) fn sync_counters(&self) {
        self.counters
            .set(counter::INTERRUPTS, self.interrupts.delivered());
    }

    /// The memory setup as programmed by the host.
    pub(crate) fn setup(&self) -> Setup {
        let written = |register| {
            let registers = &self.registers;
            registers
                .was_written(register)
                .then(|| registers.get(register))
        };
        Setup {
            ports: Port::ALL.map(|port| PortSetup {
                table: written(port.table_register()),
                base: self.registers.get(port.base_register()),
            }),
            v2: V2Setup {
                enabled: self.registers.get(self.personality.mmu_control()) & MMUV2_CONTROL_ENABLE
                    != 0,
                table: written(MMUV2_CONFIGURATION).map(|word| word & mmuv2_configuration::ADDRESS),
                safe: written(MMUV2_SAFE_ADDRESS),
            },
        }
    }

    /// Sets interrupt bits that are not events.
    pub(crate) fn raise(&self, bits: u32) {
        let mut pending = lock(&self.pending);
        pending.bits |= bits;
        pending.silent &= !bits;
        self.update_line(&pending);
    }

    /// Fires an event.
    pub(crate) fn fire_event(&self, id: u32) {
        self.trace(|| format!("event {id}"));
        if Faults::take(&self.faults.lose_events) {
            return;
        }
        self.counters.add(counter::EVENTS, 1);
        let bit = 1 << id;
        let mut pending = lock(&self.pending);
        if Faults::take(&self.faults.drop_interrupts) {
            if pending.bits & bit == 0 {
                pending.silent |= bit;
            }
        } else {
            pending.silent &= !bit;
        }
        pending.bits |= bit;
        self.update_line(&pending);
        // The duplicate follows the real interrupt, so it has no pending bit.
        if Faults::take(&self.faults.duplicate_interrupts) {
            self.interrupts.add_double();
        }
    }

    pub(crate) fn update_line(&self, pending: &Pending) {
        let enabled = self.registers.get(HI_INTR_ENBL);
        let level = pending.bits & enabled & !pending.silent != 0;
        let delay = Duration::from_micros(self.faults.delay_interrupts.load(Relaxed).into());
        self.interrupts.set_level(level, delay);
        if level && self.faults.gather_interrupts.load(Relaxed) != 0 {
            self.interrupts.postpone(delay);
        }
    }

    /// Reports an access outside memory: sets the error register and its interrupt, and records a violation.
    pub(crate) fn bus_error(&self, port: Port, write: bool, finding: Finding) {
        let id = port as u32;
        let status = if write {
            (1 << 8) | id
        } else {
            AXI_READ_ERROR | (id << 4)
        };
        self.registers
            .set(HI_AXI_STATUS, self.registers.get(HI_AXI_STATUS) | status);
        self.recorder.violation(ViolationKind::BusError, finding);
        self.raise(INTR_AXI_BUS_ERROR);
    }

    /// Reports an access that MMU v2 refused: status, address and interrupt. All units share one MMU here.
    pub(crate) fn mmu_exception(&self, cause: Cause, address: u32) {
        self.trace(|| format!("MMU exception {cause:?} at {address:#010x}"));
        let (place, causes) = if self.personality.has_secure_mmu() {
            (MMUV2_SEC_EXCEPTION_ADDR, MMUV2_SEC_STATUS)
        } else {
            (MMUV2_EXCEPTION_ADDR, MMUV2_STATUS)
        };
        self.registers.set(place, address);
        let status = self.registers.get(causes);
        self.registers.set(causes, status & !0xf | cause as u32);
        self.raise(INTR_MMU_EXCEPTION);
    }

    /// Adds a line to the trace, if there is one.
    pub(crate) fn trace(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            let micros = self.micros();
            let _ = writeln!(lock(trace), "{micros:>10} {}", line());
        }
    }

    /// Writes out the buffered trace.
    pub(crate) fn flush_trace(&self) {
        if let Some(trace) = &self.trace {
            let _ = lock(trace).flush();
        }
    }

    /// Writes the report and the trace. Returns the exit status of the run: 0, or 3 after violations.
    pub fn finish(&self) -> i32 {
        self.sync_counters();
        self.flush_trace();
        self.recorder.write_report();
        if self.recorder.failed() {
            3
        } else {
            0
        }
    }
}

/// Sets a finer timer slack for the calling thread: the default of 50 us is longer than the poll interval. Does nothing
/// if the kernel denies it.
fn shorten_timer_slack() {
    let Ok(link) = std::fs::read_link("/proc/thread-self") else {
        return;
    };
    if let Some(thread) = link.file_name() {
        let file = PathBuf::from("/proc").join(thread).join("timerslack_ns");
        let _ = std::fs::write(file, "1000");
    }
}

/// Random numbers by xorshift, only for varying phases. The same seed gives the same sequence.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Spread the seed's bits. A state of 0 would never change.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) % u64::from(limit)) as u32
    }
}

/// Busy steps in one round of the idle loop: its LINK.
pub const IDLE_ROUND: u32 = 1;

/// A sleep in the idle loop lasts at most the idle time divided by this, so it adds little to any wait.
const IDLE_SHARE: u128 = 8;

/// Sleep time of the front end in its idle loop: short after recent activity.
struct Poll {
    random: Random,
    last_activity: Instant,
    busy: u32,
}

impl Poll {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            last_activity: Instant::now(),
            busy: 0,
        }
    }

    /// Notes an executed command. Yields now and then, so that no stream can hog a processor.
    fn active(&mut self) {
        self.busy += 1;
        if self.busy % 256 == 0 {
            self.last_activity = Instant::now();
            thread::yield_now();
        }
    }

    fn interval(&mut self) -> Duration {
        if std::mem::take(&mut self.busy) > IDLE_ROUND {
            self.last_activity = Instant::now();
        }
        // Each poll costs two system calls and, on a virtual machine, an exit for the timer.
        let idle = self.last_activity.elapsed().as_micros();
        let most = (idle / IDLE_SHARE).clamp(40, 1000) as u32;
        let least = most / 2;
        Duration::from_micros(u64::from(least + self.random.below(most - least)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_loop_is_looked_at_less_often() {
        let mut poll = Poll::new(1);
        poll.last_activity -= Duration::from_secs(100);
        for _ in 0..IDLE_ROUND {
            poll.active();
        }
        assert!(poll.interval() >= Duration::from_micros(500));
        for _ in 0..=IDLE_ROUND {
            poll.active();
        }
        assert!(poll.last_activity.elapsed() > Duration::from_secs(90));
        poll.interval();
        assert!(poll.last_activity.elapsed() < Duration::from_secs(90));
    }
}
