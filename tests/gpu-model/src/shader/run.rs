// SPDX-License-Identifier: GPL-2.0-only
//! The interpreter. It executes one instruction at a time, for all lanes at that instruction.

use std::mem::swap;
use std::ops::Range;

use gpu_isa::Op;
use gpu_isa::Shape;
use gpu_isa::Type;

use super::arithmetic as math;
use super::arithmetic::Lanes;
use super::arithmetic::Truth;
use super::registers;
use super::Fault;
use super::From;
use super::Lane;
use super::Lod;
use super::Lookup;
use super::Operand;
use super::Outcome;
use super::Program;
use super::Sampler;
use super::Step;
use super::Wave;
use super::CALLS;
use super::LANES;

/// Lanes at the same instruction with the same call stack.
#[derive(Clone, Copy)]
struct Flow {
    at: usize,
    mask: u64,
    calls: [usize; CALLS],
    depth: usize,
}

impl Flow {
    fn joins(&self, other: &Self) -> bool {
        self.at == other.at && self.calls[..self.depth] == other.calls[..other.depth]
    }
}

/// Runs a program for the lanes of a wave, from the first instruction of a range until all lanes have left the range.
/// Lanes outside the wave's mask end with undefined contents.
///
/// Of diverged lanes, those at the lowest instruction run first, so that they rejoin after an `if` or a loop.
pub fn run(
    program: &Program,
    range: Range<usize>,
    constants: &[[f32; 4]],
    wave: &mut Wave,
    sampler: &mut dyn Sampler,
) -> Outcome {
    if program.temporaries() > wave.temps.len() {
        return Outcome::Temporaries(program.temporaries());
    }
    let mut machine = Machine {
        program,
        constants,
        sampler,
        lanes: [[0.0; LANES]; 4],
        truth: [0; LANES],
        result: wave.result.take().unwrap_or_else(registers),
    };
    let outcome = machine.run(range, wave);
    wave.result = Some(machine.result);
    outcome
}

/// Takes the lanes at the lowest instruction, joined with all lanes there that have the same call stack.
fn next(waiting: &mut Vec<Flow>) -> Option<Flow> {
    let (index, _) = waiting.iter().enumerate().min_by_key(|(_, flow)| flow.at)?;
    let mut first = waiting.swap_remove(index);
    waiting.retain(|other| {
        let joins = first.joins(other);
        if joins {
            first.mask |= other.mask;
        }
        !joins
    });
    Some(first)
}

struct Machine<'a> {
    program: &'a Program,
    constants: &'a [[f32; 4]],
    sampler: &'a mut dyn Sampler,
    /// Buffers for operands.
    lanes: [Lane; 4],
    /// Buffer for conditions.
    truth: Truth,
    /// Buffer for the result, before it is stored in its destination.
    result: [Box<Lane>; 4],
}

/// The operands of an instruction.
struct Inputs<'a> {
    step: &'a Step,
    wave: &'a Wave,
    constants: &'a [[f32; 4]],
}

impl Inputs<'_> {
    /// A component of a source; 0 if the source is absent.
    fn get<'a>(&'a self, index: usize, component: usize, room: &'a mut Lane) -> Lanes<'a> {
        let Self {
            step,
            wave,
            constants,
        } = self;
        match &step.sources[index] {
            Some(operand) => fetch(operand, component, step.kind, constants, wave, room),
            None => Lanes::Same(0.0),
        }
    }
}

/// An operand's component with its modifiers. Uses a buffer if the value must be computed.
fn fetch<'a>(
    operand: &Operand,
    component: usize,
    kind: Type,
    constants: &[[f32; 4]],
    wave: &'a Wave,
    scratch: &'a mut Lane,
) -> Lanes<'a> {
    let component = usize::from(operand.components[component]);
    let plain = match (operand.from, operand.relative) {
        (From::Value(bits), _) => Lanes::Same(f32::from_bits(bits)),
        (From::Internal, _) => Lanes::Each(&wave.internal[component]),
        (From::Temp(index), None) => match wave.temps.get(index) {
            Some(register) => Lanes::Each(&register[component]),
            None => Lanes::Same(0.0),
        },
        (From::Uniform(index), None) => {
            Lanes::Same(constants.get(index).map_or(0.0, |value| value[component]))
        }
        (from, Some(address)) => {
            for (lane, out) in scratch.iter_mut().enumerate() {
                let offset = wave.address[address][lane] as isize;
                *out = match from {
                    From::Temp(index) => index
                        .checked_add_signed(offset)
                        .and_then(|index| wave.temps.get(index))
                        .map_or(0.0, |register| register[component][lane]),
                    From::Uniform(index) => index
                        .checked_add_signed(offset)
                        .and_then(|index| constants.get(index))
                        .map_or(0.0, |value| value[component]),
                    From::Internal | From::Value(_) => 0.0,
                };
            }
            if operand.is_absolute || operand.is_negated {
                for value in scratch.iter_mut() {
                    *value = modified(operand, kind, *value);
                }
            }
            return Lanes::Each(scratch);
        }
    };
    if !operand.is_absolute && !operand.is_negated {
        return plain;
    }
    match plain {
        Lanes::Same(value) => Lanes::Same(modified(operand, kind, value)),
        Lanes::Each(values) if kind == Type::F32 => {
            // Operates on bits, in one pass.
            let keep = if operand.is_absolute {
                0x7fff_ffff
            } else {
                u32::MAX
            };
            let flip = u32::from(operand.is_negated) << 31;
            for (out, value) in scratch.iter_mut().zip(values) {
                *out = f32::from_bits(value.to_bits() & keep ^ flip);
            }
            Lanes::Each(scratch)
        }
        Lanes::Each(values) => {
            for (out, value) in scratch.iter_mut().zip(values) {
                *out = modified(operand, kind, *value);
            }
            Lanes::Each(scratch)
        }
    }
}

fn modified(operand: &Operand, kind: Type, value: f32) -> f32 {
    if kind == Type::F32 {
        let value = if operand.is_absolute {
            value.abs()
        } else {
            value
        };
        return if operand.is_negated { -value } else { value };
    }
    let value = value.to_bits() as i32;
    let value = if operand.is_absolute {
        value.wrapping_abs()
    } else {
        value
    };
    let value = if operand.is_negated {
        value.wrapping_neg()
    } else {
        value
    };
    f32::from_bits(value as u32)
}

/// Expands a value to one per lane.
fn spread<'a>(lanes: Lanes<'a>, room: &'a mut Lane) -> &'a Lane {
    match lanes {
        Lanes::Each(values) => values,
        Lanes::Same(value) => {
            room.fill(value);
            room
        }
    }
}

impl Machine<'_> {
    fn run(&mut self, range: Range<usize>, wave: &mut Wave) -> Outcome {
        let program = self.program;
        let steps = &program.steps[..range.end.min(program.steps.len())];
        let mut current = Flow {
            at: range.start,
            mask: wave.mask,
            calls: [0; CALLS],
            depth: 0,
        };
        let mut waiting: Vec<Flow> = Vec::new();
        let all = wave.mask;
        let mut left = wave.budget;
        loop {
            let step = match steps.get(current.at) {
                Some(step) if current.at >= range.start && current.mask != 0 => step,
                // These lanes have finished.
                _ => match next(&mut waiting) {
                    Some(flow) => {
                        current = flow;
                        continue;
                    }
                    None => return Outcome::Done,
                },
            };
            let Some(rest) = left.checked_sub(1) else {
                return Outcome::Endless(current.at);
            };
            left = rest;
            wave.instructions += u64::from(current.mask.count_ones());
            let at = current.at;
            let done = match step.op {
                Op::Branch | Op::BranchAny | Op::Call | Op::Ret => {
                    let other = self.flow(step, wave, &mut current);
                    other.map(|other| waiting.extend(other))
                }
                _ => {
                    current.at += 1;
                    self.execute(step, wave, current.mask, current.mask == all)
                }
            };
            if let Err(fault) = done {
                return Outcome::Fault(at, fault);
            }
            if !waiting.is_empty() {
                waiting.push(current);
                match next(&mut waiting) {
                    Some(flow) => current = flow,
                    None => return Outcome::Done,
                }
            }
        }
    }

    /// Executes branches, calls and returns: moves the lanes, and returns those that take another path.
    fn flow(
        &mut self,
        step: &Step,
        wave: &Wave,
        current: &mut Flow,
    ) -> Result<Option<Flow>, Fault> {
        match step.op {
            Op::Call => {
                let place = current.calls.get_mut(current.depth);
                *place.ok_or(Fault::Calls)? = current.at + 1;
                current.depth += 1;
                current.at = step.target;
                Ok(None)
            }
            Op::Ret => {
                current.depth = current.depth.checked_sub(1).ok_or(Fault::Calls)?;
                current.at = current.calls[current.depth];
                Ok(None)
            }
            _ => {
                let components = if step.op == Op::Branch { 1 } else { 15 };
                let taken = self.holds(step, wave, components) & current.mask;
                let stays = current.mask & !taken;
                let there = Flow {
                    at: step.target,
                    mask: taken,
                    ..*current
                };
                if stays == 0 {
                    *current = there;
                    return Ok(None);
                }
                current.at += 1;
                current.mask = stays;
                Ok((taken != 0).then_some(there))
            }
        }
    }

    /// The lanes for which the condition is true in any of these components.
    fn holds(&mut self, step: &Step, wave: &Wave, components: u8) -> u64 {
        if step.condition == gpu_isa::Condition::True {
            return u64::MAX;
        }
        let mut bits = 0;
        for component in (0..4).filter(|component| components >> component & 1 != 0) {
            self.compare(step, component, wave);
            bits |= math::bits(&self.truth);
        }
        bits
    }

    /// Evaluates the condition for one component of the first two sources.
    fn compare(&mut self, step: &Step, component: usize, wave: &Wave) {
        let [first, second, ..] = &mut self.lanes;
        let inputs = Inputs {
            step,
            wave,
            constants: self.constants,
        };
        let (a, b) = (
            inputs.get(0, component, first),
            inputs.get(1, component, second),
        );
        math::test(&mut self.truth, step.condition, step.kind, a, b);
    }

    /// Executes everything except flow control. `is_full`: all lanes of the wave are here, so the other lanes' contents
    /// do not matter.
    fn execute(
        &mut self,
        step: &Step,
        wave: &mut Wave,
        mask: u64,
        is_full: bool,
    ) -> Result<(), Fault> {
        match step.op {
            Op::Nop | Op::Barrier => return Ok(()),
            Op::Texkill => {
                wave.killed |= self.holds(step, wave, 15) & mask;
                return Ok(());
            }
            Op::Movar | Op::Movaf | Op::Movai => {
                self.set_address(step, wave, mask);
                return Ok(());
            }
            Op::Store => return self.store(step, wave, mask),
            Op::Load => self.load(step, wave, mask)?,
            op if op.shape() == Shape::Texture => self.texture(step, wave, mask)?,
            _ => self.compute(step, wave),
        }
        self.write(step, wave, mask, is_full);
        Ok(())
    }

    fn write(&mut self, step: &Step, wave: &mut Wave, mask: u64, is_full: bool) {
        let Some(index) = step.destination else {
            return;
        };
        for component in (0..4).filter(|component| step.mask >> component & 1 != 0) {
            let result = &mut self.result[component];
            if step.saturates {
                math::saturate(result);
            }
            if let Some(address) = step.destination_relative {
                for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
                    let index = index.checked_add_signed(wave.address[address][lane] as isize);
                    if let Some(register) = index.and_then(|index| wave.temps.get_mut(index)) {
                        register[component][lane] = result[lane];
                    }
                }
                continue;
            }
            let Some(register) = wave.temps.get_mut(index) else {
                continue;
            };
            if is_full {
                // Reuse the old value's buffer for the next result.
                swap(&mut register[component], result);
            } else {
                for lane in 0..LANES {
                    let old = register[component][lane];
                    register[component][lane] = if mask >> lane & 1 != 0 {
                        result[lane]
                    } else {
                        old
                    };
                }
            }
        }
    }

    fn set_address(&mut self, step: &Step, wave: &mut Wave, mask: u64) {
        let is_integer =
            step.op == Op::Movai || step.op == Op::Movar && self.program.has_integer_address;
        let Some(operand) = &step.sources[2] else {
            return;
        };
        for component in (0..4).filter(|component| step.mask >> component & 1 != 0) {
            let [room, spare, ..] = &mut self.lanes;
            let value = fetch(operand, component, step.kind, self.constants, wave, room);
            let value = spread(value, spare);
            let mut address = wave.address[component];
            for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
                address[lane] = if is_integer {
                    value[lane].to_bits() as i32
                } else {
                    math::floor(value[lane]) as i32
                };
            }
            wave.address[component] = address;
        }
    }

    /// Arithmetic: computes the results of all written components.
    fn compute(&mut self, step: &Step, wave: &Wave) {
        let inputs = Inputs {
            step,
            wave,
            constants: self.constants,
        };
        let mut masked = (0..4).filter(|component| step.mask >> component & 1 != 0);
        let Some(lowest) = masked.next() else { return };
        if !math::is_scalar(step.op) && math::terms(step.op).is_none() {
            self.component(&inputs, lowest);
            masked.for_each(|component| self.component(&inputs, component));
            return;
        }
        // One result for all components.
        let [first, second, ..] = &mut self.lanes;
        let is_length = matches!(step.op, Op::NormDp2 | Op::NormDp3 | Op::NormDp4);
        let out = &mut self.result[lowest];
        match math::terms(step.op) {
            Some(terms) => {
                let other = if is_length { 0 } else { 1 };
                for term in 0..terms {
                    let (a, b) = (inputs.get(0, term, first), inputs.get(other, term, second));
                    match term {
                        0 => math::each2(out, a, b, |_, a, b| a * b),
                        _ if is_length || term + 1 < terms => {
                            math::each2(out, a, b, |sum, a, b| sum + a * b);
                        }
                        _ => math::each2(out, a, b, |sum, a, b| math::normal(sum + a * b)),
                    }
                }
            }
            None if step.op == Op::Div => {
                let (a, b) = (inputs.get(1, 0, first), inputs.get(2, 0, second));
                math::each2(out, a, b, |_, a, b| math::normal(a / b));
            }
            None => math::unary(step.op, step.in_factors, out, inputs.get(2, 0, first)),
        }
        for (number, component) in masked.clone().enumerate() {
            if !step.in_factors {
                let (low, high) = self.result.split_at_mut(component);
                high[0].copy_from_slice(&*low[lowest]);
            } else if number == 0 {
                self.result[component].fill(1.0);
            }
        }
        if is_length {
            for component in [lowest].into_iter().chain(masked) {
                let (out, a) = (&mut self.result[component], inputs.get(0, component, first));
                math::each2(out, a, a, |square, a, _| a * (1.0 / square.sqrt()));
            }
        }
    }

    /// Arithmetic that treats each component separately.
    fn component(&mut self, inputs: &Inputs<'_>, component: usize) {
        let Step { op, kind, .. } = *inputs.step;
        let [first, second, third, _] = &mut self.lanes;
        let out = &mut self.result[component];
        let (a, b, c) = (
            inputs.get(0, component, first),
            inputs.get(1, component, second),
            inputs.get(2, component, third),
        );
        match op {
            Op::Add if kind == Type::F32 => math::each2(out, a, c, |_, a, c| math::normal(a + c)),
            Op::Mul => math::each2(out, a, b, |_, a, b| math::normal(a * b)),
            Op::Mad => math::multiply_add(out, a, b, c),
            Op::Select | Op::Cmp | Op::Set => {
                let truth = &mut self.truth;
                math::test(truth, inputs.step.condition, kind, a, b);
                let zero = Lanes::Same(0.0);
                match op {
                    Op::Select => math::choose(out, truth, b, c),
                    Op::Cmp => math::choose(out, truth, c, zero),
                    _ if kind == Type::F32 => math::choose(out, truth, Lanes::Same(1.0), zero),
                    _ => math::choose(out, truth, Lanes::Same(f32::from_bits(1)), zero),
                }
            }
            Op::Clamp0Max if kind == Type::F32 => {
                math::each2(out, a, b, |_, a, b| a.max(0.0).min(b));
            }
            Op::Dsx => math::derive(out, a, 1),
            Op::Dsy => math::derive(out, a, 2),
            Op::Dst => match component {
                0 => out.fill(1.0),
                1 => math::each2(out, a, b, |_, a, b| math::normal(a * b)),
                2 => math::each1(out, a, |a| a),
                _ => math::each1(out, b, |b| b),
            },
            Op::Litp => self.light(inputs, component),
            Op::Mov => math::each1(out, c, |c| c),
            op if math::is_integral(op) || kind != Type::F32 => {
                math::each_integral(out, op, kind, inputs.step.rounding, [a, b, c]);
            }
            op => math::unary(op, false, out, c),
        }
    }

    /// LITP: light that does not reach the front has no effect.
    fn light(&mut self, inputs: &Inputs<'_>, component: usize) {
        let [first, second, third, _] = &mut self.lanes;
        let out = &mut self.result[component];
        let value = match component {
            1 => inputs.get(1, 1, first),
            2 => inputs.get(2, 0, first),
            _ => return out.fill(1.0),
        };
        match component {
            1 => math::each1(out, value, |light| light),
            _ => math::each1(out, value, |value| math::normal(value.exp2())),
        }
        let front = inputs.get(1, 2, second);
        let gate = match inputs.step.sources[0] {
            Some(_) => inputs.get(0, component, third),
            None => Lanes::Same(1.0),
        };
        math::each2(out, front, gate, |value, front, gate| {
            if front > 0.0 && gate > 0.0 {
                value
            } else {
                0.0
            }
        });
    }

    /// The word address for each lane: the first source plus the shifted second one.
    fn address(&mut self, step: &Step, wave: &Wave) -> [u32; LANES] {
        let [first, second, third, fourth] = &mut self.lanes;
        let inputs = Inputs {
            step,
            wave,
            constants: self.constants,
        };
        let base = spread(inputs.get(0, 0, first), third);
        let offset = spread(inputs.get(1, 0, second), fourth);
        std::array::from_fn(|lane| {
            let offset = offset[lane].to_bits() << step.shift;
            base[lane].to_bits().wrapping_add(offset)
        })
    }

    fn load(&mut self, step: &Step, wave: &Wave, mask: u64) -> Result<(), Fault> {
        let address = self.address(step, wave);
        let masked = (0..4).filter(|component| step.mask >> component & 1 != 0);
        for (word, component) in masked.enumerate() {
            for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
                let address = address[lane].wrapping_add(4 * word as u32);
                self.result[component][lane] = f32::from_bits(self.sampler.load(address)?);
            }
        }
        Ok(())
    }

    fn store(&mut self, step: &Step, wave: &Wave, mask: u64) -> Result<(), Fault> {
        let address = self.address(step, wave);
        let masked = (0..4).filter(|component| step.mask >> component & 1 != 0);
        let Some(operand) = &step.sources[2] else {
            return Ok(());
        };
        for (word, component) in masked.enumerate() {
            let [first, second, ..] = &mut self.lanes;
            let value = fetch(operand, component, Type::U32, self.constants, wave, first);
            let value = spread(value, second);
            for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
                let address = address[lane].wrapping_add(4 * word as u32);
                self.sampler.store(address, value[lane].to_bits())?;
            }
        }
        Ok(())
    }

    /// Executes a texture instruction once for each sampler that its lanes use.
    fn texture(&mut self, step: &Step, wave: &Wave, mask: u64) -> Result<(), Fault> {
        let mut rooms = [[[0.0; LANES]; 4]; 3];
        let [rooms_0, rooms_1, rooms_2] = &mut rooms;
        let inputs = Inputs {
            step,
            wave,
            constants: self.constants,
        };
        let whole = |index: usize, rooms: &mut [Lane; 4]| {
            let mut spare = [0.0; LANES];
            for (component, room) in rooms.iter_mut().enumerate() {
                math::each1(room, inputs.get(index, component, &mut spare), |value| {
                    value
                });
            }
        };
        whole(0, rooms_0);
        let is_gradient = step.op == Op::Texldd;
        if step.sources[1].is_some() {
            whole(1, rooms_1);
        }
        if step.sources[2].is_some() {
            whole(2, rooms_2);
        }
        let three = |[x, y, z, _]: &'_ [Lane; 4]| [*x, *y, *z];
        let (to_right, downwards) = (three(rooms_1), three(rooms_2));
        // The level or its bias may be a separate source. Mesa passes it this way together with a reference.
        let level = match step.sources[1] {
            Some(_) => &rooms_1[0],
            None => &rooms_0[3],
        };
        let lod = match step.op {
            Op::Texldb => Lod::Derived(Some(level)),
            Op::Texldl => Lod::Given(level),
            Op::Texldd => Lod::Gradients(to_right.each_ref(), downwards.each_ref()),
            _ => Lod::Derived(None),
        };
        let reference = (!is_gradient && step.sources[2].is_some()).then_some(&rooms_2[0]);
        let mut texels = [[0.0; LANES]; 4];
        let mut left = mask;
        while left != 0 {
            let mut lanes = left;
            let mut unit = step.sampler;
            if let Some(component) = step.sampler_relative {
                let address = &wave.address[component];
                let first = address[left.trailing_zeros() as usize];
                unit = unit.saturating_add_signed(first as isize);
                for lane in (0..LANES).filter(|lane| address[*lane] != first) {
                    lanes &= !(1 << lane);
                }
            }
            left &= !lanes;
            let lookup = Lookup {
                unit,
                coordinates: rooms_0.each_ref(),
                lod,
                reference,
                mask: lanes,
            };
            self.sampler.sample(&lookup, &mut texels)?;
            for (result, channel) in self.result.iter_mut().zip(step.sampler_components) {
                let texel = &texels[usize::from(channel)];
                if lanes == mask {
                    result.copy_from_slice(texel);
                    continue;
                }
                for lane in (0..LANES).filter(|lane| lanes >> lane & 1 != 0) {
                    result[lane] = texel[lane];
                }
            }
        }
        Ok(())
    }
}
