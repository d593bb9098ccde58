// SPDX-License-Identifier: GPL-2.0-only
//! Helpers shared by the tests of contexts, for both kinds: contexts kept by the driver and by the client.

use std::process::Child;
use std::process::Stdio;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Result;
use galcore_client::device::Buffer;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::Status;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Stream;

use crate::control::Control;
use crate::fixture::Random;
use crate::harness::same;
use crate::system;

/// The value that the hardware stores for a 16.16 fixed-point number.
pub fn converted(value: u32) -> u32 {
    (value as i32 as f32 / 65536.0).to_bits()
}

/// The mask bits of a state, by its byte address: a set bit leaves other bits of the state unchanged. The tests load no
/// state with these bits set, because the unchanged bits would be another client's.
pub fn mask_bits(byte: u32) -> u32 {
    match byte {
        0x0a34 => 0x0084_4428,
        0x1400 => 0x0a2a_2828,
        0x1418 => 0x8888_8888,
        0x141c => 0x0000_00f0,
        0x1420 => 0x0001_0082,
        0x1428 => 0x800e_800e,
        0x142c => 0x8022_1010,
        0x14a0 => 0x0000_0300,
        0x14a4 => 0x4000_0090,
        0x3818 => 0x0008_8108,
        _ => 0,
    }
}

/// The states that a stream of LOAD_STATEs loads, with their byte addresses.
pub fn loads(stream: &Stream) -> Vec<(u32, u32)> {
    let (mut rest, mut loads) = (stream.words(), Vec::new());
    while let [header, ..] = rest {
        let count = (header >> 16 & 0x3ff) as usize;
        for (address, value) in (header & 0xffff..).zip(&rest[1..1 + count]) {
            loads.push((address * 4, *value));
        }
        rest = &rest[(count + 2) & !1..];
    }
    loads
}

/// A copy of the GPU's whole state memory.
pub struct StateDump {
    memory: Buffer,
}

impl StateDump {
    /// Allocates memory for the copy.
    pub fn new(device: &Device) -> Result<Self> {
        let memory = device.allocate_contiguous(gpu_control::STATE_DUMP_BYTES as u64)?;
        Ok(Self { memory })
    }

    /// Frees the memory.
    pub fn free(&self, device: &Device) -> Result<()> {
        device.free_contiguous(&self.memory)?;
        Ok(())
    }

    /// Waits for the GPU and copies its state memory.
    pub fn take(&self, client: &Client, control: &Control) -> Result<()> {
        client.device().stall()?;
        let address = self.memory.address + client.base_address();
        control.write(gpu_control::STATE_DUMP, address);
        Ok(())
    }

    /// Returns the state at a byte address.
    pub fn state(&self, byte: u32) -> u32 {
        self.memory.memory.read(byte as usize)
    }

    /// Fails unless each state (byte address) has the `wanted` value.
    pub fn compare(&self, what: &str, wanted: impl Iterator<Item = (u32, u32)>) -> Result<()> {
        let mut wrong = Vec::new();
        for (byte, value) in wanted {
            let found = self.state(byte);
            if found != value {
                wrong.push(format!("{byte:#x} is {found:#x}, not {value:#x}"));
            }
        }
        let count = wrong.len();
        wrong.truncate(4);
        ensure!(
            count == 0,
            "{what}: {count} states wrong: {}",
            wrong.join("; ")
        );
        Ok(())
    }
}

/// Powers the core off now; no other client may use it. Its states are lost.
pub fn switch_off(device: &Device, control: &Control) -> Result<()> {
    const OFF: u32 = 1;
    let off = uapi::SetPowerManagement { state: OFF };
    let (status, _) = device.send(Command::SET_POWER_MANAGEMENT_STATE, &off)?;
    same("SET_POWER_MANAGEMENT_STATE", status, Status::OK)?;
    same("power", control.read(gpu_control::POWER), 0)
}

/// Starts this program again as one of many clients.
fn child(commits: u32, seed: u32) -> Result<Child> {
    let (commits, seed) = (commits.to_string(), seed.to_string());
    Ok(system::again(&["--child", &seed, "--commits", &commits])?
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Runs 16 clients at once (this program with `--child`) and kills some of them; the others must succeed.
pub fn many(commits: u32) -> Result<()> {
    let mut random = Random::new(commits);
    let mut children: Vec<_> = (1..=16)
        .map(|seed| child(commits / 16, seed))
        .collect::<Result<_>>()?;
    let mut killed = 0;
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(50 + u64::from(random.below(150))));
        let mut victim = children.swap_remove(random.below(children.len() as u32) as usize);
        let kill = victim.kill();
        killed += u32::from(!victim.wait()?.success());
        kill?;
    }
    for child in children {
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "a client: {} {text}",
            output.status
        );
    }
    println!("# {killed} of 4 were killed before their end");
    Ok(())
}
