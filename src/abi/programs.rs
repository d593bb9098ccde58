// SPDX-License-Identifier: GPL-2.0-only

//! The parameters `interface`, the generation of programs if its size does not decide, and
//! `version`, the answer to their VERSION.
//!
//! A comma-separated list: a value for all programs that the list does not name, and programs with
//! their values, as `PROGRAM:VALUE`: `4.1.0,kodi.bin:4.6.9,Xorg:dove`. Pure logic.

use super::detect::{
    Choice,
    Reason, //
};

/// The most programs in a list.
const MOST_PROGRAMS: usize = 12;

/// Bytes of a program's name that the kernel keeps.
const NAME_BYTES: usize = 15;

/// A program's value.
#[derive(Clone, Copy, Debug)]
struct Program<T> {
    name: [u8; NAME_BYTES],
    value: T,
}

/// A parsed parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByProgram<T> {
    any: Option<T>,
    programs: [Option<Program<T>>; MOST_PROGRAMS],
}

/// A value of such a parameter.
pub(crate) trait Value: Copy {
    /// Parses a value. `is_named`: for one program. The error is the text for the log.
    fn read(text: &str, is_named: bool) -> Result<Self, &'static str>;
}

impl Value for Choice {
    fn read(text: &str, is_named: bool) -> Result<Self, &'static str> {
        let reason = if is_named {
            Reason::Program
        } else {
            Reason::Parameter
        };
        Self::by_name(text.as_bytes(), reason).ok_or("names no generation: names are those of generations.md, numbers of versions go to version=")
    }
}

/// The answer to VERSION: major, minor, patch, build.
impl Value for [u32; 4] {
    fn read(text: &str, _: bool) -> Result<Self, &'static str> {
        const WRONG: &str = "has a version that is not four numbers, such as 6.4.6.351518";
        let mut numbers = text.split('.').map(|number| number.parse().ok());
        let mut version = [0; 4];
        for place in &mut version {
            *place = numbers.next().flatten().ok_or(WRONG)?;
        }
        match numbers.next() {
            None => Ok(version),
            Some(_) => Err(WRONG),
        }
    }
}

/// A name as the kernel keeps it, padded with zeros.
fn kept(name: &[u8]) -> [u8; NAME_BYTES] {
    let mut kept = [0; NAME_BYTES];
    for (place, &letter) in kept.iter_mut().zip(name) {
        *place = letter;
    }
    kept
}

impl<T: Value> ByProgram<T> {
    /// Parses the parameter. The error is the text for the log.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut by_program = Self {
            any: None,
            programs: [None; MOST_PROGRAMS],
        };
        let mut places = by_program.programs.iter_mut();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (program, value) = match part.rsplit_once(':') {
                None => (None, part),
                Some(("", _)) => return Err("has a colon without a program"),
                Some((program, value)) => (Some(program), value),
            };
            let value = T::read(value, program.is_some())?;
            match program {
                None if by_program.any.is_some() => return Err("names two for all programs"),
                None => by_program.any = Some(value),
                Some(program) => {
                    let place = places.next().ok_or("names too many programs")?;
                    *place = Some(Program {
                        name: kept(program.as_bytes()),
                        value,
                    });
                }
            }
        }
        Ok(by_program)
    }

    /// The value for the program with this name, and the value for all programs. A zero may end the
    /// name; only its first 15 bytes count.
    pub(crate) fn of(&self, name: &[u8]) -> [Option<T>; 2] {
        let end = name.iter().position(|&letter| letter == 0);
        let name = kept(name.get(..end.unwrap_or(name.len())).unwrap_or(&[]));
        let programs = self.programs.iter().flatten();
        let named = programs
            .filter(|program| program.name == name)
            .map(|program| program.value)
            .next();
        [named, self.any]
    }
}

#[kernel::macros::kunit_tests(galcore_programs)]
mod tests {
    use super::*;

    fn of(text: &str, program: &str) -> Option<(&'static str, Reason)> {
        let [named, any] = ByProgram::<Choice>::parse(text)
            .ok()?
            .of(program.as_bytes());
        let choice = named.or(any)?;
        Some((choice.format().name(), choice.reason))
    }

    #[test]
    fn programs_have_their_own_values() {
        assert_eq!(of("", "Xorg"), None);
        assert_eq!(of("4.1.0", "Xorg"), Some(("4.1.0", Reason::Parameter)));
        let text = "4.1.0,kodi.bin:4.6.9,Xorg:dove";
        assert_eq!(of(text, "Xorg"), Some(("dove", Reason::Program)));
        assert_eq!(of(text, "Xorg\0\0\0"), Some(("dove", Reason::Program)));
        assert_eq!(of(text, "kodi.bin"), Some(("4.6.9", Reason::Program)));
        assert_eq!(of(text, "kodi"), Some(("4.1.0", Reason::Parameter)));
        assert_eq!(of("Xorg:dove", "kodi"), None);
        // The kernel keeps 15 bytes of a name.
        let text = "a-program-of-24-letters-:v2";
        assert_eq!(of(text, "a-program-of-24"), Some(("v2", Reason::Program)));
        assert_eq!(of("a:b:v2", "a:b"), Some(("v2", Reason::Program)));
    }

    #[test]
    fn versions_are_four_numbers() {
        let of = |text, program: &str| {
            let [named, any] = ByProgram::<[u32; 4]>::parse(text)
                .ok()?
                .of(program.as_bytes());
            named.or(any)
        };
        let text = "6.4.6.351518,kodi.bin:4.6.9.1478";
        assert_eq!(of(text, "rknn"), Some([6, 4, 6, 351518]));
        assert_eq!(of(text, "kodi.bin"), Some([4, 6, 9, 1478]));
        assert_eq!(of("kodi.bin:4.6.9.1478", "rknn"), None);
        for text in [
            "6.4.6",
            "6.4.6.1.1",
            "6.4.6.p2",
            "6.4.6.-1",
            "6.4.6.4294967296",
            "6.4..1",
        ] {
            assert!(ByProgram::<[u32; 4]>::parse(text).is_err());
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let why = |text| ByProgram::<Choice>::parse(text).err();
        let no_name = |text| why(text).is_some_and(|why| why.starts_with("names no generation"));
        assert!(no_name("4.1") && no_name("Xorg:"));
        assert_eq!(why(":v2"), Some("has a colon without a program"));
        assert_eq!(why("v2,dove"), Some("names two for all programs"));
        let many = "a:v2,b:v2,c:v2,d:v2,e:v2,f:v2,g:v2,h:v2,i:v2,j:v2,k:v2,l:v2,";
        assert_eq!(why(many), None);
        let more = "a:v2,b:v2,c:v2,d:v2,e:v2,f:v2,g:v2,h:v2,i:v2,j:v2,k:v2,l:v2,m:v2";
        assert_eq!(why(more), Some("names too many programs"));
    }
}
