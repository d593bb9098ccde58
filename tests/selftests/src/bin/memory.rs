// SPDX-License-Identifier: GPL-2.0-only
//! Video memory: the SYSTEM pool and page-backed nodes, locks, deferred frees, ownership.

use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Device;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::uapi;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Queue;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;

const MIB: u32 = 1 << 20;

/// An open device with its pool mapped.
struct Opened {
    device: Device,
    pool: Memory,
}

impl Opened {
    fn new() -> Result<Self> {
        let device = Device::open()?;
        let pool = device.map_pool()?;
        Ok(Self { device, pool })
    }

    fn allocate(&self, bytes: u32, pool: Pool) -> galcore_client::device::Result<Node> {
        self.device.allocate(bytes, 64, surface::BITMAP, pool)
    }

    /// Locks a node and gives its memory.
    fn memory(&self, node: Node) -> Result<(u32, Memory)> {
        let location = self.device.lock(node)?;
        Ok((
            location.address,
            self.device.memory(node, location, &self.pool)?,
        ))
    }

    /// Unlocks with the second half in a queue where one is wanted.
    fn unlock(&self, node: Node) -> Result<()> {
        if self.device.unlock(node)? {
            let done = self.device.create_signal(false)?;
            self.device
                .commit_queue(Queue::new().unlock(node).signal(done))?;
            self.device.wait_signal(done, 5000)?;
            self.device.destroy_signal(done)?;
        }
        Ok(())
    }

    /// Takes all of the pool in blocks of `bytes`.
    fn exhaust(&self, bytes: u32) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        loop {
            match self.allocate(bytes, Pool::SYSTEM) {
                Ok(node) => nodes.push(node),
                Err(error) => {
                    same(
                        "end of the pool",
                        error.status(),
                        Some(Status::OUT_OF_MEMORY),
                    )?;
                    return Ok(nodes);
                }
            }
        }
    }
}

/// A node with a handle of the test's making.
fn node(handle: u64) -> Node {
    Node {
        handle,
        pool: Pool::SYSTEM,
        bytes: 0,
        surface_type: surface::BITMAP,
    }
}

fn pool_tests<'a>(suite: &mut Suite<'a>, opened: &'a Opened) {
    let device = &opened.device;
    suite.test(
        "every surface type is served from the pool, at an aligned GPU address",
        move || {
            let base = system::told("contiguousBase");
            let base_address = u64::from(device.base_address()?);
            for kind in surface::UNKNOWN..12 {
                let taken = device.allocate(0x1_0700, 64, kind, Pool::DEFAULT)?;
                same("pool", taken.pool, Pool::SYSTEM)?;
                ensure!(
                    taken.handle != 0 && taken.handle <= 0x7fff_ffff,
                    "handle {:#x}",
                    taken.handle
                );
                let location = device.lock(taken)?;
                let (address, memory) = (
                    location.address,
                    device.memory(taken, location, &opened.pool)?,
                );
                ensure!(
                    address & 63 == 0 && address < 1 << 31,
                    "GPU address {address:#x}"
                );
                if let Some(base) = base {
                    let offset = memory.address() - opened.pool.address();
                    same(
                        "GPU address",
                        u64::from(address),
                        base + offset - base_address,
                    )?;
                }
                opened.unlock(taken)?;
                device.free(taken)?;
            }
            Ok(())
        },
    );
    suite.test("aliases of the pool lead to it", move || {
        for pool in [
            Pool::DEFAULT,
            Pool::LOCAL,
            Pool::UNIFIED,
            Pool::SYSTEM,
            Pool::DEFAULT_FORCE_CONTIGUOUS,
        ] {
            let taken = opened.allocate(4096, pool)?;
            same(&format!("asked for {pool}"), taken.pool, Pool::SYSTEM)?;
            device.free(taken)?;
        }
        Ok(())
    });
    suite.test("alignments from 0 to 1 MiB hold", move || {
        for alignment in [0, 1, 4, 48, 64, 4096, 0x1_0000, MIB] {
            let small = device.allocate(100, 1, surface::TEXTURE, Pool::SYSTEM)?;
            let taken = device.allocate(5000, alignment, surface::TEXTURE, Pool::SYSTEM)?;
            let location = device.lock(taken)?;
            let offset = location.logical - opened.pool.address();
            same(
                &format!("offset modulo {alignment}"),
                offset % u64::from(alignment.max(1)),
                0,
            )?;
            device.unlock(taken)?;
            device.free(taken)?;
            device.free(small)?;
        }
        Ok(())
    });
    suite.test("nodes do not overlap", move || {
        let mut held = Vec::new();
        for index in 0..32 {
            let taken = opened.allocate(4096 + index * 64, Pool::SYSTEM)?;
            let (_, memory) = opened.memory(taken)?;
            memory.fill(index);
            held.push((taken, memory));
        }
        for (index, (_, memory)) in held.iter().enumerate() {
            same("foreign word", memory.find_other_than(index as u32), None)?;
        }
        for (taken, _) in held {
            opened.unlock(taken)?;
            device.free(taken)?;
        }
        Ok(())
    });
    suite.test(
        "memory reads as zeros, also after somebody else wrote it",
        move || {
            for round in 0..3 {
                let taken = opened.allocate(256 * 1024, Pool::SYSTEM)?;
                let (_, memory) = opened.memory(taken)?;
                same(
                    &format!("word not 0 in round {round}"),
                    memory.find_other_than(0),
                    None,
                )?;
                memory.fill(0x5ec2_e700 + round);
                opened.unlock(taken)?;
                device.free(taken)?;
            }
            Ok(())
        },
    );
    suite.test(
        "a freed place is used again, two thousand times",
        move || {
            let mut first = None;
            for _ in 0..2000 {
                let taken = opened.allocate(0x2000, Pool::SYSTEM)?;
                let address = device.lock(taken)?.address;
                same("GPU address", *first.get_or_insert(address), address)?;
                device.unlock(taken)?;
                device.free(taken)?;
            }
            Ok(())
        },
    );
    suite.test(
        "the pool can be used up, and is whole again after",
        move || {
            let block = (opened.pool.len() as u32 / 32).max(8192) & !63;
            for round in 0..2 {
                let nodes = opened.exhaust(block)?;
                let got = nodes.len() * block as usize;
                // The driver may keep a 32nd for blocks of less than a page.
                ensure!(
                    got + opened.pool.len() / 32 + 2 * block as usize >= opened.pool.len(),
                    "round {round}: only {got:#x} of {:#x} bytes",
                    opened.pool.len()
                );
                let other = opened.allocate(block, Pool::DEFAULT)?;
                same("pool of what no longer fits", other.pool, Pool::CONTIGUOUS)?;
                device.free(other)?;
                // Every second one first, so that free places must be joined.
                for half in [0, 1] {
                    for taken in nodes.iter().skip(half).step_by(2) {
                        device.free(*taken)?;
                    }
                }
            }
            let most = opened.pool.len() as u32 / 2;
            device.free(
                opened
                    .allocate(most, Pool::SYSTEM)
                    .context("half of the pool in one")?,
            )?;
            Ok(())
        },
    );
    suite.test("what cannot be is refused", move || {
        let linear = |bytes, alignment, kind, pool| device.allocate(bytes, alignment, kind, pool);
        let bitmap = surface::BITMAP;
        let larger = opened.pool.len() as u32 + 4096;
        refused(
            "0 bytes",
            linear(0, 64, bitmap, Pool::DEFAULT),
            Status::INVALID_ARGUMENT,
        )?;
        refused(
            "more than the pool",
            linear(larger, 64, bitmap, Pool::SYSTEM),
            Status::OUT_OF_MEMORY,
        )?;
        for (bytes, alignment) in [
            (u32::MAX, 1),
            (u32::MAX, u32::MAX),
            (u32::MAX - 63, 64),
            (0x8000_0000, 64),
        ] {
            let result = linear(bytes, alignment, bitmap, Pool::SYSTEM);
            refused(
                &format!("{bytes:#x} aligned to {alignment:#x}"),
                result,
                Status::OUT_OF_MEMORY,
            )?;
        }
        // Offset 0 is a multiple of everything, if it is free.
        match linear(64, u32::MAX, bitmap, Pool::SYSTEM) {
            Ok(taken) => device.free(taken)?,
            Err(error) => same(
                "alignment beyond the pool",
                error.status(),
                Some(Status::OUT_OF_MEMORY),
            )?,
        }
        for pool in [0, 3, 4, 8, 12, 99, u32::MAX] {
            let result = linear(4096, 64, bitmap, Pool(pool));
            refused(&format!("pool {pool}"), result, Status::OUT_OF_MEMORY)?;
        }
        Ok(())
    });
    suite.test(
        "surface types with flags come from the CONTIGUOUS pool",
        move || {
            for kind in [
                12,
                13,
                surface::BITMAP | surface::NO_VIDMEM,
                surface::RENDER_TARGET | surface::NO_TILE_STATUS,
            ] {
                let taken = device.allocate(8192, 64, kind, Pool::DEFAULT)?;
                same(&format!("type {kind:#x}"), taken.pool, Pool::CONTIGUOUS)?;
                device.free(taken)?;
                let alone = device.allocate(8192, 64, kind, Pool::SYSTEM);
                refused(
                    &format!("type {kind:#x} from SYSTEM"),
                    alone,
                    Status::OUT_OF_MEMORY,
                )?;
            }
            Ok(())
        },
    );
}

fn lock_tests<'a>(suite: &mut Suite<'a>, opened: &'a Opened) {
    let device = &opened.device;
    suite.test("node 0 and unknown nodes are refused", move || {
        for (handle, free) in [
            (0, Status::INVALID_OBJECT),
            (0x7fff_fffe, Status::INVALID_DATA),
        ] {
            let what = |command| format!("{command} of node {handle:#x}");
            refused(
                &what("LOCK"),
                device.lock(node(handle)),
                Status::INVALID_OBJECT,
            )?;
            refused(
                &what("UNLOCK"),
                device.unlock(node(handle)),
                Status::INVALID_OBJECT,
            )?;
            refused(&what("FREE"), device.free(node(handle)), free)?;
        }
        for handle in [1 << 31, 1 << 32 | 1, u64::MAX, 0xc000_0000] {
            let what = |command| format!("{command} of node {handle:#x}");
            refused(
                &what("LOCK"),
                device.lock(node(handle)),
                Status::INVALID_OBJECT,
            )?;
            refused(
                &what("FREE"),
                device.free(node(handle)),
                Status::INVALID_DATA,
            )?;
        }
        Ok(())
    });
    suite.test(
        "locks of a pool node are counted and give the same place",
        move || {
            let taken = opened.allocate(4096, Pool::SYSTEM)?;
            refused(
                "UNLOCK before LOCK",
                device.unlock(taken),
                Status::MEMORY_UNLOCKED,
            )?;
            let first = device.lock(taken)?;
            same("second lock", device.lock(taken)?, first)?;
            same("asynchroneous", device.unlock(taken)?, false)?;
            same("asynchroneous", device.unlock(taken)?, false)?;
            refused(
                "one UNLOCK too many",
                device.unlock(taken),
                Status::MEMORY_UNLOCKED,
            )?;
            Ok(device.free(taken)?)
        },
    );
    suite.test("a cacheable lock of a pool node is refused", move || {
        let taken = opened.allocate(4096, Pool::SYSTEM)?;
        let payload = uapi::LockVideoMemory {
            node: taken.handle,
            cacheable: 1,
            ..Default::default()
        };
        let (status, _) = device.send(Command::LOCK_VIDEO_MEMORY, &payload)?;
        same("status", status, Status::INVALID_REQUEST)?;
        refused(
            "it left no lock",
            device.unlock(taken),
            Status::MEMORY_UNLOCKED,
        )?;
        Ok(device.free(taken)?)
    });
    suite.test("a second free is refused", move || {
        for pool in [Pool::SYSTEM, Pool::CONTIGUOUS] {
            let taken = opened.allocate(4096, pool)?;
            device.free(taken)?;
            refused(
                &format!("second FREE, {pool}"),
                device.free(taken),
                Status::INVALID_DATA,
            )?;
            refused(
                &format!("LOCK of a freed node, {pool}"),
                device.lock(taken),
                Status::INVALID_OBJECT,
            )?;
        }
        Ok(())
    });
    suite.test(
        "a locked pool node that is freed goes at its last unlock",
        move || {
            let most = opened.pool.len() as u32 / 4 * 3;
            let large = opened.allocate(most, Pool::SYSTEM)?;
            device.lock(large)?;
            device.lock(large)?;
            device.free(large).context("FREE while locked")?;
            for remaining in [2, 1] {
                let result = opened.allocate(most, Pool::SYSTEM);
                refused(
                    &format!("with {remaining} lock(s) left"),
                    result,
                    Status::OUT_OF_MEMORY,
                )?;
                device.unlock(large)?;
            }
            let again = opened
                .allocate(most, Pool::SYSTEM)
                .context("after the last unlock")?;
            Ok(device.free(again)?)
        },
    );
}

fn contiguous_tests<'a>(suite: &mut Suite<'a>, opened: &'a Opened) {
    let device = &opened.device;
    suite.test(
        "a CONTIGUOUS node is mapped by LOCK, zeroed, page aligned",
        move || {
            for round in 0..3 {
                let taken = opened.allocate(200_000, Pool::CONTIGUOUS)?;
                same("pool", taken.pool, Pool::CONTIGUOUS)?;
                let (address, memory) = opened.memory(taken)?;
                ensure!(address < 1 << 31, "GPU address {address:#x}");
                same(
                    "address in the page",
                    (address & 4095, memory.address() & 4095),
                    (0, 0),
                )?;
                same(
                    &format!("word not 0 in round {round}"),
                    memory.find_other_than(0),
                    None,
                )?;
                memory.fill(0xdead_0000 + round);
                same(
                    "read back",
                    memory.find_other_than(0xdead_0000 + round),
                    None,
                )?;
                opened.unlock(taken)?;
                device.free(taken)?;
            }
            Ok(())
        },
    );
    suite.test(
        "its second LOCK in a process answers MEMORY_LOCKED",
        move || {
            let taken = opened.allocate(8192, Pool::CONTIGUOUS)?;
            device.lock(taken)?;
            refused("second LOCK", device.lock(taken), Status::MEMORY_LOCKED)?;
            opened.unlock(taken)?;
            device.lock(taken).context("LOCK after the unlock")?;
            opened.unlock(taken)?;
            Ok(device.free(taken)?)
        },
    );
    suite.test(
        "its UNLOCK takes the mapping and wants a second half in a queue",
        move || {
            let taken = opened.allocate(8192, Pool::CONTIGUOUS)?;
            let location = device.lock(taken)?;
            system::expect_mapped(location.logical, true)?;
            same("asynchroneous", device.unlock(taken)?, true)?;
            system::expect_mapped(location.logical, false)?;
            device.commit_queue(Queue::new().unlock(taken))?;
            device.stall()?;
            Ok(device.free(taken)?)
        },
    );
    suite.test(
        "freed while locked, its pages come back with the second half",
        move || {
            let taken = opened.allocate(4 * MIB, Pool::CONTIGUOUS)?;
            let location = device.lock(taken)?;
            let before = system::ProcGc::used_now()?[1];
            device.free(taken).context("FREE while locked")?;
            same(
                "KiB used while locked",
                system::ProcGc::used_now()?[1],
                before,
            )?;
            system::expect_mapped(location.logical, true)?;
            opened.unlock(taken)?;
            settles("KiB used after", before - 4096, || {
                Ok(system::ProcGc::used_now()?[1])
            })
        },
    );
    suite.test("more than there is answers OUT_OF_MEMORY", move || {
        for bytes in [0x4000_0000, 0x7fff_f000, u32::MAX] {
            let result = opened.allocate(bytes, Pool::CONTIGUOUS);
            refused(&format!("{bytes:#x} bytes"), result, Status::OUT_OF_MEMORY)?;
        }
        Ok(())
    });
}

fn owner_tests<'a>(suite: &mut Suite<'a>, opened: &'a Opened) {
    suite.test("another process's nodes are unknown", move || {
        let foreign = Foreign::start()?;
        for theirs in [foreign.node(), foreign.page_node()] {
            let device = &opened.device;
            refused("LOCK", device.lock(theirs), Status::INVALID_OBJECT)?;
            refused("UNLOCK", device.unlock(theirs), Status::INVALID_OBJECT)?;
            refused("FREE", device.free(theirs), Status::INVALID_DATA)?;
        }
        Ok(())
    });
    suite.test(
        "a second file of the same process knows the first one's nodes",
        move || {
            let taken = opened.allocate(4096, Pool::SYSTEM)?;
            let second = Device::open()?;
            second.lock(taken)?;
            drop(second);
            opened
                .device
                .unlock(taken)
                .context("after the second file was closed")?;
            Ok(opened.device.free(taken)?)
        },
    );
    suite.test(
        "processes that end with everything locked cost no memory",
        move || {
            let child = || -> Result<()> {
                let status = system::again(&["--leave"])?.status()?;
                same("child", status.code(), Some(0))
            };
            child()?;
            let used = system::ProcGc::used_now()?;
            let before = system::settled_free()?;
            for _ in 0..10 {
                child()?;
            }
            settles("KiB used", used, system::ProcGc::used_now)?;
            let after = system::settled_free()?;
            ensure!(
                after + 512 >= before,
                "{before} KiB free before, {after} KiB after"
            );
            Ok(())
        },
    );
}

/// A process that locks nodes of both pools, frees some, and just ends.
fn leave() -> ExitCode {
    let go = || -> Result<()> {
        let opened = Opened::new()?;
        for pool in [Pool::SYSTEM, Pool::CONTIGUOUS] {
            for index in 0..8 {
                let taken = opened.allocate(MIB / 8, pool)?;
                let (_, memory) = opened.memory(taken)?;
                memory.write(0, index);
                if index % 2 == 1 {
                    opened.device.free(taken)?;
                }
            }
        }
        Ok(())
    };
    match go() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--leave") {
        return leave();
    }
    harness::program(|| {
        let opened = Opened::new()?;
        let mut suite = Suite::new();
        pool_tests(&mut suite, &opened);
        lock_tests(&mut suite, &opened);
        contiguous_tests(&mut suite, &opened);
        owner_tests(&mut suite, &opened);
        suite.run()
    })
}
