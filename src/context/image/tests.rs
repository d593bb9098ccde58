// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_context)]
mod cases {
    use super::super::*;
    use crate::hw::Identity;

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
}
