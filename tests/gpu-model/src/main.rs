// SPDX-License-Identifier: GPL-2.0-only
//! The program: reads the command line, serves one machine and writes the report. Exit status: 0 (clean), 3
//! (violations), 4 (the machine's memory is not shared) or 1 (the program could not work).

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use clap::Parser;
use gpu_control::Board;
use gpu_model::draw::PARTS;
use gpu_model::gpu::Gpu;
use gpu_model::gpu::Options;
use gpu_model::server::Server;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

/// Maximum lifetime of the other cores' connections after one has closed: the machine has exited.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// A strict software GPU for a virtual machine, over vfio-user. Serves one connection for each core.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Socket to create and listen on. The second core has NAME-1, the third NAME-2; report and trace likewise
    #[arg(long)]
    socket: PathBuf,
    /// Core to model; repeat for a machine with several
    #[arg(
        long,
        required = true,
        value_parser = PossibleValuesParser::new(Board::ALL.map(Board::name))
            .try_map(|name| Board::from_name(&name).ok_or("unknown"))
    )]
    board: Vec<Board>,
    /// Path of the report (JSON)
    #[arg(long)]
    report: Option<PathBuf>,
    /// Path of the trace of every command and register access
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Seed for the random phases of polling and of the pixel engine's lag
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Report violations without failing, and continue where silicon might
    #[arg(long)]
    lenient: bool,
    /// Include the last pixel of 2D lines
    #[arg(long)]
    line_inclusive: bool,
    /// Threads for 3D draws, up to 4. Default: one per processor. The number affects only the time
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=PARTS as i64))]
    threads: Option<u8>,
    /// File with the machine's process number, for the register of the time that the host kept the machine waiting
    #[arg(long)]
    machine: Option<PathBuf>,
}

/// The file name for core `number`, if the first core uses `path`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_path_buf();
    }
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn finish(cores: &[Arc<Gpu>]) -> i32 {
    cores.iter().map(|core| core.finish()).max().unwrap_or(0)
}

fn run(arguments: Arguments) -> anyhow::Result<i32> {
    let mut cores = Vec::new();
    let mut servers = Vec::new();
    let written = Arc::<gpu_model::written::Written>::default();
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or_else(processors, usize::from);
    for (number, board) in arguments.board.iter().enumerate() {
        let file = |path: &Option<PathBuf>| path.as_ref().map(|path| numbered(path, number));
        let gpu = Arc::new(Gpu::new(Options {
            board: *board,
            report: file(&arguments.report),
            trace: file(&arguments.trace),
            seed: arguments.seed.wrapping_add(number as u64),
            lenient: arguments.lenient,
            line_inclusive: arguments.line_inclusive,
            machine: arguments.machine.clone(),
            written: written.clone(),
            threads,
        })?);
        gpu.spawn_threads()?;
        servers.push(Server::new(
            gpu.clone(),
            &numbered(&arguments.socket, number),
        )?);
        cores.push(gpu);
    }
    let sockets: Vec<_> = (0..cores.len())
        .map(|number| numbered(&arguments.socket, number))
        .collect();
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot catch signals")?;
    let ending = cores.clone();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            for socket in sockets {
                let _ = std::fs::remove_file(socket);
            }
            std::process::exit(finish(&ending));
        }
    });
    eprintln!("gpu-model: listening on {}", arguments.socket.display());
    let (ended, end) = mpsc::channel();
    for server in servers {
        let ended = ended.clone();
        thread::Builder::new()
            .name("server".into())
            .spawn(move || {
                server.serve();
                // Fails if the receiver is gone.
                let _ = ended.send(());
            })
            .context("cannot start a server's thread")?;
    }
    drop(ended);
    // Fails once all servers have ended, normally or by a panic.
    let _ = end.recv();
    while end.recv_timeout(LEFTOVERS).is_ok() {}
    Ok(finish(&cores))
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    match run(Arguments::parse()) {
        Ok(status) => ExitCode::from(status as u8),
        Err(error) => {
            eprintln!("gpu-model: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_other_cores_have_a_number() {
        let report = Path::new("/tmp/gpu.json");
        assert_eq!(numbered(report, 0), report);
        assert_eq!(numbered(report, 2), Path::new("/tmp/gpu-2.json"));
        assert_eq!(numbered(Path::new("gpu"), 1), Path::new("gpu-1"));
    }
}
