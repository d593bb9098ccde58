// SPDX-License-Identifier: GPL-2.0-only

//! The words of the front end's command stream: encoding, decoding, and the kernel's states.
//!
//! Names are those of the register database (rnndb, `cmdstream.xml` and `state.xml`). Each command
//! is aligned to 8 bytes. Source: sources.md, command stream.

use crate::hw::MmuVersion;

/// State numbers. They are word addresses (byte offset / 4), as in `LOAD_STATE` headers.
pub(crate) mod state {
    /// The word address of a byte offset.
    pub(crate) const fn word(byte: u32) -> u32 {
        byte >> 2
    }

    /// `MMUv2_SAFE_ADDRESS`: the target of accesses that no page maps.
    pub(crate) const MMUV2_SAFE_ADDRESS: u32 = word(0x0180);
    /// `MMUv2_CONFIGURATION`: the first-level table, and the flush.
    pub(crate) const MMUV2_CONFIGURATION: u32 = word(0x0184);
    /// `MMUv2_PTA_CONFIG`: the entry of the page table array that a secure MMU uses.
    pub(crate) const MMUV2_PTA_CONFIG: u32 = word(0x01AC);
    /// First state after the registers of the host interface (bytes 0x000 to 0x5FF).
    pub(crate) const FIRST_ENGINE: u32 = word(0x0600);
    /// `FE_VERTEX_ELEMENT_CONFIG`, the first of 12 or 16.
    pub(crate) const FE_VERTEX_ELEMENT_CONFIG: u32 = word(0x0600);
    /// `FE_CMD_STREAM_BASE_ADDR`.
    pub(crate) const FE_CMD_STREAM_BASE_ADDR: u32 = word(0x0640);
    /// `FE_COMMAND_ADDRESS`, the first of the front end's own registers.
    pub(crate) const FE_COMMAND_ADDRESS: u32 = word(0x0654);
    /// `FE_DMA_HIGH`, the last of the front end's own registers.
    pub(crate) const FE_DMA_HIGH: u32 = word(0x066C);
    /// `RS_KICKER`: any write starts the resolve engine.
    pub(crate) const RS_KICKER: u32 = word(0x1600);
    /// `RS_KICKER_INPLACE`: any write starts the resolve engine.
    pub(crate) const RS_KICKER_INPLACE: u32 = word(0x16B0);
    /// `DE_SRC_ADDRESS`: source of the 2D engine.
    pub(crate) const DE_SRC_ADDRESS: u32 = word(0x1200);
    /// `DE_DEST_ADDRESS`: target of the 2D engine.
    pub(crate) const DE_DEST_ADDRESS: u32 = word(0x1228);
    /// `RS_DEST_ADDR`: target of the resolve engine with one pixel pipe.
    pub(crate) const RS_DEST_ADDR: u32 = word(0x1610);
    /// `RS_PIPE_DEST_ADDR`: target of the first of several pixel pipes.
    pub(crate) const RS_PIPE_DEST_ADDR: u32 = word(0x16E0);
    /// `CL_KICKER`: starts the thread walker.
    pub(crate) const CL_KICKER: u32 = word(0x0920);
    /// `DE_VR_CONFIG`: starts the filter of the 2D engine.
    pub(crate) const DE_VR_CONFIG: u32 = word(0x1294);
    /// `TS_FLUSH_CACHE`: bit 0 writes back the tile status cache.
    pub(crate) const TS_FLUSH_CACHE: u32 = word(0x1650);
    /// `VS_ICACHE_INVALIDATE` of HALTI5: a bit for each kind of shader.
    pub(crate) const VS_ICACHE_INVALIDATE: u32 = word(0x08B0);
    /// `NTE_DESCRIPTOR_FLUSH` of HALTI5: invalidates texture descriptors.
    pub(crate) const NTE_DESCRIPTOR_FLUSH: u32 = word(0x14C44);
    /// `GL_PIPE_SELECT`: bit 0 is 0 for 3D, 1 for 2D.
    pub(crate) const GL_PIPE_SELECT: u32 = word(0x3800);
    /// `GL_EVENT`: bits 4:0 id, bit 5 from FE, bit 6 from PE.
    pub(crate) const GL_EVENT: u32 = word(0x3804);
    /// `GL_SEMAPHORE_TOKEN`: bits 4:0 from, bits 12:8 to.
    pub(crate) const GL_SEMAPHORE_TOKEN: u32 = word(0x3808);
    /// `GL_FLUSH_CACHE`: one bit for each cache.
    pub(crate) const GL_FLUSH_CACHE: u32 = word(0x380C);
    /// `GL_FLUSH_MMU`: one bit for each translation unit of MMU version 1.
    pub(crate) const GL_FLUSH_MMU: u32 = word(0x3810);
    /// `GL_STALL_TOKEN`: the stall of modules other than the front end.
    pub(crate) const GL_STALL_TOKEN: u32 = word(0x3C00);
    /// Page table addresses of MMU version 1. Zeros here delay some cores after an event.
    pub(crate) const EVENT_PADDING: u32 = word(0x0400);
}

/// Bits of `GL_FLUSH_CACHE`.
pub(crate) mod flush {
    /// Depth cache of the pixel engine.
    pub(crate) const DEPTH: u32 = 1 << 0;
    /// Color cache of the pixel engine.
    pub(crate) const COLOR: u32 = 1 << 1;
    /// Texture cache.
    pub(crate) const TEXTURE: u32 = 1 << 2;
    /// Cache of the 2D pixel engine.
    pub(crate) const PE2D: u32 = 1 << 3;
    /// Texture cache of the vertex shaders.
    pub(crate) const TEXTURE_VS: u32 = 1 << 4;
    /// First level of the shaders' cache.
    pub(crate) const SHADER_L1: u32 = 1 << 5;
    /// Second level of the shaders' cache.
    pub(crate) const SHADER_L2: u32 = 1 << 6;
    /// The caches of shader stores that HALTI5 adds.
    pub(crate) const SHADER_STORES: u32 = 1 << 10 | 1 << 11;
}

/// Bit of `GL_EVENT`: the event fires when the pixel engine has drained.
pub(crate) const EVENT_FROM_PE: u32 = 1 << 6;

/// Token of a semaphore and stall from the front end to the pixel engine.
pub(crate) const TOKEN_FE_TO_PE: u32 = 0x0701;

/// `GL_FLUSH_MMU`: the front end, texture, pixel, depth and raster units.
const FLUSH_MMU_ALL: u32 = 0x1F;

/// `MMUv2_CONFIGURATION`: flush. The mask bits leave the mode and the address unchanged.
const FLUSH_MMU_V2: u32 = KEEP_ADDRESS | 1 << 4 | 1 << 3;

/// `MMUv2_CONFIGURATION`: the mask bit of the address.
const KEEP_ADDRESS: u32 = 1 << 8;

/// Cycles that the front end waits between two fetches of the idle loop.
const WAIT_CYCLES: u32 = 200;

/// The engines that share one front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pipe {
    /// Vertex, shader, raster and resolve.
    Pipe3d,
    /// The raster-operation engine.
    Pipe2d,
}

impl Pipe {
    /// The pipe of a `GL_PIPE_SELECT` value or a `gcePIPE_SELECT` number.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Pipe::Pipe3d),
            1 => Some(Pipe::Pipe2d),
            _ => None,
        }
    }

    /// Index in arrays with an entry for each pipe.
    pub(crate) const fn index(self) -> usize {
        match self {
            Pipe::Pipe3d => 0,
            Pipe::Pipe2d => 1,
        }
    }

    /// The value for `GL_PIPE_SELECT`.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Pipe::Pipe3d => 0,
            Pipe::Pipe2d => 1,
        }
    }
}

/// The engines that a core has, or that a stream uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pipes {
    /// The 3D pipe.
    pub(crate) pipe_3d: bool,
    /// The 2D pipe.
    pub(crate) pipe_2d: bool,
}

#[cfg(CONFIG_KUNIT)]
impl Pipes {
    /// Both engines.
    pub(crate) const BOTH: Self = Self {
        pipe_3d: true,
        pipe_2d: true,
    };
    /// Only the 3D pipe.
    pub(crate) const ONLY_3D: Self = Self {
        pipe_3d: true,
        pipe_2d: false,
    };
    /// Only the 2D pipe.
    pub(crate) const ONLY_2D: Self = Self {
        pipe_3d: false,
        pipe_2d: true,
    };
}

impl Pipes {
    /// Whether `pipe` exists.
    pub(crate) fn has(self, pipe: Pipe) -> bool {
        match pipe {
            Pipe::Pipe3d => self.pipe_3d,
            Pipe::Pipe2d => self.pipe_2d,
        }
    }

    /// The pipe in which a stream with the entry pipe `number` begins. On a core with one engine it
    /// is that engine: there clients leave the number at 0 and select the pipe in their first
    /// words. `None`: no such number.
    pub(crate) fn entry(self, number: u32) -> Option<Pipe> {
        let named = Pipe::from_number(number)?;
        let both = [named, Pipe::Pipe3d, Pipe::Pipe2d];
        both.into_iter().find(|&pipe| self.has(pipe))
    }

    /// Whether there are both engines.
    pub(crate) fn are_both(self) -> bool {
        self.pipe_3d && self.pipe_2d
    }

    /// Adds the engine of `pipe`.
    pub(crate) fn add(&mut self, pipe: Pipe) {
        match pipe {
            Pipe::Pipe3d => self.pipe_3d = true,
            Pipe::Pipe2d => self.pipe_2d = true,
        }
    }
}

/// Opcodes (bits 31:27 of a command's first word) that user streams may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    /// `LOAD_STATE`.
    LoadState,
    /// `NOP`.
    Nop,
    /// `DRAW_2D`.
    Draw2d,
    /// `DRAW_PRIMITIVES`.
    DrawPrimitives,
    /// `DRAW_INDEXED_PRIMITIVES`.
    DrawIndexed,
    /// `STALL`.
    Stall,
    /// `DRAW_INSTANCED`.
    DrawInstanced,
    /// All others: the kernel's own (`END`, `WAIT`, `LINK`, ...), and values that are no command.
    Other(u32),
}

impl Opcode {
    /// The opcode of a command's first word.
    pub(crate) fn of(word: u32) -> Self {
        match word >> 27 {
            1 => Opcode::LoadState,
            3 => Opcode::Nop,
            4 => Opcode::Draw2d,
            5 => Opcode::DrawPrimitives,
            6 => Opcode::DrawIndexed,
            9 => Opcode::Stall,
            12 => Opcode::DrawInstanced,
            other => Opcode::Other(other),
        }
    }
}

/// Whether the front end of some core has a command that begins with `word`.
pub(crate) const fn exists(word: u32) -> bool {
    // END, WAIT, LINK, CALL, RETURN and others, besides those of `Opcode`.
    const OPCODES: u32 = 0x1FFE | 1 << 13 | 1 << 15 | 1 << 16 | 1 << 19;
    OPCODES & (1 << (word >> 27)) != 0
}

/// `LOAD_STATE` header for `count` values (1 to 1023) from word address `address` on.
pub(crate) const fn load_state(address: u32, count: u32) -> u32 {
    0x0800_0000 | ((count & 0x3FF) << 16) | (address & 0xFFFF)
}

/// First word of `END`: the front end stops. Never sent. The checker's tests refuse it.
#[cfg_attr(not(CONFIG_KUNIT), allow(dead_code))]
pub(crate) const END: u32 = 0x1000_0000;

/// First word of `DRAW_2D` with one rectangle.
pub(crate) const DRAW_2D: u32 = 0x2000_0100;

/// First word of `NOP`.
pub(crate) const NOP: u32 = 0x1800_0000;

/// First word of `WAIT`.
pub(crate) const WAIT: u32 = 0x3800_0000 | WAIT_CYCLES;

/// First word of `STALL`. The second word is the token.
pub(crate) const STALL: u32 = 0x4800_0000;

/// Words that wait for the work before the semaphore from the front end to the pixel engine.
pub(crate) const STALL_FE_TO_PE: [u32; 2] = [STALL, TOKEN_FE_TO_PE];

/// First word of a `LINK` to GPU address `address`, where the front end prefetches `bytes`.
///
/// The end of the prefetch is rounded up to a 64-byte boundary, as in the vendor's drivers. It must
/// stay below 512 KiB.
pub(crate) const fn link(address: u32, bytes: u32) -> u32 {
    let end = address.wrapping_add(bytes).wrapping_add(63) & !63;
    0x4000_0000 | ((end.wrapping_sub(address) >> 3) & 0xFFFF)
}

/// Words of the idle loop at the end of the ring: a WAIT, and a LINK back to it.
pub(crate) const fn wait_link(address: u32) -> [u32; 4] {
    [WAIT, 0, 0x4000_0002, address]
}

/// Words that flush the caches of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caches {
    /// See [`drain`]. Made once, because it follows every job.
    drain: [u32; DRAIN_WORDS],
    /// Invalidates read-only caches: loads of `GL_FLUSH_CACHE`, or NOPs.
    textures: [u32; 4],
    /// Invalidates the instructions and texture descriptors of HALTI5.
    halti5: [u32; 4],
}

/// A load of `GL_FLUSH_CACHE`, or a NOP.
pub(crate) const fn flush_of(bits: u32) -> [u32; 2] {
    match bits {
        0 => [NOP, 0],
        bits => [load_state(state::GL_FLUSH_CACHE, 1), bits],
    }
}

impl Caches {
    /// The caches of a core with these engines. `tile_status`: the 3D engine has tile status.
    ///
    /// Texture caches, and the second level of the shaders' cache on cores with MMU version 2, have
    /// nothing to write back. They must be invalidated when translations change, because they hold
    /// data of the old addresses. The pixel engine must drain first: draws that still run would
    /// fill them again, and cores without `TEX_CACHE_FLUSH_FIX` require it. The textures of vertex
    /// shaders need their own command. Sources: the vendor's drivers from 4.6.9 on (bits and
    /// order), and etnaviv (what follows each job).
    pub(crate) const fn new(
        pipe_3d: bool,
        pipe_2d: bool,
        tile_status: bool,
        mmu: MmuVersion,
    ) -> Self {
        let bits_3d = if pipe_3d {
            flush::DEPTH | flush::COLOR | flush::SHADER_L1
        } else {
            0
        };
        let bits_2d = if pipe_2d { flush::PE2D } else { 0 };
        let (read, by_vertices) = match (pipe_3d, mmu) {
            (false, _) => (0, 0),
            (true, MmuVersion::V1) => (flush::TEXTURE, 0),
            (true, MmuVersion::V2) => (flush::TEXTURE | flush::SHADER_L2, flush::TEXTURE_VS),
        };
        let ([a, b], [c, d]) = (flush_of(read), flush_of(by_vertices));
        let [status, flush] = if pipe_3d && tile_status {
            [load_state(state::TS_FLUSH_CACHE, 1), 1]
        } else {
            [NOP, 0]
        };
        Self {
            drain: [
                load_state(state::GL_FLUSH_CACHE, 1),
                bits_3d | bits_2d,
                status,
                flush,
                load_state(state::GL_SEMAPHORE_TOKEN, 1),
                TOKEN_FE_TO_PE,
                STALL,
                TOKEN_FE_TO_PE,
            ],
            textures: [a, b, c, d],
            halti5: [NOP, 0, NOP, 0],
        }
    }

    /// The same for a core with HALTI5, which also caches instructions and texture descriptors.
    pub(crate) const fn with_halti5(mut self) -> Self {
        self.drain[1] |= flush::SHADER_STORES;
        self.halti5 = [
            load_state(state::VS_ICACHE_INVALIDATE, 1),
            0x1F,
            load_state(state::NTE_DESCRIPTOR_FLUSH, 1),
            0,
        ];
        self
    }
}

/// Number of words of [`drain`].
pub(crate) const DRAIN_WORDS: usize = 8;

/// Number of words of a LINK.
pub(crate) const LINK_WORDS: usize = 2;

/// Number of words of [`select_pipe`].
pub(crate) const SELECT_PIPE_WORDS: usize = DRAIN_WORDS + 2;

/// Number of words of [`use_tables`].
pub(crate) const USE_TABLES_WORDS: usize = 8;

/// Number of words of [`flush_mmu`].
pub(crate) const FLUSH_MMU_WORDS: usize = DRAIN_WORDS + 8 + USE_TABLES_WORDS;

/// Words that write back `caches` and wait until the pixel engine has drained. When the front end
/// passes them, the pixel engine has finished all work before them.
///
/// They flush all caches, because a client may have drawn in both pipes.
pub(crate) const fn drain(caches: &Caches) -> &[u32; DRAIN_WORDS] {
    &caches.drain
}

/// Words that switch to `pipe`: drain, then select.
pub(crate) const fn select_pipe(caches: &Caches, pipe: Pipe) -> [u32; SELECT_PIPE_WORDS] {
    let [a, b, c, d, e, f, g, h] = caches.drain;
    [
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        load_state(state::GL_PIPE_SELECT, 1),
        pipe.number(),
    ]
}

/// Words that switch to `pipe`. The pixel engine must have drained.
pub(crate) const fn select_idle_pipe(pipe: Pipe) -> [u32; 2] {
    [load_state(state::GL_PIPE_SELECT, 1), pipe.number()]
}

/// The tables that an MMU uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageTables {
    /// The table of version 1, whose address is in registers.
    V1,
    /// Version 2: the physical address of the first-level table, aligned to 4 KiB.
    V2(u32),
    /// The tables of a secure MMU: their entry of the page table array.
    Secure(u32),
}

/// Words that make the MMU use `tables`, flush the TLBs of all units, and wait until that is done.
/// The core must be idle. Source: etnaviv, a switch of contexts.
pub(crate) const fn use_tables(tables: PageTables) -> [u32; USE_TABLES_WORDS] {
    let [a, b, c, d] = match tables {
        PageTables::V1 => [load_state(state::GL_FLUSH_MMU, 1), FLUSH_MMU_ALL, NOP, 0],
        PageTables::V2(first) => [
            load_state(state::MMUV2_CONFIGURATION, 1),
            (first & !0xFFF) | (FLUSH_MMU_V2 & !KEEP_ADDRESS),
            NOP,
            0,
        ],
        PageTables::Secure(entry) => {
            let [select, entry] = load_page_tables(entry);
            let flush = load_state(state::MMUV2_CONFIGURATION, 1);
            [select, entry, flush, FLUSH_MMU_V2]
        }
    };
    [
        a,
        b,
        c,
        d,
        load_state(state::GL_SEMAPHORE_TOKEN, 1),
        TOKEN_FE_TO_PE,
        STALL,
        TOKEN_FE_TO_PE,
    ]
}

/// Words that drain the pixel engine, write back and invalidate the caches, and then flush the TLBs
/// and make the MMU use `tables`.
pub(crate) const fn flush_mmu(caches: &Caches, tables: PageTables) -> [u32; FLUSH_MMU_WORDS] {
    let [a, b, c, d, e, f, g, h] = caches.drain;
    let [i, j, k, l] = caches.textures;
    let [m, n, o, p] = caches.halti5;
    let [q, r, s, t, u, v, w, x] = use_tables(tables);
    [
        a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
    ]
}

/// Words that set the first-level table (4 KiB) and the safe bytes of one pipe's MMU version 2.
/// Both are physical addresses, aligned to 4 KiB and to 64 bytes.
pub(crate) const fn configure_mmu(pipe: Pipe, table: u32, safe: u32) -> [u32; 10] {
    [
        load_state(state::GL_PIPE_SELECT, 1),
        pipe.number(),
        load_state(state::MMUV2_CONFIGURATION, 1),
        table & !0xFFF,
        load_state(state::MMUV2_SAFE_ADDRESS, 1),
        safe & !0x3F,
        load_state(state::GL_SEMAPHORE_TOKEN, 1),
        TOKEN_FE_TO_PE,
        STALL,
        TOKEN_FE_TO_PE,
    ]
}

/// Words that make a secure MMU use the tables at `entry` of the page table array.
pub(crate) const fn load_page_tables(entry: u32) -> [u32; 2] {
    [load_state(state::MMUV2_PTA_CONFIG, 1), entry]
}

/// Number of words of an event, with the padding that some cores need after it.
pub(crate) const EVENT_WORDS: usize = 8;

/// Words that raise interrupt `id` when the pixel engine has drained. Only the first [`event_len`]
/// words are used.
pub(crate) const fn event(id: u32) -> [u32; EVENT_WORDS] {
    [
        load_state(state::GL_EVENT, 1),
        (id & 0x1F) | EVENT_FROM_PE,
        load_state(state::EVENT_PADDING, 5),
        0,
        0,
        0,
        0,
        0,
    ]
}

/// Number of words of [`event`] that a core needs: all with `extra_event_states` (bit 3 of minor
/// features 1 is clear), else the first two.
pub(crate) const fn event_len(extra_event_states: bool) -> usize {
    if extra_event_states {
        EVENT_WORDS
    } else {
        2
    }
}

mod tests;
