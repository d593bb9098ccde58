// SPDX-License-Identifier: GPL-2.0-only
//! Processes that harm others if they can, and innocent ones that must not be harmed.
//!
//! * [`innocent`]: has memory of all kinds with known contents, and measures how long the GPU takes for it.
//! * [`attacker`]: does one of many bad things, as often and as long as it is told.
//! * [`beside`]: what else happens while a request runs.
//! * [`gaps`]: threads of one process that meet in the middle of a request.
//! * [`delays`]: what costs others time.
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
pub mod random;
pub mod views;
pub mod waits;

use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use galcore_client::Abi;

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
    let begin = Instant::now();
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
