// SPDX-License-Identifier: GPL-2.0-only
//! The resolve engine (sources.md, engines): copies and fills windows between linear, tiled and supertiled surfaces,
//! converts formats, and averages neighboring pixels.
//!
//! Endian swaps, anti-aliasing, and flipping by several pipes are not modeled. [`Resolve::check`] refuses them.
//!
//! No source documents its dithering. The model assumes the method and table of the pixel engine: where 8 bits become
//! fewer, dithering replaces truncation.

use gpu_control::ViolationKind;

use crate::engine2d::Bus;
use crate::engine2d::StateBlock;
use crate::mmu::Port;
use crate::pixel::swap_red_blue;
use crate::pixel::Format;
use crate::registers::state::*;
use crate::surface::Layout;
use crate::surface::Surface;
use crate::tile_status::StatusFormat;
use crate::tile_status::TileStatus;

/// Maximum number of samples per pixel.
const MOST_SAMPLES: usize = 4;

/// A resolve: the states at its kick, on a core with this number of pixel pipes.
#[derive(Clone, Debug)]
pub struct Resolve {
    states: StateBlock,
    pixel_pipes: usize,
    status: Option<TileStatus>,
}

/// A surface with its pixel format.
#[derive(Clone, Copy, Debug)]
struct Image {
    surface: Surface,
    format: Format,
}

impl Resolve {
    /// A resolve with these states.
    pub fn new(states: StateBlock, pixel_pipes: usize, format: StatusFormat) -> Self {
        Self {
            status: TileStatus::new(&states, format),
            states,
            pixel_pipes,
        }
    }

    /// A surface as set in the states. With one pipe, the plain address registers apply. With two pipes, a split
    /// surface has a base for each pipe, and any other surface uses the first base for both. A base of 0 selects the
    /// plain register.
    fn surface(
        &self,
        plain: u32,
        of_pipes: u32,
        stride: u32,
        format: u32,
        tiled: u32,
    ) -> Option<Image> {
        let config = self.states.get(RS_CONFIG);
        let stride = self.states.get(stride);
        let layout = match (config & tiled != 0, stride & (1 << 31) != 0) {
            (false, _) => Layout::Linear,
            (true, false) => Layout::Tiled,
            (true, true) => Layout::Supertiled,
        };
        let format =
            Format::from_code((config >> format) & 0x1f).filter(|format| *format != Format::A8)?;
        let plain = self.states.get(plain);
        let bases = [0, 4].map(|pipe| match self.states.get(of_pipes + pipe) {
            base if base != 0 && self.pixel_pipes > 1 => base,
            _ => plain,
        });
        let surface = Surface {
            bases,
            stride: stride & 0x3_ffff,
            bytes: format.bytes(),
            layout,
            is_split: stride & (1 << 30) != 0 && self.pixel_pipes > 1,
        };
        Some(Image { surface, format })
    }

    fn source(&self) -> Option<Image> {
        self.surface(
            RS_SOURCE_ADDR,
            RS_PIPE_SOURCE_ADDR,
            RS_SOURCE_STRIDE,
            0,
            1 << 7,
        )
    }

    fn target(&self) -> Option<Image> {
        self.surface(RS_DEST_ADDR, RS_PIPE_DEST_ADDR, RS_DEST_STRIDE, 8, 1 << 14)
    }

    fn window(&self) -> (u32, u32) {
        let word = self.states.get(RS_WINDOW_SIZE);
        (word & 0xffff, word >> 16)
    }

    /// Whether the window is flipped vertically.
    fn flips(&self) -> bool {
        self.states.get(RS_CONFIG) & 1 << 30 != 0
    }

    /// The amount, in 32nds of a step of the target, to add to a pixel before truncation; `None`: no dithering.
    fn dither(&self, x: u32, y: u32) -> Option<u32> {
        let words = [0, 4].map(|at| self.states.get(RS_DITHER + at));
        let at = (y % 4) * 4 + x % 4;
        let nibble = words[(at / 8) as usize] >> (4 * (at % 8)) & 0xf;
        (words != [u32::MAX; 2]).then_some(2 * nibble + 1)
    }

    fn clear_mode(&self) -> u32 {
        (self.states.get(RS_CLEAR_CONTROL) >> 16) & 3
    }

    /// Number of source pixels, horizontally and vertically, that become one pixel.
    fn samples(&self) -> (u32, u32) {
        let config = self.states.get(RS_CONFIG);
        match self.clear_mode() {
            0 => (1 + (config >> 5 & 1), 1 + (config >> 6 & 1)),
            _ => (1, 1),
        }
    }

    /// The start of each pixel pipe's window in the picture, independent of the surfaces' layout. With one buffer for
    /// both pipes, the first pipe does all the work.
    fn origins(&self) -> Vec<(u32, u32)> {
        if self.pixel_pipes == 1 {
            return vec![(0, 0)];
        }
        let pipes = match self.states.get(RS_SINGLE_BUFFER) & 1 {
            0 => self.pixel_pipes as u32,
            _ => 1,
        };
        (0..pipes)
            .map(|pipe| self.states.get(RS_PIPE_OFFSET + 4 * pipe))
            .map(|word| (word & 0xffff, word >> 16))
            .collect()
    }

    /// Checks the states before anything is written.
    pub fn check(&self) -> Result<(), (ViolationKind, String)> {
        let window = |text: String| Err((ViolationKind::ResolveWindow, format!("resolve: {text}")));
        let unsupported =
            |text: String| Err((ViolationKind::Unsupported, format!("resolve: {text}")));
        let (width, height) = self.window();
        if width == 0 || height == 0 || width % 16 != 0 || height % 4 != 0 {
            return window(format!(
                "window {width} x {height}; must be multiples of 16 x 4"
            ));
        }
        let config = self.states.get(RS_CONFIG);
        let copies = self.clear_mode() == 0;
        let Some(target) = self.target() else {
            return unsupported(format!("destination format {}", (config >> 8) & 0x1f));
        };
        let source = self.source().filter(|_| copies);
        if copies && source.is_none() {
            return unsupported(format!("source format {}", config & 0x1f));
        }
        let extra = self.states.get(RS_EXTRA_CONFIG);
        for (set, text) in [
            (
                self.flips() && self.origins().len() > 1,
                "flipping by two pipes",
            ),
            (extra & 3 != 0, "anti-aliasing"),
            (extra & (3 << 8) != 0, "endian swapping"),
        ] {
            if set && copies {
                return unsupported(text.to_string());
            }
        }
        if let Some((x, y)) = self
            .origins()
            .iter()
            .find(|(x, y)| x % 16 != 0 || y % 4 != 0)
        {
            return unsupported(format!("a pipe from {x},{y} on; not a multiple of 16,4"));
        }
        let bases = |Image { surface, .. }: &Image| {
            if surface.is_split {
                surface.bases.to_vec()
            } else {
                vec![surface.bases[0]]
            }
        };
        let from = source.as_ref().map(bases).unwrap_or_default();
        let odd = from
            .into_iter()
            .chain(bases(&target))
            .find(|base| base % 4 != 0);
        if let Some(base) = odd {
            return window(format!("misaligned: {base:#x}"));
        }
        if target.surface.stride % target.format.bytes() != 0 {
            return window(format!("misaligned: stride {:#x}", target.surface.stride));
        }
        Ok(())
    }

    /// Runs the resolve. The states must have passed [`Resolve::check`]. Returns the number of pixels written.
    pub fn run(&self, bus: &mut dyn Bus) -> u64 {
        let mut all = 0;
        for (pipe, origin) in self.origins().into_iter().enumerate() {
            let pixels = self.run_pipe(origin, bus);
            bus.end_pipe(pipe, pixels);
            all += pixels;
        }
        all
    }

    /// Runs a pixel pipe's part, which starts at `origin`. Returns the number of pixels written.
    fn run_pipe(&self, origin: (u32, u32), bus: &mut dyn Bus) -> u64 {
        let Some(target) = self.target() else {
            return 0;
        };
        let source = self.source();
        let (width, height) = self.window();
        let samples = self.samples();
        let (width, height) = (width / samples.0, height / samples.1);
        let first = (origin.0 / samples.0, origin.1 / samples.1);
        let mut pixels = 0;
        for y in first.1..first.1 + height {
            if bus.aborted() {
                break;
            }
            for x in (first.0..first.0 + width).step_by(4) {
                let from = if self.flips() {
                    2 * first.1 + height - 1 - y
                } else {
                    y
                };
                match &source {
                    _ if self.clear_mode() != 0 => self.fill(&target, (x, y), bus),
                    Some(source) => self.copy((source, from), &target, (x, y), bus),
                    None => {}
                }
            }
            pixels += u64::from(width);
        }
        pixels
    }

    /// Fills four pixels of a row. They are consecutive in every layout.
    fn fill(&self, target: &Image, at: (u32, u32), bus: &mut dyn Bus) {
        let address = target.surface.address(at.0, at.1);
        let group = match self.clear_mode() {
            1 => 0,
            // The four values alternate every 16 pixels of memory.
            _ => address.wrapping_sub(target.surface.bases[0]) / (16 * target.format.bytes()) % 4,
        };
        let value = self.states.get(RS_FILL_VALUE + 4 * group).to_le_bytes();
        let lanes = (self.states.get(RS_CLEAR_CONTROL) >> (4 * group)) & 0xf;
        let mut bytes = [0; 16];
        let bytes = &mut bytes[..4 * target.format.bytes() as usize];
        if lanes != 0xf {
            bus.read(Port::Pixel, address, bytes);
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            let lane = (address as usize + index) % 4;
            if lanes & (1 << lane) != 0 {
                *byte = value[lane];
            }
        }
        bus.write(Port::Pixel, address, bytes);
    }

    /// Makes four pixels of a target row from a row of source pixels.
    fn copy(
        &self,
        (source, from): (&Image, u32),
        target: &Image,
        at: (u32, u32),
        bus: &mut dyn Bus,
    ) {
        let (across, down) = self.samples();
        let mut rows = [[0; 8]; 2];
        for (y, row) in (0..down).zip(&mut rows) {
            for (part, pixels) in (0..across).zip(row.chunks_exact_mut(4)) {
                let (x, y) = (at.0 * across + 4 * part, from * down + y);
                self.load(source, (x, y), pixels, bus);
            }
        }
        let swap = self.states.get(RS_CONFIG) & (1 << 29) != 0;
        let bytes = target.format.bytes() as usize;
        let mut written = [0; 16];
        for (x, to) in (0..4).zip(written.chunks_exact_mut(bytes)) {
            let columns = x * across as usize..(x + 1) * across as usize;
            let mut samples = [0; MOST_SAMPLES];
            let mut count = 0;
            for pixel in rows[..down as usize]
                .iter()
                .flat_map(|row| &row[columns.clone()])
            {
                samples[count] = *pixel;
                count += 1;
            }
            let dither = self
                .dither(at.0 + x as u32, at.1)
                .filter(|_| (source.format.bytes(), bytes) == (4, 2));
            let pixel = match (count, swap, dither) {
                (1, false, None) => source.format.convert(samples[0], target.format),
                _ => {
                    let mean = self.mean(&samples[..count], source.format);
                    let mean = if swap { swap_red_blue(mean) } else { mean };
                    match dither {
                        Some(dither) => target.format.pack_dithered(mean, dither),
                        None => target.format.pack(mean),
                    }
                }
            };
            target.format.store(pixel, to);
        }
        let address = target.surface.address(at.0, at.1);
        bus.write(Port::Pixel, address, &written[..4 * bytes]);
    }

    /// Makes one A8R8G8B8 pixel from several: the mean of each channel, with halves rounded up, or the first pixel
    /// unchanged.
    fn mean(&self, samples: &[u32], format: Format) -> u32 {
        let only_one = self.states.get(RS_SINGLE_BUFFER) & (1 << 1) != 0;
        let samples = if only_one { &samples[..1] } else { samples };
        let count = samples.len() as u32;
        [0, 8, 16, 24].into_iter().fold(0, |argb, shift| {
            let channel = |sample: &u32| format.unpack(*sample) >> shift & 0xff;
            let sum: u32 = samples.iter().map(channel).sum();
            argb | (sum + count / 2) / count << shift
        })
    }

    /// Reads four pixels of a row.
    fn load(&self, source: &Image, at: (u32, u32), pixels: &mut [u32], bus: &mut dyn Bus) {
        let address = source.surface.address(at.0, at.1);
        let each = source.format.bytes() as usize;
        let mut bytes = [0; 16];
        let bytes = &mut bytes[..4 * each];
        match &self.status {
            Some(status) if status.is_cleared(address, bus) => status.clear(address, bytes),
            _ => bus.read(Port::Texture, address, bytes),
        }
        for (pixel, from) in pixels.iter_mut().zip(bytes.chunks_exact(each)) {
            *pixel = source.format.load(from);
        }
    }
}

#[cfg(test)]
mod tests;
