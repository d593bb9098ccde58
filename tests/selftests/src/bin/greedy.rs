// SPDX-License-Identifier: GPL-2.0-only
//! Limits on the machine's memory that all processes of one user can take: the kernel must never kill processes of
//! other users for lack of memory.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device;
use galcore_client::sys::become_user;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system::for_everybody;
use galcore_selftests::system::meminfo;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::ProcGc;
use rustix::mount::MountFlags;
use rustix::process::setrlimit;
use rustix::process::Resource;
use rustix::process::Rlimit;

const ATTACKER: u32 = 1000;
const VICTIM: u32 = 1001;

const PAGE: u64 = 4096;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Number of concurrent processes that take memory.
const TAKERS: usize = 6;

/// Memory available to the takers. The test itself holds the rest.
const TO_TAKE: u64 = 72 * MIB;

/// The same for single pages of contiguous memory, each of which takes milliseconds.
const PAGES_TO_TAKE: u64 = 20 * MIB;

/// Memory that the victim takes in the meantime: less than its reserve.
const MORE_PAGES: u64 = MIB / PAGE;

/// The driver's reserve: a 32nd of the memory, at least 4 MiB, at most 64 MiB.
fn reserve() -> Result<u64> {
    Ok((meminfo("MemTotal")? / 32).clamp(4 << 10, 64 << 10) * KIB)
}

/// Takes as many pieces as possible. Returns their number and the lowest available memory that it saw.
fn take(mut one: impl FnMut() -> device::Result<()>, most: u32) -> Result<String> {
    let mut count = 0;
    while count < most && one().is_ok() {
        count += 1;
    }
    Ok(count.to_string())
}

/// Runs in another process.
fn be_other(abi: &'static Abi) -> Result<()> {
    let device = std::cell::OnceCell::new();
    let mut held = Vec::new();
    other::serve(|words| match *words {
        ["user", user] => {
            become_user(user.parse()?)?;
            Ok("changed".to_string())
        }
        ["open"] => {
            let opened = Device::open_as(abi, true)?;
            ensure!(device.set(opened).is_ok(), "it is open");
            Ok("opened".to_string())
        }
        ["hold", bytes] => {
            let region = Region::anonymous(bytes.parse()?)?;
            for at in (0..region.len()).step_by(PAGE as usize) {
                region.write(at, 1);
            }
            held.push(region);
            Ok("held".to_string())
        }
        ["virtual", bytes, most] => {
            let device = device.get().expect("open");
            let bytes = bytes.parse()?;
            take(
                || {
                    device
                        .allocate(bytes, 64, surface::BITMAP, Pool::VIRTUAL)
                        .map(|_| ())
                },
                most.parse()?,
            )
        }
        ["contiguous", bytes, most] => {
            let device = device.get().expect("open");
            let bytes = bytes.parse()?;
            take(
                || device.allocate_contiguous(bytes).map(|_| ()),
                most.parse()?,
            )
        }
        ["wraps", threads, looks] => {
            let device = device.get().expect("open");
            Ok(wraps(device, threads.parse()?, looks.parse()?)?.to_string())
        }
        ["signals", count] => {
            let device = device.get().expect("open");
            take(|| device.create_signal(false).map(|_| ()), count.parse()?)
        }
        _ => bail!("what is {words:?}?"),
    })
}

/// Threads repeatedly ask to pin nearly the whole address space, although the pin limit is 0. Samples the available
/// memory `looks` times, and returns the minimum in KiB.
fn wraps(device: &Device, threads: usize, looks: u32) -> Result<u64> {
    let limit = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Memlock, limit)?;
    let over = AtomicBool::new(false);
    let ask = || -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            let mapped = device.map_user(0x1_0000, 0x7ffe_0000);
            harness::refused("MAP", mapped, Status::OUT_OF_RESOURCES)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
        let look = || -> Result<u64> {
            let mut least = u64::MAX;
            for _ in 0..looks {
                std::thread::sleep(Duration::from_millis(20));
                least = least.min(meminfo("MemAvailable")?);
            }
            Ok(least)
        };
        let least = look();
        over.store(true, Ordering::Relaxed);
        for one in all {
            one.join().map_err(|_| anyhow!("a panic"))??;
        }
        least
    })
}

/// Refused requests must not use a significant amount of memory, even temporarily.
fn refused() -> Result<()> {
    let mut attacker = start(ATTACKER)?;
    attacker.ask("open")?;
    let before = meminfo("MemAvailable")?;
    let least: u64 = attacker.ask("wraps 60 20")?.parse()?;
    println!("# {before} KiB, and {least} at least");
    ensure!(least + 64 * KIB > before, "{least} of {before} KiB");
    Ok(())
}

/// A memory cgroup with a limit.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None`: this kernel has no memory cgroups.
    fn new(most: u64) -> Result<Option<Self>> {
        let root = Path::new("/cgroup");
        fs::create_dir_all(root)?;
        let flags = MountFlags::empty();
        if rustix::mount::mount("none", root, "cgroup2", flags, None).is_err()
            || fs::write(root.join("cgroup.subtree_control"), "+memory").is_err()
        {
            return Ok(None);
        }
        let group = root.join("greedy");
        fs::create_dir_all(&group)?;
        fs::write(group.join("memory.max"), most.to_string())?;
        Ok(Some(Self(group)))
    }

    fn add(&self, process: &Other) -> Result<()> {
        Ok(fs::write(
            self.0.join("cgroup.procs"),
            process.id().to_string(),
        )?)
    }

    /// Number of its processes that were killed for lack of memory.
    fn kills(&self) -> Result<String> {
        let text = fs::read_to_string(self.0.join("memory.events"))?;
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("oom_kill "));
        Ok(count.context("no line")?.to_string())
    }

    fn charged(&self) -> Result<u64> {
        let text = fs::read_to_string(self.0.join("memory.current"))?;
        Ok(text.trim().parse()?)
    }
}

/// Memory that the driver allocates for a process is charged to its cgroup, whose limit applies.
fn charged() -> Result<()> {
    const MOST: u64 = 24 * MIB;
    let Some(group) = Cgroup::new(MOST)? else {
        return skip("this kernel has no memory cgroups");
    };
    for_everybody(|| {
        let mut taker = start(ATTACKER)?;
        group.add(&taker)?;
        taker.ask("open")?;
        let before = group.charged()?;
        for (what, count, least) in [
            (format!("virtual {} 2", 4 * MIB), "2", 8 * MIB),
            ("signals 8192".to_string(), "8192", 8192 * 64),
        ] {
            let before = group.charged()?;
            same(&what, taker.ask(&what)?.as_str(), count)?;
            let more = group.charged()?.saturating_sub(before);
            println!("# {what}: {} KiB", more / KIB);
            ensure!(more >= least, "{what}: {more} bytes charged");
        }
        let count = taker.ask(&format!("virtual {} 100", 4 * MIB))?;
        println!("# the rest: {count}, {} KiB", group.charged()? / KIB);
        ensure!(count.parse::<u64>()? < MOST / (4 * MIB), "{count} pieces");
        ensure!(group.charged()? <= MOST, "more than its limit");
        // Small allocations do not get a process of the cgroup killed either.
        let bystander = start(VICTIM)?;
        group.add(&bystander)?;
        for what in [format!("virtual {PAGE} 10000"), "signals 8000".to_string()] {
            println!("# {what}: {}", taker.ask(&what)?);
        }
        let refused = taker.ask(&format!("virtual {PAGE} 1"))?;
        same("at the limit", refused.as_str(), "0")?;
        same("killed", group.kills()?.as_str(), "0")?;
        drop((taker, bystander));
        // Each processor caches some charged pages of the cgroup.
        let stock = 64 * PAGE * std::thread::available_parallelism()?.get() as u64;
        let mut most = 0;
        let settled = settles("back", true, || {
            most = group.charged()?.saturating_sub(before);
            Ok(most <= stock)
        });
        println!(
            "# {} KiB more than before, {} may be",
            most / KIB,
            stock / KIB
        );
        settled
    })
}

fn start(user: u32) -> Result<Other> {
    Other::start_as(Abi::own(), user)
}

/// Several processes of one user take pieces at the same time, while another user's process holds an eighth of the
/// available memory. That process must survive, and the driver's reserve must be available at all times.
fn taken(what: &str, to_take: u64, pieces: impl Fn(u64) -> (u64, u32)) -> Result<()> {
    for_everybody(|| {
        let before = at_rest(ProcGc::used_now)?;
        let mut victim = start(VICTIM)?;
        let available = (meminfo("MemAvailable")? - meminfo("CmaFree")?) * KIB;
        let mut ballast = start(0)?;
        let too_much = available.saturating_sub(to_take);
        ballast.ask(&format!("hold {}", too_much & !(PAGE - 1)))?;
        let available = meminfo("MemAvailable")? * KIB;
        victim.ask(&format!("hold {}", (available / 8) & !(PAGE - 1)))?;
        let mut takers = Vec::new();
        for _ in 0..TAKERS {
            let mut taker = start(ATTACKER)?;
            taker.ask("open")?;
            takers.push(taker);
        }
        let mut log = KernelLog::from_now()?;
        let available = (meminfo("MemAvailable")? - meminfo("CmaFree")?) * KIB;
        let (bytes, most) = pieces(available);
        for taker in &mut takers {
            taker.tell(&format!("{what} {bytes} {most}"))?;
        }
        // The takers hold this amount at the end.
        let begin = Instant::now();
        let mut least = u64::MAX;
        let mut answers = Vec::new();
        let reader = std::thread::spawn(move || {
            for taker in &mut takers {
                answers.push(taker.answer());
            }
            (takers, answers)
        });
        let (mut lives, mut more) = (true, 0..MORE_PAGES);
        while !reader.is_finished() {
            if lives && more.next().is_some() {
                lives = victim.ask(&format!("hold {PAGE}")).is_ok();
            }
            least = least.min(meminfo("MemAvailable")?.saturating_sub(meminfo("CmaFree")?) * KIB);
            ensure!(
                begin.elapsed() < Duration::from_secs(300),
                "they do not end"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let (takers, answers) = reader.join().expect("no panic");
        println!(
            "# {what} of {} KiB: {answers:?}, {} KiB of {} were left",
            bytes / KIB,
            least / KIB,
            available / KIB
        );
        let killed: Vec<_> = log
            .lines()?
            .into_iter()
            .map(|line| line.text)
            .filter(|line| line.contains("Killed process") || line.contains("invoked oom-killer"))
            .collect();
        println!("# {killed:?}");
        drop((takers, ballast));
        same("the victim lives", lives, true)?;
        same("killed", killed.len(), 0)?;
        let reserve = reserve()?;
        ensure!(
            least + 2 * MIB >= reserve,
            "{} KiB were left of {}",
            least / KIB,
            reserve / KIB
        );
        settles("memory", before, ProcGc::used_now)
    })
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        suite.test("scattered memory, by many at once", || {
            taken("virtual", TO_TAKE, |available| {
                ((available * 3 / 5) & !(PAGE - 1), 1)
            })
        });
        suite.test("scattered memory, in small pieces", || {
            taken("virtual", TO_TAKE, |_| (4 * MIB, u32::MAX))
        });
        suite.test("contiguous memory, single pages", || {
            taken("contiguous", PAGES_TO_TAKE, |_| (PAGE, u32::MAX))
        });
        suite.test("contiguous memory", || {
            taken("contiguous", TO_TAKE, |_| (MIB, u32::MAX))
        });
        suite.test("a memory cgroup", charged);
        suite.test("pins that are refused", || for_everybody(refused));
        if let Some(part) = Options::parse(&["part"])?.get("part") {
            suite.only(part);
        }
        suite.run()
    })
}
