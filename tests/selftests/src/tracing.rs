// SPDX-License-Identifier: GPL-2.0-only
//! Recording the driver's trace events.

use std::fs;
use std::path::PathBuf;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_trace::Trace;

/// Where the kernel shows its traces.
const MOUNT: &str = "/sys/kernel/tracing";

/// Room for events, in KiB for each processor.
const ROOM: u32 = 8192;

/// The driver's own events.
const OWN: &str = "galcore";

/// A recording of events, all of the driver's if nothing else is said; over when it is dropped.
pub struct Recording {
    folder: PathBuf,
    events: Vec<String>,
}

impl Recording {
    /// Starts one; `None`: this kernel has no trace events.
    pub fn start() -> Result<Option<Self>> {
        Self::of(&[OWN], None)
    }

    /// Starts one of other events, by their folders, of one thread if that is given.
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

    /// The text of what has been recorded so far.
    pub fn text(&self) -> Result<String> {
        let path = self.folder.join("trace");
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// What has been recorded so far of the driver's events, and its text.
    pub fn read(&self) -> Result<(Trace, String)> {
        let text = self.text()?;
        let trace = Trace::parse(&text);
        ensure!(trace.lost == 0, "{} events were lost", trace.lost);
        ensure!(trace.strange.is_empty(), "not read: {:?}", trace.strange);
        Ok((trace, text))
    }

    /// Forgets what has been recorded.
    pub fn clear(&self) -> Result<()> {
        self.set("trace", "")
    }

    /// What the kernel says of an event's fields.
    pub fn format(&self, event: &str) -> Result<String> {
        let path = self.folder.join("events/galcore").join(event);
        let path = path.join("format");
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.enable("0");
        let _ = self.set("set_event_pid", "");
    }
}
