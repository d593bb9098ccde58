// SPDX-License-Identifier: GPL-2.0-only

//! The device: its cores, and the address space and memory that they share.
//!
//! Cores are bound and unbound while files are open. Memory, address space and job numbers persist.
//! Each core has a place (an index), which it gets again when it is bound again.
//!
//! Lock: `galcore places`. Its holder only waits for readers of a place.

use super::{
    any::{
        each,
        AnyCore,
        IdleState, //
    },
    core::{
        Core,
        VectorCore, //
    },
    govern::Governor,
    route::{
        self,
        Firsts, //
    }, //
};
use crate::{
    abi::{
        row::Row,
        CoreSelector,
        HardwareType,
        IdentityWords, //
    },
    hw::Hardware,
    memory::VideoMemory,
    mmu::Vm,
    params::{
        self,
        Parameters, //
    },
    prelude::*,
    ring::{
        Account,
        Config,
        Handover,
        Payload,
        Reclaimer,
        Waited, //
    },
    sys::{
        power::KeptOn,
        slot::Slot, //
    },
    wait, //
};
use kernel::{
    io::PhysAddr,
    sync::SetOnce, //
};

/// The kind of a place that no core has had.
const NO_KIND: u32 = 0;

/// The core that has, or had, a place.
#[derive(Clone, Copy, Default)]
struct Tenant {
    /// Address of its registers; 0: no core has had the place.
    registers: PhysAddr,
    is_there: bool,
    /// The counts from which the next core here continues, after this one was unbound.
    handover: Handover,
}

#[derive(Clone, Copy, Default)]
struct Tenants {
    by_place: [Tenant; MAX_CORES],
    /// No core gets a place any more.
    is_closed: bool,
}

/// The device of `/dev/galcore`: its cores and its memory.
#[pin_data]
pub(crate) struct Device<P: Payload> {
    pub(crate) parameters: KBox<Parameters>,
    /// The bound cores with a ring, by place.
    cores: [Slot<Core<P>>; MAX_CORES],
    /// The bound cores for vector graphics, by place.
    vectors: [Slot<VectorCore<P>>; MAX_CORES],
    /// The kinds of cores that are or were bound, by place.
    kinds: [Atomic<u32>; MAX_CORES],
    /// [`Firsts`] of `kinds`.
    firsts: Atomic<u32>,
    /// The cores' identities, as clients see them, by place.
    identities: [SetOnce<IdentityWords>; MAX_CORES],
    #[pin]
    tenants: Mutex<Tenants>,
    /// Physical address of GPU address 0, for cores that do not translate all addresses.
    pub(crate) base_address: u32,
    pub(crate) vm: Arc<Vm>,
    pub(crate) memory: Arc<VideoMemory>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    /// The operating points of the 3D cores.
    pub(crate) governor: Arc<Governor>,
    /// Held for each command of the administrator.
    #[pin]
    pub(crate) admin: Mutex<Admin>,
}

/// Settings of the administrator for the cores, from `/proc/driver/gc`.
#[derive(Default)]
pub(crate) struct Admin {
    /// By place, keeps the cores on while they are idle. `None`: idle cores go off.
    pub(crate) kept_on: Option<[Option<KeptOn>; MAX_CORES]>,
    /// Power domains keep their power while their cores are off.
    pub(crate) keeps_domains: bool,
}

/// The number of a kind in `Device::kinds`.
fn number(kind: HardwareType) -> u32 {
    match kind {
        HardwareType::ThreeD => 1,
        HardwareType::TwoD => 2,
        HardwareType::Both => 3,
        HardwareType::Vector => 4,
        HardwareType::Neural => 5,
    }
}

/// The kind of a number in `Device::kinds`.
fn kind(number: u32) -> Option<HardwareType> {
    match number {
        1 => Some(HardwareType::ThreeD),
        2 => Some(HardwareType::TwoD),
        3 => Some(HardwareType::Both),
        4 => Some(HardwareType::Vector),
        5 => Some(HardwareType::Neural),
        _ => None,
    }
}

impl<P: Payload> Device<P> {
    /// A device without cores. `ENOMEM`.
    pub(crate) fn new(
        parameters: KBox<Parameters>,
        base_address: u32,
        vm: Arc<Vm>,
        memory: Arc<VideoMemory>,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>, Errno> {
        let governor = Governor::new()?;
        Arc::pin_init(
            pin_init!(Self {
                parameters,
                cores: [const { Slot::new() }; MAX_CORES],
                vectors: [const { Slot::new() }; MAX_CORES],
                kinds: [const { Atomic::new(NO_KIND) }; MAX_CORES],
                firsts: Atomic::new(0),
                identities: [const { SetOnce::new() }; MAX_CORES],
                tenants <- new_mutex!(Tenants::default(), "galcore places"),
                base_address,
                vm,
                memory,
                reclaimer,
                governor,
                admin <- new_mutex!(Admin::default(), "galcore commands"),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes a place for the core whose registers are at `registers`: its former one, or a new one.
    /// `EBUSY`: all are taken. `EPROBE_DEFER`: another device replaces this one.
    pub(crate) fn take_place(self: &Arc<Self>, registers: PhysAddr) -> Result<Place<P>, Errno> {
        let mut tenants = self.tenants.lock();
        if tenants.is_closed {
            return Err(EPROBE_DEFER);
        }
        let tenants = &mut tenants.by_place;
        let had = |tenant: &Tenant| tenant.registers == registers;
        let index = tenants
            .iter()
            .position(had)
            .or_else(|| tenants.iter().position(|tenant| tenant.registers == 0))
            .filter(|&index| !tenants[index].is_there)
            .ok_or(EBUSY)?;
        let tenant = &mut tenants[index];
        let mut handover = tenant.handover;
        // A core that is bound again has lost its state, as by a reset.
        let was_there = tenant.registers != 0;
        handover.resets = handover.resets.wrapping_add(was_there.into());
        tenant.registers = registers;
        tenant.is_there = true;
        Ok(Place {
            device: self.clone(),
            index,
            handover,
        })
    }

    /// Closes the device for cores, if none is bound and none was ever visible to clients. Then no
    /// file is open. Returns whether it did.
    pub(crate) fn close_if_deserted(&self) -> bool {
        let mut tenants = self.tenants.lock();
        let was_found = self.kinds().iter().any(Option::is_some);
        let is_empty = tenants.by_place.iter().all(|tenant| !tenant.is_there);
        tenants.is_closed = is_empty && !was_found;
        tenants.is_closed
    }

    /// The bound cores with a ring, by place.
    pub(crate) fn cores(&self) -> impl Iterator<Item = Arc<Core<P>>> + '_ {
        self.cores.iter().filter_map(Slot::get)
    }

    /// The bound cores for vector graphics, by place.
    pub(crate) fn vectors(&self) -> impl Iterator<Item = Arc<VectorCore<P>>> + '_ {
        self.vectors.iter().filter_map(Slot::get)
    }

    /// The core of any kind at `place`.
    pub(crate) fn any_at(&self, place: usize) -> Option<AnyCore<P>> {
        let ring = self.cores.get(place)?.get().map(AnyCore::Ring);
        ring.or_else(|| self.vectors[place].get().map(AnyCore::Vector))
    }

    /// Whether any core is bound.
    pub(crate) fn has_cores(&self) -> bool {
        self.cores().next().is_some() || self.vectors().next().is_some()
    }

    /// Whether a core for vector graphics is, or was, at `place`.
    pub(crate) fn is_vector(&self, place: usize) -> bool {
        let kind = self.kinds.get(place).map(|kind| kind.load(Relaxed));
        kind == Some(number(HardwareType::Vector))
    }

    /// The core for vector graphics that `selector` selects. `InvalidArgument`: it selects another
    /// core. `GpuNotResponding`: the core is not bound now.
    pub(crate) fn vector(&self, selector: CoreSelector) -> Result<Arc<VectorCore<P>>> {
        let place = self.place(selector)?;
        if self.is_vector(place) {
            self.vectors[place].get().ok_or(Error::GpuNotResponding)
        } else {
            Err(Error::InvalidArgument)
        }
    }

    /// The core with a ring that `selector` selects. `InvalidArgument`: its generation has no such
    /// core, or the core has no ring. `GpuNotResponding`: the core is not bound now.
    pub(crate) fn core(&self, selector: CoreSelector) -> Result<Arc<Core<P>>> {
        self.at(self.place(selector)?)
    }

    /// Whether the 2D and the 3D engine are separate cores.
    #[inline]
    pub(crate) fn has_engines_apart(&self) -> bool {
        Firsts(self.firsts.load(Relaxed)).are_apart()
    }

    /// The place of the core that `selector` selects. Errors as [`Device::core`].
    #[inline]
    pub(crate) fn place(&self, selector: CoreSelector) -> Result<usize> {
        match Firsts(self.firsts.load(Relaxed)).find(selector) {
            Some(place) => Ok(place),
            None => self.find_place(selector),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_place(&self, selector: CoreSelector) -> Result<usize> {
        route::route(&self.kinds(), selector)
    }

    /// The core of a part of a COMMIT. `index` is its number in CHIP_INFO or, for 2D and vector
    /// graphics, among the cores of that kind. Errors as [`Device::core`].
    pub(crate) fn core_of_part(&self, selector: CoreSelector, index: u32) -> Result<Arc<Core<P>>> {
        let selector = selector.with_index(index);
        let place = route::route_part(&self.kinds(), selector)?;
        self.at(place)
    }

    /// The identity of the core that `selector` selects. Errors as [`Device::core`].
    #[inline(always)]
    pub(crate) fn identity_words(&self, selector: CoreSelector) -> Result<&IdentityWords> {
        self.identities[self.place(selector)?]
            .as_ref()
            .ok_or(Error::GpuNotResponding)
    }

    /// The default core with a ring. Fails if none is bound now.
    pub(crate) fn first_core(&self) -> Result<Arc<Core<P>>> {
        match route::first(&self.kinds()).and_then(|place| self.at(place)) {
            Ok(core) => Ok(core),
            Err(error) => self.cores().next().ok_or(error),
        }
    }

    /// The default core of any kind.
    fn first_any(&self) -> Option<AnyCore<P>> {
        let ring = self.first_core().ok().map(AnyCore::Ring);
        ring.or_else(|| self.vectors().next().map(AnyCore::Vector))
    }

    /// The model of the default core. 0: none is bound now.
    pub(crate) fn model(&self) -> u32 {
        self.first_any().map_or(0, |core| core.model().0)
    }

    /// The state of the default core. `None`: none is bound now.
    pub(crate) fn idle_state(&self) -> Option<IdleState> {
        self.first_any()?.idle_state()
    }

    fn at(&self, place: usize) -> Result<Arc<Core<P>>> {
        let core = self.cores.get(place).and_then(Slot::get);
        core.ok_or_else(|| {
            if self.is_vector(place) {
                Error::InvalidArgument
            } else {
                Error::GpuNotResponding
            }
        })
    }

    /// The kinds of cores that are or were bound, by place.
    #[inline]
    fn kinds(&self) -> [Option<HardwareType>; MAX_CORES] {
        core::array::from_fn(|place| kind(self.kinds[place].load(Relaxed)))
    }

    /// Notes the kind of the core at `place`.
    fn note_kind(&self, place: usize, kind: HardwareType) {
        let _tenants = self.tenants.lock();
        self.kinds[place].store(number(kind), Release);
        self.firsts.store(Firsts::of(&self.kinds()).0, Release);
    }

    /// The kinds of the cores by their numbers in CHIP_INFO. `None`: the core is not bound now.
    pub(crate) fn kinds_in_order(&self) -> [Option<HardwareType>; MAX_CORES] {
        let all = self.kinds();
        let mut kinds = [None; MAX_CORES];
        for (kind, place) in kinds.iter_mut().zip(route::in_order(&all)) {
            let is_there = self.at(place).is_ok() || self.vectors[place].get().is_some();
            *kind = all[place].filter(|_| is_there);
        }
        kinds
    }

    /// Bytes of memory that the cores themselves use.
    pub(crate) fn bytes(&self) -> usize {
        let cores: usize = self.cores().map(|core| core.bytes()).sum();
        let vectors: usize = self.vectors().map(|core| core.bytes()).sum();
        cores + vectors + self.vm.bytes()
    }

    /// Waits until all memory that clients have released so far, and that no window maps, is free.
    /// `false`: some is not, because a core hangs or was stopped. `own` counts waiting threads of
    /// the caller. `Interrupted`: a Unix signal arrived. Must not be called from a work queue.
    pub(crate) fn wait_for_reclaim(&self, own: &Account) -> Result<bool> {
        let newest = self.reclaimer.newest();
        // Jobs that were dropped after a hang have ended, too.
        let is_over = |waited, is_over| match waited {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(_) => Ok(is_over),
            Ok(()) => Ok(true),
        };
        for core in self.all_cores() {
            let number = newest[core.index()];
            let (waited, has_ended) = each!(&core, core => {
                let engine = core.engine();
                let waited = engine.wait_for_progress(number, wait::TIMEOUT, own);
                (waited, engine.is_over(number))
            });
            if !is_over(waited, has_ended)? {
                return Ok(false);
            }
        }
        match self.reclaimer.wait() {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(_) => Ok(false),
            Ok(()) => self.vm.wait_for_reclaim().map(|()| true),
        }
    }
}

/// The place of one core in a device. Dropping this releases it.
pub(crate) struct Place<P: Payload> {
    device: Arc<Device<P>>,
    index: usize,
    handover: Handover,
}

impl<P: Payload> Place<P> {
    /// The number of the place.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Creates the core here with `hardware`, which was reset. The core does not run yet.
    ///
    /// Prints every failure.
    pub(crate) fn new_core(&self, hardware: Arc<Hardware>) -> Result<AnyCore<P>, Errno> {
        let device = &self.device;
        let (config, reclaimer) = (self.config(), device.reclaimer.clone());
        match hardware.identity.hardware_type() {
            HardwareType::Vector => {
                VectorCore::new(hardware, config, reclaimer).map(AnyCore::Vector)
            }
            _ => {
                let (parameters, vm) = (&device.parameters, device.vm.clone());
                Core::new(hardware, config, parameters, vm, reclaimer).map(AnyCore::Ring)
            }
        }
    }

    /// The parameters of an engine at this place.
    fn config(&self) -> Config {
        let parameters = &self.device.parameters;
        Config {
            core: self.index,
            handover: self.handover,
            base_address: self.device.base_address,
            timeout: parameters.gpu_timeout,
            job_timeout: parameters.job_timeout,
            dump_level: parameters.dump_level,
        }
    }

    /// Makes `core` visible to clients, until the result is dropped. `EBUSY`: the place has a core.
    pub(crate) fn publish(&self, core: AnyCore<P>) -> Result<Published<P>, Errno> {
        let device = &self.device;
        let kind = core.identity().hardware_type();
        let parameters = &device.parameters;
        let reported = core
            .identity()
            .reported(parameters.fast_clear, parameters.compression);
        // A core that is bound again keeps its identity.
        let mut words = IdentityWords::from(&reported);
        let row = Row::of(params::identity(), (reported.model, reported.revision));
        row.amend(&mut words);
        device.identities[self.index].populate(words);
        match &core {
            AnyCore::Ring(core) => device.cores[self.index].publish(core.clone())?,
            AnyCore::Vector(core) => device.vectors[self.index].publish(core.clone())?,
        }
        device.note_kind(self.index, kind);
        Ok(Published {
            device: self.device.clone(),
            core,
        })
    }
}

impl<P: Payload> Drop for Place<P> {
    fn drop(&mut self) {
        let mut tenants = self.device.tenants.lock();
        let tenant = &mut tenants.by_place[self.index];
        tenant.is_there = false;
        tenant.handover = self.handover;
    }
}

/// A core that is visible to clients. Dropping this drains it.
pub(crate) struct Published<P: Payload> {
    device: Arc<Device<P>>,
    core: AnyCore<P>,
}

impl<P: Payload> Drop for Published<P> {
    fn drop(&mut self) {
        // Drains while the interrupt is still requested.
        match &self.core {
            AnyCore::Ring(core) => drop(self.device.cores[core.index()].retract()),
            AnyCore::Vector(core) => drop(self.device.vectors[core.index()].retract()),
        }
        self.core.drain();
    }
}

/// A started core. Dropping this stops it and releases its place.
pub(crate) struct Running<P: Payload> {
    pub(crate) core: AnyCore<P>,
    pub(crate) place: Place<P>,
}

impl<P: Payload> Drop for Running<P> {
    fn drop(&mut self) {
        self.core.stop();
        self.place.handover = self.core.handover();
    }
}
