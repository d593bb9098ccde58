// SPDX-License-Identifier: GPL-2.0-only
//! Draws the scene in software, pixel by pixel, with no knowledge of streams and engines.

use crate::scene::Op;
use crate::scene::Scene;
use crate::stream::Rect;

/// Pixels in rows, A8R8G8B8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// All pixels.
    pub pixels: Vec<u32>,
}

impl Canvas {
    /// A canvas of zeros, like fresh video memory.
    pub fn new(width: u32, height: u32) -> Self {
        Self {
            width,
            height,
            pixels: vec![0; (width * height) as usize],
        }
    }

    /// Reads a pixel.
    pub fn pixel(&self, x: u32, y: u32) -> u32 {
        self.pixels[(y * self.width + x) as usize]
    }

    fn set(&mut self, x: u32, y: u32, clip: Rect, colour: u32) {
        if clip.contains(x, y) && x < self.width && y < self.height {
            self.pixels[(y * self.width + x) as usize] = colour;
        }
    }

    /// Fills a rectangle inside `clip`.
    pub fn fill(&mut self, rect: Rect, clip: Rect, colour: u32) {
        for y in rect.y..rect.bottom() {
            for x in rect.x..rect.right() {
                self.set(x, y, clip, colour);
            }
        }
    }

    /// Copies from `origin` of another canvas to `rect`, inside `clip`.
    pub fn copy(&mut self, source: &Canvas, origin: (u32, u32), rect: Rect, clip: Rect) {
        for y in 0..rect.height {
            for x in 0..rect.width {
                let colour = source.pixel(origin.0 + x, origin.1 + y);
                self.set(rect.x + x, rect.y + y, clip, colour);
            }
        }
    }

    /// Draws a line including both ends: for each step along the longer axis, it sets the nearest pixel of the other
    /// axis. Lines of a [`Scene`] have no ties to round.
    pub fn line(&mut self, from: (u32, u32), to: (u32, u32), clip: Rect, colour: u32) {
        let (x0, y0) = (i64::from(from.0), i64::from(from.1));
        let (dx, dy) = (i64::from(to.0) - x0, i64::from(to.1) - y0);
        let steps = dx.abs().max(dy.abs());
        let along = |start: i64, delta: i64, step: i64| match steps {
            0 => start,
            _ => start + (2 * delta * step + steps).div_euclid(2 * steps),
        };
        for step in 0..=steps {
            let (x, y) = (along(x0, dx, step), along(y0, dy, step));
            self.set(x as u32, y as u32, clip, colour);
        }
    }
}

/// Draws a scene. Returns one canvas for each surface.
pub fn scene(scene: &Scene) -> Vec<Canvas> {
    let mut canvases: Vec<_> = scene
        .surfaces
        .iter()
        .map(|(width, height)| Canvas::new(*width, *height))
        .collect();
    for op in scene.groups.iter().flatten() {
        match op {
            Op::Fill {
                target,
                rects,
                clip,
                colour,
            } => {
                for rect in rects {
                    canvases[*target].fill(*rect, *clip, *colour);
                }
            }
            Op::Copy {
                source,
                origin,
                target,
                rects,
                clip,
            } => {
                let from = canvases[*source].clone();
                for rect in rects {
                    canvases[*target].copy(&from, *origin, *rect, *clip);
                }
            }
            Op::Line {
                target,
                from,
                to,
                clip,
                colour,
            } => canvases[*target].line(*from, *to, *clip, *colour),
        }
    }
    canvases
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Rect = Rect::new(0, 0, 8, 8);

    #[test]
    fn fill_stays_inside_rectangle_and_clip() {
        let mut canvas = Canvas::new(8, 8);
        canvas.fill(Rect::new(2, 2, 4, 4), Rect::new(0, 3, 8, 2), 7);
        let set: Vec<_> = (0..64).filter(|at| canvas.pixels[*at] == 7).collect();
        assert_eq!(set, [26, 27, 28, 29, 34, 35, 36, 37]);
    }

    #[test]
    fn copy_starts_at_the_origin_for_every_rectangle() {
        let mut source = Canvas::new(8, 8);
        for (at, pixel) in source.pixels.iter_mut().enumerate() {
            *pixel = at as u32;
        }
        let mut canvas = Canvas::new(8, 8);
        canvas.copy(
            &source,
            (2, 1),
            Rect::new(5, 5, 2, 2),
            Rect::new(0, 0, 6, 8),
        );
        assert_eq!((canvas.pixel(5, 5), canvas.pixel(5, 6)), (10, 18));
        assert_eq!(canvas.pixel(6, 5), 0);
    }

    #[test]
    fn lines_have_both_ends_and_nearest_pixels() {
        let mut canvas = Canvas::new(8, 8);
        canvas.line((0, 0), (5, 2), ALL, 1);
        let set: Vec<_> = (0..64).filter(|at| canvas.pixels[*at] == 1).collect();
        assert_eq!(set, [0, 1, 10, 11, 20, 21]);
        let mut back = Canvas::new(8, 8);
        back.line((5, 2), (0, 0), ALL, 1);
        assert_eq!(canvas, back);
        let mut dot = Canvas::new(8, 8);
        dot.line((3, 3), (3, 3), ALL, 1);
        assert_eq!(dot.pixel(3, 3), 1);
    }
}
