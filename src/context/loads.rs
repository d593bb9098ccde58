// SPDX-License-Identifier: GPL-2.0-only

//! Lists of `LOAD_STATE` commands. One command loads consecutive states.

use crate::prelude::*;
use crate::stream::{
    decode::FIXP,
    words, //
};

/// A list under construction.
pub(super) struct Loads {
    pub(super) words: KVVec<u32>,
    /// The word that fills a command up to a multiple of two words.
    padding: u32,
    /// The most states of a command: at most 1024.
    most: u32,
    /// Number of states of the last command so far, and the state that can continue it.
    count: u32,
    next: Option<u32>,
}

impl Loads {
    pub(super) fn new(padding: u32, most: u32) -> Self {
        Self {
            words: KVVec::new(),
            padding,
            most,
            count: 0,
            next: None,
        }
    }

    /// Adds whole commands.
    pub(super) fn raw(&mut self, words: &[u32]) -> Result {
        Ok(self.words.extend_from_slice(words, GFP_KERNEL)?)
    }

    /// Ends the last command. The next state begins a new one.
    pub(super) fn close(&mut self) -> Result {
        self.next = None;
        if self.words.len() % 2 != 0 {
            self.words.push(self.padding, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Adds a state with its value. A state whose value is converted has [`FIXP`] set. Returns the
    /// place of the value's word.
    pub(super) fn push(&mut self, state: u32, value: u32) -> Result<usize> {
        if self.next != Some(state) || self.count == self.most {
            self.close()?;
            self.count = 0;
            self.words.push(0, GFP_KERNEL)?;
        }
        self.count += 1;
        self.next = Some(state + 1);
        let at = self.words.len();
        let header = words::load_state(state + 1 - self.count, self.count) | state & FIXP;
        // CAST: at most 1024.
        self.words[at - self.count as usize] = header;
        self.words.push(value, GFP_KERNEL)?;
        Ok(at)
    }
}

/// `LOAD_STATE` commands for `states`, which ascend, with their values.
pub(super) fn load(states: impl Iterator<Item = (u32, u32)>) -> Result<KVVec<u32>> {
    let mut loads = Loads::new(0, 1023);
    for (state, value) in states {
        loads.push(state, value)?;
    }
    loads.close()?;
    Ok(loads.words)
}
