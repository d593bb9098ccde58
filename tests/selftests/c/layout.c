// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks include/uapi/linux/galcore-4.0.0.h against the facts while it compiles;
 * there is nothing to run. facts.inc is what facts.awk makes of
 * tests/abi/4.0.0.txt. Built by `cargo test -p galcore-selftests` with every C
 * compiler it finds: the host's, armhf, arm64, i386.
 *
 * absent: GetProfileSetting RegisterProfileData RegisterProfileData2D SetProfileSetting
 * absent: gcsQUEUE.u POOL_NUMBER_OF_POOLS
 */
#include <stddef.h>
#include <linux/galcore-4.0.0.h>

#include "layout.h"
#include "facts.inc"
#include "layout.inc"
