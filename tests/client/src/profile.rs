// SPDX-License-Identifier: GPL-2.0-only
//! The profiler's commands. A generation's table of facts gives the counters and their names.

use std::collections::HashMap;
use std::os::fd::AsFd;

use crate::abi::Abi;
use crate::device::Device;
use crate::device::Error;
use crate::device::Result;
use crate::sys;
use crate::uapi::Status;

/// The ioctl of generations that have a separate interface for these commands.
const IOCTL_PROFILER: u32 = 30001;

/// Fill value of words that a command must write.
pub const UNWRITTEN: u32 = 0xa5a5_a5a5;

/// The answer to a profiler command.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub status: Status,
    /// The bytes of the whole interface structure.
    pub bytes: Vec<u8>,
}

/// Counter values.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    words: HashMap<&'static str, u32>,
}

impl Counters {
    /// The value of a counter.
    ///
    /// # Panics
    ///
    /// If the generation has no counter with this name.
    pub fn get(&self, name: &str) -> u32 {
        let word = self.words.get(name);
        *word.unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// Names and values of all counters.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.words.iter().map(|(name, value)| (*name, *value))
    }
}

/// Sums the counters with one of these names, or returns `None` if the generation has none of them. The first and the
/// second pixel pipe may have a counter each.
pub fn sum(all: &[Counters], names: &[&str]) -> Option<u32> {
    let words = all.iter().flat_map(Counters::all);
    let found: Vec<u32> = words
        .filter(|(name, _)| names.contains(name))
        .map(|(_, value)| value)
        .collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

/// Size in bytes of the interface structure of a build with the profiler.
pub fn interface_bytes(abi: &Abi) -> usize {
    match abi.profiler {
        0 => abi.sizes.iter().copied().max().unwrap_or(0),
        bytes => bytes,
    }
}

/// Sends a profiler command in an interface structure of `size` bytes with the fields `given`. All other words of the
/// payload are [`UNWRITTEN`].
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

/// Like [`send`], with the interface structure of a build with the profiler.
pub fn ask(device: &Device, command: &str, given: &[(&str, u64)]) -> Result<Answer> {
    send(device, command, given, interface_bytes(device.abi()))
}

/// Sends a command that reads counters, and returns its answer.
pub fn read(device: &Device, command: &str) -> Result<(Status, Counters)> {
    let answer = ask(device, command, &[])?;
    let abi = device.abi();
    let member = abi.commands[command].1;
    let (at, names) = &abi.counters[member];
    // A build without per-context counters has no field for the context before the counters.
    let end = abi.profiler_union() + at + 4 * names.len();
    let at = if end > answer.bytes.len() { 0 } else { *at };
    let words = answer.bytes[abi.profiler_union() + at..].chunks_exact(4);
    let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let words = names.iter().copied().zip(words).collect();
    Ok((answer.status, Counters { words }))
}

/// Reads the cycles and the pixels of the 2D engine.
pub fn read_2d(device: &Device) -> Result<(Status, [u32; 2])> {
    let mut room = Box::new([UNWRITTEN; 2]);
    let given = [("hwProfile2D", room.as_mut_ptr() as usize as u64)];
    let answer = ask(device, "PROFILE_REGISTERS_2D", &given)?;
    // The driver wrote this memory, which the compiler cannot know.
    let told = std::hint::black_box(room);
    Ok((answer.status, *told))
}

/// The commands of a generation that read counters.
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
