// SPDX-License-Identifier: GPL-2.0-only

//! Detection of a file's generation of the interface: by the size of its first request and by
//! explicit settings. If several generations remain, its first commands decide.

use super::{
    argument::{
        word,
        Argument, //
    },
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
            SHORT_BLOCK, //
        },
        evidence::{
            Candidates,
            Detection, //
        }, //
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
        user::UserWords, //
    }, //
};
use kernel::uaccess::UserSlice;

/// Rate limit for log lines about guesses, shared by all processes.
static DETECTIONS: RateLimit = RateLimit::new();

impl OpenedFile {
    /// The generations in the parameter `interface`: for this program, and for all programs.
    fn of_parameter(&self) -> [Option<Choice>; 2] {
        let parameters = self.clients.device().parameters();
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
            warn_client!(
                ENVELOPES,
                "an interface of {:#x} bytes in and {:#x} out after an argument of {} ({:#x} and {:#x} if of {}): no generation of the interface has these",
                argument.input_bytes,
                argument.output_bytes,
                block_bytes,
                short_sizes[0],
                short_sizes[1],
                SHORT_BLOCK
            );
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
        // Only the first file of a process must begin with VERSION.
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
                "{ThisProcess}: {fitting} have interfaces of {} bytes; taken for {}{}: {} (parameter interface)\n",
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
        let mut read = |at: u64, words: &mut [u32]| {
            usize::try_from(at).is_ok_and(|at| {
                UserSlice::new(UserPtr::from_addr(at), core::mem::size_of_val(words))
                    .reader()
                    .read_slice(zerocopy::IntoBytes::as_mut_bytes(words))
                    .is_ok()
            })
        };
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
        let now = if is_final {
            choice.pack() | DETECTED
        } else {
            choice.pack()
        };
        // Only a guess needs candidates.
        if !is_final {
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
                    "{ThisProcess}: taken for {} now, not for {}: {}\n",
                    format.name(),
                    before.format().name(),
                    choice.reason.text()
                );
            }
        }
        if is_new {
            debug_client!(
                "interface {} ({} bytes): {}",
                format.name(),
                bytes,
                choice.reason.text()
            );
        }
        choice
    }
}
