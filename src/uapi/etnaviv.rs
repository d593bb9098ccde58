// SPDX-License-Identifier: GPL-2.0-only

//! The ioctls of Linux's etnaviv, 1.4 (`<drm/etnaviv_drm.h>`), for Mesa.
//!
//! A SUBMIT's stream is checked as a COMMIT's, after its relocations. There are no addresses that
//! the client chooses (softpin), no performance counters, and no memory of the client's own.

use super::drm::{
    errno,
    find,
    halves,
    insert,
    long,
    Calls,
    File, //
};
use crate::{
    client::{
        Process,
        Stream,
        Used,
        FENCE_TIMEOUT, //
    },
    error::{
        Error,
        Result, //
    },
    sys::{
        self,
        drm::{
            Driver,
            Found,
            Opened,
            WORDS, //
        },
        fence::Fence,
        user::append_words, //
    }, //
};
use kernel::{
    error::Error as Errno,
    prelude::*,
    sync::Arc,
    time::Delta, //
};

/// SUBMIT: flags, and how much there can be: bytes of the stream, and objects and relocations.
const NO_IMPLICIT: u32 = 1 << 0;
const FENCE_FD_IN: u32 = 1 << 1;
const FENCE_FD_OUT: u32 = 1 << 2;
const MOST: u32 = 128 << 10;

/// Words of an object, and of a relocation, of a SUBMIT.
const OBJECT_WORDS: usize = 4;
const RELOCATION_WORDS: usize = 6;

/// An object of a SUBMIT is read, or written.
const READ: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;

/// CPU_PREP: for writing, too; without waiting. WAIT_FENCE and GEM_WAIT: without waiting.
const PREP_WRITE: u32 = 1 << 1;
const PREP_NOSYNC: u32 = 1 << 2;
const NONBLOCK: u32 = 1 << 0;

/// The front end's command that does nothing.
const NOP: u32 = 3 << 27;

/// They.
pub(super) struct Etnaviv;

/// How many milliseconds are left to a moment of the monotonic clock, in seconds and nanoseconds:
/// one at least, if any time is left.
fn milliseconds_to(seconds: u64, nanoseconds: u64) -> u32 {
    let moment = seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds);
    let left = moment.saturating_sub(sys::monotonic_ns());
    // CAST: at most 2^62.
    let left = Delta::from_nanos(left.min(1 << 62) as i64).as_millis();
    u32::try_from(left).map_or(u32::MAX >> 1, |left| left.min(u32::MAX >> 1) + 1)
}

/// `count` words of user memory at `user`. `InvalidAddress`: they cannot be read.
fn read(user: u64, count: usize) -> Result<KVVec<u32>> {
    let mut words = KVVec::new();
    let at = usize::try_from(user).map_err(|_| Error::InvalidAddress)?;
    append_words(&mut words, at, count).map_err(|error| match error {
        EFAULT => Error::InvalidAddress,
        error => error.into(),
    })?;
    Ok(words)
}

/// Writes the addresses of `objects` into `stream`, as `relocations` say. `InvalidArgument`: one of
/// them lies outside of the stream or of its object, or before the last one.
fn relocate(stream: &mut [u32], relocations: &[u32], objects: &[Used]) -> Result {
    let mut last = 0;
    for relocation in relocations.chunks_exact(RELOCATION_WORDS) {
        let &[at, index, low, high, flags, _] = relocation else {
            return Err(Error::InvalidArgument);
        };
        // CAST: 32 bits into at least 32.
        let object = objects.get(index as usize).ok_or(Error::InvalidArgument)?;
        let offset = long(low, high);
        // CAST: at most 64 bits.
        let room = (object.node.bytes() as u64).saturating_sub(4);
        if flags != 0 || at % 4 != 0 || at < last || offset > room {
            return Err(Error::InvalidArgument);
        }
        last = at;
        let address = u32::try_from(offset)
            .ok()
            .and_then(|offset| object.node.address().checked_add(offset));
        // CAST: 32 bits into at least 32.
        let word = stream.get_mut(at as usize / 4);
        *word.ok_or(Error::InvalidArgument)? = address.ok_or(Error::InvalidArgument)?;
    }
    Ok(())
}

fn submit(
    process: &Arc<Process>,
    file: &Opened<File<Etnaviv>>,
    words: &mut [u32; WORDS],
) -> Result {
    let &mut [_, pipe, entry, objects, relocations, bytes, ..] = words;
    let (flags, in_fence, counters) = (words[12], words[13], words[16]);
    if flags & !(NO_IMPLICIT | FENCE_FD_IN | FENCE_FD_OUT) != 0
        || bytes % 4 != 0
        || counters != 0
        || [objects, relocations, bytes]
            .into_iter()
            .any(|count| count > MOST)
    {
        return Err(Error::InvalidArgument);
    }
    // CAST: 32 bits into at least 32, three times.
    let given = read(long(words[6], words[7]), objects as usize * OBJECT_WORDS)?;
    let patches = read(
        long(words[8], words[9]),
        relocations as usize * RELOCATION_WORDS,
    )?;
    let mut commands = read(long(words[10], words[11]), bytes as usize / 4)?;
    let mut found = KVVec::with_capacity(objects as usize, sys::GFP_CLIENT)?;
    let mut used = KVVec::with_capacity(objects as usize, sys::GFP_CLIENT)?;
    for object in given.chunks_exact(OBJECT_WORDS) {
        let &[access, handle, ..] = object else {
            return Err(Error::InvalidArgument);
        };
        if access & !(READ | WRITE) != 0 {
            return Err(Error::InvalidArgument);
        }
        let object = find(file, handle).map_err(|_| Error::InvalidArgument)?;
        let node = object.get().into();
        let is_written = access & WRITE != 0;
        used.push(Used { node, is_written }, sys::GFP_CLIENT)?;
        if object.is_shared() {
            found.push((object, is_written), sys::GFP_CLIENT)?;
        }
    }
    relocate(&mut commands, &patches, &used)?;
    // Commands end on 64-bit units.
    if commands.len() % 2 != 0 {
        commands.push(NOP, sys::GFP_CLIENT)?;
    }
    if flags & FENCE_FD_IN != 0 {
        // CAST: the bits.
        process.wait_for_fence(in_fence as i32)?;
    }
    if flags & NO_IMPLICIT == 0 {
        for (object, is_written) in &found {
            wait_for_others(object, *is_written, FENCE_TIMEOUT)?;
        }
    }
    let wants_file = flags & FENCE_FD_OUT != 0;
    let fence = match wants_file || !found.is_empty() {
        true => Some(Fence::new()?),
        false => None,
    };
    let out = match &fence {
        Some(fence) if wants_file => Some(fence.file()?),
        _ => None,
    };
    let shown = fence.as_ref().and_then(Fence::share);
    let stream = Stream {
        pipe,
        entry,
        commands,
        used,
        fence,
    };
    let number = process.submit_stream(stream)?;
    for (object, is_written) in &found {
        let shown = shown.as_ref().map(|shown| object.show(shown, *is_written));
        if shown.is_some_and(|shown| shown.is_err()) {
            // Others do not know of it, so it should have ended.
            process.settle_number(pipe, number);
        }
    }
    words[0] = number;
    words[13] = u32::MAX;
    if let Some(out) = out {
        words[13] = out.number();
        out.install();
    }
    Ok(())
}

/// Waits for what others do with an object that they have. `ChipNotReady`: it is not over, and
/// `milliseconds` is 0. `Timeout`.
fn wait_for_others(object: &Found<File<Etnaviv>>, writes: bool, milliseconds: u32) -> Result {
    match object.wait_for_others(writes, milliseconds) {
        Err(ETIMEDOUT) if milliseconds == 0 => Err(Error::ChipNotReady),
        Err(ERESTARTSYS) => Err(Error::WaitInterrupted),
        outcome => Ok(outcome?),
    }
}

/// Waits for the jobs that use an object, and for others that have it. Errors as
/// [`wait_for_others`].
fn wait_for_object(
    process: &Process,
    object: &Found<File<Etnaviv>>,
    writes: bool,
    milliseconds: u32,
) -> Result {
    process.wait_for_object(&object.get(), writes, milliseconds)?;
    match object.is_shared() {
        true => wait_for_others(object, writes, milliseconds),
        false => Ok(()),
    }
}

impl Calls for Etnaviv {
    const DRIVER: Driver = Driver::Etnaviv;

    const NAMES: &'static [&'static str] = &[
        "GET_PARAM",
        "1",
        "GEM_NEW",
        "GEM_INFO",
        "GEM_CPU_PREP",
        "GEM_CPU_FINI",
        "GEM_SUBMIT",
        "WAIT_FENCE",
        "8",
        "GEM_WAIT",
    ];

    fn run(
        process: &Arc<Process>,
        file: &Opened<File<Self>>,
        number: u32,
        words: &mut [u32; WORDS],
    ) -> Result {
        let time_at = |words: &[u32; WORDS], at: usize| {
            milliseconds_to(
                long(words[at], words[at + 1]),
                long(words[at + 2], words[at + 3]),
            )
        };
        let &mut [first, second, third, ..] = words;
        match number {
            0 => {
                let value = process.core_parameter(first, second)?;
                [words[2], words[3]] = halves(value);
            }
            2 => {
                let bytes = long(first, second);
                let node = process.create_object_in_pages(bytes)?;
                words[3] = insert(process, file, &node, bytes)?;
            }
            3 => {
                let offset = process.object_offset(&find(file, first)?.get())?;
                [words[2], words[3]] = halves(offset);
            }
            4 => {
                let time = match second & PREP_NOSYNC {
                    0 => time_at(words, 2),
                    _ => 0,
                };
                wait_for_object(process, &find(file, first)?, second & PREP_WRITE != 0, time)?;
            }
            5 => {
                // What the process sees is in no cache.
                find(file, first)?;
            }
            6 => submit(process, file, words)?,
            7 => {
                let time = match third & NONBLOCK {
                    0 => time_at(words, 4),
                    _ => 0,
                };
                process.wait_for_number(first, second, time)?;
            }
            9 => {
                let time = match third & NONBLOCK {
                    0 => time_at(words, 4),
                    _ => 0,
                };
                wait_for_object(process, &find(file, second)?, true, time)?;
            }
            _ => return Err(Error::InvalidArgument),
        }
        Ok(())
    }

    fn errno(error: Error) -> Errno {
        match error {
            Error::InvalidAddress => EFAULT,
            error => errno(error),
        }
    }
}
