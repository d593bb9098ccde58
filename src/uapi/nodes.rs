// SPDX-License-Identifier: GPL-2.0-only

//! The DRM nodes, and the cores that they are registered for.
//!
//! Lock: `galcore drm` serializes creation and removal of nodes.
//!
//! Errors of the ten ioctls of the vendor's DRM node (`include/uapi/drm/vivante_drm.h`) are
//! `ENOTTY`, as in the vendor's driver, except that an interrupted wait may restart.

use super::{
    drm::{
        find,
        halves,
        insert,
        long,
        Calls,
        File, //
    },
    etnaviv::Etnaviv, //
};
use crate::{
    client::{
        gem,
        Clients,
        Process, //
    },
    memory::{
        Node,
        Tiling, //
    },
    prelude::*,
    sys::{
        drm::{
            self,
            Driver,
            Opened,
            WORDS, //
        },
        user::narrow, //
    }, //
};
use kernel::device;

/// A core's registration for nodes, until dropped.
pub(crate) struct OfCore {
    clients: Arc<Clients>,
    dev: ARef<device::Device>,
}

impl OfCore {
    /// Registers the core `dev`, and creates the missing nodes for it.
    pub(crate) fn new(clients: &Arc<Clients>, dev: &device::Device) -> Self {
        let mut nodes = clients.drm.lock();
        for (at, node) in nodes.iter_mut().enumerate() {
            if node.is_none() {
                *node = new_node(clients, at, dev);
            }
        }
        drop(nodes);
        Self {
            clients: clients.clone(),
            dev: dev.into(),
        }
    }
}

impl Drop for OfCore {
    /// Moves the core's nodes to another core. The core is no longer published. Ioctls on files of
    /// the old nodes return `ENODEV`.
    fn drop(&mut self) {
        let mut nodes = self.clients.drm.lock();
        for (at, node) in nodes.iter_mut().enumerate() {
            if node.take_if(|node| node.is_of(&self.dev)).is_some() {
                let mut cores = self.clients.device().all_cores();
                *node = cores.find_map(|core| new_node(&self.clients, at, &core.hardware().dev));
            }
        }
    }
}

/// Logs that nodes are missing, if the parameter requests any.
pub(crate) fn log_if_missing(wanted: [bool; 2]) {
    let is_built = cfg!(any(CONFIG_DRM = "y", CONFIG_DRM = "m"));
    if wanted.contains(&true) && is_built && !drm::is_there() {
        pr_info!("no DRM node: drm.ko was not loaded before this module; modprobe does that\n");
    }
}

/// Creates the node at index `at` for the core `dev`, if the parameter requests it.
fn new_node(clients: &Clients, at: usize, dev: &device::Device) -> Option<drm::Node> {
    let wanted = clients.device().parameters.drm_nodes;
    // The node `etnaviv` supports only cores with a ring.
    let has_core = at == 0 || clients.device().cores().next().is_some();
    if !has_core || !wanted.get(at).copied().unwrap_or(false) {
        return None;
    }
    let node = match at {
        0 => drm::Node::new::<File<Vivante>>(dev),
        _ => drm::Node::new::<File<Etnaviv>>(dev),
    };
    match node {
        Ok(node) => Some(node),
        Err(ENOTSUPP) => None,
        Err(error) => {
            dev_warn!(dev, "no DRM node ({error:?})\n");
            None
        }
    }
}

/// Flags of GEM_CREATE.
const CONTIGUOUS: u32 = 1 << 0;
const CACHED: u32 = 1 << 1;
const SECURE: u32 = 1 << 2;

/// Parameters of GEM_QUERY.
const POOL: u32 = 0;
const SIZE: u32 = 1;

/// The ioctls of the vendor's node.
pub(super) struct Vivante;

fn create(
    process: &Arc<Process>,
    file: &Opened<File<Vivante>>,
    bytes: u64,
    flags: u32,
) -> Result<u32> {
    if flags & SECURE != 0 {
        return Err(Error::NotSupported);
    }
    let (contiguous, cached) = (flags & CONTIGUOUS != 0, flags & CACHED != 0);
    let node = gem::create(process, bytes, contiguous, cached)?;
    insert(process, file, &node, bytes)
}

impl Calls for Vivante {
    const DRIVER: Driver = Driver::Vivante;

    const NAMES: &'static [&'static str] = &[
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

    fn run(
        process: &Arc<Process>,
        file: &Opened<File<Self>>,
        number: u32,
        words: &mut [u32; WORDS],
    ) -> Result {
        let &mut [first, second, third, fourth, fifth, sixth, ..] = words;
        if number == 0 {
            words[3] = create(process, file, long(first, second), third)?;
            return Ok(());
        }
        let found = find(file, first)?;
        let node: Arc<Node> = found.get().into();
        match number {
            1 => {
                let user = gem::lock(process, file.file(), &node, second != 0)?;
                [words[2], words[3]] = halves(user);
            }
            2 => gem::unlock(process, &node)?,
            3 => {
                let (user, bytes) = (narrow(long(third, fourth)), long(fifth, sixth));
                gem::maintain(process, &node, second, user, bytes)?;
            }
            4 => {
                let value = match second {
                    POOL => gem::pool_of(process, &node).into(),
                    SIZE => usize_as_u64(found.bytes()),
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
                gem::attach(process, &node, &status)?;
            }
            9 => {
                let handle = gem::refer_to(process, &node)?;
                let status = match node.metadata().status_node() {
                    Some(status) => gem::refer_to(process, status),
                    None => Ok(0),
                };
                let status = status.inspect_err(|_| gem::release(process, &node))?;
                [words[1], words[2]] = [handle, status];
            }
            _ => return Err(Error::InvalidArgument),
        }
        Ok(())
    }

    fn errno(error: Error) -> Errno {
        error.errno().unwrap_or(ENOTTY)
    }
}
