// SPDX-License-Identifier: GPL-2.0-only

//! What a core counts, and which of it the generations tell, in their order.
//!
//! Names in quotes are the C headers'. Newer generations tell much that the cores which this driver
//! knows do not count, or that nobody says how to select: such a word is 0. Sources: tests/abi,
//! sources.md, profiling, and etnaviv's signals for what is counted.

macro_rules! counter_names {
    (
        [$($(#[$cell_meta:meta])* $cell:ident,)*]
        $($(#[$meta:meta])* $name:ident,)*
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
        }
    };
}

counter_names! {
    [
    /// Cycles of the core's clock, by the memory controller.
    Cycles,
    /// The same, by the host interface.
    TotalCycles,
    /// Of these, idle ones.
    IdleCycles,
    /// Units of 8 bytes that the first pixel pipe has read.
    FirstRead,
    /// That it has written.
    FirstWritten,
    /// That the other ones have read.
    SecondRead,
    /// That they have written.
    SecondWritten,
    /// Pixels that the first pixel pipe has dropped by colour.
    FirstKilledByColour,
    /// By depth.
    FirstKilledByDepth,
    /// Pixels that it has drawn by colour.
    FirstDrawnByColour,
    /// By depth.
    FirstDrawnByDepth,
    /// The same of the other ones.
    SecondKilledByColour,
    /// By depth.
    SecondKilledByDepth,
    /// Pixels that they have drawn by colour.
    SecondDrawnByColour,
    /// By depth.
    SecondDrawnByDepth,
    /// Pixels that the 2D engine has drawn.
    Pixels2d,
    /// Cycles of the shaders.
    ShaderCycles,
    /// Instructions of fragment shaders.
    PixelInstructions,
    /// Pixels that they have made.
    ShadedPixels,
    /// Instructions of vertex shaders.
    VertexInstructions,
    /// Vertices that they have made.
    ShadedVertices,
    /// Branches of vertex shaders.
    VertexBranches,
    /// Texture loads of theirs.
    VertexLoads,
    /// Branches of fragment shaders.
    PixelBranches,
    /// Texture loads of theirs.
    PixelLoads,
    /// Vertices that come to the assembly.
    InputVertices,
    /// Primitives that come to it.
    InputPrimitives,
    /// Primitives that leave it.
    OutputPrimitives,
    /// Primitives clipped by depth.
    DepthClipped,
    /// Primitives outside of the view.
    TriviallyRejected,
    /// Primitives that show their back.
    Culled,
    /// Triangles that the setup has dropped.
    CulledTriangles,
    /// Lines that it has dropped.
    CulledLines,
    /// Pixels of the rasterizer.
    ValidPixels,
    /// Its quads.
    Quads,
    /// Those that are left behind early depth tests.
    ValidQuads,
    /// Its primitives.
    RasterizedPrimitives,
    /// Misses of its cache.
    PipeMisses,
    /// Misses of the same ahead of time.
    PrefetchMisses,
    /// Quads that it has dropped.
    CulledQuads,
    /// Bilinear texture requests.
    Bilinear,
    /// Trilinear ones.
    Trilinear,
    /// Texture requests that were dropped.
    Discarded,
    /// All texture requests.
    TextureRequests,
    /// Reads of textures.
    TextureReads,
    /// Units of 8 bytes of those.
    TextureRead,
    /// Misses of the texture cache.
    TextureMisses,
    /// Texels found in it.
    HitTexels,
    /// Texels not found in it.
    MissedTexels,
    /// Units of 8 bytes that the pipeline has asked the memory controller for.
    PipelineRead,
    /// That others have.
    OthersRead,
    /// That the pipeline has given it.
    PipelineWritten,
    /// Cycles that a request to read has waited for the bus.
    ReadStalls,
    /// A request to write.
    WriteStalls,
    /// Data to be written.
    DataStalls,
    ]
    /// Of all pixel pipes.
    Read,
    /// Of all pixel pipes.
    Written,
    /// Of all pixel pipes.
    KilledByColour,
    /// Of all pixel pipes.
    KilledByDepth,
    /// Of all pixel pipes.
    DrawnByColour,
    /// Of all pixel pipes.
    DrawnByDepth,
    /// What no kernel ever writes: it stays as it is.
    Untold,
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
    /// Their names.
    #[cfg(test)]
    pub(crate) names: &'static [&'static str],
}

impl CountersLayout {
    /// There is no such command.
    pub(crate) const ABSENT: Self = Self {
        at: 0,
        words: &[],
        #[cfg(test)]
        names: &[],
    };

    /// The same without a context in front.
    const fn behind(self, at: u16) -> Self {
        Self { at, ..self }
    }

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

impl Profile {
    /// None.
    pub(crate) const ABSENT: Self = Self {
        all: CountersLayout::ABSENT,
        part_1: CountersLayout::ABSENT,
        part_2: CountersLayout::ABSENT,
    };

    /// Up to 4.6.6.
    pub(crate) const V2: Self = Self {
        all: FIRST,
        ..Self::ABSENT
    };
    /// From 4.0.0 to 4.1.0, and of 5.0.11.p6.
    pub(crate) const V4_0_0: Self = Self {
        all: SECOND,
        ..Self::ABSENT
    };
    /// Of 4.6.9 and 5.0.11.p8: by context.
    pub(crate) const V4_6_9: Self = Self {
        all: SECOND.behind(4),
        ..Self::ABSENT
    };
    /// Of 6.2.2 and 6.2.3.
    pub(crate) const V6_2_2: Self = Self {
        all: THIRD.behind(4),
        part_1: PART_1.behind(4),
        part_2: PART_2_V6_2_2.behind(4),
    };
    /// Of 6.2.4.
    pub(crate) const V6_2_4: Self = Self {
        all: CountersLayout::ABSENT,
        part_1: PART_1.behind(4),
        part_2: PART_2_V6_2_4.behind(4),
    };
    /// Of 6.4.11, in an interface of their own.
    pub(crate) const V6_4: Self = Self {
        part_2: PART_2_V6_4.behind(4),
        ..Self::V6_2_4
    };
}

macro_rules! counters {
    ($(#[$meta:meta])* $name:ident = [$($counter:ident = $c_name:literal,)*]) => {
        $(#[$meta])*
        const $name: CountersLayout = CountersLayout {
            at: 0,
            words: &[$(Counter::$counter,)*],
            #[cfg(test)]
            names: &[$($c_name,)*],
        };
    };
}

counters! {
    /// What drivers up to 4.6.6 tell.
    FIRST = [
        Untold = "gpuClock",
        Untold = "axiClock",
        Untold = "shaderClock",
        Untold = "gpuClockStart",
        Untold = "gpuClockEnd",
        Cycles = "gpuCyclesCounter",
        Read = "gpuTotalRead64BytesPerFrame",
        Written = "gpuTotalWrite64BytesPerFrame",
        KilledByColour = "pe_pixel_count_killed_by_color_pipe",
        KilledByDepth = "pe_pixel_count_killed_by_depth_pipe",
        DrawnByColour = "pe_pixel_count_drawn_by_color_pipe",
        DrawnByDepth = "pe_pixel_count_drawn_by_depth_pipe",
        PixelInstructions = "ps_inst_counter",
        ShadedPixels = "rendered_pixel_counter",
        VertexInstructions = "vs_inst_counter",
        ShadedVertices = "rendered_vertice_counter",
        VertexBranches = "vtx_branch_inst_counter",
        VertexLoads = "vtx_texld_inst_counter",
        PixelBranches = "pxl_branch_inst_counter",
        PixelLoads = "pxl_texld_inst_counter",
        InputVertices = "pa_input_vtx_counter",
        InputPrimitives = "pa_input_prim_counter",
        OutputPrimitives = "pa_output_prim_counter",
        DepthClipped = "pa_depth_clipped_counter",
        TriviallyRejected = "pa_trivial_rejected_counter",
        Culled = "pa_culled_counter",
        CulledTriangles = "se_culled_triangle_count",
        CulledLines = "se_culled_lines_count",
        ValidPixels = "ra_valid_pixel_count",
        Quads = "ra_total_quad_count",
        ValidQuads = "ra_valid_quad_count_after_early_z",
        RasterizedPrimitives = "ra_total_primitive_count",
        PipeMisses = "ra_pipe_cache_miss_counter",
        PrefetchMisses = "ra_prefetch_cache_miss_counter",
        CulledQuads = "ra_eez_culled_counter",
        Bilinear = "tx_total_bilinear_requests",
        Trilinear = "tx_total_trilinear_requests",
        Discarded = "tx_total_discarded_texture_requests",
        TextureRequests = "tx_total_texture_requests",
        TextureReads = "tx_mem_read_count",
        TextureRead = "tx_mem_read_in_8B_count",
        TextureMisses = "tx_cache_miss_count",
        HitTexels = "tx_cache_hit_texel_count",
        MissedTexels = "tx_cache_miss_texel_count",
        PipelineRead = "mc_total_read_req_8B_from_pipeline",
        OthersRead = "mc_total_read_req_8B_from_IP",
        PipelineWritten = "mc_total_write_req_8B_from_pipeline",
        ReadStalls = "hi_axi_cycles_read_request_stalled",
        WriteStalls = "hi_axi_cycles_write_request_stalled",
        DataStalls = "hi_axi_cycles_write_data_stalled",
    ]
}

counters! {
    /// What drivers from 4.0.0 to 5.0.11 tell.
    SECOND = [
        Untold = "gpuClock",
        Untold = "axiClock",
        Untold = "shaderClock",
        Untold = "gpuClockStart",
        Untold = "gpuClockEnd",
        Cycles = "gpuCyclesCounter",
        TotalCycles = "gpuTotalCyclesCounter",
        IdleCycles = "gpuIdleCyclesCounter",
        Read = "gpuTotalRead64BytesPerFrame",
        Written = "gpuTotalWrite64BytesPerFrame",
        KilledByColour = "pe_pixel_count_killed_by_color_pipe",
        KilledByDepth = "pe_pixel_count_killed_by_depth_pipe",
        DrawnByColour = "pe_pixel_count_drawn_by_color_pipe",
        DrawnByDepth = "pe_pixel_count_drawn_by_depth_pipe",
        PixelInstructions = "ps_inst_counter",
        ShadedPixels = "rendered_pixel_counter",
        VertexInstructions = "vs_inst_counter",
        ShadedVertices = "rendered_vertice_counter",
        VertexBranches = "vtx_branch_inst_counter",
        VertexLoads = "vtx_texld_inst_counter",
        PixelBranches = "pxl_branch_inst_counter",
        PixelLoads = "pxl_texld_inst_counter",
        InputVertices = "pa_input_vtx_counter",
        InputPrimitives = "pa_input_prim_counter",
        OutputPrimitives = "pa_output_prim_counter",
        DepthClipped = "pa_depth_clipped_counter",
        TriviallyRejected = "pa_trivial_rejected_counter",
        Culled = "pa_culled_counter",
        CulledTriangles = "se_culled_triangle_count",
        CulledLines = "se_culled_lines_count",
        ValidPixels = "ra_valid_pixel_count",
        Quads = "ra_total_quad_count",
        ValidQuads = "ra_valid_quad_count_after_early_z",
        RasterizedPrimitives = "ra_total_primitive_count",
        PipeMisses = "ra_pipe_cache_miss_counter",
        PrefetchMisses = "ra_prefetch_cache_miss_counter",
        CulledQuads = "ra_eez_culled_counter",
        Bilinear = "tx_total_bilinear_requests",
        Trilinear = "tx_total_trilinear_requests",
        Discarded = "tx_total_discarded_texture_requests",
        TextureRequests = "tx_total_texture_requests",
        TextureReads = "tx_mem_read_count",
        TextureRead = "tx_mem_read_in_8B_count",
        TextureMisses = "tx_cache_miss_count",
        HitTexels = "tx_cache_hit_texel_count",
        MissedTexels = "tx_cache_miss_texel_count",
        PipelineRead = "mc_total_read_req_8B_from_pipeline",
        OthersRead = "mc_total_read_req_8B_from_IP",
        PipelineWritten = "mc_total_write_req_8B_from_pipeline",
        ReadStalls = "hi_axi_cycles_read_request_stalled",
        WriteStalls = "hi_axi_cycles_write_request_stalled",
        DataStalls = "hi_axi_cycles_write_data_stalled",
    ]
}

counters! {
    /// What 6.2.2 and 6.2.3 tell in one piece.
    THIRD = [
        Untold = "gpuClock",
        Untold = "axiClock",
        Untold = "shaderClock",
        Untold = "gpuClockStart",
        Untold = "gpuClockEnd",
        Cycles = "gpuCyclesCounter",
        TotalCycles = "gpuTotalCyclesCounter",
        IdleCycles = "gpuIdleCyclesCounter",
        Read = "gpuTotalRead64BytesPerFrame",
        Written = "gpuTotalWrite64BytesPerFrame",
        KilledByColour = "pe_pixel_count_killed_by_color_pipe",
        KilledByDepth = "pe_pixel_count_killed_by_depth_pipe",
        DrawnByColour = "pe_pixel_count_drawn_by_color_pipe",
        DrawnByDepth = "pe_pixel_count_drawn_by_depth_pipe",
        PixelInstructions = "ps_inst_counter",
        ShadedPixels = "rendered_pixel_counter",
        VertexInstructions = "vs_inst_counter",
        ShadedVertices = "rendered_vertice_counter",
        VertexBranches = "vtx_branch_inst_counter",
        VertexLoads = "vtx_texld_inst_counter",
        PixelBranches = "pxl_branch_inst_counter",
        PixelLoads = "pxl_texld_inst_counter",
        Uncounted = "vs_non_idle_starve_count",
        Uncounted = "vs_starve_count",
        Uncounted = "vs_stall_count",
        Uncounted = "vs_process_count",
        Uncounted = "ps_non_idle_starve_count",
        Uncounted = "ps_starve_count",
        Uncounted = "ps_stall_count",
        Uncounted = "ps_process_count",
        ShaderCycles = "shader_cycle_count",
        InputVertices = "pa_input_vtx_counter",
        InputPrimitives = "pa_input_prim_counter",
        OutputPrimitives = "pa_output_prim_counter",
        DepthClipped = "pa_depth_clipped_counter",
        TriviallyRejected = "pa_trivial_rejected_counter",
        Culled = "pa_culled_counter",
        Uncounted = "pa_non_idle_starve_count",
        Uncounted = "pa_starve_count",
        Uncounted = "pa_stall_count",
        Uncounted = "pa_process_count",
        CulledTriangles = "se_culled_triangle_count",
        CulledLines = "se_culled_lines_count",
        Uncounted = "se_starve_count",
        Uncounted = "se_stall_count",
        Uncounted = "se_receive_triangle_count",
        Uncounted = "se_send_triangle_count",
        Uncounted = "se_receive_lines_count",
        Uncounted = "se_send_lines_count",
        Uncounted = "se_process_count",
        Uncounted = "se_non_idle_starve_count",
        ValidPixels = "ra_valid_pixel_count",
        Quads = "ra_total_quad_count",
        ValidQuads = "ra_valid_quad_count_after_early_z",
        RasterizedPrimitives = "ra_total_primitive_count",
        PipeMisses = "ra_pipe_cache_miss_counter",
        PrefetchMisses = "ra_prefetch_cache_miss_counter",
        CulledQuads = "ra_eez_culled_counter",
        Uncounted = "ra_non_idle_starve_count",
        Uncounted = "ra_starve_count",
        Uncounted = "ra_stall_count",
        Uncounted = "ra_process_count",
        Bilinear = "tx_total_bilinear_requests",
        Trilinear = "tx_total_trilinear_requests",
        Discarded = "tx_total_discarded_texture_requests",
        TextureRequests = "tx_total_texture_requests",
        TextureReads = "tx_mem_read_count",
        TextureRead = "tx_mem_read_in_8B_count",
        TextureMisses = "tx_cache_miss_count",
        HitTexels = "tx_cache_hit_texel_count",
        MissedTexels = "tx_cache_miss_texel_count",
        Uncounted = "tx_non_idle_starve_count",
        Uncounted = "tx_starve_count",
        Uncounted = "tx_stall_count",
        Uncounted = "tx_process_count",
        PipelineRead = "mc_total_read_req_8B_from_pipeline",
        OthersRead = "mc_total_read_req_8B_from_IP",
        PipelineWritten = "mc_total_write_req_8B_from_pipeline",
        Uncounted = "mc_axi_total_latency",
        Uncounted = "mc_axi_sample_count",
        Uncounted = "mc_axi_max_latency",
        Uncounted = "mc_axi_min_latency",
        ReadStalls = "hi_axi_cycles_read_request_stalled",
        WriteStalls = "hi_axi_cycles_write_request_stalled",
        DataStalls = "hi_axi_cycles_write_data_stalled",
        Uncounted = "fe_draw_count",
        Uncounted = "fe_out_vertex_count",
        Uncounted = "fe_stall_count",
        Uncounted = "fe_starve_count",
    ]
}

counters! {
    /// The first part, from 6.2.2 on.
    PART_1 = [
        Read = "gpuTotalRead64BytesPerFrame",
        Written = "gpuTotalWrite64BytesPerFrame",
        Uncounted = "fe_draw_count",
        Uncounted = "fe_out_vertex_count",
        Uncounted = "fe_cache_miss_count",
        Uncounted = "fe_cache_lk_count",
        Uncounted = "fe_stall_count",
        Uncounted = "fe_starve_count",
        Uncounted = "fe_process_count",
        FirstKilledByColour = "pe0_pixel_count_killed_by_color_pipe",
        FirstKilledByDepth = "pe0_pixel_count_killed_by_depth_pipe",
        FirstDrawnByColour = "pe0_pixel_count_drawn_by_color_pipe",
        FirstDrawnByDepth = "pe0_pixel_count_drawn_by_depth_pipe",
        SecondKilledByColour = "pe1_pixel_count_killed_by_color_pipe",
        SecondKilledByDepth = "pe1_pixel_count_killed_by_depth_pipe",
        SecondDrawnByColour = "pe1_pixel_count_drawn_by_color_pipe",
        SecondDrawnByDepth = "pe1_pixel_count_drawn_by_depth_pipe",
        ShaderCycles = "shader_cycle_count",
        Uncounted = "vs_shader_cycle_count",
        Uncounted = "ps_shader_cycle_count",
        PixelInstructions = "ps_inst_counter",
        ShadedPixels = "ps_rendered_pixel_counter",
        VertexInstructions = "vs_inst_counter",
        ShadedVertices = "vs_rendered_vertice_counter",
        VertexBranches = "vs_branch_inst_counter",
        VertexLoads = "vs_texld_inst_counter",
        PixelBranches = "ps_branch_inst_counter",
        PixelLoads = "ps_texld_inst_counter",
        Uncounted = "vs_non_idle_starve_count",
        Uncounted = "vs_starve_count",
        Uncounted = "vs_stall_count",
        Uncounted = "vs_process_count",
        Uncounted = "ps_non_idle_starve_count",
        Uncounted = "ps_starve_count",
        Uncounted = "ps_stall_count",
        Uncounted = "ps_process_count",
        InputVertices = "pa_input_vtx_counter",
        InputPrimitives = "pa_input_prim_counter",
        OutputPrimitives = "pa_output_prim_counter",
        DepthClipped = "pa_depth_clipped_counter",
        TriviallyRejected = "pa_trivial_rejected_counter",
        Culled = "pa_culled_prim_counter",
        Uncounted = "pa_droped_prim_counter",
        Uncounted = "pa_frustum_clipped_prim_counter",
        Uncounted = "pa_frustum_clipdroped_prim_counter",
        Uncounted = "pa_non_idle_starve_count",
        Uncounted = "pa_starve_count",
        Uncounted = "pa_stall_count",
        Uncounted = "pa_process_count",
        CulledTriangles = "se_culled_triangle_count",
        CulledLines = "se_culled_lines_count",
        Uncounted = "se_clipped_triangle_count",
        Uncounted = "se_clipped_line_count",
        Uncounted = "se_starve_count",
        Uncounted = "se_stall_count",
        Uncounted = "se_receive_triangle_count",
        Uncounted = "se_send_triangle_count",
        Uncounted = "se_receive_lines_count",
        Uncounted = "se_send_lines_count",
        Uncounted = "se_process_count",
        Uncounted = "se_trivial_rejected_line_count",
        Uncounted = "se_non_idle_starve_count",
        RasterizedPrimitives = "ra_input_prim_count",
        Quads = "ra_total_quad_count",
        ValidQuads = "ra_valid_quad_count_after_early_z",
        ValidPixels = "ra_valid_pixel_count_to_render",
        Uncounted = "ra_output_valid_quad_count",
        Uncounted = "ra_output_valid_pixel_count",
        PipeMisses = "ra_pipe_cache_miss_counter",
        Uncounted = "ra_pipe_hz_cache_miss_counter",
        PrefetchMisses = "ra_prefetch_cache_miss_counter",
        Uncounted = "ra_prefetch_hz_cache_miss_counter",
        CulledQuads = "ra_eez_culled_counter",
        Uncounted = "ra_non_idle_starve_count",
        Uncounted = "ra_starve_count",
        Uncounted = "ra_stall_count",
        Uncounted = "ra_process_count",
        Bilinear = "tx_total_bilinear_requests",
        Trilinear = "tx_total_trilinear_requests",
        Discarded = "tx_total_discarded_texture_requests",
        TextureRequests = "tx_total_texture_requests",
        Uncounted = "tx_mc0_miss_count",
        Uncounted = "tx_mc0_request_byte_count",
        Uncounted = "tx_mc1_miss_count",
        Uncounted = "tx_mc1_request_byte_count",
        Uncounted = "tx_non_idle_starve_count",
        Uncounted = "tx_starve_count",
        Uncounted = "tx_stall_count",
        Uncounted = "tx_process_count",
    ]
}

counters! {
    /// The second part of 6.2.2 and 6.2.3.
    PART_2_V6_2_2 = [
        PipelineRead = "mcc_total_read_req_8B_from_colorpipe",
        Uncounted = "mcc_total_read_req_8B_sentout_from_colorpipe",
        PipelineWritten = "mcc_total_write_req_8B_from_colorpipe",
        Uncounted = "mcc_total_read_req_sentout_from_colorpipe",
        Uncounted = "mcc_total_write_req_from_colorpipe",
        Uncounted = "mcc_total_read_req_8B_from_depthpipe",
        Uncounted = "mcc_total_read_req_8B_sentout_from_depthpipe",
        Uncounted = "mcc_total_write_req_8B_from_depthpipe",
        Uncounted = "mcc_total_read_req_sentout_from_depthpipe",
        Uncounted = "mcc_total_write_req_from_depthpipe",
        OthersRead = "mcc_total_read_req_8B_from_others",
        Uncounted = "mcc_total_write_req_8B_from_others",
        Uncounted = "mcc_total_read_req_from_others",
        Uncounted = "mcc_total_write_req_from_others",
        Uncounted = "mcc_axi_total_latency",
        Uncounted = "mcc_axi_sample_count",
        Uncounted = "mcc_axi_max_latency",
        Uncounted = "mcc_axi_min_latency",
        Uncounted = "mcz_total_read_req_8B_from_colorpipe",
        Uncounted = "mcz_total_read_req_8B_sentout_from_colorpipe",
        Uncounted = "mcz_total_write_req_8B_from_colorpipe",
        Uncounted = "mcz_total_read_req_sentout_from_colorpipe",
        Uncounted = "mcz_total_write_req_from_colorpipe",
        Uncounted = "mcz_total_read_req_8B_from_depthpipe",
        Uncounted = "mcz_total_read_req_8B_sentout_from_depthpipe",
        Uncounted = "mcz_total_write_req_8B_from_depthpipe",
        Uncounted = "mcz_total_read_req_sentout_from_depthpipe",
        Uncounted = "mcz_total_write_req_from_depthpipe",
        Uncounted = "mcz_total_read_req_8B_from_others",
        Uncounted = "mcz_total_write_req_8B_from_others",
        Uncounted = "mcz_total_read_req_from_others",
        Uncounted = "mcz_total_write_req_from_others",
        Uncounted = "mcz_axi_total_latency",
        Uncounted = "mcz_axi_sample_count",
        Uncounted = "mcz_axi_max_latency",
        Uncounted = "mcz_axi_min_latency",
        FirstRead = "hi0_total_read_8B_count",
        FirstWritten = "hi0_total_write_8B_count",
        Uncounted = "hi0_total_read_request_count",
        Uncounted = "hi0_total_write_request_count",
        ReadStalls = "hi0_axi_cycles_read_request_stalled",
        WriteStalls = "hi0_axi_cycles_write_request_stalled",
        DataStalls = "hi0_axi_cycles_write_data_stalled",
        SecondRead = "hi1_total_read_8B_count",
        SecondWritten = "hi1_total_write_8B_count",
        Uncounted = "hi1_total_read_request_count",
        Uncounted = "hi1_total_write_request_count",
        Uncounted = "hi1_axi_cycles_read_request_stalled",
        Uncounted = "hi1_axi_cycles_write_request_stalled",
        Uncounted = "hi1_axi_cycles_write_data_stalled",
        TotalCycles = "hi_total_cycle_count",
        IdleCycles = "hi_total_idle_cycle_count",
        Read = "hi_total_read_8B_count",
        Written = "hi_total_write_8B_count",
        Uncounted = "l2_total_axi0_read_request_count",
        Uncounted = "l2_total_axi1_read_request_count",
        Uncounted = "l2_total_axi0_write_request_count",
        Uncounted = "l2_total_axi1_write_request_count",
        Uncounted = "l2_total_read_transactions_request_by_axi0",
        Uncounted = "l2_total_read_transactions_request_by_axi1",
        Uncounted = "l2_total_write_transactions_request_by_axi0",
        Uncounted = "l2_total_write_transactions_request_by_axi1",
        Uncounted = "l2_axi0_minmax_latency",
        Uncounted = "l2_axi0_min_latency",
        Uncounted = "l2_axi0_max_latency",
        Uncounted = "l2_axi0_total_latency",
        Uncounted = "l2_axi0_total_request_count",
        Uncounted = "l2_axi1_minmax_latency",
        Uncounted = "l2_axi1_min_latency",
        Uncounted = "l2_axi1_max_latency",
        Uncounted = "l2_axi1_total_latency",
        Uncounted = "l2_axi1_total_request_count",
    ]
}

counters! {
    /// The second part of 6.2.4.
    PART_2_V6_2_4 = [
        PipelineRead = "mcc_total_read_req_8B_from_colorpipe",
        Uncounted = "mcc_total_read_req_8B_sentout_from_colorpipe",
        PipelineWritten = "mcc_total_write_req_8B_from_colorpipe",
        Uncounted = "mcc_total_read_req_sentout_from_colorpipe",
        Uncounted = "mcc_total_write_req_from_colorpipe",
        Uncounted = "mcc_total_read_req_8B_from_depthpipe",
        Uncounted = "mcc_total_read_req_8B_sentout_from_depthpipe",
        Uncounted = "mcc_total_write_req_8B_from_depthpipe",
        Uncounted = "mcc_total_read_req_sentout_from_depthpipe",
        Uncounted = "mcc_total_write_req_from_depthpipe",
        OthersRead = "mcc_total_read_req_8B_from_others",
        Uncounted = "mcc_total_write_req_8B_from_others",
        Uncounted = "mcc_total_read_req_from_others",
        Uncounted = "mcc_total_write_req_from_others",
        Uncounted = "mcc_axi_total_latency",
        Uncounted = "mcc_axi_sample_count",
        Uncounted = "mcc_axi_max_latency",
        Uncounted = "mcc_axi_min_latency",
        Uncounted = "mc_fe_read_bandwidth",
        Uncounted = "mc_mmu_read_bandwidth",
        Uncounted = "mc_blt_read_bandwidth",
        Uncounted = "mc_sh0_read_bandwidth",
        Uncounted = "mc_sh1_read_bandwidth",
        Uncounted = "mc_pe_write_bandwidth",
        Uncounted = "mc_blt_write_bandwidth",
        Uncounted = "mc_sh0_write_bandwidth",
        Uncounted = "mc_sh1_write_bandwidth",
        Uncounted = "mcz_total_read_req_8B_from_colorpipe",
        Uncounted = "mcz_total_read_req_8B_sentout_from_colorpipe",
        Uncounted = "mcz_total_write_req_8B_from_colorpipe",
        Uncounted = "mcz_total_read_req_sentout_from_colorpipe",
        Uncounted = "mcz_total_write_req_from_colorpipe",
        Uncounted = "mcz_total_read_req_8B_from_depthpipe",
        Uncounted = "mcz_total_read_req_8B_sentout_from_depthpipe",
        Uncounted = "mcz_total_write_req_8B_from_depthpipe",
        Uncounted = "mcz_total_read_req_sentout_from_depthpipe",
        Uncounted = "mcz_total_write_req_from_depthpipe",
        Uncounted = "mcz_total_read_req_8B_from_others",
        Uncounted = "mcz_total_write_req_8B_from_others",
        Uncounted = "mcz_total_read_req_from_others",
        Uncounted = "mcz_total_write_req_from_others",
        Uncounted = "mcz_axi_total_latency",
        Uncounted = "mcz_axi_sample_count",
        Uncounted = "mcz_axi_max_latency",
        Uncounted = "mcz_axi_min_latency",
        FirstRead = "hi0_total_read_8B_count",
        FirstWritten = "hi0_total_write_8B_count",
        Uncounted = "hi0_total_read_request_count",
        Uncounted = "hi0_total_write_request_count",
        ReadStalls = "hi0_axi_cycles_read_request_stalled",
        WriteStalls = "hi0_axi_cycles_write_request_stalled",
        DataStalls = "hi0_axi_cycles_write_data_stalled",
        SecondRead = "hi1_total_read_8B_count",
        SecondWritten = "hi1_total_write_8B_count",
        Uncounted = "hi1_total_read_request_count",
        Uncounted = "hi1_total_write_request_count",
        Uncounted = "hi1_axi_cycles_read_request_stalled",
        Uncounted = "hi1_axi_cycles_write_request_stalled",
        Uncounted = "hi1_axi_cycles_write_data_stalled",
        TotalCycles = "hi_total_cycle_count",
        IdleCycles = "hi_total_idle_cycle_count",
        Read = "hi_total_read_8B_count",
        Written = "hi_total_write_8B_count",
        Uncounted = "l2_total_axi0_read_request_count",
        Uncounted = "l2_total_axi1_read_request_count",
        Uncounted = "l2_total_axi0_write_request_count",
        Uncounted = "l2_total_axi1_write_request_count",
        Uncounted = "l2_total_read_transactions_request_by_axi0",
        Uncounted = "l2_total_read_transactions_request_by_axi1",
        Uncounted = "l2_total_write_transactions_request_by_axi0",
        Uncounted = "l2_total_write_transactions_request_by_axi1",
        Uncounted = "l2_axi0_minmax_latency",
        Uncounted = "l2_axi0_min_latency",
        Uncounted = "l2_axi0_max_latency",
        Uncounted = "l2_axi0_total_latency",
        Uncounted = "l2_axi0_total_request_count",
        Uncounted = "l2_axi1_minmax_latency",
        Uncounted = "l2_axi1_min_latency",
        Uncounted = "l2_axi1_max_latency",
        Uncounted = "l2_axi1_total_latency",
        Uncounted = "l2_axi1_total_request_count",
    ]
}

counters! {
    /// The second part of 6.4.11.
    PART_2_V6_4 = [
        PipelineRead = "mcc_total_read_req_8B_from_colorpipe",
        Uncounted = "mcc_total_read_req_8B_sentout_from_colorpipe",
        PipelineWritten = "mcc_total_write_req_8B_from_colorpipe",
        Uncounted = "mcc_total_read_req_sentout_from_colorpipe",
        Uncounted = "mcc_total_write_req_from_colorpipe",
        Uncounted = "mcc_total_read_req_8B_from_depthpipe",
        Uncounted = "mcc_total_read_req_8B_sentout_from_depthpipe",
        Uncounted = "mcc_total_write_req_8B_from_depthpipe",
        Uncounted = "mcc_total_read_req_sentout_from_depthpipe",
        Uncounted = "mcc_total_write_req_from_depthpipe",
        OthersRead = "mcc_total_read_req_8B_from_others",
        Uncounted = "mcc_total_write_req_8B_from_others",
        Uncounted = "mcc_total_read_req_from_others",
        Uncounted = "mcc_total_write_req_from_others",
        Uncounted = "mcc_axi_total_latency",
        Uncounted = "mcc_axi_sample_count",
        Uncounted = "mcc_axi_max_latency",
        Uncounted = "mcc_axi_min_latency",
        Uncounted = "mc_fe_read_bandwidth",
        Uncounted = "mc_mmu_read_bandwidth",
        Uncounted = "mc_blt_read_bandwidth",
        Uncounted = "mc_sh0_read_bandwidth",
        Uncounted = "mc_sh1_read_bandwidth",
        Uncounted = "mc_pe_write_bandwidth",
        Uncounted = "mc_blt_write_bandwidth",
        Uncounted = "mc_sh0_write_bandwidth",
        Uncounted = "mc_sh1_write_bandwidth",
        Uncounted = "mcz_total_read_req_8B_from_colorpipe",
        Uncounted = "mcz_total_read_req_8B_sentout_from_colorpipe",
        Uncounted = "mcz_total_write_req_8B_from_colorpipe",
        Uncounted = "mcz_total_read_req_sentout_from_colorpipe",
        Uncounted = "mcz_total_write_req_from_colorpipe",
        Uncounted = "mcz_total_read_req_8B_from_depthpipe",
        Uncounted = "mcz_total_read_req_8B_sentout_from_depthpipe",
        Uncounted = "mcz_total_write_req_8B_from_depthpipe",
        Uncounted = "mcz_total_read_req_sentout_from_depthpipe",
        Uncounted = "mcz_total_write_req_from_depthpipe",
        Uncounted = "mcz_total_read_req_8B_from_others",
        Uncounted = "mcz_total_write_req_8B_from_others",
        Uncounted = "mcz_total_read_req_from_others",
        Uncounted = "mcz_total_write_req_from_others",
        Uncounted = "mcz_axi_total_latency",
        Uncounted = "mcz_axi_sample_count",
        Uncounted = "mcz_axi_max_latency",
        Uncounted = "mcz_axi_min_latency",
        FirstRead = "hi0_total_read_8B_count",
        FirstWritten = "hi0_total_write_8B_count",
        Uncounted = "hi0_total_read_request_count",
        Uncounted = "hi0_total_write_request_count",
        ReadStalls = "hi0_axi_cycles_read_request_stalled",
        WriteStalls = "hi0_axi_cycles_write_request_stalled",
        DataStalls = "hi0_axi_cycles_write_data_stalled",
        SecondRead = "hi1_total_read_8B_count",
        SecondWritten = "hi1_total_write_8B_count",
        Uncounted = "hi1_total_read_request_count",
        Uncounted = "hi1_total_write_request_count",
        Uncounted = "hi1_axi_cycles_read_request_stalled",
        Uncounted = "hi1_axi_cycles_write_request_stalled",
        Uncounted = "hi1_axi_cycles_write_data_stalled",
        TotalCycles = "hi_total_cycle_count",
        IdleCycles = "hi_total_idle_cycle_count",
        Read = "hi_total_read_8B_count",
        Written = "hi_total_write_8B_count",
        Uncounted = "hi_total_readOCB_16B_count",
        Uncounted = "hi_total_writeOCB_16B_count",
        Uncounted = "l2_total_axi0_read_request_count",
        Uncounted = "l2_total_axi1_read_request_count",
        Uncounted = "l2_total_axi0_write_request_count",
        Uncounted = "l2_total_axi1_write_request_count",
        Uncounted = "l2_total_read_transactions_request_by_axi0",
        Uncounted = "l2_total_read_transactions_request_by_axi1",
        Uncounted = "l2_total_write_transactions_request_by_axi0",
        Uncounted = "l2_total_write_transactions_request_by_axi1",
        Uncounted = "l2_axi0_minmax_latency",
        Uncounted = "l2_axi0_min_latency",
        Uncounted = "l2_axi0_max_latency",
        Uncounted = "l2_axi0_total_latency",
        Uncounted = "l2_axi0_total_request_count",
        Uncounted = "l2_axi1_minmax_latency",
        Uncounted = "l2_axi1_min_latency",
        Uncounted = "l2_axi1_max_latency",
        Uncounted = "l2_axi1_total_latency",
        Uncounted = "l2_axi1_total_request_count",
    ]
}
