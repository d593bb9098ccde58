// SPDX-License-Identifier: GPL-2.0-only
//! Generations of the interface, and what a request of this crate's own ([`crate::uapi`], 4.0.0) is in another one.
//!
//! The layouts are read from the facts in `tests/abi`, field by field and by name; nothing here knows the driver's tables.

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
}

/// The generation that [`crate::uapi`] is written in.
pub const OWN: &str = "4.0.0";

/// Marks a `gcoCONTEXT`: "CTXT".
const OBJECT_CONTEXT: u32 = 0x5458_5443;

/// Offset and bytes of a field.
pub type Place = (usize, usize);

/// One generation of the interface.
#[derive(Clone, Debug, Default)]
pub struct Abi {
    /// Its name, as the driver's parameter has it.
    pub name: &'static str,
    /// What VERSION answers; empty where there is no such command.
    pub version: &'static str,
    /// Bytes of the ioctl's argument.
    pub argument: usize,
    /// Bytes of the interface, of the usual build first.
    pub sizes: Vec<usize>,
    /// Offset of the union.
    pub union_at: usize,
    /// Fields of the header.
    pub header: HashMap<&'static str, Place>,
    /// Number and member of each command.
    pub commands: HashMap<&'static str, (u32, &'static str)>,
    /// Bytes of each structure.
    pub members: HashMap<&'static str, usize>,
    /// Fields, as `Member.field`.
    pub fields: HashMap<&'static str, Place>,
    /// Values of enumerations.
    pub values: HashMap<&'static str, u32>,
    /// Bytes of the interface that the profiler's commands have to themselves; 0: none.
    pub profiler: usize,
    /// Offset of the first counter of a member, and their names.
    pub counters: HashMap<&'static str, (usize, Vec<&'static str>)>,
}

fn number(text: &str) -> usize {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

impl Abi {
    fn read(name: &'static str, facts: &'static str) -> Self {
        let mut abi = Self {
            name,
            ..Default::default()
        };
        for line in facts.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match words[..] {
                ["generation", found] => assert_eq!(found, name),
                ["version", version] => abi.version = version,
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
                }
                ["profiler", bytes] => abi.profiler = number(bytes),
                ["counters", member, at, ..] => {
                    abi.counters
                        .insert(member, (number(at), words[3..].to_vec()));
                }
                ["value", value, is] => {
                    abi.values.insert(value, number(is) as u32);
                }
                // What the driver does of its own.
                ["place" | "about" | "like" | "model" | "shorter" | "vector" | "word" | "quirk", ..] =>
                    {}
                _ => panic!("{name}: {line:?} is no fact"),
            }
        }
        abi
    }

    /// All generations, oldest first.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Abi>> = OnceLock::new();
        ALL.get_or_init(|| {
            FACTS
                .iter()
                .map(|(name, facts)| Self::read(name, facts))
                .collect()
        })
    }

    /// The generation of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|abi| abi.name == name)
    }

    /// The generation of [`crate::uapi`].
    pub fn own() -> &'static Self {
        Self::named(OWN).expect("it is in the list")
    }

    /// Whether it is that generation, in the usual build.
    pub fn is_own(&self) -> bool {
        self.name == OWN && self.sizes[0] == uapi::INTERFACE_SIZE
    }

    /// Whether there is such a command.
    pub fn has(&self, command: &str) -> bool {
        self.commands.contains_key(command)
    }

    /// Whether contexts are in the driver: ATTACH.
    pub fn attaches(&self) -> bool {
        self.has("ATTACH")
    }

    /// Number and member of what `command` is here.
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

    /// A field of a structure, by the name that 4.0.0 or a later generation gives it.
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

    /// Writes a structure of 4.0.0 at `at` the way this generation has it.
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

    /// The bytes of a request. Fields that the generation does not have are left out.
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

    /// Sets what a client must say in later generations alone.
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

    /// Takes an answer.
    pub fn decode(&self, bytes: &[u8], interface: &mut Interface) -> Result<()> {
        let command = interface.command();
        let (_, member) = self.command(command)?;
        interface.set_status(uapi::Status(self.header_of(bytes, "status") as i32));
        interface.set_handle(self.header_of(bytes, "handle"));
        let union = &bytes[self.union_at..];
        let own = &mut interface.bytes_mut()[uapi::UNION_OFFSET..];
        for (name, at, size) in own_fields(command) {
            if let Some(place) = self.field(member, &camel(name)) {
                copy(&union[place.0..place.0 + place.1], &mut own[*at..at + size]);
            }
        }
        Ok(())
    }

    /// Sets a field of the header, if the generation has it.
    pub fn put_header(&self, bytes: &mut [u8], field: &str, value: u64) {
        if let Some((at, size)) = self.header.get(field) {
            copy(&value.to_le_bytes(), &mut bytes[*at..at + size]);
        }
    }

    /// A field of the header; 0 where there is none.
    pub fn header_of(&self, bytes: &[u8], field: &str) -> u64 {
        let mut value = [0; 8];
        if let Some((at, size)) = self.header.get(field) {
            copy(&bytes[*at..at + size], &mut value);
        }
        u64::from_le_bytes(value)
    }

    /// Sets a field of a request's bytes.
    ///
    /// # Panics
    ///
    /// When the generation has no such field.
    pub fn set(&self, bytes: &mut [u8], member: &str, field: &str, value: u64) {
        let (at, size) = self.place(member, field);
        copy(&value.to_le_bytes(), &mut bytes[at..at + size]);
    }

    /// A field of an answer's bytes.
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

    /// An event queue in this process's memory, the way this generation has it.
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

    /// COMMIT's bytes, and the memory that they point to.
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
            // What has the name of one is where the client has the array, which no kernel reads for drawing.
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
                // Left as it was on the stack.
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

    /// The field of COMMIT with the state delta, the first core's.
    pub fn delta_field(&self) -> &'static str {
        let names = ["deltas", "delta", "subCommit.delta"];
        let known = names
            .into_iter()
            .find(|name| self.field("Commit", name).is_some());
        known.unwrap_or("delta")
    }

    /// A `gcoCONTEXT` that is new each time and holds no state; empty where contexts are the driver's.
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
    /// The first one's address, or 0.
    pub fn head(&self) -> u64 {
        self.records
            .first()
            .map_or(0, |record| record.as_ptr() as usize as u64)
    }
}

/// A COMMIT with what it points to.
#[derive(Debug)]
pub struct WireCommit {
    /// The request.
    pub bytes: Vec<u8>,
    _description: Vec<u64>,
    _context: Vec<u64>,
    _queue: WireQueue,
}

/// Little-endian: what is longer is cut, what is shorter gets zeros.
fn copy(from: &[u8], to: &mut [u8]) {
    to.fill(0);
    let bytes = from.len().min(to.len());
    to[..bytes].copy_from_slice(&from[..bytes]);
}

/// Bytes in memory that is aligned for 64-bit fields.
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

/// chip_minor_features1 becomes chipMinorFeatures1.
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
        assert_eq!(Abi::all().len(), 16);
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
