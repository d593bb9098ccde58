// SPDX-License-Identifier: GPL-2.0-only
//! The pool in a memory region of the device tree: the whole region, a part of it, allocated from it, and refused
//! regions.
//!
//! Needs the device tree `pool-regions`, in which one core has a node for each kind of region.

use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Client;
use galcore_selftests::control::Control;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::Module;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::surface_at;

const MIB: u32 = 1 << 20;

/// The regions of the device tree: start, bytes.
const LENT: (u32, u32) = (0x5000_0000, 16 * MIB);
const FIXED: (u32, u32) = (0x5100_0000, 8 * MIB);

/// The driver's message for each region that cannot be the pool.
const REFUSALS: [(&str, &str); 3] = [
    ("gpu-kernel", "memory that the kernel uses itself"),
    ("gpu-crooked", "between pages"),
    ("gpu-far", "2 GiB above the base address"),
];

/// The driver's error lines while it was loaded.
fn errors(log: &mut KernelLog) -> Result<Vec<String>> {
    let lines = log.lines()?.into_iter();
    Ok(lines
        .filter(|line| line.level <= 3 && line.text.contains("galcore"))
        // The kernel's generic message about each failed probe.
        .filter(|line| !line.text.contains("probe with driver"))
        .map(|line| line.text)
        .collect())
}

/// Fails unless the log has exactly one line for each of `wanted`.
fn expect_errors(found: &[String], wanted: &[(&str, &str)]) -> Result<()> {
    for line in found {
        println!("# {line}");
    }
    for (node, word) in wanted {
        let fits = |line: &&String| line.contains(node) && line.contains(word);
        let count = found.iter().filter(fits).count();
        same(&format!("lines about {node} with {word:?}"), count, 1)?;
    }
    same("error lines", found.len(), wanted.len())
}

/// Fails unless the pool has `bytes` and is in `place`. The GPU's address must match, and on the pool's first and last
/// page the CPU must read through the mapping the data that the GPU writes.
fn expect_pool(bytes: u32, place: (u32, u32)) -> Result<()> {
    let mut client = Client::start()?;
    let device = client.device();
    same(
        "bytes",
        device.video_memory()?.contiguous_size,
        bytes.into(),
    )?;
    same(
        "KiB in /proc",
        ProcGc::read()?.reserved()?,
        u64::from(bytes / 1024),
    )?;
    // A 32nd is reserved for small nodes: allocates one large node, and then pages.
    let mut nodes = vec![device.allocate(bytes / 4 * 3, 64, surface::BITMAP, Pool::SYSTEM)?];
    while let Ok(node) = device.allocate(4095, 64, surface::BITMAP, Pool::SYSTEM) {
        nodes.push(node);
    }
    let mut covered = 0;
    let mut places = Vec::new();
    for node in &nodes {
        let location = device.lock(*node)?;
        let memory = device.memory(*node, location, client.pool())?;
        ensure!(
            location.address >= place.0
                && location.address + memory.len() as u32 <= place.0 + place.1,
            "GPU address {:#x}",
            location.address
        );
        covered += node.bytes.next_multiple_of(4096);
        places.push((location.address, memory));
    }
    same("bytes of all nodes", covered, bytes)?;
    for index in [0, 1, places.len() - 1] {
        let (address, memory) = &places[index];
        let end = memory.len() / 512 * 512 - 512;
        for offset in [0, end] {
            let part = memory.part(offset, 512).context("part")?;
            let target = surface_at(address + offset as u32, part.clone())?;
            let colour = 0xc0de_0000 + index as u32;
            gpu_fill(&mut client, &target, colour)?;
            expect_all("filled by the GPU", &part, colour)?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    harness::program(|| {
        let module = &Module::from_words(&[])?;
        let control = &Control::open()?;
        let load = |changes: &[&str]| -> Result<Vec<String>> {
            let mut log = KernelLog::from_now()?;
            module.with(changes).load_or_fail()?;
            errors(&mut log)
        };
        let mut suite = Suite::new();
        suite.test(
            "a region that is kept from the kernel is the pool, whole",
            || {
                let found = load(&["contiguousBase", "contiguousSize"])?;
                expect_errors(
                    &found,
                    &[
                        &REFUSALS[..],
                        &[("gpu-lent", "the registers at 0x10000000 are taken")],
                    ]
                    .concat(),
                )?;
                expect_pool(FIXED.1, FIXED)?;
                Module::unload()
            },
        );
        suite.test(
            "parameters for the same core: enabled nodes decide, not a disabled one before them",
            || {
                let mut log = KernelLog::from_now()?;
                let of_core = [
                    "registerMemBase=0x10000000",
                    "registerMemSize=0x40000",
                    "irqLine=36",
                ];
                let changes = [&of_core[..], &["contiguousBase", "contiguousSize"]].concat();
                module.with(&changes).load_or_fail()?;
                let used = "the device tree describes the core at 0x10000000: its node is used";
                let lines = log.lines()?;
                ensure!(
                    lines.iter().any(|line| line.text.contains(used)),
                    "{lines:?}"
                );
                expect_pool(FIXED.1, FIXED)?;
                Module::unload()
            },
        );
        suite.test("contiguousSize takes the first part of it", || {
            let found = load(&["contiguousBase", "contiguousSize=0x200000"])?;
            expect_errors(
                &found,
                &[
                    &REFUSALS[..],
                    &[("gpu-lent", "the registers at 0x10000000 are taken")],
                ]
                .concat(),
            )?;
            expect_pool(2 * MIB, (FIXED.0, 2 * MIB))?;
            Module::unload()
        });
        suite.test(
            "a region that the kernel lends out: the pool and all else is allocated there",
            || {
                // Larger than the other region, which is refused for that reason.
                let found = load(&["contiguousBase", "contiguousSize=0xa00000"])?;
                let too_small = [
                    ("gpu-kernel", "smaller than contiguousSize"),
                    ("gpu-crooked", "between pages"),
                    ("gpu-far", "2 GiB above the base address"),
                    ("gpu-fixed", "smaller than contiguousSize"),
                ];
                expect_errors(&found, &too_small)?;
                expect_pool(10 * MIB, LENT)?;
                let client = Client::start()?;
                let buffer = client.device().allocate_contiguous(0x8000)?;
                ensure!(
                    (LENT.0..LENT.0 + LENT.1).contains(&buffer.address),
                    "a buffer is at {:#x}",
                    buffer.address
                );
                client.device().free_contiguous(&buffer)?;
                drop(client);
                Module::unload()
            },
        );
        suite.test(
            "a region that is smaller than contiguousSize is refused",
            || {
                let found = load(&["contiguousBase", "contiguousSize=0x2000000"])?;
                for node in ["gpu-kernel", "gpu-fixed", "gpu-lent"] {
                    let about = found.iter().filter(|line| line.contains(node));
                    let named = about.filter(|line| line.contains("smaller than contiguousSize"));
                    same(node, named.count(), 1)?;
                }
                ensure!(
                    galcore_client::Device::open().is_err(),
                    "the device can be opened"
                );
                Module::unload()
            },
        );
        suite.test("contiguousBase goes before the region", || {
            let base = module
                .number("contiguousBase")
                .context("no contiguousBase")? as u32;
            let size = module
                .number("contiguousSize")
                .context("no contiguousSize")? as u32;
            let found = load(&[])?;
            let others = ["gpu-crooked", "gpu-far", "gpu-fixed", "gpu-lent"];
            expect_errors(
                &found,
                &others.map(|node| (node, "the registers at 0x10000000 are taken")),
            )?;
            let client = Client::start()?;
            let device = client.device();
            same("bytes", device.video_memory()?.contiguous_size, size.into())?;
            let node = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
            let address = device.lock(node)?.address;
            ensure!(
                (base..base + size).contains(&address),
                "GPU address {address:#x}"
            );
            drop(client);
            Module::unload()
        });
        suite.test(
            "contiguousSize 0 makes no pool, whatever the region",
            || {
                load(&["contiguousBase", "contiguousSize=0"])?;
                let client = galcore_client::Device::open()?;
                same("bytes", client.video_memory()?.contiguous_size, 0)?;
                drop(client);
                Module::unload()
            },
        );
        suite.test("the GPU has nothing to complain of", || {
            same("violations", control.violations(), 0)
        });
        suite.run()
    })
}
