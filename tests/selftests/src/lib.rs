// SPDX-License-Identifier: GPL-2.0-only
//! Code shared by the test programs.
//!
//! * [`answers`]: answers of drivers to a fixed list of calls.
//! * [`harness`]: KTAP output, checks.
//! * [`control`]: the software GPU's counters and faults.
//! * [`etdump`]: dumps of hangs, as existing tools read them.
//! * [`etnaviv`]: the other driver for these GPUs.
//! * [`contexts`]: helpers of the tests of contexts.
//! * [`deltas`]: state deltas that clients pass to COMMIT.
//! * [`layouts`]: a client for any layout of the interface.
//! * [`neighbors`]: nodes of two processes that alternate in the pool.
//! * [`states`]: the states that take GPU addresses.
//! * [`system`]: memory, kernel log, `/proc/driver/gc`, loading and unloading the module.
//! * [`fixture`]: a client with a surface to draw on.
//! * [`foreign`]: a second process that owns objects.
//! * [`hostile`]: hostile processes, and innocent ones that they must not harm.
//! * [`other`]: a second process that executes commands.
//! * [`terminal`]: a program on a terminal, and its screen.
//! * [`tracing`]: recordings of the driver's trace events.
//! * [`usage`]: the driver's statistics of cores and memory.
//! * [`vg`]: a client of the vector graphics core.
//! * [`video`]: memory that the GPU writes and reads.
//! * [`workers`]: processes that detect jobs that run twice or never.
//! * [`mod@reference`]: the properties of each board's core.

pub mod answers;
pub mod contexts;
pub mod control;
pub mod deltas;
pub mod etdump;
pub mod etnaviv;
pub mod fixture;
pub mod foreign;
pub mod harness;
pub mod hostile;
pub mod layouts;
pub mod neighbors;
pub mod other;
pub mod reference;
pub mod states;
pub mod system;
pub mod terminal;
pub mod tracing;
pub mod usage;
pub mod vg;
pub mod video;
pub mod workers;
