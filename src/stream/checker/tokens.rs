// SPDX-License-Identifier: GPL-2.0-only

//! The semaphores that a stream has armed.

/// Armed semaphores: one bit for each (from, to).
#[derive(Default)]
pub(super) struct Tokens([u32; 32]);

impl Tokens {
    fn slot(token: u32) -> (usize, u32) {
        // CAST: five bits.
        ((token & 0x1F) as usize, 1 << ((token >> 8) & 0x1F))
    }

    /// Arms a token. Returns whether it was not armed before.
    pub(super) fn arm(&mut self, token: u32) -> bool {
        let (from, to) = Self::slot(token);
        let fresh = self.0[from] & to == 0;
        self.0[from] |= to;
        fresh
    }

    pub(super) fn disarm(&mut self, token: u32) -> bool {
        let (from, to) = Self::slot(token);
        let armed = self.0[from] & to != 0;
        self.0[from] &= !to;
        armed
    }

    pub(super) fn any(&self) -> bool {
        self.0.iter().any(|&to| to != 0)
    }
}
