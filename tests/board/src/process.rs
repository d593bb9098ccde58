// SPDX-License-Identifier: GPL-2.0-only
//! Child processes that never outlive the runner.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::ChildStderr;
use std::process::ChildStdout;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;

/// How often a wait looks again.
const POLL: Duration = Duration::from_millis(5);

/// A child that is killed when this value goes.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `program` with pipes for its stdout and stderr and no stdin.
    ///
    /// It gets a process group of its own, so that Ctrl-C reaches the runner
    /// alone, which then ends things in order; and the kernel kills it should
    /// the runner die without a chance to.
    pub fn start<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Result<Process> {
        use std::os::unix::process::CommandExt;

        let mut command = match find("setpriv") {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Process { child })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its stdout; there once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its stderr; there once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end, `limit` at most.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            let status = self.ended();
            if status.is_some() || start.elapsed() >= limit {
                return status;
            }
            thread::sleep(POLL);
        }
    }

    /// Ends it now.
    pub fn kill(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program of that name in `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// Sends what `source` gives to `sender`, wrapped by `wrap`, until it ends or
/// nobody listens any more; then `last`.
pub fn forward<E: Send + 'static>(
    mut source: impl Read + Send + 'static,
    sender: SyncSender<E>,
    wrap: impl Fn(Vec<u8>) -> E + Send + 'static,
    last: E,
) {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    if sender.send(wrap(buffer[..count].to_vec())).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // Fails only if nobody listens.
        let _ = sender.send(last);
    });
}
