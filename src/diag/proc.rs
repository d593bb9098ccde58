// SPDX-License-Identifier: GPL-2.0-only

//! `/proc/driver/gc`, in the Dove driver's format, which scripts parse.
//!
//! Source: spec/memory-events.md section 9.1. Its commands are the admin's; those that only its
//! authors' debugging needed do nothing, as they do there.

use crate::{
    client::CLIENTS,
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

/// The first line, which names the driver that the format is from.
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
        let is_idle = if state.is_idle { "idle" } else { "busy" };
        let contiguous = usage.contiguous + device.bytes();
        seq_print!(out, "{VERSION}\n");
        seq_print!(out, "RELEASE VERSION\n");
        seq_print!(
            out,
            "idle register: {:#04x}, hardware is {is_idle}\n",
            state.idle
        );
        seq_print!(out, "clockControl register: {:#04x}\n", state.clock_control);
        seq_print!(out, "print mode:\tPid(0) Reset(1) DumpCmdBuf(0)\n");
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
    }

    fn command(text: &[u8]) -> Result {
        if !sys::is_admin() {
            return Err(EPERM);
        }
        let text = core::str::from_utf8(text).unwrap_or("?").trim();
        pr_info!("/proc/driver/gc: command \"{text}\" is not supported\n");
        Ok(())
    }
}
