// SPDX-License-Identifier: GPL-2.0-only
//! The register values that the driver writes to a core after a reset, for each core. They are those of the core's
//! vendor driver; early cores get only the values of the driver of their time. The model reports accesses to features
//! that a core lacks.
//!
//! The module must be loaded.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::control::Control;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::same_word;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use gpu_control::counter;
use gpu_control::Board;
use gpu_control::POWER;

/// How long a core may take to power off.
const PATIENCE: Duration = Duration::from_secs(10);

const AXI_CONFIG: u64 = 0x008;
const POWER_CONTROLS: u64 = 0x100;
const MODULE_CONTROLS: u64 = 0x104;
const DEBUG_MEMORY: u64 = 0x414;

/// Bus reads and writes are cached.
const AXI_CACHED: u32 = 0x2200;
/// Modules whose clocks are not gated: hierarchical Z and early Z of the rasterizer, one unnamed module; primitive
/// assembly; textures.
const RASTERIZER: u32 = 3 << 16;
const UNNAMED: u32 = 1 << 15;
const ASSEMBLY: u32 = 1 << 4;
const TEXTURES: u32 = 1 << 7;
/// Fast clear and compression are disabled.
const NO_FAST_CLEAR: u32 = 1 << 20;
const NO_COMPRESSION: u32 = 1 << 21;

/// The expected register values.
struct Wanted {
    axi: u32,
    modules: u32,
    /// The bits of the memory controller that the driver may set.
    memory: u32,
}

fn wanted(board: Board) -> Result<Wanted> {
    Ok(match board {
        // An early core: only a switch of Dove's driver, and none of the later drivers' settings. It has no
        // compression.
        Board::Dove => Wanted {
            axi: 0,
            modules: 0,
            memory: NO_COMPRESSION,
        },
        // No fast clear, so none of its switches, but fewer outstanding requests.
        Board::Gc320 => Wanted {
            axi: AXI_CACHED,
            modules: RASTERIZER | UNNAMED,
            memory: 16,
        },
        Board::Gc880 => Wanted {
            axi: AXI_CACHED,
            modules: RASTERIZER | UNNAMED | ASSEMBLY,
            memory: 0,
        },
        Board::Gc2000 => Wanted {
            axi: AXI_CACHED,
            modules: RASTERIZER | UNNAMED | ASSEMBLY | TEXTURES,
            memory: 0,
        },
        board => bail!("not for {board:?}"),
    })
}

fn register(device: &Device, address: u64) -> Result<u32> {
    let (status, value) = device.ask("READ_REGISTER", &[("address", address)], "data")?;
    same("READ_REGISTER", status, Status::OK)?;
    Ok(value as u32)
}

fn registers(control: &Control) -> Result<()> {
    let board = control.board().context("a board")?;
    let wanted = wanted(board)?;
    let device = Device::open_as(Abi::named("4.0.0").context("a generation")?, true)?;
    let read = |address| register(&device, address);
    same_word("AXI configuration", read(AXI_CONFIG)?, wanted.axi)?;
    same("clock gating", read(POWER_CONTROLS)? & 3, 1)?;
    same_word("modules", read(MODULE_CONTROLS)?, wanted.modules)?;
    let mask = 0xff | 1 << 12 | NO_FAST_CLEAR | NO_COMPRESSION;
    same_word("memory", read(DEBUG_MEMORY)? & mask, wanted.memory)
}

/// A core that was powered off gets the same values again.
fn again(control: &Control) -> Result<()> {
    let resets = control.counter(counter::RESETS);
    system::may_sleep()?;
    eventually("off", PATIENCE, || Ok(control.read(POWER) == 0))?;
    system::stay_awake()?;
    let client = Device::open_as(Abi::named("4.0.0").context("a generation")?, true)?;
    client.stall()?;
    same(
        "it was reset",
        control.counter(counter::RESETS) > resets,
        true,
    )?;
    registers(control)
}

fn main() -> ExitCode {
    harness::program(|| {
        system::stay_awake()?;
        let control = Control::open()?;
        let mut suite = Suite::new();
        suite.test("at load", || registers(&control));
        suite.test("when it comes on again", || again(&control));
        suite.run()
    })
}
