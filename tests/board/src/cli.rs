// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::fs;
use std::path::PathBuf;

use anyhow::bail;
use anyhow::Result;
use clap::Args;
use clap::Parser;
use clap::Subcommand;

use crate::boards::Binding;
use crate::boards::Board;
use crate::initramfs::GuestFile;
use crate::machine::Assets;
use crate::process;
use crate::processor::Processor;

/// The virtual board: boots Linux with galcore.ko on a software GPU in QEMU, and runs programs and tests on it.
#[derive(Debug, Parser)]
#[command(name = "board", bin_name = "scripts/board", max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// Paths of the board's parts.
    #[command(flatten)]
    pub tools: Tools,
}

/// The runner's commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a static armhf program on the board.
    ///
    /// The program starts in an empty folder. Files that it leaves there are copied to DIR. Exit status: the
    /// program's own (128 + signal if killed); 70 the kernel reported an error or the GPU model saw a violation of
    /// the hardware's rules; 71 the GPU model died; 72 time limit; 73 the board did not come up or the module did not
    /// load; 69 no boot was possible; 64 wrong usage.
    Run(RunArgs),
    /// Run a shell on the board.
    ///
    /// Ctrl-A x ends the board at once, Ctrl-A a sends a Ctrl-A. The board powers off when the shell exits.
    Shell(ShellArgs),
    /// Draw the demonstration's picture and print its path.
    Demo(DemoArgs),
    /// Run tests: all, or the named suites.
    Test(TestArgs),
    /// Run the suites that take hours, with their long parameters.
    Soak(TestArgs),
    /// Run a program and draw a timeline of the GPU: cores, processes, jobs, and waits.
    ///
    /// Writes DIR/timeline.svg, DIR/timeline.pftrace for Perfetto, and DIR/trace.txt with the kernel's trace, and
    /// prints the jobs with the longest delays and their causes. With --from, it uses a trace recorded on a real
    /// board. Exit status: as for `run`.
    Timeline(TimelineArgs),
    /// Run a program and show its use of the GPU: gctop's reports, on stderr.
    ///
    /// Exit status: as for `run`.
    Top(TopArgs),
    /// Draw the demonstration's picture with the kernel's device tree of each real board, on QEMU's machine for its
    /// SoC.
    ///
    /// Writes DIR/trees.md with the cores, the picture, and the reasons for refused cores. A tree without a core is
    /// tried again without the supplies of the SoC's regulators, as they come from a PMIC that QEMU lacks. Exit
    /// status: 1 if the kernel or the GPU model reported an error, or pixels differ.
    Trees(TreesArgs),
    /// Measure the cost of the driver's operations in instructions and register accesses.
    ///
    /// Prints a table and writes the results to DIR/bench/bench.json. Exit status: 1 if runs differ by more than 1%,
    /// else as for `run`.
    Bench(BenchArgs),
    /// Show the instructions of an operation of `bench` by function.
    ///
    /// Numbers are per system call and include the idle loop and interrupts.
    Profile(ProfileArgs),
}

/// Paths of the board's parts. scripts/board sets all of them.
#[derive(Debug, Args)]
pub struct Tools {
    /// The checkout.
    #[arg(
        long,
        env = "GALCORE_TOP",
        default_value = ".",
        hide = true,
        global = true
    )]
    pub top: PathBuf,
    /// The kernel: armv7 (the project's own), debian, debian-lpae, debian-SUITE, ... (see scripts/kernel), or the
    /// path of your own kernel: its build folder or its image.
    #[arg(
        long,
        env = "KERNEL",
        default_value = "armv7",
        value_name = "NAME",
        global = true
    )]
    pub kernel: String,
    /// Its image.
    #[arg(
        long,
        env = "GALCORE_KERNEL",
        default_value = "/nowhere",
        hide = true,
        global = true
    )]
    pub image: PathBuf,
    /// The folder where that kernel was built.
    #[arg(long, env = "GALCORE_KERNEL_BUILD", hide = true, global = true)]
    pub build: Option<PathBuf>,
    /// Other kernels with their modules: NAME=IMAGE=MODULE, separated by spaces.
    #[arg(
        long,
        env = "GALCORE_KERNELS",
        default_value = "",
        hide = true,
        global = true
    )]
    pub kernels: String,
    /// Set if the kernel has no KUnit.
    #[arg(long, env = "GALCORE_NO_KUNIT", hide = true, global = true)]
    pub no_kunit: Option<String>,
    /// galcore.ko.
    #[arg(long, env = "GALCORE_MODULE", hide = true, global = true)]
    pub module: Option<PathBuf>,
    /// The software GPU.
    #[arg(
        long,
        env = "GALCORE_GPU_MODEL",
        default_value = "gpu-model",
        hide = true,
        global = true
    )]
    pub gpu_model: String,
    /// QEMU [default: the one that emulates the kernel's processor].
    #[arg(long, env = "GALCORE_QEMU", hide = true, global = true)]
    pub qemu: Option<String>,
    /// A static armhf busybox.
    #[arg(
        long,
        env = "GALCORE_BUSYBOX",
        default_value = "/usr/bin/busybox",
        hide = true,
        global = true
    )]
    pub busybox: PathBuf,
    /// The folder with the project's own guest programs.
    #[arg(
        long,
        env = "GALCORE_PROGRAMS",
        default_value = "/nowhere",
        hide = true,
        global = true
    )]
    pub programs: PathBuf,
    /// Mesa as downloaded by scripts/mesa.
    #[arg(long, env = "GALCORE_MESA", hide = true, global = true)]
    pub mesa_folder: Option<PathBuf>,
    /// The folder for files that are kept between runs.
    #[arg(
        long,
        env = "GALCORE_BOARD_CACHE",
        default_value = "/tmp/galcore-board",
        hide = true,
        global = true
    )]
    pub cache: PathBuf,
}

impl Tools {
    /// Image and module of another kernel.
    fn other_kernel(&self, name: &str) -> Option<(&str, &str)> {
        self.kernels.split_whitespace().find_map(|entry| {
            let (kernel, files) = entry.split_once('=')?;
            files.split_once('=').filter(|_| kernel == name)
        })
    }

    /// Whether there is another kernel of that name.
    pub fn has_kernel(&self, name: &str) -> bool {
        self.other_kernel(name).is_some()
    }

    /// `assets` with another kernel and its module.
    pub fn with_kernel(&self, assets: &Assets, name: &str) -> Result<Assets> {
        let Some((kernel, module)) = self.other_kernel(name) else {
            bail!("there is no kernel '{name}': start the board by scripts/board, which makes it");
        };
        let kernel = PathBuf::from(kernel);
        let processor = Processor::of_kernel(&kernel)?;
        Ok(Assets {
            qemu: self.qemu(processor)?,
            processor,
            kernel,
            module: Some(PathBuf::from(module)),
            ..assets.clone()
        })
    }

    /// Whether the user gave a path to a kernel.
    pub fn has_own_kernel(&self) -> bool {
        self.kernel.contains('/')
    }

    /// Whether the usual kernel has `option` in its configuration.
    pub fn kernel_has(&self, option: &str) -> bool {
        let config = self.build.as_ref().map(|build| build.join(".config"));
        let text = config.and_then(|config| fs::read_to_string(config).ok());
        text.is_some_and(|text| text.lines().any(|line| line == format!("{option}=y")))
    }

    /// The processor of the usual kernel.
    pub fn processor(&self) -> Result<Processor> {
        Processor::of_kernel(&self.image)
    }

    fn qemu(&self, processor: Processor) -> Result<PathBuf> {
        program(self.qemu.as_deref().unwrap_or(processor.qemu()))
    }

    /// The parts of a boot, with galcore.ko if `module` is true.
    pub fn assets(&self, module: bool) -> Result<Assets> {
        let file = |path: &PathBuf, what: &str| {
            if path.is_file() {
                Ok(path.clone())
            } else {
                bail!(
                    "{what} is not at '{}': start the board by scripts/board, which makes it",
                    path.display()
                )
            }
        };
        let module = match (&self.module, module) {
            (Some(path), true) => Some(file(path, "galcore.ko")?),
            // A kernel without Rust cannot have the module.
            (None, true) if self.has_own_kernel() => None,
            (None, true) => bail!("no galcore.ko is named (GALCORE_MODULE): scripts/board does it"),
            (_, false) => None,
        };
        let processor = self.processor()?;
        crate::initramfs::check_program(&file(&self.busybox, "busybox")?, processor, false)?;
        Ok(Assets {
            qemu: self.qemu(processor)?,
            processor,
            gpu_model: program(&self.gpu_model)?,
            kernel: file(&self.image, "the kernel")?,
            module,
            busybox: self.busybox.clone(),
            programs: self.programs.clone(),
            cache: self.cache.clone(),
        })
    }
}

/// The path of a host program.
fn program(name: &str) -> Result<PathBuf> {
    match process::find(name) {
        Some(path) if path.is_file() => Ok(path),
        _ => bail!("{name} is missing: start the board by scripts/board, which brings it"),
    }
}

/// Properties of the board.
#[derive(Debug, Clone, Args)]
pub struct MachineArgs {
    /// GPU and device tree variant.
    #[arg(long, value_enum, default_value_t = Board::Dove)]
    pub board: Board,
    /// The driver finds the GPU in the device tree (default).
    #[arg(long, conflicts_with = "params")]
    pub dt: bool,
    /// The driver finds the GPU by module parameters only.
    #[arg(long)]
    pub params: bool,
    /// Number of processors.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    pub smp: u32,
    /// RAM in MiB; the last 128 of the first 1024 are the contiguous pool (64 with less than 384) [default: 512; 1024
    /// for a real board].
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(256..=8192))]
    pub memory: Option<u32>,
    /// Additional module parameters. They replace the board's own of the same name.
    #[arg(long, value_name = "K=V ...", allow_hyphen_values = true)]
    pub insmod: Vec<String>,
    /// Do not load the module.
    #[arg(long)]
    pub no_insmod: bool,
    /// Load the kernel's DRM before the module, if the kernel has DRM as modules. With --mesa, Mesa draws on
    /// galcore's node with etnaviv's interface (run).
    #[arg(long)]
    pub drm: bool,
    /// Additional kernel arguments.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Extra overlay for the board's device tree: a file of tests/board/dts, without ".dts".
    #[arg(long, value_name = "NAME", default_value = "")]
    pub tree: String,
    /// Device tree for a sabrelite, imx8mm-evk or imx8mp-evk: the name of a board's tree in the kernel
    /// (imx6q-cubox-i), or the path of a file. The name determines the SoC and its cores.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub dtb: String,
    /// Copy another file to the guest, to the path GUEST or to /files.
    #[arg(long = "file", value_name = "HOST[:GUEST]")]
    pub files: Vec<String>,
    /// Seed for the GPU model's random choices.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Make guest time count instructions; the processor's INST_RETIRED counter works.
    #[arg(long)]
    pub icount: bool,
    /// Make the GPU model write every command and register access to DIR/gpu.trace.
    #[arg(long)]
    pub trace: bool,
}

impl MachineArgs {
    /// How the driver finds the GPU.
    pub fn binding(&self) -> Binding {
        if self.params {
            Binding::Params
        } else {
            Binding::Dt
        }
    }

    /// The files given by `--file`.
    pub fn guest_files(&self) -> Result<Vec<GuestFile>> {
        self.files.iter().map(|text| guest_file(text)).collect()
    }
}

/// Parses HOST or HOST:GUEST.
fn guest_file(text: &str) -> Result<GuestFile> {
    if let Some((host, guest)) = text.split_once(":/") {
        return Ok(GuestFile {
            host: PathBuf::from(host),
            guest: format!("/{guest}"),
        });
    }
    let host = PathBuf::from(text);
    let Some(name) = host.file_name() else {
        bail!("--file {text}: HOST or HOST:/GUEST/PATH is wanted");
    };
    Ok(GuestFile {
        guest: format!("/files/{}", name.to_string_lossy()),
        host,
    })
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// The board.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Put Mesa into the guest, and let etnaviv drive the GPU instead of galcore.
    #[arg(long)]
    pub mesa: bool,
    /// The same with your own Mesa: a folder with its files at their paths in the guest (DESTDIR of 'meson install'),
    /// which replace Debian's; or a folder like those of scripts/mesa.
    #[arg(long, value_name = "DIR")]
    pub mesa_dir: Option<PathBuf>,
    /// Show the driver's lines of the kernel log after the program; without this, only if it failed.
    #[arg(long)]
    pub log: bool,
    /// Show the command lines of the software GPU and QEMU.
    #[arg(long)]
    pub print_command: bool,
    /// Time limit of the program in seconds.
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// Folder for the program's files, kernel.log and gpu.json [default: out/run].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print only the program's output, unless something is wrong.
    #[arg(long, short)]
    pub quiet: bool,
    /// The program, or a command of the guest's busybox, with its arguments.
    #[arg(required = true, last = true, value_name = "PROGRAM ARGS")]
    pub command: Vec<String>,
}

/// Arguments of `shell`.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// The board.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Folder for the files in /work/0, kernel.log and gpu.json [default: out/shell].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// GPU and device tree variant.
    #[arg(long, value_enum, default_value_t = Board::Imx6q)]
    pub board: Board,
    /// The driver finds the GPU in the device tree (default).
    #[arg(long, conflicts_with = "params")]
    pub dt: bool,
    /// The driver finds the GPU by module parameters only.
    #[arg(long)]
    pub params: bool,
    /// Folder for picture.png, turning.png, kernel.log and gpu.json [default: out/demo].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `trees`.
#[derive(Debug, Args)]
pub struct TreesArgs {
    /// The machine: sabrelite, imx8mm-evk or imx8mp-evk.
    #[arg(long, value_enum, default_value_t = Board::Sabrelite)]
    pub board: Board,
    /// Only list the trees.
    #[arg(long)]
    pub list: bool,
    /// Only every N-th tree.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = step)]
    pub every: usize,
    /// Number of parallel boots.
    #[arg(long, short, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub jobs: u8,
    /// Folder for the table and the logs [default: out/trees].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Trees, or prefixes of tree names.
    #[arg(value_name = "TREE")]
    pub names: Vec<String>,
}

/// A step other than 0.
fn step(text: &str) -> Result<usize> {
    let number: std::num::NonZeroUsize = text.parse()?;
    Ok(number.get())
}

/// Arguments of `timeline`.
#[derive(Debug, Args)]
pub struct TimelineArgs {
    /// The board.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Time limit of the program in seconds.
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// Do not boot: draw this trace, the text of /sys/kernel/tracing/trace or of `trace-cmd report`.
    #[arg(long, value_name = "TRACE", conflicts_with = "command")]
    pub from: Option<PathBuf>,
    /// Draw only this range: milliseconds from the first event.
    #[arg(long, value_name = "FROM-TO", value_parser = window)]
    pub window: Option<(f64, f64)>,
    /// Folder for the picture, the traces, the program's files, kernel.log and gpu.json [default: out/timeline].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The program, or a command of the guest's busybox, with its arguments.
    #[arg(
        required_unless_present = "from",
        last = true,
        value_name = "PROGRAM ARGS"
    )]
    pub command: Vec<String>,
}

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Seconds between two reports, from 0.05 to 3600.
    #[arg(long, short, default_value = "0.5", value_name = "SECONDS")]
    pub interval: String,
    /// All other arguments are those of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Parses FROM-TO, in milliseconds.
fn window(text: &str) -> Result<(f64, f64), String> {
    let parts = text.split_once('-').and_then(|(from, to)| {
        let (from, to): (f64, f64) = (from.parse().ok()?, to.parse().ok()?);
        (from >= 0.0 && from < to && to.is_finite()).then_some((from, to))
    });
    parts.ok_or_else(|| "FROM-TO is wanted, in milliseconds, like 12.5-40".to_string())
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// GPU and device tree variant.
    #[arg(long, value_enum, default_value_t = Board::Dove)]
    pub board: Board,
    /// Number of boots that count instructions; their results are compared.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub runs: u8,
    /// Skip the boot that measures wall time.
    #[arg(long)]
    pub no_wall: bool,
    /// Take a tenth of the samples.
    #[arg(long)]
    pub quick: bool,
    /// Fail if an operation costs over 2% more than its `now` value in tests/bench/targets.toml.
    #[arg(long)]
    pub guard: bool,
    /// Only operations whose names begin with NAME.
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// Module parameters, NAME=VALUE; may be given more than once.
    #[arg(long, value_name = "PARAMETERS")]
    pub insmod: Vec<String>,
    /// Folder for the results [default: out].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `profile`.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// GPU and device tree variant.
    #[arg(long, value_enum, default_value_t = Board::Dove)]
    pub board: Board,
    /// Number of functions to show.
    #[arg(long, default_value_t = 40, value_name = "N")]
    pub lines: usize,
    /// Show each instruction of the functions whose names contain NAME.
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// Folder for the results [default: out].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Operations whose names begin with this; `bench` lists them.
    pub operation: String,
}

/// Arguments of `test` and `soak`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Only list the suites.
    #[arg(long)]
    pub list: bool,
    /// Only print whether the suites need a board: for scripts/board.
    #[arg(long, hide = true)]
    pub needs: bool,
    /// Folder for logs and results [default: out].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Only suites that run on this board.
    #[arg(long, value_enum)]
    pub board: Option<Board>,
    /// Run each suite once: on its first board or that of --board, with its first kernel and binding. A full name
    /// selects only that suite. Failures are not repeated.
    #[arg(long)]
    pub once: bool,
    /// Use lockdep, and two processors where a board has them, as in soak. This uses the armv7 kernel everywhere.
    #[arg(long)]
    pub checked: bool,
    /// Number of parallel boots [default: two for each processor, at most 4].
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub jobs: Option<u8>,
    /// Suites, or prefixes of suite names.
    #[arg(value_name = "SUITE")]
    pub suites: Vec<String>,
    /// Arguments for the suites' programs, in place of their own.
    #[arg(last = true, value_name = "ARGS")]
    pub arguments: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_takes_what_the_issue_says() {
        let cli = Cli::try_parse_from([
            "board",
            "run",
            "--board",
            "imx6q",
            "--insmod",
            "a=1 b=2",
            "--params",
            "--timeout",
            "5",
            "--out",
            "dir",
            "--",
            "prog",
            "--flag",
            "x",
        ])
        .unwrap();
        let Command::Run(run) = cli.command else {
            panic!("not run");
        };
        assert_eq!(run.machine.board, Board::Imx6q);
        assert_eq!(run.machine.binding(), Binding::Params);
        assert_eq!(run.machine.insmod, ["a=1 b=2"]);
        assert_eq!(run.timeout, 5);
        assert_eq!(run.command, ["prog", "--flag", "x"]);
    }

    #[test]
    fn a_timeline_is_of_a_program_or_of_a_trace() {
        let parse = |words: &[&str]| {
            Cli::try_parse_from(["board", "timeline"].iter().chain(words)).map(|cli| cli.command)
        };
        let Ok(Command::Timeline(one)) = parse(&["--window", "1.5-20", "--", "prog"]) else {
            panic!("not a timeline");
        };
        assert_eq!((one.window, one.from), (Some((1.5, 20.0)), None));
        assert!(parse(&["--from", "trace.txt"]).is_ok());
        for wrong in [
            &[][..],
            &["--from", "x", "--", "prog"],
            &["--window", "5-5", "--", "prog"],
            &["--window", "1-inf", "--", "prog"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_program_is_watched_with_the_options_of_run() {
        let words = "board top --interval 0.2 --board imx6q --timeout 9 -- prog --once";
        let cli = Cli::try_parse_from(words.split(' ')).unwrap();
        let Command::Top(top) = cli.command else {
            panic!("not top");
        };
        assert_eq!((top.interval.as_str(), top.run.timeout), ("0.2", 9));
        assert_eq!(top.run.command, ["prog", "--once"]);
    }

    #[test]
    fn the_device_tree_is_the_default() {
        let cli = Cli::try_parse_from(["board", "run", "--", "prog"]).unwrap();
        let Command::Run(run) = cli.command else {
            panic!("not run");
        };
        assert_eq!(run.machine.binding(), Binding::Dt);
        assert!(Cli::try_parse_from(["board", "run", "--dt", "--params", "--", "p"]).is_err());
    }

    #[test]
    fn files_go_where_they_are_told() {
        assert_eq!(guest_file("a/b.txt").unwrap().guest, "/files/b.txt");
        let file = guest_file("a/b:/etc/c").unwrap();
        assert_eq!(file.host, PathBuf::from("a/b"));
        assert_eq!(file.guest, "/etc/c");
        assert!(guest_file("..").is_err());
    }
}
