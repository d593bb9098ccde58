// SPDX-License-Identifier: GPL-2.0-only
//! Draws a picture through /dev/galcore, compares every pixel with a software rendering of the same scene, and
//! writes a PNG.

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
use galcore_client::uapi::feature;
use galcore_client::uapi::QueryChipIdentity;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;

/// Draws a picture through the galcore driver and checks every pixel of it.
#[derive(Parser)]
struct Options {
    /// Where to write the picture
    #[arg(long, default_value = "picture.png")]
    out: PathBuf,
    /// Print one line of JSON instead of text
    #[arg(long)]
    json: bool,
    /// Speak this generation of the interface: dove, v2, v4, 4.0.0, 5.0.11.p8, 6.2.4.p2, 6.4.11, ...
    #[arg(long, value_name = "NAME", default_value = galcore_client::abi::OWN)]
    abi: String,
    /// Draw with software only, without the device: "2d" or "resolve"
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
        write_png(&options.out, &render::scene(&scene)[0])?;
        println!("picture {}", options.out.display());
        return Ok(ExitCode::SUCCESS);
    }

    let Some(abi) = Abi::named(&options.abi) else {
        let names: Vec<_> = Abi::all().iter().map(|abi| abi.name).collect();
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
    let first = &clients[0];
    for surface in surfaces {
        first.release_surface(surface).context("release")?;
    }
    first.finish().context("waiting for the release")?;
    write_png(&options.out, &drawn)?;

    let expected = &render::scene(&scene)[0];
    let differences = differences(&drawn, expected);
    let path = options.out.display();
    if options.json {
        let identity = first.identity();
        println!(
            "{{\"chip\":\"{}\",\"model\":{},\"revision\":{},\"engine\":\"{}\",\"width\":{width},\"height\":{height},\
             \"operations\":{},\"commits\":{commits},\"handOvers\":{hand_overs},\"differences\":{},\
             \"picture\":\"{path}\"}}",
            chip_name(identity),
            identity.chip_model,
            identity.chip_revision,
            engine_names(&engines),
            scene.len(),
            differences.len(),
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
    }
    Ok(match differences.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What each of the driver's cores is, and a client of those that draw: of the first, and if that has no 2D engine of
/// one that has. Where the generation cannot name others, of the first one alone.
fn start(abi: &'static Abi) -> Result<(Vec<QueryChipIdentity>, Vec<Client>)> {
    let first = Device::open_as(abi, true)?;
    let count = match abi.is_own() {
        true => first.chip_info()?.count.max(1) as usize,
        false => 1,
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

/// GC600 for model 0x600.
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

/// What a core can do, in words.
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

fn write_png(path: &Path, canvas: &Canvas) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), canvas.width, canvas.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let bytes: Vec<u8> = canvas
        .pixels
        .iter()
        .flat_map(|pixel| [(pixel >> 16) as u8, (pixel >> 8) as u8, *pixel as u8])
        .collect();
    encoder.write_header()?.write_image_data(&bytes)?;
    Ok(())
}
