// SPDX-License-Identifier: GPL-2.0-only
//! The other driver: etnaviv, the kernel's own driver for this hardware, on the same GPU in the same boot, through
//! the ioctls of its clients (`include/uapi/drm/etnaviv_drm.h` of the kernel). Also galcore's node with the same
//! ioctls.
//!
//! etnaviv's rows have the names of the galcore rows that they compare with. The node's rows have the prefix `node-`.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_selftests::etnaviv;
use galcore_selftests::etnaviv::long;
use galcore_selftests::etnaviv::Etnaviv;
use galcore_selftests::etnaviv::Request;
use galcore_selftests::etnaviv::DRIVER;
use galcore_selftests::etnaviv::IN;
use galcore_selftests::etnaviv::IN_OUT;
use galcore_selftests::harness;
use galcore_selftests::system::Module;

use crate::meter::Meter;
use crate::meter::Then;
use crate::operations::gpu_plan;
use crate::operations::plan;
use crate::operations::sixteen;
use crate::operations::IN_FLIGHT;

/// Time limit for unloading galcore.
const UNLOAD_LIMIT: Duration = Duration::from_secs(10);
/// Deadline of waits: seconds of the monotonic clock in the distant future.
const NEVER: u64 = 1 << 30;

/// A file, a command stream of one NOP, and the requests that submit the stream and wait for its fence.
struct Submits {
    device: Etnaviv,
    _stream: Box<[u32; 2]>,
    submit: Request<18>,
    wait: Request<8>,
}

impl Submits {
    fn new() -> Result<Self> {
        let stream = Box::new([0x1800_0000, 0]);
        let mut words = [0; 18];
        words[5] = 8;
        [words[10], words[11]] = long(stream.as_ptr() as usize as u64);
        let [low, high] = long(NEVER);
        Ok(Self {
            device: Etnaviv::open()?,
            _stream: stream,
            submit: Request::new(IN_OUT, DRIVER + 6, words),
            wait: Request::new(IN, DRIVER + 7, [0, 0, 0, 0, low, high, 0, 0]),
        })
    }

    /// Submits the stream. Returns the number of the submission's fence.
    fn submit(&mut self) -> Result<u32> {
        self.submit.send(self.device.file()).context("GEM_SUBMIT")?;
        Ok(self.submit.words[0])
    }

    fn wait(&mut self, fence: u32) -> Result<()> {
        self.wait.words[1] = fence;
        self.wait.send(self.device.file()).context("WAIT_FENCE")
    }

    fn once(&mut self) -> Result<()> {
        let fence = self.submit()?;
        self.wait(fence)
    }
}

fn unload() -> Result<()> {
    harness::eventually("galcore is unloaded", UNLOAD_LIMIT, || {
        Ok(Module::unload().is_ok())
    })
}

/// All rows of galcore's node.
pub fn ours(meter: &mut Meter) -> Result<()> {
    unload()?;
    etnaviv::load_galcore(&[])?;
    meter.prefix = "node-";
    rows(meter)?;
    meter.prefix = "";
    Ok(())
}

/// All rows of etnaviv. Its modules are in `folder` and load in the order of their names. galcore is unloaded
/// afterwards.
pub fn all(meter: &mut Meter, folder: &Path) -> Result<()> {
    unload()?;
    etnaviv::expect_breaches()?;
    etnaviv::load(folder)?;
    etnaviv::wait_for_node()?;
    rows(meter)
}

fn rows(meter: &mut Meter) -> Result<()> {
    queries(meter)?;
    submits(meter)?;
    in_flight(meter)?;
    contexts(meter)?;
    memory(meter)
}

fn queries(meter: &mut Meter) -> Result<()> {
    let device = Etnaviv::open()?;
    let mut unknown = Request::new(IN_OUT, DRIVER + 0x1f, [0; 4]);
    meter.measure(plan("unknown-ioctl", 2000), "unknown ioctl", || {
        ensure!(unknown.send(device.file()).is_err(), "it was answered");
        Ok(())
    })?;
    // The core's model.
    let mut identity = Request::new(IN_OUT, DRIVER, [0, 1, 0, 0]);
    meter.measure(plan("identity", 2000), "a parameter", || {
        Ok(identity.send(device.file())?)
    })
}

fn submits(meter: &mut Meter) -> Result<()> {
    let submits = std::cell::RefCell::new(Submits::new()?);
    let once = || submits.borrow_mut().once();
    meter.measure(gpu_plan("commit-wait", 1000), "submit + wait", once)?;
    let fence = std::cell::Cell::new(0);
    let mut ioctl = gpu_plan("commit-ioctl", 1000);
    ioctl.whole = false;
    let submit = || {
        fence.set(submits.borrow_mut().submit()?);
        Ok(())
    };
    let wait = || submits.borrow_mut().wait(fence.get());
    meter.measure(ioctl, "the submit alone", Then(submit, wait))
}

fn in_flight(meter: &mut Meter) -> Result<()> {
    let mut submits = Submits::new()?;
    let mut fences = [0; IN_FLIGHT];
    meter.measure(
        sixteen("in-flight-each"),
        "16 in flight, each is waited for, per submit",
        || {
            for fence in &mut fences {
                *fence = submits.submit()?;
            }
            fences.iter().try_for_each(|&fence| submits.wait(fence))
        },
    )?;
    meter.measure(
        sixteen("in-flight-one"),
        "16 in flight, the last is waited for, per submit",
        || {
            for _ in 1..IN_FLIGHT {
                submits.submit()?;
            }
            submits.once()
        },
    )
}

fn contexts(meter: &mut Meter) -> Result<()> {
    let mut both = [Submits::new()?, Submits::new()?];
    let mut turn = 0;
    meter.measure(
        gpu_plan("two-contexts", 1000),
        "two files in turn, submit + wait",
        || {
            turn = 1 - turn;
            both[turn].once()
        },
    )
}

/// A client's operations on a buffer for the processor: GEM_NEW, CPU_PREP to write, CPU_FINI, GEM_CLOSE. The buffer
/// gets pages, but no GPU address and no address in the client.
fn memory(meter: &mut Meter) -> Result<()> {
    const WRITE_COMBINED: u32 = 0x2_0000;
    const PREP_WRITE: u32 = 2;
    let device = Etnaviv::open()?;
    for (name, bytes) in [
        ("pool-4k-1", 4 << 10),
        ("pool-1m-1", 1 << 20),
        ("pages-4k-1", 4 << 10),
        ("pages-1m-1", 1 << 20),
    ] {
        let [low, high] = long(NEVER);
        let mut new = Request::new(IN_OUT, DRIVER + 2, [bytes, 0, WRITE_COMBINED, 0]);
        let mut prepare = Request::new(IN, DRIVER + 4, [0, PREP_WRITE, low, high, 0, 0]);
        let mut finish = Request::new(IN, DRIVER + 5, [0, 0]);
        let mut close = Request::new(IN, 9, [0, 0]);
        meter.measure(plan(name, 200), "new + cpu_prep + cpu_fini + close", || {
            new.send(device.file()).context("GEM_NEW")?;
            let handle = new.words[3];
            prepare.words[0] = handle;
            prepare.send(device.file()).context("GEM_CPU_PREP")?;
            finish.words[0] = handle;
            finish.send(device.file()).context("GEM_CPU_FINI")?;
            close.words[0] = handle;
            close.send(device.file()).context("GEM_CLOSE")
        })?;
    }
    Ok(())
}
