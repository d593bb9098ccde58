// SPDX-License-Identifier: GPL-2.0-only
//! 3D drawing, from a draw command to pixels (sources.md, 3D).
//!
//! A draw has a copy of all states that it uses, taken when its command was fetched. It fetches vertices ([`fetch`]),
//! shades 64 at once, assembles primitives ([`assemble`]), clips them and sets them up ([`setup`]), finds their pixels
//! in blocks of 8 x 8 ([`raster`]), shades those, and tests, blends and writes them ([`pixel`]).
//!
//! Large draws are split into [`PARTS`]. Each part has its own texture cache and copies of the memory that it accesses
//! ([`view`]). The number of threads that draw the parts affects only the time.
//!
//! Not modeled and refused by [`Draw::new`]: several render targets, several samples per pixel, floating-point and sRGB
//! targets, rectangles, vertices of other endianness.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;

use gpu_control::ViolationKind;

use self::assemble::Assembler;
use self::assemble::Kind;
use self::assemble::Primitive;
use self::fetch::Fetch;
use self::pixel::PixelEngine;
use self::raster::Block;
use self::setup::Shape;
use self::setup::Vertex;
use self::view::AtGate;
use self::view::Gate;
use self::view::Under;
use self::view::View;
use crate::engine2d::Bus;
use crate::engine2d::StateBlock;
use crate::gpu::lock;
use crate::mmu::Port;
use crate::personality::Personality;
use crate::registers::state::*;
use crate::shader;
use crate::shader::Fault;
use crate::shader::Features;
use crate::shader::Outcome;
use crate::shader::Program;
use crate::shader::Wave;
use crate::shader::LANES;
use crate::texture;
use crate::texture::Cache;
use crate::texture::Memory;
use crate::texture::Setup;
use crate::texture::Units;
use crate::tile_status::StatusFormat;

mod assemble;
mod fetch;
mod pixel;
mod raster;
mod setup;
#[cfg(test)]
mod tests;
mod view;

pub use view::Done;
pub use view::Peek;
#[cfg(test)]
pub(crate) use view::Traffic;
pub use view::PAGE;

/// Maximum number of varyings.
pub const VARYINGS: usize = 16;
/// States that every draw uses: first, and one past the last.
const STATES: [(u32, u32); 10] = [
    (FE_VERTEX_ELEMENT_CONFIG, 0x06c0),
    (VS_END_PC, 0x0870),
    (PA_VIEWPORT_SCALE, 0x0a90),
    (SE_SCISSOR, 0x0c28),
    (RA_EARLY_DEPTH, RA_EARLY_DEPTH + 4),
    (PS_END_PC, 0x1034),
    (PE_DEPTH_CONFIG, 0x14c0),
    (TS_FLUSH_CACHE, 0x1670),
    (GL_MULTI_SAMPLE_CONFIG, 0x3858),
    (NFE_VERTEX_STREAMS_BASE_ADDR, 0x1_46c0),
];
/// Number of vertices that are shaded before their primitives are set up.
const CHUNK: usize = 1024;
/// Number of shapes that are set up before they are drawn.
const SHAPES: usize = 4096;
/// Number of parts of a large draw. Bands of [`BAND`] rows are assigned to the parts in turn.
pub const PARTS: usize = 4;
/// A multiple of the height of a block, so that no block is in two parts. Also a multiple of the rows covered by a word
/// of tile status, so that parts rarely share such a word.
const BAND: i32 = 16;
/// Number of pixels, by the shapes' bounds, from which a draw is split. Below it, threads cost more than they save.
const LARGE: u64 = 16 << 10;
/// Number of constant vectors that a shader can address.
const CONSTANTS: u32 = 256;
/// Words per instruction.
const WORDS: u32 = 4;
/// Number of instructions of a shader that has its own memory.
const OWN_INSTRUCTIONS: u32 = 256;

/// A core's 3D capabilities, from its feature words.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Capabilities of its shaders.
    pub features: Features,
    /// Capabilities of its texture units.
    pub textures: texture::Features,
    /// Number of samplers of both shaders.
    samplers: u32,
    /// Format of its tile status.
    pub status: StatusFormat,
    /// Number of its pixel pipes.
    pub pixel_pipes: usize,
    /// Both shaders' instructions are in one memory.
    has_common_instructions: bool,
    /// Instructions may come from the machine's memory.
    has_instruction_cache: bool,
    /// Both shaders' constants are in one memory (HALTI1).
    has_common_constants: bool,
    /// 8 vertex streams.
    has_streams: bool,
    /// 16 vertex streams (HALTI2).
    has_new_streams: bool,
    /// Indices of 32 bits.
    has_long_indices: bool,
    /// Depth ranges from -w to w and is converted.
    converts_depth: bool,
    /// Logic operations.
    has_logic_op: bool,
    /// All pixel pipes may draw into one surface.
    has_single_buffer: bool,
    /// The pixel shader sees 1/w.
    has_w: bool,
}

impl Core {
    /// The capabilities of a core.
    pub fn of(core: &Personality, status: StatusFormat) -> Self {
        let minor = |word: usize, bit: u32| core.minor[word] >> bit & 1 != 0;
        Self {
            features: Features::of(core),
            textures: texture::Features::of(core),
            samplers: if minor(2, 11) { 32 } else { 12 },
            status,
            pixel_pipes: core.pixel_pipes(),
            has_common_instructions: core.has_more_minor_features(),
            has_instruction_cache: minor(3, 3),
            has_common_constants: minor(2, 11),
            has_streams: core.has_more_minor_features(),
            has_new_streams: minor(4, 16),
            has_long_indices: core.features >> 31 != 0,
            converts_depth: core.model >= 0x1000 || core.model == 0x880,
            has_logic_op: minor(2, 1),
            has_single_buffer: core.has_single_buffer(),
            has_w: minor(0, 19),
        }
    }

    /// Whether the shaders' code is in the machine's memory.
    fn has_code_in_memory(&self, states: &StateBlock) -> bool {
        self.has_instruction_cache && states.get(VS_ICACHE_CONTROL) & 1 != 0
    }

    /// The location of a shader's code: byte address of the first word (of a state or in memory), and number of
    /// instructions.
    fn code(&self, states: &StateBlock, is_pixel: bool) -> Result<(u32, u32), String> {
        let [range, start, end, address] = if is_pixel {
            [PS_RANGE, PS_START_PC, PS_END_PC, PS_INST_ADDR]
        } else {
            [VS_RANGE, VS_START_PC, VS_END_PC, VS_INST_ADDR]
        }
        .map(|state| states.get(state));
        let (memory, instructions, first, end) = if self.has_code_in_memory(states) {
            (address, 1 << 16, range & 0xffff, (range >> 16) + 1)
        } else if self.has_common_instructions {
            let instructions = (SH_INST_MEM_END - SH_INST_MEM) / (4 * WORDS);
            (SH_INST_MEM, instructions, range & 0xffff, (range >> 16) + 1)
        } else {
            let memory = if is_pixel { PS_INST_MEM } else { VS_INST_MEM };
            (memory, OWN_INSTRUCTIONS, start, end)
        };
        if first <= end && end <= instructions {
            Ok((memory.wrapping_add(4 * WORDS * first), end - first))
        } else {
            Err(format!(
                "instructions {first} to {end} of a memory of {instructions}"
            ))
        }
    }
}

/// A decoded draw command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Primitive type, as encoded in the command.
    pub kind: u32,
    /// The first vertex or index.
    pub start: u32,
    /// Number of vertices.
    pub vertices: u32,
    /// Base added to each index; `None`: the draw has no indices.
    pub indexed: Option<u32>,
    /// Number of instances.
    pub instances: u32,
}

impl Command {
    /// DRAW_PRIMITIVES, or DRAW_INDEXED with a base.
    pub fn of_primitives(kind: u32, start: u32, primitives: u32, indexed: Option<u32>) -> Self {
        Self {
            kind,
            start,
            vertices: Kind::of(kind).map_or(0, |kind| kind.vertices(primitives)),
            indexed,
            instances: 1,
        }
    }

    /// DRAW_INSTANCED.
    pub fn of_instances(words: [u32; 3]) -> Self {
        let is_indexed = words[0] >> 20 & 1 != 0;
        Self {
            kind: words[0] >> 16 & 0xf,
            start: if is_indexed { 0 } else { words[2] },
            vertices: words[1] & 0xff_ffff,
            indexed: is_indexed.then_some(words[2]),
            instances: words[1] >> 24 << 16 | words[0] & 0xffff,
        }
    }
}

/// A shader with its constants.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The decoded shader.
    pub program: Arc<Program>,
    constants: Vec<[f32; 4]>,
    temporaries: usize,
}

impl Stage {
    fn wave(&self, least: usize) -> Wave {
        Wave::new(self.temporaries.max(least))
    }

    /// Runs the shader for a wave, with derivatives if the wave consists of pixels.
    fn run(
        &self,
        samplers: &[Option<Setup>],
        has_derivatives: bool,
        wave: &mut Wave,
        (cache, bus): (&mut Cache, &mut dyn Bus),
        counts: &mut Counts,
    ) -> Result<(), Stop> {
        let range: Range<usize> = 0..self.program.len();
        let mut units = Units {
            setups: samplers,
            memory: &mut TextureMemory(bus),
            cache,
            has_derivatives,
            requests: 0,
            texels: 0,
        };
        let outcome = shader::run(&self.program, range, &self.constants, wave, &mut units);
        counts.requests += units.requests;
        counts.texels += units.texels;
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Endless(at) => Err(Stop::Endless(at)),
            Outcome::Temporaries(count) => Err(Stop::Hang(format!(
                "a shader with {count} temporaries, which has {}",
                self.temporaries
            ))),
            Outcome::Fault(at, fault) => Err(Stop::Hang(format!("instruction {at}: {fault:?}"))),
        }
    }
}

/// Reason why a draw did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A shader that never ends, at this instruction.
    Endless(usize),
    /// Silicon would hang for this reason.
    Hang(String),
    /// A reset aborted the draw.
    Aborted,
}

/// Work done by a draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Vertices shaded.
    pub vertices: u64,
    /// Primitives assembled.
    pub primitives: u64,
    /// Primitives that face away or cover nothing.
    pub culled: u64,
    /// Primitives that cross the view's boundary or lie outside.
    pub clipped: u64,
    /// Squares of 2 x 2 pixels shaded.
    pub quads: u64,
    /// Pixels that passed all tests.
    pub pixels: u64,
    /// Instructions for vertices and for pixels.
    pub instructions: [u64; 2],
    /// Texture instructions for vertices and pixels.
    pub requests: u64,
    /// Texels that they read.
    pub texels: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.vertices += other.vertices;
        self.primitives += other.primitives;
        self.culled += other.culled;
        self.clipped += other.clipped;
        self.quads += other.quads;
        self.pixels += other.pixels;
        for (sum, more) in self.instructions.iter_mut().zip(other.instructions) {
            *sum += more;
        }
        self.requests += other.requests;
        self.texels += other.texels;
    }
}

/// Data that a part keeps between draws.
#[derive(Default)]
struct Part {
    textures: Cache,
    room: Vec<Box<view::Page>>,
}

/// The threads that draw, and their data.
pub struct Workers {
    /// Draws that are not split, and vertices, use the first part.
    parts: [Part; PARTS],
    threads: usize,
    /// See [`LARGE`].
    large: u64,
}

impl Workers {
    /// Workers with this number of threads, including the caller's.
    pub fn new(threads: usize) -> Self {
        Self {
            parts: Default::default(),
            threads: threads.clamp(1, PARTS),
            large: LARGE,
        }
    }

    /// Clears the texture caches.
    pub fn drop_textures(&mut self) {
        for part in &mut self.parts {
            part.textures.drop_all();
        }
    }
}

/// Memory as seen by the texture units.
struct TextureMemory<'a>(&'a mut dyn Bus);

impl Memory for TextureMemory<'_> {
    fn read(&mut self, address: u32, bytes: &mut [u8]) -> Result<(), Fault> {
        // The bus reports memory that does not exist, and it reads as 0.
        self.0.read(Port::Texture, address, bytes);
        Ok(())
    }
}

/// A draw, ready to run.
#[derive(Clone, Debug)]
pub struct Draw {
    core: Core,
    states: StateBlock,
    command: Command,
    vertex: Stage,
    pixel: Stage,
    /// By number; `None` for samplers that no shader uses.
    samplers: Vec<Option<Setup>>,
}

/// Reason why a draw is refused.
type Wrong = (ViolationKind, String);

impl Draw {
    /// Prepares the draw of a command. `state` gives the current states by byte address. `elements` vertex elements
    /// were loaded. `fetch` reads a number of words from memory. `decode` decodes shaders or returns a cached result.
    ///
    /// # Errors
    ///
    /// A reason for which silicon hangs, or a feature that the model lacks.
    pub fn new(
        core: Core,
        command: Command,
        elements: u32,
        state: impl Fn(u32) -> u32,
        mut fetch: impl FnMut(u32, u32) -> Vec<u32>,
        mut decode: impl FnMut(Vec<u32>) -> Result<Arc<Program>, shader::Illegal>,
    ) -> Result<Self, Wrong> {
        let hang = |text: String| (ViolationKind::DrawState, format!("draw: {text}"));
        let words = |first: u32, end: u32| (first..end).step_by(4).map(&state).collect();
        let mut states = StateBlock::new(GL_PIPE_SELECT, words(GL_PIPE_SELECT, GL_PIPE_SELECT + 4));
        for (first, end) in STATES {
            states = states.with(first, words(first, end));
        }
        let inputs = states.get(VS_INPUT_COUNT) & 0xf;
        if elements & 0xf != inputs {
            return Err(hang(format!(
                "{elements} vertex elements for a shader with {inputs} inputs"
            )));
        }
        let mut stage = |is_pixel: bool| {
            let name = if is_pixel { "pixel" } else { "vertex" };
            let (first, count) = core
                .code(&states, is_pixel)
                .map_err(|text| hang(format!("{name} shader: {text}")))?;
            let code = if core.has_code_in_memory(&states) {
                fetch(first, WORDS * count)
            } else {
                words(first, first + 4 * WORDS * count)
            };
            let program =
                decode(code).map_err(|illegal| hang(format!("{name} shader: {illegal}")))?;
            let control = if is_pixel {
                PS_TEMP_REGISTER_CONTROL
            } else {
                VS_TEMP_REGISTER_CONTROL
            };
            let temporaries = (states.get(control) & 0x3f) as usize;
            if program.temporaries() > temporaries {
                return Err(hang(format!(
                    "{name} shader: it uses {} temporaries and is set up with {temporaries}",
                    program.temporaries()
                )));
            }
            let first = match (core.has_common_constants, is_pixel) {
                (false, false) => VS_UNIFORMS,
                (false, true) => PS_UNIFORMS,
                (true, false) => SH_UNIFORMS + 16 * (states.get(VS_UNIFORM_BASE) & 0x1ff),
                (true, true) => SH_UNIFORMS + 16 * (states.get(PS_UNIFORM_BASE) & 0x1ff),
            };
            let constant = |index: u32| {
                let at = first + 16 * index;
                [at, at + 4, at + 8, at + 12].map(|at| f32::from_bits(state(at)))
            };
            Ok(Stage {
                constants: (0..CONSTANTS).map(constant).collect(),
                program,
                temporaries,
            })
        };
        let (vertex, pixel) = (stage(false)?, stage(true)?);
        let draw = Self {
            samplers: Self::samplers(&core, &[&vertex.program, &pixel.program], &state)?,
            core,
            command,
            vertex,
            pixel,
            states,
        };
        draw.check(elements)?;
        Ok(draw)
    }

    /// The samplers that the shaders use.
    fn samplers(
        core: &Core,
        programs: &[&Program; 2],
        state: &dyn Fn(u32) -> u32,
    ) -> Result<Vec<Option<Setup>>, Wrong> {
        let named = |number: u32| programs.iter().any(|it| it.samplers() >> number & 1 != 0);
        let has_relative = programs.iter().any(|it| it.has_relative_sampler());
        let sampler = |number: u32| {
            if !named(number) && !has_relative {
                return Ok(None);
            }
            match Setup::read(&core.textures, number, state) {
                Ok(None) if named(number) => Err((
                    ViolationKind::DrawState,
                    format!("draw: sampler {number} is not set up"),
                )),
                Ok(setup) => Ok(setup),
                Err(mistake) => Err((
                    ViolationKind::Unsupported,
                    format!("draw: sampler {number}: {mistake}"),
                )),
            }
        };
        (0..core.samplers).map(sampler).collect()
    }

    fn check(&self, elements: u32) -> Result<(), Wrong> {
        let unsupported = |text: String| Err((ViolationKind::Unsupported, format!("draw: {text}")));
        let hang = |text: String| Err((ViolationKind::DrawState, format!("draw: {text}")));
        let get = |state| self.states.get(state);
        for name in [SE_SCISSOR + 8, SE_SCISSOR + 12] {
            let edge = f32::from_bits(get(name));
            if edge > 0.0 && edge.fract() == 0.0 {
                return hang(format!("scissor without a fraction: {edge}"));
            }
        }
        if Kind::of(self.command.kind).is_none() {
            return unsupported(format!("primitive type {}", self.command.kind));
        }
        if get(GL_MULTI_SAMPLE_CONFIG) & 3 != 0 {
            return unsupported("several samples a pixel".into());
        }
        if get(PS_CONTROL) >> 8 & 7 != 0 {
            return unsupported("several render targets".into());
        }
        Fetch::check(
            &self.core,
            &self.states,
            self.command.indexed.is_some(),
            elements,
        )
        .and_then(|()| PixelEngine::check(&self.core, &self.states))
        .or_else(unsupported)
    }

    /// Runs the draw with the tiles in the texture caches. Returns the work done, and the reason if the draw does not
    /// finish.
    pub fn run(&self, workers: &mut Workers, bus: &mut dyn Bus) -> (Counts, Result<(), Stop>) {
        let mut run = Run::new(self, workers);
        let result =
            (0..self.command.instances).try_for_each(|instance| run.instance(instance, bus));
        // Draw everything before the vertex whose shader never ends.
        let result = match result {
            Err(Stop::Aborted) => Err(Stop::Aborted),
            result => run.paint(bus).and(result),
        };
        run.counts.instructions[0] += run.vertex_wave.instructions;
        let painted = run.painter.finish(bus);
        run.counts.add(&painted);
        (run.counts, result)
    }
}

/// A draw in progress.
struct Run<'a> {
    draw: &'a Draw,
    workers: &'a mut Workers,
    fetch: Fetch,
    setup: setup::Setup,
    painter: Painter<'a>,
    counts: Counts,
    vertex_wave: Wave,
    /// For the current chunk: vertices to shade, their positions in the list, shaded vertices, and primitives.
    wanted: Vec<u32>,
    places: HashMap<u32, usize>,
    shaded: Vec<Vertex>,
    primitives: Vec<Primitive>,
    /// Shapes that are not drawn yet.
    shapes: Vec<Shape>,
    /// Temporaries that hold the vertex shader's outputs, position first.
    outputs: Vec<usize>,
    has_size: bool,
}

impl<'a> Run<'a> {
    fn new(draw: &'a Draw, workers: &'a mut Workers) -> Self {
        let states = &draw.states;
        let outputs = states.get(VS_OUTPUT_COUNT).clamp(1, VARYINGS as u32 + 2) as usize;
        let inputs = (states.get(PS_INPUT_COUNT) & 0x1f).max(1) as usize;
        let has_size = states.get(PA_CONFIG) & 1 << 2 != 0 && outputs > inputs;
        let varyings = (outputs - 1 - usize::from(has_size)).min(inputs - 1);
        let temporary = |number: usize| {
            let word = states.get(VS_OUTPUT + (number as u32 & !3));
            (word >> (8 * (number % 4)) & 0x7f) as usize
        };
        let fetch = Fetch::new(draw);
        let all = |count: usize| (0..count).map(temporary);
        let least = all(outputs).chain(fetch.inputs()).max().unwrap_or(0) + 1;
        Self {
            draw,
            workers,
            setup: setup::Setup::new(&draw.core, states, varyings),
            painter: Painter::new(draw),
            counts: Counts::default(),
            vertex_wave: draw.vertex.wave(least),
            wanted: Vec::new(),
            places: HashMap::new(),
            shaded: Vec::new(),
            primitives: Vec::new(),
            shapes: Vec::new(),
            outputs: all(outputs).collect(),
            has_size,
            fetch,
        }
    }

    fn instance(&mut self, instance: u32, bus: &mut dyn Bus) -> Result<(), Stop> {
        let Some(kind) = Kind::of(self.draw.command.kind) else {
            return Ok(());
        };
        let mut assembler = Assembler::new(kind, self.setup.is_last_provoking());
        for number in 0..self.draw.command.vertices {
            match self.fetch.vertex_id(number, bus) {
                Some(id) => assembler.vertex(id, &mut self.primitives),
                None => assembler.restart(&mut self.primitives),
            }
            self.collect();
            if self.wanted.len() >= CHUNK {
                self.chunk(instance, bus)?;
            }
            if number % 1024 == 0 && bus.aborted() {
                return Err(Stop::Aborted);
            }
        }
        assembler.restart(&mut self.primitives);
        self.collect();
        self.chunk(instance, bus)
    }

    /// Assigns list positions to the vertices of new primitives.
    fn collect(&mut self) {
        for primitive in self.primitives.iter_mut().rev() {
            if primitive.is_placed {
                break;
            }
            primitive.is_placed = true;
            for vertex in &mut primitive.vertices[..primitive.count] {
                let next = self.places.len();
                let place = *self.places.entry(*vertex).or_insert(next);
                if place == next {
                    self.wanted.push(*vertex);
                }
                *vertex = place as u32;
            }
        }
    }

    /// Shades the vertices and sets up the primitives as shapes.
    fn chunk(&mut self, instance: u32, bus: &mut dyn Bus) -> Result<(), Stop> {
        let wanted = std::mem::take(&mut self.wanted);
        self.places.clear();
        self.shaded.clear();
        for ids in wanted.chunks(LANES) {
            if bus.aborted() {
                return Err(Stop::Aborted);
            }
            self.shade_vertices(ids, instance, bus)?;
        }
        for primitive in self.primitives.drain(..) {
            self.counts.primitives += 1;
            let (shapes, counts) = (&mut self.shapes, &mut self.counts);
            self.setup
                .primitive(&primitive, &self.shaded, shapes, counts);
            bus.progress();
        }
        match self.shapes.len() {
            ..SHAPES => Ok(()),
            _ => self.paint(bus),
        }
    }

    /// Draws the shapes.
    fn paint(&mut self, bus: &mut dyn Bus) -> Result<(), Stop> {
        let shapes = std::mem::take(&mut self.shapes);
        let area = shapes.iter().map(|shape| self.setup.scissor.area(shape));
        let mut shown = 0;
        if area.sum::<u64>() >= self.workers.large {
            self.painter.pixels.tell(bus);
            match self.cut(&shapes, bus) {
                Cut::Drawn => return Ok(()),
                Cut::Dropped(times) => shown = times,
            }
        }
        let cache = &mut self.workers.parts[0].textures;
        let mut shapes = shapes.iter();
        shapes.try_for_each(|shape| {
            let blocks = self.setup.scissor.blocks(shape, |_| true);
            self.painter.shape(shape, blocks, &mut shown, (cache, bus))
        })
    }

    /// Splits the shapes into parts and draws them.
    fn cut(&mut self, shapes: &[Shape], bus: &mut dyn Bus) -> Cut {
        let Some(peek) = bus.peek() else {
            return Cut::Dropped(0);
        };
        let (under, gate) = (Under::new(peek), Gate::new(PARTS));
        let (draw, scissor) = (self.draw, self.setup.scissor);
        let threads = self.workers.threads;
        let parts = Mutex::new(self.workers.parts.iter_mut().enumerate());
        let next = || lock(&parts).next();
        let work = || {
            let _panics = AtGate(&gate);
            let mut ours = Vec::new();
            while let Some((number, part)) = next() {
                let mut view = View::new(&under, std::mem::take(&mut part.room));
                let mut painter = Painter::new(draw);
                let is_ours = |y: i32| (y / BAND) as usize % PARTS == number;
                let result = shapes.iter().try_for_each(|shape| {
                    let blocks = scissor.blocks(shape, is_ours);
                    let cache = &mut part.textures;
                    painter.shape(shape, blocks, &mut 0, (cache, &mut view))
                });
                if result.is_err() {
                    under.failed.store(true, Relaxed);
                }
                let counts = painter.finish(&mut view);
                let done = Arc::new(view.finish());
                ours.push(done.clone());
                gate.pass((number, counts, done), &under);
            }
            if !ours.is_empty() && gate.wait() {
                ours.iter().for_each(|part| part.write(peek));
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // If no thread can be started, this one draws everything.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let shown = under.shown.load(Relaxed);
        let is_drawn = gate.wait();
        for (number, counts, part) in gate.into_parts() {
            if is_drawn {
                self.counts.add(&counts);
                bus.commit(&part);
            }
            let room = Arc::into_inner(part).map(Done::room);
            self.workers.parts[number].room = room.unwrap_or_default();
        }
        if is_drawn {
            return Cut::Drawn;
        }
        // Their contents depend on the timing of the parts.
        self.workers.drop_textures();
        Cut::Dropped(shown)
    }

    fn shade_vertices(
        &mut self,
        ids: &[u32],
        instance: u32,
        bus: &mut dyn Bus,
    ) -> Result<(), Stop> {
        let wave = &mut self.vertex_wave;
        wave.clear();
        wave.mask = u64::MAX >> (LANES - ids.len());
        for (lane, id) in ids.iter().enumerate() {
            self.fetch.vertex(*id, instance, lane, &mut wave.temps, bus);
        }
        let (samplers, counts) = (&self.draw.samplers, &mut self.counts);
        let cache = &mut self.workers.parts[0].textures;
        self.draw
            .vertex
            .run(samplers, false, wave, (cache, bus), counts)?;
        self.counts.vertices += ids.len() as u64;
        for lane in 0..ids.len() {
            let output = |number: usize| {
                let temporary = self.outputs.get(number).and_then(|at| wave.temps.get(*at));
                temporary.map_or([0.0, 0.0, 0.0, 1.0], |register| {
                    std::array::from_fn(|component| register[component][lane])
                })
            };
            let size = self.has_size.then(|| output(self.outputs.len() - 1)[0]);
            self.shaded.push(Vertex {
                position: output(0),
                size,
                varyings: std::array::from_fn(|number| {
                    if number < self.setup.varyings {
                        output(number + 1)
                    } else {
                        [0.0, 0.0, 0.0, 1.0]
                    }
                }),
            });
        }
        Ok(())
    }
}

/// Result of a split draw.
enum Cut {
    Drawn,
    /// The results of all parts were dropped, and the draw must run in order. The progress counters have already
    /// advanced this often.
    Dropped(u64),
}

/// Draws shapes: all rows, or only a part's bands.
struct Painter<'a> {
    draw: &'a Draw,
    pixels: PixelEngine,
    counts: Counts,
    wave: Wave,
    /// The temporary with the color.
    colour: usize,
}

impl<'a> Painter<'a> {
    fn new(draw: &'a Draw) -> Self {
        let states = &draw.states;
        let inputs = (states.get(PS_INPUT_COUNT) & 0x1f).max(1) as usize;
        let colour = (states.get(PS_OUTPUT_REG) & 0x7f) as usize;
        Self {
            draw,
            pixels: PixelEngine::new(&draw.core, states),
            counts: Counts::default(),
            wave: draw.pixel.wave(inputs.max(colour + 1)),
            colour,
        }
    }

    /// Reports the remaining pixels to the bus. Returns the work done.
    fn finish(&mut self, bus: &mut dyn Bus) -> Counts {
        self.pixels.tell(bus);
        Counts {
            pixels: self.pixels.pixels,
            instructions: [0, self.wave.instructions],
            ..self.counts
        }
    }

    /// Draws blocks of a shape. The progress counters are `shown` steps ahead.
    fn shape(
        &mut self,
        shape: &Shape,
        blocks: impl Iterator<Item = Block>,
        shown: &mut u64,
        (cache, bus): (&mut Cache, &mut dyn Bus),
    ) -> Result<(), Stop> {
        let mut row = None;
        for block in blocks {
            if row.replace(block.y) != Some(block.y) {
                // Show progress in the counters.
                self.pixels.tell(bus);
                match shown.checked_sub(1) {
                    Some(left) => *shown = left,
                    None => bus.progress(),
                }
                if bus.aborted() {
                    return Err(Stop::Aborted);
                }
            }
            self.block(shape, &block, (cache, bus))?;
        }
        Ok(())
    }

    /// Shades, tests and draws the pixels of a block.
    fn block(
        &mut self,
        shape: &Shape,
        block: &Block,
        (cache, bus): (&mut Cache, &mut dyn Bus),
    ) -> Result<(), Stop> {
        let mut depths = shape.depths(block);
        let is_clockwise = shape.is_clockwise;
        let mut mask = block.mask;
        let program = &self.draw.pixel.program;
        let moves_depth = program.moves_depth() && self.pixels.tests_depth_late();
        // If no later stage discards pixels or changes their depth, test early to save work.
        let is_early = !program.kills() && !moves_depth && !self.pixels.tests_alpha();
        if is_early {
            mask = self
                .pixels
                .test_depth(block, mask, &depths, is_clockwise, bus);
            if mask == 0 || !self.pixels.draws_colour() {
                self.pixels.passed(block, mask, None, bus);
                return Ok(());
            }
        }
        self.shade_pixels(shape, block, mask, &depths, (cache, bus))?;
        let wave = &self.wave;
        let colour = &wave.temps[self.colour];
        if !is_early {
            if moves_depth {
                for (depth, moved) in depths.iter_mut().zip(wave.temps[0][2].iter()) {
                    // Keep the rasterizer's depth if the shader did not change it. NaN becomes 0.
                    if moved.to_bits() != (*depth as f32).to_bits() {
                        *depth = f64::from(if *moved > 0.0 { moved.min(1.0) } else { 0.0 });
                    }
                }
            }
            mask &= !wave.killed;
            mask = self.pixels.test_alpha(mask, &colour[3]);
            mask = self
                .pixels
                .test_depth(block, mask, &depths, is_clockwise, bus);
        }
        self.pixels.passed(block, mask, Some(colour), bus);
        Ok(())
    }

    fn shade_pixels(
        &mut self,
        shape: &Shape,
        block: &Block,
        mask: u64,
        depths: &[f64; LANES],
        memory: (&mut Cache, &mut dyn Bus),
    ) -> Result<(), Stop> {
        let wave = &mut self.wave;
        wave.clear();
        wave.mask = raster::whole_quads(mask);
        self.counts.quads += u64::from(wave.mask.count_ones() / 4);
        let front = if shape.is_clockwise { 1.0 } else { 0.0 };
        wave.internal[0].fill(front);
        shape.inputs(block, depths, self.draw.core.has_w, &mut wave.temps);
        let (samplers, counts) = (&self.draw.samplers, &mut self.counts);
        self.draw.pixel.run(samplers, true, wave, memory, counts)
    }
}
