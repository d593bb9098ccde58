// SPDX-License-Identifier: GPL-2.0-only
//! Threads of one process that meet in the middle of a request: what the one is about to give up, the other has taken.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Node;
use galcore_client::raw;
use galcore_client::raw::Area;
use galcore_client::raw::Kind;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Queue;
use galcore_client::Stream;
use rustix::process::Resource;
use rustix::process::Rlimit;

use super::attacker::State;
use super::attacker::KIND;
use super::innocent::Innocent;
use super::number;
use super::views::NEWER;
use super::PAGE;
use crate::fixture::Paint;
use crate::harness::skip;
use crate::other::Other;
use crate::system;
use crate::video;

/// Bytes of a buffer that cannot be mapped.
const BUFFER: usize = 6 << 20;

/// What the process may map besides, for its own needs.
const SLACK: u64 = 3 << 20;

/// Bytes of it that the GPU is told to write.
const WRITTEN: usize = 256 * PAGE;

/// Ordinary memory whose access is changed again and again, which keeps the memory map busy.
const BUSY: usize = 24 << 20;

/// Lets this process map no more than it has, and [`SLACK`].
fn limit_memory() -> Result<()> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').next().context("statm")?.parse()?;
    let most = Some(pages * PAGE as u64 + SLACK);
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    Ok(rustix::process::setrlimit(Resource::As, limit)?)
}

/// COMMITs that name the address of a buffer whose allocation fails for want of room in the process: the answer is
/// "ADDRESS BYTES ALLOCATIONS COMMITS", with the number of commits that went through.
pub(super) fn lose_a_buffer(time: Duration) -> Result<String> {
    let mut paint = Paint::new()?;
    let engine = paint.engine();
    let buffer = paint.device().allocate_contiguous(BUFFER as u64)?;
    let (address, part) = (
        buffer.address,
        buffer.memory.part(0, WRITTEN).context("part")?,
    );
    let target = video::surface_at(address, part)?;
    paint.device().free_contiguous(&buffer)?;
    // Something that takes the GPU a while, and then the write.
    let mut stream = Stream::new();
    let long: Vec<_> = (0..40)
        .map(|_| galcore_client::Rect::new(0, 0, crate::fixture::WIDTH, crate::fixture::HEIGHT))
        .collect();
    engine.fill_all(&mut stream, &paint.surface, &long, long[0], 1);
    stream.flush(engine.pipe()).stall();
    let whole = galcore_client::Rect::new(0, 0, target.width, target.height);
    engine.fill(&mut stream, &target, whole, 0x0bad_0002);
    stream.flush(engine.pipe());
    let device = galcore_client::Device::open()?;
    let busy = Area::map(
        None,
        BUSY,
        0,
        Kind {
            populate: true,
            ..Kind::default()
        },
    )?;
    let over = AtomicBool::new(false);
    let (hits, tries) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| -> Result<()> {
        let flood = scope.spawn(|| -> Result<()> {
            let mut queue = Queue::new();
            while !over.load(Ordering::Relaxed) {
                if paint.commit(&stream, &mut queue).is_ok() {
                    hits.fetch_add(1, Ordering::SeqCst);
                }
            }
            Ok(())
        });
        let shake = scope.spawn(|| -> Result<()> {
            let (closed, open) = (
                Kind {
                    read_only: true,
                    ..Kind::default()
                },
                Kind::default(),
            );
            while !over.load(Ordering::Relaxed) {
                busy.protect(0, BUSY, closed)?;
                busy.protect(0, BUSY, open)?;
            }
            Ok(())
        });
        // Both are to have what they need before there is no more.
        thread::sleep(Duration::from_millis(50));
        limit_memory()?;
        let begin = Instant::now();
        while begin.elapsed() < time && hits.load(Ordering::SeqCst) < 4 {
            let buffer = device.allocate_contiguous(BUFFER as u64);
            ensure!(buffer.is_err(), "there was room after all");
            tries.fetch_add(1, Ordering::SeqCst);
        }
        over.store(true, Ordering::Relaxed);
        for thread in [flood, shake] {
            thread.join().ok().context("a panic")??;
        }
        Ok(())
    })?;
    // What is under way goes on: it does not wait for that.
    std::mem::forget((paint, device));
    let (hits, tries) = (hits.into_inner(), tries.into_inner());
    Ok(format!("{address} {BUFFER} {tries} {hits}"))
}

/// The GPU does not write to a buffer whose allocation failed once somebody else has its memory.
pub fn buffer_without_room(time: Duration) -> Result<()> {
    let mut all = 0;
    for round in 0..3 {
        let mut innocent = Innocent::start()?;
        let mut attacker = Other::start(Abi::own())?;
        let answer = attacker.ask(&format!("lose-a-buffer {}", time.as_millis() / 3))?;
        let words: Vec<&str> = answer.split(' ').collect();
        let (tries, hits): (u32, u32) = (number(&words, 2)?, number(&words, 3)?);
        println!("# round {round}: {tries} allocations failed, {hits} commits named one");
        all += hits;
        innocent.cover("buffer", number(&words, 1)?, number(&words, 0)?)?;
        innocent.take("anonymous", 1, 8 << 20)?;
        // Until the GPU is through.
        Paint::new()?.prove(0xff00_0001)?;
        innocent.check()?;
    }
    // That the driver lets none through is as good.
    println!("# {all} commits in all");
    Ok(())
}

/// A thread looks at the place of a node that another thread cannot have, for the process has all that it may. The
/// answer is "ADDRESS OFFSET TRIES GLIMPSES".
///
/// `lose-a-node NAME ADDRESS MILLISECONDS`; with a name, the node is another process's, at that GPU address, and cannot
/// be imported.
pub(super) fn lose_a_node(state: &mut State, words: &[&str]) -> Result<String> {
    let (name, address): (u64, u32) = (number(words, 1)?, number(words, 2)?);
    let time = Duration::from_millis(number(words, 3)?);
    state.windows.clear();
    let opened = state.opened()?;
    let (device, pool) = (&opened.device, &opened.pool);
    let mut nodes: Vec<Node> = Vec::new();
    let refusal = loop {
        match device.allocate(PAGE as u32, 64, KIND, Pool::SYSTEM) {
            Ok(node) => nodes.push(node),
            Err(error) => break error,
        }
    };
    ensure!(
        refusal.status() == Some(Status::OUT_OF_RESOURCES),
        "{} nodes, then {refusal}",
        nodes.len()
    );
    // The place that comes next: that of the last one, once that is gone and another has its number.
    let last = nodes.pop().context("no node")?;
    let (own, memory) = opened.memory(last)?;
    let mut offset = (memory.address() - pool.address()) as usize;
    let mut place = own;
    if name != 0 {
        offset = (offset as u32).wrapping_sub(own).wrapping_add(address) as usize;
        place = address;
    }
    video::unlock(device, last)?;
    device.free(last)?;
    device.stall()?;
    nodes.push(device.allocate(PAGE as u32, 64, KIND, Pool::VIRTUAL)?);
    let window = Area::map(Some(device), offset + PAGE, 0, Kind::default())?;
    let over = AtomicBool::new(false);
    let (mut tries, mut glimpses) = (0u32, 0u32);
    thread::scope(|scope| -> Result<()> {
        let looking = scope.spawn(|| -> Result<()> {
            while !over.load(Ordering::Relaxed) {
                window.peek(offset)?;
            }
            Ok(())
        });
        let begin = Instant::now();
        while begin.elapsed() < time && glimpses == 0 {
            for _ in 0..16 {
                let refused = match name {
                    0 => device
                        .allocate(PAGE as u32, 64, KIND, Pool::SYSTEM)
                        .is_err(),
                    _ => device.import_node(name)?.0 != Status::OK,
                };
                ensure!(refused, "there was room after all");
                tries += 1;
            }
            glimpses += u32::from(window.peek(offset)?.is_some());
        }
        over.store(true, Ordering::Relaxed);
        looking.join().ok().context("a panic")?
    })?;
    for node in nodes {
        device.free(node)?;
    }
    state.windows = vec![window];
    Ok(format!("{place} {offset} {tries} {glimpses}"))
}

/// A node that could not be had, or not be imported, is in no window: whoever gets its place has it alone.
pub fn node_without_handle(by_name: bool, time: Duration) -> Result<()> {
    let newer = Abi::named(NEWER).context("abi")?;
    let mut owner = Other::start(newer)?;
    let mut attacker = Other::start(newer)?;
    let mut innocent = Innocent::start()?;
    let (name, address) = if by_name {
        let answer = owner.ask("offer-named")?;
        let words: Vec<&str> = answer.split(' ').collect();
        (number(&words, 0)?, number(&words, 1)?)
    } else {
        (0u64, 0u32)
    };
    let time = time.as_millis();
    let answer = attacker.ask(&format!("lose-a-node {name} {address} {time}"))?;
    let words: Vec<&str> = answer.split(' ').collect();
    let (tries, glimpses): (u32, u32) = (number(&words, 2)?, number(&words, 3)?);
    println!("# {tries} refused, {glimpses} times seen afterwards");
    let offset: usize = number(&words, 1)?;
    if by_name {
        owner.ask("withdraw")?;
    }
    ensure!(
        innocent.cover("pool", PAGE, number(&words, 0)?)?,
        "its place is not given to others"
    );
    super::views::expect_dark(&mut attacker, &mut innocent, offset)?;
    ensure!(glimpses == 0, "what could not be had was seen");
    Ok(())
}

/// Files of fault injection that must be set for failures to be of all kinds.
const INJECTION: [(&str, &str); 4] = [
    ("/sys/kernel/debug/failslab/ignore-gfp-wait", "N"),
    ("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N"),
    ("/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N"),
    ("/sys/kernel/debug/fail_page_alloc/min-order", "0"),
];

/// Makes allocations of the kernel's fail where a thread asks for it; skips where the kernel cannot.
pub fn inject() -> Result<()> {
    for (file, value) in INJECTION {
        if fs::write(file, value).is_err() {
            return skip("this kernel cannot make allocations fail");
        }
    }
    for file in ["failslab", "fail_page_alloc", "fail_usercopy"] {
        // No words about each in the log.
        fs::write(format!("/sys/kernel/debug/{file}/verbose"), "0")?;
    }
    Ok(())
}

/// The calling thread's `number`th allocation in the kernel from now fails; says whether it has come to that.
pub fn fail_nth<T>(number: u32, body: impl FnOnce() -> T) -> Result<(T, bool)> {
    // The thread's own: the process has others.
    let path = format!("/proc/self/task/{}/fail-nth", raw::thread());
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path)?;
    file.write_all(number.to_string().as_bytes())?;
    let result = body();
    let mut left = [b'?'; 16];
    // What has not failed yet may fail here.
    let read = file.read(&mut left).unwrap_or(0);
    while file.write_all(b"0").is_err() {}
    Ok((result, left[..read].starts_with(b"0")))
}

/// Every allocation of the kernel's on the way fails once, in requests that map: what is refused leaves nothing, and
/// what is not mapped is not in the way of others, whoever frees it meanwhile.
pub fn failing_mappings() -> Result<()> {
    inject()?;
    let mut innocent = Innocent::start()?;
    let opened = video::Opened::new()?;
    let device = &opened.device;
    let free = system::ProcGc::nothing_left()?;
    let mut failed = 0;
    for nth in 1..400 {
        let node = device.allocate(4 << 20, 64, KIND, Pool::VIRTUAL)?;
        let (locked, reached) = fail_nth(nth, || device.lock(node))?;
        failed += u32::from(locked.is_err());
        if let Ok(location) = locked {
            let memory = device.memory(node, location, &opened.pool)?;
            for offset in (0..memory.len()).step_by(PAGE) {
                memory.write(offset, 0x0bad_0004);
            }
        }
        // Perhaps it was locked, and only the answer did not come back.
        let _ = video::unlock(device, node);
        // Another thread frees it while it is being mapped once more.
        thread::scope(|scope| -> Result<()> {
            let freeing = scope.spawn(|| device.free(node));
            let (again, _) = fail_nth(nth, || device.lock(node))?;
            freeing.join().ok().context("a panic")??;
            // Perhaps it was locked, and only the answer did not come back.
            let _ = video::unlock(device, node);
            drop(again);
            Ok(())
        })?;
        if nth % 8 == 0 {
            innocent.take("anonymous", 1, 4 << 20)?;
            innocent.check()?;
            innocent.release()?;
        }
        if !reached {
            println!("# {failed} of {nth} refused");
            break;
        }
    }
    ensure!(failed > 2, "nothing failed");
    device.stall()?;
    let after = system::ProcGc::nothing_left()?;
    ensure!(after == free, "{free:?} before, {after:?} after");
    Ok(())
}
