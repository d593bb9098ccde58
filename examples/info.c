// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What a client asks first: the interface's version, the cores and what they can do, and how much memory
 * there is.
 */
#include "common.h"

int main(void)
{
	struct gcsHAL_INTERFACE iface = { 0 };
	const struct gcsHAL_VERSION *version = &iface.u.Version;
	const struct gcsHAL_QUERY_VIDEO_MEMORY *memory = &iface.u.QueryVideoMemory;

	start(~0u);
	run(&iface, gcvHAL_VERSION);
	printf("interface %d.%d.%d.%u\n", version->major, version->minor, version->patch, version->build);
	printf("core: GC%x revision %#x%s%s\n", chip.chipModel, chip.chipRevision,
	       chip.chipFeatures & HAS_3D ? ", 3D" : "", chip.chipFeatures & HAS_2D ? ", 2D" : "");
	printf("features %#010x, minor %#010x %#010x %#010x %#010x\n", chip.chipFeatures, chip.chipMinorFeatures,
	       chip.chipMinorFeatures1, chip.chipMinorFeatures2, chip.chipMinorFeatures3);
	if (chip.chipFeatures & HAS_3D)
		printf("%u pixel pipes, %u vertex streams, %u instructions, %u constants, %u varyings\n",
		       chip.pixelPipes, chip.streamCount, chip.instructionCount, chip.numConstants,
		       chip.varyingsCount);
	memset(&iface, 0, sizeof(iface));
	run(&iface, gcvHAL_QUERY_VIDEO_MEMORY);
	printf("pool SYSTEM: %llu KiB\n", (unsigned long long)memory->contiguousSize / 1024);
	return 0;
}
