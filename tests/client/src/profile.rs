// SPDX-License-Identifier: GPL-2.0-only
//! The profiler's commands, by the facts of a generation: its counters by their names there.

use std::collections::HashMap;
use std::os::fd::AsFd;

use crate::abi::Abi;
use crate::device::Device;
use crate::device::Error;
use crate::device::Result;
use crate::sys;
use crate::uapi::Status;

/// The ioctl of generations where these commands have an interface to themselves.
const IOCTL_PROFILER: u32 = 30001;

/// What words hold that a command is to write.
pub const UNWRITTEN: u32 = 0xa5a5_a5a5;

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub status: Status,
    /// All of the interface.
    pub bytes: Vec<u8>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    words: HashMap<&'static str, u32>,
}

impl Counters {
    /// A counter.
    ///
    /// # Panics
    ///
    /// When the generation has none of this name.
    pub fn get(&self, name: &str) -> u32 {
        let word = self.words.get(name);
        *word.unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// Names and values.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.words.iter().map(|(name, value)| (*name, *value))
    }
}

/// The counters with one of these names, if the generation has it: those of the first pixel pipe and of the second may be
/// two.
pub fn sum(all: &[Counters], names: &[&str]) -> Option<u32> {
    let words = all.iter().flat_map(Counters::all);
    let found: Vec<u32> = words
        .filter(|(name, _)| names.contains(name))
        .map(|(_, value)| value)
        .collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

/// Bytes of the interface of a build with the profiler.
pub fn interface_bytes(abi: &Abi) -> usize {
    match abi.profiler {
        0 => abi.sizes.iter().copied().max().unwrap_or(0),
        bytes => bytes,
    }
}

/// Sends a command of the profiler's in an interface of `size` bytes, with the fields `given`; all else of the payload is
/// [`UNWRITTEN`].
pub fn send(device: &Device, command: &str, given: &[(&str, u64)], size: usize) -> Result<Answer> {
    let abi = device.abi();
    let known = abi.commands.get(command).copied();
    let (number, member) = known.ok_or(Error::Usage("the generation has no such command"))?;
    let mut bytes = vec![UNWRITTEN as u8; size];
    bytes[..abi.profiler_union()].fill(0);
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    abi.put_header(&mut bytes, "hardwareType", device.hardware_type().into());
    for (field, value) in given {
        let known = abi.field(member, field);
        let (at, size) = known.ok_or(Error::Usage("the generation has no such field"))?;
        let at = abi.profiler_union() + at;
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    match abi.profiler {
        0 => device.exchange_bytes(&mut bytes),
        _ => sys::exchange(device.file().as_fd(), IOCTL_PROFILER, &mut bytes).map(drop),
    }
    .map_err(Error::Map)?;
    let status = Status(abi.header_of(&bytes, "status") as i32);
    Ok(Answer { status, bytes })
}

/// The same in the interface of a build with the profiler.
pub fn ask(device: &Device, command: &str, given: &[(&str, u64)]) -> Result<Answer> {
    send(device, command, given, interface_bytes(device.abi()))
}

/// What a command that reads counters tells.
pub fn read(device: &Device, command: &str) -> Result<(Status, Counters)> {
    let answer = ask(device, command, &[])?;
    let abi = device.abi();
    let member = abi.commands[command].1;
    let (at, names) = &abi.counters[member];
    // A build whose contexts do not count has no room for their names.
    let end = abi.profiler_union() + at + 4 * names.len();
    let at = if end > answer.bytes.len() { 0 } else { *at };
    let words = answer.bytes[abi.profiler_union() + at..].chunks_exact(4);
    let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let words = names.iter().copied().zip(words).collect();
    Ok((answer.status, Counters { words }))
}

/// Cycles, and pixels of the 2D engine.
pub fn read_2d(device: &Device) -> Result<(Status, [u32; 2])> {
    let mut room = Box::new([UNWRITTEN; 2]);
    let given = [("hwProfile2D", room.as_mut_ptr() as usize as u64)];
    let answer = ask(device, "PROFILE_REGISTERS_2D", &given)?;
    // The driver has written there behind the compiler's back.
    let told = std::hint::black_box(room);
    Ok((answer.status, *told))
}

/// The commands that read counters, of a generation.
pub fn commands(abi: &Abi) -> Vec<&'static str> {
    let names = [
        "READ_ALL_PROFILE_REGISTERS",
        "READ_ALL_PROFILE_NEW_REGISTERS_PART1",
        "READ_ALL_PROFILE_NEW_REGISTERS_PART2",
        "READ_ALL_PROFILE_REGISTERS_PART1",
        "READ_ALL_PROFILE_REGISTERS_PART2",
    ];
    names.into_iter().filter(|name| abi.has(name)).collect()
}
