// SPDX-License-Identifier: GPL-2.0-only

//! `/proc/driver/gc`, in the Dove driver's format, which scripts parse, and with its commands.
//!
//! Nine lines about the core that is asked first. On a device with several cores the two lines of
//! registers of each follow, after all that a parser of the nine knows. Commands
//! ([`super::command`]) are the admin's, who must have opened the file, too; unknown ones are
//! logged, and accepted all the same. Source: sources.md, /proc.

use super::command::{
    self,
    Command,
    Level,
    Said, //
};
use crate::{
    client::{
        Device,
        CLIENTS, //
    },
    limits::FULL_SCALE,
    log::ThisProcess,
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

/// The first line, which names the driver that the format is from.
const VERSION: &str = "Marvell Technology Group Ltd(GC Ver0.8.0.3184-1)";

/// How often `stress` switches cores off and on at most: some seconds.
const MAX_STRESS: u32 = 16;

/// Parts of the driver that `debug` knows by number, from bit 0 up, as the vendor's driver.
const ZONES: [&str; 11] = [
    "OS", "HARDWARE", "HEAP", "KERNEL", "VIDMEM", "COMMAND", "DRIVER", "CMODEL", "MMU", "EVENT",
    "DEVICE",
];

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
        if device.count() > 1 {
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
        match command::read(text) {
            Said::Do(command) => run(command),
            Said::BadNumbers(name) => {
                pr_info!(
                    "/proc/driver/gc: command \"{name}\" with numbers that it does not take\n"
                );
            }
            Said::Nothing => {
                let text = core::str::from_utf8(text).unwrap_or("?").trim();
                let text = text.split(char::is_control).next().unwrap_or("");
                pr_info!("/proc/driver/gc: unknown echo \"{text}\"\n");
            }
        }
        Ok(())
    }
}

/// The registers of each core.
fn show_cores(out: &SeqFile, device: &Device) {
    device.for_each_state(|core, state| {
        seq_print!(
            out,
            "{core}: idle register: {:#04x}, hardware is {}\n",
            state.idle,
            idle_or_busy(state.is_idle)
        );
        seq_print!(
            out,
            "{core}: clockControl register: {:#04x}\n",
            state.clock_control
        );
    });
}

fn idle_or_busy(is_idle: bool) -> &'static str {
    match is_idle {
        true => "idle",
        false => "busy",
    }
}

/// Prints what a command has come to.
macro_rules! tell {
    ($($arg:tt)*) => {
        pr_info!("/proc/driver/gc: {}\n", kernel::prelude::fmt!($($arg)*))
    };
}

fn on_or_off(on: bool) -> &'static str {
    match on {
        true => "on",
        false => "off",
    }
}

/// Does it. Without a core some of it comes to nothing.
fn run(command: Command) {
    let clients = CLIENTS.get();
    let device = clients.as_ref().map(|clients| &**clients.device());
    match command {
        Command::PrintPid => tell!("printPID is {}", on_or_off(modes::toggle(Mode::Pids))),
        Command::PowerDebug => tell!("powerDebug is {}", on_or_off(modes::toggle(Mode::Power))),
        Command::Hang => tell!("hang is {}", on_or_off(modes::toggle(Mode::Hangs))),
        Command::Log(errors, warnings) => {
            modes::set(Mode::Errors, errors);
            modes::set(Mode::Warnings, warnings);
        }
        Command::SilentReset(on) => modes::set(Mode::Resets, on),
        Command::DumpCommands(on) => modes::set(Mode::Commands, on),
        Command::Profile([step, slice, tail, threshold]) => {
            let or_none = |number: Option<u32>| number.unwrap_or(0);
            tell!(
                "profile is refused: step {}, timeSlice {}, tailTimeSlice {} and idleThreshold {} measure nothing here: see autosuspend_delay_ms and gctop",
                or_none(step), or_none(slice), or_none(tail), or_none(threshold)
            );
        }
        Command::Debug(level, zones) => debug(level, zones),
        others => match device {
            Some(device) => run_on(device, others),
            None => tell!("there is no core"),
        },
    }
}

/// Does what concerns cores and memory.
fn run_on(device: &Device, command: Command) {
    match command {
        Command::Su => {
            let (off, count) = device.switch_all(false);
            tell!("su: {off} of {count} cores are off");
        }
        Command::Re => {
            let (on, count) = device.switch_all(true);
            tell!("re: {on} of {count} cores are on");
        }
        Command::Stress(count) => {
            let mut times = [0; 2];
            for _ in 0..count.min(MAX_STRESS) {
                times[0] += device.switch_all(false).0;
                times[1] += device.switch_all(true).0;
            }
            let [off, on] = times;
            tell!("stress: {off} times off, {on} times on");
        }
        Command::Reset => {
            if modes::is_on(Mode::Errors) {
                tell!("reset2 by {ThisProcess}");
            }
            device.reset_all();
        }
        Command::MemFail(rate) => modes::set_failures(rate),
        Command::Interrupts(on) => device.set_interrupts(on),
        Command::DumpAll => device.print_all(),
        Command::ClockOffOnly => {
            let (on, domains) = device.toggle_keeps_domains();
            tell!("clkoffonly is {}: power domains: {domains}", on_or_off(on));
        }
        Command::OffIdle => {
            let stays_on = device.toggle_stays_on();
            tell!("offidle is {}", on_or_off(!stays_on));
        }
        Command::Divide(divider) => device.set_cap(FULL_SCALE / divider),
        _ => {}
    }
}

/// Prints what `zones` say for debugging, from level INFO on; the others are silent, but for the
/// kernel's dynamic debug.
fn debug(level: Level, zones: u32) {
    let is_on = level >= Level::Info;
    modes::set_zones(if is_on { zones } else { 0 });
    // The vendor's driver has a name for these alone.
    let name = match level {
        Level::Verbose => "VERBOSE",
        _ => "NONE",
    };
    tell!("debug level {name} ({}), zone {zones:#x}", level as i32 - 1);
    for (bit, zone) in ZONES.iter().enumerate().filter(|_| is_on) {
        if zones & 1 << bit == 0 {
            continue;
        }
        match modes::ZONES_WITH_LINES & 1 << bit {
            0 => tell!("debug: {zone} has no lines"),
            _ => tell!("debug: lines of {zone} are printed"),
        }
    }
}
