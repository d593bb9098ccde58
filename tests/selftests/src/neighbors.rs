// SPDX-License-Identifier: GPL-2.0-only
//! Nodes of two processes that alternate in the pool. A draw past the end of one process's node changes a node of the
//! other.

use std::process::ExitCode;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::stream::Pipe;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;

use crate::fixture::Paint;
use crate::fixture::HEIGHT;
use crate::fixture::WIDTH;
use crate::hostile::gaps;
use crate::other;
use crate::other::Other;

/// The contents of the other process's memory.
pub const THEIRS: u32 = 0x0ddb_a115;

/// Runs the other process, with its own memory, if the arguments ask for it.
pub fn role() -> Option<ExitCode> {
    other::role(|_| be_other())
}

fn be_other() -> Result<()> {
    let client = Client::start()?;
    let device = client.device();
    let mut nodes = Vec::new();
    let mut kept = None;
    other::serve(|words| match *words {
        ["take"] => {
            let node = device.allocate(BYTES, 64, surface::BITMAP, Pool::SYSTEM)?;
            let location = device.lock(node)?;
            let memory = device.memory(node, location, client.pool())?;
            memory.fill(THEIRS);
            nodes.push(memory);
            Ok(location.address.to_string())
        }
        ["intact"] => {
            let changed = nodes.iter().filter_map(|own| own.find_other_than(THEIRS));
            Ok(format!("{:x?}", changed.collect::<Vec<_>>()))
        }
        // Leaves the 2D engine in another state.
        ["draw"] => {
            let mut paint = Paint::new()?;
            paint.prove(0xff00_7007)?;
            Ok("drawn".to_string())
        }
        // Loads colours of the 2D engine while the 3D engine is selected.
        ["recolour"] => {
            let mut stream = Stream::new();
            stream
                .states(0x1268, &[0xf, 0, THEIRS, THEIRS])
                .state(0x12c0, THEIRS);
            Paint::new()?.client.run(Pipe::Pipe3d, &stream)?;
            Ok("recoloured".to_string())
        }
        ["fill"] => {
            kept.insert(Paint::new()?).prove(OURS)?;
            Ok("filled".to_string())
        }
        // Commits another colour and an END. The `nth` allocation of the kernel's fails.
        ["refuse", nth] => {
            let paint = kept.as_mut().context("nothing is filled")?;
            let mut stream = paint.fill_all(THEIRS);
            stream.raw(&[0x1000_0000, 0]);
            let commit = || paint.commit(&stream, &mut Queue::new());
            let (answer, is_reached) = gaps::fail_nth(nth.parse()?, commit)?;
            ensure!(answer.is_err(), "END runs");
            Ok(is_reached.to_string())
        }
        // Draws with what is loaded.
        ["bare"] => {
            let paint = kept.as_mut().context("nothing is filled")?;
            paint.surface.memory.fill(0);
            let mut stream = Stream::new();
            stream.draw_2d(&[(0, HEIGHT << 16 | WIDTH)]);
            stream.flush(Pipe::Pipe2d);
            paint.run(&stream)?;
            paint.expect(|_, _| OURS)?;
            Ok("drawn".to_string())
        }
        _ => bail!("{words:?}?"),
    })
}

/// The contents of this process's memory.
pub const OURS: u32 = 0x5a5a_5a5a;

/// Bytes of a node.
pub const BYTES: u32 = 0x4000;

/// Nodes of this process, each followed by a node of another process.
pub struct Bench<'a> {
    /// The device of this process.
    pub device: &'a Device,
    /// The other process, which serves [`be_other`].
    pub other: Other,
    /// Node, address and memory of each node of this process.
    pub own: Vec<(Node, u32, Memory)>,
    theirs: Vec<u32>,
    buffer: Buffer,
}

impl<'a> Bench<'a> {
    /// Allocates four nodes in each process.
    pub fn new(client: &'a Client) -> Result<Self> {
        let device = client.device();
        let mut other = Other::start(device.abi())?;
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let node = device.allocate(BYTES, 64, surface::BITMAP, Pool::SYSTEM)?;
            let location = device.lock(node)?;
            let memory = device.memory(node, location, client.pool())?;
            memory.fill(OURS);
            own.push((node, location.address, memory));
            theirs.push(other.ask("take")?.parse::<u32>()?);
        }
        Ok(Self {
            device,
            other,
            own,
            theirs,
            buffer: device.allocate_contiguous(0x4000)?,
        })
    }

    /// Commits a stream that begins with the pipe of an engine, and waits for it, unless it is refused.
    pub fn send(&self, pipe: Pipe, stream: &Stream) -> Result<Status> {
        self.send_from(&self.buffer, pipe, stream)
    }

    /// Like [`Bench::send`], from a buffer of the caller.
    pub fn send_from(&self, buffer: &Buffer, pipe: Pipe, stream: &Stream) -> Result<Status> {
        let record = place(buffer, 0, pipe, stream);
        let status = self.device.send_commit(&record, 0, &mut Queue::new())?;
        if status == Status::OK {
            self.device.stall()?;
        }
        Ok(status)
    }

    /// Fails if the memory of this process has another word than [`OURS`]. `what` names the round.
    pub fn expect_ours(&self, what: impl Fn() -> String) -> Result<()> {
        let mut nodes = self.own.iter().map(|own| &own.2);
        let other = nodes.find_map(|memory| memory.find_other_than(OURS));
        ensure!(other.is_none(), "ours: {other:x?}, {}", what());
        Ok(())
    }

    /// Whether all of this process's memory is looked at after a round of `count`: of many, after each eighth.
    pub fn looks_at_all(round: u32, count: u32) -> bool {
        count <= 10_000 || round % 8 == 7
    }

    /// Fails if the memory of the other process has changed. `what` names the last of eight rounds.
    pub fn expect_theirs(&mut self, what: impl Fn() -> String) -> Result<()> {
        let answer = self.other.ask("intact")?;
        ensure!(
            answer == "[]",
            "theirs: {answer}, {} or the 7 before",
            what()
        );
        Ok(())
    }

    /// The distance from `address` to the other process's next node, if it is below the longest stride.
    pub fn far(&self, address: u32) -> Option<u32> {
        let far = self.theirs.iter().filter_map(|to| to.checked_sub(address));
        far.filter(|far| *far < 0x3_0000).min()
    }

    /// Frees everything that this process owns.
    pub fn close(self) -> Result<()> {
        self.device.free_contiguous(&self.buffer)?;
        for (node, ..) in self.own {
            self.device.unlock_all(node)?;
            self.device.free(node)?;
        }
        Ok(())
    }
}

/// Number of random kicks that were drawn, and that were refused.
#[derive(Default)]
pub struct Answers {
    drawn: u32,
    refused: u32,
}

impl Answers {
    /// Counts the answer to a kick. `what` names it.
    pub fn note(&mut self, status: Status, what: impl Fn() -> String) -> Result<()> {
        match status {
            Status::OK => self.drawn += 1,
            Status::INVALID_DATA => self.refused += 1,
            status => bail!("{status:?}: {}", what()),
        }
        Ok(())
    }

    /// Fails unless both are more than an eighth of `count` kicks.
    pub fn check(&self, count: u32) -> Result<()> {
        let Self { drawn, refused } = *self;
        println!("# {drawn} drawn, {refused} refused");
        ensure!(
            drawn > count / 8 && refused > count / 8,
            "{drawn} drawn, {refused} refused"
        );
        Ok(())
    }
}
