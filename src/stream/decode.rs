// SPDX-License-Identifier: GPL-2.0-only

//! Where commands end, and which states they load.
//!
//! Pure logic, without imports: `galcore-info` has it for the words of the ring.

/// Bits 31:27 of a command's first word.
pub(crate) mod opcode {
    /// `LOAD_STATE`.
    pub(crate) const LOAD_STATE: u32 = 1;
    /// `DRAW_2D`.
    pub(crate) const DRAW_2D: u32 = 4;
    /// `DRAW_PRIMITIVES`.
    pub(crate) const DRAW_PRIMITIVES: u32 = 5;
    /// `DRAW_INDEXED`.
    pub(crate) const DRAW_INDEXED: u32 = 6;
    /// `DRAW_INSTANCED`.
    pub(crate) const DRAW_INSTANCED: u32 = 12;
}

/// Bit of a `LOAD_STATE` header: values are 16.16 numbers, to be converted to floating point.
pub(crate) const FIXP: u32 = 1 << 26;

/// The states that whole commands load, in order, with what they are loaded with, and whether that
/// is converted.
pub(crate) fn loads(words: &[u32]) -> impl Iterator<Item = (u32, u32, bool)> + '_ {
    let mut rest = words;
    let commands = core::iter::from_fn(move || {
        let command = rest;
        // CAST: 32 bits into at least 32.
        rest = rest.get(length(*rest.first()?) as usize..).unwrap_or(&[]);
        Some(command)
    });
    let is_load =
        |command: &&[u32]| matches!(command, [first, ..] if first >> 27 == opcode::LOAD_STATE);
    commands.filter(is_load).flat_map(|command| {
        let header = command[0];
        // CAST: at most 1024.
        let values = command[1..].iter().take(load_count(header) as usize);
        let states = (header & 0xFFFF..).zip(values);
        states.map(move |(state, &value)| (state, value, header & FIXP != 0))
    })
}

/// Values of a `LOAD_STATE`.
pub(crate) fn load_count(first: u32) -> u32 {
    match (first >> 16) & 0x3FF {
        0 => 1024,
        count => count,
    }
}

/// Rectangles of a `DRAW_2D`.
pub(crate) fn rectangles(first: u32) -> u32 {
    match (first >> 8) & 0xFF {
        0 => 256,
        count => count,
    }
}

/// Words of the command that begins with `first`; of one that is not known 2, as all begin on 8
/// bytes.
pub(crate) fn length(first: u32) -> u32 {
    match first >> 27 {
        opcode::LOAD_STATE => (1 + load_count(first)).next_multiple_of(2),
        opcode::DRAW_2D => 2 + 2 * rectangles(first) + ((first >> 16) & 0x7FF).next_multiple_of(2),
        opcode::DRAW_INDEXED => 6,
        opcode::DRAW_PRIMITIVES | opcode::DRAW_INSTANCED => 4,
        _ => 2,
    }
}
