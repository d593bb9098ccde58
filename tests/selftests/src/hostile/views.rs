// SPDX-License-Identifier: GPL-2.0-only
//! Mappings that show more than they should: private ones, and windows on the pool that outlive what they show.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::device::NODES;
use galcore_client::raw::Area;
use galcore_client::raw::Kind;
use galcore_client::sys;
use galcore_client::uapi;
use galcore_client::uapi::Pool;
use galcore_client::Abi;
use galcore_client::Device;

use super::attacker::State;
use super::attacker::KIND;
use super::innocent::Innocent;
use super::number;
use super::PAGE;
use crate::harness::skip;
use crate::other::Other;
use crate::video::node;
use crate::video::unlock;
use crate::video::Opened;

/// The generation of a process that exports nodes and knows names.
pub const NEWER: &str = "6.2.4.p2";

/// Bytes of what is mapped privately.
const BYTES: usize = 64 * PAGE;

/// What is in it.
const OWN: u32 = 0x0bad_0003;
/// What is written to it in the end.
const WRITTEN: u32 = 0xbad0_0002;

/// Ordinary memory of the process that must not be harmed.
const ORDINARY: usize = 24 << 20;

/// Windows that are gone before those that must be found.
const GONE: usize = 100;

/// Rounds of a race.
const ROUNDS: u32 = 40;

/// The offset in the device's file of what is mapped at `address`, by the kernel's own books.
fn file_offset(address: u64) -> Result<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let start = format!("{address:08x}-");
    let line = maps.lines().find(|line| line.starts_with(&start));
    let line = line.with_context(|| format!("nothing is mapped at {address:#x}"))?;
    let offset = line.split(' ').nth(2).context("offset")?;
    // What is not the pool may lie 4 GiB further than was asked for.
    Ok(u64::from_str_radix(offset, 16)? & 0xffff_ffff)
}

/// Something of the device's that can be mapped.
struct Thing {
    what: String,
    file: Option<File>,
    offset: u64,
    bytes: usize,
    /// The client's own view of it.
    view: Option<Memory>,
}

/// Everything that there is.
fn things(opened: &Opened) -> Result<Vec<Thing>> {
    let device = &opened.device;
    let mut things = Vec::new();
    let buffer = device.allocate_contiguous(BYTES as u64)?;
    things.push(Thing {
        what: "a contiguous buffer".to_string(),
        file: None,
        offset: file_offset(buffer.logical)?,
        bytes: BYTES,
        view: Some(buffer.memory),
    });
    for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
        let node = opened.allocate(BYTES as u32, pool)?;
        let (_, memory) = opened.memory(node)?;
        if pool != Pool::SYSTEM {
            things.push(Thing {
                what: format!("a node of {pool}"),
                file: None,
                offset: file_offset(memory.address())?,
                bytes: BYTES,
                view: Some(memory.clone()),
            });
        }
        let (status, number) = device.export(node.handle)?;
        if status == uapi::Status::OK {
            things.push(Thing {
                what: format!("the dma-buf of a node of {pool}"),
                file: Some(sys::take_descriptor(number)?.into()),
                offset: 0,
                bytes: BYTES,
                view: Some(memory),
            });
        }
    }
    for (what, offset) in [
        ("the pool", 0),
        ("the completion page", uapi::COMPLETION_OFFSET),
    ] {
        things.push(Thing {
            what: what.to_string(),
            file: None,
            offset,
            bytes: PAGE,
            view: None,
        });
    }
    Ok(things)
}

/// Nothing of the device can be mapped privately; what such a mapping would let go of is nobody else's.
pub fn private() -> Result<()> {
    // In a process of its own: what it maps keeps its file open.
    let answer = Other::start(Abi::named(NEWER).context("abi")?)?.ask("map-privately")?;
    ensure!(answer == "refused", "{answer}");
    Ok(())
}

/// Tries to; the answer is "refused", or what came of it.
pub(super) fn map_privately(state: &mut State) -> Result<String> {
    let mut innocent = Innocent::start()?;
    let opened = state.opened()?;
    let things = things(opened)?;
    for thing in &things {
        thing.view.iter().for_each(|view| view.fill(OWN));
    }
    let mut granted = Vec::new();
    for thing in &things {
        for reading in [false, true] {
            // By a file that is for reading only as well: its mappings cannot become writable.
            let file = match (&thing.file, reading) {
                (Some(file), _) => file.try_clone()?,
                (None, false) => opened.device.file().try_clone()?,
                (None, true) => File::open(NODES[0])?,
            };
            for read_only in [true, false] {
                let kind = Kind {
                    private: true,
                    read_only,
                    populate: false,
                };
                let Ok(area) = Area::map(Some(&file), thing.bytes, thing.offset, kind) else {
                    continue;
                };
                let way = format!("{} (read only: file {reading}, {read_only})", thing.what);
                granted.push(way);
                for offset in (0..thing.bytes).step_by(PAGE) {
                    area.peek(offset)?;
                    if !read_only {
                        area.poke(offset, 0xbad0_bad0)?;
                    }
                }
                drop(area);
            }
        }
    }
    innocent.take("anonymous", 1, ORDINARY)?;
    for thing in &things {
        let Some(view) = &thing.view else {
            continue;
        };
        if let Some((_, word)) = view.find_other_than(OWN) {
            let whose = if innocent.wrote(word)? {
                "another process's memory"
            } else {
                "what it should not"
            };
            granted.push(format!("{} shows {whose}", thing.what));
        }
    }
    let views = || things.iter().filter_map(|thing| thing.view.as_ref());
    views().for_each(|view| view.fill(WRITTEN));
    if let Err(error) = innocent.check() {
        granted.push(format!("{error}"));
    }
    if views().any(|view| view.find_other_than(WRITTEN).is_some()) {
        granted.push("a shared view is odd".to_string());
    }
    if granted.is_empty() {
        Ok("refused".to_string())
    } else {
        Ok(format!("mapped privately: {}", granted.join("; ")))
    }
}

/// A page of the pool that two device nodes show is freed while another thread maps; its windows are kept.
pub(super) fn shift(state: &mut State) -> Result<String> {
    state.windows.clear();
    let second = Device::open_node(NODES[1])?;
    let opened = state.opened()?;
    let node = opened.allocate(PAGE as u32, Pool::SYSTEM)?;
    let (address, memory) = opened.memory(node)?;
    memory.write(0, 0x0bad_0001);
    let offset = (memory.address() - opened.pool.address()) as usize;
    let device = &opened.device;
    let map = |file: &dyn AsFd| Area::map(Some(file), offset + PAGE, 0, Kind::default());
    let gone = (0..GONE)
        .map(|_| map(device))
        .collect::<Result<Vec<_>, _>>()?;
    let windows = vec![map(&second)?, map(device)?];
    for window in &windows {
        let seen = window.peek(offset)?;
        ensure!(seen == Some(0x0bad_0001), "a window shows {seen:x?}");
    }
    drop(gone);
    device.unlock(node)?;
    let late = Duration::from_micros(u64::from(address >> 12) * 37 % 1500);
    thread::scope(|scope| {
        let mapping = scope.spawn(|| {
            let begin = Instant::now();
            while begin.elapsed() < late {
                std::hint::spin_loop();
            }
            map(device)
        });
        device.free(node)?;
        mapping.join().ok().context("a panic")??;
        device.stall().context("STALL")
    })?;
    state.windows = windows;
    Ok(format!("{address} {offset}"))
}

/// What the first window shows at an offset now; with a word, that is written first.
pub(super) fn glimpse(state: &mut State, words: &[&str]) -> Result<String> {
    let offset = number(words, 1)?;
    let mut seen = Vec::new();
    for window in &state.windows {
        if words.len() > 2 {
            window.poke(offset, number(words, 2)?)?;
        }
        if let Some(word) = window.peek(offset)? {
            seen.push(word.to_string());
        }
    }
    Ok(format!("dark {}", seen.join(" ")))
}

/// Fails if `attacker` sees at `offset` of its windows what `innocent` has written, or writes into it.
pub(super) fn expect_dark(
    attacker: &mut Other,
    innocent: &mut Innocent,
    offset: usize,
) -> Result<()> {
    let seen = attacker.ask(&format!("glimpse {offset}"))?;
    for word in seen.split(' ').skip(1) {
        if innocent.wrote(word.parse()?)? {
            attacker.ask(&format!("glimpse {offset} 2989"))?;
            let and = match innocent.check() {
                Ok(()) => "",
                Err(_) => ", and writes it",
            };
            bail!("a window shows another process's memory{and}");
        }
    }
    Ok(())
}

/// A page of the pool that was freed is in no window any more, whichever device node was mapped, whatever other
/// threads map meanwhile.
pub fn both_nodes() -> Result<()> {
    let mut attacker = Other::start(Abi::own())?;
    let mut innocent = Innocent::start()?;
    let mut seen = 0;
    for _ in 0..ROUNDS {
        let answer = attacker.ask("shift-views")?;
        let words: Vec<&str> = answer.split(' ').collect();
        if !innocent.cover("pool", PAGE, number(&words, 0)?)? {
            continue;
        }
        let dark = expect_dark(&mut attacker, &mut innocent, number(&words, 1)?);
        innocent.release()?;
        seen += u32::from(dark.is_err());
        if let (Err(error), true) = (dark, seen == 1) {
            println!("# {error}");
        }
    }
    ensure!(seen == 0, "{seen} of {ROUNDS} times");
    Ok(())
}

/// Two threads lock another process's node at once, while a third looks at it (`sharedNodes=1`), and unlock it; again
/// and again, until it is seen afterwards.
pub(super) fn import_twice(state: &mut State, words: &[&str]) -> Result<String> {
    let (handle, offset) = (number::<u64>(words, 1)?, number(words, 2)?);
    let time = Duration::from_millis(number(words, 3)?);
    state.windows.clear();
    let opened = state.opened()?;
    let device = &opened.device;
    let window = Area::map(Some(device), offset + PAGE, 0, Kind::default())?;
    let shared = node(handle);
    let (over, ready) = (AtomicBool::new(false), Barrier::new(2));
    let mut rounds = 0u32;
    thread::scope(|scope| -> Result<()> {
        let looking = scope.spawn(|| -> Result<()> {
            while !over.load(Ordering::Relaxed) {
                window.peek(offset)?;
            }
            Ok(())
        });
        let second = scope.spawn(|| -> Result<()> {
            loop {
                ready.wait();
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                device.lock(shared)?;
                ready.wait();
            }
        });
        let begin = Instant::now();
        let mut seen = false;
        while !seen && begin.elapsed() < time {
            ready.wait();
            device.lock(shared)?;
            ready.wait();
            device.unlock(shared)?;
            device.unlock(shared)?;
            seen = window.peek(offset)?.is_some();
            rounds += 1;
        }
        over.store(true, Ordering::Relaxed);
        ready.wait();
        for thread in [looking, second] {
            thread.join().ok().context("a panic")??;
        }
        Ok(())
    })?;
    state.windows = vec![window];
    Ok(rounds.to_string())
}

/// A node of the pool for others: its handle, place and address.
pub(super) fn offer(state: &mut State) -> Result<String> {
    let opened = state.opened()?;
    let node = opened
        .device
        .allocate(PAGE as u32, 64, KIND, Pool::SYSTEM)?;
    let (address, memory) = opened.memory(node)?;
    let offset = memory.address() - opened.pool.address();
    state.nodes = vec![node];
    Ok(format!("{} {offset} {address}", node.handle))
}

/// The same by name: name and address.
pub(super) fn offer_named(state: &mut State) -> Result<String> {
    let answer = offer(state)?;
    let words: Vec<&str> = answer.split(' ').collect();
    let (handle, address) = (number(&words, 0)?, words[2]);
    let (status, name) = state.opened()?.device.name_node(handle)?;
    ensure!(status == uapi::Status::OK, "NAME: status {status}");
    Ok(format!("{name} {address}"))
}

/// Frees what was offered.
pub(super) fn withdraw(state: &mut State) -> Result<String> {
    let taken: Node = state.nodes.pop().context("no node")?;
    let device = &state.opened()?.device;
    unlock(device, taken)?;
    device.free(taken)?;
    device.stall()?;
    Ok("withdrawn".to_string())
}

/// Whichever of two threads is the slower to lock another process's node, its pages are out of sight once both have
/// unlocked and the owner has freed it.
pub fn importers(time: Duration) -> Result<()> {
    let mut owner = Other::start(Abi::own())?;
    let mut attacker = Other::start(Abi::own())?;
    let mut innocent = Innocent::start()?;
    let answer = owner.ask("offer")?;
    let words: Vec<&str> = answer.split(' ').collect();
    let offset: usize = number(&words, 1)?;
    let rounds = attacker.ask(&format!(
        "import-twice {} {offset} {}",
        words[0],
        time.as_millis()
    ))?;
    println!("# {rounds} rounds");
    owner.ask("withdraw")?;
    ensure!(
        innocent.cover("pool", PAGE, number(&words, 2)?)?,
        "its place is not given to others"
    );
    expect_dark(&mut attacker, &mut innocent, offset)
}

/// A window count beyond what a process may have is refused.
pub fn window_limit() -> Result<()> {
    let mut attacker = Other::start(Abi::own())?;
    let answer = attacker.ask("windows-until 4096")?;
    let words: Vec<&str> = answer.split(' ').collect();
    let (count, error): (u32, i32) = (number(&words, 0)?, number(&words, 1)?);
    println!("# {count} windows, then errno {error}");
    ensure!(
        (2000..=2048).contains(&count),
        "{count} windows, wanted at most 2048 and nearly as many"
    );
    ensure!(error == libc::ENOMEM, "then errno {error}, wanted ENOMEM");
    // Those that are gone do not count.
    let again = attacker.ask("windows-until 1000")?;
    ensure!(again == "1000 0", "again: {again}");
    Ok(())
}

/// Skips where the module was not loaded with `sharedNodes=1`.
pub fn wants_shared_nodes() -> Result<()> {
    let module = crate::system::Module::from_words(&[])?;
    match module.number("sharedNodes") {
        Some(1) => Ok(()),
        _ => skip("needs sharedNodes=1"),
    }
}
