// SPDX-License-Identifier: GPL-2.0-only
//! Debian's Mesa on etnaviv, with and without tile status, and its software renderer for comparison. `mesa-pictures`
//! (`c/mesa.c`) checks every pixel of clears and copies. `mesa-shaders` (`c/gles.c`) compares the output of shaders
//! with the software renderer's. With `--beside`, Mesa draws on galcore's node while a client of `/dev/galcore` draws
//! on the same core.
//!
//! usage: `mesa [--all] [--galcore] [TEXT]...` (TEXT: only checks whose names contain one of the texts; `--all`: all
//! scenes of shaders, all ways; `--galcore`: on galcore's node of etnaviv's interface)
//!
//! usage: `mesa --beside N` (at least N pictures of each)

use std::path::Path;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_selftests::control::Control;
use galcore_selftests::etnaviv;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::system::Module;
use gpu_control::Board;

const PICTURES: &str = "/galcore/bin/mesa-pictures";
const SHADERS: &str = "/galcore/bin/mesa-shaders";
/// Directory of the software renderer's pictures.
const KEPT: &str = "/tmp/mesa-shaders";

/// A renderer for Mesa.
struct Way {
    name: &'static str,
    /// Prefix of the renderer's name.
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

/// A check that fails because of a Mesa bug, independent of the GPU.
struct Known {
    board: Board,
    name: &'static str,
    /// Exact number of wrong pixels. Each must have its value from before the clear.
    wrong: u32,
    /// The first major version of Mesa that was seen without the bug.
    mended: u32,
}

impl Known {
    const fn upload(name: &'static str, wrong: u32) -> Self {
        Self {
            board: Board::Gc2000,
            name,
            wrong,
            mended: u32::MAX,
        }
    }

    const fn copy(name: &'static str, wrong: u32) -> Self {
        Self {
            board: Board::Gc2000,
            name,
            wrong,
            mended: 26,
        }
    }

    /// Whether the check's output shows exactly this failure.
    fn is_seen_in(&self, said: &Said) -> bool {
        let wrong = self.wrong;
        let (start, middle) = (
            format!("{wrong} of "),
            format!(", {wrong} as before the clear, "),
        );
        let mut lines = said.detail.iter();
        lines.any(|line| line.starts_with(&start) && line.contains(&middle))
    }
}

/// Mesa's bugs on a GC2000, where no layout works both as a texture and as a render target. A texture that is rendered
/// to has a second resource, super-tiled and split between the pipes (`etna_render_handle_incompatible`), and sequence
/// numbers show which of the two is newer. Both bugs happen on the CPU, without a command that a GPU could execute
/// differently. With one resource, as on the other boards, neither happens. The checks upload a picture, clear it, and
/// continue from there.
///
/// `upload part cleared`, `etna_transfer_map` and `_unmap`: the surroundings of the part are copied from the render
/// resource, the newer one, but only as far as the resolve engine's alignment requires: from a multiple of 64 columns
/// and 128 rows to the next multiple of 16 and 4. They go to the texture with the part, and then the whole texture
/// counts as newer. The area outside, to the right and below here, keeps the texture's contents from before the clear.
/// In Mesa's list for GC2000 silicon that is `dEQP-GLES2.functional.fbo.render.texsubimage.*`, all four.
///
/// `copy cleared`, `st_CopyTexSubImage` and `etna_blit`: the source of the blit is the texture, and before Mesa 26
/// (whose `etna_blit` does it) no code checks whether its render resource is newer. The whole copy is from before the
/// clear. On silicon that is piglit's `fast_color_clear@fcc-read-after-clear copy tex` and `fbo-copyteximage`.
static FAILS_BY_MESA: [Known; 12] = [
    // The part with its surroundings is 64 x 56 from 0,0 on, 64 x 28, 112 x 60, 16 x 168, and 160 x 108 from 64,0 on.
    Known::upload("upload part cleared rgba8888 64x64", 64 * 64 - 64 * 56),
    Known::upload("upload part cleared rgba8888 61x35", 61 * 35 - 61 * 28),
    Known::upload("upload part cleared rgba8888 130x70", 130 * 70 - 112 * 60),
    Known::upload("upload part cleared rgba8888 17x200", 17 * 200 - 16 * 168),
    Known::upload(
        "upload part cleared rgba8888 256x128",
        256 * 128 - 160 * 108,
    ),
    Known::copy("copy cleared rgba8888 64x64", 64 * 64),
    Known::copy("copy cleared rgba8888 61x35", 61 * 35),
    Known::copy("copy cleared rgba8888 130x70", 130 * 70),
    Known::copy("copy cleared rgba8888 16x4", 16 * 4),
    Known::copy("copy cleared rgba8888 1x1", 1),
    Known::copy("copy cleared rgba8888 17x200", 17 * 200),
    Known::copy("copy cleared rgba8888 256x128", 256 * 128),
];

/// A scene that is skipped on a board because Mesa uses a feature that the core lacks, with the reason.
struct Left {
    board: Board,
    name: &'static str,
    why: &'static str,
}

const fn left_on_dove(name: &'static str, why: &'static str) -> Left {
    Left {
        board: Board::Dove,
        name,
        why,
    }
}

/// GC600 is older than the cores that Mesa's driver is tested on.
static LEFT_OUT: [Left; 6] = [
    left_on_dove(
        "indices of 32 bits",
        "Mesa offers GL_OES_element_index_uint, and the core has no such indices",
    ),
    left_on_dove("whole numbers", NO_FLOOR),
    left_on_dove("a variable's place", NO_FLOOR),
    left_on_dove("vertex shader 2", NO_FLOOR),
    left_on_dove(
        "place in the window",
        "the core's pixel shaders do not get w, and Mesa lets them read it",
    ),
    // The target has a separate texture for reading, as on a GC2000. Between the second draw and the read there is
    // neither a resolve nor a wait for the GPU: the trace shows that the CPU copies the cleared picture.
    left_on_dove(
        "drawn and read 1",
        "Mesa does not copy what was drawn to the texture that is read",
    ),
];

const NO_FLOOR: &str = "Mesa makes whole numbers with floor, which the core does not have";

/// The result of one check that a program printed.
struct Said {
    name: String,
    is_good: bool,
    detail: Vec<String>,
}

/// Runs all checks of a program with one renderer and parses their results. Also returns Mesa's major version.
fn run(program: &str, way: &Way, words: &[&str], texts: &[String]) -> Result<(u32, Vec<Said>)> {
    run_beside(program, way, words, texts, || {
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    })
}

/// Like [`run`], and repeats `work` until the program has exited.
fn run_beside(
    program: &str,
    way: &Way,
    words: &[&str],
    texts: &[String],
    mut work: impl FnMut() -> Result<()>,
) -> Result<(u32, Vec<Said>)> {
    let before = Control::open()?.counters();
    let begun = Instant::now();
    let child = Command::new(program)
        .args(words)
        .args(texts)
        .env("MESA_SHADER_CACHE_DISABLE", "true")
        .envs(way.environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| program.to_string())?;
    let output = std::thread::scope(|scope| {
        let output = scope.spawn(|| child.wait_with_output());
        while !output.is_finished() {
            work()?;
        }
        let output = output.join();
        Ok::<_, anyhow::Error>(output.map_err(|_| anyhow!("a thread has panicked"))??)
    })?;
    println!("# {program} with {}: {:.1?}", way.name, begun.elapsed());
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
    let after = Control::open()?.counters();
    let resolves = after.resolves - before.resolves;
    let draws = after.draws_3d - before.draws_3d;
    ensure!(
        said.is_empty() || (resolves != 0) == way.is_gpu,
        "the GPU has resolved {resolves} times"
    );
    ensure!(
        said.is_empty() || program != SHADERS || (draws != 0) == way.is_gpu,
        "the GPU has drawn {draws} times"
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

fn judge(said: &Said, known: Option<&Known>) -> Result<()> {
    match (said.is_good, known) {
        (true, None) => Ok(()),
        (true, Some(_)) => bail!("it is right, though Mesa gets it wrong"),
        (false, Some(known)) if known.is_seen_in(said) => Ok(()),
        (false, Some(known)) => bail!(
            "not the {} pixels that Mesa gets wrong:\n{}",
            known.wrong,
            said.detail.join("\n")
        ),
        (false, None) => bail!("{}", said.detail.join("\n")),
    }
}

/// The scenes that Mesa draws while a client draws.
const SCENES: [&str; 3] = ["smooth triangles", "sprites", "filtered texels 1"];

/// Mesa draws the scenes on the node, with `words` as additional arguments. Meanwhile this program draws as a client of
/// `/dev/galcore`, at least `count` times.
fn draw_beside(paint: &mut Paint, words: &[&str], count: u32) -> Result<()> {
    let texts = SCENES.map(str::to_string);
    let words = [&["--compare", KEPT], words].concat();
    let mut drawn = 0;
    let mut draw = || {
        drawn += 1;
        paint.prove(0x8800_0000 | drawn)
    };
    let (_, all) = run_beside(SHADERS, &WAYS[1], &words, &texts, &mut draw)?;
    same("scenes", all.len(), SCENES.len())?;
    for said in &all {
        judge(said, None).with_context(|| said.name.clone())?;
    }
    while drawn < count {
        drawn += 1;
        paint.prove(0x8800_0000 | drawn)?;
    }
    println!("# the client has drawn {drawn} times");
    Ok(())
}

/// Mesa and a client of `/dev/galcore` share one core.
fn beside(count: u32) -> Result<bool> {
    etnaviv::load_galcore(&["gpuTimeout=2000"])?;
    std::fs::create_dir_all(KEPT).context(KEPT)?;
    run(
        SHADERS,
        &WAYS[0],
        &["--keep", KEPT],
        &SCENES.map(str::to_string),
    )?;
    let mut suite = Suite::new();
    suite.test(format!("{count} pictures of each"), move || {
        let times = count.div_ceil(SCENES.len() as u32).to_string();
        let mut paint = Paint::new()?;
        draw_beside(&mut paint, &["--times", &times], count)?;
        same("resets", paint.device().resets()?, (0, 0, 0))?;
        paint.close()
    });
    suite.test("Mesa's shader does not end", move || {
        let mut paint = Paint::new()?;
        for round in 1..=3 {
            draw_beside(&mut paint, &["--hang"], 10)?;
            same(
                "the client's resets",
                paint.device().resets()?,
                (0, round, 0),
            )?;
        }
        paint.close()
    });
    let outcome = suite.run()?;
    Module::unload()?;
    Ok(outcome)
}

fn main() -> ExitCode {
    harness::program(|| {
        let mut texts: Vec<String> = std::env::args().skip(1).collect();
        if let [word, count] = &*texts {
            if word == "--beside" {
                return beside(count.parse().context("a number of pictures")?);
            }
        }
        let before = texts.len();
        texts.retain(|text| text != "--all");
        let is_all = texts.len() < before;
        let before = texts.len();
        texts.retain(|text| text != "--galcore");
        let is_galcore = texts.len() < before;
        if is_galcore {
            etnaviv::load_galcore(&[])?;
        } else {
            etnaviv::expect_breaches()?;
            etnaviv::load(Path::new(etnaviv::FOLDER))?;
            etnaviv::wait_for_node()?;
            etnaviv::stay_awake()?;
        }
        let board = Control::open()?.board();
        let mut suite = Suite::new();
        // The right pictures are known. The software renderer's pictures are only checked with `--all`.
        for way in WAYS.iter().filter(|way| way.is_gpu || is_all) {
            match run(PICTURES, way, &[], &texts) {
                Ok((major, all)) => {
                    for said in all {
                        let known = FAILS_BY_MESA.iter().find(|known| {
                            way.is_gpu
                                && Some(known.board) == board
                                && said.name == known.name
                                && major < known.mended
                        });
                        let name = format!("{}: {}", way.name, said.name);
                        suite.test(name, move || judge(&said, known));
                    }
                }
                Err(error) => {
                    suite.test(way.name, move || Err(error));
                }
            }
        }
        std::fs::create_dir_all(KEPT).context(KEPT)?;
        for left in LEFT_OUT.iter().filter(|left| Some(left.board) == board) {
            texts.push(format!("!{}", left.name));
            let name = format!("shaders: {}", left.name);
            suite.test(name, move || harness::skip(left.why));
        }
        // The software renderer runs first. The way without tile status only runs with `--all`.
        for way in &WAYS[..if is_all { 3 } else { 2 }] {
            let mode = if way.is_gpu { "--compare" } else { "--keep" };
            let words = [mode, KEPT, "--some"];
            match run(SHADERS, way, &words[..if is_all { 2 } else { 3 }], &texts) {
                Ok((_, all)) => {
                    for said in all {
                        let name = format!("{}: shaders: {}", way.name, said.name);
                        suite.test(name, move || judge(&said, None));
                    }
                }
                Err(error) => {
                    suite.test(format!("{}: shaders", way.name), move || Err(error));
                }
            }
        }
        let outcome = suite.run();
        if is_galcore {
            Module::unload()?;
        }
        outcome
    })
}
