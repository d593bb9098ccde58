// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_checker)]
mod cases {
    use super::super::*;
    use crate::stream::{
        states::{
            cores,
            takes_address, //
        },
        words::{
            link,
            load_state,
            select_idle_pipe,
            select_pipe,
            Caches,
            END,
            STALL,
            WAIT, //
        }, //
    };
    use crate::{
        addr::Range,
        hw::MmuVersion,
        stream::{
            addresses::AddressSet,
            loaded::Origin,
            lookup::{
                PhysicalStates,
                Scratch, //
            }, //
        }, //
    };

    const SCRATCH: Scratch = Scratch {
        addresses: [0xFC00_0000, 0xFC80_0000],
        physical: None,
    };

    const DRAW: [u32; 4] = [5 << 27, 4, 0, 1];
    const KICK: [u32; 2] = [load_state(state::RS_KICKER, 1), 0xBEEB_BEEB];

    fn copy(words: &[u32]) -> KVVec<u32> {
        let mut copy = KVVec::new();
        copy.extend_from_slice(words, GFP_KERNEL).unwrap();
        copy
    }

    fn check_core(words: &[u32], states: &States, entry: Pipe) -> Result<Exit, Refusal> {
        check(&mut copy(words), states, entry, Addresses::Any, None)
    }

    /// Checks a stream for a core with all features.
    fn check_all(words: &[u32], entry: Pipe) -> Result<Exit, Refusal> {
        check_core(words, &cores::both(), entry)
    }

    /// The exit of a stream that only uses `pipe`.
    fn exit(pipe: Pipe) -> Exit {
        let mut uses = Pipes::default();
        uses.add(pipe);
        Exit {
            pipe,
            armed: false,
            uses,
        }
    }

    fn fault(words: &[u32], entry: Pipe) -> Option<Fault> {
        check_all(words, entry).err().map(|refusal| refusal.fault)
    }

    #[test]
    fn words_begin_in_an_engine_that_is_there() {
        for (pipe_3d, pipe_2d, entries) in [
            (true, true, [Pipe::Pipe3d, Pipe::Pipe2d]),
            (true, false, [Pipe::Pipe3d; 2]),
            (false, true, [Pipe::Pipe2d; 2]),
        ] {
            let pipes = Pipes { pipe_3d, pipe_2d };
            for (number, pipe) in (0..).zip(entries) {
                assert_eq!(pipes.entry(number), Some(pipe));
            }
            assert_eq!(pipes.entry(2), None);
            assert_eq!(pipes.entry(u32::MAX), None);
        }
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
        let fault = |parts: &[&[u32]], entry, forgives| {
            let mut words = KVVec::new();
            for part in parts {
                words.extend_from_slice(part, GFP_KERNEL).unwrap();
            }
            pass(&mut words, &cores::both(), entry, addresses, None, forgives)
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
            pass(&mut words, &states, Pipe::Pipe3d, addresses, None, false)
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
    fn an_empty_stream_is_fine() {
        assert_eq!(check_all(&[], Pipe::Pipe2d), Ok(exit(Pipe::Pipe2d)));
    }

    #[test]
    fn the_kernels_opcodes_are_refused() {
        for word in [
            END,
            WAIT,
            link(0x1000, 8),
            10 << 27,
            11 << 27,
            13 << 27,
            0,
            !0,
        ] {
            assert_eq!(fault(&[word, 0], Pipe::Pipe3d), Some(Fault::Opcode));
        }
    }

    #[test]
    fn the_kernels_states_are_refused() {
        for byte in [
            0x8, 0x180, 0x184, 0x400, 0x5FC, 0x640, 0x654, 0x66C, 0x3804, 0x3810,
        ] {
            let address = state::word(byte);
            assert_eq!(
                fault(&[load_state(address, 1), 0], Pipe::Pipe3d),
                Some(Fault::State(address))
            );
        }
        // Also as one of several: 0x3800 is allowed, 0x3804 after it is not.
        let words = [load_state(state::GL_PIPE_SELECT, 2), 0, 0, 0];
        assert_eq!(
            fault(&words, Pipe::Pipe3d),
            Some(Fault::State(state::GL_EVENT))
        );
    }

    #[test]
    fn the_delay_states_are_accepted_alone() {
        let words = [load_state(0, 1), 0, load_state(1, 1), 0];
        assert_eq!(check_all(&words, Pipe::Pipe2d), Ok(exit(Pipe::Pipe2d)));
        assert_eq!(
            fault(&[load_state(0, 2), 0, 0, 0], Pipe::Pipe2d),
            Some(Fault::State(0))
        );
    }

    #[test]
    fn truncated_commands_are_refused() {
        assert_eq!(
            fault(&[load_state(0x600, 3), 0], Pipe::Pipe3d),
            Some(Fault::Truncated)
        );
        // 1 + 2 words are padded to 4.
        assert_eq!(
            fault(&[load_state(0x600, 2), 0, 0], Pipe::Pipe3d),
            Some(Fault::Truncated)
        );
        assert_eq!(
            fault(&[0x2000_0100, 0, 0], Pipe::Pipe2d),
            Some(Fault::Truncated)
        );
        // A count of 0 is 1024 values.
        assert_eq!(
            fault(&[load_state(0x600, 0), 0], Pipe::Pipe3d),
            Some(Fault::Truncated)
        );
    }

    #[test]
    fn data_of_a_draw_are_no_commands() {
        // One rectangle, three words of a mask, a word of padding, then another command.
        let words = [0x2003_0100, 0, 0, 0x0010_0010, END, END, END, END, END, 0];
        assert_eq!(fault(&words[..8], Pipe::Pipe2d), None);
        assert_eq!(
            check_all(&words, Pipe::Pipe2d)
                .err()
                .map(|refusal| (refusal.at, refusal.fault)),
            Some((8, Fault::Opcode))
        );
        assert_eq!(fault(&words[..7], Pipe::Pipe2d), Some(Fault::Truncated));
        assert_eq!(fault(&words[..6], Pipe::Pipe2d), Some(Fault::Truncated));
    }

    #[test]
    fn what_stands_after_harmless_states_is_looked_at() {
        // With the padding, if there is any.
        for words in [
            &[load_state(0x600, 1), 0, END, 0][..],
            &[load_state(0x600, 2), 0, 0, 0, END, 0],
            &[load_state(0x600, 3), 0, 0, 0, END, 0],
            &[load_state(0x600, 4), 0, 0, 0, 0, 0, END, 0],
        ] {
            assert_eq!(fault(words, Pipe::Pipe3d), Some(Fault::Opcode));
        }
    }

    #[test]
    fn a_state_address_does_not_wrap() {
        assert_eq!(
            fault(&[load_state(0xFFFF, 2), 0, 0, 0], Pipe::Pipe3d),
            Some(Fault::State(0x1_0000))
        );
    }

    #[test]
    fn draws_need_their_pipe() {
        let draw_2d = [0x2000_0100, 0, 0, 0x0010_0010];
        let draw_3d = [5 << 27, 4, 0, 1];
        assert_eq!(check_all(&draw_2d, Pipe::Pipe2d), Ok(exit(Pipe::Pipe2d)));
        assert_eq!(check_all(&draw_3d, Pipe::Pipe3d), Ok(exit(Pipe::Pipe3d)));
        assert_eq!(fault(&draw_2d, Pipe::Pipe3d), Some(Fault::WrongPipe));
        assert_eq!(fault(&draw_3d, Pipe::Pipe2d), Some(Fault::WrongPipe));
        assert_eq!(
            check_core(&draw_2d, &cores::imx6qp(), Pipe::Pipe2d)
                .err()
                .map(|r| r.fault),
            Some(Fault::NoPipe)
        );
    }

    #[test]
    fn a_pipe_switch_is_followed() {
        let caches = Caches::new(true, true, true, MmuVersion::V1);
        let switch = select_pipe(&caches, Pipe::Pipe2d);
        assert_eq!(
            check_all(&switch, Pipe::Pipe3d),
            Ok(Exit {
                uses: Pipes {
                    pipe_3d: true,
                    pipe_2d: true
                },
                ..exit(Pipe::Pipe2d)
            })
        );
        assert_eq!(
            check_core(&switch, &cores::imx6qp(), Pipe::Pipe3d)
                .err()
                .map(|r| (r.at, r.fault)),
            Some((8, Fault::NoPipe))
        );
    }

    #[test]
    fn a_pipe_switch_waits_for_the_draws() {
        let draw = [0x2000_0100, 0, 0, 0x0010_0010];
        let select = [load_state(state::GL_PIPE_SELECT, 1), 0];
        let arm = [load_state(state::GL_SEMAPHORE_TOKEN, 1), TOKEN_FE_TO_PE];
        let stall = [STALL, TOKEN_FE_TO_PE];
        let stream = |parts: &[&[u32]]| {
            let mut words: KVec<u32> = KVec::new();
            for part in parts {
                words.extend_from_slice(part, GFP_KERNEL).unwrap();
            }
            words
        };
        let good = stream(&[&draw, &arm, &stall, &select]);
        assert_eq!(
            check_all(&good, Pipe::Pipe2d).map(|exit| exit.pipe),
            Ok(Pipe::Pipe3d)
        );
        assert_eq!(
            check_all(&arm, Pipe::Pipe2d).map(|exit| exit.armed),
            Ok(true)
        );
        // A semaphore before the draw does not cover it.
        for bad in [
            stream(&[&draw, &select]),
            stream(&[&arm, &draw, &stall, &select]),
            stream(&[&draw, &arm, &stall, &draw, &select]),
        ] {
            assert_eq!(fault(&bad, Pipe::Pipe2d), Some(Fault::BusyPipe));
        }
        let twice = stream(&[&arm, &draw, &arm, &stall, &select]);
        assert_eq!(fault(&twice, Pipe::Pipe2d), Some(Fault::ArmedTwice));
    }

    #[test]
    fn a_semaphore_is_armed_once() {
        let arm = |token| [load_state(state::GL_SEMAPHORE_TOKEN, 1), token];
        let stall = [STALL, TOKEN_FE_TO_PE];
        let [a, b] = arm(TOKEN_FE_TO_PE);
        let [c, d] = stall;
        assert_eq!(
            fault(&[a, b, a, b, c, d], Pipe::Pipe3d),
            Some(Fault::ArmedTwice)
        );
        // Other bits of the value do not change the token.
        assert_eq!(
            fault(&[a, b, a, b | 0xF000_0000, c, d], Pipe::Pipe3d),
            Some(Fault::ArmedTwice)
        );
        // Again after its stall; and another one at the same time.
        assert_eq!(fault(&[a, b, c, d, a, b, c, d], Pipe::Pipe3d), None);
        assert_eq!(
            fault(&[a, b, a, 0x0501, c, d, c, 0x0501], Pipe::Pipe3d),
            None
        );
    }

    #[test]
    fn no_semaphore_stays_armed() {
        let arm = |token| [load_state(state::GL_SEMAPHORE_TOKEN, 1), token];
        let load = load_state(state::GL_STALL_TOKEN, 1);
        assert_eq!(fault(&arm(TOKEN_FE_TO_PE), Pipe::Pipe3d), None);
        for (wait, token) in [(load, 0x0705), (STALL, 0x0501), (load, 0x1F1F), (load, 0)] {
            let ([a, b], [c, d]) = (arm(token), [wait, token]);
            let [e, f] = arm(TOKEN_FE_TO_PE);
            assert_eq!(fault(&[a, b, e, f], Pipe::Pipe3d), Some(Fault::LeftArmed));
            assert_eq!(fault(&[a, b, e, f, c, d], Pipe::Pipe3d), None);
        }
    }

    #[test]
    fn what_kicks_an_engine_is_a_draw() {
        let select = [load_state(state::GL_PIPE_SELECT, 1), 0];
        for (state, pipe, other) in [
            (state::RS_KICKER, Pipe::Pipe3d, Pipe::Pipe2d),
            (state::RS_KICKER_INPLACE, Pipe::Pipe3d, Pipe::Pipe2d),
            (state::CL_KICKER, Pipe::Pipe3d, Pipe::Pipe2d),
            (state::DE_VR_CONFIG, Pipe::Pipe2d, Pipe::Pipe3d),
        ] {
            let [a, b] = [load_state(state, 1), 1];
            assert_eq!(fault(&[a, b], pipe), None);
            assert_eq!(fault(&[a, b], other), Some(Fault::WrongPipe));
            assert_eq!(
                fault(&[a, b, select[0], select[1]], pipe),
                Some(Fault::BusyPipe)
            );
            assert_eq!(fault(&[a | FIXP, b], pipe), Some(Fault::State(state)));
        }
    }

    #[test]
    fn control_states_are_not_converted() {
        for address in [
            state::GL_PIPE_SELECT,
            state::GL_SEMAPHORE_TOKEN,
            state::RS_KICKER,
        ] {
            assert_eq!(
                fault(&[load_state(address, 1) | FIXP, 1], Pipe::Pipe3d),
                Some(Fault::State(address))
            );
        }
        let words = [load_state(0x600, 1) | FIXP, 1];
        assert_eq!(check_all(&words, Pipe::Pipe3d), Ok(exit(Pipe::Pipe3d)));
    }

    #[test]
    fn a_stall_needs_its_semaphore() {
        let armed = [
            load_state(state::GL_SEMAPHORE_TOKEN, 1),
            TOKEN_FE_TO_PE,
            STALL,
            TOKEN_FE_TO_PE,
        ];
        assert_eq!(check_all(&armed, Pipe::Pipe3d), Ok(exit(Pipe::Pipe3d)));
        assert_eq!(fault(&armed[2..], Pipe::Pipe3d), Some(Fault::UnarmedStall));
        let twice = [armed[0], armed[1], armed[2], armed[3], armed[2], armed[3]];
        assert_eq!(fault(&twice, Pipe::Pipe3d), Some(Fault::UnarmedStall));
        // The front end does not wait for the state of that name.
        let load = load_state(state::GL_STALL_TOKEN, 1);
        let loaded = [armed[0], armed[1], load, TOKEN_FE_TO_PE];
        assert_eq!(fault(&loaded, Pipe::Pipe3d), Some(Fault::StallByLoad));
    }

    /// Checks a stream, all copied, for a process with 0x1000 bytes at 0x4000 and at 0x80001000.
    fn check_process(
        words: &mut [u32],
        physical: Option<PhysicalStates>,
        forgives: bool,
    ) -> Result<Exit, Refusal> {
        check_process_on(&cores::both(), words, physical, forgives)
    }

    /// As above, for a core that the caller has made, which takes a while.
    fn check_process_on(
        states: &States,
        words: &mut [u32],
        physical: Option<PhysicalStates>,
        forgives: bool,
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
        pass(words, states, Pipe::Pipe3d, addresses, None, forgives)
    }

    /// The log text about a stream.
    fn fault_of_process(words: &[u32]) -> Option<Fault> {
        let result = check_process(&mut copy(words), None, false);
        result.err().map(|refusal| refusal.fault)
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
            let mut words = KVVec::new();
            for part in parts {
                words.extend_from_slice(part, GFP_KERNEL).unwrap();
            }
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
            let refused = Some(Fault::Address(state::word(0x1608)));
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
            None
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

    #[test]
    fn every_state_is_as_the_lists_say() {
        let states = cores::both();
        for address in 0..0x1_0000 {
            let found = check_core(&[load_state(address, 1), 0], &states, Pipe::Pipe3d);
            let fault = found.err().map(|refusal| refusal.fault);
            let kernels = fault == Some(Fault::State(address));
            assert_eq!(kernels, is_kernel_state(address));
            assert!(!(takes_address(address) && kernels));
        }
    }

    #[test]
    fn what_a_core_lacks_is_refused() {
        let fault = |byte, states: &States, entry| {
            let words = [load_state(state::word(byte), 1), 0];
            let result = check_core(&words, states, entry);
            result.err().map(|refusal| refusal.fault)
        };
        let unknown = |byte| Some(Fault::Unknown(state::word(byte)));
        for byte in [
            0x3868, 0x1A80, 0x1114, 0x14000, 0x1C008, 0x12EE0, 0x14A08, 0x1228,
        ] {
            assert_eq!(fault(byte, &cores::imx6qp(), Pipe::Pipe3d), unknown(byte));
        }
        for byte in [0x1430, 0x2400, 0x10800, 0x12800] {
            assert_eq!(fault(byte, &cores::gc320(), Pipe::Pipe2d), unknown(byte));
        }
        assert_eq!(
            fault(0x14600, &cores::dove(), Pipe::Pipe3d),
            unknown(0x14600)
        );
        assert_eq!(fault(0x14600, &cores::imx6qp(), Pipe::Pipe3d), None);
        // Also among others: after the last state of the 2D engine.
        let words = [load_state(state::word(0x1328), 2), 0, 0, 0];
        let result = check_core(&words, &cores::dove(), Pipe::Pipe2d);
        assert_eq!(result.err().map(|refusal| refusal.fault), unknown(0x132C));
    }

    #[test]
    fn what_a_stream_uses_is_known() {
        let uses = |words: &[u32], entry| check_all(words, entry).map(|exit| exit.uses);
        let both = Pipes {
            pipe_3d: true,
            pipe_2d: true,
        };
        let only = |pipe| exit(pipe).uses;
        let load = |byte| [load_state(state::word(byte), 1), 0];
        assert_eq!(uses(&[], Pipe::Pipe2d), Ok(only(Pipe::Pipe2d)));
        assert_eq!(uses(&load(0x1228), Pipe::Pipe2d), Ok(only(Pipe::Pipe2d)));
        assert_eq!(uses(&load(0x1430), Pipe::Pipe3d), Ok(only(Pipe::Pipe3d)));
        // In any selected pipe: the address states may have changed.
        assert_eq!(uses(&load(0x1228), Pipe::Pipe3d), Ok(both));
        assert_eq!(uses(&load(0x12A00), Pipe::Pipe3d), Ok(both));
        // Also the end of an occlusion query, which writes to an address that was loaded earlier.
        assert_eq!(uses(&load(0x3830), Pipe::Pipe2d), Ok(both));
        assert_eq!(uses(&load(0x1430), Pipe::Pipe2d), Ok(both));
        assert_eq!(uses(&load(0x122C), Pipe::Pipe3d), Ok(only(Pipe::Pipe3d)));
        assert_eq!(uses(&load(0x3800), Pipe::Pipe2d), Ok(both));
    }

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
            let mut words = KVVec::new();
            for part in parts {
                words.extend_from_slice(part, GFP_KERNEL).unwrap();
            }
            let checked = check(&mut words, &bounded, entry, addresses, loaded);
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
        let converted = [off[0] | FIXP, 0];
        assert!(in_3d(&[&converted]).is_err());
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
        let fault = |parts: &[&[u32]], entry, states: &States, forgives| {
            let mut words = KVVec::new();
            for part in parts {
                words.extend_from_slice(part, GFP_KERNEL).unwrap();
            }
            pass(&mut words, states, entry, addresses, None, forgives)
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
        let lent = |parts: &[&[u32]], lax| {
            let mut words = KVVec::new();
            for part in parts {
                words.extend_from_slice(part, GFP_KERNEL).unwrap();
            }
            let pipe = Pipe::Pipe2d;
            let checked = pass(&mut words, &bounded, pipe, addresses, Some(&loaded), lax);
            let fault = checked.err().map(|refusal| refusal.fault);
            if fault.is_none() && !lax {
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
