// SPDX-License-Identifier: GPL-2.0-only

//! Which cores the device tree describes, and which drivers have them.

use super::{
    raw_device,
    shim, //
};
use kernel::{
    device::Device,
    io::PhysAddr,
    str::BStr, //
};

/// How many enabled device-tree nodes describe cores.
pub(crate) fn count_nodes() -> usize {
    // SAFETY: The call walks the device tree under its own lock and has no preconditions.
    let count = unsafe { shim::gal_count_nodes() };
    // CAST: 32 bits into at least 32.
    count as usize
}

/// How many power domains the node of `dev` names.
pub(crate) fn count_domains(dev: &Device) -> u32 {
    // SAFETY: The reference guarantees a live device.
    unsafe { shim::gal_count_domains(raw_device(dev)) }
}

/// A device-tree node that describes a core.
pub(crate) struct Node {
    /// The kernel makes a device of it.
    pub(crate) is_enabled: bool,
    /// Its interrupt, as the parameter `irqLine` has it; 0: it has none.
    pub(crate) line: u32,
}

/// The node whose registers start at `registers`: of several an enabled one, if there is any.
pub(crate) fn node_at(registers: PhysAddr) -> Option<Node> {
    let mut node = Node {
        is_enabled: false,
        line: 0,
    };
    // SAFETY: Looks the tree up, and writes to the two fields alone.
    unsafe { shim::gal_find_node(registers, &mut node.is_enabled, &mut node.line) }.then_some(node)
}

/// Bytes of a name, with the zero at its end.
const NAME_BYTES: usize = 64;

/// The device and the driver of a core that the device tree describes.
pub(crate) struct NodeHolder {
    device: [u8; NAME_BYTES],
    driver: [u8; NAME_BYTES],
}

impl NodeHolder {
    /// Of the enabled node with that index; `None` after the last. Waits for a driver that is just
    /// coming to the device or leaving it.
    pub(crate) fn of(index: u32) -> Option<Self> {
        let (mut device, mut driver) = ([0; NAME_BYTES], [0; NAME_BYTES]);
        // SAFETY: Both are as long as is said, and get a string with a zero at its end.
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

    /// The device's name; empty if the kernel has made none of the node.
    pub(crate) fn device(&self) -> &BStr {
        text(&self.device)
    }

    /// The driver's name; empty if none has it.
    pub(crate) fn driver(&self) -> &BStr {
        text(&self.driver)
    }
}

/// The text before the zero.
fn text(bytes: &[u8]) -> &BStr {
    let end = bytes.iter().position(|&byte| byte == 0);
    BStr::from_bytes(&bytes[..end.unwrap_or(bytes.len())])
}
