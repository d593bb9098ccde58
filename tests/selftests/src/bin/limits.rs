// SPDX-License-Identifier: GPL-2.0-only
//! Limits of one process: each resource works up to the last item and then returns the right status, while another
//! process continues to work. `signals` and `native-fences` test the limits of signals and fences.

use std::process::ExitCode;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system::meminfo;
use galcore_selftests::system::pinned;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::locked_surface;
use galcore_selftests::video::unlock;

const GENERATION: &str = "5.0.11.p8";

/// The limits of the driver's `src/limits.rs`.
const HANDLES: usize = 1 << 14;
const CONTEXTS: usize = 256;
const SHARED_BUFFERS: usize = 1024;
const RECORDS: usize = 4096;

/// Runs in the other process, which must continue to work: allocates, draws, checks each pixel, frees.
fn be_other(abi: &'static Abi) -> Result<()> {
    let mut client = Client::with_device(Device::open_as(abi, true)?)?;
    other::serve(|words| match words[0] {
        "work" => {
            for pool in [Pool::SYSTEM, Pool::VIRTUAL] {
                let (node, surface) = locked_surface(&client, 4096, pool, false)?;
                gpu_fill(&mut client, &surface, 0x00c0_ffee)?;
                expect_all("drawn", &surface.memory, 0x00c0_ffee)?;
                unlock(client.device(), node)?;
                client.device().free(node)?;
            }
            let signal = client.device().create_signal(false)?;
            client.device().destroy_signal(signal)?;
            client.finish()?;
            Ok("done".to_string())
        }
        word => bail!("what is {word}?"),
    })
}

struct Bench {
    other: Other,
    device: Device,
}

impl Bench {
    fn new() -> Result<Self> {
        let abi = Abi::named(GENERATION).context("a generation")?;
        Ok(Self {
            other: Other::start(abi)?,
            device: Device::open_as(abi, true)?,
        })
    }

    fn others_go_on(&mut self) -> Result<()> {
        same("the other", self.other.ask("work")?.as_str(), "done")
    }

    /// `make` must work exactly `most` times and then return `status`. After `end` releases one, it must work once
    /// more. The other process continues to work.
    fn meet<T>(
        &mut self,
        most: usize,
        status: Status,
        make: impl Fn(&Device) -> Result<std::result::Result<T, Status>>,
        end: impl Fn(&Device, T) -> Result<()>,
    ) -> Result<()> {
        let mut all = Vec::new();
        for number in 0..most {
            match make(&self.device)? {
                Ok(one) => all.push(one),
                Err(status) => bail!("number {number} of {most}: {status}"),
            }
        }
        for _ in 0..3 {
            match make(&self.device)? {
                Ok(_) => bail!("more than {most}"),
                Err(found) => same("one more", found, status)?,
            }
        }
        self.others_go_on()?;
        end(&self.device, all.pop().context("one")?)?;
        match make(&self.device)? {
            Ok(one) => all.push(one),
            Err(status) => bail!("with one taken back: {status}"),
        }
        for one in all {
            end(&self.device, one)?;
        }
        self.others_go_on()
    }
}

fn status<T>(answer: galcore_client::device::Result<T>) -> Result<std::result::Result<T, Status>> {
    match answer {
        Ok(one) => Ok(Ok(one)),
        Err(error) => match error.status() {
            Some(status) => Ok(Err(status)),
            None => Err(error.into()),
        },
    }
}

fn used() -> Result<([u64; 3], u64, u64)> {
    Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?, pinned()?))
}

fn in_books(body: impl FnOnce(&mut Bench) -> Result<()>) -> Result<()> {
    let before = used()?;
    let mut bench = Bench::new()?;
    body(&mut bench)?;
    drop(bench);
    settles("KiB, MMU entries, pinned KiB", before, used)
}

fn nodes() -> Result<()> {
    in_books(|bench| {
        bench.meet(
            HANDLES,
            Status::OUT_OF_RESOURCES,
            |device| status(device.allocate(4096, 64, 6, Pool::VIRTUAL)),
            |device, node| Ok(device.free(node)?),
        )
    })
}

fn contexts() -> Result<()> {
    in_books(|bench| {
        bench.meet(
            CONTEXTS,
            Status::OUT_OF_RESOURCES,
            |device| status(device.attach()),
            |device, context| Ok(device.detach(context.context)?),
        )
    })
}

fn shared_buffers() -> Result<()> {
    in_books(|bench| {
        let ask = |device: &Device, command, id| {
            let fields = [("command", command), ("id", id), ("bytes", 1024)];
            device.ask("SHBUF", &fields, "id")
        };
        bench.meet(
            SHARED_BUFFERS,
            Status::OUT_OF_RESOURCES,
            |device| {
                let (status, id) = ask(device, 0, 0)?;
                Ok(match status {
                    Status::OK => Ok(id),
                    status => Err(status),
                })
            },
            |device, id| same("DESTROY", ask(device, 1, id)?.0, Status::OK),
        )
    })
}

/// The longest allowed queue runs completely. One record more, and nothing runs.
fn records() -> Result<()> {
    in_books(|bench| {
        let device = &bench.device;
        let signal = device.create_signal(true)?;
        for (records, wanted) in [
            (RECORDS, Status::OK),
            (RECORDS + 1, Status::INVALID_DATA),
            (4 * RECORDS, Status::INVALID_DATA),
        ] {
            device.set_signal(signal, false)?;
            let mut queue = Queue::new();
            for _ in 0..records {
                queue.signal(signal);
            }
            same("EVENT_COMMIT", device.send_queue(&mut queue)?, wanted)?;
            device.stall()?;
            let is_set = device.wait_signal(signal, 500).is_ok();
            same("the signal", is_set, wanted == Status::OK)?;
        }
        device.destroy_signal(signal)?;
        bench.others_go_on()
    })
}

/// Scattered memory must leave the machine its reserve.
fn scattered_memory() -> Result<()> {
    const PIECE: u32 = 4 << 20;
    in_books(|bench| {
        let reserve = (meminfo("MemTotal")? / 32).clamp(4 << 10, 64 << 10);
        let mut all = Vec::new();
        let found = loop {
            match status(bench.device.allocate(PIECE, 64, 6, Pool::VIRTUAL))? {
                Ok(node) => all.push(node),
                Err(status) => break status,
            }
        };
        let left = meminfo("MemAvailable")?;
        println!(
            "# {} MiB taken, {left} KiB left, reserve {reserve} KiB",
            all.len() * 4
        );
        same("one more", found, Status::OUT_OF_MEMORY)?;
        ensure!(all.len() > 4, "only {} pieces", all.len());
        // The kernel's number is inexact by a batch of pages per processor.
        ensure!(left + 1024 >= reserve, "{left} KiB are left of {reserve}");
        // Less than one piece is left to scattered nodes, perhaps nothing.
        if let Some(node) = all.pop() {
            bench.device.free(node)?;
        }
        bench.others_go_on()?;
        for node in all {
            bench.device.free(node)?;
        }
        bench.others_go_on()
    })
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        suite.test("contexts", contexts);
        suite.test("shared buffers", shared_buffers);
        suite.test("records of a queue", records);
        suite.test("scattered memory", scattered_memory);
        suite.test("nodes", nodes);
        suite.run()
    })
}
