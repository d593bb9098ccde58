// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The completion page, which this driver alone has: what is done is seen in memory, without a system call.
 * Jobs of a core are counted from 1 from the moment that the page is mapped.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <time.h>

#include "common.h"

#define JOBS 10u

/* How many of the process's jobs the core has done. */
static uint64_t completed(const volatile struct galcore_completion *page)
{
	const volatile struct galcore_completion_core *slot = &page->core[core];
	uint64_t number;
	uint32_t before;

	do {
		before = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
		number = slot->completed;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (before % 2 || before != slot->sequence);
	return number;
}

int main(void)
{
	const uint32_t nothing[] = { LOAD(0x380c, 1), 0xb };
	const struct timespec moment = { .tv_nsec = 100000 };
	const volatile struct galcore_completion *page;
	unsigned int i, looks;
	uint32_t pipe;

	start(HAS_2D | HAS_3D);
	pipe = chip.chipFeatures & HAS_2D ? gcvPIPE_2D : gcvPIPE_3D;
	page = mmap64(NULL, 4096, PROT_READ, MAP_SHARED, device, GALCORE_COMPLETION_OFFSET);
	if (page == MAP_FAILED)
		fail("the driver has no completion page: it is another galcore");
	if (page->version != GALCORE_COMPLETION_VERSION)
		fail("version %u of the page is not known", page->version);
	for (i = 0; i < JOBS; i++)
		commit(nothing, COUNT(nothing), pipe, 0);
	for (looks = 0; completed(page) < JOBS; looks++) {
		if (looks > 100000)
			fail("only %u jobs are done", (unsigned int)completed(page));
		nanosleep(&moment, NULL);
	}
	if (page->core[core].dropped)
		fail("a job was dropped");
	printf("%u jobs, seen to end without a system call after %u looks\n", JOBS, looks);
	return 0;
}
