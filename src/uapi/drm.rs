// SPDX-License-Identifier: GPL-2.0-only

//! The files of DRM nodes. A process's DRM files share its objects with its files of
//! `/dev/galcore`. [`super::nodes`] and [`super::etnaviv`] have the ioctls.
//!
//! A file of the node `vivante` belongs to the process that opens it. A file of the node `etnaviv`
//! belongs to the first process that uses it: an X server opens files for its clients (DRI3).
//!
//! Lock: `galcore first use` serializes the assignment of a process to a file of the node
//! `etnaviv`.
//!
//! `/proc/PID/fdinfo/FD` of an open file: the usage of its process, with the keys of the kernel's
//! Documentation/gpu/drm-usage-stats.rst, for monitors.
//!
//! All files of a process are one client, with one `drm-client-id`. An engine is one kind of core;
//! its capacity is the number of these cores. The memory regions `pool`, `contiguous` (contiguous
//! pages outside of the pool) and `virtual` (scattered pages) count the process's allocations;
//! `user` counts foreign memory that is mapped for the GPU.

use super::{
    clients,
    join,
    refuse_area, //
};
use crate::{
    abi::HardwareType,
    client::{
        gem,
        streams,
        window,
        AnyCore,
        Clients,
        Process,
        CLIENTS, //
    },
    log::debug_client,
    memory::Node,
    prelude::*,
    sys::{
        decimal::Decimal,
        dma_buf::{
            Access,
            DmaBuf, //
        },
        drm::{
            Driver,
            Found,
            NodeFile,
            Opened,
            WORDS, //
        },
        vma::{
            NewArea,
            Views, //
        }, //
    }, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print,
    sync::SetOnce, //
};

/// The ioctls of a driver.
pub(super) trait Calls: Send + Sync + Sized + 'static {
    const DRIVER: Driver;

    const NAMES: &'static [&'static str];

    /// Runs ioctl `number`, whose argument is `words`.
    fn run(
        process: &Arc<Process>,
        file: &Opened<File<Self>>,
        number: u32,
        words: &mut [u32; WORDS],
    ) -> Result;

    /// Whether ioctl `number` only queries the core: such an ioctl does not assign a process.
    fn is_query(_number: u32) -> bool {
        false
    }

    /// The errno for a failed ioctl.
    fn errno(error: Error) -> Errno;
}

/// An open file of a node with these ioctls.
#[pin_data]
pub(super) struct File<C> {
    clients: Arc<Clients>,
    /// The process of the file; empty before its first use.
    process: SetOnce<Arc<Process>>,
    /// Serializes the assignment of a process.
    #[pin]
    joining: Mutex<()>,
    /// Its `address_space`; `None`: its opener's. Not DRM's, whose mappings end with the node.
    views: Option<Arc<Views>>,
    _calls: PhantomData<C>,
}

impl<C: Calls> File<C> {
    /// Whether a file belongs to the process that opens it.
    const IS_OPENERS: bool = matches!(C::DRIVER, Driver::Vivante);

    /// The process of the file. `EINVAL`: none yet.
    fn owner(&self) -> Result<&Arc<Process>, Errno> {
        self.process.as_ref().ok_or(EINVAL)
    }

    /// The process of the file. Assigns the caller if the file has none yet.
    fn of_user(&self) -> Result<&Arc<Process>, Errno> {
        match self.process.as_ref() {
            Some(process) => Ok(process),
            None => self.join().map_err(busy),
        }
    }

    /// Runs a query on a file without a process.
    #[cold]
    #[inline(never)]
    fn answer(
        &self,
        file: &Opened<Self>,
        number: u32,
        words: &mut [u32; WORDS],
    ) -> Result<Result, Errno> {
        let process = join(&self.clients).map_err(busy)?;
        let done = C::run(&process, file, number, words);
        self.clients.leave(process);
        Ok(done)
    }

    #[cold]
    #[inline(never)]
    fn join(&self) -> Result<&Arc<Process>, Errno> {
        let joining = self.joining.lock();
        if self.process.as_ref().is_none() {
            self.process.populate(join(&self.clients)?);
        }
        drop(joining);
        self.owner()
    }
}

/// Replaces the `EAGAIN` of `open`: libraries would repeat the ioctl endlessly.
fn busy(error: Errno) -> Errno {
    match error {
        EAGAIN => EBUSY,
        error => error,
    }
}

/// Joins two words to 64 bits.
pub(super) fn long(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Splits 64 bits into two words.
pub(super) fn halves(value: u64) -> [u32; 2] {
    // CAST: the two halves.
    [value as u32, (value >> 32) as u32]
}

/// The object of a handle. `NotFound`: unknown handle.
pub(super) fn find<C: Calls>(file: &Opened<File<C>>, handle: u32) -> Result<Found<File<C>>> {
    file.find(handle).ok_or(Error::NotFound)
}

/// Makes a handle for `node`, of `bytes` bytes, which [`gem::create`] has allocated.
pub(super) fn insert<C: Calls>(
    process: &Arc<Process>,
    file: &Opened<File<C>>,
    node: &Arc<Node>,
    bytes: u64,
) -> Result<u32> {
    // The allocation has checked the size.
    let bytes = usize::try_from(bytes).map_err(|_| Error::OutOfMemory)?;
    let handle = file.insert(node.clone(), bytes);
    // The object has its own reference now; on failure this frees the node.
    gem::release(process, node);
    Ok(handle?)
}

/// The errno for DRM's own ioctls and for etnaviv's.
pub(super) fn errno(error: Error) -> Errno {
    match error {
        Error::OutOfMemory => ENOMEM,
        Error::OutOfResources | Error::ChipNotReady => EBUSY,
        Error::NotFound | Error::InvalidObject => ENOENT,
        Error::NotSupported => ENXIO,
        Error::Timeout => ETIMEDOUT,
        Error::GpuNotResponding => EIO,
        error => error.errno().unwrap_or(EINVAL),
    }
}

impl<C: Calls> NodeFile for File<C> {
    type Object = Node;

    const DRIVER: Driver = C::DRIVER;

    fn open() -> Result<Arc<Self>, Errno> {
        let views = if Self::IS_OPENERS {
            None
        } else {
            Some(Views::new()?)
        };
        let clients = clients()?;
        let file = pin_init!(Self {
            clients,
            process: SetOnce::new(),
            joining <- new_mutex!((), "galcore first use"),
            views,
            _calls: PhantomData,
        });
        let file = Arc::pin_init(file, crate::sys::GFP_CLIENT)?;
        if Self::IS_OPENERS {
            file.join()?;
        }
        Ok(file)
    }

    fn views(&self) -> Option<&Views> {
        match &self.views {
            Some(views) => Some(views),
            None => self.process.as_ref().map(|process| &*process.views),
        }
    }

    fn bind(self: ArcBorrow<'_, Self>) -> Result<(), Errno> {
        self.of_user().map(|_| ())
    }

    fn call(
        self: ArcBorrow<'_, Self>,
        file: &Opened<Self>,
        number: u32,
        words: &mut [u32; WORDS],
    ) -> Result<(), Errno> {
        let done = match self.process.as_ref() {
            None if C::is_query(number) => self.answer(file, number, words)?,
            _ => C::run(self.of_user()?, file, number, words),
        };
        done.map_err(|error| {
            let name = C::NAMES.get(u32_as_usize(number)).unwrap_or(&"?");
            debug_client!(in Kernel, "{name} ({:#x}, {:#x}, ...): {error}", words[0], words[1]);
            C::errno(error)
        })
    }

    fn mmap(self: ArcBorrow<'_, Self>, area: NewArea<'_>) -> Result<(), Errno> {
        let offset = area.offset();
        // Only files that belong to their opener map the pool, in their process's `address_space`.
        if offset == 0 && !Self::IS_OPENERS {
            refuse_area(EINVAL, offset);
            return Err(EINVAL);
        }
        let view = window::mmap(self.owner()?, area);
        view.map(|_| ())
            .map_err(|error| match refuse_area(error, offset) {
                ENOTTY if !Self::IS_OPENERS => EINVAL,
                error => error,
            })
    }

    fn show(self: ArcBorrow<'_, Self>, out: &SeqFile) {
        #[cfg(CONFIG_PROC_FS)]
        if let Ok(process) = self.owner() {
            show(&self.clients, process, out);
        }
    }

    fn enter(self: ArcBorrow<'_, Self>, object: &Arc<Node>) -> Result<(), Errno> {
        gem::enter(self.of_user()?, object).map_err(errno)
    }

    fn leave(self: ArcBorrow<'_, Self>, object: &Arc<Node>) {
        if let Ok(process) = self.owner() {
            gem::leave(process, object);
        }
    }

    fn check(&self, object: &Arc<Node>, is_first: bool) -> Result<(), Errno> {
        let checked = streams::check_export(self.owner()?, object, is_first);
        checked.map_err(errno)
    }

    fn export(object: &Arc<Node>, access: Access) -> Result<DmaBuf, Errno> {
        let clients = CLIENTS.get().ok_or(ENODEV)?;
        clients.export_object(object, access).map_err(errno)
    }

    fn import(buffer: &DmaBuf) -> Result<Arc<Node>, Errno> {
        let clients = CLIENTS.get().ok_or(ENODEV)?;
        clients.import_object(buffer).map_err(errno)
    }

    fn settle(self: ArcBorrow<'_, Self>) -> Result<(), Errno> {
        gem::settle(self.owner()?).map_err(errno)
    }

    fn release(self: Arc<Self>) {
        if let Ok(process) = self.owner() {
            self.clients.leave(process.clone());
        }
    }
}

/// All engines.
const ENGINES: [HardwareType; 5] = [
    HardwareType::ThreeD,
    HardwareType::Both,
    HardwareType::TwoD,
    HardwareType::Vector,
    HardwareType::Neural,
];

/// Prints the usage of `process`.
pub(super) fn show(clients: &Clients, process: &Process, out: &SeqFile) {
    seq_print!(out, "drm-driver:\tgalcore\n");
    seq_print!(out, "drm-client-id:\t{}\n", Decimal(process.number));
    for kind in ENGINES {
        let is_such = |core: &AnyCore| core.kind() == kind;
        let (mut count, mut busy, mut fastest) = (0u32, 0u64, 0u32);
        for core in clients.device().all_cores().filter(is_such) {
            count += 1;
            busy = busy.saturating_add(process.busy_on(&core));
            fastest = fastest.max(core.full_frequency());
        }
        if count == 0 {
            continue;
        }
        let name = kind.name();
        seq_print!(out, "drm-engine-{name}:\t{} ns\n", Decimal(busy));
        if count > 1 {
            seq_print!(out, "drm-engine-capacity-{name}:\t{count}\n");
        }
        if fastest > 0 {
            seq_print!(out, "drm-maxfreq-{name}:\t{fastest} Hz\n");
        }
    }
    let memory = process.ledgers();
    let contiguous = [memory.video.contiguous, memory.non_paged, memory.contiguous];
    let contiguous = contiguous.map(|ledger| ledger.bytes);
    for (region, bytes) in [
        ("pool", memory.video.system.bytes),
        (
            "contiguous",
            contiguous.into_iter().fold(0, u64::saturating_add),
        ),
        ("virtual", memory.video.scattered.bytes),
        ("user", memory.mapped.bytes),
    ] {
        // Round up: a node of a shared pool may end within a KiB.
        let kib = bytes.div_ceil(1024);
        // Allocated memory is always resident.
        for what in ["total", "resident"] {
            seq_print!(out, "drm-{what}-{region}:\t{} KiB\n", Decimal(kib));
        }
    }
}
