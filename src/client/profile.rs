// SPDX-License-Identifier: GPL-2.0-only

//! The profiler: what the cores have counted, for processes that want to know.
//!
//! Counters count all work of a core. Each process reads how much they have grown since it read them
//! last, so that one does not disturb another: they are never cleared ([`hw`](crate::hw)). Its count
//! of a core begins when it asks for the profiler's setting, or puts the profiler on, or, else, reads
//! for the first time, which then tells nothing. It ends with the process, or when it puts the
//! profiler off. Up to then the core's modules keep their clocks.
//!
//! Whether there is a profiler at all, and for whom, is the parameter `gpuProfiler`. Where there is
//! none the commands answer as the vendor's default builds. Source: sources.md, profiling.

use super::{
    AnyCore,
    Core,
    Process, //
};
use crate::{
    abi::{
        Cells,
        CoreSelector,
        Counter,
        CounterSet,
        Reply,
        Text, //
    },
    error::{
        Error,
        Result, //
    },
    hw::Counting,
    limits::MAX_CORES,
    params::Profiler,
    sys, //
};
use kernel::{
    prelude::*,
    uaccess::UserSlice, //
};

/// The sets of counters, each with a count that begins anew when it is read: the two parts, those of
/// 2D, and all in one piece.
const SETS: usize = 4;
const FIRST: usize = 0;
const SECOND: usize = 1;
const FLAT: usize = 2;
const WHOLE: usize = 3;

/// A process's count of a core.
struct Count {
    counting: Counting,
    /// The counters at the last reading.
    bases: [Cells; SETS],
}

impl Count {
    /// How much there is since then; `begins`: the next time, since now.
    fn take(&mut self, set: usize, begins: bool) -> Cells {
        let totals = self.counting.tally().totals();
        let base = &mut self.bases[set];
        let more = core::array::from_fn(|cell| totals[cell].wrapping_sub(base[cell]));
        if begins {
            *base = totals;
        }
        more
    }
}

/// By place, the counts of a process.
type Counts = [Option<KBox<Count>>; MAX_CORES];

/// What a process has of the profiler.
#[derive(Default)]
pub(super) struct Profile {
    /// As the process has said; `None`: it has not.
    enable: Option<bool>,
    /// The name of its file, if it has given it one.
    name: Option<KBox<Text>>,
    /// Reading does not begin a new count.
    goes_on: bool,
    /// By place.
    counts: Counts,
}

impl Process {
    /// Whether there is a profiler for the caller.
    pub(crate) fn has_profiler(&self) -> bool {
        match self.device.parameters().profiler {
            Profiler::Off => false,
            Profiler::Everybody => true,
            Profiler::Privileged => sys::may_profile(),
        }
    }

    /// As [`Process::count_core`], of the core of `selector`, whose place it returns. Also
    /// `NotSupported`: it has no counters. `GpuNotResponding`: it is not there now. Else as
    /// [`Device::place`](crate::gpu::Device::place).
    fn count(&self, selector: CoreSelector) -> Result<usize> {
        let place = self.device.place(selector)?;
        let AnyCore::Ring(core) = self.device.any(selector)? else {
            return Err(Error::NotSupported);
        };
        self.count_core(&core).map(|()| place)
    }

    /// What `core` has counted since anybody wanted it. Errors as [`Process::count_core`].
    pub(crate) fn counted(&self, core: &Core) -> Result<Cells> {
        self.count_core(core)?;
        let tables = self.tables();
        let count = tables.profile.counts[core.index()].as_ref();
        Ok(count.map_or([0; Counter::CELLS], |count| count.counting.tally().totals()))
    }

    /// Begins the count of a core, unless it has begun, and brings it up to date. `OutOfMemory`.
    fn count_core(&self, core: &Core) -> Result {
        let place = core.index();
        let hardware = core.hardware();
        let has_begun = {
            let tables = self.tables();
            let count = tables.profile.counts[place].as_ref();
            count.is_some_and(|count| count.counting.is_of(hardware))
        };
        // First: from here on no count is lost when the core goes off, and its modules' clocks are
        // not gated. The allocation, too, comes before that.
        let count = match has_begun {
            true => None,
            false => Some(KBox::new(
                Count {
                    counting: hardware.want_counters(),
                    bases: [[0; Counter::CELLS]; SETS],
                },
                sys::GFP_CLIENT,
            )?),
        };
        let _: Option<()> = core.ring().if_on(|hardware| hardware.count());
        if let Some(mut count) = count {
            count.bases = [count.counting.tally().totals(); SETS];
            // Another thread's may be as good, and goes.
            let _old = self.tables().profile.counts[place].replace(count);
        }
        Ok(())
    }

    /// GET_PROFILE_SETTING. `is_built`, `is_on`: as [`Request`](crate::abi::Request) has them.
    pub(super) fn profile_setting(
        &self,
        selector: CoreSelector,
        is_built: bool,
        is_on: bool,
    ) -> Result<Reply<'_>> {
        if !self.has_profiler() {
            return Ok(match is_built {
                true => Reply::ProfileSetting {
                    enable: false,
                    name: None,
                },
                false => Reply::Nothing,
            });
        }
        let mut room = KBox::new(Text([0; crate::abi::MAX_TEXT_WORDS]), sys::GFP_CLIENT)?;
        let (enable, name) = {
            let tables = self.tables();
            let name = tables.profile.name.as_deref().map(|name| {
                *room = *name;
                room
            });
            (tables.profile.enable.unwrap_or(is_on), name)
        };
        if enable {
            self.begin(selector);
        }
        Ok(Reply::ProfileSetting { enable, name })
    }

    /// Begins the count, where there is something to count: the setting is known without.
    fn begin(&self, selector: CoreSelector) {
        let _: Result<usize> = self.count(selector);
    }

    /// SET_PROFILE_SETTING. `NotSupported`: there is none in this build of the client's.
    pub(super) fn set_profile_setting(
        &self,
        selector: CoreSelector,
        enable: bool,
        is_built: bool,
        name: Text,
    ) -> Result {
        if !self.has_profiler() {
            return match is_built {
                true => Err(Error::NotSupported),
                false => Ok(()),
            };
        }
        let name = match name.0[0] {
            // It does not say.
            0 => None,
            _ => Some(KBox::new(name, sys::GFP_CLIENT)?),
        };
        let mut tables = self.tables();
        tables.profile.enable = Some(enable);
        let old = match name {
            Some(name) => tables.profile.name.replace(name),
            None => None,
        };
        drop(tables);
        drop(old);
        match enable {
            true => self.begin(selector),
            false => self.end_counts(),
        }
        Ok(())
    }

    /// Ends the counts. Where no other process wants any, modules' clocks are gated again.
    pub(super) fn end_counts(&self) {
        let ended: Counts = core::mem::take(&mut self.tables().profile.counts);
        let had_some = ended.each_ref().map(Option::is_some);
        drop(ended);
        for core in self.device.cores().filter(|core| had_some[core.index()]) {
            let _: Option<()> = core.ring().if_on(|hardware| hardware.set_counting_clocks());
        }
    }

    /// READ_PROFILER_REGISTER_SETTING.
    pub(super) fn set_clearing(&self, clears: bool) {
        if self.has_profiler() {
            self.tables().profile.goes_on = !clears;
        }
    }

    /// How much the core of `selector` has counted since `set` was asked for last. Errors as
    /// [`Process::count`].
    fn take_counters(&self, selector: CoreSelector, set: usize) -> Result<Cells> {
        let place = self.count(selector)?;
        let mut tables = self.tables();
        let begins = !tables.profile.goes_on;
        let count = tables.profile.counts[place].as_mut();
        // Else the process has put it off meanwhile.
        Ok(count.map_or([0; Counter::CELLS], |count| count.take(set, begins)))
    }

    /// READ_ALL_PROFILE_REGISTERS and its parts. Errors as [`Process::count`].
    pub(super) fn read_counters(
        &self,
        selector: CoreSelector,
        set: CounterSet,
    ) -> Result<Reply<'_>> {
        if !self.has_profiler() {
            return Ok(Reply::Nothing);
        }
        let set = match set {
            CounterSet::Whole => WHOLE,
            CounterSet::First => FIRST,
            CounterSet::Second => SECOND,
        };
        let cells = self.take_counters(selector, set)?;
        Ok(Reply::Counters(KBox::new(cells, sys::GFP_CLIENT)?))
    }

    /// PROFILE_REGISTERS_2D: writes cycles, and pixels of the 2D engine, to `user`.
    /// `InvalidArgument`: that is 0. `OutOfResources`: it cannot be written. Else as
    /// [`Process::count`].
    pub(super) fn read_counters_2d(&self, selector: CoreSelector, user: u64) -> Result {
        if !self.has_profiler() {
            return Ok(());
        }
        let at = usize::try_from(user).map_err(|_| Error::InvalidArgument)?;
        if at == 0 {
            return Err(Error::InvalidArgument);
        }
        let cells = self.take_counters(selector, FLAT)?;
        let of = |counter: Counter| counter.value(&cells).unwrap_or(0);
        let answer = [of(Counter::Cycles), of(Counter::Pixels2d)];
        let bytes = core::mem::size_of_val(&answer);
        Ok(UserSlice::new(UserPtr::from_addr(at), bytes)
            .writer()
            .write(&answer)?)
    }
}
