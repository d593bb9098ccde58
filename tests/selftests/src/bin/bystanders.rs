// SPDX-License-Identifier: GPL-2.0-only
//! How much one process, or one user, can take of other processes' GPU time and of their lines in the kernel log.

use std::fs;
use std::fs::Permissions;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Memory;
use galcore_client::stream::Rect;
use galcore_client::sys;
use galcore_client::sys::become_user;
use galcore_client::sys::Orphans;
use galcore_client::sys::Place;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::uapi::IOCTL_INTERFACE;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::placed;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::ProcGc;
use galcore_selftests::usage::FdInfo;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::BLOCK;
use gpu_control::fault;

const NODE: &std::ffi::CStr = c"/dev/galcore";

/// Processes that opened the device and exited, while another process keeps the files.
const OPENERS: u32 = 2000;

/// The most processes of one user that may have the device open (MAX_PROCESSES).
const MAX_PROCESSES: u32 = 1024;

/// The most records of one queue.
const RECORDS: usize = 4096;

/// A process id above the highest valid one, so that no process has it.
const NOBODY: u32 = 0x7fff_0000;

const ATTACKER: u32 = 1000;
const VICTIM: u32 = 1001;

/// The number of orphaned files, and the error that ended their creation.
fn said(orphans: &Orphans) -> (u32, i32) {
    (orphans.files.len() as u32, orphans.error)
}

/// The duration of an EVENT_COMMIT whose records name no existing process: the minimum of several runs.
fn event_commit(device: &Device, id: i32) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..5 {
        let mut queue = Queue::new();
        for _ in 0..RECORDS {
            queue.signal_of(id, NOBODY);
        }
        let begin = Instant::now();
        device.commit_queue(&mut queue)?;
        times.push(begin.elapsed());
        device.stall()?;
        device.wait_signal(id, 10_000)?;
    }
    times.into_iter().min().context("no time")
}

/// Exited processes that opened the device do not slow down others.
fn exited_openers() -> Result<()> {
    system::allow_files(u64::from(OPENERS) + 100)?;
    let device = Device::open()?;
    let id = device.create_signal(false)?;
    let usual = event_commit(&device, id)?;
    let begin = Instant::now();
    let orphans = sys::orphan(NODE, OPENERS, 0)?;
    same("openers", said(&orphans), (OPENERS, 0))?;
    println!("# {OPENERS} openers in {:?}", begin.elapsed());
    let took = event_commit(&device, id)?;
    println!("# {RECORDS} records: {usual:?}, with {OPENERS} exited openers {took:?}");
    drop(orphans);
    ensure!(took < 3 * usual, "{took:?}, and {usual:?} without them");
    Ok(())
}

/// The number of processes of one user is limited, including exited ones. Other users have a limit of their own.
fn of_one_user() -> Result<()> {
    system::allow_files(u64::from(OPENERS) + 100)?;
    let path = NODE.to_str()?;
    let mode = fs::metadata(path)?.permissions();
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    let attempt = |count, user| -> Result<Orphans> { Ok(sys::orphan(NODE, count, user)?) };
    let result = (|| {
        let again = rustix::io::Errno::AGAIN.raw_os_error();
        let all = attempt(MAX_PROCESSES + 50, ATTACKER)?;
        same("openers", said(&all), (MAX_PROCESSES, again))?;
        let more = attempt(1, ATTACKER)?;
        same("one more", said(&more), (0, again))?;
        let other = attempt(10, VICTIM)?;
        same("another user", said(&other), (10, 0))?;
        let root = attempt(10, 0)?;
        same("the administrator", said(&root), (10, 0))?;
        drop(all);
        eventually("it may again", Duration::from_secs(60), || {
            Ok(said(&attempt(1, ATTACKER)?) == (1, 0))
        })
    })();
    fs::set_permissions(path, mode)?;
    result
}

/// The command loop of another process, which causes errors and draws.
fn be_other(abi: &'static Abi) -> Result<()> {
    let device = Device::open_as(abi, true)?;
    let mut paint = None;
    other::serve(|words| match *words {
        ["user", user] => {
            become_user(user.parse()?)?;
            Ok("changed".to_string())
        }
        ["draw", count] => {
            let paint = paint.insert(Paint::new()?);
            let stream = paint.fill_all(0x0bad_0bad);
            for _ in 0..count.parse::<u32>()? {
                paint.commit(&stream, &mut Queue::new())?;
            }
            Ok("drawing".to_string())
        }
        ["job", draws] => {
            let paint = match &mut paint {
                Some(paint) => paint,
                none => none.insert(Paint::new()?),
            };
            let mut stream = Stream::new();
            for _ in 0..draws.parse::<u32>()? {
                stream.append(&paint.fill_all(0x0bad_0bad));
            }
            paint.commit(&stream, &mut Queue::new())?;
            Ok("committed".to_string())
        }
        // Without a context, because the kernel has only two copies of one.
        ["bare", count] => {
            let paint = paint.as_mut().context("no job before")?;
            let stream = paint.fill_cell(0, 0x0bad_0bad);
            let (_, record) = placed(paint.device(), paint.engine(), &stream, 4096)?;
            for _ in 0..count.parse::<u32>()? {
                paint.device().commit(&record, 0, &mut Queue::new())?;
            }
            Ok("committed".to_string())
        }
        ["stall"] => Ok(format!("{:?}", device.stall())),
        ["hog", draws, words, milliseconds] => {
            let time = Duration::from_millis(milliseconds.parse()?);
            hog(draws.parse()?, words.parse()?, time)
        }
        ["threads", milliseconds] => threads(Duration::from_millis(milliseconds.parse()?)),
        ["burst", milliseconds] => burst(&device, Duration::from_millis(milliseconds.parse()?)),
        ["steady", milliseconds] => steady(Duration::from_millis(milliseconds.parse()?)),
        ["hang"] => {
            let paint = paint.insert(Paint::new()?);
            paint.commit(&paint.fill_all(BAD), &mut Queue::new())?;
            Ok("hung".to_string())
        }
        ["wait", milliseconds] => {
            let worst = longest_wait(Duration::from_millis(milliseconds.parse()?))?;
            Ok(worst.as_micros().to_string())
        }
        ["resets"] => Ok(format!("{:?}", device.resets()?)),
        ["err", count] => {
            for _ in 0..count.parse::<u32>()? {
                let sent =
                    sys::exchange_without_block(device.as_fd(), IOCTL_INTERFACE, Place::Unmapped);
                ensure!(sent.is_err(), "it was taken");
            }
            Ok("done".to_string())
        }
        _ => bail!("what is {words:?}?"),
    })
}

fn start(user: u32) -> Result<Other> {
    Other::start_as(Abi::own(), user)
}

/// Counts the lines in `log` about each of `others`.
fn lines_about(log: &mut KernelLog, others: &[&Other]) -> Result<Vec<usize>> {
    let lines = log.lines()?;
    let about = |other: &&Other| {
        let name = format!("process {}: ", other.id());
        lines
            .iter()
            .filter(|line| line.text.contains(&name))
            .count()
    };
    Ok(others.iter().map(about).collect())
}

/// Many errors of one process do not suppress the log lines about another process.
fn lines() -> Result<()> {
    let mut flood = start(ATTACKER)?;
    let mut neighbor = start(ATTACKER)?;
    let mut victim = start(VICTIM)?;
    let mut log = KernelLog::from_now()?;
    for round in 0..3 {
        flood.ask("err 300")?;
        neighbor.ask("err 1")?;
        victim.ask("err 1")?;
        let told = lines_about(&mut log, &[&flood, &neighbor, &victim])?;
        println!("# round {round}: {told:?} lines");
        // A new rate-limit window may begin in between.
        ensure!(told[0] <= 20, "{told:?} lines");
        ensure!(told[1] == 1 && told[2] == 1, "{told:?} lines");
        std::thread::sleep(Duration::from_secs(4));
    }
    // Errors of many processes of one user do not suppress them either.
    let mut many = Vec::new();
    for _ in 0..40 {
        many.push(start(ATTACKER)?);
    }
    log.lines()?;
    for other in &mut many {
        other.ask("err 20")?;
    }
    victim.ask("err 1")?;
    let mut about: Vec<&Other> = many.iter().collect();
    about.push(&victim);
    let mut told = lines_about(&mut log, &about)?;
    let of_victim = told.pop();
    let all: usize = told.iter().sum();
    println!("# {all} lines about 40 processes, {of_victim:?} about another user's");
    same("about the other one", of_victim, Some(1))?;
    ensure!((10..=3 * 30).contains(&all), "{all} lines about one user's");
    Ok(())
}

/// The duration of each of the attacker's draws, and how long it may delay other processes (`jobTimeout`).
const SLOW: Duration = Duration::from_secs(22);
const JOB_TIMEOUT: Duration = Duration::from_secs(2);

/// The driver's log line for a job that exceeds the limit.
const TOO_LONG: &str = "a job has held others up";

/// The most jobs in flight.
const JOBS: u32 = 30;

/// Runs `judge` while another process has `count` slow draws in flight; returns the duration too. With `limited`, the
/// driver cancels the draw because it delays others for too long, and no further draw is slow.
fn beside_slow_draws<T>(
    control: &Control,
    count: u32,
    limited: bool,
    judge: impl FnOnce(&mut Other) -> Result<T>,
) -> Result<(T, Duration)> {
    let mut slow = Other::start(Abi::own())?;
    let mut log = KernelLog::from_now()?;
    let armed = control.arm(fault::SLOW_DRAWS, SLOW.as_micros() as u32);
    let begun = Instant::now();
    slow.ask(&format!("draw {count}"))?;
    let (result, took) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let is_over = || {
                let lines = log.lines()?;
                let is_dropped = lines.iter().any(|line| line.text.contains(TOO_LONG));
                Ok::<_, anyhow::Error>(is_dropped || (!limited && begun.elapsed() > SLOW))
            };
            let result = eventually("the slow draw has ended", 2 * SLOW, is_over);
            drop(armed);
            result
        });
        let result = judge(&mut slow);
        let took = begun.elapsed();
        watch.join().ok().context("a panic")??;
        Ok::<_, anyhow::Error>((result?, took))
    })?;
    println!("# {took:?}");
    let least = if limited { JOB_TIMEOUT } else { SLOW };
    ensure!(took > least * 9 / 10, "only {took:?}: nothing was slow");
    ensure!(!limited || took < SLOW / 2, "{took:?}");
    Ok((result, took))
}

/// UNMAP_USER_MEMORY returns when the process's own job has ended, even if another process's job takes long.
fn unmapping(control: &Control, limited: bool) -> Result<()> {
    let mut client = Client::start()?;
    let own = Memory::new(Region::anonymous(4 * BLOCK)?);
    let mapping = client.device().map_user(own.address(), own.len() as u64)?;
    let target = surface_at(mapping.address, own.clone())?;
    let engine = client.engine();
    let fill = |colour| {
        let mut stream = Stream::new();
        let whole = Rect::new(0, 0, target.width, target.height);
        engine.fill(&mut stream, &target, whole, colour);
        stream.flush(engine.pipe());
        stream
    };
    // The process is known to the scheduler, so its job gets a slot in any case.
    client.run(engine.pipe(), &fill(0x0101_0101))?;
    client.finish()?;
    beside_slow_draws(control, 1, limited, |_| {
        client.commit(engine.pipe(), &fill(0x600d_600d), &mut Queue::new())?;
        client.device().unmap_user(&mapping)?;
        expect_all("own memory after UNMAP", &own, 0x600d_600d)
    })?;
    // This process caused no reset, and lost no job.
    let resets = (0, u32::from(limited), 0);
    same("resets", client.device().resets()?, resets)
}

/// A COMMIT waits for its slot while the GPU makes progress, and so does memory that the GPU still uses.
fn commits(control: &Control, limited: bool) -> Result<()> {
    let mut paint = Paint::new()?;
    paint.prove(0x0101_0101)?;
    beside_slow_draws(control, JOBS, limited, |slow| {
        let stream = paint.fill_all(0x0202_0202);
        paint.run(&stream)?;
        paint.expect(|_, _| 0x0202_0202)?;
        let lost = if limited { (1, 0, JOBS) } else { (0, 0, 0) };
        same(
            "the slow one's resets",
            slow.ask("resets")?,
            format!("{lost:?}"),
        )
    })?;
    same("resets", paint.device().resets()?, (0, 0, 0))?;
    paint.close()
}

/// An allocation that waits for memory which the GPU may still use waits at most as long as one job may take.
fn allocating(control: &Control) -> Result<()> {
    let device = Device::open()?;
    let bytes = device.map_pool()?.len() as u32;
    beside_slow_draws(control, 1, true, |_| {
        // The other process's surface is in the pool.
        let all = device.allocate(bytes, 64, surface::BITMAP, Pool::SYSTEM);
        refused("all of the pool", all, Status::OUT_OF_MEMORY)
    })?;
    Ok(())
}

/// The jobs of a killed process end, and its memory is released, within the time of one job.
fn killed(control: &Control) -> Result<()> {
    let before = ProcGc::used_now()?;
    let mut slow = Other::start(Abi::own())?;
    let armed = control.arm(fault::SLOW_DRAWS, SLOW.as_micros() as u32);
    slow.ask("draw 3")?;
    let begun = Instant::now();
    slow.kill()?;
    eventually("its memory is back", SLOW / 2, || {
        let now = ProcGc::used_now()?;
        Ok(now.iter().zip(before).all(|(now, before)| *now <= before))
    })?;
    println!("# {:?}", begun.elapsed());
    drop(armed);
    let mut paint = Paint::new()?;
    paint.prove(0x0303_0303)?;
    paint.close()
}

/// Consecutive jobs of one process together delay others no longer than one job may.
fn in_a_row(control: &Control) -> Result<()> {
    let mut paint = Paint::new()?;
    paint.prove(0x0101_0101)?;
    let mut slow = Other::start(Abi::own())?;
    let mut log = KernelLog::from_now()?;
    let draw = JOB_TIMEOUT * 3 / 4;
    let armed = control.arm(fault::SLOW_DRAWS, draw.as_micros() as u32);
    slow.ask("draw 20")?;
    let begun = Instant::now();
    paint.prove(0x0505_0505)?;
    let took = begun.elapsed();
    drop(armed);
    println!("# {took:?}");
    let lines = log.lines()?;
    let is_told = lines.iter().any(|line| line.text.contains(TOO_LONG));
    ensure!(is_told, "nothing was dropped");
    ensure!(took < 5 * JOB_TIMEOUT / 2, "{took:?}");
    // One reset caused by another process while this one had a job.
    same("resets", paint.device().resets()?, (0, 1, 0))?;
    paint.close()
}

/// A process is not charged for the time that others have delayed it. This test uses jobs below the limit, one of which
/// starts after a job of its own process, and then a job of an innocent process that is not short.
fn its_own_time(control: &Control) -> Result<()> {
    let mut attacker = start(ATTACKER)?;
    let mut victim = start(VICTIM)?;
    // The processes are then known to the scheduler.
    for other in [&mut attacker, &mut victim] {
        other.ask("job 1")?;
        other.ask("stall")?;
    }
    let draw = JOB_TIMEOUT / 10;
    for _ in 0..3 {
        let armed = control.arm(fault::SLOW_DRAWS, draw.as_micros() as u32);
        attacker.ask("job 1")?;
        std::thread::sleep(draw / 3);
        attacker.ask("job 8")?;
        victim.ask("job 4")?;
        attacker.tell("job 1")?;
        same("the victim's", victim.ask("stall")?.as_str(), "Ok(())")?;
        attacker.answer()?;
        attacker.ask("stall")?;
        drop(armed);
        same(
            "the victim's resets",
            victim.ask("resets")?.as_str(),
            "(0, 0, 0)",
        )?;
    }
    Ok(())
}

/// Two processes of one user whose long jobs alternate before another user's job: the limit applies to each process,
/// not to each job.
fn by_turns(control: &Control) -> Result<()> {
    const TURNS: u32 = 8;
    let mut attackers = [start(ATTACKER)?, start(ATTACKER)?];
    let mut victim = start(VICTIM)?;
    for other in attackers.iter_mut().chain([&mut victim]) {
        // The processes are then known to the scheduler, with quick jobs, so that many of their jobs get slots at once.
        other.ask("job 1")?;
        other.ask("bare 200")?;
        other.ask("stall")?;
    }
    let draw = JOB_TIMEOUT * 4 / 5;
    let armed = control.arm(fault::SLOW_DRAWS, draw.as_micros() as u32);
    let begun = Instant::now();
    for _ in 0..TURNS {
        for attacker in &mut attackers {
            attacker.ask("bare 1")?;
        }
    }
    if begun.elapsed() > 4 * draw {
        drop(armed);
        return skip("on this host they have no places at once");
    }
    victim.ask("bare 1")?;
    let begun = Instant::now();
    same("the victim's", victim.ask("stall")?.as_str(), "Ok(())")?;
    let took = begun.elapsed();
    drop(armed);
    println!("# {took:?}, the jobs take {:?}", draw * 2 * TURNS);
    // Both are cancelled at their limit; then the victim's job runs.
    ensure!(took < 5 * JOB_TIMEOUT, "{took:?}");
    Ok(())
}

/// A process that is alone on the GPU may use it for any time.
fn alone(control: &Control) -> Result<()> {
    let mut paint = Paint::new()?;
    let armed = control.arm(fault::SLOW_DRAWS, (2 * JOB_TIMEOUT).as_micros() as u32);
    let begun = Instant::now();
    paint.prove(0x0404_0404)?;
    drop(armed);
    let took = begun.elapsed();
    ensure!(took >= 2 * JOB_TIMEOUT, "only {took:?}");
    same("its resets", paint.device().resets()?, (0, 0, 0))?;
    paint.close()
}

/// The duration of each draw in the tests of time sharing.
const DRAW: Duration = Duration::from_millis(20);

/// How long the scheduler needs to learn the job length of a process that wants a whole core.
const WARM: Duration = Duration::from_secs(2);

/// How long the processes share a core.
const SHARED: Duration = Duration::from_secs(12);

/// Commits jobs of `draws` draws and `words` words without waiting for them. Returns the number of jobs, and the
/// longest wait for a slot in milliseconds.
fn hog(draws: u32, words: usize, time: Duration) -> Result<String> {
    let paint = Paint::new()?;
    let device = paint.device();
    let mut stream = Stream::new();
    for _ in 0..draws {
        stream.append(&paint.fill_all(0x0bad_0bad));
    }
    while stream.words().len() < words {
        stream.nop();
    }
    let bytes = (stream.words().len() * 4).next_multiple_of(4096) + 4096;
    let (buffer, record) = placed(device, paint.engine(), &stream, bytes as u64)?;
    let begun = Instant::now();
    let (mut commits, mut longest) = (0, Duration::ZERO);
    while begun.elapsed() < time {
        let start = Instant::now();
        device.commit(&record, 0, &mut Queue::new())?;
        // At first one job at a time, so that the driver learns how long the jobs take.
        if begun.elapsed() < WARM {
            device.stall()?;
        }
        longest = longest.max(start.elapsed());
        commits += 1;
    }
    device.stall()?;
    device.free_contiguous(&buffer)?;
    paint.close()?;
    Ok(format!("{commits} {}", longest.as_millis()))
}

/// The longest time that one of many small jobs takes to end. With more than a few jobs this is the second longest,
/// because the host may have been busy once.
fn longest_wait(time: Duration) -> Result<Duration> {
    const FEW: usize = 8;
    let mut paint = Paint::new()?;
    let begun = Instant::now();
    let mut all = Vec::new();
    // At least once: on a busy host the time may be over already.
    while all.is_empty() || begun.elapsed() < time {
        let start = Instant::now();
        paint.run(&paint.fill_all(0x0600_d000))?;
        all.push(start.elapsed());
    }
    paint.expect(|_, _| 0x0600_d000)?;
    paint.close()?;
    all.sort_unstable_by(|one, other| other.cmp(one));
    let worst = all.get(usize::from(all.len() > FEW)).copied();
    Ok(worst.unwrap_or_default())
}

/// A process with one small job at a time waits for at most one job of the other process, in addition to its usual
/// time.
fn waits_for_one_job(control: &Control) -> Result<()> {
    let armed = control.arm(fault::SLOW_DRAWS, DRAW.as_micros() as u32);
    let usual = longest_wait(Duration::from_secs(2))?;
    let draws = 10;
    let job = DRAW * draws;
    let mut greedy = Other::start(Abi::own())?;
    greedy.tell(&format!(
        "hog {draws} 0 {}",
        (job * JOBS + SHARED).as_millis()
    ))?;
    std::thread::sleep(WARM + Duration::from_secs(1));
    let first = longest_wait(Duration::from_millis(1))?;
    let worst = longest_wait(SHARED / 2)?;
    let commits = greedy.answer()?;
    drop(armed);
    println!("# {usual:?} alone; beside jobs of {job:?} {first:?} at first, then {worst:?}; commits, ms for one: {commits}");
    // The longest draws take as long as the usual one. A few jobs have slots at first.
    ensure!(worst <= (2 + draws) * usual, "{worst:?}");
    ensure!(first <= (2 + draws * JOBS) * usual, "at first {first:?}");
    Ok(())
}

/// The number of voluntary context switches of the calling thread.
fn sleeps() -> Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/status")?;
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Ok(count.context("no line")?.trim().parse()?)
}

/// [`THREADS`] threads commit small jobs without waiting for them. Returns the number of jobs, and how often the
/// threads slept.
fn threads(time: Duration) -> Result<String> {
    let mut paint = Paint::new()?;
    paint.run(&paint.fill_all(0x0bad_0bad))?;
    let (buffer, record) = placed(
        paint.device(),
        paint.engine(),
        &paint.fill_all(0x0bad_0bad),
        4096,
    )?;
    let device = paint.device();
    let thread = || -> Result<(u64, u64)> {
        let (begun, before) = (Instant::now(), sleeps()?);
        let mut commits = 0;
        while begun.elapsed() < time {
            device.commit(&record, 0, &mut Queue::new())?;
            commits += 1;
        }
        Ok((commits, sleeps()? - before))
    };
    let (mut commits, mut slept) = (0, 0);
    std::thread::scope(|scope| -> Result<()> {
        let all: Vec<_> = (0..THREADS).map(|_| scope.spawn(thread)).collect();
        for one in all {
            let (own, sleeps) = one.join().map_err(|_| anyhow!("a thread panicked"))??;
            commits += own;
            slept += sleeps;
        }
        Ok(())
    })?;
    device.stall()?;
    device.free_contiguous(&buffer)?;
    paint.close()?;
    Ok(format!("{commits} {slept}"))
}

const THREADS: u32 = 64;

/// Threads that wait for a slot sleep until their turn: not all of them wake for each job that ends.
fn one_is_woken(control: &Control) -> Result<()> {
    let armed = control.arm(fault::SLOW_DRAWS, 1_000);
    let usual = longest_wait(WARM)?;
    let mut other = Other::start(Abi::own())?;
    other.tell(&format!("threads {}", (3 * WARM).as_millis()))?;
    std::thread::sleep(WARM);
    let worst = longest_wait(WARM)?;
    let answer = other.answer()?;
    drop(armed);
    let (commits, slept) = answer.split_once(' ').context("two numbers")?;
    let (commits, slept): (u64, u64) = (commits.parse()?, slept.parse()?);
    println!("# {usual:?} alone, {worst:?} beside {THREADS} threads; these slept {slept} times for {commits} jobs");
    ensure!(slept <= 4 * commits, "{slept} times for {commits} jobs");
    Ok(())
}

/// Commits queues of the maximum length; returns their number.
fn burst(device: &Device, time: Duration) -> Result<String> {
    let id = device.create_signal(true)?;
    // The driver then knows the process for quick jobs.
    device.commit_queue(Queue::new().signal(id))?;
    device.stall()?;
    let begun = Instant::now();
    let mut queues = 0;
    while begun.elapsed() < time {
        let mut queue = Queue::new();
        for _ in 0..RECORDS {
            queue.signal(id);
        }
        device.commit_queue(&mut queue)?;
        queues += 1;
    }
    Ok(format!("{queues}"))
}

/// Between the end of a job and the next event of another process, the records of at most one queue run, even if there
/// are many full queues.
fn bursts(control: &Control) -> Result<()> {
    const TIME: Duration = Duration::from_secs(5);
    let mut paint = Paint::new()?;
    let (drawn, after) = (
        paint.device().create_signal(false)?,
        paint.device().create_signal(false)?,
    );
    let lag = |paint: &mut Paint, meanwhile: &mut dyn FnMut() -> Result<()>| -> Result<Duration> {
        let armed = control.arm(fault::SLOW_DRAWS, TIME.as_micros() as u32);
        let stream = paint.fill_all(0x0808_0808);
        paint.commit(&stream, Queue::new().signal(drawn))?;
        meanwhile()?;
        drop(armed);
        let device = paint.device();
        device.commit_queue(Queue::new().signal(after))?;
        device.wait_signal(drawn, 20_000)?;
        let begun = Instant::now();
        device.wait_signal(after, 20_000)?;
        Ok(begun.elapsed())
    };
    let usual = lag(&mut paint, &mut || Ok(()))?;
    let mut other = Other::start(Abi::own())?;
    let time = TIME * 4 / 5;
    let took = lag(&mut paint, &mut || {
        other.tell(&format!("burst {}", time.as_millis()))?;
        std::thread::sleep(time);
        Ok(())
    })?;
    println!(
        "# {usual:?} alone, {took:?} behind {} queues",
        other.answer()?
    );
    ensure!(took < usual + MOST_LAG, "{took:?}");
    paint.close()
}

/// The time for the records of one queue, plus a margin for a busy host.
const MOST_LAG: Duration = Duration::from_millis(150);

/// Runs small jobs one after the other. Returns their number, and for how many milliseconds the process made no
/// progress.
fn steady(time: Duration) -> Result<String> {
    const STANDS: Duration = Duration::from_millis(250);
    let mut paint = Paint::new()?;
    let stream = paint.fill_cell(0, 0x0600_d000);
    let (mut jobs, mut stood) = (0, Duration::ZERO);
    let begun = Instant::now();
    while jobs == 0 || begun.elapsed() < time {
        let start = Instant::now();
        paint.run(&stream)?;
        jobs += 1;
        stood += Some(start.elapsed())
            .filter(|took| *took > STANDS)
            .unwrap_or_default();
    }
    paint.close()?;
    Ok(format!("{jobs} {}", stood.as_millis()))
}

/// Draws of this colour hang.
const BAD: u32 = 0xffba_dbad;

/// How long processes hang the core, one after the other.
const HANGING: Duration = Duration::from_secs(20);

/// How many processes do so at a time.
const ATTACKERS: u32 = 3;

/// How long the driver takes to detect a hang: `gpuTimeout`.
const HANG: Duration = Duration::from_secs(1);

/// Processes that hang the core once each, all of one user or each of a different user. A known process still gets the
/// core for a good part of the time. A new process that arrives meanwhile is as unknown as they are, but runs before
/// those that arrive later.
fn fresh(control: &Control, users: bool) -> Result<()> {
    let user_of = |number: u32| if users { 2000 + number } else { ATTACKER };
    let mut known = start(ATTACKER)?;
    // First, it waits for the hangs of earlier tests.
    known.ask("steady 300")?;
    let calm = known.ask("steady 1000")?;
    control.write(fault::HANG_KIND, fault::HANG_STALL);
    let armed = control.arm(fault::HANG_AT_COLOUR, BAD);
    let before = control.counters().resets;
    known.tell(&format!("steady {}", HANGING.as_millis()))?;
    let begun = Instant::now();
    let attack = |first: u32| -> Result<()> {
        let mut number = first;
        while begun.elapsed() < HANGING {
            let mut other = start(user_of(number))?;
            number += ATTACKERS;
            other.ask("hang")?;
            let hung = control.counters().resets;
            eventually("a reset", HANGING, || {
                Ok(control.counters().resets > hung || begun.elapsed() >= HANGING)
            })?;
        }
        Ok(())
    };
    let late = || -> Result<Vec<Duration>> {
        let mut all = Vec::new();
        for number in 0..3 {
            std::thread::sleep(HANGING / 20);
            // From the time at which it has opened the device: its start may take long.
            let (jobs, stood) = stands(&start(user_of(990 + number))?.ask("steady 1")?)?;
            ensure!(jobs > 0, "no job");
            all.push(stood);
        }
        Ok(all)
    };
    let late = std::thread::scope(|scope| -> Result<Vec<Duration>> {
        let threads: Vec<_> = (0..ATTACKERS)
            .map(|first| scope.spawn(move || attack(first)))
            .collect();
        let late = scope.spawn(late).join().ok().context("a panic")?;
        for thread in threads {
            thread.join().ok().context("a panic")??;
        }
        late
    })?;
    let known = known.answer()?;
    drop(armed);
    let hangs = control.counters().resets - before;
    println!(
        "# {hangs} hangs; jobs and ms of standstill: known {known}; late ones' first {late:?}"
    );
    ensure!(hangs >= 4, "{hangs} hangs only");
    stood_half(&known, HANGING, &calm)?;
    // They wait for the processes that were there first, each of which costs a hang and an equally long wait.
    let worst = late.into_iter().max().unwrap_or_default();
    ensure!(worst < HANG * 2 * (ATTACKERS + 2), "{worst:?}");
    Ok(())
}

/// The answer of [`steady`]: the number of jobs, and how long there was no progress.
fn stands(text: &str) -> Result<(u64, Duration)> {
    let (jobs, stood) = text.split_once(' ').context("two numbers")?;
    Ok((jobs.parse()?, Duration::from_millis(stood.parse()?)))
}

/// Checks from the answer of [`steady`] that the process made progress for half of `time`, with a margin for the
/// detection of a hang. `calm` is its answer for a second without hangs: on a busy host it stood still then, too.
fn stood_half(text: &str, time: Duration, calm: &str) -> Result<()> {
    let ((jobs, stood), (_, usual)) = (stands(text)?, stands(calm)?);
    let busy = usual.as_secs_f64();
    ensure!(
        busy < 0.5,
        "no progress for {usual:?} of a second without hangs"
    );
    let most = time.mul_f64(0.75 + 0.25 * busy);
    ensure!(
        jobs > 1 && stood <= most,
        "it stood still for {stood:?}, and for {usual:?} of a second without hangs"
    );
    Ok(())
}

/// New processes for which the GPU has done one job, and which then all hang the core, one after the other.
fn rush(control: &Control) -> Result<()> {
    const TIME: Duration = Duration::from_secs(16);
    // Of a user whose processes have hung nothing.
    let mut known = start(VICTIM)?;
    // First, it waits for the hangs of earlier tests.
    known.ask("steady 300")?;
    let calm = known.ask("steady 1000")?;
    control.write(fault::HANG_KIND, fault::HANG_STALL);
    let armed = control.arm(fault::HANG_AT_COLOUR, BAD);
    let before = control.counters().resets;
    start(ATTACKER)?.ask("hang")?;
    eventually(
        "a reset",
        HANGING,
        || Ok(control.counters().resets > before),
    )?;
    let mut rush = Vec::new();
    for number in 0..TIME.as_secs() {
        // CAST: a few.
        let mut other = start(2000 + number as u32)?;
        other.ask("steady 10")?;
        rush.push(other);
    }
    let before = control.counters().resets;
    known.tell(&format!("steady {}", TIME.as_millis()))?;
    for other in &mut rush {
        other.tell("hang")?;
    }
    let known = known.answer()?;
    drop(armed);
    let hangs = control.counters().resets - before;
    println!("# {hangs} hangs; jobs and ms of standstill: {known}");
    ensure!(hangs >= 4, "{hangs} hangs only");
    stood_half(&known, TIME, &calm)
}

/// How long a process has kept the cores busy.
fn busy_of(id: i32) -> Result<Duration> {
    let info = FdInfo::of(id)?;
    let names = info
        .keys()
        .filter_map(|key| key.strip_prefix("drm-engine-"));
    names.map(|name| info.engine(name)).sum()
}

/// A few processes share the core for `time`.
fn shares(control: &Control, time: Duration) -> Result<()> {
    let kinds = [(1, 0), (3, 0), (8, 0), (2, 7_000)];
    // Two effects matter less in a longer test: the jobs in flight at both ends, and periods in which a busy host keeps
    // a thread from submitting its next small job.
    let part = if time > 4 * SHARED { 0.9 } else { 0.7 };
    share(control, &kinds, DRAW, time, part)
}

/// Up to this number of processes, each gets its share regardless of the length of its jobs.
const FEW: usize = 8;

/// Many processes, with jobs of almost nothing to 100 ms, and of 1 to 400 KiB.
fn crowd(control: &Control) -> Result<()> {
    let kind = |number: usize| {
        (
            [0, 1, 10, 30, 100][number % 5],
            [256, 7_000, 100_000][number % 3],
        )
    };
    let kinds: Vec<(u32, usize)> = (0..64).map(kind).collect();
    let draw = Duration::from_millis(1);
    share(control, &kinds, draw, 8 * SHARED, 0.5)
}

/// Jobs of this many draws keep a core busy for the whole share of their process. With shorter jobs the process cannot
/// commit enough.
const LONG: u32 = 10;

/// Processes that all want the core, with jobs of different numbers of draws of length `draw` and of words, get the
/// same time on it, regardless of the length and size of their jobs: over `time`, each gets at least `part` of its fair
/// share.
fn share(
    control: &Control,
    kinds: &[(u32, usize)],
    draw: Duration,
    time: Duration,
    part: f64,
) -> Result<()> {
    let armed = control.arm(fault::SLOW_DRAWS, draw.as_micros() as u32);
    let mut all = Vec::new();
    for _ in kinds {
        all.push(Other::start(Abi::own())?);
    }
    for (other, (draws, words)) in all.iter_mut().zip(kinds) {
        other.tell(&format!("hog {draws} {words} {}", 2 * time.as_millis()))?;
    }
    // All have begun, and none has ended.
    let busy = |all: &[Other]| -> Result<Vec<Duration>> {
        all.iter().map(|other| busy_of(other.id())).collect()
    };
    std::thread::sleep(time / 2);
    let before = busy(&all)?;
    std::thread::sleep(time);
    let times: Vec<f64> = busy(&all)?
        .iter()
        .zip(&before)
        .map(|(now, before)| (*now - *before).as_secs_f64())
        .collect();
    let commits: Vec<String> = all.iter_mut().map(Other::answer).collect::<Result<_>>()?;
    drop(armed);
    let sum: f64 = times.iter().sum();
    let mean = sum / kinds.len() as f64;
    let are_many = kinds.len() > FEW;
    let long = times.iter().zip(kinds);
    let long = long.filter(|(_, (draws, _))| !are_many || *draws >= LONG);
    let (least, most) = long.fold((f64::MAX, 0.0_f64), |(least, most), (time, _)| {
        (time.min(least), time.max(most))
    });
    println!("# seconds of the core {times:.2?}; commits, ms for one: {commits:?}");
    println!(
        "# of what is due: least {:.2}, most {:.2}",
        least / mean,
        most / mean
    );
    ensure!(sum > 0.6 * time.as_secs_f64(), "the core was idle");
    ensure!(least >= part * mean, "{times:?}");
    // The length of its jobs in seconds (`time` is half of the period in which they run), and the longest wait.
    let mut jobs = Vec::new();
    for (answer, time) in commits.iter().zip(&times) {
        let (count, longest) = answer.split_once(' ').context("two numbers")?;
        let longest = longest.parse::<f64>()? / 1000.0;
        jobs.push((2.0 * time / count.parse::<f64>()?, longest));
    }
    // Each other process may run one job before it, and the jobs that it has in flight; twice that, for a busy host.
    let round: f64 = jobs.iter().map(|(length, _)| length).sum();
    for (length, longest) in jobs {
        let bound = 2.0 * (JOBS * DRAW).as_secs_f64() + 2.0 * (round + length * kinds.len() as f64);
        ensure!(
            longest < bound,
            "{longest:.2} s for one of {length:.3} s: {bound:.2}"
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    let part = std::env::args().nth(1).unwrap_or_default();
    harness::program(|| {
        let control = Control::open()?;
        let time;
        let mut suite = Suite::new();
        if part == "--shared" {
            let seconds = std::env::args().nth(2);
            time = seconds.map_or(Ok(SHARED), |seconds| {
                seconds.parse().map(Duration::from_secs)
            })?;
            harness::allow(3 * time);
            suite.test("one job is waited for", || waits_for_one_job(&control));
            suite.test("the same time for each", || shares(&control, time));
            suite.test("threads in a line", || one_is_woken(&control));
            return suite.run();
        }
        if part == "--crowd" {
            suite.test("64 processes", || crowd(&control));
            return suite.run();
        }
        if part == "--hangs" {
            for (name, users) in [("fresh processes", false), ("fresh users", true)] {
                suite.test(format!("hangs by {name}"), move || {
                    system::for_everybody(|| fresh(&Control::open()?, users))
                });
            }
            suite.test("a rush of newcomers", || {
                system::for_everybody(|| rush(&control))
            });
            return suite.run();
        }
        if let "--slow" | "--unlimited" = part.as_str() {
            let limited = part == "--slow";
            suite.test("UNMAP waits for its own job", || {
                unmapping(&control, limited)
            });
            suite.test("a COMMIT waits for its turn", || commits(&control, limited));
            if limited {
                suite.test("an allocation that waits", || allocating(&control));
                suite.test("a killed process's jobs", || killed(&control));
                suite.test("jobs in a row", || in_a_row(&control));
                suite.test("its own time", || {
                    system::for_everybody(|| its_own_time(&Control::open()?))
                });
                suite.test("jobs by turns", || {
                    system::for_everybody(|| by_turns(&Control::open()?))
                });
                suite.test("alone there is no limit", || alone(&control));
            }
            return suite.run();
        }
        suite.test("bursts of records", || bursts(&control));
        suite.test("openers that have exited", exited_openers);
        suite.test("processes of one user", of_one_user);
        suite.test("lines in the kernel's log", lines);
        suite.run()
    })
}
