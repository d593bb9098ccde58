// SPDX-License-Identifier: GPL-2.0-only

//! The cores in the device tree, and the drivers that are bound to them.

use super::{
    raw_device,
    shim, //
};
use kernel::{
    device::Device,
    io::PhysAddr,
    str::BStr, //
};

/// Number of enabled device-tree nodes of cores.
pub(crate) fn count_nodes() -> usize {
    // SAFETY: The call walks the device tree under the tree's lock and has no preconditions.
    let count = unsafe { shim::gal_count_nodes() };
    // CAST: 32 bits into at least 32.
    count as usize
}

/// Number of power domains in the node of `dev`.
pub(crate) fn count_domains(dev: &Device) -> u32 {
    // SAFETY: The reference guarantees a live device.
    unsafe { shim::gal_count_domains(raw_device(dev)) }
}

/// A device-tree node of a core.
pub(crate) struct Node {
    /// Whether the node is enabled.
    pub(crate) is_enabled: bool,
    /// The interrupt, as for the parameter `irqLine`. 0: none.
    pub(crate) line: u32,
}

/// The node whose registers start at `registers`. If there are several, prefers an enabled one.
pub(crate) fn node_at(registers: PhysAddr) -> Option<Node> {
    let mut node = Node {
        is_enabled: false,
        line: 0,
    };
    // SAFETY: The call searches the tree and only writes to the two fields.
    unsafe { shim::gal_find_node(registers, &mut node.is_enabled, &mut node.line) }.then_some(node)
}

/// Room for a name, in bytes, with the terminating zero.
const NAME_BYTES: usize = 64;

/// The names of the device and the driver of a core in the device tree.
pub(crate) struct NodeHolder {
    device: [u8; NAME_BYTES],
    driver: [u8; NAME_BYTES],
}

impl NodeHolder {
    /// Of the enabled node with index `index`. `None`: there is none. Does not wait: a driver that
    /// is binding or unbinding may be missing.
    pub(crate) fn of(index: u32) -> Option<Self> {
        let (mut device, mut driver) = ([0; NAME_BYTES], [0; NAME_BYTES]);
        // SAFETY: Both buffers have the given length. The call writes terminated strings.
        let is_there = unsafe {
            shim::gal_node_holder(
                index,
                device.as_mut_ptr().cast(),
                driver.as_mut_ptr().cast(),
                NAME_BYTES,
            )
        };
        is_there.then_some(Self { device, driver })
    }

    /// The device's name. Empty if the node has no device.
    pub(crate) fn device(&self) -> &BStr {
        text(&self.device)
    }

    /// The driver's name. Empty if no driver is bound.
    pub(crate) fn driver(&self) -> &BStr {
        text(&self.driver)
    }
}

/// The text before the terminating zero.
fn text(bytes: &[u8]) -> &BStr {
    let end = bytes.iter().position(|&byte| byte == 0);
    BStr::from_bytes(&bytes[..end.unwrap_or(bytes.len())])
}
