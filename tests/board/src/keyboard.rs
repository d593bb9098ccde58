// SPDX-License-Identifier: GPL-2.0-only
//! The user's terminal while it shows the guest's shell.

use std::io;
use std::io::IsTerminal;

use rustix::termios;
use rustix::termios::OptionalActions;
use rustix::termios::Termios;

/// Ctrl-A, the prefix of commands to the runner.
const ESCAPE: u8 = 0x01;

/// Ctrl-D, which ends a shell.
const END_OF_INPUT: u8 = 0x04;

/// Size for a terminal that reports none.
const DEFAULT_SIZE: (u16, u16) = (24, 80);

/// Rows and columns of the terminal.
pub fn size() -> (u16, u16) {
    match termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => DEFAULT_SIZE,
    }
}

/// A terminal in raw mode: without line editing and signals. Dropping this value restores the old mode.
pub struct RawTerminal {
    before: Option<Termios>,
}

impl RawTerminal {
    /// Switches the terminal on stdin to raw mode, if stdin is a terminal.
    pub fn enter() -> io::Result<RawTerminal> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(RawTerminal { before: None });
        }
        let before = termios::tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(&stdin, OptionalActions::Drain, &raw)?;
        Ok(RawTerminal {
            before: Some(before),
        })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // An error here means that the terminal is gone.
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Drain, before);
        }
    }
}

/// Input on the way to the guest. It is held until the shell is ready, and commands to the runner are removed.
#[derive(Default)]
pub struct Keyboard {
    held: Vec<u8>,
    escaped: bool,
    /// Whether the user typed Ctrl-A x.
    pub quit: bool,
}

impl Keyboard {
    /// Adds input. Commands are recognized only on a terminal.
    pub fn typed(&mut self, bytes: &[u8], terminal: bool) {
        if !terminal {
            self.held.extend_from_slice(bytes);
            return;
        }
        for &byte in bytes {
            match (self.escaped, byte) {
                (false, ESCAPE) => self.escaped = true,
                (false, _) => self.held.push(byte),
                (true, b'x' | b'X') => self.quit = true,
                (true, ESCAPE | b'a') => {
                    self.held.push(ESCAPE);
                    self.escaped = false;
                }
                (true, _) => self.escaped = false,
            }
        }
    }

    /// Marks the end of input.
    pub fn ended(&mut self) {
        self.held.push(END_OF_INPUT);
    }

    /// Takes the input that may go to the guest.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_out_on_a_terminal() {
        let mut keyboard = Keyboard::default();
        keyboard.typed(b"ls\x01", true);
        keyboard.typed(b"a\x01?x", true);
        assert_eq!(keyboard.take(), b"ls\x01x");
        assert!(!keyboard.quit);
        keyboard.typed(b"\x01x", true);
        assert!(keyboard.quit);
    }

    #[test]
    fn a_pipe_goes_through_as_it_is() {
        let mut keyboard = Keyboard::default();
        keyboard.typed(b"\x01x\n", false);
        keyboard.ended();
        assert_eq!(keyboard.take(), b"\x01x\n\x04");
        assert!(!keyboard.quit);
    }
}
