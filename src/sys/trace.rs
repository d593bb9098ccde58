// SPDX-License-Identifier: GPL-2.0-only

//! Trace events: what the GPU does, and when.
//!
//! Each is a type with the event's fields. A disabled event costs a branch that is not there (a
//! static key): its fields are only computed after it. Recording takes no lock, does not sleep, and
//! may be done under any lock and in any thread; it is not for interrupts' upper halves of ours. In
//! a kernel without trace points nothing of it is left.
//!
//! C header: `galcore_trace.h`, which has the text of each.

#[cfg(CONFIG_TRACEPOINTS)]
use super::shim;
#[cfg(CONFIG_TRACEPOINTS)]
use kernel::bindings;

/// The number of the calling thread's process, in the initial namespace: as traces have it.
pub(crate) fn process() -> i32 {
    kernel::current!().group_leader().pid()
}

/// Declares events: the type, its fields as the C functions take them, the event's key and the
/// function that records it.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $event:ident, $key:ident, $record:ident {
            $($(#[$field_doc:meta])* $field:ident: $kind:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[cfg_attr(not(CONFIG_TRACEPOINTS), allow(dead_code))]
        ///
        /// Recorded by [`Self::record`].
        pub(crate) struct $event {
            $($(#[$field_doc])* pub(crate) $field: $kind,)*
        }

        impl $event {
            /// Records what `make` makes, if it makes something and the event is enabled.
            #[inline(always)]
            #[cfg_attr(not(CONFIG_TRACEPOINTS), allow(unused_variables))]
            pub(crate) fn record<E: Into<Option<Self>>>(make: impl FnOnce() -> E) {
                #[cfg(CONFIG_TRACEPOINTS)]
                {
                    // SAFETY: The key is the one of the event that C has defined.
                    let is_wanted = unsafe {
                        kernel::jump_label::static_branch_unlikely!(
                            shim::$key,
                            bindings::tracepoint,
                            key
                        )
                    };
                    if is_wanted {
                        if let Some(event) = make().into() {
                            event.pass_on();
                        }
                    }
                }
            }

            #[cfg(CONFIG_TRACEPOINTS)]
            #[cold]
            #[inline(never)]
            fn pass_on(self) {
                // SAFETY: It takes numbers, and may be called anywhere where RCU is: in threads.
                unsafe { shim::$record($(self.$field),*) };
            }
        }
    )*};
}

events! {
    /// A job has got its place in a core's queue.
    Submit, __tracepoint_galcore_submit, rust_do_trace_galcore_submit {
        /// The core's place.
        core: u32,
        /// Who submits it; 0: the driver.
        process: i32,
        /// The number of the context that it runs in; 0: none.
        context: u64,
        /// The pipes that it uses, of [`PIPE_3D`], [`PIPE_2D`] and [`PIPE_VG`].
        pipe: u32,
        /// The job's number on the core.
        seqno: u64,
        /// How many words of the process's it has.
        words: u32,
        /// Its event id.
        event_id: u32,
    }

    /// A job begins, as far as the driver knows: the one before it has ended, or there was none,
    /// and the core is on. One that is dropped before that has none.
    Begin, __tracepoint_galcore_begin, rust_do_trace_galcore_begin {
        /// The core's place.
        core: u32,
        /// The job's number there.
        seqno: u64,
    }

    /// The driver has learned that a job has ended.
    End, __tracepoint_galcore_end, rust_do_trace_galcore_end {
        /// The core's place.
        core: u32,
        /// The job's number there.
        seqno: u64,
        /// 0: done, 1: dropped, 2: its place was given back.
        outcome: u32,
    }

    /// A thread of a process's begins to wait.
    WaitBegin, __tracepoint_galcore_wait_begin, rust_do_trace_galcore_wait_begin {
        /// The process.
        process: i32,
        /// For what: see [`WaitFor`].
        what: u32,
        /// The object.
        object: u64,
        /// Of which core; -1: none.
        core: i32,
        /// In milliseconds; -1: for ever.
        timeout: i32,
    }

    /// It waits no longer.
    WaitEnd, __tracepoint_galcore_wait_end, rust_do_trace_galcore_wait_end {
        /// The process.
        process: i32,
        /// For what it has waited.
        what: u32,
        /// The object.
        object: u64,
        /// Of which core; -1: none.
        core: i32,
        /// 0, or the interface's status.
        result: i32,
    }

    /// Pages, or contiguous memory, are mapped for the GPU.
    Map, __tracepoint_galcore_map, rust_do_trace_galcore_map {
        /// Who has that done.
        process: i32,
        /// GPU address.
        address: u32,
        /// How many bytes.
        bytes: u64,
    }

    /// A mapping has ended. The pages wait for the GPU.
    Unmap, __tracepoint_galcore_unmap, rust_do_trace_galcore_unmap {
        /// Who had it made.
        process: i32,
        /// GPU address.
        address: u32,
        /// How many bytes.
        bytes: u64,
    }

    /// A core does not get on.
    Hang, __tracepoint_galcore_hang, rust_do_trace_galcore_hang {
        /// The core's place.
        core: u32,
        /// The oldest job.
        seqno: u64,
        /// The process that is charged for it; 0: none.
        guilty: i32,
    }

    /// It was reset because of that.
    Reset, __tracepoint_galcore_reset, rust_do_trace_galcore_reset {
        /// The core's place.
        core: u32,
        /// At which try it came back; 0: it did not.
        tries: u32,
        /// Whether it goes on.
        ok: bool,
    }

    /// A core has been switched on, or is about to lose its clocks.
    Power, __tracepoint_galcore_power, rust_do_trace_galcore_power {
        /// The core's place.
        core: u32,
        /// Which of the two.
        on: bool,
        /// 0: it is used, or is not; 1: a client has asked for it; 2: a recovery; 3: it was given
        /// up.
        why: u32,
        /// The 64ths of its clock at which it must run.
        speed: u32,
    }

    /// A core that is on runs at another speed.
    Speed, __tracepoint_galcore_speed, rust_do_trace_galcore_speed {
        /// The core's place.
        core: u32,
        /// 64ths of its clock.
        speed: u32,
    }
}

/// A job uses the 3D pipe.
pub(crate) const PIPE_3D: u32 = 1;
/// The 2D pipe.
pub(crate) const PIPE_2D: u32 = 2;
/// It is one for vector graphics.
pub(crate) const PIPE_VG: u32 = 4;

/// What a thread waits for.
#[derive(Clone, Copy)]
pub(crate) enum WaitFor {
    /// A user signal.
    Signal(u32),
    /// A job, and what precedes it, on a core.
    Job(usize, u64),
    /// A place in a core's queue.
    Place(usize),
    /// A fence, by its descriptor.
    Fence(i32),
}

impl WaitFor {
    /// As the events have it: what, which, of which core.
    fn fields(self) -> (u32, u64, i32) {
        // CAST: places are few.
        let core = |place: usize| place as i32;
        match self {
            WaitFor::Signal(id) => (0, u64::from(id), -1),
            WaitFor::Job(place, number) => (1, number, core(place)),
            WaitFor::Place(place) => (2, 0, core(place)),
            // CAST: a descriptor is not negative, or no descriptor.
            WaitFor::Fence(fd) => (3, fd.max(0) as u64, -1),
        }
    }

    /// Does `wait`, which takes `milliseconds` at most ([`u32::MAX`]: for ever), and records that;
    /// `status` is 0 or the interface's number of the error that came of it.
    #[inline(always)]
    pub(crate) fn record<T>(
        self,
        milliseconds: u32,
        wait: impl FnOnce() -> T,
        status: impl FnOnce(&T) -> i32,
    ) -> T {
        WaitBegin::record(|| {
            let (what, object, core) = self.fields();
            WaitBegin {
                process: process(),
                what,
                object,
                core,
                // CAST: the same bits, as -1 is for ever.
                timeout: milliseconds as i32,
            }
        });
        let waited = wait();
        WaitEnd::record(|| {
            let (what, object, core) = self.fields();
            WaitEnd {
                process: process(),
                what,
                object,
                core,
                result: status(&waited),
            }
        });
        waited
    }
}
