// SPDX-License-Identifier: GPL-2.0-only
//! Device files used by a program that did not open them: inherited by exec or fork, or received from another process.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::process::ExitCode;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::raw::copied;
use galcore_client::raw::sharing_memory;
use galcore_client::sys::become_user;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::uapi::cache;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Surface;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::descriptor_of;
use galcore_selftests::other::Other;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::locked_surface;
use galcore_selftests::video::surface_at;
use rustix::process::Resource;
use rustix::process::Rlimit;

/// An ordinary user.
const USER: u32 = 1000;

/// The set-uid program: a copy of this one.
const SET_UID: &str = "/inherited-root";

const PAGE: usize = 4096;

/// Bytes of the victim's surface, and of its own memory.
const BYTES: usize = 4 * PAGE;

const SECRET: u32 = 0x5ec7_e700;
const OWN: u32 = 0x0c0f_fee0;

/// Written by a process that has no right to.
const STAIN: u32 = 0xbad0_bad0;

/// The status of all memory and job commands on a file of another program.
const PASSED_ON: Status = Status::INVALID_DATA;

/// The state of one process.
#[derive(Default)]
struct State {
    device: Option<Device>,
    client: Option<Client>,
    shown: Option<(Surface, Memory)>,
}

fn parse(words: &[&str], at: usize) -> Result<u32> {
    let word = words.get(at).context("too few words")?;
    Ok(word.parse()?)
}

fn status_of<T>(result: device::Result<T>) -> Result<Status> {
    match result {
        Ok(_) => Ok(Status::OK),
        Err(device::Error::Status(_, status)) => Ok(status),
        Err(error) => Err(error.into()),
    }
}

impl State {
    fn device(&self) -> Result<&Device> {
        self.device.as_ref().context("no device")
    }

    /// Makes a surface and own memory visible to the GPU. Returns the node's handle and both GPU addresses.
    fn show(&mut self) -> Result<String> {
        let mut client = Client::start()?;
        let (node, surface) = locked_surface(&client, BYTES as u32, Pool::SYSTEM, false)?;
        gpu_fill(&mut client, &surface, SECRET)?;
        let own = Memory::new(Region::anonymous(BYTES)?);
        own.fill(OWN);
        let mapping = client.device().map_user(own.address(), BYTES as u64)?;
        let answer = format!(
            "{} {} {}",
            node.handle, surface.location.address, mapping.address
        );
        self.shown = Some((surface, own));
        self.client = Some(client);
        Ok(answer)
    }

    /// Checks that both are unchanged.
    fn look(&self) -> Result<String> {
        let (surface, own) = self.shown.as_ref().context("nothing is shown")?;
        let device = self.client.as_ref().context("no client")?.device();
        expect_all("the surface", &surface.memory, SECRET)?;
        device.cache(cache::INVALIDATE, 0, own.address(), BYTES as u64)?;
        expect_all("its own memory", own, OWN)?;
        Ok("whole".to_string())
    }

    /// The status of LOCK for a handle, and the first word of the mapped memory.
    fn read(&self, handle: u32) -> Result<String> {
        let device = self.device()?;
        // Before LOCK, which returns the node's place in the pool.
        let pool = device.map_pool();
        let node = Node {
            handle: handle.into(),
            pool: Pool::SYSTEM,
            bytes: BYTES as u32,
            surface_type: uapi::surface::BITMAP,
        };
        let location = match device.lock(node) {
            Ok(location) => location,
            Err(device::Error::Status(_, status)) => return Ok(format!("{} 0", status.0)),
            Err(error) => return Err(error.into()),
        };
        let memory = device.memory(node, location, &pool?)?;
        Ok(format!("0 {}", memory.read(0)))
    }

    /// Makes the GPU write to an address.
    fn fill(&mut self, address: u32) -> Result<String> {
        let file = self.device()?.file().try_clone()?;
        let memory = Memory::new(Region::anonymous(BYTES)?);
        let drawn = || -> Result<()> {
            let mut client = Client::with_device(Device::of_file(file)?)?;
            gpu_fill(&mut client, &surface_at(address, memory)?, STAIN)
        };
        Ok(match drawn() {
            Ok(()) => "drawn".to_string(),
            Err(error) => format!("refused: {error:#}"),
        })
    }
}

/// Runs in one of the processes.
fn be_other(abi: &'static Abi) -> Result<()> {
    if let Some(word) = std::env::args().nth(3) {
        println!("{word}");
    }
    let mut state = State::default();
    other::serve(|words| match words[0] {
        "user" => {
            become_user(parse(words, 1)?)?;
            Ok("changed".to_string())
        }
        "open" => {
            let device = Device::open()?;
            let number = device.file().as_raw_fd();
            state.device = Some(device);
            Ok(format!("{} {number}", std::process::id()))
        }
        "take" => {
            let file = descriptor_of(parse(words, 1)? as i32, parse(words, 2)? as i32)?;
            state.device = Some(Device::of_file(File::from(file))?);
            Ok("taken".to_string())
        }
        "exec" => {
            let program = match words.get(1) {
                Some(_) => SET_UID.into(),
                None => std::env::current_exe()?,
            };
            let arguments = [other::ARGUMENT, abi.name, "executed"];
            Err(Command::new(program).args(arguments).exec().into())
        }
        "fork" => fork(),
        "destructors" => destructors(),
        "show" => state.show(),
        "look" => state.look(),
        "read" => state.read(parse(words, 1)?),
        "fill" => state.fill(parse(words, 1)?),
        "pin" => {
            let bytes = parse(words, 1)? as usize;
            let limit = Rlimit {
                current: Some(bytes as u64),
                maximum: Some(bytes as u64),
            };
            rustix::process::setrlimit(Resource::Memlock, limit)?;
            become_user(USER)?;
            let device = Device::open()?;
            let number = device.file().as_raw_fd();
            let own = Memory::new(Region::anonymous(bytes)?);
            let mapped = status_of(device.map_user(own.address(), bytes as u64))?;
            state.device = Some(device);
            // Stays mapped until the process exits.
            std::mem::forget(own);
            Ok(format!("{} {} {number}", mapped.0, std::process::id()))
        }
        word => bail!("what is {word}?"),
    })
}

/// An ordinary user's process with the device open, and another process that received its file.
fn attackers() -> Result<(Other, Other)> {
    let (mut opener, mut keeper) = (Other::start(Abi::own())?, Other::start(Abi::own())?);
    opener.ask(&format!("user {USER}"))?;
    let file = opener.ask("open")?;
    keeper.ask(&format!("take {file}"))?;
    keeper.ask(&format!("user {USER}"))?;
    Ok((opener, keeper))
}

/// The user who executes a set-uid program must not reach that program's memory.
fn of_a_set_uid_program() -> Result<()> {
    let before = at_rest(ProcGc::used_now)?;
    system::with_set_uid(SET_UID, || {
        let (mut victim, mut keeper) = attackers()?;
        same("exec", victim.ask("exec set-uid")?.as_str(), "executed")?;
        victim.ask("user 0")?;
        let shown = victim.ask("show")?;
        let words: Vec<&str> = shown.split(' ').collect();
        let answer = keeper.ask(&format!("read {}", words[0]))?;
        let wanted = format!("{} 0", PASSED_ON.0);
        same("LOCK of its node, and what is seen", answer, wanted)?;
        for at in [1, 2] {
            let answer = keeper.ask(&format!("fill {}", words[at]))?;
            ensure!(answer.starts_with("refused"), "a fill: {answer}");
            same("the victim's memory", victim.ask("look")?.as_str(), "whole")?;
        }
        // With a file of its own it is an ordinary client.
        keeper.ask("open")?;
        let answer = keeper.ask(&format!("read {}", words[0]))?;
        same(
            "LOCK by its own file",
            answer,
            format!("{} 0", Status::INVALID_OBJECT.0),
        )
    })?;
    settles("KiB used", before, ProcGc::used_now)
}

/// After exec, the new program has nothing of the old one.
fn of_an_executed_program() -> Result<()> {
    let mut opener = Other::start(Abi::own())?;
    let mut keeper = Other::start(Abi::own())?;
    let file = opener.ask("open")?;
    keeper.ask(&format!("take {file}"))?;
    let shown = opener.ask("show")?;
    let handle = shown.split(' ').next().context("a handle")?.to_string();
    same("exec", opener.ask("exec")?.as_str(), "executed")?;
    opener.ask("open")?;
    let answer = opener.ask(&format!("read {handle}"))?;
    same("LOCK", answer, format!("{} 0", Status::INVALID_OBJECT.0))?;
    opener.ask("show")?;
    same("its memory", opener.ask("look")?.as_str(), "whole")
}

/// Everything that a program is refused through another program's file.
fn are_refused(device: &Device, node: Node, context: u32, pool: u64) -> Result<()> {
    let own = Memory::new(Region::anonymous(PAGE)?);
    let bytes = PAGE as u64;
    refused(
        "ALLOCATE",
        device.allocate(4096, 64, 6, Pool::SYSTEM),
        PASSED_ON,
    )?;
    refused(
        "ALLOCATE_CONTIGUOUS",
        device.allocate_contiguous(bytes),
        PASSED_ON,
    )?;
    refused(
        "ALLOCATE_NON_PAGED",
        device.allocate_non_paged(bytes),
        PASSED_ON,
    )?;
    refused("LOCK", device.lock(node), PASSED_ON)?;
    refused("UNLOCK", device.unlock(node), PASSED_ON)?;
    refused("FREE", device.free(node), PASSED_ON)?;
    refused("MAP_USER", device.map_user(own.address(), bytes), PASSED_ON)?;
    refused("CACHE", device.cache(cache::FLUSH, 0, pool, 64), PASSED_ON)?;
    refused("ATTACH", device.attach(), PASSED_ON)?;
    refused("DETACH", device.detach(context), PASSED_ON)?;
    refused("STALL", device.stall(), PASSED_ON)?;
    let mut queue = Queue::new();
    queue.write_data(0x1000, STAIN);
    same("EVENT_COMMIT", device.send_queue(&mut queue)?, PASSED_ON)?;
    let mut queue = Queue::new();
    same("of free()", device.send_queue(queue.free(node))?, PASSED_ON)?;
    for offset in [0, uapi::COMPLETION_OFFSET] {
        ensure!(device.map(PAGE, offset).is_err(), "mmap at {offset:#x}");
    }
    ensure!(device.map_pool().is_err(), "the pool is mapped");
    Ok(())
}

/// Everything that a program may do through another program's file.
fn are_answered(device: &Device, signal: i32) -> Result<()> {
    device.version()?;
    device.identity()?;
    device.video_memory()?;
    device.chip_info()?;
    device.kernel_signal()?;
    device.set_signal(signal, true)?;
    Ok(())
}

/// Forks while the device is in use, and continues.
fn fork() -> Result<String> {
    let mut paint = Paint::new()?;
    let device = paint.device();
    let node = device.allocate(4096, 64, 6, Pool::SYSTEM)?;
    device.lock(node)?;
    let signal = device.create_signal(false)?;
    let pool = device.map_pool()?.address();
    let context = device.attach()?.context;
    let child = copied(|| {
        let done = are_refused(device, node, context, pool)
            .and_then(|()| are_answered(device, signal))
            // A file that the child opens is its own.
            .and_then(|()| Paint::new()?.prove(0xff00_1234));
        if let Err(error) = &done {
            eprintln!("the child: {error:#}");
        }
        done.is_ok()
    })?;
    same("the child", child.wait(60_000), Some(0))?;
    device.wait_signal(signal, 5000)?;
    // The parent has lost nothing.
    device.lock(node)?;
    device.detach(context)?;
    for _ in 0..2 {
        device.unlock_all(node)?;
    }
    device.free(node)?;
    paint.prove(0xff56_7890)?;
    paint.close()?;
    Ok("whole".to_string())
}

/// A library's destructors also run in a forked child. On Dove only the creator may destroy a signal.
fn destructors() -> Result<String> {
    let abi = Abi::named("dove").context("no facts of dove")?;
    let device = Device::open_as(abi, true)?;
    let signal = device.create_signal(false)?;
    let child = copied(|| {
        let destroyed = device.destroy_signal(signal);
        refused("DESTROY", destroyed, Status::INVALID_ARGUMENT).is_ok()
    })?;
    same("the child", child.wait(60_000), Some(0))?;
    device.set_signal(signal, true)?;
    device.wait_signal(signal, 1000)?;
    device.destroy_signal(signal)?;
    Ok("whole".to_string())
}

/// A process that shares the memory map may use the file like its owner, even if it has the device open itself.
fn of_a_shared_map() -> Result<()> {
    let device = Device::open_as(Abi::own(), true)?;
    let signal = device.create_signal(false)?;
    let done = sharing_memory(|| {
        let both = Device::open_as(Abi::own(), true)
            .and_then(|_open| device.commit_queue(Queue::new().signal(signal)));
        i32::from(both.is_err())
    })?;
    same("the other process", done, 0)?;
    device.wait_signal(signal, 5000)?;
    Ok(device.destroy_signal(signal)?)
}

/// Tests of forked processes.
fn of_a_forked_process() -> Result<()> {
    let before = at_rest(ProcGc::used_now)?;
    let mut parent = Other::start(Abi::own())?;
    same("the parent", parent.ask("fork")?.as_str(), "whole")?;
    same("of Dove", parent.ask("destructors")?.as_str(), "whole")?;
    drop(parent);
    settles("KiB used", before, ProcGc::used_now)
}

/// MiB that each of many processes pins. Their user may pin the same amount in total.
const PINNED: usize = 8;

/// Pinned pages and MMU entries.
fn in_use() -> Result<(u64, u64)> {
    Ok((system::pinned_by_all()?, ProcGc::mmu_used_now()?))
}

/// Pinned memory counts for the user even after the process has exited, as long as its files are open.
fn of_ended_processes() -> Result<()> {
    // Resources of earlier tests may still be on their way back.
    let (pages, entries) = at_rest(in_use)?;
    let is_back = || in_use().map(|(now, mapped)| now <= pages && mapped <= entries);
    let free = system::settled_free()?;
    let mut pinned = 0;
    system::for_everybody(|| {
        let mut files: Vec<OwnedFd> = Vec::new();
        let mut pin = |keeps: bool| -> Result<Status> {
            let mut child = Other::start(Abi::own())?;
            let answer = child.ask(&format!("pin {}", PINNED << 20))?;
            let words: Vec<&str> = answer.split(' ').collect();
            if keeps {
                let number = words[2].parse()?;
                files.push(descriptor_of(child.id(), number)?);
            }
            Ok(Status(words[0].parse()?))
        };
        for _ in 0..30 {
            match pin(true)? {
                Status::OK => pinned += PINNED,
                status => same("the next", status, Status::OUT_OF_RESOURCES)?,
            }
        }
        same("MiB that are pinned", pinned, PINNED)?;
        drop(files);
        settles("pins and MMU entries are back", true, is_back)?;
        // The whole amount is available again.
        let mut child = Other::start(Abi::own())?;
        let answer = child.ask(&format!("pin {}", PINNED << 20))?;
        ensure!(answer.starts_with("0 "), "once more: {answer}");
        Ok(())
    })?;
    settles("pins and MMU entries are back", true, is_back)?;
    // About a tenth of the total that the processes requested.
    system::memory_is_back(free, (PINNED << 10) as u64 * 3)
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        suite.test(
            "a forked process is refused its parent's memory and jobs, and has its own",
            of_a_forked_process,
        );
        suite.test(
            "a process that shares the memory map names itself",
            of_a_shared_map,
        );
        suite.test(
            "a program that is executed has nothing of the one before",
            of_an_executed_program,
        );
        suite.test(
            "who has executed a set-uid program neither reads nor writes its memory",
            of_a_set_uid_program,
        );
        suite.test(
            "what ended processes have pinned counts for their user",
            of_ended_processes,
        );
        suite.run()
    })
}
