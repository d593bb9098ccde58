// SPDX-License-Identifier: GPL-2.0-only

//! A frame: the words around a client's commands in the ring.
//!
//! Pure logic. As needed, a frame begins with a flush of the TLB and with states that make the GPU
//! forget addresses. Then it loads the states of the commands' context. A LINK leads to the
//! driver's copy. States that the client keeps in its own memory are copied into the ring after a
//! pipe switch. The vendor's drivers run the latter in place: they write a pipe switch at their
//! start and a LINK at their end. Source: sources.md, COMMIT, contexts in the client's memory.

use super::state::GpuState;
use crate::sys::prelude::*;
use crate::{
    context::{
        scrub::{
            Author,
            Lists,
            Part,
            Wipe,
            PIPES, //
        },
        Context,
        Load,
        Owner, //
    },
    stream::words::{
        self,
        Caches,
        PageTables,
        Pipe,
        Pipes, //
    }, //
};

/// A client's checked words.
#[derive(Clone, Copy)]
pub(crate) struct Checked<'a> {
    pub(crate) words: &'a [u32],
    /// The pipe that they need selected.
    pub(crate) entry: Pipe,
    /// The pipe that they leave selected.
    pub(crate) exit: Pipe,
    /// They leave the semaphore from the front end to the pixel engine armed.
    pub(crate) armed: bool,
    pub(crate) uses: Pipes,
}

impl Checked<'_> {
    /// Bytes in the ring: whole units of 8.
    pub(super) fn bytes(&self) -> usize {
        self.words.len().next_multiple_of(2) * 4
    }
}

/// A client's commands.
#[derive(Clone, Copy)]
pub(crate) struct Stream<'a> {
    pub(crate) commands: Checked<'a>,
    /// The context that they need. `None`: they run in whichever is loaded.
    pub(crate) context: Option<InContext<'a>>,
    /// Their author, and the words that make the GPU forget addresses: another author's, and the
    /// author's own of freed memory. `None`: addresses are not checked, so forgetting them would not
    /// help.
    pub(crate) author: Option<(Author, Lists<'a>)>,
}

impl<'a> Stream<'a> {
    /// The states of a context in the client's memory, if they have been prepared.
    #[inline]
    pub(super) fn states(&self) -> Option<&Checked<'a>> {
        match &self.context.as_ref()?.source {
            Source::Words(states) => Some(states),
            _ => None,
        }
    }
}

/// A context as the ring sees it.
#[derive(Clone, Copy)]
pub(crate) struct InContext<'a> {
    pub(crate) owner: Owner,
    /// The source of its states, for use if another context is loaded.
    pub(crate) source: Source<'a>,
}

/// The source of a context's states.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// They have not been prepared.
    Unready,
    /// No states to load: the context is loaded already, or these commands are its first.
    Nothing,
    /// The driver's copy in kernel memory, which a LINK leads to.
    Copy(&'a Arc<Context>, Load),
    /// Words that precede the commands in the ring.
    Words(Checked<'a>),
}

impl Source<'_> {
    /// The pipe that the states need selected.
    pub(super) fn entry(&self) -> Option<Pipe> {
        match self {
            Source::Unready | Source::Nothing => None,
            Source::Copy(..) => Some(Pipe::Pipe3d),
            Source::Words(states) => Some(states.entry),
        }
    }

    /// Adds the engines of the states to `uses`, those of the commands.
    pub(super) fn with_uses(&self, mut uses: Pipes) -> Pipes {
        match self {
            Source::Unready | Source::Nothing => {}
            Source::Copy(..) => uses.pipe_3d = true,
            Source::Words(states) => {
                uses.pipe_3d |= states.uses.pipe_3d;
                uses.pipe_2d |= states.uses.pipe_2d;
            }
        }
        uses
    }
}

/// The words around a client's words in a job.
pub(super) struct Frame {
    /// The MMU must load these tables and flush its TLB.
    pub(super) flush: Option<PageTables>,
    /// The lists of words that make the GPU forget addresses, in the order of execution.
    pub(super) wipes: [Option<Wipe>; PIPES],
    /// The LINK to the context's states.
    pub(super) load: Option<[u32; words::LINK_WORDS]>,
    /// The words around the states that precede the commands.
    pub(super) states: Option<Section>,
    pub(super) commands: Option<Section>,
}

impl Frame {
    /// Bytes before the word where the front end continues after the LINK to a context.
    pub(super) fn until_loaded(&self) -> usize {
        let wipes = self.wipes.iter().flatten();
        bytes_if(self.flush.is_some(), words::FLUSH_MMU_WORDS)
            + wipes.map(|wipe| wipe.words * 4).sum::<usize>()
            + bytes_if(self.load.is_some(), words::LINK_WORDS)
    }

    /// Whether it loads the data of the 2D pipe.
    pub(super) fn renews_2d(&self) -> bool {
        let mut wipes = self.wipes.iter().flatten();
        wipes.any(|wipe| wipe.part == Part::Fresh(Pipe::Pipe2d))
    }

    /// Bytes of the frame before the commands, without the words of states.
    pub(super) fn until_commands(&self) -> usize {
        let states = self.states.as_ref().map_or(0, Section::bytes);
        let switch = self.commands.as_ref().and_then(|section| section.switch);
        self.until_loaded() + states + bytes_if(switch.is_some(), words::SELECT_PIPE_WORDS)
    }

    /// Bytes of the frame, without the client's words.
    pub(super) fn bytes(&self) -> usize {
        let around = [&self.states, &self.commands].into_iter().flatten();
        self.until_loaded() + around.map(Section::bytes).sum::<usize>()
    }
}

impl Frame {
    /// The frame of `stream` for a GPU in the state `gpu`, with context states from `source`.
    /// `flush`: the tables, if the MMU must load them or flush its TLB. `uses`: the engines that
    /// the commands and the context's states use.
    #[inline(always)]
    pub(super) fn new(
        gpu: &GpuState,
        stream: Option<&Stream<'_>>,
        source: Source<'_>,
        uses: Pipes,
        flush: Option<PageTables>,
    ) -> Self {
        let commands = stream.map(|stream| &stream.commands);
        let (mut load, mut states, mut pipe) = (None, None, gpu.pipe);
        let wipes = match stream.and_then(|stream| Some((stream, stream.author?))) {
            Some((stream, (author, lists))) if gpu.authors.may_wipe(&lists.stale, author, uses) => {
                let next = source.entry().unwrap_or(stream.commands.entry);
                // The driver's copy holds only addresses of the process.
                let has_copy = matches!(source, Source::Copy(..));
                let wipes = gpu.authors.wipes(lists, author, uses, next, has_copy);
                wipes.map(|part| part.map(|part| Wipe::new(part, lists, &mut pipe)))
            }
            _ => [None; PIPES],
        };
        match source {
            Source::Unready | Source::Nothing => {}
            Source::Copy(_, copy) => {
                load = Some(copy.link(pipe == Some(Pipe::Pipe3d)));
                // The states select it.
                pipe = Some(Pipe::Pipe3d);
            }
            Source::Words(own) => {
                states = Some(Section::new(pipe, &own));
                pipe = Some(own.exit);
            }
        }
        Self {
            flush,
            wipes,
            load,
            states,
            commands: commands.map(|commands| Section::new(pipe, commands)),
        }
    }

    /// Passes the words of the frame and of `stream` to `emit` in order, up to the job's event.
    pub(super) fn emit<E>(
        &self,
        caches: &Caches,
        stream: Option<&Stream<'_>>,
        mut emit: impl FnMut(&[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(tables) = self.flush {
            emit(&words::flush_mmu(caches, tables))?;
        }
        if let Some((_, lists)) = stream.and_then(|stream| stream.author) {
            for wipe in self.wipes.iter().flatten() {
                if wipe.switch {
                    emit(&words::select_pipe(caches, wipe.part.pipe()))?;
                }
                lists.emit(wipe.part, caches, &mut emit)?;
            }
        }
        if let Some(load) = &self.load {
            emit(load)?;
        }
        let states = stream.and_then(Stream::states);
        let commands = stream.map(|stream| &stream.commands);
        for (around, inner) in [(&self.states, states), (&self.commands, commands)] {
            if let (Some(around), Some(inner)) = (around, inner) {
                around.emit(caches, inner.words, &mut emit)?;
            }
        }
        Ok(())
    }
}

/// Bytes of `words` words if they are `there`, otherwise 0.
const fn bytes_if(there: bool, words: usize) -> usize {
    if there {
        words * 4
    } else {
        0
    }
}

/// Words before and after a client's words. Small: it holds only what determines them.
pub(super) struct Section {
    /// The pipe that the client's words need, if another is selected.
    switch: Option<Pipe>,
    /// The client's words leave a semaphore armed.
    armed: bool,
}

impl Section {
    pub(super) const MAX_BYTES: usize =
        4 * (words::SELECT_PIPE_WORDS + words::STALL_FE_TO_PE.len() + words::DRAIN_WORDS);

    /// The section around `inner`, if `pipe` is selected before it. `None`: not known.
    pub(super) fn new(pipe: Option<Pipe>, inner: &Checked<'_>) -> Self {
        Self {
            switch: (pipe != Some(inner.entry)).then_some(inner.entry),
            armed: inner.armed,
        }
    }

    /// Bytes of the section, without the client's words.
    pub(super) fn bytes(&self) -> usize {
        bytes_if(self.switch.is_some(), words::SELECT_PIPE_WORDS)
            + bytes_if(self.armed, words::STALL_FE_TO_PE.len())
            + bytes_if(true, words::DRAIN_WORDS)
    }

    /// Passes the words of the section and of `inner` to `emit` in order, for a core with `caches`.
    pub(super) fn emit<E>(
        &self,
        caches: &Caches,
        inner: &[u32],
        mut emit: impl FnMut(&[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(pipe) = self.switch {
            emit(&words::select_pipe(caches, pipe))?;
        }
        emit(inner)?;
        if inner.len() % 2 != 0 {
            emit(&[0])?;
        }
        if self.armed {
            emit(&words::STALL_FE_TO_PE)?;
        }
        // The checker assumes that the GPU is idle at the start of a stream.
        emit(words::drain(caches))
    }
}

#[kernel::macros::kunit_tests(galcore_frame)]
mod tests {
    use super::*;
    use crate::hw::MmuVersion;

    const BOTH: Caches = Caches::new(true, true, true, MmuVersion::V1);

    /// The words, and whether their number is right.
    fn words_of(pipe: Option<Pipe>, states: &Checked<'_>) -> (KVec<u32>, bool) {
        let section = Section::new(pipe, states);
        let mut all = KVec::new();
        let result = section.emit(&BOTH, states.words, |words| {
            all.extend_from_slice(words, GFP_KERNEL)
        });
        let bytes = section.bytes() + states.bytes();
        let fits = section.bytes() <= Section::MAX_BYTES;
        let is_right = result.is_ok() && fits && bytes == all.len() * 4;
        (all, is_right)
    }

    fn states(words: &[u32], armed: bool) -> Checked<'_> {
        Checked {
            words,
            entry: Pipe::Pipe3d,
            exit: Pipe::Pipe3d,
            armed,
            uses: Pipes::default(),
        }
    }

    #[test]
    fn states_in_the_pipe_that_is_selected() {
        let (all, is_right) = words_of(Some(Pipe::Pipe3d), &states(&[0x0801_0285, 0x1234], false));
        assert!(is_right);
        assert_eq!(
            all[..],
            [
                0x0801_0285,
                0x1234,
                0x0801_0E03,
                0x2B,
                0x0801_0594,
                1,
                0x0801_0E02,
                0x701,
                0x4800_0000,
                0x701
            ]
        );
    }

    #[test]
    fn states_in_another_pipe() {
        // After a reset the selected pipe is not known, and counts as another.
        for pipe in [None, Some(Pipe::Pipe2d)] {
            let (all, is_right) =
                words_of(pipe, &states(&[0x0801_0285, 0x1234, 0x1800_0000], true));
            assert!(is_right);
            assert_eq!(
                all[..],
                [
                    // Flushes, semaphore, stall, select.
                    0x0801_0E03,
                    0x2B,
                    0x0801_0594,
                    1,
                    0x0801_0E02,
                    0x701,
                    0x4800_0000,
                    0x701,
                    0x0801_0E00,
                    0,
                    // The states, in whole units.
                    0x0801_0285,
                    0x1234,
                    0x1800_0000,
                    0,
                    // The stall that the states lack, then the drain.
                    0x4800_0000,
                    0x701,
                    0x0801_0E03,
                    0x2B,
                    0x0801_0594,
                    1,
                    0x0801_0E02,
                    0x701,
                    0x4800_0000,
                    0x701
                ]
            );
        }
    }

    #[test]
    fn nothing_but_a_frame() {
        let (all, is_right) = words_of(Some(Pipe::Pipe3d), &states(&[], false));
        assert!(is_right);
        assert_eq!(all.len(), 8);
    }
}
