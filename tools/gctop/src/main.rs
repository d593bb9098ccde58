// SPDX-License-Identifier: GPL-2.0-only
//! gctop: what Vivante GPUs do, and for whom, under galcore.ko.
//!
//! Reads `/proc/driver/gc`, the fdinfo of processes, and debugfs (`galcore/usage`, `galcore/resets`, `gc/info`, `gc/clk`).
//! debugfs and other users' processes need root; without it the rest is shown, and what is missing is said.

mod parse;
mod sample;
mod view;

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use clap::Parser;
use ratatui::crossterm::event;
use ratatui::crossterm::event::Event;
use ratatui::crossterm::event::KeyCode;
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::event::KeyModifiers;
use sample::Report;
use sample::Sample;
use sample::Sources;

/// Shows what Vivante GPUs do under galcore.ko, and for whom.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Prints one report and ends, instead of showing them on the terminal.
    #[arg(long)]
    once: bool,
    /// Prints reports as JSON, one a line.
    #[arg(long)]
    json: bool,
    /// Seconds between two looks, from which loads are made.
    #[arg(long, short, default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
}

/// A time between two looks.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("from 0.05 to 3600".to_string()),
    }
}

/// Whether a key ends the program.
fn ends(key: &KeyEvent) -> bool {
    let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => is_interrupt,
        _ => false,
    }
}

/// Prints a report as lines of text, or as JSON.
fn print(report: &Report, json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, report)?;
        return Ok(writeln!(out)?);
    }
    // As on a terminal that is large enough for all of it.
    let lines = report.cores.len() + report.clients.len() + report.needs_root.len() + 6;
    let size = (120, u16::try_from(lines).unwrap_or(u16::MAX));
    let backend = ratatui::backend::TestBackend::new(size.0, size.1);
    let mut terminal = ratatui::Terminal::new(backend)?;
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

/// Shows reports on the terminal until a key ends it.
fn show(sources: &Sources, interval: Duration) -> Result<()> {
    let mut terminal = ratatui::try_init().context("no terminal: see --once")?;
    let mut before = Sample::take(sources);
    let mut wait = Duration::from_millis(200);
    let result = loop {
        match event::poll(wait) {
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) if ends(&key) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            },
            Ok(false) => {}
            Err(error) => break Err(error),
        }
        wait = interval;
        let after = Sample::take(sources);
        let report = Report::between(&before, &after);
        before = after;
        if let Err(error) = terminal.draw(|frame| view::draw(frame, &report)) {
            break Err(error);
        }
    };
    ratatui::restore();
    Ok(result?)
}

fn main() -> Result<()> {
    let options = Options::parse();
    let sources = Sources::default();
    let interval = Duration::from_secs_f64(options.interval);
    if !options.once && !options.json {
        return show(&sources, interval);
    }
    let mut before = Sample::take(&sources);
    loop {
        std::thread::sleep(interval);
        let after = Sample::take(&sources);
        print(&Report::between(&before, &after), options.json)?;
        if options.once {
            return Ok(());
        }
        before = after;
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
    }

    #[test]
    fn keys_that_end_it() {
        let key = |code, modifiers| KeyEvent::new(code, modifiers);
        assert!(ends(&key(KeyCode::Char('q'), KeyModifiers::NONE)));
        assert!(ends(&key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!ends(&key(KeyCode::Char('c'), KeyModifiers::NONE)));
    }
}
