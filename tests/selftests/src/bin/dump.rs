// SPDX-License-Identifier: GPL-2.0-only
//! The dump of a hang: what existing tools read in it, which users can read it, and which data it never contains.
//!
//! The module must not be loaded. Arguments: `[MODULE PARAMETERS...]`, with `gpuTimeout`.
//! With `--vector 1` in front of them, the test uses the vector graphics core.
//! With `--read FILE --user USER` instead, it prints whether that user can read the file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::become_user;
use galcore_client::uapi::Pool;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::etdump;
use galcore_selftests::etdump::Dump;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::hostile::here;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::Module;
use galcore_selftests::vg;
use gpu_control::fault;
use gpu_control::Board;

/// Milliseconds; longer than anything takes.
const LONG: u32 = 20_000;

/// The contents of the innocent process's memory, and of its commands.
const SECRET: u32 = 0x5ec2_e701;
const SECRET_COLOUR: u32 = 0x5ec2_e702;

/// The contents of the guilty process's memory, and of its commands.
const KNOWN: u32 = 0xc0ff_ee42;
const COLOUR: u32 = 0x0bad_c0de;

/// Register offsets.
const CHIP_IDENTITY: u32 = 0x018;
const CHIP_MODEL: u32 = 0x020;
const CHIP_REVISION: u32 = 0x024;
const ACKNOWLEDGE: u32 = 0x010;

/// A process that draws on command.
#[derive(Default)]
struct Culprit {
    paint: Option<Paint>,
    signal: i32,
}

impl Culprit {
    fn answer(&mut self, words: &[&str]) -> Result<String> {
        if let ["start", pool, width, height] = *words {
            let client = Client::start()?;
            let pool = match pool {
                "virtual" => Pool::VIRTUAL,
                _ => Pool::DEFAULT,
            };
            let surface = client.create_surface_in(width.parse()?, height.parse()?, pool)?;
            surface.set_all(KNOWN);
            let paint = Paint { client, surface };
            self.signal = paint.device().create_signal(false)?;
            let answer = format!(
                "{} {}",
                paint.surface.location.address,
                paint.surface.memory.len()
            );
            self.paint = Some(paint);
            return Ok(answer);
        }
        let paint = self.paint.as_mut().context("not started")?;
        match *words {
            // Commits a fill of a cell; answers its words.
            ["fill", number] => {
                let stream = paint.fill_cell(number.parse()?, COLOUR);
                let mut queue = Queue::new();
                paint.commit(&stream, queue.signal(self.signal))?;
                let words: Vec<String> = stream.words().iter().map(u32::to_string).collect();
                Ok(words.join(" "))
            }
            ["wait"] => {
                paint.device().wait_signal(self.signal, LONG)?;
                Ok("done".to_string())
            }
            _ => bail!("{words:?}"),
        }
    }
}

/// Another process that hangs the core, with a surface in a given pool.
struct Guilty {
    other: Other,
    address: u32,
    bytes: usize,
}

impl Guilty {
    fn start(pool: &str, width: u32, height: u32) -> Result<Self> {
        let mut other = Other::start(Abi::own())?;
        let answer = other.ask(&format!("start {pool} {width} {height}"))?;
        let (address, bytes) = answer.split_once(' ').context("two numbers")?;
        // Its context is loaded, and it has drawn.
        let guilty = Self {
            other,
            address: address.parse()?,
            bytes: bytes.parse()?,
        };
        Ok(guilty)
    }

    /// Hangs the core with a fill; returns the fill's words after the core has been reset.
    fn hang(&mut self, control: &Control) -> Result<Vec<u32>> {
        let before = control.counters().resets;
        control.write(fault::HANG_AT_DRAW, 1);
        let words = self.other.ask("fill 1")?;
        eventually("the core is reset", Duration::from_secs(10), || {
            Ok(control.counters().resets > before)
        })?;
        same("wait", self.other.ask("wait")?.as_str(), "done")?;
        words.split(' ').map(|word| Ok(word.parse()?)).collect()
    }
}

/// Waits for a dump, which must be the only one.
fn the_dump() -> Result<(PathBuf, Dump)> {
    let mut found = Vec::new();
    eventually("there is a dump", Duration::from_secs(10), || {
        found = etdump::offered()?;
        Ok(!found.is_empty())
    })?;
    same("dumps", found.len(), 1)?;
    let data = found.remove(0);
    let file = fs::read(&data)?;
    Ok((data, Dump::parse(file)?))
}

/// Like [`the_dump`]; deletes the dump.
fn take_dump() -> Result<Dump> {
    let (data, dump) = the_dump()?;
    etdump::forget(&data)?;
    gone()?;
    Ok(dump)
}

fn gone() -> Result<()> {
    eventually("the dump is gone", Duration::from_secs(10), || {
        Ok(etdump::offered()?.is_empty())
    })
}

/// Checks that no dump appears.
fn none() -> Result<()> {
    thread::sleep(here(Duration::from_millis(500))?);
    same("dumps", etdump::offered()?.len(), 0)
}

/// The module, loaded with given parameters until this is dropped. Deletes earlier dumps first.
struct Loaded;

impl Loaded {
    fn new(module: &Module, changes: &[&str]) -> Result<Self> {
        for data in etdump::offered()? {
            etdump::forget(&data)?;
        }
        gone()?;
        module.with(changes).load_or_fail()?;
        system::stay_awake()?;
        Ok(Self)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // The driver may still be releasing objects of exited processes.
        let unloaded = eventually("rmmod", Duration::from_secs(10), || {
            Ok(Module::unload().is_ok())
        });
        if let Err(error) = unloaded {
            println!("# {error:#}");
        }
    }
}

/// The model and the revision in the registers.
fn registers_of(board: Board) -> (u32, u32) {
    match board {
        Board::Dove => (0x600, 0x19),
        Board::Gc2000 => (0x2000, 0x5108),
        Board::Gc880 => (0x880, 0x5106),
        Board::Gc320 => (0x320, 0x5007),
        Board::Gc3000 => (0x2000, 0xffff_5450),
        Board::Gc320Qp => (0x320, 0x5303),
        _ => (0, 0),
    }
}

/// A hang between jobs of innocent processes, with the guilty process's surface in `pool`: what tools read.
fn readable(module: &Module, pool: &str) -> Result<()> {
    let _loaded = Loaded::new(module, &[])?;
    let control = &Control::open()?;
    let mut innocent = Paint::new()?;
    innocent.surface.set_all(SECRET);
    innocent.run(&innocent.fill_cell(1, SECRET_COLOUR))?;
    let mut guilty = Guilty::start(pool, 256, 128)?;
    let id = guilty.other.id();
    // When the core hangs, the ring also contains jobs of other processes.
    let before = control.counters().resets;
    control.write(fault::HANG_AT_DRAW, 1);
    let words = guilty.other.ask("fill 1")?;
    let words: Vec<u32> = words.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    eventually("it hangs", Duration::from_secs(10), || {
        Ok(control.front_end() == Some(gpu_control::FrontEndState::Hung))
    })?;
    let position = control.read(gpu_control::FE_ADDRESS);
    for number in 2..5 {
        let stream = innocent.fill_cell(number, SECRET_COLOUR);
        innocent.commit(&stream, &mut Queue::new())?;
    }
    innocent.client.finish()?;
    same("resets", control.counters().resets - before, 1)?;
    let dump = take_dump()?;
    println!("# {} bytes, {:?}", dump.file.len(), dump.text);
    // The process.
    same("guilty", dump.line("guilty")?, "a process")?;
    same("pid", dump.line("pid")?, id.to_string().as_str())?;
    same("comm", dump.line("comm")?, "dump")?;
    same("interface", dump.line("interface")?, Abi::own().name)?;
    // The core.
    let board = control.board().context("which board")?;
    let (model, revision) = registers_of(board);
    same_word("identity", dump.register(CHIP_IDENTITY)?, 0)?;
    same_word("model", dump.register(CHIP_MODEL)?, model)?;
    same_word("revision", dump.register(CHIP_REVISION)?, revision)?;
    ensure!(
        !dump.registers.contains_key(&ACKNOWLEDGE),
        "it has acknowledged"
    );
    // The position.
    same_word("position", dump.position()?, position)?;
    let marked = dump.marked()?;
    same("what is marked", marked.kind, etdump::COMMANDS)?;
    let marked_words = marked.words();
    same(
        "the guilty commands",
        &marked_words[..words.len()],
        &words[..],
    )?;
    let at = (u64::from(position) - marked.address) as usize / 4;
    ensure!(at > 0 && words[at] != 0, "{at}: {words:x?}");
    let mut rings = dump.of(etdump::RING);
    let ring = rings.next().context("no ring")?;
    same("rings", rings.count(), 0)?;
    for (index, &word) in words.iter().enumerate() {
        let address = marked.address as u32 + 4 * index as u32;
        same("the ring's word", ring.word_at(address), Some(word))?;
    }
    // The guilty process's memory.
    let address = u64::from(guilty.address);
    let buffer = dump
        .of(etdump::BUFFER)
        .find(|object| object.address == address)
        .context("not its surface")?;
    same("bytes", buffer.bytes.len(), guilty.bytes)?;
    let known = buffer.words().iter().filter(|&&word| word == KNOWN).count();
    same("known words", known, guilty.bytes / 4)?;
    let is_version_1 = !matches!(board, Board::Gc3000 | Board::Gc320Qp);
    let compared = dump.check_mmu()?;
    println!("# {compared} pages compared");
    if pool == "virtual" && is_version_1 {
        ensure!(compared >= guilty.bytes / 4096, "{compared} pages compared");
    }
    // No memory of other processes.
    ensure!(dump.count(COLOUR) > 0, "not its colour");
    same("the innocent's memory", dump.count(SECRET), 0)?;
    same("the innocent's commands", dump.count(SECRET_COLOUR), 0)?;
    innocent.close()
}

/// The sizes of memory in the dump of a process with a surface of 2 MiB, at a dump level.
fn memory_at(module: &Module, level: &str) -> Result<Option<Vec<usize>>> {
    let _loaded = Loaded::new(module, &[level])?;
    let control = &Control::open()?;
    let mut guilty = Guilty::start("virtual", 1024, 512)?;
    guilty.hang(control)?;
    if level == "stuckDump=0" {
        none()?;
        return Ok(None);
    }
    let dump = take_dump()?;
    let marked = dump.marked()?;
    same("what is marked", marked.kind, etdump::COMMANDS)?;
    let memory = dump.of(etdump::BUFFER);
    Ok(Some(memory.map(|object| object.bytes.len()).collect()))
}

/// Files of fault injection, with values that make all non-waiting allocations fail.
const INJECTION: [(&str, &str); 8] = [
    ("ignore-gfp-wait", "Y"),
    ("ignore-gfp-highmem", "N"),
    ("min-order", "0"),
    ("task-filter", "N"),
    ("verbose", "0"),
    ("interval", "1"),
    ("times", "-1"),
    ("probability", "100"),
];

/// A hang while no memory is free.
fn low_memory(module: &Module) -> Result<()> {
    const FOLDER: &str = "/sys/kernel/debug/fail_page_alloc";
    let _loaded = Loaded::new(module, &[])?;
    let control = &Control::open()?;
    let mut innocent = Paint::new()?;
    innocent.prove(1)?;
    let mut guilty = Guilty::start("default", 256, 128)?;
    let mut log = KernelLog::from_now()?;
    for (file, value) in INJECTION {
        if fs::write(format!("{FOLDER}/{file}"), value).is_err() {
            return skip("this kernel cannot make allocations fail");
        }
    }
    let hung = guilty.hang(control);
    fs::write(format!("{FOLDER}/probability"), "0")?;
    hung?;
    let mut lines = Vec::new();
    eventually("a line says so", Duration::from_secs(10), || {
        lines.extend(log.lines()?);
        let told = |line: &&system::LogLine| line.text.contains("no memory for a dump");
        Ok(lines.iter().filter(told).count() == 1)
    })?;
    none()?;
    innocent.prove(2)?;
    innocent.close()
}

/// Checks that unprivileged users cannot read the dump.
fn others_cannot_read(data: &PathBuf) -> Result<()> {
    let mode = fs::metadata(data)?.permissions().mode();
    same("mode", mode & 0o777, 0o600)?;
    let path = data.to_str().context("a name")?;
    let read = |user: u32| -> Result<String> {
        let user = format!("{user}");
        let output = system::again(&["--read", path, "--user", &user])?.output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_string())
    };
    same("by another", read(1000)?.as_str(), "permission denied")?;
    same("by root", read(0)?.as_str(), "read")
}

/// The minimum time between two dumps of a process, plus a margin.
const AGAIN: Duration = Duration::from_secs(11);

/// Waits until there are exactly `count` dumps.
fn the_dumps(count: usize) -> Result<Vec<(PathBuf, Dump)>> {
    let mut found = Vec::new();
    eventually("there are the dumps", Duration::from_secs(10), || {
        found.clear();
        for data in etdump::offered()? {
            // A newer dump may replace it meanwhile.
            let Ok(file) = fs::read(&data) else {
                return Ok(false);
            };
            found.push((data, file));
        }
        Ok(found.len() == count)
    })?;
    let parse = |(data, file)| Ok((data, Dump::parse(file)?));
    found.into_iter().map(parse).collect()
}

/// The processes of the dumps, sorted.
fn owners(dumps: &[(PathBuf, Dump)]) -> Result<Vec<i32>> {
    let pid = |(_, dump): &(PathBuf, Dump)| Ok(dump.line("pid")?.parse()?);
    let mut pids = dumps.iter().map(pid).collect::<Result<Vec<i32>>>()?;
    pids.sort();
    Ok(pids)
}

/// One dump per process, three in all, readable only by root. A later hang of the same process replaces its dump.
fn of_each_process(module: &Module) -> Result<()> {
    let _loaded = Loaded::new(module, &[])?;
    let control = &Control::open()?;
    let mut culprits = Vec::new();
    for _ in 0..4 {
        culprits.push(Guilty::start("default", 256, 128)?);
    }
    let ids: Vec<i32> = culprits.iter().map(|guilty| guilty.other.id()).collect();
    let begun = Instant::now();
    let mut first = String::new();
    for count in 1..=3 {
        culprits[count - 1].hang(control)?;
        let dumps = the_dumps(count)?;
        same("whose dumps", owners(&dumps)?, ids[..count].to_vec())?;
        for (data, dump) in &dumps {
            others_cannot_read(data)?;
            same("user", dump.line("user")?, "0")?;
        }
        if count == 1 {
            first = dumps[0].1.line("job")?.to_string();
        }
    }
    // A hang soon after another does not replace the dump of the process. A busy host may be too slow for this check.
    culprits[0].hang(control)?;
    let of_first = |dumps: &[(PathBuf, Dump)]| -> Result<String> {
        let name = ids[0].to_string();
        for (_, dump) in dumps {
            if dump.line("pid")? == name {
                return Ok(dump.line("job")?.to_string());
            }
        }
        bail!("none of the first one's")
    };
    if begun.elapsed() < AGAIN - Duration::from_secs(2) {
        thread::sleep(here(Duration::from_millis(500))?);
        same(
            "the first one's job",
            of_first(&the_dumps(3)?)?,
            first.clone(),
        )?;
    }
    thread::sleep(AGAIN);
    culprits[0].hang(control)?;
    eventually("there is a newer one", Duration::from_secs(10), || {
        Ok(of_first(&the_dumps(3)?)? != first)
    })?;
    // The dump of a fourth process replaces the oldest one, that of the second process.
    culprits[3].hang(control)?;
    let wanted = vec![ids[0], ids[2], ids[3]];
    eventually("the oldest one's is gone", Duration::from_secs(10), || {
        Ok(owners(&the_dumps(3)?)? == wanted)
    })?;
    // Each dump can be deleted separately.
    for (data, _) in the_dumps(3)? {
        etdump::forget(&data)?;
    }
    gone()
}

/// A process that is killed during its hang still has a dump, without its memory.
fn killed(module: &Module) -> Result<()> {
    let _loaded = Loaded::new(module, &[])?;
    let control = &Control::open()?;
    let mut innocent = Paint::new()?;
    innocent.prove(1)?;
    let mut guilty = Guilty::start("default", 256, 128)?;
    let id = guilty.other.id();
    let mut log = KernelLog::from_now()?;
    control.write(fault::HANG_AT_DRAW, 1);
    let words = guilty.other.ask("fill 1")?;
    let words: Vec<u32> = words.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    guilty.other.kill()?;
    let dump = take_dump()?;
    same("guilty", dump.line("guilty")?, "a process that has ended")?;
    // The name of the process while it lived.
    same("pid", dump.line("pid")?, id.to_string().as_str())?;
    same("comm", dump.line("comm")?, "dump")?;
    let name = format!("process {id} (dump) has hung the GPU (core 0, time 1, user 0)");
    let mut lines = Vec::new();
    eventually("the log names it", Duration::from_secs(10), || {
        lines.extend(log.lines()?);
        Ok(lines.iter().any(|line| line.text.contains(&name)))
    })
    .with_context(|| format!("{lines:#?}"))?;
    let marked = dump.marked()?.words();
    same("commands", marked.get(..words.len()), Some(&words[..]))?;
    same("memory", dump.of(etdump::BUFFER).count(), 0)?;
    same("its memory", dump.count(KNOWN), 0)?;
    innocent.prove(2)?;
    innocent.close()
}

/// A dump outlives the process and the module.
fn outlives(module: &Module) -> Result<()> {
    {
        let _loaded = Loaded::new(module, &[])?;
        let control = &Control::open()?;
        let mut guilty = Guilty::start("virtual", 256, 128)?;
        guilty.hang(control)?;
        // While the process lives, so that the dump names it.
        the_dump()?;
        drop(guilty);
    }
    ensure!(!Module::is_loaded(), "it is still loaded");
    let dump = take_dump()?;
    same("comm", dump.line("comm")?, "dump")
}

/// A process that hangs the vector graphics core with a drawing. It answers the address of its target.
struct VectorGuilty(vg::Client);

impl VectorGuilty {
    fn answer(&mut self, words: &[&str]) -> Result<String> {
        let client = &mut self.0;
        match *words {
            ["target"] => Ok(client.target.address.to_string()),
            // Sends a drawing of `colour`; answers its words.
            ["draw", colour] => {
                let context = client.put_static(0, &vg::state(0xa34, 0));
                let words = client.drawing((0, 0), (8, 8), colour.parse()?);
                let buffer = client.put_dynamic(0x400, &words, 1);
                let done = client.signals[1];
                let tasks = vg::Tasks::default().with(vg::PIXEL, vg::signal(done));
                same(
                    "status",
                    client.send(&[(context, 0), (buffer, 1)], &tasks)?,
                    vg::OK,
                )?;
                let words: Vec<String> = words.iter().map(u32::to_string).collect();
                Ok(words.join(" "))
            }
            ["wait"] => {
                let done = client.signals[1];
                client.device.wait_signal(done, LONG)?;
                Ok("done".to_string())
            }
            _ => bail!("{words:?}"),
        }
    }
}

/// A hang of the vector graphics core between jobs of an innocent process.
fn vector(module: &Module, changes: &[&str]) -> Result<()> {
    let _loaded = Loaded::new(module, changes)?;
    let control = &vg::control()?;
    let number = vg::place()?.context("no core")?;
    let mut innocent = vg::Client::start()?;
    innocent.commands.memory.fill(SECRET);
    innocent.prove(SECRET_COLOUR)?;
    let mut guilty = Other::start(Abi::own())?;
    let id = guilty.id();
    let target: u32 = guilty.ask("vector target")?.parse()?;
    let before = control.counters().resets;
    control.write(fault::HANG_AT_DRAW, 1);
    let words = guilty.ask(&format!("vector draw {COLOUR}"))?;
    let words: Vec<u32> = words.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    eventually("the core is reset", Duration::from_secs(10), || {
        Ok(control.counters().resets > before)
    })?;
    same("wait", guilty.ask("vector wait")?.as_str(), "done")?;
    innocent.prove(SECRET_COLOUR)?;
    let dump = take_dump()?;
    println!("# {} bytes, {:?}", dump.file.len(), dump.text);
    same("guilty", dump.line("guilty")?, "a process")?;
    same("pid", dump.line("pid")?, id.to_string().as_str())?;
    same("comm", dump.line("comm")?, "dump")?;
    same("core", dump.line("core")?, number.to_string().as_str())?;
    let identity = vg::Client::start()?.device.identity()?;
    same_word("model", dump.register(CHIP_MODEL)?, identity.chip_model)?;
    ensure!(
        !dump.registers.contains_key(&ACKNOWLEDGE),
        "it has acknowledged"
    );
    // The core stopped in the guilty process's commands, and the dump contains no other commands.
    let marked = dump.marked()?;
    same("what is marked", marked.kind, etdump::COMMANDS)?;
    let all = marked.words();
    ensure!(
        all.windows(words.len()).any(|some| some == words),
        "not its commands: {all:x?}"
    );
    let ring = dump.of(etdump::RING).next().context("no ring")?;
    let is_word = |word: &&u32| **word != 0;
    let (all, there) = (
        all.iter().filter(is_word).count(),
        ring.words().iter().filter(is_word).count(),
    );
    same("words of the memory for jobs", there, all)?;
    same("the innocent's memory", dump.count(SECRET), 0)?;
    same(
        "the innocent's commands",
        dump.count(vg::abgr(SECRET_COLOUR)),
        0,
    )?;
    let found = dump
        .of(etdump::BUFFER)
        .find(|object| object.address == u64::from(target));
    if changes.contains(&"stuckDump=1") {
        same("memory", dump.of(etdump::BUFFER).count(), 0)?
    } else {
        let buffer = found.context("not its target")?;
        ensure!(
            buffer.bytes.len() as u32 >= vg::STRIDE * vg::SIDE,
            "{} bytes",
            buffer.bytes.len()
        );
    }
    innocent.close()
}

/// The core is unbound repeatedly while the driver may be writing a dump of it.
fn vector_goes(module: &Module) -> Result<()> {
    let _loaded = Loaded::new(module, &[])?;
    let name = vg::name()?;
    for round in 0..4 {
        let control = &vg::control()?;
        let mut guilty = Other::start(Abi::own())?;
        let before = control.counters().resets;
        control.write(fault::HANG_AT_DRAW, 1);
        guilty.ask(&format!("vector draw {COLOUR}"))?;
        eventually("the core is reset", Duration::from_secs(10), || {
            Ok(control.counters().resets > before)
        })?;
        guilty.kill()?;
        // After each bind, a dump is due.
        if round % 2 == 1 {
            the_dump()?;
        }
        system::to_driver("unbind", &name)?;
        system::to_driver("bind", &name)?;
        let mut client = vg::Client::start()?;
        client.prove(round)?;
        client.close()?;
        for data in etdump::offered()? {
            etdump::forget(&data)?;
        }
        gone()?;
    }
    Ok(())
}

/// With the vendor's parameter `recovery=0`, the driver resets no core.
fn not_recovered(module: &Module) -> Result<()> {
    let _loaded = Loaded::new(module, &["recovery=0"])?;
    let control = &vg::control()?;
    let before = control.counters().resets;
    {
        let mut guilty = Other::start(Abi::own())?;
        control.write(fault::HANG_AT_DRAW, 1);
        guilty.ask(&format!("vector draw {COLOUR}"))?;
        thread::sleep(Duration::from_secs(3));
        same("resets", control.counters().resets, before)?;
        guilty.kill()?;
    }
    none()
}

fn main() -> ExitCode {
    if let Some(code) = other::role(|_| {
        let mut vector = None;
        let mut culprit = Culprit::default();
        other::serve(|words| match words {
            ["vector", words @ ..] => {
                if vector.is_none() {
                    vector = Some(VectorGuilty(vg::Client::start()?));
                }
                vector.as_mut().context("none")?.answer(words)
            }
            _ => culprit.answer(words),
        })
    }) {
        return code;
    }
    harness::program(|| {
        let options = Options::parse(&["read", "user", "vector"])?;
        if let Some(file) = options.get("read") {
            let user = options.number("user", 0)?;
            if user != 0 {
                become_user(user).context("setuid")?;
            }
            match fs::read(file) {
                Ok(_) => println!("read"),
                Err(error) => println!("{}", error.kind()),
            }
            return Ok(true);
        }
        let module = &Module::from_words(&options.rest)?;
        let mut suite = Suite::new();
        if !etdump::is_possible() {
            suite.test("a kernel without dumps does without", move || {
                let _loaded = Loaded::new(module, &[])?;
                let control = &Control::open()?;
                Guilty::start("default", 256, 128)?.hang(control)?;
                none()
            });
            return suite.run();
        }
        if options.get("vector").is_some() {
            suite.test("what tools find", move || vector(module, &[]));
            suite.test("without memory", move || vector(module, &["stuckDump=1"]));
            suite.test("the core goes meanwhile", move || vector_goes(module));
            suite.test("no recovery, no dump", move || not_recovered(module));
            return suite.run();
        }
        for pool in ["default", "virtual"] {
            let name = format!("what tools find, with memory in the {pool} pool");
            suite.test(name, move || readable(module, pool));
        }
        suite.test("levels", move || {
            same("0", memory_at(module, "stuckDump=0")?, None)?;
            same("1", memory_at(module, "stuckDump=1")?, Some(Vec::new()))?;
            let largest = |sizes: Option<Vec<usize>>| sizes.into_iter().flatten().max();
            same(
                "2",
                largest(memory_at(module, "stuckDump=2")?),
                Some(1 << 20),
            )?;
            same(
                "3",
                largest(memory_at(module, "stuckDump=3")?),
                Some(2 << 20),
            )?;
            same(
                "4",
                largest(memory_at(module, "stuckDump=4")?),
                Some(2 << 20),
            )
        });
        suite.test("one of each process, for root alone", move || {
            of_each_process(module)
        });
        suite.test(
            "without memory there is none, and nothing else is missed",
            move || low_memory(module),
        );
        suite.test("of who is killed meanwhile", move || killed(module));
        suite.test("it outlives the module", move || outlives(module));
        suite.run()
    })
}
