// SPDX-License-Identifier: GPL-2.0-only
//! Runs the checks of a program and reports the results in KTAP.
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

use crate::control::Control;

/// The longest time that a program may take, in seconds. After it, the program gives up instead of hanging.
static LIMIT: AtomicU64 = AtomicU64::new(900);

/// Raises the time limit to at least `limit`, for programs whose arguments ask for much work.
pub fn allow(limit: Duration) {
    LIMIT.fetch_max(limit.as_secs(), Ordering::Relaxed);
}

/// The error of a test that cannot run on this machine.
#[derive(Debug)]
pub struct Skip(pub String);

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// Skips the current test, which cannot run on this machine.
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
    /// An empty suite.
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

    /// Removes all tests added so far whose names do not contain `part`.
    pub fn only(&mut self, part: &str) {
        self.tests.retain(|(what, _)| what.contains(part));
    }

    /// Runs all tests; returns true if none failed.
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

/// The exit code of a process that a test program started. Prints the error.
pub fn exit(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The `main` of a test program: `body` builds the suite and runs it.
pub fn program(body: impl FnOnce() -> Result<bool>) -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(crate::foreign::ARGUMENT) {
        return crate::foreign::hold();
    }
    // A panic fails the test, which reports the panic's text.
    std::panic::set_hook(Box::new(|info| {
        if let Some(place) = info.location() {
            println!("# panic at {place}");
        }
    }));
    std::thread::spawn(|| {
        let begin = Stopwatch::start();
        while !begin.is_over(Duration::from_secs(LIMIT.load(Ordering::Relaxed))) {
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

/// Fails unless the two values are equal.
pub fn same<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Result<()> {
    if found != wanted {
        bail!("{what}: found {found:?}, wanted {wanted:?}");
    }
    Ok(())
}

/// Like [`same`], for words that are printed in hexadecimal.
pub fn same_word(what: &str, found: u32, wanted: u32) -> Result<()> {
    if found != wanted {
        bail!("{what}: found {found:#010x}, wanted {wanted:#010x}");
    }
    Ok(())
}

/// Fails unless the driver answered the command with status `wanted`.
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

/// Measures time without the pauses in which the host kept the board waiting for a processor, as far as the software
/// GPU knows them.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    begin: Instant,
    waited: u32,
}

/// At least one part in `LEAST` of the wall-clock time counts, so that every wait ends.
const LEAST: u32 = 4;

impl Stopwatch {
    /// Starts the stopwatch.
    pub fn start() -> Self {
        let waited = host_wait();
        Self {
            begin: Instant::now(),
            waited,
        }
    }

    /// The time since the start that counts.
    pub fn elapsed(&self) -> Duration {
        let lost = self.lost();
        counted(self.begin.elapsed(), lost)
    }

    /// Whether more than `limit` has passed. Callers poll this often, so it reads the GPU's counter only if the wall
    /// clock is past the limit.
    pub fn is_over(&self, limit: Duration) -> bool {
        self.begin.elapsed() > limit && self.elapsed() > limit
    }

    /// How long the host has kept the board waiting since the start.
    pub fn lost(&self) -> Duration {
        let waited = host_wait().wrapping_sub(self.waited);
        Duration::from_millis(waited.into())
    }
}

/// How often [`bounded`] repeats a measurement that the host disturbed.
const SPOILT: u32 = 6;

/// Takes a longest delay from `measure` and fails if it exceeds the bound. If the host's pauses account for the excess,
/// the measurement is repeated. If the host disturbs every attempt, the test is skipped: the result says nothing about
/// the driver.
pub fn bounded(
    what: &str,
    bound: Duration,
    mut measure: impl FnMut() -> Result<Duration>,
) -> Result<()> {
    let mut last = (Duration::ZERO, Duration::ZERO);
    for _ in 0..SPOILT {
        let watch = Stopwatch::start();
        let took = measure()?;
        let lost = watch.lost();
        if took <= bound {
            return Ok(());
        }
        if took.saturating_sub(lost) > bound {
            bail!("{what} took {took:?}, the bound is {bound:?}, the host took {lost:?}");
        }
        last = (took, lost);
    }
    skip(format!(
        "the host is too busy: {what} took {:?}, of which it may have had {:?}",
        last.0, last.1
    ))
}

/// The part of the elapsed time that counts.
fn counted(passed: Duration, waited: Duration) -> Duration {
    passed.saturating_sub(waited).max(passed / LEAST)
}

/// Milliseconds for which the host has kept the board waiting, summed over all of its threads; 0 without a software
/// GPU.
fn host_wait() -> u32 {
    thread_local! {
        static CONTROL: Option<Control> = Control::open().ok();
    }
    CONTROL.with(|control| {
        let control = control.as_ref();
        control.map_or(0, |control| control.read(gpu_control::HOST_WAIT))
    })
}

/// Polls `condition` until it holds; fails after `limit`.
pub fn eventually(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let begin = Stopwatch::start();
    while !condition()? {
        if begin.is_over(limit) {
            bail!("{what}: not within {} ms", limit.as_millis());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Calls `read` once the driver has released everything that clients gave up, or after 10 seconds.
pub fn at_rest<T>(mut read: impl FnMut() -> Result<T>) -> Result<T> {
    let begin = Stopwatch::start();
    while crate::system::is_pending()? && !begin.is_over(Duration::from_secs(10)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    read()
}

/// How long the driver's deferred work may make no progress.
const STANDSTILL: Duration = Duration::from_secs(20);

/// How long the driver's deferred work may take in total.
const NEVER: Duration = Duration::from_secs(120);

/// Waits until `found` returns `wanted`, for work that the driver defers until the GPU is done.
pub fn settles<T: PartialEq + Debug>(
    what: &str,
    wanted: T,
    mut found: impl FnMut() -> Result<T>,
) -> Result<()> {
    settles_while(what, wanted, || Ok((found()?, ())), String::new)
}

/// Like [`settles`], but any change of the second value of `found` also counts as progress. `why` adds details to the
/// error.
pub fn settles_while<T: PartialEq + Debug, P: PartialEq>(
    what: &str,
    wanted: T,
    mut found: impl FnMut() -> Result<(T, P)>,
    why: impl FnOnce() -> String,
) -> Result<()> {
    let begin = Stopwatch::start();
    let (mut last, mut moved) = (None, begin);
    loop {
        let now = found()?;
        if now.0 == wanted {
            return Ok(());
        }
        if last.as_ref() != Some(&now) {
            moved = Stopwatch::start();
        }
        if moved.is_over(STANDSTILL) || begin.is_over(NEVER) {
            bail!("{what}: found {:?}, wanted {wanted:?} {}", now.0, why());
        }
        last = Some(now);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The options of a program: `--name value` for each known name, and the other words.
#[derive(Debug, Default)]
pub struct Options {
    values: Vec<(String, String)>,
    /// Words that belong to no option.
    pub rest: Vec<String>,
}

impl Options {
    /// Parses the command line. `known` lists the options; each takes a value.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_where_the_host_is_quiet() {
        let ms = Duration::from_millis;
        assert!(bounded("it", ms(5), || Ok(ms(5))).is_ok());
        // There is no software GPU here, so no pause of the host is known.
        let mut rounds = 0;
        let result = bounded("it", ms(5), || {
            rounds += 1;
            Ok(ms(6))
        });
        assert!(result.is_err_and(|error| error.downcast_ref::<Skip>().is_none()));
        assert_eq!(rounds, 1);
    }

    #[test]
    fn the_hosts_time_does_not_count() {
        let ms = Duration::from_millis;
        assert_eq!(counted(ms(500), ms(0)), ms(500));
        assert_eq!(counted(ms(500), ms(300)), ms(200));
        assert_eq!(counted(ms(500), ms(9000)), ms(125));
    }
}
