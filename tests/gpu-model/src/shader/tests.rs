// SPDX-License-Identifier: GPL-2.0-only
//! Every operation compared with the host's arithmetic, one lane at a time; flow control, addressing, illegal code.

use gpu_control::Board;
use gpu_isa::assemble;

use super::*;

fn features(board: Board) -> Features {
    Features::of(&Personality::of(board))
}

fn program(text: &str, board: Board) -> Program {
    let code = assemble(text).expect(text);
    Program::decode(&code, &features(board)).expect(text)
}

/// No textures and no memory.
struct Nothing;

impl Sampler for Nothing {
    fn sample(&mut self, lookup: &Lookup<'_>, _out: &mut [Lane; 4]) -> Result<(), Fault> {
        Err(Fault::Sampler(lookup.unit))
    }
}

fn run_all(text: &str, board: Board, constants: &[[f32; 4]], wave: &mut Wave) -> Outcome {
    let program = program(text, board);
    run(&program, 0..program.len(), constants, wave, &mut Nothing)
}

/// Values of all kinds: small, large, of both signs, integers, not finite.
fn value(seed: usize) -> f32 {
    const SPECIAL: [f32; 12] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.0,
        1e20,
        -1e-20,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        16_777_216.0,
    ];
    let mixed = (seed as u32)
        .wrapping_mul(0x9e37_79b9)
        .rotate_left(13)
        .wrapping_mul(0x85eb_ca6b);
    match mixed % 4 {
        0 => SPECIAL[mixed as usize / 4 % SPECIAL.len()],
        1 => (mixed >> 8) as f32 / 65_536.0 - 128.0,
        2 => (mixed >> 16) as f32 - 32_768.0,
        _ => (mixed >> 8) as f32 / 16_777_216.0,
    }
}

fn same(a: f32, b: f32) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

/// A wave with values in temporaries 1 to 3, the same values as constants, and the operands that `-t1.yzwx`,
/// `|u1|.wzyx` and `t3` give for a component of a lane.
fn scene() -> (Wave, Vec<[f32; 4]>) {
    let mut wave = Wave::new(8);
    for register in 1..4 {
        for component in 0..4 {
            for lane in 0..LANES {
                wave.temps[register][component][lane] =
                    value(register * 1000 + component * 64 + lane);
            }
        }
    }
    let constants = (0..4)
        .map(|n| std::array::from_fn(|c| value(9000 + 4 * n + c)))
        .collect();
    (wave, constants)
}

/// Runs an instruction whose text contains `SOURCES`, and compares each component of t0 with `expected`, which gets the
/// three operands (all four components of each) and the component.
fn check(text: &str, slots: [usize; 3], expected: impl Fn([[f32; 4]; 3], usize) -> f32) {
    for variant in 0..3 {
        let (mut wave, constants) = scene();
        let operands = match variant {
            0 => ["t1", "t2", "t3"],
            1 => ["-t1.yzwx", "|u1.wzyx|", "t3.xxzz"],
            _ => ["u2", "-|t2.zwxy|", "-u2.y"],
        };
        let mut line = text.to_string();
        for (index, slot) in slots.iter().enumerate() {
            line = line.replace(&format!("S{index}"), operands[*slot]);
        }
        assert_eq!(
            run_all(&line, Board::Gc3000, &constants, &mut wave),
            Outcome::Done,
            "{line}"
        );
        for lane in 0..LANES {
            let register =
                |number: usize| std::array::from_fn::<f32, 4, _>(|c| wave.temps[number][c][lane]);
            let (a, b, c, u) = (register(1), register(2), register(3), &constants);
            let operands = match variant {
                0 => [a, b, c],
                1 => [
                    [-a[1], -a[2], -a[3], -a[0]],
                    [u[1][3].abs(), u[1][2].abs(), u[1][1].abs(), u[1][0].abs()],
                    [c[0], c[0], c[2], c[2]],
                ],
                _ => [
                    u[2],
                    [-b[2].abs(), -b[3].abs(), -b[0].abs(), -b[1].abs()],
                    [-u[2][1]; 4],
                ],
            };
            for component in 0..4 {
                let found = wave.temps[0][component][lane];
                let wanted = expected(slots.map(|slot| operands[slot]), component);
                // Denormal results are 0, see `results_are_normal_numbers`.
                let wanted = if wanted.is_subnormal() { 0.0 } else { wanted };
                assert!(
                    same(found, wanted),
                    "{line} {operands:?} component {component}: {found} instead of {wanted}"
                );
            }
        }
    }
}

#[test]
fn arithmetic_is_the_hosts() {
    check("mov t0, S0", [0, 1, 2], |[a, ..], c| a[c]);
    check("mov t0, S1", [0, 1, 2], |[_, b, _], c| b[c]);
    check("add t0, S0, S1", [0, 1, 2], |[a, b, _], c| a[c] + b[c]);
    check("add t0, S0, S1", [1, 2, 0], |[a, b, _], c| a[c] + b[c]);
    check("mul t0, S0, S1", [0, 1, 2], |[a, b, _], c| a[c] * b[c]);
    check("mul t0, S0, S1", [2, 1, 0], |[a, b, _], c| a[c] * b[c]);
    check("mad t0, S0, S1, S2", [0, 1, 2], |[a, b, d], c| {
        a[c] * b[c] + d[c]
    });
    check("mad t0, S0, S1, S2", [2, 0, 1], |[a, b, d], c| {
        a[c] * b[c] + d[c]
    });
    check("dp2 t0, S0, S1", [0, 1, 2], |[a, b, _], _| {
        a[0] * b[0] + a[1] * b[1]
    });
    check("dp3 t0, S0, S1", [0, 1, 2], |[a, b, _], _| {
        a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    });
    check("dp4 t0, S0, S1", [0, 1, 2], |[a, b, _], _| {
        a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]
    });
    check("norm_dp3 t0, S0", [0, 1, 2], |[a, ..], c| {
        a[c] * (1.0 / (a[0] * a[0] + a[1] * a[1] + a[2] * a[2]).sqrt())
    });
    check("rcp t0, S0", [0, 1, 2], |[a, ..], _| 1.0 / a[0]);
    check("rsq t0, S0", [0, 1, 2], |[a, ..], _| 1.0 / a[0].sqrt());
    check("sqrt t0, S0", [0, 1, 2], |[a, ..], _| a[0].sqrt());
    check("exp t0, S0", [0, 1, 2], |[a, ..], _| a[0].exp2());
    check("log t0, S0", [0, 1, 2], |[a, ..], _| a[0].log2());
    check("frc t0, S0", [0, 1, 2], |[a, ..], c| a[c] - a[c].floor());
    check("floor t0, S0", [0, 1, 2], |[a, ..], c| a[c].floor());
    check("ceil t0, S0", [0, 1, 2], |[a, ..], c| a[c].ceil());
    check("sign t0, S0", [0, 1, 2], |[a, ..], c| match a[c] {
        a if a > 0.0 => 1.0,
        a if a < 0.0 => -1.0,
        _ => 0.0,
    });
    check("dst t0, S0, S1", [0, 1, 2], |[a, b, _], c| {
        [1.0, a[1] * b[1], a[2], b[3]][c]
    });
    check("clamp0_max t0, S0, S1", [0, 1, 2], |[a, b, _], c| {
        a[c].max(0.0).min(b[c])
    });
    check("mov.sat t0, S0", [0, 1, 2], |[a, ..], c| match a[c] {
        a if a.is_nan() => 0.0,
        a => a.clamp(0.0, 1.0),
    });
    check("litp t0, S0, S1, S2", [0, 1, 2], |[a, b, d], c| match c {
        1 if b[2] > 0.0 && a[1] > 0.0 => b[1],
        2 if b[2] > 0.0 && a[2] > 0.0 => d[0].exp2(),
        1 | 2 => 0.0,
        _ => 1.0,
    });
    check("litp t0, S0, S1", [1, 2, 0], |[b, d, _], c| match c {
        1 if b[2] > 0.0 => b[1],
        2 if b[2] > 0.0 => d[0].exp2(),
        1 | 2 => 0.0,
        _ => 1.0,
    });
}

/// Denormal results are 0 with the same sign. Moves and selections keep all bits.
#[test]
fn results_are_normal_numbers() {
    let small = f32::from_bits(1);
    let constants = [
        [-1e-20, 1e-20, -140.0, 2e38],
        [small, 1.5e-38, 1.2e-38, 0.0],
    ];
    let found = |text: &str| {
        let mut wave = Wave::new(8);
        assert_eq!(
            run_all(text, Board::Gc3000, &constants, &mut wave),
            Outcome::Done
        );
        wave.temps[0][0][5].to_bits()
    };
    assert_eq!(found("mul t0, u0.x, u0.y"), (-0.0f32).to_bits());
    assert_eq!(found("mad t0, u0.x, u0.x, u1.w"), 0);
    assert_eq!(found("add t0, u1.y, -u1.z"), 0);
    assert_eq!(found("dp2 t0, u0.y, u0.y"), 0);
    assert_eq!(found("dp4 t0, u0.y, u0.y"), 0);
    assert_eq!(found("exp t0, u0.z"), 0);
    assert_eq!(found("rcp t0, u0.w"), 0);
    assert_eq!(found("mul t0, u0.y, u0.w"), (1e-20f32 * 2e38).to_bits());
    assert_eq!(found("mov t0, u1.x"), 1);
    assert_eq!(found("select.lz t0, u0.x, u1.x, u1.w"), 1);
}

#[test]
fn conditions_are_the_hosts() {
    type Test = fn(f32, f32) -> bool;
    let binary: [(&str, Test); 9] = [
        ("gt", |a, b| a > b),
        ("lt", |a, b| a < b),
        ("ge", |a, b| a >= b),
        ("le", |a, b| a <= b),
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("and", |a, b| a != 0.0 && b != 0.0),
        ("or", |a, b| a != 0.0 || b != 0.0),
        ("xor", |a, b| (a != 0.0) != (b != 0.0)),
    ];
    let unary: [(&str, Test); 7] = [
        ("not", |a, _| a == 0.0),
        ("nz", |a, _| a != 0.0),
        ("gez", |a, _| a >= 0.0),
        ("gz", |a, _| a > 0.0),
        ("lez", |a, _| a <= 0.0),
        ("lz", |a, _| a < 0.0),
        ("selmsb", |a, _| a.is_sign_negative()),
    ];
    for (name, test) in binary.into_iter().chain(unary) {
        let truth = |a: f32, b: f32| if test(a, b) { 1.0 } else { 0.0 };
        check(
            &format!("set.{name} t0, S0, S1"),
            [0, 1, 2],
            |[a, b, _], c| truth(a[c], b[c]),
        );
        check(
            &format!("select.{name} t0, S0, S1, S2"),
            [0, 1, 2],
            |[a, b, d], c| {
                if test(a[c], b[c]) {
                    b[c]
                } else {
                    d[c]
                }
            },
        );
        check(
            &format!("cmp.{name} t0, S0, S1, S2"),
            [2, 1, 0],
            |[a, b, d], c| {
                if test(a[c], b[c]) {
                    d[c]
                } else {
                    0.0
                }
            },
        );
    }
}

#[test]
fn angles_are_quarter_turns_or_half_turns() {
    let near = |found: f32, wanted: f64| (f64::from(found) - wanted).abs() < 3e-7;
    for (text, board, turn) in [
        ("sin t0.xy, t1\ncos t2.xy, t1", Board::Gc2000, 0.5),
        ("sin.rtz t0.xy, t1\ncos.rtz t2.xy, t1", Board::Gc2000, 0.5),
        ("sin t0.xy, t1\ncos t2.xy, t1", Board::Gc3000, 0.5),
        ("sin.rtz t0.xy, t1\ncos.rtz t2.xy, t1", Board::Gc3000, 1.0),
    ] {
        let mut wave = Wave::new(3);
        for lane in 0..LANES {
            wave.temps[1][0][lane] = (lane as f32 - 30.0) * 0.37;
        }
        assert_eq!(run_all(text, board, &[], &mut wave), Outcome::Done);
        for lane in 0..LANES {
            let angle = f64::from(wave.temps[1][0][lane]) * turn * std::f64::consts::PI;
            let of =
                |register: usize| wave.temps[register][0][lane] * wave.temps[register][1][lane];
            let (sine, cosine) = (wave.temps[0][0][lane], wave.temps[2][0][lane]);
            assert!(near(sine, angle.sin()), "{text} {lane}: {sine}");
            assert!(near(cosine, angle.cos()), "{text} {lane}: {cosine}");
            // With two factors, their product is the result. Otherwise both components hold it.
            let product = if turn == 1.0 { sine } else { sine * sine };
            assert_eq!(of(0), product, "{text}");
        }
    }
}

#[test]
fn quotients_and_logarithms_come_in_factors() {
    let mut wave = Wave::new(3);
    wave.temps[1][0].fill(10.0);
    wave.temps[1][1].fill(4.0);
    let text = "div.rtz t0.yz, t1.x, t1.y\nlog.rtz t2.zw, t1.y\nmul t1.x, t0.y, t0.z";
    assert_eq!(run_all(text, Board::Gc3000, &[], &mut wave), Outcome::Done);
    let at = |register: usize, component: usize| wave.temps[register][component][5];
    assert_eq!(
        [at(0, 0), at(0, 1), at(0, 2), at(0, 3)],
        [0.0, 2.5, 1.0, 0.0]
    );
    assert_eq!([at(2, 2), at(2, 3)], [2.0, 1.0]);
    assert_eq!(at(1, 0), 2.5);
}

/// Integer operations compared with the host's of the same width.
#[test]
fn integers_are_the_hosts() {
    type Wanted = fn(u32, u32, u32) -> u32;
    let table: [(&str, Wanted); 30] = [
        ("add.s32 t0, t1, t3", |a, _, c| a.wrapping_add(c)),
        ("add.s16 t0, t1, t3", |a, _, c| {
            (a as i16).wrapping_add(c as i16) as i32 as u32
        }),
        ("add.u8 t0, t1, t3", |a, _, c| {
            (a as u8).wrapping_add(c as u8).into()
        }),
        ("iaddsat.s32 t0, t1, t3", |a, _, c| {
            (a as i32).saturating_add(c as i32) as u32
        }),
        ("iaddsat.u32 t0, t1, t3", |a, _, c| a.saturating_add(c)),
        ("imullo0.s32 t0, t1, t2", |a, b, _| a.wrapping_mul(b)),
        ("imulhi0.u32 t0, t1, t2", |a, b, _| {
            (u64::from(a) * u64::from(b) >> 32) as u32
        }),
        ("imulhi0.s32 t0, t1, t2", |a, b, _| {
            (i64::from(a as i32) * i64::from(b as i32) >> 32) as u32
        }),
        ("imadlo0.s32 t0, t1, t2, t3", |a, b, c| {
            a.wrapping_mul(b).wrapping_add(c)
        }),
        ("idiv0.s16 t0, t1, t2", |a, b, _| match b as i16 {
            0 => u32::MAX,
            b => (a as i16).wrapping_div(b) as i32 as u32,
        }),
        ("imod.u16 t0, t1, t2", |a, b, _| {
            u32::from((a as u16).checked_rem(b as u16).unwrap_or(0))
        }),
        ("iabs.s32 t0, t1", |a, _, _| {
            (a as i32).wrapping_abs() as u32
        }),
        ("leadzero.u32 t0, t1", |a, _, _| a.leading_zeros()),
        ("lshift.s32 t0, t1, t3", |a, _, c| a << (c & 31)),
        ("rshift.s32 t0, t1, t3", |a, _, c| {
            (a as i32 >> (c & 31)) as u32
        }),
        ("rshift.u32 t0, t1, t3", |a, _, c| a >> (c & 31)),
        ("rotate.u32 t0, t1, t3", |a, _, c| a.rotate_left(c & 31)),
        ("or.u32 t0, t1, t3", |a, _, c| a | c),
        ("and.u32 t0, t1, t3", |a, _, c| a & c),
        ("xor.u32 t0, t1, t3", |a, _, c| a ^ c),
        ("not.u32 t0, t1", |a, _, _| !a),
        ("popcount.u32 t0, t1", |a, _, _| a.count_ones()),
        ("bit_rev.u32 t0, t1", |a, _, _| a.reverse_bits()),
        ("bit_findlsb.u32 t0, t1", |a, _, _| {
            if a == 0 {
                u32::MAX
            } else {
                a.trailing_zeros()
            }
        }),
        ("bit_findmsb.u32 t0, t1", |a, _, _| {
            31u32.wrapping_sub(a.leading_zeros())
        }),
        ("i2f.s32 t0, t1", |a, _, _| (a as i32 as f32).to_bits()),
        ("i2f.u16 t0, t1", |a, _, _| f32::from(a as u16).to_bits()),
        ("select.gt.s32 t0, t1, t2, t1", |a, b, _| {
            (a as i32).min(b as i32) as u32
        }),
        ("select.lt.u32 t0, t1, t2, t1", |a, b, _| a.max(b)),
        ("cmp.ge.u32 t0, t1, t2, -1", |a, b, _| {
            if a >= b {
                u32::MAX
            } else {
                0
            }
        }),
    ];
    for (text, wanted) in table {
        let mut wave = Wave::new(4);
        let bits = |register: usize, component: usize, lane: usize| {
            let mixed = (register * 977 + component * 131 + lane) as u32;
            let mixed = mixed.wrapping_mul(0x9e37_79b9) ^ mixed.wrapping_mul(0x85eb_ca6b) >> 7;
            [mixed, mixed >> 20, 0, u32::MAX, 0x8000_0000, mixed & 0xffff][lane % 6]
        };
        for register in 1..4 {
            for component in 0..4 {
                for lane in 0..LANES {
                    let value = f32::from_bits(bits(register, component, lane));
                    wave.temps[register][component][lane] = value;
                }
            }
        }
        assert_eq!(
            run_all(text, Board::Gc3000, &[], &mut wave),
            Outcome::Done,
            "{text}"
        );
        for component in 0..4 {
            for lane in 0..LANES {
                let [a, b, c] = [1, 2, 3].map(|register| bits(register, component, lane));
                let found = wave.temps[0][component][lane].to_bits();
                assert_eq!(found, wanted(a, b, c), "{text} {a:#x} {b:#x} {c:#x}");
            }
        }
    }
}

#[test]
fn floats_become_integers() {
    let mut wave = Wave::new(3);
    let values = [0.0, 2.5, 3.5, -2.5, 1e30, -1e30, f32::NAN, 300.75];
    for lane in 0..LANES {
        wave.temps[1][0][lane] = values[lane % 8];
    }
    let text = "f2i.s32 t0.x, t1\nf2i.u8 t0.y, t1.x\nf2irnd.rtne.s32 t0.z, t1.x\n\
        f2irnd.rtz.s32 t0.w, t1.x\nadd.s32 t2.x, 0, -t0.x\ni2i.s8 t2.y, t0.x";
    assert_eq!(run_all(text, Board::Gc3000, &[], &mut wave), Outcome::Done);
    let column = |register: usize, component: usize| {
        std::array::from_fn::<i32, 8, _>(|l| wave.temps[register][component][l].to_bits() as i32)
    };
    let whole = [0, 2, 3, -2, i32::MAX, i32::MIN, 0, 300];
    assert_eq!(column(0, 0), whole);
    assert_eq!(column(0, 1), [0, 2, 3, 0, 255, 0, 0, 255]);
    assert_eq!(column(0, 2), [0, 2, 4, -2, i32::MAX, i32::MIN, 0, 301]);
    assert_eq!(column(0, 3), whole);
    assert_eq!(column(2, 0), whole.map(i32::wrapping_neg));
    assert_eq!(column(2, 1), [0, 2, 3, -2, 127, -128, 0, 127]);
}

#[test]
fn derivatives_are_of_the_square() {
    let mut wave = Wave::new(2);
    for lane in 0..LANES {
        wave.temps[1][0][lane] = (lane * lane) as f32;
    }
    assert_eq!(
        run_all("dsx t0.x, t1\ndsy t0.y, t1.x", Board::Dove, &[], &mut wave),
        Outcome::Done
    );
    // Lanes 4 and 5, and below them 6 and 7.
    let at =
        |component: usize| std::array::from_fn::<f32, 4, _>(|l| wave.temps[0][component][4 + l]);
    assert_eq!(at(0), [9.0, 9.0, 13.0, 13.0]);
    assert_eq!(at(1), [20.0, 24.0, 20.0, 24.0]);
}

#[test]
fn only_masked_components_change() {
    for mask in 0..16u8 {
        let (mut wave, constants) = scene();
        wave.temps[0]
            .iter_mut()
            .for_each(|component| component.fill(7.0));
        let letters: String = (0..4)
            .filter(|c| mask >> c & 1 != 0)
            .map(|c| "xyzw".as_bytes()[c] as char)
            .collect();
        let text = format!("mov t0.{letters}, u0.x");
        assert_eq!(
            run_all(&text, Board::Dove, &constants, &mut wave),
            Outcome::Done
        );
        for component in 0..4 {
            let wanted = if mask >> component & 1 != 0 {
                constants[0][0]
            } else {
                7.0
            };
            assert!(same(wave.temps[0][component][63], wanted), "{text}");
        }
    }
}

#[test]
fn registers_exchange_their_components() {
    let mut wave = Wave::new(1);
    for component in 0..4 {
        wave.temps[0][component].fill(component as f32);
    }
    assert_eq!(
        run_all("mov t0, t0.wzyx", Board::Dove, &[], &mut wave),
        Outcome::Done
    );
    assert_eq!(
        [0, 1, 2, 3].map(|c| wave.temps[0][c][9]),
        [3.0, 2.0, 1.0, 0.0]
    );
}

#[test]
fn addresses_are_each_lanes_own() {
    for (board, text) in [
        (Board::Gc2000, "movar a0.y, t0.x\nmov t3, u1[a.y]\nmov t1[a.y].w, t0.x\nmov t0, t1[a.y]"),
        (Board::Dove, "movaf a0.y, t0.x\nmov t3, u1[a.y]\nmov t1[a.y].w, t0.x\nmov t0, t1[a.y]"),
        (
            Board::Gc3000,
            "f2i.s32 t0.y, t0.x\nmovar.s32 a0.y, t0.y\nmov t3, u1[a.y]\nmov t1[a.y].w, t0.x\nmov t0, t1[a.y]",
        ),
    ] {
        let mut wave = Wave::new(4);
        let constants: Vec<[f32; 4]> = (0..4).map(|n| [n as f32 * 10.0; 4]).collect();
        // Below the first constant, above the last constant, and above the last temporary.
        for lane in 0..LANES {
            wave.temps[0][0][lane] = lane as f32 % 8.0 - 2.0;
        }
        assert_eq!(run_all(text, board, &constants, &mut wave), Outcome::Done, "{board:?}");
        for lane in 0..LANES {
            let index = lane as i32 % 8 - 2;
            let constant = usize::try_from(1 + index).ok().filter(|n| *n < 4);
            let wanted = constant.map_or(0.0, |n| n as f32 * 10.0);
            assert_eq!(wave.temps[3][0][lane], wanted, "{board:?} {lane}");
            let is_there = (0..4).contains(&(1 + index));
            let wanted = if is_there { index as f32 } else { 0.0 };
            assert_eq!(wave.temps[0][3][lane], wanted, "{board:?} {lane}");
        }
    }
}

#[test]
fn lanes_go_their_own_ways() {
    // t0.x iterations of t1.x += 2. Then a function adds 100 to those with an even number.
    let text = "
            mov t1, u0.xxxx
    loop:   branch.le t0.x, u0.x, out
            add t1.x, t1.x, u0.z
            add t0.x, t0.x, -u0.y
            branch loop
    out:    branch.nz t2.x, end
            call more
            branch end
    more:   add t1.x, t1.x, u0.w
            ret
    end:    mov t1.y, u0.y";
    let mut wave = Wave::new(3);
    wave.mask = 0x0fff_ffff_ffff_ffff;
    for lane in 0..LANES {
        wave.temps[0][0][lane] = (lane % 7) as f32;
        wave.temps[2][0][lane] = (lane % 2) as f32;
    }
    let constants = [[0.0, 1.0, 2.0, 100.0]];
    assert_eq!(
        run_all(text, Board::Dove, &constants, &mut wave),
        Outcome::Done
    );
    let mut instructions = 0;
    for lane in 0..60 {
        let count = lane % 7;
        let wanted = 2.0 * count as f32 + if lane % 2 == 0 { 100.0 } else { 0.0 };
        assert_eq!(wave.temps[1][0][lane], wanted, "{lane}");
        assert_eq!(wave.temps[1][1][lane], 1.0);
        // mov, the loop, its last test, the branch after it, (call, add, ret, branch), mov.
        instructions += 1 + 4 * count + 1 + 1 + if lane % 2 == 0 { 4 } else { 0 } + 1;
    }
    assert_eq!(wave.instructions, instructions as u64);
    assert_eq!(wave.temps[1][0][63], 0.0, "a lane that is not in the mask");
}

#[test]
fn branches_know_integers_on_all_cores() {
    for board in [Board::Dove, Board::Gc2000, Board::Gc3000] {
        let mut wave = Wave::new(2);
        for lane in 0..LANES {
            wave.temps[0][0][lane] = (lane % 3) as f32;
        }
        let text = "branch.not.u32 t0.x, over\nmov t1.x, u0.x\nover: mov t1.y, u0.x";
        assert_eq!(run_all(text, board, &[[5.0; 4]], &mut wave), Outcome::Done);
        for lane in 0..LANES {
            let wanted = if lane % 3 == 0 { 0.0 } else { 5.0 };
            assert_eq!(
                [wave.temps[1][0][lane], wave.temps[1][1][lane]],
                [wanted, 5.0]
            );
        }
    }
}

#[test]
fn any_component_takes_a_branch() {
    let mut wave = Wave::new(2);
    wave.temps[0][2][5] = 1.0;
    let text = "branch_any.gt t0, u0, over\nmov t1.x, u0.y\nover: nop";
    assert_eq!(
        run_all(text, Board::Dove, &[[0.0, 3.0, 0.0, 0.0]], &mut wave),
        Outcome::Done
    );
    // Constant y is above t0.y. So only component z of lane 5 is above its constant.
    assert_eq!([wave.temps[1][0][5], wave.temps[1][0][6]], [0.0, 3.0]);
}

#[test]
fn pixels_are_discarded() {
    let mut wave = Wave::new(2);
    wave.mask = u64::MAX >> 8;
    for lane in 0..LANES {
        wave.temps[0][0][lane] = lane as f32;
    }
    let constants = [[40.0, 16.0, 0.0, 1.0]];
    let text = "texkill.gt t0.x, u0.x\nbranch.ge t0.x, u0.y, over\ntexkill\nover: mov t1.x, u0.w";
    assert_eq!(
        run_all(text, Board::Dove, &constants, &mut wave),
        Outcome::Done
    );
    assert_eq!(wave.killed, 0x00ff_fe00_0000_ffff);
    // Discarded lanes continue, so that derivatives exist.
    assert_eq!(wave.temps[1][0][3], 1.0);
    wave.clear();
    assert_eq!((wave.killed, wave.temps[1][0][3]), (0, 0.0));
}

#[test]
fn endless_shaders_are_stopped() {
    let mut wave = Wave::new(1);
    wave.budget = 1000;
    assert_eq!(
        run_all("nop\nat: branch at", Board::Dove, &[], &mut wave),
        Outcome::Endless(1)
    );
    let text = "mov t0.x, u0.x\nat: branch.lt t0.x, u0.y, at";
    let constants = [[1.0, 2.0, 0.0, 0.0]];
    assert_eq!(
        run_all(text, Board::Dove, &constants, &mut wave),
        Outcome::Endless(1)
    );
    let faults = |text| run_all(text, Board::Dove, &[], &mut Wave::new(1));
    assert_eq!(faults("nop\nret"), Outcome::Fault(1, Fault::Calls));
    assert_eq!(faults("at: call at"), Outcome::Fault(0, Fault::Calls));
    assert_eq!(faults("branch 1000"), Outcome::Done);
}

#[test]
fn ranges_begin_and_end() {
    let program = program(
        "mov t0.x, u0\nmov t0.y, u0\nmov t0.z, u0\nbranch 0\nmov t0.w, u0",
        Board::Dove,
    );
    let mut wave = Wave::new(1);
    let outcome = run(&program, 1..4, &[[1.0; 4]], &mut wave, &mut Nothing);
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(
        [0, 1, 2, 3].map(|c| wave.temps[0][c][0]),
        [0.0, 1.0, 1.0, 0.0]
    );
}

#[test]
fn a_wave_has_the_temporaries_that_it_was_given() {
    let mut wave = Wave::new(3);
    assert_eq!(
        run_all("mov t3, u0", Board::Dove, &[], &mut wave),
        Outcome::Temporaries(4)
    );
    assert_eq!(
        run_all("add t0, t2, t1", Board::Dove, &[], &mut wave),
        Outcome::Done
    );
}

#[test]
fn cores_lack_operations() {
    let decode = |text: &str, board| {
        Program::decode(&assemble(text).expect(text), &features(board)).map(|program| program.len())
    };
    let all = [Board::Dove, Board::Gc880, Board::Gc2000, Board::Gc3000];
    for (text, op, has) in [
        ("mad t0, t1, t2, t3", Op::Mad, [true; 4]),
        ("texld t0, tex0, t1", Op::Texld, [true; 4]),
        ("floor t0, t1", Op::Floor, [false, true, true, true]),
        ("sign t0, t1", Op::Sign, [false, true, true, true]),
        ("sin t0, t1", Op::Sin, [false, true, true, true]),
        ("sqrt t0, t1", Op::Sqrt, [false, true, true, true]),
        ("dp2 t0, t1, t2", Op::Dp2, [false, true, true, true]),
        ("and.u32 t0, t1, t2", Op::And, [false, false, false, true]),
        ("load.u32 t0, t1, t2", Op::Load, [false, false, false, true]),
        ("div t0, t1, t2", Op::Div, [false, false, false, true]),
    ] {
        for (board, has) in all.into_iter().zip(has) {
            let lacks = Illegal {
                instruction: 1,
                reason: Reason::Lacks(op),
            };
            let wanted = if has { Ok(2) } else { Err(lacks) };
            assert_eq!(
                decode(&format!("nop\n{text}"), board),
                wanted,
                "{text} {board:?}"
            );
        }
    }
    let reason = |text: &str, board| decode(text, board).map_err(|illegal| illegal.reason);
    assert_eq!(reason("mov t0, 1.0", Board::Gc2000), Err(Reason::Immediate));
    assert_eq!(reason("mov t0, 1.0", Board::Gc3000), Ok(1));
    assert_eq!(
        reason("mul.s32 t0, t1, t2", Board::Gc3000),
        Err(Reason::Type(Type::S32))
    );
    assert_eq!(
        reason("mov t64, u0", Board::Gc3000),
        Err(Reason::Register(64))
    );
    assert_eq!(
        reason("mov t0, t100", Board::Gc3000),
        Err(Reason::Register(100))
    );
    assert_eq!(
        reason("branch.gt t0, 0", Board::Gc3000),
        Err(Reason::Condition(Condition::Gt))
    );
    assert_eq!(
        reason("mov.hp t0, t1", Board::Gc3000),
        Err(Reason::HalfPrecision)
    );
    let words = |words: &[u32]| {
        Program::decode(words, &features(Board::Gc3000))
            .map_err(|i| i.reason)
            .err()
    };
    assert_eq!(words(&[1, 0, 0, 8]), Some(Reason::Source(0)));
    assert_eq!(
        words(&[0x1c, 0, 0, 0]),
        Some(Reason::Unknown(Unknown::Op(0x1c)))
    );
    assert_eq!(
        words(&[9, 0, 0, 0x5000_0008]),
        Some(Reason::Unknown(Unknown::Group(5)))
    );
    assert_eq!(words(&[0, 0, 0]), Some(Reason::Cut));
}

/// Texels that encode their request, and memory whose contents are its addresses.
#[derive(Default)]
struct Echo {
    lookups: Vec<(usize, u64, Option<f32>)>,
    stores: Vec<(u32, u32)>,
}

impl Sampler for Echo {
    fn sample(&mut self, lookup: &Lookup<'_>, out: &mut [Lane; 4]) -> Result<(), Fault> {
        self.lookups.push((
            lookup.unit,
            lookup.mask,
            lookup.reference.map(|lanes| lanes[0]),
        ));
        let Lookup { coordinates, .. } = lookup;
        for lane in 0..LANES {
            out[0][lane] = coordinates[0][lane];
            out[1][lane] = coordinates[1][lane];
            out[2][lane] = match lookup.lod {
                Lod::Derived(None) => -1.0,
                Lod::Derived(Some(bias)) => bias[lane],
                Lod::Given(level) => 10.0 + level[lane],
                Lod::Gradients(right, down) => 100.0 * right[1][lane] + down[2][lane],
            };
            out[3][lane] = lookup.unit as f32;
        }
        Ok(())
    }

    fn load(&mut self, address: u32) -> Result<u32, Fault> {
        if address >= 0x1000 {
            return Err(Fault::Memory(address));
        }
        Ok(address)
    }

    fn store(&mut self, address: u32, value: u32) -> Result<(), Fault> {
        self.stores.push((address, value));
        Ok(())
    }
}

#[test]
fn texels_are_asked_for() {
    let text = "
        texld t2, tex1.xyzw, t1.yxzw
        texldb t3, tex9.wzyx, t1
        texldl t4.xz, tex0, t1
        texldd t5, tex3, t1, t1.zwxy, -t1
        texld t6, tex2, t1, t1.w
        texldb t7, tex4, t1, t1.z, t1.w
        texldl t8, tex4, t1, t1.z, t1.w";
    let program = program(text, Board::Gc3000);
    assert_eq!(program.samplers(), 0b10_0001_1111);
    assert!(program.derives() && !program.has_relative_sampler());
    let mut wave = Wave::new(9);
    for component in 0..4 {
        wave.temps[1][component].fill(1.0 + component as f32);
    }
    wave.mask = 0xff;
    let mut echo = Echo::default();
    assert_eq!(
        run(&program, 0..program.len(), &[], &mut wave, &mut echo),
        Outcome::Done
    );
    let at = |register: usize| [0, 1, 2, 3].map(|component| wave.temps[register][component][7]);
    assert_eq!(at(2), [2.0, 1.0, -1.0, 1.0]);
    assert_eq!(at(3), [9.0, 4.0, 2.0, 1.0]);
    assert_eq!(at(4), [1.0, 0.0, 14.0, 0.0]);
    assert_eq!(at(5), [1.0, 2.0, 397.0, 3.0]);
    assert_eq!(echo.lookups[4], (2, 0xff, Some(4.0)));
    for (register, level) in [(7, 3.0), (8, 13.0)] {
        assert_eq!(at(register), [1.0, 2.0, level, 4.0]);
        assert_eq!(echo.lookups[register - 2], (4, 0xff, Some(4.0)));
    }
}

#[test]
fn samplers_are_each_lanes_own() {
    let program = program("movar a0.x, t0.x\ntexld t1, tex2[a.x], t0", Board::Gc2000);
    assert!(program.has_relative_sampler());
    let mut wave = Wave::new(2);
    for lane in 0..LANES {
        wave.temps[0][0][lane] = (lane / 32) as f32;
    }
    let mut echo = Echo::default();
    assert_eq!(
        run(&program, 0..2, &[], &mut wave, &mut echo),
        Outcome::Done
    );
    assert_eq!(
        echo.lookups,
        [(2, 0xffff_ffff, None), (3, 0xffff_ffff << 32, None)]
    );
    assert_eq!([wave.temps[1][3][31], wave.temps[1][3][32]], [2.0, 3.0]);
    let outcome = run(&program, 0..2, &[], &mut wave, &mut Nothing);
    assert_eq!(outcome, Outcome::Fault(1, Fault::Sampler(2)));
}

#[test]
fn memory_is_read_and_written() {
    let program = program(
        "load.u32 t1.yz, t0.x, 8u\nstore.u32 mem.xy, t0.x, 256u, t1.yzzz",
        Board::Gc3000,
    );
    let mut wave = Wave::new(2);
    wave.mask = 0b10;
    wave.temps[0][0][1] = f32::from_bits(0x40);
    let mut echo = Echo::default();
    assert_eq!(
        run(&program, 0..2, &[], &mut wave, &mut echo),
        Outcome::Done
    );
    assert_eq!([1, 2].map(|c| wave.temps[1][c][1].to_bits()), [0x48, 0x4c]);
    assert_eq!(echo.stores, [(0x140, 0x48), (0x144, 0x4c)]);
    wave.temps[0][0][1] = f32::from_bits(0x2000);
    let outcome = run(&program, 0..2, &[], &mut wave, &mut echo);
    assert_eq!(outcome, Outcome::Fault(0, Fault::Memory(0x2008)));
}

#[test]
fn immediates_are_values() {
    let mut wave = Wave::new(1);
    let text = "mov t0.x, 0.5\nmov t0.y, -3\nmov t0.z, 70000u\nmov t0.w, 0xc200h";
    assert_eq!(run_all(text, Board::Gc3000, &[], &mut wave), Outcome::Done);
    let bits = [0, 1, 2, 3].map(|component| wave.temps[0][component][0].to_bits());
    assert_eq!(
        bits,
        [0.5f32.to_bits(), -3i32 as u32, 70_000, (-3.0f32).to_bits()]
    );
}
