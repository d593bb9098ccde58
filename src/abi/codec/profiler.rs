// SPDX-License-Identifier: GPL-2.0-only

//! The profiler's commands: in the common interface, or in a separate one.

use super::*;

/// The default name of the profiler's file.
const PROFILE_NAME: &[u8; 16] = b"vprofiler.xml\0\0\0";

impl Format {
    /// Whether the interface `words` has room for `bytes` bytes of payload. Builds without the
    /// profiler have a smaller interface.
    fn has_room(self, words: &[u32], bytes: usize) -> bool {
        bytes != 0 && usize::from(self.0.profiler_union_at) + bytes <= 4 * words.len()
    }

    /// The layout of a command's counters in the interface `words`. Builds without counters for
    /// each context have no field before them.
    fn counters_in(self, words: &[u32], counters: &CountersLayout) -> Option<CountersLayout> {
        let whole = counters.end();
        let bare = CountersLayout { at: 0, ..*counters };
        [*counters, bare].into_iter().find(|counters| {
            !counters.words.is_empty()
                && self.has_room(words, counters.end())
                && counters.end() <= whole
        })
    }

    /// The layout, in the interface `words`, of the counters that a command reads, and their set.
    fn counters(self, words: &[u32]) -> Option<(CountersLayout, CounterSet)> {
        let profile = &self.0.profile;
        let (counters, set) =
            match self.command(words) {
                Command::ReadAllProfileRegisters => (&profile.all, CounterSet::Whole),
                Command::ReadAllProfileNewRegistersPart1
                | Command::ReadAllProfileRegistersPart1 => (&profile.part_1, CounterSet::First),
                Command::ReadAllProfileNewRegistersPart2
                | Command::ReadAllProfileRegistersPart2 => (&profile.part_2, CounterSet::Second),
                _ => return None,
            };
        Some((self.counters_in(words, counters)?, set))
    }

    /// Bytes of the separate interface of the profiler's commands, if `sizes`, of a request and its
    /// answer, match it. Builds with a larger common interface have a larger separate one, too.
    pub(crate) fn profiler_bytes(self, sizes: (u64, u64)) -> Option<usize> {
        let bytes = self.0.profiler_bytes;
        let more = match self.0.sizes {
            [usual, larger] => larger.saturating_sub(*usual),
            _ => 0,
        };
        let bytes = [bytes, bytes.saturating_add(more)]
            .into_iter()
            .find(|&bytes| sizes == (bytes.into(), bytes.into()))?;
        (self.0.profiler_bytes != 0).then_some(bytes.into())
    }

    /// The first generation whose separate interface of the profiler's commands has `bytes` bytes,
    /// else the first with a separate interface.
    pub(crate) fn with_profiler_interface(bytes: u64) -> Option<Self> {
        let mut layouts = LAYOUTS.iter().filter(|layout| layout.profiler_bytes != 0);
        let first = layouts.clone().next();
        let found = layouts.find(|layout| u64::from(layout.profiler_bytes) == bytes);
        found.or(first).map(Format)
    }

    /// The payload of a profiler command.
    fn profiler_union(self, words: &[u32]) -> &[u32] {
        let words = words.get(usize::from(self.0.profiler_union_at) / 4..);
        words.unwrap_or_default()
    }

    fn profiler_union_mut(self, words: &mut [u32]) -> &mut [u32] {
        let words = words.get_mut(usize::from(self.0.profiler_union_at) / 4..);
        words.unwrap_or_default()
    }

    /// Reads a request in the separate interface of the profiler's commands. Other commands are
    /// invalid there.
    #[cold]
    #[inline(never)]
    pub(crate) fn decode_profiler_interface(self, words: &[u32]) -> Request {
        if self.is_profiler(words) {
            self.decode_profiler(words)
        } else {
            Request::Refused(Error::InvalidArgument)
        }
    }

    /// Reads a profiler request. Builds without the profiler have no room for some commands, which
    /// do nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn decode_profiler(self, words: &[u32]) -> Request {
        let layout = self.0;
        let u = self.profiler_union(words);
        let has_room = |bytes: u16| self.has_room(words, bytes.into());
        let is_built = layout.quirks.has_profiler;
        let mut counters = [&layout.profile.all, &layout.profile.part_1].into_iter();
        // Smaller payloads may fit even in builds without the profiler.
        if !counters.any(|counters| self.counters_in(words, counters).is_some()) {
            return Request::Ignored;
        }
        match self.command(words) {
            Command::GetProfileSetting if has_room(layout.profile_setting.bytes) => {
                Request::ProfileSetting {
                    is_built,
                    is_on: layout.quirks.profiles,
                }
            }
            Command::SetProfileSetting if has_room(layout.set_profile.bytes) => {
                Request::SetProfileSetting {
                    enable: layout.set_profile.enable.word(u) != 0,
                    is_built,
                }
            }
            Command::ProfileRegisters2d if has_room(layout.counters_2d.bytes) => {
                Request::ReadCounters2d {
                    user: layout.counters_2d.result.user(u),
                }
            }
            Command::ReadProfilerNewRegisterSetting | Command::ReadProfilerRegisterSetting
                if has_room(layout.profile_clear.bytes) =>
            {
                Request::ClearCounters {
                    clears: layout.profile_clear.clears.word(u) != 0,
                }
            }
            _ => match self.counters(words) {
                Some((_, set)) => Request::ReadCounters(set),
                None => Request::Ignored,
            },
        }
    }

    /// Whether it is a profiler command of the separate interface.
    fn is_profiler(self, words: &[u32]) -> bool {
        matches!(
            self.command(words),
            Command::GetProfileSetting
                | Command::SetProfileSetting
                | Command::ReadAllProfileRegistersPart1
                | Command::ReadAllProfileRegistersPart2
                | Command::ReadProfilerRegisterSetting
                | Command::ProfileRegisters2d
        )
    }

    /// Writes the answer in the separate interface of the profiler's commands.
    #[cold]
    #[inline(never)]
    pub(crate) fn answer_profiler(self, words: &mut [u32], answer: Result<Reply<'_>, Error>) {
        let status = match answer {
            Ok(reply) => {
                self.encode_profiler(words, &reply);
                reply.status()
            }
            // CAST: the bits of a signed field.
            Err(error) => error.status() as u32,
        };
        self.put_status(words, status);
    }

    /// Writes a profiler reply. Out of line, to keep other replies fast.
    #[cold]
    #[inline(never)]
    pub(super) fn encode_profiler(self, words: &mut [u32], reply: &Reply<'_>) {
        match reply {
            Reply::ProfileSetting { enable, name } => {
                let u = self.profiler_union_mut(words);
                let fields = &self.0.profile_setting;
                fields.enable.put(u, (*enable).into());
                fields.sync.put(u, 0);
                fields.mode.put(u, 0);
                fields.probe.put(u, 0);
                if fields.name.exists() {
                    encode_name(fields.name, u, name.as_deref());
                }
            }
            Reply::Counters(cells) => {
                let Some((counters, _)) = self.counters(words) else {
                    return;
                };
                let u = self.profiler_union_mut(words);
                let found = u
                    .get_mut(usize::from(counters.at) / 4..)
                    .unwrap_or_default();
                for (place, counter) in found.iter_mut().zip(counters.words) {
                    if let Some(value) = counter.value(cells) {
                        *place = value;
                    }
                }
            }
            _ => {}
        }
    }
}

/// Writes the name of the profiler's file, padded with zeros.
fn encode_name(field: Field, u: &mut [u32], name: Option<&Text>) {
    // CAST: 32 of them.
    for word in 0..MAX_TEXT_WORDS as u16 {
        let at = usize::from(word);
        let default = PROFILE_NAME.chunks_exact(4).nth(at);
        let default = default.and_then(|letters| letters.try_into().ok());
        let value = match name {
            Some(name) => name.0.get(at).copied().unwrap_or(0),
            None => default.map_or(0, u32::from_ne_bytes),
        };
        field.nth(word).put(u, value);
    }
}
