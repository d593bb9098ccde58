// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite about the resolve engine.

#[kernel::macros::kunit_tests(galcore_bounds_resolves)]
mod cases {
    use super::super::{
        super::*,
        cases::BASE, //
    };

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
        let mut target = DrawState::new(Engines {
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
            (2, &[(0x1704, 0x8000)], 0),
            (2, &[(0x1700, 0xFFE0 << 16)], 0),
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
                let mut target = DrawState::new(Engines {
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
            let mut target = DrawState::new(Engines::default());
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
            let mut target = DrawState::new(Engines {
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
            let checked = |target: &DrawState, bytes: u32| {
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
        let (none, large, small) = ((false, false), (true, false), (false, true));
        let (mode, extra) = (resolve::TS_MODE, EXTRA_TS_MODE);
        for ((has_large_tiles, has_small_msaa), mode, extra, bytes) in [
            (none, 0, 0, 64),
            (none, mode, extra, 64),
            (large, 0, 0, 128),
            (large, mode, 0, 256),
            (large, 0, extra, 256),
            (large, mode, extra, 256),
            (small, 0, 0, 64),
            (small, mode, 0, 256),
            (small, 0, extra, 256),
        ] {
            let mut target = DrawState::new(Engines {
                has_large_tiles,
                has_small_msaa,
                ..Engines::default()
            });
            let last_of = |_, address| Some(address + 0xFFF);
            assert!(target.fill_tiles(0, last_of).is_err());
            target.load(word(0x165C), BASE, false, true);
            assert!(target.fill_tiles(1, last_of).is_err());
            target.load(word(0x1658), SOURCE, false, true);
            target.load(word(0x160C), mode, false, true);
            let missing = Err(Problem::Missing(bit(RS_EXTRA)));
            let wanted = match (has_large_tiles, has_small_msaa) {
                (false, false) => Ok(()),
                _ => missing,
            };
            assert_eq!(target.fill_tiles(1, last_of), wanted);
            target.load(word(0x16A0), extra, false, true);
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
