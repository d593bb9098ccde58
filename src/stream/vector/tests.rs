// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_vector_stream)]
mod cases {
    use super::super::{
        surfaces::{
            IMAGE_0,
            IMAGE_1,
            STRIDE_MASK,
            TILED, //
        },
        *, //
    };

    const OWN: u32 = 0x1000_0000;
    const OWN_BYTES: u32 = 64 << 10;
    const SCRATCH: u32 = 0x2000_0000;

    fn bytes_from(address: u32) -> Option<u64> {
        match address {
            SCRATCH => Some(4096),
            OWN..=u32::MAX if address - OWN < OWN_BYTES => {
                Some(u64::from(OWN + OWN_BYTES - address))
            }
            _ => None,
        }
    }

    fn access(forgives: bool) -> Access<'static> {
        Access {
            scratch: SCRATCH,
            bytes_from: Some(&bytes_from),
            forgives,
        }
    }

    fn run_from(values: Values, words: &mut [u32]) -> Result<Values, Fault> {
        check(words, values, &access(false)).map_err(|refusal| refusal.fault)
    }

    fn run(words: &mut [u32]) -> Result<Values, Fault> {
        run_from(nothing(SCRATCH), words)
    }

    /// The smallest draw, without its END.
    fn drawing() -> [u32; 26] {
        [
            0x3001_0A10,
            0x203,
            0x3001_0A11,
            OWN,
            0x3001_0A12,
            256,
            0x3001_0A13,
            0x0040_0040,
            0x3001_0A34,
            0,
            0x3001_0A02,
            0xFF00_00FF,
            0x3001_0A00,
            0x1000_0001,
            0x4000_0001,
            0,
            0,
            0x0010_0010,
            0x3001_0A1B,
            0x11,
            0x1000_0007,
            0,
            0x2000_0007,
            0,
            0x8000_0000,
            0,
        ]
    }

    /// The core's values after the smallest draw and these states.
    fn drawn(states: &[(u32, u32)]) -> Values {
        let mut values = run(&mut drawing()).unwrap();
        for &(address, value) in states {
            values[place(address).unwrap()] = value;
        }
        values
    }

    /// Draws a rectangle with these additional states.
    fn rectangle(states: &[(u32, u32)]) -> Result<(), Fault> {
        run_from(drawn(states), &mut [0x4000_0001, 0, 0, 0x0001_0001]).map(|_| ())
    }

    #[test]
    fn a_drawing_is_let_through() {
        let mut words = drawing();
        let values = run(&mut words).unwrap();
        assert_eq!(words, drawing());
        assert_eq!(values[TARGET], OWN);
        assert_eq!(
            values[1..ADDRESS_STATES],
            nothing(SCRATCH)[1..ADDRESS_STATES]
        );
        assert!(run(&mut []).is_ok());
        // Addresses are not checked.
        let none = Access {
            bytes_from: None,
            ..access(false)
        };
        let mut words = [0x3001_0A11, 7, 0x4000_0001, 0, 0, 0];
        assert_eq!(check(&mut words, [0; 32], &none).unwrap()[TARGET], 7);
    }

    #[test]
    fn states_are_where_they_are_looked_for() {
        for (which, address) in TRACKED.into_iter().enumerate() {
            assert_eq!(place(address), Some(which));
        }
        for address in [0, 0x9FF, 0xA01, 0xA14, 0xA5E, 0xA5F, 0xA60, 0xE01, u32::MAX] {
            assert_eq!(place(address), None);
        }
        let of = |place: usize| TRACKED[place];
        assert_eq!(of(tracked::TARGET), 0xA11);
        assert_eq!(of(tracked::CONTROL), 0xA00);
        assert_eq!(of(tracked::TARGET_FORMAT), 0xA10);
        assert_eq!(of(tracked::TARGET_STRIDE), 0xA12);
        assert_eq!(of(tracked::TARGET_SIZE), 0xA13);
        assert_eq!(tracked::TARGET_PLANES.map(of), [0xA5C, 0xA5D]);
        assert_eq!(tracked::READ.map(of), [0xA30, 0xA31, 0xA32]);
        assert_eq!(tracked::WRITE.map(of), [0xA35, 0xA36, 0xA37]);
        let others = [
            tracked::READ_STRIDE,
            tracked::TESSELLATOR,
            tracked::WRITE_STRIDE,
            tracked::WINDOW,
            tracked::LEVEL_2,
        ];
        assert_eq!(others.map(of), [0xA33, 0xA34, 0xA38, 0xA3A, 0xA3D]);
        for ((surface, format), wanted) in [
            (IMAGE_1, [0xA28, 0xA2A, 0xA2C, 0xA2E, 0xA24, 0xA50, 0xA52]),
            (IMAGE_0, [0xA29, 0xA2B, 0xA2D, 0xA2F, 0xA25, 0xA51, 0xA53]),
        ] {
            let origin = surface.origin.unwrap();
            let [first, second] = surface.planes;
            let (address, stride, size) = (surface.address, surface.stride, surface.size);
            let all = [address, stride, origin, size, format, first, second];
            assert_eq!(all.map(of), wanted);
        }
    }

    #[test]
    fn what_the_kernel_says_is_let_through_but_for_events_and_ends() {
        let mut words = drain();
        assert!(run(&mut words).is_ok());
        let mut event = event(Module::Pixel, 3);
        assert_eq!(event, [0x3001_0E01, 0x0703]);
        assert_eq!(run(&mut event), Err(Fault::State(0xE01)));
        assert_eq!(run(&mut end(13)), Err(Fault::Opcode));
    }

    #[test]
    fn the_other_opcodes_are_refused() {
        for opcode in [0u32, 5, 6, 7, 9, 0xA, 0xB, 0xC, 0xD, 0xE, 0xF] {
            for low in [0, 1, 0x10_0000, 0x0FFF_FFFF] {
                let mut words = [opcode << 28 | low, OWN];
                assert_eq!(run(&mut words), Err(Fault::Opcode));
            }
        }
        // Another pipe; unused bits.
        assert_eq!(run(&mut [0x3001_1A00, 0]), Err(Fault::Opcode));
        assert_eq!(run(&mut [0x4020_0001, 0, 0, 0]), Err(Fault::Opcode));
    }

    #[test]
    fn addresses_are_the_processes() {
        for (which, &address) in TRACKED[..ADDRESS_STATES].iter().enumerate() {
            let mut words = state(address, 0);
            assert_eq!(run(&mut words).unwrap()[which], SCRATCH);
            assert_eq!(words[1], SCRATCH);
            let gone = OWN + OWN_BYTES;
            let mut words = state(address, gone);
            assert_eq!(run(&mut words), Err(Fault::Address(address)));
            // A context may still name it.
            let values = check(&mut words, nothing(SCRATCH), &access(true)).unwrap();
            assert_eq!((values[which], words[1]), (SCRATCH, SCRATCH));
        }
        // In the middle of a range; the last value counts, and the padding is a NOP.
        let mut words = [0x3004_0A10, 1, OWN, 2, 3, 0x1234_5678, 0x3001_0A11, 0];
        assert_eq!(run(&mut words).unwrap()[TARGET], SCRATCH);
        assert_eq!(words[5], PAD);
        let mut words = [0x3003_0A10, 1, OWN - 4, 2];
        assert_eq!(run(&mut words), Err(Fault::Address(0xA11)));
    }

    #[test]
    fn nothing_is_drawn_without_a_target() {
        let unit = [0x4000_0001, 0, 0, 0x0001_0001];
        assert_eq!(
            run_from(drawn(&[(0xA11, SCRATCH)]), &mut unit.clone()),
            Err(Fault::NoTarget)
        );
        assert_eq!(rectangle(&[(0xA13, 0x40)]), Err(Fault::NoTarget));
        assert_eq!(rectangle(&[(0xA13, 0x40_0000)]), Err(Fault::NoTarget));
        assert!(rectangle(&[]).is_ok());
        // States that are loaded after the draw are too late.
        let mut words = drawing();
        words.rotate_left(14);
        assert_eq!(run(&mut words), Err(Fault::Primitive));
        // Unknown primitives are refused.
        for control in [0, 2, 3, 4, 5, 0x1000_0000] {
            assert_eq!(rectangle(&[(0xA00, control)]), Err(Fault::Primitive));
        }
        assert_eq!(rectangle(&[(0xA34, 0x0100_0200)]), Err(Fault::Primitive));
    }

    #[test]
    fn targets_lie_in_the_processes_memory() {
        // Exactly 64 KiB, and one row more.
        let size = |width: u32, height: u32| (0xA13, height << 16 | width);
        assert!(rectangle(&[size(64, 256)]).is_ok());
        assert_eq!(rectangle(&[size(64, 257)]), Err(Fault::Extent(0xA11)));
        let at = |address| (0xA11, address);
        assert!(rectangle(&[at(OWN + 256), size(64, 255)]).is_ok());
        assert_eq!(
            rectangle(&[at(OWN + 256), size(64, 256)]),
            Err(Fault::Extent(0xA11))
        );
        // A part of a surface: its last row ends before the stride does.
        assert!(rectangle(&[at(OWN + 128), size(32, 256)]).is_ok());
        assert_eq!(
            rectangle(&[at(OWN + 132), size(32, 256)]),
            Err(Fault::Extent(0xA11))
        );
        // A tiled surface has whole tiles of four rows.
        let stride = |stride: u32| (0xA12, stride);
        let tiled = stride(TILED | 256);
        assert!(rectangle(&[tiled, size(64, 253)]).is_ok());
        assert_eq!(
            rectangle(&[tiled, at(OWN + 64), size(64, 253)]),
            Err(Fault::Extent(0xA11))
        );
        for bad in [252, 0, 258, 1 << 29 | 256, 1 << 31] {
            let refused = rectangle(&[stride(bad), size(64, 4)]);
            assert_eq!(refused, Err(Fault::Stride(0xA11)));
        }
        assert_eq!(
            rectangle(&[stride(STRIDE_MASK & !3), size(64, 0xFFFF)]),
            Err(Fault::Extent(0xA11))
        );
        assert_eq!(rectangle(&[at(OWN + 2)]), Err(Fault::Stride(0xA11)));
        // Of 565, and of planes.
        assert!(rectangle(&[(0xA10, 1), at(OWN + 2), size(64, 255)]).is_ok());
        let planes = (0xA10, 0xE);
        assert_eq!(rectangle(&[planes]), Err(Fault::Extent(0xA5C)));
        assert!(rectangle(&[planes, (0xA5C, OWN), (0xA5D, OWN), size(64, 64)]).is_ok());
    }

    #[test]
    fn images_lie_there_too_if_they_are_used() {
        for (mode, address, stride, origin, size, format) in [
            (0x1000, 0xA29, 0xA2B, 0xA2D, 0xA2F, 0xA25),
            (0x0100_0000, 0xA28, 0xA2A, 0xA2C, 0xA2E, 0xA24),
        ] {
            let used = (0xA00, 1 | mode);
            let image = [(address, OWN), (stride, 1024), (format, 7)];
            let with = |more: &[(u32, u32)]| {
                let mut all = KVec::new();
                all.extend_from_slice(&image, GFP_KERNEL).unwrap();
                all.extend_from_slice(more, GFP_KERNEL).unwrap();
                rectangle(&all)
            };
            assert!(with(&[used, (size, 64 << 16 | 256)]).is_ok());
            let over = [used, (size, 65 << 16 | 256)];
            assert_eq!(with(&over), Err(Fault::Extent(address)));
            assert!(with(&[over[1]]).is_ok());
            let moved = [used, (size, 64 << 16 | 16), (origin, 1 << 16)];
            assert_eq!(with(&moved), Err(Fault::Extent(address)));
            assert!(with(&[used, (size, 63 << 16 | 16), (origin, 1 << 16)]).is_ok());
            // Scratch memory is small.
            let placeholder = (address, SCRATCH);
            assert!(with(&[used, placeholder, (size, 4 << 16 | 256)]).is_ok());
            let over = [used, placeholder, (size, 5 << 16 | 256)];
            assert_eq!(with(&over), Err(Fault::Extent(address)));
        }
        // Two semaphores at once.
        let both = [
            (0xA00, 0x5001),
            (0xA29, OWN),
            (0xA28, OWN + 4),
            (0xA2A, 0xFFFC),
        ];
        assert!(rectangle(&both).is_ok());
        let mut over = KVec::new();
        over.extend_from_slice(&both, GFP_KERNEL).unwrap();
        over.push((0xA2E, 3 << 16 | 1), GFP_KERNEL).unwrap();
        assert_eq!(rectangle(&over), Err(Fault::Extent(0xA28)));
    }

    #[test]
    fn paths_have_their_buffers() {
        // 128 x 16: 16 KiB, 64 bytes and 64 bytes.
        let path = [
            (0xA00, 2),
            (0xA34, 0x0100_0200),
            (0xA30, OWN),
            (0xA31, OWN + 0x4000),
            (0xA32, OWN + 0x4040),
            (0xA33, 1024),
            (0xA35, OWN),
            (0xA36, OWN + 0x4000),
            (0xA37, OWN + 0x4040),
            (0xA38, 1024),
            (0xA3A, 16 << 16 | 128),
            (0xA3D, 1),
        ];
        let draw = |more: &[(u32, u32)]| {
            let mut all = KVec::new();
            all.extend_from_slice(&path, GFP_KERNEL).unwrap();
            all.extend_from_slice(more, GFP_KERNEL).unwrap();
            rectangle(&all)
        };
        assert!(draw(&[]).is_ok());
        let end = OWN + OWN_BYTES;
        for address in [0xA30, 0xA35] {
            assert!(draw(&[(address, end - 0x4000)]).is_ok());
            let refused = draw(&[(address, end - 0x4000 + 64)]);
            assert_eq!(refused, Err(Fault::Extent(address)));
            assert!(draw(&[(address + 1, end - 64)]).is_ok());
            let refused = draw(&[(address + 1, end - 32)]);
            assert_eq!(refused, Err(Fault::Extent(address + 1)));
            assert_eq!(
                draw(&[(address + 2, end - 32)]),
                Err(Fault::Extent(address + 2))
            );
            let wide = draw(&[(address + 3, 0x1_0000)]);
            assert_eq!(wide, Err(Fault::Extent(address)));
        }
        assert_eq!(draw(&[(0xA3A, u32::MAX)]), Err(Fault::Extent(0xA30)));
        assert_eq!(draw(&[(0xA3D, u32::MAX)]), Err(Fault::Extent(0xA32)));
        assert_eq!(draw(&[(0xA00, 1)]), Err(Fault::Primitive));
    }

    #[test]
    fn rectangles_end_with_the_target() {
        let mut words = [0x4000_0002, 0, 0x003F_0010, 0x0002_0010, 0, 0xFFFF_FFFF];
        assert!(run_from(drawn(&[]), &mut words).is_ok());
        assert_eq!(words[2..], [0x003F_0010, 0x0001_0010, 0, 0x0040_0040]);
        for outside in [0x40, 0x40_0000, u32::MAX] {
            let mut words = [0x4000_0001, 0, outside, 0x0001_0001];
            let refused = run_from(drawn(&[]), &mut words);
            assert_eq!(refused, Err(Fault::Rectangle));
        }
    }

    #[test]
    fn unknown_states_are_refused() {
        for address in [
            0, 0x9FF, 0xA0A, 0xA14, 0xA23, 0xA54, 0xA78, 0xA79, 0xA98, 0xE04, 0xFFF,
        ] {
            assert_eq!(run(&mut state(address, 1)), Err(Fault::State(address)));
        }
        // Unless it is their reset value.
        for address in [0xA0A, 0xA14, 0xA23, 0xA54, 0xA78] {
            assert!(run(&mut state(address, 0)).is_ok());
        }
        for address in [0, 0x9FF, 0xA79, 0xA98, 0xE01, 0xE04, 0xFFF] {
            assert!(run(&mut state(address, 0)).is_err());
        }
        // Past the end of the states.
        let mut words = KVec::from_elem(0x3FFF_0A00, 4096, GFP_KERNEL).unwrap();
        assert_eq!(run(&mut words), Err(Fault::State(0xA0A)));
        let mut words = [0x3002_0FFF, 0, 0, 0];
        assert_eq!(run(&mut words), Err(Fault::State(0xFFF)));
    }

    #[test]
    fn lengths_are_kept() {
        for words in [
            &mut [0x3000_0A00, 0][..],
            &mut [0x3002_0A00, 0][..],
            &mut [0x3002_0A00, 0, 0][..],
            &mut [0x4000_0000, 0][..],
            &mut [0x4000_0001, 0][..],
            &mut [0x401F_FFFF, 0][..],
            &mut [0x8000_0000][..],
        ] {
            assert_eq!(run(words), Err(Fault::Length));
        }
    }

    #[test]
    fn semaphores_come_in_pairs() {
        assert_eq!(run(&mut [0x2000_0007, 0]), Err(Fault::Semaphore));
        assert_eq!(run(&mut [0x1000_0007, 0]), Err(Fault::Semaphore));
        let twice = &mut [0x1000_0007, 0, 0x1000_0007, 0];
        assert_eq!(run(twice), Err(Fault::Semaphore));
        let other = &mut [0x1000_0007, 0, 0x2000_000F, 0];
        assert_eq!(run(other), Err(Fault::Semaphore));
        assert_eq!(run(&mut [0x1000_0001, 0]), Err(Fault::Module));
        assert_eq!(run(&mut [0x1000_0107, 0]), Err(Fault::Module));
        let tokens = &mut [0x3001_0E02, 0x710, 0x3001_0F00, 0x710];
        assert!(run(tokens).is_ok());
        assert_eq!(run(&mut [0x3001_0F00, 0x710]), Err(Fault::Semaphore));
        assert_eq!(run(&mut [0x3001_0E02, 0x710]), Err(Fault::Semaphore));
        assert_eq!(run(&mut [0x3001_0E02, 0x701]), Err(Fault::Module));
    }

    #[test]
    fn calls_are_found() {
        let words = [0x3001_0A00, 1, 0x6000_0003, OWN, 0x8000_0000, 0];
        let call = Call {
            at: 2,
            address: OWN,
            words: 6,
        };
        assert_eq!(next_call(&words, 0), Ok(Some(call)));
        assert_eq!(next_call(&words, call.at + CALL_WORDS), Ok(None));
        // Not in data.
        let data = [0x4000_0001, 0, 0x6000_0003, OWN];
        assert_eq!(next_call(&data, 0), Ok(None));
        assert!(next_call(&[0x5000_0001, 0], 0).is_err());
        assert_eq!(called(&[0x4000_0001, 0, 0, 0, 0x7000_0000, 0, 0]), Ok(4));
        let fault = called(&[0x4000_0001, 0, 0x7000_0000, 0]).map_err(|refusal| refusal.fault);
        assert_eq!(fault, Err(Fault::NoReturn));
        assert!(called(&[]).is_err());
    }

    #[test]
    fn states_that_count_have_names() {
        for (which, state) in TRACKED.into_iter().enumerate() {
            let name = table::vector_name(state).unwrap();
            let is_address = name.ends_with("address") || name.starts_with("tessellation ");
            assert_ne!(name, "vector graphics");
            assert!(is_address || which >= ADDRESS_STATES);
        }
        assert_eq!(table::vector_name(0xA46), Some("vector graphics"));
        assert_eq!(table::vector_name(0xB00), None);
    }
}
