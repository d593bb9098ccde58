// SPDX-License-Identifier: GPL-2.0-only
//! The main loop of a boot: handles the guest's messages and detects failures.

use std::fs;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use super::clock::Clock;
use super::launch;
use super::ports;
use super::ports::Event;
use super::ports::Port;
use super::ports::PortWriter;
use super::records::Archives;
use super::records::KernelLog;
use super::records::ModelLog;
use super::records::ProgramOutput;
use super::Assets;
use super::Boot;
use super::End;
use super::Outcome;
use super::Report;
use super::Stream;
use super::TaskOutcome;
use super::Violation;
use super::Watcher;
use super::Work;
use crate::kernel_log;
use crate::keyboard::Keyboard;
use crate::process;
use crate::process::Process;
use crate::signals::Signals;
use crate::soc;
use crate::streams::Lines;

// Time limits of the parts of a boot, by the board's clock. An idle PC needs some seconds for all of it; the limits
// are for a slow one.
const MODEL_LIMIT: Duration = Duration::from_secs(10);
const BOOT_LIMIT: Duration = Duration::from_secs(180);
const LOAD_LIMIT: Duration = Duration::from_secs(180);
const STEP_LIMIT: Duration = Duration::from_secs(60);
const PANIC_LIMIT: Duration = Duration::from_secs(5);
/// Time for the guest to kill a program that exceeded its time limit.
const GRACE: Duration = Duration::from_secs(10);

/// Poll interval for processes, signals, and deadlines.
const TICK: Duration = Duration::from_millis(20);
/// Time that QEMU may run on without its GPU model. At power off, both end together.
const ORPHAN_LIMIT: Duration = Duration::from_millis(500);
/// Time limit for the last output of QEMU after it has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// Time limit for the GPU model's report.
const REPORT_LIMIT: Duration = Duration::from_secs(5);
/// Maximum delay of the kernel log's last line after the control port's.
const LOG_LAG: Duration = Duration::from_secs(2);
/// Maximum output kept per program and stream, in bytes.
const MOST_OUTPUT: usize = 16 << 20;
/// A warning that QEMU always prints for a vfio-user device.
const HARMLESS: &str = "Could not enable error recovery";
/// The GPU model's exit status after a violation of the hardware's rules.
const MODEL_VIOLATIONS: i32 = 3;

/// Boots, does the work, and ends all processes. Returns an error only if the boot could not start. Later failures
/// are in the outcome's `end`.
pub fn boot(
    assets: &Assets,
    boot: &Boot,
    watcher: &mut dyn Watcher,
    signals: &Signals,
) -> Result<Outcome> {
    fs::create_dir_all(&boot.out)
        .with_context(|| format!("cannot make the folder {}", boot.out.display()))?;
    // Remove old reports so that they are not taken for new ones.
    for number in 0..gpu_control::PLACES.len() {
        let report = boot.out.join(launch::of_core("gpu", number, ".json"));
        if report.exists() {
            fs::remove_file(&report)
                .with_context(|| format!("cannot remove the old {}", report.display()))?;
        }
    }
    // TMPDIR may be too long: a socket's path has at most 107 bytes.
    let dir = tempfile::Builder::new()
        .prefix("galcore-")
        .tempdir_in("/tmp")
        .context("cannot make a folder in /tmp")?;
    let nonce = launch::nonce()?;
    let files = launch::prepare_files(assets, boot, dir.path(), &nonce)?;
    let (sender, receiver) = sync_channel(64);
    let stop = Arc::new(AtomicBool::new(false));
    let soc = match boot.board.soc() {
        Some(soc) => {
            ports::listen_to_all(dir.path(), sender.clone(), Arc::clone(&stop))?;
            Some((soc, soc::Sockets::new(dir.path())?))
        }
        None => {
            for port in Port::ALL {
                ports::listen(dir.path(), port, sender.clone(), Arc::clone(&stop))?;
            }
            None
        }
    };
    let model = launch::model_arguments(boot, dir.path());
    watcher.starts(&assets.gpu_model, &model);
    let model = launch::start_model(assets, &model, &sender)?;
    let mut clock = Clock::new();
    clock.add(model.id());
    let qemu = launch::qemu_arguments(assets, boot, dir.path(), &files);
    watcher.starts(&assets.qemu, &qemu);
    let mut run = Run {
        boot,
        watcher,
        signals,
        receiver,
        stop,
        model,
        model_gone: None,
        qemu: None,
        control: None,
        terminal: None,
        keyboard: Keyboard::default(),
        prompt: false,
        messages: Lines::default(),
        kernel: KernelLog::new(&boot.out.join("kernel.log"))?,
        model_log: ModelLog::new(&boot.out.join("gpu-model.log"))?,
        qemu_said: Vec::new(),
        stdout: ProgramOutput::new(&nonce),
        stderr: ProgramOutput::new(&nonce),
        archives: Archives::new(&dir.path().join("archives"))?,
        tasks: vec![TaskOutcome::default(); files_to(boot).len()],
        running: None,
        last: None,
        clock,
        deadline: Deadline::never(),
        failed: None,
        done: None,
        released: false,
        started: Instant::now(),
        boot_time: Duration::ZERO,
    };
    run.wait("the GPU model to listen", MODEL_LIMIT);
    run.wait_for_model()?;
    run.start_qemu(&assets.qemu, &qemu, &sender)?;
    if let Some(qemu) = &mut run.qemu {
        fs::write(dir.path().join(launch::MACHINE), qemu.id().to_string())?;
        if let Some((soc, sockets)) = soc {
            soc.set_up(boot, sockets, qemu)?;
        }
    }
    if matches!(boot.work, Work::Shell(..)) {
        process::forward(io::stdin(), sender.clone(), Event::Typed, Event::TypedEnd);
    }
    drop(sender);
    let end = run.until_the_end();
    run.tear_down(end?, dir.path())
}

/// Destination folders of the programs' files.
fn files_to(boot: &Boot) -> Vec<&Path> {
    match &boot.work {
        Work::Programs(tasks) => tasks.iter().map(|t| t.files_to.as_path()).collect(),
        Work::Shell(_, _, files_to) => vec![files_to.as_path()],
    }
}

/// The event that the main loop waits for, and the deadline by the board's clock.
struct Deadline {
    what: String,
    at: Option<Duration>,
}

impl Deadline {
    fn never() -> Deadline {
        Deadline {
            what: String::new(),
            at: None,
        }
    }
}

/// The running program.
struct Running {
    task: usize,
    since: Instant,
    /// The board's processor time before its start.
    before: Duration,
    /// Whether the runner asked the guest to kill it.
    is_late: bool,
}

struct Run<'a> {
    boot: &'a Boot,
    watcher: &'a mut dyn Watcher,
    signals: &'a Signals,
    receiver: Receiver<Event>,
    stop: Arc<AtomicBool>,
    model: Process,
    model_gone: Option<(Instant, ExitStatus)>,
    qemu: Option<Process>,
    control: Option<PortWriter>,
    terminal: Option<PortWriter>,
    keyboard: Keyboard,
    /// Whether the guest's shell has printed something.
    prompt: bool,
    messages: Lines,
    kernel: KernelLog,
    model_log: ModelLog,
    qemu_said: Vec<u8>,
    stdout: ProgramOutput,
    stderr: ProgramOutput,
    archives: Archives,
    tasks: Vec<TaskOutcome>,
    running: Option<Running>,
    /// The program that ran last.
    last: Option<usize>,
    clock: Clock,
    deadline: Deadline,
    /// The guest's message that it cannot continue.
    failed: Option<String>,
    /// When the guest reported that it is done.
    done: Option<Instant>,
    /// Whether the runner allowed the guest to power off.
    released: bool,
    started: Instant,
    boot_time: Duration,
}

impl Run<'_> {
    /// Sets the event to wait for and its time limit.
    fn wait(&mut self, what: &str, limit: Duration) {
        self.deadline = Deadline {
            what: format!("{what} ({} s)", limit.as_secs()),
            at: Some(self.clock.now() + limit),
        };
    }

    /// Whether the deadline has passed.
    fn is_over(&mut self) -> bool {
        let now = self.clock.now();
        self.deadline.at.is_some_and(|at| now >= at)
    }

    fn wait_for_model(&mut self) -> Result<()> {
        while !self.model_log.listening {
            let gone = self.model.ended();
            self.next_event()?;
            if let Some(status) = gone {
                self.drain()?;
                bail!(
                    "the GPU model does not start ({status}): {}",
                    self.model_log.tail()
                );
            }
            if self.is_over() {
                bail!("the GPU model does not listen: {}", self.model_log.tail());
            }
        }
        Ok(())
    }

    fn start_qemu(
        &mut self,
        program: &Path,
        arguments: &[String],
        sender: &std::sync::mpsc::SyncSender<Event>,
    ) -> Result<()> {
        let mut qemu = Process::start(program, arguments)?;
        if let (Some(stdout), Some(stderr)) = (qemu.stdout(), qemu.stderr()) {
            process::forward(stdout, sender.clone(), Event::Console, Event::Closed);
            process::forward(stderr, sender.clone(), Event::Qemu, Event::Closed);
        }
        self.clock.add(qemu.id());
        self.qemu = Some(qemu);
        self.wait("the kernel to start", BOOT_LIMIT);
        Ok(())
    }

    fn until_the_end(&mut self) -> Result<End> {
        loop {
            self.next_event()?;
            if let Some(end) = self.look()? {
                return Ok(end);
            }
        }
    }

    /// Handles the events of one tick. Returns whether more events can come.
    fn next_event(&mut self) -> Result<bool> {
        match self.receiver.recv_timeout(TICK) {
            Ok(event) => self.handle(event)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(TICK);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Handles the remaining output of processes that have ended.
    fn drain(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let start = Instant::now();
        let mut quiet = 0;
        while start.elapsed() < DRAIN_LIMIT && quiet < 5 {
            match self.receiver.recv_timeout(TICK) {
                Ok(event) => {
                    quiet = 0;
                    self.handle(event)?;
                }
                Err(RecvTimeoutError::Timeout) => quiet += 1,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    }

    /// Checks all conditions that are not events.
    fn look(&mut self) -> Result<Option<End>> {
        self.release_if_complete();
        self.pass_on_typing();
        if self.signals.last() != 0 {
            return Ok(Some(End::Interrupted(self.signals.last())));
        }
        if self.keyboard.quit {
            return Ok(Some(End::Done));
        }
        if let Some(status) = self.qemu.as_mut().and_then(Process::ended) {
            self.drain()?;
            return Ok(Some(self.end_by_qemu(status)));
        }
        if self.model_gone.is_none() {
            self.model_gone = self.model.ended().map(|status| (Instant::now(), status));
        }
        if let Some((since, status)) = self.model_gone {
            if since.elapsed() > ORPHAN_LIMIT {
                return Ok(Some(End::ModelDied(self.model_words(status))));
            }
        }
        if self.is_over() && !self.end_late_program() {
            return Ok(Some(if self.kernel.panicked {
                End::Panicked
            } else {
                End::Hung(self.deadline.what.clone())
            }));
        }
        Ok(None)
    }

    /// Asks the guest to kill a program that exceeded its limit. Returns false if that was already done, or nothing
    /// runs.
    fn end_late_program(&mut self) -> bool {
        let (Some(running), Some(control)) = (&mut self.running, &mut self.control) else {
            return false;
        };
        if running.is_late || self.kernel.panicked {
            return false;
        }
        running.is_late = true;
        // If QEMU has ended, this is detected elsewhere.
        let _ = writeln!(control, "late {}", running.task);
        let what = self.deadline.what.clone();
        self.wait(&what, GRACE);
        true
    }

    fn model_words(&self, status: ExitStatus) -> String {
        match self.model_log.tail() {
            words if words.is_empty() => status.to_string(),
            words => format!("{status}: {words}"),
        }
    }

    fn end_by_qemu(&self, status: ExitStatus) -> End {
        if let Some(reason) = &self.failed {
            return End::GuestFailed(reason.clone());
        }
        if self.done.is_some() {
            return End::Done;
        }
        if self.kernel.panicked {
            return End::Panicked;
        }
        let said = String::from_utf8_lossy(&self.qemu_said);
        let said: Vec<&str> = said
            .lines()
            .filter(|line| !line.contains(HARMLESS))
            .collect();
        match said.join("\n").as_str() {
            "" if status.success() => {
                End::QemuDied("the guest powered off before its work was done".to_string())
            }
            "" => End::QemuDied(status.to_string()),
            said => End::QemuDied(format!("{status}: {said}")),
        }
    }

    fn handle(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Connected(Port::Control, stream) => self.control = Some(stream),
            Event::Connected(Port::Terminal, stream) => self.terminal = Some(stream),
            Event::Connected(..) | Event::Closed => {}
            Event::Data(port, bytes) => self.data(port, &bytes)?,
            Event::Console(bytes) => {
                let panicked = self.kernel.panicked;
                self.kernel.feed(&bytes)?;
                if self.kernel.panicked && !panicked {
                    self.wait("the end after a panic", PANIC_LIMIT);
                }
            }
            Event::Model(bytes) => {
                let running = self.running.as_ref().map(|running| running.task);
                self.model_log.feed(&bytes, running.or(self.last))?;
            }
            Event::Qemu(bytes) => {
                if self.qemu_said.len() < MOST_OUTPUT {
                    self.qemu_said.extend(bytes);
                }
            }
            Event::Typed(bytes) => self.keyboard.typed(&bytes, io::stdin().is_terminal()),
            Event::TypedEnd => self.keyboard.ended(),
        }
        Ok(())
    }

    fn data(&mut self, port: Port, bytes: &[u8]) -> Result<()> {
        match port {
            Port::Control => {
                for line in self.messages.feed(bytes) {
                    self.message(&line);
                }
            }
            Port::Stdout => {
                let (tasks, watcher) = (&mut self.tasks, &mut *self.watcher);
                self.stdout.feed(bytes, |task, bytes| {
                    keep(tasks, watcher, task, Stream::Out, bytes);
                });
            }
            Port::Stderr => {
                let (tasks, watcher) = (&mut self.tasks, &mut *self.watcher);
                self.stderr.feed(bytes, |task, bytes| {
                    keep(tasks, watcher, task, Stream::Err, bytes);
                });
            }
            Port::Result => {
                // Large files take long, so each piece of data restarts the time limit.
                self.wait("the program's files", STEP_LIMIT);
                self.archives.feed(bytes)?;
            }
            Port::Terminal => {
                self.prompt = self.running.is_some();
                self.watcher.terminal(bytes);
            }
        }
        Ok(())
    }

    /// Handles a line from the guest's `/init`.
    fn message(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut numbers = rest.split(' ').map(|n| n.parse::<u64>().unwrap_or(0));
        let task = numbers
            .next()
            .and_then(|n| usize::try_from(n).ok())
            .filter(|&n| n < self.tasks.len())
            .unwrap_or(0);
        let number = numbers.next().unwrap_or(0);
        match word {
            "hello" => {
                self.boot_time = self.started.elapsed();
                self.wait("the first program", STEP_LIMIT);
            }
            "loading" => {
                // It is loading for a program.
                if !rest.is_empty() {
                    self.tasks[task].started = true;
                    self.last = Some(task);
                }
                self.wait("the module to load", LOAD_LIMIT);
            }
            "loaded" => self.wait("the program to start", STEP_LIMIT),
            "refused" => {
                let reason = rest.split_once(' ').map_or("", |(_, reason)| reason);
                self.tasks[task].refused = Some(reason.to_string());
                self.wait("the next program", STEP_LIMIT);
            }
            "begin" => self.begin(task),
            "late" => self.tasks[task].late = true,
            "files" => self.archives.announce(task, number),
            "end" => self.ended(task, i32::try_from(number).unwrap_or(i32::MAX)),
            "fail" => {
                self.failed.get_or_insert_with(|| rest.to_string());
                self.wait("the board to power off", STEP_LIMIT);
            }
            "done" => {
                self.done = Some(Instant::now());
                self.wait("the board to power off", STEP_LIMIT);
            }
            _ => {}
        }
    }

    fn begin(&mut self, task: usize) {
        self.running = Some(Running {
            task,
            since: Instant::now(),
            before: self.clock.processor_time(),
            is_late: false,
        });
        self.last = Some(task);
        self.tasks[task].started = true;
        match &self.boot.work {
            Work::Programs(tasks) => {
                let what = format!("the program {}", tasks[task].command.join(" "));
                self.wait(&what, tasks[task].limit);
            }
            Work::Shell(..) => self.deadline = Deadline::never(),
        }
        self.watcher.started(task);
    }

    fn ended(&mut self, task: usize, status: i32) {
        self.take_times();
        self.tasks[task].status = Some(status);
        self.wait("the next program", STEP_LIMIT);
        self.watcher.ended(task, &self.tasks[task]);
    }

    /// Records the times of the program that has just ended.
    fn take_times(&mut self) {
        if let Some(running) = self.running.take() {
            let outcome = &mut self.tasks[running.task];
            outcome.time = running.since.elapsed();
            outcome.processor_time = self.clock.processor_time().saturating_sub(running.before);
        }
    }

    /// Allows the guest to power off after all its data has arrived.
    fn release_if_complete(&mut self) {
        let Some(done) = self.done else {
            return;
        };
        let programs = match self.boot.work {
            Work::Programs(_) => {
                let over = |task: &&TaskOutcome| task.status.is_some() || task.refused.is_some();
                self.tasks.iter().filter(over).count()
            }
            Work::Shell(..) => 0,
        };
        let complete = self.stdout.complete >= programs
            && self.stderr.complete >= programs
            && self.archives.complete()
            && (self.kernel.complete || done.elapsed() > LOG_LAG);
        if complete && !self.released {
            if let Some(control) = &mut self.control {
                // If QEMU has ended, this is detected elsewhere.
                let _ = control.write_all(b"bye\n");
            }
            self.released = true;
        }
    }

    fn pass_on_typing(&mut self) {
        if let (true, Some(terminal)) = (self.prompt, &mut self.terminal) {
            let typed = self.keyboard.take();
            if !typed.is_empty() {
                // If the guest is gone, this is detected elsewhere.
                let _ = terminal.write_all(&typed);
            }
        }
    }

    /// Ends the processes and collects their results.
    fn tear_down(mut self, end: End, dir: &Path) -> Result<Outcome> {
        self.take_times();
        let processor_time = self.clock.processor_time();
        if let Some(mut qemu) = self.qemu.take() {
            qemu.kill();
        }
        self.drain()?;
        let status = self.model.wait(REPORT_LIMIT);
        self.model.kill();
        self.drain()?;
        let (report, end) = self.read_reports(end, status, dir)?;
        let (tasks, watcher) = (&mut self.tasks, &mut *self.watcher);
        self.stdout.finish(|task, bytes| {
            keep(tasks, watcher, task, Stream::Out, bytes);
        });
        self.stderr.finish(|task, bytes| {
            keep(tasks, watcher, task, Stream::Err, bytes);
        });
        let files_to = files_to(self.boot);
        self.archives.unpack(|task| files_to.get(task).copied())?;
        let log = self.kernel.finish()?;
        Ok(Outcome {
            end,
            tasks: self.tasks,
            findings: kernel_log::scan(&log),
            log,
            report,
            boot_time: self.boot_time,
            total_time: self.started.elapsed(),
            processor_time,
            said: self.model_log.complaints,
        })
    }

    /// Reads the GPU model's reports and keeps them as gpu.json, gpu-1.json and so on. If a report is missing or the
    /// model's exit status is unexpected, a successful end becomes a failure.
    fn read_reports(
        &self,
        end: End,
        status: Option<ExitStatus>,
        dir: &Path,
    ) -> Result<(Option<Report>, End)> {
        let code = status.and_then(|status| status.code());
        let mut reports = Vec::new();
        for number in 0..self.boot.board.cores().len() {
            reports.push(self.read_report(dir, &launch::of_core("gpu", number, ".json"))?);
        }
        let mut report = Report::of_board(self.boot.board.cores(), reports);
        if code == Some(MODEL_VIOLATIONS) {
            let report = report.get_or_insert_with(Report::default);
            if report.violations.is_empty() {
                report.violations.push(Violation {
                    kind: "unknown".to_string(),
                    detail: "the GPU model's exit status says so, its report does not".to_string(),
                });
            }
        }
        if end != End::Done {
            return Ok((report, end));
        }
        let end = match (code, &report, status) {
            (Some(0 | MODEL_VIOLATIONS), Some(_), _) => End::Done,
            (Some(0 | MODEL_VIOLATIONS), None, _) => {
                End::ModelDied("it left no report that can be read".to_string())
            }
            (_, _, Some(status)) => End::ModelDied(self.model_words(status)),
            (_, _, None) => End::ModelDied("it did not end with the board".to_string()),
        };
        Ok((report, end))
    }

    /// Reads a core's report, if it exists, and keeps it.
    fn read_report(&self, dir: &Path, name: &str) -> Result<Option<Report>> {
        let Ok(text) = fs::read(dir.join(name)) else {
            return Ok(None);
        };
        let kept = self.boot.out.join(name);
        fs::write(&kept, &text).with_context(|| format!("cannot write {}", kept.display()))?;
        Ok(serde_json::from_slice(&text).ok())
    }
}

/// Keeps a program's output and shows it.
fn keep(
    tasks: &mut [TaskOutcome],
    watcher: &mut dyn Watcher,
    task: usize,
    stream: Stream,
    bytes: &[u8],
) {
    let Some(outcome) = tasks.get_mut(task) else {
        return;
    };
    watcher.output(task, stream, bytes);
    let kept = match stream {
        Stream::Out => &mut outcome.stdout,
        Stream::Err => &mut outcome.stderr,
    };
    let room = MOST_OUTPUT.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}
