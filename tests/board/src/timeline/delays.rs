// SPDX-License-Identifier: GPL-2.0-only
//! Causes of delays: splits a job's time from submission to end into phases.

use super::model::Job;
use super::model::Span;
use super::model::Timeline;

/// The phases of a job, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delay {
    /// Its core.
    pub core: u32,
    /// Its sequence number on the core.
    pub seqno: u64,
    /// The process that submitted it.
    pub process: i32,
    /// Time from submission to end.
    pub all: u64,
    /// Time in the queue after jobs of other processes.
    pub others: u64,
    /// Time in the queue after jobs of its own process.
    pub own: u64,
    /// Time while the core was off.
    pub off: u64,
    /// Other time before its start, mostly while the core resumed.
    pub rest: u64,
    /// Time on the core.
    pub runs: u64,
    /// Whether the core hung in this job.
    pub hung: bool,
}

/// The jobs with the longest time from submission to end, at most `count`, longest first.
pub fn longest(timeline: &Timeline, count: usize) -> Vec<Delay> {
    let mut all = Vec::new();
    for (number, core) in &timeline.cores {
        let off = timeline.off(core);
        // In submission order, which is also execution order.
        let runs: Vec<_> = core
            .jobs
            .values()
            .filter_map(|job| Some((job.process(), timeline.run(job)?)))
            .collect();
        let delays = core
            .jobs
            .values()
            .filter_map(|job| delay(timeline, *number, job, &off, &runs));
        all.extend(delays);
    }
    all.sort_by_key(|delay| std::cmp::Reverse(delay.all));
    all.truncate(count);
    all
}

fn delay(
    timeline: &Timeline,
    number: u32,
    job: &Job,
    off: &[Span],
    runs: &[(Option<i32>, Span)],
) -> Option<Delay> {
    let process = job.process()?;
    let queued = timeline.queued(job)?;
    let (end, _) = job.end?;
    let behind = |is_one: &dyn Fn(Option<i32>) -> bool| -> u64 {
        let first = runs.partition_point(|(_, run)| run.to <= queued.from);
        let met = runs[first..]
            .iter()
            .take_while(|(_, run)| run.from < queued.to);
        met.filter(|(whose, _)| is_one(*whose))
            .map(|(_, run)| run.common(queued).length())
            .sum()
    };
    let others = behind(&|whose| whose != Some(process));
    let own = behind(&|whose| whose == Some(process));
    let off = off.iter().map(|off| off.common(queued).length()).sum();
    Some(Delay {
        core: number,
        seqno: job.seqno,
        process,
        all: end.saturating_sub(queued.from),
        others,
        own,
        off,
        // No job runs while the core is off.
        rest: queued.length().saturating_sub(others + own + off),
        runs: timeline.run(job).map_or(0, Span::length),
        hung: job.hung,
    })
}

/// Formats nanoseconds as milliseconds.
pub fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.2} ms", nanoseconds as f64 / 1e6)
}

impl Delay {
    /// Formats the delay as one line.
    pub fn line(&self, timeline: &Timeline) -> String {
        let mut parts = Vec::new();
        for (time, what) in [
            (self.off, "the core was off"),
            (self.others, "behind other processes' jobs"),
            (self.own, "behind its own jobs"),
            (self.rest, "until the core was ready"),
        ] {
            if time > 0 {
                parts.push(format!("{} {what}", milliseconds(time)));
            }
        }
        let hung = if self.hung { ", hung" } else { "" };
        parts.push(format!("{} on the core{hung}", milliseconds(self.runs)));
        format!(
            "core {} job {} of {}: {} = {}",
            self.core,
            self.seqno,
            timeline.name(self.process),
            milliseconds(self.all),
            parts.join(" + ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::timeline;
    use super::super::model::tests::TEXT;
    use super::*;

    #[test]
    fn delays_have_their_reasons() {
        let all = timeline(TEXT);
        let delays = longest(&all, 9);
        let times: Vec<_> = delays
            .iter()
            .map(|d| [d.seqno, d.all, d.others, d.own, d.off, d.rest, d.runs])
            .map(|[seqno, times @ ..]| (seqno, times.map(|t| t / 1_000_000)))
            .collect();
        // The second job waits for the core to resume, and then for the first job, which hangs.
        assert_eq!(
            times,
            [(6, [28, 21, 0, 1, 1, 5]), (5, [25, 0, 0, 3, 1, 21])]
        );
        assert_eq!(longest(&all, 1).len(), 1);
        assert_eq!(
            delays[1].line(&all),
            "core 0 job 5 of one 10: 25.00 ms = 3.00 ms the core was off + 1.00 ms until the core was ready + 21.00 ms on the core, hung"
        );
    }
}
