// SPDX-License-Identifier: GPL-2.0-only

//! Takes the snapshot of a hung core. The work item that writes its dump ([`super::dump`]) is here,
//! too: one run writes all pending snapshots.

use super::{
    dump::{
        Scene,
        Snapshot,
        Span,
        WORK, //
    },
    engine::{
        Engine,
        FrontEnd, //
    },
    inflight::IDS,
    job::Payload,
    Ring,
    START_BYTES,
    USABLE_BYTES,
    WAIT_LINK_BYTES, //
};
use crate::context::{
    Context,
    Load, //
};
use crate::mmu::SpaceId;
use crate::sys::prelude::*;
use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    impl_has_work,
    workqueue::WorkItem, //
};

/// What the state of the ring has about the guilty job.
struct Guilty {
    process: u64,
    space: Option<SpaceId>,
    /// The offset of its commands in the ring, and their size in bytes.
    commands: (usize, usize),
    context: Option<(Arc<Context>, Load)>,
}

impl_has_work! {
    impl{F: FrontEnd} HasWork<Self, { WORK }> for Engine<F> { self.dump_work }
}

impl<F: FrontEnd> WorkItem<{ WORK }> for Engine<F> {
    type Pointer = Arc<Engine<F>>;

    fn run(this: Arc<Engine<F>>) {
        let scene = Scene {
            hardware: &this.hardware,
            core: this.config.core,
            resets: this.resets.load(Relaxed),
            address: this.address,
            bytes: this.memory.size(),
            addressing: F::addressing(&this),
        };
        this.dumps.write_all::<F::Payload>(&scene);
    }
}

impl<P: Payload> Ring<P> {
    pub(super) fn snapshot(&self, has_culprit: bool) -> Result<Snapshot> {
        let registers = self.hardware.dump_registers()?;
        let flags = GFP_NOWAIT | __GFP_NOWARN;
        // The parts of the ring to copy: the offset of each, and its size in bytes.
        let mut parts = KVec::with_capacity(IDS + 2, flags)?;
        let (mut guilty, mut oldest) = (None, (0, 0));
        {
            let state = self.state.lock();
            let mut put = |offset, bytes| {
                // There is room for all jobs.
                let _ = parts.push_within_capacity((offset, bytes));
            };
            put(USABLE_BYTES, START_BYTES);
            put(state.front.rest, WAIT_LINK_BYTES);
            for (age, (event, slot)) in state.jobs.iter().enumerate() {
                let basis = &slot.load.own.basis;
                let is_guilty = has_culprit && age == 0;
                // Other processes' commands are left out.
                if is_guilty || !basis.has_commands {
                    put(slot.start, slot.mark + WAIT_LINK_BYTES - slot.start)
                } else {
                    put(slot.mark, WAIT_LINK_BYTES)
                }
                if age == 0 {
                    oldest = (slot.number, event);
                }
                if is_guilty {
                    let (at, bytes) = basis.commands;
                    guilty = Some(Guilty {
                        process: slot.load.payload.process(),
                        space: slot
                            .load
                            .payload
                            .account()
                            .and_then(|account| account.space),
                        commands: (slot.start + u32_as_usize(at), u32_as_usize(bytes)),
                        context: slot.load.own.context.clone().zip(basis.load),
                    });
                }
            }
        }
        let load = guilty.as_ref().and_then(|guilty| guilty.context.as_ref());
        let bytes: usize = parts.iter().map(|part| part.1).sum();
        let count = bytes / 4 + load.map_or(0, |(_, load)| load.bytes() / 4);
        let mut words = VVec::with_capacity(count, flags)?;
        let mut ring = KVec::with_capacity(parts.len(), flags)?;
        let mut commands = None;
        for &(offset, bytes) in &parts {
            let span = Span {
                address: self.gpu(offset),
                first: words.len(),
                count: bytes / 4,
            };
            ring.push(span, flags)?;
            for at in (offset..offset + bytes).step_by(4) {
                words.push(self.memory.read(at)?, flags)?;
            }
            let Some(guilty) = &guilty else {
                continue;
            };
            let (start, bytes_of) = guilty.commands;
            if (offset..offset + bytes).contains(&start) && bytes_of > 0 && commands.is_none() {
                commands = Some(Span {
                    address: self.gpu(start),
                    first: span.first + (start - offset) / 4,
                    count: bytes_of / 4,
                });
            }
        }
        let context = load.and_then(|(context, load)| {
            let first = words.len();
            words.resize(count, 0, flags).ok()?;
            let span = Span {
                address: load.address(),
                first,
                count: count - first,
            };
            // If a thread holds the context, the snapshot has no context: that thread waits for the
            // GPU, and then changes the states.
            context.copy(*load, words.get_mut(first..)?).ok()?;
            Some(span)
        });
        Ok(Snapshot {
            registers,
            words,
            ring,
            commands,
            context,
            process: guilty.as_ref().map_or(0, |guilty| guilty.process),
            space: guilty.as_ref().and_then(|guilty| guilty.space),
            culprit: None,
            job: oldest,
        })
    }
}
