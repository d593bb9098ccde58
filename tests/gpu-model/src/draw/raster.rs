// SPDX-License-Identifier: GPL-2.0-only
//! Finding a shape's pixels in blocks of 8 x 8, and interpolating their inputs.

use super::setup::Input;
use super::setup::Plane;
use super::setup::Shape;
use crate::engine2d::StateBlock;
use crate::registers::state::*;
use crate::shader::Lane;
use crate::shader::LANES;

/// Width and height of a block in pixels.
pub(super) const BLOCK: i32 = 8;
/// Subpixel positions per pixel.
pub(super) const SUBPIXELS: i64 = 16;
/// Maximum size of a surface.
const MOST: i32 = 1 << 15;

/// Column and row of each lane in its block. Four lanes in a row are a square of 2 x 2.
const fn places() -> [[i32; LANES]; 2] {
    let mut places = [[0; LANES]; 2];
    let mut lane = 0;
    while lane < LANES {
        let (square, inside) = (lane as i32 / 4, lane as i32 % 4);
        places[0][lane] = square % 4 * 2 + inside % 2;
        places[1][lane] = square / 4 * 2 + inside / 2;
        lane += 1;
    }
    places
}

/// Columns and rows of the lanes.
pub(super) const PLACES: [[i32; LANES]; 2] = places();

/// The lane at a column and row of a block.
pub(super) const fn lane_at(x: usize, y: usize) -> usize {
    (y / 2 * 4 + x / 2) * 4 + y % 2 * 2 + x % 2
}

/// All pixels of the squares that have at least one pixel in `mask`.
pub(super) fn whole_quads(mask: u64) -> u64 {
    let any = mask | mask >> 1;
    let any = (any | any >> 2) & 0x1111_1111_1111_1111;
    any * 0xf
}

/// A mask of the lanes for which `holds` is true.
pub(super) fn lanes(holds: impl Fn(usize) -> bool) -> u64 {
    (0..LANES).fold(0, |mask, lane| mask | u64::from(holds(lane)) << lane)
}

/// Some pixels of a block of 8 x 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Left column and top row.
    pub(super) x: i32,
    pub(super) y: i32,
    /// One bit per lane.
    pub(super) mask: u64,
}

/// A side of a triangle, positive inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// Value at the surface's corner, change per sixteenth of a pixel to the right, and downwards.
    at: i64,
    across: i64,
    down: i64,
}

impl Edge {
    /// An edge from one corner to the next, clockwise, in sixteenths of a pixel. Points on a left or top edge belong to
    /// the triangle.
    pub(super) fn new(from: [i64; 2], to: [i64; 2]) -> Self {
        let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
        let is_inside = dy < 0 || dy == 0 && dx > 0;
        Self {
            at: dy * from[0] - dx * from[1] - i64::from(!is_inside),
            across: -dy,
            down: dx,
        }
    }

    fn value(&self, x: i64, y: i64) -> i64 {
        self.at + self.across * x + self.down * y
    }
}

/// Geometry of a shape.
#[derive(Clone, Copy, Debug)]
pub(super) enum Area {
    Triangle([Edge; 3]),
    /// Starts at `from`. For each step along the longer axis, covers `width` pixels in the other direction.
    Line {
        from: [f64; 2],
        to: [f64; 2],
        width: f64,
        has_last: bool,
    },
    /// Starts at the top left corner.
    Square {
        corner: [f64; 2],
        size: f64,
    },
}

impl Area {
    /// The lanes of a block that belong to the area. `centre` is the sample position within a pixel, in sixteenths.
    pub(super) fn mask(&self, x: i32, y: i32, centre: i64) -> u64 {
        let at = |lane: usize| {
            let place = |axis: usize, first: i32| {
                let pixel = f64::from(first + PLACES[axis][lane]);
                pixel + centre as f64 / SUBPIXELS as f64
            };
            [place(0, x), place(1, y)]
        };
        match self {
            Self::Triangle(edges) => {
                let mut mask = u64::MAX;
                for edge in edges {
                    let first = |pixel: i32| i64::from(pixel) * SUBPIXELS + centre;
                    let at = edge.value(first(x), first(y));
                    let (across, down) = (edge.across * SUBPIXELS, edge.down * SUBPIXELS);
                    let far = i64::from(BLOCK - 1);
                    if at + far * (across.max(0) + down.max(0)) < 0 {
                        return 0;
                    }
                    if at + far * (across.min(0) + down.min(0)) < 0 {
                        mask &= lanes(|lane| {
                            let [column, row] = [0, 1].map(|axis| i64::from(PLACES[axis][lane]));
                            at + across * column + down * row >= 0
                        });
                    }
                }
                mask
            }
            Self::Line {
                from,
                to,
                width,
                has_last,
            } => {
                let delta = [to[0] - from[0], to[1] - from[1]];
                let major = usize::from(delta[1].abs() > delta[0].abs());
                let minor = 1 - major;
                lanes(|lane| {
                    let at = at(lane);
                    let along = (at[major] - from[major]) * delta[major].signum();
                    let length = delta[major].abs();
                    let is_between =
                        along >= 0.0 && (along < length || *has_last && along <= length);
                    let middle =
                        from[minor] + (at[major] - from[major]) * delta[minor] / delta[major];
                    let first = (middle - width / 2.0 + 0.5).floor();
                    let pixel = at[minor].floor();
                    is_between && first <= pixel && pixel < first + width
                })
            }
            Self::Square { corner, size } => lanes(|lane| {
                let at = at(lane);
                (0..2).all(|axis| corner[axis] <= at[axis] && at[axis] < corner[axis] + size)
            }),
        }
    }
}

/// The pixels that may be drawn: left, top, and one past right and bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scissor([i32; 4]);

impl Scissor {
    pub(super) fn new(states: &StateBlock) -> Self {
        // The pixel's center decides, independent of the sample position.
        Self([0, 4, 8, 12].map(|at| {
            let edge = f32::from_bits(states.get(SE_SCISSOR + at));
            ((edge - 0.5).ceil() as i32).clamp(0, MOST)
        }))
    }

    /// The part of a shape's bounds that may be drawn.
    fn bounds(&self, shape: &Shape) -> [i32; 4] {
        std::array::from_fn(|side| match side {
            0 | 1 => self.0[side].max(shape.bounds[side]),
            _ => self.0[side].min(shape.bounds[side]),
        })
    }

    /// Upper limit of a shape's number of pixels.
    pub(super) fn area(&self, shape: &Shape) -> u64 {
        let [left, top, right, bottom] = self.bounds(shape);
        let length = |from: i32, to: i32| (to - from).max(0) as u64;
        length(left, right) * length(top, bottom)
    }

    /// The non-empty blocks of a shape in the wanted rows of blocks.
    pub(super) fn blocks<'a>(
        &self,
        shape: &'a Shape,
        is_wanted: impl Fn(i32) -> bool + 'a,
    ) -> impl Iterator<Item = Block> + 'a {
        let [left, top, right, bottom] = self.bounds(shape);
        let first = |at: i32| at & !(BLOCK - 1);
        let blocks = move |from: i32, to: i32| (first(from)..to.max(from)).step_by(BLOCK as usize);
        let rows = blocks(top, bottom).filter(move |y| is_wanted(*y));
        rows.flat_map(move |y| {
            blocks(left, right).filter_map(move |x| {
                let mut mask = shape.area.mask(x, y, shape.centre);
                let is_whole = x >= left && x + BLOCK <= right && y >= top && y + BLOCK <= bottom;
                if mask != 0 && !is_whole {
                    mask &= lanes(|lane| {
                        let (x, y) = (x + PLACES[0][lane], y + PLACES[1][lane]);
                        (left..right).contains(&x) && (top..bottom).contains(&y)
                    });
                }
                (mask != 0).then_some(Block { x, y, mask })
            })
        })
    }
}

impl Plane {
    /// The value for each lane.
    fn values(&self, shape: &Shape, block: &Block) -> [f64; LANES] {
        let centre = shape.centre as f64 / SUBPIXELS as f64;
        let at = self.value(f64::from(block.x) + centre, f64::from(block.y) + centre);
        std::array::from_fn(|lane| {
            let [column, row] = [0, 1].map(|axis| f64::from(PLACES[axis][lane]));
            at + self.across * column + self.down * row
        })
    }

    /// The same in the shaders' precision.
    fn fill(&self, shape: &Shape, block: &Block, out: &mut Lane) {
        let centre = shape.centre as f64 / SUBPIXELS as f64;
        let at = self.value(f64::from(block.x) + centre, f64::from(block.y) + centre) as f32;
        let (across, down) = (self.across as f32, self.down as f32);
        for (lane, value) in out.iter_mut().enumerate() {
            *value = at + across * PLACES[0][lane] as f32 + down * PLACES[1][lane] as f32;
        }
    }
}

impl Shape {
    /// Depth of each lane, from 0 to 1.
    pub(super) fn depths(&self, block: &Block) -> [f64; LANES] {
        let mut depths = self.depth.values(self, block);
        for depth in &mut depths {
            // NaN becomes 0.
            *depth = if *depth > 0.0 { depth.min(1.0) } else { 0.0 };
        }
        depths
    }

    /// The pixel shader's inputs in its temporaries: the pixel's position, then the varyings.
    pub(super) fn inputs(
        &self,
        block: &Block,
        depths: &[f64; LANES],
        has_w: bool,
        temps: &mut [[Box<Lane>; 4]],
    ) {
        let mut inverse = [1.0; LANES];
        self.inverse_w.fill(self, block, &mut inverse);
        let w: Lane = std::array::from_fn(|lane| 1.0 / inverse[lane]);
        let centre = self.centre as f32 / SUBPIXELS as f32;
        let Some((position, varyings)) = temps.split_first_mut() else {
            return;
        };
        for (lane, depth) in depths.iter().enumerate() {
            position[0][lane] = (block.x + PLACES[0][lane]) as f32 + centre;
            position[1][lane] = (block.y + PLACES[1][lane]) as f32 + centre;
            position[2][lane] = *depth as f32;
            position[3][lane] = if has_w { inverse[lane] } else { 0.0 };
        }
        let components = varyings.iter_mut().flatten();
        for (component, input) in components.zip(self.inputs.iter().flatten()) {
            match input {
                Input::Constant(value) => component.fill(*value),
                Input::Linear(plane) => plane.fill(self, block, component),
                Input::Perspective(plane) => {
                    plane.fill(self, block, component);
                    for (value, w) in component.iter_mut().zip(&w) {
                        *value *= w;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_squares() {
        assert_eq!([0, 1, 2, 3, 4].map(|lane| PLACES[0][lane]), [0, 1, 0, 1, 2]);
        assert_eq!([0, 1, 2, 3, 4].map(|lane| PLACES[1][lane]), [0, 0, 1, 1, 0]);
        for lane in 0..LANES {
            let [x, y] = [0, 1].map(|axis| PLACES[axis][lane] as usize);
            assert_eq!(lane_at(x, y), lane);
        }
        assert_eq!(whole_quads(1 << 6 | 1 << 63), 0xf << 60 | 0xf0);
        assert_eq!(whole_quads(0), 0);
    }

    fn covered(corners: [[i64; 2]; 3]) -> u64 {
        let edges = [0, 1, 2].map(|side| Edge::new(corners[side], corners[(side + 1) % 3]));
        Area::Triangle(edges).mask(0, 0, 8)
    }

    /// Triangles that share a side have no pixel in common and leave no gap.
    #[test]
    fn triangles_share_sides_without_seams() {
        let mut random = crate::gpu::Random::new(3);
        for _ in 0..2000 {
            // A square of 8 x 8 pixels with corners at pixel centers, cut into four at an inner point that is also a
            // pixel center.
            let [x, y] = [0; 2].map(|_| 8 + 16 * i64::from(random.below(8)));
            let corners = [[-8, -8], [136, -8], [136, 136], [-8, 136]];
            let mut all = 0;
            for side in 0..4 {
                let triangle = [corners[side], corners[(side + 1) % 4], [x, y]];
                let mask = covered(triangle);
                assert_eq!(all & mask, 0, "{x},{y}");
                all |= mask;
            }
            assert_eq!(all, u64::MAX, "{x},{y}");
        }
    }

    #[test]
    fn sides_at_the_left_and_top_belong_to_it() {
        // From the center of pixel (1, 1) to those of (5, 1) and (1, 5).
        let mask = covered([[24, 24], [88, 24], [24, 88]]);
        let wanted = lanes(|lane| {
            let [x, y] = [0, 1].map(|axis| PLACES[axis][lane]);
            x >= 1 && y >= 1 && x + y < 6
        });
        assert_eq!(mask, wanted);
    }

    #[test]
    fn lines_leave_their_last_pixel_out() {
        let line = |from: [f64; 2], to: [f64; 2], width, has_last| {
            let area = Area::Line {
                from,
                to,
                width,
                has_last,
            };
            area.mask(0, 0, 8)
        };
        let pixels = |list: &[(usize, usize)]| {
            list.iter()
                .fold(0, |mask, (x, y)| mask | 1 << lane_at(*x, *y))
        };
        let row = line([0.5, 2.5], [3.5, 2.5], 1.0, false);
        assert_eq!(row, pixels(&[(0, 2), (1, 2), (2, 2)]));
        let row = line([0.5, 2.5], [3.5, 2.5], 1.0, true);
        assert_eq!(row, pixels(&[(0, 2), (1, 2), (2, 2), (3, 2)]));
        let back = line([3.5, 3.5], [1.5, 5.5], 1.0, false);
        assert_eq!(back, pixels(&[(3, 3), (2, 4)]));
        let wide = line([2.5, 0.5], [2.5, 2.5], 3.0, false);
        assert_eq!(
            wide,
            pixels(&[(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1)])
        );
        let point = line([2.5, 2.5], [2.5, 2.5], 1.0, false);
        assert_eq!(point, 0);
    }
}
