// SPDX-License-Identifier: GPL-2.0-only

//! The profiler: lets processes read the counters of the cores.
//!
//! Counters count all work of a core, and are never cleared ([`hw`](crate::hw)). A process reads
//! how much they have grown since its last read, so processes do not disturb each other. A
//! process's count of a core begins when it queries the profiler's setting, turns the profiler on,
//! or reads for the first time. That first read returns zeros. The count ends with the process, or
//! when it turns the profiler off. Until then the clocks of the core's modules are not gated.
//!
//! The parameter `gpuProfiler` says which processes may use the profiler. To all others the driver
//! replies as the vendor's default builds do. Source: sources.md, profiling.

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
    hw::Counting,
    limits::MAX_CORES,
    params::Profiler,
    prelude::*,
    sys, //
};
use kernel::uaccess::UserSlice;

/// The sets of counters: the two parts, the 2D counters, and all counters at once. A read of a set
/// starts a new count of that set.
const SETS: usize = 4;
const FIRST: usize = 0;
const SECOND: usize = 1;
const FLAT: usize = 2;
const WHOLE: usize = 3;

/// A process's count of a core.
struct Count {
    counting: Counting,
    /// The counters at the last read.
    bases: [Cells; SETS],
}

impl Count {
    /// The growth of a set since the last read. If `begins`, this read counts as the last one.
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

/// The counts of a process, by the cores' places.
type Counts = [Option<KBox<Count>>; MAX_CORES];

/// The profiler's state of a process.
#[derive(Default)]
pub(super) struct Profile {
    /// The process's setting, if it has set one.
    enable: Option<bool>,
    /// The name of its profile file, if it has set one.
    name: Option<KBox<Text>>,
    /// A read starts no new count.
    goes_on: bool,
    counts: Counts,
}

/// Whether the caller may use the profiler.
pub(crate) fn has_profiler(process: &Process) -> bool {
    match process.device.parameters().profiler {
        Profiler::Off => false,
        Profiler::Everybody => true,
        Profiler::Privileged => sys::may_profile(),
    }
}

/// As [`count_core`], for the core of `selector`. Returns the core's place. Also
/// `NotSupported`: the core has no counters. `GpuNotResponding`: the core is gone. Other
/// errors: as [`Device::place`](crate::gpu::Device::place).
fn count(process: &Process, selector: CoreSelector) -> Result<usize> {
    let place = process.device.place(selector)?;
    let AnyCore::Ring(core) = process.device.any(selector)? else {
        return Err(Error::NotSupported);
    };
    count_core(process, &core).map(|()| place)
}

/// The counters of `core` since a process first asked for them. Errors: as
/// [`count_core`].
pub(crate) fn counted(process: &Process, core: &Core) -> Result<Cells> {
    count_core(process, core)?;
    let tables = process.tables();
    let count = tables.profile.counts[core.index()].as_ref();
    Ok(count.map_or([0; Counter::CELLS], |count| count.counting.tally().totals()))
}

/// Begins the count of a core, if it has not begun, and updates it. `OutOfMemory`.
fn count_core(process: &Process, core: &Core) -> Result {
    let place = core.index();
    let hardware = core.hardware();
    let has_begun = {
        let tables = process.tables();
        let count = tables.profile.counts[place].as_ref();
        count.is_some_and(|count| count.counting.is_of(hardware))
    };
    // First allocate, and ask for the counters. From then on, no count is lost when the core is
    // switched off, and the clocks of its modules are not gated.
    let count = if has_begun {
        None
    } else {
        Some(KBox::new(
            Count {
                counting: hardware.want_counters(),
                bases: [[0; Counter::CELLS]; SETS],
            },
            sys::GFP_CLIENT,
        )?)
    };
    let _: Option<()> = core.ring().if_on(|hardware| hardware.count());
    if let Some(mut count) = count {
        count.bases = [count.counting.tally().totals(); SETS];
        // Another thread may have begun a count. Replace it.
        let _old = process.tables().profile.counts[place].replace(count);
    }
    Ok(())
}

/// GET_PROFILE_SETTING. `is_built`, `is_on`: see [`Request`](crate::abi::Request).
pub(super) fn setting(
    process: &Process,
    selector: CoreSelector,
    is_built: bool,
    is_on: bool,
) -> Result<Reply<'_>> {
    if !has_profiler(process) {
        return Ok(if is_built {
            Reply::ProfileSetting {
                enable: false,
                name: None,
            }
        } else {
            Reply::Nothing
        });
    }
    let mut room = KBox::new(Text([0; crate::abi::MAX_TEXT_WORDS]), sys::GFP_CLIENT)?;
    let (enable, name) = {
        let tables = process.tables();
        let name = tables.profile.name.as_deref().map(|name| {
            *room = *name;
            room
        });
        (tables.profile.enable.unwrap_or(is_on), name)
    };
    if enable {
        begin(process, selector);
    }
    Ok(Reply::ProfileSetting { enable, name })
}

/// Begins the count. Ignores errors, because the setting is valid without a count.
fn begin(process: &Process, selector: CoreSelector) {
    let _: Result<usize> = count(process, selector);
}

/// SET_PROFILE_SETTING. `NotSupported`: `is_built` is set, but the caller may not use the
/// profiler.
pub(super) fn set_setting(
    process: &Process,
    selector: CoreSelector,
    enable: bool,
    is_built: bool,
    name: Text,
) -> Result {
    if !has_profiler(process) {
        return if is_built {
            Err(Error::NotSupported)
        } else {
            Ok(())
        };
    }
    let name = match name.0[0] {
        // The request has no name.
        0 => None,
        _ => Some(KBox::new(name, sys::GFP_CLIENT)?),
    };
    let mut tables = process.tables();
    tables.profile.enable = Some(enable);
    let old = match name {
        Some(name) => tables.profile.name.replace(name),
        None => None,
    };
    drop(tables);
    drop(old);
    if enable {
        begin(process, selector)
    } else {
        end_counts(process)
    }
    Ok(())
}

/// Ends the counts. If no other process counts, the clocks of the modules are gated again.
pub(super) fn end_counts(process: &Process) {
    let ended: Counts = core::mem::take(&mut process.tables().profile.counts);
    let had_some = ended.each_ref().map(Option::is_some);
    drop(ended);
    for core in process.device.cores().filter(|core| had_some[core.index()]) {
        let _: Option<()> = core.ring().if_on(|hardware| hardware.set_counting_clocks());
    }
}

/// READ_PROFILER_REGISTER_SETTING.
pub(super) fn set_clearing(process: &Process, clears: bool) {
    if has_profiler(process) {
        process.tables().profile.goes_on = !clears;
    }
}

/// The growth of `set` on the core of `selector` since the last read. Errors: as
/// [`count`].
fn take_counters(process: &Process, selector: CoreSelector, set: usize) -> Result<Cells> {
    let place = count(process, selector)?;
    let mut tables = process.tables();
    let begins = !tables.profile.goes_on;
    let count = tables.profile.counts[place].as_mut();
    // `None`: another thread has turned the profiler off.
    Ok(count.map_or([0; Counter::CELLS], |count| count.take(set, begins)))
}

/// READ_ALL_PROFILE_REGISTERS and its parts. Errors: as [`count`].
pub(super) fn read_counters(
    process: &Process,
    selector: CoreSelector,
    set: CounterSet,
) -> Result<Reply<'_>> {
    if !has_profiler(process) {
        return Ok(Reply::Nothing);
    }
    let set = match set {
        CounterSet::Whole => WHOLE,
        CounterSet::First => FIRST,
        CounterSet::Second => SECOND,
    };
    let cells = take_counters(process, selector, set)?;
    Ok(Reply::Counters(KBox::new(cells, sys::GFP_CLIENT)?))
}

/// PROFILE_REGISTERS_2D: writes the cycles and the pixels of the 2D engine to `user`.
/// `InvalidArgument`: `user` is 0. `OutOfResources`: it cannot be written. Other errors: as
/// [`count`].
pub(super) fn read_counters_2d(process: &Process, selector: CoreSelector, user: u64) -> Result {
    if !has_profiler(process) {
        return Ok(());
    }
    let at = usize::try_from(user).map_err(|_| Error::InvalidArgument)?;
    if at == 0 {
        return Err(Error::InvalidArgument);
    }
    let cells = take_counters(process, selector, FLAT)?;
    let of = |counter: Counter| counter.value(&cells).unwrap_or(0);
    let answer = [of(Counter::Cycles), of(Counter::Pixels2d)];
    let bytes = core::mem::size_of_val(&answer);
    Ok(UserSlice::new(UserPtr::from_addr(at), bytes)
        .writer()
        .write(&answer)?)
}
