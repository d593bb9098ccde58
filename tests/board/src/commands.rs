// SPDX-License-Identifier: GPL-2.0-only
//! The commands that boot once: run, shell, and demo.

use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::boards::Binding;
use crate::boards::Board;
use crate::cli::DemoArgs;
use crate::cli::MachineArgs;
use crate::cli::RunArgs;
use crate::cli::ShellArgs;
use crate::cli::Tools;
use crate::etnaviv;
use crate::initramfs;
use crate::initramfs::GuestFile;
use crate::judgement;
use crate::kernel_log;
use crate::keyboard;
use crate::keyboard::RawTerminal;
use crate::machine;
use crate::machine::Assets;
use crate::machine::Boot;
use crate::machine::Outcome;
use crate::machine::Stream;
use crate::machine::Task;
use crate::machine::Watcher;
use crate::machine::Work;
use crate::mesa;
use crate::processor::Processor;
use crate::signals::Signals;

/// Maximum number of driver log lines shown for a failed program.
const MOST_LINES: usize = 20;

/// Time limit of the demonstration.
const DEMO_LIMIT: Duration = Duration::from_secs(60);

/// Prints a message of the runner to stderr.
pub fn say(text: &str) {
    eprintln!("board: {text}");
}

/// Passes a program's output on immediately.
#[derive(Default)]
pub struct PassOn {
    /// Whether to show the commands started on the host too.
    pub commands: bool,
}

impl Watcher for PassOn {
    fn starts(&mut self, program: &Path, arguments: &[String]) {
        if self.commands {
            eprintln!("{}", shell_line(program, arguments));
        }
    }

    fn output(&mut self, _task: usize, stream: Stream, bytes: &[u8]) {
        // The output may be closed; the program's status still counts.
        let _ = match stream {
            Stream::Out => write_out(bytes),
            Stream::Err => io::stderr().write_all(bytes),
        };
    }

    fn terminal(&mut self, bytes: &[u8]) {
        let _ = write_out(bytes);
    }
}

/// A command in shell syntax.
fn shell_line(program: &Path, arguments: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=,.:/".contains(c);
    let mut line = program.display().to_string();
    for word in arguments {
        line.push(' ');
        line.push_str(&if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            initramfs::quote(word)
        });
    }
    line
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Describes a boot of `machine` that does `work`.
pub fn boot_of(machine: &MachineArgs, work: Work, out: PathBuf) -> Result<Boot> {
    Ok(Boot {
        board: match machine.dtb.as_str() {
            "" => machine.board,
            dtb => machine.board.with_real_tree(dtb)?,
        },
        binding: machine.binding(),
        smp: machine.smp,
        memory: machine.memory.unwrap_or(machine.board.memory()),
        append: machine.append.join(" "),
        tree: machine.tree.clone(),
        dtb: machine.dtb.clone(),
        kunit: false,
        seed: machine.seed,
        icount: machine.icount,
        trace: machine.trace,
        monitor: None,
        insmod: machine.insmod.join(" "),
        load: !machine.no_insmod,
        drm: machine.drm,
        files: machine.guest_files()?,
        work,
        out,
    })
}

/// Converts a user's command for the guest: a host program is copied to the guest; a bare name is a command of the
/// guest.
pub fn guest_command(
    command: &[String],
    processor: Processor,
) -> Result<(Vec<String>, Option<GuestFile>)> {
    guest_command_with(command, processor, false)
}

/// Like [`guest_command`], for a guest with or without shared libraries.
fn guest_command_with(
    command: &[String],
    processor: Processor,
    libraries: bool,
) -> Result<(Vec<String>, Option<GuestFile>)> {
    let Some((program, arguments)) = command.split_first() else {
        bail!("no program is named");
    };
    let host = Path::new(program);
    if !host.is_file() {
        if program.contains('/') {
            bail!("there is no program {program}");
        }
        return Ok((command.to_vec(), None));
    }
    initramfs::check_program(host, processor, libraries)?;
    let name = host.file_name().context("a program has a name")?;
    let guest = format!("/galcore/bin/{}", name.to_string_lossy());
    let mut words = vec![guest.clone()];
    words.extend_from_slice(arguments);
    let file = GuestFile {
        host: host.to_path_buf(),
        guest,
    };
    Ok((words, Some(file)))
}

/// `scripts/board run`
pub fn run(tools: &Tools, arguments: &RunArgs, signals: &Signals) -> Result<u8> {
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| tools.top.join("out/run"));
    let has_mesa = arguments.mesa || arguments.mesa_dir.is_some();
    let (mut command, file) = guest_command_with(&arguments.command, tools.processor()?, has_mesa)?;
    let assets = tools.assets(true)?;
    // A kernel without galcore.ko uses etnaviv, unless the program loads a driver.
    let has_etnaviv = has_mesa
        || assets.module.is_none()
            && !arguments.machine.no_insmod
            && tools.build.as_deref().and_then(etnaviv::modules).is_some();
    if has_etnaviv {
        let driver = (has_mesa && arguments.machine.drm).then(|| "--galcore".to_string());
        let launcher = std::iter::once(mesa::LAUNCHER.to_string()).chain(driver);
        command.splice(0..0, launcher);
    }
    let task = Task {
        command,
        limit: Duration::from_secs(arguments.timeout),
        files_to: out.clone(),
        module: None,
    };
    let mut boot = boot_of(&arguments.machine, Work::Programs(vec![task]), out)?;
    boot.files.extend(file);
    adapt(tools, &assets, &mut boot);
    if has_etnaviv {
        boot.load = false;
        boot.files.extend(mesa::launcher(tools)?);
    }
    if has_mesa {
        let libraries = mesa::libraries(tools, arguments.mesa_dir.as_deref())?;
        boot.files.extend(libraries);
    }
    let mut watcher = PassOn {
        commands: arguments.print_command,
    };
    let outcome = machine::boot(&assets, &boot, &mut watcher, signals)?;
    let status = conclude(&outcome, &boot.out);
    let most = match (arguments.log, status) {
        (true, _) => usize::MAX,
        (false, 0) => 0,
        (false, _) => MOST_LINES,
    };
    show_driver(&outcome.log, most, &boot.out);
    if !arguments.quiet {
        say(&format!(
            "{} ({}), Linux {}: up in {:.1} s, program {:.1} s, all {:.1} s; status {status}; files and logs in {}",
            boot.board.name(),
            boot.binding.name(),
            kernel_log::release(&outcome.log).unwrap_or("unknown"),
            outcome.boot_time.as_secs_f64(),
            outcome.tasks[0].time.as_secs_f64(),
            outcome.total_time.as_secs_f64(),
            boot.out.display()
        ));
    }
    Ok(status)
}

/// Settings for interactive use: the driver logs why it refuses a request. Also adapts the boot to the user's own
/// kernel.
fn adapt(tools: &Tools, assets: &Assets, boot: &mut Boot) {
    let debugs = ["CONFIG_DYNAMIC_DEBUG", "CONFIG_DYNAMIC_DEBUG_CORE"];
    if !boot.insmod.contains("dyndbg") && debugs.iter().any(|option| tools.kernel_has(option)) {
        boot.insmod.push_str(" dyndbg=+p");
    }
    boot.load &= assets.module.is_some();
    if let (true, Some(build)) = (tools.has_own_kernel(), &tools.build) {
        boot.files.extend(etnaviv::early(build, etnaviv::OF_VIRT));
    }
}

/// Shows the last `most` lines that the driver logged while the program ran.
fn show_driver(log: &str, most: usize, out: &Path) {
    let lines = kernel_log::of_driver(&kernel_log::of_task(log, 0));
    let left_out = lines.len().saturating_sub(most);
    if left_out > 0 && most > 0 {
        say(&format!(
            "{left_out} lines of the driver's are left out: {}",
            out.join("kernel.log").display()
        ));
    }
    for line in &lines[left_out..] {
        say(line);
    }
}

/// Explains a failure. Returns the exit status.
pub fn conclude(outcome: &Outcome, out: &Path) -> u8 {
    for line in judgement::explain(outcome, out) {
        say(&line);
    }
    judgement::status_of_boot(outcome).unwrap_or_else(|| {
        let status = outcome.tasks.first().and_then(|task| task.status);
        status.map_or(judgement::BOARD, |s| u8::try_from(s).unwrap_or(u8::MAX))
    })
}

/// `scripts/board shell`
pub fn shell(tools: &Tools, arguments: &ShellArgs, signals: &Signals) -> Result<u8> {
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| tools.top.join("out/shell"));
    let (rows, columns) = keyboard::size();
    let mut boot = boot_of(
        &arguments.machine,
        Work::Shell(rows, columns, out.clone()),
        out,
    )?;
    let assets = tools.assets(true)?;
    adapt(tools, &assets, &mut boot);
    if assets.module.is_none() {
        if let Some(modules) = tools.build.as_deref().and_then(etnaviv::modules) {
            boot.files.extend(modules);
        }
    }
    say("Ctrl-A x ends the board; 'exit' powers it off; 'dmesg' shows the kernel log");
    let terminal = RawTerminal::enter().context("the terminal cannot be used")?;
    let outcome = machine::boot(&assets, &boot, &mut PassOn::default(), signals);
    drop(terminal);
    let outcome = outcome?;
    println!();
    for line in judgement::explain(&outcome, &boot.out) {
        say(&line);
    }
    say(&format!("logs and files in {}", boot.out.display()));
    Ok(judgement::status_of_boot(&outcome).unwrap_or(0))
}

/// Describes a boot that draws the demonstration's picture into `out`.
pub fn demo_boot(tools: &Tools, board: Board, words: &[&str], out: PathBuf) -> Result<Boot> {
    let program = tools.programs.join("galcore-demo");
    let mut line = vec![program.to_string_lossy().into_owned()];
    line.extend(words.iter().map(|word| word.to_string()));
    let (command, file) = guest_command(&line, tools.processor()?)?;
    Ok(Boot {
        board,
        binding: Binding::Dt,
        smp: 1,
        memory: board.memory(),
        append: String::new(),
        tree: String::new(),
        dtb: String::new(),
        kunit: false,
        seed: None,
        icount: false,
        trace: false,
        monitor: None,
        insmod: String::new(),
        load: true,
        drm: false,
        files: file.into_iter().collect(),
        work: Work::Programs(vec![Task {
            command,
            limit: DEMO_LIMIT,
            files_to: out.clone(),
            module: None,
        }]),
        out,
    })
}

/// `scripts/board demo`
pub fn demo(tools: &Tools, arguments: &DemoArgs, signals: &Signals) -> Result<u8> {
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| tools.top.join("out/demo"));
    let picture = out.join("picture.png");
    // The animation that a 3D core draws.
    let turning = out.join("turning.png");
    // Remove old pictures so that they are not taken for new ones.
    for old in [&picture, &turning] {
        if old.exists() {
            fs::remove_file(old)
                .with_context(|| format!("cannot remove the old {}", old.display()))?;
        }
    }
    let mut boot = demo_boot(tools, arguments.board, &[], out)?;
    if arguments.params {
        boot.binding = Binding::Params;
    }
    let outcome = machine::boot(&tools.assets(true)?, &boot, &mut PassOn::default(), signals)?;
    let status = conclude(&outcome, &boot.out);
    if status == 0 && !picture.is_file() {
        bail!("galcore-demo left no picture.png");
    }
    if status == 0 {
        let picture = picture.canonicalize().unwrap_or(picture);
        let release = kernel_log::release(&outcome.log).unwrap_or("unknown");
        println!("kernel:  Linux {release} ({})", tools.kernel);
        println!("picture: {}", picture.display());
        if turning.is_file() {
            let turning = turning.canonicalize().unwrap_or(turning);
            println!("turning: {}", turning.display());
        }
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_names_are_left_to_the_guest() {
        let command = ["no-such-file-here".to_string(), "x".to_string()];
        assert_eq!(
            guest_command(&command, Processor::CortexA15).unwrap(),
            (command.to_vec(), None)
        );
        assert!(guest_command(&["./no-such-file-here".to_string()], Processor::CortexA15).is_err());
    }

    #[test]
    fn commands_are_shown_as_one_types_them() {
        let words = ["-m", "512", r#"{"a":1}"#, ""].map(str::to_string);
        assert_eq!(
            shell_line(Path::new("/bin/qemu"), &words),
            r#"/bin/qemu -m 512 '{"a":1}' ''"#
        );
    }

    #[test]
    fn programs_of_the_host_are_taken_along() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("test.sh");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let command = [script.to_string_lossy().into_owned(), "-v".to_string()];
        let (words, file) = guest_command(&command, Processor::CortexA15).unwrap();
        assert_eq!(words, ["/galcore/bin/test.sh", "-v"]);
        assert_eq!(file.unwrap().host, script);
    }
}
