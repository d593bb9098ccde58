// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client in C, of the newest interface, with nothing but <linux/galcore.h>:
 * what its author reads there must be enough. It is built for armhf and for
 * arm64. It draws with the 2D engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/galcore.h>

#define BYTES 16384u
#define HEAD 32u
#define TAIL 8u

static int device;
static uint32_t hardware = gcvHARDWARE_3D2D;
static unsigned int number;
static unsigned int failed;

/* Where a test was left, and why. */
static char reason[200];

static int because(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	return -1;
}

static void report(const char *name, int result)
{
	if (result) {
		printf("not ok %u - %s\n# %s\n", ++number, name, reason);
		failed++;
	} else {
		printf("ok %u - %s\n", ++number, name);
	}
}

static uint64_t address_of(const volatile void *memory)
{
	return (uintptr_t)memory;
}

/* Sends a command: its status, or a positive errno above 1000. */
static int run(struct gcsHAL_INTERFACE *iface, uint32_t command)
{
	struct gcsDRIVER_ARGS arguments = {
		.InputBuffer = address_of(iface),
		.InputBufferSize = sizeof(*iface),
		.OutputBuffer = address_of(iface),
		.OutputBufferSize = sizeof(*iface),
	};

	iface->command = command;
	iface->hardwareType = hardware;
	if (ioctl(device, IOCTL_GCHAL_INTERFACE, &arguments))
		return 1000 + errno;
	return iface->status;
}

#define EXPECT(what, wanted)                                                   \
	do {                                                                   \
		int found_ = (what);                                           \
		if (found_ != (wanted))                                        \
			return because("%s: %d, not %d", #what, found_,        \
				       (int)(wanted));                         \
	} while (0)

#define HOLDS(condition)                                                       \
	do {                                                                   \
		if (!(condition))                                              \
			return because("not so: %s", #condition);              \
	} while (0)

struct memory {
	uint32_t node;
	uint32_t address;
	volatile uint32_t *words;
};

static int release(struct memory *memory)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.UnlockVideoMemory.node = memory->node;
	iface.u.UnlockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_UNLOCK |
				       gcvLOCK_VIDEO_MEMORY_OP_UNMAP;
	EXPECT(run(&iface, gcvHAL_UNLOCK_VIDEO_MEMORY), gcvSTATUS_OK);
	if (iface.u.UnlockVideoMemory.asynchroneous) {
		memset(&iface, 0, sizeof(iface));
		iface.u.BottomHalfUnlockVideoMemory.node = memory->node;
		EXPECT(run(&iface, gcvHAL_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY),
		       gcvSTATUS_OK);
	}
	memset(&iface, 0, sizeof(iface));
	iface.u.ReleaseVideoMemory.node = memory->node;
	EXPECT(run(&iface, gcvHAL_RELEASE_VIDEO_MEMORY), gcvSTATUS_OK);
	return 0;
}

static int lock(struct memory *memory)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.LockVideoMemory.node = memory->node;
	iface.u.LockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_LOCK |
				     gcvLOCK_VIDEO_MEMORY_OP_MAP;
	EXPECT(run(&iface, gcvHAL_LOCK_VIDEO_MEMORY), gcvSTATUS_OK);
	memory->address = iface.u.LockVideoMemory.address;
	memory->words = (uint32_t *)(uintptr_t)iface.u.LockVideoMemory.memory;
	HOLDS(memory->address && memory->words);
	return 0;
}

static int allocate(struct memory *memory, uint32_t pool)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.AllocateLinearVideoMemory.bytes = BYTES;
	iface.u.AllocateLinearVideoMemory.alignment = 64;
	iface.u.AllocateLinearVideoMemory.type = gcvVIDMEM_TYPE_BITMAP;
	iface.u.AllocateLinearVideoMemory.pool = pool;
	EXPECT(run(&iface, gcvHAL_ALLOCATE_LINEAR_VIDEO_MEMORY), gcvSTATUS_OK);
	memory->node = iface.u.AllocateLinearVideoMemory.node;
	return lock(memory);
}

static int start(void)
{
	struct gcsHAL_INTERFACE iface = { 0 };
	unsigned int core;
	int i;

	EXPECT(run(&iface, gcvHAL_VERSION), gcvSTATUS_OK);
	HOLDS(iface.u.Version.major == gcvVERSION_MAJOR);
	HOLDS(iface.u.Version.minor == gcvVERSION_MINOR);
	HOLDS(iface.u.Version.patch == gcvVERSION_PATCH);
	HOLDS(iface.u.Version.build == gcvVERSION_BUILD);
	memset(&iface, 0, sizeof(iface));
	EXPECT(run(&iface, gcvHAL_CHIP_INFO), gcvSTATUS_OK);
	HOLDS(iface.u.ChipInfo.count > 0);
	/* What it draws with: a core of its own, or part of the only one. */
	hardware = iface.u.ChipInfo.types[0];
	for (core = 1; core < (unsigned int)iface.u.ChipInfo.count; core++)
		if (iface.u.ChipInfo.types[core] == gcvHARDWARE_2D)
			hardware = gcvHARDWARE_2D;
	HOLDS(hardware == gcvHARDWARE_3D2D || hardware == gcvHARDWARE_2D);
	memset(&iface, 0, sizeof(iface));
	EXPECT(run(&iface, gcvHAL_QUERY_CHIP_IDENTITY), gcvSTATUS_OK);
	printf("# GC%x revision %#x\n", iface.u.QueryChipIdentity.chipModel,
	       iface.u.QueryChipIdentity.chipRevision);
	HOLDS(iface.u.QueryChipIdentity.chipModel);
	memset(&iface, 0, sizeof(iface));
	EXPECT(run(&iface, gcvHAL_GET_BASE_ADDRESS), gcvSTATUS_OK);
	memset(&iface, 0, sizeof(iface));
	EXPECT(run(&iface, gcvHAL_QUERY_VIDEO_MEMORY), gcvSTATUS_OK);
	HOLDS(iface.u.QueryVideoMemory.contiguousSize);
	for (i = gcvHAL_DESTROY_MMU + 1; i < gcvHAL_DESTROY_MMU + 20; i++)
		EXPECT(run(&iface, i), gcvSTATUS_INVALID_ARGUMENT);
	return 0;
}

static int wrong_envelope(void)
{
	struct gcsHAL_INTERFACE iface = { 0 };
	struct gcsDRIVER_ARGS arguments = {
		.InputBuffer = address_of(&iface),
		.InputBufferSize = sizeof(iface),
		.OutputBuffer = address_of(&iface),
		.OutputBufferSize = sizeof(iface),
	};

	EXPECT(ioctl(device, IOCTL_GCHAL_KERNEL_INTERFACE, &arguments), -1);
	EXPECT(errno, ENOTTY);
	EXPECT(ioctl(device, IOCTL_GCHAL_INTERFACE, 16), -1);
	EXPECT(errno, ENOTTY);
	arguments.InputBuffer = 16;
	EXPECT(ioctl(device, IOCTL_GCHAL_INTERFACE, &arguments), -1);
	EXPECT(errno, ENOTTY);
	arguments.InputBuffer = address_of(&iface);
	arguments.OutputBufferSize = sizeof(iface) + 1;
	EXPECT(ioctl(device, IOCTL_GCHAL_INTERFACE, &arguments), -1);
	EXPECT(errno, ENOTTY);
	return 0;
}

static int pools(void)
{
	static const uint32_t all[] = { gcvPOOL_DEFAULT, gcvPOOL_SYSTEM,
					gcvPOOL_VIRTUAL };
	struct memory memory[3];
	unsigned int i, j;

	for (i = 0; i < 3; i++)
		if (allocate(&memory[i], all[i]))
			return -1;
	for (i = 0; i < 3; i++)
		for (j = 0; j < BYTES / 4; j++)
			memory[i].words[j] = i << 16 | j;
	for (i = 0; i < 3; i++)
		for (j = 0; j < BYTES / 4; j++)
			HOLDS(memory[i].words[j] == (i << 16 | j));
	for (i = 0; i < 3; i++)
		if (release(&memory[i]))
			return -1;
	return 0;
}

/* LOAD_STATE of count states from byte address state on. */
#define LOAD(state, count) (0x08000000u | (uint32_t)(count) << 16 | (state) / 4)

/* A fill of 64 x 64 pixels in one colour, and the flush behind it. */
static unsigned int fill(volatile uint32_t *to, uint32_t target, uint32_t colour)
{
	const uint32_t words[] = {
		/* destination: address, stride, rotation, A8R8G8B8 */
		LOAD(0x1228, 4), target, 256, 0, 6, 0,
		/* raster operation, clipping window */
		LOAD(0x125c, 3), 0x0030cccc, 0, 64 << 16 | 64,
		/* clear: byte mask and values, old and new */
		LOAD(0x1268, 4), 0xff, 0, colour, colour, 0,
		LOAD(0x12c0, 1), colour,
		/* no blending, no transparency */
		LOAD(0x127c, 1), 0,
		LOAD(0x12d4, 1), 0,
		/* DRAW_2D of one rectangle, and what belongs behind it */
		0x20000100, 0xdeaddeed, 0, 64 << 16 | 64,
		LOAD(0, 1), 0, LOAD(0, 1), 0, LOAD(0, 1), 0,
		/* flush the 2D cache */
		LOAD(0x380c, 1), 8,
	};
	unsigned int i;

	for (i = 0; i < sizeof(words) / 4; i++)
		to[i] = words[i];
	return sizeof(words);
}

/* Commits what is in commands, with a signal behind it, and waits for that. */
static int commit(struct memory *commands, unsigned int bytes)
{
	struct gcsQUEUE record = { .command = gcvHAL_SIGNAL };
	struct gcsHAL_INTERFACE iface = { 0 };
	struct gcsHAL_COMMAND_LOCATION *location;
	int32_t signal;

	iface.u.UserSignal.command = gcvUSER_SIGNAL_CREATE;
	EXPECT(run(&iface, gcvHAL_USER_SIGNAL), gcvSTATUS_OK);
	signal = iface.u.UserSignal.id;
	record.u.Signal.signal = signal;
	record.u.Signal.process = getpid();
	record.u.Signal.fromWhere = gcvKERNEL_PIXEL;

	memset(&iface, 0, sizeof(iface));
	location = &iface.u.Commit.subCommit.commandBuffer;
	location->logical = address_of(commands->words);
	location->size = HEAD + bytes + TAIL;
	location->reservedHead = HEAD;
	location->reservedTail = TAIL;
	location->entryPipe = gcvPIPE_2D;
	location->exitPipe = gcvPIPE_2D;
	iface.u.Commit.subCommit.queue = address_of(&record);
	EXPECT(run(&iface, gcvHAL_COMMIT), gcvSTATUS_OK);

	memset(&iface, 0, sizeof(iface));
	iface.u.UserSignal.command = gcvUSER_SIGNAL_WAIT;
	iface.u.UserSignal.id = signal;
	iface.u.UserSignal.wait = 20000;
	EXPECT(run(&iface, gcvHAL_USER_SIGNAL), gcvSTATUS_OK);
	iface.u.UserSignal.command = gcvUSER_SIGNAL_DESTROY;
	EXPECT(run(&iface, gcvHAL_USER_SIGNAL), gcvSTATUS_OK);
	return 0;
}

static int has_colour(volatile uint32_t *words, uint32_t colour)
{
	unsigned int i;

	for (i = 0; i < BYTES / 4; i++)
		if (words[i] != colour)
			return because("word %u is %#x, not %#x", i, words[i], colour);
	return 0;
}

/* Draws one colour over a target, and looks. */
static int draws(uint32_t address, volatile uint32_t *words, uint32_t colour)
{
	struct memory commands;
	unsigned int bytes;

	if (allocate(&commands, gcvPOOL_DEFAULT))
		return -1;
	bytes = fill(commands.words + HEAD / 4, address, colour);
	if (commit(&commands, bytes) || release(&commands))
		return -1;
	return has_colour(words, colour);
}

static int draw(void)
{
	struct memory target;

	if (allocate(&target, gcvPOOL_DEFAULT) ||
	    draws(target.address, target.words, 0xc11e0001))
		return -1;
	return release(&target);
}

static int own_memory(void)
{
	struct gcsHAL_INTERFACE iface = { 0 };
	struct memory memory;
	uint32_t *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	HOLDS(own != MAP_FAILED);
	iface.u.WrapUserMemory.desc.flag = gcvALLOC_FLAG_USERMEMORY;
	iface.u.WrapUserMemory.desc.logical = address_of(own);
	iface.u.WrapUserMemory.desc.physical = ~0ULL;
	iface.u.WrapUserMemory.desc.size = BYTES;
	EXPECT(run(&iface, gcvHAL_WRAP_USER_MEMORY), gcvSTATUS_OK);
	memory.node = iface.u.WrapUserMemory.node;
	HOLDS(iface.u.WrapUserMemory.bytes == BYTES);
	if (lock(&memory))
		return -1;
	HOLDS(memory.words == own);
	if (draws(memory.address, own, 0xc11e0002) || release(&memory))
		return -1;
	return munmap(own, BYTES);
}

static int dma_buf(void)
{
	struct gcsHAL_INTERFACE iface = { 0 };
	struct memory memory;
	uint32_t *view;
	int fd;

	if (allocate(&memory, gcvPOOL_VIRTUAL))
		return -1;
	iface.u.ExportVideoMemory.node = memory.node;
	iface.u.ExportVideoMemory.flags = O_RDWR | O_CLOEXEC;
	EXPECT(run(&iface, gcvHAL_EXPORT_VIDEO_MEMORY), gcvSTATUS_OK);
	fd = iface.u.ExportVideoMemory.fd;
	view = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	HOLDS(view != MAP_FAILED);
	if (draws(memory.address, view, 0xc11e0003) || release(&memory))
		return -1;
	if (has_colour(view, 0xc11e0003))
		return -1;
	HOLDS(!munmap(view, BYTES) && !close(fd));
	return 0;
}

int main(void)
{
	device = open("/dev/galcore", O_RDWR);
	if (device < 0) {
		perror("/dev/galcore");
		return 1;
	}
	printf("KTAP version 1\n1..6\n");
	report("start-up", start());
	report("a wrong envelope", wrong_envelope());
	report("memory of every pool", pools());
	report("a fill by the 2D engine", draw());
	report("the client's own memory", own_memory());
	report("a node as a dma-buf", dma_buf());
	return failed ? 1 : 0;
}
