// SPDX-License-Identifier: GPL-2.0-only

//! galcore: the kernel half of the Vivante GPU driver stack.
//!
//! A drop-in for the vendor's `galcore.ko`: the same device nodes, ioctls, `/proc` file and module
//! parameters, on a current kernel. A request comes in from user space ([`uapi`]), is decoded
//! ([`abi`]), runs against the process's own objects ([`client`], [`memory`]), and becomes words in
//! the ring ([`ring`]) of a core ([`gpu`]); the interrupt ([`hw`]) brings completion back up to the
//! waiters.
//!
//! # Lock order
//!
//! From the outside in; a lock is taken only while holding ones above it.
//!
//! 0. `galcore returns` ([`client::Process`]): one step of giving a process its own memory back.
//!    `galcore commands` ([`gpu::Device`]): one command of `/proc/driver/gc` at a time.
//!    `galcore dumps` ([`ring`]): the devices that dumps are shown of.
//!    `galcore drm` ([`client::Clients`]): the DRM node comes and goes, with DRM's locks under it.
//!    `galcore first use` ([`uapi`]): a file of a DRM node becomes a process's.
//!    Of DRM's, those of a file's dma-bufs and of a node's names are above all of ours below.
//! 1. `galcore attachment` ([`sys::dma_buf`]), one for each dma-buf of others: its owner's locks
//!    come under it, and `galcore imports`, the list of them, and `galcore pinned pages`; no other
//!    of ours.
//! 2. `galcore speeds` ([`client::Clients`]): setting the cores' clocks; under it
//!    `galcore completion` ([`ring::Ring`], [`vector::Queue`]): ending jobs and running their
//!    actions. `galcore looks` ([`ring::Ring`]) is beside `galcore speeds`, above
//!    `galcore completion` too: looking at a core, one thread at a time. `galcore governed`
//!    ([`gpu`]) is beside it: setting their rates, with the kernel's locks of clocks under it.
//! 3. The memory manager's `mmap_lock`: it comes before the tables, since page faults of the pool's
//!    windows look there.
//! 4. `galcore process` ([`client::Process`]): the handle tables of one process. `galcore
//!    framebuffers` ([`memory`]): those that the GPU reaches. Never one under the other.
//! 5. `galcore core` ([`gpu::Core`]), `galcore heap` ([`memory`]), `galcore mmu` and `galcore tlbs`
//!    ([`mmu::Vm`]), `galcore rings` ([`ring::Reclaimer`]) and `galcore pinned pages`
//!    ([`sys::pages`]): never one under another.
//! 6. `galcore ring` ([`ring::Engine`]), also under `galcore tlbs` and `galcore rings`, and
//!    `galcore reclaim` ([`ring::Reclaimer`]): never one under another.
//! 7. Leaves: `galcore hiding` and `galcore evidence` ([`ring`]), and of [`client`]
//!    `galcore processes` (under it only `galcore guilt`), `galcore shared nodes`,
//!    `galcore shared signals`, `galcore names`, `galcore users`, `galcore restarts`,
//!    `galcore changes`, `galcore timers`,
//!    `galcore shared buffer`, `galcore signal` (under it only the kernel's of a fence) and
//!    `galcore completion page`; `galcore file` ([`uapi`]), `galcore locked pages`
//!    ([`sys::pages`]), `galcore context` ([`context::Context`]), `galcore places`
//!    ([`gpu::Device`]), `galcore space` ([`mmu::AddressSpace`], also under `galcore mmu`) and
//!    `galcore power times` ([`hw`], also under 6).
//!
//! In the C half of [`sys`]: `gal_govern_lock` is above `galcore governed`, for whose holders in
//! the file `gpu_govern` it waits; `gal_domains_lock` is beside 1, with the kernel's locks of power
//! management under it; `gal_powers_lock`, also under that, `gal_stand_ins_lock`, under the
//! kernel's of components, and `gal_fences_lock` are leaves.
//!
//! Nothing waits for the GPU, and no user memory is touched, under 1, 2 and 4 to 7; under 3 nothing
//! of ours waits either. The interrupt half takes no lock.

#![deny(unsafe_code)]

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
    procfs::Entry,
    work::OwnQueue, //
};
use uapi::OpenedFile;

/// The loaded module. Dropped from the top: first nothing can enter any more, then the core goes.
#[pin_data]
struct Galcore {
    _files: CharDevice<OpenedFile>,
    _debug: diag::debugfs::Files,
    _vendor_debug: diag::gc::Files,
    _proc: Entry<diag::proc::Status>,
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
            uapi::drm::log_if_missing(parameters.drm_nodes);
            let major = parameters.major;
            Ok(try_pin_init!(Self {
                _queue: OwnQueue::new()?,
                _clients: ClientsGuard,
                _driver <- Registration::new(driver::NAME, module),
                _cores: ParameterCores::new(&parameters)?,
                _proc: Entry::new()?,
                _vendor_debug: diag::gc::Files::new()?,
                _debug: diag::debugfs::Files::new()?,
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
