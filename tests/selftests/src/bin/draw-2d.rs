// SPDX-License-Identifier: GPL-2.0-only
//! Operations of the 2D engine other than fills and copies: random scenes of each kind, compared with the software
//! rendering (`scenes-2d`).

use std::cell::RefCell;
use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::Surface;
use galcore_client::stream::Pipe;
use galcore_client::uapi::hardware;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Stream;
use galcore_scenes_2d::Core;
use galcore_scenes_2d::Go;
use galcore_scenes_2d::Kind;
use galcore_scenes_2d::Scene;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;

/// Bytes after the target that must not change.
const GUARD: usize = 256;
const GUARD_WORD: u32 = 0x5a5a_5a5a;

/// A client with memory for a scene.
struct Bench {
    client: Client,
    surfaces: Vec<Surface>,
    core: Core,
}

impl Bench {
    fn new(client: Client) -> Result<Self> {
        let surfaces = (0..4).map(|_| client.create_surface(128, 64));
        let surfaces = surfaces.collect::<Result<Vec<_>, _>>()?;
        let identity = client.identity();
        let core = Core::of([
            identity.chip_minor_features,
            identity.chip_minor_features1,
            identity.chip_minor_features2,
        ]);
        Ok(Self {
            client,
            surfaces,
            core,
        })
    }

    /// The words that draw a scene, and the surface that they draw to.
    fn stream(&self, scene: &Scene) -> Result<(Stream, &Surface)> {
        let mut stream = Stream::new();
        for (index, buffer) in scene.buffers.iter().enumerate() {
            let surface = self.surfaces.get(index).context("too many buffers")?;
            ensure!(buffer.bytes.len() + GUARD <= surface.memory.len());
            put(surface, &buffer.bytes)?;
            stream.state(buffer.state, surface.location.address);
        }
        // Consecutive states go into one command.
        let mut states = scene.states.as_slice();
        while let [(first, _), ..] = states {
            let follows =
                |(index, entry): &(usize, &(u32, u32))| entry.0 == first + 4 * *index as u32;
            let count = states.iter().enumerate().take_while(follows).count();
            let (some, rest) = states.split_at(count);
            let values: Vec<u32> = some.iter().map(|entry| entry.1).collect();
            stream.states(*first, &values);
            states = rest;
        }
        if let Go::Rectangles(words, data) = &scene.go {
            let header = 0x2000_0000 | (words.len() as u32 / 2) << 8 | (data.len() as u32) << 16;
            stream.raw(&[header, 0xdead_deed]).raw(words).raw(data);
            if data.len() % 2 == 1 {
                stream.raw(&[0]);
            }
            for _ in 0..3 {
                stream.state(4, 0);
            }
        }
        stream.flush(Pipe::Pipe2d);
        Ok((stream, &self.surfaces[0]))
    }

    fn draw(&mut self, scene: &Scene) -> Result<()> {
        let (stream, target) = self.stream(scene)?;
        let memory = target.memory.clone();
        let bytes = scene.wanted.len();
        for at in (bytes..bytes + GUARD).step_by(4) {
            memory.write(at, GUARD_WORD);
        }
        self.client.run(Pipe::Pipe2d, &stream)?;
        let words = (0..bytes).step_by(4).map(|at| memory.read(at));
        let found: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        if let Some((place, is, wanted)) = scene.differs(&found) {
            let text = &scene.text;
            anyhow::bail!("byte {place:#x} is {is:#x}, wanted {wanted:#x}: {text}");
        }
        for at in (bytes..bytes + GUARD).step_by(4) {
            same("a word behind it", memory.read(at), GUARD_WORD)?;
        }
        Ok(())
    }
}

/// Writes bytes to a surface's memory. The number of bytes must be a multiple of four.
fn put(surface: &Surface, bytes: &[u8]) -> Result<()> {
    let (words, rest) = bytes.split_at(bytes.len() & !3);
    ensure!(rest.is_empty(), "{} bytes", bytes.len());
    for (index, word) in words.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        surface.memory.write(4 * index, word);
    }
    Ok(())
}

/// A client of the core that has a 2D engine: the first core, or else the 2D core.
fn with_2d() -> Result<Option<(Client, Control)>> {
    let client = Client::start()?;
    if has_2d(client.identity()) {
        return Ok(Some((client, Control::open()?)));
    }
    let Ok(control) = Control::open_core(1) else {
        return Ok(None);
    };
    let mut device = Device::open()?;
    device.set_hardware_type(hardware::TYPE_2D);
    let client = Client::with_device(device)?;
    Ok(has_2d(client.identity()).then_some((client, control)))
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["count", "seed"])?;
        let count = options.number("count", 12)?;
        let first = options.number("seed", 0x2d)?;
        let Some((client, control)) = with_2d()? else {
            return skip("no core has a 2D engine");
        };
        let control = &control;
        let bench = &RefCell::new(Bench::new(client)?);
        let core = bench.borrow().core;
        let mut suite = Suite::new();
        for kind in Kind::ALL {
            suite.test(format!("{count} scenes: {kind:?}"), move || {
                if !kind.is_on(core) {
                    return skip("this core does not have it");
                }
                let (draws, violations) = (control.counters().draws_2d, control.violations());
                for seed in first..first + count {
                    let scene = Scene::new(kind, core, seed.into());
                    let drawn = bench.borrow_mut().draw(&scene);
                    drawn.with_context(|| format!("seed {seed}"))?;
                }
                same("violations", control.violations(), violations)?;
                let draws = control.counters().draws_2d - draws;
                ensure!(draws >= count.into(), "only {draws} draws");
                Ok(())
            });
        }
        suite.run()
    })
}
