// SPDX-License-Identifier: GPL-2.0-only
//! The states that take GPU addresses, and the values that the driver loads into those without a client's address.

use anyhow::Context;
use anyhow::Result;
use galcore_client::stream::Pipe;
use gpu_control::Board;

/// States that take an address (byte address, count): the union list of the driver's notes, section 5.6.
pub const ADDRESSES: [(u32, u32); 54] = [
    (0x00644, 1),
    (0x0064c, 1),
    (0x00680, 8),
    (0x0086c, 1),
    (0x01028, 1),
    (0x01200, 1),
    (0x01228, 1),
    (0x01238, 1),
    (0x01284, 1),
    (0x0128c, 1),
    (0x01304, 1),
    (0x01310, 1),
    (0x01318, 1),
    (0x01410, 1),
    (0x01430, 1),
    (0x01458, 1),
    (0x01460, 8),
    (0x01480, 8),
    (0x01500, 8),
    (0x01520, 8),
    (0x01540, 8),
    (0x01608, 1),
    (0x01610, 1),
    (0x01658, 1),
    (0x0165c, 1),
    (0x01664, 1),
    (0x01668, 1),
    (0x01680, 1),
    (0x01688, 1),
    (0x01690, 1),
    (0x01698, 1),
    (0x016a4, 1),
    (0x016c0, 8),
    (0x016e0, 8),
    (0x01740, 8),
    (0x01a80, 8),
    (0x017c0, 8),
    (0x017e0, 8),
    (0x02400, 224),
    (0x03824, 1),
    (0x03868, 1),
    (0x10800, 512),
    (0x12800, 4),
    (0x128a0, 4),
    (0x128c0, 4),
    (0x12970, 4),
    (0x12a00, 8),
    (0x12b40, 8),
    (0x12b80, 8),
    (0x12ce0, 8),
    (0x14600, 16),
    (0x14800, 64),
    (0x15800, 128),
    (0x15c00, 128),
];

/// The tile status states, which hold physical addresses on cores with the old memory controller.
pub const TILE_STATUS: [u32; 5] = [0x1658, 0x165c, 0x1664, 0x1668, 0x16a4];

/// The pipe that a state belongs to (byte address).
pub fn pipe_of(byte: u32) -> Pipe {
    match byte {
        0x1200..0x1400
        | 0x1800..0x1a00
        | 0x1c00..0x2000
        | 0x2800..0x2c00
        | 0x3400..0x3800
        | 0x12800..0x13000 => Pipe::Pipe2d,
        _ => Pipe::Pipe3d,
    }
}

/// Whether a state (byte address) takes an address.
pub fn takes_address(byte: u32) -> bool {
    let mut all = ADDRESSES.iter();
    all.any(|&(first, count)| (first..first + 4 * count).contains(&byte))
}

/// The index of the first drawing command in a stream for the 2D or the resolve engine.
pub fn draw_of(words: &[u32]) -> Option<usize> {
    let mut at = 0;
    while let Some(header) = words.get(at) {
        match header >> 27 {
            1 if header & 0xffff == 0x1600 / 4 => return Some(at),
            1 => at += (1 + (header >> 16 & 0x3ff) as usize).next_multiple_of(2),
            4 => return Some(at),
            _ => at += 2,
        }
    }
    None
}

/// Whether a board's core has an address state.
pub fn has(board: Board, byte: u32) -> bool {
    let (has_3d, has_2d) = match board {
        Board::Dove => (true, true),
        Board::Gc320 | Board::Gc320Qp | Board::Gc520l => (false, true),
        Board::Gc355 | Board::Gc355Qp => (false, false),
        _ => (true, false),
    };
    match byte {
        // Blits from several sources: no core here has them.
        0x12800..0x13000 => false,
        _ if pipe_of(byte) == Pipe::Pipe2d => has_2d,
        // Instructions in memory, 8 render targets, 16 streams, 32 samplers.
        0x86c | 0x1028 | 0x17c0..0x1800 | 0x14600..0x15000 => {
            matches!(board, Board::Gc3000 | Board::Gc7000ul)
        }
        0x10800..0x14600 => board == Board::Gc3000,
        // Texture descriptors, in both places.
        0x1a80..0x1ac0 | 0x3868 | 0x15800..0x38000 => board == Board::Gc7000ul,
        _ => has_3d,
    }
}

/// The address states of a board's core (byte addresses), ascending.
pub fn addresses_of(board: Board) -> Vec<u32> {
    let all = ADDRESSES
        .iter()
        .flat_map(|&(first, count)| (first..first + 4 * count).step_by(4));
    let mut all: Vec<u32> = all.filter(|&byte| has(board, byte)).collect();
    all.sort_unstable();
    all
}

/// States with data that a draw can make visible (byte address, count): source colours, brush, clear and global
/// colours, colour keys, kernels, palettes; blend and clear colours, uniforms.
const DATA: [(u32, u32); 20] = [
    (0x01218, 2),
    (0x01240, 6),
    (0x01270, 2),
    (0x012c0, 4),
    (0x012dc, 2),
    (0x01424, 1),
    (0x014b0, 2),
    (0x01640, 4),
    (0x01660, 1),
    (0x0166c, 1),
    (0x016a8, 1),
    (0x016bc, 1),
    (0x01760, 16),
    (0x01800, 128),
    (0x01c00, 256),
    (0x02800, 256),
    (0x03400, 256),
    (0x05000, 1024),
    (0x07000, 1024),
    (0x006c0, 64),
];

/// The ranges of data states of a board's core that belong to a pipe (byte address, count).
pub fn data_of(board: Board, pipe: Pipe) -> Vec<(u32, u32)> {
    let instructions: &[(u32, u32)] = match board {
        // 256 instructions each of vertex and pixel shaders.
        Board::Dove => &[(0x4000, 1024), (0x6000, 1024)],
        // 512 instructions of both; clear colours of 8 render targets, and uniforms of both.
        Board::Gc3000 => &[(0xc000, 2048), (0x1a00, 24), (0x30000, 2048)],
        Board::Gc7000ul => &[
            (0xc000, 2048),
            (0x1a00, 24),
            (0x17880, 128),
            (0x30000, 2048),
            (0x36000, 2048),
        ],
        _ => &[(0xc000, 2048)],
    };
    let all = DATA.iter().chain(instructions).copied();
    all.filter(|&(byte, _)| has(board, byte) && pipe_of(byte) == pipe)
        .collect()
}

/// Memory without an owner. The driver loads its address into states that hold no address of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// The GPU addresses for states of the 3D pipe and of the 2D pipe.
    pub addresses: [u32; 2],
    /// The physical address, if the core has states that hold physical addresses.
    pub physical: Option<u32>,
}

impl Scratch {
    /// Reads the addresses from the driver's debugfs file.
    pub fn read() -> Result<Self> {
        let text = std::fs::read_to_string("/sys/kernel/debug/galcore/scratch")
            .context("/sys/kernel/debug/galcore/scratch")?;
        let mut numbers = text
            .split_whitespace()
            .map(|word| u32::from_str_radix(word.trim_start_matches("0x"), 16));
        Ok(Self {
            addresses: [
                numbers.next().context("no address")??,
                numbers.next().context("one address")??,
            ],
            physical: numbers.next().transpose()?,
        })
    }

    /// The value that the driver loads into an address state (byte address) instead of 0.
    pub fn of(&self, byte: u32) -> u32 {
        match self.physical {
            Some(physical) if TILE_STATUS.contains(&byte) => physical,
            _ => self.addresses[pipe_of(byte).number() as usize],
        }
    }
}
