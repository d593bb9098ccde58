// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory for structures that calls point to: at high addresses, followed by an unmapped page to
 * detect reads beyond the end, and unmapped as soon as it is freed.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "library.h"

#define PAGE 4096u

static uintptr_t page_of(const void *memory)
{
	return (uintptr_t)memory & ~(uintptr_t)(PAGE - 1);
}

void *take(size_t bytes)
{
	const size_t all = (bytes + PAGE - 1) / PAGE * PAGE;
	void *const wish = WISH(0xa8000000u + any() % 0x4000 * PAGE);
	char *start = mmap(wish, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED || !IS_HIGH(start))
		abort();
	scribble(start, all);
	return start + (all - bytes) / 8 * 8;
}

void give_back(void *memory, size_t bytes)
{
	const size_t all = (bytes + PAGE - 1) / PAGE * PAGE;

	if (memory)
		munmap((void *)page_of(memory), all);
}
