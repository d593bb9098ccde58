// SPDX-License-Identifier: GPL-2.0-only
//! Memory that goes to the GPU and back by way of bounce buffers (`swiotlb=force`): once a request that ends it has
//! returned, it is the client's, whatever others have under way.

use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Memory;
use galcore_client::sys::Region;
use galcore_client::uapi;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use gpu_control::fault;

use super::attacker::State;
use super::views::NEWER;
use super::PAGE;
use crate::control::Control;
use crate::fixture::Paint;
use crate::other::descriptor_of;
use crate::other::Other;
use crate::system::memory_file;
use crate::video::expect_all;
use crate::video::expect_pattern;
use crate::video::gpu_fill;
use crate::video::surface_at;
use crate::video::write_pattern;

/// Bytes of the memory.
const BYTES: usize = 8 * PAGE;

/// What the GPU writes.
const DRAWN: u32 = 0x0d0d_0d0d;

/// How late interrupts come meanwhile, in microseconds: what is under way seems to go on.
const LATE: u32 = 90_000;

/// Ways to end the GPU's use of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// UNMAP_USER_MEMORY.
    Unmap,
    /// FREE of a node that wraps it.
    Free,
    /// FREE of one that is locked twice, and the records that take the locks off.
    Records,
    /// The process that had it mapped ends.
    Exit,
}

impl End {
    /// How often it is tried: records take effect beside the process's own threads, and a work item of its.
    fn rounds(self) -> u32 {
        match self {
            End::Records => 20,
            End::Unmap | End::Free | End::Exit => 3,
        }
    }
}

fn client() -> Result<Client> {
    let newer = Abi::named(NEWER).context("abi")?;
    Ok(Client::with_device(Device::open_as(newer, true)?)?)
}

/// A process that has the GPU draw on shared memory, and has it mapped until it ends.
pub(super) fn share(state: &mut State) -> Result<String> {
    let file = memory_file(BYTES as u64)?;
    let memory = Memory::new(Region::map(&file, BYTES, 0)?);
    let mut client = client()?;
    let mapping = client.device().map_user(memory.address(), BYTES as u64)?;
    gpu_fill(
        &mut client,
        &surface_at(mapping.address, memory.clone())?,
        DRAWN,
    )?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    state.kept = vec![Box::new((file, memory, client))];
    Ok(format!("{} {number}", std::process::id()))
}

/// The GPU writes memory, its use is ended by `end` while another process's work is under way, and the memory is
/// written: what was written stands.
pub fn written_afterwards(control: &Control, end: End) -> Result<()> {
    let mut innocent = Paint::new()?;
    let done = innocent.device().create_signal(false)?;
    for round in 0..end.rounds() {
        let mut client = client()?;
        let mut sharer = None;
        let memory = match end {
            End::Exit => {
                let mut other = Other::start(Abi::own())?;
                let answer = other.ask("share")?;
                let words: Vec<&str> = answer.split(' ').collect();
                let file = descriptor_of(super::number(&words, 0)?, super::number(&words, 1)?)?;
                sharer = Some(other);
                Memory::new(Region::map(&file, BYTES, 0)?)
            }
            _ => Memory::new(Region::anonymous(BYTES)?),
        };
        let device = client.device();
        let (mut mapping, mut node) = (None, None);
        let address = match end {
            End::Unmap => {
                let made = device.map_user(memory.address(), BYTES as u64)?;
                mapping = Some(made);
                made.address
            }
            End::Free | End::Records => {
                let (status, handle) = device.wrap_memory(memory.address(), BYTES as u64)?;
                ensure!(status == uapi::Status::OK, "WRAP: status {status}");
                let made = crate::video::node(handle);
                node = Some(made);
                device.lock(made)?.address
            }
            End::Exit => 0,
        };
        if address != 0 {
            gpu_fill(&mut client, &surface_at(address, memory.clone())?, DRAWN)?;
        }
        if let (Some(node), End::Free) = (node, end) {
            crate::video::unlock(client.device(), node)?;
        }
        let armed = control.arm(fault::DELAY_INTERRUPTS, LATE);
        let stream = innocent.fill_cell(round, round);
        innocent.commit(&stream, Queue::new().signal(done))?;
        let device = client.device();
        if let Some(mapping) = &mapping {
            device.unmap_user(mapping)?;
        }
        if let Some(node) = node {
            if end == End::Records {
                device.lock(node)?;
                ensure!(device.unlock(node)? && device.unlock(node)?, "no record");
            }
            device.free(node)?;
            if end == End::Records {
                let gone = device.create_signal(false)?;
                device.commit_queue(Queue::new().unlock(node).unlock(node).signal(gone))?;
                device.wait_signal(gone, 10_000)?;
                device.destroy_signal(gone)?;
            }
        }
        // It ends, and is waited for.
        drop(sharer);
        let drawn = expect_all("what the GPU drew", &memory, DRAWN);
        write_pattern(&memory, round + 7);
        drop(armed);
        innocent.device().wait_signal(done, 10_000)?;
        innocent.device().stall()?;
        std::thread::sleep(Duration::from_millis(20));
        expect_pattern("what was written afterwards", &memory, round + 7)?;
        drawn?;
    }
    innocent.close()
}

/// Whether this boot has bounce buffers under all memory.
pub fn is_bounced() -> Result<()> {
    let line = std::fs::read_to_string("/proc/cmdline")?;
    if line.contains("swiotlb=force") {
        Ok(())
    } else {
        crate::harness::skip("needs swiotlb=force")
    }
}
