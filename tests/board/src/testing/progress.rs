// SPDX-License-Identifier: GPL-2.0-only
//! Progress display: a bar on a terminal, plain lines otherwise.

use std::io;
use std::io::IsTerminal;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::ProgressBar;
use indicatif::ProgressStyle;

use super::results::SuiteResult;

/// Interval at which the bar's clock updates.
const TICK: Duration = Duration::from_millis(200);

/// The progress of a run. Several threads may report to it.
pub struct Progress {
    bar: Option<ProgressBar>,
    steps: usize,
    done: AtomicUsize,
}

impl Progress {
    /// Creates the display for a run of `steps` steps.
    pub fn new(steps: usize) -> Progress {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(steps as u64);
            let style = "{elapsed_precise} {bar:24} {pos}/{len} {msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            bar
        });
        Progress {
            bar,
            steps,
            done: AtomicUsize::new(0),
        }
    }

    /// Shows what is running now.
    pub fn running(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_string());
        }
    }

    /// Shows a completed step.
    pub fn done(&self, result: &SuiteResult) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.println(result.line());
            }
            None => eprintln!("[{done}/{}] {}", self.steps, result.line()),
        }
    }

    /// Prints a message that is not a step.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    /// Ends the display.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
