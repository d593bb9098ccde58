// SPDX-License-Identifier: GPL-2.0-only
/*
 * Instantiates galcore_trace.h: the trace events, and the functions with which Rust records them.
 */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "galcore_trace.h"
