// SPDX-License-Identifier: GPL-2.0-only
//! The operations: their numbers, names, and sources.

/// The fields of an operation's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Arithmetic.
    Alu,
    /// A sampler and its swizzle.
    Texture,
    /// A target but no destination.
    Flow,
    /// Memory: an offset in the second word.
    Memory,
}

/// The number of all extended operations. The third source has their extended number.
pub(crate) const EXTENDED: u8 = 0x7f;

/// A table row: number, extended number, name, required sources, optional sources, and shape.
struct Row(u8, Option<u16>, &'static str, u8, u8, Shape);

macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident $number:literal $(/ $extended:literal)? $name:literal [$($must:literal)*] [$($may:literal)*] $shape:ident;)*) => {
        /// The operation of an instruction.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Op {
            $($(#[$doc])* $op,)*
        }

        impl Op {
            /// All operations.
            pub const ALL: &'static [Op] = &[$(Op::$op),*];

            fn row(self) -> Row {
                match self {
                    $(Op::$op => Row(
                        $number,
                        None$(.or(Some($extended)))?,
                        $name,
                        0 $(| 1 << $must)*,
                        0 $(| 1 << $must)* $(| 1 << $may)*,
                        Shape::$shape,
                    ),)*
                }
            }
        }
    };
}

ops! {
    /// No operation.
    #[default]
    Nop 0x00 "nop" [] [] Alu;
    /// First plus third source.
    Add 0x01 "add" [0 2] [] Alu;
    /// First times second, plus third.
    Mad 0x02 "mad" [0 1 2] [] Alu;
    /// First times second.
    Mul 0x03 "mul" [0 1] [] Alu;
    /// Distance vector.
    Dst 0x04 "dst" [0 1] [] Alu;
    /// Dot product of three components.
    Dp3 0x05 "dp3" [0 1] [] Alu;
    /// Dot product of four components.
    Dp4 0x06 "dp4" [0 1] [] Alu;
    /// Horizontal derivative.
    Dsx 0x07 "dsx" [0] [2] Alu;
    /// Vertical derivative.
    Dsy 0x08 "dsy" [0] [2] Alu;
    /// Copy.
    Mov 0x09 "mov" [2] [] Alu;
    /// Moves a value to the address register.
    Movar 0x0a "movar" [2] [] Alu;
    /// Moves a float to the address register.
    Movaf 0x0b "movaf" [2] [] Alu;
    /// Reciprocal.
    Rcp 0x0c "rcp" [2] [] Alu;
    /// Reciprocal of the square root.
    Rsq 0x0d "rsq" [2] [] Alu;
    /// Lighting coefficients.
    Litp 0x0e "litp" [1 2] [0] Alu;
    /// Selects one of two sources.
    Select 0x0f "select" [0 1 2] [] Alu;
    /// Sets 1 or 0.
    Set 0x10 "set" [0] [1] Alu;
    /// Power of two.
    Exp 0x11 "exp" [2] [] Alu;
    /// Logarithm to base 2.
    Log 0x12 "log" [2] [] Alu;
    /// Fraction.
    Frc 0x13 "frc" [2] [] Alu;
    /// Calls a function.
    Call 0x14 "call" [] [] Flow;
    /// Returns from a function.
    Ret 0x15 "ret" [] [] Alu;
    /// Branches.
    Branch 0x16 "branch" [] [0 1] Flow;
    /// Discards the pixel.
    Texkill 0x17 "texkill" [] [0 1] Alu;
    /// Reads a texel.
    Texld 0x18 "texld" [0] [2] Texture;
    /// Reads a texel with a bias of the level of detail.
    Texldb 0x19 "texldb" [0] [1 2] Texture;
    /// Reads a texel with derivatives.
    Texldd 0x1a "texldd" [0 1 2] [] Texture;
    /// Reads a texel of a level of detail.
    Texldl 0x1b "texldl" [0] [1 2] Texture;
    /// Square root.
    Sqrt 0x21 "sqrt" [2] [] Alu;
    /// Sine.
    Sin 0x22 "sin" [2] [] Alu;
    /// Cosine.
    Cos 0x23 "cos" [2] [] Alu;
    /// Branches if the condition is true for any component.
    BranchAny 0x24 "branch_any" [0 1] [] Flow;
    /// Rounds down to an integer.
    Floor 0x25 "floor" [2] [] Alu;
    /// Rounds up to an integer.
    Ceil 0x26 "ceil" [2] [] Alu;
    /// Sign: -1, 0 or 1.
    Sign 0x27 "sign" [2] [] Alu;
    /// Waits for the other threads of a group.
    Barrier 0x2a "barrier" [] [] Alu;
    /// Reorders components of 8 or 16 bits.
    Swizzle 0x2b "swizzle" [0 1 2] [] Alu;
    /// Converts to an integer of another size.
    I2i 0x2c "i2i" [0] [1] Alu;
    /// Converts an integer to a float.
    I2f 0x2d "i2f" [0] [] Alu;
    /// Converts a float to an integer, toward zero.
    F2i 0x2e "f2i" [0] [] Alu;
    /// Converts a float to an integer, rounded.
    F2irnd 0x2f "f2irnd" [0] [] Alu;
    /// Selects the third source or 0.
    Cmp 0x31 "cmp" [0 1 2] [] Alu;
    /// Loads from memory.
    Load 0x32 "load" [0 1] [] Memory;
    /// Stores to memory.
    Store 0x33 "store" [0 1 2] [] Memory;
    /// Clamps to 0 and the second source.
    Clamp0Max 0x36 "clamp0_max" [0 1] [] Alu;
    /// Saturating sum of integers.
    Iaddsat 0x3b "iaddsat" [0 2] [] Alu;
    /// Low half of the product.
    Imullo0 0x3c "imullo0" [0 1] [] Alu;
    /// High half of the product.
    Imulhi0 0x40 "imulhi0" [0 1] [] Alu;
    /// Quotient of integers.
    Idiv0 0x44 "idiv0" [0 1] [] Alu;
    /// Remainder of integers.
    Imod 0x48 "imod" [0 1] [] Alu;
    /// Reads a texel at an integer position.
    Txf 0x49 "txf" [0 1 2] [] Texture;
    /// Low half of the product, plus the third source.
    Imadlo0 0x4c "imadlo0" [0 1 2] [] Alu;
    /// The same, with saturation.
    Imadlosat0 0x4e "imadlosat0" [0 1 2] [] Alu;
    /// Moves an integer to the address register.
    Movai 0x56 "movai" [2] [] Alu;
    /// Absolute value.
    Iabs 0x57 "iabs" [2] [] Alu;
    /// Number of leading zeros.
    Leadzero 0x58 "leadzero" [2] [] Alu;
    /// Shift left.
    Lshift 0x59 "lshift" [0 2] [] Alu;
    /// Shift right.
    Rshift 0x5a "rshift" [0 2] [] Alu;
    /// Rotate left.
    Rotate 0x5b "rotate" [0 2] [] Alu;
    /// Bitwise or.
    Or 0x5c "or" [0 2] [] Alu;
    /// Bitwise and.
    And 0x5d "and" [0 2] [] Alu;
    /// Bitwise exclusive or.
    Xor 0x5e "xor" [0 2] [] Alu;
    /// Bitwise not.
    Not 0x5f "not" [2] [] Alu;
    /// Extracts bits of a word.
    BitExtract 0x60 "bit_extract" [0 1 2] [] Alu;
    /// Number of one bits.
    Popcount 0x61 "popcount" [2] [] Alu;
    /// Second source divided by third source.
    Div 0x64 "div" [1 2] [] Alu;
    /// Adds to memory, and returns the old value.
    AtomicAdd 0x65 "atomic_add" [0 1 2] [] Alu;
    /// Exchanges with memory.
    AtomicXchg 0x66 "atomic_xchg" [0 1 2] [] Alu;
    /// Exchanges with memory if the old value is as expected.
    AtomicCmpXchg 0x67 "atomic_cmp_xchg" [0 1 2] [] Alu;
    /// Stores the minimum in memory.
    AtomicMin 0x68 "atomic_min" [0 1 2] [] Alu;
    /// Stores the maximum in memory.
    AtomicMax 0x69 "atomic_max" [0 1 2] [] Alu;
    /// Ors bits into memory.
    AtomicOr 0x6a "atomic_or" [0 1 2] [] Alu;
    /// Ands bits into memory.
    AtomicAnd 0x6b "atomic_and" [0 1 2] [] Alu;
    /// Exclusive-ors bits into memory.
    AtomicXor 0x6c "atomic_xor" [0 1 2] [] Alu;
    /// Reverses the order of bits.
    BitRev 0x6d "bit_rev" [0] [] Alu;
    /// Reads a texel of a level, with comparison.
    Texldlpcf 0x6f "texldlpcf" [0 1 2] [] Texture;
    /// Reads a texel with derivatives, with comparison.
    Texldgpcf 0x70 "texldgpcf" [0 1 2] [] Texture;
    /// Converts to another precision.
    Conv 0x72 "conv" [0 1] [] Alu;
    /// Dot product of two components.
    Dp2 0x73 "dp2" [0 1] [] Alu;
    /// Normalizes a vector of two components.
    NormDp2 0x74 "norm_dp2" [0] [] Alu;
    /// Normalizes a vector of three components.
    NormDp3 0x75 "norm_dp3" [0] [] Alu;
    /// Normalizes a vector of four components.
    NormDp4 0x76 "norm_dp4" [0] [] Alu;
    /// Loads from an image.
    ImgLoad 0x79 "img_load" [0 1] [] Memory;
    /// Stores to an image.
    ImgStore 0x7a "img_store" [0 1 2] [] Memory;
    /// Number of the lowest one bit.
    BitFindlsb 0x7f / 0x0b "bit_findlsb" [0] [] Alu;
    /// Number of the highest one bit.
    BitFindmsb 0x7f / 0x0c "bit_findmsb" [0] [] Alu;
}

impl Op {
    /// The operation with this 7-bit number.
    pub fn from_number(number: u8) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|op| op.row().0 == number && op.row().1.is_none())
    }

    /// The extended operation with this number.
    pub fn from_extended(number: u16) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|op| op.row().1 == Some(number))
    }

    /// The operation with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.row().0
    }

    /// Its extended number.
    pub fn extended(self) -> Option<u16> {
        self.row().1
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Whether it requires this source.
    pub fn needs(self, source: usize) -> bool {
        self.row().3 >> source & 1 != 0
    }

    /// Whether it can have this source.
    pub fn may_use(self, source: usize) -> bool {
        self.row().4 >> source & 1 != 0
    }

    /// The fields of its words.
    pub fn shape(self) -> Shape {
        self.row().5
    }
}
