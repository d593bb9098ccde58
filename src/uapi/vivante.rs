// SPDX-License-Identifier: GPL-2.0-only

//! The DRM node "vivante": its ten ioctls (`include/uapi/drm/vivante_drm.h`), and which core it is
//! of.
//!
//! As the vendor's, it answers `ENOTTY` whatever is wrong. Lock: `galcore drm`, under which the node
//! comes and goes.

use super::{
    fdinfo,
    join,
    refuse_area, //
};
use crate::{
    client::{
        Clients,
        Process,
        CLIENTS, //
    },
    error::{
        Error,
        Result, //
    },
    log::debug_client,
    memory::{
        Node,
        Tiling, //
    },
    sys::{
        dma_buf::{
            Access,
            DmaBuf, //
        },
        drm::{
            self,
            Found,
            NodeFile,
            Opened,
            WORDS, //
        },
        views::Views,
        vma::NewArea, //
    }, //
};
use kernel::{
    device,
    error::Error as Errno,
    prelude::*,
    seq_file::SeqFile,
    sync::{
        aref::ARef,
        Arc,
        ArcBorrow, //
    }, //
};

/// The ioctls, by their numbers.
const NAMES: [&str; 10] = [
    "GEM_CREATE",
    "GEM_LOCK",
    "GEM_UNLOCK",
    "GEM_CACHE",
    "GEM_QUERY",
    "GEM_TIMESTAMP",
    "GEM_SET_TILING",
    "GEM_GET_TILING",
    "GEM_ATTACH_AUX",
    "GEM_REF_NODE",
];

/// Flags of GEM_CREATE.
const CONTIGUOUS: u32 = 1 << 0;
const CACHED: u32 = 1 << 1;
const SECURE: u32 = 1 << 2;

/// What GEM_QUERY asks for.
const POOL: u32 = 0;
const SIZE: u32 = 1;

/// An open file of the node.
pub(crate) struct File {
    clients: Arc<Clients>,
    process: Arc<Process>,
}

/// The 64 bits of two words.
fn long(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The two words of 64 bits.
fn halves(value: u64) -> [u32; 2] {
    // CAST: the two halves.
    [value as u32, (value >> 32) as u32]
}

/// The object of a handle. `NotFound`: there is none.
fn find(file: &Opened<File>, handle: u32) -> Result<Found<File>> {
    file.find(handle).ok_or(Error::NotFound)
}

impl File {
    fn create(&self, file: &Opened<Self>, bytes: u64, flags: u32) -> Result<u32> {
        if flags & SECURE != 0 {
            return Err(Error::NotSupported);
        }
        let (contiguous, cached) = (flags & CONTIGUOUS != 0, flags & CACHED != 0);
        let node = self.process.create_object(bytes, contiguous, cached)?;
        // Checked by the allocation.
        let bytes = usize::try_from(bytes).map_err(|_| Error::OutOfMemory)?;
        let handle = file.insert(node.clone(), bytes);
        // The object has one of its own now, or the node goes.
        self.process.leave_object(&node);
        Ok(handle?)
    }

    fn run(&self, file: &Opened<Self>, number: u32, words: &mut [u32; WORDS]) -> Result {
        let process = &self.process;
        let &mut [first, second, third, fourth, fifth, sixth] = words;
        if number == 0 {
            words[3] = self.create(file, long(first, second), third)?;
            return Ok(());
        }
        let found = find(file, first)?;
        let node: Arc<Node> = found.get().into();
        match number {
            1 => {
                let user = process.lock_object(file.file(), &node, second != 0)?;
                [words[2], words[3]] = halves(user);
            }
            2 => process.unlock_object(&node)?,
            3 => {
                let (user, bytes) = (long(third, fourth), long(fifth, sixth));
                process.maintain_object(&node, second, user, bytes)?;
            }
            4 => {
                let value = match second {
                    POOL => process.object_pool(&node).into(),
                    // CAST: at most 64 bits.
                    SIZE => found.bytes() as u64,
                    _ => return Err(Error::NotSupported),
                };
                [words[2], words[3]] = halves(value);
            }
            5 => [words[2], words[3]] = halves(node.metadata().count(second)?),
            6 => node.metadata().set_tiling(Tiling {
                modes: [second, third, fourth],
                clear_value: long(fifth, sixth),
            })?,
            7 => {
                let Tiling { modes, clear_value } = node.metadata().tiling();
                [words[1], words[2], words[3]] = modes;
                [words[4], words[5]] = halves(clear_value);
            }
            8 if second == 0 && node.metadata().status_node().is_some() => {
                return Err(Error::NotSupported);
            }
            8 if second == 0 => {}
            8 => {
                let status = find(file, second)?.get().into();
                process.attach_object(&node, &status)?;
            }
            9 => {
                let handle = process.refer_to_object(&node)?;
                let status = match node.metadata().status_node() {
                    Some(status) => process.refer_to_object(status),
                    None => Ok(0),
                };
                let status = status.inspect_err(|_| process.leave_object(&node))?;
                [words[1], words[2]] = [handle, status];
            }
            _ => return Err(Error::InvalidArgument),
        }
        Ok(())
    }
}

/// What DRM's own ioctls answer.
fn errno(error: Error) -> Errno {
    match error {
        Error::OutOfMemory => ENOMEM,
        Error::OutOfResources => EBUSY,
        Error::InvalidData => EACCES,
        error => error.errno().unwrap_or(EINVAL),
    }
}

impl NodeFile for File {
    type Object = Node;

    fn open() -> Result<Arc<Self>, Errno> {
        let (clients, process) = join()?;
        let file = Self {
            clients: clients.clone(),
            process: process.clone(),
        };
        let file = Arc::new(file, crate::sys::GFP_CLIENT);
        Ok(file.inspect_err(|_| clients.leave(process))?)
    }

    fn views(&self) -> &Views {
        self.process.views()
    }

    fn call(
        self: ArcBorrow<'_, Self>,
        file: &Opened<Self>,
        number: u32,
        words: &mut [u32; WORDS],
    ) -> Result<(), Errno> {
        self.run(file, number, words).map_err(|error| {
            // CAST: 32 bits into at least 32.
            let name = NAMES.get(number as usize).unwrap_or(&"?");
            debug_client!(in Kernel, "{name} of object {}: {error}", words[0]);
            error.errno().unwrap_or(ENOTTY)
        })
    }

    fn mmap(self: ArcBorrow<'_, Self>, area: NewArea<'_>) -> Result<(), Errno> {
        let offset = area.offset();
        let view = self.process.mmap(area);
        view.map(|_| ()).map_err(|error| refuse_area(error, offset))
    }

    fn show(self: ArcBorrow<'_, Self>, out: &SeqFile) {
        #[cfg(CONFIG_PROC_FS)]
        fdinfo::show(&self.clients, &self.process, out);
    }

    fn enter(self: ArcBorrow<'_, Self>, object: &Arc<Node>) -> Result<(), Errno> {
        let entered = self.process.refer_to_object(object);
        entered.map(|_| ()).map_err(errno)
    }

    fn leave(self: ArcBorrow<'_, Self>, object: &Arc<Node>) {
        self.process.leave_object(object);
    }

    fn check(&self) -> Result<(), Errno> {
        self.process.may_export_objects().map_err(errno)
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
        self.process.settle_objects().map_err(errno)
    }

    fn release(self: Arc<Self>) {
        self.clients.leave(self.process.clone());
    }
}

/// As long as it lives, the node can be of the core `dev`.
pub(crate) struct OfCore {
    clients: Arc<Clients>,
    dev: ARef<device::Device>,
}

impl OfCore {
    /// A core has come: if there is no node yet, there is one of this core.
    pub(crate) fn new(clients: &Arc<Clients>, dev: &device::Device) -> Self {
        let mut drm = clients.drm().lock();
        if drm.is_none() {
            *drm = new_node(clients, dev);
        }
        drop(drm);
        Self {
            clients: clients.clone(),
            dev: dev.into(),
        }
    }
}

impl Drop for OfCore {
    /// The core goes, and is not published any more: the node is another one's then. Open files
    /// answer `ENODEV`.
    fn drop(&mut self) {
        let mut drm = self.clients.drm().lock();
        if drm.take_if(|node| node.is_of(&self.dev)).is_some() {
            let mut cores = self.clients.device().all_cores();
            *drm = cores.find_map(|core| new_node(&self.clients, core.hardware().device()));
        }
    }
}

/// Logs that there will be no node, if that is not what the parameter says.
pub(crate) fn tell_if_missing(is_wanted: bool) {
    if is_wanted && cfg!(any(CONFIG_DRM = "y", CONFIG_DRM = "m")) && !drm::is_there() {
        pr_info!("no DRM node: drm.ko was not loaded before this module; modprobe does that\n");
    }
}

fn new_node(clients: &Clients, dev: &device::Device) -> Option<drm::Node> {
    if !clients.device().parameters().has_drm_node {
        return None;
    }
    match drm::Node::new::<File>(dev) {
        Ok(node) => Some(node),
        Err(ENOTSUPP) => None,
        Err(error) => {
            dev_warn!(dev, "no DRM node ({error:?})\n");
            None
        }
    }
}
