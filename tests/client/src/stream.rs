// SPDX-License-Identifier: GPL-2.0-only
//! Words of the command stream.

use crate::state;

/// A rectangle. Its right and bottom edges are the first column and row outside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// Left edge.
    pub x: u32,
    /// Top edge.
    pub y: u32,
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Rect {
    /// Creates a rectangle.
    pub const fn new(x: u32, y: u32, width: u32, height: u32) -> Self {
        Self {
            x,
            y,
            width,
            height,
        }
    }

    /// First column to the right of the rectangle.
    pub const fn right(&self) -> u32 {
        self.x + self.width
    }

    /// First row below the rectangle.
    pub const fn bottom(&self) -> u32 {
        self.y + self.height
    }

    /// Whether the pixel is inside.
    pub const fn contains(&self, x: u32, y: u32) -> bool {
        x >= self.x && x < self.right() && y >= self.y && y < self.bottom()
    }

    /// Whether it contains no pixel.
    pub const fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }
}

/// Packs a position into the format of states: y in the high half, x in the low half.
pub const fn point(x: u32, y: u32) -> u32 {
    y << 16 | x
}

/// The engine that a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// 3D engine and resolve engine.
    Pipe3d,
    /// 2D engine.
    Pipe2d,
}

impl Pipe {
    /// The number for gcoCMDBUF and PIPE_SELECT.
    pub const fn number(self) -> i32 {
        match self {
            Pipe::Pipe3d => 0,
            Pipe::Pipe2d => 1,
        }
    }
}

/// Commands for the front end. Each command starts at a multiple of 8 bytes.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    words: Vec<u32>,
}

impl Stream {
    /// An empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.words.len() * 4
    }

    /// Adds words unchanged.
    pub fn raw(&mut self, words: &[u32]) -> &mut Self {
        self.words.extend_from_slice(words);
        self
    }

    /// Adds another stream.
    pub fn append(&mut self, other: &Stream) -> &mut Self {
        self.raw(&other.words)
    }

    /// LOAD_STATE: loads 1 to 1024 values into consecutive states from byte address `address` on.
    pub fn states(&mut self, address: u32, values: &[u32]) -> &mut Self {
        assert!((1..=1024).contains(&values.len()) && address % 4 == 0);
        let count = values.len() as u32 & 0x3ff;
        self.words.push(0x0800_0000 | count << 16 | (address / 4));
        self.words.extend_from_slice(values);
        if self.words.len() % 2 == 1 {
            self.words.push(0);
        }
        self
    }

    /// LOAD_STATE of one state.
    pub fn state(&mut self, address: u32, value: u32) -> &mut Self {
        self.states(address, &[value])
    }

    /// NOP.
    pub fn nop(&mut self) -> &mut Self {
        self.raw(&[0x1800_0000, 0])
    }

    /// DRAW_2D of 1 to 255 rectangles, and the delay states that must follow it.
    pub fn draw_2d(&mut self, corners: &[(u32, u32)]) -> &mut Self {
        assert!((1..=255).contains(&corners.len()));
        self.raw(&[0x2000_0000 | (corners.len() as u32) << 8, 0xdead_deed]);
        for (top_left, bottom_right) in corners {
            self.raw(&[*top_left, *bottom_right]);
        }
        for _ in 0..3 {
            self.state(state::NONE, 0);
        }
        self
    }

    /// DRAW_2D of rectangles.
    pub fn draw_rects(&mut self, rects: &[Rect]) -> &mut Self {
        for some in rects.chunks(255) {
            let corners: Vec<_> = some
                .iter()
                .map(|rect| (point(rect.x, rect.y), point(rect.right(), rect.bottom())))
                .collect();
            self.draw_2d(&corners);
        }
        self
    }

    /// Arms the semaphore from front end to pixel engine and waits for it. All earlier work is complete before later
    /// commands start.
    pub fn stall(&mut self) -> &mut Self {
        self.state(state::SEMAPHORE_TOKEN, state::TOKEN_FE_PE)
            .raw(&[0x4800_0000, state::TOKEN_FE_PE])
    }

    /// Flushes the caches of the pipe's pixel engine. Every stream ends with this.
    pub fn flush(&mut self, pipe: Pipe) -> &mut Self {
        self.state(
            state::FLUSH_CACHE,
            match pipe {
                Pipe::Pipe3d => state::FLUSH_3D,
                Pipe::Pipe2d => state::FLUSH_2D,
            },
        )
    }

    /// Selects the other pipe in the sequence that the hardware requires: flush, wait, select.
    pub fn select_pipe(&mut self, from: Pipe, to: Pipe) -> &mut Self {
        self.flush(from)
            .stall()
            .state(state::PIPE_SELECT, to.number() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_the_hardware_notes_have_them() {
        let mut stream = Stream::new();
        stream.state(state::FLUSH_CACHE, 8);
        assert_eq!(stream.words(), [0x0801_0e03, 8]);
        let mut stream = Stream::new();
        stream.states(state::DE_CLIP_TOP_LEFT, &[1, 2]);
        assert_eq!(stream.words(), [0x0802_0498, 1, 2, 0]);
        let mut stream = Stream::new();
        stream.draw_rects(&[Rect::new(0, 0, 32, 16)]);
        assert_eq!(
            stream.words()[..4],
            [0x2000_0100, 0xdead_deed, 0, 16 << 16 | 32]
        );
        assert_eq!(
            stream.words()[4..],
            [0x0801_0000, 0, 0x0801_0000, 0, 0x0801_0000, 0]
        );
        let mut stream = Stream::new();
        stream.stall();
        assert_eq!(stream.words(), [0x0801_0e02, 0x701, 0x4800_0000, 0x701]);
    }
}
