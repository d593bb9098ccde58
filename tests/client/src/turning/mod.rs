// SPDX-License-Identifier: GPL-2.0-only
//! A rotating object: a balloon over the landscape, lit by its sun, with the driver's name on it. One description
//! consists of vertices, a texture, and the position of the eye. [`gpu`] converts it to shaders and states, and
//! [`software`] to pixels. [`show`] draws it on a picture and compares the two results.
//!
//! The object is a surface of revolution and looks the same after half a turn, so its frames repeat.

pub mod gpu;
pub mod show;
pub mod software;

use std::f32::consts::PI;
use std::f32::consts::TAU;

use crate::scene;
use crate::stream::Rect;

/// Width and height of a frame in pixels: whole supertiles, and the same number for each of two pixel pipes.
pub const SIDE: u32 = 128;
/// Width and height of the texture in texels.
pub const TEXELS: u32 = 64;
/// Number of slices around the axis.
const SLICES: usize = 24;
/// Largest accepted difference from the software picture, in a channel of 255. The exactness of interpolation and
/// filtering is not specified. Pixels around the object must not change.
pub const TOLERANCE: u32 = 2;

/// Radius and height (downwards) of the outline, from top to bottom: envelope, skirt, basket.
const OUTLINE: [[f32; 2]; 16] = [
    [0.0, -0.96],
    [0.24, -0.93],
    [0.44, -0.84],
    [0.59, -0.69],
    [0.66, -0.5],
    [0.66, -0.31],
    [0.6, -0.11],
    [0.49, 0.09],
    [0.36, 0.26],
    [0.25, 0.4],
    [0.15, 0.52],
    [0.1, 0.66],
    [0.15, 0.67],
    [0.16, 0.78],
    [0.13, 0.88],
    [0.0, 0.89],
];
/// First texture row of skirt and basket.
const SKIRT: u32 = 41;
const BASKET: u32 = 47;

/// Direction of the sun.
const LIGHT: [f32; 3] = [0.79, 0.08, -0.608];
/// Ambient light, and the light of the sun.
const AMBIENT: f32 = 0.4;
const DIFFUSE: f32 = 0.7;
/// Angle by which the object leans.
const LEAN: f32 = 0.12;
/// Factor of x and y, and increase of w for each unit of depth. w is 1 in the middle.
const SCALE: f32 = 0.94;
const PERSPECTIVE: f32 = 0.2;

/// A vertex in the format of the shader's input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vertex {
    /// x, y, z, and u of the texture.
    pub place: [f32; 4],
    /// Outward direction, and v of the texture.
    pub normal: [f32; 4],
}

/// The object as triangles, with three vertices each.
pub fn vertices() -> Vec<Vertex> {
    let mut lengths = vec![0.0f32];
    for pair in OUTLINE.windows(2) {
        let step = (pair[1][0] - pair[0][0]).hypot(pair[1][1] - pair[0][1]);
        lengths.push(lengths[lengths.len() - 1] + step);
    }
    let whole = lengths[lengths.len() - 1];
    let normal = |at: usize| {
        let (before, after) = (
            OUTLINE[at.saturating_sub(1)],
            OUTLINE[(at + 1).min(OUTLINE.len() - 1)],
        );
        let (across, down) = (after[0] - before[0], after[1] - before[1]);
        let length = across.hypot(down);
        // The normals of the poles are vertical.
        if OUTLINE[at][0] == 0.0 {
            [0.0, OUTLINE[at][1].signum()]
        } else {
            [down / length, -across / length]
        }
    };
    let vertex = |slice: usize, ring: usize| {
        // The last slice ends exactly at the start of the first.
        let angle = TAU * (slice % SLICES) as f32 / SLICES as f32;
        let (sine, cosine) = angle.sin_cos();
        let [radius, down] = OUTLINE[ring];
        let [out, along] = normal(ring);
        Vertex {
            place: [
                radius * cosine,
                down,
                radius * sine,
                2.0 * slice as f32 / SLICES as f32,
            ],
            normal: [out * cosine, along, out * sine, lengths[ring] / whole],
        }
    };
    let mut all = Vec::new();
    for ring in 0..OUTLINE.len() - 1 {
        for slice in 0..SLICES {
            let corner = |right: usize, below: usize| vertex(slice + right, ring + below);
            // At the poles, one of the two triangles has no area.
            if ring > 0 {
                all.extend([corner(0, 0), corner(1, 0), corner(1, 1)]);
            }
            if ring + 2 < OUTLINE.len() {
                all.extend([corner(0, 0), corner(1, 1), corner(0, 1)]);
            }
        }
    }
    all
}

/// The texture, row by row, A8R8G8B8.
pub fn texture() -> Vec<u32> {
    const RED: u32 = 0xffd1_495b;
    const CREAM: u32 = 0xffff_f1d6;
    const BLUE: u32 = 0xff24_3b6b;
    const GOLD: u32 = 0xffed_ae49;
    const ROPE: u32 = 0xff6b_4a36;
    const BROWN: u32 = 0xffa8_7445;
    // The nine rows of the name are in the middle of this band.
    const BAND: std::ops::Range<u32> = 13..28;
    let letters = scene::text("galcore", 15, BAND.start + 3, (1, 1));
    let texel = |x: u32, y: u32| match y {
        BASKET.. if (x / 2 + y / 2) % 2 == 0 => BROWN,
        SKIRT.. => ROPE,
        _ if letters.iter().any(|run: &Rect| run.contains(x, y)) => BLUE,
        _ if y == BAND.start || y + 1 == BAND.end => GOLD,
        _ if BAND.contains(&y) => CREAM,
        _ if x / 8 % 2 == 0 => RED,
        _ => GOLD,
    };
    (0..TEXELS * TEXELS)
        .map(|at| texel(at % TEXELS, at / TEXELS))
        .collect()
}

/// Constants of a frame's shaders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// The three rows of the rotation.
    pub rows: [[f32; 3]; 3],
    /// Direction of the sun relative to the object, times its share of the light.
    pub light: [f32; 3],
    /// Ambient light.
    pub ambient: f32,
    /// Factor of x and y.
    pub scale: f32,
    /// Factor of z, added to a w of 1.
    pub perspective: f32,
}

impl View {
    /// The view of frame `frame` of `frames`.
    pub fn of(frame: u32, frames: u32) -> Self {
        let (sine, cosine) = (PI * frame as f32 / frames as f32).sin_cos();
        let (lean, straight) = LEAN.sin_cos();
        let rows = [
            [straight * cosine, -lean, straight * sine],
            [lean * cosine, straight, lean * sine],
            [-sine, 0.0, cosine],
        ];
        let light = std::array::from_fn(|axis| {
            let parts = (0..3).map(|row| rows[row][axis] * LIGHT[row]);
            DIFFUSE * parts.sum::<f32>()
        });
        Self {
            rows,
            light,
            ambient: AMBIENT,
            scale: SCALE,
            perspective: PERSPECTIVE,
        }
    }
}

/// The position of the frames in a picture of this size: to the left of the sun, at a multiple of the resolve
/// engine's cells.
pub fn place((width, height): (u32, u32)) -> Rect {
    Rect::new(width * 27 / 100 / 16 * 16, height / 8 / 8 * 8, SIDE, SIDE)
}

/// Differences between a frame and the software picture of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Pixels of the object.
    pub object: u32,
    /// Pixels that differ by more than [`TOLERANCE`], and changed pixels outside the object.
    pub wrong: u32,
    /// Largest difference in a channel of the object's pixels.
    pub most: u32,
}

impl Comparison {
    /// Adds the numbers of another frame.
    pub fn add(&mut self, other: &Self) {
        self.object += other.object;
        self.wrong += other.wrong;
        self.most = self.most.max(other.most);
    }
}

/// Compares a frame. `backdrop` holds the earlier pixels.
pub fn compare(found: &[u32], wanted: &software::Picture, backdrop: &[u32]) -> Comparison {
    let mut result = Comparison::default();
    for (at, (found, backdrop)) in found.iter().zip(backdrop).enumerate() {
        let wanted = wanted.pixels[at];
        let is_right = match wanted {
            None => found == backdrop,
            Some(wanted) => {
                let channel = |word: u32, shift: u32| word >> shift & 0xff;
                let distances = [0, 8, 16, 24]
                    .map(|shift| channel(*found, shift).abs_diff(channel(wanted, shift)));
                let most = distances.into_iter().max().unwrap_or(0);
                result.object += 1;
                result.most = result.most.max(most);
                most <= TOLERANCE
            }
        };
        result.wrong += u32::from(!is_right);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_closed_and_looks_the_same_after_half_a_turn() {
        let all = vertices();
        assert_eq!(all.len() % 3, 0);
        assert!(all.len() * 32 < 0x1_0000, "{} vertices", all.len());
        for vertex in &all {
            let [x, y, z, _] = vertex.place;
            let other = all.iter().any(|other| {
                let [a, b, c, _] = other.place;
                (a + x).abs() < 1e-5 && b == y && (c + z).abs() < 1e-5
            });
            assert!(other, "{vertex:?}");
            let length = vertex.normal[..3].iter().map(|it| it * it).sum::<f32>();
            assert!((length - 1.0).abs() < 1e-5, "{vertex:?}");
        }
    }

    #[test]
    fn frames_lie_on_cells_of_both_pictures() {
        for size in [(480, 320), (640, 480)] {
            let place = place(size);
            assert_eq!((place.x % 16, place.y % 8), (0, 0));
            assert!(place.right() <= size.0 && place.bottom() <= size.1);
        }
    }

    #[test]
    fn wrong_pixels_are_counted() {
        let backdrop = vec![5; (SIDE * SIDE) as usize];
        let wanted = software::frame(&View::of(0, 8));
        let mut found: Vec<_> = wanted
            .pixels
            .iter()
            .map(|pixel| pixel.unwrap_or(5))
            .collect();
        let right = compare(&found, &wanted, &backdrop);
        assert_eq!((right.wrong, right.most), (0, 0));
        assert!(right.object > 3000, "{} pixels", right.object);
        let inside = wanted.pixels.iter().position(Option::is_some).unwrap();
        found[inside] ^= 0x80;
        found[0] += 1;
        let wrong = compare(&found, &wanted, &backdrop);
        assert_eq!(wrong.wrong, 2);
        assert!(wrong.most > TOLERANCE);
    }
}
