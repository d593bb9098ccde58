// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_params)]
mod cases {
    use super::super::{
        memory::DEFAULT_POOL,
        *, //
    };

    /// Boxed, because the stack of a 32-bit kernel has no room for several.
    #[inline(never)]
    fn raw() -> KBox<RawParameters> {
        let raw = RawParameters {
            irqLine: 36,
            registerMemBase: 0x1000_0000,
            registerMemSize: 0x4_0000,
            irqLine2D: -1,
            registerMemBase2D: 0,
            registerMemSize2D: 0x800,
            irqLineVG: -1,
            registerMemBaseVG: 0,
            registerMemSizeVG: 0x800,
            irqs: [-1; 16],
            registerBases: [0; 16],
            registerSizes: [0x800; 16],
            irq2Ds: [-1; 4],
            register2DBases: [0; 4],
            register2DSizes: [0x800; 4],
            contiguousBase: 0x5800_0000,
            contiguousSize: 0x800_0000,
            bankSize: 0,
            baseAddress: 0,
            fastClear: -1,
            compression: -1,
            major: 199,
            signal: 48,
            useLinuxSignal: 0,
            sharedPool: 0,
            streamCheck: 4,
            gpuTimeout: 5000,
            jobTimeout: 10_000,
            recovery: 1,
            powerManagement: 1,
            autosuspend: 200,
            coreClock: 0,
            coreClock2D: 0,
            coreClockVG: 0,
            gpu_frequency: 0,
            initgpu3DMinClock: 1,
            stuckDump: 2,
            gpuProfiler: 1,
            allowedRanges: [0; 192],
            sharedNodes: 0,
            sharedSignals: 0,
            showArgs: 0,
            interface: [0; 256],
            identity: [0; 256],
            version: [0; 256],
            cores: [0; 16],
            drm: [0; 16],
        };
        KBox::new(raw, GFP_KERNEL).unwrap()
    }

    fn refused(change: impl FnOnce(&mut RawParameters)) -> Option<&'static str> {
        let mut raw = raw();
        change(&mut raw);
        Parameters::check(&raw).err().map(|Refusal(name, _)| name)
    }

    /// Each value is refused, and the refusal names its parameter.
    macro_rules! refuses {
        ($($name:ident $([$at:expr])? = $value:expr;)*) => {
            $(assert_eq!(refused(|raw| raw.$name $([$at])? = $value), Some(stringify!($name)));)*
        };
    }

    #[test]
    fn a_board_is_accepted() {
        assert!(refused(|_| ()).is_none());
        assert!(refused(|raw| raw.irqLine = -1).is_none());
        assert!(refused(|raw| raw.contiguousSize = 0).is_none());
        assert!(refused(|raw| raw.contiguousBase = 0).is_none());
    }

    #[test]
    fn each_kind_of_core_has_a_rate() {
        let clock = |hertz, megahertz| {
            let mut raw = raw();
            (raw.coreClock, raw.gpu_frequency) = (hertz, megahertz);
            Parameters::check(&raw).map_or(None, |parameters| parameters.core_clocks.three_d)
        };
        assert_eq!(clock(0, 0), None);
        assert_eq!(clock(528_000_000, 0), Some(528_000_000));
        assert_eq!(clock(0, 312), Some(312_000_000));
        assert_eq!(clock(0, 3999), Some(3_999_000_000));
        assert_eq!(clock(156_000_000, 0), Some(156_000_000));
        assert_eq!(clock(528_000_000, 312), Some(528_000_000));
        let mut all = raw();
        (all.coreClock2D, all.coreClockVG) = (396_000_000, 0);
        let rates = Parameters::check(&all).map(|parameters| parameters.core_clocks);
        let wanted = ClockRates {
            three_d: None,
            two_d: Some(396_000_000),
            vector: None,
        };
        assert!(rates.is_ok_and(|rates| rates == wanted));
        for megahertz in [4000, usize::MAX] {
            refuses! { gpu_frequency = megahertz; }
        }
        refuses! {
            initgpu3DMinClock = 0;
            initgpu3DMinClock = 65;
        }
    }

    #[test]
    fn nonsense_is_named() {
        refuses! {
            irqLine = 0;
            irqLine = -2;
            irqLine = 100_000;
            signal = 65;
            registerMemBase = 0;
            registerMemBase = 3;
            registerMemSize = 64;
            registerMemSize = usize::MAX & !3;
            contiguousBase = 5;
            contiguousSize = 5;
            contiguousSize = 0xF000_0000;
        }
        // Past the end of the address space of a 32-bit kernel.
        assert!(refused(|raw| raw.contiguousBase = 0xFFFF_F000).is_some());
        refuses! {
            bankSize = 1;
            major = 5000;
            fastClear = 2;
            streamCheck = 0;
            streamCheck = 5;
        }
        assert!(refused(|raw| raw.streamCheck = 3).is_none());
        refuses! {
            gpuTimeout = 199;
            gpuTimeout = u32::MAX;
        }
        assert!(refused(|raw| raw.gpuTimeout = 0).is_none());
        refuses! { jobTimeout = 199; }
        assert!(refused(|raw| raw.jobTimeout = 0).is_none());
        refuses! {
            recovery = 2;
            gpuProfiler = 3;
        }
        let timeout = |recovery| {
            let mut raw = raw();
            raw.recovery = recovery;
            Parameters::check(&raw).map_or(1, |parameters| parameters.gpu_timeout)
        };
        assert_eq!([timeout(0), timeout(1)], [0, 5000]);
        refuses! {
            powerManagement = 2;
            autosuspend = u32::MAX;
        }
        assert!(refused(|raw| raw.autosuspend = 0).is_none());
        refuses! {
            interface[0] = b'x';
            version[0] = b'x';
        }
        assert!(refused(|raw| raw.interface[..2].copy_from_slice(b"v2")).is_none());
    }

    #[test]
    fn cores_are_found_in_every_form() {
        let mut raw = raw();
        (raw.irqLine2D, raw.registerMemBase2D) = (42, 0x13_4000);
        (raw.irqs[3], raw.registerBases[3]) = (43, 0x220_4000);
        let found = locations(&raw).unwrap();
        let lines = found.map(|location| location.map_or(0, |location| location.line));
        assert_eq!(lines, [36, 43, 42, 0, 0, 0, 0, 0]);
        // The same core twice.
        (raw.irqLineVG, raw.registerMemBaseVG) = (44, 0x13_4000);
        assert_eq!(
            locations(&raw).err().map(|e| e.0),
            Some("registerMemBaseVG")
        );
        raw.irqLineVG = -2;
        assert_eq!(locations(&raw).err().map(|e| e.0), Some("irqLineVG"));
        raw.irqLineVG = -1;
        // More than `MAX_LOCATIONS`.
        for i in 0..8 {
            (raw.irqs[i], raw.registerBases[i]) = (50, 0x100_0000 + 0x1000 * i);
        }
        assert_eq!(locations(&raw).err().map(|e| e.0), Some("irqs"));
    }

    #[test]
    fn kinds_are_named() {
        let of = |three_d, two_d, vector, neural| {
            Ok(Kinds {
                three_d,
                two_d,
                vector,
                neural,
            })
        };
        assert_eq!(kinds(""), of(true, true, true, true));
        assert_eq!(kinds("2d,vg"), of(false, true, true, false));
        assert_eq!(kinds("npu,3d"), of(true, false, false, true));
        assert!(kinds("2d,").is_err());
        assert!(kinds("3D").is_err());
    }

    #[test]
    fn allowed_ranges_are_pairs_that_the_gpu_reaches() {
        let with_base = |text: &str, base| {
            let mut raw = raw();
            raw.contiguousSize = 0;
            for (to, &from) in raw.allowedRanges.iter_mut().zip(text.as_bytes()) {
                *to = from;
            }
            let mut parameters = Parameters::check(&raw)?;
            parameters.count_from(base)?;
            Ok::<_, Refusal>((parameters.allowed_ranges, parameters.framebuffers))
        };
        let with = |text: &str| with_base(text, 0x1000_0000);
        let (ranges, framebuffers) = with("0x30000000,0x1000,1073741824,020").unwrap();
        assert_eq!(ranges[0], Range::new(0x2000_0000, 0x1000));
        assert_eq!(ranges[1], Range::new(0x3000_0000, 0x10));
        assert_eq!(ranges[2..], [None, None]);
        assert!(!framebuffers);
        assert_eq!(with(""), Ok(([None; ALLOWED_RANGES], false)));
        assert_eq!(with("framebuffer"), Ok(([None; ALLOWED_RANGES], true)));
        let (ranges, framebuffers) = with("framebuffer,0x30000000,0x1000").unwrap();
        assert_eq!(ranges[0], Range::new(0x2000_0000, 0x1000));
        assert!(framebuffers);
        for bad in [
            "0x30000000",
            "0x30000000,framebuffer",
            "0x30000000,0",
            "0xF000000,0x1000",
            "0x8FFFF000,0x1001",
            "0x30000000,0xFFFFFFFF",
            "0x30000000,0x1FFFFFFFFFFFFFFFF",
            "framebuffers",
            "-1,1",
            "0x30000000,1,0x30000000,1,0x30000000,1,0x30000000,1,0x30000000,1",
        ] {
            assert_eq!(with(bad).err().map(|e| e.0), Some("allowedRanges"));
        }
        // The window from this base wraps at 4 GiB.
        let last = "0xFF000000,0x1000000";
        let range = with_base(last, 0x9000_0000).map(|(ranges, _)| ranges[0]);
        assert_eq!(range, Ok(Range::new(0x6F00_0000, 0x100_0000)));
        for past in ["0xFF000000,0x1001000", "0xFFFFF000,0x1001"] {
            let refused = with_base(past, 0x9000_0000).err().map(|e| e.0);
            assert_eq!(refused, Some("allowedRanges"));
        }
    }

    #[test]
    fn no_address_reaches_past_the_window_or_4_gib() {
        assert_eq!(linear_address(0x4000_0000, 1 << 31, 0x4000_0000), Some(0));
        assert_eq!(linear_address(0x4000_0000, 1 << 31, 0x3FFF_F000), None);
        assert_eq!(linear_address(0x3FFF_F000, 0x1000, 0x4000_0000), None);
        let last = Some(0x6FFF_F000);
        assert_eq!(linear_address(0xFFFF_F000, 0x1000, 0x9000_0000), last);
        assert_eq!(linear_address(0xFFFF_F000, 0x1001, 0x9000_0000), None);
        assert_eq!(linear_address(1 << 32, 0x1000, 0x9000_0000), None);
        assert_eq!(linear_address(u64::MAX, 2, 0x9000_0000), None);
    }

    #[test]
    fn the_base_is_where_all_is_reached() {
        let choose = |pool: usize, contiguous: u64| {
            let mut raw = raw();
            (raw.contiguousBase, raw.contiguousSize) = (pool, if pool == 0 { 0 } else { 4 << 20 });
            let mut parameters = Parameters::check(&raw).unwrap();
            let base = parameters.choose_base(contiguous);
            assert!(linear_address(contiguous, 0x2000, base).is_some());
            (base, parameters.count_from(base).is_ok())
        };
        // All below 2 GiB.
        assert_eq!(choose(0, 0x7C00_0000), (0, true));
        assert_eq!(choose(0x5000_0000, 0x7C00_0000), (0, true));
        // The window ends with the pool, and with contiguous memory.
        assert_eq!(choose(0x7FC0_0000, 0x1000_0000), (0, true));
        assert_eq!(choose(0x8000_0000, 0x2000_0000), (0x2000_0000, true));
        // The base is neither too low nor too high.
        assert_eq!(choose(0, 0xB3A0_0000), (0x6000_0000, true));
        assert_eq!(choose(0x5000_0000, 0xB3A0_0000), (0x4000_0000, true));
        assert_eq!(choose(0xF000_0000, 0x8000_0000), (0x8000_0000, true));
        // No multiple of 512 MiB is possible.
        assert_eq!(choose(0xE800_0000, 0x7C00_0000), (0x6840_0000, true));
        assert_eq!(choose(0, 0xFFC0_0000), (0x8000_0000, true));
        // The pool is too far away: only contiguous memory is reached.
        assert_eq!(choose(0x1000_0000, 0xB3A0_0000), (0x4000_0000, false));
        assert_eq!(choose(0xF000_0000, 0x2000_0000), (0x2000_0000, false));
        // `allowedRanges` is named memory, too.
        let mut raw = raw();
        raw.contiguousSize = 0;
        raw.allowedRanges[..20].copy_from_slice(b"0x50000000,0x4000000");
        let mut parameters = Parameters::check(&raw).unwrap();
        let base = parameters.choose_base(0xB3A0_0000);
        assert!(parameters.count_from(base).is_ok());
        assert_eq!(
            parameters.allowed_ranges[0],
            Range::new(0x1000_0000, 0x400_0000)
        );
    }

    const MIB: u64 = 1 << 20;

    fn placed(size: usize, region: Region) -> Result<PoolSource, Refusal> {
        let mut raw = raw();
        (raw.contiguousBase, raw.contiguousSize) = (0, size);
        let mut parameters = Parameters::check(&raw)?;
        parameters.place_pool(Some(region))?;
        parameters.count_from(0x1000_0000)?;
        Ok(parameters.pool)
    }

    fn region(start: u64, bytes: u64, is_reusable: bool) -> Region {
        Region {
            start,
            bytes,
            is_reusable,
        }
    }

    #[test]
    fn nodes_of_drm_are_named() {
        let nodes = |name: &[u8]| {
            let mut raw = raw();
            raw.drm[..name.len()].copy_from_slice(name);
            Parameters::check(&raw).map(|it| it.drm_nodes)
        };
        assert_eq!(nodes(b""), Ok([true, false]));
        assert_eq!(nodes(b"vivante"), Ok([true, false]));
        assert_eq!(nodes(b"etnaviv"), Ok([false, true]));
        assert_eq!(nodes(b"both"), Ok([true, true]));
        assert_eq!(nodes(b"none"), Ok([false, false]));
        assert_eq!(refused(|raw| raw.sharedPool = 1), None);
        let unchecked = |raw: &mut RawParameters| {
            raw.streamCheck = 1;
            raw.drm[..4].copy_from_slice(b"both");
        };
        assert_eq!(refused(unchecked), Some("drm"));
        assert_eq!(
            nodes(b"Both").err().map(|Refusal(name, _)| name),
            Some("drm")
        );
    }

    #[test]
    fn a_region_is_the_pool_or_gives_it() {
        let fixed = region(0x4400_0000, 64 * MIB, false);
        let whole = PoolSource::Region(0x4400_0000, 64 << 20);
        let part = PoolSource::Region(0x4400_0000, 8 << 20);
        assert_eq!(placed(DEFAULT_POOL, fixed), Ok(whole));
        assert_eq!(placed(8 << 20, fixed), Ok(part));
        assert_eq!(placed(64 << 20, fixed), Ok(whole));
        assert_eq!(placed(0, fixed), Ok(PoolSource::None));
        let lent = region(0x4400_0000, 64 * MIB, true);
        let some = PoolSource::Allocated(8 << 20);
        assert_eq!(placed(8 << 20, lent), Ok(some));
        let small = region(0x4400_0000, 2 * MIB, true);
        let all = PoolSource::Allocated(2 << 20);
        assert_eq!(placed(DEFAULT_POOL, small), Ok(all));
        // The parameter overrides the region.
        let mut parameters = Parameters::check(&raw()).unwrap();
        assert_eq!(parameters.place_pool(Some(fixed)), Ok(()));
        let given = PoolSource::Reserved(0x5800_0000, 0x800_0000);
        assert_eq!(parameters.pool, given);
    }

    #[test]
    fn a_region_that_cannot_be_is_named() {
        for is_reusable in [false, true] {
            let refused = |size, start, bytes| {
                let result = placed(size, region(start, bytes, is_reusable));
                result.err().map(|Refusal(name, why)| (name, why))
            };
            let has = |found: Option<(&str, &str)>, word: &str| {
                found.is_some_and(|(name, why)| name == "memory-region" && why.contains(word))
            };
            assert!(has(refused(4 << 20, 0x4400_0800, MIB), "pages"));
            assert!(has(refused(4 << 20, 0x4400_0000, MIB + 1), "pages"));
            assert!(has(refused(4 << 20, 0x4400_0000, 0), "pages"));
            assert!(has(refused(8 << 20, 0x4400_0000, 4 * MIB), "smaller"));
            assert!(has(refused(4 << 20, 0x0800_0000, MIB), "below"));
            assert!(has(refused(4 << 20, 0x8FF0_0000, 2 * MIB), "2 GiB"));
            assert!(has(refused(4 << 20, 0x4000_0000, 3 << 30), "2 GiB"));
            assert!(has(refused(4 << 20, 0xFFF0_0000, 2 * MIB), "4 GiB"));
            assert!(has(refused(4 << 20, u64::MAX - 4095, 4096), "4 GiB"));
        }
    }
}
