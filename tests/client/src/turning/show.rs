// SPDX-License-Identifier: GPL-2.0-only
//! Draws frames of the object on an existing picture. The 3D core draws each frame on a copy of its background, the
//! core that draws pictures copies it into place, and the result in the picture is compared.

use super::compare;
use super::gpu::Turner;
use super::place;
use super::software;
use super::Comparison;
use super::View;
use super::SIDE;
use crate::client::Client;
use crate::client::Surface;
use crate::client::WAIT_LIMIT;
use crate::device::Result;
use crate::draw::Engine;
use crate::queue::Queue;
use crate::stream::Rect;
use crate::stream::Stream;

/// Results of a drawing.
#[derive(Clone, Debug)]
pub struct Turned {
    /// Index of the client that drew in 3D.
    pub by: usize,
    /// Triangles per frame.
    pub triangles: u32,
    /// Position of the frames in the picture.
    pub place: Rect,
    /// The pixels of each frame, read from the picture.
    pub frames: Vec<Vec<u32>>,
    /// Comparison of all frames together.
    pub comparison: Comparison,
}

/// The pixels of a part of a surface.
fn pixels(surface: &Surface, part: Rect) -> Vec<u32> {
    (part.y..part.bottom())
        .flat_map(|y| (part.x..part.right()).map(move |x| (x, y)))
        .map(|(x, y)| surface.pixel(x, y))
        .collect()
}

/// Lets a client copy from a part of one surface to a part of another, and waits for it.
fn copy(client: &mut Client, from: (&Surface, Rect), to: (&Surface, Rect)) -> Result<()> {
    let engine = client.engine();
    let ((source, part), (target, rect)) = (from, to);
    let whole = Rect::new(0, 0, target.width, target.height);
    let mut stream = Stream::new();
    engine.copy_all(
        &mut stream,
        source,
        (part.x, part.y),
        target,
        &[rect],
        whole,
    );
    let pipe = engine.pipe();
    stream.flush(pipe);
    client.run(pipe, &stream)
}

/// Draws `frames` frames on `picture` and leaves the last one there. `None` if none of the clients' cores draws in
/// 3D.
pub fn turn(clients: &mut [Client], picture: &Surface, frames: u32) -> Result<Option<Turned>> {
    let mut found = None;
    for (by, client) in clients.iter().enumerate() {
        if let Some(turner) = Turner::new(client)? {
            found = Some((by, turner));
            break;
        }
    }
    let Some((by, turner)) = found else {
        return Ok(None);
    };
    let composer = clients
        .iter()
        .position(|client| client.engine() == Engine::TwoD)
        .unwrap_or(by);
    let place = place((picture.width, picture.height));
    let whole = Rect::new(0, 0, SIDE, SIDE);
    let backdrop = clients[by].create_surface(SIDE, SIDE)?;
    let frame = clients[by].create_surface(SIDE, SIDE)?;
    let done = clients[by].device().create_signal(false)?;
    copy(&mut clients[composer], (picture, place), (&backdrop, whole))?;
    let behind = pixels(picture, place);
    let mut turned = Turned {
        by,
        triangles: turner.triangles(),
        place,
        frames: Vec::new(),
        comparison: Comparison::default(),
    };
    for number in 0..frames {
        let view = View::of(number, frames);
        let mut queue = Queue::new();
        queue.signal(done);
        turner.draw(&mut clients[by], &view, &backdrop, &frame, &mut queue)?;
        clients[by].device().wait_signal(done, WAIT_LIMIT)?;
        copy(&mut clients[composer], (&frame, whole), (picture, place))?;
        let drawn = pixels(picture, place);
        let one = compare(&drawn, &software::frame(&view), &behind);
        turned.comparison.add(&one);
        turned.frames.push(drawn);
    }
    clients[by].device().destroy_signal(done)?;
    for surface in [backdrop, frame] {
        clients[by].release_surface(surface)?;
    }
    turner.release(&clients[by])?;
    Ok(Some(turned))
}

/// Draws the frames in software on the pixels of the background.
pub fn software(behind: &[u32], frames: u32) -> Vec<Vec<u32>> {
    (0..frames)
        .map(|number| {
            let object = software::frame(&View::of(number, frames)).pixels;
            let both = object.into_iter().zip(behind);
            both.map(|(pixel, behind)| pixel.unwrap_or(*behind))
                .collect()
        })
        .collect()
}
