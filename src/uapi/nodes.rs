// SPDX-License-Identifier: GPL-2.0-only

//! The DRM nodes, and the cores that they are registered for.
//!
//! Lock: `galcore drm` serializes creation and removal of nodes.

use super::{
    drm::File,
    etnaviv::Etnaviv,
    vivante::Vivante, //
};
use crate::{
    client::Clients,
    prelude::*,
    sys::drm, //
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
        let mut nodes = clients.drm().lock();
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
        let mut nodes = self.clients.drm().lock();
        for (at, node) in nodes.iter_mut().enumerate() {
            if node.take_if(|node| node.is_of(&self.dev)).is_some() {
                let mut cores = self.clients.device().all_cores();
                *node =
                    cores.find_map(|core| new_node(&self.clients, at, core.hardware().device()));
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
    let wanted = clients.device().parameters().drm_nodes;
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
