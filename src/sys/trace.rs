// SPDX-License-Identifier: GPL-2.0-only

//! Trace events of the GPU's work.
//!
//! Each event is a type with its fields. A disabled event only costs the check of a static key: its
//! fields are not computed. Recording takes no lock and does not sleep. Threads may record under
//! any lock; hard interrupt handlers must not. Without trace points in the kernel, events have no
//! code.
//!
//! The C header `galcore_trace.h` has each event's text.

#[cfg(CONFIG_TRACEPOINTS)]
use super::shim;
#[cfg(CONFIG_TRACEPOINTS)]
use kernel::bindings;

/// The ID of the calling thread's process in the initial namespace, as in other traces.
pub(crate) fn process() -> i32 {
    kernel::current!().group_leader().pid()
}

/// Declares events: the type, the event's key, the C function that records it, and the fields, in
/// the order of that function's arguments.
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
            /// If the event is enabled, records the event that `make` returns, if any.
            #[inline(always)]
            #[cfg_attr(not(CONFIG_TRACEPOINTS), allow(unused_variables))]
            pub(crate) fn record<E: Into<Option<Self>>>(make: impl FnOnce() -> E) {
                #[cfg(CONFIG_TRACEPOINTS)]
                {
                    // SAFETY: C has defined the event's key.
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
                // SAFETY: It takes numbers. It may be called wherever RCU watches, as in threads.
                unsafe { shim::$record($(self.$field),*) };
            }
        }
    )*};
}

events! {
    /// A job has been added to a core's queue.
    Submit, __tracepoint_galcore_submit, rust_do_trace_galcore_submit {
        /// The core's index.
        core: u32,
        /// The process that submits the job; 0: the driver.
        process: i32,
        /// The number of the job's context; 0: none.
        context: u64,
        /// The pipes that the job uses: [`PIPE_3D`], [`PIPE_2D`], [`PIPE_VG`].
        pipe: u32,
        /// The job's number on the core.
        seqno: u64,
        /// Number of the process's words.
        words: u32,
        /// The job's event ID.
        event_id: u32,
    }

    /// The driver assumes that a job begins: the job before it has ended, or there was none, and
    /// the core is on. A job that is dropped before has no such event.
    Begin, __tracepoint_galcore_begin, rust_do_trace_galcore_begin {
        core: u32,
        seqno: u64,
    }

    /// The driver has learned that a job has ended.
    End, __tracepoint_galcore_end, rust_do_trace_galcore_end {
        core: u32,
        seqno: u64,
        /// 0: done, 1: dropped, 2: never run.
        outcome: u32,
    }

    /// A thread of a process begins to wait.
    WaitBegin, __tracepoint_galcore_wait_begin, rust_do_trace_galcore_wait_begin {
        process: i32,
        /// The kind of object: see [`WaitFor`].
        what: u32,
        object: u64,
        /// The core of the object; -1: none.
        core: i32,
        /// The limit in milliseconds; -1: none.
        timeout: i32,
    }

    /// The thread ends its wait.
    WaitEnd, __tracepoint_galcore_wait_end, rust_do_trace_galcore_wait_end {
        process: i32,
        what: u32,
        object: u64,
        core: i32,
        /// 0, or the interface's status.
        result: i32,
    }

    /// Pages, or contiguous memory, are mapped for the GPU.
    Map, __tracepoint_galcore_map, rust_do_trace_galcore_map {
        process: i32,
        address: u32,
        bytes: u64,
    }

    /// A mapping has ended. Its pages stay until the GPU no longer uses them.
    Unmap, __tracepoint_galcore_unmap, rust_do_trace_galcore_unmap {
        /// The process that made the mapping.
        process: i32,
        address: u32,
        bytes: u64,
    }

    /// A core hangs.
    Hang, __tracepoint_galcore_hang, rust_do_trace_galcore_hang {
        core: u32,
        /// The oldest job.
        seqno: u64,
        /// The process that is charged for the hang; 0: none.
        guilty: i32,
    }

    /// The core was reset after a hang.
    Reset, __tracepoint_galcore_reset, rust_do_trace_galcore_reset {
        core: u32,
        /// Number of resets; 0: all have failed.
        tries: u32,
        /// Whether the core runs again.
        ok: bool,
    }

    /// A core has been switched on, or is about to lose its clocks.
    Power, __tracepoint_galcore_power, rust_do_trace_galcore_power {
        core: u32,
        /// Whether it was switched on.
        on: bool,
        /// 0: runtime power management; 1: a client's request; 2: a recovery; 3: the core was given
        /// up.
        why: u32,
        /// Speed, in 64ths of the core's clock.
        speed: u32,
    }

    /// The speed of a core changes while the core is on.
    Speed, __tracepoint_galcore_speed, rust_do_trace_galcore_speed {
        core: u32,
        speed: u32,
    }
}

/// A job uses the 3D pipe.
pub(crate) const PIPE_3D: u32 = 1;
/// A job uses the 2D pipe.
pub(crate) const PIPE_2D: u32 = 2;
/// A job is for vector graphics.
pub(crate) const PIPE_VG: u32 = 4;

/// The object that a thread waits for.
#[derive(Clone, Copy)]
pub(crate) enum WaitFor {
    /// A user signal.
    Signal(u32),
    /// A job on a core and all jobs before it.
    Job(usize, u64),
    /// A place in a core's queue.
    Place(usize),
    /// A fence, identified by its descriptor.
    Fence(i32),
}

impl WaitFor {
    /// The events' fields `what`, `object` and `core`.
    fn fields(self) -> (u32, u64, i32) {
        // CAST: there are few cores.
        let core = |place: usize| place as i32;
        match self {
            WaitFor::Signal(id) => (0, u64::from(id), -1),
            WaitFor::Job(place, number) => (1, number, core(place)),
            WaitFor::Place(place) => (2, 0, core(place)),
            // CAST: a valid descriptor is not negative.
            WaitFor::Fence(fd) => (3, fd.max(0) as u64, -1),
        }
    }

    /// Runs and records `wait`, which takes at most `milliseconds` ([`u32::MAX`]: no limit).
    /// `status` converts its result to 0 or the interface's error number.
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
                // CAST: keeps the bits, so that -1 is no limit.
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
