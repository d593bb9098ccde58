// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_scrub)]
mod cases {
    use super::super::*;
    use crate::{
        addr::Range,
        hw::Identity,
        stream::{
            addresses::PhysicalStates,
            resolve,
            states::cores,
            words::state, //
        }, //
    };

    const SCRATCH: Scratch = Scratch {
        addresses: [0xFC00_0000, 0xFC80_0000],
        physical: Some(PhysicalStates {
            base: 0,
            scratch: Range::new(0x7000_0000, 0x1_0000).unwrap(),
        }),
    };

    /// The lists of a core with the contexts of the first generations.
    fn scrub(states: &States) -> (Arc<Scrub>, Arc<StateMap>) {
        let map = StateMap::new(&Identity::default()).unwrap();
        (Scrub::new(states, &map, &SCRATCH).unwrap(), map)
    }

    fn four_cores() -> [States; 4] {
        [
            cores::both(),
            cores::dove(),
            cores::imx6qp(),
            cores::gc320(),
        ]
    }

    fn author(process: u64, epoch: u64) -> Author {
        Author { process, epoch }
    }

    fn lists(scrub: &Scrub) -> Lists<'_> {
        Lists {
            scrub,
            stale: [&[]; PIPES],
            data: None,
        }
    }

    fn words(scrub: &Scrub, part: Part) -> &[u32] {
        lists(scrub).words(part)
    }

    #[test]
    fn what_is_stale_is_forgotten_by_its_author_alone() {
        let (scrub, _) = scrub(&cores::both());
        let states = [state::word(0x1608), state::word(0x1610)];
        let words = scrub.stale(Pipe::Pipe3d, &states, &SCRATCH).unwrap();
        assert_eq!(loaded(&words)[..], states);
        let lists = Lists {
            scrub: &scrub,
            stale: [&words, &[]],
            data: None,
        };
        let me = author(1, 0);
        let mut authors = Authors::default();
        authors.note(ONLY_3D, Some(me));
        let parts = authors.wipes(lists, me, ONLY_3D, Pipe::Pipe3d, false);
        assert_eq!(parts, [None, Some(Part::Stale(Pipe::Pipe3d))]);
        // Before commands of another author, all is forgotten.
        let parts = authors.wipes(lists, author(2, 0), ONLY_3D, Pipe::Pipe3d, false);
        assert_eq!(parts, [None, Some(FRESH_3D)]);
    }

    /// The states that a list loads. Checks the value of each.
    fn loaded(list: &[u32]) -> KVVec<u32> {
        let mut loaded = KVVec::new();
        let mut at = 0;
        while at < list.len() {
            let header = list[at];
            assert_eq!(header >> 26, 2);
            let count = (header >> 16 & 0x3FF) as usize;
            assert!(count > 0);
            for (address, &value) in (header & 0xFFFF..).zip(&list[at + 1..at + 1 + count]) {
                let wanted = if states::takes_address(address) {
                    SCRATCH.of(address)
                } else {
                    0
                };
                assert_eq!(value, wanted);
                loaded.push(address, GFP_KERNEL).unwrap();
            }
            at += (1 + count).next_multiple_of(2);
        }
        assert_eq!(at, list.len());
        loaded
    }

    #[test]
    fn all_addresses_are_forgotten() {
        for states in four_cores() {
            let (scrub, map) = scrub(&states);
            let of_3d = loaded(words(&scrub, ALL_3D));
            let of_2d = loaded(words(&scrub, ALL_2D));
            assert_eq!(of_3d.len() + of_2d.len(), states.addresses().count());
            for address in states.addresses() {
                let list = match states::pipe_of(address) {
                    Pipe::Pipe3d => &of_3d,
                    Pipe::Pipe2d => &of_2d,
                };
                assert!(list.contains(&address));
            }
            for address in &loaded(words(&scrub, Part::BesideContext)) {
                assert!(of_3d.contains(address) && map.place(*address).is_none());
            }
            assert_eq!(words(&scrub, ALL_3D).is_empty(), of_3d.is_empty());
        }
    }

    #[test]
    fn data_is_forgotten_with_the_addresses() {
        for states in four_cores() {
            let (scrub, _) = scrub(&states);
            for (fresh, addresses) in [
                (FRESH_2D, ALL_2D),
                (FRESH_3D, ALL_3D),
                (Part::FreshBesideContext, Part::BesideContext),
            ] {
                let fresh = loaded(words(&scrub, fresh));
                let addresses = loaded(words(&scrub, addresses));
                assert!(addresses.iter().all(|address| fresh.contains(address)));
                for &address in &fresh {
                    // No state starts a draw.
                    let sets = states.sets().unwrap();
                    assert!(!sets.is_special(address) || sets.takes_address(address));
                }
            }
            for (pipe, part, byte) in [
                (Pipe::Pipe2d, FRESH_2D, 0x1C00),
                (Pipe::Pipe2d, FRESH_2D, 0x37FC),
                (Pipe::Pipe2d, FRESH_2D, 0x1240),
                (Pipe::Pipe3d, FRESH_3D, 0x5FFC),
                (Pipe::Pipe3d, FRESH_3D, 0x164C),
            ] {
                let fresh = loaded(words(&scrub, part));
                let is_there = fresh.contains(&state::word(byte));
                assert_eq!(is_there, states.pipes().has(pipe));
            }
        }
    }

    #[test]
    fn scratch_memory_is_cleared_before_data_is_reset() {
        let caches = Caches::new(true, true, true, crate::hw::MmuVersion::V1);
        for states in four_cores() {
            let (scrub, _) = scrub(&states);
            for (part, target, start) in [
                (FRESH_2D, state::DE_DEST_ADDRESS, &DRAW_2D[..]),
                (FRESH_3D, state::RS_DEST_ADDR, &KICK_3D),
                (Part::FreshBesideContext, state::RS_PIPE_DEST_ADDR, &KICK_3D),
            ] {
                let mut all = KVVec::new();
                lists(&scrub)
                    .emit(part, &caches, |words| {
                        all.extend_from_slice(words, GFP_KERNEL)
                    })
                    .unwrap();
                let wipe = Wipe::new(part, lists(&scrub), &mut Some(part.pipe()));
                assert_eq!(wipe.words, all.len());
                if !states.pipes().has(part.pipe()) {
                    assert!(all.is_empty());
                    continue;
                }
                let clear = &scrub.clears[part.pipe().index()];
                assert!(all.starts_with(clear) && clear.ends_with(start));
                let mut pairs = clear.chunks_exact(2);
                let is_off = pairs.any(|pair| pair == resolve::OFF);
                assert_eq!(is_off, part.pipe() == Pipe::Pipe3d);
                // All targets come before the configuration.
                let first = match part.pipe() {
                    Pipe::Pipe2d => CLEAR_2D[0].0,
                    Pipe::Pipe3d => CLEAR_3D[0].0,
                };
                let header =
                    |&word: &u32| word & !0x3FF_0000 == words::load_state(state::word(first), 0);
                let end = clear.iter().position(header).unwrap();
                assert!(loaded(&clear[..end]).contains(&target));
            }
            for part in [ALL_2D, ALL_3D, Part::BesideContext] {
                assert!(lists(&scrub).clear(part).is_empty());
            }
        }
    }

    #[test]
    fn own_data_comes_back_and_no_address() {
        let (scrub, _) = scrub(&cores::dove());
        let data = OwnData::new(&scrub).unwrap();
        let now = || {
            let mut all = KVec::new();
            data.emit(|some| all.extend_from_slice(some, GFP_KERNEL))
                .unwrap();
            all
        };
        let fresh = words(&scrub, FRESH_2D);
        assert_eq!(now()[..], *fresh);
        // The first state is inside of one command, the last inside of another.
        let (first, last) = (state::word(0x1244), state::word(0x1C10));
        data.for_each((first, last), |state, to| {
            to.store(state << 16 | 5, Relaxed)
        });
        let changed = now();
        assert_eq!(changed.len(), fresh.len());
        let mut at = 0;
        while at < fresh.len() {
            let (start, count) = (fresh[at] & 0xFFFF, (fresh[at] >> 16 & 0x3FF) as usize);
            assert_eq!(changed[at], fresh[at]);
            for (state, place) in (start..).zip(at + 1..at + 1 + count) {
                let is_data = !states::takes_address(state);
                let wanted = if is_data && (first..=last).contains(&state) {
                    state << 16 | 5
                } else {
                    fresh[place]
                };
                assert_eq!(changed[place], wanted);
            }
            at += (1 + count).next_multiple_of(2);
        }
    }

    #[test]
    fn a_context_loads_most() {
        let identity = Identity {
            model: 0x600,
            instruction_count: 256,
            pixel_pipes: 1,
            ..Identity::default()
        };
        let map = StateMap::new(&identity).unwrap();
        let scrub = Scrub::new(&cores::dove(), &map, &SCRATCH).unwrap();
        let beside = loaded(words(&scrub, Part::BesideContext));
        let all = loaded(words(&scrub, ALL_3D));
        for (byte, kept) in [
            (0x0680, true),
            (0x1658, true),
            (0x2400, true),
            (0x3824, false),
        ] {
            assert!(all.contains(&state::word(byte)));
            assert_eq!(beside.contains(&state::word(byte)), !kept);
        }
        // States that hold physical addresses get the physical address.
        let list = words(&scrub, ALL_3D);
        let at = list
            .iter()
            .position(|&word| word == words::load_state(state::word(0x1658), 2));
        let at = at.unwrap();
        assert_eq!(list[at + 1..at + 3], [0x7000_0000; 2]);
    }

    const ALL_2D: Part = Part::All(Pipe::Pipe2d);
    const ALL_3D: Part = Part::All(Pipe::Pipe3d);
    const FRESH_2D: Part = Part::Fresh(Pipe::Pipe2d);
    const FRESH_3D: Part = Part::Fresh(Pipe::Pipe3d);
    const ONLY_2D: Pipes = Pipes::ONLY_2D;
    const ONLY_3D: Pipes = Pipes::ONLY_3D;
    const BOTH: Pipes = Pipes::BOTH;

    #[test]
    fn nothing_is_forgotten_between_commands_of_one_author() {
        let (scrub, _) = scrub(&cores::dove());
        let mut authors = Authors::default();
        let wipes = |authors: &Authors, author, uses| {
            let first = if uses == ONLY_3D {
                Pipe::Pipe3d
            } else {
                Pipe::Pipe2d
            };
            authors.wipes(lists(&scrub), author, uses, first, false)
        };
        let (me, poorer, other) = (author(1, 5), author(1, 6), author(2, 5));
        // After a reset.
        assert_eq!(wipes(&authors, me, ONLY_2D), [None, Some(FRESH_2D)]);
        authors.note(ONLY_2D, Some(me));
        assert_eq!(wipes(&authors, me, ONLY_2D), [None, None]);
        // The other pipe still holds what it held.
        assert_eq!(wipes(&authors, me, ONLY_3D), [None, Some(FRESH_3D)]);
        assert_eq!(wipes(&authors, me, BOTH), [Some(FRESH_3D), None]);
        authors.note(BOTH, Some(me));
        assert_eq!(wipes(&authors, me, BOTH), [None, None]);
        // After the core was off, data is still its own, or is restored.
        let resumed = authors.after_pause();
        assert_eq!(wipes(&resumed, me, BOTH), [Some(ALL_3D), Some(FRESH_2D)]);
        assert_eq!(wipes(&resumed, other, ONLY_2D), [None, Some(FRESH_2D)]);
        // Memory was freed; then another process; then back.
        for (author, part) in [(poorer, ALL_2D), (other, FRESH_2D), (me, FRESH_2D)] {
            assert_eq!(wipes(&authors, author, ONLY_2D), [None, Some(part)]);
            authors.note(ONLY_2D, Some(author));
            assert_eq!(wipes(&authors, author, ONLY_2D), [None, None]);
            authors.note(ONLY_2D, Some(self::author(9, 5)));
        }
        // The addresses of these commands were not checked.
        authors.note(ONLY_3D, None);
        assert_eq!(wipes(&authors, me, ONLY_3D), [None, Some(FRESH_3D)]);
    }

    #[test]
    fn the_pipe_that_is_needed_is_selected_last() {
        let (scrub, _) = scrub(&cores::dove());
        let authors = Authors::default();
        let wipes = authors.wipes(lists(&scrub), author(1, 0), BOTH, Pipe::Pipe3d, true);
        assert_eq!(wipes, [Some(FRESH_2D), Some(Part::FreshBesideContext)]);
        let mut pipe = None;
        let of = |part| words(&scrub, part).len();
        let wipe = Wipe::new(ALL_2D, lists(&scrub), &mut pipe);
        assert_eq!(
            (wipe.switch, wipe.words),
            (true, of(ALL_2D) + words::SELECT_PIPE_WORDS)
        );
        assert_eq!(pipe, Some(Pipe::Pipe2d));
        let wipe = Wipe::new(ALL_2D, lists(&scrub), &mut pipe);
        assert_eq!((wipe.switch, wipe.words), (false, of(ALL_2D)));
        let wipe = Wipe::new(ALL_3D, lists(&scrub), &mut pipe);
        assert_eq!(
            (wipe.switch, wipe.words),
            (true, of(ALL_3D) + words::SELECT_PIPE_WORDS)
        );
        assert_eq!(pipe, Some(Pipe::Pipe3d));
    }

    #[test]
    fn a_core_of_one_pipe_has_nothing_to_forget_of_the_other() {
        let (two_d, _) = scrub(&cores::gc320());
        assert!(words(&two_d, ALL_3D).is_empty());
        // Eight states. Two of them are single states between others, so each is a command.
        assert_eq!(words(&two_d, ALL_2D).len(), 16);
        let (three_d, _) = scrub(&cores::imx6qp());
        assert!(words(&three_d, ALL_2D).is_empty());
    }
}
