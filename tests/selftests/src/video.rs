// SPDX-License-Identifier: GPL-2.0-only
//! Video memory and user memory for tests: an open device with its pool mapped, and functions that make the GPU write
//! and read memory.

use std::fs::File;
use std::fs::OpenOptions;
use std::os::fd::AsFd;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device;
use galcore_client::device::Device;
use galcore_client::device::Location;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::sys;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Client;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;

use crate::harness::same;

/// The smallest area that the GPU draws, in bytes: 16 x 8 pixels.
pub const BLOCK: usize = 512;

/// Width of the surfaces of [`surface_at`].
const WIDTH: u32 = 16;

/// An open device with its pool mapped.
#[derive(Debug)]
pub struct Opened {
    /// The device.
    pub device: Device,
    /// The mapped pool.
    pub pool: Memory,
}

impl Opened {
    /// Opens the device and maps the pool.
    pub fn new() -> Result<Self> {
        let device = Device::open()?;
        let pool = device.map_pool()?;
        Ok(Self { device, pool })
    }

    /// Allocates a bitmap.
    pub fn allocate(&self, bytes: u32, pool: Pool) -> device::Result<Node> {
        self.device.allocate(bytes, 64, surface::BITMAP, pool)
    }

    /// Locks a node; returns its GPU address and its memory.
    pub fn memory(&self, node: Node) -> Result<(u32, Memory)> {
        let location = self.device.lock(node)?;
        Ok((
            location.address,
            self.device.memory(node, location, &self.pool)?,
        ))
    }

    /// Unlocks a node. If the second half of the unlock must go through a queue, commits it and waits.
    pub fn unlock(&self, node: Node) -> Result<()> {
        unlock(&self.device, node)
    }
}

/// Unlocks a node. If the second half of the unlock must go through a queue, commits it and waits.
pub fn unlock(device: &Device, node: Node) -> Result<()> {
    if device.unlock(node)? {
        let done = device.create_signal(false)?;
        device.commit_queue(Queue::new().unlock(node).signal(done))?;
        device.wait_signal(done, 5000)?;
        device.destroy_signal(done)?;
    }
    Ok(())
}

/// A node with a handle that the test makes up.
pub fn node(handle: u64) -> Node {
    Node {
        handle,
        pool: Pool::SYSTEM,
        bytes: 0,
        surface_type: surface::BITMAP,
    }
}

/// A surface without gaps that covers all of `memory`, which must be whole [`BLOCK`]s at GPU address `address`.
pub fn surface_at(address: u32, memory: Memory) -> Result<Surface> {
    ensure!(
        memory.len() % BLOCK == 0 && address % 4 == 0,
        "{:#x} bytes at {address:#x} are no surface",
        memory.len()
    );
    Ok(Surface {
        node: node(0),
        location: Location {
            address,
            logical: memory.address(),
        },
        width: WIDTH,
        height: memory.len() as u32 / (WIDTH * 4),
        stride: WIDTH * 4,
        memory,
    })
}

fn whole(surface: &Surface) -> Rect {
    Rect::new(0, 0, surface.width, surface.height)
}

/// Fills a surface with `colour` by the GPU.
pub fn gpu_fill(client: &mut Client, target: &Surface, colour: u32) -> Result<()> {
    let engine = client.engine();
    let mut stream = Stream::new();
    engine.fill(&mut stream, target, whole(target), colour);
    stream.flush(engine.pipe());
    Ok(client.run(engine.pipe(), &stream)?)
}

/// Copies a surface to another of the same size by the GPU.
pub fn gpu_copy(client: &mut Client, source: &Surface, target: &Surface) -> Result<()> {
    same("bytes", source.memory.len(), target.memory.len())?;
    let engine = client.engine();
    let (rect, mut stream) = (whole(target), Stream::new());
    engine.copy_all(&mut stream, source, (0, 0), target, &[rect], rect);
    stream.flush(engine.pipe());
    Ok(client.run(engine.pipe(), &stream)?)
}

/// The factor by which patterns multiply offsets.
const SCATTER: u32 = 0x9e37_79b1;

/// The word that [`write_pattern`] writes at `offset`.
fn pattern(offset: usize, seed: u32) -> u32 {
    (offset as u32).wrapping_mul(SCATTER) ^ seed
}

/// Whether [`write_pattern`] writes this word somewhere in `bytes` bytes.
pub fn is_of_pattern(word: u32, seed: u32, bytes: usize) -> bool {
    // Inverse by Newton's method: each step doubles the number of correct bits.
    let inverse = (0..5).fold(1u32, |inverse, _| {
        let error = 2u32.wrapping_sub(SCATTER.wrapping_mul(inverse));
        inverse.wrapping_mul(error)
    });
    let offset = (word ^ seed).wrapping_mul(inverse);
    offset % 4 == 0 && (offset as usize) < bytes
}

/// Writes a different word at every position, by the CPU.
pub fn write_pattern(memory: &Memory, seed: u32) {
    for offset in (0..memory.len()).step_by(4) {
        memory.write(offset, pattern(offset, seed));
    }
}

/// Fails unless the CPU reads the words that [`write_pattern`] wrote.
pub fn expect_pattern(what: &str, memory: &Memory, seed: u32) -> Result<()> {
    for offset in (0..memory.len()).step_by(4) {
        let (found, wanted) = (memory.read(offset), pattern(offset, seed));
        ensure!(
            found == wanted,
            "{what}: word at {offset:#x} is {found:#010x}, should be {wanted:#010x}"
        );
    }
    Ok(())
}

/// Fails unless every word is `value`.
pub fn expect_all(what: &str, memory: &Memory, value: u32) -> Result<()> {
    match memory.find_other_than(value) {
        None => Ok(()),
        Some((offset, found)) => {
            anyhow::bail!("{what}: word at {offset:#x} is {found:#010x}, should be {value:#010x}")
        }
    }
}

/// Allocates and locks a node that the GPU can draw on; `cached` selects the CPU's view.
pub fn locked_surface(
    client: &Client,
    bytes: u32,
    pool: Pool,
    cached: bool,
) -> Result<(Node, Surface)> {
    let device = client.device();
    let node = device
        .allocate(bytes, 64, surface::BITMAP, pool)
        .with_context(|| format!("{bytes:#x} bytes of {pool}"))?;
    same("pool", node.pool, pool)?;
    let location = if cached {
        device.lock_cacheable(node)?
    } else {
        device.lock(node)?
    };
    let memory = device.memory(node, location, client.pool())?;
    Ok((node, surface_at(location.address, memory)?))
}

/// FBIOGET_FSCREENINFO; the size of its answer in a 32-bit program, and the offsets of the memory's start and length.
const GET_FIXED: u32 = 0x4602;
const FIXED_BYTES: usize = 68;
const START: usize = 16;
const LENGTH: usize = 20;

/// The fbdev device, opened as a client does.
pub struct Screen {
    /// The open device.
    pub file: File,
    /// The physical address of its memory.
    pub physical: u32,
    /// The size of its memory.
    pub bytes: usize,
}

impl Screen {
    /// The device node.
    pub const NODE: &str = "/dev/fb0";

    /// Opens the device and reads the address of its memory.
    pub fn open() -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(Self::NODE)
            .context(Self::NODE)?;
        let mut fixed = [0u8; FIXED_BYTES];
        sys::exchange_plain(file.as_fd(), GET_FIXED, &mut fixed)?;
        let word = |at: usize| {
            let bytes = [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
            u32::from_le_bytes(bytes)
        };
        let (physical, bytes) = (word(START), word(LENGTH) as usize);
        ensure!(
            physical != 0 && bytes != 0,
            "{bytes:#x} bytes at {physical:#x}"
        );
        Ok(Self {
            file,
            physical,
            bytes,
        })
    }

    /// Maps the whole memory.
    pub fn map(&self) -> Result<Memory> {
        Ok(Memory::new(Region::map(&self.file, self.bytes, 0)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_pattern_are_known_again() {
        for offset in [0, 4, 4096, 0x00ff_fffc] {
            assert!(is_of_pattern(pattern(offset, 77), 77, offset + 4));
            assert!(!is_of_pattern(pattern(offset, 77), 77, offset));
            assert!(!is_of_pattern(pattern(offset, 77), 78, offset + 4));
        }
    }
}
