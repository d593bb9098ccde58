// SPDX-License-Identifier: GPL-2.0-only
//! Parser for the driver's trace events, in the text of `/sys/kernel/tracing/trace` or of `trace-cmd report`.
//! `Documentation/admin-guide.md` explains the events.

use std::collections::BTreeMap;
use std::str::FromStr;

/// A trace line of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Time in nanoseconds of the trace's clock.
    pub time: u64,
    /// Name of the thread that recorded it. A program chooses this name, so it may contain anything.
    pub task: String,
    /// Id of that thread.
    pub thread: i32,
    /// The event.
    pub event: Event,
}

/// A job: the index of its core, and its number there.
pub type Job = (u32, u64);

/// An event of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A job was added to a core's queue.
    Submit(Submit),
    /// A job started.
    Begin(Job),
    /// A job ended.
    End(Job, Outcome),
    /// A thread started to wait.
    WaitBegin {
        /// The object that it waits for.
        wait: Wait,
        /// Time limit in milliseconds; -1 means none.
        timeout: i32,
    },
    /// A thread stopped waiting.
    WaitEnd {
        /// The object that it waited for.
        wait: Wait,
        /// 0, or a status of the interface.
        result: i32,
    },
    /// Memory was mapped for the GPU.
    Map(Mapping),
    /// A mapping was removed.
    Unmap(Mapping),
    /// A core hangs.
    Hang {
        /// Its oldest job.
        job: Job,
        /// The guilty process; 0 means none.
        guilty: i32,
    },
    /// A core was reset.
    Reset {
        /// The core.
        core: u32,
        /// Number of attempts.
        tries: u32,
        /// Whether the core works again.
        ok: bool,
    },
    /// A core was switched on or off.
    Power {
        /// The core.
        core: u32,
        /// Whether it was switched on.
        on: bool,
        /// The reason: `use`, `suspend`, `recovery`, `given-up`.
        why: String,
        /// The clock rate in 64ths.
        speed: u32,
    },
    /// A core's speed changed.
    Speed {
        /// The core.
        core: u32,
        /// The clock rate in 64ths.
        speed: u32,
    },
}

/// A submitted job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submit {
    /// The job.
    pub job: Job,
    /// The process that submitted it; 0 means the driver.
    pub process: i32,
    /// Its context; 0 means none.
    pub context: u64,
    /// Its pipes: `none`, `3d`, `2d`, `3d+2d`, `vg`.
    pub pipe: String,
    /// Number of command words from the process.
    pub words: u32,
    /// Its event id.
    pub event_id: u32,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The GPU completed it.
    Done,
    /// It was dropped.
    Dropped,
    /// Its place was released before it was submitted.
    NeverRun,
}

/// The object of a thread's wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The process.
    pub process: i32,
    /// `signal`, `job`, `place` or `fence`.
    pub what: String,
    /// The number of the signal, job, or descriptor.
    pub object: u64,
    /// The core, if there is one.
    pub core: Option<u32>,
}

/// Memory mapped for the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The process with the mapping.
    pub process: i32,
    /// GPU address.
    pub address: u32,
    /// Size in bytes.
    pub bytes: u64,
}

/// A trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The driver's events, in time order.
    pub records: Vec<Record>,
    /// Number of lost events, if the text states it.
    pub lost: u64,
    /// Lines that look like the driver's events but cannot be parsed.
    pub strange: Vec<String>,
}

impl Trace {
    /// Parses a trace. Other lines are skipped.
    pub fn parse(text: &str) -> Trace {
        let mut trace = Trace::default();
        for line in text.lines() {
            if let Some(lost) = lost(line) {
                trace.lost += lost;
            } else if let Some((head, name, fields)) = split(line) {
                match record(head, name, fields) {
                    Some(record) => trace.records.push(record),
                    None => trace.strange.push(line.to_string()),
                }
            }
        }
        // The processors' buffers are merged by time. The sort is stable.
        trace.records.sort_by_key(|record| record.time);
        trace
    }
}

/// Text before the names of the driver's events.
const PREFIX: &str = ": galcore_";

/// Parses `CPU:0 [LOST 12 EVENTS]` and `# entries-in-buffer/entries-written: 200/212   #P:2`.
fn lost(line: &str) -> Option<u64> {
    if let Some((_, rest)) = line.split_once("[LOST ") {
        return rest.split_once(" EVENTS]")?.0.trim().parse().ok();
    }
    let counts = line.strip_prefix("# entries-in-buffer/entries-written:")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    let (kept, written): (u64, u64) = (kept.parse().ok()?, written.parse().ok()?);
    Some(written.saturating_sub(kept))
}

/// Splits a line into the text before the event's name, the name, and the fields. A thread's name may look like an
/// event, but fields contain only numbers and fixed words, so the last match is the event.
fn split(line: &str) -> Option<(&str, &str, &str)> {
    let at = line.rfind(PREFIX)?;
    let (name, fields) = line[at + PREFIX.len()..].split_once(':')?;
    Some((&line[..at], name.trim(), fields))
}

fn record(head: &str, name: &str, fields: &str) -> Option<Record> {
    let (task, thread, time) = origin(head)?;
    let fields = Fields::new(fields)?;
    Some(Record {
        time,
        task,
        thread,
        event: fields.event(name)?,
    })
}

/// Parses `   galcore-demo-123   (  123) [001] d..2.   12.345678`: the thread's name and id, and the time.
fn origin(head: &str) -> Option<(String, i32, u64)> {
    let head = head.trim();
    let (rest, time) = head.rsplit_once(char::is_whitespace)?;
    let time = nanoseconds(time)?;
    let bracket = rest.rfind(" [")?;
    let mut who = rest[..bracket].trim_end();
    if who.ends_with(')') {
        // The process id, with the option record-tgid.
        who = who[..who.rfind('(')?].trim_end();
    }
    let (task, thread) = who.rsplit_once('-')?;
    Some((task.trim().to_string(), thread.parse().ok()?, time))
}

/// Parses seconds with a fraction of any length.
fn nanoseconds(time: &str) -> Option<u64> {
    let (seconds, fraction) = time.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let scale = 10_u64.pow(9 - u32::try_from(fraction.len()).ok()?);
    let seconds: u64 = seconds.parse().ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(fraction.parse::<u64>().ok()? * scale)
}

/// The fields of an event by name.
struct Fields<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    fn new(text: &'a str) -> Option<Self> {
        let pairs = text.split_whitespace().map(|word| word.split_once('='));
        pairs.collect::<Option<_>>().map(Self)
    }

    fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.0.get(name)?.parse().ok()
    }

    fn word(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|word| (*word).to_string())
    }

    fn job(&self) -> Option<Job> {
        Some((self.number("core")?, self.number("seqno")?))
    }

    fn wait(&self) -> Option<Wait> {
        Some(Wait {
            process: self.number("process")?,
            what: self.word("what")?,
            object: self.number("object")?,
            core: u32::try_from(self.number::<i32>("core")?).ok(),
        })
    }

    fn mapping(&self) -> Option<Mapping> {
        let address = self.0.get("address")?.strip_prefix("0x")?;
        Some(Mapping {
            process: self.number("process")?,
            address: u32::from_str_radix(address, 16).ok()?,
            bytes: self.number("bytes")?,
        })
    }

    fn event(&self, name: &str) -> Option<Event> {
        Some(match name {
            "submit" => Event::Submit(Submit {
                job: self.job()?,
                process: self.number("process")?,
                context: self.number("context")?,
                pipe: self.word("pipe")?,
                words: self.number("words")?,
                event_id: self.number("event_id")?,
            }),
            "begin" => Event::Begin(self.job()?),
            "end" => Event::End(
                self.job()?,
                match *self.0.get("outcome")? {
                    "done" => Outcome::Done,
                    "dropped" => Outcome::Dropped,
                    "never-run" => Outcome::NeverRun,
                    _ => return None,
                },
            ),
            "wait_begin" => Event::WaitBegin {
                wait: self.wait()?,
                timeout: self.number("timeout")?,
            },
            "wait_end" => Event::WaitEnd {
                wait: self.wait()?,
                result: self.number("result")?,
            },
            "map" => Event::Map(self.mapping()?),
            "unmap" => Event::Unmap(self.mapping()?),
            "hang" => Event::Hang {
                job: self.job()?,
                guilty: self.number("guilty")?,
            },
            "reset" => Event::Reset {
                core: self.number("core")?,
                tries: self.number("tries")?,
                ok: self.number::<u32>("ok")? != 0,
            },
            "power" => Event::Power {
                core: self.number("core")?,
                on: self.number::<u32>("on")? != 0,
                why: self.word("why")?,
                speed: self.number("speed")?,
            },
            "speed" => Event::Speed {
                core: self.number("core")?,
                speed: self.number("speed")?,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Record {
        let trace = Trace::parse(line);
        assert_eq!((trace.strange.len(), trace.records.len()), (0, 1), "{line}");
        trace.records[0].clone()
    }

    #[test]
    fn the_kernels_text_is_read() {
        let text = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 3/3   #P:2
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
    galcore-demo-88      [001] ...1.    12.000345: galcore_submit: core=0 seqno=7 process=88 context=3 pipe=3d words=120 event_id=6
 irq/30-galcore-70      [000] d..2.    12.000400: galcore_end: core=0 seqno=7 outcome=done
    galcore-demo-88      [001] .....    12.000500: galcore_wait_end: process=88 what=signal object=5 core=-1 result=-15
    kworker/u4:1-9       [001] .....    12.000600: sched_wakeup: comm=x pid=1
";
        let trace = Trace::parse(text);
        assert_eq!(trace.strange, Vec::<String>::new());
        assert_eq!((trace.records.len(), trace.lost), (3, 0));
        let first = &trace.records[0];
        assert_eq!((first.task.as_str(), first.thread), ("galcore-demo", 88));
        assert_eq!(first.time, 12_000_345_000);
        let Event::Submit(submit) = &first.event else {
            panic!("{first:?}");
        };
        assert_eq!((submit.job, submit.words), ((0, 7), 120));
        assert_eq!(submit.pipe, "3d");
        let second = &trace.records[1];
        assert_eq!(
            (second.task.as_str(), second.thread),
            ("irq/30-galcore", 70)
        );
        assert_eq!(second.event, Event::End((0, 7), Outcome::Done));
        let Event::WaitEnd { wait, result } = &trace.records[2].event else {
            panic!("{trace:?}");
        };
        assert_eq!((wait.core, wait.object, *result), (None, 5, -15));
    }

    #[test]
    fn trace_cmd_reports_are_read() {
        let record = one(
            "     glmark2-412   [002]    77.123456789: galcore_power:        core=1 on=0 why=use speed=64",
        );
        assert_eq!(record.time, 77_123_456_789);
        let wanted = Event::Power {
            core: 1,
            on: false,
            why: "use".to_string(),
            speed: 64,
        };
        assert_eq!(record.event, wanted);
        let record =
            one(" a-12 [000] d..1. 1.5: galcore_unmap: process=12 address=0x80001000 bytes=4096");
        assert_eq!(record.time, 1_500_000_000);
    }

    #[test]
    fn names_of_threads_may_hold_anything() {
        let record = one(
            " x [0] 1.0: galcore_begin: core=9 seqno=9-33 (   31) [001] .....  3.000001: galcore_begin: core=1 seqno=2",
        );
        assert_eq!(record.thread, 33);
        assert_eq!(record.event, Event::Begin((1, 2)));
        assert!(record.task.starts_with("x [0] 1.0: galcore_begin"));
        // A line that only contains such text is not an event.
        let line = " : galcore_begin: core=9-33 [001] .....  3.000001: sched_wakeup: pid=4";
        let trace = Trace::parse(line);
        assert!(trace.records.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let text = "a-1 [000] ..... 1.000000: galcore_begin: core=1 seqno=x\n\
            a-1 [000] ..... 1.000000: galcore_begin: core=1 seqno=1 x\n\
            a-1 [000] ..... 99999999999999999999.000000: galcore_begin: core=1 seqno=1\n\
            CPU:1 [LOST 12 EVENTS]\n\
            # entries-in-buffer/entries-written: 5/9   #P:1\n";
        let trace = Trace::parse(text);
        assert!(trace.records.is_empty());
        assert_eq!((trace.strange.len(), trace.lost), (3, 16));
    }

    #[test]
    fn records_are_in_the_order_of_time() {
        let text = "a-1 [000] ..... 2.000000: galcore_begin: core=0 seqno=2\n\
            a-1 [001] ..... 1.000000: galcore_begin: core=0 seqno=1\n";
        let jobs: Vec<_> = Trace::parse(text)
            .records
            .into_iter()
            .map(|record| record.event)
            .collect();
        assert_eq!(jobs, [Event::Begin((0, 1)), Event::Begin((0, 2))]);
    }
}
