// SPDX-License-Identifier: GPL-2.0-only
//! Tile status of color and depth: the tiles of a surface that were cleared and not filled.

use crate::engine2d::Bus;
use crate::engine2d::StateBlock;
use crate::mmu::Port;
use crate::personality::Personality;
use crate::registers::state::*;

/// Bytes of a surface per status.
pub const TILE: u32 = 64;
/// The status of a tile that reads as the clear value.
const CLEARED: u8 = 1;

/// A core's format of tile status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusFormat {
    /// Bits per tile: 2 or 4.
    pub bits: u32,
    /// Addresses go through the memory base (memory controller 2.0). Otherwise they are physical.
    pub is_translated: bool,
    /// The memory base of the pixel engine's addresses.
    pub memory_base: u32,
}

impl StatusFormat {
    /// The format of a core whose pixel engine's memory base is `memory_base`.
    pub fn of(personality: &Personality, memory_base: u32) -> Self {
        Self {
            memory_base,
            bits: if personality.has_2_bits_per_tile() {
                2
            } else {
                4
            },
            is_translated: personality.has_mc20(),
        }
    }
}

/// The tile status set in the states, if enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileStatus {
    format: StatusFormat,
    status: u32,
    /// The surface's address as the pixel engine uses it.
    surface: u32,
    clear_value: u32,
}

impl TileStatus {
    /// The tile status of color from the states; `None`: fast clear of color is off.
    pub fn new(states: &StateBlock, format: StatusFormat) -> Option<Self> {
        Self::named(states, format, TS_COLOR_FAST_CLEAR, TS_COLOR_STATUS_BASE)
    }

    /// The tile status of depth from the states; `None`: fast clear of depth is off.
    pub fn of_depth(states: &StateBlock, format: StatusFormat) -> Option<Self> {
        Self::named(states, format, TS_DEPTH_FAST_CLEAR, TS_DEPTH_STATUS_BASE)
    }

    /// `first`: the first of three states: address of the status, address of the surface, clear value.
    fn named(states: &StateBlock, format: StatusFormat, bit: u32, first: u32) -> Option<Self> {
        let surface = states.get(first + 4);
        (states.get(TS_MEM_CONFIG) & bit != 0).then(|| Self {
            format,
            status: states.get(first),
            surface: if format.is_translated {
                surface
            } else {
                surface.wrapping_sub(format.memory_base)
            },
            clear_value: states.get(first + 8),
        })
    }

    /// Whether the tile at `address` was cleared. Tiles are counted from the surface's base, through both halves of a
    /// split surface. No source documents where the status ends. Addresses before the base have no status.
    pub fn is_cleared(&self, address: u32, bus: &mut dyn Bus) -> bool {
        let Some((at, shift)) = self.place(address) else {
            return false;
        };
        self.read(at, bus) >> shift & self.mask() == CLEARED
    }

    /// Marks the tile at `address` as written: it holds plain data.
    pub fn set_drawn(&self, address: u32, bus: &mut dyn Bus) {
        if let Some((at, shift)) = self.place(address) {
            let byte = [self.read(at, bus) & !(self.mask() << shift)];
            if self.format.is_translated {
                bus.write(Port::Pixel, at, &byte);
            } else {
                bus.write_physical(at, &byte);
            }
        }
    }

    /// The byte that holds the status of a tile, and its first bit.
    fn place(&self, address: u32) -> Option<(u32, u32)> {
        let tile = address.checked_sub(self.surface)? / TILE;
        let in_byte = 8 / self.format.bits;
        let at = self.status.wrapping_add(tile / in_byte);
        Some((at, tile % in_byte * self.format.bits))
    }

    fn read(&self, at: u32, bus: &mut dyn Bus) -> u8 {
        let mut byte = [0];
        if self.format.is_translated {
            bus.read(Port::Pixel, at, &mut byte);
        } else {
            bus.read_physical(at, &mut byte);
        }
        byte[0]
    }

    fn mask(&self) -> u8 {
        (1 << self.format.bits) - 1
    }

    /// The bytes of a cleared tile, starting at `address`.
    pub fn clear(&self, address: u32, bytes: &mut [u8]) {
        let value = self.clear_value.to_le_bytes();
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = value[(address as usize + index) % 4];
        }
    }

    /// Fills the cleared ones of the surface's first `tiles` tiles. Their status stays, so they may be filled again.
    /// Returns the number of filled tiles.
    pub fn fill(&self, tiles: u32, bus: &mut dyn Bus) -> u64 {
        let mut filled = 0;
        // More tiles would exceed the address space.
        let most = (u32::MAX - self.surface) / TILE;
        for tile in 0..tiles.min(most) {
            if bus.aborted() {
                break;
            }
            let address = self.surface + tile * TILE;
            if self.is_cleared(address, bus) {
                let mut bytes = [0; TILE as usize];
                self.clear(address, &mut bytes);
                bus.write(Port::Pixel, address, &bytes);
                filled += 1;
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine2d::tests::FlatBus;
    use crate::gpu::Random;

    const STATUS: u32 = 0x400;
    const SURFACE: u32 = 0x1_0000;

    fn status(bits: u32, list: &[(u32, u32)]) -> Option<TileStatus> {
        let mut words = vec![0; ((RS_END - RS_FIRST) / 4) as usize];
        let defaults = [
            (TS_MEM_CONFIG, TS_COLOR_FAST_CLEAR),
            (TS_COLOR_STATUS_BASE, STATUS),
            (TS_COLOR_SURFACE_BASE, SURFACE),
            (TS_COLOR_CLEAR_VALUE, 0x1234_5678),
        ];
        for (address, value) in defaults.iter().chain(list) {
            words[((address - RS_FIRST) / 4) as usize] = *value;
        }
        let format = StatusFormat {
            bits,
            is_translated: true,
            memory_base: 0,
        };
        TileStatus::new(&StateBlock::new(RS_FIRST, words), format)
    }

    #[test]
    fn without_memory_controller_2_bases_are_physical() {
        let mut words = vec![0; ((RS_END - RS_FIRST) / 4) as usize];
        for (address, value) in [
            (TS_COLOR_STATUS_BASE, 0x4000_0000),
            (TS_COLOR_SURFACE_BASE, 0x4000_1000),
            (TS_MEM_CONFIG, TS_COLOR_FAST_CLEAR),
        ] {
            words[((address - RS_FIRST) / 4) as usize] = value;
        }
        let of = |is_translated| {
            let format = StatusFormat {
                bits: 4,
                is_translated,
                memory_base: 0x4000_0000,
            };
            TileStatus::new(&StateBlock::new(RS_FIRST, words.clone()), format).unwrap()
        };
        assert_eq!((of(false).status, of(false).surface), (0x4000_0000, 0x1000));
        assert_eq!(of(true).surface, 0x4000_1000);
    }

    #[test]
    fn it_is_off_unless_colour_is_cleared_fast() {
        assert_eq!(status(2, &[(TS_MEM_CONFIG, !TS_COLOR_FAST_CLEAR)]), None);
    }

    /// Drivers fill the status with this word: all tiles are cleared.
    #[test]
    fn all_are_cleared_by_the_word_of_the_core() {
        for (bits, word) in [(2, 0x5555_5555u32), (4, 0x1111_1111)] {
            let status = status(bits, &[]).unwrap();
            let mut bus = FlatBus::new();
            bus.bytes[STATUS as usize..][..4].copy_from_slice(&word.to_le_bytes());
            let tiles = 32 / bits;
            for tile in 0..tiles {
                assert!(status.is_cleared(SURFACE + TILE * tile, &mut bus), "{tile}");
                assert!(
                    status.is_cleared(SURFACE + TILE * tile + 63, &mut bus),
                    "{tile}"
                );
            }
            // FlatBus is filled with 0xee.
            assert!(!status.is_cleared(SURFACE + TILE * tiles, &mut bus));
            assert!(!status.is_cleared(SURFACE - TILE, &mut bus));
        }
    }

    #[test]
    fn cleared_tiles_are_filled_in_place_and_others_stay() {
        let mut random = Random::new(5);
        for round in 0..200 {
            let bits = if random.below(2) == 0 { 2 } else { 4 };
            let mut bus = FlatBus::new();
            let tiles = 1 + random.below(500);
            let cleared: Vec<bool> = (0..tiles + 8).map(|_| random.below(2) == 0).collect();
            bus.bytes[STATUS as usize..][..256].fill(0);
            for (tile, _) in cleared.iter().enumerate().filter(|(_, cleared)| **cleared) {
                let bit = tile * bits as usize;
                bus.bytes[STATUS as usize + bit / 8] |= 1 << (bit % 8);
            }
            let before = bus.bytes.clone();
            let status = status(bits, &[]).unwrap();
            let wanted = cleared[..tiles as usize].iter().filter(|c| **c).count();
            assert_eq!(status.fill(tiles, &mut bus), wanted as u64, "{round}");
            for (at, (now, then)) in bus.bytes.iter().zip(&before).enumerate() {
                let tile = at.wrapping_sub(SURFACE as usize) / TILE as usize;
                let filled = tile < tiles as usize && cleared[tile];
                let wanted = if filled {
                    0x1234_5678u32.to_le_bytes()[at % 4]
                } else {
                    *then
                };
                assert_eq!(*now, wanted, "round {round}, {at:#x}");
            }
        }
    }
}
