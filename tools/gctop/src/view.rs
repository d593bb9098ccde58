// SPDX-License-Identifier: GPL-2.0-only
//! The display.

use ratatui::layout::Constraint;
use ratatui::layout::Layout;
use ratatui::style::Modifier;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Cell;
use ratatui::widgets::Paragraph;
use ratatui::widgets::Row;
use ratatui::widgets::Table;
use ratatui::Frame;

use crate::sample::Client;
use crate::sample::Core;
use crate::sample::Memory;
use crate::sample::Report;

/// Loads below this value are shown as 0.0%.
const LEAST_PERCENT: f64 = 0.05;

/// Width of a bar in characters.
const BAR: usize = 20;

/// A bar for a percentage.
fn bar(percent: f64) -> String {
    let full = ((percent / 100.0 * BAR as f64).round() as usize).min(BAR);
    format!("[{}{}]", "|".repeat(full), " ".repeat(BAR - full))
}

/// Formats a clock rate.
fn clock(rate: Option<u64>) -> String {
    rate.map_or("-".to_string(), |rate| format!("{} MHz", rate / 1_000_000))
}

/// Formats KiB, or MiB for large values.
fn memory(kib: u64) -> String {
    match kib {
        0..10_240 => format!("{kib} K"),
        _ => format!("{} M", kib / 1024),
    }
}

fn core_row(core: &Core) -> Row<'static> {
    Row::new([
        format!("{} {}", core.place, core.kind),
        format!("GC{} {}", core.model, core.revision),
        format!("{:5.1}% {}", core.load_percent, bar(core.load_percent)),
        format!("{:3.0}%", core.on_percent),
        clock(core.clock_hz),
        clock(core.shader_clock_hz),
        core.resets.to_string(),
    ])
}

/// A process's name. The process chooses it, so control characters are removed.
fn name(name: &str) -> String {
    name.replace(char::is_control, "?")
}

fn client_row(client: &Client) -> Row<'static> {
    let of = |region: &str| memory(client.memory_kib.get(region).copied().unwrap_or(0));
    let counted = |count: Option<u64>| count.map_or("?".to_string(), |count| count.to_string());
    let engines = client.engines.iter();
    let engines: Vec<String> = engines
        .map(|(name, engine)| format!("{name} {:.1}%", engine.load_percent))
        .collect();
    Row::new([
        client.pid.to_string(),
        name(&client.name),
        engines.join("  "),
        counted(client.jobs),
        counted(client.hangs),
        of("pool"),
        of("contiguous"),
        of("virtual"),
        of("user"),
    ])
}

/// The row for clients that ended between the two samples. `None` if they used no time.
fn ended_row(report: &Report) -> Option<Row<'static>> {
    let cores = report.cores.iter();
    let used = cores.filter(|core| core.ended_percent >= LEAST_PERCENT);
    let used: Vec<String> = used
        .map(|core| format!("{} {:.1}%", core.kind, core.ended_percent))
        .collect();
    (!used.is_empty()).then(|| Row::new(["-".into(), "(ended)".into(), used.join("  ")]))
}

/// Number of rows of the client table, including its header.
fn client_rows(report: &Report) -> usize {
    1 + report.clients.len() + usize::from(ended_row(report).is_some())
}

/// Number of rows of the whole report.
pub fn height(report: &Report) -> u16 {
    let rows = 1 + (report.cores.len() + 1) + 2 + client_rows(report).max(2);
    u16::try_from(rows + report.needs_root.len() + 1).unwrap_or(u16::MAX)
}

fn memory_line(memory: &Option<Memory>) -> Line<'static> {
    match memory {
        None => Line::from("the driver is not loaded: there is no /proc/driver/gc"),
        Some(of) => Line::from(format!(
            "memory: pool {} of {} KiB {}  contiguous {} KiB  virtual {} KiB",
            of.pool_kib,
            of.reserved_kib,
            bar(of.pool_kib as f64 * 100.0 / of.reserved_kib.max(1) as f64),
            of.contiguous_kib,
            of.virtual_kib
        )),
    }
}

/// Draws a report.
pub fn draw(frame: &mut Frame, report: &Report) {
    let head = Style::new().add_modifier(Modifier::REVERSED);
    let cores = report.cores.len() as u16;
    let notes = report.needs_root.len() as u16;
    let [title, top, middle, bottom, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(cores + 1),
        Constraint::Length(2),
        Constraint::Min(2),
        Constraint::Length(notes + 1),
    ])
    .areas(frame.area());
    let text = match report.clients.len() {
        1 => "gctop: 1 client".to_string(),
        count => format!("gctop: {count} clients"),
    };
    frame.render_widget(Paragraph::new(text), title);
    let heads = ["CORE", "CHIP", "LOAD", "ON", "CLOCK", "SHADERS", "RESETS"];
    let widths = [9, 11, 29, 5, 9, 9, 7].map(Constraint::Length);
    let table = Table::new(report.cores.iter().map(core_row), widths);
    let heads = Row::new(heads.map(Cell::from)).style(head);
    frame.render_widget(table.header(heads), top);
    frame.render_widget(Paragraph::new(memory_line(&report.memory)), middle);
    let heads = [
        "PID", "NAME", "ENGINES", "JOBS", "HANGS", "POOL", "CONTIG", "VIRTUAL", "USER",
    ];
    let widths = [
        Constraint::Length(7),
        Constraint::Length(16),
        Constraint::Min(20),
        Constraint::Length(9),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
    ];
    let rows = report.clients.iter().map(client_row);
    let table = Table::new(rows.chain(ended_row(report)), widths);
    let heads = Row::new(heads.map(Cell::from)).style(head);
    frame.render_widget(table.header(heads), bottom);
    let notes = report.needs_root.iter();
    let mut lines: Vec<Line> = notes
        .map(|what| Line::from(format!("needs root: {what}")))
        .collect();
    lines.push(Line::from("q: quit"));
    frame.render_widget(Paragraph::new(lines), foot);
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    use super::*;
    use crate::sample;

    fn screen(report: &Report, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, report)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| {
            (0..width)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
        };
        (0..height)
            .map(|y| line(y).trim_end().to_string())
            .collect()
    }

    #[test]
    fn all_of_it_is_on_the_screen() {
        let lines = screen(&sample::tests::report(true), 110, 12);
        assert_eq!(lines[0], "gctop: 1 client");
        assert!(lines[1].starts_with("CORE      CHIP"), "{lines:#?}");
        let core =
            "0 3d      GC2000 5108  50.0% [||||||||||          ]  100%  528 MHz   -         2";
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            core.split_whitespace().collect::<Vec<_>>()
        );
        assert!(
            lines[3].starts_with("memory: pool 128 of 131072 KiB"),
            "{lines:#?}"
        );
        let client: Vec<&str> = lines[6].split_whitespace().collect();
        let wanted = ["42", "glmark2-es2", "3d", "50.0%", "9", "1", "128", "K"];
        assert_eq!(client[..8], wanted, "{lines:#?}");
        assert_eq!(lines[11], "q: quit");
    }

    /// Also without clients: the table then has space for one.
    #[test]
    fn nothing_is_cut_off() {
        let mut report = sample::tests::report(true);
        report.cores[0].ended_percent = 0.0;
        let core = report.cores[0].clone();
        report.cores = vec![core.clone(), core.clone(), core];
        for (place, kind) in ["3d", "2d", "vg"].into_iter().enumerate() {
            report.cores[place].place = place;
            report.cores[place].kind = kind.into();
        }
        let client = report.clients[0].clone();
        for count in [0, 1, 5] {
            report.clients = vec![client.clone(); count];
            let lines = screen(&report, 120, height(&report));
            let has = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
            let found = ["0 3d", "1 2d", "2 vg", "42 ", "q: quit"].map(has);
            assert_eq!(found, [1, 1, 1, count, 1], "{lines:#?}");
        }
    }

    #[test]
    fn those_that_have_ended_have_a_row() {
        let mut report = sample::tests::report(true);
        report.cores[0].ended_percent = 6.25;
        let lines = screen(&report, 120, height(&report));
        let row: Vec<&str> = lines[7].split_whitespace().collect();
        assert_eq!(row, ["-", "(ended)", "3d", "6.2%"], "{lines:#?}");
        report.cores[0].ended_percent = 0.04;
        let lines = screen(&report, 120, height(&report));
        assert!(!lines.iter().any(|line| line.contains("(ended)")));
    }

    #[test]
    fn names_are_one_line() {
        let mut report = sample::tests::report(true);
        report.clients[0].name = "a\nb\t\u{1b}[2J\u{fffd} (x)".into();
        let lines = screen(&report, 110, 12);
        assert!(lines[6].contains(" a?b??[2J\u{fffd} (x) "), "{lines:#?}");
    }

    #[test]
    fn many_clients() {
        let mut report = sample::tests::report(true);
        let client = report.clients[0].clone();
        report.clients.resize(2000, client);
        assert_eq!(screen(&report, 120, 2010).len(), 2010);
    }

    #[test]
    fn it_says_what_needs_root() {
        let lines = screen(&sample::tests::report(false), 100, 10);
        assert!(lines[8].starts_with("needs root: cores"), "{lines:#?}");
    }

    #[test]
    fn a_small_terminal_is_no_matter() {
        for (width, height) in [(1, 1), (10, 3), (20, 3), (80, 2)] {
            screen(&sample::tests::report(true), width, height);
        }
    }
}
