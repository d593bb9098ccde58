// SPDX-License-Identifier: GPL-2.0-only
//! The ioctl envelope: requests that are not commands fail with ENOTTY; for commands the driver writes the whole
//! answer.

use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::ensure;
use galcore_client::device::NODES;
use galcore_client::sys;
use galcore_client::sys::Arguments;
use galcore_client::sys::Place;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Status;
use galcore_client::uapi::INTERFACE_SIZE;
use galcore_client::uapi::IOCTL_INTERFACE;
use galcore_client::Device;
use galcore_selftests::harness;
use galcore_selftests::harness::not_tty;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;

/// Valid arguments.
const GOOD: Arguments = Arguments {
    input: Place::Buffer,
    input_size: INTERFACE_SIZE as u64,
    output: Place::Buffer,
    output_size: INTERFACE_SIZE as u64,
    padding: 0,
};

/// A VERSION request, followed by room to detect excess writes of the driver.
fn request() -> Vec<u8> {
    let mut bytes = vec![0; 0x10000];
    bytes[..INTERFACE_SIZE].copy_from_slice(Interface::new(Command::VERSION).bytes());
    bytes
}

fn send(device: &Device, arguments: Arguments) -> std::io::Result<i32> {
    sys::exchange_with(device.as_fd(), IOCTL_INTERFACE, &mut request(), arguments)
}

fn main() -> ExitCode {
    harness::program(|| {
        let device = &Device::open()?;
        let mut suite = Suite::new();
        suite.test("both nodes open and answer", || {
            for node in NODES {
                let version = Device::open_node(node)?.version()?;
                same(node, version.major, 4)?;
            }
            Ok(())
        });
        suite.test(
            "the character device has the major number asked for",
            || {
                let wanted = system::told("major").unwrap_or(199) as u32;
                match system::major()? {
                    Some(found) if wanted != 0 => same("major", found, wanted),
                    found => {
                        ensure!(found.is_some(), "/proc/devices has no galcore");
                        Ok(())
                    }
                }
            },
        );
        suite.test("the ordinary request answers 0", || {
            same("ioctl", send(device, GOOD)?, 0)
        });
        suite.test("unknown request numbers fail with ENOTTY", move || {
            let kernel = uapi::IOCTL_KERNEL_INTERFACE;
            let dma_buf_map = 0xc058_5f00;
            let known = [kernel, uapi::IOCTL_TERMINATE, dma_buf_map];
            for number in [0, 1, 12345, 29999, 30003, 0x5401, u32::MAX]
                .into_iter()
                .chain(known)
            {
                let result =
                    sys::exchange(device.as_fd(), number, &mut request()[..INTERFACE_SIZE]);
                not_tty(&format!("request {number}"), result)?;
            }
            Ok(())
        });
        suite.test("wrong input or output sizes fail with ENOTTY", move || {
            let huge = [1 << 32 | 168, u64::MAX, 1 << 63];
            let wrong = [
                0, 1, 32, 64, 128, 160, 167, 169, 176, 216, 240, 248, 320, 400, 4096,
            ];
            for size in wrong.into_iter().chain(huge) {
                let input = Arguments {
                    input_size: size,
                    ..GOOD
                };
                not_tty(&format!("input size {size:#x}"), send(device, input))?;
                let output = Arguments {
                    output_size: size,
                    ..GOOD
                };
                not_tty(&format!("output size {size:#x}"), send(device, output))?;
            }
            Ok(())
        });
        suite.test(
            "an argument block that cannot be read fails with ENOTTY",
            move || {
                for place in [Place::Null, Place::Unmapped] {
                    let result =
                        sys::exchange_without_block(device.as_fd(), IOCTL_INTERFACE, place);
                    not_tty(&format!("{place:?}"), result)?;
                }
                Ok(())
            },
        );
        suite.test(
            "interfaces that cannot be read or written fail with ENOTTY",
            move || {
                for place in [Place::Null, Place::Unmapped] {
                    not_tty(
                        &format!("input {place:?}"),
                        send(
                            device,
                            Arguments {
                                input: place,
                                ..GOOD
                            },
                        ),
                    )?;
                    not_tty(
                        &format!("output {place:?}"),
                        send(
                            device,
                            Arguments {
                                output: place,
                                ..GOOD
                            },
                        ),
                    )?;
                }
                Ok(())
            },
        );
        suite.test("hardware types above 7 fail with ENOTTY", move || {
            for kind in [8, 9, 255, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                let mut interface = Interface::new(Command::VERSION);
                interface.set_hardware_type(kind);
                let result = sys::exchange(device.as_fd(), IOCTL_INTERFACE, interface.bytes_mut());
                not_tty(&format!("hardware type {kind}"), result)?;
            }
            Ok(())
        });
        suite.test(
            "a failed command answers 0 and copies the interface back whole",
            move || {
                let mut interface = Interface::new(Command(999));
                interface.set_hardware_type(device.hardware_type());
                interface.bytes_mut()[uapi::UNION_OFFSET..].fill(0xa5);
                let mut answer = [0; INTERFACE_SIZE];
                let input = interface.bytes();
                let result =
                    sys::exchange_apart(device.as_fd(), IOCTL_INTERFACE, input, &mut answer)?;
                same("ioctl", result, 0)?;
                same(
                    "status",
                    i32::from_ne_bytes([answer[8], answer[9], answer[10], answer[11]]),
                    -1,
                )?;
                ensure!(
                    answer[..8] == input[..8],
                    "command and hardware type came back changed"
                );
                ensure!(
                    answer[uapi::UNION_OFFSET..] == input[uapi::UNION_OFFSET..],
                    "the union came back changed"
                );
                Ok(())
            },
        );
        suite.test(
            "the answer goes to the output address and leaves the input alone",
            move || {
                let mut input = Interface::new(Command::VERSION);
                input.set_hardware_type(device.hardware_type());
                let before = input.clone();
                let mut answer = Interface::new(Command(0));
                sys::exchange_apart(
                    device.as_fd(),
                    IOCTL_INTERFACE,
                    input.bytes(),
                    answer.bytes_mut(),
                )?;
                ensure!(input == before, "the input was written");
                same("build", answer.get::<uapi::Version>().build, 1210)?;
                same("status", answer.status(), Status::OK)
            },
        );
        suite.test("success overwrites the caller's status", move || {
            let mut interface = Interface::new(Command::VERSION);
            interface.set_status(Status(-99));
            same("status", device.exchange(&mut interface)?, Status::OK)
        });
        suite.test(
            "what an old client leaves behind its 32-bit pointers does not matter",
            move || {
                if usize::BITS != 32 {
                    return harness::skip("64-bit pointers fill the field");
                }
                for padding in [1, 0xdead_beef, u32::MAX] {
                    same("ioctl", send(device, Arguments { padding, ..GOOD })?, 0)?;
                }
                Ok(())
            },
        );
        suite.test("read and write are not there", move || {
            let read = device
                .file()
                .read(&mut [0; 4])
                .map_err(|error| error.kind());
            same("read", read, Err(ErrorKind::InvalidInput))?;
            let write = device.file().write(&[0; 4]).map_err(|error| error.kind());
            same("write", write, Err(ErrorKind::InvalidInput))
        });
        suite.test(
            "a thousand opens and closes leave the device working",
            move || {
                for _ in 0..1000 {
                    Device::open()?;
                }
                same("ioctl", send(device, GOOD)?, 0)
            },
        );
        suite.run()
    })
}
