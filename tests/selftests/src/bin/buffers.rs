// SPDX-License-Identifier: GPL-2.0-only
//! ALLOCATE and FREE of contiguous and of non-paged memory.

use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Result;
use galcore_client::device::Buffer;
use galcore_client::device::Device;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Status;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;

/// The kind of memory.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Contiguous,
    NonPaged,
}

impl Kind {
    fn allocate(self, device: &Device, bytes: u64) -> galcore_client::device::Result<Buffer> {
        match self {
            Kind::Contiguous => device.allocate_contiguous(bytes),
            Kind::NonPaged => device.allocate_non_paged(bytes),
        }
    }

    fn free(self, device: &Device, buffer: &Buffer) -> galcore_client::device::Result<()> {
        match self {
            Kind::Contiguous => device.free_contiguous(buffer),
            Kind::NonPaged => device.free_non_paged(buffer),
        }
    }

    /// Sends FREE with arbitrary numbers.
    fn free_raw(self, device: &Device, bytes: u64, physical: u32, logical: u64) -> Result<Status> {
        let command = match self {
            Kind::Contiguous => Command::FREE_CONTIGUOUS_MEMORY,
            Kind::NonPaged => Command::FREE_NON_PAGED_MEMORY,
        };
        let payload = uapi::FreeNonPagedMemory {
            bytes,
            physical,
            logical,
        };
        Ok(device.send(command, &payload)?.0)
    }
}

fn tests<'a>(suite: &mut Suite<'a>, device: &'a Device, kind: Kind) {
    suite.test(
        format!("{kind:?}: sizes are rounded up to pages"),
        move || {
            for (asked, got) in [
                (1, 4096),
                (4096, 4096),
                (4097, 8192),
                (0x8000, 0x8000),
                (300_000, 303_104),
            ] {
                let buffer = kind.allocate(device, asked)?;
                same(&format!("{asked} bytes"), buffer.bytes, got)?;
                ensure!(
                    buffer.physical != 0 && buffer.physical <= 0x7fff_ffff,
                    "handle {:#x}",
                    buffer.physical
                );
                same("address in the page", buffer.logical & 4095, 0)?;
                kind.free(device, &buffer)?;
            }
            Ok(())
        },
    );
    suite.test(
        format!("{kind:?}: memory reads as zeros and holds what is written"),
        move || {
            for round in 0..4 {
                let buffer = kind.allocate(device, 0x1_8000)?;
                same(
                    &format!("word not 0 in round {round}"),
                    buffer.memory.find_other_than(0),
                    None,
                )?;
                buffer.memory.fill(0xabcd_0000 | round);
                same(
                    "read back",
                    buffer.memory.find_other_than(0xabcd_0000 | round),
                    None,
                )?;
                kind.free(device, &buffer)?;
            }
            Ok(())
        },
    );
    suite.test(format!("{kind:?}: a free takes the mapping"), move || {
        let buffer = kind.allocate(device, 0x8000)?;
        system::expect_mapped(buffer.logical, true)?;
        system::expect_mapped(buffer.logical + buffer.bytes - 1, true)?;
        kind.free(device, &buffer)?;
        system::expect_mapped(buffer.logical, false)
    });
    suite.test(
        format!("{kind:?}: 64 at a time do not overlap"),
        move || {
            let mut buffers = Vec::new();
            for index in 0..64 {
                let buffer = kind.allocate(device, 0x8000)?;
                buffer.memory.fill(index);
                buffers.push(buffer);
            }
            for (index, buffer) in buffers.iter().enumerate() {
                same(
                    "foreign word",
                    buffer.memory.find_other_than(index as u32),
                    None,
                )?;
                let twins = buffers
                    .iter()
                    .filter(|other| other.physical == buffer.physical);
                same("buffers with this handle", twins.count(), 1)?;
            }
            for buffer in buffers.iter().rev() {
                kind.free(device, buffer)?;
            }
            Ok(())
        },
    );
    suite.test(
        format!("{kind:?}: 0 bytes, and more than there is, are refused"),
        move || {
            refused(
                "0 bytes",
                kind.allocate(device, 0),
                Status::INVALID_ARGUMENT,
            )?;
            for bytes in [
                0x4000_0000,
                0xffff_f001,
                1 << 32,
                1 << 40,
                u64::MAX - 4096,
                u64::MAX,
            ] {
                let result = kind.allocate(device, bytes);
                refused(&format!("{bytes:#x} bytes"), result, Status::OUT_OF_MEMORY)?;
            }
            Ok(())
        },
    );
    suite.test(
        format!("{kind:?}: FREE wants all three fields and a known handle"),
        move || {
            let buffer = kind.allocate(device, 4096)?;
            let (bytes, physical, logical) = (buffer.bytes, buffer.physical, buffer.logical);
            for (what, bytes, physical, logical, wanted) in [
                ("no bytes", 0, physical, logical, Status::INVALID_ARGUMENT),
                ("no handle", bytes, 0, logical, Status::INVALID_ARGUMENT),
                ("no address", bytes, physical, 0, Status::INVALID_ARGUMENT),
                (
                    "unknown handle",
                    bytes,
                    0x7fff_fff0,
                    logical,
                    Status::NOT_FOUND,
                ),
                (
                    "handle above 31 bits",
                    bytes,
                    0xc123_4567,
                    logical,
                    Status::NOT_FOUND,
                ),
            ] {
                same(
                    what,
                    kind.free_raw(device, bytes, physical, logical)?,
                    wanted,
                )?;
            }
            system::expect_mapped(logical, true)?;
            kind.free(device, &buffer)?;
            refused("second FREE", kind.free(device, &buffer), Status::NOT_FOUND)
        },
    );
    suite.test(
        format!("{kind:?}: MAP_MEMORY and UNMAP_MEMORY end the view and make it anew"),
        move || {
            let buffer = kind.allocate(device, 0x3000)?;
            buffer.memory.fill(0x1234_5678);
            let (id, first) = (buffer.physical, buffer.logical);
            same("MAP of a mapped one", device.map_memory(id)?, first)?;
            device.unmap_memory(id)?;
            system::expect_mapped(first, false)?;
            refused(
                "second UNMAP",
                device.unmap_memory(id),
                Status::INVALID_ARGUMENT,
            )?;
            let second = device.map_memory(id)?;
            system::expect_mapped(second, true)?;
            system::expect_mapped(second + 0x2fff, true)?;
            same("MAP again", device.map_memory(id)?, second)?;
            let node = galcore_client::device::Node {
                handle: 0,
                pool: galcore_client::uapi::Pool::CONTIGUOUS,
                bytes: 0x3000,
                surface_type: 0,
            };
            let location = galcore_client::device::Location {
                address: buffer.address,
                logical: second,
            };
            let view = device.memory(node, location, &buffer.memory)?;
            same("contents", view.find_other_than(0x1234_5678), None)?;
            device.unmap_memory(id)?;
            kind.free(device, &buffer)?;
            refused(
                "MAP of a freed one",
                device.map_memory(id),
                Status::NOT_FOUND,
            )?;
            refused(
                "UNMAP of a freed one",
                device.unmap_memory(id),
                Status::NOT_FOUND,
            )?;
            for (what, id, wanted) in [
                ("handle 0", 0, Status::INVALID_ARGUMENT),
                ("an unknown handle", 0x7fff_fff0, Status::NOT_FOUND),
                ("a handle above 31 bits", 0xc123_4567, Status::NOT_FOUND),
            ] {
                refused(&format!("MAP, {what}"), device.map_memory(id), wanted)?;
                refused(&format!("UNMAP, {what}"), device.unmap_memory(id), wanted)?;
            }
            Ok(())
        },
    );
    suite.test(
        format!("{kind:?}: wrong sizes and addresses in FREE free the buffer, and nothing else"),
        move || {
            let before = harness::at_rest(system::ProcGc::used_now)?;
            let other = kind.allocate(device, 0x8000)?;
            other.memory.fill(0x0ddb_a115);
            for (bytes, logical) in [
                (1, 0x1000),
                (u64::MAX, other.logical),
                (0x10_0000, other.logical - 4096),
                (0x8000, 0xc000_0000),
                (0x8000, 1 << 40 | 0x1000),
            ] {
                let buffer = kind.allocate(device, 0x4000)?;
                let status = kind.free_raw(device, bytes, buffer.physical, logical)?;
                same(
                    &format!("{bytes:#x} bytes at {logical:#x}"),
                    status,
                    Status::OK,
                )?;
                system::expect_mapped(buffer.logical, false)?;
                same(
                    "the other one",
                    other.memory.find_other_than(0x0ddb_a115),
                    None,
                )?;
            }
            kind.free(device, &other)?;
            settles("KiB used", before, system::ProcGc::used_now)
        },
    );
    suite.test(
        format!("{kind:?}: another process's buffers are unknown"),
        move || {
            let foreign = Foreign::start()?;
            let status = kind.free_raw(device, 4096, foreign.buffer(), 0x1000)?;
            same("FREE", status, Status::NOT_FOUND)?;
            refused(
                "MAP",
                device.map_memory(foreign.buffer()),
                Status::NOT_FOUND,
            )?;
            refused(
                "UNMAP",
                device.unmap_memory(foreign.buffer()),
                Status::NOT_FOUND,
            )
        },
    );
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--leave") {
        return leave();
    }
    harness::program(|| {
        let device = Device::open()?;
        let mut suite = Suite::new();
        for kind in [Kind::Contiguous, Kind::NonPaged] {
            tests(&mut suite, &device, kind);
        }
        suite.test(
            "Contiguous: the GPU address is aligned and below bit 31",
            || {
                let buffer = device.allocate_contiguous(0x8000)?;
                ensure!(
                    buffer.address & 4095 == 0 && buffer.address != 0 && buffer.address < 1 << 31,
                    "GPU address {:#x}",
                    buffer.address
                );
                Ok(device.free_contiguous(&buffer)?)
            },
        );
        suite.test("no size makes the kernel complain", || {
            let mut log = system::KernelLog::from_now()?;
            for bytes in [
                0x7ff0_0000,
                0x7fff_f000,
                0x7fff_f001,
                0x7fff_ffff,
                0x8000_0000,
            ] {
                for kind in [Kind::Contiguous, Kind::NonPaged] {
                    let result = kind.allocate(&device, bytes);
                    refused(&format!("{bytes:#x} bytes"), result, Status::OUT_OF_MEMORY)?;
                }
            }
            let lines: Vec<_> = log.lines()?.into_iter().map(|line| line.text).collect();
            same("lines of the log", lines, Vec::new())
        });
        suite.test("processes that end without freeing cost no memory", || {
            let child = || -> Result<()> {
                let status = system::again(&["--leave"])?.status()?;
                same("child", status.code(), Some(0))
            };
            child()?;
            let used = harness::at_rest(system::ProcGc::used_now)?;
            let before = system::settled_free()?;
            for _ in 0..10 {
                child()?;
            }
            settles("KiB used", used, system::ProcGc::used_now)?;
            system::memory_is_back(before, 512)
        });
        suite.run()
    })
}

/// A process that allocates a megabyte of each kind and exits without freeing it.
fn leave() -> ExitCode {
    let go = || -> Result<()> {
        let device = Device::open()?;
        for kind in [Kind::Contiguous, Kind::NonPaged] {
            for _ in 0..16 {
                kind.allocate(&device, 0x1_0000)?.memory.fill(1);
            }
        }
        Ok(())
    };
    match go() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
