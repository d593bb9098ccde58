// SPDX-License-Identifier: GPL-2.0-only
//! Sends every command of every generation of the interface with random payloads. Each call must return a status,
//! nothing may leak, and the driver must keep working. A concurrent thread maps, unmaps, and forks. Some requests find
//! no room in the process's address space. Where the kernel supports fault injection, some of its allocations fail.
//!
//! With `--passed`, the callers are processes that fork, execute a set-uid program, change their user, and pass open
//! files to each other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSlice;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::NODES;
use galcore_client::raw::copied;
use galcore_client::raw::Area;
use galcore_client::raw::Kind;
use galcore_client::sys;
use galcore_client::uapi;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::fixture::Paint;
use galcore_selftests::fixture::Random;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::hostile::beside;
use galcore_selftests::hostile::beside::Trouble;
use galcore_selftests::hostile::gaps;
use galcore_selftests::other::descriptor_of;
use galcore_selftests::system;
use galcore_selftests::system::ProcGc;
use rustix::net::RecvAncillaryBuffer;
use rustix::net::RecvAncillaryMessage;
use rustix::net::RecvFlags;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendAncillaryMessage;
use rustix::net::SendFlags;

/// Calls before the file is closed and a new one is opened.
const CALLS_OF_A_FILE: u32 = 250;

/// Memory of this process that payloads point to. It contains almost valid records and descriptors.
const SCRATCH_WORDS: usize = 4096;

/// Number of descriptors to keep.
const DESCRIPTORS: usize = 8;

/// Bytes of another driver's dma-buf.
const UDMABUF_BYTES: u64 = 4 * 4096;

/// Longest timeout of a WAIT, in milliseconds.
const WAIT_LIMIT: u64 = 2;

/// The set-uid program: a copy of this one.
const SET_UID: &str = "/fuzz-root";

/// First argument of a family process. The [`Member::arguments`] follow.
const MEMBER: &str = "--member";

/// Most device files that a process holds.
const FILES: usize = 6;

/// Most calls that a process delegates to a child.
const SHARE: u32 = 200;

/// Depth of the process tree below the first process.
const DEPTH: u32 = 2;

/// Calls of one family.
const FAMILY: u32 = 2_000;

/// Timeout for a child, in milliseconds.
const CHILD_LIMIT: u32 = 600_000;

struct Fuzz {
    random: Random,
    scratch: Vec<u32>,
    /// Some of the descriptors that the driver returned, and a dma-buf of another driver if available.
    descriptors: Vec<OwnedFd>,
    /// Number of replies with each status.
    statuses: BTreeMap<i64, u32>,
    /// Whether the kernel supports failing allocations.
    injects: bool,
}

impl Fuzz {
    fn new(seed: u32) -> Self {
        Self {
            random: Random::new(seed),
            scratch: vec![0; SCRATCH_WORDS],
            descriptors: Vec::new(),
            statuses: BTreeMap::new(),
            injects: gaps::inject().is_ok(),
        }
    }

    fn any(&mut self) -> u32 {
        self.random.below(0x10000) << 16 | self.random.below(0x10000)
    }

    /// An address in the scratch memory, often aligned.
    fn pointer(&mut self) -> u32 {
        let start = self.scratch.as_ptr() as usize as u32;
        let bytes = 4 * SCRATCH_WORDS as u32;
        let at = self.random.below(bytes);
        match self.random.below(8) {
            0 => start + at,
            1 => start + bytes - at % 64,
            _ => start + at / 64 * 64,
        }
    }

    /// A word that is likely to be meaningful.
    fn word(&mut self) -> u32 {
        match self.random.below(12) {
            0..=2 => 0,
            3 | 4 => self.random.below(8),
            5 | 6 => self.random.below(64),
            7 | 8 => self.pointer(),
            9 => self.random.below(0x10000) * 4096,
            10 => u32::MAX - self.random.below(4),
            _ => self.any(),
        }
    }

    /// A descriptor that may refer to a dma-buf or a fence.
    fn descriptor(&mut self) -> u64 {
        let at = self.random.below(self.descriptors.len() as u32 + 1) as usize;
        match self.descriptors.get(at) {
            Some(descriptor) => descriptor.as_raw_fd() as u64,
            None => u64::from(self.random.below(16)),
        }
    }

    /// Keeps a descriptor for a while. To keep all of them would use up the files and their memory.
    fn keep(&mut self, descriptor: OwnedFd) {
        if self.descriptors.len() >= DESCRIPTORS {
            let last = self.random.below(DESCRIPTORS as u32) as usize;
            self.descriptors.swap_remove(last);
        }
        self.descriptors.push(descriptor);
    }

    /// Adds another driver's dma-buf, if the kernel supports it.
    fn offer_udmabuf(&mut self) -> Result<()> {
        if let Some((_, descriptor)) = system::udmabuf(UDMABUF_BYTES)? {
            self.keep(descriptor);
        }
        Ok(())
    }

    fn fill_scratch(&mut self) {
        for at in 0..SCRATCH_WORDS {
            let word = match self.random.below(16) {
                // The magic numbers of command buffers and contexts.
                0 => 0x4244_4d43,
                1 => 0x5458_5443,
                _ => self.word(),
            };
            self.scratch[at] = word;
        }
    }

    /// Limits fields that would only cost time, or use all memory that the limits allow.
    fn restrain(&mut self, abi: &Abi, bytes: &mut [u8], member: &str) {
        let mut limit = |fuzz: &mut Self, field: &str, most: u32| {
            if abi.field(member, field).is_some() {
                let value = match fuzz.random.below(8) {
                    // More than any limit, so it is refused at once.
                    0 => u32::MAX - fuzz.random.below(0x1000_0000),
                    _ => fuzz.random.below(most),
                };
                abi.set(bytes, member, field, value.into());
            }
        };
        match member {
            "AllocateLinearVideoMemory" => limit(self, "bytes", 1 << 18),
            "AllocateContiguousMemory" | "AllocateNonPagedMemory" => limit(self, "bytes", 1 << 16),
            "AllocateVideoMemory" => {
                limit(self, "width", 256);
                limit(self, "height", 256);
                limit(self, "depth", 2);
            }
            "UserSignal" => {
                let wait = u64::from(self.random.below(2)) * WAIT_LIMIT;
                abi.set(bytes, member, "wait", wait);
            }
            "WaitNativeFence" => {
                let wait = u64::from(self.random.below(2)) * WAIT_LIMIT;
                abi.set(bytes, member, "timeout", wait);
                let descriptor = self.descriptor();
                abi.set(bytes, member, "fenceFD", descriptor);
            }
            "ShBuf" => {
                limit(self, "command", 6);
                limit(self, "bytes", 1100);
            }
            "WrapUserMemory" => {
                limit(self, "desc.size", 1 << 16);
                let kinds = ["ALLOC_FLAG_USERMEMORY", "ALLOC_FLAG_DMABUF"];
                let kind = kinds[self.random.below(2) as usize];
                abi.set(bytes, member, "desc.flag", abi.values[kind].into());
                let descriptor = self.descriptor();
                abi.set(bytes, member, "desc.handle", descriptor);
                if self.random.below(4) > 0 {
                    let pointer = self.pointer();
                    abi.set(bytes, member, "desc.logical", pointer.into());
                    abi.set(bytes, member, "desc.physical", u64::MAX);
                }
            }
            _ => {}
        }
    }

    /// Sends one of Russell King's ioctls.
    fn extension(&mut self, device: &Device) -> Result<()> {
        let mut bytes = [0; 96];
        for place in bytes.chunks_exact_mut(4) {
            place.copy_from_slice(&self.word().to_le_bytes());
        }
        let (request, usual) = match self.random.below(3) {
            0 => (uapi::IOC_GDMABUF_MAP, 88),
            1 => (uapi::IOC_GMEMBUF_MAP, 96),
            _ => (uapi::IOC_GDMABUF_MAP_OLD, 20),
        };
        let descriptor = self.descriptor() as u32;
        let pointer = self.pointer();
        let access = self.random.below(5);
        let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        match request {
            uapi::IOC_GDMABUF_MAP => {
                put(80, descriptor);
                put(84, access);
            }
            uapi::IOC_GMEMBUF_MAP => {
                put(80, pointer);
                put(84, 0);
                put(92, access);
            }
            _ => put(8, descriptor),
        }
        let length = match self.random.below(16) {
            0 => self.random.below(96) as usize,
            _ => usual,
        };
        match device.extension(request, &mut bytes[..length]) {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(25) => Ok(()),
            Err(error) => bail!("ioctl {request:#x}: {error}"),
        }
    }

    /// Sends one command to `device` with a random payload.
    fn call(&mut self, device: &Device) -> Result<()> {
        let abi = device.abi();
        let top = abi.commands.values().map(|(number, _)| *number).max();
        let number = self.random.below(top.unwrap_or(0) + 2);
        let mut bytes = vec![0; abi.sizes[0]];
        for place in bytes.chunks_exact_mut(4) {
            place.copy_from_slice(&self.word().to_le_bytes());
        }
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        if let Some((at, _)) = abi.header.get("hardwareType") {
            bytes[*at..at + 4].copy_from_slice(&self.random.below(9).to_le_bytes());
        }
        let command = abi.commands.iter().find(|(_, (value, _))| *value == number);
        if let Some((_, (_, member))) = command {
            self.restrain(abi, &mut bytes, member);
        }
        let trouble = Trouble::any(&mut self.random, self.injects);
        let status = match trouble.meet(|| device.exchange_bytes(&mut bytes))? {
            Ok(()) => i64::from(abi.header_of(&bytes, "status") as i32),
            // ENOTTY: the hardware type does not exist, or the request or its reply could not be copied.
            Err(error) if error.raw_os_error() == Some(25) => 1000,
            Err(error) => bail!("command {number} ({command:?}): {error}"),
        };
        let gives = match command {
            Some((name, _)) if status == 0 => match *name {
                "EXPORT_VIDEO_MEMORY" => Some("fd"),
                "GET_VIDEO_MEMORY_FD" => Some("fd"),
                "CREATE_NATIVE_FENCE" => Some("fenceFD"),
                _ => None,
            },
            _ => None,
        };
        if let (Some(field), Some((_, (_, member)))) = (gives, command) {
            let number = abi.get(&bytes, member, field);
            self.keep(sys::take_descriptor(number)?);
        }
        // 11: the register belongs to a core that is off. 13: nothing to read.
        ensure!(
            matches!(status, 1000 | 11 | 13) || (-26..=0).contains(&status),
            "command {number} ({command:?}): status {status}"
        );
        *self.statuses.entry(status).or_default() += 1;
        Ok(())
    }

    fn generation(&mut self, abi: &'static Abi, count: u32) -> Result<()> {
        let over = AtomicBool::new(false);
        let seed = self.any();
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| beside::map_and_fork(seed, &over));
            let called = self.calls(abi, count);
            over.store(true, Ordering::Relaxed);
            let steps = beside.join().ok().context("a panic")??;
            ensure!(steps > 0, "nothing was mapped beside it");
            called
        })
    }

    fn calls(&mut self, abi: &'static Abi, count: u32) -> Result<()> {
        let mut done = 0;
        while done < count {
            let device = Device::open_as(abi, true)?;
            self.fill_scratch();
            self.descriptors.clear();
            self.offer_udmabuf()?;
            for _ in 0..CALLS_OF_A_FILE.min(count - done) {
                let call = match self.random.below(32) {
                    0 => self.extension(&device),
                    _ => self.call(&device),
                };
                call.with_context(|| abi.name.to_string())?;
            }
            done += CALLS_OF_A_FILE.min(count - done);
        }
        Ok(())
    }
}

/// A process of a family that passes on its files.
struct Member {
    fuzz: Fuzz,
    abi: &'static Abi,
    /// Number of ancestors in the family.
    depth: u32,
    files: Vec<Device>,
    /// A pair of sockets that the whole family shares, if the kernel has sockets.
    sockets: Option<(OwnedFd, OwnedFd)>,
}

impl Member {
    fn new(abi: &'static Abi, seed: u32, depth: u32) -> Self {
        let mut fuzz = Fuzz::new(seed);
        // Fault injection needs root, and only works in the calling thread.
        fuzz.injects = false;
        fuzz.fill_scratch();
        Self {
            fuzz,
            abi,
            depth,
            files: Vec::new(),
            sockets: None,
        }
    }

    /// Restores the member from [`Member::arguments`] after exec.
    fn from_arguments(words: &[String]) -> Result<(Self, u32)> {
        let word = |at: usize| words.get(at).context("too few words");
        let abi = Abi::named(word(0)?).context("a generation")?;
        let mut member = Self::new(abi, word(2)?.parse()?, word(3)?.parse()?);
        for number in &words[4.min(words.len())..] {
            let file = sys::take_descriptor(number.parse()?)?;
            member.have(file);
        }
        Ok((member, word(1)?.parse()?))
    }

    /// The arguments with which another program continues for `count` calls.
    fn arguments(&mut self, count: u32) -> Vec<String> {
        let seed = self.fuzz.any();
        let mut all = vec![MEMBER.to_string(), self.abi.name.to_string()];
        all.extend([count, seed, self.depth].map(|number| number.to_string()));
        let files = self.files.iter().map(|device| device.file().as_raw_fd());
        all.extend(files.map(|number| number.to_string()));
        all
    }

    /// Adds `file` if it is a file of the device.
    fn have(&mut self, file: OwnedFd) {
        let is_device = || -> Result<bool> {
            let wanted = rustix::fs::stat(NODES[0])?.st_rdev;
            Ok(rustix::fs::fstat(&file)?.st_rdev == wanted)
        };
        if !is_device().unwrap_or(false) {
            return;
        }
        if let Ok(device) = Device::speaking(File::from(file), self.abi) {
            if self.files.len() >= FILES {
                let last = self.fuzz.random.below(FILES as u32) as usize;
                self.files.swap_remove(last);
            }
            self.files.push(device);
        }
    }

    /// A random file of this process.
    fn any_file(&mut self) -> Option<&Device> {
        let at = self.fuzz.random.below(self.files.len().max(1) as u32) as usize;
        self.files.get(at)
    }

    /// Takes a descriptor from another process.
    fn take(&mut self) -> Result<()> {
        let own = std::process::id() as i32;
        let process = match self.fuzz.random.below(2) {
            0 => std::os::unix::process::parent_id() as i32,
            _ => own + 1 + self.fuzz.random.below(4) as i32,
        };
        let number = 3 + self.fuzz.random.below(12) as i32;
        let file = descriptor_of(process, number)?;
        self.have(file);
        Ok(())
    }

    /// Sends a file through the socket.
    fn send(&mut self) -> Result<()> {
        let at = self.fuzz.random.below(self.files.len().max(1) as u32) as usize;
        let device = self.files.get(at).context("no file")?;
        let (socket, _) = self.sockets.as_ref().context("no sockets")?;
        let files = [device.file().as_fd()];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let byte = [IoSlice::new(b"f")];
        rustix::net::sendmsg(socket, &byte, &mut control, SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Receives a file from the socket.
    fn receive(&mut self) -> Result<()> {
        let (_, socket) = self.sockets.as_ref().context("no sockets")?;
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut byte = [0];
        let mut bytes = [IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(socket, &mut bytes, &mut control, flags)?;
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(all) = message {
                files.extend(all);
            }
        }
        files.into_iter().for_each(|file| self.have(file));
        Ok(())
    }

    /// Executes another program, which makes the remaining calls.
    fn execute(&mut self, count: u32) -> Result<()> {
        let program = match self.fuzz.random.below(2) {
            0 => SET_UID.into(),
            _ => std::env::current_exe()?,
        };
        for device in &self.files {
            let none = rustix::io::FdFlags::empty();
            rustix::io::fcntl_setfd(device.file(), none)?;
        }
        let arguments = self.arguments(count);
        Err(Command::new(program).args(arguments).exec().into())
    }

    /// Forks a child that makes `count` calls with this process's files. Returns whether it completed them.
    fn child(&mut self, count: u32) -> Result<bool> {
        let seed = self.fuzz.any();
        let is_killed = self.fuzz.random.below(8) == 0;
        let child = copied(|| {
            self.fuzz.random = Random::new(seed);
            self.depth += 1;
            let called = self.calls(count);
            if let Err(error) = &called {
                println!("# {}: {error:#}", self.abi.name);
            }
            called.is_ok()
        })?;
        // Makes some calls of its own at the same time.
        for _ in 0..8 {
            self.call()?;
        }
        if is_killed {
            child.end().context("a child that is killed does not end")?;
            return Ok(false);
        }
        let ended = child.wait(CHILD_LIMIT);
        ensure!(is_own_end(ended), "a child ended by {ended:?}");
        Ok(ended == Some(0))
    }

    /// Makes one call through a random file.
    fn call(&mut self) -> Result<()> {
        let at = self.fuzz.random.below(self.files.len().max(1) as u32) as usize;
        let Some(device) = self.files.get(at) else {
            return Ok(());
        };
        match self.fuzz.random.below(32) {
            0 => self.fuzz.extension(device),
            _ => self.fuzz.call(device),
        }
    }

    /// Makes `count` calls, by itself and by its children.
    fn calls(&mut self, count: u32) -> Result<()> {
        let mut done = 0;
        while done < count {
            let left = count - done;
            // Failures of these actions are ignored.
            match self.fuzz.random.below(128) {
                0..=3 => {
                    if let Ok(device) = Device::open_as(self.abi, true) {
                        self.have(device.file().try_clone()?.into());
                    }
                }
                4 if self.files.len() > 1 => drop(self.files.pop()),
                5 if self.depth < DEPTH => {
                    let share = self.fuzz.random.below(left.min(SHARE)) + 1;
                    if self.child(share)? {
                        done += share;
                    }
                }
                6 if self.depth > 0 => {
                    let user = [0, 1000, 1001][self.fuzz.random.below(3) as usize];
                    let _ = sys::become_user(user);
                }
                7 if self.depth > 0 => {
                    // Returns only if exec fails.
                    let _ = self.execute(left);
                }
                8 => {
                    let _ = self.take();
                }
                9 => {
                    let _ = self.send();
                }
                10 => {
                    let _ = self.receive();
                }
                11 | 12 => {
                    let kind = Kind {
                        private: false,
                        read_only: false,
                        populate: true,
                    };
                    if let Some(device) = self.any_file() {
                        let file: &dyn AsFd = device;
                        drop(Area::map(Some(file), 4096, 0, kind));
                    }
                }
                13 => self.fuzz.fill_scratch(),
                _ => {
                    self.call()?;
                    done += 1;
                }
            }
        }
        Ok(())
    }
}

/// Runs a family process.
fn be_member(words: &[String]) -> Result<()> {
    let (mut member, count) = Member::from_arguments(words)?;
    if member.depth == 0 {
        let kind = rustix::net::SocketType::DGRAM;
        member.sockets = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            kind,
            rustix::net::SocketFlags::empty(),
            None,
        )
        .ok();
    }
    member.calls(count)
}

/// Whether a process ended in an allowed way: normally, or by a memory fault signal of its own. Payloads contain
/// arbitrary addresses, so the driver's replies and the GPU's writes may corrupt the process that requested them.
fn is_own_end(ended: Option<i32>) -> bool {
    const OWN: [i32; 5] = [
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGSEGV,
        libc::SIGTRAP,
    ];
    ended.is_some_and(|ended| ended == 0 || OWN.contains(&-ended))
}

/// Makes `count` calls by families of processes, with an equal share for each generation of the interface. The calls of
/// a family that corrupted itself do not count.
fn passed(count: u32, mut seed: u32) -> Result<()> {
    let all = Abi::familiar();
    let share = count / all.len() as u32;
    system::with_set_uid(SET_UID, || {
        for abi in all {
            let (mut left, mut ruined, mut families) = (share, 0, 0);
            while left > 0 {
                let calls = left.min(FAMILY);
                let arguments = [MEMBER, abi.name, &calls.to_string(), &seed.to_string(), "0"];
                let status = system::again(&arguments)?.status()?;
                let ended = status.code().or(status.signal().map(|signal| -signal));
                ensure!(is_own_end(ended), "{}, seed {seed}: {status}", abi.name);
                if status.success() {
                    left -= calls
                } else {
                    ruined += 1
                }
                families += 1;
                seed += 1;
                ensure!(
                    ruined <= 1 + families / 2,
                    "{}: {ruined} families ruined",
                    abi.name
                );
            }
            println!("# {}: {families} families, {ruined} ruined", abi.name);
        }
        Ok(())
    })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == MEMBER) {
        // Single-threaded, because it forks.
        return match be_member(&words[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("# {}: {error:#}", words.join(" "));
                ExitCode::FAILURE
            }
        };
    }
    harness::program(|| {
        let options = Options::parse(&["count", "seed", "generation", "passed"])?;
        let count = options.number("count", 16_000)?;
        let seed = options.number("seed", 1)?;
        harness::allow(Duration::from_secs(120 + u64::from(count) / 100));
        if let Some(name) = options.get("generation") {
            let abi = Abi::named(name).context("no such generation")?;
            let mut fuzz = Fuzz::new(seed);
            fuzz.generation(abi, count)?;
            ensure!(fuzz.statuses.len() > 5, "nothing was looked at");
            println!("# {}: {:?}", abi.name, fuzz.statuses);
            return Ok(true);
        }
        let before = at_rest(in_use)?;
        let mut suite = Suite::new();
        if let Some(count) = options.get("passed") {
            let count: u32 = count.parse()?;
            harness::allow(Duration::from_secs(300 + u64::from(count) / 50));
            suite.test(
                format!("{count} calls of processes that hand on their files (seed {seed}) have an answer"),
                move || passed(count, seed),
            );
            after(&mut suite, before);
            return suite.run();
        }
        suite.test(
            format!("{count} calls with payloads at random (seed {seed}) have an answer"),
            move || {
                let all = Abi::familiar();
                let (count, seed) = ((count / all.len() as u32).to_string(), seed.to_string());
                for abi in all {
                    // A random mapping keeps a file open until the process exits.
                    let arguments = ["--generation", abi.name, "--count", &count, "--seed", &seed];
                    let status = system::again(&arguments)?.status()?;
                    ensure!(status.success(), "{}: {status}", abi.name);
                }
                Ok(())
            },
        );
        after(&mut suite, before);
        suite.run()
    })
}

/// Memory, MMU entries, and pinned pages in use.
fn in_use() -> Result<([u64; 3], u64, u64)> {
    let pinned = system::pinned_by_all()?;
    Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?, pinned))
}

/// Final checks.
fn after(suite: &mut Suite<'_>, before: ([u64; 3], u64, u64)) {
    suite.test("the GPU still draws", || Paint::new()?.prove(0xff12_3456));
    suite.test("nothing is lost", move || {
        settles("memory, MMU entries and pins in use", before, in_use)
    });
    suite.test("no memory of the driver's is lost", leaks);
}

/// Checks kmemleak's reports for the driver, on a kernel that was booted with `kmemleak=on`.
fn leaks() -> Result<()> {
    const FILE: &str = "/sys/kernel/debug/kmemleak";
    // After one scan kmemleak only suspects an object.
    for _ in 0..2 {
        if std::fs::write(FILE, "scan").is_err() {
            return skip("this kernel does not look for leaks (kmemleak=on)");
        }
    }
    let found = std::fs::read_to_string(FILE)?;
    let ours: Vec<&str> = found
        .split("unreferenced object")
        .filter(|report| report.contains("[galcore]"))
        .collect();
    ensure!(ours.is_empty(), "{} objects: {}", ours.len(), ours.join(""));
    Ok(())
}
