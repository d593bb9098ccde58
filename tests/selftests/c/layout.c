// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks include/uapi/linux/galcore-4.0.0.h against the facts in layout.inc
 * while it compiles; there is nothing to run. Built by
 * `cargo test -p galcore-selftests` with every C compiler it finds: the host's,
 * armhf, arm64, i386.
 */
#include <stddef.h>
#include <linux/galcore-4.0.0.h>

#include "layout.h"
#include "layout.inc"
