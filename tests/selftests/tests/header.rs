// SPDX-License-Identifier: GPL-2.0-only
//! The C header against the facts, with every C compiler that is there.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Whether the compiler exists and has the kernel's headers.
fn works(compiler: &[&str]) -> bool {
    let Ok(folder) = tempfile::tempdir() else {
        return false;
    };
    let source = folder.path().join("probe.c");
    let written = std::fs::write(
        &source,
        "#include <linux/types.h>\n#include <stddef.h>\n__u64 probe;\n",
    );
    let output = Command::new(compiler[0])
        .args(&compiler[1..])
        .arg("-fsyntax-only")
        .arg(&source)
        .output();
    written.is_ok() && output.is_ok_and(|output| output.status.success())
}

/// What the checks include: the facts of a generation, as C. The folder has it.
fn facts(file: &str, generation: &str) -> TempDir {
    let output = Command::new("awk")
        .arg("-f")
        .arg(path("c/facts.awk"))
        .arg(path(file))
        .arg(path(&format!("../abi/{generation}.txt")))
        .output()
        .expect("awk");
    assert!(
        output.status.success(),
        "{file}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("facts.inc"), output.stdout).expect("the facts");
    folder
}

fn check(compiler: &[&str], more: &[&str], file: &str) {
    let output = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"])
        .args(more)
        .arg("-I")
        .arg(path("../../include/uapi"))
        .arg(path(file))
        .output()
        .expect("the compiler was there a moment ago");
    assert!(
        output.status.success(),
        "{compiler:?} {more:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn header_has_the_layout_of_the_facts() {
    let mut tried = Vec::new();
    let files = [("c/layout.c", "4.0.0"), ("c/layout-newest.c", "6.4.11")]
        .map(|(file, generation)| (file, facts(file, generation)));
    for compiler in [
        &["cc"][..],
        &["cc", "-m32"],
        &["arm-linux-gnueabihf-gcc"],
        &["aarch64-linux-gnu-gcc"],
        &[
            "clang-19",
            "--target=arm-linux-gnueabihf",
            "-isystem",
            "/usr/arm-linux-gnueabihf/include",
        ],
    ] {
        if works(compiler) {
            for (file, facts) in &files {
                let folder = facts.path().to_str().expect("a plain name");
                check(compiler, &["-std=c11", "-I", folder], file);
            }
            tried.push(compiler.join(" "));
        }
    }
    println!("compilers: {}", tried.join(", "));
    assert!(!tried.is_empty(), "no C compiler: install gcc");
}

#[test]
fn header_can_be_used_from_cpp() {
    if works(&["c++", "-x", "c++"]) {
        for file in ["galcore.h", "galcore-4.0.0.h"] {
            let file = format!("../../include/uapi/linux/{file}");
            check(&["c++", "-x", "c++"], &["-std=c++17"], &file);
        }
    }
}
