// SPDX-License-Identifier: GPL-2.0-only
//! Draws the object with a 3D core: shaders, states, and the way of a frame from the picture to the core and back.
//!
//! Each commit sets every state that it needs, so it does not depend on earlier work.

use gpu_isa::assemble;

use super::texture;
use super::vertices;
use super::View;
use super::SIDE;
use super::TEXELS;
use crate::client::Client;
use crate::client::Surface;
use crate::device::Error;
use crate::device::Location;
use crate::device::Memory;
use crate::device::Node;
use crate::device::Result;
use crate::queue::Queue;
use crate::state;
use crate::stream::point;
use crate::stream::Pipe;
use crate::stream::Stream;
use crate::uapi::feature;
use crate::uapi::surface;
use crate::uapi::Pool;
use crate::uapi::QueryChipIdentity;

/// Bytes of the color buffer, and of the depth buffer.
const BYTES: u32 = SIDE * SIDE * 4;
/// Bytes of a vertex.
const VERTEX: u32 = 32;
/// States that the front end converts from 16.16 fixed point.
const FIXED: [u32; 8] = [
    0x0a00, 0x0a04, 0x0a0c, 0x0a10, 0x0c00, 0x0c04, 0x0c08, 0x0c0c,
];

/// Rotates x, y, and z of position and normal by the rows of a matrix. The outputs are the position with a w for the
/// distance, and light, u, and v. An instruction reads at most one constant.
const VERTEX_SHADER: &str = "\
    dp3 t2.x___, t0, u0
    dp3 t2._y__, t0, u1
    dp3 t2.__z_, t0, u2
    dp3 t3.x___, t1, u3
    select.lt t3.x___, t3, u4, t3
    add t3.x___, t3, u5
    mov t3._y__, t0.wwww
    mov t3.__z_, t1.wwww
    mov t1, t3
    mov t3, u7
    mad t0, t2.xyzz, u6, t3";

/// Multiplies the texture by the light. The output is in t1.
const PIXEL_SHADER: &str = "\
    texld t2, tex0.xyzw, t1.yzzz, void, void
    mul t1.xyz_, t2, t1.xxxx
    mov t1.___w, u0";

/// Cores with known states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// GC600.
    Gc600,
    /// GC880.
    Gc880,
    /// GC2000. Its two pixel pipes share each surface.
    Gc2000,
    /// GC3000, which identifies itself as GC2000.
    Gc3000,
}

impl Core {
    /// The core, if it draws in 3D and its states are known.
    pub fn of(identity: &QueryChipIdentity) -> Option<Self> {
        if identity.chip_features & feature::PIPE_3D == 0 {
            return None;
        }
        match (identity.chip_model, identity.chip_revision & 0xffff) {
            (0x600, _) => Some(Self::Gc600),
            (0x880, _) => Some(Self::Gc880),
            (0x2000, 0x5450..) | (0x3000, _) => Some(Self::Gc3000),
            (0x2000, _) => Some(Self::Gc2000),
            _ => None,
        }
    }

    /// Number of pixel pipes.
    const fn pipes(self) -> u32 {
        match self {
            Self::Gc600 | Self::Gc880 => 1,
            Self::Gc2000 | Self::Gc3000 => 2,
        }
    }

    const fn is_split(self) -> bool {
        matches!(self, Self::Gc2000)
    }

    const fn has_supertiles(self) -> bool {
        !matches!(self, Self::Gc600)
    }

    /// State addresses of a shader's constants, code, length, and first instruction.
    const fn stage(self, is_pixel: bool) -> [u32; 4] {
        match (self, is_pixel) {
            (Self::Gc600, false) => [0x5000, 0x4000, 0x0800, 0],
            (Self::Gc600, true) => [0x7000, 0x6000, 0x1000, 0],
            (Self::Gc3000, false) => [0x3_0000, 0xc000, 0x085c, 0],
            (Self::Gc3000, true) => [0x3_0800, 0xd000, 0x101c, 0x100],
            (_, false) => [0x5000, 0xc000, 0x085c, 0],
            (_, true) => [0x7000, 0xd000, 0x101c, 0x100],
        }
    }
}

/// Locked video memory.
#[derive(Debug)]
struct Area {
    node: Node,
    location: Location,
    memory: Memory,
}

impl Area {
    fn new(client: &Client, bytes: u32, kind: u32) -> Result<Self> {
        let device = client.device();
        let node = device.allocate(bytes, 256, kind, Pool::DEFAULT)?;
        let location = device.lock(node)?;
        let memory = device.memory(node, location, client.pool())?;
        Ok(Self {
            node,
            location,
            memory,
        })
    }

    fn address(&self) -> u32 {
        self.location.address
    }

    fn release(self, client: &Client) -> Result<()> {
        let Self {
            node,
            location,
            memory,
        } = self;
        client.release_surface(Surface {
            node,
            location,
            memory,
            width: SIDE,
            height: SIDE,
            stride: SIDE * 4,
        })
    }
}

/// Source or destination of a resolve.
#[derive(Clone, Copy, Debug)]
enum Side {
    /// Rows: start address and stride.
    Rows(u32, u32),
    /// The render target.
    Target(u32),
}

/// Memory for drawing the object.
#[derive(Debug)]
pub struct Turner {
    core: Core,
    colour: Area,
    depth: Area,
    vertices: Area,
    texture: Area,
    triangles: u32,
}

impl Turner {
    /// Allocates the memory on the client's core. `None` if the core does not draw in 3D or is not known.
    pub fn new(client: &Client) -> Result<Option<Self>> {
        let Some(core) = Core::of(client.identity()) else {
            return Ok(None);
        };
        let list = vertices();
        let turner = Self {
            core,
            colour: Area::new(client, BYTES, surface::RENDER_TARGET)?,
            depth: Area::new(client, BYTES, surface::DEPTH)?,
            vertices: Area::new(client, VERTEX * list.len() as u32, surface::VERTEX)?,
            texture: Area::new(client, TEXELS * TEXELS * 4, surface::TEXTURE)?,
            triangles: list.len() as u32 / 3,
        };
        let floats = list
            .iter()
            .flat_map(|vertex| vertex.place.into_iter().chain(vertex.normal));
        for (at, value) in floats.enumerate() {
            turner.vertices.memory.write(4 * at, value.to_bits());
        }
        // Texels are in tiles of 4 x 4.
        for (at, texel) in texture().into_iter().enumerate() {
            let (x, y) = (at % TEXELS as usize, at / TEXELS as usize);
            let tile = y / 4 * (TEXELS as usize / 4) + x / 4;
            let inside = y % 4 * 4 + x % 4;
            turner.texture.memory.write(4 * (16 * tile + inside), texel);
        }
        Ok(Some(turner))
    }

    /// Triangles per frame, including invisible ones.
    pub fn triangles(&self) -> u32 {
        self.triangles
    }

    /// Draws a frame over the contents of `backdrop`, stores it in `frame`, and then sends a signal. Both surfaces
    /// have the size of a frame.
    pub fn draw(
        &self,
        client: &mut Client,
        view: &View,
        backdrop: &Surface,
        frame: &Surface,
        queue: &mut Queue,
    ) -> Result<()> {
        let rows = |surface: &Surface| Side::Rows(surface.location.address, surface.stride);
        let target = Side::Target(self.colour.address());
        let mut stream = Stream::new();
        self.clear_depth(&mut stream);
        self.resolve(&mut stream, rows(backdrop), target);
        // The shaders read memory that others wrote.
        stream
            .state(state::FLUSH_CACHE, state::FLUSH_3D | state::FLUSH_TEXTURES)
            .stall();
        self.states(&mut stream);
        self.shaders(&mut stream, view)?;
        stream.raw(&[0x2800_0000, 4, 0, self.triangles]);
        stream.flush(Pipe::Pipe3d).stall();
        self.resolve(&mut stream, target, rows(frame));
        if self.core == Core::Gc3000 {
            // Restore the value that other streams use.
            stream.state(state::RS_SINGLE_BUFFER, 0);
        }
        stream.flush(Pipe::Pipe3d);
        client.commit(Pipe::Pipe3d, &stream, queue)
    }

    /// Sets the depth buffer to the farthest depth.
    fn clear_depth(&self, stream: &mut Stream) {
        let rows = Side::Rows(self.depth.address(), SIDE * 4);
        self.window(stream, rows, rows);
        stream
            .state(state::RS_CLEAR_CONTROL, state::CLEAR_CONTROL_FILL)
            .states(state::RS_FILL_VALUE, &[0xffff_ff00; 4])
            .state(state::RS_EXTRA_CONFIG, 0)
            .state(state::RS_KICKER, state::RS_KICK);
    }

    /// Copies a frame between rows and the target.
    fn resolve(&self, stream: &mut Stream, from: Side, to: Side) {
        self.window(stream, from, to);
        stream
            .state(state::RS_CLEAR_CONTROL, 0)
            .state(state::RS_EXTRA_CONFIG, 0)
            .state(state::RS_KICKER, state::RS_KICK);
    }

    /// Sets addresses and window of the resolve engine. Pipes that share a surface process half of the rows each.
    fn window(&self, stream: &mut Stream, from: Side, to: Side) {
        let split = u32::from(self.core.is_split());
        // With a single buffer for both pipes, the first pipe does all rows.
        let rows = SIDE >> split;
        let super_tiled = u32::from(self.core.has_supertiles());
        let side = |side| match side {
            Side::Rows(address, stride) => ([address; 2], stride, 0),
            Side::Target(address) => (
                [address, address + split * BYTES / 2],
                // Stride of a row of tiles.
                SIDE * 16 | super_tiled << 31 | split << 30,
                1,
            ),
        };
        let (sources, source_stride, is_source_tiled) = side(from);
        let (dests, dest_stride, is_dest_tiled) = side(to);
        let format = state::FORMAT_A8R8G8B8;
        stream
            .state(
                state::RS_CONFIG,
                format | format << 8 | is_source_tiled << 7 | is_dest_tiled << 14,
            )
            .state(state::RS_SOURCE_STRIDE, source_stride)
            .state(state::RS_DEST_STRIDE, dest_stride)
            .states(state::RS_DITHER, &[u32::MAX; 2])
            .state(state::RS_WINDOW_SIZE, point(SIDE, rows));
        if self.core.pipes() == 1 {
            stream
                .state(state::RS_SOURCE_ADDR, sources[0])
                .state(state::RS_DEST_ADDR, dests[0]);
        } else {
            stream
                .states(state::RS_PIPE_SOURCE_ADDR, &sources)
                .states(state::RS_PIPE_DEST_ADDR, &dests)
                .states(state::RS_PIPE_OFFSET, &[0, point(0, split * rows)]);
        }
        if self.core == Core::Gc3000 {
            stream.state(state::RS_SINGLE_BUFFER, 1);
        }
    }

    /// All states of a draw except those of the shaders.
    fn states(&self, stream: &mut Stream) {
        let core = self.core;
        let split = u32::from(core.is_split()) * BYTES / 2;
        let super_tiled = u32::from(core.has_supertiles());
        let (colour, depth) = (self.colour.address(), self.depth.address());
        let vertices = self.vertices.address();
        // Two elements of four floats each, in one stream.
        stream.state(0x0600, 16 << 24 | 8);
        stream.state(0x0604, 32 << 24 | 16 << 16 | 1 << 7 | 8);
        let (address, stride) = match core {
            Core::Gc600 => (0x064c, 0x0650),
            Core::Gc3000 => (0x1_4600, 0x1_4640),
            _ => (0x0680, 0x06a0),
        };
        stream.state(address, vertices).state(stride, VERTEX);
        if core.pipes() == 1 {
            stream.state(0x1430, colour).state(0x1410, depth);
        } else {
            stream.states(0x1460, &[colour, colour + split]);
            stream.states(0x1480, &[depth, depth + split]);
        }
        let single = if core == Core::Gc3000 { 0x200 } else { 0 };
        for (address, value) in [
            // Position and three components of a varying. Back faces are culled.
            (0x0a28, 0x11),
            (0x0a34, 1 << 16 | 2 << 12 | 2 << 8),
            (0x3820, 4),
            // 24-bit depth; the nearer pixel wins.
            (0x1400, 1 << 12 | 1 << 8 | 1 << 4 | 1 | super_tiled << 26),
            (0x1414, SIDE * 4),
            (0x1418, 0),
            (0x141c, 0),
            (0x1420, 0),
            (0x1428, 0),
            (0x142c, 6 | 0xf << 8 | super_tiled << 20),
            (0x1434, SIDE * 4),
            (0x14a4, 0xe_400c | single),
        ] {
            stream.state(address, value);
        }
        self.sampler(stream);
        let half = SIDE as f32 / 2.0;
        let edge = SIDE as f32 + 0.0625;
        for (address, value) in [
            (0x0a00, half),
            (0x0a04, half),
            (0x0a08, 1.0),
            (0x0a0c, half),
            (0x0a10, half),
            (0x0a14, 0.0),
            (0x0c00, 0.0),
            (0x0c04, 0.0),
            (0x0c08, edge),
            (0x0c0c, edge),
        ] {
            if FIXED.contains(&address) {
                let value = (value * 65536.0) as i32 as u32;
                stream.raw(&[0x0c01_0000 | address / 4, value])
            } else {
                stream.state(address, value.to_bits())
            };
        }
    }

    /// Sets the sampler: linear filter, repeated horizontally, one level.
    fn sampler(&self, stream: &mut Stream) {
        let log = TEXELS.ilog2() << 5;
        let values = [
            7 << 13 | 2 << 11 | 2 << 7 | 2 << 5 | 2,
            point(TEXELS, TEXELS),
            log << 10 | log,
            0,
            // Components without swizzle.
            3 << 20 | 2 << 16 | 1 << 12,
            self.texture.address(),
        ];
        let addresses = match self.core {
            Core::Gc3000 => [0x1_0000, 0x1_0080, 0x1_0100, 0x1_0180, 0x1_0380, 0x1_0800],
            _ => [0x2000, 0x2040, 0x2080, 0x20c0, 0x21c0, 0x2400],
        };
        for (address, value) in addresses.into_iter().zip(values) {
            stream.state(address, value);
        }
    }

    /// Loads the shaders and their constants.
    fn shaders(&self, stream: &mut Stream, view: &View) -> Result<()> {
        let core = self.core;
        if core == Core::Gc3000 {
            stream.state(0x0864, 0).state(0x1024, 0x80);
        }
        for (is_pixel, text) in [(false, VERTEX_SHADER), (true, PIXEL_SHADER)] {
            let [_, code, range, first] = core.stage(is_pixel);
            let words = assemble(text).map_err(|_| Error::Usage("a shader is wrong"))?;
            let count = words.len() as u32 / 4;
            let value = match core {
                Core::Gc600 => count,
                _ => (first + count - 1) << 16 | first,
            };
            stream.state(range, value).states(code, &words);
        }
        for (address, value) in [
            // Outputs, inputs, temporaries of the vertex shader, and their registers.
            (0x0804, 2),
            (0x0808, 2),
            (0x080c, 4),
            (0x0810, 0x0100),
            (0x0820, 0x0100),
            (0x0838, 0),
            // Output, inputs, temporaries of the pixel shader.
            (0x1004, 1),
            (0x1008, 2),
            (0x100c, 4),
            (0x1018, 0),
        ] {
            stream.state(address, value);
        }
        let row = |at: usize| {
            let [x, y, z] = view.rows[at];
            [x, y, z, 0.0]
        };
        // Maps z to depth. Half of the range is sufficient. A GC600 takes z from 0 on, the others from -w.
        let (depth, near) = match core {
            Core::Gc600 => (0.25, 0.5),
            _ => (0.5, 0.0),
        };
        let [x, y, z] = view.light;
        let constants = [
            row(0),
            row(1),
            row(2),
            [x, y, z, 0.0],
            [0.0; 4],
            [view.ambient; 4],
            [view.scale, view.scale, depth, view.perspective],
            [0.0, 0.0, near, 1.0],
        ];
        let words = |list: &[[f32; 4]]| -> Vec<u32> {
            list.iter().flatten().map(|value| value.to_bits()).collect()
        };
        stream.states(core.stage(false)[0], &words(&constants));
        stream.states(core.stage(true)[0], &words(&[[1.0; 4]]));
        Ok(())
    }

    /// Frees the memory.
    pub fn release(self, client: &Client) -> Result<()> {
        for area in [self.colour, self.depth, self.vertices, self.texture] {
            area.release(client)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shaders_are_right() {
        for (text, count) in [(VERTEX_SHADER, 11), (PIXEL_SHADER, 3)] {
            assert_eq!(assemble(text).unwrap().len(), 4 * count);
        }
    }

    #[test]
    fn cores_are_told_apart() {
        let core = |chip_features, chip_model, chip_revision| {
            Core::of(&QueryChipIdentity {
                chip_features,
                chip_model,
                chip_revision,
                ..Default::default()
            })
        };
        let with_3d = feature::PIPE_3D;
        assert_eq!(core(with_3d, 0x600, 0x19), Some(Core::Gc600));
        assert_eq!(core(with_3d, 0x880, 0x5106), Some(Core::Gc880));
        assert_eq!(core(with_3d, 0x2000, 0x5108), Some(Core::Gc2000));
        assert_eq!(core(with_3d, 0x2000, 0xffff_5450), Some(Core::Gc3000));
        assert_eq!(core(with_3d, 0x7000, 0x6214), None);
        assert_eq!(core(feature::PIPE_2D, 0x320, 0x5007), None);
    }
}
