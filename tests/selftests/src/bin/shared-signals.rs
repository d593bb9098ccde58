// SPDX-License-Identifier: GPL-2.0-only
//! A signal of one process, used by another that knows its number. `--shared`: the module was loaded with
//! `sharedSignals=1`, and the other process can wait for it and set it, also by events. Otherwise the number is unknown
//! there.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;

/// The status for an unknown signal.
const NOT_FOUND: &str = "-19";

/// Timeout in milliseconds.
const SOON: u32 = 5000;

/// Runs in the other process.
fn be_other(abi: &'static Abi) -> Result<()> {
    let client = Client::with_device(Device::open_as(abi, true)?)?;
    other::serve(|words| {
        let device = client.device();
        let value =
            |index: usize| -> Result<i32> { Ok(words.get(index).context("word")?.parse()?) };
        let status = |result: galcore_client::device::Result<()>| match result {
            Ok(()) => Ok("0".to_string()),
            Err(error) => match error.status() {
                Some(status) => Ok(status.0.to_string()),
                None => Err(error.into()),
            },
        };
        match words[0] {
            "create" => Ok(device.create_signal(value(1)? != 0)?.to_string()),
            "map" => status(device.map_signal(value(1)?)),
            "destroy" => status(device.destroy_signal(value(1)?)),
            "set" => status(device.set_signal(value(1)?, value(2)? != 0)),
            "wait" => status(device.wait_signal(value(1)?, value(2)? as u32)),
            // An event that sets a signal of the given process.
            "event" => {
                let mut queue = Queue::new();
                queue.signal_of(value(1)?, value(2)? as u32);
                client.device().send_queue(&mut queue)?;
                client.finish()?;
                Ok("0".to_string())
            }
            verb => bail!("what is {verb}?"),
        }
    })
}

/// A client, and another process.
fn two(abi: &'static str) -> Result<(Client, Other)> {
    let abi = Abi::named(abi).context("a generation")?;
    let client = Client::with_device(Device::open_as(abi, true)?)?;
    Ok((client, Other::start(abi)?))
}

/// Fails unless the other process replies with `wanted`.
fn expect(other: &mut Other, what: String, wanted: &str) -> Result<()> {
    same(&what, other.ask(&what)?.as_str(), wanted)
}

/// The number is unknown in another process.
fn nothing_is_shared(abi: &'static str) -> Result<()> {
    let (client, mut other) = two(abi)?;
    let device = client.device();
    let id = device.create_signal(true)?;
    for what in ["map", "wait", "set"] {
        // Its own signals have other numbers, if any. The status depends on the generation.
        let found = other.ask(&format!("{what} {id} 1"))?;
        ensure!(found.starts_with('-'), "{what}: {found}");
    }
    expect(
        &mut other,
        format!("event {id} {}", std::process::id()),
        "0",
    )?;
    ensure!(
        device.wait_signal(id, 0).is_err(),
        "another process has set it"
    );
    Ok(device.destroy_signal(id)?)
}

/// Both processes can wait and set, by USER_SIGNAL and by events.
fn both_ways(abi: &'static str, maps: bool) -> Result<()> {
    let (client, mut other) = two(abi)?;
    let id = client.device().create_signal(false)?;
    if maps {
        expect(&mut other, format!("map {id}"), "0")?;
    }
    expect(&mut other, format!("wait {id} 0"), "-15")?;
    client.device().set_signal(id, true)?;
    expect(&mut other, format!("wait {id} {SOON}"), "0")?;
    expect(&mut other, format!("wait {id} 0"), "-15")?;
    expect(&mut other, format!("set {id} 1"), "0")?;
    client.device().wait_signal(id, SOON)?;
    // The other process's event sets this process's signal.
    expect(
        &mut other,
        format!("event {id} {}", std::process::id()),
        "0",
    )?;
    client.device().wait_signal(id, SOON)?;
    // This process's event sets it while the other one waits.
    other.tell(&format!("wait {id} {SOON}"))?;
    std::thread::sleep(Duration::from_millis(20));
    let mut queue = Queue::new();
    queue.signal_of(id, std::process::id());
    client.device().send_queue(&mut queue)?;
    client.finish()?;
    same("the other's wait", other.answer()?.as_str(), "0")?;
    Ok(client.device().destroy_signal(id)?)
}

/// The signal lasts until every process that has it has released it, and each can only release its own reference.
fn lasts() -> Result<()> {
    let (client, mut other) = two("4.6.9")?;
    let device = client.device();
    let id = device.create_signal(true)?;
    // The other process cannot destroy it.
    expect(&mut other, format!("destroy {id}"), NOT_FOUND)?;
    device.set_signal(id, true)?;
    expect(&mut other, format!("map {id}"), "0")?;
    expect(&mut other, format!("map {id}"), "0")?;
    device.destroy_signal(id)?;
    expect(&mut other, format!("wait {id} 0"), "0")?;
    expect(&mut other, format!("destroy {id}"), "0")?;
    expect(&mut other, format!("wait {id} 0"), "0")?;
    expect(&mut other, format!("destroy {id}"), "0")?;
    expect(&mut other, format!("wait {id} 0"), NOT_FOUND)?;
    refused(
        "a signal that is over",
        device.wait_signal(id, 0),
        Status::NOT_FOUND,
    )?;
    // The release of the last reference ends waits of processes that have not mapped it.
    let id = device.create_signal(true)?;
    other.tell(&format!("wait {id} {}", 20 * SOON))?;
    std::thread::sleep(Duration::from_millis(20));
    let begin = Stopwatch::start();
    device.destroy_signal(id)?;
    same(
        "a wait for what is over",
        other.answer()?.as_str(),
        NOT_FOUND,
    )?;
    ensure!(begin.elapsed() < Duration::from_millis(SOON.into()));
    Ok(())
}

/// A process that exits releases its references and no others.
fn ends() -> Result<()> {
    let (client, mut other) = two("4.6.9")?;
    let device = client.device();
    let kept = device.create_signal(true)?;
    expect(&mut other, format!("map {kept}"), "0")?;
    let its: i32 = other.ask("create 1")?.parse()?;
    let lost: i32 = other.ask("create 1")?.parse()?;
    ensure!(its != kept && its != lost);
    device.map_signal(its)?;
    expect(&mut other, format!("set {its} 1"), "0")?;
    other.kill()?;
    device.wait_signal(its, 0)?;
    // Its exit may take a moment.
    let begin = Stopwatch::start();
    while device
        .wait_signal(lost, 0)
        .err()
        .and_then(|error| error.status())
        == Some(Status::TIMEOUT)
    {
        ensure!(!begin.is_over(Duration::from_secs(5)), "it has not ended");
    }
    device.set_signal(kept, true)?;
    device.wait_signal(kept, 0)?;
    device.destroy_signal(its)?;
    device.destroy_signal(kept)?;
    Ok(())
}

/// Two processes map, set, and destroy each other's signals at random, and are killed.
fn at_random() -> Result<()> {
    for round in 0..8u32 {
        let (client, mut other) = two("4.6.9")?;
        let device = client.device();
        let mut seed = round.wrapping_mul(0x9e37_79b9) + 1;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 16
        };
        let mut ids = vec![];
        for _ in 0..40 {
            match next() % 6 {
                0 => ids.push(device.create_signal(next() % 2 == 0)?),
                1 => ids.push(other.ask(&format!("create {}", next() % 2))?.parse()?),
                what if !ids.is_empty() => {
                    let id = ids[next() as usize % ids.len()];
                    match what {
                        2 => drop(device.map_signal(id)),
                        3 => drop(other.ask(&format!("map {id}"))?),
                        4 => drop(device.destroy_signal(id)),
                        _ => drop(other.ask(&format!("destroy {id}"))?),
                    }
                }
                _ => {}
            }
        }
        other.kill()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    let is_shared = std::env::args().any(|argument| argument == "--shared");
    harness::program(|| {
        harness::allow(Duration::from_secs(120));
        let mut suite = Suite::new();
        if !is_shared {
            for abi in ["dove", "4.6.9", "6.4.11"] {
                suite.test(
                    format!("{abi}: a number means nothing elsewhere"),
                    move || nothing_is_shared(abi),
                );
            }
            return suite.run();
        }
        for (abi, maps) in [
            ("dove", false),
            ("4.6.9", true),
            ("4.6.9", false),
            ("6.4.11", true),
        ] {
            let how = if maps { "mapped" } else { "as it is" };
            suite.test(format!("{abi}: both ways, {how}"), move || {
                both_ways(abi, maps)
            });
        }
        suite.test("a signal lasts as long as somebody has it", lasts);
        suite.test("the end of a process", ends);
        suite.test("at random", at_random);
        suite.run()
    })
}
