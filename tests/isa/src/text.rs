// SPDX-License-Identifier: GPL-2.0-only
//! Assembler and disassembler. The syntax is that of Mesa's `etnaviv_disasm`, with all three sources, and `void` for
//! unused ones. The assembler also accepts instructions without `void`, labels (`loop:`), and comments that start
//! with `;` or `#`.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write;

use crate::Condition;
use crate::Destination;
use crate::Group;
use crate::Immediate;
use crate::Instruction;
use crate::Op;
use crate::Shape;
use crate::Source;
use crate::Type;
use crate::IDENTITY;

const COMPONENTS: &str = "xyzw";

fn component(number: usize) -> &'static str {
    &COMPONENTS[number..=number]
}

fn address(mode: u8) -> String {
    match mode {
        0 => String::new(),
        _ => format!("[a.{}]", component(usize::from(mode) - 1)),
    }
}

fn swizzle(bits: u8) -> String {
    let mut text = String::from(".");
    for number in 0..4 {
        text += component((bits >> (2 * number) & 3) as usize);
    }
    text
}

fn mask(bits: u8) -> String {
    if bits == 15 {
        return String::new();
    }
    let letter = |number: usize| {
        if bits >> number & 1 != 0 {
            component(number)
        } else {
            "_"
        }
    };
    format!(".{}{}{}{}", letter(0), letter(1), letter(2), letter(3))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.immediate() {
            Some(Immediate::Float(value)) => return write!(f, "{value:?}"),
            Some(Immediate::Signed(value)) => return write!(f, "{value}"),
            Some(Immediate::Unsigned(value)) => return write!(f, "{value}u"),
            Some(Immediate::Half(bits)) => return write!(f, "{bits:#06x}h"),
            None => {}
        }
        let bar = if self.is_absolute { "|" } else { "" };
        if self.is_negated {
            f.write_char('-')?;
        }
        let group = match self.group {
            Group::Internal => "i",
            Group::Uniform | Group::UniformHigh => "u",
            Group::TempHalf => "th",
            Group::Temp | Group::Immediate => "t",
        };
        let number = self.uniform().unwrap_or(self.register);
        write!(f, "{bar}{group}{number}{}", address(self.address))?;
        f.write_str(&swizzle(self.swizzle))?;
        f.write_str(bar)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_used {
            return f.write_str("void");
        }
        write!(
            f,
            "t{}{}{}",
            self.register,
            address(self.address),
            mask(self.mask)
        )
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op.name())?;
        let shape = self.op.shape();
        if shape != Shape::Texture {
            if self.is_half {
                f.write_str(".hp")?;
            }
            if self.saturates {
                f.write_str(".sat")?;
            }
            f.write_str(self.condition.suffix())?;
            if shape != Shape::Flow && self.extra & 0x10 != 0 {
                f.write_str(".skpHp")?;
            }
            if shape == Shape::Memory {
                f.write_str(if self.extra & 0x80 != 0 {
                    ".denorm"
                } else {
                    ""
                })?;
                f.write_str(if self.extra & 0x20 != 0 { ".local" } else { "" })?;
            }
            f.write_str(self.kind.suffix())?;
            if shape == Shape::Memory && self.extra & 7 != 0 {
                write!(f, ".ls{}", self.extra & 7)?;
            }
            if shape != Shape::Flow && !self.unpacked {
                f.write_str(".pack")?;
            }
            if shape == Shape::Alu {
                f.write_str(["", ".t0", ".t1", ".t0t1"][usize::from(self.threads)])?;
                f.write_str(["", ".rtz", ".rtne", ".rnd3"][usize::from(self.rounding)])?;
            }
        }
        match self.op {
            // These write the address register, so the mask is their whole destination.
            Op::Movar | Op::Movaf | Op::Movai if !self.destination.is_used => {
                write!(f, " a0{}", mask(self.destination.mask))?;
            }
            Op::Store | Op::ImgStore => write!(f, " mem{}", mask(self.destination.mask))?,
            _ => write!(f, " {}", self.destination)?,
        }
        if shape == Shape::Texture {
            write!(f, ", tex{}{}", self.sampler, address(self.sampler_address))?;
            f.write_str(&swizzle(self.sampler_swizzle))?;
        }
        for (index, source) in self.sources.iter().enumerate() {
            match source {
                _ if shape == Shape::Flow && index == 2 => write!(f, ", {}", self.target)?,
                Some(source) => write!(f, ", {source}")?,
                None => f.write_str(", void")?,
            }
        }
        Ok(())
    }
}

/// Text that is not an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Line number, from 1.
    pub line: usize,
    /// The error.
    pub detail: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.detail)
    }
}

impl std::error::Error for Error {}

/// Assembles a shader.
///
/// # Errors
///
/// The first line that is not an instruction, or an undefined label.
pub fn assemble(text: &str) -> Result<Vec<u32>, Error> {
    let mut labels = HashMap::new();
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut line = line.split([';', '#']).next().unwrap_or_default().trim();
        while let Some((label, rest)) = line.split_once(':') {
            labels.insert(label.trim(), lines.len());
            line = rest.trim();
        }
        if !line.is_empty() {
            lines.push((index + 1, line));
        }
    }
    let mut words = Vec::with_capacity(4 * lines.len());
    for (line, text) in lines {
        let target = |label: &str| labels.get(label).and_then(|at| u16::try_from(*at).ok());
        let instruction = parse(text, &target).map_err(|detail| Error { line, detail })?;
        words.extend(instruction.encode());
    }
    Ok(words)
}

/// Assembles one line.
///
/// # Errors
///
/// A description of the error.
pub fn assemble_line(text: &str) -> Result<Instruction, String> {
    parse(text, &|_| None)
}

fn parse(text: &str, target: &dyn Fn(&str) -> Option<u16>) -> Result<Instruction, String> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let mut parts = name.split('.');
    let name = parts.next().unwrap_or_default();
    let op = Op::from_name(name).ok_or_else(|| format!("no operation is called {name}"))?;
    let mut instruction = Instruction {
        op,
        unpacked: matches!(op.shape(), Shape::Alu | Shape::Memory),
        sampler_swizzle: if op.shape() == Shape::Texture {
            IDENTITY
        } else {
            0
        },
        ..Instruction::default()
    };
    for part in parts {
        modifier(&mut instruction, part)?;
    }
    let mut operands: Vec<&str> = rest.split(',').map(str::trim).collect();
    operands.retain(|operand| !operand.is_empty());
    let mut operands = operands.into_iter();
    let shape = op.shape();
    let may_have_destination = !matches!(op, Op::Nop | Op::Ret | Op::Barrier | Op::Texkill);
    if shape != Shape::Flow && may_have_destination {
        let operand = operands.next().ok_or("a destination is missing")?;
        instruction.destination = destination(operand)?;
    }
    if shape == Shape::Texture {
        let operand = operands.next().ok_or("a sampler is missing")?;
        sampler(&mut instruction, operand)?;
    }
    let mut operands: Vec<&str> = operands.filter(|operand| *operand != "void").collect();
    if shape == Shape::Flow {
        let operand = operands.pop().ok_or("a target is missing")?;
        let number = operand.parse().ok().or_else(|| target(operand));
        instruction.target = number.ok_or_else(|| format!("no label is called {operand}"))?;
    }
    // The required sources first; if there are more operands, also the optional ones.
    let slots: Vec<usize> = match operands.len() {
        count if count == (0..3).filter(|slot| op.needs(*slot)).count() => {
            (0..3).filter(|slot| op.needs(*slot)).collect()
        }
        _ => (0..3).filter(|slot| op.may_use(*slot)).collect(),
    };
    if operands.len() > slots.len() {
        return Err(format!("{name} has no {} sources", operands.len()));
    }
    for (slot, operand) in slots.into_iter().zip(operands) {
        instruction.sources[slot] = Some(parse_source(operand)?);
    }
    if let Some(missing) =
        (0..3).find(|slot| op.needs(*slot) && instruction.sources[*slot].is_none())
    {
        return Err(format!("source {missing} is missing"));
    }
    Ok(instruction)
}

fn modifier(instruction: &mut Instruction, part: &str) -> Result<(), String> {
    let dotted = format!(".{part}");
    if let Some(row) = Condition::ALL.iter().find(|row| row.2 == dotted) {
        instruction.condition = row.0;
    } else if let Some(row) = Type::ALL.iter().find(|row| row.1 == dotted) {
        instruction.kind = row.0;
    } else {
        match part {
            "sat" => instruction.saturates = true,
            "hp" => instruction.is_half = true,
            "pack" => instruction.unpacked = false,
            "skpHp" => instruction.extra |= 0x10,
            "local" => instruction.extra |= 0x20,
            "denorm" => instruction.extra |= 0x80,
            "rtz" => instruction.rounding = 1,
            "rtne" => instruction.rounding = 2,
            "t0" => instruction.threads = 1,
            "t1" => instruction.threads = 2,
            _ => match part.strip_prefix("ls").and_then(|shift| shift.parse().ok()) {
                Some(shift @ 0..=7u8) => instruction.extra |= shift,
                _ => return Err(format!("no modifier is called {part}")),
            },
        }
    }
    Ok(())
}

/// Splits `t1[a.x].xy` into number, address mode, and the part after the dot.
fn register<'a>(text: &'a str, prefix: &str) -> Result<(u16, u8, Option<&'a str>), String> {
    let wrong = || format!("{text} is no register");
    let rest = text.strip_prefix(prefix).ok_or_else(wrong)?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let number = rest[..end].parse().map_err(|_| wrong())?;
    let mut rest = &rest[end..];
    let mut mode = 0;
    if let Some(inside) = rest.strip_prefix("[a.") {
        let letter = inside.chars().next().ok_or_else(wrong)?;
        mode = COMPONENTS.find(letter).ok_or_else(wrong)? as u8 + 1;
        rest = inside[1..].strip_prefix(']').ok_or_else(wrong)?;
    }
    match rest.strip_prefix('.') {
        Some(components) => Ok((number, mode, Some(components))),
        None if rest.is_empty() => Ok((number, mode, None)),
        None => Err(wrong()),
    }
}

fn parse_mask(text: Option<&str>) -> Result<u8, String> {
    let Some(text) = text else { return Ok(15) };
    let mut bits = 0;
    for letter in text.chars().filter(|letter| *letter != '_') {
        let number = COMPONENTS.find(letter);
        bits |= 1 << number.ok_or_else(|| format!("no component is called {letter}"))?;
    }
    Ok(bits)
}

/// One to four letters; the last one is repeated.
fn parse_swizzle(text: Option<&str>) -> Result<u8, String> {
    let Some(text) = text else {
        return Ok(IDENTITY);
    };
    let mut bits = 0;
    let mut last = 0;
    let mut letters = text.chars();
    for number in 0..4 {
        if let Some(letter) = letters.next() {
            let found = COMPONENTS.find(letter);
            last = found.ok_or_else(|| format!("no component is called {letter}"))? as u8;
        }
        bits |= last << (2 * number);
    }
    match letters.next() {
        None => Ok(bits),
        Some(_) => Err(format!("{text} has more than four components")),
    }
}

fn destination(text: &str) -> Result<Destination, String> {
    if text == "void" {
        return Ok(Destination::default());
    }
    for (prefix, is_used) in [("a0", false), ("mem", false)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            let mask = parse_mask(rest.strip_prefix('.'))?;
            return Ok(Destination {
                is_used,
                mask,
                ..Destination::default()
            });
        }
    }
    let (number, address, components) = register(text, "t")?;
    let number = u8::try_from(number).ok().filter(|number| *number < 128);
    Ok(Destination {
        register: number.ok_or_else(|| format!("{text} is no temporary"))?,
        address,
        is_used: true,
        mask: parse_mask(components)?,
    })
}

fn sampler(instruction: &mut Instruction, text: &str) -> Result<(), String> {
    let (number, address, components) = register(text, "tex")?;
    let number = u8::try_from(number).ok().filter(|number| *number < 32);
    instruction.sampler = number.ok_or_else(|| format!("{text} is no sampler"))?;
    instruction.sampler_address = address;
    instruction.sampler_swizzle = parse_swizzle(components)?;
    Ok(())
}

fn parse_source(text: &str) -> Result<Source, String> {
    if let Some(immediate) = immediate(text) {
        let source = Source::from_immediate(immediate);
        return source.ok_or_else(|| format!("{text} does not fit into 20 bits"));
    }
    let (is_negated, rest) = text
        .strip_prefix('-')
        .map_or((false, text), |rest| (true, rest));
    let bare = rest
        .strip_prefix('|')
        .and_then(|rest| rest.strip_suffix('|'));
    let is_absolute = bare.is_some();
    let rest = bare.unwrap_or(rest);
    let (mut group, prefix) = match rest.as_bytes() {
        [b't', b'h', ..] => (Group::TempHalf, "th"),
        [b'i', ..] => (Group::Internal, "i"),
        [b'u', ..] => (Group::Uniform, "u"),
        _ => (Group::Temp, "t"),
    };
    let (mut register, address, components) = register(rest, prefix)?;
    if group == Group::Uniform && register >= 128 {
        group = Group::UniformHigh;
        register -= 128;
    }
    if register >= 512 {
        return Err(format!("{text} is no register"));
    }
    Ok(Source {
        group,
        register,
        swizzle: parse_swizzle(components)?,
        is_negated,
        is_absolute,
        address,
    })
}

fn immediate(text: &str) -> Option<Immediate> {
    if let Some(bits) = text
        .strip_prefix("0x")
        .and_then(|rest| rest.strip_suffix('h'))
    {
        return u16::from_str_radix(bits, 16).ok().map(Immediate::Half);
    }
    if let Some(number) = text.strip_suffix('u').and_then(|text| text.parse().ok()) {
        return Some(Immediate::Unsigned(number));
    }
    if let Ok(number) = text.parse() {
        return Some(Immediate::Signed(number));
    }
    let number = text.parse().ok().filter(|_| !text.starts_with('i'));
    number.map(Immediate::Float)
}
