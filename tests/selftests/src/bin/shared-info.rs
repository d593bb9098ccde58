// SPDX-License-Identifier: GPL-2.0-only
//! GET_SHARED_INFO and SET_SHARED_INFO: numbered data of a process, readable by the process itself and other processes
//! of its user, notes on a node, and limits.
//!
//! Needs the module to be loaded.

use std::process::ExitCode;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::become_user;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;

/// A user other than root.
const SOMEBODY: u32 = 1000;
/// Most numbers of a process, and most bytes per number.
const NUMBERS: u64 = 64;
const BYTES: u64 = 4096;
/// An address that is never mapped.
const UNMAPPED: u64 = 0x10;

/// The address of the words.
fn address(words: &mut [u32]) -> u64 {
    words.as_mut_ptr() as usize as u64
}

fn bytes_name(device: &Device) -> &'static str {
    match device.abi().field("SetSharedInfo", "size") {
        Some(_) => "size",
        None => "bytes",
    }
}

/// Stores data.
fn set(device: &Device, id: u64, data: u64, bytes: u64) -> Result<Status> {
    let given = [("dataId", id), ("data", data), (bytes_name(device), bytes)];
    Ok(device.ask_for("SET_SHARED_INFO", &given, [])?.0)
}

/// Reads data.
fn get(device: &Device, process: u32, id: u64, data: u64, bytes: u64) -> Result<Status> {
    let given = [
        ("pid", process.into()),
        ("dataId", id),
        ("data", data),
        (bytes_name(device), bytes),
    ];
    Ok(device.ask_for("GET_SHARED_INFO", &given, [])?.0)
}

/// Stores or reads the notes on a node.
fn note(device: &Device, command: &str, node: u64, at: u64, kind: u64) -> Result<Status> {
    let given = [("node", node), ("nodeData", at), ("infoType", kind)];
    Ok(device.ask_for(command, &given, [])?.0)
}

fn open(name: &str) -> Result<Device> {
    let abi = Abi::named(name).context("a generation")?;
    Ok(Device::open_as(abi, true)?)
}

fn data(name: &str) -> Result<()> {
    let device = open(name)?;
    let own = std::process::id();
    let mut left = [1, 2, 3, 4];
    same("SET", set(&device, 7, address(&mut left), 16)?, Status::OK)?;
    let mut found = [9; 5];
    let read = |found: &mut [u32], id, bytes| get(&device, own, id, address(found), bytes);
    same("GET", read(&mut found, 7, 20)?, Status::OK)?;
    same("data", std::hint::black_box(found), [1, 2, 3, 4, 9])?;
    let mut part = [9; 4];
    same("GET of a part", read(&mut part, 7, 8)?, Status::OK)?;
    same("data", std::hint::black_box(part), [1, 2, 9, 9])?;
    let mut other = [8; 4];
    same(
        "another",
        set(&device, 7, address(&mut other), 16)?,
        Status::OK,
    )?;
    same("GET", read(&mut part, 7, 16)?, Status::OK)?;
    same("data", std::hint::black_box(part), [8; 4])?;
    same(
        "its size",
        set(&device, 7, address(&mut other), 12)?,
        Status::INVALID_DATA,
    )?;
    same(
        "no such data",
        read(&mut part, 8, 16)?,
        Status::INVALID_DATA,
    )?;
    for process in [0, 1, 0x7fff_ffff, u32::MAX] {
        let status = get(&device, process, 7, address(&mut part), 16)?;
        same(&format!("process {process}"), status, Status::INVALID_DATA)?;
    }
    let nowhere = Status::OUT_OF_RESOURCES;
    same("SET of nothing", set(&device, 9, UNMAPPED, 16)?, nowhere)?;
    same(
        "GET to nothing",
        get(&device, own, 7, UNMAPPED, 16)?,
        nowhere,
    )?;
    same("nothing to do", set(&device, 9, 0, 16)?, Status::OK)?;
    same("nothing to do", set(&device, 9, UNMAPPED, 0)?, Status::OK)
}

/// Limits of one process. Its data is removed when it exits.
fn limits(name: &'static str) -> Result<()> {
    let mut other = Other::start(Abi::named(name).context("a generation")?)?;
    same("limits", other.ask("limits")?.as_str(), "met")?;
    let gone = other.id();
    drop(other);
    let device = open(name)?;
    let mut found = [0; 4];
    harness::eventually("gone", std::time::Duration::from_secs(10), || {
        let status = get(&device, gone as u32, 1, address(&mut found), 16)?;
        Ok(status == Status::INVALID_DATA)
    })
}

/// Other processes of the same user may read the data, other users may not.
fn of_others(name: &'static str) -> Result<()> {
    let device = open(name)?;
    let mut left = [11, 12, 13, 14];
    same("SET", set(&device, 3, address(&mut left), 16)?, Status::OK)?;
    let own = std::process::id();
    let mut other = Other::start(Abi::named(name).context("a generation")?)?;
    let read = format!("read {own} 3");
    same(
        "its user's",
        other.ask(&read)?.as_str(),
        "0 [11, 12, 13, 14]",
    )?;
    other.ask("leave 5")?;
    other.ask(&format!("user {SOMEBODY}"))?;
    let wanted = format!("{} [0, 0, 0, 0]", Status::INVALID_DATA.0);
    same("somebody's", other.ask(&read)?.as_str(), wanted.as_str())
}

/// Notes on a node.
fn notes(name: &str) -> Result<()> {
    let device = open(name)?;
    let node = device.allocate(4096, 64, 4, Pool::DEFAULT)?;
    let mut words = [1, 40, 10, 5, 6, 8, 2, 0xff];
    let mut found = [9; 8];
    let (write, read) = ("SET_SHARED_INFO", "GET_SHARED_INFO");
    let at = address(&mut words);
    same("SET", note(&device, write, node.handle, at, 0)?, Status::OK)?;
    let to = address(&mut found);
    same("GET", note(&device, read, node.handle, to, 0)?, Status::OK)?;
    same("words", std::hint::black_box(found), words)?;
    let mut more = [1, 100, 3, 5, 6, 5, 1, 0xfe];
    let at = address(&mut more);
    same("SET", note(&device, write, node.handle, at, 1)?, Status::OK)?;
    same("GET", note(&device, read, node.handle, to, 0)?, Status::OK)?;
    same(
        "around both",
        std::hint::black_box(found),
        [1, 40, 3, 5, 6, 65, 9, 0xfe],
    )?;
    same("GET", note(&device, read, node.handle, to, 1)?, Status::OK)?;
    same(
        "in tiles",
        std::hint::black_box(found),
        [1, 32, 0, 5, 6, 80, 12, 0xfe],
    )?;
    same("GET", note(&device, read, node.handle, to, 1)?, Status::OK)?;
    same(
        "once",
        std::hint::black_box(found),
        [1, 0, 0, 5, 6, 0, 0, 0xfe],
    )?;
    let nowhere = Status::OUT_OF_RESOURCES;
    same(
        "of nothing",
        note(&device, write, node.handle, UNMAPPED, 0)?,
        nowhere,
    )?;
    same(
        "to nothing",
        note(&device, read, node.handle, UNMAPPED, 0)?,
        nowhere,
    )?;
    for other in [node.handle + 1, 0x7fff_ff00] {
        for command in [write, read] {
            let status = note(&device, command, other, to, 0)?;
            same("another's node", status, Status::INVALID_DATA)?;
        }
    }
    device.free(node)?;
    let status = note(&device, read, node.handle, to, 0)?;
    same("no node any more", status, Status::INVALID_DATA)
}

/// Runs in another process, on request.
fn be_other(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    other::serve(|words| {
        let number =
            |index: usize| -> Result<u64> { Ok(words.get(index).context("a word")?.parse()?) };
        match words[0] {
            "read" => {
                let mut found = [0; 4];
                let to = address(&mut found);
                let status = get(&device, number(1)? as u32, number(2)?, to, 16)?;
                Ok(format!("{} {:?}", status.0, std::hint::black_box(found)))
            }
            "leave" => {
                let mut words = [5; 4];
                let status = set(&device, number(1)?, address(&mut words), 16)?;
                Ok(status.0.to_string())
            }
            "user" => {
                become_user(number(1)? as u32)?;
                Ok("changed".to_string())
            }
            "limits" => {
                let mut words = vec![3; BYTES as usize / 4 + 1];
                let at = address(&mut words);
                let too_much = set(&device, 0, at, BYTES + 1)?;
                same("too many bytes", too_much, Status::OUT_OF_RESOURCES)?;
                let status = set(&device, 0, at, u64::from(u32::MAX))?;
                same("far too many", status, Status::OUT_OF_RESOURCES)?;
                for id in 0..NUMBERS {
                    same("SET", set(&device, id, at, BYTES)?, Status::OK)?;
                }
                let status = set(&device, NUMBERS, at, 4)?;
                same("too many numbers", status, Status::OUT_OF_RESOURCES)?;
                same("one that is there", set(&device, 5, at, BYTES)?, Status::OK)?;
                Ok("met".to_string())
            }
            word => bail!("what is {word}?"),
        }
    })
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        for name in ["v4", "4.0.0", "4.1.0", "4.6.9"] {
            suite.test(format!("{name}: data under a number"), move || data(name));
            suite.test(format!("{name}: others'"), move || of_others(name));
        }
        for name in ["v4", "4.0.0"] {
            suite.test(format!("{name}: notes of a node"), move || notes(name));
        }
        suite.test("limits", || limits("4.0.0"));
        suite.run()
    })
}
