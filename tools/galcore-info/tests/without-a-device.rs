// SPDX-License-Identifier: GPL-2.0-only
//! Tests the program without galcore, as on the computer of a user who has a library but no board yet.

use std::path::Path;
use std::process::Command;
use std::process::Output;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_galcore-info"));
    command.current_dir(folder).args(arguments);
    command.output().unwrap()
}

fn folder_with(version: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("\x7fELF\0$VERSION${version}$\0");
    std::fs::write(folder.path().join("libGAL.so"), text).unwrap();
    folder
}

#[test]
fn a_library_is_told() {
    let folder = folder_with("4.6.9:6622");
    let output = run(folder.path(), &["--library", "libGAL.so"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.ends_with("options galcore interface=4.1.0\n"),
        "{text}"
    );
}

#[test]
fn what_to_give_is_said() {
    let folder = folder_with("0.8.0:1998");
    let text = |arguments: &[&str]| {
        let output = run(folder.path(), arguments);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let open = text(&["--library", "libGAL.so"]);
    assert!(open.contains("with --core GC600: dove_old\n"), "{open}");
    // As the output suggests.
    let named = text(&["--library", "libGAL.so", "--core", "GC600"]);
    assert!(
        named.contains("\noptions galcore interface=dove_old\n"),
        "{named}"
    );
}

#[test]
fn a_report_is_written() {
    let folder = folder_with("4.6.9:6622");
    let output = run(folder.path(), &["--report", "--library", "libGAL.so"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(
        said.ends_with("the report is in galcore-report.txt\n"),
        "{said}"
    );
    let text = std::fs::read_to_string(folder.path().join("galcore-report.txt")).unwrap();
    for wanted in [
        "==== galcore-info ====\n",
        "interface=4.1.0\n",
        "==== /proc/driver/gc ====\n",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    // Another name, and a name that cannot be written.
    let output = run(folder.path(), &["--report", "-"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("==== galcore-info ====\n"));
    let output = run(folder.path(), &["--report", "no/such/folder"]);
    assert!(!output.status.success());
}

#[test]
fn words_of_the_ring_are_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let text = "job 0x2 of core 0 (2d), process 0, 2 words at 0x1000, its own 0 at 0x1000, ended\n\
                0x00001000 08010e00 00000001\n";
    std::fs::write(folder.path().join("ring"), text).unwrap();
    let output = run(folder.path(), &["--ring", "ring"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let last = "0x00001004 00000001   0x03800 GL.PIPE_SELECT = 2D\n";
    assert!(text.ends_with(last), "{text}");
    // A missing file, and a file that is not the driver's.
    for name in ["none", "other"] {
        std::fs::write(folder.path().join("other"), "other\n").unwrap();
        let output = run(folder.path(), &["--ring", name]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(name), "{said}");
    }
}
