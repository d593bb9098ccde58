// SPDX-License-Identifier: GPL-2.0-only

//! The memory of the guilty process, for the dump of a hang.

use super::{
    tables::Tables,
    Process, //
};
use crate::sys::prelude::*;
use crate::{
    addr::Range,
    memory::Object,
    ring::{
        Named,
        Piece,
        MAX_PIECES, //
    },
    stream::addresses::{
        Kind,
        Owner, //
    }, //
};

/// Number of words that are looked up in one hold of the tables' lock.
const STEP: usize = 1024;

/// The memory of the process that `words` name, in their order: each piece once, at most
/// [`MAX_PIECES`]. A word that only looks like an address counts, too. If `base` is given, the
/// words are physical addresses, and `base` is that of GPU address 0. The caller holds no lock.
pub(super) fn named_by(process: &Process, words: &[&[u32]], base: Option<u32>) -> Named {
    let mut named = Named {
        generation: process
            .interface()
            .map(|(choice, _)| choice.format().name()),
        pieces: KVec::new(),
    };
    for step in words.iter().flat_map(|words| words.chunks(STEP)) {
        let tables = process.tables();
        for &word in step {
            // If no memory is left, return the pieces so far.
            let is_full = named.pieces.len() >= MAX_PIECES;
            if is_full || tables.add_named(word, base, &mut named).is_err() {
                return named;
            }
        }
    }
    named
}

impl Tables {
    /// Adds the memory that `word` names, if it is the process's and is not in the list yet.
    fn add_named(&self, word: u32, base: Option<u32>, named: &mut Named) -> Result {
        let Some(address) = word.checked_sub(base.unwrap_or(0)) else {
            return Ok(());
        };
        let is_there = |piece: &Piece| piece.range.contains(address);
        let Some(range) = self.addresses.find(address) else {
            return Ok(());
        };
        if named.pieces.iter().any(is_there) {
            return Ok(());
        }
        let is_reached = |memory: &Object| match (base, memory) {
            (None, _) | (_, Object::Buffer(_)) => true,
            (Some(base), Object::Node(node)) => node.physical(base).is_some(),
            // The core reaches it only by address translation.
            (Some(_), Object::UserMemory(_)) => false,
        };
        match self.object_at(address, range).filter(is_reached) {
            Some(memory) => Ok(named.pieces.push(Piece { range, memory }, GFP_NOWAIT)?),
            None => Ok(()),
        }
    }

    /// The object that has exactly `range`. GPU address `address` lies in it.
    fn object_at(&self, address: u32, range: Range) -> Option<Object> {
        let Owner { kind, handle } = self.addresses.owner(address)?;
        let (start, memory) = match kind {
            Kind::Node => {
                let node = &self.nodes.get(handle)?.node;
                (node.address(), Object::Node((**node).clone()))
            }
            Kind::Buffer => {
                let buffer = &self.buffers.get(handle)?.buffer;
                (buffer.address(), Object::Buffer((**buffer).clone()))
            }
            Kind::UserMemory => {
                let memory = self.user_memory.get(handle)?.memory()?;
                (memory.address(), Object::UserMemory((**memory).clone()))
            }
            Kind::Framebuffer => return None,
        };
        (start == range.start()).then_some(memory)
    }
}
