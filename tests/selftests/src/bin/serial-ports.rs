// SPDX-License-Identifier: GPL-2.0-only
//! The runner's ports on a machine without virtio: all of them share one UART of an i.MX SoC, in frames.
//!
//! Runs as PID 1 of such a machine: starts `/init` again as its child, passes the ports' paths in its environment,
//! carries the ports' data, and reaps orphans. A signal from `/init` to all processes therefore does not end this
//! program. The board's device tree does not use the UART, so no kernel driver owns it: the program polls its registers
//! through `/dev/mem`.
//!
//! Arguments: ADDRESS PROGRAM

use std::ffi::OsStr;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::Region;
use gpu_control::frames;
use gpu_control::frames::Decoder;
use rustix::event::poll;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::fs::FileType;
use rustix::fs::Mode;
use rustix::pty::OpenptFlags;
use rustix::termios;
use rustix::termios::OptionalActions;

/// Polling interval of the UART while nothing is sent.
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// Bytes that one port sends before the next port has its turn.
const CHUNK: usize = 2048;

// Registers of the UART, and the bits in use.
const PAGE: usize = 4096;
const URXD: usize = 0x00;
const URXD_READY: u32 = 1 << 15;
const UTXD: usize = 0x40;
const UCR1: usize = 0x80;
const UCR1_ENABLE: u32 = 1;
const UCR2: usize = 0x84;
/// Eight bits, no handshake, receiver and transmitter on, no reset.
const UCR2_LINE: u32 = 1 << 14 | 1 << 5 | 1 << 2 | 1 << 1 | 1;
const UTS: usize = 0xb4;
const UTS_FULL: u32 = 1 << 4;

struct Uart(Region);

impl Uart {
    fn open(address: u64) -> Result<Self> {
        let memory = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_SYNC)
            .open("/dev/mem")
            .context("/dev/mem")?;
        let registers = Region::map(memory, PAGE, address)
            .with_context(|| format!("the UART at {address:#x}"))?;
        registers.write(UCR1, UCR1_ENABLE);
        registers.write(UCR2, UCR2_LINE);
        Ok(Uart(registers))
    }

    fn send(&self, bytes: &[u8]) {
        for &byte in bytes {
            while self.0.read(UTS) & UTS_FULL != 0 {}
            self.0.write(UTXD, byte.into());
        }
    }

    fn receive(&self) -> Option<u8> {
        let word = self.0.read(URXD);
        // CAST: the low byte is the data.
        (word & URXD_READY != 0).then_some(word as u8)
    }
}

/// A port. The guest writes to it and, if its path is a terminal, reads from it.
struct Port {
    file: File,
    /// Keeps the terminal from a hang-up while no program has it open.
    _other_end: Option<File>,
    path: String,
    /// Bytes for the guest that it has not read yet.
    pending: Vec<u8>,
}

impl Port {
    /// A port for both directions, raw unless a shell changes it.
    fn terminal() -> Result<Self> {
        let file = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        rustix::pty::grantpt(&file)?;
        rustix::pty::unlockpt(&file)?;
        let name = rustix::pty::ptsname(&file, Vec::new())?;
        let other_end = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(OsStr::from_bytes(name.as_bytes()))?;
        rustix::io::ioctl_fionbio(&file, true)?;
        Ok(Port {
            file: file.into(),
            _other_end: Some(other_end),
            path: name.into_string()?,
            pending: Vec::new(),
        })
    }

    fn make_raw(&self) -> Result<()> {
        let mut settings = termios::tcgetattr(&self.file)?;
        settings.make_raw();
        Ok(termios::tcsetattr(
            &self.file,
            OptionalActions::Now,
            &settings,
        )?)
    }

    /// A port to the runner only.
    fn pipe(name: &str) -> Result<Self> {
        let path = format!("/galcore/{name}");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .with_context(|| path.clone())?;
        // Also open for writing, so that there is no end of file while no program writes.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .with_context(|| path.clone())?;
        Ok(Port {
            file,
            _other_end: None,
            path,
            pending: Vec::new(),
        })
    }

    /// Reads some bytes from the guest. Returns 0 if there are none now.
    fn take(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self.file.read(buffer) {
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error).context(self.path.clone()),
        }
    }

    /// Writes pending bytes to the guest, as many as it accepts now.
    fn hand_on(&mut self) {
        while !self.pending.is_empty() {
            match self.file.write(&self.pending) {
                Ok(count) if count > 0 => drop(self.pending.drain(..count)),
                _ => break,
            }
        }
    }
}

fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let (Some(address), Some(program)) = (words.next(), words.next()) else {
        bail!("usage: serial-ports ADDRESS PROGRAM");
    };
    let address = address.to_str().and_then(|text| text.strip_prefix("0x"));
    let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let uart = Uart::open(address.context("ADDRESS is hexadecimal, 0x...")?)?;
    // In the runner's order.
    let mut ports = [
        Port::terminal()?,
        Port::pipe("stdout")?,
        Port::pipe("stderr")?,
        Port::pipe("result")?,
        Port::terminal()?,
    ];
    ports[0].make_raw()?;
    let mut init = Command::new(&program);
    let names = ["CONTROL", "STDOUT", "STDERR", "RESULT", "TERMINAL"];
    for (name, port) in names.iter().zip(&ports) {
        init.env(format!("PORT_{name}"), &port.path);
    }
    let init = init.spawn().with_context(|| format!("{program:?}"))?;
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; CHUNK];
    loop {
        let mut events = ports
            .iter()
            .map(|port| PollFd::new(&port.file, PollFlags::IN))
            .collect::<Vec<_>>();
        match poll(&mut events, Some(&TICK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for (port, number) in ports.iter_mut().zip(0u8..) {
            let count = port.take(&mut buffer)?;
            if count > 0 {
                uart.send(&frames::header(number, count));
                uart.send(&buffer[..count]);
            }
        }
        while let Some(byte) = uart.receive() {
            decoder.feed(&[byte], |number, data| {
                if let Some(port) = ports.get_mut(usize::from(number)) {
                    port.pending.extend_from_slice(data);
                }
            });
        }
        for port in &mut ports {
            port.hand_on();
        }
        while let Ok(Some((process, status))) =
            rustix::process::wait(rustix::process::WaitOptions::NOHANG)
        {
            let is_init = process.as_raw_nonzero().get() as u32 == init.id();
            ensure!(!is_init, "{program:?} has ended: {status:?}");
        }
    }
}
