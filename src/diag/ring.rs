// SPDX-License-Identifier: GPL-2.0-only

//! `/sys/kernel/debug/galcore/ring`: what the front end of each core was given, word by word.
//!
//! Of each job that is still in the ring, oldest first, a line `job NUMBER of core PLACE, process
//! ID, COUNT words at ADDRESS, STATE`, and after it a line for each word: its GPU address, the
//! word, and what it is. `driver:` and `process:` precede the words of each. What a LINK leaves out
//! of a job is not shown. `process 0` is the driver itself.
//!
//! The core is not stopped, none of its registers is read, and nothing waits for a reader: pieces
//! of [`PIECE`] words are copied, and shown if their place was still the job's afterwards. A job
//! whose place was given to another meanwhile ends with `gone`. What is submitted after the reader
//! has come to the core is not shown, so the file ends. It holds the words of all clients, so
//! opening it takes the right to administer the machine.

use crate::{
    client::{
        AnyCore,
        CLIENTS, //
    },
    limits::MAX_CORES,
    stream::decode::Decoder,
    sys::debugfs::Mark, //
};
use kernel::{
    fmt,
    prelude::*, //
};

/// Words in one record of the file.
const PIECE: usize = 32;

/// Where a reader is.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// There is something to be shown.
    is_anywhere: bool,
    /// The core's place, and the last job of it that is shown; 0: not known yet.
    core: u64,
    last: u64,
    /// The job, and the byte of it.
    job: u64,
    offset: u32,
    decoder: Decoder,
    /// Where this piece of it leads; 0: to the end of the job.
    next_offset: u32,
    next_decoder: Decoder,
    /// Whose words the last ones were, and are then: the process's, or the driver's.
    was_own: bool,
    next_was_own: bool,
}

impl Cursor {
    fn of(mark: &Mark) -> Self {
        let [is_anywhere, core, last, job, offsets, decoder, next_decoder, own] = *mark;
        // CAST: the halves of 64 bits.
        let half = |both: u64| [both as u32, (both >> 32) as u32];
        let decoder_of = |both: u64| {
            let [first, place] = half(both);
            Decoder { first, place }
        };
        let [offset, next_offset] = half(offsets);
        Self {
            is_anywhere: is_anywhere != 0,
            core,
            last,
            job,
            offset,
            decoder: decoder_of(decoder),
            next_offset,
            next_decoder: decoder_of(next_decoder),
            was_own: own & 1 != 0,
            next_was_own: own & 2 != 0,
        }
    }

    fn mark(&self) -> Mark {
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let of_decoder = |decoder: Decoder| both(decoder.first, decoder.place);
        [
            u64::from(self.is_anywhere),
            self.core,
            self.last,
            self.job,
            both(self.offset, self.next_offset),
            of_decoder(self.decoder),
            of_decoder(self.next_decoder),
            u64::from(self.was_own) | u64::from(self.next_was_own) << 1,
        ]
    }

    /// The core, if it is there.
    fn core(&self) -> Option<AnyCore> {
        // CAST: a place is small.
        CLIENTS.get()?.device().core_at(self.core as usize)
    }

    /// The next job from number `from` on of this core or the next ones; says whether there is one.
    fn find(&mut self, mut from: u64) -> bool {
        while self.core < MAX_CORES as u64 {
            let core = self.core();
            if self.last == 0 {
                self.last = core.as_ref().map_or(0, AnyCore::newest);
            }
            let found = core.and_then(|core| core.given(from));
            if let Some(job) = found.filter(|job| job.noted.number <= self.last) {
                *self = Self {
                    is_anywhere: true,
                    core: self.core,
                    last: self.last,
                    job: job.noted.number,
                    ..Self::default()
                };
                return true;
            }
            self.core += 1;
            self.last = 0;
            from = 0;
        }
        false
    }

    /// Shows the piece, and notes where it leads.
    fn show(&mut self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.next_offset = 0;
        let core = self.core();
        let found = core.and_then(|core| Some((core.given(self.job)?, core)));
        let mut words = [0; PIECE];
        let Some((job, core)) = found.filter(|(job, _)| job.noted.number == self.job) else {
            return self.show_gone(f);
        };
        let left = job.noted.bytes.saturating_sub(self.offset) / 4;
        // CAST: 32 bits into at least 32.
        let count = (left as usize).min(PIECE);
        if !core.copy_given(&job, self.offset, &mut words[..count]) {
            return self.show_gone(f);
        }
        if self.offset == 0 {
            let (number, process) = (self.job, job.noted.process);
            let state = if job.is_under_way {
                "under way"
            } else {
                "ended"
            };
            // Not decimal: on ARM that divides 64 bits, which the kernel does not have.
            f.write_fmt(fmt!(
                "job {number:#x} of core {}, process {process}, {} words at {:#010x}, {state}\n",
                core.index(),
                job.noted.bytes / 4,
                job.address
            ))?;
        }
        let (own, own_bytes) = job.noted.own;
        let is_own = |offset: u32| offset.wrapping_sub(own) < own_bytes;
        let mut decoder = self.decoder;
        let mut was_own = self.was_own;
        let mut offset = self.offset;
        for &word in &words[..count] {
            let decoded = decoder.next(core.front_end(), word);
            // What leads around a job that was dropped is the driver's.
            let is_own = is_own(offset) && !decoded.is_link();
            if offset == 0 || is_own != was_own {
                f.write_str(if is_own { "process:\n" } else { "driver:\n" })?;
                was_own = is_own;
            }
            let address = job.address.wrapping_add(offset);
            f.write_fmt(fmt!("{address:#010x} {word:08x} {decoded}\n"))?;
            offset += 4;
            // The front end does not come to what a LINK inside of the job leaves out.
            let target = decoded
                .target()
                .map(|target| target.wrapping_sub(job.address));
            let is_ahead =
                |target: &u32| (offset + 1..job.noted.bytes).contains(target) && target % 8 == 0;
            if let Some(target) = target.filter(is_ahead) {
                offset = target;
                break;
            }
        }
        if offset < job.noted.bytes {
            self.next_offset = offset;
            self.next_decoder = decoder;
            self.next_was_own = was_own;
        }
        Ok(())
    }

    fn show_gone(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_fmt(fmt!("job {:#x} of core {}: gone\n", self.job, self.core))
    }
}

/// Goes on to what is shown next; says whether there is something.
pub(super) fn advance(mark: &mut Mark) -> bool {
    let mut cursor = Cursor::of(mark);
    let is_more = if !cursor.is_anywhere {
        cursor.find(0)
    } else if cursor.next_offset != 0 {
        cursor.offset = cursor.next_offset;
        cursor.decoder = cursor.next_decoder;
        cursor.was_own = cursor.next_was_own;
        true
    } else {
        cursor.find(cursor.job + 1)
    };
    *mark = cursor.mark();
    is_more
}

/// Shows what is there; shown again, it is the same, or gone.
pub(super) fn show(mark: &mut Mark, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut cursor = Cursor::of(mark);
    let shown = cursor.show(f);
    *mark = cursor.mark();
    shown
}
