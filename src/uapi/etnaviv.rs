// SPDX-License-Identifier: GPL-2.0-only

//! The ioctls of Linux's etnaviv, 1.4 (`<drm/etnaviv_drm.h>`), for Mesa.
//!
//! A SUBMIT's stream is checked like a COMMIT's, after relocation. Addresses chosen by the client
//! (softpin) are not supported.

use super::{
    drm::{
        errno,
        find,
        halves,
        insert,
        long,
        Calls,
        File, //
    },
    perfmon, //
};
use crate::{
    client::{
        check_alive,
        gem,
        import,
        settle_number,
        streams,
        Process,
        Stream,
        Used,
        FENCE_TIMEOUT, //
    },
    memory::Node,
    prelude::*,
    sys::{
        drm::{
            Driver,
            Found,
            Opened,
            Shared,
            WORDS, //
        },
        file::Fence,
        user::{
            append_words,
            narrow, //
        }, //
    }, //
};

/// SUBMIT: flags; the most bytes of the stream, and the most objects and relocations.
const NO_IMPLICIT: u32 = 1 << 0;
const FENCE_FD_IN: u32 = 1 << 1;
const FENCE_FD_OUT: u32 = 1 << 2;
const MOST: u32 = 128 << 10;

/// SUBMIT: words of an object and of a relocation.
const OBJECT_WORDS: usize = 4;
const RELOCATION_WORDS: usize = 6;

/// SUBMIT, USERPTR: access to an object.
const READ: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;

/// GEM_NEW: three cache modes, all of them uncached here; the GPU must use its MMU.
const CACHES: u32 = 0x7_0000;
const FORCE_MMU: u32 = 0x10_0000;

/// CPU_PREP: read, write, do not wait. WAIT_FENCE and GEM_WAIT: do not wait.
const PREP_READ: u32 = 1 << 0;
const PREP_WRITE: u32 = 1 << 1;
const PREP_NOSYNC: u32 = 1 << 2;
const NONBLOCK: u32 = 1 << 0;

/// Index of the flags word in an ioctl's argument, and the known flags. SUBMIT checks its own.
const fn flags(number: u32) -> (usize, u32) {
    match number {
        2 => (2, CACHES | FORCE_MMU),
        3 | 5 => (1, 0),
        4 => (1, PREP_READ | PREP_WRITE | PREP_NOSYNC),
        7 | 9 => (2, NONBLOCK),
        8 => (4, READ | WRITE),
        _ => (0, u32::MAX),
    }
}

/// The front end's NOP command.
const NOP: u32 = 3 << 27;

/// The ioctls of etnaviv.
pub(super) struct Etnaviv;

/// Milliseconds from `now` (nanoseconds) to a deadline of the same clock (signed seconds and
/// nanoseconds); at least one.
fn milliseconds_to(seconds: u64, nanoseconds: u64, now: u64) -> u32 {
    // CAST: the bits of signed fields.
    let (seconds, nanoseconds) = (seconds as i64, nanoseconds as i64);
    let moment = seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds);
    let left = u64::try_from(moment).unwrap_or(0).saturating_sub(now);
    // CAST: at most 2^62.
    let left = Delta::from_nanos(left.min(1 << 62) as i64).as_millis();
    u32::try_from(left).map_or(u32::MAX >> 1, |left| left.min(u32::MAX >> 1) + 1)
}

/// Reads `count` words of user memory at `user`. `InvalidAddress`: they cannot be read.
fn read(user: u64, count: usize) -> Result<KVVec<u32>> {
    let mut words = KVVec::new();
    let at = usize::try_from(narrow(user)).map_err(|_| Error::InvalidAddress)?;
    append_words(&mut words, at, count).map_err(|error| match error {
        EFAULT => Error::InvalidAddress,
        error => error.into(),
    })?;
    Ok(words)
}

/// Applies `relocations` to `stream`; `object` returns the address and the size of an object.
/// `InvalidArgument`: a relocation has flags, is misaligned, lies outside of the stream or of its
/// object, or before the previous one.
fn relocate(
    stream: &mut [u32],
    relocations: &[u32],
    object: impl Fn(usize) -> Option<(u32, usize)>,
) -> Result {
    let mut last = 0;
    for relocation in relocations.chunks_exact(RELOCATION_WORDS) {
        let &[at, index, low, high, flags, _] = relocation else {
            return Err(Error::InvalidArgument);
        };
        let (start, bytes) = object(u32_as_usize(index)).ok_or(Error::InvalidArgument)?;
        let offset = long(low, high);
        let room = usize_as_u64(bytes).saturating_sub(4);
        if flags != 0 || at % 4 != 0 || at < last || offset > room {
            return Err(Error::InvalidArgument);
        }
        last = at;
        let address = u32::try_from(offset)
            .ok()
            .and_then(|offset| start.checked_add(offset));
        let word = stream.get_mut(u32_as_usize(at) / 4);
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
    let (flags, in_fence) = (words[12], words[13]);
    if flags & !(NO_IMPLICIT | FENCE_FD_IN | FENCE_FD_OUT) != 0
        || bytes % 4 != 0
        || [objects, relocations, bytes]
            .into_iter()
            .any(|count| count > MOST)
    {
        return Err(Error::InvalidArgument);
    }
    let core = streams::core_of_pipe(process, pipe)?;
    process.check_own()?;
    // CAST: 32 bits into at least 32, three times.
    let given = read(long(words[6], words[7]), objects as usize * OBJECT_WORDS)?;
    let patches = read(
        long(words[8], words[9]),
        relocations as usize * RELOCATION_WORDS,
    )?;
    let mut commands = read(long(words[10], words[11]), bytes as usize / 4)?;
    let mut found = KVVec::with_capacity(objects as usize, sys::GFP_CLIENT)?;
    let mut used = KVVec::with_capacity(objects as usize, sys::GFP_CLIENT)?;
    // GPU address in the process's address space, and size, of each object.
    let mut places = KVVec::with_capacity(objects as usize, sys::GFP_CLIENT)?;
    for (at, object) in given.chunks_exact(OBJECT_WORDS).enumerate() {
        let &[access, handle, ..] = object else {
            return Err(Error::InvalidArgument);
        };
        check_alive(at)?;
        if access & !(READ | WRITE) != 0 {
            return Err(Error::InvalidArgument);
        }
        let object = find(file, handle).map_err(|_| Error::InvalidArgument)?;
        let node: Arc<Node> = object.get().into();
        let address = gem::address_of(process, &node)?;
        let is_written = access & WRITE != 0;
        places.push((address, node.bytes()), sys::GFP_CLIENT)?;
        used.push(Used { node, is_written }, sys::GFP_CLIENT)?;
        found.push((object, false), sys::GFP_CLIENT)?;
    }
    relocate(&mut commands, &patches, |index| places.get(index).copied())?;
    // Pad the commands to 64 bits.
    if commands.len() % 2 != 0 {
        commands.push(NOP, sys::GFP_CLIENT)?;
    }
    if flags & FENCE_FD_IN != 0 {
        // CAST: the bits of a signed field.
        streams::wait_for_fence(in_fence as i32)?;
    }
    let place = core.index();
    let mut counters = perfmon::Requests::new(process, &core, entry, words[16], &used, |count| {
        read(long(words[14], words[15]), count)
    })?;
    let shared = if found.iter().any(|(object, _)| object.is_shared()) {
        Some(shared_of(&mut found, &used)?)
    } else {
        None
    };
    if flags & NO_IMPLICIT == 0 {
        for (buffer, is_written) in shared.iter().flatten() {
            wait_for_others(buffer, *is_written, FENCE_TIMEOUT, Some(place), true)?;
        }
    }
    let wants_file = flags & FENCE_FD_OUT != 0;
    let fence = if wants_file || shared.is_some() {
        Some(Fence::of_core(place)?)
    } else {
        None
    };
    let out = match &fence {
        Some(fence) if wants_file => Some(fence.file()?),
        _ => None,
    };
    let shown = fence.as_ref().and_then(Fence::share);
    counters.begin(process, &core)?;
    let stream = Stream {
        core: core.clone(),
        entry,
        commands,
        used,
        fence,
        is_ordered: flags & NO_IMPLICIT == 0,
    };
    let number = streams::submit_stream(process, stream)?;
    let mut unshown = shared.iter().flatten().filter(|(buffer, is_written)| {
        let shown = shown.as_ref().map(|shown| buffer.show(shown, *is_written));
        shown.is_some_and(|shown| shown.is_err())
    });
    let is_new = |(object, was_shared): &(Found<_>, bool)| !was_shared && object.is_shared();
    if unshown.next().is_some() || found.iter().any(is_new) {
        // Other users of the dma-buf cannot see the job, so wait for its end.
        settle_number(&core, number);
    }
    counters.end(process, &core, number);
    words[0] = number;
    words[13] = u32::MAX;
    if let Some(out) = out {
        words[13] = out.number();
        out.install();
    }
    Ok(())
}

/// GEM_USERPTR: makes a handle for `bytes` bytes at `user`, which the GPU may read, and write if
/// `access` allows it. `InvalidAddress`: they cannot be pinned.
fn wrap(
    process: &Arc<Process>,
    file: &Opened<File<Etnaviv>>,
    (user, bytes): (u64, u64),
    access: u32,
) -> Result<u32> {
    // CAST: the page size, into more bits.
    if access == 0 || bytes == 0 || (user | bytes) % PAGE_SIZE as u64 != 0 {
        return Err(Error::InvalidArgument);
    }
    let node = import::wrap_object(process, user, bytes, access & WRITE != 0);
    let node = node.map_err(|error| match error {
        Error::InvalidArgument | Error::OutOfResources => Error::InvalidAddress,
        error => error,
    })?;
    let bytes = usize::try_from(bytes).map_err(|_| Error::OutOfMemory)?;
    file.insert(node, bytes).map_err(|error| match error {
        EBUSY => Error::OutOfResources,
        error => error.into(),
    })
}

/// Returns the dma-bufs among `objects`, each with whether the job writes it, and marks them in
/// `objects`. `InvalidArgument`: a duplicate.
fn shared_of(
    objects: &mut [(Found<File<Etnaviv>>, bool)],
    used: &[Used],
) -> Result<KVVec<(Shared, bool)>> {
    let mut shared = KVVec::new();
    for (at, ((object, is_shared), used)) in objects.iter_mut().zip(used).enumerate() {
        check_alive(at)?;
        if let Some(buffer) = object.buffer() {
            *is_shared = true;
            shared.push((buffer, used.is_written), sys::GFP_CLIENT)?;
        }
    }
    shared.sort_unstable_by_key(|(buffer, _)| buffer.address());
    let is_twice = |pair: &[(Shared, bool)]| pair[0].0.address() == pair[1].0.address();
    if shared.windows(2).any(is_twice) {
        Err(Error::InvalidArgument)
    } else {
        Ok(shared)
    }
}

/// Waits for other users of a dma-buf. Skips jobs of the core with index `except`: they run before
/// the caller's own. If the wait `outlasts` Unix signals, only fatal ones end it.
/// `ChipNotReady`: still in use, and `milliseconds` is 0. `Timeout`.
fn wait_for_others(
    buffer: &Shared,
    writes: bool,
    milliseconds: u32,
    except: Option<usize>,
    outlasts: bool,
) -> Result {
    match buffer.wait_for_others(writes, milliseconds, except, outlasts) {
        Err(ETIMEDOUT) if milliseconds == 0 => Err(Error::ChipNotReady),
        Err(ERESTARTSYS) => Err(Error::WaitInterrupted),
        outcome => Ok(outcome?),
    }
}

/// Waits for jobs that use an object, and for other users of its dma-buf. Errors as
/// [`wait_for_others`].
fn wait_for_object(
    process: &Process,
    object: &Found<File<Etnaviv>>,
    writes: bool,
    milliseconds: u32,
) -> Result {
    streams::wait_for_object(process, &object.get(), writes, milliseconds)?;
    match object.buffer() {
        Some(buffer) => wait_for_others(&buffer, writes, milliseconds, None, false),
        None => Ok(()),
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
        "GEM_USERPTR",
        "GEM_WAIT",
        "PM_QUERY_DOM",
        "PM_QUERY_SIG",
    ];

    fn run(
        process: &Arc<Process>,
        file: &Opened<File<Self>>,
        number: u32,
        words: &mut [u32; WORDS],
    ) -> Result {
        // The timeout in milliseconds: 0, or the time until the deadline at word `at`.
        let time = |words: &[u32; WORDS], is_now: bool, at: usize| {
            if is_now {
                0
            } else {
                milliseconds_to(
                    long(words[at], words[at + 1]),
                    long(words[at + 2], words[at + 3]),
                    sys::monotonic_ns(),
                )
            }
        };
        let (at, known) = flags(number);
        if words.get(at).is_some_and(|word| word & !known != 0) {
            return Err(Error::InvalidArgument);
        }
        let &mut [first, second, third, ..] = words;
        match number {
            0 => {
                let value = streams::core_parameter(process, first, second)?;
                [words[2], words[3]] = halves(value);
            }
            2 => {
                if !matches!(third & CACHES, 0x1_0000 | 0x2_0000 | 0x4_0000) {
                    return Err(Error::InvalidArgument);
                }
                let bytes = long(first, second);
                let node = streams::create_in_pages(process, bytes, third & FORCE_MMU != 0)?;
                words[3] = insert(process, file, &node, bytes)?;
            }
            3 => {
                let offset = streams::offset_of(process, &find(file, first)?.get())?;
                [words[2], words[3]] = halves(offset);
            }
            4 => {
                let time = time(words, second & PREP_NOSYNC != 0, 2);
                let object = find(file, first)?;
                wait_for_object(process, &object, second & PREP_WRITE != 0, time)?;
                if second & PREP_READ != 0 {
                    gem::take_back(process, &object.get().into())?;
                }
            }
            5 => gem::hand_over(process, &find(file, first)?.get().into())?,
            6 => submit(process, file, words)?,
            7 => {
                let time = time(words, third & NONBLOCK != 0, 4);
                streams::wait_for_number(process, first, second, time)?;
            }
            8 => {
                let (user, bytes) = (narrow(long(first, second)), long(third, words[3]));
                words[5] = wrap(process, file, (user, bytes), words[4])?;
            }
            9 => {
                streams::core_of_pipe(process, first)?;
                let time = time(words, third & NONBLOCK != 0, 4);
                wait_for_object(process, &find(file, second)?, true, time)?;
            }
            10 => perfmon::query_domain(process, words)?,
            11 => perfmon::query_signal(process, words)?,
            _ => return Err(Error::InvalidArgument),
        }
        Ok(())
    }

    fn is_query(number: u32) -> bool {
        matches!(number, 0 | 10 | 11)
    }

    fn errno(error: Error) -> Errno {
        match error {
            Error::InvalidAddress => EFAULT,
            error => errno(error),
        }
    }
}

#[kunit_tests(galcore_etnaviv)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_signed_and_clamped() {
        let second = 1_000_000_000;
        assert_eq!(milliseconds_to(3, 5_000_000, 2 * second), 1006);
        assert_eq!(milliseconds_to(0, 0, second), 1);
        // A deadline in the past.
        assert_eq!(milliseconds_to(u64::MAX, 0, second), 1);
        assert_eq!(milliseconds_to(5, u64::MAX, 4 * second), 1000);
        let longest = u32::MAX >> 1;
        assert_eq!(milliseconds_to(i64::MAX as u64, 0, 0), longest);
        assert_eq!(milliseconds_to(1, i64::MAX as u64, 0), longest);
    }

    fn relocated(relocations: &[[u32; RELOCATION_WORDS]]) -> Result<[u32; 4]> {
        let mut stream = [1, 2, 3, 4];
        let objects = [(0x1000, 0x100), (0xFFFF_F000, 0x1000)];
        let object = |index: usize| objects.get(index).copied();
        relocate(&mut stream, relocations.as_flattened(), object).map(|()| stream)
    }

    #[test]
    fn relocations_patch_addresses() {
        assert_eq!(relocated(&[]), Ok([1, 2, 3, 4]));
        let two = [[4, 0, 0x20, 0, 0, 7], [12, 1, 0xFFC, 0, 0, 7]];
        assert_eq!(relocated(&two), Ok([1, 0x1020, 3, 0xFFFF_FFFC]));
        // Two relocations of one word: the last one wins.
        let twice = [[8, 0, 0, 0, 0, 0], [8, 0, 4, 0, 0, 0]];
        assert_eq!(relocated(&twice), Ok([1, 2, 0x1004, 4]));
    }

    #[test]
    fn invalid_relocations_are_refused() {
        for wrong in [
            [16, 0, 0, 0, 0, 0],
            [u32::MAX - 3, 0, 0, 0, 0, 0],
            [2, 0, 0, 0, 0, 0],
            [0, 2, 0, 0, 0, 0],
            [0, 0, 0xFD, 0, 0, 0],
            [0, 0, 0, 1, 0, 0],
            [0, 0, u32::MAX, u32::MAX, 0, 0],
            [0, 0, 0, 0, 1, 0],
        ] {
            assert_eq!(relocated(&[wrong]), Err(Error::InvalidArgument));
        }
        let back = [[8, 0, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0]];
        assert_eq!(relocated(&back), Err(Error::InvalidArgument));
    }
}
