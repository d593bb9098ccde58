// SPDX-License-Identifier: GPL-2.0-only
//! What the test programs share.
//!
//! * [`answers`]: what drivers answer to a fixed list of calls.
//! * [`harness`]: KTAP output, checks.
//! * [`control`]: the software GPU's counters and faults.
//! * [`etdump`]: dumps of hangs, as existing tools read them.
//! * [`etnaviv`]: the other driver for GPUs of this kind.
//! * [`contexts`]: what the tests of contexts share.
//! * [`deltas`]: what clients of contexts give with COMMIT.
//! * [`states`]: the states that take GPU addresses.
//! * [`system`]: memory, kernel log, `/proc/driver/gc`, loading and unloading the module.
//! * [`fixture`]: a client with a surface to draw on.
//! * [`foreign`]: another process that owns things.
//! * [`hostile`]: processes that harm others if they can, and those that must not be harmed.
//! * [`other`]: another process that does what it is told.
//! * [`terminal`]: a program on a terminal, and what is on its screen.
//! * [`usage`]: what the driver tells of the use of cores and memory.
//! * [`vg`]: a client of the vector graphics core.
//! * [`video`]: memory that the GPU writes and reads.
//! * [`workers`]: processes that see it if a job runs twice, or not at all.
//! * [`mod@reference`]: what each board's core is.

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
