// SPDX-License-Identifier: GPL-2.0-only

//! What a core counts. Names in quotes are the C headers': `tests/abi/tables.py` reads them here,
//! and generates the lists of what each generation tells. Many words of the newer ones are 0: the
//! cores that this driver knows do not count them, or no source says how to select them. Sources:
//! sources.md, profiling, and etnaviv's signals for what is counted.

macro_rules! counter_names {
    (
        [$($(#[$cell_meta:meta])* $cell:ident $(= $($cell_name:literal)|+)?,)*]
        $($(#[$meta:meta])* $name:ident $(= $($c_name:literal)|+)?,)*
    ) => {
        /// A number that a client is told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Counter {
            $($(#[$cell_meta])* $cell,)*
            $($(#[$meta])* $name,)*
        }

        impl Counter {
            /// How many of them a core counts: those that come first.
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
    /// Cycles of the core's clock, by the memory controller.
    Cycles = "gpuCyclesCounter",
    /// The same, by the host interface.
    TotalCycles = "gpuTotalCyclesCounter" | "hi_total_cycle_count",
    /// Of these, idle ones.
    IdleCycles = "gpuIdleCyclesCounter" | "hi_total_idle_cycle_count",
    /// Units of 8 bytes that the first pixel pipe has read.
    FirstRead = "hi0_total_read_8B_count",
    /// That it has written.
    FirstWritten = "hi0_total_write_8B_count",
    /// That the other ones have read.
    SecondRead = "hi1_total_read_8B_count",
    /// That they have written.
    SecondWritten = "hi1_total_write_8B_count",
    /// Pixels that the first pixel pipe has dropped by colour.
    FirstKilledByColour = "pe0_pixel_count_killed_by_color_pipe",
    /// By depth.
    FirstKilledByDepth = "pe0_pixel_count_killed_by_depth_pipe",
    /// Pixels that it has drawn by colour.
    FirstDrawnByColour = "pe0_pixel_count_drawn_by_color_pipe",
    /// By depth.
    FirstDrawnByDepth = "pe0_pixel_count_drawn_by_depth_pipe",
    /// The same of the other ones.
    SecondKilledByColour = "pe1_pixel_count_killed_by_color_pipe",
    /// By depth.
    SecondKilledByDepth = "pe1_pixel_count_killed_by_depth_pipe",
    /// Pixels that they have drawn by colour.
    SecondDrawnByColour = "pe1_pixel_count_drawn_by_color_pipe",
    /// By depth.
    SecondDrawnByDepth = "pe1_pixel_count_drawn_by_depth_pipe",
    /// Pixels that the 2D engine has drawn.
    Pixels2d,
    /// Cycles of the shaders.
    ShaderCycles = "shader_cycle_count",
    /// Instructions of fragment shaders.
    PixelInstructions = "ps_inst_counter",
    /// Pixels that they have made.
    ShadedPixels = "rendered_pixel_counter" | "ps_rendered_pixel_counter",
    /// Instructions of vertex shaders.
    VertexInstructions = "vs_inst_counter",
    /// Vertices that they have made.
    ShadedVertices = "rendered_vertice_counter" | "vs_rendered_vertice_counter",
    /// Branches of vertex shaders.
    VertexBranches = "vtx_branch_inst_counter" | "vs_branch_inst_counter",
    /// Texture loads of theirs.
    VertexLoads = "vtx_texld_inst_counter" | "vs_texld_inst_counter",
    /// Branches of fragment shaders.
    PixelBranches = "pxl_branch_inst_counter" | "ps_branch_inst_counter",
    /// Texture loads of theirs.
    PixelLoads = "pxl_texld_inst_counter" | "ps_texld_inst_counter",
    /// Vertices that come to the assembly.
    InputVertices = "pa_input_vtx_counter",
    /// Primitives that come to it.
    InputPrimitives = "pa_input_prim_counter",
    /// Primitives that leave it.
    OutputPrimitives = "pa_output_prim_counter",
    /// Primitives clipped by depth.
    DepthClipped = "pa_depth_clipped_counter",
    /// Primitives outside of the view.
    TriviallyRejected = "pa_trivial_rejected_counter",
    /// Primitives that show their back.
    Culled = "pa_culled_counter" | "pa_culled_prim_counter",
    /// Triangles that the setup has dropped.
    CulledTriangles = "se_culled_triangle_count",
    /// Lines that it has dropped.
    CulledLines = "se_culled_lines_count",
    /// Pixels of the rasterizer.
    ValidPixels = "ra_valid_pixel_count" | "ra_valid_pixel_count_to_render",
    /// Its quads.
    Quads = "ra_total_quad_count",
    /// Those that are left behind early depth tests.
    ValidQuads = "ra_valid_quad_count_after_early_z",
    /// Its primitives.
    RasterizedPrimitives = "ra_total_primitive_count" | "ra_input_prim_count",
    /// Misses of its cache.
    PipeMisses = "ra_pipe_cache_miss_counter",
    /// Misses of the same ahead of time.
    PrefetchMisses = "ra_prefetch_cache_miss_counter",
    /// Quads that it has dropped.
    CulledQuads = "ra_eez_culled_counter",
    /// Bilinear texture requests.
    Bilinear = "tx_total_bilinear_requests",
    /// Trilinear ones.
    Trilinear = "tx_total_trilinear_requests",
    /// Texture requests that were dropped.
    Discarded = "tx_total_discarded_texture_requests",
    /// All texture requests.
    TextureRequests = "tx_total_texture_requests",
    /// Reads of textures.
    TextureReads = "tx_mem_read_count",
    /// Units of 8 bytes of those.
    TextureRead = "tx_mem_read_in_8B_count",
    /// Misses of the texture cache.
    TextureMisses = "tx_cache_miss_count",
    /// Texels found in it.
    HitTexels = "tx_cache_hit_texel_count",
    /// Texels not found in it.
    MissedTexels = "tx_cache_miss_texel_count",
    /// Units of 8 bytes that the pipeline has asked the memory controller for.
    PipelineRead = "mc_total_read_req_8B_from_pipeline" | "mcc_total_read_req_8B_from_colorpipe",
    /// That others have.
    OthersRead = "mc_total_read_req_8B_from_IP" | "mcc_total_read_req_8B_from_others",
    /// That the pipeline has given it.
    PipelineWritten = "mc_total_write_req_8B_from_pipeline" |
        "mcc_total_write_req_8B_from_colorpipe",
    /// Cycles that a request to read has waited for the bus.
    ReadStalls = "hi_axi_cycles_read_request_stalled" | "hi0_axi_cycles_read_request_stalled",
    /// A request to write.
    WriteStalls = "hi_axi_cycles_write_request_stalled" | "hi0_axi_cycles_write_request_stalled",
    /// Data to be written.
    DataStalls = "hi_axi_cycles_write_data_stalled" | "hi0_axi_cycles_write_data_stalled",
    ]
    /// Of all pixel pipes.
    Read = "gpuTotalRead64BytesPerFrame" | "hi_total_read_8B_count",
    /// Of all pixel pipes.
    Written = "gpuTotalWrite64BytesPerFrame" | "hi_total_write_8B_count",
    /// Of all pixel pipes.
    KilledByColour = "pe_pixel_count_killed_by_color_pipe",
    /// Of all pixel pipes.
    KilledByDepth = "pe_pixel_count_killed_by_depth_pipe",
    /// Of all pixel pipes.
    DrawnByColour = "pe_pixel_count_drawn_by_color_pipe",
    /// Of all pixel pipes.
    DrawnByDepth = "pe_pixel_count_drawn_by_depth_pipe",
    /// What no kernel ever writes: it stays as it is.
    Untold = "gpuClock" | "axiClock" | "shaderClock" | "gpuClockStart" | "gpuClockEnd",
    /// 0.
    Uncounted,
}

/// What a core has counted, by [`Counter`].
pub(crate) type Cells = [u32; Counter::CELLS];

impl Counter {
    /// Its value among `cells`; `None`: it is not to be written.
    pub(crate) fn value(self, cells: &Cells) -> Option<u32> {
        // CAST: the number of a variant.
        let of = |counter: Self| cells.get(counter as usize).copied().unwrap_or(0);
        let sum = |first: Self, second: Self| of(first).wrapping_add(of(second));
        match self {
            Self::Untold => None,
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

/// A command's answer: words, one a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountersLayout {
    /// Offset of the first; before it there may be the name of a context, which is not looked at.
    pub(crate) at: u16,
    /// All of them; none: the generation has no such command.
    pub(crate) words: &'static [Counter],
}

impl CountersLayout {
    /// No such command.
    pub(crate) const ABSENT: Self = Self { at: 0, words: &[] };

    /// The first byte behind them.
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
    /// READ_ALL_PROFILE_REGISTERS_PART1, or of the NEW ones.
    pub(crate) part_1: CountersLayout,
    /// PART2.
    pub(crate) part_2: CountersLayout,
}

/// Lists of counters: the number of words, and which of them are counted.
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
