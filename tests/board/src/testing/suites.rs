// SPDX-License-Identifier: GPL-2.0-only
//! The table of suites, `suites.toml`.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use serde::Deserialize;

use crate::boards::Binding;
use crate::boards::Board;

/// All suites, or those selected.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Unit tests that run on the host.
    #[serde(default)]
    pub host: Vec<HostSuite>,
    /// KUnit suites of the module.
    #[serde(default)]
    pub kunit: Vec<KunitSuite>,
    /// Programs that run in the guest.
    #[serde(default)]
    pub guest: Vec<GuestSuite>,
}

/// The unit tests of a crate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSuite {
    /// Its name.
    pub name: String,
    /// The crate.
    pub package: String,
}

/// The KUnit suites of the module, which run when it is loaded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KunitSuite {
    /// Its name.
    pub name: String,
    /// The board it is loaded on.
    pub board: Board,
    /// How it finds the GPU.
    pub binding: Binding,
}

/// A program that tests in the guest.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSuite {
    /// Its name.
    pub name: String,
    /// The program, one of the project's own.
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The boards it runs on, one after another.
    pub boards: Vec<Board>,
    /// How the driver finds the GPU, each way in turn.
    #[serde(default = "device_tree_only")]
    pub bindings: Vec<Binding>,
    /// Whether the board loads the module before it.
    #[serde(default = "yes")]
    pub load: bool,
    /// Module parameters beside the board's own.
    #[serde(default)]
    pub insmod: String,
    /// More kernel arguments.
    #[serde(default)]
    pub append: String,
    /// What is added to the board's device tree: a file of `dts/`.
    #[serde(default)]
    pub tree: String,
    /// Whether etnaviv's modules are in the guest, where the kernel has them.
    #[serde(default)]
    pub etnaviv: bool,
    /// Whether Mesa and etnaviv's modules are in the guest.
    #[serde(default)]
    pub mesa: bool,
    /// The kernels it runs on, one after another: [`USUAL`], or files of `scripts/kernel-configs/`.
    #[serde(default = "usual_kernel")]
    pub kernels: Vec<String>,
    /// Number of processors.
    #[serde(default = "one")]
    pub smp: u32,
    /// RAM in MiB; the last 128 are the contiguous pool.
    #[serde(default = "half_a_gib")]
    pub memory: u32,
    /// Seconds it may take.
    #[serde(default = "five_minutes")]
    pub timeout: u64,
    /// Makes it a suite of `soak` too.
    pub soak: Option<Soak>,
    /// Whether it runs in `soak` only.
    #[serde(default)]
    pub soak_only: bool,
    /// Files it must leave in its work folder.
    #[serde(default)]
    pub leaves: Vec<String>,
    /// Other programs that it runs, which stand beside it.
    #[serde(default)]
    pub with: Vec<String>,
}

impl GuestSuite {
    /// Each kernel (empty: the usual one) with each board.
    fn places(&self) -> impl Iterator<Item = (&str, &Board)> {
        self.kernels.iter().flat_map(|kernel| {
            let kernel = match kernel.as_str() {
                USUAL => "",
                other => other,
            };
            self.boards.iter().map(move |board| (kernel, board))
        })
    }
}

/// What differs when a suite runs for hours.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Soak {
    /// Its arguments then.
    pub args: Vec<String>,
    /// Seconds it may take then.
    pub timeout: u64,
}

fn device_tree_only() -> Vec<Binding> {
    vec![Binding::Dt]
}

/// The kernel that was chosen for this run.
const USUAL: &str = "usual";

/// The kernel that is chosen unless somebody says otherwise.
const DEFAULT: &str = "armv7";

fn usual_kernel() -> Vec<String> {
    vec![USUAL.to_string()]
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn half_a_gib() -> u32 {
    512
}

fn five_minutes() -> u64 {
    300
}

/// What a boot must be like for the suites in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The board.
    pub board: Board,
    /// How the driver finds the GPU.
    pub binding: Binding,
    /// Whether KUnit suites run.
    pub kunit: bool,
    /// Whether the board loads the module.
    pub load: bool,
    /// Module parameters beside the board's own.
    pub insmod: String,
    /// More kernel arguments.
    pub append: String,
    /// What is added to the board's device tree; empty: nothing.
    pub tree: String,
    /// Whether etnaviv's modules are there.
    pub etnaviv: bool,
    /// Whether Mesa is there, with etnaviv's modules.
    pub mesa: bool,
    /// The kernel; empty: the usual one.
    pub kernel: String,
    /// Number of processors.
    pub smp: u32,
    /// RAM in MiB.
    pub memory: u32,
}

impl Needs {
    /// In a few words, for people.
    pub fn describe(&self) -> String {
        let mut words = vec![
            self.board.name().to_string(),
            self.binding.name().to_string(),
        ];
        if self.smp > 1 {
            words.push(format!("{} cpus", self.smp));
        }
        if self.memory != half_a_gib() {
            words.push(format!("{} MiB", self.memory));
        }
        if !self.load {
            words.push("loads itself".to_string());
        }
        if self.etnaviv {
            words.push("with etnaviv".to_string());
        }
        if self.mesa {
            words.push("with Mesa".to_string());
        }
        let more = [&self.tree, &self.kernel, &self.insmod, &self.append];
        words.extend(more.map(|s| s.to_string()));
        words.retain(|word| !word.is_empty());
        words.join(" ")
    }
}

/// One suite in one boot.
#[derive(Debug, Clone)]
pub struct Step {
    /// The suite's name.
    pub name: String,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// How long it may take.
    pub limit: Duration,
    /// Files it must leave in its work folder.
    pub leaves: Vec<String>,
    /// Other programs that it runs, which stand beside it.
    pub with: Vec<String>,
}

/// Suites that share a boot.
#[derive(Debug, Clone)]
pub struct Group {
    /// What the boot is like.
    pub needs: Needs,
    /// The KUnit suite that it runs.
    pub kunit: Option<String>,
    /// The programs that it runs.
    pub steps: Vec<Step>,
}

impl Table {
    /// Reads the table; with `soak` only what `soak` runs, as it runs it.
    pub fn load(soak: bool) -> Result<Table> {
        let table = Table::parse(include_str!("../../suites.toml"))?;
        Ok(if soak { table.soak() } else { table.ordinary() })
    }

    fn parse(text: &str) -> Result<Table> {
        let table: Table = toml::from_str(text).context("suites.toml")?;
        let mut names = BTreeSet::new();
        for name in table.names() {
            if !names.insert(name) {
                bail!("suites.toml: the name {name} is there twice");
            }
        }
        Ok(table)
    }

    fn ordinary(mut self) -> Table {
        self.guest.retain(|suite| !suite.soak_only);
        self
    }

    fn soak(mut self) -> Table {
        self.host.clear();
        self.kunit.clear();
        self.guest.retain(|suite| suite.soak.is_some());
        for suite in &mut self.guest {
            if let Some(soak) = &suite.soak {
                suite.args = soak.args.clone();
                suite.timeout = soak.timeout;
            }
        }
        self
    }

    fn names(&self) -> Vec<&str> {
        let host = self.host.iter().map(|suite| suite.name.as_str());
        let kunit = self.kunit.iter().map(|suite| suite.name.as_str());
        let guest = self.guest.iter().map(|suite| suite.name.as_str());
        host.chain(kunit).chain(guest).collect()
    }

    /// The suites whose names begin with one of `wanted`; all for none.
    pub fn select(mut self, wanted: &[String]) -> Result<Table> {
        if wanted.is_empty() {
            return Ok(self);
        }
        for name in wanted {
            if !self.names().iter().any(|known| known.starts_with(name)) {
                bail!(
                    "there is no suite {name}; known are: {}",
                    self.names().join(", ")
                );
            }
        }
        let is_wanted = |name: &str| wanted.iter().any(|want| name.starts_with(want));
        self.host.retain(|suite| is_wanted(&suite.name));
        self.kunit.retain(|suite| is_wanted(&suite.name));
        self.guest.retain(|suite| is_wanted(&suite.name));
        Ok(self)
    }

    /// A line for each suite.
    pub fn list(&self) -> String {
        let mut text = String::new();
        for suite in &self.host {
            text.push_str(&format!(
                "{:24} host, crate {}\n",
                suite.name, suite.package
            ));
        }
        for suite in &self.kunit {
            let (board, binding) = (suite.board.name(), suite.binding.name());
            text.push_str(&format!("{:24} KUnit, {board} {binding}\n", suite.name));
        }
        for suite in &self.guest {
            let boards: Vec<&str> = suite.boards.iter().map(|b| b.name()).collect();
            let bindings: Vec<&str> = suite.bindings.iter().map(|b| b.name()).collect();
            text.push_str(&format!(
                "{:24} {} on {} by {}\n",
                suite.name,
                suite.program,
                boards.join(", "),
                bindings.join(", ")
            ));
        }
        text
    }

    /// The suites of a run on kernel `chosen`: kernels of their own are for runs on the default one.
    pub fn on_kernel(mut self, chosen: &str) -> Table {
        if chosen == DEFAULT {
            return self;
        }
        for suite in &mut self.guest {
            let runs = suite
                .kernels
                .iter()
                .any(|name| name == USUAL || name == chosen);
            suite.kernels = match runs {
                true => usual_kernel(),
                false => Vec::new(),
            };
        }
        self.guest.retain(|suite| !suite.kernels.is_empty());
        self
    }

    /// The kernels beside the usual one that the suites want.
    pub fn kernels(&self) -> BTreeSet<&str> {
        let kernels = self.guest.iter().flat_map(|suite| &suite.kernels);
        let kernels = kernels.map(String::as_str);
        kernels.filter(|kernel| *kernel != USUAL).collect()
    }

    /// Whether a suite wants Mesa.
    pub fn wants_mesa(&self) -> bool {
        self.guest.iter().any(|suite| suite.mesa)
    }

    /// How many steps a run has, for the progress.
    pub fn steps(&self) -> usize {
        let guest = self
            .guest
            .iter()
            .map(|suite| suite.boards.len() * suite.bindings.len() * suite.kernels.len());
        self.host.len() + self.kunit.len() + guest.sum::<usize>()
    }

    /// The boots to make: suites with the same needs share one, as far as their programs fit.
    /// KUnit has boots of its own, for there every load of the module runs its suites.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = self
            .kunit
            .iter()
            .map(|suite| Group {
                needs: Needs {
                    board: suite.board,
                    binding: suite.binding,
                    kunit: true,
                    load: true,
                    insmod: String::new(),
                    append: String::new(),
                    tree: String::new(),
                    etnaviv: false,
                    mesa: false,
                    kernel: String::new(),
                    smp: 1,
                    memory: half_a_gib(),
                },
                kunit: Some(suite.name.clone()),
                steps: Vec::new(),
            })
            .collect();
        for suite in &self.guest {
            for (kernel, &board) in suite.places() {
                for &binding in &suite.bindings {
                    let needs = Needs {
                        board,
                        binding,
                        kunit: false,
                        load: suite.load,
                        insmod: suite.insmod.clone(),
                        append: suite.append.clone(),
                        tree: suite.tree.clone(),
                        etnaviv: suite.etnaviv,
                        mesa: suite.mesa,
                        kernel: kernel.to_string(),
                        smp: suite.smp,
                        memory: suite.memory,
                    };
                    group_for(&mut groups, needs).steps.push(Step {
                        name: suite.name.clone(),
                        program: suite.program.clone(),
                        args: suite.args.clone(),
                        limit: Duration::from_secs(suite.timeout),
                        leaves: suite.leaves.clone(),
                        with: suite.with.clone(),
                    });
                }
            }
        }
        groups
    }
}

/// Steps of one boot at most: their programs, some 2 MiB each, are unpacked into half of the guest's RAM.
const MOST_STEPS: usize = 24;

fn group_for(groups: &mut Vec<Group>, needs: Needs) -> &mut Group {
    let last = groups.iter().rposition(|group| group.needs == needs);
    let position = match last.filter(|&last| groups[last].steps.len() < MOST_STEPS) {
        Some(position) => position,
        None => {
            groups.push(Group {
                needs,
                kunit: None,
                steps: Vec::new(),
            });
            groups.len() - 1
        }
    };
    &mut groups[position]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
[[host]]
name = "model"
package = "gpu-model"

[[kunit]]
name = "kunit"
board = "dove"
binding = "dt"

[[guest]]
name = "signals"
program = "signals"
boards = ["dove", "imx6q"]
bindings = ["dt", "params"]

[[guest]]
name = "memory"
program = "memory"
boards = ["dove"]
soak = { args = ["--rounds", "9"], timeout = 900 }

[[guest]]
name = "reload"
program = "reload"
boards = ["dove"]
load = false

[[guest]]
name = "endless"
program = "endless"
boards = ["dove"]
soak = { args = [], timeout = 900 }
soak_only = true
"#;

    fn names(table: &Table) -> Vec<&str> {
        table.names()
    }

    #[test]
    fn the_real_table_can_be_read() {
        Table::load(false).unwrap();
        Table::load(true).unwrap();
    }

    #[test]
    fn suites_with_the_same_needs_share_a_boot() {
        let table = Table::parse(TABLE).unwrap().ordinary();
        let groups = table.groups();
        assert_eq!(groups.len(), 6);
        assert!(groups[0].needs.kunit);
        let shared = &groups[1];
        assert_eq!(shared.needs.describe(), "dove dt");
        let steps: Vec<&str> = shared.steps.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(steps, ["signals", "memory"]);
        assert!(groups.iter().any(|group| !group.needs.load));
        assert_eq!(table.steps(), 8);
    }

    #[test]
    fn a_boot_has_no_more_programs_than_fit() {
        let one = |n| {
            format!("[[guest]]\nname = \"one-{n}\"\nprogram = \"memory\"\nboards = [\"dove\"]\n")
        };
        let more: Vec<String> = (0..MOST_STEPS).map(one).collect();
        let more = more.concat();
        let table = Table::parse(&format!("{TABLE}{more}")).unwrap().ordinary();
        let steps: Vec<usize> = table
            .groups()
            .iter()
            .filter(|group| group.needs.describe() == "dove dt" && !group.needs.kunit)
            .map(|group| group.steps.len())
            .collect();
        assert_eq!(steps, [MOST_STEPS, 2]);
    }

    #[test]
    fn soak_takes_its_own_suites_and_parameters() {
        let table = Table::parse(TABLE).unwrap().soak();
        assert_eq!(names(&table), ["memory", "endless"]);
        assert_eq!(table.guest[0].args, ["--rounds", "9"]);
        assert_eq!(table.guest[0].timeout, 900);
    }

    #[test]
    fn names_select() {
        let table = Table::parse(TABLE).unwrap();
        let wanted = ["mem".to_string(), "model".to_string()];
        assert_eq!(
            names(&table.clone().select(&wanted).unwrap()),
            ["model", "memory"]
        );
        let error = table.select(&["nothing".to_string()]).unwrap_err();
        assert!(error.to_string().contains("known are: model"));
    }

    #[test]
    fn a_name_is_there_once() {
        let twice =
            "[[host]]\nname='a'\npackage='x'\n[[kunit]]\nname='a'\nboard='dove'\nbinding='dt'\n";
        assert!(Table::parse(twice).is_err());
        assert!(Table::parse("[[guest]]\nname='a'\n").is_err());
    }
}
