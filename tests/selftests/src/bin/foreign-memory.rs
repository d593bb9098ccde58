// SPDX-License-Identifier: GPL-2.0-only
//! Foreign memory: the GPU uses memory that the driver did not allocate. Covers WRAP_USER_MEMORY and Russell King's
//! ioctls, with the client's own memory and with dma-bufs of another driver. Also covers the export of the driver's
//! nodes as dma-bufs.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Foreign;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::raw;
use galcore_client::raw::Area;
use galcore_client::raw::Kind;
use galcore_client::sys;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::MapUserMemory;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::not_tty;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::pinned;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::unlock;
use galcore_selftests::video::BLOCK;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::io::FdFlags;

const PAGE: usize = 4096;
const BYTES: u32 = 4 * 4096;

const READ: u32 = 1;
const WRITE: u32 = 2;

/// The color that the GPU draws.
const DRAWN: u32 = 0xd4a3_0001;

fn client(abi: &'static Abi) -> Result<Client> {
    Ok(Client::with_device(Device::open_as(abi, true)?)?)
}

fn named(name: &str) -> Result<&'static Abi> {
    Abi::named(name).context("a generation")
}

/// KiB of the pools, entries of the MMU, pinned KiB.
fn used() -> Result<([u64; 3], u64, u64)> {
    Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?, pinned()?))
}

fn books_settle(before: ([u64; 3], u64, u64)) -> Result<()> {
    settles("KiB, MMU entries, pinned KiB", before, used)
}

/// A node outside of all pools.
fn wrapped(handle: u64) -> Node {
    Node {
        handle,
        pool: Pool::VIRTUAL,
        bytes: BYTES,
        surface_type: 6,
    }
}

/// The GPU fills the first block of `memory` through its address `address`. The rest must not change.
fn draw(client: &mut Client, address: u32, memory: &Memory, colour: u32) -> Result<()> {
    memory.fill(0x1111_1111);
    let block = memory.part(0, BLOCK).context("part")?;
    gpu_fill(client, &surface_at(address, block)?, colour)?;
    let block = memory.part(0, BLOCK).context("part")?;
    expect_all("drawn", &block, colour)?;
    let rest = memory
        .part(BLOCK, memory.len() - BLOCK)
        .context("the rest")?;
    expect_all("behind it", &rest, 0x1111_1111)
}

/// A dma-buf of the udmabuf driver, with this process's view of the same memory.
struct Udmabuf {
    descriptor: OwnedFd,
    memory: Memory,
}

impl Udmabuf {
    fn new() -> Result<Self> {
        let Some((file, descriptor)) = system::udmabuf(BYTES.into())? else {
            return skip("this kernel has no /dev/udmabuf");
        };
        let region = Region::map(&file, BYTES as usize, 0)?;
        Ok(Self {
            descriptor,
            memory: Memory::new(region),
        })
    }

    fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }
}

fn own_memory() -> Result<Memory> {
    Ok(Memory::new(Region::anonymous(BYTES as usize)?))
}

fn lock(client: &Client, node: Node) -> Result<(u32, u64)> {
    let location = client.device().lock(node)?;
    Ok((location.address, location.logical))
}

fn release(client: &Client, node: Node) -> Result<()> {
    unlock(client.device(), node)?;
    client.device().free(node)?;
    Ok(client.finish()?)
}

fn wrap_memory(abi: &'static Abi) -> Result<()> {
    let mut client = client(abi)?;
    let before = at_rest(used)?;
    let memory = own_memory()?;
    // Neither page-aligned nor a whole number of pages.
    let part = memory.part(256, BYTES as usize - 1024).context("part")?;
    let (status, handle) = client
        .device()
        .wrap_memory(part.address(), part.len() as u64)?;
    same("WRAP", status, Status::OK)?;
    same("pinned", pinned()?, before.2 + u64::from(BYTES) / 1024)?;
    let node = wrapped(handle);
    let (address, logical) = lock(&client, node)?;
    same("where it was", logical, part.address())?;
    same("its place in the page", address & 0xfff, 256)?;
    draw(&mut client, address, &part, DRAWN)?;
    // A second lock returns the same addresses.
    same("again", lock(&client, node)?, (address, logical))?;
    unlock(client.device(), node)?;
    let (status, _) = client.device().name_node(handle)?;
    same("NAME", status, Status::NOT_SUPPORTED)?;
    let (status, _) = client.device().export(handle)?;
    same("EXPORT", status, Status::NOT_SUPPORTED)?;
    release(&client, node)?;
    expect_all("kept", &part.part(0, BLOCK).context("part")?, DRAWN)?;
    books_settle(before)
}

fn wrap_dma_buf(abi: &'static Abi) -> Result<()> {
    let mut client = client(abi)?;
    let before = at_rest(used)?;
    let buffer = Udmabuf::new()?;
    let (status, handle) = client.device().wrap_dma_buf(buffer.number())?;
    same("WRAP", status, Status::OK)?;
    let node = wrapped(handle);
    let location = client.device().lock(node)?;
    ensure!(
        location.address >> 31 == 1,
        "address {:#x}",
        location.address
    );
    let view = client.device().memory(node, location, client.pool())?;
    draw(&mut client, location.address, &view, DRAWN)?;
    expect_all(
        "by its own file",
        &buffer.memory.part(0, BLOCK).context("part")?,
        DRAWN,
    )?;
    // The client does not need the descriptor any more.
    let Udmabuf { descriptor, memory } = buffer;
    drop(descriptor);
    draw(&mut client, location.address, &view, !DRAWN)?;
    let maps = || -> Result<bool> {
        let start = format!("{:08x}-", location.logical);
        let text = std::fs::read_to_string("/proc/self/maps")?;
        Ok(text.lines().any(|line| line.starts_with(&start)))
    };
    ensure!(maps()?, "no view at {:#x}", location.logical);
    release(&client, node)?;
    ensure!(!maps()?, "its view is still there");
    expect_all("kept", &memory.part(0, BLOCK).context("part")?, !DRAWN)?;
    books_settle(before)
}

/// UNMAP_USER_MEMORY as clients of Russell King's ioctls send it: with the handle and nonzero numbers.
fn unmap(client: &Client, info: u32, address: u32) -> Result<()> {
    client.device().unmap_user(&MapUserMemory {
        memory: 1,
        size: 1,
        info,
        address,
        ..Default::default()
    })?;
    Ok(())
}

/// Russell King's ioctls.
fn map_foreign(abi: &'static Abi, dma_buf: bool) -> Result<()> {
    let mut client = client(abi)?;
    let before = at_rest(used)?;
    let (buffer, memory) = if dma_buf {
        let buffer = Udmabuf::new()?;
        let memory = buffer.memory.part(0, BYTES as usize).context("all of it")?;
        (Some(buffer), memory)
    } else {
        (None, own_memory()?)
    };
    let what = match &buffer {
        Some(buffer) => Foreign::DmaBuf(buffer.number()),
        None => Foreign::Memory(memory.address(), BYTES),
    };
    for access in [READ | WRITE, WRITE, READ] {
        let (status, info, address) = client.device().map_foreign(what, access)?;
        same("status", status, Status::OK)?;
        ensure!(address >> 31 == 1, "address {address:#x}");
        if access & WRITE != 0 {
            draw(&mut client, address, &memory, DRAWN ^ access)?;
        }
        unmap(&client, info, address)?;
        client.finish()?;
    }
    books_settle(before)
}

/// The first form of the ioctl for dma-bufs.
fn map_old(abi: &'static Abi) -> Result<()> {
    let mut client = client(abi)?;
    let before = at_rest(used)?;
    let buffer = Udmabuf::new()?;
    let mut bytes = [0; 20];
    bytes[8..12].copy_from_slice(&buffer.number().to_le_bytes());
    bytes[4] = 9;
    client
        .device()
        .extension(uapi::IOC_GDMABUF_MAP_OLD, &mut bytes)?;
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    same("status", word(4), 0)?;
    let (info, address) = (word(12), word(16));
    draw(&mut client, address, &buffer.memory, DRAWN)?;
    unmap(&client, info, address)?;
    client.finish()?;
    books_settle(before)
}

fn export(client: &Client, node: Node) -> Result<OwnedFd> {
    let (status, number) = client.device().export(node.handle)?;
    same("EXPORT", status, Status::OK)?;
    Ok(sys::take_descriptor(number)?)
}

fn is_allowed(abi: &Abi, pool: Pool) -> bool {
    // The newest generation has no pool 9.
    abi.name != "6.4.11" || pool != Pool::CONTIGUOUS
}

const POOLS: [Pool; 3] = [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL];

/// Exports a node as a dma-buf. Every view shows the same memory, until the last reference is closed.
fn export_node(abi: &'static Abi, pool: Pool) -> Result<()> {
    let mut client = client(abi)?;
    let before = at_rest(used)?;
    let node = client.device().allocate(BYTES, 64, 6, pool)?;
    let location = client.device().lock(node)?;
    let view = client.device().memory(node, location, client.pool())?;
    view.fill(0xabcd_0001);
    let descriptor = export(&client, node)?;
    let (status, second) = client.device().node_descriptor(node.handle)?;
    same("GET_VIDEO_MEMORY_FD", status, Status::OK)?;
    drop(sys::take_descriptor(second)?);
    let size = rustix::fs::seek(&descriptor, rustix::fs::SeekFrom::End(0))?;
    same("its size", size, BYTES.into())?;
    let mapped = Memory::new(Region::map(&descriptor, BYTES as usize, 0)?);
    expect_all("by its file", &mapped, 0xabcd_0001)?;
    mapped.fill(0xabcd_0002);
    expect_all("by its lock", &view, 0xabcd_0002)?;
    draw(&mut client, location.address, &mapped, DRAWN)?;
    let second_page = Memory::new(Region::map(&descriptor, PAGE, PAGE as u64)?);
    expect_all("its second page", &second_page, 0x1111_1111)?;
    let too_long = Region::map(&descriptor, BYTES as usize + PAGE, 0);
    ensure!(too_long.is_err(), "more than there is was mapped");
    let private = Region::map_private(&descriptor, BYTES as usize, 0);
    ensure!(private.is_err(), "a private mapping was made");
    release(&client, node)?;
    // The handle is freed, but the memory must not be allocated again yet.
    let next = client.device().allocate(BYTES, 64, 6, pool)?;
    let (address, _) = lock(&client, next)?;
    ensure!(address != location.address, "its place was given away");
    release(&client, next)?;
    expect_all("kept", &mapped.part(0, BLOCK).context("part")?, DRAWN)?;
    drop((mapped, second_page));
    ensure!(used()? != before, "it is gone before its descriptor");
    drop(descriptor);
    books_settle(before)
}

/// EXPORT applies its flags to the file: they determine whether it can be mapped for writing and whether `exec` keeps
/// it.
fn export_flags(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let before = at_rest(used)?;
    let node = client.device().allocate(BYTES, 64, 6, Pool::VIRTUAL)?;
    for (flags, is_writable, is_closed) in [
        (OFlags::RDWR | OFlags::CLOEXEC, true, true),
        (OFlags::RDWR, true, false),
        (OFlags::CLOEXEC, false, true),
        (OFlags::RDONLY, false, false),
    ] {
        let what = format!("{flags:?}");
        let (status, number) = client
            .device()
            .export_for(node.handle, flags.bits() as i32)?;
        same(&what, status, Status::OK)?;
        let file = sys::take_descriptor(number)?;
        let kept = rustix::io::fcntl_getfd(&file)?;
        same(&what, kept.contains(FdFlags::CLOEXEC), is_closed)?;
        let map = |read_only| {
            let kind = Kind {
                read_only,
                ..Default::default()
            };
            let mapped = Area::map(Some(&file), BYTES as usize, 0, kind);
            mapped.map(drop).map_err(|error| error.raw_os_error())
        };
        same(&format!("{what}: for reading"), map(true), Ok(()))?;
        let wanted = if is_writable {
            Ok(())
        } else {
            Err(Some(Errno::ACCESS.raw_os_error()))
        };
        same(&format!("{what}: for writing"), map(false), wanted)?;
    }
    client.device().free(node)?;
    client.finish()?;
    books_settle(before)
}

/// The module's reference count.
fn module_users() -> Result<u64> {
    let text = std::fs::read_to_string("/sys/module/galcore/refcnt")?;
    Ok(text.trim().parse()?)
}

/// Writes each word with a WRITE_DATA record and checks the memory.
fn write_words(client: &Client, words: &[(u32, &Memory, u32)]) -> Result<()> {
    let mut queue = Queue::new();
    for &(address, _, word) in words {
        queue.write_data(address, word);
    }
    client.device().commit_queue(&mut queue)?;
    client.device().stall()?;
    for &(address, memory, word) in words {
        settles(&format!("at {address:#x}"), word, || Ok(memory.read(0)))?;
    }
    Ok(())
}

/// Imports a node through its own dma-buf: as itself, by WRAP, and by Russell King's ioctl.
fn import_own(abi: &'static Abi, pool: Pool) -> Result<()> {
    let mut client = client(abi)?;
    let before = at_rest(used)?;
    let node = client.device().allocate(BYTES, 64, 6, pool)?;
    let location = client.device().lock(node)?;
    let view = client.device().memory(node, location, client.pool())?;
    let descriptor = export(&client, node)?;
    let (status, handle) = client.device().wrap_dma_buf(descriptor.as_raw_fd())?;
    same("WRAP", (status, handle), (Status::OK, node.handle))?;
    client.device().free(node)?;
    draw(&mut client, location.address, &view, DRAWN)?;
    if abi.has("UNMAP_USER_MEMORY") {
        let what = Foreign::DmaBuf(descriptor.as_raw_fd());
        let users = module_users()?;
        let first = client.device().map_foreign(what, READ | WRITE)?;
        let second = client.device().map_foreign(what, READ | WRITE)?;
        drop(descriptor);
        settles("users of the module", users - 1, module_users)?;
        for (status, info, address) in [first, second] {
            same("GDMABUF", status, Status::OK)?;
            same("its address", address, location.address)?;
            draw(&mut client, address, &view, DRAWN ^ info)?;
            unmap(&client, info, address)?;
            let twice = unmap(&client, info, address);
            ensure!(twice.is_err(), "it was unmapped twice");
        }
    } else {
        drop(descriptor);
    }
    release(&client, node)?;
    books_settle(before)
}

/// WRAP of the client's view of its own node returns that node.
fn own_view(abi: &'static Abi, pool: Pool) -> Result<()> {
    let client = client(abi)?;
    let before = at_rest(used)?;
    let device = client.device();
    let node = device.allocate(BYTES, 64, uapi::surface::BITMAP, pool)?;
    let (address, logical) = lock(&client, node)?;
    for (what, start, bytes, wanted) in [
        ("all of it", logical, BYTES, Status::OK),
        ("its start", logical, 100, Status::OK),
        ("too much", logical, BYTES + 1, Status::OUT_OF_RESOURCES),
        ("its end", logical + 4096, 4096, Status::OUT_OF_RESOURCES),
    ] {
        let (status, handle) = device.wrap_memory(start, bytes.into())?;
        same(what, status, wanted)?;
        if status == Status::OK {
            same("it is the node", handle, node.handle)?;
            same("its address", lock(&client, node)?, (address, logical))?;
            device.unlock_all(node)?;
            device.free(node)?;
        }
    }
    release(&client, node)?;
    let (status, _) = device.wrap_memory(logical, BYTES.into())?;
    same("of one that is gone", status, Status::OUT_OF_RESOURCES)?;
    books_settle(before)
}

/// A process has unmapped its view of a node, in part or as a whole. WRAP of that address range must not find the node.
fn lost_view(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let before = at_rest(used)?;
    let device = client.device();
    let node = device.allocate(BYTES, 64, uapi::surface::BITMAP, Pool::VIRTUAL)?;
    let (_, logical) = lock(&client, node)?;
    let half = BYTES / 2;
    for (what, at) in [("half", logical + u64::from(half)), ("all", logical)] {
        raw::unmap_view(at, half as usize)?;
        let (status, _) = device.wrap_memory(logical, BYTES.into())?;
        same(&format!("{what} is gone"), status, Status::OUT_OF_RESOURCES)?;
    }
    release(&client, node)?;
    books_settle(before)
}

/// The whole life of one of the driver's nodes under Russell King's ioctl, checked with words that records write.
fn own_by_ioctl(pool: Pool) -> Result<()> {
    let giver = client(named("5.0.11.p8")?)?;
    let mut client = client(named("4.0.0")?)?;
    let before = at_rest(used)?;
    let node = giver.device().allocate(BYTES, 64, 6, pool)?;
    let location = giver.device().lock(node)?;
    let view = giver.device().memory(node, location, giver.pool())?;
    let descriptor = export(&giver, node)?;
    let what = Foreign::DmaBuf(descriptor.as_raw_fd());
    let map = |client: &Client| -> Result<(u32, u32)> {
        let (status, info, address) = client.device().map_foreign(what, READ | WRITE)?;
        same("GDMABUF", status, Status::OK)?;
        same("its address", address, location.address)?;
        Ok((info, address))
    };
    let (info, address) = map(&client)?;
    write_words(&client, &[(address, &view, 0x600d_0001)])?;
    unmap(&client, info, address)?;
    write_words(&client, &[(address, &view, 0x600d_0002)])?;
    // A record unmaps it, after another record has written a word.
    let (info, address) = map(&client)?;
    let mut queue = Queue::new();
    queue.write_data(address, 0x600d_0003);
    queue.unmap_user(&MapUserMemory {
        memory: 1,
        size: 1,
        info,
        address,
        ..Default::default()
    });
    client.device().commit_queue(&mut queue)?;
    client.device().stall()?;
    settles("the word", 0x600d_0003, || Ok(view.read(0)))?;
    ensure!(
        unmap(&client, info, address).is_err(),
        "it was unmapped twice"
    );
    // The node outlives its owner's handle while it is mapped, and a process without a handle can map it.
    let seen = Memory::new(Region::map(&descriptor, BYTES as usize, 0)?);
    let (info, address) = map(&client)?;
    release(&giver, node)?;
    let (again, _) = map(&client)?;
    write_words(&client, &[(address, &seen, 0x600d_0004)])?;
    unmap(&client, info, address)?;
    unmap(&client, again, address)?;
    client.finish()?;
    let (info, address) = map(&client)?;
    write_words(&client, &[(address, &seen, 0x600d_0005)])?;
    drop((seen, descriptor));
    draw_blind(&mut client, address)?;
    unmap(&client, info, address)?;
    client.finish()?;
    let refused = client
        .device()
        .send_queue(Queue::new().write_data(address, 0))?;
    same("a word in no memory", refused, Status::INVALID_ADDRESS)?;
    books_settle(before)
}

/// Maps the same pages both as pinned memory and as a dma-buf: the second is refused, and the first mapping keeps
/// working.
fn mapped_twice(pinned_first: bool) -> Result<()> {
    let client = client(named("4.0.0")?)?;
    let before = at_rest(used)?;
    let buffer = Udmabuf::new()?;
    let own = Foreign::Memory(buffer.memory.address(), BYTES);
    // The whole buffer, and one page in its middle.
    let middle = Foreign::Memory(buffer.memory.address() + PAGE as u64, PAGE as u32);
    let dma_buf = Foreign::DmaBuf(buffer.number());
    let map = |what| client.device().map_foreign(what, READ | WRITE);
    let pairs = if pinned_first {
        [(own, dma_buf), (middle, dma_buf)]
    } else {
        [(dma_buf, own), (dma_buf, middle)]
    };
    for (first, second) in pairs {
        let (status, info, address) = map(first)?;
        same("the first", status, Status::OK)?;
        for _ in 0..20 {
            // The GPU writes the word while the second mapping is tried.
            let mut queue = Queue::new();
            for word in 0..50 {
                queue.write_data(address, word);
            }
            client.device().commit_queue(&mut queue)?;
            let (status, ..) = map(second)?;
            same("the second", status, Status::OUT_OF_RESOURCES)?;
        }
        // A repeated request of the same kind returns the same mapping.
        let (status, again, at) = map(first)?;
        same("the first once more", status, Status::OK)?;
        unmap(&client, again, at)?;
        if pinned_first {
            let at_page = match first {
                Foreign::Memory(start, _) => (start - buffer.memory.address()) as usize,
                Foreign::DmaBuf(_) => 0,
            };
            let memory = buffer.memory.part(at_page, PAGE).context("part")?;
            write_words(&client, &[(address, &memory, 0x600d_0004)])?;
        }
        unmap(&client, info, address)?;
        client.finish()?;
        let (status, info, address) = map(second)?;
        same("the second, later", status, Status::OK)?;
        unmap(&client, info, address)?;
        client.finish()?;
    }
    books_settle(before)
}

/// Two dma-bufs that share pages, and one that contains the same pages several times.
fn dma_bufs_overlap() -> Result<()> {
    let client = client(named("4.0.0")?)?;
    let before = at_rest(used)?;
    let Some((file, first)) = system::udmabuf(BYTES.into())? else {
        return skip("this kernel has no /dev/udmabuf");
    };
    let second = sys::udmabuf(file.as_fd(), PAGE as u64)?;
    let many = sys::udmabuf_list(file.as_fd(), PAGE as u64, 12)?;
    let map = |descriptor: &OwnedFd| {
        let what = Foreign::DmaBuf(descriptor.as_raw_fd());
        client.device().map_foreign(what, READ | WRITE)
    };
    for (first, second) in [(&first, &second), (&second, &first)] {
        let (status, info, address) = map(first)?;
        same("the first", status, Status::OK)?;
        same("the second", map(second)?.0, Status::OUT_OF_RESOURCES)?;
        unmap(&client, info, address)?;
        client.finish()?;
    }
    same("a page 12 times", map(&many)?.0, Status::OUT_OF_RESOURCES)?;
    books_settle(before)
}

/// Draws to memory that this process cannot see.
fn draw_blind(client: &mut Client, address: u32) -> Result<()> {
    let scratch = own_memory()?.part(0, BLOCK).context("part")?;
    gpu_fill(client, &surface_at(address, scratch)?, DRAWN)
}

/// Runs in the other process: takes a descriptor from this one and draws into its buffer.
fn be_other(abi: &'static Abi) -> Result<()> {
    let mut client = client(abi)?;
    let mut taken: Vec<Node> = Vec::new();
    other::serve(|words| {
        let value =
            |index: usize| -> Result<i32> { Ok(words.get(index).context("word")?.parse()?) };
        match words[0] {
            "take" => {
                let descriptor = other::descriptor_of(value(1)?, value(2)?)?;
                let (status, handle) = client.device().wrap_dma_buf(descriptor.as_raw_fd())?;
                same("WRAP", status, Status::OK)?;
                let node = wrapped(handle);
                let (address, _) = lock(&client, node)?;
                taken.push(node);
                Ok(address.to_string())
            }
            // Prints the status of a request that must be refused.
            "try" => {
                let descriptor = other::descriptor_of(value(1)?, value(2)?)?;
                let (status, _) = client.device().wrap_dma_buf(descriptor.as_raw_fd())?;
                Ok(status.to_string())
            }
            "draw" => {
                let address: u32 = words.get(1).context("word")?.parse()?;
                draw_blind(&mut client, address)?;
                Ok("drawn".to_string())
            }
            "release" => {
                release(&client, taken.pop().context("a node")?)?;
                Ok("released".to_string())
            }
            word => bail!("what is {word}?"),
        }
    })
}

/// A process that received a surface's dma-buf for reading cannot make the GPU write to it.
fn for_reading(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let before = at_rest(used)?;
    let node = client.device().allocate(BYTES, 64, 6, Pool::VIRTUAL)?;
    let mut other = Other::start(abi)?;
    for (flags, wanted) in [
        (OFlags::RDONLY | OFlags::CLOEXEC, Status::INVALID_ARGUMENT),
        (OFlags::RDWR | OFlags::CLOEXEC, Status::OK),
    ] {
        let device = client.device();
        let (status, number) = device.export_for(node.handle, flags.bits() as i32)?;
        same("EXPORT", status, Status::OK)?;
        let descriptor = sys::take_descriptor(number)?;
        let take = format!("try {} {}", std::process::id(), descriptor.as_raw_fd());
        same("WRAP", other.ask(&take)?, wanted.to_string())?;
    }
    drop(other);
    client.device().free(node)?;
    client.finish()?;
    books_settle(before)
}

/// Passes a surface to another process, which then exits normally or is killed.
fn to_other(abi: &'static Abi, pool: Pool, killed: bool) -> Result<()> {
    let client = client(abi)?;
    let before = at_rest(used)?;
    let node = client.device().allocate(BYTES, 64, 6, pool)?;
    let location = client.device().lock(node)?;
    let view = client.device().memory(node, location, client.pool())?;
    view.fill(0x2222_2222);
    let descriptor = export(&client, node)?;
    let mut other = Other::start(abi)?;
    let take = format!("take {} {}", std::process::id(), descriptor.as_raw_fd());
    let address = other.ask(&take)?;
    same("address", &address, &location.address.to_string())?;
    let answer = other.ask(&format!("draw {address}"))?;
    same("it", answer.as_str(), "drawn")?;
    expect_all("drawn", &view.part(0, BLOCK).context("part")?, DRAWN)?;
    drop(descriptor);
    release(&client, node)?;
    if killed {
        other.kill()?;
    } else {
        same("it", other.ask("release")?.as_str(), "released")?;
        drop(other);
    }
    books_settle(before)
}

fn refusals(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let device = client.device();
    let before = at_rest(used)?;
    let file = system::memory_file(BYTES.into())?;
    let closed = file.try_clone()?.as_raw_fd();
    let own = own_memory()?;
    for (what, descriptor) in [
        ("no descriptor", -1),
        ("a closed one", closed),
        ("a file", file.as_raw_fd()),
        ("the device", device.as_fd().as_raw_fd()),
    ] {
        if abi.has("WRAP_USER_MEMORY") {
            let (status, _) = device.wrap_dma_buf(descriptor)?;
            same(what, status, Status::INVALID_ARGUMENT)?;
        }
        let (status, ..) = device.map_foreign(Foreign::DmaBuf(descriptor), READ)?;
        same(what, status, Status::INVALID_ARGUMENT)?;
    }
    // The same status as the vendor's driver, except for dma-bufs.
    let wrong = match abi.name {
        "6.4.11" => Status::NOT_SUPPORTED,
        _ => Status::INVALID_ARGUMENT,
    };
    for (what, address, bytes, status) in [
        ("address 0", 0, BYTES, Status::INVALID_ARGUMENT),
        ("no bytes", own.address(), 0, Status::INVALID_ARGUMENT),
        (
            "bytes that wrap",
            own.address(),
            u32::MAX,
            Status::INVALID_ARGUMENT,
        ),
        ("nothing there", 0x1000, BYTES, Status::OUT_OF_RESOURCES),
    ] {
        if abi.has("WRAP_USER_MEMORY") {
            let (found, _) = device.wrap_memory(address, bytes.into())?;
            let status = match status {
                Status::INVALID_ARGUMENT => wrong,
                other => other,
            };
            same(what, found, status)?;
        }
        let memory = Foreign::Memory(address, bytes);
        let (found, ..) = device.map_foreign(memory, READ | WRITE)?;
        same(what, found, status)?;
    }
    for access in [0, 4, 7, u32::MAX] {
        let memory = Foreign::Memory(own.address(), BYTES);
        let (status, ..) = device.map_foreign(memory, access)?;
        same("such an access", status, Status::INVALID_ARGUMENT)?;
    }
    for bytes in [0, 20, 80, 87, 96, 128] {
        let mut buffer = vec![0; bytes];
        let answer = device.extension(uapi::IOC_GDMABUF_MAP, &mut buffer);
        not_tty(&format!("{bytes} bytes"), answer)?;
    }
    if abi.has("WRAP_USER_MEMORY") {
        let [user, dma_buf] =
            ["ALLOC_FLAG_USERMEMORY", "ALLOC_FLAG_DMABUF"].map(|flag| u64::from(abi.values[flag]));
        let wrap = |flag: u64, logical: u64, physical: u64| {
            let fields = [
                ("desc.flag", flag),
                ("desc.logical", logical),
                ("desc.physical", physical),
                ("desc.size", BYTES.into()),
            ];
            device.ask("WRAP_USER_MEMORY", &fields, "node")
        };
        for (what, flag, logical, physical) in [
            ("no kind", 0, own.address(), u64::MAX),
            ("another kind", 1, own.address(), u64::MAX),
            ("both kinds", user | dma_buf, own.address(), u64::MAX),
            ("physical memory", user, 0, 0x4000_0000),
        ] {
            let (status, _) = wrap(flag, logical, physical)?;
            let refused = match flag & dma_buf {
                0 => wrong,
                _ => Status::INVALID_ARGUMENT,
            };
            same(what, status, refused)?;
        }
        // The process gets its own memory, whatever physical address it claims.
        let (status, handle) = wrap(user, own.address(), 0x4000_0000)?;
        same("its own, said to be there", status, Status::OK)?;
        let node = Node {
            handle,
            pool: Pool::VIRTUAL,
            bytes: BYTES,
            surface_type: uapi::surface::BITMAP,
        };
        let place = device.lock(node)?;
        same("it is its own", place.logical, own.address())?;
        device.unlock_all(node)?;
        device.free(node)?;
    }
    if abi.has("GET_VIDEO_MEMORY_FD") {
        for handle in [0, 1 << 20, u64::from(u32::MAX)] {
            let (status, _) = device.node_descriptor(handle)?;
            same("no such node", status, Status::NOT_FOUND)?;
            let (status, _) = device.export(handle)?;
            same("no such node", status, Status::NOT_FOUND)?;
        }
    }
    books_settle(before)
}

/// A GPU without read-only pages cannot map memory that the process may only read.
fn read_only() -> Result<()> {
    let client = client(named("4.0.0")?)?;
    let has_read_only_pages = client.identity().chip_model == 0x3000;
    let own = Region::anonymous(BYTES as usize)?;
    own.write(0, 1);
    own.protect(0, BYTES as usize, true, false)?;
    let before = at_rest(used)?;
    let memory = Foreign::Memory(own.address(), BYTES);
    for access in [READ, READ | WRITE] {
        let (status, info, address) = client.device().map_foreign(memory, access)?;
        if !has_read_only_pages {
            same("status", status, Status::OUT_OF_RESOURCES)?;
            continue;
        }
        same("status", status, Status::OK)?;
        unmap(&client, info, address)?;
    }
    client.finish()?;
    books_settle(before)
}

/// The layout of the reply, and so the place of its status, is unknown until the generation is known.
fn unsettled() -> Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/galcore")?;
    let mut bytes = [0; 88];
    for exchange in [sys::exchange, sys::exchange_short] {
        let answer = exchange(file.as_fd(), uapi::IOC_GDMABUF_MAP, &mut bytes);
        not_tty("before the first command", answer)?;
    }
    Ok(())
}

/// No descriptors are left: the call returns an error and leaks nothing.
fn no_descriptor_left() -> Result<()> {
    use rustix::process::getrlimit;
    use rustix::process::setrlimit;
    use rustix::process::Resource;
    use rustix::process::Rlimit;
    let abi = named("6.4.11")?;
    let client = client(abi)?;
    let before = at_rest(used)?;
    let node = client.device().allocate(BYTES, 64, 6, Pool::SYSTEM)?;
    let usual = getrlimit(Resource::Nofile);
    let next = export(&client, node)?.as_raw_fd() as u64;
    let few = Rlimit {
        current: Some(next),
        ..usual
    };
    setrlimit(Resource::Nofile, few)?;
    let answer = client.device().export(node.handle);
    setrlimit(Resource::Nofile, usual)?;
    same("EXPORT", answer?.0, Status::OUT_OF_RESOURCES)?;
    client.device().free(node)?;
    client.finish()?;
    books_settle(before)
}

/// Another thread switches the mapped descriptor between our own dma-buf and another driver's. Our dma-buf must always
/// map to the node's own address, and the other driver's to its own memory.
fn raced() -> Result<()> {
    let giver = client(named("5.0.11.p8")?)?;
    let mut client = client(named("4.0.0")?)?;
    let before = at_rest(used)?;
    let node = giver.device().allocate(BYTES, 64, 6, Pool::SYSTEM)?;
    let location = giver.device().lock(node)?;
    let view = giver.device().memory(node, location, giver.pool())?;
    let own = export(&giver, node)?;
    let other = Udmabuf::new()?;
    let mut descriptor = own.try_clone()?;
    let what = Foreign::DmaBuf(descriptor.as_raw_fd());
    let stop = AtomicBool::new(false);
    let (mut ours, mut others) = (0, 0);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // Neither call can fail: all three descriptors are open.
                let _ = rustix::io::dup2(&other.descriptor, &mut descriptor);
                let _ = rustix::io::dup2(&own, &mut descriptor);
            }
        });
        let mut round = || -> Result<()> {
            let (status, info, address) = client.device().map_foreign(what, READ | WRITE)?;
            same("GDMABUF", status, Status::OK)?;
            if address == location.address {
                ours += 1;
            } else {
                others += 1;
                view.fill(0);
                draw(&mut client, address, &other.memory, DRAWN ^ others)?;
                expect_all("our own memory", &view, 0)?;
            }
            unmap(&client, info, address)
        };
        let end = Instant::now() + Duration::from_secs(12);
        let mut result = Ok(());
        while result.is_ok() && Instant::now() < end {
            result = round();
        }
        stop.store(true, Ordering::Relaxed);
        result
    });
    println!("# found {ours} times ours, {others} times the other one's");
    result?;
    ensure!(ours > 3 && others > 3, "{ours} and {others} times");
    drop((descriptor, own, other));
    release(&giver, node)?;
    client.finish()?;
    books_settle(before)
}

/// Whether all pages of `memory` are present and above 4 GiB.
fn is_high(memory: &Memory) -> Result<bool> {
    let map = File::open("/proc/self/pagemap")?;
    let pages = memory.address()..memory.address() + memory.len() as u64;
    for page in pages.step_by(PAGE) {
        let mut entry = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&map, &mut entry, page / PAGE as u64 * 8)?;
        let entry = u64::from_le_bytes(entry);
        ensure!(entry >> 63 == 1, "no page at {page:#x}");
        if entry & ((1 << 55) - 1) < 1 << 20 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Memory of this process above 4 GiB.
fn high_memory(reached: bool) -> Result<()> {
    let mut client = client(named("6.4.11")?)?;
    let before = at_rest(used)?;
    let memory = own_memory()?;
    memory.fill(0);
    ensure!(is_high(&memory)?, "its pages lie below 4 GiB");
    let bytes = memory.len() as u64;
    let (status, handle) = client.device().wrap_memory(memory.address(), bytes)?;
    if reached {
        same("WRAP", status, Status::OK)?;
        let node = wrapped(handle);
        let (address, _) = lock(&client, node)?;
        draw(&mut client, address, &memory, DRAWN)?;
        release(&client, node)?;
    } else {
        same("WRAP", status, Status::NOT_SUPPORTED)?;
    }
    books_settle(before)
}

/// A dma-buf above 4 GiB.
fn high_dma_buf(reached: bool) -> Result<()> {
    let mut client = client(named("6.4.11")?)?;
    let before = at_rest(used)?;
    let buffer = Udmabuf::new()?;
    buffer.memory.fill(0);
    ensure!(is_high(&buffer.memory)?, "its pages lie below 4 GiB");
    let (status, handle) = client.device().wrap_dma_buf(buffer.number())?;
    if !reached {
        same("WRAP", status, Status::NOT_SUPPORTED)?;
        return books_settle(before);
    }
    same("WRAP", status, Status::OK)?;
    let node = wrapped(handle);
    let (address, _) = lock(&client, node)?;
    draw(&mut client, address, &buffer.memory, DRAWN)?;
    release(&client, node)?;
    books_settle(before)
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        let options = Options::parse(&["raced", "high"])?;
        if let Some(how) = options.get("high") {
            let reached = how == "reached";
            suite.test("memory above 4 GiB", move || high_memory(reached));
            suite.test("a dma-buf above 4 GiB", move || high_dma_buf(reached));
            return suite.run();
        }
        if options.get("raced").is_some() {
            suite.test("a descriptor that changes meanwhile", raced);
            return suite.run();
        }
        let pipes = Device::open()?.identity()?.pixel_pipes;
        for abi in Abi::familiar() {
            let what = abi.name;
            suite.test(format!("{what}: refusals"), move || refusals(abi));
            // A client needs the number of pixel pipes to draw with two of them.
            if pipes > 1 && abi.field("QueryChipIdentity", "pixelPipes").is_none() {
                continue;
            }
            if abi.has("WRAP_USER_MEMORY") {
                suite.test(format!("{what}: the client's own memory"), move || {
                    wrap_memory(abi)
                });
                suite.test(format!("{what}: another driver's dma-buf"), move || {
                    wrap_dma_buf(abi)
                });
                suite.test(format!("{what}: a view that is gone"), move || {
                    lost_view(abi)
                });
            }
            if abi.has("UNMAP_USER_MEMORY") {
                for dma_buf in [false, true] {
                    let kind = if dma_buf { "GDMABUF" } else { "GMEMBUF" };
                    suite.test(format!("{what}: {kind}"), move || map_foreign(abi, dma_buf));
                }
                suite.test(format!("{what}: GDMABUF as it was first"), move || {
                    map_old(abi)
                });
            }
            for pool in POOLS {
                if abi.has("GET_VIDEO_MEMORY_FD") && is_allowed(abi, pool) {
                    suite.test(format!("{what}, {pool}: as a dma-buf"), move || {
                        export_node(abi, pool)
                    });
                }
            }
        }
        for name in ["5.0.11.p8", "6.4.11"] {
            let abi = named(name)?;
            if abi.has("EXPORT_VIDEO_MEMORY") {
                suite.test(format!("{name}: flags of a dma-buf"), move || {
                    export_flags(abi)
                });
                suite.test(format!("{name}: a dma-buf for reading"), move || {
                    for_reading(abi)
                });
            }
            for pool in POOLS {
                if !is_allowed(abi, pool) {
                    continue;
                }
                suite.test(format!("{name}, {pool}: its own view"), move || {
                    own_view(abi, pool)
                });
                suite.test(format!("{name}, {pool}: back to the GPU"), move || {
                    import_own(abi, pool)
                });
                suite.test(format!("{name}, {pool}: to another process"), move || {
                    to_other(abi, pool, false)
                });
                suite.test(
                    format!("{name}, {pool}: to another process, which is killed"),
                    move || to_other(abi, pool, true),
                );
            }
        }
        for pool in POOLS {
            suite.test(
                format!("{pool}: our own by Russell King's ioctl"),
                move || own_by_ioctl(pool),
            );
        }
        suite.test("pinned pages that are a dma-buf too", || mapped_twice(true));
        suite.test("a dma-buf whose pages are to be pinned", || {
            mapped_twice(false)
        });
        suite.test("dma-bufs of the same pages", dma_bufs_overlap);
        suite.test("memory that may only be read", read_only);
        suite.test("before the first command", unsettled);
        suite.test("no descriptor left", no_descriptor_left);
        suite.run()
    })
}
