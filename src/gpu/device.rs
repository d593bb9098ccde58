// SPDX-License-Identifier: GPL-2.0-only

//! The device: its cores, and the address space and memory that they share.
//!
//! Cores come and go while files are open; memory, address space and the numbers of jobs stay. Each
//! core has a place, which it gets again when it comes back.
//!
//! Lock: `galcore places`, under which nothing is waited for but readers of a place.

use super::{
    route,
    Core, //
};
use crate::{
    abi::{
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
    params::Parameters,
    ring::{
        Payload,
        Reclaimer,
        Waited, //
    },
    sys::slot::Slot, //
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

/// No core has been at a place.
const NOBODY: u32 = 0;

/// Who has, or had, a place.
#[derive(Clone, Copy, Default)]
struct Tenant {
    /// Where its registers are; 0: nobody has been there.
    registers: PhysAddr,
    is_there: bool,
    /// Number of its last job, when it has gone.
    newest: u64,
}

/// Who has the places.
#[derive(Clone, Copy, Default)]
struct Tenants {
    by_place: [Tenant; MAX_CORES],
    /// Nobody gets one any more.
    is_closed: bool,
}

/// What `/dev/galcore` stands for.
#[pin_data]
pub(crate) struct Device<P: Payload> {
    parameters: Parameters,
    /// By place, the core that is there.
    cores: [Slot<Core<P>>; MAX_CORES],
    /// By place, the kind of core that is or was there.
    kinds: [Atomic<u32>; MAX_CORES],
    /// By place, who that is, as clients are told.
    identities: [SetOnce<IdentityWords>; MAX_CORES],
    #[pin]
    tenants: Mutex<Tenants>,
    base_address: u32,
    vm: Arc<Vm>,
    memory: Arc<VideoMemory>,
    reclaimer: Arc<Reclaimer>,
}

/// The number that stands for `kind`.
fn number(kind: HardwareType) -> u32 {
    match kind {
        HardwareType::ThreeD => 1,
        HardwareType::TwoD => 2,
        HardwareType::Both => 3,
        HardwareType::Vector => 4,
    }
}

/// The kind of a number.
fn kind(number: u32) -> Option<HardwareType> {
    match number {
        1 => Some(HardwareType::ThreeD),
        2 => Some(HardwareType::TwoD),
        3 => Some(HardwareType::Both),
        4 => Some(HardwareType::Vector),
        _ => None,
    }
}

impl<P: Payload> Device<P> {
    /// A device without cores. `ENOMEM`.
    pub(crate) fn new(
        parameters: Parameters,
        base_address: u32,
        vm: Arc<Vm>,
        memory: Arc<VideoMemory>,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        Arc::pin_init(
            pin_init!(Self {
                parameters,
                cores: [const { Slot::new() }; MAX_CORES],
                kinds: [const { Atomic::new(NOBODY) }; MAX_CORES],
                identities: [const { SetOnce::new() }; MAX_CORES],
                tenants <- new_mutex!(Tenants::default(), "galcore places"),
                base_address,
                vm,
                memory,
                reclaimer,
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
        tenant.registers = registers;
        tenant.is_there = true;
        Ok(Place {
            device: self.clone(),
            index,
            newest: tenant.newest,
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

    /// The cores that are there, by place.
    pub(crate) fn cores(&self) -> impl Iterator<Item = Arc<Core<P>>> + '_ {
        self.cores.iter().filter_map(Slot::get)
    }

    /// The core that a request means. `InvalidArgument`: its generation has no such core.
    /// `GpuNotResponding`: it is not there now.
    pub(crate) fn core(&self, selector: CoreSelector) -> Result<Arc<Core<P>>> {
        self.at(self.place(selector)?)
    }

    /// The place of the core that a request means. Errors as [`Device::core`].
    pub(crate) fn place(&self, selector: CoreSelector) -> Result<usize> {
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
    pub(crate) fn identity_words(&self, selector: CoreSelector) -> Result<&IdentityWords> {
        self.identities[self.place(selector)?]
            .as_ref()
            .ok_or(Error::GpuNotResponding)
    }

    /// The core that is asked where all will do. `GpuNotResponding`: none is there now.
    pub(crate) fn first_core(&self) -> Result<Arc<Core<P>>> {
        match route::first(&self.kinds()).and_then(|place| self.at(place)) {
            Ok(core) => Ok(core),
            Err(error) => self.cores().next().ok_or(error),
        }
    }

    /// Its model; 0: there is none now.
    pub(crate) fn model(&self) -> u32 {
        self.first_core().map_or(0, |core| core.identity().model)
    }

    fn at(&self, place: usize) -> Result<Arc<Core<P>>> {
        self.cores
            .get(place)
            .and_then(Slot::get)
            .ok_or(Error::GpuNotResponding)
    }

    /// By place, the kind of core that is or was there.
    #[inline]
    fn kinds(&self) -> [Option<HardwareType>; MAX_CORES] {
        core::array::from_fn(|place| kind(self.kinds[place].load(Relaxed)))
    }

    /// The kinds of the cores by their numbers in CHIP_INFO; `None`: that one is not there now.
    pub(crate) fn kinds_in_order(&self) -> [Option<HardwareType>; MAX_CORES] {
        let all = self.kinds();
        let mut kinds = [None; MAX_CORES];
        for (kind, place) in kinds.iter_mut().zip(route::in_order(&all)) {
            *kind = match self.at(place) {
                Ok(_) => all[place],
                Err(_) => None,
            };
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

    /// What takes over what clients let go of.
    pub(crate) fn reclaimer(&self) -> &Arc<Reclaimer> {
        &self.reclaimer
    }

    /// Bytes of memory that the cores themselves take.
    pub(crate) fn bytes(&self) -> usize {
        let cores: usize = self.cores().map(|core| core.bytes()).sum();
        cores + self.vm.bytes()
    }

    /// Waits until what clients have let go of so far and is in no window is free, as far as the
    /// cores go on. `Interrupted`: a Unix signal came. Not for the work queue.
    pub(crate) fn wait_for_reclaim(&self) -> Result {
        let wait = || {
            let newest = self.reclaimer.newest();
            for core in self.cores() {
                core.ring().wait_for_progress(newest[core.index()])?;
            }
            self.reclaimer.wait()
        };
        match wait() {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            // A core hangs, or has been stopped: nothing more will come back.
            Err(_) => Ok(()),
            Ok(()) => self.vm.wait_for_reclaim(),
        }
    }
}

type Errno = kernel::error::Error;

/// The place of one core in a device; given back when it is dropped.
pub(crate) struct Place<P: Payload> {
    device: Arc<Device<P>>,
    index: usize,
    newest: u64,
}

impl<P: Payload> Place<P> {
    /// Its number.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Number of the last job that a core had here.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device<P>> {
        &self.device
    }

    /// Lets clients find `core` here, until what is returned is dropped. `EBUSY`: there is one.
    pub(crate) fn publish(&self, core: Arc<Core<P>>) -> Result<Published<P>, Errno> {
        let device = &self.device;
        let kind = core.identity().hardware_type();
        let parameters = device.parameters();
        let reported = core
            .identity()
            .reported(parameters.fast_clear, parameters.compression);
        // A core that comes back is told as it was.
        device.identities[self.index].populate(IdentityWords::from(&reported));
        device.cores[self.index].publish(core.clone())?;
        device.kinds[self.index].store(number(kind), Release);
        Ok(Published {
            device: self.device.clone(),
            core,
        })
    }

    /// Numbers the jobs of the next core here behind `newest`.
    pub(crate) fn note_newest(&mut self, newest: u64) {
        self.newest = newest;
    }
}

impl<P: Payload> Drop for Place<P> {
    fn drop(&mut self) {
        let mut tenants = self.device.tenants.lock();
        let tenant = &mut tenants.by_place[self.index];
        tenant.is_there = false;
        tenant.newest = self.newest;
    }
}

/// A core that clients find; at its end its work comes to rest.
pub(crate) struct Published<P: Payload> {
    device: Arc<Device<P>>,
    core: Arc<Core<P>>,
}

impl<P: Payload> Drop for Published<P> {
    fn drop(&mut self) {
        drop(self.device.cores[self.core.index()].retract());
        // While its interrupt still comes.
        self.core.drain();
    }
}

/// A core that has been started: stopped, and its place given back, when it is dropped.
pub(crate) struct Running<P: Payload> {
    core: Arc<Core<P>>,
    place: Place<P>,
}

impl<P: Payload> Running<P> {
    /// From now on `core`, at `place`, is stopped when this is dropped.
    pub(crate) fn new(core: Arc<Core<P>>, place: Place<P>) -> Self {
        Self { core, place }
    }

    /// Its place.
    pub(crate) fn place(&self) -> &Place<P> {
        &self.place
    }
}

impl<P: Payload> Drop for Running<P> {
    fn drop(&mut self) {
        self.core.stop();
        self.place.note_newest(self.core.ring().newest());
    }
}
