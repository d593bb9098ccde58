// SPDX-License-Identifier: GPL-2.0-only
//! GPU addresses in command buffers: 0 and the client's own go through, all others are refused, and what was checked
//! is what runs, whatever other threads do meanwhile.
//!
//! Wants the module with `allowedRanges` of one page.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::process::Child;
use std::process::ChildStdout;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Random;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::unlock;

/// States that take an address (byte address, how many): the union list of the driver's notes, section 5.6.
const STATES: [(u32, u32); 50] = [
    (0x00644, 1),
    (0x0064c, 1),
    (0x00680, 8),
    (0x0086c, 1),
    (0x01028, 1),
    (0x01200, 1),
    (0x01228, 1),
    (0x01238, 1),
    (0x01284, 1),
    (0x0128c, 1),
    (0x01304, 1),
    (0x01310, 1),
    (0x01318, 1),
    (0x01410, 1),
    (0x01430, 1),
    (0x01458, 1),
    (0x01460, 8),
    (0x01480, 8),
    (0x01500, 8),
    (0x01520, 8),
    (0x01540, 8),
    (0x01608, 1),
    (0x01610, 1),
    (0x01658, 1),
    (0x0165c, 1),
    (0x01664, 1),
    (0x01668, 1),
    (0x01680, 1),
    (0x01688, 1),
    (0x01690, 1),
    (0x01698, 1),
    (0x016a4, 1),
    (0x016c0, 8),
    (0x016e0, 8),
    (0x01740, 8),
    (0x017c0, 8),
    (0x017e0, 8),
    (0x02400, 224),
    (0x03824, 1),
    (0x10800, 512),
    (0x12800, 4),
    (0x128a0, 4),
    (0x128c0, 4),
    (0x12970, 4),
    (0x12a00, 8),
    (0x12b40, 8),
    (0x12b80, 8),
    (0x12ce0, 8),
    (0x14600, 16),
    (0x14800, 64),
];

/// A client, a command buffer of its own and the GPU from outside.
struct Bench {
    client: Client,
    control: Control,
    buffer: Buffer,
}

impl Bench {
    fn new() -> Result<Self> {
        let client = Client::start()?;
        let buffer = client.device().allocate_contiguous(0x8000)?;
        Ok(Self {
            client,
            control: Control::open()?,
            buffer,
        })
    }

    fn device(&self) -> &Device {
        self.client.device()
    }

    /// Whether the client's memory for commands has this GPU address.
    fn has(&self, address: u32) -> bool {
        self.buffer.has(address) || self.client.has_command_memory(address)
    }

    fn send(&self, words: &[u32]) -> Result<Status> {
        let mut stream = Stream::new();
        stream.raw(words);
        let record = place(&self.buffer, 0, self.client.engine().pipe(), &stream);
        Ok(self.device().send_commit(&record, 0, &mut Queue::new())?)
    }

    /// The value of a state in the GPU.
    fn state(&self, address: u32) -> u32 {
        self.control.write(gpu_control::STATE_INDEX, address / 4);
        self.control.read(gpu_control::STATE_VALUE)
    }

    /// Every state of the list with `value`: refused, and none is loaded.
    fn refused(&self, what: &str, value: u32) -> Result<()> {
        for (first, count) in STATES {
            for address in (first..first + 4 * count).step_by(4) {
                let status = self.send(&[0x0801_0000 | (address / 4), value])?;
                let what = || format!("{what}: state {address:#x} with {value:#x}");
                same(&what(), status, Status::INVALID_DATA)?;
            }
        }
        self.device().stall()?;
        for (first, count) in STATES {
            for address in (first..first + 4 * count).step_by(4) {
                ensure!(
                    self.state(address) != value,
                    "{what}: state {address:#x} was loaded with {value:#x}"
                );
            }
        }
        Ok(())
    }

    /// A few of the list with `value`: loaded.
    fn accepted(&self, what: &str, value: u32) -> Result<()> {
        for address in [
            0x644, 0x680, 0x1228, 0x1610, 0x2400, 0x277c, 0x3824, 0x14800,
        ] {
            let status = self.send(&[0x0801_0000 | (address / 4), value])?;
            let what = format!("{what}: state {address:#x} with {value:#x}");
            same(&what, status, Status::OK)?;
            self.device().stall()?;
            same(&what, self.state(address), value)?;
            same(
                &what,
                self.send(&[0x0801_0000 | (address / 4), 0])?,
                Status::OK,
            )?;
        }
        Ok(())
    }
}

/// One page of GPU addresses that the module's parameter allows to all.
fn allowed(bench: &Bench) -> Result<u32> {
    let text = std::fs::read_to_string("/sys/module/galcore/parameters/allowedRanges")?;
    let (start, bytes) = text.trim().split_once(',').context("allowedRanges")?;
    same("bytes of allowedRanges", bytes, "4096")?;
    let start: u32 = start.parse()?;
    Ok(start - bench.client.base_address())
}

fn address_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test("the client's own memory", move || {
        let device = bench.device();
        for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
            let node = device.allocate(8192, 64, surface::BITMAP, pool)?;
            let address = device.lock(node)?.address;
            bench.accepted("a locked node", address)?;
            bench.accepted("its last byte", address + 8191)?;
            for (what, beside) in [
                ("the byte behind it", address + 8192),
                ("the byte before it", address - 1),
            ] {
                // Where the kernel has put it may be beside this client's other memory.
                let wanted = match bench.has(beside) {
                    true => Status::OK,
                    false => Status::INVALID_DATA,
                };
                let status = bench.send(&[0x0801_0000 | (0x1228 / 4), beside])?;
                same(what, status, wanted)?;
            }
            // A second lock of a node in the pool; the first unlock leaves one.
            if pool == Pool::SYSTEM {
                device.lock(node)?;
                device.unlock(node)?;
                bench.accepted("still locked once", address)?;
            }
            unlock(device, node)?;
            // Clients unlock before they commit the last commands that use a node.
            bench.accepted("unlocked, not yet freed", address)?;
            device.free(node)?;
            let status = bench.send(&[0x0801_0000 | (0x1228 / 4), address])?;
            same("a freed node", status, Status::INVALID_DATA)?;
        }
        let buffer = device.allocate_contiguous(4096)?;
        bench.accepted("a contiguous buffer", buffer.address)?;
        let page = Region::anonymous(3 * 4096)?;
        let mapped = device.map_user(page.address() + 100, 8192)?;
        bench.accepted("user memory", mapped.address)?;
        bench.accepted("user memory's end", mapped.address + 8191)?;
        let load = |address| bench.send(&[0x0801_0000 | (0x1228 / 4), address]);
        same(
            "before user memory",
            load(mapped.address - 1)?,
            Status::INVALID_DATA,
        )?;
        same(
            "behind user memory",
            load(mapped.address + 8192)?,
            Status::INVALID_DATA,
        )?;
        device.unmap_user(&mapped)?;
        same(
            "unmapped user memory",
            load(mapped.address)?,
            Status::INVALID_DATA,
        )?;
        device.free_contiguous(&buffer)?;
        same(
            "a freed buffer",
            load(buffer.address)?,
            Status::INVALID_DATA,
        )?;
        // Behind this one, the next may not use it any more.
        let buffer = device.allocate_contiguous(4096)?;
        let mut stream = Stream::new();
        stream.state(0x1228, buffer.address);
        let record = place(&bench.buffer, 0, bench.client.engine().pipe(), &stream);
        device.commit(&record, 0, Queue::new().free_contiguous(&buffer))?;
        same(
            "freed by the queue before",
            load(buffer.address)?,
            Status::INVALID_DATA,
        )
    });
    suite.test("address 0, in every state", move || {
        for (first, count) in STATES {
            for address in (first..first + 4 * count).step_by(4) {
                let status = bench.send(&[0x0801_0000 | (address / 4), 0])?;
                same(&format!("state {address:#x}"), status, Status::OK)?;
            }
        }
        Ok(())
    });
    suite.test("the ring, in every state", move || {
        bench.device().stall()?;
        bench.refused("the ring", bench.control.read(gpu_control::FE_ADDRESS))
    });
    suite.test("another process's memory, in every state", move || {
        let foreign = Foreign::start()?;
        bench.refused("another's buffer", foreign.buffer_address())
    });
    suite.test("nobody's memory, in every state", move || {
        for address in [u32::MAX, 0x8000_0000, 1] {
            bench.refused("nobody's", address)?;
        }
        Ok(())
    });
    suite.test(
        "among others in one load, and as a converted number",
        move || {
            let own = bench.buffer.address;
            let load = |a, b| [0x0804_0000 | (0x1604 / 4), 0, a, 0, b, 0];
            same("both good", bench.send(&load(own, own))?, Status::OK)?;
            same(
                "the second bad",
                bench.send(&load(own, 4))?,
                Status::INVALID_DATA,
            )?;
            same(
                "the first bad",
                bench.send(&load(4, own))?,
                Status::INVALID_DATA,
            )?;
            let fixed = [0x0c01_0000 | (0x1228 / 4), own];
            same("converted", bench.send(&fixed)?, Status::INVALID_DATA)
        },
    );
    suite.test("what allowedRanges names", move || {
        let start = allowed(bench)?;
        bench.accepted("its first byte", start)?;
        bench.accepted("its last byte", start + 4095)?;
        let load = |address| bench.send(&[0x0801_0000 | (0x1228 / 4), address]);
        same("the byte before", load(start - 1)?, Status::INVALID_DATA)?;
        same("the byte behind", load(start + 4096)?, Status::INVALID_DATA)
    });
    suite.test("the good among 3,000 nodes", move || {
        let device = bench.device();
        let mut nodes = Vec::new();
        for _ in 0..3000 {
            let node = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
            nodes.push((node, device.lock(node)?.address));
        }
        let mut random = Random::new(7);
        for _ in 0..200 {
            let (_, address) = nodes[random.below(3000) as usize];
            let words = [0x0801_0000 | (0x1228 / 4), address + random.below(4096)];
            same("its own", bench.send(&words)?, Status::OK)?;
        }
        for (node, _) in nodes {
            device.unlock(node)?;
            device.free(node)?;
        }
        Ok(())
    });
}

/// Another process, which takes memory that this one has freed.
struct Other {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Other {
    fn start() -> Result<Self> {
        let mut child = system::again(&["--other"])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().context("stdout")?);
        Ok(Self { child, answers })
    }

    /// Has it do something.
    fn ask(&mut self, what: &str) -> Result<String> {
        let input = self.child.stdin.as_mut().context("stdin")?;
        writeln!(input, "{what}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.trim().to_string())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The end of its standard input ends it; then there is nothing left to do about an error.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Is the other process: `take` allocates a node and says its address; `look` says what is in it, and frees it.
fn other() -> Result<()> {
    let client = Client::start()?;
    let device = client.device();
    let mut held = None;
    for line in std::io::stdin().lines() {
        let answer = match (line?.as_str(), held.take()) {
            ("take", None) => {
                let node = device.allocate(0x8000, 64, surface::BITMAP, Pool::SYSTEM)?;
                let location = device.lock(node)?;
                held = Some((node, location));
                location.address.to_string()
            }
            ("look", Some((node, location))) => {
                device.stall()?;
                let memory = device.memory(node, location, client.pool())?;
                let found = memory.find_other_than(0);
                device.unlock(node)?;
                device.free(node)?;
                match found {
                    None => "zeros".to_string(),
                    Some((offset, word)) => format!("{word:#x} at {offset:#x}"),
                }
            }
            (line, _) => anyhow::bail!("{line}"),
        };
        println!("{answer}");
    }
    Ok(())
}

/// One thread commits fills of a node for ever, with long queues; the other unlocks it and frees it, and another process
/// gets its memory: nothing may be drawn there any more.
fn freed_under_way(bench: &Bench, rounds: u32) -> Result<()> {
    let device = bench.device();
    let (target, busy, hits) = (&AtomicU32::new(0), &AtomicU32::new(0), &AtomicU32::new(0));
    let stop = &AtomicBool::new(false);
    let painter = move || -> Result<u32> {
        let device = Device::open()?;
        let engine = bench.client.engine();
        let buffer = device.allocate_contiguous(0x8000)?;
        let signal = device.create_signal(true)?;
        let mut refused = 0;
        while !stop.load(SeqCst) {
            busy.fetch_add(1, SeqCst);
            let address = target.load(SeqCst);
            if address != 0 {
                let mut stream = Stream::new();
                let surface = surface_at(address, bench.buffer.memory.clone())?;
                engine.fill(&mut stream, &surface, Rect::new(0, 0, 16, 8), 0xffba_dbad);
                stream.flush(engine.pipe());
                let record = place(&buffer, 0, engine.pipe(), &stream);
                let mut queue = Queue::new();
                // The driver reads the queue between its check and the ring.
                for _ in 0..200 {
                    queue.signal(signal);
                }
                match device.send_commit(&record, 0, &mut queue)? {
                    Status::OK => {
                        hits.fetch_add(1, SeqCst);
                    }
                    Status::INVALID_DATA => refused += 1,
                    status => anyhow::bail!("COMMIT gave {status:?}"),
                }
            }
            busy.fetch_add(1, SeqCst);
            std::thread::yield_now();
        }
        device.free_contiguous(&buffer)?;
        Ok(refused)
    };
    std::thread::scope(|scope| {
        let painter = scope.spawn(painter);
        let mut random = Random::new(99);
        let mut again = 0;
        let mut other = Other::start()?;
        let mut go = || -> Result<()> {
            for _ in 0..rounds {
                let node = device.allocate(0x8000, 64, surface::BITMAP, Pool::SYSTEM)?;
                let address = device.lock(node)?.address;
                target.store(address, SeqCst);
                let before = hits.load(SeqCst);
                harness::eventually("the painter paints", Duration::from_secs(20), || {
                    Ok(hits.load(SeqCst) > before)
                })?;
                std::thread::sleep(Duration::from_micros(random.below(3000).into()));
                device.unlock(node)?;
                device.free(node)?;
                let next: u32 = other.ask("take")?.parse()?;
                target.store(0, SeqCst);
                // Until the painter has come round.
                let now = busy.load(SeqCst);
                harness::eventually("the painter goes on", Duration::from_secs(20), || {
                    Ok(busy.load(SeqCst) >= now + 2)
                })?;
                same("behind the free", other.ask("look")?.as_str(), "zeros")?;
                again += u32::from(next == address);
            }
            Ok(())
        };
        let result = go();
        stop.store(true, SeqCst);
        let refused = painter
            .join()
            .map_err(|_| anyhow::anyhow!("the painter panicked"))??;
        result?;
        let done = hits.load(SeqCst);
        println!("# {done} done, {refused} refused; {again} of {rounds} got the same memory again");
        ensure!(done > 0 && refused > 0 && again > 0, "this showed nothing");
        Ok(())
    })
}

/// One thread changes a word of the command buffer for ever; the other commits it.
fn changed_under_way(bench: &Bench, rounds: u32) -> Result<()> {
    const GOOD: [u32; 2] = [0x1800_0000, 0];
    // END, LINK, EVENT, a foreign address, WAIT.
    let bad = [
        [0x1000_0000, 0],
        [0x4000_0008, 0x1000],
        [0x0801_0e01, 0x1f],
        [0x0801_048a, 0x1234_5678],
        [0x3800_0001, 0],
    ];
    let stop = &AtomicBool::new(false);
    let memory = &bench.buffer.memory;
    let (pipe, mut stream) = (bench.client.engine().pipe(), Stream::new());
    for _ in 0..1000 {
        stream.nop();
    }
    let record = place(&bench.buffer, 0, pipe, &stream);
    let commands = gpu_control::counter::COMMANDS;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(5);
            while !stop.load(SeqCst) {
                let at = 32 + 8 * random.below(1000) as usize;
                for words in [bad[random.below(5) as usize], GOOD] {
                    memory.write(at, words[0]);
                    memory.write(at + 4, words[1]);
                }
            }
        });
        let go = || -> Result<()> {
            let before = bench.control.counter(commands);
            let (mut done, mut refused) = (0u32, 0u32);
            for _ in 0..rounds {
                match bench.device().send_commit(&record, 0, &mut Queue::new())? {
                    Status::OK => done += 1,
                    Status::INVALID_DATA => refused += 1,
                    status => anyhow::bail!("COMMIT gave {status:?}"),
                }
            }
            bench.device().stall()?;
            println!("# {done} done, {refused} refused");
            ensure!(refused > 0, "nothing was refused");
            let ran = bench.control.counter(commands) - before;
            ensure!(
                ran >= u64::from(done) * 1000,
                "{ran} commands of {done} commits"
            );
            same("violations", bench.control.violations(), 0)
        };
        let result = go();
        stop.store(true, SeqCst);
        result
    })
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--other") {
        return match other() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 60)?;
        let used = system::ProcGc::used_now()?;
        let bench = Bench::new()?;
        let mut suite = Suite::new();
        address_tests(&mut suite, &bench);
        let shared = &bench;
        suite.test("memory freed while a COMMIT names it", move || {
            freed_under_way(shared, count)
        });
        suite.test("commands changed while a COMMIT reads them", move || {
            changed_under_way(shared, 10 * count)
        });
        suite.test("none of this made the GPU complain", move || {
            same("violations", shared.control.violations(), 0)
        });
        let result = suite.run();
        bench.device().free_contiguous(&bench.buffer)?;
        drop(bench);
        harness::settles("KiB used", used, system::ProcGc::used_now)?;
        result
    })
}
