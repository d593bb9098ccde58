// SPDX-License-Identifier: GPL-2.0-only
//! Clients that do not say which generation of the interface they speak, as libraries do: taken for the right one by
//! their first commands where the sizes leave several, and by their names where the parameter `interface` has these.
//!
//! Each client is a process of its own: a process is taken for what its other files speak. With `--named` the module is
//! wanted with the parameter that tests/board/suites.toml gives.

use std::fs::File;
use std::io::Read;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::NODES;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_selftests::fixture;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::system;
use galcore_selftests::usage;

/// Clients whose first commands are no other's, and what shows it.
const CERTAIN: &[&str] = &["dove", "arnova", "4.6.9", "6.2.2", "6.2.3", "6.4.11"];

/// What clients are taken for that are like others in all that they send, by what they are; the first fitting one that
/// a core's boards had.
const ALIKE: &[(&str, &str)] = &[
    ("v2", "v2 dove_old"),
    ("dove_old", "v2 dove_old"),
    ("v4", "v4"),
    ("eureka", "v4"),
    ("4.0.0", "4.0.0"),
    ("4.1.0", "4.0.0"),
    ("5.0.11.p6", "5.0.11.p8"),
    ("5.0.11.p8", "5.0.11.p8"),
    // They differ in the identity, and in deltas, which are empty.
    ("6.2.4.p2", "6.2.4.p2"),
    ("6.2.4.p3", "6.2.4.p2"),
];

/// Draws the picture without a word of what this is, and prints what the driver took it for.
fn draw(abi: &'static Abi) -> Result<()> {
    if let Ok(name) = std::env::var("NAME") {
        rustix::thread::set_name(&std::ffi::CString::new(name)?)?;
    }
    // Keeps what is known of the process.
    let _open = File::open(NODES[0])?;
    let client = Client::with_device(Device::open_as(abi, false)?)?;
    let drawn = fixture::landscape(client).map(|(pixels, _)| pixels);
    let (name, bytes, why) = system::interface_of_self()?;
    match drawn {
        Ok(pixels) => println!("{name}/{bytes}/{why}/{pixels}"),
        Err(error) => println!("{name}/{bytes}/{why}/0/{error:#}"),
    }
    Ok(())
}

/// Asks for what tells nothing, and prints what the driver takes it for.
fn query(abi: &'static Abi) -> Result<()> {
    let name = std::env::var("NAME")?;
    rustix::thread::set_name(&std::ffi::CString::new(name)?)?;
    let device = Device::open_as(abi, false)?;
    device.base_address()?;
    let (name, bytes, why) = system::interface_of_self()?;
    let version = if abi.has("VERSION") {
        device.version()?
    } else {
        Default::default()
    };
    println!(
        "{name}/{bytes}/{why}/1/{}.{}.{}.{}",
        version.major, version.minor, version.patch, version.build
    );
    Ok(())
}

/// Sets a signal that it waits for, before anything that tells what it is.
fn signal(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, false)?;
    let signal = device.create_signal(true)?;
    device.set_signal(signal, true)?;
    let heard = device.wait_signal(signal, 5000);
    println!("{}", heard.is_ok());
    Ok(())
}

/// Of the generations with 216 bytes each has its own signal set, whatever the core's boards had.
fn signals_are_heard() -> Result<()> {
    for name in ["dove", "dove_old", "v2"] {
        let mut role = system::again(&[other::ARGUMENT, name])?;
        let output = role.env("ONLY", "signal").output()?;
        same(name, String::from_utf8(output.stdout)?.trim(), "true")?;
    }
    Ok(())
}

/// The parameter `version` names what VERSION answers, whatever the layout.
fn claims() -> Result<()> {
    let abi = Abi::named("4.0.0").context("a generation")?;
    for (program, wanted) in [("somebody", "6.4.6.351518"), ("another", "4.6.9.1")] {
        let output = system::again(&[other::ARGUMENT, abi.name])?
            .env("NAME", program)
            .env("ONLY", "1")
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        let told = text.trim().rsplit('/').next();
        same(program, told, Some(wanted))?;
    }
    let file = usage::vendor_file("version")?;
    let told = file.split(" built at ").next();
    same("gc/version", told, Some("6.4.6.351518"))
}

/// What a process of `abi` was taken for, why, and how many pixels it drew.
fn taken(abi: &Abi, name: Option<&str>, only_asks: bool) -> Result<(String, String, usize)> {
    let mut command = system::again(&[other::ARGUMENT, abi.name])?;
    if let Some(name) = name {
        command.env("NAME", name);
    }
    if only_asks {
        command.env("ONLY", "1");
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut text = String::new();
    let mut output = child.stdout.take().context("no pipe")?;
    output.read_to_string(&mut text)?;
    ensure!(child.wait()?.success(), "{}", text.trim());
    println!("# {}: {}", abi.name, text.trim());
    let mut words = text.trim().split('/');
    let mut word = || words.next().map(str::to_string).context("a short line");
    let (taken, _, why, pixels) = (word()?, word()?, word()?, word()?.parse()?);
    Ok((taken, why, pixels))
}

/// A client of `abi` draws the picture, and is taken for what it is or for what is like it.
fn told_by_commands(abi: &'static Abi) -> Result<()> {
    let (taken, why, pixels) = taken(abi, None, false)?;
    // Of these nothing tells before the identity is answered, which they have in other places.
    let is_lost = ["4.1.0", "5.0.11.p6", "6.2.4.p3"].contains(&abi.name) && taken != abi.name;
    ensure!(pixels > 0 || is_lost, "taken for {taken}: {why}");
    if CERTAIN.contains(&abi.name) {
        same("taken for", taken.as_str(), abi.name)?;
        ensure!(
            why.contains("no other")
                || why.contains("first commands")
                // Its core, or its being the likeliest.
                || ["dove", "6.4.11"].contains(&abi.name),
            "why: {why}"
        );
    }
    if let Some((_, likely)) = ALIKE.iter().find(|(name, _)| *name == abi.name) {
        ensure!(
            likely.split(' ').any(|name| name == taken),
            "taken for {taken}"
        );
    }
    Ok(())
}

/// The parameter names programs, by the first 15 letters.
fn told_by_name(abi: &str, program: &str, wanted: &str, reason: &str) -> Result<()> {
    let abi = Abi::named(abi).context("a generation")?;
    let (taken, why, _) = taken(abi, Some(program), true)?;
    same("taken for", taken.as_str(), wanted)?;
    ensure!(why.contains(reason), "{why}");
    Ok(())
}

/// A file that draws after another one of its process did is taken for the same at once.
fn second_file() -> Result<()> {
    let abi = Abi::named("6.2.3").context("a generation")?;
    let first = Client::with_device(Device::open_as(abi, false)?)?;
    let _ = fixture::landscape(first)?;
    let second = Device::open_as(abi, false)?;
    let version = second.version()?;
    same("patch", version.patch, 3)
}

/// What makes no sense in any of them changes nothing, and neither does who only asks.
fn nonsense_tells_nothing() -> Result<()> {
    let abi = Abi::named("6.2.2").context("a generation")?;
    let device = Device::open_as(abi, false)?;
    for _ in 0..100 {
        // In none of them is there such a command.
        let mut bytes = vec![0; abi.sizes[0]];
        bytes[0] = 200;
        device.exchange_bytes(&mut bytes)?;
        device.version()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let role = |abi| match std::env::var_os("ONLY") {
        Some(what) if what == "signal" => signal(abi),
        Some(_) => query(abi),
        None => draw(abi),
    };
    if let Some(code) = other::role(role) {
        return code;
    }
    let named = std::env::args().any(|argument| argument == "--named");
    harness::program(|| {
        harness::allow(Duration::from_secs(300));
        let mut suite = Suite::new();
        if named {
            for (abi, program, wanted, reason) in [
                ("dove", "one-of-dove", "dove_old", "this program"),
                ("v2", "another", "dove", "this program"),
                ("4.0.0", "the-third-of-them-all", "4.1.0", "this program"),
                ("v4", "the-third-of-them-all", "v4", "`interface` names it"),
                ("eureka", "somebody", "v4", "`interface` names it"),
                ("4.0.0", "somebody", "4.0.0", "most likely"),
            ] {
                suite.test(format!("{program} that speaks {abi}"), move || {
                    told_by_name(abi, program, wanted, reason)
                });
            }
            suite.test("VERSION is what the parameter claims, by program", claims);
            return suite.run();
        }
        for abi in Abi::familiar() {
            suite.test(format!("{} draws without a word", abi.name), move || {
                told_by_commands(abi)
            });
        }
        suite.test("a signal is set before any COMMIT", signals_are_heard);
        suite.test("another file of the process", second_file);
        suite.test("nonsense tells nothing", nonsense_tells_nothing);
        suite.run()
    })
}
