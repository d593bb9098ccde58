// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client of the DRM node "vivante", beside a client of /dev/galcore in the same process. The
 * requests are written down here once more: they share nothing with the driver.
 *
 * After each test all video memory that it took must be free again.
 *
 * usage: vivante [--unbind [ROUNDS] | --child ROLE [NUMBER]]
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <drm/drm.h>
#include <linux/udmabuf.h>

#include "../../../examples/common.h"

#define PAGE 4096u
#define MIB (1u << 20)

struct vivante_create {
	uint64_t size;
	uint32_t flags;
	uint32_t handle;
};

#define CONTIGUOUS 1u
#define CACHED 2u
#define SECURE 4u
#define CMA_LIMIT 8u

struct vivante_lock {
	uint32_t handle;
	uint32_t cacheable;
	uint64_t logical;
};

struct vivante_unlock {
	uint32_t handle;
};

enum { CLEAN = 1, INVALIDATE, FLUSH, BARRIER };

struct vivante_cache {
	uint32_t handle;
	uint32_t op;
	uint64_t logical;
	uint64_t bytes;
};

enum { QUERY_POOL, QUERY_SIZE };

struct vivante_query {
	uint32_t handle;
	uint32_t param;
	uint64_t value;
};

struct vivante_timestamp {
	uint32_t handle;
	uint32_t inc;
	uint64_t timestamp;
};

/* Until 6.4.3.p1.0 ts_cache_mode was padding. */
struct vivante_tiling {
	uint32_t handle;
	uint32_t tiling_mode;
	uint32_t ts_mode;
	uint32_t ts_cache_mode;
	uint64_t clear_value;
};

struct vivante_aux {
	uint32_t handle;
	uint32_t ts_handle;
};

struct vivante_node {
	uint32_t handle;
	uint32_t node;
	uint32_t ts_node;
};

#define VIVANTE(number, name) DRM_IOWR(DRM_COMMAND_BASE + (number), struct vivante_##name)
#define GEM_CREATE VIVANTE(0, create)
#define GEM_LOCK VIVANTE(1, lock)
#define GEM_UNLOCK VIVANTE(2, unlock)
#define GEM_CACHE VIVANTE(3, cache)
#define GEM_QUERY VIVANTE(4, query)
#define GEM_TIMESTAMP VIVANTE(5, timestamp)
#define SET_TILING VIVANTE(6, tiling)
#define GET_TILING VIVANTE(7, tiling)
#define ATTACH_AUX VIVANTE(8, aux)
#define REF_NODE VIVANTE(9, node)

_Static_assert(sizeof(struct vivante_create) == 16, "create");
_Static_assert(sizeof(struct vivante_lock) == 16, "lock");
_Static_assert(sizeof(struct vivante_unlock) == 4, "unlock");
_Static_assert(sizeof(struct vivante_cache) == 24, "cache");
_Static_assert(sizeof(struct vivante_query) == 16, "query");
_Static_assert(sizeof(struct vivante_timestamp) == 16, "timestamp");
_Static_assert(sizeof(struct vivante_tiling) == 24, "tiling");
_Static_assert(sizeof(struct vivante_aux) == 8, "aux");
_Static_assert(sizeof(struct vivante_node) == 12, "node");

/* Where a test was left, and why. */
static _Thread_local char reason[300];
static unsigned int number, failed;
/* The node of most tests. */
static int node;
static char node_path[32];

__attribute__((format(printf, 1, 2))) static int because(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	return -1;
}

#define EXPECT(what, wanted)                                                                       \
	do {                                                                                       \
		const long long found_ = (what), wanted_ = (wanted);                               \
		if (found_ != wanted_)                                                             \
			return because("line %d: %s is %#llx, not %#llx", __LINE__, #what, found_, \
				       wanted_);                                                   \
	} while (0)

#define HOLDS(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return because("line %d: not so: %s", __LINE__, #condition);               \
	} while (0)

/* Passes a reason on. */
#define TRY(what)                  \
	do {                       \
		if (what)          \
			return -1; \
	} while (0)

/* ---- requests: 0, or the errno ---- */

static int call(int file, unsigned long request, void *argument)
{
	int result;

	do
		result = ioctl(file, request, argument);
	while (result && errno == EINTR);
	return result ? errno : 0;
}

static int create(int file, uint64_t size, uint32_t flags, uint32_t *handle)
{
	struct vivante_create it = { .size = size, .flags = flags };
	int error = call(file, GEM_CREATE, &it);

	*handle = it.handle;
	return error;
}

static int lock_object(int file, uint32_t handle, uint8_t **at)
{
	struct vivante_lock it = { .handle = handle };
	int error = call(file, GEM_LOCK, &it);

	*at = (uint8_t *)(uintptr_t)it.logical;
	return error;
}

static int unlock_object(int file, uint32_t handle)
{
	struct vivante_unlock it = { handle };

	return call(file, GEM_UNLOCK, &it);
}

static int cache(int file, uint32_t handle, uint32_t op, const void *at, uint64_t bytes)
{
	struct vivante_cache it = { handle, op, (uintptr_t)at, bytes };

	return call(file, GEM_CACHE, &it);
}

static int query(int file, uint32_t handle, uint32_t param, uint64_t *value)
{
	struct vivante_query it = { .handle = handle, .param = param };
	int error = call(file, GEM_QUERY, &it);

	*value = it.value;
	return error;
}

static int timestamp(int file, uint32_t handle, uint32_t inc, uint64_t *now)
{
	struct vivante_timestamp it = { .handle = handle, .inc = inc };
	int error = call(file, GEM_TIMESTAMP, &it);

	*now = it.timestamp;
	return error;
}

static int set_tiling(int file, uint32_t handle, uint32_t tiling, uint32_t ts, uint32_t ts_cache, uint64_t clear)
{
	struct vivante_tiling it = { handle, tiling, ts, ts_cache, clear };

	return call(file, SET_TILING, &it);
}

static int get_tiling(int file, uint32_t handle, struct vivante_tiling *it)
{
	memset(it, 0xee, sizeof(*it));
	it->handle = handle;
	return call(file, GET_TILING, it);
}

static int attach(int file, uint32_t handle, uint32_t ts_handle)
{
	struct vivante_aux it = { handle, ts_handle };

	return call(file, ATTACH_AUX, &it);
}

static int ref_node(int file, uint32_t handle, uint32_t *of_object, uint32_t *of_ts)
{
	struct vivante_node it = { handle, 0xeeeeeeee, 0xeeeeeeee };
	int error = call(file, REF_NODE, &it);

	*of_object = it.node;
	*of_ts = it.ts_node;
	return error;
}

static int close_object(int file, uint32_t handle)
{
	struct drm_gem_close it = { .handle = handle };

	return call(file, DRM_IOCTL_GEM_CLOSE, &it);
}

static int export(int file, uint32_t handle, int *buffer)
{
	struct drm_prime_handle it = { .handle = handle, .flags = DRM_CLOEXEC | DRM_RDWR, .fd = -1 };
	int error = call(file, DRM_IOCTL_PRIME_HANDLE_TO_FD, &it);

	*buffer = it.fd;
	return error;
}

static int import(int file, int buffer, uint32_t *handle)
{
	struct drm_prime_handle it = { .fd = buffer };
	int error = call(file, DRM_IOCTL_PRIME_FD_TO_HANDLE, &it);

	*handle = it.handle;
	return error;
}

static int version(int file, char *name, size_t room, struct drm_version *it)
{
	int error;

	memset(name, 0, room);
	memset(it, 0, sizeof(*it));
	it->name = name;
	it->name_len = room - 1;
	error = call(file, DRM_IOCTL_VERSION, it);
	return error;
}

/* Opens the node, whatever its number is; -1: there is none. */
static int open_node(void)
{
	struct drm_version it;
	char name[32];
	int i, file;

	for (i = 128; i < 192; i++) {
		snprintf(node_path, sizeof(node_path), "/dev/dri/renderD%d", i);
		file = open(node_path, O_RDWR | O_CLOEXEC);
		if (file < 0)
			continue;
		if (!version(file, name, sizeof(name), &it) && strcmp(name, "vivante") == 0)
			return file;
		close(file);
	}
	return -1;
}

/* ---- memory ---- */

static int is_filled(const volatile uint8_t *at, size_t bytes, uint8_t byte)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		if (at[i] != byte)
			return because("byte %zu of %zu is %#x, not %#x", i, bytes, at[i], byte);
	return 0;
}

static int has_colour(const volatile void *at, uint32_t colour)
{
	const volatile uint32_t *words = at;
	unsigned int i;

	for (i = 0; i < BYTES / 4; i++)
		if (words[i] != colour)
			return because("pixel %u is %#x, not %#x", i, words[i], colour);
	return 0;
}

/* An object that is locked. */
struct object {
	int file;
	uint32_t handle;
	uint64_t bytes;
	uint8_t *at;
};

static int make(int file, uint64_t bytes, uint32_t flags, struct object *it)
{
	it->file = file;
	it->bytes = bytes;
	EXPECT(create(file, bytes, flags, &it->handle), 0);
	HOLDS(it->handle);
	EXPECT(lock_object(file, it->handle, &it->at), 0);
	HOLDS(it->at);
	return 0;
}

static int drop(struct object *it)
{
	EXPECT(unlock_object(it->file, it->handle), 0);
	EXPECT(close_object(it->file, it->handle), 0);
	return 0;
}

static int release_status(uint32_t number_of)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.ReleaseVideoMemory.node = number_of;
	return try(&iface, gcvHAL_RELEASE_VIDEO_MEMORY);
}

/* Draws a colour over the object, by /dev/galcore. */
static int draw_into(int file, uint32_t handle, uint32_t colour)
{
	struct memory memory;
	uint32_t of_object, of_ts;

	EXPECT(ref_node(file, handle, &of_object, &of_ts), 0);
	HOLDS(of_object);
	memory = lock(of_object);
	HOLDS(memory.address);
	fill(&memory, colour);
	release(&memory);
	if (of_ts)
		EXPECT(release_status(of_ts), 0);
	return 0;
}

/* ---- what is in use ---- */

struct figures {
	unsigned long long pool, scattered, entries, pending;
};

/* The numbers of a line. */
static unsigned int numbers_of(const char *line, unsigned long long *found, unsigned int most)
{
	unsigned int count = 0;
	char *end;

	while (*line && count < most) {
		if (*line < '0' || *line > '9') {
			line++;
			continue;
		}
		found[count++] = strtoull(line, &end, 10);
		line = end;
	}
	return count;
}

static int figures(struct figures *it)
{
	unsigned long long all[8];
	unsigned int i, count;
	char line[512];
	FILE *file = fopen("/proc/driver/gc", "r");

	memset(it, 0xff, sizeof(*it));
	HOLDS(file);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Used video mem:", 15) == 0 && numbers_of(line, all, 3) == 3) {
			it->pool = all[0];
			it->scattered = all[2];
		}
		if (strncmp(line, "MMU Entries usage", 17) == 0 && numbers_of(line, all, 2) == 2)
			it->entries = all[1];
	}
	fclose(file);
	file = fopen("/sys/kernel/debug/galcore/pending", "r");
	it->pending = 0;
	if (file) {
		if (fgets(line, sizeof(line), file))
			for (count = numbers_of(line, all, 8), i = 0; i < count; i++)
				it->pending += all[i];
		fclose(file);
	}
	return 0;
}

static void sleep_ms(unsigned int milliseconds)
{
	const struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000L };

	nanosleep(&time, NULL);
}

static struct figures at_first;

/* What clients have let go of comes back a little later. */
static int memory_is_back(void)
{
	struct figures now;
	unsigned int i;

	for (i = 0; i < 2000; i++) {
		TRY(figures(&now));
		if (!now.pending && now.pool == at_first.pool && now.scattered == at_first.scattered &&
		    now.entries == at_first.entries)
			return 0;
		sleep_ms(5);
	}
	return because("in use: %llu KiB of the pool, %llu KiB in pages, %llu MMU entries, %llu pending, and before "
		       "%llu, %llu, %llu",
		       now.pool, now.scattered, now.entries, now.pending, at_first.pool, at_first.scattered,
		       at_first.entries);
}

/* What is in use before a test: what was let go of before it is back by then. */
static int take_figures(void)
{
	struct figures now;
	unsigned int i, same = 0;

	TRY(figures(&at_first));
	for (i = 0; i < 2000; i++) {
		sleep_ms(5);
		TRY(figures(&now));
		same = now.pending || memcmp(&now, &at_first, sizeof(now)) ? 0 : same + 1;
		at_first = now;
		if (same == 10)
			return 0;
	}
	return because("memory in use does not come to rest");
}

static void report(const char *name, int (*test)(void))
{
	int result;

	reason[0] = 0;
	result = test();
	/* What a test has left where it failed is not lost, and would only hide the reason. */
	if (!result)
		result = memory_is_back();
	if (result) {
		printf("# %s\nnot ok %u - %s\n", reason, ++number, name);
		failed++;
		/* The next one has a node of its own. */
		if (node >= 0) {
			close(node);
			node = open_node();
		}
		take_figures();
	} else {
		printf("ok %u - %s\n", ++number, name);
	}
	fflush(stdout);
}

/* ---- other processes ---- */

struct child {
	pid_t id;
	/* Bytes go over these: the child's standard input, and its descriptor 3. */
	int to, from;
};

/* Where a child finds what it is given. */
enum { FROM_PARENT, TO_PARENT = 3, GIVEN };

/* This program once more: of what is open here it has one descriptor, unless that is -1. */
static int start_child(struct child *child, const char *role, const char *argument, int given)
{
	int to[2], from[2];

	HOLDS(!pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC));
	fflush(stdout);
	child->id = fork();
	HOLDS(child->id >= 0);
	if (child->id == 0) {
		/* None of these is where another is to go. */
		const int mine[] = { fcntl(to[0], F_DUPFD_CLOEXEC, 10), fcntl(from[1], F_DUPFD_CLOEXEC, 10),
				     fcntl(given, F_DUPFD_CLOEXEC, 10) };

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(mine[0], FROM_PARENT);
		dup2(mine[1], TO_PARENT);
		dup2(mine[2], GIVEN);
		execl("/proc/self/exe", "vivante", "--child", role, argument, NULL);
		_exit(99);
	}
	close(to[0]);
	close(from[1]);
	child->to = to[1];
	child->from = from[0];
	return 0;
}

static int send_to(int line, char byte)
{
	EXPECT(write(line, &byte, 1), 1);
	return 0;
}

/* Waits for that byte. */
static int receive(int line, char wanted)
{
	char byte = 0;

	EXPECT(read(line, &byte, 1), 1);
	EXPECT(byte, wanted);
	return 0;
}

static void close_lines(struct child *child)
{
	close(child->to);
	close(child->from);
}

static int end_child(struct child *child)
{
	int status;

	EXPECT(waitpid(child->id, &status, 0), child->id);
	close_lines(child);
	if (status)
		return because("the other process ends with status %#x", status);
	return 0;
}

/* ---- the tests ---- */

static int names(void)
{
	char name[32], desc[32] = { 0 };
	struct drm_version it;

	EXPECT(version(node, name, sizeof(name), &it), 0);
	it.desc = desc;
	it.desc_len = sizeof(desc) - 1;
	EXPECT(call(node, DRM_IOCTL_VERSION, &it), 0);
	printf("# %s: %s, %s, %d.%d.%d\n", node_path, name, desc, it.version_major, it.version_minor,
	       it.version_patchlevel);
	HOLDS(strcmp(name, "vivante") == 0);
	HOLDS(strcmp(desc, "vivante DRM") == 0);
	EXPECT(it.version_major, 1);
	EXPECT(it.version_minor, 0);
	return 0;
}

/* Creates, asks, writes, reads. */
static int of_size(uint64_t size)
{
	struct gcsHAL_INTERFACE iface = { 0 };
	const uint64_t rounded = (size + PAGE - 1) / PAGE * PAGE;
	uint64_t value, i;
	struct object it;
	struct memory memory;
	uint32_t of_object, of_ts;
	uint8_t *again;

	TRY(make(node, size, 0, &it));
	EXPECT(query(node, it.handle, QUERY_SIZE, &value), 0);
	EXPECT(value, rounded);
	for (i = 0; i < rounded; i++)
		it.at[i] = i ^ i >> 8;
	EXPECT(lock_object(node, it.handle, &again), 0);
	HOLDS(again == it.at);
	for (i = 0; i < rounded; i++)
		if (again[i] != (uint8_t)(i ^ i >> 8))
			return because("byte %llu is %#x", (unsigned long long)i, again[i]);
	EXPECT(unlock_object(node, it.handle), 0);
	/* One lock is left. */
	for (i = 0; i < rounded; i++)
		if (it.at[i] != (uint8_t)(i ^ i >> 8))
			return because("byte %llu is %#x", (unsigned long long)i, it.at[i]);

	/* /dev/galcore tells the same of it. */
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	EXPECT(of_ts, 0);
	memory = lock(of_object);
	EXPECT(memory.address % 256, 0);
	iface.u.UnlockVideoMemory.node = of_object;
	iface.u.UnlockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_UNLOCK | gcvLOCK_VIDEO_MEMORY_OP_UNMAP;
	run(&iface, gcvHAL_UNLOCK_VIDEO_MEMORY);
	EXPECT(iface.u.UnlockVideoMemory.bytes, rounded);
	EXPECT(query(node, it.handle, QUERY_POOL, &value), 0);
	EXPECT(value, iface.u.UnlockVideoMemory.pool);
	HOLDS(value == gcvPOOL_SYSTEM || value == gcvPOOL_VIRTUAL);
	if (iface.u.UnlockVideoMemory.asynchroneous) {
		memset(&iface, 0, sizeof(iface));
		iface.u.BottomHalfUnlockVideoMemory.node = of_object;
		run(&iface, gcvHAL_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY);
	}
	EXPECT(release_status(of_object), 0);

	EXPECT(unlock_object(node, it.handle), 0);
	/* The lock goes when the GPU has got so far. */
	for (i = 0; unlock_object(node, it.handle) != ENOTTY; i++) {
		HOLDS(i < 200);
		sleep_ms(5);
	}
	EXPECT(close_object(node, it.handle), 0);
	EXPECT(query(node, it.handle, QUERY_SIZE, &value), ENOTTY);
	return 0;
}

static int sizes(void)
{
	TRY(of_size(1));
	TRY(of_size(PAGE));
	TRY(of_size(PAGE + 1));
	return of_size(MIB);
}

/* Memory in one piece, cached, low. */
static int flags(void)
{
	static const uint32_t all[] = { CONTIGUOUS, CACHED, CMA_LIMIT, CONTIGUOUS | CACHED | CMA_LIMIT };
	struct gcsHAL_INTERFACE iface;
	struct memory memory;
	struct object it;
	struct vivante_lock cached;
	uint32_t of_object, of_ts, op;
	uint64_t pool;
	unsigned int i;

	for (i = 0; i < COUNT(all); i++) {
		TRY(make(node, BYTES, all[i], &it));
		memset(it.at, 0x5a, BYTES);
		/* As of /dev/galcore: there is no such view of the SYSTEM pool, and of pages there is one view. */
		cached = (struct vivante_lock){ .handle = it.handle, .cacheable = 1 };
		EXPECT(query(node, it.handle, QUERY_POOL, &pool), 0);
		EXPECT(call(node, GEM_LOCK, &cached), pool == gcvPOOL_SYSTEM ? ENOTTY : 0);
		if (pool != gcvPOOL_SYSTEM) {
			HOLDS((uintptr_t)cached.logical == (uintptr_t)it.at);
			EXPECT(unlock_object(node, it.handle), 0);
		}
		for (op = CLEAN; op <= BARRIER; op++)
			EXPECT(cache(node, it.handle, op, it.at, BYTES), 0);
		EXPECT(cache(node, it.handle, FLUSH, it.at + PAGE, 1), 0);
		TRY(is_filled(it.at, BYTES, 0x5a));
		EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
		memory = lock(of_object);
		if (all[i] & CONTIGUOUS) {
			memset(&iface, 0, sizeof(iface));
			iface.u.LockVideoMemory.node = of_object;
			iface.u.LockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_LOCK;
			run(&iface, gcvHAL_LOCK_VIDEO_MEMORY);
			HOLDS(iface.u.LockVideoMemory.physicalAddress);
			memset(&iface, 0, sizeof(iface));
			iface.u.UnlockVideoMemory.node = of_object;
			iface.u.UnlockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_UNLOCK;
			run(&iface, gcvHAL_UNLOCK_VIDEO_MEMORY);
			if (iface.u.UnlockVideoMemory.asynchroneous) {
				memset(&iface, 0, sizeof(iface));
				iface.u.BottomHalfUnlockVideoMemory.node = of_object;
				run(&iface, gcvHAL_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY);
			}
		}
		fill(&memory, 0xf1a60000 + i);
		release(&memory);
		EXPECT(cache(node, it.handle, INVALIDATE, it.at, BYTES), 0);
		TRY(has_colour(it.at, 0xf1a60000 + i));
		TRY(drop(&it));
	}
	return 0;
}

/* A picture is right to the byte, and nothing beside it has changed. */
static int pictures(void)
{
	struct object it[5];
	unsigned int i, round;

	for (i = 0; i < COUNT(it); i++)
		TRY(make(node, BYTES, 0, &it[i]));
	for (round = 0; round < 3; round++) {
		for (i = 0; i < COUNT(it); i++)
			memset(it[i].at, 0x10 + i, BYTES);
		TRY(draw_into(node, it[2].handle, 0xd12a0000 + round));
		TRY(has_colour(it[2].at, 0xd12a0000 + round));
		for (i = 0; i < COUNT(it); i++)
			if (i != 2)
				TRY(is_filled(it[i].at, BYTES, 0x10 + i));
	}
	for (i = 0; i < COUNT(it); i++)
		TRY(drop(&it[i]));
	return 0;
}

/* The core with the other engine, where the board has one. */
static int other_engine(void)
{
	struct child child;

	TRY(start_child(&child, "draw-2d", "3", -1));
	TRY(end_child(&child));
	TRY(start_child(&child, "draw", "3", -1));
	return end_child(&child);
}

static int same_file(void)
{
	struct object it;
	uint32_t handle;
	uint8_t *view;
	int buffer, second;

	TRY(make(node, BYTES, 0, &it));
	memset(it.at, 0x21, BYTES);
	EXPECT(export(node, it.handle, &buffer), 0);
	EXPECT(fcntl(buffer, F_GETFD), FD_CLOEXEC);
	EXPECT(lseek(buffer, 0, SEEK_END), BYTES);
	EXPECT(export(node, it.handle, &second), 0);
	EXPECT(import(node, buffer, &handle), 0);
	EXPECT(handle, it.handle);
	EXPECT(import(node, second, &handle), 0);
	EXPECT(handle, it.handle);
	close(second);
	view = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
	HOLDS(view != MAP_FAILED);
	TRY(is_filled(view, BYTES, 0x21));
	memset(view, 0x22, BYTES);
	TRY(is_filled(it.at, BYTES, 0x22));
	/* The buffer keeps what no handle names any more. */
	TRY(drop(&it));
	TRY(is_filled(view, BYTES, 0x22));
	EXPECT(import(node, buffer, &it.handle), 0);
	EXPECT(lock_object(node, it.handle, &it.at), 0);
	TRY(is_filled(it.at, BYTES, 0x22));
	TRY(draw_into(node, it.handle, 0x5a3ef11e));
	TRY(has_colour(view, 0x5a3ef11e));
	TRY(drop(&it));
	HOLDS(!munmap(view, BYTES) && !close(buffer));
	return 0;
}

/* What is known of memory, by whichever handle. */
static int has_properties(int file, uint32_t handle, uint32_t tiling, uint64_t clear, uint64_t count)
{
	struct vivante_tiling it;
	uint64_t now;

	EXPECT(get_tiling(file, handle, &it), 0);
	EXPECT(it.tiling_mode, tiling);
	EXPECT(it.ts_mode, tiling + 1);
	EXPECT(it.ts_cache_mode, tiling + 2);
	HOLDS(it.clear_value == clear);
	EXPECT(timestamp(file, handle, 0, &now), 0);
	EXPECT(now, count);
	return 0;
}

static int other_file(void)
{
	struct object it, there;
	uint64_t value;
	uint32_t handle;
	int buffer, second = open_node();

	HOLDS(second >= 0);
	TRY(make(node, BYTES, 0, &it));
	memset(it.at, 0x31, BYTES);
	EXPECT(set_tiling(node, it.handle, 2, 3, 4, 0x123456789abcdef0), 0);
	EXPECT(timestamp(node, it.handle, 7, &value), 0);
	/* Its handle says nothing there. */
	EXPECT(query(second, it.handle, QUERY_SIZE, &value), ENOTTY);
	EXPECT(export(node, it.handle, &buffer), 0);
	there = (struct object){ .file = second, .bytes = BYTES };
	EXPECT(import(second, buffer, &there.handle), 0);
	EXPECT(import(second, buffer, &handle), 0);
	EXPECT(handle, there.handle);
	close(buffer);
	EXPECT(query(second, there.handle, QUERY_SIZE, &value), 0);
	EXPECT(value, BYTES);
	TRY(has_properties(second, there.handle, 2, 0x123456789abcdef0, 7));
	EXPECT(lock_object(second, there.handle, &there.at), 0);
	TRY(is_filled(there.at, BYTES, 0x31));
	TRY(draw_into(second, there.handle, 0x07e5f11e));
	TRY(has_colour(it.at, 0x07e5f11e));
	EXPECT(set_tiling(second, there.handle, 5, 6, 7, 8), 0);
	EXPECT(timestamp(second, there.handle, 1, &value), 0);
	TRY(has_properties(node, it.handle, 5, 8, 8));
	/* The one goes, and the other stays. */
	TRY(drop(&it));
	TRY(has_colour(there.at, 0x07e5f11e));
	TRY(has_properties(second, there.handle, 5, 8, 8));
	TRY(draw_into(second, there.handle, 0x07e5f11f));
	TRY(has_colour(there.at, 0x07e5f11f));
	EXPECT(unlock_object(second, there.handle), 0);
	HOLDS(!close(second));
	return 0;
}

/* What a tile status object is filled with. */
static uint8_t filler(void)
{
	/* 2BITPERTILE. */
	return chip.chipMinorFeatures & 1u << 10 ? 0x55 : 0x11;
}

static int child_import(__attribute__((unused)) const char *argument)
{
	struct object it = { .file = node, .bytes = BYTES };
	uint32_t of_object, of_ts, another;
	struct memory memory;
	uint64_t value;

	EXPECT(import(node, GIVEN, &it.handle), 0);
	close(GIVEN);
	EXPECT(query(node, it.handle, QUERY_SIZE, &value), 0);
	EXPECT(value, BYTES);
	TRY(has_properties(node, it.handle, 1, 0xfedcba9876543210, 5));
	EXPECT(lock_object(node, it.handle, &it.at), 0);
	TRY(is_filled(it.at, BYTES, 0x41));
	EXPECT(create(node, PAGE, 0, &another), 0);
	EXPECT(attach(node, it.handle, another), ENOTTY);
	EXPECT(close_object(node, another), 0);
	/* The tile status is that of the process that has attached it. */
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	HOLDS(of_ts && of_ts != of_object);
	EXPECT(release_status(of_object), 0);
	memory = lock(of_ts);
	TRY(is_filled((const volatile uint8_t *)memory.words, PAGE, filler()));
	memset((void *)memory.words, 0x42, PAGE);
	TRY(draw_into(node, it.handle, 0x07e59c55));
	TRY(has_colour(it.at, 0x07e59c55));
	EXPECT(set_tiling(node, it.handle, 8, 9, 10, 11), 0);
	EXPECT(timestamp(node, it.handle, 6, &value), 0);
	EXPECT(value, 11);
	/* The exporter is done with it, and it is still there. */
	TRY(send_to(TO_PARENT, 'd'));
	TRY(receive(FROM_PARENT, 'g'));
	TRY(has_colour(it.at, 0x07e59c55));
	TRY(draw_into(node, it.handle, 0x07e59c56));
	TRY(has_colour(it.at, 0x07e59c56));
	TRY(has_properties(node, it.handle, 8, 11, 11));
	TRY(is_filled((const volatile uint8_t *)memory.words, PAGE, 0x42));
	release(&memory);
	return drop(&it);
}

static int other_process(void)
{
	struct object it, ts;
	struct child child;
	uint64_t value;
	int buffer;

	TRY(make(node, BYTES, 0, &it));
	TRY(make(node, PAGE, 0, &ts));
	memset(it.at, 0x41, BYTES);
	EXPECT(set_tiling(node, it.handle, 1, 2, 3, 0xfedcba9876543210), 0);
	EXPECT(timestamp(node, it.handle, 5, &value), 0);
	EXPECT(attach(node, it.handle, ts.handle), 0);
	EXPECT(export(node, it.handle, &buffer), 0);
	TRY(start_child(&child, "import", NULL, buffer));
	close(buffer);
	if (receive(child.from, 'd'))
		return end_child(&child);
	TRY(has_colour(it.at, 0x07e59c55));
	TRY(is_filled(ts.at, PAGE, 0x42));
	TRY(has_properties(node, it.handle, 8, 11, 11));
	TRY(drop(&ts));
	TRY(drop(&it));
	TRY(send_to(child.to, 'g'));
	return end_child(&child);
}

/* The other client of the process takes the node's buffers, and gives its own. */
static int both_clients(void)
{
	static const uint32_t pools[] = { gcvPOOL_SYSTEM, gcvPOOL_VIRTUAL };
	struct gcsHAL_INTERFACE iface = { 0 };
	struct memory memory;
	struct object it;
	uint32_t of_object, of_ts;
	uint64_t value;
	unsigned int i;
	int buffer;

	/* From the node, as a dma-buf. */
	TRY(make(node, BYTES, 0, &it));
	memset(it.at, 0x51, BYTES);
	EXPECT(export(node, it.handle, &buffer), 0);
	iface.u.WrapUserMemory.desc.flag = gcvALLOC_FLAG_DMABUF;
	iface.u.WrapUserMemory.desc.handle = buffer;
	run(&iface, gcvHAL_WRAP_USER_MEMORY);
	EXPECT(iface.u.WrapUserMemory.bytes, BYTES);
	close(buffer);
	memory = lock(iface.u.WrapUserMemory.node);
	TRY(is_filled((const volatile uint8_t *)memory.words, BYTES, 0x51));
	fill(&memory, 0xb07c0001);
	TRY(has_colour(it.at, 0xb07c0001));
	release(&memory);

	/* From the node, by a name. */
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	memset(&iface, 0, sizeof(iface));
	iface.u.NameVideoMemory.handle = of_object;
	run(&iface, gcvHAL_NAME_VIDEO_MEMORY);
	of_ts = iface.u.NameVideoMemory.name;
	memset(&iface, 0, sizeof(iface));
	iface.u.ImportVideoMemory.name = of_ts;
	run(&iface, gcvHAL_IMPORT_VIDEO_MEMORY);
	memory = lock(iface.u.ImportVideoMemory.handle);
	EXPECT(release_status(of_object), 0);
	fill(&memory, 0xb07c0002);
	TRY(has_colour(it.at, 0xb07c0002));
	release(&memory);
	TRY(drop(&it));

	/* To the node. */
	for (i = 0; i < COUNT(pools); i++) {
		memory = allocate(BYTES, pools[i]);
		memset((void *)memory.words, 0x52, BYTES);
		memset(&iface, 0, sizeof(iface));
		iface.u.ExportVideoMemory.node = memory.node;
		iface.u.ExportVideoMemory.flags = O_RDWR | O_CLOEXEC;
		run(&iface, gcvHAL_EXPORT_VIDEO_MEMORY);
		it = (struct object){ .file = node, .bytes = BYTES };
		EXPECT(import(node, iface.u.ExportVideoMemory.fd, &it.handle), 0);
		close(iface.u.ExportVideoMemory.fd);
		EXPECT(query(node, it.handle, QUERY_SIZE, &value), 0);
		EXPECT(value, BYTES);
		EXPECT(query(node, it.handle, QUERY_POOL, &value), 0);
		EXPECT(value, pools[i]);
		EXPECT(lock_object(node, it.handle, &it.at), 0);
		TRY(is_filled(it.at, BYTES, 0x52));
		fill(&memory, 0xb07c0003);
		TRY(has_colour(it.at, 0xb07c0003));
		release(&memory);
		TRY(draw_into(node, it.handle, 0xb07c0004));
		TRY(has_colour(it.at, 0xb07c0004));
		EXPECT(timestamp(node, it.handle, 3, &value), 0);
		EXPECT(value, 3);
		TRY(drop(&it));
	}
	return 0;
}

/* A buffer of another driver's. */
static int foreign_buffer(void)
{
	struct udmabuf_create wish = { .size = BYTES };
	struct object it = { .file = node, .bytes = BYTES }, own;
	int buffer, maker = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	uint8_t *view;
	uint64_t value;

	if (maker < 0) {
		printf("# this kernel has no udmabuf\n");
		return 0;
	}
	wish.memfd = memfd_create("vivante", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	HOLDS(!ftruncate(wish.memfd, BYTES));
	HOLDS(!fcntl(wish.memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	buffer = ioctl(maker, UDMABUF_CREATE, &wish);
	HOLDS(buffer >= 0);
	view = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, wish.memfd, 0);
	HOLDS(view != MAP_FAILED);
	memset(view, 0x61, BYTES);
	EXPECT(import(node, buffer, &it.handle), 0);
	close(buffer);
	EXPECT(query(node, it.handle, QUERY_SIZE, &value), 0);
	EXPECT(value, BYTES);
	EXPECT(lock_object(node, it.handle, &it.at), 0);
	TRY(is_filled(it.at, BYTES, 0x61));
	TRY(draw_into(node, it.handle, 0xf02e1600));
	TRY(has_colour(view, 0xf02e1600));
	EXPECT(timestamp(node, it.handle, 9, &value), 0);
	EXPECT(value, 9);
	/* The kernel cannot fill it, so it is no tile status, and may have one. */
	TRY(make(node, PAGE, 0, &own));
	EXPECT(attach(node, own.handle, it.handle), ENOTTY);
	EXPECT(attach(node, it.handle, own.handle), 0);
	TRY(drop(&it));
	TRY(drop(&own));
	HOLDS(!munmap(view, BYTES) && !close(wish.memfd) && !close(maker));
	return 0;
}

static int tilings(void)
{
	struct vivante_tiling it;
	struct object one, two;

	TRY(make(node, PAGE, 0, &one));
	TRY(make(node, PAGE, 0, &two));
	EXPECT(get_tiling(node, one.handle, &it), 0);
	EXPECT(it.handle, one.handle);
	EXPECT(it.tiling_mode | it.ts_mode | it.ts_cache_mode, 0);
	HOLDS(it.clear_value == 0);
	EXPECT(set_tiling(node, one.handle, 3, 4, 5, 0x8000000100000002), 0);
	TRY(has_properties(node, one.handle, 3, 0x8000000100000002, 0));
	/* A client of before has anything for the padding; of what it reads, that is not its own. */
	EXPECT(set_tiling(node, one.handle, 6, 7, 0xdeadbeef, ~0ull), 0);
	EXPECT(get_tiling(node, one.handle, &it), 0);
	EXPECT(it.tiling_mode, 6);
	EXPECT(it.ts_mode, 7);
	HOLDS(it.clear_value == ~0ull);
	EXPECT(get_tiling(node, two.handle, &it), 0);
	EXPECT(it.tiling_mode | it.ts_mode | it.ts_cache_mode, 0);
	HOLDS(it.clear_value == 0);
	/* A lock has nothing to do with it. */
	EXPECT(unlock_object(node, one.handle), 0);
	EXPECT(get_tiling(node, one.handle, &it), 0);
	EXPECT(it.tiling_mode, 6);
	EXPECT(close_object(node, one.handle), 0);
	EXPECT(get_tiling(node, one.handle, &it), ENOTTY);
	EXPECT(set_tiling(node, one.handle, 0, 0, 0, 0), ENOTTY);
	return drop(&two);
}

static int timestamps(void)
{
	struct object one, two;
	uint64_t now, sum = 0;
	unsigned int i;

	TRY(make(node, PAGE, 0, &one));
	TRY(make(node, PAGE, 0, &two));
	EXPECT(timestamp(node, one.handle, 0, &now), 0);
	EXPECT(now, 0);
	EXPECT(timestamp(node, one.handle, 1, &now), 0);
	EXPECT(now, 1);
	EXPECT(timestamp(node, one.handle, 0, &now), 0);
	EXPECT(now, 1);
	for (sum = 1, i = 0; i < 5; i++) {
		sum += 0xffffffff;
		EXPECT(timestamp(node, one.handle, 0xffffffff, &now), 0);
		HOLDS(now == sum);
	}
	HOLDS(sum == 0x4fffffffcull);
	EXPECT(timestamp(node, two.handle, 0, &now), 0);
	EXPECT(now, 0);
	TRY(drop(&one));
	return drop(&two);
}

/* Tile status of an object: what it is filled with, and whose it is. */
static int auxiliary(void)
{
	const uint32_t ts_bytes = 2 * PAGE + 0x100;
	struct object it, ts, beside, second;
	struct memory memory, kept;
	uint32_t of_object, of_ts, again, of_ts_again;

	TRY(make(node, BYTES, 0, &it));
	TRY(make(node, ts_bytes, 0, &ts));
	TRY(make(node, PAGE, 0, &beside));
	TRY(make(node, PAGE, 0, &second));
	memset(it.at, 0x71, BYTES);
	memset(ts.at, 0x72, 3 * PAGE);
	memset(beside.at, 0x73, PAGE);
	memset(second.at, 0x74, PAGE);
	/* None. */
	EXPECT(attach(node, it.handle, 0), 0);
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	EXPECT(of_ts, 0);
	EXPECT(release_status(of_object), 0);
	/* What there is not. */
	EXPECT(attach(node, it.handle, 0x7fffffff), ENOTTY);
	EXPECT(attach(node, 0, ts.handle), ENOTTY);
	TRY(is_filled(ts.at, 3 * PAGE, 0x72));
	EXPECT(attach(node, it.handle, ts.handle), 0);
	TRY(is_filled(ts.at, 3 * PAGE, filler()));
	TRY(is_filled(it.at, BYTES, 0x71));
	TRY(is_filled(beside.at, PAGE, 0x73));
	/* One is enough. */
	EXPECT(attach(node, it.handle, second.handle), ENOTTY);
	TRY(is_filled(second.at, PAGE, 0x74));
	memset(ts.at, 0x75, 3 * PAGE);
	EXPECT(attach(node, it.handle, ts.handle), ENOTTY);
	TRY(is_filled(ts.at, 3 * PAGE, 0x75));
	/* Numbers of both, a reference each. */
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	EXPECT(ref_node(node, it.handle, &again, &of_ts_again), 0);
	HOLDS(of_object && of_ts && of_object != of_ts);
	memory = lock(of_ts);
	TRY(is_filled((const volatile uint8_t *)memory.words, 3 * PAGE, 0x75));
	release(&memory);
	kept = lock(of_ts_again);
	TRY(is_filled((const volatile uint8_t *)kept.words, 3 * PAGE, 0x75));
	EXPECT(release_status(of_object), 0);
	EXPECT(release_status(again), 0);
	/* The object keeps it. */
	TRY(drop(&ts));
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	memory = lock(of_ts);
	TRY(is_filled((const volatile uint8_t *)memory.words, 3 * PAGE, 0x75));
	EXPECT(release_status(of_object), 0);
	TRY(drop(&it));
	TRY(is_filled((const volatile uint8_t *)memory.words, 3 * PAGE, 0x75));
	release(&memory);
	TRY(is_filled((const volatile uint8_t *)kept.words, 3 * PAGE, 0x75));
	release(&kept);
	TRY(drop(&beside));
	return drop(&second);
}

/* As for each frame: numbers are asked for, used and released. */
static int auxiliary_again(void)
{
	struct object it, ts;
	struct memory memory;
	uint32_t of_object, of_ts;
	unsigned int i;

	TRY(make(node, BYTES, 0, &it));
	EXPECT(create(node, PAGE, 0, &ts.handle), 0);
	EXPECT(attach(node, it.handle, ts.handle), 0);
	EXPECT(close_object(node, ts.handle), 0);
	for (i = 0; i < 200; i++) {
		EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
		if (i < 20 || i % 20 == 0) {
			memory = lock(of_object);
			fill(&memory, 0xa9a10000 + i);
			release(&memory);
			TRY(has_colour(it.at, 0xa9a10000 + i));
		} else {
			EXPECT(release_status(of_object), 0);
		}
		memory = lock(of_ts);
		TRY(is_filled((const volatile uint8_t *)memory.words, PAGE, filler()));
		release(&memory);
	}
	return drop(&it);
}

/* A number is good for one release: one more takes nothing from the handle. */
static int releases(void)
{
	struct object it;
	uint32_t of_object, of_ts;
	uint64_t value;

	TRY(make(node, BYTES, 0, &it));
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	EXPECT(release_status(of_object), 0);
	HOLDS(release_status(of_object) < 0);
	EXPECT(query(node, it.handle, QUERY_SIZE, &value), 0);
	TRY(draw_into(node, it.handle, 0x2e1ea5e5));
	TRY(has_colour(it.at, 0x2e1ea5e5));
	return drop(&it);
}

/* An object as its own tile status, and two that are each other's. */
static int auxiliary_circles(void)
{
	struct object one, two;

	TRY(make(node, PAGE, 0, &one));
	TRY(make(node, PAGE, 0, &two));
	/* Refused or not: it must not keep the memory for ever. */
	attach(node, one.handle, one.handle);
	attach(node, one.handle, two.handle);
	attach(node, two.handle, one.handle);
	TRY(drop(&one));
	return drop(&two);
}

/* Handle and number go one before the other. */
static int orders(void)
{
	struct object it;
	struct memory memory;
	uint32_t of_object, of_ts;
	int file;

	/* The handle first: the number names the memory still. */
	TRY(make(node, BYTES, 0, &it));
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	TRY(drop(&it));
	memory = lock(of_object);
	fill(&memory, 0x02de2001);
	TRY(has_colour(memory.words, 0x02de2001));
	release(&memory);
	TRY(memory_is_back());
	/* The handle while the number is locked. */
	TRY(make(node, BYTES, 0, &it));
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	memory = lock(of_object);
	TRY(drop(&it));
	fill(&memory, 0x02de2002);
	TRY(has_colour(memory.words, 0x02de2002));
	release(&memory);
	TRY(memory_is_back());
	/* The number first. */
	TRY(make(node, BYTES, 0, &it));
	EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
	memory = lock(of_object);
	release(&memory);
	TRY(draw_into(node, it.handle, 0x02de2003));
	TRY(has_colour(it.at, 0x02de2003));
	TRY(drop(&it));
	TRY(memory_is_back());
	/* The numbers do not go with the file, but with the other client. */
	file = open_node();
	TRY(make(file, BYTES, 0, &it));
	EXPECT(ref_node(file, it.handle, &of_object, &of_ts), 0);
	EXPECT(unlock_object(file, it.handle), 0);
	HOLDS(!close(file));
	memory = lock(of_object);
	fill(&memory, 0x02de2004);
	TRY(has_colour(memory.words, 0x02de2004));
	release(&memory);
	return 0;
}

/* What is locked when its handle goes, or the file. */
static int locked_at_close(void)
{
	struct object it;
	uint32_t handle;
	uint8_t *at;
	unsigned int i;
	int buffer, file;

	TRY(make(node, BYTES, 0, &it));
	EXPECT(lock_object(node, it.handle, &at), 0);
	EXPECT(close_object(node, it.handle), 0);
	TRY(memory_is_back());
	/* The file goes with all of it. */
	file = open_node();
	HOLDS(file >= 0);
	for (i = 0; i < 20; i++) {
		TRY(make(file, BYTES, 0, &it));
		EXPECT(create(file, PAGE * (i + 1), 0, &handle), 0);
		EXPECT(export(file, it.handle, &buffer), 0);
		close(buffer);
		if (i % 2)
			EXPECT(attach(file, it.handle, handle), 0);
	}
	HOLDS(!close(file));
	TRY(memory_is_back());
	return 0;
}

static int child_hold(__attribute__((unused)) const char *argument)
{
	struct object it, ts;
	uint32_t of_object, of_ts;
	unsigned int i;
	int buffer;

	for (i = 0; i < 16; i++) {
		TRY(make(node, BYTES, i % 2 ? CONTIGUOUS : 0, &it));
		TRY(make(node, PAGE, 0, &ts));
		EXPECT(attach(node, it.handle, ts.handle), 0);
		EXPECT(ref_node(node, it.handle, &of_object, &of_ts), 0);
		lock(of_object);
		EXPECT(export(node, it.handle, &buffer), 0);
		TRY(draw_into(node, it.handle, 0x401d0000 + i));
	}
	TRY(send_to(TO_PARENT, 'h'));
	pause();
	return because("it lives on");
}

static int killed(void)
{
	struct figures now;
	struct child child;
	int status;

	TRY(start_child(&child, "hold", NULL, -1));
	if (receive(child.from, 'h'))
		return end_child(&child);
	TRY(figures(&now));
	HOLDS(now.pool + now.scattered >= at_first.pool + at_first.scattered + 16 * BYTES / 1024);
	kill(child.id, SIGKILL);
	EXPECT(waitpid(child.id, &status, 0), child.id);
	close_lines(&child);
	return 0;
}

static int is_refused(int file, uint32_t handle)
{
	struct vivante_tiling tiling;
	uint32_t of_object, of_ts;
	uint64_t value;
	uint8_t *at;

	EXPECT(lock_object(file, handle, &at), ENOTTY);
	EXPECT(unlock_object(file, handle), ENOTTY);
	EXPECT(cache(file, handle, FLUSH, NULL, PAGE), ENOTTY);
	EXPECT(query(file, handle, QUERY_SIZE, &value), ENOTTY);
	EXPECT(timestamp(file, handle, 1, &value), ENOTTY);
	EXPECT(set_tiling(file, handle, 1, 1, 1, 1), ENOTTY);
	EXPECT(get_tiling(file, handle, &tiling), ENOTTY);
	EXPECT(attach(file, handle, 0), ENOTTY);
	EXPECT(ref_node(file, handle, &of_object, &of_ts), ENOTTY);
	return 0;
}

static int unknown_flags(void)
{
	static const uint32_t ignored[] = { 16, 1u << 31, ~7u };
	uint32_t handle;
	unsigned int i;

	/* As the vendor's driver. */
	for (i = 0; i < COUNT(ignored); i++) {
		EXPECT(create(node, PAGE, ignored[i], &handle), 0);
		EXPECT(close_object(node, handle), 0);
	}
	EXPECT(create(node, PAGE, ~0u, &handle), ENOTTY);
	return 0;
}

static int bad_input(void)
{
	static const uint64_t sizes_refused[] = { 0, 1ull << 40, 1ull << 63, ~0ull, ~0ull - PAGE };
	struct object it;
	uint64_t value;
	uint32_t handle;
	unsigned int i;
	int error, file = open_node();

	HOLDS(file >= 0);
	TRY(make(node, PAGE, 0, &it));
	memset(it.at, 0x81, PAGE);
	EXPECT(set_tiling(node, it.handle, 2, 3, 4, 5), 0);
	EXPECT(timestamp(node, it.handle, 6, &value), 0);
	TRY(is_refused(node, 0));
	TRY(is_refused(node, it.handle + 1));
	TRY(is_refused(node, ~0u));
	TRY(is_refused(file, it.handle));
	EXPECT(close_object(file, it.handle), EINVAL);
	for (i = 0; i < COUNT(sizes_refused); i++) {
		handle = 0;
		error = create(node, sizes_refused[i], 0, &handle);
		if (error != ENOTTY)
			return because("%#llx bytes: errno %d, handle %u", (unsigned long long)sizes_refused[i], error,
				       handle);
	}
	EXPECT(create(node, 1u << 31, CONTIGUOUS, &handle), ENOTTY);
	EXPECT(create(node, PAGE, SECURE, &handle), ENOTTY);
	EXPECT(query(node, it.handle, 2, &value), ENOTTY);
	EXPECT(query(node, it.handle, ~0u, &value), ENOTTY);
	EXPECT(cache(node, it.handle, 0, it.at, PAGE), ENOTTY);
	EXPECT(cache(node, it.handle, BARRIER + 1, it.at, PAGE), ENOTTY);
	EXPECT(cache(node, it.handle, ~0u, it.at, PAGE), ENOTTY);
	/* An address is not believed. */
	for (i = CLEAN; i <= FLUSH; i++) {
		error = cache(node, it.handle, i, (void *)(uintptr_t)0xffff0000, PAGE);
		HOLDS(error == 0 || error == ENOTTY);
		error = cache(node, it.handle, i, it.at, ~0ull);
		HOLDS(error == 0 || error == ENOTTY);
	}
	/* No request of its. */
	for (i = 10; i < 0x60; i++) {
		error = call(node, DRM_IOWR(DRM_COMMAND_BASE + i, struct vivante_lock), &(struct vivante_lock){ 0 });
		HOLDS(error == EINVAL || error == ENOTTY);
	}
	/* No buffer. */
	HOLDS(import(node, -1, &handle) && import(node, node, &handle) && import(node, device, &handle));
	HOLDS(export(node, 0, &error) && export(node, it.handle + 1, &error));
	TRY(is_filled(it.at, PAGE, 0x81));
	TRY(has_properties(node, it.handle, 2, 5, 6));
	handle = it.handle;
	TRY(drop(&it));
	TRY(is_refused(node, handle));
	HOLDS(!close(file));
	return 0;
}

static int bad_pointers(void)
{
	static const unsigned long requests[] = { GEM_CREATE,	 GEM_LOCK,   GEM_UNLOCK, GEM_CACHE,  GEM_QUERY,
						  GEM_TIMESTAMP, SET_TILING, GET_TILING, ATTACH_AUX, REF_NODE };
	struct vivante_create wish = { .size = BYTES };
	struct vivante_timestamp count = { .inc = 1 };
	struct object it;
	uint64_t value;
	uint8_t *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int i;
	int file = open_node();

	HOLDS(page != MAP_FAILED && file >= 0);
	HOLDS(!mprotect(page + PAGE, PAGE, PROT_NONE));
	TRY(make(file, PAGE, 0, &it));
	for (i = 0; i < COUNT(requests); i++) {
		EXPECT(call(file, requests[i], NULL), EFAULT);
		EXPECT(call(file, requests[i], page + PAGE), EFAULT);
		EXPECT(call(file, requests[i], page + PAGE - 1), EFAULT);
		EXPECT(call(file, requests[i], (void *)(uintptr_t)0xfffff000), EFAULT);
	}
	/* The answer has no place: what was done may have been, and goes with the file. */
	memcpy(page, &wish, sizeof(wish));
	HOLDS(!mprotect(page, PAGE, PROT_READ));
	EXPECT(call(file, GEM_CREATE, page), EFAULT);
	HOLDS(!mprotect(page, PAGE, PROT_READ | PROT_WRITE));
	count.handle = it.handle;
	memcpy(page, &count, sizeof(count));
	HOLDS(!mprotect(page, PAGE, PROT_READ));
	EXPECT(call(file, GEM_TIMESTAMP, page), EFAULT);
	EXPECT(timestamp(file, it.handle, 0, &value), 0);
	HOLDS(value <= 1);
	TRY(drop(&it));
	HOLDS(!munmap(page, 2 * PAGE) && !close(file));
	return 0;
}

/* KiB of the kernel's own. */
static unsigned long long kernel_kib(void)
{
	unsigned long long found = 0;
	char line[256];
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "SUnreclaim:", 11) == 0)
			numbers_of(line, &found, 1);
	if (file)
		fclose(file);
	return found;
}

/* Whether what is freed is kept from use for a while, some MiB of it. */
static int has_kasan(void)
{
	char line[256];
	FILE *file = fopen("/proc/kallsyms", "r");
	int found = 0;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, " kasan_quarantine_put") != NULL;
	if (file)
		fclose(file);
	return found;
}

#define MANY 10000u
#define WARM_UP 1000u

static int many(void)
{
	unsigned long long before = 0, after;
	struct timespec begin, end;
	uint32_t handle, again, of_object, of_ts;
	unsigned int i;
	uint8_t *at;
	int buffer;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (i = 0; i < MANY; i++) {
		if (i == WARM_UP)
			before = kernel_kib();
		EXPECT(create(node, i % 3 ? PAGE : 8 * PAGE, i % 2 ? CONTIGUOUS : 0, &handle), 0);
		/* The numbers do not run away. */
		HOLDS(handle && handle < 16);
		if (i % 16 == 0) {
			EXPECT(lock_object(node, handle, &at), 0);
			EXPECT(export(node, handle, &buffer), 0);
			EXPECT(import(node, buffer, &again), 0);
			EXPECT(again, handle);
			close(buffer);
			EXPECT(ref_node(node, handle, &of_object, &of_ts), 0);
			EXPECT(release_status(of_object), 0);
			EXPECT(unlock_object(node, handle), 0);
		}
		EXPECT(close_object(node, handle), 0);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	after = kernel_kib();
	printf("# %u times in %lld ms; %llu KiB of the kernel's own, and before %llu\n", MANY,
	       (long long)(end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000, after,
	       before);
	/* A hundred bytes each would be 900 KiB. */
	HOLDS(before && (after < before + 800 || has_kasan()));
	return 0;
}

/* ---- threads that have the same handles ---- */

#define NOP 0x18000000
#define THREADS 4
#define SLOTS 16

static _Atomic uint32_t slots[SLOTS];

static uint32_t any(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* Its handle may be gone, or another's by now. */
static int one_step(uint32_t *seed)
{
	_Atomic uint32_t *slot = &slots[any(seed) % SLOTS];
	uint32_t handle = atomic_load(slot), of_object, of_ts;
	struct vivante_tiling tiling;
	uint64_t value;
	uint8_t *at;
	int error = 0, buffer;

	switch (any(seed) % 10) {
	case 0:
	case 1:
		EXPECT(create(node, PAGE * (1 + any(seed) % 8), any(seed) % 4, &handle), 0);
		handle = atomic_exchange(slot, handle);
		error = close_object(node, handle);
		HOLDS(error == 0 || error == EINVAL);
		return 0;
	case 2:
		error = close_object(node, handle);
		HOLDS(error == 0 || error == EINVAL);
		return 0;
	case 3:
		error = lock_object(node, handle, &at);
		break;
	case 4:
		error = unlock_object(node, handle);
		break;
	case 5:
		error = query(node, handle, QUERY_SIZE, &value);
		break;
	case 6:
		error = ref_node(node, handle, &of_object, &of_ts);
		if (error == 0)
			EXPECT(release_status(of_object), 0);
		if (error == 0 && of_ts)
			EXPECT(release_status(of_ts), 0);
		break;
	case 7:
		error = export(node, handle, &buffer);
		if (error == 0) {
			error = import(node, buffer, &handle);
			close(buffer);
			EXPECT(error, 0);
			/* Where the handle had gone meanwhile this is a new one. */
			handle = atomic_exchange(slot, handle);
			return 0;
		}
		HOLDS(error == ENOENT || error == EINVAL);
		return 0;
	case 8:
		error = attach(node, handle, atomic_load(&slots[any(seed) % SLOTS]));
		break;
	default:
		error = set_tiling(node, handle, 1, 2, 3, 4);
		if (error == 0)
			error = get_tiling(node, handle, &tiling);
		if (error == 0)
			error = timestamp(node, handle, 1, &value);
		if (error == 0)
			error = cache(node, handle, FLUSH, NULL, 0);
	}
	HOLDS(error == 0 || error == ENOTTY);
	return 0;
}

static void *thread(void *argument)
{
	uint32_t seed = 0x9e3779b9 * (1 + (uintptr_t)argument);
	unsigned int i;

	for (i = 0; i < 1500; i++)
		if (one_step(&seed))
			return strdup(reason);
	return NULL;
}

static int threads(void)
{
	pthread_t all[THREADS];
	const int before = node;
	void *result;
	unsigned int i;
	int bad = 0;

	node = open_node();
	HOLDS(node >= 0);
	memset(slots, 0, sizeof(slots));
	for (i = 0; i < THREADS; i++)
		HOLDS(!pthread_create(&all[i], NULL, thread, (void *)(uintptr_t)i));
	for (i = 0; i < THREADS; i++) {
		pthread_join(all[i], &result);
		if (result)
			bad = because("a thread: %s", (char *)result);
		free(result);
	}
	/* A view of the pool keeps the file, and so the handles that are left. */
	for (i = 1; i <= THREADS * 1500 + SLOTS; i++)
		close_object(node, i);
	close(node);
	node = before;
	return bad;
}

/* ---- processes ---- */

/* Draws so many pictures, each into an object of its own; without end, and says when it has begun. */
static int child_draw(const char *argument)
{
	const unsigned int count = argument ? strtoul(argument, NULL, 0) : ~0u;
	struct object it;
	unsigned int i;

	for (i = 0; i < count; i++) {
		const uint32_t colour = (uint32_t)getpid() << 16 | (i & 0xffff);

		TRY(make(node, BYTES, 0, &it));
		memset(it.at, 0, BYTES);
		TRY(draw_into(node, it.handle, colour));
		TRY(has_colour(it.at, colour));
		TRY(drop(&it));
		if (!argument && i == 0)
			TRY(send_to(TO_PARENT, 'd'));
	}
	return 0;
}

static int two_processes(void)
{
	struct child child[2];

	TRY(start_child(&child[0], "draw", "40", -1));
	TRY(start_child(&child[1], "draw", "40", -1));
	TRY(child_draw("40"));
	TRY(end_child(&child[0]));
	return end_child(&child[1]);
}

/* Work that takes the GPU longer than a client its next calls. */
static void commit_work(int32_t signal)
{
	uint32_t nops[0x1000] = { 0 };
	unsigned int i;

	for (i = 0; i < COUNT(nops); i += 2)
		nops[i] = NOP;
	commit(nops, COUNT(nops), gcvPIPE_2D, signal);
}

/* An UNLOCK counts at once, not with its event: one too many would take the lock of another thread. */
static int unlocks(void)
{
	const int32_t signal = create_signal();
	struct object it;
	unsigned int i;

	TRY(make(node, BYTES, CACHED, &it));
	for (i = 0; i < 50; i++) {
		commit_work(signal);
		EXPECT(unlock_object(node, it.handle), 0);
		EXPECT(unlock_object(node, it.handle), ENOTTY);
		EXPECT(lock_object(node, it.handle, &it.at), 0);
		EXPECT(wait_for(signal, 20000), 0);
		memset(it.at, i, BYTES);
	}
	return drop(&it);
}

/* The two halves of UNLOCK. */
static int first_half(uint32_t number)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.UnlockVideoMemory.node = number;
	iface.u.UnlockVideoMemory.op = gcvLOCK_VIDEO_MEMORY_OP_UNLOCK | gcvLOCK_VIDEO_MEMORY_OP_UNMAP;
	return try(&iface, gcvHAL_UNLOCK_VIDEO_MEMORY);
}

static int second_half(uint32_t number)
{
	struct gcsHAL_INTERFACE iface = { 0 };

	iface.u.BottomHalfUnlockVideoMemory.node = number;
	return try(&iface, gcvHAL_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY);
}

/* A lock by a handle and one by a number: no unlock takes one of the other kind, nor its view. */
static int both_locks(void)
{
	const int32_t signal = create_signal();
	uint32_t number, of_ts;
	struct memory memory;
	struct object it;

	TRY(make(node, BYTES, CACHED, &it));
	EXPECT(ref_node(node, it.handle, &number, &of_ts), 0);
	EXPECT(first_half(number), -5);
	memory = lock(number);
	HOLDS((uint8_t *)memory.words == it.at);
	EXPECT(first_half(number), 0);
	EXPECT(second_half(number), 0);
	commit_work(signal);
	EXPECT(wait_for(signal, 20000), 0);
	EXPECT(first_half(number), -5);
	/* One too many. */
	EXPECT(second_half(number), 0);
	commit_work(signal);
	EXPECT(wait_for(signal, 20000), 0);
	memset(it.at, 0x55, BYTES);
	memory = lock(number);
	EXPECT(unlock_object(node, it.handle), 0);
	EXPECT(unlock_object(node, it.handle), ENOTTY);
	commit_work(signal);
	EXPECT(wait_for(signal, 20000), 0);
	HOLDS(memory.words[BYTES / 4 - 1] == 0x55555555);
	EXPECT(close_object(node, it.handle), 0);
	HOLDS(memory.words[0] == 0x55555555);
	release(&memory);
	return 0;
}

/* A node that goes by an event while it has a view: that ends with the process's next FREE. */
static int left_view(void)
{
	const int32_t signal = create_signal();
	struct memory memory = allocate(BYTES, gcvPOOL_VIRTUAL);
	struct figures now;
	unsigned int i;

	memory = lock(memory.node);
	EXPECT(second_half(memory.node), 0);
	commit_work(signal);
	EXPECT(wait_for(signal, 20000), 0);
	commit_work(signal);
	EXPECT(first_half(memory.node), 0);
	EXPECT(second_half(memory.node), 0);
	EXPECT(release_status(memory.node), 0);
	EXPECT(wait_for(signal, 20000), 0);
	/* The event may come later than the signal. */
	for (i = 0; i < 200; i++) {
		memory = allocate(PAGE, gcvPOOL_DEFAULT);
		release(&memory);
		TRY(figures(&now));
		if (now.scattered == at_first.scattered)
			break;
		sleep_ms(5);
	}
	return memory_is_back();
}

/* A child has the file: its GEM_CLOSE cannot end the view, which ends with this process's next FREE. */
static int closed_by_child(void)
{
	struct memory memory;
	struct object it;
	int child, status;

	TRY(make(node, BYTES, CACHED, &it));
	child = fork();
	HOLDS(child >= 0);
	if (child == 0)
		_exit(close_object(node, it.handle));
	EXPECT(waitpid(child, &status, 0), child);
	EXPECT(status, 0);
	memory = allocate(PAGE, gcvPOOL_DEFAULT);
	release(&memory);
	return memory_is_back();
}

/* Counts the keys of the file's fdinfo, and looks at their values. */
static int infos(void)
{
	char path[64], line[256], first[64] = "", second[64] = "";
	unsigned int drivers, ids, round;
	int is_named = 0;
	int files[2] = { node, open_node() };
	FILE *file;

	HOLDS(files[1] >= 0);
	for (round = 0; round < 2; round++) {
		char *value = round ? second : first;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", files[round]);
		file = fopen(path, "r");
		HOLDS(file);
		drivers = 0;
		ids = 0;
		while (fgets(line, sizeof(line), file)) {
			if (!round)
				printf("# %s", line);
			if (sscanf(line, "drm-client-id: %63s", value) == 1)
				ids++;
			if (strncmp(line, "drm-driver:", 11) == 0) {
				drivers++;
				is_named = strstr(line, "galcore") != NULL;
			}
		}
		fclose(file);
		EXPECT(drivers, 1);
		HOLDS(is_named);
		EXPECT(ids, 1);
	}
	/* All files of a process are one client. */
	HOLDS(!strcmp(first, second));
	HOLDS(!close(files[1]));
	return 0;
}

static int child_plain(__attribute__((unused)) const char *argument)
{
	HOLDS(geteuid() == 1000);
	TRY(names());
	TRY(sizes());
	TRY(same_file());
	return child_draw("2");
}

/* A user who may open both nodes, and nothing else. */
static int unprivileged(void)
{
	struct child child;
	int result;

	HOLDS(!chmod(node_path, 0666) && !chmod("/dev/galcore", 0666));
	result = start_child(&child, "plain", NULL, -1) || end_child(&child);
	HOLDS(!chmod(node_path, 0600) && !chmod("/dev/galcore", 0600));
	return result ? -1 : 0;
}

/* ---- cores that go and come ---- */

#define DRIVER "/sys/bus/platform/drivers/galcore"
#define MOST_CORES 4

static char cores[MOST_CORES][64];
static unsigned int core_count;

/* Whether it is one of them. */
static int to_driver(const char *file, const char *name)
{
	char path[128];
	int fd, bad;

	snprintf(path, sizeof(path), DRIVER "/%s", file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	HOLDS(fd >= 0);
	bad = write(fd, name, strlen(name)) < 0 ? errno : 0;
	close(fd);
	if (bad)
		return because("%s %s: %s", file, name, strerror(bad));
	return 0;
}

static int find_cores(void)
{
	struct dirent *entry;
	DIR *folder = opendir(DRIVER);

	HOLDS(folder);
	core_count = 0;
	while ((entry = readdir(folder)))
		if (entry->d_type == DT_LNK && strcmp(entry->d_name, "module") && core_count < MOST_CORES)
			snprintf(cores[core_count++], sizeof(cores[0]), "%.63s", entry->d_name);
	closedir(folder);
	HOLDS(core_count);
	return 0;
}

/* The device that the node hangs from. */
static int parent_of(const char *path, char *name, size_t room)
{
	char link[96], target[256];
	ssize_t bytes;

	snprintf(link, sizeof(link), "/sys/class/drm/%s/device", strrchr(path, '/') + 1);
	bytes = readlink(link, target, sizeof(target) - 1);
	HOLDS(bytes > 0);
	target[bytes] = 0;
	snprintf(name, room, "%.63s", strrchr(target, '/') ? strrchr(target, '/') + 1 : target);
	return 0;
}

/* A file whose core is gone. */
static int is_gone(int file, uint32_t handle)
{
	struct vivante_tiling tiling;
	uint32_t of_object, of_ts, other;
	uint64_t value;
	uint8_t *at;
	unsigned int i;
	int errors[10], buffer;

	errors[0] = create(file, PAGE, 0, &other);
	errors[1] = lock_object(file, handle, &at);
	errors[2] = cache(file, handle, FLUSH, NULL, PAGE);
	errors[3] = query(file, handle, QUERY_SIZE, &value);
	errors[4] = timestamp(file, handle, 1, &value);
	errors[5] = set_tiling(file, handle, 1, 1, 1, 1);
	errors[6] = get_tiling(file, handle, &tiling);
	errors[7] = attach(file, handle, 0);
	errors[8] = ref_node(file, handle, &of_object, &of_ts);
	errors[9] = export(file, handle, &buffer);
	for (i = 0; i < COUNT(errors); i++)
		if (errors[i] != ENODEV && errors[i] != ENOTTY)
			return because("request %u of a file without a core: errno %d", i, errors[i]);
	return 0;
}

/* Another process, as this one's other client may have lost its core. */
static int new_node_works(void)
{
	struct child child;

	TRY(start_child(&child, "draw", "2", -1));
	return end_child(&child);
}

/* Each core goes in turn: the node hangs from one of those that are left. */
static int cores_go(__attribute__((unused)) const char *argument)
{
	char before[64], now[64];
	unsigned int i, round;
	struct object it;
	int file;

	TRY(find_cores());
	for (i = 0, round = 0; round < 3 * core_count; round++, i = round % core_count) {
		file = open_node();
		HOLDS(file >= 0);
		TRY(parent_of(node_path, before, sizeof(before)));
		TRY(make(file, BYTES, 0, &it));
		memset(it.at, 0x91, BYTES);
		TRY(to_driver("unbind", cores[i]));
		if (strcmp(before, cores[i]) == 0) {
			TRY(is_gone(file, it.handle));
			close(file);
			file = open_node();
			if (core_count > 1) {
				HOLDS(file >= 0);
				TRY(parent_of(node_path, now, sizeof(now)));
				printf("# %s is gone, and the node is that of %s\n", before, now);
				HOLDS(strcmp(now, before));
				TRY(new_node_works());
				TRY(make(file, BYTES, 0, &it));
				TRY(drop(&it));
			} else {
				HOLDS(file < 0);
			}
		} else {
			/* Nothing has happened to this one. */
			TRY(is_filled(it.at, BYTES, 0x91));
			TRY(drop(&it));
		}
		if (file >= 0)
			close(file);
		TRY(to_driver("bind", cores[i]));
		TRY(new_node_works());
	}
	return 0;
}

/* Without any core there is no node; a file of before says so, and takes nothing with it. */
static int all_cores_go(__attribute__((unused)) const char *argument)
{
	struct object it;
	int buffer, file = open_node();
	unsigned int i;
	uint8_t *view;

	TRY(find_cores());
	HOLDS(file >= 0);
	TRY(make(file, BYTES, 0, &it));
	EXPECT(export(file, it.handle, &buffer), 0);
	view = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
	HOLDS(view != MAP_FAILED);
	memset(view, 0x92, BYTES);
	for (i = 0; i < core_count; i++)
		TRY(to_driver("unbind", cores[i]));
	TRY(is_gone(file, it.handle));
	EXPECT(open_node(), -1);
	for (i = 0; i < core_count; i++)
		TRY(to_driver("bind", cores[i]));
	/* The file stays without. */
	TRY(is_gone(file, it.handle));
	TRY(new_node_works());
	HOLDS(!munmap(view, BYTES) && !close(buffer) && !close(file));
	return 0;
}

static int has_word(void)
{
	struct pollfd it = { .fd = FROM_PARENT, .events = POLLIN };

	return poll(&it, 1, 0) != 0;
}

/* Creates, locks, exports and closes, whatever becomes of the node, until its parent says. */
static int child_load(__attribute__((unused)) const char *argument)
{
	uint32_t handles[8] = { 0 }, of_object, of_ts, seed = 1 + getpid();
	unsigned int i, steps = 0, lost = 0, errors = 0;
	uint8_t *at;
	int file = node, error, buffer;

	TRY(send_to(TO_PARENT, 'l'));
	while (!has_word()) {
		i = any(&seed) % COUNT(handles);
		error = create(file, PAGE * (1 + any(&seed) % 16), any(&seed) % 4, &handles[i]);
		if (!error)
			error = lock_object(file, handles[i], &at);
		if (!error)
			error = export(file, handles[i], &buffer);
		if (!error)
			close(buffer);
		if (!error)
			error = ref_node(file, handles[i], &of_object, &of_ts);
		if (!error)
			release_status(of_object);
		i = any(&seed) % COUNT(handles);
		if (!error && handles[i]) {
			error = close_object(file, handles[i]);
			handles[i] = 0;
			if (error == EINVAL)
				error = 0;
		}
		steps++;
		if (!error)
			continue;
		if (error != ENODEV && error != ENOTTY && error != ENOENT)
			return because("errno %d after %u steps", error, steps);
		errors++;
		/* Its core is gone; a new file may have another. */
		if (error == ENODEV || errors % 2) {
			lost++;
			close(file);
			memset(handles, 0, sizeof(handles));
			while ((file = open_node()) < 0 && !has_word())
				sleep_ms(1);
			if (file < 0)
				break;
		}
	}
	printf("# %u steps, %u files lost\n", steps, lost);
	return 0;
}

/* How often each core goes while clients are busy. */
static unsigned int rounds = 6;

static int under_load(void)
{
	struct child loads[3], drawer;
	unsigned int i, round;
	int status;

	for (i = 0; i < COUNT(loads); i++) {
		TRY(start_child(&loads[i], "load", NULL, -1));
		TRY(receive(loads[i].from, 'l'));
	}
	for (round = 0; round < rounds * core_count; round++) {
		/* It fails when its core goes, and nothing else happens. */
		TRY(start_child(&drawer, "draw", NULL, -1));
		if (receive(drawer.from, 'd'))
			return end_child(&drawer);
		sleep_ms(round * 7 % 40);
		TRY(to_driver("unbind", cores[round % core_count]));
		sleep_ms(20);
		kill(drawer.id, SIGKILL);
		EXPECT(waitpid(drawer.id, &status, 0), drawer.id);
		close_lines(&drawer);
		TRY(to_driver("bind", cores[round % core_count]));
	}
	for (i = 0; i < COUNT(loads); i++)
		TRY(send_to(loads[i].to, 'e'));
	for (i = 0; i < COUNT(loads); i++)
		TRY(end_child(&loads[i]));
	return new_node_works();
}

static int unload(void)
{
	return syscall(SYS_delete_module, "galcore", O_NONBLOCK) ? errno : 0;
}

/* The module waits for files and buffers. */
static int unloading(__attribute__((unused)) const char *argument)
{
	const char *path = getenv("GALCORE_MODULE"), *parameters = getenv("GALCORE_PARAMETERS");
	uint32_t handle;
	unsigned int i;
	int buffer, module, file = open_node();

	HOLDS(path && file >= 0);
	/* Nothing is mapped: it is the file that keeps the module, and then the buffer. */
	EXPECT(create(file, BYTES, 0, &handle), 0);
	EXPECT(export(file, handle, &buffer), 0);
	EXPECT(close_object(file, handle), 0);
	HOLDS(unload() != 0);
	HOLDS(!close(file));
	HOLDS(unload() != 0);
	HOLDS(!close(buffer));
	for (i = 0; unload(); i++) {
		HOLDS(i < 200);
		sleep_ms(10);
	}
	EXPECT(open_node(), -1);
	module = open(path, O_RDONLY | O_CLOEXEC);
	HOLDS(module >= 0);
	EXPECT(syscall(SYS_finit_module, module, parameters ? parameters : "", 0), 0);
	close(module);
	return new_node_works();
}

/* ---- */

/* A process that ends with the test: it has memory mapped, which keeps files and so the module. */
static int in_child(const char *role)
{
	struct child child;

	TRY(start_child(&child, role, NULL, -1));
	return end_child(&child);
}

static int cores_go_in_child(void)
{
	return in_child("cores-go");
}

static int all_cores_go_in_child(void)
{
	return in_child("all-cores-go");
}

static int unloading_in_child(void)
{
	return in_child("unloading");
}

static const struct role {
	const char *name;
	int (*be)(const char *argument);
	/* Of the core that it takes; 0: it does without /dev/galcore and the node. */
	uint32_t engines;
} roles[] = {
	{ "import", child_import, HAS_2D | HAS_3D },
	{ "hold", child_hold, HAS_2D | HAS_3D },
	{ "plain", child_plain, HAS_2D | HAS_3D },
	{ "load", child_load, HAS_2D | HAS_3D },
	{ "draw", child_draw, HAS_2D | HAS_3D },
	{ "draw-2d", child_draw, HAS_2D },
	{ "cores-go", cores_go, 0 },
	{ "all-cores-go", all_cores_go, 0 },
	{ "unloading", unloading, 0 },
};

static int be_child(const char *name, const char *argument)
{
	const struct role *role = roles;
	int result;

	while (strcmp(role->name, name))
		role++;
	if (strcmp(name, "plain") == 0 && (setgid(1000) || setuid(1000)))
		return 98;
	if (role->engines) {
		start(role->engines);
		node = open_node();
		if (node < 0) {
			printf("# %s: there is no node\n", name);
			return 97;
		}
	}
	result = role->be(argument);
	if (result)
		printf("# %s: %s\n", name, reason);
	return result ? 1 : 0;
}

static int all(void)
{
	printf("KTAP version 1\n1..32\n");
	start(HAS_2D | HAS_3D);
	node = open_node();
	/* Command memory and signal of this process's own. */
	if (node < 0 || child_draw("1") || take_figures())
		fail("no node, or none that draws: %s", node < 0 ? "not there" : reason);
	report("name and version", names);
	report("sizes, a lock each", sizes);
	report("flags, and caches", flags);
	report("pictures by the other client", pictures);
	report("pictures by each core", other_engine);
	report("exported and imported in one file", same_file);
	report("imported in another file", other_file);
	report("imported in another process", other_process);
	report("buffers of both clients", both_clients);
	report("a buffer of another driver", foreign_buffer);
	report("tiling", tilings);
	report("timestamps", timestamps);
	report("tile status", auxiliary);
	report("tile status again and again", auxiliary_again);
	report("a release too many", releases);
	report("tile status in a circle", auxiliary_circles);
	report("handles and numbers go in any order", orders);
	report("locked at the end", locked_at_close);
	report("a process is killed", killed);
	report("flags that there are not", unknown_flags);
	report("bad input", bad_input);
	report("bad pointers", bad_pointers);
	report("10000 objects, one after another", many);
	report("threads with the same handles", threads);
	report("processes that draw", two_processes);
	report("an unlock too many", unlocks);
	report("locks by handle and by number", both_locks);
	report("a view that an event leaves", left_view);
	report("an object that a child closes", closed_by_child);
	report("fdinfo", infos);
	report("a user who may open it", unprivileged);
	report("sizes once more", sizes);
	return failed ? 1 : 0;
}

static int unbinding(void)
{
	printf("KTAP version 1\n1..4\n");
	if (find_cores() || take_figures())
		fail("%s", reason);
	node = -1;
	report("a core goes, and comes back", cores_go_in_child);
	report("all cores go", all_cores_go_in_child);
	report("cores go while clients are busy", under_load);
	report("the module goes when nothing is left", unloading_in_child);
	return failed ? 1 : 0;
}

int main(int count, char **words)
{
	if (count >= 3 && strcmp(words[1], "--child") == 0)
		return be_child(words[2], words[3]);
	if (count >= 2 && strcmp(words[1], "--unbind") == 0) {
		if (count == 3)
			rounds = strtoul(words[2], NULL, 0);
		return unbinding();
	}
	if (count != 1)
		fail("usage: vivante [--unbind [ROUNDS]]");
	return all();
}
