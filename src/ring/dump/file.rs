// SPDX-License-Identifier: GPL-2.0-only

//! The file of a dump: the snapshot, the MMU's tables, memory, and a description in text, in the
//! format of etnaviv's dumps, which existing tools read.
//!
//! The file begins with a table of object headers of 32 bytes: magic, type, offset of
//! the object in the file and its bytes (32 bits each), its GPU address (64 bits), and two words,
//! the first of which is the index of a buffer object's first page in the list of pages. All is
//! little endian. Tools stop at the type END and have no names for unknown types: so our own types
//! come after END.

use super::{
    super::job::{
        Named,
        Piece, //
    },
    Addressing,
    Dumps,
    Outcome,
    Scene,
    Snapshot,
    Span,
    MAX_PIECES, //
};
use crate::{
    hw::MmuVersion,
    prelude::*,
    sys::{
        coredump,
        text_files::Text, //
    }, //
};

/// The most bytes of memory in a dump, by the parameter's level: of one piece, and of all.
const LIMITS: [(usize, usize); 4] = [
    (0, 0),
    (0, 0),
    (1 << 20, 4 << 20),
    (16 << 20, 32 << 20), //
];

const TEXT_BYTES: usize = 1024;

/// The objects that are not pieces of memory: registers, MMU, ring, commands, context, pages, text.
const OBJECTS: usize = 7;

impl Dumps {
    /// The file, and its bytes.
    pub(super) fn assemble(
        &self,
        scene: &Scene<'_>,
        snapshot: &Snapshot,
        spans: [Option<Span>; 2],
        named: Option<&Named>,
    ) -> Outcome<(coredump::File, usize)> {
        let tables = match scene.addressing {
            Addressing::Translated(vm) => Some((vm, scene.hardware.mmu_version())),
            Addressing::Physical(_) => None,
        };
        let version = tables.map(|(_, version)| version);
        let none: &[Piece] = &[];
        let pieces = named.map_or(none, |named| &named.pieces);
        let taken = granted(self.level, pieces.iter().map(|p| p.range.bytes()));
        let taken = &taken[..pieces.len().min(MAX_PIECES)];
        let registers = snapshot.registers.all();
        let space = match (snapshot.space, scene.addressing) {
            (Some(space), Addressing::Translated(vm)) => vm.space(space),
            _ => None,
        };
        let space = space.as_deref();
        let table_bytes = tables.map_or(0, |(vm, version)| vm.table_bytes(version, space));
        let page_count: usize = pieces.iter().zip(taken).map(pages_of).sum();
        let fixed = [
            registers.len() * 8,
            table_bytes,
            scene.bytes,
            spans[0].map_or(0, |span| span.count * 4),
            spans[1].map_or(0, |span| span.count * 4),
            page_count * 8,
            TEXT_BYTES,
        ];
        // `Init` has a `chain` too, so this one is called by its trait.
        let sizes = Iterator::chain(fixed.into_iter(), taken.iter().copied());
        let mut file = coredump::File::new(file_bytes(sizes).ok_or(ENOMEM)?)?;
        let mut writer = Writer::new(file.bytes(), OBJECTS + taken.len());
        let object = writer.add(Kind::Registers, 0, 0, registers.len() * 8);
        for (to, &(offset, value)) in object.ok_or(ENOSPC)?.chunks_exact_mut(8).zip(registers) {
            to[..4].copy_from_slice(&offset.to_le_bytes());
            to[4..].copy_from_slice(&value.to_le_bytes());
        }
        if let Some((vm, version)) = tables {
            let object = writer.add(Kind::Mmu, 0, 0, table_bytes).ok_or(ENOSPC)?;
            vm.copy_tables(version, space, object)?;
        }
        let object = writer.add(Kind::Ring, scene.address.into(), 0, scene.bytes);
        let object = object.ok_or(ENOSPC)?;
        for &span in &snapshot.ring {
            let at = u32_as_usize(span.address.wrapping_sub(scene.address));
            put_words(object.get_mut(at..).ok_or(ENOSPC)?, snapshot.words_of(span));
        }
        for span in spans.into_iter().flatten() {
            let object = writer.add(Kind::Commands, span.address.into(), 0, span.count * 4);
            put_words(object.ok_or(ENOSPC)?, snapshot.words_of(span));
        }
        // Tools compare it with the MMU's tables, which they take for those of version 1.
        if version == Some(MmuVersion::V1) {
            put_pages(&mut writer, pieces, taken, page_count)?;
        }
        let (mut first_page, mut unread) = (0, 0);
        for (piece, &bytes) in pieces.iter().zip(taken).filter(|(_, &bytes)| bytes > 0) {
            let base = scene.addressing.base().unwrap_or(0);
            let address = u64::from(piece.range.start().wrapping_add(base));
            let object = writer.add(Kind::Buffer, address, first_page, bytes);
            // `pieces` has a reference, so the memory is not moved or freed.
            if piece.memory.copy(0, object.ok_or(ENOSPC)?).is_err() {
                unread += 1;
            }
            // CAST: less than the file's bytes.
            first_page += pages_of((piece, &bytes)) as u32;
        }
        writer.add(Kind::End, 0, 0, 0).ok_or(ENOSPC)?;
        if version != Some(MmuVersion::V1) {
            put_pages(&mut writer, pieces, taken, page_count)?;
        }
        let mut memory = KVec::from_elem(0u8, TEXT_BYTES, GFP_KERNEL)?;
        let mut text = Text::new(&mut memory);
        // Text that does not fit is left out.
        let _ = self.describe(&mut text, scene, snapshot, named, taken, unread);
        let count = text.bytes();
        let object = writer.add(Kind::Text, 0, 0, count);
        object.ok_or(ENOSPC)?.copy_from_slice(&memory[..count]);
        let bytes = writer.finish();
        Ok((file, bytes))
    }

    /// Describes in text what the tools do not know.
    fn describe(
        &self,
        text: &mut Text<'_>,
        scene: &Scene<'_>,
        snapshot: &Snapshot,
        named: Option<&Named>,
        taken: &[usize],
        unread: u32,
    ) -> fmt::Result {
        let identity = &scene.hardware.identity;
        // Hexadecimal: decimal would divide 64 bits, which the kernel does not have on ARM.
        text.write_fmt(fmt!("driver: galcore\n"))?;
        text.write_fmt(fmt!("core: {}\n", scene.core))?;
        text.write_fmt(fmt!("model: {:#x}\n", identity.model))?;
        text.write_fmt(fmt!("revision: {:#x}\n", identity.revision))?;
        text.write_fmt(fmt!("resets: {}\n", scene.resets))?;
        text.write_fmt(fmt!("job: {:#x}\n", snapshot.job.0))?;
        text.write_fmt(fmt!("event: {}\n", snapshot.job.1))?;
        if let Some(position) = snapshot.registers.position() {
            text.write_fmt(fmt!("position: {position:#010x}\n"))?;
        }
        match (snapshot.process, named) {
            (0, _) => text.write_fmt(fmt!("guilty: none\n"))?,
            (_, None) => text.write_fmt(fmt!("guilty: a process that has ended\n"))?,
            (_, Some(named)) => {
                text.write_fmt(fmt!("guilty: a process\n"))?;
                if let Some(generation) = named.generation {
                    text.write_fmt(fmt!("interface: {generation}\n"))?;
                }
            }
        }
        if let Some(culprit) = &snapshot.culprit {
            text.write_fmt(fmt!("pid: {}\n", culprit.id))?;
            text.write_fmt(fmt!("user: {}\n", culprit.user))?;
            text.write_fmt(fmt!("comm: {}\n", culprit.name))?;
        }
        if let Some(span) = snapshot.commands {
            text.write_fmt(fmt!(
                "commands: {:#010x} {:#x}\n",
                span.address,
                span.count * 4
            ))?;
        }
        if let Some(span) = snapshot.context {
            text.write_fmt(fmt!(
                "context: {:#010x} {:#x}\n",
                span.address,
                span.count * 4
            ))?;
        }
        text.write_fmt(fmt!("level: {}\n", self.level))?;
        let pieces = named.map_or(0, |named| named.pieces.len());
        let left_out = taken.iter().filter(|&&bytes| bytes == 0).count();
        text.write_fmt(fmt!(
            "memory: {pieces} pieces named, {left_out} left out, {unread} not read\n"
        ))
    }
}

/// The bytes of each piece that are taken at this level, for pieces of these `bytes`, in order.
fn granted(level: u32, pieces: impl Iterator<Item = usize>) -> [usize; MAX_PIECES] {
    // CAST: at most 3.
    let (of_one, mut left) = LIMITS[(level as usize).min(LIMITS.len() - 1)];
    let mut taken = [0; MAX_PIECES];
    for (to, bytes) in taken.iter_mut().zip(pieces) {
        *to = bytes.min(of_one).min(left);
        left -= *to;
    }
    taken
}

/// Pages that hold the taken bytes of a piece.
fn pages_of((piece, &bytes): (&Piece, &usize)) -> usize {
    let before = u32_as_usize(piece.range.start()) % PAGE_SIZE;
    match bytes {
        0 => 0,
        _ => (before + bytes).div_ceil(PAGE_SIZE),
    }
}

fn put_pages(writer: &mut Writer<'_>, pieces: &[Piece], taken: &[usize], count: usize) -> Outcome {
    let object = writer.add(Kind::Pages, 0, 0, count * 8).ok_or(ENOSPC)?;
    let mut to = object.chunks_exact_mut(8);
    for (piece, bytes) in pieces.iter().zip(taken) {
        for (index, to) in (0..pages_of((piece, bytes))).zip(&mut to) {
            to.copy_from_slice(&piece.memory.page(index).to_le_bytes());
        }
    }
    Ok(())
}

/// Writes words, little endian.
fn put_words(to: &mut [u8], words: &[u32]) {
    for (to, word) in to.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

const HEADER_BYTES: usize = 32;

/// First word of each header: "ETNA" as bytes.
const MAGIC: u32 = 0x414E_5445;

const ALIGNMENT: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Registers: pairs of byte offset and value.
    Registers = 0,
    Mmu = 1,
    /// The kernel's ring.
    Ring = 2,
    Commands = 3,
    /// Bus addresses of the buffer objects' pages, 64 bits each.
    Pages = 4,
    Buffer = 5,
    /// The end, for tools.
    End = 6,
    /// Ours: text, one fact a line.
    Text = 0x100,
}

/// Bytes of an object up to the next.
const fn padded(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(ALIGNMENT)
}

/// Bytes of a file with objects of these bytes, without END. `None`: too large.
fn file_bytes(mut objects: impl Iterator<Item = usize>) -> Option<usize> {
    objects
        .try_fold(HEADER_BYTES, |sum: usize, bytes| {
            sum.checked_add(HEADER_BYTES)?.checked_add(padded(bytes)?)
        })
        // Headers have 32 bits.
        .filter(|&sum| u32::try_from(sum).is_ok())
}

/// A file that is being written.
pub(crate) struct Writer<'a> {
    file: &'a mut [u8],
    /// Where the next header goes, and where the table ends.
    header: usize,
    headers_end: usize,
    /// Where the next object goes.
    end: usize,
}

impl<'a> Writer<'a> {
    /// A writer with room for `objects` objects and END in `file`, which holds zeros.
    pub(super) fn new(file: &'a mut [u8], objects: usize) -> Self {
        let headers_end = (objects + 1) * HEADER_BYTES;
        Self {
            file,
            header: 0,
            headers_end,
            end: headers_end,
        }
    }

    /// Adds an object of `bytes` bytes at GPU address `address`, whose pages begin at index
    /// `pages`; returns the place for its bytes. `None`: there is no room, and nothing has changed.
    pub(super) fn add(
        &mut self,
        kind: Kind,
        address: u64,
        pages: u32,
        bytes: usize,
    ) -> Option<&mut [u8]> {
        let end = self.end.checked_add(padded(bytes)?)?;
        let next = self.header + HEADER_BYTES;
        if end > self.file.len() || next > self.headers_end {
            return None;
        }
        let (at, size) = (u32::try_from(self.end).ok()?, u32::try_from(bytes).ok()?);
        let header = self.file.get_mut(self.header..next)?;
        // CAST: the kinds' numbers.
        for (to, word) in header
            .chunks_exact_mut(4)
            .zip([MAGIC, kind as u32, at, size])
        {
            to.copy_from_slice(&word.to_le_bytes());
        }
        header[16..24].copy_from_slice(&address.to_le_bytes());
        header[24..28].copy_from_slice(&pages.to_le_bytes());
        self.header = next;
        let start = core::mem::replace(&mut self.end, end);
        self.file.get_mut(start..start + bytes)
    }

    /// Bytes of the file.
    pub(super) fn finish(self) -> usize {
        self.end
    }
}

#[kunit_tests(galcore_etdump)]
mod etdump_tests {
    use super::*;

    fn word(file: &[u8], at: usize) -> u32 {
        u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]])
    }

    #[test]
    fn headers_say_where_objects_are() {
        let sizes = [8, 13, 4];
        let bytes = file_bytes(sizes.into_iter()).unwrap();
        assert_eq!(bytes, 4 * 32 + 8 + 16 + 8);
        let mut file = [0u8; 160];
        let mut writer = Writer::new(&mut file, sizes.len());
        let registers = writer.add(Kind::Registers, 0, 0, 8).unwrap();
        registers.copy_from_slice(&[0x18, 0, 0, 0, 1, 2, 3, 4]);
        let buffer = writer.add(Kind::Buffer, 0x8000_1000, 7, 13).unwrap();
        assert_eq!(buffer.len(), 13);
        buffer.fill(0xAA);
        assert!(writer.add(Kind::End, 0, 0, 0).is_some());
        writer
            .add(Kind::Text, 0, 0, 4)
            .unwrap()
            .copy_from_slice(b"a: b");
        // The table is full.
        assert!(writer.add(Kind::Text, 0, 0, 0).is_none());
        assert_eq!(writer.finish(), bytes);
        let header = |number: usize| -> [u32; 8] {
            core::array::from_fn(|at| word(&file, number * 32 + at * 4))
        };
        assert_eq!(&file[..4], b"ETNA");
        assert_eq!(header(0), [MAGIC, 0, 128, 8, 0, 0, 0, 0]);
        assert_eq!(header(1), [MAGIC, 5, 136, 13, 0x8000_1000, 0, 7, 0]);
        assert_eq!(header(2), [MAGIC, 6, 152, 0, 0, 0, 0, 0]);
        assert_eq!(header(3), [MAGIC, 0x100, 152, 4, 0, 0, 0, 0]);
        assert_eq!(word(&file, 132), 0x0403_0201);
        assert_eq!(file[136..149], [0xAA; 13]);
        assert_eq!(file[149..152], [0; 3]);
        assert_eq!(&file[152..156], b"a: b");
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut file = [0u8; 96];
        let mut writer = Writer::new(&mut file, 2);
        assert!(writer.add(Kind::Buffer, 0, 0, 1).is_none());
        assert!(writer.add(Kind::Buffer, 0, 0, usize::MAX).is_none());
        assert!(writer.add(Kind::End, 0, 0, 0).is_some());
        assert_eq!(writer.finish(), 96);
        assert_eq!(&file[..8], b"ETNA\x06\0\0\0");
        assert_eq!(file[32..], [0; 64]);
    }

    #[test]
    fn no_file_is_larger_than_its_headers_can_say() {
        assert!(file_bytes([usize::MAX].into_iter()).is_none());
        assert!(file_bytes([usize::MAX - 100, 200].into_iter()).is_none());
        assert!(file_bytes([0x8000_0000, 0x8000_0000].into_iter()).is_none());
        assert_eq!(file_bytes(core::iter::empty()), Some(32));
    }
}

#[kunit_tests(galcore_dump_file)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn first_of(level: u32, pieces: &[usize]) -> [usize; 6] {
        let taken = granted(level, pieces.iter().copied());
        core::array::from_fn(|at| taken[at])
    }

    #[test]
    fn memory_is_taken_up_to_a_limit() {
        let pieces = [4096, 2 * MIB, MIB, MIB, MIB, MIB];
        assert_eq!(first_of(0, &pieces), [0; 6]);
        assert_eq!(first_of(1, &pieces), [0; 6]);
        assert_eq!(first_of(2, &pieces), [4096, MIB, MIB, MIB, MIB - 4096, 0]);
        assert_eq!(first_of(3, &pieces), pieces);
        assert_eq!(
            first_of(3, &[usize::MAX; 6]),
            [16 * MIB, 16 * MIB, 0, 0, 0, 0]
        );
        assert_eq!(granted(2, [1; 100].into_iter()), [1; MAX_PIECES]);
    }

    #[test]
    fn text_has_a_bound() {
        let mut memory = [0; 16];
        let mut text = Text::new(&mut memory);
        assert!(text.write_fmt(fmt!("a: {}\n", 5)).is_ok());
        while text.write_fmt(fmt!("0123456")).is_ok() {}
        assert_eq!(text.bytes(), 12);
        assert!(memory == *b"a: 5\n0123456\0\0\0\0");
    }
}
