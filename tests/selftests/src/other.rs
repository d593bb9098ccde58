// SPDX-License-Identifier: GPL-2.0-only
//! Another process of the same program, which does what it is told line by line, and answers.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::process::ChildStdout;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::Abi;
use galcore_client::Queue;
use rustix::process::Pid;
use rustix::process::PidfdFlags;
use rustix::process::PidfdGetfdFlags;

use crate::fixture::Paint;
use crate::harness::same;
use crate::system;

/// The other process. It ends with this.
#[derive(Debug)]
pub struct Other {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// First argument of the other process; the second is the name of the generation that it speaks.
pub const ARGUMENT: &str = "--other";

/// Runs `body` if this is to be the other process, which ends with it.
pub fn role(body: impl FnOnce(&'static Abi) -> Result<()>) -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(ARGUMENT) {
        return None;
    }
    let name = arguments.next().unwrap_or_default();
    let done = Abi::named(&name).context("a generation").and_then(body);
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// A copy of another process's descriptor.
pub fn descriptor_of(process: i32, descriptor: i32) -> Result<OwnedFd> {
    let id = Pid::from_raw(process).context("a process")?;
    let process = rustix::process::pidfd_open(id, PidfdFlags::empty())?;
    let flags = PidfdGetfdFlags::empty();
    Ok(rustix::process::pidfd_getfd(process, descriptor, flags)?)
}

impl Other {
    /// Starts it; it must call [`serve`] in its [`role`].
    pub fn start(abi: &Abi) -> Result<Self> {
        let mut child = system::again(&[ARGUMENT, abi.name])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut other = Self { child, output };
        same("the other process", other.ask(HELLO)?.as_str(), HELLO)?;
        Ok(other)
    }

    /// Starts it as [`Other::start`] does; then it becomes `user`.
    pub fn start_as(abi: &Abi, user: u32) -> Result<Self> {
        let mut other = Self::start(abi)?;
        other.become_user(user)?;
        Ok(other)
    }

    /// Has it become `user`.
    pub fn become_user(&mut self, user: u32) -> Result<()> {
        let answer = self.ask(&format!("user {user}"))?;
        same("it", answer.as_str(), "changed")
    }

    /// The answer to `what`.
    pub fn ask(&mut self, what: &str) -> Result<String> {
        self.tell(what)?;
        self.answer().with_context(|| what.to_string())
    }

    /// Has it do `what`; its answer is to be taken later.
    pub fn tell(&mut self, what: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("no pipe")?;
        Ok(writeln!(input, "{what}")?)
    }

    /// The answer to the oldest of what it was told.
    pub fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        let bytes = self.output.read_line(&mut line)?;
        ensure!(bytes > 0, "the other process has ended");
        let line = line.trim().to_string();
        ensure!(!line.starts_with("error"), "{line}");
        Ok(line)
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Kills it, whatever it does.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        Ok(())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The end of its standard input ends it; then there is nothing left to do about an error.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What is asked first.
const HELLO: &str = "hello";

/// Is the other process: answers the words of each line, until there are no more.
pub fn serve(mut answer: impl FnMut(&[&str]) -> Result<String>) -> Result<()> {
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            [HELLO] => Ok(HELLO.to_string()),
            _ => answer(&words),
        };
        match answer {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("error {error:#}"),
        }
    }
    Ok(())
}

/// Says "busy", then fills all of a canvas again and again for `seconds`: keeps the core busy.
pub fn keep_busy(seconds: &str) -> Result<String> {
    let mut paint = Paint::new()?;
    let stream = paint.fill_all(0x0505_0505);
    let seconds = Duration::from_secs(seconds.parse()?);
    println!("busy");
    let begin = Instant::now();
    while begin.elapsed() < seconds {
        paint.commit(&stream, &mut Queue::new())?;
    }
    Ok("idle".to_string())
}
