// SPDX-License-Identifier: GPL-2.0-only

//! A core of any kind: binding, power, interrupts and display.
//!
//! The hard interrupt handler only reads the acknowledge register, which clears that register, and
//! wakes the interrupt thread.
//!
//! Power requests of clients: the vendor's power states, the clock, and keeping a core on.
//!
//! Runtime power management switches a core off and on. A client can have it switched off earlier,
//! but cannot prevent its use by others. So OFF, SUSPEND and IDLE last until the next job. Source:
//! sources.md, power.
//!
//! Reads of registers for display keep the core on and exclude resets.

use super::{
    core::{
        Core,
        VectorCore, //
    },
    Device, //
};
use crate::{
    abi::{
        CoreSelector,
        HardwareType,
        PowerState,
        PowerWay, //
    },
    hw::{
        Hardware,
        Identity,
        PowerTimes,
        RegisterDump, //
    },
    memory::VideoMemory,
    prelude::*,
    ring::{
        Account,
        Given,
        Handover,
        Load,
        Payload,
        Waited, //
    },
    sys::{
        power::{
            KeptOn,
            Switch, //
        },
        tree::Handler,
        work, //
    },
    wait, //
};
use kernel::irq::ThreadedIrqReturn;

/// Retries before hibernation while memory is not released yet, and milliseconds before each.
const RETURN_TRIES: u32 = 20;
const RETURN_PAUSE: i64 = 10;

/// Evaluates `$do` with the core of any kind as `$core`.
macro_rules! each {
    ($any:expr, $core:ident => $do:expr) => {
        match $any {
            $crate::gpu::AnyCore::Ring($core) => $do,
            $crate::gpu::AnyCore::Vector($core) => $do,
        }
    };
}

pub(crate) use each;

/// A core of any kind.
pub(crate) enum AnyCore<P: Payload> {
    /// One with a ring.
    Ring(Arc<Core<P>>),
    /// One for vector graphics.
    Vector(Arc<VectorCore<P>>),
}

impl<P: Payload> Clone for AnyCore<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Ring(core) => Self::Ring(core.clone()),
            Self::Vector(core) => Self::Vector(core.clone()),
        }
    }
}

impl<P: Payload> AnyCore<P> {
    /// The core's power switch. It draws to `memory`.
    pub(crate) fn power_switch(&self, memory: &Arc<VideoMemory>) -> PowerSwitch<P> {
        PowerSwitch {
            core: self.clone(),
            memory: memory.clone(),
        }
    }

    /// Starts the core and tests its interrupt, which must be requested. Prints failures of the
    /// GPU.
    pub(crate) fn start(&self) -> Result<(), Errno> {
        match self {
            Self::Ring(core) => {
                core.start()?;
                core.test_interrupt()
            }
            Self::Vector(core) => core.start(),
        }
    }

    /// Waits briefly for running jobs, then closes the core for new ones. Disables the interrupts
    /// of a core with a ring.
    pub(crate) fn drain(&self) {
        each!(self, core => core.drain());
        if let Self::Ring(core) = self {
            // Its interrupts would keep a shared line asserted.
            core.hardware().disable_interrupts();
        }
    }

    /// Stops the core. Its interrupt must be freed. No register may be accessed afterwards.
    pub(super) fn stop(&self) {
        each!(self, core => core.stop());
        if let Self::Ring(core) = self {
            core.kind.vm.detach(core.index());
        }
    }

    /// The core's hardware.
    pub(crate) fn hardware(&self) -> &Hardware {
        each!(self, core => core.hardware())
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.hardware().identity
    }
}

/// Methods that call the engine's method of the same name.
macro_rules! of_engine {
    ($(
        $(#[$meta:meta])*
        $public:vis fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;
    )*) => {
        impl<P: Payload> AnyCore<P> {
            $(
                $(#[$meta])*
                $public fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                    each!(self, core => core.engine().$name($($argument),*))
                }
            )*
        }
    };
}

of_engine! {
    /// How often the core was reset or bound again.
    pub(crate) fn resets(&self) -> u32;
    /// The counts from which the next core at its place continues.
    pub(crate) fn handover(&self) -> Handover;
    /// Runs the hang check of the core now.
    pub(crate) fn look_now(&self);
    /// Resets the core if it makes no progress. Returns whether it was reset.
    pub(crate) fn reset_if_hung(&self) -> bool;
    /// The number of the core's newest job.
    pub(crate) fn newest(&self) -> u64;
    /// The oldest job, from number `from` on, of which all words are in the memory for jobs.
    pub(crate) fn given(&self, from: u64) -> Option<Given>;
    /// Copies words of a job, from its byte `offset` on. Returns whether they are the job's: its
    /// memory may have been reused.
    pub(crate) fn copy_given(&self, job: &Given, offset: u32, to: &mut [u32]) -> bool;
    /// Busy time since the core was bound.
    pub(crate) fn load(&self) -> Load;
    /// Ends the uses that have kept the core on for jobs that have ended.
    fn release_now(&self);
    /// Ends the lowest speed of an idle core.
    fn catch_up(&self);
    pub(super) fn is_idle(&self) -> bool;
    fn is_dead(&self) -> bool;
}

/// The power operations of a core.
pub(crate) struct PowerSwitch<P: Payload> {
    core: AnyCore<P>,
    memory: Arc<VideoMemory>,
}

impl<P: Payload> Switch for PowerSwitch<P> {
    fn switch_off(&self) -> Result<(), Errno> {
        each!(&self.core, core => core.engine().switch_off())
    }

    fn switch_on(&self) -> Result<(), Errno> {
        each!(&self.core, core => core.engine().switch_on())
    }

    fn sleep(&self) -> Result<(), Errno> {
        each!(&self.core, core => core.engine().fall_asleep())
    }

    fn wake(&self) {
        each!(&self.core, core => core.engine().wake_up())
    }

    fn hibernate(&self) -> Result<(), Errno> {
        let mut tries = 0;
        loop {
            // Memory of processes that have exited may still be queued for release.
            sys::work::flush();
            let bytes = match self.memory.leave_pool() {
                Ok(()) => return Ok(()),
                Err(bytes) => bytes,
            };
            if tries == RETURN_TRIES {
                dev_err!(
                    self.core.hardware().dev,
                    "hibernation would lose {} KiB of the pool, which lies outside of the kernel's memory: end the programs that draw first, or have the pool in CMA\n",
                    bytes.div_ceil(1024)
                );
                return Err(EBUSY);
            }
            fsleep(Delta::from_millis(RETURN_PAUSE));
            tries += 1;
        }
    }

    fn limit(&self, speed: u32) {
        if let AnyCore::Ring(core) = &self.core {
            core.engine().set_limit(speed.max(core.kind.least_scale));
        }
    }

    fn has_divider(&self) -> bool {
        matches!(self.core, AnyCore::Ring(_))
    }
}

impl<P: Payload> Handler for AnyCore<P> {
    fn handle(&self) -> ThreadedIrqReturn {
        if self.hardware().interrupt() {
            ThreadedIrqReturn::WakeThread
        } else {
            ThreadedIrqReturn::None
        }
    }

    fn handle_threaded(&self) {
        each!(self, core => core.engine().complete())
    }
}

/// How long a thread waits until the core goes off, in milliseconds. A flush of the MMU may be
/// under way, and its thread may wait for a CPU. A thread that must not wait for jobs only waits
/// for short reads of the core's state.
const OFF_TIME: u32 = 500;
const LOOK_TIME: u32 = 50;

impl<P: Payload> Device<P> {
    /// The core of any kind that `selector` selects. Errors as [`Device::core`].
    pub(crate) fn any(&self, selector: CoreSelector) -> Result<AnyCore<P>> {
        if self.is_vector(self.place(selector)?) {
            self.vector(selector).map(AnyCore::Vector)
        } else {
            self.core(selector).map(AnyCore::Ring)
        }
    }
}

impl<P: Payload> AnyCore<P> {
    /// Brings the core into `state` until its next job. `is_alone`: no other process uses it. If
    /// another does, the core goes off after its usual delay. `own` counts waiting threads of the
    /// caller. `ChipNotReady`: it is not idle, and the caller must not wait. `GpuNotResponding`: it
    /// cannot be switched on. `Interrupted`: a Unix signal arrived.
    pub(crate) fn set_power(
        &self,
        state: PowerState,
        way: PowerWay,
        is_alone: bool,
        own: &Account,
    ) -> Result {
        let supply = self.hardware().supply();
        match (state, self.is_dead()) {
            (PowerState::On, true) => return Err(Error::GpuNotResponding),
            (PowerState::On, false) => {
                return work::by_worker(|| {
                    supply.wake().map_err(|_| Error::GpuNotResponding)?;
                    self.catch_up();
                    Ok(())
                })
            }
            // A dead core counts as off.
            (_, true) => return Ok(()),
            (_, false) => {}
        }
        match way {
            // The hang check handles jobs that do not end.
            PowerWay::Waiting => {
                if self.wait_for_rest(own) == Err(Error::Interrupted) {
                    return Err(Error::Interrupted);
                }
            }
            PowerWay::IfIdle if !self.is_idle() => return Err(Error::ChipNotReady),
            PowerWay::IfIdle | PowerWay::Later => {}
        }
        if !is_alone {
            return Ok(());
        }
        if state == PowerState::Idle {
            work::by_worker(|| -> Result {
                self.release_now();
                supply.wake().map_err(|_| Error::GpuNotResponding)?;
                each!(self, core => core.engine().slow_down());
                Ok(())
            })?;
        } else {
            self.go_off(
                state,
                match way {
                    PowerWay::Waiting => OFF_TIME,
                    PowerWay::IfIdle => LOOK_TIME,
                    PowerWay::Later => 0,
                },
            );
        }
        Ok(())
    }

    /// Has an idle core switched off, and waits for it: at most `time` milliseconds, and not after
    /// the process is killed.
    fn go_off(&self, state: PowerState, time: u32) {
        let supply = self.hardware().supply();
        self.hardware().note_suspended(state == PowerState::Suspend);
        let time = if supply.is_kept_on() { 0 } else { time };
        // Reads of its state, and the release of memory, briefly keep it on.
        let _: Option<()> = wait::poll(time, || {
            let may_go = work::by_worker(|| {
                self.release_now();
                supply.switch_off_now()
            });
            (!may_go || !self.hardware().is_on() || sys::is_killed()).then_some(())
        });
    }

    /// Switches the core on, or off if it is idle. A core that was given up is left as it is.
    pub(crate) fn switch(&self, on: bool) {
        if self.is_dead() {
            return;
        }
        if on {
            // If this fails, the core is left as it is.
            let _ = work::by_worker(|| self.hardware().supply().wake());
        } else if self.is_idle() {
            self.go_off(PowerState::Off, OFF_TIME);
        }
    }

    /// The power state of the core, and whether it is idle. A core with jobs counts as on, a dead
    /// one as off.
    pub(crate) fn power(&self) -> (PowerState, bool) {
        let idle = self.idle_state();
        let Some(IdleState { is_idle, .. }) = idle.filter(|_| !self.is_dead()) else {
            return (PowerState::Off, true);
        };
        let hardware = self.hardware();
        let state = if !self.is_idle() {
            PowerState::On
        } else if hardware.is_on() {
            if hardware.is_slow() {
                PowerState::Idle
            } else {
                PowerState::On
            }
        } else if hardware.was_suspended() {
            PowerState::Suspend
        } else {
            PowerState::Off
        };
        (state, is_idle)
    }

    /// Keeps the core on until the returned value is dropped. `GpuNotResponding`: it cannot be
    /// switched on.
    pub(crate) fn keep_on(&self) -> Result<KeptOn> {
        if self.is_dead() {
            return Err(Error::GpuNotResponding);
        }
        let kept = work::by_worker(|| self.hardware().supply().keep());
        kept.map_err(|_| Error::GpuNotResponding)
    }

    /// The rates of the core's and the shaders' clock, in Hz. 0: unknown.
    pub(crate) fn frequencies(&self) -> (u32, u32) {
        self.hardware().frequencies()
    }

    fn wait_for_rest(&self, own: &Account) -> Result {
        let newest = self.newest();
        each!(self, core => core.engine().wait_for_progress(newest, wait::TIMEOUT, own))
    }
}

impl<P: Payload> Device<P> {
    /// The bound cores of any kind, by place.
    pub(crate) fn all_cores(&self) -> impl Iterator<Item = AnyCore<P>> + '_ {
        (0..crate::limits::MAX_CORES).filter_map(|place| self.any_at(place))
    }
}

impl<P: Payload> AnyCore<P> {
    /// The place in the device.
    pub(crate) fn index(&self) -> usize {
        each!(self, core => core.index())
    }

    /// The kind of core.
    pub(crate) fn kind(&self) -> HardwareType {
        self.identity().hardware_type()
    }

    /// Number of values that the parameter `identity` sets for it.
    pub(crate) fn amended(&self) -> usize {
        self.identity().overrides
    }

    /// Model and revision, as clients see them.
    pub(crate) fn model(&self) -> (u32, u32) {
        (self.identity().model, self.identity().revision)
    }

    /// Rate of its undivided clock, in Hz. 0: unknown.
    pub(crate) fn full_frequency(&self) -> u32 {
        u32::try_from(self.hardware().rate()).unwrap_or(u32::MAX)
    }

    /// Milliseconds without users after which the core is switched off.
    pub(crate) fn off_delay(&self) -> i32 {
        self.hardware().supply().off_delay()
    }

    /// Durations of its power states since it was bound.
    pub(crate) fn power_times(&self) -> PowerTimes {
        self.hardware().power_times()
    }
}

/// The values of registers for `/proc/driver/gc`.
pub(crate) struct IdleState {
    /// `HI_IDLE_STATE`.
    pub(crate) idle: u32,
    /// `HI_CLOCK_CONTROL`.
    pub(crate) clock_control: u32,
    /// Whether no job is under way, all modules are idle, and the front end is at the ring's end.
    pub(crate) is_idle: bool,
}

impl<P: Payload> AnyCore<P> {
    /// Calls `look` with the core, if it is on. `None`: it is off or was stopped. `NotSupported`:
    /// it is for vector graphics.
    pub(crate) fn if_on<T: Send>(
        &self,
        look: impl FnOnce(&Hardware) -> T + Send,
    ) -> Result<Option<T>> {
        match self {
            AnyCore::Ring(core) => Ok(core.engine().if_on(look)),
            AnyCore::Vector(_) => Err(Error::NotSupported),
        }
    }

    /// The registers that can be read without side effects. `None`: the core is off or was stopped,
    /// or there is no memory.
    pub(crate) fn registers(&self) -> Option<RegisterDump> {
        work::by_worker(|| {
            let readable = each!(self, core => core.registers_readable.lock());
            let kept_on = self.hardware().supply().if_on().filter(|_| *readable);
            let _kept_on = kept_on.filter(|_| self.hardware().is_on())?;
            self.hardware().dump_registers().ok()
        })
    }

    /// The state of the modules and the front end. If the core is off, the state from when it went
    /// off. `None`: the core was stopped.
    pub(crate) fn idle_state(&self) -> Option<IdleState> {
        work::by_worker(|| {
            let readable = each!(self, core => core.registers_readable.lock());
            if !*readable {
                return None;
            }
            let (hardware, has_ended) = (self.hardware(), self.is_idle());
            let kept_on = hardware.supply().if_on();
            // Does not read it while a recovery switches it off and on.
            let Some(_kept_on) = kept_on.filter(|_| hardware.is_on()) else {
                let (idle, clock_control) = hardware.last_state();
                return Some(IdleState {
                    idle,
                    clock_control,
                    is_idle: has_ended,
                });
            };
            let (idle, clock_control) = (hardware.idle(), hardware.clock_control());
            Some(IdleState {
                idle,
                clock_control,
                is_idle: has_ended && each!(self, core => core.rests(idle)),
            })
        })
    }
}
