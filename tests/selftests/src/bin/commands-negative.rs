// SPDX-License-Identifier: GPL-2.0-only
//! Commands that do not exist, that belong into queues only, or that this driver does not offer: a status, no effect.

use std::cell::RefCell;
use std::process::ExitCode;

use anyhow::Result;
use galcore_client::uapi::Command;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Status;
use galcore_client::uapi::UNION_OFFSET;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;

/// Known to the interface; not built.
const NOT_BUILT: &[Command] = &[
    Command::MAP_MEMORY,
    Command::UNMAP_MEMORY,
    Command::MAP_USER_MEMORY,
    Command::UNMAP_USER_MEMORY,
    Command::READ_REGISTER,
    Command::WRITE_REGISTER,
    Command::GET_PROFILE_SETTING,
    Command::SET_PROFILE_SETTING,
    Command::READ_ALL_PROFILE_REGISTERS,
    Command::PROFILE_REGISTERS_2D,
    Command::SET_POWER_MANAGEMENT_STATE,
    Command::QUERY_POWER_MANAGEMENT_STATE,
    Command::RESET,
    Command::DEBUG,
    Command::TIMESTAMP,
    Command::DATABASE,
    Command::COMPOSE,
    Command::SET_TIMEOUT,
    Command::GET_SHARED_INFO,
    Command::SET_SHARED_INFO,
    Command::DUMP_GPU_STATE,
    Command::DUMP_EVENT,
    Command::ALLOCATE_VIRTUAL_COMMAND_BUFFER,
    Command::FREE_VIRTUAL_COMMAND_BUFFER,
    Command::SET_FSCALE_VALUE,
    Command::GET_FSCALE_VALUE,
    Command::QUERY_RESET_TIME_STAMP,
];

fn main() -> ExitCode {
    harness::program(|| {
        let paint = &RefCell::new(Paint::new()?);
        let control = &Control::open()?;
        let before = control.counters();
        // Every command gets each kind of payload: nothing, ones, numbers that could be addresses.
        let all = |command: Command, wanted: Status| -> Result<()> {
            for filler in [0x00, 0xff, 0x01, 0x40] {
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
        suite.test(
            "CACHE of no node answers OK, of an unknown one INVALID_ARGUMENT",
            move || {
                // The node is the fifth long word of the union.
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
        suite.test("the next draw is right", move || {
            paint.borrow_mut().prove(0xff12_3456)
        });
        suite.run()
    })
}
