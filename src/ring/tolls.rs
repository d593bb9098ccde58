// SPDX-License-Identifier: GPL-2.0-only

//! What a reset has cost each process that had jobs.
//!
//! Pure logic.

use super::{
    inflight::IDS,
    Toll, //
};

/// A toll for each process.
pub(crate) struct Tolls {
    list: [Toll; IDS],
    count: usize,
}

impl Tolls {
    /// No tolls.
    pub(crate) fn new() -> Self {
        Self {
            list: [Toll::default(); IDS],
            count: 0,
        }
    }

    /// Adds a job of `process` to that process's toll.
    pub(crate) fn note(&mut self, process: u64, is_guilty: bool, is_dropped: bool) {
        if process == 0 {
            return;
        }
        let known = self.all().iter().position(|toll| toll.process == process);
        let at = known.unwrap_or(self.count);
        // There are no more processes than jobs.
        let Some(toll) = self.list.get_mut(at) else {
            return;
        };
        self.count = self.count.max(at + 1);
        toll.process = process;
        toll.is_guilty |= is_guilty;
        toll.dropped += u32::from(is_dropped);
    }

    /// Sets all counts of dropped jobs to 0, to count them again.
    pub(crate) fn forget_dropped(&mut self) {
        self.list.iter_mut().for_each(|toll| toll.dropped = 0);
    }

    /// How many jobs are dropped.
    pub(crate) fn dropped(&self) -> u32 {
        self.all().iter().map(|toll| toll.dropped).sum()
    }

    /// The tolls of all processes that had jobs.
    pub(crate) fn all(&self) -> &[Toll] {
        &self.list[..self.count]
    }
}

#[kernel::macros::kunit_tests(galcore_tolls)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_one() {
        let mut tolls = Tolls::new();
        tolls.note(0, false, true);
        tolls.note(7, true, true);
        tolls.note(9, false, false);
        tolls.note(7, false, true);
        let fields = |toll: &Toll| (toll.process, toll.is_guilty, toll.dropped);
        assert_eq!(tolls.all().len(), 2);
        assert_eq!(fields(&tolls.all()[0]), (7, true, 2));
        assert_eq!(fields(&tolls.all()[1]), (9, false, 0));
        assert_eq!(tolls.dropped(), 2);
        tolls.forget_dropped();
        assert_eq!(tolls.dropped(), 0);
        for process in 100..200 {
            tolls.note(process, false, true);
        }
        assert_eq!(tolls.all().len(), IDS);
    }
}
