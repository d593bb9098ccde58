// SPDX-License-Identifier: GPL-2.0-only
//! A picture as a list of operations. [`crate::draw`] converts it to states, and [`crate::render`] to pixels.

use crate::draw::Engine;
use crate::stream::Rect;

/// One operation. Colors are A8R8G8B8. Targets and sources are indices into [`Scene::surfaces`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Fills rectangles.
    Fill {
        /// Surface to draw on.
        target: usize,
        /// Rectangles to fill.
        rects: Vec<Rect>,
        /// Clipping rectangle.
        clip: Rect,
        /// Colour.
        colour: u32,
    },
    /// Copies one part of a surface to several places.
    Copy {
        /// Surface to read. It must not be the target.
        source: usize,
        /// Top left corner of the source.
        origin: (u32, u32),
        /// Surface to draw on.
        target: usize,
        /// Destination rectangles.
        rects: Vec<Rect>,
        /// Clipping rectangle.
        clip: Rect,
    },
    /// A line including both ends. Its longer axis has an odd length, so no step is halfway between two pixels.
    Line {
        /// Surface to draw on.
        target: usize,
        /// Start.
        from: (u32, u32),
        /// End.
        to: (u32, u32),
        /// Clipping rectangle.
        clip: Rect,
        /// Colour.
        colour: u32,
    },
}

impl Op {
    /// Splits the operation into several with at most `count` rectangles each.
    pub fn parts(&self, count: usize) -> Vec<Op> {
        let rects = match self {
            Op::Fill { rects, .. } | Op::Copy { rects, .. } if rects.len() > count => rects.clone(),
            _ => return vec![self.clone()],
        };
        rects
            .chunks(count)
            .map(|some| {
                let mut part = self.clone();
                if let Op::Fill { rects, .. } | Op::Copy { rects, .. } = &mut part {
                    *rects = some.to_vec();
                }
                part
            })
            .collect()
    }
}

/// A picture. Surface 0 is shown; the others are intermediate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scene {
    /// Width and height of each surface.
    pub surfaces: Vec<(u32, u32)>,
    /// Operations in order. Each group gets its own commit.
    pub groups: Vec<Vec<Op>>,
}

impl Scene {
    /// Number of operations.
    pub fn len(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Width and height of the shown surface.
    pub fn size(&self) -> (u32, u32) {
        self.surfaces[0]
    }
}

const PICTURE: usize = 0;
const MEADOW: usize = 1;

/// The part of the picture that contains a shape. The picture is 0 to 1 in both directions.
#[derive(Clone, Copy)]
struct Bounds {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Bounds {
    /// Everything from this height down.
    const fn below(top: f64) -> Self {
        Self {
            left: 0.0,
            top,
            right: 1.0,
            bottom: 1.0,
        }
    }

    /// The area around a point, with these distances to its edges.
    fn around(x: f64, y: f64, across: f64, down: f64) -> Self {
        Self {
            left: x - across,
            top: y - down,
            right: x + across,
            bottom: y + down,
        }
    }
}

/// Collects operations with edges that fit the engine.
struct Painter {
    scene: Scene,
    cell: (u32, u32),
}

/// Sizes of the picture for engines with fine and with coarse cells.
const FINE: (u32, u32) = (480, 320);
const COARSE: (u32, u32) = (640, 480);

impl Painter {
    /// Creates an empty picture and a piece of meadow.
    fn new(size: (u32, u32), engine: Engine) -> Self {
        Self {
            scene: Scene {
                surfaces: vec![size, (64, 32)],
                groups: Vec::new(),
            },
            cell: engine.cell(),
        }
    }

    fn whole(&self, target: usize) -> Rect {
        let (width, height) = self.scene.surfaces[target];
        Rect::new(0, 0, width, height)
    }

    fn group(&mut self) {
        self.scene.groups.push(Vec::new());
    }

    fn push(&mut self, op: Op) {
        if let Some(group) = self.scene.groups.last_mut() {
            group.push(op);
        }
    }

    fn fill(&mut self, target: usize, rects: Vec<Rect>, colour: u32) {
        let clip = self.whole(target);
        self.fill_inside(target, rects, clip, colour);
    }

    fn fill_inside(&mut self, target: usize, rects: Vec<Rect>, clip: Rect, colour: u32) {
        if !rects.is_empty() {
            self.push(Op::Fill {
                target,
                rects,
                clip,
                colour,
            });
        }
    }

    /// Returns the cells of the picture with their center inside a shape, as rectangles. A rectangle is a run of
    /// cells in a row, joined with the same run of the row above. The shape gets coordinates from 0 to 1, and is
    /// tested only inside `bounds`.
    fn cells(&self, bounds: Bounds, shape: impl Fn(f64, f64) -> bool) -> Vec<Rect> {
        let (width, height) = self.scene.size();
        let (cell_width, cell_height) = self.cell;
        // Whole cells, with one more on each side than the bounds touch.
        let first =
            |at: f64, all: u32, cell: u32| (at.max(0.0) * f64::from(all)) as u32 / cell * cell;
        let last = |at: f64, all: u32, cell: u32| {
            first(at.min(1.0), all, cell).saturating_add(cell).min(all)
        };
        let columns = first(bounds.left, width, cell_width)..last(bounds.right, width, cell_width);
        let rows = first(bounds.top, height, cell_height)..last(bounds.bottom, height, cell_height);
        let mut done: Vec<Rect> = Vec::new();
        let mut above: Vec<Rect> = Vec::new();
        for y in rows.step_by(cell_height as usize) {
            let middle_y = (f64::from(y) + f64::from(cell_height) / 2.0) / f64::from(height);
            let mut row: Vec<Rect> = Vec::new();
            for x in columns.clone().step_by(cell_width as usize) {
                let middle_x = (f64::from(x) + f64::from(cell_width) / 2.0) / f64::from(width);
                if !shape(middle_x, middle_y) {
                    continue;
                }
                match row.last_mut() {
                    Some(run) if run.right() == x => run.width += cell_width,
                    _ => row.push(Rect::new(x, y, cell_width, cell_height)),
                }
            }
            let mut next = Vec::new();
            for run in row {
                let same = above
                    .iter()
                    .position(|old| old.x == run.x && old.width == run.width);
                next.push(match same {
                    Some(index) => {
                        let old = above.swap_remove(index);
                        Rect::new(old.x, old.y, old.width, old.height + cell_height)
                    }
                    None => run,
                });
            }
            done.append(&mut above);
            above = next;
        }
        done.append(&mut above);
        done
    }

    fn shape(&mut self, colour: u32, bounds: Bounds, shape: impl Fn(f64, f64) -> bool) {
        let rects = self.cells(bounds, shape);
        self.fill(PICTURE, rects, colour);
    }

    fn line(&mut self, from: (u32, u32), to: (u32, u32), clip: Rect, colour: u32) {
        let length = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1));
        // An even length gets one more step, so that there are no ties.
        let further = |from: u32, to: u32| if to < from { to - 1 } else { to + 1 };
        let to = match length % 2 {
            0 if from.0.abs_diff(to.0) == length => (further(from.0, to.0), to.1),
            0 => (to.0, further(from.1, to.1)),
            _ => to,
        };
        self.push(Op::Line {
            target: PICTURE,
            from,
            to,
            clip,
            colour,
        });
    }
}

/// Mixes two colors: 0 gives `from`, 1 gives `to`.
fn mix(from: u32, to: u32, share: f64) -> u32 {
    let channel = |shift: u32| {
        let (a, b) = (
            f64::from(from >> shift & 0xff),
            f64::from(to >> shift & 0xff),
        );
        ((a + (b - a) * share).round() as u32) << shift
    };
    channel(24) | channel(16) | channel(8) | channel(0)
}

/// Height of a row of hills at `x`.
fn hills(x: f64, base: f64, swing: f64, waves: f64, phase: f64) -> f64 {
    base + swing * ((x * waves + phase).sin() + 0.4 * (x * waves * 2.3 + phase * 1.7).sin())
}

/// Whether a point is inside a triangular mountain with its top above the middle of its base.
fn mountain(x: f64, y: f64, top: (f64, f64), slope: f64) -> bool {
    y > top.1 + (x - top.0).abs() * slope
}

const LETTERS: [(char, [&str; 9]); 7] = [
    (
        'g',
        [
            "....", "....", ".###", "#..#", "#..#", "#..#", ".###", "...#", "###.",
        ],
    ),
    (
        'a',
        [
            "....", "....", ".##.", "...#", ".###", "#..#", ".###", "....", "....",
        ],
    ),
    (
        'l',
        [
            ".#..", ".#..", ".#..", ".#..", ".#..", ".#..", ".###", "....", "....",
        ],
    ),
    (
        'c',
        [
            "....", "....", ".###", "#...", "#...", "#...", ".###", "....", "....",
        ],
    ),
    (
        'o',
        [
            "....", "....", ".##.", "#..#", "#..#", "#..#", ".##.", "....", "....",
        ],
    ),
    (
        'r',
        [
            "....", "....", "#.##", "##..", "#...", "#...", "#...", "....", "....",
        ],
    ),
    (
        'e',
        [
            "....", "....", ".##.", "#..#", "####", "#...", ".###", "....", "....",
        ],
    ),
];

/// Returns the dots of a text as rectangles, one for each run in a row.
pub(crate) fn text(text: &str, left: u32, top: u32, dot: (u32, u32)) -> Vec<Rect> {
    let mut rects: Vec<Rect> = Vec::new();
    for (position, letter) in text.chars().enumerate() {
        let Some((_, rows)) = LETTERS.iter().find(|(known, _)| *known == letter) else {
            continue;
        };
        for (row, dots) in rows.iter().enumerate() {
            for (column, _) in dots.match_indices('#') {
                let x = left + (position as u32 * 5 + column as u32) * dot.0;
                let y = top + row as u32 * dot.1;
                match rects.last_mut() {
                    Some(run) if run.y == y && run.right() == x => run.width += dot.0,
                    _ => rects.push(Rect::new(x, y, dot.0, dot.1)),
                }
            }
        }
    }
    rects
}

/// A landscape at sunset with the driver's name, sized for the engine: 480x320 with the 2D engine, 640x480 in coarser
/// cells with the resolve engine.
pub fn landscape(engine: Engine) -> Scene {
    let fine = engine == Engine::TwoD;
    let size = if fine { FINE } else { COARSE };
    let mut painter = Painter::new(size, engine);
    sky(&mut painter);
    sun(&mut painter, fine);
    mountains(&mut painter);
    meadow(&mut painter, fine);
    trees(&mut painter);
    title(&mut painter, fine);
    painter.scene
}

/// The same for a 3D core and a 2D core, 480x320. Land and sky consist of cells of the resolve engine, the rest of
/// pixels.
pub fn landscape_together(resolve: Engine) -> Scene {
    let mut painter = Painter::new(FINE, resolve);
    sky(&mut painter);
    painter.cell = Engine::TwoD.cell();
    sun(&mut painter, true);
    painter.cell = resolve.cell();
    mountains(&mut painter);
    meadow(&mut painter, false);
    painter.cell = Engine::TwoD.cell();
    trees(&mut painter);
    title(&mut painter, true);
    painter.scene
}

fn sky(painter: &mut Painter) {
    const BANDS: u32 = 20;
    painter.group();
    let (width, height) = painter.scene.size();
    let band = height * 7 / 10 / BANDS / 8 * 8;
    for index in 0..BANDS {
        let share = f64::from(index) / f64::from(BANDS - 1);
        let colour = match share {
            low if low < 0.5 => mix(0xff1b_2a5e, 0xffb0_4f6f, low * 2.0),
            high => mix(0xffb0_4f6f, 0xffff_c46b, high * 2.0 - 1.0),
        };
        let rest = if index + 1 == BANDS {
            height - BANDS * band
        } else {
            0
        };
        painter.fill(
            PICTURE,
            vec![Rect::new(0, index * band, width, band + rest)],
            colour,
        );
    }
}

fn sun(painter: &mut Painter, fine: bool) {
    painter.group();
    let (width, height) = painter.scene.size();
    let (sun_x, sun_y) = (0.66, 0.42);
    if fine {
        let clip = Rect::new(8, 8, width - 16, height * 6 / 10);
        let centre = (
            (sun_x * f64::from(width)) as u32,
            (sun_y * f64::from(height)) as u32,
        );
        for ray in 0..24u32 {
            let angle = f64::from(ray) * std::f64::consts::TAU / 24.0;
            let far = if ray % 2 == 0 { 110.0 } else { 80.0 };
            let at = |distance: f64| {
                (
                    (f64::from(centre.0) + distance * angle.cos()).round() as u32,
                    (f64::from(centre.1) + distance * angle.sin()).round() as u32,
                )
            };
            painter.line(at(52.0), at(far), clip, 0xffff_d890);
        }
    }
    let aspect = f64::from(width) / f64::from(height);
    for (radius, colour) in [
        (0.14, 0xffff_ce7a),
        (0.12, 0xffff_dc90),
        (0.10, 0xffff_f2c0),
    ] {
        painter.shape(
            colour,
            Bounds::around(sun_x, sun_y, radius, radius),
            move |x, y| ((x - sun_x) * aspect).hypot(y - sun_y) < radius,
        );
    }
    for (middle, top, half) in [(0.2, 0.16, 0.09), (0.42, 0.1, 0.06), (0.88, 0.2, 0.08)] {
        let bounds = Bounds::around(middle, top, half * 2.0, half * 2.0);
        painter.shape(0xfff0_d6dc, bounds, move |x: f64, y: f64| {
            [(-0.5, 0.25, 0.6), (0.1, 0.0, 0.8), (0.65, 0.3, 0.5)]
                .iter()
                .any(|(dx, dy, scale)| {
                    let (x, y) = (x - middle - dx * half, (y - top - dy * half) * 1.6);
                    x.hypot(y) < half * scale
                })
        });
    }
}

fn mountains(painter: &mut Painter) {
    painter.group();
    for (top, slope) in [
        ((0.18, 0.34), 1.1),
        ((0.42, 0.40), 1.2),
        ((0.95, 0.36), 1.0),
    ] {
        painter.shape(0xff4b_3f6b, Bounds::below(top.1), move |x, y| {
            mountain(x, y, top, slope)
        });
        let snow = Bounds::around(top.0, top.1, 0.15, 0.12);
        painter.shape(0xffe8_e4f2, snow, move |x: f64, y: f64| {
            let jag = 0.018 * ((x * 60.0).sin() + 1.0);
            mountain(x, y, top, slope) && y < top.1 + 0.07 + jag
        });
    }
    painter.group();
    painter.shape(0xff35_5a4a, Bounds::below(0.6), |x, y| {
        y > hills(x, 0.66, 0.035, 9.0, 0.4)
    });
    painter.shape(0xff2f_7045, Bounds::below(0.68), |x, y| {
        y > hills(x, 0.74, 0.03, 6.0, 2.2)
    });
}

/// Draws a piece of meadow once and repeats it like tiles.
fn meadow(painter: &mut Painter, fine: bool) {
    painter.group();
    let whole = painter.whole(MEADOW);
    painter.fill(MEADOW, vec![whole], 0xff3f_8f4a);
    let (blade, spots) = if fine {
        (
            (1, 5),
            [(4, 20), (13, 8), (27, 24), (38, 11), (50, 21), (59, 6)],
        )
    } else {
        (
            (16, 8),
            [(0, 24), (0, 8), (16, 16), (32, 0), (32, 24), (48, 8)],
        )
    };
    let blades = spots
        .iter()
        .map(|(x, y)| Rect::new(*x, *y, blade.0, blade.1))
        .collect();
    painter.fill(MEADOW, blades, 0xff59_ab52);
    let flower = if fine { (3, 3) } else { (16, 8) };
    for (x, y, colour) in [
        (18, 4, 0xffff_e15a),
        (45, 26, 0xfff4_8fb1),
        (2, 10, 0xffff_ffff),
    ] {
        let (x, y) = if fine {
            (x, y)
        } else {
            (x / 16 * 16, y / 8 * 8)
        };
        painter.fill(MEADOW, vec![Rect::new(x, y, flower.0, flower.1)], colour);
    }
    painter.group();
    let (width, height) = painter.scene.size();
    let top = height * 83 / 100 / 8 * 8;
    let mut tiles = Vec::new();
    for y in (top..height).step_by(32) {
        for x in (0..width).step_by(64) {
            // The 2D engine clips the part that does not fit; the resolve engine needs whole windows.
            let (w, h) = if fine {
                (64, 32)
            } else {
                (64.min(width - x), 32.min(height - y))
            };
            tiles.push(Rect::new(x, y, w, h));
        }
    }
    painter.push(Op::Copy {
        source: MEADOW,
        origin: (0, 0),
        target: PICTURE,
        rects: tiles,
        clip: Rect::new(0, top, width, height - top),
    });
}

fn trees(painter: &mut Painter) {
    painter.group();
    for (x0, foot, size) in [
        (0.08, 0.86, 0.2),
        (0.17, 0.9, 0.15),
        (0.9, 0.88, 0.22),
        (0.8, 0.92, 0.13),
    ] {
        let bounds = Bounds::around(x0, foot, size * 0.4, size * 1.2);
        painter.shape(0xff4a_3020, bounds, move |x: f64, y: f64| {
            (x - x0).abs() < size * 0.06 && y > foot - size * 0.3 && y < foot
        });
        for (level, colour) in [(0.0, 0xff12_4a30), (0.28, 0xff17_5a38), (0.52, 0xff1d_6b42)] {
            painter.shape(colour, bounds, move |x: f64, y: f64| {
                let bottom = foot - size * (0.15 + level);
                let top = bottom - size * 0.48;
                let half = size * (0.30 - 0.3 * level) * (y - top) / (bottom - top);
                y > top && y < bottom && (x - x0).abs() < half
            });
        }
    }
}

fn title(painter: &mut Painter, fine: bool) {
    painter.group();
    let (width, height) = painter.scene.size();
    let dot = if fine { (8, 8) } else { (16, 16) };
    let (left, top) = if fine {
        ((width - 34 * dot.0) / 2, height * 60 / 100)
    } else {
        (48, 232)
    };
    if fine {
        painter.fill(
            PICTURE,
            text("galcore", left + 3, top + 3, dot),
            0xff10_2418,
        );
    }
    painter.fill(PICTURE, text("galcore", left, top, dot), 0xffff_ffff);
    painter.group();
    let frame = 0xfff6_ead0;
    if fine {
        let whole = painter.whole(PICTURE);
        for inset in [3, 5] {
            let (right, bottom) = (width - 1 - inset, height - 1 - inset);
            painter.line((inset, inset), (right, inset), whole, frame);
            painter.line((right, inset), (right, bottom), whole, frame);
            painter.line((right, bottom), (inset, bottom), whole, frame);
            painter.line((inset, bottom), (inset, inset), whole, frame);
        }
        // Lines deliberately cross the edge; the clipping window keeps the middle of the corners empty.
        for (x, y) in [
            (0, 0),
            (width - 24, 0),
            (0, height - 24),
            (width - 24, height - 24),
        ] {
            let clip = Rect::new(x + 8, y + 8, 8, 8);
            painter.fill_inside(PICTURE, vec![Rect::new(x, y, 24, 24)], clip, frame);
        }
    } else {
        painter.fill(
            PICTURE,
            vec![
                Rect::new(0, 0, width, 8),
                Rect::new(0, height - 8, width, 8),
                Rect::new(0, 8, 16, height - 16),
                Rect::new(width - 16, 8, 16, height - 16),
            ],
            frame,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;
    use std::collections::HashSet;

    const ENGINES: [Engine; 3] = [
        Engine::TwoD,
        Engine::Resolve { pipes: 1 },
        Engine::Resolve { pipes: 2 },
    ];

    fn rects(op: &Op) -> &[Rect] {
        match op {
            Op::Fill { rects, .. } | Op::Copy { rects, .. } => rects,
            Op::Line { .. } => &[],
        }
    }

    #[test]
    fn cores_take_turns() {
        for pipes in [1, 2] {
            let resolve = Engine::Resolve { pipes };
            let scene = landscape_together(resolve);
            let draws: Vec<_> = scene
                .groups
                .iter()
                .flatten()
                .map(|op| resolve.draws(op, &scene.surfaces))
                .collect();
            let changes = draws.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(changes >= 3, "{changes}");
        }
        // The resolve engine can draw everything that is made for it.
        for engine in ENGINES {
            let scene = landscape(engine);
            let mut ops = scene.groups.iter().flatten();
            assert!(ops.all(|op| engine.draws(op, &scene.surfaces)));
        }
    }

    #[test]
    fn operations_suit_the_engine() {
        for engine in ENGINES {
            let scene = landscape(engine);
            let (cell_width, cell_height) = engine.cell();
            for op in scene.groups.iter().flatten() {
                for rect in rects(op) {
                    assert!(!rect.is_empty());
                    for (edge, cell) in [
                        (rect.x, cell_width),
                        (rect.width, cell_width),
                        (rect.y, cell_height),
                        (rect.height, cell_height),
                    ] {
                        assert_eq!(edge % cell, 0, "{engine:?} {rect:?}");
                    }
                    if engine != Engine::TwoD {
                        let (width, height) = match op {
                            Op::Fill { target, .. } => scene.surfaces[*target],
                            _ => scene.size(),
                        };
                        assert!(rect.right() <= width && rect.bottom() <= height);
                    }
                }
                if let Op::Line { from, to, .. } = op {
                    assert_eq!(engine, Engine::TwoD);
                    let length = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1));
                    assert_eq!(length % 2, 1, "{from:?} {to:?}");
                }
            }
        }
    }

    #[test]
    fn the_picture_is_a_picture() {
        for engine in ENGINES {
            let scene = landscape(engine);
            let (width, height) = scene.size();
            assert!(width >= 320 && height >= 240 && scene.groups.len() >= 4);
            let picture = &render::scene(&scene)[0];
            assert!(
                picture.pixels.iter().all(|pixel| pixel >> 24 == 0xff),
                "no hole"
            );
            let colours: HashSet<_> = picture.pixels.iter().collect();
            assert!(colours.len() > 20, "{} colours", colours.len());
        }
    }

    #[test]
    fn cells_cover_a_shape_once() {
        let mut painter = Painter {
            scene: Scene {
                surfaces: vec![(64, 48)],
                groups: Vec::new(),
            },
            cell: (1, 1),
        };
        painter.group();
        painter.shape(1, Bounds::around(0.5, 0.5, 0.3, 0.3), |x, y| {
            (x - 0.5).hypot(y - 0.5) < 0.3
        });
        let mut count = vec![0; 64 * 48];
        for rect in rects(&painter.scene.groups[0][0]) {
            for y in rect.y..rect.bottom() {
                for x in rect.x..rect.right() {
                    count[(y * 64 + x) as usize] += 1;
                }
            }
        }
        for y in 0..48 {
            for x in 0..64 {
                let (fx, fy) = ((f64::from(x) + 0.5) / 64.0, (f64::from(y) + 0.5) / 48.0);
                let inside = (fx - 0.5).hypot(fy - 0.5) < 0.3;
                assert_eq!(count[y as usize * 64 + x as usize], i32::from(inside));
            }
        }
    }
}
