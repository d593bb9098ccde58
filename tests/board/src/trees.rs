// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/board trees`: boots QEMU's machine for a SoC with the kernel's device tree of each of its real boards.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::boards::Board;
use crate::cli::Tools;
use crate::cli::TreesArgs;
use crate::commands;
use crate::commands::say;
use crate::judgement;
use crate::kernel_log;
use crate::machine;
use crate::machine::Assets;
use crate::machine::Outcome;
use crate::machine::Watcher;
use crate::signals::Signals;

/// Draws two frames of the 3D animation; the frames of a full turn would take most of a boot's time.
const FRAMES: &[&str] = &["--frames", "2"];

/// The result of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    tree: String,
    cores: String,
    picture: String,
    told: String,
    /// Whether the kernel, the GPU model, or the picture is wrong. A board with parts that QEMU lacks does not count
    /// as wrong.
    is_wrong: bool,
    /// The kernel's release.
    release: Option<String>,
}

impl Row {
    fn line(&self) -> String {
        let Row {
            tree,
            cores,
            picture,
            told,
            ..
        } = self;
        format!("| `{tree}` | {cores} | {picture} | {told} |")
    }

    /// The result of a boot with that tree. `changed` describes changes to the tree.
    fn of(tree: &str, outcome: &Outcome, changed: &str) -> Row {
        let printed = outcome.tasks.first().map_or(&[][..], |task| &task.stdout);
        let printed = String::from_utf8_lossy(printed);
        let cores: Vec<_> = printed.lines().filter_map(core).collect();
        let picture = printed.lines().find_map(picture);
        let told = match (picture, judgement::explain(outcome, Path::new("")).first()) {
            (_, Some(line)) => line.trim().to_string(),
            (None, None) => reason(&outcome.log),
            (Some(_), None) => String::new(),
        };
        let told = [changed, &told].map(|text| text.replace('|', "/"));
        Row {
            tree: tree.to_string(),
            cores: or_none(cores.join(", ")),
            picture: picture.map_or("none".to_string(), str::to_string),
            told: told
                .iter()
                .filter(|text| !text.is_empty())
                .cloned()
                .collect::<Vec<_>>()
                .join("; "),
            is_wrong: judgement::status_of_boot(outcome) == Some(judgement::COMPLAINTS)
                || picture.is_some_and(|picture| !picture.starts_with("0 ")),
            release: kernel_log::release(&outcome.log).map(str::to_string),
        }
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() {
        "none".to_string()
    } else {
        text
    }
}

/// Extracts "GC2000" from the demonstration's "core     GC2000 revision 0x5108, 3D with ...".
fn core(line: &str) -> Option<&str> {
    line.strip_prefix("core ")?.split_whitespace().next()
}

/// Extracts "0 differ" from its "checked  153600 pixels against software, 0 differ".
fn picture(line: &str) -> Option<&str> {
    line.strip_prefix("checked ")?
        .rsplit_once(", ")
        .map(|(_, found)| found)
}

/// Why there is no core, from the log of the driver or of the kernel's devices.
fn reason(log: &str) -> String {
    let is_ours = |line: &&str| line.contains("galcore") && !line.contains("galcore-board");
    let tells = |line: &&str| {
        ["no core", "deferred", "failed", "supplier", "cannot"]
            .iter()
            .any(|word| line.contains(word))
    };
    let lines = log.lines().map(kernel_log::message);
    let last = lines.filter(|line| is_ours(line) && tells(line)).last();
    last.unwrap_or("the driver says nothing").to_string()
}

/// Shows no output while boots run in parallel.
struct Quiet;

impl Watcher for Quiet {}

/// The names of the kernel's trees for that SoC.
fn all_trees(assets: &Assets, board: Board) -> Result<Vec<String>> {
    let soc = board
        .soc()
        .context("--board: sabrelite, imx8mm-evk or imx8mp-evk")?;
    let folder = soc.folder(assets)?;
    let entries = fs::read_dir(&folder)
        .with_context(|| format!("{} has no device trees", folder.display()))?;
    let mut trees = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".dtb") else {
            continue;
        };
        if board
            .with_real_tree(name)
            .is_ok_and(|of_tree| of_tree.soc() == Some(soc))
        {
            trees.push(name.to_string());
        }
    }
    trees.sort();
    Ok(trees)
}

/// Data that all boots of a run share.
struct Sweep<'a> {
    tools: &'a Tools,
    arguments: &'a TreesArgs,
    assets: &'a Assets,
    signals: &'a Signals,
    out: &'a Path,
}

impl Sweep<'_> {
    /// Boots with the tree. If there is no core, boots again without the board's supplies.
    fn row(&self, tree: &str) -> Result<Row> {
        let row = Row::of(tree, &self.boot(tree, tree)?, "");
        let board = self.arguments.board.with_real_tree(tree)?;
        let (Some(soc), true) = (board.soc(), row.cores == "none") else {
            return Ok(row);
        };
        let dir = tempfile::tempdir()?;
        let Some(changed) = soc.without_supplies(self.assets, tree, dir.path())? else {
            return Ok(row);
        };
        let outcome = self.boot(tree, &changed.to_string_lossy())?;
        Ok(Row::of(
            tree,
            &outcome,
            "no core until the supply from the board's PMIC was removed from the tree",
        ))
    }

    fn boot(&self, name: &str, dtb: &str) -> Result<Outcome> {
        let board = self.arguments.board.with_real_tree(dtb)?;
        let mut boot = commands::demo_boot(self.tools, board, FRAMES, self.out.join(name))?;
        boot.dtb = dtb.to_string();
        machine::boot(self.assets, &boot, &mut Quiet, self.signals)
    }
}

/// `scripts/board trees`
pub fn trees(tools: &Tools, arguments: &TreesArgs, signals: &Signals) -> Result<u8> {
    let assets = tools.assets(!arguments.list)?;
    let all = all_trees(&assets, arguments.board)?;
    let is_meant = |tree: &String, name: &String| {
        if all.contains(name) {
            tree == name
        } else {
            tree.starts_with(name)
        }
    };
    let is_wanted = |tree: &&String| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| is_meant(tree, name))
    };
    let wanted: Vec<String> = all.iter().filter(is_wanted).cloned().collect();
    let wanted: Vec<String> = wanted.into_iter().step_by(arguments.every).collect();
    if arguments.list {
        wanted.iter().for_each(|tree| println!("{tree}"));
        return Ok(0);
    }
    if wanted.is_empty() {
        bail!(
            "none of this kernel's {} trees has such a name; --list has them",
            all.len()
        );
    }
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| tools.top.join("out/trees"));
    let sweep = Sweep {
        tools,
        arguments,
        assets: &assets,
        signals,
        out: &out,
    };
    let rows = sweep_all(&sweep, &wanted)?;
    let mut text = "| Tree | Cores | Picture | What was refused, or changed |\n|---|---|---|---|\n"
        .to_string();
    rows.iter()
        .for_each(|row| text.push_str(&format!("{}\n", row.line())));
    let release = rows.iter().find_map(|row| row.release.as_deref());
    text.push_str(&format!(
        "\n{} of the {} trees of Linux {} ({}) for this machine were run.\n",
        rows.len(),
        all.len(),
        release.unwrap_or("unknown"),
        tools.kernel
    ));
    let table = out.join("trees.md");
    fs::write(&table, &text).with_context(|| format!("cannot write {}", table.display()))?;
    print!("{text}");
    let wrong = rows.iter().filter(|row| row.is_wrong).count();
    say(&format!(
        "{wrong} are wrong; the table: {}, logs beside it",
        table.display()
    ));
    Ok(u8::from(wrong > 0 || rows.len() < wanted.len()))
}

/// The rows of all trees, in order, with `--jobs` parallel boots.
fn sweep_all(sweep: &Sweep, trees: &[String]) -> Result<Vec<Row>> {
    let queue: Mutex<VecDeque<(usize, &String)>> = Mutex::new(trees.iter().enumerate().collect());
    let work = || -> Result<Vec<(usize, Row)>> {
        let mut rows = Vec::new();
        while sweep.signals.last() == 0 {
            // A panic in another thread leaves the queue intact.
            let next = queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let Some((number, tree)) = next else {
                break;
            };
            let row = sweep.row(tree).with_context(|| tree.clone())?;
            say(&row.line());
            rows.push((number, row));
        }
        Ok(rows)
    };
    let parts: Vec<Result<Vec<(usize, Row)>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..sweep.arguments.jobs)
            .map(|_| scope.spawn(work))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a boot's thread has panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let mut rows = Vec::new();
    for part in parts {
        rows.extend(part?);
    }
    rows.sort_by_key(|(number, _)| *number);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::machine::End;
    use crate::machine::Report;
    use crate::machine::TaskOutcome;

    const PRINTED: &str = "driver   galcore 4.6.9.1210, spoken to as 4.6.9\n\
        core     GC2000 revision 0x5108, 3D with 2 pixel pipe(s) and 4 shader core(s)\n\
        core     GC320 revision 0x5007, 2D\n\
        checked  153600 pixels against software, 0 differ\n";

    fn outcome(printed: &str, log: &str) -> Outcome {
        Outcome {
            end: End::Done,
            tasks: vec![TaskOutcome {
                started: true,
                status: Some(0),
                stdout: printed.as_bytes().to_vec(),
                ..TaskOutcome::default()
            }],
            log: log.to_string(),
            findings: kernel_log::scan(log),
            report: Some(Report::default()),
            boot_time: Duration::ZERO,
            total_time: Duration::ZERO,
            processor_time: Duration::ZERO,
            said: vec![],
        }
    }

    #[test]
    fn a_row_tells_what_was_drawn() {
        let row = Row::of("imx6q-x", &outcome(PRINTED, ""), "");
        assert_eq!(row.line(), "| `imx6q-x` | GC2000, GC320 | 0 differ |  |");
        assert!(!row.is_wrong);
        let differs = PRINTED.replace(" 0 differ", " 7 differ");
        assert!(Row::of("imx6q-x", &outcome(&differs, ""), "").is_wrong);
        let warning = "[    1.000000] WARNING: mm/slab.c:12 at kfree+0x12/0x30, CPU#0: init/1\n";
        let row = Row::of("imx6q-x", &outcome(PRINTED, warning), "");
        assert!(row.is_wrong && row.told.contains("WARNING"), "{row:?}");
    }

    #[test]
    fn a_row_without_a_core_says_why() {
        let log = "[    3.0] galcore: no core yet: 130000.gpu waits for a supplier\n\
            [    4.0] galcore-board: done failed\n";
        let row = Row::of("imx6q-x", &outcome("", log), "as a test | says");
        assert_eq!((row.cores.as_str(), row.picture.as_str()), ("none", "none"));
        assert_eq!(
            row.told,
            "as a test / says; galcore: no core yet: 130000.gpu waits for a supplier"
        );
        assert!(!row.is_wrong);
    }
}
