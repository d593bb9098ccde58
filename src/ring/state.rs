// SPDX-License-Identifier: GPL-2.0-only

//! What the ring knows: its places, the jobs under way, and how the GPU will be left by them.
//!
//! Pure logic.

use super::{
    inflight::{
        InFlight,
        Slot, //
    },
    job::Job,
    space::Space,
    USABLE_BYTES,
    WAIT_LINK_BYTES, //
};
use crate::{
    context::{
        scrub::{
            Author,
            Authors, //
        },
        Owner, //
    },
    stream::{
        checker::Engines,
        words::Pipe, //
    }, //
};
use kernel::prelude::*;

/// The TLB is to be flushed whatever it has been flushed past.
const NEVER_FLUSHED: u64 = u64::MAX;

/// What the GPU is like behind all jobs.
pub(super) struct GpuState {
    /// The pipe that is selected; `None`: not known.
    pub(super) pipe: Option<Pipe>,
    /// The context whose states are loaded; `None`: not known, or commands without one were the
    /// last.
    pub(super) context: Option<Owner>,
    /// Whose addresses it may hold.
    pub(super) authors: Authors,
    /// The change of the address space that its TLB is flushed past.
    pub(super) flushed: u64,
}

impl GpuState {
    /// Whether a job of `author`'s that uses the engines `uses` in the context of `owner` must load
    /// that.
    pub(super) fn needs(&self, owner: Owner, author: Option<Author>, uses: Engines) -> bool {
        self.context != Some(owner)
            || author
                .is_some_and(|author| uses.pipe_3d && self.authors.are_others(Pipe::Pipe3d, author))
    }

    /// Nothing is known: as after a reset.
    fn unknown() -> Self {
        Self {
            pipe: None,
            context: None,
            authors: Authors::default(),
            flushed: NEVER_FLUSHED,
        }
    }
}

/// A place in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset of its first byte.
    pub(super) at: usize,
    /// Offset of the WAIT behind its words.
    pub(super) wait: usize,
    /// Offset of the WAIT that must become a LINK to it.
    pub(super) previous_wait: usize,
    /// Its event id.
    pub(super) event: u32,
    /// The job's number.
    pub(super) number: u64,
}

/// The state of a ring.
pub(super) struct State<P> {
    space: Space,
    /// Offset of the WAIT at the ring's end.
    pub(super) wait: usize,
    pub(super) gpu: GpuState,
    /// Somebody fills a place.
    is_filling: bool,
    /// How often something has changed that submitters wait for.
    pub(super) moves: u64,
    /// No more jobs.
    pub(super) is_stopped: bool,
    /// The front end has stopped for good.
    pub(super) is_dead: bool,
    pub(super) in_flight: InFlight<Job<P>>,
    /// Emptied payloads, to be used again; as many as there is room for.
    pub(super) spares: KVVec<P>,
    /// Threads that wait for something to move.
    pub(super) waiters: usize,
    /// The newest job that has ended.
    pub(super) completed: u64,
    /// The hang check is queued.
    pub(super) is_checked: bool,
    /// What `completed` was when the hang check looked last.
    pub(super) last_seen: u64,
    /// Looks without progress since.
    pub(super) idle_looks: u32,
}

impl<P> State<P> {
    /// A ring that is stopped, whose jobs are numbered behind `newest`.
    pub(super) fn new(spares: KVVec<P>, newest: u64) -> Self {
        Self {
            space: Space::new(USABLE_BYTES, WAIT_LINK_BYTES),
            wait: 0,
            gpu: GpuState::unknown(),
            is_filling: false,
            moves: 0,
            is_stopped: true,
            is_dead: false,
            in_flight: InFlight::new(newest),
            spares,
            waiters: 0,
            completed: newest,
            is_checked: false,
            last_seen: newest,
            idle_looks: 0,
        }
    }

    /// The front end idles at the ring's start, after a reset.
    pub(super) fn start(&mut self) {
        self.space = Space::new(USABLE_BYTES, WAIT_LINK_BYTES);
        self.wait = 0;
        self.gpu = GpuState::unknown();
        self.is_stopped = false;
        self.is_dead = false;
    }

    /// Where a job of `bytes`, with its WAIT and LINK, can go now, if there is such a place, an
    /// event id, and nobody fills another place.
    pub(super) fn find(&self, bytes: usize) -> Option<usize> {
        if self.is_filling || !self.in_flight.has_room() {
            return None;
        }
        self.space.place(bytes)
    }

    /// Takes the place of `bytes` at `at`, which [`State::find`] has just given, for `job`. No
    /// other is given until it is filled ([`State::filled`]) or given back ([`State::given_back`]).
    pub(super) fn reserve(
        &mut self,
        at: usize,
        bytes: usize,
        job: Job<P>,
    ) -> Result<Place, Job<P>> {
        let wait = at + bytes - WAIT_LINK_BYTES;
        let (event, number) = self.in_flight.begin(at, wait, job)?;
        self.space.take(at, bytes);
        self.is_filling = true;
        Ok(Place {
            at,
            wait,
            previous_wait: core::mem::replace(&mut self.wait, wait),
            event,
            number,
        })
    }

    /// The newest place is filled.
    pub(super) fn filled(&mut self) {
        self.is_filling = false;
        self.moves += 1;
    }

    /// The newest place has been filled with nothing but the event: what its job was to do to the
    /// GPU it has not done.
    pub(super) fn given_back(&mut self) {
        if let Some(job) = self.in_flight.load_at(u64::MAX) {
            job.is_empty = true;
            // Not by this job.
            job.flushed = 0;
        }
        self.gpu = GpuState::unknown();
        self.filled();
    }

    /// Takes the oldest job out, which the GPU has ended; its place is free.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Slot<Job<P>>> {
        let done = self.in_flight.pop()?;
        // The front end rests in this job's idle loop or is past it.
        self.space.free_before(done.mark);
        Some(done)
    }
}

#[kunit_tests(galcore_ring_state)]
mod tests {
    use super::*;

    const BYTES: usize = 64;

    fn state() -> State<u32> {
        let mut state = State::new(KVVec::new(), 0);
        state.start();
        state
    }

    fn job(payload: u32) -> Job<u32> {
        Job::new(payload, None, Engines::default(), 5)
    }

    /// Reserves a place and does not fill it yet.
    fn reserve(state: &mut State<u32>, payload: u32) -> Option<Place> {
        let at = state.find(BYTES)?;
        let place = state.reserve(at, BYTES, job(payload)).ok()?;
        state.gpu.pipe = Some(Pipe::Pipe3d);
        state.gpu.flushed = 5;
        Some(place)
    }

    #[test]
    fn one_place_is_filled_at_a_time() {
        let mut state = state();
        let first = reserve(&mut state, 1).unwrap();
        assert_eq!((first.at, first.previous_wait, first.number), (16, 0, 1));
        assert_eq!(first.wait, 16 + BYTES - WAIT_LINK_BYTES);
        assert!(state.find(BYTES).is_none());
        state.filled();
        let second = reserve(&mut state, 2).unwrap();
        assert_eq!(second.previous_wait, first.wait);
        assert_eq!(second.at, first.at + BYTES);
    }

    #[test]
    fn the_ring_goes_on_behind_a_place_that_was_given_back() {
        let mut state = state();
        reserve(&mut state, 1).unwrap();
        state.filled();
        let moves = state.moves;
        let given_back = reserve(&mut state, 2).unwrap();
        state.given_back();
        // Who waits for a place looks again.
        assert_ne!(state.moves, moves);
        // What its job was to do has not been done.
        assert_eq!(state.gpu.pipe, None);
        assert_eq!(state.gpu.flushed, NEVER_FLUSHED);
        let next = reserve(&mut state, 3).unwrap();
        state.filled();
        assert_eq!(next.previous_wait, given_back.wait);
        let ended = [1, 2, 3].map(|_| state.pop().map(|done| done.load));
        let ended = ended.map(|job| job.map(|job| (job.payload, job.is_empty, job.flushed)));
        assert_eq!(
            ended,
            [Some((1, false, 5)), Some((2, true, 0)), Some((3, false, 5))]
        );
        // All of the ring is free but the idle loop at its end.
        let largest = Space::largest(USABLE_BYTES);
        assert!(state.find(largest).is_some());
    }
}
