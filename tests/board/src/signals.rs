// SPDX-License-Identifier: GPL-2.0-only
//! Signals to the runner.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use anyhow::Result;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;

/// Signals to the runner, which the main loop polls.
#[derive(Debug, Clone)]
pub struct Signals {
    caught: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub fn catch() -> Result<Signals> {
        let caught = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal)?;
            signal_hook::flag::register_usize(signal, Arc::clone(&caught), number)?;
        }
        Ok(Signals { caught })
    }

    /// The last signal received; 0 means none.
    pub fn last(&self) -> usize {
        self.caught.load(Ordering::Relaxed)
    }
}
