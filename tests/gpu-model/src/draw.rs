// SPDX-License-Identifier: GPL-2.0-only
//! Drawing in 3D: from a draw command to pixels (sources.md, 3D).
//!
//! A draw has a copy of all states that it looks at, taken when its command was fetched. It fetches vertices ([`fetch`]),
//! shades 64 at once, puts primitives together ([`assemble`]), clips them and sets them up ([`setup`]), finds their
//! pixels in blocks of 8 x 8 ([`raster`]), shades those, and tests, blends and writes them ([`pixel`]).
//!
//! Not modelled and refused by [`Draw::new`]: several render targets, several samples a pixel, targets of floating
//! point and sRGB, rectangles, code in memory, vertices of other endianness.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use gpu_control::ViolationKind;

use self::assemble::Assembler;
use self::assemble::Kind;
use self::assemble::Primitive;
use self::fetch::Fetch;
use self::pixel::PixelEngine;
use self::raster::Block;
use self::setup::Shape;
use self::setup::Vertex;
use crate::engine2d::Bus;
use crate::engine2d::StateBlock;
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

/// Most varyings.
pub const VARYINGS: usize = 16;
/// States that every draw looks at: first and one past the last.
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
/// Vertices that are shaded before their primitives are drawn.
const CHUNK: usize = 1024;
/// Vectors of constants that a shader can name.
const CONSTANTS: u32 = 256;
/// Words of an instruction.
const WORDS: u32 = 4;
/// Instructions of a shader in memory of its own.
const OWN_INSTRUCTIONS: u32 = 256;

/// What a core's feature words say about 3D.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// What its shaders can do.
    pub features: Features,
    /// What its texture units can do.
    pub textures: texture::Features,
    /// Samplers of both shaders.
    samplers: u32,
    /// How it keeps the status of tiles.
    pub status: StatusFormat,
    /// Its pixel pipes.
    pub pixel_pipes: usize,
    /// Both shaders' instructions are in one memory.
    has_common_instructions: bool,
    /// Both shaders' constants are in one memory (HALTI1).
    has_common_constants: bool,
    /// 8 vertex streams.
    has_streams: bool,
    /// 16 vertex streams (HALTI2).
    has_new_streams: bool,
    /// Indices of 32 bits.
    has_long_indices: bool,
    /// Depth goes from -w to w, and is converted.
    converts_depth: bool,
    /// Logic operations.
    has_logic_op: bool,
    /// All pixel pipes may draw into one surface.
    has_single_buffer: bool,
    /// The pixel shader sees 1/w.
    has_w: bool,
}

impl Core {
    /// Those of a core.
    pub fn of(core: &Personality, status: StatusFormat) -> Self {
        let minor = |word: usize, bit: u32| core.minor[word] >> bit & 1 != 0;
        Self {
            features: Features::of(core),
            textures: texture::Features::of(core),
            samplers: if minor(2, 11) { 32 } else { 12 },
            status,
            pixel_pipes: core.pixel_pipes(),
            has_common_instructions: core.has_more_minor_features(),
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

    /// Where a shader's code is: the first word's byte address, and how many instructions.
    fn code(&self, states: &StateBlock, is_pixel: bool) -> Result<(u32, u32), String> {
        let [range, start, end] = match is_pixel {
            false => [VS_RANGE, VS_START_PC, VS_END_PC],
            true => [PS_RANGE, PS_START_PC, PS_END_PC],
        }
        .map(|state| states.get(state));
        let (memory, instructions, first, end) = if self.has_common_instructions {
            let instructions = (SH_INST_MEM_END - SH_INST_MEM) / (4 * WORDS);
            (SH_INST_MEM, instructions, range & 0xffff, (range >> 16) + 1)
        } else {
            let memory = if is_pixel { PS_INST_MEM } else { VS_INST_MEM };
            (memory, OWN_INSTRUCTIONS, start, end)
        };
        match first <= end && end <= instructions {
            true => Ok((memory + 4 * WORDS * first, end - first)),
            false => Err(format!(
                "instructions {first} to {end} of a memory of {instructions}"
            )),
        }
    }
}

/// What a draw command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is drawn, as the command has it.
    pub kind: u32,
    /// The first vertex, or index.
    pub start: u32,
    /// Vertices.
    pub vertices: u32,
    /// What is added to an index, if there are indices.
    pub indexed: Option<u32>,
    /// How often.
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

/// A shader with what it runs on.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Decoded.
    pub program: Arc<Program>,
    constants: Vec<[f32; 4]>,
    temporaries: usize,
}

impl Stage {
    fn wave(&self, least: usize) -> Wave {
        Wave::new(self.temporaries.max(least))
    }

    /// Runs the shader for a wave: with derivatives if that is of pixels.
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

/// Why a draw does not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A shader that never ends, at this instruction.
    Endless(usize),
    /// What silicon hangs at.
    Hang(String),
    /// A reset.
    Aborted,
}

/// What a draw did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Vertices shaded.
    pub vertices: u64,
    /// Primitives put together.
    pub primitives: u64,
    /// Primitives that face away, or cover nothing.
    pub culled: u64,
    /// Primitives that were cut by, or are outside of, the view.
    pub clipped: u64,
    /// Squares of 2 x 2 pixels shaded.
    pub quads: u64,
    /// Pixels that passed all tests.
    pub pixels: u64,
    /// Instructions of vertices and of pixels.
    pub instructions: [u64; 2],
    /// Texture instructions of vertices and pixels.
    pub requests: u64,
    /// Texels that they took.
    pub texels: u64,
}

/// Memory as the texture units see it.
struct TextureMemory<'a>(&'a mut dyn Bus);

impl Memory for TextureMemory<'_> {
    fn read(&mut self, address: u32, bytes: &mut [u8]) -> Result<(), Fault> {
        // What is not there is reported by the bus, and reads as 0.
        self.0.read(Port::Texture, address, bytes);
        Ok(())
    }
}

/// A draw, ready to be done.
#[derive(Clone, Debug)]
pub struct Draw {
    core: Core,
    states: StateBlock,
    command: Command,
    vertex: Stage,
    pixel: Stage,
    /// By number; those that no shader names are `None`.
    samplers: Vec<Option<Setup>>,
}

/// What is wrong with a draw.
type Wrong = (ViolationKind, String);

impl Draw {
    /// The draw that a command asks for, with `state` as the states are now (by byte address). `elements` vertex elements
    /// were loaded. `decode` decodes shaders, or has done so before.
    ///
    /// # Errors
    ///
    /// What silicon hangs at, or the model lacks.
    pub fn new(
        core: Core,
        command: Command,
        elements: u32,
        state: impl Fn(u32) -> u32,
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
            let program = decode(words(first, first + 4 * WORDS * count))
                .map_err(|illegal| hang(format!("{name} shader: {illegal}")))?;
            let control = match is_pixel {
                false => VS_TEMP_REGISTER_CONTROL,
                true => PS_TEMP_REGISTER_CONTROL,
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

    /// The samplers that programs name.
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
        if self.core.has_common_constants && get(VS_ICACHE_CONTROL) & 1 != 0 {
            return unsupported("code in memory".into());
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

    /// Does it, with the tiles that the texture cache has. Returns what it did, and why it does not end, if it does not.
    pub fn run(&self, cache: &mut Cache, bus: &mut dyn Bus) -> (Counts, Result<(), Stop>) {
        let mut run = Run::new(self, cache);
        let result =
            (0..self.command.instances).try_for_each(|instance| run.instance(instance, bus));
        run.pixels.tell(bus);
        run.counts.pixels = run.pixels.pixels;
        run.counts.instructions = [run.vertex_wave.instructions, run.pixel_wave.instructions];
        (run.counts, result)
    }
}

/// A draw under way.
struct Run<'a> {
    draw: &'a Draw,
    cache: &'a mut Cache,
    fetch: Fetch,
    setup: setup::Setup,
    pixels: PixelEngine,
    counts: Counts,
    vertex_wave: Wave,
    pixel_wave: Wave,
    /// Of the present chunk: vertices, where each is, those that were shaded, and the primitives.
    wanted: Vec<u32>,
    places: HashMap<u32, usize>,
    shaded: Vec<Vertex>,
    primitives: Vec<Primitive>,
    /// Temporaries of the vertex shader's outputs, position first.
    outputs: Vec<usize>,
    has_size: bool,
    /// Which temporary the colour is.
    colour: usize,
}

impl<'a> Run<'a> {
    fn new(draw: &'a Draw, cache: &'a mut Cache) -> Self {
        let states = &draw.states;
        let outputs = states.get(VS_OUTPUT_COUNT).clamp(1, VARYINGS as u32 + 2) as usize;
        let inputs = (states.get(PS_INPUT_COUNT) & 0x1f).max(1) as usize;
        let has_size = states.get(PA_CONFIG) & 1 << 2 != 0 && outputs > inputs;
        let varyings = (outputs - 1 - usize::from(has_size)).min(inputs - 1);
        let temporary = |number: usize| {
            let word = states.get(VS_OUTPUT + (number as u32 & !3));
            (word >> (8 * (number % 4)) & 0x7f) as usize
        };
        let colour = (states.get(PS_OUTPUT_REG) & 0x7f) as usize;
        let fetch = Fetch::new(draw);
        let all = |count: usize| (0..count).map(temporary);
        let least = all(outputs).chain(fetch.inputs()).max().unwrap_or(0) + 1;
        Self {
            draw,
            cache,
            setup: setup::Setup::new(&draw.core, states, varyings),
            pixels: PixelEngine::new(&draw.core, states),
            counts: Counts::default(),
            vertex_wave: draw.vertex.wave(least),
            pixel_wave: draw.pixel.wave(inputs.max(colour + 1)),
            wanted: Vec::new(),
            places: HashMap::new(),
            shaded: Vec::new(),
            primitives: Vec::new(),
            outputs: all(outputs).collect(),
            has_size,
            colour,
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

    /// Gives the vertices of new primitives their places.
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

    /// Shades the vertices and draws the primitives.
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
        let primitives = std::mem::take(&mut self.primitives);
        let shaded = std::mem::take(&mut self.shaded);
        let mut shapes = Vec::new();
        for primitive in &primitives {
            self.counts.primitives += 1;
            shapes.clear();
            self.setup
                .primitive(primitive, &shaded, &mut shapes, &mut self.counts);
            for shape in &shapes {
                self.shape(shape, bus)?;
            }
            bus.progress();
        }
        self.shaded = shaded;
        Ok(())
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
        self.draw
            .vertex
            .run(samplers, false, wave, (self.cache, bus), counts)?;
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
                varyings: std::array::from_fn(|number| match number < self.setup.varyings {
                    true => output(number + 1),
                    false => [0.0, 0.0, 0.0, 1.0],
                }),
            });
        }
        Ok(())
    }

    fn shape(&mut self, shape: &Shape, bus: &mut dyn Bus) -> Result<(), Stop> {
        let mut row = None;
        for block in self.setup.scissor.blocks(shape) {
            if row.replace(block.y) != Some(block.y) {
                // The counters show that the draw goes on.
                self.pixels.tell(bus);
                bus.progress();
                if bus.aborted() {
                    return Err(Stop::Aborted);
                }
            }
            self.block(shape, &block, bus)?;
        }
        Ok(())
    }

    /// Shades, tests and draws the pixels of a block.
    fn block(&mut self, shape: &Shape, block: &Block, bus: &mut dyn Bus) -> Result<(), Stop> {
        let depths = shape.depths(block);
        let is_clockwise = shape.is_clockwise;
        let mut mask = block.mask;
        // Where nothing that comes later discards a pixel, the test may come first, and saves work.
        let is_early = !self.draw.pixel.program.kills() && !self.pixels.tests_alpha();
        if is_early {
            mask = self
                .pixels
                .test_depth(block, mask, &depths, is_clockwise, bus);
            if mask == 0 || !self.pixels.draws_colour() {
                self.pixels.passed(block, mask, None, bus);
                return Ok(());
            }
        }
        self.shade_pixels(shape, block, mask, &depths, bus)?;
        let wave = &self.pixel_wave;
        let colour = &wave.temps[self.colour];
        if !is_early {
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
        bus: &mut dyn Bus,
    ) -> Result<(), Stop> {
        let wave = &mut self.pixel_wave;
        wave.clear();
        wave.mask = raster::whole_quads(mask);
        self.counts.quads += u64::from(wave.mask.count_ones() / 4);
        let front = if shape.is_clockwise { 1.0 } else { 0.0 };
        wave.internal[0].fill(front);
        shape.inputs(block, depths, self.draw.core.has_w, &mut wave.temps);
        let (samplers, counts) = (&self.draw.samplers, &mut self.counts);
        self.draw
            .pixel
            .run(samplers, true, wave, (self.cache, bus), counts)
    }
}
