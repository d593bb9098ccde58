// SPDX-License-Identifier: GPL-2.0-only
//! etnaviv, the kernel's own driver for these GPUs, and other modules from a kernel's build folder.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use crate::initramfs::GuestFile;

/// Folder of its modules in the guest. They load in the order of their names.
pub const FOLDER: &str = "/galcore/etnaviv";

/// Folder of the modules that `/init` itself needs.
const EARLY: &str = "/galcore/early";

/// etnaviv and its dependencies from a kernel's build folder. Empty if they are built in; `None` if the kernel does
/// not have etnaviv.
pub fn modules(build: &Path) -> Option<Vec<GuestFile>> {
    Some(in_guest(FOLDER, of_build(build, &["etnaviv"])?))
}

/// Folder of the kernel's DRM in the guest, for galcore's own nodes.
const DRM: &str = "/galcore/drm";

/// Modules for the board's own devices, if the kernel does not have these drivers built in.
pub const OF_VIRT: &[&str] = &["virtio_pci", "virtio_console"];

/// Additional modules for the devices of its trees: regulators.
pub const OF_TREES: &[&str] = &["fixed"];

/// The kernel's DRM. Empty if it is built in or missing.
pub fn drm(build: &Path) -> Vec<GuestFile> {
    in_guest(DRM, of_build(build, &["drm"]).unwrap_or_default())
}

/// Those of the modules `names` that the kernel has, with their dependencies, for `/init`.
pub fn early(build: &Path, names: &[&str]) -> Vec<GuestFile> {
    let mut modules = Vec::new();
    for name in names {
        for module in of_build(build, &[name]).unwrap_or_default() {
            if !modules.contains(&module) {
                modules.push(module);
            }
        }
    }
    in_guest(EARLY, modules)
}

fn in_guest(folder: &str, modules: Vec<PathBuf>) -> Vec<GuestFile> {
    let files = modules.into_iter().enumerate().map(|(order, host)| {
        let name = host.file_name().unwrap_or_default().to_string_lossy();
        GuestFile {
            guest: format!("{folder}/{order:02}-{name}"),
            host,
        }
    });
    files.collect()
}

/// The modules `names` and their dependencies in load order, without drivers that are built in. `None` if a module is
/// missing.
fn of_build(build: &Path, names: &[&str]) -> Option<Vec<PathBuf>> {
    let list = |name: &str| fs::read_to_string(build.join(name)).unwrap_or_default();
    let (modules, builtin) = (list("modules.order"), list("modules.builtin"));
    let mut found = Vec::new();
    for name in names {
        add(build, &modules, &builtin, name, &mut found)?;
    }
    Some(found)
}

/// Adds the module `name` after its dependencies. Dependencies of the kernel's modules have no cycles.
fn add(
    build: &Path,
    modules: &str,
    builtin: &str,
    name: &str,
    found: &mut Vec<PathBuf>,
) -> Option<()> {
    let is_it = |line: &&str| {
        let stem = Path::new(line).file_stem().unwrap_or_default();
        stem.to_string_lossy().replace('-', "_") == name.replace('-', "_")
    };
    if builtin.lines().any(|line| is_it(&line)) {
        return Some(());
    }
    // Depending on the kernel's version, the lines name objects or modules.
    let file = build
        .join(modules.lines().find(is_it)?)
        .with_extension("ko");
    if found.contains(&file) {
        return Some(());
    }
    for needed in dependencies(&fs::read(&file).ok()?) {
        add(build, modules, builtin, &needed, found)?;
    }
    found.push(file);
    Some(())
}

/// The dependencies in a module's `.modinfo` section, which consists of strings.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|bytes| bytes == KEY) else {
        return Vec::new();
    };
    let text = module[at + KEY.len()..].split(|&byte| byte == 0).next();
    let names = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
    let names = names.split(',').filter(|name| !name.is_empty());
    names.map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(build: &Path, name: &str, content: &str) {
        let file = build.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    #[test]
    fn modules_come_behind_what_they_need() {
        let build = tempfile::tempdir().unwrap();
        let build = build.path();
        assert!(modules(build).is_none());
        write(
            build,
            "modules.order",
            "drm/etnaviv.o\ndrm/gpu-sched.o\ndrm/drm.o\n",
        );
        write(
            build,
            "drm/etnaviv.ko",
            "\u{7f}ELF\0license=x\0depends=drm,gpu-sched,i2c-core\0name=etnaviv\0",
        );
        write(build, "drm/gpu-sched.ko", "\0depends=drm\0");
        write(build, "drm/drm.ko", "\0depends=\0");
        // It is neither a module nor built in.
        assert!(modules(build).is_none());
        write(build, "modules.builtin", "kernel/drivers/i2c/i2c-core.ko\n");
        let files = modules(build).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.guest.as_str()).collect();
        assert_eq!(
            names,
            [
                "/galcore/etnaviv/00-drm.ko",
                "/galcore/etnaviv/01-gpu-sched.ko",
                "/galcore/etnaviv/02-etnaviv.ko"
            ]
        );
        assert_eq!(files[2].host, build.join("drm/etnaviv.ko"));
        fs::remove_file(build.join("drm/drm.ko")).unwrap();
        assert!(modules(build).is_none());
        assert!(early(build, OF_VIRT).is_empty());
        assert!(drm(build).is_empty());
        let names: Vec<_> = early(build, &["virtio_pci", "gpu-sched", "etnaviv"])
            .into_iter()
            .map(|file| file.guest)
            .collect();
        assert!(names.is_empty(), "drm is gone: {names:?}");
        write(build, "drm/drm.ko", "\0depends=\0");
        let files = early(build, &["virtio_pci", "drm", "gpu_sched"]);
        let names: Vec<_> = files.iter().map(|file| file.guest.as_str()).collect();
        assert_eq!(
            names,
            ["/galcore/early/00-drm.ko", "/galcore/early/01-gpu-sched.ko"]
        );
        let files = drm(build);
        assert_eq!(
            (files.len(), &*files[0].guest),
            (1, "/galcore/drm/00-drm.ko")
        );
        write(build, "modules.builtin", "kernel/drivers/gpu/drm/drm.ko\n");
        assert!(drm(build).is_empty());
        write(
            build,
            "modules.builtin",
            "kernel/drivers/gpu/drm/etnaviv/etnaviv.ko\n",
        );
        assert_eq!(modules(build), Some(Vec::new()));
    }
}
