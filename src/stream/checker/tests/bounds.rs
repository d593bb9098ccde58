// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite about the bounds of draws, and about lent states.

#[kernel::macros::kunit_tests(galcore_checker_bounds)]
mod cases {
    use super::super::{
        super::*,
        cases::{
            joined,
            SCRATCH, //
        }, //
    };
    use crate::{
        addr::Range,
        stream::{
            addresses::AddressSet,
            loaded::Origin,
            states::cores,
            words::{
                load_state,
                select_idle_pipe, //
            }, //
        }, //
    };

    #[test]
    fn the_resolve_engine_stays_in_its_memory() {
        const OWN: u32 = 0x4000;
        let mut set = AddressSet::new();
        assert!(set.add(OWN, 0x1000).is_ok());
        let addresses = Addresses::Of {
            own: &set,
            common: &[],
            scratch: SCRATCH,
        };
        let bounded = cores::bounded();
        let check = |parts: &[&[u32]], entry, loaded: Option<&Loaded>| {
            let mut words = joined(parts);
            let checked = check(&mut words, &bounded, entry, addresses, loaded, false);
            checked
                .map(drop)
                .map_err(|refusal| (refusal.fault, refusal.at, refusal.value))
        };
        let one = |byte, value| [load_state(state::word(byte), 1), value];
        let config = one(0x1604, 6 << 8 | 6);
        let target = |stride| [one(0x1610, OWN), one(0x1614, stride)];
        let window = [one(0x1620, 16 << 16 | 32), one(0x163C, 1 << 16)];
        let kick = one(0x1600, 1);
        let all = |stride| {
            let ([a, b], [c, d]) = (target(stride), window);
            [config, a, b, c, d, kick]
        };
        // Row 15 and 128 bytes.
        let most = (0x1000 - 128) / 15;
        assert_eq!(
            check(&[all(most).as_flattened()], Pipe::Pipe3d, None),
            Ok(())
        );
        let beyond = |at| Err((Fault::Beyond(state::RS_DEST_ADDR, OWN), at, Some(OWN)));
        assert_eq!(
            check(&[all(most + 1).as_flattened()], Pipe::Pipe3d, None),
            beyond(10)
        );
        // A copy reads: here from the same memory.
        let copy = |stride| {
            let ([a, b], [c, _]) = (target(most), window);
            let (source, stride) = (one(0x1608, OWN), one(0x160C, stride));
            let plain = [one(0x1654, 0), one(0x163C, 0)];
            [config, a, b, c, source, stride, plain[0], plain[1], kick]
        };
        assert!(check(&[copy(most).as_flattened()], Pipe::Pipe3d, None).is_ok());
        let beyond_source = Err((Fault::Beyond(state::word(0x1608), OWN), 16, Some(OWN)));
        assert_eq!(
            check(&[copy(most + 1).as_flattened()], Pipe::Pipe3d, None),
            beyond_source
        );
        // In place: 64 bytes a tile.
        let in_place = |tiles| [one(0x1658, OWN), one(0x165C, OWN), one(0x16B0, tiles)];
        assert!(check(&[in_place(64).as_flattened()], Pipe::Pipe3d, None).is_ok());
        let beyond_surface = Err((Fault::Beyond(state::word(0x165C), OWN), 4, Some(OWN)));
        assert_eq!(
            check(&[in_place(65).as_flattened()], Pipe::Pipe3d, None),
            beyond_surface
        );
        // States that the stream has not loaded in the 3D pipe are lent.
        assert_eq!(
            check(&[&kick], Pipe::Pipe3d, None),
            Err((Fault::Missing, 0, None))
        );
        let mut loaded = Loaded::new();
        assert!(loaded.prepare().is_ok());
        assert!(check(&[all(most).as_flattened()], Pipe::Pipe3d, Some(&loaded)).is_ok());
        loaded.placed(false);
        loaded.begin(Origin::Bare);
        let stride = one(0x1614, most);
        assert!(check(&[&stride, &kick], Pipe::Pipe3d, Some(&loaded)).is_ok());
        assert_eq!(loaded.lent(), 0b110_1001 << bounds::OF_3D.trailing_zeros());
        loaded.begin(Origin::Bare);
        let stride = one(0x1614, most + 1);
        assert_eq!(
            check(&[&stride, &kick], Pipe::Pipe3d, Some(&loaded)),
            beyond(2)
        );
        let to_3d = select_idle_pipe(Pipe::Pipe3d);
        let before = all(most);
        let parts: [&[u32]; 3] = [&before.as_flattened()[..10], &to_3d, &kick];
        assert_eq!(
            check(&parts, Pipe::Pipe2d, None),
            Err((Fault::Missing, 12, None))
        );
        // The YUV tiler: 32 x 16 pixels, of a plane at 0 and one at 0x400 to tiles at 0x800.
        let tiles = [
            one(0x160C, 0),
            one(0x163C, 0),
            one(0x1678, 0x11),
            one(0x167C, 16 << 16 | 32),
            one(0x1680, OWN),
            one(0x1684, 32),
            one(0x1688, OWN + 0x400),
            one(0x168C, 32),
            one(0x1698, OWN + 0x800),
            one(0x169C, 64),
        ];
        let tiles = tiles.as_flattened();
        let off = one(0x1678, 0);
        let in_3d = |parts: &[&[u32]]| check(parts, Pipe::Pipe3d, None);
        assert_eq!(in_3d(&[tiles, &kick, &off]), Ok(()));
        assert_eq!(
            in_3d(&[tiles, &kick]),
            Err((Fault::TilerOn(0x11), 22, Some(0x11)))
        );
        assert_eq!(
            in_3d(&[&tiles[..18], &kick, &off]),
            Err((Fault::Unloaded(state::word(0x1678)), 18, None))
        );
        // A load in the other pipe may turn it off or not.
        let to_2d = select_idle_pipe(Pipe::Pipe2d);
        assert!(in_3d(&[tiles, &kick, &to_2d, &off]).is_err());
        assert!(in_3d(&[tiles, &to_2d, &off, &to_3d, &kick, &off]).is_err());
        let tall = one(0x167C, 64 << 16 | 32);
        let beyond = Fault::Beyond(state::word(0x1698), OWN + 0x800);
        assert_eq!(
            in_3d(&[tiles, &tall, &kick, &off]),
            Err((beyond, 22, Some(OWN + 0x800)))
        );
        let strange = one(0x160C, 64);
        let unbounded = Fault::Unbounded(state::word(0x160C), 64);
        assert_eq!(
            in_3d(&[tiles, &strange, &kick, &off]),
            Err((unbounded, 22, Some(64)))
        );
        let in_place = in_place(1);
        let unbounded = Fault::Unbounded(state::word(0x1678), 0x11);
        assert_eq!(
            in_3d(&[tiles, in_place.as_flattened(), &off]),
            Err((unbounded, 24, Some(0x11)))
        );
        let converted = [off[0] | FIXP, 0x11];
        let wanted = Fault::State(state::word(0x1678));
        assert_eq!(in_3d(&[&converted]), Err((wanted, 0, Some(0x11))));
    }

    /// The target state of the 2D engine.
    const DE_DEST: u32 = state::DE_DEST_ADDRESS;

    #[test]
    fn the_2d_engine_writes_to_its_targets_memory() {
        let (own, stride) = (0x4000, 128);
        let mut set = AddressSet::new();
        assert!(set.add(own, 0x1000).is_ok());
        assert!(set.add(own + 0x1000, 0x1000).is_ok());
        let addresses = Addresses::Of {
            own: &set,
            common: &[Range::new(0x9000, 0x800)],
            scratch: SCRATCH,
        };
        let fault = |parts: &[&[u32]], entry, states: &States, mends| {
            let mut words = joined(parts);
            check(&mut words, states, entry, addresses, None, mends)
                .err()
                .map(|refusal| (refusal.fault, refusal.at, refusal.value))
        };
        let target = |address, stride| {
            [
                load_state(state::DE_DEST_ADDRESS, 4),
                address,
                stride,
                0,
                6,
                0,
            ]
        };
        let clip = [load_state(state::word(0x1260), 2), 0, 32 << 16 | 32, 0];
        // And operations that use no pattern.
        let angle = [
            load_state(state::word(0x12BC), 1),
            0,
            load_state(state::word(0x125C), 1),
            3 << 20 | 0xCCCC,
            load_state(state::word(0x12D4), 1),
            0,
        ];
        let draw = [0x2000_0100, 0, 0, 32 << 16 | 32];
        let window = [load_state(state::word(0x12A8), 2), 0, 32 << 16 | 32, 0];
        let filter = [load_state(state::DE_VR_CONFIG, 1), 1];
        let source = [load_state(state::word(0x1200), 5), own, 4, 0, 6 << 24, 0];
        let image = [load_state(state::word(0x1298), 2), 0, 1 << 16 | 1, 0];
        let layout = [load_state(state::word(0x1300), 1), 0];
        let (bounded, free) = (cores::bounded(), cores::both());
        for (address, stride, is_right) in [
            (own, stride, true),
            (own, stride + 4, false),
            (own + 4, stride, false),
            (own + 0x1000, stride, true),
            (0x9000, stride / 4, true),
            (0x9000, stride, false),
        ] {
            let target = target(address, stride);
            for kick in [&draw[..], &filter] {
                let parts: [&[u32]; 8] = [
                    &target, &clip, &window, &angle, &source, &image, &layout, kick,
                ];
                let beyond = Some((Fault::Beyond(DE_DEST, address), 32, Some(address)));
                let wanted = if is_right { None } else { beyond };
                assert_eq!(fault(&parts, Pipe::Pipe2d, &bounded, false), wanted);
                assert_eq!(fault(&parts, Pipe::Pipe2d, &free, false), None);
            }
        }
        // Data without a blit that uses it.
        let data = [0x2001_0100, 0, 0, 0, 5, 0];
        let blit = [load_state(state::word(0x1234), 1), 2 << 12 | 6];
        for (command, config, is_right) in [
            (&[][..], 1 << 8 | 10 << 24, false),
            (&blit, 10 << 24, false),
            (&blit, 6 << 24, false),
            (&blit, 1 << 8 | 10 << 24, true),
        ] {
            let from = [load_state(state::word(0x120C), 1), config];
            let target = target(own, stride);
            let parts: [&[u32]; 6] = [&target, &clip, &angle, &from, command, &data];
            let at = 18 + command.len();
            let fault_of = Fault::Data(state::word(0x120C), config);
            let wanted = (!is_right).then_some((fault_of, at, Some(config)));
            let found = fault(&parts, Pipe::Pipe2d, &bounded, false);
            assert!(found == wanted || is_right && !matches!(found, Some((Fault::Data(..), ..))));
            assert_eq!(fault(&parts, Pipe::Pipe2d, &free, false), None);
        }
        // Reads end in the source's memory, too: row 15 of 64 bytes.
        for (stride, is_right) in [(256, true), (270, false)] {
            let source = [
                load_state(state::word(0x1200), 5),
                own,
                stride,
                0,
                6 << 24,
                0,
            ];
            let image = [load_state(state::word(0x1298), 2), 0, 16 << 16 | 16, 0];
            let target = target(own + 0x1000, 128);
            let parts: [&[u32]; 8] = [
                &target, &clip, &window, &angle, &source, &image, &layout, &filter,
            ];
            let beyond = Fault::Beyond(state::word(0x1200), own);
            let wanted = (!is_right).then_some((beyond, 32, Some(own)));
            assert_eq!(fault(&parts, Pipe::Pipe2d, &bounded, false), wanted);
        }
        // Tiles with the stride of a row of tiles.
        let tiled = [
            load_state(state::DE_DEST_ADDRESS, 4),
            own,
            4 * stride,
            0,
            1 << 8 | 6,
            0,
        ];
        let parts: [&[u32]; 4] = [&tiled, &clip, &angle, &draw];
        let wanted = Some((Fault::BeyondTiles(DE_DEST, own), 16, Some(own)));
        assert_eq!(fault(&parts, Pipe::Pipe2d, &bounded, false), wanted);
        // A replaced target is scratch memory, and a draw must stay in it.
        let stray = |stride| {
            let target = target(0x8000, stride);
            fault(
                &[&target, &clip, &angle, &draw],
                Pipe::Pipe2d,
                &bounded,
                true,
            )
        };
        assert_eq!(stray(0x3_FFFC), None);
        let odd = 0x3_FFFF + 0x1_0000;
        let wanted = Some((Fault::Unbounded(state::word(0x122C), odd), 16, Some(odd)));
        assert_eq!(stray(odd), wanted);
        let missing = |at| Some((Fault::Missing, at, None));
        let target = target(own, stride);
        let parts: [&[u32]; 3] = [&target, &clip, &draw];
        assert_eq!(fault(&parts, Pipe::Pipe2d, &bounded, false), missing(10));
        // Loads in the other pipe do not count.
        let select = select_idle_pipe(Pipe::Pipe2d);
        let parts: [&[u32]; 5] = [&target, &select, &clip, &angle, &draw];
        assert_eq!(fault(&parts, Pipe::Pipe3d, &bounded, false), missing(18));
        let parts: [&[u32]; 5] = [&select, &target, &clip, &angle, &draw];
        assert_eq!(fault(&parts, Pipe::Pipe3d, &bounded, false), None);
        // Values that were loaded before count, once.
        let mut loaded = Loaded::new();
        assert!(loaded.prepare().is_ok());
        let lent = |parts: &[&[u32]], is_context| {
            let mut words = joined(parts);
            let pipe = Pipe::Pipe2d;
            let source = if is_context {
                Input::Context
            } else {
                Input::Commands { mends: false }
            };
            let checked = pass(&mut words, &bounded, pipe, addresses, Some(&loaded), source);
            let fault = checked.err().map(|refusal| refusal.fault);
            if fault.is_none() && !is_context {
                loaded.placed(false);
            }
            // Those of the target.
            (fault, loaded.lent() & 0x3FF)
        };
        assert_eq!(lent(&[&draw], false), (Some(Fault::Missing), 0));
        loaded.begin(Origin::Bare);
        // Nothing was: a window without pixels.
        assert_eq!(lent(&[&draw], false), (None, 0b10_0011_1111));
        assert_eq!(loaded.lent_value(0), SCRATCH.in_pipe(Pipe::Pipe2d));
        loaded.begin(Origin::Bare);
        assert_eq!(lent(&[&target, &clip, &angle, &draw], false), (None, 0));
        assert_eq!(lent(&[&draw], true), (Some(Fault::Missing), 0));
        assert_eq!(lent(&[&clip, &draw], false), (None, 0b10_0000_1111));
        let values = [0, 1, 2, 3].map(|place| loaded.lent_value(place));
        assert_eq!(values, [own, stride, 0, 6]);
        loaded.begin(Origin::Bare);
        let wide = [load_state(state::word(0x122C), 1), stride + 4];
        assert_eq!(lent(&[&wide], false), (None, 0));
        assert_eq!(lent(&[&draw], false).0, Some(Fault::Beyond(DE_DEST, own)));
        loaded.begin(Origin::Bare);
        let odd = [load_state(state::word(0x122C), 1), 1 << 20];
        assert_eq!(lent(&[&odd], false), (None, 0));
        let earlier = Fault::Earlier(state::word(0x122C), 1 << 20);
        assert_eq!(lent(&[&draw], false).0, Some(earlier));
        loaded.begin(Origin::Bare);
        assert_eq!(lent(&[&wide], false), (None, 0));
        loaded.begin(Origin::Bare);
        // The lent value is loaded before the stream's own first load.
        let parts: [&[u32]; 4] = [&draw, &wide, &target, &draw];
        assert_eq!(lent(&parts, false).0, Some(Fault::Beyond(DE_DEST, own)));
        // A converted load may make the engine read the pattern.
        let pattern = [0x0C01_0000 | state::word(0x123C), 6 << 16];
        let unbounded = Fault::Unbounded(state::word(0x123C), 6 << 16);
        assert_eq!(
            fault(&[&pattern], Pipe::Pipe2d, &bounded, false),
            Some((unbounded, 0, Some(6 << 16)))
        );
        assert_eq!(fault(&[&pattern], Pipe::Pipe2d, &free, false), None);
        let planes = [load_state(state::word(0x130C), 1), 2];
        let unbounded = Fault::Unbounded(state::word(0x130C), 2);
        assert_eq!(
            fault(&[&planes], Pipe::Pipe2d, &bounded, false),
            Some((unbounded, 0, Some(2)))
        );
        assert_eq!(fault(&[&planes], Pipe::Pipe2d, &free, false), None);
    }
}
