// SPDX-License-Identifier: GPL-2.0-only

//! Core identification registers, with the vendor driver's and etnaviv's fixups.
//!
//! Reads registers through [`Words`], so unit tests can supply a known core's values. Source:
//! sources.md, bring-up.

/// The register `$register` of `$words`.
macro_rules! word {
    ($words:expr, $register:ident) => {
        $words.word(<$register as kernel::io::register::Register>::OFFSET)
    };
}

mod features;

use super::regs::*;
use crate::{
    abi::{
        layout::IdentityWord,
        row::Row,
        HardwareType,
        IdentityWords, //
    },
    sys::mmio::Registers, //
};
use kernel::io::Io;

pub(crate) use features::*;

/// A flag of the identity: a GC3000 whose registers say GC2000.
const FLAG_RENAMED: u32 = 1 << 1;

/// The registers of a core as words.
pub(crate) trait Words {
    /// The word at byte offset `offset`.
    fn word(&self, offset: usize) -> u32;
}

impl Words for Registers {
    fn word(&self, offset: usize) -> u32 {
        // All offsets are within the registers.
        self.try_read32(offset).unwrap_or(0)
    }
}

/// The identity of a core, for QUERY_CHIP_IDENTITY and for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Identity {
    /// Model, such as 0x2000.
    pub(crate) model: u32,
    /// Revision, such as 0x5108.
    pub(crate) revision: u32,
    /// Model and revision as [`read_model`] returns them.
    pub(crate) read_model: (u32, u32),
    /// Date of the design.
    pub(crate) date: u32,
    /// Features, as corrected.
    pub(crate) features: u32,
    /// Minor features 0 to 3, as corrected.
    pub(crate) minor_features: [u32; 4],
    /// Minor features 4 to 6.
    pub(crate) later_minor_features: [u32; 3],
    /// The MMU is a secure one: version 2, with its own registers from 0x380 on.
    pub(crate) has_secure_mmu: bool,
    pub(crate) stream_count: u32,
    /// Temporary registers of a shader.
    pub(crate) register_max: u32,
    pub(crate) thread_count: u32,
    pub(crate) shader_core_count: u32,
    pub(crate) vertex_cache_size: u32,
    /// Bytes of the vertex output buffer.
    pub(crate) vertex_output_buffer_size: u32,
    pub(crate) pixel_pipes: u32,
    pub(crate) instruction_count: u32,
    /// Uniforms.
    pub(crate) num_constants: u32,
    pub(crate) buffer_size: u32,
    pub(crate) varyings_count: u32,
    /// Varyings as newer drivers count them: one fewer if the position takes one.
    pub(crate) free_varyings: u32,
    /// Vertex streams, as newer drivers count them.
    pub(crate) all_streams: u32,
    pub(crate) super_tile_mode: u32,
    /// Product, engineering change and customer. 0 on known cores, as in the vendor's list of
    /// cores, and with MMU version 1.
    pub(crate) design: [u32; 3],
    /// Number of neural cores. No register reports it.
    pub(crate) neural_cores: u32,
    /// Number of values that the parameter `identity` sets.
    pub(crate) overrides: usize,
}

/// A field of the specs registers with its fallback for 0.
fn field_or(value: u32, fallback: u32) -> u32 {
    if value == 0 {
        fallback
    } else {
        value
    }
}

/// The value of a field that holds its logarithm, with the fallback for 0.
fn pow2_field_or(log: u32, fallback: u32) -> u32 {
    if log == 0 {
        fallback
    } else {
        // At most 4 bits.
        1 << log
    }
}

impl Identity {
    /// Reads and corrects the identity.
    pub(crate) fn read(words: &impl Words) -> Self {
        let read_model = read_model(words);
        let (model, revision) = corrected(read_model);
        let mut id = Identity {
            model,
            revision,
            read_model,
            date: word!(words, HI_CHIP_DATE),
            features: word!(words, HI_CHIP_FEATURE),
            ..Default::default()
        };
        if id.hardware_type() == HardwareType::Vector {
            id.read_vector_features(words);
            return id;
        }
        id.read_features(words);
        id.read_specs(words);
        // The first chips do not have these registers.
        if !id.is_known() && id.has_mmu_v2() {
            id.design = [
                word!(words, HI_CHIP_PRODUCT_ID),
                word!(words, HI_CHIP_ECO_ID),
                word!(words, HI_CHIP_CUSTOMER_ID),
            ];
        }
        id.neural_cores = id.known_neural_cores();
        id.has_secure_mmu = id.is_known_secure();
        id
    }

    /// The number of neural cores in etnaviv's list of cores. The GPU GC8000 has some, too.
    fn known_neural_cores(&self) -> u32 {
        match (self.model, self.revision) {
            (0x8000, 0x7120) => 8,
            (0x8000, 0x8002) => 6,
            _ => 0,
        }
    }

    /// Whether its MMU is secure, by etnaviv's list of cores (SECURITY and SECURITY_AHB). No
    /// register has this.
    fn is_known_secure(&self) -> bool {
        matches!(
            (self.model, self.revision),
            (0x7000, 0x6202 | 0x6203 | 0x6204 | 0x6214) | (0x8000, 0x6205 | 0x7120 | 0x8002)
        )
    }

    /// The identity with the values that the parameter `identity` sets.
    pub(super) fn amended(mut self, row: Row<'_>) -> Self {
        let [zero, one, two, three] = &mut self.minor_features;
        let [four, five, six] = &mut self.later_minor_features;
        for (place, word) in [
            (&mut self.features, IdentityWord::Features),
            (zero, IdentityWord::Minor0),
            (one, IdentityWord::Minor1),
            (two, IdentityWord::Minor2),
            (three, IdentityWord::Minor3),
            (four, IdentityWord::Minor4),
            (five, IdentityWord::Minor5),
            (six, IdentityWord::Minor6),
            (&mut self.neural_cores, IdentityWord::NeuralCores),
        ] {
            *place = row.value(word).unwrap_or(*place);
        }
        if let Some(value) = row.value(IdentityWord::SecureMmu) {
            self.has_secure_mmu = value != 0 && self.has_mmu_v2();
        }
        self.overrides = row.count();
        self
    }

    /// Whether the vendor's driver runs programs on it at start, to set flip-flops that a reset
    /// does not change. This driver has no such programs. Source: sources.md, bring-up.
    pub(super) fn needs_flop_reset(&self) -> bool {
        self.is(0x8000, 0x6205)
    }

    pub(super) fn is(&self, model: u32, revision: u32) -> bool {
        self.model == model && self.revision == revision
    }

    /// Reads the features of a core for vector graphics. Its minor features 1 are reported as minor
    /// features 2, and it has no others. Source: sources.md, vector graphics.
    fn read_vector_features(&mut self, words: &impl Words) {
        self.minor_features[0] = word!(words, HI_CHIP_MINOR_FEATURE_0);
        self.minor_features[2] = word!(words, HI_CHIP_MINOR_FEATURE_1);
    }

    fn read_features(&mut self, words: &impl Words) {
        if self.model == 0x700 {
            self.features &= !FEATURE_FAST_CLEAR;
        }
        let without_minor = (self.model == 0x500 && self.revision < 2)
            || (self.model == 0x300 && self.revision < 0x2000);
        if !without_minor {
            self.minor_features[0] = word!(words, HI_CHIP_MINOR_FEATURE_0);
            if self.has_more_registers() {
                self.minor_features[1] = word!(words, HI_CHIP_MINOR_FEATURE_1);
                self.minor_features[2] = word!(words, HI_CHIP_MINOR_FEATURE_2);
                self.minor_features[3] = word!(words, HI_CHIP_MINOR_FEATURE_3);
                self.later_minor_features = [
                    word!(words, HI_CHIP_MINOR_FEATURE_4),
                    word!(words, HI_CHIP_MINOR_FEATURE_5),
                    word!(words, HI_CHIP_MINOR_FEATURE_6),
                ];
            }
        }
        self.super_tile_mode = if self.is(0x1000, 0x5035) || self.is(0x800, 0x4612) {
            1
        } else if self.minor_features[3] & (MINOR3_NEW_HZ | MINOR3_FAST_MSAA) != 0 {
            2
        } else {
            u32::from(self.minor_features[0] & MINOR0_HZ != 0)
        };
        if self.features & FEATURE_NO_EARLY_Z == 0 {
            self.minor_features[0] &= !MINOR0_HZ;
        }
        if self.is(0x880, 0x5106) {
            self.minor_features[2] &= !MINOR2_RECT_PRIMITIVE;
        }
        if self.is(0x800, 0x4605) {
            self.features &= !FEATURE_32_BIT_INDICES;
        }
        if (self.model == 0x500 && self.revision <= 2) || self.model == 0x300 {
            self.features |= FEATURE_PIPE_2D;
        }
    }

    fn read_specs(&mut self, words: &impl Words) {
        let [specs, specs_2, specs_3, specs_4] = if self.has_more_registers() {
            [
                word!(words, HI_CHIP_SPECS),
                word!(words, HI_CHIP_SPECS_2),
                word!(words, HI_CHIP_SPECS_3),
                word!(words, HI_CHIP_SPECS_4),
            ]
        } else {
            [0; 4]
        };
        let specs = HI_CHIP_SPECS::from_raw(specs);
        let specs_2 = HI_CHIP_SPECS_2::from_raw(specs_2);
        let specs_3 = HI_CHIP_SPECS_3::from_raw(specs_3);
        let specs_4 = HI_CHIP_SPECS_4::from_raw(specs_4);
        let big = self.model >= 0x1000;
        self.stream_count = field_or(specs.stream_count().get(), if big { 4 } else { 1 });
        self.register_max = pow2_field_or(
            specs.register_max().get(),
            if self.model == 0x400 { 32 } else { 64 },
        );
        self.thread_count = pow2_field_or(
            specs.thread_count().get(),
            match self.model {
                0x400 => 64,
                0x500 | 0x530 => 128,
                _ => 256,
            },
        );
        self.vertex_cache_size = field_or(specs.vertex_cache_size().get(), 8);
        self.shader_core_count = field_or(specs.shader_core_count().get(), if big { 2 } else { 1 });
        self.pixel_pipes = specs.pixel_pipes().get().max(1);
        self.vertex_output_buffer_size = pow2_field_or(
            specs.vertex_output_buffer_size().get(),
            match (self.model, self.revision) {
                (0x400, ..0x4000) => 512,
                (0x400, 0x4000..0x4200) => 256,
                (0x400, _) => 128,
                (0x530, 0x4200..) => 128,
                _ => 512,
            },
        );
        self.buffer_size = specs_2.buffer_size().get();
        self.instruction_count = self.instructions(specs_2.instruction_count().get());
        self.num_constants = field_or(specs_2.num_constants().get(), 168);
        self.varyings_count =
            if specs_3.varyings_count().get() != 0 || self.minor_features[1] & MINOR1_HALTI0 != 0 {
                12
            } else {
                8
            };
        self.free_varyings = match specs_3.varyings_count().get() {
            0 => self.varyings_count,
            count => count,
        };
        if self.position_takes_varying() {
            self.free_varyings = self.free_varyings.saturating_sub(1);
        }
        self.all_streams = field_or(specs_4.stream_count().get(), self.stream_count);
    }

    /// Whether the position takes one of the counted varyings.
    fn position_takes_varying(&self) -> bool {
        matches!(
            (self.model, self.revision),
            (0x880, 0x5106 | 0x5107)
                | (0x1500, 0x5246)
                | (0x2000 | 0x2100, 0x5108)
                | (0x2200, 0x5244)
                | (0x3000, 0x5435)
                | (0x4000, 0x5208 | 0x5222 | 0x5245)
                | (0x5000, 0x5434)
        )
    }

    fn instructions(&self, code: u32) -> u32 {
        let count = match code {
            1 => 1024,
            2 => 2048,
            0xFF => 512,
            _ => 256,
        };
        let is_really_512 = count == 256 && (self.is(0x2000, 0x5108) || self.model == 0x880);
        if is_really_512 || self.minor_features[3] & MINOR3_INSTRUCTION_CACHE != 0 {
            512
        } else {
            count
        }
    }
}

/// Model and revision from the registers, with the fixups for early cores that all drivers make.
/// The GC3000 of the i.MX6 QuadPlus still reads as GC2000.
pub(super) fn read_model(words: &impl Words) -> (u32, u32) {
    let identity = HI_CHIP_IDENTITY::from_raw(word!(words, HI_CHIP_IDENTITY));
    if identity.family().get() == 1 {
        return (0x500, identity.revision().get());
    }
    let mut model = word!(words, HI_CHIP_MODEL);
    if model & 0xFF00 == 0x0400 && model != 0x0420 {
        model &= 0x0400;
    }
    let mut revision = word!(words, HI_CHIP_REV);
    if model == 0x300
        && revision == 0x2201
        && word!(words, HI_CHIP_DATE) == 0x2008_0814
        && word!(words, HI_CHIP_TIME) == 0x1205_1100
    {
        revision = 0x1051;
    }
    (model, revision)
}

/// Model and revision by which the drivers know the core that reads as `read_model`.
fn corrected(read_model: (u32, u32)) -> (u32, u32) {
    match read_model {
        (0x2000, 0xFFFF_5450) => (0x3000, 0x5450),
        other => other,
    }
}

impl From<&Identity> for IdentityWords {
    fn from(id: &Identity) -> Self {
        Self(identity_words(id))
    }
}

fn identity_words(id: &Identity) -> [u32; IdentityWord::COUNT] {
    use IdentityWord as Word;
    let mut all = [0; IdentityWord::COUNT];
    // CAST: the number of a variant.
    let mut set = |word: Word, value| all[word as usize] = value;
    set(Word::Model, id.model);
    set(Word::Revision, id.revision);
    set(Word::RawModel, id.read_model.0);
    set(Word::RawRevision, id.read_model.1);
    set(Word::Date, id.date);
    set(Word::Features, id.features);
    set(Word::Minor0, id.minor_features[0]);
    set(Word::Minor1, id.minor_features[1]);
    set(Word::Minor2, id.minor_features[2]);
    set(Word::Minor3, id.minor_features[3]);
    set(Word::Minor4, id.later_minor_features[0]);
    set(Word::Minor5, id.later_minor_features[1]);
    set(Word::Minor6, id.later_minor_features[2]);
    set(Word::StreamCount, id.stream_count);
    set(Word::AllStreams, id.all_streams);
    set(Word::RegisterMax, id.register_max);
    set(Word::ThreadCount, id.thread_count);
    set(Word::ShaderCoreCount, id.shader_core_count);
    set(Word::VertexCacheSize, id.vertex_cache_size);
    set(Word::VertexOutputBufferSize, id.vertex_output_buffer_size);
    // GC320 r5007: the vendor's feature database differs from the registers.
    let (listed_pipes, listed_constants) = if id.is(0x320, 0x5007) {
        (2, 256)
    } else {
        (id.pixel_pipes, id.num_constants)
    };
    set(Word::PixelPipes, id.pixel_pipes);
    set(Word::ListedPipes, listed_pipes);
    set(Word::ResolvePipes, id.pixel_pipes);
    set(Word::InstructionCount, id.instruction_count);
    set(Word::ConstantCount, id.num_constants);
    set(Word::ListedConstants, listed_constants);
    set(Word::BufferSize, id.buffer_size);
    set(Word::VaryingsCount, id.varyings_count);
    set(Word::FreeVaryings, id.free_varyings);
    let is_renamed = id.read_model != (id.model, id.revision);
    set(Word::Flags, if is_renamed { FLAG_RENAMED } else { 0 });
    set(Word::SuperTileMode, id.super_tile_mode);
    set(Word::CoreCount, 1);
    let [product, eco, customer] = id.design;
    set(Word::Product, product);
    set(Word::Eco, eco);
    set(Word::Customer, customer);
    set(Word::NeuralCores, id.neural_cores);
    set(Word::SecureMmu, id.has_secure_mmu.into());
    all
}

mod tests;
