// SPDX-License-Identifier: GPL-2.0-only

//! What a file's first commands say about its generation, where the sizes leave several.
//!
//! Each generation that is left reads the request. Where one of them reads what no client would ask
//! for (a command that is for queues, a node to be locked where there is none, a context in the
//! client's memory that is none), that one is out. As long as all that are left read the same kind
//! of request it does not matter which of them is taken, and the next request may tell more. Where
//! they read it as different things, those are left that read it as the likeliest does: it is done
//! as that says. A COMMIT that has something to show leaves those that show it, and brings one back
//! that was out. A guess stays open until one is left, or for [`MOST_REQUESTS`]. Pure logic: the caller
//! reads user memory.

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

/// Requests of a file after which a guess stands, whatever they were: some generations differ in
/// nothing but a command that comes late.
const MOST_REQUESTS: u32 = 250;

/// User pages begin here at the earliest.
const FIRST_ADDRESS: u64 = 0x1000;

/// The longest wait that tells of a generation, in milliseconds, but for ever.
const LONGEST_WAIT: u32 = 60_000;

/// The longest wait that a client would take, in milliseconds, but for ever: an hour.
const ODD_WAIT: u32 = 3_600_000;

/// Records that a delta has at most.
const MOST_RECORDS: u32 = 1 << 20;

/// Reads words of user memory; `false`: they cannot be read.
pub(crate) type Reader<'a> = &'a mut dyn FnMut(u64, &mut [u32]) -> bool;

/// What a process has that commands name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Possessions {
    /// Video memory nodes.
    pub(crate) nodes: bool,
    /// Contiguous or non-paged buffers.
    pub(crate) buffers: bool,
    /// User memory that is mapped.
    pub(crate) user_memory: bool,
    /// A view of the pool.
    pub(crate) pool_view: bool,
}

/// Which generations a file may speak, and how many requests have been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidates {
    places: u32,
    requests: u32,
    /// Some are out.
    is_narrowed: bool,
}

/// What a request has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What is most likely now.
    pub(crate) choice: Choice,
    /// Which it may be.
    pub(crate) left: Candidates,
    /// Nothing will change it.
    pub(crate) is_final: bool,
}

impl Verdict {
    /// There is nothing to guess.
    pub(crate) fn certain(choice: Choice) -> Self {
        Self {
            choice,
            left: Candidates::NONE,
            is_final: true,
        }
    }
}

/// What one generation makes of a request.
struct Reading {
    /// `None`: whatever the client meant, it is refused.
    kind: Option<Discriminant<Request>>,
    makes_sense: bool,
    /// Not much speaks for it: so it is done if nobody else would send it.
    is_odd: bool,
    /// It has something to show that others would show elsewhere.
    is_telling: bool,
    /// Which is enough.
    decides: bool,
}

/// What all make of it: places of the list.
#[derive(Default)]
struct Tally {
    sensible: u32,
    telling: u32,
    answered: u32,
    odd: u32,
    /// What is told is enough.
    decides: bool,
    kinds: [Option<Discriminant<Request>>; WEIGHED],
}

impl Tally {
    fn note(&mut self, choice: Choice, reading: Reading) {
        if !reading.makes_sense {
            return;
        }
        let bit_if = |is: bool| if is { choice.bit() } else { 0 };
        self.sensible |= choice.bit();
        self.telling |= bit_if(reading.is_telling);
        self.answered |= bit_if(reading.kind.is_some());
        self.odd |= bit_if(reading.is_odd);
        self.decides |= reading.is_telling && reading.decides;
        if let Some(kind) = self.kinds.get_mut(usize::from(choice.place())) {
            *kind = reading.kind;
        }
    }

    /// Which it may be. `None`: nobody would send this; it tells nothing.
    fn places(&self) -> Option<u32> {
        match (self.sensible, self.telling) {
            (0, _) => None,
            // The others would send this for nothing.
            (_, telling) if self.decides => Some(telling),
            // Others may have something else there: they are less likely, until something decides.
            (sensible, _) => Some(sensible),
        }
    }

    /// Which of `places` it most probably is.
    fn likely(&self, places: u32) -> u32 {
        // Who would be refused has probably not asked for that.
        let answered = self.answered & places;
        match (self.telling, answered & !self.odd, answered) {
            (0, 0, 0) => places,
            (0, 0, answered) => answered,
            (0, usual, _) => usual,
            (telling, ..) => telling,
        }
    }

    /// Whether two read it as the same kind of request, as far as they read it.
    fn reads_alike(&self, one: Choice, other: Choice) -> bool {
        let kind_of = |choice: Choice| *self.kinds.get(usize::from(choice.place()))?;
        match (kind_of(one), kind_of(other)) {
            (Some(kind), Some(other)) => kind == other,
            _ => true,
        }
    }
}

impl Candidates {
    /// None: there is nothing to guess.
    const NONE: Self = Self {
        places: 0,
        requests: 0,
        is_narrowed: false,
    };

    /// There is something to guess.
    pub(crate) fn is_any(self) -> bool {
        self.places != 0
    }

    /// Those that have interfaces of `bytes` bytes behind a block of `block_bytes`.
    pub(crate) fn of_size(block_bytes: usize, bytes: u64) -> Self {
        let bits = fitting(block_bytes, bytes)
            .map(|(place, _)| Choice::of_place(place, Reason::First).bit());
        Self {
            places: bits.fold(0, |places, bit| places | bit),
            requests: 0,
            is_narrowed: false,
        }
    }

    /// As one number; from it: [`Candidates::unpack`].
    pub(crate) fn pack(self) -> u32 {
        const { assert!(WEIGHED <= 16, "a place has a bit below 16") };
        u32::from(self.is_narrowed) << 24 | self.requests << 16 | self.places
    }

    /// From that number.
    pub(crate) fn unpack(packed: u32) -> Self {
        Self {
            places: packed & 0xFFFF,
            requests: packed >> 16 & 0xFF,
            is_narrowed: packed >> 24 != 0,
        }
    }

    /// Whether it is one of them.
    pub(crate) fn has(self, choice: Choice) -> bool {
        self.places & choice.bit() != 0
    }

    /// Whether there is but one, or none.
    pub(crate) fn are_no_question(self) -> bool {
        self.places.count_ones() < 2
    }

    fn choices(self) -> impl Iterator<Item = Choice> {
        (0u8..16)
            .map(|place| Choice::of_place(place, Reason::Commands))
            .filter(move |&choice| self.has(choice))
    }

    /// Those of the same size, of `words` words, that are out.
    fn those_out(self, current: Choice, words: usize) -> Self {
        let block_bytes = current.format().argument_bytes().into();
        // CAST: a few hundred bytes.
        let all = Self::of_size(block_bytes, 4 * words as u64);
        Self {
            places: all.places & !self.places,
            ..self
        }
    }

    /// The one that is most likely on a core of this model.
    fn likeliest(self, model: u32) -> Option<Choice> {
        let of = |wanted: u32| {
            self.choices()
                .find(|choice| u32::from(choice.format().0.model) == wanted)
        };
        of(model)
            .or_else(|| of(0))
            .or_else(|| self.choices().next())
    }

    /// What the request in `words` tells, of a file that was taken for `current` so far.
    pub(crate) fn weigh(
        self,
        current: Choice,
        words: &[u32],
        has: Possessions,
        model: u32,
        read: Reader<'_>,
    ) -> Verdict {
        let (mut tally, mut is_commit) = (Tally::default(), false);
        for choice in self.choices() {
            let reading = reading(choice.format(), words, has, read);
            is_commit |= reading.decides;
            tally.note(choice, reading);
        }
        // Where those that are left find nothing, what one that is out has to show brings it back:
        // it has sent something that made no sense.
        let mut candidates = self;
        if is_commit && tally.telling == 0 {
            for choice in self.those_out(current, words.len()).choices() {
                let reading = reading(choice.format(), words, has, read);
                if reading.makes_sense && reading.is_telling && reading.decides {
                    candidates.places |= choice.bit();
                    tally.note(choice, reading);
                }
            }
        }
        let places = tally.places().unwrap_or(self.places);
        let likely = Self {
            places: tally.likely(places),
            ..self
        };
        let mut choice = match likely.has(current) {
            true if places.count_ones() > 1 => current,
            _ => likely.likeliest(model).unwrap_or(current),
        };
        // It is done as that one reads it: those that read something else are out.
        let alike = candidates
            .choices()
            .filter(|&other| tally.reads_alike(choice, other));
        let places = alike.fold(0, |places, other| places | other.bit()) & places;
        let left = Self {
            places,
            requests: self.requests.saturating_add(1).min(MOST_REQUESTS),
            is_narrowed: self.is_narrowed || places != self.places,
        };
        let is_final = places.count_ones() == 1 || left.requests == MOST_REQUESTS;
        // Others of the process are to rely only on what stays, and what commands have told.
        let reason = match (is_final && left.is_narrowed, choice.reason) {
            (true, _) => Reason::Commands,
            (false, Reason::Commands) => Reason::First,
            (false, reason) => reason,
        };
        choice = Choice::of_place(choice.place(), reason);
        Verdict {
            choice,
            left,
            is_final,
        }
    }
}

/// How a client of `format` would mean the request in `words`.
#[inline(never)]
fn reading(format: Format, words: &[u32], has: Possessions, read: Reader<'_>) -> Reading {
    let request = match format.decode_apart(words) {
        Request::Commit(Commit {
            commands: Commands::Here(CommandBuffer { offset: Err(_), .. }, _),
            ..
        }) => Request::Refused(Error::InvalidArgument),
        request => request,
    };
    let (mut is_telling, mut decides, mut is_odd) = (false, false, false);
    let makes_sense = match request {
        _ if format.is_never_sent(words) => false,
        Request::UnmapPool { .. } => has.pool_view,
        // Not in the vendor's builds.
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
        // A wait for no time at all may be the time at another place. One that nobody would take
        // most probably is: who waits as it says does not come back.
        Request::UserSignal(UserSignal::Wait { milliseconds, .. }) => {
            is_telling = matches!(milliseconds, 2..=LONGEST_WAIT | u32::MAX);
            is_odd = milliseconds > ODD_WAIT && !is_telling;
            true
        }
        // Clients seldom reset a signal, and set it to 1: another number is what they have left
        // where others have the state.
        Request::UserSignal(UserSignal::Signal { .. }) => {
            is_odd = format.signal_state(words) != 1;
            true
        }
        Request::UserSignal(signal) => signal != UserSignal::Unknown,
        // It says what is to be done with memory that there is, or is a barrier.
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
        is_odd,
        is_telling,
        decides,
    }
}

/// Whether a user address can be that of a structure.
fn is_pointer(address: u64) -> bool {
    address >= FIRST_ADDRESS && address % 4 == 0
}

/// Whether there is memory of the client's at a user address.
fn has_words(user: u64, read: Reader<'_>) -> bool {
    user >= FIRST_ADDRESS && read(user & !3, &mut [0])
}

/// Whether a COMMIT makes sense: the context in the client's memory, or the delta.
fn commit_makes_sense(commit: &Commit, is_telling: &mut bool, read: Reader<'_>) -> bool {
    let format = commit.format;
    if format.context_bytes() != 0 {
        let mut room = [0; MAX_CONTEXT_BYTES / 4];
        let words = &mut room[..format.context_bytes() / 4];
        if !is_pointer(commit.context_buffer) || !read(commit.context_buffer, words) {
            return false;
        }
        // Of fields that make no sense the driver may take no notice; but they show nothing.
        let context = format.decode_context(words);
        *is_telling = context_makes_sense(&context) && context_tells(&context);
        return context.object == ClientContext::OBJECT_TYPE;
    }
    // Without a delta it is the same in all of them.
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

/// Whether these can be the fields of a `gcoCONTEXT`, which may have no buffer yet.
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

/// Whether there is something in those fields that other generations have elsewhere.
fn context_tells(context: &ClientContext) -> bool {
    context.logical != 0
        || context.initial_pipe != 0
        || context.entry_pipe != 0
        || context.in_use != 0
}

#[kernel::macros::kunit_tests(galcore_evidence)]
mod tests {
    use super::*;

    const NOTHING: Possessions = Possessions {
        nodes: false,
        buffers: false,
        user_memory: false,
        pool_view: false,
    };

    /// What a client has left there.
    const NOISE: u32 = 0x9ABC_DEF0;

    /// The name of what is likeliest behind a request, whether that is final, and how many are
    /// left.
    fn told(
        of: Candidates,
        current: &str,
        words: &[u32],
        has: Possessions,
        read: Reader<'_>,
    ) -> Option<(&'static str, bool, u32, Candidates)> {
        let current = Choice::by_name(current.as_bytes(), Reason::First)?;
        let verdict = of.weigh(current, words, has, 0, read);
        Some((
            verdict.choice.format().name(),
            verdict.is_final,
            verdict.left.places.count_ones(),
            verdict.left,
        ))
    }

    /// A request of 6.2 with ones in all fields.
    fn request(command: u32) -> [u32; 100] {
        let mut words = [1; 100];
        words[0] = command;
        words
    }

    #[test]
    fn numbers_tell() {
        let all = Candidates::of_size(32, 400);
        let weigh = |words: &[u32], has| told(all, "6.2.4.p2", words, has, &mut |_, _| false);
        let short = |found: Option<(&'static str, bool, u32, Candidates)>| {
            found.map(|(name, is_final, left, _)| (name, is_final, left))
        };
        // VERSION is one number in all.
        let found = short(weigh(&request(41), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", false, 4)));
        // ALLOCATE_LINEAR_VIDEO_MEMORY is 7 up to 6.2.3, and what nobody builds later.
        let found = short(weigh(&request(7), NOTHING));
        assert_eq!(found, Some(("6.2.3", false, 2)));
        // And 8 later, which was RELEASE_VIDEO_MEMORY.
        let found = short(weigh(&request(8), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", false, 2)));
        // Which makes sense for who has a node; then it is done as the likeliest reads it.
        let nodes = Possessions {
            nodes: true,
            ..NOTHING
        };
        let found = short(weigh(&request(8), nodes));
        assert_eq!(found, Some(("6.2.4.p2", false, 2)));
        // MAP_MEMORY of the pool is RELEASE_VIDEO_MEMORY later, or UNMAP_MEMORY before.
        let of_pool = |command| {
            let mut words = request(command);
            words[10] = POOL_NAME;
            words
        };
        let found = short(weigh(&of_pool(9), NOTHING));
        assert_eq!(found, Some(("6.2.3", false, 2)));
        let found = short(weigh(&of_pool(10), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", false, 2)));
        // Whoever it was taken for: who has no view of the pool does not unmap one.
        let taken_for = |name, has| {
            let mut none = |_: u64, _: &mut [u32]| false;
            short(told(all, name, &of_pool(10), has, &mut none))
        };
        assert_eq!(taken_for("6.2.3", NOTHING), Some(("6.2.4.p2", false, 2)));
        let view = Possessions {
            pool_view: true,
            ..NOTHING
        };
        assert_eq!(taken_for("6.2.3", view), Some(("6.2.3", false, 2)));
        // QUERY_CHIP_OPTION is no command, or one for nodes.
        let found = short(weigh(&request(73), NOTHING));
        assert_eq!(found, Some(("6.2.4.p3", true, 1)));
        let found = short(weigh(&request(74), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", true, 1)));
        // WRAP_USER_MEMORY of nothing, or GET_VIDEO_MEMORY_FD, as 5.0.11.p6 has it.
        let found = told(
            Candidates::of_size(32, 320),
            "5.0.11.p8",
            &{
                let mut words = [0; 80];
                words[0] = 65;
                words
            },
            nodes,
            &mut |_, _| false,
        );
        assert_eq!(short(found), Some(("5.0.11.p6", false, 2)));
        // No command of any.
        let found = short(weigh(&request(200), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", false, 4)));
    }

    #[test]
    fn caches_tell() {
        let all = Candidates::of_size(16, 128);
        let weigh = |payload: [u32; 7]| {
            let union_at = Choice::by_name(b"v4", Reason::First)
                .map_or(0, |choice| usize::from(choice.format().0.union_at) / 4);
            let mut words = [0; 32];
            words[0] = 35;
            words[union_at..union_at + 7].copy_from_slice(&payload);
            // What lies from 64 KiB on can be read.
            let found = told(all, "v4", &words, NOTHING, &mut |at, _| at >= 0x1_0000);
            found.map(|(name, is_final, left, _)| (name, is_final, left))
        };
        // Flush: what, who, where, how much.
        let found = weigh([3, 5000, 0xA000_0000, 4096, 0, 0, 0]);
        assert_eq!(found, Some(("v4", true, 1)));
        // Invalidates too, flush, who, nowhere, where, how much.
        let found = weigh([1, 3, 5000, 0, 0xA000_0000, 4096, 0]);
        assert_eq!(found, Some(("eureka", true, 1)));
        // A barrier.
        let found = weigh([4, 0, 0, 0, 0, 0, 0]);
        assert_eq!(found, Some(("v4", true, 1)));
        assert_eq!(weigh([0; 7]), Some(("v4", false, 2)));
    }

    #[test]
    fn guesses_end() {
        let mut left = Candidates::of_size(32, 400);
        for request_number in 1..=MOST_REQUESTS {
            let found = told(left, "6.2.4.p2", &request(41), NOTHING, &mut |_, _| false);
            let Some((_, is_final, _, next)) = found else {
                break;
            };
            assert_eq!(is_final, request_number == MOST_REQUESTS);
            left = Candidates::unpack(next.pack());
            assert_eq!(left, next);
        }
        assert_eq!(left.requests, MOST_REQUESTS);
    }

    /// What USER_SIGNAL of 216 bytes with this sub-command, and these words at byte `at`, is taken for,
    /// and how many generations are left.
    fn user_signal(
        current: &str,
        command: u32,
        at: usize,
        with: [u32; 2],
    ) -> Option<(&'static str, u32)> {
        let union_at = Choice::by_name(b"dove", Reason::First)
            .map_or(0, |choice| usize::from(choice.format().0.union_at) / 4);
        let mut words = [0; 54];
        words[0] = 16;
        words[union_at] = command;
        words[union_at + at / 4..][..2].copy_from_slice(&with);
        let all = Candidates::of_size(16, 216);
        let found = told(all, current, &words, NOTHING, &mut |_, _| false);
        found.map(|(name, _, left, _)| (name, left))
    }

    #[test]
    fn waits_tell() {
        let wait = |current, at_12, at_16| user_signal(current, 3, 12, [at_12, at_16]);
        // The time is at 16 in Dove's later ones, at 12 in the others; the other word is anything.
        assert_eq!(wait("v2", NOISE, 20_000), Some(("dove", 3)));
        assert_eq!(wait("dove", 20_000, NOISE), Some(("v2", 3)));
        assert_eq!(wait("v2", NOISE, 0), Some(("dove", 3)));
        assert_eq!(wait("dove", 1, NOISE), Some(("v2", 3)));
        assert_eq!(wait("v2", NOISE, 120_000), Some(("dove", 3)));
        // Which of two it is does not tell, nor what is odd in both.
        assert_eq!(wait("dove", 0, 1), Some(("dove", 3)));
        assert_eq!(wait("v2", 0, 0), Some(("v2", 3)));
        assert_eq!(wait("dove", NOISE, NOISE), Some(("dove", 3)));
    }

    #[test]
    fn a_signal_is_set_where_one_reads_that() {
        let signal = |current, at_16, at_20| user_signal(current, 2, 16, [at_16, at_20]);
        // The state is at 20 in Dove's later ones, at 16 in the others.
        assert_eq!(signal("dove", 1, 0), Some(("v2", 3)));
        assert_eq!(signal("v2", 0, 1), Some(("dove", 3)));
        for current in ["dove", "v2"] {
            for [at_16, at_20] in [[0, 0], [1, 1], [NOISE, 0], [0, NOISE], [NOISE, NOISE]] {
                assert_eq!(signal(current, at_16, at_20), Some((current, 3)));
            }
            assert_eq!(signal(current, 1, NOISE), Some(("v2", 3)));
            assert_eq!(signal(current, NOISE, 1), Some(("dove", 3)));
        }
    }

    #[test]
    fn nonsense_is_forgotten() {
        let all = Candidates::of_size(16, 216);
        let place = |name: &str| Choice::by_name(name.as_bytes(), Reason::First);
        let (Some(dove), Some(v2)) = (place("dove"), place("v2")) else {
            return;
        };
        // A context of dove's that can be read as it, and nobody's.
        let object_at = dove.format().0.context.object.at() as usize / 4;
        let mut commit = [0x1_0000; 54];
        commit[0] = 19;
        let context = |has_states: bool| {
            let mut context = [0; 54];
            context[object_at] = ClientContext::OBJECT_TYPE;
            if has_states {
                context[dove.format().0.context.buffer_size.at() as usize / 4] = 0x1000;
                context[156 / 4] = 0x2_0000;
                context[160 / 4] = 0x2_0800;
            }
            context
        };
        let weigh = |of: Candidates, current, words: &[u32], context: [u32; 54], most| {
            let mut read = |_: u64, words: &mut [u32]| {
                for (word, &with) in words.iter_mut().zip(&context) {
                    *word = with;
                }
                words.len() <= most
            };
            let verdict = of.weigh(current, words, NOTHING, 0, &mut read);
            (verdict.choice.format().name(), verdict.left)
        };
        // A context of which there is no more than v2 has: elsewhere that is v2's.
        let short = context(false);
        let (taken, left) = weigh(all, dove, &commit, short, 128 / 4);
        assert_eq!((taken, left.has(dove)), ("v2", false));
        // A context that shows what it is brings back who was out; one that shows nothing does not.
        let (taken, after) = weigh(left, v2, &commit, context(false), 54);
        assert_eq!((taken, after.has(dove)), ("v2", false));
        let (taken, after) = weigh(left, v2, &commit, context(true), 54);
        assert_eq!((taken, after.places), ("dove", dove.bit()));
    }

    #[test]
    fn contexts_tell() {
        // COMMIT, as all of these have it: command buffer, context.
        let all = Candidates::of_size(16, 216);
        let mut words = [0x1_0000; 54];
        words[0] = 19;
        let choice = Choice::by_name(b"v2", Reason::First);
        let size_at = choice.map_or(0, |choice| choice.format().0.context.buffer_size.at());
        let context = |logical: usize| {
            let mut context = [0; 54];
            context[0] = ClientContext::OBJECT_TYPE;
            // bufferSize, logical, link.
            context[size_at as usize / 4] = 0x1000;
            context[logical] = 0x2_0000;
            context[logical + 1] = 0x2_0800;
            context
        };
        let weigh = |context: [u32; 54]| {
            let mut read = |_: u64, words: &mut [u32]| {
                for (word, &with) in words.iter_mut().zip(&context) {
                    *word = with;
                }
                true
            };
            let found = told(all, "v2", &words, NOTHING, &mut read);
            found.map(|(name, is_final, left, _)| (name, is_final, left))
        };
        assert_eq!(weigh(context(156 / 4)), Some(("dove", true, 1)));
        // And `dove_old`, which differs in nothing that comes later.
        assert_eq!(weigh(context(76 / 4)), Some(("v2", false, 2)));
    }
}
