// SPDX-License-Identifier: GPL-2.0-only

//! Performance counters of a core.
//!
//! The counters have 32 bits, wrap, and are lost when the core goes off or is reset. So while a
//! reader exists, [`Tally`] adds them up: on each request, and before the core goes off. The driver
//! never clears the totals: each reader subtracts an earlier value. Counts between the last read
//! and a reset are lost.
//!
//! While a reader exists, no module's clock is gated, because that would stop counters. Sources:
//! sources.md, profiling, and, for counters of each pixel pipe, etnaviv's signals of Linux 7.3.

use super::{
    identity::Identity,
    regs::*,
    Hardware, //
};
use crate::abi::{
    Cells,
    Counter, //
};
use crate::sys::prelude::*;
use kernel::io::Io;

/// Models whose `HI_PROFILE_TOTAL_CYCLES` counts idle cycles.
const IDLE_IN_PLACE_OF_TOTAL: [u32; 3] = [0x880, 0x2000, 0x2100];

/// Byte offsets of `MC_PROFILE_CONFIG0` to `2`, and of the ports that have the selected counters.
pub(super) const CONFIGS: [usize; 3] = [0x470, 0x474, 0x478];
const RA: usize = 0x448;
const TX: usize = 0x44C;
const PE: usize = 0x454;
const SH: usize = 0x45C;
const PA: usize = 0x460;
const SE: usize = 0x464;
const MC: usize = 0x468;
const HI: usize = 0x46C;

/// A counter that must be selected.
struct Source {
    counter: Counter,
    /// Byte offset of the port.
    port: usize,
    /// Index in [`CONFIGS`] of the register that selects it, the first bit, and the value.
    config: usize,
    shift: u32,
    select: u32,
    /// Each pixel pipe has its own counter.
    by_pipe: bool,
}

/// Sources of one port.
macro_rules! sources {
    ($($port:ident $config:literal $shift:literal: $($select:literal $counter:ident $($by_pipe:ident)?,)*;)*) => {
        [$($(Source {
            counter: Counter::$counter,
            port: $port,
            config: $config,
            shift: $shift,
            select: $select,
            by_pipe: sources!(@ $($by_pipe)?),
        },)*)*]
    };
    (@ by_pipe) => { true };
    (@) => { false };
}

/// Counters with one total for the first pixel pipe and one for all others.
static APART: [(u32, Counter, Counter); 4] = [
    (
        0,
        Counter::FirstKilledByColour,
        Counter::SecondKilledByColour,
    ),
    (1, Counter::FirstKilledByDepth, Counter::SecondKilledByDepth),
    (2, Counter::FirstDrawnByColour, Counter::SecondDrawnByColour),
    (3, Counter::FirstDrawnByDepth, Counter::SecondDrawnByDepth),
];

/// Counters of a 2D engine.
static SOURCES_2D: [Source; 1] = sources! {
    PE 0 16: 11 Pixels2d by_pipe,;
};

/// Counters of a 3D engine, without [`APART`].
static SOURCES_3D: [Source; 33] = sources! {
    SH 0 24:
        4 ShaderCycles,
        7 PixelInstructions,
        8 ShadedPixels,
        9 VertexInstructions by_pipe,
        10 ShadedVertices by_pipe,
        11 VertexBranches by_pipe,
        12 VertexLoads by_pipe,
        13 PixelBranches by_pipe,
        14 PixelLoads by_pipe,;
    PA 1 0:
        3 InputVertices,
        4 InputPrimitives,
        5 OutputPrimitives,
        6 DepthClipped by_pipe,
        7 TriviallyRejected by_pipe,
        8 Culled by_pipe,;
    SE 1 8:
        0 CulledTriangles,
        1 CulledLines,;
    RA 1 16:
        0 ValidPixels,
        1 Quads,
        2 ValidQuads,
        3 RasterizedPrimitives,
        9 PipeMisses,
        10 PrefetchMisses,
        11 CulledQuads,;
    TX 1 24:
        0 Bilinear,
        1 Trilinear,
        2 Discarded,
        3 TextureRequests,
        5 TextureReads,
        6 TextureRead,
        7 TextureMisses,
        8 HitTexels,
        9 MissedTexels,;
};

/// Counters of every core.
static SOURCES: [Source; 6] = sources! {
    MC 2 0:
        1 PipelineRead,
        2 OthersRead,
        3 PipelineWritten,;
    HI 2 8:
        0 ReadStalls,
        1 WriteStalls,
        2 DataStalls,;
};

/// The totals of a core since it was bound. They only include times with a reader.
pub(crate) struct Tally {
    /// Number of readers.
    users: Atomic<u32>,
    /// The last values of the counters. 0 after a reset.
    last: [Atomic<u32>; Counter::CELLS],
    totals: [Atomic<u32>; Counter::CELLS],
}

impl Tally {
    /// A tally of zeros. `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let zeros = || core::array::from_fn(|_| Atomic::new(0));
        Ok(Arc::new(
            Self {
                users: Atomic::new(0),
                last: zeros(),
                totals: zeros(),
            },
            GFP_KERNEL,
        )?)
    }

    /// Whether a reader exists.
    pub(crate) fn is_wanted(&self) -> bool {
        self.users.load(Relaxed) != 0
    }

    /// The totals. Each only grows, and wraps.
    pub(crate) fn totals(&self) -> Cells {
        core::array::from_fn(|cell| self.totals[cell].load(Relaxed))
    }

    /// Adds the progress of `counter`, whose value is `now`. Callers must not run concurrently.
    fn note(&self, counter: Counter, now: u32) {
        // CAST: the number of a variant.
        let cell = counter as usize;
        let (Some(last), Some(total)) = (self.last.get(cell), self.totals.get(cell)) else {
            return;
        };
        let more = now.wrapping_sub(last.load(Relaxed));
        last.store(now, Relaxed);
        total.store(total.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Notes that all counters are 0.
    fn forget(&self) {
        self.last.iter().for_each(|last| last.store(0, Relaxed));
    }
}

/// A reader. While it lives, the core's counters are added up.
pub(crate) struct Counting(Arc<Tally>);

impl Counting {
    /// The tally of the core.
    pub(crate) fn tally(&self) -> &Tally {
        &self.0
    }

    /// Whether this reads the core `hardware`. The core may have been replaced.
    pub(crate) fn is_of(&self, hardware: &Hardware) -> bool {
        Arc::ptr_eq(&self.0, &hardware.tally)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Relaxed);
    }
}

/// The selected pixel pipe and the read-only bits in `HI_CLOCK_CONTROL`.
const PIPE_SHIFT: u32 = 20;
const NOT_WRITTEN: u32 = 0xF << PIPE_SHIFT | 0x7 << 16;

impl Identity {
    /// The core's counters that must be selected.
    fn sources(&self) -> impl Iterator<Item = &'static Source> {
        let of = |list: &'static [Source], is_there: bool| if is_there { list } else { &[] };
        let flat = of(&SOURCES_2D, self.has_2d());
        let solid = of(&SOURCES_3D, self.has_3d());
        [&SOURCES, flat, solid].into_iter().flatten()
    }
}

impl Hardware {
    /// Adds a reader.
    pub(crate) fn want_counters(&self) -> Counting {
        self.tally.users.fetch_add(1, Relaxed);
        Counting(self.tally.clone())
    }

    /// Notes that a reset of the core has cleared the counters.
    pub(super) fn forget_counters(&self) {
        self.tally.forget();
    }

    /// Adds the counts since the last call. The core must be on, and the caller must be allowed to
    /// reset it.
    pub(crate) fn count(&self) {
        if self.is_isolated() {
            return;
        }
        self.set_counting_clocks();
        self.with_selectors(|| {
            self.count_selected();
            self.count_cycles();
        });
    }

    /// Calls `look`, which may select counters and pixel pipes. Then restores the selections.
    pub(super) fn with_selectors(&self, look: impl FnOnce()) {
        let regs = &self.registers;
        let kept = CONFIGS.map(|config| regs.try_read32(config).unwrap_or(0));
        look();
        self.select_pipe(0);
        for (config, value) in CONFIGS.into_iter().zip(kept) {
            let _ = regs.try_write32(value, config);
        }
    }

    /// Selects the counters of pixel pipe `pipe`. The last selection must be 0, or the core may
    /// hang.
    fn select_pipe(&self, pipe: u32) {
        if self.identity.pixel_pipes > 1 {
            let clock = self.registers.read(HI_CLOCK_CONTROL).into_raw() & !NOT_WRITTEN;
            self.registers
                .write_reg(HI_CLOCK_CONTROL::from_raw(clock | pipe << PIPE_SHIFT));
        }
    }

    /// Selects and reads a counter of the selected pixel pipe.
    pub(super) fn selected(&self, port: usize, config: usize, select: u32) -> u32 {
        let regs = &self.registers;
        let config = CONFIGS.get(config).copied().unwrap_or(CONFIGS[0]);
        let _ = regs.try_write32(select, config);
        regs.try_read32(port).unwrap_or(0)
    }

    /// The value of the first pixel pipe, and the sum of the others.
    fn of_pipes(&self, read: impl Fn() -> u32) -> (u32, u32) {
        let first = read();
        let mut others = 0u32;
        for pipe in 1..self.identity.pixel_pipes {
            self.select_pipe(pipe);
            others = others.wrapping_add(read());
        }
        if self.identity.pixel_pipes > 1 {
            self.select_pipe(0);
        }
        (first, others)
    }

    fn count_selected(&self) {
        for source in self.identity.sources() {
            let read = || self.selected(source.port, source.config, source.select << source.shift);
            let now = if source.by_pipe {
                let (first, others) = self.of_pipes(read);
                first.wrapping_add(others)
            } else {
                read()
            };
            self.tally.note(source.counter, now);
        }
        if self.identity.has_3d() {
            for (select, first, second) in &APART {
                let (now, others) = self.of_pipes(|| self.selected(PE, 0, *select << 16));
                self.tally.note(*first, now);
                self.tally.note(*second, others);
            }
        }
    }

    fn count_cycles(&self) {
        let regs = &self.registers;
        let (first, others) = self.of_pipes(|| regs.read(HI_PROFILE_READ_BYTES8).into_raw());
        self.tally.note(Counter::FirstRead, first);
        self.tally.note(Counter::SecondRead, others);
        let (first, others) = self.of_pipes(|| regs.read(HI_PROFILE_WRITE_BYTES8).into_raw());
        self.tally.note(Counter::FirstWritten, first);
        self.tally.note(Counter::SecondWritten, others);
        let cycles = regs.read(MC_PROFILE_CYCLE_COUNTER).into_raw();
        self.tally.note(Counter::Cycles, cycles);
        let id = &self.identity;
        let (total, idle) = if !id.has_more_registers() {
            // Early cores do not have them.
            (cycles, 0)
        } else if IDLE_IN_PLACE_OF_TOTAL.contains(&id.model) {
            (cycles, regs.read(HI_PROFILE_TOTAL_CYCLES).into_raw())
        } else {
            (
                regs.read(HI_PROFILE_TOTAL_CYCLES).into_raw(),
                regs.read(HI_PROFILE_IDLE_CYCLES).into_raw(),
            )
        };
        self.tally.note(Counter::TotalCycles, total);
        self.tally.note(Counter::IdleCycles, idle);
    }

    /// Notes that the blocks at the ports were reset: their counters are 0.
    pub(super) fn forget_selected(&self) {
        let clear = |counter: Counter| {
            // CAST: the number of a variant.
            if let Some(last) = self.tally.last.get(counter as usize) {
                last.store(0, Relaxed);
            }
        };
        let sources = self.identity.sources().map(|source| source.counter);
        sources.for_each(clear);
        for (_, first, second) in &APART {
            clear(*first);
            clear(*second);
        }
    }
}

#[kunit_tests(galcore_tally)]
mod tests {
    use super::*;

    #[test]
    fn totals_survive_what_the_counters_do_not() {
        let tally = Tally::new().unwrap();
        let total = || tally.totals()[Counter::Cycles as usize];
        tally.note(Counter::Cycles, 100);
        tally.note(Counter::Cycles, 130);
        assert_eq!(total(), 130);
        tally.forget();
        tally.note(Counter::Cycles, 7);
        assert_eq!(total(), 137);
        // The counter has wrapped.
        tally.note(Counter::Cycles, u32::MAX);
        tally.note(Counter::Cycles, 4);
        assert_eq!(total(), 137u32.wrapping_add(u32::MAX - 7 + 5));
    }

    #[test]
    fn every_counter_has_one_source() {
        let mut id = Identity::default();
        (id.features, id.pixel_pipes) = (1 << 2 | 1 << 9, 2);
        assert!(id.has_3d() && id.has_2d());
        let mut found = [0; Counter::CELLS];
        for source in id.sources() {
            found[source.counter as usize] += 1;
            assert!(source.select < 15 && source.shift % 8 == 0);
        }
        for (_, first, second) in &APART {
            found[*first as usize] += 1;
            found[*second as usize] += 1;
        }
        // The others are cycles and units of 8 bytes.
        let others = found.iter().filter(|&&sources| sources == 0).count();
        assert_eq!(others, 7);
        assert!(found.iter().all(|&sources| sources <= 1));
    }
}
