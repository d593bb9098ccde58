// SPDX-License-Identifier: GPL-2.0-only
//! A client of the galcore interface. The default generation is 4.6.9 with the layout of i.MX6 release 4.0.0; [`abi`]
//! describes all others.
//!
//! It is written from the interface's public description (`include/uapi/linux/galcore-4.0.0.h`) and from known
//! hardware behavior. It shares no code with the driver, so it acts as an independent program.
//!
//! * [`abi`]: the generations, from the facts in `tests/abi`.
//! * [`uapi`]: the wire structures, the Rust counterpart of the C header.
//! * [`device`]: an open device: commands as functions, memory, signals, mappings.
//! * [`queue`]: event queues.
//! * [`stream`]: words of the command stream.
//! * [`state`]: addresses and values of the states that the streams load.
//! * [`client`]: start-up like a vendor client of that generation, command buffers, surfaces.
//! * [`scene`]: a picture as a list of operations, for both engines.
//! * [`render`]: draws the scene in software.
//! * [`draw`]: draws the scene with the GPU.
//! * [`turning`]: a rotating object, drawn by the 3D core and by software.
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
