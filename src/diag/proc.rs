// SPDX-License-Identifier: GPL-2.0-only

//! `/proc/driver/gc`, with the commands of Dove's driver, and its format, which scripts parse.
//!
//! The file has nine lines about the default core. If a device has several cores, two lines of
//! registers for each core follow, where parsers of the nine lines ignore them. Only the
//! administrator may send commands ([`super::command`]) or open the file to write. Source:
//! sources.md, /proc.

use super::command;
use crate::{
    client::{
        Device,
        CLIENTS, //
    },
    modes::{
        self,
        Mode, //
    },
    sys::{
        self,
        procfs::ProcFile, //
    }, //
};
use kernel::{
    prelude::*,
    seq_file::SeqFile,
    seq_print, //
};

/// The first line, which names the driver with this format.
const VERSION: &str = "Marvell Technology Group Ltd(GC Ver0.8.0.3184-1)";

/// The file.
pub(crate) struct Status;

impl ProcFile for Status {
    fn show(out: &SeqFile) {
        let Some(clients) = CLIENTS.get() else {
            return;
        };
        let device = clients.device();
        let Some(state) = device.idle_state() else {
            return;
        };
        let usage = device.memory().usage();
        let (entries, used) = device.vm().usage();
        let reserved = device.memory().pool_bytes();
        let contiguous = usage.contiguous + device.bytes();
        let print_mode = |mode| u32::from(modes::is_on(mode));
        seq_print!(out, "{VERSION}\n");
        seq_print!(out, "RELEASE VERSION\n");
        seq_print!(
            out,
            "idle register: {:#04x}, hardware is {}\n",
            state.idle,
            idle_or_busy(state.is_idle)
        );
        seq_print!(out, "clockControl register: {:#04x}\n", state.clock_control);
        seq_print!(
            out,
            "print mode:\tPid({}) Reset({}) DumpCmdBuf({})\n",
            print_mode(Mode::Pids),
            print_mode(Mode::Resets),
            print_mode(Mode::Commands)
        );
        seq_print!(out, "GC memory usage profile:\n");
        seq_print!(out, "Total reserved video memory: {} KB\n", reserved / 1024);
        seq_print!(
            out,
            "Used video mem: {} KB\tcontiguous: {} KB\tvirtual: {} KB\n",
            usage.pool / 1024,
            contiguous / 1024,
            usage.scattered / 1024
        );
        seq_print!(
            out,
            "MMU Entries usage(PageCount): Total({entries}), Used({used})\n"
        );
        if device.all_cores().count() > 1 {
            show_cores(out, device);
        }
        for core in device.all_cores().filter(|core| core.amended() > 0) {
            let (index, given) = (core.index(), core.amended());
            seq_print!(
                out,
                "core {index}: identity: {given} values of the parameter\n"
            );
        }
    }

    fn command(text: &[u8]) -> Result {
        if !sys::is_admin() {
            return Err(EPERM);
        }
        command::run(text);
        Ok(())
    }
}

/// Prints the registers of each core that is not stopped.
fn show_cores(out: &SeqFile, device: &Device) {
    for core in device.all_cores() {
        let Some(state) = core.idle_state() else {
            continue;
        };
        let (index, (model, _)) = (core.index(), core.model());
        seq_print!(
            out,
            "core {index} (GC{model:x}): idle register: {:#04x}, hardware is {}\n",
            state.idle,
            idle_or_busy(state.is_idle)
        );
        seq_print!(
            out,
            "core {index} (GC{model:x}): clockControl register: {:#04x}\n",
            state.clock_control
        );
    }
}

fn idle_or_busy(is_idle: bool) -> &'static str {
    if is_idle {
        "idle"
    } else {
        "busy"
    }
}
