// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_context)]
mod cases {
    use super::super::*;
    use crate::{
        hw::{
            Identity,
            MmuVersion, //
        },
        stream::{
            states::cores,
            words::load_state, //
        },
    };

    fn image() -> Image {
        let identity = Identity {
            model: 0x2000,
            revision: 0x5108,
            minor_features: [0, 1 << 23, 0, 0],
            instruction_count: 512,
            pixel_pipes: 2,
            ..Identity::default()
        };
        Image::new(StateMap::new(&identity).unwrap()).unwrap()
    }

    fn record(byte: u32, mask: u32, data: u32) -> Record {
        Record {
            address: state::word(byte),
            mask,
            data,
        }
    }

    #[test]
    fn masks_pick_bits() {
        let mut image = image();
        let at = image.map.place(state::word(0x0A08)).unwrap();
        assert_eq!(image.apply(record(0x0A08, 0, 0x1234_5678)), Some(at));
        assert_eq!(image.apply(record(0x0A08, 0xFF00, 0xAAAA_AAAA)), Some(at));
        assert_eq!(image.words[at], 0x1234_AA78);
        assert_eq!(image.apply(record(0x0A08, !0, 7)), Some(at));
        assert_eq!(image.words[at], 7);
        // Nothing has changed.
        assert_eq!(image.apply(record(0x0A08, !0, 7)), None);
    }

    #[test]
    fn what_is_not_kept_is_skipped() {
        let mut image = image();
        for byte in [0x1600, 0x3800, 0x3804, 0x1228, 0x0] {
            assert_eq!(image.apply(record(byte, 0, 1)), None);
        }
        for address in [0x3800, 0xFFFF, 0x1_0000, u32::MAX] {
            let record = Record {
                address,
                mask: 0,
                data: 1,
            };
            assert_eq!(image.apply(record), None);
        }
        assert_eq!(image.words[..], image.map.template[..]);
    }

    #[test]
    fn auto_disable_is_never_restored() {
        let mut image = image();
        let at = image.map.mem_config;
        assert_eq!(image.apply(record(0x1654, 0, !0)), Some(at));
        assert_eq!(image.words[at], !AUTO_DISABLE);
        // As in the vendor's driver, only whole words clear these bits.
        assert_eq!(image.apply(record(0x1654, 0x10, 0x10)), Some(at));
        assert_eq!(image.words[at], !AUTO_DISABLE | 0x10);
    }

    #[test]
    fn the_yuv_tiler_is_never_on() {
        let mut image = image();
        let at = image.map.yuv_config;
        assert_eq!(image.apply(record(0x1678, 0, 0x11)), Some(at));
        assert_eq!(image.words[at], 0x10);
        assert_eq!(image.apply(record(0x1678, 1, 1)), None);
    }

    #[test]
    fn both_instruction_windows_are_one_memory() {
        let mut image = image();
        let at = image.apply(record(0x8000, 0, 5)).unwrap();
        assert_eq!(image.map.place(state::word(0xC000)), Some(at));
    }

    #[test]
    fn as_many_elements_as_are_used() {
        let mut image = image();
        for i in 0..16 {
            assert_eq!(image.apply(record(0x0600 + 4 * i, 0, 0x100 + i)), None);
        }
        assert!(image.elements_changed);
        let (block, len) = image.element_words();
        assert_eq!(
            (block[0], block[1], block[16], len),
            (0x0810_0180, 0x100, 0x10F, 18)
        );
        for (count, header) in [(1, 0x0801_0180), (2, 0x0802_0180), (15, 0x080F_0180)] {
            image.set_element_count(count);
            let (block, _) = image.element_words();
            let count = count as usize;
            assert_eq!((block[0], block[count]), (header, 0xFF + count as u32));
            // NOPs follow up to the end.
            let after = (1 + count).next_multiple_of(2);
            for (i, &word) in block.iter().enumerate().skip(after) {
                assert_eq!(word, if i % 2 == 0 { words::NOP } else { 0 });
            }
        }
        // First more than there are, then 0, which changes nothing.
        image.set_element_count(1000);
        assert_eq!(image.element_words().0[0], 0x0810_0180);
        image.set_element_count(3);
        image.set_element_count(0);
        assert_eq!(image.element_words().0[0], 0x0803_0180);
        // Elements that were skipped are loaded again.
        image.set_element_count(16);
        assert_eq!(image.element_words().0[16], 0x10F);
    }

    #[test]
    fn a_copy_follows_the_other() {
        let (mut copy, mut other) = (image(), image());
        for (byte, data) in [(0x0A08, 7), (0x0600, 8), (0x0604, 9), (0x0680, 0x1000)] {
            other.apply(record(byte, 0, data));
        }
        other.set_element_count(2);
        // A failed switch has left this change in the copy.
        copy.apply(record(0x0A14, 0, 10));
        let mut changes = 0;
        copy.follow(&other, |at, word| {
            assert_eq!(word, other.words[at]);
            changes += 1;
        });
        assert_eq!(changes, 2);
        assert_eq!(copy.words[..], other.words[..]);
        assert!(copy.elements_changed && copy.addresses_changed);
        assert_eq!(copy.element_words(), other.element_words());
        (copy.elements_changed, copy.addresses_changed) = (false, false);
        copy.follow(&other, |_, _| panic!("nothing has changed"));
        assert!(!copy.elements_changed && !copy.addresses_changed);
    }

    #[test]
    fn addresses_wait_for_their_check() {
        let mut image = image();
        assert_eq!(image.apply(record(0x0680, 0, 0x1000)), None);
        assert!(image.addresses_changed);
        assert!(image
            .map
            .addresses
            .iter()
            .any(|slot| slot.state == state::word(0x0680)));
    }

    const CACHES: Caches = Caches::new(true, true, true, MmuVersion::V1);

    fn note(kept: &mut Kept, words: &[u32]) {
        let map = StateMap::new(&Identity::default()).unwrap();
        let dove = cores::dove();
        kept.note(words, &map, dove.sets().unwrap());
    }

    fn kept(words: &[u32]) -> Kept {
        let mut kept = Kept::new().unwrap();
        note(&mut kept, words);
        kept
    }

    /// The header of a load of consecutive states.
    fn states(byte: u32, count: u32) -> u32 {
        load_state(state::word(byte), count)
    }

    #[test]
    fn what_was_loaded_comes_back() {
        let first = [states(0xA14, 1), 5, states(0x1604, 2), 6, 7, 0];
        let mut kept = kept(&first);
        assert_eq!(
            kept.words(Pipe::Pipe3d, &CACHES).unwrap().0[..],
            [states(0xA14, 1), 5, states(0x1604, 2), 6, 7, 0]
        );
        // Later values replace these, also for 16.16 numbers.
        note(
            &mut kept,
            &[states(0xA14, 1), 8, states(0xA00, 2) | FIXP, 1, 2, 0],
        );
        assert_eq!(
            kept.words(Pipe::Pipe3d, &CACHES).unwrap().0[..],
            [
                states(0xA00, 2) | FIXP,
                1,
                2,
                0,
                states(0xA14, 1),
                8,
                states(0x1604, 2),
                6,
                7,
                0
            ]
        );
    }

    #[test]
    fn nothing_is_done_again() {
        // Flushes, semaphores, kicks, pipe switches, and draws.
        let kept = kept(&[
            states(0x380C, 1),
            3,
            states(0x3808, 1),
            0x701,
            states(0x1650, 1),
            1,
            states(0x1600, 1),
            1,
            states(0x3800, 1),
            1,
            states(0x1294, 1),
            1,
            0x2000_0100,
            0,
            0,
            0x10_0010,
            states(0x3824, 1),
            4,
        ]);
        assert!(kept.words(Pipe::Pipe3d, &CACHES).unwrap().0.is_empty());
    }

    #[test]
    fn only_elements_in_use_come_back() {
        let mut kept = kept(&[states(0x600, 3), 1, 2, 3]);
        note(&mut kept, &[states(0x600, 1), 4]);
        let words = kept.words(Pipe::Pipe3d, &CACHES).unwrap().0;
        assert_eq!(words[..], [states(0x600, 1), 4]);
    }

    #[test]
    fn tile_status_is_not_switched_off() {
        let kept = kept(&[states(0x1654, 1), 0x2032]);
        let words = kept.words(Pipe::Pipe3d, &CACHES).unwrap().0;
        assert_eq!(words[..], [states(0x1654, 1), 2]);
    }

    #[test]
    fn each_pipe_has_its_own() {
        // DE.SRC_ADDRESS and DE.SRC_STRIDE, and a color: that one is data of the pipe.
        let kept = kept(&[states(0x1200, 2), 1, 2, 0, states(0x1218, 1), 3]);
        let (words, entry) = kept.words(Pipe::Pipe2d, &CACHES).unwrap();
        assert_eq!(
            (&words[..], entry),
            (&[states(0x1200, 2), 1, 2, 0][..], Pipe::Pipe2d)
        );
        let (words, entry) = kept.words(Pipe::Pipe3d, &CACHES).unwrap();
        assert_eq!(entry, Pipe::Pipe2d);
        assert_eq!(words[4..], words::select_pipe(&CACHES, Pipe::Pipe3d));
    }

    #[test]
    fn addresses_are_forgotten_when_the_gpu_forgets_them() {
        let mut kept = kept(&[states(0x1604, 4), 1, 2, 3, 4, 0]);
        kept.forget(&[state::word(0x1610)]);
        let words = |kept: &Kept| kept.words(Pipe::Pipe3d, &CACHES).unwrap().0;
        assert_eq!(words(&kept)[..], [states(0x1604, 3), 1, 2, 3]);
        kept.follow(0);
        assert_eq!(words(&kept)[..], [states(0x1604, 3), 1, 2, 3]);
        kept.follow(1);
        let left = [states(0x1604, 1), 1, states(0x160C, 1), 3];
        assert_eq!(words(&kept)[..], left);
    }
}
