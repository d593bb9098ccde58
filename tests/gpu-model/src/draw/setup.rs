// SPDX-License-Identifier: GPL-2.0-only
//! Set-up of shaded vertices as shapes on the surface: clipping, viewport, culling, planes.

use super::assemble::Primitive;
use super::raster::Area;
use super::raster::Edge;
use super::raster::Scissor;
use super::raster::SUBPIXELS;
use super::Core;
use super::Counts;
use super::VARYINGS;
use crate::engine2d::StateBlock;
use crate::registers::state::*;

/// Distance in pixels from the surface's corner beyond which everything is clipped, independent of the scissor.
const GUARD: f32 = 32768.0;
/// Lower limit of the smallest w from the states.
const LEAST_W: f32 = 1e-12;
/// Maximum number of corners of a triangle that was clipped at all planes.
const CORNERS: usize = 3 + 7;

/// A vertex as output by the shader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vertex {
    pub(super) position: [f32; 4],
    /// Point size, if the shader sets it.
    pub(super) size: Option<f32>,
    pub(super) varyings: [[f32; 4]; VARYINGS],
}

impl Vertex {
    /// The vertex at fraction `part` on the way to another one.
    fn towards(&self, other: &Self, part: f32) -> Self {
        let mix = |from: [f32; 4], to: [f32; 4]| {
            std::array::from_fn(|at| from[at] + part * (to[at] - from[at]))
        };
        Self {
            position: mix(self.position, other.position),
            size: self.size,
            varyings: std::array::from_fn(|at| mix(self.varyings[at], other.varyings[at])),
        }
    }
}

/// A value that changes linearly over the surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plane {
    /// Value at the surface's corner, change per pixel to the right, and change per pixel downwards.
    at: f64,
    pub(super) across: f64,
    pub(super) down: f64,
}

impl Plane {
    fn constant(at: f64) -> Self {
        Self {
            at,
            across: 0.0,
            down: 0.0,
        }
    }

    /// A plane with `value` at `place`.
    fn through(place: [f64; 2], value: f64, across: f64, down: f64) -> Self {
        Self {
            at: value - across * place[0] - down * place[1],
            across,
            down,
        }
    }

    pub(super) fn value(&self, x: f64, y: f64) -> f64 {
        self.at + self.across * x + self.down * y
    }
}

/// A component of a varying over a shape.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input {
    Constant(f32),
    Linear(Plane),
    /// A plane that must be multiplied by w.
    Perspective(Plane),
}

/// A triangle, line or point on the surface.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) area: Area,
    /// Left, top, and one past right and bottom.
    pub(super) bounds: [i32; 4],
    /// Position of the sample within a pixel, in sixteenths.
    pub(super) centre: i64,
    pub(super) depth: Plane,
    pub(super) inverse_w: Plane,
    pub(super) inputs: Vec<[Input; 4]>,
    /// Orientation on the screen, with the first row at the top.
    pub(super) is_clockwise: bool,
}

/// A vertex on the surface.
#[derive(Clone, Copy, Debug)]
struct Corner {
    /// In sixteenths of a pixel.
    place: [i64; 2],
    depth: f64,
    inverse_w: f64,
}

impl Corner {
    fn pixels(&self) -> [f64; 2] {
        self.place.map(|at| at as f64 / SUBPIXELS as f64)
    }
}

/// Use of a component of a varying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Varying,
    /// The column or row within a point.
    Point(usize),
    Absent(usize),
}

/// The states that set-up uses.
pub(super) struct Setup {
    scale: [f32; 3],
    offset: [f32; 3],
    least_w: f32,
    config: u32,
    mode: u32,
    /// The depth range starts at -w.
    is_symmetric: bool,
    is_converted: bool,
    half_line: f32,
    half_point: f32,
    depth_scale: f32,
    depth_bias: f32,
    has_last: bool,
    uses: Vec<[Use; 4]>,
    is_flat: [bool; VARYINGS],
    pub(super) varyings: usize,
    pub(super) scissor: Scissor,
}

impl Setup {
    pub(super) fn new(core: &Core, states: &StateBlock, varyings: usize) -> Self {
        let float = |state: u32| f32::from_bits(states.get(state));
        let three = |first: u32| [0, 4, 8].map(|at| float(first + at));
        let config = states.get(PA_CONFIG);
        let is_bypassed = states.get(PA_FLAGS) & 1 << 30 != 0;
        let is_sprite = config & 1 << 4 != 0;
        let component = |varying: usize, number: usize| {
            let word = match varying {
                0..8 => states.get(GL_VARYING_NUM_COMPONENTS),
                _ => states.get(GL_VARYING_NUM_COMPONENTS2),
            };
            let count = word >> (4 * (varying % 8)) & 0xf;
            let uses = [
                GL_VARYING_COMPONENT_USE,
                GL_VARYING_COMPONENT_USE + 4,
                GL_VARYING_COMPONENT_USE2,
                GL_VARYING_COMPONENT_USE3,
            ];
            let word = states.get(uses[varying / 4]);
            match word >> (8 * (varying % 4) + 2 * number) & 3 {
                code @ (2 | 3) if is_sprite => Use::Point(code as usize - 2),
                _ if number as u32 >= count => Use::Absent(number),
                _ => Use::Varying,
            }
        };
        let line = if config & 1 << 22 != 0 {
            PA_WIDE_LINE_WIDTH
        } else {
            PA_LINE_WIDTH
        };
        Self {
            scale: three(PA_VIEWPORT_SCALE),
            offset: three(PA_VIEWPORT_OFFSET),
            least_w: float(PA_W_CLIP_LIMIT).max(LEAST_W),
            config,
            mode: states.get(PA_SYSTEM_MODE),
            is_symmetric: core.converts_depth,
            is_converted: core.converts_depth && !is_bypassed,
            half_line: float(line),
            half_point: float(PA_POINT_SIZE),
            depth_scale: float(SE_DEPTH_SCALE),
            depth_bias: float(SE_DEPTH_BIAS),
            has_last: states.get(SE_CONFIG) & 1 != 0,
            uses: (0..varyings)
                .map(|varying| std::array::from_fn(|number| component(varying, number)))
                .collect(),
            is_flat: std::array::from_fn(|varying| {
                let attributes = states.get(PA_SHADER_ATTRIBUTES + 4 * varying as u32);
                config >> 16 & 3 == 0 && attributes & 1 == 0
            }),
            varyings,
            scissor: Scissor::new(states),
        }
    }

    pub(super) fn is_last_provoking(&self) -> bool {
        self.mode & 1 != 0
    }

    fn centre(&self) -> i64 {
        if self.mode & 1 << 4 != 0 {
            SUBPIXELS / 2
        } else {
            0
        }
    }

    /// Distance of a vertex from each clip plane, positive inside.
    fn distances(&self, [x, y, z, w]: [f32; 4]) -> [f32; 7] {
        let near = if self.is_symmetric { z + w } else { z };
        let column = x * self.scale[0] + self.offset[0] * w;
        let row = y * self.scale[1] + self.offset[1] * w;
        let edge = GUARD * w;
        [
            w - self.least_w,
            near,
            w - z,
            edge + column,
            edge - column,
            edge + row,
            edge - row,
        ]
    }

    /// The part of a polygon or line inside the view, and whether anything was clipped.
    fn clip(&self, vertices: &[Vertex]) -> (Vec<Vertex>, bool) {
        let mut polygon = vertices.to_vec();
        let is_inside = |vertex: &Vertex| {
            let mut all = self.distances(vertex.position).into_iter();
            all.all(|distance| distance >= 0.0)
        };
        if polygon.iter().all(is_inside) {
            return (polygon, false);
        }
        let is_line = vertices.len() == 2;
        for plane in 0..7 {
            let mut cut = Vec::with_capacity(CORNERS);
            for (at, vertex) in polygon.iter().enumerate() {
                let distance = |vertex: &Vertex| self.distances(vertex.position)[plane];
                let here = distance(vertex);
                if here >= 0.0 {
                    cut.push(*vertex);
                }
                let next = match polygon.get(at + 1) {
                    Some(next) => next,
                    None if is_line => break,
                    None => &polygon[0],
                };
                let there = distance(next);
                // From the inside outwards, so that neighbors are cut at the same point.
                if here >= 0.0 && there < 0.0 {
                    cut.push(vertex.towards(next, here / (here - there)));
                } else if here < 0.0 && there >= 0.0 {
                    cut.push(next.towards(vertex, there / (there - here)));
                }
            }
            polygon = cut;
        }
        (polygon, true)
    }

    /// Converts a vertex to its position on the surface.
    fn corner(&self, [x, y, z, w]: [f32; 4]) -> Corner {
        let depth = z / w;
        let depth = if self.is_converted {
            (depth + 1.0) * 0.5
        } else {
            depth
        };
        let pixel = |at: f32, axis: usize| at / w * self.scale[axis] + self.offset[axis];
        let snapped = |at: f32| (f64::from(at) * SUBPIXELS as f64 + 0.5).floor() as i64;
        Corner {
            place: [snapped(pixel(x, 0)), snapped(pixel(y, 1))],
            depth: f64::from(depth * self.scale[2] + self.offset[2]),
            inverse_w: 1.0 / f64::from(w),
        }
    }

    /// Sets up a primitive as shapes.
    pub(super) fn primitive(
        &self,
        primitive: &Primitive,
        shaded: &[Vertex],
        out: &mut Vec<Shape>,
        counts: &mut Counts,
    ) {
        let places = &primitive.vertices[..primitive.count];
        let vertices: Vec<_> = places
            .iter()
            .filter_map(|place| shaded.get(*place as usize).copied())
            .collect();
        let Some(provoking) = vertices.get(primitive.provoking) else {
            return;
        };
        let (polygon, is_cut) = self.clip(&vertices);
        counts.clipped += u64::from(is_cut);
        let corners: Vec<_> = polygon
            .iter()
            .map(|vertex| self.corner(vertex.position))
            .collect();
        let before = out.len();
        match primitive.count {
            1 => {
                for (vertex, corner) in polygon.iter().zip(&corners) {
                    out.extend(self.point(vertex, corner, provoking));
                }
            }
            2 => {
                if let ([a, b], [from, to]) = (&polygon[..], &corners[..]) {
                    out.extend(self.line([a, b], [from, to], provoking));
                }
            }
            _ => {
                for last in 2..polygon.len() {
                    let [a, b, c] = [0, last - 1, last];
                    self.triangle(
                        [&polygon[a], &polygon[b], &polygon[c]],
                        [&corners[a], &corners[b], &corners[c]],
                        provoking,
                        out,
                    );
                }
            }
        }
        counts.culled += u64::from(!polygon.is_empty() && out.len() == before);
    }

    fn triangle(
        &self,
        vertices: [&Vertex; 3],
        corners: [&Corner; 3],
        provoking: &Vertex,
        out: &mut Vec<Shape>,
    ) {
        let [p, q, r] = corners.map(|corner| corner.place);
        let area = (q[0] - p[0]) * (r[1] - p[1]) - (r[0] - p[0]) * (q[1] - p[1]);
        let is_clockwise = area > 0;
        let culled = match self.config >> 8 & 3 {
            1 => is_clockwise,
            2 => !is_clockwise,
            _ => false,
        };
        if area == 0 || culled {
            return;
        }
        match self.config >> 12 & 3 {
            0 => {
                for (vertex, corner) in vertices.iter().zip(&corners) {
                    let point = self.point(vertex, corner, provoking);
                    out.extend(point.map(|point| Shape {
                        is_clockwise,
                        ..point
                    }));
                }
                return;
            }
            1 => {
                for [from, to] in [[0, 1], [1, 2], [2, 0]] {
                    let vertices = [vertices[from], vertices[to]];
                    let line = self.line(vertices, [corners[from], corners[to]], provoking);
                    out.extend(line.map(|line| Shape {
                        is_clockwise,
                        ..line
                    }));
                }
                return;
            }
            _ => {}
        }
        let clockwise = if is_clockwise { [p, q, r] } else { [p, r, q] };
        let edges = [0, 1, 2].map(|side| Edge::new(clockwise[side], clockwise[(side + 1) % 3]));
        let [a, b, c] = corners.map(Corner::pixels);
        let whole = area as f64 / (SUBPIXELS * SUBPIXELS) as f64;
        let plane = |values: [f64; 3]| {
            let (second, third) = (values[1] - values[0], values[2] - values[0]);
            let across = (second * (c[1] - a[1]) - third * (b[1] - a[1])) / whole;
            let down = (third * (b[0] - a[0]) - second * (c[0] - a[0])) / whole;
            Plane::through(a, values[0], across, down)
        };
        let mut depth = plane(corners.map(|corner| corner.depth));
        let slope = depth.across.abs().max(depth.down.abs());
        depth.at += f64::from(self.depth_scale) * slope + f64::from(self.depth_bias);
        let bound = |axis: usize| {
            let all = [p, q, r].map(|place| place[axis]);
            let (least, most) = (all.iter().min(), all.iter().max());
            let pixel = |at: Option<&i64>| at.map_or(0, |at| at.div_euclid(SUBPIXELS)) as i32;
            (pixel(least), pixel(most) + 1)
        };
        let ((left, right), (top, bottom)) = (bound(0), bound(1));
        out.push(Shape {
            area: Area::Triangle(edges),
            bounds: [left, top, right, bottom],
            centre: self.centre(),
            depth,
            inverse_w: plane(corners.map(|corner| corner.inverse_w)),
            inputs: self.inputs(provoking, |varying, component| {
                let value = |at: usize| {
                    f64::from(vertices[at].varyings[varying][component]) * corners[at].inverse_w
                };
                plane([value(0), value(1), value(2)])
            }),
            is_clockwise,
        });
    }

    fn inputs(&self, provoking: &Vertex, plane: impl Fn(usize, usize) -> Plane) -> Vec<[Input; 4]> {
        let input = |varying: usize, component: usize| match self.uses[varying][component] {
            Use::Absent(number) => Input::Constant([0.0, 0.0, 0.0, 1.0][number]),
            _ if self.is_flat[varying] => Input::Constant(provoking.varyings[varying][component]),
            _ => Input::Perspective(plane(varying, component)),
        };
        (0..self.varyings)
            .map(|varying| std::array::from_fn(|component| input(varying, component)))
            .collect()
    }

    fn line(
        &self,
        vertices: [&Vertex; 2],
        corners: [&Corner; 2],
        provoking: &Vertex,
    ) -> Option<Shape> {
        let [from, to] = corners.map(Corner::pixels);
        let delta = [to[0] - from[0], to[1] - from[1]];
        let major = usize::from(delta[1].abs() > delta[0].abs());
        let length = delta[major];
        if length == 0.0 {
            return None;
        }
        let width = f64::from(2.0 * self.half_line).round().max(1.0);
        let plane = |values: [f64; 2]| {
            let step = (values[1] - values[0]) / length;
            let (across, down) = if major == 0 { (step, 0.0) } else { (0.0, step) };
            Plane::through(from, values[0], across, down)
        };
        let bound = |axis: usize| {
            let wide = width / 2.0 + 1.0;
            let least = from[axis].min(to[axis]) - wide;
            (
                least.floor() as i32,
                (from[axis].max(to[axis]) + wide).ceil() as i32,
            )
        };
        let ((left, right), (top, bottom)) = (bound(0), bound(1));
        Some(Shape {
            area: Area::Line {
                from,
                to,
                width,
                has_last: self.has_last,
            },
            bounds: [left, top, right, bottom],
            centre: self.centre(),
            depth: plane(corners.map(|corner| corner.depth)),
            inverse_w: plane(corners.map(|corner| corner.inverse_w)),
            inputs: self.inputs(provoking, |varying, component| {
                let value = |at: usize| {
                    f64::from(vertices[at].varyings[varying][component]) * corners[at].inverse_w
                };
                plane([value(0), value(1)])
            }),
            is_clockwise: false,
        })
    }

    fn point(&self, vertex: &Vertex, corner: &Corner, provoking: &Vertex) -> Option<Shape> {
        let size = f64::from(vertex.size.unwrap_or(2.0 * self.half_point));
        if size.is_nan() || size <= 0.0 {
            return None;
        }
        let place = corner.pixels();
        let corner_at = place.map(|at| at - size / 2.0);
        let mut inputs = self.inputs(provoking, |varying, component| {
            let value = vertex.varyings[varying][component];
            Plane::constant(f64::from(value) * corner.inverse_w)
        });
        for (uses, inputs) in self.uses.iter().zip(&mut inputs) {
            for (of, input) in uses.iter().zip(inputs) {
                if let Use::Point(axis) = of {
                    let step = 1.0 / size;
                    let (across, down) = if *axis == 0 { (step, 0.0) } else { (0.0, step) };
                    *input = Input::Linear(Plane::through(corner_at, 0.0, across, down));
                }
            }
        }
        let first = corner_at.map(|at| at.floor() as i32);
        let last = corner_at.map(|at| (at + size).ceil() as i32);
        Some(Shape {
            area: Area::Square {
                corner: corner_at,
                size,
            },
            bounds: [first[0], first[1], last[0], last[1]],
            centre: self.centre(),
            depth: Plane::constant(corner.depth),
            inverse_w: Plane::constant(corner.inverse_w),
            inputs,
            is_clockwise: false,
        })
    }
}
