// SPDX-License-Identifier: GPL-2.0-only
//! The system that the driver runs on: free memory, the kernel log, `/proc/driver/gc`, the module.

use std::ffi::CString;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::NODES;
use rustix::fs::FileType;
use rustix::fs::Mode;
use rustix::process::getrlimit;
use rustix::process::setrlimit;
use rustix::process::Resource;
use rustix::process::Rlimit;

use crate::harness::settles;
use crate::harness::settles_while;
use crate::harness::Stopwatch;

/// The interface that the driver assigned to this process, from debugfs: generation, bytes, reason.
pub fn interface_of_self() -> Result<(String, usize, String)> {
    let text = std::fs::read_to_string("/sys/kernel/debug/galcore/interface")?;
    let id = std::process::id().to_string();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&id)?.strip_prefix(' '))
        .with_context(|| format!("no line of {id} in {text:?}"))?;
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().map(str::to_string).context("a short line");
    Ok((word()?, word()?.parse()?, word()?))
}

/// The value of a line of `/proc/meminfo` in KiB.
pub fn meminfo(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .with_context(|| format!("no {name} in /proc/meminfo"))?;
    let number = line.split_whitespace().next().unwrap_or_default();
    number
        .parse()
        .with_context(|| format!("{name}: {number:?}"))
}

/// Free KiB, including pages on the per-CPU lists, which MemFree leaves out: an exiting process moves megabytes between
/// the two.
fn free() -> Result<u64> {
    let zones = fs::read_to_string("/proc/zoneinfo")?;
    let on_lists: u64 = zones
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("count:")?
                .trim()
                .parse::<u64>()
                .ok()
        })
        .sum();
    Ok(meminfo("MemFree")? + on_lists * 4)
}

/// Free KiB after dropping caches and finishing deferred frees.
pub fn settled_free() -> Result<u64> {
    crate::harness::at_rest(|| Ok(()))?;
    let mut best = 0;
    for _ in 0..10 {
        // The file exists only in kernels with CONFIG_SYSCTL.
        let _ = fs::write("/proc/sys/vm/drop_caches", "3");
        std::thread::sleep(Duration::from_millis(30));
        let now = free()?;
        if now <= best + 16 {
            return Ok(now.max(best));
        }
        best = now;
    }
    Ok(best)
}

/// The largest amount of freed memory that KASAN quarantines, in KiB; 0 on kernels without KASAN.
pub fn quarantine() -> Result<u64> {
    static KIB: OnceLock<u64> = OnceLock::new();
    if let Some(kib) = KIB.get() {
        return Ok(*kib);
    }
    let symbols = fs::read_to_string("/proc/kallsyms")?;
    let kib = if symbols.contains(" kasan_quarantine_put") {
        // QUARANTINE_FRACTION and QUARANTINE_PERCPU_SIZE of mm/kasan/quarantine.c.
        meminfo("MemTotal")? / 32 + 4 * 1024
    } else {
        0
    };
    Ok(*KIB.get_or_init(|| kib))
}

/// Fails if less memory is free than `before` (from [`settled_free`]), with a tolerance of `noise` KiB.
pub fn memory_is_back(before: u64, noise: u64) -> Result<()> {
    let after = settled_free()?;
    println!("# {before} KiB free before, {after} KiB after");
    if after + noise < before {
        let kept = quarantine()?;
        ensure!(
            after + noise + kept >= before,
            "{before} KiB free before, {after} KiB after"
        );
    }
    Ok(())
}

/// Pages that are pinned now, by any process.
pub fn pinned_by_all() -> Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let number = |name: &str| -> Result<u64> {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines
            .find(|(found, _)| *found == name)
            .context("no such count")?;
        Ok(value.parse()?)
    };
    // The kernel does not update the two counters at the same moment.
    Ok(number("nr_foll_pin_acquired")?.saturating_sub(number("nr_foll_pin_released")?))
}

/// KiB of this process that drivers have pinned, from `/proc/self/status`.
pub fn pinned() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmPin:"));
    let line = line.context("no VmPin in /proc/self/status")?;
    let number = line.split_whitespace().next().unwrap_or_default();
    number.parse().with_context(|| format!("VmPin: {line:?}"))
}

/// The contents of `/proc/driver/gc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcGc {
    /// All lines.
    pub lines: Vec<String>,
}

/// What the driver has not released yet although clients gave it up: numbers of objects, of processes, and of GPU
/// mappings. Empty if the driver is not loaded.
fn pending() -> Result<String> {
    let path = "/sys/kernel/debug/galcore/pending";
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).context(path),
    }
}

/// Whether the driver, if loaded, still has anything that clients gave up.
pub fn is_pending() -> Result<bool> {
    let pending = pending()?;
    Ok(pending.split_whitespace().any(|number| number != "0"))
}

/// The processes that have the driver's device nodes open, each with its id, name, state and parent.
fn clients() -> Result<Vec<String>> {
    let mut all = Vec::new();
    for process in fs::read_dir("/proc")?.flatten() {
        let path = process.path();
        let Ok(files) = fs::read_dir(path.join("fd")) else {
            continue;
        };
        let is_client = files.flatten().any(|file| {
            let opened = fs::read_link(file.path());
            opened.is_ok_and(|opened| NODES.iter().any(|node| opened == Path::new(node)))
        });
        // The process may have exited in the meantime.
        if let (true, Ok(stat)) = (is_client, fs::read_to_string(path.join("stat"))) {
            let words: Vec<&str> = stat.split_whitespace().take(4).collect();
            all.push(words.join(" "));
        }
    }
    Ok(all)
}

/// Describes what is left: how much of it the driver is still releasing, and which processes have the driver open.
fn whose() -> String {
    let pending = pending().unwrap_or_else(|error| format!("{error:#}"));
    let clients = clients().unwrap_or_else(|error| vec![format!("{error:#}")]);
    format!("pending {pending:?}, clients {clients:?}")
}

impl ProcGc {
    /// The path of the file.
    pub const PATH: &'static str = "/proc/driver/gc";

    /// Reads the file.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(Self::PATH).context(Self::PATH)?;
        Ok(Self {
            lines: text.lines().map(str::to_string).collect(),
        })
    }

    fn line(&self, start: &str) -> Result<&str> {
        let line = self.lines.iter().find(|line| line.starts_with(start));
        line.map(String::as_str)
            .with_context(|| format!("{}: no line {start:?}", Self::PATH))
    }

    /// KiB used of the pool, of contiguous memory, and of virtual memory.
    pub fn used(&self) -> Result<[u64; 3]> {
        let line = self.line("Used video mem: ")?;
        let numbers: Vec<u64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [pool, contiguous, virtual_pool] => Ok([pool, contiguous, virtual_pool]),
            _ => bail!("{line:?}: wanted three numbers"),
        }
    }

    /// Reads the file and returns [`ProcGc::used`].
    pub fn used_now() -> Result<[u64; 3]> {
        Self::read()?.used()
    }

    /// The number of MMU entries, and how many of them are in use.
    pub fn mmu(&self) -> Result<(u64, u64)> {
        let line = self.line("MMU Entries usage(PageCount): ")?;
        let numbers: Vec<u64> = line
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [total, used] => Ok((total, used)),
            _ => bail!("{line:?}: wanted two numbers"),
        }
    }

    /// Reads the file and returns the number of MMU entries in use.
    pub fn mmu_used_now() -> Result<u64> {
        Ok(Self::read()?.mmu()?.1)
    }

    /// Waits until everything of other processes is released, and returns the KiB and MMU entries in use. Only the
    /// driver's own contiguous memory is then still in use.
    pub fn nothing_left() -> Result<([u64; 3], u64)> {
        let now = || -> Result<_> {
            let books = Self::read()?;
            Ok((books.used()?, books.mmu()?.1))
        };
        settles_while(
            "KiB of the pool, VIRTUAL KiB, MMU entries",
            (0, 0, 0),
            || {
                let ([pool, _, scattered], entries) = now()?;
                Ok(((pool, scattered, entries), pending()?))
            },
            whose,
        )?;
        // The driver itself uses some contiguous memory, so the test only waits until the amount stays constant.
        let mut last = now()?;
        settles("changes", 0, || {
            std::thread::sleep(Duration::from_millis(10));
            let next = now()?;
            let changes = u32::from(next != last);
            last = next;
            Ok(changes)
        })?;
        Ok(last)
    }

    /// The size of the pool in KiB.
    pub fn reserved(&self) -> Result<u64> {
        let line = self.line("Total reserved video memory: ")?;
        let number = line
            .trim_start_matches("Total reserved video memory: ")
            .trim_end_matches(" KB");
        number.parse().with_context(|| format!("{line:?}"))
    }
}

/// A line of the kernel log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The level, from 0 (emergency) to 7 (debug).
    pub level: u32,
    /// The text.
    pub text: String,
}

/// The kernel messages from some moment on.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
}

impl KernelLog {
    /// Starts at the end of the log.
    pub fn from_now() -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .context("/dev/kmsg")?;
        file.seek(SeekFrom::End(0)).context("/dev/kmsg")?;
        Ok(Self { file })
    }

    /// The lines that were logged since the last call.
    pub fn lines(&mut self) -> Result<Vec<LogLine>> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.file.read(&mut record) {
                Ok(0) => break,
                Ok(bytes) => lines.extend(log_line(&String::from_utf8_lossy(&record[..bytes]))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Records were overwritten before this read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => continue,
                Err(error) => return Err(error).context("/dev/kmsg"),
            }
        }
        Ok(lines)
    }
}

/// Parses "6,339,5140900,-;text"; properties may follow on further lines.
fn log_line(record: &str) -> Option<LogLine> {
    let (head, text) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let text = text.lines().next().unwrap_or_default();
    // Facility 0 is the kernel. Messages of init have facility 1.
    (priority >> 3 == 0).then(|| LogLine {
        level: priority & 7,
        text: text.to_string(),
    })
}

/// The module file, its parameters and its binding, as the runner gives them.
#[derive(Clone, Debug)]
pub struct Module {
    path: String,
    parameters: Vec<String>,
}

/// The name of the module.
const NAME: &str = "galcore";

impl Module {
    /// Takes the module from the command line (`path parameters...`), otherwise from the runner's environment.
    pub fn from_words(words: &[String]) -> Result<Self> {
        if let [path, parameters @ ..] = words {
            return Ok(Self {
                path: path.clone(),
                parameters: parameters.to_vec(),
            });
        }
        let path = std::env::var("GALCORE_MODULE").unwrap_or_else(|_| "/galcore.ko".to_string());
        let parameters = std::env::var("GALCORE_PARAMETERS").unwrap_or_default();
        Ok(Self {
            path,
            parameters: parameters.split_whitespace().map(str::to_string).collect(),
        })
    }

    /// Whether parameters define the device, not the device tree.
    pub fn bound_by_parameters(&self) -> bool {
        self.parameter("registerMemBase").is_some()
    }

    /// The value of a parameter that [`Module::load`] will pass.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// The value of a parameter as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        let text = self.parameter(name)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// A copy with some parameters replaced ("name=value") or removed (without "=").
    pub fn with(&self, changes: &[&str]) -> Self {
        let mut changed = self.clone();
        for change in changes {
            let name = change.split('=').next().unwrap_or_default();
            changed
                .parameters
                .retain(|word| word.split('=').next() != Some(name));
            if change.contains('=') {
                changed.parameters.push((*change).to_string());
            }
        }
        changed
    }

    /// Loads the module. Returns the elapsed time also on failure.
    pub fn load(&self) -> (Duration, rustix::io::Result<()>) {
        let begin = Stopwatch::start();
        let result = File::open(&self.path)
            .map_err(|error| {
                rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
            })
            .and_then(|file| {
                let words = CString::new(self.parameters.join(" "))
                    .map_err(|_| rustix::io::Errno::INVAL)?;
                rustix::system::finit_module(file, &words, 0)
            });
        (begin.elapsed(), result)
    }

    /// Loads the module, and creates the device nodes that devtmpfs did not create.
    pub fn load_or_fail(&self) -> Result<()> {
        self.load()
            .1
            .with_context(|| format!("insmod {} {}", self.path, self.parameters.join(" ")))?;
        make_nodes()
    }

    /// Unloads the module.
    pub fn unload() -> Result<()> {
        let name = CString::new(NAME)?;
        rustix::system::delete_module(&name, libc::O_NONBLOCK).context("rmmod galcore")
    }

    /// Whether the module is loaded.
    pub fn is_loaded() -> bool {
        std::path::Path::new("/sys/module/galcore").exists()
    }
}

/// A memory file of `bytes` zeros, which can be mapped and truncated.
pub fn memory_file(bytes: u64) -> Result<File> {
    let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC)?;
    let file = File::from(file);
    file.set_len(bytes)?;
    Ok(file)
}

/// A dma-buf of the udmabuf driver and its memory file; `None` if this kernel has no udmabuf.
pub fn udmabuf(bytes: u64) -> Result<Option<(File, OwnedFd)>> {
    use rustix::fs::MemfdFlags;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("test", flags)?);
    file.set_len(bytes)?;
    rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::SHRINK)?;
    match galcore_client::sys::udmabuf(file.as_fd(), bytes) {
        Ok(descriptor) => Ok(Some((file, descriptor))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The major number of the character device, if the driver has registered one.
pub fn major() -> Result<Option<u32>> {
    let text = fs::read_to_string("/proc/devices")?;
    let characters = text.split("Block devices").next().unwrap_or_default();
    Ok(characters.lines().find_map(|line| {
        let (number, name) = line.trim().split_once(' ')?;
        (name == NAME).then(|| number.parse().ok()).flatten()
    }))
}

fn make_nodes() -> Result<()> {
    let Some(major) = major()? else {
        bail!("/proc/devices has no {NAME}");
    };
    for node in NODES {
        let path = std::path::Path::new(node);
        if path.exists() {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let device = rustix::fs::makedev(major, 0);
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            FileType::CharacterDevice,
            mode,
            device,
        )
        .with_context(|| format!("mknod {node}"))?;
    }
    Ok(())
}

/// Raises this process's limit of open files to at least `wanted`.
pub fn allow_files(wanted: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let more = Rlimit {
            current: Some(wanted),
            maximum: Some(limit.maximum.unwrap_or(wanted).max(wanted)),
        };
        setrlimit(Resource::Nofile, more)?;
    }
    Ok(())
}

/// Gives all users access to the device while `body` runs.
pub fn for_everybody<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = fs::metadata(NODES[0])?.permissions();
    fs::set_permissions(NODES[0], fs::Permissions::from_mode(0o666))?;
    let done = body();
    fs::set_permissions(NODES[0], before)?;
    done
}

/// Like [`for_everybody`], with a set-uid root copy of this program at `path`.
pub fn with_set_uid<T>(path: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    fs::copy(std::env::current_exe()?, path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o4755))?;
    let done = for_everybody(body);
    fs::remove_file(path)?;
    done
}

/// The numeric value of the module parameter `name`, if the runner gives one.
pub fn told(name: &str) -> Option<u64> {
    Module::from_words(&[]).ok()?.number(name)
}

/// A command that starts this program again with other arguments.
pub fn again(arguments: &[&str]) -> Result<std::process::Command> {
    let program = std::env::current_exe().context("/proc/self/exe")?;
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Fails unless a mapping of this process contains `address`, or, if `wanted` is false, if one does.
pub fn expect_mapped(address: u64, wanted: bool) -> Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let found = maps.lines().any(|line| {
        let range = line.split(' ').next().unwrap_or_default();
        let Some((start, end)) = range.split_once('-') else {
            return false;
        };
        let number = |text| u64::from_str_radix(text, 16).unwrap_or_default();
        (number(start)..number(end)).contains(&address)
    });
    ensure!(
        found == wanted,
        "address {address:#x} is{} mapped",
        if found { "" } else { " not" }
    );
    Ok(())
}

/// The sysfs directory in which the driver's cores are bound and unbound.
const DRIVER: &str = "/sys/bus/platform/drivers/galcore";

/// The names of the devices that are bound to the driver, in ascending order of their registers.
pub fn bound() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(DRIVER).context(DRIVER)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_symlink() && name != "module" {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Writes a device's name to the driver's file `bind` or `unbind`.
pub fn to_driver(file: &str, device: &str) -> Result<()> {
    let path = Path::new(DRIVER).join(file);
    fs::write(&path, device).with_context(|| format!("{device} to {}", path.display()))
}

/// Writes `control` to the runtime power control of all cores. Returns the path and the old value of each.
fn keep(control: &str) -> Result<Vec<(String, String)>> {
    let mut before = Vec::new();
    for core in bound()? {
        let path = format!("/sys/bus/platform/devices/{core}/power/control");
        let said = fs::read_to_string(&path).with_context(|| path.clone())?;
        fs::write(&path, control).with_context(|| path.clone())?;
        before.push((path, said));
    }
    Ok(before)
}

/// Lets the driver's cores suspend by themselves.
pub fn may_sleep() -> Result<()> {
    keep("auto").map(drop)
}

/// Keeps the driver's cores powered, so that a test can read them between jobs.
pub fn stay_awake() -> Result<()> {
    keep("on").map(drop)
}

/// Calls `look` while the driver's cores are powered, then restores their power control.
pub fn awake<T>(look: impl FnOnce() -> T) -> Result<T> {
    let before = keep("on")?;
    let seen = look();
    for (path, said) in before {
        fs::write(&path, said.trim()).with_context(|| path.clone())?;
    }
    Ok(seen)
}

/// A child process that is killed when this is dropped.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes to a file of the kernel.
fn tell_kernel(path: &str, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("{text} to {path}"))
}

/// Suspends the machine until its clock wakes it within two seconds. Fails if the machine does not suspend.
pub fn sleep_whole() -> Result<()> {
    const ALARM: &str = "/sys/class/rtc/rtc0/wakealarm";
    tell_kernel(ALARM, "0")?;
    tell_kernel(ALARM, "+2")?;
    tell_kernel("/sys/power/state", "freeze")
}

/// Suspends the devices of the machine and resumes them at once. Fails if the machine does not suspend.
pub fn sleep_devices() -> Result<()> {
    tell_kernel("/sys/power/pm_test", "devices")?;
    let _ = tell_kernel("/sys/module/suspend/parameters/pm_test_delay", "0");
    let slept = tell_kernel("/sys/power/state", "freeze");
    tell_kernel("/sys/power/pm_test", "none")?;
    slept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_of_the_kernel_are_read() {
        let line = log_line("4,339,5140900,-;galcore: no answer\n SUBSYSTEM=platform\n");
        let wanted = LogLine {
            level: 4,
            text: "galcore: no answer".to_string(),
        };
        assert_eq!(line, Some(wanted));
        assert_eq!(log_line("12,340,5,-;galcore-board: hello\n"), None);
    }

    #[test]
    fn parameters_are_replaced_and_removed() {
        let words: Vec<String> = ["/m.ko", "irqLine=36", "registerMemBase=0x10000000"]
            .map(str::to_string)
            .into();
        let module = Module::from_words(&words).expect("words");
        assert!(module.bound_by_parameters());
        let changed = module.with(&["irqLine=99", "registerMemBase"]);
        assert_eq!(changed.number("irqLine"), Some(99));
        assert!(!changed.bound_by_parameters());
        assert_eq!(module.number("registerMemBase"), Some(0x1000_0000));
    }
}
