// SPDX-License-Identifier: GPL-2.0-only
//! Arithmetic of the instructions, for one component of 64 lanes.

use std::f32::consts::FRAC_PI_2;

use gpu_isa::Condition;
use gpu_isa::Op;
use gpu_isa::Type;

use super::Lane;
use super::LANES;

/// One component of an operand: the same for all lanes, or one value per lane.
#[derive(Clone, Copy)]
pub(super) enum Lanes<'a> {
    Same(f32),
    Each(&'a Lane),
}

use Lanes::Each;
use Lanes::Same;

/// Computes each lane's result from its operand.
#[inline(always)]
pub(super) fn each1(out: &mut Lane, a: Lanes<'_>, f: impl Fn(f32) -> f32) {
    match a {
        Same(a) => out.fill(f(a)),
        Each(a) => (0..LANES).for_each(|i| out[i] = f(a[i])),
    }
}

/// Computes each lane's result from the old result and two operands.
#[inline(always)]
pub(super) fn each2(out: &mut Lane, a: Lanes<'_>, b: Lanes<'_>, f: impl Fn(f32, f32, f32) -> f32) {
    match (a, b) {
        (Same(a), Same(b)) => (0..LANES).for_each(|i| out[i] = f(out[i], a, b)),
        (Same(a), Each(b)) => (0..LANES).for_each(|i| out[i] = f(out[i], a, b[i])),
        (Each(a), Same(b)) => (0..LANES).for_each(|i| out[i] = f(out[i], a[i], b)),
        (Each(a), Each(b)) => (0..LANES).for_each(|i| out[i] = f(out[i], a[i], b[i])),
    }
}

/// Flushes a result below the normal range to 0. A GC2000 must do so: it passes piglit's
/// `fs-underflow-mul-compare-zero`, which fails with the denormal numbers of IEEE 754.
#[inline(always)]
pub(super) fn normal(value: f32) -> f32 {
    // Operates on bits: vectorizes, and keeps the sign.
    let is_small = value.abs() < f32::MIN_POSITIVE;
    let keep = if is_small { 1 << 31 } else { u32::MAX };
    f32::from_bits(value.to_bits() & keep)
}

/// First times second plus third, rounded twice.
pub(super) fn multiply_add(out: &mut Lane, a: Lanes<'_>, b: Lanes<'_>, c: Lanes<'_>) {
    match c {
        Same(c) => each2(out, a, b, |_, a, b| normal(a * b + c)),
        Each(c) => {
            let lanes = 0..LANES;
            match (a, b) {
                (Same(a), Same(b)) => lanes.for_each(|i| out[i] = normal(a * b + c[i])),
                (Same(a), Each(b)) => lanes.for_each(|i| out[i] = normal(a * b[i] + c[i])),
                (Each(a), Same(b)) => lanes.for_each(|i| out[i] = normal(a[i] * b + c[i])),
                (Each(a), Each(b)) => lanes.for_each(|i| out[i] = normal(a[i] * b[i] + c[i])),
            }
        }
    }
}

/// All ones where the condition is true.
pub(super) type Truth = [u32; LANES];

#[inline(always)]
fn compare(out: &mut Truth, a: Lanes<'_>, b: Lanes<'_>, f: impl Fn(f32, f32) -> bool) {
    let truth = |a: f32, b: f32| if f(a, b) { u32::MAX } else { 0 };
    match (a, b) {
        (Same(a), Same(b)) => out.fill(truth(a, b)),
        (Same(a), Each(b)) => (0..LANES).for_each(|i| out[i] = truth(a, b[i])),
        (Each(a), Same(b)) => (0..LANES).for_each(|i| out[i] = truth(a[i], b)),
        (Each(a), Each(b)) => (0..LANES).for_each(|i| out[i] = truth(a[i], b[i])),
    }
}

/// Evaluates a condition. Unary conditions use only the first operand.
pub(super) fn test(out: &mut Truth, condition: Condition, kind: Type, a: Lanes<'_>, b: Lanes<'_>) {
    use Condition::*;
    let signed = |value: f32| value.to_bits() as i32;
    match (condition, kind) {
        (True, _) => out.fill(u32::MAX),
        (Selmsb, _) => compare(out, a, b, |a, _| a.to_bits() >> 31 != 0),
        (Gt, Type::F32) => compare(out, a, b, |a, b| a > b),
        (Lt, Type::F32) => compare(out, a, b, |a, b| a < b),
        (Ge, Type::F32) => compare(out, a, b, |a, b| a >= b),
        (Le, Type::F32) => compare(out, a, b, |a, b| a <= b),
        (Eq, Type::F32) => compare(out, a, b, |a, b| a == b),
        (Ne, Type::F32) => compare(out, a, b, |a, b| a != b),
        (And, Type::F32) => compare(out, a, b, |a, b| a != 0.0 && b != 0.0),
        (Or, Type::F32) => compare(out, a, b, |a, b| a != 0.0 || b != 0.0),
        (Xor, Type::F32) => compare(out, a, b, |a, b| (a != 0.0) != (b != 0.0)),
        (Not, Type::F32) => compare(out, a, b, |a, _| a == 0.0),
        (Nz, Type::F32) => compare(out, a, b, |a, _| a != 0.0),
        (Gez, Type::F32) => compare(out, a, b, |a, _| a >= 0.0),
        (Gz, Type::F32) => compare(out, a, b, |a, _| a > 0.0),
        (Lez, Type::F32) => compare(out, a, b, |a, _| a <= 0.0),
        (Lz, Type::F32) => compare(out, a, b, |a, _| a < 0.0),
        (Eq, _) => compare(out, a, b, |a, b| a.to_bits() == b.to_bits()),
        (Ne, _) => compare(out, a, b, |a, b| a.to_bits() != b.to_bits()),
        (And, _) => compare(out, a, b, |a, b| a.to_bits() & b.to_bits() != 0),
        (Or, _) => compare(out, a, b, |a, b| a.to_bits() | b.to_bits() != 0),
        (Xor, _) => compare(out, a, b, |a, b| a.to_bits() ^ b.to_bits() != 0),
        (Not, _) => compare(out, a, b, |a, _| a.to_bits() == 0),
        (Nz, _) => compare(out, a, b, |a, _| a.to_bits() != 0),
        (Gt, kind) if is_unsigned(kind) => compare(out, a, b, |a, b| a.to_bits() > b.to_bits()),
        (Lt, kind) if is_unsigned(kind) => compare(out, a, b, |a, b| a.to_bits() < b.to_bits()),
        (Ge, kind) if is_unsigned(kind) => compare(out, a, b, |a, b| a.to_bits() >= b.to_bits()),
        (Le, kind) if is_unsigned(kind) => compare(out, a, b, |a, b| a.to_bits() <= b.to_bits()),
        (Gez, kind) if is_unsigned(kind) => out.fill(u32::MAX),
        (Lz, kind) if is_unsigned(kind) => out.fill(0),
        (Gz, kind) if is_unsigned(kind) => compare(out, a, b, |a, _| a.to_bits() != 0),
        (Lez, kind) if is_unsigned(kind) => compare(out, a, b, |a, _| a.to_bits() == 0),
        (Gt, _) => compare(out, a, b, |a, b| signed(a) > signed(b)),
        (Lt, _) => compare(out, a, b, |a, b| signed(a) < signed(b)),
        (Ge, _) => compare(out, a, b, |a, b| signed(a) >= signed(b)),
        (Le, _) => compare(out, a, b, |a, b| signed(a) <= signed(b)),
        (Gez, _) => compare(out, a, b, |a, _| signed(a) >= 0),
        (Gz, _) => compare(out, a, b, |a, _| signed(a) > 0),
        (Lez, _) => compare(out, a, b, |a, _| signed(a) <= 0),
        (Lz, _) => compare(out, a, b, |a, _| signed(a) < 0),
    }
}

/// Selects one of two operands.
pub(super) fn choose(out: &mut Lane, truth: &Truth, a: Lanes<'_>, b: Lanes<'_>) {
    // Operates on bits: integers must stay unchanged.
    let one =
        |truth: u32, a: f32, b: f32| f32::from_bits(a.to_bits() & truth | b.to_bits() & !truth);
    match (a, b) {
        (Same(a), Same(b)) => (0..LANES).for_each(|i| out[i] = one(truth[i], a, b)),
        (Same(a), Each(b)) => (0..LANES).for_each(|i| out[i] = one(truth[i], a, b[i])),
        (Each(a), Same(b)) => (0..LANES).for_each(|i| out[i] = one(truth[i], a[i], b)),
        (Each(a), Each(b)) => (0..LANES).for_each(|i| out[i] = one(truth[i], a[i], b[i])),
    }
}

/// Packs the truth values into one bit per lane.
pub(super) fn bits(truth: &Truth) -> u64 {
    let mut bits = 0;
    for (lane, truth) in truth.iter().enumerate() {
        bits |= u64::from(truth & 1) << lane;
    }
    bits
}

/// Clamps to 0 to 1. NaN becomes 0.
pub(super) fn saturate(out: &mut Lane) {
    for value in out.iter_mut() {
        let above = if *value > 0.0 { *value } else { 0.0 };
        *value = if above < 1.0 { above } else { 1.0 };
    }
}

/// Converts a half-precision float.
pub(crate) fn half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let (exponent, fraction) = (u32::from(bits >> 10 & 31), u32::from(bits & 0x3ff));
    match exponent {
        0 => {
            let value = fraction as f32 / (1 << 24) as f32;
            f32::from_bits(value.to_bits() | sign)
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Rounds down to an integer. The standard library's function is a call if the processor has no instruction for it.
pub(crate) fn floor(value: f32) -> f32 {
    // Floats from this value on have no fraction: adding it rounds the fraction away.
    const WHOLE: f32 = 8_388_608.0;
    let shift = WHOLE.copysign(value);
    let near = (value + shift) - shift;
    let below = if near > value { near - 1.0 } else { near };
    // NaN fails this test too.
    if value.abs() < WHOLE {
        below
    } else {
        value
    }
}

/// Sine of a number of quarter turns, plus `ahead` whole quarter turns.
fn sine(quarters: f32, ahead: f32) -> f32 {
    // Remove the whole quarters first. This is exact, so large arguments keep their precision.
    let whole = floor(quarters + 0.5);
    let quadrant = whole - 4.0 * floor(whole * 0.25) + ahead;
    let angle = (quarters - whole) * FRAC_PI_2;
    let square = angle * angle;
    let sine = ((square / 362_880.0 - 1.0 / 5040.0) * square + 1.0 / 120.0) * square - 1.0 / 6.0;
    let cosine = ((square / 40_320.0 - 1.0 / 720.0) * square + 1.0 / 24.0) * square - 0.5;
    let is_odd = quadrant == 1.0 || quadrant == 3.0;
    let value = if is_odd {
        cosine * square + 1.0
    } else {
        sine * square * angle + angle
    };
    if quadrant == 2.0 || quadrant == 3.0 {
        -value
    } else {
        value
    }
}

/// -1, 0 or 1.
fn sign(value: f32) -> f32 {
    let above = if value > 0.0 { 1.0 } else { 0.0 };
    if value < 0.0 {
        -1.0
    } else {
        above
    }
}

/// Operations on one float. Operations that use only the first component are in [`is_scalar`].
pub(super) fn unary(op: Op, in_factors: bool, out: &mut Lane, a: Lanes<'_>) {
    // SIN and COS with two factors count in half turns.
    let quarters = if in_factors { 2.0 } else { 1.0 };
    match op {
        Op::Mov => each1(out, a, |a| a),
        Op::Rcp => each1(out, a, |a| normal(1.0 / a)),
        Op::Rsq => each1(out, a, |a| 1.0 / a.sqrt()),
        Op::Exp => each1(out, a, |a| normal(a.exp2())),
        Op::Log => each1(out, a, f32::log2),
        Op::Frc => each1(out, a, |a| a - floor(a)),
        Op::Sqrt => each1(out, a, f32::sqrt),
        Op::Sin => each1(out, a, |a| sine(a * quarters, 0.0)),
        Op::Cos => each1(out, a, |a| sine(a * quarters, 1.0)),
        Op::Floor => each1(out, a, floor),
        Op::Ceil => each1(out, a, |a| -floor(-a)),
        Op::Sign => each1(out, a, sign),
        _ => unreachable!("{op:?} has not one operand"),
    }
}

/// Whether the operation computes one number for all components of its destination.
pub(super) fn is_scalar(op: Op) -> bool {
    matches!(
        op,
        Op::Rcp | Op::Rsq | Op::Exp | Op::Log | Op::Sqrt | Op::Sin | Op::Cos | Op::Div
    )
}

/// Whether the operation supports types other than floats. For branches, the condition does.
pub(super) fn takes_integers(op: Op) -> bool {
    matches!(
        op,
        Op::Add
            | Op::Mov
            | Op::Movar
            | Op::Select
            | Op::Set
            | Op::Branch
            | Op::BranchAny
            | Op::Texkill
            | Op::Sign
            | Op::Cmp
            | Op::Load
            | Op::Store
            | Op::Clamp0Max
            | Op::Nop
            | Op::Call
            | Op::Ret
    ) || is_integral(op)
}

/// Whether the operation works on integers.
pub(super) fn is_integral(op: Op) -> bool {
    matches!(
        op,
        Op::I2i
            | Op::I2f
            | Op::F2i
            | Op::F2irnd
            | Op::Iaddsat
            | Op::Imullo0
            | Op::Imulhi0
            | Op::Idiv0
            | Op::Imod
            | Op::Imadlo0
            | Op::Imadlosat0
            | Op::Movai
            | Op::Iabs
            | Op::Leadzero
            | Op::Lshift
            | Op::Rshift
            | Op::Rotate
            | Op::Or
            | Op::And
            | Op::Xor
            | Op::Not
            | Op::BitExtract
            | Op::Popcount
            | Op::BitRev
            | Op::BitFindlsb
            | Op::BitFindmsb
    )
}

fn is_unsigned(kind: Type) -> bool {
    matches!(kind, Type::U32 | Type::U16 | Type::U8)
}

/// Width of an integer type in bits.
fn width(kind: Type) -> u32 {
    match kind {
        Type::S8 | Type::U8 => 8,
        Type::S16 | Type::U16 | Type::F16 => 16,
        Type::F32 | Type::S32 | Type::U32 => 32,
    }
}

/// The lowest and the highest values of a type.
fn limits(kind: Type) -> (i64, i64) {
    let width = width(kind);
    if is_unsigned(kind) {
        (0, (1 << width) - 1)
    } else {
        (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    }
}

/// The value of a register's bits, by type.
fn value(kind: Type, bits: u32) -> i64 {
    let width = width(kind);
    let low = i64::from(bits) & ((1 << width) - 1);
    if !is_unsigned(kind) && low >> (width - 1) != 0 {
        low - (1 << width)
    } else {
        low
    }
}

/// Integer operations: the resulting bits of one lane.
pub(super) fn integral(op: Op, kind: Type, rounding: u8, [a, b, c]: [u32; 3]) -> u32 {
    let (x, y, z) = (value(kind, a), value(kind, b), value(kind, c));
    let (low, high) = limits(kind);
    let width = width(kind);
    let clamp = |value: i64| value.clamp(low, high);
    let ones = (1u64 << width) - 1;
    let product = x.wrapping_mul(y);
    let result = match op {
        Op::Add => x + z,
        Op::I2i => clamp(if is_unsigned(kind) {
            i64::from(a)
        } else {
            i64::from(a as i32)
        }),
        Op::I2f => return (x as f32).to_bits(),
        Op::F2i => clamp(f32::from_bits(a) as i64),
        Op::F2irnd if rounding == 1 => clamp(f32::from_bits(a) as i64),
        Op::F2irnd => clamp(f32::from_bits(a).round_ties_even() as i64),
        Op::Iaddsat => clamp(x + z),
        Op::Imullo0 => product,
        Op::Imulhi0 if is_unsigned(kind) => (product as u64 >> width) as i64,
        Op::Imulhi0 => product >> width,
        // The result of a division by zero is not known.
        Op::Idiv0 => x.checked_div(y).unwrap_or(-1),
        Op::Imod => x.checked_rem(y).unwrap_or(0),
        Op::Imadlo0 => product.wrapping_add(z),
        Op::Imadlosat0 => clamp(x.saturating_mul(y).saturating_add(z)),
        Op::Sign => z.signum(),
        Op::Clamp0Max => x.max(0).min(y),
        Op::Iabs => z.abs(),
        Op::Leadzero => i64::from(((z as u64) & ones).leading_zeros()) - i64::from(64 - width),
        Op::Lshift => x << (z as u32 & (width - 1)),
        Op::Rshift => x >> (z as u32 & (width - 1)),
        Op::Rotate => {
            let (bits, by) = (x as u64 & ones, z as u32 & (width - 1));
            (bits << by | bits >> (width - by)) as i64
        }
        Op::Or => x | z,
        Op::And => x & z,
        Op::Xor => x ^ z,
        Op::Not => !z,
        Op::BitExtract => {
            let (offset, count) = (y as u32 & 31, (z as u32).min(32 - (y as u32 & 31)));
            match (count, is_unsigned(kind)) {
                (0, _) => 0,
                (_, true) => i64::from(a << (32 - offset - count) >> (32 - count)),
                (_, false) => i64::from((a << (32 - offset - count)) as i32 >> (32 - count)),
            }
        }
        Op::Popcount => i64::from((z as u64 & ones).count_ones()),
        Op::BitRev => ((x as u64 & ones) as u32).reverse_bits() as i64 >> (32 - width),
        Op::BitFindlsb => match x as u64 & ones {
            0 => -1,
            bits => i64::from(bits.trailing_zeros()),
        },
        Op::BitFindmsb => {
            // For negative numbers, the highest zero bit.
            let bits = if x < 0 { !x } else { x } as u64 & ones;
            63 - i64::from(bits.leading_zeros())
        }
        _ => unreachable!("{op:?} is not one of integers"),
    };
    // Short integers are stored as 32-bit integers.
    value(kind, result as u32) as u32
}

/// Integer operations for all lanes.
pub(super) fn each_integral(out: &mut Lane, op: Op, kind: Type, rounding: u8, all: [Lanes<'_>; 3]) {
    for (lane, out) in out.iter_mut().enumerate() {
        let operands = all.map(|operand| match operand {
            Same(value) => value.to_bits(),
            Each(values) => values[lane].to_bits(),
        });
        *out = f32::from_bits(integral(op, kind, rounding, operands));
    }
}

/// The difference within the square of pixels, from the lane with this bit of its number clear to the lane with it set.
pub(super) fn derive(out: &mut Lane, a: Lanes<'_>, bit: usize) {
    match a {
        Same(_) => out.fill(0.0),
        Each(a) => (0..LANES).for_each(|i| out[i] = a[i | bit] - a[i & !bit]),
    }
}

/// Number of terms of a dot product.
pub(super) fn terms(op: Op) -> Option<usize> {
    match op {
        Op::Dp2 | Op::NormDp2 => Some(2),
        Op::Dp3 | Op::NormDp3 => Some(3),
        Op::Dp4 | Op::NormDp4 => Some(4),
        _ => None,
    }
}
