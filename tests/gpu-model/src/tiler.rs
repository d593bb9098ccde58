// SPDX-License-Identifier: GPL-2.0-only
//! The YUV tiler (the register database; Mesa's etnaviv_yuv.c). While it is enabled, a kick of the resolve engine packs
//! YUV planes into tiles of YUY2.
//!
//! No public source documents silicon's behavior in these cases. The model uses the most likely reading of the sources:
//! * The kick does not also resolve: Mesa leaves the resolve engine's addresses and window unchanged.
//! * The stride of the target is that of a row of pixels, as in Mesa. A row of tiles is four times as long.
//! * The chroma of two rows of pixels applies to both.

use gpu_control::ViolationKind;

use crate::engine2d::Bus;
use crate::engine2d::StateBlock;
use crate::mmu::Port;
use crate::registers::state::*;
use crate::surface::Layout;
use crate::surface::Surface;

/// Bit of [`YUV_CONFIG`].
pub const ENABLE: u32 = 1;

/// The states of a kick of the tiler.
#[derive(Clone, Debug)]
pub struct Tiler(StateBlock);

impl Tiler {
    /// Whether a kick with these states starts the tiler.
    pub fn is_on(states: &StateBlock) -> bool {
        states.get(YUV_CONFIG) & ENABLE != 0
    }

    /// The tiler with the states of a kick.
    pub fn new(states: StateBlock) -> Self {
        Self(states)
    }

    /// Whether U and V share a plane (NV12).
    fn is_nv12(&self) -> bool {
        self.0.get(YUV_CONFIG) >> 4 & 3 == 1
    }

    fn size(&self) -> (u32, u32) {
        let word = self.0.get(YUV_WINDOW_SIZE);
        (word & 0xffff, word >> 16)
    }

    /// Checks the states before anything is written.
    pub fn check(&self) -> Result<(), (ViolationKind, String)> {
        let unsupported = |text: String| {
            let text = format!("YUV tiler: not modelled: {text}");
            Err((ViolationKind::Unsupported, text))
        };
        let config = self.0.get(YUV_CONFIG);
        if config & !0x131 != 0 || config >> 4 & 3 > 1 {
            return unsupported(format!("YUV_CONFIG {config:#x}"));
        }
        let (width, height) = self.size();
        if width == 0 || height == 0 || width % 2 != 0 || height % 2 != 0 {
            return unsupported(format!("a window of {width} x {height}"));
        }
        for address in (YUV_Y_BASE..=YUV_DEST_BASE).step_by(8) {
            let (base, stride) = (self.0.get(address), self.0.get(address + 4));
            let is_used = address != YUV_V_BASE || !self.is_nv12();
            if is_used && (base % 4 != 0 || stride % 4 != 0 || stride > 0x3_ffff) {
                return unsupported(format!("a surface at {base:#x} with stride {stride:#x}"));
            }
        }
        Ok(())
    }

    /// Runs the tiler. The states must have passed [`Tiler::check`]. Returns the number of pixels written.
    pub fn run(&self, bus: &mut dyn Bus) -> u64 {
        let (width, height) = self.size();
        let target = Surface {
            bases: [self.0.get(YUV_DEST_BASE); 2],
            stride: 4 * self.0.get(YUV_DEST_BASE + 4),
            bytes: 2,
            layout: Layout::Tiled,
            is_split: false,
        };
        let at = |base: u32, x: u32, y: u32| {
            let row = y.wrapping_mul(self.0.get(base + 4));
            self.0.get(base).wrapping_add(row).wrapping_add(x)
        };
        let mut pixels = 0;
        for y in 0..height {
            if bus.aborted() {
                break;
            }
            for x in (0..width).step_by(2) {
                let (mut luma, mut colour) = ([0; 2], [0; 2]);
                bus.read(Port::Texture, at(YUV_Y_BASE, x, y), &mut luma);
                if self.is_nv12() {
                    bus.read(Port::Texture, at(YUV_U_BASE, x, y / 2), &mut colour)
                } else {
                    let [u, v] = colour.each_mut().map(std::slice::from_mut);
                    bus.read(Port::Texture, at(YUV_U_BASE, x / 2, y / 2), u);
                    bus.read(Port::Texture, at(YUV_V_BASE, x / 2, y / 2), v);
                }
                if self.0.get(YUV_CONFIG) & 1 << 8 != 0 {
                    colour.swap(0, 1);
                }
                let packed = [luma[0], colour[0], luma[1], colour[1]];
                bus.write(Port::Pixel, target.address(x, y), &packed);
            }
            pixels += u64::from(width);
        }
        bus.end_pipe(0, pixels);
        pixels
    }
}
