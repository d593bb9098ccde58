// SPDX-License-Identifier: GPL-2.0-only
//! SHBUF: small buffers for data exchange between processes.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;

const CREATE: u64 = 0;
const DESTROY: u64 = 1;
const MAP: u64 = 2;
const WRITE: u64 = 3;
const READ: u64 = 4;

/// `gcvSTATUS_SKIP`: nothing has been written yet.
const SKIP: Status = Status(13);

fn open(abi: &'static Abi) -> Result<Device> {
    Ok(Device::open_as(abi, true)?)
}

fn create(device: &Device, bytes: u64) -> Result<(Status, u64)> {
    let fields = [("command", CREATE), ("bytes", bytes)];
    Ok(device.ask("SHBUF", &fields, "id")?)
}

fn plain(device: &Device, command: u64, id: u64) -> Result<Status> {
    let fields = [("command", command), ("id", id)];
    Ok(device.ask("SHBUF", &fields, "id")?.0)
}

fn write_at(device: &Device, id: u64, address: u64, bytes: u64) -> Result<Status> {
    let fields = [
        ("command", WRITE),
        ("id", id),
        ("data", address),
        ("bytes", bytes),
    ];
    Ok(device.ask("SHBUF", &fields, "id")?.0)
}

fn write(device: &Device, id: u64, data: &[u8]) -> Result<Status> {
    let address = data.as_ptr() as usize as u64;
    write_at(device, id, address, data.len() as u64)
}

fn read_at(device: &Device, id: u64, address: u64, bytes: u64) -> Result<(Status, u64)> {
    let fields = [
        ("command", READ),
        ("id", id),
        ("data", address),
        ("bytes", bytes),
    ];
    Ok(device.ask("SHBUF", &fields, "bytes")?)
}

/// READ into a buffer of `bytes` bytes, filled with 0xee. Returns the status, the byte count, and the buffer.
fn read(device: &Device, id: u64, bytes: u64) -> Result<(Status, u64, Vec<u8>)> {
    let mut buffer = vec![0xeeu8; bytes as usize + 16];
    let address = buffer.as_mut_ptr() as usize as u64;
    let (status, count) = read_at(device, id, address, bytes)?;
    Ok((status, count, buffer))
}

fn expect(device: &Device, id: u64, bytes: u64, wanted: &[u8]) -> Result<()> {
    let (status, count, found) = read(device, id, bytes)?;
    same("READ", status, Status::OK)?;
    same("bytes", count, wanted.len() as u64)?;
    same("content", &found[..wanted.len()], wanted)?;
    let behind = found[wanted.len()..].iter().all(|byte| *byte == 0xee);
    ensure!(behind, "more was written than {count} bytes");
    Ok(())
}

fn made(device: &Device, bytes: u64) -> Result<u64> {
    let (status, id) = create(device, bytes)?;
    same("CREATE", status, Status::OK)?;
    ensure!((1..1 << 31).contains(&id), "the id is {id:#x}");
    Ok(id)
}

/// The status of `command` for a buffer that the process does not have. 6.4.11 uses the vendor driver's statuses.
fn unknown(abi: &Abi, command: u64, id: u64) -> Status {
    match (abi.name, command) {
        ("6.4.11", _) if id as u32 == 0 => Status::INVALID_ARGUMENT,
        ("6.4.11", DESTROY) => Status::INVALID_DATA,
        _ => Status::NOT_FOUND,
    }
}

fn one_process(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    let id = made(&device, 100)?;
    let (status, count, found) = read(&device, id, 50)?;
    same("READ of nothing", (status, count), (SKIP, 0))?;
    ensure!(found.iter().all(|byte| *byte == 0xee), "it wrote");
    same("WRITE", write(&device, id, &[7; 40])?, Status::OK)?;
    // More bytes than were written: the rest of the buffer is 0, not stale data.
    let mut wanted = [0; 100];
    wanted[..40].fill(7);
    expect(&device, id, 1000, &wanted)?;
    expect(&device, id, 3, &[7; 3])?;
    same("WRITE", write(&device, id, &[9; 100])?, Status::OK)?;
    expect(&device, id, 100, &[9; 100])?;
    for _ in 0..2 {
        same("MAP", plain(&device, MAP, id)?, Status::OK)?;
    }
    for _ in 0..3 {
        expect(&device, id, 1, &[9])?;
        same("DESTROY", plain(&device, DESTROY, id)?, Status::OK)?;
    }
    for command in [DESTROY, MAP] {
        let status = plain(&device, command, id)?;
        same("after the last", status, unknown(abi, command, id))?;
    }
    same("WRITE", write(&device, id, &[1])?, Status::NOT_FOUND)?;
    same("READ", read(&device, id, 1)?.0, Status::NOT_FOUND)
}

fn refusals(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    for (bytes, wanted) in [
        (0, Status::INVALID_ARGUMENT),
        (1025, Status::OUT_OF_RESOURCES),
        (u32::MAX.into(), Status::OUT_OF_RESOURCES),
    ] {
        same("CREATE", create(&device, bytes)?.0, wanted)?;
    }
    let id = made(&device, 1024)?;
    same(
        "command 5",
        plain(&device, 5, id)?,
        Status::INVALID_ARGUMENT,
    )?;
    for wrong in [0, 1, id ^ 1, id | 1 << 31, id | 1 << 32, u64::MAX] {
        for command in [DESTROY, MAP] {
            let status = plain(&device, command, wrong)?;
            same("no such buffer", status, unknown(abi, command, wrong))?;
        }
        let status = write(&device, wrong, &[1])?;
        same("no such buffer", status, unknown(abi, WRITE, wrong))?;
    }
    let data = [1; 1025];
    let at = data.as_ptr() as usize as u64;
    for (address, bytes, wanted) in [
        (at, 0, Status::INVALID_ARGUMENT),
        (at, 1025, Status::INVALID_ARGUMENT),
        (at, u32::MAX.into(), Status::INVALID_ARGUMENT),
        (0, 16, Status::INVALID_ARGUMENT),
        (0x10, 16, Status::OUT_OF_RESOURCES),
    ] {
        let status = write_at(&device, id, address, bytes)?;
        same("WRITE", status, wanted)?;
    }
    same("still nothing", read(&device, id, 4)?.0, SKIP)?;
    same("WRITE", write(&device, id, &[3; 4])?, Status::OK)?;
    for (address, bytes, wanted) in [
        (at, 0, Status::INVALID_ARGUMENT),
        (0, 16, Status::INVALID_ARGUMENT),
        (0x10, 16, Status::OUT_OF_RESOURCES),
    ] {
        same("READ", read_at(&device, id, address, bytes)?.0, wanted)?;
    }
    same("DESTROY", plain(&device, DESTROY, id)?, Status::OK)
}

/// Runs in the other process.
fn be_other(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    other::serve(|words| {
        let id = words.get(1).context("word")?.parse()?;
        let status = match words[0] {
            "map" => plain(&device, MAP, id)?,
            "destroy" => plain(&device, DESTROY, id)?,
            "write" => write(&device, id, &[0x5a; 8])?,
            "read" => read(&device, id, 8)?.0,
            word => bail!("what is {word}?"),
        };
        Ok(status.0.to_string())
    })
}

fn two_processes(abi: &'static Abi) -> Result<()> {
    let device = open(abi)?;
    let id = made(&device, 8)?;
    same("WRITE", write(&device, id, &[1; 8])?, Status::OK)?;
    let mut other = Other::start(abi)?;
    let mut ask = |what: &str, wanted: Status| {
        let answer = other.ask(&format!("{what} {id}"))?;
        same(what, answer, wanted.0.to_string())
    };
    // It knows the number, but has not mapped the buffer.
    for (what, command) in [("read", READ), ("write", WRITE), ("destroy", DESTROY)] {
        ask(what, unknown(abi, command, id))?;
    }
    ask("map", Status::OK)?;
    ask("read", Status::OK)?;
    ask("write", Status::OK)?;
    expect(&device, id, 8, &[0x5a; 8])?;
    same("DESTROY", plain(&device, DESTROY, id)?, Status::OK)?;
    // Only the other process has it now. A new MAP gets it back.
    same("READ", read(&device, id, 8)?.0, Status::NOT_FOUND)?;
    same("MAP", plain(&device, MAP, id)?, Status::OK)?;
    expect(&device, id, 8, &[0x5a; 8])?;
    same("DESTROY", plain(&device, DESTROY, id)?, Status::OK)?;
    ask("read", Status::OK)?;
    other.kill()?;
    let limit = Duration::from_secs(20);
    harness::eventually("the buffer ends with its last process", limit, || {
        let status = plain(&device, MAP, id)?;
        if status == Status::OK {
            plain(&device, DESTROY, id)?;
        }
        Ok(status == Status::NOT_FOUND)
    })
}

/// A process may have a limited number of buffers, which are released when it exits.
fn many(abi: &'static Abi) -> Result<()> {
    for _ in 0..2 {
        let device = open(abi)?;
        let mut ids = Vec::new();
        loop {
            match create(&device, 1024)? {
                (Status::OK, id) => ids.push(id),
                (status, _) => {
                    same("CREATE", status, Status::OUT_OF_RESOURCES)?;
                    break;
                }
            }
        }
        same("buffers of a process", ids.len(), 1024)?;
        ids.sort_unstable();
        ids.dedup();
        same("ids", ids.len(), 1024)?;
        same("DESTROY", plain(&device, DESTROY, ids[0])?, Status::OK)?;
        made(&device, 1)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        for abi in Abi::familiar().into_iter().filter(|abi| abi.has("SHBUF")) {
            let what = abi.name;
            suite.test(format!("{what}: one process"), move || one_process(abi));
            suite.test(format!("{what}: refusals"), move || refusals(abi));
            suite.test(format!("{what}: two processes"), move || two_processes(abi));
        }
        let abi = Abi::named("6.4.11").context("a generation")?;
        suite.test("as many as there may be", move || many(abi));
        suite.run()
    })
}
