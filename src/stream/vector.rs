// SPDX-License-Identifier: GPL-2.0-only

//! Streams of the vector graphics core: their words, and the checker of client streams.
//!
//! Pure logic. The front end differs from that of 3D and 2D: bits 31 to 28 are the opcode, and
//! every command starts on 8 bytes. A client's words may load states of the drawing engine, hold
//! data, wait for modules, and CALL. The driver replaces a CALL by the called words
//! ([`next_call`]), so that nothing runs from memory that the client can change. LINK, RETURN, END
//! and events are the kernel's. The checker passes known states, and others only with their reset
//! value. Address states must name memory of the process, and 0 becomes scratch memory, as with
//! other cores ([`super::checker`]).
//!
//! No MMU confines the core. So the checker follows the address, stride and size of each surface
//! and of each tessellator buffer from job to job ([`Values`]). All that a draw may touch must lie
//! in one piece of the process's memory ([`Access::bytes_from`]). Rectangles are clipped to the
//! target. Sources: sources.md, vector graphics; for what a path or an image uses, VGLite (MIT) for
//! this core.

mod surfaces;

use super::table;
use crate::sys::prelude::*;
use surfaces::{
    check_drawing,
    clip,
    TARGET_SURFACE, //
};

pub(crate) use surfaces::Access;

/// States whose values the checker follows, by word address. First those with addresses
/// ([`ADDRESS_STATES`]): target; images 1 and 0; tessellation buffer and its two levels, for the
/// drawing engine and for the tessellator; planes of images, and of the target. Then those that
/// give the sizes.
pub(crate) const TRACKED: [u32; 32] = [
    0xA11, 0xA28, 0xA29, 0xA30, 0xA31, 0xA32, 0xA35, 0xA36, 0xA37, 0xA50, 0xA51, 0xA52, 0xA53,
    0xA5C, 0xA5D, // Addresses.
    0xA00, 0xA10, 0xA12, 0xA13, // Control, and the target's format, stride and size.
    0xA24, 0xA2A, 0xA2C, 0xA2E, // Format, stride, origin and size of image 1,
    0xA25, 0xA2B, 0xA2D, 0xA2F, // and of image 0.
    0xA33, 0xA34, 0xA38, 0xA3A, 0xA3D, // The tessellator's.
];

/// How many of [`TRACKED`] hold addresses.
pub(crate) const ADDRESS_STATES: usize = 15;

/// Indexes in [`TRACKED`].
mod tracked {
    pub(super) const TARGET: usize = 0;
    pub(super) const CONTROL: usize = 15;
    pub(super) const TARGET_FORMAT: usize = 16;
    pub(super) const TARGET_STRIDE: usize = 17;
    pub(super) const TARGET_SIZE: usize = 18;
    pub(super) const TARGET_PLANES: [usize; 2] = [13, 14];
    pub(super) const READ: [usize; 3] = [3, 4, 5];
    pub(super) const WRITE: [usize; 3] = [6, 7, 8];
    pub(super) const READ_STRIDE: usize = 27;
    pub(super) const TESSELLATOR: usize = 28;
    pub(super) const WRITE_STRIDE: usize = 29;
    pub(super) const WINDOW: usize = 30;
    pub(super) const LEVEL_2: usize = 31;
}

/// Index of the target in [`TRACKED`].
#[cfg(CONFIG_KUNIT)]
pub(crate) const TARGET: usize = tracked::TARGET;

/// The core's values of [`TRACKED`].
pub(crate) type Values = [u32; TRACKED.len()];

/// Initial values: no surface has a size, and addresses are those of scratch memory.
pub(crate) fn nothing(scratch: u32) -> Values {
    core::array::from_fn(|which| if which < ADDRESS_STATES { scratch } else { 0 })
}

/// Other states of the drawing engine that clients may load: the first and the last of each range.
/// The reset values of 0xA3E, 0xA3F and 0xA46 to 0xA4F (rnndb) are no addresses.
const PLAIN_STATES: [(u32, u32); 7] = [
    (0xA01, 0xA09),
    (0xA18, 0xA22),
    (0xA26, 0xA27),
    (0xA39, 0xA39),
    (0xA3B, 0xA3C),
    (0xA3E, 0xA4F),
    (0xA90, 0xA97),
];

/// The other states in this range are 0 after a reset (rnndb). A client may load 0, since some
/// clients load all states.
const RESET_STATES: core::ops::RangeInclusive<u32> = 0xA00..=0xA78;

/// Flush of the drawing engine's caches.
const FLUSH: u32 = 0xA1B;
const FLUSH_ALL: u32 = 0x11;

const EVENT: u32 = 0xE01;

/// Semaphore and stall between modules.
const SEMAPHORE_TOKEN: u32 = 0xE02;
const STALL_TOKEN: u32 = 0xF00;

/// Pixel engine.
const PIXEL: u32 = 7;

/// Padding after the values of a STATE command.
const PAD: u32 = 0x8000_0000;

/// Commands, by their opcodes.
mod opcode {
    /// The front end stops.
    pub(crate) const END: u32 = 0;
    /// A module's semaphore is armed.
    pub(crate) const SEMAPHORE: u32 = 1;
    /// The front end waits for a module.
    pub(crate) const STALL: u32 = 2;
    /// States are loaded.
    pub(crate) const STATE: u32 = 3;
    /// Rectangles, or a path.
    pub(crate) const DATA: u32 = 4;
    /// The front end jumps to a subroutine.
    pub(crate) const CALL: u32 = 6;
    /// The front end returns from a subroutine.
    pub(crate) const RETURN: u32 = 7;
    /// No operation.
    pub(crate) const NOP: u32 = 8;
}

/// Fields of a command's first word.
const COUNT_MASK: u32 = 0x1F_FFFF;
const MODULE_MASK: u32 = 0x1F;
const OPERAND_MASK: u32 = 0x0FFF_FFFF;

/// A module that raises events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Module {
    /// The tessellator.
    Tessellator,
    /// The drawing engine.
    Drawing,
    /// The pixel engine.
    Pixel,
}

impl Module {
    /// The number as a source of events and in semaphores.
    fn number(self) -> u32 {
        match self {
            Module::Tessellator => 0x10,
            Module::Drawing => 0x0F,
            Module::Pixel => PIXEL,
        }
    }
}

/// Whether a client's words may wait for the module `number`.
fn is_module(number: u32) -> bool {
    let all = [Module::Tessellator, Module::Drawing, Module::Pixel];
    all.iter().any(|module| module.number() == number)
}

/// The command that loads one state.
pub(crate) fn state(address: u32, value: u32) -> [u32; 2] {
    [opcode::STATE << 28 | 1 << 16 | address, value]
}

/// The command that has `module` raise interrupt `id` when all work before it has drained.
pub(crate) fn event(module: Module, id: u32) -> [u32; 2] {
    state(EVENT, id | module.number() << 8)
}

/// The command that stops the front end and raises interrupt `id`.
pub(crate) fn end(id: u32) -> [u32; 2] {
    [opcode::END << 28 | id, 0]
}

/// The commands that flush the pixel engine's caches and wait until it has drained.
pub(crate) fn drain() -> [u32; 6] {
    let [flush, all] = state(FLUSH, FLUSH_ALL);
    [
        flush,
        all,
        opcode::SEMAPHORE << 28 | PIXEL,
        0,
        opcode::STALL << 28 | PIXEL,
        0,
    ]
}

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The opcode is the kernel's or unknown, or has no place here.
    Opcode,
    /// A command is longer than what is left, or has no length.
    Length,
    /// A state (its word address) that clients do not write.
    State(u32),
    /// A state (its word address) with an address that is not in the process's memory.
    Address(u32),
    /// A module that no command may wait for.
    Module,
    /// A semaphore that is armed twice, or without a stall; a stall without a semaphore.
    Semaphore,
    /// Called words have no RETURN.
    NoReturn,
    /// A draw without a target.
    NoTarget,
    /// A draw with an unknown primitive.
    Primitive,
    /// A surface (the word address of its address) with a stride that does not fit it.
    Stride(u32),
    /// A surface or buffer (the word address of its address) extends past the process's memory.
    Extent(u32),
    /// A rectangle outside the target.
    Rectangle,
}

/// Why and at which word a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Index of the command's first word.
    pub(crate) at: usize,
    /// The command's first word; 0 after the end.
    pub(crate) word: u32,
    /// What is wrong with it.
    pub(crate) fault: Fault,
}

impl Refusal {
    fn new(words: &[u32], at: usize, fault: Fault) -> Self {
        Self {
            at,
            word: words.get(at).copied().unwrap_or(0),
            fault,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, state) = match *self {
            Fault::State(state) => ("clients do not load it", state),
            Fault::Address(state) => ("its address is not in the process's memory", state),
            Fault::Stride(state) => ("the stride does not fit the surface there", state),
            Fault::Extent(state) => ("it reaches beyond the process's memory", state),
            Fault::Opcode => return f.write_str("an opcode that has no place here, or unknown"),
            Fault::Length => return f.write_str("the command is longer than what is left"),
            Fault::Module => return f.write_str("a module that no command may wait for"),
            Fault::Semaphore => {
                return f.write_str("a semaphore without a stall, or a stall without one")
            }
            Fault::NoReturn => return f.write_str("what is called does not return"),
            Fault::NoTarget => return f.write_str("it draws without a target"),
            Fault::Primitive => return f.write_str("it draws what is not known to be drawn"),
            Fault::Rectangle => return f.write_str("a rectangle outside of the target"),
        };
        let name = table::vector_name(state).unwrap_or("no name");
        write!(f, "state {state:#x} ({name}): {what}")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, word, fault } = self;
        fault.fmt(f)?;
        write!(f, ", at word {at} ({word:#010x})")
    }
}

/// Words of the command at `at`, with its padding. `Length`: fewer words are left.
fn length(words: &[u32], at: usize) -> Result<usize, Fault> {
    let first = words.get(at).copied().ok_or(Fault::Length)?;
    let length = length_of(first)?;
    if length <= words.len() - at {
        Ok(length)
    } else {
        Err(Fault::Length)
    }
}

/// Words of the command that begins with `first`, with its padding.
fn length_of(first: u32) -> Result<usize, Fault> {
    let words_of = |count: u32| usize::try_from(count).map_err(|_| Fault::Length);
    let length = match first >> 28 {
        opcode::STATE => {
            let count = words_of((first >> 16) & 0xFFF)?;
            if count == 0 {
                return Err(Fault::Length);
            }
            (1 + count).next_multiple_of(2)
        }
        opcode::DATA => {
            let units = words_of(first & COUNT_MASK)?;
            if units == 0 {
                return Err(Fault::Length);
            }
            2 + 2 * units
        }
        opcode::SEMAPHORE | opcode::STALL | opcode::CALL | opcode::RETURN | opcode::NOP => 2,
        _ => return Err(Fault::Opcode),
    };
    Ok(length)
}

/// A CALL in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Index of the CALL's first word.
    pub(crate) at: usize,
    /// Physical address of the called words.
    pub(crate) address: u32,
    /// Number of called words.
    pub(crate) words: usize,
}

/// Words of a CALL.
pub(crate) const CALL_WORDS: usize = 2;

/// The first CALL at or after the command at `from`.
pub(crate) fn next_call(words: &[u32], from: usize) -> Result<Option<Call>, Refusal> {
    let mut at = from;
    while at < words.len() {
        let refuse = |fault| Refusal::new(words, at, fault);
        let length = length(words, at).map_err(refuse)?;
        let first = words[at];
        if first >> 28 == opcode::CALL {
            let units = usize::try_from(first & COUNT_MASK).map_err(|_| refuse(Fault::Length))?;
            return Ok(Some(Call {
                at,
                address: words[at + 1],
                words: 2 * units,
            }));
        }
        at += length;
    }
    Ok(None)
}

/// The number of called `words` before their RETURN.
pub(crate) fn called(words: &[u32]) -> Result<usize, Refusal> {
    let mut at = 0;
    while at < words.len() {
        let length = length(words, at).map_err(|fault| Refusal::new(words, at, fault))?;
        if words[at] >> 28 == opcode::RETURN {
            return Ok(at);
        }
        at += length;
    }
    Err(Refusal::new(words, at, Fault::NoReturn))
}

/// Semaphores that are armed.
#[derive(Default)]
struct Armed {
    /// Those that the front end stalls on: a bit for each module.
    modules: u32,
    /// The one between two modules.
    token: Option<u32>,
}

impl Armed {
    fn module(&mut self, first: u32, arms: bool) -> Result<(), Fault> {
        let module = first & MODULE_MASK;
        if !is_module(module) || first & OPERAND_MASK != module {
            return Err(Fault::Module);
        }
        if (self.modules & 1 << module != 0) == arms {
            return Err(Fault::Semaphore);
        }
        self.modules ^= 1 << module;
        Ok(())
    }

    fn token(&mut self, token: u32, arms: bool) -> Result<(), Fault> {
        let (from, to) = (token & 0x1F, (token >> 8) & 0x1F);
        if token != from | to << 8 || from == to || !is_module(from) || !is_module(to) {
            return Err(Fault::Module);
        }
        match (self.token, arms) {
            (None, true) => self.token = Some(token),
            (Some(armed), false) if armed == token => self.token = None,
            _ => return Err(Fault::Semaphore),
        }
        Ok(())
    }
}

/// For each state from `0xA00` on: its index in [`TRACKED`], or the length of that.
const PLACES: [u8; 0x60] = {
    // CAST: small.
    let mut places = [TRACKED.len() as u8; 0x60];
    let mut which = 0;
    while which < TRACKED.len() {
        // CAST: small.
        places[(TRACKED[which] - 0xA00) as usize] = which as u8;
        which += 1;
    }
    places
};

/// Index of state `address` in [`TRACKED`].
#[inline]
fn place(address: u32) -> Option<usize> {
    let offset = usize::try_from(address.checked_sub(0xA00)?).ok()?;
    let place = usize::from(*PLACES.get(offset)?);
    (place < TRACKED.len()).then_some(place)
}

/// Checks a client's words, which have no CALL, for a core that holds `values`. Returns the values
/// after them.
pub(crate) fn check(
    words: &mut [u32],
    mut values: Values,
    access: &Access<'_>,
) -> Result<Values, Refusal> {
    let mut armed = Armed::default();
    // The followed states have been checked since the last load of one.
    let mut is_sure = false;
    let mut at = 0;
    while at < words.len() {
        let checked = length(words, at).and_then(|length| {
            let words = &mut words[at..at + length];
            match words[0] >> 28 {
                opcode::STATE => {
                    is_sure &= !load(words, &mut armed, &mut values, access)?;
                }
                opcode::DATA => {
                    if words[0] & OPERAND_MASK & !COUNT_MASK != 0 {
                        return Err(Fault::Opcode);
                    }
                    if access.bytes_from.is_some() {
                        if !is_sure {
                            check_drawing(&values, access)?;
                            is_sure = true;
                        }
                        if values[tracked::TESSELLATOR] == 0 {
                            clip(&mut words[2..], TARGET_SURFACE.size(&values))?;
                        }
                    }
                }
                opcode::SEMAPHORE => armed.module(words[0], true)?,
                opcode::STALL => armed.module(words[0], false)?,
                opcode::NOP => {}
                _ => return Err(Fault::Opcode),
            }
            Ok(length)
        });
        at += checked.map_err(|fault| Refusal::new(words, at, fault))?;
    }
    match armed {
        Armed {
            modules: 0,
            token: None,
        } => Ok(values),
        _ => Err(Refusal::new(words, at, Fault::Semaphore)),
    }
}

/// Checks a STATE command. Returns whether it loads a followed state.
fn load(
    words: &mut [u32],
    armed: &mut Armed,
    values: &mut Values,
    access: &Access<'_>,
) -> Result<bool, Fault> {
    let first = words[0];
    // Bits 13 and 12 select a pipe, and only pipe 0 is known.
    if first & 0xF000 != 0 {
        return Err(Fault::Opcode);
    }
    // CAST: 12 bits.
    let count = ((first >> 16) & 0xFFF) as usize;
    let (loaded, padding) = words[1..].split_at_mut(count);
    let mut is_followed = false;
    for (address, value) in (first & 0xFFF..).zip(loaded) {
        let Some(place) = place(address) else {
            plain_state(address, *value, armed)?;
            continue;
        };
        if place < ADDRESS_STATES {
            *value = access.resolve(*value).ok_or(Fault::Address(address))?;
        }
        values[place] = *value;
        is_followed = true;
    }
    padding.fill(PAD);
    Ok(is_followed)
}

/// Checks a state that is not followed.
fn plain_state(address: u32, value: u32, armed: &mut Armed) -> Result<(), Fault> {
    match address {
        SEMAPHORE_TOKEN => armed.token(value, true),
        STALL_TOKEN => armed.token(value, false),
        _ => {
            let mut ranges = PLAIN_STATES.iter();
            let is_plain = ranges.any(|&(first, last)| (first..=last).contains(&address));
            if is_plain || value == 0 && RESET_STATES.contains(&address) {
                Ok(())
            } else {
                Err(Fault::State(address))
            }
        }
    }
}

mod tests;
