// SPDX-License-Identifier: GPL-2.0-only
//! What the engines have written, so that a front end that executes it is found out.
//!
//! Whatever a front end executes comes from the kernel, which has written it with the processor. A word there that an
//! engine wrote is a process's way around every check. The processor's writes are not seen here, so memory that changes
//! hands must not be mistaken: a page in which a front end meets another word than the engine left has been written by
//! the processor since, and counts as its own again. Zeros say nothing.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::MutexGuard;

use crate::gpu::lock;

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 4;
/// Locks that the pages share: threads that draw one picture do not wait for each other.
const LOCKS: usize = 64;

struct Page {
    bytes: [u8; PAGE],
    /// By word, whether an engine wrote it.
    written: [bool; WORDS],
}

/// By number.
type Pages = HashMap<u64, Box<Page>>;

/// What engines wrote, by physical address. The cores of a machine share it.
pub struct Written {
    pages: [Mutex<Pages>; LOCKS],
}

impl Default for Written {
    fn default() -> Self {
        Self {
            pages: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Written").finish_non_exhaustive()
    }
}

impl Written {
    /// Those that share a lock with page `number`.
    fn pages_of(&self, number: u64) -> MutexGuard<'_, Pages> {
        lock(&self.pages[number as usize % LOCKS])
    }

    /// An engine writes `data` at a physical address.
    pub fn note(&self, address: u64, data: &[u8]) {
        let (mut at, mut rest) = (address, data);
        while !rest.is_empty() {
            let offset = at as usize % PAGE;
            let (now, later) = rest.split_at(rest.len().min(PAGE - offset));
            let number = at / PAGE as u64;
            let mut pages = self.pages_of(number);
            let page = pages.entry(number).or_insert_with(|| {
                Box::new(Page {
                    bytes: [0; PAGE],
                    written: [false; WORDS],
                })
            });
            let end = offset + now.len();
            page.bytes[offset..end].copy_from_slice(now);
            page.written[offset / 4..end.div_ceil(4)].fill(true);
            at += now.len() as u64;
            rest = later;
        }
    }

    /// Whether the unit that a front end fetches at a physical address is an engine's work.
    pub fn is_executed(&self, address: u64, unit: u64) -> bool {
        let number = address / PAGE as u64;
        let mut pages = self.pages_of(number);
        let Some(page) = pages.get(&number) else {
            return false;
        };
        let mut is_engines = false;
        for (index, word) in [unit as u32, (unit >> 32) as u32].into_iter().enumerate() {
            let offset = address as usize % PAGE + 4 * index;
            if !page.written[offset / 4] {
                continue;
            }
            if page.bytes[offset..offset + 4] != word.to_le_bytes() {
                pages.remove(&number);
                return false;
            }
            is_engines |= word != 0;
        }
        is_engines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engines_words_are_known_again() {
        let written = Written::default();
        written.note(0x1ffc, &[1, 0, 0, 0, 2, 0, 0, 0]);
        assert!(written.is_executed(0x1ff8, 1 << 32 | 7));
        assert!(written.is_executed(0x2000, 7 << 32 | 2));
        assert!(!written.is_executed(0x2008, 7));
        assert!(!written.is_executed(0x9000, 7));
    }

    #[test]
    fn memory_that_the_processor_wrote_since_is_its_own() {
        let written = Written::default();
        written.note(0x1000, &[0xff; PAGE]);
        // A header of the kernel's; a mask behind it that happens to be as before.
        assert!(!written.is_executed(0x1000, 0xffff_ffff_0801_0180));
        assert!(!written.is_executed(0x1008, 0xffff_ffff));
        written.note(0x1000, &[0; 16]);
        assert!(!written.is_executed(0x1000, 0));
    }
}
