// SPDX-License-Identifier: GPL-2.0-only

//! What each process with jobs on a core has lost in its reset.
//!
//! Pure logic.

use super::{
    inflight::IDS,
    Loss, //
};

/// The loss of each process.
pub(crate) struct Losses {
    list: [Loss; IDS],
    count: usize,
}

impl Losses {
    /// No losses.
    pub(crate) fn new() -> Self {
        Self {
            list: [Loss::default(); IDS],
            count: 0,
        }
    }

    /// Adds a job to the loss of `process`.
    pub(crate) fn note(&mut self, process: u64, is_guilty: bool, is_dropped: bool) {
        if process == 0 {
            return;
        }
        let known = self.all().iter().position(|loss| loss.process == process);
        let at = known.unwrap_or(self.count);
        // There are no more processes than jobs.
        let Some(loss) = self.list.get_mut(at) else {
            return;
        };
        self.count = self.count.max(at + 1);
        loss.process = process;
        loss.is_guilty |= is_guilty;
        loss.dropped += u32::from(is_dropped);
    }

    /// Sets all counts of dropped jobs to 0, to count them again.
    pub(crate) fn forget_dropped(&mut self) {
        self.list.iter_mut().for_each(|loss| loss.dropped = 0);
    }

    /// How many jobs are dropped.
    pub(crate) fn dropped(&self) -> u32 {
        self.all().iter().map(|loss| loss.dropped).sum()
    }

    /// The losses of all processes that had jobs.
    pub(crate) fn all(&self) -> &[Loss] {
        &self.list[..self.count]
    }
}

#[kernel::macros::kunit_tests(galcore_losses)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_one() {
        let mut losses = Losses::new();
        losses.note(0, false, true);
        losses.note(7, true, true);
        losses.note(9, false, false);
        losses.note(7, false, true);
        let fields = |loss: &Loss| (loss.process, loss.is_guilty, loss.dropped);
        assert_eq!(losses.all().len(), 2);
        assert_eq!(fields(&losses.all()[0]), (7, true, 2));
        assert_eq!(fields(&losses.all()[1]), (9, false, 0));
        assert_eq!(losses.dropped(), 2);
        losses.forget_dropped();
        assert_eq!(losses.dropped(), 0);
        for process in 100..200 {
            losses.note(process, false, true);
        }
        assert_eq!(losses.all().len(), IDS);
    }
}
