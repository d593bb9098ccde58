// SPDX-License-Identifier: GPL-2.0-only
//! Careless use of the driver's diagnostic interfaces, as with the vendor's driver. Programs and people read
//! `/proc/driver/gc` in small pieces and write commands with too few numbers. They use the profiler as the first
//! request on a file, with garbage, and for cores that are missing or powered off. They read debugfs while clients come
//! and go, and fdinfo while jobs end.
//!
//! The module must be loaded.

use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::profile;
use galcore_client::profile::UNWRITTEN;
use galcore_client::sys;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::ProcGc;
use galcore_selftests::usage;
use galcore_selftests::usage::FdInfo;
use galcore_selftests::usage::Usage;
use gpu_control::POWER;

/// `IOCTL_GCHAL_PROFILER_INTERFACE`.
const IOCTL_PROFILER: u32 = 30001;
/// `gcvSTATUS_CHIP_NOT_READY`. A client that checks only for negative values does not treat it as an error.
const CHIP_NOT_READY: Status = Status(11);
/// How long a core may take to power off.
const PATIENCE: Duration = Duration::from_secs(20);
/// The duration of one test.
const WHILE: Duration = Duration::from_millis(1500);
/// Generations with a profiler.
const GENERATIONS: [&str; 11] = [
    "dove",
    "dove_old",
    "v2",
    "v4",
    "4.0.0",
    "4.1.0",
    "4.6.9",
    "5.0.11.p8",
    "6.2.3",
    "6.2.4.p2",
    "6.4.11",
];

fn abi(name: &str) -> Result<&'static Abi> {
    Abi::named(name).with_context(|| format!("no generation {name}"))
}

fn tell(command: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(ProcGc::PATH)?;
    let taken = file.write(command.as_bytes())?;
    same(command, taken, command.len())
}

/// Checks the end of line 5.
fn print_modes(wanted: &str) -> Result<()> {
    let line = ProcGc::read()?.lines[4].clone();
    ensure!(line.ends_with(wanted), "{line:?}, wanted {wanted:?}");
    Ok(())
}

/// Writes set the modes that the file shows, like the vendor's driver. Values other than 0 and 1 are ignored.
fn set_modes() -> Result<()> {
    print_modes("Reset(1) DumpCmdBuf(0)")?;
    tell("silentReset 0\n")?;
    print_modes("Reset(0) DumpCmdBuf(0)")?;
    tell("silentReset 7\n")?;
    tell("dumpCmdBuf 7\n")?;
    print_modes("Reset(0) DumpCmdBuf(0)")?;
    tell("silentReset 1\n")?;
    tell("dumpCmdBuf 1\n")?;
    print_modes("Reset(1) DumpCmdBuf(1)")?;
    tell("silentReset 2\n")?;
    tell("dumpCmdBuf 2\n")?;
    print_modes("Reset(1) DumpCmdBuf(1)")?;
    tell("dumpCmdBuf 0\n")
}

/// The driver accepts any number of arguments, from one on.
fn some_numbers() -> Result<()> {
    let mut log = KernelLog::from_now()?;
    tell("profile 5 6")?;
    tell("profile")?;
    let lines: Vec<String> = log.lines()?.into_iter().map(|line| line.text).collect();
    for part in [
        "profile is refused: step 5, timeSlice 6,",
        "\"profile\" with numbers that it does not take",
    ] {
        ensure!(
            lines.iter().any(|line| line.contains(part)),
            "{part:?} of {lines:#?}"
        );
    }
    Ok(())
}

/// Reads the file in pieces of `size` bytes.
fn by_pieces(path: &str, size: usize) -> Result<Vec<u8>> {
    let mut file = File::open(path).context(path.to_string())?;
    let (mut text, mut piece) = (Vec::new(), vec![0; size]);
    loop {
        let count = file.read(&mut piece).context(path.to_string())?;
        if count == 0 {
            return Ok(text);
        }
        text.extend_from_slice(&piece[..count]);
    }
}

/// Reads like `dd bs=1`, reads from the middle, and reads past the end.
fn small_reads() -> Result<()> {
    let whole = fs::read(ProcGc::PATH)?;
    for size in [1, 2, 7, 4095] {
        let found = by_pieces(ProcGc::PATH, size)?;
        same(
            "in pieces",
            String::from_utf8(found)?,
            String::from_utf8(whole.clone())?,
        )?;
    }
    let file = File::open(ProcGc::PATH)?;
    let mut room = [0; 8];
    same("behind the end", file.read_at(&mut room, 1 << 20)?, 0)?;
    for at in [200usize, 3, 0, 9] {
        let count = file.read_at(&mut room, at as u64)?;
        same("from the middle", &room[..count], &whole[at..at + count])?;
        ensure!(count > 0, "nothing at {at}");
    }
    // Of two commands in one write, only the first counts. An empty write has no effect.
    tell("su\nhang\nprintPID\n")?;
    tell("")?;
    print_modes("Pid(0) Reset(1) DumpCmdBuf(0)")
}

/// The profiler's ioctl is the first request on a file.
fn profiler_first() -> Result<()> {
    let abi = abi("6.4.11")?;
    for command in [
        "GET_PROFILE_SETTING",
        "READ_ALL_PROFILE_REGISTERS_PART1",
        "READ_ALL_PROFILE_REGISTERS_PART2",
    ] {
        let node = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/galcore")?;
        let mut bytes = vec![0; abi.profiler];
        bytes[..4].copy_from_slice(&abi.commands[command].0.to_le_bytes());
        abi.put_header(
            &mut bytes,
            "hardwareType",
            Device::open_as(abi, true)?.hardware_type().into(),
        );
        sys::exchange(node.as_fd(), IOCTL_PROFILER, &mut bytes).context(command)?;
        same(command, abi.header_of(&bytes, "status") as i32, 0)?;
        // The ioctl takes no other command and no other size.
        bytes[..4].copy_from_slice(&abi.commands["VERSION"].0.to_le_bytes());
        sys::exchange(node.as_fd(), IOCTL_PROFILER, &mut bytes).context(command)?;
        same(
            "VERSION",
            abi.header_of(&bytes, "status") as i32,
            Status::INVALID_ARGUMENT.0,
        )?;
        let result = sys::exchange(node.as_fd(), IOCTL_PROFILER, &mut vec![0; abi.profiler - 4]);
        harness::not_tty("of another size", result)?;
        // The ioctl has not selected a generation for later requests.
        Device::of_file(node)?.version()?;
    }
    Ok(())
}

/// READ_REGISTER_EX of a core that is powered off: a client that does not treat 11 as an error reads no garbage.
fn off_together(control: &Control) -> Result<()> {
    let device = Device::open_as(abi("6.2.4.p2")?, true)?;
    let abi = device.abi();
    let (number, member) = abi.commands["READ_REGISTER_EX"];
    let (at, _) = abi.fields[format!("{member}.data").as_str()];
    let at = abi.union_at + at;
    let read = |cores: u64| -> Result<(Status, Vec<u32>)> {
        let mut bytes = vec![0; abi.sizes[0]];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        let (kind, size) = abi.header["hardwareType"];
        bytes[kind..kind + size].copy_from_slice(&device.hardware_type().to_le_bytes()[..size]);
        abi.set(&mut bytes, member, "address", 4);
        abi.set(&mut bytes, member, "coreSelect", cores);
        bytes[at..at + 16].fill(UNWRITTEN as u8);
        device.exchange_bytes(&mut bytes)?;
        let words = bytes[at..at + 16].chunks_exact(4);
        let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        Ok((
            Status(abi.header_of(&bytes, "status") as i32),
            words.collect(),
        ))
    };
    let (status, words) = read(1)?;
    same("on", status, Status::OK)?;
    ensure!(words[0] != UNWRITTEN, "nothing read");
    same("not asked for", &words[1..], &[UNWRITTEN; 3][..])?;
    system::may_sleep()?;
    eventually("off", PATIENCE, || Ok(control.read(POWER) == 0))?;
    let found = read(1);
    system::stay_awake()?;
    let (status, words) = found?;
    same("off", (status, words[0]), (CHIP_NOT_READY, 0))
}

/// Requests of programs by other authors to the profiler, with garbage in unused fields, for missing cores, and with
/// invalid addresses.
fn garbage(name: &str) -> Result<()> {
    let mut device = Device::open_as(abi(name)?, true)?;
    let mut room = Box::new([UNWRITTEN; 3]);
    let own = room.as_mut_ptr() as usize as u64;
    // As in 32-bit programs that cast a pointer to a signed number.
    let extended = own as u32 as i32 as i64 as u64;
    let mut addresses = vec![
        own,
        own + 1,
        0,
        0x10,
        0xc000_0000,
        u64::from(u32::MAX) - 3,
        u64::MAX - 3,
    ];
    if size_of::<usize>() == 4 {
        addresses.push(extended);
    }
    for kind in [device.hardware_type(), 0, 1, 2, 3, 4, 5, 6, 7] {
        device.set_hardware_type(kind);
        for address in &addresses {
            let given = [("hwProfile2D", *address)];
            let status = profile::ask(&device, "PROFILE_REGISTERS_2D", &given)?.status;
            let is_good = *address == own || *address == own + 1 || *address == extended;
            ensure!(is_good || status.0 < 0, "{address:#x}: {status:?}");
        }
        for command in profile::commands(device.abi()) {
            let first = profile::ask(&device, command, &[])?.status;
            let again = profile::ask(&device, command, &[])?.status;
            same(command, again, first)?;
        }
        for (command, given) in [
            ("SET_PROFILE_SETTING", &[("enable", 0xffff_ff00)][..]),
            ("GET_PROFILE_SETTING", &[]),
            ("SET_PROFILE_SETTING", &[("enable", 0)]),
            ("GET_PROFILE_SETTING", &[]),
        ] {
            let status = profile::ask(&device, command, given)?.status;
            same(command, status, Status::OK)?;
        }
    }
    drop(std::hint::black_box(room));
    Ok(())
}

/// The command loop of another process, which runs until it is killed.
fn be_other(abi: &'static Abi) -> Result<()> {
    let mut paint = None;
    other::serve(|words| {
        match words[..] {
            ["profile"] => {
                let device = Device::open_as(abi, true)?;
                let status = profile::ask(&device, "SET_PROFILE_SETTING", &[("enable", 1)])?.status;
                same("SET", status, Status::OK)?;
                // Keeps the file open until the process exits.
                std::mem::forget(device);
            }
            ["draw", count] => {
                let paint = match &mut paint {
                    Some(paint) => paint,
                    none => none.insert(Paint::new()?),
                };
                for _ in 0..count.parse::<u32>()? {
                    paint.run(&paint.fill_all(1))?;
                }
            }
            _ => anyhow::bail!("{words:?}"),
        }
        Ok("done".to_string())
    })
}

/// The clock gating of the modules is restored when a process that profiles is killed, even if two processes did.
fn killed() -> Result<()> {
    let device = Device::open_as(abi("4.0.0")?, true)?;
    let gating = || -> Result<u64> {
        let (status, value) = device.ask("READ_REGISTER", &[("address", 0x100)], "data")?;
        same("READ_REGISTER", status, Status::OK)?;
        Ok(value)
    };
    let before = gating()?;
    let mut both = [Other::start(abi("6.2.4.p2")?)?, Other::start(abi("v2")?)?];
    for other in &mut both {
        other.ask("profile")?;
    }
    let during = gating()?;
    ensure!(during != before, "{during:#x}: the clocks are as before");
    let [first, second] = both;
    first.kill()?;
    thread::sleep(Duration::from_millis(100));
    same("one is left", gating()?, during)?;
    second.kill()?;
    eventually("as before", PATIENCE, || Ok(gating()? == before))
}

/// debugfs while clients come and go: only whole lines, always with the same number of columns.
fn come_and_go() -> Result<()> {
    let goes_on = AtomicBool::new(true);
    thread::scope(|scope| {
        let others = scope.spawn(|| -> Result<u32> {
            let mut count = 0;
            while goes_on.load(Ordering::Relaxed) {
                let mut other = Other::start(abi("6.2.4.p2")?)?;
                other.ask("draw 1")?;
                match count % 2 {
                    0 => other.kill()?,
                    _ => drop(other),
                }
                count += 1;
            }
            Ok(count)
        });
        let result = read_all(Instant::now() + WHILE);
        goes_on.store(false, Ordering::Relaxed);
        let count = others.join().expect("a thread")?;
        println!("# {count} clients came and went");
        result
    })
}

fn read_all(until: Instant) -> Result<()> {
    let mut rounds = 0;
    while Instant::now() < until || rounds == 0 {
        rounds += 1;
        for name in [
            "info", "clients", "meminfo", "idle", "database", "vidmem", "clk",
        ] {
            let text = by_pieces(&format!("{}/{name}", usage::GC), 61)?;
            let text = String::from_utf8(text)?;
            ensure!(text.ends_with('\n') || text.is_empty(), "{name}: {text:?}");
            if name == "clients" {
                let ids: BTreeSet<u64> = usage::clients(&text)
                    .into_iter()
                    .map(|(id, _)| id)
                    .collect();
                same("lines", text.lines().count(), ids.len() + 2)?;
            }
        }
        Usage::read()?;
    }
    Ok(())
}

/// The reference count of the module. The module cannot be unloaded while it is not 0.
fn uses() -> Result<u32> {
    let text = fs::read_to_string("/sys/module/galcore/refcnt")?;
    Ok(text.trim().parse()?)
}

/// An open debugfs file keeps the module loaded, because the kernel calls its operations when the file is closed.
fn open_files() -> Result<()> {
    let before = uses()?;
    let mut files = Vec::new();
    for path in ["gc/info", "gc/vidmem", "gc/clk", "galcore/usage"] {
        let mut file = File::open(format!("/sys/kernel/debug/{path}")).context(path)?;
        // The file is empty if the core has no clocks.
        let _: usize = file.read(&mut [0])?;
        files.push(file);
    }
    same("uses", uses()?, before + 4)?;
    drop(files);
    same("uses afterwards", uses()?, before)?;
    // A file that is not writable, and text that is not a number.
    let options = |name: &str| {
        let mut options = OpenOptions::new();
        options.write(true).open(format!("{}/{name}", usage::GC))
    };
    ensure!(
        options("vidmem")?.write(b"x 1").is_err(),
        "no number is taken"
    );
    ensure!(
        options("vidmem")?.write(&[b'1'; 60]).is_err(),
        "too much is taken"
    );
    if let Ok(mut file) = options("info") {
        ensure!(file.write(b"1").is_err(), "info is written");
    }
    Ok(())
}

/// imx-gputop needs both clocks of core 0, or neither; with only one it leaks a file descriptor at each update.
fn both_clocks() -> Result<()> {
    let text = usage::vendor_file("clk")?;
    let info = usage::vendor_file("info")?;
    for core in info
        .lines()
        .filter_map(|line| line.strip_prefix("gpu      : "))
    {
        let number: u64 = core.parse()?;
        let [own, shaders] = usage::clocks(&text, number);
        // 2D cores may have one.
        if number < 8 {
            same("both clocks", own.is_some(), shaders.is_some())?;
        }
    }
    println!("# {text:?}");
    Ok(())
}

/// The usage of a process never decreases, whenever a job ends.
fn never_less() -> Result<()> {
    let mut other = Other::start(abi("6.2.4.p2")?)?;
    other.ask("draw 1")?;
    let kind = Usage::read()?.cores[0].kind.clone();
    let until = Instant::now() + 2 * WHILE;
    let (mut last, mut looks) = (Duration::ZERO, 0u32);
    while Instant::now() < until {
        other.tell("draw 20")?;
        for _ in 0..40 {
            let now = FdInfo::of(other.id())?.engine(&kind)?;
            ensure!(now >= last, "{now:?} after {last:?}, at look {looks}");
            last = now;
            looks += 1;
        }
        other.answer()?;
    }
    println!("# {looks} looks");
    Ok(())
}

fn suite(control: &Control) -> Suite<'_> {
    let mut suite = Suite::new();
    suite.test("/proc: modes are shown as they were set", set_modes);
    suite.test("/proc: profile with some of its numbers", some_numbers);
    suite.test("/proc: small reads, odd writes", small_reads);
    suite.test("the profiler's ioctl comes first", profiler_first);
    suite.test("registers of several cores that are off", move || {
        off_together(control)
    });
    for name in GENERATIONS {
        suite.test(format!("{name}: garbage for the profiler"), move || {
            garbage(name)
        });
    }
    suite.test("profilers are killed", killed);
    suite.test("debugfs while clients come and go", come_and_go);
    suite.test("clocks as gputop reads them", both_clocks);
    suite.test("files of debugfs keep the module", open_files);
    suite.test("fdinfo while jobs end", never_less);
    suite
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        system::stay_awake()?;
        let control = Control::open()?;
        suite(&control).run()
    })
}
