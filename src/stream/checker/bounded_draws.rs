// SPDX-License-Identifier: GPL-2.0-only

//! Draws that must stay in their memory, the states that are lent to them ([`bounds`]), and targets
//! at address 0.

use super::{
    Checker,
    Fault,
    Input, //
};
use crate::stream::{
    bounds::{
        self,
        DrawState,
        Mask,
        Problem, //
    },
    resolve,
    words::{
        state,
        Pipe, //
    }, //
};

/// Steps of a check that may each find more states missing, because of values lent before: a target
/// (2: its height), what a draw uses, a pattern (2: its address), blending, and a source (3: its
/// planes and height).
const STEPS: usize = 2 + 1 + 2 + 1 + 3;

/// States with the target addresses of the 2D engine, of the resolve engine (for cores with one
/// pixel pipe, and for the first pipe of others), and of the YUV tiler.
const TARGETS: [u32; 4] = [
    state::DE_DEST_ADDRESS,
    state::RS_DEST_ADDR,
    state::RS_PIPE_DEST_ADDR,
    resolve::TARGET_STATE,
];

/// The bit of state `address` in [`Checker::null_targets`]. 0: it is not in [`TARGETS`].
pub(super) fn null_target_bit(address: u32) -> u32 {
    let place = TARGETS.iter().position(|&state| state == address);
    place.map_or(0, |place| 1 << place)
}

impl Checker<'_> {
    /// Checks a draw with `check`. Lends the states that it needs and the stream has not loaded.
    #[inline(never)]
    pub(super) fn check_bounds(
        &mut self,
        check: impl Fn(&mut DrawState, &mut dyn FnMut(u32, u32) -> Option<u32>) -> Result<(), Problem>,
    ) -> Result<(), Fault> {
        for _ in 0..=STEPS {
            let start = match self.initial_draw_state {
                // A later pass checks 3D draws together with the context. It lends no 2D states.
                Some(start) if !self.is_deferred || self.pipe == Pipe::Pipe2d => start,
                _ => return Ok(()),
            };
            let (target, lookup) = (self.draw_state.get_or_insert(*start), &mut self.lookup);
            match check(target, &mut |state, address| lookup.last_of(state, address)) {
                Ok(()) => return Ok(()),
                // The lent address is that of scratch memory: the process has no valid one.
                Err(Problem::Beyond(state, address))
                    if address == lookup.scratch(state)
                        && !bounds::is_status(state)
                        && self.loaded.is_some_and(|loaded| loaded.is_lent(state)) =>
                {
                    return Err(Fault::Missing);
                }
                Err(Problem::Beyond(state, address)) => {
                    // The stream has loaded 0, which became the scratch address.
                    let is_scratch = address == lookup.scratch(state);
                    let address = if is_scratch { 0 } else { address };
                    return Err(if target.is_tiled(state) {
                        Fault::BeyondTiles(state, address)
                    } else {
                        Fault::Beyond(state, address)
                    });
                }
                Err(Problem::Unbounded(state, value)) => {
                    let is_lent = self.loaded.is_some_and(|loaded| loaded.is_lent(state));
                    return Err(match (is_lent, value) {
                        (false, _) => Fault::Unbounded(state, value),
                        // No stream has loaded it, or with 0.
                        (true, 0) => Fault::Missing,
                        (true, _) => Fault::Earlier(state, value),
                    });
                }
                Err(Problem::Data(state, value)) => return Err(Fault::Data(state, value)),
                Err(Problem::Missing(missing)) => self.lend(missing)?,
                Err(Problem::Unloaded(state)) => return Err(Fault::Unloaded(state)),
            }
        }
        Err(Fault::Missing)
    }

    /// Lends `missing` states: the driver loads the process's last values before the stream.
    #[cold]
    #[inline(never)]
    fn lend(&mut self, missing: Mask) -> Result<(), Fault> {
        let lookup = &mut self.lookup;
        // Addresses of memory freed since, or of states never loaded, become scratch addresses.
        let mut resolve = |state, value| {
            let resolved = lookup.resolve(state, value);
            resolved.unwrap_or(lookup.scratch(state))
        };
        match (&mut self.draw_state, self.loaded) {
            (Some(target), Some(loaded)) if self.input != Input::Context && loaded.is_lending() => {
                let value_of = |state| loaded.lend(state, |value| resolve(state, value));
                // With a context, lend all states of resolves: its values decide which are needed.
                let missing = if loaded.has_context() && missing & bounds::OF_3D != 0 {
                    missing | target.all_of_resolves()
                } else {
                    missing
                };
                if loaded.in_context(missing) != 0 {
                    self.is_deferred = true;
                }
                if target.lend(missing, value_of) {
                    Ok(())
                } else {
                    Err(Fault::Missing)
                }
            }
            _ => Err(Fault::Missing),
        }
    }
}
