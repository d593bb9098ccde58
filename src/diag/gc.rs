// SPDX-License-Identifier: GPL-2.0-only

//! `/sys/kernel/debug/gc`, as in the vendor's drivers from 5.0.11 on. Programs read these files.
//!
//! | File | What it has |
//! |---|---|
//! | `info` | the cores: the vendor's number, model, revision |
//! | `clients`, `database`, `vidmem` | the processes; their objects; their memory |
//! | `meminfo` | the pools |
//! | `idle`, `load`, `clk` | the first core's times on and off; the load and clocks of each core |
//! | `version`, `core_count`, `poweroff_timeout` | version, number of 3D cores, power-off delay |
//!
//! A process ID that is written to `vidmem` selects that process, and 0 selects all. The vendor's
//! other writable files are read-only: the clock's 64ths (clients and thermal throttling set
//! these), the delay before a core goes off (`autosuspend_delay_ms` of the device), and the number
//! of cores for clients.
//!
//! The numbers of cores are the vendor's: from 0 on for 3D cores, from 8 on for 2D cores, and 9 for
//! the vector graphics core. Source: the debugfs of the 6.4.3 driver, and the parser of imx-gputop.

use super::with_clients;
use crate::{
    abi::{
        newest_version,
        HardwareType,
        Ledger, //
    },
    client::{
        AnyCore,
        Clients,
        Device,
        Process,
        CLIENTS, //
    },
    prelude::*,
    sys::{
        clock::{
            self,
            Stamp, //
        },
        decimal::{
            Decimal,
            Digits, //
        },
        text_files::File, //
    }, //
};
use kernel::uaccess::UserSliceReader;

/// The vendor's numbers of the first 2D core and of the vector graphics core.
const FIRST_2D: usize = 8;
const VECTOR: usize = 9;

/// All files.
pub(crate) static FILES: [File; 11] = [
    File::new(c"info", show_info),
    File::new(c"clients", show_clients),
    File::new(c"meminfo", |f| with_clients(f, show_pools)),
    File::new(c"idle", |f| with_clients(f, show_idle)),
    File::new(c"database", |f| with_clients(f, show_database)),
    File::new(c"version", show_version),
    File::writable(c"vidmem", show_memory, choose),
    File::new(c"clk", show_clocks),
    File::new(c"poweroff_timeout", |f| with_clients(f, show_delay)),
    File::new(c"core_count", show_count),
    File::new(c"load", show_load),
];

/// The cores with the vendor's numbers.
fn numbered(device: &Device) -> impl Iterator<Item = (usize, AnyCore)> + '_ {
    let mut next = [0, FIRST_2D, VECTOR];
    device.all_cores().map(move |core| {
        let next = match core.kind() {
            HardwareType::ThreeD | HardwareType::Both | HardwareType::Neural => &mut next[0],
            HardwareType::TwoD => &mut next[1],
            HardwareType::Vector => &mut next[2],
        };
        let number = *next;
        *next += 1;
        (number, core)
    })
}

/// Nanoseconds in groups of three digits, as the vendor's driver prints them: 27 characters.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = Digits::of(self.0);
        let digits = digits.text();
        let width = digits.len() + digits.len().saturating_sub(1) / 3;
        for _ in width..27 {
            f.write_str(" ")?;
        }
        for index in 0..digits.len() {
            if index > 0 && (digits.len() - index) % 3 == 0 {
                f.write_str(",")?;
            }
            f.write_str(&digits[index..=index])?;
        }
        Ok(())
    }
}

/// How long `load` measures the cores, in milliseconds. Source: the 6.4.11 driver.
const LOAD_TIME: i64 = 100;

/// Calls `show` with each core and its number in the vendor's driver.
fn for_each_core(mut show: impl FnMut(usize, &AnyCore) -> fmt::Result) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    let result = numbered(clients.device()).try_for_each(|(number, core)| show(number, &core));
    result
}

fn show_info(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for_each_core(|number, core| {
        let (model, revision) = core.model();
        f.write_fmt(fmt!(
            "gpu      : {number}\nmodel    : {model:4x}\nrevision : {revision:4x}\n\n"
        ))
    })
}

fn show_clocks(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for_each_core(|number, core| {
        // The vendor's driver does not print this for vector graphics.
        if core.kind() == HardwareType::Vector {
            return Ok(());
        }
        let (own, mut shaders) = core.frequencies();
        // Shaders without a clock of their own use the core's. imx-gputop needs both rates, and
        // does not close the file without them.
        if shaders == 0 && core.kind() != HardwareType::TwoD {
            shaders = own;
        }
        for (what, rate) in [("mc", own), ("sh", shaders)] {
            if rate != 0 {
                f.write_fmt(fmt!("gpu{number} {what} clock: {rate} HZ.\n"))?;
            }
        }
        Ok(())
    })
}

fn show_load(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let busy = |core: &AnyCore| (Stamp::now(), core.load().busy);
    let mut before: [Option<(Stamp, u64)>; crate::limits::MAX_CORES] = Default::default();
    for_each_core(|_, core| {
        before[core.index()] = Some(busy(core));
        Ok(())
    })?;
    fsleep(Delta::from_millis(LOAD_TIME));
    for_each_core(|number, core| {
        // A core that was bound during the sleep has no earlier value.
        let Some((then, past)) = before[core.index()] else {
            return Ok(());
        };
        let (now, all) = busy(core);
        let load = percent(all.saturating_sub(past), now.since(then));
        f.write_fmt(fmt!("core      : {number}\nload      : {load}%\n\n"))
    })
}

/// `part` as a percentage of `all`, at most 100. Both are short times.
fn percent(part: u64, all: u64) -> u32 {
    let [part, all] = [part, all].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    // The remainder of the division makes no visible difference.
    (part / (all / 100).max(1)).min(100)
}

fn show_idle(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
    let first = clients.device().all_cores().next();
    let Some(times) = first.map(|core| core.power_times()) else {
        return Ok(());
    };
    let [on, off] = [times.on, times.off].map(Grouped);
    let [idle, suspend] = [times.idle, times.suspend].map(Grouped);
    f.write_fmt(fmt!(
        "On:      {on} ns\nOff:     {off} ns\nIdle:    {idle} ns\nSuspend: {suspend} ns\n"
    ))
}

fn show_version(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let clients = CLIENTS.get();
    // VERSION's answer to all programs that the parameter does not name.
    let claim = clients.and_then(|clients| clients.device().parameters.version.of(b"")[1]);
    let [major, minor, patch, build] = claim.unwrap_or_else(newest_version);
    f.write_fmt(fmt!(
        "{major}.{minor}.{patch}.{build} built at galcore in Rust\nCode path: src/diag/gc\n"
    ))
}

fn show_delay(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
    let first = clients.device().all_cores().next();
    let Some(delay) = first.map(|core| core.off_delay()) else {
        return Ok(());
    };
    f.write_fmt(fmt!("power off timeout: {delay} ms.\n"))
}

fn show_count(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut count = 0;
    for_each_core(|_, core| {
        count += u32::from(matches!(
            core.kind(),
            HardwareType::ThreeD | HardwareType::Both
        ));
        Ok(())
    })?;
    f.write_fmt(fmt!("{count}\n"))
}

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
fn for_each_process(show: impl FnMut(i32, &Process) -> fmt::Result) -> fmt::Result {
    let clients = CLIENTS.get();
    clients.map_or(Ok(()), |clients| clients.for_each_process(show))
}

fn show_clients(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_fmt(fmt!("{:<8}{}\n", "PID", "NAME"))?;
    f.write_fmt(fmt!("{}\n", &RULE[..24]))?;
    for_each_process(|id, process| f.write_fmt(fmt!("{id:<8}{}\n", process.name())))
}

fn show_pools(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
    let usage = clients.device().memory.usage();
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
    clients.for_each_process(|_, process| {
        most = most.saturating_add(process.ledgers().video.scattered.max);
        Ok(())
    })?;
    let used = usize_as_u64(usage.scattered);
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

fn show_memory(f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
fn choose(reader: &mut UserSliceReader) -> Result<(), Errno> {
    let mut room = [0u8; 16];
    let length = reader.len();
    let text = room.get_mut(..length).ok_or(EINVAL)?;
    reader.read_slice(text)?;
    let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
    let process: i32 = text.trim().parse().map_err(|_| EINVAL)?;
    CHOSEN.store(process, Relaxed);
    Ok(())
}

fn show_database(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
    let first = clients.device().all_cores().next();
    let idle = first.map_or(0, |core| {
        let times = core.power_times();
        let all = [times.on, times.off, times.idle, times.suspend];
        let all = all.into_iter().fold(0, u64::saturating_add);
        all.saturating_sub(clock::nanoseconds(core.load().busy))
    });
    f.write_fmt(fmt!("GPU Idle: {} ns\n", Decimal(idle)))?;
    clients.for_each_process(|id, process| {
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

#[kunit_tests(galcore_gc)]
mod tests {
    use super::*;
    use kernel::str::CString;

    #[test]
    fn numbers_are_grouped() {
        for (number, wanted) in [
            (0, "                          0"),
            (999, "                        999"),
            (1_000, "                      1,000"),
            (12_345_678, "                 12,345,678"),
            (999_999_999_999_999, "        999,999,999,999,999"),
        ] {
            let text = CString::try_from_fmt(fmt!("{}", Grouped(number))).unwrap();
            assert_eq!(text.to_bytes(), wanted.as_bytes());
        }
    }
}

#[kunit_tests(galcore_gc_load)]
mod load_tests {
    use super::*;

    #[test]
    fn hundredths() {
        assert_eq!(percent(0, 0), 0);
        assert_eq!(percent(50, 100), 50);
        assert_eq!(percent(62_500_000, 62_500_000), 100);
        // A jiffy more, because the clocks differ.
        assert_eq!(percent(70_000_000, 62_500_000), 100);
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
        assert_eq!(percent(1_000_000, 6_250_000), 16);
    }
}
