// SPDX-License-Identifier: GPL-2.0-only
//! Hostile and careless programs on the two DRM nodes of galcore: invalid relocations and counts, objects that are
//! closed while the GPU uses them, dma-bufs in cycles, waits that must end, and cores that are unbound.
//!
//! usage: `drm-hostile [TEXT]` (runs only the checks whose names contain the text)

use std::cell::RefCell;
use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::abi::Abi;
use galcore_client::device::Device;
use galcore_client::device::Memory;
use galcore_client::draw::Engine;
use galcore_client::sys;
use galcore_client::sys::Region;
use galcore_client::uapi::Status;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::etnaviv;
use galcore_selftests::etnaviv::long;
use galcore_selftests::etnaviv::Buffer;
use galcore_selftests::etnaviv::Etnaviv;
use galcore_selftests::etnaviv::Request;
use galcore_selftests::etnaviv::DRIVER;
use galcore_selftests::etnaviv::GEM_USERPTR;
use galcore_selftests::etnaviv::IN;
use galcore_selftests::etnaviv::IN_OUT;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::hostile::gaps;
use galcore_selftests::system;
use galcore_selftests::system::Module;
use galcore_selftests::system::ProcGc;
use gpu_control::fault;
use rustix::event::poll;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::fs::fcntl_getfl;
use rustix::fs::OFlags;

/// Minor versions, which distinguish the two nodes.
const VIVANTE_MINOR: u32 = 0;
const ETNAVIV_MINOR: u32 = 4;

const VERSION: u32 = 0x00;
const GEM_CLOSE: u32 = 0x09;
const GEM_FLINK: u32 = 0x0a;
const GEM_OPEN: u32 = 0x0b;
const PRIME_HANDLE_TO_FD: u32 = 0x2d;
const PRIME_FD_TO_HANDLE: u32 = 0x2e;
const CHANGE_HANDLE: u32 = 0xd2;
/// ioctls of etnaviv.
const GET_PARAM: u32 = DRIVER;
const GEM_NEW: u32 = DRIVER + 2;
const GEM_INFO: u32 = DRIVER + 3;
const GEM_CPU_PREP: u32 = DRIVER + 4;
const GEM_CPU_FINI: u32 = DRIVER + 5;
const GEM_SUBMIT: u32 = DRIVER + 6;
const WAIT_FENCE: u32 = DRIVER + 7;
const GEM_WAIT: u32 = DRIVER + 9;
const PM_QUERY_DOM: u32 = DRIVER + 10;
const PM_QUERY_SIG: u32 = DRIVER + 11;
/// ioctls of the vendor's driver.
const VIV_CREATE: u32 = DRIVER;
const VIV_LOCK: u32 = DRIVER + 1;
const VIV_UNLOCK: u32 = DRIVER + 2;
const VIV_CACHE: u32 = DRIVER + 3;
const VIV_ATTACH_AUX: u32 = DRIVER + 8;
const VIV_REF_NODE: u32 = DRIVER + 9;

const CLOEXEC: u32 = 0o2000000;
const RDWR: u32 = 2;
const PREP_READ: u32 = 1;
const PREP_WRITE: u32 = 2;
const PREP_NOSYNC: u32 = 4;
const FENCE_FD_IN: u32 = 2;
const FENCE_FD_OUT: u32 = 4;
const NOP: u32 = 3 << 27;

/// A generation whose WRAP_USER_MEMORY accepts dma-bufs.
const WITH_DMA_BUFS: &str = "6.4.11";

/// First arguments of other processes of this program.
const IMPORTER: &str = "--import";
const WAITER: &str = "--wait";
const HEIR: &str = "--inherited";
const SERVED: &str = "--served";
const ASKING: &str = "--asking";
const SIGNALED: &str = "--signaled";
const CARELESS: &str = "--careless";
const FAILING: &str = "--failing";
const NAMED: &str = "--named";
const MANY: &str = "--many";
const LONG: &str = "--long";
const MEMBER: &str = "--member";

const WIDTH: u32 = 64;
const HEIGHT: u32 = 64;
const BYTES: u32 = WIDTH * HEIGHT * 4;
const ALL: Rect = Rect::new(0, 0, WIDTH, HEIGHT);
const COLOUR: u32 = 0x1234_5678;

/// How long the GPU is stopped in tests of waits, and the longest time that does not count as a wait.
const HELD: Duration = Duration::from_secs(4);
const SOON: Duration = Duration::from_secs(2);

/// The errno of a failed `ioctl(2)`.
fn errno(what: &str, answer: std::io::Result<()>) -> Result<i32> {
    match answer {
        Ok(()) => bail!("{what} has succeeded"),
        Err(error) => error.raw_os_error().context("no errno"),
    }
}

fn refused(what: &str, answer: std::io::Result<()>, wanted: i32) -> Result<()> {
    same(what, errno(what, answer)?, wanted)
}

/// The node whose driver has this minor version.
fn node(minor: u32) -> Result<PathBuf> {
    for number in 128..136 {
        let path = PathBuf::from(format!("/dev/dri/renderD{number}"));
        let Ok(file) = open(&path) else {
            continue;
        };
        let mut version = Request::new(IN_OUT, VERSION, [0; 9]);
        version.send(&file).context("VERSION")?;
        if version.words[1] == minor {
            return Ok(path);
        }
    }
    bail!("no node of version 1.{minor}")
}

fn open(path: &Path) -> Result<File> {
    let file = File::options().read(true).write(true).open(path);
    file.with_context(|| path.display().to_string())
}

fn close(file: &File, handle: u32) -> std::io::Result<()> {
    Request::new(IN, GEM_CLOSE, [handle, 0]).send(file)
}

fn create(file: &File, bytes: u32) -> Result<u32> {
    let mut new = Request::new(IN_OUT, GEM_NEW, [bytes, 0, 0x2_0000, 0]);
    new.send(file).context("GEM_NEW")?;
    Ok(new.words[3])
}

fn offset(file: &File, handle: u32) -> std::io::Result<u64> {
    let mut info = Request::new(IN_OUT, GEM_INFO, [handle, 0, 0, 0]);
    info.send(file)?;
    Ok(u64::from(info.words[3]) << 32 | u64::from(info.words[2]))
}

fn export(file: &File, handle: u32, flags: u32) -> Result<OwnedFd> {
    let mut export = Request::new(IN_OUT, PRIME_HANDLE_TO_FD, [handle, flags, 0]);
    export.send(file).context("PRIME_HANDLE_TO_FD")?;
    Ok(sys::take_descriptor(export.words[2].into())?)
}

fn import(file: &File, descriptor: i32) -> std::io::Result<u32> {
    let mut import = Request::new(IN_OUT, PRIME_FD_TO_HANDLE, [0, 0, descriptor as u32]);
    import.send(file)?;
    Ok(import.words[0])
}

/// The parts of a SUBMIT.
#[derive(Clone, Default)]
struct Submit {
    core: u32,
    entry: u32,
    objects: Vec<[u32; 4]>,
    relocations: Vec<[u32; 6]>,
    stream: Vec<u32>,
    flags: u32,
    fence: u32,
    /// The upper halves of the addresses of its arrays.
    high: u32,
}

impl Submit {
    fn nops(core: u32) -> Self {
        Self {
            core,
            stream: vec![NOP, 0, NOP, 0],
            ..Self::default()
        }
    }

    fn with(core: u32, handle: u32) -> Self {
        Self {
            objects: vec![[3, handle, 0, 0]],
            ..Self::nops(core)
        }
    }

    fn words(&self) -> [u32; 18] {
        let at = |address: usize| [address as u32, self.high];
        let mut words = [0; 18];
        words[1] = self.core;
        words[2] = self.entry;
        words[3] = self.objects.len() as u32;
        words[4] = self.relocations.len() as u32;
        words[5] = self.stream.len() as u32 * 4;
        words[6..8].copy_from_slice(&at(self.objects.as_ptr() as usize));
        words[8..10].copy_from_slice(&at(self.relocations.as_ptr() as usize));
        words[10..12].copy_from_slice(&at(self.stream.as_ptr() as usize));
        words[12] = self.flags;
        words[13] = self.fence;
        words
    }

    /// Sends the SUBMIT; returns the number of its fence, and the field of the fence's descriptor.
    fn send(&self, file: &File) -> std::io::Result<(u32, u32)> {
        let mut submit = Request::new(IN_OUT, GEM_SUBMIT, self.words());
        submit.send(file)?;
        Ok((submit.words[0], submit.words[13]))
    }
}

/// CPU_PREP of `handle` until the absolute time `moment`.
fn prepare(file: &File, handle: u32, access: u32, moment: [u32; 4]) -> std::io::Result<()> {
    let [a, b, c, d] = moment;
    Request::new(IN, GEM_CPU_PREP, [handle, access, a, b, c, d]).send(file)
}

/// The absolute time `seconds` seconds from now.
fn later(seconds: u64) -> [u32; 4] {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let [low, high] = long(now.tv_sec as u64 + seconds);
    [low, high, 0, 0]
}

struct Bench {
    control: Control,
    etnaviv: Etnaviv,
    vivante: File,
    etnaviv_node: PathBuf,
    vivante_node: PathBuf,
    core: u32,
    engine: Engine,
}

impl Bench {
    fn new() -> Result<Self> {
        let (etnaviv_node, vivante_node) = (node(ETNAVIV_MINOR)?, node(VIVANTE_MINOR)?);
        let etnaviv = Etnaviv::open_node(&etnaviv_node)?;
        let (core, _) = *etnaviv.cores()?.first().context("no core")?;
        Ok(Self {
            control: Control::open()?,
            engine: etnaviv.engine(core)?,
            vivante: open(&vivante_node)?,
            etnaviv,
            etnaviv_node,
            vivante_node,
            core,
        })
    }

    fn file(&self) -> &File {
        self.etnaviv.file()
    }

    /// Fills a buffer with a colour; returns the number of its fence.
    fn fill(&self, buffer: &Buffer<'_>, colour: u32) -> Result<u32> {
        let mut stream = Stream::new();
        let target = buffer.at(0, WIDTH, HEIGHT);
        self.engine.fill(&mut stream, &target, ALL, colour);
        stream.flush(self.engine.pipe());
        self.etnaviv
            .submit(self.core, self.engine.pipe(), &stream, &[buffer])
    }

    /// Runs `work` while the GPU is stopped. The GPU continues after [`HELD`], or when `work` is done. Returns the
    /// duration of `work` too.
    fn held<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
        self.held_for(HELD, work)
    }

    fn held_for<T>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Duration)> {
        self.control.write(fault::HOLD, 1);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The driver's waits use the kernel's time, which continues when the host is busy.
                let (begin, kernels) = (Stopwatch::start(), Instant::now());
                while begin.elapsed() < limit
                    && kernels.elapsed() < 2 * limit
                    && !is_done.load(Ordering::Relaxed)
                {
                    std::thread::sleep(Duration::from_millis(10));
                }
                self.control.write(fault::HOLD, 0);
            });
            let begin = Stopwatch::start();
            let done = work();
            let took = begin.elapsed();
            is_done.store(true, Ordering::Relaxed);
            Ok((done?, took))
        })
    }

    fn works(&self) -> Result<()> {
        let buffer = self.etnaviv.create(BYTES)?;
        buffer.memory.fill(0);
        self.fill(&buffer, COLOUR)?;
        buffer.with_processor(|| same("a pixel", buffer.memory.read(BYTES as usize - 4), COLOUR))
    }
}

/// A 32-bit program may sign-extend a pointer to 64 bits. Only the lower half counts, as everywhere in the kernel.
fn extended_pointers(bench: &Bench) -> Result<()> {
    if cfg!(target_pointer_width = "64") {
        return skip("for 32-bit programs");
    }
    let high = Submit {
        high: u32::MAX,
        ..Submit::with(bench.core, create(bench.file(), 4096)?)
    };
    high.send(bench.file()).context("SUBMIT")?;
    close(bench.file(), high.objects[0][1])?;
    let mut new = Request::new(IN_OUT, VIV_CREATE, [4096, 0, 2, 0]);
    new.send(&bench.vivante).context("GEM_CREATE")?;
    let handle = new.words[3];
    let mut lock = Request::new(IN_OUT, VIV_LOCK, [handle, 1, 0, 0]);
    lock.send(&bench.vivante).context("GEM_LOCK")?;
    let mut clean = Request::new(IN, VIV_CACHE, [handle, 1, lock.words[2], u32::MAX, 4096, 0]);
    let cleaned = clean.send(&bench.vivante);
    Request::new(IN, VIV_UNLOCK, [handle]).send(&bench.vivante)?;
    close(&bench.vivante, handle)?;
    cleaned.context("GEM_CACHE")
}

/// A wait until a time before the clock's start ends at once.
fn past_moments(bench: &Bench) -> Result<()> {
    let buffer = bench.etnaviv.create(BYTES)?;
    for (what, moment) in [
        ("0", [0; 4]),
        ("-1 s", [u32::MAX, u32::MAX, 0, 0]),
        ("the least", [0, 1 << 31, 0, 0]),
    ] {
        let (fence, file) = (AtomicU32::new(0), bench.file());
        for number in 0..3 {
            let (answer, took) = bench.held(|| {
                fence.store(bench.fill(&buffer, COLOUR)?, Ordering::Relaxed);
                let [a, b, c, d] = moment;
                let fence = fence.load(Ordering::Relaxed);
                Ok(match number {
                    0 => prepare(file, buffer.handle(), PREP_READ | PREP_WRITE, moment),
                    1 => Request::new(IN, WAIT_FENCE, [bench.core, fence, 0, 0, a, b, c, d])
                        .send(file),
                    _ => Request::new(
                        IN,
                        GEM_WAIT,
                        [bench.core, buffer.handle(), 0, 0, a, b, c, d],
                    )
                    .send(file),
                })
            })?;
            let what = format!("wait {number} until {what}");
            ensure!(took < SOON, "{what} took {took:?}: {answer:?}");
            refused(&what, answer, libc::ETIMEDOUT)?;
            prepare(file, buffer.handle(), PREP_WRITE, later(20))?;
        }
    }
    Ok(())
}

/// Waits until a time in the far future, or until one that overflows.
fn far_moments(bench: &Bench) -> Result<()> {
    let buffer = bench.etnaviv.create(BYTES)?;
    for moment in [
        [u32::MAX, i32::MAX as u32, u32::MAX, i32::MAX as u32],
        [u32::MAX, i32::MAX as u32, u32::MAX, u32::MAX],
        [0, 0, u32::MAX, i32::MAX as u32],
    ] {
        bench.fill(&buffer, COLOUR)?;
        prepare(bench.file(), buffer.handle(), PREP_WRITE, moment).context("CPU_PREP")?;
    }
    Ok(())
}

/// Relocations at invalid offsets and to invalid targets.
fn relocations(bench: &Bench) -> Result<()> {
    let handle = create(bench.file(), 4096)?;
    let good = Submit {
        stream: vec![NOP; 8],
        ..Submit::with(bench.core, handle)
    };
    for (what, all) in [
        ("outside of the stream", vec![[32, 0, 0, 0, 0, 0]]),
        ("far outside", vec![[u32::MAX - 3, 0, 0, 0, 0, 0]]),
        ("between words", vec![[2, 0, 0, 0, 0, 0]]),
        (
            "out of order",
            vec![[16, 0, 0, 0, 0, 0], [8, 0, 0, 0, 0, 0]],
        ),
        ("of no object", vec![[4, 1, 0, 0, 0, 0]]),
        ("of no object at all", vec![[4, u32::MAX, 0, 0, 0, 0]]),
        ("behind the object", vec![[4, 0, 4096, 0, 0, 0]]),
        ("across its end", vec![[4, 0, 4093, 0, 0, 0]]),
        ("that wraps", vec![[4, 0, u32::MAX - 3, u32::MAX, 0, 0]]),
        ("with 32 bits too many", vec![[4, 0, 0, 1, 0, 0]]),
        ("with flags", vec![[4, 0, 0, 0, 1, 0]]),
    ] {
        let bad = Submit {
            relocations: all,
            ..good.clone()
        };
        refused(what, bad.send(bench.file()).map(|_| ()), libc::EINVAL)?;
    }
    close(bench.file(), handle)?;
    bench.works()
}

/// Invalid counts, cores, pipes, handles and descriptors.
fn numbers(bench: &Bench) -> Result<()> {
    let file = bench.file();
    let handle = create(file, 4096)?;
    let nops = Submit::nops(bench.core);
    let check = |what: &str, submit: &Submit, wanted: i32| {
        refused(what, submit.send(file).map(|_| ()), wanted)
    };
    check("no such core", &Submit::nops(3), libc::ENXIO)?;
    for core in [4, 1 << 31, u32::MAX] {
        check("no number of a core", &Submit::nops(core), libc::EINVAL)?;
    }
    for entry in [2, u32::MAX] {
        let submit = Submit {
            entry,
            ..nops.clone()
        };
        check("no such pipe", &submit, libc::EINVAL)?;
    }
    for wrong in [0, handle + 1000, u32::MAX] {
        check("no handle", &Submit::with(bench.core, wrong), libc::EINVAL)?;
    }
    for fence in [u32::MAX, i32::MAX as u32, 0, file.as_raw_fd() as u32] {
        let submit = Submit {
            flags: FENCE_FD_IN,
            fence,
            ..nops.clone()
        };
        check("no fence", &submit, libc::EINVAL)?;
    }
    for flags in [8, 1 << 31] {
        let submit = Submit {
            flags,
            ..nops.clone()
        };
        check("unknown flags", &submit, libc::EINVAL)?;
    }
    // With the largest counts, the arrays are not in mapped memory.
    for (place, wanted) in [(3, libc::EFAULT), (4, libc::EFAULT)] {
        for count in [128 << 10, (128 << 10) + 1, 1 << 30, u32::MAX] {
            let mut words = nops.words();
            words[place] = count;
            // Both arrays start at an unmapped address.
            words[6] = 0x10;
            words[8] = 0x10;
            let mut submit = Request::new(IN_OUT, GEM_SUBMIT, words);
            let found = errno("too many", submit.send(file))?;
            ensure!(
                found == wanted || found == libc::EINVAL,
                "count {count:#x} at {place}: {found}"
            );
        }
    }
    // One object as often as the limit allows. Mesa lists an object once or twice; the SUBMIT need not succeed, but it
    // must return.
    let many = Submit {
        objects: vec![[3, handle, 0, 0]; 128 << 10],
        ..nops.clone()
    };
    let begin = Stopwatch::start();
    let _ = many.send(file);
    let took = begin.elapsed();
    ensure!(took < Duration::from_secs(20), "{took:?}");
    close(file, handle)?;
    refused("a handle twice closed", close(file, handle), libc::EINVAL)?;
    for bytes in [[0, 0], [0, 1], [u32::MAX, 0], [u32::MAX, u32::MAX]] {
        let [low, high] = bytes;
        let mut new = Request::new(IN_OUT, GEM_NEW, [low, high, 0x2_0000, 0]);
        let found = errno("so many bytes", new.send(file))?;
        ensure!(
            found == libc::EINVAL || found == libc::ENOMEM,
            "{bytes:x?}: {found}"
        );
    }
    bench.works()
}

/// A stream may contain neither addresses of other processes' memory nor those of the file's closed objects.
fn addresses(bench: &Bench) -> Result<()> {
    let other = open(&bench.etnaviv_node)?;
    let handle = create(&other, BYTES)?;
    // A handle is valid only in its own file.
    let taken = create(bench.file(), 4096)?;
    close(bench.file(), taken)?;
    let foreign = Submit::with(bench.core, taken);
    refused(
        "a closed handle",
        foreign.send(bench.file()).map(|_| ()),
        libc::EINVAL,
    )?;
    let buffer = bench.etnaviv.create(BYTES)?;
    let mut stream = Stream::new();
    bench
        .engine
        .fill(&mut stream, &buffer.at(0, WIDTH, HEIGHT), ALL, COLOUR);
    stream.flush(bench.engine.pipe());
    // Without relocations, the addresses belong to no object.
    let raw = Submit {
        entry: bench.engine.pipe().number() as u32,
        stream: stream.words().to_vec(),
        ..Submit::with(bench.core, buffer.handle())
    };
    refused(
        "addresses of nothing",
        raw.send(bench.file()).map(|_| ()),
        libc::EINVAL,
    )?;
    close(&other, handle)?;
    bench.works()
}

/// The memory of a closed object is not given to others while the GPU uses it.
fn closed_in_flight(bench: &Bench) -> Result<()> {
    // Few enough that SUBMIT finds slots for all of them.
    let count = 4;
    let others = bench.held(|| {
        let buffers: Vec<_> = (0..count)
            .map(|_| bench.etnaviv.create(BYTES))
            .collect::<Result<_>>()?;
        let begin = Stopwatch::start();
        for buffer in &buffers {
            bench.fill(buffer, COLOUR)?;
        }
        let took = begin.elapsed();
        ensure!(took < SOON, "SUBMIT waits for the GPU: {took:?}");
        let begin = Stopwatch::start();
        drop(buffers);
        let took = begin.elapsed();
        ensure!(took < SOON, "GEM_CLOSE waits for the GPU: {took:?}");
        let others: Vec<_> = (0..count)
            .map(|_| bench.etnaviv.create(BYTES))
            .collect::<Result<_>>()?;
        let took = begin.elapsed();
        ensure!(took < SOON, "GEM_NEW waits for the GPU: {took:?}");
        for other in &others {
            other.memory.fill(7);
        }
        Ok(others)
    })?;
    bench.works()?;
    for other in &others.0 {
        if let Some((at, found)) = other.memory.find_other_than(7) {
            bail!("{found:#x} at {at:#x} of another object");
        }
    }
    Ok(())
}

/// Memory of the process as an object: drawn to, released, and refused where it is not possible.
fn own_memory(bench: &Bench) -> Result<()> {
    const READ: u32 = 1;
    const WRITE: u32 = 2;
    let anonymous = |bytes: u32| -> Result<Memory> {
        let memory = Memory::new(Region::anonymous(bytes as usize)?);
        memory.fill(7);
        Ok(memory)
    };
    let (file, etnaviv) = (bench.file(), &bench.etnaviv);
    // The following page does not belong to the object.
    let memory = anonymous(BYTES + 4096)?;
    let part = memory.part(0, BYTES as usize).context("a part")?;
    let buffer = etnaviv.wrap(&part, READ | WRITE).context("USERPTR")?;
    bench.fill(&buffer, COLOUR)?;
    buffer.with_processor(|| same("what was drawn", part.find_other_than(COLOUR), None))?;
    same("the page after it", memory.read(BYTES as usize), 7)?;
    // As a source that the GPU only reads.
    let source = etnaviv.wrap(&anonymous(BYTES)?, READ).context("to read")?;
    let engine = &bench.engine;
    let mut stream = Stream::new();
    let [to, from] = [buffer.at(0, WIDTH, HEIGHT), source.at(1, WIDTH, HEIGHT)];
    engine.copy_all(&mut stream, &from, (0, 0), &to, &[ALL], ALL);
    stream.flush(engine.pipe());
    etnaviv.submit(bench.core, engine.pipe(), &stream, &[&buffer, &source])?;
    buffer.with_processor(|| same("what was copied", part.find_other_than(7), None))?;
    // The object ends at its last byte. It has no mmap offset, and cannot be exported as a dma-buf.
    let mut beyond = Submit::with(bench.core, buffer.handle());
    beyond.relocations = vec![[4, 0, BYTES, 0, 0, 0]];
    refused("a relocation", beyond.send(file).map(|_| ()), libc::EINVAL)?;
    let shown = offset(file, buffer.handle()).map(|_| ());
    refused("GEM_INFO", shown, libc::EINVAL)?;
    let mut export = Request::new(IN_OUT, PRIME_HANDLE_TO_FD, [buffer.handle(), RDWR, 0]);
    errno("PRIME_HANDLE_TO_FD", export.send(file))?;
    // Invalid requests.
    let [low, high] = long(memory.address());
    let page = BYTES;
    let pointer_of_32_bits = cfg!(target_pointer_width = "32");
    for (what, words, wanted) in [
        ("no access", [low, high, page, 0, 0, 0], libc::EINVAL),
        ("another access", [low, high, page, 0, 7, 0], libc::EINVAL),
        ("part of a page", [low, high, 100, 0, 3, 0], libc::EINVAL),
        (
            "a place in a page",
            [low + 4, high, page, 0, 3, 0],
            libc::EINVAL,
        ),
        ("no bytes", [low, high, 0, 0, 3, 0], libc::EINVAL),
        ("many bytes", [low, high, page, 1, 3, 0], libc::EFAULT),
        ("nothing there", [0, 0, page, 0, 3, 0], libc::EFAULT),
        (
            "the kernel's",
            [0xffff_0000, high, page, 0, 3, 0],
            libc::EFAULT,
        ),
    ] {
        if what == "the kernel's" && !pointer_of_32_bits {
            continue;
        }
        let wrapped = Request::new(IN_OUT, GEM_USERPTR, words).send(file);
        refused(what, wrapped, wanted)?;
    }
    let region = Region::anonymous(BYTES as usize)?;
    region.protect(0, BYTES as usize, true, false)?;
    let read_only = etnaviv.wrap(&Memory::new(region), WRITE).map(|_| ());
    refused("memory for reading", read_only, libc::EFAULT)?;
    let (first, _last) = Region::anonymous(3 * BYTES as usize)?.cut(BYTES as usize, 4096)?;
    let [low, high] = long(first.address());
    let hole = Request::new(IN_OUT, GEM_USERPTR, [low, high, 2 * BYTES, 0, 3, 0]).send(file);
    refused("memory with a hole", hole, libc::EFAULT)?;
    // The process unmaps the memory or closes the object while the GPU draws there. Memory that takes its place does
    // not change.
    let others = bench.held(|| {
        let begin = Stopwatch::start();
        for closes_first in [false, true] {
            let memory = anonymous(BYTES)?;
            let buffer = etnaviv.wrap(&memory, READ | WRITE).context("USERPTR")?;
            bench.fill(&buffer, COLOUR)?;
            if closes_first {
                drop(buffer);
                drop(memory);
            } else {
                drop(memory);
                drop(buffer);
            }
        }
        let took = begin.elapsed();
        ensure!(took < SOON, "it waits for the GPU: {took:?}");
        (0..4).map(|_| anonymous(BYTES)).collect::<Result<Vec<_>>>()
    })?;
    bench.works()?;
    for other in &others.0 {
        same("memory in its place", other.find_other_than(7), None)?;
    }
    // Closed objects no longer count: together these are more than the limit of locked memory, or than all memory.
    for _ in 0..1000 {
        drop(etnaviv.wrap(&memory, READ | WRITE).context("again")?);
    }
    drop(buffer);
    same("what is left in it", part.find_other_than(7), None)
}

/// A program may map the first part of an object. It may not map more than the object has, and nothing once the object
/// is closed. Existing mappings stay valid.
fn mappings(bench: &Bench) -> Result<()> {
    let file = bench.file();
    let handle = create(file, 8192)?;
    let at = offset(file, handle)?;
    let part = Region::map(file, 4096, at).context("half of it")?;
    let whole = Region::map(file, 8192, at).context("all of it")?;
    part.write(0, 42);
    same("its first word", whole.read(0), 42)?;
    ensure!(Region::map(file, 12288, at).is_err(), "more than there is");
    ensure!(Region::map_private(file, 4096, at).is_err(), "private");
    let other = open(&bench.etnaviv_node)?;
    // Another file of the same process.
    drop(Region::map(&other, 4096, at));
    close(file, handle)?;
    ensure!(Region::map(file, 4096, at).is_err(), "a closed one");
    whole.write(4096, 43);
    same("what is mapped", (part.read(0), whole.read(4096)), (42, 43))
}

/// Other programs can import a dma-buf that was exported read-only, as most programs do it.
fn read_only_buffers(bench: &Bench) -> Result<()> {
    let handle = create(bench.file(), 4096)?;
    let descriptor = export(bench.file(), handle, 0)?;
    let number = descriptor.as_raw_fd().to_string();
    for node in [&bench.etnaviv_node, &bench.vivante_node] {
        let node = node.display().to_string();
        let output = system::again(&[IMPORTER, &node, &number])?.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{node}: {}", said.trim());
    }
    close(bench.file(), handle)?;
    Ok(())
}

/// The process that [`read_only_buffers`] starts.
fn import_one(node: &str, number: &str) -> Result<()> {
    let file = open(Path::new(node))?;
    let handle = import(&file, number.parse()?).context("PRIME_FD_TO_HANDLE")?;
    close(&file, handle)?;
    Ok(())
}

/// The node's mapping of another driver's memory shows its contents, like a mapping of its own objects.
fn foreign_view(bench: &Bench) -> Result<()> {
    let Some((memory, descriptor)) = system::udmabuf(8192)? else {
        return skip("no udmabuf");
    };
    memory.write_all_at(&COLOUR.to_ne_bytes(), 4096)?;
    let handle = import(bench.file(), descriptor.as_raw_fd()).context("PRIME_FD_TO_HANDLE")?;
    let seen = offset(bench.file(), handle)
        .context("GEM_INFO")
        .and_then(|at| {
            Region::map(bench.file(), 8192, at).with_context(|| format!("mmap at {at:#x}"))
        });
    close(bench.file(), handle)?;
    same("its second page", seen?.read(4096), COLOUR)
}

/// Threads that import and close one dma-buf, each with a separate file, do not disturb each other.
fn raced_imports(bench: &Bench) -> Result<()> {
    let handle = create(bench.file(), 4096)?;
    let descriptor = export(bench.file(), handle, CLOEXEC | RDWR)?;
    close(bench.file(), handle)?;
    let failed = AtomicU32::new(0);
    let last = AtomicU32::new(0);
    let files = [
        open(&bench.etnaviv_node)?,
        open(&bench.etnaviv_node)?,
        open(&bench.vivante_node)?,
    ];
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(|| {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_secs(8) {
                    match import(file, descriptor.as_raw_fd()) {
                        Ok(handle) => drop(close(file, handle)),
                        Err(error) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            last.store(error.raw_os_error().unwrap_or(0) as u32, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let (failed, last) = (failed.into_inner(), last.into_inner());
    ensure!(
        failed == 0,
        "{failed} imports failed, the last one with {last}"
    );
    Ok(())
}

/// A careless program closes an object that it has locked, and imports it again.
fn closed_while_locked(bench: &Bench) -> Result<()> {
    let node = bench.vivante_node.display().to_string();
    // The process exits, so that its leftovers are released.
    let output = system::again(&[CARELESS, &node])?.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", said.trim());
    Ok(())
}

/// The process that [`closed_while_locked`] starts.
fn close_locked(node: &str) -> Result<()> {
    let file = &open(Path::new(node))?;
    let mut new = Request::new(IN_OUT, VIV_CREATE, [8192, 0, 0, 0]);
    new.send(file).context("GEM_CREATE")?;
    let handle = new.words[3];
    for _ in 0..2 {
        let mut lock = Request::new(IN_OUT, VIV_LOCK, [handle, 0, 0, 0]);
        lock.send(file).context("GEM_LOCK")?;
    }
    let descriptor = export(file, handle, CLOEXEC | RDWR)?;
    close(file, handle)?;
    let handle = import(file, descriptor.as_raw_fd()).context("PRIME_FD_TO_HANDLE")?;
    close(file, handle)?;
    Ok(())
}

/// Cycles of tile status objects.
fn circles(bench: &Bench) -> Result<()> {
    let file = &bench.vivante;
    let mut handles = [0; 3];
    for handle in &mut handles {
        let mut new = Request::new(IN_OUT, VIV_CREATE, [4096, 0, 0, 0]);
        new.send(file).context("GEM_CREATE")?;
        *handle = new.words[3];
    }
    let [a, b, c] = handles;
    let attach = |to: u32, status: u32| Request::new(IN, VIV_ATTACH_AUX, [to, status]).send(file);
    refused("itself", attach(a, a), libc::ENOTTY)?;
    attach(a, b).context("ATTACH_AUX")?;
    refused("back", attach(b, a), libc::ENOTTY)?;
    refused("on", attach(b, c), libc::ENOTTY)?;
    refused("round", attach(c, a), libc::ENOTTY)?;
    refused("twice", attach(a, c), libc::ENOTTY)?;
    let mut of = Request::new(IN_OUT, VIV_REF_NODE, [a, 0, 0]);
    of.send(file).context("REF_NODE")?;
    ensure!(of.words[1] != 0 && of.words[2] != 0, "{:?}", of.words);
    for handle in handles {
        close(file, handle)?;
    }
    let device = Device::open()?;
    for node in [of.words[1], of.words[2]] {
        device.free(galcore_selftests::video::node(node.into()))?;
    }
    Ok(())
}

/// The same memory passes through both nodes, other files of them, and `/dev/galcore`, and back.
fn loops(bench: &Bench) -> Result<()> {
    let abi = Abi::named(WITH_DMA_BUFS).context(WITH_DMA_BUFS)?;
    let buffer = bench.etnaviv.create(BYTES)?;
    let mut descriptor = export(bench.file(), buffer.handle(), CLOEXEC | RDWR)?;
    let (other, device) = (open(&bench.etnaviv_node)?, Device::open_as(abi, true)?);
    let mut handles: Vec<(&File, u32)> = Vec::new();
    let mut nodes = Vec::new();
    for round in 0..8 {
        let file = [&other, &bench.vivante][round % 2];
        let handle = import(file, descriptor.as_raw_fd()).context("PRIME_FD_TO_HANDLE")?;
        if !handles.iter().any(|&(_, known)| known == handle) {
            handles.push((file, handle));
        }
        descriptor = export(file, handle, CLOEXEC | RDWR)?;
        let (status, node) = device.wrap_dma_buf(descriptor.as_raw_fd())?;
        same("WRAP", status, Status::OK)?;
        nodes.push(node);
        let (status, number) = device.export(node)?;
        same("EXPORT", status, Status::OK)?;
        descriptor = sys::take_descriptor(number)?;
    }
    buffer.memory.write(8, 99);
    let seen = Region::map(&descriptor, BYTES as usize, 0)?;
    same("the same memory", seen.read(8), 99)?;
    for (file, handle) in handles {
        let _ = close(file, handle);
    }
    for node in nodes {
        device.free(galcore_selftests::video::node(node))?;
    }
    drop((other, device));
    bench.fill(&buffer, COLOUR)?;
    buffer.with_processor(|| same("still its own", seen.read(0), COLOUR))
}

/// An object that is exported while the GPU draws on it shows the finished drawing to its importer.
fn exported_after_drawing(bench: &Bench) -> Result<()> {
    let buffer = bench.etnaviv.create(BYTES)?;
    buffer.memory.fill(0);
    let (seen, _) = bench.held(|| {
        bench.fill(&buffer, COLOUR)?;
        let descriptor = export(bench.file(), buffer.handle(), CLOEXEC | RDWR)?;
        let view = Region::map(&descriptor, BYTES as usize, 0)?;
        Ok(view.read(BYTES as usize - 4))
    })?;
    same("its last pixel", seen, COLOUR)
}

/// The importer of an object sees that the GPU draws on it, and sees when the drawing ends.
fn shown_fences(bench: &Bench) -> Result<()> {
    let buffer = bench.etnaviv.create(BYTES)?;
    let descriptor = export(bench.file(), buffer.handle(), CLOEXEC | RDWR)?;
    let other = open(&bench.etnaviv_node)?;
    let handle = import(&other, descriptor.as_raw_fd())?;
    let is_ready = |milliseconds: i64| -> Result<bool> {
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: milliseconds / 1000,
            tv_nsec: (milliseconds % 1000) as _,
        };
        Ok(poll(&mut fds, Some(&limit))? == 1)
    };
    ensure!(is_ready(0)?, "nobody draws");
    bench.held(|| {
        bench.fill(&buffer, COLOUR)?;
        ensure!(!is_ready(0)?, "the dma-buf has no fence");
        let now = prepare(&other, handle, PREP_READ | PREP_NOSYNC, [0; 4]);
        refused("CPU_PREP without waiting", now, libc::EBUSY)
    })?;
    ensure!(is_ready(20_000)?, "the fence does not end");
    // A job's fence is signaled shortly before the job counts as done.
    eventually("CPU_PREP at the end", SOON, || {
        Ok(prepare(&other, handle, PREP_WRITE | PREP_NOSYNC, [0; 4]).is_ok())
    })?;
    close(&other, handle)?;
    Ok(())
}

/// A core that reads an object waits for another core that writes it.
fn other_core(bench: &Bench) -> Result<()> {
    let cores = bench.etnaviv.cores()?;
    let Some(&(second, _)) = cores.get(1) else {
        return skip("one core alone");
    };
    let engine = bench.etnaviv.engine(second)?;
    let (from, to) = (bench.etnaviv.create(BYTES)?, bench.etnaviv.create(BYTES)?);
    for is_shared in [true, false] {
        from.memory.fill(0);
        to.memory.fill(0);
        let shared = if is_shared {
            Some(bench.etnaviv.create(BYTES)?)
        } else {
            None
        };
        let from = shared.as_ref().unwrap_or(&from);
        if is_shared {
            drop(from.export()?);
        }
        bench.control.write(fault::HOLD, 1);
        let drawn = bench.fill(from, COLOUR);
        let copied = std::thread::scope(|scope| {
            let copy = scope.spawn(|| {
                let mut stream = Stream::new();
                let (source, target) = (from.at(0, WIDTH, HEIGHT), to.at(1, WIDTH, HEIGHT));
                engine.copy_all(&mut stream, &source, (0, 0), &target, &[ALL], ALL);
                stream.flush(engine.pipe());
                let pipe = engine.pipe();
                bench.etnaviv.submit(second, pipe, &stream, &[from, &to])
            });
            std::thread::sleep(Duration::from_millis(700));
            bench.control.write(fault::HOLD, 0);
            copy.join()
        });
        drawn?;
        copied.map_err(|_| anyhow::anyhow!("a panic"))??;
        to.with_processor(|| {
            let what = format!("a copied pixel, shared: {is_shared}");
            same(&what, to.memory.read(BYTES as usize - 4), COLOUR)
        })?;
    }
    Ok(())
}

/// Sync files: an output fence serves as an input fence, also twice. The descriptor number of a SUBMIT's own output
/// fence is refused.
fn fences(bench: &Bench) -> Result<()> {
    let file = bench.file();
    let nops = Submit {
        flags: FENCE_FD_OUT,
        ..Submit::nops(bench.core)
    };
    let (_, number) = nops.send(file).context("SUBMIT")?;
    let mut fence = sys::take_descriptor(number.into())?;
    for _ in 0..20 {
        let chained = Submit {
            flags: FENCE_FD_IN | FENCE_FD_OUT,
            fence: fence.as_raw_fd() as u32,
            ..nops.clone()
        };
        let (_, number) = chained.send(file).context("SUBMIT")?;
        fence = sys::take_descriptor(number.into())?;
    }
    // The number that the next descriptor will have.
    let next = rustix::io::dup(&fence)?.as_raw_fd() as u32;
    let own = Submit {
        flags: FENCE_FD_IN | FENCE_FD_OUT,
        fence: next,
        ..nops
    };
    refused("its own fence", own.send(file).map(|_| ()), libc::EINVAL)?;
    let mut fds = [PollFd::new(&fence, PollFlags::IN)];
    let limit = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    same("ends", poll(&mut fds, Some(&limit))?, 1)
}

/// A waiting process can be killed.
fn killed(bench: &Bench) -> Result<()> {
    for what in ["prepare", "submit", "fence", "counters"] {
        let timeline = match what {
            "fence" => match sys::SoftwareSync::open() {
                Ok(timeline) => Some(timeline),
                Err(_) => continue,
            },
            _ => None,
        };
        let start = || {
            let node = bench.etnaviv_node.display().to_string();
            let mut command = system::again(&[WAITER, &node, what])?;
            if let Some(timeline) = &timeline {
                command.stdin(Stdio::from(timeline.fence(1)?));
            }
            let mut child = command.stdout(Stdio::piped()).spawn()?;
            let output = child.stdout.take().context("no pipe")?;
            let mut output = BufReader::new(output);
            let mut line = String::new();
            output.read_line(&mut line)?;
            ensure!(line == "waits\n", "{what}: {line}");
            Ok(child)
        };
        // With counters, a process waits for its own job, not for earlier ones.
        let early = (what == "counters").then(start).transpose()?;
        bench.held_for(Duration::from_secs(20), || {
            let mut child = early.map_or_else(start, Ok)?;
            std::thread::sleep(Duration::from_millis(300));
            ensure!(child.try_wait()?.is_none(), "{what}: it does not wait");
            let begin = Stopwatch::start();
            child.kill()?;
            child.wait()?;
            let took = begin.elapsed();
            ensure!(took < SOON, "{what}: killed after {took:?}");
            Ok(())
        })?;
        // The ring is empty again.
        bench.works()?;
    }
    Ok(())
}

/// The process that [`killed`] starts: it waits for the stopped GPU.
fn wait(node: &str, what: &str) -> Result<()> {
    let etnaviv = Etnaviv::open_node(Path::new(node))?;
    let (core, _) = *etnaviv.cores()?.first().context("no core")?;
    let handle = create(etnaviv.file(), 4096)?;
    if what == "submit" {
        // A shared object: each job waits for the one before.
        let _shared = export(etnaviv.file(), handle, CLOEXEC | RDWR)?;
    }
    let submit = Submit::with(core, handle);
    submit.send(etnaviv.file())?;
    println!("waits");
    match what {
        "counters" => loop {
            let (mut words, request) = (submit.words(), [2u32, 0, 1, 1, 0]);
            (words[14], words[16]) = (request.as_ptr() as usize as u32, 1);
            Request::new(IN_OUT, GEM_SUBMIT, words).send(etnaviv.file())?;
        },
        "prepare" => prepare(etnaviv.file(), handle, PREP_WRITE, later(1000))?,
        "fence" => {
            let fence = Submit {
                flags: FENCE_FD_IN,
                fence: 0,
                ..submit
            };
            fence.send(etnaviv.file())?;
        }
        _ => loop {
            submit.send(etnaviv.file())?;
        },
    }
    Ok(())
}

/// Another program that inherits an open file cannot use its objects.
fn inherited(bench: &Bench) -> Result<()> {
    let buffer = bench.etnaviv.create(BYTES)?;
    buffer.memory.fill(5);
    let file = bench.file().try_clone()?;
    let mut command = system::again(&[HEIR, &buffer.handle().to_string()])?;
    let output = command.stdin(Stdio::from(OwnedFd::from(file))).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", said.trim());
    same("its memory", buffer.memory.find_other_than(5), None)?;
    bench.works()
}

/// The process that [`inherited`] starts.
fn inherit(handle: &str) -> Result<()> {
    let file = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let handle: u32 = handle.parse()?;
    let mut new = Request::new(IN_OUT, GEM_NEW, [4096, 0, 0x2_0000, 0]);
    errno("GEM_NEW", new.send(&file))?;
    errno("GEM_INFO", offset(&file, handle).map(|_| ()))?;
    let mut export = Request::new(IN_OUT, PRIME_HANDLE_TO_FD, [handle, RDWR, 0]);
    errno("PRIME_HANDLE_TO_FD", export.send(&file))?;
    errno("SUBMIT", Submit::with(0, handle).send(&file).map(|_| ()))?;
    ensure!(Region::map(&file, 4096, 0).is_err(), "mmap");
    Ok(())
}

/// A server opens the node for a client (DRI3), which draws with the file. The file then belongs to the client, not to
/// the server. The server's own file still works.
fn opened_for_another(bench: &Bench) -> Result<()> {
    let file = open(&bench.etnaviv_node)?;
    ensure!(
        Region::map(&file, 4096, 0).is_err(),
        "mmap of what nobody uses"
    );
    let held = file.try_clone()?;
    let output = system::again(&[SERVED])?
        .stdin(Stdio::from(OwnedFd::from(file)))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", said.trim());
    let mut new = Request::new(IN_OUT, GEM_NEW, [4096, 0, 0x2_0000, 0]);
    refused("GEM_NEW by the server", new.send(&held), libc::EINVAL)?;
    let shared = bench.etnaviv.create(BYTES)?;
    let descriptor = export(bench.file(), shared.handle(), CLOEXEC | RDWR)?;
    errno(
        "an import by the server",
        import(&held, descriptor.as_raw_fd()).map(|_| ()),
    )?;
    // A process that only sends queries does not become the file's owner.
    let file = open(&bench.etnaviv_node)?;
    let asked = system::again(&[ASKING])?
        .stdin(Stdio::from(OwnedFd::from(file.try_clone()?)))
        .output()?;
    let said = String::from_utf8_lossy(&asked.stdout);
    ensure!(asked.status.success(), "{}", said.trim());
    create(&file, 4096).context("GEM_NEW after another has asked")?;
    // Two threads use a new file at the same time.
    for _ in 0..100 {
        let file = open(&bench.etnaviv_node)?;
        let both = || -> Result<u32> { create(&file, 4096) };
        std::thread::scope(|scope| {
            let first = scope.spawn(both);
            let second = both();
            let first = first.join().expect("a thread has panicked");
            ensure!(first.is_ok() && second.is_ok(), "{first:?}, {second:?}");
            Ok(())
        })?;
    }
    bench.works()
}

/// Another process that [`opened_for_another`] starts: it only queries the core's properties.
fn ask() -> Result<()> {
    let file = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    Request::new(IN_OUT, GET_PARAM, [0, 1, 0, 0]).send(&file)?;
    domain(&file, 0, 0)?;
    Ok(())
}

/// The process that [`opened_for_another`] starts.
fn serve() -> Result<()> {
    let file = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let etnaviv = Etnaviv::of_file(file);
    let (core, _) = *etnaviv.cores()?.first().context("no core")?;
    let engine = etnaviv.engine(core)?;
    let buffer = etnaviv.create(BYTES)?;
    buffer.memory.fill(0);
    let mut stream = Stream::new();
    engine.fill(&mut stream, &buffer.at(0, WIDTH, HEIGHT), ALL, COLOUR);
    stream.flush(engine.pipe());
    etnaviv.submit(core, engine.pipe(), &stream, &[&buffer])?;
    buffer.with_processor(|| same("its picture", buffer.memory.find_other_than(COLOUR), None))
}

/// Undefined flags, and garbage in reserved fields.
fn unknown_flags(bench: &Bench) -> Result<()> {
    let (file, core) = (bench.file(), bench.core);
    let handle = create(file, 4096)?;
    for flag in [1 << 3, 1 << 31] {
        let new = Request::new(IN_OUT, GEM_NEW, [4096, 0, flag, 0]).send(file);
        refused("GEM_NEW", new, libc::EINVAL)?;
        let info = Request::new(IN_OUT, GEM_INFO, [handle, flag, 0, 0]).send(file);
        refused("GEM_INFO", info, libc::EINVAL)?;
        let now = [0; 4];
        refused("CPU_PREP", prepare(file, handle, flag, now), libc::EINVAL)?;
        let finish = Request::new(IN, GEM_CPU_FINI, [handle, flag]).send(file);
        refused("CPU_FINI", finish, libc::EINVAL)?;
        for (what, number) in [("WAIT_FENCE", WAIT_FENCE), ("GEM_WAIT", GEM_WAIT)] {
            let wait = Request::new(IN, number, [core, handle, flag, 0, 0, 0, 0, 0]).send(file);
            refused(what, wait, libc::EINVAL)?;
        }
    }
    for (pipe, wanted) in [
        (3, libc::ENXIO),
        (9, libc::EINVAL),
        (u32::MAX, libc::EINVAL),
    ] {
        let wait = Request::new(IN, GEM_WAIT, [pipe, handle, 0, 0, 0, 0, 0, 0]).send(file);
        refused("GEM_WAIT of a core that is not there", wait, wanted)?;
    }
    // Combinations without exactly one caching mode.
    for flags in [0, 3 << 16, 7 << 16, 1 << 20] {
        let new = Request::new(IN_OUT, GEM_NEW, [4096, 0, flags, 0]).send(file);
        refused("GEM_NEW", new, libc::EINVAL)?;
    }
    // The defined flags: cached, write-combined, uncached, through the MMU.
    for flags in [1 << 16, 1 << 17, 1 << 18, 1 << 17 | 1 << 20] {
        let mut new = Request::new(IN_OUT, GEM_NEW, [4096, 0, flags, 0]);
        new.send(file)
            .with_context(|| format!("GEM_NEW with {flags:#x}"))?;
        close(file, new.words[3])?;
    }
    close(file, handle)?;
    Ok(())
}

/// PM_QUERY_DOM, starting at `iter`. Returns the next domain, the number of this one, the number of its signals, its
/// name.
fn domain(file: &File, core: u32, iter: u32) -> std::io::Result<(u32, u32, u32, String)> {
    let mut words = [0; 18];
    [words[0], words[1]] = [core, iter];
    let mut query = Request::new(IN_OUT, PM_QUERY_DOM, words);
    query.send(file)?;
    let word = query.words[1];
    let name = text(&query.words, 8);
    Ok((word & 0xff, word >> 8 & 0xff, word >> 16, name))
}

/// PM_QUERY_SIG. Returns the next signal, and the name of signal `iter`.
fn signal(file: &File, core: u32, domain: u32, iter: u32) -> std::io::Result<(u32, String)> {
    let mut words = [0; 19];
    [words[0], words[1]] = [core, domain | iter << 16];
    let mut query = Request::new(IN_OUT, PM_QUERY_SIG, words);
    query.send(file)?;
    if query.words[2] & 0xffff != iter {
        return Err(std::io::Error::other("another signal"));
    }
    Ok((query.words[1] >> 16, text(&query.words, 10)))
}

/// The text at byte offset `at`.
fn text(words: &[u32], at: usize) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let letters = bytes.skip(at).take_while(|&byte| byte != 0);
    letters.map(char::from).collect()
}

/// The names of all domains of a core, and the number of all their signals.
fn domains(file: &File, core: u32) -> Result<(Vec<String>, u32)> {
    let (mut names, mut count, mut iter) = (Vec::new(), 0, 0);
    while iter != 0xff {
        let (next, number, signals, name) = domain(file, core, iter).context("PM_QUERY_DOM")?;
        same("its number", number, iter)?;
        let mut at = 0;
        for nth in 0..signals {
            let (next, signal) = signal(file, core, number, at).context("PM_QUERY_SIG")?;
            ensure!(!signal.is_empty(), "signal {nth} of {name} has no name");
            at = next;
        }
        same("no signal comes after the last", at, 0xffff)?;
        names.push(name);
        count += signals;
        iter = next;
    }
    Ok((names, count))
}

/// Queries return the names of the core's counters, and a SUBMIT gets their values before and after it.
fn counters(bench: &Bench) -> Result<()> {
    let (file, core) = (bench.file(), bench.core);
    let (names, count) = domains(file, core)?;
    let of_3d = ["HI", "PE", "SH", "PA", "SE", "RA", "TX", "MC"];
    same("domains", &names[..8], &of_3d.map(str::to_string)[..])?;
    let is_flat = bench.engine == Engine::TwoD;
    same(
        "signals",
        (names.len(), count),
        if is_flat { (9, 48) } else { (8, 47) },
    )?;
    let wrong = signal(file, core, 0, 7).map(|_| ());
    refused("a signal that there is not", wrong, libc::EINVAL)?;
    let wrong = domain(file, core, 9).map(|_| ());
    refused("a domain that there is not", wrong, libc::EINVAL)?;

    let (buffer, results) = (bench.etnaviv.create(BYTES)?, bench.etnaviv.create(4096)?);
    results.memory.fill(0);
    let good = Submit {
        objects: vec![[3, results.handle(), 0, 0]],
        ..Submit::nops(core)
    };
    let send = |requests: &[[u32; 5]]| {
        let mut words = good.words();
        [words[14], words[15]] = [requests.as_ptr() as usize as u32, 0];
        words[16] = requests.len() as u32;
        Request::new(IN_OUT, GEM_SUBMIT, words).send(file)
    };
    for (what, request) in [
        ("no such domain", [1, names.len() as u32, 1, 1, 0]),
        ("no such signal", [1, 7 << 16, 1, 1, 0]),
        ("neither before nor after", [0, 0, 1, 1, 0]),
        ("unknown flags", [4, 0, 1, 1, 0]),
        ("the word of the sequence", [1, 0, 1, 0, 0]),
        ("a word behind the end", [1, 0, 1, 1024, 0]),
        ("a word far away", [1, 0, 1, u32::MAX, 0]),
        ("no such object", [1, 0, 1, 1, 1]),
    ] {
        refused(what, send(&[request]), libc::EINVAL)?;
    }
    refused("too many", send(&[[1, 0, 1, 1, 0]; 129]), libc::EINVAL)?;
    let without_2d = bench.engine != Engine::TwoD;
    if without_2d {
        let (mut words, request) = (good.words(), [1u32, 0, 1, 1, 0]);
        (words[2], words[14], words[16]) = (1, request.as_ptr() as usize as u32, 1);
        let sent = Request::new(IN_OUT, GEM_SUBMIT, words).send(file);
        refused("counters of a pipe that is not there", sent, libc::EINVAL)?;
    }
    // A refused stream leaves the counter values unchanged.
    let mut bad = good.clone();
    bad.stream = vec![0x0801_048a, 0x0dea_d000, NOP, 0];
    let (mut words, request) = (bad.words(), [1u32, 0, 1, 1, 0]);
    (words[14], words[16]) = (request.as_ptr() as usize as u32, 1);
    let sent = Request::new(IN_OUT, GEM_SUBMIT, words).send(file);
    refused("a foreign address", sent, libc::EINVAL)?;
    same(
        "nothing is written",
        results.memory.find_other_than(0),
        None,
    )?;

    // Memory that the processor cannot write: an object that the GPU may only read, if the MMU can enforce this.
    let region = Region::anonymous(4096)?;
    region.protect(0, 4096, true, false)?;
    if let Ok(fixed) = bench.etnaviv.wrap(&Memory::new(region), 1) {
        let into = Submit {
            objects: vec![[1, fixed.handle(), 0, 0]],
            ..Submit::nops(core)
        };
        let (mut words, request) = (into.words(), [1u32, 0, 1, 1, 0]);
        (words[14], words[16]) = (request.as_ptr() as usize as u32, 1);
        let sent = Request::new(IN_OUT, GEM_SUBMIT, words).send(file);
        refused("counters into what cannot be written", sent, libc::EINVAL)?;
    }

    // Cycles and writes of the core, read before and after the job.
    let total = 1 << 16 | 7;
    let requests = [
        [1, 0, 77, 1, 0],
        [2, 0, 77, 2, 0],
        [1, 2 << 16 | 7, 77, 3, 0],
        [2, 2 << 16 | 7, 77, 4, 0],
        [3, total, 77, 1023, 0],
    ];
    bench.fill(&buffer, COLOUR)?;
    send(&requests).context("SUBMIT with requests")?;
    let word = |at: usize| results.memory.read(at * 4);
    same("the sequence", word(0), 77)?;
    let cycles = word(2).wrapping_sub(word(1));
    ensure!(cycles > 0 && cycles < u32::MAX / 2, "{cycles} cycles");
    same("nothing was written between", word(4), word(3))?;
    let before = word(4);
    bench.fill(&buffer, COLOUR)?;
    send(&requests).context("SUBMIT with requests")?;
    same(
        "what a fill writes",
        word(3).wrapping_sub(before) * 8,
        BYTES,
    )?;
    bench.works()
}

/// Each kernel allocation on the path of each request fails once. Objects whose request returned no answer to the
/// process are released when it exits.
fn failing_allocations(bench: &Bench) -> Result<()> {
    gaps::inject()?;
    let output = system::again(&[FAILING])?.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", said.trim());
    print!("{said}");
    bench.works()
}

/// The process that [`failing_allocations`] starts.
fn fail() -> Result<()> {
    let bench = &Bench::new()?;
    let (first, second) = (open(&bench.etnaviv_node)?, open(&bench.vivante_node)?);
    let (file, vivante) = (&first, &second);
    let handle = create(file, 8192)?;
    let shared = export(file, handle, CLOEXEC | RDWR)?;
    let there = import(vivante, shared.as_raw_fd())?;
    let submit = Submit {
        relocations: vec![[4, 0, 0, 0, 0, 0]],
        flags: FENCE_FD_OUT,
        ..Submit::with(bench.core, handle)
    };
    let new = |words| {
        let mut new = Request::new(IN_OUT, VIV_CREATE, words);
        new.send(vivante).map(|()| new.words[3])
    };
    let request = |number: usize| -> std::io::Result<()> {
        match number {
            0 => {
                let mut new = Request::new(IN_OUT, GEM_NEW, [3 << 12, 0, 1 << 17, 0]);
                new.send(file)?;
                close(file, new.words[3])
            }
            1 => {
                let other = open(&bench.etnaviv_node).map_err(std::io::Error::other)?;
                import(&other, shared.as_raw_fd()).map(|_| ())
            }
            2 => {
                let mut export = Request::new(IN_OUT, PRIME_HANDLE_TO_FD, [handle, CLOEXEC, 0]);
                export.send(file)?;
                sys::take_descriptor(export.words[2].into())
                    .map(|_| ())
                    .map_err(std::io::Error::other)
            }
            3 => {
                let (_, fence) = submit.send(file)?;
                sys::take_descriptor(fence.into())
                    .map(|_| ())
                    .map_err(std::io::Error::other)
            }
            4 => prepare(file, handle, PREP_WRITE, later(20)),
            5 => close(vivante, new([4096, 0, 0, 0])?),
            6 => {
                let mut lock = Request::new(IN_OUT, VIV_LOCK, [there, 0, 0, 0]);
                lock.send(vivante)?;
                Request::new(IN, VIV_UNLOCK, [there]).send(vivante)
            }
            7 => {
                let (surface, status) = (new([8192, 0, 0, 0])?, new([4096, 0, 0, 0])?);
                Request::new(IN, VIV_ATTACH_AUX, [surface, status]).send(vivante)?;
                close(vivante, surface)?;
                close(vivante, status)
            }
            _ => Region::map(file, 8192, offset(file, handle)?)
                .map(|_| ())
                .map_err(std::io::Error::other),
        }
    };
    for number in 0..9 {
        let (mut failed, mut nth) = (0, 0);
        loop {
            nth += 1;
            ensure!(nth < 1000, "request {number} allocates for ever");
            let (answer, is_reached) = gaps::fail_nth(nth, || request(number))?;
            failed += u32::from(answer.is_err());
            if !is_reached {
                answer.with_context(|| format!("request {number} without failures"))?;
                break;
            }
        }
        println!("# request {number}: {failed} of {nth} have failed");
    }
    drop((shared, first, second));
    bench.works()
}

/// A job that hangs the core ends for its file, for its fences, and for waits on its object.
fn hung(bench: &Bench) -> Result<()> {
    let buffer = bench.etnaviv.create(BYTES)?;
    buffer.memory.fill(0);
    let shared = export(bench.file(), buffer.handle(), CLOEXEC | RDWR)?;
    let seen = import(&bench.vivante, shared.as_raw_fd())?;
    let mut stream = Stream::new();
    let colour = COLOUR + 1;
    bench
        .engine
        .fill(&mut stream, &buffer.at(0, WIDTH, HEIGHT), ALL, colour);
    stream.flush(bench.engine.pipe());
    bench.control.write(fault::HANG_AT_COLOUR, colour);
    let pipe = bench.engine.pipe();
    let fence = bench
        .etnaviv
        .submit(bench.core, pipe, &stream, &[&buffer])?;
    let behind = Submit {
        entry: pipe.number() as u32,
        flags: FENCE_FD_OUT,
        ..Submit::with(bench.core, buffer.handle())
    };
    let (_, file) = behind.send(bench.file())?;
    let file = sys::take_descriptor(file.into())?;
    bench.etnaviv.wait(bench.core, fence)?;
    let limit = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    for (what, descriptor) in [("the sync file", &file), ("the dma-buf", &shared)] {
        let mut fds = [PollFd::new(descriptor, PollFlags::IN)];
        same(what, poll(&mut fds, Some(&limit))?, 1)?;
    }
    prepare(bench.file(), buffer.handle(), PREP_WRITE, later(20)).context("CPU_PREP")?;
    same(
        "what hung has drawn nothing",
        buffer.memory.find_other_than(0),
        None,
    )?;
    bench.control.write(fault::CLEAR_ALL, 1);
    close(&bench.vivante, seen)?;
    let (guilty, _, dropped) = Device::open()?.resets()?;
    ensure!(
        guilty == 1 && dropped >= 1,
        "{guilty} hangs, {dropped} jobs"
    );
    bench.works()
}

/// Threads open, close, draw and import while the cores are unbound and bound.
fn unbound(bench: Bench) -> Result<()> {
    let names = system::bound()?;
    let (node, core) = (bench.etnaviv_node.clone(), bench.core);
    let handle = create(bench.file(), 8192)?;
    let view = Region::map(bench.file(), 8192, offset(bench.file(), handle)?)?;
    view.write(0, 77);
    let shared = export(bench.file(), handle, CLOEXEC | RDWR)?;
    let is_over = AtomicBool::new(false);
    let turns = AtomicU32::new(0);
    let outcome = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(file) = open(&node) else {
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    for _ in 0..20 {
                        let Ok(handle) = create(&file, 8192) else {
                            break;
                        };
                        let _ = Submit::with(core, handle).send(&file);
                        let _ = prepare(&file, handle, PREP_WRITE, later(20));
                        let _ = import(&file, shared.as_raw_fd());
                        let _ = export(&file, handle, CLOEXEC | RDWR);
                        let _ = close(&file, handle);
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let go = || -> Result<()> {
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(500));
                for name in &names {
                    system::to_driver("unbind", name)?;
                }
                let mut info = Request::new(IN_OUT, GEM_INFO, [handle, 0, 0, 0]);
                refused("an open file", info.send(bench.file()), libc::ENODEV)?;
                for name in &names {
                    system::to_driver("bind", name)?;
                }
            }
            Ok(())
        };
        let outcome = go();
        is_over.store(true, Ordering::Relaxed);
        outcome
    });
    outcome?;
    ensure!(turns.into_inner() > 0, "the threads did nothing");
    same("what is mapped", view.read(0), 77)?;
    same("what is shared", Region::map(&shared, 8192, 0)?.read(0), 77)?;
    drop((view, shared, bench));
    eventually("a node again", Duration::from_secs(20), || {
        Ok(Bench::new().is_ok())
    })?;
    Bench::new()?.works()
}

/// The primary node with etnaviv's interface, which has the device's objects, too.
fn primary() -> Result<PathBuf> {
    for number in 0..8 {
        let path = PathBuf::from(format!("/dev/dri/card{number}"));
        let Ok(file) = open(&path) else {
            continue;
        };
        let mut version = Request::new(IN_OUT, VERSION, [0; 9]);
        version.send(&file).context("VERSION")?;
        if version.words[1] == ETNAVIV_MINOR {
            return Ok(path);
        }
    }
    bail!("no primary node")
}

/// The nodes refuse the ioctls of the DRM core that they do not support. A read does not wait for events, because none
/// can come.
fn core_ioctls(bench: &Bench) -> Result<()> {
    let primary = open(&primary()?)?;
    for (node, file) in [
        ("etnaviv", bench.file()),
        ("vivante", &bench.vivante),
        ("the primary node", &primary),
    ] {
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        same(
            node,
            poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&limit))?,
            0,
        )?;
        let refuse = |what: &str, answer: std::io::Result<()>| -> Result<()> {
            let found = errno(&format!("{node}: {what}"), answer)?;
            println!("# {node}: {what}: {found}");
            Ok(())
        };
        refuse(
            "GETRESOURCES",
            Request::new(IN_OUT, 0xa0, [0; 16]).send(file),
        )?;
        refuse(
            "CREATE_DUMB",
            Request::new(IN_OUT, 0xb2, [64, 64, 32, 0, 0, 0, 0, 0]).send(file),
        )?;
        refuse(
            "MAP_DUMB",
            Request::new(IN_OUT, 0xb3, [1, 0, 0, 0]).send(file),
        )?;
        refuse(
            "SYNCOBJ_CREATE",
            Request::new(IN_OUT, 0xbf, [0; 2]).send(file),
        )?;
        refuse(
            "CREATE_LEASE",
            Request::new(IN_OUT, 0xc6, [0; 6]).send(file),
        )?;
        refuse(
            "GEM_OPEN",
            Request::new(IN_OUT, GEM_OPEN, [77777, 0, 0, 0]).send(file),
        )?;
    }
    let handle = create(bench.file(), 4096)?;
    let mut flink = Request::new(IN_OUT, GEM_FLINK, [handle, 0]);
    refused(
        "GEM_FLINK of a render node",
        flink.send(bench.file()),
        libc::EACCES,
    )?;
    // Changes the handle if the kernel can. The driver's records of the object move with it.
    let mut change = Request::new(IN_OUT, CHANGE_HANDLE, [handle, 0x7fff_0000]);
    let number = match change.send(bench.file()) {
        Ok(()) => 0x7fff_0000,
        Err(error) => {
            println!("# GEM_CHANGE_HANDLE: {error}");
            handle
        }
    };
    Submit::with(bench.core, number)
        .send(bench.file())
        .context("SUBMIT")?;
    let shared = export(bench.file(), number, CLOEXEC | RDWR)?;
    same(
        "the same object",
        import(bench.file(), shared.as_raw_fd())?,
        number,
    )?;
    close(bench.file(), number)?;
    bench.works()
}

/// Names of the primary node: a process that opens a name has the object, and must close it as often as it opened it.
fn named_objects(bench: &Bench) -> Result<()> {
    let path = primary()?;
    let file = open(&path)?;
    let handle = create(&file, 8192)?;
    let view = Region::map(&file, 8192, offset(&file, handle)?)?;
    view.write(4096, 31);
    let mut flink = Request::new(IN_OUT, GEM_FLINK, [handle, 0]);
    flink.send(&file).context("GEM_FLINK")?;
    let name = flink.words[1].to_string();
    let path = path.display().to_string();
    let output = system::again(&[NAMED, &path, &name])?.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", said.trim());
    same("what the other has written", view.read(0), 32)?;
    // In soak tests, opens it more often than an entry's counter can count.
    let begin = Stopwatch::start();
    let most = if is_long() { 70_000 } else { 2_000 };
    let refused_at = (1..most).find(|_| {
        let mut other = Request::new(IN_OUT, GEM_OPEN, [flink.words[1], 0, 0, 0]);
        other.send(&file).is_err()
    });
    println!("# refused at {refused_at:?}, in {:?}", begin.elapsed());
    same("a limit", refused_at.is_some(), is_long())?;
    Submit::with(bench.core, handle)
        .send(&file)
        .context("SUBMIT")?;
    let begin = Stopwatch::start();
    drop((view, file));
    println!("# closed in {:?}", begin.elapsed());
    bench.works()
}

/// The process that [`named_objects`] starts.
fn open_named(path: &str, name: &str) -> Result<()> {
    let file = open(Path::new(path))?;
    let mut named = Request::new(IN_OUT, GEM_OPEN, [name.parse()?, 0, 0, 0]);
    named.send(&file).context("GEM_OPEN")?;
    let handle = named.words[1];
    let view = Region::map(&file, 8192, offset(&file, handle)?)?;
    same("what the owner has written", view.read(4096), 31)?;
    view.write(0, 32);
    Submit::with(0, handle).send(&file).context("SUBMIT")?;
    Ok(())
}

/// A process that lists one object, shared or not, as often as the limit allows in one SUBMIT can be killed.
fn shared_and_many(bench: &Bench) -> Result<()> {
    let node = bench.etnaviv_node.display().to_string();
    for (what, after) in [("shared", 500), ("own", 500), ("own", 900), ("own", 1300)] {
        let mut child = system::again(&[MANY, &node, what])?
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        ensure!(line == "begins\n", "{line}");
        std::thread::sleep(Duration::from_millis(after));
        let begin = Stopwatch::start();
        child.kill()?;
        child.wait()?;
        let took = begin.elapsed();
        println!("# {what}, after {after} ms: killed after {took:?}");
        ensure!(took < SOON, "killed after {took:?}");
    }
    bench.works()
}

/// The process that [`shared_and_many`] starts.
fn many(node: &str, what: &str) -> Result<()> {
    let etnaviv = Etnaviv::open_node(Path::new(node))?;
    let (core, _) = *etnaviv.cores()?.first().context("no core")?;
    let handle = create(etnaviv.file(), 4096)?;
    let _shared = (what == "shared")
        .then(|| export(etnaviv.file(), handle, CLOEXEC | RDWR))
        .transpose()?;
    let submit = Submit::with(core, handle);
    for _ in 0..3 {
        submit.send(etnaviv.file())?;
    }
    let many = Submit {
        objects: (0..128 << 10)
            .map(|at| [1 + at % 3, handle, 0, 0])
            .collect(),
        ..submit
    };
    println!("begins");
    // The SUBMIT with the shared object is refused.
    loop {
        let _ = many.send(etnaviv.file());
    }
}

/// Closing a file with very many objects takes a bounded time.
fn many_objects(bench: &Bench) -> Result<()> {
    let file = open(&bench.etnaviv_node)?;
    let mut count = 0;
    let begin = Instant::now();
    let most = if is_long() { 12_000 } else { 2_000 };
    while count < most && begin.elapsed() < Duration::from_secs(40) {
        if create(&file, 4096).is_err() {
            break;
        }
        count += 1;
    }
    let made = begin.elapsed();
    let begin = Stopwatch::start();
    drop(file);
    let took = begin.elapsed();
    println!("# {count} objects in {made:?}, closed in {took:?}");
    ensure!(took < Duration::from_secs(30), "{took:?}");
    bench.works()
}

/// A dma-buf can be mapped only with the access that the export requested.
fn export_access(bench: &Bench) -> Result<()> {
    for (flags, wanted) in [(CLOEXEC, OFlags::RDONLY), (CLOEXEC | RDWR, OFlags::RDWR)] {
        let buffer = bench.etnaviv.create(4096)?;
        let shared = export(bench.file(), buffer.handle(), flags)?;
        let mode = fcntl_getfl(&shared)? & OFlags::RWMODE;
        same("the mode of a dma-buf", mode, wanted)?;
        let view = Region::map(File::from(shared), 4096, 0);
        same("a writable mapping", view.is_ok(), wanted == OFlags::RDWR)?;
    }
    Ok(())
}

/// Objects larger than any contiguous memory.
fn large_objects(bench: &Bench) -> Result<()> {
    for megabytes in [3, 8, 64, 100] {
        let file = open(&bench.etnaviv_node)?;
        create(&file, megabytes << 20).with_context(|| format!("{megabytes} MiB"))?;
    }
    bench.works()
}

/// A SUBMIT waits for the fence of another driver no longer than its limit, however many Unix signals arrive. A refused
/// SUBMIT does not wait for it.
fn signals(bench: &Bench) -> Result<()> {
    let Ok(timeline) = sys::SoftwareSync::open() else {
        return skip("no sw_sync");
    };
    let fence = timeline.fence(1)?;
    let handle = create(bench.file(), 4096)?;
    let wrong = Submit {
        flags: FENCE_FD_IN,
        fence: fence.as_raw_fd() as u32,
        ..Submit::with(3, handle)
    };
    let begin = Stopwatch::start();
    ensure!(
        wrong.send(bench.file()).is_err(),
        "a core that is not there"
    );
    let took = begin.elapsed();
    ensure!(took < SOON, "what is refused waits {took:?}");
    let node = bench.etnaviv_node.display().to_string();
    let mut child = system::again(&[SIGNALED, &node])?
        .stdin(Stdio::from(fence))
        .spawn()?;
    let begin = Stopwatch::start();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begin.is_over(Duration::from_secs(25)) {
            child.kill()?;
            child.wait()?;
            bail!("it waits for ever");
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    ensure!(status.success(), "{status}");
    bench.works()
}

/// The process that [`signals`] starts.
fn signaled(node: &str) -> Result<()> {
    sys::tick(100)?;
    let etnaviv = Etnaviv::open_node(Path::new(node))?;
    let (core, _) = *etnaviv.cores()?.first().context("no core")?;
    let handle = create(etnaviv.file(), 4096)?;
    let submit = Submit {
        flags: FENCE_FD_IN,
        fence: 0,
        ..Submit::with(core, handle)
    };
    refused(
        "SUBMIT",
        submit.send(etnaviv.file()).map(|_| ()),
        libc::ETIMEDOUT,
    )
}

/// All dma-bufs of one object show that the GPU draws on it, whichever interface exported them.
fn two_buffers(bench: &Bench) -> Result<()> {
    let abi = Abi::named(WITH_DMA_BUFS).context(WITH_DMA_BUFS)?;
    let device = Device::open_as(abi, true)?;
    let buffer = bench.etnaviv.create(BYTES)?;
    let first = export(bench.file(), buffer.handle(), CLOEXEC | RDWR)?;
    let (status, node) = device.wrap_dma_buf(first.as_raw_fd())?;
    same("WRAP", status, Status::OK)?;
    let (status, number) = device.export(node)?;
    same("EXPORT", status, Status::OK)?;
    let second = sys::take_descriptor(number)?;
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let (ready, _) = bench.held(|| {
        bench.fill(&buffer, COLOUR)?;
        let is_ready = |file: &OwnedFd| -> Result<bool> {
            Ok(poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&now))? == 1)
        };
        Ok((is_ready(&first)?, is_ready(&second)?))
    })?;
    device.free(galcore_selftests::video::node(node))?;
    // The first belongs to the object. EXPORT_VIDEO_MEMORY creates another one, without fences.
    same(
        "the GPU draws: whether each dma-buf is ready",
        ready,
        (false, true),
    )
}

/// An object that is exported while a SUBMIT of it waits for a fence is shared when the job begins.
fn exported_meanwhile(bench: &Bench) -> Result<()> {
    let Ok(timeline) = sys::SoftwareSync::open() else {
        return skip("no sw_sync");
    };
    let fence = timeline.fence(1)?;
    let handle = create(bench.file(), 4096)?;
    let submit = Submit {
        flags: FENCE_FD_IN,
        fence: fence.as_raw_fd() as u32,
        ..Submit::with(bench.core, handle)
    };
    let ready = bench.held(|| {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| submit.send(bench.file()).map(|_| ()));
            std::thread::sleep(Duration::from_millis(500));
            let shared = export(bench.file(), handle, CLOEXEC | RDWR);
            let increased = timeline.increase(1);
            let submitted = thread.join();
            let (shared, ()) = (shared?, increased?);
            submitted
                .map_err(|_| anyhow::anyhow!("a panic"))?
                .context("SUBMIT")?;
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            Ok(poll(
                &mut [PollFd::new(&shared, PollFlags::IN)],
                Some(&now),
            )?)
        })
    })?;
    close(bench.file(), handle)?;
    same(
        "dma-bufs that are ready before the job has ended",
        ready.0,
        0,
    )
}

/// Processes share one dma-buf, draw on it, wait, fill tile status, and are killed at any point.
fn crowd(bench: &Bench) -> Result<()> {
    let buffer = bench.etnaviv.create(BYTES)?;
    let shared = export(bench.file(), buffer.handle(), RDWR)?;
    let number = shared.as_raw_fd().to_string();
    let nodes = [&bench.etnaviv_node, &bench.vivante_node];
    let [etnaviv, vivante] = nodes.map(|node| node.display().to_string());
    let arguments = [MEMBER, &etnaviv, &vivante, &number];
    let mut children = Vec::new();
    let mut slowest = Duration::ZERO;
    let begin = Instant::now();
    let mut round = 0;
    while begin.elapsed() < Duration::from_secs(20) {
        round += 1;
        while children.len() < 4 {
            children.push(system::again(&arguments)?.stdout(Stdio::null()).spawn()?);
        }
        std::thread::sleep(Duration::from_millis(100 + round * 137 % 500));
        let mut child = children.remove(round as usize % children.len());
        let begin = Stopwatch::start();
        let killed = child.kill();
        child.wait()?;
        killed?;
        slowest = slowest.max(begin.elapsed());
    }
    for mut child in children {
        let killed = child.kill();
        child.wait()?;
        killed?;
    }
    println!("# {round} killed, the slowest in {slowest:?}");
    ensure!(
        slowest < Duration::from_secs(20),
        "killed after {slowest:?}"
    );
    prepare(bench.file(), buffer.handle(), PREP_WRITE, later(30)).context("CPU_PREP")?;
    bench.works()
}

/// One process of [`crowd`].
fn member(etnaviv: &str, vivante: &str, number: &str) -> Result<()> {
    let number: i32 = number.parse()?;
    let own = Etnaviv::open_node(Path::new(etnaviv))?;
    let cores = own.cores()?;
    std::thread::scope(|scope| {
        for &(core, _) in cores.iter().cycle().take(3) {
            scope.spawn(move || -> Result<()> {
                let file = open(Path::new(etnaviv))?;
                let mut last: Option<OwnedFd> = None;
                loop {
                    let shared = import(&file, number)?;
                    let mut submit = Submit {
                        flags: FENCE_FD_OUT,
                        ..Submit::with(core, shared)
                    };
                    if let Some(last) = &last {
                        submit.flags |= FENCE_FD_IN;
                        submit.fence = last.as_raw_fd() as u32;
                    }
                    let other = create(&file, 8192)?;
                    submit.objects.push([1, other, 0, 0]);
                    if let Ok((_, fence)) = submit.send(&file) {
                        last = Some(sys::take_descriptor(fence.into())?);
                    }
                    let descriptor = export(&file, other, CLOEXEC | RDWR)?;
                    let _ = close(&file, other);
                    let again = import(&file, descriptor.as_raw_fd())?;
                    let _ = prepare(&file, shared, PREP_WRITE, later(20));
                    let _ = close(&file, again);
                    let _ = close(&file, shared);
                }
            });
        }
        scope.spawn(|| -> Result<()> {
            let file = open(Path::new(vivante))?;
            loop {
                let node = import(&file, number)?;
                let mut status = Request::new(IN_OUT, VIV_CREATE, [8 << 20, 0, 0, 0]);
                status.send(&file)?;
                let mut new = Request::new(IN_OUT, VIV_CREATE, [4096, 0, 0, 0]);
                new.send(&file)?;
                let handle = new.words[3];
                let _ = Request::new(IN, VIV_ATTACH_AUX, [handle, status.words[3]]).send(&file);
                let _ = Request::new(IN_OUT, VIV_LOCK, [node, 0, 0, 0]).send(&file);
                let _ = close(&file, handle);
                let _ = close(&file, status.words[3]);
                let _ = close(&file, node);
            }
        });
    });
    Ok(())
}

/// Sync files outlive the module: they are then signaled.
fn orphaned_fences(bench: Bench) -> Result<()> {
    let nops = Submit {
        flags: FENCE_FD_OUT,
        ..Submit::nops(bench.core)
    };
    let mut fences = Vec::new();
    for _ in 0..2 {
        let (_, number) = nops.send(bench.file()).context("SUBMIT")?;
        fences.push(sys::take_descriptor(number.into())?);
    }
    let handle = create(bench.file(), 4096)?;
    let shared = export(bench.file(), handle, CLOEXEC | RDWR)?;
    drop(bench);
    ensure!(Module::unload().is_err(), "unloaded with a dma-buf");
    drop(shared);
    Module::unload()?;
    let mut entry = [0u32; 20];
    let mut info = [0u32; 14];
    info[10] = 1;
    info[12..14].copy_from_slice(&long(entry.as_mut_ptr() as usize as u64));
    let mut bytes: Vec<u8> = info.iter().flat_map(|word| word.to_ne_bytes()).collect();
    sys::exchange_plain(fences[0].as_fd(), 0xc038_3e04, &mut bytes).context("FILE_INFO")?;
    println!(
        "# status {:?}, of {:x?}",
        &bytes[32..36],
        std::hint::black_box(&entry)[8..12].to_vec()
    );
    let mut merge = [0u32; 12];
    merge[8] = fences[1].as_raw_fd() as u32;
    let mut bytes: Vec<u8> = merge.iter().flat_map(|word| word.to_ne_bytes()).collect();
    sys::exchange_plain(fences[0].as_fd(), 0xc030_3e03, &mut bytes).context("MERGE")?;
    let now = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    same(
        "is over",
        poll(&mut [PollFd::new(&fences[0], PollFlags::IN)], Some(&now))?,
        1,
    )?;
    etnaviv::load_galcore(&["drm=both", "gpuTimeout=60000", "jobTimeout=0"])?;
    eventually("both nodes", Duration::from_secs(20), || {
        Ok(Bench::new().is_ok())
    })?;
    let bench = Bench::new()?;
    let chained = Submit {
        flags: FENCE_FD_IN,
        fence: fences[1].as_raw_fd() as u32,
        ..Submit::nops(bench.core)
    };
    chained
        .send(bench.file())
        .context("a fence of the module before")?;
    bench.works()
}

/// Whether long tests run at full length.
fn is_long() -> bool {
    std::env::args().any(|word| word == LONG)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [IMPORTER, node, number] => return harness::exit(import_one(node, number)),
        [WAITER, node, what] => return harness::exit(wait(node, what)),
        [HEIR, handle] => return harness::exit(inherit(handle)),
        [SERVED] => return harness::exit(serve()),
        [ASKING] => return harness::exit(ask()),
        [SIGNALED, node] => return harness::exit(signaled(node)),
        [CARELESS, node] => return harness::exit(close_locked(node)),
        [FAILING] => return harness::exit(fail()),
        [NAMED, path, name] => return harness::exit(open_named(path, name)),
        [MANY, node, what] => return harness::exit(many(node, what)),
        [MEMBER, etnaviv, vivante, number] => {
            return harness::exit(member(etnaviv, vivante, number))
        }
        _ => {}
    }
    harness::program(|| {
        harness::allow(Duration::from_secs(800));
        etnaviv::load_galcore(&["drm=both", "gpuTimeout=60000", "jobTimeout=0"])?;
        eventually("both nodes", Duration::from_secs(20), || {
            Ok(Bench::new().is_ok())
        })?;
        let before = ProcGc::nothing_left()?;
        let bench = RefCell::new(Some(Bench::new()?));
        let bench = &bench;
        let mut suite = Suite::new();
        type Check = fn(&Bench) -> Result<()>;
        let checks: [(&str, Check); 36] = [
            ("it works", Bench::works),
            ("pointers with an extended sign", extended_pointers),
            ("waits until a moment that has passed", past_moments),
            ("waits until a far moment", far_moments),
            ("wrong relocations", relocations),
            ("wrong numbers", numbers),
            ("addresses that are not its own", addresses),
            ("closed while the GPU uses it", closed_in_flight),
            ("memory of the process", own_memory),
            ("mappings", mappings),
            ("a dma-buf for reading alone", read_only_buffers),
            ("another driver's memory, seen", foreign_view),
            ("imports by several threads", raced_imports),
            ("closed while it is locked", closed_while_locked),
            ("tile status in circles", circles),
            ("dma-bufs in circles", loops),
            ("exported after drawing", exported_after_drawing),
            ("fences that others see", shown_fences),
            ("one core waits for the other", other_core),
            ("sync files", fences),
            ("killed while it waits", killed),
            ("a file that another program has", inherited),
            ("a file opened for another program", opened_for_another),
            ("unknown flags", unknown_flags),
            ("performance counters", counters),
            ("allocations that fail", failing_allocations),
            ("DRM's own ioctls", core_ioctls),
            ("objects by their names", named_objects),
            ("two dma-bufs of one object", two_buffers),
            ("what a dma-buf can be mapped for", export_access),
            ("large objects", large_objects),
            ("fences that never come, and Unix signals", signals),
            ("exported while SUBMIT waits", exported_meanwhile),
            ("one shared object many times", shared_and_many),
            ("processes that are killed", crowd),
            ("a file of many objects", many_objects),
        ];
        for (name, check) in checks {
            suite.test(name, move || {
                check(bench.borrow().as_ref().context("no bench is left")?)
            });
        }
        suite.test("cores that go and come", move || {
            unbound(bench.take().context("no bench is left")?)
        });
        suite.test("all memory is back", move || {
            drop(bench.take());
            same("memory", ProcGc::nothing_left()?, before)
        });
        suite.test("a job that hangs the core", || {
            Module::unload()?;
            etnaviv::load_galcore(&["drm=both", "gpuTimeout=1000", "gpuProfiler=0"])?;
            eventually("both nodes", Duration::from_secs(20), || {
                Ok(Bench::new().is_ok())
            })?;
            let bench = Bench::new()?;
            hung(&bench)?;
            let counters = domain(bench.file(), bench.core, 0).map(|_| ());
            refused("counters, without a profiler", counters, libc::EINVAL)?;
            drop(bench);
            ProcGc::nothing_left().map(|_| ())
        });
        // The last test: where it fails, the kernel may crash.
        suite.test("sync files of a module that is gone", || {
            orphaned_fences(Bench::new()?)?;
            ProcGc::nothing_left().map(|_| ())
        });
        if let Some(text) = words.first() {
            suite.only(text);
        }
        let good = suite.run()?;
        // The check that drops it may have been deselected.
        drop(bench.take());
        Module::unload()?;
        Ok(good)
    })
}
