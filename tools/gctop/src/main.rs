// SPDX-License-Identifier: GPL-2.0-only
//! gctop: shows the use of Vivante GPUs by process, with galcore.ko.
//!
//! It reads `/proc/driver/gc`, the fdinfo of processes, and debugfs (`galcore/usage`, `galcore/resets`, `gc/info`,
//! `gc/clk`). debugfs and other users' processes need root. Without root it shows the rest, and lists what is
//! missing.

mod parse;
mod sample;
mod view;

use std::io::ErrorKind;
use std::io::IsTerminal;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use clap::Parser;
use ratatui::backend::TermionBackend;
use ratatui::layout::Rect;
use ratatui::termion;
use ratatui::Terminal;
use ratatui::TerminalOptions;
use ratatui::Viewport;
use sample::Report;
use sample::Sample;
use sample::Sources;
use termion::event::Key;
use termion::input::TermRead;
use termion::raw::IntoRawMode;
use termion::screen::IntoAlternateScreen;

/// Shows the use of Vivante GPUs by process, with galcore.ko.
///
/// With PROGRAM, it runs the program, prints reports to stderr until the program ends, and exits with the program's
/// status (128 + signal if it was killed).
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Prints one report and exits, instead of a display on the terminal.
    #[arg(long)]
    once: bool,
    /// Prints reports as JSON, one per line.
    #[arg(long)]
    json: bool,
    /// Seconds between two samples. Loads are averages over this time.
    #[arg(long, short, default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// A program to run, with its arguments.
    #[arg(last = true, value_name = "PROGRAM ARGS", conflicts_with = "once")]
    program: Vec<String>,
}

/// Interval at which the end of the program is checked.
const LOOK: Duration = Duration::from_millis(20);

/// Columns and rows of a terminal that does not report its size.
const SERIAL: (u16, u16) = (80, 24);

/// Parses the time between two samples.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("from 0.05 to 3600".to_string()),
    }
}

/// Whether a key ends the program.
fn ends(key: &Key) -> bool {
    matches!(key, Key::Char('q') | Key::Esc | Key::Ctrl('c'))
}

/// Prints a report as text or as JSON.
fn print(mut out: impl Write, report: &Report, json: bool) -> Result<()> {
    if json {
        serde_json::to_writer(&mut out, report)?;
        return Ok(writeln!(out)?);
    }
    // Like on a terminal that is large enough for the whole report.
    let size = (120, view::height(report));
    let backend = ratatui::backend::TestBackend::new(size.0, size.1);
    let mut terminal = Terminal::new(backend)?;
    terminal.draw(|frame| view::draw(frame, report))?;
    let buffer = terminal.backend().buffer();
    for y in 0..size.1 {
        let line: String = (0..size.0).map(|x| buffer[(x, y)].symbol()).collect();
        if line.trim() != "q: quit" {
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    Ok(())
}

/// The used part of a terminal: all of it. A serial line does not report the screen's size.
fn viewport(size: std::io::Result<(u16, u16)>) -> Viewport {
    match size {
        Ok((columns, rows)) if columns > 0 && rows > 0 => Viewport::Fullscreen,
        _ => Viewport::Fixed(Rect::new(0, 0, SERIAL.0, SERIAL.1)),
    }
}

/// Shows reports on the terminal until the user presses a key to quit.
fn show(sources: &Sources, interval: Duration) -> Result<()> {
    if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
        bail!("not on a terminal: see --once and --json");
    }
    let screen = std::io::stdout()
        .into_raw_mode()
        .and_then(IntoAlternateScreen::into_alternate_screen)
        .context("the terminal cannot be used: see --once")?;
    let viewport = viewport(termion::terminal_size());
    let options = TerminalOptions { viewport };
    let mut terminal = Terminal::with_options(TermionBackend::new(screen), options)?;
    // A thread waits for keys until the program exits.
    let (pressed, keys) = mpsc::channel();
    std::thread::spawn(move || {
        let keys = std::io::stdin().keys();
        keys.map_while(Result::ok)
            .all(|key| pressed.send(key).is_ok())
    });
    let mut before = Sample::take(sources);
    let mut next = Instant::now() + Duration::from_millis(200);
    loop {
        match keys.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(key) if ends(&key) => return Ok(()),
            Ok(_) => continue,
            Err(RecvTimeoutError::Timeout) => {}
            // The terminal is gone.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        next = Instant::now() + interval;
        let after = Sample::take(sources);
        let report = Report::between(&before, &after);
        before = after;
        terminal.draw(|frame| view::draw(frame, &report))?;
    }
}

/// Whether the reader of the output is gone: `gctop --json | head -1`.
fn is_unread(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = match cause.downcast_ref::<serde_json::Error>() {
            Some(error) => error.io_error_kind(),
            None => cause
                .downcast_ref::<std::io::Error>()
                .map(|error| error.kind()),
        };
        kind == Some(ErrorKind::BrokenPipe)
    })
}

/// Prints one report, or reports until the reader is gone.
fn print_all(sources: &Sources, interval: Duration, options: &Options) -> Result<()> {
    let mut before = Sample::take(sources);
    loop {
        std::thread::sleep(interval);
        let after = Sample::take(sources);
        let report = Report::between(&before, &after);
        print(std::io::stdout().lock(), &report, options.json)?;
        if options.once {
            return Ok(());
        }
        before = after;
    }
}

/// Runs the program, and prints reports to stderr until it ends. The last report covers the remaining time.
fn watch(
    sources: &Sources,
    interval: Duration,
    options: &Options,
    program: &str,
    arguments: &[String],
) -> Result<ExitCode> {
    let mut before = Sample::take(sources);
    let child = Command::new(program).args(arguments).spawn();
    let mut child = child.with_context(|| program.to_string())?;
    loop {
        let next = Instant::now() + interval;
        let mut ended = child.try_wait()?;
        while ended.is_none() && Instant::now() < next {
            std::thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
            ended = child.try_wait()?;
        }
        let after = Sample::take(sources);
        let report = Report::between(&before, &after);
        match print(std::io::stderr().lock(), &report, options.json) {
            Err(error) if !is_unread(&error) => return Err(error),
            _ => {}
        }
        if let Some(status) = ended {
            let code = status.code().or(status.signal().map(|signal| 128 + signal));
            let code = code.and_then(|code| u8::try_from(code).ok());
            return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
        }
        before = after;
    }
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let sources = Sources::default();
    let interval = Duration::from_secs_f64(options.interval);
    if let Some((program, arguments)) = options.program.split_first() {
        return watch(&sources, interval, &options, program, arguments);
    }
    let result = if options.once || options.json {
        print_all(&sources, interval, &options)
    } else {
        show(&sources, interval)
    };
    match result {
        Err(error) if is_unread(&error) => Ok(ExitCode::SUCCESS),
        result => result.map(|()| ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_make_sense() {
        use clap::CommandFactory;
        Options::command().debug_assert();
        assert!(Options::try_parse_from(["gctop", "--interval", "0"]).is_err());
        let options = Options::try_parse_from(["gctop", "--json", "--once"]).unwrap();
        assert!(options.json && options.once);
        let options = Options::try_parse_from(["gctop", "--", "glmark2", "--once"]).unwrap();
        assert_eq!(options.program, ["glmark2", "--once"]);
        assert!(Options::try_parse_from(["gctop", "--once", "--", "glmark2"]).is_err());
    }

    #[test]
    fn a_program_is_watched_until_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources {
            proc: folder.path().into(),
            debug: folder.path().into(),
        };
        let run = |program: &str, arguments: &[&str]| {
            let arguments: Vec<&str> = arguments.to_vec();
            let words = ["gctop", "--json", "--", program];
            let options = Options::try_parse_from(words.iter().chain(&arguments)).unwrap();
            let (program, arguments) = options.program.split_first().unwrap();
            let interval = Duration::from_secs(60);
            watch(&sources, interval, &options, program, arguments)
        };
        let begun = Instant::now();
        let code = run("sh", &["-c", "exit 3"]).unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(3)));
        let code = run("sh", &["-c", "kill -9 $$"]).unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(137)));
        assert!(run("no-such-program-here", &[]).is_err());
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_serial_line_has_some_size() {
        assert_eq!(viewport(Ok((100, 30))), Viewport::Fullscreen);
        let fixed = Viewport::Fixed(Rect::new(0, 0, 80, 24));
        assert_eq!(viewport(Ok((0, 0))), fixed);
        assert_eq!(viewport(Err(std::io::Error::other("no size"))), fixed);
    }

    #[test]
    fn who_reads_no_more_is_no_error() {
        let of = |kind| std::io::Error::from(kind);
        assert!(is_unread(&of(ErrorKind::BrokenPipe).into()));
        assert!(!is_unread(&of(ErrorKind::StorageFull).into()));
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let error = serde_json::to_writer(Closed, &[1]).unwrap_err();
        assert!(is_unread(&error.into()));
    }

    #[test]
    fn keys_that_end_it() {
        assert!([Key::Char('q'), Key::Esc, Key::Ctrl('c')].iter().all(ends));
        assert!(![Key::Char('c'), Key::Ctrl('q'), Key::Up].iter().any(ends));
    }
}
