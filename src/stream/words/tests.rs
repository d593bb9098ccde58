// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_words)]
mod cases {
    use super::super::*;

    const TABLES: PageTables = PageTables::V2(0x4567_8000);

    #[test]
    fn encodings_are_those_of_the_vendor() {
        assert_eq!(load_state(state::GL_EVENT, 1), 0x0801_0E01);
        assert_eq!(load_state(state::GL_FLUSH_CACHE, 1), 0x0801_0E03);
        assert_eq!(event(3)[1], 0x43);
        assert_eq!(event(3)[2], 0x0805_0100);
        assert_eq!(wait_link(0x1000), [0x3800_00C8, 0, 0x4000_0002, 0x1000]);
    }

    #[test]
    fn commands_that_exist() {
        for word in [END, NOP, WAIT, STALL, link(0, 64), load_state(0, 1)] {
            assert!(exists(word));
        }
        for word in [0, u32::MAX, 0xF000_0000, 0x7000_0000] {
            assert!(!exists(word));
        }
    }

    #[test]
    fn a_link_ends_on_a_64_byte_boundary() {
        assert_eq!(link(0x1000, 64), 0x4000_0008);
        assert_eq!(link(0x1000, 24), 0x4000_0008);
        assert_eq!(link(0x1010, 16), 0x4000_0006);
        assert_eq!(link(0x1038, 16), 0x4000_0009);
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
    fn a_pipe_switch_drains_what_there_is() {
        let both = Caches::new(true, true, true, MmuVersion::V1);
        assert_eq!(
            select_pipe(&both, Pipe::Pipe2d),
            [
                0x0801_0E03,
                0x2B,
                0x0801_0594,
                1,
                0x0801_0E02,
                0x701,
                0x4800_0000,
                0x701,
                0x0801_0E00,
                1
            ]
        );
        for (caches, words) in [
            (
                Caches::new(true, false, true, MmuVersion::V1),
                [0x0801_0E03, 0x23, 0x0801_0594, 1],
            ),
            (
                Caches::new(true, true, false, MmuVersion::V1),
                [0x0801_0E03, 0x2B, 0x1800_0000, 0],
            ),
            (
                Caches::new(true, true, true, MmuVersion::V2),
                [0x0801_0E03, 0x2B, 0x0801_0594, 1],
            ),
            // Without the 3D engine, there is no tile status, whatever the features say.
            (
                Caches::new(false, true, true, MmuVersion::V1),
                [0x0801_0E03, 0x8, 0x1800_0000, 0],
            ),
        ] {
            assert_eq!(drain(&caches)[..4], words);
            assert_eq!(flush_mmu(&caches, TABLES)[..4], words);
        }
    }

    #[test]
    fn translations_change_behind_what_was_read_by_them() {
        for (pipe_3d, version, tables, words) in [
            (
                true,
                MmuVersion::V1,
                PageTables::V1,
                [0x0801_0E03, 4, 0x1800_0000, 0, 0x0801_0E04, 0x1F],
            ),
            // With the bits of the drain: the vendor's 0x7E, and depth.
            (
                true,
                MmuVersion::V2,
                TABLES,
                [
                    0x0801_0E03,
                    0x44,
                    0x0801_0E03,
                    0x10,
                    0x0801_0061,
                    0x4567_8018,
                ],
            ),
            (
                false,
                MmuVersion::V1,
                PageTables::V1,
                [0x1800_0000, 0, 0x1800_0000, 0, 0x0801_0E04, 0x1F],
            ),
        ] {
            let caches = Caches::new(pipe_3d, true, true, version);
            let all = flush_mmu(&caches, tables);
            assert_eq!(all[8..12], words[..4]);
            assert_eq!(all[16..18], words[4..]);
        }
    }

    #[test]
    fn halti5_forgets_instructions_and_descriptors() {
        let caches = Caches::new(true, false, true, MmuVersion::V2).with_halti5();
        assert_eq!(drain(&caches)[..2], [0x0801_0E03, 0xC23]);
        let all = flush_mmu(&caches, TABLES);
        assert_eq!(all[12..16], [0x0801_022C, 0x1F, 0x0801_5311, 0]);
        let caches = Caches::new(true, false, true, MmuVersion::V2);
        assert_eq!(flush_mmu(&caches, TABLES)[12..16], [NOP, 0, NOP, 0]);
    }

    #[test]
    fn a_secure_mmu_takes_an_entry_of_its_array() {
        assert_eq!(
            use_tables(PageTables::Secure(5))[..4],
            [0x0801_006B, 5, 0x0801_0061, 0x118]
        );
    }

    #[test]
    fn mmu_version_2_is_configured_by_its_own_states() {
        assert_eq!(
            configure_mmu(Pipe::Pipe3d, 0x4567_8000, 0x4567_9040)[..6],
            [
                0x0801_0E00,
                0,
                0x0801_0061,
                0x4567_8000,
                0x0801_0060,
                0x4567_9040
            ]
        );
    }

    #[test]
    fn opcodes_are_the_top_five_bits() {
        assert_eq!(Opcode::of(load_state(0, 1)), Opcode::LoadState);
        assert_eq!(Opcode::of(0x1800_0000), Opcode::Nop);
        assert_eq!(Opcode::of(STALL), Opcode::Stall);
        assert_eq!(Opcode::of(END), Opcode::Other(2));
        assert_eq!(Opcode::of(WAIT), Opcode::Other(7));
        assert_eq!(Opcode::of(link(0, 8)), Opcode::Other(8));
    }
}
