// SPDX-License-Identifier: GPL-2.0-only

//! The names of the states of vector graphics.
//!
//! Plain data, without imports: `galcore-info` uses it, too. The register database lists these
//! states with their reset values only (`state_vg.xml`), so the names say what they are for.
//! Source: sources.md, vector graphics.

/// States: the first and the last word address, and what they are for. The first that fits.
const STATES: [(u32, u32, &str); 49] = [
    (0xA00, 0xA00, "control"),
    (0xA01, 0xA01, "window origin"),
    (0xA02, 0xA02, "colour"),
    (0xA03, 0xA09, "paint"),
    (0xA10, 0xA10, "target format"),
    (0xA11, 0xA11, "target address"),
    (0xA12, 0xA12, "target stride"),
    (0xA13, 0xA13, "target size"),
    (0xA1B, 0xA1B, "flush"),
    (0xA18, 0xA22, "image matrix"),
    (0xA24, 0xA24, "image 1 format"),
    (0xA25, 0xA25, "image 0 format"),
    (0xA26, 0xA26, "image 1 background"),
    (0xA27, 0xA27, "image 0 background"),
    (0xA28, 0xA28, "image 1 address"),
    (0xA29, 0xA29, "image 0 address"),
    (0xA2A, 0xA2A, "image 1 stride"),
    (0xA2B, 0xA2B, "image 0 stride"),
    (0xA2C, 0xA2C, "image 1 origin"),
    (0xA2D, 0xA2D, "image 0 origin"),
    (0xA2E, 0xA2E, "image 1 size"),
    (0xA2F, 0xA2F, "image 0 size"),
    (0xA30, 0xA30, "tessellation buffer, read"),
    (0xA31, 0xA31, "tessellation level 1, read"),
    (0xA32, 0xA32, "tessellation level 2, read"),
    (0xA33, 0xA33, "tessellation stride, read"),
    (0xA34, 0xA34, "tessellator"),
    (0xA35, 0xA35, "tessellation buffer, written"),
    (0xA36, 0xA36, "tessellation level 1, written"),
    (0xA37, 0xA37, "tessellation level 2, written"),
    (0xA38, 0xA38, "tessellation stride, written"),
    (0xA39, 0xA39, "tessellation origin"),
    (0xA3A, 0xA3A, "tessellation size"),
    (0xA3B, 0xA3B, "path scale"),
    (0xA3C, 0xA3C, "path bias"),
    (0xA3D, 0xA3D, "tessellation level 2 size"),
    (0xA40, 0xA45, "path matrix"),
    (0xA50, 0xA50, "image 1 plane 1 address"),
    (0xA51, 0xA51, "image 0 plane 1 address"),
    (0xA52, 0xA52, "image 1 plane 2 address"),
    (0xA53, 0xA53, "image 0 plane 2 address"),
    (0xA5C, 0xA5C, "target plane 1 address"),
    (0xA5D, 0xA5D, "target plane 2 address"),
    (0xA90, 0xA97, "colour key"),
    (0xE01, 0xE01, "event"),
    (0xE02, 0xE02, "semaphore"),
    (0xE04, 0xE04, "MMU flush"),
    (0xF00, 0xF00, "stall"),
    (0xA00, 0xAFF, "vector graphics"),
];

/// The name of state `address` (a word address).
pub(crate) fn name(address: u32) -> Option<&'static str> {
    let mut states = STATES.iter();
    let found = states.find(|&&(first, last, _)| (first..=last).contains(&address));
    found.map(|&(_, _, name)| name)
}
