// SPDX-License-Identifier: GPL-2.0-only
//! Shaders: [`Program`] is a shader decoded for a core, and [`run()`] executes it for 64 vertices or pixels at once.
//!
//! The interpreter keeps each component of a register as an array of 64 floats ([`Lane`]). So an instruction is one
//! loop that the compiler can vectorize. Integers are stored as the bits of the floats.
//!
//! Facts: sources.md, shaders. Choices where no source gives the behavior: products follow IEEE 754, multiply-add is
//! not fused, registers beyond the last one read 0.

use gpu_isa::Condition;
use gpu_isa::Group;
use gpu_isa::Immediate;
use gpu_isa::Instruction;
use gpu_isa::Op;
use gpu_isa::Shape;
use gpu_isa::Source;
use gpu_isa::Type;
use gpu_isa::Unknown;

use crate::personality::Personality;

mod arithmetic;
mod run;

pub(crate) use arithmetic::floor;
pub(crate) use arithmetic::half;
pub use run::run;

/// Vertices or pixels per wave. Four consecutive pixels are a square of 2 x 2: left, right, then the same for the row
/// below.
pub const LANES: usize = 64;

/// One component of a register, for all lanes of a wave.
pub type Lane = [f32; LANES];

/// Default limit of instructions per wave, after which a shader counts as endless.
pub const BUDGET: u64 = 1 << 20;

/// Maximum depth of nested calls.
const CALLS: usize = 16;

/// Capabilities of a core's shaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// FLOOR, CEIL, SIGN.
    pub has_sign_floor_ceil: bool,
    /// SQRT, SIN, COS.
    pub has_sqrt_trig: bool,
    /// DP2 and the normalizing dot products.
    pub has_halti0: bool,
    /// Immediate operands, integers, memory access, texel comparison; MOVAR takes an integer.
    pub has_halti2: bool,
    /// LOG, SIN, COS, DIV return two factors.
    pub has_fast_transcendentals: bool,
    /// Number of temporaries of a shader.
    pub registers: usize,
}

impl Features {
    /// The capabilities of a core.
    pub fn of(core: &Personality) -> Self {
        let minor = |word: usize, bit: u32| core.minor[word] >> bit & 1 != 0;
        Self {
            has_sign_floor_ceil: minor(0, 16),
            has_sqrt_trig: minor(0, 20),
            has_halti0: minor(1, 23),
            has_halti2: minor(4, 16),
            has_fast_transcendentals: minor(3, 14),
            registers: 64,
        }
    }

    fn has(&self, op: Op) -> bool {
        match op {
            Op::Floor | Op::Ceil | Op::Sign => self.has_sign_floor_ceil,
            Op::Sqrt | Op::Sin | Op::Cos => self.has_sqrt_trig,
            Op::Dp2 | Op::NormDp2 | Op::NormDp3 | Op::NormDp4 => self.has_halti0,
            Op::Div => self.has_fast_transcendentals,
            Op::Nop
            | Op::Add
            | Op::Mad
            | Op::Mul
            | Op::Dst
            | Op::Dp3
            | Op::Dp4
            | Op::Dsx
            | Op::Dsy
            | Op::Mov
            | Op::Movar
            | Op::Movaf
            | Op::Rcp
            | Op::Rsq
            | Op::Litp
            | Op::Select
            | Op::Set
            | Op::Exp
            | Op::Log
            | Op::Frc
            | Op::Call
            | Op::Ret
            | Op::Branch
            | Op::BranchAny
            | Op::Texkill
            | Op::Texld
            | Op::Texldb
            | Op::Texldd
            | Op::Texldl => true,
            _ => self.has_halti2,
        }
    }
}

/// Reason why an instruction cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The words do not encode an instruction.
    Unknown(Unknown),
    /// The core lacks the operation.
    Lacks(Op),
    /// The core has no immediate operands.
    Immediate,
    /// This source is missing.
    Source(usize),
    /// The operation does not support operands of this type.
    Type(Type),
    /// The condition does not match the operation: a comparison needs two sources.
    Condition(Condition),
    /// It uses half precision, which runs two threads as one.
    HalfPrecision,
    /// The core does not have this temporary.
    Register(u16),
    /// The model does not implement the operation.
    NotModelled(Op),
    /// The code ends within an instruction.
    Cut,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(what) => write!(f, "{what} does not exist"),
            Self::Lacks(op) => write!(f, "this core has no {}", op.name()),
            Self::Immediate => write!(f, "this core has no immediate operands"),
            Self::Source(number) => write!(f, "source {number} is missing"),
            Self::Type(kind) => write!(f, "it does not take operands {}", kind.suffix()),
            Self::Condition(condition) => write!(f, "it cannot test {}", condition.suffix()),
            Self::HalfPrecision => write!(f, "it is for threads of half precision"),
            Self::Register(number) => write!(f, "there is no temporary {number}"),
            Self::NotModelled(op) => write!(f, "the model does not know {}", op.name()),
            Self::Cut => write!(f, "the code ends within it"),
        }
    }
}

/// An instruction that the core cannot execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Illegal {
    /// Number of the instruction, counted from the first word of the code.
    pub instruction: usize,
    /// The reason.
    pub reason: Reason,
}

impl std::fmt::Display for Illegal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "instruction {}: {}", self.instruction, self.reason)
    }
}

/// Location of an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Temp(usize),
    Uniform(usize),
    Internal,
    /// An immediate value.
    Value(u32),
}

/// A source, prepared for the interpreter.
#[derive(Clone, Copy, Debug)]
struct Operand {
    from: From,
    components: [u8; 4],
    is_negated: bool,
    is_absolute: bool,
    /// Component of the address register to add, if any.
    relative: Option<usize>,
}

/// An instruction, prepared for the interpreter.
#[derive(Clone, Debug)]
struct Step {
    op: Op,
    condition: Condition,
    saturates: bool,
    kind: Type,
    /// Destination temporary, if the result goes to one.
    destination: Option<usize>,
    destination_relative: Option<usize>,
    /// Components to write.
    mask: u8,
    sources: [Option<Operand>; 3],
    sampler: usize,
    sampler_relative: Option<usize>,
    sampler_components: [u8; 4],
    rounding: u8,
    /// LOAD, STORE: left shift of the second source.
    shift: u32,
    target: usize,
    /// The result consists of two factors.
    in_factors: bool,
}

/// A shader, decoded for a core.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Vec<Step>,
    /// MOVAR takes an integer.
    has_integer_address: bool,
    temporaries: usize,
    samplers: u32,
    has_relative_sampler: bool,
    kills: bool,
    moves_depth: bool,
    derives: bool,
}

impl Program {
    /// Decodes code of four words per instruction. Branch targets count from the first word of the code.
    ///
    /// # Errors
    ///
    /// The first instruction that the core does not have.
    pub fn decode(code: &[u32], features: &Features) -> Result<Self, Illegal> {
        let mut this = Self {
            steps: Vec::with_capacity(code.len() / gpu_isa::WORDS),
            has_integer_address: features.has_halti2,
            temporaries: 0,
            samplers: 0,
            has_relative_sampler: false,
            kills: false,
            moves_depth: false,
            derives: false,
        };
        for (instruction, words) in code.chunks(gpu_isa::WORDS).enumerate() {
            let step = this.step(words, features);
            let step = step.map_err(|reason| Illegal {
                instruction,
                reason,
            })?;
            this.steps.push(step);
        }
        Ok(this)
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has no instructions.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// One more than the highest temporary that the program uses.
    pub fn temporaries(&self) -> usize {
        self.temporaries
    }

    /// The samplers that the program uses, one bit each. With [`Self::has_relative_sampler`] it may use others too.
    pub fn samplers(&self) -> u32 {
        self.samplers
    }

    /// Whether the program computes sampler numbers.
    pub fn has_relative_sampler(&self) -> bool {
        self.has_relative_sampler
    }

    /// Whether the program may discard pixels.
    pub fn kills(&self) -> bool {
        self.kills
    }

    /// Whether the program may write `t0.z`, the pixel's depth.
    pub fn moves_depth(&self) -> bool {
        self.moves_depth
    }

    /// Whether the program needs whole squares of 2 x 2 pixels.
    pub fn derives(&self) -> bool {
        self.derives
    }

    fn step(&mut self, words: &[u32], features: &Features) -> Result<Step, Reason> {
        let words = words.first_chunk().ok_or(Reason::Cut)?;
        let this = Instruction::decode(words).map_err(Reason::Unknown)?;
        let op = this.op;
        if !features.has(op) {
            return Err(Reason::Lacks(op));
        }
        if !is_modelled(op) {
            return Err(Reason::NotModelled(op));
        }
        if this.threads != 0 || this.is_half || this.kind == Type::F16 {
            return Err(Reason::HalfPrecision);
        }
        if this.kind != Type::F32 && !arithmetic::takes_integers(op) {
            return Err(Reason::Type(this.kind));
        }
        self.check_condition(&this)?;
        let mut sources = [None; 3];
        for (index, source) in this.sources.iter().enumerate() {
            match source {
                Some(source) => sources[index] = Some(self.operand(source, features)?),
                None if op.needs(index) => return Err(Reason::Source(index)),
                None => {}
            }
        }
        let relative = |mode: u8| usize::from(mode).checked_sub(1);
        let destination = this
            .destination
            .is_used
            .then_some(this.destination.register);
        if let Some(register) = destination {
            self.note_temporary(u16::from(register), features)?;
        }
        if this.op.shape() == Shape::Texture {
            self.samplers |= 1 << this.sampler;
            self.has_relative_sampler |= this.sampler_address != 0;
        }
        self.kills |= op == Op::Texkill;
        let to = this.destination;
        self.moves_depth |= to.is_used && to.mask & 4 != 0 && (to.register == 0 || to.address != 0);
        self.derives |= matches!(op, Op::Dsx | Op::Dsy | Op::Texld | Op::Texldb);
        Ok(Step {
            op,
            condition: this.condition,
            saturates: this.saturates,
            kind: this.kind,
            destination: destination.map(usize::from),
            destination_relative: relative(this.destination.address),
            mask: this.destination.mask,
            sources,
            sampler: this.sampler.into(),
            sampler_relative: relative(this.sampler_address),
            sampler_components: components(this.sampler_swizzle),
            rounding: this.rounding,
            shift: u32::from(this.extra & 7),
            target: this.target.into(),
            in_factors: features.has_fast_transcendentals
                && this.rounding == 1
                && matches!(op, Op::Log | Op::Sin | Op::Cos | Op::Div),
        })
    }

    fn check_condition(&self, this: &Instruction) -> Result<(), Reason> {
        let needs = match (this.op, this.condition) {
            (Op::Branch | Op::Texkill, Condition::True) => 0,
            (Op::Branch | Op::Texkill | Op::Set, condition) if !condition.is_binary() => 1,
            (Op::Branch | Op::BranchAny | Op::Texkill | Op::Set, _) => 2,
            _ => 0,
        };
        match (0..needs).find(|index| this.sources[*index].is_none()) {
            Some(_) => Err(Reason::Condition(this.condition)),
            None => Ok(()),
        }
    }

    fn note_temporary(&mut self, number: u16, features: &Features) -> Result<usize, Reason> {
        let index = usize::from(number);
        if index >= features.registers {
            return Err(Reason::Register(number));
        }
        self.temporaries = self.temporaries.max(index + 1);
        Ok(index)
    }

    fn operand(&mut self, source: &Source, features: &Features) -> Result<Operand, Reason> {
        if let Some(immediate) = source.immediate() {
            if !features.has_halti2 {
                return Err(Reason::Immediate);
            }
            return Ok(Operand {
                from: From::Value(match immediate {
                    Immediate::Float(value) => value.to_bits(),
                    Immediate::Signed(value) => value as u32,
                    Immediate::Unsigned(value) => value,
                    Immediate::Half(bits) => arithmetic::half(bits).to_bits(),
                }),
                components: [0; 4],
                is_negated: false,
                is_absolute: false,
                relative: None,
            });
        }
        let from = match source.group {
            Group::Temp => From::Temp(self.note_temporary(source.register, features)?),
            Group::Internal => From::Internal,
            Group::Uniform | Group::UniformHigh => {
                From::Uniform(source.uniform().unwrap_or_default().into())
            }
            Group::TempHalf | Group::Immediate => return Err(Reason::HalfPrecision),
        };
        Ok(Operand {
            from,
            components: components(source.swizzle),
            is_negated: source.is_negated,
            is_absolute: source.is_absolute,
            relative: usize::from(source.address).checked_sub(1),
        })
    }
}

/// Whether the model implements the operation. It omits operations that no OpenGL ES 2 shader needs, or that no source
/// explains.
fn is_modelled(op: Op) -> bool {
    !matches!(
        op,
        Op::Conv
            | Op::Swizzle
            | Op::Txf
            | Op::Texldlpcf
            | Op::Texldgpcf
            | Op::ImgLoad
            | Op::ImgStore
            | Op::AtomicAdd
            | Op::AtomicXchg
            | Op::AtomicCmpXchg
            | Op::AtomicMin
            | Op::AtomicMax
            | Op::AtomicOr
            | Op::AtomicAnd
            | Op::AtomicXor
    )
}

fn components(swizzle: u8) -> [u8; 4] {
    [0, 2, 4, 6].map(|shift| swizzle >> shift & 3)
}

/// Registers of 64 vertices or pixels. Can be reused.
#[derive(Clone, Debug)]
pub struct Wave {
    /// Temporaries. The states set their number. They hold the inputs before a run and the outputs after
    /// it.
    pub temps: Vec<[Box<Lane>; 4]>,
    /// The internal register: x is 1 for clockwise triangles.
    pub internal: [Box<Lane>; 4],
    /// The address register.
    address: [[i32; LANES]; 4],
    /// Lanes to run, one bit each. Pixels run as whole squares, so that derivatives exist.
    pub mask: u64,
    /// Lanes that the shader has discarded.
    pub killed: u64,
    /// Number of executed instructions, times lanes.
    pub instructions: u64,
    /// Number of instructions after which the shader counts as endless.
    pub budget: u64,
    /// Buffer for the result of an instruction, before it is stored in its destination.
    result: Option<[Box<Lane>; 4]>,
}

fn registers() -> [Box<Lane>; 4] {
    std::array::from_fn(|_| Box::new([0.0; LANES]))
}

impl Wave {
    /// A wave with this number of temporaries.
    pub fn new(temporaries: usize) -> Self {
        Self {
            temps: (0..temporaries).map(|_| registers()).collect(),
            internal: registers(),
            address: [[0; LANES]; 4],
            mask: u64::MAX,
            killed: 0,
            instructions: 0,
            budget: BUDGET,
            result: None,
        }
    }

    /// Sets all temporaries and the address register to 0, and clears the mask of discarded lanes.
    pub fn clear(&mut self) {
        for component in self.temps.iter_mut().flatten() {
            component.fill(0.0);
        }
        self.address = [[0; LANES]; 4];
        self.killed = 0;
    }
}

/// Source of the level of detail.
#[derive(Clone, Copy, Debug)]
pub enum Lod<'a> {
    /// From the derivatives in the square of pixels, plus this bias.
    Derived(Option<&'a Lane>),
    /// Given explicitly.
    Given(&'a Lane),
    /// From the given derivatives to the right and downwards.
    Gradients([&'a Lane; 3], [&'a Lane; 3]),
}

/// A texture instruction.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// The sampler's number, counted over both stages.
    pub unit: usize,
    /// Coordinates: s, t, r, and a fourth that is not used here.
    pub coordinates: [&'a Lane; 4],
    /// Level of detail.
    pub lod: Lod<'a>,
    /// Reference value, if the sampler compares.
    pub reference: Option<&'a Lane>,
    /// Lanes that execute the look-up.
    pub mask: u64,
}

/// Reason why a shader's request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The memory at this address. The memory's owner has reported it.
    Memory(u32),
    /// The sampler was never set up.
    Sampler(usize),
    /// Calls nested too deeply, or a return without a call.
    Calls,
}

/// Interface from shaders to the rest of the core.
pub trait Sampler {
    /// Reads texels: red, green, blue, alpha. Lanes outside the mask may receive any value.
    ///
    /// # Errors
    ///
    /// [`Fault`]: the caller decides whether the core hangs or continues without data.
    fn sample(&mut self, lookup: &Lookup<'_>, out: &mut [Lane; 4]) -> Result<(), Fault>;

    /// LOAD: reads a word.
    ///
    /// # Errors
    ///
    /// The address is outside memory.
    fn load(&mut self, address: u32) -> Result<u32, Fault> {
        Err(Fault::Memory(address))
    }

    /// STORE: writes a word.
    ///
    /// # Errors
    ///
    /// The address is outside memory.
    fn store(&mut self, address: u32, _value: u32) -> Result<(), Fault> {
        Err(Fault::Memory(address))
    }
}

/// Result of a shader run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All lanes have finished.
    Done,
    /// The shader exceeded the wave's budget and was stopped at this instruction.
    Endless(usize),
    /// The shader uses this many temporaries, more than the wave has.
    Temporaries(usize),
    /// A request failed at this instruction.
    Fault(usize, Fault),
}

#[cfg(test)]
mod tests;
