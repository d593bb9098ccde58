// SPDX-License-Identifier: GPL-2.0-only

//! The files about the cores.

use super::{
    numbered,
    Grouped, //
};
use crate::{
    abi::{
        newest_version,
        HardwareType, //
    },
    client::{
        AnyCore,
        CLIENTS, //
    },
    prelude::*,
    sys::clock::Stamp, //
};
use kernel::time::delay::fsleep;

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

pub(super) fn show_info(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for_each_core(|number, core| {
        let (model, revision) = core.model();
        f.write_fmt(fmt!(
            "gpu      : {number}\nmodel    : {model:4x}\nrevision : {revision:4x}\n\n"
        ))
    })
}

pub(super) fn show_clocks(f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

pub(super) fn show_load(f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

pub(super) fn show_idle(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
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

pub(super) fn show_version(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let clients = CLIENTS.get();
    // VERSION's answer to all programs that the parameter does not name.
    let claim = clients.and_then(|clients| clients.device().parameters().version.of(b"")[1]);
    let [major, minor, patch, build] = claim.unwrap_or_else(newest_version);
    f.write_fmt(fmt!(
        "{major}.{minor}.{patch}.{build} built at galcore in Rust\nCode path: src/diag/gc\n"
    ))
}

pub(super) fn show_delay(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    let first = clients.device().all_cores().next();
    let Some(delay) = first.map(|core| core.off_delay()) else {
        return Ok(());
    };
    f.write_fmt(fmt!("power off timeout: {delay} ms.\n"))
}

pub(super) fn show_count(f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

#[kunit_tests(galcore_gc_load)]
mod tests {
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
