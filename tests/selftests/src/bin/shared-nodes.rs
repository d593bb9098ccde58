// SPDX-License-Identifier: GPL-2.0-only
//! A node of one process, used by another that knows its handle. `--shared`: the module was loaded with
//! `sharedNodes=1`, and the other process can lock and free it. Otherwise the handle is unknown there.

use std::process::ExitCode;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Location;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Queue;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::Opened;
use galcore_selftests::video::BLOCK;

const BYTES: u32 = 4 * 4096;

const POOLS: [Pool; 3] = [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL];

/// Fails unless the other process's operation on `node` returns `wanted`.
fn expect(other: &mut Other, verb: &str, node: Node, wanted: impl ToString) -> Result<()> {
    let found = other.ask(&format!("{verb} {} {}", node.handle, node.pool.0))?;
    same(
        &format!("the other's {verb}, {}", node.pool),
        found,
        wanted.to_string(),
    )
}

/// The printed form of a status.
fn number(status: Status) -> i32 {
    status.0
}

/// Runs in the other process.
fn be_other() -> Result<()> {
    let mut client = Client::start()?;
    let mut views: Vec<(u64, Location, Memory)> = Vec::new();
    let mut own: Vec<Node> = Vec::new();
    other::serve(|words| {
        let device = client.device();
        let value =
            |index: usize| -> Result<u64> { Ok(words.get(index).context("word")?.parse()?) };
        let node = || -> Result<Node> {
            Ok(Node {
                handle: value(1)?,
                pool: Pool(value(2)? as u32),
                bytes: BYTES,
                surface_type: 6,
            })
        };
        let status = |result: galcore_client::device::Result<()>| match result {
            Ok(()) => Ok("0".to_string()),
            Err(error) => match error.status() {
                Some(status) => Ok(number(status).to_string()),
                None => Err(error.into()),
            },
        };
        let view = |node: Node| -> Result<(Location, Memory)> {
            let found = views
                .iter()
                .rev()
                .find(|(handle, ..)| *handle == node.handle);
            let (_, location, memory) = found.context("it is not locked")?;
            Ok((*location, memory.clone()))
        };
        match words[0] {
            "allocate" => {
                let taken = device.allocate(BYTES, 64, 6, Pool(value(1)? as u32))?;
                own.push(taken);
                Ok(taken.handle.to_string())
            }
            "lock" => {
                let node = node()?;
                match device.lock(node) {
                    Ok(location) => {
                        let memory = device.memory(node, location, client.pool())?;
                        views.push((node.handle, location, memory));
                        Ok(location.address.to_string())
                    }
                    Err(error) => status(Err(error)),
                }
            }
            "read" => {
                let memory = view(node()?)?.1;
                let value = memory.read(0);
                expect_all("all of it", &memory, value)?;
                Ok(value.to_string())
            }
            "write" => {
                view(node()?)?.1.fill(0x0b0b_0b0b);
                Ok("0".to_string())
            }
            "draw" => {
                let (location, memory) = view(node()?)?;
                let block = memory.part(0, BLOCK).context("part")?;
                gpu_fill(
                    &mut client,
                    &surface_at(location.address, block)?,
                    0xd4a3_0001,
                )?;
                Ok("0".to_string())
            }
            "unlock" => status(device.unlock(node()?).map(|_| ())),
            "unlock-all" => {
                let node = node()?;
                video::unlock(device, node)?;
                Ok("0".to_string())
            }
            "free" => status(device.free(node()?)),
            "free-record" => {
                let done = device.create_signal(false)?;
                device.commit_queue(Queue::new().free(node()?).signal(done))?;
                device.wait_signal(done, 5000)?;
                device.destroy_signal(done)?;
                Ok("0".to_string())
            }
            word => bail!("what is {word}?"),
        }
    })
}

fn used() -> Result<([u64; 3], u64)> {
    Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?))
}

fn unshared_tests<'a>(suite: &mut Suite<'a>, opened: &'a Opened) {
    suite.test("another process can do nothing with a handle", move || {
        let before = ProcGc::nothing_left()?;
        let device = &opened.device;
        for pool in POOLS {
            let mut other = Other::start(Abi::own())?;
            let node = opened.allocate(BYTES, pool)?;
            let (_, memory) = opened.memory(node)?;
            memory.fill(0xaaaa_aaaa);
            expect(&mut other, "lock", node, number(Status::INVALID_OBJECT))?;
            expect(&mut other, "unlock", node, number(Status::INVALID_OBJECT))?;
            expect(&mut other, "free", node, number(Status::INVALID_DATA))?;
            expect(&mut other, "free-record", node, 0)?;
            expect_all("still", &memory, 0xaaaa_aaaa)?;
            opened.unlock(node)?;
            device.free(node)?;
        }
        settles("KiB, MMU entries", before, used)
    });
}

fn shared_tests<'a>(suite: &mut Suite<'a>, opened: &'a Opened) {
    let device = &opened.device;
    for pool in POOLS {
        suite.test(
            format!("{pool}: two processes lock one node, and see the same memory"),
            move || {
                let before = ProcGc::nothing_left()?;
                let books = device.database(std::process::id())?.video.bytes;
                let mut other = Other::start(Abi::own())?;
                let node = opened.allocate(BYTES, pool)?;
                let (address, memory) = opened.memory(node)?;
                memory.fill(0xaaaa_aaaa);
                expect(&mut other, "lock", node, address)?;
                expect(&mut other, "read", node, 0xaaaa_aaaau32)?;
                expect(&mut other, "write", node, 0)?;
                expect_all("written by the other", &memory, 0x0b0b_0b0b)?;
                expect(&mut other, "draw", node, 0)?;
                let block = memory.part(0, BLOCK).context("part")?;
                expect_all("drawn by the other", &block, 0xd4a3_0001)?;
                // Each process has its own locks. Each process has one view of a page-backed node.
                match pool {
                    Pool::SYSTEM => {
                        expect(&mut other, "lock", node, address)?;
                        expect(&mut other, "unlock-all", node, 0)?;
                    }
                    _ => expect(&mut other, "lock", node, number(Status::MEMORY_LOCKED))?,
                }
                expect(&mut other, "unlock-all", node, 0)?;
                expect(&mut other, "unlock", node, number(Status::MEMORY_UNLOCKED))?;
                expect_all("still here", &block, 0xd4a3_0001)?;
                same(
                    "own bytes",
                    device.database(std::process::id())?.video.bytes,
                    books + u64::from(BYTES),
                )?;
                opened.unlock(node)?;
                device.free(node)?;
                expect(&mut other, "lock", node, number(Status::INVALID_OBJECT))?;
                drop(other);
                settles("KiB, MMU entries", before, used)
            },
        );
        suite.test(
            format!("{pool}: freed by the owner while the other has it locked"),
            move || {
                let before = ProcGc::nothing_left()?;
                let mut other = Other::start(Abi::own())?;
                let node = opened.allocate(BYTES, pool)?;
                let (_, memory) = opened.memory(node)?;
                memory.fill(0x1234_5678);
                other.ask(&format!("lock {} {}", node.handle, pool.0))?;
                opened.unlock(node)?;
                device.free(node)?;
                refused("second FREE", device.free(node), Status::INVALID_DATA)?;
                device.stall()?;
                // Its memory is not reused: a new node does not overwrite it.
                let next = opened.allocate(BYTES, pool)?;
                opened.memory(next)?.1.fill(0xbad0_0bad);
                expect(&mut other, "read", node, 0x1234_5678)?;
                expect(&mut other, "write", node, 0)?;
                expect(&mut other, "unlock-all", node, 0)?;
                expect(&mut other, "lock", node, number(Status::INVALID_OBJECT))?;
                opened.unlock(next)?;
                device.free(next)?;
                drop(other);
                settles("KiB, MMU entries", before, used)
            },
        );
        for verb in ["free", "free-record"] {
            suite.test(
                format!("{pool}: {verb} by the other; the owner's locks hold it"),
                move || {
                    let before = ProcGc::nothing_left()?;
                    let mut other = Other::start(Abi::own())?;
                    let node = opened.allocate(BYTES, pool)?;
                    let (_, memory) = opened.memory(node)?;
                    memory.fill(0x5555_5555);
                    expect(&mut other, verb, node, 0)?;
                    refused("FREE by the owner", device.free(node), Status::INVALID_DATA)?;
                    memory.fill(0x6666_6666);
                    expect_all("still there", &memory, 0x6666_6666)?;
                    opened.unlock(node)?;
                    settles("gone", Some(Status::INVALID_OBJECT), || {
                        Ok(device.lock(node).err().and_then(|error| error.status()))
                    })?;
                    drop(other);
                    settles("KiB, MMU entries", before, used)
                },
            );
        }
        suite.test(
            format!("{pool}: the owner ends while this process has it locked"),
            move || {
                let before = ProcGc::nothing_left()?;
                let mut other = Other::start(Abi::own())?;
                let handle = other.ask(&format!("allocate {}", pool.0))?.parse()?;
                let node = Node {
                    handle,
                    pool,
                    bytes: BYTES,
                    surface_type: 6,
                };
                let (address, memory) = opened.memory(node)?;
                expect(&mut other, "lock", node, address)?;
                expect(&mut other, "write", node, 0)?;
                drop(other);
                expect_all("after the owner's end", &memory, 0x0b0b_0b0b)?;
                let next = opened.allocate(BYTES, pool)?;
                ensure!(
                    opened.memory(next)?.0 != address,
                    "its place was given away"
                );
                memory.fill(7);
                expect_all("still", &memory, 7)?;
                opened.unlock(node)?;
                opened.unlock(next)?;
                device.free(next)?;
                settles("gone", Some(Status::INVALID_OBJECT), || {
                    Ok(device.lock(node).err().and_then(|error| error.status()))
                })?;
                settles("KiB, MMU entries", before, used)
            },
        );
    }
    suite.test(
        "a process that ends with another's node locked gives its lock back",
        move || {
            let before = ProcGc::nothing_left()?;
            for pool in POOLS {
                let node = opened.allocate(BYTES, pool)?;
                let mut other = Other::start(Abi::own())?;
                other.ask(&format!("lock {} {}", node.handle, pool.0))?;
                drop(other);
                device.free(node)?;
            }
            settles("KiB, MMU entries", before, used)
        },
    );
    suite.test("a handle that names nothing is refused", move || {
        for handle in [0, 1 << 20, 0x7fff_fff0, 1 << 32 | 1] {
            let theirs = video::node(handle);
            refused("LOCK", device.lock(theirs), Status::INVALID_OBJECT)?;
            refused("UNLOCK", device.unlock(theirs), Status::INVALID_OBJECT)?;
        }
        refused(
            "FREE",
            device.free(video::node(1 << 20)),
            Status::INVALID_DATA,
        )
    });
}

fn main() -> ExitCode {
    let first = std::env::args().nth(1);
    if let Some(code) = other::role(|_| be_other()) {
        return code;
    }
    let shared = first.as_deref() == Some("--shared");
    harness::program(|| {
        let opened = Opened::new()?;
        let mut suite = Suite::new();
        if shared {
            shared_tests(&mut suite, &opened);
        } else {
            unshared_tests(&mut suite, &opened);
        }
        suite.run()
    })
}
