// SPDX-License-Identifier: GPL-2.0-only
//! Drawing with the GPU: one engine or the other, and whole scenes.

use crate::client::Client;
use crate::client::Surface;
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

/// What a core draws pictures with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The 2D engine.
    TwoD,
    /// The resolve engine of a 3D core with so many pixel pipes.
    Resolve {
        /// 1 or 2.
        pipes: u32,
    },
}

impl Engine {
    /// The engine of a core: the 2D engine where it has one.
    pub fn of(identity: &QueryChipIdentity) -> Self {
        if identity.chip_features & feature::PIPE_2D != 0 {
            Engine::TwoD
        } else {
            Engine::Resolve {
                pipes: identity.pixel_pipes.max(1),
            }
        }
    }

    /// The pipe its streams are for.
    pub fn pipe(self) -> Pipe {
        match self {
            Engine::TwoD => Pipe::Pipe2d,
            Engine::Resolve { .. } => Pipe::Pipe3d,
        }
    }

    /// Width and height that edges of rectangles must be multiples of.
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

    /// Fills rectangles inside `clip`. The resolve engine does not clip: there it must hold all of them.
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

    /// Copies to each of `rects` inside `clip` from `origin` of another surface.
    pub fn copy_all(
        self,
        stream: &mut Stream,
        source: &Surface,
        origin: (u32, u32),
        target: &Surface,
        rects: &[Rect],
        clip: Rect,
    ) {
        // The source may have been drawn just now.
        stream.flush(self.pipe()).stall();
        match self {
            Engine::TwoD => {
                destination(stream, target, clip, dest_command::BIT_BLT);
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

    /// A line that includes both of its ends; 2D engine only.
    ///
    /// Documents disagree on whether the hardware draws the last pixel, so it is set by itself.
    ///
    /// # Panics
    ///
    /// With the resolve engine.
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

/// Destination, clipping and raster operation of the 2D engine.
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

/// Addresses and window of the resolve engine.
fn resolve(
    stream: &mut Stream,
    pipes: u32,
    source: Option<(&Surface, (u32, u32))>,
    target: &Surface,
    rect: Rect,
) {
    let at = |surface: &Surface, x, y| surface.location.address + y * surface.stride + x * 4;
    let dest = at(target, rect.x, rect.y);
    // A fill ignores its source; a valid one is given all the same.
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
        // Each pipe does its share of the rows.
        let rows = rect.height / pipes;
        let offsets: Vec<_> = (0..pipes).map(|pipe| point(0, pipe * rows)).collect();
        stream.states(state::RS_PIPE_SOURCE_ADDR, &vec![from; pipes as usize]);
        stream.states(state::RS_PIPE_DEST_ADDR, &vec![dest; pipes as usize]);
        stream.states(state::RS_PIPE_OFFSET, &offsets);
        stream.state(state::RS_WINDOW_SIZE, point(rect.width, rows));
    }
    stream.states(state::RS_DITHER, &[0xffff_ffff; 2]);
}

/// Most bytes of a stream before the next operation goes into another commit.
const STREAM_LIMIT: usize = 0x6000;

/// Draws a scene with the client's engine: each of its groups in a commit of its own, or several when it is long.
/// Waits for the end.
pub fn scene(client: &mut Client, scene: &Scene) -> Result<Vec<Surface>> {
    scene_with(client, client.engine(), scene)
}

/// Draws a scene with an engine of the caller's choice.
pub fn scene_with(client: &mut Client, engine: Engine, scene: &Scene) -> Result<Vec<Surface>> {
    let surfaces = scene
        .surfaces
        .iter()
        .map(|(width, height)| client.create_surface(*width, *height))
        .collect::<Result<Vec<_>>>()?;
    for group in &scene.groups {
        let mut stream = Stream::new();
        for op in group {
            for part in op.parts(200) {
                engine.op(&mut stream, &surfaces, &part);
                if stream.bytes() > STREAM_LIMIT {
                    commit(client, engine, &mut stream)?;
                }
            }
        }
        if stream.bytes() > 0 {
            commit(client, engine, &mut stream)?;
        }
    }
    client.finish()?;
    Ok(surfaces)
}

fn commit(client: &mut Client, engine: Engine, stream: &mut Stream) -> Result<()> {
    let pipe = engine.pipe();
    stream.flush(pipe);
    client.commit(pipe, stream, &mut Queue::new())?;
    *stream = Stream::new();
    Ok(())
}
