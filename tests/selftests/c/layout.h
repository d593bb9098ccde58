/* SPDX-License-Identifier: GPL-2.0-only */
/* What facts become: checks while they are compiled. */
#ifndef LAYOUT_H
#define LAYOUT_H

#define SIZE(type, bytes) \
	_Static_assert(sizeof(type) == (bytes), #type " has a wrong size");
#define PLACE(type, member, offset) \
	_Static_assert(offsetof(type, member) == (offset), \
		       #type "." #member " is at a wrong offset");
#define BYTES(type, member, bytes) \
	_Static_assert(sizeof(((type *)0)->member) == (bytes), \
		       #type "." #member " has a wrong size");
#define FIELD(type, member, offset, bytes) \
	PLACE(type, member, offset) \
	BYTES(type, member, bytes)
#define VALUE(name, value) \
	_Static_assert((name) == (value), #name " has a wrong value");

#endif
