// SPDX-License-Identifier: GPL-2.0-only

//! The parameter `identity`: properties of a core that neither its registers nor a public list has.
//!
//! A comma-separated list of a core's model and revision, then values with the names of the
//! vendor's `gcsHAL_QUERY_CHIP_IDENTITY` and, for neural cores, of its feature database:
//! `0x8000:0x7120,productID=0x45080009,NNCoreCount=8`. Another model and revision begin the next
//! row. Pure logic.

use super::{
    layout::{
        IdentityLayout,
        IdentityWord, //
    },
    IdentityWords, //
};

/// Parses a number as module parameters do: decimal, octal after a 0, hexadecimal after `0x`.
pub(crate) fn number(text: &str) -> Option<usize> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match (hexadecimal, text.strip_prefix('0')) {
        (Some(digits), _) => usize::from_str_radix(digits, 16),
        (_, Some(digits)) if !digits.is_empty() => usize::from_str_radix(digits, 8),
        _ => text.parse(),
    }
    .ok()
}

fn word(text: &str) -> Option<u32> {
    number(text).and_then(|number| u32::try_from(number).ok())
}

/// Parses the model and revision that begin a row: hexadecimal, as in the log.
fn core(part: &str) -> Option<(u32, u32)> {
    let hexadecimal = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u32::from_str_radix(digits, 16).ok()
    };
    let (model, revision) = part.split_once(':')?;
    hexadecimal(model).zip(hexadecimal(revision))
}

/// The part of the parameter for one core.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    text: &'a str,
    core: (u32, u32),
}

impl<'a> Row<'a> {
    /// The row for a model and revision, in a parameter that has passed [`Row::check`]. The row may
    /// have no values.
    pub(crate) fn of(text: &'a str, core: (u32, u32)) -> Self {
        Self { text, core }
    }

    /// Checks the parameter. The error is the text for the log.
    pub(crate) fn check(text: &str) -> Result<(), &'static str> {
        let mut is_first = true;
        if text.is_empty() {
            return Ok(());
        }
        for part in text.split(',') {
            match part.split_once('=') {
                None if core(part).is_some() => is_first = false,
                None => return Err("has no MODEL:REVISION or NAME=VALUE between its commas"),
                Some(_) if is_first => return Err("must begin with MODEL:REVISION"),
                Some((name, value)) => {
                    if !IdentityWord::ALL.iter().any(|word| word.c_name() == name) {
                        return Err(
                            "has a name that QUERY_CHIP_IDENTITY has not, or that is the driver's to answer",
                        );
                    }
                    word(value).ok_or("has a value that is not of 32 bits")?;
                }
            }
        }
        Ok(())
    }

    fn values(self) -> impl Iterator<Item = (&'a str, u32)> {
        let mut is_its = false;
        self.text.split(',').filter_map(move |part| {
            let Some((name, value)) = part.split_once('=') else {
                is_its = core(part) == Some(self.core);
                return None;
            };
            word(value).filter(|_| is_its).map(|value| (name, value))
        })
    }

    /// The number of values.
    pub(crate) fn count(self) -> usize {
        self.values().count()
    }

    /// The value of a word; the last one wins.
    pub(crate) fn value(self, word: IdentityWord) -> Option<u32> {
        let named = self.values().filter(|(name, _)| *name == word.c_name());
        named.last().map(|(_, value)| value)
    }

    /// Copies the values into the words that clients read, except feature words: the driver uses
    /// those itself, and may clear bits.
    pub(crate) fn amend(self, words: &mut IdentityWords) {
        for word in IdentityWord::ALL {
            if let Some(value) = self.value(word) {
                if !IdentityLayout::FEATURES.contains(&word) {
                    // CAST: the number of a variant.
                    words.0[word as usize] = value;
                }
            }
        }
    }
}

#[kernel::macros::kunit_tests(galcore_row)]
mod tests {
    use super::*;

    const TEXT: &str = "0x8000:0x7120,productID=0x45080009,NNCoreCount=8,chipFlags=3,chipFeatures=1,0x600:0x19,productID=010,productID=9";

    #[test]
    fn each_core_has_its_row() {
        assert_eq!(Row::check(TEXT), Ok(()));
        let npu = Row::of(TEXT, (0x8000, 0x7120));
        assert_eq!(npu.count(), 4);
        assert_eq!(npu.value(IdentityWord::Product), Some(0x4508_0009));
        assert_eq!(npu.value(IdentityWord::NeuralCores), Some(8));
        assert_eq!(npu.value(IdentityWord::Eco), None);
        // The last value wins.
        let gpu = Row::of(TEXT, (0x600, 0x19));
        assert_eq!(gpu.value(IdentityWord::Product), Some(9));
        assert_eq!(Row::of(TEXT, (0x600, 0x1A)).count(), 0);
        assert_eq!(Row::of("", (0x600, 0x19)).count(), 0);
        // Hexadecimal without 0x, as in the log.
        let gpu = Row::of("2000:5108,ecoID=1", (0x2000, 0x5108));
        assert_eq!(gpu.value(IdentityWord::Eco), Some(1));
    }

    #[test]
    fn all_words_of_a_name_change_except_features() {
        let mut words = IdentityWords([7; IdentityWord::COUNT]);
        Row::of(TEXT, (0x8000, 0x7120)).amend(&mut words);
        // CAST: the number of a variant.
        let word = |word: IdentityWord| words.0[word as usize];
        assert_eq!(
            (word(IdentityWord::Flags), word(IdentityWord::RawFlags)),
            (3, 3)
        );
        assert_eq!(word(IdentityWord::Features), 7);
        assert_eq!(word(IdentityWord::Customer), 7);
    }

    #[test]
    fn malformed_rows_are_refused() {
        assert_eq!(Row::check(""), Ok(()));
        assert_eq!(Row::check("0x600:0x19"), Ok(()));
        for wrong in [
            "productID=1",
            "0x600,productID=1",
            "0x600:,productID=1",
            "0x600:0x19,productID",
            "0x600:0x19,product=1",
            "0x600:0x19,productID=",
            "0x600:0x19,productID=-1",
            "0x600:0x19,productID=0x100000000",
            "0x100000000:0x19",
            "0x600:0x19:1",
            "0x600:0x19,",
            "0x600:0x19,,productID=1",
        ] {
            assert!(Row::check(wrong).is_err());
        }
    }
}
