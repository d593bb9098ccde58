// SPDX-License-Identifier: GPL-2.0-only
//! Words and text: vectors made by hand from the field tables, and round trips of all operations.

use super::*;

/// Words, and the corresponding text.
const VECTORS: [([u32; 4], &str); 33] = [
    (
        [0x0781_1009, 0, 0, 0x2039_0008],
        "mov.pack t1, void, void, u0.xyzw",
    ),
    (
        [0x0182_1009, 4, 0, 0x0015_0028],
        "mov t2.xy__, void, void, t2.xyyy",
    ),
    (
        [0x0182_1009, 4, 0, 0x0055_0028],
        "mov t2.xy__, void, void, -t2.xyyy",
    ),
    (
        [0x0182_1009, 4, 0, 0x0095_0028],
        "mov t2.xy__, void, void, |t2.xyyy|",
    ),
    (
        [0x0080_1009, 4, 0, 0x0200_0028],
        "mov t0.x___, void, void, t2[a.x].xxxx",
    ),
    (
        [0x0082_3009, 4, 0, 0x0000_0018],
        "mov t2[a.x].x___, void, void, t1.xxxx",
    ),
    (
        [0x0181_1001, 0x1500_1804, 0, 0x2815_0018],
        "add t1.xy__, t1.xyyy, void, u1[a.w].xyyy",
    ),
    (
        [0x0102_1001, 0x3fc0_0804, 0x10, 0x0055_4018],
        "add t2._y__, u0.wwww, void, -t1.yyyy",
    ),
    (
        [0x0780_1002, 0x3900_2805, 0x01c8_00c0, 0x0039_0038],
        "mad.rtz t0, t2.xyzw, t1.xyzw, t3.xyzw",
    ),
    (
        [0x0080_1803, 0x0000_1804, 0x40, 0],
        "mul.sat t0.x___, t1.xxxx, t0.xxxx, void",
    ),
    (
        [0x0080_1005, 0x0900_0804, 0x40, 2],
        "dp3 t0.x___, t0.xyzx, u0.xxxx, void",
    ),
    (
        [0x0783_108f, 0x3900_2804, 0x05c8_00c0, 0x0039_0028],
        "select.lt t3, t2.xyzw, |t1.xyzw|, t2.xyzw",
    ),
    (
        [0x0081_13cf, 0x0000_1804, 0x03c8_02c0, 0x0039_0058],
        "select.lz t1.x___, t1.xxxx, -t5.xyzw, t5.xyzw",
    ),
    (
        [0x0080_10d0, 0x0000_0804, 0x40, 2],
        "set.ge t0.x___, t0.xxxx, u0.xxxx, void",
    ),
    (
        [0x0180_1012, 5, 0, 8],
        "log.rtz t0.xy__, void, void, t0.xxxx",
    ),
    ([0x14, 0, 0, 0x380], "call void, void, void, 7"),
    (
        [0x56, 0x800, 0xd0, 0x280],
        "branch.gt void, u0.xxxx, t1.xxxx, 5",
    ),
    (
        [0x56, 0x800, 0x40, 0x281],
        "branch.gt void, t0.xxxx, i0.xxxx, 5",
    ),
    (
        [0x0000_0296, 0x0020_1800, 0x8000_0000, 0x0000_0480],
        "branch.not.u32 void, t1.xxxx, void, 9",
    ),
    ([0x17, 4, 0, 0], "texkill void, void, void, void"),
    (
        [0x57, 0x2804, 0x40, 2],
        "texkill.gt void, t2.xxxx, u0.xxxx, void",
    ),
    (
        [0x0781_1018, 0x1500_1f20, 0, 0],
        "texld t1, tex0.xyzw, t1.xyyy, void, void",
    ),
    (
        [0x4781_101b, 0x3900_3f20, 0, 0],
        "texldl t1, tex8.xyzw, t3.xyzw, void, void",
    ),
    (
        [0x0781_101a, 0x1500_1f20, 0x00a8_0140, 0x003f_8018],
        "texldd t1, tex0.xyzw, t1.xyyy, t2.xyyy, t1.zwww",
    ),
    (
        [0x0300_1024, 5, 0x0409_8040, 0x0015_400f],
        "div.rtz t0._yz_, void, 4.5, t0.yyyy",
    ),
    (
        [0x0081_1131, 0x8000_1804, 0x00aa_0040, 0x202a_800a],
        "cmp.le t1.x___, |t1.xxxx|, u0.yyyy, u0.zzzz",
    ),
    (
        [0x0381_102d, 0x0020_1804, 0x4000_0000, 0],
        "i2f.s16 t1.xyz_, t1.xxxx, void, void",
    ),
    (
        [0x0080_103c, 0x1804, 0x4000_0140, 0],
        "imullo0.s32 t0.x___, t1.xxxx, t2.xxxx, void",
    ),
    (
        [0x0080_1019, 0x1540_0804, 0x4001_0000, 0x7400_0028],
        "lshift.s32 t0.x___, t0.yyyy, void, 2",
    ),
    (
        [0x0080_1001, 0x7e00_0805, 0x38, 0x0080_0008],
        "add.rtz t0.x___, 0.5, void, |t0.xxxx|",
    ),
    (
        [0x0081_1033, 0x0440_2804, 0x00ef_00c0, 0],
        "dp2 t1.x___, t2.yxyx, t1.wywy, void",
    ),
    (
        [0x0080_000a, 4, 0, 0x0039_01d8],
        "movar a0.x___, void, void, t29.xyzw",
    ),
    (
        [0x0080_103f, 0x0000_0804, 0x0001_0000, 0x7800_00b8],
        "bit_findlsb t0.x___, t0.xxxx, void, void",
    ),
];

#[test]
fn words_mean_their_text() {
    for (words, text) in VECTORS {
        let instruction = Instruction::decode(&words).expect(text);
        assert_eq!(instruction.to_string(), text, "{words:08x?}");
        assert_eq!(instruction.encode(), words, "{text}");
        assert_eq!(assemble_line(text), Ok(instruction), "{text}");
    }
}

/// Each operation with all its sources, required and optional.
#[test]
fn every_operation_goes_there_and_back() {
    for op in Op::ALL.iter().copied() {
        let mut instruction = Instruction {
            op,
            condition: Condition::Lt,
            kind: Type::U32,
            unpacked: matches!(op.shape(), Shape::Alu | Shape::Memory),
            ..Instruction::default()
        };
        for index in (0..3).filter(|index| op.may_use(*index)) {
            let mut source = Source::register(Group::UniformHigh, 3 + index as u16);
            source.swizzle = 0x1b;
            source.is_negated = index == 1;
            source.is_absolute = index == 2;
            source.address = index as u8;
            instruction.sources[index] = Some(source);
        }
        match op.shape() {
            Shape::Flow => instruction.target = 0x7abc,
            Shape::Texture => {
                instruction.sampler = 31;
                instruction.sampler_address = 4;
                instruction.sampler_swizzle = 0x1b;
                instruction.kind = Type::F32;
                instruction.condition = Condition::True;
            }
            Shape::Alu | Shape::Memory => instruction.saturates = true,
        }
        let has_destination = !matches!(op, Op::Nop | Op::Ret | Op::Barrier | Op::Texkill);
        if op.shape() != Shape::Flow && has_destination {
            instruction.destination = Destination {
                register: 127,
                address: 2,
                is_used: true,
                mask: 0b1010,
            };
        }
        if matches!(op, Op::Store | Op::ImgStore) {
            instruction.destination = Destination {
                mask: 0b1010,
                ..Destination::default()
            };
        }
        let words = instruction.encode();
        assert_eq!(Instruction::decode(&words), Ok(instruction), "{op:?}");
        // The text has no destination if there is none.
        let text = instruction.to_string();
        assert_eq!(assemble_line(&text), Ok(instruction), "{text}");
    }
}

#[test]
fn numbers_are_one_operations() {
    let mut numbers = std::collections::HashSet::new();
    for op in Op::ALL.iter().copied() {
        assert!(numbers.insert((op.number(), op.extended())), "{op:?}");
        assert_eq!(Op::from_name(op.name()), Some(op));
        let found = match op.extended() {
            Some(extended) => Op::from_extended(extended),
            None => Op::from_number(op.number()),
        };
        assert_eq!(found, Some(op));
    }
}

#[test]
fn immediates_hold_20_bits() {
    for (text, value) in [
        ("0.5", Immediate::Float(0.5)),
        ("-2.0", Immediate::Float(-2.0)),
        ("524287", Immediate::Signed(0x7_ffff)),
        ("-524288", Immediate::Signed(-0x8_0000)),
        ("1048575u", Immediate::Unsigned(0xf_ffff)),
        ("0x3c00h", Immediate::Half(0x3c00)),
    ] {
        let source = Source::from_immediate(value).expect(text);
        assert_eq!(source.immediate(), Some(value));
        assert_eq!(source.to_string(), text);
        let instruction = assemble_line(&format!("add t0, t1, {text}")).expect(text);
        assert_eq!(instruction.sources[2], Some(source));
    }
    for text in ["0.1", "524288", "-524289", "1048576u"] {
        assert!(assemble_line(&format!("mov t0, {text}")).is_err(), "{text}");
    }
}

#[test]
fn lines_have_labels_and_comments() {
    let text = "
        ; A loop.
        start: again: add t0.x, t0, u1   # one more
        branch.lt t0.x, u129[a.z].y, again
        call end
        branch 7
        end:";
    let words = assemble(text).expect("it is right");
    let lines: Vec<String> = words
        .chunks(4)
        .map(|words| {
            Instruction::decode(words.try_into().unwrap())
                .unwrap()
                .to_string()
        })
        .collect();
    assert_eq!(
        lines,
        [
            "add t0.x___, t0.xyzw, void, u1.xyzw",
            "branch.lt void, t0.xxxx, u129[a.z].yyyy, 0",
            "call void, void, void, 4",
            "branch void, void, void, 7",
        ]
    );
}

#[test]
fn mistakes_have_their_lines() {
    for (text, line, detail) in [
        ("nop\nfoo t0", 2, "no operation is called foo"),
        ("mov.up t0, t1", 1, "no modifier is called up"),
        ("\n\nmov t0", 3, "source 2 is missing"),
        ("mov x0, t1", 1, "x0 is no register"),
        ("mov t128, t1", 1, "t128 is no temporary"),
        ("mov t0.q, t1", 1, "no component is called q"),
        ("mov t0, t1.xyzwx", 1, "xyzwx has more than four components"),
        ("mov t0, t1, t2", 1, "mov has no 2 sources"),
        ("branch nowhere", 1, "no label is called nowhere"),
        ("texld t0, tex32, t1", 1, "tex32 is no sampler"),
        ("mov t0, 0.1", 1, "0.1 does not fit into 20 bits"),
        ("add", 1, "a destination is missing"),
    ] {
        let error = Error {
            line,
            detail: detail.to_string(),
        };
        assert_eq!(assemble(text), Err(error), "{text}");
    }
}

#[test]
fn words_without_a_meaning_are_refused() {
    for (words, wrong) in [
        ([0x1c, 0, 0, 0], Unknown::Op(0x1c)),
        ([0x3f, 0, 0x1_0000, 0x7800_0018], Unknown::Extended(1)),
        ([0x10 << 6 | 1, 0, 0, 0], Unknown::Condition(16)),
        ([9, 0, 0, 0x5000_0008], Unknown::Group(5)),
        ([9, 0, 0, 0x0a00_0008], Unknown::Address(5)),
        ([9 | 7 << 13, 0, 0, 8], Unknown::Address(7)),
        ([0x18, 0x805, 0, 0], Unknown::Address(5)),
    ] {
        assert_eq!(Instruction::decode(&words), Err(wrong), "{words:x?}");
    }
}
