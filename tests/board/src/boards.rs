// SPDX-License-Identifier: GPL-2.0-only
//! The boards: their GPU cores, device tree variants, and default parameters.

use anyhow::bail;
use anyhow::Result;
use clap::ValueEnum;
use gpu_control::Board as Core;
use gpu_control::Place;
use gpu_control::PLACES;
use serde::Deserialize;

use crate::soc;
use crate::soc::Soc;

/// Where the machine's RAM starts.
const RAM_BASE: u64 = 0x4000_0000;

/// Size of the contiguous pool: RAM at the end that the kernel does not use.
const POOL_MIB: u32 = 128;

/// A board of the virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Board {
    /// Marvell Dove: GC600, with 2D and 3D in one core.
    Dove,
    /// i.MX6 Quad: GC2000, GC320 and GC355.
    Imx6q,
    /// i.MX6 DualLite: GC880 and GC320.
    Imx6dl,
    /// i.MX6 SoloLite: GC320 and GC355.
    Imx6sl,
    /// i.MX6 QuadPlus: GC3000 and its GC320, both with MMU version 2, and its GC355.
    Imx6qp,
    /// Only the 3D core of the i.MX6 Quad.
    Gc2000,
    /// Only the 3D core of the i.MX6 DualLite.
    Gc880,
    /// Only the 2D core of the i.MX6.
    Gc320,
    /// Only the 3D core of the i.MX6 QuadPlus, with MMU version 2.
    Gc3000,
    /// Only the 3D core of the i.MX8M Plus, with the secure MMU version 2.
    Gc7000ul,
    /// i.MX6 Quad on QEMU's own machine, with the device tree of a real board.
    Sabrelite,
    /// i.MX6 DualLite, the same.
    SabreliteDl,
    /// i.MX6 QuadPlus, the same.
    SabreliteQp,
    /// i.MX8M Mini, the same.
    Imx8mmEvk,
    /// i.MX8M Plus, the same.
    Imx8mpEvk,
}

/// Prefixes of real boards' tree names, and the board with that SoC.
const SOC_OF_TREE: [(&str, Board); 5] = [
    ("imx6q-", Board::Sabrelite),
    ("imx6dl-", Board::SabreliteDl),
    ("imx6qp-", Board::SabreliteQp),
    ("imx8mm-", Board::Imx8mmEvk),
    ("imx8mp-", Board::Imx8mpEvk),
];

impl Board {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Board::Dove => "dove",
            Board::Imx6q => "imx6q",
            Board::Imx6dl => "imx6dl",
            Board::Imx6sl => "imx6sl",
            Board::Imx6qp => "imx6qp",
            Board::Gc2000 => "gc2000",
            Board::Gc880 => "gc880",
            Board::Gc320 => "gc320",
            Board::Gc3000 => "gc3000",
            Board::Gc7000ul => "gc7000ul",
            Board::Sabrelite => "sabrelite",
            Board::SabreliteDl => "sabrelite-dl",
            Board::SabreliteQp => "sabrelite-qp",
            Board::Imx8mmEvk => "imx8mm-evk",
            Board::Imx8mpEvk => "imx8mp-evk",
        }
    }

    /// The SoC, if QEMU has a machine for it, and the default device tree, which is that of a real board. `None` for
    /// a "virt" machine.
    pub fn real(self) -> Option<(&'static Soc, &'static str)> {
        match self {
            Board::Sabrelite => Some((&soc::IMX6, "imx6q-sabrelite")),
            Board::SabreliteDl => Some((&soc::IMX6, "imx6dl-sabrelite")),
            Board::SabreliteQp => Some((&soc::IMX6, "imx6qp-nitrogen6_max")),
            Board::Imx8mmEvk => Some((&soc::IMX8MM, "imx8mm-evk")),
            Board::Imx8mpEvk => Some((&soc::IMX8MP, "imx8mp-evk")),
            _ => None,
        }
    }

    /// The SoC of [`Board::real`].
    pub fn soc(self) -> Option<&'static Soc> {
        self.real().map(|(soc, _)| soc)
    }

    /// The board with the cores of the SoC that a real board's tree describes. The tree's name selects it.
    pub fn with_real_tree(self, tree: &str) -> Result<Board> {
        let name = tree.rsplit('/').next().unwrap_or(tree);
        if self.soc().is_none() {
            bail!("--dtb is for boards with a machine of QEMU's own: sabrelite, imx8mm-evk, imx8mp-evk");
        }
        match SOC_OF_TREE
            .iter()
            .find(|(prefix, _)| name.starts_with(prefix))
        {
            Some((_, board)) => Ok(*board),
            None => {
                let known = SOC_OF_TREE.map(|(prefix, _)| prefix).join(", ");
                bail!("{name}: the name of a tree begins with one of {known} here")
            }
        }
    }

    /// Default RAM in MiB.
    pub fn memory(self) -> u32 {
        match self.soc() {
            Some(_) => 1024,
            None => 512,
        }
    }

    /// Number of processors in tests. Two processors find more races but cost a third more time: QEMU stops all of
    /// them for each page that ARM's Linux flushes from the TLB.
    pub fn processors(self) -> u32 {
        match self {
            Board::Dove | Board::Imx6q | Board::Imx6qp => 2,
            _ => 1,
        }
    }

    /// Whether `make test` uses the kernel with checks on this board, unless a suite selects a kernel. The board that
    /// takes most locks is checked.
    pub fn is_checked(self) -> bool {
        self == Board::Imx6q
    }

    /// Its cores, in the order of their places.
    pub fn cores(self) -> &'static [Core] {
        match self {
            Board::Dove => &[Core::Dove],
            Board::Imx6q => &[Core::Gc2000, Core::Gc320, Core::Gc355],
            Board::Imx6dl => &[Core::Gc880, Core::Gc320],
            Board::Imx6sl => &[Core::Gc320, Core::Gc355],
            Board::Imx6qp => &[Core::Gc3000, Core::Gc320Qp, Core::Gc355Qp],
            Board::Gc2000 => &[Core::Gc2000],
            Board::Gc880 => &[Core::Gc880],
            Board::Gc320 => &[Core::Gc320],
            Board::Gc3000 => &[Core::Gc3000],
            Board::Gc7000ul => &[Core::Gc7000ul],
            Board::Sabrelite => Board::Imx6q.cores(),
            Board::SabreliteDl => Board::Imx6dl.cores(),
            Board::SabreliteQp => Board::Imx6qp.cores(),
            // The model has only the i.MX8M Plus's cores. The Mini's cores belong to these generations.
            Board::Imx8mmEvk => &[Core::Gc2000, Core::Gc320],
            Board::Imx8mpEvk => &[Core::Gc7000ul, Core::Gc520l, Core::Npu],
        }
    }

    /// Its cores with their places.
    pub fn placed(self) -> impl Iterator<Item = (Core, Place)> {
        let places = self.soc().map_or(&PLACES[..], |soc| soc.places);
        self.cores().iter().copied().zip(places.iter().copied())
    }

    /// Bytes of a core's register block.
    fn register_bytes(self) -> u64 {
        let of_soc = |soc: &Soc| soc.register_bytes.into();
        self.soc().map_or(gpu_control::REGISTER_BAR_SIZE, of_soc)
    }

    /// Sources of the overlays that add the cores to the machine's device tree. fdtoverlay inserts each new node
    /// before the earlier ones, so the driver probes the last overlay of this list first.
    pub fn overlays(self) -> &'static [&'static str] {
        const DOVE: &str = include_str!("../dts/dove.dts");
        const GC2000: &str = include_str!("../dts/gc2000.dts");
        const GC880: &str = include_str!("../dts/gc880.dts");
        const GC320: &str = include_str!("../dts/gc320.dts");
        const GC3000: &str = include_str!("../dts/gc3000.dts");
        const CORE_2D: &str = include_str!("../dts/core-2d.dts");
        const CORE_VG: &str = include_str!("../dts/core-vg.dts");
        const CORE_VG_SECOND: &str = include_str!("../dts/core-vg-second.dts");
        match self {
            Board::Dove => &[DOVE],
            Board::Imx6q => &[CORE_VG, CORE_2D, GC2000],
            Board::Imx6dl => &[CORE_2D, GC880],
            Board::Imx6sl => &[CORE_VG_SECOND, GC320],
            Board::Imx6qp => &[CORE_VG, CORE_2D, GC3000],
            Board::Gc2000 => &[GC2000],
            Board::Gc880 => &[GC880],
            Board::Gc320 => &[GC320],
            Board::Gc3000 | Board::Gc7000ul => &[GC3000],
            Board::Sabrelite | Board::SabreliteDl | Board::SabreliteQp => &[],
            Board::Imx8mmEvk | Board::Imx8mpEvk => &[],
        }
    }
}

/// The tree that needs an IOMMU in the machine. Only a 64-bit kernel drives the IOMMU.
pub const BEHIND_IOMMU: &str = "behind-iommu";

/// Whether the tree contains memory addresses that assume the default memory size.
pub fn has_places(tree: &str) -> bool {
    matches!(tree, "pool-regions" | "framebuffer" | "framebuffer-large")
}

/// Source of an extra overlay, applied after a board's overlays.
pub fn extra_overlay(name: &str) -> Result<&'static str> {
    match name {
        "pool-regions" => Ok(include_str!("../dts/pool-regions.dts")),
        "core-apart" => Ok(include_str!("../dts/core-apart.dts")),
        "reset-line" => Ok(include_str!("../dts/reset-line.dts")),
        "framebuffer" => Ok(include_str!("../dts/framebuffer.dts")),
        "framebuffer-large" => Ok(include_str!("../dts/framebuffer-large.dts")),
        "opp" => Ok(include_str!("../dts/opp.dts")),
        BEHIND_IOMMU => Ok(include_str!("../dts/behind-iommu.dts")),
        _ => bail!(
            "there is no device tree '{name}'; known: pool-regions, core-apart, reset-line, opp, framebuffer, \
             framebuffer-large, {BEHIND_IOMMU}"
        ),
    }
}

/// How the driver finds the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// A `vivante,gc` node in the device tree.
    Dt,
    /// Module parameters only.
    Params,
}

impl Binding {
    /// The name on the command line and in the table of suites.
    pub fn name(self) -> &'static str {
        match self {
            Binding::Dt => "dt",
            Binding::Params => "params",
        }
    }
}

/// The pool in MiB on a machine with `memory` MiB. It is smaller on a small machine, where the kernel and its
/// initramfs need the memory.
fn pool_mib(memory: u32) -> u32 {
    match memory {
        0..384 => POOL_MIB / 2,
        _ => POOL_MIB,
    }
}

/// MiB of memory that a machine needs for guest files of `mib` MiB: twice the files, because they are unpacked, plus
/// contiguous memory, the kernel, and the pool.
pub fn memory_for_files(mib: u64) -> u64 {
    let own = 2 * mib + u64::from(CMA_MIB) + 96;
    let pool = match own + u64::from(POOL_MIB / 2) {
        0..384 => POOL_MIB / 2,
        _ => POOL_MIB,
    };
    own + u64::from(pool)
}

/// MiB of contiguous memory (CMA) in the kernels' configurations.
const CMA_MIB: u32 = 64;

/// MiB of RAM that the GPU reaches. RAM above them is at 0x80000000 and higher.
pub const REACHED_MIB: u32 = 1024;

/// MiB of RAM below 4 GiB. A machine with more RAM has a 64-bit kernel, and its pool is in contiguous memory.
pub const LOW_MIB: u32 = 3072;

/// Start of the pool on a machine with `memory` MiB: at the end of the RAM that the GPU reaches.
fn pool_start(memory: u32) -> u64 {
    RAM_BASE + (u64::from(memory.min(REACHED_MIB) - pool_mib(memory)) << 20)
}

/// The kernel arguments that keep the pool out of use on a machine with `memory` MiB. With more than [`REACHED_MIB`],
/// the pool is in the middle of RAM; a 64-bit kernel has no arguments for this. With more than [`LOW_MIB`], the
/// driver allocates the pool from contiguous memory.
pub fn memory_arguments(memory: u32) -> String {
    let pool = pool_mib(memory);
    if memory > LOW_MIB {
        return format!(
            "cma={}M@{:#x}",
            CMA_MIB + pool,
            pool_start(memory) - (u64::from(CMA_MIB) << 20)
        );
    }
    match memory.checked_sub(REACHED_MIB) {
        None | Some(0) => format!("mem={}M", memory - pool),
        // Otherwise contiguous memory, which holds the ring, would be at the end.
        Some(behind) => format!(
            "mem={}M@{RAM_BASE:#x} mem={behind}M@{:#x} cma={CMA_MIB}M@{RAM_BASE:#x}-{:#x}",
            REACHED_MIB - pool,
            RAM_BASE + (u64::from(REACHED_MIB) << 20),
            pool_start(memory)
        ),
    }
}

/// Suffix of the parameters of a board's core. A single core uses the first names, whatever its type.
fn suffix(board: Board, core: Core) -> &'static str {
    match core {
        _ if board.cores().len() == 1 => "",
        Core::Gc320 | Core::Gc320Qp | Core::Gc520l => "2D",
        Core::Gc355 | Core::Gc355Qp => "VG",
        _ => "",
    }
}

/// Number of the first GIC interrupt that is a shared one.
const FIRST_SPI: u32 = 32;

/// Parameters of `galcore.ko`: the defaults of the binding, then `extra` ("name=value ..."). A name in `extra`
/// replaces the default of the same name.
pub fn module_parameters(board: Board, binding: Binding, memory: u32, extra: &str) -> Vec<String> {
    let mut parameters = Vec::new();
    if binding == Binding::Params {
        // The neural core has no parameters of these names.
        let placed = board.placed().filter(|(core, _)| *core != Core::Npu);
        for (core, place) in placed {
            let suffix = suffix(board, core);
            parameters.extend([
                format!("registerMemBase{suffix}={:#x}", place.registers),
                format!("registerMemSize{suffix}={:#x}", board.register_bytes()),
                format!("irqLine{suffix}={}", FIRST_SPI + place.interrupt),
            ]);
        }
    }
    let (start, bytes) = match board.soc() {
        Some(soc) => soc.pool(binding),
        None if memory > LOW_MIB => (None, u64::from(pool_mib(memory)) << 20),
        None => (Some(pool_start(memory)), u64::from(pool_mib(memory)) << 20),
    };
    parameters.extend(start.map(|start| format!("contiguousBase={start:#x}")));
    parameters.push(format!("contiguousSize={bytes:#x}"));
    for parameter in extra.split_whitespace() {
        let name = name_of(parameter);
        parameters.retain(|existing| name_of(existing) != name);
        parameters.push(parameter.to_string());
    }
    parameters
}

fn name_of(parameter: &str) -> &str {
    parameter
        .split_once('=')
        .map_or(parameter, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_binding_names_registers_and_interrupt() {
        assert_eq!(
            module_parameters(Board::Dove, Binding::Params, 512, ""),
            [
                "registerMemBase=0x10000000",
                "registerMemSize=0x40000",
                "irqLine=36",
                "contiguousBase=0x58000000",
                "contiguousSize=0x8000000",
            ]
        );
    }

    #[test]
    fn params_binding_names_every_core() {
        assert_eq!(
            module_parameters(Board::Imx6q, Binding::Params, 512, "")[..9],
            [
                "registerMemBase=0x10000000",
                "registerMemSize=0x40000",
                "irqLine=36",
                "registerMemBase2D=0x10040000",
                "registerMemSize2D=0x40000",
                "irqLine2D=38",
                "registerMemBaseVG=0x10080000",
                "registerMemSizeVG=0x40000",
                "irqLineVG=35",
            ]
        );
        let lines: Vec<_> = module_parameters(Board::Imx6sl, Binding::Params, 512, "")
            .into_iter()
            .filter(|parameter| parameter.starts_with("irqLine"))
            .collect();
        assert_eq!(lines, ["irqLine2D=36", "irqLineVG=38"]);
    }

    #[test]
    fn a_real_board_has_its_own_parameters() {
        let parameters = |board, binding| module_parameters(board, binding, 1024, "").join(" ");
        assert_eq!(
            parameters(Board::Sabrelite, Binding::Params),
            "registerMemBase=0x130000 registerMemSize=0x4000 irqLine=41 \
             registerMemBase2D=0x134000 registerMemSize2D=0x4000 irqLine2D=42 \
             registerMemBaseVG=0x2204000 registerMemSizeVG=0x4000 irqLineVG=43 \
             contiguousBase=0x34000000 contiguousSize=0xc000000"
        );
        assert_eq!(
            parameters(Board::SabreliteDl, Binding::Dt),
            "contiguousSize=0x4000000"
        );
        assert_eq!(
            parameters(Board::Imx8mpEvk, Binding::Params),
            "registerMemBase=0x38000000 registerMemSize=0x8000 irqLine=35 \
             registerMemBase2D=0x38008000 registerMemSize2D=0x8000 irqLine2D=57 \
             contiguousBase=0x74000000 contiguousSize=0xc000000"
        );
    }

    #[test]
    fn a_real_boards_tree_tells_its_cores() {
        let board = |tree| Board::Sabrelite.with_real_tree(tree);
        assert_eq!(board("imx6q-cubox-i").unwrap(), Board::Sabrelite);
        assert_eq!(board("imx6dl-cubox-i").unwrap(), Board::SabreliteDl);
        assert_eq!(board("/a/imx6qp-sabresd.dtb").unwrap(), Board::SabreliteQp);
        assert_eq!(
            board("imx8mm-phyboard-polis-rdk").unwrap(),
            Board::Imx8mmEvk
        );
        assert!(board("imx6sx-sdb").is_err());
        assert!(Board::Imx6q.with_real_tree("imx6q-cubox-i").is_err());
    }

    #[test]
    fn dt_binding_names_only_the_pool() {
        assert_eq!(
            module_parameters(Board::Dove, Binding::Dt, 1024, ""),
            ["contiguousBase=0x78000000", "contiguousSize=0x8000000"]
        );
        assert_eq!(
            module_parameters(Board::Gc3000, Binding::Dt, 5120, ""),
            ["contiguousSize=0x8000000"]
        );
    }

    #[test]
    fn the_pool_is_where_the_gpu_reaches_and_the_kernel_does_not() {
        for (memory, pool, arguments) in [
            (256, 0x4c00_0000, "mem=192M"),
            (512, 0x5800_0000, "mem=384M"),
            (1024, 0x7800_0000, "mem=896M"),
            (
                2048,
                0x7800_0000,
                "mem=896M@0x40000000 mem=1024M@0x80000000 cma=64M@0x40000000-0x78000000",
            ),
            (5120, 0x7800_0000, "cma=192M@0x74000000"),
        ] {
            assert_eq!(pool_start(memory), pool);
            assert_eq!(memory_arguments(memory), arguments);
        }
    }

    #[test]
    fn extra_parameters_replace_defaults() {
        assert_eq!(
            module_parameters(
                Board::Dove,
                Binding::Dt,
                512,
                " contiguousSize=0x400000  major=0 "
            ),
            [
                "contiguousBase=0x58000000",
                "contiguousSize=0x400000",
                "major=0"
            ]
        );
    }

    #[test]
    fn every_board_has_an_overlay_that_names_its_clocks() {
        let made_up = |board: &&Board| board.soc().is_none();
        for board in Board::value_variants().iter().filter(made_up) {
            assert_eq!(board.overlays().len(), board.cores().len());
            for overlay in board.overlays() {
                assert!(overlay.contains("clock-names"), "{}", board.name());
            }
        }
    }
}
