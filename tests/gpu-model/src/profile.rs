// SPDX-License-Identifier: GPL-2.0-only
//! What a core counts of its work, and the ports that show it (sources.md, profiling).
//!
//! The pixel engine counts the pixels that it has written, each pipe its own: those of resolves and clears as drawn
//! by colour, those of the 2D engine as such. The memory controller counts units of 8 bytes: read and written by the
//! engines, and read by the front end; the host interface the same, by pixel pipe, where the front end's are the
//! first one's. What the host sees of the pipes is what [`HI_CLOCK_CONTROL`] selects. Cycles are microseconds of the
//! host's clock times [`CYCLES_PER_MICROSECOND`]. Blocks that never work here (shaders, assembly, setup, rasteriser,
//! texture units) count nothing.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::gpu::Gpu;
use crate::registers::*;

/// Core clock in cycles for each microsecond, for the cycle counters.
pub const CYCLES_PER_MICROSECOND: u64 = 528;
/// Pixel pipes of the largest core.
pub const MAX_PIPES: usize = 2;
/// What a selector shows besides counters; selecting it resets the block.
const SIGNATURE: u32 = 15;
/// Bits of [`HI_CLOCK_CONTROL`]: the pixel pipe whose counters the host sees.
const PIPE_SELECT: (u32, u32) = (20, 0xf);

/// Who moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mover {
    /// The front end fetches.
    FrontEnd,
    /// An engine, in a pixel pipe.
    Pipe(usize),
}

/// One pixel pipe's counters.
#[derive(Default)]
struct Pipe {
    /// Bytes.
    read: AtomicU64,
    written: AtomicU64,
    /// Pixels drawn by colour, and in 2D.
    drawn: AtomicU64,
    drawn_2d: AtomicU64,
}

/// The counters.
#[derive(Default)]
pub(crate) struct Profile {
    pipes: [Pipe; MAX_PIPES],
    /// Of the memory controller, in bytes.
    engines_read: AtomicU64,
    engines_written: AtomicU64,
    front_end_read: AtomicU64,
}

impl Profile {
    /// Bytes that were moved; `total`: the host interface counts, too.
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

    /// Pixels that a pipe has drawn, in 2D or by colour.
    pub(crate) fn count_pixels(&self, pipe: usize, is_2d: bool, pixels: u64) {
        let pipe = &self.pipes[pipe];
        let counter = if is_2d { &pipe.drawn_2d } else { &pipe.drawn };
        counter.fetch_add(pixels, Relaxed);
    }

    /// Clears what the host interface has counted.
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

    /// As behind a reset.
    pub(crate) fn clear(&self) {
        self.clear_totals();
        self.clear_pixels();
        self.clear_memory();
    }
}

/// A port's selector (register and first bit), and its signature.
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

    /// A counter of the selected pixel pipe; one that the core lacks counts nothing.
    fn of_pipe(&self, counter: impl FnOnce(&Pipe) -> u64) -> u64 {
        let pipe = self.selected_pipe();
        match self.profile.pipes.get(pipe) {
            Some(found) if pipe < self.personality.pixel_pipes() => counter(found),
            _ => 0,
        }
    }

    /// What the host interface has read, in units of 8 bytes.
    pub(crate) fn total_read(&self) -> u32 {
        (self.of_pipe(|pipe| pipe.read.load(Relaxed)) / 8) as u32
    }

    /// What it has written.
    pub(crate) fn total_written(&self) -> u32 {
        (self.of_pipe(|pipe| pipe.written.load(Relaxed)) / 8) as u32
    }

    /// A profile port shows what its selector chooses.
    pub(crate) fn profile_port(&self, offset: u32) -> u32 {
        let (config, shift, signature) = port(offset);
        let select = (self.registers.get(config) >> shift) & 0xf;
        let units = |bytes: &AtomicU64| (bytes.load(Relaxed) / 8) as u32;
        // A slow draw moves them all the time.
        let pixels = |pixels: u64| (pixels as u32).wrapping_add(self.progress.load(Relaxed));
        match (offset, select) {
            (_, SIGNATURE) => signature,
            (MC_PROFILE_PE_READ, 2) => pixels(self.of_pipe(|pipe| pipe.drawn.load(Relaxed))),
            (MC_PROFILE_PE_READ, 11) => pixels(self.of_pipe(|pipe| pipe.drawn_2d.load(Relaxed))),
            (MC_PROFILE_MC_READ, 1) => units(&self.profile.engines_read),
            (MC_PROFILE_MC_READ, 2) => units(&self.profile.front_end_read),
            (MC_PROFILE_MC_READ, 3) => units(&self.profile.engines_written),
            _ => 0,
        }
    }

    /// A selector was written: a block whose signature is selected forgets what it has counted.
    pub(crate) fn select_counters(&self, config: u32, value: u32) {
        let resets = |shift: u32| value >> shift & 0xf == SIGNATURE;
        if config == MC_PROFILE_CONFIG0 && resets(16) {
            self.profile.clear_pixels();
            self.progress.store(0, Relaxed);
        }
        if config == MC_PROFILE_CONFIG2 && resets(0) {
            self.profile.clear_memory();
        }
    }
}
