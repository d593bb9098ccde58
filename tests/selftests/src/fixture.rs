// SPDX-License-Identifier: GPL-2.0-only
//! A client with a surface to draw on, for any engine.

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::draw;
use galcore_client::draw::Engine;
use galcore_client::render;
use galcore_client::scene;
use galcore_client::uapi;
use galcore_client::uapi::feature;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;

/// Width of a [`Paint`]'s surface.
pub const WIDTH: u32 = 256;
/// Height of a [`Paint`]'s surface.
pub const HEIGHT: u32 = 128;
/// Width of a cell. Every engine can fill a cell.
pub const CELL_WIDTH: u32 = 16;
/// Height of a cell.
pub const CELL_HEIGHT: u32 = 8;
/// Number of cells of the surface.
pub const CELLS: u32 = WIDTH / CELL_WIDTH * (HEIGHT / CELL_HEIGHT);

/// A client and a surface of 256 x 128 pixels.
pub struct Paint {
    /// The client.
    pub client: Client,
    /// The surface, initially 0.
    pub surface: Surface,
}

impl Paint {
    /// Starts a client and creates a surface.
    pub fn new() -> Result<Self> {
        Self::of(Client::start()?)
    }

    /// Creates a surface for a client.
    pub fn of(client: Client) -> Result<Self> {
        let surface = client.create_surface(WIDTH, HEIGHT)?;
        Ok(Self { client, surface })
    }

    /// The engine that draws.
    pub fn engine(&self) -> Engine {
        self.client.engine()
    }

    /// A stream that fills a rectangle and flushes.
    pub fn fill(&self, rect: Rect, colour: u32) -> Stream {
        let mut stream = Stream::new();
        self.engine().fill(&mut stream, &self.surface, rect, colour);
        stream.flush(self.engine().pipe());
        stream
    }

    /// A stream that fills one cell. Numbers past the last cell wrap around.
    pub fn fill_cell(&self, number: u32, colour: u32) -> Stream {
        self.fill(cell(number), colour)
    }

    /// A stream that fills the whole surface.
    pub fn fill_all(&self, colour: u32) -> Stream {
        self.fill(Rect::new(0, 0, WIDTH, HEIGHT), colour)
    }

    /// Commits a stream with a queue.
    pub fn commit(&mut self, stream: &Stream, queue: &mut Queue) -> Result<()> {
        Ok(self.client.commit(self.engine().pipe(), stream, queue)?)
    }

    /// Commits a stream and waits for its signal.
    pub fn run(&mut self, stream: &Stream) -> Result<()> {
        Ok(self.client.run(self.engine().pipe(), stream)?)
    }

    /// Fills the surface with one colour and checks it. Shows that the GPU and the driver still work.
    pub fn prove(&mut self, colour: u32) -> Result<()> {
        self.run(&self.fill_all(colour))?;
        self.expect(|_, _| colour)
    }

    /// Compares every pixel of the surface.
    pub fn expect(&self, wanted: impl Fn(u32, u32) -> u32) -> Result<()> {
        expect_pixels(&self.surface, wanted)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.client.device()
    }

    /// Releases everything and waits until the driver has done so.
    pub fn close(self) -> Result<()> {
        self.client.release_surface(self.surface)?;
        self.client.finish()?;
        Ok(())
    }
}

/// Draws the landscape, compares every pixel with the software rendering, and releases everything. Returns the numbers
/// of pixels and commits.
pub fn landscape(mut client: Client) -> Result<(usize, u64)> {
    // If the driver assigns the client to another generation, it answers in another layout.
    let pipes = client.identity().pixel_pipes;
    ensure!(pipes <= 8, "{pipes} pixel pipes");
    let scene = scene::landscape(client.engine());
    let surfaces = draw::scene(&mut client, &scene).context("drawing")?;
    let expected = &render::scene(&scene)[0];
    let drawn = surfaces[0].pixels();
    let wrong = drawn
        .iter()
        .zip(&expected.pixels)
        .filter(|(found, wanted)| found != wanted)
        .count();
    ensure!(drawn.len() == expected.pixels.len());
    ensure!(wrong == 0, "{wrong} of {} pixels are wrong", drawn.len());
    let (pixels, commits) = (drawn.len(), client.commits());
    for surface in surfaces {
        client.release_surface(surface).context("release")?;
    }
    client.finish()?;
    Ok((pixels, commits))
}

/// Compares every pixel of a surface.
pub fn expect_pixels(surface: &Surface, wanted: impl Fn(u32, u32) -> u32) -> Result<()> {
    let mut wrong = 0;
    let mut first = None;
    for y in 0..surface.height {
        for x in 0..surface.width {
            let (found, wanted) = (surface.pixel(x, y), wanted(x, y));
            if found != wanted {
                wrong += 1;
                first.get_or_insert((x, y, found, wanted));
            }
        }
    }
    if let Some((x, y, found, wanted)) = first {
        bail!("{wrong} wrong pixels; ({x}, {y}) is {found:#010x}, should be {wanted:#010x}");
    }
    Ok(())
}

/// The rectangle of a cell.
pub fn cell(number: u32) -> Rect {
    let number = number % CELLS;
    let row = WIDTH / CELL_WIDTH;
    Rect::new(
        number % row * CELL_WIDTH,
        number / row * CELL_HEIGHT,
        CELL_WIDTH,
        CELL_HEIGHT,
    )
}

/// The number of the cell that a pixel is in.
pub fn cell_of(x: u32, y: u32) -> u32 {
    y / CELL_HEIGHT * (WIDTH / CELL_WIDTH) + x / CELL_WIDTH
}

/// Whether the core has a 2D engine.
pub fn has_2d(identity: &uapi::QueryChipIdentity) -> bool {
    identity.chip_features & feature::PIPE_2D != 0
}

/// Whether the core has a 3D engine, and with it a resolve engine.
pub fn has_3d(identity: &uapi::QueryChipIdentity) -> bool {
    identity.chip_features & feature::PIPE_3D != 0
}

/// Allocates a command buffer with `stream` at offset 0. Returns the buffer and its record.
pub fn placed(
    device: &Device,
    engine: Engine,
    stream: &Stream,
    bytes: u64,
) -> Result<(Buffer, uapi::CommandBufferRecord)> {
    let buffer = device.allocate_contiguous(bytes)?;
    let record = place(&buffer, 0, engine.pipe(), stream);
    Ok((buffer, record))
}

/// A random generator (xorshift) with reproducible sequences.
#[derive(Clone, Debug)]
pub struct Random(u32);

impl Random {
    /// A generator with a seed.
    pub fn new(seed: u32) -> Self {
        Self(seed | 1)
    }

    /// The next number below `limit`.
    pub fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % limit
    }

    /// A random colour.
    pub fn colour(&mut self) -> u32 {
        self.below(0x10000) << 16 | self.below(0x10000)
    }
}
