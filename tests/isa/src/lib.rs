// SPDX-License-Identifier: GPL-2.0-only
//! Shader instructions of Vivante GPU cores from GC600 to GC3000: their words and fields. [`op`] has the table of
//! operations, and [`text`] the assembler and disassembler.
//!
//! An instruction consists of four words. Sources: Mesa's etnaviv.xml and rnndb's isa.xml (sources.md, shaders).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod op;
pub mod text;

pub use op::Op;
pub use op::Shape;
pub use text::assemble;
pub use text::assemble_line;
pub use text::Error;

/// Words per instruction.
pub const WORDS: usize = 4;

/// The condition of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    #[default]
    True,
    /// First greater than second.
    Gt,
    /// First less than second.
    Lt,
    /// First greater than or equal to second.
    Ge,
    /// First less than or equal to second.
    Le,
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Both have a bit in common.
    And,
    /// At least one has a bit set.
    Or,
    /// They differ in a bit.
    Xor,
    /// No bit is set.
    Not,
    /// Not zero.
    Nz,
    /// Greater than or equal to zero.
    Gez,
    /// Greater than zero.
    Gz,
    /// Less than or equal to zero.
    Lez,
    /// Less than zero.
    Lz,
    /// The sign bit is set.
    Selmsb,
}

impl Condition {
    /// All conditions, with their numbers and their suffixes to the operation's name.
    pub const ALL: [(Self, u32, &'static str); 17] = [
        (Self::True, 0, ""),
        (Self::Gt, 1, ".gt"),
        (Self::Lt, 2, ".lt"),
        (Self::Ge, 3, ".ge"),
        (Self::Le, 4, ".le"),
        (Self::Eq, 5, ".eq"),
        (Self::Ne, 6, ".ne"),
        (Self::And, 7, ".and"),
        (Self::Or, 8, ".or"),
        (Self::Xor, 9, ".xor"),
        (Self::Not, 10, ".not"),
        (Self::Nz, 11, ".nz"),
        (Self::Gez, 12, ".gez"),
        (Self::Gz, 13, ".gz"),
        (Self::Lez, 14, ".lez"),
        (Self::Lz, 15, ".lz"),
        (Self::Selmsb, 22, ".selmsb"),
    ];

    /// Whether it compares two values.
    pub fn is_binary(self) -> bool {
        (1..=9).contains(&self.row().1)
    }

    fn row(self) -> (Self, u32, &'static str) {
        let row = Self::ALL.into_iter().find(|row| row.0 == self);
        row.expect("the table has every condition")
    }

    /// The suffix to the operation's name.
    pub fn suffix(self) -> &'static str {
        self.row().2
    }
}

/// The type of the operands' components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// 32-bit float.
    #[default]
    F32,
    /// 32-bit signed integer.
    S32,
    /// 8-bit signed integer.
    S8,
    /// 16-bit unsigned integer.
    U16,
    /// 16-bit float.
    F16,
    /// 16-bit signed integer.
    S16,
    /// 32-bit unsigned integer.
    U32,
    /// 8-bit unsigned integer.
    U8,
}

impl Type {
    /// All types by number, with their suffixes to the operation's name.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::F32, ""),
        (Self::S32, ".s32"),
        (Self::S8, ".s8"),
        (Self::U16, ".u16"),
        (Self::F16, ".f16"),
        (Self::S16, ".s16"),
        (Self::U32, ".u32"),
        (Self::U8, ".u8"),
    ];

    /// The suffix to the operation's name.
    pub fn suffix(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The register group of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// A temporary.
    #[default]
    Temp,
    /// A register that the core fills.
    Internal,
    /// Uniforms 0 to 127.
    Uniform,
    /// Uniforms from 128 on.
    UniformHigh,
    /// A half-precision temporary.
    TempHalf,
    /// The source's fields contain the value.
    Immediate,
}

/// An immediate value: 20 bits, extended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Immediate {
    /// The high bits of a 32-bit float.
    Float(f32),
    /// Signed.
    Signed(i32),
    /// Unsigned.
    Unsigned(u32),
    /// The bits of a half-precision float.
    Half(u16),
}

/// The identity swizzle: first to fourth component, two bits each, from bit 0 up.
pub const IDENTITY: u8 = 0xe4;

/// A source of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Its register group.
    pub group: Group,
    /// Register number in the group, 9 bits.
    pub register: u16,
    /// Selects the register component for each component of the instruction.
    pub swizzle: u8,
    /// Whether the value is negated, as the last step.
    pub is_negated: bool,
    /// Whether the absolute value is taken.
    pub is_absolute: bool,
    /// 0: none. 1 to 4: the component of the address register that is added to the register number.
    pub address: u8,
}

impl Source {
    /// A source that is a whole register.
    pub fn register(group: Group, register: u16) -> Self {
        Self {
            group,
            register,
            swizzle: IDENTITY,
            ..Self::default()
        }
    }

    /// The number of a uniform, in either of the two groups.
    pub fn uniform(&self) -> Option<u16> {
        match self.group {
            Group::Uniform => Some(self.register),
            Group::UniformHigh => Some(self.register + 128),
            _ => None,
        }
    }

    /// The register component that component `number` reads.
    pub fn component(&self, number: usize) -> usize {
        (self.swizzle >> (2 * number) & 3) as usize
    }

    /// Its value, if it is an immediate.
    pub fn immediate(&self) -> Option<Immediate> {
        if self.group != Group::Immediate {
            return None;
        }
        let bits = u32::from(self.address & 1) << 19
            | u32::from(self.is_absolute) << 18
            | u32::from(self.is_negated) << 17
            | u32::from(self.swizzle) << 9
            | u32::from(self.register & 0x1ff);
        Some(match self.address >> 1 {
            0 => Immediate::Float(f32::from_bits(bits << 12)),
            1 => Immediate::Signed((bits << 12) as i32 >> 12),
            2 => Immediate::Unsigned(bits),
            _ => Immediate::Half(bits as u16),
        })
    }

    /// A source with this immediate value, if it fits into 20 bits.
    pub fn from_immediate(value: Immediate) -> Option<Self> {
        let (kind, bits) = match value {
            Immediate::Float(value) if value.to_bits() & 0xfff == 0 => (0, value.to_bits() >> 12),
            Immediate::Signed(value) if (-0x8_0000..0x8_0000).contains(&value) => {
                (1, value as u32 & 0xf_ffff)
            }
            Immediate::Unsigned(value) if value < 0x10_0000 => (2, value),
            Immediate::Half(bits) => (3, u32::from(bits)),
            _ => return None,
        };
        Some(Self {
            group: Group::Immediate,
            register: (bits & 0x1ff) as u16,
            swizzle: (bits >> 9) as u8,
            is_negated: bits >> 17 & 1 != 0,
            is_absolute: bits >> 18 & 1 != 0,
            address: kind << 1 | (bits >> 19) as u8,
        })
    }
}

/// The destination of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// Number of the temporary, 7 bits.
    pub register: u8,
    /// 0: none. 1 to 4: the component of the address register that is added to the register number.
    pub address: u8,
    /// Whether there is a destination. Instructions that write the address register have only a mask.
    pub is_used: bool,
    /// Mask of the components to write, from bit 0 up.
    pub mask: u8,
}

/// An instruction, as fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub op: Op,
    /// The condition.
    pub condition: Condition,
    /// Whether the result is clamped to 0 to 1.
    pub saturates: bool,
    /// The type of its operands.
    pub kind: Type,
    /// The destination.
    pub destination: Destination,
    /// The sources; `None` if unused.
    pub sources: [Option<Source>; 3],
    /// Texture instructions: the sampler.
    pub sampler: u8,
    /// Texture instructions: 1 to 4 for the component of the address register that is added to the sampler.
    pub sampler_address: u8,
    /// Texture instructions: the channel for each component.
    pub sampler_swizzle: u8,
    /// Other instructions: rounding: 1 toward zero, 2 to the nearest.
    pub rounding: u8,
    /// Other instructions: bit 2 of the second word, which has no effect with full precision.
    pub unpacked: bool,
    /// Other instructions: bits 3 to 10 of the second word, which memory instructions use.
    pub extra: u8,
    /// Mask of the two half-precision threads that execute it.
    pub threads: u8,
    /// Whether the destination has half precision.
    pub is_half: bool,
    /// Branches and calls: number of the target instruction in the shader.
    pub target: u16,
}

/// Words that are not an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Unknown operation number.
    Op(u8),
    /// Unknown extended operation number.
    Extended(u16),
    /// Unknown condition number.
    Condition(u8),
    /// Unknown register group.
    Group(u8),
    /// Address mode above 4.
    Address(u8),
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Op(number) => write!(f, "operation {number:#x}"),
            Self::Extended(number) => write!(f, "extended operation {number:#x}"),
            Self::Condition(number) => write!(f, "condition {number}"),
            Self::Group(number) => write!(f, "register group {number}"),
            Self::Address(number) => write!(f, "address mode {number}"),
        }
    }
}

/// Positions of a source's fields: the word, and the bit in it.
struct Place {
    used: (usize, u32),
    register: (usize, u32),
    swizzle: (usize, u32),
    negate: (usize, u32),
    absolute: (usize, u32),
    address: (usize, u32),
    group: (usize, u32),
}

const PLACES: [Place; 3] = [
    Place {
        used: (1, 11),
        register: (1, 12),
        swizzle: (1, 22),
        negate: (1, 30),
        absolute: (1, 31),
        address: (2, 0),
        group: (2, 3),
    },
    Place {
        used: (2, 6),
        register: (2, 7),
        swizzle: (2, 17),
        negate: (2, 25),
        absolute: (2, 26),
        address: (2, 27),
        group: (3, 0),
    },
    Place {
        used: (3, 3),
        register: (3, 4),
        swizzle: (3, 14),
        negate: (3, 22),
        absolute: (3, 23),
        address: (3, 25),
        group: (3, 28),
    },
];

/// Register group and address mode of an extended operation's third source: an unsigned immediate.
const EXTENDED: (u32, u32) = (7, 4);

fn field(words: &[u32; WORDS], (word, low): (usize, u32), bits: u32) -> u32 {
    words[word] >> low & ((1 << bits) - 1)
}

fn source(words: &[u32; WORDS], place: &Place) -> Result<Option<Source>, Unknown> {
    if field(words, place.used, 1) == 0 {
        return Ok(None);
    }
    let group = match field(words, place.group, 3) {
        0 => Group::Temp,
        1 => Group::Internal,
        2 => Group::Uniform,
        3 => Group::UniformHigh,
        4 => Group::TempHalf,
        7 => Group::Immediate,
        other => return Err(Unknown::Group(other as u8)),
    };
    let address = field(words, place.address, 3) as u8;
    if group != Group::Immediate && address > 4 {
        return Err(Unknown::Address(address));
    }
    Ok(Some(Source {
        group,
        register: field(words, place.register, 9) as u16,
        swizzle: field(words, place.swizzle, 8) as u8,
        is_negated: field(words, place.negate, 1) != 0,
        is_absolute: field(words, place.absolute, 1) != 0,
        address,
    }))
}

impl Instruction {
    /// Decodes an instruction. Sources that the operation does not use are ignored.
    ///
    /// # Errors
    ///
    /// [`Unknown`] if a field has an undefined value.
    pub fn decode(words: &[u32; WORDS]) -> Result<Self, Unknown> {
        let number = (words[0] & 63 | words[2] >> 16 << 6 & 64) as u8;
        let op = if number == op::EXTENDED {
            let extended = field(words, PLACES[2].register, 9) as u16;
            Op::from_extended(extended).ok_or(Unknown::Extended(extended))?
        } else {
            Op::from_number(number).ok_or(Unknown::Op(number))?
        };
        let condition = words[0] >> 6 & 31;
        let found = Condition::ALL.iter().find(|row| row.1 == condition);
        let address = |word: u32, low: u32| match word >> low & 7 {
            mode @ 0..=4 => Ok(mode as u8),
            mode => Err(Unknown::Address(mode as u8)),
        };
        let mut this = Self {
            op,
            condition: found.ok_or(Unknown::Condition(condition as u8))?.0,
            saturates: words[0] >> 11 & 1 != 0,
            kind: Type::ALL[(words[1] >> 19 & 4 | words[2] >> 30) as usize].0,
            ..Self::default()
        };
        for (index, place) in PLACES.iter().enumerate() {
            if op.may_use(index) {
                this.sources[index] = source(words, place)?;
            }
        }
        if op.shape() != Shape::Flow {
            this.destination = Destination {
                register: (words[0] >> 16 & 127) as u8,
                address: address(words[0], 13)?,
                is_used: words[0] >> 12 & 1 != 0,
                mask: (words[0] >> 23 & 15) as u8,
            };
        }
        match op.shape() {
            Shape::Flow => this.target = (words[3] >> 7 & 0x7fff) as u16,
            Shape::Texture => {
                this.sampler = (words[0] >> 27) as u8;
                this.sampler_address = address(words[1], 0)?;
                this.sampler_swizzle = (words[1] >> 3) as u8;
            }
            Shape::Alu | Shape::Memory => {
                this.threads = (words[3] >> 13 & 1 | words[3] >> 23 & 2) as u8;
                this.is_half = words[3] >> 31 != 0;
            }
        }
        if op.shape() != Shape::Texture {
            this.rounding = (words[1] & 3) as u8;
            this.unpacked = words[1] >> 2 & 1 != 0;
            this.extra = (words[1] >> 3) as u8;
        }
        Ok(this)
    }

    /// Encodes the instruction.
    pub fn encode(&self) -> [u32; WORDS] {
        let number = u32::from(self.op.number());
        let row = Condition::ALL.iter().find(|row| row.0 == self.condition);
        let mut words = [
            number & 63
                | row.map_or(0, |row| row.1) << 6
                | u32::from(self.saturates) << 11
                | u32::from(self.destination.is_used) << 12
                | u32::from(self.destination.address) << 13
                | u32::from(self.destination.register) << 16
                | u32::from(self.destination.mask) << 23,
            (self.kind as u32 & 4) << 19,
            (number >> 6) << 16 | (self.kind as u32 & 3) << 30,
            0,
        ];
        match self.op.shape() {
            Shape::Flow => words[3] |= u32::from(self.target) << 7,
            Shape::Texture => {
                words[0] |= u32::from(self.sampler) << 27;
                words[1] |= u32::from(self.sampler_address) | u32::from(self.sampler_swizzle) << 3;
            }
            Shape::Alu | Shape::Memory => {
                words[3] |= u32::from(self.threads & 1) << 13
                    | u32::from(self.threads >> 1) << 24
                    | u32::from(self.is_half) << 31;
            }
        }
        if self.op.shape() != Shape::Texture {
            words[1] |= u32::from(self.rounding)
                | u32::from(self.unpacked) << 2
                | u32::from(self.extra) << 3;
        }
        for (source, place) in self.sources.iter().zip(&PLACES) {
            let Some(source) = source else { continue };
            let group = match source.group {
                Group::Temp => 0,
                Group::Internal => 1,
                Group::Uniform => 2,
                Group::UniformHigh => 3,
                Group::TempHalf => 4,
                Group::Immediate => 7,
            };
            for ((word, low), value) in [
                (place.used, 1),
                (place.register, u32::from(source.register)),
                (place.swizzle, u32::from(source.swizzle)),
                (place.negate, u32::from(source.is_negated)),
                (place.absolute, u32::from(source.is_absolute)),
                (place.address, u32::from(source.address)),
                (place.group, group),
            ] {
                words[word] |= value << low;
            }
        }
        if let Some(extended) = self.op.extended() {
            let place = &PLACES[2];
            for ((word, low), value) in [
                (place.used, 1),
                (place.register, u32::from(extended)),
                (place.group, EXTENDED.0),
                (place.address, EXTENDED.1),
            ] {
                words[word] |= value << low;
            }
        }
        words
    }
}

#[cfg(test)]
mod tests;
