// SPDX-License-Identifier: GPL-2.0-only
//! The contents of a trace, by core and process.

use std::collections::BTreeMap;

use galcore_trace::Event;
use galcore_trace::Job as JobId;
use galcore_trace::Outcome;
use galcore_trace::Submit;
use galcore_trace::Trace;
use galcore_trace::Wait;

/// A time span, in nanoseconds of the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub from: u64,
    /// End.
    pub to: u64,
}

impl Span {
    /// Its length.
    pub fn length(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// The overlap of two spans; it may be empty.
    pub fn common(self, other: Span) -> Span {
        let from = self.from.max(other.from);
        Span {
            from,
            to: self.to.min(other.to).max(from),
        }
    }
}

/// A job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// Its sequence number on its core.
    pub seqno: u64,
    /// Time and details of its submission, if seen.
    pub submit: Option<(u64, Submit)>,
    /// Start time.
    pub begin: Option<u64>,
    /// End time and outcome.
    pub end: Option<(u64, Outcome)>,
    /// Whether the core hung in this job.
    pub hung: bool,
}

impl Job {
    /// The process that submitted it, if known; 0 for the driver.
    pub fn process(&self) -> Option<i32> {
        self.submit.as_ref().map(|(_, submit)| submit.process)
    }
}

/// A core.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Core {
    /// The pipe that its jobs use, if seen.
    pub pipe: String,
    /// Its jobs, by number.
    pub jobs: BTreeMap<u64, Job>,
    /// Times when it was switched on (`true`) or off.
    pub power: Vec<(u64, bool, String)>,
    /// Times when its speed changed, in 64ths.
    pub speeds: Vec<(u64, u32)>,
    /// Times of hangs, with the job and the guilty process (0 if none).
    pub hangs: Vec<(u64, u64, i32)>,
    /// Times of resets, with the number of attempts and whether the core works again.
    pub resets: Vec<(u64, u32, bool)>,
}

/// A thread's wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// Its time span.
    pub span: Span,
    /// What the thread waits for.
    pub wait: Wait,
    /// Its result. `None` if the trace does not contain its start or its end.
    pub result: Option<i32>,
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Name of one of its threads. It may contain any characters.
    pub name: String,
    /// Times and jobs of its submissions.
    pub submits: Vec<(u64, JobId)>,
    /// The waits of each thread, by thread id.
    pub waits: BTreeMap<i32, Vec<Waited>>,
    /// Times of changes of mapped memory, in bytes; negative when unmapped.
    pub mapped: Vec<(u64, i64)>,
}

/// A whole trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// From the first event to the last.
    pub span: Span,
    /// The cores, by number.
    pub cores: BTreeMap<u32, Core>,
    /// The processes, by number.
    pub processes: BTreeMap<i32, Process>,
    /// Number of events that the kernel lost.
    pub lost: u64,
}

impl Timeline {
    /// Builds the timeline of `trace`. `None` if the trace has no events of the driver.
    pub fn new(trace: &Trace) -> Option<Timeline> {
        let span = Span {
            from: trace.records.first()?.time,
            to: trace.records.last()?.time,
        };
        let mut all = Timeline {
            span,
            cores: BTreeMap::new(),
            processes: BTreeMap::new(),
            lost: trace.lost,
        };
        // The current wait of each thread.
        let mut waiting: BTreeMap<i32, (u64, Wait)> = BTreeMap::new();
        for record in &trace.records {
            let time = record.time;
            match &record.event {
                Event::Submit(submit) => {
                    let core = all.cores.entry(submit.job.0).or_default();
                    if submit.pipe != "none" && core.pipe.len() < submit.pipe.len() {
                        core.pipe.clone_from(&submit.pipe);
                    }
                    all.job(submit.job).submit = Some((time, submit.clone()));
                    if submit.process != 0 {
                        let process = all.process(submit.process, record.thread, &record.task);
                        process.submits.push((time, submit.job));
                    }
                }
                Event::Begin(job) => all.job(*job).begin = Some(time),
                Event::End(job, outcome) => all.job(*job).end = Some((time, *outcome)),
                Event::WaitBegin { wait, .. } => {
                    all.process(wait.process, record.thread, &record.task);
                    waiting.insert(record.thread, (time, wait.clone()));
                }
                Event::WaitEnd { wait, result } => {
                    let begun = waiting.remove(&record.thread);
                    let from = begun.map_or(span.from, |(from, _)| from);
                    let process = all.process(wait.process, record.thread, &record.task);
                    process
                        .waits
                        .entry(record.thread)
                        .or_default()
                        .push(Waited {
                            span: Span { from, to: time },
                            wait: wait.clone(),
                            result: Some(*result),
                        });
                }
                Event::Map(mapping) => {
                    let process = all.processes.entry(mapping.process).or_default();
                    process.mapped.push((time, signed(mapping.bytes)));
                }
                Event::Unmap(mapping) => {
                    let process = all.processes.entry(mapping.process).or_default();
                    process.mapped.push((time, -signed(mapping.bytes)));
                }
                Event::Hang { job, guilty } => {
                    all.job(*job).hung = true;
                    let core = all.cores.entry(job.0).or_default();
                    core.hangs.push((time, job.1, *guilty));
                }
                Event::Reset { core, tries, ok } => {
                    let core = all.cores.entry(*core).or_default();
                    core.resets.push((time, *tries, *ok));
                }
                Event::Power { core, on, why, .. } => {
                    let core = all.cores.entry(*core).or_default();
                    core.power.push((time, *on, why.clone()));
                }
                Event::Speed { core, speed } => {
                    let core = all.cores.entry(*core).or_default();
                    core.speeds.push((time, *speed));
                }
            }
        }
        for (thread, (from, wait)) in waiting {
            let process = all.processes.entry(wait.process).or_default();
            process.waits.entry(thread).or_default().push(Waited {
                span: Span { from, to: span.to },
                wait,
                result: None,
            });
        }
        Some(all)
    }

    fn job(&mut self, (core, seqno): JobId) -> &mut Job {
        let jobs = &mut self.cores.entry(core).or_default().jobs;
        let job = jobs.entry(seqno).or_default();
        job.seqno = seqno;
        job
    }

    /// A process. Its name is that of the main thread, or else of the first thread seen.
    fn process(&mut self, number: i32, thread: i32, task: &str) -> &mut Process {
        let process = self.processes.entry(number).or_default();
        if process.name.is_empty() || thread == number {
            process.name = task.to_string();
        }
        process
    }

    /// A printable name of a process.
    pub fn name(&self, process: i32) -> String {
        let plain = |letter: char| if letter.is_control() { '?' } else { letter };
        match self.processes.get(&process) {
            _ if process == 0 => "the driver".to_string(),
            Some(known) if !known.name.is_empty() => {
                let name: String = known.name.chars().map(plain).collect();
                format!("{name} {process}")
            }
            _ => format!("process {process}"),
        }
    }

    /// The time span when a job had the core. A job without an end has it to the end of the trace; a job that never
    /// started has none.
    pub fn run(&self, job: &Job) -> Option<Span> {
        let to = job.end.map_or(self.span.to, |(to, _)| to);
        match (job.begin, &job.submit) {
            (Some(from), _) => Some(Span { from, to }),
            // It started before the trace did.
            (None, None) => Some(Span {
                from: self.span.from,
                to,
            }),
            (None, Some(_)) => None,
        }
    }

    /// The time span when a job waited in the queue.
    pub fn queued(&self, job: &Job) -> Option<Span> {
        let from = job.submit.as_ref()?.0;
        let end = job.end.map(|(end, _)| end);
        Some(Span {
            from,
            to: job.begin.or(end).unwrap_or(self.span.to),
        })
    }

    /// The time spans when a core was off. The state before the first event is the opposite of the state that it
    /// sets.
    pub fn off(&self, core: &Core) -> Vec<Span> {
        let mut all = Vec::new();
        let mut from = match core.power.first() {
            Some((_, true, _)) => Some(self.span.from),
            _ => None,
        };
        for &(time, on, _) in &core.power {
            match (on, from) {
                (true, Some(begin)) => {
                    all.push(Span {
                        from: begin,
                        to: time,
                    });
                    from = None;
                }
                (false, None) => from = Some(time),
                _ => {}
            }
        }
        all.extend(from.map(|from| Span {
            from,
            to: self.span.to,
        }));
        all
    }

    /// Total time in which a core had jobs, in nanoseconds.
    pub fn busy(&self, core: &Core) -> u64 {
        let jobs = core.jobs.values();
        jobs.filter_map(|job| self.run(job)).map(Span::length).sum()
    }

    /// Number of queued jobs of a core, as a list of changes.
    pub fn depths(&self, core: &Core) -> Vec<(u64, usize)> {
        let mut changes = BTreeMap::new();
        for span in core.jobs.values().filter_map(|job| self.queued(job)) {
            if span.length() > 0 {
                *changes.entry(span.from).or_insert(0_i64) += 1;
                *changes.entry(span.to).or_insert(0) -= 1;
            }
        }
        let mut depth = 0;
        let step = |(time, change)| {
            depth += change;
            (time, usize::try_from(depth).unwrap_or(0))
        };
        changes.into_iter().map(step).collect()
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Two processes on a core that resumes late, with a hang. Times are in milliseconds.
    pub const TEXT: &str = "\
 one-10 [000] ..... 1.000: galcore_submit: core=0 seqno=5 process=10 context=1 pipe=3d words=8 event_id=0
 one-10 [000] ..... 1.001: galcore_wait_begin: process=10 what=signal object=3 core=-1 timeout=-1
 <&\">-20 [000] ..... 1.002: galcore_submit: core=0 seqno=6 process=20 context=2 pipe=3d words=8 event_id=1
 kw-2 [000] ..... 1.003: galcore_power: core=0 on=1 why=use speed=64
 kw-2 [000] ..... 1.004: galcore_begin: core=0 seqno=5
 kw-2 [000] ..... 1.020: galcore_hang: core=0 seqno=5 guilty=10
 kw-2 [000] ..... 1.024: galcore_reset: core=0 tries=1 ok=1
 irq-3 [000] ..... 1.025: galcore_end: core=0 seqno=5 outcome=dropped
 irq-3 [000] ..... 1.025: galcore_begin: core=0 seqno=6
 one-10 [000] ..... 1.026: galcore_wait_end: process=10 what=signal object=3 core=-1 result=0
 irq-3 [000] ..... 1.030: galcore_end: core=0 seqno=6 outcome=done
 kw-2 [000] ..... 1.040: galcore_power: core=0 on=0 why=use speed=64
";

    pub fn timeline(text: &str) -> Timeline {
        Timeline::new(&Trace::parse(text)).unwrap()
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn jobs_waits_and_power_are_found() {
        let all = timeline(TEXT);
        let core = &all.cores[&0];
        assert_eq!(core.pipe, "3d");
        let job = &core.jobs[&5];
        assert!(job.hung);
        assert_eq!(all.run(job).unwrap().length(), 21 * MS);
        assert_eq!(all.queued(job).unwrap().length(), 4 * MS);
        assert_eq!(all.busy(core), 26 * MS);
        let off: Vec<_> = all.off(core).into_iter().map(Span::length).collect();
        assert_eq!(off, [3 * MS, 0]);
        let depths: Vec<_> = all.depths(core).into_iter().map(|d| d.1).collect();
        assert_eq!(depths, [1, 2, 1, 0]);
        let waits = &all.processes[&10].waits[&10];
        assert_eq!((waits.len(), waits[0].span.length()), (1, 25 * MS));
        assert_eq!(all.name(10), "one 10");
    }

    #[test]
    fn what_a_trace_cuts_off_is_not_made_up() {
        let all = timeline(
            "a-1 [0] 1.0: galcore_begin: core=0 seqno=8\n\
             a-1 [0] 2.0: galcore_end: core=0 seqno=8 outcome=done\n\
             a-1 [0] 2.0: galcore_submit: core=0 seqno=9 process=1 context=0 pipe=none words=0 event_id=0\n\
             a-1 [0] 2.5: galcore_end: core=0 seqno=9 outcome=dropped\n\
             a-1 [0] 3.0: galcore_wait_begin: process=1 what=job object=9 core=0 timeout=5\n\
             a-1 [0] 4.0: galcore_speed: core=0 speed=32\n",
        );
        let core = &all.cores[&0];
        assert_eq!(core.jobs[&8].process(), None);
        // This job never had the core.
        assert_eq!(all.run(&core.jobs[&9]), None);
        assert_eq!(all.queued(&core.jobs[&8]), None);
        let wait = &all.processes[&1].waits[&1][0];
        assert_eq!((wait.result, wait.span.length()), (None, 1000 * MS));
        assert!(all.off(core).is_empty());
        assert_eq!(Timeline::new(&Trace::default()), None);
    }
}
