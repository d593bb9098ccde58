// SPDX-License-Identifier: GPL-2.0-only

//! SHBUF: small buffers with which processes exchange data about a surface.
//!
//! CREATE returns an id. With MAP, another process that knows the id gets a reference to the
//! buffer. A reference ends by DESTROY or with its process, and the buffer with its last reference.
//! A process with a reference may READ and WRITE. Ids are names, as those of nodes
//! ([`super::name`]), and hard to guess. Source: the vendor's `gc_hal_kernel.c` of 5.0.11, which
//! limits buffers to 1024 bytes. There, all processes have all buffers, and ids count up.
//!
//! Lock: `galcore shared buffer` in each buffer, a leaf. Its holder does not access user space.

use super::{
    name::{
        Name,
        Names, //
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
    prelude::*, //
};
use kernel::uaccess::UserSlice;

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
pub(crate) type SharedBuffers = Names<Piece>;

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
        // CAST: 32 bits into at least 32.
        let length = bytes as usize;
        if user == 0 || length == 0 || length > self.content.lock().bytes.len() {
            return Err(Error::InvalidArgument);
        }
        let user = usize::try_from(user).map_err(|_| Error::InvalidArgument)?;
        let mut copy = KVec::new();
        UserSlice::new(UserPtr::from_addr(user), length)
            .reader()
            .read_all(&mut copy, crate::sys::GFP_CLIENT)?;
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
            // CAST: 32 bits into at least 32.
            let length = content.bytes.len().min(bytes as usize);
            let mut copy = KVec::with_capacity(length, crate::sys::GFP_CLIENT)?;
            copy.extend_from_slice(&content.bytes[..length], crate::sys::GFP_CLIENT)?;
            copy
        };
        if copy.is_empty() || user == 0 {
            return Err(Error::InvalidArgument);
        }
        let user = usize::try_from(user).map_err(|_| Error::InvalidArgument)?;
        UserSlice::new(UserPtr::from_addr(user), copy.len())
            .writer()
            .write_slice(&copy)?;
        // CAST: at most [`MAX_BYTES`].
        Ok(Some(copy.len() as u32))
    }
}

/// Runs a sub-command. `InvalidArgument`: no such sub-command, or no bytes. `OutOfResources`:
/// too many bytes or buffers. `NotFound`: the process does not have this buffer; for MAP, there
/// is no such buffer.
pub(super) fn run(process: &Process, command: SharedBuffer) -> Result<Reply<'_>> {
    match command {
        SharedBuffer::Create { bytes: 0 } => Err(Error::InvalidArgument),
        SharedBuffer::Create { bytes } => {
            // CAST: 32 bits into at least 32.
            if bytes as usize > MAX_BYTES {
                return Err(Error::OutOfResources);
            }
            let piece = Piece::new(bytes as usize)?;
            let name = Name::new(process.clients.shared_buffers(), piece.clone())?;
            let id = name.number();
            keep_piece(process, name, piece)?;
            Ok(Reply::SharedBuffer { id })
        }
        SharedBuffer::Map { id } => {
            let (name, piece) = Name::hold(
                process.clients.users(),
                process.clients.shared_buffers(),
                id,
            )?;
            keep_piece(process, name, piece)?;
            Ok(Reply::Nothing)
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
            Ok(Reply::Nothing)
        }
        SharedBuffer::Write { id, user, bytes } => {
            piece(process, id)?.write(user, bytes)?;
            Ok(Reply::Nothing)
        }
        SharedBuffer::Read { id, user, bytes } => {
            let bytes = piece(process, id)?.read(user, bytes)?;
            Ok(Reply::Copied { bytes })
        }
        SharedBuffer::Unknown => Err(Error::InvalidArgument),
    }
}

/// Adds a reference of the process to a buffer.
fn keep_piece(process: &Process, name: Name<Piece>, piece: Arc<Piece>) -> Result {
    let mut tables = process.tables();
    if let Some(at) = place_of_piece(&tables.pieces, name.number()) {
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
    Name::hold_own(process.clients.shared_buffers(), id)
}

fn piece(process: &Process, id: u32) -> Result<Arc<Piece>> {
    let tables = process.tables();
    let at = place_of_piece(&tables.pieces, id).ok_or(Error::NotFound)?;
    Ok(tables.pieces[at].piece.clone())
}

fn place_of_piece(pieces: &[PieceEntry], id: u32) -> Option<usize> {
    pieces.iter().position(|entry| entry.name.number() == id)
}
