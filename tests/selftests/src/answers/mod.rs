// SPDX-License-Identifier: GPL-2.0-only
//! What a driver answers to a fixed list of calls, in words that are the same on every driver that does the same.
//!
//! * [`cases`]: the list, `tests/abi/behaviour/cases.txt`, read and expanded.
//! * [`perform`]: doing one of them.
//! * [`symbols`]: numbers that a driver is free to choose, told by which were the same.
//! * [`compare`]: the answers recorded of another driver, and why this one differs where it does.

pub mod cases;
pub mod compare;
pub mod perform;
pub mod symbols;
