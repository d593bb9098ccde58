// SPDX-License-Identifier: GPL-2.0-only

//! The dump of a hang: as that of a core with a ring ([`Dumps`](crate::ring::Dumps)), but for what
//! is the evidence: the registers that such a core has, and the words of the job that runs, which
//! is guilty.

use super::{
    Queue,
    BYTES, //
};
use crate::ring::{
    Addressing,
    Evidence,
    Payload,
    Scene, //
};
use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    impl_has_work,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    workqueue::WorkItem, //
};

/// The number of the queue's work that writes it.
pub(super) const WORK: u64 = 1;

impl_has_work! {
    impl{P: Payload} HasWork<Self, { WORK }> for Queue<P> { self.dump_work }
}

impl<P: Payload> WorkItem<{ WORK }> for Queue<P> {
    type Pointer = Arc<Queue<P>>;

    fn run(this: Arc<Queue<P>>) {
        let scene = Scene {
            hardware: &this.hardware,
            core: this.setup.core,
            resets: this.resets.load(Relaxed),
            address: this.address,
            bytes: BYTES,
            addressing: Addressing::Physical(this.setup.base_address),
        };
        this.dumps.write_all::<P>(&scene);
    }
}

impl<P: Payload> Queue<P> {
    /// Takes the evidence, if it is wanted. Nobody starts or ends jobs. Waits for nothing.
    pub(super) fn take_evidence(&self) -> Option<KBox<Evidence>> {
        self.dumps
            .evidence_of::<P>(&self.hardware, || self.evidence())
    }

    fn evidence(&self) -> Result<Evidence> {
        let registers = self.hardware.dump_vector_registers();
        let (job, process, at, count) = {
            let state = self.state.lock();
            let (event, slot) = state.jobs.get(0).ok_or(ENOENT)?;
            // CAST: 32 bits into at least 32.
            let count = 2 * slot.load.units as usize;
            ((slot.number, event), slot.load.process, slot.start, count)
        };
        let flags = GFP_NOWAIT | __GFP_NOWARN;
        let mut words = VVec::with_capacity(count, flags)?;
        for word in 0..count {
            words.push(self.memory.read(at + 4 * word)?, flags)?;
        }
        // CAST: less than `BYTES`. The memory ends below 4 GiB.
        let address = self.address + at as u32;
        Ok(Evidence::of_job(registers, words, address, process, job))
    }

    /// Has the file written by somebody else: see [`crate::ring`].
    pub(super) fn write_dump_later(self: &Arc<Self>, evidence: KBox<Evidence>) {
        self.dumps.write_later::<_, WORK>(evidence, self.clone());
    }

    /// Waits until nobody writes it any more; one that has not begun is not written.
    pub(super) fn dismiss_dump(&self) {
        self.dumps.dismiss(&self.dump_work);
    }
}
