// SPDX-License-Identifier: GPL-2.0-only

//! Names of the objects that processes pass to each other: nodes ([`super::import`]) and shared
//! buffers.
//!
//! A name is a capability: any process that knows it may import the object. So names are random
//! 31-bit numbers (the vendor's count up), and failed look-ups are rate-limited
//! ([`super::users`]). In all generations, a node's name is a 32-bit field. A shared buffer's id
//! has 64 bits, but a 32-bit client keeps it in a pointer, and the vendor's ids are 32-bit
//! integers. A name lasts while a process or a graphic buffer ([`super::gem`]) holds it.
//! Source: `tests/abi`; generations from 5.0.11 on.
//!
//! SHBUF: small buffers with which processes exchange data about a surface.
//!
//! CREATE returns an id. With MAP, another process that knows the id gets a reference to the
//! buffer. A reference ends by DESTROY or with its process, and the buffer with its last reference.
//! A process with a reference may READ and WRITE. Ids are names, as those of nodes. Source: the
//! vendor's `gc_hal_kernel.c` of 5.0.11, which limits buffers to 1024 bytes. There, all processes
//! have all buffers, and ids count up.
//!
//! Locks: `galcore names`, a leaf; `galcore shared buffer` in each buffer, a leaf. Its holder does
//! not access user space.

use super::{
    users::{
        self,
        Users, //
    },
    Process, //
};
use crate::{
    abi::{
        Reply,
        SharedBuffer, //
    },
    limits::{
        MAX_SHARED_BUFFERS as LIMIT,
        MAX_SHARED_BUFFER_BYTES as MAX_BYTES, //
    },
    prelude::*,
    sys::user, //
};

/// The most attempts to find a free name.
const TRIES: usize = 64;

pub(super) struct Named<T> {
    thing: Arc<T>,
    /// Number of [`Name`]s for it.
    holders: usize,
}

pub(super) struct Registry<T>(RBTree<u32, Named<T>>);

impl<T> Registry<T> {
    /// Adds a thing with one holder, under the first free name that `draw` returns. 0 is no name.
    /// `OutOfResources`: all names drawn are used.
    fn insert(
        &mut self,
        room: RBTreeNodeReservation<u32, Named<T>>,
        thing: Arc<T>,
        mut draw: impl FnMut() -> u32,
    ) -> Result<u32> {
        for _ in 0..TRIES {
            let name = draw();
            if name != 0 && self.0.get(&name).is_none() {
                self.0
                    .insert(room.into_node(name, Named { thing, holders: 1 }));
                return Ok(name);
            }
        }
        Err(Error::OutOfResources)
    }

    /// Adds a holder. `NotFound`: no such name. `OutOfResources`: too many holders.
    fn hold(&mut self, name: u32) -> Result<Arc<T>> {
        let named = self.0.get_mut(&name).ok_or(Error::NotFound)?;
        named.holders = named.holders.checked_add(1).ok_or(Error::OutOfResources)?;
        Ok(named.thing.clone())
    }

    /// Removes a holder. Returns the thing if this was the last one: drop it without the lock.
    fn remove_holder(&mut self, name: u32) -> Option<Arc<T>> {
        let named = self.0.get_mut(&name)?;
        named.holders -= 1;
        match named.holders {
            0 => self.0.remove(&name).map(|named| named.thing),
            _ => None,
        }
    }
}

/// The names of a device's things of one kind.
pub(super) type Names<T> = Mutex<Registry<T>>;

/// An empty registry.
pub(super) fn no_names<T>() -> impl PinInit<Names<T>> {
    new_mutex!(Registry(RBTree::new()), "galcore names")
}

/// A name of a thing. A process that has the thing holds it.
pub(super) struct Name<T> {
    names: Arc<Names<T>>,
    pub(super) number: u32,
}

impl<T> Name<T> {
    /// A new name. `OutOfMemory`. `OutOfResources`: no free name was found.
    pub(super) fn new(names: &Arc<Names<T>>, thing: Arc<T>) -> Result<Self> {
        // 31 bits: clients keep names in signed numbers.
        let draw = || sys::random() & 0x7FFF_FFFF;
        // Without the lock: this reclaims if the process is at the limit of its memory cgroup.
        let room = RBTreeNodeReservation::new(sys::GFP_CLIENT)?;
        let number = names.lock().insert(room, thing, draw)?;
        Ok(Self {
            names: names.clone(),
            number,
        })
    }

    /// Holds an existing name. Also returns its thing. `NotFound`: no such name; the calling user,
    /// one of `users`, pays for this: see [`super::users`]. `Interrupted`. The caller holds no
    /// lock.
    pub(super) fn hold(
        users: &Arc<Users>,
        names: &Arc<Names<T>>,
        number: u32,
    ) -> Result<(Self, Arc<T>)> {
        let thing = users::look_up(users, || names.lock().hold(number))?;
        let names = names.clone();
        Ok((Self { names, number }, thing))
    }

    /// As [`Name::hold`], for a process that has the thing and so does not guess. `NotFound`: the
    /// thing has just ended.
    pub(super) fn hold_own(names: &Arc<Names<T>>, number: u32) -> Result<(Self, Arc<T>)> {
        let thing = names.lock().hold(number)?;
        let names = names.clone();
        Ok((Self { names, number }, thing))
    }
}

impl<T> Drop for Name<T> {
    fn drop(&mut self) {
        let last = self.names.lock().remove_holder(self.number);
        // Without the lock.
        drop(last);
    }
}

struct Content {
    bytes: KVec<u8>,
    is_written: bool,
}

/// A shared buffer.
#[pin_data]
pub(crate) struct Piece {
    #[pin]
    content: Mutex<Content>,
}

/// The buffers of a device.
pub(super) type SharedBuffers = Names<Piece>;

/// A buffer to which a process has references.
pub(super) struct PieceEntry {
    name: Name<Piece>,
    piece: Arc<Piece>,
    /// Number of CREATEs and MAPs, less the DESTROYs.
    references: u32,
}

impl Piece {
    fn new(bytes: usize) -> Result<Arc<Self>> {
        let content = Content {
            bytes: KVec::from_elem(0, bytes, crate::sys::GFP_CLIENT)?,
            is_written: false,
        };
        let piece = pin_init!(Self {
            content <- new_mutex!(content, "galcore shared buffer"),
        });
        Ok(Arc::pin_init(piece, crate::sys::GFP_CLIENT)?)
    }

    /// Copies `bytes` bytes from the caller. `InvalidArgument`: no bytes, or more than fit.
    /// `OutOfResources`: they cannot be read.
    fn write(&self, user: u64, bytes: u32) -> Result {
        let length = u32_as_usize(bytes);
        if user == 0 || length == 0 || length > self.content.lock().bytes.len() {
            return Err(Error::InvalidArgument);
        }
        let copy = user::get_bytes(user, length)?;
        let mut content = self.content.lock();
        for (to, from) in content.bytes.iter_mut().zip(&copy) {
            *to = *from;
        }
        content.is_written = true;
        Ok(())
    }

    /// Copies up to `bytes` bytes to the caller. Returns the number copied. `None`: no data was
    /// written yet. `InvalidArgument`: no bytes. `OutOfResources`: user memory cannot be written.
    fn read(&self, user: u64, bytes: u32) -> Result<Option<u32>> {
        let copy = {
            let content = self.content.lock();
            if !content.is_written {
                return Ok(None);
            }
            let length = content.bytes.len().min(u32_as_usize(bytes));
            let mut copy = KVec::with_capacity(length, crate::sys::GFP_CLIENT)?;
            copy.extend_from_slice(&content.bytes[..length], crate::sys::GFP_CLIENT)?;
            copy
        };
        if copy.is_empty() || user == 0 {
            return Err(Error::InvalidArgument);
        }
        user::put_bytes(user, &copy)?;
        // CAST: at most [`MAX_BYTES`].
        Ok(Some(copy.len() as u32))
    }
}

/// Runs a sub-command. `InvalidArgument`: no such sub-command, or no bytes. `OutOfResources`:
/// too many bytes or buffers. `NotFound`: the process does not have this buffer; for MAP, there
/// is no such buffer.
pub(super) fn run(process: &Process, command: SharedBuffer) -> Result<Reply<'_>> {
    match command {
        SharedBuffer::Create { bytes: 0 } => return Err(Error::InvalidArgument),
        SharedBuffer::Create { bytes } => {
            if u32_as_usize(bytes) > MAX_BYTES {
                return Err(Error::OutOfResources);
            }
            let piece = Piece::new(bytes as usize)?;
            let name = Name::new(&process.clients.shared_buffers, piece.clone())?;
            let id = name.number;
            keep_piece(process, name, piece)?;
            return Ok(Reply::SharedBuffer { id });
        }
        SharedBuffer::Map { id } => {
            let (users, names) = (&process.clients.users, &process.clients.shared_buffers);
            let (name, piece) = Name::hold(users, names, id)?;
            keep_piece(process, name, piece)?;
        }
        SharedBuffer::Destroy { id } => {
            let over = {
                let mut tables = process.tables();
                let at = place_of_piece(&tables.pieces, id).ok_or(Error::NotFound)?;
                let entry = &mut tables.pieces[at];
                entry.references -= 1;
                match entry.references {
                    0 => tables.pieces.remove(at).ok(),
                    _ => None,
                }
            };
            drop(over);
        }
        SharedBuffer::Write { id, user, bytes } => piece(process, id)?.write(user, bytes)?,
        SharedBuffer::Read { id, user, bytes } => {
            let bytes = piece(process, id)?.read(user, bytes)?;
            return Ok(Reply::Copied { bytes });
        }
        SharedBuffer::Unknown => return Err(Error::InvalidArgument),
    }
    Ok(Reply::Nothing)
}

/// Adds a reference of the process to a buffer.
fn keep_piece(process: &Process, name: Name<Piece>, piece: Arc<Piece>) -> Result {
    let mut tables = process.tables();
    if let Some(at) = place_of_piece(&tables.pieces, name.number) {
        let entry = &mut tables.pieces[at];
        let references = entry.references.checked_add(1);
        entry.references = references.ok_or(Error::OutOfResources)?;
        return Ok(());
    }
    if tables.pieces.len() >= LIMIT {
        return Err(Error::OutOfResources);
    }
    // Reserve first: on failure the buffer must not be dropped under the lock.
    tables.pieces.reserve(1, crate::sys::GFP_CLIENT)?;
    let entry = PieceEntry {
        name,
        piece,
        references: 1,
    };
    tables.pieces.push(entry, crate::sys::GFP_CLIENT)?;
    Ok(())
}

/// A buffer of the process and its name, for a caller that keeps both. `NotFound`: the process
/// does not have it.
pub(super) fn hold_piece(process: &Process, id: u32) -> Result<(Name<Piece>, Arc<Piece>)> {
    piece(process, id)?;
    Name::hold_own(&process.clients.shared_buffers, id)
}

fn piece(process: &Process, id: u32) -> Result<Arc<Piece>> {
    let tables = process.tables();
    let at = place_of_piece(&tables.pieces, id).ok_or(Error::NotFound)?;
    Ok(tables.pieces[at].piece.clone())
}

fn place_of_piece(pieces: &[PieceEntry], id: u32) -> Option<usize> {
    pieces.iter().position(|entry| entry.name.number == id)
}

#[kunit_tests(galcore_names)]
mod tests {
    use super::*;

    fn thing() -> Arc<u32> {
        Arc::new(7, GFP_KERNEL).unwrap()
    }

    fn insert(registry: &mut Registry<u32>, draw: impl FnMut() -> u32) -> Result<u32> {
        registry.insert(RBTreeNodeReservation::new(GFP_KERNEL)?, thing(), draw)
    }

    #[test]
    fn a_name_lasts_as_long_as_it_is_held() {
        let mut registry = Registry(RBTree::new());
        let name = insert(&mut registry, || 5).unwrap();
        assert_eq!(name, 5);
        assert_eq!(*registry.hold(5).unwrap(), 7);
        assert!(registry.remove_holder(5).is_none());
        assert!(registry.hold(5).is_ok());
        assert!(registry.remove_holder(5).is_none());
        assert!(registry.remove_holder(5).is_some());
        assert_eq!(registry.hold(5).err(), Some(Error::NotFound));
        assert!(registry.remove_holder(5).is_none());
    }

    #[test]
    fn names_are_not_given_twice() {
        let mut registry = Registry(RBTree::new());
        let mut next = 0;
        let mut draw = || {
            next += 1;
            next / 2
        };
        // 0 is no name.
        assert_eq!(insert(&mut registry, &mut draw), Ok(1));
        assert_eq!(insert(&mut registry, &mut draw), Ok(2));
        assert_eq!(insert(&mut registry, || 2), Err(Error::OutOfResources));
        assert_eq!(registry.hold(0).err(), Some(Error::NotFound));
    }
}
