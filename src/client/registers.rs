// SPDX-License-Identifier: GPL-2.0-only

//! READ_REGISTER, WRITE_REGISTER, the dumps and DEBUG: for people who look for faults.
//!
//! Registers and dumps are for administrators of the machine (`CAP_SYS_ADMIN`): all processes share
//! them, and they show where others' memory is. For others they are not built, as in the vendor's
//! default builds. Which registers there are: [`hw`](crate::hw).

use super::Process;
use crate::{
    abi::{
        CoreSelector,
        Reply,
        Text,
        EX_CORES, //
    },
    error::{
        Error,
        Result, //
    },
    hw::StateDump,
    log::RateLimit,
    ring::Waited,
    sys, //
};
use kernel::prelude::*;

/// What clients print.
static MESSAGES: RateLimit = RateLimit::new();

static DUMPS: RateLimit = RateLimit::new();

/// `NotSupported`: the caller may not administer the machine.
fn admin_only() -> Result {
    match sys::is_admin() {
        true => Ok(()),
        false => Err(Error::NotSupported),
    }
}

impl Process {
    /// The register at byte offset `address` of the core of `selector`; `None`: that is off, or not
    /// there now. `NotSupported`: it is for vector graphics. `InvalidArgument`: it is none that may
    /// be read; the generation has no such core.
    fn peek(&self, selector: CoreSelector, address: u32) -> Result<Option<u32>> {
        let core = match self.device.any(selector) {
            Ok(core) => core,
            Err(Error::GpuNotResponding) => return Ok(None),
            Err(error) => return Err(error),
        };
        match core.hardware().is_readable(address) {
            true => core.if_on(|hardware| hardware.read_register(address)),
            false => Err(Error::InvalidArgument),
        }
    }

    /// Writes it; `None`: as above, and nothing has happened. `InvalidArgument`: it is none that
    /// may be written so. Else as [`Process::peek`].
    fn poke(&self, selector: CoreSelector, address: u32, data: u32) -> Result<Option<()>> {
        let core = match self.device.any(selector) {
            Ok(core) => core,
            Err(Error::GpuNotResponding) => return Ok(None),
            Err(error) => return Err(error),
        };
        match core.hardware().is_writable(address, data) {
            true => core.if_on(|hardware| hardware.write_register(address, data)),
            false => Err(Error::InvalidArgument),
        }
    }

    /// READ_REGISTER. `off_reads_zero`: as [`Request`](crate::abi::Request) has it. `NotSupported`:
    /// the caller may not, or it is a core for vector graphics. `InvalidArgument`: it is none that
    /// may be read.
    pub(super) fn read_register(
        &self,
        selector: CoreSelector,
        address: u32,
        off_reads_zero: bool,
    ) -> Result<Reply<'_>> {
        admin_only()?;
        match self.peek(selector, address)? {
            Some(data) => Ok(Reply::Register(data)),
            None if off_reads_zero => Ok(Reply::Register(0)),
            None => Ok(Reply::Off),
        }
    }

    /// WRITE_REGISTER. Errors as [`Process::read_register`].
    pub(super) fn write_register(
        &self,
        selector: CoreSelector,
        address: u32,
        data: u32,
        off_reads_zero: bool,
    ) -> Result<Reply<'_>> {
        admin_only()?;
        match self.poke(selector, address, data)? {
            Some(()) => Ok(Reply::Nothing),
            None if off_reads_zero => Ok(Reply::Nothing),
            None => Ok(Reply::Off),
        }
    }

    /// Calls `each` with the place and the selector of each core that `cores` names.
    /// `InvalidArgument`: one is not there.
    fn for_cores(
        &self,
        selector: CoreSelector,
        cores: u32,
        mut each: impl FnMut(usize, CoreSelector) -> Result,
    ) -> Result {
        if cores >> EX_CORES != 0 {
            return Err(Error::InvalidArgument);
        }
        let first = self.device.place(selector.with_index(0))?;
        // CAST: 4 of them.
        for index in (0..EX_CORES as u32).filter(|index| cores >> index & 1 != 0) {
            let core = selector.with_index(index);
            // One that there is not means the first.
            if index != 0 && self.device.place(core)? == first {
                return Err(Error::InvalidArgument);
            }
            each(core.index(), core)?;
        }
        Ok(())
    }

    /// READ_REGISTER_EX. Errors as [`Process::read_register`].
    pub(super) fn read_registers(
        &self,
        selector: CoreSelector,
        address: u32,
        cores: u32,
    ) -> Result<Reply<'_>> {
        admin_only()?;
        let (mut found, mut is_off) = ([None; EX_CORES], false);
        self.for_cores(selector, cores, |index, core| {
            found[index] = self.peek(core, address)?;
            is_off |= found[index].is_none();
            Ok(())
        })?;
        // No error, for a caller that looks only for errors: the values are zeros, then.
        Ok(match is_off {
            true => Reply::AllOff,
            false => Reply::Registers(found),
        })
    }

    /// WRITE_REGISTER_EX. `ChipNotReady`: a core is off. Else as [`Process::read_register`].
    pub(super) fn write_registers(
        &self,
        selector: CoreSelector,
        address: u32,
        cores: u32,
        data: [u32; EX_CORES],
    ) -> Result {
        admin_only()?;
        self.for_cores(selector, cores, |index, core| {
            let poked = self.poke(core, address, data[index])?;
            poked.ok_or(Error::ChipNotReady)
        })
    }

    /// DEBUG: prints a text. Trace levels and zones are not this driver's.
    pub(super) fn print(&self, text: Text) {
        if text.0[0] != 0 && MESSAGES.allow() {
            pr_info!("process {} says: {}\n", self.id(), text);
        }
    }

    /// DUMP_GPU_STATE: into the log. Errors as [`Process::read_register`].
    pub(super) fn dump_state(&self, selector: CoreSelector) -> Result<Reply<'_>> {
        admin_only()?;
        let core = match self.device.any(selector) {
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

    /// DUMP_EVENT: says in the log what is under way. `NotSupported`: the caller may not.
    pub(super) fn dump_jobs(&self) -> Result {
        admin_only()?;
        for core in self.device.cores().filter(|_| DUMPS.allow()) {
            let (mut jobs, mut oldest) = (0u32, 0);
            core.ring().for_each_job(|job| {
                jobs += 1;
                if jobs == 1 {
                    oldest = job.number;
                }
            });
            // Not decimal: on ARM that divides 64 bits, which the kernel does not have.
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
}
