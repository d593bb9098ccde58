// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_loaded)]
mod cases {
    use super::super::*;

    fn loaded() -> Loaded {
        let mut loaded = Loaded::new();
        assert!(loaded.prepare().is_ok());
        loaded
    }

    fn stale(loaded: &Loaded, pipe: Pipe, freed: u32) -> KVVec<u32> {
        let (mut list, mut held) = (KVVec::new(), KVVec::new());
        assert!(loaded
            .stale(pipe, |_, value| value != freed, &mut list, &mut held)
            .is_ok());
        assert!(held.len() == list.len() && held.iter().all(|&value| value == freed));
        list
    }

    #[test]
    fn only_states_with_freed_memory_are_stale() {
        let loaded = loaded();
        // RS source and destination, a sampler; 2D source.
        for (byte, value) in [(0x1608, 1), (0x1610, 2), (0x2400, 2), (0x1200, 2)] {
            loaded.note(byte / 4, value);
        }
        assert_eq!(
            stale(&loaded, Pipe::Pipe3d, 2)[..],
            [0x1610 / 4, 0x2400 / 4]
        );
        assert_eq!(stale(&loaded, Pipe::Pipe2d, 2)[..], [0x1200 / 4]);
        assert!(stale(&loaded, Pipe::Pipe3d, 3).is_empty());
        // Loaded again with another address, or forgotten.
        loaded.note(0x1610 / 4, 1);
        assert_eq!(stale(&loaded, Pipe::Pipe3d, 2)[..], [0x2400 / 4]);
        loaded.forget(&[0x2400 / 4]);
        assert!(stale(&loaded, Pipe::Pipe3d, 2).is_empty());
        assert!(!loaded.is_unsure());
    }

    #[test]
    fn what_is_loaded_again_is_not_forgotten() {
        let loaded = loaded();
        for byte in [0x1608, 0x1610, 0x1200] {
            loaded.note(byte / 4, 2);
        }
        loaded.forget(&[0x1608 / 4, 0x1610 / 4]);
        loaded.forget(&[0x1200 / 4]);
        // The next stream loads one of them with the same address, where new memory is now.
        loaded.begin(Origin::Bare);
        loaded.note(0x1610 / 4, 2);
        loaded.placed(false);
        // The stream did not use the other pipe.
        loaded.remember(&[0x1200 / 4], &[2]);
        assert_eq!(stale(&loaded, Pipe::Pipe3d, 2)[..], [0x1610 / 4]);
        assert_eq!(stale(&loaded, Pipe::Pipe2d, 2)[..], [0x1200 / 4]);
        loaded.note(0x1200 / 4, 3);
        loaded.remember(&[0x1200 / 4], &[2]);
        assert!(stale(&loaded, Pipe::Pipe2d, 2).is_empty());
    }

    #[test]
    fn a_first_load_of_several_sources_is_news() {
        let loaded = loaded();
        for (state, value, is_news) in [
            (0x12800, 1, true),
            (0x12804, 1, false),
            (0x12960, 0, false),
            (0x12960, 8, true),
            (0x12964, 8, false),
            (0x12A00, 1, true),
        ] {
            assert_eq!(loaded.note_block(state / 4, value), is_news);
        }
    }

    #[test]
    fn data_is_kept_with_the_range_that_is_new() {
        let loaded = loaded();
        assert_eq!(loaded.noted(), None);
        for (byte, value) in [(0x1C04, 3), (0x1218, 4), (0x1C00, 5)] {
            loaded.note_data(byte / 4, value);
        }
        assert_eq!(loaded.noted(), Some((0x1218 / 4, 0x1C04 / 4)));
        loaded.forget_noted();
        assert_eq!(loaded.noted(), None);
        // Data stays when addresses are forgotten.
        assert!(stale(&loaded, Pipe::Pipe2d, 3).is_empty());
        loaded.forget_all();
        let found = [0x1C04, 0x1218, 0x1C00, 0x1240].map(|byte| loaded.data(byte / 4));
        assert_eq!(found, [3, 4, 5, 0]);
    }

    /// Checks, and perhaps places, a stream that loads the first two of the bounded states.
    fn load(loaded: &Loaded, origin: Origin, values: [u32; 2], is_placed: bool) {
        let mut target = DrawState::new(bounds::Engines::default());
        for (state, value) in bounds::STATES.into_iter().zip(values) {
            target.load(state, value, false, true);
        }
        loaded.begin(origin);
        loaded.set_pending(&target);
        if is_placed {
            loaded.placed(false);
        }
    }

    #[test]
    fn what_is_forgotten_can_be_lent() {
        let loaded = loaded();
        load(&loaded, Origin::Bare, [7, 8], true);
        loaded.forget_all();
        // Values of a stream that is not placed are not lent.
        load(&loaded, Origin::Bare, [9, 9], false);
        loaded.begin(Origin::Bare);
        assert_eq!(loaded.lend(0x1228 / 4, |value| value + 1), 8);
        assert_eq!(loaded.lend(0x122C / 4, |_| 0), 8);
        assert_eq!((loaded.lent(), loaded.lent_value(0)), (3, 8));
    }

    #[test]
    fn a_context_loads_what_no_stream_has_since() {
        let loaded = loaded();
        let of_3d = bounds::OF_3D;
        let mut target = DrawState::new(bounds::Engines::default());
        target.load(0x1604 / 4, 1, false, true);
        let place = |origin, loads_context| {
            loaded.begin(origin);
            loaded.set_pending(&target);
            loaded.placed(loads_context);
        };
        let missing = |origin| {
            loaded.begin(origin);
            loaded.in_context(Mask::MAX)
        };
        let own = target.known();
        place(Origin::Other, true);
        assert_eq!(missing(Origin::Same), of_3d & !own);
        assert_eq!(missing(Origin::Other), of_3d);
        assert_eq!(missing(Origin::Bare), 0);
        // After commands without a context, the context is loaded again.
        place(Origin::Bare, false);
        assert_eq!(missing(Origin::Same), of_3d);
        place(Origin::Same, false);
        assert_eq!(missing(Origin::Same), of_3d & !own);
    }

    #[test]
    fn checks_that_come_to_nothing_leave_doubt() {
        let loaded = loaded();
        loaded.begin(Origin::Bare);
        assert!(loaded.is_unsure());
        loaded.placed(false);
        assert!(!loaded.is_unsure());
        loaded.begin(Origin::Bare);
        // The previous stream was not placed.
        loaded.begin(Origin::Bare);
        loaded.placed(false);
        assert!(loaded.is_unsure());
        loaded.note(0x1608 / 4, 7);
        loaded.forget_all();
        assert!(!loaded.is_unsure());
        assert_eq!(loaded.epoch(), 1);
        assert!(stale(&loaded, Pipe::Pipe3d, 7).is_empty());
    }

    #[test]
    fn a_context_that_goes_leaves_what_it_has_loaded() {
        let loaded = loaded();
        loaded.note(0x1608 / 4, 7);
        loaded.adopt(0x1608 / 4, 7);
        loaded.adopt(0x1610 / 4, 9);
        assert!(!loaded.is_unsure());
        assert_eq!(stale(&loaded, Pipe::Pipe3d, 9)[..], [0x1610 / 4]);
        loaded.adopt(0x1608 / 4, 8);
        assert!(loaded.is_unsure());
        loaded.forget_all();
        assert!(!loaded.is_unsure());
    }

    #[test]
    fn what_cannot_be_noted_is_not_sure() {
        let without_room = Loaded::new();
        without_room.note(0x1608 / 4, 7);
        assert!(without_room.is_unsure());
        without_room.begin(Origin::Bare);
        assert!(!without_room.is_lending());
        let loaded = loaded();
        loaded.note(0xFFFF, 7);
        assert!(loaded.is_unsure());
        assert!(!loaded.may_be_stale(0));
        assert!(loaded.may_be_stale(1));
        loaded.verify(1);
        assert!(!loaded.may_be_stale(1));
    }
}
