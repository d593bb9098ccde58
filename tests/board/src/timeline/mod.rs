// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/board timeline`: draws the GPU's activity and writes a trace for Perfetto, from a program on the board or
//! from a trace recorded elsewhere.

mod delays;
mod model;
mod perfetto;
mod picture;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use galcore_trace::Trace;

use crate::cli::TimelineArgs;
use crate::cli::Tools;
use crate::commands::boot_of;
use crate::commands::conclude;
use crate::commands::guest_command;
use crate::commands::say;
use crate::commands::PassOn;
use crate::initramfs::GuestFile;
use crate::machine;
use crate::machine::Task;
use crate::machine::Work;
use crate::signals::Signals;
use delays::milliseconds;
use model::Span;
use model::Timeline;

/// The recording script, in the checkout and in the guest, and its output file.
const RECORD: &str = "tests/board/guest/record";
const GUEST_RECORD: &str = "/galcore/bin/record";
const TEXT: &str = "trace.txt";
/// The files made from the trace.
const PICTURE: &str = "timeline.svg";
const PERFETTO: &str = "timeline.pftrace";

/// Number of longest delays that are printed.
const DELAYS: usize = 5;

/// `scripts/board timeline`
pub fn timeline(tools: &Tools, arguments: &TimelineArgs, signals: &Signals) -> Result<u8> {
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => tools.top.join("out/timeline"),
    };
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    // Remove old files so that they are not taken for new ones.
    for name in [PICTURE, PERFETTO] {
        remove(&out.join(name))?;
    }
    if let Some(trace) = &arguments.from {
        let title = trace.display().to_string();
        write(trace, &title, arguments.window, &out)?;
        return Ok(0);
    }
    remove(&out.join(TEXT))?;
    let (words, file) = guest_command(&arguments.command, tools.processor()?)?;
    let mut command = vec![GUEST_RECORD.to_string()];
    command.extend(words);
    let task = Task {
        command,
        limit: Duration::from_secs(arguments.timeout),
        files_to: out.clone(),
        module: None,
    };
    let mut boot = boot_of(&arguments.machine, Work::Programs(vec![task]), out.clone())?;
    boot.files.extend(file);
    boot.files.push(GuestFile {
        host: tools.top.join(RECORD),
        guest: GUEST_RECORD.to_string(),
    });
    let outcome = machine::boot(&tools.assets(true)?, &boot, &mut PassOn::default(), signals)?;
    let status = conclude(&outcome, &out);
    let trace = out.join(TEXT);
    if !trace.is_file() {
        bail!("the board has left no trace");
    }
    let title = format!("{} on {}", arguments.command.join(" "), boot.board.name());
    write(&trace, &title, arguments.window, &out)?;
    Ok(status)
}

fn remove(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))
    } else {
        Ok(())
    }
}

/// Writes the files and prints a summary.
fn write(trace: &Path, title: &str, window: Option<(f64, f64)>, out: &Path) -> Result<()> {
    let bytes = fs::read(trace).with_context(|| format!("cannot read {}", trace.display()))?;
    if bytes.starts_with(b"\x17\x08\x44tracing") {
        bail!(
            "{} is trace-cmd's own: make text of it with 'trace-cmd report'",
            trace.display()
        );
    }
    // Thread names may contain any bytes.
    let read = Trace::parse(&String::from_utf8_lossy(&bytes));
    if let Some(line) = read.strange.first() {
        say(&format!(
            "{} lines of {} cannot be read, the first: {}",
            read.strange.len(),
            trace.display(),
            line.escape_debug()
        ));
    }
    let Some(all) = Timeline::new(&read) else {
        bail!("{} has no event of galcore's", trace.display());
    };
    let shown = window_of(&all, window)?;
    let put = |name: &str, content: &[u8]| {
        let path = out.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
    };
    put(PICTURE, picture::draw(&all, shown, title).as_bytes())?;
    put(PERFETTO, &perfetto::encode(&all))?;
    summarize(&all);
    println!("picture:  {}", out.join(PICTURE).display());
    println!("Perfetto: {}", out.join(PERFETTO).display());
    println!("text:     {}", trace.display());
    Ok(())
}

/// The range to show, given in milliseconds from the first event.
fn window_of(all: &Timeline, window: Option<(f64, f64)>) -> Result<Span> {
    let Some((from, to)) = window else {
        return Ok(all.span);
    };
    // The command line ensures at least 0.
    let at = |ms: f64| {
        all.span
            .from
            .saturating_add((ms * 1e6) as u64)
            .min(all.span.to)
    };
    let span = Span {
        from: at(from),
        to: at(to),
    };
    if span.length() == 0 {
        bail!(
            "the window is empty: the trace has {} in all",
            milliseconds(all.span.length())
        );
    }
    Ok(span)
}

fn summarize(all: &Timeline) {
    println!(
        "{} from the first event to the last",
        milliseconds(all.span.length())
    );
    for (number, core) in &all.cores {
        println!(
            "core {number} ({}): {} jobs, busy {}, off {}, {} hangs, {} resets",
            core.pipe,
            core.jobs.len(),
            milliseconds(all.busy(core)),
            milliseconds(all.off(core).into_iter().map(Span::length).sum()),
            core.hangs.len(),
            core.resets.len()
        );
    }
    println!("the longest from submission to end:");
    for delay in delays::longest(all, DELAYS) {
        println!("  {}", delay.line(all));
    }
    if all.lost > 0 {
        say(&format!(
            "the kernel has lost {} events: make its buffers larger",
            all.lost
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_of_elsewhere_becomes_a_picture_and_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("recorded");
        fs::write(&trace, model::tests::TEXT).unwrap();
        write(&trace, "x", Some((0.0, 10.0)), dir.path()).unwrap();
        assert!(dir.path().join(PICTURE).is_file() && dir.path().join(PERFETTO).is_file());
        assert!(write(&trace, "x", Some((50.0, 60.0)), dir.path()).is_err());
        fs::write(&trace, "nothing\n").unwrap();
        assert!(write(&trace, "x", None, dir.path()).is_err());
        fs::write(&trace, b"\x17\x08\x44tracing and more").unwrap();
        let error = write(&trace, "x", None, dir.path()).unwrap_err();
        assert!(error.to_string().contains("trace-cmd report"), "{error}");
    }
}
