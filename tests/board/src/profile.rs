// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/board profile`: counts the instructions of an operation by function.
//!
//! The guest repeats the operation. The runner makes QEMU's monitor log the address of each instruction for a few
//! seconds. Symbols come from the guest's `/proc/kallsyms`.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;

use crate::bench::NODE;
use crate::boards::Binding;
use crate::cli::ProfileArgs;
use crate::cli::Tools;
use crate::commands::conclude;
use crate::commands::guest_command;
use crate::etnaviv;
use crate::machine;
use crate::machine::Boot;
use crate::machine::Stream;
use crate::machine::Task;
use crate::machine::Watcher;
use crate::machine::Work;
use crate::signals::Signals;

/// Time limit of the measuring program.
const LIMIT: Duration = Duration::from_secs(900);
/// Line of the measuring program before it repeats an operation. The name follows.
const BEGINS: &str = "profile of ";
/// A file that the program writes: the guest's symbols.
const SYMBOLS: &str = "kallsyms";
/// Length of the log in time and in bytes.
const WATCHED: Duration = Duration::from_secs(3);
const ENOUGH: u64 = 256 << 20;
/// User space is below this address; the kernel's modules and the kernel are above.
const KERNEL: u64 = 0xBF00_0000;
/// Entry of system calls in the kernel.
const ENTRY: &str = "vector_swi";
/// Name for all of user space, at address 0.
const USER: &str = "(user space)";

/// Execution count of each address.
type Counts = HashMap<u64, u64>;

/// Function names by address.
type Symbols = BTreeMap<u64, String>;

/// Cost of a function.
#[derive(Debug, Default, PartialEq, Eq)]
struct Share {
    instructions: u64,
    entries: u64,
}

/// `scripts/board profile`
pub fn profile(tools: &Tools, arguments: &ProfileArgs, signals: &Signals) -> Result<u8> {
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => tools.top.join("out"),
    };
    let out = out.join("profile");
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let dir = tempfile::tempdir().context("a folder for QEMU's monitor")?;
    let monitor = dir.path().join("monitor");
    let program = tools.programs.join("galcore-bench");
    let mut command = vec![
        program.to_string_lossy().into_owned(),
        "--profile".to_string(),
        "--only".to_string(),
        arguments.operation.clone(),
    ];
    let modules = match &tools.build {
        Some(build) if arguments.operation.starts_with(NODE) => etnaviv::modules(build),
        _ => None,
    };
    if modules.is_some() {
        command.extend(["--peer".to_string(), etnaviv::FOLDER.to_string()]);
    }
    let (command, file) = guest_command(&command, tools.processor()?)?;
    let boot = Boot {
        board: arguments.board,
        binding: Binding::Dt,
        smp: 1,
        memory: 512,
        append: String::new(),
        tree: String::new(),
        dtb: String::new(),
        kunit: false,
        seed: Some(1),
        icount: true,
        trace: false,
        monitor: Some(monitor.clone()),
        insmod: String::new(),
        load: true,
        drm: false,
        files: file
            .into_iter()
            .chain(modules.unwrap_or_default())
            .collect(),
        work: Work::Programs(vec![Task {
            command,
            limit: LIMIT,
            files_to: out.clone(),
            module: None,
        }]),
        out,
    };
    let mut watcher = Profiler {
        monitor: &monitor,
        log: dir.path().join("executed"),
        line: Vec::new(),
        found: Ok(Vec::new()),
    };
    let outcome = machine::boot(&tools.assets(true)?, &boot, &mut watcher, signals)?;
    let found = watcher.found?;
    let status = conclude(&outcome, &boot.out);
    if status != 0 {
        return Ok(status);
    }
    ensure!(
        !found.is_empty(),
        "no operation's name begins with '{}'",
        arguments.operation
    );
    let path = boot.out.join(SYMBOLS);
    let symbols = symbols(&fs::read_to_string(&path).context(SYMBOLS)?)?;
    for (name, counts) in found {
        let text = table(&name, &shares(&counts, &symbols), arguments.lines)?;
        print!("{text}");
        if let Some(function) = &arguments.function {
            print!("{}", addresses(&counts, &symbols, function));
        }
    }
    Ok(0)
}

/// Counts instructions while the guest repeats an operation.
struct Profiler<'a> {
    monitor: &'a Path,
    log: PathBuf,
    line: Vec<u8>,
    found: Result<Vec<(String, Counts)>>,
}

impl Watcher for Profiler<'_> {
    fn output(&mut self, _task: usize, stream: Stream, bytes: &[u8]) {
        if stream != Stream::Err {
            return;
        }
        // For the user only; stderr may be closed.
        let _ = io::stderr().write_all(bytes);
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            if let Some(name) = line.strip_prefix(BEGINS) {
                let counts = watch(self.monitor, &self.log);
                match (counts, &mut self.found) {
                    (Ok(counts), Ok(found)) => found.push((name.to_string(), counts)),
                    (Err(error), Ok(_)) => self.found = Err(error),
                    (_, Err(_)) => {}
                }
            }
        }
    }
}

/// Makes QEMU log executed instructions for a while, and counts them.
fn watch(monitor: &Path, log: &Path) -> Result<Counts> {
    let mut monitor = UnixStream::connect(monitor).context("QEMU's monitor")?;
    let mut answers = monitor.try_clone()?;
    // Read its answers so that the pipe does not fill up.
    let reader = thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
    // Removes an old log, if there is one.
    let _ = fs::remove_file(log);
    writeln!(monitor, "logfile {}", log.display())?;
    writeln!(monitor, "one-insn-per-tb on")?;
    writeln!(monitor, "log exec,nochain")?;
    let start = Instant::now();
    while start.elapsed() < WATCHED && fs::metadata(log).map_or(0, |facts| facts.len()) < ENOUGH {
        thread::sleep(Duration::from_millis(20));
    }
    writeln!(monitor, "log none")?;
    writeln!(monitor, "one-insn-per-tb off")?;
    monitor.flush()?;
    thread::sleep(Duration::from_millis(200));
    monitor.shutdown(std::net::Shutdown::Both)?;
    // The result is only the monitor's output.
    let _ = reader.join();
    let file = File::open(log).context("QEMU wrote nothing down")?;
    let counts = counts(BufReader::new(file.take(2 * ENOUGH)))?;
    let _ = fs::remove_file(log);
    Ok(counts)
}

/// Parses the output of QEMU's `-d exec`: "Trace 0: HOST [CS/PC/FLAGS/CFLAGS] ".
fn counts(log: impl BufRead) -> Result<Counts> {
    let mut counts = Counts::new();
    for line in log.split(b'\n') {
        let line = line?;
        let field = || {
            let text = std::str::from_utf8(&line).ok()?;
            let (_, words) = text.strip_prefix("Trace ")?.split_once('[')?;
            u64::from_str_radix(words.split('/').nth(1)?, 16).ok()
        };
        if let Some(pc) = field() {
            *counts.entry(pc).or_default() += 1;
        }
    }
    ensure!(!counts.is_empty(), "QEMU wrote nothing down");
    Ok(counts)
}

/// Parses the functions of `/proc/kallsyms`.
fn symbols(text: &str) -> Result<Symbols> {
    let mut symbols = Symbols::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        // Names like "$a" mark the type of the code that follows.
        if !"tTwW".contains(kind) || name.starts_with('$') {
            continue;
        }
        let address = u64::from_str_radix(address, 16)?;
        symbols.insert(address, name.to_string());
    }
    if symbols.keys().all(|&address| address == 0) {
        bail!("the guest hides its symbols");
    }
    Ok(symbols)
}

/// The function that contains an address, and its start. User space counts as one function.
fn function(symbols: &Symbols, pc: u64) -> (u64, &str) {
    let kernel = (pc >= KERNEL).then(|| symbols.range(..=pc).next_back());
    match kernel.flatten() {
        Some((&start, name)) => (start, name),
        None => (0, USER),
    }
}

/// The demangled name, without hashes.
fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

fn shares(counts: &Counts, symbols: &Symbols) -> HashMap<String, Share> {
    let mut shares: HashMap<String, Share> = HashMap::new();
    for (&pc, &count) in counts {
        let (start, name) = function(symbols, pc);
        let share = shares.entry(demangled(name)).or_default();
        share.instructions += count;
        if start == pc {
            share.entries += count;
        }
    }
    shares
}

/// Formats the average cost of a system call as a table.
fn table(name: &str, shares: &HashMap<String, Share>, lines: usize) -> Result<String> {
    let calls = shares.get(ENTRY).map_or(0, |share| share.entries);
    ensure!(calls > 0, "{name}: no system call was seen");
    let each = |count: u64| count as f64 / calls as f64;
    let all: u64 = shares.values().map(|share| share.instructions).sum();
    let mut rows: Vec<_> = shares.iter().collect();
    rows.sort_by_key(|(name, share)| (std::cmp::Reverse(share.instructions), *name));
    let mut text = format!(
        "{name}: {:.0} instructions a system call, of {calls}\n{:>12} {:>8}  function\n",
        each(all),
        "instructions",
        "entries"
    );
    for (name, share) in rows.into_iter().take(lines) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:>12.1} {:>8.2}  {name}",
            each(share.instructions),
            each(share.entries)
        );
    }
    Ok(text)
}

/// Formats the execution count per system call of each instruction of a function, for use with a disassembly.
fn addresses(counts: &Counts, symbols: &Symbols, wanted: &str) -> String {
    let calls: u64 = counts
        .iter()
        .filter(|(&pc, _)| function(symbols, pc) == (pc, ENTRY))
        .map(|(_, &count)| count)
        .sum();
    let mut places: Vec<_> = counts
        .iter()
        .filter_map(|(&pc, &count)| {
            let (start, name) = function(symbols, pc);
            demangled(name)
                .contains(wanted)
                .then_some((name, pc - start, count))
        })
        .collect();
    places.sort_unstable();
    let mut text = String::new();
    for (name, offset, count) in places {
        let _ = writeln!(
            text,
            "{:>12.2}  {name}+{offset:#x}",
            count as f64 / calls.max(1) as f64
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "Trace 0: 0x7f00 [00000400/00000000c0000004/00000110/ff201001] \n\
                       Trace 0: 0x7f10 [00000400/c0000000/00000110/ff201001] \n\
                       Trace 0: 0x7f10 [00000400/00000000c0000000/00000110/ff201001] \n\
                       Stopped execution of TB chain before 0x7f00 [00c0000004] \n\
                       Trace 0: 0x7f20 [00000400/0000000000010000/00000110/ff201001] \n\
                       Trace 0: 0x7f30 [00000400/00000000bf000004/00000110/ff201001] \n";

    #[test]
    fn instructions_are_counted_by_function() {
        let counts = counts(LOG.as_bytes()).unwrap();
        let symbols = symbols(
            "c0000000 T vector_swi\nc0000002 t $a\nbf000000 t _RNvC7galcore4main\t[galcore]\n\
             c0000100 D jiffies\n",
        )
        .unwrap();
        let shares = shares(&counts, &symbols);
        let share = |instructions, entries| Share {
            instructions,
            entries,
        };
        assert_eq!(shares[ENTRY], share(3, 2));
        assert_eq!(shares[USER], share(1, 0));
        assert_eq!(shares["galcore::main"], share(1, 0));
        let text = table("x", &shares, 1).unwrap();
        assert!(
            text.starts_with("x: 2 instructions a system call, of 2\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3);
        let text = addresses(&counts, &symbols, "swi");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.ends_with("0.50  vector_swi+0x4\n"), "{text}");
    }

    #[test]
    fn nothing_seen_is_an_error() {
        assert!(counts("no trace\n".as_bytes()).is_err());
        assert!(symbols("00000000 T vector_swi\n").is_err());
        assert!(table("x", &HashMap::new(), 1).is_err());
    }
}
