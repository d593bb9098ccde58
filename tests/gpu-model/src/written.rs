// SPDX-License-Identifier: GPL-2.0-only
//! Memory written by the engines, to detect a front end that executes it.
//!
//! The kernel writes every command that a front end executes, with the processor. If an engine wrote a word of the
//! stream, a process has bypassed every check. The model does not see the processor's writes, so it must not misjudge
//! memory that changes hands. If a front end fetches a word that differs from the engine's, the processor has written
//! the page since, and the page no longer counts as the engine's. Zero words never count as executed.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::MutexGuard;

use crate::gpu::lock;

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 4;
/// Number of locks that the pages share, so that threads that draw one picture do not wait for each other.
const LOCKS: usize = 64;

struct Page {
    bytes: [u8; PAGE],
    /// Per word: whether an engine wrote it.
    written: [bool; WORDS],
}

/// Pages by number.
type Pages = HashMap<u64, Box<Page>>;

/// Memory written by engines, by physical address. The cores of a machine share it.
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
    /// The pages that share a lock with page `number`.
    fn pages_of(&self, number: u64) -> MutexGuard<'_, Pages> {
        lock(&self.pages[number as usize % LOCKS])
    }

    /// Notes a write of `data` by an engine at a physical address.
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

    /// Whether an engine wrote the unit that a front end fetches at a physical address.
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
        // The kernel's header, followed by a mask that happens to equal the engine's word.
        assert!(!written.is_executed(0x1000, 0xffff_ffff_0801_0180));
        assert!(!written.is_executed(0x1008, 0xffff_ffff));
        written.note(0x1000, &[0; 16]);
        assert!(!written.is_executed(0x1000, 0));
    }
}
