// SPDX-License-Identifier: GPL-2.0-only
//! Parser for dumps of hangs that reads them the way the existing tools do.
//!
//! It follows viv-unpack of etna-gpu-tools, not the driver's code. That tool reads headers from the start of the file
//! up to one of type END or one without the magic. It takes the front end's address from the registers, and marks the
//! last ring or commands object that contains this address. For buffer objects above 2 GiB it compares the MMU table
//! entry of each page with the list of pages.
//!
//! The parser also reads the objects after END, which the tool ignores.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;

/// First word of each header.
const MAGIC: u32 = 0x414e_5445;
/// Bytes of a header.
const HEADER: usize = 32;
/// Types of objects.
const REGISTERS: u32 = 0;
const MMU: u32 = 1;
/// The kernel's ring buffer.
pub const RING: u32 = 2;
/// A command buffer.
pub const COMMANDS: u32 = 3;
const PAGES: u32 = 4;
/// A buffer object.
pub const BUFFER: u32 = 5;
const END: u32 = 6;
/// galcore's own type: text.
const TEXT: u32 = 0x100;
/// The register with the front end's address.
const DMA_ADDRESS: u32 = 0x664;
/// The same register of a core for vector graphics.
const VECTOR_POSITION: u32 = 0x508;
/// The first address that MMU version 1 translates.
const TRANSLATED: u64 = 0x8000_0000;

/// The directory in which the kernel offers dumps.
const CLASS: &str = "/sys/class/devcoredump";

/// An object of a dump.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its type.
    pub kind: u32,
    /// GPU address.
    pub address: u64,
    /// The index of its first page in the list of pages.
    pub pages: u32,
    /// The contents.
    pub bytes: Vec<u8>,
}

impl Object {
    /// The contents as words.
    pub fn words(&self) -> Vec<u32> {
        words(&self.bytes)
    }

    /// The word at a GPU address, if the object contains it.
    pub fn word_at(&self, address: u32) -> Option<u32> {
        let at = usize::try_from(u64::from(address).checked_sub(self.address)?).ok()?;
        let bytes = self.bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.chunks_exact(4).map(word).collect()
}

/// A dump.
#[derive(Clone, Debug)]
pub struct Dump {
    /// The objects before END, in file order.
    pub objects: Vec<Object>,
    /// The registers, by byte offset.
    pub registers: BTreeMap<u32, u32>,
    /// The text lines, by name.
    pub text: BTreeMap<String, String>,
    /// The whole file.
    pub file: Vec<u8>,
}

/// The object that header `number` describes.
fn object(file: &[u8], number: usize) -> Result<Option<Object>> {
    let Some(header) = file.get(number * HEADER..(number + 1) * HEADER) else {
        return Ok(None);
    };
    let word = words(header);
    if word[0] != MAGIC {
        return Ok(None);
    }
    let (start, size) = (word[2] as usize, word[3] as usize);
    let bytes = file
        .get(start..start + size)
        .with_context(|| format!("object {number} is not inside the file"))?;
    ensure!(start % 8 == 0, "object {number} begins at {start:#x}");
    Ok(Some(Object {
        kind: word[1],
        address: u64::from(word[4]) | u64::from(word[5]) << 32,
        pages: word[6],
        bytes: bytes.to_vec(),
    }))
}

impl Dump {
    /// Parses a dump.
    pub fn parse(file: Vec<u8>) -> Result<Self> {
        let mut objects = Vec::new();
        let mut number = 0;
        loop {
            let found = object(&file, number)?.context("no end")?;
            number += 1;
            match found.kind {
                END => break,
                kind if kind > END => anyhow::bail!("type {kind} has no name"),
                _ => objects.push(found),
            }
        }
        let mut text = BTreeMap::new();
        while let Some(found) = object(&file, number)? {
            number += 1;
            if found.kind == TEXT {
                let lines = String::from_utf8(found.bytes).context("the text")?;
                let pairs = lines.lines().filter_map(|line| line.split_once(": "));
                text.extend(pairs.map(|(name, value)| (name.to_string(), value.to_string())));
            }
            if number > 1000 {
                break;
            }
        }
        let list = objects.iter().find(|object| object.kind == REGISTERS);
        let list = list.context("no registers")?.words();
        let registers = list.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        Ok(Self {
            registers: registers.collect(),
            objects,
            text,
            file,
        })
    }

    /// The front end's address.
    pub fn position(&self) -> Result<u32> {
        self.register(DMA_ADDRESS)
            .or_else(|_| self.register(VECTOR_POSITION))
    }

    /// The value of a register.
    pub fn register(&self, offset: u32) -> Result<u32> {
        let value = self.registers.get(&offset);
        value
            .copied()
            .with_context(|| format!("no register {offset:#x}"))
    }

    /// A line of the text.
    pub fn line(&self, name: &str) -> Result<&str> {
        let value = self
            .text
            .get(name)
            .with_context(|| format!("no line {name}"));
        Ok(value?.as_str())
    }

    /// The objects of one type.
    pub fn of(&self, kind: u32) -> impl Iterator<Item = &Object> {
        self.objects
            .iter()
            .filter(move |object| object.kind == kind)
    }

    /// The object that the tool marks: the last ring or commands object that contains the front end's address.
    pub fn marked(&self) -> Result<&Object> {
        let at = u64::from(self.position()?);
        let around = |object: &&Object| {
            matches!(object.kind, RING | COMMANDS)
                && (object.address..object.address + object.bytes.len() as u64).contains(&at)
        };
        let mut found = self.objects.iter().filter(around);
        found
            .next_back()
            .with_context(|| format!("nothing is marked at {at:#x}"))
    }

    /// Compares the MMU's table with the list of pages, as the tool does; returns the number of compared pages.
    pub fn check_mmu(&self) -> Result<usize> {
        let (Some(mmu), Some(list)) = (self.of(MMU).next(), self.of(PAGES).next()) else {
            return Ok(0);
        };
        let (mmu, list) = (mmu.words(), list.words());
        let mut compared = 0;
        for object in self
            .of(BUFFER)
            .filter(|object| object.address >= TRANSLATED)
        {
            let first = ((object.address - TRANSLATED) >> 12) as usize;
            for page in 0..object.bytes.len() >> 12 {
                let entry = *mmu.get(first + page).context("the table is short")?;
                let at = 2 * (object.pages as usize + page);
                let wanted = list.get(at..at + 2).context("the list of pages is short")?;
                ensure!(
                    [entry, 0] == *wanted,
                    "page {page} of {:#x}: {entry:#x}, {wanted:x?}",
                    object.address
                );
                compared += 1;
            }
        }
        Ok(compared)
    }

    /// Counts the occurrences of a word in the file, aligned or not.
    pub fn count(&self, word: u32) -> usize {
        let word = word.to_le_bytes();
        let starts = self.file.iter().enumerate();
        let starts = starts.filter(|(_, &byte)| byte == word[0]);
        starts
            .filter(|&(at, _)| self.file[at..].starts_with(&word))
            .count()
    }
}

/// The dumps that the kernel offers.
pub fn offered() -> Result<Vec<PathBuf>> {
    let Ok(folder) = fs::read_dir(CLASS) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in folder {
        let data = entry?.path().join("data");
        if data.exists() {
            found.push(data);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether the kernel supports dumps.
pub fn is_possible() -> bool {
    Path::new(CLASS).exists()
}

/// Deletes a dump from the kernel.
pub fn forget(data: &Path) -> Result<()> {
    fs::write(data, "1").with_context(|| format!("{}", data.display()))
}
