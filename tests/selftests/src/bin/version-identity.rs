// SPDX-License-Identifier: GPL-2.0-only
//! VERSION, CHIP_INFO, QUERY_CHIP_IDENTITY and the other questions about the driver and the core.

use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Status;
use galcore_client::Device;
use galcore_selftests::control::Control;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::Suite;
use galcore_selftests::reference;
use galcore_selftests::system;

fn main() -> ExitCode {
    harness::program(|| {
        let device = &Device::open()?;
        let board = reference::board(&Control::open()?)?;
        println!("# board {}", board.name());
        let mut suite = Suite::new();
        suite.test("version is 4.6.9.1210", || {
            let version = device.version()?;
            let found = (version.major, version.minor, version.patch, version.build);
            same("version", found, uapi::VERSION)
        });
        let cores = system::bound()?.len();
        suite.test("each core is there, of its type", move || {
            let info = device.chip_info()?;
            same("count", info.count as usize, cores)?;
            for number in 0..cores {
                let core = Control::open_core(number)?.board();
                let core = core.context("the GPU plays an unknown board")?;
                same("type", info.types[number], reference::hardware_type(core))?;
            }
            Ok(())
        });
        suite.test(
            "CHIP_INFO sets the status whatever the hardware type",
            move || {
                // By it a client asks which there are: also one that has not set it.
                for kind in (0..=8).chain([0x7fff_ffff, u32::MAX]) {
                    let mut interface = Interface::new(Command::CHIP_INFO);
                    interface.set_hardware_type(kind);
                    interface.set_status(Status(-99));
                    let bytes = interface.bytes_mut();
                    use std::os::fd::AsFd;
                    galcore_client::sys::exchange(device.as_fd(), uapi::IOCTL_INTERFACE, bytes)?;
                    same("status", interface.status(), Status::OK)?;
                    let count = interface.get::<uapi::ChipInfo>().count as usize;
                    same("count", count, cores)?;
                }
                Ok(())
            },
        );
        suite.test("the identity is that of the silicon", move || {
            let (found, wanted) = (device.identity()?, reference::identity(board));
            same_word("model", found.chip_model, wanted.chip_model)?;
            same_word("revision", found.chip_revision, wanted.chip_revision)?;
            same_word("features", found.chip_features, wanted.chip_features)?;
            same_word(
                "minor features",
                found.chip_minor_features,
                wanted.chip_minor_features,
            )?;
            same_word(
                "minor features 1",
                found.chip_minor_features1,
                wanted.chip_minor_features1,
            )?;
            same_word(
                "minor features 2",
                found.chip_minor_features2,
                wanted.chip_minor_features2,
            )?;
            same_word(
                "minor features 3",
                found.chip_minor_features3,
                wanted.chip_minor_features3,
            )?;
            same("identity", found, wanted)
        });
        suite.test("the base address is the parameter's", move || {
            let wanted = system::told("baseAddress").unwrap_or(0) as u32;
            same_word("base address", device.base_address()?, wanted)
        });
        suite.test("the real-time signal is the parameter's", move || {
            let wanted = system::told("signal").unwrap_or(48) as i32;
            same("signal", device.kernel_signal()?, wanted)
        });
        suite.test("QUERY_VIDEO_MEMORY tells of the pool alone", move || {
            let memory = device.video_memory()?;
            same("internal physical", memory.internal_physical, 0)?;
            same("internal size", memory.internal_size, 0)?;
            same("external physical", memory.external_physical, 0)?;
            same("external size", memory.external_size, 0)?;
            same("contiguous physical", memory.contiguous_physical, 0)?;
            match system::told("contiguousSize") {
                Some(size) => same("contiguous size", memory.contiguous_size, size),
                None => {
                    ensure!(memory.contiguous_size > 0, "no pool");
                    Ok(())
                }
            }
        });
        suite.test("a thousand questions get the same answer", move || {
            let first = device.identity()?;
            for _ in 0..1000 {
                same("identity", device.identity()?, first)?;
            }
            Ok(())
        });
        suite.run()
    })
}
