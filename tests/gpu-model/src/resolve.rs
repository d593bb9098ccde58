// SPDX-License-Identifier: GPL-2.0-only
//! The resolve engine (sources.md, engines): copies and fills windows between linear, tiled and supertiled
//! surfaces, converting formats.
//!
//! Downsampling, flipping, endian swaps, anti-aliasing and dithering are not modelled and refused by
//! [`Resolve::check`].

use gpu_control::ViolationKind;

use crate::engine2d::Bus;
use crate::engine2d::StateBlock;
use crate::mmu::Port;
use crate::pixel::swap_red_blue;
use crate::pixel::Format;
use crate::registers::state::*;

/// How pixels lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Row after row.
    Linear,
    /// Tiles of 4 x 4 pixels; the stride is the bytes of a row of tiles.
    Tiled,
    /// Blocks of 64 x 64 pixels made of such tiles; the stride still is that of a row of 4 x 4 tiles.
    Supertiled,
}

/// A surface of a resolve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// GPU address.
    pub base: u32,
    /// Bytes of a row of pixels (linear) or of a row of 4 x 4 tiles.
    pub stride: u32,
    /// Pixel format.
    pub format: Format,
    /// Layout.
    pub layout: Layout,
}

impl Surface {
    /// Byte offset of a pixel from the base.
    pub fn offset(&self, x: u32, y: u32) -> u32 {
        let bytes = self.format.bytes();
        let in_tile = ((y % 4) * 4 + x % 4) * bytes;
        match self.layout {
            Layout::Linear => y.wrapping_mul(self.stride).wrapping_add(x * bytes),
            Layout::Tiled => (y / 4)
                .wrapping_mul(self.stride)
                .wrapping_add(x / 4 * 16 * bytes + in_tile),
            Layout::Supertiled => {
                let (tile_x, tile_y) = (x % 64 / 4, y % 64 / 4);
                let tile = tile_y / 4 * 64 + tile_x / 2 * 8 + tile_y % 4 * 2 + tile_x % 2;
                (y / 64)
                    .wrapping_mul(16)
                    .wrapping_mul(self.stride)
                    .wrapping_add(x / 64 * 4096 * bytes + tile * 16 * bytes + in_tile)
            }
        }
    }
}

/// What one pixel pipe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pipe {
    source: u32,
    target: u32,
    source_offset: (u32, u32),
    target_offset: (u32, u32),
}

/// A resolve: the states it was kicked with, on a core with so many pixel pipes.
#[derive(Clone, Debug)]
pub struct Resolve {
    states: StateBlock,
    pixel_pipes: usize,
    /// Tile status addresses go through the memory base (memory controller 2.0), else they are physical.
    translated_status: bool,
}

impl Resolve {
    /// A resolve with these states.
    pub fn new(states: StateBlock, pixel_pipes: usize, translated_status: bool) -> Self {
        Self {
            states,
            pixel_pipes,
            translated_status,
        }
    }

    fn surface(&self, stride: u32, format: u32, tiled: u32) -> Option<Surface> {
        let config = self.states.get(RS_CONFIG);
        let stride = self.states.get(stride);
        let layout = match (config & tiled != 0, stride & (1 << 31) != 0) {
            (false, _) => Layout::Linear,
            (true, false) => Layout::Tiled,
            (true, true) => Layout::Supertiled,
        };
        let format =
            Format::from_code((config >> format) & 0x1f).filter(|format| *format != Format::A8)?;
        Some(Surface {
            base: 0,
            stride: stride & 0x3_ffff,
            format,
            layout,
        })
    }

    fn source(&self) -> Option<Surface> {
        self.surface(RS_SOURCE_STRIDE, 0, 1 << 7)
    }

    fn target(&self) -> Option<Surface> {
        self.surface(RS_DEST_STRIDE, 8, 1 << 14)
    }

    fn window(&self) -> (u32, u32) {
        let word = self.states.get(RS_WINDOW_SIZE);
        (word & 0xffff, word >> 16)
    }

    fn clear_mode(&self) -> u32 {
        (self.states.get(RS_CLEAR_CONTROL) >> 16) & 3
    }

    /// Says what is wrong with the states before anything is written.
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
        if copies && self.source().is_none() {
            return unsupported(format!("source format {}", config & 0x1f));
        }
        let extra = self.states.get(RS_EXTRA_CONFIG);
        for (set, text) in [
            (config & (3 << 5) != 0, "downsampling"),
            (config & (1 << 30) != 0, "flipping"),
            (extra & 3 != 0, "anti-aliasing"),
            (extra & (3 << 8) != 0, "endian swapping"),
        ] {
            if set && copies {
                return unsupported(text.to_string());
            }
        }
        for pipe in self.pipes() {
            let source = if copies { pipe.source } else { 0 };
            if pipe.target % 4 != 0 || source % 4 != 0 || target.stride % target.format.bytes() != 0
            {
                return window(format!("misaligned: {source:#x} to {:#x}", pipe.target));
            }
        }
        Ok(())
    }

    /// What each pixel pipe does. With one pipe the plain address registers count. With two, each does the window
    /// at its offset; a MULTI surface has a base for each pipe with the offset left out, any other surface has the
    /// first base for both. A pipe base that is 0 stands for the plain register.
    fn pipes(&self) -> Vec<Pipe> {
        let get = |address| self.states.get(address);
        let (source, target) = (get(RS_SOURCE_ADDR), get(RS_DEST_ADDR));
        if self.pixel_pipes == 1 {
            return vec![Pipe {
                source,
                target,
                source_offset: (0, 0),
                target_offset: (0, 0),
            }];
        }
        let place = |pipe: u32, stride: u32, first: u32, plain: u32| {
            let multi = get(stride) & (1 << 30) != 0;
            let base = get(first + if multi { 4 * pipe } else { 0 });
            let word = get(RS_PIPE_OFFSET + 4 * pipe);
            let offset = if multi {
                (0, 0)
            } else {
                (word & 0xffff, word >> 16)
            };
            (if base == 0 { plain } else { base }, offset)
        };
        (0..self.pixel_pipes as u32)
            .map(|pipe| {
                let (source, source_offset) =
                    place(pipe, RS_SOURCE_STRIDE, RS_PIPE_SOURCE_ADDR, source);
                let (target, target_offset) =
                    place(pipe, RS_DEST_STRIDE, RS_PIPE_DEST_ADDR, target);
                Pipe {
                    source,
                    target,
                    source_offset,
                    target_offset,
                }
            })
            .collect()
    }

    /// Does it. The states must have passed [`Resolve::check`]. Returns the pixels written.
    pub fn run(&self, bus: &mut dyn Bus) -> u64 {
        let mut all = 0;
        for pipe in 0..self.pixel_pipes {
            let pixels = self.run_pipe(pipe, bus);
            bus.end_pipe(pipe, pixels);
            all += pixels;
        }
        all
    }

    /// What pixel pipe `index` does of it. Returns the pixels that it has written.
    fn run_pipe(&self, index: usize, bus: &mut dyn Bus) -> u64 {
        let (width, height) = self.window();
        let (Some(pipe), Some(target)) = (self.pipes().get(index).copied(), self.target()) else {
            return 0;
        };
        let target = Surface {
            base: pipe.target,
            ..target
        };
        let source = self.source().map(|source| Surface {
            base: pipe.source,
            ..source
        });
        let mut pixels = 0;
        for y in 0..height {
            if bus.aborted() {
                break;
            }
            for x in (0..width).step_by(4) {
                let (to_x, to_y) = (pipe.target_offset.0 + x, pipe.target_offset.1 + y);
                if self.clear_mode() != 0 {
                    self.fill(&target, to_x, to_y, bus);
                } else if let Some(source) = &source {
                    let from = (pipe.source_offset.0 + x, pipe.source_offset.1 + y);
                    self.copy(source, &target, from, (to_x, to_y), bus);
                }
            }
            pixels += u64::from(width);
        }
        pixels
    }

    /// Fills four pixels of a row; they are consecutive in every layout.
    fn fill(&self, target: &Surface, x: u32, y: u32, bus: &mut dyn Bus) {
        let offset = target.offset(x, y);
        let address = target.base.wrapping_add(offset);
        let group = match self.clear_mode() {
            1 => 0,
            // The four values take turns with every 16 pixels of memory.
            _ => offset / (16 * target.format.bytes()) % 4,
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

    /// Copies four pixels of a row.
    fn copy(
        &self,
        source: &Surface,
        target: &Surface,
        from: (u32, u32),
        to: (u32, u32),
        bus: &mut dyn Bus,
    ) {
        let address = source.base.wrapping_add(source.offset(from.0, from.1));
        let (from_bytes, to_bytes) = (
            source.format.bytes() as usize,
            target.format.bytes() as usize,
        );
        let mut read = [0; 16];
        let read = &mut read[..4 * from_bytes];
        match self.cleared_value(source, address, bus) {
            Some(value) => {
                for (index, byte) in read.iter_mut().enumerate() {
                    *byte = value.to_le_bytes()[(address as usize + index) % 4];
                }
            }
            None => bus.read(Port::Texture, address, read),
        }
        let swap = self.states.get(RS_CONFIG) & (1 << 29) != 0;
        let mut written = [0; 16];
        for (from, to) in read
            .chunks_exact(from_bytes)
            .zip(written.chunks_exact_mut(to_bytes))
        {
            let pixel = source.format.load(from);
            let pixel = if swap {
                target
                    .format
                    .pack(swap_red_blue(source.format.unpack(pixel)))
            } else {
                source.format.convert(pixel, target.format)
            };
            target.format.store(pixel, to);
        }
        let address = target.base.wrapping_add(target.offset(to.0, to.1));
        bus.write(Port::Pixel, address, &written[..4 * to_bytes]);
    }

    /// The clear value, if tile status is on for this source and says that the tile at `address` is cleared.
    fn cleared_value(&self, source: &Surface, address: u32, bus: &mut dyn Bus) -> Option<u32> {
        let surface = self.states.get(TS_COLOR_SURFACE_BASE);
        if self.states.get(TS_MEM_CONFIG) & (1 << 1) == 0 || surface != source.base {
            return None;
        }
        let tile = address.wrapping_sub(surface) / 64;
        let status = self.states.get(TS_COLOR_STATUS_BASE).wrapping_add(tile / 4);
        let mut byte = [0];
        if self.translated_status {
            bus.read(Port::Pixel, status, &mut byte);
        } else {
            bus.read_physical(status, &mut byte);
        }
        ((byte[0] >> (tile % 4 * 2)) & 3 == 1).then(|| self.states.get(TS_COLOR_CLEAR_VALUE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine2d::tests::FlatBus;

    const SOURCE: u32 = 0x1_0000;
    const TARGET: u32 = 0x4_0000;

    fn resolve(pipes: usize, list: &[(u32, u32)]) -> Resolve {
        let mut words = vec![0; ((RS_END - RS_FIRST) / 4) as usize];
        let defaults = [
            (RS_CONFIG, (6 << 8) | 6),
            (RS_SOURCE_ADDR, SOURCE),
            (RS_DEST_ADDR, TARGET),
            (RS_SOURCE_STRIDE, 256),
            (RS_DEST_STRIDE, 256),
            (RS_WINDOW_SIZE, (8 << 16) | 32),
        ];
        for (address, value) in defaults.iter().chain(list) {
            words[((address - RS_FIRST) / 4) as usize] = *value;
        }
        Resolve::new(StateBlock::new(RS_FIRST, words), pipes, false)
    }

    fn surface(layout: Layout, stride: u32) -> Surface {
        Surface {
            base: 0,
            stride,
            format: Format::A8R8G8B8,
            layout,
        }
    }

    #[test]
    fn tiles_lie_as_documented() {
        let tiled = surface(Layout::Tiled, 512 * 16);
        assert_eq!(tiled.offset(3, 0), 12);
        assert_eq!(tiled.offset(0, 1), 16);
        assert_eq!(tiled.offset(4, 0), 64);
        assert_eq!(tiled.offset(0, 4), 8192);
    }

    #[test]
    fn supertiles_lie_as_documented() {
        let supertiled = surface(Layout::Supertiled, 128 * 16);
        let tile = |x: u32, y: u32| supertiled.offset(4 * x, 4 * y) / 64;
        assert_eq!(
            [tile(0, 0), tile(1, 0), tile(2, 0), tile(3, 0)],
            [0, 1, 8, 9]
        );
        assert_eq!([tile(0, 1), tile(1, 1), tile(15, 3)], [2, 3, 63]);
        assert_eq!([tile(0, 4), tile(15, 4), tile(15, 15)], [64, 121, 255]);
        // The next supertile to the right, and the next row of them (two a row here).
        assert_eq!([tile(16, 0), tile(0, 16)], [256, 512]);
    }

    #[test]
    fn every_layout_uses_each_byte_once() {
        for layout in [Layout::Linear, Layout::Tiled, Layout::Supertiled] {
            let stride = if layout == Layout::Linear {
                128 * 4
            } else {
                128 * 16
            };
            let surface = surface(layout, stride);
            let mut seen = vec![false; 128 * 128];
            for y in 0..128 {
                for x in 0..128 {
                    let index = surface.offset(x, y) as usize / 4;
                    assert!(!seen[index], "{layout:?} {x},{y}");
                    seen[index] = true;
                }
            }
        }
    }

    fn fill_source(bus: &mut FlatBus) {
        for index in 0..0x4000u32 {
            let at = (SOURCE + 4 * index) as usize;
            bus.bytes[at..at + 4].copy_from_slice(&(0xff00_0000 | index).to_le_bytes());
        }
    }

    #[test]
    fn copy_tiles_and_back() {
        for (flag, layout, bits) in [
            (false, Layout::Tiled, 0),
            (true, Layout::Supertiled, 1 << 31),
        ] {
            let mut bus = FlatBus::new();
            fill_source(&mut bus);
            let window = (RS_WINDOW_SIZE, (64 << 16) | 64);
            let there = resolve(
                1,
                &[
                    (RS_CONFIG, (6 << 8) | 6 | (1 << 14)),
                    (RS_DEST_STRIDE, 1024 | bits),
                    window,
                ],
            );
            assert_eq!(there.check(), Ok(()));
            assert_eq!(there.run(&mut bus), 64 * 64);
            let tiled = surface(layout, 1024);
            assert_eq!(
                bus.word((TARGET + tiled.offset(5, 6)) as usize),
                0xff00_0000 | (6 * 64 + 5),
                "{flag}"
            );
            let back = resolve(
                1,
                &[
                    (RS_CONFIG, (6 << 8) | 6 | (1 << 7)),
                    (RS_SOURCE_ADDR, TARGET),
                    (RS_SOURCE_STRIDE, 1024 | bits),
                    (RS_DEST_ADDR, 0x8_0000),
                    window,
                ],
            );
            back.run(&mut bus);
            assert_eq!(
                bus.bytes[0x8_0000..0x8_4000],
                bus.bytes[SOURCE as usize..][..0x4000]
            );
        }
    }

    #[test]
    fn copy_converts_formats_and_stays_in_the_window() {
        let mut bus = FlatBus::new();
        fill_source(&mut bus);
        let resolve = resolve(1, &[(RS_CONFIG, (4 << 8) | 6), (RS_DEST_STRIDE, 128)]);
        assert_eq!(resolve.run(&mut bus), 32 * 8);
        let pixel = |x: usize, y: usize| {
            let at = TARGET as usize + y * 128 + 2 * x;
            u16::from_le_bytes([bus.bytes[at], bus.bytes[at + 1]])
        };
        assert_eq!(
            u32::from(pixel(31, 7)),
            Format::R5G6B5.pack(0xff00_0000 | (7 * 64 + 31))
        );
        assert_eq!(pixel(32, 0), 0xeeee);
        assert_eq!(pixel(0, 8), 0xeeee);
    }

    #[test]
    fn fill_keeps_masked_bytes() {
        let mut bus = FlatBus::new();
        resolve(
            1,
            &[
                (RS_CLEAR_CONTROL, (1 << 16) | 0xffff),
                (RS_FILL_VALUE, 0x4433_2211),
            ],
        )
        .run(&mut bus);
        assert_eq!(bus.word(TARGET as usize + 7 * 256 + 31 * 4), 0x4433_2211);
        assert_eq!(bus.word(TARGET as usize + 32 * 4), 0xeeee_eeee);
        resolve(
            1,
            &[
                (RS_CLEAR_CONTROL, (1 << 16) | 0x5),
                (RS_FILL_VALUE, 0xaabb_ccdd),
            ],
        )
        .run(&mut bus);
        assert_eq!(bus.word(TARGET as usize), 0x44bb_22dd);
    }

    #[test]
    fn fill_with_four_values_takes_turns() {
        let mut bus = FlatBus::new();
        let values: Vec<_> = (0..4)
            .map(|index| (RS_FILL_VALUE + 4 * index, index))
            .collect();
        let mut list = vec![
            (RS_CLEAR_CONTROL, (2 << 16) | 0xffff),
            (RS_CONFIG, (6 << 8) | (1 << 14)),
            (RS_DEST_STRIDE, 1024),
        ];
        list.extend(values);
        resolve(1, &list).run(&mut bus);
        let tiled = surface(Layout::Tiled, 1024);
        for x in [0, 4, 8, 12, 16, 31] {
            assert_eq!(bus.word((TARGET + tiled.offset(x, 2)) as usize), x / 4 % 4);
        }
    }

    #[test]
    fn two_pipes_share_the_window() {
        let mut bus = FlatBus::new();
        fill_source(&mut bus);
        let linear = resolve(
            2,
            &[
                (RS_WINDOW_SIZE, (4 << 16) | 16),
                (RS_PIPE_SOURCE_ADDR, SOURCE),
                (RS_PIPE_DEST_ADDR, TARGET),
                (RS_PIPE_DEST_ADDR + 4, 0xdead_0000),
                (RS_PIPE_OFFSET + 4, 4 << 16),
            ],
        );
        assert_eq!(linear.check(), Ok(()));
        linear.run(&mut bus);
        assert_eq!(bus.word(TARGET as usize + 7 * 256), 0xff00_0000 | (7 * 64));
        assert_eq!(bus.word(TARGET as usize + 8 * 256), 0xeeee_eeee);
        // A MULTI destination has a base for each pipe.
        let multi = resolve(
            2,
            &[
                (RS_WINDOW_SIZE, (4 << 16) | 16),
                (RS_DEST_STRIDE, 256 | (1 << 30)),
                (RS_PIPE_DEST_ADDR, 0x8_0000),
                (RS_PIPE_DEST_ADDR + 4, 0x9_0000),
                (RS_PIPE_OFFSET + 4, 4 << 16),
            ],
        );
        multi.run(&mut bus);
        assert_eq!(bus.word(0x9_0000), 0xff00_0000 | (4 * 64));
    }

    #[test]
    fn cleared_tiles_read_as_the_clear_value() {
        let mut bus = FlatBus::new();
        fill_source(&mut bus);
        bus.bytes[0x100..0x200].fill(0);
        // Tile 1 of 64 bytes (linear pixels 16 to 31) is cleared.
        bus.bytes[0x100] = 0b0100;
        let list = [
            (TS_MEM_CONFIG, 1 << 1),
            (TS_COLOR_STATUS_BASE, 0x100),
            (TS_COLOR_SURFACE_BASE, SOURCE),
            (TS_COLOR_CLEAR_VALUE, 0x1234_5678),
        ];
        resolve(1, &list).run(&mut bus);
        assert_eq!(bus.word(TARGET as usize + 15 * 4), 0xff00_000f);
        assert_eq!(bus.word(TARGET as usize + 16 * 4), 0x1234_5678);
        assert_eq!(bus.word(TARGET as usize + 256), 0xff00_0040);
    }

    #[test]
    fn windows_that_hang_silicon_are_found() {
        for window in [(8 << 16) | 8, (6 << 16) | 16, 0, 8 << 16] {
            assert_eq!(
                resolve(1, &[(RS_WINDOW_SIZE, window)])
                    .check()
                    .unwrap_err()
                    .0,
                ViolationKind::ResolveWindow
            );
        }
        for config in [
            (6 << 8) | 6 | (1 << 5),
            (6 << 8) | 6 | (1 << 30),
            (6 << 8) | 9,
            (9 << 8) | 6,
        ] {
            assert_eq!(
                resolve(1, &[(RS_CONFIG, config)]).check().unwrap_err().0,
                ViolationKind::Unsupported
            );
        }
    }

    #[test]
    fn the_clients_warm_up_passes() {
        let warm_up = resolve(
            1,
            &[
                (RS_CONFIG, 6 | (1 << 7) | (4 << 8) | (1 << 14)),
                (RS_SOURCE_STRIDE, 0x400),
                (RS_DEST_ADDR, SOURCE),
                (RS_DEST_STRIDE, 0x400),
                (RS_WINDOW_SIZE, (4 << 16) | 16),
            ],
        );
        assert_eq!(warm_up.check(), Ok(()));
        warm_up.run(&mut FlatBus::new());
    }
}
