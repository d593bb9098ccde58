// SPDX-License-Identifier: GPL-2.0-only
//! The machine's device tree with the board's GPU.
//!
//! QEMU generates the tree of its "virt" machine. The tree depends only on the number of processors and the memory,
//! so the runner dumps it once and caches it. Overlays from `dts/` add the GPU.

use std::fs;
use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::boards::extra_overlay;
use crate::boards::Board;
use crate::boards::BEHIND_IOMMU;
use crate::boards::LOW_MIB;
use crate::machine::Assets;
use crate::machine::Boot;

/// QEMU options for the machine with this much RAM in MiB, for the dump and for most boots. Devices stay below 4 GiB.
fn virt(memory: u32) -> &'static str {
    match memory {
        0..=LOW_MIB => "virt,highmem=off,memory-backend=ram",
        _ => "virt,highmem-ecam=off,highmem-mmio=off,memory-backend=ram",
    }
}

/// Option for the IOMMU of [`BEHIND_IOMMU`], without devices that use it: QEMU's IOMMU does not work with the GPU
/// model.
const IOMMU: &str = ",iommu=smmuv3,default-bus-bypass-iommu=on";

/// QEMU options for the machine of `boot`.
pub fn machine(boot: &Boot) -> String {
    let virt = virt(boot.memory);
    match boot.tree.as_str() {
        BEHIND_IOMMU => format!("{virt}{IOMMU}"),
        _ => virt.to_string(),
    }
}

/// Addition to QEMU's tree that the overlays need.
const LABELS: &str = "/ { __symbols__ { intc = \"/intc@8000000\"; }; };\n";

/// Makes the tree of `boot` in `dir`. Returns its path.
pub fn make(assets: &Assets, boot: &Boot, dir: &Path) -> Result<PathBuf> {
    let base = base_tree(assets, boot)?;
    let extra = boot.tree.as_str();
    let tree = dir.join("board.dtb");
    let mut merge = Command::new("fdtoverlay");
    merge.arg("-i").arg(base).arg("-o").arg(&tree);
    merge.args(compile_overlays(dir, boot.board, assets.module.is_some())?);
    if !extra.is_empty() {
        merge.arg(compile_overlay(dir, extra, extra_overlay(extra)?)?);
    }
    run(merge)?;
    Ok(tree)
}

/// The tree for cores that parameters describe. `None` if QEMU's own tree suits the board.
pub fn without_cores(assets: &Assets, boot: &Boot) -> Result<Option<PathBuf>> {
    match parent_place(boot.board) {
        ParentPlace::Root => Ok(None),
        ParentPlace::Bus => base_tree(assets, boot).map(Some),
    }
}

/// The machine's own tree, from the cache or from QEMU.
fn base_tree(assets: &Assets, boot: &Boot) -> Result<PathBuf> {
    let (qemu, cache) = (assets.qemu.as_path(), assets.cache.as_path());
    let processor = assets.processor.model();
    let (smp, memory) = (boot.smp, boot.memory);
    let place = parent_place(boot.board);
    let kept = cache.join(format!(
        "virt-{processor}-{smp}-{memory}-{place:?}-{:016x}.dtb",
        stamp(qemu)?
    ));
    if kept.exists() {
        return Ok(kept);
    }
    fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let dumped = tempfile::NamedTempFile::new_in(cache)
        .with_context(|| format!("cannot write to {}", cache.display()))?;
    let mut dump = Command::new(qemu);
    dump.arg("-M")
        .arg(format!(
            "{},dumpdtb={}",
            virt(memory),
            dumped.path().display()
        ))
        .args(["-cpu", processor, "-smp", &smp.to_string()])
        .args(["-m", &memory.to_string(), "-object"])
        .arg(format!(
            "memory-backend-memfd,id=ram,size={memory}M,share=on"
        ))
        .args(["-nodefaults", "-display", "none"]);
    run(dump)?;
    let labelled = tempfile::NamedTempFile::new_in(cache)?;
    label(dumped.path(), labelled.path(), place)?;
    // Another run may do the same; both rename files with equal content.
    labelled
        .persist(&kept)
        .with_context(|| format!("cannot make {}", kept.display()))?;
    Ok(kept)
}

/// The node with the interrupt parent of nodes that have none of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParentPlace {
    /// In the root node, like in QEMU's and Dove's trees.
    Root,
    /// In the SoC's bus, like in i.MX6's trees. The root has none.
    Bus,
}

fn parent_place(board: Board) -> ParentPlace {
    match board {
        Board::Dove => ParentPlace::Root,
        _ => ParentPlace::Bus,
    }
}

/// Moves the root's interrupt parent into a bus. Nodes with interrupts get their own copy of it.
fn parent_in_bus(source: &str) -> Result<String> {
    let is_parent = |line: &&str| line.starts_with("\tinterrupt-parent = ");
    let Some(parent) = source.lines().find(is_parent).map(str::trim) else {
        bail!("QEMU's device tree names no interrupt parent in its root");
    };
    let mut moved = String::new();
    for line in source.lines().filter(|line| !is_parent(line)) {
        moved.push_str(line);
        if line.trim().starts_with("interrupts = ") {
            moved.push_str(parent);
        }
        moved.push('\n');
    }
    moved.push_str(&format!(
        "/ {{ soc {{ compatible = \"simple-bus\"; #address-cells = <2>; #size-cells = <2>; ranges; {parent} }}; }};\n"
    ));
    Ok(moved)
}

/// Adds the labels that overlays refer to, which QEMU's tree lacks.
fn label(dumped: &Path, labelled: &Path, place: ParentPlace) -> Result<()> {
    let mut source = source(dumped)?;
    if place == ParentPlace::Bus {
        source = parent_in_bus(&source)?;
    }
    source.push_str(LABELS);
    let text = labelled.with_extension("dts");
    fs::write(&text, source).with_context(|| format!("cannot write {}", text.display()))?;
    let mut compile = Command::new("dtc");
    compile
        .args(["-q", "-I", "dts", "-O", "dtb", "-o"])
        .args([labelled, &text]);
    let result = run(compile);
    // A leftover file in the cache does no harm.
    let _ = fs::remove_file(&text);
    result.map(drop)
}

/// A number that changes with the QEMU binary.
fn stamp(qemu: &Path) -> Result<u64> {
    let facts = fs::metadata(qemu).with_context(|| format!("no {}", qemu.display()))?;
    let mut hasher = DefaultHasher::new();
    facts.len().hash(&mut hasher);
    facts
        .modified()
        .unwrap_or(SystemTime::UNIX_EPOCH)
        .hash(&mut hasher);
    Ok(hasher.finish())
}

/// Compiles a board's overlays. `controls_power` is true if the driver of the board's power controller is in the
/// guest, next to galcore.ko.
fn compile_overlays(dir: &Path, board: Board, controls_power: bool) -> Result<Vec<PathBuf>> {
    let texts = board.overlays().iter().enumerate();
    texts
        .map(|(number, text)| {
            let name = format!("board-{number}");
            if controls_power {
                compile_overlay(dir, &name, text)
            } else {
                compile_overlay(dir, &name, &without_power(text))
            }
        })
        .collect()
}

/// Changes an overlay so that the core's clock comes directly from the oscillator, and the core has no power domain.
/// Without the controller's driver, the core's driver would otherwise wait for it.
/// drives the controller.
fn without_power(overlay: &str) -> String {
    let mut text = String::new();
    for line in overlay
        .lines()
        .filter(|line| !line.contains("power-domains = "))
    {
        let is_clocks = line.trim_start().starts_with("clocks = ");
        text.push_str(&if is_clocks {
            line.replace("_power>", "_core_clock>")
        } else {
            line.to_string()
        });
        text.push('\n');
    }
    text
}

fn compile_overlay(dir: &Path, name: &str, text: &str) -> Result<PathBuf> {
    fs::write(dir.join("virt.dtsi"), include_str!("../dts/virt.dtsi"))?;
    let source = dir.join(name).with_extension("dts");
    fs::write(&source, text)?;
    let overlay = source.with_extension("dtbo");
    let mut compile = Command::new("dtc");
    compile
        .args(["-q", "-@", "-I", "dts", "-O", "dtb", "-i"])
        .arg(dir)
        .arg("-o")
        .arg(&overlay)
        .arg(&source);
    run(compile)?;
    Ok(overlay)
}

/// Decompiles a tree.
pub fn source(tree: &Path) -> Result<String> {
    let mut decompile = Command::new("dtc");
    decompile.args(["-q", "-I", "dtb", "-O", "dts"]).arg(tree);
    run(decompile)
}

/// Runs a short command. Returns its output, or its stderr as the error.
pub fn run(mut command: Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| {
        format!("cannot run {name}: start the board by scripts/board, which brings it")
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed ({}): {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    /// A replacement for QEMU's tree with the nodes that the overlays need.
    const BASE: &str = "/dts-v1/; / { #address-cells = <2>; #size-cells = <2>;
        interrupt-parent = <1>; timer { interrupts = <1 13 4>; }; intc@8000000 { #interrupt-cells = <3>; interrupt-controller;
        phandle = <1>; }; };";

    fn dtc_is_here() -> bool {
        Command::new("dtc").arg("--version").output().is_ok()
    }

    #[test]
    fn every_board_adds_its_gpu_to_the_tree() {
        if !dtc_is_here() {
            return;
        }
        for (&board, controls_power) in Board::value_variants()
            .iter()
            .filter(|board| board.soc().is_none())
            .flat_map(|board| [(board, true), (board, false)])
        {
            let dir = tempfile::tempdir().unwrap();
            let path = |name: &str| dir.path().join(name);
            fs::write(path("base.dts"), BASE).unwrap();
            let mut base = Command::new("dtc");
            base.args(["-q", "-I", "dts", "-O", "dtb", "-o"])
                .args([path("base.dtb"), path("base.dts")]);
            run(base).unwrap();
            let place = parent_place(board);
            label(&path("base.dtb"), &path("labelled.dtb"), place).unwrap();
            let mut merge = Command::new("fdtoverlay");
            merge.arg("-i").arg(path("labelled.dtb")).arg("-o");
            merge.arg(path("board.dtb"));
            merge.args(compile_overlays(dir.path(), board, controls_power).unwrap());
            run(merge).unwrap();
            let text = source(&path("board.dtb")).unwrap();
            let in_root = text.contains("\n\tinterrupt-parent = <0x01>;");
            assert_eq!(in_root, place == ParentPlace::Root, "{text}");
            let named = text.matches("interrupt-parent = <0x01>").count();
            assert!(in_root || named >= 3, "{text}");
            let nodes: Vec<_> = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("gpu@"))
                .collect();
            let places = board.placed().map(|(_, place)| place);
            let wanted: Vec<_> = places
                .map(|place| format!("{:x} {{", place.registers))
                .collect();
            assert_eq!(nodes, wanted, "{}: {text}", board.name());
            for (_, place) in board.placed() {
                let interrupt = format!("interrupts = <0x00 {:#04x} 0x04>", place.interrupt);
                assert!(text.contains(&interrupt), "{}: {text}", board.name());
            }
            assert_eq!(text.contains("power-domains"), controls_power, "{text}");
            assert!(text.contains("vivante,gc"), "{}: {text}", board.name());
            assert!(text.contains("clock-names"), "{}: {text}", board.name());
        }
    }
}
