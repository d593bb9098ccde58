// SPDX-License-Identifier: GPL-2.0-only

//! etnaviv's interface: SUBMIT, and waits for jobs.
//!
//! The number of a fence is the low 32 bits of the number that its job has in the ring of the core.
//! A node notes its last jobs.

use super::{
    action::Action,
    check,
    commit,
    gem,
    queue::Queue,
    submission::{
        self,
        Work, //
    },
    Core,
    Process, //
};
use crate::{
    abi::{
        default_pool,
        Format, //
    },
    memory::{
        Node,
        View, //
    },
    prelude::*,
    ring::{
        Waited,
        MAX_STREAM_WORDS, //
    },
    sys::file::{
        self,
        Fence, //
    },
    wait, //
};

/// The longest wait for another driver's fence, in ms: other drivers wait as long for ours.
pub(crate) const FENCE_TIMEOUT: u32 = 10_000;

/// The most cores of etnaviv's interface.
const MAX_PIPES: u32 = 4;

/// A node that a stream uses.
pub(crate) struct Used {
    pub(crate) node: Arc<Node>,
    pub(crate) is_written: bool,
}

/// A stream to submit.
pub(crate) struct Stream {
    pub(crate) core: Arc<Core>,
    /// The pipe in which it begins.
    pub(crate) entry: u32,
    /// Its words, with all relocations applied.
    pub(crate) commands: KVVec<u32>,
    /// The nodes that the client lists.
    pub(crate) used: KVVec<Used>,
    /// The fence that is signaled when its job ends.
    pub(crate) fence: Option<Fence>,
    /// The submission first waits for the jobs of other cores that use the nodes.
    pub(crate) is_ordered: bool,
}

/// The core with etnaviv's number `pipe`. `NotSupported`: no such core. `InvalidArgument`: the
/// interface has no such number.
pub(crate) fn core_of_pipe(process: &Process, pipe: u32) -> Result<Arc<Core>> {
    if pipe >= MAX_PIPES {
        return Err(Error::InvalidArgument);
    }
    let core = process.device.cores().nth(u32_as_usize(pipe));
    core.ok_or(Error::NotSupported)
}

/// GET_PARAM. `InvalidArgument`: no such parameter.
pub(crate) fn core_parameter(process: &Process, pipe: u32, parameter: u32) -> Result<u64> {
    let core = core_of_pipe(process, pipe)?;
    let id = core.identity();
    Ok(u64::from(match parameter {
        0x01 => id.model,
        0x02 => id.revision,
        0x03 => id.features,
        at @ 0x04..=0x07 => id.minor_features[at as usize - 4],
        at @ 0x08..=0x0A => id.later_minor_features[at as usize - 8],
        0x0B..=0x0F => 0,
        0x10 => id.stream_count,
        0x11 => id.register_max,
        0x12 => id.thread_count,
        0x13 => id.vertex_cache_size,
        0x14 => id.shader_core_count,
        0x15 => id.pixel_pipes,
        0x16 => id.vertex_output_buffer_size,
        0x17 => id.buffer_size,
        0x18 => id.instruction_count,
        0x19 => id.num_constants,
        0x1A => id.free_varyings,
        // Clients choose no addresses.
        0x1B => return Ok(u64::MAX),
        0x1C..=0x1E => 0,
        _ => return Err(Error::InvalidArgument),
    }))
}

/// As [`gem::create`], in pages of its own. The client may use the memory for tile
/// status. So unless `by_mmu`, it is contiguous if the MMU of a core does not translate
/// addresses of tile status.
pub(crate) fn create_in_pages(
    process: &Arc<Process>,
    bytes: u64,
    by_mmu: bool,
) -> Result<Arc<Node>> {
    let mut cores = process.device.cores();
    let in_one_piece = !by_mmu && cores.any(|core| !core.identity().has_new_memory_controller());
    match gem::create_in(process, bytes, default_pool(in_one_piece, true)) {
        // Few objects are used for tile status: try pages that need not be contiguous.
        Err(Error::OutOfMemory) if in_one_piece => {
            gem::create_in(process, bytes, default_pool(false, true))
        }
        outcome => outcome,
    }
}

/// The file offset with which to map `node`. `InvalidArgument`: it cannot be mapped.
pub(crate) fn offset_of(process: &Process, node: &Node) -> Result<u64> {
    process.check_own()?;
    match node.view() {
        View::Pages(backing) => Ok(backing.file_offset()),
        View::Pool(_) | View::Own(_) => Err(Error::InvalidArgument),
    }
}

/// Waits for a fence of any driver. Unix signals do not interrupt the wait, because a restarted
/// SUBMIT would begin it anew.
pub(crate) fn wait_for_fence(fd: i32) -> Result {
    Ok(file::wait(fd, FENCE_TIMEOUT, true)?)
}

/// Submits the commands `words`, then `fence`. The commands begin in pipe `entry`, and have no
/// context. Returns the job's number. Errors: as [`commit::commit`]; also `InvalidArgument`:
/// too many words.
fn run_words(
    process: &Arc<Process>,
    core: &Core,
    mut words: KVVec<u32>,
    entry: u32,
    fence: Option<Fence>,
) -> Result<u64> {
    submission::wait_for_hangs(process)?;
    if words.len() > MAX_STREAM_WORDS {
        return Err(Error::InvalidArgument);
    }
    let entry = check::entry_pipe(core, "exec_state", entry)?;
    let mut queue = Queue::empty(process, core.engine().empty_payload());
    let fill = |queue: &mut Queue<'_>| match fence {
        Some(fence) => queue.events().push(Action::Fence(fence)),
        None => Ok(()),
    };
    let work = Work {
        words: &mut words,
        entry: [entry; 2],
        claimed: None,
        own: None,
        hold: None,
        delta: 0,
        format: Format::any(),
    };
    let (submitted, _) = submission::submit_words(process, core, work, &mut queue, fill)?;
    commit::keep_spare(process, words);
    queue.submitted();
    Ok(submitted.job)
}

/// Submits a stream. Returns the number of its fence.
pub(crate) fn submit_stream(process: &Arc<Process>, stream: Stream) -> Result<u32> {
    process.check_own()?;
    let core = &stream.core;
    for (at, used) in stream.used.iter().enumerate() {
        check_alive(at)?;
        used.node.metadata().prepare()?;
        gem::hand_over_first(process, &used.node)?;
        if stream.is_ordered {
            wait_for_jobs(
                process,
                &used.node,
                !used.is_written,
                FENCE_TIMEOUT,
                Some(core.index()),
            )?;
        }
    }
    let number = run_words(process, core, stream.commands, stream.entry, stream.fence)?;
    for used in &stream.used {
        used.node
            .metadata()
            .note_job(core.index(), number, used.is_written);
    }
    // CAST: the low half.
    Ok(number as u32)
}

/// Waits for the last jobs that write `node`. If `is_for_writing`, also waits for those that
/// read it. `ChipNotReady`: they have not ended, and `milliseconds` is 0. `Timeout`.
pub(crate) fn wait_for_object(
    process: &Process,
    node: &Node,
    is_for_writing: bool,
    milliseconds: u32,
) -> Result {
    wait_for_jobs(process, node, !is_for_writing, milliseconds, None)
}

/// Checks that the caller may export `node`. `InvalidData`: the file is another process's. If
/// it `is_first`, waits for the jobs that write the node: importers only see the fences of
/// later jobs.
pub(crate) fn check_export(process: &Process, node: &Node, is_first: bool) -> Result {
    process.check_own()?;
    if is_first {
        wait_for_object(process, node, false, FENCE_TIMEOUT)
    } else {
        Ok(())
    }
}

/// As [`wait_for_object`], for all cores but the one at place `except`.
fn wait_for_jobs(
    process: &Process,
    node: &Node,
    writers_only: bool,
    milliseconds: u32,
    except: Option<usize>,
) -> Result {
    let others = |core: &Arc<Core>| Some(core.index()) != except;
    for core in process.device.cores().filter(others) {
        match node.metadata().last_job(core.index(), writers_only) {
            0 => {}
            number => wait_for(&core, number, milliseconds)?,
        }
    }
    Ok(())
}

/// Waits for all jobs of `core`, at most [`FENCE_TIMEOUT`]. Errors: as
/// [`wait_for_object`].
pub(crate) fn wait_for_jobs_of(core: &Core) -> Result {
    wait_for(core, core.engine().newest(), FENCE_TIMEOUT)
}

/// Waits for fence `number` of a core. Errors: as [`wait_for_object`].
pub(crate) fn wait_for_number(
    process: &Process,
    pipe: u32,
    number: u32,
    milliseconds: u32,
) -> Result {
    let core = core_of_pipe(process, pipe)?;
    wait_for(&core, full_number(&core, number), milliseconds)
}

/// Called for object `at` of a SUBMIT. `Interrupted`: the calling thread is killed.
#[inline]
pub(crate) fn check_alive(at: usize) -> Result {
    if at % 256 == 255 && sys::is_killed() {
        Err(Error::Interrupted)
    } else {
        Ok(())
    }
}

/// Waits for fence `number` of `core`, at most [`FENCE_TIMEOUT`]. No Unix signal interrupts it.
pub(crate) fn settle_number(core: &Core, number: u32) {
    core.engine()
        .poll_for(full_number(core, number), FENCE_TIMEOUT);
}

/// As [`settle_number`], but a kill ends the wait. Returns whether the job has ended.
pub(crate) fn outlast_number(core: &Core, number: u32) -> bool {
    let number = full_number(core, number);
    let ended = wait::poll(FENCE_TIMEOUT, || {
        let has_ended = core.engine().is_over(number);
        (has_ended || sys::is_killed()).then_some(has_ended)
    });
    ended == Some(true)
}

/// The number of the newest job of `core` with these low 32 bits. For a number that is not used
/// yet, it is an old job.
fn full_number(core: &Core, number: u32) -> u64 {
    let newest = core.engine().newest();
    // CAST: the low half.
    let age = (newest as u32).wrapping_sub(number);
    newest.saturating_sub(age.into())
}

/// Waits for job `number` of `core`. A dropped job has ended, too.
fn wait_for(core: &Core, number: u64, milliseconds: u32) -> Result {
    match core.engine().wait_for(number, milliseconds) {
        Err(Error::GpuNotResponding) if core.engine().is_over(number) => Ok(()),
        Err(Error::GpuNotResponding) => Err(match milliseconds {
            0 => Error::ChipNotReady,
            _ => Error::Timeout,
        }),
        Err(Error::Interrupted) => Err(Error::WaitInterrupted),
        outcome => outcome,
    }
}
