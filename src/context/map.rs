// SPDX-License-Identifier: GPL-2.0-only

//! Which states a context of the 4.x interface keeps, and where they stand in its command stream.
//!
//! Pure logic over a core's identity. The stream has the vendor's layout, for its highest state is
//! part of the interface (clients size their arrays by it) and its order is what silicon was tested
//! with:
//!
//! 1. flush of the 2D cache, stall, 3D pipe: skipped by an entry from the 3D pipe;
//! 2. flush of the 3D caches, stall;
//! 3. `LOAD_STATE`s of all states;
//! 4. semaphore and stall, and the slot of a LINK to the client's commands;
//! 5. an entry from the 2D pipe that needs only the last states. No generation uses it.
//!
//! Source: sources.md, contexts.

use crate::{
    error::{
        Error,
        Result, //
    },
    hw::{
        identity,
        Identity, //
    },
    stream::{
        decode::FIXP,
        states::{
            takes_address,
            Sets,
            States, //
        },
        words::{
            self,
            flush,
            state,
            Pipe, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What padding words hold.
const PADDING: u32 = 0xDEAD_DEAD;

/// Byte where to enter with the 3D pipe selected.
pub(crate) const ENTRY_FROM_3D: usize = 32;

/// Byte address of the vertex elements, the first block of states.
const ELEMENTS: u32 = 0x0600;

/// More uniforms than these have no state: an address has 16 bits.
const MOST_CONSTANTS: u32 = (0x1_0000 - state::word(0x30000)) / 4;

/// The features that decide what there is.
#[derive(Clone, Copy)]
struct Core {
    model: u32,
    revision: u32,
    minor1: u32,
    minor2: u32,
    instructions: u32,
    pixel_pipes: u32,
}

/// What the newer drivers, from 5.0.11 on, go by besides.
#[derive(Clone, Copy)]
struct Newer<'a> {
    minor3: u32,
    minor4: u32,
    constants: u32,
    varyings: u32,
    /// What clients of the core may load: nothing else is kept.
    states: Sets<'a>,
    /// Of a core with HALTI5, `USC_CONTROL.L1_CACHE_RATIO`.
    halti5: Option<u32>,
}

impl Newer<'_> {
    fn has_halti2(&self) -> bool {
        self.minor4 & identity::MINOR4_HALTI2 != 0
    }

    /// Whether vertex and pixel shaders have their uniforms in common.
    fn has_common_uniforms(&self) -> bool {
        self.constants > 256
    }

    /// The state after those uniforms; 0: there are none.
    fn common_uniforms_end(&self) -> usize {
        match self.has_common_uniforms() && self.halti5.is_none() {
            // CAST: 32 bits into at least 32.
            true => (state::word(0x30000) + 4 * self.constants.min(MOST_CONSTANTS)) as usize,
            false => 0,
        }
    }

    /// Whether clients may load all `count` states from `byte` on.
    fn may_load(&self, byte: u32, count: u32) -> bool {
        let first = state::word(byte);
        let mut all = first..first + count;
        all.all(|address| {
            address <= 0xFFFF
                && (!self.states.is_special(address) || self.states.takes_address(address))
        })
    }
}

/// States of one block: byte address of the first, how many, value after a reset.
struct Run(u32, u32, u32);

/// What the vendor's driver 6.4.11 keeps of a core with HALTI5, in its order, up to the uniforms.
const HALTI5_FRONT: &[Run] = &[
    Run(0x03814, 1, 1),
    Run(0x03818, 2, 0),
    Run(0x03888, 1, 0),
    Run(0x038C0, 16, 0),
    Run(USC_CONTROL, 1, 2 << 16),
    Run(0x0384C, 1, 0),
    Run(0x17800, 32, 0),
    Run(0x007C4, 1, 0),
    Run(0x007D0, 3, 0),
    Run(0x17A80, 32, 0),
    Run(0x17880, 96, 0),
    Run(0x17A00, 32, 0x3F80_0000),
    Run(0x14600, 48, 0),
    Run(0x00644, 2, 0),
    Run(0x00674, 2, 0),
    Run(0x0067C, 1, !0),
    Run(0x146C0, 16, 0),
    Run(0x007F8, 1, 0),
    Run(0x008B8, 1, 0x330),
    Run(0x15600, 1, 0),
    Run(0x00868, 2, 0),
    Run(0x0304C, 1, 0),
    Run(0x01028, 1, 0),
    Run(0x15604, 1, 0),
    Run(0x01094, 1, 0),
    Run(0x00804, 1, 0),
    Run(0x00808, 1, 1),
    Run(0x0080C, 1, 0),
    Run(0x00830, 1, 0),
    Run(0x00898, 3, 0),
    Run(0x00870, 1, 0),
    Run(0x008A8, 1, 0),
    Run(0x008C0, 16, 0),
    Run(0x00A00, 1, 0),
    Run(0x00A04, 1, 0),
    Run(0x00A08, 1, 0),
    Run(0x00A0C, 1, 0),
    Run(0x00A10, 1, 0),
    Run(0x00A14, 2, 0),
    Run(0x00A1C, 1, 0x3F00_0000),
    Run(0x00A28, 6, 0),
    Run(0x00A80, 1, 0),
    Run(0x00A84, 1, 0),
    Run(0x00A8C, 1, 0),
    Run(0x00A88, 1, 0),
    Run(0x00AA8, 1, 0),
    Run(0x00A90, 4, 0),
    Run(0x03A00, 3, 0),
    Run(0x00C00, 2, 0),
    Run(0x00C08, 2, 0x4500_0000),
    Run(0x00C10, 3, 0),
    Run(0x00C1C, 1, 0x4200_0000),
    Run(0x00C20, 2, 0),
    Run(0x00E00, 1, 0xF1),
    Run(0x00E10, 4, 0),
    Run(0x00E04, 1, 0),
    Run(0x00E40, 16, 0),
    Run(0x00E08, 1, 0x1700_0035),
    Run(0x00E24, 1, 0),
    Run(0x00E20, 1, 0),
    Run(0x00E0C, 1, 0),
    Run(0x00E34, 1, 0),
    Run(0x01004, 4, 0),
    Run(0x01030, 2, 0),
    Run(0x01040, 2, 0),
    Run(0x0102C, 1, 0),
    Run(0x01038, 1, 0),
    Run(0x01054, 1, 0),
    Run(0x01060, 8, 0),
    Run(0x01080, 4, 0),
    Run(0x01058, 1, 0),
    Run(0x01098, 1, 0),
    Run(0x14C40, 1, 1),
    Run(0x16C00, 32, 0),
    Run(0x16E00, 32, 0),
    Run(0x17000, 32, 0),
    Run(0x17200, 32, 0),
    Run(0x17400, 32, 0),
    Run(0x15C00, 32, 0),
    Run(0x15E00, 32, 0),
    Run(0x14C00, 16, 0),
    Run(0x00900, 7, 0),
    Run(0x00924, 1, 0),
    Run(0x0091C, 1, 0),
    Run(0x00940, 9, 0),
    Run(0x00874, 1, 0),
    Run(0x008BC, 1, 0),
    Run(0x0087C, 1, 0),
    Run(0x01090, 1, 0),
    Run(0x01024, 1, 0x100),
    Run(0x00864, 1, 0),
    Run(0x00884, 1, 0),
    Run(0x008B0, 1, 0),
];

/// The first ones of the pixel engine.
const HALTI5_PIXEL: &[Run] = &[
    Run(0x01400, 4, 0),
    Run(0x01414, 7, 0),
    Run(0x01434, 1, 0),
    Run(0x01454, 2, 0),
    Run(0x014A0, 1, 0),
    Run(0x014A8, 2, !0),
    Run(0x014B0, 2, 0),
    Run(0x014A4, 1, 0x000E_400C),
    Run(0x01580, 3, 0),
    Run(0x014B8, 1, 0),
    Run(0x0103C, 1, 0x7654_3210),
];

/// What comes after what each pixel pipe has. The resolve engine's are those of 5.0.11: later drivers
/// leave them to the client.
const HALTI5_BACK: &[Run] = &[
    Run(0x14900, 7, 0),
    Run(0x014BC, 2, 0),
    Run(0x14920, 7, 0),
    Run(0x14940, 7, 0),
    Run(0x14960, 7, 0),
    Run(0x14980, 7, 0),
    Run(0x149A0, 7, 0),
    Run(0x149C0, 8, 0),
    Run(0x014C4, 1, 0),
    Run(0x01604, 5, 0),
    Run(0x01620, 1, 0),
    Run(0x01630, 2, 0),
    Run(0x0163C, 5, 0),
    Run(0x016A0, 1, 0),
    Run(0x016B4, 1, 0),
    Run(0x01654, 1, 0x0020_0000),
    Run(0x01658, 8, 0),
    Run(0x016A4, 1, 0),
    Run(0x016AC, 1, 0),
    Run(0x016A8, 1, 0),
    Run(0x01720, 32, 0),
    Run(0x016BC, 1, 0),
    Run(0x017A4, 7, 0),
    Run(0x017C4, 7, 0),
    Run(0x017E4, 7, 0),
    Run(0x01A04, 7, 0),
    Run(0x01A24, 7, 0),
    Run(0x01A44, 7, 0),
    Run(0x03860, 1, 6),
    Run(0x01A80, 8, 0),
];

/// Where those of the samplers stand again: the mirror, the state.
const HALTI5_MIRRORS: [(u32, u32); 7] = [
    (0x16000, 0x16C00),
    (0x16200, 0x16E00),
    (0x16400, 0x17000),
    (0x16600, 0x17200),
    (0x16800, 0x17400),
    (0x15800, 0x15C00),
    (0x15A00, 0x15E00),
];

/// `GL.USC_CONTROL`.
const USC_CONTROL: u32 = 0x3884;

/// Uniforms of HALTI5, and their mirror.
const HALTI5_UNIFORMS: u32 = 0x36000;
const HALTI5_UNIFORMS_MIRROR: u32 = 0x34000;

/// States of HALTI5 that are loaded as fixed-point numbers.
const fn is_converted(byte: u32) -> bool {
    matches!(
        byte,
        0xA00 | 0xA04 | 0xA0C | 0xA10 | 0xA84 | 0xC00..=0xC0C | 0xC20 | 0xC24
    )
}

/// A state that covers a context keeps as a GPU address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressSlot {
    /// Its word in the stream.
    pub(crate) word: usize,
    /// The state, a word address.
    pub(crate) state: u32,
}

/// The states of a core's contexts.
pub(crate) struct StateMap {
    template: KVVec<u32>,
    /// See [`Places`].
    places: KVVec<u16>,
    /// The highest state plus 1 that clients count on.
    state_count: usize,
    addresses: KVVec<AddressSlot>,
    elements: usize,
    element_count: usize,
    link: usize,
    mem_config: usize,
}

/// For each state the word of its value, and [`SPECIAL`]; 0: not kept.
#[derive(Clone, Copy)]
pub(super) struct Places<'a>(&'a [u16]);

/// The state has a [`Group`], or not all of its bits are kept.
const SPECIAL: u16 = 1 << 15;

impl Places<'_> {
    /// The word that holds state `address` (a word address), if it is kept, and whether that is a
    /// special one.
    #[inline(always)]
    pub(super) fn find(self, address: u32) -> Option<(usize, bool)> {
        // CAST: 32 bits into at least 32.
        match self.0.get(address as usize) {
            None | Some(0) => None,
            Some(&place) => Some(((place & !SPECIAL).into(), place & SPECIAL != 0)),
        }
    }
}

/// With what other states one is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// With none.
    None,
    /// With the vertex elements.
    Elements,
    /// With those that are GPU addresses.
    Addresses,
}

/// With what other states state `address` is written, whose word is at `at`. `elements`: the word
/// of the first vertex element, and how many there are.
fn group_of(elements: (usize, usize), at: usize, address: u32) -> Group {
    let (first, count) = elements;
    match at {
        _ if (first..first + count).contains(&at) => Group::Elements,
        _ if address <= 0xFFFF && takes_address(address) => Group::Addresses,
        _ => Group::None,
    }
}

/// Builds the stream, block by block.
struct Builder {
    words: KVVec<u32>,
    places: KVVec<u16>,
    /// Word of the open `LOAD_STATE`'s header, the state after its last one, and whether it
    /// converts.
    open: Option<(usize, u32, bool)>,
}

impl Builder {
    fn raw(&mut self, words: &[u32]) -> Result {
        Ok(self.words.extend_from_slice(words, GFP_KERNEL)?)
    }

    fn pad(&mut self) -> Result {
        if self.words.len() % 2 != 0 {
            self.raw(&[PADDING])?;
        }
        Ok(())
    }

    /// Ends the open `LOAD_STATE`: the next state begins another.
    fn close(&mut self) -> Result {
        if self.open.take().is_some() {
            self.pad()?;
        }
        Ok(())
    }

    fn load(&mut self, byte: u32, count: u32, value: u32, converted: bool) -> Result {
        let first = state::word(byte);
        match self.open {
            Some((header, next, is_converted))
                if next == first
                    && is_converted == converted
                    && words::has_room(self.words[header], count) =>
            {
                self.words[header] += count << 16;
                self.open = Some((header, next + count, converted));
            }
            _ => {
                self.pad()?;
                let header = self.words.len();
                let bit = if converted { FIXP } else { 0 };
                self.raw(&[words::load_state(first, count) | bit])?;
                self.open = Some((header, first + count, converted));
            }
        }
        // CAST: 32 bits into at least 32.
        let end = (first + count) as usize;
        if self.places.len() < end {
            self.places.resize(end, 0, GFP_KERNEL)?;
        }
        for address in first..first + count {
            let place = u16::try_from(self.words.len()).map_err(|_| Error::NotSupported)?;
            // CAST: as above.
            self.places[address as usize] = place;
            self.raw(&[value])?;
        }
        Ok(())
    }

    fn one(&mut self, byte: u32, value: u32) -> Result {
        self.load(byte, 1, value, false)
    }

    fn runs(&mut self, runs: &[Run]) -> Result {
        for &Run(byte, count, value) in runs {
            self.load(byte, count, value, false)?;
        }
        Ok(())
    }

    /// Single states, 0 after a reset.
    fn zeros(&mut self, bytes: &[u32]) -> Result {
        for &byte in bytes {
            self.one(byte, 0)?;
        }
        Ok(())
    }
}

/// Flush of `caches` and a stall.
const fn flush_and_stall(caches: u32) -> [u32; 6] {
    [
        words::load_state(state::GL_FLUSH_CACHE, 1),
        caches,
        words::load_state(state::GL_SEMAPHORE_TOKEN, 1),
        words::TOKEN_FE_TO_PE,
        words::STALL,
        words::TOKEN_FE_TO_PE,
    ]
}

impl Core {
    fn elements(&self) -> u32 {
        if self.minor1 & identity::MINOR1_HALTI0 != 0 {
            16
        } else {
            12
        }
    }

    /// Vertex and pixel uniforms.
    fn uniforms(&self) -> (u32, u32) {
        if self.model < 0x4000 {
            (168, 64)
        } else {
            (256, 256)
        }
    }

    /// All but what resolve and the pixel engine have.
    fn front_part(&self, newer: Option<&Newer<'_>>, to: &mut Builder) -> Result {
        to.one(0x3814, 1)?;
        to.zeros(&[
            0x3818, 0x381C, 0x3820, 0x3828, 0x382C, 0x3834, 0x3838, 0x384C,
        ])?;
        to.load(ELEMENTS, self.elements(), 0, false)?;
        to.close()?;
        to.zeros(&[0x0644, 0x0648, 0x064C, 0x0650])?;
        to.runs(&[
            Run(0x0680, 8, 0),
            Run(0x06A0, 8, 0),
            Run(0x0670, 1, 0),
            Run(0x0678, 1, 0),
            Run(0x067C, 1, !0),
            Run(0x06C0, 16, 0),
            Run(0x0700, 16, 0),
            Run(0x0740, 16, 0),
            Run(0x0780, 16, 0x3F80_0000),
        ])?;
        self.vertex_part(to)?;
        self.pixel_part(to)?;
        self.texture_part(to)?;
        to.zeros(&[
            0x1678, 0x167C, 0x1680, 0x1684, 0x1688, 0x168C, 0x1690, 0x1694, 0x1698, 0x169C,
        ])?;
        to.close()?;
        to.runs(&[Run(0x0900, 8, 0), Run(0x0924, 1, 0)])?;
        to.close()?;
        self.unified_instructions(to)?;
        match newer {
            Some(newer) => self.newer_part(newer, to),
            None => Ok(()),
        }
    }

    /// What the newer drivers keep besides.
    fn newer_part(&self, newer: &Newer<'_>, to: &mut Builder) -> Result {
        to.close()?;
        let mut add = |byte, count, value| match newer.may_load(byte, count) {
            true => to.load(byte, count, value, false),
            false => Ok(()),
        };
        for byte in [
            0x0674, 0x0A88, 0x0E20, 0x0E24, 0x1030, 0x3850, 0x3854, 0x3A00, 0x3A04, 0x3A08,
        ] {
            add(byte, 1, 0)?;
        }
        if self.instructions <= 1024 {
            add(0x0860, 1, 0)?;
        }
        // As many as there are varyings; the first 10 are kept anyway.
        if (11..=16).contains(&newer.varyings) {
            add(0x0A68, newer.varyings - 10, 0)?;
        }
        let has_halti1 = self.minor2 & identity::MINOR2_HALTI1 != 0;
        if has_halti1 {
            add(0x0884, 1, 0)?;
        }
        if self.minor1 & identity::MINOR1_LINEAR_TEXTURE_SUPPORT != 0 && !has_halti1 {
            for sampler in 0..12 {
                add(0x2C00 + 0x40 * sampler, 1, 0)?;
            }
        }
        self.newer_uniforms(newer, &mut add)?;
        if newer.minor3 & identity::MINOR3_INSTRUCTION_CACHE != 0 {
            for byte in [0x0868, 0x086C, 0x304C, 0x1028] {
                add(byte, 1, 0)?;
            }
            add(0x0874, 4, 0)?;
        }
        if newer.minor3 & identity::MINOR3_SH_ENHANCEMENTS2 != 0 {
            add(0x0940, 6, 0)?;
        }
        if newer.minor4 & identity::MINOR4_TEXTURE_ASTC != 0 {
            for byte in [0x10500, 0x10580, 0x10600, 0x10680] {
                add(byte, 32, 0)?;
            }
        }
        if self.pixel_pipes == 1 {
            add(0x1460, 1, 0)?;
            if self.minor1 & identity::MINOR1_HALTI0 != 0 {
                add(0x1480, 1, 0)?;
            }
            for byte in [0x1500, 0x1520] {
                add(byte, 1, 0)?;
            }
        }
        add(0x1540, self.pixel_pipes, 0)?;
        if newer.has_halti2() {
            for (byte, count, value) in [
                (0x14600, 48, 0),
                (0x0E0C, 1, 0),
                (0x102C, 1, 0),
                (0x1034, 2, 0),
                (0x1040, 2, 0),
                (0x10700, 32, 0xF00),
                (0x1780, 8, 0),
                (0x16BC, 1, 0),
                (0x17A4, 7, 0),
                (0x17C4, 7, 0),
                (0x17E4, 7, 0),
                (0x1A04, 7, 0),
                (0x1A24, 7, 0),
                (0x1A44, 7, 0),
                (0x14900, 7, 0),
            ] {
                add(byte, count, value)?;
            }
            for target in 0..7 {
                add(0x14800 + 0x20 * target, self.pixel_pipes, 0)?;
            }
        }
        to.close()
    }

    /// The uniforms that are not among those of the older drivers.
    fn newer_uniforms(
        &self,
        newer: &Newer<'_>,
        add: &mut impl FnMut(u32, u32, u32) -> Result,
    ) -> Result {
        let (vertex, pixel) = self.uniforms();
        if newer.has_common_uniforms() {
            add(0x1024, 1, 0x100)?;
            add(0x0864, 1, 0)?;
            for block in (0..newer.constants.min(512)).step_by(256) {
                let count = (newer.constants - block).min(256);
                add(0x30000 + 16 * block, 4 * count, 0)?;
            }
        } else if newer.constants == 256 && (vertex, pixel) != (256, 256) {
            add(0x5000 + 16 * vertex, 4 * (256 - vertex), 0)?;
            add(0x7000 + 16 * pixel, 4 * (256 - pixel), 0)?;
        }
        Ok(())
    }

    fn vertex_part(&self, to: &mut Builder) -> Result {
        to.zeros(&[0x0800, 0x0804, 0x0808, 0x080C])?;
        to.runs(&[
            Run(0x0810, 4, 0),
            Run(0x0820, 4, 0),
            Run(0x0830, 1, 0),
            Run(0x0838, 1, 0),
        ])?;
        if self.instructions <= 256 {
            to.load(0x4000, 1024, 0, false)?;
        }
        to.close()?;
        to.load(0x5000, 4 * self.uniforms().0, 0, false)
    }

    fn pixel_part(&self, to: &mut Builder) -> Result {
        for (byte, converted) in [
            (0x0A00, true),
            (0x0A04, true),
            (0x0A08, false),
            (0x0A0C, true),
            (0x0A10, true),
        ] {
            to.load(byte, 1, 0, converted)?;
        }
        to.zeros(&[0x0A14, 0x0A18, 0x0A1C, 0x0A28, 0x0A2C, 0x0A30])?;
        to.load(0x0A40, 10, 0, false)?;
        to.zeros(&[0x0A34, 0x0A38, 0x0A3C, 0x0A80])?;
        to.load(0x0A84, 1, 0, true)?;
        to.one(0x0A8C, 0)?;
        for (byte, value, converted) in [
            (0x0C00, 0, true),
            (0x0C04, 0, true),
            (0x0C08, 0x4500_0000, true),
            (0x0C0C, 0x4500_0000, true),
            (0x0C10, 0, false),
            (0x0C14, 0, false),
            (0x0C18, 0, false),
            (0x0C1C, 0x4200_0000, false),
            (0x0C20, 0, true),
            (0x0C24, 0, true),
        ] {
            to.load(byte, 1, value, converted)?;
        }
        to.runs(&[
            Run(0x0E00, 1, 1),
            Run(0x0E10, 4, 0),
            Run(0x0E04, 1, 0),
            Run(0x0E40, 16, 0),
            Run(0x0E08, 1, 0x31),
        ])?;
        to.zeros(&[0x1000, 0x1004, 0x1008, 0x100C, 0x1010])?;
        to.one(0x1018, 0x0100_0000)?;
        if self.instructions <= 256 {
            to.load(0x6000, 1024, 0, false)?;
        }
        to.close()?;
        to.load(0x7000, 4 * self.uniforms().1, 0, false)
    }

    fn texture_part(&self, to: &mut Builder) -> Result {
        for byte in [0x2000, 0x2040, 0x2080, 0x20C0, 0x2100, 0x2140, 0x2180] {
            to.load(byte, 12, 0, false)?;
        }
        to.runs(&[
            Run(0x21C0, 12, 0x0032_1000),
            Run(0x2200, 12, 0),
            Run(0x2240, 12, 0),
        ])?;
        for level in 0..14 {
            to.load(0x2400 + 0x40 * level, 12, 0, false)?;
        }
        to.close()?;
        if self.minor2 & identity::MINOR2_HALTI1 == 0 {
            return Ok(());
        }
        for byte in [0x10000, 0x10080, 0x10100, 0x10180, 0x10200, 0x10280] {
            to.load(byte, 32, 0, false)?;
        }
        to.runs(&[
            Run(0x02C00, 256, 0),
            Run(0x10300, 32, 0),
            Run(0x10380, 32, 0x0032_1000),
            Run(0x10400, 32, 0),
            Run(0x10480, 32, 0),
        ])?;
        if self.minor2 & identity::MINOR2_TX_FILTER != 0 {
            to.runs(&[Run(0x12000, 256, 0), Run(0x12400, 256, 0)])?;
        }
        let is_imx6q = self.model == 0x2000 && self.revision == 0x5108;
        for sampler in 0..if is_imx6q { 12 } else { 32 } {
            to.load(0x10800 + 0x40 * sampler, 14, 0, false)?;
        }
        Ok(())
    }

    /// Instruction memory that vertex and pixel shaders share.
    fn unified_instructions(&self, to: &mut Builder) -> Result {
        if self.instructions <= 256 {
            return Ok(());
        }
        let is_large = self.instructions > 1024;
        to.one(0x085C, 0)?;
        to.one(0x101C, 0x100)?;
        if is_large {
            to.one(0x0860, 0)?;
        }
        to.close()?;
        let base = if is_large { 0x20000 } else { 0x0C000 };
        for block in 0..self.instructions / 256 {
            to.load(base + 0x1000 * block, 1024, 0, false)?;
            to.close()?;
        }
        if !is_large {
            // Where older cores have the vertex shader's: the same memory.
            self.mirrors(to, 0x8000, 0xC000, 4 * self.instructions)?;
        }
        Ok(())
    }

    /// All of a core with HALTI5, whose `USC_CONTROL` has this ratio; returns where the pixel
    /// engine's begin.
    fn halti5(&self, newer: &Newer<'_>, ratio: u32, to: &mut Builder) -> Result<usize> {
        let add = |to: &mut Builder, &Run(byte, count, value): &Run| {
            let value = if byte == USC_CONTROL {
                value | ratio
            } else {
                value
            };
            match newer.may_load(byte, count) {
                true => to.load(byte, count, value, is_converted(byte)),
                false => Ok(()),
            }
        };
        for run in HALTI5_FRONT {
            add(to, run)?;
        }
        for block in (0..newer.constants.min(512)).step_by(256) {
            let count = (newer.constants - block).min(256);
            add(to, &Run(HALTI5_UNIFORMS + 16 * block, 4 * count, 0))?;
            to.close()?;
        }
        let last_part = to.words.len();
        for run in HALTI5_PIXEL {
            add(to, run)?;
        }
        let pipes = self.pixel_pipes;
        add(to, &Run(0x1460, pipes, 0))?;
        if pipes == 1 {
            add(to, &Run(0x1430, 1, 0))?;
            add(to, &Run(0x1410, 1, 0))?;
        } else {
            for byte in [0x16C0, 0x16E0, 0x1700] {
                add(to, &Run(byte, pipes, 0))?;
            }
        }
        for byte in [0x1480, 0x1500, 0x1520, 0x1540] {
            add(to, &Run(byte, pipes, 0))?;
        }
        for target in 0..7 {
            add(to, &Run(0x14800 + 0x20 * target, pipes, 0))?;
        }
        for run in HALTI5_BACK {
            add(to, run)?;
        }
        to.close()?;
        for (mirror, kept) in HALTI5_MIRRORS {
            self.mirrors(to, mirror, kept, 32)?;
        }
        let uniforms = 4 * newer.constants.min(512);
        self.mirrors(to, HALTI5_UNIFORMS_MIRROR, HALTI5_UNIFORMS, uniforms)?;
        Ok(last_part)
    }

    /// Gives `count` states from byte `mirror` on the places of those from `kept` on.
    fn mirrors(&self, to: &mut Builder, mirror: u32, kept: u32, count: u32) -> Result {
        // CAST: 32 bits into at least 32.
        let (old, new) = (state::word(mirror) as usize, state::word(kept) as usize);
        (0..count as usize).try_for_each(|i| self.mirror(to, old + i, new + i))
    }

    fn mirror(&self, to: &mut Builder, old: usize, new: usize) -> Result {
        let place = *to.places.get(new).ok_or(Error::InvalidArgument)?;
        *to.places.get_mut(old).ok_or(Error::InvalidArgument)? = place;
        Ok(())
    }

    /// The pixel engine, resolve and tile status.
    fn back_part(&self, to: &mut Builder) -> Result {
        to.zeros(&[
            0x1400, 0x1404, 0x1408, 0x140C, 0x1414, 0x1418, 0x141C, 0x1420, 0x1424, 0x1428, 0x142C,
            0x1434, 0x1454, 0x1458,
        ])?;
        to.runs(&[
            Run(0x145C, 1, 0x10),
            Run(0x14A0, 1, 0),
            Run(0x14A8, 1, !0),
            Run(0x14AC, 1, !0),
            Run(0x14B0, 1, 0),
            Run(0x14B4, 1, 0),
            Run(0x14A4, 1, 0x000E_400C),
            Run(0x1580, 3, 0),
            Run(0x14B8, 1, 0),
            Run(0x3008, 1, 0),
        ])?;
        let pipes = self.pixel_pipes;
        if pipes == 1 {
            to.zeros(&[0x1430, 0x1410])?;
        } else {
            for byte in [0x1460, 0x1480, 0x1500, 0x1520] {
                to.load(byte, pipes, 0, false)?;
            }
        }
        to.zeros(&[0x1604, 0x1608, 0x160C, 0x1610, 0x1614, 0x1620])?;
        to.runs(&[
            Run(0x1630, 2, 0),
            Run(0x1640, 4, 0),
            Run(0x163C, 1, 0),
            Run(0x16A0, 1, 0),
            Run(0x16B4, 1, 0),
        ])?;
        to.close()?;
        if pipes > 1 {
            for byte in [0x16C0, 0x16E0, 0x1700] {
                to.load(byte, pipes, 0, false)?;
            }
        }
        to.one(0x1654, 0x0020_0000)?;
        to.close()?;
        to.zeros(&[
            0x1658, 0x165C, 0x1660, 0x1664, 0x1668, 0x166C, 0x1670, 0x1674, 0x16A4, 0x16AC, 0x16A8,
        ])?;
        to.runs(&[Run(0x1720, 8, 0), Run(0x1740, 8, 0), Run(0x1760, 8, 0)])?;
        to.close()
    }
}

impl StateMap {
    /// The states of a core. `OutOfMemory`; `NotSupported`: more of them than the map can hold.
    pub(crate) fn new(identity: &Identity) -> Result<Arc<Self>> {
        let core = Core {
            model: identity.model,
            revision: identity.revision,
            minor1: identity.minor_features[1],
            minor2: identity.minor_features[2],
            instructions: identity.instruction_count,
            // Those states are arrays of 8.
            pixel_pipes: identity.pixel_pipes.clamp(1, 8),
        };
        Ok(Arc::new(Self::of(&core, None)?, GFP_KERNEL)?)
    }

    /// The states of a core as the drivers from 5.0.11 on keep them, as far as clients may load
    /// them by `states`. Errors as [`StateMap::new`].
    pub(crate) fn newer(identity: &Identity, states: &States) -> Result<Arc<Self>> {
        let Some(states) = states.sets() else {
            return Self::new(identity);
        };
        let core = Core {
            model: identity.model,
            revision: identity.revision,
            minor1: identity.minor_features[1],
            minor2: identity.minor_features[2],
            instructions: identity.instruction_count,
            pixel_pipes: identity.pixel_pipes.clamp(1, 8),
        };
        let newer = Newer {
            minor3: identity.minor_features[3],
            minor4: identity.later_minor_features[0],
            constants: identity.num_constants,
            varyings: identity.free_varyings,
            states,
            halti5: identity.has_halti5().then(|| identity.l1_cache_ratio()),
        };
        Ok(Arc::new(Self::of(&core, Some(&newer))?, GFP_KERNEL)?)
    }

    fn of(core: &Core, newer: Option<&Newer<'_>>) -> Result<Self> {
        let mut to = Builder {
            words: KVVec::new(),
            places: KVVec::new(),
            open: None,
        };
        let select = [
            words::load_state(state::GL_PIPE_SELECT, 1),
            Pipe::Pipe3d.number(),
        ];
        to.raw(&flush_and_stall(flush::PE2D))?;
        to.raw(&select)?;
        to.raw(&flush_and_stall(
            flush::DEPTH | flush::COLOR | flush::TEXTURE,
        ))?;
        let halti5 = newer.and_then(|newer| Some((newer, newer.halti5?)));
        let last_part = match halti5 {
            Some((newer, ratio)) => core.halti5(newer, ratio, &mut to)?,
            None => {
                core.front_part(newer, &mut to)?;
                let last_part = to.words.len();
                core.back_part(&mut to)?;
                last_part
            }
        };
        to.raw(&[
            words::load_state(state::GL_SEMAPHORE_TOKEN, 1),
            words::TOKEN_FE_TO_PE,
            words::STALL,
            words::TOKEN_FE_TO_PE,
        ])?;
        let link = to.words.len();
        to.raw(&[words::link(0, 0), 0])?;
        // The last entry; its LINK would need the buffer's address.
        to.raw(&flush_and_stall(flush::PE2D))?;
        to.raw(&select)?;
        to.raw(&[words::link(0, 0), 4 * u32::try_from(last_part).unwrap_or(0)])?;
        let mut addresses = KVVec::new();
        for (address, &place) in (0u32..0x1_0000).zip(to.places.iter()) {
            if place != 0 && takes_address(address) {
                let slot = AddressSlot {
                    word: place.into(),
                    state: address,
                };
                addresses.push(slot, GFP_KERNEL)?;
            }
        }
        let place = |byte| {
            // CAST: 32 bits into at least 32.
            let place = to.places.get(state::word(byte) as usize);
            place.map_or(0, |&place| usize::from(place))
        };
        let (elements, element_count) = match halti5 {
            // Each is switched on by a bit of its own.
            Some(_) => (0, 0),
            // CAST: 12 or 16.
            None => (place(ELEMENTS), core.elements() as usize),
        };
        let mem_config = place(0x1654);
        // Every place leaves that bit.
        if to.words.len() > usize::from(SPECIAL) {
            return Err(Error::InvalidArgument);
        }
        for (address, place) in (0u32..).zip(to.places.iter_mut()) {
            let at = usize::from(*place);
            let group = group_of((elements, element_count), at, address);
            if at != 0 && (group != Group::None || at == mem_config) {
                *place |= SPECIAL;
            }
        }
        Ok(Self {
            elements,
            element_count,
            mem_config,
            link,
            addresses,
            state_count: to
                .places
                .len()
                .max(newer.map_or(0, Newer::common_uniforms_end)),
            template: to.words,
            places: to.places,
        })
    }

    /// The highest state plus 1 that the vendor keeps, whether it is kept here or not: the
    /// interface's `stateCount`. Clients size their arrays by it.
    pub(crate) fn state_count(&self) -> usize {
        self.state_count
    }

    /// The words of a fresh context.
    pub(crate) fn template(&self) -> &[u32] {
        &self.template
    }

    /// The words of the states.
    #[inline]
    pub(super) fn places(&self) -> Places<'_> {
        Places(&self.places)
    }

    /// With what other states state `address` is written, whose word is at `at`.
    #[inline(never)]
    pub(super) fn group(&self, at: usize, address: u32) -> Group {
        group_of(self.elements(), at, address)
    }

    /// The word that holds state `address` (a word address), if it is kept.
    pub(crate) fn place(&self, address: u32) -> Option<usize> {
        self.places().find(address).map(|(at, _)| at)
    }

    /// The kept states that are GPU addresses.
    pub(crate) fn addresses(&self) -> &[AddressSlot] {
        &self.addresses
    }

    /// Where the vertex elements stand: the word of the first, and how many there are.
    pub(crate) fn elements(&self) -> (usize, usize) {
        (self.elements, self.element_count)
    }

    /// The word of tile status' memory configuration.
    pub(crate) fn mem_config(&self) -> usize {
        self.mem_config
    }

    /// The word of the LINK to the client's commands.
    pub(crate) fn link(&self) -> usize {
        self.link
    }

    /// Bytes up to and with that LINK.
    pub(crate) fn bytes(&self) -> usize {
        (self.link + 2) * 4
    }
}

mod tests;
