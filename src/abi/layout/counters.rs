// SPDX-License-Identifier: GPL-2.0-only

//! Performance counters. Names in quotes are those of the C headers: `tests/abi/tables.py` reads
//! them here, and generates each generation's list. Many words of newer generations are 0: known
//! cores do not count them, or no source says how to select them. Sources: sources.md, profiling,
//! and etnaviv's signals.

macro_rules! counter_names {
    (
        [$($(#[$cell_meta:meta])* $cell:ident $(= $($cell_name:literal)|+)?,)*]
        $($(#[$meta:meta])* $name:ident $(= $($c_name:literal)|+)?,)*
    ) => {
        /// A counter that clients read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Counter {
            $($(#[$cell_meta])* $cell,)*
            $($(#[$meta])* $name,)*
        }

        impl Counter {
            /// The number of counters that a core has; they come first.
            pub(crate) const CELLS: usize = [$(Self::$cell),*].len();

            /// The C headers' names.
            #[cfg(test)]
            pub(crate) fn c_names(self) -> &'static [&'static str] {
                match self {
                    $(Self::$cell => &[$($($cell_name),+)?],)*
                    $(Self::$name => &[$($($c_name),+)?],)*
                }
            }
        }
    };
}

counter_names! {
    [
    /// Cycles of the core clock, counted by the memory controller.
    Cycles = "gpuCyclesCounter",
    /// Cycles of the core clock, counted by the host interface.
    TotalCycles = "gpuTotalCyclesCounter" | "hi_total_cycle_count",
    /// Those of these cycles in which the core was idle.
    IdleCycles = "gpuIdleCyclesCounter" | "hi_total_idle_cycle_count",
    /// Units of 8 bytes that the first pixel pipe read.
    FirstRead = "hi0_total_read_8B_count",
    /// Units of 8 bytes that the first pixel pipe wrote.
    FirstWritten = "hi0_total_write_8B_count",
    /// Units of 8 bytes that the other pixel pipes read.
    SecondRead = "hi1_total_read_8B_count",
    /// Units of 8 bytes that the other pixel pipes wrote.
    SecondWritten = "hi1_total_write_8B_count",
    /// Pixels that the color stage of the first pixel pipe dropped.
    FirstKilledByColour = "pe0_pixel_count_killed_by_color_pipe",
    /// Pixels that the depth stage of the first pixel pipe dropped.
    FirstKilledByDepth = "pe0_pixel_count_killed_by_depth_pipe",
    /// Pixels that the color stage of the first pixel pipe drew.
    FirstDrawnByColour = "pe0_pixel_count_drawn_by_color_pipe",
    /// Pixels that the depth stage of the first pixel pipe drew.
    FirstDrawnByDepth = "pe0_pixel_count_drawn_by_depth_pipe",
    /// Pixels that the color stages of the other pixel pipes dropped.
    SecondKilledByColour = "pe1_pixel_count_killed_by_color_pipe",
    /// Pixels that the depth stages of the other pixel pipes dropped.
    SecondKilledByDepth = "pe1_pixel_count_killed_by_depth_pipe",
    /// Pixels that the color stages of the other pixel pipes drew.
    SecondDrawnByColour = "pe1_pixel_count_drawn_by_color_pipe",
    /// Pixels that the depth stages of the other pixel pipes drew.
    SecondDrawnByDepth = "pe1_pixel_count_drawn_by_depth_pipe",
    /// Pixels that the 2D engine drew.
    Pixels2d,
    /// Cycles of the shader clock.
    ShaderCycles = "shader_cycle_count",
    /// Instructions of fragment shaders.
    PixelInstructions = "ps_inst_counter",
    /// Pixels from fragment shaders.
    ShadedPixels = "rendered_pixel_counter" | "ps_rendered_pixel_counter",
    /// Instructions of vertex shaders.
    VertexInstructions = "vs_inst_counter",
    /// Vertices from vertex shaders.
    ShadedVertices = "rendered_vertice_counter" | "vs_rendered_vertice_counter",
    /// Branches of vertex shaders.
    VertexBranches = "vtx_branch_inst_counter" | "vs_branch_inst_counter",
    /// Texture loads of vertex shaders.
    VertexLoads = "vtx_texld_inst_counter" | "vs_texld_inst_counter",
    /// Branches of fragment shaders.
    PixelBranches = "pxl_branch_inst_counter" | "ps_branch_inst_counter",
    /// Texture loads of fragment shaders.
    PixelLoads = "pxl_texld_inst_counter" | "ps_texld_inst_counter",
    /// Input vertices of the primitive assembly.
    InputVertices = "pa_input_vtx_counter",
    /// Input primitives of the primitive assembly.
    InputPrimitives = "pa_input_prim_counter",
    /// Output primitives of the primitive assembly.
    OutputPrimitives = "pa_output_prim_counter",
    /// Primitives clipped by depth.
    DepthClipped = "pa_depth_clipped_counter",
    /// Primitives outside of the view.
    TriviallyRejected = "pa_trivial_rejected_counter",
    /// Back-facing primitives.
    Culled = "pa_culled_counter" | "pa_culled_prim_counter",
    /// Triangles that the setup engine dropped.
    CulledTriangles = "se_culled_triangle_count",
    /// Lines that the setup engine dropped.
    CulledLines = "se_culled_lines_count",
    /// Pixels of the rasterizer.
    ValidPixels = "ra_valid_pixel_count" | "ra_valid_pixel_count_to_render",
    /// Quads of the rasterizer.
    Quads = "ra_total_quad_count",
    /// Quads that passed the early depth test.
    ValidQuads = "ra_valid_quad_count_after_early_z",
    /// Primitives of the rasterizer.
    RasterizedPrimitives = "ra_total_primitive_count" | "ra_input_prim_count",
    /// Misses of the rasterizer's cache.
    PipeMisses = "ra_pipe_cache_miss_counter",
    /// Prefetch misses of the rasterizer's cache.
    PrefetchMisses = "ra_prefetch_cache_miss_counter",
    /// Quads that the rasterizer dropped.
    CulledQuads = "ra_eez_culled_counter",
    /// Bilinear texture requests.
    Bilinear = "tx_total_bilinear_requests",
    /// Trilinear texture requests.
    Trilinear = "tx_total_trilinear_requests",
    /// Discarded texture requests.
    Discarded = "tx_total_discarded_texture_requests",
    /// All texture requests.
    TextureRequests = "tx_total_texture_requests",
    /// Reads of textures.
    TextureReads = "tx_mem_read_count",
    /// Units of 8 bytes read from textures.
    TextureRead = "tx_mem_read_in_8B_count",
    /// Misses of the texture cache.
    TextureMisses = "tx_cache_miss_count",
    /// Texel hits of the texture cache.
    HitTexels = "tx_cache_hit_texel_count",
    /// Texel misses of the texture cache.
    MissedTexels = "tx_cache_miss_texel_count",
    /// Units of 8 bytes that the pipeline requested from the memory controller.
    PipelineRead = "mc_total_read_req_8B_from_pipeline" | "mcc_total_read_req_8B_from_colorpipe",
    /// Units of 8 bytes that other units requested.
    OthersRead = "mc_total_read_req_8B_from_IP" | "mcc_total_read_req_8B_from_others",
    /// Units of 8 bytes that the pipeline wrote.
    PipelineWritten = "mc_total_write_req_8B_from_pipeline" |
        "mcc_total_write_req_8B_from_colorpipe",
    /// Cycles that read requests waited for the bus.
    ReadStalls = "hi_axi_cycles_read_request_stalled" | "hi0_axi_cycles_read_request_stalled",
    /// Cycles that write requests waited for the bus.
    WriteStalls = "hi_axi_cycles_write_request_stalled" | "hi0_axi_cycles_write_request_stalled",
    /// Cycles that write data waited for the bus.
    DataStalls = "hi_axi_cycles_write_data_stalled" | "hi0_axi_cycles_write_data_stalled",
    ]
    /// The sum of `FirstRead` and `SecondRead`.
    Read = "gpuTotalRead64BytesPerFrame" | "hi_total_read_8B_count",
    /// The sum of `FirstWritten` and `SecondWritten`.
    Written = "gpuTotalWrite64BytesPerFrame" | "hi_total_write_8B_count",
    /// The sum for all pixel pipes.
    KilledByColour = "pe_pixel_count_killed_by_color_pipe",
    /// The sum for all pixel pipes.
    KilledByDepth = "pe_pixel_count_killed_by_depth_pipe",
    /// The sum for all pixel pipes.
    DrawnByColour = "pe_pixel_count_drawn_by_color_pipe",
    /// The sum for all pixel pipes.
    DrawnByDepth = "pe_pixel_count_drawn_by_depth_pipe",
    /// Not written by any kernel.
    Unwritten = "gpuClock" | "axiClock" | "shaderClock" | "gpuClockStart" | "gpuClockEnd",
    /// Always 0.
    Uncounted,
}

/// The counters of a core, by [`Counter`].
pub(crate) type Cells = [u32; Counter::CELLS];

impl Counter {
    /// Its value from `cells`; `None`: do not write it.
    pub(crate) fn value(self, cells: &Cells) -> Option<u32> {
        // CAST: the number of a variant.
        let of = |counter: Self| cells.get(counter as usize).copied().unwrap_or(0);
        let sum = |first: Self, second: Self| of(first).wrapping_add(of(second));
        match self {
            Self::Unwritten => None,
            Self::Read => Some(sum(Self::FirstRead, Self::SecondRead)),
            Self::Written => Some(sum(Self::FirstWritten, Self::SecondWritten)),
            Self::KilledByColour => {
                Some(sum(Self::FirstKilledByColour, Self::SecondKilledByColour))
            }
            Self::KilledByDepth => Some(sum(Self::FirstKilledByDepth, Self::SecondKilledByDepth)),
            Self::DrawnByColour => Some(sum(Self::FirstDrawnByColour, Self::SecondDrawnByColour)),
            Self::DrawnByDepth => Some(sum(Self::FirstDrawnByDepth, Self::SecondDrawnByDepth)),
            cell => Some(of(cell)),
        }
    }
}

/// A command's answer: one word for each counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountersLayout {
    /// Offset of the first counter. A context id may precede it; the driver ignores that.
    pub(crate) at: u16,
    /// The counters; empty: the generation has no such command.
    pub(crate) words: &'static [Counter],
}

impl CountersLayout {
    /// The generation has no such command.
    pub(crate) const ABSENT: Self = Self { at: 0, words: &[] };

    /// The end of the counters.
    pub(crate) const fn end(&self) -> usize {
        // CAST: 16 bits; `from` is not const.
        self.at as usize + 4 * self.words.len()
    }
}

/// The counters of a generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    /// READ_ALL_PROFILE_REGISTERS.
    pub(crate) all: CountersLayout,
    /// READ_ALL_PROFILE_REGISTERS_PART1, or READ_ALL_PROFILE_NEW_REGISTERS_PART1.
    pub(crate) part_1: CountersLayout,
    /// The same for PART2.
    pub(crate) part_2: CountersLayout,
}

/// Lists of counters: the number of words, and the words with a counter.
macro_rules! counters {
    ($($name:ident: $words:literal = { $($at:literal $counter:ident,)* })*) => {$(
        const $name: [Counter; $words] = {
            let mut words = [Counter::Uncounted; $words];
            $(words[$at] = Counter::$counter;)*
            words
        };
    )*};
}
pub(super) use counters;
