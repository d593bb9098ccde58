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
    let device = Device::open_as(abi, true)?;
    let mut client = Client::with_device(device).context("start-up")?;
    let identity = *client.identity();
    if !options.json {
        describe(&client);
    }
    let scene = scene::landscape(client.engine());
    let surfaces = draw::scene(&mut client, &scene).context("drawing")?;
    let commits = client.commits();
    let (width, height) = scene.size();
    let drawn = Canvas {
        width,
        height,
        pixels: surfaces[0].pixels(),
    };
    for surface in surfaces {
        client.release_surface(surface).context("release")?;
    }
    client.finish().context("waiting for the release")?;
    write_png(&options.out, &drawn)?;

    let expected = &render::scene(&scene)[0];
    let differences = differences(&drawn, expected);
    let path = options.out.display();
    if options.json {
        println!(
            "{{\"chip\":\"{}\",\"model\":{},\"revision\":{},\"engine\":\"{}\",\"width\":{width},\"height\":{height},\
             \"operations\":{},\"commits\":{commits},\"differences\":{},\"picture\":\"{path}\"}}",
            chip_name(&identity),
            identity.chip_model,
            identity.chip_revision,
            engine_name(client.engine()),
            scene.len(),
            differences.len(),
        );
    } else {
        println!(
            "drawn    {width}x{height}, {} operations in {commits} commits",
            scene.len()
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

/// GC600 for model 0x600.
fn chip_name(identity: &QueryChipIdentity) -> String {
    format!("GC{:x}", identity.chip_model)
}

fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::TwoD => "2d",
        Engine::Resolve { .. } => "resolve",
    }
}

fn describe(client: &Client) {
    let (version, id) = (client.version(), client.identity());
    println!(
        "driver   galcore {}.{}.{}.{}, spoken to as {}",
        version.major,
        version.minor,
        version.patch,
        version.build,
        client.device().abi().name
    );
    println!(
        "chip     {} revision {:#x}, {} pixel pipe(s), {} shader core(s)",
        chip_name(id),
        id.chip_revision,
        id.pixel_pipes,
        id.shader_core_count
    );
    println!(
        "features {:08x}, minor {:08x} {:08x} {:08x} {:08x}",
        id.chip_features,
        id.chip_minor_features,
        id.chip_minor_features1,
        id.chip_minor_features2,
        id.chip_minor_features3
    );
    println!(
        "memory   {} KiB pool, base address {:#x}",
        client.pool().len() / 1024,
        client.base_address()
    );
    println!(
        "engine   {}",
        match client.engine() {
            Engine::TwoD => "2D".to_string(),
            Engine::Resolve { pipes } => format!("resolve, {pipes} pipe(s)"),
        }
    );
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
