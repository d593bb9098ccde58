// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own driver for GPUs of this kind, etnaviv: its modules for the guest.

use std::path::Path;

use crate::initramfs::GuestFile;

/// It and what it needs, in the folder where the kernel was built, in the order in which they are loaded.
const MODULES: [&str; 5] = [
    "drivers/i2c/i2c-core.ko",
    "drivers/gpu/drm/drm_panel_orientation_quirks.ko",
    "drivers/gpu/drm/drm.ko",
    "drivers/gpu/drm/scheduler/gpu-sched.ko",
    "drivers/gpu/drm/etnaviv/etnaviv.ko",
];

/// Where they are in the guest; the order of their names is that in which they are loaded.
pub const FOLDER: &str = "/galcore/etnaviv";

/// Its modules out of the folder where a kernel was built; `None`: that kernel has it not.
pub fn modules(build: &Path) -> Option<Vec<GuestFile>> {
    let files = MODULES.iter().enumerate().map(|(order, module)| {
        let name = module.rsplit('/').next().unwrap_or(module);
        GuestFile {
            host: build.join(module),
            guest: format!("{FOLDER}/{order}-{name}"),
        }
    });
    let files: Vec<_> = files.collect();
    files
        .iter()
        .all(|file| file.host.is_file())
        .then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_has_all_modules_or_none() {
        let build = tempfile::tempdir().unwrap();
        assert!(modules(build.path()).is_none());
        for module in MODULES {
            let file = build.path().join(module);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let files = modules(build.path()).unwrap();
        assert_eq!(files[4].guest, "/galcore/etnaviv/4-etnaviv.ko");
        std::fs::remove_file(&files[2].host).unwrap();
        assert!(modules(build.path()).is_none());
    }
}
