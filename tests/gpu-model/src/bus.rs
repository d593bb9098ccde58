// SPDX-License-Identifier: GPL-2.0-only
//! Memory access of commands and jobs through the MMU, and reports of failed accesses.

use std::collections::VecDeque;
use std::fmt::LowerHex;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;

use gpu_control::counter;
use gpu_control::ViolationKind;

use crate::draw::Done;
use crate::draw::Peek;
use crate::draw::PAGE;
use crate::engine2d::Bus;
use crate::gpu::Gpu;
use crate::memory::Snapshot;
use crate::mmu::Exception;
use crate::mmu::Fault;
use crate::mmu::Mmu;
use crate::mmu::Port;
use crate::mmu::Setup;
use crate::profile::Mover;
use crate::strict::hex;
use crate::strict::Fetched;
use crate::strict::Finding;

/// Number of earlier commands that a report shows.
const HISTORY: usize = 12;
/// Bytes at MMU v2's safe address.
const SAFE_BYTES: u32 = 64;

/// The last commands that a front end executed: address and first two words.
pub(crate) struct History {
    commands: VecDeque<(u32, u64)>,
    describe: fn(u32, u32) -> String,
}

impl History {
    /// An empty history. `describe` converts the two words of a command to text.
    pub(crate) fn new(describe: fn(u32, u32) -> String) -> Self {
        Self {
            commands: VecDeque::new(),
            describe,
        }
    }

    /// Adds a command.
    pub(crate) fn note(&mut self, address: u32, unit: u64) {
        if self.commands.len() == HISTORY {
            self.commands.pop_front();
        }
        self.commands.push_back((address, unit));
    }

    /// Removes all commands.
    pub(crate) fn clear(&mut self) {
        self.commands.clear();
    }

    /// A report about the command at a position.
    pub(crate) fn finding(&self, detail: String, (address, unit): (u32, u64)) -> Finding {
        let recent = self.commands.iter().map(|(address, unit)| {
            let (word0, word1) = (*unit as u32, (*unit >> 32) as u32);
            Fetched {
                address: hex(*address),
                words: vec![hex(word0), hex(word1)],
                command: (self.describe)(word0, word1),
            }
        });
        Finding {
            detail,
            address,
            words: vec![unit as u32, (unit >> 32) as u32],
            recent: recent.collect(),
        }
    }
}

/// Memory access of one command or job through the MMU.
pub(crate) struct MemoryBus<'a> {
    gpu: &'a Gpu,
    mmu: &'a mut dyn Mmu,
    setup: &'a Setup,
    memory: &'a Snapshot,
    history: &'a History,
    /// Stream position for reports, and the words there.
    position: (u32, u64),
    /// The tag for the two low bits of every address, on cores with tags.
    tag: Option<u32>,
    /// Kinds of mistakes already reported. Each is reported once per job.
    reported: Vec<(ViolationKind, bool)>,
    /// Bytes read so far.
    pub(crate) read: u64,
    /// Bytes written so far.
    pub(crate) written: u64,
}

impl<'a> MemoryBus<'a> {
    /// Memory access for the command at a position.
    pub(crate) fn new(
        gpu: &'a Gpu,
        mmu: &'a mut dyn Mmu,
        setup: &'a Setup,
        memory: &'a Snapshot,
        history: &'a History,
        position: (u32, u64),
    ) -> Self {
        mmu.set_caching(gpu.faults.tlb_off.load(Relaxed) == 0);
        Self {
            gpu,
            mmu,
            setup,
            memory,
            history,
            position,
            tag: None,
            reported: Vec::new(),
            read: 0,
            written: 0,
        }
    }

    /// Sets the tag of all further addresses.
    pub(crate) fn set_tag(&mut self, tag: u32) {
        self.tag = Some(tag);
    }
}

impl MemoryBus<'_> {
    fn finding(&self, detail: String) -> Finding {
        self.history.finding(detail, self.position)
    }

    fn first(&mut self, kind: ViolationKind, write: bool) -> bool {
        let fresh = !self.reported.contains(&(kind, write));
        if fresh {
            self.reported.push((kind, write));
        }
        fresh
    }

    fn bus_error(&mut self, port: Port, write: bool, detail: String) {
        if self.first(ViolationKind::BusError, write) {
            let finding = self.finding(detail);
            self.gpu.bus_error(port, write, finding);
        }
    }

    /// Physical address and number of bytes that the translation covers. `None` after a fault, which is reported.
    pub(crate) fn translate(
        &mut self,
        port: Port,
        address: u32,
        write: bool,
    ) -> Option<(u64, u32)> {
        let Some(tag) = self.tag else {
            return self.translate_whole(port, address, write);
        };
        // The tag replaces the two low bits, which need no translation.
        let low = address % 4;
        let (physical, span) = self.translate_whole(port, address - low | tag, write)?;
        Some((physical + u64::from(low), span - low))
    }

    fn translate_whole(&mut self, port: Port, address: u32, write: bool) -> Option<(u64, u32)> {
        match self
            .mmu
            .translate(port, address, write, self.setup, self.memory)
        {
            Ok(translated) => {
                if translated.filled {
                    self.gpu.counters.add(counter::TLB_FILLS, 1);
                }
                self.check_stale(port, address, write, translated.stale);
                Some((translated.physical, translated.span))
            }
            Err(Fault::Exception(exception)) => self.refused(port, address, write, exception),
            Err(Fault::NoTable) => {
                if self.first(ViolationKind::NoPageTable, write) {
                    let text = format!("{port:?} translates {address:#010x} without a page table");
                    let finding = self.finding(text);
                    self.gpu
                        .recorder
                        .violation(ViolationKind::NoPageTable, finding);
                }
                None
            }
            Err(Fault::Address(problem)) => {
                if self.first(ViolationKind::VgAddress, write) {
                    let finding = self.finding(format!("{port:?}: {address:#010x} {problem}"));
                    self.gpu
                        .recorder
                        .violation(ViolationKind::VgAddress, finding);
                }
                None
            }
            Err(Fault::TableOutside(slot)) => {
                self.bus_error(
                    port,
                    false,
                    format!(
                        "page table entry of {address:#010x} at {slot:#010x} is outside memory"
                    ),
                );
                None
            }
        }
    }

    fn check_stale(
        &mut self,
        port: Port,
        address: u32,
        write: bool,
        stale: Option<(impl LowerHex, impl LowerHex)>,
    ) {
        let Some((used, now)) = stale else { return };
        if self.first(ViolationKind::StaleTlb, write) {
            let text = format!(
                "{port:?} used a stale TLB entry for {address:#010x}: {used:#010x}, the table has {now:#010x}"
            );
            let finding = self.finding(text);
            self.gpu
                .recorder
                .violation(ViolationKind::StaleTlb, finding);
        }
    }

    /// Handles an access that MMU v2 refuses: reads return the 64 bytes at the safe address, writes are lost.
    fn refused(
        &mut self,
        port: Port,
        address: u32,
        write: bool,
        exception: Exception,
    ) -> Option<(u64, u32)> {
        self.check_stale(port, address, write, exception.stale);
        if self.first(ViolationKind::MmuException, write) {
            let text = format!(
                "{port:?} {} {address:#010x}: {:?}{}",
                if write { "writes to" } else { "reads" },
                exception.cause,
                if exception.told { "" } else { ", untold" },
            );
            let finding = self.finding(text);
            self.gpu
                .recorder
                .violation(ViolationKind::MmuException, finding);
            if exception.told {
                self.gpu.mmu_exception(exception.cause, address);
            }
        }
        let safe = self.setup.v2.safe.filter(|_| !write)?;
        let offset = address % SAFE_BYTES;
        Some((u64::from(safe + offset), SAFE_BYTES - offset))
    }

    /// Calls `access` for each range that one translation covers; `None` = no translation.
    fn stretches(
        &mut self,
        port: Port,
        address: u32,
        bytes: usize,
        write: bool,
        mut access: impl FnMut(&mut Self, Option<u64>, std::ops::Range<usize>),
    ) {
        let mut done = 0;
        while done < bytes {
            let at = address.wrapping_add(done as u32);
            let (physical, span) = match self.translate(port, at, write) {
                Some((physical, span)) => (Some(physical), span as usize),
                None => (None, 4096 - at as usize % 4096),
            };
            let end = bytes.min(done + span);
            access(self, physical, done..end);
            done = end;
        }
    }
}

impl Bus for MemoryBus<'_> {
    fn read(&mut self, port: Port, address: u32, data: &mut [u8]) {
        self.read += data.len() as u64;
        let length = data.len();
        self.stretches(port, address, length, false, |bus, physical, range| {
            let Some(physical) = physical else {
                data[range].fill(0);
                return;
            };
            if bus.memory.read(physical, &mut data[range.clone()]).is_err() {
                let at = address.wrapping_add(range.start as u32);
                data[range].fill(0);
                bus.bus_error(
                    port,
                    false,
                    format!("read at {at:#010x} (physical {physical:#010x}) is outside memory"),
                );
            }
        });
    }

    fn write(&mut self, port: Port, address: u32, data: &[u8]) {
        // Do not write after a reset that came during the work.
        if self.aborted() {
            return;
        }
        self.written += data.len() as u64;
        self.stretches(port, address, data.len(), true, |bus, physical, range| {
            let Some(physical) = physical else { return };
            let at = address.wrapping_add(range.start as u32);
            if bus.memory.write(physical, &data[range.clone()]).is_err() {
                bus.bus_error(
                    port,
                    true,
                    format!("write at {at:#010x} (physical {physical:#010x}) is outside memory"),
                );
                return;
            }
            bus.gpu.note_write(physical, &data[range]);
        });
    }

    fn read_physical(&mut self, address: u32, data: &mut [u8]) {
        self.read += data.len() as u64;
        if self.memory.read(address, data).is_err() {
            data.fill(0);
            self.bus_error(
                Port::Pixel,
                false,
                format!("read of physical {address:#010x} is outside memory"),
            );
        }
    }

    fn write_physical(&mut self, address: u32, data: &[u8]) {
        if self.aborted() {
            return;
        }
        self.written += data.len() as u64;
        match self.memory.write(address, data) {
            Ok(()) => self.gpu.note_write(address.into(), data),
            Err(_) => self.bus_error(
                Port::Pixel,
                true,
                format!("write to physical {address:#010x} is outside memory"),
            ),
        }
    }

    fn progress(&mut self) {
        self.gpu.profile.count_progress();
    }

    fn aborted(&self) -> bool {
        self.gpu.abort.load(Relaxed)
    }

    fn end_pipe(&mut self, pipe: usize, pixels: u64) {
        let (read, written) = (mem::take(&mut self.read), mem::take(&mut self.written));
        self.gpu.count_traffic(Mover::Pipe(pipe), read, written);
        self.gpu.profile.count_pixels(pipe, false, pixels);
    }

    fn peek(&self) -> Option<&dyn Peek> {
        // Without TLBs, each access reads the tables and is counted.
        let has_tlbs = self.gpu.faults.tlb_off.load(Relaxed) == 0;
        (has_tlbs && self.tag.is_none()).then_some(self)
    }

    fn commit(&mut self, part: &Done) {
        for touched in &part.touched {
            let now = self.translate(touched.port, touched.address, touched.write);
            let now = now.map_or(0, |(physical, _)| physical);
            // The table changed during the draw.
            let stale = (now != touched.physical).then_some((touched.physical, now));
            self.check_stale(touched.port, touched.address, touched.write, stale);
        }
        for (pipe, traffic) in part.pipes.iter().enumerate() {
            self.read += traffic.read;
            self.written += traffic.written;
            self.end_pipe(pipe, traffic.pixels);
        }
    }
}

impl Peek for MemoryBus<'_> {
    fn page(&self, port: Port, address: u32, write: bool) -> Option<u64> {
        let (setup, memory) = (self.setup, self.memory);
        let found = self.mmu.peek(port, address, write, setup, memory)?;
        let is_whole = found.physical % PAGE as u64 == 0 && found.span as usize >= PAGE;
        (is_whole && found.stale.is_none()).then_some(found.physical)
    }

    fn copy(&self, physical: u64, bytes: &mut [u8; PAGE]) -> bool {
        self.memory.read(physical, bytes).is_ok()
    }

    fn put(&self, physical: u64, bytes: &[u8]) {
        if self.memory.write(physical, bytes).is_ok() {
            self.gpu.note_write(physical, bytes);
        }
    }

    fn goes_on(&self) {
        self.gpu.profile.count_progress();
    }

    fn is_over(&self) -> bool {
        self.aborted()
    }
}
