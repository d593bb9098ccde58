// SPDX-License-Identifier: GPL-2.0-only
//! A program on a pseudo-terminal: its screen, its input and its exit.

use std::ffi::OsStr;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Read;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use rustix::event::poll;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

/// A terminal with a program. Dropping it kills the program.
pub struct Terminal {
    keyboard: File,
    screen: vt100::Parser,
    program: Child,
}

impl Terminal {
    /// Starts `command` on a terminal of `rows` and `columns`.
    pub fn start(command: &Command, rows: u16, columns: u16) -> Result<Self> {
        let keyboard = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        rustix::pty::grantpt(&keyboard)?;
        rustix::pty::unlockpt(&keyboard)?;
        let name = rustix::pty::ptsname(&keyboard, Vec::new())?;
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(OsStr::from_bytes(name.as_bytes()))
            .with_context(|| format!("{name:?}"))?;
        set_size(&keyboard, rows, columns)?;
        // The terminal becomes the controlling terminal of a new session, as in a shell.
        let program = Command::new("setsid")
            .arg("-c")
            .arg(command.get_program())
            .args(command.get_args())
            .env("TERM", "xterm")
            .stdin(terminal.try_clone()?)
            .stdout(terminal)
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self {
            keyboard: keyboard.into(),
            screen: vt100::Parser::new(rows.max(1), columns.max(1), 0),
            program,
        })
    }

    /// Sets the size of the emulated screen only, not of the terminal.
    pub fn screen_is(&mut self, rows: u16, columns: u16) {
        self.screen.set_size(rows, columns);
    }

    /// Changes the size of the terminal and of the screen.
    pub fn resize(&mut self, rows: u16, columns: u16) -> Result<()> {
        self.screen_is(rows, columns);
        set_size(&self.keyboard, rows, columns)
    }

    /// Types `keys`.
    pub fn press(&mut self, keys: &str) -> Result<()> {
        Ok(self.keyboard.write_all(keys.as_bytes())?)
    }

    /// The text on the screen, line by line.
    pub fn lines(&self) -> Vec<String> {
        let (_, columns) = self.screen.screen().size();
        self.screen.screen().rows(0, columns).collect()
    }

    /// Whether the program uses the alternate screen. The shell's screen returns after it.
    pub fn is_alternate(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    /// Waits up to `time` for output of the program and passes it to the screen.
    fn read_for(&mut self, time: Duration) -> Result<()> {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: time.as_nanos().min(999_999_999) as _,
        };
        let mut files = [PollFd::new(&self.keyboard, PollFlags::IN)];
        if poll(&mut files, Some(&timeout))? == 0 {
            return Ok(());
        }
        let mut bytes = [0; 4096];
        // EIO: no process has the terminal open any more.
        let count = self.keyboard.read(&mut bytes).unwrap_or(0);
        self.screen.process(&bytes[..count]);
        Ok(())
    }

    /// Waits until `wanted` accepts the lines on the screen; fails after `time` and prints them.
    pub fn shows(&mut self, time: Duration, wanted: impl Fn(&[String]) -> bool) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.read_for(Duration::from_millis(50))?;
            let lines = self.lines();
            if wanted(&lines) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("on the screen after {time:?}: {lines:#?}{}", self.errors()?);
            }
        }
    }

    /// The exit status of the program and its error output, if it has exited.
    fn errors(&mut self) -> Result<String> {
        let Some(status) = self.program.try_wait()? else {
            return Ok(String::new());
        };
        let mut text = String::new();
        if let Some(mut errors) = self.program.stderr.take() {
            errors.read_to_string(&mut text)?;
        }
        Ok(format!(", {status}: {text}"))
    }

    /// Waits until the program exits; fails after `time`.
    pub fn ends(&mut self, time: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + time;
        loop {
            self.read_for(Duration::from_millis(50))?;
            if let Some(status) = self.program.try_wait()? {
                // Read the last output.
                self.read_for(Duration::from_millis(50))?;
                return Ok(status);
            }
            if Instant::now() > end {
                bail!("it has not ended after {time:?}: {:#?}", self.lines());
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The program may have exited already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn set_size(terminal: &impl std::os::fd::AsFd, rows: u16, columns: u16) -> Result<()> {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}
