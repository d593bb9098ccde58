// SPDX-License-Identifier: GPL-2.0-only

//! Streams of the vector graphics core: their words, and the check of a client's.
//!
//! Pure logic. The front end is another than that of 3D and 2D: bits 31 to 28 are the opcode, and
//! every command starts on 8 bytes. A client's words may load states of the drawing engine, hold
//! data, wait for modules, and CALL: what is called is copied behind its CALL's place
//! ([`next_call`]), so that no CALL is left, and nothing runs from memory that the client can
//! change. Fetching, jumping back, ending and events are the kernel's. Of states only those are let
//! through that are known; those that take addresses must name memory of the process, and 0 becomes
//! memory that is nobody's, as with other cores ([`super::checker`]). That memory is small, and
//! no MMU keeps the core in it: nothing may be drawn there ([`Exit::draws_before`]). Source:
//! spec/multicore-vg.md sections B.7 and B.8.

use kernel::{
    fmt,
    prelude::*, //
};

/// States that take addresses, by word address: target; images 1 and 0; tessellation buffer and its
/// two levels, as the drawing engine and as the tessellator have them; planes of images, and of the
/// target.
pub(crate) const ADDRESS_STATES: [u32; 15] = [
    0xA11, 0xA28, 0xA29, 0xA30, 0xA31, 0xA32, 0xA35, 0xA36, 0xA37, 0xA50, 0xA51, 0xA52, 0xA53,
    0xA5C, 0xA5D,
];

/// Where the target is among [`ADDRESS_STATES`], and the buffers of the tessellator.
pub(crate) const TARGET: usize = 0;
pub(crate) const TESSELLATION: u32 = 0x1F8;

/// The tessellator's control; 0: off.
pub(crate) const TESSELLATOR: u32 = 0xA34;

/// By [`ADDRESS_STATES`], a value.
pub(crate) type Values = [u32; ADDRESS_STATES.len()];

/// Other states of the drawing engine: the first and the last of each range. The reset values of
/// 0xA3E, 0xA3F and 0xA46 to 0xA4F (rnndb) are no addresses.
const PLAIN_STATES: [(u32, u32); 12] = [
    (0xA00, 0xA09),
    (0xA10, 0xA10),
    (0xA12, 0xA13),
    (0xA18, 0xA22),
    (0xA25, 0xA25),
    (0xA27, 0xA27),
    (0xA2A, 0xA2F),
    (0xA33, 0xA34),
    (0xA38, 0xA3F),
    (0xA40, 0xA45),
    (0xA46, 0xA4F),
    (0xA90, 0xA97),
];

/// Flush of the drawing engine's caches.
const FLUSH: u32 = 0xA1B;
const FLUSH_ALL: u32 = 0x11;

/// Event: a module raises an interrupt when it has drained.
const EVENT: u32 = 0xE01;

/// Semaphore and stall between modules.
const SEMAPHORE_TOKEN: u32 = 0xE02;
const STALL_TOKEN: u32 = 0xF00;

/// Pixel engine.
const PIXEL: u32 = 7;

/// What a STATE word pads its values with.
const PAD: u32 = 0x8000_0000;

/// Commands, by their opcodes.
mod opcode {
    pub(super) const END: u32 = 0;
    pub(super) const SEMAPHORE: u32 = 1;
    pub(super) const STALL: u32 = 2;
    pub(super) const STATE: u32 = 3;
    pub(super) const DATA: u32 = 4;
    pub(super) const CALL: u32 = 6;
    pub(super) const RETURN: u32 = 7;
    pub(super) const NOP: u32 = 8;
}

/// Number of a count or an operand.
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
    /// Its number as a source of events and in semaphores.
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

/// One state.
pub(crate) fn state(address: u32, value: u32) -> [u32; 2] {
    [opcode::STATE << 28 | 1 << 16 | address, value]
}

/// `module` raises interrupt `id` when all before it has drained.
pub(crate) fn event(module: Module, id: u32) -> [u32; 2] {
    state(EVENT, id | module.number() << 8)
}

/// The front end stops, and raises interrupt `id`.
pub(crate) fn end(id: u32) -> [u32; 2] {
    [opcode::END << 28 | id, 0]
}

/// The pixel engine's caches are flushed, and the front end waits until it has drained.
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
    /// A module that nobody may wait for.
    Module,
    /// A semaphore that is armed already, or that nothing stalls on; a stall on none.
    Semaphore,
    /// What is called does not return.
    NoReturn,
    /// Something is drawn without a target.
    NoTarget,
}

/// A refused stream: what, and at which word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Index of the command's first word.
    pub(crate) at: usize,
    /// The command's first word; 0 behind the end.
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, word, fault } = self;
        write!(f, "{fault:x?}, at word {at} ({word:#010x})")
    }
}

/// Words of the command at `at`, with its padding, which may be missing at the end.
fn length(words: &[u32], at: usize) -> Result<usize, Fault> {
    let first = words.get(at).copied().ok_or(Fault::Length)?;
    let words_of = |count: u32| usize::try_from(count).map_err(|_| Fault::Length);
    let length = match first >> 28 {
        opcode::STATE => {
            let count = words_of((first >> 16) & 0xFFF)?;
            if count == 0 {
                return Err(Fault::Length);
            }
            (1 + count).next_multiple_of(2)
        }
        opcode::DATA => 2 + 2 * words_of(first & COUNT_MASK)?,
        opcode::SEMAPHORE | opcode::STALL | opcode::CALL | opcode::RETURN | opcode::NOP => 2,
        _ => return Err(Fault::Opcode),
    };
    match length <= words.len() - at {
        true => Ok(length),
        false => Err(Fault::Length),
    }
}

/// What a CALL calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Index of its first word.
    pub(crate) at: usize,
    /// Physical address.
    pub(crate) address: u32,
    /// Words.
    pub(crate) words: usize,
}

/// Words of a CALL.
pub(crate) const CALL_WORDS: usize = 2;

/// The first CALL from the command at `from` on.
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

/// How many of called `words` stand in front of their RETURN.
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
    /// For the front end, a bit a module.
    modules: u32,
    /// Between modules.
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

/// Which of [`ADDRESS_STATES`] state `address` is.
fn address_state(address: u32) -> Option<usize> {
    ADDRESS_STATES.iter().position(|&state| state == address)
}

/// What words do to the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    /// By [`ADDRESS_STATES`], what they leave there, if they load it.
    pub(crate) loaded: [Option<u32>; ADDRESS_STATES.len()],
    /// They draw before they load a target.
    pub(crate) draws_before: bool,
}

/// Checks a client's words, without CALLs. `scratch` is the address of memory that is nobody's;
/// `resolve` gives what is loaded for a client's address; `None`: it may not use that.
pub(crate) fn check(
    words: &mut [u32],
    scratch: u32,
    mut resolve: impl FnMut(u32) -> Option<u32>,
) -> Result<Exit, Refusal> {
    let mut exit = Exit::default();
    let mut armed = Armed::default();
    let mut at = 0;
    while at < words.len() {
        let checked = length(words, at).and_then(|length| {
            let command = &mut words[at..at + length];
            if command[0] >> 28 == opcode::DATA {
                match exit.loaded[TARGET] {
                    Some(target) if target == scratch => return Err(Fault::NoTarget),
                    Some(_) => {}
                    None => exit.draws_before = true,
                }
            }
            self::command(command, &mut armed, &mut exit.loaded, &mut resolve)?;
            Ok(length)
        });
        at += checked.map_err(|fault| Refusal::new(words, at, fault))?;
    }
    match armed {
        Armed {
            modules: 0,
            token: None,
        } => Ok(exit),
        _ => Err(Refusal::new(words, at, Fault::Semaphore)),
    }
}

/// Checks one command.
fn command(
    words: &mut [u32],
    armed: &mut Armed,
    loaded: &mut [Option<u32>],
    resolve: &mut impl FnMut(u32) -> Option<u32>,
) -> Result<(), Fault> {
    let first = words[0];
    match first >> 28 {
        opcode::STATE => {
            // Bits 13 and 12 are a pipe, of which only the first is known.
            if first & 0xF000 != 0 {
                return Err(Fault::Opcode);
            }
            // CAST: 12 bits.
            let count = ((first >> 16) & 0xFFF) as usize;
            let (values, padding) = words[1..].split_at_mut(count);
            for (address, value) in (first & 0xFFF..).zip(values) {
                match address_state(address) {
                    Some(which) => {
                        *value = resolve(*value).ok_or(Fault::Address(address))?;
                        loaded[which] = Some(*value);
                    }
                    None => plain_state(address, *value, armed)?,
                }
            }
            padding.fill(PAD);
            Ok(())
        }
        opcode::DATA if first & OPERAND_MASK & !COUNT_MASK == 0 => Ok(()),
        opcode::SEMAPHORE => armed.module(first, true),
        opcode::STALL => armed.module(first, false),
        opcode::NOP => Ok(()),
        _ => Err(Fault::Opcode),
    }
}

/// Checks a state that takes no address.
fn plain_state(address: u32, value: u32, armed: &mut Armed) -> Result<(), Fault> {
    match address {
        SEMAPHORE_TOKEN => armed.token(value, true),
        STALL_TOKEN => armed.token(value, false),
        _ => {
            let mut ranges = PLAIN_STATES.iter();
            match ranges.any(|&(first, last)| (first..=last).contains(&address)) {
                true => Ok(()),
                false => Err(Fault::State(address)),
            }
        }
    }
}

#[kunit_tests(galcore_vector_stream)]
mod tests {
    use super::*;

    const OWN: u32 = 0x1000_0000;
    const SCRATCH: u32 = 0x2000_0000;

    fn run(words: &mut [u32]) -> Result<[Option<u32>; ADDRESS_STATES.len()], Fault> {
        exit(words).map(|exit| exit.loaded)
    }

    fn exit(words: &mut [u32]) -> Result<Exit, Fault> {
        let resolve = |value| match value {
            0 | SCRATCH => Some(SCRATCH),
            OWN => Some(OWN),
            _ => None,
        };
        check(words, SCRATCH, resolve).map_err(|refusal| refusal.fault)
    }

    /// The smallest drawing, without its END.
    fn drawing() -> [u32; 26] {
        [
            0x3001_0A10,
            0x203,
            0x3001_0A11,
            OWN,
            0x3001_0A12,
            256,
            0x3001_0A13,
            0x0040_0040,
            0x3001_0A34,
            0,
            0x3001_0A02,
            0xFF00_00FF,
            0x3001_0A00,
            0x1000_0001,
            0x4000_0001,
            0,
            0,
            0x0010_0010,
            0x3001_0A1B,
            0x11,
            0x1000_0007,
            0,
            0x2000_0007,
            0,
            0x8000_0000,
            0,
        ]
    }

    #[test]
    fn a_drawing_is_let_through() {
        let mut words = drawing();
        let loaded = run(&mut words).unwrap();
        assert_eq!(words, drawing());
        assert_eq!(loaded[0], Some(OWN));
        assert!(loaded[1..].iter().all(Option::is_none));
        assert!(run(&mut []).is_ok());
    }

    #[test]
    fn what_the_kernel_says_is_let_through_but_for_events_and_ends() {
        let mut words = drain();
        assert!(run(&mut words).is_ok());
        let mut event = event(Module::Pixel, 3);
        assert_eq!(event, [0x3001_0E01, 0x0703]);
        assert_eq!(run(&mut event), Err(Fault::State(0xE01)));
        assert_eq!(run(&mut end(13)), Err(Fault::Opcode));
    }

    #[test]
    fn the_other_opcodes_are_refused() {
        for opcode in [0u32, 5, 6, 7, 9, 0xA, 0xB, 0xC, 0xD, 0xE, 0xF] {
            for low in [0, 1, 0x10_0000, 0x0FFF_FFFF] {
                let mut words = [opcode << 28 | low, OWN];
                assert_eq!(run(&mut words), Err(Fault::Opcode));
            }
        }
        // Another pipe; bits that mean nothing.
        assert_eq!(run(&mut [0x3001_1A00, 0]), Err(Fault::Opcode));
        assert_eq!(run(&mut [0x4020_0000, 0]), Err(Fault::Opcode));
    }

    #[test]
    fn addresses_are_the_processes() {
        for (which, address) in ADDRESS_STATES.into_iter().enumerate() {
            let mut words = state(address, 0);
            assert_eq!(run(&mut words).unwrap()[which], Some(SCRATCH));
            assert_eq!(words[1], SCRATCH);
            let mut words = state(address, OWN + 1);
            assert_eq!(run(&mut words), Err(Fault::Address(address)));
        }
        // In the middle of a range; the last value counts, and the padding is a NOP.
        let mut words = [0x3004_0A10, 1, OWN, 2, 3, 0x1234_5678, 0x3001_0A11, 0];
        assert_eq!(run(&mut words).unwrap()[0], Some(SCRATCH));
        assert_eq!(words[5], PAD);
        let mut words = [0x3003_0A10, 1, OWN + 4, 2];
        assert_eq!(run(&mut words), Err(Fault::Address(0xA11)));
    }

    #[test]
    fn nothing_is_drawn_without_a_target() {
        assert!(!exit(&mut drawing()).unwrap().draws_before);
        assert!(exit(&mut [0x4000_0000, 0]).unwrap().draws_before);
        let mut words = [0x3001_0A11, OWN, 0x4000_0000, 0];
        assert!(!exit(&mut words).unwrap().draws_before);
        let mut words = [0x4000_0000, 0, 0x3001_0A11, OWN];
        assert!(exit(&mut words).unwrap().draws_before);
        let mut words = [0x3001_0A11, 0, 0x4000_0000, 0];
        assert_eq!(run(&mut words), Err(Fault::NoTarget));
        // It is found again in what has been resolved.
        assert_eq!(words[1], SCRATCH);
    }

    #[test]
    fn unknown_states_are_refused() {
        for address in [
            0, 0x9FF, 0xA0A, 0xA14, 0xA23, 0xA24, 0xA26, 0xA54, 0xA98, 0xE04, 0xFFF,
        ] {
            assert_eq!(run(&mut state(address, 0)), Err(Fault::State(address)));
        }
        // Past the end of the states.
        let mut words = KVec::from_elem(0x3FFF_0A00, 4096, GFP_KERNEL).unwrap();
        assert_eq!(run(&mut words), Err(Fault::State(0xA0A)));
        let mut words = [0x3002_0FFF, 0, 0, 0];
        assert_eq!(run(&mut words), Err(Fault::State(0xFFF)));
    }

    #[test]
    fn lengths_are_kept() {
        for words in [
            &mut [0x3000_0A00, 0][..],
            &mut [0x3002_0A00, 0][..],
            &mut [0x3002_0A00, 0, 0][..],
            &mut [0x4000_0001, 0][..],
            &mut [0x401F_FFFF, 0][..],
            &mut [0x8000_0000][..],
        ] {
            assert_eq!(run(words), Err(Fault::Length));
        }
        assert!(run(&mut [0x4000_0000, 0]).is_ok());
    }

    #[test]
    fn semaphores_come_in_pairs() {
        assert_eq!(run(&mut [0x2000_0007, 0]), Err(Fault::Semaphore));
        assert_eq!(run(&mut [0x1000_0007, 0]), Err(Fault::Semaphore));
        let twice = &mut [0x1000_0007, 0, 0x1000_0007, 0];
        assert_eq!(run(twice), Err(Fault::Semaphore));
        let other = &mut [0x1000_0007, 0, 0x2000_000F, 0];
        assert_eq!(run(other), Err(Fault::Semaphore));
        assert_eq!(run(&mut [0x1000_0001, 0]), Err(Fault::Module));
        assert_eq!(run(&mut [0x1000_0107, 0]), Err(Fault::Module));
        let tokens = &mut [0x3001_0E02, 0x710, 0x3001_0F00, 0x710];
        assert!(run(tokens).is_ok());
        assert_eq!(run(&mut [0x3001_0F00, 0x710]), Err(Fault::Semaphore));
        assert_eq!(run(&mut [0x3001_0E02, 0x710]), Err(Fault::Semaphore));
        assert_eq!(run(&mut [0x3001_0E02, 0x701]), Err(Fault::Module));
    }

    #[test]
    fn calls_are_found() {
        let words = [0x3001_0A00, 1, 0x6000_0003, OWN, 0x8000_0000, 0];
        let call = Call {
            at: 2,
            address: OWN,
            words: 6,
        };
        assert_eq!(next_call(&words, 0), Ok(Some(call)));
        assert_eq!(next_call(&words, call.at + CALL_WORDS), Ok(None));
        // In data it is none.
        let data = [0x4000_0001, 0, 0x6000_0003, OWN];
        assert_eq!(next_call(&data, 0), Ok(None));
        assert!(next_call(&[0x5000_0001, 0], 0).is_err());
        assert_eq!(called(&[0x4000_0001, 0, 0, 0, 0x7000_0000, 0, 0]), Ok(4));
        let fault = called(&[0x4000_0001, 0, 0x7000_0000, 0]).map_err(|refusal| refusal.fault);
        assert_eq!(fault, Err(Fault::NoReturn));
        assert!(called(&[]).is_err());
    }
}
