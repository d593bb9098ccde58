// SPDX-License-Identifier: GPL-2.0-only
//! A strict software model of Vivante GPU cores.
//!
//! A correct driver sees the behavior of silicon. The model records everything that silicon forbids. The program
//! `gpu-model` serves the model to a virtual machine over vfio-user. Without a virtual machine, [`gpu::Gpu`] runs on
//! plain memory.
//!
//! Modules:
//!
//! * [`server`] (vfio-user, PCI), [`host`] (register block), [`control`] (second BAR), [`irq`], [`memory`];
//! * [`frontend`] (command stream) with [`stream`] (decoding), [`vg`] (the same for VG cores);
//! * [`mmu`] with [`mmu_v2`] and [`mmu_vg`], [`bus`] (memory access through the MMU), [`written`] (memory that must not
//!   be executed);
//! * [`engine2d`], [`draw`] (3D) with [`shader`] (instructions over waves) and [`texture`], [`resolve`] with
//!   [`surface`], [`tile_status`] and [`tiler`], and [`pixel`];
//! * [`strict`] (violations and report), [`personality`] and [`registers`] (identity and registers of a core).
//!
//! # In your own process
//!
//! No virtual machine is needed. Memory is a file that the program also maps (a memfd), and commands are words in it.
//! This example draws a triangle in one color on a GC880:
//!
//! ```
//! use std::fs::File;
//! use std::os::unix::fs::FileExt;
//!
//! use gpu_control::Board;
//! use gpu_model::gpu::{Gpu, Options};
//! use gpu_model::registers::{state::*, *};
//!
//! # fn main() -> anyhow::Result<()> {
//! const COMMANDS: u32 = 0x1000;
//! const VERTICES: u32 = 0x2000;
//! const COLOUR: u32 = 0x4000;
//! let memory = File::from(rustix::fs::memfd_create("gpu", rustix::fs::MemfdFlags::CLOEXEC)?);
//! memory.set_len(0x10_0000)?;
//! let gpu = Gpu::new(Options { threads: 2, ..Options::new(Board::Gc880) })?;
//! gpu.memory.map_file(0, 0x10_0000, memory.try_clone()?, 0)?;
//! let put = |address: u32, words: &[u32]| {
//!     let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
//!     memory.write_all_at(&bytes, address.into())
//! };
//!
//! // A kernel driver does this after a reset: it sets clocks and the memory base of each engine.
//! assert_eq!(gpu.mmio_read(HI_CHIP_MODEL), 0x880);
//! gpu.mmio_write(HI_CLOCK_CONTROL, 0x100);
//! for base in [MC_MEMORY_BASE_ADDR_FE, MC_MEMORY_BASE_ADDR_PE] {
//!     gpu.mmio_write(base, 0);
//! }
//!
//! put(VERTICES, &[[-1.0f32, -1.0], [1.0, -1.0], [-1.0, 1.0]].concat().iter().map(|at| at.to_bits()).collect::<Vec<_>>())?;
//! let vertex_code = gpu_isa::assemble("mov t0, t0")?;
//! let pixel_code = gpu_isa::assemble("mov t1, u0")?;
//! let [half, edge, one] = [32.0f32, 64.0625, 1.0].map(f32::to_bits);
//! let mut commands = Vec::new();
//! for (state, values) in [
//!     (FE_VERTEX_ELEMENT_CONFIG, &[8 << 24 | 2 << 12 | 1 << 7 | 8][..]), // two floats
//!     (0x0680, &[VERTICES]),
//!     (0x06a0, &[8]), // bytes of a vertex
//!     (VS_OUTPUT_COUNT, &[1]),
//!     (VS_INPUT_COUNT, &[1]),
//!     (VS_TEMP_REGISTER_CONTROL, &[1]),
//!     (PA_VIEWPORT_SCALE, &[half, half, one]),
//!     (PA_VIEWPORT_OFFSET, &[half, half, 0]),
//!     (PA_SYSTEM_MODE, &[0x11]),
//!     (PA_CONFIG, &[1 << 16 | 2 << 12]), // filled
//!     (SE_SCISSOR, &[0, 0, edge, edge]),
//!     (PS_OUTPUT_REG, &[1, 1, 2]), // t1; inputs; temporaries
//!     (PS_RANGE, &[0x100 << 16 | 0x100]),
//!     (PS_UNIFORMS, &[one, 0, 0, one]),
//!     (PE_COLOR_FORMAT, &[6 | 0xf << 8]), // A8R8G8B8, all components, tiles of 4 x 4
//!     (PE_COLOR_ADDR, &[COLOUR]),
//!     (PE_COLOR_STRIDE, &[64 * 4]),
//!     (PE_DITHER, &[u32::MAX; 2]),
//!     (SH_INST_MEM, &vertex_code),
//!     (SH_INST_MEM + 0x1000, &pixel_code),
//! ] {
//!     commands.push(0x0800_0000 | (values.len() as u32) << 16 | state / 4); // LOAD_STATE
//!     commands.extend(values);
//!     commands.resize(commands.len().next_multiple_of(2), 0);
//! }
//! commands.extend([0x2800_0000, 4, 0, 1]); // DRAW_PRIMITIVES: triangles, from vertex 0 on, one
//! commands.extend([0x0801_0000 | GL_FLUSH_CACHE / 4, 3, 0x1000_0000, 0]); // then END
//! put(COMMANDS, &commands)?;
//! gpu.mmio_write(FE_COMMAND_ADDRESS, COMMANDS);
//! gpu.mmio_write(FE_COMMAND_CONTROL, COMMAND_CONTROL_ENABLE | commands.len() as u32 / 2);
//! gpu.run_until_idle();
//!
//! let report = gpu.recorder.report();
//! assert!(report.violations.is_empty(), "{:?}", report.violations);
//! let pixel = |tile: u64| -> anyhow::Result<u32> {
//!     let mut bytes = [0; 4];
//!     memory.read_exact_at(&mut bytes, u64::from(COLOUR) + tile * 64)?;
//!     Ok(u32::from_le_bytes(bytes))
//! };
//! assert_eq!(pixel(0)?, 0xffff_0000, "the first tile is red");
//! assert_eq!(pixel(255)?, 0, "the last one is outside");
//! # Ok(())
//! # }
//! ```
//!
//! "spec" in comments means the project's specification of command submission and hardware behavior.

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
pub mod tiler;
pub mod vg;
pub mod waits;
pub mod written;
