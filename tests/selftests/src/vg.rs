// SPDX-License-Identifier: GPL-2.0-only
//! A client of the vector graphics core, with the structures of 4.6.9 and a target to draw on.

use anyhow::Context as _;
use anyhow::Result;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Pool;
use galcore_client::Device;

use crate::control::Control;
use crate::harness::same;
use crate::harness::same_word;
use crate::system;

/// `gcvHARDWARE_VG` of 4.6.9.
pub const VG: u32 = 4;

/// Width and height of a target in pixels.
pub const SIDE: u32 = 64;
/// Bytes of a row of a target.
pub const STRIDE: u32 = 4 * SIDE;

/// Bytes of the node that contains the command buffers.
pub const COMMAND_BYTES: u32 = 256 * 1024;
/// Bytes from the header of a buffer to its commands.
pub const HEAD: u32 = 64;

/// Interrupt number of END.
pub const END: u32 = 13;

/// Block number of the front end.
pub const COMMAND: usize = 0;
/// Block number of the tessellator.
pub const TESSELLATOR: usize = 1;
/// Block number of the drawing engine.
pub const DRAWING: usize = 5;
/// Block number of the pixel engine.
pub const PIXEL: usize = 8;

/// `gcvSTATUS_OK`.
pub const OK: i32 = 0;
/// `gcvSTATUS_INVALID_ARGUMENT`.
pub const INVALID_ARGUMENT: i32 = -1;
/// `gcvSTATUS_INVALID_ADDRESS`.
pub const INVALID_ADDRESS: i32 = -8;
/// `gcvSTATUS_NOT_SUPPORTED`.
pub const NOT_SUPPORTED: i32 = -13;
/// `gcvSTATUS_TIMEOUT`.
pub const TIMEOUT: i32 = -15;
/// `gcvSTATUS_OUT_OF_RESOURCES`.
pub const OUT_OF_RESOURCES: i32 = -16;
/// `gcvSTATUS_INVALID_DATA`.
pub const INVALID_DATA: i32 = -17;
/// The status of a request to a core that is not bound.
pub const NOT_THERE: i32 = -22;

/// A command unit without effect.
pub const NOP: [u32; 2] = [0x8000_0000, 0];

/// A command unit that loads one state.
pub fn state(address: u32, value: u32) -> [u32; 2] {
    [0x3001_0000 | address, value]
}

/// A locked node.
pub struct Piece {
    /// The node.
    pub node: Node,
    /// Its GPU address.
    pub address: u32,
    /// Its memory as this process sees it.
    pub memory: Memory,
}

/// A task table and its tasks.
#[derive(Default)]
pub struct Tasks {
    /// The block and the records of each task.
    pub elements: Vec<(usize, Vec<u32>)>,
    /// A false number of records for the table; `None`: the right one.
    pub count: Option<u32>,
    /// A false number of bytes for the table; `None`: the right one.
    pub size: Option<u32>,
    /// Whether the last task links to itself.
    pub is_circle: bool,
    /// A corrupt word: the table or a task, the word in it, its value.
    pub spoilt: Option<[u32; 3]>,
}

/// A record: SIGNAL with a signal of this process.
pub fn signal(id: i32) -> Vec<u32> {
    vec![4, std::process::id(), id as u32]
}

/// A record: UNLOCK of a node.
pub fn unlock(node: Node) -> Vec<u32> {
    vec![6, 0, node.handle as u32, (node.handle >> 32) as u32]
}

/// A record: FREE of a node.
pub fn free(node: Node) -> Vec<u32> {
    vec![7, 0, node.handle as u32, (node.handle >> 32) as u32]
}

/// A record: increments the word at `address`.
pub fn increment(address: u32) -> Vec<u32> {
    vec![2, address]
}

/// A record: decrements the word at `address`.
pub fn decrement(address: u32) -> Vec<u32> {
    vec![3, address]
}

/// A record: increments `counter`, and sets the signal when it equals `wanted`.
pub fn lockdown(wanted: u32, counter: u32, id: i32) -> Vec<u32> {
    vec![5, wanted, counter, std::process::id(), id as u32]
}

/// Combines records into one task.
pub fn cluster(records: &[Vec<u32>]) -> Vec<u32> {
    let mut words = vec![1, records.len() as u32];
    words.extend(records.iter().flatten());
    words
}

impl Tasks {
    /// Adds a task with records that run when a block is done.
    pub fn with(mut self, block: usize, records: Vec<u32>) -> Self {
        self.elements.push((block, records));
        self
    }

    /// The words of the table and of each task. They must live as long as the table is used.
    pub fn build(&self) -> (Vec<u32>, Vec<Vec<u32>>) {
        let mut table = vec![0; 20];
        let mut elements: Vec<Vec<u32>> = Vec::new();
        let (mut count, mut size) = (0, 0);
        // From the last task to the first, so that each one links to the one that follows it in the table.
        for (block, records) in self.elements.iter().rev() {
            let mut words = vec![table[2 * block], 4 * records.len() as u32];
            words.extend(records);
            table[2 * block] = words.as_ptr() as u32;
            size += 4 * records.len() as u32 + 12;
            count += count_records(records);
            elements.push(words);
        }
        if self.is_circle {
            let first = &mut elements[0];
            first[0] = first.as_ptr() as u32;
        }
        table[18] = self.count.unwrap_or(count);
        table[19] = self.size.unwrap_or(size);
        if let Some([which, word, value]) = self.spoilt {
            let all = elements.len() as u32 + 1;
            let words = match (which % all).checked_sub(1) {
                Some(element) => &mut elements[element as usize],
                None => &mut table,
            };
            let word = word as usize % words.len();
            words[word] = value;
        }
        (table, elements)
    }
}

/// Counts the records in `words`, without clusters.
pub fn count_records(words: &[u32]) -> u32 {
    let (mut at, mut count) = (0, 0);
    while at < words.len() {
        let (length, counts) = match words[at] {
            1 => (2, 0),
            2 | 3 => (2, 1),
            4 => (3, 1),
            5 | 9 => (5, 1),
            _ => (4, 1),
        };
        at += length;
        count += counts;
    }
    count
}

/// The client's part of a context.
pub struct Context {
    /// The context structure of the interface.
    pub words: Vec<u32>,
}

impl Context {
    /// A context with a signal for its buffers.
    pub fn new(signal: i32) -> Self {
        let mut words = vec![0; 16];
        words[13] = std::process::id();
        words[14] = signal as u32;
        Self { words }
    }

    /// The id that the driver assigned.
    pub fn id(&self) -> u64 {
        u64::from(self.words[0]) | u64::from(self.words[1]) << 32
    }
}

/// A client of the core.
pub struct Client {
    /// The device, for requests to this core.
    pub device: Device,
    /// The mapped pool.
    pub pool: Memory,
    /// The node with the command buffers.
    pub commands: Piece,
    /// The node that the core draws to.
    pub target: Piece,
    /// One signal for the context's buffer, and two more.
    pub signals: [i32; 3],
    /// Its context.
    pub context: Context,
}

impl Client {
    /// Opens the device, and creates the command node, the target and the signals.
    pub fn start() -> Result<Self> {
        let mut device = Device::open()?;
        device.set_hardware_type(VG);
        let pool = device.map_pool()?;
        let commands = piece(&device, &pool, COMMAND_BYTES)?;
        let target = piece(&device, &pool, STRIDE * SIDE)?;
        let signals = [
            device.create_signal(false)?,
            device.create_signal(false)?,
            device.create_signal(false)?,
        ];
        Ok(Self {
            device,
            pool,
            commands,
            target,
            signals,
            context: Context::new(signals[0]),
        })
    }

    /// Unlocks and frees the nodes.
    pub fn close(self) -> Result<()> {
        for node in [self.commands.node, self.target.node] {
            self.device.unlock(node)?;
            self.device.free(node)?;
        }
        Ok(())
    }

    /// Writes a buffer of `units` units of 8 bytes that contains `words` at offset `at` of the command node. Returns
    /// its address in this process.
    pub fn put(&self, at: u32, words: &[u32], units: u32) -> u64 {
        let memory = &self.commands.memory;
        let at = at as usize;
        let address = self.commands.address + at as u32 + HEAD;
        let handle = self.commands.node.handle;
        for (index, word) in [
            1,
            0,
            handle as u32,
            (handle >> 32) as u32,
            address,
            HEAD,
            4 * words.len() as u32,
            4 * words.len() as u32,
            units,
            0,
            0,
            0,
        ]
        .into_iter()
        .enumerate()
        {
            memory.write(at + 4 * index, word);
        }
        for (index, &word) in words.iter().enumerate() {
            memory.write(at + HEAD as usize + 4 * index, word);
        }
        memory.address() + at as u64
    }

    /// A static buffer, which contains its own END.
    pub fn put_static(&self, at: u32, words: &[u32]) -> u64 {
        let mut words = words.to_vec();
        words.extend([END, 0]);
        let units = words.len() as u32 / 2;
        self.put(at, &words, units)
    }

    /// A dynamic buffer, which the kernel ends, with room for `events` events.
    pub fn put_dynamic(&self, at: u32, words: &[u32], events: u32) -> u64 {
        let mut all = words.to_vec();
        for _ in 0..events + 1 {
            all.extend(NOP);
        }
        self.put(at, &all, all.len() as u32 / 2)
    }

    /// The commands for a rectangle of `colour` (0xAARRGGBB, the format of the target) at `x`, `y`, including all
    /// states.
    pub fn drawing(
        &self,
        (x, y): (u32, u32),
        (width, height): (u32, u32),
        colour: u32,
    ) -> Vec<u32> {
        let mut words = Vec::new();
        for (address, value) in [
            (0xa10, 0x203),
            (0xa11, self.target.address),
            (0xa12, STRIDE),
            (0xa13, SIDE << 16 | SIDE),
            (0xa34, 0),
            (0xa02, abgr(colour)),
            (0xa00, 0x1000_0001),
        ] {
            words.extend(state(address, value));
        }
        words.extend(rectangle((x, y), (width, height)));
        words
    }

    /// Sends a COMMIT of these buffers and tasks; returns the status.
    pub fn send(&mut self, entries: &[(u64, u32)], tasks: &Tasks) -> Result<i32> {
        let context = self.context.words.as_mut_ptr() as u64;
        self.send_in(context, entries, entries.len() as u32, tasks)
    }

    /// Like [`Client::send`], with the context at any address and with any count.
    pub fn send_in(
        &self,
        context: u64,
        entries: &[(u64, u32)],
        count: u32,
        tasks: &Tasks,
    ) -> Result<i32> {
        let queue: Vec<u32> = entries
            .iter()
            .flat_map(|&(buffer, dynamic)| [buffer as u32, dynamic])
            .collect();
        let (table, _elements) = tasks.build();
        let address = if tasks.elements.is_empty() && tasks.count.is_none() {
            0
        } else {
            table.as_ptr() as u64
        };
        self.send_raw(context, queue.as_ptr() as u64, count, address)
    }

    /// Sends a COMMIT with these addresses; returns the status.
    pub fn send_raw(&self, context: u64, queue: u64, count: u32, tasks: u64) -> Result<i32> {
        let mut interface = Interface::new(Command::COMMIT);
        let union = &mut interface.bytes_mut()[32..64];
        union[..8].copy_from_slice(&context.to_le_bytes());
        union[8..16].copy_from_slice(&queue.to_le_bytes());
        union[16..20].copy_from_slice(&count.to_le_bytes());
        union[24..32].copy_from_slice(&tasks.to_le_bytes());
        Ok(self.device.exchange(&mut interface)?.0)
    }

    /// Fills the target with `colour`, waits, and checks the pixels.
    pub fn prove(&mut self, colour: u32) -> Result<()> {
        let context = self.put_static(0, &state(0xa34, 0));
        let words = self.drawing((0, 0), (SIDE, SIDE), colour);
        let buffer = self.put_dynamic(0x400, &words, 1);
        let [_, done, _] = self.signals;
        let tasks = Tasks::default().with(PIXEL, signal(done));
        let status = self.send(&[(context, 0), (buffer, 1)], &tasks)?;
        same("status of a drawing", status, OK)?;
        self.device.wait_signal(done, 10_000)?;
        self.expect(|_, _| colour)
    }

    /// The last word of the command node, which tasks may count.
    pub fn counter(&self) -> Counter<'_> {
        Counter(&self.commands)
    }

    /// Compares every pixel of the target.
    pub fn expect(&self, wanted: impl Fn(u32, u32) -> u32) -> Result<()> {
        for y in 0..SIDE {
            for x in 0..SIDE {
                let at = y * STRIDE + 4 * x;
                let found = self.target.memory.read(at as usize);
                same_word(&format!("pixel {x}, {y}"), found, wanted(x, y))?;
            }
        }
        Ok(())
    }

    /// Waits for a signal; returns the status.
    pub fn wait(&self, signal: i32, milliseconds: u32) -> Result<i32> {
        match self.device.wait_signal(signal, milliseconds) {
            Ok(()) => Ok(OK),
            Err(error) => Ok(error.status().context("no status")?.0),
        }
    }
}

/// A word that tasks count; see [`Client::counter`].
pub struct Counter<'a>(&'a Piece);

impl Counter<'_> {
    const AT: u32 = COMMAND_BYTES - 4;

    /// The GPU address of the word.
    pub fn address(&self) -> u32 {
        self.0.address + Self::AT
    }

    /// Reads the word.
    pub fn read(&self) -> u32 {
        self.0.memory.read(Self::AT as usize)
    }

    /// Writes the word.
    pub fn write(&self, value: u32) {
        self.0.memory.write(Self::AT as usize, value);
    }
}

/// The state value for a colour 0xAARRGGBB.
pub fn abgr(colour: u32) -> u32 {
    colour & 0xff00_ff00 | (colour & 0xff) << 16 | (colour >> 16) & 0xff
}

/// The command data of a rectangle.
pub fn rectangle((x, y): (u32, u32), (width, height): (u32, u32)) -> [u32; 4] {
    [0x4000_0001, 0, y << 16 | x, height << 16 | width]
}

/// Allocates and locks a node.
pub fn piece(device: &Device, pool: &Memory, bytes: u32) -> Result<Piece> {
    let node = device.allocate(bytes, 64, surface::TEXTURE, Pool::DEFAULT)?;
    let location = device.lock(node)?;
    Ok(Piece {
        node,
        address: location.address,
        memory: device.memory(node, location, pool)?,
    })
}

/// The index of the core in CHIP_INFO, if there is one.
pub fn place() -> Result<Option<usize>> {
    let info = Device::open()?.chip_info()?;
    let known = info.types.iter().take(info.count.max(0) as usize);
    Ok(known.into_iter().position(|&kind| kind == VG))
}

/// The control BAR of the core.
pub fn control() -> Result<Control> {
    Control::open_core(place()?.context("no core for vector graphics")?)
}

/// The name of the core's device, which has the highest registers.
pub fn name() -> Result<String> {
    system::bound()?.pop().context("no core is bound")
}
