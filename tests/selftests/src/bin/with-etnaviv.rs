// SPDX-License-Identifier: GPL-2.0-only
//! Binds the GPU to etnaviv (or with `--galcore`, to galcore with its node of the same interface) and then executes
//! another program. `scripts/board run --mesa` starts it.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use galcore_selftests::etnaviv;

fn main() -> ExitCode {
    match become_program() {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("with-etnaviv: {error:#}");
            ExitCode::from(127)
        }
    }
}

fn become_program() -> Result<std::convert::Infallible> {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == "--galcore").is_some() {
        etnaviv::load_galcore(&[])?;
    } else {
        etnaviv::expect_breaches()?;
        etnaviv::load(Path::new(etnaviv::FOLDER))?;
        etnaviv::wait_for_node()?;
        etnaviv::stay_awake()?;
    }
    let program = words.next().context("no program is named")?;
    let error = Command::new(&program).args(words).exec();
    Err(error).with_context(|| program)
}
