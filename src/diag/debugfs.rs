// SPDX-License-Identifier: GPL-2.0-only

//! `/sys/kernel/debug/galcore`.
//!
//! `interface`: for each process that has spoken, its id, the generation of the interface that the last
//! of its files speaks, the bytes of that, and why this generation.
//!
//! `pending`: what clients have let go of and is not free yet: objects, processes, mappings of the GPU. With
//! an idle GPU it is zeros within moments; with one that hangs it is not.
//!
//! `scratch`: what states are loaded with that hold no address of the client's, and what those that hold
//! physical addresses are, where the core has such.

use crate::sys;
use kernel::{
    debugfs::{
        Dir,
        File, //
    },
    fmt,
    prelude::*, //
};

/// The files.
#[pin_data]
pub(crate) struct Files {
    // Before its directory.
    #[pin]
    _interface: File<()>,
    #[pin]
    _pending: File<()>,
    #[pin]
    _scratch: File<()>,
    _directory: Dir,
}

impl Files {
    /// Makes them.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init::pin_init_scope(|| {
            let directory = Dir::new(c"galcore");
            Ok(pin_init!(Self {
                _interface <- directory.read_callback_file(c"interface", (), &show_interfaces),
                _pending <- directory.read_callback_file(c"pending", (), &show_pending),
                _scratch <- directory.read_callback_file(c"scratch", (), &show_scratch),
                _directory: directory.clone(),
            }))
        })
    }
}

fn show_pending(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(device) = sys::global::device() else {
        return Ok(());
    };
    let (objects, processes) = device.core().ring().pending();
    let mappings = device.core().space().pending();
    writeln!(f, "{objects} {processes} {mappings}")
}

fn show_interfaces(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(device) = sys::global::device() else {
        return Ok(());
    };
    let mut result = Ok(());
    device.for_each_process(|leader, process| {
        if let Some((choice, bytes)) = process.interface() {
            let line = writeln!(
                f,
                "{leader} {} {bytes} {}",
                choice.format().name(),
                choice.reason.text()
            );
            result = result.and(line);
        }
    });
    result
}

fn show_scratch(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(device) = sys::global::device() else {
        return Ok(());
    };
    let scratch = device.core().scratch();
    match scratch.physical {
        Some(physical) => writeln!(f, "{:#010x} {:#010x}", scratch.address, physical.scratch),
        None => writeln!(f, "{:#010x}", scratch.address),
    }
}
