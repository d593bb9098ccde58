// SPDX-License-Identifier: GPL-2.0-only

//! What clients tell each other of a node (SET_VIDEO_MEMORY_METADATA), and descriptors that keep
//! what a picture is made of while it goes from one process to the next (GET_GRAPHIC_BUFFER_FD).
//!
//! The vendor's driver takes a reference of the dma-buf that metadata name, which it never uses. A
//! node whose metadata name its own dma-buf would never go then, so here the descriptor is looked
//! at, and not held. Source: 6.4.11's `gc_hal_kernel.c`.

use super::{
    names::Name,
    shared_buffers::Piece,
    signal::Signal,
    Process, //
};
use crate::{
    abi::{
        NodeMetadata,
        Reply,
        GRAPHIC_BUFFER_NODES, //
    },
    error::{
        Error,
        Result, //
    },
    memory::Node,
    sys::{
        dma_buf,
        holder, //
    }, //
};
use kernel::sync::Arc;

/// A node and its name: by it, others can import the node, also when its maker has freed it.
struct KeptNode {
    _node: Arc<Node>,
    _name: Name<Node>,
}

/// The objects that a descriptor keeps. It gives no access to them.
struct GraphicBuffer {
    _nodes: [Option<KeptNode>; GRAPHIC_BUFFER_NODES],
    _piece: Option<(Name<Piece>, Arc<Piece>)>,
    _signal: Option<Arc<Signal>>,
}

impl Process {
    /// A node that the process has, with its name; `None`: it is the process's own memory.
    /// `InvalidObject`: it has none of this handle.
    fn hold_node(&self, handle: u32) -> Result<Option<KeptNode>> {
        match self.name_of(handle) {
            Ok(number) => {
                let (name, node) = Name::hold_own(self.clients.names(), number)?;
                Ok(Some(KeptNode {
                    _node: node,
                    _name: name,
                }))
            }
            // The process's own memory has no name, and is given back by FREE or the process's end.
            // A descriptor that kept it could keep pages pinned that no process is charged for.
            Err(Error::NotSupported) => self.live_node(handle).map(|_| None),
            Err(error) => Err(error),
        }
    }

    /// SET_VIDEO_MEMORY_METADATA, which all processes that have the node can read.
    /// `InvalidObject`: no such node. `NotFound`: the descriptor is no dma-buf's; as with the
    /// vendor's it is noted, and nothing else.
    pub(super) fn set_metadata(&self, handle: u32, metadata: NodeMetadata) -> Result<Reply<'_>> {
        let node = self.live_node(handle)?;
        let noted = node.metadata();
        noted.set_status(metadata.status)?;
        if metadata.status >= 0 && !dma_buf::is_buffer(metadata.status) {
            return Err(Error::NotFound);
        }
        noted.set_words(metadata.words)?;
        Ok(Reply::Nothing)
    }

    /// The same, asked. `InvalidObject`: no such node.
    pub(super) fn read_metadata(&self, handle: u32) -> Result<Reply<'_>> {
        let node = self.live_node(handle)?;
        Ok(Reply::Metadata(node.metadata().read()))
    }

    /// GET_GRAPHIC_BUFFER_FD: a descriptor that keeps the nodes, the shared buffer and the signal
    /// (those that are not 0), and the names of the first two, until its last holder closes it. It
    /// keeps nothing of nodes that are the process's own memory.
    ///
    /// `InvalidObject`: no such node. `NotFound`: no such shared buffer or signal.
    /// `OutOfResources`: no descriptor is left.
    pub(super) fn keep_graphic_buffer(
        &self,
        nodes: [u32; GRAPHIC_BUFFER_NODES],
        piece: u32,
        signal: u32,
    ) -> Result<Reply<'_>> {
        let mut kept = [const { None }; GRAPHIC_BUFFER_NODES];
        let named = nodes.into_iter().filter(|&handle| handle != 0);
        for (place, handle) in kept.iter_mut().zip(named) {
            *place = self.hold_node(handle)?;
        }
        let buffer = GraphicBuffer {
            _nodes: kept,
            _piece: match piece {
                0 => None,
                id => Some(self.hold_piece(id)?),
            },
            _signal: match signal {
                0 => None,
                id => Some(self.signal(id)?),
            },
        };
        Ok(Reply::File(holder::keep(buffer)?))
    }
}
