// SPDX-License-Identifier: GPL-2.0-only

//! etnaviv's performance counters: their list, and a SUBMIT's requests for them.
//!
//! They are the [profiler's](crate::client) counters, for processes that `gpuProfiler` allows. They
//! count all work of the core. A SUBMIT with requests waits for earlier jobs and for its own end:
//! its counts are exact if no other process uses the core. Names and order are as in Linux 7.3.

use crate::{
    abi::{
        Cells,
        Counter, //
    },
    client::{
        outlast_number,
        profile,
        streams,
        Core,
        Process,
        Used, //
    },
    memory::Node,
    prelude::*,
    sys::drm::WORDS, //
};

/// A unit of a core, and its counters.
struct Domain {
    name: &'static str,
    signals: &'static [(&'static str, Counter)],
}

/// Builds domains from names and counters.
macro_rules! domains {
    ($($domain:literal: $($counter:ident $signal:literal,)*;)*) => {
        [$(Domain {
            name: $domain,
            signals: &[$(($signal, Counter::$counter),)*],
        },)*]
    };
}

/// Domains of cores with a 3D pipe.
static OF_3D: [Domain; 8] = domains! {
    "HI":
        Read "TOTAL_READ_BYTES8",
        Written "TOTAL_WRITE_BYTES8",
        TotalCycles "TOTAL_CYCLES",
        IdleCycles "IDLE_CYCLES",
        ReadStalls "AXI_CYCLES_READ_REQUEST_STALLED",
        WriteStalls "AXI_CYCLES_WRITE_REQUEST_STALLED",
        DataStalls "AXI_CYCLES_WRITE_DATA_STALLED",;
    "PE":
        KilledByColour "PIXEL_COUNT_KILLED_BY_COLOR_PIPE",
        KilledByDepth "PIXEL_COUNT_KILLED_BY_DEPTH_PIPE",
        DrawnByColour "PIXEL_COUNT_DRAWN_BY_COLOR_PIPE",
        DrawnByDepth "PIXEL_COUNT_DRAWN_BY_DEPTH_PIPE",;
    "SH":
        ShaderCycles "SHADER_CYCLES",
        PixelInstructions "PS_INST_COUNTER",
        ShadedPixels "RENDERED_PIXEL_COUNTER",
        VertexInstructions "VS_INST_COUNTER",
        ShadedVertices "RENDERED_VERTICE_COUNTER",
        VertexBranches "VTX_BRANCH_INST_COUNTER",
        VertexLoads "VTX_TEXLD_INST_COUNTER",
        PixelBranches "PXL_BRANCH_INST_COUNTER",
        PixelLoads "PXL_TEXLD_INST_COUNTER",;
    "PA":
        InputVertices "INPUT_VTX_COUNTER",
        InputPrimitives "INPUT_PRIM_COUNTER",
        OutputPrimitives "OUTPUT_PRIM_COUNTER",
        DepthClipped "DEPTH_CLIPPED_COUNTER",
        TriviallyRejected "TRIVIAL_REJECTED_COUNTER",
        Culled "CULLED_COUNTER",;
    "SE":
        CulledTriangles "CULLED_TRIANGLE_COUNT",
        CulledLines "CULLED_LINES_COUNT",;
    "RA":
        ValidPixels "VALID_PIXEL_COUNT",
        Quads "TOTAL_QUAD_COUNT",
        ValidQuads "VALID_QUAD_COUNT_AFTER_EARLY_Z",
        RasterizedPrimitives "TOTAL_PRIMITIVE_COUNT",
        PipeMisses "PIPE_CACHE_MISS_COUNTER",
        PrefetchMisses "PREFETCH_CACHE_MISS_COUNTER",
        CulledQuads "CULLED_QUAD_COUNT",;
    "TX":
        Bilinear "TOTAL_BILINEAR_REQUESTS",
        Trilinear "TOTAL_TRILINEAR_REQUESTS",
        Discarded "TOTAL_DISCARDED_TEXTURE_REQUESTS",
        TextureRequests "TOTAL_TEXTURE_REQUESTS",
        TextureReads "MEM_READ_COUNT",
        TextureRead "MEM_READ_IN_8B_COUNT",
        TextureMisses "CACHE_MISS_COUNT",
        HitTexels "CACHE_HIT_TEXEL_COUNT",
        MissedTexels "CACHE_MISS_TEXEL_COUNT",;
    "MC":
        PipelineRead "TOTAL_READ_REQ_8B_FROM_PIPELINE",
        OthersRead "TOTAL_READ_REQ_8B_FROM_IP",
        PipelineWritten "TOTAL_WRITE_REQ_8B_FROM_PIPELINE",;
};

/// Domains of cores with a 2D pipe.
static OF_2D: [Domain; 1] = domains! {
    "PE":
        Pixels2d "PIXELS_RENDERED_2D",;
};

/// The domains of `core` that `process` may see.
fn domains_of(process: &Process, core: &Core) -> impl Iterator<Item = &'static Domain> {
    let id = core.identity();
    let of = |list: &'static [Domain], is_there: bool| {
        if is_there && profile::has_profiler(process) {
            list
        } else {
            &[]
        }
    };
    [of(&OF_3D, id.has_3d()), of(&OF_2D, id.has_2d())]
        .into_iter()
        .flatten()
}

/// Bytes of a name's field.
const NAME_BYTES: usize = 64;

/// Writes `name` at byte `at` of `words`, padded with zeros.
fn put_name(words: &mut [u32; WORDS], at: usize, name: &str) {
    let letters = [name.as_bytes(), &[0; NAME_BYTES]].into_iter().flatten();
    for (at, &letter) in (at..).zip(letters.take(NAME_BYTES)) {
        if let Some(word) = words.get_mut(at / 4) {
            let shift = at % 4 * 8;
            *word = *word & !(0xFF << shift) | u32::from(letter) << shift;
        }
    }
}

/// PM_QUERY_DOM: domain `iter`, and the number of the next (255: none). `InvalidArgument`: unknown
/// number.
pub(super) fn query_domain(process: &Process, words: &mut [u32; WORDS]) -> Result {
    let core = streams::core_of_pipe(process, words[0])?;
    let iter = words[1] & 0xFF;
    let mut domains = domains_of(process, &core).skip(u32_as_usize(iter));
    let domain = domains.next().ok_or(Error::InvalidArgument)?;
    let next = match domains.next() {
        Some(_) => iter + 1,
        None => 0xFF,
    };
    // CAST: a few.
    words[1] = next | iter << 8 | (domain.signals.len() as u32) << 16;
    put_name(words, 8, domain.name);
    Ok(())
}

/// PM_QUERY_SIG: signal `iter` of a domain, and the number of the next (65,535: none).
/// `InvalidArgument`: unknown number.
pub(super) fn query_signal(process: &Process, words: &mut [u32; WORDS]) -> Result {
    let core = streams::core_of_pipe(process, words[0])?;
    let (domain, iter) = (words[1] & 0xFF, words[1] >> 16);
    // CAST: 32 bits into at least 32, twice.
    let domain = domains_of(process, &core).nth(domain as usize);
    let signals = domain.ok_or(Error::InvalidArgument)?.signals;
    let &(name, _) = signals.get(iter as usize).ok_or(Error::InvalidArgument)?;
    // CAST: a few.
    let next = if iter + 1 < signals.len() as u32 {
        iter + 1
    } else {
        0xFFFF
    };
    words[1] = words[1] & 0xFFFF | next << 16;
    words[2] = words[2] & !0xFFFF | iter;
    put_name(words, 10, name);
    Ok(())
}

/// When to read the counter: before or after the stream.
pub(super) const BEFORE: u32 = 1 << 0;
pub(super) const AFTER: u32 = 1 << 1;

/// Words of a request; the most requests of a SUBMIT.
const REQUEST_WORDS: usize = 5;
const MOST: u32 = 128;

/// A request to write a counter into an object.
struct Request {
    flags: u32,
    counter: Counter,
    sequence: u32,
    /// Index of the counter's word; never 0, where `sequence` goes.
    word: usize,
    node: Arc<Node>,
}

/// The requests of a SUBMIT; `None` for most.
pub(super) struct Requests(Option<KBox<Asked>>);

/// At least one request.
struct Asked {
    all: KVVec<Request>,
    /// The counters from before the stream.
    before: Option<Cells>,
}

impl Requests {
    /// Reads `count` requests for objects in `used`, by `read`. `InvalidArgument`: too many, or one
    /// has an unknown flag, counter, word or object, or an object that the CPU cannot write.
    pub(super) fn new(
        process: &Process,
        core: &Core,
        entry: u32,
        count: u32,
        used: &[Used],
        read: impl FnOnce(usize) -> Result<KVVec<u32>>,
    ) -> Result<Self> {
        if count == 0 {
            return Ok(Self(None));
        }
        if count > MOST {
            return Err(Error::InvalidArgument);
        }
        let mut all = KVVec::new();
        // As in Linux, each pipe numbers its domains from 0.
        let skipped = match entry {
            0 => 0,
            _ if !core.identity().has_2d() => return Err(Error::InvalidArgument),
            _ => domains_of(process, core)
                .count()
                .saturating_sub(OF_2D.len()),
        };
        // CAST: 32 bits into at least 32, four times.
        for request in read(count as usize * REQUEST_WORDS)?.chunks_exact(REQUEST_WORDS) {
            let &[flags, signal, sequence, word, index] = request else {
                return Err(Error::InvalidArgument);
            };
            let domain = domains_of(process, core).nth(skipped + (signal & 0xFF) as usize);
            let counter = domain.and_then(|domain| domain.signals.get((signal >> 16) as usize));
            let node = used.get(index as usize).map(|used| &used.node);
            let (Some(&(_, counter)), Some(node)) = (counter, node) else {
                return Err(Error::InvalidArgument);
            };
            if flags & !(BEFORE | AFTER) != 0 || flags == 0 || word == 0 {
                return Err(Error::InvalidArgument);
            }
            let word = word as usize;
            if word >= node.bytes() / 4 || !node.is_writeable() {
                return Err(Error::InvalidArgument);
            }
            let request = Request {
                flags,
                counter,
                sequence,
                word,
                node: node.clone(),
            };
            all.push(request, sys::GFP_CLIENT)?;
        }
        let asked = Asked { all, before: None };
        Ok(Self(Some(KBox::new(asked, sys::GFP_CLIENT)?)))
    }

    /// Waits for the jobs of `core`, and saves its counters. Errors as
    /// [`streams::wait_for_jobs_of`].
    pub(super) fn begin(&mut self, process: &Process, core: &Core) -> Result {
        if let Some(asked) = &mut self.0 {
            streams::wait_for_jobs_of(core)?;
            asked.before = Some(profile::counted(process, core)?);
        }
        Ok(())
    }

    /// Writes the saved counters, and those after the core's job `number` if it ends in time.
    pub(super) fn end(&self, process: &Process, core: &Core, number: u32) {
        let Some(asked) = &self.0 else {
            return;
        };
        if let Some(cells) = &asked.before {
            asked.write(cells, BEFORE);
        }
        if !outlast_number(core, number) {
            return;
        }
        if let Ok(cells) = profile::counted(process, core) {
            asked.write(&cells, AFTER);
        }
        for request in &asked.all {
            request.node.write(0, request.sequence);
        }
    }
}

impl Asked {
    fn write(&self, cells: &Cells, when: u32) {
        let requests = self.all.iter();
        for request in requests.filter(|request| request.flags & when != 0) {
            let value = request.counter.value(cells).unwrap_or(0);
            request.node.write(request.word * 4, value);
        }
    }
}

#[kernel::macros::kunit_tests(galcore_perfmon)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_the_bytes_around_them() {
        let mut words = [u32::MAX; WORDS];
        put_name(&mut words, 10, "AB");
        assert_eq!(words[2].to_le_bytes(), [0xFF, 0xFF, b'A', b'B']);
        assert_eq!((words[3], words[17]), (0, 0));
        assert_eq!(words[18], 0xFFFF_0000);
        put_name(&mut words, WORDS * 4 - 1, "XY");
        assert_eq!(words[WORDS - 1].to_le_bytes(), [0, 0, 0xFF, b'X']);
    }

    #[test]
    fn names_fit_their_fields() {
        for domain in [&OF_3D[..], &OF_2D].into_iter().flatten() {
            assert!(domain.name.len() < NAME_BYTES);
            let names = domain.signals.iter().map(|(name, _)| name);
            assert!(names.into_iter().all(|name| name.len() < NAME_BYTES));
        }
    }
}
