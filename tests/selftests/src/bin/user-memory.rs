// SPDX-License-Identifier: GPL-2.0-only
//! MAP_USER_MEMORY, UNMAP_USER_MEMORY, and CACHE: arguments, limits, pinning and unpinning.

use std::fs;
use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Device;
use galcore_client::device::Memory;
use galcore_client::sys::become_user;
use galcore_client::sys::Idle;
use galcore_client::sys::Region;
use galcore_client::uapi::cache;
use galcore_client::uapi::Command;
use galcore_client::uapi::MapUserMemory;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Client;
use galcore_client::Queue;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::pinned;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::gpu_copy;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::locked_surface;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::unlock;
use galcore_selftests::video::BLOCK;
use rustix::process::Resource;
use rustix::process::Rlimit;

const PAGE: usize = 4096;

/// MAP with the given numbers. A mapping is released again.
fn map_status(device: &Device, memory: u64, size: u64, physical: u32) -> Result<Status> {
    let asked = MapUserMemory {
        memory,
        size,
        physical,
        ..Default::default()
    };
    let (status, answer) = device.send(Command::MAP_USER_MEMORY, &asked)?;
    if status == Status::OK {
        device.unmap_user(&answer)?;
    }
    Ok(status)
}

/// Values that must return to their start after all is unmapped: pinned KiB, and MMU entries.
fn books() -> Result<(u64, u64)> {
    Ok((pinned()?, ProcGc::mmu_used_now()?))
}

fn argument_tests<'a>(suite: &mut Suite<'a>, device: &'a Device) {
    suite.test(
        "MAP: arguments that make no sense are INVALID_ARGUMENT",
        move || {
            let before = at_rest(books)?;
            let own = Region::anonymous(4 * PAGE)?;
            let at = own.address();
            for (what, memory, size, physical) in [
                ("memory 0", 0, 4096, u32::MAX),
                ("size 0", at, 0, u32::MAX),
                ("both 0", 0, 0, u32::MAX),
                ("a size that wraps", at, 0x1_0000_0000 - at, u32::MAX),
                (
                    "a size that wraps by its last page",
                    at,
                    0xffff_ffff,
                    u32::MAX,
                ),
                ("a size of 64 bits", at, 1 << 32, u32::MAX),
                ("the largest size", at, u64::MAX, u32::MAX),
                ("physical memory", at, 4096, 0x4000_0000),
                ("physical memory, no address", 0, 4096, 0x4000_0000),
                ("physical memory at 1", at, 4096, 1),
            ] {
                let found = map_status(device, memory, size, physical)?;
                same(what, found, Status::INVALID_ARGUMENT)?;
            }
            settles("pinned KiB, MMU entries", before, books)
        },
    );
    suite.test(
        "MAP: of an address in 64 bits a 32-bit program means the low half",
        move || {
            let before = at_rest(books)?;
            let own = Region::anonymous(PAGE)?;
            for high in [1, u64::from(u32::MAX)] {
                let found = map_status(device, high << 32 | own.address(), 4096, u32::MAX)?;
                same("MAP_USER_MEMORY", found, Status::OK)?;
            }
            settles("pinned KiB, MMU entries", before, books)
        },
    );
    suite.test(
        "MAP: any alignment and size; the address keeps its place in the page",
        move || {
            let before = at_rest(books)?;
            let own = Region::anonymous(8 * PAGE)?;
            for (offset, size, pages) in [
                (0, 1, 1),
                (0, PAGE, 1),
                (1, PAGE, 2),
                (4095, 1, 1),
                (4095, 2, 2),
                (0x123, 3 * PAGE, 4),
                (63, 8 * PAGE - 63, 8),
            ] {
                let at = own.address() + offset as u64;
                let mapping = device.map_user(at, size as u64)?;
                let what = format!("{size} bytes at {offset:#x}");
                same(&what, mapping.address & 0xfff, at as u32 & 0xfff)?;
                ensure!(mapping.address >> 31 == 1, "{what}: {:#x}", mapping.address);
                ensure!(
                    (1..1 << 31).contains(&mapping.info),
                    "info {:#x}",
                    mapping.info
                );
                same(&format!("{what}: pinned"), pinned()?, before.0 + pages * 4)?;
                device.unmap_user(&mapping)?;
                settles(&what, before, books)?;
            }
            Ok(())
        },
    );
    suite.test("MAP: physical may be 0 too", move || {
        let own = Region::anonymous(PAGE)?;
        same(
            "status",
            map_status(device, own.address(), 4096, 0)?,
            Status::OK,
        )
    });
    suite.test(
        "MAP: memory that is not all there and writable is OUT_OF_RESOURCES",
        move || {
            // Earlier tests' unmaps may still be pending.
            let before = (0, 0);
            settles("nothing mapped", before, books)?;
            let bytes = 8 * PAGE as u64;
            let check = |what: &str, at: u64, bytes: u64| -> Result<()> {
                same(
                    what,
                    map_status(device, at, bytes, u32::MAX)?,
                    Status::OUT_OF_RESOURCES,
                )
            };
            let own = Region::anonymous(8 * PAGE)?;
            own.protect(0, 8 * PAGE, true, false)?;
            check("read-only, never written", own.address(), bytes)?;
            own.protect(0, 8 * PAGE, true, true)?;
            own.write(0, 1);
            own.protect(0, 8 * PAGE, true, false)?;
            check("read-only", own.address(), bytes)?;
            own.protect(0, 8 * PAGE, true, true)?;
            own.protect(7 * PAGE, PAGE, true, false)?;
            check("last page read-only", own.address(), bytes)?;
            own.protect(7 * PAGE, PAGE, false, false)?;
            check("last page without access", own.address(), bytes)?;
            check("one byte in it", own.address() + bytes - 4097, 2)?;
            let file = system::memory_file(bytes)?;
            let shared = Region::map_read_only(&file, 8 * PAGE, 0)?;
            check("a file mapped read-only", shared.address(), bytes)?;
            file.set_len(bytes / 2)?;
            let cut_off = Region::map(&file, 8 * PAGE, 0)?;
            check("a file that ends before", cut_off.address(), bytes)?;
            let (first, last) = Region::anonymous(8 * PAGE)?.cut(3 * PAGE, PAGE)?;
            check("a hole", first.address(), bytes)?;
            check("nothing at its start", last.address() - 4096, 8192)?;
            check("nothing at its end", first.address(), 3 * 4096 + 1)?;
            check("page 0", 16, 4096)?;
            check("the kernel", 0xc000_8000, 4096)?;
            check("from user into kernel memory", 0xbfff_f000, 8192)?;
            check("the last page", 0xffff_0000, 4096)?;
            check("nearly 2 GiB", 0x1_0000, 0x7fff_0000)?;
            check("more than 2 GiB", 0x1000, 0x9000_0000)?;
            settles("pinned KiB, MMU entries", before, books)
        },
    );
    suite.test(
        "MAP: the driver's own memory is OUT_OF_RESOURCES",
        move || {
            let before = at_rest(books)?;
            let pool = device.map_pool()?;
            let node = device.allocate(8192, 64, 6, Pool::SYSTEM)?;
            let location = device.lock(node)?;
            let memory = device.memory(node, location, &pool)?;
            memory.write(0, 1);
            let buffer = device.allocate_contiguous(8192)?;
            buffer.memory.write(0, 1);
            let page_node = device.allocate(8192, 64, 6, Pool::CONTIGUOUS)?;
            let there = device.lock(page_node)?.logical;
            for (what, at) in [
                ("the pool", memory.address()),
                ("a buffer", buffer.logical),
                ("a CONTIGUOUS node", there),
            ] {
                let found = map_status(device, at, 8192, u32::MAX)?;
                same(what, found, Status::OUT_OF_RESOURCES)?;
            }
            device.free_contiguous(&buffer)?;
            for node in [node, page_node] {
                unlock(device, node)?;
                device.free(node)?;
            }
            settles("pinned KiB, MMU entries", before, books)
        },
    );
    suite.test(
        "UNMAP: a field that is 0, an unknown and a used handle",
        move || {
            let before = at_rest(books)?;
            let own = Region::anonymous(2 * PAGE)?;
            let good = device.map_user(own.address(), 8192)?;
            let invalid = Status::INVALID_ARGUMENT;
            for (what, wrong, wanted) in [
                ("memory 0", MapUserMemory { memory: 0, ..good }, invalid),
                ("size 0", MapUserMemory { size: 0, ..good }, invalid),
                ("info 0", MapUserMemory { info: 0, ..good }, invalid),
                (
                    "unknown info",
                    MapUserMemory {
                        info: 0x7fff_fff0,
                        ..good
                    },
                    Status::NOT_FOUND,
                ),
                (
                    "info above 31 bits",
                    MapUserMemory {
                        info: good.info | 1 << 31,
                        ..good
                    },
                    Status::NOT_FOUND,
                ),
                (
                    "all ones",
                    MapUserMemory {
                        info: u32::MAX,
                        ..good
                    },
                    Status::NOT_FOUND,
                ),
            ] {
                refused(what, device.unmap_user(&wrong), wanted)?;
            }
            same("still pinned", pinned()?, before.0 + 8)?;
            device.unmap_user(&good)?;
            refused("twice", device.unmap_user(&good), Status::NOT_FOUND)?;
            settles("pinned KiB, MMU entries", before, books)
        },
    );
    suite.test(
        "UNMAP goes by the driver's own record, not by the caller's numbers",
        move || {
            let before = at_rest(books)?;
            let own = Region::anonymous(64 * PAGE)?;
            let other = device.map_user(own.address(), 16 * 4096)?;
            for (memory, size, address) in [
                (0x1000, 1, 0),
                (own.address() + 5, u64::MAX, u32::MAX),
                (0xc000_0000, 0x4000_0000, other.address),
                (own.address(), 64 * 4096, other.address),
            ] {
                let held = books()?;
                let mut mapping = device.map_user(own.address() + 16 * 4096, 8 * 4096)?;
                (mapping.memory, mapping.size, mapping.address) = (memory, size, address);
                device.unmap_user(&mapping)?;
                settles("pinned KiB, MMU entries", held, books)?;
            }
            device.unmap_user(&other)?;
            settles("pinned KiB, MMU entries", before, books)
        },
    );
    suite.test(
        "UNMAP as a record: once, and unknown ones are left out",
        move || {
            let before = at_rest(books)?;
            let own = Region::anonymous(4 * PAGE)?;
            let mapping = device.map_user(own.address(), 4 * 4096)?;
            let unknown = MapUserMemory {
                info: 0x7fff_fff0,
                ..mapping
            };
            let done = device.create_signal(false)?;
            device.commit_queue(
                Queue::new()
                    .unmap_user(&unknown)
                    .unmap_user(&mapping)
                    .unmap_user(&mapping)
                    .signal(done),
            )?;
            refused(
                "by ioctl besides",
                device.unmap_user(&mapping),
                Status::NOT_FOUND,
            )?;
            device.wait_signal(done, 5000)?;
            device.destroy_signal(done)?;
            settles("pinned KiB, MMU entries", before, books)
        },
    );
    suite.test(
        "a queue that is refused leaves the mapping as it was",
        move || {
            let own = Region::anonymous(4 * PAGE)?;
            let mapping = device.map_user(own.address(), 4 * 4096)?;
            let held = books()?;
            let mut queue = Queue::new();
            queue.unmap_user(&mapping).set_ending(16);
            ensure!(
                device.send_queue(&mut queue)? != Status::OK,
                "the queue was taken"
            );
            same("pinned KiB, MMU entries", books()?, held)?;
            Ok(device.unmap_user(&mapping)?)
        },
    );
    suite.test("another process's mappings are unknown", move || {
        let foreign = Foreign::start()?;
        let theirs = MapUserMemory {
            memory: 0x1_0000,
            size: 4096,
            info: foreign.user_memory(),
            ..Default::default()
        };
        refused("UNMAP", device.unmap_user(&theirs), Status::NOT_FOUND)?;
        let used = at_rest(ProcGc::mmu_used_now)?;
        device.commit_queue(Queue::new().unmap_user(&theirs))?;
        device.stall()?;
        std::thread::sleep(std::time::Duration::from_millis(50));
        same(
            "MMU entries in use after a record",
            ProcGc::mmu_used_now()?,
            used,
        )
    });
}

/// Runs this program in another role, which must succeed.
fn child(role: &str) -> Result<()> {
    let output = system::again(&[role])?
        .output()
        .context("another process")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}");
    Ok(())
}

fn life_tests<'a>(suite: &mut Suite<'a>, device: &'a Device) {
    suite.test(
        "the same memory mapped twice: two handles, two places",
        move || {
            let before = at_rest(books)?;
            let own = Region::anonymous(PAGE)?;
            let first = device.map_user(own.address(), 4096)?;
            let second = device.map_user(own.address(), 4096)?;
            ensure!(
                first.info != second.info && first.address != second.address,
                "{second:?}"
            );
            same("pinned", pinned()?, before.0 + 8)?;
            device.unmap_user(&first)?;
            device.unmap_user(&second)?;
            settles("pinned KiB, MMU entries", before, books)
        },
    );
    suite.test(
        "munmap while it is mapped: the GPU keeps the old pages, the new ones are safe",
        move || {
            let before = at_rest(books)?;
            let mut client = Client::start()?;
            let own = Memory::new(Region::anonymous(4 * PAGE)?);
            let (at, bytes) = (own.address(), own.len());
            let mapping = device.map_user(at, bytes as u64)?;
            drop(own);
            // Most likely at the same address.
            let new = Memory::new(Region::anonymous(bytes)?);
            println!(
                "# the new memory is at the {} place",
                if new.address() == at { "same" } else { "next" }
            );
            new.fill(0x600d_600d);
            let stand_in = Memory::new(Region::anonymous(bytes)?);
            gpu_fill(
                &mut client,
                &surface_at(mapping.address, stand_in)?,
                0xbad0_0bad,
            )?;
            drop(client);
            expect_all("the new memory", &new, 0x600d_600d)?;
            device.unmap_user(&mapping)?;
            settles("pinned KiB, MMU entries", before, books)?;
            expect_all("the new memory after UNMAP", &new, 0x600d_600d)
        },
    );
    suite.test(
        "fork while it is mapped: the parent and the GPU go on with one memory",
        move || {
            let before = at_rest(books)?;
            let mut client = Client::start()?;
            let own = Memory::new(Region::anonymous(16 * BLOCK)?);
            own.fill(1);
            let mapping = device.map_user(own.address(), own.len() as u64)?;
            let surface = surface_at(mapping.address, own.clone())?;
            let child = Idle::fork()?;
            own.fill(0xaaaa_0001);
            device.cache(cache::FLUSH, 0, own.address(), own.len() as u64)?;
            let (node, plain) = locked_surface(&client, own.len() as u32, Pool::SYSTEM, false)?;
            gpu_copy(&mut client, &surface, &plain)?;
            expect_all("read by the GPU", &plain.memory, 0xaaaa_0001)?;
            gpu_fill(&mut client, &surface, 0xaaaa_0002)?;
            device.cache(cache::INVALIDATE, 0, own.address(), own.len() as u64)?;
            expect_all("read by the CPU", &own, 0xaaaa_0002)?;
            drop(child);
            device.unmap_user(&mapping)?;
            unlock(client.device(), node)?;
            client.device().free(node)?;
            drop(client);
            settles("pinned KiB, MMU entries", before, books)
        },
    );
    suite.test(
        "a shared file in memory: the GPU's writes show in another mapping of it",
        move || {
            let mut client = Client::start()?;
            let file = system::memory_file(4 * PAGE as u64)?;
            let here = Memory::new(Region::map(&file, 4 * PAGE, 0)?);
            let there = Memory::new(Region::map(&file, 4 * PAGE, 0)?);
            let mapping = device.map_user(here.address(), here.len() as u64)?;
            gpu_fill(
                &mut client,
                &surface_at(mapping.address, here.clone())?,
                0x5a5a_5a5a,
            )?;
            device.cache(cache::INVALIDATE, 0, here.address(), here.len() as u64)?;
            expect_all("the other mapping", &there, 0x5a5a_5a5a)?;
            Ok(device.unmap_user(&mapping)?)
        },
    );
    suite.test(
        "the view of a VIRTUAL node, mapped or not, is given back whole",
        move || {
            // The unmaps of the last case may still be pending.
            settles("pinned", 0, pinned)?;
            let before = (books()?, ProcGc::used_now()?);
            let node = device.allocate(4 * PAGE as u32, 64, 6, Pool::VIRTUAL)?;
            let location = device.lock(node)?;
            let mapped = device.map_user(location.logical, 4 * 4096);
            unlock(device, node)?;
            device.free(node)?;
            // Pinned pages must not be reused.
            for _ in 0..4 {
                let (next, client) = (
                    device.allocate(4 * PAGE as u32, 64, 6, Pool::VIRTUAL)?,
                    device,
                );
                let memory = client.memory(
                    next,
                    client.lock(next)?,
                    &Memory::new(Region::anonymous(1)?),
                )?;
                expect_all("a fresh node", &memory, 0)?;
                memory.fill(0x1234_5678);
                unlock(client, next)?;
                client.free(next)?;
            }
            match mapped {
                Ok(mapping) => device.unmap_user(&mapping)?,
                Err(error) => same("status", error.status(), Some(Status::OUT_OF_RESOURCES))?,
            }
            settles("as before", before, || Ok((books()?, ProcGc::used_now()?)))
        },
    );
    suite.test(
        "a process that ends with memory mapped lets it go",
        move || {
            let child = || {
                same(
                    "child",
                    system::again(&["--leave"])?.status()?.code(),
                    Some(0),
                )
            };
            let before = at_rest(ProcGc::mmu_used_now)?;
            // Warms up the kernel's allocations before memory is measured.
            child()?;
            settles("MMU entries in use", before, ProcGc::mmu_used_now)?;
            let free = system::settled_free()?;
            for _ in 0..10 {
                child()?;
            }
            settles("MMU entries in use", before, ProcGc::mmu_used_now)?;
            system::memory_is_back(free, 1024)
        },
    );
    suite.test("RLIMIT_MEMLOCK holds for an ordinary process", move || {
        child("--limited")
    });
    suite.test(
        "what a record has unmapped does not count for RLIMIT_MEMLOCK once that is told",
        move || child("--limited-by-records"),
    );
    suite.test(
        "RLIMIT_MEMLOCK does not hold with CAP_IPC_LOCK",
        move || {
            let was = rustix::process::getrlimit(Resource::Memlock);
            let limit = Rlimit {
                current: Some(65_536),
                ..was
            };
            rustix::process::setrlimit(Resource::Memlock, limit)?;
            let own = Region::anonymous(1 << 20)?;
            let mapping = device.map_user(own.address(), 1 << 20);
            rustix::process::setrlimit(Resource::Memlock, was)?;
            Ok(device.unmap_user(&mapping?)?)
        },
    );
}

fn cache_tests<'a>(suite: &mut Suite<'a>, device: &'a Device) {
    suite.test("CACHE: every operation and every wrong one", move || {
        let own = Region::anonymous(4 * PAGE)?;
        let mapping = device.map_user(own.address() + 0x100, 8192)?;
        let at = own.address() + 0x100;
        let node = device.allocate(8192, 64, 6, Pool::VIRTUAL)?;
        let view = device.lock_cacheable(node)?.logical;
        for (what, id, address, bytes) in [
            ("user memory", 0, at, 8192),
            ("a part of it", 0, at + 5000, 3),
            ("user memory under a node's name", node.handle, at, 8192),
            ("a cached node", node.handle, view, 8192),
            ("a part of it", node.handle, view + 4095, 2),
            ("foreign memory", 0, own.address() + 3 * 4096, 4096),
            ("foreign memory at 0", 0, 0, 0),
            ("kernel memory", 0, 0xc000_0000, 4096),
        ] {
            for operation in [
                cache::CLEAN,
                cache::INVALIDATE,
                cache::FLUSH,
                cache::MEMORY_BARRIER,
            ] {
                device
                    .cache(operation, id, address, bytes)
                    .with_context(|| format!("operation {operation}, {what}"))?;
            }
            for operation in [0, 5, 99, u32::MAX] {
                let result = device.cache(operation, id, address, bytes);
                refused(
                    &format!("operation {operation}, {what}"),
                    result,
                    Status::INVALID_ARGUMENT,
                )?;
            }
        }
        for operation in [cache::CLEAN, cache::INVALIDATE, cache::FLUSH] {
            for (what, id, address, bytes, wanted) in [
                ("logical 0", node.handle, 0, 64, Status::INVALID_ARGUMENT),
                ("bytes 0", node.handle, view, 0, Status::INVALID_ARGUMENT),
                (
                    "an unknown node",
                    0x7fff_fff0,
                    view,
                    64,
                    Status::INVALID_OBJECT,
                ),
                (
                    "a node of 64 bits",
                    1 << 32 | node.handle,
                    view,
                    64,
                    Status::INVALID_OBJECT,
                ),
                (
                    "before the node",
                    node.handle,
                    view - 64,
                    128,
                    Status::INVALID_ADDRESS,
                ),
                (
                    "behind the node",
                    node.handle,
                    view + 8190,
                    3,
                    Status::INVALID_ADDRESS,
                ),
                (
                    "a size that wraps",
                    node.handle,
                    view + 64,
                    u32::MAX.into(),
                    Status::INVALID_ADDRESS,
                ),
                (
                    "a size of 64 bits",
                    node.handle,
                    view,
                    1 << 32,
                    Status::INVALID_ADDRESS,
                ),
                (
                    "the kernel",
                    node.handle,
                    0xc000_8000,
                    64,
                    Status::INVALID_ADDRESS,
                ),
                (
                    "half of the user memory",
                    node.handle,
                    at - 64,
                    128,
                    Status::INVALID_ADDRESS,
                ),
            ] {
                let result = device.cache(operation, id, address, bytes);
                refused(&format!("operation {operation}, {what}"), result, wanted)?;
            }
        }
        unlock(device, node)?;
        device.free(node)?;
        refused(
            "a freed node",
            device.cache(cache::CLEAN, node.handle, view, 64),
            Status::INVALID_OBJECT,
        )?;
        device.unmap_user(&mapping)?;
        device
            .cache(cache::CLEAN, 0, at, 8192)
            .context("unmapped user memory")
    });
    suite.test(
        "CACHE of views that are not cached has nothing to do",
        move || {
            let pool = device.map_pool()?;
            for kind in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
                let node = device.allocate(4096, 64, 6, kind)?;
                let location = device.lock(node)?;
                let memory = device.memory(node, location, &pool)?;
                memory.fill(0x77);
                for operation in [cache::CLEAN, cache::INVALIDATE, cache::FLUSH] {
                    device.cache(operation, node.handle, location.logical, 4096)?;
                }
                expect_all(&kind.to_string(), &memory, 0x77)?;
                unlock(device, node)?;
                device.free(node)?;
            }
            Ok(())
        },
    );
    suite.test("CACHE: another process's node is unknown", move || {
        let foreign = Foreign::start()?;
        let theirs = foreign.node().handle;
        refused(
            "CLEAN",
            device.cache(cache::CLEAN, theirs, 0x1_0000, 64),
            Status::INVALID_OBJECT,
        )
    });
}

/// A process that maps memory and exits without an unmap.
fn leave() -> Result<()> {
    let device = Device::open()?;
    let own = Region::anonymous(1 << 20)?;
    own.write(0, 1);
    for start in 0..4 {
        device.map_user(own.address() + start * 0x4_0000 + 64, 0x3_0000)?;
    }
    Ok(())
}

/// Opens the device, drops all capabilities, and limits the pages that can be pinned.
fn with_limit(pages: usize) -> Result<Device> {
    let device = Device::open()?;
    let limit = Rlimit {
        current: Some((pages * PAGE) as u64),
        maximum: Some((pages * PAGE) as u64),
    };
    rustix::process::setrlimit(Resource::Memlock, limit).context("setrlimit")?;
    become_user(1000).context("setuid")?;
    Ok(device)
}

/// A process with such a limit, whose records repeatedly unmap almost all pages that it may pin.
fn limited_by_records() -> Result<()> {
    const LIMIT: usize = 512;
    const ROUNDS: u32 = 40;
    let device = with_limit(LIMIT)?;
    let own = Region::anonymous(LIMIT * PAGE)?;
    // The driver releases small mappings at once, and large ones in steps.
    for pages in [LIMIT - 8, LIMIT] {
        let bytes = (pages * PAGE) as u64;
        let signal = device.create_signal(false)?;
        for round in 0..ROUNDS {
            let mapping = device
                .map_user(own.address(), bytes)
                .with_context(|| format!("{pages} pages, round {round}"))?;
            same("pinned", pinned()?, bytes / 1024)?;
            let mut queue = Queue::new();
            device.commit_queue(queue.unmap_user(&mapping).signal(signal))?;
            if round % 2 == 0 {
                device.wait_signal(signal, 10_000)?;
            } else {
                device.stall()?;
                device.wait_signal(signal, 10_000)?;
            }
        }
    }
    // Pieces small enough to be released at once.
    const PIECE: u64 = 16 * PAGE as u64;
    let signal = device.create_signal(false)?;
    for round in 0..ROUNDS {
        let mut queue = Queue::new();
        for index in 0..LIMIT as u64 / 16 {
            let mapping = device
                .map_user(own.address() + index * PIECE, PIECE)
                .with_context(|| format!("piece {index}, round {round}"))?;
            queue.unmap_user(&mapping);
        }
        device.commit_queue(queue.signal(signal))?;
        device.wait_signal(signal, 10_000)?;
    }
    settles("pinned", 0, pinned)
}

/// A process without capabilities.
fn limited() -> Result<()> {
    let device = with_limit(16)?;
    let own = Region::anonymous(32 * PAGE)?;
    let too_much = |what: &str, at: u64, pages: u64| {
        refused(
            what,
            device.map_user(at, pages * 4096),
            Status::OUT_OF_RESOURCES,
        )
    };
    too_much("17 pages", own.address(), 17)?;
    too_much("16 pages and a byte each side", own.address() + 2048, 16)?;
    same("pinned", pinned()?, 0)?;
    let half = device.map_user(own.address(), 10 * 4096)?;
    same("pinned", pinned()?, 40)?;
    too_much("7 more", own.address() + 16 * 4096, 7)?;
    let rest = device.map_user(own.address() + 20 * 4096, 6 * 4096)?;
    too_much("1 more", own.address() + 16 * 4096, 1)?;
    device.unmap_user(&half)?;
    // Pages that were just unmapped must not count any more.
    let half = device
        .map_user(own.address() + 4096, 10 * 4096)
        .context("10 again")?;
    device.unmap_user(&rest)?;
    device.unmap_user(&half)?;
    settles("pinned", 0, pinned)
}

/// Such a process with huge pages. A pinned page keeps its whole huge page in memory, so the whole huge page counts.
fn limited_huge() -> Result<()> {
    const HUGE: usize = 512 * PAGE;
    const KIB: u64 = HUGE as u64 / 1024;
    // Additional small pages.
    const SPARE: usize = 8;
    let device = with_limit(3 * 512 + SPARE)?;
    let own = Region::anonymous(6 * HUGE)?;
    own.make_huge().context("madvise")?;
    let first = own.address().next_multiple_of(HUGE as u64);
    let page = |huge: usize, index: usize| first + (huge * HUGE + index * PAGE) as u64;
    let offset = (first - own.address()) as usize;
    for huge in [0, 1, 3] {
        own.write(offset + huge * HUGE, 7);
    }
    let map = |at: u64, pages: usize| device.map_user(at, (pages * PAGE) as u64);
    let too_much =
        |what: &str, at: u64, pages: usize| refused(what, map(at, pages), Status::OUT_OF_RESOURCES);

    let one = map(page(0, 5), 1)?;
    same("one page: pinned", pinned()?, KIB)?;
    let mut pieces = vec![one];
    for index in 0..32 {
        pieces.push(map(page(0, index * 16) + 64, SPARE - 1)?);
    }
    same("pieces of one huge page: pinned", pinned()?, KIB)?;
    let whole = map(page(1, 0), 512)?;
    same("and a whole one: pinned", pinned()?, 2 * KIB)?;
    let third = map(page(2, 511), 1)?;
    same("and a page of the third: pinned", pinned()?, 3 * KIB)?;
    too_much("a page of the fourth", page(3, 0), 1)?;
    too_much("the third's last and the fourth's first", page(2, 511), 2)?;
    same("as before: pinned", pinned()?, 3 * KIB)?;
    // The pages of the third huge page count until the last one is unmapped.
    let also_third = map(page(2, 510), 2)?;
    device.unmap_user(&third)?;
    settles("one of two unmapped", 3 * KIB, pinned)?;
    too_much("a page of the fourth, again", page(3, 0), 1)?;
    device.unmap_user(&also_third)?;
    settles("the third unmapped", 2 * KIB, pinned)?;
    device.unmap_user(&whole)?;
    for piece in pieces {
        device.unmap_user(&piece)?;
    }
    settles("all unmapped", 0, pinned)?;
    let untouched = map(page(4, 5), 1)?;
    same("a page not touched before: pinned", pinned()?, KIB)?;
    device.unmap_user(&untouched)?;
    settles("unmapped too", 0, pinned)?;
    // A request that fits is not refused for its temporary count.
    let fits = map(page(0, 0), 3 * 512)?;
    same(
        "three whole ones, one untouched: pinned",
        pinned()?,
        3 * KIB,
    )?;
    let more = map(page(2, 1), 511)?;
    same("and the last one's pages again: pinned", pinned()?, 3 * KIB)?;
    too_much("and a page of the fourth", page(2, 1), 512)?;
    device.unmap_user(&more)?;
    device.unmap_user(&fits)?;
    settles("these unmapped", 0, pinned)?;
    let across = map(page(0, 256), 2 * 512)?;
    same("three, two of them half: pinned", pinned()?, 3 * KIB)?;
    drop(own);
    same("its memory gone: pinned", pinned()?, 3 * KIB)?;
    let small = Region::anonymous(2 * SPARE * PAGE)?;
    too_much("small pages", small.address(), SPARE + 1)?;
    let rest = map(small.address(), SPARE)?;
    device.unmap_user(&rest)?;
    device.unmap_user(&across)?;
    settles("all unmapped again", 0, pinned)
}

/// Tests for a kernel with huge pages.
fn huge_tests(suite: &mut Suite<'_>) {
    suite.test("RLIMIT_MEMLOCK: a huge page counts whole and once", || {
        const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
        fs::write(ENABLED, "madvise").context(ENABLED)?;
        child("--limited-huge")
    });
}

fn main() -> ExitCode {
    let is_huge = std::env::args().nth(1).as_deref() == Some("--huge");
    let child = match std::env::args().nth(1).as_deref() {
        Some("--leave") => Some(leave()),
        Some("--limited") => Some(limited()),
        Some("--limited-huge") => Some(limited_huge()),
        Some("--limited-by-records") => Some(limited_by_records()),
        _ => None,
    };
    if let Some(result) = child {
        if let Err(error) = &result {
            println!("{error:#}");
        }
        return ExitCode::from(u8::from(result.is_err()));
    }
    harness::program(|| {
        ProcGc::nothing_left()?;
        let device = Device::open()?;
        let mut suite = Suite::new();
        if is_huge {
            huge_tests(&mut suite);
        } else {
            argument_tests(&mut suite, &device);
            life_tests(&mut suite, &device);
            cache_tests(&mut suite, &device);
        }
        suite.test("everything is given back", || {
            settles("pinned KiB, MMU entries", (0, 0), books)
        });
        suite.run()
    })
}
