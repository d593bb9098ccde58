// SPDX-License-Identifier: GPL-2.0-only
//! Visibility of memory in both directions: the GPU writes and the CPU reads, and the reverse. Covers every pool and
//! user memory.
//!
//! The client follows the interface: FLUSH before the GPU reads data that the CPU wrote to cached memory, INVALIDATE
//! (or UNMAP) before the CPU reads data that the GPU wrote. With `swiotlb=force` user memory is bounced, so a missing
//! synchronization in the driver becomes visible.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Memory;
use galcore_client::sys::Region;
use galcore_client::uapi::cache;
use galcore_client::uapi::MapUserMemory;
use galcore_client::uapi::Pool;
use galcore_client::Client;
use galcore_client::Queue;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::expect_pattern;
use galcore_selftests::video::gpu_copy;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::locked_surface;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::unlock;
use galcore_selftests::video::write_pattern;
use galcore_selftests::video::BLOCK;

const GUARD: u32 = 0x6a7d_6a7d;
const NODE_BYTES: u32 = 40 * BLOCK as u32;

/// Whether the kernel bounces memory of the streaming DMA API.
fn bounces() -> bool {
    let asked = std::fs::read_to_string("/proc/cmdline")
        .is_ok_and(|line| line.split_whitespace().any(|word| word == "swiotlb=force"));
    asked && std::path::Path::new("/sys/kernel/debug/swiotlb").exists()
}

/// User memory with guards around it, mapped for the GPU.
struct Mapped {
    /// All memory, with the guards.
    all: Memory,
    /// The mapped part.
    inside: Memory,
    start: usize,
    mapping: MapUserMemory,
}

impl Mapped {
    /// Maps `bytes` bytes from byte `start` of fresh memory on.
    fn new(client: &Client, start: usize, bytes: usize) -> Result<Self> {
        let pages = (start + bytes).next_multiple_of(4096) + 4096;
        let all = Memory::new(Region::anonymous(pages)?);
        all.fill(GUARD);
        let inside = all.part(start, bytes).context("too short")?;
        let mapping = client.device().map_user(inside.address(), bytes as u64)?;
        same(
            "address in the page",
            u64::from(mapping.address & 4095),
            inside.address() & 4095,
        )?;
        anyhow::ensure!(mapping.address >= 1 << 31, "{:#x}", mapping.address);
        Ok(Self {
            all,
            inside,
            start,
            mapping,
        })
    }

    fn surface(&self) -> Result<Surface> {
        surface_at(self.mapping.address, self.inside.clone())
    }

    fn cache(&self, client: &Client, operation: u32) -> Result<()> {
        let (address, bytes) = (self.inside.address(), self.inside.len() as u64);
        Ok(client.device().cache(operation, 0, address, bytes)?)
    }

    fn expect_guards(&self) -> Result<()> {
        let before = self.all.part(0, self.start).context("before")?;
        expect_all("before the buffer", &before, GUARD)?;
        let end = self.start + self.inside.len();
        let behind = self.all.part(end, self.all.len() - end).context("behind")?;
        expect_all("behind the buffer", &behind, GUARD)
    }
}

fn node_tests(suite: &mut Suite<'_>, pool: Pool, cached: bool) {
    let how = if cached { ", cached" } else { "" };
    let sync = move |client: &Client, operation, node: u64, surface: &Surface| -> Result<()> {
        if cached {
            let bytes = surface.memory.len() as u64;
            let address = surface.memory.address();
            client.device().cache(operation, node, address, bytes)?;
        }
        Ok(())
    };
    suite.test(
        format!("{pool}{how}: the GPU writes, the CPU reads; the CPU writes, the GPU reads"),
        move || {
            let mut client = Client::start()?;
            let (node, target) = locked_surface(&client, NODE_BYTES, pool, cached)?;
            let (other, plain) = locked_surface(&client, NODE_BYTES, Pool::SYSTEM, false)?;
            same(
                "above bit 31",
                target.location.address >> 31 == 1,
                pool == Pool::VIRTUAL,
            )?;
            for round in 0..3 {
                gpu_fill(&mut client, &target, 0xf111_0000 + round)?;
                sync(&client, cache::INVALIDATE, node.handle, &target)?;
                expect_all("filled by the GPU", &target.memory, 0xf111_0000 + round)?;

                write_pattern(&target.memory, round);
                sync(&client, cache::FLUSH, node.handle, &target)?;
                gpu_copy(&mut client, &target, &plain)?;
                expect_pattern("read by the GPU", &plain.memory, round)?;

                write_pattern(&plain.memory, 0x5eed + round);
                gpu_copy(&mut client, &plain, &target)?;
                sync(&client, cache::INVALIDATE, node.handle, &target)?;
                expect_pattern("copied by the GPU", &target.memory, 0x5eed + round)?;
            }
            // The contents survive the lock, and another view shows them.
            unlock(client.device(), node)?;
            let location = client.device().lock(node)?;
            same("GPU address", location.address, target.location.address)?;
            let memory = client.device().memory(node, location, client.pool())?;
            expect_pattern("in the next view", &memory, 0x5eed + 2)?;
            for node in [node, other] {
                unlock(client.device(), node)?;
                client.device().free(node)?;
            }
            Ok(())
        },
    );
}

fn user_tests(suite: &mut Suite<'_>) {
    for (what, start, blocks) in [
        ("whole pages", 0, 24),
        ("inside one page", 0x204, 4),
        ("from the end of one page into the next", 0xffc, 1),
        ("partial first and last page", 0xf34, 17),
        ("partial first page, to the end of the last", 0xe00, 9),
        ("larger than a MiB, unaligned", 0x7f8, 2300),
    ] {
        suite.test(
            format!("user memory, {what}: both ways, and nothing beside it"),
            move || {
                let mut client = Client::start()?;
                let bytes = blocks * BLOCK;
                let mapped = Mapped::new(&client, start, bytes)?;
                let target = mapped.surface()?;
                let (other, plain) = locked_surface(&client, bytes as u32, Pool::SYSTEM, false)?;

                gpu_fill(&mut client, &target, 0xab1e_0001)?;
                mapped.cache(&client, cache::INVALIDATE)?;
                expect_all("filled by the GPU", &mapped.inside, 0xab1e_0001)?;

                write_pattern(&mapped.inside, 7);
                mapped.cache(&client, cache::FLUSH)?;
                gpu_copy(&mut client, &target, &plain)?;
                expect_pattern("read by the GPU", &plain.memory, 7)?;

                write_pattern(&plain.memory, 8);
                gpu_copy(&mut client, &plain, &target)?;
                mapped.cache(&client, cache::INVALIDATE)?;
                expect_pattern("copied by the GPU", &mapped.inside, 8)?;
                mapped.expect_guards()?;

                client.device().unmap_user(&mapped.mapping)?;
                expect_pattern("after UNMAP", &mapped.inside, 8)?;
                mapped.expect_guards()?;
                unlock(client.device(), other)?;
                Ok(client.device().free(other)?)
            },
        );
    }
    suite.test("user memory: what is there at MAP, the GPU reads", || {
        let mut client = Client::start()?;
        let all = Memory::new(Region::anonymous(8 * 4096)?);
        let inside = all.part(0x774, 8 * BLOCK).context("part")?;
        write_pattern(&inside, 11);
        let mapping = client
            .device()
            .map_user(inside.address(), inside.len() as u64)?;
        let source = surface_at(mapping.address, inside.clone())?;
        let (_, plain) = locked_surface(&client, 8 * BLOCK as u32, Pool::SYSTEM, false)?;
        gpu_copy(&mut client, &source, &plain)?;
        expect_pattern("read by the GPU", &plain.memory, 11)?;
        Ok(client.device().unmap_user(&mapping)?)
    });
    suite.test(
        "user memory: pages behind one another are so for the GPU",
        || {
            let mut client = Client::start()?;
            let mapped = Mapped::new(&client, 0, 64 * 4096)?;
            let target = mapped.surface()?;
            let control = Control::open()?;
            // One block in every page, so that no page is left untested.
            for page in 0..64 {
                let part = mapped.inside.part(page * 4096, BLOCK).context("part")?;
                let address = target.location.address + page as u32 * 4096;
                gpu_fill(
                    &mut client,
                    &surface_at(address, part)?,
                    0x9a6e_0000 + page as u32,
                )?;
            }
            mapped.cache(&client, cache::INVALIDATE)?;
            for page in 0..64 {
                let part = mapped.inside.part(page * 4096, BLOCK).context("part")?;
                expect_all(&format!("page {page}"), &part, 0x9a6e_0000 + page as u32)?;
            }
            client.device().unmap_user(&mapped.mapping)?;
            same("violations", control.violations(), 0)
        },
    );
}

fn unmap_tests(suite: &mut Suite<'_>) {
    for by_record in [false, true] {
        let how = if by_record {
            "an UNMAP record"
        } else {
            "UNMAP"
        };
        suite.test(
            format!("user memory: after {how} the CPU has what the GPU wrote"),
            move || {
                let mut client = Client::start()?;
                let mapped = Mapped::new(&client, 0xe34, 11 * BLOCK)?;
                gpu_fill(&mut client, &mapped.surface()?, 0x0dd5_eed5)?;
                unmap(&client, &mapped, by_record)?;
                expect_all("the buffer", &mapped.inside, 0x0dd5_eed5)?;
                mapped.expect_guards()
            },
        );
        suite.test(
            format!("user memory: what the CPU writes after {how} stays"),
            move || {
                let used = at_rest(ProcGc::mmu_used_now)?;
                let mut client = Client::start()?;
                let mapped = Mapped::new(&client, 0xe34, 11 * BLOCK)?;
                gpu_fill(&mut client, &mapped.surface()?, 0x0dd5_eed5)?;
                unmap(&client, &mapped, by_record)?;
                // The client owns the memory again: its allocator may reuse it from here on.
                mapped.all.fill(0xc0ff_ee00);
                settles("MMU entries used", used, ProcGc::mmu_used_now)?;
                std::thread::sleep(Duration::from_millis(100));
                expect_all("all of it", &mapped.all, 0xc0ff_ee00)
            },
        );
    }
    suite.test(
        "user memory: what the CPU writes beside the buffer while it is mapped stays",
        || {
            let mut client = Client::start()?;
            let mapped = Mapped::new(&client, 0xe34, 11 * BLOCK)?;
            let end = mapped.start + mapped.inside.len();
            mapped.all.write(mapped.start - 4, 0xbe51_de00);
            mapped.all.write(end, 0xbe51_de01);
            gpu_fill(&mut client, &mapped.surface()?, 1)?;
            mapped.cache(&client, cache::INVALIDATE)?;
            mapped.all.write(mapped.start - 8, 0xbe51_de02);
            mapped.all.write(end + 4, 0xbe51_de03);
            unmap(&client, &mapped, false)?;
            drop(client);
            std::thread::sleep(Duration::from_millis(100));
            let found = [mapped.start - 4, end, mapped.start - 8, end + 4]
                .map(|offset| mapped.all.read(offset));
            let wanted = [0xbe51_de00, 0xbe51_de01, 0xbe51_de02, 0xbe51_de03];
            same("words beside the buffer", found, wanted)
        },
    );
    suite.test("without CACHE a bounced buffer shows nothing", || {
        if !bounces() {
            return harness::skip(
                "nothing is bounced: no swiotlb=force, or a kernel without SWIOTLB",
            );
        }
        let mut client = Client::start()?;
        let mapped = Mapped::new(&client, 0, 8 * BLOCK)?;
        gpu_fill(&mut client, &mapped.surface()?, 0x0dd5_eed5)?;
        expect_all("before INVALIDATE", &mapped.inside, GUARD)?;
        mapped.cache(&client, cache::INVALIDATE)?;
        expect_all("after INVALIDATE", &mapped.inside, 0x0dd5_eed5)?;
        Ok(client.device().unmap_user(&mapped.mapping)?)
    });
}

fn unmap(client: &Client, mapped: &Mapped, by_record: bool) -> Result<()> {
    let device = client.device();
    if !by_record {
        return Ok(device.unmap_user(&mapped.mapping)?);
    }
    let done = device.create_signal(false)?;
    device.commit_queue(Queue::new().unmap_user(&mapped.mapping).signal(done))?;
    device.wait_signal(done, 5000)?;
    Ok(device.destroy_signal(done)?)
}

fn main() -> ExitCode {
    let must_bounce = std::env::args().any(|word| word == "--bounced");
    harness::program(|| {
        anyhow::ensure!(
            bounces() || !must_bounce,
            "nothing is bounced: no swiotlb=force, or a kernel without SWIOTLB"
        );
        println!(
            "# user memory is {}bounced",
            if bounces() { "" } else { "not " }
        );
        let mut suite = Suite::new();
        for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
            node_tests(&mut suite, pool, false);
        }
        node_tests(&mut suite, Pool::VIRTUAL, true);
        user_tests(&mut suite);
        unmap_tests(&mut suite);
        suite.test("no violation", || {
            same("violations", Control::open()?.violations(), 0)
        });
        suite.run()
    })
}
