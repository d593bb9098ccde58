// SPDX-License-Identifier: GPL-2.0-only
//! GPU hangs: the process that caused a hang loses its queued jobs, and other processes lose only time. The driver
//! gives up a core that cannot be reset, and the machine continues.
//!
//! `--processes N --commits M` runs only a stress test: N processes on all cores, a quarter of which hang the cores at
//! random and are killed at random, until the others have committed M times each. Needs the module to be loaded.
//!
//! `--reset-line 1`: for a board whose core has a reset line. Needs the same as the plain run.
//!
//! Plain run: needs the module not to be loaded, or loaded and not in use. Arguments: `[MODULE PARAMETERS...]`, with
//! `gpuTimeout`.

use std::fs;
use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Completion;
use galcore_client::draw::Engine;
use galcore_client::stream::Pipe;
use galcore_client::sys::become_user;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Error;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::cell;
use galcore_selftests::fixture::cell_of;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::fixture::CELLS;
use galcore_selftests::fixture::HEIGHT;
use galcore_selftests::fixture::WIDTH;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::hostile::here;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::Module;
use galcore_selftests::system::ProcGc;
use galcore_selftests::vg;
use galcore_selftests::workers;
use galcore_selftests::workers::vg_job;
use galcore_selftests::workers::VG_CELLS;
use gpu_control::counter;
use gpu_control::fault;
use gpu_control::FrontEndState;
use gpu_control::POWER;
use gpu_control::POWER_CLOCK;

/// Longer than any operation, in milliseconds.
const LONG: u32 = 20_000;

/// Longest time beyond `gpuTimeout` until the next innocent job is done.
const MORE: Duration = Duration::from_millis(250);

/// Longest time if the core itself reports the error.
const AT_ONCE: Duration = Duration::from_millis(450);

/// Number of hangs after which a process is refused.
const MAX_HANGS: u32 = 8;

/// A process that draws on request, and hangs the core if a fault is armed.
#[derive(Default)]
struct Culprit {
    paint: Option<Paint>,
    signal: i32,
    page: Option<Completion>,
}

/// The result as a reply: "done", or a status other than OK.
fn status<T>(result: galcore_client::device::Result<T>) -> Result<String> {
    match result {
        Ok(_) => Ok("done".to_string()),
        Err(Error::Status(_, status)) => Ok(format!("status {status}")),
        Err(error) => Err(error.into()),
    }
}

impl Culprit {
    fn answer(&mut self, words: &[&str]) -> Result<String> {
        if let ["user", user] = *words {
            become_user(user.parse()?).context("setuid")?;
            return Ok("another".to_string());
        }
        // Closes all of its files.
        if let ["leave"] = *words {
            self.page = None;
            let paint = self.paint.take().context("not started")?;
            paint.client.release_surface(paint.surface)?;
            return Ok("left".to_string());
        }
        if words[0] == "start" {
            let paint = Paint::new()?;
            self.signal = paint.device().create_signal(false)?;
            self.page = Some(paint.device().map_completion()?);
            self.paint = Some(paint);
            return Ok("started".to_string());
        }
        let paint = self.paint.as_mut().context("not started")?;
        match *words {
            // Commits a fill of a cell.
            ["fill", number, colour] => {
                let stream = paint.fill_cell(number.parse()?, colour.parse()?);
                let pipe = paint.engine().pipe();
                let mut queue = Queue::new();
                queue.signal(self.signal);
                status(paint.client.commit(pipe, &stream, &mut queue))
            }
            // The same by the resolve engine, even if there is a 2D engine.
            ["resolve", number, colour] => {
                let engine = Engine::Resolve { pipes: 1 };
                let mut stream = Stream::new();
                engine.fill(
                    &mut stream,
                    &paint.surface,
                    cell(number.parse()?),
                    colour.parse()?,
                );
                stream.flush(engine.pipe());
                let mut queue = Queue::new();
                queue.signal(self.signal);
                status(paint.client.commit(engine.pipe(), &stream, &mut queue))
            }
            // Commits fills from several threads, more than the ring has places for. Replies with the longest time
            // between two accepted commits.
            ["flood"] => Ok(flood()?.as_millis().to_string()),
            // Commits only records.
            ["records"] => status(
                paint
                    .device()
                    .commit_queue(Queue::new().signal(self.signal)),
            ),
            ["wait"] => status(paint.device().wait_signal(self.signal, LONG)),
            ["stall"] => status(paint.device().stall()),
            ["pixel", number] => {
                let at = cell(number.parse()?);
                Ok(paint.surface.pixel(at.x, at.y).to_string())
            }
            // Resets that it has caused, resets that it has not caused, and jobs that it has lost.
            ["resets"] => {
                let (guilty, innocent, dropped) = paint.device().resets()?;
                Ok(format!("{guilty} {innocent} {dropped}"))
            }
            // Numbers of the last job that ended and of the last job that was dropped.
            ["page"] => {
                let last = self.page.as_ref().context("no page")?.read();
                Ok(format!("{} {}", last.number, last.dropped))
            }
            _ => bail!("{words:?}"),
        }
    }
}

fn culprit() -> Result<Other> {
    let mut other = Other::start(Abi::own())?;
    other.ask("start")?;
    Ok(other)
}

/// Starts a culprit as another user, who needs access to the device.
fn culprit_of(user: u32) -> Result<Other> {
    let mut other = Other::start(Abi::own())?;
    other.ask(&format!("user {user}"))?;
    other.ask("start")?;
    Ok(other)
}

/// Commits from several threads, each with its own file. Returns the longest time between two accepted commits.
fn flood() -> Result<Duration> {
    const THREADS: u32 = 3;
    const COMMITS: u32 = 15;
    let begun = Instant::now();
    let one = || -> Result<Vec<Duration>> {
        let mut paint = Paint::new()?;
        let stream = paint.fill_cell(0, 1);
        let mut times = Vec::new();
        for _ in 0..COMMITS {
            paint.commit(&stream, &mut Queue::new())?;
            times.push(begun.elapsed());
        }
        paint.close()?;
        Ok(times)
    };
    let mut times = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        let mut times = Vec::new();
        for thread in threads {
            times.extend(thread.join().expect("no panic")?);
        }
        anyhow::Ok(times)
    })?;
    times.sort_unstable();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().context("no commits")
}

/// Makes `culprit` cause a hang that the core reports at once. Returns the delay of its commit.
fn quick_hang(control: &Control, culprit: &mut Other) -> Result<Duration> {
    control.write(fault::HANG_KIND, fault::HANG_ILLEGAL_OPCODE);
    control.write(fault::HANG_AT_DRAW, 1);
    let begun = Instant::now();
    same("fill", culprit.ask("fill 0 1")?.as_str(), "done")?;
    let waited = begun.elapsed();
    same("wait", culprit.ask("wait")?.as_str(), "done")?;
    Ok(waited)
}

/// A process is identified by its history, even if it opens new files.
fn reopened(control: &Control) -> Result<()> {
    let mut innocent = Innocent::new()?;
    let mut culprit = culprit()?;
    let log = &mut KernelLog::from_now()?;
    let mut last = Duration::ZERO;
    for _ in 0..MAX_HANGS {
        last = quick_hang(control, &mut culprit)?;
        culprit.ask("leave")?;
        culprit.ask("start")?;
    }
    ensure!(
        last > Duration::from_millis(1000),
        "the last waited {last:?}"
    );
    let refused = format!("status {}", Status::GPU_NOT_RESPONDING);
    for _ in 0..2 {
        same("fill", culprit.ask("fill 0 1")?, refused.clone())?;
        culprit.ask("leave")?;
        culprit.ask("start")?;
    }
    let name = format!("process {} (recovery) has hung the GPU", culprit.id());
    let lines = log.lines()?;
    let named = lines.iter().filter(|line| line.text.contains(&name));
    same("lines that name it", named.count(), MAX_HANGS as usize)?;
    innocent.commit()?;
    innocent.check()?;
    innocent.close()
}

/// A process that closes all files before the hang is noticed still counts as its cause.
fn gone(control: &Control) -> Result<()> {
    let mut innocent = Innocent::new()?;
    let mut culprit = culprit()?;
    let log = &mut KernelLog::from_now()?;
    for time in 1..=2 {
        let before = resets(control);
        control.write(fault::HANG_KIND, fault::HANG_SILENT);
        control.write(fault::HANG_AT_DRAW, 1);
        same("fill", culprit.ask("fill 0 1")?.as_str(), "done")?;
        stuck(control)?;
        culprit.ask("leave")?;
        eventually("a reset", Duration::from_secs(10), || {
            Ok(resets(control) > before)
        })?;
        innocent.commit()?;
        innocent.check()?;
        let name = format!("process {} (recovery) has hung the GPU", culprit.id());
        let what = format!("time {time}");
        let is_told = |text: &str| text.contains(&name) && text.contains(&what);
        eventually("the log names it", Duration::from_secs(10), || {
            Ok(log.lines()?.iter().any(|line| is_told(&line.text)))
        })?;
        culprit.ask("start")?;
    }
    innocent.close()
}

/// Makes `culprit` hang the core, and waits for the reset. Returns the time that the core was blocked.
fn full_hang(control: &Control, culprit: &mut Other) -> Result<Duration> {
    let before = resets(control);
    control.write(fault::HANG_KIND, fault::HANG_STALL);
    control.write(fault::HANG_AT_DRAW, 1);
    same("fill", culprit.ask("fill 0 1")?.as_str(), "done")?;
    let begun = Instant::now();
    eventually("a reset", Duration::from_secs(10), || {
        Ok(resets(control) > before)
    })?;
    Ok(begun.elapsed())
}

/// Processes that start after a first hang must wait as long as a later hang has blocked the core, whatever user they
/// belong to. Processes that the driver already knows do not wait.
fn strangers(control: &Control, timeout: Duration) -> Result<()> {
    let draws = |what: &str, other: &mut Other, cell: u32| -> Result<()> {
        let fill = format!("fill {cell} 3");
        same(what, other.ask(&fill)?.as_str(), "done")?;
        same(what, other.ask("wait")?.as_str(), "done")
    };
    let mut innocent = Innocent::new()?;
    let mut old = culprit_of(1001)?;
    full_hang(control, &mut culprit_of(1000)?)?;
    let mut others = Vec::new();
    for user in [1000, 1000, 1001] {
        others.push(culprit_of(user)?);
    }
    // A process that opened the device as root and then changed its user is treated like any other.
    others.push(culprit()?);
    others[3].ask("user 1000")?;
    let mut second = others.remove(0);
    let cost = full_hang(control, &mut second)?;
    ensure!(cost > timeout * 3 / 4, "it held the core for {cost:?} only");
    let begun = Instant::now();
    draws("of old", &mut old, 2)?;
    innocent.commit()?;
    let known = begun.elapsed();
    ensure!(known < timeout / 2, "the others waited {known:?}");
    for other in &mut others {
        draws("of new", other, 2)?;
        let took = begun.elapsed();
        ensure!(took > timeout / 2, "a new one waited {took:?} only");
    }
    println!(
        "# a hang of {timeout:?}: {known:?}, new ones {:?}",
        begun.elapsed()
    );
    // They have waited once, so now they count as known.
    full_hang(control, &mut culprit_of(1000)?)?;
    let begun = Instant::now();
    for other in &mut others {
        draws("of known", other, 3)?;
    }
    let took = begun.elapsed();
    ensure!(took < timeout / 2, "they waited again, {took:?}");
    same("resets", others[0].ask("resets")?.as_str(), "0 0 0")?;
    // One of them hangs the core, so the others must wait again.
    let mut known = others.remove(0);
    full_hang(control, &mut known)?;
    let begun = Instant::now();
    draws("of those", &mut others[0], 4)?;
    let took = begun.elapsed();
    ensure!(took > timeout / 2, "it waited {took:?} only");
    innocent.check()?;
    innocent.close()
}

/// Threads that wait for a place in the ring during the hang must also wait because of it.
fn parked(control: &Control, timeout: Duration) -> Result<()> {
    let mut innocent = Innocent::new()?;
    let mut culprit = culprit()?;
    for _ in 0..5 {
        quick_hang(control, &mut culprit)?;
    }
    control.write(fault::HANG_KIND, fault::HANG_SILENT);
    control.write(fault::HANG_AT_DRAW, 1);
    let gap: u64 = culprit.ask("flood")?.parse()?;
    let gap = Duration::from_millis(gap);
    // After the sixth hang the delay is 1600 ms. Before the hang was noticed it was shorter.
    let limit = Duration::from_millis(1500);
    ensure!(timeout < limit && gap > limit, "they waited {gap:?}");
    innocent.commit()?;
    innocent.check()?;
    innocent.close()
}

/// A queued 2D job draws with the colors of its process's earlier COMMIT, although another process's 3D job has hung.
fn colours_stay(control: &Control) -> Result<()> {
    const HANGS: u32 = 0xffde_adbe;
    const COLOUR: u32 = 0xff11_2233;
    let mut paint = Paint::new()?;
    let mut culprit = culprit()?;
    let stream = paint.fill_all(COLOUR);
    paint.run(&stream)?;
    paint.expect(|_, _| COLOUR)?;
    paint.surface.memory.fill(0);
    let armed = control.arm(fault::HANG_AT_COLOUR, HANGS);
    let fill = format!("resolve 0 {HANGS}");
    same("the culprit", culprit.ask(&fill)?.as_str(), "done")?;
    // Only the rectangle: all states are those of before.
    let mut bare = Stream::new();
    bare.draw_rects(&[Rect::new(0, 0, WIDTH, HEIGHT)]);
    bare.flush(Pipe::Pipe2d);
    paint.run(&bare)?;
    drop(armed);
    let (guilty, innocent, dropped) = paint.device().resets()?;
    same("resets", (guilty, innocent, dropped), (0, 1, 0))?;
    paint.expect(|_, _| COLOUR)?;
    paint.close()
}

/// A process that causes no hangs. Its jobs show how often they ran.
struct Innocent {
    paint: Paint,
    pattern: Surface,
    signal: i32,
    jobs: u32,
}

/// The color that an innocent's job leaves in its cell.
fn wanted(job: u32) -> u32 {
    0xff00_0000 | (job + 1) * 0x01_0203
}

impl Innocent {
    fn new() -> Result<Self> {
        let paint = Paint::new()?;
        let pattern = paint.client.create_surface(WIDTH, HEIGHT)?;
        let signal = paint.device().create_signal(false)?;
        Ok(Self {
            paint,
            pattern,
            signal,
            jobs: 0,
        })
    }

    /// Commits a job that marks the next cell. If the engine can, the job flips bits, so that a second run is visible.
    fn commit(&mut self) -> Result<()> {
        let (number, colour) = (self.jobs, wanted(self.jobs));
        ensure!(number < CELLS, "no cell is left");
        self.jobs += 1;
        let stream = match self.paint.engine() {
            Engine::TwoD => {
                let rect = cell(number);
                let mut stream = Stream::new();
                let engine = self.paint.engine();
                let first = cell(0);
                engine.fill(&mut stream, &self.pattern, first, colour);
                stream.flush(engine.pipe()).stall();
                engine.flip(&mut stream, &self.pattern, &self.paint.surface, rect);
                stream.flush(engine.pipe());
                stream
            }
            Engine::Resolve { .. } => self.paint.fill_cell(number, colour),
        };
        let mut queue = Queue::new();
        queue.signal(self.signal);
        self.paint.commit(&stream, &mut queue)
    }

    /// Waits for one more job.
    fn wait(&self) -> Result<()> {
        Ok(self.paint.device().wait_signal(self.signal, LONG)?)
    }

    /// Waits for all jobs and checks all cells.
    fn check(&mut self) -> Result<()> {
        self.paint.client.finish()?;
        let jobs = self.jobs;
        self.paint.expect(|x, y| match cell_of(x, y) {
            number if number < jobs => wanted(number),
            _ => 0,
        })
    }

    fn close(self) -> Result<()> {
        self.paint.client.release_surface(self.pattern)?;
        self.paint.close()
    }
}

/// A way to hang at the next draw.
struct Kind {
    name: &'static str,
    /// Value of [`fault::HANG_KIND`]. `None`: the draw never ends.
    kind: Option<u32>,
    /// Whether the core reports it.
    is_told: bool,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "a front end that stands still",
        kind: Some(fault::HANG_SILENT),
        is_told: false,
    },
    Kind {
        name: "an illegal command",
        kind: Some(fault::HANG_ILLEGAL_OPCODE),
        is_told: true,
    },
    Kind {
        name: "a stall without a semaphore",
        kind: Some(fault::HANG_STALL),
        is_told: false,
    },
    Kind {
        name: "an MMU exception that does not go on",
        kind: Some(fault::HANG_MMU_EXCEPTION),
        is_told: true,
    },
    Kind {
        name: "a bus error that does not go on",
        kind: Some(fault::HANG_BUS_ERROR),
        is_told: true,
    },
    Kind {
        name: "a draw that never ends",
        kind: None,
        is_told: false,
    },
];

impl Kind {
    /// Makes the next draw hang.
    fn arm(&self, control: &Control) {
        match self.kind {
            Some(kind) => {
                control.write(fault::HANG_KIND, kind);
                control.write(fault::HANG_AT_DRAW, 1);
            }
            None => control.write(fault::ENDLESS_DRAW, 1),
        }
    }
}

/// The front end's address runs ahead of the stall after an endless draw, into the words of the next job. The process
/// of the draw must still be found guilty.
fn ahead(control: &Control) -> Result<()> {
    let mut innocent = Innocent::new()?;
    let mut culprit = culprit()?;
    innocent.commit()?;
    innocent.wait()?;
    let before = innocent.paint.device().resets()?;
    control.write(fault::FETCH_AHEAD, 48);
    // Both must be in the ring before the first one starts.
    control.write(fault::HOLD, 1);
    control.write(fault::ENDLESS_DRAW, 1);
    same("fill", culprit.ask("fill 0 1")?.as_str(), "done")?;
    innocent.commit()?;
    control.write(fault::HOLD, 0);
    stuck(control)?;
    innocent.wait()?;
    control.write(fault::FETCH_AHEAD, 0);
    same("wait", culprit.ask("wait")?.as_str(), "done")?;
    same("of the guilty", culprit.ask("resets")?.as_str(), "1 0 1")?;
    let (guilty, innocent_of, dropped) = innocent.paint.device().resets()?;
    same(
        "of the innocent",
        (guilty, innocent_of, dropped),
        (before.0, before.1 + 1, before.2),
    )?;
    innocent.check()?;
    innocent.close()
}

/// Waits until the front end is stuck.
fn stuck(control: &Control) -> Result<()> {
    eventually("the GPU hangs", Duration::from_secs(10), || {
        let state = control.front_end();
        Ok(matches!(
            state,
            Some(FrontEndState::Hung | FrontEndState::Stalled)
        ))
    })
}

fn resets(control: &Control) -> u64 {
    control.counters().resets
}

/// Hangs the core in one way. Takes the best of six times, because a busy host adds delays.
fn hang(control: &Control, kind: &Kind, timeout: Duration) -> Result<()> {
    let limit = if kind.is_told {
        here(AT_ONCE)?.min(timeout * 9 / 10)
    } else {
        timeout + here(MORE)?
    };
    let mut took = Duration::MAX;
    for _ in 0..6 {
        took = took.min(one_hang(control, kind, timeout)?);
        if took < limit {
            return Ok(());
        }
    }
    bail!("it took {took:?}")
}

/// A culprit hangs the core between innocent jobs. Returns the time until the next innocent job was done.
fn one_hang(control: &Control, kind: &Kind, timeout: Duration) -> Result<Duration> {
    let mut innocent = Innocent::new()?;
    let mut culprit = culprit()?;
    // Loads its context and creates its page.
    same("fill", culprit.ask("fill 9 77")?.as_str(), "done")?;
    same("wait", culprit.ask("wait")?.as_str(), "done")?;
    innocent.commit()?;
    innocent.wait()?;
    let before = resets(control);
    let (guilty_before, innocent_before, dropped_before) = innocent.paint.device().resets()?;
    kind.arm(control);
    let begun = Instant::now();
    same("fill", culprit.ask("fill 0 1")?.as_str(), "done")?;
    stuck(control)?;
    for _ in 0..3 {
        innocent.commit()?;
    }
    same("fill", culprit.ask("fill 1 2")?.as_str(), "done")?;
    same("records", culprit.ask("records")?.as_str(), "done")?;
    for _ in 0..3 {
        innocent.commit()?;
    }
    innocent.wait()?;
    let took = begun.elapsed();
    println!("# {}: {} ms", kind.name, took.as_millis());
    same("wait", culprit.ask("wait")?.as_str(), "done")?;
    // All of its jobs have ended. Only the first one completed.
    eventually("the last is dropped", Duration::from_secs(10), || {
        Ok(culprit.ask("page")? == "4 4")
    })?;
    same("what was dropped", culprit.ask("pixel 0")?.as_str(), "0")?;
    same("what was queued", culprit.ask("pixel 1")?.as_str(), "0")?;
    same("what was done", culprit.ask("pixel 9")?.as_str(), "77")?;
    innocent.check()?;
    same("resets", resets(control) - before, 1)?;
    same("of the guilty", culprit.ask("resets")?.as_str(), "1 0 3")?;
    same(
        "of the innocent",
        innocent.paint.device().resets()?,
        (guilty_before, innocent_before + 1, dropped_before),
    )?;
    // A front end that stops among a command's words seems to stop at a command that does not exist, and the driver
    // then waits for less time.
    if !kind.is_told && kind.kind != Some(fault::HANG_SILENT) {
        ensure!(took >= timeout, "it took no longer than {took:?}");
    }
    // The culprit may continue.
    same("fill", culprit.ask("fill 2 3")?.as_str(), "done")?;
    same("wait", culprit.ask("wait")?.as_str(), "done")?;
    eventually("it is drawn", Duration::from_secs(10), || {
        Ok(culprit.ask("pixel 2")? == "3")
    })?;
    // The wait above may have seen the signal of a dropped job.
    eventually("its page", Duration::from_secs(10), || {
        Ok(culprit.ask("page")? == "5 4")
    })?;
    innocent.commit()?;
    innocent.check()?;
    innocent.close()?;
    Ok(took)
}

/// A core that cannot be reset: all clients get an error, memory is released, and the module can be unloaded and
/// reloaded.
fn given_up(
    control: &Control,
    module: &Module,
    fault: (usize, u32),
    timeout: Duration,
) -> Result<()> {
    let free = system::settled_free()?;
    let mut innocent = Innocent::new()?;
    let mut culprit = culprit()?;
    innocent.commit()?;
    innocent.wait()?;
    let log = &mut KernelLog::from_now()?;
    control.write(fault.0, fault.1);
    control.write(fault::HANG_AT_DRAW, 1);
    same("fill", culprit.ask("fill 0 1")?.as_str(), "done")?;
    stuck(control)?;
    innocent.commit()?;
    // The waits end, and the page shows that the job was dropped.
    let begun = Stopwatch::start();
    innocent.wait()?;
    same("wait", culprit.ask("wait")?.as_str(), "done")?;
    let limit = timeout + here(Duration::from_secs(2))?;
    ensure!(begun.elapsed() < limit, "it took {:?}", begun.elapsed());
    same("page", culprit.ask("page")?.as_str(), "1 1")?;
    let lines = log.lines()?;
    ensure!(
        lines.iter().any(|line| line.text.contains("is given up")),
        "the log says {lines:?}"
    );
    // New requests are refused.
    let refused = format!("status {}", Status::GPU_NOT_RESPONDING);
    for what in ["fill 1 2", "records", "stall"] {
        same(what, culprit.ask(what)?, refused.clone())?;
    }
    harness::refused(
        "STALL",
        innocent.paint.device().stall(),
        Status::GPU_NOT_RESPONDING,
    )?;
    drop(culprit);
    drop(innocent);
    eventually("all comes back", Duration::from_secs(10), || {
        Ok(!system::is_pending()?)
    })?;
    Module::unload()?;
    loaded_again(control, module)?;
    system::memory_is_back(free, 2048)
}

/// Clears all faults, loads the module, and draws.
fn loaded_again(control: &Control, module: &Module) -> Result<()> {
    control.write(fault::CLEAR_ALL, 1);
    module.load_or_fail()?;
    let mut paint = Paint::new()?;
    paint.prove(0xff12_3456)?;
    paint.close()
}

/// Recovers from a hang that needs more than one soft reset, as `fault` determines: innocent jobs run, the guilty ones
/// are dropped. Returns the number of soft resets.
fn hard_reset(control: &Control, fault: (usize, u32)) -> Result<u64> {
    let mut innocent = Innocent::new()?;
    let mut culprit = culprit()?;
    innocent.commit()?;
    innocent.wait()?;
    let before = resets(control);
    control.write(fault.0, fault.1);
    control.write(fault::HANG_AT_DRAW, 1);
    same("fill", culprit.ask("fill 0 1")?.as_str(), "done")?;
    stuck(control)?;
    innocent.commit()?;
    same("wait", culprit.ask("wait")?.as_str(), "done")?;
    innocent.check()?;
    eventually("what it has cost", Duration::from_secs(10), || {
        Ok(culprit.ask("resets")? == "1 0 1")
    })?;
    same("what was dropped", culprit.ask("pixel 0")?.as_str(), "0")?;
    innocent.close()?;
    Ok(resets(control) - before)
}

/// Delays in milliseconds between a reported hang and the removal: before the hang is noticed, during its resets, and
/// after them.
const MOMENTS: [u64; 6] = [0, 90, 110, 130, 160, 250];

/// Number of resets that such a recovery takes, to make it last.
const TRIES: u32 = 15;

/// Makes `culprit` hang the core with a slow reset, and waits for `milliseconds`.
fn slow_hang(control: &Control, culprit: &mut Other, milliseconds: u64) -> Result<()> {
    control.write(fault::RESET_STUCK, TRIES);
    control.write(fault::HANG_KIND, fault::HANG_ILLEGAL_OPCODE);
    control.write(fault::HANG_AT_DRAW, 1);
    same("fill", culprit.ask("fill 0 1")?.as_str(), "done")?;
    stuck(control)?;
    std::thread::sleep(Duration::from_millis(milliseconds));
    Ok(())
}

/// The core is unbound during its recovery, while it is in use, and bound again.
fn unbound(control: &Control) -> Result<()> {
    let core = system::bound()?.pop().context("no core is bound")?;
    for moment in MOMENTS {
        let mut innocent = Innocent::new()?;
        let mut culprit = culprit()?;
        innocent.commit()?;
        innocent.wait()?;
        slow_hang(control, &mut culprit, moment)?;
        innocent.commit()?;
        let begun = Stopwatch::start();
        system::to_driver("unbind", &core)?;
        let took = begun.elapsed();
        let records = culprit.ask("records")?;
        control.write(fault::CLEAR_ALL, 1);
        system::to_driver("bind", &core)?;
        ensure!(took < here(Duration::from_secs(5))?, "it took {took:?}");
        let refused = format!("status {}", Status::GPU_NOT_RESPONDING);
        same("of no core", records, refused)?;
        // All waits end, whether the jobs were done or not.
        innocent.wait()?;
        same("wait", culprit.ask("wait")?.as_str(), "done")?;
        innocent.paint.prove(0xff00_4567)?;
        innocent.close()?;
    }
    Ok(())
}

/// The module is unloaded during a recovery, after its user was killed.
fn removed(control: &Control, module: &Module) -> Result<()> {
    let free = system::settled_free()?;
    for moment in MOMENTS {
        let mut culprit = culprit()?;
        slow_hang(control, &mut culprit, moment)?;
        culprit.kill()?;
        // Possible as soon as its files are closed.
        eventually("rmmod", Duration::from_secs(5), || {
            Ok(Module::unload().is_ok())
        })?;
        loaded_again(control, module)?;
    }
    system::memory_is_back(free, 2048)
}

/// A stuck interrupt line must not prevent a recovery.
fn stuck_line(control: &Control, line: u32) -> Result<()> {
    same("soft resets", hard_reset(control, (fault::LINE, line))?, 1)?;
    let mut paint = Paint::new()?;
    paint.prove(0xff77_6655)?;
    control.write(fault::LINE, fault::LINE_WORKS);
    paint.prove(0xff55_6677)?;
    paint.close()
}

/// Soft resets before the reset line is used, and pulses on the line before a core is given up.
const SOFT_RESETS: u64 = 20;
const PULSES: u64 = 3;

/// Cores that the reset line can and cannot reset.
fn reset_line(module: &Module, timeout: Duration) -> Result<bool> {
    // Our controller's driver is a module, which a test loads. A built-in driver already owns the word in the control
    // BAR, and distribution kernels then deny other access to it (IO_STRICT_DEVMEM).
    if fs::exists("/sys/bus/platform/drivers/simple-reset/1004411c.reset-controller")? {
        return harness::skip("the line's controller has its driver already");
    }
    let control = &Control::open()?;
    let pulses = || control.counter(counter::LINE_RESETS);
    let load = || -> Result<()> {
        if !Module::is_loaded() {
            module.load_or_fail()?;
        }
        system::stay_awake()
    };
    let mut suite = Suite::new();
    suite.test("the driver waits for the line's controller", move || {
        ensure!(!Module::is_loaded(), "it is loaded");
        module.load_or_fail()?;
        let is_bound = || {
            Ok(fs::exists(
                "/sys/bus/platform/drivers/galcore/10000000.gpu",
            )?)
        };
        ensure!(!is_bound()?, "it is bound");
        let line = Module::from_words(&["/galcore/reset-line.ko".to_string()])?;
        line.load().1.context("insmod reset-line.ko")?;
        eventually("it is bound", Duration::from_secs(10), is_bound)?;
        Module::unload()?;
        load()?;
        Innocent::new()?.close()
    });
    suite.test(
        "clocks of any name are switched, and the second of two is the core's",
        move || {
            load()?;
            Module::unload()?;
            same("power", control.read(POWER) & POWER_CLOCK, 0)?;
            let mut log = KernelLog::from_now()?;
            load()?;
            same("power", control.read(POWER) & POWER_CLOCK, POWER_CLOCK)?;
            let told = log.lines()?;
            ensure!(
                told.iter()
                    .any(|line| line.text.contains("10000000.gpu: its clock: 528000000 Hz")),
                "no line with the core's rate"
            );
            ensure!(
                told.iter().any(|line| line
                    .text
                    .contains("10080000.gpu: its node names several power domains")),
                "the node with two power domains was not refused"
            );
            Ok(())
        },
    );
    suite.test("the line resets what a soft reset does not", move || {
        load()?;
        let before = pulses();
        let soft = hard_reset(control, (fault::RESET_NEEDS_LINE, 1))?;
        same("soft resets", soft, SOFT_RESETS + 1)?;
        same("pulses", pulses() - before, 1)
    });
    suite.test("where a soft reset helps, it is left alone", move || {
        load()?;
        let before = pulses();
        let soft = hard_reset(control, (fault::RESET_STUCK, 3))?;
        same("soft resets", soft, 4)?;
        same("pulses", pulses() - before, 0)
    });
    suite.test("a core comes up that needs it", move || {
        load()?;
        Module::unload()?;
        let before = pulses();
        control.write(fault::RESET_NEEDS_LINE, 1);
        load()?;
        same("pulses", pulses() - before, 1)?;
        let mut paint = Paint::new()?;
        paint.prove(0xff65_4321)?;
        paint.close()
    });
    suite.test(
        "what the line does not reset either is given up",
        move || {
            load()?;
            let before = pulses();
            given_up(control, module, (fault::RESET_STUCK, u32::MAX), timeout)?;
            // The core is cut off by then, so the unload does not pulse the line again.
            same("pulses", pulses() - before, PULSES)
        },
    );
    suite.test("silicon was not asked for more than it can do", move || {
        same("violations", control.violations(), 0)
    });
    suite.run()
}

/// A draw of this color hangs a core.
const BAD: u32 = 0xffba_dbad;

/// The same as [`offender`] on the vector graphics core.
fn vg_offender(seed: u32) -> Result<()> {
    let mut client = vg::Client::start()?;
    let [_, done, _] = client.signals;
    let mut random = Random::new(seed);
    loop {
        let colour = match random.below(4) {
            0 => BAD,
            _ => 0xff34_5678,
        };
        for slot in 0..=random.below(3) {
            let entries = vg_job(&client, slot, random.below(VG_CELLS), colour);
            let tasks = vg::Tasks::default().with(vg::PIXEL, vg::signal(done));
            match Status(client.send(&entries, &tasks)?) {
                Status::GPU_NOT_RESPONDING => return Ok(()),
                status => same("status", status, Status::OK)?,
            }
        }
        client.device.wait_signal(done, LONG)?;
    }
}

/// A process that sometimes hangs `core`, until it is refused.
fn offender(core: usize, seed: u32) -> Result<()> {
    if vg::place()? == Some(core) {
        return vg_offender(seed);
    }
    let client = Client::with_device(Device::open_core(core)?)?;
    let mut paint = Paint::of(client)?;
    let signal = paint.device().create_signal(false)?;
    let mut random = Random::new(seed);
    loop {
        let colour = match random.below(4) {
            0 => BAD,
            _ => 0x1234_5678,
        };
        // If the first one hangs, all of these are dropped, but their signal is still set.
        for _ in 0..=random.below(3) {
            let stream = paint.fill_cell(random.below(CELLS), colour);
            let mut queue = Queue::new();
            queue.signal(signal);
            let pipe = paint.engine().pipe();
            match paint.client.commit(pipe, &stream, &mut queue) {
                Err(Error::Status(_, Status::GPU_NOT_RESPONDING)) => return Ok(()),
                other => other?,
            }
        }
        paint.device().wait_signal(signal, LONG)?;
    }
}

fn spawn(role: &str, core: u32, seed: u32, commits: u32) -> Result<Child> {
    let (core, seed, commits) = (core.to_string(), seed.to_string(), commits.to_string());
    let arguments = [
        "--role",
        role,
        "--core",
        &core,
        "--seed",
        &seed,
        "--commits",
        &commits,
    ];
    Ok(system::again(&arguments)?.stdout(Stdio::piped()).spawn()?)
}

/// The output of a process that failed.
fn ended(what: &str, child: Child) -> Result<()> {
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{what}: {} {text}", output.status);
    Ok(())
}

/// Workers and offenders run together, while the machine sometimes sleeps.
fn soak(cores: u32, processes: u32, commits: u32) -> Result<()> {
    let controls = (0..cores as usize)
        .map(Control::open_core)
        .collect::<Result<Vec<_>>>()?;
    let before: u64 = controls.iter().map(resets).sum();
    let mut armed = Vec::new();
    for control in &controls {
        armed.push(control.arm(fault::HANG_AT_COLOUR, BAD));
    }
    let offending = (processes / 4).max(cores);
    let mut random = Random::new(processes * 31 + commits);
    let mut seed = 0;
    let mut start = |role: &str, core: u32| {
        seed += 1;
        spawn(role, core, seed, commits)
    };
    let mut workers = Vec::new();
    for number in 0..processes - offending {
        workers.push(start("worker", number % cores)?);
    }
    let mut offenders = Vec::new();
    for number in 0..offending {
        offenders.push((number % cores, start("offender", number % cores)?));
    }
    let (mut kills, mut sleeps) = (0, 0);
    while !workers.is_empty() {
        std::thread::sleep(Duration::from_millis(u64::from(20 + random.below(200))));
        for control in &controls {
            control.write(fault::HANG_KIND, random.below(5));
        }
        let at = random.below(offending) as usize;
        let (core, offender) = &mut offenders[at];
        let core = *core;
        let is_killed = offender.try_wait()?.is_none();
        if is_killed && random.below(4) == 0 {
            offender.kill()?;
            offender.wait()?;
            kills += 1;
            offenders[at] = (core, start("offender", core)?);
        } else if !is_killed {
            let (_, refused) =
                std::mem::replace(&mut offenders[at], (core, start("offender", core)?));
            ended("an offender", refused)?;
        }
        if random.below(16) == 0 {
            system::sleep_devices().context("sleep")?;
            sleeps += 1;
        }
        let mut left = Vec::new();
        for mut worker in workers {
            match worker.try_wait()? {
                Some(_) => ended("a worker", worker)?,
                None => left.push(worker),
            }
        }
        workers = left;
    }
    for (_, mut offender) in offenders {
        offender.kill()?;
        offender.wait()?;
    }
    drop(armed);
    let after: u64 = controls.iter().map(resets).sum();
    println!(
        "# {} resets, {kills} kills, {sleeps} sleeps",
        after - before
    );
    ensure!(after > before, "nothing hung");
    for control in &controls {
        same("violations", control.violations(), 0)?;
    }
    Ok(())
}

/// Extends the time limit for `commits` of each process, which hangs delay.
fn allow(commits: u32) {
    harness::allow(Duration::from_secs(u64::from(commits) * 3 + 600));
}

fn soak_suite(options: &Options, processes: u32) -> Result<bool> {
    let commits = options.number("commits", 100)?;
    allow(commits);
    let cores = u32::try_from(Device::open()?.chip_info()?.count)?;
    Innocent::new()?.close()?;
    let before = ProcGc::nothing_left()?;
    let mut suite = Suite::new();
    suite.test(
        format!("{processes} processes, some of which hang the cores, {commits} commits"),
        move || soak(cores, processes, commits),
    );
    suite.test("memory and MMU entries are as before", move || {
        same("KiB, entries", ProcGc::nothing_left()?, before)
    });
    suite.test("every core draws", move || {
        for core in 0..cores {
            if vg::place()? == Some(core as usize) {
                let mut client = vg::Client::start()?;
                client.prove(0xff00_1234 + core)?;
                client.close()?;
                continue;
            }
            let mut paint = Paint::of(Client::with_device(Device::open_core(core as usize)?)?)?;
            paint.prove(0xff00_1234 + core)?;
            paint.close()?;
        }
        Ok(())
    });
    suite.run()
}

fn main() -> ExitCode {
    if let Some(code) = other::role(|_| {
        let mut culprit = Culprit::default();
        other::serve(|words| culprit.answer(words))
    }) {
        return code;
    }
    harness::program(|| {
        let options =
            Options::parse(&["processes", "commits", "role", "core", "seed", "reset-line"])?;
        if let Some(role) = options.get("role") {
            let (core, seed) = (options.number("core", 0)?, options.number("seed", 1)?);
            allow(options.number("commits", 100)?);
            if role == "worker" {
                let commits = options.number("commits", 1)?;
                let (_, resets) =
                    workers::work(core as usize, seed, |number| Ok(number < commits))?;
                println!("# {resets} resets");
            } else {
                offender(core as usize, seed)?;
            }
            return Ok(true);
        }
        if options.get("processes").is_some() {
            let processes = options.number("processes", 8)?;
            return soak_suite(&options, processes);
        }
        let module = &Module::from_words(&options.rest)?;
        let timeout = module.number("gpuTimeout").context("no gpuTimeout")?;
        let timeout = Duration::from_millis(timeout);
        if options.get("reset-line").is_some() {
            return reset_line(module, timeout);
        }
        if !Module::is_loaded() {
            module.load_or_fail()?;
        }
        // The core is reset each time it powers on, and faults at its first commands have other effects.
        system::stay_awake()?;
        let control = &Control::open()?;
        // Warms up this process's own allocations.
        Innocent::new()?.close()?;
        culprit()?.ask("stall")?;
        let mut suite = Suite::new();
        for kind in &KINDS {
            suite.test(kind.name, move || hang(control, kind, timeout));
        }
        suite.test(
            "the power domain resets what a soft reset does not",
            move || {
                if module.bound_by_parameters() {
                    return harness::skip("without a device tree a core has none");
                }
                // A process that keeps the core on also keeps its power domain on.
                system::may_sleep()?;
                let before = control.counter(counter::POWER_UPS);
                let soft = hard_reset(control, (fault::RESET_NEEDS_POWER, 1));
                system::stay_awake()?;
                same("soft resets", soft?, SOFT_RESETS + 1)?;
                same("the fault", control.read(fault::RESET_NEEDS_POWER), 0)?;
                ensure!(control.counter(counter::POWER_UPS) > before, "no power");
                Ok(())
            },
        );
        suite.test("a queued 2D job keeps its process's colors", move || {
            let client = Client::start()?;
            if !has_2d(client.identity()) || !has_3d(client.identity()) {
                return harness::skip("this core has one engine");
            }
            colours_stay(control)
        });
        suite.test(
            "an address that runs ahead of a stall makes nobody guilty",
            move || ahead(control),
        );
        suite.test("a slow draw is no hang", move || {
            let mut innocent = Innocent::new()?;
            let before = resets(control);
            let time = timeout * 2;
            control.write(fault::SLOW_DRAWS, time.as_micros() as u32);
            let begun = Instant::now();
            innocent.commit()?;
            innocent.wait()?;
            control.write(fault::SLOW_DRAWS, 0);
            ensure!(begun.elapsed() >= time, "it was not slow");
            same("resets", resets(control), before)?;
            innocent.check()?;
            innocent.close()
        });
        suite.test(
            "records do not hang, whatever is in front of them",
            move || {
                let mut innocent = Innocent::new()?;
                let mut culprit = culprit()?;
                let before = resets(control);
                control.write(fault::HANG_AT_COMMAND, 1);
                same("records", culprit.ask("records")?.as_str(), "done")?;
                stuck(control)?;
                // Its context load is a separate job, because this is its first job.
                innocent.commit()?;
                innocent.check()?;
                same("wait", culprit.ask("wait")?.as_str(), "done")?;
                same("page", culprit.ask("page")?.as_str(), "1 0")?;
                same("resets", resets(control) - before, 1)?;
                innocent.close()
            },
        );
        suite.test("who has not begun is not guilty", move || {
            let mut innocent = Innocent::new()?;
            let before = resets(control);
            control.write(fault::HOLD, 1);
            innocent.commit()?;
            eventually(
                "the core is reset",
                timeout + Duration::from_secs(10),
                || Ok(resets(control) > before),
            )?;
            control.write(fault::HOLD, 0);
            innocent.check()?;
            innocent.close()
        });
        suite.test("a reset may need several tries", move || {
            let mut innocent = Innocent::new()?;
            let mut culprit = culprit()?;
            innocent.commit()?;
            let before = resets(control);
            control.write(fault::RESET_STUCK, 3);
            innocent.wait()?;
            control.write(fault::HANG_AT_DRAW, 1);
            culprit.ask("fill 0 1")?;
            stuck(control)?;
            innocent.commit()?;
            same("wait", culprit.ask("wait")?.as_str(), "done")?;
            innocent.check()?;
            same("resets", resets(control) - before, 4)?;
            innocent.close()
        });
        suite.test(
            "who hangs it again and again waits, then is refused, and the log names it",
            move || {
                let mut innocent = Innocent::new()?;
                let mut culprit = culprit()?;
                let log = &mut KernelLog::from_now()?;
                control.write(fault::HANG_KIND, fault::HANG_ILLEGAL_OPCODE);
                let mut last = Duration::ZERO;
                for _ in 0..MAX_HANGS {
                    innocent.commit()?;
                    innocent.check()?;
                    control.write(fault::HANG_AT_DRAW, 1);
                    let begun = Instant::now();
                    same("fill", culprit.ask("fill 0 1")?.as_str(), "done")?;
                    last = begun.elapsed();
                    same("wait", culprit.ask("wait")?.as_str(), "done")?;
                }
                ensure!(
                    last > Duration::from_millis(1000),
                    "the last waited {last:?}"
                );
                let refused = format!("status {}", Status::GPU_NOT_RESPONDING);
                eventually("it is refused", Duration::from_secs(5), || {
                    Ok(culprit.ask("fill 0 1")? == refused)
                })?;
                let name = format!("process {} (recovery) has hung the GPU", culprit.id());
                let lines = log.lines()?;
                let named = lines.iter().filter(|line| line.text.contains(&name));
                same("lines that name it", named.count(), MAX_HANGS as usize)?;
                ensure!(
                    lines.iter().any(|line| line.text.contains("are refused")),
                    "the log does not say that it is refused"
                );
                innocent.commit()?;
                innocent.check()?;
                innocent.close()
            },
        );
        suite.test(
            "who closes the device and opens it again is known",
            move || reopened(control),
        );
        suite.test("who closes it before the hang is noticed, too", move || {
            gone(control)
        });
        suite.test(
            "later processes wait as long as a hang has cost, and nobody else",
            move || system::for_everybody(|| strangers(control, timeout)),
        );
        suite.test("threads that wait for a place wait as all do", move || {
            parked(control, timeout)
        });
        for (name, line) in [
            ("an interrupt line that never rises", fault::LINE_LOW),
            ("an interrupt line that never falls", fault::LINE_HIGH),
        ] {
            suite.test(name, move || stuck_line(control, line));
        }
        suite.test("a core goes in the middle of a recovery", move || {
            unbound(control)
        });
        suite.test("the module goes in the middle of a recovery", move || {
            removed(control, module)
        });
        for (name, fault) in [
            (
                "a core that does not reset is given up",
                (fault::RESET_STUCK, u32::MAX),
            ),
            (
                "a core that has another identity is given up",
                (fault::IDENTITY_AFTER_RESET, fault::IDENTITY_OTHER),
            ),
        ] {
            suite.test(name, move || given_up(control, module, fault, timeout));
        }
        suite.test("silicon was not asked for more than it can do", move || {
            same("violations", control.violations(), 0)
        });
        suite.run()
    })
}
