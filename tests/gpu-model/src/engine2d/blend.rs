// SPDX-License-Identifier: GPL-2.0-only
//! Alpha blending.
//!
//! Facts: DE_ALPHA_MODES and DE_COLOR_MULTIPLY_MODES of the register database. The source's factor uses the
//! destination's alpha and vice versa, unless SRC_ALPHA_FACTOR or DST_ALPHA_FACTOR specify otherwise. X drivers for
//! these cores encode Porter and Duff's operators this way. No public source documents the rounding of products. The
//! model rounds each product to the nearest value and limits sums to 255. A pixel's own alpha is inverted before the
//! global alpha is applied. Factors by color and saturated factors are not modeled, because their operands are not
//! documented.

use gpu_control::ViolationKind;

use super::StateBlock;
use crate::registers::state::*;

/// Source of an alpha value.
#[derive(Clone, Copy, Debug)]
struct Alpha {
    inverted: bool,
    /// 0: the pixel's alpha, 1: the global alpha, 2: their product.
    mode: u32,
    global: u32,
}

impl Alpha {
    fn of(self, pixel: u32) -> u32 {
        let own = if self.inverted { 255 - pixel } else { pixel };
        match self.mode {
            0 => own,
            1 => self.global,
            _ => product(own, self.global),
        }
    }
}

/// DE_BLENDMODE 0 to 3.
#[derive(Clone, Copy, Debug)]
enum Factor {
    Zero,
    One,
    Alpha,
    OneMinusAlpha,
}

impl Factor {
    fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Factor::Zero,
            1 => Factor::One,
            2 => Factor::Alpha,
            3 => Factor::OneMinusAlpha,
            _ => return None,
        })
    }

    fn of(self, alpha: u32) -> u32 {
        match self {
            Factor::Zero => 0,
            Factor::One => 255,
            Factor::Alpha => alpha,
            Factor::OneMinusAlpha => 255 - alpha,
        }
    }
}

/// Blending parameters of a draw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blend {
    source: Alpha,
    target: Alpha,
    source_factor: Factor,
    target_factor: Factor,
    /// The factor uses the pixel's own side.
    own_source: bool,
    own_target: bool,
    multiply_source: bool,
    multiply_target: bool,
    /// Additional multiplier of the source's colors: red, green, blue.
    global_multiply: [u32; 3],
}

impl Blend {
    /// Blending as set in the states; `None`: no blending.
    pub(super) fn of(
        states: &StateBlock,
        pe20: bool,
        directfb: bool,
    ) -> Result<Option<Self>, (ViolationKind, String)> {
        let unsupported = |text: String| {
            Err((
                ViolationKind::Unsupported,
                format!("2D: not modelled: {text}"),
            ))
        };
        let (control, modes) = (states.get(DE_ALPHA_CONTROL), states.get(DE_ALPHA_MODES));
        let multiply = if pe20 {
            states.get(DE_COLOR_MULTIPLY_MODES)
        } else {
            0
        };
        if control & 1 == 0 {
            if multiply & 0x10_0311 != 0 {
                return unsupported("colours multiplied without blending".into());
            }
            return Ok(None);
        }
        if multiply & (1 << 20) != 0 {
            return unsupported("a destination divided by its alpha".into());
        }
        let field = |high: u32, low: u32| (modes >> low) & ((2 << (high - low)) - 1);
        if field(9, 8) == 3 || field(13, 12) == 3 || (multiply >> 8) & 3 == 3 {
            let text = format!("2D: alpha modes {modes:#x}, {multiply:#x} do not exist");
            return Err((ViolationKind::BadDraw, text));
        }
        let (own_source, own_target) = (field(27, 27) != 0, field(31, 31) != 0);
        if (own_source || own_target) && !directfb {
            let text =
                "2D: a blending factor of the pixel's own side: this core lacks FULL_DIRECTFB";
            return Err((ViolationKind::BadDraw, text.into()));
        }
        let factors = (
            Factor::from_code(field(26, 24)),
            Factor::from_code(field(30, 28)),
        );
        let (Some(source_factor), Some(target_factor)) = factors else {
            return unsupported(format!(
                "blending modes {} and {}",
                field(26, 24),
                field(30, 28)
            ));
        };
        let (global_source, global_target) = if pe20 {
            (
                states.get(DE_GLOBAL_SRC_COLOR),
                states.get(DE_GLOBAL_DEST_COLOR),
            )
        } else {
            ((control >> 16) << 24, control & 0xff00_0000)
        };
        Ok(Some(Self {
            source: Alpha {
                inverted: field(0, 0) != 0,
                mode: field(9, 8),
                global: global_source >> 24,
            },
            target: Alpha {
                inverted: field(4, 4) != 0,
                mode: field(13, 12),
                global: global_target >> 24,
            },
            source_factor,
            target_factor,
            own_source,
            own_target,
            multiply_source: if pe20 {
                multiply & 1 != 0
            } else {
                field(16, 16) != 0
            },
            multiply_target: if pe20 {
                multiply & (1 << 4) != 0
            } else {
                field(20, 20) != 0
            },
            global_multiply: match (multiply >> 8) & 3 {
                1 => [global_source >> 24; 3],
                2 => [16, 8, 0].map(|shift| (global_source >> shift) & 0xff),
                _ => [255; 3],
            },
        }))
    }

    /// Blends the color of a source pixel with that of a destination pixel, all in A8R8G8B8.
    pub(super) fn apply(&self, source: u32, target: u32) -> u32 {
        let (source_alpha, target_alpha) =
            (self.source.of(source >> 24), self.target.of(target >> 24));
        let (for_source, for_target) = (
            self.source_factor.of(if self.own_source {
                source_alpha
            } else {
                target_alpha
            }),
            self.target_factor.of(if self.own_target {
                target_alpha
            } else {
                source_alpha
            }),
        );
        let sum =
            |source, target| (product(source, for_source) + product(target, for_target)).min(255);
        let mut result = sum(source_alpha, target_alpha) << 24;
        for (shift, global) in [16, 8, 0].into_iter().zip(self.global_multiply) {
            let mut from = (source >> shift) & 0xff;
            let mut to = (target >> shift) & 0xff;
            if self.multiply_source {
                from = product(from, source_alpha);
            }
            if self.multiply_target {
                to = product(to, target_alpha);
            }
            result |= sum(product(from, global), to) << shift;
        }
        result
    }
}

/// The product of two fractions of 255, rounded to the nearest value.
fn product(a: u32, b: u32) -> u32 {
    let sum = a * b + 128;
    (sum + (sum >> 8)) >> 8
}
