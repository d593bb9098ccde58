// SPDX-License-Identifier: GPL-2.0-only
//! The user's terminal while the guest's shell is on it.

use std::io;
use std::io::IsTerminal;

use rustix::termios;
use rustix::termios::OptionalActions;
use rustix::termios::Termios;

/// Ctrl-A, which begins a command to the runner.
const ESCAPE: u8 = 0x01;

/// Ctrl-D, which ends a shell.
const END_OF_INPUT: u8 = 0x04;

/// Size taken where the terminal does not tell one.
const DEFAULT_SIZE: (u16, u16) = (24, 80);

/// Rows and columns of the terminal.
pub fn size() -> (u16, u16) {
    match termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => DEFAULT_SIZE,
    }
}

/// A terminal without line editing and signals of its own; as before when
/// this value goes.
pub struct RawTerminal {
    before: Option<Termios>,
}

impl RawTerminal {
    /// Changes the terminal on stdin, if stdin is one.
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
            // Nothing can be done about a terminal that is gone.
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Drain, before);
        }
    }
}

/// What is typed on the way to the guest: held until the shell is there, with
/// the runner's own commands taken out.
#[derive(Default)]
pub struct Keyboard {
    held: Vec<u8>,
    escaped: bool,
    /// Ctrl-A x was typed.
    pub quit: bool,
}

impl Keyboard {
    /// Takes what was typed. Commands are known on a terminal only.
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

    /// Nothing more will be typed.
    pub fn ended(&mut self) {
        self.held.push(END_OF_INPUT);
    }

    /// What may go to the guest.
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
