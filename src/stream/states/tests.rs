// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_states)]
mod cases {
    use super::super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Class {
        Free,
        Address,
        Control,
        Refused,
    }

    fn class(states: &States, byte: u32) -> Class {
        let sets = states.sets().unwrap();
        let address = state::word(byte);
        if !sets.is_special(address) {
            Class::Free
        } else if sets.takes_address(address) {
            Class::Address
        } else if CONTROL.contains(&address) {
            Class::Control
        } else {
            Class::Refused
        }
    }

    #[test]
    fn a_core_has_its_own_states() {
        let cores = [
            cores::dove(),
            cores::imx6qp(),
            cores::gc320(),
            cores::imx8mp(),
        ];
        use Class::{Address, Control, Free, Refused};
        for (byte, wanted) in [
            (0x0000, [Control, Control, Control, Control]),
            (0x0008, [Refused, Refused, Refused, Refused]),
            (0x0600, [Free, Free, Refused, Free]),
            (0x0640, [Refused, Refused, Refused, Refused]),
            (0x0644, [Address, Address, Refused, Address]),
            (0x0654, [Refused, Refused, Refused, Refused]),
            (0x07F8, [Refused, Refused, Refused, Free]),
            (0x086C, [Refused, Address, Refused, Address]),
            (0x0884, [Free, Free, Refused, Free]),
            (0x3860, [Free, Free, Refused, Free]),
            (0x0920, [Control, Control, Control, Control]),
            (0x1114, [Refused, Refused, Refused, Refused]),
            (0x1228, [Address, Refused, Address, Refused]),
            (0x1294, [Control, Control, Control, Control]),
            (0x12D8, [Free, Refused, Free, Refused]),
            (0x132C, [Refused, Refused, Refused, Refused]),
            (0x1658, [Address, Address, Refused, Address]),
            (0x17C0, [Refused, Address, Refused, Address]),
            (0x1A80, [Refused, Refused, Refused, Address]),
            (0x1C00, [Free, Refused, Free, Refused]),
            (0x3800, [Control, Control, Control, Control]),
            (0x3804, [Refused, Refused, Refused, Refused]),
            (0x380C, [Free, Free, Free, Free]),
            (0x3810, [Refused, Refused, Refused, Refused]),
            (0x3824, [Address, Address, Refused, Address]),
            (0x3868, [Refused, Refused, Refused, Address]),
            (0x4000, [Free, Free, Refused, Free]),
            (0xFFFC, [Free, Free, Refused, Free]),
            (0x10800, [Refused, Address, Refused, Refused]),
            (0x12000, [Refused, Refused, Refused, Refused]),
            (0x12800, [Refused, Refused, Refused, Refused]),
            (0x12EE0, [Refused, Refused, Refused, Refused]),
            (0x14000, [Refused, Refused, Refused, Refused]),
            (0x14600, [Refused, Address, Refused, Address]),
            (0x14A08, [Refused, Refused, Refused, Refused]),
            (0x1C008, [Refused, Refused, Refused, Refused]),
            (0x07DC, [Refused, Refused, Refused, Refused]),
            (0x3904, [Refused, Refused, Refused, Refused]),
            (0x15BFC, [Refused, Refused, Refused, Free]),
            (0x15DFC, [Refused, Refused, Refused, Address]),
            (0x17800, [Refused, Refused, Refused, Free]),
            (0x36000, [Refused, Refused, Refused, Free]),
            (0x3FFFC, [Free, Free, Free, Free]),
        ] {
            for (states, wanted) in cores.iter().zip(wanted) {
                assert_eq!(class(states, byte), wanted);
            }
        }
    }

    #[test]
    fn halti5_resolves_to_the_addresses_of_pipes() {
        for (core, wanted) in [
            (cores::dove(), state::RS_DEST_ADDR),
            (cores::two_pixel_pipes(), state::RS_PIPE_DEST_ADDR),
            (cores::imx8mp(), state::RS_PIPE_DEST_ADDR),
        ] {
            assert_eq!(core.resolve_target(), wanted);
        }
    }

    #[test]
    fn no_address_is_let_through_unseen() {
        for states in [
            cores::both(),
            cores::dove(),
            cores::imx6qp(),
            cores::gc320(),
            cores::imx8mp(),
        ] {
            let sets = states.sets().unwrap();
            for address in 0..0x1_0000 {
                // The checker looks at the kernel's states and at addresses on every core.
                if is_kernel_state(address) || takes_address(address) {
                    assert!(sets.is_special(address));
                }
                if sets.takes_address(address) {
                    assert!(takes_address(address) && !is_kernel_state(address));
                    assert!(states.pipes().has(pipe_of(address)));
                }
            }
            let listed = states.addresses();
            let counted = (0..0x1_0000u32).filter(|&address| sets.takes_address(address));
            assert!(listed.eq(counted));
        }
    }

    #[test]
    fn loads_of_many_are_as_each() {
        let states = cores::dove();
        let sets = states.sets().unwrap();
        let mut random = 1u32;
        for _ in 0..2000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let count = 1 + ((random >> 3) & 0x7F);
            let first = (random >> 12) % (0x1_0000 - count);
            let any = (first..first + count).any(|address| sets.is_watched(address));
            assert_eq!(sets.any_watched(first, count), any);
        }
    }
}
