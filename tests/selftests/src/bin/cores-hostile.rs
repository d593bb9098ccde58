// SPDX-License-Identifier: GPL-2.0-only
//! Hostile and careless clients on a board with several cores, and of its core for vector graphics.

use std::fs::OpenOptions;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context as _;
use anyhow::Result;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Client as Client3d;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::vg::*;
use gpu_control::counter;
use gpu_control::fault;

fn child(what: &str) -> Result<system::Killed> {
    Ok(system::Killed(system::again(&[what, "1"])?.spawn()?))
}

/// Commits long jobs in an endless loop and ignores the result.
fn hammer() -> Result<()> {
    let mut client = Client::start()?;
    let words: Vec<u32> = NOP.repeat(24 * 1024);
    let long = client.put_dynamic(0x400, &words, 1);
    let context = client.put_static(0, &state(0xa34, 0));
    loop {
        let _ = client.send(&[(context, 0), (long, 1), (long, 1)], &Tasks::default());
    }
}

/// Hangs the core until the driver refuses its jobs.
fn hanging() -> Result<()> {
    let mut client = Client::start()?;
    let context = client.put_static(0, &state(0xa34, 0));
    let words = client.drawing((0, 0), (8, 8), BAD);
    let buffer = client.put_dynamic(0x400, &words, 1);
    loop {
        let status = client.send(&[(context, 0), (buffer, 1)], &Tasks::default())?;
        if status != OK {
            println!("# hanging: refused with {status}");
            return Ok(());
        }
    }
}

/// The colour that hangs the core.
const BAD: u32 = 0xffba_dbad;

/// After a core is unbound, the driver accesses none of its registers.
fn gone(rounds: u32) -> Result<()> {
    let name = name()?;
    let control = control()?;
    let read = || control.counter(counter::MMIO_READS) + control.counter(counter::MMIO_WRITES);
    let hammers = [child("--hammer")?, child("--hammer")?, child("--hammer")?];
    std::thread::sleep(Duration::from_millis(500));
    let mut late = 0;
    for _ in 0..rounds {
        system::to_driver("unbind", &name)?;
        let before = read();
        std::thread::sleep(Duration::from_millis(250));
        late += u32::from(read() != before);
        system::to_driver("bind", &name)?;
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(hammers);
    same("unbinds behind which registers were touched", late, 0)
}

/// The driver finally refuses a process that hangs the core again and again, as on other cores.
fn toll() -> Result<()> {
    let control = control()?;
    let mut innocent = Client::start()?;
    innocent.prove(1)?;
    let armed = control.arm(fault::HANG_AT_COLOUR, BAD);
    let resets = control.counter(counter::RESETS);
    let mut guilty = child("--hanging")?;
    let begin = Instant::now();
    let mut worst = Duration::ZERO;
    let mut ended = false;
    while begin.elapsed() < Duration::from_secs(40) {
        let start = Instant::now();
        innocent.prove(2)?;
        worst = worst.max(start.elapsed());
        if guilty.0.try_wait()?.is_some() {
            ended = true;
            break;
        }
    }
    let count = control.counter(counter::RESETS) - resets;
    println!("# {count} resets, the innocent waited {worst:?} at most");
    drop(guilty);
    drop(armed);
    innocent.prove(3)?;
    innocent.close()?;
    ensure!(ended, "it hangs the core still, {count} times by now");
    Ok(())
}

/// The driver restores the page table address that a reset cleared.
fn table() -> Result<()> {
    let control = control()?;
    let slot = gpu_control::PLACES[place()?.context("no core")?].slot;
    let path = format!("/sys/bus/pci/devices/0000:00:{slot:02x}.0/resource0");
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    let registers = match Region::map(file, 4096, 0) {
        // The usual configuration of distributions.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
            return harness::skip(
                "the kernel keeps everybody off registers that a driver has claimed",
            );
        }
        other => other?,
    };
    let tables = || [0x400, 0x404, 0x408, 0x40c, 0x410].map(|at| registers.read(at));
    let before = system::awake(tables)?;
    ensure!(before[0] != 0, "no table at all");
    let mut client = Client::start()?;
    client.prove(1)?;
    let armed = control.arm(fault::HANG_AT_DRAW, 1);
    let context = client.put_static(0, &state(0xa34, 0));
    let words = client.drawing((0, 0), (8, 8), 5);
    let buffer = client.put_dynamic(0x400, &words, 1);
    let done = client.signals[1];
    let tasks = Tasks::default().with(PIXEL, signal(done));
    same(
        "status",
        client.send(&[(context, 0), (buffer, 1)], &tasks)?,
        OK,
    )?;
    client.device.wait_signal(done, 60_000)?;
    drop(armed);
    client.prove(2)?;
    client.close()?;
    same("page tables", system::awake(tables)?, before)
}

/// If a core does not come out of reset, the driver gives it up and never connects it to the bus again.
fn given_up() -> Result<()> {
    let name = name()?;
    let control = control()?;
    let mut client = Client::start()?;
    client.prove(1)?;
    let context = client.put_static(0, &state(0xa34, 0));
    let words = client.drawing((0, 0), (8, 8), 5);
    let buffer = client.put_dynamic(0x400, &words, 1);
    let done = client.signals[1];
    let tasks = Tasks::default().with(PIXEL, signal(done));
    let armed = control.arm(fault::RESET_STUCK, u32::MAX);
    control.write(fault::HANG_AT_DRAW, 1);
    let entries = [(context, 0), (buffer, 1)];
    same("status", client.send(&entries, &tasks)?, OK)?;
    client.device.wait_signal(done, 60_000)?;
    same("status", client.send(&entries, &tasks)?, NOT_THERE)?;
    let resets = control.counter(counter::RESETS);
    system::to_driver("unbind", &name)?;
    let more = control.counter(counter::RESETS) - resets;
    drop(armed);
    system::to_driver("bind", &name)?;
    client.prove(2)?;
    client.close()?;
    same("resets of a core that was given up", more, 0)
}

/// A context of one core is refused on another, except by a 2D core, which ignores contexts.
fn contexts_of_others() -> Result<()> {
    let cores: Vec<Device> = [0, 1]
        .map(Device::open_core)
        .into_iter()
        .collect::<Result<_, _>>()?;
    let mut paint = Paint::of(Client3d::with_device(Device::open_core(0)?)?)?;
    let contexts = [cores[0].attach()?.context, cores[1].attach()?.context];
    let memory = paint.device().allocate_contiguous(0x8000)?;
    let stream = paint.fill_all(0x00ab_cdef);
    let record = galcore_client::client::place(&memory, 0, paint.engine().pipe(), &stream);
    let send = |context: u32| cores[0].send_commit(&record, context, &mut Queue::new());
    same("its own", send(contexts[0])?.0, OK)?;
    same("the 2D core's", send(contexts[1])?.0, INVALID_ARGUMENT)?;
    paint.prove(3)?;
    for context in contexts {
        cores[0].detach(context)?;
    }
    paint.device().free_contiguous(&memory)?;
    paint.close()
}

/// One node that several blocks of one table unlock and free.
fn twice() -> Result<()> {
    let before = ProcGc::nothing_left()?;
    let mut client = Client::start()?;
    let done = client.signals[1];
    let context = client.put_static(0, &state(0xa34, 0));
    for round in 0..20 {
        let victim = piece(&client.device, &client.pool, 0x1_0000)?;
        let buffer = client.put_dynamic(0x400, &client.drawing((0, 0), (8, 8), round), 3);
        let mut tasks = Tasks::default();
        for block in [TESSELLATOR, DRAWING, COMMAND, PIXEL] {
            tasks = tasks.with(block, unlock(victim.node));
            tasks = tasks.with(block, free(victim.node));
            tasks = tasks.with(block, unlock(victim.node));
        }
        tasks = tasks.with(PIXEL, signal(done));
        let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
        same("status", status, OK)?;
        client.device.wait_signal(done, 10_000)?;
        ensure!(client.device.free(victim.node).is_err(), "freed twice");
    }
    client.prove(7)?;
    client.close()?;
    same("memory and entries in use", ProcGc::nothing_left()?, before)
}

/// The target is freed while a job draws to it, and another process gets the memory.
fn reused() -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    let context = client.put_static(0, &state(0xa34, 0));
    for round in 0..10 {
        let victim = piece(&client.device, &client.pool, STRIDE * SIDE)?;
        let own = std::mem::replace(&mut client.target, victim);
        let words = client.drawing((0, 0), (SIDE, SIDE), 0xdead_0000 | round);
        let hold = control.arm(fault::HOLD, 1);
        let buffer = client.put_dynamic(0x400, &words, 3);
        let tasks = Tasks::default().with(TESSELLATOR, free(client.target.node));
        let status = client.send(&[(context, 0), (buffer, 1)], &tasks)?;
        same("status", status, OK)?;
        // A later job does not draw to the freed target, although the core still has its address.
        let mut rest = state(0xa02, 0).to_vec();
        rest.extend(rectangle((0, 0), (SIDE, SIDE)));
        let buffer = client.put_dynamic(0x1000, &rest, 1);
        let unlocked = client.device.unlock(client.target.node);
        let freed = client.device.free(client.target.node);
        let status = client.send(&[(context, 0), (buffer, 1)], &Tasks::default())?;
        println!("# {unlocked:?} {freed:?}, behind it {status}");
        let fresh = (0..4)
            .map(|_| piece(&client.device, &client.pool, STRIDE * SIDE))
            .collect::<Result<Vec<_>>>()?;
        for piece in &fresh {
            piece.memory.fill(0x5555_5555);
        }
        drop(hold);
        std::thread::sleep(Duration::from_millis(100));
        for piece in &fresh {
            same(
                "words changed",
                piece.memory.find_other_than(0x5555_5555),
                None,
            )?;
            client.device.unlock(piece.node)?;
            client.device.free(piece.node)?;
        }
        client.target = own;
        client.prove(round)?;
    }
    client.close()
}

/// Headers, commands, tasks and the context change while COMMIT reads them.
fn races(seconds: u64) -> Result<()> {
    let control = control()?;
    let mut client = Client::start()?;
    let stop = AtomicBool::new(false);
    let memory = client.commands.memory.clone();
    let (address, target) = (client.commands.address, client.target.address);
    let mut statuses = std::collections::BTreeMap::new();
    std::thread::scope(|scope| -> Result<()> {
        for seed in 0..2 {
            let (memory, stop) = (memory.clone(), &stop);
            scope.spawn(move || {
                let mut random = Random::new(77 + seed);
                while !stop.load(Relaxed) {
                    let value = match random.below(9) {
                        0 => random.below(u32::MAX),
                        1 => target,
                        2 => address + 0x1040,
                        3 => target + 0x1000 * random.below(64),
                        4 => 0x6000_0000 | random.below(64),
                        5 => 0x7000_0000,
                        6 => 0x3001_0a11,
                        7 => 0x4000_0000 | random.below(8),
                        _ => 0x0040_0040,
                    };
                    memory.write(0x400 + 4 * random.below(64) as usize, value);
                    memory.write(0x1000 + 4 * random.below(64) as usize, value);
                }
            });
        }
        let begin = Instant::now();
        let mut result = Ok(());
        while begin.elapsed() < Duration::from_secs(seconds) && result.is_ok() {
            let context = client.put_static(0, &state(0xa34, 0));
            let mut words = client.drawing((1, 1), (8, 8), 5);
            words.extend([0x6000_0010, client.commands.address + 0x1040]);
            let mut called = client.drawing((3, 3), (8, 8), 6);
            called.extend([0x7000_0000, 0]);
            client.put(0x1000, &called, 16);
            let buffer = client.put_dynamic(0x400, &words, 1);
            result = client
                .send(&[(context, 0), (buffer, 1)], &Tasks::default())
                .map(|status| *statuses.entry(status).or_insert(0u32) += 1);
        }
        stop.store(true, Relaxed);
        result
    })?;
    println!("# {statuses:?}");
    client.prove(1)?;
    client.close()?;
    same("violations", control.violations(), 0)
}

/// The hardware type changes from call to call; padding and high halves contain garbage.
fn careless() -> Result<()> {
    let before = ProcGc::nothing_left()?;
    let mut client = Client::start()?;
    // Locked for one core and unlocked on others, in any order.
    for types in [[4, 1, 2], [1, 4, 0], [2, 7, 4], [5, 4, 4]] {
        let node = client
            .device
            .allocate(0x8000, 64, surface::TEXTURE, Pool::DEFAULT)?;
        let mut seen = Vec::new();
        for kind in types {
            client.device.set_hardware_type(kind);
            seen.push(client.device.lock(node)?.address);
        }
        println!("# types {types:?}: {seen:x?}");
        for kind in types {
            client.device.set_hardware_type(kind ^ 1);
            client.device.unlock(node)?;
        }
        ensure!(
            client.device.unlock(node).is_err(),
            "unlocked once too often"
        );
        client.device.set_hardware_type(types[1]);
        client.device.free(node)?;
    }
    client.device.set_hardware_type(VG);
    // A node that the core cannot access.
    let node = client
        .device
        .allocate(0x8000, 64, surface::TEXTURE, Pool::VIRTUAL)?;
    ensure!(client.device.lock(node).is_err(), "locked");
    client.device.set_hardware_type(2);
    let address = client.device.lock(node)?.address;
    client.device.set_hardware_type(VG);
    let context = client.put_static(0, &state(0xa34, 0));
    for address in [
        address,
        // Address 0 would mean no address.
        (address + 0x1000) & 0x7fff_ffff,
        address.wrapping_add(client.device.base_address()?),
    ] {
        let buffer = client.put_dynamic(0x400, &state(0xa11, address), 1);
        let status = client.send(&[(context, 0), (buffer, 1)], &Tasks::default())?;
        same_word(
            &format!("status of {address:#010x}"),
            status as u32,
            INVALID_DATA as u32,
        )?;
    }
    ensure!(client.device.unlock(node).is_ok(), "not unlocked");
    let _ = client.device.free(node);
    // Sign-extended addresses.
    let words = client.drawing((0, 0), (SIDE, SIDE), 0x33);
    let buffer = client.put_dynamic(0x400, &words, 1);
    let queue = [context as u32, 0, buffer as u32, 1];
    let high = 0xffff_ffff_0000_0000u64;
    let at = client.context.words.as_mut_ptr() as u64;
    let status = client.send_raw(at | high, queue.as_ptr() as u64 | high, 2, 0)?;
    same("status of extended addresses", status, OK)?;
    // The other cores' form of COMMIT, and this core's form on other cores.
    for kind in [0, 1, 2, 3, 5, 6, 7] {
        client.device.set_hardware_type(kind);
        let status = client.send_raw(at, queue.as_ptr() as u64, 2, 0)?;
        ensure!(status != OK, "type {kind} takes it");
    }
    for kind in [8, 255, u32::MAX] {
        client.device.set_hardware_type(kind);
        ensure!(
            client.send_raw(at, queue.as_ptr() as u64, 2, 0).is_err(),
            "type {kind}"
        );
    }
    client.device.set_hardware_type(VG);
    client.prove(4)?;
    client.close()?;
    same("memory and entries in use", ProcGc::nothing_left()?, before)
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["hammer", "hanging", "only", "rounds"])?;
        for (name, part) in [
            ("hammer", hammer as fn() -> Result<()>),
            ("hanging", hanging),
        ] {
            if options.get(name).is_some() {
                part()?;
                return Ok(true);
            }
        }
        let rounds = options.number("rounds", 15)?;
        if place()?.is_none() {
            return skip("this board has no core for vector graphics");
        }
        let mut suite = Suite::new();
        suite.test("careless calls", careless);
        suite.test("contexts of other cores", contexts_of_others);
        suite.test("a node goes once", twice);
        suite.test("memory that goes is not drawn to", reused);
        suite.test("what changes while it is read", || races(10));
        suite.test("a reset leaves the page table", table);
        suite.test("a core that was given up stays so", given_up);
        suite.test("who hangs the core again and again is refused", toll);
        suite.test("a core that is gone is left alone", move || gone(rounds));
        if let Some(part) = options.get("only") {
            suite.only(part);
        }
        suite.run()
    })
}
