// SPDX-License-Identifier: GPL-2.0-only
//! Running the checks of a program and telling about them in KTAP.
//!
//! ```text
//! KTAP version 1
//! 1..2
//! ok 1 - version is 4.6.9.1210
//! # found 3, wanted 4: cores
//! not ok 2 - one core
//! ```

use std::fmt::Debug;
use std::panic::catch_unwind;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::Result;
use galcore_client::device;
use galcore_client::uapi::Status;
use galcore_client::Error;

/// Longest time a program may take; then it gives up rather than hang. Seconds.
static LIMIT: AtomicU64 = AtomicU64::new(900);

/// Gives the program at least this long: for those that are told to do much.
pub fn allow(limit: Duration) {
    LIMIT.fetch_max(limit.as_secs(), Ordering::Relaxed);
}

/// The error of a test that cannot be tried here.
#[derive(Debug)]
pub struct Skip(pub String);

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// Ends a test that cannot be tried here.
pub fn skip<T>(reason: impl Into<String>) -> Result<T> {
    Err(Skip(reason.into()).into())
}

type Body<'a> = Box<dyn FnOnce() -> Result<()> + 'a>;

/// The tests of a program, in order.
#[derive(Default)]
pub struct Suite<'a> {
    tests: Vec<(String, Body<'a>)>,
}

impl<'a> Suite<'a> {
    /// No tests yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a test.
    pub fn test(
        &mut self,
        what: impl Into<String>,
        body: impl FnOnce() -> Result<()> + 'a,
    ) -> &mut Self {
        self.tests.push((what.into(), Box::new(body)));
        self
    }

    /// Leaves out the tests so far whose names do not have `part` in them.
    pub fn only(&mut self, part: &str) {
        self.tests.retain(|(what, _)| what.contains(part));
    }

    /// Runs all tests; true if none failed.
    pub fn run(self) -> Result<bool> {
        println!("KTAP version 1\n1..{}", self.tests.len());
        let mut good = true;
        for (index, (what, body)) in self.tests.into_iter().enumerate() {
            let number = index + 1;
            let begin = Instant::now();
            let result = catch_unwind(AssertUnwindSafe(body))
                .unwrap_or_else(|panic| Err(anyhow!("panic: {}", panic_text(&*panic))));
            let took = begin.elapsed();
            match result {
                Ok(()) => println!("ok {number} - {what}"),
                Err(error) => match error.downcast_ref::<Skip>() {
                    Some(reason) => println!("ok {number} - {what} # SKIP {reason}"),
                    None => {
                        good = false;
                        for line in format!("{error:#}").lines() {
                            println!("# {line}");
                        }
                        println!("not ok {number} - {what}");
                    }
                },
            }
            if took > Duration::from_secs(2) {
                println!("# took {:.1} s", took.as_secs_f64());
            }
        }
        Ok(good)
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()))
        .unwrap_or_default()
}

/// The end of a process that a test program started: what went wrong is told by its output.
pub fn exit(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The `main` of a test program: `body` makes the suite and runs it.
pub fn program(body: impl FnOnce() -> Result<bool>) -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(crate::foreign::ARGUMENT) {
        return crate::foreign::hold();
    }
    // Panics are reported as a failed test's text.
    std::panic::set_hook(Box::new(|info| {
        if let Some(place) = info.location() {
            println!("# panic at {place}");
        }
    }));
    std::thread::spawn(|| {
        let begin = Instant::now();
        while begin.elapsed().as_secs() < LIMIT.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_secs(1));
        }
        println!("Bail out! no end after {} s", begin.elapsed().as_secs());
        std::process::exit(1);
    });
    match body() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("KTAP version 1\n1..1");
            match error.downcast_ref::<Skip>() {
                Some(reason) => {
                    println!("ok 1 - start # SKIP {reason}");
                    ExitCode::SUCCESS
                }
                None => {
                    println!("# {error:#}\nnot ok 1 - start");
                    ExitCode::FAILURE
                }
            }
        }
    }
}

/// Fails unless the two are the same.
pub fn same<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Result<()> {
    if found != wanted {
        bail!("{what}: found {found:?}, wanted {wanted:?}");
    }
    Ok(())
}

/// As [`same`], printed as hexadecimal.
pub fn same_word(what: &str, found: u32, wanted: u32) -> Result<()> {
    if found != wanted {
        bail!("{what}: found {found:#010x}, wanted {wanted:#010x}");
    }
    Ok(())
}

/// Fails unless the command was answered with this status.
pub fn refused<T>(what: &str, result: device::Result<T>, wanted: Status) -> Result<()> {
    match result {
        Err(Error::Status(_, found)) => same(what, found, wanted),
        Err(error) => bail!("{what}: {error}, wanted status {wanted}"),
        Ok(_) => bail!("{what}: found status 0, wanted {wanted}"),
    }
}

/// Fails unless the ioctl failed with ENOTTY.
pub fn not_tty<T>(what: &str, result: std::io::Result<T>) -> Result<()> {
    match result {
        Ok(_) => bail!("{what}: ioctl succeeded, wanted ENOTTY"),
        Err(error) => same(what, error.raw_os_error(), Some(libc::ENOTTY)),
    }
}

/// Tries `condition` until it holds.
pub fn eventually(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let begin = Instant::now();
    while !condition()? {
        if begin.elapsed() > limit {
            bail!("{what}: not within {} ms", limit.as_millis());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// What `read` says when all that was let go of before has come back, or does not within some seconds.
pub fn at_rest<T>(mut read: impl FnMut() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    while crate::system::is_pending()? && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    read()
}

/// How long what the driver does behind the GPU may take without getting on.
const STANDSTILL: Duration = Duration::from_secs(20);

/// How long it may take in all.
const NEVER: Duration = Duration::from_secs(120);

/// Waits a little for `found` to become `wanted`: for what the driver does behind the GPU.
pub fn settles<T: PartialEq + Debug>(
    what: &str,
    wanted: T,
    mut found: impl FnMut() -> Result<T>,
) -> Result<()> {
    settles_while(what, wanted, || Ok((found()?, ())), String::new)
}

/// The same, as long as what is found, or what goes with it, changes; `why` says more if it does not any more.
pub fn settles_while<T: PartialEq + Debug, P: PartialEq>(
    what: &str,
    wanted: T,
    mut found: impl FnMut() -> Result<(T, P)>,
    why: impl FnOnce() -> String,
) -> Result<()> {
    let begin = Instant::now();
    let (mut last, mut moved) = (None, begin);
    loop {
        let now = found()?;
        if now.0 == wanted {
            return Ok(());
        }
        if last.as_ref() != Some(&now) {
            moved = Instant::now();
        }
        if moved.elapsed() > STANDSTILL || begin.elapsed() > NEVER {
            bail!("{what}: found {:?}, wanted {wanted:?} {}", now.0, why());
        }
        last = Some(now);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Options of a program: `--name value` for each of `known`, and what is left.
#[derive(Debug, Default)]
pub struct Options {
    values: Vec<(String, String)>,
    /// Words that belong to no option.
    pub rest: Vec<String>,
}

impl Options {
    /// Reads the command line. `known` are the options, each with a value.
    pub fn parse(known: &[&str]) -> Result<Self> {
        use lexopt::prelude::*;
        let mut options = Self::default();
        let mut parser = lexopt::Parser::from_env();
        while let Some(word) = parser.next()? {
            match word {
                Long(name) if known.contains(&name) => {
                    let name = name.to_string();
                    let value = parser.value()?.string()?;
                    options.values.push((name, value));
                }
                Value(value) => options.rest.push(value.string()?),
                other => {
                    println!("# options: {}", known.join(", "));
                    return Err(other.unexpected().into());
                }
            }
        }
        Ok(options)
    }

    /// The value of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of an option as a number.
    pub fn number(&self, name: &str, default: u32) -> Result<u32> {
        match self.get(name) {
            Some(value) => Ok(value.parse()?),
            None => Ok(default),
        }
    }
}
