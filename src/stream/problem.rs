// SPDX-License-Identifier: GPL-2.0-only

//! Why a kick of an engine cannot be bounded, such as a surface that ends past its memory.
//!
//! Pure logic without imports.

/// A set of [`bounds::STATES`](super::bounds::STATES): a bit for each.
pub(crate) type Mask = u64;

/// Why a kick cannot be bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The stream has not loaded these states.
    Missing(Mask),
    /// The kick may go past the end of the memory in which its target or its source begins. The
    /// state with that address, and its value.
    Beyond(u32, u32),
    /// The driver does not know how far the engine goes with this state and value.
    Unbounded(u32, u32),
    /// The stream has not loaded states that cannot be lent: one of these, or their unit's first.
    Unloaded(u32),
}

/// Fails unless byte `last` of a surface is in the same memory as its first byte. The `address` of
/// that is in `state`. `last` is `None` if the surface ends too far away.
pub(crate) fn check_end(
    (state, address): (u32, u32),
    last: Option<u32>,
    last_of: impl FnOnce(u32, u32) -> Option<u32>,
) -> Result<(), Problem> {
    let room = last_of(state, address).and_then(|end| end.checked_sub(address));
    match last.zip(room) {
        Some((last, room)) if last <= room => Ok(()),
        _ => Err(Problem::Beyond(state, address)),
    }
}
