// SPDX-License-Identifier: GPL-2.0-only
//! Threads that seldom run and have what others wait for: a lock of the driver's, or their place in the ring. Others keep
//! the processors busy meanwhile.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::raw;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;

use super::attacker::State;
use super::number;
use crate::fixture::Paint;
use crate::harness::same;

/// Threads of each kind that seldom run, and kinds.
const IDLE: usize = 2;
const KINDS: usize = 3;

/// How often counters are read by one file.
const READS: u32 = 20;

/// Records of one of their queues.
const RECORDS: usize = 64;

/// Commands of one of their streams: they take a while to be written into the ring.
const COMMANDS: usize = 2000;

/// Milliseconds for which the others spin, and for which they leave the processors to those that seldom run: so these
/// are stopped wherever they are just then.
const SPELLS: (u64, u64) = (100, 20);

/// Spins most of the time, together with all others that have the same `begin`, until `over`.
fn spin(begin: Instant, over: &AtomicBool) {
    let whole = SPELLS.0 + SPELLS.1;
    while !over.load(Ordering::Relaxed) {
        // CAST: not for so long.
        let at = begin.elapsed().as_millis() as u64 % whole;
        match at.checked_sub(SPELLS.0) {
            Some(at) => thread::sleep(Duration::from_millis(SPELLS.1 - at)),
            None => std::hint::spin_loop(),
        }
    }
}

/// One round of a thread of `kind` that asks for what the core does besides jobs: whether it is on, its counters, another
/// clock, or that by files that come and go.
fn look(device: &Device, kind: usize, round: u64) -> Result<()> {
    let scale = |value| device.ask("SET_FSCALE_VALUE", &[("value", value)], "value");
    match kind % KINDS {
        0 => {
            let fields = ["state", "isIdle"];
            let (status, _) = device.ask_for("QUERY_POWER_MANAGEMENT_STATE", &[], fields)?;
            same("QUERY_POWER_MANAGEMENT_STATE", status, Status::OK)
        }
        1 => {
            let abi = Abi::named("6.4.11").context("a generation")?;
            let newer = Device::open_as(abi, true)?;
            let command = "READ_ALL_PROFILE_REGISTERS_PART1";
            for _ in 0..READS {
                newer.ask_for(command, &[], [])?;
            }
            Ok(())
        }
        // Of a core without a divider there is nothing to set.
        _ => {
            scale(1 + round % 64)?;
            drop(Device::open()?);
            Ok(())
        }
    }
}

/// Has threads that seldom run set a signal, submit records that set it, and commit, while others spin and one submits
/// records that set it, too: `invert MILLISECONDS`. Or they ask for other things of the core: `invert MILLISECONDS looks`.
pub(super) fn invert(state: &mut State, words: &[&str]) -> Result<String> {
    let time = Duration::from_millis(number(words, 1)?);
    let looks = words.get(2) == Some(&"looks");
    let device = &state.opened()?.device;
    let signal = device.create_signal(true)?;
    let (over, count) = (&AtomicBool::new(false), &AtomicU32::new(0));
    let ready = &Barrier::new(KINDS * IDLE + 1);
    let spinners = 2 * thread::available_parallelism()?.get();
    thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for kind in 0..KINDS * IDLE {
            threads.push(scope.spawn(move || -> Result<()> {
                let mut paint = Paint::new()?;
                let mut stream = Stream::new();
                for _ in 0..COMMANDS {
                    stream.nop();
                }
                ready.wait();
                raw::give_way()?;
                let mut round = 0;
                while !over.load(Ordering::Relaxed) {
                    round += 1;
                    match kind % KINDS {
                        _ if looks => look(device, kind, round)?,
                        0 => device.set_signal(signal, true)?,
                        1 => {
                            let mut queue = Queue::new();
                            for _ in 0..RECORDS {
                                queue.signal(signal);
                            }
                            device.commit_queue(&mut queue)?;
                        }
                        _ => paint.commit(&stream, &mut Queue::new())?,
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }));
        }
        ready.wait();
        let begin = Instant::now();
        for _ in 0..spinners {
            scope.spawn(move || spin(begin, over));
        }
        while begin.elapsed() < time {
            device.commit_queue(Queue::new().signal(signal))?;
            thread::sleep(Duration::from_millis(2));
        }
        over.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().ok().map_or(Ok(()), |done| done)?;
        }
        Ok(())
    })?;
    let count = count.load(Ordering::Relaxed);
    ensure!(count > 0, "the threads have not run at all");
    Ok(count.to_string())
}
