// SPDX-License-Identifier: GPL-2.0-only

//! The stream checker: one pass over a client's words before the GPU may see them.
//!
//! It runs on the kernel's own copy, so what was checked is what runs. It owns nothing and takes no
//! lock. Refused is what would give a process power over the machine (jumping, stopping the ring,
//! forging events, the kernel's registers) and what hangs real silicon (a draw in the wrong pipe, a
//! stall that nothing ends).

use super::words::{
    state,
    Opcode,
    Pipe,
    TOKEN_FE_TO_PE, //
};

/// Bit of a `LOAD_STATE` header: values are 16.16 numbers, to be converted to floating point.
const FIXP: u32 = 1 << 26;

/// Which engines a core has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Engines {
    /// The 3D pipe.
    pub(crate) pipe_3d: bool,
    /// The 2D pipe.
    pub(crate) pipe_2d: bool,
}

impl Engines {
    /// Whether `pipe` exists.
    pub(crate) fn has(self, pipe: Pipe) -> bool {
        match pipe {
            Pipe::Pipe3d => self.pipe_3d,
            Pipe::Pipe2d => self.pipe_2d,
        }
    }
}

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The opcode is the kernel's or unknown.
    Opcode,
    /// A command is longer than what is left of the stream.
    Truncated,
    /// A state that only the kernel writes (its word address).
    State(u32),
    /// A draw of one pipe while the other is selected.
    WrongPipe,
    /// A pipe that this core lacks.
    NoPipe,
    /// A pipe is selected while the other may still draw.
    BusyPipe,
    /// A stall on a token that no semaphore in the stream has armed.
    UnarmedStall,
}

/// A refused stream: what, and at which word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Index of the command's first word.
    pub(crate) at: usize,
    /// The command's first word.
    pub(crate) word: u32,
    /// What is wrong with it.
    pub(crate) fault: Fault,
}

/// From and to of a token.
const TOKEN_MASK: u32 = 0x1F1F;

/// Armed semaphores: one bit for each (from, to).
struct Tokens([u32; 32]);

impl Tokens {
    fn slot(token: u32) -> (usize, u32) {
        // CAST: five bits.
        ((token & 0x1F) as usize, 1 << ((token >> 8) & 0x1F))
    }

    /// Arms a token; says whether it was not armed.
    fn arm(&mut self, token: u32) -> bool {
        let (from, to) = Self::slot(token);
        let fresh = self.0[from] & to == 0;
        self.0[from] |= to;
        fresh
    }

    fn disarm(&mut self, token: u32) -> bool {
        let (from, to) = Self::slot(token);
        let armed = self.0[from] & to != 0;
        self.0[from] &= !to;
        armed
    }
}

/// Whether a client may load state `address` (a word address).
fn is_kernel_state(address: u32) -> bool {
    (2..state::FIRST_ENGINE).contains(&address)
        || address == state::FE_CMD_STREAM_BASE_ADDR
        || (state::FE_COMMAND_ADDRESS..=state::FE_DMA_HIGH).contains(&address)
        || address == state::GL_EVENT
        || address == state::GL_FLUSH_MMU
}

/// One pass over a stream.
struct Checker<'a> {
    words: &'a [u32],
    engines: Engines,
    pipe: Pipe,
    tokens: Tokens,
    /// The pixel engine may have work.
    busy: bool,
    /// The semaphore to the pixel engine was armed behind all of that work.
    covered: bool,
}

impl Checker<'_> {
    /// Checks the command at word `at` and returns its length in words.
    fn command(&mut self, at: usize) -> Result<usize, Fault> {
        let first = self.words[at];
        match Opcode::of(first) {
            Opcode::LoadState => self.load_state(at),
            Opcode::Nop => Ok(2),
            Opcode::Draw2d => {
                self.draw(Pipe::Pipe2d)?;
                // CAST: eight and eleven bits.
                let rects = match (first >> 8) & 0xFF {
                    0 => 256,
                    n => n as usize,
                };
                let data = ((first >> 16) & 0x7FF) as usize;
                Ok(2 + 2 * rects + data.next_multiple_of(2))
            }
            Opcode::DrawPrimitives | Opcode::DrawInstanced => {
                self.draw(Pipe::Pipe3d)?;
                Ok(4)
            }
            Opcode::DrawIndexed => {
                self.draw(Pipe::Pipe3d)?;
                Ok(6)
            }
            Opcode::Stall => {
                let token = *self.words.get(at + 1).ok_or(Fault::Truncated)?;
                self.stall(token)?;
                Ok(2)
            }
            Opcode::Other(_) => Err(Fault::Opcode),
        }
    }

    fn load_state(&mut self, at: usize) -> Result<usize, Fault> {
        let header = self.words[at];
        // With FIXP the hardware stores another value than the one that stands here.
        let converted = header & FIXP != 0;
        let mut address = header & 0xFFFF;
        // CAST: ten bits.
        let count = match (header >> 16) & 0x3FF {
            0 => 1024,
            n => n as usize,
        };
        let words = self.words;
        let values = words.get(at + 1..at + 1 + count).ok_or(Fault::Truncated)?;
        for &value in values {
            // States 0 and 1 do nothing from a stream; clients load them one at a time as a delay.
            if is_kernel_state(address) || (address < 2 && count > 1) || address > 0xFFFF {
                return Err(Fault::State(address));
            }
            match address {
                state::GL_PIPE_SELECT
                | state::GL_SEMAPHORE_TOKEN
                | state::GL_STALL_TOKEN
                | state::RS_KICKER
                    if converted =>
                {
                    return Err(Fault::State(address));
                }
                state::GL_PIPE_SELECT => {
                    if self.busy {
                        return Err(Fault::BusyPipe);
                    }
                    self.pipe = Pipe::from_number(value & 1).ok_or(Fault::NoPipe)?;
                    if !self.engines.has(self.pipe) {
                        return Err(Fault::NoPipe);
                    }
                }
                state::GL_SEMAPHORE_TOKEN => {
                    // Armed twice, the stall may match the first.
                    let fresh = self.tokens.arm(value);
                    self.covered |= fresh && value & TOKEN_MASK == TOKEN_FE_TO_PE;
                }
                state::GL_STALL_TOKEN => self.stall(value)?,
                state::RS_KICKER => self.draw(Pipe::Pipe3d)?,
                _ => {}
            }
            address += 1;
        }
        Ok((1 + count).next_multiple_of(2))
    }

    fn stall(&mut self, token: u32) -> Result<(), Fault> {
        if self.tokens.disarm(token) {
            if token & TOKEN_MASK == TOKEN_FE_TO_PE && self.covered {
                self.busy = false;
            }
            Ok(())
        } else {
            Err(Fault::UnarmedStall)
        }
    }

    fn draw(&mut self, pipe: Pipe) -> Result<(), Fault> {
        self.busy = true;
        self.covered = false;
        if self.pipe == pipe {
            Ok(())
        } else {
            Err(Fault::WrongPipe)
        }
    }
}

/// What a checked stream leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The selected pipe.
    pub(crate) pipe: Pipe,
    /// The semaphore from the front end to the pixel engine is armed.
    pub(crate) armed: bool,
}

/// Checks `words`, entered with `entry` selected, for a core with `engines`.
pub(crate) fn check(words: &[u32], engines: Engines, entry: Pipe) -> Result<Exit, Refusal> {
    let refuse = |at: usize, fault| Refusal {
        at,
        word: words.get(at).copied().unwrap_or(0),
        fault,
    };
    if !engines.has(entry) {
        return Err(refuse(0, Fault::NoPipe));
    }
    let mut checker = Checker {
        words,
        engines,
        pipe: entry,
        tokens: Tokens([0; 32]),
        // The kernel drains behind every stream.
        busy: false,
        covered: false,
    };
    let mut at = 0;
    while at < words.len() {
        let len = checker.command(at).map_err(|fault| refuse(at, fault))?;
        if words.len() - at < len {
            return Err(refuse(at, Fault::Truncated));
        }
        at += len;
    }
    Ok(Exit {
        pipe: checker.pipe,
        armed: checker.tokens.disarm(TOKEN_FE_TO_PE),
    })
}

#[kernel::macros::kunit_tests(galcore_checker)]
mod tests {
    use super::super::words::{
        link,
        load_state,
        select_pipe,
        END,
        STALL,
        WAIT, //
    };
    use super::*;
    use kernel::prelude::*;

    const BOTH: Engines = Engines {
        pipe_3d: true,
        pipe_2d: true,
    };
    const ONLY_3D: Engines = Engines {
        pipe_3d: true,
        pipe_2d: false,
    };

    fn exit(pipe: Pipe) -> Exit {
        Exit { pipe, armed: false }
    }

    fn fault(words: &[u32], entry: Pipe) -> Option<Fault> {
        check(words, BOTH, entry).err().map(|refusal| refusal.fault)
    }

    #[test]
    fn an_empty_stream_is_fine() {
        assert_eq!(check(&[], BOTH, Pipe::Pipe2d), Ok(exit(Pipe::Pipe2d)));
    }

    #[test]
    fn the_kernels_opcodes_are_refused() {
        for word in [
            END,
            WAIT,
            link(0x1000, 8),
            10 << 27,
            11 << 27,
            13 << 27,
            0,
            !0,
        ] {
            assert_eq!(fault(&[word, 0], Pipe::Pipe3d), Some(Fault::Opcode));
        }
    }

    #[test]
    fn the_kernels_states_are_refused() {
        for byte in [
            0x8, 0x180, 0x184, 0x400, 0x5FC, 0x640, 0x654, 0x66C, 0x3804, 0x3810,
        ] {
            let address = state::word(byte);
            assert_eq!(
                fault(&[load_state(address, 1), 0], Pipe::Pipe3d),
                Some(Fault::State(address))
            );
        }
        // As one of several, too: 0x3800 is allowed, 0x3804 behind it is not.
        let words = [load_state(state::GL_PIPE_SELECT, 2), 0, 0, 0];
        assert_eq!(
            fault(&words, Pipe::Pipe3d),
            Some(Fault::State(state::GL_EVENT))
        );
    }

    #[test]
    fn the_delay_states_are_accepted_alone() {
        let words = [load_state(0, 1), 0, load_state(1, 1), 0];
        assert_eq!(check(&words, BOTH, Pipe::Pipe2d), Ok(exit(Pipe::Pipe2d)));
        assert_eq!(
            fault(&[load_state(0, 2), 0, 0, 0], Pipe::Pipe2d),
            Some(Fault::State(0))
        );
    }

    #[test]
    fn truncated_commands_are_refused() {
        assert_eq!(
            fault(&[load_state(0x600, 3), 0], Pipe::Pipe3d),
            Some(Fault::Truncated)
        );
        // 1 + 2 words are padded to 4.
        assert_eq!(
            fault(&[load_state(0x600, 2), 0, 0], Pipe::Pipe3d),
            Some(Fault::Truncated)
        );
        assert_eq!(
            fault(&[0x2000_0100, 0, 0], Pipe::Pipe2d),
            Some(Fault::Truncated)
        );
        // A count of 0 is 1024 values.
        assert_eq!(
            fault(&[load_state(0x600, 0), 0], Pipe::Pipe3d),
            Some(Fault::Truncated)
        );
    }

    #[test]
    fn a_state_address_does_not_wrap() {
        assert_eq!(
            fault(&[load_state(0xFFFF, 2), 0, 0, 0], Pipe::Pipe3d),
            Some(Fault::State(0x1_0000))
        );
    }

    #[test]
    fn draws_need_their_pipe() {
        let draw_2d = [0x2000_0100, 0, 0, 0x0010_0010];
        let draw_3d = [5 << 27, 4, 0, 1];
        assert_eq!(check(&draw_2d, BOTH, Pipe::Pipe2d), Ok(exit(Pipe::Pipe2d)));
        assert_eq!(check(&draw_3d, BOTH, Pipe::Pipe3d), Ok(exit(Pipe::Pipe3d)));
        assert_eq!(fault(&draw_2d, Pipe::Pipe3d), Some(Fault::WrongPipe));
        assert_eq!(fault(&draw_3d, Pipe::Pipe2d), Some(Fault::WrongPipe));
        assert_eq!(
            check(&draw_2d, ONLY_3D, Pipe::Pipe2d)
                .err()
                .map(|r| r.fault),
            Some(Fault::NoPipe)
        );
    }

    #[test]
    fn a_pipe_switch_is_followed() {
        let switch = select_pipe(0xB, Pipe::Pipe2d);
        assert_eq!(check(&switch, BOTH, Pipe::Pipe3d), Ok(exit(Pipe::Pipe2d)));
        assert_eq!(
            check(&switch, ONLY_3D, Pipe::Pipe3d)
                .err()
                .map(|r| (r.at, r.fault)),
            Some((6, Fault::NoPipe))
        );
    }

    #[test]
    fn a_pipe_switch_waits_for_the_draws() {
        let draw = [0x2000_0100, 0, 0, 0x0010_0010];
        let select = [load_state(state::GL_PIPE_SELECT, 1), 0];
        let arm = [load_state(state::GL_SEMAPHORE_TOKEN, 1), TOKEN_FE_TO_PE];
        let stall = [STALL, TOKEN_FE_TO_PE];
        let stream = |parts: &[&[u32]]| {
            let mut words: KVec<u32> = KVec::new();
            for part in parts {
                words.extend_from_slice(part, GFP_KERNEL).unwrap();
            }
            words
        };
        let good = stream(&[&draw, &arm, &stall, &select]);
        assert_eq!(check(&good, BOTH, Pipe::Pipe2d), Ok(exit(Pipe::Pipe3d)));
        assert_eq!(
            check(&arm, BOTH, Pipe::Pipe2d).map(|exit| exit.armed),
            Ok(true)
        );
        // The semaphore before the draw says nothing about it.
        for bad in [
            stream(&[&draw, &select]),
            stream(&[&arm, &draw, &stall, &select]),
            stream(&[&draw, &arm, &stall, &draw, &select]),
            stream(&[&arm, &draw, &arm, &stall, &select]),
        ] {
            assert_eq!(fault(&bad, Pipe::Pipe2d), Some(Fault::BusyPipe));
        }
    }

    #[test]
    fn control_states_are_not_converted() {
        for address in [
            state::GL_PIPE_SELECT,
            state::GL_SEMAPHORE_TOKEN,
            state::RS_KICKER,
        ] {
            assert_eq!(
                fault(&[load_state(address, 1) | FIXP, 1], Pipe::Pipe3d),
                Some(Fault::State(address))
            );
        }
        let words = [load_state(0x600, 1) | FIXP, 1];
        assert_eq!(check(&words, BOTH, Pipe::Pipe3d), Ok(exit(Pipe::Pipe3d)));
    }

    #[test]
    fn a_stall_needs_its_semaphore() {
        let armed = [
            load_state(state::GL_SEMAPHORE_TOKEN, 1),
            TOKEN_FE_TO_PE,
            STALL,
            TOKEN_FE_TO_PE,
        ];
        assert_eq!(check(&armed, BOTH, Pipe::Pipe3d), Ok(exit(Pipe::Pipe3d)));
        assert_eq!(fault(&armed[2..], Pipe::Pipe3d), Some(Fault::UnarmedStall));
        let twice = [armed[0], armed[1], armed[2], armed[3], armed[2], armed[3]];
        assert_eq!(fault(&twice, Pipe::Pipe3d), Some(Fault::UnarmedStall));
    }
}
