// SPDX-License-Identifier: GPL-2.0-only

//! The device: its cores, and the address space and memory that they share.
//!
//! Cores come and go while files are open; memory, address space and the numbers of jobs stay. Each
//! core has a place, which it gets again when it comes back.
//!
//! Lock: `galcore places`, under which nothing is waited for but readers of a place.

use super::{
    any::{
        each,
        AnyCore, //
    },
    core::IdleState,
    debug::Admin,
    govern::Governor,
    route::{
        self,
        Firsts, //
    },
    Core,
    VectorCore, //
};
use crate::{
    abi::{
        row::Row,
        CoreSelector,
        HardwareType,
        IdentityWords, //
    },
    error::{
        Error,
        Result, //
    },
    limits::MAX_CORES,
    memory::VideoMemory,
    mmu::Vm,
    params::{
        self,
        Parameters, //
    },
    ring::{
        Past,
        Payload,
        Reclaimer,
        Seat,
        Shares,
        Waited, //
    },
    sys::slot::Slot,
    wait, //
};
use kernel::{
    io::PhysAddr,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed,
            Release, //
        },
        new_mutex,
        Arc,
        Mutex,
        SetOnce, //
    }, //
};

/// The kind at a place that no core has had.
const NO_KIND: u32 = 0;

/// The core that has, or had, a place.
#[derive(Clone, Copy, Default)]
struct Tenant {
    /// Where its registers are; 0: no core has had the place.
    registers: PhysAddr,
    is_there: bool,
    /// What the next one here goes on from, when it has gone.
    past: Past,
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
    parameters: KBox<Parameters>,
    /// By place, the core that is there.
    cores: [Slot<Core<P>>; MAX_CORES],
    /// The same of those for vector graphics.
    vectors: [Slot<VectorCore<P>>; MAX_CORES],
    /// By place, the kind of core that is or was there.
    kinds: [Atomic<u32>; MAX_CORES],
    /// [`Firsts`] of them.
    firsts: Atomic<u32>,
    /// By place, that core's identity, as clients see it.
    identities: [SetOnce<IdentityWords>; MAX_CORES],
    #[pin]
    tenants: Mutex<Tenants>,
    base_address: u32,
    vm: Arc<Vm>,
    memory: Arc<VideoMemory>,
    reclaimer: Arc<Reclaimer>,
    governor: Arc<Governor>,
    /// What the admin does to it.
    #[pin]
    pub(super) admin: Mutex<Admin>,
}

/// The number of `kind` in `Device::kinds`.
fn number(kind: HardwareType) -> u32 {
    match kind {
        HardwareType::ThreeD => 1,
        HardwareType::TwoD => 2,
        HardwareType::Both => 3,
        HardwareType::Vector => 4,
        HardwareType::Neural => 5,
    }
}

/// The kind of a number.
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
    ) -> Result<Arc<Self>, kernel::error::Error> {
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
                admin <- new_mutex!(Admin::new(), "galcore commands"),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes the place of the core whose registers are at `registers`: the one that it had, or a
    /// new one. `EBUSY`: all are taken. `EPROBE_DEFER`: another device takes this one's place.
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
        let mut past = tenant.past;
        // One that comes back has lost what clients had there, as by a reset.
        let was_there = tenant.registers != 0;
        past.resets = past.resets.wrapping_add(was_there.into());
        tenant.registers = registers;
        tenant.is_there = true;
        Ok(Place {
            device: self.clone(),
            index,
            past,
        })
    }

    /// Lets no more cores in, if there is none and clients have found none, so that no file is
    /// open; says whether that is so.
    pub(crate) fn close_if_deserted(&self) -> bool {
        let mut tenants = self.tenants.lock();
        let was_found = self.kinds().iter().any(Option::is_some);
        let is_empty = tenants.by_place.iter().all(|tenant| !tenant.is_there);
        tenants.is_closed = is_empty && !was_found;
        tenants.is_closed
    }

    /// The module's parameters.
    pub(crate) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The cores with a ring that are there, by place.
    pub(crate) fn cores(&self) -> impl Iterator<Item = Arc<Core<P>>> + '_ {
        self.cores.iter().filter_map(Slot::get)
    }

    /// The cores for vector graphics that are there, by place.
    pub(crate) fn vectors(&self) -> impl Iterator<Item = Arc<VectorCore<P>>> + '_ {
        self.vectors.iter().filter_map(Slot::get)
    }

    /// The cores that are there, by place.
    pub(super) fn all(&self) -> impl Iterator<Item = AnyCore<P>> + '_ {
        let places = self.cores.iter().zip(&self.vectors);
        places.filter_map(|(core, vector)| {
            let core = core.get().map(AnyCore::Ring);
            core.or_else(|| vector.get().map(AnyCore::Vector))
        })
    }

    /// The core at `place`, whatever its kind.
    pub(super) fn any_at(&self, place: usize) -> Option<AnyCore<P>> {
        let ring = self.cores.get(place)?.get().map(AnyCore::Ring);
        ring.or_else(|| self.vectors[place].get().map(AnyCore::Vector))
    }

    /// Whether any core is there.
    pub(crate) fn has_cores(&self) -> bool {
        self.cores().next().is_some() || self.vectors().next().is_some()
    }

    /// Whether a core for vector graphics is, or was, at `place`.
    pub(crate) fn is_vector(&self, place: usize) -> bool {
        let kind = self.kinds.get(place).map(|kind| kind.load(Relaxed));
        kind == Some(number(HardwareType::Vector))
    }

    /// The core for vector graphics that a request means. `InvalidArgument`: it means another.
    /// `GpuNotResponding`: it is not there now.
    pub(crate) fn vector(&self, selector: CoreSelector) -> Result<Arc<VectorCore<P>>> {
        let place = self.place(selector)?;
        match self.is_vector(place) {
            true => self.vectors[place].get().ok_or(Error::GpuNotResponding),
            false => Err(Error::InvalidArgument),
        }
    }

    /// The core with a ring that a request means. `InvalidArgument`: its generation has no such
    /// core, or it has none. `GpuNotResponding`: it is not there now.
    pub(crate) fn core(&self, selector: CoreSelector) -> Result<Arc<Core<P>>> {
        self.at(self.place(selector)?)
    }

    /// Whether the 2D engine is a core beside the one for 3D.
    #[inline]
    pub(crate) fn has_engines_apart(&self) -> bool {
        Firsts::unpack(self.firsts.load(Relaxed)).are_apart()
    }

    /// The place of the core that a request means. Errors as [`Device::core`].
    #[inline]
    pub(crate) fn place(&self, selector: CoreSelector) -> Result<usize> {
        let firsts = Firsts::unpack(self.firsts.load(Relaxed));
        match firsts.find(selector) {
            Some(place) => Ok(place),
            None => self.find_place(selector),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_place(&self, selector: CoreSelector) -> Result<usize> {
        route::route(&self.kinds(), selector)
    }

    /// The core of a part of a COMMIT that names it: by its number in CHIP_INFO, or, for 2D and
    /// vector graphics, among those. Errors as [`Device::core`].
    pub(crate) fn core_of_part(&self, selector: CoreSelector, index: u32) -> Result<Arc<Core<P>>> {
        let selector = selector.with_index(index);
        let place = route::route_part(&self.kinds(), selector)?;
        self.at(place)
    }

    /// Who the core is that a request means. Errors as [`Device::core`].
    #[inline(always)]
    pub(crate) fn identity_words(&self, selector: CoreSelector) -> Result<&IdentityWords> {
        self.identities[self.place(selector)?]
            .as_ref()
            .ok_or(Error::GpuNotResponding)
    }

    /// The core with a ring that is asked where all of these will do. Else an error: none is there
    /// now.
    pub(crate) fn first_core(&self) -> Result<Arc<Core<P>>> {
        match route::first(&self.kinds()).and_then(|place| self.at(place)) {
            Ok(core) => Ok(core),
            Err(error) => self.cores().next().ok_or(error),
        }
    }

    /// Its model; 0: there is none now.
    pub(crate) fn model(&self) -> u32 {
        let vector = || self.vectors().next().map(|core| core.identity().model);
        match self.first_core() {
            Ok(core) => core.identity().model,
            Err(_) => vector().unwrap_or(0),
        }
    }

    /// The state of the core that is asked first; `None`: none is there now.
    pub(crate) fn idle_state(&self) -> Option<IdleState> {
        match self.first_core() {
            Ok(core) => core.idle_state(),
            Err(_) => self.vectors().next()?.idle_state(),
        }
    }

    fn at(&self, place: usize) -> Result<Arc<Core<P>>> {
        let core = self.cores.get(place).and_then(Slot::get);
        core.ok_or_else(|| match self.is_vector(place) {
            true => Error::InvalidArgument,
            false => Error::GpuNotResponding,
        })
    }

    /// By place, the kind of core that is or was there.
    #[inline]
    fn kinds(&self) -> [Option<HardwareType>; MAX_CORES] {
        core::array::from_fn(|place| kind(self.kinds[place].load(Relaxed)))
    }

    /// A core of this kind is, or was, at `place`.
    fn note_kind(&self, place: usize, kind: HardwareType) {
        let _tenants = self.tenants.lock();
        self.kinds[place].store(number(kind), Release);
        let firsts = Firsts::of(&self.kinds());
        self.firsts.store(firsts.pack(), Release);
    }

    /// The kinds of the cores by their numbers in CHIP_INFO; `None`: that one is not there now.
    pub(crate) fn kinds_in_order(&self) -> [Option<HardwareType>; MAX_CORES] {
        let all = self.kinds();
        let mut kinds = [None; MAX_CORES];
        for (kind, place) in kinds.iter_mut().zip(route::in_order(&all)) {
            let is_there = self.at(place).is_ok() || self.vectors[place].get().is_some();
            *kind = all[place].filter(|_| is_there);
        }
        kinds
    }

    /// Physical address of GPU address 0, for cores that do not translate all.
    pub(crate) fn base_address(&self) -> u32 {
        self.base_address
    }

    /// The memory.
    pub(crate) fn memory(&self) -> &Arc<VideoMemory> {
        &self.memory
    }

    /// The address space.
    pub(crate) fn vm(&self) -> &Arc<Vm> {
        &self.vm
    }

    /// The reclaimer, which takes over what clients release.
    pub(crate) fn reclaimer(&self) -> &Arc<Reclaimer> {
        &self.reclaimer
    }

    /// The operating points of its 3D cores.
    pub(crate) fn governor(&self) -> &Arc<Governor> {
        &self.governor
    }

    /// Bytes of memory that the cores themselves take.
    pub(crate) fn bytes(&self) -> usize {
        let cores: usize = self.cores().map(|core| core.bytes()).sum();
        let vectors: usize = self.vectors().map(|core| core.bytes()).sum();
        cores + vectors + self.vm.bytes()
    }

    /// Waits until the memory that clients have released so far, and that no window shows, is free;
    /// says whether all of it is. If not, a core hangs, or has been stopped. `own` counts the
    /// caller's threads that wait. `Interrupted`: a Unix signal came. Not for the work queue.
    pub(crate) fn wait_for_reclaim(&self, own: &Shares) -> Result<bool> {
        let newest = self.reclaimer.newest();
        // What of it a hang has taken is no less over.
        let is_over = |waited, is_over| match waited {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(_) => Ok(is_over),
            Ok(()) => Ok(true),
        };
        for core in self.all() {
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

type Errno = kernel::error::Error;

/// The place of one core in a device; given back when it is dropped.
pub(crate) struct Place<P: Payload> {
    device: Arc<Device<P>>,
    index: usize,
    past: Past,
}

impl<P: Payload> Place<P> {
    /// Its number.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// What the engine of a core here must know of the place.
    pub(super) fn seat(&self) -> Seat {
        let parameters = self.device.parameters();
        Seat {
            core: self.index,
            past: self.past,
            base_address: self.device.base_address(),
            timeout: parameters.gpu_timeout,
            job_timeout: parameters.job_timeout,
            dump_level: parameters.dump_level,
        }
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device<P>> {
        &self.device
    }

    /// Lets clients find `core` here, until what is returned is dropped. `EBUSY`: there is one.
    pub(crate) fn publish(&self, core: AnyCore<P>) -> Result<Published<P>, Errno> {
        let device = &self.device;
        let kind = core.identity().hardware_type();
        let parameters = device.parameters();
        let reported = core
            .identity()
            .reported(parameters.fast_clear, parameters.compression);
        // A core that comes back keeps its identity.
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

    /// The next core here goes on from `past`.
    pub(crate) fn note_past(&mut self, past: Past) {
        self.past = past;
    }
}

impl<P: Payload> Drop for Place<P> {
    fn drop(&mut self) {
        let mut tenants = self.device.tenants.lock();
        let tenant = &mut tenants.by_place[self.index];
        tenant.is_there = false;
        tenant.past = self.past;
    }
}

/// A core that clients find; at its end its work comes to rest.
pub(crate) struct Published<P: Payload> {
    device: Arc<Device<P>>,
    core: AnyCore<P>,
}

impl<P: Payload> Drop for Published<P> {
    fn drop(&mut self) {
        // It drains while its interrupt still comes.
        match &self.core {
            AnyCore::Ring(core) => {
                drop(self.device.cores[core.index()].retract());
                core.drain();
            }
            AnyCore::Vector(core) => {
                drop(self.device.vectors[core.index()].retract());
                core.drain();
            }
        }
    }
}

/// A core that has been started: stopped, and its place given back, when it is dropped.
pub(crate) struct Running<P: Payload> {
    core: AnyCore<P>,
    place: Place<P>,
}

impl<P: Payload> Running<P> {
    /// From now on `core`, at `place`, is stopped when this is dropped.
    pub(crate) fn new(core: AnyCore<P>, place: Place<P>) -> Self {
        Self { core, place }
    }

    /// Its place.
    pub(crate) fn place(&self) -> &Place<P> {
        &self.place
    }
}

impl<P: Payload> Drop for Running<P> {
    fn drop(&mut self) {
        each!(&self.core, core => core.stop());
        self.place.note_past(self.core.past());
    }
}
