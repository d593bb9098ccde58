// SPDX-License-Identifier: GPL-2.0-only
//! Random scenes of each kind, compared with software that shares no code with this engine.

use std::collections::HashMap;

use galcore_scenes_2d::Core;
use galcore_scenes_2d::Go;
use galcore_scenes_2d::Kind;
use galcore_scenes_2d::Scene;
use gpu_control::Board;

use super::tests::FlatBus;
use super::*;

/// Scenes of each kind and core.
const ROUNDS: u64 = 300;

/// Distance between the buffers of a scene.
const STEP: usize = 0x1_0000;

/// Draws a scene. All of memory must match the expected result.
fn draw(engine: &Engine, scene: &Scene) -> Result<(), String> {
    let mut bus = FlatBus::new();
    let mut words = HashMap::new();
    for (index, buffer) in scene.buffers.iter().enumerate() {
        let address = (index + 1) * STEP;
        bus.bytes[address..][..buffer.bytes.len()].copy_from_slice(&buffer.bytes);
        words.insert(buffer.state, address as u32);
    }
    words.extend(scene.states.iter().copied());
    let block = |first: u32, end: u32| {
        let state = |address| words.get(&address).copied().unwrap_or(0);
        (first..end).step_by(4).map(state).collect::<Vec<_>>()
    };
    let mut states = StateBlock::new(DE_FIRST, block(DE_FIRST, DE_END));
    for (first, end) in [(0x1800, 0x1a00), (0x1c00, 0x2000), (0x3400, 0x3800)] {
        states = states.with(first, block(first, end));
    }
    let mut wanted = bus.bytes.clone();
    wanted[STEP..][..scene.wanted.len()].copy_from_slice(&scene.wanted);
    match &scene.go {
        Go::Rectangles(rectangles, data) => {
            let list: Vec<_> = rectangles
                .chunks(2)
                .map(|words| Rectangle::from_words(words[0], words[1]))
                .collect();
            engine
                .check(&states)
                .and_then(|()| engine.check_rectangles(&states, &list, data.len()))
                .map_err(|(kind, text)| format!("{kind:?} {text}"))?;
            for rectangle in list {
                engine.draw(&states, data, rectangle, &mut bus);
            }
        }
        Go::State => {
            engine
                .check_filter(&states)
                .map_err(|(kind, text)| format!("{kind:?} {text}"))?;
            engine.filter(&states, &mut bus);
        }
    }
    if bus.bytes == wanted {
        return Ok(());
    }
    match bus.bytes.iter().zip(&wanted).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(place) => Err(format!(
            "byte {place:#x} is {:#x}, wanted {:#x}",
            bus.bytes[place], wanted[place]
        )),
    }
}

#[test]
fn random_scenes_are_as_the_software_draws_them() {
    for board in [Board::Dove, Board::Gc320, Board::Gc320Qp, Board::Gc520l] {
        let personality = Personality::of(board);
        let [minor0, minor1, minor2, ..] = personality.minor;
        let core = Core::of([minor0, minor1, minor2]);
        let engine = Engine::of(&personality, false);
        for kind in Kind::ALL {
            if !kind.is_on(core) {
                continue;
            }
            let mut changed = 0;
            for seed in 0..ROUNDS {
                let scene = Scene::new(kind, core, seed);
                changed += usize::from(scene.wanted != scene.buffers[0].bytes);
                if let Err(text) = draw(&engine, &scene) {
                    panic!("{board:?} {kind:?} {seed}: {text}: {}", scene.text);
                }
            }
            assert!(
                changed > ROUNDS as usize / 2,
                "{kind:?}: only {changed} draw"
            );
        }
    }
}
