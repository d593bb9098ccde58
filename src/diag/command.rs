// SPDX-License-Identifier: GPL-2.0-only

//! The commands of `/proc/driver/gc`, as the vendor's driver of Dove reads them.
//!
//! Pure logic. What is written need not end with a newline or a zero. It is matched by how it
//! begins, in the order of [`NAMES`], then of [`DIVIDERS`]: so `restart` is `re`, and all that
//! begins with 1 but is not 16... is the full clock. Source: sources.md, /proc.

/// The command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Lines that a process causes name more of it, or no longer.
    PrintPid,
    /// Starts or stops logging the cores' power.
    PowerDebug,
    /// How the vendor's driver measures idle times: step, slice, tail slice, threshold, as many of
    /// them as are given.
    Profile([Option<u32>; 4]),
    /// Some LINKs lead nowhere, or no longer.
    Hang,
    /// The cores are reset.
    Reset,
    /// That many of 2^32 allocations fail.
    MemFail(u32),
    /// The cores raise interrupts, or do not.
    Interrupts(bool),
    /// Errors and warnings are printed, or are not.
    Log(bool, bool),
    /// Cores that hang are reset by themselves, or are left as they are.
    SilentReset(bool),
    /// Commands are printed, or are not.
    DumpCommands(bool),
    /// Registers are printed, and jobs under way with their words.
    DumpAll,
    /// Cores that go off lose no more than their clocks, or lose their power again.
    ClockOffOnly,
    /// Cores stay on, or no longer.
    OffIdle,
    /// Idle cores go off.
    Su,
    /// They go on.
    Re,
    /// They go off and on that many times.
    Stress(u32),
    /// How much is printed for debugging, and of which parts of the driver.
    Debug(Level, u32),
    /// The clocks are divided by this.
    Divide(u32),
}

/// The levels of `debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Level {
    None,
    Error,
    Warning,
    Info,
    Verbose,
}

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A command.
    Do(Command),
    /// One whose numbers are missing, or are none that it takes.
    BadNumbers(&'static str),
    /// None.
    Nothing,
}

/// Parses the text after a name.
type Read = fn(Numbers<'_>) -> Option<Command>;

/// How commands begin.
const NAMES: [(&str, Read); 17] = [
    ("printPID", |_| Some(Command::PrintPid)),
    ("powerDebug", |_| Some(Command::PowerDebug)),
    ("profile", |mut numbers| {
        let mut all = [Some(numbers.next()?), None, None, None];
        for number in &mut all[1..] {
            *number = numbers.next();
            if number.is_none() {
                break;
            }
        }
        Some(Command::Profile(all))
    }),
    ("hang", |_| Some(Command::Hang)),
    ("reset2", |_| Some(Command::Reset)),
    ("memFail", |mut numbers| {
        Some(Command::MemFail(numbers.next()?))
    }),
    ("irq", |mut numbers| {
        Some(Command::Interrupts(numbers.switch()?))
    }),
    ("log", |mut numbers| {
        let bits = numbers.next()?;
        Some(Command::Log(bits & 1 != 0, bits & 2 != 0))
    }),
    ("silentReset", |mut numbers| {
        Some(Command::SilentReset(numbers.switch()?))
    }),
    ("dumpCmdBuf", |mut numbers| {
        Some(Command::DumpCommands(numbers.switch()?))
    }),
    ("dumpall", |_| Some(Command::DumpAll)),
    ("clkoffonly", |_| Some(Command::ClockOffOnly)),
    ("offidle", |_| Some(Command::OffIdle)),
    ("su", |_| Some(Command::Su)),
    ("re", |_| Some(Command::Re)),
    ("stress", |mut numbers| {
        Some(Command::Stress(numbers.next()?))
    }),
    ("debug", |mut numbers| {
        Some(Command::Debug(numbers.level()?, numbers.next()?))
    }),
];

/// How the clock's dividers begin.
const DIVIDERS: [(&str, u32); 7] = [
    ("16", 16),
    ("32", 32),
    ("64", 64),
    ("1", 1),
    ("2", 2),
    ("4", 4),
    ("8", 8),
];

/// Numbers in a text, with white space between them: decimal, or hexadecimal with `0x` in front.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    /// The next one. `None`: there is none, or it has more than 32 bits.
    fn next(&mut self) -> Option<u32> {
        let text = self.0.trim_ascii_start();
        let (base, digits) = match text {
            [b'0', b'x' | b'X', digits @ ..] => (16, digits),
            digits => (10, digits),
        };
        let digit = |byte: u8| char::from(byte).to_digit(base);
        let length = digits.iter().take_while(|&&byte| digit(byte).is_some());
        let (digits, rest) = digits.split_at(length.count());
        self.0 = rest;
        if digits.is_empty() {
            return None;
        }
        digits.iter().try_fold(0u32, |number, &byte| {
            number.checked_mul(base)?.checked_add(digit(byte)?)
        })
    }

    /// The next one, as a level.
    fn level(&mut self) -> Option<Level> {
        let text = self.0.trim_ascii_start();
        if let Some(rest) = text.strip_prefix(b"-") {
            self.0 = rest;
            return (self.next()? == 1).then_some(Level::None);
        }
        match self.next()? {
            0 => Some(Level::Error),
            1 => Some(Level::Warning),
            2 => Some(Level::Info),
            3 => Some(Level::Verbose),
            _ => None,
        }
    }

    /// The next one, which is 0 or 1.
    fn switch(&mut self) -> Option<bool> {
        match self.next()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// What `text` says.
pub(super) fn read(text: &[u8]) -> Said {
    for (name, read) in NAMES {
        if let Some(rest) = text.strip_prefix(name.as_bytes()) {
            return match read(Numbers(rest)) {
                Some(command) => Said::Do(command),
                None => Said::BadNumbers(name),
            };
        }
    }
    let divider = DIVIDERS
        .iter()
        .find(|(name, _)| text.starts_with(name.as_bytes()));
    match divider {
        Some(&(_, divider)) => Said::Do(Command::Divide(divider)),
        None => Said::Nothing,
    }
}

#[kernel::macros::kunit_tests(galcore_proc_command)]
mod tests {
    use super::*;

    fn does(text: &str, command: Command) -> bool {
        read(text.as_bytes()) == Said::Do(command)
    }

    #[test]
    fn commands_are_known_by_how_they_begin() {
        assert!(does("printPID\n", Command::PrintPid));
        assert!(does("printPIDs", Command::PrintPid));
        assert!(does("hang", Command::Hang));
        assert!(does("reset2", Command::Reset));
        // What is tested before `re` is more than it.
        assert!(does("reset", Command::Re));
        assert!(does("su", Command::Su));
        assert!(does("dumpall", Command::DumpAll));
        assert!(does("clkoffonly", Command::ClockOffOnly));
        assert!(does("offidle\0\0", Command::OffIdle));
        for text in ["", "\n", " hang", "Hang", "printpid", "0", "3", "\u{ff}"] {
            assert_eq!(read(text.as_bytes()), Said::Nothing);
        }
    }

    #[test]
    fn numbers_are_behind_them() {
        assert!(does(
            "profile 1 0x20\t3  4\n",
            Command::Profile([1, 32, 3, 4].map(Some))
        ));
        assert!(does(
            "profile 1 2 x 4",
            Command::Profile([Some(1), Some(2), None, None])
        ));
        assert!(does("memFail 0xFFFFFFFF", Command::MemFail(u32::MAX)));
        assert!(does("memFail0", Command::MemFail(0)));
        assert!(does("irq 0", Command::Interrupts(false)));
        assert!(does("irq 1\n", Command::Interrupts(true)));
        assert!(does("log 0", Command::Log(false, false)));
        assert!(does("log 1", Command::Log(true, false)));
        assert!(does("log 2", Command::Log(false, true)));
        assert!(does("log 3", Command::Log(true, true)));
        assert!(does("silentReset 1", Command::SilentReset(true)));
        assert!(does("dumpCmdBuf 0", Command::DumpCommands(false)));
        assert!(does("stress 7x", Command::Stress(7)));
        assert!(does("debug 3 1024", Command::Debug(Level::Verbose, 1024)));
        assert!(does("debug -1 0x20", Command::Debug(Level::None, 32)));
        let bad = |text: &str, name| read(text.as_bytes()) == Said::BadNumbers(name);
        assert!(bad("profile x 2 3", "profile"));
        assert!(bad("memFail 4294967296", "memFail"));
        assert!(bad("memFail -1", "memFail"));
        assert!(bad("memFail 0x", "memFail"));
        assert!(bad("irq", "irq"));
        assert!(bad("irq 2", "irq"));
        assert!(bad("silentReset 2", "silentReset"));
        assert!(bad("dumpCmdBuf 7", "dumpCmdBuf"));
        assert!(bad("logout", "log"));
        for text in ["debug", "debug 3", "debug 4 1", "debug -2 1", "debug - 1"] {
            assert!(bad(text, "debug"));
        }
    }

    #[test]
    fn sixteen_is_looked_for_before_one() {
        for divider in [1, 2, 4, 8, 16, 32, 64] {
            let text: &str = match divider {
                1 => "1",
                2 => "2\n",
                4 => "4 ",
                8 => "8x",
                16 => "160",
                32 => "32",
                _ => "64\n",
            };
            assert!(does(text, Command::Divide(divider)));
        }
        assert!(does("128", Command::Divide(1)));
        assert!(does("17", Command::Divide(1)));
        for text in ["6", "63", "33", "5"] {
            assert_eq!(read(text.as_bytes()), Said::Nothing);
        }
    }
}
