// SPDX-License-Identifier: GPL-2.0-only
//! The boards: a GPU personality, a flavour of device tree, default parameters.

use anyhow::bail;
use anyhow::Result;
use clap::ValueEnum;
use serde::Deserialize;

/// Where the machine's RAM starts.
const RAM_BASE: u64 = 0x4000_0000;

/// Size of the RAM at the end that the kernel does not get: the contiguous pool.
const POOL_MIB: u32 = 128;

/// A board of the virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Board {
    /// Marvell Dove: GC600, 2D and 3D in one core.
    Dove,
    /// i.MX6 Quad: GC2000, 3D only.
    Imx6q,
    /// i.MX6 DualLite: GC880, 3D only.
    Imx6dl,
    /// i.MX6's 2D core alone: GC320.
    Gc320,
    /// i.MX6 QuadPlus: GC3000, 3D only, MMU version 2.
    Imx6qp,
}

impl Board {
    /// The name on the command line and for the GPU model.
    pub fn name(self) -> &'static str {
        match self {
            Board::Dove => "dove",
            Board::Imx6q => "imx6q",
            Board::Imx6dl => "imx6dl",
            Board::Gc320 => "gc320",
            Board::Imx6qp => "imx6qp",
        }
    }

    /// Source of the overlay that adds the GPU to the machine's device tree.
    pub fn overlay(self) -> &'static str {
        match self {
            Board::Dove => include_str!("../dts/dove.dts"),
            Board::Imx6q => include_str!("../dts/imx6q.dts"),
            Board::Imx6dl => include_str!("../dts/imx6dl.dts"),
            Board::Gc320 => include_str!("../dts/gc320.dts"),
            Board::Imx6qp => include_str!("../dts/imx6qp.dts"),
        }
    }
}

/// Source of an overlay that goes on top of a board's.
pub fn extra_overlay(name: &str) -> Result<&'static str> {
    match name {
        "pool-regions" => Ok(include_str!("../dts/pool-regions.dts")),
        _ => bail!("there is no device tree '{name}'; known: pool-regions"),
    }
}

/// How the driver learns of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// A `vivante,gc` node in the device tree.
    Dt,
    /// Module parameters alone.
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

/// RAM in MiB that the kernel may use (its `mem=`) on a machine with `memory` MiB.
pub fn kernel_memory(memory: u32) -> u32 {
    memory - POOL_MIB
}

/// The parameters `galcore.ko` is loaded with: the binding's defaults, then
/// `extra` ("name=value ..."), in which a name replaces the default of that name.
pub fn module_parameters(binding: Binding, memory: u32, extra: &str) -> Vec<String> {
    let mut parameters = Vec::new();
    if binding == Binding::Params {
        parameters.extend([
            "registerMemBase=0x10000000".to_string(),
            "registerMemSize=0x40000".to_string(),
            "irqLine=36".to_string(),
        ]);
    }
    let pool = RAM_BASE + (u64::from(kernel_memory(memory)) << 20);
    parameters.push(format!("contiguousBase={pool:#x}"));
    parameters.push(format!("contiguousSize={:#x}", u64::from(POOL_MIB) << 20));
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
            module_parameters(Binding::Params, 512, ""),
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
    fn dt_binding_names_only_the_pool() {
        assert_eq!(
            module_parameters(Binding::Dt, 1024, ""),
            ["contiguousBase=0x78000000", "contiguousSize=0x8000000"]
        );
    }

    #[test]
    fn extra_parameters_replace_defaults() {
        assert_eq!(
            module_parameters(Binding::Dt, 512, " contiguousSize=0x400000  major=0 "),
            [
                "contiguousBase=0x58000000",
                "contiguousSize=0x400000",
                "major=0"
            ]
        );
    }

    #[test]
    fn every_board_has_an_overlay_that_names_its_clocks() {
        for board in Board::value_variants() {
            assert!(board.overlay().contains("clock-names"), "{}", board.name());
        }
    }
}
