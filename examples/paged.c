// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Page-backed memory (pool VIRTUAL): as much as the machine has, in pages that the GPU reaches through its
 * MMU. Its second half of UNLOCK belongs into the queue of the last commit that uses it: the GPU may be at
 * work there still when the process has no use for it any more.
 */
#include <unistd.h>

#include "common.h"

static void unlock_behind(const struct memory *memory, int32_t signal)
{
	struct gcsHAL_INTERFACE iface = { 0 };
	struct gcsQUEUE set = { .command = gcvHAL_SIGNAL };
	struct gcsQUEUE unlock = { .command = gcvHAL_UNLOCK_VIDEO_MEMORY, .next = (uintptr_t)&set };

	iface.u.UnlockVideoMemory.node = memory->node;
	iface.u.UnlockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_UNLOCK | gcvLOCK_VIDEO_MEMORY_OP_UNMAP;
	run(&iface, gcvHAL_UNLOCK_VIDEO_MEMORY);
	if (!iface.u.UnlockVideoMemory.asynchroneous)
		fail("this memory does not lie behind the MMU");
	unlock.u.UnlockVideoMemory.node = memory->node;
	unlock.u.UnlockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_UNLOCK;
	set.u.Signal.signal = signal;
	set.u.Signal.process = getpid();
	memset(&iface, 0, sizeof(iface));
	iface.u.Event.queue = (uintptr_t)&unlock;
	run(&iface, gcvHAL_EVENT_COMMIT);
}

int main(void)
{
	struct memory surface[8];
	struct gcsHAL_INTERFACE iface = { 0 };
	int32_t done;
	unsigned int i;

	start(HAS_2D | HAS_3D);
	done = create_signal();
	for (i = 0; i < 8; i++) {
		surface[i] = allocate(BYTES, gcvPOOL_VIRTUAL);
		fill(&surface[i], 0xff00ff00 | i);
	}
	for (i = 0; i < 8; i++) {
		expect(&surface[i], 0, 0, 0xff00ff00 | i);
		expect(&surface[i], WIDTH - 1, HEIGHT - 1, 0xff00ff00 | i);
		unlock_behind(&surface[i], done);
		if (wait_for(done, 20000))
			fail("the unlock does not come to an end");
		memset(&iface, 0, sizeof(iface));
		iface.u.ReleaseVideoMemory.node = surface[i].node;
		run(&iface, gcvHAL_RELEASE_VIDEO_MEMORY);
	}
	printf("8 surfaces of pages, the first at GPU address %#010x\n", surface[0].address);
	return 0;
}
