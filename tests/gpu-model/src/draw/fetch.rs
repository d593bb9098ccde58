// SPDX-License-Identifier: GPL-2.0-only
//! Fetching vertices and indices from memory.

use super::Core;
use super::Draw;
use crate::engine2d::Bus;
use crate::engine2d::StateBlock;
use crate::mmu::Port;
use crate::registers::state::*;
use crate::shader::half;
use crate::shader::Lane;

/// Maximum number of vertex elements.
const ELEMENTS: u32 = 16;
/// Bit of [`VS_INPUT_COUNT`]: an additional input holds the numbers of vertex and instance.
const ID_ENABLE: u32 = 1 << 31;

/// Storage format of an element's components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Signed(u32),
    Unsigned(u32),
    /// Three components of 10 bits and one of 2. `true`: the first is in the high bits.
    SignedPacked(bool),
    UnsignedPacked(bool),
    Float,
    Half,
    Fixed,
}

impl Type {
    fn of(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Signed(8),
            1 => Self::Unsigned(8),
            2 => Self::Signed(16),
            3 => Self::Unsigned(16),
            4 => Self::Signed(32),
            5 => Self::Unsigned(32),
            6 => Self::SignedPacked(false),
            7 => Self::UnsignedPacked(false),
            8 => Self::Float,
            9 => Self::Half,
            11 => Self::Fixed,
            12 => Self::SignedPacked(true),
            13 => Self::UnsignedPacked(true),
            _ => return None,
        })
    }

    /// Bytes per component. Packed types: bytes of all components.
    fn bytes(self) -> usize {
        match self {
            Self::Signed(bits) | Self::Unsigned(bits) => bits as usize / 8,
            Self::Half => 2,
            _ => 4,
        }
    }

    fn is_packed(self) -> bool {
        matches!(self, Self::SignedPacked(_) | Self::UnsignedPacked(_))
    }

    /// Converts the bits of a component.
    fn value(self, word: u32, is_normalized: bool) -> f32 {
        match self {
            Self::Signed(bits) => signed(word, bits, is_normalized),
            Self::Unsigned(bits) => unsigned(word, bits, is_normalized),
            Self::Half => half(word as u16),
            Self::Fixed => (f64::from(word as i32) / 65536.0) as f32,
            _ => f32::from_bits(word),
        }
    }

    /// Extracts component `number` from a packed word.
    fn unpacked(self, word: u32, number: u32, is_normalized: bool) -> f32 {
        let bits = if number == 3 { 2 } else { 10 };
        let (is_high_first, is_signed) = match self {
            Self::SignedPacked(is_high_first) => (is_high_first, true),
            Self::UnsignedPacked(is_high_first) => (is_high_first, false),
            _ => return 0.0,
        };
        let shift = if is_high_first {
            [22, 12, 2, 0][number as usize]
        } else {
            10 * number
        };
        let field = word >> shift & ((1 << bits) - 1);
        if is_signed {
            signed(field, bits, is_normalized)
        } else {
            unsigned(field, bits, is_normalized)
        }
    }
}

/// Converts a two's complement number. Normalized numbers follow OpenGL ES 2: the whole range maps to -1 to 1, without
/// an exact 0.
fn signed(field: u32, bits: u32, is_normalized: bool) -> f32 {
    let value = f64::from((field << (32 - bits)) as i32 >> (32 - bits));
    let most = (1u64 << bits) - 1;
    let value = if is_normalized {
        (2.0 * value + 1.0) / most as f64
    } else {
        value
    };
    value as f32
}

fn unsigned(field: u32, bits: u32, is_normalized: bool) -> f32 {
    let most = ((1u64 << bits) - 1) as f64;
    let value = f64::from(field);
    (if is_normalized { value / most } else { value }) as f32
}

/// A vertex element.
#[derive(Clone, Copy, Debug)]
struct Element {
    /// Address in the first vertex.
    address: u32,
    stride: u32,
    /// Number of instances that share the value; 0: each vertex has its own value.
    divisor: u32,
    kind: Type,
    components: usize,
    is_normalized: bool,
    /// The temporary that receives the element.
    input: usize,
}

/// Source of vertices.
pub(super) struct Fetch {
    elements: Vec<Element>,
    /// The temporary that receives the numbers of vertex and instance.
    ids: Option<usize>,
    start: u32,
    /// Location and format of the indices.
    indices: Option<Indices>,
}

#[derive(Clone, Copy)]
struct Indices {
    address: u32,
    bytes: u32,
    base: u32,
    restart: Option<u32>,
    /// Number of the first cached index, and the cached bytes.
    first: u32,
    bytes_read: [u8; 64],
}

impl Fetch {
    /// Reports features that the model lacks.
    pub(super) fn check(
        core: &Core,
        states: &StateBlock,
        is_indexed: bool,
        elements: u32,
    ) -> Result<(), String> {
        for number in 0..elements.min(ELEMENTS) {
            let config = states.get(FE_VERTEX_ELEMENT_CONFIG + 4 * number);
            if Type::of(config & 0xf).is_none() {
                return Err(format!("vertex element of type {}", config & 0xf));
            }
            if config >> 4 & 3 != 0 {
                return Err("vertex element of other endianness".into());
            }
        }
        let size = states.get(FE_INDEX_STREAM_CONTROL) & 3;
        if is_indexed && (size == 3 || size == 2 && !core.has_long_indices) {
            return Err(format!("index size {size}"));
        }
        Ok(())
    }

    pub(super) fn new(draw: &Draw) -> Self {
        let (core, states) = (&draw.core, &draw.states);
        let inputs = states.get(VS_INPUT_COUNT);
        // The field cannot hold 16.
        let count = match inputs & 0xf {
            0 if states.get(FE_VERTEX_ELEMENT_CONFIG) != 0 => ELEMENTS,
            count => count,
        };
        let input = |number: u32| {
            let word = states.get(VS_INPUT + (number & !3));
            (word >> (8 * (number % 4)) & 0x7f) as usize
        };
        let element = |number: u32| {
            let config = states.get(FE_VERTEX_ELEMENT_CONFIG + 4 * number);
            let stream = config >> 8 & 0xf;
            let (base, control, divisor) = if core.has_new_streams {
                let at = |first: u32| states.get(first + 4 * stream);
                (
                    at(NFE_VERTEX_STREAMS_BASE_ADDR),
                    at(NFE_VERTEX_STREAMS_CONTROL),
                    at(NFE_VERTEX_STREAMS_DIVISOR),
                )
            } else if core.has_streams {
                let at = |first: u32| states.get(first + 4 * (stream & 7));
                let control = at(FE_VERTEX_STREAMS_CONTROL);
                (
                    at(FE_VERTEX_STREAMS_BASE_ADDR),
                    control,
                    control >> 16 & 0xff,
                )
            } else {
                let control = states.get(FE_VERTEX_STREAM_CONTROL);
                (states.get(FE_VERTEX_STREAM_BASE_ADDR), control, 0)
            };
            let components = match config >> 12 & 3 {
                0 => 4,
                components => components as usize,
            };
            Some(Element {
                address: base.wrapping_add(config >> 16 & 0xff),
                stride: control & if core.has_new_streams { 0xfff } else { 0xff },
                divisor,
                kind: Type::of(config & 0xf)?,
                components,
                is_normalized: config >> 14 & 3 != 0,
                input: input(number),
            })
        };
        let size = states.get(FE_INDEX_STREAM_CONTROL);
        let indices = draw.command.indexed.map(|base| Indices {
            address: states.get(FE_INDEX_STREAM_BASE_ADDR),
            bytes: 1 << (size & 3),
            base,
            restart: (size & 1 << 8 != 0).then(|| states.get(FE_PRIMITIVE_RESTART_INDEX)),
            first: u32::MAX,
            bytes_read: [0; 64],
        });
        Self {
            elements: (0..count).filter_map(element).collect(),
            ids: (inputs & ID_ENABLE != 0).then(|| input(count)),
            start: draw.command.start,
            indices,
        }
    }

    /// The temporaries that receive inputs.
    pub(super) fn inputs(&self) -> impl Iterator<Item = usize> + '_ {
        let inputs = self.elements.iter().map(|element| element.input);
        inputs.chain(self.ids)
    }

    /// The vertex number at position `number` of the draw; `None`: primitive restart.
    pub(super) fn vertex_id(&mut self, number: u32, bus: &mut dyn Bus) -> Option<u32> {
        let at = self.start.wrapping_add(number);
        let Some(indices) = &mut self.indices else {
            return Some(at);
        };
        // Like a core, read an aligned line of 64 bytes at once.
        let address = indices.address.wrapping_add(at.wrapping_mul(indices.bytes));
        let line = address & !63;
        if indices.first != line {
            bus.read(Port::FrontEnd, line, &mut indices.bytes_read);
            indices.first = line;
        }
        let mut word = [0; 4];
        for (at, byte) in word[..indices.bytes as usize].iter_mut().enumerate() {
            *byte = indices.bytes_read[((address & 63) as usize + at) % 64];
        }
        let index = u32::from_le_bytes(word);
        (indices.restart != Some(index)).then(|| index.wrapping_add(indices.base))
    }

    /// Stores a vertex in one lane of the temporaries.
    pub(super) fn vertex(
        &self,
        id: u32,
        instance: u32,
        lane: usize,
        temps: &mut [[Box<Lane>; 4]],
        bus: &mut dyn Bus,
    ) {
        for element in &self.elements {
            let row = match element.divisor {
                0 => id,
                divisor => instance / divisor,
            };
            let address = element
                .address
                .wrapping_add(row.wrapping_mul(element.stride));
            let each = element.kind.bytes();
            let mut bytes = [0; 16];
            let count = if element.kind.is_packed() {
                1
            } else {
                element.components
            };
            bus.read(Port::FrontEnd, address, &mut bytes[..count * each]);
            let word = |at: usize| {
                let mut word = [0; 4];
                word[..each].copy_from_slice(&bytes[at * each..][..each]);
                u32::from_le_bytes(word)
            };
            let Some(register) = temps.get_mut(element.input) else {
                continue;
            };
            for (number, component) in register.iter_mut().enumerate() {
                component[lane] = match number {
                    _ if number >= element.components => [0.0, 0.0, 0.0, 1.0][number],
                    _ if element.kind.is_packed() => {
                        element
                            .kind
                            .unpacked(word(0), number as u32, element.is_normalized)
                    }
                    _ => element.kind.value(word(number), element.is_normalized),
                };
            }
        }
        if let Some(register) = self.ids.and_then(|input| temps.get_mut(input)) {
            register[0][lane] = f32::from_bits(id);
            register[1][lane] = f32::from_bits(instance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_converted() {
        let plain = |code: u32, word: u32| Type::of(code).unwrap().value(word, false);
        assert_eq!(plain(0, 0x80), -128.0);
        assert_eq!(plain(1, 0x80), 128.0);
        assert_eq!(plain(2, 0xffff), -1.0);
        assert_eq!(plain(3, 0xffff), 65535.0);
        assert_eq!(plain(4, u32::MAX), -1.0);
        assert_eq!(plain(5, 1 << 31), 2147483648.0);
        assert_eq!(plain(8, 0x3fc0_0000), 1.5);
        assert_eq!(plain(9, 0x3e00), 1.5);
        assert_eq!(plain(11, 0xfffe_8000), -1.5);
        let normalized = |code: u32, word: u32| Type::of(code).unwrap().value(word, true);
        assert_eq!(normalized(1, 255), 1.0);
        assert_eq!(normalized(0, 127), 1.0);
        assert_eq!(normalized(0, 0x80), -1.0);
        assert_eq!(normalized(3, 65535), 1.0);
        assert_eq!(normalized(2, 0x8000), -1.0);
        assert_eq!([10, 14, 15].map(Type::of), [None; 3]);
    }

    #[test]
    fn packed_words_have_four_components() {
        let word = 1 | 2 << 10 | 0x3ff << 20 | 2 << 30;
        let of = |code: u32, word: u32| {
            let kind = Type::of(code).unwrap();
            [0, 1, 2, 3].map(|number| kind.unpacked(word, number, false))
        };
        assert_eq!(of(7, word), [1.0, 2.0, 1023.0, 2.0]);
        assert_eq!(of(6, word), [1.0, 2.0, -1.0, -2.0]);
        let word = 1 << 22 | 2 << 12 | 0x3ff << 2 | 1;
        assert_eq!(of(13, word), [1.0, 2.0, 1023.0, 1.0]);
        assert_eq!(of(12, word), [1.0, 2.0, -1.0, 1.0]);
    }
}
