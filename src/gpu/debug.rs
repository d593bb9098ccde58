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
    power::OFF_TIME,
    Device, //
};
use crate::{
    abi::PowerState,
    limits::MAX_CORES,
    log,
    ring::{
        Given,
        Payload,
        IDS, //
    },
    sys::{
        power::KeptOn,
        work, //
    }, //
};
use kernel::{
    fmt,
    prelude::*, //
};

/// Registers in one line of the log.
const LINE: usize = 4;

/// What the admin has done.
pub(super) struct Admin {
    /// Cores stay on: by place, what keeps them.
    stays_on: bool,
    kept_on: [Option<KeptOn>; MAX_CORES],
    /// Power domains keep their power.
    keeps_domains: bool,
}

impl Admin {
    /// Nothing.
    pub(super) fn new() -> Self {
        Self {
            stays_on: false,
            kept_on: [const { None }; MAX_CORES],
            keeps_domains: false,
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

    /// Switches all cores that have nothing to do on, or off; returns how many of them are that
    /// now, and how many cores there are. They go on and off by themselves all the same.
    pub(crate) fn switch_all(&self, on: bool) -> (usize, usize) {
        let _admin = self.admin.lock();
        let all = self.all().inspect(|core| core.switch(on));
        let (mut switched, mut count) = (0, 0);
        for core in all {
            count += 1;
            switched += usize::from(core.hardware().is_on() == on);
        }
        (switched, count)
    }

    /// Prints the registers of all cores that are on, and all jobs under way with their words.
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
        let newest = self.newest();
        // CAST: at most 64 bits.
        let mut from = newest.saturating_sub(IDS as u64);
        // Ends: there are a few jobs between.
        while let Some(job) = self.given(from).filter(|job| job.noted.number <= newest) {
            from = job.noted.number + 1;
            if job.is_under_way {
                self.print_job(&job);
            }
        }
    }

    /// Prints the words of a job, [`log::MAX_WORDS`] at most, if they are still there.
    fn print_job(&self, job: &Given) {
        let dev = self.hardware().device();
        // Those of the driver alone, if the process has none.
        let (start, bytes) = match job.noted.own {
            (_, 0) => (0, job.noted.bytes),
            own => own,
        };
        dev_info!(
            dev,
            "job {:#x} of process {}: {} words at {:#010x}\n",
            job.noted.number,
            job.noted.process,
            bytes / 4,
            job.address + start
        );
        // CAST: 32 bits into at least 32. One more than are printed shows that there are more.
        let count = (bytes as usize / 4).min(log::MAX_WORDS + 1);
        let words = KVec::from_elem(0, count, GFP_KERNEL);
        let copied =
            words.map(|mut words| self.copy_given(job, start, &mut words).then_some(words));
        if let Ok(Some(words)) = copied {
            log::print_words(&[&words]);
        }
    }

    /// Switches it on, or off if it has nothing to do. One that was given up stays as it is.
    fn switch(&self, on: bool) {
        if self.is_dead() {
            return;
        }
        if on {
            // One that cannot be is as it was.
            let _ = work::by_worker(|| self.hardware().supply().wake());
        } else if self.is_idle() {
            self.go_off(PowerState::Off, OFF_TIME);
        }
    }

    /// Has the hang check look at it now.
    pub(crate) fn look_now(&self) {
        each!(self, core => core.engine().look_now())
    }

    /// Resets it if it does not get on; whether it was.
    pub(crate) fn reset_if_hung(&self) -> bool {
        each!(self, core => core.engine().reset_if_hung())
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
