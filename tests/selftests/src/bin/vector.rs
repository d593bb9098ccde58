// SPDX-License-Identifier: GPL-2.0-only
//! The vector graphics core: its COMMIT with contexts, command buffers, and tasks, refusals, the death of a client, and
//! the hang or removal of the core.

use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context as _;
use anyhow::Result;
use galcore_client::uapi;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Device;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::hostile::here;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::ProcGc;
use galcore_selftests::vg::*;
use gpu_control::counter;
use gpu_control::fault;

/// The status of a command without arguments.
fn plain(device: &Device, command: Command) -> Result<i32> {
    Ok(device.exchange(&mut Interface::new(command))?.0)
}

fn identity() -> Result<()> {
    let mut device = Device::open()?;
    device.set_hardware_type(VG);
    let mut interface = Interface::new(Command::QUERY_CHIP_IDENTITY);
    interface.bytes_mut()[32..].fill(0xaa);
    same("status", device.exchange(&mut interface)?.0, OK)?;
    let word = |at: usize| {
        let bytes = &interface.bytes()[at..at + 4];
        u32::from_le_bytes(bytes.try_into().unwrap())
    };
    same_word("model", word(32), 0x355)?;
    let (revision, minor) = match word(36) {
        0x1216 => (0x1216, 0x0101_0104),
        _ => (0x1215, 0x0001_0104),
    };
    for (what, at, wanted) in [
        ("revision", 36, revision),
        ("features", 40, 0x1e2c_7cc8),
        ("minor features", 44, 0x0024_207f),
        ("minor features 2", 52, minor),
    ] {
        same_word(what, word(at), wanted)?;
    }
    let mut interface = Interface::new(Command::QUERY_COMMAND_BUFFER);
    same("status", device.exchange(&mut interface)?.0, OK)?;
    let info = [13, 0, 0x3c, 64, 8, 4, 8, 8, 8, 8, 8, 8, 8, 80u32];
    for (index, wanted) in info.into_iter().enumerate() {
        let bytes = &interface.bytes()[32 + 4 * index..][..4];
        let found = u32::from_le_bytes(bytes.try_into()?);
        same_word(&format!("word {index}"), found, wanted)?;
    }
    let other = Device::open()?;
    let status = plain(&other, Command::QUERY_COMMAND_BUFFER)?;
    same("on another core", status, INVALID_ARGUMENT)
}

fn other_commands() -> Result<()> {
    let mut device = Device::open()?;
    device.set_hardware_type(VG);
    for command in [Command::ATTACH, Command::EVENT_COMMIT, Command::STALL] {
        same("status", plain(&device, command)?, INVALID_ARGUMENT)?;
    }
    let user = [0u32; 64];
    let mapped = device.map_user(user.as_ptr() as u64, 256);
    let status = mapped.err().and_then(|error| error.status());
    same("MAP_USER_MEMORY", status, Some(Status(NOT_SUPPORTED)))
}

fn addresses() -> Result<()> {
    let client = Client::start()?;
    let other = Device::open()?;
    let theirs = other.lock(client.target.node)?;
    let base = other.base_address()?;
    same_word("address", client.target.address, theirs.address + base)?;
    same_word("alignment", client.target.address % 64, 0)?;
    other.unlock(client.target.node)?;
    let node = client
        .device
        .allocate(16384, 64, surface::TEXTURE, Pool::VIRTUAL)?;
    harness::refused("LOCK", client.device.lock(node), Status(NOT_SUPPORTED))?;
    client.device.free(node)?;
    client.close()
}

fn sequence() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    let [of_context, second, third] = client.signals;
    client.target.memory.fill(0);
    // The context also draws, which shows whether it ran.
    let words = client.drawing((0, 0), (8, 8), 0xff00_0011);
    let context = client.put_static(0, &words);
    let words = client.drawing((8, 8), (8, 8), 0xff00_0022);
    let buffer = client.put_dynamic(0x400, &words, 1);
    let both = cluster(&[signal(second), signal(third)]);
    let tasks = Tasks::default().with(PIXEL, both);
    let rectangles = || control.counter(counter::VG_RECTANGLES);
    let before = rectangles();
    same(
        "status",
        client.send(&[(context, 0), (buffer, 1)], &tasks)?,
        OK,
    )?;
    for id in [second, third] {
        client.device.wait_signal(id, 10_000)?;
    }
    same("rectangles", rectangles(), before + 2)?;
    client.expect(|x, y| match (x / 8, y / 8) {
        (0, 0) => 0xff00_0011,
        (1, 1) => 0xff00_0022,
        _ => 0,
    })?;
    let id = client.context.id();
    ensure!(id != 0, "the context has no name");
    // No task has signaled that its buffer is done.
    same(
        "signal of the context",
        client.wait(of_context, 0)?,
        TIMEOUT,
    )?;
    same(
        "status",
        client.send(&[(context, 0), (buffer, 1)], &tasks)?,
        OK,
    )?;
    same("signal of the context", client.wait(of_context, 0)?, OK)?;
    for id in [second, third] {
        client.device.wait_signal(id, 10_000)?;
    }
    same("rectangles", rectangles(), before + 3)?;
    same("name", client.context.id(), id)?;
    // More than the events of the pixel engine.
    let one = Tasks::default().with(PIXEL, signal(third));
    for colour in 0..25 {
        let words = client.drawing((16, 16), (8, 8), colour);
        let buffer = client.put_dynamic(0x400 + 0x200 * colour, &words, 1);
        same(
            "status",
            client.send(&[(context, 0), (buffer, 1)], &one)?,
            OK,
        )?;
    }
    // Its signal is set after theirs.
    client.prove(7)?;
    client.device.wait_signal(third, 10_000)?;
    same("violations", control.violations(), 0)?;
    client.close()
}

fn contexts() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    let [_, done, _] = client.signals;
    let tasks = Tasks::default().with(PIXEL, signal(done));
    let words = client.drawing((0, 0), (1, 1), 1);
    let context = client.put_static(0, &words);
    let buffer = client.put_dynamic(0x400, &state(0xa34, 0), 1);
    let mut names = Vec::new();
    let mut other = Context::new(client.signals[2]);
    for round in 0..6 {
        std::mem::swap(&mut client.context, &mut other);
        let before = control.counter(counter::VG_RECTANGLES);
        for run in [1, 0] {
            let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
            same("status", status, OK)?;
            client.device.wait_signal(done, 10_000)?;
            let now = control.counter(counter::VG_RECTANGLES);
            same("rectangles of contexts", now - before, 1).with_context(|| format!("{run}"))?;
        }
        names.push(client.context.id());
        same("name", names[round], names[round % 2])?;
    }
    ensure!(names[0] != names[1], "two contexts have one name");
    // An unknown name counts as no name.
    client.context.words[..2].copy_from_slice(&[0x7777_7777, 0x77]);
    same(
        "status",
        client.send(&[(context, 0), (buffer, 1)], &tasks)?,
        OK,
    )?;
    client.device.wait_signal(done, 10_000)?;
    ensure!(!names.contains(&client.context.id()), "a name twice");
    same_word("high half of the name", client.context.words[1], 0)?;
    client.close()
}

fn tasks() -> Result<()> {
    let mut client = Client::start()?;
    client.prove(1)?;
    let [_, done, other] = client.signals;
    let before = ProcGc::used_now()?;
    let entries = [
        (client.put_static(0, &state(0xa34, 0)), 0),
        (
            client.put_dynamic(0x400, &client.drawing((0, 0), (8, 8), 5), 3),
            1,
        ),
    ];
    for round in 0..12 {
        let victim = piece(&client.device, &client.pool, 0x1_0000)?;
        let tasks = match round % 3 {
            0 => Tasks::default()
                .with(PIXEL, [unlock(victim.node), free(victim.node)].concat())
                .with(PIXEL, signal(done)),
            1 => Tasks::default().with(
                PIXEL,
                cluster(&[unlock(victim.node), free(victim.node), signal(done)]),
            ),
            _ => Tasks::default()
                .with(TESSELLATOR, unlock(victim.node))
                .with(DRAWING, signal(other))
                .with(PIXEL, free(victim.node))
                .with(COMMAND, signal(done)),
        };
        same("status", client.send(&entries, &tasks)?, OK)?;
        client.device.wait_signal(done, 10_000)?;
        if round % 3 == 2 {
            client.device.wait_signal(other, 10_000)?;
        }
        ensure!(
            client.device.free(victim.node).is_err(),
            "round {round}: freed twice"
        );
        let used = harness::at_rest(ProcGc::used_now)?;
        same("memory in use", used, before)?;
    }
    // Records for an unknown signal and for a freed node are skipped.
    let gone = cluster(&[signal(0x7777), signal(done)]);
    same(
        "status",
        client.send(&entries, &Tasks::default().with(PIXEL, gone))?,
        OK,
    )?;
    client.device.wait_signal(done, 10_000)?;
    // A table with a size of 0 bytes has no tasks.
    let mut none = Tasks::default().with(PIXEL, signal(done));
    none.size = Some(0);
    same("status", client.send(&entries, &none)?, OK)?;
    same("signal", client.wait(done, 200)?, TIMEOUT)?;
    client.close()
}

/// A refused commit starts nothing and releases nothing, and the next COMMIT works.
fn hostile() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    client.prove(1)?;
    let [_, done, _] = client.signals;
    let victim = piece(&client.device, &client.pool, 0x1000)?;
    let context = client.put_static(0, &state(0xa34, 0));
    let words = client.drawing((0, 0), (8, 8), 5);
    let buffer = client.put_dynamic(0x400, &words, 1);
    let good = [(context, 0), (buffer, 1)];
    let none = Tasks::default();
    let of_victim = || cluster(&[unlock(victim.node), free(victim.node), signal(done)]);
    let before = control.counter(counter::VG_RECTANGLES);
    let own = client.context.words.as_ptr() as u64;
    for (what, context, count) in [
        ("one entry", own, 1),
        ("no entry", own, 0),
        ("all entries", own, u32::MAX),
        ("no context", 0, 2),
    ] {
        let status = client.send_in(context, &good, count, &none)?;
        same(what, status, INVALID_ARGUMENT)?;
    }
    same("no queue", client.send_raw(own, 0, 2, 0)?, INVALID_ARGUMENT)?;
    for (what, context, queue, tasks) in [
        ("a context elsewhere", 8, own, 0),
        ("a queue elsewhere", own, 16, 0),
        ("a table elsewhere", own, own, 16),
    ] {
        let status = client.send_raw(context, queue, 2, tasks)?;
        same(what, status, OUT_OF_RESOURCES)?;
    }
    // The heads of buffers: the word and its value.
    let (memory, at) = (&client.commands.memory, 0x400);
    let foreign = victim.address;
    for (what, word, value) in [
        ("no units", 8, 0),
        ("one unit and a task", 8, 1),
        ("units beyond the node", 8, COMMAND_BYTES / 8),
        ("all units", 8, u32::MAX),
        ("a head in the head", 5, 8),
        ("a head that is odd", 5, 68),
        ("a head before the node", 5, 0x1000),
        ("a head far off", 5, u32::MAX & !63),
        ("another node's address", 4, foreign),
        ("an address of nobody's", 4, 0x1000),
        ("a virtual address", 4, client.commands.address + 0x442),
        ("an odd address", 4, client.commands.address + 0x441),
        ("the last address", 4, u32::MAX & !7),
        ("another node", 2, victim.node.handle as u32),
        ("a node of nobody's", 2, 0x7777),
        ("a node of 64 bits", 3, 1),
    ] {
        let place = at + 4 * word;
        let was = memory.read(place);
        memory.write(place, value);
        let tasks = Tasks::default().with(PIXEL, of_victim());
        let status = client.send_in(own, &good, 2, &tasks)?;
        memory.write(place, was);
        same(what, status, INVALID_ARGUMENT)?;
    }
    // Bad tasks.
    let record =
        |words: &[u32]| Tasks::default().with(PIXEL, [of_victim(), words.to_vec()].concat());
    let mut hostile = vec![
        ("record 12", record(&[12, 0, 0, 0])),
        ("LINK", record(&[0, 0, 0])),
        ("a record that is cut off", record(&[4, 0])),
        ("a cluster of too many", record(&[1, 2, 4, 0, 0])),
        ("a cluster in a cluster", record(&[1, 1, 1, 1, 4, 0, 0])),
    ];
    for block in [2, 3, 4, 6, 7] {
        hostile.push((
            "a block without interrupt",
            Tasks::default().with(block, of_victim()),
        ));
    }
    for (what, count, size, is_circle) in [
        ("fewer records", Some(1), None, false),
        ("more records", Some(100), None, false),
        ("too few bytes", None, Some(12), false),
        ("a list that is a circle", None, None, true),
    ] {
        let mut tasks = Tasks::default().with(PIXEL, of_victim());
        (tasks.count, tasks.size, tasks.is_circle) = (count, size, is_circle);
        hostile.push((what, tasks));
    }
    for (what, tasks) in hostile {
        let status = client.send_in(own, &good, 2, &tasks)?;
        same(what, status, INVALID_ARGUMENT)?;
        same("signal", client.wait(done, 0)?, TIMEOUT).context(what)?;
    }
    // Bad commands.
    for (what, words, wanted) in [
        ("END", vec![0, 0], INVALID_DATA),
        (
            "FETCH",
            vec![0x5000_0002, client.commands.address],
            INVALID_DATA,
        ),
        ("RETURN", vec![0x7000_0000, 0], INVALID_DATA),
        (
            "RESTART",
            vec![0x9000_0002, client.commands.address],
            INVALID_DATA,
        ),
        ("opcode 15", vec![0xf000_0000, 0], INVALID_DATA),
        ("an event", state(0xe01, 0x703).to_vec(), INVALID_DATA),
        ("the MMU's flush", state(0xe04, 0x1f).to_vec(), INVALID_DATA),
        ("an unknown state", state(0x100, 0).to_vec(), INVALID_DATA),
        (
            "an address of nobody's",
            state(0xa11, 0x1000).to_vec(),
            INVALID_DATA,
        ),
        (
            "a virtual address",
            state(0xa11, client.target.address | 2).to_vec(),
            INVALID_DATA,
        ),
        (
            "tag 1",
            state(0xa28, client.target.address | 1).to_vec(),
            INVALID_DATA,
        ),
        (
            "tag 3",
            state(0xa30, client.target.address | 3).to_vec(),
            INVALID_DATA,
        ),
        ("a stall on nothing", vec![0x2000_0007, 0], INVALID_DATA),
        (
            "a semaphore for nothing",
            vec![0x1000_0007, 0],
            INVALID_DATA,
        ),
        ("data beyond the end", vec![0x4000_1000, 0], INVALID_DATA),
        (
            "CALL of nobody's",
            vec![0x6000_0002, 0x1000],
            INVALID_ADDRESS,
        ),
        (
            "CALL without RETURN",
            vec![0x6000_0002, victim.address],
            INVALID_DATA,
        ),
        (
            "CALL beyond the node",
            vec![0x6000_1000, victim.address],
            INVALID_ADDRESS,
        ),
    ] {
        victim.memory.fill(0x8000_0000);
        let mut words = words;
        let mut all = client.drawing((0, 0), (8, 8), 5);
        all.append(&mut words);
        let buffer = client.put_dynamic(0x400, &all, 1);
        let tasks = Tasks::default().with(PIXEL, of_victim());
        let status = client.send_in(own, &[(context, 0), (buffer, 1)], 2, &tasks)?;
        same(what, status, wanted)?;
    }
    same(
        "rectangles",
        control.counter(counter::VG_RECTANGLES),
        before,
    )?;
    // The nodes in the tasks still exist.
    client.device.unlock(victim.node)?;
    client.device.free(victim.node)?;
    client.prove(9)?;
    same("violations", control.violations(), 0)?;
    // A COMMIT in the other cores' form on this core, and in this core's form on another.
    let mut interface = Interface::with(Command::COMMIT, &uapi::Commit::default());
    same(
        "a COMMIT of zeros",
        client.device.exchange(&mut interface)?.0,
        INVALID_ARGUMENT,
    )?;
    client.close()
}

/// Another process's memory is unknown here.
fn foreign() -> Result<()> {
    let mut client = Client::start()?;
    let child = system::again(&["--hold", "1"])?
        .stdout(Stdio::piped())
        .spawn()?;
    let mut child = system::Killed(child);
    let mut line = String::new();
    let out = child.0.stdout.as_mut().context("no output")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)?;
    let (address, handle) = line.trim().split_once(' ').context("no address")?;
    let (address, handle): (u32, u32) = (address.parse()?, handle.parse()?);
    let context = client.put_static(0, &state(0xa34, 0));
    let words = state(0xa11, address);
    let buffer = client.put_dynamic(0x400, &words, 0);
    let none = Tasks::default();
    let status = client.send(&[(context, 0), (buffer, 1)], &none)?;
    same("a state with its address", status, INVALID_DATA)?;
    let buffer = client.put_dynamic(0x400, &[0x6000_0002, address], 0);
    let status = client.send(&[(context, 0), (buffer, 1)], &none)?;
    same("a CALL of its memory", status, INVALID_ADDRESS)?;
    let buffer = client.put_dynamic(0x400, &state(0xa34, 0), 0);
    client.commands.memory.write(0x400 + 8, handle);
    client.commands.memory.write(0x400 + 16, address + HEAD);
    let status = client.send(&[(context, 0), (buffer, 1)], &none)?;
    same("a buffer in its memory", status, INVALID_ARGUMENT)?;
    client.prove(3)?;
    client.close()
}

/// Holds a locked node and prints its address, until it is killed.
fn hold() -> Result<()> {
    let client = Client::start()?;
    println!("{} {}", client.target.address, client.target.node.handle);
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// States keep their values, but draws must not reach freed memory or another process's memory.
fn stale() -> Result<()> {
    let mut client = Client::start()?;
    client.prove(1)?;
    let [_, done, _] = client.signals;
    let victim = piece(&client.device, &client.pool, STRIDE * SIDE)?;
    let context = client.put_static(0, &state(0xa34, 0));
    let mut words = client.drawing((0, 0), (SIDE, SIDE), 0xdead);
    words[3] = victim.address;
    let buffer = client.put_dynamic(0x400, &words, 1);
    let tasks = Tasks::default().with(PIXEL, signal(done));
    same(
        "status",
        client.send(&[(context, 0), (buffer, 1)], &tasks)?,
        OK,
    )?;
    client.device.wait_signal(done, 10_000)?;
    same_word("drawn", victim.memory.read(0), 0xdead)?;
    client.device.unlock(victim.node)?;
    client.device.free(victim.node)?;
    let words = [&state(0xa02, 0xbeef)[..], &rectangle((0, 0), (SIDE, SIDE))].concat();
    let buffer = client.put_dynamic(0x400, &words, 1);
    let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
    same("a drawing without a target", status, INVALID_DATA)?;
    let nowhere = [&state(0xa11, 0)[..], &words].concat();
    let buffer = client.put_dynamic(0x400, &nowhere, 1);
    let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
    same("a drawing at 0", status, INVALID_DATA)?;
    // Another process, whose states differ only in the addresses.
    client.prove(2)?;
    let output = system::again(&["--draw-only", "1"])?.output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    client.expect(|_, _| 2)?;
    client.prove(3)?;
    client.close()
}

/// Draws without a target, while the core still has other processes' addresses.
fn draw_only() -> Result<()> {
    let mut client = Client::start()?;
    let context = client.put_static(0, &state(0xa34, 0));
    let words = [&state(0xa02, 0xbeef)[..], &rectangle((0, 0), (SIDE, SIDE))].concat();
    let buffer = client.put_dynamic(0x400, &words, 1);
    let status = client.send(&[(context, 0), (buffer, 1)], &Tasks::default())?;
    same("a drawing without a target", status, INVALID_DATA)?;
    client.prove(4)?;
    client.close()
}

fn many_entries() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    client.target.memory.fill(0);
    let [_, done, _] = client.signals;
    let mut entries = vec![(client.put_static(0, &state(0xa34, 0)), 0)];
    for number in 0..600 {
        // Each one overlaps the previous one, and is at most one pixel smaller.
        let side = SIDE - number / 10;
        let words = client.drawing((0, 0), (side, side), number + 1);
        entries.push((client.put_static(0x100 + 0x100 * number, &words), 0));
    }
    let words = client.drawing((SIDE - 1, SIDE - 1), (1, 1), 0x7777);
    entries.push((client.put_dynamic(0x100 + 0x100 * 600, &words, 1), 1));
    let before = control.counter(counter::VG_RECTANGLES);
    let tasks = Tasks::default().with(PIXEL, signal(done));
    same("status", client.send(&entries, &tasks)?, OK)?;
    client.device.wait_signal(done, 20_000)?;
    let drawn = control.counter(counter::VG_RECTANGLES) - before;
    same("rectangles", drawn, 601)?;
    client.expect(|x, y| match x.max(y) {
        63 if x == y => 0x7777,
        // The last one that reached this pixel.
        far => 10 * (SIDE - far).min(60),
    })?;
    client.close()
}

fn calls() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    client.prove(1)?;
    let [_, done, _] = client.signals;
    let called = piece(&client.device, &client.pool, 0x1000)?;
    let put = |words: &[u32]| {
        for (index, &word) in words.iter().enumerate() {
            called.memory.write(0x40 + 4 * index, word);
        }
    };
    let mut words = rectangle((4, 4), (2, 2)).to_vec();
    words.extend([0x7000_0000, 0]);
    put(&words);
    let context = client.put_static(0, &state(0xa34, 0));
    let mut words = client.drawing((0, 0), (2, 2), 2);
    let call = [0x6000_0003, called.address + 0x40];
    words.extend(call);
    words.extend(rectangle((8, 8), (2, 2)));
    words.extend(call);
    let buffer = client.put_dynamic(0x400, &words, 1);
    let tasks = Tasks::default().with(PIXEL, signal(done));
    let before = control.counter(counter::VG_RECTANGLES);
    same(
        "status",
        client.send(&[(context, 0), (buffer, 1)], &tasks)?,
        OK,
    )?;
    client.device.wait_signal(done, 10_000)?;
    same(
        "rectangles",
        control.counter(counter::VG_RECTANGLES) - before,
        4,
    )?;
    client.expect(|x, y| match (x / 2, y / 2) {
        (0, 0) | (2, 2) | (4, 4) => 2,
        _ => 1,
    })?;
    // Called words are checked, too.
    for (what, words) in [
        (
            "an address of nobody's",
            [0x3001_0a11, 0x1000, 0x7000_0000, 0],
        ),
        ("an END", [0, 0, 0x7000_0000, 0]),
        (
            "CALL in what is called",
            [0x6000_0003, called.address + 0x40, 0x7000_0000, 0],
        ),
    ] {
        put(&words);
        let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
        same(what, status, INVALID_DATA)?;
    }
    // A large amount of called words in a small buffer is refused.
    put(&[0x7000_0000, 0]);
    let words = [0x6000_01f8, called.address + 0x40].repeat(8192);
    let large = client.put_dynamic(0x400, &words, 1);
    let status = client.send(&[(context, 0), (large, 1)], &tasks)?;
    same("much that is called", status, OUT_OF_RESOURCES)?;
    let buffer = client.put_dynamic(0x400, &call, 1);
    client.device.unlock(called.node)?;
    let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
    same("what is not locked", status, INVALID_ADDRESS)?;
    client.device.free(called.node)?;
    client.prove(4)?;
    client.close()
}

fn faults() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    for (what, fault, value) in [
        ("events first", fault::EVENT_ORDER, fault::EVENTS_FIRST),
        ("events last", fault::EVENT_ORDER, fault::EVENTS_LAST),
        ("one interrupt lost", fault::DROP_INTERRUPTS, 1),
        ("slow draws", fault::SLOW_DRAWS, 20_000),
    ] {
        let armed = control.arm(fault, value);
        for colour in 0..5 {
            client.prove(0x100 * value + colour).context(what)?;
        }
        drop(armed);
    }
    client.close()
}

/// A process that draws once on request, and reports the cost of resets.
fn neighbour() -> Result<()> {
    let mut client = Client::start()?;
    client.prove(7)?;
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    client.prove(8)?;
    let (guilty, innocent, dropped) = client.device.resets()?;
    println!("{guilty} {innocent} {dropped}");
    client.close()
}

/// A hang is detected. The driver drops its job and later jobs of its process, and runs other processes' jobs.
fn hang() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    client.prove(1)?;
    let [_, done, other] = client.signals;
    let child = system::again(&["--neighbour", "1"])?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut child = system::Killed(child);
    let out = child.0.stdout.take().context("no output")?;
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out));
    let mut answer = || lines.next().context("it has ended")?.context("an answer");
    same("the neighbour", answer()?.as_str(), "ready")?;
    let before = client.device.resets()?;
    let context = (client.put_static(0, &state(0xa34, 0)), 0);
    let first = client.drawing((0, 0), (8, 8), 0x5a5a_a5a5);
    let first = [context, (client.put_dynamic(0x400, &first, 1), 1)];
    let behind = client.drawing((8, 0), (8, 8), 6);
    let behind = [context, (client.put_dynamic(0x800, &behind, 1), 1)];
    let armed = control.arm(fault::HANG_AT_DRAW, 1);
    let begun = Instant::now();
    for (id, entries) in [(done, &first), (other, &behind)] {
        let tasks = Tasks::default().with(PIXEL, signal(id));
        same("status", client.send(entries, &tasks)?, OK)?;
    }
    // The administrator sees the hung job's words.
    let mut log = KernelLog::from_now()?;
    std::fs::write(ProcGc::PATH, "dumpall")?;
    let lines = log.lines()?;
    let own = format!(" of process {}: ", std::process::id());
    for part in [own.as_str(), " 5aa5a55a"] {
        ensure!(
            lines.iter().any(|line| line.text.contains(part)),
            "dumpall does not tell {part:?}"
        );
    }
    drop(child.0.stdin.take());
    same(
        "signal of a job that hangs",
        client.wait(done, 500)?,
        TIMEOUT,
    )?;
    same("the neighbour", answer()?.as_str(), "0 1 0")?;
    let took = begun.elapsed();
    // `gpuTimeout` is 5 s.
    let limit = here(Duration::from_millis(6500))?;
    ensure!(took > Duration::from_secs(4), "a hang after {took:?}");
    ensure!(took < limit, "the neighbour waited {took:?}");
    client.device.wait_signal(done, 10_000)?;
    client.device.wait_signal(other, 10_000)?;
    drop(armed);
    client.expect(|_, _| 1)?;
    let cost = |before: (u32, u32, u32)| (before.0 + 1, before.1, before.2 + 2);
    same("resets", client.device.resets()?, cost(before))?;
    client.prove(2)?;
    // An error that the core reports is noticed at once. A process that repeats it must wait.
    let armed = control.arm(fault::HANG_KIND, fault::HANG_BUS_ERROR);
    let tasks = Tasks::default().with(PIXEL, signal(done));
    // Takes the best time, because a busy host adds delays.
    let mut took = Duration::MAX;
    for _ in 0..3 {
        control.write(fault::HANG_AT_DRAW, 1);
        let begun = Stopwatch::start();
        same("status", client.send(&first, &tasks)?, OK)?;
        client.device.wait_signal(done, 10_000)?;
        took = took.min(begun.elapsed());
    }
    ensure!(took < here(Duration::from_secs(3))?, "it took {took:?}");
    let begun = Instant::now();
    same("status", client.send(&first, &tasks)?, OK)?;
    let waited = begun.elapsed();
    client.device.wait_signal(done, 10_000)?;
    drop(armed);
    ensure!(waited > Duration::from_millis(300), "it waited {waited:?}");
    client.prove(3)?;
    client.close()
}

/// Commits in an endless loop.
fn for_ever() -> Result<()> {
    let mut client = Client::start()?;
    // Not the signal that `prove` waits for, because these jobs would set it.
    let [_, _, done] = client.signals;
    for number in 0.. {
        let victim = piece(&client.device, &client.pool, 0x1_0000)?;
        let context = client.put_static(0, &state(0xa34, 0));
        let at = 0x400 + 0x200 * (number % 16);
        let words = client.drawing((0, 0), (SIDE, SIDE), number);
        let buffer = client.put_dynamic(at, &words, 1);
        let records = cluster(&[unlock(victim.node), free(victim.node), signal(done)]);
        let tasks = Tasks::default().with(PIXEL, records);
        same(
            "status",
            client.send(&[(context, 0), (buffer, 1)], &tasks)?,
            OK,
        )?;
        if number % 16 == 15 {
            client.prove(number)?;
        }
    }
    Ok(())
}

fn killed(rounds: u32) -> Result<()> {
    let control = control()?;
    let before = ProcGc::nothing_left()?;
    for round in 0..rounds {
        let start = control.counter(counter::VG_RECTANGLES);
        let mut child = system::Killed(
            system::again(&["--child", "1"])?
                .stdout(Stdio::piped())
                .spawn()?,
        );
        eventually("the client draws", Duration::from_secs(20), || {
            Ok(control.counter(counter::VG_RECTANGLES) > start + 3)
        })?;
        // In every other round, in the middle of a job.
        let hold = (round % 2 == 0).then(|| control.arm(fault::HOLD, 1));
        std::thread::sleep(Duration::from_millis(20));
        if child.0.try_wait()?.is_some() {
            let mut said = String::new();
            if let Some(mut output) = child.0.stdout.take() {
                std::io::Read::read_to_string(&mut output, &mut said)?;
            }
            anyhow::bail!("round {round}: the client ended by itself: {said}");
        }
        child.0.kill()?;
        child.0.wait()?;
        if hold.is_some() {
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(hold);
        same("memory and entries in use", ProcGc::nothing_left()?, before)?;
    }
    let mut client = Client::start()?;
    client.prove(5)?;
    same("violations", control.violations(), 0)?;
    client.close()
}

fn unbound(rounds: u32) -> Result<()> {
    let name = name()?;
    let mut client = Client::start()?;
    for round in 0..rounds {
        client.prove(0x100 + round)?;
        let context = client.put_static(0, &state(0xa34, 0));
        let buffer = client.put_dynamic(0x400, &client.drawing((0, 0), (8, 8), round), 0);
        let none = Tasks::default();
        // Starts some jobs.
        for _ in 0..4 {
            same(
                "status",
                client.send(&[(context, 0), (buffer, 1)], &none)?,
                OK,
            )?;
        }
        system::to_driver("unbind", &name)?;
        let status = client.send(&[(context, 0), (buffer, 1)], &none)?;
        same("status of a core that is gone", status, NOT_THERE)?;
        system::to_driver("bind", &name)?;
        client.prove(0x200 + round)?;
    }
    client.close()
}

/// INCREMENT, DECREMENT, and LOCKDOWN count in words of the process's own memory, and nowhere else.
fn counting() -> Result<()> {
    let mut client = Client::start()?;
    client.prove(1)?;
    let [_, done, reached] = client.signals;
    let counters = piece(&client.device, &client.pool, 0x1000)?;
    let (first, second, third) = (
        counters.address,
        counters.address + 0x100,
        counters.address + 0xffc,
    );
    let memory = &counters.memory;
    memory.fill(0x1000);
    memory.write(0x100, u32::MAX);
    memory.write(0xffc, 0);
    let entries = [
        (client.put_static(0, &state(0xa34, 0)), 0),
        (client.put_dynamic(0x400, &state(0xa34, 0), 3), 1),
    ];
    let records = [
        increment(first),
        increment(first),
        decrement(third),
        increment(second),
        signal(done),
    ];
    let tasks = Tasks::default().with(PIXEL, cluster(&records));
    same("status", client.send(&entries, &tasks)?, OK)?;
    client.device.wait_signal(done, 10_000)?;
    same_word("up twice", memory.read(0), 0x1002)?;
    same_word("round", memory.read(0x100), 0)?;
    same_word("down", memory.read(0xffc), u32::MAX)?;
    same_word("its neighbour", memory.read(4), 0x1000)?;
    // Three times, up to the value of another word.
    memory.write(0x100, 0x1005);
    for round in 0..3 {
        same("signal", client.wait(reached, 0)?, TIMEOUT)?;
        let records = [lockdown(second, first, reached), signal(done)];
        let block = [PIXEL, TESSELLATOR, DRAWING][round];
        let tasks = Tasks::default().with(block, cluster(&records));
        same("status", client.send(&entries, &tasks)?, OK)?;
        client.device.wait_signal(done, 10_000)?;
    }
    same_word("counted", memory.read(0), 0x1005)?;
    same("signal", client.wait(reached, 1000)?, OK)?;
    // Addresses at which counting is not allowed.
    for (what, address) in [
        ("a word that is none", first + 2),
        ("a word that is in no memory", 0x1000),
        ("nothing", 0),
        (
            "behind the node",
            client.target.address + STRIDE * SIDE + 0x100_0000,
        ),
        ("the last word", u32::MAX & !3),
    ] {
        for record in [
            increment(address),
            decrement(address),
            lockdown(address, first, reached),
            lockdown(second, address, reached),
        ] {
            let records = [increment(first), record, signal(done)];
            let tasks = Tasks::default().with(PIXEL, cluster(&records));
            same(what, client.send(&entries, &tasks)?, INVALID_ARGUMENT)?;
        }
    }
    same_word("counted", memory.read(0), 0x1005)?;
    same("signal", client.wait(done, 0)?, TIMEOUT)?;
    // A node that the same commit frees can be used until then.
    let records = [increment(first), unlock(counters.node), free(counters.node)];
    let tasks = Tasks::default().with(PIXEL, [&records[..], &[signal(done)]].concat().concat());
    same("status", client.send(&entries, &tasks)?, OK)?;
    client.device.wait_signal(done, 10_000)?;
    let tasks = Tasks::default().with(PIXEL, increment(first));
    same(
        "memory that has gone",
        client.send(&entries, &tasks)?,
        INVALID_ARGUMENT,
    )?;
    client.prove(2)?;
    client.close()
}

/// All memory that a draw writes or reads must belong to the process, to the last byte.
fn extents() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    client.prove(1)?;
    let [_, done, _] = client.signals;
    let context = client.put_static(0, &state(0xa34, 0));
    let tasks = Tasks::default().with(PIXEL, signal(done));
    let (target, other) = (client.target.address, client.commands.address);
    let bytes = STRIDE * SIDE;
    let rectangles = || control.counter(counter::VG_RECTANGLES);
    let before = rectangles();
    // Images, and the memory that a path needs: 16 KiB and two times 64 bytes.
    let image = |address, states: [u32; 4]| {
        let [at, stride, size, control] = states;
        vec![
            (address, at),
            (address + 2, stride),
            (address + 6, size),
            (0xa24, 7),
            (0xa25, 7),
            (0xa00, control),
        ]
    };
    let path = |at: u32, first: u32, second: u32| {
        let mut states = vec![(0xa00, 2), (0xa34, 0x0100_0200), (0xa3a, 16 << 16 | 128)];
        for (base, stride) in [(0xa30, 0xa33), (0xa35, 0xa38)] {
            let all = [
                (base, at),
                (base + 1, first),
                (base + 2, second),
                (stride, 1024),
            ];
            states.extend(all);
        }
        states.push((0xa3d, 1));
        states
    };
    let [of_0, of_1] = [0x1000_1001, 0x1100_0001];
    let end = other + COMMAND_BYTES;
    for (what, states, wanted) in [
        ("the whole target", vec![], OK),
        (
            "a row more",
            vec![(0xa13, (SIDE + 1) << 16 | SIDE)],
            INVALID_DATA,
        ),
        ("all rows", vec![(0xa13, 0xffff << 16 | SIDE)], INVALID_DATA),
        (
            "a target that begins later",
            vec![(0xa11, target + 4)],
            INVALID_DATA,
        ),
        (
            "its last pixel",
            vec![(0xa11, target + bytes - 4), (0xa13, 1 << 16 | 1)],
            OK,
        ),
        (
            "one more",
            vec![(0xa11, target + bytes - 4), (0xa13, 1 << 16 | 2)],
            INVALID_DATA,
        ),
        (
            "rows far from each other",
            vec![(0xa12, 0x0fff_fffc), (0xa13, 2 << 16 | 1)],
            INVALID_DATA,
        ),
        ("rows in rows", vec![(0xa12, 128)], INVALID_DATA),
        (
            "rows that go back",
            vec![(0xa12, 0u32.wrapping_sub(STRIDE))],
            INVALID_DATA,
        ),
        (
            "tiles beyond the end",
            vec![(0xa12, 1 << 28 | STRIDE), (0xa13, (SIDE + 1) << 16 | SIDE)],
            INVALID_DATA,
        ),
        ("tiles", vec![(0xa12, 1 << 28 | STRIDE)], OK),
        ("no size", vec![(0xa13, 0)], INVALID_DATA),
        ("planes of nobody's", vec![(0xa10, 0x20e)], INVALID_DATA),
        (
            "image 0",
            image(0xa29, [other, 1024, 256 << 16 | 256, of_0]),
            OK,
        ),
        (
            "image 0, too long",
            image(0xa29, [other, 1024, 257 << 16 | 256, of_0]),
            INVALID_DATA,
        ),
        (
            "image 0, too long, and not used",
            image(0xa29, [other, 1024, 257 << 16 | 256, 0x1000_0001]),
            OK,
        ),
        (
            "image 1",
            image(0xa28, [other, 1024, 256 << 16 | 256, of_1]),
            OK,
        ),
        (
            "image 1, too long",
            image(0xa28, [other, 1024, 257 << 16 | 256, of_1]),
            INVALID_DATA,
        ),
        (
            "an image of nobody's",
            image(0xa28, [0, 1024, 256 << 16 | 256, of_1]),
            INVALID_DATA,
        ),
        (
            "a path",
            path(other + 0x8000, other + 0xc000, other + 0xc040),
            OK,
        ),
        (
            "a path's buffer beyond the end",
            path(end - 0x3fc0, other, other),
            INVALID_DATA,
        ),
        (
            "a path's bits beyond the end",
            path(other, end - 32, other),
            INVALID_DATA,
        ),
        (
            "a path's second bits beyond the end",
            path(other, other, end - 32),
            INVALID_DATA,
        ),
        ("a path without buffers", path(0, 0, 0), INVALID_DATA),
        (
            "a path without a tessellator",
            vec![(0xa00, 2)],
            INVALID_DATA,
        ),
        (
            "something else than rectangles",
            vec![(0xa00, 4)],
            INVALID_DATA,
        ),
        (
            "a rectangle outside",
            vec![(0xa13, 8 << 16 | 8)],
            INVALID_DATA,
        ),
    ] {
        let mut words = client.drawing((0, 0), (1, 1), 0xff00_0001);
        let data = words.split_off(words.len() - 4);
        for (address, value) in states {
            words.extend(state(address, value));
        }
        match what {
            "a rectangle outside" => words.extend(rectangle((8, 0), (1, 1))),
            _ => words.extend(data),
        }
        let buffer = client.put_dynamic(0x400, &words, 1);
        let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
        same(what, status, wanted)?;
        if status == OK {
            client.device.wait_signal(done, 10_000).context(what)?;
        }
        // The next commit cannot use the states that the core still holds.
        let words = rectangle((0, 0), (1, 1));
        let buffer = client.put_dynamic(0x400, &words, 1);
        client.send(&[(context, 0), (buffer, 1)], &tasks)?;
        client.wait(done, 1000)?;
        client.prove(0xff00_0002)?;
    }
    ensure!(rectangles() > before, "nothing was drawn");
    // Smaller memory at the same address.
    let large = piece(&client.device, &client.pool, 4 * bytes)?;
    let states = [
        state(0xa11, large.address),
        state(0xa13, 4 * SIDE << 16 | SIDE),
    ]
    .concat();
    let draws = |client: &Client| {
        let mut words = client.drawing((0, 0), (1, 1), 0xff00_0001);
        let data = words.split_off(words.len() - 4);
        words.extend(&states);
        words.extend(data);
        words
    };
    let buffer = client.put_dynamic(0x400, &draws(&client), 1);
    same(
        "status",
        client.send(&[(context, 0), (buffer, 1)], &tasks)?,
        OK,
    )?;
    client.device.wait_signal(done, 10_000)?;
    client.device.unlock(large.node)?;
    client.device.free(large.node)?;
    let small = piece(&client.device, &client.pool, bytes)?;
    let buffer = client.put_dynamic(0x400, &rectangle((0, 0), (1, 1)), 1);
    let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
    same("what has become smaller", status, INVALID_DATA)?;
    client.device.unlock(small.node)?;
    client.device.free(small.node)?;
    // A rectangle is clipped at the end of the target.
    client.prove(3)?;
    let buffer = client.put_dynamic(0x400, &client.drawing((60, 62), (9, 9), 0xff00_0009), 1);
    same(
        "status",
        client.send(&[(context, 0), (buffer, 1)], &tasks)?,
        OK,
    )?;
    client.device.wait_signal(done, 10_000)?;
    client.expect(|x, y| if x >= 60 && y >= 62 { 0xff00_0009 } else { 3 })?;
    same("violations", control.violations(), 0)?;
    client.close()
}

/// A context with all states, as a library keeps it: unknown states have their reset values, and some addresses belong
/// to freed memory.
fn full_contexts() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    let [_, done, _] = client.signals;
    let gone = piece(&client.device, &client.pool, STRIDE * SIDE)?;
    let mut values = vec![0; 0x79];
    for (address, value) in [
        (0xa10, 0x203),
        (0xa11, gone.address),
        (0xa12, STRIDE),
        (0xa13, SIDE << 16 | SIDE),
        (0xa28, gone.address),
        (0xa29, gone.address),
        (0xa30, gone.address),
        (0xa35, gone.address),
        (0xa3e, 0x55),
        (0xa3f, 0x7070_7074),
        (0xa5c, gone.address),
        (0xa00, 0x1000_0001),
        (0xa02, 0xff00_0000),
    ] {
        values[address - 0xa00] = value;
    }
    client.device.unlock(gone.node)?;
    client.device.free(gone.node)?;
    let mut words = vec![0x3000_0a00 | 0x79 << 16];
    words.extend(values);
    let context = client.put_static(0, &words);
    // Only the target has changed since then.
    let mut words = state(0xa11, client.target.address).to_vec();
    words.extend(rectangle((0, 0), (SIDE, SIDE)));
    let buffer = client.put_dynamic(0x400, &words, 1);
    let tasks = Tasks::default().with(PIXEL, signal(done));
    let mut other = Context::new(client.signals[0]);
    for round in 0..4u32 {
        client.target.memory.fill(round);
        std::mem::swap(&mut client.context, &mut other);
        let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
        same("status", status, OK)?;
        client.device.wait_signal(done, 10_000)?;
        client.expect(|_, _| 0xff00_0000)?;
        // After another process's commit all states must be loaded again.
        let output = system::again(&["--draw-only", "1"])?.output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    // An unknown state with a value.
    client
        .commands
        .memory
        .write(HEAD as usize + 4 + 4 * 0x14, 1);
    let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
    same("an unknown state", status, INVALID_DATA)?;
    // Freed memory is not drawn to, neither by the context nor by the commands after it.
    client
        .commands
        .memory
        .write(HEAD as usize + 4 + 4 * 0x14, 0);
    let buffer = client.put_dynamic(0x400, &rectangle((0, 0), (1, 1)), 1);
    client.context = Context::new(client.signals[0]);
    let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
    same("a target that has gone", status, INVALID_DATA)?;
    same("violations", control.violations(), 0)?;
    client.prove(7)?;
    client.close()
}

/// Memory that no other process may touch, until the guard is asked to end.
fn guard() -> Result<()> {
    let mut device = Device::open()?;
    device.set_hardware_type(VG);
    let pool = device.map_pool()?;
    let pieces: Vec<Piece> = (0..8)
        .map(|_| piece(&device, &pool, STRIDE * SIDE))
        .collect::<Result<_>>()?;
    for piece in &pieces {
        piece.memory.fill(0x5a5a_5a5a);
    }
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    for piece in &pieces {
        let found = piece.memory.find_other_than(0x5a5a_5a5a);
        ensure!(found.is_none(), "somebody has written {found:x?}");
    }
    Ok(())
}

/// Random commits. Good ones run and draw the expected pixels. The others contain random words in buffers, commands, or
/// tasks: each is refused, or touches only its own memory.
fn random(seed: u32, count: u32) -> Result<()> {
    let control = control()?;
    let mut random = Random::new(seed);
    let mut client = Client::start()?;
    let mut guard = system::again(&["--guard", "1"])?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let out = guard.stdout.as_mut().context("no output")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)?;
    same("the guard", line.trim(), "ready")?;
    let (mut good, mut run, mut refused, mut early) = (0, 0, 0, 0);
    let mut is_doubtful = false;
    // A SIGNAL of such a task may have set one of the client's signals, so that a later wait ends early.
    let mut may_be_early = false;
    for number in 0..count {
        let is_good = random.below(3) == 0;
        // A FREE of a task may have freed the client's own nodes.
        if is_good && std::mem::take(&mut is_doubtful) && client.prove(number).is_err() {
            let _ = client.close();
            client = Client::start()?;
            may_be_early = false;
        }
        let [_, done, last] = client.signals;
        let context = client.put_static(0, &state(0xa34, 0));
        let mut words = Vec::new();
        let mut drawn = None;
        for _ in 0..random.below(4) {
            let place = (random.below(SIDE), random.below(SIDE));
            let colour = random.colour() | 0xff00_0000;
            words.extend(client.drawing(place, (4, 4), colour));
            drawn = Some((place, colour));
        }
        let mut entries = vec![(context, 0)];
        for index in 0..1 + random.below(3) {
            let at = 0x400 + 0x1000 * index;
            entries.push((client.put_dynamic(at, &words, 3), 1));
        }
        let mut tasks = Tasks::default();
        if is_good {
            for _ in 0..random.below(4) {
                let block = [COMMAND, TESSELLATOR, DRAWING, PIXEL][random.below(4) as usize];
                let record = match random.below(3) {
                    0 => cluster(&[signal(done), signal(done)]),
                    1 => increment(client.commands.address + COMMAND_BYTES - 4),
                    _ => signal(done),
                };
                tasks = tasks.with(block, record);
            }
            tasks = tasks.with(PIXEL, signal(last));
            let status = client.send(&entries, &tasks)?;
            same("status", status, OK).with_context(|| format!("commit {number}"))?;
            client.device.wait_signal(last, 10_000)?;
            if let Some(((x, y), colour)) = drawn {
                let pixel = (y * STRIDE + 4 * x) as usize;
                let found = client.target.memory.read(pixel);
                if found != colour && std::mem::take(&mut may_be_early) {
                    eventually("the pixel is there", Duration::from_secs(10), || {
                        Ok(client.target.memory.read(pixel) == colour)
                    })
                    .with_context(|| format!("commit {number}, signalled too early"))?;
                    early += 1;
                    let _ = client.close();
                    client = Client::start()?;
                } else {
                    same_word("pixel", found, colour)
                        .with_context(|| format!("commit {number}"))?;
                }
            }
            good += 1;
            continue;
        }
        for _ in 0..random.below(4) {
            let block = random.below(9) as usize;
            let record = match random.below(8) {
                0 => vec![random.below(16), random.below(4), 0, 0],
                1 => cluster(&[signal(done), signal(done)]),
                2 => vec![7, 0, random.below(64), 0],
                3 => vec![2 + random.below(2), random.below(u32::MAX)],
                4 => lockdown(random.below(u32::MAX), client.commands.address, done),
                _ => signal(done),
            };
            tasks = tasks.with(block, record);
        }
        let has_tasks = !tasks.elements.is_empty();
        tasks.is_circle = has_tasks && random.below(20) == 0;
        if random.below(4) == 0 {
            tasks.count = Some(random.below(8));
        }
        if random.below(8) == 0 {
            tasks.size = Some(random.below(u32::MAX));
        }
        if has_tasks && random.below(4) == 0 {
            let value = match random.below(3) {
                0 => random.below(u32::MAX),
                1 => random.below(64),
                // An address in the client's memory.
                _ => entries[0].0 as u32 + random.below(COMMAND_BYTES),
            };
            tasks.spoilt = Some([random.below(8), random.below(32), value]);
        }
        for _ in 0..random.below(4) {
            // Changes heads and commands alike.
            let place = 0x400 + 4 * random.below(64);
            let value = match random.below(8) {
                0 => random.below(u32::MAX),
                1 => random.below(16) << 28 | random.below(32),
                2 => 0x3001_0000 | random.below(0x1000),
                3 => 0x3001_0a00 | random.below(0x60),
                4 => client.target.address + 4 * random.below(STRIDE * SIDE / 4),
                5 => random.below(0x200) << 16 | random.below(0x200),
                6 => 4 * random.below(0x400),
                _ => client.commands.address + random.below(COMMAND_BYTES),
            };
            client.commands.memory.write(place as usize, value);
        }
        let status = client.send(&entries, &tasks)?;
        match status {
            OK => {
                run += 1;
                is_doubtful |= has_tasks;
                may_be_early |= has_tasks;
            }
            INVALID_ARGUMENT | INVALID_DATA | INVALID_ADDRESS | OUT_OF_RESOURCES => refused += 1,
            other => anyhow::bail!("commit {number}: status {other}"),
        }
        if number % 64 == 0 || random.below(16) == 0 {
            // A FREE of a task may have freed the client's own nodes.
            if client.prove(number | 0xff00_0000).is_err() {
                let _ = client.close();
                client = Client::start()?;
                may_be_early = false;
                client.prove(number)?;
            }
        }
    }
    println!("# {good} good ones, {run} more run, {refused} refused, {early} signalled too early");
    ensure!(good > 0 && run > 0 && refused > 0, "none of some kind");
    // With new signals, because the random tasks may have set the old ones, or may still do so.
    Client::start()?.prove(1)?;
    drop(guard.stdin.take());
    let output = guard.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}");
    same("violations", control.violations(), 0)
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&[
            "count",
            "binds",
            "kills",
            "child",
            "hold",
            "guard",
            "draw-only",
            "neighbour",
        ])?;
        for (name, part) in [
            ("child", for_ever as fn() -> Result<()>),
            ("hold", hold),
            ("guard", guard),
            ("draw-only", draw_only),
            ("neighbour", neighbour),
        ] {
            if options.get(name).is_some() {
                // Runs until its parent ends it.
                harness::allow(Duration::from_secs(6 * 3600));
                part()?;
                return Ok(true);
            }
        }
        let count = options.number("count", 1000)?;
        let binds = options.number("binds", 5)?;
        let kills = options.number("kills", 4)?;
        let seconds = count / 20 + 10 * (binds + kills);
        harness::allow(Duration::from_secs(900 + u64::from(seconds)));
        if place()?.is_none() {
            return skip("this board has no core for vector graphics");
        }
        let mut suite = Suite::new();
        suite.test("who the core is, and what its buffers are like", identity);
        suite.test("commands that it does not know", other_commands);
        suite.test("addresses are physical", addresses);
        // A core that was off would run the context again.
        let kept_on = |test: fn() -> Result<()>| move || system::awake(test)?;
        suite.test("commits draw, and say when", kept_on(sequence));
        suite.test("a context runs when it changes", kept_on(contexts));
        suite.test("tasks", tasks);
        suite.test("what is hostile is refused as a whole", hostile);
        suite.test("another process's memory is nobody's", foreign);
        suite.test("addresses do not stay in the core", stale);
        suite.test("memory ends where it ends", extents);
        suite.test("contexts with all states", full_contexts);
        suite.test("tasks that count", counting);
        suite.test("600 buffers in one commit", many_entries);
        suite.test("what is called is copied and checked", calls);
        suite.test("events and interrupts in any order, late or lost", faults);
        suite.test("a hang costs who has caused it, and nobody else", hang);
        suite.test("clients are killed in the middle", move || killed(kills));
        suite.test("the core goes and comes back", move || unbound(binds));
        suite.test("random commits and tasks", move || random(1, count));
        suite.run()
    })
}
