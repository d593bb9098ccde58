// SPDX-License-Identifier: GPL-2.0-only

//! The raw module parameters.
//!
//! They are in the C shim, because parameters of the `module!` macro do not appear in sysfs. They
//! are read-only after load.

use super::shim;

pub(crate) use super::shim::gal_parameters as RawParameters;

/// The parameters as the loader has set them. Do not copy them to a stack: they are large.
pub(crate) fn all() -> &'static RawParameters {
    // SAFETY: The loader wrote the parameters before module init. Permission 0444 allows no write
    // afterwards.
    unsafe { &*core::ptr::addr_of!(shim::gal_parameters) }
}

/// Whether the parameters of any core with an interrupt line name the `size` bytes at `start` as
/// its registers.
pub(super) fn name_registers(start: u64, size: usize) -> bool {
    let raw = all();
    let single = [
        (raw.irqLine, (raw.registerMemBase, raw.registerMemSize)),
        (
            raw.irqLine2D,
            (raw.registerMemBase2D, raw.registerMemSize2D),
        ),
        (
            raw.irqLineVG,
            (raw.registerMemBaseVG, raw.registerMemSizeVG),
        ),
    ];
    let several = raw.registerBases.into_iter().zip(raw.registerSizes);
    let several = raw.irqs.into_iter().zip(several);
    let several_2d = raw.register2DBases.into_iter().zip(raw.register2DSizes);
    let several_2d = raw.irq2Ds.into_iter().zip(several_2d);
    // Names the trait, because `Init` also has a `chain`.
    let all = Iterator::chain(single.into_iter(), several);
    // CAST: at most 64 bits.
    Iterator::chain(all, several_2d)
        .any(|(line, (base, bytes))| line > 0 && base != 0 && (base as u64, bytes) == (start, size))
}

/// Whether `contiguousBase`, if it is set, and `contiguousSize` name all of the `size` bytes at
/// `start`.
pub(super) fn name_memory(start: u64, size: usize) -> bool {
    let raw = all();
    // CAST: at most 64 bits.
    let (first, bytes) = (raw.contiguousBase as u64, raw.contiguousSize as u64);
    first != 0 && lies_in(start, size, first, bytes)
}

/// Whether the `size` bytes at `start` lie in the `bytes` bytes at `first`.
pub(super) fn lies_in(start: u64, size: usize, first: u64, bytes: u64) -> bool {
    // CAST: at most 64 bits.
    let offset = start.checked_sub(first);
    let end = offset.and_then(|offset| offset.checked_add(size as u64));
    end.is_some_and(|end| end <= bytes)
}
