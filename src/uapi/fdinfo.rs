// SPDX-License-Identifier: GPL-2.0-only

//! `/proc/PID/fdinfo/FD` of an open file: the usage of its process, with the keys of the kernel's
//! Documentation/gpu/drm-usage-stats.rst, for monitors.
//!
//! All files of a process are one client, with one `drm-client-id`. An engine is one kind of core;
//! its capacity is the number of these cores. The memory regions `pool`, `contiguous` (contiguous
//! pages outside of the pool) and `virtual` (scattered pages) count the process's allocations;
//! `user` counts foreign memory that is mapped for the GPU.

use crate::{
    abi::HardwareType,
    client::{
        AnyCore,
        Clients,
        Process, //
    },
    sys::decimal::Decimal, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

/// All engines.
const ENGINES: [HardwareType; 5] = [
    HardwareType::ThreeD,
    HardwareType::Both,
    HardwareType::TwoD,
    HardwareType::Vector,
    HardwareType::Neural,
];

/// Prints the usage of `process`.
pub(super) fn show(clients: &Clients, process: &Process, out: &SeqFile) {
    seq_print!(out, "drm-driver:\tgalcore\n");
    seq_print!(out, "drm-client-id:\t{}\n", Decimal(process.number()));
    for kind in ENGINES {
        let is_such = |core: &AnyCore| core.kind() == kind;
        let (mut count, mut busy, mut fastest) = (0u32, 0u64, 0u32);
        for core in clients.device().all_cores().filter(is_such) {
            count += 1;
            busy = busy.saturating_add(process.busy_on(&core));
            fastest = fastest.max(core.full_frequency());
        }
        if count == 0 {
            continue;
        }
        let name = kind.name();
        seq_print!(out, "drm-engine-{name}:\t{} ns\n", Decimal(busy));
        if count > 1 {
            seq_print!(out, "drm-engine-capacity-{name}:\t{count}\n");
        }
        if fastest > 0 {
            seq_print!(out, "drm-maxfreq-{name}:\t{fastest} Hz\n");
        }
    }
    let memory = process.ledgers();
    let contiguous = [memory.video.contiguous, memory.non_paged, memory.contiguous];
    let contiguous = contiguous.map(|ledger| ledger.bytes);
    for (region, bytes) in [
        ("pool", memory.video.system.bytes),
        (
            "contiguous",
            contiguous.into_iter().fold(0, u64::saturating_add),
        ),
        ("virtual", memory.video.scattered.bytes),
        ("user", memory.mapped.bytes),
    ] {
        // Round up: a node of a shared pool may end within a KiB.
        let kib = bytes.div_ceil(1024);
        // Allocated memory is always resident.
        for what in ["total", "resident"] {
            seq_print!(out, "drm-{what}-{region}:\t{} KiB\n", Decimal(kib));
        }
    }
}
