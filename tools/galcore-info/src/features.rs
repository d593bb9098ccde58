// SPDX-License-Identifier: GPL-2.0-only
//! Names of the bits in a core's feature words. They are from the register database (rnndb, `common.xml`:
//! chipFeatures and chipMinorFeatures0 to 3), some in plainer words.

/// Number of feature words that clients get: features, and four words of minor features.
pub const WORDS: usize = 5;

/// Names by word and bit.
#[rustfmt::skip]
const NAMES: [[&str; 32]; WORDS] = [
    [
        "FAST_CLEAR", "SPECIAL_ANTI_ALIASING", "PIPE_3D", "DXT_TEXTURE_COMPRESSION",
        "DEBUG_MODE", "Z_COMPRESSION", "YUV420_SCALER", "MSAA", "DC", "PIPE_2D",
        "ETC1_TEXTURE_COMPRESSION", "FAST_SCALER", "HIGH_DYNAMIC_RANGE", "YUV420_TILER",
        "MODULE_CG", "MIN_AREA", "NO_EARLY_Z", "NO_422_TEXTURE", "BUFFER_INTERLEAVING",
        "BYTE_WRITE_2D", "NO_SCALER", "YUY2_AVERAGING", "HALF_PE_CACHE", "HALF_TX_CACHE",
        "YUY2_RENDER_TARGET", "MEM32", "PIPE_VG", "VGTS", "FE20", "BYTE_WRITE_3D",
        "RS_YUV_TARGET", "32_BIT_INDICES",
    ],
    [
        "FLIP_Y", "DUAL_RETURN_BUS", "ENDIANNESS_CONFIG", "TEXTURE_8K",
        "CORRECT_TEXTURE_CONVERTER", "SPECIAL_MSAA_LOD", "FAST_CLEAR_FLUSH", "2DPE20",
        "CORRECT_AUTO_DISABLE", "RENDERTARGET_8K", "2BITPERTILE",
        "SEPARATE_TILE_STATUS_WHEN_INTERLEAVED", "SUPER_TILED", "VG_20", "TS_EXTENDED_COMMANDS",
        "COMPRESSION_FIFO_FIXED", "HAS_SIGN_FLOOR_CEIL", "VG_FILTER", "VG_21", "SHADER_HAS_W",
        "HAS_SQRT_TRIG", "MORE_MINOR_FEATURES", "MC20", "MSAA_SIDEBAND", "BUG_FIXES0", "VAA",
        "BYPASS_IN_MSAA", "HZ", "NEW_TEXTURE", "2D_A8_TARGET", "CORRECT_STENCIL", "ENHANCE_VR",
    ],
    [
        "RSUV_SWIZZLE", "V2_COMPRESSION", "VG_DOUBLE_BUFFER", "EXTRA_EVENT_STATES",
        "NO_STRIPING_NEEDED", "TEXTURE_STRIDE", "BUG_FIXES3", "AUTO_DISABLE", "AUTO_RESTART_TS",
        "DISABLE_PE_GATING", "L2_WINDOWING", "HALF_FLOAT", "PIXEL_DITHER",
        "TWO_STENCIL_REFERENCE", "EXTENDED_PIXEL_FORMAT", "CORRECT_MIN_MAX_DEPTH", "2D_DITHER",
        "BUG_FIXES5", "NEW_2D", "NEW_FP", "TEXTURE_HALIGN", "NON_POWER_OF_TWO",
        "LINEAR_TEXTURE_SUPPORT", "HALTI0", "CORRECT_OVERFLOW_VG", "NEGATIVE_LOG_FIX",
        "RESOLVE_OFFSET", "OK_TO_GATE_AXI_CLOCK", "MMU_VERSION", "WIDE_LINE", "BUG_FIXES6",
        "FC_FLUSH_STALL",
    ],
    [
        "LINE_LOOP", "LOGIC_OP", "SEAMLESS_CUBE_MAP", "SUPERTILED_TEXTURE", "LINEAR_PE",
        "RECT_PRIMITIVE", "COMPOSITION", "CORRECT_AUTO_DISABLE_COUNT", "PE_SWIZZLE", "END_EVENT",
        "S1S8", "HALTI1", "RGB888", "TX__YUV_ASSEMBLER", "DYNAMIC_FREQUENCY_SCALING",
        "TX_FILTER", "FULL_DIRECTFB", "2D_TILING", "THREAD_WALKER_IN_PS", "TILE_FILLER",
        "YUV_STANDARD", "2D_MULTI_SOURCE_BLIT", "YUV_CONVERSION", "FLUSH_FIXED_2D",
        "INTERLEAVER", "MIXED_STREAMS", "2D_420_L2CACHE", "BUG_FIXES7", "2D_NO_INDEX8_BRUSH",
        "TEXTURE_TILED_READ", "DECOMPRESS_Z16", "BUG_FIXES8",
    ],
    [
        "ROTATION_STALL_FIX", "OCL_ONLY", "2D_MULTI_SOURCE_BLT_EX", "INSTRUCTION_CACHE",
        "GEOMETRY_SHADER", "TEX_COMPRESSION_SUPERTILED", "GENERICS", "BUG_FIXES9", "FAST_MSAA",
        "WCLIP", "BUG_FIXES10", "UNIFIED_SAMPLERS", "BUG_FIXES11", "PERFORMANCE_COUNTERS",
        "HAS_FAST_TRANSCENDENTALS", "BUG_FIXES12", "BUG_FIXES13", "DE_ENHANCEMENTS1", "ACE",
        "TX_ENHANCEMENTS1", "SH_ENHANCEMENTS1", "SH_ENHANCEMENTS2", "PE_ENHANCEMENTS1",
        "2D_FC_SOURCE", "BUG_FIXES_14", "POWER_OPTIMIZATIONS_0", "NEW_HZ", "PE_DITHER_FIX",
        "DE_ENHANCEMENTS3", "SH_ENHANCEMENTS3", "SH_ENHANCEMENTS4", "TX_ENHANCEMENTS2",
    ],
];

/// Replacements for names of the database.
const PLAINER: &[(&str, &str)] = &[
    ("PIPE_3D", "3D"),
    ("PIPE_2D", "2D"),
    ("PIPE_VG", "vector graphics"),
    ("DC", "display controller"),
    ("MODULE_CG", "clock gating of modules"),
    ("HZ", "hierarchical Z"),
    ("MMU_VERSION", "MMU version 2"),
    ("NON_POWER_OF_TWO", "textures of any size"),
    ("VAA", "vertex anti aliasing"),
    ("FE20", "front end 2.0"),
    ("MC20", "memory controller 2.0"),
    ("2DPE20", "2D pixel engine 2.0"),
    ("VG_20", "vector graphics 2.0"),
    ("VG_21", "vector graphics 2.1"),
    ("2BITPERTILE", "2 bits per tile"),
];

/// Converts a name to words: `FAST_CLEAR` becomes "fast clear".
fn in_words(name: &str) -> String {
    if let Some((_, plain)) = PLAINER.iter().find(|(known, _)| *known == name) {
        return (*plain).to_string();
    }
    let words = name.split('_').filter(|word| !word.is_empty());
    let words = words.map(|word| match word {
        // Names of formats, units, and versions are kept.
        "PE" | "TS" | "RS" | "TX" | "DE" | "FC" | "AXI" | "MSAA" | "OCL" | "VG" | "FP" | "L2"
        | "LOD" | "DXT" | "YUV" | "L2CACHE" => word.to_string(),
        word if word.starts_with("FIXES") => word.to_lowercase(),
        word if word.chars().any(|letter| letter.is_ascii_digit()) => word.to_string(),
        word => word.to_lowercase(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The names of set features, in bit order.
pub fn of(words: &[u32; WORDS]) -> Vec<String> {
    let named = words.iter().zip(&NAMES);
    named
        .flat_map(|(word, names)| {
            let set = (0..32).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| in_words(names[bit]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_words() {
        // The features of a GC600.
        let found = of(&[0x0000_0205, 0, 1 << 28, 0, 0]);
        assert_eq!(found, ["fast clear", "3D", "2D", "MMU version 2"]);
        assert!(of(&[0; WORDS]).is_empty());
    }

    #[test]
    fn each_bit_has_a_name_of_its_own() {
        let all = of(&[u32::MAX; WORDS]);
        assert_eq!(all.len(), WORDS * 32);
        let mut seen = std::collections::BTreeSet::new();
        for name in &all {
            assert!(!name.is_empty() && seen.insert(name), "{name:?}");
        }
    }
}
