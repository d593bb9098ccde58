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
//!
//! READ_REGISTER, WRITE_REGISTER, the dumps and DEBUG are for administrators of the machine
//! (`CAP_SYS_ADMIN`): all processes share them, and they show addresses of other processes. To all
//! others the driver replies as the vendor's default builds, which lack these commands.
//! [`hw`](crate::hw) has the list of registers.

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
        Text,
        EX_CORES, //
    },
    hw::{
        Counting,
        StateDump, //
    },
    log::RateLimit,
    params::Profiler,
    prelude::*,
    ring::Waited, //
};

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
    match process.device.parameters.profiler {
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
    let _: Option<()> = core.engine().if_on(|hardware| hardware.count());
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
        let _: Option<()> = core
            .engine()
            .if_on(|hardware| hardware.set_counting_clocks());
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
    Ok(sys::user::put(at, &answer)?)
}

/// Texts that DEBUG logs.
static MESSAGES: RateLimit = RateLimit::new();

static DUMPS: RateLimit = RateLimit::new();

/// `NotSupported`: the caller is no administrator.
fn admin_only() -> Result {
    if sys::is_admin() {
        Ok(())
    } else {
        Err(Error::NotSupported)
    }
}

/// Reads the register at byte offset `address` of the core of `selector`. `None`: the core is
/// off or gone. `NotSupported`: the core is for vector graphics. `InvalidArgument`: the
/// register must not be read, or there is no such core.
fn peek(process: &Process, selector: CoreSelector, address: u32) -> Result<Option<u32>> {
    let core = match process.device.any(selector) {
        Ok(core) => core,
        Err(Error::GpuNotResponding) => return Ok(None),
        Err(error) => return Err(error),
    };
    if core.hardware().is_readable(address) {
        core.if_on(|hardware| hardware.read_register(address))
    } else {
        Err(Error::InvalidArgument)
    }
}

/// Writes a register. `None`: the core is off or gone. `InvalidArgument`: `data` must not be
/// written there. Other errors: as [`peek`].
fn poke(process: &Process, selector: CoreSelector, address: u32, data: u32) -> Result<Option<()>> {
    let core = match process.device.any(selector) {
        Ok(core) => core,
        Err(Error::GpuNotResponding) => return Ok(None),
        Err(error) => return Err(error),
    };
    if core.hardware().is_writable(address, data) {
        core.if_on(|hardware| hardware.write_register(address, data))
    } else {
        Err(Error::InvalidArgument)
    }
}

/// READ_REGISTER. `off_reads_zero`: see [`Request`](crate::abi::Request). `NotSupported`: the
/// caller is no administrator, or the core is for vector graphics. `InvalidArgument`: as
/// [`peek`].
pub(super) fn read(
    process: &Process,
    selector: CoreSelector,
    address: u32,
    off_reads_zero: bool,
) -> Result<Reply<'_>> {
    admin_only()?;
    match peek(process, selector, address)? {
        Some(data) => Ok(Reply::Register(data)),
        None if off_reads_zero => Ok(Reply::Register(0)),
        None => Ok(Reply::Off),
    }
}

/// WRITE_REGISTER. Errors: as [`read`].
pub(super) fn write(
    process: &Process,
    selector: CoreSelector,
    address: u32,
    data: u32,
    off_reads_zero: bool,
) -> Result<Reply<'_>> {
    admin_only()?;
    match poke(process, selector, address, data)? {
        Some(()) => Ok(Reply::Nothing),
        None if off_reads_zero => Ok(Reply::Nothing),
        None => Ok(Reply::Off),
    }
}

/// Calls `each` with the index and the selector of each core whose bit in `cores` is set.
/// `InvalidArgument`: a core is missing.
fn for_cores(
    process: &Process,
    selector: CoreSelector,
    cores: u32,
    mut each: impl FnMut(usize, CoreSelector) -> Result,
) -> Result {
    if cores >> EX_CORES != 0 {
        return Err(Error::InvalidArgument);
    }
    let first = process.device.place(selector.with_index(0))?;
    // CAST: 4.
    for index in (0..EX_CORES as u32).filter(|index| cores >> index & 1 != 0) {
        let core = selector.with_index(index);
        // The selector of a missing core yields the first core.
        if index != 0 && process.device.place(core)? == first {
            return Err(Error::InvalidArgument);
        }
        each(core.index(), core)?;
    }
    Ok(())
}

/// READ_REGISTER_EX. Errors: as [`read`].
pub(super) fn read_all(
    process: &Process,
    selector: CoreSelector,
    address: u32,
    cores: u32,
) -> Result<Reply<'_>> {
    admin_only()?;
    let (mut found, mut is_off) = ([None; EX_CORES], false);
    for_cores(process, selector, cores, |index, core| {
        found[index] = peek(process, core, address)?;
        is_off |= found[index].is_none();
        Ok(())
    })?;
    // Not an error: a caller that only checks for errors reads zeros.
    Ok(if is_off {
        Reply::AllOff
    } else {
        Reply::Registers(found)
    })
}

/// WRITE_REGISTER_EX. `ChipNotReady`: a core is off. Other errors: as
/// [`read`].
pub(super) fn write_all(
    process: &Process,
    selector: CoreSelector,
    address: u32,
    cores: u32,
    data: [u32; EX_CORES],
) -> Result {
    admin_only()?;
    for_cores(process, selector, cores, |index, core| {
        let poked = poke(process, core, address, data[index])?;
        poked.ok_or(Error::ChipNotReady)
    })
}

/// DEBUG: logs a text. Trace levels and zones are ignored.
pub(super) fn print(process: &Process, text: Text) {
    if text.0[0] != 0 && MESSAGES.allow() {
        pr_info!("process {} says: {}\n", process.id(), text);
    }
}

/// DUMP_GPU_STATE: dumps to the log. Errors: as [`read`].
pub(super) fn dump_state(process: &Process, selector: CoreSelector) -> Result<Reply<'_>> {
    admin_only()?;
    let core = match process.device.any(selector) {
        Ok(core) => core,
        Err(Error::GpuNotResponding) => return Ok(Reply::Off),
        Err(error) => return Err(error),
    };
    if !DUMPS.allow() {
        return Ok(Reply::Register(1));
    }
    let mut dump = StateDump::new()?;
    match core.if_on(|hardware| hardware.dump_state(&mut dump))? {
        Some(()) => {
            core.hardware().print_state(&dump);
            Ok(Reply::Register(1))
        }
        None => Ok(Reply::Off),
    }
}

/// DUMP_EVENT: logs the jobs in the rings. `NotSupported`: the caller is no administrator.
pub(super) fn dump_jobs(process: &Process) -> Result {
    admin_only()?;
    for core in process.device.cores().filter(|_| DUMPS.allow()) {
        let (mut jobs, mut oldest) = (0u32, 0);
        core.engine().for_each_job(|job| {
            jobs += 1;
            if jobs == 1 {
                oldest = job.number;
            }
        });
        // Hexadecimal, because the kernel has no 64-bit division on ARM.
        pr_info!(
            "core {}: {} jobs under way, the oldest {:#x}, the newest {:#x}\n",
            core.index(),
            jobs,
            oldest,
            core.engine().newest()
        );
    }
    Ok(())
}
