// SPDX-License-Identifier: GPL-2.0-only
//! Doing a case, and telling what came of each step.
//!
//! Nothing here knows what a driver should answer, and a request has only what the list gives: all else in it is 0.

use std::collections::HashMap;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::NODES;
use galcore_client::raw;
use galcore_client::raw::Area;
use galcore_client::raw::Kind;
use galcore_client::sys;
use galcore_client::uapi;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use rustix::fs::MemfdFlags;
use rustix::fs::SealFlags;

use super::cases::Step;
use super::symbols::Symbols;

/// Members of commands that the facts have under the structure's name.
const MEMBERS: &[(&str, &str)] = &[
    ("QUERY_CHIP_OPTION", "QueryChipOptions"),
    ("SET_VIDEO_MEMORY_METADATA", "SetVidMemMetadata"),
    ("READ_REGISTER_EX", "ReadRegisterDataEx"),
    ("WRITE_REGISTER_EX", "WriteRegisterDataEx"),
];

/// Bytes of the argument of one request, at most.
const MOST: usize = 4096;

/// Another process, which does requests as they are sent to it.
#[derive(Debug)]
struct Other {
    process: raw::Copied,
    to: File,
    from: File,
}

/// A process that does a case.
#[derive(Debug)]
pub struct Performer {
    abi: &'static Abi,
    files: HashMap<String, File>,
    others: HashMap<String, Other>,
    variables: HashMap<String, u64>,
    areas: Vec<Area>,
    descriptors: Vec<OwnedFd>,
    timelines: Vec<sys::SoftwareSync>,
    symbols: Symbols,
    /// The last record of the queue, and where its `next` is.
    last: Option<usize>,
}

/// The device, asked for its version first, as clients do.
fn open(abi: &Abi) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(NODES[0])?;
    let mut bytes = vec![0; abi.sizes[0]];
    let (number, _) = abi.commands["VERSION"];
    abi.put_header(&mut bytes, "command", number.into());
    sys::exchange(file.as_fd(), uapi::IOCTL_INTERFACE, &mut bytes)?;
    Ok(file)
}

/// What a request came to: 0 or an errno.
fn send(file: &File, request: u32, sizes: (u64, u64), bytes: &mut [u8]) -> i32 {
    let arguments = sys::Arguments {
        input: sys::Place::Buffer,
        input_size: sizes.0,
        output: sys::Place::Buffer,
        output_size: sizes.1,
        padding: 0,
    };
    match sys::exchange_with(file.as_fd(), request, bytes, arguments) {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    }
}

impl Performer {
    /// With the device open, as the file `main`.
    pub fn new(abi: &'static Abi, hardware_type: u64) -> Result<Self> {
        let mut performer = Self {
            abi,
            files: HashMap::new(),
            others: HashMap::new(),
            variables: HashMap::new(),
            areas: Vec::new(),
            descriptors: Vec::new(),
            timelines: Vec::new(),
            symbols: Symbols::default(),
            last: None,
        };
        performer.files.insert("main".to_string(), open(abi)?);
        let variables = &mut performer.variables;
        variables.insert("hardware".to_string(), hardware_type);
        variables.insert("pid".to_string(), std::process::id().into());
        variables.insert("queue".to_string(), 0);
        Ok(performer)
    }

    /// Does a step, and says what came of it.
    pub fn step(&mut self, step: &Step) -> Result<Option<String>> {
        let text = step.text.as_str();
        let (answer, failed) = self.line(text).with_context(|| text.to_string())?;
        let is_told = !step.quiet || failed;
        Ok(answer
            .filter(|_| is_told)
            .map(|answer| format!("{text} -> {answer}")))
    }

    /// The answer, if there is one, and whether it is a failure.
    fn line(&mut self, text: &str) -> Result<(Option<String>, bool)> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let plain = |text: String| Ok((Some(text), false));
        match (word, words.as_slice()) {
            ("memory", [name, bytes, kind @ ..]) => {
                let bytes = self.value(bytes)? as usize;
                let address = self.memory(bytes, kind.contains(&"ro"))?;
                self.variables.insert(name.to_string(), address);
            }
            ("struct", [name, member, fields @ ..]) => {
                let mut bytes = vec![0; self.abi.members[*member]];
                for (field, value) in self.fields(fields)? {
                    let place = self.place(member, &field)?;
                    put(&mut bytes, place, value)?;
                }
                let address = self.area(&bytes)?;
                self.variables.insert(name.to_string(), address);
            }
            ("words", [address, values @ ..]) => {
                let view = Area::of_driver(self.value(address)?, values.len() * 4)?;
                for (index, value) in values.iter().enumerate() {
                    ensure!(
                        view.poke(index * 4, self.value(value)? as u32)?,
                        "no memory"
                    );
                }
            }
            ("peek", [address]) => {
                return plain(match raw::peek(self.value(address)?)? {
                    Some(word) => format!("{word:#x}"),
                    None => "not there".to_string(),
                });
            }
            ("file", [name]) => {
                self.files.insert(name.to_string(), open(self.abi)?);
            }
            ("close", [name]) => drop(self.files.remove(*name)),
            ("fork", [name]) => self.fork(name)?,
            ("kill", [name]) => {
                let other = self.others.remove(*name).context("no such process")?;
                other.process.end();
                // What it had goes behind its back.
                std::thread::sleep(Duration::from_millis(100));
            }
            ("tell", [field]) => self.symbols.show(field),
            ("newqueue", []) => {
                self.last = None;
                self.variables.insert("queue".to_string(), 0);
            }
            ("record", [command, fields @ ..]) => self.record(command, fields)?,
            ("set", [name, value]) => {
                let value = self.value(value)?;
                self.variables.insert(name.to_string(), value);
            }
            ("dmabuf", [name, bytes]) => {
                let bytes = self.value(bytes)?;
                let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
                let memory = rustix::fs::memfd_create("answers", flags)?;
                rustix::fs::ftruncate(&memory, bytes)?;
                rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK)?;
                self.keep(name, sys::udmabuf(memory.as_fd(), bytes)?);
            }
            ("fence", [name, value]) => {
                let timeline = sys::SoftwareSync::open()?;
                let value = self.value(value)? as u32;
                self.keep(name, timeline.fence(value)?);
                self.timelines.push(timeline);
            }
            ("mmap", [name, descriptor, bytes, kind @ ..]) => {
                let descriptor = sys::take_descriptor(self.value(descriptor)?)?;
                let kind = Kind {
                    read_only: kind.contains(&"ro"),
                    ..Default::default()
                };
                let bytes = self.value(bytes)? as usize;
                let mapped = Area::map(Some(&descriptor), bytes, 0, kind);
                self.descriptors.push(descriptor);
                return match mapped {
                    Ok(area) => {
                        self.variables.insert(name.to_string(), area.address());
                        self.areas.push(area);
                        plain("mapped".to_string())
                    }
                    Err(error) => plain(format!("errno {}", error.raw_os_error().unwrap_or(-1))),
                };
            }
            ("sleep", [milliseconds]) => {
                std::thread::sleep(Duration::from_millis(self.value(milliseconds)?));
            }
            ("repeat", [count, ..]) => {
                let count_of = self.value(count)?;
                let step = rest[count.len()..].trim();
                let mut last = (None, false);
                for _ in 0..count_of {
                    last = self.line(step)?;
                }
                return Ok(last);
            }
            (word, ["=", command, fields @ ..]) => {
                return self.request("main", Some(word), command, fields);
            }
            (who, [command, fields @ ..]) if who.ends_with(':') => {
                let who = who.trim_end_matches(':');
                return match fields {
                    ["=", other, fields @ ..] => self.request(who, Some(command), other, fields),
                    _ => self.request(who, None, command, fields),
                };
            }
            (command, fields) => return self.request("main", None, command, fields),
        }
        Ok((None, false))
    }

    fn keep(&mut self, name: &str, descriptor: OwnedFd) {
        let number = descriptor.as_raw_fd() as u64;
        self.variables.insert(name.to_string(), number);
        self.descriptors.push(descriptor);
    }

    fn memory(&mut self, bytes: usize, read_only: bool) -> Result<u64> {
        let kind = Kind {
            read_only,
            ..Default::default()
        };
        let area = Area::map(None, bytes, 0, kind)?;
        let address = area.address();
        self.areas.push(area);
        Ok(address)
    }

    /// Memory with these bytes in it.
    fn area(&mut self, bytes: &[u8]) -> Result<u64> {
        let address = self.memory(bytes.len().next_multiple_of(4096), false)?;
        let area = self.areas.last().context("memory")?;
        for (index, word) in bytes.chunks(4).enumerate() {
            let mut padded = [0; 4];
            padded[..word.len()].copy_from_slice(word);
            area.poke(index * 4, u32::from_le_bytes(padded))?;
        }
        Ok(address)
    }

    /// A number, a name of the facts, `$` and a variable, or a sum of them.
    fn value(&self, text: &str) -> Result<u64> {
        let mut sum = 0u64;
        let mut rest = text;
        let mut minus = false;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('-') {
                (minus, rest) = (true, after);
                continue;
            }
            let end = rest.find(['+', '-']).unwrap_or(rest.len());
            let value = self.term(&rest[..end])?;
            sum = if minus {
                sum.wrapping_sub(value)
            } else {
                sum.wrapping_add(value)
            };
            minus = rest[end..].starts_with('-');
            rest = rest[end..].get(1..).unwrap_or_default();
        }
        Ok(sum)
    }

    fn term(&self, text: &str) -> Result<u64> {
        if let Some(name) = text.strip_prefix('$') {
            let value = self.variables.get(name);
            return value.copied().with_context(|| format!("no ${name}"));
        }
        if let Some(hexadecimal) = text.strip_prefix("0x") {
            return Ok(u64::from_str_radix(hexadecimal, 16)?);
        }
        match self.abi.values.get(text) {
            Some(value) => Ok((*value).into()),
            None => text
                .parse()
                .with_context(|| format!("{text:?} is no number")),
        }
    }

    fn fields(&self, words: &[&str]) -> Result<Vec<(String, u64)>> {
        let fields = words.iter().map(|word| {
            let (field, value) = word.split_once('=').context("no value")?;
            Ok((field.to_string(), self.value(value)?))
        });
        fields.collect()
    }

    fn place(&self, member: &str, field: &str) -> Result<(usize, usize)> {
        let place = self.abi.field(member, field);
        place.with_context(|| format!("no {member}.{field}"))
    }

    /// Number and member of a command, of which there may be only the number.
    fn command(&self, name: &str) -> Result<(u32, &'static str)> {
        if let Some(number) = name.strip_prefix("command:") {
            return Ok((number.parse()?, "-"));
        }
        let known = self.abi.commands.get(name);
        let (number, member) = known.with_context(|| format!("no command {name}"))?;
        let other = MEMBERS.iter().find(|(command, _)| *command == name);
        Ok((*number, other.map_or(*member, |(_, member)| member)))
    }

    /// Adds a record to the queue.
    fn record(&mut self, command: &str, words: &[&str]) -> Result<()> {
        let (number, member) = self.command(command)?;
        let mut bytes = vec![0; self.abi.members["gcsQUEUE"]];
        let part = |name: &str| self.abi.fields[name];
        let (next, size) = part("gcsQUEUE.next");
        put(&mut bytes, (part("gcsQUEUE.iface").0, 4), number.into())?;
        let union_at = part("gcsQUEUE.u").0;
        let mut next_is = 0;
        for (field, value) in self.fields(words)? {
            if field == "next" {
                next_is = value;
                continue;
            }
            let (at, size) = self.place(member, &field)?;
            put(&mut bytes, (union_at + at, size), value)?;
        }
        put(&mut bytes, (next, size), next_is)?;
        let address = self.area(&bytes)?;
        match self.last {
            Some(last) => {
                ensure!(
                    self.areas[last].poke(next, address as u32)?,
                    "the record before"
                );
            }
            None => drop(self.variables.insert("queue".to_string(), address)),
        }
        self.last = Some(self.areas.len() - 1);
        Ok(())
    }

    fn request(
        &mut self,
        who: &str,
        label: Option<&str>,
        command: &str,
        words: &[&str],
    ) -> Result<(Option<String>, bool)> {
        let (number, member) = self.command(command)?;
        let mut bytes = vec![0; MOST];
        let mut sizes = (self.abi.sizes[0] as u64, self.abi.sizes[0] as u64);
        let mut request = uapi::IOCTL_INTERFACE;
        if let ("-", false) = (member, words.is_empty()) {
            let of_header = words.iter().all(|word| word.starts_with(['@', '%']));
            ensure!(of_header, "a command without fields");
        }
        self.abi.put_header(&mut bytes, "command", number.into());
        self.abi
            .put_header(&mut bytes, "hardwareType", self.variables["hardware"]);
        let mut fields = self.fields(words)?;
        // What is given is given above it.
        fields.sort_by_key(|(field, _)| field != "%fill");
        for (field, value) in fields {
            match field.as_str() {
                "%in" => sizes.0 = value,
                "%out" => sizes.1 = value,
                "%request" => request = value as u32,
                "%fill" => {
                    let end = self.abi.union_at + self.abi.members[member];
                    bytes[self.abi.union_at..end].fill(value as u8);
                }
                field => match field.strip_prefix('@') {
                    Some(field) => self.abi.put_header(&mut bytes, field, value),
                    None => {
                        let (at, size) = self.place(member, field)?;
                        put(&mut bytes, (self.abi.union_at + at, size), value)?;
                    }
                },
            }
        }
        ensure!(
            sizes.0.max(sizes.1) <= MOST as u64,
            "more than there is room for"
        );
        let before = bytes.clone();
        let result = match self.others.get_mut(who) {
            Some(other) => other.ask(request, sizes, &mut bytes)?,
            None => {
                let file = self.files.get(who).context("no such file")?;
                send(file, request, sizes, &mut bytes)
            }
        };
        if let Some(label) = label {
            self.name_fields(label, member, &bytes);
        }
        if result != 0 {
            return Ok((Some(format!("errno {result}")), true));
        }
        let status = Status(self.abi.header_of(&bytes, "status") as i32);
        let mut answer = status.0.to_string();
        for (field, at, size) in self.members_of(member) {
            let at = self.abi.union_at + at;
            let (old, new) = (&before[at..at + size], &bytes[at..at + size]);
            if old == new {
                continue;
            }
            let told = match number_of(new) {
                Some(value) => self.symbols.tell(&format!("{member}.{field}"), value),
                None if field == "logicals" => Some("some".to_string()),
                None => Some(list_of(new)),
            };
            if let Some(told) = told {
                answer.push_str(&format!(" {field}={told}"));
            }
        }
        Ok((Some(answer), status != Status::OK))
    }

    /// Makes variables of an answer's fields.
    fn name_fields(&mut self, label: &str, member: &str, bytes: &[u8]) {
        for (field, at, size) in self.members_of(member) {
            let at = self.abi.union_at + at;
            let value = number_of(&bytes[at..at + size]).unwrap_or_default();
            self.variables.insert(format!("{label}.{field}"), value);
        }
    }

    /// The fields of a member, in order.
    fn members_of(&self, member: &str) -> Vec<(&'static str, usize, usize)> {
        let mut fields: Vec<_> = self
            .abi
            .fields
            .iter()
            .filter_map(|(name, (at, size))| {
                let field = name.strip_prefix(member)?.strip_prefix('.')?;
                Some((field, *at, *size))
            })
            .collect();
        fields.sort_by_key(|(field, at, _)| (*at, *field));
        fields
    }

    /// Another process with the device open, which has what this one has now.
    fn fork(&mut self, name: &str) -> Result<()> {
        let (theirs, to) = rustix::pipe::pipe()?;
        let (from, answers) = rustix::pipe::pipe()?;
        let process =
            raw::copied(|| serve(self.abi, File::from(theirs), File::from(answers)).is_ok())?;
        self.variables.insert(name.to_string(), process.id() as u64);
        let mut other = Other {
            process,
            to: File::from(to),
            from: File::from(from),
        };
        // It has opened the device.
        let mut ready = [0];
        other.from.read_exact(&mut ready)?;
        self.others.insert(name.to_string(), other);
        Ok(())
    }
}

/// Writes a field.
fn put(bytes: &mut [u8], (at, size): (usize, usize), value: u64) -> Result<()> {
    let into = bytes
        .get_mut(at..at + size.min(8))
        .context("no such place")?;
    into.copy_from_slice(&value.to_le_bytes()[..size.min(8)]);
    Ok(())
}

/// The number that a field of up to 8 bytes holds.
fn number_of(bytes: &[u8]) -> Option<u64> {
    let mut whole = [0; 8];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(whole))
}

/// The words of a longer field, without zeros at its end.
fn list_of(bytes: &[u8]) -> String {
    let words: Vec<u64> = bytes.chunks(4).filter_map(number_of).collect();
    let end = words
        .iter()
        .rposition(|word| *word != 0)
        .map_or(0, |last| last + 1);
    let words: Vec<String> = words[..end]
        .iter()
        .map(|word| format!("{word:#x}"))
        .collect();
    format!("[{}]", words.join(","))
}

impl Other {
    fn ask(&mut self, request: u32, sizes: (u64, u64), bytes: &mut [u8]) -> Result<i32> {
        self.to.write_all(&request.to_le_bytes())?;
        self.to.write_all(&sizes.0.to_le_bytes())?;
        self.to.write_all(&sizes.1.to_le_bytes())?;
        self.to.write_all(bytes)?;
        let mut result = [0; 4];
        self.from.read_exact(&mut result)?;
        self.from.read_exact(bytes)?;
        Ok(i32::from_le_bytes(result))
    }
}

/// Is the other process, until nobody asks any more.
fn serve(abi: &Abi, mut from: File, mut to: File) -> Result<()> {
    let device = open(abi)?;
    to.write_all(&[1])?;
    let (mut head, mut bytes) = ([0; 20], vec![0; MOST]);
    loop {
        from.read_exact(&mut head)?;
        from.read_exact(&mut bytes)?;
        let number = |at: usize| number_of(&head[at..at + 8]).unwrap_or_default();
        let (input, output) = (number(4), number(12));
        if input.max(output) > MOST as u64 {
            bail!("no request");
        }
        let request = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let result = send(&device, request, (input, output), &mut bytes);
        to.write_all(&result.to_le_bytes())?;
        to.write_all(&bytes)?;
    }
}
