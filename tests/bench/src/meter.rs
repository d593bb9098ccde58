// SPDX-License-Identifier: GPL-2.0-only
//! Measuring: an operation many times over, and what its samples come to.

use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use galcore_selftests::control::Control;
use gpu_control::counter;
use gpu_control::fault;
use serde::Serialize;

use crate::counter::Counter;

/// How long the last interrupt's end and the freeing of memory may take before the GPU's counters are read.
const SETTLE: Duration = Duration::from_millis(30);

/// How late behind the last event the GPU's interrupts come while instructions are counted, in microseconds. A guest
/// that waits has then gone idle, and what is to be in flight at once is, and has one interrupt, however busy the host
/// is: else what an operation comes to would depend on where in it the interrupt happens to arrive.
pub const LATE: u32 = 3000;

/// How often an operation is done before it is measured, however quick that is to be: caches of the kernel's allocators,
/// page tables and predicted sizes are warm then, and the driver looks no longer at which generation a file's first 250
/// requests are of.
const WARM: usize = 256;

/// How long an operation is repeated while it is profiled, in the guest's time.
const PROFILED: Duration = Duration::from_secs(1);

/// The samples' order statistics, and the mean over all that happened.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Half of the samples are not above this.
    pub median: u64,
    /// The least.
    pub least: u64,
    /// 9 of 10 are not above this.
    pub most: u64,
    /// All samples together with what went on between them (the freeing of memory behind the GPU, say), for each.
    pub mean: u64,
}

/// What an operation costs.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Name, unique.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Samples.
    pub samples: usize,
    /// Instructions retired, user space and kernel; none where the processor does not count them.
    pub instructions: Option<Figures>,
    /// Nanoseconds; none where instructions are counted.
    pub wall: Option<Figures>,
    /// Accesses to the GPU's registers and interrupts, on average.
    #[serde(flatten)]
    pub gpu: Option<Gpu>,
}

/// What the GPU counts for one operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Gpu {
    /// Register reads.
    pub reads: f64,
    /// Register writes.
    pub writes: f64,
    /// Interrupts.
    pub interrupts: f64,
}

/// How an operation is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Name, unique.
    pub name: &'static str,
    /// Samples to take.
    pub samples: usize,
    /// Operations in one sample.
    pub per: u64,
    /// If the GPU takes part: how late its interrupts come, in microseconds; see [`LATE`].
    pub late: u32,
    /// Whether all that the GPU counts belongs to the operation.
    pub whole: bool,
}

/// Something to be measured, in three parts of which the middle one counts.
pub trait Operation {
    /// Before each sample.
    fn before(&mut self) -> Result<()> {
        Ok(())
    }
    /// What is measured.
    fn body(&mut self) -> Result<()>;
    /// After each sample.
    fn after(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<F: FnMut() -> Result<()>> Operation for F {
    fn body(&mut self) -> Result<()> {
        self()
    }
}

/// An operation made of two: what is measured, and what follows each sample.
pub struct Then<B, A>(pub B, pub A);

impl<B: FnMut() -> Result<()>, A: FnMut() -> Result<()>> Operation for Then<B, A> {
    fn body(&mut self) -> Result<()> {
        (self.0)()
    }

    fn after(&mut self) -> Result<()> {
        (self.1)()
    }
}

/// Counts or times, whichever this boot can.
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
    /// What a sample of nothing shows.
    overhead: u64,
    /// Divides the numbers of samples.
    quick: usize,
    /// Whether operations are only repeated, for somebody outside who watches.
    profile: bool,
    only: Option<String>,
    /// What names of operations begin with, besides those of their plans.
    pub prefix: &'static str,
    /// What was measured so far.
    pub costs: Vec<Cost>,
}

impl Meter {
    /// Counts instructions where the processor can, else measures time.
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

    /// Whether an operation is to be measured.
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

    /// Repeats an operation for a while, and says so.
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
            // The clock is read twice for each.
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

/// The sample that `part` of `whole` are below; sorts them.
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
