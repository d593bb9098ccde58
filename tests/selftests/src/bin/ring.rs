// SPDX-License-Identifier: GPL-2.0-only
//! debugfs `galcore/ring`: the words in the file match those that the client committed and those that the front end
//! fetched. galcore-info must decode them, also after the ring has wrapped, while other processes commit, and for a
//! vector graphics core. Only an administrator can read the file.
//!
//! Needs the module to be loaded. `--refused USER`: only checks that this user cannot open the file. `--refused 0`:
//! checks root without CAP_SYS_ADMIN.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::ops::Deref;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::sys::become_user;
use galcore_client::uapi::feature;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;
use galcore_info::ring;
use galcore_info::ring::Word;
use galcore_info::ring::FILE;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::usage::Usage;
use galcore_selftests::vg;
use gpu_control::fault;
use rustix::thread::CapabilitySet;

/// Bytes of the ring, and the part of it that jobs can fill at least.
const RING: usize = 1 << 20;
const MOST: usize = RING - (16 << 10);

/// `NOP`, whose second word is ignored.
const NOP: u32 = 0x1800_0000;

/// A job in the file, with the words that the front end reaches.
#[derive(Debug)]
struct Job {
    job: ring::Job,
    words: Vec<Word>,
}

impl Job {
    fn own(&self) -> impl Iterator<Item = &Word> {
        self.words.iter().filter(|word| word.is_own)
    }

    fn own_words(&self) -> Vec<u32> {
        self.own().map(|word| word.word).collect()
    }
}

impl Deref for Job {
    type Target = ring::Job;

    fn deref(&self) -> &ring::Job {
        &self.job
    }
}

/// Reads the file, job by job.
fn read() -> Result<Vec<Job>> {
    let jobs = ring::parse(&fs::read_to_string(FILE).context(FILE)?)?;
    let decoded = |job: ring::Job| Job {
        words: job.words(),
        job,
    };
    Ok(jobs.into_iter().map(decoded).collect())
}

/// This process's jobs with commands on a core, oldest first.
fn own_jobs(core: usize) -> Result<Vec<Job>> {
    let id = std::process::id() as i32;
    let mut jobs = read()?;
    jobs.retain(|job| job.core == core && job.process == id && job.own().next().is_some());
    Ok(jobs)
}

/// A core with a ring, by the client's number for it.
struct Core {
    number: usize,
    place: usize,
}

fn cores() -> Result<Vec<Core>> {
    let usage = Usage::read()?;
    let wanted = ["3d", "3d-2d", "2d", "vg"];
    let found = wanted.iter().filter_map(|kind| usage.core(kind).ok());
    let cores = found.enumerate().filter(|(_, core)| core.kind != "vg");
    let core = |(number, core): (usize, &galcore_selftests::usage::Core)| Core {
        number,
        place: core.place,
    };
    Ok(cores.map(core).collect())
}

/// A client of a core.
struct Bench {
    paint: Paint,
    buffer: Buffer,
}

impl Bench {
    fn of(core: &Core) -> Result<Self> {
        let paint = Paint::of(Client::with_device(Device::open_core(core.number)?)?)?;
        Ok(Self {
            buffer: paint.device().allocate_contiguous(0x4_0000)?,
            paint,
        })
    }

    fn commit(&self, stream: &Stream) -> Result<()> {
        let pipe = self.paint.engine().pipe();
        let record = place(&self.buffer, 0, pipe, stream);
        Ok(self.paint.device().commit(&record, 0, &mut Queue::new())?)
    }

    fn run(&self, stream: &Stream) -> Result<()> {
        self.commit(stream)?;
        Ok(self.paint.device().stall()?)
    }
}

/// The file contains the exact committed words, between the driver's, and decodes them.
fn committed(core: &Core) -> Result<()> {
    let bench = Bench::of(core)?;
    let control = Control::open_core(core.number)?;
    let dump = bench
        .paint
        .device()
        .allocate_contiguous(gpu_control::FETCH_DUMP_BYTES as u64)?;
    let base = bench.paint.client.base_address();
    let fetched = || -> Result<BTreeMap<u32, [u32; 2]>> {
        // Waits for the whole idle loop.
        std::thread::sleep(Duration::from_millis(20));
        dump.memory.fill(0);
        control.write(gpu_control::FETCH_DUMP, dump.address + base);
        let word = |index: usize, part: usize| dump.memory.read(index * 16 + part * 4);
        let units = (0..gpu_control::FETCH_DUMP_UNITS).take_while(|&index| word(index, 3) != 0);
        Ok(units
            .map(|index| (word(index, 0), [word(index, 1), word(index, 2)]))
            .collect())
    };
    let mut stream = Stream::new();
    let colour = 0xff12_3456;
    stream.raw(&[NOP, 0xcafe_0001]);
    stream.append(&bench.paint.fill_all(colour));
    stream.raw(&[NOP, 0xcafe_0002]);
    bench.run(&stream)?;
    system::stay_awake()?;
    fetched()?;
    bench.run(&stream)?;
    let units = fetched()?;
    bench.paint.expect(|_, _| colour)?;
    let jobs = own_jobs(core.place)?;
    let job = jobs.last().context("no job of this process")?;
    // The driver may first load states that define the extent of a draw.
    let own = job.own_words();
    let lent = own.len().saturating_sub(stream.words().len());
    same("its words", hex(&own[lent..]), hex(stream.words()))?;
    same("all of them", job.words.len(), job.count)?;
    same("how it is", job.state.as_str(), "ended")?;
    for (word, address) in job.words.iter().zip((job.address..).step_by(4)) {
        same_word("address", word.address, address)?;
    }
    // The file must match the fetched words. The idle loop is excluded, because it changes while it is fetched.
    let end = job.address + 4 * job.count as u32 - 16;
    let mut compared = 0;
    for words in job
        .words
        .chunks(2)
        .take_while(|words| words[0].address < end)
    {
        let unit = units
            .get(&words[0].address)
            .with_context(|| format!("not fetched: {words:x?}"))?;
        same("fetched", hex(unit), hex(&[words[0].word, words[1].word]))?;
        compared += 1;
    }
    ensure!(compared > stream.words().len() / 2, "{compared} units");
    let texts: Vec<&str> = job.own().skip(lent).map(|word| word.text.trim()).collect();
    same("first words", &texts[..2], &["NOP", "-"][..])?;
    let targets = [
        "0x01228 DE.DEST_ADDRESS",
        "0x01610 RS.DEST_ADDR",
        "0x016e0 RS.PIPE_DEST_ADDR",
    ];
    let is_target = |word: &&Word| targets.contains(&word.text.trim());
    let found = job.own().find(is_target).context("no target")?;
    same_word(
        "the target",
        found.word,
        bench.paint.surface.location.address,
    )?;
    let behind: Vec<&str> = job
        .words
        .iter()
        .rev()
        .take_while(|word| !word.is_own)
        .map(|word| word.text.trim())
        .collect();
    for wanted in ["STALL", "FE to PE", "LOAD_STATE 1 from 0x03804"] {
        ensure!(behind.contains(&wanted), "no {wanted} in {behind:?}");
    }
    let event = behind
        .iter()
        .find(|text| text.starts_with("0x03804 GL.EVENT = "));
    ensure!(
        event.is_some_and(|text| text.ends_with(" from PE")),
        "{behind:?}"
    );
    flushed(core, &job.words)?;
    system::may_sleep()?;
    same(
        "the last command",
        behind.get(1).map(|text| text.starts_with("LINK ")),
        Some(true),
    )
}

/// After the process's words all caches of the core are flushed, including the tile status cache, and the front end
/// waits. The event follows.
fn flushed(core: &Core, words: &[Word]) -> Result<()> {
    const FEATURE_FAST_CLEAR: u32 = 1 << 0;
    let features = Device::open_core(core.number)?.identity()?.chip_features;
    let has_3d = features & feature::PIPE_3D != 0;
    // Depth, color, and the first shader level.
    let caches = if has_3d { 0x23 } else { 0 };
    let caches = caches
        | if features & feature::PIPE_2D != 0 {
            8
        } else {
            0
        };
    let status = if has_3d && features & FEATURE_FAST_CLEAR != 0 {
        [0x0801_0594, 1]
    } else {
        [NOP, 0]
    };
    let last = words.iter().rposition(|word| word.is_own);
    let behind = words[last.context("no words")? + 1..].iter();
    let behind: Vec<u32> = behind.map(|word| word.word).take(9).collect();
    let [a, b] = status;
    let wanted = [
        0x0801_0e03,
        caches,
        a,
        b,
        0x0801_0e02,
        0x701,
        0x4800_0000,
        0x701,
        0x0801_0e01,
    ];
    same("behind them", hex(&behind), hex(&wanted))
}

fn hex(words: &[u32]) -> String {
    format!("{words:08x?}")
}

/// A stream full of `marker`.
fn marked(marker: u32, units: usize) -> Stream {
    let mut stream = Stream::new();
    for _ in 0..units {
        stream.raw(&[NOP, marker]);
    }
    stream
}

/// The marker of a job, which must be the same in all of its words.
fn marker_of(job: &Job) -> Result<u32> {
    let words = job.own_words();
    let marker = words.get(1).copied().context("no marker")?;
    let is_one = words.chunks(2).all(|unit| unit == [NOP, marker]);
    ensure!(is_one, "job {:#x} has words of others", job.number);
    Ok(marker)
}

/// After the ring has wrapped, the file shows the newest jobs as a whole, without overlap, and no overwritten jobs.
fn gone_round(core: &Core) -> Result<()> {
    let bench = Bench::of(core)?;
    const UNITS: usize = 9000;
    const COMMITS: u32 = 40;
    for marker in 0..COMMITS {
        bench.run(&marked(marker, UNITS))?;
    }
    let jobs = own_jobs(core.place)?;
    let markers = jobs.iter().map(marker_of).collect::<Result<Vec<u32>>>()?;
    let first = markers.first().copied().context("nothing")?;
    same("which", markers.clone(), (first..COMMITS).collect())?;
    let all = read()?;
    let bytes: usize = all
        .iter()
        .filter(|job| job.core == core.place)
        .map(|job| 4 * job.count)
        .sum();
    println!("# {} of {COMMITS} jobs, {bytes} bytes", jobs.len());
    // Another job would not fit.
    ensure!(
        bytes <= RING && bytes + 2 * 8 * UNITS + 4096 > MOST,
        "{bytes} bytes"
    );
    for (number, job) in jobs.iter().enumerate() {
        same("words", job.words.len(), job.count)?;
        let end = job.address + 4 * job.count as u32;
        for other in &jobs[number + 1..] {
            let other_end = other.address + 4 * other.count as u32;
            ensure!(
                end <= other.address || other_end <= job.address,
                "they overlap"
            );
        }
    }
    Ok(())
}

/// While words are overwritten, a reader sees all words of a job or none, and the read ends.
fn while_written(core: &Core) -> Result<()> {
    let bench = Bench::of(core)?;
    let is_over = AtomicBool::new(false);
    let (mut jobs_seen, mut gone, mut longest) = (0, 0, Duration::ZERO);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<u32> {
            // Larger than the earlier markers.
            let mut marker = 1000;
            while !is_over.load(Ordering::Relaxed) {
                bench.commit(&marked(marker, 4000))?;
                marker += 1;
            }
            bench.paint.device().stall()?;
            Ok(marker - 1000)
        });
        let begun = Instant::now();
        let looked = (|| -> Result<()> {
            while begun.elapsed() < Duration::from_secs(3) || jobs_seen < 20 {
                let now = Instant::now();
                let jobs = own_jobs(core.place)?;
                longest = longest.max(now.elapsed());
                let mut last = None;
                for job in &jobs {
                    let marker = marker_of(job)?;
                    ensure!(last < Some(marker), "{marker:#x} behind {last:?}");
                    last = Some(marker);
                    gone += u32::from(job.is_gone);
                    same("whole", job.is_gone || job.words.len() == job.count, true)?;
                    jobs_seen += 1;
                }
            }
            Ok(())
        })();
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().expect("the writer")?;
        looked?;
        println!("# {written} jobs written, {jobs_seen} read, {gone} of them gone meanwhile, {longest:?} at most");
        ensure!(written > 40, "{written} jobs do not go round");
        Ok(())
    })
}

/// Of a job that was dropped because it hung the core, the file shows only the words that led the front end around it.
fn dropped(core: &Core) -> Result<()> {
    const BAD: u32 = 0x0bad_c0de;
    let bench = Bench::of(core)?;
    bench.run(&marked(1, 4))?;
    let control = Control::open_core(core.number)?;
    let hang = control.arm(fault::HANG_AT_COLOUR, BAD);
    bench.commit(&bench.paint.fill_all(BAD))?;
    // STALL returns after the reset. Other tests check its status.
    let _ = bench.paint.device().stall();
    drop(hang);
    let id = std::process::id() as i32;
    let mut jobs = read()?;
    jobs.retain(|job| job.core == core.place && job.process == id);
    let job = jobs.iter().rev().find(|job| job.words.len() < job.count);
    let job = job.context("no job was dropped")?;
    same("its own words", job.own_words(), vec![])?;
    let target = job.words.get(1).context("no words")?;
    let wanted = format!("to {:#010x}", job.words.get(2).context("no event")?.address);
    same("the first", target.text.trim(), wanted.as_str())?;
    let event = job
        .words
        .get(3)
        .map(|word| word.text.contains("GL.EVENT = "));
    same("an event", event, Some(true))
}

/// The same for a core for vector graphics, which has no ring.
fn vector() -> Result<()> {
    let Some(core) = vg::place()? else {
        return skip("no core for vector graphics");
    };
    let mut client = vg::Client::start()?;
    client.prove(0xff33_2211)?;
    let id = std::process::id() as i32;
    let mut jobs = read()?;
    jobs.retain(|job| job.core == core && job.process == id);
    let job = jobs.last().context("no job of this process")?;
    same("all of them", job.words.len(), job.count)?;
    let own = job.own_words();
    let drawing = client.drawing((0, 0), (vg::SIDE, vg::SIDE), 0xff33_2211);
    ensure!(
        own.windows(drawing.len()).any(|words| words == drawing),
        "the drawing is not in {own:x?}"
    );
    let colour = job
        .own()
        .filter(|word| word.text.trim() == "0xa02 colour")
        .last();
    same_word(
        "colour",
        colour.context("no colour")?.word,
        vg::abgr(0xff33_2211),
    )?;
    let last = job.words.iter().rev().nth(1).context("no end")?;
    ensure!(last.text.starts_with("END ") && !last.is_own, "{last:?}");
    let event = job
        .words
        .iter()
        .rev()
        .find(|word| word.text.contains("0xe01 event"));
    ensure!(
        event.is_some_and(|word| word.text.ends_with(" from PE")),
        "{event:?}"
    );
    client.close()
}

/// Fails unless `user` cannot open the file.
fn refused(user: u32) -> Result<()> {
    if user == 0 {
        let mut own = rustix::thread::capabilities(None)?;
        own.effective.remove(CapabilitySet::SYS_ADMIN);
        own.permitted.remove(CapabilitySet::SYS_ADMIN);
        own.inheritable = CapabilitySet::empty();
        rustix::thread::set_capabilities(None, own)?;
        // Other files of the directory stay readable.
        fs::read("/sys/kernel/debug/galcore/usage").context("usage")?;
    } else {
        become_user(user)?;
    }
    let error = fs::read(FILE).err().map(|error| error.kind());
    same(FILE, error, Some(ErrorKind::PermissionDenied))
}

fn others() -> Result<()> {
    for user in ["0", "1000"] {
        let output = system::again(&["--refused", user])?.output()?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "user {user}: {} {errors}",
            output.status
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["refused"])?;
        if let Some(user) = options.get("refused") {
            refused(user.parse()?)?;
            return Ok(true);
        }
        let cores = cores()?;
        let mut suite = Suite::new();
        for core in &cores {
            let name = |what: &str| format!("core {}: {what}", core.place);
            suite.test(
                name("what was committed is there, and decoded"),
                move || committed(core),
            );
            suite.test(name("the ring goes round"), move || gone_round(core));
            suite.test(name("it is read while it is written"), move || {
                while_written(core)
            });
        }
        for core in &cores {
            let name = format!("core {}: a job that was dropped", core.place);
            suite.test(name, move || dropped(core));
        }
        suite.test("vector graphics", vector);
        suite.test("only for CAP_SYS_ADMIN", others);
        suite.run()
    })
}
