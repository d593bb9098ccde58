// SPDX-License-Identifier: GPL-2.0-only
//! galcore-info, which owners of a board ask what they have: it says of each core what the driver says.

use std::process::ExitCode;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use serde_json::Value;

/// What it prints as JSON, and whether it says that the driver has answered.
fn info() -> Result<(Value, bool)> {
    let own = std::env::current_exe()?;
    let output = std::process::Command::new(own.with_file_name("galcore-info"))
        .arg("--json")
        .output()
        .context("galcore-info")?;
    let report = serde_json::from_slice(&output.stdout).context("galcore-info's JSON")?;
    Ok((report, output.status.success()))
}

/// The items of a list.
fn items<'a>(report: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    report[name]
        .as_array()
        .with_context(|| format!("{name} is no list"))
}

fn cores() -> Result<()> {
    let (report, answered) = info()?;
    same("the driver has answered", answered, true)?;
    let cores = items(&report, "cores")?;
    let count = Device::open()?.chip_info()?.count as usize;
    same("cores", cores.len(), count)?;
    for (number, core) in cores.iter().enumerate() {
        let identity = Device::open_core(number)?.identity()?;
        let wanted = format!("GC{:x}", identity.chip_model);
        same("chip", core["chip"].as_str(), Some(&wanted[..]))?;
        let wanted = Some(u64::from(identity.chip_revision));
        same("revision", core["revision"].as_u64(), wanted)?;
        // As many words as bits.
        let bits = identity.chip_features.count_ones()
            + identity.chip_minor_features.count_ones()
            + identity.chip_minor_features1.count_ones()
            + identity.chip_minor_features2.count_ones()
            + identity.chip_minor_features3.count_ones();
        same("features", items(core, "features")?.len(), bits as usize)?;
    }
    Ok(())
}

fn generations() -> Result<()> {
    let (report, _) = info()?;
    let spoken = items(&report, "generations")?.iter();
    let spoken: Vec<_> = spoken.filter_map(Value::as_str).collect();
    let all: Vec<_> = Abi::all().iter().map(|abi| abi.name).collect();
    same("generations", spoken, all)
}

fn holders() -> Result<()> {
    let (report, _) = info()?;
    let devices = items(&report, "devices")?;
    if devices.is_empty() {
        bail!("no core of the board is told of");
    }
    for device in devices {
        same("driver", device["driver"].as_str(), Some("galcore"))?;
    }
    let nodes = items(&report, "nodes")?.iter();
    let nodes: Vec<_> = nodes.filter_map(|node| node["path"].as_str()).collect();
    same("nodes", nodes, galcore_client::device::NODES.to_vec())
}

fn main() -> ExitCode {
    harness::program(|| {
        let mut suite = Suite::new();
        suite.test("each core, with its features in words", cores);
        suite.test("all generations of the interface are spoken", generations);
        suite.test("who has the board's cores, and the nodes", holders);
        suite.run()
    })
}
