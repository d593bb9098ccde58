// SPDX-License-Identifier: GPL-2.0-only
//! Data from the kernel's files: nodes, devices and their drivers, and memory. Any of it may be missing.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

/// Compatible string of cores in a device tree.
const COMPATIBLE: &str = "vivante,gc";

/// A device node.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its path.
    pub path: String,
    /// Its permissions, in the format of `ls`.
    pub mode: String,
    /// Its user and group, as names if they have one, else as numbers.
    pub owner: String,
    /// Whether this process has access.
    pub may_open: bool,
}

/// A core, as the kernel knows it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct BoardDevice {
    /// The device's name.
    pub name: String,
    /// Its driver.
    pub driver: Option<String>,
}

/// Memory in KiB, from `/proc/driver/gc`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Size of the pool.
    pub pool_kib: u64,
    /// Used part of the pool.
    pub pool_used_kib: u64,
    /// Contiguous memory in use outside the pool, including the driver's own.
    pub contiguous_kib: u64,
    /// Memory in use that is allocated page by page.
    pub virtual_kib: u64,
}

/// The text of a file, trimmed.
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end_matches('\0').trim().to_string())
}

/// The name of user or group `id` in `/etc/passwd` or `/etc/group`, or the number.
fn name_of(table: &Path, id: u32) -> String {
    let entries = text(table).unwrap_or_default();
    let named = entries.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields[..] {
            [name, _, number, ..] if number.parse() == Ok(id) => Some(name.to_string()),
            _ => None,
        }
    });
    named.unwrap_or_else(|| id.to_string())
}

/// Whether this process may open a node, even if no device exists for it.
fn may_open(file: &Path) -> bool {
    let opened = fs::OpenOptions::new().read(true).write(true).open(file);
    opened.map_or_else(
        |error| error.kind() != ErrorKind::PermissionDenied,
        |_| true,
    )
}

/// The existing device nodes below `root`.
pub fn nodes(root: &Path) -> Vec<Node> {
    let known = galcore_client::device::NODES.iter();
    let found = known.filter_map(|path| {
        let file = root.join(path.trim_start_matches('/'));
        let metadata = fs::metadata(&file).ok()?;
        let letter = |bit: u32, letter: char| match metadata.mode() & bit {
            0 => '-',
            _ => letter,
        };
        let kind = if metadata.file_type().is_char_device() {
            'c'
        } else {
            '-'
        };
        let bits = (0..9)
            .rev()
            .map(|bit| letter(1 << bit, ['x', 'w', 'r'][bit % 3]));
        let user = name_of(&root.join("etc/passwd"), metadata.uid());
        let group = name_of(&root.join("etc/group"), metadata.gid());
        Some(Node {
            path: path.to_string(),
            mode: std::iter::once(kind).chain(bits).collect(),
            owner: format!("{user}:{group}"),
            may_open: may_open(&file),
        })
    });
    found.collect()
}

/// The cores in the device tree or in parameters, and their drivers, from `/sys`.
pub fn devices(sys: &Path) -> Vec<BoardDevice> {
    let entries = fs::read_dir(sys.join("bus/platform/devices"));
    let entries = entries.into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let path = entry.path();
        let name = entry.file_name().into_string().ok()?;
        let compatible = text(path.join("of_node/compatible")).unwrap_or_default();
        let is_core = compatible.split('\0').any(|word| word == COMPATIBLE);
        let is_described = name == "galcore" || name.starts_with("galcore.");
        let driver = fs::read_link(path.join("driver")).ok();
        let driver = driver.and_then(|link| Some(link.file_name()?.to_str()?.to_string()));
        (is_core || is_described).then_some(BoardDevice { name, driver })
    });
    let mut found: Vec<BoardDevice> = found.collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Parses `/proc/driver/gc`.
pub fn memory(text: &str) -> Option<Memory> {
    let numbers = |start: &str| -> Option<Vec<u64>> {
        let line = text.lines().find(|line| line.starts_with(start))?;
        let words = line.split(|letter: char| !letter.is_ascii_digit());
        Some(words.filter_map(|word| word.parse().ok()).collect())
    };
    let reserved = numbers("Total reserved video memory:")?;
    match (&reserved[..], &numbers("Used video mem:")?[..]) {
        (&[pool], &[used, contiguous, scattered]) => Some(Memory {
            pool_kib: pool,
            pool_used_kib: used,
            contiguous_kib: contiguous,
            virtual_kib: scattered,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn who_has_which_core() {
        let sys = tempfile::tempdir().unwrap();
        let devices_folder = sys.path().join("bus/platform/devices");
        let device = |name: &str, compatible: &str, driver: Option<&str>| {
            let folder = devices_folder.join(name);
            fs::create_dir_all(folder.join("of_node")).unwrap();
            fs::write(folder.join("of_node/compatible"), compatible).unwrap();
            if let Some(driver) = driver {
                symlink(format!("../../drivers/{driver}"), folder.join("driver")).unwrap();
            }
        };
        device("134000.gpu", "vivante,gc\0", Some("etnaviv-gpu"));
        device("130000.gpu", "fsl,imx6q-gpu\0vivante,gc\0", Some("galcore"));
        device("2204000.gpu", "vivante,gc\0", None);
        device("galcore.1", "", Some("galcore"));
        device("2000000.uart", "fsl,imx6q-uart\0", Some("imx-uart"));
        let found = devices(sys.path());
        let found: Vec<_> = found
            .iter()
            .map(|core| (&core.name[..], core.driver.as_deref()))
            .collect();
        let wanted = [
            ("130000.gpu", Some("galcore")),
            ("134000.gpu", Some("etnaviv-gpu")),
            ("2204000.gpu", None),
            ("galcore.1", Some("galcore")),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn nodes_with_their_group() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        put("dev/galcore", "");
        let node = fs::metadata(root.path().join("dev/galcore")).unwrap();
        put("etc/passwd", &format!("me:x:{}:0::/:\n", node.uid()));
        put(
            "etc/group",
            &format!("other:x:4000000:\ngalcore:x:{}:\n", node.gid()),
        );
        let found = nodes(root.path());
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0].path[..], &found[0].owner[..]),
            ("/dev/galcore", "me:galcore")
        );
        assert!(found[0].may_open && found[0].mode.starts_with("-rw-"));
    }

    #[test]
    fn memory_of_proc() {
        let text = "Total reserved video memory: 131072 KB\nUsed video mem: 128 KB\tcontiguous: 3000 KB\tvirtual: 4 KB\n";
        let found = memory(text).unwrap();
        assert_eq!(
            (found.pool_kib, found.pool_used_kib, found.virtual_kib),
            (131_072, 128, 4)
        );
        assert_eq!(memory(""), None);
    }
}
