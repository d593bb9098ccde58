// SPDX-License-Identifier: GPL-2.0-only
//! With MMU version 2, the commands of a process reach only its own memory, whatever addresses they contain. The
//! address checks of the command stream are off (`streamCheck=1`).
//!
//! usage: `spaces [--own 1] [--count N] [--fills N]`; `--own 1`: no core has MMU version 1, so each process has its own
//! addresses once all addresses are in use.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Location;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::sys;
use galcore_client::sys::Orphans;
use galcore_client::uapi::Command;
use galcore_client::uapi::MapUserMemory;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::gpu_copy;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::locked_surface;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::Screen;
use gpu_control::fault;

const BYTES: u32 = 4 * 4096;

const POOLS: [Pool; 3] = [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL];

/// The contents of the other process's memory.
const SECRET: u32 = 0x5ec2_e701;
/// The value that this process draws there.
const DRAWN: u32 = 0xd4a3_0002;
/// The value of memory that was not drawn.
const UNTOUCHED: u32 = 0x0000_7e57;

/// A generation with named nodes.
fn abi() -> Result<&'static Abi> {
    Abi::named("5.0.11.p8").context("a generation")
}

fn client() -> Result<Client> {
    Ok(Client::with_device(Device::open_as(abi()?, true)?)?)
}

/// Offset in the screen: past its first 4 MiB, wherever the screen begins.
const SECOND: usize = 0x40_0000;

/// Most processes with page tables of one user (MAX_SPACES), and of all users.
const OF_ONE_USER: u32 = 128;
const OF_ALL: u32 = 511;
/// The part that is reserved for the administrator.
const RESERVED: u32 = 32;

const NODE: &std::ffi::CStr = c"/dev/galcore";

/// Number of concurrent processes.
const CROWD: u32 = 64;

/// Bytes per mapping until all addresses are in use, and for the last mappings.
const FILLER: usize = 16 << 20;
const PAGE: usize = 4096;

/// Starts a process that uses all shared addresses, so that other processes get their own.
fn start_filler() -> Result<Other> {
    let mut filler = Other::start(abi()?)?;
    ask(&mut filler, "fill")?;
    Ok(filler)
}

/// A locked node.
struct Held {
    node: Node,
    surface: Surface,
}

impl Held {
    fn new(client: &Client, pool: Pool) -> Result<Self> {
        let (node, surface) = locked_surface(client, BYTES, pool, false)?;
        Ok(Self { node, surface })
    }

    fn import(client: &Client, name: u64, pool: Pool) -> Result<Self> {
        let (status, handle) = client.device().import_node(name)?;
        same("IMPORT", status, Status::OK)?;
        let node = Node {
            handle,
            pool,
            bytes: BYTES,
            surface_type: 6,
        };
        let location = client.device().lock(node)?;
        let memory = client.device().memory(node, location, client.pool())?;
        let surface = surface_at(location.address, memory)?;
        Ok(Self { node, surface })
    }

    fn address(&self) -> u32 {
        self.surface.location.address
    }

    fn end(self, client: &Client) -> Result<()> {
        video::unlock(client.device(), self.node)?;
        client.device().free(self.node)?;
        Ok(client.finish()?)
    }
}

/// Runs in the other process: allocates memory, and reports whether its commands reach other memory.
fn be_other() -> Result<()> {
    let mut client = client()?;
    let mut held: Option<Held> = None;
    let (mut screen, mut filler) = (None, None);
    let done = other::serve(|words| {
        let value =
            |index: usize| -> Result<u64> { Ok(words.get(index).context("word")?.parse()?) };
        let number = match words[0] {
            // Allocates a node and replies with its GPU address.
            "have" => {
                let new = Held::new(&client, Pool(value(1)? as u32))?;
                new.surface.memory.fill(SECRET);
                let address = new.address();
                held = Some(new);
                address.into()
            }
            "name" => {
                let node = held.as_ref().context("no node")?.node;
                let (status, name) = client.device().name_node(node.handle)?;
                same("NAME", status, Status::OK)?;
                name
            }
            // Draws with another core.
            "core" => {
                client = Client::with_device(Device::open_core(value(1)? as usize)?)?;
                0
            }
            // An empty draw, which will hang the core.
            "hang" => {
                let surface = &held.as_ref().context("no node")?.surface;
                let _ = gpu_fill(&mut client, surface, DRAWN);
                0
            }
            // Maps memory until no addresses are left.
            "fill" => {
                let memory = Memory::new(sys::Region::anonymous(FILLER)?);
                for bytes in [FILLER, FILLER >> 4, FILLER >> 8, PAGE] {
                    while client
                        .device()
                        .map_user(memory.address(), bytes as u64)
                        .is_ok()
                    {}
                }
                filler = Some(memory);
                0
            }
            // The word that fills all of its memory.
            "read" => {
                let memory = &held.as_ref().context("no node")?.surface.memory;
                let value = memory.read(0);
                expect_all("all of it", memory, value)?;
                value.into()
            }
            // Its own commands draw on its node.
            "draw" => {
                let surface = &held.as_ref().context("no node")?.surface;
                gpu_fill(&mut client, surface, value(1)? as u32)?;
                0
            }
            // Maps the screen, draws on it, and replies with its address.
            "screen" => {
                let new = Screen::open()?;
                let memory = new.map()?;
                let asked = MapUserMemory {
                    memory: memory.address(),
                    physical: new.physical,
                    size: new.bytes as u64,
                    ..Default::default()
                };
                let (status, answer) = client.device().send(Command::MAP_USER_MEMORY, &asked)?;
                same("MAP", status, Status::OK)?;
                let part = memory.part(SECOND, BYTES as usize).context("part")?;
                let target = surface_at(answer.address + SECOND as u32, part.clone())?;
                gpu_fill(&mut client, &target, SECRET)?;
                expect_all("the screen", &part, SECRET)?;
                screen = Some(memory);
                answer.address.into()
            }
            "reach" => {
                let own = Held::new(&client, Pool::SYSTEM)?;
                let target = foreign(value(1)? as u32, &own.surface);
                gpu_fill(&mut client, &target, DRAWN)?;
                own.end(&client)?;
                0
            }
            "end" => {
                held.take().context("no node")?.end(&client)?;
                0
            }
            word => bail!("what is {word}?"),
        };
        Ok(number.to_string())
    });
    drop((screen, filler));
    done
}

fn ask(other: &mut Other, what: &str) -> Result<u64> {
    Ok(other.ask(what)?.parse()?)
}

/// A surface at `address` that this process does not own.
fn foreign(address: u32, like: &Surface) -> Surface {
    Surface {
        node: video::node(0),
        location: Location {
            address,
            logical: 0,
        },
        memory: like.memory.clone(),
        ..*like
    }
}

/// Whether the MMU blocks an access during `run`.
fn is_refused(control: &Control, run: impl FnOnce() -> Result<()>) -> Result<bool> {
    Ok(control.exceptions(run)? > 0)
}

/// Fails unless both a draw to `address` and a copy from it are blocked.
fn expect_apart(control: &Control, client: &mut Client, address: u32) -> Result<()> {
    let own = Held::new(client, Pool::SYSTEM)?;
    own.surface.memory.fill(UNTOUCHED);
    let target = foreign(address, &own.surface);
    ensure!(
        is_refused(control, || gpu_fill(client, &target, DRAWN))?,
        "a draw at {address:#x} was let through"
    );
    expect_all("beside the draw", &own.surface.memory, UNTOUCHED)?;
    ensure!(
        is_refused(control, || gpu_copy(client, &target, &own.surface))?,
        "a copy from {address:#x} was let through"
    );
    let memory: &Memory = &own.surface.memory;
    let found = (0..memory.len())
        .step_by(4)
        .find(|&at| memory.read(at) == SECRET);
    same("where a word of the other was copied to", found, None)?;
    own.end(client)
}

/// Another process's memory is unreachable, before and after both have drawn.
fn apart(control: &Control, pool: Pool) -> Result<()> {
    let mut client = client()?;
    let mut other = Other::start(abi()?)?;
    let address = ask(&mut other, &format!("have {}", pool.0))? as u32;
    expect_apart(control, &mut client, address)?;
    same("the other's", ask(&mut other, "read")?, SECRET.into())?;
    for colour in [SECRET, 0x1234_5678, SECRET] {
        ask(&mut other, &format!("draw {colour}"))?;
        let own = Held::new(&client, pool)?;
        gpu_fill(&mut client, &own.surface, DRAWN)?;
        expect_all("its own", &own.surface.memory, DRAWN)?;
        own.end(&client)?;
        same("the other's", ask(&mut other, "read")?, colour.into())?;
    }
    expect_apart(control, &mut client, address)?;
    same("the other's", ask(&mut other, "read")?, SECRET.into())
}

/// An imported node is reachable until it is freed, in each round. Its owner can reach it all the time.
fn imported(control: &Control, pool: Pool, is_own: bool) -> Result<()> {
    let mut client = client()?;
    let mut other = Other::start(abi()?)?;
    let address = ask(&mut other, &format!("have {}", pool.0))? as u32;
    let name = ask(&mut other, "name")?;
    let own = Held::new(&client, pool)?;
    let has_others = is_own && pool == Pool::VIRTUAL;
    same(
        "whether its own is there, too",
        own.address() == address,
        has_others,
    )?;
    own.surface.memory.fill(UNTOUCHED);
    for round in 0..3u32 {
        let held = Held::import(&client, name, pool)?;
        let place = held.address();
        same("whether it has another", place != address, has_others)?;
        // A second import returns the same handle, which is in the tables once.
        let (status, again) = client.device().import_node(name)?;
        same("IMPORT", (status, again), (Status::OK, held.node.handle))?;
        client.device().free(held.node)?;
        gpu_fill(&mut client, &held.surface, DRAWN + round)?;
        let found = ask(&mut other, "read")?;
        same("the other's", found, u64::from(DRAWN + round))?;
        held.end(&client)?;
        ask(&mut other, &format!("draw {SECRET}"))?;
        at_rest(|| Ok(()))?;
        expect_apart(control, &mut client, place)?;
        same("the other's", ask(&mut other, "read")?, SECRET.into())?;
    }
    expect_all("its own", &own.surface.memory, UNTOUCHED)?;
    own.end(&client)
}

/// Processes draw at the same time on all cores with MMU version 2. With `is_own` they use the same address for
/// different memory. Meanwhile another process hangs the core, and the machine sleeps.
fn at_once(control: &Control, rounds: u32, is_own: bool) -> Result<()> {
    let _filler = is_own.then(start_filler).transpose()?;
    let cores = if Control::open_core(1).is_ok() { 2 } else { 1 };
    let mut artists = (0..4)
        .map(|number| -> Result<Other> {
            let mut artist = Other::start(abi()?)?;
            ask(&mut artist, &format!("core {}", number % cores))?;
            Ok(artist)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut culprit = Other::start(abi()?)?;
    let have = format!("have {}", Pool::VIRTUAL.0);
    let address = ask(&mut culprit, &have)?;
    for artist in &mut artists {
        same(
            "whether the address is one",
            ask(artist, &have)? == address,
            is_own,
        )?;
    }
    for round in 0..rounds {
        let colour = |number: usize| (round << 8 | number as u32) + 1;
        for (number, artist) in artists.iter_mut().enumerate() {
            artist.tell(&format!("draw {}", colour(number)))?;
        }
        for artist in &mut artists {
            artist.answer()?;
        }
        for (number, artist) in artists.iter_mut().enumerate() {
            same("what it has", ask(artist, "read")?, colour(number).into())?;
        }
        if round == rounds / 3 {
            let before = control.counters().resets;
            control.write(fault::HANG_KIND, fault::HANG_ILLEGAL_OPCODE);
            control.write(fault::HANG_AT_DRAW, 1);
            ask(&mut culprit, "hang")?;
            same("resets", control.counters().resets, before + 1)?;
        }
        if round == rounds * 2 / 3 {
            system::sleep_devices()?;
        }
    }
    same("the culprit's", ask(&mut culprit, "read")?, SECRET.into())
}

/// Freed memory is unreachable. Its addresses lead to the next owner's memory.
fn freed(control: &Control, pool: Pool) -> Result<()> {
    let mut client = client()?;
    let held = Held::new(&client, pool)?;
    let address = held.address();
    gpu_fill(&mut client, &held.surface, DRAWN)?;
    held.end(&client)?;
    at_rest(|| Ok(()))?;
    // The memory may now belong to another process or be free.
    let mut other = Other::start(abi()?)?;
    for _ in 0..8 {
        if ask(&mut other, &format!("have {}", pool.0))? as u32 == address {
            break;
        }
    }
    expect_apart(control, &mut client, address)
}

/// Unmapped user memory is unreachable.
fn user_memory(control: &Control) -> Result<()> {
    let mut client = client()?;
    let region = sys::Region::anonymous(BYTES as usize)?;
    let memory = Memory::new(region);
    memory.fill(SECRET);
    let mapping = client
        .device()
        .map_user(memory.address(), u64::from(BYTES))?;
    gpu_fill(
        &mut client,
        &surface_at(mapping.address, memory.clone())?,
        DRAWN,
    )?;
    expect_all("its own", &memory, DRAWN)?;
    client.device().unmap_user(&mapping)?;
    client.finish()?;
    at_rest(|| Ok(()))?;
    expect_apart(control, &mut client, mapping.address)?;
    expect_all("its own", &memory, DRAWN)?;
    Ok(())
}

/// A framebuffer that no process maps any more is unreachable for all processes, whenever they opened the device.
fn framebuffer(control: &Control) -> Result<()> {
    let memory = Screen::open()?.map()?;
    let mut early = Other::start(abi()?)?;
    let mut artist = Other::start(abi()?)?;
    let address = ask(&mut artist, "screen")? + SECOND as u64;
    let mut late = Other::start(abi()?)?;
    drop(artist);
    at_rest(|| Ok(()))?;
    let mut after = Other::start(abi()?)?;
    for other in [&mut early, &mut late, &mut after] {
        let ask = || other.ask(&format!("reach {address}")).map(drop);
        ensure!(is_refused(control, ask)?, "the screen is in reach");
    }
    let part = memory.part(SECOND, BYTES as usize).context("part")?;
    expect_all("the screen", &part, SECRET)
}

/// Random fills, from this process's memory, another's or anywhere, with random strides: each is in this process's
/// memory, or an exception. No other process's memory changes.
fn random_fills_stay(control: &Control, count: u32) -> Result<()> {
    let mut random = Random::new(0x5bace);
    let mut client = client()?;
    let own = POOLS
        .map(|pool| Held::new(&client, pool))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let mut others = POOLS
        .map(|pool| -> Result<(Other, u32)> {
            let mut other = Other::start(abi()?)?;
            let address = ask(&mut other, &format!("have {}", pool.0))? as u32;
            Ok((other, address))
        })
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let (mut drawn, mut blocked) = (0, 0);
    for round in 0..count {
        let place = random.below(3) as usize;
        let base = match random.below(6) {
            0 => others[place].1,
            1 => random.below(u32::MAX),
            _ => own[place].address(),
        };
        let address = base.wrapping_add(random.below(2) * random.below(BYTES)) & !63;
        let stride = match random.below(5) {
            0 => others[place].1.wrapping_sub(address) & 0x3_ffc0,
            1 => 64 * random.below(0x1000),
            _ => 64 * (1 + random.below(4)),
        };
        let target = Surface {
            width: 16 * (1 + random.below(8)),
            height: 8 * (1 + random.below(8)),
            stride: stride.max(64),
            ..foreign(address, &own[place].surface)
        };
        let what = || {
            let Surface {
                width,
                height,
                stride,
                ..
            } = target;
            format!("round {round}: {width} x {height} at {address:#x}, stride {stride:#x}")
        };
        let last = (target.height - 1) * target.stride + 4 * target.width;
        let fits = own.iter().find_map(|held| {
            let at = address.wrapping_sub(held.address());
            (at < BYTES && last <= BYTES - at).then(|| (&held.surface.memory, at + last - 4))
        });
        let colour = DRAWN ^ round;
        let refused = is_refused(control, || gpu_fill(&mut client, &target, colour))?;
        match fits {
            Some(_) if refused => bail!("an exception of {}", what()),
            Some((memory, at)) => {
                same("the last pixel", memory.read(at as usize), colour).with_context(what)?;
            }
            None => {}
        }
        if refused {
            blocked += 1
        } else {
            drawn += 1
        }
        if round % 8 == 7 || round + 1 == count {
            for (other, _) in &mut others {
                let found = ask(other, "read").with_context(what)?;
                same("the other's", found, SECRET.into()).with_context(what)?;
            }
        }
    }
    println!("# {drawn} drawn, {blocked} blocked");
    ensure!(
        drawn > count / 8 && blocked > count / 8,
        "{drawn} drawn, {blocked} blocked"
    );
    for (other, _) in &mut others {
        ask(other, &format!("draw {DRAWN}"))?;
        same("the other's", ask(other, "read")?, DRAWN.into())?;
    }
    own.into_iter().try_for_each(|held| held.end(&client))
}

/// Many processes, each with its own resources, draw in turn.
fn crowd(rounds: u32) -> Result<()> {
    let children = (1..=CROWD).map(|number| {
        let arguments = [
            "--child",
            &number.to_string(),
            "--count",
            &rounds.to_string(),
        ];
        let mut command = system::again(&arguments)?;
        Ok(command.stdout(std::process::Stdio::piped()).spawn()?)
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    for child in children {
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{} {text}", output.status);
    }
    Ok(())
}

fn draw(number: u32, rounds: u32) -> Result<()> {
    let mut paint = Paint::new()?;
    for round in 0..rounds {
        paint.prove(number << 24 | round)?;
    }
    paint.close()
}

/// The number of processes that opened the device, and the errno of the next open.
fn said(orphans: &Orphans) -> (u32, i32) {
    (orphans.files.len() as u32, orphans.error)
}

/// Limits of page tables for one user and for all users. A process that has tables can still draw.
fn limits() -> Result<()> {
    system::allow_files(1024)?;
    let mut paint = Paint::new()?;
    let again = rustix::io::Errno::AGAIN.raw_os_error();
    system::for_everybody(|| {
        let attempt = |count, user| -> Result<Orphans> { Ok(sys::orphan(NODE, count, user)?) };
        let mut all = Vec::new();
        for user in 1001..1004 {
            let own = attempt(OF_ONE_USER + 20, user)?;
            same("of one user", said(&own), (OF_ONE_USER, again))?;
            all.push(own);
        }
        let rest = attempt(OF_ONE_USER, 1004)?;
        same("why there are no more", rest.error, again)?;
        // This process also has tables.
        let left = OF_ALL - RESERVED - 3 * OF_ONE_USER;
        ensure!(
            (left - 4..left).contains(&said(&rest).0),
            "{:?}",
            said(&rest)
        );
        let administrator = attempt(RESERVED + 10, 0)?;
        let wanted = (RESERVED, again);
        same("the administrator's", said(&administrator), wanted)?;
        paint.prove(DRAWN)?;
        drop((all, rest, administrator));
        harness::eventually("it may again", std::time::Duration::from_secs(60), || {
            Ok(said(&attempt(1, 1001)?) == (1, 0))
        })
    })?;
    paint.close()
}

/// Fills that keep the core busy, and short-lived processes meanwhile, more than the limit allows at once.
const LARGE_FILLS: u32 = 40;
const COME: u32 = 200;

/// An exited process counts until all jobs pending at that time have ended. `open` waits for that.
fn come_and_go() -> Result<()> {
    let mut client = client()?;
    let (node, surface) = locked_surface(&client, 2 << 20, Pool::SYSTEM, false)?;
    let (engine, mut fill) = (client.engine(), Stream::new());
    let all = Rect::new(0, 0, surface.width, surface.height);
    engine.fill(&mut fill, &surface, all, DRAWN);
    fill.flush(engine.pipe());
    for _ in 0..LARGE_FILLS {
        client.commit(engine.pipe(), &fill, &mut Queue::new())?;
    }
    system::for_everybody(|| {
        (0..COME).try_for_each(|number| {
            let one = sys::orphan(NODE, 1, 1002)?;
            same("errno of an open", (number, one.error), (number, 0))
        })
    })?;
    video::unlock(client.device(), node)?;
    client.device().free(node)?;
    Ok(client.finish()?)
}

fn main() -> ExitCode {
    if let Some(code) = other::role(|_| be_other()) {
        return code;
    }
    let options = match Options::parse(&["count", "fills", "child", "own"]) {
        Ok(options) => options,
        Err(error) => {
            println!("# {error:#}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(number) = options.get("child") {
        let go = || draw(number.parse()?, options.number("count", 10)?);
        return harness::exit(go());
    }
    harness::program(|| {
        let rounds = options.number("count", 10)?;
        let fills = options.number("fills", 10 * rounds)?;
        let is_own = options.get("own").is_some();
        let control = &Control::open()?;
        let used = at_rest(ProcGc::used_now)?;
        let mut suite = Suite::new();
        for pool in POOLS {
            suite.test(
                format!("{pool}: another's memory is out of reach"),
                move || apart(control, pool),
            );
            suite.test(
                format!("{pool}: a named node is in reach while it is imported"),
                move || imported(control, pool, false),
            );
            suite.test(format!("{pool}: freed memory is out of reach"), move || {
                freed(control, pool)
            });
        }
        if is_own {
            suite.test(
                "a named node has another address if its own is taken",
                || {
                    let _filler = start_filler()?;
                    imported(control, Pool::VIRTUAL, true)
                },
            );
        }
        suite.test("user memory that is unmapped is out of reach", || {
            user_memory(control)
        });
        suite.test("a framebuffer is out of reach that none has mapped", || {
            if Path::new(Screen::NODE).exists() {
                framebuffer(control)
            } else {
                harness::skip("there is no framebuffer")
            }
        });
        suite.test(
            format!("{fills} random fills are in the process's memory or blocked"),
            move || random_fills_stay(control, fills),
        );
        suite.test("processes draw at once, over a hang and sleep", move || {
            at_once(control, 10 * rounds, is_own)
        });
        suite.test(format!("{CROWD} processes draw in turn"), move || {
            crowd(rounds)
        });
        suite.test("processes come and go while the core is busy", come_and_go);
        suite.test("as many tables as there may be", limits);
        suite.test("as much memory used as before", move || {
            settles("KiB used", used, ProcGc::used_now)
        });
        suite.test("no violation that was not asked for", move || {
            same("violations", control.violations(), 0)
        });
        suite.run().context("spaces")
    })
}
