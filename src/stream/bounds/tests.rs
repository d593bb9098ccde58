// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suites of [`super`]. The one here is about targets of the 2D engine, and about loads.

#[path = "tests/resolves.rs"]
mod resolves;
#[path = "tests/sources.rs"]
mod sources;

#[kernel::macros::kunit_tests(galcore_bounds)]
mod cases {
    use super::super::{
        draws::{
            MINOR_TILED,
            TILED, //
        },
        *, //
    };

    /// Address of the target.
    pub(super) const BASE: u32 = 0x4000_0000;

    /// A target of 64 x 32 pixels in A8R8G8B8, with a clipping window of the same size.
    const PLAIN: [(u32, u32); 14] = [
        (0x1228, BASE),
        (0x122C, 256),
        (0x1230, 64),
        (0x1234, 6),
        (0x1260, 0),
        (0x1264, 32 << 16 | 64),
        (0x12A8, 0),
        (0x12AC, 32 << 16 | 64),
        (0x12B4, 32),
        (0x12BC, 0),
        // Draws use no source and no pattern.
        (0x125C, 2 << 20 | 0xAA),
        (0x12D4, 0),
        (0x127C, 0),
        (0x120C, 0),
    ];

    fn engines(has_pe20: bool) -> Engines {
        Engines {
            has_pe20,
            rotates: has_pe20,
            has_a8_target: true,
            ..Engines::default()
        }
    }

    pub(super) fn target(has_pe20: bool, others: &[(u32, u32)]) -> DrawState {
        let mut target = DrawState::new(engines(has_pe20));
        for &(state, value) in PLAIN.iter().chain(others) {
            assert_eq!(target.load(word(state), value, false, true), Load::Noted);
        }
        target
    }

    /// The least number of bytes from `low` on that fits; 0: none.
    pub(super) fn least(mut low: u32, mut fits: impl FnMut(u32) -> bool) -> u32 {
        let mut high = 0x8000_0000;
        if !fits(high) {
            return 0;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The bytes of memory that a draw of a rectangle needs; 0: unbounded.
    fn bytes(mut target: DrawState, corners: [u32; 2]) -> u32 {
        let fits = |bytes: u32| {
            // Drops the cached success of the last call.
            target.is_roomy = false;
            draw(&mut target, corners, |_, address| Some(address + bytes - 1)) == Ok(())
        };
        least(1, fits)
    }

    pub(super) fn draw(
        target: &mut DrawState,
        corners: [u32; 2],
        last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        target.draw(corners.into_iter(), |_| Loads::Never, last_of)
    }

    pub(super) fn corner(x: u32, y: u32) -> u32 {
        (y & 0xFFFF) << 16 | x & 0xFFFF
    }

    const ALL: [u32; 2] = [0, 32 << 16 | 64];

    #[test]
    fn what_is_drawn_counts_and_no_more() {
        for (others, corners, wanted) in [
            (&[][..], ALL, 32 * 256),
            (&[], [corner(3, 4), corner(10, 6)], 5 * 256 + 40),
            // The window clips, unless it is empty.
            (&[], [corner(3, 4), corner(1000, 1000)], 32 * 256),
            (&[(0x1264, corner(5, 1))], ALL, 20),
            (&[(0x1260, corner(64, 0))], ALL, 32 * 256),
            // Inverted.
            (&[], [corner(9, 5), corner(3, 4)], 5 * 256 + 40),
            (&[], [corner(3, 4), corner(3, 9)], 8 * 256 + 16),
            // Both ends of a line.
            (
                &[(0x1234, 0x1006)],
                [corner(3, 4), corner(9, 4)],
                4 * 256 + 40,
            ),
            (
                &[(0x1234, 0x1006)],
                [corner(9, 4), corner(3, 0)],
                4 * 256 + 40,
            ),
            // With negative corners only the window bounds the draw.
            (&[], [corner(0xFFFF, 0xFFF0), corner(2, 2)], 32 * 256),
            (&[], [corner(0, 0), corner(0x8000, 0x8000)], 32 * 256),
            (&[], [corner(0xFFFF, 0), corner(2, 2)], 256 + 256),
            (&[], [corner(0xFFF0, 0), corner(0xFFFF, 9)], 1),
            (
                &[(0x1260, corner(99, 0))],
                [corner(0xFFF0, 0), corner(0xFFFF, 9)],
                0,
            ),
            // An inverted window does not clip.
            (
                &[(0x1260, corner(99, 0))],
                [corner(0, 0), corner(9, 40)],
                39 * 256 + 36,
            ),
            (
                &[(0x1260, corner(99, 0))],
                [corner(0xFFFF, 0), corner(9, 40)],
                0,
            ),
            // Nor does one with more bits than some engines have.
            (
                &[(0x1264, corner(0x8005, 1))],
                [corner(0, 0), corner(9, 40)],
                39 * 256 + 36,
            ),
            (
                &[(0x1260, corner(0, 0x8000))],
                [corner(0, 0), corner(9, 40)],
                39 * 256 + 36,
            ),
            (&[(0x122C, 0)], ALL, 256),
            (&[(0x122C, 0x3_FFFF)], ALL, 31 * 0x3_FFFF + 256),
            (&[(0x122C, 0x4_0000)], ALL, 0),
            (&[(0x122C, -256i32 as u32)], ALL, 0),
        ] {
            assert_eq!(bytes(target(true, others), corners), wanted);
        }
        // The last row, with the longest stride.
        let far = [(0x122C, 0x3_FFFF), (0x1264, 0x7FFF_7FFF)];
        assert_eq!(
            bytes(target(true, &far), [0, corner(1, 0x2000)]),
            0x1FFF * 0x3_FFFF + 4
        );
        assert_eq!(bytes(target(true, &far), [0, corner(1, 0x7FFF)]), 0);
    }

    #[test]
    fn each_format_has_its_size() {
        for (format, wanted) in [
            (0, 128),
            (4, 128),
            (5, 256),
            (6, 256),
            (7, 128),
            (8, 128),
            (16, 64),
            // Formats of sources alone, in planes, and unknown.
            (9, 0),
            (10, 0),
            (15, 0),
            (17, 0),
            (18, 0),
            (31, 0),
        ] {
            let target = target(true, &[(0x1234, format)]);
            assert_eq!(bytes(target, [0, corner(64, 1)]), wanted);
        }
        let yuy2 = target(true, &[(0x1234, 7)]);
        assert_eq!(bytes(yuy2, [0, corner(3, 1)]), 8);
        // On a core without targets in A8.
        let mut a8 = target(true, &[(0x1234, 16)]);
        a8.engines.has_a8_target = false;
        assert_eq!(bytes(a8, [0, corner(64, 1)]), 256);
        // Layouts of newer cores.
        for bit in [5, 6, 7, 9, 10, 27, 28, 29] {
            let newer = target(true, &[(0x1234, 6 | 1 << bit)]);
            assert_eq!(bytes(newer, ALL), 0);
        }
    }

    /// Address of the source.
    pub(super) const READ: u32 = 0x2000_0000;

    /// A source of 64 x 32 pixels in A8R8G8B8, for a copy of it.
    pub(super) const COPY: [(u32, u32); 19] = [
        (0x1234, 2 << 12 | 6),
        (0x125C, 3 << 20 | 0xCCCC),
        (0x1200, READ),
        (0x1204, 256),
        (0x1208, 64),
        (0x120C, 6 << 24 | 6),
        (0x1210, 0),
        (0x1214, 0),
        (0x1220, 1 << 16),
        (0x1224, 1 << 16),
        (0x1278, 0),
        (0x1238, READ),
        (0x123C, 0),
        (0x1284, READ),
        (0x1288, 256),
        (0x128C, READ),
        (0x1290, 256),
        (0x12B8, 32),
        (0x1300, 0),
    ];

    /// The image of a filter's source.
    const IMAGE: [(u32, u32); 2] = [(0x1298, 0), (0x129C, 16 << 16 | 16)];

    #[test]
    fn turned_targets_have_a_size() {
        let part = [corner(1, 2), corner(20, 30)];
        for (angle, wanted) in [
            (0, 29 * 256 + 80),
            (1, 29 * 256 + 256),
            (2, 31 * 256 + 80),
            (3, 0),
            (4, 19 * 256 + 256),
            (5, 31 * 256 + 256),
            (6, 31 * 256 + 120),
            (7, 0),
        ] {
            let turned = target(true, &[(0x12BC, angle << 3)]);
            assert_eq!(bytes(turned, part), wanted);
        }
        // By the other state; by both: the farther one counts.
        let by_state = (0x1230, 1 << 16 | 64);
        for (has_pe20, angle, wanted) in [
            (false, 0, 20 * 256),
            (true, 0, 29 * 256 + 80),
            (true, 5, 32 * 256),
            (true, 4, 20 * 256),
        ] {
            let turned = target(has_pe20, &[by_state, (0x12BC, angle << 3)]);
            assert_eq!(bytes(turned, part), wanted);
        }
        // Pixels outside of the target.
        for (angle, corners) in [
            (1, [0, corner(65, 1)]),
            (2, [0, corner(1, 33)]),
            (4, [0, corner(1, 65)]),
            (5, [0, corner(65, 1)]),
            (6, [0, corner(33, 1)]),
        ] {
            let wide = (0x1264, 0x7FFF_7FFF);
            let turned = target(true, &[(0x12BC, angle << 3), wide]);
            assert_eq!(bytes(turned, corners), 0);
        }
    }

    #[test]
    fn tiles_count_whole() {
        for (config, last, wanted) in [
            (6 | TILED, corner(9, 5), 4 * 256 + 48 * 4),
            (4 | TILED, corner(9, 5), 4 * 256 + 48 * 2),
            // A core without the feature draws rows.
            (6 | TILED, corner(9, 8), 7 * 256 + 36),
            (6 | MINOR_TILED, corner(9, 5), 0),
        ] {
            for has_pe20 in [true, false] {
                let target = target(has_pe20, &[(0x1234, config)]);
                assert_eq!(bytes(target, [0, last]), wanted);
            }
        }
    }

    #[test]
    fn early_cores_do_not_turn() {
        let mut target = DrawState::new(Engines {
            rotates: false,
            ..engines(true)
        });
        let mut load = |value| target.load(word(0x12BC), value, false, true);
        // They may ignore the mask bits.
        for value in [4, 4 << 3, 4 | 1 << 8, 4 << 3 | 1 << 9] {
            assert_eq!(load(value), Load::Refused);
        }
        assert_eq!(load(0), Load::Noted);
        let mut earlier = DrawState::new(engines(false));
        for (value, wanted) in [
            (4, Load::Refused),
            (4 << 3 | 1 << 8, Load::Refused),
            (1 << 20, Load::Refused),
            (4 | 1 << 8, Load::Refused),
            (3 << 8, Load::Allowed),
            (0, Load::Noted),
        ] {
            assert_eq!(earlier.load(word(0x12BC), value, false, true), wanted);
        }
        let angle = target.load(word(0x128F0), 4, false, true);
        assert_eq!(angle, Load::Refused);
    }

    #[test]
    fn flips_after_the_rotation_are_refused() {
        let mut target = target(true, &COPY);
        for (bits, mask) in [(3 << 20, 1 << 22), (3 << 23, 1 << 25)] {
            let load = target.load(word(0x12BC), bits, false, true);
            assert_eq!(load, Load::Refused);
            let load = target.load(word(0x12BC), bits | mask | 3 << 8, false, true);
            assert_eq!(load, Load::Allowed);
            // They stay as they are if a rotation is lent.
            for place in [ANGLE, SRC_ANGLE] {
                assert_ne!(load_of(place, 4)[1] & mask, 0);
            }
        }
    }

    #[test]
    fn nothing_clips_the_filter() {
        let filter = |others: &[(u32, u32)], bytes: u32| {
            let mut target = target(true, &COPY);
            for &(state, value) in IMAGE.iter().chain(others) {
                target.load(word(state), value, false, true);
            }
            target.filter(|_, address| match address {
                READ => Some(READ + 15 * 256 + 63),
                _ => Some(address + bytes - 1),
            })
        };
        assert_eq!(filter(&[], 32 * 256), Ok(()));
        assert_eq!(
            filter(&[], 32 * 256 - 1),
            Err(Problem::Beyond(word(0x1228), BASE))
        );
        let small = (0x1264, corner(1, 1));
        assert_eq!(
            filter(&[small], 32 * 256 - 1),
            Err(Problem::Beyond(word(0x1228), BASE))
        );
        let inside_out = [(0x12A8, corner(70, 2)), (0x12AC, corner(3, 1))];
        assert_eq!(filter(&inside_out, 2 * 256 + 71 * 4), Ok(()));
        let problem = Err(Problem::Beyond(word(0x1228), BASE));
        assert_eq!(filter(&inside_out, 2 * 256 + 71 * 4 - 1), problem);
        assert_eq!(filter(&[(0x12AC, 0x7FFF_7FFF)], 0x8000_0000 - 1), Ok(()));
        // What may be negative.
        for (state, value) in [
            (0x12A8, 0x8000),
            (0x12A8, u32::MAX),
            (0x12AC, 32 << 16 | 0xFFFF),
            (0x12AC, 0x8000_0040),
            (0x1298, 0xFFFF),
            (0x129C, 0x8000_0010),
        ] {
            let unbounded = Err(Problem::Unbounded(word(state), value));
            assert_eq!(filter(&[(state, value)], 0x8000_0000 - 1), unbounded);
        }
        // The image of the source: 16 x 16 pixels.
        let problem = Err(Problem::Beyond(word(0x1200), READ));
        assert_eq!(filter(&[(0x129C, corner(17, 16))], 32 * 256), problem);
        assert_eq!(filter(&[(0x1298, corner(0, 16))], 32 * 256), problem);
        // The pattern, if the operation uses it.
        let pattern = [
            (0x125C, 3 << 20 | 0xF0F0),
            (0x1238, BASE + 1),
            (0x123C, 1 << 4 | 6),
        ];
        assert_eq!(filter(&pattern, 32 * 256), Ok(()));
        let problem = Err(Problem::Beyond(word(0x1238), BASE + 1));
        let all = |bytes: u32| {
            let mut target = target(true, &COPY);
            for &(state, value) in IMAGE.iter().chain(&pattern) {
                target.load(word(state), value, false, true);
            }
            target.filter(|state, address| {
                if state == word(0x1238) {
                    Some(address + bytes - 1)
                } else {
                    Some(u32::MAX)
                }
            })
        };
        assert_eq!((all(256), all(255)), (Ok(()), problem));
        // No bits of the source come with its kick.
        let config = 10 << 24 | 1 << 8;
        let problem = Err(Problem::Unbounded(word(0x120C), config));
        assert_eq!(filter(&[(0x120C, config)], 32 * 256), problem);
    }

    #[test]
    fn what_is_not_loaded_is_missing() {
        let last_of = |_, address| Some(address + 0xFFFF);
        for (has_pe20, left_out, is_drawn, is_filtered) in [
            (true, 0x1228, false, false),
            (true, 0x122C, false, false),
            (true, 0x1230, false, false),
            (true, 0x1234, false, false),
            (true, 0x1260, false, true),
            (true, 0x1264, false, true),
            (true, 0x12A8, true, false),
            (true, 0x12AC, true, false),
            (true, 0x12B4, true, true),
            (true, 0x12BC, false, false),
            (false, 0x12BC, true, true),
        ] {
            let mut target = DrawState::new(engines(has_pe20));
            for &(state, value) in PLAIN.iter().chain(&COPY).chain(&IMAGE) {
                if state != left_out {
                    target.load(word(state), value, false, true);
                }
            }
            let state = |&state: &u32| state_of(state) == word(left_out);
            let missing = 1 << STATES.iter().position(state).unwrap();
            let wanted = |is_there| {
                if is_there {
                    Ok(())
                } else {
                    Err(Problem::Missing(missing))
                }
            };
            assert_eq!(draw(&mut target, ALL, last_of), wanted(is_drawn));
            assert_eq!(target.filter(last_of), wanted(is_filtered));
            assert!(target.lend(missing, |_| 0));
        }
        // A load in the other pipe is also unknown.
        let mut other = target(true, &[]);
        other.load(word(0x122C), 256, false, false);
        let missing = |place: usize| Err(Problem::Missing(1 << place));
        assert_eq!(draw(&mut other, ALL, last_of), missing(STRIDE));
        assert!(!other.lend(1 << STRIDE, |_| 256));
        // A rotated target needs the height, and a mask bit leaves the angle unknown.
        let mut target = target(true, &[(0x12BC, 5 << 3)]);
        target.known &= !(1 << HEIGHT);
        assert_eq!(draw(&mut target, ALL, last_of), missing(HEIGHT));
        target.known &= !(1 << ANGLE);
        let masked = target.load(word(0x12BC), 3 << 8, false, true);
        assert_eq!(masked, Load::Allowed);
        let both = Err(Problem::Missing(1 << HEIGHT | 1 << ANGLE));
        assert_eq!(draw(&mut target, ALL, last_of), both);
        // Lent states count.
        assert!(target.lend(1 << HEIGHT | 1 << ANGLE, |_| 0));
        assert_eq!(draw(&mut target, ALL, last_of), Ok(()));
        assert!(target.lend(1 << STRIDE, |_| 0x1_0000));
        let beyond = Err(Problem::Beyond(word(0x1228), BASE));
        assert_eq!(draw(&mut target, ALL, last_of), beyond);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let mut some = target(true, &[]);
        for (state, value, converted, wanted) in [
            (0x130C, 1, false, Load::Other),
            (0x130C, 2, false, Load::Refused),
            (0x130C, 3, false, Load::Refused),
            (0x130C, 0, true, Load::Refused),
            (0x128F0, 7, false, Load::Block),
            (0x128FC, 8, false, Load::Refused),
            (0x128FC, 8 | 1 << 9, false, Load::Block),
            (0x128FC, u32::MAX, false, Load::Block),
            (0x128FC, u32::MAX, true, Load::Refused),
            (0x128FC, !(1 << 9), false, Load::Refused),
            (0x12BE0, 0x20, false, Load::Refused),
            (0x12BFC, 0x10, false, Load::Refused),
            (0x12BFC, 0, true, Load::Refused),
            (0x128FC, 1 << 20, false, Load::Refused),
            (0x12BFC, 1 << 24, false, Load::Refused),
            (0x126C, 0x31, false, Load::Other),
            (0x126C, 1 << 16, false, Load::Refused),
            (0x126C, 1 << 21, false, Load::Refused),
            (0x126C, 0, true, Load::Refused),
            // 48.0, which becomes a flip.
            (0x12BC, 0x4240_0000, true, Load::Refused),
            (0x12B0, 0x11, false, Load::Instead(1)),
            (0x12B0, 0x31, false, Load::Instead(0x21)),
            (0x12B0, 0xA, false, Load::Allowed),
            (0x12B0, 3, false, Load::Instead(1)),
            (0x12B0, 0, false, Load::Instead(1)),
            (0x12B0, 0xF0, false, Load::Instead(0xE1)),
            (0x12B0, 1, false, Load::Allowed),
            (0x12B0, 2, false, Load::Allowed),
            (0x12B0, 8, false, Load::Instead(9)),
            (0x12B0, 1, true, Load::Refused),
            (0x12900, u32::MAX, false, Load::Block),
            (0x12C00, u32::MAX, false, Load::Block),
            (0x1200, u32::MAX, false, Load::Noted),
            (0x1240, u32::MAX, false, Load::Other),
            (0x1310, u32::MAX, false, Load::Other),
        ] {
            assert_eq!(some.load(word(state), value, converted, true), wanted);
        }
        let last_of = |_, address| Some(address + 0xFFFF);
        assert_eq!(draw(&mut some, ALL, last_of), Ok(()));
        for (state, value) in PLAIN {
            let mut odd = some;
            odd.load(word(state), value, true, true);
            let is_used = matches!(state, 0x1228..=0x1234 | 0x125C | 0x1260 | 0x1264);
            let drawn = draw(&mut odd, ALL, last_of);
            assert_eq!(drawn.is_err(), is_used);
        }
        assert_eq!(draw(&mut some, ALL, |_, _| None), Ok(()));
        some.is_roomy = false;
        let drawn = draw(&mut some, ALL, |_, _| None);
        assert_eq!(drawn, Err(Problem::Beyond(word(0x1228), BASE)));
    }

    #[test]
    fn what_is_lent_is_loaded() {
        let mut target = DrawState::new(engines(true));
        let mut count = 0;
        let lent = 1 << ADDRESS | 1 << HEIGHT | 1 << ANGLE;
        for (place, value) in [(ADDRESS, 7), (HEIGHT, 7), (ANGLE, 0x2F)] {
            let [header, value] = load_of(place, value);
            assert_eq!(header >> 16, 0x0801);
            target.load(header & 0xFFFF, value, false, true);
            count += 1;
        }
        assert_eq!((count, target.known), (3, lent));
        assert_eq!((target.values[ADDRESS], target.values[HEIGHT]), (7, 7));
        assert_eq!(target.values[ANGLE], 0x28);
        // A lent load makes the engine read nothing.
        assert_eq!(load_of(PATTERN_CONFIG, 0xD6), [0x0801_048F, 0x16]);
    }
}
