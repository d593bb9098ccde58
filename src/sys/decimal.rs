// SPDX-License-Identifier: GPL-2.0-only

//! Decimal formatting of 64-bit numbers.

use super::shim;
use kernel::fmt;

/// The decimal digits of a 64-bit number. Rust's formatting uses the compiler's 64-bit division,
/// which the kernel does not provide on 32-bit ARM.
pub(crate) struct Digits {
    room: [u8; 24],
    length: usize,
}

impl Digits {
    /// The digits of `number`.
    pub(crate) fn of(number: u64) -> Self {
        let mut room = [0; 24];
        // SAFETY: The buffer has that many bytes.
        let length = unsafe { shim::gal_decimal(room.as_mut_ptr().cast(), room.len(), number) };
        Self { room, length }
    }

    /// The digits as text.
    pub(crate) fn text(&self) -> &str {
        let digits = self.room.get(..self.length).unwrap_or(&[]);
        core::str::from_utf8(digits).unwrap_or("?")
    }
}

/// A 64-bit number that is formatted in decimal.
pub(crate) struct Decimal(pub(crate) u64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Digits::of(self.0).text())
    }
}

#[kernel::macros::kunit_tests(galcore_decimal)]
mod tests {
    use super::*;
    use kernel::{
        prelude::fmt,
        str::CString, //
    };

    #[test]
    fn numbers_of_64_bits_are_printed() {
        let text = CString::try_from_fmt(fmt!("{}|{:>24}", Decimal(u64::MAX), Decimal(0)));
        let text = text.unwrap();
        assert_eq!(
            text.to_bytes(),
            b"18446744073709551615|                       0"
        );
    }
}
