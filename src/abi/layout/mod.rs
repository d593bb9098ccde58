// SPDX-License-Identifier: GPL-2.0-only

//! Layouts of the interface for each generation, as data.
//!
//! A [`Layout`] is one generation. `tests/abi/tables.py` generates [`LAYOUTS`] from the facts in
//! `tests/abi`, for the structures in `structures.rs`. Offsets are in bytes: in [`Header`] from the
//! start of the interface, in [`Queue`] from the start of the record, in the union's members from
//! the start of the union, and in all others from the start of the structure. The compiler checks
//! sizes, alignment and overlaps. These files do not use the rest of the crate, because a host test
//! compiles them, too.

pub(crate) mod counters;
mod field;
mod generated;
pub(crate) mod power;
mod quirks;
pub(crate) mod vector;

/// Defines the structures of fields, and [`Layout`], which has one of each: most (`&`) by an index
/// into a shared table, those of hot paths (`*`) by a pointer, those of the hottest paths inline.
macro_rules! structures {
    (@get $this:ident.$member:ident, $shared:ident) => { $this.$member.get() };
    (@get $this:ident.$member:ident) => { $this.$member };
    (
        $(#[$layout_meta:meta])*
        layout { $($(#[$own_meta:meta])* $own:ident: $own_type:ty,)* }
        $(
            $(#[$meta:meta])*
            $member:ident: $(& $shared:ident)? $(* $pointed:ident)? $($here:ident)? = $c_name:literal {
                $($dir:tt $field:ident = $($c_field:literal)|+,)*
            }
        )*
    ) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug)]
            pub(crate) struct $($shared)? $($pointed)? $($here)? {
                /// Bytes of the structure; 0: the generation does not have it.
                pub(crate) bytes: u16,
                $($(#[doc = concat!("`", $c_field, "`")])+ pub(crate) $field: Field,)*
            }

            impl $($shared)? $($pointed)? $($here)? {
                /// An absent structure.
                #[allow(dead_code, reason = "some structures are complete in every generation")]
                pub(super) const ABSENT: Self = Self { bytes: 0, $($field: ABSENT,)* };

                const fn is_sound(&self) -> bool {
                    let fields = [$(self.$field,)*];
                    let mut at = 0;
                    while at < fields.len() {
                        if !fields[at].is_sound(self.bytes) {
                            return false;
                        }
                        let mut other = 0;
                        while other < at {
                            if fields[at].overlaps(fields[other]) {
                                return false;
                            }
                            other += 1;
                        }
                        at += 1;
                    }
                    true
                }
            }
        )*

        $(#[$layout_meta])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Layout {
            $($(#[$own_meta])* pub(crate) $own: $own_type,)*
            $($(#[$meta])* pub(crate) $member: $(Index<$shared>)? $(&'static $pointed)? $($here)?,)*
        }

        impl Layout {
            pub(super) const fn structures_are_sound(&self) -> bool {
                $(structures!(@get self.$member $(, $shared)?).is_sound() &&)* true
            }

            /// Bytes of each structure.
            pub(super) const fn structure_bytes(&self) -> [u16; [$($c_name),*].len()] {
                [$(structures!(@get self.$member $(, $shared)?).bytes),*]
            }

            /// Visits each structure with its C name and bytes, and each field with its C names.
            #[cfg(test)]
            pub(crate) fn visit(
                &self,
                structure: &mut dyn FnMut(&'static str, u16),
                field: &mut dyn FnMut(&'static str, &[&'static str], Field),
            ) {
                $(
                    structure($c_name, self.$member.bytes);
                    $(field($c_name, &[$($c_field),+], self.$member.$field);)*
                )*
            }
        }
    };
}

mod structures;

use ::core::{
    marker::PhantomData,
    ops::Deref, //
};
use counters::{
    counters,
    Counter,
    CountersLayout,
    Profile, //
};
pub(crate) use field::*;
pub(crate) use generated::{
    Command,
    ALIASES,
    LAYOUTS, //
};
pub(crate) use quirks::*;
pub(crate) use structures::*;

/// A kind of structure that layouts share, in one table for each kind.
pub(crate) trait Shared: Sized + 'static {
    /// The structures of this kind.
    const TABLE: &'static [Self];
}

/// An index into such a table: 1 byte instead of a pointer and its relocation. A layout has 64.
#[derive(Debug)]
pub(crate) struct Index<T: 'static>(u8, PhantomData<&'static T>);

impl<T: 'static> Clone for Index<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: 'static> Copy for Index<T> {}

impl<T: Shared> Index<T> {
    /// Only for constants: an index out of range does not compile.
    const fn new(place: usize) -> Self {
        assert!(place < T::TABLE.len() && place <= u8::MAX as usize);
        // CAST: as asserted.
        Self(place as u8, PhantomData)
    }

    /// `Deref` for constants.
    const fn get(self) -> &'static T {
        &T::TABLE[self.0 as usize]
    }
}

impl<T: Shared> Deref for Index<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // `new` has checked the index.
        let found = T::TABLE.get(usize::from(self.0));
        found.unwrap_or(&T::TABLE[0])
    }
}

/// Bytes of the largest interface of any generation.
pub(crate) const MAX_INTERFACE_BYTES: usize = 424;

/// Distance between the counters of pools in DATABASE.
pub(crate) const POOL_BYTES: u16 = 40;

/// The command, at the start of every interface.
pub(crate) const COMMAND: Field = word(0);

/// Bits of LOCK's `op` (`gceLOCK_VIDEO_MEMORY_OP`): the lock for the GPU, and the user mapping.
pub(crate) const LOCK_PARTS: [u32; 2] = [1, 2];

/// The same for UNLOCK.
pub(crate) const UNLOCK_PARTS: [u32; 2] = [4, 8];

/// The header of the interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Core that the command is for (`gceHARDWARE_TYPE`).
    pub(crate) hardware_type: Field,
    /// The index among cores of this kind.
    pub(crate) core_index: Field,
    /// Engine, 0: render, 1: copy; for structures that do not have such a field themselves.
    pub(crate) engine: Field,
    pub(crate) status: Field,
    /// A field that no vendor kernel uses; if it has 64 bits, the driver returns job numbers there.
    pub(crate) handle: Field,
}

/// A record of an event queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    /// User address of the next record.
    pub(crate) next: Field,
    /// The command.
    pub(crate) command: u16,
    /// Start of the payload.
    pub(crate) union_at: u16,
    /// Bytes of the record, in the build with the smallest interface.
    pub(crate) bytes: u16,
}

/// Bytes of the largest record.
pub(crate) const MAX_RECORD_BYTES: usize = 8 + MAX_INTERFACE_BYTES;

/// Bytes of the largest `gcsSTATE_DELTA`.
pub(crate) const MAX_DELTA_BYTES: usize = 72;

/// Bytes of the largest `gcsHAL_COMMAND_LOCATION`.
pub(crate) const MAX_LOCATION_BYTES: usize = 80;

/// Bytes of the largest `gcsHAL_SUBCOMMIT`.
pub(crate) const MAX_SUB_COMMIT_BYTES: usize = 128;

/// The number of elements of COMMIT's arrays.
pub(crate) const MAX_PARTS: u32 = 10;

/// Bytes of the largest `gcoCONTEXT`.
pub(crate) const MAX_CONTEXT_BYTES: usize = 216;

/// The most bytes that the driver reads of a `gcoCMDBUF`.
pub(crate) const MAX_COMMAND_BUFFER_BYTES: usize = 80;

/// Commands, independent of their numbers.
macro_rules! command_names {
    ($($(#[$meta:meta])* $name:ident = $c_name:literal,)*) => {
        /// A command (`gceHAL_COMMAND_CODES`), independent of its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Command {
            /// No command of the generation.
            Unknown,
            $(#[doc = $c_name] $name,)*
        }

        impl Command {
            /// The C headers' name, without its `gcvHAL_`; empty for `Unknown`.
            pub(crate) fn c_name(self) -> &'static str {
                match self { Self::Unknown => "", $(Self::$name => $c_name,)* }
            }
        }
    };
}
use command_names;

macro_rules! identity_words {
    ($($name:ident = $c_name:literal,)*) => {
        /// A word of QUERY_CHIP_IDENTITY's answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum IdentityWord { $(#[doc = $c_name] $name,)* }

        impl IdentityWord {
            /// The number of words.
            pub(crate) const COUNT: usize = Self::ALL.len();

            /// All words.
            pub(crate) const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];

            /// The C header's name.
            pub(crate) fn c_name(self) -> &'static str {
                match self { $(Self::$name => $c_name,)* }
            }
        }
    };
}

// Several words may have the same name: the facts of a generation select one.
identity_words! {
    Model = "chipModel",
    Revision = "chipRevision",
    // The register's value, for generations that look up cores in a list.
    RawModel = "chipModel",
    RawRevision = "chipRevision", // likewise
    Date = "chipDate",
    Features = "chipFeatures",
    Minor0 = "chipMinorFeatures",
    Minor1 = "chipMinorFeatures1",
    Minor2 = "chipMinorFeatures2",
    Minor3 = "chipMinorFeatures3",
    Minor4 = "chipMinorFeatures4",
    Minor5 = "chipMinorFeatures5",
    Minor6 = "chipMinorFeatures6",
    StreamCount = "streamCount",
    AllStreams = "streamCount", // from a newer register, if it has a value
    RegisterMax = "registerMax",
    ThreadCount = "threadCount",
    ShaderCoreCount = "shaderCoreCount",
    VertexCacheSize = "vertexCacheSize", // entries
    VertexOutputBufferSize = "vertexOutputBufferSize", // bytes
    PixelPipes = "pixelPipes",
    ListedPipes = "pixelPipes", // from the list of cores
    ResolvePipes = "resolvePipes", // the same number
    InstructionCount = "instructionCount",
    FragmentInstructionCount = "PSInstructionCount", // 0: no separate limit
    ConstantCount = "numConstants", // uniforms
    ListedConstants = "numConstants", // from the list of cores
    BufferSize = "bufferSize",
    VaryingsCount = "varyingsCount",
    FreeVaryings = "varyingsCount", // without the position, where that takes one
    SuperTileMode = "superTileMode", // layout
    CoreCount = "gpuCoreCount", // 1
    Clusters = "clusterAvailMask", // 0
    Control2d = "chip2DControl", // 0
    Product = "productID", // 0 on these cores
    EcoFlags = "ecoFlags", // engineering change: 0
    Flags = "chipFlags", // for a model that differs from the register's
    RawFlags = "chipFlags", // for the register's model: 0
    Eco = "ecoID", // engineering change: 0
    Customer = "customerID", // 0
    // Not among the words at the start of the answer.
    NeuralClusters = "nnClusterNum", // for their power
    InternalMemory = "sRAMSizes", // bytes of each piece inside the core
    NeuralCores = "NNCoreCount", // of the vendor's feature database
    SecureMmu = "SECURITY_AHB",  // likewise
}

/// QUERY_CHIP_IDENTITY's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentityLayout {
    /// The consecutive words at its start.
    pub(crate) words: &'static [IdentityWord],
    /// Base of the registers on another bus, 64 bits.
    pub(crate) register_apb: Field,
    /// Bits of a GPU address.
    pub(crate) address_bits: Field,
    /// Addresses of memory inside the core; always all ones, because clients cannot use it.
    pub(crate) internal_memory: &'static [Field],
    /// Sizes of that memory.
    pub(crate) internal_sizes: &'static [Field],
    /// Clusters of neural cores.
    pub(crate) neural_clusters: Field,
    /// Programs with at most this many bits get the [features](Self::FEATURES) inserted after the
    /// date; 0: none do.
    pub(crate) features: u8,
    /// Bytes of the answer, without those features; all else after the words is 0.
    pub(crate) bytes: u16,
}

impl IdentityLayout {
    /// Additional words of libraries with vector graphics: see `features`.
    pub(crate) const FEATURES: [IdentityWord; 8] = [
        IdentityWord::Features,
        IdentityWord::Minor0,
        IdentityWord::Minor1,
        IdentityWord::Minor2,
        IdentityWord::Minor3,
        IdentityWord::Minor4,
        IdentityWord::Minor5,
        IdentityWord::Minor6,
    ];
    /// Words before them: model, revision, date.
    pub(crate) const BEFORE_FEATURES: usize = 3;
}

/// Lists of commands by their numbers.
macro_rules! command_lists {
    ($($name:ident { $($command:ident)* })*) => {$(
        static $name: [Command; [$(Command::$command),*].len()] = [$(Command::$command),*];
    )*};
}
use command_lists;

/// Structures that generations share: a table for each kind.
macro_rules! shared {
    ($($kind:ident { $($name:ident = $place:literal { $($body:tt)* })* })*) => {$(
        impl Shared for $kind {
            const TABLE: &'static [Self] = &[$($kind { $($body)* },)*];
        }
        $(const $name: Index<$kind> = Index::new($place);)*
    )*};
}
use shared;

/// Structures that generations share, for hot paths.
macro_rules! pointed {
    ($($name:ident: $kind:ident { $($body:tt)* })*) => {$(
        static $name: $kind = $kind { $($body)* };
    )*};
}
use pointed;

/// Generations, each by its differences from another.
macro_rules! layouts {
    ($($name:ident { $($body:tt)* })*) => {$(
        const $name: Layout = Layout { $($body)* }.checked();
    )*};
}
use layouts;

/// The words of QUERY_CHIP_IDENTITY's answer, in their order.
macro_rules! words {
    ($($name:ident)*) => { [$(IdentityWord::$name,)*] };
}
use words;

impl Layout {
    /// The command with a number.
    #[inline]
    pub(crate) fn command(&self, number: u32) -> Command {
        // CAST: 32 bits into at least 32.
        match self.commands.get(number as usize) {
            Some(&command) => command,
            None => Command::Unknown,
        }
    }

    /// Bytes that the driver reads of a record.
    pub(crate) fn record_bytes(&self) -> usize {
        self.queue.bytes.into()
    }

    /// Bytes that the driver reads of a `gcoCMDBUF`; 0: there is none.
    pub(crate) fn command_buffer_bytes(&self) -> usize {
        self.command_buffer.get().read_bytes()
    }

    /// VERSION's answer: major, minor, patch, build.
    pub(crate) fn version(&self) -> [u32; 4] {
        let [major, minor, patch] = self.version.map(u32::from);
        [major, minor, patch, self.build]
    }

    /// Whether builds of this generation have interfaces of `bytes` bytes.
    pub(crate) fn has_size(&self, bytes: u64) -> bool {
        self.sizes.iter().any(|&size| u64::from(size) == bytes)
    }

    /// Whether it accepts an interface of `input` bytes with an answer of `output` bytes.
    pub(crate) fn takes(&self, input: u64, output: u64) -> bool {
        if input == output && self.has_size(input) {
            return true;
        }
        let shorter = u64::from(self.union_at)..=u64::from(self.sizes[0]);
        self.may_be_shorter && shorter.contains(&input) && shorter.contains(&output)
    }

    /// Checks the layout. Only for constants: an unsound layout does not compile.
    const fn checked(self) -> Self {
        assert!(self.is_sound());
        self
    }

    const fn is_sound(&self) -> bool {
        let mut at = 0;
        let mut smallest = u16::MAX;
        while at < self.sizes.len() {
            if self.sizes[at] as usize > MAX_INTERFACE_BYTES {
                return false;
            }
            if self.sizes[at] < smallest {
                smallest = self.sizes[at];
            }
            at += 1;
        }
        let room = smallest - self.union_at;
        let header = self.header.status.is_sound(self.union_at)
            && self.header.hardware_type.is_sound(self.union_at)
            && self.header.core_index.is_sound(self.union_at)
            && self.header.engine.is_sound(self.union_at)
            && self.header.handle.is_sound(self.union_at);
        let payload = self.queue.bytes - self.queue.union_at;
        let record = self.queue.next.is_sound(self.queue.command)
            && self.queue.command + 4 <= self.queue.union_at
            && self.queue.bytes as usize <= MAX_RECORD_BYTES
            && self.signal.get().bytes <= payload
            && self.write_data.get().bytes <= payload
            && self.unlock.bytes <= payload
            && self.free_contiguous.get().bytes <= payload
            && self.free_non_paged.get().bytes <= payload
            && self.free_commands.get().bytes <= payload
            && self.unmap_user.get().bytes <= payload
            && self.timestamp.get().bytes <= payload;
        // Structures that are not in the union, or only in that of builds with a profiler. Only they
        // can have more bytes than the union has.
        let outside = [
            self.profile_setting.get().bytes,
            self.set_profile.get().bytes,
            self.command_buffer.get().bytes,
            self.delta.get().bytes,
            self.location.get().bytes,
            self.context.get().bytes,
        ];
        header
            && record
            && self.structures_are_sound()
            && above(&self.structure_bytes(), room) == above(&outside, room)
            && (self.argument_bytes == 16 || self.argument_bytes == 32)
            && self.identity.get().words.len() * 4 <= self.identity.get().bytes as usize
            && match self.vector {
                Some(vector) => vector.is_sound() && vector::COMMIT_BYTES <= room,
                None => true,
            }
            && self.profiler_bytes as usize <= MAX_INTERFACE_BYTES
            && (self.debug.get().bytes == 0
                || self.debug.get().message.is_sound(self.debug.get().bytes))
            && self.command_buffer.get().read_bytes() <= MAX_COMMAND_BUFFER_BYTES
            && self.delta.get().bytes as usize <= MAX_DELTA_BYTES
            && self.location.get().bytes as usize <= MAX_LOCATION_BYTES
            && self.commit.next.end() <= self.sub_commit_bytes as usize
            && self.sub_commit_bytes as usize <= MAX_SUB_COMMIT_BYTES
            && self.context.get().bytes as usize <= MAX_CONTEXT_BYTES
    }
}

/// How many of the `sizes` are above `room`.
const fn above(sizes: &[u16], room: u16) -> usize {
    let mut count = 0;
    let mut at = 0;
    while at < sizes.len() {
        if sizes[at] > room {
            count += 1;
        }
        at += 1;
    }
    count
}

impl CommandBufferLayout {
    const fn read_bytes(&self) -> usize {
        let fields = [
            self.object,
            self.entry_pipe,
            self.exit_pipe,
            self.logical,
            self.start_offset,
            self.offset,
            self.reserved_head,
            self.reserved_tail,
        ];
        let mut bytes = 0;
        let mut at = 0;
        while at < fields.len() {
            if fields[at].end() > bytes {
                bytes = fields[at].end();
            }
            at += 1;
        }
        bytes
    }
}
