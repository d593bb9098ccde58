// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Waiting: a signal that the driver sets when the GPU has come so far. Two frames are under way at once;
 * the process waits for the first only when it needs its memory again.
 */
#include "common.h"

#define FRAMES 20u

int main(void)
{
	struct memory surface[2];
	int32_t done[2];
	unsigned int i;
	/* A stream that does nothing: the engine's caches are flushed. */
	const uint32_t nothing[] = { LOAD(0x380c, 1), 0xb };
	uint32_t pipe;

	start(HAS_2D | HAS_3D);
	pipe = chip.chipFeatures & HAS_2D ? gcvPIPE_2D : gcvPIPE_3D;
	for (i = 0; i < 2; i++) {
		surface[i] = allocate(BYTES, gcvPOOL_DEFAULT);
		done[i] = create_signal();
		/* Nothing has been committed: nothing sets it. */
		if (wait_for(done[i], 10) != gcvSTATUS_TIMEOUT)
			fail("a signal is set that nobody has set");
	}
	for (i = 0; i < FRAMES; i++) {
		unsigned int slot = i % 2;

		if (i >= 2 && wait_for(done[slot], 20000))
			fail("frame %u does not come to an end", i - 2);
		fill(&surface[slot], 0xff000000 | i);
		commit(nothing, COUNT(nothing), pipe, done[slot]);
	}
	for (i = 0; i < 2; i++) {
		if (wait_for(done[i], 20000))
			fail("the last frames do not come to an end");
		/* A signal like this releases one wait. */
		if (wait_for(done[i], 0) != gcvSTATUS_TIMEOUT)
			fail("a signal is still set");
		expect(&surface[i], WIDTH - 1, HEIGHT - 1, 0xff000000 | (FRAMES - 2 + i));
		release(&surface[i]);
	}
	printf("%u frames, two under way\n", FRAMES);
	return 0;
}
