// SPDX-License-Identifier: GPL-2.0-only

//! The files about the processes and their memory.

use crate::sys::prelude::*;
use crate::{
    abi::Ledger,
    client::{
        Process,
        CLIENTS, //
    },
    sys::{
        clock,
        decimal::Decimal, //
    }, //
};
use kernel::uaccess::UserSliceReader;

/// The kinds of nodes, by the vendor's names (`gceVIDMEM_TYPE`).
const KINDS: [&str; crate::client::KINDS] = [
    "Generic",
    "Index",
    "Vertex",
    "Texture",
    "RenderTarget",
    "Depth",
    "Bitmap",
    "TileStatus",
    "Image",
    "Mask",
    "Scissor",
    "HZ",
    "ICache",
    "TxDesc",
    "Fence",
    "TFBHeader",
    "Command",
];

/// The pools, by the vendor's names (`gcePOOL` of the 5.0.11 driver, the last that has a pool for
/// contiguous pages).
const POOLS: [&str; 9] = [
    "Default",
    "Local",
    "Internal",
    "External",
    "Unified",
    "System",
    "Virtual",
    "User",
    "Contiguous",
];

/// The indexes of this driver's pools in [`POOLS`].
const SYSTEM: usize = 5;
const VIRTUAL: usize = 6;
const CONTIGUOUS: usize = 8;

/// A line of dashes.
const RULE: &str =
    "--------------------------------------------------------------------------------";

/// The process that `vidmem` shows. 0: all.
static CHOSEN: Atomic<i32> = Atomic::new(0);

/// Calls `show` with each process until it fails.
fn for_each_process(mut show: impl FnMut(i32, &Process) -> fmt::Result) -> fmt::Result {
    let mut result = Ok(());
    if let Some(clients) = CLIENTS.get() {
        clients.for_each_process(|id, process| {
            if result.is_ok() {
                result = show(id, process);
            }
        });
    }
    result
}

pub(super) fn show_clients(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_fmt(fmt!("{:<8}{}\n", "PID", "NAME"))?;
    f.write_fmt(fmt!("{}\n", &RULE[..24]))?;
    for_each_process(|id, process| f.write_fmt(fmt!("{id:<8}{}\n", process.name())))
}

pub(super) fn show_pools(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    let usage = clients.device().memory().usage();
    let total = usage.pool + usage.pool_free;
    f.write_fmt(fmt!("VIDEO MEMORY:\n  POOL SYSTEM:\n"))?;
    for (what, bytes) in [
        ("Free :    ", usage.pool_free),
        ("Used :    ", usage.pool),
        ("MinFree : ", usage.pool_least_free),
        ("MaxUsed : ", total - usage.pool_least_free),
        ("Total :   ", total),
    ] {
        f.write_fmt(fmt!("    {what}{bytes:>10} B\n"))?;
    }
    let mut most = 0u64;
    for_each_process(|_, process| {
        most = most.saturating_add(process.ledgers().video.scattered.max);
        Ok(())
    })?;
    // CAST: at most 64 bits.
    let used = usage.scattered as u64;
    let [used, most] = [used, most.max(used)].map(Decimal);
    f.write_fmt(fmt!(
        "  POOL VIRTUAL:\n    Used :    {used:>10} B\n    MaxUsed : {most:>10} B\n"
    ))
}

#[inline(never)]
fn show_ledger(f: &mut fmt::Formatter<'_>, name: &str, ledger: &Ledger) -> fmt::Result {
    let [now, most, all] = [ledger.bytes, ledger.max, ledger.total].map(Decimal);
    f.write_fmt(fmt!("{name:<16} {now:>16} {most:>16} {all:>16}\n"))
}

#[inline(never)]
fn show_ledgers(f: &mut fmt::Formatter<'_>, process: &Process) -> fmt::Result {
    let ledgers = process.ledgers();
    f.write_fmt(fmt!(
        "{:<16} {:>16} {:>16} {:>16}\n",
        "",
        "Current",
        "Maximum",
        "Total"
    ))?;
    let video = &ledgers.video;
    show_ledger(f, "All-Types", &video.all)?;
    for (name, ledger) in KINDS.iter().zip(&video.kinds).skip(1) {
        show_ledger(f, name, ledger)?;
    }
    f.write_str("\n")?;
    show_ledger(f, "All-Pools", &video.all)?;
    let none = Ledger::default();
    for (place, name) in POOLS.iter().enumerate() {
        let ledger = match place {
            SYSTEM => &video.system,
            VIRTUAL => &video.scattered,
            CONTIGUOUS => &video.contiguous,
            _ => &none,
        };
        show_ledger(f, name, ledger)?;
    }
    f.write_str("\n")?;
    for (name, ledger) in [
        ("AllocNonPaged", &ledgers.non_paged),
        ("AllocContiguous", &ledgers.contiguous),
        ("MapUserMemory", &ledgers.mapped),
        ("MapMemory", &none),
    ] {
        show_ledger(f, name, ledger)?;
    }
    f.write_str("\n")
}

pub(super) fn show_memory(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let chosen = CHOSEN.load(Relaxed);
    let mut is_there = false;
    for_each_process(|id, process| {
        if chosen != 0 && id != chosen {
            return Ok(());
        }
        is_there = true;
        let name = process.name();
        f.write_fmt(fmt!("VidMem Usage (Process {id}: {name}):\n"))?;
        show_ledgers(f, process)?;
        match chosen {
            0 => f.write_str("\n"),
            _ => Ok(()),
        }
    })?;
    if chosen != 0 && !is_there {
        f.write_fmt(fmt!("ERROR: process {chosen} not found\n"))?;
    }
    Ok(())
}

/// Handles a number that is written to `vidmem`.
pub(super) fn choose(reader: &mut UserSliceReader) -> Result {
    let mut room = [0u8; 16];
    let length = reader.len();
    let text = room.get_mut(..length).ok_or(EINVAL)?;
    reader.read_slice(text)?;
    let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
    let process: i32 = text.trim().parse().map_err(|_| EINVAL)?;
    CHOSEN.store(process, Relaxed);
    Ok(())
}

pub(super) fn show_database(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    let first = clients.device().all_cores().next();
    let idle = first.map_or(0, |core| {
        let times = core.power_times();
        let all = [times.on, times.off, times.idle, times.suspend];
        let all = all.into_iter().fold(0, u64::saturating_add);
        all.saturating_sub(clock::nanoseconds(core.load().busy))
    });
    f.write_fmt(fmt!("GPU Idle: {} ns\n", Decimal(idle)))?;
    for_each_process(|id, process| {
        f.write_fmt(fmt!("{RULE}\nProcess: {id:<8} {}\n", process.name()))?;
        f.write_fmt(fmt!(
            "Records:\n{:>14} {:>3} {:>16} {:>16} {:>16}\n",
            "Type",
            "GPU",
            "Data/Node",
            "Physical/Node",
            "Bytes"
        ))?;
        let mut result = Ok(());
        let objects = process.for_each_object(|object| {
            let line = f.write_fmt(fmt!(
                "{:<14} {:>3} {:>16x} {:>16x} {:>16}\n",
                object.kind,
                0,
                object.handle,
                object.address,
                object.bytes
            ));
            result = result.and(line);
        });
        objects.map_err(|_| fmt::Error)?;
        result?;
        f.write_fmt(fmt!("Counters:\n"))?;
        show_ledgers(f, process)
    })
}
