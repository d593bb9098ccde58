// SPDX-License-Identifier: GPL-2.0-only

//! Evidence about a file's generation in its first commands, if several generations fit the sizes.
//!
//! Each candidate generation decodes the request. A candidate is ruled out if no client would send
//! what it reads: a command for queues, a lock by a process without nodes, a context that is not
//! one. While all candidates read the same kind of request, the choice does not matter, and the
//! next request may decide. If they read different kinds, the likeliest reading is executed, and
//! the candidates that share it remain. A COMMIT with content keeps the candidates that find that
//! content; if none does, it restores those that were ruled out and do. A guess stays open until
//! one candidate is left, or for [`MOST_REQUESTS`]. Pure logic: the caller reads user memory.

use super::{
    codec::POOL_NAME,
    detect::{
        fitting,
        Choice,
        Reason,
        WEIGHED, //
    },
    ClientContext,
    CommandBuffer,
    Commands,
    Commit,
    Format,
    Request,
    UserSignal,
    MAX_CONTEXT_BYTES,
    MAX_DELTA_BYTES, //
};
use crate::error::Error;
use core::mem::{
    discriminant,
    Discriminant, //
};

/// The number of requests of a file after which a guess becomes final. Some generations differ only
/// in a command that clients send late.
const MOST_REQUESTS: u32 = 250;

/// The lowest address of user pages.
const FIRST_ADDRESS: u64 = 0x1000;

/// The longest finite wait that is evidence, in milliseconds.
const LONGEST_WAIT: u32 = 60_000;

/// The longest plausible finite wait, in milliseconds: an hour.
const UNLIKELY_WAIT: u32 = 3_600_000;

/// The most plausible records of a delta.
const MOST_RECORDS: u32 = 1 << 20;

/// Reads words of user memory; `false`: they cannot be read.
pub(crate) type Reader<'a> = &'a mut dyn FnMut(u64, &mut [u32]) -> bool;

/// The kinds of objects that a process has and that commands name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectKinds {
    /// Video memory nodes.
    pub(crate) nodes: bool,
    /// Contiguous or non-paged buffers.
    pub(crate) buffers: bool,
    /// User memory that is mapped.
    pub(crate) user_memory: bool,
    /// A view of the pool.
    pub(crate) pool_view: bool,
}

/// The possible generations of a file, and the number of requests weighed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidates {
    places: u32,
    requests: u32,
    /// Some have been ruled out.
    is_narrowed: bool,
}

/// The result of weighing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detection {
    /// The most likely generation.
    pub(crate) choice: Choice,
    /// The remaining candidates.
    pub(crate) left: Candidates,
    /// Later requests do not change the choice.
    pub(crate) is_final: bool,
}

impl Detection {
    /// A final choice, without a guess.
    pub(crate) fn certain(choice: Choice) -> Self {
        Self {
            choice,
            left: Candidates::NONE,
            is_final: true,
        }
    }
}

/// How one generation reads a request.
struct Reading {
    /// `None`: the generation refuses the request.
    kind: Option<Discriminant<Request>>,
    makes_sense: bool,
    /// It is unlikely: other readings go first.
    is_unlikely: bool,
    /// It finds content that other generations have elsewhere: evidence.
    is_telling: bool,
    /// Such evidence is conclusive.
    decides: bool,
}

/// The readings of all candidates, as bits of their places in the list.
#[derive(Default)]
struct Readings {
    sensible: u32,
    telling: u32,
    answered: u32,
    unlikely: u32,
    /// The evidence is conclusive.
    decides: bool,
    kinds: [Option<Discriminant<Request>>; WEIGHED],
}

impl Readings {
    fn note(&mut self, choice: Choice, reading: Reading) {
        if !reading.makes_sense {
            return;
        }
        let bit_if = |is: bool| if is { choice.bit() } else { 0 };
        self.sensible |= choice.bit();
        self.telling |= bit_if(reading.is_telling);
        self.answered |= bit_if(reading.kind.is_some());
        self.unlikely |= bit_if(reading.is_unlikely);
        self.decides |= reading.is_telling && reading.decides;
        if let Some(kind) = self.kinds.get_mut(usize::from(choice.place())) {
            *kind = reading.kind;
        }
    }

    /// The remaining candidates. `None`: no reading makes sense, so there is no evidence.
    fn places(&self) -> Option<u32> {
        match (self.sensible, self.telling) {
            (0, _) => None,
            // As the others read it, the request has no content.
            (_, telling) if self.decides => Some(telling),
            // The others are less likely, but remain until conclusive evidence.
            (sensible, _) => Some(sensible),
        }
    }

    /// The most likely candidates among `places`.
    fn likely(&self, places: u32) -> u32 {
        // A client rarely sends what its generation refuses.
        let answered = self.answered & places;
        match (self.telling, answered & !self.unlikely, answered) {
            (0, 0, 0) => places,
            (0, 0, answered) => answered,
            (0, usual, _) => usual,
            (telling, ..) => telling,
        }
    }

    /// Whether two generations read the same kind of request, or one of them has no reading.
    fn reads_alike(&self, one: Choice, other: Choice) -> bool {
        let kind_of = |choice: Choice| *self.kinds.get(usize::from(choice.place()))?;
        match (kind_of(one), kind_of(other)) {
            (Some(kind), Some(other)) => kind == other,
            _ => true,
        }
    }
}

impl Candidates {
    /// No candidates: there is nothing to guess.
    const NONE: Self = Self {
        places: 0,
        requests: 0,
        is_narrowed: false,
    };

    /// Whether there is something to guess.
    pub(crate) fn is_any(self) -> bool {
        self.places != 0
    }

    /// The generations with interfaces of `bytes` bytes and a block of `block_bytes`.
    pub(crate) fn of_size(block_bytes: usize, bytes: u64) -> Self {
        let bits = fitting(block_bytes, bytes)
            .map(|(place, _)| Choice::of_place(place, Reason::First).bit());
        Self {
            places: bits.fold(0, |places, bit| places | bit),
            requests: 0,
            is_narrowed: false,
        }
    }

    /// Packs them for [`Candidates::unpack`].
    pub(crate) fn pack(self) -> u32 {
        const { assert!(WEIGHED <= 16, "each place has one of the low 16 bits") };
        u32::from(self.is_narrowed) << 24 | self.requests << 16 | self.places
    }

    /// Undoes [`Self::pack`].
    pub(crate) fn unpack(packed: u32) -> Self {
        Self {
            places: packed & 0xFFFF,
            requests: packed >> 16 & 0xFF,
            is_narrowed: packed >> 24 != 0,
        }
    }

    /// Whether `choice` is a candidate.
    pub(crate) fn has(self, choice: Choice) -> bool {
        self.places & choice.bit() != 0
    }

    /// Whether at most one candidate is left.
    pub(crate) fn are_decided(self) -> bool {
        self.places.count_ones() < 2
    }

    fn choices(self) -> impl Iterator<Item = Choice> {
        (0u8..16)
            .map(|place| Choice::of_place(place, Reason::Commands))
            .filter(move |&choice| self.has(choice))
    }

    /// The generations with interfaces of `words` words that have been ruled out.
    fn ruled_out(self, current: Choice, words: usize) -> Self {
        let block_bytes = current.format().argument_bytes().into();
        // CAST: a few hundred bytes.
        let all = Self::of_size(block_bytes, 4 * words as u64);
        Self {
            places: all.places & !self.places,
            ..self
        }
    }

    /// The most likely candidate on a core of this model.
    fn likeliest(self, model: u32) -> Option<Choice> {
        let of = |wanted: u32| {
            self.choices()
                .find(|choice| u32::from(choice.format().0.model) == wanted)
        };
        of(model)
            .or_else(|| of(0))
            .or_else(|| self.choices().next())
    }

    /// Weighs the request in `words`, of a file with the guess `current`.
    pub(crate) fn weigh(
        self,
        current: Choice,
        words: &[u32],
        has: ObjectKinds,
        model: u32,
        read: Reader<'_>,
    ) -> Detection {
        let (mut readings, mut is_commit) = (Readings::default(), false);
        for choice in self.choices() {
            let reading = reading(choice.format(), words, has, read);
            is_commit |= reading.decides;
            readings.note(choice, reading);
        }
        // If no candidate finds content in a COMMIT, restore generations that do: the client has
        // sent an earlier request that made no sense.
        let mut candidates = self;
        if is_commit && readings.telling == 0 {
            for choice in self.ruled_out(current, words.len()).choices() {
                let reading = reading(choice.format(), words, has, read);
                if reading.makes_sense && reading.is_telling && reading.decides {
                    candidates.places |= choice.bit();
                    readings.note(choice, reading);
                }
            }
        }
        let places = readings.places().unwrap_or(self.places);
        let likely = Self {
            places: readings.likely(places),
            ..self
        };
        let mut choice = if likely.has(current) && places.count_ones() > 1 {
            current
        } else {
            likely.likeliest(model).unwrap_or(current)
        };
        // The reading of `choice` is executed: rule out those that read something else.
        let alike = candidates
            .choices()
            .filter(|&other| readings.reads_alike(choice, other));
        let places = alike.fold(0, |places, other| places | other.bit()) & places;
        let left = Self {
            places,
            requests: self.requests.saturating_add(1).min(MOST_REQUESTS),
            is_narrowed: self.is_narrowed || places != self.places,
        };
        let is_final = places.count_ones() == 1 || left.requests == MOST_REQUESTS;
        // The process's other files may rely only on a final choice that commands identified.
        let reason = match (is_final && left.is_narrowed, choice.reason) {
            (true, _) => Reason::Commands,
            (false, Reason::Commands) => Reason::First,
            (false, reason) => reason,
        };
        choice = Choice::of_place(choice.place(), reason);
        Detection {
            choice,
            left,
            is_final,
        }
    }
}

/// How `format` reads the request in `words`.
#[inline(never)]
fn reading(format: Format, words: &[u32], has: ObjectKinds, read: Reader<'_>) -> Reading {
    let request = match format.decode_apart(words) {
        Request::Commit(Commit {
            commands: Commands::Here(CommandBuffer { offset: Err(_), .. }, _),
            ..
        }) => Request::Refused(Error::InvalidArgument),
        request => request,
    };
    let (mut is_telling, mut decides, mut is_unlikely) = (false, false, false);
    let makes_sense = match request {
        _ if format.is_never_sent(words) => false,
        Request::UnmapPool { .. } => has.pool_view,
        // The vendor does not build these.
        Request::ReadRegister { .. } | Request::WriteRegister { .. } => false,
        Request::ReadRegisters { .. } | Request::WriteRegisters { .. } => false,
        Request::DumpState | Request::DumpJobs => false,
        Request::AllocateContiguous { bytes, .. } => bytes != 0,
        Request::AllocateLinear { bytes, .. } => bytes != 0,
        Request::FreeContiguous(_) | Request::MapMemory { .. } | Request::UnmapMemory { .. } => {
            has.buffers
        }
        Request::Lock { .. }
        | Request::Unlock { .. }
        | Request::FinishUnlock { .. }
        | Request::NameNode { .. }
        | Request::ExportNode { .. }
        | Request::WaitNode { .. }
        | Request::SetMetadata { .. }
        | Request::ReadMetadata { .. } => has.nodes,
        Request::FreeNode { node, .. } => has.nodes && node != POOL_NAME,
        Request::UnmapUser(_) => has.user_memory,
        Request::MapUser { user, bytes } => user >= FIRST_ADDRESS && bytes != 0,
        // With 0 or an implausible value, the timeout may be in another generation's field: no
        // client waits for an implausible time.
        Request::UserSignal(UserSignal::Wait { milliseconds, .. }) => {
            is_telling = matches!(milliseconds, 2..=LONGEST_WAIT | u32::MAX);
            is_unlikely = milliseconds > UNLIKELY_WAIT && !is_telling;
            true
        }
        // Clients rarely reset a signal, and set it to 1. Another value is probably stale data, and
        // the state is in another generation's field.
        Request::UserSignal(UserSignal::Signal { .. }) => {
            is_unlikely = format.signal_state(words) != 1;
            true
        }
        Request::UserSignal(signal) => signal != UserSignal::Unknown,
        // An operation on memory that exists or on address 0, or a barrier.
        Request::Cache(range) => match range.operation {
            1..=3 => {
                is_telling = usize::try_from(range.user).is_ok() && has_words(range.user, read);
                is_telling || range.user == 0
            }
            4 => true,
            _ => false,
        },
        Request::EventCommit { queue, .. } => is_pointer(queue),
        Request::Commit(commit) | Request::CommitAll { first: commit, .. } => {
            (is_telling, decides) = (true, true);
            commit_makes_sense(&commit, &mut is_telling, read)
        }
        _ => true,
    };
    Reading {
        kind: match request {
            Request::Refused(_) => None,
            _ => Some(discriminant(&request)),
        },
        makes_sense,
        is_unlikely,
        is_telling,
        decides,
    }
}

/// Whether a structure can be at a user address.
fn is_pointer(address: u64) -> bool {
    address >= FIRST_ADDRESS && address % 4 == 0
}

/// Whether the client has memory at a user address.
fn has_words(user: u64, read: Reader<'_>) -> bool {
    user >= FIRST_ADDRESS && read(user & !3, &mut [0])
}

/// Whether the context in the client's memory, or the delta, of a COMMIT makes sense.
fn commit_makes_sense(commit: &Commit, is_telling: &mut bool, read: Reader<'_>) -> bool {
    let format = commit.format;
    if format.context_bytes() != 0 {
        let mut room = [0; MAX_CONTEXT_BYTES / 4];
        let words = &mut room[..format.context_bytes() / 4];
        if !is_pointer(commit.context_buffer) || !read(commit.context_buffer, words) {
            return false;
        }
        // The driver may ignore implausible fields, but they are no evidence.
        let context = format.decode_context(words);
        *is_telling = context_makes_sense(&context) && context_has_content(&context);
        return context.object == ClientContext::OBJECT_TYPE;
    }
    // Without a delta, all generations read the same.
    if commit.delta == 0 || format.delta_bytes() == 0 {
        *is_telling = false;
        return true;
    }
    let mut room = [0; MAX_DELTA_BYTES / 4];
    let words = &mut room[..format.delta_bytes() / 4];
    if !is_pointer(commit.delta) || !read(commit.delta, words) {
        return false;
    }
    let delta = format.decode_delta(words);
    if delta.record_count == 0 {
        *is_telling = false;
        return true;
    }
    delta.record_count <= MOST_RECORDS
        && is_pointer(delta.records)
        && read(delta.records, &mut [0; 2])
}

/// Whether the fields of a `gcoCONTEXT` are plausible; it may have no buffer yet.
fn context_makes_sense(context: &ClientContext) -> bool {
    let has_states = match (context.logical, context.link) {
        (0, 0) => true,
        (logical, link) => {
            let bytes = link.checked_sub(logical);
            is_pointer(logical)
                && bytes.is_some_and(|it| it % 8 == 0 && it <= context.buffer_bytes.into())
        }
    };
    context.initial_pipe <= 1
        && context.entry_pipe <= 1
        && (context.in_use == 0 || context.in_use >= FIRST_ADDRESS)
        && has_states
}

/// Whether there is content in fields that other generations have elsewhere.
fn context_has_content(context: &ClientContext) -> bool {
    context.logical != 0
        || context.initial_pipe != 0
        || context.entry_pipe != 0
        || context.in_use != 0
}

mod tests;
