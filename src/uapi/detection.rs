// SPDX-License-Identifier: GPL-2.0-only

//! Detection of a file's generation of the interface: by the size of its first request and by
//! explicit settings. If several generations remain, its first commands decide.
//!
//! Also the ioctl's argument: where the request structure is, and where its answer goes.

use super::{
    malformed,
    OpenedFile,
    DETECTED,
    ENVELOPES, //
};
use crate::{
    abi::{
        self,
        detect::{
            self,
            Choice,
            Reason,
            LONG_BLOCK,
            SHORT_BLOCK, //
        },
        evidence::{
            Candidates,
            Detection, //
        },
        Format, //
    },
    log::{
        debug_client,
        warn_client,
        RateLimit,
        ThisProcess, //
    },
    prelude::*,
    sys::{
        chrdev::Caller,
        user::{
            self,
            UserWords, //
        }, //
    }, //
};

/// Rate limit for log lines about guesses.
static DETECTIONS: RateLimit = RateLimit::new();

impl OpenedFile {
    /// The generations in the parameter `interface`: for this program, and for all programs.
    fn of_parameter(&self) -> [Option<Choice>; 2] {
        let parameters = &self.clients.device().parameters;
        parameters.interface.of(self.process.command_name().bytes())
    }

    /// The file's generation; before its first command, the one in the parameter.
    pub(super) fn known_or_of_parameter(&self) -> Option<Choice> {
        let known = Choice::unpack(self.interface.load(Relaxed));
        known.or_else(|| self.of_parameter().into_iter().flatten().next())
    }

    /// Detects the file's generation by its first ioctls. Out of line, to keep later ioctls fast.
    #[cold]
    #[inline(never)]
    pub(super) fn detect_interface(&self, caller: Caller, at: usize) -> Result<Choice> {
        let known = self.interface.load(Relaxed);
        let candidates = Candidates::unpack(self.candidates.load(Relaxed));
        match Choice::unpack(known) {
            Some(guess) if candidates.is_any() && guess.reason != Reason::Asked => {
                let argument = Argument::read(at, guess.format(), caller)?;
                // Another size is no evidence; the caller refuses the request.
                if !guess
                    .format()
                    .takes(argument.input_bytes, argument.output_bytes)
                {
                    return Ok(guess);
                }
                // Racing threads may have stored a guess and candidates that do not match.
                let candidates = if candidates.has(guess) {
                    candidates
                } else {
                    Candidates::of_size(
                        guess.format().argument_bytes().into(),
                        argument.input_bytes,
                    )
                };
                let detection = match self.found_by_others() {
                    Some(choice) if candidates.has(choice) => Detection::certain(choice),
                    _ => self.weigh(guess, candidates, &argument)?,
                };
                Ok(self.note(known, detection, &argument))
            }
            _ => self.detect_first(known, caller, at),
        }
    }

    /// The generation that commands of another file of the process have identified.
    fn found_by_others(&self) -> Option<Choice> {
        let (choice, _) = self.process.interface()?;
        (choice.reason == Reason::Commands).then_some(choice)
    }

    /// Detects the generation by the first ioctl. `asked`: the client's own choice, packed.
    fn detect_first(&self, asked: u32, caller: Caller, at: usize) -> Result<Choice> {
        let (argument, block_bytes, short_sizes) = Argument::read_any(at, caller)?;
        let [of_program, of_all] = self.of_parameter();
        let model = self.clients.device().model();
        let choice = detect::choose(
            block_bytes,
            argument.input_bytes,
            argument.output_bytes,
            [
                Choice::unpack(asked),
                self.found_by_others(),
                of_program,
                of_all,
            ],
            model,
        );
        let Some(choice) = choice else {
            // Hexadecimal, because 32-bit ARM kernels have no 64-bit division.
            warn_client!(ENVELOPES:
                "an interface of {:#x} bytes in and {:#x} out, with an argument of {} bytes ({:#x} and {:#x} with an argument of {}): no generation has these sizes",
                argument.input_bytes, argument.output_bytes, block_bytes, short_sizes[0], short_sizes[1], SHORT_BLOCK);
            return Err(Error::Envelope);
        };
        if !choice.reason.is_guess() {
            return Ok(self.note(asked, Detection::certain(choice), &argument));
        }
        let fitting = detect::Fitting {
            block_bytes,
            bytes: argument.input_bytes,
        };
        let candidates = Candidates::of_size(block_bytes, argument.input_bytes);
        // Libraries send VERSION first, but only on the first file of a process.
        let first = match self.process.interface() {
            None => Self::by_first_command(block_bytes, &argument)?,
            Some(_) => None,
        };
        let detection = match first {
            Some(choice) => Detection::certain(choice),
            None if candidates.are_decided() => Detection::certain(choice),
            None => self.weigh(choice, candidates, &argument)?,
        };
        // Once for all files of the same generation.
        let of_others = self.process.interface().map(|(of, _)| of.format());
        if of_others != Some(detection.choice.format()) && DETECTIONS.allow() {
            pr_info!(
                "{ThisProcess}: {fitting} have interfaces of {} bytes; taken for {}{}: {} (the parameter `interface` selects another)\n",
                // It fits: no generation has a larger interface.
                u16::try_from(argument.input_bytes).unwrap_or(0),
                detection.choice.format().name(),
                if detection.is_final { "" } else { " so far" },
                detection.choice.reason.text()
            );
        }
        Ok(self.note(asked, detection, &argument))
    }

    /// The generation that the first command's number identifies, if any.
    fn by_first_command(block_bytes: usize, argument: &Argument) -> Result<Option<Choice>> {
        let mut room = UserWords::<1>::new();
        let words = room
            .read(argument.input, 4)
            .map_err(|_| malformed("the interface", argument.input))?;
        let command = word(words, 0);
        Ok(detect::by_first_command(
            block_bytes,
            argument.input_bytes,
            command,
        ))
    }

    /// Weighs a guess against the request at `argument`.
    fn weigh(&self, guess: Choice, left: Candidates, argument: &Argument) -> Result<Detection> {
        let mut room = UserWords::<{ abi::MAX_INTERFACE_BYTES / 4 }>::new();
        let bytes = usize::try_from(argument.input_bytes)
            .ok()
            .filter(|&bytes| bytes <= abi::MAX_INTERFACE_BYTES && bytes % 4 == 0)
            .ok_or(Error::Envelope)?;
        let words = room
            .read(argument.input, bytes)
            .map_err(|_| malformed("the interface", argument.input))?;
        let mut read = |at: u64, words: &mut [u32]| user::get(at, words).is_ok();
        let model = self.clients.device().model();
        Ok(left.weigh(guess, words, self.process.object_kinds(), model, &mut read))
    }

    /// Stores the detection in place of `known`. Returns the generation that the file has now.
    fn note(&self, known: u32, detection: Detection, argument: &Argument) -> Choice {
        let Detection {
            choice,
            left,
            is_final,
        } = detection;
        let mut now = choice.pack();
        if is_final {
            now |= DETECTED;
        } else {
            // Only a guess needs candidates.
            self.candidates.store(left.pack(), Relaxed);
        }
        // If another thread was faster, keep its result.
        if let Err(found) = self.interface.cmpxchg(known, now, Full) {
            return Choice::unpack(found).unwrap_or(choice);
        }
        let is_new = self.process.interface().is_none_or(|(of, _)| of != choice);
        let before = Choice::unpack(known).filter(|before| before.reason.is_guess());
        if before == Some(choice) {
            return choice;
        }
        // It fits: no generation has a larger interface.
        let bytes = u16::try_from(argument.input_bytes).unwrap_or(0);
        self.process.note_interface(choice, bytes);
        let format = choice.format();
        if let Some(before) = before.filter(|before| before.format() != format) {
            if DETECTIONS.allow() {
                pr_info!(
                    "{ThisProcess}: now taken for {}, no longer for {}: {}\n",
                    format.name(),
                    before.format().name(),
                    choice.reason.text()
                );
            }
        }
        if is_new {
            debug_client!(in Driver, "interface {} ({} bytes): {}",
                format.name(), bytes, choice.reason.text());
        }
        choice
    }
}

/// The ioctl's argument (`DRIVER_ARGS`).
pub(super) struct Argument {
    pub(super) input: usize,
    pub(super) input_bytes: u64,
    pub(super) output: usize,
    pub(super) output_bytes: u64,
}

impl Argument {
    /// The 16 bytes of the older generations.
    fn short(words: &[u32]) -> Self {
        Self {
            input: u32_as_usize(word(words, 0)),
            input_bytes: word(words, 4).into(),
            output: u32_as_usize(word(words, 8)),
            output_bytes: word(words, 12).into(),
        }
    }

    /// The 32 bytes of the newer generations.
    fn long(words: &[u32], caller: Caller) -> Self {
        let long = |at| u64::from(word(words, at)) | u64::from(word(words, at + 4)) << 32;
        // Old clients declare 32-bit pointers followed by padding, which may hold anything. Of a
        // 32-bit program use only the low halves.
        let address = |at| {
            if caller.is_32_bit() {
                u32_as_usize(word(words, at))
            } else {
                // CAST: 64 bits into as many.
                long(at) as usize
            }
        };
        Self {
            input: address(0),
            input_bytes: long(8),
            output: address(16),
            output_bytes: long(24),
        }
    }

    /// Reads the argument of a file of generation `format`.
    #[inline(always)]
    pub(super) fn read(at: usize, format: Format, caller: Caller) -> Result<Self> {
        let mut room = UserWords::<{ LONG_BLOCK / 4 }>::new();
        // The compiler optimizes copies of constant length.
        let argument = match usize::from(format.argument_bytes()) {
            SHORT_BLOCK => room.read(at, SHORT_BLOCK).map(|words| Self::short(words)),
            _ => room
                .read(at, LONG_BLOCK)
                .map(|words| Self::long(words, caller)),
        };
        argument.map_err(|_| malformed("the argument of the ioctl", at))
    }

    /// Reads the argument of a file whose generation is unknown. Also returns its length, and the
    /// two sizes that it has if it is short.
    pub(super) fn read_any(at: usize, caller: Caller) -> Result<(Self, usize, [u32; 2])> {
        let mut room = UserWords::<{ LONG_BLOCK / 4 }>::new();
        let unreadable = |_| malformed("the argument of the ioctl", at);
        let words = room.read(at, SHORT_BLOCK).map_err(unreadable)?;
        let short_sizes = [4, 12].map(|at| word(words, at));
        // Only 32-bit programs use the short argument: its pointers have 32 bits.
        if caller.is_32_bit() && detect::is_short_block([0, 4, 8, 12].map(|at| word(words, at))) {
            return Ok((Self::short(words), SHORT_BLOCK, short_sizes));
        }
        let words = room.read(at, LONG_BLOCK).map_err(unreadable)?;
        Ok((Self::long(words, caller), LONG_BLOCK, short_sizes))
    }

    /// Copies `bytes` bytes of `words` to the caller.
    #[inline]
    pub(super) fn answer(&self, words: &[u32], bytes: usize) -> Result {
        let answer = zerocopy::IntoBytes::as_bytes(words)
            .get(..bytes)
            .ok_or(Error::Envelope)?;
        UserSlice::new(UserPtr::from_addr(self.output), bytes)
            .writer()
            .write_slice(answer)
            .map_err(|_| malformed("the room for the answer", self.output))
    }
}

/// The word at a byte offset; 0 out of range.
pub(super) fn word(words: &[u32], at: usize) -> u32 {
    words.get(at / 4).copied().unwrap_or(0)
}
