// SPDX-License-Identifier: GPL-2.0-only
//! The pool's banks: a surface's type selects its bank. Needs a pool of 128 MiB at 0x78000000, its address in the trace
//! of the seeds, and `bankSize=0x1000000`.

use std::process::ExitCode;

use anyhow::Result;
use galcore_client::device::Node;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::video::Opened;

const BANK: u32 = 16 << 20;
const BANKS: u32 = 8;

fn main() -> ExitCode {
    harness::program(|| {
        let opened = &Opened::new()?;
        let device = &opened.device;
        if opened.pool.len() as u32 != BANK * BANKS {
            return harness::skip("the pool is not 8 banks of 16 MiB");
        }
        if system::told("contiguousBase") != Some(0x7800_0000) {
            return harness::skip("the pool is not at 0x78000000");
        }
        let base = 0x7800_0000 - device.base_address()?;
        let address = |node: Node| -> Result<u32> {
            let address = device.lock(node)?.address;
            device.unlock(node)?;
            Ok(address)
        };
        let bank = |node: Node| -> Result<u32> { Ok((address(node)? - base) / BANK) };
        let mut suite = Suite::new();
        suite.test("the types' banks: N minus 1 for colour, 2 depth, 3 texture, 4 vertex, 5 index, 6 tile status", || {
            for (kind, wanted) in [
                (surface::RENDER_TARGET, 7),
                (surface::BITMAP, 7),
                (surface::DEPTH, 6),
                (11, 6),
                (surface::TEXTURE, 5),
                (surface::VERTEX, 4),
                (surface::INDEX, 3),
                (surface::TILE_STATUS, 2),
                (surface::UNKNOWN, 0),
                (8, 0),
                (9, 0),
                (10, 0),
            ] {
                let node = device.allocate(0x1_0000, 64, kind, Pool::DEFAULT)?;
                same(&format!("bank of type {kind}"), bank(node)?, wanted)?;
                same("place in the bank", address(node)? % BANK, 0)?;
                device.free(node)?;
            }
            Ok(())
        });
        suite.test(
            "a frame of the seeds' trace has its address pattern",
            || {
                // Type, bytes, highest byte of the address, in the order of the trace.
                let nodes = [
                    (surface::RENDER_TARGET, 0x7_0000, 0x7f),
                    (surface::TILE_STATUS, 0x700, 0x7a),
                    (surface::DEPTH, 0x3_8000, 0x7e),
                    (surface::TILE_STATUS, 0x400, 0x7a),
                    (surface::VERTEX, 0x6_0000, 0x7c),
                    (surface::RENDER_TARGET, 0x7_0000, 0x7f),
                ]
                .map(|(kind, bytes, first)| {
                    (device.allocate(bytes, 0x40, kind, Pool::DEFAULT), first)
                });
                for (node, first) in nodes {
                    let node = node?;
                    let at = address(node)?;
                    println!("# type {} at {at:#010x}", node.surface_type);
                    same("pool", node.pool, Pool::SYSTEM)?;
                    same("aligned to 64 and below bit 31", at & 0x8000_003f, 0)?;
                    same("first byte", at >> 24, first)?;
                    device.free(node)?;
                }
                Ok(())
            },
        );
        suite.test(
            "a full bank: first the ones below it, downwards, then those above",
            || {
                let mut nodes = Vec::new();
                let mut order = Vec::new();
                for _ in 0..BANKS - 1 {
                    let node = device.allocate(BANK - 4096, 64, surface::VERTEX, Pool::SYSTEM)?;
                    order.push(bank(node)?);
                    nodes.push(node);
                }
                same("banks", order, vec![4, 3, 2, 1, 0, 5, 6])?;
                for node in nodes {
                    device.free(node)?;
                }
                Ok(())
            },
        );
        suite.test("no surface is larger than a bank", || {
            let larger = device.allocate(BANK + 4096, 64, surface::BITMAP, Pool::SYSTEM);
            refused("SYSTEM", larger, Status::OUT_OF_MEMORY)?;
            let whole = device.allocate(BANK, 64, surface::BITMAP, Pool::SYSTEM)?;
            same("bank", bank(whole)?, 7)?;
            device.free(whole)?;
            let elsewhere = device.allocate(BANK + 4096, 64, surface::BITMAP, Pool::DEFAULT)?;
            same("pool of the next", elsewhere.pool, Pool::CONTIGUOUS)?;
            Ok(device.free(elsewhere)?)
        });
        suite.run()
    })
}
