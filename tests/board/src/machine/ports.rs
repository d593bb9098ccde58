// SPDX-License-Identifier: GPL-2.0-only
//! The guest's virtio-serial ports and what the reading threads tell.

use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use crate::process;

/// The guest's virtio-serial ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    Control,
    Stdout,
    Stderr,
    Result,
    Terminal,
}

impl Port {
    pub const ALL: [Port; 5] = [
        Port::Control,
        Port::Stdout,
        Port::Stderr,
        Port::Result,
        Port::Terminal,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Port::Control => "control",
            Port::Stdout => "stdout",
            Port::Stderr => "stderr",
            Port::Result => "result",
            Port::Terminal => "terminal",
        }
    }
}

/// What the reading threads tell the main loop.
pub enum Event {
    Connected(Port, UnixStream),
    Data(Port, Vec<u8>),
    Closed,
    Console(Vec<u8>),
    Model(Vec<u8>),
    Qemu(Vec<u8>),
    Typed(Vec<u8>),
    TypedEnd,
}

/// Waits for QEMU on the port's socket, then reads it to its end.
pub fn listen(
    dir: &Path,
    port: Port,
    sender: SyncSender<Event>,
    stop: Arc<AtomicBool>,
) -> Result<()> {
    let listener = UnixListener::bind(dir.join(port.name()))
        .with_context(|| format!("cannot make a socket in {}", dir.display()))?;
    listener.set_nonblocking(true)?;
    thread::spawn(move || {
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if stop.load(Ordering::Relaxed) => return,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        };
        if stream.set_nonblocking(false).is_err() {
            return;
        }
        if let Ok(writer) = stream.try_clone() {
            if sender.send(Event::Connected(port, writer)).is_err() {
                return;
            }
        }
        process::forward(
            stream,
            sender,
            move |bytes| Event::Data(port, bytes),
            Event::Closed,
        );
    });
    Ok(())
}
