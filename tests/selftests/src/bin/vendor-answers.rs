// SPDX-License-Identifier: GPL-2.0-only
//! Replies of the vendor's drivers that unmodified clients depend on: parts of commands, written fields, and statuses.

use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Node;
use galcore_client::device::NODES;
use galcore_client::profile;
use galcore_client::sys;
use galcore_client::uapi;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::reference;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::ProcGc;
use gpu_control::Board;

/// The initial value of a field, which shows that nothing was written.
const UNWRITTEN: u64 = 0xa5a5_a5a5;

/// Bits of LOCK's and UNLOCK's `op`.
const LOCK: u64 = 1;
const MAP: u64 = 2;
const UNLOCK: u64 = 4;
const UNMAP: u64 = 8;

fn abi(name: &str) -> Result<&'static Abi> {
    Abi::named(name).with_context(|| format!("no generation {name}"))
}

/// A client of the generation with this name.
fn client(name: &str) -> Result<Client> {
    Ok(Client::with_device(Device::open_as(abi(name)?, true)?)?)
}

/// Sends a command with the fields `given`. All other bytes of its structure are [`UNWRITTEN`]. Returns the status and
/// the resulting fields of `wanted`.
fn ask<const COUNT: usize>(
    device: &Device,
    command: &str,
    given: &[(&str, u64)],
    wanted: [&str; COUNT],
) -> Result<(Status, [u64; COUNT])> {
    let abi = device.abi();
    let (number, member) = abi.commands[command];
    let mut bytes = vec![0; abi.sizes[0]];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    let (at, size) = abi.header["hardwareType"];
    bytes[at..at + size].copy_from_slice(&device.hardware_type().to_le_bytes()[..size]);
    if let Some(length) = abi.members.get(member) {
        bytes[abi.union_at..abi.union_at + length].fill(0xa5);
    }
    for (field, value) in given {
        abi.set(&mut bytes, member, field, *value);
    }
    device.exchange_bytes(&mut bytes)?;
    let status = Status(abi.header_of(&bytes, "status") as i32);
    let values = wanted.map(|field| abi.get(&bytes, member, field));
    Ok((status, values))
}

/// LOCK with `op`: status, GPU address, user address.
fn lock(device: &Device, node: Node, op: u64) -> Result<(Status, u64, u64)> {
    let given = [("node", node.handle), ("cacheable", 0), ("op", op)];
    let (status, [address, memory]) =
        ask(device, "LOCK_VIDEO_MEMORY", &given, ["address", "memory"])?;
    Ok((status, address, memory))
}

/// UNLOCK with `op`: status, `asynchroneous`, pool, bytes.
fn unlock(device: &Device, node: Node, op: u64) -> Result<(Status, u64, u64, u64)> {
    let given = [("node", node.handle), ("op", op)];
    let wanted = ["asynchroneous", "pool", "bytes"];
    let (status, [asynchronous, pool, bytes]) = ask(device, "UNLOCK_VIDEO_MEMORY", &given, wanted)?;
    Ok((status, asynchronous, pool, bytes))
}

/// A 64-bit field that was not written.
const UNWRITTEN_LONG: u64 = UNWRITTEN << 32 | UNWRITTEN;

/// The lock and the view of a page-backed node are counted separately.
fn parts_of_a_page_backed_node() -> Result<()> {
    const BYTES: u32 = 8192;
    let client = client("6.4.11")?;
    let device = client.device();
    for round in 0..150 {
        let node = device.allocate(BYTES, 64, surface::BITMAP, Pool::VIRTUAL)?;
        let nothing = lock(device, node, 0)?;
        same(
            "LOCK of nothing",
            nothing,
            (Status::OK, UNWRITTEN_LONG, UNWRITTEN_LONG),
        )?;
        let (status, address, memory) = lock(device, node, LOCK)?;
        same("LOCK for the GPU", (status, memory), (Status::OK, 0))?;
        same("address behind the MMU", address >> 31, 1)?;
        let (status, unasked, view) = lock(device, node, MAP)?;
        same(
            "a view alone",
            (status, unasked),
            (Status::OK, UNWRITTEN_LONG),
        )?;
        system::expect_mapped(view, true)?;
        same(
            "both",
            lock(device, node, LOCK | MAP)?,
            (Status::OK, address, view),
        )?;
        let nothing = unlock(device, node, 0)?;
        same("UNLOCK of nothing", nothing, (Status::OK, UNWRITTEN, 0, 0))?;
        let unmapped = unlock(device, node, UNMAP)?;
        same("UNLOCK of a view", unmapped, (Status::OK, UNWRITTEN, 0, 0))?;
        system::expect_mapped(view, true)?;
        let pool = u64::from(Pool::VIRTUAL.0);
        let unlocked = (Status::OK, 1, pool, u64::from(BYTES));
        same(
            "UNLOCK of the lock",
            unlock(device, node, UNLOCK)?,
            unlocked,
        )?;
        device.commit_queue(Queue::new().unlock(node))?;
        system::expect_mapped(view, true)?;
        same(
            "UNLOCK of both",
            unlock(device, node, UNLOCK | UNMAP)?,
            unlocked,
        )?;
        device.commit_queue(Queue::new().unlock(node))?;
        system::expect_mapped(view, false)?;
        if round % 8 == 0 {
            client.finish()?;
            let found = unlock(device, node, UNLOCK)?.0;
            same("UNLOCK, not locked", found, Status::MEMORY_UNLOCKED)?;
            // A view without a lock ends with the node.
            let (_, _, view) = lock(device, node, MAP)?;
            system::expect_mapped(view, true)?;
            device.free(node)?;
            system::expect_mapped(view, false)?;
        } else {
            device.free(node)?;
        }
    }
    Ok(())
}

/// The same for a node in the pool, whose view is part of the pool's.
fn parts_of_a_pool_node() -> Result<()> {
    const BYTES: u32 = 4096;
    let client = client("6.4.11")?;
    let device = client.device();
    let node = device.allocate(BYTES, 64, surface::BITMAP, Pool::SYSTEM)?;
    let (status, address, memory) = lock(device, node, LOCK)?;
    same("LOCK for the GPU", (status, memory), (Status::OK, 0))?;
    let (status, unasked, view) = lock(device, node, MAP)?;
    same(
        "a view alone",
        (status, unasked),
        (Status::OK, UNWRITTEN_LONG),
    )?;
    let start = client.pool().address();
    let pool = start..start + client.pool().len() as u64;
    same("it is in the pool", pool.contains(&view), true)?;
    same(
        "both",
        lock(device, node, LOCK | MAP)?,
        (Status::OK, address, view),
    )?;
    let cached = [("node", node.handle), ("cacheable", 1), ("op", LOCK)];
    let (found, _) = ask(device, "LOCK_VIDEO_MEMORY", &cached, [])?;
    same("a lock is not cached", found, Status::OK)?;
    let cached = [("node", node.handle), ("cacheable", 1), ("op", LOCK | MAP)];
    let (found, _) = ask(device, "LOCK_VIDEO_MEMORY", &cached, [])?;
    same("a view in the pool neither", found, Status::INVALID_REQUEST)?;
    for op in [UNMAP, UNLOCK, UNMAP, UNLOCK | UNMAP, UNLOCK] {
        let (found, later, pool, bytes) = unlock(device, node, op)?;
        same("UNLOCK", found, Status::OK)?;
        let wanted = match op & UNLOCK {
            0 => (0, 0),
            _ => (Pool::SYSTEM.0.into(), BYTES.into()),
        };
        same("pool and bytes", (pool, bytes), wanted)?;
        if op & UNLOCK != 0 {
            same("asynchroneous", later, 1)?;
            device.commit_queue(Queue::new().unlock(node))?;
        }
    }
    client.finish()?;
    let found = unlock(device, node, UNLOCK)?.0;
    same("one UNLOCK too many", found, Status::MEMORY_UNLOCKED)?;
    let unmapped = unlock(device, node, UNMAP)?.0;
    same("one UNMAP too many", unmapped, Status::OK)?;
    Ok(device.free(node)?)
}

/// ALLOCATE_LINEAR_VIDEO_MEMORY of 5000 bytes: status, node, pool, and bytes.
fn allocate(device: &Device, pool: u64, kind: u64, flags: u64) -> Result<(Status, Node, u64, u64)> {
    let given = [
        ("bytes", 5000),
        ("alignment", 64),
        ("type", kind),
        ("flag", flags),
        ("pool", pool),
    ];
    let wanted = ["node", "pool", "bytes"];
    let (status, [handle, pool, bytes]) =
        ask(device, "ALLOCATE_LINEAR_VIDEO_MEMORY", &given, wanted)?;
    let node = Node {
        handle,
        pool: Pool(pool as u32),
        bytes: 5000,
        surface_type: kind as u32,
    };
    Ok((status, node, pool, bytes))
}

/// Valid pools, the surface types that they accept, and the effects of flags.
fn allocations(name: &str) -> Result<()> {
    let client = client(name)?;
    let device = client.device();
    let abi = device.abi();
    let is_newest = name == "6.4.11";
    let value = |name: &str| u64::from(abi.values[name]);
    let (default, system) = (value("POOL_DEFAULT"), value("POOL_SYSTEM"));
    let scattered = value("POOL_VIRTUAL");
    let pages = abi.values.get("POOL_CONTIGUOUS").copied().map(u64::from);
    let flag = |name: &str| value(&format!("ALLOC_FLAG_{name}"));
    let types = value("SURF_NUM_TYPES") + u64::from(is_newest);
    for kind in 0..types {
        let (status, node, pool, bytes) = allocate(device, system, kind, 0)?;
        same(
            "a type in SYSTEM",
            (kind, status, pool),
            (kind, Status::OK, system),
        )?;
        if is_newest {
            anyhow::ensure!((5000..=8192).contains(&bytes), "{bytes} bytes")
        } else {
            same("bytes, not told", bytes, 5000)?
        }
        device.free(node)?;
    }
    let (status, ..) = allocate(device, system, types, 0)?;
    same("a type too many", status, Status::OUT_OF_MEMORY)?;
    let bitmap = u64::from(surface::BITMAP);
    let cacheable = flag("CACHEABLE");
    let (status, ..) = allocate(device, system, bitmap, cacheable)?;
    same("SYSTEM, cached", status, Status::OUT_OF_MEMORY)?;
    let mut flags = vec![
        (0, system),
        (cacheable, scattered),
        (flag("NON_CONTIGUOUS"), scattered),
        (flag("CONTIGUOUS"), system),
        (flag("CONTIGUOUS") | cacheable, pages.unwrap_or(scattered)),
    ];
    if abi.values.contains_key("ALLOC_FLAG_FAST_POOLS") {
        flags.push((flag("FAST_POOLS"), system));
    }
    for (flags, wanted) in flags {
        let (status, node, pool, bytes) = allocate(device, default, bitmap, flags)?;
        same("flags", (flags, status, pool), (flags, Status::OK, wanted))?;
        if is_newest {
            lock(device, node, LOCK | MAP)?;
            let (_, _, found, held) = unlock(device, node, UNLOCK | UNMAP)?;
            same("pool and bytes of UNLOCK", (found, held), (pool, bytes))?;
            device.commit_queue(Queue::new().unlock(node))?;
        }
        if flags & cacheable != 0 {
            let place = device.lock_cacheable(node)?;
            let memory = device.memory(node, place, client.pool())?;
            memory.fill(7);
            same("cached", memory.find_other_than(7), None)?;
            device.unlock(node)?;
            device.commit_queue(Queue::new().unlock(node))?;
        }
        device.free(node)?;
    }
    // Numbers of pools of memory that no board has.
    for pool in [3, 4, 8, 9, 10, 11, 12, 99] {
        if Some(pool) != pages {
            let (status, ..) = allocate(device, pool, bitmap, 0)?;
            same(
                "a pool of nothing",
                (pool, status),
                (pool, Status::OUT_OF_MEMORY),
            )?;
        }
    }
    client.finish()?;
    Ok(())
}

/// A wait reports its result in a field besides the status.
fn waits() -> Result<()> {
    let client = client("6.4.11")?;
    let device = client.device();
    let signal = device.create_signal(true)? as u64;
    let wait = || {
        let given = [("command", 3), ("id", signal), ("wait", 10)];
        ask(device, "USER_SIGNAL", &given, ["status"])
    };
    same("WAIT, not set", wait()?, (Status::TIMEOUT, [0]))?;
    device.set_signal(signal as i32, true)?;
    same("WAIT, set", wait()?, (Status::OK, [0]))?;
    let given = [("command", 2), ("id", signal), ("state", 0)];
    let set = ask(device, "USER_SIGNAL", &given, ["status"])?;
    same("SIGNAL writes none", set, (Status::OK, [UNWRITTEN]))?;
    Ok(device.destroy_signal(signal as i32)?)
}

/// Queries that have an answer, and commands without an effect.
fn questions(board: Board) -> Result<()> {
    let client = client("6.4.11")?;
    let device = client.device();
    let shaders = u64::from(reference::identity(board).shader_core_count);
    let wanted = [
        "gpuProfiler",
        "powerManagement",
        "enableMMU",
        "smallBatch",
        "uscL1CacheRatio",
        "uscAttribCacheRatio",
        "vidMemCount",
        "hasShader",
        "enableNNClusters",
        "secureMode",
    ];
    // The facts name the structure after the command's.
    let abi = device.abi();
    let read = |bytes: &[u8], field: &str| abi.get(bytes, "QueryChipOptions", field);
    let mut bytes = vec![0xa5; abi.sizes[0]];
    let (number, _) = abi.commands["QUERY_CHIP_OPTION"];
    bytes[..abi.union_at].fill(0);
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    abi.put_header(&mut bytes, "hardwareType", device.hardware_type().into());
    device.exchange_bytes(&mut bytes)?;
    let found = wanted.map(|field| read(&bytes, field));
    // Unlike here, the vendor's driver was loaded with powerManagement=0, and has the profiler off.
    let l1_cache = match board {
        Board::Gc7000ul => 2,
        _ => 0,
    };
    same(
        "options",
        found,
        [1, 1, 1, 1, l1_cache, 2, 1, shaders, 0xff, 0],
    )?;
    let has_compression = reference::identity(board).chip_features & 1 << 5 != 0;
    let compression = read(&bytes, "allowCompression");
    same(
        "compression",
        compression,
        [0, 0xf][usize::from(has_compression)],
    )?;

    let frequency = ask(device, "QUERY_CHIP_FREQUENCY", &[], ["mcClk", "shClk"])?;
    // The vendor's driver makes the core count, which the model's clock register does not support.
    let (status, [core, shader]) = frequency;
    same("frequencies", status, Status::OK)?;
    ensure!(core.min(shader) >= 1_000_000, "{core} and {shader} Hz");
    let frequency = ask(device, "QUERY_CPU_FREQUENCY", &[], ["CPUFrequency"])?;
    same("frequency, not known", frequency, (Status::OK, [0]))?;
    for is_locked in [1, 1, 0, 0] {
        let given = [("isMutexLocked", is_locked)];
        let (status, []) = ask(device, "DEVICE_MUTEX", &given, [])?;
        same("DEVICE_MUTEX", status, Status::OK)?;
    }

    let (_, node, ..) = allocate(device, u64::from(Pool::VIRTUAL.0), 6, 0)?;
    let cache = |operation, node, logical, bytes| -> Result<Status> {
        let given = [
            ("operation", operation),
            ("node", node),
            ("logical", logical),
            ("bytes", bytes),
        ];
        Ok(ask(device, "CACHE", &given, [])?.0)
    };
    let refused = Status::INVALID_ARGUMENT;
    for (operation, unseen) in [(1, refused), (2, refused), (3, refused), (4, Status::OK)] {
        let found = cache(operation, node.handle, 0, 0)?;
        same("CACHE of what has no view", found, unseen)?;
        let (_, _, memory) = lock(device, node, MAP)?;
        for (user, bytes) in [(0, 0), (memory, 0), (memory, 1 << 20), (4096, 4096)] {
            let found = cache(operation, node.handle, user, bytes)?;
            same("CACHE, whatever it names", found, Status::OK)?;
        }
        unlock(device, node, UNMAP)?;
    }
    let found = cache(5, node.handle, 0, 0)?;
    same("no such operation", found, Status::INVALID_ARGUMENT)?;
    device.free(node)?;

    // DATABASE counts allocations and frees.
    let books = || {
        let given = [
            ("processID", u64::from(std::process::id())),
            ("validProcessID", 1),
        ];
        let wanted = ["vidMem.counters.allocCount", "vidMem.counters.freeCount"];
        ask(device, "DATABASE", &given, wanted)
    };
    let (status, [given, returned]) = books()?;
    same("DATABASE", status, Status::OK)?;
    let (_, node, ..) = allocate(device, u64::from(Pool::SYSTEM.0), 6, 0)?;
    same("one more", books()?, (Status::OK, [given + 1, returned]))?;
    device.free(node)?;
    same(
        "and back",
        books()?,
        (Status::OK, [given + 1, returned + 1]),
    )
}

/// The pool has a name and is mapped by it. Command buffers have their own kind of allocation.
fn start_up(name: &str) -> Result<()> {
    let device = Device::open_as(abi(name)?, true)?;
    let abi = device.abi();
    let field = match abi.field("QueryVideoMemory", "contiguousPhysName") {
        Some(_) => "contiguousPhysName",
        None => "contiguousPhysical",
    };
    let query = ask(
        &device,
        "QUERY_VIDEO_MEMORY",
        &[],
        [field, "contiguousSize"],
    )?;
    let (status, [pool, bytes]) = query;
    same("QUERY_VIDEO_MEMORY", status, Status::OK)?;
    anyhow::ensure!(pool != 0 && bytes != 0, "{bytes} bytes, named {pool}");
    let physical = match abi.field("MapMemory", "physName") {
        Some(_) => "physName",
        None => "physical",
    };
    let map = || {
        ask(
            &device,
            "MAP_MEMORY",
            &[(physical, pool), ("bytes", bytes)],
            ["logical"],
        )
    };
    let (status, [start]) = map()?;
    same("MAP_MEMORY", status, Status::OK)?;
    same("again", map()?, (Status::OK, [start]))?;
    let node = device.allocate(8192, 64, surface::BITMAP, Pool::SYSTEM)?;
    let place = device.lock(node)?;
    let inside = start..start + bytes;
    same("a node lies inside", inside.contains(&place.logical), true)?;
    system::expect_mapped(start, true)?;
    let unmap = [(physical, pool), ("bytes", bytes), ("logical", start)];
    same(
        "UNMAP_MEMORY",
        ask(&device, "UNMAP_MEMORY", &unmap, [])?.0,
        Status::OK,
    )?;
    device.unlock_all(node)?;
    device.free(node)?;
    let wrong = [(physical, pool + 1), ("bytes", bytes)];
    let (status, _) = ask(&device, "MAP_MEMORY", &wrong, ["logical"])?;
    let none = match abi.name {
        "6.4.11" => Status::INVALID_ARGUMENT,
        _ => Status::NOT_FOUND,
    };
    same("another name", status, none)?;
    if !abi.has("ALLOCATE_VIRTUAL_COMMAND_BUFFER") {
        return Ok(());
    }
    for _ in 0..100 {
        let given = [("bytes", 0x8000)];
        let wanted = ["bytes", "physical", "logical"];
        let allocated = ask(&device, "ALLOCATE_VIRTUAL_COMMAND_BUFFER", &given, wanted)?;
        let (status, [bytes, handle, logical]) = allocated;
        same("ALLOCATE", (status, bytes), (Status::OK, 0x8000))?;
        system::expect_mapped(logical, true)?;
        let given = [("bytes", bytes), ("physical", handle), ("logical", logical)];
        let (status, []) = ask(&device, "FREE_VIRTUAL_COMMAND_BUFFER", &given, [])?;
        same("FREE", status, Status::OK)?;
        system::expect_mapped(logical, false)?;
        let (status, []) = ask(&device, "FREE_VIRTUAL_COMMAND_BUFFER", &given, [])?;
        anyhow::ensure!(status != Status::OK, "freed twice");
    }
    Ok(())
}

/// The core's identity, in the form of each family of generations.
fn identities(board: Board) -> Result<()> {
    // Model and revision, the same as raw register values, flags, varyings, streams, date, minor features 4 and 5.
    let (model, raw, flags, varyings, streams, date, minor) = match board {
        Board::Dove => (
            (0x600, 0x19),
            (0x600, 0x19),
            0,
            (8, 8),
            (1, 1),
            0x2009_0617,
            [0, 0],
        ),
        Board::Gc320 => {
            let model = (0x320, 0x5007);
            (model, model, 0, (8, 8), (1, 1), 0x2012_0617, [0, 0])
        }
        Board::Gc880 => {
            let model = (0x880, 0x5106);
            (model, model, 0, (12, 11), (8, 8), 0x2012_0617, [0, 0])
        }
        Board::Gc2000 => {
            let model = (0x2000, 0x5108);
            (model, model, 0, (12, 11), (8, 8), 0x2012_0119, [0, 0])
        }
        Board::Gc3000 => (
            (0x3000, 0x5450),
            (0x2000, 0xffff_5450),
            2,
            (12, 16),
            (4, 16),
            0x2014_0117,
            [0x930d_2f47, 0x1000_0133],
        ),
        Board::Gc320Qp
        | Board::Gc355
        | Board::Gc355Qp
        | Board::Gc520l
        | Board::Npu
        | Board::Gc7000ul => return harness::skip("its answers are not recorded"),
    };
    let tell = |name: &str, wanted: &[(&str, u64)]| -> Result<()> {
        let device = Device::open_as(abi(name)?, true)?;
        for (field, wanted) in wanted {
            let (status, [found]) = ask(&device, "QUERY_CHIP_IDENTITY", &[], [*field])?;
            let what = format!("{name}: {field}");
            same(&what, (status, found), (Status::OK, *wanted))?;
        }
        Ok(())
    };
    tell(
        "4.1.0",
        &[
            ("chipModel", model.0),
            ("chipRevision", model.1),
            ("chipMinorFeatures4", minor[0]),
            ("varyingsCount", varyings.0),
            ("streamCount", streams.0),
        ],
    )?;
    tell(
        "5.0.11.p8",
        &[
            ("chipModel", model.0),
            ("chipRevision", model.1),
            ("chipFlags", flags),
            ("chipMinorFeatures4", minor[0]),
            ("chipMinorFeatures5", minor[1]),
            ("varyingsCount", varyings.1),
            ("streamCount", streams.1),
        ],
    )?;
    for name in ["6.2.2", "6.2.4.p2", "6.4.11"] {
        tell(
            name,
            &[
                ("chipModel", raw.0),
                ("chipRevision", raw.1),
                ("chipFlags", 0),
                ("chipDate", date),
                ("varyingsCount", varyings.1),
                ("streamCount", streams.1),
            ],
        )?;
    }
    tell(
        "6.4.11",
        &[
            ("chipMinorFeatures4", minor[0]),
            ("chipMinorFeatures5", minor[1]),
            ("chipMinorFeatures6", 0),
            ("PSInstructionCount", 0),
            ("registerAPB", 0x30_0000),
            ("virtualAddressBits", 32),
        ],
    )
}

/// Runs another client.
fn be_other(abi: &'static Abi) -> Result<()> {
    let _open = Device::open_as(abi, true)?;
    other::serve(|_| Ok(String::new()))
}

/// A SIGNAL record for another client does not set the caller's own signal of that number.
fn signals_of_others(name: &str) -> Result<()> {
    let client = client(name)?;
    let device = client.device();
    let (own, last) = (device.create_signal(true)?, device.create_signal(false)?);
    let record = |id: i32, process: u32| {
        let payload = uapi::Signal {
            signal: id as u64,
            process: process.into(),
            ..Default::default()
        };
        Interface::with(Command::SIGNAL, &payload)
    };
    let me = std::process::id();
    let other = Other::start(abi(name)?)?;
    // The signals of another client are separate. An unknown process id comes from a library that has forked since.
    for (process, wanted) in [
        (other.id() as u32, Status::TIMEOUT),
        (1, Status::OK),
        (u32::MAX, Status::OK),
        (me, Status::OK),
    ] {
        device.set_signal(own, false)?;
        let mut queue = Queue::new();
        queue.push(&record(own, process)).signal(last);
        device.commit_queue(&mut queue)?;
        device.wait_signal(last, 5000)?;
        let found = match device.wait_signal(own, 0) {
            Ok(()) => Status::OK,
            Err(error) => error.status().context("no status")?,
        };
        same(&format!("for process {process}"), found, wanted)?;
    }
    device.destroy_signal(own)?;
    Ok(device.destroy_signal(last)?)
}

/// Waits for a line in the kernel log that contains all of `parts`, after repeated calls of `cause`. Other processes of
/// the user may have used up the lines of a 10-second window.
fn logged(
    log: &mut KernelLog,
    parts: &[&str],
    mut cause: impl FnMut() -> Result<()>,
) -> Result<()> {
    harness::eventually(
        &format!("{parts:?} in the log"),
        Duration::from_secs(30),
        || {
            cause()?;
            std::thread::sleep(Duration::from_secs(1));
            let lines = log.lines()?;
            let has_all = |text: &str| parts.iter().all(|part| text.contains(part));
            Ok(lines.iter().any(|line| has_all(&line.text)))
        },
    )
}

/// Failures and guesses are logged.
fn log_lines() -> Result<()> {
    let mut client = client("6.4.11")?;
    let mut log = KernelLog::from_now()?;
    let record = uapi::CommandBufferRecord {
        offset: 64,
        ..Default::default()
    };
    let abi = client.device().abi();
    let process = format!("process {}", std::process::id());
    let parts = [&process, "COMMIT", "gcvSTATUS_INVALID_ADDRESS (-8)"];
    logged(&mut log, &parts, || {
        let mut commit = abi.commit(&record, 0, &Queue::new())?;
        client.device().exchange_bytes(&mut commit.bytes)?;
        let status = Status(abi.header_of(&commit.bytes, "status") as i32);
        same("COMMIT of no memory", status, Status::INVALID_ADDRESS)
    })?;
    let pipe = client.engine().pipe();
    client.run(pipe, Stream::new().nop())?;
    let guess = [
        "4.0.0, 4.1.0, 4.6.9 have",
        "168 bytes",
        "taken for 4.0.0",
        "`interface` selects another)",
    ];
    logged(&mut log, &guess, || {
        let child = system::again(&[GUESS])?.output()?;
        same("a client that does not ask", child.status.success(), true)
    })?;
    let file = OpenOptions::new().read(true).write(true).open(NODES[0])?;
    let size = [
        "0x28 bytes in and 0x28 out, with an argument of 32 bytes",
        "with an argument of 16)",
    ];
    logged(&mut log, &size, || {
        let mut bytes = [0u8; 40];
        let result = sys::exchange(file.as_fd(), uapi::IOCTL_INTERFACE, &mut bytes);
        same("a size of none", result.is_err(), true)
    })
}

/// The argument of a process that does not announce its generation.
const GUESS: &str = "--guess";

/// Runs in that process.
fn guess() -> Result<()> {
    let mut build = abi("4.0.0")?.clone();
    build.sizes = vec![168];
    Device::open_as(Box::leak(Box::new(build)), false)?.base_address()?;
    Ok(())
}

/// Fields that clients may leave unset, and the profiler, in generations whose builds have one.
fn unread(name: &str) -> Result<()> {
    let client = client(name)?;
    let device = client.device();
    let abi = device.abi();
    let raw = |command: &str| -> Result<(Status, u32)> {
        let (number, _) = abi.commands[command];
        let mut bytes = vec![0xa5; abi.sizes[0]];
        bytes[..abi.union_at].fill(0);
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        let (at, size) = abi.header["hardwareType"];
        bytes[at..at + size].copy_from_slice(&device.hardware_type().to_le_bytes()[..size]);
        device.exchange_bytes(&mut bytes)?;
        let word = bytes[abi.union_at..abi.union_at + 4].try_into()?;
        let status = Status(abi.header_of(&bytes, "status") as i32);
        Ok((status, u32::from_le_bytes(word)))
    };
    // The profiler exists, unlike in the vendor's driver without its own parameter, but it is off.
    let off = raw("GET_PROFILE_SETTING")?;
    same("the profiler is off", off, (Status::OK, 0))?;
    let (on, _) = raw("SET_PROFILE_SETTING")?;
    same("and can be put on", on, Status::OK)?;
    same("it is on", raw("GET_PROFILE_SETTING")?, (Status::OK, 1))?;
    // The process, and with it the setting, may continue for the other generations.
    let answer = profile::ask(device, "SET_PROFILE_SETTING", &[("enable", 0)])?;
    same("and can be put off", answer.status, Status::OK)?;
    // Before 6.2.4.p2, CACHE identifies the memory by its address only.
    let wanted = match name {
        "5.0.11.p8" | "6.2.2" | "6.2.3" => Status::OK,
        _ => Status::INVALID_OBJECT,
    };
    let page = sys::Region::anonymous(4096)?;
    let given = [
        ("operation", 1),
        ("node", 0xa5a5_a5a5),
        ("logical", page.address()),
        ("bytes", 4096),
    ];
    let (found, []) = ask(device, "CACHE", &given, [])?;
    same("CACHE of a node that is none", found, wanted)?;
    // A record can also free command memory.
    let before = at_rest(ProcGc::used_now)?;
    let done = device.create_signal(false)?;
    for _ in 0..8 {
        let buffer = device.allocate_commands(0x8000)?;
        let payload = uapi::FreeVirtualCommandBuffer {
            bytes: buffer.bytes,
            physical: buffer.physical,
            logical: buffer.logical,
        };
        let record = Interface::with(Command::FREE_VIRTUAL_COMMAND_BUFFER, &payload);
        device.commit_queue(Queue::new().push(&record).signal(done))?;
        device.wait_signal(done, 5000)?;
    }
    device.destroy_signal(done)?;
    settles("KiB", before, ProcGc::used_now)
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    if std::env::args().nth(1).as_deref() == Some(GUESS) {
        return harness::exit(guess());
    }
    harness::program(|| {
        let board = reference::board(&Control::open()?)?;
        let mut suite = Suite::new();
        // Runs first: the refusals of the other tests would use up the log's limit.
        suite.test("failures and guesses are told in the log", log_lines);
        suite.test(
            "6.4.11: LOCK and UNLOCK by op, page-backed",
            parts_of_a_page_backed_node,
        );
        suite.test(
            "6.4.11: LOCK and UNLOCK by op, in the pool",
            parts_of_a_pool_node,
        );
        for name in ["5.0.11.p8", "6.2.4.p2", "6.4.11"] {
            suite.test(format!("{name}: pools, types and flags"), move || {
                allocations(name)
            });
        }
        suite.test("6.4.11: WAIT's own status", waits);
        for name in ["6.2.3", "6.2.4.p2", "6.4.11"] {
            suite.test(format!("{name}: start-up"), move || start_up(name));
        }
        suite.test("6.4.11: questions, and nothing to do", move || {
            questions(board)
        });
        for name in ["5.0.11.p8", "6.2.2", "6.2.3", "6.2.4.p2"] {
            suite.test(
                format!("{name}: what is not read, and the profiler"),
                move || unread(name),
            );
        }
        for name in ["dove", "4.0.0", "6.4.11"] {
            suite.test(format!("{name}: signals of others"), move || {
                signals_of_others(name)
            });
        }
        suite.test("the identity, by generation", move || identities(board));
        suite.run()
    })
}
