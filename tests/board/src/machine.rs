// SPDX-License-Identifier: GPL-2.0-only
//! One boot of the virtual board: what goes in, what comes out.
//!
//! The GPU model and QEMU run as processes; the guest's `/init` tells what it
//! does on virtio-serial ports. [`boot`] starts all of it, watches, and ends it.

mod clock;
mod launch;
mod ports;
mod records;
mod run;

use std::fmt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use gpu_control::Board as Core;
use serde::Deserialize;

use crate::boards::Binding;
use crate::boards::Board;
use crate::initramfs::GuestFile;
use crate::kernel_log::Finding;
use crate::processor::Processor;

pub use run::boot;

/// The programs and files a boot is made of.
#[derive(Debug, Clone)]
pub struct Assets {
    /// QEMU with this processor.
    pub qemu: PathBuf,
    /// What the kernel is for.
    pub processor: Processor,
    /// The software GPU.
    pub gpu_model: PathBuf,
    /// Its image.
    pub kernel: PathBuf,
    /// `galcore.ko`.
    pub module: Option<PathBuf>,
    /// A static busybox for the guest.
    pub busybox: PathBuf,
    /// The folder with the project's own guest programs.
    pub programs: PathBuf,
    /// Folder for things worth keeping between runs.
    pub cache: PathBuf,
}

/// A program to run in the guest.
#[derive(Debug, Clone)]
pub struct Task {
    /// Command and arguments, as seen in the guest.
    pub command: Vec<String>,
    /// How long it may run.
    pub limit: Duration,
    /// Where the files go that it left in its work folder.
    pub files_to: PathBuf,
    /// What it finds of the module; none: what the programs before it left of the boot's.
    pub module: Option<Module>,
}

/// What a program finds of the module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Module {
    /// Whether it is loaded, or left to the program.
    pub load: bool,
    /// Whether the kernel's DRM is loaded before it.
    pub drm: bool,
    /// Parameters to load it with; `extra` of [`crate::boards::module_parameters`].
    pub parameters: String,
}

/// What to do once the guest is up.
#[derive(Debug, Clone)]
pub enum Work {
    /// Run these, one after another.
    Programs(Vec<Task>),
    /// A shell on the terminal: rows and columns; its files go to the folder.
    Shell(u16, u16, PathBuf),
}

/// A boot to be made.
#[derive(Debug, Clone)]
pub struct Boot {
    /// GPU personality and flavour of device tree.
    pub board: Board,
    /// Device tree node or parameters.
    pub binding: Binding,
    /// Number of processors.
    pub smp: u32,
    /// RAM in MiB.
    pub memory: u32,
    /// More kernel arguments.
    pub append: String,
    /// What is added to the board's device tree (see [`crate::boards::extra_overlay`]); empty: nothing.
    pub tree: String,
    /// The real board's tree, by name or path; empty: the usual one of [`Board::real`], or none.
    pub dtb: String,
    /// Whether KUnit suites run when the module is loaded.
    pub kunit: bool,
    /// Seed for the GPU model's random choices.
    pub seed: Option<u64>,
    /// Whether the guest's time counts instructions, a nanosecond each, so that they can be counted.
    pub icount: bool,
    /// Whether the GPU model writes down every command and register access.
    pub trace: bool,
    /// Where QEMU's monitor is to listen.
    pub monitor: Option<PathBuf>,
    /// Parameters to load the module with; `extra` of [`crate::boards::module_parameters`].
    pub insmod: String,
    /// Whether the board loads the module, or leaves it to the programs.
    pub load: bool,
    /// Whether the kernel's DRM is loaded before the module.
    pub drm: bool,
    /// Files to have in the guest.
    pub files: Vec<GuestFile>,
    /// What to do.
    pub work: Work,
    /// Folder for kernel.log, gpu.json and gpu-model.log.
    pub out: PathBuf,
}

/// How a boot came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// As planned.
    Done,
    /// The guest could not go on: its own words.
    GuestFailed(String),
    /// The kernel panicked.
    Panicked,
    /// What was waited for in vain.
    Hung(String),
    /// The GPU model is gone: how, and its last words.
    ModelDied(String),
    /// QEMU is gone: how, and its last words.
    QemuDied(String),
    /// By this signal to the runner.
    Interrupted(usize),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Done => write!(f, "done"),
            End::GuestFailed(reason) => write!(f, "the guest could not go on: {reason}"),
            End::Panicked => write!(f, "the kernel panicked"),
            End::Hung(what) => write!(f, "the guest hangs: waited in vain for {what}"),
            End::ModelDied(how) => write!(f, "the GPU model died: {how}"),
            End::QemuDied(how) => write!(f, "QEMU ended early: {how}"),
            End::Interrupted(signal) => write!(f, "interrupted by signal {signal}"),
        }
    }
}

/// What became of a program.
#[derive(Debug, Clone, Default)]
pub struct TaskOutcome {
    /// Whether it was started.
    pub started: bool,
    /// Its exit status, 128 + signal if it was killed.
    pub status: Option<i32>,
    /// Whether it was ended because its time was up.
    pub late: bool,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: Vec<u8>,
    /// Why it could not be started, in the guest's words.
    pub refused: Option<String>,
    /// How long it ran.
    pub time: Duration,
    /// How much of the host's processors the board took meanwhile, all of them together.
    pub processor_time: Duration,
}

impl TaskOutcome {
    /// Whether it ran, or the module was loaded for it, when the board came to its end.
    pub fn did_not_end(&self) -> bool {
        self.started && self.status.is_none() && self.refused.is_none()
    }
}

/// A breach of the hardware's rules that the GPU model saw.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Violation {
    /// Which rule.
    pub kind: String,
    /// What happened where.
    #[serde(default)]
    pub detail: String,
}

/// The GPU model's report, as far as it is read here.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Report {
    /// What real silicon would not have forgiven.
    #[serde(default)]
    pub violations: Vec<Violation>,
}

impl Report {
    /// The board's, out of its cores'; none if one is missing and the others have no violation. What is of another core than the first says so.
    fn of_board(cores: &[Core], reports: Vec<Option<Report>>) -> Option<Report> {
        let mut all = Report::default();
        let complete = reports.iter().all(Option::is_some);
        for (number, (core, report)) in cores.iter().zip(reports).enumerate() {
            for mut violation in report.unwrap_or_default().violations {
                if number > 0 {
                    violation.detail = format!("{}: {}", core.name(), violation.detail);
                }
                all.violations.push(violation);
            }
        }
        (complete || !all.violations.is_empty()).then_some(all)
    }
}

/// What came of a boot.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The programs, in order.
    pub tasks: Vec<TaskOutcome>,
    /// The kernel log.
    pub log: String,
    /// What does not belong into the kernel log.
    pub findings: Vec<Finding>,
    /// The GPU model's report.
    pub report: Option<Report>,
    /// From the start of the processes to `/init`; 0: it was not reached.
    pub boot_time: Duration,
    /// From the start of the processes to their end.
    pub total_time: Duration,
    /// How much of the host's processors they took, all of them together.
    pub processor_time: Duration,
    /// The model's complaints as it said them, each with the program that ran.
    pub said: Vec<(Option<usize>, String)>,
}

impl Outcome {
    /// Whether the kernel hung, without a complaint, before it had anything of this project's.
    pub fn hung_before_init(&self) -> bool {
        let hung = matches!(self.end, End::Hung(_)) && self.boot_time.is_zero();
        hung && self.findings.is_empty() && self.violations().is_empty()
    }

    /// The model's complaints.
    pub fn violations(&self) -> &[Violation] {
        self.report.as_ref().map_or(&[], |r| &r.violations)
    }
}

/// One of a program's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// stdout
    Out,
    /// stderr
    Err,
}

/// Somebody who watches a boot.
pub trait Watcher {
    /// A program of the host is about to be started.
    fn starts(&mut self, _program: &Path, _arguments: &[String]) {}
    /// Output of a program, as it comes.
    fn output(&mut self, _task: usize, _stream: Stream, _bytes: &[u8]) {}
    /// A program starts.
    fn started(&mut self, _task: usize) {}
    /// A program has ended; its output may not be complete yet.
    fn ended(&mut self, _task: usize, _outcome: &TaskOutcome) {}
    /// Output of the guest's shell.
    fn terminal(&mut self, _bytes: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_all_cores_are_the_boards() {
        let report = |detail: &str| {
            let violation = Violation {
                kind: "bus-error".to_string(),
                detail: detail.to_string(),
            };
            Some(Report {
                violations: vec![violation],
            })
        };
        let cores = [Core::Gc2000, Core::Gc320];
        let all = Report::of_board(&cores, vec![report("one"), report("two")]).unwrap();
        let details: Vec<_> = all.violations.iter().map(|v| v.detail.as_str()).collect();
        assert_eq!(details, ["one", "gc320: two"]);
        assert!(Report::of_board(&cores, vec![report("one"), None]).is_some());
        let clean = Some(Report::default());
        assert!(Report::of_board(&cores, vec![clean.clone(), None]).is_none());
        assert!(Report::of_board(&cores, vec![clean.clone(), clean]).is_some());
    }
}
