// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite about GPU addresses: those of the process, 0, and stray ones.

#[kernel::macros::kunit_tests(galcore_checker_addresses)]
mod cases {
    use super::super::{
        super::*,
        cases::{
            copy,
            exit,
            joined,
            SCRATCH, //
        }, //
    };
    use crate::{
        addr::Range,
        stream::{
            addresses::{
                AddressSet,
                PhysicalStates,
                Scratch, //
            },
            states::cores,
            words::load_state, //
        },
        sys::prelude::*, //
    };

    const DRAW: [u32; 4] = [5 << 27, 4, 0, 1];
    const KICK: [u32; 2] = [load_state(state::RS_KICKER, 1), 0xBEEB_BEEB];

    /// Checks a stream, all copied, for a process with 0x1000 bytes at 0x4000 and at 0x80001000.
    fn check_process(
        words: &mut [u32],
        physical: Option<PhysicalStates>,
        mends: bool,
    ) -> Result<Exit, Refusal> {
        check_process_on(&cores::both(), words, physical, mends)
    }

    /// As above, for a core that the caller has made, which takes a while.
    fn check_process_on(
        states: &States,
        words: &mut [u32],
        physical: Option<PhysicalStates>,
        mends: bool,
    ) -> Result<Exit, Refusal> {
        let mut own = AddressSet::new();
        assert!(own.add(0x4000, 0x1000).is_ok());
        assert!(own.add(0x8000_1000, 0x1000).is_ok());
        let common = [None, Range::new(0x1000_0000, 0x100)];
        let addresses = Addresses::Of {
            own: &own,
            common: &common,
            scratch: Scratch {
                physical,
                ..SCRATCH
            },
        };
        check(words, states, Pipe::Pipe3d, addresses, None, mends)
    }

    /// The log text about a stream.
    fn fault_of_process(words: &[u32]) -> Option<Fault> {
        let result = check_process(&mut copy(words), None, false);
        result.err().map(|refusal| refusal.fault)
    }

    #[test]
    fn nothing_is_drawn_to_address_0() {
        let (zero, own) = (0, 0x1000);
        let mut set = AddressSet::new();
        assert!(set.add(own, 0x1000).is_ok());
        let addresses = Addresses::Of {
            own: &set,
            common: &[],
            scratch: SCRATCH,
        };
        let load = |state, value| [load_state(state, 1), value];
        let draw_2d = [0x2000_0100, 0, 0, 0x0001_0001];
        let kick = load(state::RS_KICKER, 0xBEEB_BEEB);
        let filter = load(state::DE_VR_CONFIG, 1);
        let fault = |parts: &[&[u32]], entry, mends| {
            let mut words = joined(parts);
            check(&mut words, &cores::both(), entry, addresses, None, mends)
                .err()
                .map(|refusal| (refusal.fault, refusal.value))
        };
        for (target, draw, entry) in [
            (state::DE_DEST_ADDRESS, &draw_2d[..], Pipe::Pipe2d),
            (state::DE_DEST_ADDRESS, &filter[..], Pipe::Pipe2d),
            (state::RS_DEST_ADDR, &kick[..], Pipe::Pipe3d),
        ] {
            let (to_zero, to_own) = (load(target, zero), load(target, own));
            let refused = Some((Fault::NullTarget(target), Some(0)));
            assert_eq!(fault(&[&to_zero, draw], entry, false), refused);
            assert_eq!(fault(&[&to_own, &to_zero, draw], entry, false), refused);
            // Loaded without a draw; missing; unknown; or allowed by the administrator.
            assert_eq!(fault(&[&to_zero], entry, false), None);
            assert_eq!(fault(&[&to_zero, &to_own, draw], entry, false), None);
            assert_eq!(fault(&[draw], entry, false), None);
            assert_eq!(fault(&[&to_zero, draw], entry, true), None);
        }
    }

    #[test]
    fn with_several_pixel_pipes_one_target_is_enough() {
        let mut set = AddressSet::new();
        assert!(set.add(0x1000, 0x1000).is_ok());
        let addresses = Addresses::Of {
            own: &set,
            common: &[],
            scratch: SCRATCH,
        };
        let states = cores::two_pixel_pipes();
        let (one, pipes) = (state::RS_DEST_ADDR, state::RS_PIPE_DEST_ADDR);
        let fault = |loads: &[(u32, u32)]| {
            let mut words = KVVec::new();
            for &(state, value) in [loads, &[(state::RS_KICKER, 1)]].into_iter().flatten() {
                let load = [load_state(state, 1), value];
                words.extend_from_slice(&load, GFP_KERNEL).unwrap();
            }
            check(&mut words, &states, Pipe::Pipe3d, addresses, None, false)
                .err()
                .map(|refusal| refusal.fault)
        };
        let refused = Some(Fault::NullTarget(pipes));
        assert_eq!(fault(&[(pipes, 0)]), refused);
        assert_eq!(fault(&[(pipes, 0), (one, 0)]), refused);
        assert_eq!(fault(&[(one, 0x1000), (pipes, 0), (one, 0)]), refused);
        assert_eq!(fault(&[(pipes, 0), (one, 0x1000)]), None);
        assert_eq!(fault(&[(one, 0x1000), (pipes, 0)]), None);
        assert_eq!(fault(&[(one, 0), (pipes, 0x1000)]), None);
        assert_eq!(fault(&[(one, 0)]), None);
    }

    #[test]
    fn addresses_are_the_processs_own() {
        let states = cores::both();
        let check = |words: &mut [u32]| check_process_on(&states, words, None, false);
        for address in states.addresses() {
            for good in [0, 0x4000, 0x4FFF, 0x8000_1000, 0x8000_1FFF, 0x1000_00FF] {
                let mut words = [load_state(address, 1), good];
                assert!(check(&mut words).is_ok());
                let loaded = if good == 0 { SCRATCH.of(address) } else { good };
                assert_eq!(words, [load_state(address, 1), loaded]);
                // A second check, as after another thread's free.
                assert!(check(&mut words).is_ok());
                assert_eq!(words, [load_state(address, 1), loaded]);
            }
            for bad in [1, 0x3FFF, 0x5000, 0x8000_0FFF, 0x8000_2000, !0, 0x1000_0100] {
                let [draw, ..] = DRAW;
                let refused = check(&mut [load_state(address, 1), bad, draw, 4, 0, 1]);
                assert_eq!(
                    refused.err().map(|refusal| refusal.fault),
                    Some(Fault::Address(address))
                );
            }
        }
    }

    #[test]
    fn an_address_among_other_states_is_seen() {
        // 0x1600 to 0x1610 without the kick: 0x1604, 0x1608 (address), 0x160C, 0x1610 (address).
        let load = |source, dest| [load_state(state::word(0x1604), 4), 9, source, 9, dest, 0];
        assert_eq!(fault_of_process(&load(0x4000, 0x4010)), None);
        assert_eq!(
            fault_of_process(&load(0x4000, 0x5000)),
            Some(Fault::Address(state::word(0x1610)))
        );
        assert_eq!(
            fault_of_process(&load(8, 0x4000)),
            Some(Fault::Address(state::word(0x1608)))
        );
        // After many states without addresses, and as the last one.
        let mut words: KVec<u32> = KVec::new();
        words.resize(1026, 0, GFP_KERNEL).unwrap();
        words[0] = load_state(state::word(0x10000), 0);
        // The first sampler and the last are on, and used.
        (words[1], words[32]) = (1, 1);
        words.extend_from_slice(&DRAW, GFP_KERNEL).unwrap();
        assert_eq!(fault_of_process(&words), None);
        for (index, byte) in [(1024, 0x10FFC), (513, 0x10800)] {
            words[index] = 4;
            assert_eq!(
                fault_of_process(&words),
                Some(Fault::Address(state::word(byte)))
            );
        }
        words[512] = 4;
        words[513] = 0x4000;
        words[1024] = 0x4000;
        assert_eq!(fault_of_process(&words), None);
    }

    #[test]
    fn strays_of_samplers_that_are_off_become_scratch() {
        let load = |byte, value| [load_state(state::word(byte), 1), value];
        let check = |parts: &[&[u32]]| {
            let mut words = joined(parts);
            let checked = check_process(&mut words, None, false);
            let place = checked.err().map(|refusal| (refusal.fault, refusal.at));
            (place, words)
        };
        for (config, on, address) in [
            (0x1720 + 12, 1, 0x1740 + 12),
            (0x2000 + 20, 3, 0x2400 + 0x40 * 13 + 20),
            (0x10000 + 4 * 31, 2, 0x10800 + 0x40 * 31 + 8),
        ] {
            let (off, on) = (load(config, 0xF0), load(config, on));
            let (stray, own) = (load(address, 0x5000), load(address, 0x4000));
            let refused = Fault::Address(state::word(address));
            for (parts, at) in [
                (&[&off[..], &stray, &DRAW][..], None),
                (&[&stray, &off, &DRAW, &KICK], None),
                (&[&stray], None),
                (&[&stray, &KICK], None),
                (&[&stray, &own, &DRAW], None),
                (&[&on, &own, &DRAW, &stray, &off, &DRAW], None),
                (&[&stray, &DRAW], Some(0)),
                (&[&on, &stray, &DRAW], Some(2)),
                (&[&stray, &load(state::CL_KICKER << 2, 0)], Some(0)),
                (&[&off, &stray, &DRAW, &on, &DRAW], Some(2)),
                // Addresses before the first used one are replaced, but the stream is refused.
                (&[&stray, &own, &on, &DRAW, &stray, &DRAW], Some(10)),
            ] {
                let (found, words) = check(parts);
                assert_eq!(found, at.map(|at| (refused, at)));
                if at.is_none() {
                    assert!(!words.contains(&0x5000));
                }
            }
            let (_, words) = check(&[&off, &stray]);
            assert_eq!(words[3], SCRATCH.of(state::word(address)));
        }
        // Another sampler's address, and one that is not a sampler's.
        let others = load(0x2000, 0);
        let stray = load(0x2404, 0x5000);
        let (found, _) = check(&[&others, &stray, &DRAW]);
        assert!(found.is_some());
        let (found, _) = check(&[&load(0x644, 0x5000)]);
        assert_eq!(found, Some((Fault::Address(state::word(0x644)), 0)));
    }

    #[test]
    fn strays_of_a_context_become_scratch() {
        let clean = |words: &mut [u32]| check_process(words, None, true);
        let mut words = [
            load_state(state::word(0x1604), 4),
            0x9999,
            0x4FFC,
            0x9999,
            0x5000,
            0,
            load_state(state::word(0x0680), 1),
            0,
            load_state(state::word(0x0A00), 1),
            0x5000,
        ];
        let (mut wanted, given) = (words, words);
        wanted[4] = SCRATCH.in_pipe(Pipe::Pipe3d);
        wanted[7] = SCRATCH.in_pipe(Pipe::Pipe3d);
        assert_eq!(clean(&mut words), Ok(exit(Pipe::Pipe3d)));
        assert_eq!(words, wanted);
        // All else is checked as in commands.
        let mut words = [given[0], 9, 1, 9, 1, 0, load_state(state::GL_EVENT, 1), 3];
        assert!(
            clean(&mut words).is_err_and(|refusal| refusal.fault == Fault::State(state::GL_EVENT))
        );
    }

    #[test]
    fn an_address_is_not_converted() {
        for value in [0, 0x4000] {
            let words = [load_state(state::word(0x1608), 1) | FIXP, value];
            let refused = Some(Fault::State(state::word(0x1608)));
            assert_eq!(fault_of_process(&words), refused);
            let result = check_process(&mut copy(&words), None, true);
            assert_eq!(result.err().map(|refusal| refusal.fault), refused);
        }
    }

    #[test]
    fn without_the_check_nothing_is_changed() {
        let mut words = [load_state(state::word(0x1608), 1), 0];
        assert!(check(
            &mut words,
            &cores::both(),
            Pipe::Pipe3d,
            Addresses::Any,
            None,
            false
        )
        .is_ok());
        assert_eq!(words[1], 0);
    }

    /// The value that the checker loads into a state of a core with the old memory controller.
    fn loaded(byte: u32, value: u32, base: u32) -> Option<u32> {
        let physical = PhysicalStates {
            base,
            scratch: Range::new(0x7000_0000, 0x1_0000).unwrap(),
        };
        let mut words = [load_state(state::word(byte), 1), value];
        check_process(&mut words, Some(physical), false)
            .ok()
            .map(|_| words[1])
    }

    #[test]
    fn tile_status_may_be_physical() {
        for byte in [0x1658, 0x165C, 0x1664, 0x1668, 0x16A4] {
            let loaded = |value| loaded(byte, value, 0x1000_0000);
            assert_eq!(loaded(0x1000_4000), Some(0x1000_4000));
            assert_eq!(loaded(0x4000), None);
            assert_eq!(loaded(0), Some(0x7000_0000));
            assert_eq!(loaded(0x7000_0000), Some(0x7000_0000));
            assert_eq!(loaded(SCRATCH.in_pipe(Pipe::Pipe3d)), None);
        }
        assert_eq!(loaded(0x1608, 0x1000_4000, 0x1000_0000), None);
        assert_eq!(
            loaded(0x1608, 0, 0x1000_0000),
            Some(SCRATCH.in_pipe(Pipe::Pipe3d))
        );
    }

    #[test]
    fn a_page_of_the_mmu_is_no_physical_memory() {
        for byte in [0x1658, 0x165C, 0x1664, 0x1668, 0x16A4] {
            // GPU address 0x80001000 is the process's; physical address 0x80001000 is not.
            assert_eq!(loaded(byte, 0x8000_1000, 0), None);
            assert_eq!(loaded(byte, 0x9000_1000, 0x1000_0000), None);
            assert_eq!(loaded(byte, 0x4000, 0), Some(0x4000));
            // With memory controller 2.0 it is a GPU address.
            assert_eq!(
                fault_of_process(&[load_state(state::word(byte), 1), 0x8000_1000]),
                None
            );
        }
        // A range that was found for another state does not count for these.
        let physical = Some(PhysicalStates {
            base: 0,
            scratch: Range::new(0x7000_0000, 0x1_0000).unwrap(),
        });
        let mut words = [
            load_state(state::word(0x1608), 1),
            0x8000_1000,
            load_state(state::word(0x1658), 1),
            0x8000_1000,
        ];
        assert!(check_process(&mut words, physical, false).is_err());
    }

    #[test]
    fn tiles_end_with_physical_memory() {
        let states = cores::bounded();
        for base in [0, 0x1000_0000] {
            let physical = PhysicalStates {
                base,
                scratch: Range::new(0x7000_0000, 0x1_0000).unwrap(),
            };
            // A tile has 64 bytes.
            let fills = |surface, tiles| {
                let mut words = [
                    load_state(state::word(0x165C), 1),
                    surface,
                    load_state(state::word(0x1608), 1),
                    0,
                    load_state(state::word(0x1658), 1),
                    base + 0x4000,
                    load_state(state::RS_KICKER_INPLACE, 1),
                    tiles,
                ];
                check_process_on(&states, &mut words, Some(physical), false).is_ok()
            };
            assert!(fills(base + 0x4000, 0x40) && !fills(base + 0x4000, 0x41));
            assert!(fills(base + 0x4FC0, 1) && !fills(base + 0x4FC0, 2));
            assert!(fills(0, 0x400) && !fills(0, 0x401));
        }
    }
}
