// SPDX-License-Identifier: GPL-2.0-only

//! What the admin does to the cores by `/proc/driver/gc`.
//!
//! Lock: `galcore commands`, in front of all others: one command at a time. What concerns one core
//! lasts until it is unbound.

use super::{
    any::{
        each,
        AnyCore, //
    },
    core::IdleState,
    Device, //
};
use crate::{
    limits::MAX_CORES,
    modes::{
        self,
        Mode, //
    },
    ring::Payload,
    sys::power::KeptOn, //
};
use kernel::{
    fmt,
    prelude::*, //
};

/// What the vendor's driver measures idle times by at first: step, slice, tail slice, threshold.
const DEFAULT_PROFILE: [u32; 4] = [300, 300, 33, 80];

/// Registers in one line of the log.
const LINE: usize = 4;

/// What the admin has done.
pub(super) struct Admin {
    /// Cores stay on: by place, what keeps them.
    stays_on: bool,
    kept_on: [Option<KeptOn>; MAX_CORES],
    /// Power domains keep their power.
    keeps_domains: bool,
    profile: [u32; 4],
}

impl Admin {
    /// Nothing.
    pub(super) fn new() -> Self {
        Self {
            stays_on: false,
            kept_on: [const { None }; MAX_CORES],
            keeps_domains: false,
            profile: DEFAULT_PROFILE,
        }
    }
}

/// A core in words: its place and its model.
pub(crate) struct Name {
    index: usize,
    model: u32,
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_fmt(fmt!("core {} (GC{:x})", self.index, self.model))
    }
}

impl<P: Payload> Device<P> {
    /// Calls `look` with each core and the state of its registers. One that is stopped is left out.
    pub(crate) fn for_each_state(&self, mut look: impl FnMut(Name, IdleState)) {
        for core in self.all() {
            if let Some(state) = core.idle_state() {
                look(core.name(), state);
            }
        }
    }

    /// How many cores are there.
    pub(crate) fn count(&self) -> usize {
        self.all().count()
    }

    /// Switches `mode` on or off, also for the cores.
    pub(crate) fn set_mode(&self, mode: Mode, on: bool) {
        let _admin = self.admin.lock();
        modes::set(mode, on);
        self.follow_modes();
    }

    /// Switches `mode` over, also for the cores; returns whether it is on now.
    pub(crate) fn toggle_mode(&self, mode: Mode) -> bool {
        let _admin = self.admin.lock();
        let on = modes::toggle(mode);
        self.follow_modes();
        on
    }

    fn follow_modes(&self) {
        for core in self.all() {
            each!(core, core => core.engine().follow_modes());
        }
    }

    /// Resets all cores that are on.
    pub(crate) fn reset_all(&self) {
        let _admin = self.admin.lock();
        for core in self.all() {
            each!(core, core => core.engine().reset_now());
        }
    }

    /// Lets the cores raise interrupts, or not.
    pub(crate) fn set_interrupts(&self, on: bool) {
        let _admin = self.admin.lock();
        for core in self.all() {
            each!(core, core => core.engine().set_interrupts(on));
        }
    }

    /// Lets the cores that have a divider run at `cap` 64ths of their clocks at most.
    pub(crate) fn set_cap(&self, cap: u32) {
        let _admin = self.admin.lock();
        self.cores().for_each(|core| core.ring().set_cap(cap));
    }

    /// Lets the cores stay on while they have nothing to do, or no longer; returns whether they do.
    /// One that cannot be switched on is left out.
    pub(crate) fn toggle_stays_on(&self) -> bool {
        let mut admin = self.admin.lock();
        admin.stays_on = !admin.stays_on;
        // Those of cores that have been unbound too.
        admin.kept_on = [const { None }; MAX_CORES];
        if admin.stays_on {
            for core in self.all() {
                admin.kept_on[core.index()] = core.keep_on().ok();
            }
        }
        admin.stays_on
    }

    /// Lets the cores' power domains keep their power while the cores are off, or no longer;
    /// returns whether they do, and how many there are.
    pub(crate) fn toggle_keeps_domains(&self) -> (bool, usize) {
        let mut admin = self.admin.lock();
        admin.keeps_domains = !admin.keeps_domains;
        let keeps = admin.keeps_domains;
        let supplies = self
            .all()
            .map(|core| core.hardware().supply().keep_domain(keeps));
        (keeps, supplies.filter(Result::is_ok).count())
    }

    /// Notes how idle times are to be measured, as far as `wanted` says it; returns what was noted
    /// before, and is now.
    pub(crate) fn set_profile(&self, wanted: [Option<u32>; 4]) -> ([u32; 4], [u32; 4]) {
        let mut admin = self.admin.lock();
        let before = admin.profile;
        let now = core::array::from_fn(|which| wanted[which].unwrap_or(before[which]));
        admin.profile = now;
        (before, now)
    }

    /// Prints the registers of all cores that are on, and all jobs under way.
    pub(crate) fn print_all(&self) {
        let _admin = self.admin.lock();
        for core in self.all() {
            core.print();
        }
    }
}

impl<P: Payload> AnyCore<P> {
    fn name(&self) -> Name {
        Name {
            index: self.index(),
            model: self.identity().model,
        }
    }

    fn print(&self) {
        let dev = self.hardware().device();
        let registers = each!(self, core => core.registers());
        match registers {
            Some(registers) => {
                dev_info!(dev, "{}: its registers\n", self.name());
                for line in registers.all().chunks(LINE) {
                    dev_info!(dev, "{}\n", Line(line));
                }
            }
            None => dev_info!(dev, "{} is off\n", self.name()),
        }
        if let Self::Ring(core) = self {
            core.ring().for_each_job(|job| {
                dev_info!(
                    dev,
                    "job {:#x}: event {}, process {:#x} of ours, words {:#010x} to {:#010x}\n",
                    job.number,
                    job.event,
                    job.process,
                    job.words.0,
                    job.words.1
                );
            });
        }
    }
}

/// Registers in a line.
struct Line<'a>(&'a [(u32, u32)]);

impl fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(offset, value)| out.write_fmt(fmt!(" {offset:03x}: {value:08x}")))
    }
}
