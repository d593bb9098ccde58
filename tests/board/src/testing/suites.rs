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
use crate::machine::Module;

/// All suites, or the selected ones.
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
    /// Whether [`QUICK`] replaces the usual kernel where possible.
    #[serde(skip)]
    pub quick: bool,
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

/// The KUnit suites of the module, which run when the module loads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KunitSuite {
    /// Its name.
    pub name: String,
    /// The board.
    pub board: Board,
    /// How the driver finds the GPU.
    pub binding: Binding,
}

/// A test program that runs in the guest.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSuite {
    /// Its name.
    pub name: String,
    /// The program: one of this project's.
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The boards it runs on, one after another.
    pub boards: Vec<Board>,
    /// More boards. They run in `soak`, or if the user selects one of them.
    #[serde(default)]
    pub soak_boards: Vec<Board>,
    /// Bindings: it runs with each.
    #[serde(default = "device_tree_only")]
    pub bindings: Vec<Binding>,
    /// Whether the board loads the module before the program starts.
    #[serde(default = "yes")]
    pub load: bool,
    /// Whether the kernel's DRM is loaded before the module, where the kernel has it as modules.
    #[serde(default)]
    pub drm: bool,
    /// Module parameters in addition to the board's.
    #[serde(default)]
    pub insmod: String,
    /// More kernel arguments.
    #[serde(default)]
    pub append: String,
    /// An extra overlay for the board's device tree: a file of `dts/`.
    #[serde(default)]
    pub tree: String,
    /// Whether etnaviv's modules are in the guest, where the kernel has them.
    #[serde(default)]
    pub etnaviv: bool,
    /// Whether Mesa and etnaviv's modules are in the guest.
    #[serde(default)]
    pub mesa: bool,
    /// The kernels it runs on, one after another: [`USUAL`], or files of `scripts/kernel-configs/`. [`DEFAULT`]
    /// selects the usual kernel with checks in every run, and [`QUICK`] the one without.
    #[serde(default = "usual_kernel")]
    pub kernels: Vec<String>,
    /// More kernels. They run in `soak`, or if the user selects one of them.
    #[serde(default)]
    pub soak_kernels: Vec<String>,
    /// Number of processors, if not the board's default.
    pub smp: Option<u32>,
    /// Whether it needs its own boot, because it leaves the machine in a state that other suites cannot use.
    #[serde(default)]
    pub alone: bool,
    /// RAM in MiB; the last 128 are the contiguous pool.
    #[serde(default = "half_a_gib")]
    pub memory: u32,
    /// Time limit in seconds.
    #[serde(default = "five_minutes")]
    pub timeout: u64,
    /// Arguments and time limit in `soak`. Without them, the suite runs unchanged in `soak` if it has more boards or
    /// kernels there.
    pub soak: Option<Soak>,
    /// Whether it runs only in `soak`.
    #[serde(default)]
    pub soak_only: bool,
    /// Files it must leave in its work folder.
    #[serde(default)]
    pub leaves: Vec<String>,
    /// Other programs that it starts. They are in the same folder.
    #[serde(default)]
    pub with: Vec<String>,
}

impl GuestSuite {
    /// Whether the suite runs in `soak`.
    fn soaks(&self) -> bool {
        let has_more = !self.soak_boards.is_empty() || !self.soak_kernels.is_empty();
        self.soak.is_some() || self.soak_only || has_more
    }

    /// Each kernel with each board. An empty kernel name means the chosen one. With `quick`, [`QUICK`] replaces the
    /// usual kernel where possible.
    fn places(&self, quick: bool) -> impl Iterator<Item = (&str, &Board)> {
        // etnaviv's modules belong to the chosen kernel.
        let quick = quick && self.smp.is_none() && !self.etnaviv && !self.mesa;
        self.kernels.iter().flat_map(move |kernel| {
            self.boards.iter().map(move |board| {
                let kernel = match kernel.as_str() {
                    USUAL if quick && !board.is_checked() => QUICK,
                    QUICK if quick => QUICK,
                    USUAL | DEFAULT | QUICK => "",
                    other => other,
                };
                (kernel, board)
            })
        })
    }
}

/// Settings of a suite in `soak`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Soak {
    /// Arguments.
    pub args: Vec<String>,
    /// Time limit in seconds.
    pub timeout: u64,
}

fn device_tree_only() -> Vec<Binding> {
    vec![Binding::Dt]
}

/// The kernel chosen for this run.
const USUAL: &str = "usual";

/// The default choice.
const DEFAULT: &str = "armv7";

/// The same kernel without lockdep and for one processor. It takes less than half of the time. `soak` always uses
/// [`DEFAULT`].
const QUICK: &str = "armv7-quick";

/// The kind of a Debian kernel, regardless of the Debian suite. `None` for other kernels.
fn of_debian(kernel: &str) -> Option<&str> {
    let rest = kernel.strip_prefix("debian")?;
    let kinds = ["-lpae", "-arm64"];
    let kind = kinds.into_iter().find(|kind| rest.ends_with(kind));
    (rest.is_empty() || rest.starts_with('-')).then_some(kind.unwrap_or(""))
}

fn usual_kernel() -> Vec<String> {
    vec![USUAL.to_string()]
}

fn yes() -> bool {
    true
}

fn half_a_gib() -> u32 {
    512
}

fn five_minutes() -> u64 {
    300
}

/// The requirements on a boot: everything that cannot change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The board.
    pub board: Board,
    /// How the driver finds the GPU.
    pub binding: Binding,
    /// Whether KUnit suites run when the module loads.
    pub kunit: bool,
    /// More kernel arguments.
    pub append: String,
    /// An extra overlay for the board's device tree, or empty.
    pub tree: String,
    /// Whether etnaviv's modules are in the guest.
    pub etnaviv: bool,
    /// Whether Mesa is in the guest, with etnaviv's modules.
    pub mesa: bool,
    /// The kernel; empty means the usual one.
    pub kernel: String,
    /// Number of processors.
    pub smp: u32,
    /// RAM in MiB.
    pub memory: u32,
}

impl Needs {
    /// A short description for messages.
    pub fn describe(&self) -> String {
        let mut words = vec![
            self.board.name().to_string(),
            self.binding.name().to_string(),
        ];
        if self.smp != self.board.processors() && self.kernel != QUICK {
            words.push(format!("{} cpus", self.smp));
        }
        if self.memory != half_a_gib() {
            words.push(format!("{} MiB", self.memory));
        }
        if self.etnaviv {
            words.push("with etnaviv".to_string());
        }
        if self.mesa {
            words.push("with Mesa".to_string());
        }
        let more = [&self.tree, &self.kernel, &self.append];
        words.extend(more.map(|s| s.to_string()));
        words.retain(|word| !word.is_empty());
        words.join(" ")
    }

    /// The description of a suite in such a boot.
    pub fn describe_with(&self, module: &Module) -> String {
        let mut words = vec![self.describe()];
        if module.drm {
            words.push("with DRM".to_string());
        }
        if !module.load {
            words.push("loads itself".to_string());
        }
        if !module.parameters.is_empty() {
            words.push(module.parameters.clone());
        }
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
    /// Time limit.
    pub limit: Duration,
    /// Files it must leave in its work folder.
    pub leaves: Vec<String>,
    /// Other programs that it starts. They are in the same folder.
    pub with: Vec<String>,
    /// The module's state when it starts.
    pub module: Module,
}

/// Suites that share a boot.
#[derive(Debug, Clone)]
pub struct Group {
    /// The requirements on the boot.
    pub needs: Needs,
    /// Whether no other suite may share the boot.
    pub alone: bool,
    /// The KUnit suite of the boot.
    pub kunit: Option<String>,
    /// The programs of the boot.
    pub steps: Vec<Step>,
}

impl Table {
    /// Reads the table. With `soak`, keeps only the suites of `soak`, with their settings there.
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
        self.quick = true;
        self
    }

    fn soak(mut self) -> Table {
        self.host.clear();
        self.kunit.clear();
        self.guest.retain(GuestSuite::soaks);
        for suite in &mut self.guest {
            if let Some(soak) = &suite.soak {
                suite.args = soak.args.clone();
                suite.timeout = soak.timeout;
            }
            suite.boards.append(&mut suite.soak_boards);
            suite.kernels.append(&mut suite.soak_kernels);
        }
        self
    }

    fn names(&self) -> Vec<&str> {
        let host = self.host.iter().map(|suite| suite.name.as_str());
        let kunit = self.kunit.iter().map(|suite| suite.name.as_str());
        let guest = self.guest.iter().map(|suite| suite.name.as_str());
        host.chain(kunit).chain(guest).collect()
    }

    /// Selects the suites whose names begin with one of `wanted`. An empty list selects all.
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

    /// Adapts the suites to a run on kernel `chosen`. If it is not the default, every suite that it supports runs on
    /// it alone.
    pub fn on_kernel(mut self, chosen: &str) -> Table {
        if chosen == DEFAULT {
            return self;
        }
        self.quick = false;
        for suite in &mut self.guest {
            let mut kernels = suite.kernels.iter().chain(&suite.soak_kernels);
            let runs = kernels.any(|name| {
                [USUAL, DEFAULT, QUICK, chosen].contains(&name.as_str())
                    || of_debian(name).is_some_and(|kind| of_debian(chosen) == Some(kind))
            });
            suite.kernels = if runs { usual_kernel() } else { Vec::new() };
        }
        self.guest.retain(|suite| !suite.kernels.is_empty());
        self
    }

    /// The kernels other than the usual one that the suites need.
    pub fn kernels(&self) -> BTreeSet<&str> {
        let places = self.guest.iter().flat_map(|suite| suite.places(self.quick));
        let kernels = places.map(|(kernel, _)| kernel);
        kernels.filter(|kernel| !kernel.is_empty()).collect()
    }

    /// Whether a suite needs Mesa.
    pub fn wants_mesa(&self) -> bool {
        self.guest.iter().any(|suite| suite.mesa)
    }

    /// Whether a suite needs that file in its folder.
    pub fn wants_beside(&self, file: &str) -> bool {
        let mut files = self.guest.iter().flat_map(|suite| &suite.with);
        files.any(|wanted| wanted == file)
    }

    /// Replaces the arguments of all guest suites.
    pub fn with_arguments(mut self, arguments: &[String]) -> Table {
        for suite in &mut self.guest {
            suite.args = arguments.to_vec();
        }
        self
    }

    /// Number of steps of a run, for the progress display.
    pub fn steps(&self) -> usize {
        let guest = self
            .guest
            .iter()
            .map(|suite| suite.boards.len() * suite.bindings.len() * suite.kernels.len());
        self.host.len() + self.kunit.len() + guest.sum::<usize>()
    }

    /// Keeps only the suites of that board.
    pub fn on_board(mut self, board: Board) -> Result<Table> {
        self.host.clear();
        self.kunit.retain(|suite| suite.board == board);
        let names = self.guest.iter().map(|suite| suite.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        self.guest
            .retain(|suite| suite.boards.contains(&board) || suite.soak_boards.contains(&board));
        for suite in &mut self.guest {
            suite.boards = vec![board];
        }
        if self.guest.is_empty() && self.kunit.is_empty() {
            bail!("none of these runs on {}: {names}", board.name());
        }
        Ok(self)
    }

    /// Reduces each guest suite to one run: its first board, kernel, and binding. If `wanted` contains the full name
    /// of a suite, other suites that begin with it are dropped.
    pub fn once(mut self, wanted: &[String]) -> Table {
        let names: BTreeSet<String> = self.names().into_iter().map(str::to_string).collect();
        let is_wanted = |name: &str| {
            wanted.is_empty()
                || wanted.iter().any(|want| {
                    if names.contains(want) {
                        name == want
                    } else {
                        name.starts_with(want)
                    }
                })
        };
        self.host.retain(|suite| is_wanted(&suite.name));
        self.kunit.retain(|suite| is_wanted(&suite.name));
        self.guest.retain(|suite| is_wanted(&suite.name));
        for suite in &mut self.guest {
            suite.boards.truncate(1);
            suite.kernels.truncate(1);
            suite.bindings.truncate(1);
        }
        self
    }

    /// The boots of a run. Suites with equal requirements share a boot, up to the number of steps that fits. KUnit
    /// has its own boots, because every load of the module runs its suites there.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = self
            .kunit
            .iter()
            .map(|suite| Group {
                needs: Needs {
                    board: suite.board,
                    binding: suite.binding,
                    kunit: true,
                    append: String::new(),
                    tree: String::new(),
                    etnaviv: false,
                    mesa: false,
                    kernel: String::new(),
                    smp: suite.board.processors(),
                    memory: half_a_gib(),
                },
                alone: true,
                kunit: Some(suite.name.clone()),
                steps: Vec::new(),
            })
            .collect();
        for suite in &self.guest {
            for (kernel, &board) in suite.places(self.quick) {
                for &binding in &suite.bindings {
                    let needs = Needs {
                        board,
                        binding,
                        kunit: false,
                        append: suite.append.clone(),
                        tree: suite.tree.clone(),
                        etnaviv: suite.etnaviv,
                        mesa: suite.mesa,
                        kernel: kernel.to_string(),
                        smp: match kernel {
                            QUICK => 1,
                            _ => suite.smp.unwrap_or(board.processors()),
                        },
                        memory: suite.memory,
                    };
                    let step = Step {
                        name: suite.name.clone(),
                        program: suite.program.clone(),
                        args: suite.args.clone(),
                        limit: Duration::from_secs(suite.timeout),
                        leaves: suite.leaves.clone(),
                        with: suite.with.clone(),
                        module: Module {
                            load: suite.load,
                            drm: suite.drm,
                            parameters: suite.insmod.clone(),
                        },
                    };
                    add(&mut groups, needs, step, suite.alone);
                }
            }
        }
        groups.into_iter().flat_map(parts).collect()
    }
}

/// Maximum number of steps of one boot. Their programs are about 2 MiB each and are unpacked into half of the guest's
/// RAM.
const MOST_STEPS: usize = 28;

/// Adds a step to the group with these requirements.
fn add(groups: &mut Vec<Group>, needs: Needs, step: Step, alone: bool) {
    let shared = |group: &&mut Group| !alone && !group.alone && group.needs == needs;
    match groups.iter_mut().find(shared) {
        Some(group) => group.steps.push(step),
        None => groups.push(Group {
            needs,
            alone,
            kunit: None,
            steps: vec![step],
        }),
    }
}

/// Orders the steps of a group to reload the module rarely, and splits the group into boots of limited size.
fn parts(mut group: Group) -> Vec<Group> {
    if group.steps.is_empty() {
        return vec![group];
    }
    let mut modules: Vec<Module> = Vec::new();
    for step in &group.steps {
        if !modules.contains(&step.module) {
            modules.push(step.module.clone());
        }
    }
    // Steps that load the module themselves may leave it in any state, and DRM stays loaded; so both come last.
    group.steps.sort_by_key(|step| {
        let position = modules.iter().position(|module| *module == step.module);
        (step.module.drm, !step.module.load, position)
    });
    let boots = group.steps.len().div_ceil(MOST_STEPS);
    let most = group.steps.len().div_ceil(boots);
    let parts = group.steps.chunks(most).map(|steps| Group {
        steps: steps.to_vec(),
        ..group.clone()
    });
    parts.collect()
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
name = "buffers"
program = "buffers"
boards = ["dove"]
insmod = "bankSize=1"

[[guest]]
name = "node"
program = "node"
boards = ["dove"]
drm = true

[[guest]]
name = "mmap"
program = "mmap"
boards = ["dove"]

[[guest]]
name = "late"
program = "late"
boards = ["dove"]
alone = true

[[guest]]
name = "endless"
program = "endless"
boards = ["dove"]
soak_only = true

[[guest]]
name = "wide"
program = "wide"
args = ["--usual"]
boards = ["dove"]
soak_boards = ["gc320"]
"#;

    fn names(table: &Table) -> Vec<&str> {
        table.names()
    }

    #[test]
    fn the_real_table_can_be_read() {
        Table::load(false).unwrap();
        Table::load(true).unwrap();
    }

    /// A boot costs about ten seconds of both processors, and `make test` has no time for more boots than this. Three
    /// of them use a real board's machine, and two more have memory above 4 GiB.
    /// machine, and two more have memory above 4 GiB.
    const MOST_BOOTS: usize = 45;

    #[test]
    fn few_boots_are_made() {
        let boots = Table::load(false).unwrap().groups().len();
        assert!(boots <= MOST_BOOTS, "{boots} boots");
    }

    #[test]
    fn a_suite_runs_once_where_it_is_wanted() {
        let table = Table::parse(TABLE).unwrap().ordinary();
        let signals = table.clone().select(&["signals".to_string()]).unwrap();
        assert_eq!(signals.clone().once(&[]).steps(), 1);
        let wanted = ["late".to_string(), "mem".to_string()];
        assert_eq!(names(&table.clone().once(&wanted)), ["memory", "late"]);
        let there = signals.on_board(Board::Imx6q).unwrap();
        assert_eq!(there.steps(), 2);
        assert_eq!(there.groups()[0].needs.board, Board::Imx6q);
        let error = table
            .select(&["memory".to_string()])
            .unwrap()
            .on_board(Board::Imx6q);
        assert!(error.unwrap_err().to_string().contains("memory"));
    }

    #[test]
    fn suites_with_the_same_needs_share_a_boot() {
        let table = Table::parse(TABLE).unwrap().ordinary();
        let groups = table.groups();
        assert_eq!(groups.len(), 6);
        assert!(groups[0].needs.kunit);
        let shared = &groups[1];
        assert_eq!(shared.needs.describe(), "dove dt armv7-quick");
        assert_eq!(shared.needs.smp, 1);
        let checked = |group: &&Group| group.needs.board == Board::Imx6q;
        let checked = groups.iter().find(checked).unwrap();
        assert_eq!((&*checked.needs.kernel, checked.needs.smp), ("", 2));
        assert!(table.kernels().contains(QUICK));
        let soak = Table::parse(TABLE).unwrap().soak();
        assert!(soak.kernels().is_empty());
        let steps: Vec<&str> = shared.steps.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            steps,
            ["signals", "memory", "mmap", "wide", "buffers", "reload", "node"]
        );
        let place = |step: &Step| shared.needs.describe_with(&step.module);
        assert_eq!(place(&shared.steps[4]), "dove dt armv7-quick bankSize=1");
        assert_eq!(place(&shared.steps[5]), "dove dt armv7-quick loads itself");
        assert_eq!(place(&shared.steps[6]), "dove dt armv7-quick with DRM");
        assert!(groups.iter().any(|group| group.alone && !group.needs.kunit));
        assert_eq!(table.steps(), 13);
    }

    #[test]
    fn a_boot_has_no_more_programs_than_fit() {
        let one = |n| {
            format!("[[guest]]\nname = \"one-{n}\"\nprogram = \"memory\"\nboards = [\"dove\"]\n")
        };
        let more: String = (0..MOST_STEPS).map(one).collect();
        let table = Table::parse(&format!("{TABLE}{more}")).unwrap().ordinary();
        let steps: Vec<usize> = table
            .groups()
            .iter()
            .filter(|group| group.needs.describe() == "dove dt armv7-quick" && !group.alone)
            .map(|group| group.steps.len())
            .collect();
        // The parts are of almost equal size.
        let first = (MOST_STEPS + 7).div_ceil(2);
        assert_eq!(steps, [first, MOST_STEPS + 7 - first]);
    }

    #[test]
    fn soak_takes_its_own_suites_and_parameters() {
        let table = Table::parse(TABLE).unwrap().soak();
        assert_eq!(names(&table), ["memory", "endless", "wide"]);
        assert_eq!(table.guest[0].args, ["--rounds", "9"]);
        assert_eq!(table.guest[0].timeout, 900);
        let wide = &table.guest[2];
        assert_eq!((wide.boards.len(), &*wide.args[0]), (2, "--usual"));
    }

    #[test]
    fn kernels_of_debians_stand_for_each_other() {
        for (chosen, runs) in [
            ("armv7", true),
            ("debian", true),
            ("debian-forky", true),
            ("imx6", true),
            ("debian-lpae", false),
            ("debian-forky-arm64", false),
            ("arm64", false),
        ] {
            let table =
                "[[guest]]\nname = \"one\"\nprogram = \"memory\"\nboards = [\"sabrelite\"]\n\
                kernels = [\"debian-trixie-backports\"]\nsoak_kernels = [\"imx6\"]\n";
            let table = Table::parse(table).unwrap().on_kernel(chosen);
            assert_eq!(table.steps() > 0, runs, "{chosen}");
        }
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
