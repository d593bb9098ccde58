// SPDX-License-Identifier: GPL-2.0-only

//! `/dev/galcore` and `/dev/graphics/galcore`: open, ioctl, mmap, release.
//!
//! An open file holds its process's objects and nothing else. The envelope's rules (exact sizes,
//! ENOTTY for whatever is malformed, the interface copied back whole whatever the status) are those
//! of spec/memory-events.md section 1.3. Takes no lock.

use crate::{
    abi,
    board::Device,
    diag::log::{
        warn_client,
        RateLimit, //
    },
    error::{
        Error,
        Result, //
    },
    session::Process,
    sys::{
        self,
        chrdev::{
            CharDevice,
            FileOperations,
            OpenFile, //
        },
    },
};
use kernel::{
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    uaccess::UserSlice, //
};

/// `IOCTL_GCHAL_INTERFACE`.
const INTERFACE: u32 = 30000;

/// Highest `gceHARDWARE_TYPE` that the envelope accepts.
const MAX_HARDWARE_TYPE: u32 = 7;

/// Malformed calls, of whatever process.
static ENVELOPES: RateLimit = RateLimit::new();

/// One open file.
pub(crate) struct OpenedFile {
    device: Arc<Device>,
    process: Arc<Process>,
}

/// The ioctl's argument (`DRIVER_ARGS`).
struct Argument {
    input: usize,
    input_bytes: usize,
    output: usize,
    output_bytes: usize,
}

impl Argument {
    fn read(at: usize) -> Result<Self> {
        let mut bytes = [0; abi::ARGUMENT_BYTES];
        UserSlice::new(UserPtr::from_addr(at), bytes.len())
            .reader()
            .read_slice(&mut bytes)
            .map_err(|_| Error::Envelope)?;
        // Old clients declare the pointers as 32 bits with padding behind, which may hold anything:
        // on a 32-bit kernel only the low halves count.
        let field = |at: usize| {
            let mut word = [0; size_of::<usize>()];
            word.copy_from_slice(&bytes[at..at + size_of::<usize>()]);
            usize::from_le_bytes(word)
        };
        Ok(Self {
            input: field(0),
            input_bytes: field(8),
            output: field(16),
            output_bytes: field(24),
        })
    }
}

impl OpenedFile {
    fn interface(&self, file: &OpenFile, at: usize) -> Result {
        let argument = Argument::read(at)?;
        if argument.input_bytes != abi::INTERFACE_BYTES
            || argument.output_bytes != abi::INTERFACE_BYTES
        {
            warn_client!(
                ENVELOPES,
                "an interface of {} bytes in and {} out, where 4.6.9 has {}: its library is of another generation",
                argument.input_bytes,
                argument.output_bytes,
                abi::INTERFACE_BYTES
            );
            return Err(Error::Envelope);
        }
        let mut bytes = [0; abi::INTERFACE_BYTES];
        UserSlice::new(UserPtr::from_addr(argument.input), bytes.len())
            .reader()
            .read_slice(&mut bytes)
            .map_err(|_| Error::Envelope)?;
        if abi::hardware_type(&bytes) > MAX_HARDWARE_TYPE {
            return Err(Error::Envelope);
        }
        match self.process.run(file, abi::decode(&bytes)) {
            Ok(reply) => {
                abi::encode(&mut bytes, &reply);
                abi::set_status(&mut bytes, 0);
            }
            Err(error) if error.errno().is_some() => return Err(error),
            Err(error) => abi::set_status(&mut bytes, error.status()),
        }
        UserSlice::new(UserPtr::from_addr(argument.output), bytes.len())
            .writer()
            .write_slice(&bytes)
            .map_err(|_| Error::Envelope)
    }
}

impl FileOperations for OpenedFile {
    fn open() -> Result<Arc<Self>, kernel::error::Error> {
        let device = sys::global::device().ok_or(ENODEV)?;
        let process = device.join()?;
        let file = Self {
            device: device.clone(),
            process: process.clone(),
        };
        Arc::new(file, GFP_KERNEL).map_err(|error| {
            device.leave(process);
            error.into()
        })
    }

    fn ioctl(
        self: ArcBorrow<'_, Self>,
        file: &OpenFile,
        code: u32,
        argument: usize,
    ) -> Result<isize, kernel::error::Error> {
        let result = match code {
            INTERFACE => self.interface(file, argument),
            // 30001 would be the kernel's own face, which hands out kernel addresses.
            _ => Err(Error::Envelope),
        };
        result
            .map(|()| 0)
            .map_err(|error| error.errno().unwrap_or(ENOTTY))
    }

    fn mmap(self: ArcBorrow<'_, Self>, area: &VmaNew) -> Result<(), kernel::error::Error> {
        self.process.mmap(area).map_err(|_| ENOTTY)
    }

    fn release(self: Arc<Self>) {
        self.device.leave(self.process.clone());
    }
}

/// Registers the character device under `major` (0: any).
pub(crate) fn register(major: u32) -> Result<CharDevice<OpenedFile>, kernel::error::Error> {
    CharDevice::new(
        major,
        c"galcore",
        c"graphics_class",
        &[c"galcore", c"graphics!galcore"],
    )
    .inspect_err(|error| {
        pr_err!("cannot register major {major}: {error:?}; is another galcore loaded?\n");
    })
}
