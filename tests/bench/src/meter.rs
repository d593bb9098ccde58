// SPDX-License-Identifier: GPL-2.0-only
//! Measurement: repeats an operation and computes statistics of the samples.

use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use galcore_selftests::control::Control;
use gpu_control::counter;
use gpu_control::fault;
use serde::Serialize;

use crate::counter::Counter;

/// Time for the end of the last interrupt and for freeing memory before the GPU's counters are read.
const SETTLE: Duration = Duration::from_millis(30);

/// Delay of the GPU's interrupts after the last event while instructions are counted, in microseconds. With the
/// delay, a waiting guest is always idle, and simultaneous submissions are really in flight together and share one
/// interrupt, however busy the host is. Without it, the cost of an operation would depend on the time at which the
/// interrupt arrives.
pub const LATE: u32 = 3000;

/// Number of repetitions before the measurement, even for fast runs. They warm the caches of the kernel's allocators,
/// page tables, and predicted sizes, and the driver stops checking which generation a file's first 250 requests
/// belong to.
const WARM: usize = 256;

/// Time for which an operation is repeated while it is profiled, in guest time.
const PROFILED: Duration = Duration::from_secs(1);

/// Order statistics of the samples, and the overall mean.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Half of the samples are not above this value.
    pub median: u64,
    /// The smallest sample.
    pub least: u64,
    /// 9 of 10 samples are not above this value.
    pub most: u64,
    /// The mean per operation, including work between the samples, such as freeing memory after the GPU is done.
    pub mean: u64,
}

/// The cost of an operation.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Unique name.
    pub name: String,
    /// Description.
    pub title: String,
    /// Number of samples.
    pub samples: usize,
    /// Retired instructions in user space and kernel. `None` if the processor does not count them.
    pub instructions: Option<Figures>,
    /// Nanoseconds. `None` if instructions are counted.
    pub wall: Option<Figures>,
    /// Average register accesses and interrupts of the GPU.
    #[serde(flatten)]
    pub gpu: Option<Gpu>,
}

/// The GPU's counters for one operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Gpu {
    /// Register reads.
    pub reads: f64,
    /// Register writes.
    pub writes: f64,
    /// Interrupts.
    pub interrupts: f64,
}

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Unique name.
    pub name: &'static str,
    /// Number of samples to take.
    pub samples: usize,
    /// Operations per sample.
    pub per: u64,
    /// Delay of the GPU's interrupts in microseconds, if the GPU takes part: see [`LATE`].
    pub late: u32,
    /// Whether all of the GPU's counts belong to the operation.
    pub whole: bool,
}

/// An operation with three steps. Only the middle one is measured.
pub trait Operation {
    /// Runs before each sample.
    fn before(&mut self) -> Result<()> {
        Ok(())
    }
    /// The measured step.
    fn body(&mut self) -> Result<()>;
    /// Runs after each sample.
    fn after(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<F: FnMut() -> Result<()>> Operation for F {
    fn body(&mut self) -> Result<()> {
        self()
    }
}

/// An operation made from two functions: the measured step, and the step after each sample.
pub struct Then<B, A>(pub B, pub A);

impl<B: FnMut() -> Result<()>, A: FnMut() -> Result<()>> Operation for Then<B, A> {
    fn body(&mut self) -> Result<()> {
        (self.0)()
    }

    fn after(&mut self) -> Result<()> {
        (self.1)()
    }
}

/// Counts instructions or measures time, whichever is possible in this boot.
enum Clock {
    Instructions(Counter),
    Wall(Instant),
}

impl Clock {
    fn read(&mut self) -> Result<u64> {
        Ok(match self {
            Clock::Instructions(counter) => counter.read()?,
            Clock::Wall(start) => u64::try_from(start.elapsed().as_nanos())?,
        })
    }
}

/// Takes samples.
pub struct Meter {
    control: Control,
    clock: Clock,
    /// The result of an empty sample.
    overhead: u64,
    /// Divisor for the numbers of samples.
    quick: usize,
    /// Whether operations are only repeated, for an external profiler.
    profile: bool,
    only: Option<String>,
    /// Prefix for the names of operations.
    pub prefix: &'static str,
    /// The results so far.
    pub costs: Vec<Cost>,
}

impl Meter {
    /// Counts instructions if the processor can; otherwise measures time.
    pub fn new(quick: bool, profile: bool, only: Option<String>) -> Result<Self> {
        let clock = match Counter::running() {
            Ok(Some(counter)) => Clock::Instructions(counter),
            Ok(None) => Clock::Wall(Instant::now()),
            Err(error) => {
                eprintln!("no count of instructions here ({error})");
                Clock::Wall(Instant::now())
            }
        };
        let mut meter = Self {
            control: Control::open()?,
            clock,
            overhead: 0,
            quick: if quick { 10 } else { 1 },
            profile,
            only,
            prefix: "",
            costs: Vec::new(),
        };
        let mut samples = meter.samples(2000, &mut || Ok(()))?;
        meter.overhead = order(&mut samples, 1, 2);
        Ok(meter)
    }

    /// Whether to measure an operation.
    pub fn wants(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| name.starts_with(only.as_str()))
    }

    fn samples(&mut self, count: usize, operation: &mut dyn Operation) -> Result<Vec<u64>> {
        let mut samples = Vec::with_capacity(count);
        for _ in 0..count {
            operation.before()?;
            let begin = self.clock.read()?;
            operation.body()?;
            let end = self.clock.read()?;
            operation.after()?;
            samples.push(end - begin);
        }
        Ok(samples)
    }

    fn gpu(&self) -> [u64; 3] {
        [
            counter::MMIO_READS,
            counter::MMIO_WRITES,
            counter::INTERRUPTS,
        ]
        .map(|offset| self.control.counter(offset))
    }

    /// Repeats an operation for a while, and prints its name.
    fn repeat(&mut self, name: &str, operation: &mut dyn Operation) -> Result<()> {
        eprintln!("profile of {name}");
        let start = Instant::now();
        while start.elapsed() < PROFILED {
            operation.before()?;
            operation.body()?;
            operation.after()?;
        }
        std::thread::sleep(SETTLE);
        self.control.write(fault::CLEAR_ALL, 1);
        Ok(())
    }

    /// Measures an operation.
    pub fn measure(
        &mut self,
        plan: Plan,
        title: &str,
        mut operation: impl Operation,
    ) -> Result<()> {
        let name = format!("{}{}", self.prefix, plan.name);
        if !self.wants(&name) {
            return Ok(());
        }
        let count = (plan.samples / self.quick).max(10);
        self.samples(WARM, &mut operation)?;
        std::thread::sleep(SETTLE);
        if let Clock::Instructions(_) = &self.clock {
            self.control.write(fault::DELAY_INTERRUPTS, plan.late);
            self.control.write(fault::GATHER_INTERRUPTS, 1);
        }
        if self.profile {
            return self.repeat(&name, &mut operation);
        }
        let gpu = self.gpu();
        let begin = self.clock.read()?;
        let mut samples = self.samples(count, &mut operation)?;
        let all = self.clock.read()? - begin;
        std::thread::sleep(SETTLE);
        self.control.write(fault::CLEAR_ALL, 1);
        let after = self.gpu();
        let (samples_taken, per) = (samples.len() as u64, plan.per);
        for sample in &mut samples {
            *sample = sample.saturating_sub(self.overhead) / per;
        }
        let figures = Figures {
            median: order(&mut samples, 1, 2),
            least: order(&mut samples, 0, 1),
            most: order(&mut samples, 9, 10),
            // Each operation includes two reads of the clock.
            mean: all.saturating_sub(2 * self.overhead * samples_taken) / (samples_taken * per),
        };
        let each = |index: usize| {
            let count = (after[index] - gpu[index]) as f64;
            (count / (samples_taken * per) as f64 * 1000.0).round() / 1000.0
        };
        let (instructions, wall) = match self.clock {
            Clock::Instructions(_) => (Some(figures), None),
            Clock::Wall(_) => (None, Some(figures)),
        };
        eprintln!(
            "{name}: median {}, least {}, 90% {}, mean {}; {} reads, {} writes, {} interrupts",
            figures.median,
            figures.least,
            figures.most,
            figures.mean,
            each(0),
            each(1),
            each(2)
        );
        self.costs.push(Cost {
            name,
            title: match self.prefix.strip_suffix('-') {
                Some(of) => format!("{of}: {title}"),
                None => title.to_string(),
            },
            samples: count,
            instructions,
            wall,
            gpu: plan.whole.then(|| Gpu {
                reads: each(0),
                writes: each(1),
                interrupts: each(2),
            }),
        });
        Ok(())
    }
}

/// Sorts the samples and returns the one at position `part` of `whole`.
fn order(samples: &mut [u64], part: usize, whole: usize) -> u64 {
    samples.sort_unstable();
    let last = samples.len().saturating_sub(1);
    samples.get(last * part / whole).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn order_statistics() {
        let mut samples = [5, 1, 4, 2, 3];
        assert_eq!(order(&mut samples, 1, 2), 3);
        assert_eq!(order(&mut samples, 0, 1), 1);
        assert_eq!(order(&mut samples, 9, 10), 4);
        assert_eq!(order(&mut [], 1, 2), 0);
    }
}
