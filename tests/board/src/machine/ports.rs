// SPDX-License-Identifier: GPL-2.0-only
//! The guest's virtio-serial ports, and the events of the threads that read them.

use std::io;
use std::io::Read;
use std::io::Write;
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
use gpu_control::frames;
use gpu_control::frames::Decoder;

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

/// The socket that carries all ports on a machine without virtio.
pub const ALL_PORTS: &str = "ports";

/// Writes to the guest through one of its ports.
pub struct PortWriter {
    stream: UnixStream,
    /// The port's number, sent before the bytes if one stream carries all ports.
    number: Option<u8>,
}

impl Write for PortWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(number) = self.number else {
            return self.stream.write(bytes);
        };
        let bytes = &bytes[..bytes.len().min(frames::MOST)];
        let mut frame = frames::header(number, bytes.len()).to_vec();
        frame.extend_from_slice(bytes);
        self.stream.write_all(&frame)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// An event from a reading thread to the main loop.
pub enum Event {
    Connected(Port, PortWriter),
    Data(Port, Vec<u8>),
    Closed,
    Console(Vec<u8>),
    Model(Vec<u8>),
    Qemu(Vec<u8>),
    Typed(Vec<u8>),
    TypedEnd,
}

/// Waits for QEMU on the port's socket, then reads to the end.
pub fn listen(
    dir: &Path,
    port: Port,
    sender: SyncSender<Event>,
    stop: Arc<AtomicBool>,
) -> Result<()> {
    with_connection(dir, port.name(), stop, move |stream| {
        if !connected(&stream, port, None, &sender) {
            return;
        }
        process::forward(
            stream,
            sender,
            move |bytes| Event::Data(port, bytes),
            Event::Closed,
        );
    })
}

/// The same for the socket that carries all ports.
pub fn listen_to_all(dir: &Path, sender: SyncSender<Event>, stop: Arc<AtomicBool>) -> Result<()> {
    with_connection(dir, ALL_PORTS, stop, move |mut stream| {
        for (number, port) in (0..).zip(Port::ALL) {
            if !connected(&stream, port, Some(number), &sender) {
                return;
            }
        }
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let mut pieces = Vec::new();
            match stream.read(&mut buffer) {
                Ok(count) if count > 0 => decoder.feed(&buffer[..count], |number, data| {
                    let port = Port::ALL.get(usize::from(number));
                    pieces.extend(port.map(|&port| Event::Data(port, data.to_vec())));
                }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
            if pieces.into_iter().any(|piece| sender.send(piece).is_err()) {
                return;
            }
        }
        // This fails only if the receiver is gone.
        let _ = sender.send(Event::Closed);
    })
}

/// Passes the writer of a port to the main loop. Returns false if the receiver is gone.
fn connected(
    stream: &UnixStream,
    port: Port,
    number: Option<u8>,
    sender: &SyncSender<Event>,
) -> bool {
    let Ok(stream) = stream.try_clone() else {
        return true;
    };
    let writer = PortWriter { stream, number };
    sender.send(Event::Connected(port, writer)).is_ok()
}

/// Waits in a thread for QEMU on the socket `name`, then runs `work` there.
fn with_connection(
    dir: &Path,
    name: &str,
    stop: Arc<AtomicBool>,
    work: impl FnOnce(UnixStream) + Send + 'static,
) -> Result<()> {
    let listener = UnixListener::bind(dir.join(name))
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
        // A guest that does not read must not block the runner.
        let limit = stream.set_write_timeout(Some(Duration::from_secs(1)));
        if stream.set_nonblocking(false).is_ok() && limit.is_ok() {
            work(stream);
        }
    });
    Ok(())
}
