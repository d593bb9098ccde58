// SPDX-License-Identifier: GPL-2.0-only
//! Profile counters of a core, and the ports that show them (sources.md, profiling).
//!
//! The pixel engine counts the pixels that it has written, per pipe. Pixels of resolves and clears count as drawn by
//! color, those of the 2D engine as 2D. The memory controller counts units of 8 bytes: read and written by the engines,
//! and read by the front end. The host interface counts the same units per pixel pipe; the front end's units count for
//! the first pipe. [`HI_CLOCK_CONTROL`] selects the pipe that the host sees. Cycles are microseconds of the host's
//! clock times [`CYCLES_PER_MICROSECOND`]. Shaders, assembly, setup, rasterizer and texture units count the work of 3D
//! draws as a whole: counters that exist per pipe show it for the first pipe. Caches count no misses.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::draw::Counts;
use crate::gpu::Gpu;
use crate::registers::*;

/// Core clock in cycles per microsecond, for the cycle counters.
pub const CYCLES_PER_MICROSECOND: u64 = 528;
/// Pixel pipes of the largest core.
pub const MAX_PIPES: usize = 2;
/// Selector value that shows the signature. Selecting it resets the block.
const SIGNATURE: u32 = 15;
/// Bits of [`HI_CLOCK_CONTROL`]: the pixel pipe whose counters the host sees.
const PIPE_SELECT: (u32, u32) = (20, 0xf);

/// Source of memory traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mover {
    /// Fetches of the front end.
    FrontEnd,
    /// An engine, in a pixel pipe.
    Pipe(usize),
}

/// Counters of one pixel pipe.
#[derive(Default)]
struct Pipe {
    /// Bytes.
    read: AtomicU64,
    written: AtomicU64,
    /// Pixels drawn by color, and in 2D.
    drawn: AtomicU64,
    drawn_2d: AtomicU64,
}

/// The counters.
#[derive(Default)]
pub(crate) struct Profile {
    pipes: [Pipe; MAX_PIPES],
    /// Memory controller, in bytes.
    engines_read: AtomicU64,
    engines_written: AtomicU64,
    front_end_read: AtomicU64,
    drawn: Drawn,
}

/// Counters of the blocks between front end and pixel engine. Each block has its own reset.
#[derive(Default)]
struct Drawn {
    /// Front end: primitives.
    sent: AtomicU64,
    /// Shaders: instructions and runs, for pixels and for vertices.
    instructions: [AtomicU64; 2],
    runs: [AtomicU64; 2],
    /// Assembly: vertices, primitives, and primitives drawn, clipped and culled.
    assembled: [AtomicU64; 5],
    /// Setup: culled primitives.
    set_up: AtomicU64,
    /// Rasterizer: pixels, squares, primitives.
    rasterized: [AtomicU64; 3],
    /// Texture units: requests.
    requests: AtomicU64,
}

fn add_all<const N: usize>(counters: &[AtomicU64; N], amounts: [u64; N]) {
    for (counter, amount) in counters.iter().zip(amounts) {
        counter.fetch_add(amount, Relaxed);
    }
}

impl Profile {
    /// Counts a primitive sent by the front end, or progress in drawing one.
    pub(crate) fn count_progress(&self) {
        self.drawn.sent.fetch_add(1, Relaxed);
    }

    /// Counts the work of a 3D draw.
    pub(crate) fn count_draw(&self, counts: &Counts) {
        let drawn = &self.drawn;
        let pixels = 4 * counts.quads;
        let left = counts.primitives - counts.culled;
        add_all(
            &drawn.instructions,
            [counts.instructions[1], counts.instructions[0]],
        );
        add_all(&drawn.runs, [pixels, counts.vertices]);
        add_all(
            &drawn.assembled,
            [
                counts.vertices,
                counts.primitives,
                left,
                counts.clipped,
                counts.culled,
            ],
        );
        drawn.set_up.fetch_add(counts.culled, Relaxed);
        add_all(&drawn.rasterized, [counts.pixels, counts.quads, left]);
        drawn.requests.fetch_add(counts.requests, Relaxed);
    }

    /// A block's counter of 3D draws.
    fn of_draws(&self, port: u32, select: u32) -> u64 {
        let drawn = &self.drawn;
        let counter = match (port, select) {
            (MC_PROFILE_FE_READ, 9) => &drawn.sent,
            (MC_PROFILE_SH_READ, 7) => &drawn.instructions[0],
            (MC_PROFILE_SH_READ, 8) => &drawn.runs[0],
            (MC_PROFILE_SH_READ, 9) => &drawn.instructions[1],
            (MC_PROFILE_SH_READ, 10) => &drawn.runs[1],
            (MC_PROFILE_PA_READ, 3) => &drawn.assembled[0],
            (MC_PROFILE_PA_READ, 4) => &drawn.assembled[1],
            (MC_PROFILE_PA_READ, 5) => &drawn.assembled[2],
            (MC_PROFILE_PA_READ, 6) => &drawn.assembled[3],
            (MC_PROFILE_PA_READ, 8) => &drawn.assembled[4],
            (MC_PROFILE_SE_READ, 0) => &drawn.set_up,
            (MC_PROFILE_RA_READ, 0) => &drawn.rasterized[0],
            (MC_PROFILE_RA_READ, 1 | 2) => &drawn.rasterized[1],
            (MC_PROFILE_RA_READ, 3) => &drawn.rasterized[2],
            (MC_PROFILE_TX_READ, 3) => &drawn.requests,
            _ => return 0,
        };
        counter.load(Relaxed)
    }

    /// Clears a block's counters of 3D draws.
    fn clear_block(&self, port: u32) {
        let drawn = &self.drawn;
        let clear = |counters: &[AtomicU64]| {
            counters
                .iter()
                .for_each(|counter| counter.store(0, Relaxed));
        };
        match port {
            MC_PROFILE_SH_READ => {
                clear(&drawn.instructions);
                clear(&drawn.runs);
            }
            MC_PROFILE_PA_READ => clear(&drawn.assembled),
            MC_PROFILE_SE_READ => clear(std::slice::from_ref(&drawn.set_up)),
            MC_PROFILE_RA_READ => clear(&drawn.rasterized),
            MC_PROFILE_TX_READ => clear(std::slice::from_ref(&drawn.requests)),
            _ => {}
        }
    }

    /// Counts moved bytes. `total`: the host interface counts them too.
    pub(crate) fn count_traffic(&self, mover: Mover, read: u64, written: u64, total: bool) {
        let pipe = match mover {
            Mover::FrontEnd => {
                self.front_end_read.fetch_add(read, Relaxed);
                0
            }
            Mover::Pipe(pipe) => {
                self.engines_read.fetch_add(read, Relaxed);
                self.engines_written.fetch_add(written, Relaxed);
                pipe
            }
        };
        if total {
            self.pipes[pipe].read.fetch_add(read, Relaxed);
            self.pipes[pipe].written.fetch_add(written, Relaxed);
        }
    }

    /// Counts pixels drawn by a pipe, in 2D or by color.
    pub(crate) fn count_pixels(&self, pipe: usize, is_2d: bool, pixels: u64) {
        let pipe = &self.pipes[pipe];
        let counter = if is_2d { &pipe.drawn_2d } else { &pipe.drawn };
        counter.fetch_add(pixels, Relaxed);
    }

    /// Clears the host interface's counters.
    pub(crate) fn clear_totals(&self) {
        for pipe in &self.pipes {
            pipe.read.store(0, Relaxed);
            pipe.written.store(0, Relaxed);
        }
    }

    fn clear_pixels(&self) {
        for pipe in &self.pipes {
            pipe.drawn.store(0, Relaxed);
            pipe.drawn_2d.store(0, Relaxed);
        }
    }

    fn clear_memory(&self) {
        self.engines_read.store(0, Relaxed);
        self.engines_written.store(0, Relaxed);
        self.front_end_read.store(0, Relaxed);
    }

    /// Clears all counters, as a reset does.
    pub(crate) fn clear(&self) {
        for (port, _, _) in BLOCKS {
            self.clear_block(port);
        }
        self.drawn.sent.store(0, Relaxed);
        self.clear_totals();
        self.clear_pixels();
        self.clear_memory();
    }
}

/// Blocks that count 3D draws: port, selector register and first bit of the selector.
const BLOCKS: [(u32, u32, u32); 5] = [
    (MC_PROFILE_SH_READ, MC_PROFILE_CONFIG0, 24),
    (MC_PROFILE_PA_READ, MC_PROFILE_CONFIG1, 0),
    (MC_PROFILE_SE_READ, MC_PROFILE_CONFIG1, 8),
    (MC_PROFILE_RA_READ, MC_PROFILE_CONFIG1, 16),
    (MC_PROFILE_TX_READ, MC_PROFILE_CONFIG1, 24),
];

/// A port's selector (register and first bit), and the port's signature.
fn port(offset: u32) -> (u32, u32, u32) {
    match offset {
        MC_PROFILE_FE_READ => (MC_PROFILE_CONFIG0, 0, 0xbabe_f00d),
        MC_PROFILE_DE_READ => (MC_PROFILE_CONFIG0, 8, 0xbabe_f00d),
        MC_PROFILE_PE_READ => (MC_PROFILE_CONFIG0, 16, 0xbabe_f00d),
        MC_PROFILE_SH_READ => (MC_PROFILE_CONFIG0, 24, 0xdead_beef),
        MC_PROFILE_PA_READ => (MC_PROFILE_CONFIG1, 0, 0x0000_aaaa),
        MC_PROFILE_SE_READ => (MC_PROFILE_CONFIG1, 8, 0x5e5e_5e5e),
        MC_PROFILE_RA_READ => (MC_PROFILE_CONFIG1, 16, 0x1234_4321),
        MC_PROFILE_TX_READ => (MC_PROFILE_CONFIG1, 24, 0x1221_1221),
        MC_PROFILE_MC_READ => (MC_PROFILE_CONFIG2, 0, 0x1234_5678),
        _ => (MC_PROFILE_CONFIG2, 8, 0xaaaa_aaaa),
    }
}

impl Gpu {
    /// The pixel pipe whose counters the host sees.
    fn selected_pipe(&self) -> usize {
        let (shift, mask) = PIPE_SELECT;
        (self.registers.get(HI_CLOCK_CONTROL) >> shift & mask) as usize
    }

    /// A counter of the selected pixel pipe; 0 if the core lacks the pipe.
    fn of_pipe(&self, counter: impl FnOnce(&Pipe) -> u64) -> u64 {
        let pipe = self.selected_pipe();
        match self.profile.pipes.get(pipe) {
            Some(found) if pipe < self.personality.pixel_pipes() => counter(found),
            _ => 0,
        }
    }

    /// Data read through the host interface, in units of 8 bytes.
    pub(crate) fn total_read(&self) -> u32 {
        (self.of_pipe(|pipe| pipe.read.load(Relaxed)) / 8) as u32
    }

    /// Data written through the host interface, in units of 8 bytes.
    pub(crate) fn total_written(&self) -> u32 {
        (self.of_pipe(|pipe| pipe.written.load(Relaxed)) / 8) as u32
    }

    /// Value of a profile port, according to its selector.
    pub(crate) fn profile_port(&self, offset: u32) -> u32 {
        let (config, shift, signature) = port(offset);
        let select = (self.registers.get(config) >> shift) & 0xf;
        let units = |bytes: &AtomicU64| (bytes.load(Relaxed) / 8) as u32;
        // A slow draw changes the counters all the time.
        let pixels = |pixels: u64| (pixels as u32).wrapping_add(self.progress.load(Relaxed));
        match (offset, select) {
            (_, SIGNATURE) => signature,
            (MC_PROFILE_PE_READ, 2) => pixels(self.of_pipe(|pipe| pipe.drawn.load(Relaxed))),
            (MC_PROFILE_PE_READ, 11) => pixels(self.of_pipe(|pipe| pipe.drawn_2d.load(Relaxed))),
            (MC_PROFILE_MC_READ, 1) => units(&self.profile.engines_read),
            (MC_PROFILE_MC_READ, 2) => units(&self.profile.front_end_read),
            (MC_PROFILE_MC_READ, 3) => units(&self.profile.engines_written),
            // The other counters belong to the first pipe.
            _ if self.selected_pipe() != 0 => 0,
            _ => self.profile.of_draws(offset, select) as u32,
        }
    }

    /// Handles a write of selectors: clears each block whose signature is selected.
    pub(crate) fn select_counters(&self, config: u32, value: u32) {
        let resets = |shift: u32| value >> shift & 0xf == SIGNATURE;
        if config == MC_PROFILE_CONFIG0 && resets(16) {
            self.profile.clear_pixels();
            self.progress.store(0, Relaxed);
        }
        for (port, _, shift) in BLOCKS.iter().filter(|block| block.1 == config) {
            if resets(*shift) {
                self.profile.clear_block(*port);
            }
        }
        if config == MC_PROFILE_CONFIG2 && resets(0) {
            self.profile.clear_memory();
        }
    }
}
