// SPDX-License-Identifier: GPL-2.0-only
//! A client of the galcore interface: of 4.6.9 as i.MX6 release 4.0.0 has it, and by [`abi`] of every other generation.
//!
//! Written from the interface's public description (`include/uapi/linux/galcore-4.0.0.h`) and from what the hardware is
//! known to do, not from the driver: it is what an independent program would be.
//!
//! * [`abi`]: the generations, from the facts in `tests/abi`.
//! * [`uapi`]: the wire structures, the Rust twin of the C header.
//! * [`device`]: an open device: commands as functions, memory, signals, mappings.
//! * [`queue`]: event queues.
//! * [`stream`]: words of the command stream.
//! * [`state`]: addresses and values of the states that the streams set.
//! * [`client`]: start-up as a client of that generation does it, command buffers, surfaces.
//! * [`scene`]: a picture as a list of operations, for both engines.
//! * [`render`]: the scene drawn by plain software.
//! * [`draw`]: the scene drawn by the GPU.
//! * [`turning`]: an object that turns, drawn by the 3D core and by software.
//! * [`profile`]: the profiler's commands.
//! * [`sys`] and [`raw`]: the only files with `unsafe`.

pub mod abi;
pub mod client;
pub mod device;
pub mod draw;
pub mod profile;
pub mod queue;
pub mod raw;
pub mod render;
pub mod scene;
pub mod state;
pub mod stream;
pub mod sys;
pub mod turning;
pub mod uapi;

pub use abi::Abi;
pub use client::Client;
pub use client::Surface;
pub use device::Device;
pub use device::Error;
pub use queue::Queue;
pub use stream::Rect;
pub use stream::Stream;
