// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite about what the 2D engine reads.

#[kernel::macros::kunit_tests(galcore_bounds_sources)]
mod cases {
    use super::super::{
        super::*,
        cases::{
            corner,
            draw,
            least,
            target,
            BASE,
            COPY,
            READ, //
        }, //
    };

    /// The bytes of memory that a copy of a rectangle needs at [`READ`]; 0: unbounded.
    fn read(has_pe20: bool, others: &[(u32, u32)], corners: [u32; 2]) -> u32 {
        let mut target = target(has_pe20, &COPY);
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
        let gdi = (0x1234, 1 << 24 | 4 << 12 | 6);
        let config = |format: u32, bits: u32| (0x120C, format << 24 | bits);
        // The bytes up to the end of the rectangle, and states of several rows.
        let (all, relative) = (27 * 256 + 76, config(6, 1 << 6));
        let no_source = (0x125C, 3 << 20 | 0xF0F0);
        let (half_x, twice_y, one) = ((0x1220, 0x8000), (0x1224, 0x2_0000), (0x1214, corner(1, 1)));
        let (least_x, least_y) = ((0x1220, 0x10000 / 19), (0x1224, 0x10000 / 28));
        let (zero_x, zero_y) = ((0x1220, 0), (0x1224, 0));
        let (tiled, blocks, pattern) = (config(6, 1 << 7), (0x1300, 8), (0x123C, 1 << 4 | 4));
        for (others, wanted) in [
            // 19 x 28 pixels.
            (&[][..], all),
            (&[(0x1210, corner(3, 4))], 31 * 256 + 88),
            (&[relative], 29 * 256 + 80),
            (&[relative, (0x1210, corner(3, 4))], 33 * 256 + 92),
            // Before the source.
            (&[(0x1210, corner(0xFFFF, 0))], 0),
            (&[relative, (0x1210, corner(0xFFFF, 0xFFFE))], all),
            // Stretched: the last pixel begins at 18 / 2 and 27 x 2.
            (&[stretch, half_x, twice_y], 54 * 256 + 40),
            // The size of the source counts as read, in a stretch.
            (
                &[
                    stretch,
                    (0x1210, corner(2, 2)),
                    (0x1214, corner(40, 10)),
                    half_x,
                    twice_y,
                ],
                56 * 256 + 42 * 4,
            ),
            (
                &[stretch, relative, (0x1214, corner(40, 10)), zero_x, zero_y],
                29 * 256 + 41 * 4,
            ),
            (&[(0x1214, corner(64, 32))], all),
            // Rounded to the nearest pixel: 40.5.
            (&[stretch, (0x1224, 0x1_8000)], 41 * 256 + 76),
            // The origin's fraction is added.
            (&[stretch, (0x1278, 0x8000 << 16)], 28 * 256 + 76),
            (&[stretch, (0x1278, 0x7FFF << 16)], 27 * 256 + 76),
            // A source of one pixel is not rounded: a 28th of it for each row.
            (&[stretch, one, least_x, least_y], 4),
            // Unless its origin has a fraction, in the same direction.
            (&[stretch, one, least_x, least_y, (0x1278, 0xFFFF)], 12),
            (
                &[stretch, one, least_x, least_y, (0x1278, 1 << 16)],
                256 + 4,
            ),
            (&[stretch, zero_x, least_y], 256 + 4),
            (&[stretch, one, zero_x, (0x1224, 0x10000 / 28 + 1)], 256 + 4),
            // The last of the pixels that the last pixel covers.
            (&[gdi, (0x1220, 0x2_0000), twice_y], 55 * 256 + 38 * 4),
            (
                &[gdi, (0x1220, 0x2_0000), twice_y, (0x1278, 1 << 16)],
                56 * 256 + 38 * 4,
            ),
            // A relative origin: factors may not count.
            (&[stretch, relative, zero_x, zero_y], 29 * 256 + 80),
            // Not used: the operation, and not the transparency.
            (&[no_source], 0),
            (&[(0x125C, 2 << 20 | 0xCCF0)], 0),
            (&[(0x125C, 3 << 20 | 0xCCF0)], all),
            (&[no_source, (0x12D4, 2)], all),
            (&[no_source, (0x12D4, 1 << 16)], all),
            (&[no_source, (0x12D4, 1 << 12 | 2)], 0),
            // A draw that blends.
            (&[no_source, (0x127C, 1)], all),
            // Formats: bytes, pairs, bits, bits from the command.
            (&[config(9, 0)], 27 * 256 + 19),
            (&[config(7, 0)], 27 * 256 + 40),
            (&[config(10, 0)], 27 * 256 + 3),
            (&[config(10, 1 << 8)], 0),
            // Tiles and blocks. A core without the feature reads rows.
            (&[tiled], all),
            (&[tiled, (0x1204, 8)], 24 * 8 + 80 * 4),
            (&[tiled, blocks], 64 * 256),
            (&[tiled, blocks, (0x1204, 0x2000)], 27 * 0x2000 + 76),
            (&[config(6, 0), blocks], 64 * 256),
            (&[config(6, 0), blocks, (0x1204, 0x2000)], 27 * 0x2000 + 76),
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
            (&[(0x12BC, 1 << 8 | 5)], all),
            // A pattern of 8 x 8 pixels, or of one color.
            (&[(0x1234, 0x1006), no_source, pattern], 128),
            (&[(0x1234, 0x1006), no_source, (0x123C, 1 << 4 | 10)], 0),
            // A clear reads the pattern if the operation uses it, but no source.
            (&[(0x1234, 6), no_source, pattern], 128),
            (&[(0x1234, 6), pattern], 0),
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
        assert_eq!(read(false, &[no_source, (0x120C, 9)], part), 0);
        assert_eq!(
            read(false, &[no_source, (0x120C, 2 << 4 | 9)], part),
            27 * 256 + 19
        );
    }

    #[test]
    fn a_stretch_needs_the_fraction_of_its_origin() {
        let last_of = |_, address| match address {
            READ => Some(READ + 3),
            _ => Some(u32::MAX),
        };
        let part = [corner(1, 2), corner(20, 30)];
        let one = [
            (0x1234, 4 << 12 | 6),
            (0x1214, corner(1, 1)),
            (0x1220, 0x10000 / 19),
            (0x1224, 0x10000 / 28),
        ];
        let mut target = target(true, &COPY);
        for (state, value) in one {
            target.load(word(state), value, false, true);
        }
        target.known &= !bit(SRC_FRACTION);
        let missing = Err(Problem::Missing(bit(SRC_FRACTION)));
        assert_eq!(draw(&mut target, part, last_of), missing);
        assert!(target.lend(bit(SRC_FRACTION), |_| 0));
        assert_eq!(draw(&mut target, part, last_of), Ok(()));
        // The sign of a factor has no known meaning.
        target.load(word(0x1224), 1 << 31, false, true);
        let unbounded = Err(Problem::Unbounded(word(0x1224), 1 << 31));
        assert_eq!(draw(&mut target, part, last_of), unbounded);
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
}
