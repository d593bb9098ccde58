// SPDX-License-Identifier: GPL-2.0-only
//! A fixed list of calls of 6.4.11, each case by a process of its own: what the driver answers beside what the vendor's
//! did, recorded by `scripts/oracle`.
//!
//! `--print` only writes the answers. It ends with status 3 behind a case that the driver does not survive; `--behind
//! CASE` goes on there. `--only TEXT` leaves out cases whose names do not have it.

use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use galcore_client::raw;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::answers::cases;
use galcore_selftests::answers::cases::Case;
use galcore_selftests::answers::compare;
use galcore_selftests::answers::compare::Table;
use galcore_selftests::answers::compare::Verdict;
use galcore_selftests::answers::compare::CRASH;
use galcore_selftests::answers::compare::SEPARATOR;
use galcore_selftests::answers::perform::Performer;
use galcore_selftests::control::Control;
use galcore_selftests::reference;
use gpu_control::Board;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;

const CASES: &str = include_str!("../../../abi/behaviour/cases.txt");
const DIFFERENCES: &str = include_str!("../../../abi/behaviour/differences.txt");

/// The generation of the list.
const GENERATION: &str = "6.4.11";

/// Longest that a case may take, far beyond any wait in the list. Seconds.
const LIMIT: u64 = 8;

/// Status of `--print` behind a case that the driver does not survive.
const STOPPED: u8 = 3;

/// What was recorded of a board.
fn recorded(board: Board) -> Option<&'static str> {
    match board {
        Board::Gc880 => Some(include_str!("../../../abi/behaviour/6.4.11.p3-imx6dl.txt")),
        _ => None,
    }
}

/// Does the case in this process, and writes its lines.
fn perform(case: &Case, hardware_type: u32, mut output: File) -> Result<()> {
    let abi = Abi::named(GENERATION).context("the generation")?;
    let mut performer = Performer::new(abi, hardware_type.into())?;
    for step in &case.steps {
        match performer.step(step) {
            Ok(Some(line)) => writeln!(output, "{line}")?,
            Ok(None) => {}
            Err(error) => {
                writeln!(output, "cannot be done: {error:#}")?;
                break;
            }
        }
    }
    Ok(())
}

/// The lines of a case, which a copy of this process does.
fn answers(case: &Case, hardware_type: u32) -> Result<Vec<String>> {
    let (read, write) = rustix::pipe::pipe()?;
    let (mut read, write) = (File::from(read), File::from(write));
    let theirs = write.try_clone()?;
    let process = raw::copied(|| perform(case, hardware_type, theirs).is_ok())?;
    drop(write);
    let begin = Instant::now();
    let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
    let is_whole = loop {
        let Some(left) = Duration::from_secs(LIMIT).checked_sub(begin.elapsed()) else {
            break false;
        };
        let left = Timespec::try_from(left)?;
        let mut polled = [PollFd::from_borrowed_fd(read.as_fd(), PollFlags::IN)];
        if rustix::event::poll(&mut polled, Some(&left))? == 0 {
            break false;
        }
        match read.read(&mut bytes)? {
            0 => break true,
            count => text.extend(&bytes[..count]),
        }
    };
    let is_well = match is_whole {
        true => process.wait(3000) == Some(0),
        false => {
            process.end();
            false
        }
    };
    let text = String::from_utf8(text)?;
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    if !is_well {
        lines = vec![CRASH.to_string()];
    }
    Ok(lines)
}

/// The kind of the device's first core.
fn hardware_type() -> Result<u32> {
    let abi = Abi::named(GENERATION).context("the generation")?;
    // Not told which generation it is: other drivers would not know the question.
    let device = Device::open_as(abi, false)?;
    Ok(device.chip_info()?.types[0])
}

/// Writes what the driver answers.
fn print(cases: &[Case], hardware_type: u32) -> Result<bool> {
    let mut output = std::io::stdout().lock();
    for case in cases {
        // Whoever reads it knows which case was the machine's last.
        writeln!(output, "# {}", case.name)?;
        output.flush()?;
        for line in answers(case, hardware_type)? {
            writeln!(output, "{}{SEPARATOR}{line}", case.name)?;
            output.flush()?;
            if line == CRASH {
                return Ok(false);
            }
        }
    }
    writeln!(output, "# end")?;
    Ok(true)
}

/// The part of a name that says what it is about.
fn group(case: &Case) -> &str {
    case.name.split(['/', ' ']).next().unwrap_or_default()
}

/// Compares with the table, group by group.
fn check(all: &[Case], hardware_type: u32, table: &Table<'_>) -> Result<bool> {
    let differences = compare::differences(DIFFERENCES)?;
    let groups: Vec<&[Case]> = all
        .chunk_by(|one, other| group(one) == group(other))
        .collect();
    println!("KTAP version 1\n1..{}", groups.len());
    let (mut equal, mut explained, mut wrong) = (0, 0, 0);
    for (index, cases) in groups.iter().enumerate() {
        let mut bad = 0;
        for case in *cases {
            let recorded = table.of(&case.name).unwrap_or_default();
            let found = answers(case, hardware_type)?;
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            match compare::verdict(&case.name, &found, recorded, &differences) {
                Verdict::Equal => equal += 1,
                Verdict::Explained => explained += 1,
                verdict => {
                    bad += 1;
                    println!("# {}: {verdict:?}", case.name);
                    for line in recorded.iter().filter(|line| !found.contains(line)) {
                        println!("#   recorded: {line}");
                    }
                    for line in found.iter().filter(|line| !recorded.contains(line)) {
                        println!("#   found:    {line}");
                    }
                }
            }
        }
        wrong += bad;
        let not = if bad == 0 { "" } else { "not " };
        println!(
            "{not}ok {} - {}, {} cases",
            index + 1,
            group(&cases[0]),
            cases.len()
        );
    }
    println!(
        "# {} cases, {equal} equal, {explained} different with reasons, {wrong} unexplained",
        all.len()
    );
    Ok(wrong == 0)
}

fn run() -> Result<ExitCode> {
    let mut cases = cases::read(CASES)?;
    let mut prints = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("a value is missing");
        match argument.as_str() {
            "--print" => prints = true,
            "--only" => {
                let text = value()?;
                cases.retain(|case| case.name.contains(&text));
            }
            "--behind" => {
                let name = value()?;
                let place = cases.iter().position(|case| case.name == name);
                cases.drain(..=place.context("no such case")?);
            }
            other => bail!("{other:?} is no argument"),
        }
    }
    let hardware_type = hardware_type()?;
    if prints {
        return Ok(match print(&cases, hardware_type)? {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(STOPPED),
        });
    }
    let board = reference::board(&Control::open()?)?;
    let Some(table) = recorded(board) else {
        println!("KTAP version 1\n1..1\nok 1 - start # SKIP no answers are recorded of this board");
        return Ok(ExitCode::SUCCESS);
    };
    Ok(match check(&cases, hardware_type, &Table::read(table)?)? {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        println!("KTAP version 1\n1..1\n# {error:#}\nnot ok 1 - start");
        ExitCode::FAILURE
    })
}
