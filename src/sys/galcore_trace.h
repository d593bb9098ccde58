/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The trace events of the driver, system "galcore": see Documentation/admin-guide.md. Fields hold numbers only.
 * A core is named by its place among the device's, a process by its number in the initial namespace, a
 * job by its core and its number there. trace.rs says what records them, and when.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM galcore

#if !defined(GALCORE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define GALCORE_TRACE_H

#include <linux/tracepoint.h>
#include <linux/types.h>

TRACE_EVENT(galcore_submit,
	TP_PROTO(u32 core, int process, u64 context, u32 pipe, u64 seqno, u32 words, u32 event_id),
	TP_ARGS(core, process, context, pipe, seqno, words, event_id),
	TP_STRUCT__entry(
		__field(u64, context)
		__field(u64, seqno)
		__field(u32, core)
		__field(int, process)
		__field(u32, pipe)
		__field(u32, words)
		__field(u32, event_id)
	),
	TP_fast_assign(
		__entry->context = context;
		__entry->seqno = seqno;
		__entry->core = core;
		__entry->process = process;
		__entry->pipe = pipe;
		__entry->words = words;
		__entry->event_id = event_id;
	),
	TP_printk("core=%u seqno=%llu process=%d context=%llu pipe=%s words=%u event_id=%u",
		  __entry->core, __entry->seqno, __entry->process, __entry->context,
		  __print_symbolic(__entry->pipe,
				   { 0, "none" }, { 1, "3d" }, { 2, "2d" }, { 3, "3d+2d" }, { 4, "vg" }),
		  __entry->words, __entry->event_id)
);

TRACE_EVENT(galcore_begin,
	TP_PROTO(u32 core, u64 seqno),
	TP_ARGS(core, seqno),
	TP_STRUCT__entry(
		__field(u64, seqno)
		__field(u32, core)
	),
	TP_fast_assign(
		__entry->seqno = seqno;
		__entry->core = core;
	),
	TP_printk("core=%u seqno=%llu", __entry->core, __entry->seqno)
);

TRACE_EVENT(galcore_end,
	TP_PROTO(u32 core, u64 seqno, u32 outcome),
	TP_ARGS(core, seqno, outcome),
	TP_STRUCT__entry(
		__field(u64, seqno)
		__field(u32, core)
		__field(u32, outcome)
	),
	TP_fast_assign(
		__entry->seqno = seqno;
		__entry->core = core;
		__entry->outcome = outcome;
	),
	TP_printk("core=%u seqno=%llu outcome=%s", __entry->core, __entry->seqno,
		  __print_symbolic(__entry->outcome,
				   { 0, "done" }, { 1, "dropped" }, { 2, "never-run" }))
);

/* "object" is a signal, a job's number, or a descriptor. core is -1 if there is none. */
#define GAL_WAIT_EVENT(name, last, format)                                              \
TRACE_EVENT(name,                                                                       \
	TP_PROTO(int process, u32 what, u64 object, int core, int last),                \
	TP_ARGS(process, what, object, core, last),                                     \
	TP_STRUCT__entry(                                                               \
		__field(u64, object)                                                    \
		__field(int, process)                                                   \
		__field(u32, what)                                                      \
		__field(int, core)                                                      \
		__field(int, last)                                                      \
	),                                                                              \
	TP_fast_assign(                                                                 \
		__entry->object = object;                                               \
		__entry->process = process;                                             \
		__entry->what = what;                                                   \
		__entry->core = core;                                                   \
		__entry->last = last;                                                   \
	),                                                                              \
	TP_printk(format, __entry->process,                                             \
		  __print_symbolic(__entry->what,                                       \
				   { 0, "signal" }, { 1, "job" }, { 2, "place" }, { 3, "fence" }), \
		  __entry->object, __entry->core, __entry->last)                        \
)

GAL_WAIT_EVENT(galcore_wait_begin, timeout,
	       "process=%d what=%s object=%llu core=%d timeout=%d");
GAL_WAIT_EVENT(galcore_wait_end, result,
	       "process=%d what=%s object=%llu core=%d result=%d");

/* A mapping of the MMU. The process is the one that created it, also if another one ends it. */
DECLARE_EVENT_CLASS(galcore_mapping,
	TP_PROTO(int process, u32 address, u64 bytes),
	TP_ARGS(process, address, bytes),
	TP_STRUCT__entry(
		__field(u64, bytes)
		__field(int, process)
		__field(u32, address)
	),
	TP_fast_assign(
		__entry->bytes = bytes;
		__entry->process = process;
		__entry->address = address;
	),
	TP_printk("process=%d address=0x%08x bytes=%llu", __entry->process, __entry->address,
		  __entry->bytes)
);

DEFINE_EVENT(galcore_mapping, galcore_map,
	TP_PROTO(int process, u32 address, u64 bytes),
	TP_ARGS(process, address, bytes)
);

DEFINE_EVENT(galcore_mapping, galcore_unmap,
	TP_PROTO(int process, u32 address, u64 bytes),
	TP_ARGS(process, address, bytes)
);

TRACE_EVENT(galcore_hang,
	TP_PROTO(u32 core, u64 seqno, int guilty),
	TP_ARGS(core, seqno, guilty),
	TP_STRUCT__entry(
		__field(u64, seqno)
		__field(u32, core)
		__field(int, guilty)
	),
	TP_fast_assign(
		__entry->seqno = seqno;
		__entry->core = core;
		__entry->guilty = guilty;
	),
	TP_printk("core=%u seqno=%llu guilty=%d", __entry->core, __entry->seqno, __entry->guilty)
);

TRACE_EVENT(galcore_reset,
	TP_PROTO(u32 core, u32 tries, bool ok),
	TP_ARGS(core, tries, ok),
	TP_STRUCT__entry(
		__field(u32, core)
		__field(u32, tries)
		__field(u32, ok)
	),
	TP_fast_assign(
		__entry->core = core;
		__entry->tries = tries;
		__entry->ok = ok;
	),
	TP_printk("core=%u tries=%u ok=%u", __entry->core, __entry->tries, __entry->ok)
);

TRACE_EVENT(galcore_power,
	TP_PROTO(u32 core, bool on, u32 why, u32 speed),
	TP_ARGS(core, on, why, speed),
	TP_STRUCT__entry(
		__field(u32, core)
		__field(u32, on)
		__field(u32, why)
		__field(u32, speed)
	),
	TP_fast_assign(
		__entry->core = core;
		__entry->on = on;
		__entry->why = why;
		__entry->speed = speed;
	),
	TP_printk("core=%u on=%u why=%s speed=%u", __entry->core, __entry->on,
		  __print_symbolic(__entry->why,
				   { 0, "use" }, { 1, "suspend" }, { 2, "recovery" }, { 3, "given-up" }),
		  __entry->speed)
);

TRACE_EVENT(galcore_speed,
	TP_PROTO(u32 core, u32 speed),
	TP_ARGS(core, speed),
	TP_STRUCT__entry(
		__field(u32, core)
		__field(u32, speed)
	),
	TP_fast_assign(
		__entry->core = core;
		__entry->speed = speed;
	),
	TP_printk("core=%u speed=%u", __entry->core, __entry->speed)
);

#endif

/* Outside of the guard: read several times. */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE galcore_trace
#include <trace/define_trace.h>
