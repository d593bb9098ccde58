// SPDX-License-Identifier: GPL-2.0-only

//! KUnit tests of decoding and encoding.

#[kernel::macros::kunit_tests(galcore_abi)]
mod cases {
    use super::super::*;

    #[test]
    fn the_profiler_interface_has_its_own_size() {
        let name = |bytes| Format::with_profiler_interface(bytes).map(Format::name);
        assert_eq!(name(400), Some("6.4.11"));
        assert_eq!(name(392), Some("6.4.3-nxp"));
        assert_eq!(name(384), Some("6.4.21.1"));
        assert_eq!(name(376), Some("6.4.11"));
        let takes = |name, bytes| format(name).profiler_bytes((bytes, bytes));
        assert_eq!(takes("6.4.21.1", 384), Some(384));
        assert_eq!(takes("6.4.21.1", 392), Some(392));
        assert_eq!(takes("6.4.11", 392), None);
        assert_eq!(takes("6.2.4.p3", 0), None);
        assert_eq!(format("6.4.11").profiler_bytes((400, 392)), None);
        // The union of the separate interface has another offset.
        let format = format("6.4.13");
        let mut words = [0; 400 / 4];
        put_word(&mut words, 0, 22);
        put_word(&mut words, 40, 1);
        let request = format.decode_profiler_interface(&words);
        assert!(matches!(
            request,
            Request::SetProfileSetting { enable: true, .. }
        ));
    }

    #[test]
    fn chip_info_has_narrow_fields() {
        let words_of = |name, union_at| {
            let mut words = [u32::MAX; 424 / 4];
            put_word(&mut words, 0, 0);
            let mut cores = [None; MAX_CORES];
            cores[0] = Some(HardwareType::ThreeD);
            cores[1] = Some(HardwareType::TwoD);
            format(name).encode(&mut words, &Reply::ChipInfo(cores));
            core::array::from_fn(|at| word(&words, union_at + 4 * at))
        };
        assert_eq!(words_of("6.4.9", 32), [2, 2, 3, 0]);
        // A count of 16 bits, then types of 8 bits.
        assert_eq!(words_of("6.4.13", 48), [0x0302_0002, 0, 0, 0]);
    }

    #[test]
    fn generations_of_one_size_share_the_status_offset() {
        // A restarted call must find its number even if the guess has changed meanwhile.
        let weighed = || LAYOUTS.iter().take(super::super::super::detect::WEIGHED);
        for one in weighed() {
            for other in weighed() {
                let is_like = one.sizes.iter().any(|&size| other.has_size(size.into()));
                if is_like && one.argument_bytes == other.argument_bytes {
                    assert_eq!(one.header.status, other.header.status);
                }
            }
        }
    }

    fn format(name: &str) -> Format {
        Format(LAYOUTS.iter().find(|layout| layout.name == name).unwrap())
    }

    fn put_word(words: &mut [u32], at: usize, value: u32) {
        words[at / 4] = value;
    }

    fn word(words: &[u32], at: usize) -> u32 {
        words[at / 4]
    }

    fn interface(command: u32) -> [u32; 168 / 4] {
        let mut words = [0; 168 / 4];
        put_word(&mut words, 0, command);
        words
    }

    #[test]
    fn fields_have_the_offsets_of_the_c_header() {
        let format = format("4.0.0");
        let mut words = interface(19);
        put_word(&mut words, 32, 1);
        put_word(&mut words, 40, 2);
        put_word(&mut words, 44, 1);
        put_word(&mut words, 48, 3);
        put_word(&mut words, 56, 4);
        assert_eq!(
            format.decode(&words),
            Request::Commit(Commit {
                context: 1,
                context_buffer: 0,
                commands: Commands::Described(sys::user::narrow(0x1_0000_0002)),
                delta: 3,
                queue: 4,
                core: None,
                next: 0,
                format,
            })
        );
    }

    #[test]
    fn all_command_numbers_decode_to_a_request() {
        for layout in &LAYOUTS {
            let format = Format(layout);
            let mut words = [0; 424 / 4];
            for number in 0..200 {
                put_word(&mut words, 0, number);
                let request = format.decode(&words);
                if number >= layout.commands.len() as u32 {
                    let wanted = if number == layout.quirks.gpu_stuck {
                        Request::GpuStuck
                    } else {
                        Request::Refused(Error::InvalidArgument)
                    };
                    assert_eq!(request, wanted);
                }
            }
            put_word(&mut words, 0, u32::MAX);
            assert_eq!(
                format.decode(&words),
                Request::Refused(Error::InvalidArgument)
            );
        }
        let format = format("4.0.0");
        assert_eq!(
            format.decode(&interface(17)),
            Request::Refused(Error::InvalidArgument)
        );
        assert_eq!(
            format.decode(&interface(6)),
            Request::Refused(Error::NotSupported)
        );
        assert_eq!(format.decode(&interface(55)), Request::QueryResets);
    }

    #[test]
    fn a_handle_above_32_bits_is_invalid() {
        let mut words = interface(13);
        put_word(&mut words, 32, 1);
        put_word(&mut words, 36, 1);
        assert_eq!(
            format("4.0.0").decode(&words),
            Request::Lock {
                node: u32::MAX,
                cacheable: false,
                again: false,
                parts: Parts {
                    lock: true,
                    view: true,
                },
            }
        );
    }

    #[test]
    fn parts_of_a_lock_are_separate() {
        let format = format("6.4.11");
        for (op, lock, view) in [
            (0, false, false),
            (1, true, false),
            (2, false, true),
            (3, true, true),
            (12, false, false),
        ] {
            let mut words = [0xAAAA_AAAA; 384 / 4];
            put_word(&mut words, 0, 9);
            put_word(&mut words, 80, op);
            let Request::Lock { parts, .. } = format.decode(&words) else {
                panic!("no LOCK");
            };
            assert_eq!(parts, Parts { lock, view });
            let address = lock.then_some(0x1000);
            let user = view.then_some(0x2000);
            let physical = 0x4000_1000;
            let locked = Reply::Locked {
                address,
                physical,
                user,
            };
            format.encode(&mut words, &locked);
            let found = (word(&words, 48), word(&words, 56));
            let memory = [[0xAAAA_AAAA, 0x2000], [0, 0x2000]][usize::from(lock)];
            let address = [0xAAAA_AAAA, 0x1000][usize::from(lock)];
            assert_eq!(found, (address, memory[usize::from(view)]));
            let wanted = [[0xAAAA_AAAA; 2], [physical, 0]][usize::from(lock)];
            assert_eq!([word(&words, 72), word(&words, 76)], wanted);
        }
        let mut words = [0; 384 / 4];
        put_word(&mut words, 0, 10);
        put_word(&mut words, 68, 12);
        let both = Parts {
            lock: true,
            view: true,
        };
        let unlock = Request::Unlock {
            node: 0,
            parts: both,
            by_event: true,
        };
        assert_eq!(format.decode(&words), unlock);
    }

    #[test]
    fn a_reply_keeps_other_fields() {
        let format = format("4.0.0");
        let mut words = [0xAAAA_AAAA; 168 / 4];
        put_word(&mut words, 0, 16);
        format.encode(&mut words, &Reply::Signal { id: 5 });
        format.fail(&mut words, Error::NotFound);
        assert_eq!(word(&words, 36), 5);
        assert_eq!(word(&words, 8), 0xFFFF_FFED);
        assert_eq!(word(&words, 32), 0xAAAA_AAAA);
        assert_eq!(word(&words, 40), 0xAAAA_AAAA);
    }

    #[test]
    fn contiguous_and_non_paged_buffers_have_different_fields() {
        let format = format("4.0.0");
        let reply = Reply::Buffer {
            bytes: 4096,
            address: 0x1000,
            handle: 7,
            user: 0x2000,
        };
        let mut words = interface(4);
        format.encode(&mut words, &reply);
        assert_eq!((word(&words, 40), word(&words, 44)), (0x1000, 7));
        let mut words = interface(2);
        format.encode(&mut words, &reply);
        assert_eq!((word(&words, 40), word(&words, 44)), (7, 0));
        assert_eq!(word(&words, 48), 0x2000);
    }

    #[test]
    fn unknown_signals_have_other_statuses_in_old_generations() {
        let status = |name, sub_command| {
            let format = format(name);
            let mut words = [0; 216 / 4];
            put_word(&mut words, 0, 16);
            let at = if name == "v2" { 16 } else { 32 };
            put_word(&mut words, at, sub_command);
            format.fail(&mut words, Error::NotFound);
            word(&words, if name == "v2" { 4 } else { 8 }) as i32
        };
        assert_eq!(
            (status("v2", 1), status("v2", 2), status("v2", 3)),
            (-1, -21, -1)
        );
        assert_eq!((status("4.0.0", 1), status("4.0.0", 2)), (-19, -19));
    }

    #[test]
    fn unknown_nodes_are_not_found_from_5_0_11_on() {
        let status = |name, command, at, error| {
            let format = format(name);
            let mut words = [0; 400 / 4];
            put_word(&mut words, 0, command);
            format.fail(&mut words, error);
            word(&words, at) as i32
        };
        for error in [Error::InvalidObject, Error::InvalidData] {
            assert_eq!(status("6.4.11", 9, 16, error), -19);
            assert_eq!(status("5.0.11.p8", 8, 8, error), -19);
        }
        assert_eq!(status("6.4.11", 9, 16, Error::MemoryUnlocked), -5);
        // COMMIT.
        assert_eq!(status("6.4.11", 18, 16, Error::InvalidData), -17);
        assert_eq!(status("4.0.0", 13, 8, Error::InvalidObject), -2);
    }

    #[test]
    fn surface_types_and_pools_are_converted() {
        let old = format("v2");
        assert_eq!((old.surface_type(7), old.surface_type(8)), (7, 9));
        assert_eq!((old.surface_type(10), old.surface_type(0x104)), (11, 0x104));
        assert_eq!(old.surface_type(11), u32::MAX);
        assert_eq!(format("4.0.0").surface_type(8), 8);
        assert_eq!((old.pool(9), old.pool(10)), (9, POOL_UNKNOWN));
        assert_eq!(format("4.0.0").pool(10), 10);
        assert_eq!(format("6.4.11").pool(9), POOL_UNKNOWN);
        let (before, newest) = (format("6.2.4.p2"), format("6.4.11"));
        assert_eq!((before.pool_number(9), newest.pool_number(9)), (9, 7));
        // If on-chip memory has a number, later numbers are one higher.
        let sram = format("6.4.6");
        assert_eq!(
            [6, 7, 8, 9, 10].map(|pool| sram.pool(pool)),
            [6, 0, 7, 8, 0]
        );
        assert_eq!(
            [6, 7, 8, 9].map(|pool| sram.pool_number(pool)),
            [6, 8, 9, 8]
        );
        // Instructions, fences and commands are in the first bank; hints are dropped.
        assert_eq!((before.surface_type(12), before.surface_type(16)), (0, 16));
        assert_eq!((newest.surface_type(14), newest.surface_type(16)), (0, 0));
        assert_eq!(
            (newest.surface_type(17), newest.surface_type(0x107)),
            (17, 7)
        );
        assert_eq!(format("5.0.11.p8").surface_type(12), 12);
    }

    #[test]
    fn allocation_flags_select_the_pool() {
        let format = format("6.4.11");
        let pool_at = |flag, pool, index: i32| {
            let mut words = [0; 384 / 4];
            put_word(&mut words, 0, 6);
            put_word(&mut words, 40, 4096);
            put_word(&mut words, 56, flag);
            put_word(&mut words, 60, pool);
            put_word(&mut words, 72, index as u32);
            match format.decode(&words) {
                Request::AllocateLinear { pool, .. } => Ok(pool),
                Request::Refused(error) => Err(error),
                other => panic!("{other:?}"),
            }
        };
        let pool = |flag, pool| pool_at(flag, pool, 0);
        for (flag, asked, wanted) in [
            (0, POOL_DEFAULT, POOL_DEFAULT),
            (1, POOL_DEFAULT, POOL_DEFAULT_FORCE_CONTIGUOUS),
            (2, POOL_DEFAULT, POOL_VIRTUAL),
            (0x10, POOL_DEFAULT, POOL_VIRTUAL),
            (0x11, POOL_UNIFIED, POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE),
            (1, POOL_VIRTUAL, POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE),
            (0x100, POOL_DEFAULT, POOL_SYSTEM),
            (0x100, POOL_VIRTUAL, POOL_VIRTUAL),
            (0, 9, POOL_UNKNOWN),
            // Pages of 1 MiB; contiguous and cacheable; pages on fault, for any pool.
            (0x1_0000, POOL_UNIFIED, POOL_VIRTUAL),
            (3, POOL_DEFAULT, POOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE),
            (0x100_0000, POOL_SYSTEM, POOL_VIRTUAL),
        ] {
            assert_eq!(pool(flag, asked), Ok(wanted));
        }
        // Flags that the pool does not support, then flags that no memory supports.
        for flag in [2, 0x10, 0x1_0000, 4, 0x40, 0x200, 0x400, 0x800] {
            assert_eq!(pool(flag, POOL_SYSTEM), Err(Error::OutOfMemory));
        }
        for flag in [4, 0x40, 0x400, 0x800, 0x404] {
            assert_eq!(pool(flag, POOL_DEFAULT), Err(Error::NotSupported));
            assert_eq!(pool(flag, POOL_VIRTUAL), Err(Error::NotSupported));
        }
        assert_eq!(pool(0x200, POOL_VIRTUAL), Err(Error::OutOfMemory));
        // Index 1: a second pool, which does not exist. -1: any pool.
        assert_eq!(pool_at(0, POOL_DEFAULT, 1), Ok(POOL_VIRTUAL));
        assert_eq!(pool_at(0, POOL_SYSTEM, 1), Err(Error::OutOfMemory));
        assert_eq!(pool_at(0, POOL_SYSTEM, -1), Ok(POOL_SYSTEM));
        // Only versions with a known vendor driver are strict.
        let is_strict = |name| self::format(name).0.quirks.strict_memory;
        for name in ["6.4.0.p1", "6.4.0.p2.4", "6.4.3-nxp", "6.4.11.p2.0"] {
            assert!(is_strict(name));
        }
        for name in ["6.3.3.4", "6.4.1", "6.4.9", "6.4.11.p4", "6.4.13"] {
            assert!(!is_strict(name));
        }
    }
}
