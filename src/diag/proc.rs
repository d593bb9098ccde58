// SPDX-License-Identifier: GPL-2.0-only

//! `/proc/driver/gc`, with the commands of Dove's driver, and its format, which scripts parse.
//!
//! The file has nine lines about the default core. If a device has several cores, two lines of
//! registers for each core follow, where parsers of the nine lines ignore them. Only the
//! administrator may send commands or open the file to write. Source:
//! sources.md, /proc.
//!
//! The commands are parsed as by Dove's driver. A text need not end with a newline or a zero. The
//! first of [`COMMANDS`] with which it begins is the command. So `restart` is `re`, and texts that
//! begin with 1, but not with 16, select the full clock. Source: sources.md, /proc.
//!
//! Takes `galcore commands`, above all other locks: one command runs at a time. Settings in
//! [`modes`] last until the module is unloaded, settings of a core until the core is unbound.

use super::with_clients;
use crate::{
    client::{
        AnyCore,
        Clients,
        Device,
        CLIENTS, //
    },
    gpu::{
        each,
        Admin, //
    },
    limits::FULL_SCALE,
    log::{
        self,
        ThisProcess, //
    },
    modes::{
        self,
        Mode, //
    },
    prelude::*,
    ring::{
        Given,
        IDS, //
    },
    sys::text_files::File, //
};
use kernel::uaccess::UserSliceReader;

/// The first line, which names the driver with this format.
const VERSION: &str = "Marvell Technology Group Ltd(GC Ver0.8.0.3184-1)";

/// The most bytes of a command that count.
const COMMAND_BYTES: usize = 256;

/// The file, which also accepts commands.
pub(crate) static FILE: File = File::writable(c"driver/gc", |f| with_clients(f, show), take);

/// Prints the contents.
fn show(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
    let device = clients.device();
    let Some(state) = device.idle_state() else {
        return Ok(());
    };
    let usage = device.memory.usage();
    let (entries, used) = device.vm.usage();
    let contiguous = usage.contiguous + device.bytes();
    let reserved = device.memory.pool_bytes() / 1024;
    let [pids, resets, commands] =
        [Mode::Pids, Mode::Resets, Mode::Commands].map(|mode| u32::from(modes::is_on(mode)));
    writeln!(f, "{VERSION}\nRELEASE VERSION")?;
    writeln!(
        f,
        "idle register: {:#04x}, hardware is {}",
        state.idle,
        idle_or_busy(state.is_idle)
    )?;
    writeln!(f, "clockControl register: {:#04x}", state.clock_control)?;
    writeln!(
        f,
        "print mode:\tPid({pids}) Reset({resets}) DumpCmdBuf({commands})"
    )?;
    writeln!(f, "GC memory usage profile:")?;
    writeln!(f, "Total reserved video memory: {reserved} KB")?;
    writeln!(
        f,
        "Used video mem: {} KB\tcontiguous: {} KB\tvirtual: {} KB",
        usage.pool / 1024,
        contiguous / 1024,
        usage.scattered / 1024
    )?;
    writeln!(
        f,
        "MMU Entries usage(PageCount): Total({entries}), Used({used})"
    )?;
    if device.all_cores().count() > 1 {
        show_cores(f, device)?;
    }
    for core in device.all_cores().filter(|core| core.amended() > 0) {
        let (index, given) = (core.index(), core.amended());
        writeln!(f, "core {index}: identity: {given} values of the parameter")?;
    }
    Ok(())
}

/// Handles a command.
fn take(reader: &mut UserSliceReader) -> Result<(), Errno> {
    let mut room = [0; COMMAND_BYTES];
    let bytes = reader.len().min(COMMAND_BYTES);
    let text = &mut room[..bytes];
    reader.read_slice(text)?;
    if !sys::is_admin() {
        return Err(EPERM);
    }
    run(text);
    Ok(())
}

/// Prints the registers of each core that is not stopped.
fn show_cores(f: &mut fmt::Formatter<'_>, device: &Device) -> fmt::Result {
    for core in device.all_cores() {
        let Some(state) = core.idle_state() else {
            continue;
        };
        let (index, (model, _)) = (core.index(), core.model());
        writeln!(
            f,
            "core {index} (GC{model:x}): idle register: {:#04x}, hardware is {}",
            state.idle,
            idle_or_busy(state.is_idle)
        )?;
        writeln!(
            f,
            "core {index} (GC{model:x}): clockControl register: {:#04x}",
            state.clock_control
        )?;
    }
    Ok(())
}

fn idle_or_busy(is_idle: bool) -> &'static str {
    if is_idle {
        "idle"
    } else {
        "busy"
    }
}

/// Registers in one line of the log.
const LINE: usize = 4;

/// The most cycles of `stress`, which switches cores off and on: a few seconds.
const MAX_STRESS: u32 = 16;

/// The parts of the driver for `debug`, from bit 0 up, as in the vendor's driver.
const ZONES: [&str; 11] = [
    "OS", "HARDWARE", "HEAP", "KERNEL", "VIDMEM", "COMMAND", "DRIVER", "CMODEL", "MMU", "EVENT",
    "DEVICE",
];

/// Prints the result of a command.
macro_rules! tell {
    ($($arg:tt)*) => {
        pr_info!("/proc/driver/gc: {}\n", kernel::prelude::fmt!($($arg)*))
    };
}

/// A command: its prefix, the parser of the numbers after it, and the function that executes it.
struct Command(&'static str, Read, Run);

/// Reads up to four numbers. Missing optional ones are 0. `None`: a number is missing or out of
/// range.
type Read = fn(&mut Numbers<'_>) -> Option<[u32; 4]>;

enum Run {
    Always(fn([u32; 4])),
    /// Needs a device.
    OnCores(fn(&Device, &mut Admin, [u32; 4])),
}

const NONE: Read = |_| Some([0; 4]);
const ONE: Read = |numbers| Some([numbers.next()?, 0, 0, 0]);
const SWITCH: Read = |numbers| ONE(numbers).filter(|found| found[0] <= 1);
const UP_TO_FOUR: Read = |numbers| {
    let first = numbers.next()?;
    let mut rest = || numbers.next().unwrap_or(0);
    Some([first, rest(), rest(), rest()])
};

/// The rows of [`COMMANDS`].
macro_rules! commands {
    ($($name:literal: $read:expr, $run:ident($does:expr);)*) => {
        [$(Command($name, $read, Run::$run($does))),*]
    };
}

/// All commands.
static COMMANDS: &[Command] = &commands! {
    "printPID": NONE, Always(|_| toggle("printPID", Mode::Pids));
    "powerDebug": NONE, Always(|_| toggle("powerDebug", Mode::Power));
    "profile": UP_TO_FOUR, Always(|[step, slice, tail, threshold]| {
        tell!(
            "profile is refused: step {step}, timeSlice {slice}, tailTimeSlice {tail} and idleThreshold {threshold} measure nothing here: see autosuspend_delay_ms and gctop"
        );
    });
    "hang": NONE, Always(|_| toggle("hang", Mode::Hangs));
    "reset2": NONE, OnCores(|device, _, _| {
        if modes::is_on(Mode::Errors) {
            tell!("reset2 by {ThisProcess}");
        }
        for core in device.all_cores() {
            each!(core, core => core.engine().reset_now());
        }
    });
    "memFail": ONE, OnCores(|_, _, [rate, ..]| modes::set_failures(rate));
    "irq": SWITCH, OnCores(|device, _, [on, ..]| {
        for core in device.all_cores() {
            each!(core, core => core.engine().set_interrupts(on == 1));
        }
    });
    "log": ONE, Always(|[bits, ..]| {
        modes::set(Mode::Errors, bits & 1 != 0);
        modes::set(Mode::Warnings, bits & 2 != 0);
    });
    "silentReset": SWITCH, Always(|[on, ..]| modes::set(Mode::Resets, on == 1));
    "dumpCmdBuf": SWITCH, Always(|[on, ..]| modes::set(Mode::Commands, on == 1));
    "dumpall": NONE, OnCores(|device, _, _| {
        device.all_cores().for_each(|core| print_core(&core))
    });
    "clkoffonly": NONE, OnCores(|device, admin, _| {
        admin.keeps_domains = !admin.keeps_domains;
        let keeps = admin.keeps_domains;
        let kept = |core: &AnyCore| core.hardware().supply().keep_domain(keeps).is_ok();
        let domains = device.all_cores().filter(kept).count();
        tell!("clkoffonly is {}: power domains: {domains}", on_or_off(keeps));
    });
    "offidle": NONE, OnCores(|device, admin, _| {
        admin.kept_on = match admin.kept_on {
            Some(_) => None,
            // A core that cannot be switched on is ignored.
            None => Some(core::array::from_fn(|place| device.any_at(place)?.keep_on().ok())),
        };
        tell!("offidle is {}", on_or_off(admin.kept_on.is_none()));
    });
    "su": NONE, OnCores(|device, _, _| {
        let (off, count) = switch_all(device, false);
        tell!("su: {off} of {count} cores are off");
    });
    "re": NONE, OnCores(|device, _, _| {
        let (on, count) = switch_all(device, true);
        tell!("re: {on} of {count} cores are on");
    });
    "stress": ONE, OnCores(|device, _, [count, ..]| {
        let [mut off, mut on] = [0; 2];
        for _ in 0..count.min(MAX_STRESS) {
            off += switch_all(device, false).0;
            on += switch_all(device, true).0;
        }
        tell!("stress: {off} times off, {on} times on");
    });
    "debug": |numbers| Some([numbers.level()?, numbers.next()?, 0, 0]), Always(debug);
    "16": |_| Some([16, 0, 0, 0]), OnCores(divide);
    "32": |_| Some([32, 0, 0, 0]), OnCores(divide);
    "64": |_| Some([64, 0, 0, 0]), OnCores(divide);
    "1": |_| Some([1, 0, 0, 0]), OnCores(divide);
    "2": |_| Some([2, 0, 0, 0]), OnCores(divide);
    "4": |_| Some([4, 0, 0, 0]), OnCores(divide);
    "8": |_| Some([8, 0, 0, 0]), OnCores(divide);
};

/// Numbers in a text, separated by white space: decimal, or hexadecimal after `0x`.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    /// The next number. `None`: there is none, or it has more than 32 bits.
    fn next(&mut self) -> Option<u32> {
        let text = self.0.trim_ascii_start();
        let (base, digits) = match text {
            [b'0', b'x' | b'X', digits @ ..] => (16, digits),
            digits => (10, digits),
        };
        let digit = |byte: u8| char::from(byte).to_digit(base);
        let length = digits.iter().take_while(|&&byte| digit(byte).is_some());
        let (digits, rest) = digits.split_at(length.count());
        let number = digits.iter().try_fold(0u32, |number, &byte| {
            number.checked_mul(base)?.checked_add(digit(byte)?)
        });
        let number = number.filter(|_| !digits.is_empty())?;
        self.0 = rest;
        Some(number)
    }

    /// The next number as a level of `debug`, from -1 up. Returns the level plus 1.
    fn level(&mut self) -> Option<u32> {
        if let Some(rest) = self.0.trim_ascii_start().strip_prefix(b"-") {
            self.0 = rest;
            return (self.next()? == 1).then_some(0);
        }
        let level = self.next().filter(|&level| level <= 3)?;
        Some(level + 1)
    }
}

/// The command in `text`, and its numbers if they are valid.
fn find(text: &[u8]) -> Option<(&'static Command, Option<[u32; 4]>)> {
    COMMANDS.iter().find_map(|command| {
        let rest = text.strip_prefix(command.0.as_bytes())?;
        Some((command, command.1(&mut Numbers(rest))))
    })
}

/// Runs the command in `text`. Logs an unknown command and invalid numbers.
pub(super) fn run(text: &[u8]) {
    let Some((Command(name, _, run), numbers)) = find(text) else {
        let text = core::str::from_utf8(text).unwrap_or("?").trim();
        let text = text.split(char::is_control).next().unwrap_or("");
        return tell!("unknown echo \"{text}\"");
    };
    let Some(numbers) = numbers else {
        return tell!("command \"{name}\" with numbers that it does not take");
    };
    let clients = CLIENTS.get();
    let device = clients.as_ref().map(|clients| &**clients.device());
    let mut admin = device.map(|device| device.admin.lock());
    match (run, device.zip(admin.as_mut())) {
        (Run::Always(run), _) => run(numbers),
        (Run::OnCores(run), Some((device, admin))) => run(device, admin, numbers),
        (Run::OnCores(_), None) => tell!("there is no core"),
    }
}

fn on_or_off(on: bool) -> &'static str {
    if on {
        "on"
    } else {
        "off"
    }
}

fn toggle(name: &str, mode: Mode) {
    tell!("{name} is {}", on_or_off(modes::toggle(mode)));
}

/// Limits each core with a ring to its clock divided by `divider`.
fn divide(device: &Device, _: &mut Admin, [divider, ..]: [u32; 4]) {
    for core in device.cores() {
        core.engine().set_cap(FULL_SCALE / divider);
    }
}

/// Switches all idle cores on or off. Returns how many cores are in that state now, and how many
/// there are. Runtime power management continues to switch them.
fn switch_all(device: &Device, on: bool) -> (usize, usize) {
    let all = device.all_cores().inspect(|core| core.switch(on));
    all.fold((0, 0), |(switched, count), core| {
        let is_switched = core.hardware().is_on() == on;
        (switched + usize::from(is_switched), count + 1)
    })
}

/// Enables the debug lines of `zones`, from level 2 (INFO) on. Disables those of all others, except
/// for the kernel's dynamic debug. `above` is the level plus 1.
fn debug([above, zones, ..]: [u32; 4]) {
    let is_on = above > 2;
    modes::set_zones(if is_on { zones } else { 0 });
    // The vendor's driver only has a name for level 3.
    let name = if above == 4 { "VERBOSE" } else { "NONE" };
    // CAST: 4 at most.
    tell!("debug level {name} ({}), zone {zones:#x}", above as i32 - 1);
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

/// Prints the registers of a core, if it is on, and the words of all its jobs under way.
fn print_core(core: &AnyCore) {
    let dev = &core.hardware().dev;
    let (index, (model, _)) = (core.index(), core.model());
    match core.registers() {
        Some(registers) => {
            dev_info!(dev, "core {index} (GC{model:x}): its registers\n");
            for line in registers.all().chunks(LINE) {
                dev_info!(dev, "{}\n", Line(line));
            }
        }
        None => dev_info!(dev, "core {index} (GC{model:x}) is off\n"),
    }
    let newest = core.newest();
    let mut from = newest.saturating_sub(usize_as_u64(IDS));
    // Ends: `from` grows, and there are a few jobs up to `newest`.
    while let Some(job) = core.given(from).filter(|job| job.noted.number <= newest) {
        from = job.noted.number + 1;
        if job.is_under_way {
            print_job(core, &job);
        }
    }
}

/// Prints at most [`log::MAX_WORDS`] words of a job, if they are still in memory.
fn print_job(core: &AnyCore, job: &Given) {
    // All words of the job, if the process has none in it.
    let (start, bytes) = match job.noted.own {
        (_, 0) => (0, job.noted.bytes),
        own => own,
    };
    dev_info!(
        core.hardware().dev,
        "job {:#x} of process {}: {} words at {:#010x}\n",
        job.noted.number,
        job.noted.process,
        bytes / 4,
        job.address + start
    );
    // CAST: 32 bits into at least 32. One word more than the maximum shows that there are more.
    let count = (bytes as usize / 4).min(log::MAX_WORDS + 1);
    let words = KVec::from_elem(0, count, GFP_KERNEL);
    if let Ok(mut words) = words {
        if core.copy_given(job, start, &mut words) {
            log::print_words(&[&words]);
        }
    }
}

/// Registers in a line.
struct Line<'a>(&'a [(u32, u32)]);

impl fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(offset, value)| out.write_fmt(fmt!(" {offset:03x}: {value:08x}")))
    }
}

#[kernel::macros::kunit_tests(galcore_proc_command)]
mod tests {
    use super::*;

    fn does(text: &str, name: &str, numbers: [u32; 4]) -> bool {
        let found = find(text.as_bytes());
        found.is_some_and(|(Command(known, ..), found)| *known == name && found == Some(numbers))
    }

    #[test]
    fn commands_are_known_by_how_they_begin() {
        let plain = |text: &str, name| does(text, name, [0; 4]);
        assert!(plain("printPID\n", "printPID"));
        assert!(plain("printPIDs", "printPID"));
        assert!(plain("hang", "hang"));
        assert!(plain("reset2", "reset2"));
        // Commands before `re` in the list may begin with `re`.
        assert!(plain("reset", "re"));
        assert!(plain("su", "su"));
        assert!(plain("dumpall", "dumpall"));
        assert!(plain("clkoffonly", "clkoffonly"));
        assert!(plain("offidle\0\0", "offidle"));
        for text in ["", "\n", " hang", "Hang", "printpid", "0", "3", "\u{ff}"] {
            assert!(find(text.as_bytes()).is_none());
        }
    }

    #[test]
    fn numbers_follow_them() {
        assert!(does("profile 1 0x20\t3  4\n", "profile", [1, 32, 3, 4]));
        assert!(does("profile 1 2 x 4", "profile", [1, 2, 0, 0]));
        assert!(does("memFail 0xFFFFFFFF", "memFail", [u32::MAX, 0, 0, 0]));
        assert!(does("memFail0", "memFail", [0; 4]));
        assert!(does("irq 0", "irq", [0; 4]));
        assert!(does("irq 1\n", "irq", [1, 0, 0, 0]));
        assert!(does("log 0", "log", [0; 4]));
        assert!(does("log 3", "log", [3, 0, 0, 0]));
        assert!(does("silentReset 1", "silentReset", [1, 0, 0, 0]));
        assert!(does("dumpCmdBuf 0", "dumpCmdBuf", [0; 4]));
        assert!(does("stress 7x", "stress", [7, 0, 0, 0]));
        assert!(does("debug 3 1024", "debug", [4, 1024, 0, 0]));
        assert!(does("debug -1 0x20", "debug", [0, 32, 0, 0]));
        let bad = |text: &str, name: &str| {
            let found = find(text.as_bytes());
            found.is_some_and(|(Command(known, ..), found)| *known == name && found.is_none())
        };
        assert!(bad("profile x 2 3", "profile"));
        assert!(bad("memFail 4294967296", "memFail"));
        assert!(bad("memFail -1", "memFail"));
        assert!(bad("memFail 0x", "memFail"));
        assert!(bad("irq", "irq"));
        assert!(bad("irq 2", "irq"));
        assert!(bad("silentReset 2", "silentReset"));
        assert!(bad("dumpCmdBuf 7", "dumpCmdBuf"));
        assert!(bad("logout", "log"));
        for text in ["debug", "debug 3", "debug 4 1", "debug -2 1", "debug - 1"] {
            assert!(bad(text, "debug"));
        }
    }

    #[test]
    fn sixteen_is_looked_for_before_one() {
        for (text, divider) in [
            ("1", 1),
            ("2\n", 2),
            ("4 ", 4),
            ("8x", 8),
            ("160", 16),
            ("32", 32),
            ("64\n", 64),
            ("128", 1),
            ("17", 1),
        ] {
            let found = find(text.as_bytes()).and_then(|found| found.1);
            assert_eq!(found, Some([divider, 0, 0, 0]));
        }
        for text in ["6", "63", "33", "5"] {
            assert!(find(text.as_bytes()).is_none());
        }
    }
}
