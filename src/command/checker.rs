// SPDX-License-Identifier: GPL-2.0-only

//! The stream checker: one pass over a client's words before the GPU may see them.
//!
//! It runs on the kernel's own copy, so what was checked is what runs. It owns nothing and takes no
//! lock. Refused is what would give a process power over the machine (jumping, stopping the ring,
//! forging events, the kernel's registers), what hangs real silicon (a draw in the wrong pipe, a
//! stall that nothing ends), and GPU addresses in states that are neither 0 nor in memory of the
//! process.
//!
//! Of an address only the first byte is known: how far the engine goes from there, other states say,
//! and those are not looked at.
//!
//! Most words are values of states that mean nothing here. One bit for each state tells which do
//! ([`SPECIAL`]), and a whole `LOAD_STATE` is passed over by its first and last state's words of it.

use super::{
    reach::{
        Range,
        Reach, //
    },
    words::{
        state,
        Opcode,
        Pipe,
        TOKEN_FE_TO_PE, //
    }, //
};
use kernel::prelude::*;

/// Bit of a `LOAD_STATE` header: values are 16.16 numbers, to be converted to floating point.
const FIXP: u32 = 1 << 26;

/// Which engines a core has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Engines {
    /// The 3D pipe.
    pub(crate) pipe_3d: bool,
    /// The 2D pipe.
    pub(crate) pipe_2d: bool,
}

impl Engines {
    /// Whether `pipe` exists.
    pub(crate) fn has(self, pipe: Pipe) -> bool {
        match pipe {
            Pipe::Pipe3d => self.pipe_3d,
            Pipe::Pipe2d => self.pipe_2d,
        }
    }
}

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The opcode is the kernel's or unknown.
    Opcode,
    /// A command is longer than what is left of the stream.
    Truncated,
    /// A state that only the kernel writes (its word address).
    State(u32),
    /// A state (its word address) with a GPU address that is not in the process's memory.
    Address(u32),
    /// A draw of one pipe while the other is selected.
    WrongPipe,
    /// A pipe that this core lacks.
    NoPipe,
    /// A pipe is selected while the other may still draw.
    BusyPipe,
    /// A stall on a token that no semaphore in the stream has armed.
    UnarmedStall,
}

/// A refused stream: what, and at which word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Index of the command's first word.
    pub(crate) at: usize,
    /// The command's first word.
    pub(crate) word: u32,
    /// What is wrong with it.
    pub(crate) fault: Fault,
}

/// From and to of a token.
const TOKEN_MASK: u32 = 0x1F1F;

/// Armed semaphores: one bit for each (from, to).
struct Tokens([u32; 32]);

impl Tokens {
    fn slot(token: u32) -> (usize, u32) {
        // CAST: five bits.
        ((token & 0x1F) as usize, 1 << ((token >> 8) & 0x1F))
    }

    /// Arms a token; says whether it was not armed.
    fn arm(&mut self, token: u32) -> bool {
        let (from, to) = Self::slot(token);
        let fresh = self.0[from] & to == 0;
        self.0[from] |= to;
        fresh
    }

    fn disarm(&mut self, token: u32) -> bool {
        let (from, to) = Self::slot(token);
        let armed = self.0[from] & to != 0;
        self.0[from] &= !to;
        armed
    }
}

/// Whether only the kernel loads state `address` (a word address).
const fn is_kernel_state(address: u32) -> bool {
    (address >= 2 && address < state::FIRST_ENGINE)
        || address == state::FE_CMD_STREAM_BASE_ADDR
        || (address >= state::FE_COMMAND_ADDRESS && address <= state::FE_DMA_HIGH)
        || address == state::GL_EVENT
        || address == state::GL_FLUSH_MMU
}

/// States that take a GPU address: byte address of the first, and how many.
///
/// Source: the union list of spec/command-hw.md section 5.6.
const ADDRESS_STATES: [(u32, u32); 50] = [
    // Vertex and index fetch.
    (0x00644, 1),
    (0x0064C, 1),
    (0x00680, 8),
    (0x14600, 16),
    // Instruction caches.
    (0x0086C, 1),
    (0x01028, 1),
    // Pixel engine.
    (0x01410, 1),
    (0x01430, 1),
    (0x01458, 1),
    (0x01460, 8),
    (0x01480, 8),
    (0x01500, 8),
    (0x01520, 8),
    (0x01540, 8),
    // Resolve.
    (0x01608, 1),
    (0x01610, 1),
    (0x016C0, 8),
    (0x016E0, 8),
    // Tile status.
    (0x01658, 1),
    (0x0165C, 1),
    (0x01664, 1),
    (0x01668, 1),
    (0x016A4, 1),
    (0x01740, 8),
    (0x017C0, 8),
    (0x017E0, 8),
    // YUV tiler.
    (0x01680, 1),
    (0x01688, 1),
    (0x01690, 1),
    (0x01698, 1),
    // Textures: 14 levels of 16 samplers; 32 samplers of 16 levels; descriptors.
    (0x02400, 14 * 16),
    (0x10800, 32 * 16),
    (0x14800, 64),
    // Occlusion query.
    (0x03824, 1),
    // 2D.
    (0x01200, 1),
    (0x01228, 1),
    (0x01238, 1),
    (0x01284, 1),
    (0x0128C, 1),
    (0x01304, 1),
    (0x01310, 1),
    (0x01318, 1),
    (0x12800, 4),
    (0x128A0, 4),
    (0x128C0, 4),
    (0x12970, 4),
    (0x12A00, 8),
    (0x12B40, 8),
    (0x12B80, 8),
    (0x12CE0, 8),
];

/// States of tile status that hold physical addresses, on cores with the old memory controller.
const fn is_physical(address: u32) -> bool {
    matches!(address, 0x596 | 0x597 | 0x599 | 0x59A | 0x5A9)
}

/// A bit for each of the 65536 states.
type StateSet = [u32; 2048];

const fn include(mut set: StateSet, first: u32, count: u32) -> StateSet {
    let mut address = first;
    while address < first + count {
        set[(address >> 5) as usize] |= 1 << (address & 31);
        address += 1;
    }
    set
}

const fn address_states() -> StateSet {
    let mut set = [0; 2048];
    let mut i = 0;
    while i < ADDRESS_STATES.len() {
        let (byte, count) = ADDRESS_STATES[i];
        set = include(set, state::word(byte), count);
        i += 1;
    }
    set
}

const fn special_states() -> StateSet {
    let mut set = ADDRESS;
    let mut address = 0;
    while address <= state::GL_FLUSH_MMU {
        if is_kernel_state(address) {
            set = include(set, address, 1);
        }
        address += 1;
    }
    set = include(set, 0, 2);
    set = include(set, state::RS_KICKER, 1);
    set = include(set, state::GL_PIPE_SELECT, 1);
    set = include(set, state::GL_SEMAPHORE_TOKEN, 1);
    include(set, state::GL_STALL_TOKEN, 1)
}

/// States that take a GPU address.
static ADDRESS: StateSet = address_states();

/// States that the checker looks at.
static SPECIAL: StateSet = special_states();

fn is_in(set: &StateSet, address: u32) -> bool {
    // CAST: 11 bits.
    set[((address >> 5) & 0x7FF) as usize] >> (address & 31) & 1 != 0
}

/// Whether state `address` (a word address below 65536) takes a GPU address.
#[cfg_attr(not(CONFIG_KUNIT), allow(dead_code))]
pub(crate) fn takes_address(address: u32) -> bool {
    is_in(&ADDRESS, address)
}

/// Whether any of `count` states (1 to 1024) from `first` on, all below 65536, is special.
fn any_special(first: u32, count: u32) -> bool {
    let last = first + count - 1;
    let from = u32::MAX << (first & 31);
    let to = u32::MAX >> (31 - (last & 31));
    // CAST: 11 bits.
    let (head, tail) = ((first >> 5) as usize, (last >> 5) as usize);
    if head == tail {
        return SPECIAL[head & 0x7FF] & from & to != 0;
    }
    SPECIAL[head & 0x7FF] & from != 0
        || SPECIAL[tail & 0x7FF] & to != 0
        || SPECIAL
            .get(head + 1..tail)
            .is_some_and(|words| words.iter().any(|&word| word != 0))
}

/// Which GPU addresses a stream may hold.
#[derive(Clone, Copy)]
pub(crate) enum Addresses<'a> {
    /// Any: nothing is looked up.
    Any,
    /// Those of a process, and some that all may use.
    Of {
        /// The process's memory.
        reach: &'a Reach,
        /// What all may use besides.
        common: &'a [Option<Range>],
        /// What is to be taken off addresses of tile status: these are physical on some cores.
        physical_base: u32,
    },
}

/// Ranges that were found lately.
const REMEMBERED: usize = 4;

/// Looks addresses up; remembers the last ranges that it found.
pub(crate) struct Lookup<'a> {
    addresses: Addresses<'a>,
    recent: [Option<Range>; REMEMBERED],
    next: usize,
}

impl<'a> Lookup<'a> {
    /// Nothing remembered.
    pub(crate) fn new(addresses: Addresses<'a>) -> Self {
        Self {
            addresses,
            recent: [None; REMEMBERED],
            next: 0,
        }
    }

    /// Whether state `state` (a word address, one that takes a GPU address) may hold `value`.
    pub(crate) fn allows(&mut self, state: u32, value: u32) -> bool {
        let Addresses::Of {
            reach,
            common,
            physical_base,
        } = self.addresses
        else {
            return true;
        };
        if value == 0 {
            return true;
        }
        let address = if is_physical(state) {
            value.wrapping_sub(physical_base)
        } else {
            value
        };
        let is_recent = |range: &Option<Range>| range.is_some_and(|range| range.contains(address));
        if self.recent.iter().any(is_recent) {
            return true;
        }
        let in_common = || {
            let mut ranges = common.iter().copied().flatten();
            ranges.find(|range| range.contains(address))
        };
        let found = reach.find(address).or_else(in_common);
        if found.is_some() {
            self.recent[self.next] = found;
            self.next = (self.next + 1) % REMEMBERED;
        }
        found.is_some()
    }
}

/// One pass over a stream.
struct Checker<'a> {
    /// Index of the command that is looked at.
    at: usize,
    /// Where addresses are that are not the process's; `None`: such a stream is refused.
    strays: Option<&'a mut KVVec<u32>>,
    engines: Engines,
    lookup: Lookup<'a>,
    pipe: Pipe,
    tokens: Tokens,
    /// The pixel engine may have work.
    busy: bool,
    /// The semaphore to the pixel engine was armed behind all of that work.
    covered: bool,
}

impl Checker<'_> {
    /// Checks the command that `words` begin with and returns its length in words.
    fn command(&mut self, words: &[u32]) -> Result<usize, Fault> {
        let first = words[0];
        match Opcode::of(first) {
            Opcode::LoadState => self.load_state(words),
            Opcode::Nop => Ok(2),
            Opcode::Draw2d => {
                self.draw(Pipe::Pipe2d)?;
                // CAST: eight and eleven bits.
                let rects = match (first >> 8) & 0xFF {
                    0 => 256,
                    n => n as usize,
                };
                let data = ((first >> 16) & 0x7FF) as usize;
                Ok(2 + 2 * rects + data.next_multiple_of(2))
            }
            Opcode::DrawPrimitives | Opcode::DrawInstanced => {
                self.draw(Pipe::Pipe3d)?;
                Ok(4)
            }
            Opcode::DrawIndexed => {
                self.draw(Pipe::Pipe3d)?;
                Ok(6)
            }
            Opcode::Stall => {
                let token = *words.get(1).ok_or(Fault::Truncated)?;
                self.stall(token)?;
                Ok(2)
            }
            Opcode::Other(_) => Err(Fault::Opcode),
        }
    }

    fn load_state(&mut self, words: &[u32]) -> Result<usize, Fault> {
        let header = words[0];
        // With FIXP the hardware stores another value than the one that stands here.
        let converted = header & FIXP != 0;
        let first = header & 0xFFFF;
        let count = match (header >> 16) & 0x3FF {
            0 => 1024,
            n => n,
        };
        // CAST: at most 1024.
        let values = words.get(1..1 + count as usize).ok_or(Fault::Truncated)?;
        if first + count > 0x1_0000 {
            return Err(Fault::State(0x1_0000));
        }
        if any_special(first, count) {
            for (address, (index, &value)) in (first..).zip(values.iter().enumerate()) {
                if is_in(&SPECIAL, address) {
                    match self.special(address, value, converted, count) {
                        Err(Fault::Address(_)) if self.note_stray(self.at + 1 + index) => {}
                        result => result?,
                    }
                }
            }
        }
        Ok((1 + values.len()).next_multiple_of(2))
    }

    /// Notes that word `at` is an address that is not the process's; says whether it could.
    fn note_stray(&mut self, at: usize) -> bool {
        self.strays.as_mut().is_some_and(|strays| {
            // CAST: an index of what was copied from 32-bit user memory.
            strays.push(at as u32, GFP_KERNEL).is_ok()
        })
    }

    /// Checks the load of a special state, one of `count` of a command.
    fn special(
        &mut self,
        address: u32,
        value: u32,
        converted: bool,
        count: u32,
    ) -> Result<(), Fault> {
        if is_in(&ADDRESS, address) {
            return if (converted && value != 0) || !self.lookup.allows(address, value) {
                Err(Fault::Address(address))
            } else {
                Ok(())
            };
        }
        match address {
            // These do nothing from a stream; clients load them one at a time as a delay.
            0 | 1 if count == 1 => {}
            state::GL_PIPE_SELECT
            | state::GL_SEMAPHORE_TOKEN
            | state::GL_STALL_TOKEN
            | state::RS_KICKER
                if converted =>
            {
                return Err(Fault::State(address));
            }
            state::GL_PIPE_SELECT => {
                if self.busy {
                    return Err(Fault::BusyPipe);
                }
                self.pipe = Pipe::from_number(value & 1).ok_or(Fault::NoPipe)?;
                if !self.engines.has(self.pipe) {
                    return Err(Fault::NoPipe);
                }
            }
            state::GL_SEMAPHORE_TOKEN => {
                // Armed twice, the stall may match the first.
                let fresh = self.tokens.arm(value);
                self.covered |= fresh && value & TOKEN_MASK == TOKEN_FE_TO_PE;
            }
            state::GL_STALL_TOKEN => self.stall(value)?,
            state::RS_KICKER => self.draw(Pipe::Pipe3d)?,
            // The kernel's.
            _ => return Err(Fault::State(address)),
        }
        Ok(())
    }

    fn stall(&mut self, token: u32) -> Result<(), Fault> {
        if self.tokens.disarm(token) {
            if token & TOKEN_MASK == TOKEN_FE_TO_PE && self.covered {
                self.busy = false;
            }
            Ok(())
        } else {
            Err(Fault::UnarmedStall)
        }
    }

    fn draw(&mut self, pipe: Pipe) -> Result<(), Fault> {
        self.busy = true;
        self.covered = false;
        if self.pipe == pipe {
            Ok(())
        } else {
            Err(Fault::WrongPipe)
        }
    }
}

/// What a checked stream leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The selected pipe.
    pub(crate) pipe: Pipe,
    /// The semaphore from the front end to the pixel engine is armed.
    pub(crate) armed: bool,
}

/// `LOAD_STATE` of one state, but for FIXP and the state's address.
const LOAD_ONE: u32 = 0x0801_0000;

/// Checks `words`, entered with `entry` selected, for a core with `engines` and a process that may
/// use `addresses`.
pub(crate) fn check(
    words: &[u32],
    engines: Engines,
    entry: Pipe,
    addresses: Addresses<'_>,
) -> Result<Exit, Refusal> {
    pass(words, engines, entry, addresses, None)
}

/// As [`check`], but addresses that are not the process's become 0.
///
/// For the states of a context: those that name memory which has been freed since are no fault of the
/// client's.
pub(crate) fn check_states(
    words: &mut [u32],
    engines: Engines,
    entry: Pipe,
    addresses: Addresses<'_>,
) -> Result<Exit, Refusal> {
    let mut strays = KVVec::new();
    let exit = pass(words, engines, entry, addresses, Some(&mut strays))?;
    for &at in &strays {
        // CAST: 32 bits into at least 32.
        if let Some(word) = words.get_mut(at as usize) {
            *word = 0;
        }
    }
    Ok(exit)
}

fn pass(
    words: &[u32],
    engines: Engines,
    entry: Pipe,
    addresses: Addresses<'_>,
    strays: Option<&mut KVVec<u32>>,
) -> Result<Exit, Refusal> {
    let refuse = |rest: &[u32], fault| Refusal {
        at: words.len() - rest.len(),
        word: rest.first().copied().unwrap_or(0),
        fault,
    };
    if !engines.has(entry) {
        return Err(refuse(words, Fault::NoPipe));
    }
    let mut checker = Checker {
        at: 0,
        strays,
        engines,
        lookup: Lookup::new(addresses),
        pipe: entry,
        tokens: Tokens([0; 32]),
        // The kernel drains behind every stream.
        busy: false,
        covered: false,
    };
    let mut rest = words;
    loop {
        // Most commands load one state that means nothing here.
        if let [first, _, tail @ ..] = rest {
            if first & !(FIXP | 0xFFFF) == LOAD_ONE && !is_in(&SPECIAL, first & 0xFFFF) {
                rest = tail;
                continue;
            }
        }
        if rest.is_empty() {
            break;
        }
        checker.at = words.len() - rest.len();
        let len = checker.command(rest).map_err(|fault| refuse(rest, fault))?;
        rest = rest
            .get(len..)
            .ok_or_else(|| refuse(rest, Fault::Truncated))?;
    }
    Ok(Exit {
        pipe: checker.pipe,
        armed: checker.tokens.disarm(TOKEN_FE_TO_PE),
    })
}

#[kernel::macros::kunit_tests(galcore_checker)]
mod tests {
    use super::super::words::{
        link,
        load_state,
        select_pipe,
        END,
        STALL,
        WAIT, //
    };
    use super::*;

    const BOTH: Engines = Engines {
        pipe_3d: true,
        pipe_2d: true,
    };
    const ONLY_3D: Engines = Engines {
        pipe_3d: true,
        pipe_2d: false,
    };

    fn check_all(words: &[u32], engines: Engines, entry: Pipe) -> Result<Exit, Refusal> {
        check(words, engines, entry, Addresses::Any)
    }

    fn exit(pipe: Pipe) -> Exit {
        Exit { pipe, armed: false }
    }

    fn fault(words: &[u32], entry: Pipe) -> Option<Fault> {
        check_all(words, BOTH, entry)
            .err()
            .map(|refusal| refusal.fault)
    }

    #[test]
    fn an_empty_stream_is_fine() {
        assert_eq!(check_all(&[], BOTH, Pipe::Pipe2d), Ok(exit(Pipe::Pipe2d)));
    }

    #[test]
    fn the_kernels_opcodes_are_refused() {
        for word in [
            END,
            WAIT,
            link(0x1000, 8),
            10 << 27,
            11 << 27,
            13 << 27,
            0,
            !0,
        ] {
            assert_eq!(fault(&[word, 0], Pipe::Pipe3d), Some(Fault::Opcode));
        }
    }

    #[test]
    fn the_kernels_states_are_refused() {
        for byte in [
            0x8, 0x180, 0x184, 0x400, 0x5FC, 0x640, 0x654, 0x66C, 0x3804, 0x3810,
        ] {
            let address = state::word(byte);
            assert_eq!(
                fault(&[load_state(address, 1), 0], Pipe::Pipe3d),
                Some(Fault::State(address))
            );
        }
        // As one of several, too: 0x3800 is allowed, 0x3804 behind it is not.
        let words = [load_state(state::GL_PIPE_SELECT, 2), 0, 0, 0];
        assert_eq!(
            fault(&words, Pipe::Pipe3d),
            Some(Fault::State(state::GL_EVENT))
        );
    }

    #[test]
    fn the_delay_states_are_accepted_alone() {
        let words = [load_state(0, 1), 0, load_state(1, 1), 0];
        assert_eq!(
            check_all(&words, BOTH, Pipe::Pipe2d),
            Ok(exit(Pipe::Pipe2d))
        );
        assert_eq!(
            fault(&[load_state(0, 2), 0, 0, 0], Pipe::Pipe2d),
            Some(Fault::State(0))
        );
    }

    #[test]
    fn truncated_commands_are_refused() {
        assert_eq!(
            fault(&[load_state(0x600, 3), 0], Pipe::Pipe3d),
            Some(Fault::Truncated)
        );
        // 1 + 2 words are padded to 4.
        assert_eq!(
            fault(&[load_state(0x600, 2), 0, 0], Pipe::Pipe3d),
            Some(Fault::Truncated)
        );
        assert_eq!(
            fault(&[0x2000_0100, 0, 0], Pipe::Pipe2d),
            Some(Fault::Truncated)
        );
        // A count of 0 is 1024 values.
        assert_eq!(
            fault(&[load_state(0x600, 0), 0], Pipe::Pipe3d),
            Some(Fault::Truncated)
        );
    }

    #[test]
    fn a_state_address_does_not_wrap() {
        assert_eq!(
            fault(&[load_state(0xFFFF, 2), 0, 0, 0], Pipe::Pipe3d),
            Some(Fault::State(0x1_0000))
        );
    }

    #[test]
    fn draws_need_their_pipe() {
        let draw_2d = [0x2000_0100, 0, 0, 0x0010_0010];
        let draw_3d = [5 << 27, 4, 0, 1];
        assert_eq!(
            check_all(&draw_2d, BOTH, Pipe::Pipe2d),
            Ok(exit(Pipe::Pipe2d))
        );
        assert_eq!(
            check_all(&draw_3d, BOTH, Pipe::Pipe3d),
            Ok(exit(Pipe::Pipe3d))
        );
        assert_eq!(fault(&draw_2d, Pipe::Pipe3d), Some(Fault::WrongPipe));
        assert_eq!(fault(&draw_3d, Pipe::Pipe2d), Some(Fault::WrongPipe));
        assert_eq!(
            check_all(&draw_2d, ONLY_3D, Pipe::Pipe2d)
                .err()
                .map(|r| r.fault),
            Some(Fault::NoPipe)
        );
    }

    #[test]
    fn a_pipe_switch_is_followed() {
        let switch = select_pipe(0xB, Pipe::Pipe2d);
        assert_eq!(
            check_all(&switch, BOTH, Pipe::Pipe3d),
            Ok(exit(Pipe::Pipe2d))
        );
        assert_eq!(
            check_all(&switch, ONLY_3D, Pipe::Pipe3d)
                .err()
                .map(|r| (r.at, r.fault)),
            Some((6, Fault::NoPipe))
        );
    }

    #[test]
    fn a_pipe_switch_waits_for_the_draws() {
        let draw = [0x2000_0100, 0, 0, 0x0010_0010];
        let select = [load_state(state::GL_PIPE_SELECT, 1), 0];
        let arm = [load_state(state::GL_SEMAPHORE_TOKEN, 1), TOKEN_FE_TO_PE];
        let stall = [STALL, TOKEN_FE_TO_PE];
        let stream = |parts: &[&[u32]]| {
            let mut words: KVec<u32> = KVec::new();
            for part in parts {
                words.extend_from_slice(part, GFP_KERNEL).unwrap();
            }
            words
        };
        let good = stream(&[&draw, &arm, &stall, &select]);
        assert_eq!(check_all(&good, BOTH, Pipe::Pipe2d), Ok(exit(Pipe::Pipe3d)));
        assert_eq!(
            check_all(&arm, BOTH, Pipe::Pipe2d).map(|exit| exit.armed),
            Ok(true)
        );
        // The semaphore before the draw says nothing about it.
        for bad in [
            stream(&[&draw, &select]),
            stream(&[&arm, &draw, &stall, &select]),
            stream(&[&draw, &arm, &stall, &draw, &select]),
            stream(&[&arm, &draw, &arm, &stall, &select]),
        ] {
            assert_eq!(fault(&bad, Pipe::Pipe2d), Some(Fault::BusyPipe));
        }
    }

    #[test]
    fn control_states_are_not_converted() {
        for address in [
            state::GL_PIPE_SELECT,
            state::GL_SEMAPHORE_TOKEN,
            state::RS_KICKER,
        ] {
            assert_eq!(
                fault(&[load_state(address, 1) | FIXP, 1], Pipe::Pipe3d),
                Some(Fault::State(address))
            );
        }
        let words = [load_state(0x600, 1) | FIXP, 1];
        assert_eq!(
            check_all(&words, BOTH, Pipe::Pipe3d),
            Ok(exit(Pipe::Pipe3d))
        );
    }

    #[test]
    fn a_stall_needs_its_semaphore() {
        let armed = [
            load_state(state::GL_SEMAPHORE_TOKEN, 1),
            TOKEN_FE_TO_PE,
            STALL,
            TOKEN_FE_TO_PE,
        ];
        assert_eq!(
            check_all(&armed, BOTH, Pipe::Pipe3d),
            Ok(exit(Pipe::Pipe3d))
        );
        assert_eq!(fault(&armed[2..], Pipe::Pipe3d), Some(Fault::UnarmedStall));
        let twice = [armed[0], armed[1], armed[2], armed[3], armed[2], armed[3]];
        assert_eq!(fault(&twice, Pipe::Pipe3d), Some(Fault::UnarmedStall));
    }

    /// What a process with 0x1000 bytes at 0x4000 and at 0x80001000 is told about a stream.
    fn fault_of_process(words: &[u32], physical_base: u32) -> Option<Fault> {
        let mut reach = Reach::new();
        assert!(reach.add(0x4000, 0x1000).is_ok());
        assert!(reach.add(0x8000_1000, 0x1000).is_ok());
        let common = [None, Range::new(0x1000_0000, 0x100)];
        let addresses = Addresses::Of {
            reach: &reach,
            common: &common,
            physical_base,
        };
        check(words, BOTH, Pipe::Pipe3d, addresses)
            .err()
            .map(|refusal| refusal.fault)
    }

    #[test]
    fn addresses_are_the_processs_own() {
        for (byte, count) in ADDRESS_STATES {
            for address in state::word(byte)..state::word(byte) + count {
                for good in [0, 0x4000, 0x4FFF, 0x8000_1000, 0x8000_1FFF, 0x1000_00FF] {
                    assert_eq!(fault_of_process(&[load_state(address, 1), good], 0), None);
                }
                for bad in [1, 0x3FFF, 0x5000, 0x8000_0FFF, 0x8000_2000, !0, 0x1000_0100] {
                    assert_eq!(
                        fault_of_process(&[load_state(address, 1), bad], 0),
                        Some(Fault::Address(address))
                    );
                }
            }
        }
    }

    #[test]
    fn an_address_among_other_states_is_seen() {
        // 0x1600 to 0x1610 without the kick: 0x1604, 0x1608 (address), 0x160C, 0x1610 (address).
        let load = |source, dest| [load_state(state::word(0x1604), 4), 9, source, 9, dest, 0];
        assert_eq!(fault_of_process(&load(0x4000, 0x4010), 0), None);
        assert_eq!(
            fault_of_process(&load(0x4000, 0x5000), 0),
            Some(Fault::Address(state::word(0x1610)))
        );
        assert_eq!(
            fault_of_process(&load(8, 0x4000), 0),
            Some(Fault::Address(state::word(0x1608)))
        );
        // As the first and last of many, with a whole word of the set between them.
        let mut words: KVec<u32> = KVec::new();
        words.resize(1026, 0, GFP_KERNEL).unwrap();
        words[0] = load_state(state::word(0x1698) - 1000, 0);
        assert_eq!(fault_of_process(&words, 0), None);
        words[1001] = 4;
        assert_eq!(
            fault_of_process(&words, 0),
            Some(Fault::Address(state::word(0x1698)))
        );
    }

    #[test]
    fn strays_of_a_context_become_0() {
        let mut reach = Reach::new();
        assert!(reach.add(0x4000, 0x1000).is_ok());
        let addresses = Addresses::Of {
            reach: &reach,
            common: &[],
            physical_base: 0,
        };
        let clean = |words: &mut [u32]| check_states(words, BOTH, Pipe::Pipe3d, addresses);
        let mut words = [
            load_state(state::word(0x1604), 4),
            0x9999,
            0x4FFC,
            0x9999,
            0x5000,
            0,
            load_state(state::word(0x0680), 1) | FIXP,
            0x4000,
            load_state(state::word(0x0A00), 1),
            0x5000,
        ];
        let (mut wanted, given) = (words, words);
        wanted[4] = 0;
        wanted[7] = 0;
        assert_eq!(clean(&mut words), Ok(exit(Pipe::Pipe3d)));
        assert_eq!(words, wanted);
        // All else is as in commands; and what is refused stays as it is.
        let mut words = [given[0], 9, 1, 9, 1, 0, load_state(state::GL_EVENT, 1), 3];
        let before = words;
        assert!(
            clean(&mut words).is_err_and(|refusal| refusal.fault == Fault::State(state::GL_EVENT))
        );
        assert_eq!(words, before);
    }

    #[test]
    fn an_address_is_not_converted() {
        let words = |value| [load_state(state::word(0x1608), 1) | FIXP, value];
        assert_eq!(fault_of_process(&words(0), 0), None);
        assert_eq!(
            fault_of_process(&words(0x4000), 0),
            Some(Fault::Address(state::word(0x1608)))
        );
    }

    #[test]
    fn tile_status_may_be_physical() {
        for byte in [0x1658, 0x165C, 0x1664, 0x1668, 0x16A4] {
            let words = |value| [load_state(state::word(byte), 1), value];
            assert_eq!(fault_of_process(&words(0x1000_4000), 0x1000_0000), None);
            assert!(fault_of_process(&words(0x4000), 0x1000_0000).is_some());
            assert_eq!(fault_of_process(&words(0), 0x1000_0000), None);
        }
        let other = [load_state(state::word(0x1608), 1), 0x1000_4000];
        assert!(fault_of_process(&other, 0x1000_0000).is_some());
    }

    #[test]
    fn every_state_is_as_the_lists_say() {
        for address in 0..0x1_0000 {
            let listed = ADDRESS_STATES
                .iter()
                .any(|&(byte, n)| (state::word(byte)..state::word(byte) + n).contains(&address));
            assert_eq!(takes_address(address), listed);
            let kernels =
                fault(&[load_state(address, 1), 0], Pipe::Pipe3d) == Some(Fault::State(address));
            assert_eq!(kernels, is_kernel_state(address));
            assert!(!(listed && kernels));
        }
    }
}
