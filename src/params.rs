// SPDX-License-Identifier: GPL-2.0-only

//! The module parameters, checked once.
//!
//! Names, types and meanings are those of the vendor's driver (sources.md, parameters), so that old
//! `modprobe.d` files continue to work. The C driver accepts some values and fails later (a pool
//! that wraps, a base that is not page aligned). This driver refuses them with a line that names
//! the parameter.

mod memory;

use crate::{
    abi::{
        detect,
        programs,
        row::Row, //
    },
    addr::Range,
    limits::FULL_SCALE,
    sys::{
        self,
        mmio,
        platform::RawParameters,
        prelude::*,
        tree::Region, //
    }, //
};
use kernel::{
    alloc::AllocError,
    io::PhysAddr, //
};
use memory::{
    named_ranges,
    pool_source,
    NamedRanges,
    ALLOWED_RANGES, //
};

pub(crate) use memory::{
    linear_address,
    PoolSource,
    LINEAR_WINDOW, //
};

/// Highest interrupt ID of a GIC. Other controllers have fewer.
const MAX_LINE: u32 = 1019;

/// Highest number of a realtime signal.
const MAX_SIGNAL: i32 = 64;

/// The limit of `gpu_frequency`, exclusive.
const MAX_MEGAHERTZ: usize = 4000;

/// Highest major number of a character device (12 bits).
const MAX_MAJOR: u32 = 4095;

/// Limits of `gpuTimeout` and `jobTimeout` in milliseconds: a few polls of the core to a day.
const GPU_TIMEOUTS: core::ops::RangeInclusive<u32> = 200..=24 * 3600 * 1000;

/// The maximum of `autosuspend` in milliseconds: a day.
const MAX_AUTOSUSPEND: u32 = 24 * 3600 * 1000;

/// A core that the parameters describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoreLocation {
    pub(crate) registers: PhysAddr,
    pub(crate) size: usize,
    /// Interrupt line, in the numbers of board documents.
    pub(crate) line: u32,
}

/// The most cores that parameters can describe.
pub(crate) const MAX_LOCATIONS: usize = 8;

/// Kinds of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// 3D, with or without 2D.
    pub(crate) three_d: bool,
    pub(crate) two_d: bool,
    pub(crate) vector: bool,
    pub(crate) neural: bool,
}

/// A parameter with the values -1, 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Depends on the core.
    Auto,
    Off,
    On,
}

/// The clients that may read the cores' counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profiler {
    Off,
    Everybody,
    /// Clients with the right to observe other processes.
    Privileged,
}

/// The checked parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// The cores for which devices are created: those with an interrupt line.
    pub(crate) locations: [Option<CoreLocation>; MAX_LOCATIONS],
    pub(crate) kinds: Kinds,
    /// `cores` is set, so other drivers may have the other cores.
    pub(crate) shares_board: bool,
    /// The DRM nodes to create: the vendor's and etnaviv's.
    pub(crate) drm_nodes: [bool; 2],
    pub(crate) pool: PoolSource,
    /// The region in the device tree for the pool, or for all contiguous memory.
    region: Option<Region>,
    /// Size of a bank, in bytes. 0: one bank.
    pub(crate) bank_size: usize,
    /// Physical address of GPU address 0.
    pub(crate) base_address: u32,
    pub(crate) fast_clear: Choice,
    pub(crate) compression: Choice,
    /// Major number. 0: any.
    pub(crate) major: u32,
    /// Realtime signal number, for QUERY_KERNEL_SETTINGS.
    pub(crate) signal: i32,
    /// Every client can map the whole pool.
    pub(crate) shared_pool: bool,
    /// Every client can lock and free every node.
    pub(crate) shared_nodes: bool,
    /// Every client can wait for, set and destroy every signal.
    pub(crate) shared_signals: bool,
    /// Events send `signal`, and there are no user signals.
    pub(crate) linux_signal: bool,
    /// GPU addresses in commands must be the client's own.
    pub(crate) check_addresses: bool,
    /// Replaces other addresses by that of the scratch memory. Otherwise the commands are refused.
    pub(crate) mend_addresses: bool,
    /// Checks the extents of writes by the 2D engine.
    pub(crate) bound_draws: bool,
    /// Additional physical memory for all clients.
    named_ranges: NamedRanges,
    /// `named_ranges` as GPU addresses, set by [`Parameters::count_from`].
    pub(crate) allowed_ranges: [Option<Range>; ALLOWED_RANGES],
    /// Clients may use framebuffers that they have mapped.
    pub(crate) framebuffers: bool,
    /// The generation of the interface, if requests of that size exist in several.
    pub(crate) interface: programs::ByProgram<detect::Choice>,
    /// VERSION's answer, instead of that of the generation.
    pub(crate) version: programs::ByProgram<[u32; 4]>,
    /// Milliseconds without progress until a core is reset. 0: never.
    pub(crate) gpu_timeout: u32,
    /// Milliseconds that a job may delay others until it is dropped. 0: no limit.
    pub(crate) job_timeout: u32,
    pub(crate) power_management: bool,
    /// The default idle time before a core goes off, in milliseconds.
    pub(crate) autosuspend: u32,
    /// Rates of the cores' clocks that replace those of the firmware.
    pub(crate) core_clocks: ClockRates,
    /// The minimum clock of a core that is too hot, in 64ths.
    pub(crate) least_scale: u32,
    /// The detail of the dump of a hung core, from 0 (no dump) to 3.
    pub(crate) dump_level: u32,
    pub(crate) profiler: Profiler,
}

/// A refused parameter: its name, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) &'static str, pub(crate) &'static str);

impl From<AllocError> for Refusal {
    fn from(_: AllocError) -> Self {
        Refusal("values", "take memory that there is not")
    }
}

fn switch(name: &'static str, value: i32) -> Result<bool, Refusal> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Refusal(name, "must be 0 or 1")),
    }
}

fn choice(name: &'static str, value: i32) -> Result<Choice, Refusal> {
    match value {
        -1 => Ok(Choice::Auto),
        0 => Ok(Choice::Off),
        1 => Ok(Choice::On),
        _ => Err(Refusal(name, "must be -1, 0 or 1")),
    }
}

fn physical(name: &'static str, value: usize) -> Result<PhysAddr, Refusal> {
    if value % PAGE_SIZE != 0 {
        return Err(Refusal(name, "must be a multiple of the page size"));
    }
    PhysAddr::try_from(value).map_err(|_| Refusal(name, "is no physical address"))
}

/// Whether `size` bytes from `start` end below the top of the address space.
fn fits(start: usize, size: usize) -> bool {
    start.checked_add(size).is_some()
}

/// Adds cores to `found`. `names`: the parameters for lines, registers and their sizes.
fn add_cores(
    found: &mut [Option<CoreLocation>; MAX_LOCATIONS],
    names: [&'static str; 3],
    lines: &[i32],
    registers: &[usize],
    sizes: &[usize],
) -> Result<(), Refusal> {
    for ((&line, &registers), &size) in lines.iter().zip(registers).zip(sizes) {
        let Some(location) = core_location(names, line, registers, size)? else {
            continue;
        };
        let mut earlier = found.iter().flatten();
        if earlier.any(|other| other.registers == location.registers) {
            return Err(Refusal(names[1], "names a core that is named already"));
        }
        let free = found.iter_mut().find(|place| place.is_none());
        *free.ok_or(Refusal(names[0], "describes more than 8 cores"))? = Some(location);
    }
    Ok(())
}

/// All cores that the parameters describe, in the vendor's order: 3D, 2D, VG.
#[inline(never)]
fn locations(raw: &RawParameters) -> Result<[Option<CoreLocation>; MAX_LOCATIONS], Refusal> {
    let mut found = [None; MAX_LOCATIONS];
    macro_rules! add {
        (one: $line:ident $registers:ident $size:ident) => {
            let names = [stringify!($line), stringify!($registers), stringify!($size)];
            add_cores(
                &mut found,
                names,
                &[raw.$line],
                &[raw.$registers],
                &[raw.$size],
            )?
        };
        (several: $lines:ident $registers:ident $sizes:ident) => {
            let names = [
                stringify!($lines),
                stringify!($registers),
                stringify!($sizes),
            ];
            add_cores(&mut found, names, &raw.$lines, &raw.$registers, &raw.$sizes)?
        };
    }
    add!(one: irqLine registerMemBase registerMemSize);
    add!(several: irqs registerBases registerSizes);
    add!(one: irqLine2D registerMemBase2D registerMemSize2D);
    add!(several: irq2Ds register2DBases register2DSizes);
    add!(one: irqLineVG registerMemBaseVG registerMemSizeVG);
    Ok(found)
}

/// The core that the three parameters `names` describe, if any.
fn core_location(
    names: [&'static str; 3],
    line: i32,
    registers: usize,
    size: usize,
) -> Result<Option<CoreLocation>, Refusal> {
    let line = match line {
        -1 => return Ok(None),
        line => u32::try_from(line).map_err(|_| Refusal(names[0], "must be -1 or a line"))?,
    };
    if line == 0 || line > MAX_LINE {
        return Err(Refusal(names[0], "must be -1 or a line from 1 to 1019"));
    }
    if registers == 0 {
        return Err(Refusal(names[1], "0 is no register block"));
    }
    if size < mmio::MIN_SIZE || size % 4 != 0 {
        return Err(Refusal(
            names[2],
            "must be a multiple of 4 and at least 1792",
        ));
    }
    if !fits(registers, size) {
        return Err(Refusal(names[2], "reaches past the address space"));
    }
    Ok(Some(CoreLocation {
        registers: physical(names[1], registers)?,
        size,
        line,
    }))
}

/// Parses `cores`. Empty: all kinds.
#[inline(never)]
fn kinds(names: &str) -> Result<Kinds, Refusal> {
    let all = names.is_empty();
    let mut kinds = Kinds {
        three_d: all,
        two_d: all,
        vector: all,
        neural: all,
    };
    for name in names.split(',').filter(|_| !all) {
        match name {
            "3d" => kinds.three_d = true,
            "2d" => kinds.two_d = true,
            "vg" => kinds.vector = true,
            "npu" => kinds.neural = true,
            _ => return Err(Refusal("cores", "must be a list of 3d, 2d, vg and npu")),
        }
    }
    Ok(kinds)
}

/// Parses a value that may differ between programs.
fn by_program<T: programs::Value>(
    name: &'static str,
    value: &[u8],
) -> Result<programs::ByProgram<T>, Refusal> {
    programs::ByProgram::parse(text(value)).map_err(|why| Refusal(name, why))
}

/// The parameter `identity`.
pub(crate) fn identity() -> &'static str {
    text(&sys::platform::all().identity)
}

/// The text before the NUL.
fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
    core::str::from_utf8(&bytes[..end]).unwrap_or("?")
}

impl Parameters {
    /// Checks the parameters of the module.
    pub(crate) fn check(raw: &RawParameters) -> Result<KBox<Self>, Refusal> {
        if raw.major > MAX_MAJOR {
            return Err(Refusal("major", "must be at most 4095"));
        }
        if !(0..=MAX_SIGNAL).contains(&raw.signal) {
            return Err(Refusal("signal", "must be 0 to 64"));
        }
        if raw.bankSize % PAGE_SIZE != 0 {
            return Err(Refusal("bankSize", "must be a multiple of the page size"));
        }
        physical("baseAddress", raw.baseAddress)?;
        Row::check(text(&raw.identity)).map_err(|why| Refusal("identity", why))?;
        let (named_ranges, framebuffers) = named_ranges(raw)?;
        // Initialized in place, because it is too large for the stack.
        let parameters = try_init!(Self {
            locations: locations(raw)?,
            kinds: kinds(text(&raw.cores))?,
            shares_board: !text(&raw.cores).is_empty(),
            drm_nodes: match text(&raw.drm) {
                "etnaviv" | "both" if raw.streamCheck == 1 => {
                    return Err(Refusal("drm", "must not have etnaviv with streamCheck 1"));
                }
                // Access to the node is not limited by the permissions of /dev/galcore.
                "" if raw.sharedPool == 1 => [false, false],
                "" | "vivante" => [true, false],
                "etnaviv" => [false, true],
                "both" => [true, true],
                "none" => [false, false],
                _ => return Err(Refusal("drm", "must be vivante, etnaviv, both or none")),
            },
            pool: pool_source(raw)?,
            region: None,
            bank_size: raw.bankSize,
            base_address: u32::try_from(raw.baseAddress)
                .map_err(|_| Refusal("baseAddress", "must be below 4 GiB"))?,
            fast_clear: choice("fastClear", raw.fastClear)?,
            compression: choice("compression", raw.compression)?,
            major: raw.major,
            signal: raw.signal,
            shared_pool: switch("sharedPool", raw.sharedPool)?,
            shared_nodes: switch("sharedNodes", raw.sharedNodes)?,
            shared_signals: switch("sharedSignals", raw.sharedSignals)?,
            linux_signal: match raw.useLinuxSignal {
                0 => false,
                1 if raw.signal > 0 => true,
                1 => return Err(Refusal("useLinuxSignal", "needs a signal")),
                _ => return Err(Refusal("useLinuxSignal", "must be 0 or 1")),
            },
            check_addresses: match raw.streamCheck {
                1 => false,
                2..=4 => true,
                _ => return Err(Refusal("streamCheck", "must be from 1 to 4")),
            },
            mend_addresses: raw.streamCheck == 3,
            bound_draws: raw.streamCheck == 4,
            named_ranges,
            allowed_ranges: [None; ALLOWED_RANGES],
            framebuffers,
            interface: by_program("interface", &raw.interface)?,
            version: by_program("version", &raw.version)?,
            power_management: switch("powerManagement", raw.powerManagement)?,
            autosuspend: match raw.autosuspend {
                delay if delay <= MAX_AUTOSUSPEND => delay,
                _ => return Err(Refusal("autosuspend", "must be a day at most")),
            },
            core_clocks: ClockRates::new(raw)?,
            least_scale: match raw.initgpu3DMinClock {
                scale @ 1..=FULL_SCALE => scale,
                _ => return Err(Refusal("initgpu3DMinClock", "must be from 1 to 64")),
            },
            gpu_timeout: match (raw.gpuTimeout, raw.recovery) {
                (0, 0 | 1) => 0,
                (timeout, recovery @ (0 | 1)) if GPU_TIMEOUTS.contains(&timeout) => {
                    timeout * recovery
                }
                (_, 0 | 1) => return Err(Refusal("gpuTimeout", "must be 0, or 200 ms to a day")),
                _ => return Err(Refusal("recovery", "must be 0 or 1")),
            },
            job_timeout: match raw.jobTimeout {
                0 => 0,
                timeout if GPU_TIMEOUTS.contains(&timeout) => timeout,
                _ => return Err(Refusal("jobTimeout", "must be 0, or 200 ms to a day")),
            },
            // The vendor's drivers have higher levels.
            dump_level: raw.stuckDump.min(3),
            profiler: match raw.gpuProfiler {
                0 => Profiler::Off,
                1 => Profiler::Everybody,
                2 => Profiler::Privileged,
                _ => return Err(Refusal("gpuProfiler", "must be 0, 1 or 2")),
            },
        }? Refusal);
        KBox::try_init(parameters, GFP_KERNEL)
    }

    /// Reads and checks the parameters. Logs a refusal. Not inlined, because the values would stay
    /// on the stack of module load, which also binds cores.
    #[inline(never)]
    pub(crate) fn load() -> Result<KBox<Self>> {
        Self::check(sys::platform::all()).map_err(|Refusal(name, why)| {
            pr_err!("parameter {name} {why}\n");
            EINVAL
        })
    }
}

/// A rate in Hz for each kind of core, by separate parameters, because kinds may share a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockRates {
    /// `coreClock`, else `gpu_frequency`, for cores with 3D.
    pub(crate) three_d: Option<usize>,
    /// `coreClock2D`.
    pub(crate) two_d: Option<usize>,
    /// `coreClockVG`.
    pub(crate) vector: Option<usize>,
}

impl ClockRates {
    fn new(raw: &RawParameters) -> Result<Self, Refusal> {
        if raw.gpu_frequency >= MAX_MEGAHERTZ {
            return Err(Refusal("gpu_frequency", "is in MHz, below 4000"));
        }
        let given = |hertz: u32| (hertz != 0).then_some(u32_as_usize(hertz));
        let of_dove = (raw.gpu_frequency != 0).then_some(raw.gpu_frequency * 1_000_000);
        Ok(Self {
            three_d: given(raw.coreClock).or(of_dove),
            two_d: given(raw.coreClock2D),
            vector: given(raw.coreClockVG),
        })
    }
}

/// A number in the log's format for addresses and sizes.
struct Hex(usize);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_fmt(fmt!("{:#010x}", self.0))
    }
}

/// Not inlined, because each formatting would take stack space of its own.
#[inline(never)]
fn show_one(name: &str, value: &dyn fmt::Display) {
    pr_info!("{name:<17} = {value}\n");
}

/// Logs all parameters, if `showArgs` is set.
pub(crate) fn show() {
    let raw = sys::platform::all();
    if raw.showArgs == 0 {
        return;
    }
    macro_rules! show {
        (number: $($name:ident)*) => { $(show_one(stringify!($name), &raw.$name);)* };
        (hex: $($name:ident)*) => { $(show_one(stringify!($name), &Hex(raw.$name));)* };
        (text: $($name:ident)*) => { $(show_one(stringify!($name), &text(&raw.$name));)* };
        (cores: $lines:ident $registers:ident $sizes:ident) => {
            for (i, line) in raw.$lines.iter().enumerate().filter(|(_, &line)| line != -1) {
                let (start, size) = (raw.$registers[i], raw.$sizes[i]);
                let name = stringify!($lines);
                pr_info!("{name:<17} = {line}, registers {start:#010x}, {size:#010x}\n");
            }
        };
    }
    show!(number: irqLine);
    show!(hex: registerMemBase registerMemSize);
    show!(number: irqLine2D);
    show!(hex: registerMemBase2D registerMemSize2D);
    show!(number: irqLineVG);
    show!(hex: registerMemBaseVG registerMemSizeVG);
    show!(cores: irqs registerBases registerSizes);
    show!(cores: irq2Ds register2DBases register2DSizes);
    show!(text: cores drm);
    show!(hex: contiguousBase contiguousSize bankSize baseAddress);
    show!(number: fastClear compression major signal useLinuxSignal sharedPool streamCheck);
    show!(text: allowedRanges);
    show!(number: gpuTimeout jobTimeout recovery powerManagement autosuspend);
    show!(number: coreClock coreClock2D coreClockVG gpu_frequency initgpu3DMinClock);
    show!(number: stuckDump gpuProfiler sharedNodes sharedSignals);
    show!(text: interface version identity);
}

mod tests;
