// SPDX-License-Identifier: GPL-2.0-only
//! A process that does one of many bad things.

use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Buffer;
use galcore_client::device::Node;
use galcore_client::raw::Area;
use galcore_client::raw::Kind;
use galcore_client::sys::Idle;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;

use super::bounced;
use super::gaps;
use super::inversion;
use super::number;
use super::random;
use super::views;
use super::waits;
use super::PAGE;
use crate::fixture::Random;
use crate::video::Opened;

/// Locations of commands in one chain: the most that there may be.
const LOCATIONS: u32 = 255;

/// What it writes to its own memory.
const OWN: u32 = 0x0bad_0bad;

/// What the process has.
pub(super) struct State {
    pub(super) abi: &'static Abi,
    opened: Option<Opened>,
    pub(super) nodes: Vec<Node>,
    pub(super) windows: Vec<Area>,
    /// Where in the pool the first of the nodes is.
    offset: usize,
    pinned: Vec<(Region, uapi::MapUserMemory)>,
    pub(super) kept: Vec<Box<dyn std::any::Any>>,
}

impl State {
    pub(super) fn new(abi: &'static Abi) -> Self {
        Self {
            abi,
            opened: None,
            nodes: Vec::new(),
            windows: Vec::new(),
            offset: 0,
            pinned: Vec::new(),
            kept: Vec::new(),
        }
    }

    pub(super) fn opened(&mut self) -> Result<&Opened> {
        if self.opened.is_none() {
            let device = Device::open_as(self.abi, true)?;
            let pool = device.map_pool()?;
            self.opened = Some(Opened { device, pool });
        }
        self.opened.as_ref().context("opened")
    }

    /// A locked page of the pool, and `count` windows that show it.
    fn show(&mut self, count: u32) -> Result<String> {
        let opened = self.opened()?;
        let node = opened.allocate(PAGE as u32, Pool::SYSTEM)?;
        let (_, memory) = opened.memory(node)?;
        memory.fill(OWN);
        let offset = (memory.address() - opened.pool.address()) as usize;
        let file = opened.device.file().try_clone()?;
        for _ in 0..count {
            let window = Area::map(Some(&file), offset + PAGE, 0, Kind::default())?;
            let seen = window.peek(offset)?;
            ensure!(seen == Some(OWN), "a window shows {seen:x?}");
            self.windows.push(window);
        }
        (self.nodes, self.offset) = (vec![node], offset);
        Ok("shown".to_string())
    }

    /// Frees that node, by an ioctl or by a record; microseconds until it is free.
    fn free_shown(&mut self, by_record: bool) -> Result<String> {
        let node = self.nodes.pop().context("no node")?;
        let device = &self.opened()?.device;
        device.unlock(node)?;
        let begin = Instant::now();
        if by_record {
            let done = device.create_signal(false)?;
            device.commit_queue(Queue::new().free(node).signal(done))?;
            device.wait_signal(done, 60_000)?;
        } else {
            device.free(node)?
        }
        let took = begin.elapsed();
        let offset = self.offset;
        for window in self.windows.drain(..) {
            let seen = window.peek(offset)?;
            // By a record it may go a little later: as long as it is nobody else's.
            let own = by_record && seen == Some(OWN);
            ensure!(seen.is_none() || own, "a window still shows {seen:x?}");
        }
        Ok(took.as_micros().to_string())
    }

    /// `count` pages of the pool that are written, and `windows` windows that could show all of them.
    fn show_each(&mut self, count: u32, windows: u32) -> Result<String> {
        let opened = self.opened()?;
        let file = opened.device.file().try_clone()?;
        let mut nodes = Vec::new();
        let mut end = 0;
        for _ in 0..count {
            let node = opened.allocate(PAGE as u32, Pool::SYSTEM)?;
            let (_, memory) = opened.memory(node)?;
            memory.fill(OWN);
            end = end.max((memory.address() - opened.pool.address()) as usize + PAGE);
            opened.device.unlock(node)?;
            nodes.push(node);
        }
        self.nodes = nodes;
        for _ in 0..windows {
            self.windows
                .push(Area::map(Some(&file), end, 0, Kind::default())?);
        }
        Ok("shown".to_string())
    }

    /// Frees those pages by records: they are taken out of the windows behind its back.
    fn free_each(&mut self) -> Result<String> {
        let mut queue = Queue::new();
        for node in std::mem::take(&mut self.nodes) {
            queue.free(node);
        }
        let device = &self.opened()?.device;
        let done = device.create_signal(false)?;
        device.commit_queue(queue.signal(done))?;
        device.wait_signal(done, 60_000)?;
        Ok("freed".to_string())
    }

    /// `count` locked nodes, and `windows` windows that show none of them.
    fn many(&mut self, count: u32, windows: u32) -> Result<String> {
        let opened = self.opened()?;
        let file = opened.device.file().try_clone()?;
        let mut nodes = Vec::new();
        for _ in 0..count {
            let node = opened.allocate(PAGE as u32, Pool::SYSTEM)?;
            opened.device.lock(node)?;
            nodes.push(node);
        }
        self.nodes = nodes;
        for _ in 0..windows {
            self.windows
                .push(Area::map(Some(&file), PAGE, 0, Kind::default())?);
        }
        Ok("made".to_string())
    }

    /// COMMITs of commands at an address where nothing is; microseconds of the quickest.
    fn commit_nowhere(&mut self, times: u32) -> Result<String> {
        let device = &self.opened()?.device;
        let mut quickest = Duration::MAX;
        for _ in 0..times {
            let begin = Instant::now();
            let status = device.send_commit(&nowhere(), 0, &mut Queue::new())?;
            ensure!(status == uapi::Status::INVALID_ADDRESS, "status {status}");
            quickest = quickest.min(begin.elapsed());
        }
        Ok(quickest.as_micros().to_string())
    }

    /// A COMMIT whose chain of locations comes back to the last of many nodes again and again; microseconds.
    fn commit_chain(&mut self) -> Result<String> {
        let node = *self.nodes.last().context("no node")?;
        let abi = self.abi;
        let opened = self.opened()?;
        let location = opened.device.lock(node)?;
        let logical = location.logical;
        let record = uapi::CommandBufferRecord {
            physical: node.handle as u32,
            address: location.address,
            logical,
            offset: uapi::RESERVED_HEAD,
            bytes: PAGE as u32,
            ..nowhere()
        };
        let size = abi.members["gcsHAL_COMMAND_LOCATION"];
        let mut locations: Vec<Vec<u64>> = Vec::new();
        let mut next = 0;
        for _ in 0..LOCATIONS {
            let mut bytes = vec![0u8; size];
            for (field, value) in [
                ("videoMemNode", node.handle),
                ("address", location.address.into()),
                ("logical", logical),
                ("startOffset", 0),
                ("size", u64::from(uapi::RESERVED_HEAD + uapi::RESERVED_TAIL)),
                ("reservedHead", uapi::RESERVED_HEAD.into()),
                ("reservedTail", uapi::RESERVED_TAIL.into()),
                ("next", next),
            ] {
                let name = format!("gcsHAL_COMMAND_LOCATION.{field}");
                let (at, size) = abi.fields[name.as_str()];
                bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
            }
            let words = bytes.chunks_exact(8);
            locations.push(
                words
                    .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
                    .collect(),
            );
            next = locations.last().context("location")?.as_ptr() as usize as u64;
        }
        let mut commit = abi.commit(&record, 0, &Queue::new())?;
        let field = "subCommit.commandBuffer.next";
        abi.set(&mut commit.bytes, "Commit", field, next);
        let (at, _) = abi.header["hardwareType"];
        let hardware = opened.device.hardware_type().to_le_bytes();
        commit.bytes[at..at + 4].copy_from_slice(&hardware);
        let begin = Instant::now();
        opened.device.exchange_bytes(&mut commit.bytes)?;
        let took = begin.elapsed();
        let status = uapi::Status(abi.header_of(&commit.bytes, "status") as i32);
        ensure!(status == uapi::Status::OK, "a chain: status {status}");
        Ok(took.as_micros().to_string())
    }

    /// COMMITs and queues that are wrong in all kinds of ways.
    fn garbage(&mut self, time: Duration, seed: u32) -> Result<String> {
        let device = &self.opened()?.device;
        let buffer = device.allocate_contiguous(0x4000)?;
        let mut random = Random::new(seed);
        let begin = Instant::now();
        let mut count = 0u32;
        while begin.elapsed() < time {
            for offset in (0..256).step_by(4) {
                buffer.memory.write(offset, random.colour());
            }
            // One stream in 2000 would be nothing but a draw, which is accepted and may hang the GPU.
            let no_command = NO_OPCODE | random.colour();
            buffer
                .memory
                .write(uapi::RESERVED_HEAD as usize, no_command);
            device.send_commit(&wrong(&buffer, &mut random), 0, &mut Queue::new())?;
            let mut queue = Queue::new();
            for _ in 0..random.below(4) {
                queue.write_data(random.colour(), 0).signal(77);
            }
            device.send_queue(&mut queue)?;
            count += 1;
        }
        device.free_contiguous(&buffer)?;
        Ok(count.to_string())
    }

    /// Queues of as many records as there may be, each of which writes a word of the pool.
    fn write_words(&mut self, time: Duration) -> Result<String> {
        const RECORDS: u32 = 4096;
        let opened = self.opened()?;
        let node = opened.allocate(4 * PAGE as u32, Pool::SYSTEM)?;
        let (address, memory) = opened.memory(node)?;
        let begin = Instant::now();
        let mut count = 0u32;
        while begin.elapsed() < time {
            let mut queue = Queue::new();
            for index in 0..RECORDS {
                queue.write_data(address + 4 * index, count ^ index);
            }
            opened.device.commit_queue(&mut queue)?;
            count += 1;
        }
        opened.device.stall()?;
        let last = memory.read(4 * 4095);
        ensure!(last == (count - 1) ^ 4095, "the last word is {last:#x}");
        Ok(count.to_string())
    }

    /// Maps the pool, touches it, and unmaps it, again and again; and forks now and then.
    fn remap(&mut self, time: Duration) -> Result<String> {
        self.show(1)?;
        let offset = self.offset;
        let file = self.opened()?.device.file().try_clone()?;
        let begin = Instant::now();
        let mut count = 0u32;
        while begin.elapsed() < time {
            let window = Area::map(Some(&file), offset + PAGE, 0, Kind::default())?;
            window.peek(offset)?;
            if count % 4 == 0 && offset >= PAGE {
                window.cut(0, PAGE)?;
            }
            if count % 64 == 0 {
                Idle::fork()?;
            }
            count += 1;
        }
        self.free_shown(false)?;
        Ok(count.to_string())
    }

    fn pin(&mut self, bytes: usize) -> Result<String> {
        let region = Region::anonymous(bytes)?;
        for offset in (0..bytes).step_by(PAGE) {
            region.write(offset, 1);
        }
        let mapping = self
            .opened()?
            .device
            .map_user(region.address(), bytes as u64)?;
        self.pinned.push((region, mapping));
        Ok("pinned".to_string())
    }

    fn unpin(&mut self) -> Result<String> {
        let (_region, mapping) = self.pinned.pop().context("nothing is pinned")?;
        let begin = Instant::now();
        self.opened()?.device.unmap_user(&mapping)?;
        Ok(begin.elapsed().as_micros().to_string())
    }

    /// Nodes of scattered pages.
    fn scatter(&mut self, count: u32, bytes: u32) -> Result<String> {
        let opened = self.opened()?;
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(opened.allocate(bytes, Pool::VIRTUAL)?);
        }
        self.nodes.append(&mut nodes);
        Ok("scattered".to_string())
    }

    /// A node and a window, and a copy of the process, which has its files open too.
    fn copy(&mut self) -> Result<String> {
        self.show(1)?;
        self.kept.push(Box::new(Idle::fork()?));
        Ok("copied".to_string())
    }

    /// Windows until there may be no more, at most `count`: how many there were, and the error's number.
    fn windows_until(&mut self, count: u32) -> Result<String> {
        let file = self.opened()?.device.file().try_clone()?;
        let mut error = 0;
        for _ in 0..count {
            match Area::map(Some(&file), PAGE, 0, Kind::default()) {
                Ok(window) => self.windows.push(window),
                Err(refused) => {
                    error = refused.raw_os_error().unwrap_or(-1);
                    break;
                }
            }
        }
        let answer = format!("{} {error}", self.windows.len());
        self.windows.clear();
        Ok(answer)
    }

    pub(super) fn answer(&mut self, words: &[&str]) -> Result<String> {
        let time = |index| Ok::<_, anyhow::Error>(Duration::from_millis(number(words, index)?));
        match words[0] {
            "show" => self.show(number(words, 1)?),
            "free" => self.free_shown(false),
            "free-by-record" => self.free_shown(true),
            "show-each" => self.show_each(number(words, 1)?, number(words, 2)?),
            "free-each-by-record" => self.free_each(),
            "many" => self.many(number(words, 1)?, number(words, 2)?),
            "commit-nowhere" => self.commit_nowhere(number(words, 1)?),
            "commit-chain" => self.commit_chain(),
            "garbage" => self.garbage(time(1)?, number(words, 2)?),
            "write-words" => self.write_words(time(1)?),
            "remap" => self.remap(time(1)?),
            "pin" => self.pin(number(words, 1)?),
            "unpin" => self.unpin(),
            "scatter" => self.scatter(number(words, 1)?, number(words, 2)?),
            "copy" => self.copy(),
            "windows-until" => self.windows_until(number(words, 1)?),
            "spin" => {
                let (begin, time) = (Instant::now(), time(1)?);
                while begin.elapsed() < time {
                    std::hint::spin_loop();
                }
                Ok("spun".to_string())
            }
            "lose-a-buffer" => gaps::lose_a_buffer(time(1)?),
            "lose-a-node" => gaps::lose_a_node(self, words),
            "map-privately" => views::map_privately(self),
            "shift-views" => views::shift(self),
            "glimpse" => views::glimpse(self, words),
            "import-twice" => views::import_twice(self, words),
            "offer" => views::offer(self),
            "offer-named" => views::offer_named(self),
            "withdraw" => views::withdraw(self),
            "wait-in" => waits::wait_in(self, words),
            "invert" => inversion::invert(self, words),
            "share" => bounced::share(self),
            "rage" => random::rage(self, words),
            what => bail!("{what:?} is not known"),
        }
    }
}

/// Bits 31:27 of a command that no front end knows.
const NO_OPCODE: u32 = 31 << 27;

/// A command buffer where nothing is.
fn nowhere() -> uapi::CommandBufferRecord {
    uapi::CommandBufferRecord {
        object: uapi::OBJECT_COMMAND_BUFFER,
        logical: 0x1000,
        bytes: 4096,
        start_offset: 0,
        offset: 64,
        ..Default::default()
    }
}

/// A command buffer of which something is wrong.
fn wrong(buffer: &Buffer, random: &mut Random) -> uapi::CommandBufferRecord {
    let mut record = uapi::CommandBufferRecord {
        logical: buffer.logical,
        bytes: buffer.bytes as u32,
        offset: uapi::RESERVED_HEAD + 8 * random.below(64),
        ..nowhere()
    };
    match random.below(5) {
        0 => record.logical = random.colour().into(),
        1 => record.start_offset = random.colour(),
        2 => record.offset = random.colour(),
        3 => record.entry_pipe = random.below(4) as i32,
        _ => {}
    }
    record
}

/// Surface type of nodes that serve any purpose.
pub(super) const KIND: u32 = surface::BITMAP;
