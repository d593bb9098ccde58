// SPDX-License-Identifier: GPL-2.0-only
//! Cost of 3D draws on the host: command streams through the whole model, on plain memory, as a GC880. Measures a frame
//! on one thread and on two: processor time of the busier thread, and elapsed time. Each value is the best of many
//! runs, because other load on the host only adds time. On a busy host only processor time is meaningful. Both runs
//! must draw and count the same.
//!
//! usage: cargo bench -p gpu-model [-- NAME]

use std::time::Duration;
use std::time::Instant;

use gpu_control::counter;
use gpu_control::Board;
use gpu_isa::assemble;
use gpu_model::gpu::Gpu;
use gpu_model::gpu::Options;
use gpu_model::registers::state::*;
use gpu_model::registers::*;
use rustix::time::clock_gettime;
use rustix::time::ClockId;

/// Guest RAM, and the address of GPU address 0.
const RAM: u32 = 0x4000_0000;
const RAM_BYTES: usize = 16 << 20;
const BUFFER: u32 = 0x1000;
const TABLE: u32 = 0x10_0000;
const COLOUR: u32 = 0x20_0000;
const DEPTH: u32 = 0x40_0000;
const VERTICES: u32 = 0x60_0000;
const TEXTURE: u32 = 0x70_0000;
const TEXELS: u32 = 256;
/// Width and height in pixels.
const SIZE: [u32; 2] = [640, 480];
const FRAMES: usize = 60;

/// Processor time of this thread, and of all other threads.
fn used() -> [Duration; 2] {
    let [this, all] = [ClockId::ThreadCPUTime, ClockId::ProcessCPUTime].map(|clock| {
        let now = clock_gettime(clock);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    });
    [this, all.saturating_sub(this)]
}

/// A scene: pixel shader, vertices of position and color, and number of triangles.
struct Scene {
    name: &'static str,
    pixel_shader: String,
    vertices: Vec<[f32; 8]>,
    /// Minimum and maximum number of pixels drawn.
    pixels: [u64; 2],
}

/// A quadrangle over this fraction of the target, from its top left corner.
fn sheet([right, bottom]: [f32; 2]) -> Vec<[f32; 8]> {
    let corner = |x: f32, y: f32| [2.0 * x - 1.0, 2.0 * y - 1.0, 0.0, 1.0, x, y, 0.5, 1.0];
    [
        [0.0, 0.0],
        [right, 0.0],
        [right, bottom],
        [0.0, 0.0],
        [right, bottom],
        [0.0, bottom],
    ]
    .map(|[x, y]| corner(x, y))
    .to_vec()
}

/// The whole target as columns and rows of quadrangles.
fn mesh([columns, rows]: [usize; 2]) -> Vec<[f32; 8]> {
    let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| [column, row]));
    let corners = cells.flat_map(|[column, row]| {
        let places = [[0, 0], [1, 0], [1, 1], [0, 0], [1, 1], [0, 1]];
        places.map(|[right, down]| {
            let x = (column + right) as f32 / columns as f32;
            let y = (row + down) as f32 / rows as f32;
            [2.0 * x - 1.0, 2.0 * y - 1.0, 0.0, 1.0, x, y, 0.5, 1.0]
        })
    });
    corners.collect()
}

/// The cube of kmscube: rotated and seen from nearby, about an eighth of the target.
fn cube() -> Vec<[f32; 8]> {
    let mut vertices = Vec::new();
    for axis in 0..3 {
        for side in [-1.0f32, 1.0] {
            for [a, b] in [[-1, -1], [1, -1], [1, 1], [-1, -1], [1, 1], [-1, 1]] {
                let mut place = [0.0; 3];
                place[axis] = side;
                place[(axis + 1) % 3] = a as f32 * side;
                place[(axis + 2) % 3] = b as f32;
                let [x, y, z] = place;
                let (x, z) = (0.8 * x + 0.6 * z, 0.8 * z - 0.6 * x);
                let (y, z) = (0.8 * y + 0.6 * z, 0.8 * z - 0.6 * y);
                let colour = place.map(|at| at * 0.5 + 0.5);
                vertices.push([
                    1.6 * x,
                    2.1 * y,
                    z,
                    z + 6.0,
                    colour[0],
                    colour[1],
                    colour[2],
                    1.0,
                ]);
            }
        }
    }
    vertices
}

fn scenes() -> Vec<Scene> {
    let whole = u64::from(SIZE[0] * SIZE[1]);
    let long: String = (0..15)
        .map(|_| "mul t2, t1, t1.yzwx\nmad t1, t2, t1, t1.wzyx\n")
        .collect();
    vec![
        Scene {
            name: "kmscube smooth",
            pixel_shader: "mov t1, t1".into(),
            vertices: cube(),
            pixels: [whole / 12, whole / 4],
        },
        Scene {
            name: "kmscube rgba",
            pixel_shader: "texld t1, tex0.xyzw, t1.xyyy, void, void".into(),
            vertices: cube(),
            pixels: [whole / 12, whole / 4],
        },
        Scene {
            name: "30 instructions",
            pixel_shader: long,
            vertices: sheet([1.0, 1.0]),
            pixels: [whole, whole],
        },
        Scene {
            name: "whole, smooth",
            pixel_shader: "mov t1, t1".into(),
            vertices: sheet([1.0, 1.0]),
            pixels: [whole, whole],
        },
        Scene {
            name: "a third, smooth",
            pixel_shader: "mov t1, t1".into(),
            vertices: sheet([1.0, 1.0 / 3.0]),
            pixels: [whole / 3, whole / 3],
        },
        Scene {
            name: "1,536 triangles",
            pixel_shader: "mov t1, t1".into(),
            vertices: mesh([32, 24]),
            pixels: [whole, whole],
        },
        Scene {
            name: "whole, rgba",
            pixel_shader: "texld t1, tex0.xyzw, t1.xyyy, void, void".into(),
            vertices: sheet([1.0, 1.0]),
            pixels: [whole, whole],
        },
        Scene {
            name: "64 pixels",
            pixel_shader: "mov t1, t1".into(),
            vertices: sheet([8.0 / SIZE[0] as f32, 8.0 / SIZE[1] as f32]),
            pixels: [64, 64],
        },
    ]
}

/// Words per instruction.
const WORDS: u32 = 4;

const fn load(address: u32, count: u32) -> u32 {
    0x0800_0000 | count << 16 | address / 4
}

/// The commands of a scene.
fn commands(scene: &Scene) -> Vec<u32> {
    let mut words = Vec::new();
    let mut set = |address: u32, values: &[u32]| {
        words.push(load(address, values.len() as u32));
        words.extend(values);
        if words.len() % 2 != 0 {
            words.push(0);
        }
    };
    let half = SIZE.map(|size| (size as f32 / 2.0).to_bits());
    let edge = SIZE.map(|size| (size as f32 + 0.0625).to_bits());
    let one = 1f32.to_bits();
    let vertex_code = assemble("mov t1, t1").expect("a shader");
    let pixel_code = assemble(&scene.pixel_shader).expect("a shader");
    let last = 0x100 + pixel_code.len() as u32 / WORDS - 1;
    for (address, values) in [
        (
            FE_VERTEX_ELEMENT_CONFIG,
            &[16 << 24 | 8, 32 << 24 | 16 << 16 | 1 << 7 | 8][..],
        ),
        (0x0680, &[VERTICES]),
        (0x06a0, &[32]),
        (VS_OUTPUT_COUNT, &[2]),
        (VS_INPUT_COUNT, &[2]),
        (VS_TEMP_REGISTER_CONTROL, &[2]),
        (0x0810, &[0x0100]),
        (0x0820, &[0x0100]),
        (0x085c, &[0]),
        (PA_VIEWPORT_SCALE, &[half[0], half[1], one]),
        (PA_VIEWPORT_OFFSET, &[half[0], half[1], 0]),
        (PA_SYSTEM_MODE, &[0x11]),
        // Back faces are culled.
        (PA_CONFIG, &[2 << 12 | 1 << 16]),
        (GL_VARYING_NUM_COMPONENTS, &[4]),
        (SE_SCISSOR, &[0, 0, edge[0], edge[1]]),
        (PS_OUTPUT_REG, &[1, 2, 3]),
        (PS_RANGE, &[last << 16 | 0x100]),
        (PE_DEPTH_CONFIG, &[1 | 1 << 4 | 1 << 8 | 1 << 12 | 1 << 26]),
        (PE_DEPTH_ADDR, &[DEPTH]),
        (PE_DEPTH_STRIDE, &[SIZE[0] * 4]),
        (PE_COLOR_FORMAT, &[6 | 0xf << 8 | 1 << 20]),
        (PE_COLOR_ADDR, &[COLOUR]),
        (PE_COLOR_STRIDE, &[SIZE[0] * 4]),
        (PE_DITHER, &[u32::MAX; 2]),
        (0x2000, &[7 << 13 | 2 << 11 | 2 << 7 | 2]),
        (0x2040, &[TEXELS << 16 | TEXELS]),
        (0x2080, &[8 << 15 | 8 << 5]),
        (0x21c0, &[3 << 20 | 2 << 16 | 1 << 12]),
        (0x2400, &[TEXTURE]),
        (SH_INST_MEM, &vertex_code),
        (SH_INST_MEM + 0x1000, &pixel_code),
    ] {
        set(address, values);
    }
    words.extend([0x2800_0000, 4, 0, scene.vertices.len() as u32 / 3]);
    words.extend([load(GL_FLUSH_CACHE, 1), 3, 0x1000_0000, 0]);
    words
}

struct Rig(Gpu);

impl Rig {
    fn new(threads: usize) -> Self {
        let gpu = Gpu::new(Options {
            threads,
            ..Options::new(Board::Gc880)
        });
        let gpu = gpu.expect("a core");
        gpu.memory
            .add_anonymous(RAM.into(), RAM_BYTES)
            .expect("memory");
        gpu.mmio_write(HI_CLOCK_CONTROL, 0x100);
        for offset in [
            MC_MEMORY_BASE_ADDR_FE,
            MC_MEMORY_BASE_ADDR_RA,
            MC_MEMORY_BASE_ADDR_TX,
            MC_MEMORY_BASE_ADDR_PE,
            MC_MEMORY_BASE_ADDR_PEZ,
        ] {
            gpu.mmio_write(offset, RAM);
        }
        for offset in (MC_MMU_FE_PAGE_TABLE..=MC_MMU_RA_PAGE_TABLE).step_by(4) {
            gpu.mmio_write(offset, RAM + TABLE);
        }
        Self(gpu)
    }

    fn put(&self, address: u32, words: impl IntoIterator<Item = u32>) {
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let memory = self.0.memory.snapshot();
        memory.write(RAM + address, &bytes).expect("memory");
    }

    /// Draws a frame over the farthest depth. Returns the processor time of the busier thread, and the elapsed time.
    fn frame(&self, words: u32) -> [Duration; 2] {
        // Supertiles have 64 rows.
        let bytes = SIZE[0] * SIZE[1].next_multiple_of(64) * 4;
        self.put(DEPTH, vec![0xffff_ff00; bytes as usize / 4]);
        let (start, before) = (Instant::now(), used());
        self.0.mmio_write(FE_COMMAND_ADDRESS, BUFFER);
        let units = words.div_ceil(2);
        let enabled = COMMAND_CONTROL_ENABLE | units;
        self.0.mmio_write(FE_COMMAND_CONTROL, enabled);
        self.0.run_until_idle();
        let elapsed = start.elapsed();
        let [this, others] = used();
        let busier = (this - before[0]).max(others.saturating_sub(before[1]));
        [busier, elapsed]
    }

    /// Draws a scene repeatedly. Returns the best times of a frame, and the final contents of memory.
    fn draw(&self, scene: &Scene) -> ([Duration; 2], Vec<u8>) {
        let vertices = scene.vertices.iter().flatten();
        self.put(VERTICES, vertices.map(|value| value.to_bits()));
        let texels = (0..TEXELS * TEXELS).map(|at| at.wrapping_mul(2_654_435_761));
        self.put(TEXTURE, texels);
        let words = commands(scene);
        let count = words.len() as u32;
        self.put(BUFFER, words);
        let mut best = [Duration::MAX; 2];
        for _ in 0..FRAMES {
            for (best, time) in best.iter_mut().zip(self.frame(count)) {
                *best = time.min(*best);
            }
        }
        let report = self.0.recorder.report();
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        let mut bytes = vec![0; RAM_BYTES];
        let memory = self.0.memory.snapshot();
        memory.read(RAM, &mut bytes).expect("memory");
        (best, bytes)
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    println!(
        "{:16} {:>8} {:>9} {:>9} {:>11} {:>9} {:>11} {:>10} {:>13}",
        "",
        "pixels",
        "ns/pixel",
        "1: cpu ms",
        "elapsed ms",
        "2: cpu ms",
        "elapsed ms",
        "times: cpu",
        "times elapsed"
    );
    for scene in scenes() {
        if !wanted.is_empty() && !wanted.iter().any(|text| scene.name.contains(text)) {
            continue;
        }
        let rigs = [1, 2].map(Rig::new);
        let [(one, alone), (two, together)] = rigs.each_ref().map(|rig| rig.draw(&scene));
        assert!(alone == together, "{}: threads draw otherwise", scene.name);
        let [counters, others] = rigs
            .each_ref()
            .map(|rig| rig.0.counters.named().collect::<Vec<_>>());
        assert_eq!(counters, others, "{}", scene.name);
        let pixels = rigs[0].0.counters.get(counter::PIXELS_3D) / FRAMES as u64;
        let [least, most] = scene.pixels;
        assert!(
            (least..=most).contains(&pixels),
            "{}: {pixels} pixels",
            scene.name
        );
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{:16} {pixels:8} {:9.1} {:9.3} {:11.3} {:9.3} {:11.3} {:10.2} {:13.2}",
            scene.name,
            ms(one[0]) * 1e6 / pixels as f64,
            ms(one[0]),
            ms(one[1]),
            ms(two[0]),
            ms(two[1]),
            ms(one[0]) / ms(two[0]),
            ms(one[1]) / ms(two[1]),
        );
    }
}
