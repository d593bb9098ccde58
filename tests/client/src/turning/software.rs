// SPDX-License-Identifier: GPL-2.0-only
//! Draws the object in software, pixel by pixel, with no knowledge of shaders, states, and cores.

use super::texture;
use super::vertices;
use super::Vertex;
use super::View;
use super::SIDE;
use super::TEXELS;

/// Subpixel positions per pixel for corners.
const PARTS: f32 = 16.0;

/// A frame: rows of A8R8G8B8 pixels where the object is, and `None` elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// All pixels.
    pub pixels: Vec<Option<u32>>,
}

/// A corner of a triangle in the picture.
#[derive(Clone, Copy, Debug)]
struct Corner {
    /// In subpixels.
    place: [i64; 2],
    depth: f64,
    w: f64,
    light: f64,
    u: f64,
    v: f64,
}

fn dot(a: [f32; 3], b: [f32; 4]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

impl Corner {
    fn new(vertex: &Vertex, view: &View) -> Self {
        let [x, y, z] = view.rows.map(|row| dot(row, vertex.place));
        let light = dot(view.light, vertex.normal).max(0.0) + view.ambient;
        let w = z * view.perspective + 1.0;
        let half = SIDE as f32 / 2.0;
        let place = [x, y].map(|at| {
            let pixel = at * view.scale / w * half + half;
            (pixel * PARTS + 0.5).floor() as i64
        });
        Self {
            place,
            // Smaller values are nearer; only their order matters.
            depth: f64::from(z / w),
            w: f64::from(w),
            light: light.into(),
            u: vertex.place[3].into(),
            v: vertex.normal[3].into(),
        }
    }
}

/// Twice the signed area between a side and a point. It is positive to the right of the side's direction.
fn side([ax, ay]: [i64; 2], [bx, by]: [i64; 2], [x, y]: [i64; 2]) -> i64 {
    (bx - ax) * (y - ay) - (by - ay) * (x - ax)
}

/// Channels of the texture at a position, interpolated from the four nearest texels. The texture repeats
/// horizontally, not vertically.
fn filtered(texels: &[u32], u: f64, v: f64) -> [f64; 3] {
    let size = f64::from(TEXELS);
    let (x, y) = (u * size - 0.5, v * size - 0.5);
    let texel = |x: f64, y: f64| {
        let (column, row) = (x.rem_euclid(size), y.clamp(0.0, size - 1.0));
        let word = texels[row as usize * TEXELS as usize + column as usize];
        [16, 8, 0].map(|shift| f64::from(word >> shift & 0xff))
    };
    let (left, top) = (x.floor(), y.floor());
    let (right_share, below_share) = (x - left, y - top);
    let [a, b] = [top, top + 1.0].map(|row| {
        let (from, to) = (texel(left, row), texel(left + 1.0, row));
        [0, 1, 2].map(|channel| from[channel] + (to[channel] - from[channel]) * right_share)
    });
    [0, 1, 2].map(|channel| a[channel] + (b[channel] - a[channel]) * below_share)
}

/// Draws a frame.
pub fn frame(view: &View) -> Picture {
    let texels = texture();
    let mut pixels = vec![None; (SIDE * SIDE) as usize];
    let mut depths = vec![f64::INFINITY; pixels.len()];
    let vertices = vertices();
    for triangle in vertices.chunks_exact(3) {
        let corners = [0, 1, 2].map(|at| Corner::new(&triangle[at], view));
        let places = corners.map(|corner| corner.place);
        let whole = side(places[0], places[1], places[2]);
        // Back faces are not visible.
        if whole <= 0 {
            continue;
        }
        let range = |axis: usize| {
            let all = places.map(|place| place[axis]);
            let pixel = |at: i64| at.div_euclid(PARTS as i64).clamp(0, i64::from(SIDE));
            let (least, most) = (all.iter().min(), all.iter().max());
            pixel(*least.unwrap_or(&0))..(pixel(*most.unwrap_or(&0)) + 1).min(i64::from(SIDE))
        };
        for y in range(1) {
            for x in range(0) {
                let at = [x, y].map(|pixel| pixel * PARTS as i64 + PARTS as i64 / 2);
                let sides = [0, 1, 2].map(|number| {
                    let (from, to) = (places[(number + 1) % 3], places[(number + 2) % 3]);
                    (side(from, to, at), from, to)
                });
                // A pixel on a shared side belongs to the triangle that has this side at its left or top.
                let is_covered = sides.iter().all(|(area, from, to)| {
                    let is_first = to[1] < from[1] || to[1] == from[1] && to[0] > from[0];
                    *area > 0 || *area == 0 && is_first
                });
                if !is_covered {
                    continue;
                }
                let shares = sides.map(|(area, ..)| area as f64 / whole as f64);
                let mixed = |value: fn(&Corner) -> f64| {
                    let parts = corners.iter().zip(shares);
                    parts
                        .map(|(corner, share)| value(corner) * share)
                        .sum::<f64>()
                };
                let depth = mixed(|corner| corner.depth);
                let index = (y * i64::from(SIDE) + x) as usize;
                if depth >= depths[index] {
                    continue;
                }
                depths[index] = depth;
                let w = 1.0 / mixed(|corner| 1.0 / corner.w);
                let light = w * mixed(|corner| corner.light / corner.w);
                let (u, v) = (
                    w * mixed(|corner| corner.u / corner.w),
                    w * mixed(|corner| corner.v / corner.w),
                );
                let channels = filtered(&texels, u, v)
                    .map(|channel| (channel * light).round().clamp(0.0, 255.0) as u32);
                pixels[index] =
                    Some(0xff00_0000 | channels[0] << 16 | channels[1] << 8 | channels[2]);
            }
        }
    }
    Picture { pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_round() {
        let first = frame(&View::of(0, 4));
        assert_ne!(first, frame(&View::of(1, 4)));
        // After half a turn the frame is the same, except for rounding.
        let last = frame(&View::of(4, 4));
        let differ = first.pixels.iter().zip(&last.pixels);
        let count = differ.filter(|(a, b)| a.is_some() != b.is_some()).count();
        assert!(count < 8, "{count} pixels");
    }

    #[test]
    fn texels_are_mixed() {
        let mut texels = vec![0; (TEXELS * TEXELS) as usize];
        texels[1] = 0xff40_8010;
        let size = f64::from(TEXELS);
        assert_eq!(
            filtered(&texels, 1.5 / size, 0.5 / size),
            [64.0, 128.0, 16.0]
        );
        assert_eq!(filtered(&texels, 1.0 / size, 0.5 / size), [32.0, 64.0, 8.0]);
        assert_eq!(filtered(&texels, 1.0 / size, 1.0 / size), [16.0, 32.0, 4.0]);
        // Above the first row is the first row again; to the left of the first texel is the last one.
        assert_eq!(filtered(&texels, 1.5 / size, 0.0), [64.0, 128.0, 16.0]);
        assert_eq!(
            filtered(&texels, 1.0 + 1.5 / size, 0.5 / size),
            [64.0, 128.0, 16.0]
        );
    }
}
