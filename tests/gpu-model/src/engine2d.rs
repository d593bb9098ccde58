// SPDX-License-Identifier: GPL-2.0-only
//! The 2D engine (sources.md, engines): clear, line and bit blit of rectangles.
//!
//! What is not modelled (tiling, rotation, mirroring, alpha, transparency, palettes, swizzles, filters, stretching)
//! is refused by [`Engine::check`] and leaves memory as it was.

use gpu_control::ViolationKind;

use crate::mmu::Port;
use crate::pixel::Format;
use crate::registers::state::*;

/// How an engine reaches memory.
pub trait Bus {
    /// Reads through a port; what cannot be read is 0.
    fn read(&mut self, port: Port, address: u32, data: &mut [u8]);
    /// Writes through a port; what cannot be written is lost.
    fn write(&mut self, port: Port, address: u32, data: &[u8]);
    /// Reads a physical address, past any translation.
    fn read_physical(&mut self, address: u32, data: &mut [u8]);
    /// A reset came; the work is to be dropped.
    fn aborted(&self) -> bool;
    /// What came since the last such call was a pixel pipe's, which has written so many pixels.
    fn end_pipe(&mut self, _pipe: usize, _pixels: u64) {}
}

/// A copy of consecutive states, taken when a command was fetched.
#[derive(Clone, Debug)]
pub struct StateBlock {
    first: u32,
    words: Vec<u32>,
}

impl StateBlock {
    /// States from byte address `first` on.
    pub fn new(first: u32, words: Vec<u32>) -> Self {
        Self { first, words }
    }

    /// The state at a byte address; 0 outside the block.
    pub fn get(&self, address: u32) -> u32 {
        let index = address.wrapping_sub(self.first) / 4;
        self.words.get(index as usize).copied().unwrap_or(0)
    }

    fn bits(&self, address: u32, high: u32, low: u32) -> u32 {
        (self.get(address) >> low) & (u32::MAX >> (31 - (high - low)))
    }
}

/// A rectangle: top left inclusive, bottom right exclusive. Coordinates are signed 16-bit values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    /// Left column.
    pub left: i32,
    /// Top row.
    pub top: i32,
    /// Column after the last.
    pub right: i32,
    /// Row after the last.
    pub bottom: i32,
}

impl Rectangle {
    /// From the two words of a DRAW_2D rectangle: {`y[31:16]`, `x[15:0]`}.
    pub fn from_words(top_left: u32, bottom_right: u32) -> Self {
        let (left, top) = signed_pair(top_left);
        let (right, bottom) = signed_pair(bottom_right);
        Self {
            left,
            top,
            right,
            bottom,
        }
    }

    fn intersect(self, other: Self) -> Option<Self> {
        let both = Self {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        };
        (both.left < both.right && both.top < both.bottom).then_some(both)
    }

    fn contains(self, x: i32, y: i32) -> bool {
        (self.left..self.right).contains(&x) && (self.top..self.bottom).contains(&y)
    }
}

fn signed_pair(word: u32) -> (i32, i32) {
    (
        i32::from(word as u16 as i16),
        i32::from((word >> 16) as u16 as i16),
    )
}

/// What differs between cores and runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// Pixel engine 2.0 (else 1.0): another clear colour and another source format field.
    pub pe20: bool,
    /// Lines draw their last pixel too. The register database's documents disagree.
    pub line_inclusive: bool,
}

const CLEAR: u32 = 0;
const LINE: u32 = 1;
const BIT_BLT: u32 = 2;

/// A surface in memory.
#[derive(Clone, Copy, Debug)]
struct Surface {
    port: Port,
    base: u32,
    stride: u32,
    format: Format,
}

impl Surface {
    fn address(&self, x: i32, y: i32) -> u32 {
        self.base
            .wrapping_add((y as u32).wrapping_mul(self.stride))
            .wrapping_add((x as u32).wrapping_mul(self.format.bytes()))
    }
}

impl Engine {
    fn source_format_code(&self, states: &StateBlock) -> u32 {
        if self.pe20 {
            states.bits(DE_SRC_CONFIG, 28, 24)
        } else {
            states.bits(DE_SRC_CONFIG, 3, 0)
        }
    }

    fn format(&self, code: u32) -> Option<Format> {
        Format::from_code(code).filter(|format| self.pe20 || *format != Format::A8)
    }

    /// Says what is wrong with a draw in these states, before anything is drawn.
    pub fn check(&self, states: &StateBlock) -> Result<(), (ViolationKind, String)> {
        let unsupported = |text: &str| Err((ViolationKind::Unsupported, format!("2D: {text}")));
        let bad = |text: String| Err((ViolationKind::BadDraw, format!("2D: {text}")));
        let command = states.bits(DE_DEST_CONFIG, 15, 12);
        if command > 8 {
            return bad(format!("command {command} does not exist"));
        }
        if command > BIT_BLT {
            return unsupported(&format!("command {command}"));
        }
        let code = states.bits(DE_DEST_CONFIG, 4, 0);
        let Some(format) = self.format(code) else {
            return unsupported(&format!("destination format {code}"));
        };
        self.check_surface(
            "destination",
            states,
            DE_DEST_ADDRESS,
            DE_DEST_STRIDE,
            format,
        )?;
        let switches = [
            (DE_DEST_CONFIG, (1 << 8) | (1 << 26), "tiled destination"),
            (DE_DEST_CONFIG, 3 << 16, "destination swizzle"),
            (DE_DEST_CONFIG, 3 << 20, "destination endianness"),
            (DE_DEST_ROTATION_CONFIG, 1 << 16, "destination rotation"),
            (DE_ROT_ANGLE, 0x3_303f, "rotation or mirroring"),
            (DE_CONFIG, 1, "mirroring"),
        ];
        let drawing_switches = [
            (DE_ALPHA_CONTROL, 1, "alpha blending"),
            (DE_PE_TRANSPARENCY, 0x333, "transparency"),
        ];
        let source_switches = [
            (DE_SRC_CONFIG, 3 << 4, "source transparency"),
            (DE_SRC_CONFIG, 1 << 7, "tiled source"),
            (DE_SRC_CONFIG, 1 << 8, "source from the stream"),
            (DE_SRC_CONFIG, 3 << 20, "source swizzle"),
            (DE_SRC_CONFIG, 3 << 30, "source endianness"),
            (DE_SRC_ROTATION_CONFIG, 1 << 16, "source rotation"),
            (DE_SRC_EX_CONFIG, 0x109, "tiled source"),
        ];
        let set = |list: &[(u32, u32, &'static str)]| {
            list.iter()
                .find(|(address, mask, _)| states.get(*address) & mask != 0)
                .map(|entry| entry.2)
        };
        if let Some(text) = set(&switches) {
            return unsupported(text);
        }
        if command == CLEAR {
            return Ok(());
        }
        if let Some(text) = set(&drawing_switches) {
            return unsupported(text);
        }
        if states.bits(DE_ROP, 21, 20) < 2 {
            return unsupported("ROP2");
        }
        let rop = Rop(states.get(DE_ROP) as u8);
        if rop.uses_pattern() && states.get(DE_PATTERN_CONFIG) & (1 << 4) != 0 {
            return unsupported("pattern that is no solid colour");
        }
        if command == BIT_BLT && rop.uses_source() {
            if let Some(text) = set(&source_switches) {
                return unsupported(text);
            }
            let code = self.source_format_code(states);
            let Some(format) = self.format(code) else {
                return unsupported(&format!("source format {code}"));
            };
            self.check_surface("source", states, DE_SRC_ADDRESS, DE_SRC_STRIDE, format)?;
        }
        Ok(())
    }

    fn check_surface(
        &self,
        name: &str,
        states: &StateBlock,
        address: u32,
        stride: u32,
        format: Format,
    ) -> Result<(), (ViolationKind, String)> {
        let (address, stride) = (states.get(address), states.bits(stride, 17, 0));
        if address % 4 != 0 || stride % format.bytes() != 0 {
            let text = format!("2D: {name} at {address:#x} with stride {stride:#x} is misaligned");
            return Err((ViolationKind::BadDraw, text));
        }
        Ok(())
    }

    /// Draws one rectangle. The states must have passed [`Engine::check`]. Returns the pixels written.
    pub fn draw(&self, states: &StateBlock, rectangle: Rectangle, bus: &mut dyn Bus) -> u64 {
        let Some(format) = self.format(states.bits(DE_DEST_CONFIG, 4, 0)) else {
            return 0;
        };
        let target = Surface {
            port: Port::Pixel,
            base: states.get(DE_DEST_ADDRESS),
            stride: states.bits(DE_DEST_STRIDE, 17, 0),
            format,
        };
        let corner = |address| {
            (
                states.bits(address, 14, 0) as i32,
                states.bits(address, 30, 16) as i32,
            )
        };
        let (left, top) = corner(DE_CLIP_TOP_LEFT);
        let (right, bottom) = corner(DE_CLIP_BOTTOM_RIGHT);
        let clip = Rectangle {
            left,
            top,
            right,
            bottom,
        };
        match states.bits(DE_DEST_CONFIG, 15, 12) {
            CLEAR => self.clear(states, &target, rectangle.intersect(clip), bus),
            LINE => self.line(states, &target, rectangle, clip, bus),
            BIT_BLT => self.blit(states, &target, rectangle, clip, bus),
            _ => 0,
        }
    }

    fn clear(
        &self,
        states: &StateBlock,
        target: &Surface,
        area: Option<Rectangle>,
        bus: &mut dyn Bus,
    ) -> u64 {
        let Some(area) = area else { return 0 };
        let bytes = target.format.bytes() as usize;
        let mut row = vec![0; (area.right - area.left) as usize * bytes];
        let pattern = (u64::from(states.get(DE_CLEAR_PIXEL_VALUE_HIGH)) << 32)
            | u64::from(states.get(DE_CLEAR_PIXEL_VALUE_LOW));
        let pattern = pattern.to_le_bytes();
        let mask = states.get(DE_CLEAR_BYTE_MASK);
        let color = target.format.pack(states.get(DE_CLEAR_PIXEL_VALUE32));
        let mut pixels = 0;
        for y in area.top..area.bottom {
            if bus.aborted() {
                break;
            }
            let address = target.address(area.left, y);
            if self.pe20 {
                row.chunks_exact_mut(bytes)
                    .for_each(|pixel| target.format.store(color, pixel));
            } else {
                if mask & 0xff != 0xff {
                    bus.read(target.port, address, &mut row);
                }
                for (offset, byte) in row.iter_mut().enumerate() {
                    let lane = (address as usize + offset) & 7;
                    if mask & (1 << lane) != 0 {
                        *byte = pattern[lane];
                    }
                }
            }
            bus.write(target.port, address, &row);
            pixels += (area.right - area.left) as u64;
        }
        pixels
    }

    fn line(
        &self,
        states: &StateBlock,
        target: &Surface,
        line: Rectangle,
        clip: Rectangle,
        bus: &mut dyn Bus,
    ) -> u64 {
        let rop = Rop(states.get(DE_ROP) as u8);
        let color = target.format.pack(states.get(DE_SRC_COLOR_FG));
        let pattern = target.format.pack(states.get(DE_PATTERN_FG_COLOR));
        let mut pixels = 0;
        for (x, y) in bresenham(
            (line.left, line.top),
            (line.right, line.bottom),
            self.line_inclusive,
        ) {
            if !clip.contains(x, y) {
                continue;
            }
            if bus.aborted() {
                break;
            }
            let address = target.address(x, y);
            let mut bytes = [0; 4];
            let pixel = &mut bytes[..target.format.bytes() as usize];
            if rop.uses_destination() {
                bus.read(target.port, address, pixel);
            }
            let result = rop.apply(pattern, color, target.format.load(pixel));
            target.format.store(result, pixel);
            bus.write(target.port, address, pixel);
            pixels += 1;
        }
        pixels
    }

    fn blit(
        &self,
        states: &StateBlock,
        target: &Surface,
        rectangle: Rectangle,
        clip: Rectangle,
        bus: &mut dyn Bus,
    ) -> u64 {
        let Some(area) = rectangle.intersect(clip) else {
            return 0;
        };
        let rop = Rop(states.get(DE_ROP) as u8);
        let source = Surface {
            port: Port::Texture,
            base: states.get(DE_SRC_ADDRESS),
            stride: states.bits(DE_SRC_STRIDE, 17, 0),
            format: self
                .format(self.source_format_code(states))
                .unwrap_or(target.format),
        };
        let (mut origin_x, mut origin_y) = signed_pair(states.get(DE_SRC_ORIGIN));
        let relative = states.get(DE_SRC_CONFIG) & (1 << 6) != 0;
        if !relative {
            origin_x -= rectangle.left;
            origin_y -= rectangle.top;
        }
        let pattern = target.format.pack(states.get(DE_PATTERN_FG_COLOR));
        let width = (area.right - area.left) as u32;
        let mut pixels = 0;
        for y in area.top..area.bottom {
            if bus.aborted() {
                break;
            }
            let to = target.address(area.left, y);
            let from = source.address(area.left + origin_x, y + origin_y);
            // A row that overlaps its own source is done pixel by pixel, in ascending order.
            let distance = to.wrapping_sub(from);
            let step = if distance != 0 && distance < width * source.format.bytes() {
                1
            } else {
                width
            };
            let mut done = 0;
            while done < width {
                let run = Run {
                    to: to.wrapping_add(done * target.format.bytes()),
                    from: from.wrapping_add(done * source.format.bytes()),
                    count: step as usize,
                };
                blit_run(rop, pattern, target, &source, run, bus);
                done += step;
            }
            pixels += u64::from(width);
        }
        pixels
    }
}

/// Consecutive pixels of one row.
struct Run {
    to: u32,
    from: u32,
    count: usize,
}

fn blit_run(
    rop: Rop,
    pattern: u32,
    target: &Surface,
    source: &Surface,
    run: Run,
    bus: &mut dyn Bus,
) {
    let (to_bytes, from_bytes) = (
        target.format.bytes() as usize,
        source.format.bytes() as usize,
    );
    let mut from = vec![0; run.count * from_bytes];
    let mut to = vec![0; run.count * to_bytes];
    if rop.uses_source() {
        bus.read(source.port, run.from, &mut from);
    }
    if rop.uses_destination() {
        bus.read(target.port, run.to, &mut to);
    }
    if rop == Rop::COPY && source.format == target.format {
        bus.write(target.port, run.to, &from);
        return;
    }
    for (from, to) in from
        .chunks_exact(from_bytes)
        .zip(to.chunks_exact_mut(to_bytes))
    {
        let color = source
            .format
            .convert(source.format.load(from), target.format);
        let result = rop.apply(pattern, color, target.format.load(to));
        target.format.store(result, to);
    }
    bus.write(target.port, run.to, &to);
}

/// A ROP3: bit (pattern << 2 | source << 1 | destination) of it is the result bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rop(pub u8);

impl Rop {
    /// Source copy.
    pub const COPY: Rop = Rop(0xcc);

    fn uses_pattern(self) -> bool {
        (self.0 ^ (self.0 >> 4)) & 0x0f != 0
    }

    fn uses_source(self) -> bool {
        (self.0 ^ (self.0 >> 2)) & 0x33 != 0
    }

    fn uses_destination(self) -> bool {
        (self.0 ^ (self.0 >> 1)) & 0x55 != 0
    }

    /// The operation on all bits of a word.
    pub fn apply(self, pattern: u32, source: u32, destination: u32) -> u32 {
        if self == Rop::COPY {
            return source;
        }
        let pick = |bit: u32, word: u32| if bit != 0 { word } else { !word };
        (0..8u32)
            .filter(|index| self.0 & (1 << index) != 0)
            .map(|index| {
                pick(index & 4, pattern) & pick(index & 2, source) & pick(index & 1, destination)
            })
            .fold(0, |result, term| result | term)
    }
}

/// The pixels of a line from its first point on; the last one only if `inclusive`.
fn bresenham(
    from: (i32, i32),
    to: (i32, i32),
    inclusive: bool,
) -> impl Iterator<Item = (i32, i32)> {
    let (dx, dy) = ((to.0 - from.0).abs(), (to.1 - from.1).abs());
    let (step_x, step_y) = ((to.0 - from.0).signum(), (to.1 - from.1).signum());
    let count = dx.max(dy) + i32::from(inclusive);
    let (mut x, mut y, mut error) = (from.0, from.1, dx - dy);
    (0..count).map(move |_| {
        let point = (x, y);
        let doubled = 2 * error;
        if doubled > -dy {
            error -= dy;
            x += step_x;
        }
        if doubled < dx {
            error += dx;
            y += step_y;
        }
        point
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Memory of one megabyte from GPU address 0 on, without translation.
    pub(crate) struct FlatBus {
        pub(crate) bytes: Vec<u8>,
    }

    impl FlatBus {
        pub(crate) fn new() -> Self {
            Self {
                bytes: vec![0xee; 1 << 20],
            }
        }

        pub(crate) fn word(&self, address: usize) -> u32 {
            u32::from_le_bytes(self.bytes[address..address + 4].try_into().unwrap())
        }
    }

    impl Bus for FlatBus {
        fn read(&mut self, _port: Port, address: u32, data: &mut [u8]) {
            data.copy_from_slice(&self.bytes[address as usize..][..data.len()]);
        }
        fn write(&mut self, _port: Port, address: u32, data: &[u8]) {
            self.bytes[address as usize..][..data.len()].copy_from_slice(data);
        }
        fn read_physical(&mut self, address: u32, data: &mut [u8]) {
            self.read(Port::Texture, address, data);
        }
        fn aborted(&self) -> bool {
            false
        }
    }

    const PE10: Engine = Engine {
        pe20: false,
        line_inclusive: false,
    };
    const PE20: Engine = Engine {
        pe20: true,
        line_inclusive: false,
    };
    const TARGET: u32 = 0x1000;
    const SOURCE: u32 = 0x8000;

    fn states(list: &[(u32, u32)]) -> StateBlock {
        let mut block = StateBlock::new(DE_FIRST, vec![0; ((DE_END - DE_FIRST) / 4) as usize]);
        let defaults = [
            (DE_DEST_ADDRESS, TARGET),
            (DE_DEST_STRIDE, 64),
            (DE_SRC_ADDRESS, SOURCE),
            (DE_SRC_STRIDE, 64),
            (DE_CLIP_BOTTOM_RIGHT, (16 << 16) | 16),
            (DE_ROP, (3 << 20) | 0xcccc),
        ];
        for (address, value) in defaults.iter().chain(list) {
            block.words[((address - DE_FIRST) / 4) as usize] = *value;
        }
        block
    }

    fn rectangle(left: i32, top: i32, right: i32, bottom: i32) -> Rectangle {
        Rectangle {
            left,
            top,
            right,
            bottom,
        }
    }

    fn pixel(bus: &FlatBus, x: usize, y: usize) -> u32 {
        bus.word(TARGET as usize + y * 64 + x * 4)
    }

    #[test]
    fn pe20_clear_converts_the_colour_and_keeps_to_the_clip() {
        let mut bus = FlatBus::new();
        let states = states(&[
            (DE_DEST_CONFIG, 6),
            (DE_CLEAR_PIXEL_VALUE32, 0xff11_2233),
            (DE_CLIP_TOP_LEFT, (2 << 16) | 1),
            (DE_CLIP_BOTTOM_RIGHT, (5 << 16) | 4),
        ]);
        assert_eq!(PE20.check(&states), Ok(()));
        assert_eq!(PE20.draw(&states, rectangle(0, 0, 16, 16), &mut bus), 9);
        for y in 0..16 {
            for x in 0..16 {
                let inside = (1..4).contains(&x) && (2..5).contains(&y);
                let expected = if inside { 0xff11_2233 } else { 0xeeee_eeee };
                assert_eq!(pixel(&bus, x, y), expected, "{x},{y}");
            }
        }
        assert_eq!(bus.word(TARGET as usize - 4), 0xeeee_eeee);
    }

    #[test]
    fn pe20_clear_of_565() {
        let mut bus = FlatBus::new();
        let states = states(&[(DE_DEST_CONFIG, 4), (DE_CLEAR_PIXEL_VALUE32, 0xffff_0000)]);
        PE20.draw(&states, rectangle(1, 0, 3, 1), &mut bus);
        assert_eq!(
            &bus.bytes[0x1000..0x1008],
            [0xee, 0xee, 0, 0xf8, 0, 0xf8, 0xee, 0xee]
        );
    }

    #[test]
    fn pe10_clear_uses_the_byte_pattern_and_mask() {
        let mut bus = FlatBus::new();
        let list = [
            (DE_DEST_CONFIG, 6),
            (DE_CLEAR_PIXEL_VALUE_LOW, 0x4433_2211),
            (DE_CLEAR_PIXEL_VALUE_HIGH, 0x8877_6655),
            (DE_CLEAR_BYTE_MASK, 0xff),
            (DE_CLEAR_PIXEL_VALUE32, 0xdead_beef),
        ];
        PE10.draw(&states(&list), rectangle(1, 0, 3, 1), &mut bus);
        assert_eq!(pixel(&bus, 1, 0), 0x8877_6655);
        assert_eq!(pixel(&bus, 2, 0), 0x4433_2211);
        let masked: Vec<_> = list
            .into_iter()
            .chain([(DE_CLEAR_BYTE_MASK, 0x21)])
            .collect();
        PE10.draw(&states(&masked), rectangle(0, 1, 2, 2), &mut bus);
        assert_eq!(pixel(&bus, 0, 1), 0xeeee_ee11);
        assert_eq!(pixel(&bus, 1, 1), 0xeeee_66ee);
    }

    fn fill_source(bus: &mut FlatBus) {
        for index in 0..256u32 {
            let at = SOURCE as usize + 4 * index as usize;
            bus.bytes[at..at + 4].copy_from_slice(&(0xff00_0000 | index).to_le_bytes());
        }
    }

    #[test]
    fn blit_with_absolute_origin_counts_from_the_unclipped_corner() {
        let mut bus = FlatBus::new();
        fill_source(&mut bus);
        let states = states(&[
            (DE_DEST_CONFIG, (2 << 12) | 6),
            (DE_SRC_CONFIG, 6 << 24),
            (DE_SRC_ORIGIN, (3 << 16) | 2),
            (DE_CLIP_TOP_LEFT, (5 << 16) | 5),
        ]);
        assert_eq!(PE20.check(&states), Ok(()));
        PE20.draw(&states, rectangle(4, 4, 8, 8), &mut bus);
        assert_eq!(pixel(&bus, 4, 4), 0xeeee_eeee);
        // Target (5, 5) is one right and down of the corner: source (3, 4).
        assert_eq!(pixel(&bus, 5, 5), 0xff00_0000 | (4 * 16 + 3));
        assert_eq!(pixel(&bus, 7, 7), 0xff00_0000 | (6 * 16 + 5));
    }

    #[test]
    fn blit_with_relative_origin_adds_to_the_target() {
        let mut bus = FlatBus::new();
        fill_source(&mut bus);
        let states = states(&[
            (DE_DEST_CONFIG, (2 << 12) | 6),
            (DE_SRC_CONFIG, (1 << 6) | 6),
            (DE_SRC_ORIGIN, 0xffff_0001),
        ]);
        PE10.draw(&states, rectangle(2, 3, 3, 4), &mut bus);
        assert_eq!(pixel(&bus, 2, 3), 0xff00_0000 | (2 * 16 + 3));
    }

    #[test]
    fn blit_converts_formats() {
        let mut bus = FlatBus::new();
        bus.bytes[SOURCE as usize..][..2].copy_from_slice(&0xf800u16.to_le_bytes());
        let states = states(&[(DE_DEST_CONFIG, (2 << 12) | 6), (DE_SRC_CONFIG, 4 << 24)]);
        PE20.draw(&states, rectangle(0, 0, 1, 1), &mut bus);
        assert_eq!(pixel(&bus, 0, 0), 0xffff_0000);
    }

    #[test]
    fn every_rop_matches_its_truth_table() {
        // One bit of each combination in the low byte.
        let (pattern, source, destination) = (0b1111_0000, 0b1100_1100, 0b1010_1010);
        for code in 0..=255u8 {
            assert_eq!(
                Rop(code).apply(pattern, source, destination) & 0xff,
                u32::from(code)
            );
        }
        assert!(
            !Rop(0xcc).uses_destination() && Rop(0xcc).uses_source() && !Rop(0xcc).uses_pattern()
        );
        assert!(Rop(0xaa).uses_destination() && !Rop(0xaa).uses_source());
        assert!(Rop(0xf0).uses_pattern() && !Rop(0xf0).uses_source());
        assert!(
            !Rop(0).uses_destination() && !Rop(0xff).uses_source() && Rop(0x55).uses_destination()
        );
    }

    #[test]
    fn rops_reach_memory() {
        for (rop, expected) in [
            (0xccu32, 0xff00_0000u32),
            (0xaa, 0xeeee_eeee),
            (0xf0, 0x1234_5678),
            (0x55, 0x1111_1111),
            (0x33, 0x00ff_ffff),
            (0x00, 0),
            (0xff, 0xffff_ffff),
            (0x66, 0xeeee_eeee ^ 0xff00_0000),
        ] {
            let mut bus = FlatBus::new();
            fill_source(&mut bus);
            let states = states(&[
                (DE_DEST_CONFIG, (2 << 12) | 6),
                (DE_SRC_CONFIG, 6 << 24),
                (DE_PATTERN_FG_COLOR, 0x1234_5678),
                (DE_ROP, (2 << 20) | rop),
            ]);
            assert_eq!(PE20.check(&states), Ok(()));
            PE20.draw(&states, rectangle(0, 0, 1, 1), &mut bus);
            assert_eq!(pixel(&bus, 0, 0), expected, "{rop:#x}");
        }
    }

    #[test]
    fn overlapping_rows_go_in_ascending_order() {
        let mut bus = FlatBus::new();
        for index in 0..8u8 {
            bus.bytes[TARGET as usize + 4 * usize::from(index)] = index;
        }
        let states = states(&[
            (DE_DEST_CONFIG, (2 << 12) | 6),
            (DE_SRC_CONFIG, 6 << 24),
            (DE_SRC_ADDRESS, TARGET),
        ]);
        PE20.draw(&states, rectangle(1, 0, 5, 1), &mut bus);
        let low: Vec<_> = (0..6).map(|x| pixel(&bus, x, 0) & 0xff).collect();
        assert_eq!(low, [0, 0, 0, 0, 0, 5]);
    }

    #[test]
    fn lines_leave_out_their_last_pixel_unless_told() {
        let draw = |engine: Engine, line| {
            let mut bus = FlatBus::new();
            let states = states(&[
                (DE_DEST_CONFIG, (1 << 12) | 6),
                (DE_SRC_COLOR_FG, 0xff00_ff00),
            ]);
            assert_eq!(engine.check(&states), Ok(()));
            engine.draw(&states, line, &mut bus);
            let mut points = Vec::new();
            for y in 0..16 {
                for x in 0..16 {
                    if pixel(&bus, x, y) == 0xff00_ff00 {
                        points.push((x, y));
                    }
                }
            }
            points
        };
        assert_eq!(draw(PE20, rectangle(1, 2, 4, 2)), [(1, 2), (2, 2), (3, 2)]);
        assert_eq!(draw(PE20, rectangle(3, 4, 0, 1)), [(1, 2), (2, 3), (3, 4)]);
        assert_eq!(draw(PE20, rectangle(5, 0, 5, 2)), [(5, 0), (5, 1)]);
        assert_eq!(draw(PE20, rectangle(7, 7, 7, 7)), []);
        let inclusive = Engine {
            line_inclusive: true,
            ..PE20
        };
        assert_eq!(
            draw(inclusive, rectangle(0, 0, 4, 2)),
            [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)]
        );
        // What leaves the clip rectangle is cut off.
        assert_eq!(draw(PE20, rectangle(-2, 15, 2, 15)), [(0, 15), (1, 15)]);
    }

    #[test]
    fn what_is_not_modelled_is_refused() {
        let kind = |list: &[(u32, u32)]| PE20.check(&states(list)).unwrap_err().0;
        let blit = (2 << 12) | 6;
        let source = (DE_SRC_CONFIG, 6 << 24);
        for list in [
            vec![(DE_DEST_CONFIG, 6 | (1 << 8))],
            vec![(DE_DEST_CONFIG, 6 | (4 << 12))],
            vec![(DE_DEST_CONFIG, 9)],
            vec![(DE_DEST_CONFIG, blit), (DE_SRC_CONFIG, 7 << 24)],
            vec![(DE_DEST_CONFIG, blit), source, (DE_ALPHA_CONTROL, 1)],
            vec![(DE_DEST_CONFIG, blit), source, (DE_PE_TRANSPARENCY, 2)],
            vec![(DE_DEST_CONFIG, blit), source, (DE_ROT_ANGLE, 4)],
            vec![(DE_DEST_CONFIG, blit), source, (DE_CONFIG, 1)],
            vec![(DE_DEST_CONFIG, blit), source, (DE_ROP, 0xcc)],
        ] {
            assert_eq!(kind(&list), ViolationKind::Unsupported, "{list:x?}");
        }
        assert_eq!(
            kind(&[(DE_DEST_CONFIG, 6), (DE_DEST_ADDRESS, 2)]),
            ViolationKind::BadDraw
        );
        assert_eq!(
            kind(&[(DE_DEST_CONFIG, (15 << 12) | 6)]),
            ViolationKind::BadDraw
        );
        // A8 came with PE20; a clear does not look at the source.
        assert!(PE10.check(&states(&[(DE_DEST_CONFIG, 16)])).is_err());
        assert!(PE20
            .check(&states(&[(DE_DEST_CONFIG, 16), (DE_SRC_CONFIG, u32::MAX)]))
            .is_ok());
    }
}
