// SPDX-License-Identifier: GPL-2.0-only
//! VERSION, CHIP_INFO, QUERY_CHIP_IDENTITY, and the other queries about the driver and the core.
//!
//! `--given 1`: on a GC3000 whose module was loaded with [`GIVEN`] in the parameter `identity`. `--neural 1`: on a
//! board with a neural core.

use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::stream::Pipe;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::reference;
use galcore_selftests::system;
use gpu_control::counter;

/// The contents of the suite's parameter `identity`, by the names of QUERY_CHIP_IDENTITY.
const GIVEN: [(&str, u64); 6] = [
    ("productID", 0x4508_0009),
    ("ecoID", 1),
    ("customerID", 0x88),
    ("nnClusterNum", 2),
    ("sRAMSizes", 0x8_0000),
    ("chipMinorFeatures6", 1),
];
/// `NNCoreCount` in the same parameter.
const NEURAL_CORES: u64 = 8;

/// Runs `body` for a client of each generation with `command`. The total must be at least `least`.
fn of_each(
    command: &str,
    least: usize,
    body: impl Fn(&Device, &Abi) -> Result<usize>,
) -> Result<()> {
    let mut told = 0;
    for abi in Abi::all().into_iter().filter(|abi| abi.has(command)) {
        let device = Device::open_as(abi, true).with_context(|| abi.name)?;
        told += body(&device, abi).with_context(|| abi.name)?;
    }
    println!("# {command}: {told} fields");
    ensure!(told >= least, "only {told} fields were told");
    Ok(())
}

/// A core for which the administrator specifies more than its registers show.
fn given() -> Result<bool> {
    let mut suite = Suite::new();
    suite.test("each generation tells what the parameter says", || {
        of_each("QUERY_CHIP_IDENTITY", 150, |device, abi| {
            let mut told = 0;
            for (name, value) in GIVEN {
                if abi.field("QueryChipIdentity", name).is_none() {
                    continue;
                }
                let (status, found) = device.ask("QUERY_CHIP_IDENTITY", &[], name)?;
                same("status", status, Status::OK)?;
                // One of several memory sizes, or the value.
                same(name, found & 0xffff_ffff, value)?;
                told += 1;
            }
            let wanted = ["chipModel", "chipRevision"];
            let (_, found) = device.ask_for("QUERY_CHIP_IDENTITY", &[], wanted)?;
            let is_raw = found == [0x2000, 0xffff_5450];
            ensure!(is_raw || found == [0x3000, 0x5450], "model {found:x?}");
            Ok(told)
        })
    });
    suite.test(
        "it has neural cores, and is of their type where there is one",
        || {
            of_each("CHIP_INFO", 40, |device, abi| {
                let three_d = abi.values.get("HARDWARE_3D").copied().unwrap_or(1);
                let wanted = abi.values.get("HARDWARE_VIP").copied().unwrap_or(three_d);
                same("type", device.hardware_type(), wanted)?;
                Ok(1)
            })?;
            of_each("QUERY_CHIP_OPTION", 5, |device, abi| {
                const NAME: &str = "activeNNCoreCount";
                if abi.field("QueryChipOptions", NAME).is_none() {
                    return Ok(0);
                }
                // The facts name the structure after the command's.
                let mut bytes = vec![0; abi.sizes[0]];
                let (number, _) = abi.commands["QUERY_CHIP_OPTION"];
                bytes[..4].copy_from_slice(&number.to_le_bytes());
                abi.put_header(&mut bytes, "hardwareType", device.hardware_type().into());
                device.exchange_bytes(&mut bytes)?;
                let found = abi.get(&bytes, "QueryChipOptions", NAME);
                same(NAME, found, NEURAL_CORES)?;
                Ok(1)
            })
        },
    );
    suite.test("its commands are executed, and its events come", || {
        for name in ["4.6.9", "6.4.6", "6.4.11"] {
            let abi = Abi::named(name).context("a generation")?;
            let client = Client::with_device(Device::open_as(abi, true)?)?;
            let mut paint = Paint::of(client)?;
            paint.prove(0xff13_5791).context(name)?;
            paint.close()?;
        }
        Ok(())
    });
    suite.test("the log and /proc/driver/gc say so", || {
        let values = GIVEN.len() + 1;
        let log = std::fs::read_to_string("/proc/driver/gc")?;
        let line = format!("core 0: identity: {values} values of the parameter");
        same("lines", log.lines().filter(|one| *one == line).count(), 1)?;
        let line = format!("values of its identity from the parameter identity: {values}");
        let log = std::process::Command::new("dmesg").output()?.stdout;
        let log = String::from_utf8_lossy(&log);
        ensure!(log.contains(&line), "no line: {line}");
        Ok(())
    });
    suite.test("silicon was not asked for more than it can do", || {
        same("violations", Control::open()?.violations(), 0)
    });
    suite.run()
}

/// Place of the neural core on the board.
const NEURAL: usize = 2;
/// Its place in CHIP_INFO, which lists 3D cores first, and neural cores with them.
const NEURAL_INDEX: usize = 1;
/// A state of the neural engines: GL_NN_CONFIG in Mesa's headers.
const NN_CONFIG: u32 = 0x3930;

/// A device whose requests address the neural core.
fn neural_device(abi: &'static Abi) -> Result<Option<Device>> {
    let Some(&kind) = abi.values.get("HARDWARE_VIP") else {
        return Ok(None);
    };
    let mut device = Device::open_as(abi, true)?;
    device.set_hardware_type(kind);
    device.set_core_index(NEURAL_INDEX as u32);
    Ok(Some(device))
}

/// Runs `body` for each generation that supports neural cores.
fn of_neural(body: impl Fn(Device) -> Result<()>) -> Result<()> {
    let mut count = 0;
    for abi in Abi::all() {
        if let Some(device) = neural_device(abi)? {
            body(device).with_context(|| abi.name)?;
            count += 1;
        }
    }
    println!("# {count} generations");
    ensure!(count >= 5, "only {count} generations know neural cores");
    Ok(())
}

/// A board with a core for neural networks.
fn neural() -> Result<bool> {
    let control = &Control::open_core(NEURAL)?;
    let others = [Control::open_core(0)?, Control::open_core(1)?];
    let mut suite = Suite::new();
    suite.test("it is a 3D core where its type is not known", || {
        of_each("CHIP_INFO", 40, |device, abi| {
            let three_d = abi.values.get("HARDWARE_3D").copied().unwrap_or(1);
            let wanted = abi.values.get("HARDWARE_VIP").copied().unwrap_or(three_d);
            let info = device.chip_info()?;
            same("count", info.count, 3)?;
            same("type", info.types[NEURAL_INDEX], wanted)?;
            Ok(1)
        })
    });
    suite.test("its identity is its own", || {
        of_neural(|device| {
            let wanted = ["chipModel", "chipRevision", "productID", "customerID"];
            let (status, found) = device.ask_for("QUERY_CHIP_IDENTITY", &[], wanted)?;
            same("status", status, Status::OK)?;
            same("identity", found, [0x8000, 0x8002, 0x508_0009, 0x9f])
        })
    });
    suite.test("it executes commands, and its events come", || {
        of_neural(|device| {
            let idle = others
                .each_ref()
                .map(|other| other.counter(counter::EVENTS));
            let before = [counter::COMMANDS, counter::EVENTS].map(|at| control.counter(at));
            let mut client = Client::with_device(device)?;
            let mut stream = Stream::new();
            for _ in 0..100 {
                stream.nop();
            }
            stream.flush(Pipe::Pipe3d);
            for _ in 0..10 {
                client.run(Pipe::Pipe3d, &stream)?;
            }
            let after = [counter::COMMANDS, counter::EVENTS].map(|at| control.counter(at));
            ensure!(
                after[0] >= before[0] + 1000,
                "commands {before:?}, {after:?}"
            );
            ensure!(after[1] >= before[1] + 10, "events {before:?}, {after:?}");
            drop(client);
            let others = others
                .each_ref()
                .map(|other| other.counter(counter::EVENTS));
            same("events of the other cores", others, idle)
        })
    });
    suite.test("states of its neural engines are refused", || {
        of_neural(|device| {
            let mut client = Client::with_device(device)?;
            client.finish()?;
            let mut stream = Stream::new();
            stream.state(NN_CONFIG, 1).flush(Pipe::Pipe3d);
            // The driver's own job, which flushes the TLB after another client's end, counts, too.
            for is_last in [false, false, false, true] {
                let before = control.counter(counter::STATE_WORDS);
                match client.run(Pipe::Pipe3d, &stream) {
                    Err(error) => same("status", error.status(), Some(Status::INVALID_DATA))?,
                    Ok(()) => anyhow::bail!("it has run"),
                }
                let unchanged = same("state words", control.counter(counter::STATE_WORDS), before);
                if unchanged.is_ok() || is_last {
                    return unchanged;
                }
            }
            Ok(())
        })
    });
    suite.test("linear addresses end at 4 GiB", || {
        // Contiguous memory stays below the end, and the board has memory below their start.
        let base = Device::open()?.base_address()?;
        println!("# from {base:#x}");
        ensure!((1..=0x8000_0000).contains(&base), "{base:#x}");
        Ok(())
    });
    suite.test("/proc/driver/gc has it", || {
        let text = std::fs::read_to_string("/proc/driver/gc")?;
        ensure!(text.contains("core 2 (GC8000): "), "{text}");
        Ok(())
    });
    suite.test("silicon was not asked for more than it can do", || {
        same("violations", control.violations(), 0)
    });
    suite.run()
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["given", "neural"])?;
        if options.get("given").is_some() {
            return given();
        }
        if options.get("neural").is_some() {
            return neural();
        }
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
                // Clients use it to find the hardware types, even before they set one.
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
