// SPDX-License-Identifier: GPL-2.0-only
//! The GPU's address space as the engines see it: adjacent pages, addresses that change owners, and memory that a
//! process must not reach.
//!
//! With MMU version 2, an access outside of the client's memory raises an exception. The kernel reports it, and all
//! clients continue. With version 1, such an access above bit 31 reaches a scratch page.
//!
//! Needs `streamCheck=1`: with the address check, COMMIT would refuse most of these accesses.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Memory;
use galcore_client::sys::Region;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Client;
use galcore_client::Queue;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::reference;
use galcore_selftests::system;
use galcore_selftests::system::memory_file;
use galcore_selftests::system::KernelLog;
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
use gpu_control::counter;
use gpu_control::FE_ADDRESS;

const PAGE: usize = 4096;

/// Bytes that a first-level entry of MMU version 2 covers.
const FIRST_LEVEL: u32 = 4 << 20;

/// Start of the kernel's own memory on the virtual board, and an unused address: the last one below scratch memory.
const RAM: u32 = 0x4000_0000;
const NOWHERE: u32 = 0xfbff_0000;

/// Minor features 1: MMU version 2.
const MMU_V2: u32 = 1 << 28;

/// Prefix of the kernel's line.
const REPORT: &str = "the GPU's MMU did not let an access through: ";

/// A surface that the client only claims to own.
fn forged(address: u32) -> Result<Surface> {
    surface_at(
        address,
        Memory::new(Region::anonymous(PAGE)?)
            .part(0, BLOCK)
            .context("part")?,
    )
}

/// Runs `action`. Returns the number of MMU exceptions that the GPU model raised and the kernel's lines about them.
fn excepted(control: &Control, action: impl FnOnce() -> Result<()>) -> Result<(u32, Vec<String>)> {
    let mut log = KernelLog::from_now()?;
    let met = control.exceptions(action)?;
    // The interrupt thread prints the line. The client may have been woken before that.
    std::thread::sleep(Duration::from_millis(50));
    let lines = log.lines()?.into_iter().map(|line| line.text);
    let said = lines
        .filter_map(|text| text.split_once(REPORT).map(|(_, what)| what.to_string()))
        .collect();
    Ok((met, said))
}

/// One draw that the MMU must block, and the kernel's expected line.
fn refused_draw(control: &Control, client: &mut Client, address: u32, cause: &str) -> Result<()> {
    let target = forged(address)?;
    let (met, said) = excepted(control, || gpu_fill(client, &target, 0xbad0_bad0))?;
    ensure!(met > 0, "the GPU model met no exception");
    let wanted = format!("{cause} at {address:#010x} ");
    ensure!(
        said.iter().any(|line| line.starts_with(&wanted)),
        "the kernel says {said:?}, wanted {wanted:?}"
    );
    Ok(())
}

/// This client and another one can still draw.
fn still_draws(client: &mut Client) -> Result<()> {
    let mut other = Client::start()?;
    for client in [client, &mut other] {
        let (node, target) = locked_surface(client, BLOCK as u32, Pool::SYSTEM, false)?;
        gpu_fill(client, &target, 0x600d_600d)?;
        expect_all("after the exception", &target.memory, 0x600d_600d)?;
        unlock(client.device(), node)?;
        client.device().free(node)?;
    }
    Ok(())
}

fn page_tests<'a>(suite: &mut Suite<'a>, control: &'a Control) {
    suite.test(
        "a node over a first-level boundary: every page is its own",
        || {
            let mut client = Client::start()?;
            let (total, before) = ProcGc::read()?.mmu()?;
            same("pages in all", total, (1 << 19) - (1 << 14))?;
            // Large enough to contain a boundary at any address.
            let bytes = FIRST_LEVEL + 3 * PAGE as u32;
            let (node, target) = locked_surface(&client, bytes, Pool::VIRTUAL, false)?;
            let pages = u64::from(bytes) / PAGE as u64;
            same("pages in use", ProcGc::mmu_used_now()?, before + pages)?;
            let address = target.location.address;
            let boundary = (address + 1).next_multiple_of(FIRST_LEVEL);
            let there = (boundary - address) as usize;
            for (colour, at) in [0, there - PAGE, there, bytes as usize - PAGE]
                .into_iter()
                .enumerate()
            {
                let part = target.memory.part(at, PAGE).context("part")?;
                let part = surface_at(address + at as u32, part)?;
                gpu_fill(&mut client, &part, 0x9a6e_0000 + colour as u32)?;
            }
            // One draw across the boundary.
            let part = target
                .memory
                .part(there - BLOCK, 2 * BLOCK)
                .context("part")?;
            let part = surface_at(boundary - BLOCK as u32, part)?;
            gpu_fill(&mut client, &part, 0xac05_5000)?;
            expect_all("across", &part.memory, 0xac05_5000)?;
            for (at, end, colour) in [
                (0, PAGE, 0x9a6e_0000),
                (there - PAGE, there - BLOCK, 0x9a6e_0001),
                (there + BLOCK, there + PAGE, 0x9a6e_0002),
                (bytes as usize - PAGE, bytes as usize, 0x9a6e_0003),
                // Not drawn.
                (PAGE, 2 * PAGE, 0),
            ] {
                let part = target.memory.part(at, end - at).context("part")?;
                expect_all(&format!("from {at:#x}"), &part, colour)?;
            }
            unlock(client.device(), node)?;
            client.device().free(node)?;
            settles("pages in use", before, ProcGc::mmu_used_now)
        },
    );
    suite.test(
        "an address that changes hands leads to its new pages",
        move || {
            let mut client = Client::start()?;
            let before = at_rest(ProcGc::mmu_used_now)?;
            let flushes = control.counter(counter::TLB_FLUSHES);
            // Both stay allocated, so their pages differ for certain.
            let buffers: Vec<_> = [(); 2]
                .map(|()| Region::anonymous(4 * PAGE).map(Memory::new))
                .into_iter()
                .collect::<std::result::Result<_, _>>()?;
            let mut address = None;
            for round in 0..8 {
                let (mine, others) = (&buffers[round % 2], &buffers[(round + 1) % 2]);
                others.fill(0x0dd0_0000 + round as u32);
                let mapping = client
                    .device()
                    .map_user(mine.address(), mine.len() as u64)?;
                same(
                    "GPU address",
                    mapping.address,
                    *address.get_or_insert(mapping.address),
                )?;
                same("pages in use", ProcGc::mmu_used_now()?, before + 4)?;
                let target = surface_at(mapping.address, mine.clone())?;
                gpu_fill(&mut client, &target, 0xf111_0000 + round as u32)?;
                client.device().unmap_user(&mapping)?;
                expect_all("the buffer", mine, 0xf111_0000 + round as u32)?;
                expect_all("the other buffer", others, 0x0dd0_0000 + round as u32)?;
                settles("pages in use", before, ProcGc::mmu_used_now)?;
            }
            ensure!(control.counter(counter::TLB_FLUSHES) > flushes, "no flush");
            same("violations", control.violations(), 0)
        },
    );
}

fn version_1_tests<'a>(suite: &mut Suite<'a>, control: &'a Control) {
    suite.test(
        "version 1: an address that nobody has leads to a scratch page",
        move || {
            let mut client = Client::start()?;
            gpu_fill(&mut client, &forged(NOWHERE)?, 0xbad0_bad0)?;
            still_draws(&mut client)?;
            same("violations", control.violations(), 0)
        },
    );
}

fn version_2_tests<'a>(suite: &mut Suite<'a>, control: &'a Control) {
    suite.test("the base address is 0", || {
        same("baseAddress", Client::start()?.base_address(), 0)
    });
    suite.test(
        "an address that nobody has: an exception, and everything goes on",
        move || {
            let mut client = Client::start()?;
            refused_draw(control, &mut client, NOWHERE, "no second-level table")?;
            still_draws(&mut client)?;
            let (node, target) = locked_surface(&client, PAGE as u32, Pool::VIRTUAL, false)?;
            gpu_fill(&mut client, &target, 1)?;
            refused_draw(
                control,
                &mut client,
                target.location.address + PAGE as u32,
                "no page",
            )?;
            expect_all("the node before it", &target.memory, 1)?;
            unlock(client.device(), node)?;
            Ok(client.device().free(node)?)
        },
    );
    suite.test(
        "a read of the kernel's memory: an exception and zeros",
        move || {
            let mut client = Client::start()?;
            let (_, plain) = locked_surface(&client, BLOCK as u32, Pool::SYSTEM, false)?;
            plain.memory.fill(0xffff_ffff);
            let source = forged(RAM + 0x8000)?;
            let (met, said) = excepted(control, || gpu_copy(&mut client, &source, &plain))?;
            ensure!(met > 0 && !said.is_empty(), "{met} met, {said:?}");
            expect_all("what was read", &plain.memory, 0)
        },
    );
    suite.test("the ring can be run, not written", move || {
        let mut client = Client::start()?;
        let ring = system::awake(|| control.read(FE_ADDRESS))? & !(PAGE as u32 - 1);
        refused_draw(control, &mut client, ring, "write to a read-only page")?;
        still_draws(&mut client)
    });
    suite.test(
        "user memory that its process cannot write, the GPU can only read",
        move || {
            let mut client = Client::start()?;
            let file = memory_file(2 * PAGE as u64)?;
            let whole = Memory::new(Region::map(file.try_clone()?, 2 * PAGE, 0)?);
            write_pattern(&whole, 5);
            let shown = Memory::new(Region::map_read_only(file, 2 * PAGE, 0)?);
            let mapping = client
                .device()
                .map_user(shown.address(), shown.len() as u64)?;
            let (_, plain) = locked_surface(&client, 2 * PAGE as u32, Pool::SYSTEM, false)?;
            gpu_copy(
                &mut client,
                &surface_at(mapping.address, shown.clone())?,
                &plain,
            )?;
            expect_pattern("what the GPU read", &plain.memory, 5)?;
            refused_draw(
                control,
                &mut client,
                mapping.address,
                "write to a read-only page",
            )?;
            // The kernel does not write there for the client either.
            let (device, mut queue) = (client.device(), Queue::new());
            queue.write_data(mapping.address, 0xbad0_bad0);
            refused(
                "WRITE_DATA",
                device.commit_queue(&mut queue),
                Status::INVALID_ADDRESS,
            )?;
            device.unmap_user(&mapping)?;
            expect_pattern("the memory", &whole, 5)
        },
    );
    for pool in [Pool::CONTIGUOUS, Pool::VIRTUAL] {
        suite.test(
            format!("{pool}: what was freed is out of reach"),
            move || {
                let mut client = Client::start()?;
                let before = at_rest(ProcGc::mmu_used_now)?;
                let (node, target) = locked_surface(&client, PAGE as u32, pool, false)?;
                gpu_fill(&mut client, &target, 7)?;
                expect_all("before", &target.memory, 7)?;
                let address = target.location.address;
                drop(target);
                unlock(client.device(), node)?;
                client.device().free(node)?;
                settles("pages in use", before, ProcGc::mmu_used_now)?;
                refused_draw(control, &mut client, address, "no page")?;
                still_draws(&mut client)
            },
        );
    }
    suite.test(
        "many exceptions: a few lines, and everything goes on",
        move || {
            let mut client = Client::start()?;
            let target = forged(NOWHERE)?;
            let (met, said) = excepted(control, || {
                (0..200).try_for_each(|round| gpu_fill(&mut client, &target, round))
            })?;
            println!("# {met} exceptions, {} lines", said.len());
            ensure!(met >= 200, "{met} exceptions");
            ensure!(said.len() <= 100, "{} lines", said.len());
            still_draws(&mut client)
        },
    );
}

fn main() -> ExitCode {
    harness::program(|| {
        let control = &Control::open()?;
        let identity = reference::identity(reference::board(control)?);
        let is_v2 = identity.chip_minor_features1 & MMU_V2 != 0;
        println!("# MMU version {}", if is_v2 { 2 } else { 1 });
        let mut suite = Suite::new();
        page_tests(&mut suite, control);
        if is_v2 {
            version_2_tests(&mut suite, control);
        } else {
            version_1_tests(&mut suite, control);
        }
        suite.test("no violation that was not asked for", || {
            same("violations", control.violations(), 0)
        });
        suite.run()
    })
}
