// SPDX-License-Identifier: GPL-2.0-only
//! Memory as seen by one part of a split draw: copies of pages, so that several threads can draw the parts.
//!
//! The first access to a page translates and copies it without side effects: it fills no TLB and reports nothing. A
//! part's writes stay in its copies. When all parts are done, each thread writes the copies of its own parts to memory.
//! The bus then applies the rest ([`Bus::commit`]) and fills its TLBs. If there is anything to report, or if two parts
//! access the same memory, the draw drops all copies and starts again, in order and directly on the bus.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::OnceLock;

use super::Counts;
use crate::engine2d::Bus;
use crate::gpu::lock;
use crate::mmu::Port;
use crate::profile::MAX_PIPES;

/// Bytes per page. No page is smaller.
pub const PAGE: usize = 4096;
/// Bytes per word of a mask.
const LINE: usize = 64;
/// Maximum number of page buffers that a part keeps between draws: 20 MiB.
const ROOM: usize = 4096;
/// Number of recent page accesses cached per port.
const RECENT: usize = 64;
/// Number of polls of the verdict before a thread sleeps: about 50 us.
const SPINS: usize = 2048;

/// Memory that several threads can read without side effects.
pub trait Peek: Sync {
    /// Physical address of the page at a GPU address, if an access to it has nothing to report.
    fn page(&self, port: Port, address: u32, write: bool) -> Option<u64>;
    /// Copies the page at a physical address. Returns false if part of it does not exist.
    fn copy(&self, physical: u64, bytes: &mut [u8; PAGE]) -> bool;
    /// Writes a part's data to a page that it has copied before.
    fn put(&self, physical: u64, bytes: &[u8]);
    /// See [`Bus::progress`].
    fn goes_on(&self);
    /// See [`Bus::aborted`].
    fn is_over(&self) -> bool;
}

/// One bit per byte of a page.
type Mask = [u64; PAGE / LINE];

#[inline]
fn mark(mask: &mut Mask, offset: usize, bytes: usize) {
    if bytes == LINE && offset % LINE == 0 {
        mask[offset / LINE] = u64::MAX;
        return;
    }
    let (mut at, end) = (offset, offset + bytes);
    while at < end {
        let count = (LINE - at % LINE).min(end - at);
        mask[at / LINE] |= u64::MAX >> (LINE - count) << (at % LINE);
        at += count;
    }
}

/// Copies bytes, whole tiles without a function call.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    if to.len() != LINE {
        return to.copy_from_slice(from);
    }
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<LINE>(), from.first_chunk::<LINE>()) {
        *to = *from;
    }
}

/// A copy of a page.
pub struct Page {
    physical: u64,
    bytes: [u8; PAGE],
    read: Mask,
    written: Mask,
}

impl Page {
    /// Whether the order of the two parts matters for this page.
    fn meets(&self, other: &Self) -> bool {
        (0..PAGE / LINE).any(|line| {
            let (ours, theirs) = (self.written[line], other.written[line]);
            ours & (theirs | other.read[line]) | theirs & self.read[line] != 0
        })
    }

    /// The written ranges: address and bytes.
    fn changes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut at = 0;
        let is_written = |at: usize| self.written[at / LINE] >> (at % LINE) & 1 != 0;
        // The first byte from `at` with this state, or the end of the page.
        let find = move |mut at: usize, wanted: bool| {
            let whole = if wanted { 0 } else { u64::MAX };
            while at < PAGE && is_written(at) != wanted {
                at += match at % LINE {
                    0 if self.written[at / LINE] == whole => LINE,
                    _ => 1,
                };
            }
            at
        };
        std::iter::from_fn(move || {
            let first = find(at, true);
            at = find(first, false);
            (first < PAGE).then(|| (self.physical + first as u64, &self.bytes[first..at]))
        })
    }
}

/// A translated access.
#[derive(Clone, Copy, Debug)]
pub struct Touched {
    pub port: Port,
    /// GPU address of the page.
    pub address: u32,
    pub write: bool,
    /// Physical address of the page.
    pub physical: u64,
}

/// Bytes and pixels of a pixel pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Pixels drawn.
    pub pixels: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        self.read += more.read;
        self.written += more.written;
        self.pixels += more.pixels;
    }
}

/// State shared by all parts of a draw.
pub(super) struct Under<'a> {
    pub peek: &'a dyn Peek,
    /// A part reached something that only the bus itself can handle.
    pub failed: AtomicBool,
    /// Number of progress steps shown in the counters.
    pub shown: AtomicU64,
}

impl<'a> Under<'a> {
    pub fn new(peek: &'a dyn Peek) -> Self {
        Self {
            peek,
            failed: AtomicBool::new(false),
            shown: AtomicU64::new(0),
        }
    }
}

/// A finished part: its number, its work, and its copies.
pub(super) type Drawn = (usize, Counts, Arc<Done>);

/// Synchronizes the threads: they wait here until all parts are drawn.
pub(super) struct Gate {
    parts: usize,
    drawn: Mutex<Vec<Drawn>>,
    /// Whether the copies go to memory.
    verdict: OnceLock<bool>,
    decided: Condvar,
}

impl Gate {
    /// A gate for this number of parts.
    pub fn new(parts: usize) -> Self {
        Self {
            parts,
            drawn: Mutex::new(Vec::new()),
            verdict: OnceLock::new(),
            decided: Condvar::new(),
        }
    }

    /// Registers a finished part. The last one decides whether all parts are committed.
    pub fn pass(&self, part: Drawn, under: &Under<'_>) {
        let mut drawn = lock(&self.drawn);
        drawn.push(part);
        if drawn.len() == self.parts {
            let is_dropped = under.failed.load(Relaxed) || meet(drawn.iter().map(|part| &*part.2));
            self.decide(!is_dropped);
        }
    }

    fn decide(&self, keeps: bool) {
        let _ = self.verdict.set(keeps);
        self.decided.notify_all();
    }

    /// Waits until all parts are drawn. Returns whether they go to memory. Spins first: the threads end at about the
    /// same time, and sleeping would take longer than most waits.
    pub fn wait(&self) -> bool {
        for _ in 0..SPINS {
            if let Some(keeps) = self.verdict.get() {
                return *keeps;
            }
            std::hint::spin_loop();
        }
        let drawn = lock(&self.drawn);
        let is_open = |_: &mut Vec<Drawn>| self.verdict.get().is_none();
        drop(self.decided.wait_while(drawn, is_open));
        self.verdict.get() == Some(&true)
    }

    /// All parts in order.
    pub fn into_parts(self) -> Vec<Drawn> {
        let mut drawn = self
            .drawn
            .into_inner()
            .unwrap_or_else(|error| error.into_inner());
        drawn.sort_by_key(|(number, ..)| *number);
        drawn
    }
}

/// Guard of a thread that draws parts. If the thread panics, no other thread waits for its part.
pub(super) struct AtGate<'a>(pub &'a Gate);

impl Drop for AtGate<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _drawn = lock(&self.0.drawn);
            self.0.decide(false);
        }
    }
}

/// A recent access to a page: the page's number and whether it was a write, and the index of the copy.
type Recent = [(u32, usize); RECENT];

/// Memory of a part.
pub(super) struct View<'a> {
    under: &'a Under<'a>,
    /// Pages from `used` on are spare buffers.
    pages: Vec<Box<Page>>,
    used: usize,
    /// Indices of copies by physical address, and by port with page and write flag.
    copies: HashMap<u64, usize>,
    known: HashMap<(usize, u32), usize>,
    recent: [Recent; Port::ALL.len()],
    touched: Vec<Touched>,
    pipes: [Traffic; MAX_PIPES],
    since: Traffic,
}

impl<'a> View<'a> {
    /// A view without accesses yet, with spare buffers from earlier draws.
    pub fn new(under: &'a Under<'a>, room: Vec<Box<Page>>) -> Self {
        Self {
            under,
            pages: room,
            used: 0,
            copies: HashMap::new(),
            known: HashMap::new(),
            recent: [[(u32::MAX, 0); RECENT]; Port::ALL.len()],
            touched: Vec::new(),
            pipes: Default::default(),
            since: Traffic::default(),
        }
    }

    /// The view's data for the bus.
    pub fn finish(self) -> Done {
        Done {
            pages: self.pages,
            used: self.used,
            touched: self.touched,
            pipes: self.pipes,
        }
    }

    fn fail(&self) {
        self.under.failed.store(true, Relaxed);
    }

    /// The copy of the page at a physical address.
    fn copy(&mut self, physical: u64) -> Option<usize> {
        if let Some(place) = self.copies.get(&physical) {
            return Some(*place);
        }
        let place = self.used;
        if place == self.pages.len() {
            self.pages.push(Box::new(Page {
                physical,
                bytes: [0; PAGE],
                read: [0; PAGE / LINE],
                written: [0; PAGE / LINE],
            }));
        }
        let page = &mut self.pages[place];
        if !self.under.peek.copy(physical, &mut page.bytes) {
            return None;
        }
        page.physical = physical;
        page.read.fill(0);
        page.written.fill(0);
        self.used += 1;
        self.copies.insert(physical, place);
        Some(place)
    }

    /// The copy of the page that contains a GPU address.
    #[inline]
    fn find(&mut self, port: Port, address: u32, write: bool) -> Option<usize> {
        let number = address / PAGE as u32;
        let key = number << 1 | u32::from(write);
        let (recent, place) = self.recent[port as usize][key as usize % RECENT];
        if recent == key {
            return Some(place);
        }
        self.find_new(port, number, write, key)
    }

    #[inline(never)]
    fn find_new(&mut self, port: Port, number: u32, write: bool, key: u32) -> Option<usize> {
        let place = match self.known.get(&(port as usize, key)) {
            Some(place) => *place,
            None => {
                let address = number * PAGE as u32;
                let physical = self.under.peek.page(port, address, write)?;
                let place = self.copy(physical)?;
                self.known.insert((port as usize, key), place);
                self.touched.push(Touched {
                    port,
                    address,
                    write,
                    physical,
                });
                place
            }
        };
        self.recent[port as usize][key as usize % RECENT] = (key, place);
        Some(place)
    }

    /// Reads from a page's copy.
    #[inline]
    fn read_copy(&mut self, place: Option<usize>, offset: usize, data: &mut [u8]) {
        let Some(place) = place else {
            data.fill(0);
            return self.fail();
        };
        let page = &mut self.pages[place];
        copy(data, &page.bytes[offset..offset + data.len()]);
        mark(&mut page.read, offset, data.len());
    }

    fn write_copy(&mut self, place: Option<usize>, offset: usize, data: &[u8]) {
        let Some(place) = place else {
            return self.fail();
        };
        let page = &mut self.pages[place];
        copy(&mut page.bytes[offset..offset + data.len()], data);
        mark(&mut page.written, offset, data.len());
    }
}

/// Splits an access at page boundaries: address and byte range of each piece.
fn pieces(address: u32, bytes: usize) -> impl Iterator<Item = (u32, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = address.wrapping_add(done as u32);
        let count = (PAGE - at as usize % PAGE).min(bytes - done);
        let range = done..done + count;
        done += count;
        (count != 0).then_some((at, range))
    })
}

impl Bus for View<'_> {
    fn read(&mut self, port: Port, address: u32, data: &mut [u8]) {
        self.since.read += data.len() as u64;
        for (at, range) in pieces(address, data.len()) {
            let place = self.find(port, at, false);
            self.read_copy(place, at as usize % PAGE, &mut data[range]);
        }
    }

    fn write(&mut self, port: Port, address: u32, data: &[u8]) {
        self.since.written += data.len() as u64;
        for (at, range) in pieces(address, data.len()) {
            let place = self.find(port, at, true);
            self.write_copy(place, at as usize % PAGE, &data[range]);
        }
    }

    fn read_physical(&mut self, address: u32, data: &mut [u8]) {
        self.since.read += data.len() as u64;
        for (at, range) in pieces(address, data.len()) {
            let place = self.copy(u64::from(at & !(PAGE as u32 - 1)));
            self.read_copy(place, at as usize % PAGE, &mut data[range]);
        }
    }

    fn write_physical(&mut self, address: u32, data: &[u8]) {
        self.since.written += data.len() as u64;
        for (at, range) in pieces(address, data.len()) {
            let place = self.copy(u64::from(at & !(PAGE as u32 - 1)));
            self.write_copy(place, at as usize % PAGE, &data[range]);
        }
    }

    fn progress(&mut self) {
        self.under.shown.fetch_add(1, Relaxed);
        self.under.peek.goes_on();
    }

    fn aborted(&self) -> bool {
        self.under.failed.load(Relaxed) || self.under.peek.is_over()
    }

    fn end_pipe(&mut self, pipe: usize, pixels: u64) {
        self.since.pixels = pixels;
        self.pipes[pipe] += std::mem::take(&mut self.since);
    }
}

/// A part's effects on memory.
pub struct Done {
    pages: Vec<Box<Page>>,
    used: usize,
    /// Translations, each once, in order of first use.
    pub touched: Vec<Touched>,
    /// By pixel pipe.
    pub pipes: [Traffic; MAX_PIPES],
}

impl Done {
    /// Writes the part's data to memory, unless a reset came.
    pub(super) fn write(&self, peek: &dyn Peek) {
        let pages = &self.pages[..self.used];
        for (physical, bytes) in pages.iter().flat_map(|page| page.changes()) {
            if peek.is_over() {
                return;
            }
            peek.put(physical, bytes);
        }
    }

    /// The part's buffers, for reuse.
    pub fn room(mut self) -> Vec<Box<Page>> {
        self.pages.truncate(ROOM);
        self.pages
    }
}

/// Whether two parts conflict: one has written memory that another one has read or written.
pub(super) fn meet<'a>(parts: impl Iterator<Item = &'a Done>) -> bool {
    let pages = parts.flat_map(|part| &part.pages[..part.used]);
    let mut pages: Vec<&Page> = pages.map(|page| &**page).collect();
    pages.sort_by_key(|page| page.physical);
    let same = pages.chunk_by(|a, b| a.physical == b.physical);
    let mut pairs = same.flat_map(|same| {
        (1..same.len())
            .flat_map(move |second| same[..second].iter().map(move |a| (*a, same[second])))
    });
    pairs.any(|(a, b)| a.meets(b))
}
