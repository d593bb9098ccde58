// SPDX-License-Identifier: GPL-2.0-only

//! `/sys/kernel/debug/galcore/ring`: the words of jobs for the front end of each core.
//!
//! For each job that is still in the ring, oldest first, there is a line `job NUMBER of core PLACE
//! (KIND), process ID, COUNT words at ADDRESS, its own COUNT at ADDRESS, STATE`. Then come its
//! words, four a line, each line with the GPU address of its first word. `process 0` is the driver
//! itself. `galcore-info --ring` decodes the file.
//!
//! A reader does not stop the core, read its registers or delay anything. It copies pieces of
//! [`PIECE`] words, and shows a piece if its memory was not reused in between. If it was, the job's
//! lines end with `gone`. Jobs that are submitted after the reader has reached the core are not
//! shown, so the file ends. It has the words of all clients, so opening it takes `CAP_SYS_ADMIN`.

use crate::{
    client::{
        AnyCore,
        CLIENTS, //
    },
    limits::MAX_CORES,
    prelude::*,
    ring::Given,
    sys::debugfs::Mark, //
};

/// Words in one record of the file.
const PIECE: usize = 32;

/// The core at a place.
fn core_at(place: u64) -> Option<AnyCore> {
    // CAST: a place is small.
    CLIENTS.get()?.device().any_at(place as usize)
}

/// Advances to the next record. Returns whether there is one. The words of a mark are: the core's
/// place; its last job to show (0: unknown); the current job; the byte offset in it; its size in
/// bytes.
pub(super) fn advance(mark: &mut Mark) -> bool {
    let [place, last, job, offset, bytes] = mark;
    // CAST: a constant.
    *offset += 4 * PIECE as u64;
    if *offset < *bytes {
        return true;
    }
    let mut from = *job + 1;
    // CAST: a constant.
    while *place < MAX_CORES as u64 {
        let core = core_at(*place);
        if *last == 0 {
            *last = core.as_ref().map_or(0, AnyCore::newest);
        }
        let found = core.and_then(|core| core.given(from));
        if let Some(found) = found.filter(|found| found.noted.number <= *last) {
            (*job, *offset, *bytes) = (found.noted.number, 0, found.noted.bytes.into());
            return true;
        }
        *place += 1;
        (*last, from) = (0, 0);
    }
    false
}

/// Copies words of job `number` of a core, from its byte `offset` on, if they are still in memory.
fn piece<'a>(
    core: &AnyCore,
    number: u64,
    offset: u32,
    words: &'a mut [u32; PIECE],
) -> Option<(Given, &'a [u32])> {
    let job = core.given(number)?;
    // CAST: 32 bits into at least 32.
    let count = (job.noted.bytes.saturating_sub(offset) / 4) as usize;
    let words = &mut words[..count.min(PIECE)];
    let is_there = job.noted.number == number && core.copy_given(&job, offset, words);
    is_there.then_some((job, words))
}

/// Shows the record. If this is repeated, the result is the same, or `gone`.
pub(super) fn show(mark: &mut Mark, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [place, _, number, offset, bytes] = mark;
    // CAST: less than `bytes`, which was 32 bits. A place is small.
    let (offset, index) = (*offset as u32, *place as usize);
    let mut words = [0; PIECE];
    let core = core_at(*place);
    let found = core
        .as_ref()
        .and_then(|core| Some((core, piece(core, *number, offset, &mut words)?)));
    let Some((core, (job, words))) = found else {
        *bytes = 0;
        return f.write_fmt(fmt!("job {number:#x} of core {index}: gone\n"));
    };
    if offset == 0 {
        let (own, own_bytes) = job.noted.own;
        let state = if job.is_under_way {
            "under way"
        } else {
            "ended"
        };
        // Not decimal: that needs 64-bit division, which the kernel lacks on 32-bit ARM.
        f.write_fmt(fmt!(
            "job {number:#x} of core {index} ({}), process {}, {} words at {:#010x}, \
             its own {} at {:#010x}, {}\n",
            core.kind().name(),
            job.noted.process,
            job.noted.bytes / 4,
            job.address,
            own_bytes / 4,
            job.address.wrapping_add(own),
            state
        ))?;
    }
    let mut address = job.address.wrapping_add(offset);
    for line in words.chunks(4) {
        f.write_fmt(fmt!("{address:#010x}"))?;
        for word in line {
            f.write_fmt(fmt!(" {word:08x}"))?;
        }
        f.write_str("\n")?;
        address = address.wrapping_add(16);
    }
    Ok(())
}
