// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/board bench`: runs boots that measure, prints a table, and writes a file of results.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use serde::Deserialize;
use serde::Serialize;

use crate::boards::Binding;
use crate::cli::BenchArgs;
use crate::cli::Tools;
use crate::commands::conclude;
use crate::commands::guest_command;
use crate::commands::say;
use crate::commands::PassOn;
use crate::etnaviv;
use crate::machine;
use crate::machine::Boot;
use crate::machine::Task;
use crate::machine::Work;
use crate::plot;
use crate::signals::Signals;

/// Time limit of the measuring program.
const LIMIT: Duration = Duration::from_secs(900);
/// The file that it writes.
const RESULTS: &str = "results.json";
/// Limits for operations, and the costs of other drivers.
const TARGETS: &str = include_str!("../../bench/targets.toml");
/// Tolerated difference between runs: one part in this many.
const TOLERANCE: u64 = 100;
/// Tolerated increase over the recorded cost of an operation: one part in this many.
const GUARD: u64 = 50;

/// Name prefix of operations on galcore's own node with etnaviv's interface.
pub const NODE: &str = "node-";

/// Order statistics of an operation's samples.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
struct Figures {
    median: u64,
    least: u64,
    most: u64,
    mean: u64,
}

/// The measuring program's results for an operation.
#[derive(Debug, Clone, Deserialize, Serialize)]
struct Cost {
    name: String,
    title: String,
    samples: u64,
    instructions: Option<Figures>,
    wall: Option<Figures>,
    reads: Option<f64>,
    writes: Option<f64>,
    interrupts: Option<f64>,
}

/// Limits and other drivers' costs of an operation.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Target {
    /// Limit of instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<u64>,
    /// Instructions when last recorded. The guard uses this.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<u64>,
    /// Limit of register reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_reads: Option<f64>,
    /// Limit of register writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_writes: Option<f64>,
    /// Limit of instructions, in percent of the cost in the kernel's own driver in the same boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<u64>,
    /// Instructions in the vendor's driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    vendor: Option<u64>,
    /// Instructions outside any driver on the board where the others were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    yardstick: Option<u64>,
}

impl Cost {
    fn median(&self) -> Option<u64> {
        Some(self.instructions?.median)
    }
}

/// The measuring program's results.
#[derive(Debug, Clone, Default, Deserialize)]
struct Results {
    galcore: Vec<Cost>,
    /// Results of the other driver. Its operations have the same names as galcore's.
    etnaviv: Vec<Cost>,
}

/// An operation in the file of results.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    title: String,
    samples: u64,
    /// Instructions in each run.
    instructions: Vec<Figures>,
    reads: Option<f64>,
    writes: Option<f64>,
    interrupts: Option<f64>,
    /// Nanoseconds on this machine; not comparable with other machines.
    wall: Option<Figures>,
    /// The cost of the same operation in the kernel's own driver, in the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    etnaviv: Option<Cost>,
    #[serde(flatten)]
    target: Target,
}

impl Row {
    /// The largest and the smallest median of the runs.
    fn spread(&self) -> Option<(u64, u64)> {
        let medians = || self.instructions.iter().map(|figures| figures.median);
        Some((medians().min()?, medians().max()?))
    }

    /// Whether the medians of the runs agree.
    fn steady(&self) -> bool {
        self.spread()
            .is_none_or(|(least, most)| most - least <= least / TOLERANCE)
    }

    /// An error if it costs too much compared with the kernel's own driver.
    fn excess(&self) -> Option<String> {
        let (share, (found, _)) = (self.target.share?, self.spread()?);
        let (name, theirs) = (&self.name, self.etnaviv.as_ref()?.median()?);
        (found * 100 > theirs * share).then(|| {
            format!("{name}: {found} instructions, etnaviv {theirs}: more than {share}% of that")
        })
    }

    /// An error if the cost differs from the recorded one, and whether it is higher.
    fn drift(&self) -> Option<(String, bool)> {
        let (now, (found, _)) = (self.target.now?, self.spread()?);
        let (name, most) = (&self.name, now / GUARD);
        if found > now + most {
            let text = format!("{name}: {found} instructions, {now} before: scripts/board profile {name} shows where");
            return Some((text, true));
        }
        let text = format!(
            "{name}: {found} instructions, {now} before: note that in tests/bench/targets.toml"
        );
        (found + most < now).then_some((text, false))
    }
}

/// `scripts/board bench`
pub fn bench(tools: &Tools, arguments: &BenchArgs, signals: &Signals) -> Result<u8> {
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => tools.top.join("out"),
    };
    let out = out.join("bench");
    let mut runs = Vec::new();
    for run in 1..=arguments.runs {
        say(&format!("counting, run {run} of {}", arguments.runs));
        match measure(
            tools,
            arguments,
            true,
            out.join(format!("run-{run}")),
            signals,
        )? {
            Ok(costs) => runs.push(costs),
            Err(status) => return Ok(status),
        }
    }
    let wall = if arguments.no_wall {
        Results::default()
    } else {
        say("measuring time");
        match measure(tools, arguments, false, out.join("wall"), signals)? {
            Ok(costs) => costs,
            Err(status) => return Ok(status),
        }
    };
    let rows = rows(&runs, &wall)?;
    print!("{}", table(&rows));
    let path = out.join("bench.json");
    fs::write(&path, serde_json::to_string_pretty(&rows)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("figures: {}", path.display());
    let path = out.join("bench.svg");
    plot::plot(&path, |name| {
        let row = rows.iter().find(|row| row.name == name)?;
        Some(row.instructions.first()?.median)
    })?;
    println!("plot:    {}", path.display());
    let unsteady: Vec<&Row> = rows.iter().filter(|row| !row.steady()).collect();
    for row in &unsteady {
        if let Some((least, most)) = row.spread() {
            say(&format!(
                "{}: runs differ by more than 1%: {least} to {most}",
                row.name
            ));
        }
    }
    let drifts = rows.iter().filter_map(Row::drift);
    let mut is_worse = false;
    for (text, costs_more) in drifts.filter(|_| arguments.guard) {
        say(&text);
        is_worse |= costs_more;
    }
    for text in rows.iter().filter_map(Row::excess) {
        say(&text);
        is_worse = true;
    }
    Ok(u8::from(is_worse || !unsteady.is_empty()))
}

/// Boots once. Returns the results, or the exit status of a failed boot.
fn measure(
    tools: &Tools,
    arguments: &BenchArgs,
    icount: bool,
    out: PathBuf,
    signals: &Signals,
) -> Result<std::result::Result<Results, u8>> {
    let results = out.join(RESULTS);
    // Do not take old results for new ones.
    if results.exists() {
        fs::remove_file(&results)
            .with_context(|| format!("cannot remove the old {}", results.display()))?;
    }
    let program = tools.programs.join("galcore-bench");
    let mut command = vec![program.to_string_lossy().into_owned()];
    if arguments.quick {
        command.push("--quick".to_string());
    }
    if let Some(only) = &arguments.only {
        command.extend(["--only".to_string(), only.clone()]);
    }
    let peer = match &tools.build {
        Some(build) => match etnaviv::modules(build) {
            Some(modules) => modules,
            None => bail!("the kernel in {} has no etnaviv", build.display()),
        },
        None => Vec::new(),
    };
    if !peer.is_empty() {
        command.extend(["--peer".to_string(), etnaviv::FOLDER.to_string()]);
    }
    let (command, file) = guest_command(&command, tools.processor()?)?;
    let boot = Boot {
        board: arguments.board,
        binding: Binding::Dt,
        smp: 1,
        memory: 512,
        append: String::new(),
        tree: String::new(),
        dtb: String::new(),
        kunit: false,
        seed: Some(1),
        icount,
        trace: false,
        monitor: None,
        insmod: arguments.insmod.join(" "),
        load: true,
        drm: false,
        files: file.into_iter().chain(peer).collect(),
        work: Work::Programs(vec![Task {
            command,
            limit: LIMIT,
            files_to: out.clone(),
            module: None,
        }]),
        out,
    };
    let outcome = machine::boot(&tools.assets(true)?, &boot, &mut PassOn::default(), signals)?;
    let status = conclude(&outcome, &boot.out);
    if status != 0 {
        return Ok(Err(status));
    }
    read(&results).map(Ok)
}

fn read(path: &Path) -> Result<Results> {
    let text = fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is broken", path.display()))
}

/// The results of all boots, by operation.
fn rows(runs: &[Results], wall: &Results) -> Result<Vec<Row>> {
    let mut targets: BTreeMap<String, Target> =
        toml::from_str(TARGETS).context("tests/bench/targets.toml")?;
    let Some(first) = runs.first() else {
        bail!("nothing was measured");
    };
    let named = |costs: &[Cost], name: &str| costs.iter().find(|cost| cost.name == name).cloned();
    let peer = |name: &str| {
        let name = name.strip_prefix(NODE).unwrap_or(name);
        let mut cost = named(&first.etnaviv, name)?;
        cost.wall = named(&wall.etnaviv, name).and_then(|cost| cost.wall);
        Some(cost)
    };
    Ok(first
        .galcore
        .iter()
        .map(|cost| Row {
            name: cost.name.clone(),
            title: cost.title.clone(),
            samples: cost.samples,
            instructions: runs
                .iter()
                .filter_map(|costs| named(&costs.galcore, &cost.name)?.instructions)
                .collect(),
            reads: cost.reads,
            writes: cost.writes,
            interrupts: cost.interrupts,
            wall: named(&wall.galcore, &cost.name).and_then(|cost| cost.wall),
            etnaviv: peer(&cost.name),
            target: targets.remove(&cost.name).unwrap_or_default(),
        })
        .collect())
}

/// Formats the results as a table.
fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.title.len()).max().unwrap_or(0);
    let mut text = format!(
        "{:width$} {:>12} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {:>10}\n",
        "",
        "instructions",
        "least",
        "mean",
        "at most",
        "vendor",
        "etnaviv",
        "reads",
        "writes",
        "irqs",
        "wall us"
    );
    let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let average = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
    for row in rows {
        let figures = row.instructions.first();
        let median = figures.map(|figures| figures.median);
        let limit = row.target.target;
        let over = match (median, limit) {
            (Some(median), Some(limit)) if median > limit => "!",
            _ => " ",
        };
        let wall = row.wall.map_or(String::new(), |figures| {
            format!("{:.1}", figures.median as f64 / 1000.0)
        });
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:width$} {:>11}{over} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {wall:>10}",
            row.title,
            number(median),
            number(figures.map(|figures| figures.least)),
            number(figures.map(|figures| figures.mean)),
            number(limit.or(row.target.yardstick)),
            number(row.target.vendor),
            number(row.etnaviv.as_ref().and_then(Cost::median)),
            average(row.reads),
            average(row.writes),
            average(row.interrupts),
        );
    }
    text.push_str(&peer_table(rows));
    text
}

/// Formats the comparison with the other driver as a table.
fn peer_table(rows: &[Row]) -> String {
    let peers: Vec<(&str, &Cost)> = rows
        .iter()
        .filter(|row| !row.name.starts_with(NODE))
        .filter_map(|row| Some((row.title.as_str(), row.etnaviv.as_ref()?)))
        .collect();
    let Some(width) = peers.iter().map(|(title, _)| title.len()).max() else {
        return String::new();
    };
    let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let average = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
    let mut text = format!(
        "\n{:width$} {:>12} {:>8} {:>6} {:>6} {:>6} {:>10}  what it does\n",
        "etnaviv beside it", "instructions", "mean", "reads", "writes", "irqs", "wall us"
    );
    for (title, cost) in peers {
        let wall = cost.wall.map_or(String::new(), |figures| {
            format!("{:.1}", figures.median as f64 / 1000.0)
        });
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{title:width$} {:>12} {:>8} {:>6} {:>6} {:>6} {wall:>10}  {}",
            number(cost.median()),
            number(cost.instructions.map(|figures| figures.mean)),
            average(cost.reads),
            average(cost.writes),
            average(cost.interrupts),
            cost.title,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(name: &str, median: u64) -> Cost {
        let figures = Figures {
            median,
            least: median,
            most: median,
            mean: median,
        };
        Cost {
            name: name.to_string(),
            title: name.to_string(),
            samples: 1,
            instructions: Some(figures),
            wall: None,
            reads: Some(1.0),
            writes: None,
            interrupts: None,
        }
    }

    fn results(costs: &[Cost]) -> Results {
        Results {
            galcore: costs.to_vec(),
            etnaviv: Vec::new(),
        }
    }

    #[test]
    fn the_guard_sees_what_costs_more() {
        let mut row = rows(
            &[results(&[cost("commit-ioctl", 5000)])],
            &Results::default(),
        )
        .unwrap()
        .remove(0);
        let mut drift = |now, median| {
            row.target.now = now;
            row.instructions[0].median = median;
            row.drift().map(|(_, costs_more)| costs_more)
        };
        assert_eq!(drift(None, 9000), None);
        assert_eq!(drift(Some(5000), 5100), None);
        assert_eq!(drift(Some(5000), 5101), Some(true));
        assert_eq!(drift(Some(5000), 4900), None);
        assert_eq!(drift(Some(5000), 4899), Some(false));
    }

    #[test]
    fn a_row_of_the_node_is_compared_with_etnaviv() {
        let excess = |ours, theirs| {
            let run = Results {
                galcore: vec![cost("node-commit-wait", ours)],
                etnaviv: vec![cost("commit-wait", theirs)],
            };
            rows(&[run.clone()], &run).unwrap()[0].excess()
        };
        assert_eq!(excess(600, 1000), None);
        assert!(excess(601, 1000).is_some());
    }

    #[test]
    fn the_peer_stands_beside_what_it_is_like() {
        let run = Results {
            galcore: vec![cost("identity", 900), cost("other", 1)],
            etnaviv: vec![cost("identity", 700)],
        };
        let found = rows(&[run.clone()], &run).unwrap();
        assert_eq!(found[0].etnaviv.as_ref().and_then(Cost::median), Some(700));
        assert!(found[1].etnaviv.is_none());
        let text = table(&found);
        let beside = text.split_once("etnaviv beside it").unwrap().1;
        assert!(
            beside.contains("700") && !beside.contains("other"),
            "{text}"
        );
    }

    #[test]
    fn runs_are_compared() {
        let runs = [
            results(&[cost("identity", 1000)]),
            results(&[cost("identity", 1010)]),
        ];
        let found = rows(&runs, &Results::default()).unwrap();
        assert!(found[0].steady());
        assert_eq!(found[0].target.target, Some(650));
        let runs = [
            results(&[cost("identity", 1000)]),
            results(&[cost("identity", 1011)]),
        ];
        assert!(!rows(&runs, &Results::default()).unwrap()[0].steady());
    }

    #[test]
    fn what_costs_too_much_is_marked() {
        let costs = results(&[cost("identity", 651), cost("other", 1)]);
        let found = rows(&[costs], &Results::default()).unwrap();
        let text = table(&found);
        assert!(text.lines().nth(1).unwrap().contains("651!"), "{text}");
        assert!(!text.lines().nth(2).unwrap().contains('!'), "{text}");
    }
}
