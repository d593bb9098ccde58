// SPDX-License-Identifier: GPL-2.0-only
//! The commands of `/proc/driver/gc`: each is checked by its effect on the cores, on memory, or on the log.
//!
//! Needs the module to be loaded, with `gpuTimeout`, and not to be in use.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::become_user;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::cell_of;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::CELLS;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::ProcGc;
use gpu_control::counter;
use gpu_control::fault;
use gpu_control::POWER;
use gpu_control::POWER_CLOCK;
use gpu_control::POWER_DOMAIN;
use gpu_control::SCALE;

/// All commands.
const COMMANDS: [&str; 25] = [
    "printPID",
    "powerDebug",
    "profile 1 2 3 4",
    "hang",
    "reset2",
    "memFail 0xffffffff",
    "irq 0",
    "log 0",
    "silentReset 0",
    "dumpCmdBuf 1",
    "dumpall",
    "clkoffonly",
    "offidle",
    "su",
    "re",
    "stress 2",
    "debug 3 1024",
    "1",
    "2",
    "4",
    "8",
    "16",
    "32",
    "64",
    "nonsense",
];

/// Power and clock of a core that is on.
const ON: u32 = POWER_CLOCK | POWER_DOMAIN;
/// Longest time until a request takes effect.
const SOON: Duration = Duration::from_secs(10);
/// Longer than any operation, in milliseconds.
const LONG: u32 = 20_000;
/// Argument of the process that is not an administrator.
const USER: &str = "--user";
/// Argument of a process that tries to start a client.
const START: &str = "--start";
/// Argument of a process that sends RESET.
const RESET: &str = "--reset";
/// Argument of a process that keeps sending RESET and BROADCAST_GPU_STUCK.
const STORM: &str = "--storm";
/// Allocations that `memFail` grants first.
const GRANTED: u32 = 30;
/// `hang` makes one of this many LINKs lead to an invalid address.
const LINKS: u32 = 50;

/// Writes the command with one call.
fn tell(command: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(ProcGc::PATH)?;
    let bytes = file
        .write(command.as_bytes())
        .context(command.to_string())?;
    same(command, bytes, command.len())
}

/// Fails unless the print modes are these: processes, resets, commands.
fn modes(pids: u32, resets: u32, commands: u32) -> Result<()> {
    same(
        "line 5",
        ProcGc::read()?.lines[4].clone(),
        format!("print mode:\tPid({pids}) Reset({resets}) DumpCmdBuf({commands})"),
    )
}

/// Number of resets of one of the driver's cores, from debugfs.
fn resets(core: usize) -> Result<u32> {
    let text = fs::read_to_string("/sys/kernel/debug/galcore/resets")?;
    let start = format!("core {core} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    Ok(line.with_context(|| text.clone())?.parse()?)
}

/// The log from now on.
struct Log(KernelLog, Vec<String>);

impl Log {
    fn new() -> Result<Self> {
        Ok(Self(KernelLog::from_now()?, Vec::new()))
    }

    /// All lines so far.
    fn read(&mut self) -> Result<&[String]> {
        self.1
            .extend(self.0.lines()?.into_iter().map(|line| line.text));
        Ok(&self.1)
    }

    /// Fails unless a line has all of `parts`.
    fn has(&mut self, parts: &[&str]) -> Result<()> {
        eventually(&format!("the log has {parts:?}"), SOON, || {
            let lines = self.read()?;
            Ok(lines
                .iter()
                .any(|line| parts.iter().all(|part| line.contains(part))))
        })
    }

    /// Fails if a line has `part`.
    fn lacks(&mut self, part: &str) -> Result<()> {
        let line = self.read()?.iter().find(|line| line.contains(part));
        ensure!(line.is_none(), "{line:?}");
        Ok(())
    }
}

/// A process that is not an administrator writes all commands to a descriptor that it got from root as standard input.
fn user() -> Result<()> {
    become_user(1000)?;
    let mut file = File::from(rustix::io::dup(std::io::stdin())?);
    for command in COMMANDS {
        let error = match file.write(command.as_bytes()) {
            Ok(bytes) => anyhow::bail!("{command}: {bytes} bytes written"),
            Err(error) => error.raw_os_error(),
        };
        same(command, error, Some(libc::EPERM))?;
    }
    let opened = OpenOptions::new().write(true).open(ProcGc::PATH);
    let error = opened.err().and_then(|error| error.raw_os_error());
    same("open", error, Some(libc::EACCES))?;
    fs::read(ProcGc::PATH)?;
    Ok(())
}

/// A command that the driver refuses and logs.
fn refused_commit() -> Result<()> {
    let mut client = Client::start()?;
    let mut stream = Stream::new();
    stream.raw(&[0xF800_0000, 0]);
    let pipe = client.engine().pipe();
    let result = client.commit(pipe, &stream, &mut Queue::new());
    ensure!(result.is_err(), "it was not refused");
    Ok(())
}

/// Draws `commits` cells on one background color, each with its own commit, and checks all of them.
fn draw_cells(paint: &mut Paint, commits: u32, colour: u32) -> Result<()> {
    ensure!(commits <= CELLS, "{commits} of {CELLS} cells");
    let ground = !colour | 0xff00_0000;
    paint.prove(ground)?;
    let signal = paint.device().create_signal(false)?;
    for number in 0..commits {
        let stream = paint.fill_cell(number, colour + number);
        let mut queue = Queue::new();
        if number + 1 == commits {
            queue.signal(signal);
        }
        paint.commit(&stream, &mut queue)?;
    }
    paint.device().wait_signal(signal, LONG)?;
    paint.device().destroy_signal(signal)?;
    paint.expect(|x, y| match cell_of(x, y) {
        number if number < commits => colour + number,
        _ => ground,
    })
}

fn print_tests(suite: &mut Suite<'_>) {
    suite.test("who is no admin is refused, and nothing happens", || {
        let before = fs::read_to_string(ProcGc::PATH)?;
        let file = OpenOptions::new().write(true).open(ProcGc::PATH)?;
        let output = system::again(&[USER])?.stdin(Stdio::from(file)).output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        modes(0, 1, 0)?;
        let after = fs::read_to_string(ProcGc::PATH)?;
        // The registers may differ.
        let rest = |text: &str| text.lines().skip(4).map(str::to_string).collect::<Vec<_>>();
        same(
            "lines",
            rest(&after)[..5].to_vec(),
            rest(&before)[..5].to_vec(),
        )
    });
    suite.test("all of what is written is taken, whatever it is", || {
        let mut log = Log::new()?;
        for text in ["nonsense", "profile x 2", "irq", "memFail x", "log"] {
            tell(text)?;
        }
        tell(&"z".repeat(255))?;
        tell(&"z".repeat(256))?;
        tell(&"z".repeat(257))?;
        tell(&"z".repeat(5000))?;
        tell(&format!("su{}", " ".repeat(70_000)))?;
        log.has(&["unknown echo \"nonsense\""])?;
        log.has(&["\"profile\" with numbers"])?;
        log.has(&["\"irq\" with numbers"])?;
        log.has(&["su: ", "cores are off"])?;
        modes(0, 1, 0)
    });
    suite.test("print modes are shown as they are", || {
        tell("printPID\n")?;
        modes(1, 1, 0)?;
        tell("dumpCmdBuf 1\n")?;
        modes(1, 1, 1)?;
        tell("silentReset 0\n")?;
        modes(1, 0, 1)?;
        tell("silentReset 1")?;
        modes(1, 1, 1)?;
        tell("dumpCmdBuf 0")?;
        tell("printPID")?;
        modes(0, 1, 0)
    });
    suite.test("printPID: lines name program and thread", || {
        let mut log = Log::new()?;
        let id = std::process::id();
        refused_commit()?;
        log.has(&[&format!("process {id}: "), "refused"])?;
        tell("printPID")?;
        refused_commit()?;
        let told = format!("process {id} (");
        log.has(&[&told, ", thread ", "): ", "refused"])?;
        tell("printPID")
    });
    suite.test("log: warnings and errors are silent, or not", || {
        let mut log = Log::new()?;
        tell("log 1")?;
        refused_commit()?;
        tell("log 0")?;
        refused_commit()?;
        log.lacks("refused")?;
        tell("log 3")?;
        refused_commit()?;
        log.has(&["refused"])
    });
    suite.test("dumpCmdBuf: the words of commits are printed", || {
        let mut paint = Paint::new()?;
        let mut log = Log::new()?;
        paint.prove(0xff11_0001)?;
        log.lacks("words")?;
        tell("dumpCmdBuf 1")?;
        paint.prove(0xff11_0002)?;
        tell("dumpCmdBuf 0")?;
        log.has(&["job ", " words"])?;
        // The fill's color is among them, and the words match the client's.
        log.has(&[" ff110002"])?;
        let words = paint.fill_all(0xff11_0002).words().to_vec();
        let first: Vec<String> = words[..8]
            .iter()
            .map(|word| format!("{word:08x}"))
            .collect();
        let first = first.join(" ");
        log.has(&[&first])?;
        paint.prove(0xff11_0003)?;
        log.lacks("ff110003")?;
        paint.close()
    });
    suite.test("profile: refused, each number by its name", || {
        let mut log = Log::new()?;
        tell("profile 1 2 3 4")?;
        let names = [
            "profile is refused",
            "step 1,",
            "timeSlice 2,",
            "tailTimeSlice 3 ",
            "idleThreshold 4 ",
        ];
        log.has(&names)
    });
    suite.test("debug: lines of a zone, or none", || {
        let device = Device::open()?;
        let mut log = Log::new()?;
        // A signal that does not exist, and a record that refers to it.
        let mistakes = || -> Result<()> {
            ensure!(device.wait_signal(0x7eee_eeee, 0).is_err(), "a signal");
            device.commit_queue(Queue::new().signal(0x7eee_eeee))?;
            Ok(())
        };
        let [refusal, record] = ["refused with gcvSTATUS_", "a SIGNAL record is left out"];
        // These levels have no lines. The vendor's driver has no name for INFO.
        for (command, reply, zone, told) in [
            (
                "debug -1 0x7ff",
                "debug level NONE (-1), zone 0x7ff",
                "",
                [false, false],
            ),
            (
                "debug 1 0x7ff",
                "debug level NONE (1), zone 0x7ff",
                "",
                [false, false],
            ),
            (
                "debug 3 1",
                "debug level VERBOSE (3), zone 0x1",
                "OS has no lines",
                [false, false],
            ),
            (
                "debug 2 8",
                "debug level NONE (2), zone 0x8",
                "lines of KERNEL are",
                [true, false],
            ),
            (
                "debug 3 512",
                "debug level VERBOSE (3), zone 0x200",
                "lines of EVENT are",
                [false, true],
            ),
            (
                "debug 0 520",
                "debug level NONE (0), zone 0x208",
                "",
                [false, false],
            ),
        ] {
            log.read()?;
            log.1.clear();
            tell(command)?;
            log.has(&[reply])?;
            log.has(&[zone])?;
            mistakes()?;
            for (line, is_told) in [refusal, record].into_iter().zip(told) {
                if is_told {
                    log.has(&[line]).context(command)?
                } else {
                    log.lacks(line).context(command)?
                }
            }
        }
        Ok(())
    });
}

fn core_tests<'a>(suite: &mut Suite<'a>, cores: &'a [Control]) {
    suite.test(
        "a line of registers for each core, behind the nine",
        move || {
            // No core may power on or off between two lines.
            let text = system::awake(|| fs::read_to_string(ProcGc::PATH))??;
            for line in text.lines() {
                println!("# {line}");
            }
            ensure!(text.len() <= 1000, "{} bytes", text.len());
            let lines: Vec<&str> = text.lines().collect();
            let more = if cores.len() > 1 { 2 * cores.len() } else { 0 };
            same("lines", lines.len(), 9 + more)?;
            for (index, pair) in lines[9..].chunks(2).enumerate() {
                let name = format!("core {index} (GC");
                let state = pair[0].split_once("): idle register: 0x");
                let (core, state) = state.with_context(|| pair[0].to_string())?;
                ensure!(core.starts_with(&name), "{core:?}");
                let (bits, state) = state.split_once(", hardware is ").context("no state")?;
                u32::from_str_radix(bits, 16)?;
                ensure!(["idle", "busy"].contains(&state), "{state:?}");
                let clock = pair[1].split_once("): clockControl register: 0x");
                let (other, clock) = clock.with_context(|| pair[1].to_string())?;
                same("core", other, core)?;
                u32::from_str_radix(clock, 16)?;
            }
            // The nine lines describe one of the cores, or the only one.
            if let [_, ..] = lines[9..] {
                let first =
                    |index: usize| lines[9..].iter().any(|line| line.ends_with(lines[index]));
                ensure!(first(2) && first(3), "{:?}", &lines[2..4]);
            }
            Ok(())
        },
    );
    suite.test("1 to 64 divide the clock", move || {
        system::stay_awake()?;
        let divided: Vec<&Control> = cores
            .iter()
            .filter(|core| core.read(SCALE) == 64)
            .take(2)
            .collect();
        ensure!(!divided.is_empty(), "no core at its full clock");
        let at = |scale: u32| -> Result<()> {
            for core in &divided {
                same("64ths", core.read(SCALE), scale)?;
            }
            let line = ProcGc::read()?.lines[3].clone();
            let found = line.trim_start_matches("clockControl register: 0x");
            let register = u32::from_str_radix(found, 16)?;
            same("bits 8 to 2 of register 0", register & 0x1fc, scale << 2)
        };
        for divider in [1, 2, 4, 8, 16, 32, 64] {
            tell(&format!("{divider}\n"))?;
            at(64 / divider).with_context(|| format!("{divider}"))?;
        }
        // The driver treats any number that begins with 1, other than 16, as 1.
        tell("128")?;
        at(64)?;
        tell("320")?;
        at(2)?;
        // The divider also applies during work, and to new clients.
        let mut paint = Paint::new()?;
        paint.prove(0xff12_0001)?;
        at(2)?;
        paint.close()?;
        tell("17")?;
        at(64)?;
        system::may_sleep()
    });
    suite.test(
        "powerDebug: going off and on, and clocks, are told",
        move || {
            let mut paint = Paint::new()?;
            let mut log = Log::new()?;
            paint.prove(0xff13_0001)?;
            is_at(&cores[0], 0)?;
            log.lacks("it is off")?;
            tell("powerDebug")?;
            paint.prove(0xff13_0002)?;
            log.has(&["powerDebug is on"])?;
            log.has(&[": it is on"])?;
            tell("2")?;
            log.has(&[": it runs at 32/64 of its clock"])?;
            tell("1")?;
            is_at(&cores[0], 0)?;
            log.has(&[": it is off"])?;
            tell("powerDebug")?;
            log.has(&["powerDebug is off"])?;
            paint.close()
        },
    );
    suite.test("offidle: cores stay on, or go off", move || {
        for core in cores {
            is_at(core, 0)?;
        }
        let mut log = Log::new()?;
        tell("offidle")?;
        log.has(&["offidle is off"])?;
        for core in cores {
            is_at(core, ON)?;
        }
        let mut paint = Paint::new()?;
        paint.prove(0xff14_0001)?;
        // Longer than `autosuspend`.
        std::thread::sleep(Duration::from_millis(600));
        for core in cores {
            same("power", core.read(POWER), ON)?;
        }
        tell("offidle")?;
        log.has(&["offidle is on"])?;
        for core in cores {
            is_at(core, 0)?;
        }
        paint.prove(0xff14_0002)?;
        paint.close()
    });
    suite.test(
        "clkoffonly: cores that are off keep their power, or lose it",
        move || {
            let mut paint = Paint::new()?;
            for (round, (on, off)) in [("on", POWER_DOMAIN), ("off", 0)].into_iter().enumerate() {
                let mut log = Log::new()?;
                tell("clkoffonly")?;
                let line = format!("clkoffonly is {on}: power domains: {}", cores.len());
                log.has(&[&line])?;
                // They must power on before they can power off in the other way.
                tell("offidle")?;
                for core in cores {
                    is_at(core, ON)?;
                }
                tell("offidle")?;
                for core in cores {
                    is_at(core, off)?;
                }
                paint.prove(0xff15_0001 + round as u32)?;
                is_at(&cores[0], off)?;
            }
            paint.close()
        },
    );
    suite.test("su, re, stress: idle cores go off and on", move || {
        let mut paint = Paint::new()?;
        paint.prove(0xff15_1001)?;
        let count = cores.len();
        let all_at = |power: u32| -> Result<()> {
            for core in cores {
                same("power", core.read(POWER), power)?;
            }
            Ok(())
        };
        let mut log = Log::new()?;
        // It takes effect at once, not after the usual delay.
        for _ in 0..3 {
            tell("re")?;
            all_at(ON)?;
            tell("su")?;
            all_at(0)?;
        }
        log.has(&[&format!("re: {count} of {count} cores are on")])?;
        log.has(&[&format!("su: {count} of {count} cores are off")])?;
        paint.prove(0xff15_1002)?;
        tell("su")?;
        let ups = || -> Vec<u64> {
            let ups = cores.iter().map(|core| core.counter(counter::CLOCK_UPS));
            ups.collect()
        };
        for (command, rounds) in [("stress 3", 3), ("stress 4000000000", 16)] {
            let before = ups();
            tell(command)?;
            let times = rounds * count;
            log.has(&[&format!("stress: {times} times off, {times} times on")])?;
            for (core, (after, before)) in ups().iter().zip(&before).enumerate() {
                same(
                    &format!("{command}: core {core}"),
                    after - before,
                    rounds as u64,
                )?;
            }
        }
        // A core that draws is left alone.
        let armed = cores[0].arm(fault::SLOW_DRAWS, 300_000);
        let stream = paint.fill_all(0xff15_1003);
        paint.commit(&stream, &mut Queue::new())?;
        std::thread::sleep(Duration::from_millis(100));
        tell("su")?;
        same("power of the one that draws", cores[0].read(POWER), ON)?;
        log.has(&[&format!("su: {} of {count} cores are off", count - 1)])?;
        drop(armed);
        paint.client.finish()?;
        paint.expect(|_, _| 0xff15_1003)?;
        paint.close()
    });
    suite.test(
        "who draws beside requests of all kinds loses nothing",
        move || stormy(cores),
    );
    suite.test("irq: jobs end without interrupts", move || {
        // Uses the model's count of interrupts that it raised.
        let mut paint = Paint::new()?;
        draw_cells(&mut paint, 20, 0xff16_0000)?;
        let interrupts = || cores[0].counter(counter::INTERRUPTS);
        tell("irq 0")?;
        let before = interrupts();
        let begun = Instant::now();
        for round in 0..5 {
            paint.prove(0xff16_1000 + round)?;
        }
        draw_cells(&mut paint, 100, 0xff16_2000)?;
        println!("# without interrupts: {} ms", begun.elapsed().as_millis());
        same("interrupts", interrupts(), before)?;
        // Also across a power-off.
        is_at(&cores[0], 0)?;
        paint.prove(0xff16_3000)?;
        same("interrupts", interrupts(), before)?;
        tell("irq 1")?;
        // The hang check may see the end of the first one before the interrupt.
        for round in 0..5 {
            paint.prove(0xff16_3001 + round)?;
        }
        ensure!(interrupts() > before, "none come");
        paint.close()?;
        // A core that is bound again uses interrupts at once.
        tell("irq 0")?;
        for core in system::bound()? {
            system::to_driver("unbind", &core)?;
            system::to_driver("bind", &core)?;
        }
        let before = interrupts();
        let mut paint = Paint::new()?;
        for round in 0..5 {
            paint.prove(0xff16_4001 + round)?;
        }
        ensure!(interrupts() > before, "none come");
        paint.close()
    });
    suite.test(
        "dumpall: registers, and words of jobs, are printed",
        move || {
            let mut paint = Paint::new()?;
            is_at(&cores[0], 0)?;
            let mut log = Log::new()?;
            tell("dumpall")?;
            for core in 0..cores.len() {
                log.has(&[&format!("core {core} (GC"), " is off"])?;
            }
            paint.prove(0xff17_0001)?;
            let armed = cores[0].arm(fault::SLOW_DRAWS, 300_000);
            let stream = paint.fill_all(0xff17_0002);
            paint.commit(&stream, &mut Queue::new())?;
            // The core may still be powering on.
            std::thread::sleep(Duration::from_millis(100));
            tell("dumpall")?;
            drop(armed);
            log.has(&["its registers"])?;
            log.has(&[" 664: "])?;
            let id = std::process::id();
            log.has(&["job ", &format!(" of process {id}: "), " words at "])?;
            // The color of the running job, not of a finished one.
            log.has(&[" ff170002"])?;
            log.lacks("ff170001")?;
            paint.client.finish()?;
            paint.expect(|_, _| 0xff17_0002)?;
            paint.close()
        },
    );
}

/// Waits until a core's power state is `power`.
fn is_at(control: &Control, power: u32) -> Result<()> {
    eventually(&format!("power is {power:#x}"), SOON, || {
        Ok(control.read(POWER) == power)
    })
}

/// The status of RESET (or command `number`) for a process with this user id in the generation `name`.
fn ask_reset(name: &str, number: Option<u32>, user: u32) -> Result<i32> {
    let number = number.map(|number| number.to_string()).unwrap_or_default();
    let output = system::again(&[RESET, name, &number, &user.to_string()])?.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| text.to_string())
}

/// The process that sends the command.
fn send_reset(mut words: impl Iterator<Item = String>) -> Result<()> {
    let mut word = || words.next().context("an argument");
    let abi = Abi::named(&word()?).context("a generation")?;
    let number = word()?;
    let user = word()?.parse()?;
    let number = match number.parse() {
        Ok(number) => number,
        Err(_) => abi.commands["RESET"].0,
    };
    let device = Device::open_as(abi, true)?;
    become_user(user)?;
    let mut bytes = vec![0; abi.sizes[0]];
    bytes[..4].copy_from_slice(&u32::to_le_bytes(number));
    device.exchange_bytes(&mut bytes)?;
    println!("{}", abi.header_of(&bytes, "status") as i32);
    Ok(())
}

/// A user who requests resets and checks of cores for two seconds without a pause.
fn storm() -> Result<()> {
    let abis = ["4.0.0", "v2"].map(|name| Abi::named(name).context("a generation"));
    let mut all = Vec::new();
    for abi in abis {
        let abi = abi?;
        // BROADCAST_GPU_STUCK has this number in the old generation.
        for number in [abi.commands["RESET"].0, 36] {
            let mut bytes = vec![0; abi.sizes[0]];
            bytes[..4].copy_from_slice(&u32::to_le_bytes(number));
            all.push((Device::open_as(abi, true)?, bytes));
        }
    }
    become_user(1000)?;
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        for (device, bytes) in &mut all {
            let mut bytes = bytes.clone();
            device.exchange_bytes(&mut bytes)?;
            count += 1;
        }
    }
    println!("# {count} requests");
    Ok(())
}

/// A drawing client must lose nothing while such users and an administrator send all harmless requests.
fn stormy(cores: &[Control]) -> Result<()> {
    let mut paint = Paint::new()?;
    paint.prove(0xff24_0001)?;
    let charged = paint.device().resets()?;
    let user = |_| -> Result<_> { Ok(system::again(&[STORM])?.stdout(Stdio::piped()).spawn()?) };
    let users = (0..3).map(user).collect::<Result<Vec<_>>>()?;
    let begun = Instant::now();
    let (mut pictures, mut slowest) = (0, Duration::ZERO);
    // Enough for each of the commands.
    while begun.elapsed() < Duration::from_secs(2) || pictures < 5 {
        // Slow draws are not hangs.
        let armed = cores[0].arm(fault::SLOW_DRAWS, 40_000 * (pictures % 5));
        let one = Stopwatch::start();
        paint.prove(0xff24_1000 + pictures)?;
        slowest = slowest.max(one.elapsed());
        drop(armed);
        pictures += 1;
        tell(["su", "re", "stress 2", "dumpall", "log 3"][pictures as usize % 5])?;
    }
    for user in users {
        let output = user.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{text}");
        print!("{text}");
    }
    println!("# {pictures} pictures, the slowest in {slowest:?}");
    same("what was charged", paint.device().resets()?, charged)?;
    ensure!(slowest < Duration::from_secs(2), "{slowest:?}");
    paint.close()
}

/// A hung core is left as it is, so that an administrator can inspect it.
fn left_hanging(core: &Control) -> Result<()> {
    system::stay_awake()?;
    let mut paint = Paint::new()?;
    paint.prove(0xff23_0001)?;
    let [own, old] = ["4.0.0", "v2"];
    // BROADCAST_GPU_STUCK of the old generation.
    let stuck = Some(36);
    let not_supported = Status::NOT_SUPPORTED.0;
    // No core hangs yet.
    let mut log = Log::new()?;
    let before = core.counters().resets;
    same("RESET", ask_reset(own, None, 0)?, 0)?;
    same("RESET of v2", ask_reset(old, None, 0)?, not_supported)?;
    same("BROADCAST_GPU_STUCK", ask_reset(old, stuck, 0)?, 0)?;
    same("resets", core.counters().resets, before)?;
    log.has(&["RESET: core 0 makes progress", "it was not reset"])?;
    tell("silentReset 0")?;
    for (round, (name, number)) in [(own, None), (old, None), (old, stuck)]
        .into_iter()
        .enumerate()
    {
        let mut log = Log::new()?;
        let (before, charged) = (core.counters().resets, paint.device().resets()?);
        let signal = paint.device().create_signal(false)?;
        let armed = core.arm(fault::HANG_AT_DRAW, 1);
        let stream = paint.fill_all(0xff23_1001);
        paint.commit(&stream, Queue::new().signal(signal))?;
        log.has(&["!!FATAL!! GPU Stuck: the GPU hangs"])?;
        log.has(&["  idle=0x", " axi=0x0", " cmd=0x"])?;
        // Several times `gpuTimeout`.
        std::thread::sleep(Duration::from_millis(1000));
        let wanted = if name == old && number.is_none() {
            not_supported
        } else {
            0
        };
        same("of a user", ask_reset(name, number, 1000)?, wanted)?;
        std::thread::sleep(Duration::from_millis(500));
        same("resets", core.counters().resets, before)?;
        same("of an admin", ask_reset(name, number, 0)?, 0)?;
        same("resets", core.counters().resets, before + 1)?;
        paint.device().wait_signal(signal, LONG)?;
        drop(armed);
        if number.is_none() {
            log.has(&["RESET: core 0 hung, and was reset"])?;
        }
        // One of its jobs is lost, and no process is charged.
        let (guilty, _, dropped) = paint.device().resets()?;
        same(
            "guilty, dropped",
            (guilty, dropped),
            (charged.0, charged.2 + 1),
        )?;
        paint.prove(0xff23_2000 + round as u32)?;
        paint.device().destroy_signal(signal)?;
    }
    // The core is reset when resets are allowed again.
    let (before, charged) = (core.counters().resets, paint.device().resets()?);
    let armed = core.arm(fault::HANG_AT_DRAW, 1);
    let stream = paint.fill_all(0xff23_1002);
    paint.commit(&stream, &mut Queue::new())?;
    std::thread::sleep(Duration::from_millis(1000));
    same("resets", core.counters().resets, before)?;
    tell("silentReset 1")?;
    eventually("it is reset", SOON, || {
        Ok(core.counters().resets == before + 1)
    })?;
    paint.client.finish()?;
    drop(armed);
    let (guilty, _, dropped) = paint.device().resets()?;
    same(
        "guilty, dropped",
        (guilty, dropped),
        (charged.0 + 1, charged.2 + 1),
    )?;
    paint.prove(0xff23_3000)?;
    paint.close()?;
    system::may_sleep()
}

fn reset_tests<'a>(suite: &mut Suite<'a>, cores: &'a [Control]) {
    suite.test("reset2: cores are reset, and go on", move || {
        let mut paint = Paint::new()?;
        paint.prove(0xff20_0001)?;
        system::stay_awake()?;
        let counts = || -> Vec<u64> { cores.iter().map(|core| core.counters().resets).collect() };
        let (before, told) = (
            counts(),
            (0..cores.len()).map(resets).collect::<Result<Vec<_>>>()?,
        );
        let mut log = Log::new()?;
        tell("reset2")?;
        log.has(&["the GPU was reset"])?;
        for (core, (after, before)) in counts().iter().zip(&before).enumerate() {
            same(&format!("resets of core {core}"), *after, before + 1)?;
            same("told", resets(core)?, told[core] + 1)?;
        }
        // Contexts and memory are as before.
        paint.prove(0xff20_0002)?;
        draw_cells(&mut paint, CELLS, 0xff20_0003)?;
        // Ten resets in a row, while another thread draws.
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| -> Result<()> {
                let mut paint = Paint::new()?;
                for round in 0..40 {
                    paint.prove(0xff20_1000 + round)?;
                }
                paint.close()
            });
            for _ in 0..10 {
                tell("reset2")?;
            }
            worker.join().expect("no panic")
        })?;
        let (guilty, _, dropped) = paint.device().resets()?;
        same("guilty, dropped", (guilty, dropped), (0, 0))?;
        system::may_sleep()?;
        // A core that is off is left alone.
        for core in cores {
            is_at(core, 0)?;
        }
        let before = counts();
        let ups = cores[0].counter(counter::CLOCK_UPS);
        tell("reset2")?;
        same("resets", counts(), before)?;
        same("switched on", cores[0].counter(counter::CLOCK_UPS), ups)?;
        paint.prove(0xff20_0004)?;
        paint.close()
    });
    suite.test(
        "reset2: what runs on is dropped, nobody is charged",
        move || {
            let mut first = Paint::new()?;
            let mut second = Paint::of(Client::start()?)?;
            first.prove(0xff21_0001)?;
            second.prove(0xff21_0002)?;
            let before = cores[0].counters().resets;
            let armed = cores[0].arm(fault::ENDLESS_DRAW, 1);
            let signal = first.device().create_signal(false)?;
            let stream = first.fill_all(0xff21_0003);
            first.commit(&stream, Queue::new().signal(signal))?;
            eventually("it draws", SOON, || {
                Ok(ProcGc::read()?.lines[2].ends_with("busy"))
            })?;
            tell("reset2")?;
            // The signal of the lost job is set.
            first.device().wait_signal(signal, LONG)?;
            drop(armed);
            same("resets", cores[0].counters().resets, before + 1)?;
            let (guilty, innocent, dropped) = first.device().resets()?;
            same("guilty, dropped", (guilty, dropped), (0, 1))?;
            ensure!(innocent > 0, "it was in none");
            let users = fs::read_to_string("/sys/kernel/debug/galcore/resets")?;
            ensure!(!users.contains("user "), "{users:?}");
            first.prove(0xff21_0004)?;
            second.expect(|_, _| 0xff21_0002)?;
            second.prove(0xff21_0005)?;
            second.close()?;
            first.close()
        },
    );
    suite.test("log 0: nothing is told of resets", move || {
        system::stay_awake()?;
        let mut log = Log::new()?;
        tell("log 0")?;
        tell("reset2")?;
        log.lacks("reset")?;
        tell("log 3")?;
        tell("reset2")?;
        log.has(&["the GPU was reset"])?;
        system::may_sleep()
    });
    suite.test(
        "silentReset 0: what hangs is left, until 1, RESET or BROADCAST_GPU_STUCK",
        move || left_hanging(&cores[0]),
    );
    suite.test(
        "hang: one LINK of fifty, and nobody loses anything",
        move || {
            system::stay_awake()?;
            let mut paint = Paint::new()?;
            paint.prove(0xff22_0001)?;
            let (before, first) = (cores[0].counters().resets, paint.device().resets()?);
            let mut log = Log::new()?;
            tell("hang")?;
            log.has(&["hang is on"])?;
            draw_cells(&mut paint, 2 * LINKS + 9, 0xff22_1000)?;
            same("resets", cores[0].counters().resets - before, 2)?;
            log.has(&["the GPU hangs"])?;
            log.has(&["jobs dropped 0, the others go on", "the GPU was reset"])?;
            let (guilty, innocent, dropped) = paint.device().resets()?;
            same("guilty, dropped", (guilty, dropped), (first.0, first.2))?;
            same("innocent", innocent, first.1 + 2)?;
            log.lacks("has hung the GPU")?;
            tell("hang")?;
            log.has(&["hang is off"])?;
            let before = cores[0].counters().resets;
            draw_cells(&mut paint, 2 * LINKS, 0xff22_2000)?;
            same("resets", cores[0].counters().resets, before)?;
            paint.close()?;
            system::may_sleep()
        },
    );
}

/// Allocates memory and starts clients while half of the allocations fail. Everything must be released.
fn half_fails() -> Result<()> {
    let mut counts = [0u32; 2];
    let mut paint = Paint::new()?;
    tell("memFail 0x80000000")?;
    let device = Device::open()?;
    let mut nodes = Vec::new();
    for round in 0..GRANTED + 200 {
        let node = device.allocate(8192, 64, uapi::surface::BITMAP, Pool::DEFAULT);
        if round < GRANTED {
            nodes.push(node?);
            continue;
        }
        counts[usize::from(node.is_err())] += 1;
        nodes.extend(node);
        // Also during the start of a client.
        if round % 40 == 0 {
            // Its exit releases everything that it had allocated.
            system::again(&[START])?.output()?;
        }
    }
    // Clients that have their memory already can continue.
    paint.prove(0xff31_0001)?;
    tell("memFail 0")?;
    for node in nodes {
        device.free(node)?;
    }
    paint.close()?;
    println!("# granted and refused: {counts:?}");
    ensure!(counts.iter().all(|&count| count > 50), "{counts:?}");
    Ok(())
}

fn memory_tests(suite: &mut Suite<'_>) {
    suite.test("memFail: all that allocates says OUT_OF_MEMORY", || {
        let device = Device::open()?;
        let identity = device.identity()?;
        let before = ProcGc::nothing_left()?;
        let own = || device.allocate(4096, 64, uapi::surface::BITMAP, Pool::DEFAULT);
        tell("memFail 0xFFFFFFFF")?;
        for _ in 0..GRANTED {
            let node = own()?;
            device.free(node)?;
        }
        let fails = |what: &str, status: Status| same(what, status, Status::OUT_OF_MEMORY);
        for pool in [Pool::DEFAULT, Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
            let node = device.allocate(4096, 64, uapi::surface::BITMAP, pool);
            refused("ALLOCATE_LINEAR_VIDEO_MEMORY", node, Status::OUT_OF_MEMORY)?;
        }
        let buffer = device.allocate_contiguous(4096);
        refused("ALLOCATE_CONTIGUOUS_MEMORY", buffer, Status::OUT_OF_MEMORY)?;
        let buffer = device.allocate_non_paged(4096);
        refused("ALLOCATE_NON_PAGED_MEMORY", buffer, Status::OUT_OF_MEMORY)?;
        if has_3d(&identity) {
            refused("ATTACH", device.attach(), Status::OUT_OF_MEMORY)?;
        }
        let dove = Device::open_as(Abi::named("dove").context("dove")?, true)?;
        let surface = uapi::AllocateVideoMemory {
            width: 16,
            height: 16,
            depth: 1,
            format: 212,
            surface_type: uapi::surface::BITMAP,
            pool: Pool::DEFAULT.0,
            node: 0,
        };
        let (status, _) = dove.send(Command::ALLOCATE_VIDEO_MEMORY, &surface)?;
        fails("ALLOCATE_VIDEO_MEMORY", status)?;
        // A client cannot even start.
        ensure!(Client::start().is_err(), "it has started");
        tell("memFail 0")?;
        same("what is left", ProcGc::nothing_left()?, before)?;
        let mut paint = Paint::new()?;
        paint.prove(0xff30_0001)?;
        paint.close()
    });
    suite.test(
        "memFail: half of them at random, and nothing is lost",
        || {
            let before = ProcGc::nothing_left()?;
            // The first round fills the kernel's caches.
            half_fails()?;
            settles("what is left", before, ProcGc::nothing_left)?;
            let free = system::settled_free()?;
            for _ in 0..2 {
                half_fails()?;
            }
            settles("what is left", before, ProcGc::nothing_left)?;
            system::memory_is_back(free, 1024)
        },
    );
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(USER) {
        return harness::exit(user());
    }
    if std::env::args().nth(1).as_deref() == Some(RESET) {
        return harness::exit(send_reset(std::env::args().skip(2)));
    }
    if std::env::args().nth(1).as_deref() == Some(STORM) {
        return harness::exit(storm());
    }
    if std::env::args().nth(1).as_deref() == Some(START) {
        return harness::exit(Client::start().map(drop).map_err(Into::into));
    }
    harness::program(|| {
        let mut cores = Vec::new();
        while let Ok(core) = Control::open_core(cores.len()) {
            cores.push(core);
        }
        let mut suite = Suite::new();
        print_tests(&mut suite);
        core_tests(&mut suite, &cores);
        reset_tests(&mut suite, &cores);
        memory_tests(&mut suite);
        suite.run()
    })
}
