// SPDX-License-Identifier: GPL-2.0-only
//! Debian's Mesa for the guest, on the kernel's own driver: what scripts/mesa has fetched, etnaviv's modules, and the
//! program that hands the GPU over to it.

use std::fs;
use std::path::Path;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::cli::Tools;
use crate::etnaviv;
use crate::initramfs::GuestFile;

/// The program that loads etnaviv and becomes another one.
pub const LAUNCHER: &str = "with-etnaviv";

/// All of it for the guest.
pub fn files(tools: &Tools) -> Result<Vec<GuestFile>> {
    let Some(folder) = &tools.mesa_folder else {
        bail!("there is no Mesa (GALCORE_MESA): scripts/mesa fetches it, and says what is wrong if it cannot");
    };
    let Some(mut files) = tools.build.as_deref().and_then(etnaviv::modules) else {
        bail!(
            "the kernel '{}' has no etnaviv among its modules: armv7 has",
            tools.kernel
        );
    };
    files.push(GuestFile {
        host: tools.programs.join(LAUNCHER),
        guest: format!("/galcore/bin/{LAUNCHER}"),
    });
    below(&folder.join("guest"), "", &mut files)?;
    Ok(files)
}

/// Adds the files below a folder, at their paths in it.
fn below(folder: &Path, guest: &str, files: &mut Vec<GuestFile>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let host = entry.path();
        let guest = format!("{guest}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => below(&host, &guest, files)?,
            false => files.push(GuestFile { host, guest }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("usr/lib");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("libEGL.so.1"), "").unwrap();
        let mut files = Vec::new();
        below(folder.path(), "", &mut files).unwrap();
        assert_eq!(
            files,
            [GuestFile {
                host: deep.join("libEGL.so.1"),
                guest: "/usr/lib/libEGL.so.1".to_string(),
            }]
        );
        assert!(below(&folder.path().join("none"), "", &mut files).is_err());
    }
}
