// SPDX-License-Identifier: GPL-2.0-only

//! `/dev/galcore` and `/dev/graphics/galcore`: open, ioctl, mmap, release.
//!
//! An open file holds its process's objects and nothing else. The envelope's rules (exact sizes,
//! ENOTTY for whatever is malformed, the interface copied back whole whatever the status) are those
//! of spec/memory-events.md section 1.3. Lock: `galcore file`, a leaf.

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
    session::{
        PoolView,
        Process, //
    },
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
        new_mutex,
        Arc,
        ArcBorrow,
        Mutex, //
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
#[pin_data]
pub(crate) struct OpenedFile {
    device: Arc<Device>,
    process: Arc<Process>,
    /// Where this file's last mmap of the pool is.
    #[pin]
    pool_view: Mutex<Option<Arc<PoolView>>>,
}

/// The ioctl's argument (`DRIVER_ARGS`).
struct Argument {
    input: usize,
    input_bytes: u64,
    output: usize,
    output_bytes: u64,
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
        let pointer = |at: usize| {
            let mut word = [0; size_of::<usize>()];
            word.copy_from_slice(&bytes[at..at + size_of::<usize>()]);
            usize::from_le_bytes(word)
        };
        let size = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Ok(Self {
            input: pointer(0),
            input_bytes: size(8),
            output: pointer(16),
            output_bytes: size(24),
        })
    }
}

impl OpenedFile {
    fn interface(&self, file: &OpenFile, at: usize) -> Result {
        let argument = Argument::read(at)?;
        // CAST: a small constant.
        let bytes = abi::INTERFACE_BYTES as u64;
        if argument.input_bytes != bytes || argument.output_bytes != bytes {
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
        let view = || self.pool_view.lock().clone();
        match self.process.run(file, view, abi::decode(&bytes)) {
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
        let (the_device, the_process) = (device.clone(), process.clone());
        let file = pin_init!(Self {
            device: the_device,
            process: the_process,
            pool_view <- new_mutex!(None, "galcore file"),
        });
        Arc::pin_init(file, GFP_KERNEL).inspect_err(|_: &kernel::error::Error| {
            device.leave(process);
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
        if let Some(view) = self.process.mmap(area).map_err(|_| ENOTTY)? {
            *self.pool_view.lock() = Some(view);
        }
        Ok(())
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
