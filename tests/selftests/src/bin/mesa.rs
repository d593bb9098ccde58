// SPDX-License-Identifier: GPL-2.0-only
//! Debian's Mesa on etnaviv, with and without tile status, and its software renderer beside it: `mesa-pictures`
//! (`c/mesa.c`) looks at every pixel.

use std::path::Path;
use std::process::Command;
use std::process::ExitCode;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_selftests::control::Control;
use galcore_selftests::etnaviv;
use galcore_selftests::harness;
use galcore_selftests::harness::Suite;
use gpu_control::Board;

const PROGRAM: &str = "/galcore/bin/mesa-pictures";

/// What Mesa draws with.
struct Way {
    name: &'static str,
    /// What the renderer's name begins with.
    renderer: &'static str,
    environment: &'static [(&'static str, &'static str)],
    is_gpu: bool,
}

const WAYS: [Way; 3] = [
    Way {
        name: "softpipe",
        renderer: "softpipe",
        environment: &[
            ("LIBGL_ALWAYS_SOFTWARE", "1"),
            ("GALLIUM_DRIVER", "softpipe"),
            ("DRAW_USE_LLVM", "0"),
        ],
        is_gpu: false,
    },
    Way {
        name: "etnaviv",
        renderer: "Vivante",
        environment: &[],
        is_gpu: true,
    },
    Way {
        name: "etnaviv without tile status",
        renderer: "Vivante",
        environment: &[("ETNA_MESA_DEBUG", "no_ts")],
        is_gpu: true,
    },
];

/// A check that fails on silicon, too.
struct Known {
    board: Board,
    /// What its name begins with.
    name: &'static str,
    /// The first Mesa, by its major number, that was seen to be right.
    mended: u32,
}

impl Known {
    const fn on_gc2000(name: &'static str, mended: u32) -> Self {
        Self {
            board: Board::Gc2000,
            name,
            mended,
        }
    }
}

/// Copies and uploads around what was drawn on a GC2000, as `fbo.render` in Mesa's list of what dEQP finds wrong there.
/// What is drawn lies in a surface of its own, split between the pipes: Mesa takes back no more of it than what lies
/// around the part that is uploaded, into a texture that is the newer one then, and copies from a texture that has
/// nothing of it.
const FAILS_ON_SILICON: [Known; 6] = [
    Known::on_gc2000("upload part cleared rgba8888 64x64", u32::MAX),
    Known::on_gc2000("upload part cleared rgba8888 61x35", u32::MAX),
    Known::on_gc2000("upload part cleared rgba8888 130x70", u32::MAX),
    Known::on_gc2000("upload part cleared rgba8888 17x200", u32::MAX),
    Known::on_gc2000("upload part cleared rgba8888 256x128", u32::MAX),
    Known::on_gc2000("copy cleared ", 26),
];

/// What a program said of one of its checks.
struct Said {
    name: String,
    is_good: bool,
    detail: Vec<String>,
}

/// Runs all checks in a way, and reads what they say; the first is Mesa's major version.
fn run(way: &Way, texts: &[String]) -> Result<(u32, Vec<Said>)> {
    let before = Control::open()?.counters().resolves;
    let output = Command::new(PROGRAM)
        .args(texts)
        .env("MESA_SHADER_CACHE_DISABLE", "true")
        .envs(way.environment.iter().copied())
        .output()
        .context(PROGRAM)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = read(&text);
    let renderer = format!("# {}", way.renderer);
    let complete = text
        .lines()
        .find_map(|line| line.strip_prefix("1..")?.parse().ok())
        == Some(said.len());
    if !complete || !text.lines().any(|line| line.starts_with(&renderer)) {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {text}{errors}", output.status);
    }
    let resolves = Control::open()?.counters().resolves - before;
    ensure!(
        (resolves != 0) == way.is_gpu,
        "the GPU has resolved {resolves} times"
    );
    let version = text
        .split("Mesa ")
        .nth(1)
        .and_then(|rest| rest.split('.').next());
    let major = version.context("no version of Mesa")?.parse()?;
    Ok((major, said))
}

fn read(text: &str) -> Vec<Said> {
    let mut all = Vec::new();
    let mut detail = Vec::new();
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("# ") {
            detail.push(words.to_string());
        } else if let Some((result, name)) = line.split_once(" - ") {
            all.push(Said {
                name: name.to_string(),
                is_good: result.starts_with("ok"),
                detail: std::mem::take(&mut detail),
            });
        }
    }
    all
}

fn judge(said: &Said, is_known: bool) -> Result<()> {
    match (said.is_good, is_known) {
        (true, false) | (false, true) => Ok(()),
        (true, true) => bail!("it is right, though it fails on silicon"),
        (false, false) => bail!("{}", said.detail.join("\n")),
    }
}

fn main() -> ExitCode {
    harness::program(|| {
        let texts: Vec<String> = std::env::args().skip(1).collect();
        etnaviv::expect_breaches()?;
        etnaviv::load(Path::new(etnaviv::FOLDER))?;
        etnaviv::wait_for_node()?;
        etnaviv::stay_awake()?;
        let board = Control::open()?.board();
        let mut suite = Suite::new();
        for way in &WAYS {
            match run(way, &texts) {
                Ok((major, all)) => {
                    for said in all {
                        let is_known = way.is_gpu
                            && FAILS_ON_SILICON.iter().any(|known| {
                                Some(known.board) == board
                                    && said.name.starts_with(known.name)
                                    && major < known.mended
                            });
                        let name = format!("{}: {}", way.name, said.name);
                        suite.test(name, move || judge(&said, is_known));
                    }
                }
                Err(error) => {
                    suite.test(way.name, move || Err(error));
                }
            }
        }
        suite.run()
    })
}
