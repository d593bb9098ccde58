// SPDX-License-Identifier: GPL-2.0-only
//! Generations of the interface, and the conversion of this crate's requests ([`crate::uapi`], 4.0.0) to other
//! generations.
//!
//! The layouts come from the facts in `tests/abi`, by field name. This file does not use the driver's tables.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::device::Error;
use crate::device::Result;
use crate::queue::Queue;
use crate::uapi;
use crate::uapi::Command;
use crate::uapi::Interface;
use crate::uapi::Structure;
use crate::uapi::STRUCTURES;

macro_rules! facts {
    ($($name:literal)*) => {
        /// Name and facts of each generation.
        const FACTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../abi/", $name, ".txt"))),)*];
    };
}

facts! {
    "dove" "dove_old" "v2" "arnova" "v4" "eureka" "4.0.0" "4.1.0" "4.6.9" "5.0.11.p6" "5.0.11.p8" "6.2.2" "6.2.3"
    "6.2.4.p2" "6.2.4.p3" "6.4.11"
    "6.2.4.p1.0" "6.2.4.p1.2" "6.2.4.p1.6" "6.2.4.p2-s32v" "6.2.4.p4-nxp" "6.2.4.p4-st" "6.3.0" "6.3.1" "6.3.1.4"
    "6.3.2.5" "6.3.3.4" "6.4.0.p1" "6.4.0.p2.0" "6.4.0.p2.4" "6.4.0.p2-s32v" "6.4.1" "6.4.2.1" "6.4.3-nxp"
    "6.4.3-st" "6.4.3.p0" "6.4.3.p2.0" "6.4.4.3" "6.4.6" "6.4.6.9" "6.4.7" "6.4.8.7" "6.4.9" "6.4.11.2"
    "6.4.11.p1.0" "6.4.11.p2.0" "6.4.11.p4" "6.4.13" "6.4.15.3" "6.4.18.6" "6.4.19.4" "6.4.21.1"
    "4.6.9-marvell"
}

/// Number of the generations that the driver also recognizes by their clients' behavior. They come first in the list.
const FAMILIAR: usize = 16;

/// The generation of [`crate::uapi`].
pub const OWN: &str = "4.0.0";

/// Marks a `gcoCONTEXT`: "CTXT".
const OBJECT_CONTEXT: u32 = 0x5458_5443;

/// Offset and size of a field, in bytes.
pub type Place = (usize, usize);

/// One generation of the interface.
#[derive(Clone, Debug, Default)]
pub struct Abi {
    /// Its name, as in the driver's parameter.
    pub name: &'static str,
    /// The answer of VERSION; empty if the generation does not have this command.
    pub version: &'static str,
    /// Versions of other builds with the same layout.
    pub also: Vec<&'static str>,
    /// Size of the ioctl's argument, in bytes.
    pub argument: usize,
    /// Sizes of the interface structure in bytes; the usual build is first.
    pub sizes: Vec<usize>,
    /// Offset of the union.
    pub union_at: usize,
    /// Fields of the header.
    pub header: HashMap<&'static str, Place>,
    /// Number and union member of each command.
    pub commands: HashMap<&'static str, (u32, &'static str)>,
    /// Size of each structure in bytes.
    pub members: HashMap<&'static str, usize>,
    /// Fields, as `Member.field`.
    pub fields: HashMap<&'static str, Place>,
    /// In programs with at most this many bits, QUERY_CHIP_IDENTITY contains feature words.
    pub features: usize,
    /// Values of enumerations.
    pub values: HashMap<&'static str, u32>,
    /// Size in bytes of the separate interface structure for profiler commands; 0 if there is none.
    pub profiler: usize,
    /// Offset of the union in that structure.
    pub profiler_union_at: usize,
    /// Element size in bytes of arrays whose elements are not words.
    pub elements: HashMap<&'static str, usize>,
    /// For each member: the offset of the first counter, and the counters' names.
    pub counters: HashMap<&'static str, (usize, Vec<&'static str>)>,
}

fn number(text: &str) -> usize {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

impl Abi {
    fn read((name, facts): (&'static str, &'static str)) -> Self {
        let mut abi = Self::default();
        for line in facts.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match words[..] {
                ["generation", found] => assert_eq!(found, name),
                // Later lines override the base.
                ["base", base] => {
                    abi = Self::named(base)
                        .unwrap_or_else(|| panic!("no facts of {base}"))
                        .clone();
                    abi.also.clear();
                    abi.move_features(false);
                }
                ["without", "features"] => abi.features = 0,
                ["features", bits] => abi.features = number(bits),
                ["without", kind, name] => abi.drop_fact(kind, name),
                ["without", "profiler"] => (abi.profiler, abi.profiler_union_at) = (0, 0),
                ["version", version] => abi.version = version,
                ["also", ..] => abi.also = words[1..].to_vec(),
                ["argument", bytes] => abi.argument = number(bytes),
                ["union", offset] => abi.union_at = number(offset),
                ["sizes", ..] => abi.sizes = words[1..].iter().map(|size| number(size)).collect(),
                ["header", field, at, bytes] => {
                    abi.header.insert(field, (number(at), number(bytes)));
                }
                ["command", command, value, member] => {
                    abi.commands.insert(command, (number(value) as u32, member));
                }
                ["member", member, bytes] => {
                    abi.members.insert(member, number(bytes));
                }
                ["field", field, at, bytes] => {
                    abi.fields.insert(field, (number(at), number(bytes)));
                    abi.elements.remove(field);
                }
                ["field", field, at, bytes, element] => {
                    abi.fields.insert(field, (number(at), number(bytes)));
                    abi.elements.insert(field, number(element));
                }
                ["profiler", bytes] => {
                    abi.profiler = number(bytes);
                    abi.profiler_union_at = 0;
                }
                ["profiler", bytes, union_at] => {
                    abi.profiler = number(bytes);
                    abi.profiler_union_at = number(union_at);
                }
                ["counters", member, at, ..] => {
                    abi.counters
                        .insert(member, (number(at), words[3..].to_vec()));
                }
                ["value", value, is] => {
                    abi.values.insert(value, number(is) as u32);
                }
                // Facts about the driver only.
                ["place" | "about" | "alias" | "like" | "model" | "shorter" | "vector" | "word"
                | "quirk", ..] => {}
                _ => panic!("{name}: {line:?} is no fact"),
            }
        }
        abi.name = name;
        abi.move_features(true);
        abi
    }

    /// Inserts the feature words that this program's QUERY_CHIP_IDENTITY has (see tests/abi/README.md), or removes
    /// them.
    fn move_features(&mut self, come: bool) {
        const NAMES: [&str; 8] = [
            "QueryChipIdentity.chipFeatures",
            "QueryChipIdentity.chipMinorFeatures",
            "QueryChipIdentity.chipMinorFeatures1",
            "QueryChipIdentity.chipMinorFeatures2",
            "QueryChipIdentity.chipMinorFeatures3",
            "QueryChipIdentity.chipMinorFeatures4",
            "QueryChipIdentity.chipMinorFeatures5",
            "QueryChipIdentity.chipMinorFeatures6",
        ];
        const FIRST: usize = 12;
        if self.features < usize::BITS as usize {
            return;
        }
        let moved = |at: usize| {
            if at < FIRST {
                at
            } else if come {
                at + 4 * NAMES.len()
            } else {
                at - 4 * NAMES.len()
            }
        };
        if !come {
            self.fields.retain(|name, _| !NAMES.contains(name));
        }
        for (name, (at, _)) in &mut self.fields {
            if name.starts_with("QueryChipIdentity.") {
                *at = moved(*at);
            }
        }
        if let Some(bytes) = self.members.get_mut("QueryChipIdentity") {
            *bytes = moved(*bytes);
        }
        if come {
            let all = NAMES.into_iter().zip((FIRST..).step_by(4));
            self.fields.extend(all.map(|(name, at)| (name, (at, 4))));
        }
    }

    fn drop_fact(&mut self, kind: &str, name: &'static str) {
        let is_known = match kind {
            "header" => self.header.remove(name).is_some(),
            "command" => self.commands.remove(name).is_some(),
            "value" => self.values.remove(name).is_some(),
            "field" => self.fields.remove(name).is_some(),
            "member" => {
                self.counters.remove(name);
                let is_in_it = |field: &str| {
                    let rest = field.strip_prefix(name);
                    rest.is_some_and(|rest| rest.starts_with('.'))
                };
                self.fields.retain(|field, _| !is_in_it(field));
                self.members.remove(name).is_some()
            }
            _ => false,
        };
        assert!(is_known, "the base has no {kind} {name}");
    }

    /// Offset of the union in the profiler's interface structure.
    pub fn profiler_union(&self) -> usize {
        match self.profiler_union_at {
            0 => self.union_at,
            at => at,
        }
    }

    /// The generations that the driver also recognizes by their clients' behavior, oldest first.
    pub fn familiar() -> Vec<&'static Self> {
        (0..FAMILIAR).map(Self::at).collect()
    }

    /// All generations: those of [`Abi::familiar`] first.
    pub fn all() -> Vec<&'static Self> {
        (0..FACTS.len()).map(Self::at).collect()
    }

    /// Parses each generation on first use, because a guest needs half a second for all of them.
    fn at(place: usize) -> &'static Self {
        static READ: [OnceLock<Abi>; FACTS.len()] = [const { OnceLock::new() }; FACTS.len()];
        READ[place].get_or_init(|| Self::read(FACTS[place]))
    }

    /// The generation with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        let place = FACTS.iter().position(|(known, _)| *known == name)?;
        Some(Self::at(place))
    }

    /// The generation of [`crate::uapi`].
    pub fn own() -> &'static Self {
        Self::named(OWN).expect("it is in the list")
    }

    /// Whether this is the generation of [`crate::uapi`], in the usual build.
    pub fn is_own(&self) -> bool {
        self.name == OWN && self.sizes[0] == uapi::INTERFACE_SIZE
    }

    /// Whether the generation has this command.
    pub fn has(&self, command: &str) -> bool {
        self.commands.contains_key(command)
    }

    /// Whether the driver keeps contexts: ATTACH exists.
    pub fn attaches(&self) -> bool {
        self.has("ATTACH")
    }

    /// The number and the union member of `command` in this generation.
    pub fn command(&self, command: Command) -> Result<(u32, &'static str)> {
        let name = command
            .name()
            .ok_or(Error::Usage("a command without a name"))?;
        let renamed = match name {
            "FREE_VIDEO_MEMORY" => "RELEASE_VIDEO_MEMORY",
            other => other,
        };
        self.commands
            .get(name)
            .or_else(|| self.commands.get(renamed))
            .copied()
            .ok_or(Error::Usage("the generation has no such command"))
    }

    /// A field of a structure, by its name in 4.0.0 or in a later generation.
    pub fn field(&self, member: &str, field: &str) -> Option<Place> {
        let other = match field {
            "physical" => "physName",
            "internalPhysical" => "internalPhysName",
            "externalPhysical" => "externalPhysName",
            "contiguousPhysical" => "contiguousPhysName",
            "stateCount" => "maxState",
            "object" => "object.type",
            "signal" => "settings.signal",
            _ => field,
        };
        self.fields
            .get(format!("{member}.{field}").as_str())
            .or_else(|| self.fields.get(format!("{member}.{other}").as_str()))
            .copied()
    }

    /// Writes a structure of 4.0.0 at `at` in this generation's layout.
    pub fn put<T: Structure>(&self, member: &str, value: &T, into: &mut [u8]) {
        let mut bytes = vec![0; T::SIZE];
        value.put(&mut bytes);
        self.translate(T::FIELDS, &bytes, member, into);
    }

    fn translate(
        &self,
        fields: &[(&str, usize, usize)],
        own: &[u8],
        member: &str,
        other: &mut [u8],
    ) {
        for (name, at, bytes) in fields {
            if let Some(place) = self.field(member, &camel(name)) {
                copy(
                    &own[*at..at + bytes],
                    &mut other[place.0..place.0 + place.1],
                );
            }
        }
    }

    /// Encodes a request. Fields that the generation does not have are left out.
    pub fn encode(&self, interface: &Interface) -> Result<Vec<u8>> {
        let command = interface.command();
        let (value, member) = self.command(command)?;
        let mut bytes = vec![0; self.sizes[0]];
        self.put_header(&mut bytes, "command", value.into());
        self.put_header(&mut bytes, "hardwareType", interface.hardware_type().into());
        self.put_header(&mut bytes, "handle", interface.handle());
        self.put_header(&mut bytes, "status", interface.status().0 as u64);
        let own = &interface.bytes()[uapi::UNION_OFFSET..];
        let union_at = self.union_at;
        self.translate(own_fields(command), own, member, &mut bytes[union_at..]);
        self.complete(command, &mut bytes);
        Ok(bytes)
    }

    /// Sets fields that only later generations require.
    fn complete(&self, command: Command, bytes: &mut [u8]) {
        let parts = match command {
            Command::LOCK_VIDEO_MEMORY => ("LockVideoMemory", uapi::LOCK_PARTS),
            Command::UNLOCK_VIDEO_MEMORY => ("UnlockVideoMemory", uapi::UNLOCK_PARTS),
            _ => return,
        };
        if self.field(parts.0, "op").is_some() {
            self.set(bytes, parts.0, "op", parts.1);
        }
    }

    /// Decodes an answer.
    pub fn decode(&self, bytes: &[u8], interface: &mut Interface) -> Result<()> {
        let command = interface.command();
        let (_, member) = self.command(command)?;
        interface.set_status(uapi::Status(self.header_of(bytes, "status") as i32));
        interface.set_handle(self.header_of(bytes, "handle"));
        let union = &bytes[self.union_at..];
        let own = &mut interface.bytes_mut()[uapi::UNION_OFFSET..];
        for (name, at, size) in own_fields(command) {
            let field = camel(name);
            let Some(place) = self.field(member, &field) else {
                continue;
            };
            let (from, to) = (&union[place.0..place.0 + place.1], &mut own[*at..at + size]);
            match self.elements.get(format!("{member}.{field}").as_str()) {
                None => copy(from, to),
                // In 4.0.0, each element has 32 bits.
                Some(&element) => {
                    for (from, to) in from.chunks(element).zip(to.chunks_mut(4)) {
                        copy(from, to);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sets a header field, if the generation has it.
    pub fn put_header(&self, bytes: &mut [u8], field: &str, value: u64) {
        if let Some((at, size)) = self.header.get(field) {
            copy(&value.to_le_bytes(), &mut bytes[*at..at + size]);
        }
    }

    /// A header field; 0 if the generation does not have it.
    pub fn header_of(&self, bytes: &[u8], field: &str) -> u64 {
        let mut value = [0; 8];
        if let Some((at, size)) = self.header.get(field) {
            copy(&bytes[*at..at + size], &mut value);
        }
        u64::from_le_bytes(value)
    }

    /// Sets a field in the bytes of a request.
    ///
    /// # Panics
    ///
    /// If the generation has no such field.
    pub fn set(&self, bytes: &mut [u8], member: &str, field: &str, value: u64) {
        let (at, size) = self.place(member, field);
        copy(&value.to_le_bytes(), &mut bytes[at..at + size]);
    }

    /// A field in the bytes of an answer.
    ///
    /// # Panics
    ///
    /// As [`Abi::set`].
    pub fn get(&self, bytes: &[u8], member: &str, field: &str) -> u64 {
        let (at, size) = self.place(member, field);
        let mut value = [0; 8];
        copy(&bytes[at..at + size], &mut value);
        u64::from_le_bytes(value)
    }

    fn place(&self, member: &str, field: &str) -> Place {
        let (at, size) = self
            .field(member, field)
            .unwrap_or_else(|| panic!("{}: no {member}.{field}", self.name));
        (at + self.union_at, size)
    }

    /// An event queue in this process's memory, in this generation's layout.
    pub fn queue(&self, queue: &Queue) -> Result<WireQueue> {
        let record_bytes = self.members["gcsQUEUE"];
        let (next_at, next_size) = self.fields["gcsQUEUE.next"];
        let (command_at, _) = self.fields["gcsQUEUE.iface"];
        let (union_at, _) = self.fields["gcsQUEUE.u"];
        let mut wire = WireQueue {
            records: Vec::new(),
        };
        for interface in queue.interfaces() {
            let (value, member) = self.command(interface.command())?;
            let mut bytes = vec![0; record_bytes];
            copy(&value.to_le_bytes(), &mut bytes[command_at..command_at + 4]);
            self.translate(
                own_fields(interface.command()),
                &interface.bytes()[uapi::UNION_OFFSET..],
                member,
                &mut bytes[union_at..],
            );
            wire.records.push(in_words(&bytes));
        }
        let addresses: Vec<u64> = wire
            .records
            .iter()
            .map(|record| record.as_ptr() as usize as u64)
            .collect();
        for (index, record) in wire.records.iter_mut().enumerate() {
            let next = match addresses.get(index + 1) {
                Some(address) => *address,
                None => queue.ending(),
            };
            let mut bytes = in_bytes(record);
            copy(
                &next.to_le_bytes(),
                &mut bytes[next_at..next_at + next_size],
            );
            record.copy_from_slice(&in_words(&bytes));
        }
        Ok(wire)
    }

    /// The bytes of COMMIT, and the memory that they point to.
    pub fn commit(
        &self,
        record: &uapi::CommandBufferRecord,
        context: u32,
        queue: &Queue,
    ) -> Result<WireCommit> {
        let (value, _) = self.command(Command::COMMIT)?;
        let mut description = vec![0; self.members["gcoCMDBUF"]];
        self.put("gcoCMDBUF", record, &mut description);
        for (field, value) in [
            ("reservedHead", uapi::RESERVED_HEAD),
            ("reservedTail", uapi::RESERVED_TAIL),
        ] {
            if let Some((at, size)) = self.field("gcoCMDBUF", field) {
                copy(&value.to_le_bytes(), &mut description[at..at + size]);
            }
        }
        let description = in_words(&description);
        let own_context = self.own_context(record);
        let queue = self.queue(queue)?;
        let mut bytes = vec![0; self.sizes[0]];
        self.put_header(&mut bytes, "command", value.into());
        let set = |bytes: &mut Vec<u8>, field: &str, value: u64| {
            self.set(bytes, "Commit", field, value);
        };
        if self.field("Commit", "commandBuffers").is_some() {
            // The member with this name is at the position of the client's array, which no kernel reads for drawing.
            let start = bytes.as_ptr() as usize as u64;
            for (array, own, value) in [
                ("contexts", "context", context.into()),
                (
                    "commandBuffers",
                    "commandBuffer",
                    description.as_ptr() as usize as u64,
                ),
                ("deltas", "delta", 0),
            ] {
                let at = self.place("Commit", array).0;
                set(&mut bytes, array, value);
                set(&mut bytes, own, start + at as u64);
            }
            set(&mut bytes, "queue", queue.head());
            set(&mut bytes, "count", 1);
            if self.field("Commit", "engine1").is_some() {
                // Clients leave uninitialized stack data here.
                set(&mut bytes, "engine1", 0xbebe_bebe);
            }
        } else if self.field("Commit", "commandBuffer").is_some() {
            set(
                &mut bytes,
                "commandBuffer",
                description.as_ptr() as usize as u64,
            );
            if self.attaches() {
                set(&mut bytes, "context", context.into());
                set(&mut bytes, "queue", queue.head());
            } else {
                let at = own_context.as_ptr() as usize as u64;
                set(&mut bytes, "contextBuffer", at);
            }
        } else {
            let size = record.offset + uapi::RESERVED_TAIL - record.start_offset;
            for (field, value) in [
                ("context", context.into()),
                ("queue", queue.head()),
                ("commandBuffer.videoMemNode", record.physical.into()),
                ("commandBuffer.address", record.address.into()),
                ("commandBuffer.logical", record.logical),
                ("commandBuffer.startOffset", record.start_offset.into()),
                ("commandBuffer.size", size.into()),
                ("commandBuffer.reservedHead", uapi::RESERVED_HEAD.into()),
                ("commandBuffer.reservedTail", uapi::RESERVED_TAIL.into()),
                ("commandBuffer.entryPipe", record.entry_pipe as u64),
                ("commandBuffer.exitPipe", record.exit_pipe as u64),
            ] {
                set(&mut bytes, &format!("subCommit.{field}"), value);
            }
        }
        Ok(WireCommit {
            bytes,
            _description: description,
            _context: own_context,
            _queue: queue,
        })
    }

    /// The field of COMMIT with the state delta of the first core.
    pub fn delta_field(&self) -> &'static str {
        let names = ["deltas", "delta", "subCommit.delta"];
        let known = names
            .into_iter()
            .find(|name| self.field("Commit", name).is_some());
        known.unwrap_or("delta")
    }

    /// A new, empty `gcoCONTEXT`. No words if the driver keeps contexts.
    fn own_context(&self, record: &uapi::CommandBufferRecord) -> Vec<u64> {
        let Some(bytes) = self.members.get("gcoCONTEXT") else {
            return Vec::new();
        };
        let mut context = vec![0; *bytes];
        for (field, value) in [
            ("object", OBJECT_CONTEXT),
            ("initialPipe", record.entry_pipe as u32),
            ("entryPipe", record.entry_pipe as u32),
            ("currentPipe", record.exit_pipe as u32),
        ] {
            if let Some((at, size)) = self.field("gcoCONTEXT", field) {
                copy(&value.to_le_bytes(), &mut context[at..at + size]);
            }
        }
        in_words(&context)
    }
}

/// Records in this process's memory.
#[derive(Debug)]
pub struct WireQueue {
    records: Vec<Vec<u64>>,
}

impl WireQueue {
    /// The address of the first record, or 0.
    pub fn head(&self) -> u64 {
        self.records
            .first()
            .map_or(0, |record| record.as_ptr() as usize as u64)
    }
}

/// A COMMIT and the memory that it points to.
#[derive(Debug)]
pub struct WireCommit {
    /// The request.
    pub bytes: Vec<u8>,
    _description: Vec<u64>,
    _context: Vec<u64>,
    _queue: WireQueue,
}

/// Copies little-endian bytes: truncates longer values and zero-extends shorter ones.
fn copy(from: &[u8], to: &mut [u8]) {
    to.fill(0);
    let bytes = from.len().min(to.len());
    to[..bytes].copy_from_slice(&from[..bytes]);
}

/// Copies bytes into memory aligned for 64-bit fields.
fn in_words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        })
        .collect()
}

fn in_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The fields of a command's payload in 4.0.0.
fn own_fields(command: Command) -> &'static [(&'static str, usize, usize)] {
    let member = command
        .name()
        .and_then(|name| Abi::own().commands.get(name))
        .map_or("-", |(_, member)| *member);
    STRUCTURES
        .iter()
        .find(|(name, ..)| *name == member)
        .map_or(&[], |(_, _, fields)| *fields)
}

/// Converts chip_minor_features1 to chipMinorFeatures1.
fn camel(name: &str) -> String {
    match name {
        "surface_type" => return "type".into(),
        "using_2d" => return "using2D".into(),
        "using_3d" => return "using3D".into(),
        _ => {}
    }
    let mut text = String::new();
    let mut is_first = false;
    for letter in name.chars() {
        match letter {
            '_' => is_first = true,
            letter if is_first => {
                text.push(letter.to_ascii_uppercase());
                is_first = false;
            }
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generation_can_be_read() {
        for abi in Abi::all() {
            assert!(abi.has("COMMIT"), "{}", abi.name);
            assert!(abi.sizes[0] > abi.union_at, "{}", abi.name);
        }
        assert_eq!(Abi::all().len(), 53);
        assert_eq!(Abi::familiar()[15].name, "6.4.11");
    }

    #[test]
    fn facts_are_those_of_the_base_but_for_the_difference() {
        let abi = |name| Abi::named(name).unwrap();
        // Two releases later: a field of its own, one of its base, and one of the base's base.
        let newest = abi("6.4.13");
        assert_eq!((newest.union_at, newest.sizes[0]), (48, 376));
        assert_eq!(newest.fields["UnlockVideoMemory.mmu"], (32, 8));
        assert_eq!(newest.header["devIndex"], (8, 4));
        assert_eq!(newest.fields["LockVideoMemory.op"], (40, 4));
        assert_eq!(newest.elements["ChipInfo.coreIndexs"], 2);
        assert_eq!((newest.profiler, newest.profiler_union()), (400, 40));
        // A command that was removed.
        assert!(!abi("6.2.4.p1.0").has("DEVICE_MUTEX") && abi("6.2.4.p2").has("DEVICE_MUTEX"));
        assert!(!abi("6.3.0").header.contains_key("commitMutex"));
        assert!(!abi("6.3.0").members.contains_key("SetVidMemMetadata"));
    }

    #[test]
    fn its_own_generation_stays_as_it_is() {
        let mut interface = Interface::with(
            Command::LOCK_VIDEO_MEMORY,
            &uapi::LockVideoMemory {
                node: 5,
                cacheable: 1,
                address: 2,
                memory: 3,
            },
        );
        interface.set_hardware_type(2);
        interface.set_handle(7);
        let bytes = Abi::own().encode(&interface).unwrap();
        assert_eq!(&bytes[..], interface.bytes());
        let mut back = Interface::new(Command::LOCK_VIDEO_MEMORY);
        back.set_hardware_type(2);
        Abi::own().decode(&bytes, &mut back).unwrap();
        assert_eq!(back.bytes(), interface.bytes());
    }

    #[test]
    fn fields_go_where_the_generation_has_them() {
        let interface = Interface::with(
            Command::USER_SIGNAL,
            &uapi::UserSignal {
                command: 3,
                id: 5,
                wait: 77,
                ..Default::default()
            },
        );
        let word = |bytes: &[u8], at: usize| bytes[at];
        let dove = Abi::named("dove").unwrap().encode(&interface).unwrap();
        assert_eq!(
            (word(&dove, 16), word(&dove, 20), word(&dove, 32)),
            (3, 5, 77)
        );
        let v2 = Abi::named("v2").unwrap().encode(&interface).unwrap();
        assert_eq!((word(&v2, 16), word(&v2, 20), word(&v2, 28)), (3, 5, 77));
        let newest = Abi::named("6.4.11").unwrap();
        let bytes = newest.encode(&interface).unwrap();
        assert_eq!(
            (bytes.len(), word(&bytes, 0), word(&bytes, 44)),
            (384, 20, 5)
        );
    }

    #[test]
    fn queues_are_linked() {
        for abi in Abi::all() {
            let mut queue = Queue::new();
            queue.signal(7).signal(9);
            let wire = abi.queue(&queue).unwrap();
            let (at, size) = abi.fields["gcsQUEUE.next"];
            let first = in_bytes(&wire.records[0]);
            let mut next = [0; 8];
            copy(&first[at..at + size], &mut next);
            let second = wire.records[1].as_ptr() as usize as u64;
            let mask = if size == 4 {
                u64::from(u32::MAX)
            } else {
                u64::MAX
            };
            assert_eq!(u64::from_le_bytes(next), second & mask, "{}", abi.name);
            let (u, _) = abi.fields["gcsQUEUE.u"];
            assert_eq!(in_bytes(&wire.records[1])[u], 9, "{}", abi.name);
        }
    }
}
