// SPDX-License-Identifier: GPL-2.0-only
//! Debian's Mesa for the guest, on the kernel's own driver: the files that scripts/mesa downloads, etnaviv's modules,
//! and the program that moves the GPU to etnaviv.

use std::fs;
use std::path::Path;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::cli::Tools;
use crate::etnaviv;
use crate::initramfs::GuestFile;

/// The program that loads etnaviv and then executes another program.
pub const LAUNCHER: &str = "with-etnaviv";

/// All of these files.
pub fn files(tools: &Tools) -> Result<Vec<GuestFile>> {
    let mut files = launcher(tools)?;
    files.extend(libraries(tools, None)?);
    Ok(files)
}

/// The files that move the GPU to etnaviv. An image alone does not show which drivers are built in, so the guest
/// checks.
pub fn launcher(tools: &Tools) -> Result<Vec<GuestFile>> {
    let modules = match &tools.build {
        Some(build) => etnaviv::modules(build),
        None => Some(Vec::new()),
    };
    let Some(mut files) = modules else {
        bail!(
            "the kernel '{}' has no etnaviv, as a module or built in: armv7 has",
            tools.kernel
        );
    };
    files.push(GuestFile {
        host: tools.programs.join(LAUNCHER),
        guest: format!("/galcore/bin/{LAUNCHER}"),
    });
    Ok(files)
}

/// Debian's Mesa and its libraries. Files of the folder `own` at the same guest paths replace them. If `own` contains
/// `guest/`, as from scripts/mesa, it is used alone.
pub fn libraries(tools: &Tools, own: Option<&Path>) -> Result<Vec<GuestFile>> {
    let whole = own.map(|own| own.join("guest")).filter(|all| all.is_dir());
    let debians = tools
        .mesa_folder
        .as_ref()
        .map(|folder| folder.join("guest"));
    let Some(base) = whole.as_ref().or(debians.as_ref()) else {
        bail!("there is no Mesa (GALCORE_MESA): scripts/mesa fetches it, and says what is wrong if it cannot");
    };
    let mut files = Vec::new();
    below(base, "", &mut files)?;
    if let (Some(own), None) = (own, &whole) {
        let mut over = Vec::new();
        below(own, "", &mut over)?;
        over.retain(|file| is_of_use(&file.guest));
        if over.is_empty() {
            bail!("--mesa-dir {}: nothing of Mesa is there: 'meson install' with DESTDIR puts it there, at usr/lib/...", own.display());
        }
        files.retain(|file| over.iter().all(|own| own.guest != file.guest));
        files.extend(over);
    }
    Ok(files)
}

/// Whether a program needs the file at run time.
fn is_of_use(guest: &str) -> bool {
    let is_for_builds = [".a", ".la", ".pc", ".h"]
        .iter()
        .any(|end| guest.ends_with(end));
    !is_for_builds
}

/// Adds the files below a folder at their relative paths. Symbolic links are replaced by their targets.
fn below(folder: &Path, guest: &str, files: &mut Vec<GuestFile>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let host = entry.path();
        let guest = format!("{guest}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            below(&host, &guest, files)?;
        } else if host.is_file() {
            files.push(GuestFile { host, guest });
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

    #[test]
    fn an_own_mesa_lies_over_debians() {
        use clap::Parser;
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            file
        };
        let libc = write("debian/guest/lib/libc.so.6");
        write("debian/guest/lib/libEGL.so.1");
        let egl = write("own/lib/libEGL.so.1");
        write("own/include/egl.h");
        let cli = crate::cli::Cli::parse_from(["board", "run", "--", "x"]);
        let tools = Tools {
            mesa_folder: Some(folder.path().join("debian")),
            ..cli.tools
        };
        let hosts = |own: &str| -> Vec<_> {
            let files = libraries(&tools, Some(&folder.path().join(own))).unwrap();
            let mut hosts: Vec<_> = files.into_iter().map(|file| file.host).collect();
            hosts.sort();
            hosts
        };
        assert_eq!(hosts("own"), [libc, egl]);
        let alone = write("whole/guest/lib/libEGL.so.1");
        assert_eq!(hosts("whole"), [alone]);
        fs::create_dir(folder.path().join("empty")).unwrap();
        assert!(libraries(&tools, Some(&folder.path().join("empty"))).is_err());
    }
}
