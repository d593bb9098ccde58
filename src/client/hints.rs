// SPDX-License-Identifier: GPL-2.0-only

//! Hints for the author of a client: errors in what a process submits, and what the address may be
//! for which a stream is refused.

use super::{
    tables::Tables,
    user_views::Viewed, //
};
use crate::{
    log::{
        warn_client,
        RateLimit, //
    },
    stream::{
        addresses::{
            Kind,
            Owner, //
        },
        checker::{
            Fault,
            Refusal, //
        }, //
    }, //
};
use kernel::fmt;

static MISTAKES: RateLimit = RateLimit::new();

/// Logs an error in what a process submits. Evaluates to the error.
macro_rules! mistake {
    (in queue, $error:expr, $text:tt $(, $value:expr)* $(,)?) => {{
        $crate::client::hints::tell_mistake("queue", kernel::prelude::fmt!($text $(, core::convert::identity($value))*));
        $error
    }};
    ($error:expr, $text:tt $(, $value:expr)* $(,)?) => {{
        // `identity` copies the value: taking its address would keep it in memory on the hot path.
        $crate::client::hints::tell_mistake("COMMIT", kernel::prelude::fmt!($text $(, core::convert::identity($value))*));
        $error
    }};
}
pub(super) use mistake;

#[cold]
#[inline(never)]
pub(super) fn tell_mistake(of: &str, what: fmt::Arguments<'_>) {
    warn_client!(MISTAKES, "{}: {}", of, what);
}

/// An address at most this far past the end of an object counts as an overrun.
const NEAR: u32 = 1 << 20;

/// What an address may be.
#[derive(Clone, Copy)]
pub(super) enum Hint {
    None,
    /// In memory that the process has freed.
    Freed(Owner),
    /// A user address: in a view of this object, or (`None`) in a window on the pool.
    User(Option<Viewed>),
    /// A handle of a node.
    Handle,
    /// The address is this number of bytes past the end of an object.
    Past(Owner, u32),
    /// The address is this number of bytes before the end of an object.
    Before(Owner, u32),
}

/// Writes the kind of an object and its handle.
fn write_name(f: &mut fmt::Formatter<'_>, owner: Owner) -> fmt::Result {
    let name = match owner.kind {
        Kind::Node => "node",
        Kind::Buffer => "buffer",
        Kind::UserMemory => "user memory",
        Kind::Framebuffer => return f.write_str("a framebuffer"),
    };
    write!(f, "{name} {:#x}", owner.handle)
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Hint::None => Ok(()),
            Hint::Freed(owner) => {
                f.write_str("; it was ")?;
                write_name(f, owner)?;
                f.write_str(", which is freed")
            }
            Hint::User(None) => {
                f.write_str("; it is an address of the CPU's, in the pool's mapping")
            }
            Hint::User(Some(Viewed::Node(handle))) => {
                write!(f, "; it is an address of the CPU's, of node {handle:#x}")
            }
            Hint::User(Some(Viewed::Buffer(handle))) => {
                write!(f, "; it is an address of the CPU's, of buffer {handle:#x}")
            }
            Hint::Handle => f.write_str("; it is the handle of a node: LOCK answers its address"),
            Hint::Past(owner, bytes) => {
                f.write_str("; ")?;
                write_name(f, owner)?;
                write!(f, " ends {bytes:#x} bytes before")
            }
            Hint::Before(owner, bytes) => {
                f.write_str("; ")?;
                write_name(f, owner)?;
                write!(f, " ends {bytes:#x} bytes after it")
            }
        }
    }
}

impl Tables {
    /// What the address may be for which the checker refused a stream.
    pub(super) fn hint(&self, refusal: &Refusal) -> Hint {
        let address = match (refusal.fault, refusal.value) {
            (Fault::Address(_), Some(address)) => address,
            (Fault::Beyond(_, address), _) => return self.room_after(address),
            _ => return Hint::None,
        };
        // CAST: 32 bits into at least 32.
        let user = address as usize;
        if let Some(owner) = self.addresses.owner_before(address) {
            return Hint::Freed(owner);
        }
        if let Some(view) = self.user_views.find(user) {
            return Hint::User(Some(view.of));
        }
        let mut windows = self.pool_views.iter().filter_map(|view| view.place());
        if windows.any(|(start, bytes)| user.wrapping_sub(start) < bytes) {
            return Hint::User(None);
        }
        if self.nodes.get(address).is_some() {
            return Hint::Handle;
        }
        match self.addresses.owner_in_front(address) {
            Some((owner, past)) if past < NEAR => Hint::Past(owner, past + 1),
            _ => Hint::None,
        }
    }

    /// How far memory goes, if `address` is in the process's memory.
    fn room_after(&self, address: u32) -> Hint {
        let found = self.addresses.owner(address);
        let range = self.addresses.find(address);
        found.zip(range).map_or(Hint::None, |(owner, range)| {
            Hint::Before(owner, (range.last() - address).saturating_add(1))
        })
    }
}
