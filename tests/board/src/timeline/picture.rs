// SPDX-License-Identifier: GPL-2.0-only
//! Draws a timeline: a lane for each core and each process on one time axis.

use std::collections::BTreeMap;

use galcore_trace::Outcome;
use svg::node::element::Group;
use svg::node::element::Line;
use svg::node::element::Path;
use svg::node::element::Rectangle;
use svg::node::element::Text;
use svg::node::element::Title;
use svg::Document;
use svg::Node;

use super::delays;
use super::delays::milliseconds;
use super::model::Core;
use super::model::Process;
use super::model::Span;
use super::model::Timeline;

/// Dimensions in pixels.
const WIDTH: f64 = 1600.0;
const LEFT: f64 = 210.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 78.0;
const JOBS: f64 = 34.0;
const QUEUE: f64 = 20.0;
const SUBMITS: f64 = 12.0;
const WAITS: f64 = 15.0;
const GAP: f64 = 16.0;
const FOOT: f64 = 26.0;
const LINE: f64 = 17.0;
/// Approximate width of a letter in pixels.
const LETTER: f64 = 6.2;

/// Colors of processes' jobs, used in turn.
const COLOURS: [&str; 8] = [
    "#4477aa", "#228833", "#ccbb44", "#aa3377", "#66ccee", "#994f00", "#5d3a9b", "#40b0a6",
];
/// Color of the driver's own jobs, and of jobs with an unknown submitter.
const NOBODY: &str = "#999999";
const OFF: &str = "#d9d9d9";
const BAD: &str = "#d62728";
const HANG: &str = "#7f0000";
const RESET: &str = "#c35a00";
const INK: &str = "#222222";
const PALE: &str = "#777777";

/// Kinds of waits and their colors.
const WAITED: [(&str, &str); 4] = [
    ("signal", "#c6dbef"),
    ("job", "#fdd0a2"),
    ("place", "#fdae6b"),
    ("fence", "#dadaeb"),
];

/// Number of longest delays listed below the lanes.
const DELAYS: usize = 6;

/// Draws lanes from top to bottom.
struct Painter<'a> {
    timeline: &'a Timeline,
    /// The time range that is shown.
    window: Span,
    colours: BTreeMap<i32, &'static str>,
    group: Group,
    /// Y position of the next lane.
    y: f64,
}

/// Draws `window` of a timeline as SVG. `title` may contain any characters.
pub fn draw(timeline: &Timeline, window: Span, title: &str) -> String {
    let submitters = timeline.processes.iter();
    let submitters = submitters.filter(|(_, process)| !process.submits.is_empty());
    let colours = submitters
        .map(|(number, _)| *number)
        .zip(COLOURS.into_iter().cycle());
    let mut painter = Painter {
        timeline,
        window,
        colours: colours.collect(),
        group: Group::new(),
        y: TOP,
    };
    for (number, core) in &timeline.cores {
        painter.core(*number, core);
    }
    for (number, process) in &timeline.processes {
        if !process.submits.is_empty() || !process.waits.is_empty() {
            painter.process(*number, process);
        }
    }
    let bottom = painter.y;
    // The grid is below the lanes.
    let lanes = core::mem::take(&mut painter.group);
    painter.axis(TOP - 8.0, bottom);
    let grid = core::mem::take(&mut painter.group);
    painter.head(title);
    painter.y = bottom + FOOT;
    painter.foot();
    let height = (painter.y + 10.0).ceil();
    let background = Rectangle::new()
        .set("width", WIDTH)
        .set("height", height)
        .set("fill", "white");
    Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("font-family", "DejaVu Sans, sans-serif")
        .set("font-size", 11)
        .add(background)
        .add(grid)
        .add(lanes)
        .add(painter.group)
        .to_string()
}

/// Removes characters that XML does not allow or that disturb a line of text.
fn clean(text: &str) -> String {
    let is_plain =
        |letter: char| !letter.is_control() && letter != '\u{fffe}' && letter != '\u{ffff}';
    text.chars()
        .map(|letter| if is_plain(letter) { letter } else { '?' })
        .collect()
}

/// The part of `text` that fits into `width` pixels. `None` if nothing fits.
fn fitting(text: &str, width: f64) -> Option<String> {
    // Not negative.
    let room = (width / LETTER).max(0.0) as usize;
    match text.chars().count() {
        count if count <= room => Some(text.to_string()),
        _ if room < 4 => None,
        _ => Some(text.chars().take(room - 1).chain(['…']).collect()),
    }
}

/// Step size for about `count` steps in `length`: 1, 2 or 5 times a power of ten.
fn step(length: f64, count: f64) -> f64 {
    let rough = (length / count).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

impl Painter<'_> {
    fn add(&mut self, node: impl Into<Box<dyn Node>>) {
        self.group.append(node);
    }

    /// X position of a time.
    fn x(&self, time: u64) -> f64 {
        let window = self.window;
        let time = time.clamp(window.from, window.to);
        let part = (time - window.from) as f64 / window.length().max(1) as f64;
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    /// X position and width of a time span. `None` if it is outside the picture.
    fn place(&self, span: Span) -> Option<(f64, f64)> {
        let is_out = span.to < self.window.from || span.from > self.window.to;
        (!is_out).then(|| {
            let from = self.x(span.from);
            (from, self.x(span.to) - from)
        })
    }

    fn is_shown(&self, time: u64) -> bool {
        (self.window.from..=self.window.to).contains(&time)
    }

    fn text(&mut self, (x, y): (f64, f64), text: &str, colour: &str) -> &mut Self {
        let text = Text::new(clean(text))
            .set("x", round(x))
            .set("y", round(y))
            .set("fill", colour);
        self.add(text);
        self
    }

    fn colour(&self, process: Option<i32>) -> &'static str {
        process
            .and_then(|process| self.colours.get(&process).copied())
            .unwrap_or(NOBODY)
    }

    /// A box on the time axis with a tooltip `about`, and `label` inside if it fits.
    fn bar(&mut self, span: Span, height: f64, colour: &str, label: &str, about: &str) {
        let Some((x, width)) = self.place(span) else {
            return;
        };
        // Even the shortest span is visible.
        let shown = width.max(0.7);
        let mut bar = rectangle(x, self.y, shown, height).set("fill", colour);
        if width > 3.0 {
            bar = bar.set("stroke", "white").set("stroke-width", 0.6);
        }
        self.add(bar.add(Title::new(clean(about))));
        if let Some(label) = fitting(label, width - 4.0) {
            let ink = if height <= WAITS {
                INK
            } else if colour == OFF {
                PALE
            } else {
                "white"
            };
            self.text((x + 3.0, self.y + height / 2.0 + 4.0), &label, ink);
        }
    }

    /// A line at `time` with a label above it, to its left (`end`) or right (`start`).
    fn mark(&mut self, time: u64, colour: &str, label: &str, anchor: &str) {
        if !self.is_shown(time) {
            return;
        }
        let (x, y) = (self.x(time), self.y);
        let line = Line::new()
            .set("x1", round(x))
            .set("x2", round(x))
            .set("y1", round(y - 12.0))
            .set("y2", round(y + JOBS))
            .set("stroke", colour)
            .set("stroke-width", 2);
        self.add(line.add(Title::new(clean(label))));
        let aside = if anchor == "end" { -4.0 } else { 4.0 };
        let text = Text::new(clean(label))
            .set("x", round(x + aside))
            .set("y", round(y - 4.0))
            .set("fill", colour)
            .set("text-anchor", anchor);
        self.add(text);
    }

    fn head(&mut self, title: &str) {
        let all = self.timeline;
        let jobs: usize = all.cores.values().map(|core| core.jobs.len()).sum();
        let title = Text::new(clean(title))
            .set("x", 12)
            .set("y", 22)
            .set("font-size", 15)
            .set("font-weight", "bold")
            .set("fill", INK);
        self.add(title);
        let length = milliseconds(self.window.length());
        let lost = match all.lost {
            0 => String::new(),
            lost => format!("; {lost} events were lost"),
        };
        let about = format!("{jobs} jobs; {length} shown{lost}");
        self.text((12.0, 38.0), &about, PALE);
        let mut x = LEFT;
        let legend: Vec<(String, &str)> = self
            .colours
            .iter()
            .map(|(process, colour)| (format!("jobs of {}", all.name(*process)), *colour))
            .chain(WAITED.map(|(what, colour)| (format!("waits: {what}"), colour)))
            .chain([("core off".to_string(), OFF)])
            .collect();
        for (what, colour) in legend {
            let width = 22.0 + LETTER * what.chars().count() as f64;
            if x + width > WIDTH - RIGHT {
                break;
            }
            self.add(rectangle(x, 30.0, 10.0, 10.0).set("fill", colour));
            self.text((x + 14.0, 39.0), &what, INK);
            x += width + 4.0;
        }
    }

    fn axis(&mut self, from: f64, to: f64) {
        let length = self.window.length() as f64 / 1e6;
        let step = step(length, 12.0);
        let digits = if step < 1.0 {
            (-step.log10()).ceil() as usize
        } else {
            0
        };
        let start = (self.window.from - self.timeline.span.from) as f64 / 1e6;
        let mut tick = (start / step).ceil();
        while tick * step <= start + length {
            let part = (tick * step - start) / length.max(1e-9);
            let x = LEFT + part * (WIDTH - LEFT - RIGHT);
            let line = Line::new()
                .set("x1", round(x))
                .set("x2", round(x))
                .set("y1", from)
                .set("y2", round(to + 6.0))
                .set("stroke", "#e8e8e8");
            self.add(line);
            let label = format!("{:.digits$} ms", tick * step);
            for y in [from - 4.0, to + 18.0] {
                let text = Text::new(label.clone())
                    .set("x", round(x))
                    .set("y", round(y))
                    .set("fill", PALE)
                    .set("text-anchor", "middle");
                self.add(text);
            }
            tick += 1.0;
        }
    }

    fn label(&mut self, offset: f64, text: &str, colour: &str) {
        if let Some(text) = fitting(text, LEFT - 20.0) {
            let y = self.y + offset;
            self.text((12.0, y), &text, colour);
        }
    }

    fn core(&mut self, number: u32, core: &Core) {
        let all = self.timeline;
        self.y += GAP;
        self.label(14.0, &format!("core {number} ({})", core.pipe), INK);
        let shown = core.jobs.values().filter_map(|job| all.run(job));
        let busy: u64 = shown.map(|run| run.common(self.window).length()).sum();
        let percent = 100.0 * busy as f64 / self.window.length().max(1) as f64;
        self.label(28.0, &format!("busy {percent:.0} %"), PALE);
        for off in all.off(core) {
            self.bar(
                off,
                JOBS,
                OFF,
                "off",
                &format!("off for {}", milliseconds(off.length())),
            );
        }
        for job in core.jobs.values() {
            let Some(run) = all.run(job) else {
                continue;
            };
            let whose = job
                .process()
                .map_or_else(String::new, |process| all.name(process));
            let end = match job.end {
                Some((_, Outcome::Done)) => "",
                Some((_, Outcome::Dropped)) => ", dropped",
                Some((_, Outcome::NeverRun)) => ", never run",
                None => ", not ended",
            };
            let words = job.submit.as_ref().map_or(0, |(_, submit)| submit.words);
            let queued = all.queued(job).map_or(0, Span::length);
            let about = format!(
                "job {} of {whose}: {words} words, {} in the queue, {} on the core{end}",
                job.seqno,
                milliseconds(queued),
                milliseconds(run.length())
            );
            let colour = if job.hung {
                BAD
            } else {
                self.colour(job.process())
            };
            self.bar(run, JOBS, colour, &job.seqno.to_string(), &about);
        }
        for (time, seqno, guilty) in &core.hangs {
            let whose = match guilty {
                0 => String::new(),
                guilty => format!(" of {}", all.name(*guilty)),
            };
            let label = format!("hang in job {seqno}{whose}");
            self.mark(*time, HANG, &label, "end");
        }
        for (time, tries, ok) in &core.resets {
            let what = if *ok {
                format!("reset (try {tries})")
            } else {
                "given up".to_string()
            };
            self.mark(*time, RESET, &what, "start");
        }
        self.y += JOBS + 2.0;
        self.queue(core);
    }

    /// Draws the number of queued jobs as a curve.
    fn queue(&mut self, core: &Core) {
        let depths = self.timeline.depths(core);
        let most = depths.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
        if most > 0 {
            self.label(11.0, &format!("jobs in its queue, {most} at most"), PALE);
            let bottom = self.y + QUEUE;
            let mut path = format!("M {LEFT:.1} {bottom:.1}");
            for (time, depth) in depths {
                let height = QUEUE * depth as f64 / most as f64;
                path += &format!(" H {:.1} V {:.1}", self.x(time), bottom - height);
            }
            path += &format!(" V {bottom:.1} Z");
            self.add(Path::new().set("d", path).set("fill", "#b0b7c3"));
            self.y += QUEUE;
        }
    }

    fn process(&mut self, number: i32, process: &Process) {
        let all = self.timeline;
        self.y += GAP;
        self.label(11.0, &all.name(number), self.colour(Some(number)));
        for (time, (core, seqno)) in &process.submits {
            if self.is_shown(*time) {
                let x = self.x(*time);
                let tick = Line::new()
                    .set("x1", round(x))
                    .set("x2", round(x))
                    .set("y1", round(self.y))
                    .set("y2", round(self.y + SUBMITS))
                    .set("stroke", self.colour(Some(number)));
                self.add(tick.add(Title::new(format!("submits job {seqno} to core {core}"))));
            }
        }
        self.y += SUBMITS + 1.0;
        for (thread, waits) in &process.waits {
            self.label(11.0, &format!("    thread {thread} waits"), PALE);
            for waited in waits {
                let wait = &waited.wait;
                let known = WAITED.iter().find(|(what, _)| *what == wait.what);
                let colour = known.map_or(OFF, |(_, colour)| *colour);
                let what = match (wait.what.as_str(), wait.core) {
                    ("place", Some(core)) => format!("place on core {core}"),
                    (what, Some(core)) => format!("{what} {} of core {core}", wait.object),
                    (what, None) => format!("{what} {}", wait.object),
                };
                let result = match waited.result {
                    Some(0) => String::new(),
                    Some(result) => format!(", status {result}"),
                    None => ", not over".to_string(),
                };
                let about = format!(
                    "waits for {what}: {}{result}",
                    milliseconds(waited.span.length())
                );
                self.bar(waited.span, WAITS - 2.0, colour, &what, &about);
            }
            self.y += WAITS;
        }
    }

    fn foot(&mut self) {
        let delays = delays::longest(self.timeline, DELAYS);
        if delays.is_empty() {
            return;
        }
        self.y += LINE;
        self.text(
            (12.0, self.y),
            "The longest from submission to end, and why:",
            INK,
        );
        for delay in delays {
            self.y += LINE;
            let line = delay.line(self.timeline);
            self.text((24.0, self.y), &line, INK);
        }
    }
}

/// Rounds coordinates to a tenth of a pixel.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn rectangle(x: f64, y: f64, width: f64, height: f64) -> Rectangle {
    Rectangle::new()
        .set("x", round(x))
        .set("y", round(y))
        .set("width", round(width))
        .set("height", round(height))
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::timeline;
    use super::super::model::tests::TEXT;
    use super::*;

    #[test]
    fn what_happened_is_in_the_picture() {
        let all = timeline(TEXT);
        let svg = draw(&all, all.span, "a <title> & \"more\"\u{1}");
        assert!(svg.contains("core 0 (3d)"), "{svg}");
        assert!(svg.contains("job 6 of"), "{svg}");
        assert!(svg.contains("hang in job 5 of one 10"), "{svg}");
        assert!(svg.contains("reset (try 1)"), "{svg}");
        assert!(svg.contains("waits for signal 3: 25.00 ms"), "{svg}");
        assert!(svg.contains("1.00 ms the core was off"), "{svg}");
        // Program names are escaped, whatever they contain.
        assert!(
            !svg.contains("<&") && !svg.contains("<title> &") && !svg.contains('\u{1}'),
            "{svg}"
        );
        assert!(svg.contains("&lt;&amp;"), "{svg}");
    }

    #[test]
    fn what_is_outside_of_the_window_is_not() {
        let all = timeline(TEXT);
        let window = Span {
            from: all.span.from,
            to: all.span.from + 3_000_000,
        };
        let svg = draw(&all, window, "x");
        assert!(!svg.contains("reset (try"), "{svg}");
        assert!(svg.contains("off for 3.00 ms"), "{svg}");
    }

    #[test]
    fn scales_have_round_steps() {
        assert_eq!(
            [12.0, 13.0, 40.0, 0.5].map(|length| step(length, 12.0)),
            [1.0, 2.0, 5.0, 0.05]
        );
        assert_eq!(fitting("galcore", 30.0).as_deref(), Some("gal…"));
        assert_eq!(fitting("galcore", 10.0), None);
    }
}
