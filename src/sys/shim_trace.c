// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel makes of galcore_trace.h: the trace events, and the functions by which Rust code
 * records them.
 */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "galcore_trace.h"
