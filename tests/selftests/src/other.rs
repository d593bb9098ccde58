// SPDX-License-Identifier: GPL-2.0-only
//! A second process of the same program that executes commands line by line and answers each.

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

/// The second process. It ends when this is dropped.
#[derive(Debug)]
pub struct Other {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// First argument of the second process. The second argument is the name of the generation that it speaks.
pub const ARGUMENT: &str = "--other";

/// Runs `body` if the arguments ask for the second process. The process ends after it.
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

/// Duplicates a descriptor of another process.
pub fn descriptor_of(process: i32, descriptor: i32) -> Result<OwnedFd> {
    let id = Pid::from_raw(process).context("a process")?;
    let process = rustix::process::pidfd_open(id, PidfdFlags::empty())?;
    let flags = PidfdGetfdFlags::empty();
    Ok(rustix::process::pidfd_getfd(process, descriptor, flags)?)
}

impl Other {
    /// Starts the process. Its [`role`] must call [`serve`].
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

    /// Like [`Other::start`]; the process then changes to user `user`.
    pub fn start_as(abi: &Abi, user: u32) -> Result<Self> {
        let mut other = Self::start(abi)?;
        other.become_user(user)?;
        Ok(other)
    }

    /// Makes the process change to user `user`.
    pub fn become_user(&mut self, user: u32) -> Result<()> {
        let answer = self.ask(&format!("user {user}"))?;
        same("it", answer.as_str(), "changed")
    }

    /// Sends a command and returns the answer.
    pub fn ask(&mut self, what: &str) -> Result<String> {
        self.tell(what)?;
        self.answer().with_context(|| what.to_string())
    }

    /// Sends a command. The caller must take the answer later.
    pub fn tell(&mut self, what: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("no pipe")?;
        Ok(writeln!(input, "{what}")?)
    }

    /// Reads the answer to the oldest command without an answer.
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

    /// Kills the process at once.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        Ok(())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The process ends at the end of its standard input. A drop cannot report an error.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The first command.
const HELLO: &str = "hello";

/// The command loop of the second process: answers each line of standard input until its end.
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

/// Prints "busy", then fills a whole surface again and again for `seconds`. Keeps the core busy.
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
