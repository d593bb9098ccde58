// SPDX-License-Identifier: GPL-2.0-only

//! What is wrong with a stream that the checker refuses, and the texts for its author.

use crate::{
    stream::{
        bounds,
        resolve,
        table,
        words::state, //
    },
    sys::prelude::*, //
};
use core::cell::Cell;

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The opcode is reserved for the kernel, or unknown.
    Opcode,
    /// A command is longer than what is left of the stream.
    Truncated,
    /// A state that clients must not load, or not with FIXP or in this form (its word address).
    State(u32),
    /// A state (its word address) that this core is not known to have.
    Unknown(u32),
    /// A state (its word address) with a GPU address that is not in the process's memory.
    Address(u32),
    /// A draw to a target (its state's word address) that the stream has loaded with 0.
    NullTarget(u32),
    /// A draw past the end of the memory that its target or a source begins in: the state (its word
    /// address) with that address, and its value.
    Beyond(u32, u32),
    /// As [`Fault::Beyond`], of a tiled surface of the 2D engine.
    BeyondTiles(u32, u32),
    /// It is not known how far an engine goes with this state (its word address) and value.
    Unbounded(u32, u32),
    /// As [`Fault::Unbounded`], by a value that an earlier stream has loaded.
    Earlier(u32, u32),
    /// A draw carries data, and its source or mask is not that: the state (its word address) with
    /// the source's configuration, and its value.
    Data(u32, u32),
    /// A draw lacks a state that bounds it and that cannot be lent ([`bounds`]).
    Missing,
    /// A draw before the stream has loaded states that it must load itself, because they cannot be
    /// lent: one of them, or the first of their unit (its word address).
    Unloaded(u32),
    /// The stream leaves the YUV tiler on: its value of `YUV_CONFIG`.
    TilerOn(u32),
    /// A draw of one pipe while the other is selected.
    WrongPipe,
    /// A pipe that this core lacks.
    NoPipe,
    /// A pipe is selected while the other may still draw.
    BusyPipe,
    /// A stall on a token that no semaphore in the stream has armed.
    UnarmedStall,
    /// A load of `GL_STALL_TOKEN` with a token from the front end, which does not wait then.
    StallByLoad,
    /// A semaphore is armed twice.
    ArmedTwice,
    /// A semaphore other than the front end's is left armed: the next process would arm it twice.
    LeftArmed,
}

/// Why and at which word a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Index of the command's first word.
    pub(crate) at: usize,
    /// The command's first word.
    pub(crate) word: u32,
    /// The value of the fault's state. `None`: the fault has no state, or the stream loads none.
    pub(crate) value: Option<u32>,
    /// What is wrong with it.
    pub(crate) fault: Fault,
}

impl Fault {
    /// The description for the stream's author, and the state (its word address) at fault.
    fn text(self) -> (&'static str, Option<u32>) {
        match self {
            Fault::State(address) => ("clients must not load it, or not in this form", Some(address)),
            Fault::Unknown(address) => ("not known for this core", Some(address)),
            Fault::Address(address) => ("not in the process's memory", Some(address)),
            Fault::NullTarget(address) => ("it draws there, to address 0", Some(address)),
            Fault::Beyond(address, _) => (
                match (bounds::is_status(address), bounds::is_read(address)) {
                    _ if bounds::set_of(address).is_some() => "it reads past the end of that memory; with several sources the origin counts as relative and as absolute",
                    (true, _) => "a resolve with tile status on (state 0x1654, bit 1) goes past that memory",
                    (_, true) => "it reads past the end of that memory",
                    (_, false) => "it draws past the end of that memory",
                },
                Some(address),
            ),
            Fault::BeyondTiles(address, _) => (
                if bounds::is_read(address) {
                    "it reads past the end of that memory (tiled, with a stride that counts as that of a row of pixels)"
                } else {
                    "it draws past the end of that memory (tiled, with a stride that counts as that of a row of pixels)"
                },
                Some(address),
            ),
            Fault::Unbounded(address, _) => ("how far the engine goes with it is not known", Some(address)),
            Fault::Earlier(address, _) => (
                "how far the engine goes with it is not known; an earlier buffer has loaded it",
                Some(address),
            ),
            Fault::Data(address, _) => (
                "the draw carries data: it must be a BIT_BLT or STRETCH_BLT with bit 8 of this state",
                Some(address),
            ),
            Fault::Missing => ("it draws before it has loaded all states of its target and its source with the drawing engine selected", None),
            Fault::Unloaded(address) => (
                match bounds::set_of(address) {
                    Some(0) if address != bounds::BLOCKS_FIRST => "it draws before this buffer has loaded all states of its sources in the set for 4 (0x12800 on), which this or an earlier buffer has used",
                    Some(1) => "it draws before this buffer has loaded all states of its sources in the set for 8 (0x12a00 on), which this or an earlier buffer has used",
                    _ => "it draws before this buffer has loaded all states of this unit with its engine selected",
                },
                Some(address),
            ),
            Fault::TilerOn(_) => ("it leaves the YUV tiler on: load 0 after the last kick, with the 3D engine selected", Some(resolve::CONFIG)),
            Fault::Opcode => ("an opcode that is the kernel's, or unknown", None),
            Fault::Truncated => ("the command is longer than what is left of the buffer", None),
            Fault::WrongPipe => ("it draws with an engine that is not selected", None),
            Fault::NoPipe => ("it selects an engine that this core lacks", None),
            Fault::BusyPipe => (
                "it selects an engine while the other may still draw: flush, semaphore and stall first",
                None,
            ),
            Fault::UnarmedStall => ("it stalls on a token that no semaphore in the buffer arms", None),
            Fault::StallByLoad => (
                "the front end does not wait for it: a token from the front end needs the command STALL",
                Some(state::GL_STALL_TOKEN),
            ),
            Fault::ArmedTwice => ("it arms a semaphore again before a stall has waited for it", None),
            Fault::LeftArmed => ("it leaves a semaphore armed that no stall waits for", None),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, state) = self.fault.text();
        if let Some(address) = state {
            let name = table::name(address).unwrap_or("no name");
            write!(f, "state {:#x} ({name})", address << 2)?;
            if let Some(value) = self.value {
                write!(f, " = {value:#010x}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{what}, at word {} ({:#010x})", self.at, self.word)?;
        match (self.fault, self.word) {
            // The last value of the command before, if its padding is missing.
            (Fault::Opcode, 0) => f.write_str(": does a LOAD_STATE before it lack its padding?"),
            _ => Ok(()),
        }
    }
}

/// The value that the LOAD_STATE at the start of `rest` loads into the state of `fault`.
pub(super) fn loaded_value(rest: &[Cell<u32>], fault: Fault) -> Option<u32> {
    match fault {
        Fault::NullTarget(_) => return Some(0),
        Fault::Unloaded(_) => return None,
        Fault::Beyond(_, value)
        | Fault::BeyondTiles(_, value)
        | Fault::Unbounded(_, value)
        | Fault::Earlier(_, value)
        | Fault::Data(_, value)
        | Fault::TilerOn(value) => return Some(value),
        _ => {}
    }
    let address = fault.text().1?;
    let first = rest.first()?.get() & 0xFFFF;
    // CAST: sixteen bits.
    let place = address.checked_sub(first)? as usize;
    rest.get(1 + place).map(Cell::get)
}
