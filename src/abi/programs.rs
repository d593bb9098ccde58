// SPDX-License-Identifier: GPL-2.0-only

//! The parameter `interface`: which generation programs speak where its size leaves several.
//!
//! A list, parted by commas: a generation, for programs that are not named, and names of programs,
//! each with a colon and its generation: `4.1.0,kodi.bin:4.6.9,Xorg:dove`. Pure logic.

use super::detect::{
    Choice,
    Reason, //
};

/// Programs that can be named.
const MOST_PROGRAMS: usize = 12;

/// Letters of a program's name that the kernel keeps.
const NAME_BYTES: usize = 15;

/// A program's generation.
#[derive(Clone, Copy, Debug)]
struct Program {
    name: [u8; NAME_BYTES],
    choice: Choice,
}

/// What the parameter says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByProgram {
    any: Option<Choice>,
    programs: [Option<Program>; MOST_PROGRAMS],
}

/// A name as the kernel keeps it, with zeros behind.
fn kept(name: &[u8]) -> [u8; NAME_BYTES] {
    let mut kept = [0; NAME_BYTES];
    for (place, &letter) in kept.iter_mut().zip(name) {
        *place = letter;
    }
    kept
}

impl ByProgram {
    /// Reads the parameter. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut by_program = Self {
            any: None,
            programs: [None; MOST_PROGRAMS],
        };
        let mut places = by_program.programs.iter_mut();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (program, generation) = match part.rsplit_once(':') {
                None => (None, part),
                Some(("", _)) => return Err("has a colon without a program"),
                Some((program, generation)) => (Some(program), generation),
            };
            let choice = |reason| {
                Choice::by_name(generation.as_bytes(), reason).ok_or("names no generation")
            };
            match program {
                None if by_program.any.is_some() => return Err("names two for all programs"),
                None => by_program.any = Some(choice(Reason::Parameter)?),
                Some(program) => {
                    let place = places.next().ok_or("names too many programs")?;
                    *place = Some(Program {
                        name: kept(program.as_bytes()),
                        choice: choice(Reason::Program)?,
                    });
                }
            }
        }
        Ok(by_program)
    }

    /// What the program with this name speaks, of up to 15 letters, ended by a zero or not; and
    /// what all speak for whom that does not fit.
    pub(crate) fn of(&self, name: &[u8]) -> [Option<Choice>; 2] {
        let end = name.iter().position(|&letter| letter == 0);
        let name = kept(name.get(..end.unwrap_or(name.len())).unwrap_or(&[]));
        let programs = self.programs.iter().flatten();
        let named = programs
            .filter(|program| program.name == name)
            .map(|program| program.choice)
            .next();
        [named, self.any]
    }
}

#[kernel::macros::kunit_tests(galcore_programs)]
mod tests {
    use super::*;

    fn of(text: &str, program: &str) -> Option<(&'static str, Reason)> {
        let [named, any] = ByProgram::parse(text).ok()?.of(program.as_bytes());
        let choice = named.or(any)?;
        Some((choice.format().name(), choice.reason))
    }

    #[test]
    fn programs_have_their_own() {
        assert_eq!(of("", "Xorg"), None);
        assert_eq!(of("4.1.0", "Xorg"), Some(("4.1.0", Reason::Parameter)));
        let text = "4.1.0,kodi.bin:4.6.9,Xorg:dove";
        assert_eq!(of(text, "Xorg"), Some(("dove", Reason::Program)));
        assert_eq!(of(text, "Xorg\0\0\0"), Some(("dove", Reason::Program)));
        assert_eq!(of(text, "kodi.bin"), Some(("4.6.9", Reason::Program)));
        assert_eq!(of(text, "kodi"), Some(("4.1.0", Reason::Parameter)));
        assert_eq!(of("Xorg:dove", "kodi"), None);
        // The kernel keeps 15 letters.
        let text = "a-program-of-24-letters-:v2";
        assert_eq!(of(text, "a-program-of-24"), Some(("v2", Reason::Program)));
        assert_eq!(of("a:b:v2", "a:b"), Some(("v2", Reason::Program)));
    }

    #[test]
    fn nonsense_is_refused() {
        let why = |text| ByProgram::parse(text).err();
        assert_eq!(why("4.1"), Some("names no generation"));
        assert_eq!(why("Xorg:"), Some("names no generation"));
        assert_eq!(why(":v2"), Some("has a colon without a program"));
        assert_eq!(why("v2,dove"), Some("names two for all programs"));
        let many = "a:v2,b:v2,c:v2,d:v2,e:v2,f:v2,g:v2,h:v2,i:v2,j:v2,k:v2,l:v2,";
        assert_eq!(why(many), None);
        let more = "a:v2,b:v2,c:v2,d:v2,e:v2,f:v2,g:v2,h:v2,i:v2,j:v2,k:v2,l:v2,m:v2";
        assert_eq!(why(more), Some("names too many programs"));
    }
}
