// SPDX-License-Identifier: GPL-2.0-only

//! The module parameters, checked once.
//!
//! Names, types and meanings are those of the vendor's driver (sources.md, parameters), so that old
//! `modprobe.d` files continue to work. The C driver accepts some values and fails later (a pool
//! that wraps, a base that is not page aligned). This driver refuses them with a line that names
//! the parameter.

use crate::sys::prelude::*;
use crate::{
    abi::{
        detect,
        programs,
        row::{
            number,
            Row, //
        }, //
    },
    addr::Range,
    limits::FULL_SCALE,
    sys::{
        self,
        mmio,
        params::RawParameters,
        region::Region, //
    }, //
};
use kernel::{
    alloc::AllocError,
    io::PhysAddr, //
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

/// Size of the physical memory that the GPU reaches without its MMU: addresses with bit 31 clear.
pub(crate) const LINEAR_WINDOW: u64 = 1 << 31;

/// The end of the physical addresses that the GPU reaches without its MMU. A window wraps there.
const PHYSICAL_END: u64 = 1 << 32;

/// A chosen base address is a multiple of the first of these powers of two if the GPU then reaches
/// all memory, otherwise of the second. Tables have pages of 64 KiB.
const BASE_STEPS: [u64; 2] = [512 << 20, 64 << 10];

/// The default of `contiguousSize`.
const DEFAULT_POOL: usize = 4 << 20;

/// The source of the video memory pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolSource {
    None,
    /// Physical memory that the kernel does not use: start and size in bytes.
    Reserved(PhysAddr, usize),
    /// The same, from the device tree.
    Region(PhysAddr, usize),
    /// Memory to allocate at load: size in bytes.
    Allocated(usize),
}

/// A core that the parameters describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoreLocation {
    /// Physical address of the registers.
    pub(crate) registers: PhysAddr,
    /// Size of the registers.
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
    /// 2D only.
    pub(crate) two_d: bool,
    /// Vector graphics.
    pub(crate) vector: bool,
    /// Neural networks.
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
    /// No client.
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
    /// The kinds of cores to bind.
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
    /// Switches idle cores off.
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

/// The most ranges of `allowedRanges`.
const ALLOWED_RANGES: usize = 4;

/// The ranges, as physical address and size in bytes.
type NamedRanges = [Option<(u64, usize)>; ALLOWED_RANGES];

/// A refused parameter: its name, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) &'static str, pub(crate) &'static str);

impl From<AllocError> for Refusal {
    fn from(_: AllocError) -> Self {
        Refusal("values", "take memory that there is not")
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

/// The parameters for one core, or for several.
struct RawLocation<'a> {
    /// The names of the parameters: line, registers and their size.
    names: [&'static str; 3],
    lines: &'a [i32],
    registers: &'a [usize],
    sizes: &'a [usize],
}

impl RawLocation<'_> {
    /// Adds the described cores to `found`.
    fn add_to(&self, found: &mut [Option<CoreLocation>; MAX_LOCATIONS]) -> Result<(), Refusal> {
        let described = self.lines.iter().zip(self.registers).zip(self.sizes);
        for ((&line, &registers), &size) in described {
            let Some(location) = core_location(self.names, line, registers, size)? else {
                continue;
            };
            let mut earlier = found.iter().flatten();
            if earlier.any(|other| other.registers == location.registers) {
                return Err(Refusal(self.names[1], "names a core that is named already"));
            }
            let free = found.iter_mut().find(|place| place.is_none());
            *free.ok_or(Refusal(self.names[0], "describes more than 8 cores"))? = Some(location);
        }
        Ok(())
    }
}

/// All cores that the parameters describe, in the vendor's order: 3D, 2D, VG.
#[inline(never)]
fn locations(raw: &RawParameters) -> Result<[Option<CoreLocation>; MAX_LOCATIONS], Refusal> {
    let mut found = [None; MAX_LOCATIONS];
    let all = [
        RawLocation {
            names: ["irqLine", "registerMemBase", "registerMemSize"],
            lines: &[raw.irqLine],
            registers: &[raw.registerMemBase],
            sizes: &[raw.registerMemSize],
        },
        RawLocation {
            names: ["irqs", "registerBases", "registerSizes"],
            lines: &raw.irqs,
            registers: &raw.registerBases,
            sizes: &raw.registerSizes,
        },
        RawLocation {
            names: ["irqLine2D", "registerMemBase2D", "registerMemSize2D"],
            lines: &[raw.irqLine2D],
            registers: &[raw.registerMemBase2D],
            sizes: &[raw.registerMemSize2D],
        },
        RawLocation {
            names: ["irq2Ds", "register2DBases", "register2DSizes"],
            lines: &raw.irq2Ds,
            registers: &raw.register2DBases,
            sizes: &raw.register2DSizes,
        },
        RawLocation {
            names: ["irqLineVG", "registerMemBaseVG", "registerMemSizeVG"],
            lines: &[raw.irqLineVG],
            registers: &[raw.registerMemBaseVG],
            sizes: &[raw.registerMemSizeVG],
        },
    ];
    for described in all {
        described.add_to(&mut found)?;
    }
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

fn version(raw: &RawParameters) -> Result<programs::ByProgram<[u32; 4]>, Refusal> {
    programs::ByProgram::parse(text(&raw.version)).map_err(|why| Refusal("version", why))
}

fn interface(raw: &RawParameters) -> Result<programs::ByProgram<detect::Choice>, Refusal> {
    programs::ByProgram::parse(interface_name(raw)).map_err(|why| Refusal("interface", why))
}

/// The parameter `identity`.
pub(crate) fn identity() -> &'static str {
    text(&sys::params::all().identity)
}

/// The parameter `interface`.
fn interface_name(raw: &RawParameters) -> &str {
    text(&raw.interface)
}

/// The text before the NUL.
fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
    core::str::from_utf8(&bytes[..end]).unwrap_or("?")
}

#[inline(never)]
fn pool_source(raw: &RawParameters) -> Result<PoolSource, Refusal> {
    let (base, size) = (raw.contiguousBase, raw.contiguousSize);
    if size % PAGE_SIZE != 0 {
        return Err(Refusal(
            "contiguousSize",
            "must be a multiple of the page size",
        ));
    }
    // CAST: at most 64 bits.
    if size as u64 > LINEAR_WINDOW {
        return Err(Refusal(
            "contiguousSize",
            "is more than the GPU reaches (2 GiB)",
        ));
    }
    let start = physical("contiguousBase", base)?;
    match (base, size) {
        (_, 0) => Ok(PoolSource::None),
        (0, _) => Ok(PoolSource::Allocated(size)),
        _ => {
            if !fits(base, size) {
                return Err(Refusal("contiguousSize", "reaches past the address space"));
            }
            // CAST: at most 64 bits.
            below_end("contiguousBase", base as u64, size as u64)?;
            Ok(PoolSource::Reserved(start, size))
        }
    }
}

/// The word in `allowedRanges` that allows framebuffers.
const FRAMEBUFFER: &str = "framebuffer";

/// Parses `allowedRanges`: the ranges, and whether framebuffers are allowed.
#[inline(never)]
fn named_ranges(raw: &RawParameters) -> Result<(NamedRanges, bool), Refusal> {
    let refuse = |why| Refusal("allowedRanges", why);
    let mut ranges = [None; ALLOWED_RANGES];
    let mut places = ranges.iter_mut();
    let mut framebuffers = false;
    let mut parts = text(&raw.allowedRanges)
        .split(',')
        .filter(|part| !part.is_empty());
    while let Some(part) = parts.next() {
        if part == FRAMEBUFFER {
            framebuffers = true;
            continue;
        }
        let pair = number(part).zip(parts.next().and_then(number));
        let (start, bytes) = pair.ok_or(refuse(
            "must be pairs of address and bytes, or say framebuffer",
        ))?;
        if bytes == 0 {
            return Err(refuse("names a range of no bytes"));
        }
        // CAST: at most 64 bits.
        let start = start as u64;
        below_end("allowedRanges", start, bytes as u64)?;
        *places.next().ok_or(refuse("names more than 4 ranges"))? = Some((start, bytes));
    }
    Ok((ranges, framebuffers))
}

/// Refuses memory of parameter `name` that no GPU reaches without its MMU, from any base address.
fn below_end(name: &'static str, start: u64, bytes: u64) -> Result<(), Refusal> {
    match start.checked_add(bytes) {
        Some(end) if end <= PHYSICAL_END => Ok(()),
        _ => Err(Refusal(
            name,
            "ends above 4 GiB, where the GPU does not reach",
        )),
    }
}

/// The GPU address, without the MMU, of `bytes` bytes at physical address `start`. GPU address 0 is
/// at `base`. `None`: the GPU does not reach all of them.
pub(crate) fn linear_address(start: u64, bytes: u64, base: u32) -> Option<u32> {
    let first = start.checked_sub(base.into())?;
    let is_reached =
        first.checked_add(bytes)? <= LINEAR_WINDOW && start.checked_add(bytes)? <= PHYSICAL_END;
    is_reached.then(|| u32::try_from(first).ok()).flatten()
}

impl Parameters {
    /// Memory from parameters or the device tree that the GPU must reach: its parameter, first
    /// physical address and size in bytes.
    fn named_memory(&self) -> impl Iterator<Item = (&'static str, u64, u64)> + '_ {
        let pool = match self.pool {
            // CAST: at most 64 bits.
            PoolSource::Reserved(start, bytes) => {
                Some(("contiguousBase", sys::widen(start), bytes as u64))
            }
            PoolSource::None | PoolSource::Region(..) | PoolSource::Allocated(_) => None,
        };
        let region = self
            .region
            .map(|region| ("memory-region", region.start, region.bytes));
        let ranges = self.named_ranges.iter().flatten();
        // CAST: at most 64 bits.
        let ranges = ranges.map(|&(start, bytes)| ("allowedRanges", start, bytes as u64));
        // Names the trait, because `Init` also has a `chain`.
        Iterator::chain([pool, region].into_iter().flatten(), ranges)
    }

    /// Chooses a base address from which the GPU reaches contiguous memory and, if possible, all
    /// named memory. Some contiguous memory is at `contiguous`.
    pub(crate) fn choose_base(&self, contiguous: u64) -> u32 {
        let bases = BASE_STEPS.map(|step| self.base_of(step, contiguous));
        let best = bases.iter().find(|base| self.unreached(**base).is_none());
        *best.unwrap_or(&bases[0])
    }

    /// The best base address for [`Parameters::choose_base`] among multiples of `step`.
    fn base_of(&self, step: u64, contiguous: u64) -> u32 {
        let down = |address: u64| address & !(step - 1);
        // The lowest base from which the GPU reaches memory up to `end`, at most 4 GiB.
        let least = |end: u64| down(end.saturating_sub(LINEAR_WINDOW) + step - 1);
        // CAST: at most 64 bits.
        let contiguous_end = contiguous.saturating_add(2 * PAGE_SIZE as u64);
        let (mut low, mut end) = (contiguous, contiguous_end);
        for (_, start, bytes) in self.named_memory() {
            low = low.min(start);
            end = end.max(start.saturating_add(bytes));
        }
        if end <= LINEAR_WINDOW {
            return 0;
        }
        // A GiB below the lowest memory: the kernel may allocate memory there, too.
        let base = down(low).saturating_sub(1 << 30).max(least(end));
        // Contiguous memory has priority, because a core needs the ring, which is there.
        let base = base
            .min(down(low).max(least(contiguous_end)))
            .min(down(contiguous))
            .min(PHYSICAL_END - LINEAR_WINDOW);
        u32::try_from(base).unwrap_or(0)
    }

    /// Named memory that the GPU does not reach from `base`.
    fn unreached(&self, base: u32) -> Option<Refusal> {
        self.named_memory().find_map(|(name, start, bytes)| {
            let why = match linear_address(start, bytes, base) {
                Some(_) => return None,
                None if start < base.into() => {
                    "lies below the base address, where the GPU does not reach"
                }
                None => "ends more than 2 GiB above the base address, where the GPU does not reach",
            };
            Some(Refusal(name, why))
        })
    }

    /// Sets the base address to `base`, instead of the parameter's. Refuses named memory that the
    /// GPU does not reach from there.
    pub(crate) fn count_from(&mut self, base: u32) -> Result<(), Refusal> {
        if let Some(refusal) = self.unreached(base) {
            return Err(refusal);
        }
        for (range, named) in self.allowed_ranges.iter_mut().zip(self.named_ranges) {
            *range = named.and_then(|(start, bytes)| {
                // CAST: at most 64 bits.
                let address = linear_address(start, bytes as u64, base)?;
                Range::new(address, bytes)
            });
        }
        self.base_address = base;
        Ok(())
    }

    /// Selects the source of the pool on a device whose node has `region`.
    ///
    /// `contiguousBase` overrides the region, and `contiguousSize` 0 overrides both. If the kernel
    /// does not use the region, the pool is all of it, or its first `contiguousSize` bytes if that
    /// is not the default. In a reusable region, `contiguousSize` bytes are allocated.
    pub(crate) fn place_pool(&mut self, region: Option<Region>) -> Result<(), Refusal> {
        const NAME: &str = "memory-region";
        let (PoolSource::Allocated(wanted), Some(region)) = (self.pool, region) else {
            return Ok(());
        };
        // CAST: at most 64 bits.
        let (page, asked) = (PAGE_SIZE as u64, wanted as u64);
        if region.start % page != 0 || region.bytes % page != 0 || region.bytes == 0 {
            return Err(Refusal(NAME, "does not begin and end between pages"));
        }
        let is_default = wanted == DEFAULT_POOL;
        if asked > region.bytes && !is_default {
            return Err(Refusal(
                NAME,
                "is smaller than contiguousSize: correct one of them",
            ));
        }
        let bytes = if region.is_reusable {
            asked.min(region.bytes)
        } else if is_default {
            region.bytes
        } else {
            asked
        };
        below_end(NAME, region.start, region.bytes)?;
        let too_large = |_| Refusal(NAME, "is more than the address space");
        let size = usize::try_from(bytes).map_err(too_large)?;
        self.pool = if region.is_reusable {
            PoolSource::Allocated(size)
        } else {
            let start = PhysAddr::try_from(region.start)
                .map_err(|_| Refusal(NAME, "is no physical address"))?;
            PoolSource::Region(start, size)
        };
        self.region = Some(region);
        Ok(())
    }

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
            shared_pool: match raw.sharedPool {
                0 => false,
                1 => true,
                _ => return Err(Refusal("sharedPool", "must be 0 or 1")),
            },
            shared_nodes: match raw.sharedNodes {
                0 => false,
                1 => true,
                _ => return Err(Refusal("sharedNodes", "must be 0 or 1")),
            },
            shared_signals: match raw.sharedSignals {
                0 => false,
                1 => true,
                _ => return Err(Refusal("sharedSignals", "must be 0 or 1")),
            },
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
            interface: interface(raw)?,
            version: version(raw)?,
            power_management: match raw.powerManagement {
                0 => false,
                1 => true,
                _ => return Err(Refusal("powerManagement", "must be 0 or 1")),
            },
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
        Self::check(sys::params::all()).map_err(|Refusal(name, why)| {
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
        // CAST: 32 bits into at least 32.
        let given = |hertz: u32| (hertz != 0).then_some(hertz as usize);
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
    let raw = sys::params::all();
    if raw.showArgs == 0 {
        return;
    }
    show_one("irqLine", &raw.irqLine);
    show_one("registerMemBase", &Hex(raw.registerMemBase));
    show_one("registerMemSize", &Hex(raw.registerMemSize));
    show_one("irqLine2D", &raw.irqLine2D);
    show_one("registerMemBase2D", &Hex(raw.registerMemBase2D));
    show_one("registerMemSize2D", &Hex(raw.registerMemSize2D));
    show_one("irqLineVG", &raw.irqLineVG);
    show_one("registerMemBaseVG", &Hex(raw.registerMemBaseVG));
    show_one("registerMemSizeVG", &Hex(raw.registerMemSizeVG));
    for (i, line) in raw.irqs.iter().enumerate().filter(|(_, &line)| line != -1) {
        let (start, size) = (raw.registerBases[i], raw.registerSizes[i]);
        pr_info!("irqs              = {line}, registers {start:#010x}, {size:#010x}\n");
    }
    for (i, line) in raw
        .irq2Ds
        .iter()
        .enumerate()
        .filter(|(_, &line)| line != -1)
    {
        let (start, size) = (raw.register2DBases[i], raw.register2DSizes[i]);
        pr_info!("irq2Ds            = {line}, registers {start:#010x}, {size:#010x}\n");
    }
    show_one("cores", &text(&raw.cores));
    show_one("drm", &text(&raw.drm));
    show_one("contiguousBase", &Hex(raw.contiguousBase));
    show_one("contiguousSize", &Hex(raw.contiguousSize));
    show_one("bankSize", &Hex(raw.bankSize));
    show_one("baseAddress", &Hex(raw.baseAddress));
    show_one("fastClear", &raw.fastClear);
    show_one("compression", &raw.compression);
    show_one("major", &raw.major);
    show_one("signal", &raw.signal);
    show_one("useLinuxSignal", &raw.useLinuxSignal);
    show_one("sharedPool", &raw.sharedPool);
    show_one("streamCheck", &raw.streamCheck);
    show_one("allowedRanges", &text(&raw.allowedRanges));
    show_one("gpuTimeout", &raw.gpuTimeout);
    show_one("jobTimeout", &raw.jobTimeout);
    show_one("recovery", &raw.recovery);
    show_one("powerManagement", &raw.powerManagement);
    show_one("autosuspend", &raw.autosuspend);
    show_one("coreClock", &raw.coreClock);
    show_one("coreClock2D", &raw.coreClock2D);
    show_one("coreClockVG", &raw.coreClockVG);
    show_one("gpu_frequency", &raw.gpu_frequency);
    show_one("initgpu3DMinClock", &raw.initgpu3DMinClock);
    show_one("stuckDump", &raw.stuckDump);
    show_one("gpuProfiler", &raw.gpuProfiler);
    show_one("sharedNodes", &raw.sharedNodes);
    show_one("sharedSignals", &raw.sharedSignals);
    show_one("interface", &interface_name(raw));
    show_one("version", &text(&raw.version));
    show_one("identity", &text(&raw.identity));
}

#[kunit_tests(galcore_params)]
mod tests {
    use super::*;

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
            assert_eq!(
                refused(|raw| raw.gpu_frequency = megahertz),
                Some("gpu_frequency")
            );
        }
        assert_eq!(
            refused(|raw| raw.initgpu3DMinClock = 0),
            Some("initgpu3DMinClock")
        );
        assert_eq!(
            refused(|raw| raw.initgpu3DMinClock = 65),
            Some("initgpu3DMinClock")
        );
    }

    #[test]
    fn nonsense_is_named() {
        assert_eq!(refused(|raw| raw.irqLine = 0), Some("irqLine"));
        assert_eq!(refused(|raw| raw.irqLine = -2), Some("irqLine"));
        assert_eq!(refused(|raw| raw.irqLine = 100_000), Some("irqLine"));
        assert_eq!(refused(|raw| raw.signal = 65), Some("signal"));
        assert_eq!(
            refused(|raw| raw.registerMemBase = 0),
            Some("registerMemBase")
        );
        assert_eq!(
            refused(|raw| raw.registerMemBase = 3),
            Some("registerMemBase")
        );
        assert_eq!(
            refused(|raw| raw.registerMemSize = 64),
            Some("registerMemSize")
        );
        assert_eq!(
            refused(|raw| raw.registerMemSize = usize::MAX & !3),
            Some("registerMemSize")
        );
        assert_eq!(
            refused(|raw| raw.contiguousBase = 5),
            Some("contiguousBase")
        );
        assert_eq!(
            refused(|raw| raw.contiguousSize = 5),
            Some("contiguousSize")
        );
        assert_eq!(
            refused(|raw| raw.contiguousSize = 0xF000_0000),
            Some("contiguousSize")
        );
        // Past the end of the address space of a 32-bit kernel.
        assert!(refused(|raw| raw.contiguousBase = 0xFFFF_F000).is_some());
        assert_eq!(refused(|raw| raw.bankSize = 1), Some("bankSize"));
        assert_eq!(refused(|raw| raw.major = 5000), Some("major"));
        assert_eq!(refused(|raw| raw.fastClear = 2), Some("fastClear"));
        assert_eq!(refused(|raw| raw.streamCheck = 0), Some("streamCheck"));
        assert_eq!(refused(|raw| raw.streamCheck = 5), Some("streamCheck"));
        assert!(refused(|raw| raw.streamCheck = 3).is_none());
        assert_eq!(refused(|raw| raw.gpuTimeout = 199), Some("gpuTimeout"));
        assert_eq!(refused(|raw| raw.gpuTimeout = u32::MAX), Some("gpuTimeout"));
        assert!(refused(|raw| raw.gpuTimeout = 0).is_none());
        assert_eq!(refused(|raw| raw.jobTimeout = 199), Some("jobTimeout"));
        assert!(refused(|raw| raw.jobTimeout = 0).is_none());
        assert_eq!(refused(|raw| raw.recovery = 2), Some("recovery"));
        assert_eq!(refused(|raw| raw.gpuProfiler = 3), Some("gpuProfiler"));
        let timeout = |recovery| {
            let mut raw = raw();
            raw.recovery = recovery;
            Parameters::check(&raw).map_or(1, |parameters| parameters.gpu_timeout)
        };
        assert_eq!([timeout(0), timeout(1)], [0, 5000]);
        assert_eq!(
            refused(|raw| raw.powerManagement = 2),
            Some("powerManagement")
        );
        assert_eq!(
            refused(|raw| raw.autosuspend = u32::MAX),
            Some("autosuspend")
        );
        assert!(refused(|raw| raw.autosuspend = 0).is_none());
        assert_eq!(refused(|raw| raw.interface[0] = b'x'), Some("interface"));
        assert_eq!(refused(|raw| raw.version[0] = b'x'), Some("version"));
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
