// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

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
    const BASE: u32 = 0x4000_0000;

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

    fn engines(turns: bool) -> Engines {
        Engines {
            turns,
            rotates: turns,
            has_a8_target: true,
            ..Engines::default()
        }
    }

    fn target(turns: bool, others: &[(u32, u32)]) -> Target {
        let mut target = Target::new(engines(turns));
        for &(state, value) in PLAIN.iter().chain(others) {
            assert_eq!(target.load(word(state), value, false, true), Load::Noted);
        }
        target
    }

    /// The least number of bytes from `low` on that fits; 0: none.
    fn least(mut low: u32, mut fits: impl FnMut(u32) -> bool) -> u32 {
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
    fn bytes(mut target: Target, corners: [u32; 2]) -> u32 {
        let fits = |bytes: u32| {
            // Drops the cached success of the last call.
            target.is_roomy = false;
            draw(&mut target, corners, |_, address| Some(address + bytes - 1)) == Ok(())
        };
        least(1, fits)
    }

    fn draw(
        target: &mut Target,
        corners: [u32; 2],
        last_of: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<(), Problem> {
        target.draw(corners.into_iter(), |_| Loads::Never, last_of)
    }

    fn corner(x: u32, y: u32) -> u32 {
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
    const READ: u32 = 0x2000_0000;

    /// A source of 64 x 32 pixels in A8R8G8B8, for a copy of it.
    const COPY: [(u32, u32); 18] = [
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

    /// The bytes of memory that a copy of a rectangle needs at [`READ`]; 0: unbounded.
    fn read(turns: bool, others: &[(u32, u32)], corners: [u32; 2]) -> u32 {
        let mut target = target(turns, &COPY);
        for &(state, value) in others {
            target.load(word(state), value, false, true);
        }
        let fits = |bytes: u32| {
            let last_of = |_, address| match address {
                READ => (READ - 1).checked_add(bytes),
                _ => Some(u32::MAX),
            };
            draw(&mut target, corners, last_of) == Ok(())
        };
        least(0, fits)
    }

    #[test]
    fn sources_are_read_as_far_as_the_rectangle_goes() {
        let part = [corner(1, 2), corner(20, 30)];
        let stretch = (0x1234, 4 << 12 | 6);
        let config = |format: u32, bits: u32| (0x120C, format << 24 | bits);
        for (others, wanted) in [
            // 19 x 28 pixels.
            (&[][..], 27 * 256 + 76),
            (&[(0x1210, corner(3, 4))], 31 * 256 + 88),
            (&[config(6, 1 << 6)], 29 * 256 + 80),
            (&[config(6, 1 << 6), (0x1210, corner(3, 4))], 33 * 256 + 92),
            // Before the source.
            (&[(0x1210, corner(0xFFFF, 0))], 0),
            (
                &[config(6, 1 << 6), (0x1210, corner(0xFFFF, 0xFFFE))],
                27 * 256 + 76,
            ),
            // Stretched: the last pixel begins at 18 / 2 and 27 x 2.
            (
                &[stretch, (0x1220, 0x8000), (0x1224, 0x2_0000)],
                54 * 256 + 40,
            ),
            // The size of the source counts as read, in a stretch.
            (
                &[
                    stretch,
                    (0x1210, corner(2, 2)),
                    (0x1214, corner(40, 10)),
                    (0x1220, 0x8000),
                    (0x1224, 0x2_0000),
                ],
                56 * 256 + 42 * 4,
            ),
            (
                &[
                    stretch,
                    config(6, 1 << 6),
                    (0x1214, corner(40, 10)),
                    (0x1220, 0),
                    (0x1224, 0),
                ],
                29 * 256 + 41 * 4,
            ),
            (&[(0x1214, corner(64, 32))], 27 * 256 + 76),
            // Rounded to the nearest pixel: 40.5.
            (&[stretch, (0x1224, 0x1_8000)], 41 * 256 + 76),
            // A source of one pixel is not rounded: a 28th of it for each row.
            (
                &[
                    stretch,
                    (0x1214, corner(1, 1)),
                    (0x1220, 0x10000 / 19),
                    (0x1224, 0x10000 / 28),
                ],
                4,
            ),
            (&[stretch, (0x1220, 0), (0x1224, 0x10000 / 28)], 256 + 4),
            (
                &[
                    stretch,
                    (0x1214, corner(1, 1)),
                    (0x1220, 0),
                    (0x1224, 0x10000 / 28 + 1),
                ],
                256 + 4,
            ),
            // The last of the pixels that the last pixel covers.
            (
                &[
                    (0x1234, 1 << 24 | 4 << 12 | 6),
                    (0x1220, 0x2_0000),
                    (0x1224, 0x2_0000),
                ],
                55 * 256 + 38 * 4,
            ),
            // A relative origin: factors may not count.
            (
                &[stretch, config(6, 1 << 6), (0x1220, 0), (0x1224, 0)],
                29 * 256 + 80,
            ),
            // Not used: the operation, and not the transparency.
            (&[(0x125C, 3 << 20 | 0xF0F0)], 0),
            (&[(0x125C, 2 << 20 | 0xCCF0)], 0),
            (&[(0x125C, 3 << 20 | 0xCCF0)], 27 * 256 + 76),
            (&[(0x125C, 3 << 20 | 0xF0F0), (0x12D4, 2)], 27 * 256 + 76),
            (
                &[(0x125C, 3 << 20 | 0xF0F0), (0x12D4, 1 << 16)],
                27 * 256 + 76,
            ),
            (&[(0x125C, 3 << 20 | 0xF0F0), (0x12D4, 1 << 12 | 2)], 0),
            // A draw that blends.
            (&[(0x125C, 3 << 20 | 0xF0F0), (0x127C, 1)], 27 * 256 + 76),
            // Formats: bytes, pairs, bits, bits from the command.
            (&[config(9, 0)], 27 * 256 + 19),
            (&[config(7, 0)], 27 * 256 + 40),
            (&[config(10, 0)], 27 * 256 + 3),
            (&[config(10, 1 << 8)], 0),
            // Tiles and blocks. A core without the feature reads rows.
            (&[config(6, 1 << 7)], 27 * 256 + 76),
            (&[config(6, 1 << 7), (0x1204, 8)], 24 * 8 + 80 * 4),
            (&[config(6, 1 << 7), (0x1300, 8)], 64 * 256),
            (
                &[config(6, 1 << 7), (0x1300, 8), (0x1204, 0x2000)],
                27 * 0x2000 + 76,
            ),
            (&[config(6, 0), (0x1300, 8)], 64 * 256),
            (
                &[config(6, 0), (0x1300, 8), (0x1204, 0x2000)],
                27 * 0x2000 + 76,
            ),
            (&[(0x1300, 1)], 0),
            (&[(0x1300, 1 << 1)], 0),
            (&[(0x1300, 1 << 4)], 0),
            (&[(0x1300, 1 << 7)], 0),
            (&[(0x1300, 1 << 8)], 0),
            // Compressed.
            (&[(0x1300, 1 << 13)], 0),
            (&[(0x1300, 1 << 31)], 0),
            (&[config(31, 0)], 0),
            (&[config(6, 1 << 9)], 0),
            (&[config(6, 1 << 19)], 0),
            (&[(0x1204, 0x4_0000)], 0),
            // Rotated.
            (&[(0x12BC, 5)], 31 * 256 + 256),
            (&[(0x12BC, 3)], 0),
            (&[(0x12BC, 1 << 8 | 5)], 27 * 256 + 76),
            // A pattern of 8 x 8 pixels, or of one color.
            (
                &[
                    (0x1234, 0x1006),
                    (0x125C, 3 << 20 | 0xF0F0),
                    (0x123C, 1 << 4 | 4),
                ],
                128,
            ),
            (
                &[
                    (0x1234, 0x1006),
                    (0x125C, 3 << 20 | 0xF0F0),
                    (0x123C, 1 << 4 | 10),
                ],
                0,
            ),
            // A clear reads the pattern if the operation uses it, but no source.
            (
                &[
                    (0x1234, 6),
                    (0x125C, 3 << 20 | 0xF0F0),
                    (0x123C, 1 << 4 | 4),
                ],
                128,
            ),
            (&[(0x1234, 6), (0x123C, 1 << 4 | 4)], 0),
        ] {
            // 0 is also what nothing is read for.
            let found = read(true, others, part);
            assert_eq!(found, wanted);
        }
        // The second corner may have no sign, and the blit may be mirrored.
        let far = [corner(10, 0), corner(0xFFFF, 8)];
        let wide = (0x1264, corner(100, 100));
        assert_eq!(read(true, &[wide], far), 7 * 256 + 0x1_0000 * 4);
        // Planes: of each in turn all but one are elsewhere.
        for (format, place, wanted) in [
            (15, 0x1200, 27 * 256 + 19),
            (15, 0x1284, 13 * 256 + 10),
            (15, 0x128C, 13 * 256 + 10),
            (17, 0x1284, 13 * 256 + 20),
            (18, 0x1284, 27 * 256 + 20),
            (17, 0x128C, 0),
        ] {
            let elsewhere = |state: u32| (state, if state == place { READ } else { BASE });
            let planes = [0x1200, 0x1284, 0x128C].map(elsewhere);
            let others = [config(format, 0), planes[0], planes[1], planes[2]];
            assert_eq!(read(true, &others, part), wanted);
        }
        // An older engine has another place for the format, and for transparency.
        assert_eq!(read(false, &[(0x120C, 9)], part), 27 * 256 + 19);
        let rop = (0x125C, 3 << 20 | 0xF0F0);
        assert_eq!(read(false, &[rop, (0x120C, 9)], part), 0);
        assert_eq!(
            read(false, &[rop, (0x120C, 2 << 4 | 9)], part),
            27 * 256 + 19
        );
    }

    #[test]
    fn several_sources_are_read_as_far_as_the_rectangle_goes() {
        let part = [corner(1, 2), corner(20, 30)];
        let multi = [
            (0x1234, 8 << 12 | 6),
            (0x125C, 3 << 20 | 0xCCCC),
            (0x1308, 1),
            (0x123C, 0),
        ];
        for (first, count, others, wanted) in [
            (word(0x12800), 4, &[][..], Some(29 * 256 + 80)),
            (word(0x12A00), 8, &[], Some(29 * 256 + 80)),
            (
                word(0x12800),
                4,
                &[(BLOCK_ORIGIN, corner(3, 4))],
                Some(33 * 256 + 92),
            ),
            (word(0x12800), 4, &[(BLOCK_CONFIG, 31 << 24)], None),
            (word(0x12800), 4, &[(BLOCK_CONFIG, 10 << 24 | 1 << 8)], None),
            (
                word(0x12800),
                4,
                &[(BLOCK_CONFIG, 15 << 24)],
                Some(29 * 256 + 20),
            ),
            (word(0x12800), 4, &[(BLOCK_EX_CONFIG, 1)], None),
            (word(0x12800), 4, &[(BLOCK_ANGLE, 1 << 8)], None),
        ] {
            let value_of = |state: u32| {
                let place = state
                    .checked_sub(first)
                    .filter(|place| *place < GROUPS * count)?;
                // The second source; the first one is somewhere else.
                let (group, source) = (place / count, place % count);
                let other = others.iter().find(|other| other.0 == group && source == 1);
                Some(match group {
                    _ if other.is_some() => other?.1,
                    BLOCK_ADDRESS | BLOCK_U | BLOCK_V if source == 0 => BASE,
                    BLOCK_ADDRESS => READ,
                    BLOCK_U | BLOCK_V => BASE,
                    BLOCK_STRIDE => 256,
                    BLOCK_CONFIG => 6 << 24,
                    _ => 0,
                })
            };
            let checked = |bytes: u32, left_out: u32| {
                let mut target = target(true, &multi);
                let last_of = |_, address| match address {
                    READ => (READ - 1).checked_add(bytes),
                    _ => Some(u32::MAX),
                };
                let loaded = |state| match value_of(state) {
                    None => Loads::Never,
                    Some(_) if state == left_out => Loads::Before,
                    Some(value) => Loads::Here(value),
                };
                target.draw(part.into_iter(), loaded, last_of)
            };
            match wanted {
                None => assert!(checked(0x8000_0000, 0).is_err()),
                Some(bytes) => {
                    assert_eq!(checked(bytes, 0), Ok(()));
                    let beyond = Err(Problem::Beyond(first + 1, READ));
                    assert_eq!(checked(bytes - 1, 0), beyond);
                }
            }
            for group in [
                BLOCK_ADDRESS,
                BLOCK_STRIDE,
                BLOCK_CONFIG,
                BLOCK_ANGLE,
                BLOCK_EX_CONFIG,
            ] {
                assert!(checked(0x8000_0000, first + group * count + 1).is_err());
            }
        }
        let mut target = target(true, &multi);
        let unloaded = Err(Problem::Unloaded(word(0x12800)));
        let last_of = |_, _| Some(u32::MAX);
        assert_eq!(draw(&mut target, part, last_of), unloaded);
        // Of five sources, the first four may be those of the set of 4.
        let loaded = |state: u32| {
            let (first, count) = BLOCKS[usize::from(state >= BLOCKS[1].0)];
            Loads::Here(match (state - first) / count {
                BLOCK_ADDRESS if count == 4 => READ,
                BLOCK_ADDRESS | BLOCK_U | BLOCK_V => BASE,
                BLOCK_STRIDE => 256,
                BLOCK_CONFIG => 6 << 24,
                _ => 0,
            })
        };
        target.load(word(0x1308), 4, false, true);
        let mut checked = |bytes: u32| {
            let last_of = |_, address| match address {
                READ => Some(READ + bytes - 1),
                _ => Some(u32::MAX),
            };
            target.draw(part.into_iter(), loaded, last_of)
        };
        assert_eq!(checked(29 * 256 + 80), Ok(()));
        let beyond = Err(Problem::Beyond(BLOCKS[0].0, READ));
        assert_eq!(checked(29 * 256 + 79), beyond);
    }

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
        for (turns, angle, wanted) in [
            (false, 0, 20 * 256),
            (true, 0, 29 * 256 + 80),
            (true, 5, 32 * 256),
            (true, 4, 20 * 256),
        ] {
            let turned = target(turns, &[by_state, (0x12BC, angle << 3)]);
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
    fn the_state_that_makes_an_area_impossible_is_named() {
        let part = [corner(1, 2), corner(20, 30)];
        let stretch = (0x1234, 4 << 12 | 6);
        for (others, wanted) in [
            (&[(0x122C, 0x4_0400)][..], (0x122C, 0x4_0400)),
            (&[(0x12BC, 5 << 3), (0x1230, 0)], (0x1230, 0)),
            (&[(0x1204, 0xFFFF_FC00)], (0x1204, 0xFFFF_FC00)),
            (&[(0x12BC, 5), (0x1208, 0)], (0x1208, 0)),
            (&[(0x1210, 0xFFFF)], (0x1210, 0xFFFF)),
            // The factors alone fit.
            (&[stretch, (0x1214, 1 << 8)], (0x1214, 1 << 8)),
            // Row 27.7.
            (&[stretch, (0x1224, 0x106A3)], (0x1224, 0x106A3)),
        ] {
            let mut target = target(true, &COPY);
            for &(state, value) in others {
                target.load(word(state), value, false, true);
            }
            let last_of = |_, address| match address {
                READ => Some(READ + 27 * 256 + 75),
                _ => Some(u32::MAX),
            };
            let wanted = Err(Problem::Unbounded(word(wanted.0), wanted.1));
            assert_eq!(draw(&mut target, part, last_of), wanted);
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
            for turns in [true, false] {
                let target = target(turns, &[(0x1234, config)]);
                assert_eq!(bytes(target, [0, last]), wanted);
            }
        }
    }

    #[test]
    fn early_cores_do_not_turn() {
        let mut target = Target::new(Engines {
            rotates: false,
            ..engines(true)
        });
        let mut load = |value| target.load(word(0x12BC), value, false, true);
        // They may ignore the mask bits.
        for value in [4, 4 << 3, 4 | 1 << 8, 4 << 3 | 1 << 9] {
            assert_eq!(load(value), Load::Refused);
        }
        assert_eq!(load(0), Load::Noted);
        let mut earlier = Target::new(engines(false));
        for (value, wanted) in [
            (4, Load::Refused),
            (4 << 3 | 1 << 8, Load::Refused),
            (1 << 20, Load::Refused),
            (4 | 1 << 8, Load::Refused),
            (3 << 8, Load::Masked),
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
            assert_eq!(load, Load::Masked);
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
        assert_eq!(filter(&[(0x12AC, u32::MAX)], 0x8000_0000 - 1), Ok(()));
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
        for (turns, left_out, is_drawn, is_filtered) in [
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
            let mut target = Target::new(engines(turns));
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
        assert_eq!(masked, Load::Masked);
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
            (0x12B0, 0x31, false, Load::Masked),
            (0x12B0, 3, false, Load::Instead(1)),
            (0x12B0, 0, false, Load::Instead(1)),
            (0x12B0, 0xF0, false, Load::Instead(0xF1)),
            (0x12B0, 1, false, Load::Masked),
            (0x12B0, 2, false, Load::Masked),
            (0x12B0, 8, false, Load::Masked),
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
        let mut target = Target::new(engines(true));
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

    /// Address of the source.
    const SOURCE: u32 = 0x2000_0000;

    /// A resolve of 64 x 32 pixels to a linear target in A8R8G8B8, with the states of two pipes.
    const RESOLVE: [(u32, u32); 16] = [
        (0x1604, 6 << 8 | 6),
        (0x1608, SOURCE),
        (0x160C, 256),
        (0x1610, BASE),
        (0x1614, 256),
        (0x1620, 32 << 16 | 64),
        (0x163C, 0),
        (0x1654, 0),
        (0x1658, BASE),
        (0x165C, BASE),
        (0x16C0, SOURCE),
        (0x16C4, SOURCE),
        (0x16E0, BASE),
        (0x16E4, BASE),
        (0x1700, 0),
        (0x1704, 0),
    ];

    /// The bytes of memory that a resolve needs for its target, or for its source at `of`; 0:
    /// unbounded.
    fn resolved(of: u32, pixel_pipes: u32, others: &[(u32, u32)]) -> u32 {
        let mut target = Target::new(Engines {
            pixel_pipes,
            ..Engines::default()
        });
        let plain = RESOLVE
            .iter()
            .filter(|(state, _)| pixel_pipes == 1 || !matches!(state, 0x1608 | 0x1610));
        for &(state, value) in plain.chain(others) {
            assert_eq!(target.load(word(state), value, false, true), Load::Noted);
        }
        let fits = |bytes: u32| {
            let last_of = |_, address| {
                if address & !0xFFFF == of {
                    Some(address | (bytes - 1))
                } else {
                    Some(address | 0x7FFF_FFFF)
                }
            };
            target.resolve(0, last_of) == Ok(())
        };
        let powers = (0..31).map(|power| 1u32 << power);
        powers.clone().find(|&bytes| fits(bytes)).unwrap_or(0)
    }

    #[test]
    fn resolves_have_windows() {
        const TILED: (u32, u32) = (0x1604, 1 << 14 | 6 << 8 | 6);
        for (pipes, others, wanted) in [
            (1, &[][..], 1 << 13),
            (1, &[(0x1620, 33 << 16 | 64)], 1 << 14),
            (1, &[(0x1620, 32 << 16 | 65)], 1 << 14),
            (1, &[(0x1620, 64)], 0),
            (1, &[(0x1614, 512)], 1 << 14),
            (1, &[(0x1614, 1 << 18)], 0),
            (1, &[(0x1614, 1 << 27 | 256)], 0),
            // Half as many rows, unless it fills.
            (1, &[(0x1604, 0x646)], 1 << 12),
            (1, &[(0x1604, 0x646), (0x163C, 1 << 16)], 1 << 13),
            // Tiles, and supertiles, which count up to the last tile of the window.
            (1, &[TILED, (0x1614, 1024)], 1 << 13),
            (1, &[TILED, (0x1614, 1 << 31 | 1024)], 1 << 13),
            (
                1,
                &[TILED, (0x1614, 1 << 31 | 1024), (0x1620, 33 << 16 | 64)],
                1 << 14,
            ),
            // A core without supertiles takes them for tiles.
            (
                1,
                &[TILED, (0x1614, 1 << 31 | 0x3FFFF), (0x1620, 64 << 16 | 16)],
                1 << 22,
            ),
            // Two pipes, with windows at offsets in the picture; split: each half is half as high.
            (2, &[], 1 << 13),
            (2, &[(0x1704, 32 << 16)], 1 << 14),
            (
                2,
                &[TILED, (0x1614, 1 << 30 | 1024), (0x1704, 32 << 16)],
                1 << 13,
            ),
            (2, &[(0x1610, BASE + 16)], 1 << 14),
            (4, &[], 0),
        ] {
            assert_eq!(resolved(BASE, pipes, others), wanted);
        }
        // An offset in the middle of a block.
        let kick = |height: u32| resolve::Kick {
            config: 0x606,
            source_stride: 0,
            stride: 256,
            window: height << 16 | 64,
            clear: 0,
            has_supertiles: true,
        };
        let last = |height, origin| kick(height).target().last_byte(origin, false);
        assert_eq!(last(32, 1 << 16), last(36, 0));
        let of_columns = |columns: u32, origin| {
            let mut kick = kick(32);
            kick.window = 32 << 16 | columns;
            kick.target().last_byte(origin, false)
        };
        assert_eq!(of_columns(32, 8), of_columns(48, 0));
        // The second supertile of a surface of 128 x 64 pixels ends with its memory.
        let mut part = kick(64);
        (part.config, part.stride) = (0x606 | 1 << 14, 1 << 31 | 128 * 4 * 4);
        assert_eq!(part.target().last_byte(0, false), Some(64 * 64 * 4 - 1));
        part.has_supertiles = false;
        let last = part.target().last_byte(0, false);
        assert_eq!(last, Some(15 * 2048 + 64 * 4 * 4 - 1));
    }

    #[test]
    fn resolves_have_sources() {
        for (pipes, others, wanted) in [
            (1, &[][..], 1 << 13),
            (1, &[(0x160C, 512)], 1 << 14),
            (1, &[(0x160C, 512 | resolve::TS_MODE)], 1 << 14),
            (1, &[(0x160C, 1 << 18)], 0),
            // An averaging copy reads all rows, and a fill reads nothing.
            (1, &[(0x1604, 0x646)], 1 << 13),
            (1, &[(0x160C, 512), (0x163C, 1 << 16)], 1),
            (1, &[(0x1604, 0x684), (0x160C, 1024)], 1 << 13),
            (2, &[], 1 << 13),
            (2, &[(0x1704, 32 << 16)], 1 << 14),
            (2, &[(0x1608, SOURCE + 16)], 1 << 14),
        ] {
            assert_eq!(resolved(SOURCE, pipes, others), wanted);
        }
    }

    #[test]
    fn what_a_resolve_lacks_is_missing() {
        for (pixel_pipes, halti5, unused) in [
            (
                1,
                false,
                &[
                    0x1658, 0x165C, 0x16C0, 0x16C4, 0x16E0, 0x16E4, 0x1700, 0x1704,
                ][..],
            ),
            (
                1,
                true,
                &[0x1658, 0x165C, 0x1608, 0x1610, 0x16C4, 0x16E4, 0x1704],
            ),
            (2, false, &[0x1658, 0x165C, 0x1608, 0x1610, 0x16C4, 0x16E4]),
        ] {
            for (left_out, _) in RESOLVE {
                let mut target = Target::new(Engines {
                    pixel_pipes,
                    halti5,
                    ..Engines::default()
                });
                for (state, value) in RESOLVE.into_iter().filter(|(state, _)| *state != left_out) {
                    target.load(word(state), value, false, true);
                }
                let place = STATES.iter().position(|&state| state == word(left_out));
                let wanted = if unused.contains(&left_out) {
                    Ok(())
                } else {
                    Err(Problem::Missing(1 << place.unwrap()))
                };
                assert_eq!(
                    target.resolve(0, |_, address| Some(address + 0x1FFF)),
                    wanted
                );
            }
        }
    }

    #[test]
    fn what_does_not_say_how_far_a_resolve_goes_is_named() {
        for (state, value) in [
            (0x1620, 16),
            (0x1620, 16 << 16),
            (0x1614, 64 | 1 << 20),
            (0x160C, 64 | 1 << 20),
            // Supertiled, but not tiled.
            (0x1614, 256 | 1 << 31),
        ] {
            let mut target = Target::new(Engines::default());
            for (state, value) in RESOLVE.into_iter().chain([(state, value)]) {
                target.load(word(state), value, false, true);
            }
            let wanted = Err(Problem::Unbounded(word(state), value));
            assert_eq!(
                target.resolve(0, |_, address| Some(address + 0x1FFF)),
                wanted
            );
        }
    }

    #[test]
    fn a_copy_reads_the_status_of_its_source() {
        // 64 x 32 pixels are 128 tiles, from the surface's tile 4 on; its base is physical.
        const PHYSICAL: u32 = 0x1000_0000;
        for (has_2_bits_per_tile, config, bytes) in [
            (false, COLOR_FAST_CLEAR, 66),
            (true, COLOR_FAST_CLEAR, 33),
            (false, 1, 0),
        ] {
            let mut target = Target::new(Engines {
                has_2_bits_per_tile,
                ..Engines::default()
            });
            let status = [
                (0x1654, config),
                (0x1658, 0x7000_0000),
                (0x165C, PHYSICAL + SOURCE - 256),
            ];
            for (state, value) in RESOLVE.into_iter().chain(status) {
                target.load(word(state), value, false, true);
            }
            let checked = |target: &Target, bytes: u32| {
                target.resolve(PHYSICAL, |state, address| {
                    let bytes = if state == word(0x1658) { bytes } else { 0x2000 };
                    (address + bytes).checked_sub(1)
                })
            };
            assert_eq!(checked(&target, bytes), Ok(()));
            if bytes > 0 {
                let beyond = Err(Problem::Beyond(word(0x1658), 0x7000_0000));
                assert_eq!(checked(&target, bytes - 1), beyond);
            }
            // No tile before the surface has a status.
            target.load(word(0x165C), PHYSICAL + SOURCE + 64, false, true);
            let before = Err(Problem::Beyond(word(0x165C), PHYSICAL + SOURCE + 64));
            let wanted = if bytes > 0 { before } else { Ok(()) };
            assert_eq!(checked(&target, 0x2000), wanted);
            target.load(word(0x1654), config, true, true);
            assert!(checked(&target, 0x2000).is_err());
        }
    }

    #[test]
    fn tiles_are_filled_in_place_as_far_as_they_are_there() {
        for (has_large_tiles, mode, bytes) in [
            (false, 0, 64),
            (false, resolve::TS_MODE, 64),
            (true, 0, 128),
            (true, resolve::TS_MODE, 256),
        ] {
            let mut target = Target::new(Engines {
                has_large_tiles,
                ..Engines::default()
            });
            let last_of = |_, address| Some(address + 0xFFF);
            assert!(target.fill_tiles(0, last_of).is_err());
            target.load(word(0x165C), BASE, false, true);
            assert!(target.fill_tiles(1, last_of).is_err());
            target.load(word(0x1658), SOURCE, false, true);
            target.load(word(0x160C), mode, false, true);
            assert_eq!(target.fill_tiles(0x1000 / bytes, last_of), Ok(()));
            let beyond = Err(Problem::Beyond(word(0x165C), BASE));
            assert_eq!(target.fill_tiles(0x1000 / bytes + 1, last_of), beyond);
            assert_eq!(target.fill_tiles(u32::MAX, last_of), beyond);
            // Two tiles share a byte of status.
            let short = |state, address| {
                if state == word(0x1658) {
                    Some(address + 3)
                } else {
                    Some(address + 0xFFF)
                }
            };
            assert_eq!(target.fill_tiles(8, short), Ok(()));
            let beyond = Err(Problem::Beyond(word(0x1658), SOURCE));
            assert_eq!(target.fill_tiles(9, short), beyond);
        }
    }
}
