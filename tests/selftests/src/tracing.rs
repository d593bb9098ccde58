// SPDX-License-Identifier: GPL-2.0-only
//! Records the driver's trace events.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_trace::Trace;

/// The mount point of tracefs.
const MOUNT: &str = "/sys/kernel/tracing";

/// The size of the trace buffer, in KiB per processor.
const ROOM: u32 = 8192;

/// The folder of the driver's own events.
const OWN: &str = "galcore";

/// Shows when an interrupt thread starts and stops: the handler wakes it, and it sleeps when all work is done.
const SWITCHES: &str = "sched/sched_switch";
const OF_THREADS: &str = "prev_comm ~ \"irq/*\" || next_comm ~ \"irq/*\"";

/// A recording of events, by default of all events of the driver. It ends when this is dropped.
pub struct Recording {
    folder: PathBuf,
    events: Vec<String>,
}

impl Recording {
    /// Starts a recording of the driver's events; `None` if this kernel has no trace events.
    pub fn start() -> Result<Option<Self>> {
        Self::of(&[OWN], None)
    }

    /// Starts a recording of other events, given by their folders, optionally of one thread only.
    pub fn of(events: &[&str], thread: Option<i32>) -> Result<Option<Self>> {
        let folder = PathBuf::from(MOUNT);
        if !folder.exists() {
            return Ok(None);
        }
        if !folder.join("trace").exists() {
            rustix::mount::mount(
                "tracefs",
                MOUNT,
                "tracefs",
                rustix::mount::MountFlags::empty(),
                None,
            )
            .context(MOUNT)?;
        }
        let events = events.iter().map(|event| event.to_string()).collect();
        let recording = Self { folder, events };
        recording.set("tracing_on", "0")?;
        recording.set("buffer_size_kb", &ROOM.to_string())?;
        recording.set("trace", "")?;
        let thread = thread.map_or(String::new(), |thread| thread.to_string());
        recording.set("set_event_pid", &thread)?;
        recording.enable("1")?;
        recording.set("tracing_on", "1")?;
        Ok(Some(recording))
    }

    /// Starts a recording of interrupts and their threads, for [`Lateness::of`].
    pub fn of_interrupts() -> Result<Option<Self>> {
        let Some(mut recording) = Self::of(&["irq/irq_handler_entry"], None)? else {
            return Ok(None);
        };
        recording.set(&format!("events/{SWITCHES}/filter"), OF_THREADS)?;
        recording.events.push(SWITCHES.to_string());
        recording.enable("1")?;
        Ok(Some(recording))
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, value).with_context(|| format!("{value:?} to {}", path.display()))
    }

    fn enable(&self, value: &str) -> Result<()> {
        let mut files = self
            .events
            .iter()
            .map(|event| format!("events/{event}/enable"));
        files.try_for_each(|file| self.set(&file, value))
    }

    /// The text recorded so far.
    pub fn text(&self) -> Result<String> {
        let path = self.folder.join("trace");
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// The driver's events recorded so far, parsed and as text.
    pub fn read(&self) -> Result<(Trace, String)> {
        let text = self.text()?;
        let trace = Trace::parse(&text);
        ensure!(trace.lost == 0, "{} events were lost", trace.lost);
        ensure!(trace.strange.is_empty(), "not read: {:?}", trace.strange);
        Ok((trace, text))
    }

    /// Deletes the recorded events.
    pub fn clear(&self) -> Result<()> {
        self.set("trace", "")
    }

    /// The kernel's description of an event's fields.
    pub fn format(&self, event: &str) -> Result<String> {
        let path = self.folder.join("events/galcore").join(event);
        let path = path.join("format");
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.enable("0");
        let _ = self.set(&format!("events/{SWITCHES}/filter"), "0");
        let _ = self.set("set_event_pid", "");
    }
}

/// The largest delays of the driver's interrupt threads, measured from the start of the handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The number of interrupts whose thread ran.
    pub count: u32,
    /// The longest delay until the thread runs.
    pub begin: Duration,
    /// The longest delay until the thread sleeps again. By then it has handled everything that has ended.
    pub end: Duration,
}

impl Lateness {
    /// Evaluates the text of a recording.
    pub fn of(text: &str) -> Self {
        let mut all = Self::default();
        // By interrupt number: when the handler started, and whether the thread has run since.
        let mut begun: HashMap<&str, (Duration, bool)> = HashMap::new();
        for line in text.lines() {
            let Some((time, event)) = event(line) else {
                continue;
            };
            if let Some(fields) = event.strip_prefix("irq_handler_entry: irq=") {
                if let Some((number, "name=galcore")) = fields.split_once(' ') {
                    begun.entry(number).or_insert((time, false));
                }
            } else if let Some(fields) = event.strip_prefix("sched_switch: ") {
                let number = |key: &str| {
                    let (_, name) = fields.split_once(key)?;
                    name.strip_prefix("irq/")?.split_once('-').map(|it| it.0)
                };
                let next = number("next_comm=").and_then(|number| begun.get_mut(number));
                if let Some((since, runs @ false)) = next {
                    *runs = true;
                    all.count += 1;
                    all.begin = all.begin.max(time.saturating_sub(*since));
                }
                let is_asleep = !fields.contains("prev_state=R");
                let Some(number) = number("prev_comm=").filter(|_| is_asleep) else {
                    continue;
                };
                if let Some((since, _)) = begun.remove(number) {
                    all.end = all.end.max(time.saturating_sub(since));
                }
            }
        }
        all
    }
}

/// The time of a trace line, and the text after it.
fn event(line: &str) -> Option<(Duration, &str)> {
    // A task's name may contain anything, so this looks for the event's name with the start of its fields.
    let names = [": irq_handler_entry: ", ": sched_switch: "];
    let at = names.iter().find_map(|name| line.find(name))?;
    let (head, event) = line.split_at(at);
    let (seconds, micros) = head.rsplit_once(' ')?.1.split_once('.')?;
    let (seconds, micros) = (seconds.parse().ok()?, micros.parse().ok()?);
    let time = Duration::from_secs(seconds) + Duration::from_micros(micros);
    Some((time, event.strip_prefix(": ")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_late() {
        const TEXT: &str = "\
# tracer: nop
          <idle>-0       [000] d.h1.    10.000100: irq_handler_entry: irq=7 name=timer
          <idle>-0       [000] d.h1.    10.000200: irq_handler_entry: irq=27 name=galcore
          <idle>-0       [000] d..2.    10.000300: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=irq/27-galcore next_pid=70 next_prio=49
  irq/27-galcore-70      [000] d.h1.    10.000400: irq_handler_entry: irq=27 name=galcore
  irq/27-galcore-70      [000] d..2.    10.000500: sched_switch: prev_comm=irq/27-galcore prev_pid=70 prev_prio=49 prev_state=R+ ==> next_comm=migration/0 next_pid=9 next_prio=0
     migration/0-9       [000] d..2.    10.000600: sched_switch: prev_comm=migration/0 prev_pid=9 prev_prio=0 prev_state=S ==> next_comm=irq/27-galcore next_pid=70 next_prio=49
  irq/27-galcore-70      [000] d..2.    10.002200: sched_switch: prev_comm=irq/27-galcore prev_pid=70 prev_prio=49 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0       [000] d.h1.    10.003000: irq_handler_entry: irq=27 name=galcore
";
        let found = Lateness::of(TEXT);
        let wanted = Lateness {
            count: 1,
            begin: Duration::from_micros(100),
            end: Duration::from_millis(2),
        };
        assert_eq!(found, wanted);
    }
}
