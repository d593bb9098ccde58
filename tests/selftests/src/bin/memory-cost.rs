// SPDX-License-Identifier: GPL-2.0-only
//! How long ALLOCATE, LOCK, UNLOCK and FREE of a node take, with 1, 1,000 and 10,000 other nodes alive.

use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Result;
use galcore_client::device::Device;
use galcore_client::device::Node;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Queue;
use galcore_selftests::harness;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::video::Opened;

/// How much longer it may take with many nodes: noise of a busy host.
const FACTOR: u32 = 3;

fn once(device: &Device, bytes: u32, pool: Pool) -> Result<()> {
    let node = device.allocate(bytes, 64, surface::BITMAP, pool)?;
    device.lock(node)?;
    if device.unlock(node)? {
        device.commit_queue(Queue::new().unlock(node))?;
    }
    Ok(device.free(node)?)
}

/// The best of some rounds, for one node.
fn measure(device: &Device, bytes: u32, pool: Pool, count: u32) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..8 {
        let begin = Instant::now();
        for _ in 0..count {
            once(device, bytes, pool)?;
        }
        best = best.min(begin.elapsed() / count);
        device.stall()?;
    }
    Ok(best)
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 40)?;
        let opened = &Opened::new()?;
        let device = &opened.device;
        let mut suite = Suite::new();
        for (pool, bytes) in [
            (Pool::SYSTEM, 4096),
            (Pool::SYSTEM, 1 << 20),
            (Pool::CONTIGUOUS, 4096),
            (Pool::VIRTUAL, 4096),
            (Pool::VIRTUAL, 1 << 20),
        ] {
            suite.test(
                format!("{pool}, {} KiB: no slower with 10,000 nodes", bytes / 1024),
                move || {
                    let count = if bytes > 4096 {
                        (count / 8).max(1)
                    } else {
                        count
                    };
                    // Live nodes of the same pool; contiguous pages are too few for 10,000 nodes.
                    let kind = if pool == Pool::CONTIGUOUS {
                        Pool::VIRTUAL
                    } else {
                        pool
                    };
                    let mut live: Vec<Node> = Vec::new();
                    let mut times = Vec::new();
                    for wanted in [1, 1000, 10_000] {
                        while live.len() < wanted {
                            live.push(device.allocate(64, 64, surface::BITMAP, kind)?);
                        }
                        let time = measure(device, bytes, pool, count)?;
                        println!("# {wanted} live nodes: {} us", time.as_micros());
                        times.push(time);
                    }
                    let begin = Instant::now();
                    let freed = live.len() as u32;
                    for node in live {
                        device.free(node)?;
                    }
                    device.stall()?;
                    println!(
                        "# and {} us for each FREE",
                        (begin.elapsed() / freed).as_micros()
                    );
                    ensure!(
                        times[2] <= times[0] * FACTOR,
                        "{:?} with 1 node, {:?} with 10,000",
                        times[0],
                        times[2]
                    );
                    Ok(())
                },
            );
        }
        suite.run()
    })
}
