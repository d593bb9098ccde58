// SPDX-License-Identifier: GPL-2.0-only
//! Runs a fixed list of calls of 6.4.11, each case in a separate process, and compares the answers with recorded ones:
//! those of the vendor's driver, and those of this driver where it differs on purpose. `scripts/oracle` recorded both.
//!
//! `--print` only prints the answers. It exits with status 3 after a case that the driver does not survive; `--behind
//! CASE` continues after that case. `--ours` prints only the answers that differ from the vendor's. `--set-up` compares
//! the cases whose answers depend on how the vendor's driver was loaded, and expects no difference: this driver is
//! loaded in the same way. `--only TEXT` selects the cases whose names contain the text.

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
use galcore_selftests::answers::compare::Difference;
use galcore_selftests::answers::compare::Table;
use galcore_selftests::answers::compare::Verdict;
use galcore_selftests::answers::compare::CRASH;
use galcore_selftests::answers::compare::SEPARATOR;
use galcore_selftests::answers::perform::Performer;
use galcore_selftests::answers::recording;
use galcore_selftests::answers::CASES;
use galcore_selftests::answers::DIFFERENCES;
use galcore_selftests::control::Control;
use galcore_selftests::reference;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;

/// The generation whose calls the list contains.
const GENERATION: &str = "6.4.11";

/// The time limit of a case in seconds, far above any wait in the list.
const LIMIT: u64 = 8;

/// Exit status of `--print` after a case that the driver does not survive.
const STOPPED: u8 = 3;

/// The answer of a case that needs a kernel file which does not exist here.
const LACKING: &str = "the kernel lacks what it wants: ";

/// Runs the case in this process and writes its answers.
fn perform(case: &Case, hardware_type: u32, mut output: File) -> Result<()> {
    let abi = Abi::named(GENERATION).context("the generation")?;
    let mut performer = Performer::new(abi, hardware_type.into())?;
    for step in &case.steps {
        match performer.step(step) {
            Ok(Some(line)) => writeln!(output, "{line}")?,
            Ok(None) => {}
            Err(error) => {
                let is_missing = |cause: &(dyn std::error::Error + 'static)| {
                    let io = cause.downcast_ref().map(std::io::Error::kind);
                    io == Some(std::io::ErrorKind::NotFound)
                        || cause.downcast_ref() == Some(&rustix::io::Errno::NOENT)
                };
                let why = if error.chain().any(is_missing) {
                    LACKING
                } else {
                    "cannot be done: "
                };
                writeln!(output, "{why}{error:#}")?;
                break;
            }
        }
    }
    Ok(())
}

/// Runs a case in a copy of this process and returns its lines.
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
    let is_well = if is_whole {
        process.wait(3000) == Some(0)
    } else {
        process.end();
        false
    };
    let text = String::from_utf8(text)?;
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    if !is_well {
        lines = vec![CRASH.to_string()];
    }
    Ok(lines)
}

/// The hardware type of the device's first core.
fn hardware_type() -> Result<u32> {
    let abi = Abi::named(GENERATION).context("the generation")?;
    // Does not declare the generation: other drivers do not know this call.
    let device = Device::open_as(abi, false)?;
    Ok(device.chip_info()?.types[0])
}

/// Prints the driver's answers.
fn print(cases: &[Case], hardware_type: u32) -> Result<bool> {
    let mut output = std::io::stdout().lock();
    for case in cases {
        // If the machine crashes, the output shows which case was the last.
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

/// Prints the driver's answers that differ from the recorded ones.
fn print_ours(cases: &[Case], hardware_type: u32, theirs: &Table<'_>) -> Result<()> {
    for case in cases {
        let found = answers(case, hardware_type)?;
        let recorded = theirs.of(&case.name).unwrap_or_default();
        if found != recorded {
            for line in found {
                println!("{}{SEPARATOR}{line}", case.name);
            }
        }
    }
    Ok(())
}

/// The part of a case's name that names its subject.
fn group(case: &Case) -> &str {
    case.name.split(['/', ' ']).next().unwrap_or_default()
}

/// The recorded answers.
struct Tables<'a> {
    /// The answers of the vendor's driver.
    theirs: Table<'a>,
    /// The answers of this driver, where it differs on purpose.
    ours: Table<'a>,
    differences: Vec<Difference<'a>>,
}

/// Compares the answers with the tables, group by group.
fn check(all: &[Case], hardware_type: u32, tables: &Tables<'_>) -> Result<bool> {
    let groups: Vec<&[Case]> = all
        .chunk_by(|one, other| group(one) == group(other))
        .collect();
    println!("KTAP version 1\n1..{}", groups.len());
    let (mut equal, mut explained, mut wrong, mut left_out) = (0, 0, 0, 0);
    for (index, cases) in groups.iter().enumerate() {
        let (mut bad, mut lacking) = (0, None);
        for case in *cases {
            let recorded = tables.theirs.of(&case.name).unwrap_or_default();
            let ours = tables.ours.of(&case.name);
            let found = answers(case, hardware_type)?;
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            if let Some(why) = found.iter().find(|line| line.starts_with(LACKING)) {
                left_out += 1;
                lacking = Some(why.to_string());
                continue;
            }
            match compare::verdict(&case.name, &found, recorded, ours, &tables.differences) {
                Verdict::Equal => equal += 1,
                Verdict::Explained => explained += 1,
                verdict => {
                    bad += 1;
                    println!("# {}: {verdict:?}", case.name);
                    let told = [
                        ("vendor's", recorded),
                        ("ours was", ours.unwrap_or_default()),
                    ];
                    for (whose, lines) in told {
                        for line in lines.iter().filter(|line| !found.contains(line)) {
                            println!("#   {whose}: {line}");
                        }
                    }
                    let is_told = |line: &&str| recorded.contains(line) && ours.is_none();
                    for line in found.iter().filter(|line| !is_told(line)) {
                        println!("#   found:    {line}");
                    }
                }
            }
        }
        wrong += bad;
        let not = if bad == 0 { "" } else { "not " };
        let skip = match lacking {
            Some(why) if bad == 0 => format!(" # SKIP some: {why}"),
            _ => String::new(),
        };
        println!(
            "{not}ok {} - {}, {} cases{skip}",
            index + 1,
            group(&cases[0]),
            cases.len()
        );
    }
    println!(
        "# {} cases, {equal} equal, {explained} different with reasons, {wrong} unexplained, {left_out} left out",
        all.len()
    );
    Ok(wrong == 0)
}

/// The task that the arguments select.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Check,
    CheckSetUp,
    Print,
    PrintOurs,
}

fn run() -> Result<ExitCode> {
    let mut cases = cases::read(CASES)?;
    let mut task = Task::Check;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("a value is missing");
        match argument.as_str() {
            "--print" => task = Task::Print,
            "--ours" => task = Task::PrintOurs,
            "--set-up" => task = Task::CheckSetUp,
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
    if task == Task::Print {
        return Ok(if print(&cases, hardware_type)? {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(STOPPED)
        });
    }
    let Some(recording) = recording(reference::board(&Control::open()?)?) else {
        println!("KTAP version 1\n1..1\nok 1 - start # SKIP no answers are recorded of this board");
        return Ok(ExitCode::SUCCESS);
    };
    let mut tables = Tables {
        theirs: Table::read(recording.theirs)?,
        ours: Table::read(recording.ours)?,
        differences: compare::differences(DIFFERENCES)?,
    };
    if task == Task::PrintOurs {
        print_ours(&cases, hardware_type, &tables.theirs)?;
        return Ok(ExitCode::SUCCESS);
    }
    if task == Task::CheckSetUp {
        tables.differences.retain(Difference::is_set_up);
        cases.retain(|case| {
            tables
                .differences
                .iter()
                .any(|one| one.is_about(&case.name))
        });
        tables.differences.clear();
        tables.ours = Table::default();
    }
    Ok(if check(&cases, hardware_type, &tables)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        println!("KTAP version 1\n1..1\n# {error:#}\nnot ok 1 - start");
        ExitCode::FAILURE
    })
}
