// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_state_map)]
mod cases {
    use super::super::*;
    use crate::stream::{
        states::cores,
        table, //
    };

    fn identity((model, revision): (u32, u32), [minor1, minor2]: [u32; 2]) -> Identity {
        Identity {
            model,
            revision,
            minor_features: [0, minor1, minor2, 0],
            instruction_count: 512,
            pixel_pipes: 2,
            num_constants: 168,
            free_varyings: 11,
            ..Identity::default()
        }
    }

    fn imx6q() -> Identity {
        identity((0x2000, 0x5108), [0x2EFB_F2D9, 0])
    }

    fn imx6dl() -> Identity {
        Identity {
            pixel_pipes: 1,
            num_constants: 256,
            ..identity((0x880, 0x5106), [0xEEFB_F2D9, 0x0210_0284])
        }
    }

    fn dove() -> Identity {
        Identity {
            instruction_count: 256,
            pixel_pipes: 1,
            ..identity((0x600, 0x19), [0, 0])
        }
    }

    fn imx6qp() -> Identity {
        Identity {
            later_minor_features: [identity::MINOR4_HALTI2, 0, 0],
            num_constants: 320,
            ..identity((0x3000, 0x5450), [0x2EFB_F2D9, identity::MINOR2_HALTI1])
        }
    }

    fn imx8mp() -> Identity {
        Identity {
            minor_features: [0, 0xFEFB_FAD9, 0xEB9D_4FBF, 0xEDFF_FCED],
            later_minor_features: [0xDB0D_AFC7, 1 << 29, 0],
            pixel_pipes: 1,
            num_constants: 320,
            free_varyings: 16,
            ..identity((0x7000, 0x6204), [0, 0])
        }
    }

    fn place(map: &StateMap, byte: u32) -> Option<usize> {
        map.place(state::word(byte))
    }

    #[test]
    fn sizes_are_those_of_the_vendor() {
        let filters = identity::MINOR2_HALTI1 | identity::MINOR2_TX_FILTER;
        for (identity, state_count, bytes, all, last) in [
            (imx6q(), 0x3800, 0x3A78, 0x3AA0, 0x3848),
            (imx6dl(), 0x3800, 0x3A18, 0x3A40, 0x3848),
            (dove(), 0x1D00, 0x39F8, 0x3A20, 0x3828),
            (
                identity((0x2000, 0x5108), [0x2EFB_F2D9, filters]),
                0x4A00,
                0x4E98,
                0x4EC0,
                0x4C68,
            ),
            (
                Identity {
                    instruction_count: 256,
                    ..imx6qp()
                },
                0x43FE,
                0x4B80,
                0x4BA8,
                0x4950,
            ),
        ] {
            let map = StateMap::new(&identity).unwrap();
            assert_eq!(map.state_count, state_count);
            assert_eq!((map.bytes(), 4 * map.template.len()), (bytes, all));
            // The LINK of the last entry.
            assert_eq!(map.template.last(), Some(&last));
            assert_eq!(map.elements.0, 31);
        }
    }

    #[test]
    fn states_are_where_the_vendor_has_them() {
        let map = StateMap::new(&imx6q()).unwrap();
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
            assert_eq!(place(&map, byte), Some(word));
        }
        assert_eq!(map.link, 3740);
        for byte in [
            0x0, 0x1600, 0x1650, 0x3800, 0x3804, 0x3808, 0x380C, 0x3810, 0x1228,
        ] {
            assert_eq!(place(&map, byte), None);
        }
        assert_eq!(map.place(u32::MAX), None);
    }

    #[test]
    fn the_first_words_switch_the_pipe() {
        let map = StateMap::new(&dove()).unwrap();
        let stall = [0x0801_0E02, 0x701, 0x4800_0000, 0x701];
        let words = &map.template;
        assert_eq!(words[..2], [0x0801_0E03, 8]);
        assert_eq!(words[2..6], stall);
        assert_eq!(words[6..10], [0x0801_0E00, 0, 0x0801_0E03, 7]);
        assert_eq!(words[10..14], stall);
        assert_eq!(words[map.link - 4..map.link], stall);
        assert_eq!(words[map.link], 0x4000_0000);
    }

    /// States that are addresses have the names of the table of addresses.
    #[test]
    fn rows_have_their_names() {
        for row in [FRONT, BACK].into_iter().flatten() {
            let address = state::word(row.byte);
            if takes_address(address) {
                let name = table::name(address).unwrap().bytes();
                let name = name.map(|byte| if byte == b'.' { b'_' } else { byte });
                assert!(row.name.bytes().eq(name));
            }
        }
    }

    /// A client's commands may load all that its context keeps.
    fn expect_loadable(map: &StateMap, sets: Sets<'_>) {
        for address in 0..0x1_0000 {
            let may = !sets.is_special(address) || sets.takes_address(address);
            assert!(may || map.place(address).is_none());
        }
    }

    #[test]
    fn clients_may_load_what_is_kept() {
        for (identity, states) in [
            (dove(), cores::dove()),
            (imx6q(), cores::dove()),
            (imx6dl(), cores::dove()),
            (imx6qp(), cores::imx6qp()),
        ] {
            let map = StateMap::new(&identity).unwrap();
            expect_loadable(&map, states.sets().unwrap());
        }
    }

    /// The contexts of the newer drivers keep more, but only what clients may load.
    #[test]
    fn newer_contexts_keep_more() {
        for (identity, states, state_count, more) in [
            (
                imx6dl(),
                cores::dove(),
                0x3800,
                &[0x0674, 0x1480, 0x2C40, 0x3850, 0x5FFC][..],
            ),
            (imx6q(), cores::dove(), 0x3800, &[0x0674, 0x0A88]),
            (
                imx6qp(),
                cores::imx6qp(),
                0xC500,
                &[
                    0x0884, 0x1040, 0x1044, 0x14600, 0x14900, 0x17C4, 0x30000, 0x313FC,
                ],
            ),
            // The arrays of clients have room for uniforms that no context keeps.
            (
                Identity {
                    num_constants: 576,
                    ..identity((0x4000, 0x5222), [0x2EFB_F2D9, identity::MINOR2_HALTI1])
                },
                cores::imx6qp(),
                0xC900,
                &[0x30000, 0x31FFC],
            ),
        ] {
            let older = StateMap::new(&identity).unwrap();
            let map = StateMap::newer(&identity, &states).unwrap();
            assert_eq!(map.state_count, state_count);
            expect_loadable(&map, states.sets().unwrap());
            for address in 0..0x1_0000 {
                assert!(older.place(address).is_none() || map.place(address).is_some());
            }
            for &byte in more {
                assert!(place(&older, byte).is_none() && place(&map, byte).is_some());
            }
        }
    }

    const INSTRUCTIONS_MIRROR: Range<u32> = 0x8000..0xA000;

    /// Runs the stream as the front end does. It must load each kept state once, at its place.
    /// States at `mirrors` are not loaded: they have the places of other states.
    fn expect_each_once(map: &StateMap, mirrors: &[Range<u32>]) {
        let words = &map.template;
        let mut loaded: KVVec<u16> = KVVec::new();
        loaded.resize(map.state_count, 0, GFP_KERNEL).unwrap();
        let mut at = 14;
        while at < map.link - 4 {
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
        assert_eq!(at, map.link - 4);
        for (address, &place) in (0u32..).zip(loaded.iter()) {
            if !mirrors.iter().any(|it| it.contains(&(4 * address))) {
                assert_eq!(map.place(address).unwrap_or(0), usize::from(place));
            }
        }
    }

    #[test]
    fn the_stream_loads_each_state_once() {
        for identity in [imx6q(), imx6dl()] {
            let map = StateMap::new(&identity).unwrap();
            expect_each_once(&map, &[INSTRUCTIONS_MIRROR]);
        }
        expect_each_once(&StateMap::new(&dove()).unwrap(), &[]);
        let map = StateMap::newer(&imx6qp(), &cores::imx6qp()).unwrap();
        expect_each_once(&map, &[INSTRUCTIONS_MIRROR]);
    }

    /// Contexts of HALTI5 keep all that its clients may load. Mirrors share the places of states.
    #[test]
    fn halti5_has_contexts_of_its_own() {
        let (identity, states) = (imx8mp(), cores::imx8mp());
        let map = StateMap::newer(&identity, &states).unwrap();
        assert_eq!(map.state_count, 0xDD00);
        assert_eq!(map.elements, (0, 0));
        let core = MapInput {
            identity: &identity,
            newer: states.sets(),
        };
        for row in [FRONT, BACK].into_iter().flat_map(|rows| core.rows(rows)) {
            assert!(core.blocks(row).flatten().all(|at| map.place(at).is_some()));
        }
        let value = |byte| map.template[place(&map, byte).unwrap()];
        assert_eq!(value(0x3884), 0x2_0002);
        assert_eq!(value(0x17A7C), 0x3F80_0000);
        assert_eq!(value(0x1034), 0);
        for (mirror, kept) in [(0x15800, 0x15C00), (0x16878, 0x17478), (0x353FC, 0x373FC)] {
            assert_eq!(place(&map, mirror), place(&map, kept));
        }
        for byte in [0x0600, 0x1600, 0x2000, 0x3900, 0x14C44, 0x15C80, 0x37400] {
            assert_eq!(place(&map, byte), None);
        }
        expect_loadable(&map, states.sets().unwrap());
        expect_each_once(
            &map,
            &[0x15800..0x15C00, 0x16000..0x16C00, 0x34000..0x36000],
        );
    }
}
