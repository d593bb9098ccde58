// SPDX-License-Identifier: GPL-2.0-only

//! The trace events of jobs. They are recorded under `galcore ring`, so that the submit, the begin
//! and the end of a job come in this order, and a job begins after the one before has ended.

use super::{
    engine::{
        Engine,
        FrontEnd, //
    },
    job::Outcome,
    state::{
        Place,
        State, //
    },
    Payload,
    Ring,
    RingEnd,
    Stream, //
};
use crate::{
    context::Owner,
    stream::words::Pipes,
    sys::trace, //
};

impl Owner {
    /// The number by which traces, and a client that keeps its context itself, know it.
    fn trace_id(self) -> u64 {
        match self {
            Owner::Attached(id) | Owner::Client { id, .. } => id,
        }
    }
}

impl Outcome {
    /// As traces have it.
    pub(crate) fn trace_id(self) -> u32 {
        match self {
            Outcome::Done => 0,
            Outcome::Dropped => 1,
            Outcome::NeverRun => 2,
        }
    }
}

/// The pipes that a job uses, as traces encode them.
fn pipes(uses: Pipes) -> u32 {
    let pipe = |is_used, pipe| if is_used { pipe } else { 0 };
    pipe(uses.pipe_3d, trace::PIPE_3D) | pipe(uses.pipe_2d, trace::PIPE_2D)
}

impl<F: FrontEnd> Engine<F> {
    /// The core's index, as traces encode it.
    pub(crate) fn trace_core(&self) -> u32 {
        // CAST: there are few.
        self.config.core as u32
    }

    /// Job `seqno`, the oldest, has been started.
    #[inline(always)]
    pub(crate) fn trace_start(&self, seqno: u64) {
        trace::Begin::record(|| trace::Begin {
            core: self.trace_core(),
            seqno,
        });
    }

    #[inline(always)]
    pub(super) fn trace_end(&self, seqno: u64, outcome: Outcome) {
        trace::End::record(|| trace::End {
            core: self.trace_core(),
            seqno,
            outcome: outcome.trace_id(),
        });
    }

    /// The core hangs in its oldest job; `is_guilty`: the job's process is charged.
    pub(super) fn trace_hang(&self, is_guilty: bool) {
        trace::Hang::record(|| {
            let state = self.state.lock();
            let (_, slot) = state.jobs.get(0)?;
            Some(trace::Hang {
                core: self.trace_core(),
                seqno: slot.number,
                guilty: if is_guilty {
                    slot.load.payload.process_id()
                } else {
                    0
                },
            })
        });
    }

    /// The core was reset at this attempt; `None`: it was given up.
    pub(super) fn trace_reset(&self, tries: Option<u32>) {
        trace::Reset::record(|| trace::Reset {
            core: self.trace_core(),
            tries: tries.unwrap_or(0),
            ok: tries.is_some(),
        });
    }
}

impl<P: Payload> Ring<P> {
    /// A job with `stream` has got `place`.
    #[inline(always)]
    pub(super) fn trace_submit(
        &self,
        state: &mut State<RingEnd<P>>,
        place: Place,
        stream: Option<&Stream<'_>>,
    ) {
        trace::Submit::record(|| {
            let job = state.jobs.load_at(place.number)?;
            let context = stream.and_then(|stream| stream.context);
            Some(trace::Submit {
                core: self.trace_core(),
                process: job.payload.process_id(),
                context: context.map_or(0, |context| context.owner.trace_id()),
                pipe: pipes(job.own.uses),
                seqno: place.number,
                // CAST: less than `RING_BYTES`.
                words: stream.map_or(0, |stream| stream.commands.words.len() as u32),
                event_id: place.event.into(),
            })
        });
        self.trace_begin(state);
    }

    /// The oldest job may begin now.
    #[inline(always)]
    pub(super) fn trace_begin(&self, state: &mut State<RingEnd<P>>) {
        trace::Begin::record(|| {
            let core = self.trace_core();
            state.begins().map(|seqno| trace::Begin { core, seqno })
        });
    }
}
