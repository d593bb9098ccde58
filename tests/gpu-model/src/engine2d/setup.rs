// SPDX-License-Identifier: GPL-2.0-only
//! Destination and source as set in the states, and their checks.

use super::bad;
use super::paint::Painter;
use super::source::Space;
use super::source::Texels;
use super::source::Transparency;
use super::source::Yuv;
use super::source::YuvFormat;
use super::surface::Layout;
use super::surface::Surface;
use super::surface::Swizzle;
use super::surface::Turn;
use super::unsupported;
use super::Engine;
use super::Refusal;
use super::StateBlock;
use crate::mmu::Port;
use crate::pixel::Format;
use crate::registers::state::*;

/// DE_FORMAT.
const FORMAT_INDEX8: u32 = 9;
const FORMAT_MONOCHROME: u32 = 10;

impl Engine {
    /// Whether the source is [`Texels::Indexed`].
    pub fn is_indexed(&self, states: &StateBlock) -> bool {
        self.source_format_code(states) == FORMAT_INDEX8
    }

    /// The destination.
    pub(super) fn target(&self, states: &StateBlock) -> Result<Surface, Refusal> {
        let code = states.bits(DE_DEST_CONFIG, 4, 0);
        let Some(format) = self.format(code) else {
            return unsupported(format!("destination format {code}"));
        };
        if format == Format::A8 && !self.features.a8_target {
            return bad("a destination of A8: this core lacks 2D_A8_TARGET");
        }
        let surface = self.surface(
            states,
            Port::Pixel,
            (DE_DEST_ADDRESS, DE_DEST_STRIDE),
            Layout {
                format,
                swizzle: Swizzle::from_code(states.bits(DE_DEST_CONFIG, 17, 16)),
            },
            (DE_DEST_ROTATION_CONFIG, DE_DEST_ROTATION_HEIGHT, 3),
        )?;
        for (address, mask, text) in [
            (DE_DEST_CONFIG, (1 << 8) | (1 << 26), "a tiled destination"),
            (DE_DEST_CONFIG, 3 << 20, "a destination's endianness"),
            (DE_DEST_CONFIG, 1 << 24, "a GDI stretch blit"),
            (DE_DEYUV_CONVERSION, 3, "a destination in YUV planes"),
        ] {
            if states.get(address) & mask != 0 {
                return unsupported(text);
            }
        }
        Ok(surface)
    }

    /// A surface with its rotation from `turn`: the states of its width and height, and DE_ROT_ANGLE's field.
    pub(super) fn surface(
        &self,
        states: &StateBlock,
        port: Port,
        (address, stride): (u32, u32),
        layout: Layout,
        turn: (u32, u32, u32),
    ) -> Result<Surface, Refusal> {
        let (base, stride) = (states.get(address), states.bits(stride, 17, 0));
        let name = match port {
            Port::Pixel => "destination",
            _ => "source",
        };
        if base % 4 != 0 || stride % layout.format.bytes() != 0 {
            return bad(format!(
                "{name} at {base:#x} with stride {stride:#x} is misaligned"
            ));
        }
        // Found by etna_viv: PE10 has two of the four.
        if !self.pe20 && matches!(layout.swizzle, Swizzle::Rgba | Swizzle::Bgra) {
            return bad(format!("a swizzle of the {name} that PE10 lacks"));
        }
        let (width, height, shift) = turn;
        let code = states.bits(DE_ROT_ANGLE, shift + 2, shift);
        let is_turned = states.flag(width, 16);
        if states.get(DE_ROT_ANGLE) & 0x3_303f != 0 && !self.pe20 {
            return bad("rotation by DE_ROT_ANGLE, which PE10 lacks");
        }
        let turn = match (Turn::from_code(code), is_turned) {
            (None, _) => return bad(format!("rotation {code} does not exist")),
            (Some(Turn::None), true) => Turn::Rot90,
            (Some(turn), false) => turn,
            (Some(_), true) => {
                return unsupported(format!("a {name} that is turned in two ways"));
            }
        };
        let size = (
            states.bits(width, 15, 0) as i32,
            states.bits(height, 15, 0) as i32,
        );
        Ok(Surface {
            port,
            base,
            stride,
            layout,
            turn,
            size,
        })
    }

    /// Refuses dithering, which is not modeled. It matters only if channels lose bits.
    pub(super) fn check_dither(&self, states: &StateBlock, format: Format) -> Result<(), Refusal> {
        let is_off = states.get(DE_PE_DITHER_LOW) & states.get(DE_PE_DITHER_HIGH) == u32::MAX;
        if self.features.dither && !is_off && format.bytes() == 2 {
            return unsupported("dithering");
        }
        Ok(())
    }

    pub(super) fn line_painter(
        &self,
        states: &StateBlock,
        target: &Surface,
    ) -> Result<Painter, Refusal> {
        if states.flag(DE_ALPHA_CONTROL, 0) {
            return unsupported("a line with alpha blending");
        }
        if states.get(DE_PE_TRANSPARENCY) & 3 != 0 {
            return unsupported("a line with a transparent source");
        }
        self.check_dither(states, target.layout.format)?;
        Painter::of(self, states, target.layout, Transparency::None, None)
    }

    pub(super) fn transparency(&self, states: &StateBlock) -> Result<Transparency, Refusal> {
        let old = states.bits(DE_SRC_CONFIG, 5, 4);
        let new = states.bits(DE_PE_TRANSPARENCY, 1, 0);
        if !self.pe20 && states.get(DE_PE_TRANSPARENCY) & 0x2333_0333 != 0 {
            return bad("PE_TRANSPARENCY, which PE10 lacks");
        }
        if self.pe20 && old != 0 {
            return unsupported("PE10's field of transparency on PE20");
        }
        let code = self.source_format_code(states);
        Ok(match if self.pe20 { new } else { old } {
            0 => Transparency::None,
            1 => Transparency::Mask(states.flag(DE_SRC_CONFIG, 15)),
            2 => {
                let first = states.get(DE_SRC_COLOR_BG);
                let format = match code {
                    FORMAT_INDEX8 => None,
                    _ => match self.format(code) {
                        Some(format) => Some(format),
                        None => return unsupported("a transparent colour of this format"),
                    },
                };
                Transparency::Key {
                    first,
                    last: if self.pe20 {
                        states.get(DE_SRC_COLOR_KEY_HIGH)
                    } else {
                        first
                    },
                    layout: format.map(|format| self.source_layout(states, format)),
                }
            }
            kind => return bad(format!("transparency {kind} does not exist")),
        })
    }

    pub(super) fn source_layout(&self, states: &StateBlock, format: Format) -> Layout {
        Layout {
            format,
            swizzle: Swizzle::from_code(states.bits(DE_SRC_CONFIG, 21, 20)),
        }
    }

    /// The mirrored axes.
    pub(super) fn mirror(&self, states: &StateBlock) -> Result<(bool, bool), Refusal> {
        let mut axes = if states.flag(DE_CONFIG, 0) {
            states.bits(DE_CONFIG, 5, 4)
        } else {
            0
        };
        let angle = states.bits(DE_ROT_ANGLE, 13, 12) ^ states.bits(DE_ROT_ANGLE, 17, 16);
        if states.get(DE_ROT_ANGLE) & 0x3_3000 != 0 && !self.features.mirror {
            return bad("mirroring by DE_ROT_ANGLE: this core lacks NEW_2D");
        }
        axes ^= angle;
        Ok((axes & 1 != 0, axes & 2 != 0))
    }

    /// The source of a blit to `target`.
    pub(super) fn texels(&self, states: &StateBlock, target: Format) -> Result<Texels, Refusal> {
        let code = self.source_format_code(states);
        if code == FORMAT_MONOCHROME {
            let colours = [states.get(DE_SRC_COLOR_BG), states.get(DE_SRC_COLOR_FG)];
            if states.flag(DE_SRC_CONFIG, 8) {
                return Ok(Texels::StreamBits(colours));
            }
            let surface = self.source_surface(states, Format::X8R8G8B8)?;
            if surface.turn != Turn::None {
                return unsupported("a monochrome source that is turned");
            }
            return Ok(Texels::Bits {
                base: surface.base,
                stride: surface.stride,
                colours,
            });
        }
        if YuvFormat::from_code(code).is_some() {
            if !self.features.yuv_blit {
                return bad("a blit from YUV: this core lacks 2D_TILING");
            }
            return Ok(Texels::Yuv(self.yuv(states)?));
        }
        if code == FORMAT_INDEX8 {
            // Read as bytes, whatever they mean.
            let surface = self.source_surface(states, Format::A8)?;
            let (first, is_raw) = if self.pe20 {
                (DE_INDEX_COLOR_TABLE32, false)
            } else {
                (DE_INDEX_COLOR_TABLE, true)
            };
            let layout = self.target(states)?.layout;
            let entry = |index: u32| match (is_raw, states.get(first + 4 * index)) {
                (true, raw) => layout.straight(raw),
                (false, argb) => argb,
            };
            debug_assert_eq!(layout.format, target);
            return Ok(Texels::Indexed {
                surface,
                palette: (0..256).map(entry).collect(),
                is_raw,
            });
        }
        let Some(format) = self.format(code) else {
            return unsupported(format!("source format {code}"));
        };
        let fill = states.get(DE_GLOBAL_SRC_COLOR);
        Ok(Texels::Colour(self.source_surface(states, format)?, fill))
    }

    pub(super) fn source_surface(
        &self,
        states: &StateBlock,
        format: Format,
    ) -> Result<Surface, Refusal> {
        for (address, mask, text) in [
            (DE_SRC_CONFIG, 1 << 7, "a tiled source"),
            (DE_SRC_CONFIG, 3 << 30, "a source's endianness"),
            (DE_SRC_EX_CONFIG, 0x109, "a tiled source"),
        ] {
            if states.get(address) & mask != 0 {
                return unsupported(text);
            }
        }
        self.surface(
            states,
            Port::Texture,
            (DE_SRC_ADDRESS, DE_SRC_STRIDE),
            self.source_layout(states, format),
            (DE_SRC_ROTATION_CONFIG, DE_SRC_ROTATION_HEIGHT, 0),
        )
    }

    /// A YUV source.
    pub(super) fn yuv(&self, states: &StateBlock) -> Result<Yuv, Refusal> {
        let code = self.source_format_code(states);
        let Some(format) = YuvFormat::from_code(code) else {
            return unsupported(format!("source format {code}"));
        };
        let surface = self.source_surface(states, Format::A8)?;
        if surface.turn != Turn::None || surface.layout.swizzle != Swizzle::Argb {
            return unsupported("a YUV source that is turned, or has a swizzle");
        }
        let needs_420 = matches!(format, YuvFormat::Yv12 | YuvFormat::Nv12);
        if needs_420 && !self.features.yuv420 {
            return bad("4:2:0 from YUV: this core lacks YUV420_SCALER");
        }
        if states.flag(DE_PE_CONTROL, 8) {
            return unsupported("PE_CONTROL's YUVRGB");
        }
        let plane = |address, stride| (states.get(address), states.bits(stride, 17, 0));
        let planes = [
            (surface.base, surface.stride),
            plane(DE_UPLANE_ADDRESS, DE_UPLANE_STRIDE),
            plane(DE_VPLANE_ADDRESS, DE_VPLANE_STRIDE),
        ];
        let used = match format {
            YuvFormat::Yuy2 | YuvFormat::Uyvy => 1,
            YuvFormat::Nv12 | YuvFormat::Nv16 => 2,
            YuvFormat::Yv12 => 3,
        };
        if let Some((base, _)) = planes[..used].iter().find(|plane| plane.0 % 4 != 0) {
            return bad(format!("a YUV plane at {base:#x} is misaligned"));
        }
        Ok(Yuv {
            format,
            space: if states.flag(DE_PE_CONTROL, 0) {
                Space::Bt709
            } else {
                Space::Bt601
            },
            swapped: states.flag(DE_PE_CONTROL, 4),
            planes,
        })
    }
}
