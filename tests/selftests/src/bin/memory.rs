// SPDX-License-Identifier: GPL-2.0-only
//! Video memory: the SYSTEM pool and page-backed nodes, locks, deferred frees, ownership.

use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Book;
use galcore_client::device::Device;
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
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::node;
use galcore_selftests::video::Opened;

const MIB: u32 = 1 << 20;

/// Longest time of a call. Only its return is checked, not its speed.
const LIMIT: Duration = Duration::from_secs(30);

/// KiB used of each pool, and MMU entries in use.
fn in_use() -> Result<([u64; 3], u64)> {
    Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?))
}

/// [`in_use`] after everything that earlier tests freed is back. No test leaks, and no other process uses the device.
fn at_rest(device: &Device) -> Result<([u64; 3], u64)> {
    device.stall()?;
    ProcGc::nothing_left()
}

/// Takes all of the pool in blocks of `bytes`.
fn exhaust(opened: &Opened, bytes: u32) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    loop {
        match opened.allocate(bytes, Pool::SYSTEM) {
            Ok(node) => nodes.push(node),
            Err(error) => {
                let status = error.status();
                same("end of the pool", status, Some(Status::OUT_OF_MEMORY))?;
                return Ok(nodes);
            }
        }
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
        "what another process wrote is gone, wherever in the pool; one's own may stay",
        move || {
            // The driver keeps a 32nd for blocks of less than a page.
            let bytes = (opened.pool.len() - opened.pool.len() / 16) as u32;
            let mut own = 0;
            for round in 0..1 {
                let status = system::again(&["--write-pool", &bytes.to_string()])?.status()?;
                same("child", status.code(), Some(0))?;
                // Two parts. The first one starts with memory that this process wrote before.
                for part in [64 * 1024, bytes - 64 * 1024] {
                    let taken = opened.allocate(part, Pool::SYSTEM)?;
                    let (_, memory) = opened.memory(taken)?;
                    let what = format!("round {round}, {part:#x} bytes");
                    same(&what, memory.find_other_than(0), None)?;
                    memory.fill(0x5ec2_e700 + round);
                    opened.unlock(taken)?;
                    device.free(taken)?;
                    // The same process again, so the memory may contain only its own data.
                    let taken = opened.allocate(part / 2, Pool::SYSTEM)?;
                    let (_, memory) = opened.memory(taken)?;
                    let found = (memory.read(0), memory.read(part as usize / 2 - 4));
                    let written = 0x5ec2_e700 + round;
                    let may = |word| word == 0 || word == written;
                    ensure!(may(found.0) && may(found.1), "{what}: {found:x?}");
                    own += u32::from(found.0 == written);
                    memory.fill(0);
                    opened.unlock(taken)?;
                    device.free(taken)?;
                    let status = system::again(&["--write-pool", &bytes.to_string()])?.status()?;
                    same("child", status.code(), Some(0))?;
                }
            }
            println!("# {own} of 2 pieces held what this process had written there");
            Ok(())
        },
    );
    suite.test(
        "what a process had that has just ended can be had at once, again and again",
        move || {
            let bytes = (opened.pool.len() - opened.pool.len() / 16) as u32;
            for _ in 0..20 {
                let status = system::again(&["--take-pool", &bytes.to_string()])?.status()?;
                same("child", status.code(), Some(0))?;
                let taken = opened.allocate(bytes, Pool::SYSTEM)?;
                device.free(taken)?;
            }
            Ok(())
        },
    );
    suite.test(
        "what a record has freed can be had as soon as the signal behind it has come",
        move || {
            let bytes = (opened.pool.len() / 4 * 3) as u32;
            let done = device.create_signal(false)?;
            for _ in 0..300 {
                let taken = opened.allocate(bytes, Pool::SYSTEM)?;
                device.commit_queue(Queue::new().free(taken).signal(done))?;
                device.wait_signal(done, 10_000)?;
            }
            device.destroy_signal(done)?;
            Ok(())
        },
    );
    suite.test(
        "a freed place is used again, hundreds of times",
        move || {
            at_rest(device)?;
            let mut first = None;
            for _ in 0..300 {
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
                let nodes = exhaust(opened, block)?;
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
                // Frees every second one first, so that free ranges must be merged.
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
        // Offset 0 is a multiple of every alignment, if it is free.
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
            at_rest(device)?;
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

/// Bit in minor features 0: memory controller 2.0.
const MEMORY_CONTROLLER_2: u32 = 1 << 22;

fn walk_tests<'a>(suite: &mut Suite<'a>, opened: &'a Opened) {
    let device = &opened.device;
    suite.test(
        "the walk from pool to pool, each request's own",
        move || {
            let has_new_controller =
                device.identity()?.chip_minor_features & MEMORY_CONTROLLER_2 != 0;
            // More than any block of contiguous memory, and less than the total memory.
            let large = system::meminfo("CmaTotal")? as u32 * 1024 + MIB;
            // Takes the part of the pool beyond that size.
            let rest = (opened.pool.len() as u32).checked_sub(large / 2);
            let block = match rest.filter(|_| opened.pool.len() as u32 >= large) {
                Some(rest) => Some(opened.allocate(rest, Pool::SYSTEM)?),
                None => None,
            };
            let refusal = Err(Status::OUT_OF_MEMORY);
            for kind in [
                surface::TEXTURE,
                surface::TILE_STATUS,
                surface::TILE_STATUS | 0x100,
            ] {
                let falls_through = kind == surface::TEXTURE || has_new_controller;
                let end = if falls_through {
                    Ok(Pool::VIRTUAL)
                } else {
                    refusal
                };
                for (asked, wanted) in [
                    (Pool::DEFAULT, end),
                    (Pool::LOCAL, end),
                    (Pool::UNIFIED, end),
                    (Pool::CONTIGUOUS, end),
                    (Pool::VIRTUAL, Ok(Pool::VIRTUAL)),
                    (Pool::SYSTEM, refusal),
                    (Pool::DEFAULT_FORCE_CONTIGUOUS, refusal),
                    (Pool::DEFAULT_FORCE_CONTIGUOUS_CACHEABLE, refusal),
                    (Pool::LOCAL_INTERNAL, refusal),
                    (Pool::LOCAL_EXTERNAL, refusal),
                    (Pool::USER, refusal),
                    (Pool::UNKNOWN, refusal),
                ] {
                    let what = format!("type {kind:#x}, asked for {asked}");
                    let begin = Stopwatch::start();
                    match (device.allocate(large, 64, kind, asked), wanted) {
                        (Ok(taken), wanted) => {
                            same(&what, Ok(taken.pool), wanted)?;
                            device.free(taken)?;
                        }
                        (result, Err(status)) => refused(&what, result, status)?,
                        (Err(error), Ok(_)) => anyhow::bail!("{what}: {error}"),
                    }
                    let took = begin.elapsed();
                    ensure!(took < LIMIT, "{what}: took {took:?}");
                }
            }
            for asked in [
                Pool::DEFAULT,
                Pool::UNIFIED,
                Pool::CONTIGUOUS,
                Pool::DEFAULT_FORCE_CONTIGUOUS,
                Pool::DEFAULT_FORCE_CONTIGUOUS_CACHEABLE,
            ] {
                // A flag excludes it from SYSTEM.
                let kind = surface::TEXTURE | surface::NO_VIDMEM;
                let taken = device.allocate(MIB, 64, kind, asked)?;
                same(
                    &format!("1 MiB, asked for {asked}"),
                    taken.pool,
                    Pool::CONTIGUOUS,
                )?;
                device.free(taken)?;
            }
            match block {
                Some(block) => Ok(device.free(block)?),
                None => Ok(()),
            }
        },
    );
    suite.test(
        "more than there is answers OUT_OF_MEMORY at once, and nobody dies",
        move || {
            let free = system::meminfo("MemAvailable")? as u32 * 1024;
            for (pool, bytes) in [
                (Pool::VIRTUAL, free.saturating_add(64 * MIB)),
                (Pool::DEFAULT, 1 << 30),
                (Pool::VIRTUAL, 1 << 30),
                (Pool::VIRTUAL, 0x7fff_f000),
                (Pool::VIRTUAL, 0x8000_0000),
                (Pool::VIRTUAL, u32::MAX),
                (Pool::CONTIGUOUS, u32::MAX),
            ] {
                let begin = Stopwatch::start();
                let result = opened.allocate(bytes, pool);
                refused(
                    &format!("{bytes:#x} bytes of {pool}"),
                    result,
                    Status::OUT_OF_MEMORY,
                )?;
                let took = begin.elapsed();
                ensure!(took < LIMIT, "{bytes:#x} bytes of {pool}: {took:?}");
            }
            // The same in small steps.
            let before = at_rest(device)?;
            let half = system::meminfo("MemAvailable")? as usize / 2048;
            let mut nodes = Vec::new();
            let end = loop {
                match opened.allocate(16 * MIB, Pool::VIRTUAL) {
                    Ok(node) => nodes.push(node),
                    Err(error) => break error,
                }
            };
            same("the end", end.status(), Some(Status::OUT_OF_MEMORY))?;
            println!("# {} MiB of VIRTUAL memory could be had", nodes.len() * 16);
            ensure!(nodes.len() * 16 >= half, "only {} pieces", nodes.len());
            for node in nodes {
                device.free(node)?;
            }
            settles("KiB used, MMU entries", before, in_use)
        },
    );
}

fn virtual_tests<'a>(suite: &mut Suite<'a>, opened: &'a Opened) {
    let device = &opened.device;
    suite.test(
        "a VIRTUAL node: behind the MMU, page aligned, zeros, counted in /proc",
        move || {
            let before = at_rest(device)?;
            for round in 0..3 {
                let taken = device.allocate(200_000, 12_345, 99, Pool::VIRTUAL)?;
                same("pool", taken.pool, Pool::VIRTUAL)?;
                let ([pool, contiguous, scattered], entries) = before;
                let wanted = ([pool, contiguous, scattered + 196], entries + 49);
                same("KiB, MMU entries", in_use()?, wanted)?;
                let (address, memory) = opened.memory(taken)?;
                ensure!(address >= 1 << 31, "GPU address {address:#x}");
                let places = (address & 4095, memory.address() & 4095);
                same("address in the page", places, (0, 0))?;
                expect_all("fresh", &memory, 0)?;
                memory.fill(0xdead_0000 + round);
                opened.unlock(taken)?;
                let (again, memory) = opened.memory(taken)?;
                same("GPU address of the next lock", again, address)?;
                expect_all("kept", &memory, 0xdead_0000 + round)?;
                opened.unlock(taken)?;
                device.free(taken)?;
                settles("KiB, MMU entries", before, in_use)?;
            }
            Ok(())
        },
    );
    for pool in [Pool::CONTIGUOUS, Pool::VIRTUAL] {
        suite.test(
            format!("{pool}: after UNLOCK's first half it can be locked at once"),
            move || {
                let taken = opened.allocate(8192, pool)?;
                let first = device.lock(taken)?;
                refused("second LOCK", device.lock(taken), Status::MEMORY_LOCKED)?;
                same("asynchroneous", device.unlock(taken)?, true)?;
                let second = device.lock(taken).context("LOCK between the halves")?;
                same("GPU address", second.address, first.address)?;
                system::expect_mapped(second.logical, true)?;
                // One record releases one of the two locks.
                device.free(taken)?;
                device.commit_queue(Queue::new().unlock(taken))?;
                device.stall()?;
                system::expect_mapped(second.logical, true)?;
                device.memory(taken, second, &opened.pool)?.fill(5);
                opened.unlock(taken)?;
                settles("gone", Some(Status::INVALID_OBJECT), || {
                    Ok(device.unlock(taken).err().and_then(|error| error.status()))
                })
            },
        );
        suite.test(
            format!("{pool}: UNLOCK without LOCK, and a record too many"),
            move || {
                let taken = opened.allocate(8192, pool)?;
                refused("UNLOCK", device.unlock(taken), Status::MEMORY_UNLOCKED)?;
                device.commit_queue(Queue::new().unlock(taken).unlock(taken))?;
                device.stall()?;
                let (_, memory) = opened.memory(taken)?;
                memory.fill(1);
                device.commit_queue(Queue::new().unlock(taken).unlock(taken).unlock(taken))?;
                device.stall()?;
                refused(
                    "UNLOCK after records",
                    device.unlock(taken),
                    Status::MEMORY_UNLOCKED,
                )?;
                device.free(taken)?;
                // A view that UNLOCK has not removed is removed with the node.
                system::expect_mapped(memory.address(), false)
            },
        );
        suite.test(
            format!("{pool}: freed while locked, it goes with the second half"),
            move || {
                let before = at_rest(device)?;
                let taken = opened.allocate(MIB, pool)?;
                let (_, memory) = opened.memory(taken)?;
                let held = in_use()?;
                device.free(taken)?;
                refused(
                    "LOCK of a freed one",
                    device.lock(taken),
                    Status::INVALID_OBJECT,
                )?;
                refused("second FREE", device.free(taken), Status::INVALID_DATA)?;
                same("KiB, MMU entries while locked", in_use()?, held)?;
                memory.fill(3);
                opened.unlock(taken)?;
                settles("KiB, MMU entries after", before, in_use)
            },
        );
    }
    suite.test(
        "a VIRTUAL node can be locked cached; a CONTIGUOUS one is not, whatever is asked",
        move || {
            for pool in [Pool::VIRTUAL, Pool::CONTIGUOUS] {
                let taken = opened.allocate(8192, pool)?;
                let location = device.lock_cacheable(taken)?;
                let memory = device.memory(taken, location, &opened.pool)?;
                expect_all("fresh", &memory, 0)?;
                memory.fill(9);
                device.cache(uapi::cache::FLUSH, taken.handle, location.logical, 8192)?;
                opened.unlock(taken)?;
                expect_all("in the next view", &opened.memory(taken)?.1, 9)?;
                opened.unlock(taken)?;
                device.free(taken)?;
            }
            Ok(())
        },
    );
    suite.test(
        "what one process wrote, the next does not find, in any pool",
        move || {
            for round in 0..2 {
                same(
                    "child",
                    system::again(&["--leave"])?.status()?.code(),
                    Some(0),
                )?;
                for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
                    let mut taken = Vec::new();
                    for index in 0..12 {
                        let node = opened.allocate(MIB / 16, pool)?;
                        let memory = opened.memory(node)?.1;
                        expect_all(
                            &format!("round {round}, node {index} of {pool}"),
                            &memory,
                            0,
                        )?;
                        taken.push(node);
                    }
                    for node in taken {
                        opened.unlock(node)?;
                        device.free(node)?;
                    }
                }
            }
            Ok(())
        },
    );
    suite.test(
        "a file without a mapping of the pool gets one by LOCK",
        move || {
            let second = system::again(&["--unmapped"])?.output()?;
            ensure!(
                second.status.success(),
                "{}",
                String::from_utf8_lossy(&second.stdout)
            );
            Ok(())
        },
    );
}

fn database_tests<'a>(suite: &mut Suite<'a>, opened: &'a Opened) {
    let device = &opened.device;
    let own = std::process::id();
    suite.test("DATABASE: bytes now, at most, and in all", move || {
        let start = device.database(own)?;
        let grow = |book: Book, by: u64| {
            let bytes = book.bytes + by;
            Book {
                bytes,
                most: book.most.max(bytes),
                total: book.total + by,
            }
        };
        let shrink = |book: Book, by: u64| {
            let bytes = book.bytes - by;
            Book { bytes, ..book }
        };
        let mut wanted = start;
        let mut nodes = Vec::new();
        for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
            nodes.push(opened.allocate(5 * MIB, pool)?);
            wanted.video = grow(wanted.video, 5 << 20);
            same(
                &format!("with a node of {pool}"),
                device.database(own)?,
                wanted,
            )?;
        }
        let buffer = device.allocate_contiguous(5000)?;
        wanted.contiguous = grow(wanted.contiguous, 8192);
        let other = device.allocate_non_paged(1)?;
        wanted.non_paged = grow(wanted.non_paged, 4096);
        same("with buffers", device.database(own)?, wanted)?;
        for node in nodes {
            device.free(node)?;
            wanted.video = shrink(wanted.video, 5 << 20);
            same("a node less", device.database(own)?, wanted)?;
        }
        device.free_contiguous(&buffer)?;
        wanted.contiguous = shrink(wanted.contiguous, 8192);
        same("a buffer less", device.database(own)?, wanted)?;
        device.commit_queue(Queue::new().free_non_paged(&other))?;
        device.stall()?;
        wanted.non_paged = shrink(wanted.non_paged, 4096);
        settles("as at the start, but for most and total", wanted, || {
            Ok(device.database(own)?)
        })?;
        let node = opened.allocate(MIB, Pool::SYSTEM)?;
        device.commit_queue(Queue::new().free(node))?;
        wanted.video = shrink(grow(wanted.video, 1 << 20), 1 << 20);
        device.stall()?;
        settles("after a free in a queue", wanted, || {
            Ok(device.database(own)?)
        })
    });
    suite.test("DATABASE: only about oneself", move || {
        for process in [0, 1, own + 1, parent_id(), 1 << 31, u32::MAX] {
            let what = format!("about process {process}");
            refused(&what, device.database(process), Status::INVALID_DATA)?;
        }
        Ok(())
    });
}

/// A process that does not map the whole pool.
fn unmapped() -> Result<()> {
    let device = Device::open()?;
    let taken = device.allocate(8192, 64, surface::BITMAP, Pool::SYSTEM)?;
    let location = device.lock(taken)?;
    system::expect_mapped(location.logical, true)?;
    same("second lock", device.lock(taken)?, location)?;
    let other = device.allocate(8192, 64, surface::BITMAP, Pool::SYSTEM)?;
    let there = device.lock(other)?;
    let between = (there.logical as i64 - location.logical as i64) as i32;
    same(
        "places",
        between,
        there.address as i32 - location.address as i32,
    )?;
    let window = device.map(4096, 0)?;
    // Accesses the bytes at `logical` directly, as for a page-backed node.
    for (node, location) in [(taken, location), (other, there)] {
        let memory = device.memory(
            Node {
                pool: Pool::CONTIGUOUS,
                ..node
            },
            location,
            &window,
        )?;
        expect_all("fresh", &memory, 0)?;
        memory.fill(7);
        expect_all("written", &memory, 7)?;
    }
    Ok(())
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
            let used = at_rest(&opened.device)?;
            let before = system::settled_free()?;
            for _ in 0..10 {
                child()?;
            }
            settles("KiB, MMU entries", used, in_use)?;
            system::memory_is_back(before, 512)
        },
    );
}

/// Locks nodes of all pools, frees some of them, and exits without cleaning up.
fn leave() -> ExitCode {
    let go = || -> Result<()> {
        let opened = Opened::new()?;
        for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
            for index in 0..8 {
                let taken = opened.allocate(MIB / 16, pool)?;
                let (_, memory) = opened.memory(taken)?;
                memory.fill(0x5ec2_e700 + index);
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

/// Takes `bytes` of the pool and exits.
fn take_pool(bytes: u32) -> Result<()> {
    let opened = Opened::new()?;
    opened.allocate(bytes, Pool::SYSTEM)?;
    Ok(())
}

/// Writes `bytes` of the pool, in two nodes, and exits.
fn write_pool(bytes: u32) -> Result<()> {
    let opened = Opened::new()?;
    for part in [bytes / 4, bytes - bytes / 4] {
        let taken = opened.allocate(part, Pool::SYSTEM)?;
        let (_, memory) = opened.memory(taken)?;
        if let Some(found) = memory.find_other_than(0) {
            anyhow::bail!("fresh memory holds {found:x?}");
        }
        memory.fill(0xdead_0000);
    }
    Ok(())
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--leave") {
        return leave();
    }
    let bytes = || std::env::args().nth(2)?.parse().ok();
    match std::env::args().nth(1).as_deref() {
        Some("--write-pool") => return harness::exit(write_pool(bytes().unwrap_or(0))),
        Some("--take-pool") => return harness::exit(take_pool(bytes().unwrap_or(0))),
        _ => {}
    }
    if std::env::args().nth(1).as_deref() == Some("--unmapped") {
        return harness::exit(unmapped());
    }
    harness::program(|| {
        let opened = Opened::new()?;
        let mut suite = Suite::new();
        pool_tests(&mut suite, &opened);
        lock_tests(&mut suite, &opened);
        contiguous_tests(&mut suite, &opened);
        walk_tests(&mut suite, &opened);
        virtual_tests(&mut suite, &opened);
        database_tests(&mut suite, &opened);
        owner_tests(&mut suite, &opened);
        suite.run()
    })
}
