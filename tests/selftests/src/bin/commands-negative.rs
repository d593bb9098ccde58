// SPDX-License-Identifier: GPL-2.0-only
//! Commands that do not exist, that are valid only in queues, or that this driver does not implement: they return a
//! status and have no effect. Also small query commands.

use std::cell::RefCell;
use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Result;
use galcore_client::abi::Abi;
use galcore_client::device::set_interface;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Status;
use galcore_client::uapi::UNION_OFFSET;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::LogLine;
use gpu_control::fault;

/// Commands of the interface that this driver does not implement.
const NOT_BUILT: &[Command] = &[
    Command::COMPOSE,
    Command::ALLOCATE_VIRTUAL_COMMAND_BUFFER,
    Command::FREE_VIRTUAL_COMMAND_BUFFER,
];

/// Bytes that fill the payload of commands.
const FILLERS: [u8; 4] = [0x00, 0xff, 0x01, 0x40];

fn main() -> ExitCode {
    harness::program(|| {
        // A core is reset each time that it powers on again.
        system::stay_awake()?;
        let paint = &RefCell::new(Paint::new()?);
        // Otherwise, a command of another generation with this interface size would assign the client to that
        // generation.
        set_interface(paint.borrow().device().file(), Abi::own().name)?;
        let control = &Control::open()?;
        let before = control.counters();
        // Every command gets several payloads: zeros, ones, and numbers that could be addresses.
        let all = |command: Command, wanted: Status| -> Result<()> {
            for filler in FILLERS {
                let mut interface = Interface::new(command);
                interface.bytes_mut()[UNION_OFFSET..].fill(filler);
                let status = paint.borrow().device().exchange(&mut interface)?;
                same(
                    &format!("{command} filled with {filler:#x}"),
                    status,
                    wanted,
                )?;
            }
            Ok(())
        };
        let all = &all;
        let filled = |command: Command, filler: u8| -> Result<Interface> {
            let mut interface = Interface::new(command);
            interface.bytes_mut()[UNION_OFFSET..].fill(filler);
            paint.borrow().device().exchange(&mut interface)?;
            Ok(interface)
        };
        let filled = &filled;
        let mut suite = Suite::new();
        suite.test("unknown commands answer INVALID_ARGUMENT", move || {
            for number in [56, 57, 58, 64, 100, 999, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                all(Command(number), Status::INVALID_ARGUMENT)?;
            }
            Ok(())
        });
        suite.test(
            "commands of queues and of other systems answer INVALID_ARGUMENT",
            move || {
                for command in [
                    Command::SIGNAL,
                    Command::WRITE_DATA,
                    Command::MAP_PHYSICAL,
                    Command::SET_IDLE,
                    Command::COMMIT_DONE,
                    Command::GET_FRAME_INFO,
                    Command::QUERY_COMMAND_BUFFER,
                ] {
                    all(command, Status::INVALID_ARGUMENT)?;
                }
                Ok(())
            },
        );
        suite.test("ALLOCATE_VIDEO_MEMORY answers NOT_SUPPORTED", move || {
            all(Command::ALLOCATE_VIDEO_MEMORY, Status::NOT_SUPPORTED)
        });
        for command in NOT_BUILT {
            let name = command.name().unwrap_or_default();
            suite.test(format!("{name} answers NOT_SUPPORTED"), move || {
                all(*command, Status::NOT_SUPPORTED)
            });
        }
        suite.test("registers and shared data that are none", move || {
            // All fillers but the first give an address between registers, or far past them.
            for command in [Command::READ_REGISTER, Command::WRITE_REGISTER] {
                for filler in [0xff, 0x01, 0x40] {
                    let status = filled(command, filler)?.status();
                    same(&format!("{command}"), status, Status::INVALID_ARGUMENT)?;
                }
            }
            for command in [Command::GET_SHARED_INFO, Command::SET_SHARED_INFO] {
                same("nothing to do", filled(command, 0)?.status(), Status::OK)?;
                for filler in [0xff, 0x01, 0x40] {
                    let status = filled(command, filler)?.status();
                    ensure!(status.0 < 0, "{command} filled with {filler:#x}: {status}");
                }
            }
            Ok(())
        });
        suite.test("power, clock and reset are not one client's", move || {
            let power = Command::SET_POWER_MANAGEMENT_STATE;
            for filler in [0xff, 0x01, 0x40] {
                let status = filled(power, filler)?.status();
                same("no such state", status, Status::INVALID_ARGUMENT)?;
            }
            same("on", filled(power, 0)?.status(), Status::OK)?;
            all(Command::RESET, Status::OK)?;
            // All fillers are far above the full clock, or below the minimum.
            all(Command::SET_FSCALE_VALUE, Status::INVALID_ARGUMENT)?;
            let paint = paint.borrow();
            for (value, wanted) in [
                (1, Status::OK),
                (64, Status::OK),
                (0, Status::INVALID_ARGUMENT),
                (65, Status::INVALID_ARGUMENT),
            ] {
                let mut interface = Interface::new(Command::SET_FSCALE_VALUE);
                interface.bytes_mut()[UNION_OFFSET] = value;
                let status = paint.device().exchange(&mut interface)?;
                same(&format!("clock {value}"), status, wanted)?;
            }
            let mut interface = Interface::new(Command::GET_FSCALE_VALUE);
            same(
                "status",
                paint.device().exchange(&mut interface)?,
                Status::OK,
            )?;
            let bytes = &interface.bytes()[UNION_OFFSET..];
            same(
                "clock, least, most",
                (bytes[0], bytes[4], bytes[8]),
                (64, 1, 64),
            )
        });
        suite.test(
            "commands that name memory refuse what names none",
            move || {
                for command in [
                    Command::MAP_MEMORY,
                    Command::UNMAP_MEMORY,
                    Command::MAP_USER_MEMORY,
                    Command::UNMAP_USER_MEMORY,
                ] {
                    for filler in [0x00, 0xff, 0x01, 0x40] {
                        let status = filled(command, filler)?.status();
                        ensure!(
                            status.0 < 0,
                            "{command} filled with {filler:#x}: found {status}"
                        );
                    }
                }
                Ok(())
            },
        );
        suite.test(
            "profile commands of builds without a profiler do nothing",
            move || {
                for command in [
                    Command::GET_PROFILE_SETTING,
                    Command::SET_PROFILE_SETTING,
                    Command::READ_ALL_PROFILE_REGISTERS,
                    Command::PROFILE_REGISTERS_2D,
                ] {
                    for filler in [0x00, 0xff] {
                        let answer = filled(command, filler)?;
                        same(&format!("{command}"), answer.status(), Status::OK)?;
                        ensure!(
                            answer.bytes()[UNION_OFFSET..].iter().all(|b| *b == filler),
                            "{command} changed the union"
                        );
                    }
                }
                Ok(())
            },
        );
        suite.test("the power state is: on, and idle in the end", move || {
            let idle = || {
                filled(Command::SET_POWER_MANAGEMENT_STATE, 0)?;
                let answer: uapi::QueryPowerManagement =
                    filled(Command::QUERY_POWER_MANAGEMENT_STATE, 0xff)?.get();
                same("state", answer.state, 0)?;
                Ok(answer.is_idle)
            };
            settles("isIdle", 1, idle)
        });
        suite.test("there has been no reset", move || {
            let answer = filled(Command::QUERY_RESET_TIME_STAMP, 0xff)?;
            same("status", answer.status(), Status::OK)?;
            let number = &answer.bytes()[UNION_OFFSET..UNION_OFFSET + 8];
            // One for each time that the test sent the command.
            let asked = u64::try_from(FILLERS.len())?;
            same("timeStamp", u64::from_le_bytes(number.try_into()?), asked)
        });
        suite.test("TIMESTAMP: only queries of timers 0 to 7", move || {
            let paint = paint.borrow();
            let ask = |timer, request| {
                let payload = uapi::TimeStamp {
                    timer,
                    request,
                    time_delta: 77,
                };
                let answer = paint.device().send(Command::TIMESTAMP, &payload)?;
                Ok::<_, anyhow::Error>((answer.0, answer.1.time_delta))
            };
            for timer in 0..8 {
                same("a timer that never ran", ask(timer, 2)?, (Status::OK, 0))?;
            }
            for (timer, request) in [(8, 2), (u32::MAX, 2), (0, 0), (0, 1), (0, 3), (0, u32::MAX)] {
                let what = format!("timer {timer}, request {request}");
                same(&what, ask(timer, request)?, (Status::INVALID_ARGUMENT, 77))?;
            }
            Ok(())
        });
        suite.test("DATABASE: only of the process itself", move || {
            let ask = |process: u32| {
                let mut interface = Interface::new(Command::DATABASE);
                interface.bytes_mut()[UNION_OFFSET] = 1;
                interface.bytes_mut()[UNION_OFFSET + 4..][..4]
                    .copy_from_slice(&process.to_ne_bytes());
                Ok::<_, anyhow::Error>(paint.borrow().device().exchange(&mut interface)?)
            };
            let parent = std::os::unix::process::parent_id();
            for process in [0, 1, parent, 0x7fff_ffff, u32::MAX] {
                let what = format!("process {process}");
                same(&what, ask(process)?, Status::INVALID_DATA)?;
            }
            same("itself", ask(std::process::id())?, Status::OK)
        });
        suite.test(
            "CACHE of no node answers OK, of an unknown one INVALID_ARGUMENT",
            move || {
                // The node is the fifth 64-bit word of the union.
                for (node, wanted) in [(0, Status::OK), (0x7fff_ff00, Status::INVALID_ARGUMENT)] {
                    let mut interface = Interface::new(Command::CACHE);
                    interface.bytes_mut()[UNION_OFFSET] = 1;
                    interface.bytes_mut()[UNION_OFFSET + 32..][..8]
                        .copy_from_slice(&u64::to_ne_bytes(node));
                    same(
                        &format!("node {node:#x}"),
                        paint.borrow().device().exchange(&mut interface)?,
                        wanted,
                    )?;
                }
                Ok(())
            },
        );
        suite.test("none of this reached the GPU", move || {
            same("counters", control.counters(), before)
        });
        suite.test("SET_TIMEOUT is how long STALL waits", move || {
            let paint = paint.borrow();
            let device = paint.device();
            let set = |milliseconds: u32| {
                let mut interface = Interface::new(Command::SET_TIMEOUT);
                interface.bytes_mut()[UNION_OFFSET..][..4]
                    .copy_from_slice(&milliseconds.to_ne_bytes());
                same("SET_TIMEOUT", device.exchange(&mut interface)?, Status::OK)
            };
            device.stall()?;
            let id = device.create_signal(false)?;
            let armed = control.arm(fault::HOLD, 1);
            let mut log = KernelLog::from_now()?;
            set(5)?;
            device.commit_queue(Queue::new().signal(id))?;
            let stalled = device.stall();
            drop(armed);
            set(u32::MAX)?;
            refused(
                "STALL of 250 ms at least",
                stalled,
                Status::GPU_NOT_RESPONDING,
            )?;
            let is_told = |line: &LogLine| line.text.contains("STALL: GPU Stuck");
            ensure!(log.lines()?.iter().any(is_told), "the log does not say so");
            device.wait_signal(id, 10_000)?;
            device.stall()?;
            Ok(device.destroy_signal(id)?)
        });
        suite.test("the next draw is right", move || {
            paint.borrow_mut().prove(0xff12_3456)
        });
        suite.run()
    })
}
