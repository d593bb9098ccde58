// SPDX-License-Identifier: GPL-2.0-only
//! The properties of each board's core, as the interface must report them.
//!
//! The words are those of the silicon (sources.md, bring-up, from etna_viv's `gpus.json`) after the fix-ups of 1.2, and
//! with the defaults of 1.3 for cores without specification words.

use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi::hardware;
use galcore_client::uapi::QueryChipIdentity;
use gpu_control::Board;

use crate::control::Control;

/// The board on which the tests run. The board that the runner names must match the one that the GPU reports.
pub fn board(control: &Control) -> Result<Board> {
    let board = control.board().context("the GPU plays an unknown board")?;
    if let Ok(name) = std::env::var("GALCORE_BOARD") {
        crate::harness::same("board", board.name(), name.as_str())?;
    }
    Ok(board)
}

/// CHIP_INFO's type of a VG core.
const TYPE_VG: u32 = 4;

/// CHIP_INFO's type of the board's core.
pub fn hardware_type(board: Board) -> u32 {
    match board {
        Board::Dove => hardware::TYPE_3D2D,
        Board::Gc320 | Board::Gc320Qp | Board::Gc520l => hardware::TYPE_2D,
        Board::Gc355 | Board::Gc355Qp => TYPE_VG,
        // The interface of these tests has no type for neural cores.
        Board::Gc2000 | Board::Gc880 | Board::Gc3000 | Board::Npu | Board::Gc7000ul => {
            hardware::TYPE_3D
        }
    }
}

/// QUERY_CHIP_IDENTITY's answer on a board.
pub fn identity(board: Board) -> QueryChipIdentity {
    // Values that most of the cores share.
    let common = QueryChipIdentity {
        stream_count: 1,
        register_max: 64,
        thread_count: 256,
        shader_core_count: 1,
        vertex_cache_size: 8,
        vertex_output_buffer_size: 512,
        pixel_pipes: 1,
        instruction_count: 256,
        num_constants: 168,
        buffer_size: 0,
        varyings_count: 8,
        super_tile_mode: 0,
        ..Default::default()
    };
    match board {
        Board::Dove => QueryChipIdentity {
            chip_model: 0x600,
            chip_revision: 0x19,
            chip_features: 0x0008_7ecd,
            chip_minor_features: 0x7,
            ..common
        },
        Board::Gc2000 => QueryChipIdentity {
            chip_model: 0x2000,
            chip_revision: 0x5108,
            chip_features: 0xe029_6cad,
            chip_minor_features: 0xc979_9eff,
            chip_minor_features1: 0x2efb_f2d9,
            stream_count: 8,
            thread_count: 1024,
            shader_core_count: 4,
            vertex_cache_size: 16,
            pixel_pipes: 2,
            instruction_count: 512,
            varyings_count: 12,
            super_tile_mode: 1,
            ..common
        },
        Board::Gc880 => QueryChipIdentity {
            chip_model: 0x880,
            chip_revision: 0x5106,
            chip_features: 0xe028_64ad,
            chip_minor_features: 0xc1f9_9eff,
            chip_minor_features1: 0xeefb_f2d9,
            chip_minor_features2: 0x0210_0284,
            stream_count: 8,
            instruction_count: 512,
            num_constants: 256,
            varyings_count: 12,
            ..common
        },
        Board::Gc320 => QueryChipIdentity {
            chip_model: 0x320,
            chip_revision: 0x5007,
            chip_features: 0xe02c_7eca,
            chip_minor_features: 0xc139_9eff,
            chip_minor_features1: 0x020f_b2db,
            thread_count: 1024,
            shader_core_count: 4,
            vertex_cache_size: 16,
            vertex_output_buffer_size: 1024,
            ..common
        },
        Board::Gc320Qp => QueryChipIdentity {
            chip_model: 0x320,
            chip_revision: 0x5303,
            chip_features: 0xe02c_7eca,
            chip_minor_features: 0xe139_9eff,
            chip_minor_features1: 0xfe1f_b2db,
            chip_minor_features2: 0xceff_0080,
            chip_minor_features3: 0x1000_0005,
            thread_count: 1024,
            shader_core_count: 4,
            vertex_cache_size: 16,
            vertex_output_buffer_size: 1024,
            super_tile_mode: 1,
            ..common
        },
        Board::Gc520l => QueryChipIdentity {
            chip_model: 0x520,
            chip_revision: 0x5341,
            chip_features: 0xe02c_7eca,
            chip_minor_features: 0xe139_9eff,
            chip_minor_features1: 0xfe1f_b2db,
            chip_minor_features2: 0xcedf_0080,
            chip_minor_features3: 0x1080_0005,
            super_tile_mode: 1,
            varyings_count: 12,
            ..common
        },
        Board::Npu => QueryChipIdentity {
            chip_model: 0x8000,
            chip_revision: 0x8002,
            chip_features: 0xe028_7cac,
            chip_minor_features: 0xc179_9eff,
            chip_minor_features1: 0xfefb_fadb,
            chip_minor_features2: 0xeb9d_6fbf,
            chip_minor_features3: 0xedff_fced,
            stream_count: 8,
            vertex_cache_size: 16,
            vertex_output_buffer_size: 1024,
            instruction_count: 512,
            num_constants: 320,
            varyings_count: 12,
            super_tile_mode: 2,
            ..common
        },
        Board::Gc7000ul => QueryChipIdentity {
            chip_model: 0x7000,
            chip_revision: 0x6204,
            chip_features: 0xe028_7c8d,
            chip_minor_features: 0xc158_9eff,
            chip_minor_features1: 0xfefb_fad9,
            chip_minor_features2: 0xeb9d_4fbf,
            chip_minor_features3: 0xedff_fced,
            stream_count: 4,
            thread_count: 512,
            shader_core_count: 2,
            vertex_cache_size: 16,
            vertex_output_buffer_size: 1024,
            instruction_count: 512,
            num_constants: 320,
            varyings_count: 12,
            super_tile_mode: 2,
            ..common
        },
        // Only five words; galcore leaves the others as the client sent them.
        Board::Gc355 | Board::Gc355Qp => QueryChipIdentity {
            chip_model: 0x355,
            chip_revision: if board == Board::Gc355 {
                0x1215
            } else {
                0x1216
            },
            chip_features: 0x1e2c_7cc8,
            chip_minor_features: 0x0024_207f,
            chip_minor_features2: if board == Board::Gc355 {
                0x0001_0104
            } else {
                0x0101_0104
            },
            ..Default::default()
        },
        // Four streams: galcore 4.6.9 does not read the word that contains 16.
        Board::Gc3000 => QueryChipIdentity {
            chip_model: 0x3000,
            chip_revision: 0x5450,
            chip_features: 0xe028_7cad,
            chip_minor_features: 0xc179_9efb,
            chip_minor_features1: 0xfefb_fadb,
            chip_minor_features2: 0xeb9d_4bbf,
            chip_minor_features3: 0xedff_dced,
            stream_count: 4,
            thread_count: 1024,
            shader_core_count: 4,
            vertex_cache_size: 16,
            vertex_output_buffer_size: 1024,
            pixel_pipes: 2,
            instruction_count: 512,
            num_constants: 320,
            varyings_count: 12,
            super_tile_mode: 2,
            ..common
        },
    }
}
