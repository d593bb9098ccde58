// SPDX-License-Identifier: GPL-2.0-only

//! One GPU core. A ring core also has tables for the stream checker, a vector core the MMU's page
//! table.
//!
//! Lock: `galcore core`, taken before `galcore ring`. It is held while registers are read for
//! display, so that the core is not stopped during the read.

use crate::{
    context::{
        scrub::Scrub,
        StateMap, //
    },
    error,
    hw::{
        Hardware,
        Identity,
        MmuVersion, //
    },
    mmu::{
        Contents,
        Mapped,
        Vm, //
    },
    params::Parameters,
    ring::{
        Config,
        Engine,
        FrontEnd,
        Payload,
        Reclaimer,
        Ring,
        RingEnd,
        Setup,
        Waited, //
    },
    stream::{
        addresses::{
            PhysicalStates,
            Scratch, //
        },
        states::States,
        words::Pipes, //
    },
    sys::{
        dma::DmaBuffer,
        prelude::*, //
    },
    vector::{
        Queue,
        SingleEnd, //
    },
    wait, //
};

/// The most events that test the interrupt.
const INTERRUPT_TESTS: u32 = 5;

/// Milliseconds that each of these events may take.
const TEST_EVENT_TIMEOUT: u32 = 1000;

/// The timeout of a vector graphics core's first interrupt, in milliseconds.
const FIRST_INTERRUPT_TIMEOUT: u32 = 1000;

/// Milliseconds that running jobs may take when the core is stopped.
const STOP_TIMEOUT: u32 = 100;

/// Bytes of a vector graphics core's page table, and an entry without a page.
const TABLE_BYTES: usize = 32 << 10;
const NO_PAGE: u32 = u32::MAX;

/// A core with front end `F`. `kind`: data specific to the front end.
#[pin_data]
pub(crate) struct CoreOf<F: FrontEnd, K> {
    engine: Arc<Engine<F>>,
    pub(super) kind: K,
    /// Whether registers may be read for display. The lock is held during such reads.
    #[pin]
    pub(super) registers_readable: Mutex<bool>,
}

/// A core with a ring.
pub(crate) type Core<P> = CoreOf<RingEnd<P>, Drawing>;

/// A core for vector graphics. It has an empty page table, because clients only use physical
/// memory.
pub(crate) type VectorCore<P> = CoreOf<SingleEnd<P>, DmaBuffer>;

/// What only a core with a ring has.
pub(crate) struct Drawing {
    states: Arc<States>,
    scratch: Scratch,
    scrub: Arc<Scrub>,
    state_map: Arc<StateMap>,
    /// The map for clients from 5.0.11 on.
    state_map_from_5_0_11: Arc<StateMap>,
    pub(super) vm: Arc<Vm>,
    /// Keeps the ring mapped in the MMU tables of all cores.
    _ring_mapping: Option<Mapped>,
    /// The lowest speed of thermal throttling, in 64ths of the full clock.
    pub(super) least_scale: u32,
}

impl<F: FrontEnd, K> CoreOf<F, K> {
    fn with(engine: Arc<Engine<F>>, kind: K) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                engine,
                kind,
                registers_readable <- new_mutex!(true, "galcore core"),
            }),
            GFP_KERNEL,
        )
    }

    /// The index among the device's cores.
    pub(crate) fn index(&self) -> usize {
        self.engine.config.core
    }

    /// The core's hardware.
    pub(crate) fn hardware(&self) -> &Hardware {
        &self.engine.hardware
    }

    /// The core's identity.
    pub(crate) fn identity(&self) -> &Identity {
        &self.hardware().identity
    }

    /// The core's jobs.
    pub(crate) fn engine(&self) -> &Arc<Engine<F>> {
        &self.engine
    }

    /// Waits for running jobs, at most [`STOP_TIMEOUT`], then closes the engine.
    pub(super) fn drain(&self) {
        let newest = self.engine.newest();
        let _ = self.engine.poll_for(newest, STOP_TIMEOUT);
        self.engine.close();
    }

    /// Stops the core: resets the front end, and drops unfinished jobs. The interrupt must be
    /// freed. No register may be accessed afterwards.
    pub(super) fn stop(&self) {
        let (engine, hardware) = (&self.engine, self.hardware());
        engine.close();
        engine.dismiss_hang_check();
        // Keeps other threads from writing the clock register.
        let completing = engine.hold_completion();
        let mut registers_readable = self.registers_readable.lock();
        // The core is off if it could not be switched on.
        if hardware.is_on() {
            hardware.disable_interrupts();
            // Isolate a core that cannot be reset. It may still write to memory that was freed.
            if engine.is_dead() || hardware.reset().is_err() {
                hardware.isolate();
            }
        }
        *registers_readable = false;
        drop(registers_readable);
        drop(completing);
        engine.lose();
        engine.reclaimer.set_ring(self.index(), None);
    }
}

/// Logs that `what` of a new core cannot be built. Returns the errno.
fn cannot_build(dev: &kernel::device::Device, what: &str, error: error::Error) -> Error {
    let errno = match error {
        error::Error::OutOfMemory => ENOMEM,
        _ => EINVAL,
    };
    dev_err!(dev, "cannot build the {what} ({errno:?})\n");
    errno
}

impl<P: Payload> Core<P> {
    /// The core of `hardware`, which was reset. It does not run yet.
    ///
    /// Prints every failure.
    pub(super) fn new(
        hardware: Arc<Hardware>,
        config: Config,
        parameters: &Parameters,
        vm: Arc<Vm>,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>> {
        let dev = &hardware.dev;
        let identity = &hardware.identity;
        let (index, base_address) = (config.core, config.base_address);
        let version = hardware.mmu_version();
        if !vm.has_tables_of(version) {
            dev_err!(
                dev,
                "its MMU is not like that of the core that was bound first: bind this one first\n"
            );
            return Err(EINVAL);
        }
        // The ring switches the page tables of one pipe only.
        if version == MmuVersion::V2 && identity.has_3d() && identity.has_2d() && vm.has_spaces() {
            dev_err!(
                dev,
                "it has a 3D and a 2D pipe, and processes have their own page tables: bind this core first, or set sharedNodes\n"
            );
            return Err(EINVAL);
        }
        let states = States::new(identity, parameters.bound_draws)
            .inspect_err(|_| dev_err!(dev, "no memory for the list of states\n"))?;
        let scratch = Scratch {
            addresses: [false, true].map(|is_2d| vm.scratch_address(index, is_2d)),
            // Physical addresses bypass the MMU and the base address registers.
            physical: vm
                .physical_scratch()
                .filter(|_| version == MmuVersion::V1 && !identity.has_new_memory_controller())
                .map(|scratch| PhysicalStates {
                    base: base_address,
                    scratch,
                }),
        };
        let no_map = |error| cannot_build(dev, "context state map", error);
        let state_map_from_5_0_11 = StateMap::newer(identity, &states).map_err(no_map)?;
        // With HALTI5 both generations use one map: the older drivers do not know HALTI5. Their map
        // would not be a part of the newer one, which `scrub` needs.
        let state_map = if identity.has_halti5() {
            state_map_from_5_0_11.clone()
        } else {
            StateMap::new(identity).map_err(no_map)?
        };
        let scrub = Scrub::new(&states, &state_map, &scratch)
            .map_err(|error| cannot_build(dev, "list of address states", error))?;
        let setup = Setup {
            fast_clear: parameters.fast_clear,
            compression: parameters.compression,
            pipes: states.pipes(),
            scrub: scrub.clone(),
        };
        let ring = Ring::with_vm(hardware.clone(), config, setup, vm.clone(), reclaimer)
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
        Self::with(
            ring,
            Drawing {
                states,
                scratch,
                scrub,
                state_map,
                state_map_from_5_0_11,
                vm,
                _ring_mapping: ring_mapping,
                least_scale: parameters.least_scale,
            },
        )
    }

    /// The states that contexts of clients before 5.0.11, or from it on, keep.
    pub(crate) fn state_map(&self, from_5_0_11: bool) -> &Arc<StateMap> {
        if from_5_0_11 {
            &self.kind.state_map_from_5_0_11
        } else {
            &self.kind.state_map
        }
    }

    /// The pipes of the core.
    pub(crate) fn pipes(&self) -> Pipes {
        self.kind.states.pipes()
    }

    /// The states of the core.
    pub(crate) fn states(&self) -> &States {
        &self.kind.states
    }

    /// The scratch memory's addresses.
    pub(crate) fn scratch(&self) -> Scratch {
        self.kind.scratch
    }

    /// The words that reset the core's address states.
    pub(crate) fn scrub(&self) -> &Scrub {
        &self.kind.scrub
    }

    /// Bytes of memory that the core itself uses.
    pub(super) fn bytes(&self) -> usize {
        self.engine.memory().size()
    }

    /// Starts the front end in the ring's idle loop. The interrupt must be requested. Prints
    /// failures of the GPU.
    pub(super) fn start(&self) -> Result {
        let ring = &self.engine;
        self.kind.vm.attach(self.index(), ring.clone())?;
        ring.reclaimer.set_ring(self.index(), Some(ring.clone()));
        ring.set_up()?;
        let (address, units) = ring.start()?;
        self.hardware().enable_interrupts();
        self.hardware().run_front_end(address, units)
    }

    /// Tests the interrupt by events. A wrong IRQ line would otherwise only show as delayed jobs.
    /// Prints every failure.
    pub(super) fn test_interrupt(&self) -> Result {
        let mut result = Ok(());
        // The hang check also completes jobs. Retry if it was first, as under a busy hypervisor.
        for _ in 0..INTERRUPT_TESTS {
            let submitted = wait::poll(TEST_EVENT_TIMEOUT, || self.engine.submit().transpose());
            let number = submitted.unwrap_or(Err(error::Error::GpuNotResponding));
            result = number.and_then(|number| self.engine.wait_for(number, TEST_EVENT_TIMEOUT));
            if result.is_err() || self.hardware().line_works() {
                break;
            }
        }
        match result {
            Ok(()) if self.hardware().line_works() => Ok(()),
            // The hang check completed the job; no interrupt arrived.
            Ok(()) => {
                dev_err!(
                    self.hardware().dev,
                    "the GPU runs, but its interrupt does not come on this line: check irqLine or the node's interrupts\n"
                );
                Err(ENODEV)
            }
            Err(error::Error::Interrupted) => {
                dev_err!(self.hardware().dev, "loading was interrupted\n");
                Err(EINTR)
            }
            Err(_) => {
                dev_err!(
                    self.hardware().dev,
                    "the GPU does not run its command ring (front end at {:#010x}, state {:#x})\n",
                    self.hardware().position(),
                    self.hardware().front_end_state()
                );
                Err(ENODEV)
            }
        }
    }

    /// Whether all modules are idle according to `idle`, the register's value, and the front end is
    /// in the ring's idle loop. The core must be on.
    pub(super) fn rests(&self, idle: u32) -> bool {
        let wanted = self.identity().idle_modules();
        let at = self.hardware().position();
        idle & wanted == wanted && at.wrapping_sub(self.engine.idle_loop()) <= 16
    }
}

impl<P: Payload> VectorCore<P> {
    /// Creates the core with `hardware`, which was reset. The core does not run yet.
    ///
    /// Prints every failure.
    pub(super) fn new(
        hardware: Arc<Hardware>,
        config: Config,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>> {
        let dev = &hardware.dev;
        let table = DmaBuffer::new(&hardware.memory, TABLE_BYTES)
            .inspect_err(|_| dev_err!(dev, "no memory for the MMU's table\n"))?;
        table.fill(NO_PAGE);
        let address = u32::try_from(table.dma_address())?;
        let queue = Queue::with_table(hardware.clone(), config, address, reclaimer)
            .inspect_err(|_| dev_err!(dev, "no memory for the queue of commands\n"))?;
        Self::with(queue, table)
    }

    /// Bytes of memory that the core itself uses.
    pub(super) fn bytes(&self) -> usize {
        self.engine.bytes() + self.kind.size()
    }

    /// Tests the interrupt by an END, then opens the queue. The interrupt must be requested. Prints
    /// every failure.
    pub(super) fn start(&self) -> Result {
        let queue = &self.engine;
        queue.start_test()?;
        // Counts pauses, not time: a busy hypervisor may stop this CPU and the core.
        for _ in 0..FIRST_INTERRUPT_TIMEOUT {
            if self.hardware().line_works() {
                queue.reclaimer.set_ring(self.index(), Some(queue.clone()));
                queue.open();
                return Ok(());
            }
            fsleep(Delta::from_millis(1));
        }
        if self.hardware().acknowledge() {
            dev_err!(
                self.hardware().dev,
                "the GPU runs, but its interrupt does not come on this line: check irqLineVG or the node's interrupts\n"
            )
        } else {
            dev_err!(
                self.hardware().dev,
                "the GPU does not run commands (idle {:#x})\n",
                self.hardware().idle()
            )
        }
        Err(ENODEV)
    }

    /// Whether all modules that draw are idle. The core must be on.
    pub(super) fn rests(&self, _idle: u32) -> bool {
        self.hardware().is_vector_idle()
    }
}
