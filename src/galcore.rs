// SPDX-License-Identifier: GPL-2.0-only

//! galcore: the kernel half of the Vivante GPU driver stack.
//!
//! A replacement for the vendor's `galcore.ko` on current kernels, with the same device nodes,
//! ioctls, `/proc` file and module parameters. A request arrives from user space ([`uapi`]) and is
//! decoded ([`abi`]). It uses objects of the process ([`client`], [`memory`]), and becomes words in
//! the ring ([`ring`]) of a core ([`gpu`]). The interrupt ([`hw`]) completes it and wakes the
//! waiters.
//!
//! # Lock order
//!
//! From the outermost to the innermost. A thread may only take a lock below those that it holds.
//!
//! 0. `galcore returns` ([`client::Process`]): one step that returns memory to its process.
//!    `galcore commands` ([`gpu::Device`]): one command of `/proc/driver/gc` at a time.
//!    `galcore dumps` ([`ring`]): the devices of coredumps.
//!    `galcore drm` ([`client::Clients`]): the DRM node's registration, with DRM's locks under it.
//!    `galcore first use` ([`uapi`]): binds a file of a DRM node to a process.
//!    DRM's locks of a file's dma-bufs and of a node's names are above all locks from 1 on.
//! 1. `galcore attachment` ([`sys::dma_buf`]), one for each dma-buf of others. Under it are only
//!    the locks of its owner, `galcore imports`, the list of them, and `galcore pinned pages`.
//! 2. `galcore speeds` ([`client::Clients`]): the cores' clocks. Under it `galcore completion`
//!    ([`ring::Ring`], [`vector::Queue`]): ends jobs and runs their actions. Beside `galcore
//!    speeds`, and above `galcore completion`, too, is `galcore look` ([`ring::Ring`]): one thread
//!    at a time checks a core. Also beside it is `galcore governed` ([`gpu`]): the rates of clocks,
//!    with the kernel's locks of clocks under it.
//! 3. The memory manager's `mmap_lock`. It is above the tables, because page faults of the pool's
//!    windows read these.
//! 4. `galcore process` ([`client::Process`]): the handle tables of one process. `galcore
//!    framebuffers` ([`memory`]): those that the GPU reaches. A thread never holds both.
//! 5. `galcore core` ([`gpu::Core`]), `galcore heap` ([`memory`]), `galcore mmu` and `galcore tlbs`
//!    ([`mmu::Vm`]), `galcore rings` ([`ring::Reclaimer`]) and `galcore pinned pages`
//!    ([`sys::pinned`]). A thread never holds two of them.
//! 6. `galcore ring` ([`ring::Engine`]), also under `galcore tlbs` and `galcore rings`, and
//!    `galcore reclaim` ([`ring::Reclaimer`]). A thread never holds both.
//! 7. Leaves: `galcore revoking` and `galcore snapshot` ([`ring`]), and of [`client`]
//!    `galcore processes` (under it only `galcore hangs`), `galcore shared nodes`,
//!    `galcore shared signals`, `galcore names`, `galcore users`, `galcore restarts`,
//!    `galcore changes`, `galcore timers`,
//!    `galcore shared buffer`, `galcore signal` (under it only the kernel's of a fence) and
//!    `galcore completion page`; `galcore file` ([`uapi`]), `galcore locked pages`
//!    ([`sys::pages`]), `galcore context` ([`context::Context`]), `galcore places`
//!    ([`gpu::Device`]), `galcore space` ([`mmu::AddressSpace`], also under `galcore mmu`) and
//!    `galcore power times` ([`hw`], also under 6).
//!
//! In the C half of [`sys`]: `gal_govern_lock` is above `galcore governed`, because its holder
//! waits for users of the file `gpu_govern`. `gal_domains_lock` is beside 1, with the kernel's
//! locks of power management under it. Leaves are `gal_powers_lock`, also under `gal_domains_lock`,
//! `gal_stand_ins_lock`, under the kernel's lock of components, and `gal_fences_lock`.
//!
//! Holders of locks of 1, 2 and 4 to 7 do not access user memory. Only recovery, system sleep and
//! switching on or off wait for the GPU, under `galcore completion`, for a bounded time.

#![deny(unsafe_code)]
#![warn(clippy::match_bool)]

mod abi;
mod addr;
mod client;
mod context;
mod diag;
mod driver;
mod error;
mod gpu;
mod hw;
mod limits;
mod log;
mod memory;
mod mmu;
mod modes;
mod params;
mod prelude;
mod ranges;
mod ring;
mod stream;
#[allow(unsafe_code)]
mod sys;
mod uapi;
mod vector;
mod wait;

use driver::{
    ClientsGuard,
    Driver,
    ParameterCores, //
};
use kernel::{
    driver::Registration,
    prelude::*,
    InPlaceModule, //
};
use params::Parameters;
use sys::{
    chrdev::CharDevice,
    platform::Adapter,
    text_files,
    work::OwnQueue, //
};
use uapi::OpenedFile;

/// The loaded module. Fields are dropped in order: first no request can arrive any more, then the
/// cores are unbound.
#[pin_data]
struct Galcore {
    _files: CharDevice<OpenedFile>,
    _debug: text_files::Folder,
    _vendor_debug: text_files::Folder,
    _proc: text_files::ProcEntry,
    _cores: ParameterCores,
    #[pin]
    _driver: Registration<Adapter<Driver>>,
    _clients: ClientsGuard,
    _queue: OwnQueue,
}

impl InPlaceModule for Galcore {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(move || {
            let parameters = Parameters::load()?;
            params::show();
            uapi::nodes::log_if_missing(parameters.drm_nodes);
            let major = parameters.major;
            Ok(try_pin_init!(Self {
                _queue: OwnQueue::new()?,
                _clients: ClientsGuard,
                _driver <- Registration::new(driver::NAME, module),
                _cores: ParameterCores::new(&parameters)?,
                _proc: text_files::ProcEntry::new(&diag::proc::FILE)?,
                _vendor_debug: text_files::Folder::new(c"gc", &diag::gc::FILES)?,
                _debug: text_files::Folder::new(c"galcore", &diag::debugfs::FILES)?,
                _files: uapi::register(major)?,
            }))
        })
    }
}

module! {
    type: Galcore,
    name: "galcore",
    authors: ["The galcore in Rust authors"],
    description: "Vivante GPU driver, the galcore interface",
    license: "GPL v2",
    alias: ["char-major-199-*"],
}
