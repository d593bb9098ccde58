// SPDX-License-Identifier: GPL-2.0-only

//! Routing of requests to cores.
//!
//! Pure logic. Source: sources.md, several cores.

use crate::abi::{
    CoreSelector,
    HardwareType,
    Routing, //
};
use crate::prelude::*;

/// In generations with several cores of a type, the first core replaces a missing one with an index
/// below this.
const FILLED: usize = 4;

/// Whether a core of `kind` matches a request for `wanted`.
fn is_meant(kind: HardwareType, wanted: HardwareType) -> bool {
    use HardwareType::{
        Both,
        Neural,
        ThreeD, //
    };
    match wanted {
        // The vendor's interface numbers these together.
        ThreeD | Both | Neural => matches!(kind, ThreeD | Both | Neural),
        other => kind == other,
    }
}

/// The places of the first core of each kind, in one word. Most requests select one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Firsts(pub(super) u32);

impl Firsts {
    /// Number of bits for each kind. They hold the place plus 1, or 0 if there is none.
    const BITS: u32 = 8;

    /// The first cores of `kinds`, which are fewer than 255.
    pub(super) fn of(kinds: &[Option<HardwareType>]) -> Self {
        use HardwareType::{
            ThreeD,
            TwoD,
            Vector, //
        };
        let mut word = 0;
        for wanted in [ThreeD, TwoD, Vector] {
            // CAST: a small number.
            let first = nth(kinds, wanted, 0).map_or(0, |place| place as u32 + 1);
            word |= first << Self::shift(wanted);
        }
        Self(word)
    }

    fn shift(wanted: HardwareType) -> u32 {
        match wanted {
            HardwareType::ThreeD | HardwareType::Both | HardwareType::Neural => 0,
            HardwareType::TwoD => Self::BITS,
            HardwareType::Vector => 2 * Self::BITS,
        }
    }

    /// Whether the 3D and the 2D engine are separate cores.
    #[inline]
    pub(super) fn are_apart(self) -> bool {
        let there = |wanted| (self.0 >> Self::shift(wanted)) & ((1 << Self::BITS) - 1) != 0;
        there(HardwareType::ThreeD) && there(HardwareType::TwoD)
    }

    /// The place that [`route`] returns for `selector`, if it has the first core of its kind.
    #[inline(always)]
    pub(super) fn find(self, selector: CoreSelector) -> Option<usize> {
        if selector.index() != 0 && selector.routing() != Routing::Type {
            return None;
        }
        if selector.is_three_d() {
            // The most frequent case.
            self.first(Self::shift(HardwareType::ThreeD))
        } else {
            self.first(Self::shift(selector.hardware_type()?))
        }
    }

    /// The place in the bits from `shift` on.
    #[inline(always)]
    fn first(self, shift: u32) -> Option<usize> {
        let first = (self.0 >> shift) & ((1 << Self::BITS) - 1);
        // CAST: a small number.
        first.checked_sub(1).map(|place| place as usize)
    }
}

/// The place of the default core: the first 3D core, else 2D, else vector graphics.
/// `GpuNotResponding`: there is none.
pub(super) fn first(kinds: &[Option<HardwareType>]) -> Result<usize> {
    in_order(kinds).next().ok_or(Error::GpuNotResponding)
}

/// The place of core number `index` among those that match `wanted`.
fn nth(kinds: &[Option<HardwareType>], wanted: HardwareType, index: usize) -> Option<usize> {
    let mut places = kinds.iter().enumerate();
    let mut meant = places
        .by_ref()
        .filter(|(_, kind)| kind.is_some_and(|kind| is_meant(kind, wanted)));
    meant.nth(index).map(|(place, _)| place)
}

/// The place of the core that `selector` selects. `kinds` has the kinds of cores that are or were
/// bound, by place. `InvalidArgument`: there is no such core, and its generation has no
/// replacement. `GpuNotResponding`: there is no core at all.
pub(super) fn route(kinds: &[Option<HardwareType>], selector: CoreSelector) -> Result<usize> {
    let (wanted, index) = (selector.hardware_type(), selector.index());
    let place = |index| wanted.and_then(|wanted| nth(kinds, wanted, index));
    match selector.routing() {
        Routing::Type => match place(0) {
            Some(place) => Ok(place),
            None => first(kinds),
        },
        Routing::TypeAndIndex => match place(index) {
            Some(place) => Ok(place),
            None if index < FILLED => first(kinds),
            None => Err(Error::InvalidArgument),
        },
        Routing::Slot => match (place(index), wanted) {
            (Some(place), _) => Ok(place),
            (None, Some(HardwareType::TwoD | HardwareType::Vector)) if index < FILLED => {
                first(kinds)
            }
            _ => Err(Error::InvalidArgument),
        },
    }
}

/// The place of the core of a part of a COMMIT. `selector` has its index. Errors as [`route`].
pub(super) fn route_part(kinds: &[Option<HardwareType>], selector: CoreSelector) -> Result<usize> {
    match selector.hardware_type() {
        Some(HardwareType::TwoD | HardwareType::Vector) => route(kinds, selector),
        _ => in_order(kinds)
            .nth(selector.index())
            .ok_or(Error::InvalidArgument),
    }
}

/// The places that have, or had, a core, in the order of CHIP_INFO.
pub(super) fn in_order(kinds: &[Option<HardwareType>]) -> impl Iterator<Item = usize> + '_ {
    [
        HardwareType::ThreeD,
        HardwareType::TwoD,
        HardwareType::Vector,
    ]
    .into_iter()
    .flat_map(move |wanted| {
        let places = kinds.iter().enumerate();
        places.filter_map(move |(place, kind)| {
            kind.is_some_and(|kind| is_meant(kind, wanted))
                .then_some(place)
        })
    })
}

#[kunit_tests(galcore_route)]
mod tests {
    use super::*;
    use crate::abi::layout::{
        HardwareTypes,
        LAYOUTS, //
    };

    const QUAD: [Option<HardwareType>; 4] = [
        Some(HardwareType::ThreeD),
        Some(HardwareType::TwoD),
        Some(HardwareType::Vector),
        None,
    ];
    const SOLO_LITE: [Option<HardwareType>; 2] =
        [Some(HardwareType::TwoD), Some(HardwareType::Vector)];

    fn numbers(of: Routing) -> &'static HardwareTypes {
        let mut all = LAYOUTS.iter().map(|layout| &layout.hardware);
        all.find(|numbers| numbers.routing == of).unwrap()
    }

    /// The places of types 0 to 7 with index 0. 9: refused.
    fn places(kinds: &[Option<HardwareType>], routing: Routing) -> [usize; 8] {
        core::array::from_fn(|number| place(kinds, routing, number, 0).unwrap_or(9))
    }

    fn place(
        kinds: &[Option<HardwareType>],
        routing: Routing,
        number: usize,
        index: u32,
    ) -> super::Result<usize> {
        // CAST: a small number.
        let selector = CoreSelector::new(numbers(routing), number as u32, index);
        let place = route(kinds, selector);
        if let Some(first) = Firsts::of(kinds).find(selector) {
            assert_eq!(place, Ok(first));
        } else if number == usize::from(numbers(routing).three_d) && index == 0 {
            assert_ne!(
                place.map(|place| kinds[place]),
                Ok(Some(HardwareType::ThreeD))
            );
        }
        place
    }

    #[test]
    fn neural_cores_are_counted_with_3d() {
        const PLUS: [Option<HardwareType>; 3] = [
            Some(HardwareType::ThreeD),
            Some(HardwareType::TwoD),
            Some(HardwareType::Neural),
        ];
        let slot = numbers(Routing::Slot);
        for number in [slot.three_d, slot.neural].map(usize::from) {
            assert_eq!(place(&PLUS, Routing::Slot, number, 0), Ok(0));
            assert_eq!(place(&PLUS, Routing::Slot, number, 1), Ok(2));
        }
        assert!(in_order(&PLUS).eq([0, 2, 1]));
        // A machine with only a neural core.
        let alone = &PLUS[2..];
        let three_d = usize::from(numbers(Routing::TypeAndIndex).three_d);
        assert_eq!(place(alone, Routing::TypeAndIndex, three_d, 0), Ok(0));
        assert_eq!(place(alone, Routing::Slot, slot.neural.into(), 0), Ok(0));
    }

    #[test]
    fn by_type() {
        let routing = Routing::Type;
        assert_eq!(places(&QUAD, routing), [0, 0, 1, 0, 2, 0, 0, 0]);
        assert_eq!(places(&SOLO_LITE, routing), [0, 0, 0, 0, 1, 0, 0, 0]);
        let vector = [Some(HardwareType::Vector)];
        assert_eq!(places(&vector, routing), [0; 8]);
        // The index is ignored.
        assert_eq!(place(&QUAD, routing, 2, 7), Ok(1));
        assert_eq!(places(&[None], routing), [9; 8]);
        // In any order of the cores.
        let late = [Some(HardwareType::TwoD), Some(HardwareType::Both)];
        assert_eq!(places(&late, routing), [1, 1, 0, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn engines_are_apart_or_not() {
        let are_apart = |kinds: &[_]| Firsts::of(kinds).are_apart();
        assert!(are_apart(&QUAD));
        assert!(!are_apart(&SOLO_LITE));
        assert!(!are_apart(&[Some(HardwareType::Both)]));
        assert!(!are_apart(&[None]));
        assert!(are_apart(&[
            Some(HardwareType::TwoD),
            Some(HardwareType::Both)
        ]));
    }

    #[test]
    fn by_type_and_index() {
        let routing = Routing::TypeAndIndex;
        assert_eq!(places(&QUAD, routing), [0, 0, 1, 2, 0, 0, 0, 0]);
        assert_eq!(place(&QUAD, routing, 2, 1), Ok(0));
        assert_eq!(place(&QUAD, routing, 2, 4), Err(Error::InvalidArgument));
        let two = [Some(HardwareType::ThreeD), Some(HardwareType::ThreeD)];
        assert_eq!(place(&two, routing, 1, 1), Ok(1));
        assert_eq!(place(&two, routing, 1, 2), Ok(0));
    }

    #[test]
    fn by_slot() {
        let routing = Routing::Slot;
        assert_eq!(places(&QUAD, routing), [9, 0, 0, 1, 0, 2, 9, 9]);
        assert_eq!(places(&SOLO_LITE, routing), [9, 9, 9, 0, 9, 1, 9, 9]);
        assert_eq!(place(&QUAD, routing, 2, 1), Err(Error::InvalidArgument));
        assert_eq!(place(&QUAD, routing, 3, 1), Ok(0));
        let part =
            |number, index| route_part(&QUAD, CoreSelector::new(numbers(routing), number, index));
        assert_eq!(part(2, 1), Ok(1));
        assert_eq!(part(2, 3), Err(Error::InvalidArgument));
        assert_eq!(part(3, 0), Ok(1));
        assert_eq!(
            place(&QUAD, routing, 3, u32::MAX),
            Err(Error::InvalidArgument)
        );
    }
}
