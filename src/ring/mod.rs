// SPDX-License-Identifier: GPL-2.0-only

//! The command stream: its words, the check of a client's, its contexts, and the ring that the front end
//! runs.
//!
//! # The ring
//!
//! One piece of coherent memory. At its end the front end idles in a WAIT and a LINK back to it. A
//! submission is written behind it (what makes the GPU forget another process's addresses, a LINK to the
//! client's context and back if another's is loaded, or the states of a context that the client keeps
//! itself, a pipe switch if one is due, the client's checked words, an event, a new WAIT and LINK), and then the old WAIT becomes a LINK to it: first the
//! target, a barrier, then the opcode. So a client's words run from the kernel's memory, never from its
//! own.
//!
//! # Addresses that stay in the GPU
//!
//! The ring knows for each pipe whose commands were the last to use it ([`Author`]). If another author's
//! come, the states that take addresses are loaded with harmless ones in front ([`scrub`]), and the context
//! is loaded anew. When a process has freed memory, those of its states that hold addresses there, and no
//! others ([`loaded`]), are loaded with harmless ones in front of its next commands.
//!
//! # Interrupts that do not come
//!
//! While submissions are under way a watchdog looks every [`WATCH_PERIOD`]. If none has ended since it
//! looked last, it takes raised events itself, and reads where the front end is: behind the kernel's
//! drain a position is proof. So an interrupt that is lost costs two periods at most.
//!
//! # Locks
//!
//! `galcore completion` lets one thread at a time end submissions: the interrupt's or the watchdog's.
//! Their actions run under it, so it comes before all that actions take.
//!
//! `galcore ring` ([`Ring::state`]) is a spinlock, as are all locks that the interrupt's thread takes and clients
//! too: a thread of low priority that is preempted while it has one would hold up everybody. It is held for moments only. Who writes to the ring holds the `writing` flag in it,
//! for which others wait interruptibly. Nothing is locked under it but the allocator.

mod inflight;
mod reclaim;
mod space;
mod surround;

use crate::{
    client::action::{
        Action,
        Actions,
        Load as Carried, //
    },
    context::{
        Context,
        Load,
        Owner, //
    },
    error::{
        Error,
        Result, //
    },
    hw::{
        Hardware,
        MmuVersion, //
    },
    stream::{
        checker::Engines,
        scrub::{
            self,
            Author,
            Authors,
            Lists,
            Scrub,
            Wipe,
            PIPES, //
        },
        words::{
            self,
            Pipe, //
        }, //
    },
    sys::{
        self,
        dma::DmaBuffer, //
    }, //
};
use inflight::{
    InFlight,
    IDS, //
};
use kernel::{
    device, impl_has_delayed_work, impl_has_work,
    list::List,
    new_delayed_work, new_work,
    prelude::*,
    sync::{
        lock::{
            spinlock::SpinLockBackend,
            Guard, //
        },
        new_condvar,
        new_mutex,
        new_spinlock,
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta,
        Jiffies, //
    },
    workqueue::{
        DelayedWork,
        Work,
        WorkItem, //
    },
};
use space::Space;
use surround::{
    bytes_if,
    Surround, //
};

pub(crate) use reclaim::{
    Retired,
    Shown, //
};

/// Bytes of the ring's memory.
const RING_BYTES: usize = 1 << 20;

/// Bytes at the end that the front end may prefetch but that hold no command.
const PREFETCH_MARGIN: usize = 64;

/// Bytes of the ring that hold commands.
const USABLE_BYTES: usize = RING_BYTES - PREFETCH_MARGIN;

/// Bytes of the idle loop.
const WAIT_LINK_BYTES: usize = 16;

/// Bytes around a client's words at most: MMU flush, scrub of both pipes, LINK to a context, pipe switch, stall, drain,
/// event, idle loop.
const FRAME_BYTES: usize = 4
    * (words::FLUSH_MMU_WORDS
        + PIPES * words::SELECT_PIPE_WORDS
        + scrub::MAX_WORDS
        + words::LINK_WORDS
        + words::EVENT_WORDS)
    + Surround::MAX_BYTES
    + WAIT_LINK_BYTES;

/// The most words of a client's in one submission.
pub(crate) const MAX_STREAM_WORDS: usize = (Space::largest(USABLE_BYTES) - FRAME_BYTES) / 4;

/// The most words of the states of a context in a client's memory: 64 KiB.
pub(crate) const MAX_STATE_WORDS: usize = 64 * 1024 / 4;

/// The most words of a client's in one submission that may have such a context in front.
pub(crate) const MAX_WORDS_BEHIND_STATES: usize =
    MAX_STREAM_WORDS - MAX_STATE_WORDS - Surround::MAX_BYTES / 4;

/// How long a submitter waits without any progress of the GPU, in milliseconds (`gcdGPU_TIMEOUT` of
/// the 4.6.9 driver).
pub(crate) const GPU_TIMEOUT: u32 = 20_000;

/// How often the watchdog looks while submissions are under way, in milliseconds.
const WATCH_PERIOD: u32 = 100;

/// Looks without any progress after which the GPU is said to hang.
const HANG_LOOKS: u32 = GPU_TIMEOUT / WATCH_PERIOD;

/// The most actions that an emptied list which is kept for the next submission has room for.
const SPARE_ROOM: usize = 16;

/// A client's checked words.
#[derive(Clone, Copy)]
pub(crate) struct Checked<'a> {
    /// The words.
    pub(crate) words: &'a [u32],
    /// The pipe that they need selected at their start.
    pub(crate) entry: Pipe,
    /// The pipe that they leave selected.
    pub(crate) exit: Pipe,
    /// They leave the semaphore from the front end to the pixel engine armed.
    pub(crate) armed: bool,
    /// The engines that they use.
    pub(crate) uses: Engines,
}

impl Checked<'_> {
    /// Bytes that they take up: whole units of 8.
    fn bytes(&self) -> usize {
        self.words.len().next_multiple_of(2) * 4
    }
}

/// A client's commands.
#[derive(Clone, Copy)]
pub(crate) struct Stream<'a> {
    /// The commands themselves.
    pub(crate) commands: Checked<'a>,
    /// The context that they are to run in; `None`: whatever is loaded.
    pub(crate) context: Option<InContext<'a>>,
    /// Whose they are, and what makes the GPU forget another author's addresses; `None`: addresses are
    /// not looked at, so there is nothing to be gained.
    pub(crate) author: Option<(Author, &'a Scrub)>,
    /// By pipe, words that make the GPU forget those of the author's own addresses that are freed.
    pub(crate) stale: [&'a [u32]; PIPES],
}

impl<'a> Stream<'a> {
    /// The states of the client's own context, if they have been made ready.
    fn states(&self) -> Option<Checked<'a>> {
        match self.context?.source {
            Source::Words(states) => Some(states),
            _ => None,
        }
    }
}

/// A context as the ring sees it.
#[derive(Clone, Copy)]
pub(crate) struct InContext<'a> {
    /// Which.
    pub(crate) owner: Owner,
    /// Where its states come from, if another's are loaded.
    pub(crate) source: Source<'a>,
}

/// Where the states of a context come from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// They have not been made ready.
    Unready,
    /// There are none: the commands are the first of a context in the client's memory.
    Nothing,
    /// Memory of the kernel's, which the GPU goes to.
    Copy(&'a Arc<Context>, Load),
    /// Words that go in front of the commands.
    Words(Checked<'a>),
}

impl Source<'_> {
    /// The pipe that its states need at their start, if it has any.
    fn entry(&self) -> Option<Pipe> {
        match self {
            Source::Unready | Source::Nothing => None,
            Source::Copy(..) => Some(Pipe::Pipe3d),
            Source::Words(states) => Some(states.entry),
        }
    }

    /// `uses` of the commands, and those of these states.
    fn with_uses(&self, mut uses: Engines) -> Engines {
        match self {
            Source::Unready | Source::Nothing => {}
            Source::Copy(..) => uses.pipe_3d = true,
            Source::Words(states) => {
                uses.pipe_3d |= states.uses.pipe_3d;
                uses.pipe_2d |= states.uses.pipe_2d;
            }
        }
        uses
    }
}

struct State {
    space: Space,
    /// Offset of the WAIT at the ring's end.
    wait: usize,
    /// The pipe after all submissions; `None` after a reset.
    pipe: Option<Pipe>,
    /// The context whose states are loaded after all submissions; `None` after a reset, and after
    /// commands without a context.
    context: Option<Owner>,
    /// Whose addresses the GPU may hold after all submissions.
    authors: Authors,
    /// Somebody writes to the ring.
    writing: bool,
    /// How often something has changed that submitters wait for.
    moves: u64,
    /// The next submission is to flush the MMU's translations.
    flush: bool,
    /// No more submissions.
    stopped: bool,
    /// The front end has stopped for good.
    dead: bool,
    /// What is to be hidden, or dropped, by the work item.
    reclaims: List<Retired>,
    /// How many have been put there, and how many have been dealt with.
    reclaims_begun: u64,
    reclaims_ended: u64,
    /// Processes that have begun to end, and have not ended.
    endings: usize,
    in_flight: InFlight<Carried>,
    /// Emptied lists of actions, to be filled again; as many as there is room for.
    spares: KVVec<Actions>,
    /// Threads that wait for something to move.
    waiters: usize,
    completed: u64,
    /// The watchdog is queued.
    watched: bool,
    /// What `completed` was when the watchdog looked last.
    last_seen: u64,
    /// Looks without progress since.
    idle_looks: u32,
}

impl State {
    /// Takes over what a submission that has ended kept.
    fn take_retired(&mut self, load: &mut Carried) {
        self.reclaims_begun += load.retired_count;
        load.retired_count = 0;
        self.reclaims.push_all_back(&mut load.retired);
    }
}

/// The ring of one core.
#[pin_data]
pub(crate) struct Ring {
    memory: DmaBuffer,
    /// GPU address of the memory.
    address: u32,
    event_padding: bool,
    /// Bits of the caches that the core's engines have.
    caches: u32,
    mmu: MmuVersion,
    #[pin]
    state: SpinLock<State>,
    #[pin]
    moved: CondVar,
    /// One thread at a time ends submissions.
    #[pin]
    completion: Mutex<()>,
    #[pin]
    watchdog: DelayedWork<Ring>,
    #[pin]
    reclaim_work: Work<Ring, 1>,
    hardware: Arc<Hardware>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Ring { self.watchdog }
}

impl WorkItem for Ring {
    type Pointer = Arc<Ring>;

    fn run(this: Arc<Ring>) {
        if this.look() {
            this.watch_again();
        }
    }
}

impl_has_work! {
    impl HasWork<Self, 1> for Ring { self.reclaim_work }
}

impl WorkItem<1> for Ring {
    type Pointer = Arc<Ring>;

    fn run(this: Arc<Ring>) {
        this.reclaim();
    }
}

/// How long a submitter goes on waiting for its place.
pub(crate) struct Patience {
    /// What [`State::moves`] was before the last try.
    moves: u64,
    completed: u64,
    left: Jiffies,
}

/// What stands around the words of a submission.
struct Frame {
    /// The MMU's translations are flushed.
    flush: bool,
    /// What makes the GPU forget addresses, in this order.
    wipes: [Option<Wipe>; PIPES],
    /// LINK to the context's states.
    load: Option<[u32; words::LINK_WORDS]>,
    /// Around the states that are in front of the commands, if they are.
    states: Option<Surround>,
    /// Around the commands, if there are any.
    commands: Option<Surround>,
}

impl Frame {
    /// Bytes before the place where the GPU goes on when it has loaded a context.
    fn until_loaded(&self) -> usize {
        let wipes = self.wipes.iter().flatten();
        bytes_if(self.flush, words::FLUSH_MMU_WORDS)
            + wipes.map(|wipe| wipe.words * 4).sum::<usize>()
            + bytes_if(self.load.is_some(), words::LINK_WORDS)
    }

    /// Bytes of it, without the client's words.
    fn bytes(&self) -> usize {
        let around = [&self.states, &self.commands].into_iter().flatten();
        self.until_loaded() + around.map(Surround::bytes).sum::<usize>()
    }
}

/// What a submitter has been given: a place, an id, and the sole right to write to the ring. To be
/// used up by [`Ring::finish`], soon: others wait. As long as it lives the thread must not sleep, and is not
/// preempted.
pub(crate) struct Turn {
    at: usize,
    previous_wait: usize,
    frame: Frame,
    /// LINK back from the context's states.
    back: Option<[u32; 2]>,
    event: u32,
    number: u64,
    /// Others wait until it is used up, whatever their priority.
    _no_preemption: sys::NoPreemption,
}

impl Turn {
    /// The submission's number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// If the context is loaded: the LINK that its states must end with.
    pub(crate) fn back(&self) -> Option<[u32; 2]> {
        self.back
    }

    /// Whether the states of the client's own context are loaded.
    pub(crate) fn loads_states(&self) -> bool {
        self.frame.states.is_some()
    }
}

/// What became of a try to get a place in the ring.
pub(crate) enum Attempt<'a> {
    /// There it is.
    Turn(&'a Turn),
    /// There is none now.
    Full,
    /// The context must be loaded first, and is not ready for that.
    NotLoaded,
}

impl Ring {
    /// Allocates the ring. `ENOMEM`: no memory that the GPU reaches.
    pub(crate) fn new(
        dev: &device::Device,
        base_address: u32,
        event_padding: bool,
        engines: Engines,
        mmu: MmuVersion,
        hardware: Arc<Hardware>,
    ) -> Result<impl PinInit<Self>, kernel::error::Error> {
        let memory = DmaBuffer::new(dev, RING_BYTES)?;
        let spares = KVVec::with_capacity(IDS, GFP_KERNEL)?;
        let address = crate::memory::gpu_address(memory.dma_address(), RING_BYTES, base_address)
            .ok_or(ENOMEM)?;
        Ok(pin_init!(Self {
            memory,
            address,
            event_padding,
            caches: words::caches(engines.pipe_3d, engines.pipe_2d),
            mmu,
            state <- new_spinlock!(State {
                space: Space::new(USABLE_BYTES, WAIT_LINK_BYTES),
                wait: 0,
                pipe: None,
                context: None,
                authors: Authors::default(),
                writing: false,
                moves: 0,
                flush: true,
                stopped: true,
                dead: false,
                reclaims: List::new(),
                reclaims_begun: 0,
                reclaims_ended: 0,
                endings: 0,
                in_flight: InFlight::new(),
                spares,
                waiters: 0,
                completed: 0,
                watched: false,
                last_seen: 0,
                idle_looks: 0,
            }, "galcore ring"),
            moved <- new_condvar!("galcore ring"),
            completion <- new_mutex!((), "galcore completion"),
            watchdog <- new_delayed_work!("galcore watchdog"),
            reclaim_work <- new_work!("galcore reclaim"),
            hardware,
        }))
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.size()
    }

    /// GPU address of the ring's memory.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Puts words that set the core up, and an END, at the ring's start; returns their GPU address and
    /// their length in units of 8 bytes. The front end must be stopped.
    pub(crate) fn stage(&self, words: &[[u32; 10]]) -> Result<(u32, u32), kernel::error::Error> {
        let mut at = 0;
        for words in words {
            self.memory.write_words(at, words)?;
            at += core::mem::size_of_val(words);
        }
        self.memory.write_words(at, &[words::END, 0])?;
        sys::barrier::write();
        // CAST: less than `RING_BYTES`.
        Ok((self.address, (at / 8 + 1) as u32))
    }

    /// Makes an idle loop at the ring's start and opens the ring; returns the loop's GPU address
    /// and its length in units of 8 bytes. The front end must be stopped.
    pub(crate) fn start(&self) -> Result<(u32, u32), kernel::error::Error> {
        self.memory
            .write_words(0, &words::wait_link(self.address))?;
        sys::barrier::write();
        let mut state = self.state.lock();
        state.space = Space::new(USABLE_BYTES, WAIT_LINK_BYTES);
        state.wait = 0;
        state.pipe = None;
        state.context = None;
        state.authors = Authors::default();
        state.flush = true;
        state.stopped = false;
        state.dead = false;
        // CAST: 16 bytes.
        Ok((self.address, (WAIT_LINK_BYTES / 8) as u32))
    }

    /// Asks for a flush of the MMU's translations before whatever is submitted next. Called after
    /// the page table has changed.
    pub(crate) fn request_flush(&self) {
        // The table must be in memory when the flush is.
        sys::barrier::write();
        self.state.lock().flush = true;
    }

    /// Whether the ring takes submissions.
    pub(crate) fn is_running(&self) -> bool {
        !self.state.lock().stopped
    }

    /// Whether the front end has stopped for good, so that it uses no memory any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    /// Lets nobody submit any more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.moves += 1;
        drop(state);
        self.moved.notify_all();
    }

    /// Drops what is under way. The front end must be stopped for good.
    pub(crate) fn abandon(self: &Arc<Self>) {
        self.close();
        loop {
            let Some(done) = self.state.lock().in_flight.pop() else {
                break;
            };
            let mut load = done.load;
            load.actions.drain_all().for_each(Action::run);
            self.state.lock().take_retired(&mut load);
        }
        let mut state = self.state.lock();
        state.completed = state.in_flight.newest();
        state.dead = true;
        drop(state);
        self.queue_reclaim();
        self.moved.notify_all();
    }

    /// Number of the newest submission; 0: none.
    pub(crate) fn newest(&self) -> u64 {
        self.state.lock().in_flight.newest()
    }

    /// GPU address of the idle loop at the ring's end, where the front end rests when all is done.
    pub(crate) fn idle_loop(&self) -> u32 {
        let wait = self.state.lock().wait;
        self.gpu(wait)
    }

    /// GPU address of a byte of the ring.
    fn gpu(&self, offset: usize) -> u32 {
        // CAST: less than `RING_BYTES`. The ring ends below bit 31.
        self.address + offset as u32
    }

    /// Puts an event that runs `actions` at the ring's end; returns the submission's number.
    ///
    /// On error the ring is as it was and `actions` are untouched. `Interrupted`: a Unix signal came
    /// while waiting for a place. `GpuNotResponding`: no place for [`GPU_TIMEOUT`].
    pub(crate) fn submit(self: &Arc<Self>, actions: &mut Actions) -> Result<u64> {
        let mut patience = self.patience();
        loop {
            if let Attempt::Turn(turn) = self.begin(None, actions, None, &mut None)? {
                return self.finish(turn, None);
            }
            self.wait_for_place(&mut patience)?;
        }
    }

    /// What a submitter that has not tried yet needs for [`Ring::wait_for_place`].
    pub(crate) fn patience(&self) -> Patience {
        let state = self.state.lock();
        Patience {
            moves: state.moves,
            completed: state.completed,
            left: msecs_to_jiffies(GPU_TIMEOUT),
        }
    }

    /// Waits until trying again is worth it.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: none ended for [`GPU_TIMEOUT`].
    pub(crate) fn wait_for_place(&self, patience: &mut Patience) -> Result {
        let mut state = self.state.lock();
        while state.moves == patience.moves {
            patience.left = self.wait(&mut state, patience.left)?;
        }
        patience.moves = state.moves;
        if state.completed != patience.completed {
            patience.completed = state.completed;
            patience.left = msecs_to_jiffies(GPU_TIMEOUT);
        }
        Ok(())
    }

    /// Takes the right to write, a place and an event id for `stream` (or nothing) and an event that
    /// runs `actions`, if all three can be had at once. Does not wait.
    ///
    /// What the caller's locks protect when it calls this is so when the submission gets its place in
    /// the order of the ring: whoever ties memory to the newest submission later ties it to this one.
    ///
    /// On error, and when there is no place, nothing has changed. `InvalidArgument`: more than
    /// [`MAX_STREAM_WORDS`], or than [`MAX_STATE_WORDS`] and [`MAX_WORDS_BEHIND_STATES`].
    /// `GpuNotResponding`: the ring is closed.
    ///
    /// `count`, if given, may change the actions once the place is certain. With a context, the actions
    /// must have room for one more: what keeps it until it has been read. `turn` is where the answer is
    /// put, to be moved no more.
    pub(crate) fn begin<'a>(
        &self,
        stream: Option<Stream<'_>>,
        actions: &mut Actions,
        count: Option<&dyn Fn(&mut Actions)>,
        turn: &'a mut Option<Turn>,
    ) -> Result<Attempt<'a>> {
        let states = stream.and_then(|stream| stream.states());
        let most = match states {
            Some(_) => MAX_WORDS_BEHIND_STATES,
            None => MAX_STREAM_WORDS,
        };
        if stream.is_some_and(|stream| stream.commands.words.len() > most)
            || states.is_some_and(|states| states.words.len() > MAX_STATE_WORDS)
        {
            return Err(Error::InvalidArgument);
        }
        let event_words = words::event_len(self.event_padding);
        let commands = stream.map(|stream| stream.commands);
        let command_bytes = commands.map_or(0, |commands| commands.bytes());
        let fixed = command_bytes + event_words * 4 + WAIT_LINK_BYTES;
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::GpuNotResponding);
        }
        let context = stream.and_then(|stream| stream.context);
        let author = stream.and_then(|stream| stream.author);
        let uses = stream.map_or(Engines::default(), |stream| stream.commands.uses);
        let source = match context {
            Some(context)
                if state.context != Some(context.owner)
                    || author.is_some_and(|(author, _)| {
                        uses.pipe_3d && state.authors.are_others(Pipe::Pipe3d, author)
                    }) =>
            {
                context.source
            }
            _ => Source::Nothing,
        };
        if let Source::Unready = source {
            return Ok(Attempt::NotLoaded);
        }
        let uses = source.with_uses(uses);
        let stale = stream.map_or([&[][..]; PIPES], |stream| stream.stale);
        let frame = self.frame(&state, source, commands, author, stale, uses);
        let until_loaded = frame.until_loaded();
        let state_bytes = match (&frame.states, states) {
            (Some(_), Some(states)) => states.bytes(),
            _ => 0,
        };
        let bytes = fixed + frame.bytes() + state_bytes;
        let place = state.space.place(bytes);
        let (false, true, Some(at)) = (state.writing, state.in_flight.has_room(), place) else {
            return Ok(Attempt::Full);
        };
        if let Some(count) = count {
            count(actions);
        }
        if let Source::Copy(context, _) = source {
            // There is room: the caller has seen to it.
            let keep = Action::Keep(context.clone());
            let _ = actions.push_within_capacity(keep);
        }
        let previous_wait = state.wait;
        let wait = at + bytes - WAIT_LINK_BYTES;
        let (event, number) = state
            .in_flight
            .begin(at, wait, Carried::new(core::mem::take(actions)))
            .map_err(|load| {
                *actions = load.actions;
                Error::GpuNotResponding
            })?;
        state.space.take(at, bytes);
        state.wait = wait;
        state.writing = true;
        state.flush = false;
        if let Some(commands) = commands {
            state.pipe = Some(commands.exit);
            state.context = context.map(|context| context.owner);
            state.authors.note(uses, author.map(|(author, _)| author));
        }
        let back = frame.load.map(|_| {
            let target = self.gpu(at + until_loaded);
            // CAST: less than `RING_BYTES`.
            [words::link(target, (bytes - until_loaded) as u32), target]
        });
        Ok(Attempt::Turn(turn.insert(Turn {
            at,
            previous_wait,
            frame,
            back,
            event,
            number,
            _no_preemption: sys::NoPreemption::new(),
        })))
    }

    /// What must stand around `commands` behind all submissions, with states from `source` before them.
    fn frame(
        &self,
        state: &State,
        source: Source<'_>,
        commands: Option<Checked<'_>>,
        author: Option<(Author, &Scrub)>,
        stale: [&[u32]; PIPES],
        uses: Engines,
    ) -> Frame {
        let (mut load, mut around_states, mut pipe) = (None, None, state.pipe);
        let wipes = match (commands, author) {
            (Some(commands), Some((author, scrub))) => {
                let next = source.entry().unwrap_or(commands.entry);
                // Its copy in the kernel's memory has only the process's addresses.
                let has_copy = matches!(source, Source::Copy(..));
                let lists = Lists { scrub, stale };
                let wipes = state.authors.wipes(lists, author, uses, next, has_copy);
                wipes.map(|part| part.map(|part| Wipe::new(part, lists, &mut pipe)))
            }
            _ => [None; PIPES],
        };
        match source {
            Source::Unready | Source::Nothing => {}
            Source::Copy(_, copy) => {
                load = Some(copy.link(pipe == Some(Pipe::Pipe3d)));
                // They leave it so.
                pipe = Some(Pipe::Pipe3d);
            }
            Source::Words(states) => {
                around_states = Some(Surround::new(self.caches, pipe, &states));
                pipe = Some(states.exit);
            }
        }
        Frame {
            flush: state.flush,
            wipes,
            load,
            states: around_states,
            commands: commands.map(|commands| Surround::new(self.caches, pipe, &commands)),
        }
    }

    /// Writes what [`Ring::begin`] has made room for, with the same `stream`, and starts it; returns the
    /// submission's number.
    pub(crate) fn finish(self: &Arc<Self>, turn: &Turn, stream: Option<Stream<'_>>) -> Result<u64> {
        let written = self.write(turn, stream);
        let mut state = self.state.lock();
        state.writing = false;
        state.moves += 1;
        let watch = !core::mem::replace(&mut state.watched, true);
        let waiters = state.waiters > 0;
        drop(state);
        if waiters {
            self.moved.notify_all();
        }
        if watch {
            self.watch_again();
        }
        // Every offset was checked against the ring's size when its place was taken.
        written.map(|()| turn.number).map_err(Error::from)
    }

    /// Waits for something to move, `left` jiffies at most; returns what is left of them.
    fn wait(
        &self,
        state: &mut Guard<'_, State, SpinLockBackend>,
        left: Jiffies,
    ) -> Result<Jiffies> {
        if left == 0 {
            return Err(Error::GpuNotResponding);
        }
        state.waiters += 1;
        let woken = self.moved.wait_interruptible_timeout(state, left);
        state.waiters -= 1;
        match woken {
            CondVarTimeoutResult::Woken { jiffies } => Ok(jiffies),
            CondVarTimeoutResult::Timeout => Ok(0),
            CondVarTimeoutResult::Signal { .. } => Err(Error::Interrupted),
        }
    }

    /// Writes a submission and links it in.
    fn write(&self, turn: &Turn, stream: Option<Stream<'_>>) -> Result<(), kernel::error::Error> {
        let mut at = turn.at;
        let mut emit = |words: &[u32]| -> Result<(), kernel::error::Error> {
            self.memory.write_words(at, words)?;
            at += core::mem::size_of_val(words);
            Ok(())
        };
        let frame = &turn.frame;
        if frame.flush {
            emit(&words::flush_mmu(self.caches, self.mmu))?;
        }
        if let Some((stream, (_, scrub))) = stream.and_then(|stream| Some((stream, stream.author?)))
        {
            let lists = Lists {
                scrub,
                stale: stream.stale,
            };
            for wipe in frame.wipes.iter().flatten() {
                if wipe.switch {
                    emit(&words::select_pipe(self.caches, wipe.part.pipe()))?;
                }
                emit(lists.words(wipe.part))?;
            }
        }
        if let Some(load) = &frame.load {
            emit(load)?;
        }
        let states = stream.and_then(|stream| stream.states());
        let commands = stream.map(|stream| stream.commands);
        for (around, inner) in [(&frame.states, states), (&frame.commands, commands)] {
            if let (Some(around), Some(inner)) = (around, inner) {
                around.emit(inner.words, &mut emit)?;
            }
        }
        emit(&words::event(turn.event)[..words::event_len(self.event_padding)])?;
        let wait = at;
        self.memory
            .write_words(wait, &words::wait_link(self.gpu(wait)))?;
        let bytes = wait + WAIT_LINK_BYTES - turn.at;
        // All of it must be in memory before the front end can be sent there.
        sys::barrier::write();
        let target = self.gpu(turn.at);
        self.memory.write(turn.previous_wait + 4, target)?;
        sys::barrier::write();
        // CAST: less than `RING_BYTES`.
        self.memory
            .write(turn.previous_wait, words::link(target, bytes as u32))?;
        sys::barrier::write();
        Ok(())
    }

    /// Ends the submissions that raised events say are done.
    pub(crate) fn complete(self: &Arc<Self>) {
        let completing = self.completion.lock();
        // Taken under the lock: bits that wait outside could outlive their submissions.
        let fired = self.hardware.take_events();
        let (done, certain) = {
            let state = self.state.lock();
            (state.in_flight.done(fired), state.in_flight.certain(fired))
        };
        // Events come in order. If one before the newest has not, one has been lost, or this one is
        // not true: the front end's place tells.
        let done = if done > certain {
            done.min(certain.max(self.passed()))
        } else {
            done
        };
        self.end_oldest(done);
        drop(completing);
    }

    /// How many submissions, from the oldest, the front end has passed.
    ///
    /// In a submission, those before it are done: their LINK was behind the drain. In its idle loop it
    /// is done too if the modules say that they are idle; the address alone may be a prefetch's.
    fn passed(&self) -> usize {
        let place = self.hardware.position().wrapping_sub(self.address);
        let idle = self.hardware.is_idle();
        // CAST: 32 bits into at least 32.
        let place = place as usize;
        let state = self.state.lock();
        state
            .in_flight
            .position(|start, wait| (start..=wait + WAIT_LINK_BYTES).contains(&place))
            .map_or(0, |(index, wait)| {
                index + usize::from(place >= wait && idle)
            })
    }

    /// Ends the oldest `count` submissions. The caller holds `completion`.
    fn end_oldest(self: &Arc<Self>, count: usize) {
        if count == 0 {
            return;
        }
        let mut state = self.state.lock();
        for _ in 0..count {
            let Some(mut done) = state.in_flight.pop() else {
                break;
            };
            // The front end rests in this submission's idle loop or is past it.
            state.space.free_before(done.mark);
            drop(state);
            done.load.actions.drain_all().for_each(Action::run);
            // A long list is freed here: that may sleep.
            let actions = core::mem::take(&mut done.load.actions);
            let is_spare = (1..=SPARE_ROOM).contains(&actions.capacity());
            let spare = is_spare.then_some(actions);
            state = self.state.lock();
            state.completed = state.completed.max(done.number);
            state.moves += 1;
            state.take_retired(&mut done.load);
            if let Some(actions) = spare {
                // With no room left it is freed: it holds nothing, and is small.
                let _ = state.spares.push_within_capacity(actions);
            }
        }
        let (reclaims, waiters) = (!state.reclaims.is_empty(), state.waiters > 0);
        drop(state);
        if reclaims {
            self.queue_reclaim();
        }
        if waiters {
            self.moved.notify_all();
        }
    }

    /// An empty list of actions, with room of an earlier one's if there is such.
    pub(crate) fn empty_actions(&self) -> Actions {
        self.state.lock().spares.pop().unwrap_or_default()
    }

    /// Queues the watchdog.
    fn watch_again(self: &Arc<Self>) {
        let _ = sys::work::queue()
            .enqueue_delayed::<Arc<Self>, 0>(self.clone(), msecs_to_jiffies(WATCH_PERIOD));
    }

    /// Waits until the watchdog has seen that the ring is closed.
    pub(crate) fn dismiss_watchdog(&self) {
        sys::work::flush_delayed(&self.watchdog);
    }

    /// One look of the watchdog; says whether another is due.
    fn look(self: &Arc<Self>) -> bool {
        {
            let mut state = self.state.lock();
            if state.stopped || state.in_flight.len() == 0 {
                state.watched = false;
                return false;
            }
            let moved = state.completed != state.last_seen;
            state.last_seen = state.completed;
            state.idle_looks = if moved { 0 } else { state.idle_looks + 1 };
            if moved {
                return true;
            }
        }
        self.hardware.acknowledge();
        self.complete();
        let completing = self.completion.lock();
        self.end_oldest(self.passed());
        drop(completing);
        let mut state = self.state.lock();
        if state.completed == state.last_seen && state.idle_looks == HANG_LOOKS {
            drop(state);
            self.hardware.report_hang();
        } else if state.idle_looks > HANG_LOOKS {
            // Said once; no overflow however long it hangs.
            state.idle_looks = HANG_LOOKS + 1;
        }
        true
    }

    /// Waits until submission `number` and its actions are done, `milliseconds` at most.
    pub(crate) fn wait_for(&self, number: u64, milliseconds: u32) -> Result {
        let mut state = self.state.lock();
        let mut left = msecs_to_jiffies(milliseconds).saturating_add(1);
        while state.completed < number {
            if state.stopped {
                return Err(Error::GpuNotResponding);
            }
            left = self.wait(&mut state, left)?;
        }
        Ok(())
    }

    /// Waits until submission `number` and its actions are done, as long as the GPU makes progress.
    ///
    /// `Interrupted`: a Unix signal came. `GpuNotResponding`: none ended for [`GPU_TIMEOUT`].
    pub(crate) fn wait_for_progress(&self, number: u64) -> Result {
        let mut state = self.state.lock();
        let mut left = msecs_to_jiffies(GPU_TIMEOUT);
        while state.completed < number {
            if state.stopped {
                return Err(Error::GpuNotResponding);
            }
            let before = state.completed;
            left = self.wait(&mut state, left)?;
            if state.completed != before {
                left = msecs_to_jiffies(GPU_TIMEOUT);
            }
        }
        Ok(())
    }

    /// Whether submission `number` and its actions are done.
    pub(crate) fn has_ended(&self, number: u64) -> bool {
        self.state.lock().completed >= number
    }

    /// Waits until all that has been submitted is done.
    pub(crate) fn wait_idle(&self, milliseconds: u32) -> Result {
        let newest = self.state.lock().in_flight.newest();
        self.wait_for(newest, milliseconds)
    }

    /// Waits for submission `number` without minding Unix signals; says whether it is done.
    pub(crate) fn poll_for(&self, number: u64, milliseconds: u32) -> bool {
        for _ in 0..milliseconds {
            let state = self.state.lock();
            if state.completed >= number || state.dead {
                return true;
            }
            drop(state);
            fsleep(Delta::from_millis(1));
        }
        false
    }
}
