// SPDX-License-Identifier: GPL-2.0-only
//! Draws a picture through /dev/galcore, compares every pixel with a software rendering of the same scene, and writes
//! a PNG. If there is a 3D core, an object then rotates in the picture. Its frames are compared too, and written as
//! an animated PNG.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use clap::Parser;
use galcore_client::draw;
use galcore_client::draw::Engine;
use galcore_client::render;
use galcore_client::render::Canvas;
use galcore_client::scene;
use galcore_client::turning;
use galcore_client::turning::show;
use galcore_client::turning::show::Turned;
use galcore_client::uapi::feature;
use galcore_client::uapi::QueryChipIdentity;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Rect;

/// Frames of half a turn. The object then looks the same.
const FRAMES: u32 = 16;
/// Frames per second.
const SPEED: u16 = 10;

/// Draws a picture through the galcore driver and checks every pixel of it.
#[derive(Parser)]
struct Options {
    /// Where to write the picture
    #[arg(long, default_value = "picture.png")]
    out: PathBuf,
    /// Where to write the animated picture, if a 3D core draws it [default: turning.png in the same folder]
    #[arg(long, value_name = "FILE")]
    animation: Option<PathBuf>,
    /// Number of frames of the animation; 0: no animation
    #[arg(long, value_name = "COUNT", default_value_t = FRAMES)]
    frames: u32,
    /// Print one line of JSON instead of text
    #[arg(long)]
    json: bool,
    /// Use this generation of the interface: dove, v2, v4, 4.0.0, 5.0.11.p8, 6.2.4.p2, 6.4.11, ...
    #[arg(long, value_name = "NAME", default_value = galcore_client::abi::OWN)]
    abi: String,
    /// Draw in software only, without the device: "2d" or "resolve"
    #[arg(long, value_name = "ENGINE")]
    software: Option<String>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(name) = &options.software {
        let engine = match name.as_str() {
            "2d" => Engine::TwoD,
            "resolve" => Engine::Resolve { pipes: 1 },
            _ => anyhow::bail!("--software: {name:?} is neither 2d nor resolve"),
        };
        let scene = scene::landscape(engine);
        let picture = &render::scene(&scene)[0];
        write_png(&options.out, picture)?;
        println!("picture {}", options.out.display());
        if let Some(path) = &options.animation {
            let place = turning::place(scene.size());
            let behind = part(picture, place);
            let frames = show::software(&behind, options.frames.max(1));
            write_animation(path, picture, place, &frames)?;
            println!("turning {}", path.display());
        }
        return Ok(ExitCode::SUCCESS);
    }

    let Some(abi) = Abi::named(&options.abi) else {
        let names: Vec<_> = Abi::all().into_iter().map(|abi| abi.name).collect();
        anyhow::bail!("--abi: {:?} is none of {}", options.abi, names.join(", "));
    };
    let (identities, mut clients) = start(abi)?;
    if !options.json {
        describe(&clients[0], &identities);
    }
    let engines: Vec<_> = clients.iter().map(Client::engine).collect();
    let scene = match engines[..] {
        [resolve, _] => scene::landscape_together(resolve),
        _ => scene::landscape(engines[0]),
    };
    let (surfaces, hand_overs) = draw::scene_together(&mut clients, &scene).context("drawing")?;
    let commits: u64 = clients.iter().map(Client::commits).sum();
    let (width, height) = scene.size();
    let drawn = Canvas {
        width,
        height,
        pixels: surfaces[0].pixels(),
    };
    write_png(&options.out, &drawn)?;
    let expected = &render::scene(&scene)[0];
    let differences = differences(&drawn, expected);

    let turned = match options.frames {
        0 => None,
        frames => show::turn(&mut clients, &surfaces[0], frames).context("turning")?,
    };
    let animation = options
        .animation
        .unwrap_or_else(|| options.out.with_file_name("turning.png"));
    if let Some(turned) = &turned {
        write_animation(&animation, &drawn, turned.place, &turned.frames)?;
    }
    let first = &clients[0];
    for surface in surfaces {
        first.release_surface(surface).context("release")?;
    }
    first.finish().context("waiting for the release")?;

    let path = options.out.display();
    if options.json {
        let identity = first.identity();
        println!(
            "{{\"chip\":\"{}\",\"model\":{},\"revision\":{},\"engine\":\"{}\",\"width\":{width},\"height\":{height},\
             \"operations\":{},\"commits\":{commits},\"handOvers\":{hand_overs},\"differences\":{},\
             \"picture\":\"{path}\"{}}}",
            chip_name(identity),
            identity.chip_model,
            identity.chip_revision,
            engine_names(&engines),
            scene.len(),
            differences.len(),
            turned
                .as_ref()
                .map_or_else(String::new, |turned| in_json(turned, &animation)),
        );
    } else {
        println!(
            "drawn    {width}x{height}, {} operations in {commits} commits{}",
            scene.len(),
            match hand_overs {
                0 => String::new(),
                _ => format!(", handed over between the cores {hand_overs} times"),
            }
        );
        println!(
            "checked  {} pixels against software, {} differ",
            drawn.pixels.len(),
            differences.len()
        );
        for (x, y, found, wanted) in differences.iter().take(8) {
            println!("         ({x}, {y}) is {found:08x}, should be {wanted:08x}");
        }
        println!("picture  {path}");
        if let Some(turned) = &turned {
            tell(turned, clients[turned.by].identity());
            println!("turning  {}", animation.display());
        }
    }
    let is_right = turned.is_none_or(|turned| turned.comparison.wrong == 0);
    Ok(if differences.is_empty() && is_right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints a description of the rotation.
fn tell(turned: &Turned, identity: &QueryChipIdentity) {
    let result = &turned.comparison;
    println!(
        "turned   {} frames of {} triangles by {}: {} of {} pixels differ by more than {}/255 from software, the \
         others by {} at most",
        turned.frames.len(),
        turned.triangles,
        chip_name(identity),
        result.wrong,
        result.object,
        turning::TOLERANCE,
        result.most.min(turning::TOLERANCE),
    );
}

fn in_json(turned: &Turned, animation: &Path) -> String {
    let result = &turned.comparison;
    format!(
        ",\"frames\":{},\"triangles\":{},\"turnedPixels\":{},\"turnedDifferences\":{},\"turnedMost\":{},\
         \"animation\":\"{}\"",
        turned.frames.len(),
        turned.triangles,
        result.object,
        result.wrong,
        result.most,
        animation.display(),
    )
}

/// Returns the identities of the driver's cores, and clients of the cores that draw: the first core, and if it has no
/// 2D engine, one core that has. If the generation cannot select other cores, only the first core.
fn start(abi: &'static Abi) -> Result<(Vec<QueryChipIdentity>, Vec<Client>)> {
    let first = Device::open_as(abi, true)?;
    let count = if abi.is_own() {
        first.chip_info()?.count.max(1) as usize
    } else {
        1
    };
    let first = Client::with_device(first).context("start-up")?;
    let mut identities = vec![*first.identity()];
    let mut clients = vec![first];
    for number in 1..count {
        let device = Device::open_core(number)?;
        let identity = device.identity()?;
        identities.push(identity);
        let is_wanted = clients[0].engine() != Engine::TwoD && clients.len() == 1;
        if is_wanted && identity.chip_features & feature::PIPE_2D != 0 {
            let client = Client::with_device(device);
            clients.push(client.with_context(|| format!("start-up on core {number}"))?);
        }
    }
    Ok((identities, clients))
}

/// The name of a core, for example GC600 for model 0x600.
fn chip_name(identity: &QueryChipIdentity) -> String {
    format!("GC{:x}", identity.chip_model)
}

fn engine_names(engines: &[Engine]) -> String {
    let names: Vec<_> = engines
        .iter()
        .map(|engine| match engine {
            Engine::TwoD => "2d",
            Engine::Resolve { .. } => "resolve",
        })
        .collect();
    names.join("+")
}

fn describe(client: &Client, identities: &[QueryChipIdentity]) {
    let version = client.version();
    println!(
        "driver   galcore {}.{}.{}.{}, spoken to as {}",
        version.major,
        version.minor,
        version.patch,
        version.build,
        client.device().abi().name
    );
    for id in identities {
        println!(
            "core     {} revision {:#x}, {}",
            chip_name(id),
            id.chip_revision,
            abilities(id)
        );
        println!(
            "features {:08x}, minor {:08x} {:08x} {:08x} {:08x}",
            id.chip_features,
            id.chip_minor_features,
            id.chip_minor_features1,
            id.chip_minor_features2,
            id.chip_minor_features3
        );
    }
    println!(
        "memory   {} KiB pool, base address {:#x}",
        client.pool().len() / 1024,
        client.base_address()
    );
}

/// The abilities of a core as text.
fn abilities(id: &QueryChipIdentity) -> String {
    let has = |bit| id.chip_features & bit != 0;
    let mut all = Vec::new();
    if has(feature::PIPE_3D) {
        all.push(format!(
            "3D with {} pixel pipe(s) and {} shader core(s)",
            id.pixel_pipes, id.shader_core_count
        ));
    }
    if has(feature::PIPE_2D) {
        all.push("2D".to_string());
    }
    if has(feature::PIPE_VG) {
        all.push("vector graphics".to_string());
    }
    all.join(", ")
}

fn differences(drawn: &Canvas, expected: &Canvas) -> Vec<(u32, u32, u32, u32)> {
    drawn
        .pixels
        .iter()
        .zip(&expected.pixels)
        .enumerate()
        .filter(|(_, (found, wanted))| found != wanted)
        .map(|(at, (found, wanted))| {
            (
                at as u32 % drawn.width,
                at as u32 / drawn.width,
                *found,
                *wanted,
            )
        })
        .collect()
}

/// The pixels of a part of a picture.
fn part(canvas: &Canvas, part: Rect) -> Vec<u32> {
    (part.y..part.bottom())
        .flat_map(|y| (part.x..part.right()).map(move |x| canvas.pixel(x, y)))
        .collect()
}

fn bytes(pixels: &[u32]) -> Vec<u8> {
    pixels
        .iter()
        .flat_map(|pixel| [(pixel >> 16) as u8, (pixel >> 8) as u8, *pixel as u8])
        .collect()
}

fn encoder(path: &Path, canvas: &Canvas) -> Result<png::Encoder<'static, BufWriter<File>>> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), canvas.width, canvas.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    Ok(encoder)
}

fn write_png(path: &Path, canvas: &Canvas) -> Result<()> {
    let mut writer = encoder(path, canvas)?.write_header()?;
    writer.write_image_data(&bytes(&canvas.pixels))?;
    Ok(())
}

/// Writes the picture with the first frame in it, then only the other frames, in an endless loop.
fn write_animation(path: &Path, picture: &Canvas, place: Rect, frames: &[Vec<u32>]) -> Result<()> {
    let mut encoder = encoder(path, picture)?;
    encoder.set_compression(png::Compression::Best);
    encoder.set_adaptive_filter(png::AdaptiveFilterType::Adaptive);
    encoder.set_animated(frames.len() as u32, 0)?;
    encoder.set_frame_delay(1, SPEED)?;
    let mut writer = encoder.write_header()?;
    let (first, others) = frames.split_first().context("no frames")?;
    let mut whole = picture.clone();
    for (row, pixels) in (place.y..).zip(first.chunks_exact(place.width as usize)) {
        let start = (row * picture.width + place.x) as usize;
        whole.pixels[start..start + pixels.len()].copy_from_slice(pixels);
    }
    writer.write_image_data(&bytes(&whole.pixels))?;
    for frame in others {
        writer.set_frame_dimension(place.width, place.height)?;
        writer.set_frame_position(place.x, place.y)?;
        writer.write_image_data(&bytes(frame))?;
    }
    writer.finish()?;
    Ok(())
}
