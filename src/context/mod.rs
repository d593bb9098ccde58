// SPDX-License-Identifier: GPL-2.0-only

//! Contexts: the 3D states of a client, loaded when its commands follow another client's.
//!
//! A [`Context`] has two copies of a command stream ([`StateMap`]) in its own memory. The copies
//! take turns, so the driver can update one while the GPU reads the other. If another context was
//! loaded last, a COMMIT *switches*: before the client's commands, the ring links to a copy. The
//! client passes changes with each COMMIT as a *delta*: a list of states in its memory. If the
//! generation's deltas have reference counts, a COMMIT that switches notes its delta for both
//! copies, and each copy reads it before its next use. So few deltas wait for a copy. Otherwise the
//! COMMIT that switches reads its delta at once, and the other copy takes over the values
//! ([`Buffers::follow`]) before its next use. `client/client_context` reads deltas.
//!
//! Only [`Buffers`] knows the stream. The ring gets a [`Load`], the address of a copy. It
//! identifies contexts by their [`Owner`]. This includes contexts that clients of the oldest
//! interfaces keep in their own memory (`client/client_context`).
//!
//! # Locks
//!
//! The mutex `galcore context` guards the slot of the [`Buffers`]. A COMMIT takes them before it
//! checks whether it must switch, and returns them when it is in the ring. Others wait
//! interruptibly. The mutex is a leaf, and held briefly. Source: sources.md, contexts.

pub(crate) mod kept;
mod map;
pub(crate) mod scrub;

use crate::{
    memory::{
        Buffer,
        VideoMemory, //
    },
    mmu::{
        AddressSpace,
        Contents, //
    },
    prelude::*,
    stream::{
        addresses::Lookup,
        loaded::Loaded,
        words, //
    },
    sys::vma::Mappable, //
};
use kept::Image;

pub(crate) use map::StateMap;

/// The identity of a context whose states the GPU may have loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A [`Context`], by its number.
    Attached(u64),
    /// A context in a client's own memory. The client chooses the id, so the id is unique only in
    /// its process.
    Client {
        /// The process's number.
        process: u64,
        /// The context's id in that process.
        id: u64,
    },
}

/// Number of copies of a context's stream.
const COPIES: usize = 2;

/// Room for deltas that wait for a copy. At most two do: every second switch uses the copy.
pub(crate) const PENDING: usize = 4;

/// A state's new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The state, a word address.
    pub(crate) address: u32,
    /// The bits that change. 0: all.
    pub(crate) mask: u32,
    /// The new values of these bits.
    pub(crate) data: u32,
}

/// One copy of the stream.
struct Copy {
    buffer: Arc<Buffer>,
    image: Image,
    /// For each state that is an address, the value that the GPU loads. This is the client's value,
    /// or the scratch memory's if that is 0 or no longer names memory of the process.
    live: KVVec<u32>,
    /// The number of changes of the process's addresses at the last check. `None`: not checked.
    changes: Option<u64>,
    /// User addresses of the deltas to read before the next use.
    pending: [u64; PENDING],
    pending_count: usize,
    /// The last job that used it.
    last_use: u64,
}

impl Copy {
    fn new(
        memory: &VideoMemory,
        map: &Arc<StateMap>,
        space: Option<&Arc<AddressSpace>>,
    ) -> Result<Self> {
        let words = &map.template[..];
        let bytes = usize_as_u64(core::mem::size_of_val(words));
        let buffer = memory.allocate_buffer(bytes, Contents::Executed, space)?;
        buffer.memory().write_words(0, words)?;
        let mut live = KVVec::new();
        live.resize(map.addresses.len(), 0, crate::sys::GFP_CLIENT)?;
        Ok(Self {
            buffer,
            image: Image::new(map.clone())?,
            live,
            changes: None,
            pending: [0; PENDING],
            pending_count: 0,
            last_use: 0,
        })
    }

    fn note(&mut self, delta: u64) {
        if self.pending_count == PENDING {
            // Cannot happen. If it did, the oldest delta would matter least.
            self.pending.rotate_left(1);
            self.pending_count -= 1;
        }
        self.pending[self.pending_count] = delta;
        self.pending_count += 1;
    }
}

/// A context's two copies.
pub(crate) struct Buffers {
    copies: [Copy; COPIES],
    /// The copy that the next switch uses.
    next: usize,
}

impl Buffers {
    fn new(
        memory: &VideoMemory,
        map: &Arc<StateMap>,
        space: Option<&Arc<AddressSpace>>,
    ) -> Result<Self> {
        let copy = || Copy::new(memory, map, space);
        Ok(Self {
            copies: [copy()?, copy()?],
            next: 0,
        })
    }

    fn copy(&mut self) -> &mut Copy {
        &mut self.copies[self.next]
    }

    /// The job that must end before the next copy may change. 0: none.
    pub(crate) fn last_use(&mut self) -> u64 {
        self.copy().last_use
    }

    /// The deltas that the next copy has not read, oldest first, and their number.
    pub(crate) fn pending(&mut self) -> ([u64; PENDING], usize) {
        let copy = self.copy();
        (copy.pending, copy.pending_count)
    }

    /// The highest state that a context can keep, plus 1.
    pub(crate) fn state_count(&self) -> usize {
        self.copies[0].image.map.state_count
    }

    /// Applies records of a delta to the next copy. This may be repeated.
    #[inline]
    pub(crate) fn apply(&mut self, records: impl Iterator<Item = Record>) {
        let copy = self.copy();
        let memory = copy.buffer.memory();
        copy.image.apply_all(records, |at, word| {
            // In bounds: the image has the buffer's length.
            let _ = memory.write(at * 4, word);
        });
    }

    /// Copies all values of the copy that was loaded last to the next copy. They include the deltas
    /// that wait for the next copy.
    pub(crate) fn follow(&mut self) {
        let [first, second] = &mut self.copies;
        let (copy, other) = match self.next {
            0 => (first, second),
            _ => (second, first),
        };
        copy.pending_count = 0;
        let memory = copy.buffer.memory();
        copy.image.follow(&other.image, |at, word| {
            // In bounds: the image has the buffer's length.
            let _ = memory.write(at * 4, word);
        });
    }

    /// Sets the number of vertex elements that the next copy loads. 0: no change.
    pub(crate) fn set_element_count(&mut self, count: u32) {
        self.copy().image.set_element_count(count);
    }

    /// Writes the vertex elements of the next copy, if they have changed.
    pub(crate) fn finish_merge(&mut self) {
        let copy = self.copy();
        if core::mem::take(&mut copy.image.elements_changed) {
            let (first, _) = copy.image.map.elements;
            let (block, len) = copy.image.element_words();
            let _ = copy
                .buffer
                .memory()
                .write_words((first - 1) * 4, &block[..len]);
        }
    }

    /// Checks the addresses that the next copy loads, if they or the process's addresses have
    /// changed since the last check. `changes` is the number of changes of the latter. Replaces an
    /// address that is not the process's with that of scratch memory.
    pub(crate) fn check_addresses(&mut self, mut lookup: Lookup<'_>, changes: u64) {
        let copy = self.copy();
        let changed = core::mem::take(&mut copy.image.addresses_changed);
        if !changed && copy.changes == Some(changes) {
            return;
        }
        copy.changes = Some(changes);
        for (slot, live) in copy.image.map.addresses.iter().zip(copy.live.iter_mut()) {
            let wanted = copy.image.words[slot.word];
            let own = lookup.resolve(slot.state, wanted);
            let value = own.unwrap_or_else(|| lookup.scratch(slot.state));
            if *live != value {
                *live = value;
                let _ = copy.buffer.memory().write(slot.word * 4, value);
            }
        }
    }

    /// The value that the next copy loads into `state`. `None`: contexts do not keep it.
    pub(crate) fn value(&mut self, state: u32) -> Option<u32> {
        let copy = self.copy();
        let map = &copy.image.map;
        let slots = map.addresses.iter().zip(&copy.live);
        match slots.into_iter().find(|(slot, _)| slot.state == state) {
            Some((_, &live)) => Some(live),
            None => copy.image.words.get(map.place(state)?).copied(),
        }
    }

    /// Whether the copy that was loaded last has an address that the process no longer owns.
    pub(crate) fn has_strays(&self, mut lookup: Lookup<'_>) -> bool {
        let copy = &self.copies[(self.next + 1) % COPIES];
        let slots = copy.image.map.addresses.iter();
        slots
            .zip(&copy.live)
            .any(|(slot, &live)| live != 0 && lookup.resolve(slot.state, live).is_none())
    }

    /// Notes in `loaded` the addresses of the copy that was loaded last.
    fn leave_to(&self, loaded: &Loaded) {
        let copy = &self.copies[(self.next + 1) % COPIES];
        let slots = copy.image.map.addresses.iter();
        for (slot, &live) in slots.zip(&copy.live) {
            if live != 0 {
                loaded.adopt(slot.state, live);
            }
        }
    }

    /// The GPU address and size of the next copy.
    pub(crate) fn load(&mut self) -> Load {
        let copy = self.copy();
        Load {
            address: copy.buffer.address(),
            // CAST: far less than 4 GiB.
            bytes: copy.image.map.bytes() as u32,
        }
    }

    /// Writes the LINK at the end of the next copy. It leads back to the ring.
    pub(crate) fn set_link(&mut self, link: [u32; 2]) {
        let copy = self.copy();
        let at = copy.image.map.link * 4;
        let _ = copy.buffer.memory().write_words(at, &link);
    }

    /// Notes that job `number` loads the next copy, and makes the other copy the next one.
    pub(crate) fn switched(&mut self, number: u64) {
        let copy = self.copy();
        copy.pending_count = 0;
        copy.last_use = number;
        self.next = (self.next + 1) % COPIES;
    }

    /// Notes a delta, by its user address, for both copies.
    pub(crate) fn attach(&mut self, delta: u64) {
        self.copies.iter_mut().for_each(|copy| copy.note(delta));
    }
}

/// The copy from which the GPU loads a context's states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    address: u32,
    bytes: u32,
}

impl Load {
    /// The LINK to the copy. `from_3d`: the 3D pipe is already selected.
    pub(crate) fn link(self, from_3d: bool) -> [u32; 2] {
        // CAST: 32 bytes.
        let skipped = if from_3d {
            map::ENTRY_FROM_3D as u32
        } else {
            0
        };
        let target = self.address + skipped;
        [words::link(target, self.bytes - skipped), target]
    }

    /// GPU address of the first word.
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// Size of the copy in bytes.
    pub(crate) fn bytes(&self) -> usize {
        u32_as_usize(self.bytes)
    }

    /// Byte offset of GPU address `address` in the copy, if it lies there.
    pub(crate) fn offset_of(&self, address: u32) -> Option<usize> {
        let offset = address.wrapping_sub(self.address);
        (offset < self.bytes).then_some(u32_as_usize(offset))
    }
}

/// The number of the newest context.
static LAST: Atomic<u64> = Atomic::new(0);

/// A new number. Numbers begin with 1, and are never reused.
pub(crate) fn new_number() -> u64 {
    LAST.fetch_add(1, Relaxed) + 1
}

/// A client's context. Each job that loads it holds a reference.
#[pin_data]
pub(crate) struct Context {
    /// Identifies the context in the ring. Numbers are never reused.
    number: u64,
    /// The place of the core whose states it keeps.
    core: usize,
    /// The states that it keeps.
    map: Arc<StateMap>,
    /// `None` while another thread has them.
    #[pin]
    buffers: Mutex<Option<KBox<Buffers>>>,
    #[pin]
    back: CondVar,
}

impl Context {
    /// A context of the core at place `core`, with the values after a reset, for a process with the
    /// MMU tables `space`. `OutOfMemory`.
    pub(crate) fn new(
        memory: &VideoMemory,
        core: usize,
        map: &Arc<StateMap>,
        space: Option<&Arc<AddressSpace>>,
    ) -> Result<Arc<Self>> {
        let buffers = Buffers::new(memory, map, space)?;
        let buffers = KBox::new(buffers, crate::sys::GFP_CLIENT)?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                number: new_number(),
                core,
                map: map.clone(),
                buffers <- new_mutex!(Some(buffers), "galcore context"),
                back <- new_condvar!("galcore context"),
            }),
            crate::sys::GFP_CLIENT,
        )?)
    }

    /// Identifies the context in the ring.
    pub(crate) fn owner(&self) -> Owner {
        Owner::Attached(self.number)
    }

    /// The place of its core.
    pub(crate) fn core(&self) -> usize {
        self.core
    }

    /// Whether the copy that was loaded last may have an address that the process no longer owns.
    pub(crate) fn may_have_strays(&self, lookup: Lookup<'_>) -> bool {
        let buffers = self.buffers.lock();
        // A thread that has the buffers may be loading a copy.
        buffers
            .as_ref()
            .is_none_or(|buffers| buffers.has_strays(lookup))
    }

    /// Whether it has the same list of kept states as `other`.
    pub(crate) fn keeps_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.map, &other.map)
    }

    /// Notes in `loaded` the addresses of the copy that was loaded last.
    pub(crate) fn leave_to(&self, loaded: &Loaded) {
        match self.buffers.lock().as_ref() {
            Some(buffers) => buffers.leave_to(loaded),
            // A thread that has the buffers may be loading a copy.
            None => loaded.mark_unsure(),
        }
    }

    /// Copies the words of the copy `load` to `to`. Does not wait. `EBUSY`: another thread has the
    /// buffers or the lock.
    pub(crate) fn copy(&self, load: Load, to: &mut [u32]) -> kernel::error::Result {
        let buffers = self.buffers.try_lock().ok_or(EBUSY)?;
        let mut copies = buffers.as_ref().ok_or(EBUSY)?.copies.iter();
        let copy = copies.find(|copy| copy.buffer.address() == load.address);
        let memory = copy.ok_or(EINVAL)?.buffer.memory();
        for (at, word) in to.iter_mut().enumerate() {
            *word = memory.read(at * 4)?;
        }
        Ok(())
    }

    /// Waits until no other thread has the buffers, and takes them. `Interrupted`: a Unix signal
    /// interrupts the wait.
    pub(crate) fn hold(self: Arc<Self>) -> Result<Hold> {
        let mut buffers = self.buffers.lock();
        loop {
            if let Some(taken) = buffers.take() {
                drop(buffers);
                return Ok(Hold {
                    context: self,
                    buffers: Some(taken),
                });
            }
            if self.back.wait_interruptible(&mut buffers) {
                // This thread may have consumed the notification without taking: pass it on.
                self.back.notify_one();
                return Err(Error::Interrupted);
            }
        }
    }
}

/// Exclusive access to a context's buffers.
pub(crate) struct Hold {
    context: Arc<Context>,
    /// `None` only during a drop.
    buffers: Option<KBox<Buffers>>,
}

impl Hold {
    /// The context whose buffers these are.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Its buffers.
    pub(crate) fn buffers(&mut self) -> Option<&mut Buffers> {
        self.buffers.as_deref_mut()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        *self.context.buffers.lock() = self.buffers.take();
        self.context.back.notify_one();
    }
}
