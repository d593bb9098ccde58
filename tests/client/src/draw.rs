// SPDX-License-Identifier: GPL-2.0-only
//! Drawing with the GPU: with one engine, or a whole scene.

use crate::client::Client;
use crate::client::Surface;
use crate::client::WAIT_LIMIT;
use crate::device::Error;
use crate::device::Result;
use crate::queue::Queue;
use crate::scene::Op;
use crate::scene::Scene;
use crate::state;
use crate::state::dest_command;
use crate::stream::point;
use crate::stream::Pipe;
use crate::stream::Rect;
use crate::stream::Stream;
use crate::uapi::feature;
use crate::uapi::QueryChipIdentity;

/// The engine that a core draws pictures with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The 2D engine.
    TwoD,
    /// The resolve engine of a 3D core with this number of pixel pipes.
    Resolve {
        /// 1 or 2.
        pipes: u32,
    },
}

impl Engine {
    /// The engine of a core. The 2D engine is preferred.
    pub fn of(identity: &QueryChipIdentity) -> Self {
        if identity.chip_features & feature::PIPE_2D != 0 {
            Engine::TwoD
        } else {
            Engine::Resolve {
                pipes: pixel_pipes(identity),
            }
        }
    }

    /// The pipe of its streams.
    pub fn pipe(self) -> Pipe {
        match self {
            Engine::TwoD => Pipe::Pipe2d,
            Engine::Resolve { .. } => Pipe::Pipe3d,
        }
    }

    /// Edges of rectangles must be multiples of this width and height.
    pub fn cell(self) -> (u32, u32) {
        match self {
            Engine::TwoD => (1, 1),
            Engine::Resolve { .. } => (16, 8),
        }
    }

    /// Fills a rectangle.
    pub fn fill(self, stream: &mut Stream, target: &Surface, rect: Rect, colour: u32) {
        let clip = Rect::new(0, 0, target.width, target.height);
        self.fill_all(stream, target, &[rect], clip, colour);
    }

    /// Fills rectangles inside `clip`. The resolve engine does not clip, so all rectangles must lie inside `clip`.
    pub fn fill_all(
        self,
        stream: &mut Stream,
        target: &Surface,
        rects: &[Rect],
        clip: Rect,
        colour: u32,
    ) {
        match self {
            Engine::TwoD => {
                destination(stream, target, clip, dest_command::CLEAR);
                stream
                    .states(state::DE_CLEAR_BYTE_MASK, &[0xff, 0, colour, colour])
                    .state(state::DE_CLEAR_PIXEL_VALUE32, colour)
                    .draw_rects(rects);
            }
            Engine::Resolve { pipes } => {
                for rect in rects {
                    resolve(stream, pipes, None, target, *rect);
                    stream
                        .state(state::RS_CLEAR_CONTROL, state::CLEAR_CONTROL_FILL)
                        .states(state::RS_FILL_VALUE, &[colour; 4])
                        .state(state::RS_EXTRA_CONFIG, 0)
                        .state(state::RS_KICKER, state::RS_KICK);
                }
            }
        }
    }

    /// Copies from `origin` of another surface to each of `rects`, inside `clip`.
    pub fn copy_all(
        self,
        stream: &mut Stream,
        source: &Surface,
        origin: (u32, u32),
        target: &Surface,
        rects: &[Rect],
        clip: Rect,
    ) {
        // The source may hold pixels that were drawn just before.
        stream.flush(self.pipe()).stall();
        match self {
            Engine::TwoD => {
                destination(stream, target, clip, dest_command::BIT_BLT);
                blit_from(stream, source, origin, rects);
            }
            Engine::Resolve { pipes } => {
                for rect in rects {
                    resolve(stream, pipes, Some((source, origin)), target, *rect);
                    stream
                        .state(state::RS_CLEAR_CONTROL, 0)
                        .state(state::RS_EXTRA_CONFIG, 0)
                        .state(state::RS_KICKER, state::RS_KICK);
                }
            }
        }
    }

    /// Flips the bits of one rectangle of `target` that are set in `source`, which is read from its origin. A second
    /// call restores the target. 2D engine only.
    ///
    /// # Panics
    ///
    /// If the engine is the resolve engine.
    pub fn flip(self, stream: &mut Stream, source: &Surface, target: &Surface, rect: Rect) {
        assert_eq!(self, Engine::TwoD, "only the 2D engine has operations");
        destination(stream, target, rect, dest_command::BIT_BLT);
        stream.state(state::DE_ROP, state::ROP_XOR);
        blit_from(stream, source, (0, 0), &[rect]);
    }

    /// Draws a line including both ends. 2D engine only.
    ///
    /// Documents disagree on whether the hardware draws the last pixel, so the code sets it separately.
    ///
    /// # Panics
    ///
    /// If the engine is the resolve engine.
    pub fn line(
        self,
        stream: &mut Stream,
        target: &Surface,
        from: (u32, u32),
        to: (u32, u32),
        clip: Rect,
        colour: u32,
    ) {
        assert_eq!(self, Engine::TwoD, "only the 2D engine draws lines");
        destination(stream, target, clip, dest_command::LINE);
        stream
            .states(state::DE_SRC_COLOR_BG, &[colour, colour])
            .draw_2d(&[(point(from.0, from.1), point(to.0, to.1))]);
        self.fill_all(stream, target, &[Rect::new(to.0, to.1, 1, 1)], clip, colour);
    }

    /// Whether the engine can draw an operation on surfaces of these sizes. The resolve engine draws no lines, does
    /// not clip, and its windows consist of whole cells.
    pub fn draws(self, op: &Op, sizes: &[(u32, u32)]) -> bool {
        if self == Engine::TwoD {
            return true;
        }
        let (cell_width, cell_height) = self.cell();
        let fits = |rect: &Rect, clip: &Rect, target: usize| {
            let (width, height) = sizes[target];
            let (right, bottom) = (rect.right(), rect.bottom());
            rect.x % cell_width == 0
                && rect.width % cell_width == 0
                && rect.y % cell_height == 0
                && rect.height % cell_height == 0
                && right <= width.min(clip.right())
                && bottom <= height.min(clip.bottom())
                && rect.x >= clip.x
                && rect.y >= clip.y
        };
        match op {
            Op::Fill {
                target,
                rects,
                clip,
                ..
            } => rects.iter().all(|rect| fits(rect, clip, *target)),
            Op::Copy {
                source,
                origin,
                target,
                rects,
                clip,
            } => rects.iter().all(|rect| {
                let from = Rect::new(origin.0, origin.1, rect.width, rect.height);
                let (width, height) = sizes[*source];
                fits(rect, clip, *target) && fits(&from, &Rect::new(0, 0, width, height), *source)
            }),
            Op::Line { .. } => false,
        }
    }

    /// Adds one operation of a scene.
    pub fn op(self, stream: &mut Stream, surfaces: &[Surface], op: &Op) {
        match op {
            Op::Fill {
                target,
                rects,
                clip,
                colour,
            } => self.fill_all(stream, &surfaces[*target], rects, *clip, *colour),
            Op::Copy {
                source,
                origin,
                target,
                rects,
                clip,
            } => self.copy_all(
                stream,
                &surfaces[*source],
                *origin,
                &surfaces[*target],
                rects,
                *clip,
            ),
            Op::Line {
                target,
                from,
                to,
                clip,
                colour,
            } => self.line(stream, &surfaces[*target], *from, *to, *clip, *colour),
        }
    }
}

/// Number of pixel pipes of a core. The oldest generations do not report it.
pub fn pixel_pipes(identity: &QueryChipIdentity) -> u32 {
    match (identity.pixel_pipes, identity.chip_model) {
        (0, 0x2000 | 0x3000) => 2,
        (0, _) => 1,
        (told, _) => told,
    }
}

/// Sets the source of the 2D engine, and draws the rectangles.
fn blit_from(stream: &mut Stream, source: &Surface, origin: (u32, u32), rects: &[Rect]) {
    stream
        .states(
            state::DE_SRC_ADDRESS,
            &[
                source.location.address,
                source.stride,
                0,
                state::SRC_CONFIG_A8R8G8B8,
                point(origin.0, origin.1),
                point(source.width, source.height),
            ],
        )
        .draw_rects(rects);
}

/// Sets destination, clipping, and raster operation of the 2D engine.
fn destination(stream: &mut Stream, target: &Surface, clip: Rect, command: u32) {
    stream
        .states(
            state::DE_DEST_ADDRESS,
            &[
                target.location.address,
                target.stride,
                0,
                command | state::FORMAT_A8R8G8B8,
            ],
        )
        .states(
            state::DE_ROP,
            &[
                state::ROP_COPY,
                point(clip.x, clip.y),
                point(clip.right(), clip.bottom()),
            ],
        )
        .state(state::DE_ALPHA_CONTROL, 0)
        .state(state::DE_PE_TRANSPARENCY, 0)
        .state(state::DE_PE_CONTROL, 0);
}

/// Sets addresses and window of the resolve engine.
fn resolve(
    stream: &mut Stream,
    pipes: u32,
    source: Option<(&Surface, (u32, u32))>,
    target: &Surface,
    rect: Rect,
) {
    let at = |surface: &Surface, x, y| surface.location.address + y * surface.stride + x * 4;
    let dest = at(target, rect.x, rect.y);
    // A fill ignores the source; the stream sets a valid one anyway.
    let (from, from_stride) = match source {
        Some((surface, (x, y))) => (at(surface, x, y), surface.stride),
        None => (dest, target.stride),
    };
    let format = state::FORMAT_A8R8G8B8;
    stream.state(state::RS_CONFIG, format << 8 | format);
    stream.state(state::RS_SOURCE_STRIDE, from_stride);
    stream.state(state::RS_DEST_STRIDE, target.stride);
    if pipes == 1 {
        stream.state(state::RS_SOURCE_ADDR, from);
        stream.state(state::RS_DEST_ADDR, dest);
        stream.state(state::RS_WINDOW_SIZE, point(rect.width, rect.height));
    } else {
        // Each pipe processes its share of the rows.
        let rows = rect.height / pipes;
        let offsets: Vec<_> = (0..pipes).map(|pipe| point(0, pipe * rows)).collect();
        stream.states(state::RS_PIPE_SOURCE_ADDR, &vec![from; pipes as usize]);
        stream.states(state::RS_PIPE_DEST_ADDR, &vec![dest; pipes as usize]);
        stream.states(state::RS_PIPE_OFFSET, &offsets);
        stream.state(state::RS_WINDOW_SIZE, point(rect.width, rows));
    }
    stream.states(state::RS_DITHER, &[0xffff_ffff; 2]);
}

/// Size in bytes above which the next operation goes into another commit.
const STREAM_LIMIT: usize = 0x6000;

/// Draws a scene with the client's engine and waits for completion. Each group has its own commit, or several if it
/// is long.
pub fn scene(client: &mut Client, scene: &Scene) -> Result<Vec<Surface>> {
    scene_with(client, client.engine(), scene)
}

/// Draws a scene with the given engine.
pub fn scene_with(client: &mut Client, engine: Engine, scene: &Scene) -> Result<Vec<Surface>> {
    let surfaces = surfaces(client, scene)?;
    for group in &scene.groups {
        let mut stream = Stream::new();
        for op in group {
            draw(client, engine, &mut stream, &surfaces, op)?;
        }
        commit(client, engine, &mut stream, &mut Queue::new())?;
    }
    client.finish()?;
    Ok(surfaces)
}

/// Draws a scene with several cores and waits for completion. Each core has its own client, all in one process. The
/// first core that can draw an operation draws it. If a core continues from pixels of another core, its commands are
/// committed only after the other core's signal. The second value returned is the number of these hand-overs.
pub fn scene_together(clients: &mut [Client], scene: &Scene) -> Result<(Vec<Surface>, u32)> {
    let first = clients
        .first()
        .ok_or(Error::Usage("nobody draws the scene"))?;
    let surfaces = surfaces(first, scene)?;
    let signal = first.device().create_signal(false)?;
    let mut hand_overs = 0;
    let mut stream = Stream::new();
    let mut current: Option<usize> = None;
    for op in scene.groups.iter().flatten() {
        let next = clients
            .iter()
            .position(|client| client.engine().draws(op, &scene.surfaces))
            .ok_or(Error::Usage("no core draws an operation of the scene"))?;
        if let Some(last) = current.filter(|&last| last != next) {
            let engine = clients[last].engine();
            let mut queue = Queue::new();
            queue.signal(signal);
            commit(&mut clients[last], engine, &mut stream, &mut queue)?;
            clients[next].device().wait_signal(signal, WAIT_LIMIT)?;
            hand_overs += 1;
        }
        current = Some(next);
        let engine = clients[next].engine();
        draw(&mut clients[next], engine, &mut stream, &surfaces, op)?;
    }
    if let Some(last) = current {
        let engine = clients[last].engine();
        commit(&mut clients[last], engine, &mut stream, &mut Queue::new())?;
        clients[last].finish()?;
    }
    clients[0].device().destroy_signal(signal)?;
    Ok((surfaces, hand_overs))
}

fn surfaces(client: &Client, scene: &Scene) -> Result<Vec<Surface>> {
    let sizes = scene.surfaces.iter();
    sizes
        .map(|(width, height)| client.create_surface(*width, *height))
        .collect()
}

/// Adds an operation to a stream that is committed when it is long.
fn draw(
    client: &mut Client,
    engine: Engine,
    stream: &mut Stream,
    surfaces: &[Surface],
    op: &Op,
) -> Result<()> {
    for part in op.parts(200) {
        engine.op(stream, surfaces, &part);
        if stream.bytes() > STREAM_LIMIT {
            commit(client, engine, stream, &mut Queue::new())?;
        }
    }
    Ok(())
}

/// Commits a stream unless it is empty. The driver runs `queue` after it.
fn commit(
    client: &mut Client,
    engine: Engine,
    stream: &mut Stream,
    queue: &mut Queue,
) -> Result<()> {
    if stream.bytes() == 0 {
        return client.device().commit_queue(queue);
    }
    let pipe = engine.pipe();
    stream.flush(pipe);
    client.commit(pipe, stream, queue)?;
    *stream = Stream::new();
    Ok(())
}
