// SPDX-License-Identifier: GPL-2.0-only
//! One boot of the virtual board: its inputs and its results.
//!
//! The GPU model and QEMU run as processes. The guest's `/init` reports its progress on virtio-serial ports. [`boot`]
//! starts the processes, watches them, and ends them.

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

/// The programs and files of a boot.
#[derive(Debug, Clone)]
pub struct Assets {
    /// QEMU for this processor.
    pub qemu: PathBuf,
    /// The processor that the kernel is built for.
    pub processor: Processor,
    /// The software GPU's program.
    pub gpu_model: PathBuf,
    /// The kernel image.
    pub kernel: PathBuf,
    /// `galcore.ko`.
    pub module: Option<PathBuf>,
    /// A static busybox for the guest.
    pub busybox: PathBuf,
    /// The folder with the project's own guest programs.
    pub programs: PathBuf,
    /// Folder for files that are kept between runs.
    pub cache: PathBuf,
}

/// A program to run in the guest.
#[derive(Debug, Clone)]
pub struct Task {
    /// Command and arguments, as seen in the guest.
    pub command: Vec<String>,
    /// Time limit.
    pub limit: Duration,
    /// Folder on the host for the files from its work folder.
    pub files_to: PathBuf,
    /// The state of the module when the program starts. `None`: the state that earlier programs left.
    pub module: Option<Module>,
}

/// The state of the module when a program starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Module {
    /// Whether the board loads the module. Otherwise the program does.
    pub load: bool,
    /// Whether the kernel's DRM is loaded before the module.
    pub drm: bool,
    /// Parameters to load it with; `extra` of [`crate::boards::module_parameters`].
    pub parameters: String,
}

/// Work for the guest.
#[derive(Debug, Clone)]
pub enum Work {
    /// Run these programs, one after another.
    Programs(Vec<Task>),
    /// Run a shell on a terminal of this many rows and columns. Its files go to the folder.
    Shell(u16, u16, PathBuf),
}

/// Description of a boot.
#[derive(Debug, Clone)]
pub struct Boot {
    /// GPU and device tree variant.
    pub board: Board,
    /// Device tree node or parameters.
    pub binding: Binding,
    /// Number of processors.
    pub smp: u32,
    /// RAM in MiB.
    pub memory: u32,
    /// More kernel arguments.
    pub append: String,
    /// An extra overlay for the board's device tree (see [`crate::boards::extra_overlay`]), or empty.
    pub tree: String,
    /// The real board's tree, by name or path. Empty: the default of [`Board::real`], if there is one.
    pub dtb: String,
    /// Whether KUnit suites run when the module loads.
    pub kunit: bool,
    /// Seed for the GPU model's random choices.
    pub seed: Option<u64>,
    /// Whether guest time counts instructions, one nanosecond each, so that tests can count them.
    pub icount: bool,
    /// Whether the GPU model logs every command and register access.
    pub trace: bool,
    /// Socket of QEMU's monitor.
    pub monitor: Option<PathBuf>,
    /// Parameters to load the module with; `extra` of [`crate::boards::module_parameters`].
    pub insmod: String,
    /// Whether the board loads the module. Otherwise the programs do.
    pub load: bool,
    /// Whether the kernel's DRM is loaded before the module.
    pub drm: bool,
    /// Files that are copied to the guest.
    pub files: Vec<GuestFile>,
    /// The work.
    pub work: Work,
    /// Folder for kernel.log, gpu.json and gpu-model.log.
    pub out: PathBuf,
}

/// How a boot ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Normally.
    Done,
    /// The guest could not continue, with its message.
    GuestFailed(String),
    /// The kernel panicked.
    Panicked,
    /// A wait timed out, with the event that it waited for.
    Hung(String),
    /// The GPU model ended, with its status and last output.
    ModelDied(String),
    /// QEMU ended, with its status and last output.
    QemuDied(String),
    /// The runner received this signal.
    Interrupted(usize),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Done => write!(f, "done"),
            End::GuestFailed(reason) => write!(f, "the guest could not go on: {reason}"),
            End::Panicked => write!(f, "the kernel panicked"),
            End::Hung(what) => write!(f, "the guest hangs: timeout waiting for {what}"),
            End::ModelDied(how) => write!(f, "the GPU model died: {how}"),
            End::QemuDied(how) => write!(f, "QEMU ended early: {how}"),
            End::Interrupted(signal) => write!(f, "interrupted by signal {signal}"),
        }
    }
}

/// The result of a program.
#[derive(Debug, Clone, Default)]
pub struct TaskOutcome {
    /// Whether it was started.
    pub started: bool,
    /// Its exit status, or 128 + signal if a signal killed it.
    pub status: Option<i32>,
    /// Whether it was killed because of its time limit.
    pub late: bool,
    /// Its stdout.
    pub stdout: Vec<u8>,
    /// Its stderr.
    pub stderr: Vec<u8>,
    /// Why it could not start, as the guest reports it.
    pub refused: Option<String>,
    /// Its run time.
    pub time: Duration,
    /// Host processor time of the board in this time, summed over all processors.
    pub processor_time: Duration,
}

impl TaskOutcome {
    /// Whether the program was running, or the module was being loaded for it, when the board ended.
    pub fn did_not_end(&self) -> bool {
        self.started && self.status.is_none() && self.refused.is_none()
    }
}

/// A violation of the hardware's rules that the GPU model saw.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Violation {
    /// The rule.
    pub kind: String,
    /// Details.
    #[serde(default)]
    pub detail: String,
}

/// The part of the GPU model's report that the runner reads.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Report {
    /// Violations, which real silicon would not tolerate.
    #[serde(default)]
    pub violations: Vec<Violation>,
}

impl Report {
    /// The report of the board, combined from its cores' reports. `None` if a core's report is missing and the others
    /// have no violation. Violations of a core other than the first name the core.
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

/// The result of a boot.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The programs, in order.
    pub tasks: Vec<TaskOutcome>,
    /// The kernel log.
    pub log: String,
    /// Kernel messages that must not occur.
    pub findings: Vec<Finding>,
    /// The GPU model's report.
    pub report: Option<Report>,
    /// Time from the start of the processes to `/init`; 0 if the guest did not reach it.
    pub boot_time: Duration,
    /// Time from the start of the processes to their end.
    pub total_time: Duration,
    /// Host processor time of the processes, summed over all processors.
    pub processor_time: Duration,
    /// Violations in the model's log, each with the program that was running.
    pub said: Vec<(Option<usize>, String)>,
}

impl Outcome {
    /// Whether the kernel hung without an error message before it ran any code of this project.
    pub fn hung_before_init(&self) -> bool {
        let hung = matches!(self.end, End::Hung(_)) && self.boot_time.is_zero();
        hung && self.findings.is_empty() && self.violations().is_empty()
    }

    /// The violations that the model reported.
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

/// Observer of a boot.
pub trait Watcher {
    /// A host program is about to start.
    fn starts(&mut self, _program: &Path, _arguments: &[String]) {}
    /// Output of a program, in pieces.
    fn output(&mut self, _task: usize, _stream: Stream, _bytes: &[u8]) {}
    /// A program starts.
    fn started(&mut self, _task: usize) {}
    /// A program has ended. Its output may not be complete yet.
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
