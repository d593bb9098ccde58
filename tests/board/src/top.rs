// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/board top`: runs gctop on the board, which runs a program and shows its use of the GPU.

use anyhow::bail;
use anyhow::Result;

use crate::cli::Tools;
use crate::cli::TopArgs;
use crate::commands;
use crate::signals::Signals;

/// `scripts/board top`
pub fn top(tools: &Tools, arguments: &TopArgs, signals: &Signals) -> Result<u8> {
    let mut run = arguments.run.clone();
    if run.mesa {
        bail!("gctop shows galcore's clients, and with --mesa etnaviv has the GPU");
    }
    let (program, file) = commands::guest_command(&run.command, tools.processor()?)?;
    let file = file.map(|file| format!("{}:{}", file.host.display(), file.guest));
    run.machine.files.extend(file);
    let gctop = tools.programs.join("gctop");
    run.command = vec![
        gctop.display().to_string(),
        format!("--interval={}", arguments.interval),
        "--".to_string(),
    ];
    run.command.extend(program);
    run.out.get_or_insert_with(|| tools.top.join("out/top"));
    commands::run(tools, &run, signals)
}
