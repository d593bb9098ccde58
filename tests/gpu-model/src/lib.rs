// SPDX-License-Identifier: GPL-2.0-only
//! A strict software model of Vivante GPU cores.
//!
//! It behaves as silicon does towards a correct driver and takes down everything that silicon forbids. The program
//! `gpu-model` serves it to a virtual machine over vfio-user; without that, [`gpu::Gpu`] runs on plain memory.
//!
//! Rooms: [`server`] (vfio-user, PCI), [`host`] (register block), [`frontend`] (command stream) with [`stream`]
//! (decoding), [`vg`] (the same of VG cores), [`mmu`] with [`mmu_v2`] and [`mmu_vg`], [`bus`] (memory through it),
//! [`engine2d`], [`draw`] (3D) with [`shader`] (instructions over waves) and [`texture`],
//! [`resolve`] with [`surface`] and [`tile_status`], and [`pixel`]; [`irq`], [`memory`], [`control`] (second BAR),
//! [`written`] (what must not be executed),
//! [`strict`] (violations and report), [`personality`] and [`registers`] (what a core is).
//!
//! "spec" in comments is the project's specification of command submission and hardware behaviour.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bus;
pub mod control;
pub mod draw;
pub mod engine2d;
pub mod frontend;
pub mod gpu;
pub mod host;
pub mod irq;
pub mod memory;
pub mod mmu;
pub mod mmu_v2;
pub mod mmu_vg;
pub mod personality;
pub mod pixel;
pub mod profile;
pub mod registers;
pub mod resolve;
pub mod server;
pub mod shader;
pub mod stream;
pub mod strict;
pub mod surface;
pub mod texture;
pub mod tile_status;
pub mod vg;
pub mod waits;
pub mod written;
