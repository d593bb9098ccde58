// SPDX-License-Identifier: GPL-2.0-only

//! Detection of a file's generation of the interface, by sizes and settings.
//!
//! The argument block has 16 bytes in older generations and 32 in newer ones. Most generations have
//! an interface size of their own. Where several fit, the first of these decides: the client's
//! choice, its other files, the module's parameter, the core's model, the order of the list. Pure
//! logic. Source: sources.md, generations, tests/abi.

use super::{
    codec::Format,
    layout::{
        Command,
        Layout,
        ALIASES,
        LAYOUTS, //
    },
};
use kernel::fmt;

/// Bytes of the shorter argument block.
pub(crate) const SHORT_BLOCK: usize = 16;

/// The first generations in the list, which a file's first commands are weighed for. The others are
/// detected by size, or by a first command that is VERSION in them but in no weighed one.
pub(crate) const WEIGHED: usize = 16;

/// Bytes of the longer argument block.
pub(crate) const LONG_BLOCK: usize = 32;

impl Reason {
    /// Whether another generation may be right.
    pub(crate) fn is_guess(self) -> bool {
        matches!(self, Reason::Core | Reason::First)
    }
}

/// Why a generation was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reason {
    /// No other has this block and size.
    Only,
    /// The client requested it.
    Asked,
    /// The parameter `interface` names it for all programs.
    Parameter,
    /// Boards with this core had it.
    Core,
    /// The first of several in the list.
    First,
    /// The first commands of this file, or of another file of the process, rule out others, if not
    /// all.
    Commands,
    /// The parameter `interface` names it for this program.
    Program,
}

impl Reason {
    /// The text for debugfs and the log.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Reason::Only => "no other has this size",
            Reason::Asked => "the client asked for it",
            Reason::Parameter => "the parameter `interface` names it",
            Reason::Core => "boards with this core had it",
            Reason::First => "the most likely of several of this size",
            Reason::Commands => {
                "its first commands, or those of the process's other files, tell it"
            }
            Reason::Program => "the parameter `interface` names it for this program",
        }
    }
}

/// A generation, by its place in the list, and the reason for the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    place: u8,
    pub(crate) reason: Reason,
}

impl Choice {
    /// The generation.
    pub(crate) fn format(self) -> Format {
        // The place is in the list: the modulo only avoids a panic.
        Format(&LAYOUTS[usize::from(self.place) % LAYOUTS.len()])
    }

    pub(super) fn place(self) -> u8 {
        self.place
    }

    /// Whether commands are weighed for this generation.
    pub(crate) fn is_weighed(self) -> bool {
        usize::from(self.place) < WEIGHED
    }

    /// Its bit in a set of candidates; 0: commands are not weighed for it.
    pub(super) fn bit(self) -> u32 {
        u32::from(self.is_weighed()) << (self.place % 32)
    }

    /// The generation at a place in the list.
    pub(super) fn of_place(place: u8, reason: Reason) -> Self {
        Self { place, reason }
    }

    /// Packs it into a number from 1 to 2^16 - 1.
    pub(crate) fn pack(self) -> u32 {
        u32::from(self.place) + 1 | (self.reason as u32) << 8
    }

    /// Unpacks it. `None`: 0.
    pub(crate) fn unpack(packed: u32) -> Option<Self> {
        let place = u8::try_from((packed & 0xFF).checked_sub(1)?).ok()?;
        let reason = match packed >> 8 & 0xFF {
            0 => Reason::Only,
            1 => Reason::Asked,
            2 => Reason::Parameter,
            3 => Reason::Core,
            5 => Reason::Commands,
            6 => Reason::Program,
            _ => Reason::First,
        };
        Some(Self { place, reason })
    }

    /// The generation with this name or alias.
    pub(crate) fn by_name(name: &[u8], reason: Reason) -> Option<Self> {
        let names = (0u8..)
            .zip(&LAYOUTS)
            .map(|(place, layout)| (layout.name, place));
        let mut names = names.chain(ALIASES.iter().copied());
        let (_, place) = names.find(|(known, _)| known.as_bytes() == name)?;
        Some(Self { place, reason })
    }
}

/// The generations with interfaces of `bytes` bytes and blocks of `block_bytes`, with their places
/// in the list.
pub(super) fn fitting(
    block_bytes: usize,
    bytes: u64,
) -> impl Iterator<Item = (u8, &'static Layout)> {
    (0u8..).zip(&LAYOUTS).filter(move |(_, layout)| {
        usize::from(layout.argument_bytes) == block_bytes && layout.has_size(bytes)
    })
}

/// Whether an argument block is short, by its first 16 bytes.
///
/// In a short block, words 1 and 3 are the two sizes. In a long block, word 3 is the high half of
/// the first size, which is 0, and word 1 may hold anything: old clients have the padding of a
/// pointer there.
pub(crate) fn is_short_block(words: [u32; 4]) -> bool {
    let size = u64::from(words[3]);
    words[1] == words[3] && fitting(SHORT_BLOCK, size).next().is_some()
}

/// Chooses the generation for an interface of `input` and `output` bytes and a block of
/// `block_bytes`. `None`: no generation fits.
///
/// The first of `preferences` that fits wins. `model` is the core's.
pub(crate) fn choose(
    block_bytes: usize,
    input: u64,
    output: u64,
    preferences: [Option<Choice>; 4],
    model: u32,
) -> Option<Choice> {
    let fitting = || fitting(block_bytes, input).filter(|_| input == output);
    let preferred = preferences.into_iter().flatten().find(|choice| {
        let layout = choice.format().0;
        usize::from(layout.argument_bytes) == block_bytes && layout.takes(input, output)
    });
    if preferred.is_some() {
        return preferred;
    }
    let place = |reason, wanted: &dyn Fn(&Layout) -> bool| {
        let (place, _) = fitting().find(|(_, layout)| wanted(layout))?;
        Some(Choice { place, reason })
    };
    if fitting().count() == 1 {
        return place(Reason::Only, &|_| true);
    }
    place(Reason::Core, &|layout| {
        u32::from(layout.model) == model && model != 0
    })
    .or_else(|| place(Reason::First, &|layout| layout.model == 0))
}

/// The generation of a file whose first command has the number `command`, as libraries begin with
/// VERSION. `None`: the number decides nothing, or commands are weighed. `bytes`: of the interface.
pub(crate) fn by_first_command(block_bytes: usize, bytes: u64, command: u32) -> Option<Choice> {
    let (mut found, mut differs) = (None, false);
    for (place, layout) in fitting(block_bytes, bytes) {
        match layout.command(command) {
            Command::Version => found = found.or(Some(Choice::of_place(place, Reason::Commands))),
            _ => differs = true,
        }
    }
    found.filter(|choice| differs && !choice.is_weighed())
}

/// Prints the names of the generations that fit these sizes.
pub(crate) struct Fitting {
    /// Bytes of the argument block.
    pub(crate) block_bytes: usize,
    /// Bytes of the interface.
    pub(crate) bytes: u64,
}

impl Fitting {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        fitting(self.block_bytes, self.bytes).map(|(_, layout)| layout.name)
    }
}

impl fmt::Display for Fitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.names().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

#[kernel::macros::kunit_tests(galcore_detect)]
mod tests {
    use super::*;

    const GC600: u32 = 0x600;
    const GC2000: u32 = 0x2000;

    fn name(block: usize, bytes: u64, model: u32) -> Option<(&'static str, Reason)> {
        let choice = choose(block, bytes, bytes, [None; 4], model)?;
        Some((choice.format().name(), choice.reason))
    }

    #[test]
    fn sizes_select_the_generation() {
        assert_eq!(name(16, 64, GC2000), Some(("arnova", Reason::Only)));
        assert_eq!(name(32, 248, GC2000), Some(("4.6.9", Reason::Only)));
        assert_eq!(name(32, 384, GC2000), Some(("6.4.11", Reason::First)));
        assert_eq!(name(16, 216, GC600), Some(("dove", Reason::Core)));
        assert_eq!(name(16, 216, GC2000), Some(("v2", Reason::First)));
        assert_eq!(name(16, 128, GC2000), Some(("v4", Reason::First)));
        assert_eq!(name(16, 224, GC2000), Some(("v4", Reason::First)));
        assert_eq!(name(32, 168, GC2000), Some(("4.0.0", Reason::First)));
        assert_eq!(name(32, 240, GC2000), Some(("4.0.0", Reason::First)));
        assert_eq!(name(32, 320, GC2000), Some(("5.0.11.p8", Reason::First)));
        assert_eq!(name(32, 344, GC2000), Some(("6.2.4.p2", Reason::First)));
        assert_eq!(name(32, 400, GC2000), Some(("6.2.4.p2", Reason::First)));
        assert_eq!(name(32, 288, GC2000), Some(("6.3.1", Reason::First)));
        assert_eq!(name(32, 416, GC2000), Some(("6.3.3.4", Reason::First)));
        assert_eq!(name(32, 424, GC2000), Some(("6.4.3-nxp", Reason::First)));
        assert_eq!(name(32, 376, GC2000), Some(("6.4.21.1", Reason::First)));
    }

    #[test]
    fn the_number_of_version_identifies_a_generation() {
        let name = |bytes, command| {
            let choice = by_first_command(LONG_BLOCK, bytes, command)?;
            Some(choice.format().name())
        };
        // 40 is DATABASE in all others of this size.
        assert_eq!(name(400, 40), Some("6.2.4.p1.6"));
        assert_eq!(name(344, 40), Some("6.2.4.p1.6"));
        assert_eq!(name(400, 41), None);
        assert_eq!(name(384, 1), None);
        assert_eq!(name(424, 1), None);
    }

    #[test]
    fn generations_that_fit_are_listed() {
        let fitting = |block_bytes, bytes| Fitting { block_bytes, bytes };
        assert!(fitting(32, 168).names().eq(["4.0.0", "4.1.0", "4.6.9"]));
        assert!(fitting(32, 288).names().eq(["6.3.1", "6.3.0"]));
        assert!(fitting(16, 168).names().next().is_none());
    }

    #[test]
    fn other_sizes_fit_no_generation() {
        for bytes in [0, 4, 16, 167, 169, 216, 383, 399, 401, 1 << 32] {
            assert_eq!(choose(32, bytes, bytes, [None; 4], GC600), None);
        }
        for bytes in [0, 63, 65, 168, 217, 384] {
            assert_eq!(choose(16, bytes, bytes, [None; 4], GC600), None);
        }
        assert_eq!(choose(32, 168, 240, [None; 4], GC600), None);
        assert_eq!(choose(16, 128, 224, [None; 4], GC600), None);
    }

    #[test]
    fn preferences_win_where_they_fit() {
        let named = |name: &str, reason| Choice::by_name(name.as_bytes(), reason);
        let asked = named("4.1.0", Reason::Asked);
        let parameter = named("dove_old", Reason::Parameter);
        let chosen =
            |block, bytes| choose(block, bytes, bytes, [asked, None, None, parameter], GC2000);
        assert_eq!(chosen(32, 168), asked);
        assert_eq!(chosen(16, 216), parameter);
        assert_eq!(chosen(32, 320).map(|c| c.reason), Some(Reason::First));
        // 6.4.11 accepts less than its own size, if it is preferred.
        let newest = named("6.4.11", Reason::Parameter);
        let chosen = |input, output| choose(32, input, output, [None, None, None, newest], GC2000);
        assert_eq!(chosen(100, 384), newest);
        assert_eq!(chosen(39, 384), None);
        assert_eq!(chosen(384, 385), None);
        assert_eq!(named("4.6.7", Reason::Asked), None);
        assert_eq!(
            named("imx6", Reason::Asked).map(|c| c.format().name()),
            Some("v4")
        );
        assert_eq!(
            named("6.4.6.2", Reason::Asked).map(|c| c.format().name()),
            Some("6.4.6")
        );
    }

    #[test]
    fn short_and_long_blocks_are_distinguished() {
        assert!(is_short_block([0x1000, 216, 0x1000, 216]));
        assert!(is_short_block([0x1000, 64, 0, 64]));
        assert!(!is_short_block([0x1000, 0, 168, 0]));
        assert!(!is_short_block([0x1000, 0xDEAD_BEEF, 168, 0]));
        assert!(!is_short_block([0x1000, 216, 0x1000, 128]));
        assert!(!is_short_block([0x1000, 168, 0x1000, 168]));
    }

    #[test]
    fn choices_pack() {
        for place in 0..LAYOUTS.len() {
            for reason in [
                Reason::Only,
                Reason::Asked,
                Reason::First,
                Reason::Commands,
                Reason::Program,
            ] {
                let choice = Choice {
                    place: place as u8,
                    reason,
                };
                assert_eq!(Choice::unpack(choice.pack()), Some(choice));
            }
        }
        assert_eq!(Choice::unpack(0), None);
    }
}
