// SPDX-License-Identifier: GPL-2.0-only
//! The program: reads the command line, serves one machine, reports, and exits 0 (clean), 3 (violations), 4 (the
//! machine's memory is not shared) or 1 (could not work at all).

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use clap::ValueEnum;
use gpu_control::Board;
use gpu_model::gpu::Gpu;
use gpu_model::gpu::Options;
use gpu_model::server;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

/// Boards by their command-line names.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum BoardName {
    /// GC600: 2D and 3D in one core.
    Dove,
    /// GC2000: 3D only.
    Imx6q,
    /// GC880: 3D only.
    Imx6dl,
    /// GC320: 2D only.
    Gc320,
    /// GC3000: 3D only, MMU v2.
    Imx6qp,
}

impl From<BoardName> for Board {
    fn from(name: BoardName) -> Self {
        match name {
            BoardName::Dove => Board::Dove,
            BoardName::Imx6q => Board::Imx6q,
            BoardName::Imx6dl => Board::Imx6dl,
            BoardName::Gc320 => Board::Gc320,
            BoardName::Imx6qp => Board::Imx6qp,
        }
    }
}

/// A strict software GPU for a virtual machine, over vfio-user. Serves one connection.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Socket to make and listen on.
    #[arg(long)]
    socket: PathBuf,
    /// Which core to be.
    #[arg(long)]
    board: BoardName,
    /// Where to write the report (JSON).
    #[arg(long)]
    report: Option<PathBuf>,
    /// Where to write every command and register access.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Seed of the random phases of polling and of the pixel engine's lag.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Report violations without failing, and go on where silicon might.
    #[arg(long)]
    lenient: bool,
    /// 2D lines draw their last pixel too.
    #[arg(long)]
    line_inclusive: bool,
}

fn run(arguments: Arguments) -> anyhow::Result<i32> {
    let gpu = Arc::new(Gpu::new(Options {
        board: arguments.board.into(),
        report: arguments.report,
        trace: arguments.trace,
        seed: arguments.seed,
        lenient: arguments.lenient,
        line_inclusive: arguments.line_inclusive,
    })?);
    gpu.spawn_threads()?;
    let socket = arguments.socket;
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot catch signals")?;
    let (ending, leftover) = (gpu.clone(), socket.clone());
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = std::fs::remove_file(leftover);
            std::process::exit(ending.finish());
        }
    });
    let served = server::serve(gpu.clone(), &socket, || {
        eprintln!("gpu-model: listening on {}", socket.display());
    });
    let status = gpu.finish();
    served?;
    Ok(status)
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
