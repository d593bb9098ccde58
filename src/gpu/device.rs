// SPDX-License-Identifier: GPL-2.0-only

//! The device: its cores, and the address space and memory that they share.

use super::Core;
use crate::{
    abi::{
        CoreSelector,
        IdentityWords, //
    },
    error::{
        Error,
        Result, //
    },
    hw::Identity,
    memory::VideoMemory,
    mmu::Vm,
    params::Parameters,
    ring::{
        Payload,
        Reclaimer, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What `/dev/galcore` stands for.
pub(crate) struct Device<P: Payload> {
    parameters: Parameters,
    /// Never empty. The first is the one that is asked for what all have.
    cores: KVec<Arc<Core<P>>>,
    /// The first core's identity, as clients are to see it.
    identity: Identity,
    /// The same as they are told it.
    identity_words: IdentityWords,
    vm: Arc<Vm>,
    memory: Arc<VideoMemory>,
    reclaimer: Arc<Reclaimer>,
}

impl<P: Payload> Device<P> {
    /// A device with one core. `ENOMEM`.
    pub(crate) fn new(
        parameters: Parameters,
        core: Arc<Core<P>>,
        vm: Arc<Vm>,
        memory: Arc<VideoMemory>,
        reclaimer: Arc<Reclaimer>,
    ) -> Result<Arc<Self>, kernel::error::Error> {
        let identity = core
            .identity()
            .reported(parameters.fast_clear, parameters.compression);
        let mut cores = KVec::new();
        cores.push(core, GFP_KERNEL)?;
        let device = Self {
            parameters,
            cores,
            identity_words: IdentityWords::from(&identity),
            identity,
            vm,
            memory,
            reclaimer,
        };
        Ok(Arc::new(device, GFP_KERNEL)?)
    }

    /// The module's parameters.
    pub(crate) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The cores; there is at least one.
    pub(crate) fn cores(&self) -> &[Arc<Core<P>>] {
        &self.cores
    }

    /// The core that a request means. A device with one core takes what is meant for any.
    pub(crate) fn core(&self, selector: CoreSelector) -> &Arc<Core<P>> {
        match &self.cores[..] {
            [only] => only,
            cores => Self::find(cores, selector),
        }
    }

    #[cold]
    fn find(cores: &[Arc<Core<P>>], selector: CoreSelector) -> &Arc<Core<P>> {
        let wanted = selector.hardware_type();
        let mut of_type = cores.iter().filter(|core| {
            let own = core.identity().hardware_type();
            wanted.is_none_or(|wanted| wanted == own)
        });
        of_type.nth(selector.index()).unwrap_or(&cores[0])
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

    /// The first core's identity as clients are to see it.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The words of [`Device::identity`] that clients are told.
    pub(crate) fn identity_words(&self) -> &IdentityWords {
        &self.identity_words
    }

    /// Bytes of memory that the cores themselves take.
    pub(crate) fn bytes(&self) -> usize {
        let cores: usize = self.cores.iter().map(|core| core.bytes()).sum();
        cores + self.vm.bytes()
    }

    /// Waits until what clients have let go of so far and is in no window is free, as far as the
    /// cores go on. `Interrupted`: a Unix signal came. Not for the work queue.
    pub(crate) fn wait_for_reclaim(&self) -> Result {
        let wait = || {
            let newest = self.reclaimer.newest();
            for (core, number) in self.cores.iter().zip(newest) {
                core.ring().wait_for_progress(number)?;
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
