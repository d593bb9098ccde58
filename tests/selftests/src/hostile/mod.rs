// SPDX-License-Identifier: GPL-2.0-only
//! Processes that harm others if they can, and innocent ones that must not be harmed.
//!
//! * [`innocent`]: has memory of all kinds with known contents, and measures how long the GPU takes for it.
//! * [`attacker`]: does one of many bad things, as often and as long as it is told.
//! * [`beside`]: what else happens while a request runs.
//! * [`gaps`]: threads of one process that meet in the middle of a request.
//! * [`delays`]: what costs others time.
//! * [`inversion`]: threads that seldom run and have what others wait for.
//! * [`views`]: mappings that show more than they should.
//! * [`waits`]: waits that must end.
//! * [`bounced`]: memory that goes to the GPU and back.
//! * [`random`]: all of it in turns.

pub mod attacker;
pub mod beside;
pub mod bounced;
pub mod delays;
pub mod gaps;
pub mod innocent;
pub mod inversion;
pub mod random;
pub mod views;
pub mod waits;

use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::Region;
use galcore_client::Abi;

use crate::harness::Stopwatch;
use crate::other;
use crate::other::Other;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Is one of the processes, if this is to be such a one.
pub fn role() -> Option<ExitCode> {
    other::role(|abi| {
        let mut innocent = innocent::State::default();
        let mut attacker = attacker::State::new(abi);
        other::serve(|words| match innocent.answer(words) {
            Some(answer) => answer,
            None => attacker.answer(words),
        })
    })
}

/// The number at `index` of a line's words.
pub fn number<T: std::str::FromStr>(words: &[&str], index: usize) -> Result<T> {
    let word = words.get(index).context("a word is missing")?;
    word.parse().ok().with_context(|| format!("{word:?}"))
}

/// How long it takes until a process that is killed has ended.
pub fn kill(victim: Other) -> Result<Duration> {
    let begin = Stopwatch::start();
    // With that it has also been waited for.
    victim.kill()?;
    Ok(begin.elapsed())
}

/// How long it takes at most until a process that has nothing to do with the driver has ended.
pub fn machine() -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        longest = longest.max(kill(Other::start(Abi::own())?)?);
    }
    Ok(longest)
}

/// Rounds of what [`slowness`] measures, few enough to be left alone on a busy machine now and then, and how long they
/// take on the machine that the bounds are made for.
const WORK: (u32, Duration) = (6, Duration::from_micros(5_000));

/// How often that is measured: the quickest counts.
const TRIES: u32 = 60;

/// However slow the machine is, no bound becomes so many times longer.
const SLOWEST: f64 = 6.0;

/// How many times slower this machine is than that one: 1 if it is not. Measured once, by what the kernel does without
/// the driver, and before that has anything to do.
fn slowness() -> Result<f64> {
    static FOUND: OnceLock<f64> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(*found);
    }
    let mut quickest = Duration::MAX;
    for _ in 0..TRIES {
        let begin = Instant::now();
        for _ in 0..WORK.0 {
            let region = Region::anonymous(8 * PAGE)?;
            for page in 0..8 {
                region.write(page * PAGE, 1);
            }
        }
        quickest = quickest.min(begin.elapsed());
    }
    let found = (quickest.as_secs_f64() / WORK.1.as_secs_f64()).clamp(1.0, SLOWEST);
    println!("# the machine takes {quickest:.1?}: bounds are {found:.1} times as long");
    Ok(*FOUND.get_or_init(|| found))
}

/// A bound for this machine.
pub fn here(bound: Duration) -> Result<Duration> {
    Ok(bound.mul_f64(slowness()?))
}
