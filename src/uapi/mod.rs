// SPDX-License-Identifier: GPL-2.0-only

//! `/dev/galcore` and `/dev/graphics/galcore`: open, ioctl, mmap, release.
//!
//! An open file holds a reference to its process's objects. The envelope has exact sizes, a
//! malformed call returns ENOTTY, and every status copies the whole interface back: sources.md,
//! ioctl, has these rules. Lock: `galcore file`, a leaf.

mod detection;
mod drm;
mod etnaviv;
pub(crate) mod nodes;
mod perfmon;
mod refusals;

use crate::{
    abi::{
        self,
        detect::{
            Choice,
            Reason, //
        },
        extensions::{
            Extension,
            MAX_EXTENSION_BYTES, //
        },
        CoreSelector,
        Format,
        Reply, //
    },
    client::{
        import,
        restarts,
        window,
        Clients,
        PoolView,
        Process,
        CLIENTS, //
    },
    log::{
        debug_client,
        warn_client,
        RateLimit, //
    },
    prelude::*,
    sys::{
        chrdev::{
            Caller,
            CharDevice,
            FileOperations,
            OpenFile, //
        },
        user::{
            self,
            UserWords, //
        },
        vma::{
            NewArea,
            Views, //
        }, //
    }, //
};
use detection::{
    word,
    Argument, //
};
use kernel::seq_file::SeqFile;

/// `IOCTL_GCHAL_INTERFACE`.
const INTERFACE: u32 = 30000;

/// `IOCTL_GCHAL_PROFILER_INTERFACE`, in some generations.
const PROFILER: u32 = 30001;

/// Unknown codes closer than this to [`INTERFACE`] are logged: they are meant for a galcore.
const NEAR: u32 = 16;

/// Highest `gceHARDWARE_TYPE` that the envelope accepts.
const MAX_HARDWARE_TYPE: u32 = 7;

/// Rate limit for log lines about malformed calls.
static ENVELOPES: RateLimit = RateLimit::new();

/// Rate limit for log lines about processes that may not open the device.
static OPENS: RateLimit = RateLimit::new();

/// `GALCORE_IOC_SET_INTERFACE`: `_IOW('G', 1, char[16])`.
const SET_INTERFACE: u32 = 0x4010_4701;

/// `GALCORE_IOC_RESETS`: `_IOR('G', 2, struct galcore_resets)`.
const RESETS: u32 = 0x8010_4702;

/// The bits of an ioctl code that hold the argument size; 0 in the vendor's codes.
const SIZE: u32 = 0x3FFF << 16;

/// Bytes of [`SET_INTERFACE`]'s argument: a name, padded with zeros.
const NAME_BYTES: usize = 16;

/// One open file.
#[pin_data]
pub(crate) struct OpenedFile {
    clients: Arc<Clients>,
    process: Arc<Process>,
    /// The file's generation ([`Choice::pack`]), which its first ioctl sets, with [`DETECTED`] once
    /// it is final. 0: unknown.
    interface: Atomic<u32>,
    /// The possible generations while `interface` is a guess, as packed
    /// [`Candidates`](crate::abi::evidence::Candidates). 0: it never was a guess.
    candidates: Atomic<u32>,
    /// The file's last mapping of the pool.
    #[pin]
    pool_view: Mutex<Option<Arc<PoolView>>>,
}

/// The file's generation is final.
const DETECTED: u32 = 1 << 16;

/// Logs user memory that cannot be read or written.
#[cold]
#[inline(never)]
fn malformed(what: &str, at: usize) -> Error {
    warn_client!(ENVELOPES: "{what} at {at:#x} is not in its memory");
    Error::Envelope
}

/// Logs an unknown hardware type.
#[cold]
#[inline(never)]
fn refuse_type(found: u32) -> Error {
    warn_client!(ENVELOPES: "hardwareType is {found:#x}: it is 0 to {MAX_HARDWARE_TYPE}");
    Error::Envelope
}

/// Logs an unknown ioctl.
#[cold]
#[inline(never)]
fn refuse_code(code: u32) -> Errno {
    warn_client!(ENVELOPES: "ioctl {code:#x} is unknown: use {INTERFACE} or this driver's own");
    ENOTTY
}

/// The return value of an ioctl.
#[inline(always)]
fn answered(result: Result) -> Result<isize, Errno> {
    result
        .map(|()| 0)
        .map_err(|error| error.errno().unwrap_or(ENOTTY))
}

impl OpenedFile {
    #[inline(always)]
    fn argument(&self, caller: Caller, at: usize) -> Result<(Argument, Format)> {
        let known = self.interface.load(Relaxed);
        let choice = match known & DETECTED {
            // Read the argument again below: another thread may change it after detection.
            0 => self.detect_interface(caller, at)?,
            _ => Choice::unpack(known).ok_or(Error::Envelope)?,
        };
        let format = choice.format();
        let argument = Argument::read(at, format, caller)?;
        if format.takes(argument.input_bytes, argument.output_bytes) {
            Ok((argument, format))
        } else {
            Err(Self::refuse_sizes(&argument, format))
        }
    }

    /// Logs why the request in `words`, for `core`, failed, for the client's developer.
    #[cold]
    #[inline(never)]
    fn explain(
        &self,
        file: &OpenFile,
        format: Format,
        words: &[u32],
        core: CoreSelector,
        error: Error,
    ) {
        // Normal answers, which polling clients get often.
        if matches!(error, Error::Timeout | Error::ChipNotReady) {
            return;
        }
        let refused = refusals::Refused {
            name: format.command_name(words),
            command: word(words, 0),
            request: &format.decode_apart(words),
            core: self.clients.device().place(core),
            selector: core,
            is_read_write: file.is_read_write(),
            error,
            status: format.reported(words, error),
        };
        if refused.is_always_logged() {
            warn_client!(ENVELOPES: "{}", refused)
        } else {
            debug_client!(in Kernel, "{}", refused)
        }
    }

    /// Logs an interface whose size is not the generation's.
    #[cold]
    #[inline(never)]
    fn refuse_sizes(argument: &Argument, format: Format) -> Error {
        warn_client!(ENVELOPES:
            "an interface of {:#x} bytes in and {:#x} out, on a file that speaks {}",
            argument.input_bytes, argument.output_bytes, format.name());
        Error::Envelope
    }

    #[inline(always)]
    fn interface(&self, file: &OpenFile, caller: Caller, at: usize) -> Result {
        let (argument, format) = self.argument(caller, at)?;
        // CAST: both are sizes of an interface.
        let (input, output) = (
            argument.input_bytes as usize,
            argument.output_bytes as usize,
        );
        let mut room = UserWords::<{ abi::MAX_INTERFACE_BYTES / 4 }>::new();
        let whole = if format.may_be_shorter() {
            format.interface_bytes()
        } else {
            input
        };
        let words = room
            .read_padded(argument.input, input, whole)
            .map_err(|_| malformed("the interface", argument.input))?;
        let core = format.core(words);
        let view = || self.pool_view.lock().clone();
        let part = |index| format.decode_part(words, index);
        let request = format.decode(words);
        if !core.is_up_to(MAX_HARDWARE_TYPE) && !format.is_for_any_type(&request) {
            return Err(refuse_type(format.hardware_type(words)));
        }
        let text = || format.text(words);
        let is_restarted = restarts::begin_call(&self.process, format.status(words));
        let mut outcome = self.process.run(file, view, part, text, core, request);
        if let Err(error @ (Error::Interrupted | Error::WaitInterrupted)) = outcome {
            outcome = Err(self.number_call(&argument, format, error));
        }
        if is_restarted {
            restarts::end_call(&self.process);
        }
        match &outcome {
            Ok(reply) => {
                format.encode(words, reply);
                format.succeed(words, reply);
            }
            Err(error) if error.errno().is_some() => return Err(*error),
            Err(error) => {
                self.explain(file, format, words, core, *error);
                format.fail(words, *error);
            }
        }
        argument.answer(words, output)?;
        // Only now does the caller have the descriptor's number.
        if let Ok(Reply::File(file)) = outcome {
            file.install();
        }
        Ok(())
    }

    /// Writes the call's number to the caller, because `error` may restart the call. Returns
    /// `error`; `Envelope`: the write failed, and the call has submitted parts.
    #[cold]
    #[inline(never)]
    fn number_call(&self, argument: &Argument, format: Format, error: Error) -> Error {
        let Some((number, has_parts)) = restarts::interrupted_call(&self.process) else {
            return error;
        };
        // All candidate generations have the status at this offset.
        let at = argument.input.wrapping_add(format.status_at());
        match user::put(at, &number) {
            Err(_) if has_parts => malformed("the interface", at),
            _ => error,
        }
    }

    /// The interface ioctl, the hot path.
    #[inline(never)]
    fn run_interface(&self, file: &OpenFile, caller: Caller, at: usize) -> Result<isize, Errno> {
        answered(self.interface(file, caller, at))
    }

    /// All other ioctls, out of line to keep the hot path fast.
    #[inline(never)]
    fn run_other(&self, caller: Caller, code: u32, at: usize) -> Result<isize, Errno> {
        // C libraries probe files, for example for a terminal. Those codes have no size.
        if code & SIZE == 0 && code.abs_diff(INTERFACE) >= NEAR {
            return Err(ENOTTY);
        }
        match code {
            SET_INTERFACE => self.set_interface(at).map(|()| 0),
            RESETS => self.report_resets(at).map(|()| 0),
            // Other generations use this code inside the kernel, with kernel addresses.
            PROFILER => answered(self.profiler_interface(caller, at)),
            _ => match Extension::of(code) {
                Some(extension) => answered(self.extension(extension, caller, at)),
                None if code.abs_diff(INTERFACE) >= NEAR => Err(ENOTTY),
                None => Err(refuse_code(code)),
            },
        }
    }

    /// One of Russell King's ioctls, out of line to keep the hot path fast.
    #[cold]
    #[inline(never)]
    fn extension(&self, extension: Extension, caller: Caller, at: usize) -> Result {
        let Some(choice) = self.known_or_of_parameter() else {
            warn_client!(ENVELOPES:
                "maps memory before its first command: where its status must go depends on the generation (see interface)");
            return Err(Error::Envelope);
        };
        let format = choice.format();
        let argument = Argument::read(at, format, caller)?;
        let bytes = extension.bytes();
        if argument.input_bytes != usize_as_u64(bytes)
            || argument.output_bytes != usize_as_u64(bytes)
        {
            return Err(Self::refuse_sizes(&argument, format));
        }
        let mut room = UserWords::<{ MAX_EXTENSION_BYTES / 4 }>::new();
        let words = room
            .read(argument.input, bytes)
            .map_err(|_| malformed("the interface", argument.input))?;
        let mapped = extension
            .decode(words)
            .and_then(|import| import::map_foreign(&self.process, import));
        match mapped {
            Err(error) if error.errno().is_some() => Err(error),
            answer => {
                extension.encode(words, format, answer);
                argument.answer(words, bytes)
            }
        }
    }

    /// The ioctl of the profiler's commands, in generations with a separate interface for them.
    /// Other commands are invalid there.
    #[cold]
    #[inline(never)]
    fn profiler_interface(&self, caller: Caller, at: usize) -> Result {
        // It may be the first ioctl of the file.
        let (argument, format) = match self.known_or_of_parameter().map(Choice::format) {
            Some(format) => (Argument::read(at, format, caller)?, format),
            None => {
                let (argument, ..) = Argument::read_any(at, caller)?;
                let format = Format::with_profiler_interface(argument.input_bytes);
                (argument, format.ok_or(Error::Envelope)?)
            }
        };
        let sizes = (argument.input_bytes, argument.output_bytes);
        let bytes = format
            .profiler_bytes(sizes)
            .ok_or_else(|| Self::refuse_sizes(&argument, format))?;
        let mut room = UserWords::<{ abi::MAX_INTERFACE_BYTES / 4 }>::new();
        let words = room
            .read(argument.input, bytes)
            .map_err(|_| malformed("the interface", argument.input))?;
        let core = format.core(words);
        let request = format.decode_profiler_interface(words);
        let answer = self
            .process
            .run_profiler(core, request, &|| format.text(words));
        match answer {
            Err(error) if error.errno().is_some() => Err(error),
            answer => {
                format.answer_profiler(words, answer);
                argument.answer(words, bytes)
            }
        }
    }

    /// GALCORE_IOC_RESETS: counts core resets that affected the process. `EFAULT`.
    #[cold]
    #[inline(never)]
    fn report_resets(&self, at: usize) -> Result<(), Errno> {
        let counts = self.process.resets.counts();
        let words = [counts.guilty, counts.innocent, counts.dropped, 0];
        user::put(at, &words)
    }

    /// GALCORE_IOC_SET_INTERFACE: selects the file's generation.
    ///
    /// `EINVAL`: unknown name. `EBUSY`: the file already uses another generation. `EFAULT`: the
    /// name cannot be read.
    #[cold]
    #[inline(never)]
    fn set_interface(&self, at: usize) -> Result<(), Errno> {
        let mut room = UserWords::<{ NAME_BYTES / 4 }>::new();
        let bytes = zerocopy::IntoBytes::as_bytes(&*room.read(at, NAME_BYTES)?);
        let end = bytes.iter().position(|&byte| byte == 0).ok_or(EINVAL)?;
        let choice = Choice::by_name(&bytes[..end], Reason::Asked).ok_or(EINVAL)?;
        let known = self.interface.load(Relaxed);
        if known & DETECTED != 0 || self.candidates.load(Relaxed) != 0 {
            let now = Choice::unpack(known).map(Choice::format);
            if now != Some(choice.format()) {
                return Err(EBUSY);
            }
            // The guess is right: make it final, unless another thread has just changed it.
            if known & DETECTED == 0 {
                let noted = self
                    .interface
                    .cmpxchg(known, choice.pack() | DETECTED, Full);
                noted.map_err(|_| EBUSY)?;
            }
            return Ok(());
        }
        self.interface
            .cmpxchg(known, choice.pack(), Full)
            .map(|_| ())
            .map_err(|_| EBUSY)
    }
}

/// The clients of the device. `ENODEV`: the device has no core.
fn clients() -> Result<Arc<Clients>, Errno> {
    let clients = CLIENTS.get().filter(|clients| clients.device().has_cores());
    clients.ok_or(ENODEV)
}

/// Opens the device for the calling process; returns its objects, until [`Clients::leave`].
fn join(clients: &Arc<Clients>) -> Result<Arc<Process>, Errno> {
    clients.join().map_err(|error| match error {
        EAGAIN => {
            warn_client!(OPENS:
                "cannot open the device: {} processes of its user have it open, or are ending",
                clients.max_processes());
            error
        }
        ENOSPC => {
            warn_client!(OPENS: "cannot open the device: all address spaces of the GPU are in use");
            EAGAIN
        }
        error => error,
    })
}

/// Logs why `mmap(2)` fails, and returns its error.
fn refuse_area(error: Errno, offset: u64) -> Errno {
    match error {
        ENOMEM => ENOMEM,
        EPERM => ENOTTY,
        _ => {
            warn_client!(ENVELOPES:
                "mmap at offset {offset:#x}: nothing is there, or less than asked for, or it is writable");
            ENOTTY
        }
    }
}

impl FileOperations for OpenedFile {
    fn open() -> Result<Arc<Self>, Errno> {
        let clients = clients()?;
        let process = join(&clients)?;
        let (the_clients, the_process) = (clients.clone(), process.clone());
        let file = pin_init!(Self {
            clients: the_clients,
            process: the_process,
            interface: Atomic::new(0),
            candidates: Atomic::new(0),
            pool_view <- new_mutex!(None, "galcore file"),
        });
        Arc::pin_init(file, crate::sys::GFP_CLIENT).inspect_err(|_: &Errno| {
            clients.leave(process);
        })
    }

    #[inline(always)]
    fn ioctl(
        self: ArcBorrow<'_, Self>,
        file: &OpenFile,
        caller: Caller,
        code: u32,
        argument: usize,
    ) -> Result<isize, Errno> {
        match code {
            INTERFACE => self.run_interface(file, caller, argument),
            _ => self.run_other(caller, code, argument),
        }
    }

    #[cfg(CONFIG_PROC_FS)]
    fn show(self: ArcBorrow<'_, Self>, out: &SeqFile) {
        drm::show(&self.clients, &self.process, out);
    }

    fn views(&self) -> &Views {
        &self.process.views
    }

    fn mmap(self: ArcBorrow<'_, Self>, area: NewArea<'_>) -> Result<(), Errno> {
        let offset = area.offset();
        let view = window::mmap(&self.process, area);
        let view = view.map_err(|error| refuse_area(error, offset));
        if let Some(view) = view? {
            *self.pool_view.lock() = Some(view);
        }
        Ok(())
    }

    fn release(self: Arc<Self>) {
        self.clients.leave(self.process.clone());
    }
}

/// Registers the character device under `major` (0: any).
pub(crate) fn register(major: u32) -> Result<CharDevice<OpenedFile>, Errno> {
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
