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

/// Poll interval of a wait.
const POLL: Duration = Duration::from_millis(5);

/// A child that is killed when this value is dropped.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `program` with pipes for stdout and stderr, and without stdin.
    ///
    /// The child gets its own process group, so that Ctrl-C reaches only the runner, which then shuts down in order.
    /// If the runner dies, the kernel kills the child.
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

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its stdout. Available once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its stderr. Available once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end, at most `limit`.
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

    /// Kills it.
    pub fn kill(&mut self) {
        // This fails only if the child has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Finds a program in `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// Sends the data of `source` to `sender`, wrapped by `wrap`, until it ends or the receiver is gone. Then it sends
/// `last`.
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
        // This fails only if the receiver is gone.
        let _ = sender.send(last);
    });
}
