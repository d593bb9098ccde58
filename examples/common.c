// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common.h"

/* Room for the driver's own words, as the vendor's wants it. */
#define HEAD gcdCOMMAND_RESERVED_HEAD
#define TAIL gcdCOMMAND_RESERVED_TAIL

int device;
struct gcsHAL_QUERY_CHIP_IDENTITY chip;

uint32_t core;
/* Which core commands are for: enum gceHARDWARE_TYPE, and which of that kind. */
static uint32_t hardware, nth;
static struct memory commands;
static uint32_t used;

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

int try(struct gcsHAL_INTERFACE *iface, uint32_t command)
{
	struct gcsDRIVER_ARGS arguments = {
		.InputBuffer = (uintptr_t)iface,
		.InputBufferSize = sizeof(*iface),
		.OutputBuffer = (uintptr_t)iface,
		.OutputBufferSize = sizeof(*iface),
	};

	iface->command = command;
	iface->hardwareType = hardware;
	iface->coreIndex = nth;
	while (ioctl(device, IOCTL_GCHAL_INTERFACE, &arguments))
		if (errno != EINTR)
			fail("command %u: %s", command, strerror(errno));
	return iface->status;
}

void run(struct gcsHAL_INTERFACE *iface, uint32_t command)
{
	int status = try(iface, command);

	if (status < 0)
		fail("command %u: status %d (see dmesg)", command, status);
}

void start(uint32_t engines)
{
	struct gcsHAL_INTERFACE all = { 0 };
	int i;

	device = open("/dev/galcore", O_RDWR | O_CLOEXEC);
	if (device < 0)
		fail("/dev/galcore: %s", strerror(errno));
	/* Any core answers this. */
	for (hardware = 1; hardware < 6 && try(&all, gcvHAL_CHIP_INFO); hardware++)
		;
	for (i = 0; i < all.u.ChipInfo.count; i++) {
		struct gcsHAL_INTERFACE iface = { 0 };

		core = i;
		hardware = all.u.ChipInfo.types[i];
		/* Vector graphics has one core, and no number. */
		nth = hardware == gcvHARDWARE_VG ? 0 : all.u.ChipInfo.ids[i];
		run(&iface, gcvHAL_QUERY_CHIP_IDENTITY);
		chip = iface.u.QueryChipIdentity;
		if (chip.chipFeatures & engines)
			return;
	}
	printf("none of the %d cores has such an engine\n", i);
	exit(0);
}

struct memory lock(uint32_t node)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.LockVideoMemory.node = node;
	iface.u.LockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_LOCK | gcvLOCK_VIDEO_MEMORY_OP_MAP;
	run(&iface, gcvHAL_LOCK_VIDEO_MEMORY);
	return (struct memory){
		.node = node,
		.address = iface.u.LockVideoMemory.address,
		.words = (uint32_t *)(uintptr_t)iface.u.LockVideoMemory.memory,
	};
}

static struct memory allocate_type(uint32_t bytes, uint32_t type, uint32_t pool)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.AllocateLinearVideoMemory.bytes = bytes;
	iface.u.AllocateLinearVideoMemory.alignment = 64;
	iface.u.AllocateLinearVideoMemory.type = type;
	iface.u.AllocateLinearVideoMemory.pool = pool;
	run(&iface, gcvHAL_ALLOCATE_LINEAR_VIDEO_MEMORY);
	return lock(iface.u.AllocateLinearVideoMemory.node);
}

struct memory allocate(uint32_t bytes, uint32_t pool)
{
	return allocate_type(bytes, gcvVIDMEM_TYPE_BITMAP, pool);
}

void release(const struct memory *memory)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.UnlockVideoMemory.node = memory->node;
	iface.u.UnlockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_UNLOCK | gcvLOCK_VIDEO_MEMORY_OP_UNMAP;
	run(&iface, gcvHAL_UNLOCK_VIDEO_MEMORY);
	/* A node in pages is the GPU's until it has done what was committed: the second half waits for that. */
	if (iface.u.UnlockVideoMemory.asynchroneous) {
		memset(&iface, 0, sizeof(iface));
		iface.u.BottomHalfUnlockVideoMemory.node = memory->node;
		run(&iface, gcvHAL_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY);
	}
	memset(&iface, 0, sizeof(iface));
	iface.u.ReleaseVideoMemory.node = memory->node;
	run(&iface, gcvHAL_RELEASE_VIDEO_MEMORY);
}

int32_t create_signal(void)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.UserSignal.command = gcvUSER_SIGNAL_CREATE;
	run(&iface, gcvHAL_USER_SIGNAL);
	return iface.u.UserSignal.id;
}

int wait_for(int32_t signal, uint32_t milliseconds)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.UserSignal.command = gcvUSER_SIGNAL_WAIT;
	iface.u.UserSignal.id = signal;
	iface.u.UserSignal.wait = milliseconds;
	return try(&iface, gcvHAL_USER_SIGNAL);
}

void commit(const uint32_t *words, unsigned int count, uint32_t pipe, int32_t signal)
{
	struct gcsQUEUE record = { .command = gcvHAL_SIGNAL };
	struct gcsHAL_INTERFACE iface = { 0 };
	struct gcsHAL_COMMAND_LOCATION *location = &iface.u.Commit.subCommit.commandBuffer;
	const uint32_t bytes = HEAD + (count * 4 + 7) / 8 * 8 + TAIL;
	unsigned int i;

	if (!commands.node)
		commands = allocate_type(0x10000, gcvVIDMEM_TYPE_COMMAND, gcvPOOL_DEFAULT);
	/* The examples commit little, and wait before the buffer starts over. */
	if (used + bytes > 0x10000)
		used = 0;
	for (i = 0; i < count; i++)
		commands.words[(used + HEAD) / 4 + i] = words[i];
	if (count % 2)
		commands.words[(used + HEAD) / 4 + i] = 0;
	/* The vendor's driver finds the commands by node and GPU address, this one by the CPU address. */
	location->videoMemNode = commands.node;
	location->address = commands.address;
	location->logical = (uintptr_t)commands.words;
	location->startOffset = used;
	location->size = bytes;
	location->reservedHead = HEAD;
	location->reservedTail = TAIL;
	location->entryPipe = pipe;
	location->exitPipe = pipe;
	if (signal) {
		record.u.Signal.signal = signal;
		record.u.Signal.process = getpid();
		iface.u.Commit.subCommit.queue = (uintptr_t)&record;
	}
	iface.u.Commit.subCommit.coreId = nth;
	run(&iface, gcvHAL_COMMIT);
	used += bytes;
}

void draw(const uint32_t *words, unsigned int count, uint32_t pipe)
{
	static int32_t signal;

	if (!signal)
		signal = create_signal();
	commit(words, count, pipe, signal);
	if (wait_for(signal, 20000))
		fail("the GPU does not come to an end");
}

void fill(const struct memory *target, uint32_t colour)
{
	/* The 2D engine, if the core has one. */
	const uint32_t fill_2d[] = {
		/* destination: address, stride, rotation, CLEAR and A8R8G8B8 */
		LOAD(0x1228, 4), target->address, STRIDE, 0, 6, 0,
		/* raster operation, clipping window */
		LOAD(0x125c, 3), 0x0030cccc, 0, HEIGHT << 16 | WIDTH,
		/* clear: byte mask and colours */
		LOAD(0x1268, 4), 0xff, 0, colour, colour, 0,
		LOAD(0x12c0, 1), colour,
		/* no blending, no transparency */
		LOAD(0x127c, 1), 0,
		LOAD(0x12d4, 1), 0,
		/* DRAW_2D of one rectangle: left top, right bottom; what some cores want behind it */
		0x20000100, 0, 0, HEIGHT << 16 | WIDTH,
		LOAD(0, 1), 0, LOAD(0, 1), 0, LOAD(0, 1), 0,
		/* flush the 2D cache */
		LOAD(0x380c, 1), 8,
	};
	/* Else the resolve engine of the 3D core. With two pixel pipes each does half of the rows. */
	const uint32_t pipes = chip.pixelPipes > 1 ? 2 : 1;
	const uint32_t fill_3d[] = {
		/* formats; strides */
		LOAD(0x1604, 1), 6 << 8 | 6,
		LOAD(0x160c, 1), STRIDE,
		LOAD(0x1610, 1), target->address,
		LOAD(0x1614, 1), STRIDE,
		LOAD(0x16c0, 2), target->address, target->address, 0,
		LOAD(0x16e0, 2), target->address, target->address, 0,
		LOAD(0x1700, 2), 0, HEIGHT / 2 << 16, 0,
		/* window, no dithering */
		LOAD(0x1620, 1), HEIGHT / pipes << 16 | WIDTH,
		LOAD(0x1630, 2), ~0u, ~0u, 0,
		/* fill all bytes with this */
		LOAD(0x163c, 1), 1 << 16 | 0xffff,
		LOAD(0x1640, 4), colour, colour, colour, colour, 0,
		LOAD(0x16a0, 1), 0,
		LOAD(0x1600, 1), 0xbeebbeeb,
		/* flush the colour and depth caches */
		LOAD(0x380c, 1), 3,
	};

	if (chip.chipFeatures & HAS_2D)
		draw(fill_2d, COUNT(fill_2d), gcvPIPE_2D);
	else
		draw(fill_3d, COUNT(fill_3d), gcvPIPE_3D);
}

void picture(const struct memory *surface, const char *name)
{
	const char *folder = getenv("GALCORE_PICTURES");
	char path[256];
	uint32_t i;
	FILE *file;

	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/%s.ppm", folder, name);
	file = fopen(path, "wb");
	if (!file)
		fail("%s: %s", path, strerror(errno));
	fprintf(file, "P6\n%u %u\n255\n", WIDTH, HEIGHT);
	for (i = 0; i < WIDTH * HEIGHT; i++) {
		uint32_t pixel = surface->words[i];

		fputc(pixel >> 16 & 0xff, file);
		fputc(pixel >> 8 & 0xff, file);
		fputc(pixel & 0xff, file);
	}
	if (fclose(file))
		fail("%s: %s", path, strerror(errno));
}

void expect(const struct memory *surface, uint32_t x, uint32_t y, uint32_t wanted)
{
	uint32_t found = surface->words[y * WIDTH + x];

	if (found != wanted)
		fail("pixel %u, %u is %#010x, not %#010x", x, y, found, wanted);
}
