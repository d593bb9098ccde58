// SPDX-License-Identifier: GPL-2.0-only

//! One GPU core: its hardware, its ring, and what is known of the streams that it runs.
//!
//! Lock: `galcore core`, above `galcore ring`: held while registers are read for display, so that
//! the core is not switched off meanwhile. The interrupt half only reads and clears the acknowledge
//! register and wakes the thread.

use super::{
    any::{
        each,
        AnyCore, //
    },
    device::Place, //
};
use crate::{
    context::{
        scrub::Scrub,
        StateMap, //
    },
    error,
    hw::{
        Hardware,
        Identity,
        MmuVersion,
        RegisterDump, //
    },
    memory::VideoMemory,
    mmu::{
        Contents,
        LinearMapping,
        Vm, //
    },
    ring::{
        Payload,
        Reclaimer,
        Ring,
        Setup,
        Waited, //
    },
    stream::{
        checker::Engines,
        lookup::{
            PhysicalStates,
            Scratch, //
        },
        states::States,
    },
    sys::{
        self,
        irq::Handler,
        power::Switch, //
    }, //
};
use kernel::{
    device::Device,
    irq::ThreadedIrqReturn,
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// How many events are sent to see the interrupt come.
const INTERRUPT_TESTS: u32 = 5;

/// How long the first event may take, in milliseconds.
const FIRST_EVENT_TIMEOUT: u32 = 1000;

/// How long work under way may take to end when the core is stopped, in milliseconds.
const STOP_TIMEOUT: u32 = 100;

/// How often more, and how long after each time in milliseconds, memory is waited for before the
/// machine hibernates.
const RETURN_LOOKS: u32 = 20;
const RETURN_PAUSE: i64 = 10;

/// What `/proc/driver/gc` shows of the registers.
pub(crate) struct IdleState {
    /// `HI_IDLE_STATE`.
    pub(crate) idle: u32,
    /// `HI_CLOCK_CONTROL`.
    pub(crate) clock_control: u32,
    /// Whether no job is under way, all modules are idle, and the front end rests at the ring's
    /// end.
    pub(crate) is_idle: bool,
}

impl IdleState {
    /// That of a core that is off; `is_idle`: no job waits for it to come on.
    pub(super) fn off(hardware: &Hardware, is_idle: bool) -> Self {
        let (idle, clock_control) = hardware.last_state();
        Self {
            idle,
            clock_control,
            is_idle,
        }
    }
}

/// A core.
#[pin_data]
pub(crate) struct Core<P: Payload> {
    /// Its place among the device's.
    index: usize,
    hardware: Arc<Hardware>,
    states: Arc<States>,
    scratch: Scratch,
    scrub: Arc<Scrub>,
    state_map: Arc<StateMap>,
    /// The same as newer clients have it.
    newer_state_map: Arc<StateMap>,
    vm: Arc<Vm>,
    ring: Arc<Ring<P>>,
    /// Other cores reach the ring's memory no longer than it is that.
    _ring_mapping: Option<LinearMapping>,
    reclaimer: Arc<Reclaimer>,
    /// The least 64ths of its clock that it is slowed down to when it is too warm.
    least_scale: u32,
    /// Its registers may be read by those who only want to know. Held while they are.
    #[pin]
    is_on: Mutex<bool>,
}

impl<P: Payload> Core<P> {
    /// The core `hardware`, which has been reset, at `place`. It does not run yet.
    ///
    /// Every failure has been printed.
    pub(crate) fn new(place: &Place<P>, hardware: Arc<Hardware>) -> Result<Arc<Self>> {
        let device = place.device();
        let (vm, reclaimer) = (device.vm().clone(), device.reclaimer().clone());
        let dev = hardware.device();
        let identity = hardware.identity();
        let base_address = device.base_address();
        let version = hardware.mmu_version();
        // Words of the ring load one pipe's MMU.
        let has_two = version == MmuVersion::V2 && identity.has_3d() && identity.has_2d();
        if !vm.has_tables_of(version) || (vm.has_spaces() && has_two) {
            dev_err!(
                dev,
                "its MMU is not like that of the core that was bound first: bind this one first\n"
            );
            return Err(EINVAL);
        }
        let states = States::new(identity, device.parameters().bound_draws)
            .inspect_err(|_| dev_err!(dev, "no memory for the list of states\n"))?;
        let scratch = Scratch {
            addresses: [false, true].map(|is_2d| vm.scratch_address(place.index(), is_2d)),
            // Past the MMU, and past the registers that say where GPU address 0 lies.
            physical: vm
                .physical_scratch()
                .filter(|_| version == MmuVersion::V1 && !identity.has_new_memory_controller())
                .map(|scratch| PhysicalStates {
                    base: base_address,
                    scratch,
                }),
        };
        let no_map = |error| {
            dev_err!(dev, "no map of the contexts' states ({error:?})\n");
            ENOMEM
        };
        let newer_state_map = StateMap::newer(identity, &states).map_err(no_map)?;
        // No driver of the older kind knows HALTI5, whose newer map is no superset.
        let state_map = match identity.has_halti5() {
            true => newer_state_map.clone(),
            false => StateMap::new(identity).map_err(no_map)?,
        };
        let scrub = Scrub::new(&states, &state_map, &scratch).map_err(|error| {
            dev_err!(
                dev,
                "no list of the states that hold addresses ({error:?})\n"
            );
            ENOMEM
        })?;
        let parameters = device.parameters();
        let setup = Setup {
            fast_clear: parameters.fast_clear,
            compression: parameters.compression,
            engines: states.engines(),
            scrub: scrub.clone(),
        };
        let ring = Ring::with_vm(
            hardware.clone(),
            place.seat(),
            setup,
            vm.clone(),
            reclaimer.clone(),
        )
        .inspect_err(|&error| match error {
            ERANGE => dev_err!(
                dev,
                "the GPU does not reach the command ring: check baseAddress\n"
            ),
            _ => dev_err!(dev, "no memory for the command ring\n"),
        })?;
        let ring_mapping = vm
            .map_linear(ring.memory(), ring.address(), Contents::Executed)
            .map_err(|_| {
                dev_err!(dev, "no memory for the MMU's tables\n");
                ENOMEM
            })?;
        Arc::pin_init(
            pin_init!(Self {
                index: place.index(),
                hardware,
                states,
                scratch,
                scrub,
                state_map,
                newer_state_map,
                vm,
                ring,
                _ring_mapping: ring_mapping,
                reclaimer,
                least_scale: parameters.least_scale,
                is_on <- new_mutex!(true, "galcore core"),
            }),
            GFP_KERNEL,
        )
    }

    /// Its place among the device's cores.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The device, for its log lines.
    fn device(&self) -> &Device {
        self.hardware.device()
    }

    /// Who the core is.
    pub(crate) fn identity(&self) -> &Identity {
        self.hardware.identity()
    }

    /// Its hardware.
    pub(crate) fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// The states that contexts keep; `newer`: those of clients from 5.0.11 on.
    pub(crate) fn state_map(&self, newer: bool) -> &Arc<StateMap> {
        match newer {
            true => &self.newer_state_map,
            false => &self.state_map,
        }
    }

    /// The pipes of the core.
    pub(crate) fn engines(&self) -> Engines {
        self.states.engines()
    }

    /// The states of the core.
    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// The scratch memory, as states name it.
    pub(crate) fn scratch(&self) -> Scratch {
        self.scratch
    }

    /// What makes the core forget addresses.
    pub(crate) fn scrub(&self) -> &Scrub {
        &self.scrub
    }

    /// The command ring.
    pub(crate) fn ring(&self) -> &Arc<Ring<P>> {
        &self.ring
    }

    /// The same, as that of cores of any kind.
    pub(super) fn engine(&self) -> &Arc<Ring<P>> {
        &self.ring
    }

    /// Bytes of memory that the core itself takes.
    pub(crate) fn bytes(&self) -> usize {
        self.ring.memory().size()
    }

    /// Starts the front end in the ring's idle loop. The interrupt must be requested. What the GPU
    /// does not do has been printed.
    pub(crate) fn start(&self) -> Result {
        self.vm.attach(self.index, self.ring.clone())?;
        self.reclaimer.set_ring(self.index, Some(self.ring.clone()));
        self.ring.set_up()?;
        let (address, units) = self.ring.start()?;
        self.hardware.enable_interrupts();
        self.hardware.run_front_end(address, units)
    }

    /// Sends one event through the core and looks whether its interrupt comes: a wrong line shows
    /// here and not as a client's delay. Every failure has been printed.
    pub(crate) fn test_interrupt(&self) -> Result {
        let mut result = Ok(());
        // The hang check may be quicker, where the processor is another guest's for a while.
        for _ in 0..INTERRUPT_TESTS {
            let number = self.ring.submit(&mut P::default());
            result = number.and_then(|number| self.ring.wait_for(number, FIRST_EVENT_TIMEOUT));
            if result.is_err() || self.hardware.line_works() {
                break;
            }
        }
        match result {
            // Without the interrupt the hang check has ended the job.
            Ok(()) if self.hardware.line_works() => Ok(()),
            Ok(()) => {
                dev_err!(
                    self.device(),
                    "the GPU runs, but its interrupt does not come on this line: check irqLine or the node's interrupts\n"
                );
                Err(ENODEV)
            }
            Err(error::Error::Interrupted) => {
                dev_err!(self.device(), "loading was interrupted\n");
                Err(EINTR)
            }
            Err(_) => {
                dev_err!(
                    self.device(),
                    "the GPU does not run its command ring (front end at {:#010x}, state {:#x})\n",
                    self.hardware.position(),
                    self.hardware.front_end_state()
                );
                Err(ENODEV)
            }
        }
    }

    /// Waits a moment for the jobs under way, then closes the ring and disables the interrupts: other
    /// handlers of the line would get one over and over.
    pub(crate) fn drain(&self) {
        let newest = self.ring.newest();
        let _ = self.ring.poll_for(newest, STOP_TIMEOUT);
        self.ring.close();
        if self.hardware.is_on() {
            self.hardware.disable_interrupts();
        }
    }

    /// Stops the core: the front end is reset, and what has not ended is dropped. The interrupt
    /// must be freed. No register is accessed afterwards.
    pub(crate) fn stop(&self) {
        self.ring.close();
        self.ring.dismiss_hang_check();
        // No other thread may write the clock register meanwhile.
        let completing = self.ring.hold_completion();
        let mut is_on = self.is_on.lock();
        // It is not if it could not be switched on.
        if self.hardware.is_on() {
            self.hardware.disable_interrupts();
            // A dead core stays isolated: the memory that it may still write has other users by now.
            if self.ring.is_dead() || self.hardware.reset().is_err() {
                self.hardware.isolate();
            }
        }
        *is_on = false;
        drop(is_on);
        drop(completing);
        self.ring.lose();
        self.reclaimer.set_ring(self.index, None);
        self.vm.detach(self.index);
    }

    /// The state of the modules and the front end; `None`: it has been stopped. That of a core that
    /// is off is what it was when it went off.
    pub(crate) fn idle_state(&self) -> Option<IdleState> {
        sys::work::by_worker(|| self.look_idle())
    }

    fn look_idle(&self) -> Option<IdleState> {
        let is_on = self.is_on.lock();
        if !*is_on {
            return None;
        }
        let has_ended = self.ring.is_idle();
        let kept_on = self.hardware.supply().if_on();
        // Not while a recovery switches it off and on.
        let Some(_kept_on) = kept_on.filter(|_| self.hardware.is_on()) else {
            return Some(IdleState::off(&self.hardware, has_ended));
        };
        let idle = self.hardware.idle();
        let clock_control = self.hardware.clock_control();
        let at = self.hardware.position();
        let wanted = self.identity().idle_modules();
        let modules = idle & wanted == wanted;
        Some(IdleState {
            idle,
            clock_control,
            is_idle: has_ended && modules && at.wrapping_sub(self.ring.idle_loop()) <= 16,
        })
    }
}

impl<P: Payload> Core<P> {
    /// What can be read of it without changing anything; `None`: it is off, or has been stopped, or
    /// there is no memory.
    pub(super) fn registers(&self) -> Option<RegisterDump> {
        sys::work::by_worker(|| {
            let is_on = self.is_on.lock();
            let kept_on = self.hardware.supply().if_on().filter(|_| *is_on);
            let _kept_on = kept_on.filter(|_| self.hardware.is_on())?;
            self.hardware.dump_registers().ok()
        })
    }
}

/// What switches a core off and on.
pub(crate) struct PowerSwitch<P: Payload> {
    pub(super) core: AnyCore<P>,
    pub(super) memory: Arc<VideoMemory>,
}

impl<P: Payload> Switch for PowerSwitch<P> {
    fn switch_off(&self) -> Result {
        each!(&self.core, core => core.engine().switch_off())
    }

    fn switch_on(&self) -> Result {
        each!(&self.core, core => core.engine().switch_on())
    }

    fn sleep(&self) -> Result {
        each!(&self.core, core => core.engine().fall_asleep())
    }

    fn wake(&self) {
        each!(&self.core, core => core.engine().wake_up())
    }

    fn hibernate(&self) -> Result {
        let mut looks = 0;
        loop {
            // What processes that have ended had is on its way back.
            sys::work::flush();
            let bytes = match self.memory.leave_pool() {
                Ok(()) => return Ok(()),
                Err(bytes) => bytes,
            };
            if looks == RETURN_LOOKS {
                self.core.hardware().tell_lost(bytes);
                return Err(EBUSY);
            }
            fsleep(Delta::from_millis(RETURN_PAUSE));
            looks += 1;
        }
    }

    fn limit(&self, speed: u32) {
        if let AnyCore::Ring(core) = &self.core {
            core.ring().set_limit(speed.max(core.least_scale));
        }
    }

    fn has_divider(&self) -> bool {
        matches!(self.core, AnyCore::Ring(_))
    }
}

/// The interrupt of a core.
pub(crate) struct Interrupt<P: Payload>(pub(super) AnyCore<P>);

impl<P: Payload> Handler for Interrupt<P> {
    fn handle(&self) -> ThreadedIrqReturn {
        if self.0.hardware().interrupt() {
            ThreadedIrqReturn::WakeThread
        } else {
            ThreadedIrqReturn::None
        }
    }

    fn handle_threaded(&self) {
        each!(&self.0, core => core.engine().complete())
    }
}
