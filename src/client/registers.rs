// SPDX-License-Identifier: GPL-2.0-only

//! READ_REGISTER, WRITE_REGISTER, the dumps and DEBUG, for debugging.
//!
//! Registers and dumps are for administrators of the machine (`CAP_SYS_ADMIN`): all processes share
//! them, and they show addresses of other processes. To all others the driver replies as the
//! vendor's default builds, which lack these commands. [`hw`](crate::hw) has the list of registers.

use super::Process;
use crate::{
    abi::{
        CoreSelector,
        Reply,
        Text,
        EX_CORES, //
    },
    hw::StateDump,
    log::RateLimit,
    prelude::*,
    ring::Waited,
    sys, //
};

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
        core.ring().for_each_job(|job| {
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
            core.ring().newest()
        );
    }
    Ok(())
}
