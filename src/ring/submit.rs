// SPDX-License-Identifier: GPL-2.0-only

//! The submission of a job: a place in the ring is reserved, then filled.

use super::{
    complete::Turn,
    frame::Frame,
    history::Noted,
    job::{
        Basis,
        Job,
        RingJob,
        Tables, //
    },
    state::Place,
    Payload,
    Ring,
    RingEnd,
    Source,
    Stream,
    MAX_STATE_WORDS,
    MAX_STREAM_WORDS,
    MAX_WORDS_AFTER_STATES,
    TRAP,
    WAIT_LINK_BYTES, //
};
use crate::{
    log,
    modes::{
        self,
        Mode,
        LINKS, //
    },
    prelude::*,
    stream::words::{
        self,
        Pipes, //
    }, //
};

/// A place in the ring for one job, and the exclusive right to write to the ring. Other submitters
/// wait until [`Ring::fill`] fills it. Until then, preemption is disabled and the thread must not
/// sleep.
///
/// If it is dropped unfilled, the job ends as [`super::Outcome::NeverRun`].
pub(crate) struct Reservation<'r, P: Payload> {
    ring: &'r Arc<Ring<P>>,
    place: Place,
    frame: Frame,
    /// The LINK that ends the context's states. It jumps to the rest of the job.
    return_link: Option<[u32; 2]>,
    /// Other submitters, even real-time ones, wait for this place, so the holder is not preempted.
    /// `None`: filled.
    no_preemption: Option<sys::NoPreemption>,
}

impl<P: Payload> Reservation<'_, P> {
    /// The job's number.
    pub(crate) fn number(&self) -> u64 {
        self.place.number
    }

    /// The LINK that the driver's copy of the context must end with, if the job loads it.
    pub(crate) fn return_link(&self) -> Option<[u32; 2]> {
        self.return_link
    }

    /// Whether the job loads a context: the driver's copy, or states in the client's memory.
    pub(crate) fn loads_context(&self) -> bool {
        self.return_link.is_some() || self.loads_client_states()
    }

    /// Whether the job loads a context that the client keeps in its own memory.
    pub(crate) fn loads_client_states(&self) -> bool {
        self.frame.states.is_some()
    }
}

impl<P: Payload> Drop for Reservation<'_, P> {
    fn drop(&mut self) {
        if self.no_preemption.is_some() {
            self.ring.give_back(self.place);
        }
    }
}

/// The result of an attempt to reserve a place in the ring.
pub(crate) enum Attempt<'r, P: Payload> {
    Reserved(Reservation<'r, P>),
    /// No place is free, or it is not the caller's turn. Wait and retry.
    Unavailable,
    /// The context must be loaded first, but its states have not been prepared.
    NotLoaded,
}

/// Whether `stream` has more words than a job can have.
#[inline(always)]
fn is_too_long(stream: &Stream<'_>) -> bool {
    let (states, max) = match stream.states() {
        Some(states) => (states.words.len(), MAX_WORDS_AFTER_STATES),
        None => (0, MAX_STREAM_WORDS),
    };
    states > MAX_STATE_WORDS || stream.commands.words.len() > max
}

impl<P: Payload> Ring<P> {
    /// Submits a job of the driver, which only flushes the TLB, if needed, and has an event. Returns
    /// its number. `None`: no place is available now. `GpuNotResponding`: the ring is closed.
    pub(crate) fn submit(self: &Arc<Self>) -> Result<Option<u64>> {
        match &mut self.reserve(None, &mut P::default(), &mut self.turn(None))? {
            Attempt::Reserved(place) => self.fill(place, None).map(Some),
            Attempt::Unavailable | Attempt::NotLoaded => Ok(None),
        }
    }

    /// Reserves a place, an event ID and the right to write for a job with `stream` (or none) and
    /// `payload`, if all are available and it is the caller's `turn`, which must be of the
    /// payload's process. Call `turn.wish.note()` first, except for a job of the driver. Does not
    /// wait.
    ///
    /// Assigns the job's number. If the caller holds its tables' lock, memory removed from them
    /// later waits for this job.
    ///
    /// Takes `payload` only if it returns `Reserved`. `InvalidArgument`: the commands exceed
    /// [`MAX_STREAM_WORDS`] ([`MAX_WORDS_AFTER_STATES`] with states), or the states exceed
    /// [`MAX_STATE_WORDS`]. `GpuNotResponding`: the ring is closed.
    pub(crate) fn reserve<'r>(
        self: &'r Arc<Self>,
        stream: Option<&Stream<'_>>,
        payload: &mut P,
        turn: &mut Turn<'_, RingEnd<P>>,
    ) -> Result<Attempt<'r, P>> {
        let states = stream.and_then(Stream::states);
        if stream.is_some_and(is_too_long) {
            return Err(Error::InvalidArgument);
        }
        let commands = stream.map(|stream| &stream.commands);
        let command_bytes = commands.map_or(0, |commands| commands.bytes());
        let mut state = self.state.lock();
        if state.phase.is_stopped() {
            return Err(Error::GpuNotResponding);
        }
        let context = stream.and_then(|stream| stream.context);
        let author = stream.and_then(|stream| stream.author.map(|(author, _)| author));
        let uses = stream.map_or(Pipes::default(), |stream| stream.commands.uses);
        let spoils = modes::is_on_in_path(Mode::Hangs);
        let is_spoiled = spoils && LINKS.is_last(commands.is_some(), state.is_off);
        let (source, continues) = match context {
            Some(context) if is_spoiled || state.front.gpu.needs(context.owner, author, uses) => {
                (context.source, false)
            }
            Some(_) => (Source::Nothing, true),
            None => (Source::Nothing, false),
        };
        if let Source::Unready = source {
            return Ok(Attempt::NotLoaded);
        }
        let uses = source.with_uses(uses);
        let changes = self.front.vm.changes();
        let tables = self
            .front
            .tables_of(turn.wish.account.and_then(|account| account.space));
        // Without commands, any page tables will do.
        let is_other = commands.is_some() && state.front.gpu.tables != Some(tables);
        let flush = (is_other || state.front.gpu.flushed != changes).then_some(tables);
        let frame = Frame::new(&state.front.gpu, stream, source, uses, flush);
        let state_bytes = match (&frame.states, states) {
            (Some(_), Some(states)) => states.bytes(),
            _ => 0,
        };
        let bytes =
            command_bytes + self.event_bytes() + WAIT_LINK_BYTES + frame.bytes() + state_bytes;
        let Some(at) = state.find(bytes, &mut turn.wish) else {
            return Ok(Attempt::Unavailable);
        };
        let context_copy = match source {
            Source::Copy(context, _) => Some(context.clone()),
            _ => None,
        };
        let basis = Basis {
            pipe: state.front.gpu.pipe,
            tables: match (flush, commands) {
                (Some(_), _) => Tables::Loads,
                (None, Some(_)) => Tables::Loaded(tables),
                (None, None) => Tables::Any,
            },
            has_commands: commands.is_some(),
            commands: match commands {
                // CAST: less than `RING_BYTES`.
                Some(_) => (
                    (frame.until_commands() + state_bytes) as u32,
                    command_bytes as u32,
                ),
                None => (0, 0),
            },
            continues,
            load: match source {
                Source::Copy(_, load) => Some(load),
                _ => None,
            },
        };
        let data = match stream {
            Some(Stream {
                author: Some((_, lists)),
                ..
            }) if uses.pipe_2d && !frame.renews_2d() => lists.data.cloned(),
            _ => None,
        };
        let process = turn.wish.account.map_or(0, |account| account.process_id);
        let commands_at = basis.commands;
        let job = Job::new(
            core::mem::take(payload),
            RingJob {
                context: context_copy,
                uses,
                flushed: changes,
                data,
                basis,
            },
        );
        let reserved = state.reserve(at, bytes, &mut turn.wish, job);
        let mut place = reserved.map_err(|job| {
            *payload = job.payload;
            Error::GpuNotResponding
        })?;
        // CAST: less than `RING_BYTES`.
        let (start, length) = (at as u32, bytes as u32);
        state.history.note(Noted {
            number: place.number,
            process,
            start,
            bytes: length,
            own: commands_at,
        });
        if spoils {
            place.is_spoiled = is_spoiled;
            LINKS.count(commands.is_some(), is_spoiled);
        }
        self.trace_submit(&mut state, place, stream);
        state.front.gpu.flushed = changes;
        if flush.is_some() {
            state.front.gpu.tables = flush;
        }
        if let Some(commands) = commands {
            state.front.gpu.pipe = Some(commands.exit);
            state.front.gpu.context = context.map(|context| context.owner);
            state.front.gpu.authors.note(uses, author);
        }
        let return_link = frame.load.is_some().then(|| {
            let until_loaded = frame.until_loaded();
            let target = self.gpu(at + until_loaded);
            // CAST: less than `RING_BYTES`.
            [words::link(target, (bytes - until_loaded) as u32), target]
        });
        Ok(Attempt::Reserved(Reservation {
            ring: self,
            place,
            frame,
            return_link,
            no_preemption: Some(sys::NoPreemption::new()),
        }))
    }

    /// Writes the words of a job and starts it. `stream` must be that of [`Ring::reserve`]. Returns
    /// the job's number. `InvalidArgument`: it is already filled.
    pub(crate) fn fill(
        self: &Arc<Self>,
        reservation: &mut Reservation<'_, P>,
        stream: Option<&Stream<'_>>,
    ) -> Result<u64> {
        let place = reservation.place;
        let Some(no_preemption) = reservation.no_preemption.take() else {
            return Err(Error::InvalidArgument);
        };
        if let Err(error) = self.write(place, &reservation.frame, stream) {
            self.log_unwritten(place, error);
        }
        let mut state = self.state.lock();
        state.mark_filled();
        self.publish(state);
        drop(no_preemption);
        if let (true, Some(stream)) = (modes::is_on_in_path(Mode::Commands), stream) {
            log::print_commands(self.config.core, place.number, &[stream.commands.words]);
        }
        Ok(place.number)
    }

    /// Logs that the words of a job were not written. This cannot happen: every offset was checked
    /// against the ring's size when the place was reserved. The event does not come, so the hang
    /// check resets the core.
    #[cold]
    #[inline(never)]
    fn log_unwritten(&self, place: Place, error: Errno) {
        dev_err!(
            self.hardware.dev,
            "cannot write the words of job {:#x} ({error:?})\n",
            place.number
        );
    }

    /// Fills an abandoned place with only its event, so that the ring continues.
    #[cold]
    #[inline(never)]
    fn give_back(self: &Arc<Self>, place: Place) {
        let event = place.wait - self.event_bytes();
        let target = self.gpu(event);
        // CAST: few bytes.
        let bytes = (self.event_bytes() + WAIT_LINK_BYTES) as u32;
        // The LINK skips the unwritten words. If there are none, the event overwrites it.
        let link = [words::link(target, bytes), target];
        let write = || {
            self.memory.write_words(place.at, &link)?;
            self.write_end(place, event)?;
            self.start_at(place)
        };
        if let Err(error) = write() {
            self.log_unwritten(place, error);
        }
        let mut state = self.state.lock();
        state.mark_given_back();
        self.publish(state);
    }

    pub(super) fn event_bytes(&self) -> usize {
        words::event_len(self.front.event_padding) * 4
    }

    /// Writes a job's words, and links to them.
    #[inline(always)]
    fn write(&self, place: Place, frame: &Frame, stream: Option<&Stream<'_>>) -> Result<(), Errno> {
        let mut at = place.at;
        let emit = |words: &[u32]| -> Result<(), Errno> {
            self.memory.write_words(at, words)?;
            at += core::mem::size_of_val(words);
            Ok(())
        };
        frame.emit(&self.front.caches, stream, emit)?;
        self.write_end(place, at)?;
        self.start_at(place)
    }

    /// Writes a job's event at offset `at`, and the idle loop at its end.
    #[inline(always)]
    fn write_end(&self, place: Place, at: usize) -> Result<(), Errno> {
        let event = words::event(place.event.into());
        self.memory
            .write_words(at, &event[..words::event_len(self.front.event_padding)])?;
        self.memory
            .write_words(place.wait, &words::wait_link(self.gpu(place.wait)))
    }

    /// Links to a job whose words are written.
    #[inline(always)]
    fn start_at(&self, place: Place) -> Result<(), Errno> {
        let (at, bytes) = if modes::is_on_in_path(Mode::Hangs) && place.is_spoiled {
            (TRAP, WAIT_LINK_BYTES)
        } else {
            (place.at, place.wait + WAIT_LINK_BYTES - place.at)
        };
        // The job's words before the LINK: the front end fetches them after it has read the LINK.
        sys::barrier::write();
        let target = self.gpu(at);
        self.memory.write(place.previous_wait + 4, target)?;
        // The target before the command: a front end that reads the LINK must also read its target.
        sys::barrier::write();
        // CAST: less than `RING_BYTES`.
        self.memory
            .write(place.previous_wait, words::link(target, bytes as u32))?;
        // Drains the CPU's write buffers, so that the front end reads the LINK soon.
        sys::barrier::write();
        Ok(())
    }
}
