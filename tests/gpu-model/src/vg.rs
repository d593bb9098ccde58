// SPDX-License-Identifier: GPL-2.0-only
//! A VG core: front end 2.0, the queues of its modules, and their interrupts (sources.md, vector graphics).
//!
//! Tessellator, VG and pixel engine lag behind the front end by a random amount. Data passes through them in sequence,
//! so a module's event never overtakes data that was sent before it. END's interrupt belongs to the front end. Its
//! order relative to the modules' events is random, or set by a test (fault `EVENT_ORDER`).

mod draw;
mod stream;

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use std::time::Instant;

use gpu_control::counter;
use gpu_control::fault;
use gpu_control::FrontEndState;
use gpu_control::ViolationKind;

use crate::bus::History;
use crate::bus::MemoryBus;
use crate::control::Faults;
use crate::engine2d::Bus;
use crate::frontend::Burden;
use crate::frontend::Processor;
use crate::frontend::Ran;
use crate::frontend::Step;
use crate::gpu::lock;
use crate::gpu::Gpu;
use crate::gpu::Options;
use crate::gpu::Random;
use crate::gpu::Request;
use crate::mmu::Mmu;
use crate::mmu::Port;
use crate::mmu_vg::is_tag;
use crate::mmu_vg::MmuVg;
use crate::mmu_vg::TAG;
use crate::profile::Mover;
use crate::registers::dma_state;
use crate::registers::state::vg as states;
use crate::strict::hex;
use crate::vg::draw::Place;
use crate::vg::draw::Rectangle;
use crate::vg::draw::Target;
use crate::vg::stream::Command;

/// Capacity of a module's queue, in jobs.
const QUEUE: usize = 512;
/// State words per pipe.
const PIPE_WORDS: u32 = 0x1000;
/// Flush bits of all ports.
const ALL_TLBS: u32 = 0x1f;
/// FROM and TO of a semaphore between modules.
const TOKEN: u32 = 0x1f1f;
/// Fields of the state that raises an event.
const EVENT_BITS: u32 = 0x1f1f;
/// An event that only the kernel raises. It is valid only without data before it.
const POWER_STALL: u32 = 30;
/// Events whose bits have another use: overflow, the front end's interrupt, bus error.
const FOREIGN: [u32; 3] = [0, 13, 31];
/// Maximum time that the modules wait for END's acknowledge if events come last.
const PATIENCE: Duration = Duration::from_millis(20);
/// Bits that must be 0 in the address of a start or a jump.
const MISALIGNED: u32 = 4;

/// A module after the front end, in data flow order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
enum Module {
    Tessellator = 0,
    Vg = 1,
    Pixel = 2,
}

impl Module {
    const ALL: [Module; 3] = [Module::Tessellator, Module::Vg, Module::Pixel];

    fn from_code(code: u32) -> Option<Self> {
        match code {
            0x07 => Some(Module::Pixel),
            0x0f => Some(Module::Vg),
            0x10 => Some(Module::Tessellator),
            _ => None,
        }
    }
}

/// A job of a module.
enum Job {
    Fill {
        target: Target,
        rectangle: Rectangle,
        position: u32,
    },
    /// Checks whether the memory that would be used exists.
    Probe {
        port: Port,
        places: [Place; 3],
        position: u32,
    },
    Event {
        id: u32,
        position: u32,
    },
    Mark(u64),
    FlushMmu(u32),
    Burden(Burden),
}

/// State of the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Stopped,
    Running,
    /// Until the module has passed this mark.
    Stalled(Module, u64),
    /// Until all modules have drained. The front end then stops with this interrupt.
    Ending(u32),
    Hung,
}

/// Reason why the front end cannot continue.
enum Halt {
    /// Hangs until a reset.
    Hang,
    /// Stops without an interrupt.
    Stop,
    /// Stalls forever.
    Stall,
}

/// The front end with its stream position and the modules' queues.
pub struct VgFrontEnd {
    phase: Phase,
    /// Address of the next unit, without the tag.
    next: u32,
    tag: u32,
    /// Units that it may still fetch.
    left: u32,
    /// Address (with tag) and first words of the current command.
    current: (u32, u64),
    return_to: Option<(u32, u32, u32)>,
    /// Data has been sent since the start.
    data_seen: bool,
    /// The pixel engine has unflushed pixels.
    dirty: bool,
    /// Start time of the current draw.
    drawing_since: Option<Instant>,
    mmu: MmuVg,
    queues: [VecDeque<(u64, Job)>; 3],
    /// Number of the last job, and the last mark that each module passed.
    last_number: u64,
    passed: [u64; 3],
    semaphores: HashMap<Module, u64>,
    /// Semaphores armed between modules.
    tokens: HashSet<u32>,
    /// Interrupt bit and time of the last END.
    ended: Option<(u32, Instant)>,
    history: History,
    random: Random,
}

impl VgFrontEnd {
    /// A front end at power-on.
    pub fn new(options: &Options) -> Self {
        Self {
            phase: Phase::Stopped,
            next: 0,
            tag: 0,
            left: 0,
            current: (0, 0),
            return_to: None,
            data_seen: false,
            dirty: false,
            drawing_since: None,
            mmu: MmuVg::default(),
            queues: Default::default(),
            last_number: 0,
            passed: [0; 3],
            semaphores: HashMap::new(),
            tokens: HashSet::new(),
            ended: None,
            history: History::new(|word0, word1| Command::decode(word0).describe(word1)),
            random: Random::new(options.seed),
        }
    }

    fn jobs(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    fn take_request(&mut self, gpu: &Gpu) {
        let mut slot = lock(&gpu.request);
        gpu.has_request.store(false, SeqCst);
        let Some(request) = slot.take() else { return };
        drop(slot);
        let Request::Start { address, window } = request else {
            return;
        };
        gpu.trace(|| format!("start {} count {}", hex(address), window / 8));
        self.current = (address, 0);
        self.return_to = None;
        self.data_seen = false;
        self.phase = Phase::Running;
        if address & !0x3f != address & !TAG {
            gpu.recorder.warning("a start that is not on 64 bytes");
        }
        if self.jump(gpu, address, window / 8).is_err() {
            self.hang(gpu);
        }
    }

    fn hang(&mut self, gpu: &Gpu) {
        self.phase = Phase::Hung;
        gpu.trace(|| format!("hung at {}", hex(self.current.0)));
        gpu.flush_trace();
        gpu.publish(FrontEndState::Hung, dma_state::DEC);
    }

    /// Stops the front end. A start that arrived in the meantime stays visible.
    fn stop(&mut self, gpu: &Gpu) {
        self.phase = Phase::Stopped;
        let slot = lock(&gpu.request);
        if slot.is_none() {
            gpu.publish(FrontEndState::Stopped, dma_state::END);
        }
    }

    fn end(&mut self, gpu: &Gpu, id: u32) {
        self.ended = Some((1 << id, Instant::now()));
        self.stop(gpu);
        gpu.fire_event(id);
    }

    fn armed_hang(&self, gpu: &Gpu) -> Halt {
        if gpu.hang_as_armed(self.current.0) {
            Halt::Stall
        } else {
            Halt::Hang
        }
    }

    fn report(&self, gpu: &Gpu, kind: ViolationKind, detail: String) {
        gpu.trace(|| format!("violation {}: {detail}", kind.name()));
        let finding = self.history.finding(detail, self.current);
        gpu.recorder.violation(kind, finding);
    }

    /// Reports a violation that hangs silicon.
    fn fatal<T>(&self, gpu: &Gpu, kind: ViolationKind, detail: String) -> Result<T, Halt> {
        self.report(gpu, kind, detail);
        Err(Halt::Hang)
    }

    fn jump(&mut self, gpu: &Gpu, address: u32, units: u32) -> Result<(), Halt> {
        if address & MISALIGNED != 0 {
            let text = format!("jump to {address:#010x}");
            return self.fatal(gpu, ViolationKind::MisalignedLink, text);
        }
        self.next = address & !TAG;
        self.tag = address & TAG;
        self.left = units;
        Ok(())
    }

    /// Fetches the next unit in one access.
    fn fetch(&mut self, gpu: &Gpu) -> Result<u64, Halt> {
        let (address, tag) = (self.next, self.tag);
        if self.left == 0 {
            let text = format!("fetch at {address:#010x}, past the announced count");
            self.report(gpu, ViolationKind::PrefetchOverrun, text);
            return Err(Halt::Stop);
        }
        let (setup, memory) = (gpu.setup(), gpu.memory.snapshot());
        let at = self.current;
        let mut bus = MemoryBus::new(gpu, &mut self.mmu, &setup, &memory, &self.history, at);
        bus.set_tag(tag);
        let Some((physical, _)) = bus.translate(Port::FrontEnd, address, false) else {
            return Err(Halt::Hang);
        };
        let Ok(unit) = memory.read_u64(physical) else {
            let detail = format!(
                "command fetch at {address:#010x} (physical {physical:#010x}) is outside memory"
            );
            let finding = self.history.finding(detail, at);
            gpu.bus_error(Port::FrontEnd, false, finding);
            return Err(Halt::Hang);
        };
        gpu.note_fetch(address | tag, unit);
        gpu.check_fetch(physical, unit, |text| self.history.finding(text, at));
        self.next = address.wrapping_add(8);
        self.left -= 1;
        Ok(unit)
    }

    fn run_command(&mut self, gpu: &Gpu) {
        match self.execute(gpu) {
            Ok(()) => {}
            Err(Halt::Hang) => self.hang(gpu),
            Err(Halt::Stop) => self.stop(gpu),
            Err(Halt::Stall) => {
                self.phase = Phase::Stalled(Module::Pixel, u64::MAX);
                gpu.publish(FrontEndState::Stalled, dma_state::STALL);
            }
        }
    }

    fn execute(&mut self, gpu: &Gpu) -> Result<(), Halt> {
        let position = self.next | self.tag;
        self.current = (position, 0);
        gpu.visible.address.store(position, Relaxed);
        let unit = self.fetch(gpu)?;
        self.current.1 = unit;
        let (word0, word1) = (unit as u32, (unit >> 32) as u32);
        let command = Command::decode(word0);
        if Faults::reached(&gpu.faults.hang_at_command) {
            return Err(self.armed_hang(gpu));
        }
        gpu.counters.add(counter::COMMANDS, 1);
        gpu.count_traffic(Mover::FrontEnd, u64::from(command.units()) * 8, 0);
        self.history.note(position, unit);
        gpu.trace(|| {
            let text = command.describe(word1);
            format!("{} {word0:08x} {word1:08x} {text}", hex(position))
        });
        match command {
            Command::End { id } => {
                if word0 != id {
                    gpu.recorder
                        .warning(format!("END with more than its id: {word0:#010x}"));
                }
                match gpu.faults.event_order.load(Relaxed) {
                    fault::EVENTS_FIRST => self.phase = Phase::Ending(id),
                    _ => self.end(gpu, id),
                }
                Ok(())
            }
            Command::Semaphore { module } => self.arm(gpu, module),
            Command::Stall { module } => self.stall(gpu, module),
            Command::State {
                address,
                pipe,
                count,
            } => self.load_states(gpu, pipe, address, count, word1),
            Command::Data { units } => self.data(gpu, units),
            Command::Fetch { units } => self.jump(gpu, word1, units),
            Command::Call { units } => {
                let back = (self.next, self.tag, self.left);
                if self.return_to.replace(back).is_some() {
                    let text = "CALL within a CALL".to_string();
                    return self.fatal(gpu, ViolationKind::Unsupported, text);
                }
                self.jump(gpu, word1, units)
            }
            Command::Return => match self.return_to.take() {
                Some((next, tag, left)) => {
                    (self.next, self.tag, self.left) = (next, tag, left);
                    Ok(())
                }
                None => self.fatal(gpu, ViolationKind::VgCommand, "RETURN without CALL".into()),
            },
            Command::Nop => Ok(()),
            Command::Restart { units } => {
                // Silicon's behavior is not known. The model reports it and treats it as the end of a loop, or as its
                // next iteration.
                self.report(gpu, ViolationKind::Unsupported, "RESTART".into());
                match units {
                    0 => Err(Halt::Stop),
                    _ => self.jump(gpu, word1, units),
                }
            }
            Command::Illegal { opcode } => {
                let text = format!("opcode {opcode} ({word0:#010x})");
                self.fatal(gpu, ViolationKind::IllegalOpcode, text)
            }
        }
    }

    fn module(&self, gpu: &Gpu, code: u32) -> Result<Module, Halt> {
        match Module::from_code(code) {
            Some(module) => Ok(module),
            None => self.fatal(gpu, ViolationKind::VgCommand, format!("module {code:#x}")),
        }
    }

    fn arm(&mut self, gpu: &Gpu, code: u32) -> Result<(), Halt> {
        let module = self.module(gpu, code)?;
        let number = self.last_number + 1;
        self.push(gpu, module, Job::Mark(number));
        if self.semaphores.insert(module, number).is_some() {
            gpu.recorder
                .warning(format!("semaphore of {module:?} armed twice"));
        }
        Ok(())
    }

    fn stall(&mut self, gpu: &Gpu, code: u32) -> Result<(), Halt> {
        let module = self.module(gpu, code)?;
        let Some(mark) = self.semaphores.remove(&module) else {
            let text = format!("stall on {module:?}");
            return self.fatal(gpu, ViolationKind::UnarmedStall, text);
        };
        if self.passed[module as usize] < mark {
            self.phase = Phase::Stalled(module, mark);
            gpu.publish(FrontEndState::Stalled, dma_state::STALL);
        }
        Ok(())
    }

    fn load_states(
        &mut self,
        gpu: &Gpu,
        pipe: u32,
        address: u32,
        count: u32,
        first: u32,
    ) -> Result<(), Halt> {
        if count == 0 {
            let text = format!("STATE of {address:#05x} with a count of 0");
            self.report(gpu, ViolationKind::VgCommand, text);
        }
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
            let word = (address + index) % PIPE_WORDS;
            gpu.states[(pipe * PIPE_WORDS + word) as usize].store(value, Relaxed);
            if pipe == 0 {
                self.load_state(gpu, word, value)?;
            }
        }
        Ok(())
    }

    fn load_state(&mut self, gpu: &Gpu, word: u32, value: u32) -> Result<(), Halt> {
        match word {
            states::EVENT => self.event(gpu, value),
            states::FLUSH => self.dirty = false,
            states::FLUSH_MMU => {
                let front_end = value & Port::FrontEnd.flush_bit();
                let flushed = self.mmu.flush(front_end);
                gpu.counters.add(counter::TLB_FLUSHES, flushed.into());
                let others = value & ALL_TLBS & !front_end;
                self.push(gpu, Module::Pixel, Job::FlushMmu(others));
            }
            states::SEMAPHORE => {
                self.tokens.insert(value & TOKEN);
            }
            // Another module waits, not the front end. The queues keep their order anyway.
            states::STALL if !self.tokens.remove(&(value & TOKEN)) => {
                let text = format!("stall token {:#x}", value & TOKEN);
                return self.fatal(gpu, ViolationKind::UnarmedStall, text);
            }
            _ if draw::holds_address(word) && !is_tag(value & TAG) => {
                let text = format!("state {word:#05x} with the address {value:#010x}");
                self.report(gpu, ViolationKind::VgAddress, text);
            }
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, gpu: &Gpu, value: u32) {
        let (id, source) = (value & 0x1f, (value >> 8) & 0x1f);
        let bad = |text: String| self.report(gpu, ViolationKind::BadEvent, text);
        if FOREIGN.contains(&id) || id == POWER_STALL && self.data_seen {
            bad(format!("event {id}, which is not for streams"));
        }
        if value & !EVENT_BITS != 0 {
            bad(format!("event {id} as of another front end: {value:#x}"));
        }
        let Some(module) = Module::from_code(source) else {
            bad(format!("event {id} from module {source:#x}"));
            return;
        };
        if module == Module::Pixel && mem::take(&mut self.dirty) {
            gpu.recorder
                .warning("an event from the pixel engine without a flush after the drawing");
        }
        let position = self.current.0;
        self.push(gpu, module, Job::Event { id, position });
    }

    /// Handles data: a path while the tessellator is on, otherwise rectangles.
    fn data(&mut self, gpu: &Gpu, units: u32) -> Result<(), Halt> {
        let bad = gpu.faults.hang_at_colour.load(Relaxed);
        let is_bad = bad != 0 && bad == draw::argb(gpu.state(states::COLOR));
        if Faults::reached(&gpu.faults.hang_at_draw) || is_bad {
            return Err(self.armed_hang(gpu));
        }
        if units == 0 {
            self.report(
                gpu,
                ViolationKind::VgCommand,
                "DATA with a count of 0".into(),
            );
        }
        self.data_seen = true;
        if let Some(burden) = Burden::of_draw(gpu) {
            self.push(gpu, Module::Pixel, Job::Burden(burden));
        }
        let position = self.current.0;
        let state = |word| gpu.state(word);
        if state(states::TESSELLATOR) != 0 {
            for _ in 0..units {
                self.fetch(gpu)?;
            }
            gpu.counters.add(counter::VG_PATHS, 1);
            let [write, read] = draw::tessellation(state);
            let probe = |port, places| Job::Probe {
                port,
                places,
                position,
            };
            self.push(gpu, Module::Tessellator, probe(Port::Depth, write));
            self.push(gpu, Module::Vg, probe(Port::Raster, read));
            let target = (state(states::TARGET_ADDRESS), 4);
            let none = (0, 0);
            self.push(gpu, Module::Pixel, probe(Port::Pixel, [target, none, none]));
            return Ok(());
        }
        let target = match Target::new(state) {
            Ok(target) => Some(target),
            // The model draws nothing here, but the memory that the draw would use must exist.
            Err((ViolationKind::Unsupported, text)) => {
                gpu.recorder.warning(text);
                let places = draw::surfaces(state);
                let probe = Job::Probe {
                    port: Port::Pixel,
                    places,
                    position,
                };
                self.push(gpu, Module::Pixel, probe);
                None
            }
            Err((kind, text)) => {
                self.report(gpu, kind, text);
                None
            }
        };
        for _ in 0..units {
            let rectangle = Rectangle::from_unit(self.fetch(gpu)?);
            if let Some(target) = target {
                self.dirty = true;
                let fill = Job::Fill {
                    target,
                    rectangle,
                    position,
                };
                self.push(gpu, Module::Pixel, fill);
            }
        }
        Ok(())
    }

    fn push(&mut self, gpu: &Gpu, module: Module, job: Job) {
        self.last_number += 1;
        self.queues[module as usize].push_back((self.last_number, job));
        gpu.set_work(self.jobs());
        while self.queues[module as usize].len() > QUEUE && self.run_job(gpu) == Ran::Job {}
    }

    /// The module that runs the next job: any module whose job was sent before all jobs waiting in the modules above
    /// it.
    fn next_module(&mut self, gpu: &Gpu) -> Result<Module, Ran> {
        let mut above = u64::MAX;
        let mut ready = Vec::new();
        let mut none = Ran::Nothing;
        for module in Module::ALL {
            let Some((number, job)) = self.queues[module as usize].front() else {
                continue;
            };
            if *number < above {
                match job {
                    Job::Burden(burden) if burden.weighs(gpu, &mut self.drawing_since) => {
                        none = Ran::NotOver;
                    }
                    _ => ready.push(module),
                }
            }
            above = above.min(*number);
        }
        match ready.len() as u32 {
            0 => Err(none),
            count => Ok(ready[self.random.below(count) as usize]),
        }
    }

    /// Runs a job of a module.
    fn run_job(&mut self, gpu: &Gpu) -> Ran {
        let module = match self.next_module(gpu) {
            Ok(module) => module,
            Err(none) => return none,
        };
        let Some((_, job)) = self.queues[module as usize].pop_front() else {
            return Ran::Nothing;
        };
        match job {
            Job::Fill {
                target,
                rectangle,
                position,
            } => {
                let pixels = self.on_bus(gpu, position, |bus| {
                    bus.set_tag(target.tag());
                    target.fill(rectangle, bus)
                });
                gpu.counters.add(counter::VG_RECTANGLES, 1);
                gpu.counters.add(counter::PIXELS, pixels);
            }
            Job::Probe {
                port,
                places,
                position,
            } => self.on_bus(gpu, position, |bus| probe(bus, port, places)),
            Job::Event { id, position } => {
                // The queues must look empty to the process that the event wakes.
                gpu.set_work(self.jobs());
                if !gpu.abort.load(SeqCst) {
                    let taken = gpu.pending_interrupts() & (1 << id) != 0;
                    if taken && !FOREIGN.contains(&id) {
                        let text = format!("event {id} while it is not acknowledged");
                        let finding = self.history.finding(text, (position, 0));
                        gpu.recorder.violation(ViolationKind::EventMerge, finding);
                    }
                    gpu.fire_event(id);
                }
            }
            Job::Mark(number) => self.passed[module as usize] = number,
            Job::FlushMmu(bits) => {
                let flushed = self.mmu.flush(bits);
                gpu.counters.add(counter::TLB_FLUSHES, flushed.into());
            }
            Job::Burden(_) => self.drawing_since = None,
        }
        gpu.set_work(self.jobs());
        Ran::Job
    }

    fn on_bus<T>(
        &mut self,
        gpu: &Gpu,
        position: u32,
        work: impl FnOnce(&mut MemoryBus<'_>) -> T,
    ) -> T {
        let (setup, memory) = (gpu.setup(), gpu.memory.snapshot());
        let at = (position, 0);
        let mut bus = MemoryBus::new(gpu, &mut self.mmu, &setup, &memory, &self.history, at);
        let result = work(&mut bus);
        let (read, written) = (bus.read, bus.written);
        gpu.count_traffic(Mover::Pipe(0), read, written);
        result
    }

    /// Whether the modules wait for END's acknowledge because of a test.
    fn held_back(&self, gpu: &Gpu) -> bool {
        if gpu.faults.event_order.load(Relaxed) != fault::EVENTS_LAST {
            return false;
        }
        match (self.phase, self.ended) {
            (Phase::Running, _) => true,
            (Phase::Stopped, Some((bit, when))) => {
                gpu.pending_interrupts() & bit != 0 && when.elapsed() < PATIENCE
            }
            _ => false,
        }
    }

    /// Runs the modules while the front end is idle.
    fn run_modules(&mut self, gpu: &Gpu) -> Step {
        if self.jobs() != 0 && self.held_back(gpu) {
            return Step::Waiting;
        }
        match self.run_job(gpu) {
            Ran::Job => Step::Busy,
            Ran::Nothing => Step::Idle,
            Ran::NotOver => Step::Waiting,
        }
    }
}

impl Processor for VgFrontEnd {
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
            Phase::Stopped | Phase::Hung => return self.run_modules(gpu),
            Phase::Running if gpu.faults.hold.load(Relaxed) != 0 => return self.run_modules(gpu),
            Phase::Running => {
                if self.jobs() >= 3 * QUEUE && self.run_job(gpu) == Ran::NotOver {
                    return Step::Waiting;
                }
                if !self.held_back(gpu) && self.random.below(4) == 0 {
                    self.run_job(gpu);
                }
                self.run_command(gpu);
            }
            Phase::Stalled(module, mark) if self.passed[module as usize] < mark => {
                return match self.run_job(gpu) {
                    Ran::Job => Step::Busy,
                    Ran::Nothing => Step::Idle,
                    Ran::NotOver => Step::Waiting,
                };
            }
            Phase::Stalled(..) => {
                self.phase = Phase::Running;
                gpu.publish(FrontEndState::Running, dma_state::DEC);
            }
            Phase::Ending(id) => match self.run_job(gpu) {
                Ran::Job => {}
                Ran::Nothing => self.end(gpu, id),
                Ran::NotOver => return Step::Waiting,
            },
        }
        Step::Busy
    }

    fn reset(&mut self) {
        self.phase = Phase::Stopped;
        self.return_to = None;
        self.left = 0;
        self.data_seen = false;
        self.dirty = false;
        self.drawing_since = None;
        self.mmu.reset();
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.last_number = 0;
        self.passed = [0; 3];
        self.semaphores.clear();
        self.tokens.clear();
        self.ended = None;
        self.history.clear();
    }
}

/// Reads the first and last words of each place. The bus reports places outside memory.
fn probe(bus: &mut MemoryBus<'_>, port: Port, places: [Place; 3]) {
    for (address, bytes) in places {
        if bytes < 4 {
            continue;
        }
        bus.set_tag(address & TAG);
        let first = address & !TAG;
        for at in [first, first.wrapping_add(bytes - 4)] {
            bus.read(port, at, &mut [0; 4]);
        }
    }
}
