// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_state_map)]
mod cases {
    use super::super::*;
    use crate::stream::states::cores;

    const IMX6Q: Core = Core {
        model: 0x2000,
        revision: 0x5108,
        minor1: 0x2EFB_F2D9,
        minor2: 0,
        instructions: 512,
        pixel_pipes: 2,
    };
    const IMX6DL: Core = Core {
        model: 0x880,
        revision: 0x5106,
        minor1: 0xEEFB_F2D9,
        minor2: 0x0210_0284,
        instructions: 512,
        pixel_pipes: 1,
    };
    const DOVE: Core = Core {
        model: 0x600,
        revision: 0x19,
        minor1: 0,
        minor2: 0,
        instructions: 256,
        pixel_pipes: 1,
    };

    fn last_part(map: &StateMap) -> u32 {
        // The last entry's LINK.
        map.template[map.template.len() - 1]
    }

    #[test]
    fn sizes_are_those_of_the_vendor() {
        for (core, state_count, bytes, all, last) in [
            (IMX6Q, 0x3800, 0x3A78, 0x3AA0, 0x3848),
            (IMX6DL, 0x3800, 0x3A18, 0x3A40, 0x3848),
            (DOVE, 0x1D00, 0x39F8, 0x3A20, 0x3828),
            (
                Core {
                    minor2: 1 << 11 | 1 << 15,
                    ..IMX6Q
                },
                0x4A00,
                0x4E98,
                0x4EC0,
                0x4C68,
            ),
            (
                Core {
                    model: 0x3000,
                    revision: 0x5450,
                    minor2: 1 << 11,
                    instructions: 256,
                    ..IMX6Q
                },
                0x43FE,
                0x4B80,
                0x4BA8,
                0x4950,
            ),
        ] {
            let map = StateMap::of(&core, None).unwrap();
            assert_eq!(map.state_count(), state_count);
            assert_eq!((map.bytes(), 4 * map.template().len()), (bytes, all));
            assert_eq!(last_part(&map), last);
            assert_eq!(map.elements().0, 31);
        }
    }

    #[test]
    fn states_stand_where_the_vendor_has_them() {
        let map = StateMap::of(&IMX6Q, None).unwrap();
        for (byte, word) in [
            (0x0600, 31),
            (0x0644, 49),
            (0x064C, 51),
            (0x0680, 55),
            (0x0A00, 835),
            (0xC000, 1551),
            (0x8000, 1551),
            (0x1400, 3603),
            (0x1604, 3657),
            (0x1654, 3693),
            (0x1658, 3695),
        ] {
            assert_eq!(map.place(state::word(byte)), Some(word));
        }
        assert_eq!(map.link(), 3740);
        for byte in [
            0x0, 0x1600, 0x1650, 0x3800, 0x3804, 0x3808, 0x380C, 0x3810, 0x1228,
        ] {
            assert_eq!(map.place(state::word(byte)), None);
        }
        assert_eq!(map.place(u32::MAX), None);
    }

    #[test]
    fn the_first_words_switch_the_pipe() {
        let map = StateMap::of(&DOVE, None).unwrap();
        assert_eq!(
            map.template()[..14],
            [
                0x0801_0E03,
                8,
                0x0801_0E02,
                0x701,
                0x4800_0000,
                0x701,
                0x0801_0E00,
                0,
                0x0801_0E03,
                7,
                0x0801_0E02,
                0x701,
                0x4800_0000,
                0x701
            ]
        );
        assert_eq!(
            map.template()[map.link() - 4..map.link() + 1],
            [0x0801_0E02, 0x701, 0x4800_0000, 0x701, 0x4000_0000]
        );
    }

    /// What a context keeps, its client's commands load.
    #[test]
    fn clients_may_load_what_is_kept() {
        let imx6qp = Core {
            model: 0x3000,
            revision: 0x5450,
            minor2: 1 << 11,
            ..IMX6Q
        };
        for (core, states) in [
            (DOVE, cores::dove()),
            (IMX6Q, cores::dove()),
            (IMX6DL, cores::dove()),
            (imx6qp, cores::imx6qp()),
        ] {
            let map = StateMap::of(&core, None).unwrap();
            let sets = states.sets().unwrap();
            for address in 0..0x1_0000 {
                let may = !sets.is_special(address) || sets.takes_address(address);
                assert!(may || map.place(address).is_none());
            }
        }
    }

    /// The newer drivers' contexts keep more, and only what clients may load.
    #[test]
    fn newer_contexts_keep_more() {
        for (core, constants, minor4, states, state_count, more) in [
            (
                IMX6DL,
                256,
                0,
                cores::dove(),
                0x3800,
                &[0x0674, 0x1480, 0x2C40, 0x3850, 0x5FFC][..],
            ),
            (IMX6Q, 168, 0, cores::dove(), 0x3800, &[0x0674, 0x0A88][..]),
            (
                Core {
                    model: 0x3000,
                    revision: 0x5450,
                    minor2: 1 << 11,
                    ..IMX6Q
                },
                320,
                1 << 16,
                cores::imx6qp(),
                0xC500,
                &[
                    0x0884, 0x1040, 0x1044, 0x14600, 0x14900, 0x17C4, 0x30000, 0x313FC,
                ][..],
            ),
            // Arrays of clients have room for uniforms that no context keeps.
            (
                Core {
                    model: 0x4000,
                    revision: 0x5222,
                    minor2: 1 << 11,
                    ..IMX6Q
                },
                576,
                0,
                cores::imx6qp(),
                0xC900,
                &[0x30000, 0x31FFC][..],
            ),
        ] {
            let sets = states.sets().unwrap();
            let newer = Newer {
                minor3: 0,
                minor4,
                constants,
                varyings: 11,
                states: sets,
                halti5: None,
            };
            let older = StateMap::of(&core, None).unwrap();
            let map = StateMap::of(&core, Some(&newer)).unwrap();
            assert_eq!(map.state_count(), state_count);
            for address in 0..0x1_0000 {
                let may = !sets.is_special(address) || sets.takes_address(address);
                assert!(may || map.place(address).is_none());
                assert!(older.place(address).is_none() || map.place(address).is_some());
            }
            for &byte in more {
                assert!(older.place(state::word(byte)).is_none());
                assert!(map.place(state::word(byte)).is_some());
            }
        }
    }

    const INSTRUCTIONS_MIRROR: core::ops::Range<usize> = 0x2000..0x2800;

    /// Runs the stream as the front end does: every kept state is loaded once, with its value.
    /// What `is_mirror` says of a state: its place is another's.
    fn expect_each_once(map: &StateMap, is_mirror: impl Fn(usize) -> bool) {
        let words = map.template();
        let mut loaded: KVVec<u16> = KVVec::new();
        loaded.resize(map.state_count(), 0, GFP_KERNEL).unwrap();
        let mut at = 14;
        while at < map.link() - 4 {
            let header = words[at];
            assert_eq!(header >> 27, 1);
            let count = match (header >> 16) & 0x3FF {
                0 => 1024,
                n => n as usize,
            };
            for i in 0..count {
                let place = &mut loaded[(header & 0xFFFF) as usize + i];
                assert_eq!(*place, 0);
                *place = (at + 1 + i) as u16;
            }
            at += (count + 2) & !1;
        }
        assert_eq!(at, map.link() - 4);
        for (address, &place) in loaded.iter().enumerate() {
            if !is_mirror(address) {
                assert_eq!(map.place(address as u32).unwrap_or(0), usize::from(place));
            }
        }
    }

    #[test]
    fn the_stream_loads_each_state_once() {
        for core in [IMX6Q, IMX6DL, DOVE] {
            let map = StateMap::of(&core, None).unwrap();
            let has_mirror = core.instructions == 512;
            expect_each_once(&map, |at| has_mirror && INSTRUCTIONS_MIRROR.contains(&at));
        }
        let imx6qp = Core {
            model: 0x3000,
            revision: 0x5450,
            minor2: 1 << 11,
            ..IMX6Q
        };
        let states = cores::imx6qp();
        let newer = Newer {
            minor3: 0,
            minor4: 1 << 16,
            constants: 320,
            varyings: 11,
            states: states.sets().unwrap(),
            halti5: None,
        };
        let map = StateMap::of(&imx6qp, Some(&newer)).unwrap();
        expect_each_once(&map, |at| INSTRUCTIONS_MIRROR.contains(&at));
    }

    const IMX8MP: Core = Core {
        model: 0x7000,
        revision: 0x6204,
        minor1: 0xFEFB_FAD9,
        minor2: 0xEB9D_4FBF,
        instructions: 512,
        pixel_pipes: 1,
    };

    /// What contexts of HALTI5 keep: all that its clients may load, where its mirrors are.
    #[test]
    fn halti5_has_contexts_of_its_own() {
        let states = cores::imx8mp();
        let sets = states.sets().unwrap();
        let newer = Newer {
            minor3: 0xEDFF_FCED,
            minor4: 0xDB0D_AFC7,
            constants: 320,
            varyings: 16,
            states: sets,
            halti5: Some(2),
        };
        let map = StateMap::of(&IMX8MP, Some(&newer)).unwrap();
        assert_eq!(map.state_count(), 0xDD00);
        assert_eq!(map.elements(), (0, 0));
        for &Run(byte, count, _) in [HALTI5_FRONT, HALTI5_PIXEL, HALTI5_BACK]
            .into_iter()
            .flatten()
        {
            for i in 0..count {
                assert!(map.place(state::word(byte) + i).is_some());
            }
        }
        let value = |byte| map.template()[map.place(state::word(byte)).unwrap()];
        assert_eq!(value(0x3884), 0x2_0002);
        assert_eq!(value(0x17A7C), 0x3F80_0000);
        assert_eq!(value(0x1034), 0);
        for (mirror, kept) in [(0x15800, 0x15C00), (0x16878, 0x17478), (0x353FC, 0x373FC)] {
            assert_eq!(map.place(state::word(mirror)), map.place(state::word(kept)));
        }
        for byte in [0x0600, 0x1600, 0x2000, 0x3900, 0x14C44, 0x15C80, 0x37400] {
            assert_eq!(map.place(state::word(byte)), None);
        }
        for address in 0..0x1_0000 {
            let may = !sets.is_special(address) || sets.takes_address(address);
            assert!(may || map.place(address).is_none());
        }
        let mirrors = [0x15800..0x15C00, 0x16000..0x16C00, 0x34000..0x36000];
        expect_each_once(&map, |at| mirrors.iter().any(|it| it.contains(&(4 * at))));
    }
}
