// SPDX-License-Identifier: GPL-2.0-only

//! Metadata of nodes, which clients exchange (SET_VIDEO_MEMORY_METADATA), and descriptors that keep
//! the objects of a picture alive while processes pass it on (GET_GRAPHIC_BUFFER_FD).
//!
//! The vendor's driver holds a reference to the dma-buf in the metadata, but never uses it. A node
//! whose metadata names its own dma-buf would then never be freed. So this driver checks the
//! descriptor, but holds no reference. Source: 6.4.11's `gc_hal_kernel.c`.

use super::{
    import,
    name::Name,
    names,
    shared_buffers::{
        self,
        Piece, //
    },
    signal::Signal,
    signals,
    Process, //
};
use crate::{
    abi::{
        NodeMetadata,
        Reply,
        GRAPHIC_BUFFER_NODES, //
    },
    memory::Node,
    prelude::*,
    sys::{
        dma_buf,
        holder, //
    }, //
};

/// A node and its name. Others can import the node by the name after its maker has freed it.
struct KeptNode {
    _node: Arc<Node>,
    _name: Name<Node>,
}

/// The objects that a descriptor keeps alive. It gives no access to them.
struct GraphicBuffer {
    _nodes: [Option<KeptNode>; GRAPHIC_BUFFER_NODES],
    _piece: Option<(Name<Piece>, Arc<Piece>)>,
    _signal: Option<Arc<Signal>>,
}

/// A node of the process and its name. `None`: the node wraps the process's own memory.
/// `InvalidObject`: no such node.
fn hold_node(process: &Process, handle: u32) -> Result<Option<KeptNode>> {
    match names::name_of(process, handle) {
        Ok(number) => {
            let (name, node) = Name::hold_own(process.clients.names(), number)?;
            Ok(Some(KeptNode {
                _node: node,
                _name: name,
            }))
        }
        // Wrapped memory has no name, and FREE or the end of the process returns it. A
        // descriptor that kept it could pin pages that no process is charged for.
        Err(Error::NotSupported) => import::live_node(process, handle).map(|_| None),
        Err(error) => Err(error),
    }
}

/// SET_VIDEO_MEMORY_METADATA. All processes that have the node can read it. `InvalidObject`: no
/// such node. `NotFound`: the descriptor is no dma-buf. It is stored then, but the words are
/// not, as in the vendor's driver.
pub(super) fn set_metadata(
    process: &Process,
    handle: u32,
    metadata: NodeMetadata,
) -> Result<Reply<'_>> {
    let node = import::live_node(process, handle)?;
    let noted = node.metadata();
    noted.set_status(metadata.status)?;
    if metadata.status >= 0 && !dma_buf::is_buffer(metadata.status) {
        return Err(Error::NotFound);
    }
    noted.set_words(metadata.words)?;
    Ok(Reply::Nothing)
}

/// Reads the metadata of a node. `InvalidObject`: no such node.
pub(super) fn read_metadata(process: &Process, handle: u32) -> Result<Reply<'_>> {
    let node = import::live_node(process, handle)?;
    Ok(Reply::Metadata(node.metadata().read()))
}

/// GET_GRAPHIC_BUFFER_FD: a descriptor that keeps objects and names until its last close. It
/// keeps the nodes, the shared buffer and the signal whose handles are not 0, and the names of
/// nodes and buffer. It does not keep nodes that wrap the process's own memory.
///
/// `InvalidObject`: no such node. `NotFound`: no such shared buffer or signal.
/// `OutOfResources`: no descriptor is left.
pub(super) fn keep(
    process: &Process,
    nodes: [u32; GRAPHIC_BUFFER_NODES],
    piece: u32,
    signal: u32,
) -> Result<Reply<'_>> {
    let mut kept = [const { None }; GRAPHIC_BUFFER_NODES];
    let named = nodes.into_iter().filter(|&handle| handle != 0);
    for (place, handle) in kept.iter_mut().zip(named) {
        *place = hold_node(process, handle)?;
    }
    let buffer = GraphicBuffer {
        _nodes: kept,
        _piece: match piece {
            0 => None,
            id => Some(shared_buffers::hold_piece(process, id)?),
        },
        _signal: match signal {
            0 => None,
            id => Some(signals::find(process, id)?),
        },
    };
    Ok(Reply::File(holder::keep(buffer)?))
}
