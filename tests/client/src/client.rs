// SPDX-License-Identifier: GPL-2.0-only
//! Start-up like a vendor client of the generation, a ring of command buffers, and surfaces.

use crate::device::Buffer;
use crate::device::Device;
use crate::device::Error;
use crate::device::Location;
use crate::device::Memory;
use crate::device::Node;
use crate::device::Result;
use crate::draw::Engine;
use crate::queue::Queue;
use crate::stream::Pipe;
use crate::stream::Stream;
use crate::uapi;
use crate::uapi::Pool;

/// Number of command buffers of a client.
pub const COMMAND_BUFFERS: usize = 4;
/// Size of a command buffer in bytes.
pub const COMMAND_BUFFER_BYTES: u32 = 0x8000;
/// Longest wait for the GPU, in milliseconds. A broken driver gives an error instead of a hang.
pub const WAIT_LIMIT: u32 = 20_000;

#[derive(Debug)]
struct Slot {
    buffer: Buffer,
    memory: CommandMemory,
    /// Auto-reset signal. It is set when the GPU has completed all commands from this buffer.
    signal: i32,
    used: u32,
    pending: bool,
}

/// A surface of A8R8G8B8 pixels, locked for its whole lifetime.
#[derive(Clone, Debug)]
pub struct Surface {
    /// Its video memory node.
    pub node: Node,
    /// Its GPU address and its address in this process.
    pub location: Location,
    /// Its memory, mapped.
    pub memory: Memory,
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes per row.
    pub stride: u32,
}

impl Surface {
    /// Reads a pixel from memory.
    pub fn pixel(&self, x: u32, y: u32) -> u32 {
        self.memory.read((y * self.stride + x * 4) as usize)
    }

    /// Reads all pixels, row by row.
    pub fn pixels(&self) -> Vec<u32> {
        (0..self.height)
            .flat_map(|y| (0..self.width).map(move |x| (x, y)))
            .map(|(x, y)| self.pixel(x, y))
            .collect()
    }

    /// Sets all pixels with the CPU.
    pub fn set_all(&self, colour: u32) {
        self.memory.fill(colour);
    }
}

/// A client that has completed start-up.
#[derive(Debug)]
pub struct Client {
    device: Device,
    version: uapi::Version,
    identity: uapi::QueryChipIdentity,
    base_address: u32,
    pool: Memory,
    context: u32,
    slots: Vec<Slot>,
    current: usize,
    done: i32,
    commits: u64,
}

impl Client {
    /// Opens the device and runs start-up.
    pub fn start() -> Result<Self> {
        Self::with_device(Device::open()?)
    }

    /// Runs start-up on an open device.
    pub fn with_device(device: Device) -> Result<Self> {
        let pool = device.map_pool()?;
        Self::with_pool(device, pool)
    }

    /// Runs start-up on an open device, but maps only the first `bytes` of the pool. This is faster, and enough for a
    /// single client that needs little memory.
    pub fn with_pool_bytes(device: Device, bytes: usize) -> Result<Self> {
        let pool = device.map(bytes, 0)?;
        Self::with_pool(device, pool)
    }

    fn with_pool(device: Device, pool: Memory) -> Result<Self> {
        let version = if device.abi().has("VERSION") {
            device.version()?
        } else {
            Default::default()
        };
        let base_address = device.base_address()?;
        let identity = identity(&device)?;
        let done = device.create_signal(false)?;
        let signals = (0..COMMAND_BUFFERS)
            .map(|_| device.create_signal(false))
            .collect::<Result<Vec<_>>>()?;
        let context = if device.abi().attaches() {
            device.attach()?.context
        } else {
            0
        };
        let slots = signals
            .into_iter()
            .map(|signal| {
                let (buffer, memory) = command_memory(&device, &pool, COMMAND_BUFFER_BYTES)?;
                Ok(Slot {
                    buffer,
                    memory,
                    signal,
                    used: 0,
                    pending: false,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            device,
            version,
            identity,
            base_address,
            pool,
            context,
            slots,
            current: 0,
            done,
            commits: 0,
        })
    }

    /// Whether its command memory contains this GPU address.
    pub fn has_command_memory(&self, address: u32) -> bool {
        self.slots.iter().any(|slot| slot.buffer.has(address))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The answer to VERSION.
    pub fn version(&self) -> &uapi::Version {
        &self.version
    }

    /// The answer to QUERY_CHIP_IDENTITY.
    pub fn identity(&self) -> &uapi::QueryChipIdentity {
        &self.identity
    }

    /// The answer to GET_BASE_ADDRESS.
    pub fn base_address(&self) -> u32 {
        self.base_address
    }

    /// The SYSTEM pool.
    pub fn pool(&self) -> &Memory {
        &self.pool
    }

    /// The context that ATTACH returned.
    pub fn context(&self) -> u32 {
        self.context
    }

    /// Number of command buffers committed so far.
    pub fn commits(&self) -> u64 {
        self.commits
    }

    /// The engine that this core draws pictures with.
    pub fn engine(&self) -> Engine {
        Engine::of(&self.identity)
    }

    /// Creates a surface with all pixels 0.
    pub fn create_surface(&self, width: u32, height: u32) -> Result<Surface> {
        self.create_surface_in(width, height, Pool::DEFAULT)
    }

    /// Creates a surface in a given pool, with all pixels 0.
    pub fn create_surface_in(&self, width: u32, height: u32, pool: Pool) -> Result<Surface> {
        let surface_type = match self.engine().pipe() {
            Pipe::Pipe2d => uapi::surface::BITMAP,
            Pipe::Pipe3d => uapi::surface::RENDER_TARGET,
        };
        let stride = (width * 4).next_multiple_of(64);
        let node = self
            .device
            .allocate(stride * height, 64, surface_type, pool)?;
        let location = self.device.lock(node)?;
        let memory = self.device.memory(node, location, &self.pool)?;
        // The process may have used this memory before; it then still holds old pixels.
        memory.fill(0);
        Ok(Surface {
            node,
            location,
            memory,
            width,
            height,
            stride,
        })
    }

    /// Unlocks and frees a surface. Both take effect after everything committed so far.
    pub fn release_surface(&self, surface: Surface) -> Result<()> {
        let mut queue = Queue::new();
        if self.device.unlock(surface.node)? {
            queue.unlock(surface.node);
        }
        // Newer generations can free in the queue; the driver frees the node after the unlock.
        if self.device.abi().has("FREE_VIDEO_MEMORY") {
            queue.free(surface.node);
            return self.device.commit_queue(&mut queue);
        }
        self.device.free(surface.node)?;
        self.device.commit_queue(&mut queue)
    }

    /// Commits `stream`. The driver runs `queue` after it.
    pub fn commit(&mut self, pipe: Pipe, stream: &Stream, queue: &mut Queue) -> Result<()> {
        let room = uapi::RESERVED_HEAD + stream.bytes() as u32 + uapi::RESERVED_TAIL;
        if room > COMMAND_BUFFER_BYTES {
            return Err(Error::Usage("a stream is larger than a command buffer"));
        }
        if self.slots[self.current].used + room > COMMAND_BUFFER_BYTES {
            self.turn()?;
        }
        let slot = &mut self.slots[self.current];
        let record = place(&slot.buffer, slot.used, pipe, stream);
        self.device.commit(&record, self.context, queue)?;
        slot.used = (record.offset + uapi::RESERVED_TAIL).next_multiple_of(8);
        self.commits += 1;
        Ok(())
    }

    /// Switches to the next command buffer: requests the signal of the full one and waits for the signal of the next
    /// one.
    fn turn(&mut self) -> Result<()> {
        let full = &mut self.slots[self.current];
        self.device.commit_queue(Queue::new().signal(full.signal))?;
        full.pending = true;
        self.current = (self.current + 1) % self.slots.len();
        let next = &mut self.slots[self.current];
        if next.pending {
            self.device.wait_signal(next.signal, WAIT_LIMIT)?;
            next.pending = false;
        }
        next.used = 0;
        Ok(())
    }

    /// Waits until the GPU has completed everything committed so far.
    pub fn finish(&self) -> Result<()> {
        self.device.commit_queue(Queue::new().signal(self.done))?;
        self.device.wait_signal(self.done, WAIT_LIMIT)
    }

    /// Commits `stream` and waits for the signal that follows it.
    pub fn run(&mut self, pipe: Pipe, stream: &Stream) -> Result<()> {
        let done = self.done;
        self.commit(pipe, stream, Queue::new().signal(done))?;
        self.device.wait_signal(done, WAIT_LIMIT)
    }
}

impl Drop for Client {
    /// Releases the resources of start-up. Mappings of command buffers would otherwise keep the file open.
    fn drop(&mut self) {
        // An error cannot be reported from here.
        for slot in &self.slots {
            let _ = slot.memory.free(&self.device, &slot.buffer);
            let _ = self.device.destroy_signal(slot.signal);
        }
        let _ = self.device.destroy_signal(self.done);
        if self.context != 0 {
            let _ = self.device.detach(self.context);
        }
    }
}

/// QUERY_CHIP_IDENTITY. If its answer lacks the feature words, they come from CHIP_INFO.
fn identity(device: &Device) -> Result<uapi::QueryChipIdentity> {
    let mut identity = device.identity()?;
    let abi = device.abi();
    if abi.field("QueryChipIdentity", "chipFeatures").is_none() {
        let is = |name: &str| abi.values.get(name) == Some(&device.hardware_type());
        if is("HARDWARE_2D") || is("HARDWARE_3D2D") {
            identity.chip_features |= uapi::feature::PIPE_2D;
        }
        if is("HARDWARE_3D") || is("HARDWARE_3D2D") {
            identity.chip_features |= uapi::feature::PIPE_3D;
        }
    }
    Ok(identity)
}

/// The kind of memory that holds commands.
#[derive(Clone, Copy, Debug)]
pub enum CommandMemory {
    /// A contiguous buffer.
    Contiguous,
    /// A virtual command buffer.
    Virtual,
    /// A node.
    Node(Node),
}

impl CommandMemory {
    /// Frees it.
    pub fn free(self, device: &Device, buffer: &Buffer) -> Result<()> {
        match self {
            CommandMemory::Contiguous => device.free_contiguous(buffer),
            CommandMemory::Virtual => device.free_commands(buffer),
            CommandMemory::Node(node) => {
                device.unlock_all(node)?;
                device.free(node)
            }
        }
    }
}

/// Allocates `bytes` bytes of command memory. The kind is the only one that the vendor's driver of the generation
/// executes: a contiguous buffer up to 4.6.9, a virtual command buffer in 5.0.11 and 6.2, a node from 6.4 on.
pub fn command_memory(
    device: &Device,
    pool: &Memory,
    bytes: u32,
) -> Result<(Buffer, CommandMemory)> {
    let abi = device.abi();
    if abi.has("RELEASE_VIDEO_MEMORY") && abi.has("ALLOCATE_VIRTUAL_COMMAND_BUFFER") {
        let buffer = device.allocate_commands(bytes.into())?;
        return Ok((buffer, CommandMemory::Virtual));
    }
    if abi.has("ALLOCATE_CONTIGUOUS_MEMORY") {
        let buffer = device.allocate_contiguous(bytes.into())?;
        return Ok((buffer, CommandMemory::Contiguous));
    }
    // Type COMMAND: the memory types that are not surfaces follow the last surface type.
    let kind = abi.values["SURF_NUM_TYPES"];
    let node = device.allocate(bytes, 64, kind, Pool::DEFAULT)?;
    let location = device.lock(node)?;
    let buffer = Buffer {
        // Handles are 32-bit.
        physical: node.handle as u32,
        address: location.address,
        bytes: bytes.into(),
        logical: location.logical,
        memory: device.memory(node, location, pool)?,
    };
    Ok((buffer, CommandMemory::Node(node)))
}

/// Writes `stream` into `buffer`, after the reserved head at `start`. Returns the record that commits it.
pub fn place(
    buffer: &Buffer,
    start: u32,
    pipe: Pipe,
    stream: &Stream,
) -> uapi::CommandBufferRecord {
    let first = start + uapi::RESERVED_HEAD;
    for (index, word) in stream.words().iter().enumerate() {
        buffer.memory.write(first as usize + index * 4, *word);
    }
    let offset = first + stream.bytes() as u32;
    uapi::CommandBufferRecord {
        object: uapi::OBJECT_COMMAND_BUFFER,
        entry_pipe: pipe.number(),
        exit_pipe: pipe.number(),
        using_2d: (pipe == Pipe::Pipe2d).into(),
        using_3d: (pipe == Pipe::Pipe3d).into(),
        physical: buffer.physical,
        logical: buffer.logical,
        bytes: buffer.bytes as u32,
        start_offset: start,
        offset,
        free: (buffer.bytes as u32).saturating_sub(offset + uapi::RESERVED_TAIL),
        address: buffer.address,
        ..Default::default()
    }
}
