// SPDX-License-Identifier: GPL-2.0-only
//! The virtual board's runner.
//!
//! It boots Linux with `galcore.ko` in stock QEMU with a software GPU attached over vfio-user, runs programs there,
//! and collects their output and files. It then checks the kernel log and the GPU model's report. The test runner
//! uses the same code. Call it through `scripts/board`.

mod bench;
mod boards;
mod cli;
mod commands;
mod device_tree;
mod etnaviv;
mod initramfs;
mod judgement;
mod kernel_log;
mod keyboard;
mod ktap;
mod machine;
mod mesa;
mod plot;
mod process;
mod processor;
mod profile;
mod signals;
mod soc;
mod streams;
mod testing;
mod timeline;
mod top;
mod trees;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use cli::Cli;
use cli::Command;
use signals::Signals;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout and is not an error.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(judgement::USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match perform(&cli) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            commands::say(&format!("{error:#}"));
            ExitCode::from(judgement::SETUP)
        }
    }
}

fn perform(cli: &Cli) -> Result<u8> {
    let signals = Signals::catch()?;
    match &cli.command {
        Command::Run(arguments) => commands::run(&cli.tools, arguments, &signals),
        Command::Shell(arguments) => commands::shell(&cli.tools, arguments, &signals),
        Command::Demo(arguments) => commands::demo(&cli.tools, arguments, &signals),
        Command::Test(arguments) => testing::test(&cli.tools, arguments, false, &signals),
        Command::Timeline(arguments) => timeline::timeline(&cli.tools, arguments, &signals),
        Command::Top(arguments) => top::top(&cli.tools, arguments, &signals),
        Command::Bench(arguments) => bench::bench(&cli.tools, arguments, &signals),
        Command::Profile(arguments) => profile::profile(&cli.tools, arguments, &signals),
        Command::Trees(arguments) => trees::trees(&cli.tools, arguments, &signals),
        Command::Soak(arguments) => testing::test(&cli.tools, arguments, true, &signals),
    }
}
