// SPDX-License-Identifier: GPL-2.0-only

//! One core for vector graphics: its hardware and its queue.
//!
//! Lock: `galcore core`, as for other cores.

use crate::{
    hw::Hardware,
    ring::{
        Config,
        Payload,
        Reclaimer,
        Waited, //
    },
    sys::{
        dma::DmaBuffer,
        prelude::*, //
    },
    vector::Queue, //
};
use kernel::device::Device;

/// The timeout of the first interrupt, in milliseconds.
const FIRST_INTERRUPT_TIMEOUT: u32 = 1000;

/// The timeout of running jobs when the core is stopped, in milliseconds.
const STOP_TIMEOUT: u32 = 100;

/// Bytes of the page table, and an entry without a page.
const TABLE_BYTES: usize = 32 << 10;
const NO_PAGE: u32 = u32::MAX;

/// A core for vector graphics.
#[pin_data]
pub(crate) struct VectorCore<P: Payload> {
    /// The place in the device.
    index: usize,
    hardware: Arc<Hardware>,
    queue: Arc<Queue<P>>,
    reclaimer: Arc<Reclaimer>,
    /// An empty page table, because clients only use physical memory.
    table: DmaBuffer,
    /// Whether registers may be read for display. Such reads hold the lock.
    #[pin]
    pub(super) is_on: Mutex<bool>,
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
        let dev = hardware.device();
        let index = config.core;
        let table = DmaBuffer::new(hardware.memory(), TABLE_BYTES)
            .inspect_err(|_| dev_err!(dev, "no memory for the MMU's table\n"))?;
        table.fill(NO_PAGE);
        let address = u32::try_from(table.dma_address())?;
        let queue = Queue::with_table(hardware.clone(), config, address, reclaimer.clone())
            .inspect_err(|_| dev_err!(dev, "no memory for the queue of commands\n"))?;
        Arc::pin_init(
            pin_init!(Self {
                index,
                hardware,
                queue,
                reclaimer,
                table,
                is_on <- new_mutex!(true, "galcore core"),
            }),
            GFP_KERNEL,
        )
    }

    /// The place in the device.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The device, for its log lines.
    fn device(&self) -> &Device {
        self.hardware.device()
    }

    /// The core's hardware.
    pub(super) fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// The queue.
    pub(crate) fn queue(&self) -> &Arc<Queue<P>> {
        &self.queue
    }

    /// The queue, by the name that cores of all kinds have.
    pub(crate) fn engine(&self) -> &Arc<Queue<P>> {
        &self.queue
    }

    /// Bytes of memory that the core itself uses.
    pub(crate) fn bytes(&self) -> usize {
        self.queue.bytes() + self.table.size()
    }

    /// Tests the interrupt by an END, then opens the queue. The interrupt must be requested. Prints
    /// every failure.
    pub(crate) fn start(&self) -> Result {
        self.queue.start_test()?;
        for _ in 0..FIRST_INTERRUPT_TIMEOUT {
            if self.hardware.line_works() {
                self.reclaimer
                    .set_ring(self.index, Some(self.queue.clone()));
                self.queue.open();
                return Ok(());
            }
            fsleep(Delta::from_millis(1));
        }
        if self.hardware.acknowledge() {
            dev_err!(
                self.device(),
                "the GPU runs, but its interrupt does not come on this line: check irqLineVG or the node's interrupts\n"
            )
        } else {
            dev_err!(
                self.device(),
                "the GPU does not run commands (idle {:#x})\n",
                self.hardware.idle()
            )
        }
        Err(ENODEV)
    }

    /// Waits briefly for running jobs, then closes the queue for new ones.
    pub(crate) fn drain(&self) {
        let newest = self.queue.newest();
        let _ = self.queue.poll_for(newest, STOP_TIMEOUT);
        self.queue.close();
    }

    /// Stops the core: resets the front end, and drops unfinished jobs. The interrupt must be
    /// freed. No register may be accessed afterwards.
    pub(crate) fn stop(&self) {
        self.queue.close();
        self.queue.dismiss_hang_check();
        let mut is_on = self.is_on.lock();
        // The core is off if it could not be switched on.
        if self.hardware.is_on() {
            self.hardware.disable_interrupts();
            // A dead core stays isolated, because memory that it may still write has other users
            // already.
            if self.queue.is_dead() || self.hardware.reset().is_err() {
                self.hardware.isolate();
            }
        }
        *is_on = false;
        drop(is_on);
        self.queue.lose();
        self.reclaimer.set_ring(self.index, None);
    }

    /// Whether all modules that draw are idle. The core must be on.
    pub(super) fn rests(&self, _idle: u32) -> bool {
        self.hardware.is_vector_idle()
    }
}
