// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suites of [`super`]. The one here is about commands, pipes and states.

mod addresses;
mod bounds;

#[kernel::macros::kunit_tests(galcore_checker)]
mod cases {
    use super::super::*;
    use crate::{
        hw::MmuVersion,
        stream::{
            addresses::Scratch,
            states::{
                cores,
                takes_address, //
            },
            words::{
                link,
                load_state,
                select_pipe,
                Caches,
                END,
                STALL,
                WAIT, //
            }, //
        },
        sys::prelude::*, //
    };
    use kernel::str::CString;

    pub(super) const SCRATCH: Scratch = Scratch {
        addresses: [0xFC00_0000, 0xFC80_0000],
        physical: None,
    };

    pub(super) fn copy(words: &[u32]) -> KVVec<u32> {
        joined(&[words])
    }

    /// A stream of these parts.
    pub(super) fn joined(parts: &[&[u32]]) -> KVVec<u32> {
        let mut words = KVVec::new();
        for part in parts {
            words.extend_from_slice(part, GFP_KERNEL).unwrap();
        }
        words
    }

    fn check_core(words: &[u32], states: &States, entry: Pipe) -> Result<Exit, Refusal> {
        check(&mut copy(words), states, entry, Addresses::Any, None, false)
    }

    /// Checks a stream for a core with all features.
    fn check_all(words: &[u32], entry: Pipe) -> Result<Exit, Refusal> {
        check_core(words, &cores::both(), entry)
    }

    /// The exit of a stream that only uses `pipe`.
    pub(super) fn exit(pipe: Pipe) -> Exit {
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
                uses: Pipes::BOTH,
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
        let good = joined(&[&draw, &arm, &stall, &select]);
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
            joined(&[&draw, &select]),
            joined(&[&arm, &draw, &stall, &select]),
            joined(&[&draw, &arm, &stall, &draw, &select]),
        ] {
            assert_eq!(fault(&bad, Pipe::Pipe2d), Some(Fault::BusyPipe));
        }
        let twice = joined(&[&arm, &draw, &arm, &stall, &select]);
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
    fn an_unknown_kick_of_the_filter_is_refused() {
        for (value, wanted) in [
            (0, None),
            (1, None),
            (2, None),
            (3, Some(Fault::State(state::DE_VR_CONFIG))),
            (0xB, Some(Fault::State(state::DE_VR_CONFIG))),
        ] {
            let words = [load_state(state::DE_VR_CONFIG, 1), value];
            assert_eq!(fault(&words, Pipe::Pipe2d), wanted);
        }
    }

    #[test]
    fn the_text_says_what_is_missing() {
        let text = |fault| {
            let refusal = Refusal {
                at: 2,
                word: 0x2000_0100,
                value: None,
                fault,
            };
            CString::try_from_fmt(kernel::prelude::fmt!("{refusal}")).unwrap()
        };
        for (fault, part) in [
            (
                Fault::Unloaded(state::word(0x12834)),
                &b"for 4 (0x12800 on), which this or an earlier buffer has used, at word 2 (0x20000100)"
                    [..],
            ),
            (
                Fault::Unloaded(state::word(0x12A60)),
                b"for 8 (0x12a00 on), which this or an earlier buffer has used, at word 2 (0x20000100)",
            ),
            (
                Fault::Unloaded(state::word(0x1678)),
                b"of this unit with its engine selected, at word 2 (0x20000100)",
            ),
            (
                Fault::Beyond(state::word(0x12800), 4),
                b"counts as relative and as absolute, at word 2 (0x20000100)",
            ),
        ] {
            assert!(text(fault).to_bytes().ends_with(part));
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
        let words = [load_state(state::word(0xE00), 1) | FIXP, 1];
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

    /// [`Checker::note_engines`] looks at one state of this many.
    #[test]
    fn blocks_of_one_engine_have_a_minimum_size() {
        let mut block = (None, SMALLEST_BLOCK);
        for address in 0..=0x1_0000 {
            let engine = (address < 0x1_0000).then(|| states::engine_of(address));
            let engine = engine.flatten();
            if engine == block.0 {
                block.1 += 1;
            } else {
                assert!(block.0.is_none() || block.1 >= SMALLEST_BLOCK);
                block = (engine, 1);
            }
        }
    }

    #[test]
    fn what_a_stream_uses_is_known() {
        let uses = |words: &[u32], entry| check_all(words, entry).map(|exit| exit.uses);
        let only = |pipe| exit(pipe).uses;
        let load = |byte| [load_state(state::word(byte), 1), 0];
        assert_eq!(uses(&[], Pipe::Pipe2d), Ok(only(Pipe::Pipe2d)));
        assert_eq!(uses(&load(0x1228), Pipe::Pipe2d), Ok(only(Pipe::Pipe2d)));
        assert_eq!(uses(&load(0x1430), Pipe::Pipe3d), Ok(only(Pipe::Pipe3d)));
        // In any selected pipe: the address states may have changed.
        assert_eq!(uses(&load(0x1228), Pipe::Pipe3d), Ok(Pipes::BOTH));
        assert_eq!(uses(&load(0x12A00), Pipe::Pipe3d), Ok(Pipes::BOTH));
        // Also the end of an occlusion query, which writes to an address that was loaded earlier.
        assert_eq!(uses(&load(0x3830), Pipe::Pipe2d), Ok(Pipes::BOTH));
        assert_eq!(uses(&load(0x1430), Pipe::Pipe2d), Ok(Pipes::BOTH));
        // And any other state of an engine: alone, among others, or loaded without a look at them.
        for (first, count) in [(0x122C, 1), (0x1270, 2), (0x1C00, 4), (0x1268, 1)] {
            let words = [load_state(state::word(first), count), 0, 0, 0, 0, 0];
            let words = &words[..(1 + count as usize).next_multiple_of(2)];
            assert_eq!(uses(words, Pipe::Pipe3d), Ok(Pipes::BOTH));
            assert_eq!(uses(words, Pipe::Pipe2d), Ok(only(Pipe::Pipe2d)));
        }
        assert_eq!(uses(&load(0x0A00), Pipe::Pipe2d), Ok(Pipes::BOTH));
        let alone = check_core(&load(0x0A00), &cores::imx6qp(), Pipe::Pipe3d);
        assert_eq!(alone.map(|exit| exit.uses), Ok(only(Pipe::Pipe3d)));
        // Not the front end's, nor those of both.
        for byte in [0x380C, 0x3FFFC] {
            assert_eq!(uses(&load(byte), Pipe::Pipe2d), Ok(only(Pipe::Pipe2d)));
        }
        assert_eq!(uses(&load(0x3800), Pipe::Pipe2d), Ok(Pipes::BOTH));
    }
}
