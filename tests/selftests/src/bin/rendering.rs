// SPDX-License-Identifier: GPL-2.0-only
//! The small rendering test of the project's original notes ("Anatomy of a small rendering test"): the requests of a 3D
//! library from open to the picture, in its order and with its sizes. It runs in the trace's own generation, whose
//! contexts lie in the client's memory, and in a later one.
//!
//! In place of drawing a triangle, the test resolves the vertex buffer's memory into the render target, super-tiled,
//! and updates the tile status as the pixel engine does. Everything else matches a real client: fast clears by tile
//! status, an auxiliary target, a resolve that reads both, and four command buffers in turn.

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::state;
use galcore_client::stream::point;
use galcore_client::stream::Pipe;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Suite;
use galcore_selftests::system::ProcGc;

/// The picture's size in pixels, and its size rounded up to 64 x 64 super tiles.
const SIZE: (u32, u32) = (400, 240);
const PADDED: (u32, u32) = (448, 256);
/// Bytes of the command buffers.
const COMMANDS: u64 = 0x8000;
/// The drawn part: width and rows of the vertex buffer's memory, and its first row in the target.
const DRAWN: (u32, u32) = (384, 64);
const DRAWN_AT: u32 = 64;
/// The auxiliary target's place in the picture.
const AUX_AT: (u32, u32) = (320, 160);
const AUX: u32 = 64;
/// Status of cleared tiles, with two bits per tile, and with four.
const CLEARED: [u32; 2] = [0x5555_5555, 0x1111_1111];
const PATIENCE: u32 = 10_000;
/// Each command buffer twice, plus one.
const FRAMES: u32 = 9;

const TS_FLUSH_CACHE: u32 = 0x1650;
const TS_MEM_CONFIG: u32 = 0x1654;
const TS_COLOR_STATUS_BASE: u32 = 0x1658;
const COLOR_FAST_CLEAR: u32 = 1 << 1;
/// Memory controller 2.0, in the first word of minor features: tile status uses GPU addresses.
const MINOR0_MC20: u32 = 1 << 22;

/// Tile status has two bits per tile, otherwise four. In the same word.
const MINOR0_2BITPERTILE: u32 = 1 << 10;

/// Locked video memory.
struct Surface {
    node: Node,
    address: u32,
    memory: Memory,
}

/// Source or target of a resolve.
#[derive(Clone, Copy)]
enum Place {
    /// Linear, with the number of 32-bit pixels per row.
    Linear(u32, u32),
    /// Super tiles, with the width in pixels.
    Supertiled(u32, u32),
}

impl Place {
    fn address(self) -> u32 {
        let (Place::Linear(address, _) | Place::Supertiled(address, _)) = self;
        address
    }

    fn stride(self) -> u32 {
        match self {
            Place::Linear(_, width) => width * 4,
            Place::Supertiled(_, width) => 1 << 31 | width * 16,
        }
    }

    fn tiled(self, bit: u32) -> u32 {
        match self {
            Place::Linear(..) => 0,
            Place::Supertiled(..) => 1 << bit,
        }
    }
}

/// Resolves a window. If `source` is `None`, fills it with the color.
fn resolve(stream: &mut Stream, source: Option<Place>, dest: Place, size: (u32, u32), colour: u32) {
    let from = source.unwrap_or(dest);
    let format = state::FORMAT_A8R8G8B8;
    let clear = source.map_or(state::CLEAR_CONTROL_FILL, |_| 0);
    stream
        .flush(Pipe::Pipe3d)
        .stall()
        .state(
            state::RS_CONFIG,
            format << 8 | format | from.tiled(7) | dest.tiled(14),
        )
        .state(state::RS_SOURCE_ADDR, from.address())
        .state(state::RS_SOURCE_STRIDE, from.stride())
        .state(state::RS_DEST_ADDR, dest.address())
        .state(state::RS_DEST_STRIDE, dest.stride())
        .state(state::RS_WINDOW_SIZE, point(size.0, size.1))
        .states(state::RS_DITHER, &[u32::MAX; 2])
        .state(state::RS_CLEAR_CONTROL, clear)
        .states(state::RS_FILL_VALUE, &[colour; 4])
        .state(state::RS_EXTRA_CONFIG, 0)
        .state(state::RS_KICKER, state::RS_KICK);
}

/// The client and its resources.
struct Renderer {
    device: Device,
    pool: Memory,
    /// 0 in a generation without ATTACH.
    context: u32,
    /// Difference between physical and GPU addresses on a core whose tile status uses physical ones, otherwise 0.
    status_base: u32,
    /// Bit pairs of status per tile: 1 or 2. The sizes in the notes are for 1.
    status_size: u32,
    buffers: Vec<(Buffer, i32, bool)>,
    done: i32,
}

impl Renderer {
    /// Open, queries, the pool, signals, and the command buffers A to D.
    fn start(abi: &'static Abi) -> Result<Self> {
        let device = Device::open_as(abi, true)?;
        let base = device.base_address()?;
        let identity = device.identity()?;
        let signals = (0..4)
            .map(|_| device.create_signal(false))
            .collect::<Result<Vec<_>, _>>()?;
        let done = device.create_signal(false)?;
        let told = device.video_memory()?;
        let pool = device.map_pool()?;
        same("pool", pool.len() as u64, told.contiguous_size)?;
        let context = if abi.attaches() {
            device.attach()?.context
        } else {
            0
        };
        let buffers = signals
            .into_iter()
            .map(|signal| Ok((device.allocate_contiguous(COMMANDS)?, signal, false)))
            .collect::<Result<Vec<_>>>()?;
        let is_translated = identity.chip_minor_features & MINOR0_MC20 != 0;
        Ok(Self {
            device,
            pool,
            context,
            status_base: if is_translated { 0 } else { base },
            status_size: match identity.chip_minor_features & MINOR0_2BITPERTILE {
                0 => 2,
                _ => 1,
            },
            buffers,
            done,
        })
    }

    fn surface(&self, bytes: u32, kind: u32) -> Result<Surface> {
        let node = self.device.allocate(bytes, 64, kind, Pool::DEFAULT)?;
        let location = self.device.lock(node)?;
        same("alignment", location.address % 64, 0)?;
        Ok(Surface {
            node,
            address: location.address,
            memory: self.device.memory(node, location, &self.pool)?,
        })
    }

    /// Commits `stream` in the next command buffer, after the GPU has finished with its old contents.
    fn commit(&mut self, stream: &Stream) -> Result<()> {
        self.buffers.rotate_left(1);
        let (buffer, signal, is_pending) = &mut self.buffers[0];
        if std::mem::replace(is_pending, true) {
            self.device.wait_signal(*signal, PATIENCE)?;
        }
        let record = place(buffer, 0, Pipe::Pipe3d, stream);
        self.device
            .commit(&record, self.context, Queue::new().signal(*signal))?;
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        self.device.commit_queue(Queue::new().signal(self.done))?;
        Ok(self.device.wait_signal(self.done, PATIENCE)?)
    }

    /// Releases everything, memory only after the last draw.
    fn end(self, surfaces: Vec<Surface>) -> Result<()> {
        let mut queue = Queue::new();
        for surface in surfaces {
            if self.device.unlock(surface.node)? {
                queue.unlock(surface.node);
            }
            queue.free(surface.node);
        }
        self.device.commit_queue(&mut queue)?;
        self.finish()?;
        for (buffer, signal, _) in self.buffers {
            self.device.free_contiguous(&buffer)?;
            self.device.destroy_signal(signal)?;
        }
        self.device.destroy_signal(self.done)?;
        if self.device.abi().attaches() {
            self.device.detach(self.context)?;
        }
        Ok(())
    }
}

/// The colors of a frame: clear color, auxiliary target, and the drawn part.
fn colours(frame: u32) -> (u32, u32, impl Fn(u32, u32) -> u32) {
    let drawn = move |x: u32, y: u32| 0xff00_0000 | frame << 20 | y << 12 | x;
    (0xff20_3040 + frame, 0xff80_0000 + frame, drawn)
}

fn render(renderer: &mut Renderer) -> Result<Vec<Surface>> {
    let bytes = PADDED.0 * PADDED.1 * 4;
    same("bytes of the render target", bytes, 0x70000)?;
    let size = renderer.status_size;
    let cleared = CLEARED[size as usize - 1];
    // E to K, in order.
    let target = renderer.surface(0x70000, surface::RENDER_TARGET)?;
    let status = renderer.surface(0x700 * size, surface::TILE_STATUS)?;
    let depth = renderer.surface(0x38000, surface::DEPTH)?;
    let depth_status = renderer.surface(0x400 * size, surface::TILE_STATUS)?;
    let vertices = renderer.surface(0x60000, surface::VERTEX)?;
    let aux = renderer.surface(0x4000, surface::RENDER_TARGET)?;
    let aux_status = renderer.surface(0x100 * size, surface::TILE_STATUS)?;
    let screen = renderer.surface(SIZE.0 * SIZE.1 * 4, surface::BITMAP)?;
    // These values must stay invisible where the tile status is "cleared".
    target.memory.fill(0x0bad_0001);
    aux.memory.fill(0x0bad_0002);
    let at = |surface: &Surface| renderer.status_base + surface.address;
    let fast_clear = |stream: &mut Stream, status: &Surface, of: &Surface, colour: u32| {
        stream
            .flush(Pipe::Pipe3d)
            .stall()
            .state(TS_FLUSH_CACHE, 1)
            .states(TS_COLOR_STATUS_BASE, &[at(status), at(of), colour])
            .state(TS_MEM_CONFIG, COLOR_FAST_CLEAR);
    };
    let mut frames = Vec::new();
    for frame in 0..FRAMES {
        let (clear, aux_clear, _) = colours(frame);
        // 1: clear the render target, depth, and the auxiliary target through tile status alone.
        let mut first = Stream::new();
        for (surface, rows) in [(&status, 28), (&depth_status, 16), (&aux_status, 4)] {
            let place = Place::Linear(surface.address, 16);
            resolve(&mut first, None, place, (16, rows * size), cleared);
        }
        // 2: draw to the target, whose tiles are then not clear any more.
        let mut second = Stream::new();
        let row = PADDED.0 * DRAWN_AT * 4;
        resolve(
            &mut second,
            Some(Place::Linear(vertices.address, DRAWN.0)),
            Place::Supertiled(target.address + row, PADDED.0),
            DRAWN,
            0,
        );
        // 64 or 128 bytes of status per super tile.
        let drawn = status.address + row / (64 * 4) * size;
        for tiles in [0, 2] {
            let place = Place::Linear(drawn + tiles * 64 * size, 16);
            resolve(&mut second, None, place, (16, 4 * size), 0);
        }
        // 3: compose the picture from the target and the auxiliary target.
        let mut third = Stream::new();
        fast_clear(&mut third, &status, &target, clear);
        let source = Place::Supertiled(target.address, PADDED.0);
        let place = Place::Linear(screen.address, SIZE.0);
        resolve(&mut third, Some(source), place, SIZE, 0);
        let mut fourth = Stream::new();
        fast_clear(&mut fourth, &aux_status, &aux, aux_clear);
        let source = Place::Supertiled(aux.address, AUX);
        let corner = screen.address + (AUX_AT.1 * SIZE.0 + AUX_AT.0) * 4;
        let place = Place::Linear(corner, SIZE.0);
        resolve(&mut fourth, Some(source), place, (AUX, AUX), 0);
        fourth.flush(Pipe::Pipe3d).stall().state(TS_MEM_CONFIG, 0);
        frames.push([first, second, third, fourth]);
    }
    for (frame, streams) in (0..).zip(&frames) {
        let (clear, aux_clear, drawn) = colours(frame);
        for y in 0..DRAWN.1 {
            for x in 0..DRAWN.0 {
                vertices
                    .memory
                    .write(((y * DRAWN.0 + x) * 4) as usize, drawn(x, y));
            }
        }
        for stream in streams {
            let mut stream = stream.clone();
            stream.flush(Pipe::Pipe3d);
            renderer.commit(&stream)?;
        }
        renderer.finish()?;
        let is_aux = |x: u32, y: u32| {
            (AUX_AT.0..AUX_AT.0 + AUX).contains(&x) && (AUX_AT.1..AUX_AT.1 + AUX).contains(&y)
        };
        let rows = DRAWN_AT..DRAWN_AT + DRAWN.1;
        for y in 0..SIZE.1 {
            for x in 0..SIZE.0 {
                let wanted = match () {
                    _ if is_aux(x, y) => aux_clear,
                    _ if rows.contains(&y) && x < DRAWN.0 => drawn(x, y - DRAWN_AT),
                    _ => clear,
                };
                let found = screen.memory.read(((y * SIZE.0 + x) * 4) as usize);
                ensure!(
                    found == wanted,
                    "frame {frame}: ({x}, {y}) is {found:#010x}, should be {wanted:#010x}"
                );
            }
        }
    }
    let all = vec![
        target,
        status,
        depth,
        depth_status,
        vertices,
        aux,
        aux_status,
        screen,
    ];
    Ok(all)
}

/// The whole test in one generation.
fn tests(suite: &mut Suite<'_>, abi: &'static Abi, before: ([u64; 3], u64)) {
    let name = abi.name;
    let drawn = Rc::new(RefCell::new(None));
    let owner = drawn.clone();
    suite.test(
        format!("{name}: every pixel of nine frames is as drawn"),
        move || {
            let mut renderer = Renderer::start(abi)?;
            let control = Control::open()?;
            let resolves = control.counters().resolves;
            let surfaces = render(&mut renderer)?;
            drawn.replace(Some((renderer, surfaces)));
            // Each frame: three clears, the draw and its status twice, and two for the picture. If another process used
            // the core before, also clears of scratch memory.
            let done = control.counters().resolves - resolves;
            let more = done.checked_sub(u64::from(FRAMES) * 8);
            ensure!(matches!(more, Some(0 | 1)), "{done} resolves");
            Ok(())
        },
    );
    suite.test(
        format!("{name}: all that it had is given back"),
        move || {
            let (renderer, surfaces) = owner.take().context("there is a renderer")?;
            renderer.end(surfaces)?;
            same("what is left", ProcGc::nothing_left()?, before)
        },
    );
}

fn main() -> ExitCode {
    harness::program(|| {
        let identity = Device::open()?.identity()?;
        if !has_3d(&identity) || identity.pixel_pipes > 1 {
            return skip("not a 3D core with one pixel pipe");
        }
        let before = ProcGc::nothing_left()?;
        let mut suite = Suite::new();
        for name in ["v2", "4.0.0"] {
            tests(&mut suite, Abi::named(name).context(name)?, before);
        }
        suite.run()
    })
}
