// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks include/uapi/linux/galcore.h against the facts in layout-newest.inc
 * while it compiles, as layout.c does for 4.0.0.
 */
#include <stddef.h>
#include <linux/galcore.h>

#include "layout.h"
#include "layout-newest.inc"
