// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks include/uapi/linux/galcore.h against the facts in layout.inc while it
 * compiles; there is nothing to run. Built by `cargo test -p galcore-selftests`
 * with every C compiler it finds: the host's, armhf, arm64, i386.
 */
#include <stddef.h>
#include <linux/galcore.h>

#define SIZE(type, bytes) \
	_Static_assert(sizeof(type) == (bytes), #type " has a wrong size");
#define FIELD(type, member, offset, bytes) \
	_Static_assert(offsetof(type, member) == (offset), \
		       #type "." #member " is at a wrong offset"); \
	_Static_assert(sizeof(((type *)0)->member) == (bytes), \
		       #type "." #member " has a wrong size");
#define VALUE(name, value) \
	_Static_assert((name) == (value), #name " has a wrong value");

#include "layout.inc"
