// SPDX-License-Identifier: GPL-2.0-only
//! Clients of every generation of the interface on one driver: drawing, start-up and tear-down, refusals, and detection
//! of the generation.

use std::fs::OpenOptions;
use std::io::BufRead;
use std::io::BufReader;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::Barrier;
use std::time::Duration;
use std::time::Instant;

use anyhow::anyhow;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::command_memory;
use galcore_client::client::place;
use galcore_client::device::set_interface;
use galcore_client::device::NODES;
use galcore_client::profile;
use galcore_client::sys;
use galcore_client::uapi;
use galcore_client::uapi::signal;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::uapi::Structure;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::fixture;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::HEIGHT;
use galcore_selftests::fixture::WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::not_tty;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::layouts;
use galcore_selftests::other;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::unlock;
use std::os::fd::AsFd;

/// Number of concurrent threads.
const THREADS: usize = 6;

/// The generation that the driver assumes for a client that announces none, by argument block and interface size.
const LIKELY: &[(usize, usize, &str)] = &[
    (16, 64, "arnova"),
    (16, 128, "v4"),
    (16, 224, "v4"),
    (16, 160, MARVELL),
    (16, 232, MARVELL),
    (32, 168, "4.0.0"),
    (32, 240, "4.0.0"),
    (32, 248, "4.6.9"),
    (32, 320, "5.0.11.p8"),
    (32, 400, "6.2.4.p2"),
    (32, 344, "6.2.4.p2"),
    (32, 384, "6.4.11"),
];

/// Whether contexts lie in the client's memory. This holds for the oldest generations, which differ in more than
/// layout.
fn is_old(abi: &Abi) -> bool {
    !abi.attaches()
}

fn client(abi: &'static Abi) -> Result<Client> {
    let device = Device::open_as(abi, true)?;
    Ok(Client::with_device(device)?)
}

/// Marvell's generation. A library of it has drawn on its own kernel. Its layout is as old as v4's.
const MARVELL: &str = "4.6.9-marvell";

/// The generations that can draw the whole picture here.
fn drawing() -> impl Iterator<Item = &'static Abi> {
    Abi::familiar().into_iter().chain(Abi::named(MARVELL))
}

/// Runs `body` for each of these generations, and names the one that fails.
fn each(body: impl Fn(&'static Abi) -> Result<()>) -> Result<()> {
    for abi in drawing() {
        body(abi).with_context(|| abi.name.to_string())?;
    }
    Ok(())
}

/// The pool of command buffers, FLUSH_CACHE of the client's view, and GET_MMU_VERSION.
fn marvell(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let device = client.device();
    let node = device.allocate(8192, 64, surface::BITMAP, Pool(12))?;
    let location = device.lock(node)?;
    let send = |command, given: &[(&str, u64)]| profile::send(device, command, given, abi.sizes[0]);
    let flush = |user: u64, direction| {
        let given = [("vaddr", user), ("offset", 4096), ("dir", direction)];
        Ok::<_, anyhow::Error>(send("FLUSH_CACHE", &given)?.status)
    };
    for direction in 0..3 {
        same(
            "FLUSH_CACHE",
            flush(location.logical, direction)?,
            Status::OK,
        )?;
    }
    unlock(device, node)?;
    device.free(node)?;
    let answer = send("GET_MMU_VERSION", &[])?;
    same("GET_MMU_VERSION", answer.status, Status::OK)?;
    let (at, _) = abi
        .field("GetMmuVersion", "mmuVersion")
        .context("a field")?;
    let at = abi.union_at + at;
    let version = u32::from_le_bytes(answer.bytes[at..at + 4].try_into()?);
    let is_2 = device.identity()?.chip_model == 0x3000;
    same("the version of the MMU", version, is_2.into())
}

/// Sends a payload of 4.0.0 in the layout of the client's generation.
fn status<T: Structure>(client: &Client, command: Command, payload: &T) -> Result<Status> {
    Ok(client.device().send(command, payload)?.0)
}

/// Whether the generation has the features of 6.2 and later, such as 64-bit addresses and the profiler's settings.
fn is_newer(abi: &Abi) -> bool {
    abi.has("QUERY_CHIP_OPTION") || abi.name.starts_with("6.2")
}

/// Draws the picture and compares every pixel with a software rendering.
fn picture(abi: &'static Abi) -> Result<()> {
    let begin = Instant::now();
    let (pixels, commits) = fixture::landscape(client(abi)?)?;
    println!(
        "# {}: {pixels} pixels in {commits} commits, {:.1} s",
        abi.name,
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Two clients of different generations draw in turn, each in its own colors.
fn side_by_side(first: &'static Abi, second: &'static Abi) -> Result<()> {
    let mut paints = [Paint::of(client(first)?)?, Paint::of(client(second)?)?];
    for cell in 0..64 {
        for (index, paint) in paints.iter_mut().enumerate() {
            let stream = paint.fill_cell(cell, colour(index, cell));
            paint.commit(&stream, &mut Queue::new())?;
        }
    }
    for (index, paint) in paints.iter_mut().enumerate() {
        paint.client.finish()?;
        paint.expect(|x, y| match galcore_selftests::fixture::cell_of(x, y) {
            cell @ 0..64 => colour(index, cell),
            _ => 0,
        })?;
    }
    for paint in paints {
        paint.close()?;
    }
    Ok(())
}

/// From 5.0.11 on a library returns nodes before it commits the commands that use them. It sends UNLOCK, whose second
/// half follows in the queue of that COMMIT, and RELEASE. Until then the node must stay as if it were locked, in any
/// pool.
fn given_back_before_the_commit(abi: &'static Abi) -> Result<()> {
    let mut paint = Paint::of(client(abi)?)?;
    let device = Device::open_as(abi, true)?;
    let done = device.create_signal(false)?;
    let before = at_rest(ProcGc::used_now)?;
    for (number, pool) in [Pool::SYSTEM, Pool::VIRTUAL].into_iter().enumerate() {
        let source = paint.client.create_surface_in(WIDTH, HEIGHT, pool)?;
        let colour = 0xff00_5500 | number as u32;
        source.set_all(colour);
        let engine = paint.engine();
        let all = Rect::new(0, 0, WIDTH, HEIGHT);
        let mut stream = Stream::new();
        engine.copy_all(&mut stream, &source, (0, 0), &paint.surface, &[all], all);
        stream.flush(engine.pipe());
        same("asynchroneous", device.unlock(source.node)?, true)?;
        let (status, _) =
            device.ask_for("RELEASE_VIDEO_MEMORY", &[("node", source.node.handle)], [])?;
        same("RELEASE", status, Status::OK)?;
        paint.commit(&stream, Queue::new().unlock(source.node).signal(done))?;
        device.wait_signal(done, 5000)?;
        paint.expect(|_, _| colour)?;
        settles("KiB", before, ProcGc::used_now)?;
    }
    device.destroy_signal(done)?;
    paint.close()
}

/// COMMIT with a part for each of two cores (6.2). The board has one core of the kind, which also takes the second
/// place: it runs both parts, in order. Also tests refused commits.
fn in_parts(abi: &'static Abi) -> Result<()> {
    let paint = Paint::of(client(abi)?)?;
    let engine = paint.engine();
    let device = Device::open_as(abi, true)?;
    let first = paint.fill_cell(0, 0xff11_2233);
    // Moves cells by one, so that a second run becomes visible.
    let mut second = Stream::new();
    let clip = Rect::new(0, 0, WIDTH, HEIGHT);
    for cell in [3, 2, 1] {
        let from = fixture::cell(cell - 1);
        let surface = &paint.surface;
        engine.copy_all(
            &mut second,
            surface,
            (from.x, from.y),
            surface,
            &[fixture::cell(cell)],
            clip,
        );
        second.flush(engine.pipe()).stall();
    }
    let commit = |streams: [Option<&Stream>; 2], change: &dyn Fn(&mut [u8])| -> Result<Status> {
        let placed = |stream: &Stream| -> Result<_> {
            let pool = paint.client.pool();
            let (buffer, memory) = command_memory(&device, pool, 0x4000)?;
            let record = place(&buffer, 0, engine.pipe(), stream);
            Ok((buffer, memory, record))
        };
        let placed = [
            streams[0].map(placed).transpose()?,
            streams[1].map(placed).transpose()?,
        ];
        let context = paint.client.context();
        let first = placed[0].as_ref().context("no first part")?;
        let mut commit = abi.commit(&first.2, context, &Queue::new())?;
        let other = match &placed[1] {
            Some((_, _, record)) => Some(abi.commit(record, context, &Queue::new())?),
            None => None,
        };
        let bytes = &mut commit.bytes;
        let (contexts, buffers) = (
            abi.fields["Commit.contexts"].0 + abi.union_at,
            abi.fields["Commit.commandBuffers"].0 + abi.union_at,
        );
        bytes.copy_within(contexts..contexts + 8, contexts + 8);
        if let Some(other) = &other {
            let own = &other.bytes[buffers..buffers + 8];
            bytes[buffers + 8..buffers + 16].copy_from_slice(own);
        }
        abi.set(bytes, "Commit", "count", 2);
        let (at, _) = abi.header["hardwareType"];
        bytes[at..at + 4].copy_from_slice(&device.hardware_type().to_le_bytes());
        change(bytes);
        device.exchange_bytes(bytes)?;
        let status = Status(abi.header_of(bytes, "status") as i32);
        paint.client.finish()?;
        for (buffer, memory, _) in placed.into_iter().flatten() {
            memory.free(&device, &buffer)?;
        }
        Ok(status)
    };
    let none: &dyn Fn(&mut [u8]) = &|_| {};
    same(
        "two parts",
        commit([Some(&first), Some(&second)], none)?,
        Status::OK,
    )?;
    let two = commit([Some(&second), None], none)?;
    same("one part for two", two, Status::OK)?;
    let many: &dyn Fn(&mut [u8]) = &|bytes| abi.set(bytes, "Commit", "count", 11);
    let refused = commit([Some(&second), None], many)?;
    same("eleven", refused, Status::INVALID_ARGUMENT)?;
    let engine_at = match abi.field("Commit", "engine") {
        Some((at, _)) => at + abi.union_at,
        None => abi.header["engine"].0,
    };
    let copying: &dyn Fn(&mut [u8]) = &|bytes| bytes[engine_at] = 1;
    let refused = commit([Some(&first), None], copying)?;
    same("the engine that copies", refused, Status::NOT_SUPPORTED)?;
    // The color has moved three times.
    paint.expect(|x, y| match fixture::cell_of(x, y) {
        0..=3 => 0xff11_2233,
        _ => 0,
    })?;
    paint.close()
}

fn colour(client: usize, cell: u32) -> u32 {
    0xff00_0000 | (client as u32 + 1) << 16 | cell
}

/// A client that does not announce its generation, in each size of the generation's builds.
fn unasked(abi: &'static Abi, model: u32) -> Result<()> {
    for &size in &abi.sizes {
        // Puts that build's size first.
        let mut build = abi.clone();
        build.sizes = vec![size];
        let build: &'static Abi = Box::leak(Box::new(build));
        let device = Device::open_as(build, false)?;
        device.base_address()?;
        let (name, bytes, why) = system::interface_of_self()?;
        same("bytes", bytes, size)?;
        let likely = LIKELY
            .iter()
            .find(|(argument, bytes, _)| (*argument, *bytes) == (abi.argument, size));
        let wanted = match (likely, model) {
            (Some((_, _, name)), _) => *name,
            (None, 0x600) => "dove",
            (None, _) => "v2",
        };
        same("generation", name.as_str(), wanted)?;
        ensure!(!why.is_empty(), "no reason");
        if build.has("VERSION") {
            let version = device.version()?;
            let found = format!(
                "{}.{}.{}.{}",
                version.major, version.minor, version.patch, version.build
            );
            let of = Abi::named(wanted).context("a generation")?;
            // Where command numbers differ, this number is another command in that generation.
            if of.commands["VERSION"] == abi.commands["VERSION"] {
                same("version", found.as_str(), of.version)?;
            }
        }
    }
    let device = Device::open_as(abi, true)?;
    device.base_address()?;
    let (name, _, why) = system::interface_of_self()?;
    same("asked for", name.as_str(), abi.name)?;
    same("why", why.as_str(), "the client asked for it")
}

/// Sends a block of 16 or 32 bytes that claims these sizes. Returns the errno, or 0.
fn claim(argument: usize, input: u64, output: u64) -> Result<i32> {
    let file = OpenOptions::new().read(true).write(true).open(NODES[0])?;
    let mut bytes = vec![0u8; 512];
    let address = bytes.as_mut_ptr() as usize as u64;
    let mut block = Vec::new();
    for value in [address, input, address, output] {
        match argument {
            16 => block.extend_from_slice(&(value as u32).to_le_bytes()),
            _ => block.extend_from_slice(&value.to_le_bytes()),
        }
    }
    block.resize(64, 0xa5);
    let result = sys::exchange_plain(file.as_fd(), uapi::IOCTL_INTERFACE, &mut block);
    ensure!(bytes.iter().all(|&byte| byte == 0) || result.is_ok());
    Ok(result
        .err()
        .and_then(|error| error.raw_os_error())
        .unwrap_or(0))
}

fn misfits() -> Result<()> {
    const ENOTTY: i32 = 25;
    for (argument, input, output) in [
        // Sizes of no generation.
        (16, 0, 0),
        (16, 60, 60),
        (16, 212, 212),
        (16, 220, 220),
        (32, 0, 0),
        (32, 167, 167),
        (32, 300, 300),
        (32, 383, 383),
        (32, 408, 408),
        (32, u64::MAX, u64::MAX),
        (32, 1 << 32 | 168, 1 << 32 | 168),
        // Two sizes that do not match.
        (16, 216, 128),
        (16, 128, 224),
        (32, 168, 240),
        (32, 384, 168),
        // A size that belongs to the other block.
        (16, 168, 168),
        (16, 400, 400),
        (32, 216, 216),
        (32, 128, 128),
    ] {
        let what = format!("{input:#x} and {output:#x} bytes behind {argument}");
        same(&what, claim(argument, input, output)?, ENOTTY)?;
    }
    for (argument, bytes) in [(16, 216), (16, 64), (32, 168), (32, 384)] {
        same("the right ones", claim(argument, bytes, bytes)?, 0)?;
    }
    Ok(())
}

fn asking() -> Result<()> {
    let open = || OpenOptions::new().read(true).write(true).open(NODES[0]);
    let errno = |result: std::io::Result<()>| result.err().and_then(|error| error.raw_os_error());
    const EINVAL: i32 = 22;
    const EBUSY: i32 = 16;
    const EFAULT: i32 = 14;
    let file = open()?;
    for name in ["", "4", "dove ", "v3", "6.4.11.p3.1049"] {
        same(name, errno(set_interface(&file, name)), Some(EINVAL))?;
    }
    let mut unended = *b"dovedovedovedove";
    let result = sys::exchange_plain(file.as_fd(), uapi::IOCTL_SET_INTERFACE, &mut unended);
    same("no end", errno(result.map(|_| ())), Some(EINVAL))?;
    let result = sys::exchange_without_block(
        file.as_fd(),
        uapi::IOCTL_SET_INTERFACE,
        sys::Place::Unmapped,
    );
    same("nowhere", errno(result.map(|_| ())), Some(EFAULT))?;
    // A client may change its choice until it sends its first command.
    for name in ["dove", "5.0.11.p7", "imx6", "4.1.0"] {
        same(name, errno(set_interface(&file, name)), None)?;
    }
    drop(file);
    let device = Device::open_as(Abi::named("4.1.0").context("4.1.0")?, true)?;
    same("build", device.version()?.build, 6622)?;
    same("same", errno(set_interface(device.file(), "4.1.0")), None)?;
    let other = errno(set_interface(device.file(), "4.0.0"));
    same("another", other, Some(EBUSY))?;
    same("build", device.version()?.build, 6622)
}

/// Every command number, and some beyond, with an empty payload.
fn every_number(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let top = abi.commands.values().map(|(number, _)| *number).max();
    for number in (0..=top.unwrap_or(0) + 3).chain([999, u32::MAX]) {
        let mut bytes = vec![0; abi.sizes[0]];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        client
            .device()
            .exchange_bytes(&mut bytes)
            .with_context(|| format!("command {number}"))?;
        let status = Status(abi.header_of(&bytes, "status") as i32);
        let name = abi
            .commands
            .iter()
            .find(|(_, (value, _))| *value == number)
            .map(|(name, _)| *name);
        let wanted: &[Status] = match name {
            // BROADCAST_GPU_STUCK of builds that detect hangs themselves.
            None if number == 36 && matches!(abi.name, "v2" | "arnova") => &[Status::OK],
            None => &[Status::INVALID_ARGUMENT],
            // The build lacks the scheduler, but has the command.
            Some("COMMIT_DONE") if abi.name == "6.4.11" => &[Status::OK],
            Some("SIGNAL" | "WRITE_DATA" | "MAP_PHYSICAL" | "SET_IDLE" | "COMMIT_DONE") => {
                &[Status::INVALID_ARGUMENT]
            }
            Some("WAIT_NATIVE_FENCE") if abi.name == "6.4.11" => &[Status::GENERIC_IO],
            Some(_) => &[
                Status::OK,
                // The register of a core that is off.
                Status(11),
                Status::INVALID_ARGUMENT,
                Status::INVALID_OBJECT,
                Status::INVALID_DATA,
                Status::INVALID_ADDRESS,
                Status::NOT_FOUND,
                Status::NOT_SUPPORTED,
                Status::OUT_OF_MEMORY,
            ],
        };
        ensure!(
            wanted.contains(&status),
            "command {number} ({name:?}): status {status}"
        );
    }
    Ok(())
}

/// The table of spec 12.2, as far as it covers commands.
fn negatives(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let device = client.device();
    let allocate = |bytes, pool: Pool| uapi::AllocateLinearVideoMemory {
        bytes,
        alignment: 64,
        surface_type: surface::BITMAP,
        pool: pool.0,
        node: 0,
    };
    let linear = Command::ALLOCATE_LINEAR_VIDEO_MEMORY;
    let found = status(&client, linear, &allocate(0, Pool::DEFAULT))?;
    same("no bytes", found, Status::INVALID_ARGUMENT)?;
    let more = client.pool().len() as u32 + 4096;
    let found = status(&client, linear, &allocate(more, Pool::SYSTEM))?;
    same("more than the pool", found, Status::OUT_OF_MEMORY)?;

    let lock = |node| {
        let payload = uapi::LockVideoMemory {
            node,
            ..Default::default()
        };
        status(&client, Command::LOCK_VIDEO_MEMORY, &payload)
    };
    let unlock = |node| {
        let payload = uapi::UnlockVideoMemory {
            node,
            ..Default::default()
        };
        status(&client, Command::UNLOCK_VIDEO_MEMORY, &payload)
    };
    let free = |node| {
        let payload = uapi::FreeVideoMemory { node };
        status(&client, Command::FREE_VIDEO_MEMORY, &payload)
    };
    // From 5.0.11 on nodes are identified by handle numbers.
    let (none, freed) = if abi.has("RELEASE_VIDEO_MEMORY") {
        (Status::NOT_FOUND, Status::NOT_FOUND)
    } else {
        (Status::INVALID_OBJECT, Status::INVALID_DATA)
    };
    for node in [0, 0x7fff_fff0] {
        same("LOCK of none", lock(node)?, none)?;
        same("UNLOCK of none", unlock(node)?, none)?;
    }
    same("FREE of 0", free(0)?, none)?;
    same("FREE of none", free(0x7fff_fff0)?, freed)?;
    let node = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
    same("pool", node.pool, Pool::SYSTEM)?;
    let found = unlock(node.handle)?;
    same("UNLOCK, not locked", found, Status::MEMORY_UNLOCKED)?;
    let place = device.lock(node)?;
    same("bit 31 of the address", place.address >> 31, 0)?;
    let (locked, unlocked) = if is_old(abi) {
        (Status::MEMORY_LOCKED, Status::OK)
    } else {
        (Status::OK, freed)
    };
    same("FREE, locked", free(node.handle)?, locked)?;
    same("UNLOCK", unlock(node.handle)?, Status::OK)?;
    same("FREE, unlocked", free(node.handle)?, unlocked)?;
    same("FREE again", free(node.handle)?, freed)?;

    let command = |command, id, manual_reset, wait, state| {
        device.user_signal(&uapi::UserSignal {
            command,
            id,
            manual_reset,
            wait,
            state,
        })
    };
    let (unknown, unknown_set) = match abi.name {
        "v4" | "eureka" => (Status::INVALID_ARGUMENT, Status::INVALID_REQUEST),
        _ if is_old(abi) => (Status::INVALID_ARGUMENT, Status::INVALID_REQUEST),
        _ => (Status::NOT_FOUND, Status::NOT_FOUND),
    };
    let wait = |id, time| Ok::<_, anyhow::Error>(command(signal::WAIT, id, 0, time, 0)?.0);
    let none = match abi.name {
        "6.4.11" => Status::INVALID_ARGUMENT,
        _ => unknown,
    };
    same("WAIT for 0", wait(0, 10)?, none)?;
    same("WAIT for another", wait(12345, 10)?, unknown)?;
    let found = command(signal::SIGNAL, 12345, 0, 0, 1)?.0;
    same("SIGNAL of none", found, unknown_set)?;
    let found = command(signal::DESTROY, 12345, 0, 0, 0)?.0;
    same("DESTROY of none", found, unknown)?;
    for manual in [0, 1] {
        let (found, made) = command(signal::CREATE, 0, manual, 0, 0)?;
        same("CREATE", found, Status::OK)?;
        let begin = Instant::now();
        same("WAIT, not set", wait(made.id, 10)?, Status::TIMEOUT)?;
        ensure!(begin.elapsed() >= Duration::from_millis(10), "too early");
        let found = command(signal::SIGNAL, made.id, 0, 0, 1)?.0;
        same("SIGNAL", found, Status::OK)?;
        same("WAIT, set", wait(made.id, 10)?, Status::OK)?;
        let again = [Status::TIMEOUT, Status::OK][manual as usize];
        same("WAIT again", wait(made.id, 10)?, again)?;
        let mapped = if is_old(abi) {
            Status::INVALID_ARGUMENT
        } else {
            Status::OK
        };
        same("MAP", command(signal::MAP, made.id, 0, 0, 0)?.0, mapped)?;
        same(
            "none",
            command(77, made.id, 0, 0, 0)?.0,
            Status::INVALID_ARGUMENT,
        )?;
    }

    if abi.has("MAP_USER_MEMORY") {
        let memory = vec![0u64; 1024];
        let start = (memory.as_ptr() as usize as u64).next_multiple_of(64);
        let map = |memory| {
            let payload = uapi::MapUserMemory {
                memory,
                physical: u32::MAX,
                size: 4096,
                ..Default::default()
            };
            device.send(Command::MAP_USER_MEMORY, &payload)
        };
        let (found, mapping) = map(start + 4)?;
        let wanted = if is_old(abi) {
            Status::OUT_OF_MEMORY
        } else {
            Status::OK
        };
        same("MAP_USER, 4 bytes off", found, wanted)?;
        if found == Status::OK {
            device.unmap_user(&mapping)?;
        }
        let (found, mapping) = map(start)?;
        same("MAP_USER", found, Status::OK)?;
        device.unmap_user(&mapping)?;
        let again = device
            .unmap_user(&mapping)
            .err()
            .and_then(|error| error.status());
        same("UNMAP_USER again", again, Some(Status::NOT_FOUND))?;
    }

    if abi.has("ALLOCATE_VIDEO_MEMORY") {
        let payload = uapi::AllocateVideoMemory {
            width: 17,
            height: 5,
            depth: 1,
            // A8R8G8B8.
            format: 212,
            surface_type: surface::BITMAP,
            pool: Pool::DEFAULT.0,
            node: 0,
        };
        let (found, answer) = device.send(Command::ALLOCATE_VIDEO_MEMORY, &payload)?;
        if is_old(abi) {
            same("ALLOCATE_VIDEO_MEMORY", found, Status::OK)?;
            same("edges", (answer.width, answer.height), (32, 8))?;
            same("pool", answer.pool, Pool::SYSTEM.0)?;
            same("FREE", free(answer.node)?, Status::OK)?;
            let wrong = uapi::AllocateVideoMemory {
                format: 225,
                ..payload
            };
            let found = status(&client, Command::ALLOCATE_VIDEO_MEMORY, &wrong)?;
            same("no format", found, Status::INVALID_ARGUMENT)?;
        } else {
            same("ALLOCATE_VIDEO_MEMORY", found, Status::NOT_SUPPORTED)?;
        }
    }

    let queue = |queue| status(&client, Command::EVENT_COMMIT, &uapi::Event { queue });
    same("no queue", queue(0)?, Status::OK)?;
    same("queue at 16", queue(16)?, Status::OUT_OF_RESOURCES)?;
    let mut wrong = Queue::new();
    wrong.push(&Interface::new(Command::STALL));
    if abi.has("STALL") {
        let found = device.send_queue(&mut wrong)?;
        same("STALL in a queue, passed over", found, Status::OK)?;
    }
    Ok(())
}

/// The rest of the table: the envelope, commands that are not built, accounting, and cases that need large requests.
fn more_negatives(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let device = client.device();
    let mut bytes = vec![0; abi.sizes[0] + 8];
    let exchange = |request, bytes: &mut [u8]| match abi.argument {
        16 => sys::exchange_short(device.as_fd(), request, bytes),
        _ => sys::exchange(device.as_fd(), request, bytes),
    };
    let whole = abi.sizes[0];
    for request in [12345, 30001, 30002] {
        let answer = exchange(request, &mut bytes[..whole]);
        not_tty(&format!("ioctl {request}"), answer)?;
    }
    for size in [0, 1, 8, whole - 1, whole + 1, whole + 8] {
        // The newest generation accepts less than the whole structure.
        if abi.name != "6.4.11" || !(40..whole).contains(&size) {
            let answer = exchange(uapi::IOCTL_INTERFACE, &mut bytes[..size]);
            not_tty(&format!("{size} bytes"), answer)?;
        }
    }
    let argument =
        sys::exchange_without_block(device.as_fd(), uapi::IOCTL_INTERFACE, sys::Place::Unmapped);
    not_tty("an argument that is not there", argument)?;

    let plain = |command: &str| -> Result<Status> {
        let (number, _) = abi.commands[command];
        let mut bytes = vec![0; whole];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        device.exchange_bytes(&mut bytes)?;
        Ok(Status(abi.header_of(&bytes, "status") as i32))
    };
    for (command, wanted) in [
        ("SIGNAL", Status::INVALID_ARGUMENT),
        ("WRITE_DATA", Status::INVALID_ARGUMENT),
        ("MAP_PHYSICAL", Status::INVALID_ARGUMENT),
        (
            "RESET",
            if is_old(abi) {
                Status::NOT_SUPPORTED
            } else {
                Status::OK
            },
        ),
    ] {
        if abi.has(command) {
            same(command, plain(command)?, wanted)?;
        }
    }

    // More than the pool and contiguous memory hold, and less than the page pool holds.
    let large = uapi::AllocateLinearVideoMemory {
        bytes: 160 << 20,
        alignment: 64,
        surface_type: surface::TILE_STATUS,
        pool: Pool::DEFAULT.0,
        node: 0,
    };
    let linear = Command::ALLOCATE_LINEAR_VIDEO_MEMORY;
    // Later memory controllers take it from the page pool.
    if client.identity().chip_model == 0x600 {
        let found = status(&client, linear, &large)?;
        same("TILE_STATUS in pages", found, Status::OUT_OF_MEMORY)?;
    }

    if abi.field("Database", "vidMem.counters.bytes").is_some() {
        let own = std::process::id().into();
        let books = |what: &str| -> Result<u64> {
            let (found, value) = device.ask("DATABASE", &[("processID", own)], what)?;
            same("DATABASE", found, Status::OK)?;
            Ok(value)
        };
        let bytes = "vidMem.counters.bytes";
        let before = books(bytes)?;
        let node = device.allocate(8192, 64, surface::BITMAP, Pool::SYSTEM)?;
        same("bytes of a node", books(bytes)? - before, 8192)?;
        device.free(node)?;
        client.finish()?;
        same("without it", books(bytes)?, before)?;
        // From 6.4 on memory in one piece also counts as contiguous memory.
        let in_one_piece = if abi.name == "6.4.11" { 8192 } else { 0 };
        for (counter, wanted) in [
            ("vidMemPool[0].counters.bytes", 8192),
            ("contiguous.counters.bytes", in_one_piece),
        ] {
            if abi.field("Database", counter).is_none() {
                continue;
            }
            let before = books(counter)?;
            let others = device.allocate(8192, 64, surface::BITMAP, Pool::VIRTUAL)?;
            same(counter, books(counter)?, before)?;
            let node = device.allocate(8192, 64, surface::BITMAP, Pool::SYSTEM)?;
            same(counter, books(counter)? - before, wanted)?;
            device.free(node)?;
            device.free(others)?;
        }
        let others = [("processID", 1), ("validProcessID", 1)];
        let (found, _) = device.ask("DATABASE", &others, bytes)?;
        same("another's books", found, Status::INVALID_DATA)?;
        let (found, _) = device.ask("DATABASE", &[("processID", 1)], bytes)?;
        same("nobody's books are one's own", found, Status::OK)?;
    }
    if abi.field("LockVideoMemory", "physicalAddress").is_some() {
        for pool in [Pool::SYSTEM, Pool::VIRTUAL] {
            let node = device.allocate(8192, 64, surface::BITMAP, pool)?;
            let both = ("op", 3);
            let given = match abi.field("LockVideoMemory", "op") {
                Some(_) => vec![("node", node.handle), both],
                None => vec![("node", node.handle)],
            };
            let wanted = ["address", "physicalAddress"];
            let (found, [address, physical]) =
                device.ask_for("LOCK_VIDEO_MEMORY", &given, wanted)?;
            same("LOCK", found, Status::OK)?;
            // For memory in one piece it follows from the GPU address. The driver does not report physical addresses of
            // pages.
            let wanted = if pool == Pool::SYSTEM {
                address + u64::from(client.base_address())
            } else {
                0
            };
            same("the physical address", physical, wanted)?;
            unlock(device, node)?;
            device.free(node)?;
        }
    }
    killed_in_wait(abi)
}

/// A process in an endless wait can be killed.
fn killed_in_wait(abi: &'static Abi) -> Result<()> {
    let mut child = system::again(&[other::ARGUMENT, abi.name])?
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("no pipe")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    same("the other process", line.trim(), "waiting")?;
    // The child reports just before it waits.
    std::thread::sleep(Duration::from_millis(20));
    same("it waits", child.try_wait()?.is_none(), true)?;
    let begin = Instant::now();
    child.kill()?;
    child.wait()?;
    let time = begin.elapsed();
    ensure!(
        time < Duration::from_secs(5),
        "it took {time:?} to be killed"
    );
    Ok(())
}

/// Runs in the process that is killed.
fn wait_for_ever(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    let signal = device.create_signal(false)?;
    println!("waiting");
    device.wait_signal(signal, u32::MAX)?;
    Ok(())
}

/// Whether a process may lock its own page-backed node a second time. Only generations from 4.6.6 to 4.6.9 refuse it.
fn locks_again(abi: &Abi) -> bool {
    let is_between = |version: &str| version.starts_with("4.6.");
    is_old(abi) || !is_between(abi.version)
}

/// Several threads lock one node at the same time: each gets the same address.
fn locking_at_once(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let device = client.device();
    for _ in 0..8 {
        let node = device.allocate(1 << 20, 64, surface::BITMAP, Pool::VIRTUAL)?;
        let start = Barrier::new(THREADS);
        let places = std::thread::scope(|scope| {
            let lock = || {
                start.wait();
                device.lock(node)
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(lock)).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|place| Ok(place.map_err(|_| anyhow!("a thread has panicked"))??))
                .collect::<Result<Vec<_>>>()
        })?;
        ensure!(places.iter().all(|place| *place == places[0]), "{places:?}");
        for left in (0..THREADS).rev() {
            system::expect_mapped(places[0].logical, true)?;
            ensure!(device.unlock(node)?, "page-backed, but not asynchronous");
            device.commit_queue(Queue::new().unlock(node))?;
            system::expect_mapped(places[0].logical, left > 0)?;
        }
        client.finish()?;
        let found = device.unlock(node).err().and_then(|error| error.status());
        same("one UNLOCK too many", found, Some(Status::MEMORY_UNLOCKED))?;
        device.free(node)?;
    }
    Ok(())
}

/// A second lock of a page-backed node is counted and returns the same address, or is refused. Each lock needs an
/// unlock.
fn locking_again(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let device = client.device();
    let node = device.allocate(8192, 64, surface::BITMAP, Pool::VIRTUAL)?;
    let first = device.lock(node)?;
    let again = device.lock(node);
    let mut locks = 1;
    if locks_again(abi) {
        same("the same place", again?, first)?;
        same("cached", device.lock_cacheable(node)?, first)?;
        locks = 3;
    } else {
        let found = again.err().and_then(|error| error.status());
        same("LOCK again", found, Some(Status::MEMORY_LOCKED))?;
    }
    let memory = device.memory(node, first, client.pool())?;
    for left in (0..locks).rev() {
        memory.write(0, 77);
        same("in place", memory.read(0), 77)?;
        ensure!(device.unlock(node)?, "page-backed, but not asynchronous");
        if left > 0 {
            memory.write(4096, 78);
        }
        device.commit_queue(Queue::new().unlock(node))?;
    }
    // Old generations cannot free a locked node, so the record must have run.
    client.finish()?;
    device.free(node)?;
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(wait_for_ever).or_else(layouts::role) {
        return code;
    }
    harness::program(|| {
        harness::allow(Duration::from_secs(600));
        let model = Device::open()?.identity()?.chip_model;
        let mut suite = Suite::new();
        for abi in drawing() {
            suite.test(
                format!("a client of {} draws the picture", abi.name),
                move || picture(abi),
            );
        }
        for (first, second) in [("dove", "4.0.0"), ("v2", "6.4.11"), ("v4", "5.0.11.p8")] {
            suite.test(format!("{first} and {second} at once"), move || {
                let abi = |name| Abi::named(name).ok_or_else(|| anyhow!("no {name}"));
                side_by_side(abi(first)?, abi(second)?)
            });
        }
        for abi in Abi::all().into_iter().filter(|abi| is_newer(abi)) {
            suite.test(
                format!("a client of {} starts, draws and waits", abi.name),
                move || layouts::works(abi),
            );
        }
        suite.test(
            "clients of a size that several have, without a word",
            layouts::silent_ones,
        );
        suite.test("generations are told apart, and why is told", move || {
            each(|abi| unasked(abi, model))
        });
        suite.test("sizes and blocks that do not fit are refused", misfits);
        suite.test("a client can say what it speaks, until it speaks", asking);
        for abi in Abi::familiar()
            .into_iter()
            .filter(|abi| abi.has("RELEASE_VIDEO_MEMORY"))
        {
            suite.test(
                format!(
                    "{}: nodes are given back before the COMMIT that uses them",
                    abi.name
                ),
                || given_back_before_the_commit(abi),
            );
        }
        for abi in Abi::familiar() {
            if abi.field("Commit", "commandBuffers").is_some() {
                suite.test(format!("{}: COMMIT for several cores", abi.name), || {
                    in_parts(abi)
                });
            }
        }
        suite.test("what Marvell's generation alone has", || {
            marvell(Abi::named(MARVELL).context(MARVELL)?)
        });
        suite.test("every command number has an answer", || each(every_number));
        suite.test("refusals are those of the generation", || each(negatives));
        suite.test("so are the others of the table", || each(more_negatives));
        suite.test(
            "page-backed nodes are locked again, in most generations",
            || each(locking_again),
        );
        for name in ["dove", "5.0.11.p6", "6.2.4.p2", "6.4.11"] {
            suite.test(
                format!("{name}: threads lock one node at once"),
                move || locking_at_once(Abi::named(name).context("a generation")?),
            );
        }
        suite.test("everything has come back", || {
            let client = Client::start()?;
            let bytes = client.pool().len() as u32 - (1 << 20);
            let node = client
                .device()
                .allocate(bytes, 64, surface::BITMAP, Pool::SYSTEM)?;
            client.device().free(node)?;
            Ok(())
        });
        suite.run()
    })
}
