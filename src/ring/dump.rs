// SPDX-License-Identifier: GPL-2.0-only

//! The dump of a hang: what the core was doing.
//!
//! The *snapshot* is what the reset destroys: the registers, the ring's words of the guilty job and
//! of the driver's jobs, and the states of the context that the guilty job loads. It is small, and
//! taken while the core is stopped. A work item of its own writes the *file*, as its time depends
//! on the guilty process: the snapshot, the MMU's tables, and the memory that the guilty commands
//! name, as far as the parameter `stuckDump` allows. Other processes' words in the ring are left
//! out.
//!
//! If memory is not free at once, there is no dump, and a line says so. A core has [`SLOTS`] dumps
//! at most, one for each process: a process that hangs it again replaces its dump, once in
//! [`INTERVAL`] at most. [`choose`] says which dump is replaced when all slots are taken. The
//! format is that of etnaviv.
//!
//! All kinds of cores share this. [`super::snapshot`] takes the snapshot of a ring.

mod file;

use super::job::{
    Culprit,
    Payload, //
};
use crate::{
    hw::{
        Hardware,
        RegisterDump, //
    },
    mmu::{
        SpaceId,
        Vm, //
    },
    sys::{
        self,
        coredump::{
            self,
            Stand, //
        },
        prelude::*, //
    }, //
};
use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    workqueue::{
        RawWorkItem,
        Work, //
    }, //
};

/// The least time between two dumps that a process causes on a core, in milliseconds.
const INTERVAL: u32 = 10_000;

/// The most dumps of a core at once.
const SLOTS: usize = 3;

/// How long the kernel keeps a dump, in milliseconds.
const SHOWN: u32 = 300_000;

/// The most pieces of memory in a dump.
pub(crate) const MAX_PIECES: usize = 64;

/// The id of the engine's work item that writes dumps.
pub(super) const WORK: u64 = 1;

/// A part of the snapshot's words.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    /// GPU address of the first word.
    pub(super) address: u32,
    /// Index of the first word among the snapshot's words, and their number.
    pub(super) first: usize,
    pub(super) count: usize,
}

/// What a reset takes away.
pub(crate) struct Snapshot {
    pub(super) registers: RegisterDump,
    /// Words of the memory for jobs, part after part, then of the context.
    pub(super) words: VVec<u32>,
    pub(super) ring: KVec<Span>,
    pub(super) commands: Option<Span>,
    pub(super) context: Option<Span>,
    /// The number of the guilty process; 0: none.
    pub(super) process: u64,
    /// Its own tables of the MMU.
    pub(super) space: Option<SpaceId>,
    pub(super) culprit: Option<Culprit>,
    /// Number and event id of the oldest job.
    pub(super) job: (u64, u32),
}

impl Snapshot {
    /// The snapshot of a core without a ring: the `words` of job `job` (number, event id), at
    /// `address`, of process number `process`.
    pub(crate) fn of_job(
        registers: RegisterDump,
        words: VVec<u32>,
        address: u32,
        process: u64,
        job: (u64, u32),
    ) -> Result<Self> {
        let span = Span {
            address,
            first: 0,
            count: words.len(),
        };
        let mut ring = KVec::new();
        ring.push(span, GFP_NOWAIT | __GFP_NOWARN)?;
        Ok(Self {
            registers,
            words,
            ring,
            commands: Some(span),
            context: None,
            process,
            space: None,
            culprit: None,
            job,
        })
    }

    fn words_of(&self, span: Span) -> &[u32] {
        let end = span.first.saturating_add(span.count);
        self.words.get(span.first..end).unwrap_or(&[])
    }
}

type Outcome<T = ()> = Result<T, kernel::error::Error>;

/// A core that has hung.
pub(crate) struct Scene<'a> {
    pub(crate) hardware: &'a Hardware,
    /// Index among the device's cores.
    pub(crate) core: usize,
    pub(crate) resets: u32,
    /// The memory for jobs: its address for the core, and bytes.
    pub(crate) address: u32,
    pub(crate) bytes: usize,
    pub(crate) addressing: Addressing<'a>,
}

/// What the addresses in the commands of a core are.
#[derive(Clone, Copy)]
pub(crate) enum Addressing<'a> {
    /// Virtual: the MMU translates them.
    Translated(&'a Vm),
    /// Physical: GPU address 0 is this address.
    Physical(u32),
}

impl Addressing<'_> {
    fn base(self) -> Option<u32> {
        match self {
            Addressing::Translated(_) => None,
            Addressing::Physical(base) => Some(base),
        }
    }
}

/// The number of the process that caused a dump, and its user. Without a process it is 0, and has
/// no user.
type Owner = (u64, Option<u32>);

struct Slot {
    owner: Owner,
    /// When its snapshot was taken, in jiffies.
    since: usize,
    /// Not written yet.
    snapshot: Option<KBox<Snapshot>>,
}

/// The slot for a dump of `new`, where each of `taken` has an owner and an age in jiffies: the slot
/// of the same process; else a free one, or one older than `shown`, as the kernel has dropped that;
/// else the oldest of the user with the most dumps, so that one user's dumps do not hide another's.
fn choose(taken: &[Option<(Owner, usize)>; SLOTS], new: Owner, shown: usize) -> usize {
    let is_free = |slot: &Option<(Owner, usize)>| slot.is_none_or(|(_, age)| age >= shown);
    let own = |slot: &Option<(Owner, usize)>| slot.is_some_and(|(owner, _)| owner.0 == new.0);
    if let Some(slot) = taken.iter().position(own) {
        return slot;
    }
    if let Some(slot) = taken.iter().position(is_free) {
        return slot;
    }
    let count = |user: Option<u32>| {
        let all = taken.iter().flatten();
        // The new one included.
        let others = all.filter(|(owner, _)| owner.1 == user).count();
        others + usize::from(user == new.1)
    };
    let all = taken.iter().enumerate();
    let which = all.max_by_key(|(_, slot)| slot.map(|(owner, age)| (count(owner.1), age)));
    which.map_or(0, |(slot, _)| slot)
}

fn ticks(milliseconds: u32) -> usize {
    msecs_to_jiffies(milliseconds)
}

/// The dumps of one core.
#[pin_data]
pub(crate) struct Dumps {
    /// The parameter `stuckDump`; 0: no dumps.
    level: u32,
    #[pin]
    slots: Mutex<[Option<Slot>; SLOTS]>,
    /// Devices that show the dumps from the second on; the core's own device shows the first.
    #[pin]
    extra: Mutex<[Option<Stand>; SLOTS]>,
}

impl Dumps {
    /// No dumps yet. `level`: the parameter `stuckDump`.
    pub(crate) fn new(level: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            level,
            slots <- new_mutex!([const { None }; SLOTS], "galcore snapshot"),
            extra <- new_mutex!([const { None }; SLOTS], "galcore dumps"),
        })
    }

    /// Takes the snapshot if a dump is due.
    pub(crate) fn snapshot_of<P: Payload>(
        &self,
        hardware: &Hardware,
        take: impl FnOnce() -> Result<Snapshot, kernel::error::Error>,
    ) -> Option<KBox<Snapshot>> {
        if self.level == 0 || !coredump::is_possible() {
            return None;
        }
        let flags = GFP_NOWAIT | __GFP_NOWARN;
        let kept = take().and_then(|snapshot| Ok(KBox::new(snapshot, flags)?));
        let mut snapshot = kept.inspect_err(|_| tell_no_memory(hardware)).ok()?;
        // Now, as the process may be forgotten when the dump is written.
        snapshot.culprit = P::culprit(snapshot.process);
        self.is_due(snapshot.process).then_some(snapshot)
    }

    /// Whether this process has caused no dump for [`INTERVAL`].
    fn is_due(&self, process: u64) -> bool {
        let now = sys::jiffies();
        let slots = self.slots.lock();
        let mut own = slots
            .iter()
            .flatten()
            .filter(|slot| slot.owner.0 == process);
        own.all(|slot| now.wrapping_sub(slot.since) >= ticks(INTERVAL))
    }

    /// Stores the snapshot for `writer`'s work item, and queues that. An earlier snapshot in the slot
    /// is dropped.
    pub(crate) fn write_later<W, const ID: u64>(&self, snapshot: KBox<Snapshot>, writer: W)
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        let culprit = snapshot.culprit.as_ref();
        let owner = (snapshot.process, culprit.map(|culprit| culprit.user));
        let now = sys::jiffies();
        let new = Slot {
            owner,
            since: now,
            snapshot: Some(snapshot),
        };
        let earlier = {
            let mut slots = self.slots.lock();
            let taken = slots.each_ref().map(|slot| {
                let slot = slot.as_ref();
                slot.map(|slot| (slot.owner, now.wrapping_sub(slot.since)))
            });
            let slot = choose(&taken, owner, ticks(SHOWN));
            slots.get_mut(slot).and_then(|slot| slot.replace(new))
        };
        drop(earlier);
        sys::work::enqueue(writer);
    }

    /// Waits until `work` writes no dump; those that it has not begun are dropped.
    pub(crate) fn dismiss<T: ?Sized, const ID: u64>(&self, work: &Work<T, ID>) {
        for slot in 0..SLOTS {
            drop(self.take(slot));
        }
        sys::work::flush_one(work);
        let extra = core::mem::replace(&mut *self.extra.lock(), [const { None }; SLOTS]);
        drop(extra);
    }

    /// The snapshot to write in this slot.
    fn take(&self, slot: usize) -> Option<KBox<Snapshot>> {
        let mut slots = self.slots.lock();
        slots.get_mut(slot)?.as_mut()?.snapshot.take()
    }

    /// Writes the files that are due, and publishes them. No lock is held. Memory is not waited
    /// for.
    pub(crate) fn write_all<P: Payload>(&self, scene: &Scene<'_>) {
        for slot in 0..SLOTS {
            if let Some(snapshot) = self.take(slot) {
                self.write::<P>(scene, &snapshot, slot);
            }
        }
    }

    fn show(&self, scene: &Scene<'_>, slot: usize, file: coredump::File, bytes: usize) -> Outcome {
        let own = &scene.hardware.dev;
        let mut extra = self.extra.lock();
        match extra.get_mut(slot) {
            Some(stand) if slot > 0 => {
                let stand = match stand {
                    Some(stand) => stand,
                    None => stand.insert(Stand::new(own, scene.core, slot)?),
                };
                file.publish(stand.device(), bytes);
            }
            _ => file.publish(own, bytes),
        }
        Ok(())
    }

    fn write<P: Payload>(&self, scene: &Scene<'_>, snapshot: &Snapshot, slot: usize) {
        let spans = [snapshot.commands, snapshot.context];
        let none: &[u32] = &[];
        let words = spans.map(|span| span.map_or(none, |span| snapshot.words_of(span)));
        let named = match snapshot.process {
            0 => None,
            process => P::named_by(process, &words, scene.addressing.base()),
        };
        let shown = self
            .assemble(scene, snapshot, spans, named.as_ref())
            .and_then(|(file, bytes)| {
                self.show(scene, slot, file, bytes)?;
                // CAST: at most 4 GiB.
                let kib = (bytes / 1024) as u32;
                dev_info!(
                    scene.hardware.dev,
                    "what the GPU was doing: a dump of {kib} KiB in /sys/class/devcoredump\n"
                );
                Ok(())
            });
        if shown.is_err() {
            tell_no_memory(scene.hardware);
        }
    }
}

fn tell_no_memory(hardware: &Hardware) {
    dev_warn!(
        hardware.dev,
        "no memory for a dump of what the GPU was doing\n"
    );
}

#[kunit_tests(galcore_dump)]
mod tests {
    use super::*;

    #[test]
    fn one_user_hides_no_other_ones_dumps() {
        let (a, b) = (Some(1000), Some(1001));
        let mut taken = [None; SLOTS];
        assert_eq!(choose(&taken, (1, a), 100), 0);
        taken[0] = Some(((1, a), 30));
        assert_eq!(choose(&taken, (2, a), 100), 1);
        // The same process's is replaced.
        assert_eq!(choose(&taken, (1, a), 100), 0);
        taken[1] = Some(((2, a), 20));
        taken[2] = Some(((3, b), 50));
        assert_eq!(choose(&taken, (4, a), 100), 0);
        taken[0] = Some(((4, a), 10));
        assert_eq!(choose(&taken, (5, a), 100), 1);
        // Another one of a user who has one takes the place of the other's oldest, or of its own.
        assert_eq!(choose(&taken, (6, Some(0)), 100), 1);
        assert_eq!(choose(&taken, (6, b), 100), 2);
        // What the kernel has forgotten is free.
        assert_eq!(choose(&taken, (5, a), 50), 2);
    }
}
