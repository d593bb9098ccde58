// SPDX-License-Identifier: GPL-2.0-only

//! What the queue's jobs show in traces, as those of a [ring](crate::ring) do: recorded under
//! `galcore vector`.

use super::{
    state::State,
    Queue,
    Submission, //
};
use crate::{
    ring::{
        Outcome,
        Payload, //
    },
    sys::trace, //
};

impl<P: Payload> Queue<P> {
    /// The core, as traces have it.
    fn trace_core(&self) -> u32 {
        // CAST: there are few.
        self.setup.core as u32
    }

    /// Job `seqno`, with interrupt `id`, has got a place for `work`, in the context with the name
    /// `context`.
    #[inline(always)]
    pub(super) fn trace_submit(
        &self,
        state: &mut State<P>,
        (id, seqno): (u32, u64),
        context: u64,
        work: &Submission<'_, P>,
    ) {
        trace::Submit::record(|| {
            let job = state.jobs.load_at(seqno)?;
            Some(trace::Submit {
                core: self.trace_core(),
                process: job.late.process_id(),
                context,
                pipe: trace::PIPE_VG,
                seqno,
                // CAST: at most `MAX_WORDS`.
                words: work.words.iter().sum::<usize>() as u32,
                event_id: id,
            })
        });
    }

    /// The oldest job has been started.
    #[inline(always)]
    pub(super) fn trace_begin(&self, seqno: u64) {
        trace::Begin::record(|| trace::Begin {
            core: self.trace_core(),
            seqno,
        });
    }

    /// Job `seqno` has ended.
    #[inline(always)]
    pub(super) fn trace_end(&self, seqno: u64, outcome: Outcome) {
        trace::End::record(|| trace::End {
            core: self.trace_core(),
            seqno,
            outcome: outcome.trace_id(),
        });
    }

    /// The core hangs in its oldest job; `is_guilty`: the process that has submitted it pays for
    /// it.
    pub(super) fn trace_hang(&self, is_guilty: bool) {
        trace::Hang::record(|| {
            let state = self.state.lock();
            let (_, slot) = state.jobs.get(0)?;
            Some(trace::Hang {
                core: self.trace_core(),
                seqno: slot.number,
                guilty: match is_guilty {
                    true => slot.load.late.process_id(),
                    false => 0,
                },
            })
        });
    }

    /// The core was reset, and goes on at this try; `None`: it does not.
    pub(super) fn trace_reset(&self, tries: Option<u32>) {
        trace::Reset::record(|| trace::Reset {
            core: self.trace_core(),
            tries: tries.unwrap_or(0),
            ok: tries.is_some(),
        });
    }
}
