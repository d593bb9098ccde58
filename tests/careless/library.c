// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client library of one generation. ABI is the name of the header with the structures, which
 * abi.awk generated; LIBRARY is the name of the library.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include ABI
#include "library.h"

extern const struct library LIBRARY;

#if ABI_ARGUMENT == 16 && UINTPTR_MAX > UINT32_MAX

const struct library LIBRARY = {
	.name = ABI_NAME,
	.lacks = "its argument block names the interface with 32 bits",
};

#else

/* Like the vendor's libraries in a 32-bit program: sign-extended to 64 bits. */
#define PTR(pointer) ((uint64_t)(int64_t)(intptr_t)(pointer))
#define POINTER(field) ((void *)(uintptr_t)(field))

#define COMMAND_BYTES 65536u
#define HEAD 32u
#define TAIL 8u
#define FOREVER 20000u

/* "CMDB" and "CTXT". */
#define OBJECT_COMMANDS 0x42444d43u
#define OBJECT_CONTEXT 0x54585443u

/* Added to the errno of a failed ioctl. */
#define ERRNO 1000

#define INTERFACE 30000

/* This driver's own request: selects a generation by name. */
#define SAY _IOW('G', 1, char[16])

/* The driver recognizes the first generations of the list by their programs' behavior. */
#define IS_SILENT (ABI_PLACE >= 16)

#if defined(CMD_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY)
#define UNLOCK_RECORD CMD_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY
#define unlock_record abi_BottomHalfUnlockVideoMemory
#else
#define UNLOCK_RECORD CMD_UNLOCK_VIDEO_MEMORY
#define unlock_record abi_UnlockVideoMemory
#endif

/* Types after those of surfaces: the first is command memory. */
#if defined(VALUE_SURF_NUM_TYPES)
#define TYPE_COMMAND VALUE_SURF_NUM_TYPES
#endif

/*
 * Up to 5.0.11, the driver's table of cores has the first one at index 0, and a program that
 * knows only one core leaves the field unset.
 */
#if defined(HAS_header_hardwareType) && !defined(HAS_header_coreIndex)
#define MAY_LEAVE_HARDWARE 1
#else
#define MAY_LEAVE_HARDWARE 0
#endif

/* From 4.0.0 to 4.6.9, signal numbers are global, and the process is not checked. */
#if ABI_ARGUMENT == 32 && !defined(CMD_RELEASE_VIDEO_MEMORY)
#define MAY_LEAVE_PROCESS 1
#else
#define MAY_LEAVE_PROCESS 0
#endif

/* Returns the status, or the errno of the ioctl. */
static int send_as_it_is(struct session *s, struct abi_interface *i, uint32_t command)
{
#if ABI_ARGUMENT == 16
	uint32_t block[4] = { (uintptr_t)i, sizeof(*i), (uintptr_t)i, sizeof(*i) };
#else
	uint64_t block[4] = { PTR(i), sizeof(*i), PTR(i), sizeof(*i) };
#endif

	i->command = command;
#ifdef HAS_header_hardwareType
	i->hardwareType = s->hardware;
#endif
	while (ioctl(s->fd, INTERFACE, block))
		if (errno != EINTR)
			return ERRNO + errno;
	return (int32_t)i->status;
}

static int call(struct session *s, struct abi_interface *i, uint32_t command)
{
#ifdef HAS_header_coreIndex
	i->coreIndex = 0;
#endif
#ifdef HAS_header_devIndex
	i->devIndex = 0;
#endif
	return send_as_it_is(s, i, command);
}

/* Fills the request with random data, like an uninitialized variable. */
static void begin(struct abi_interface *i)
{
	scribble(i, sizeof(*i));
}

#define MUST(what)                                                                                 \
	do {                                                                                       \
		int status_ = (what);                                                              \
		if (status_)                                                                       \
			return because("%s: %d (%s:%d)", #what, status_, __FILE__, __LINE__);      \
	} while (0)

static int query_memory(struct session *s)
{
	struct abi_interface i;

	begin(&i);
	MUST(call(s, &i, CMD_QUERY_VIDEO_MEMORY));
#ifdef HAS_QueryVideoMemory_contiguousPhysName
	s->pool_handle = i.u.QueryVideoMemory.contiguousPhysName;
#else
	s->pool_handle = i.u.QueryVideoMemory.contiguousPhysical;
#endif
	s->pool_bytes = i.u.QueryVideoMemory.contiguousSize;
	return 0;
}

static int query_identity(struct session *s)
{
	struct abi_interface i;

	begin(&i);
	MUST(call(s, &i, CMD_QUERY_CHIP_IDENTITY));
	s->model = i.u.QueryChipIdentity.chipModel;
#ifdef HAS_QueryChipIdentity_chipFeatures
	s->features = i.u.QueryChipIdentity.chipFeatures;
#endif
#define TELL(what, field)                                                                          \
	do {                                                                                       \
		s->identity[what] = i.u.QueryChipIdentity.field;                                   \
		s->identity_has |= 1u << what;                                                     \
	} while (0)
#ifdef HAS_QueryChipIdentity_registerMax
	TELL(IDENTITY_REGISTERS, registerMax);
#endif
#ifdef HAS_QueryChipIdentity_threadCount
	TELL(IDENTITY_THREADS, threadCount);
#endif
#ifdef HAS_QueryChipIdentity_shaderCoreCount
	TELL(IDENTITY_SHADERS, shaderCoreCount);
#endif
#ifdef HAS_QueryChipIdentity_vertexCacheSize
	TELL(IDENTITY_VERTEX_CACHE, vertexCacheSize);
#endif
#ifdef HAS_QueryChipIdentity_instructionCount
	TELL(IDENTITY_INSTRUCTIONS, instructionCount);
#endif
#ifdef CMD_QUERY_CHIP_OPTION
	/* The data of the last call is still in the structure. */
	MUST(call(s, &i, CMD_QUERY_CHIP_OPTION));
#endif
	MUST(call(s, &i, CMD_GET_BASE_ADDRESS));
	return 0;
}

static int query(struct session *s)
{
	return query_memory(s) || query_identity(s) ? -1 : 0;
}

/* Selects a core, like a library that needs a certain engine. */
static int choose(struct session *s)
{
#ifdef HAS_ChipInfo_types
	struct abi_interface i;
	uint32_t n, count, types[32];

	begin(&i);
	s->hardware = VALUE_HARDWARE_3D;
	MUST(call(s, &i, CMD_CHIP_INFO));
	count = i.u.ChipInfo.count;
	if (count == 0 || count > sizeof(i.u.ChipInfo.types) / sizeof(i.u.ChipInfo.types[0]))
		return because("%u cores", count);
	for (n = 0; n < count; n++)
		types[n] = i.u.ChipInfo.types[n];
	s->hardware = types[0];
	for (n = 0; n < count; n++) {
		if (types[n] == VALUE_HARDWARE_2D) {
			s->board_2d = 1;
			if (s->engine == ENGINE_2D)
				s->hardware = VALUE_HARDWARE_2D;
		}
		if (types[n] == VALUE_HARDWARE_3D) {
			s->board_3d = 1;
			if (s->engine == ENGINE_3D)
				s->hardware = VALUE_HARDWARE_3D;
		}
	}
#else
	(void)s;
#endif
	return 0;
}

/* For generations where LOCK does not map. */
#ifndef HAS_LockVideoMemory_op
/* A pool with a handle is mapped once per process, for all of its sessions. */
static struct {
	pthread_mutex_t mutex;
	pid_t process;
	unsigned int sessions;
	void *at;
} mapped = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static int map_by_handle(struct session *s)
{
	struct abi_interface i;

	/* This is a child process; the mapping belongs to its parent. */
	if (mapped.process != getpid()) {
		mapped.process = getpid();
		mapped.sessions = 0;
	}
	if (mapped.sessions++ == 0) {
		begin(&i);
#ifdef HAS_MapMemory_physName
		i.u.MapMemory.physName = s->pool_handle;
#else
		i.u.MapMemory.physical = s->pool_handle;
#endif
		i.u.MapMemory.bytes = s->pool_bytes;
		MUST(call(s, &i, CMD_MAP_MEMORY));
		mapped.at = POINTER(i.u.MapMemory.logical);
	}
	s->pool = mapped.at;
	return 0;
}

static int unmap_by_handle(struct session *s)
{
	struct abi_interface i;

	if (--mapped.sessions)
		return 0;
	begin(&i);
#ifdef HAS_UnmapMemory_physName
	i.u.UnmapMemory.physName = s->pool_handle;
#else
	i.u.UnmapMemory.physical = s->pool_handle;
#endif
	i.u.UnmapMemory.bytes = s->pool_bytes;
	i.u.UnmapMemory.logical = PTR(s->pool);
	MUST(call(s, &i, CMD_UNMAP_MEMORY));
	return 0;
}

static int map_pool(struct session *s)
{
	/* A free address range. */
	void *const wish = WISH(0x90000000u);
	int result;

	if (s->pool_handle) {
		pthread_mutex_lock(&mapped.mutex);
		result = map_by_handle(s);
		pthread_mutex_unlock(&mapped.mutex);
		return result;
	}
	s->pool = mmap(wish, s->pool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (s->pool == MAP_FAILED)
		return because("the pool cannot be mapped: %s", strerror(errno));
	return 0;
}

static int unmap_pool(struct session *s)
{
	int result;

	if (s->pool_handle) {
		pthread_mutex_lock(&mapped.mutex);
		result = unmap_by_handle(s);
		pthread_mutex_unlock(&mapped.mutex);
		return result;
	}
	if (munmap(s->pool, s->pool_bytes))
		return because("munmap: %s", strerror(errno));
	return 0;
}
#endif

static int allocate_type(struct session *s, struct memory *m, uint32_t bytes, uint32_t type,
			 enum pool pool)
{
	static const uint32_t pools[] = {
		[POOL_DEFAULT] = VALUE_POOL_DEFAULT,
		[POOL_SYSTEM] = VALUE_POOL_SYSTEM,
		[POOL_VIRTUAL] = VALUE_POOL_VIRTUAL,
	};
	struct abi_interface i;

	begin(&i);
	i.u.AllocateLinearVideoMemory.bytes = bytes;
	i.u.AllocateLinearVideoMemory.alignment = 64;
	i.u.AllocateLinearVideoMemory.type = type;
	i.u.AllocateLinearVideoMemory.pool = pools[pool];
#ifdef HAS_AllocateLinearVideoMemory_flag
	i.u.AllocateLinearVideoMemory.flag = 0;
#endif
#ifdef HAS_AllocateLinearVideoMemory_vidMemIndex
	i.u.AllocateLinearVideoMemory.vidMemIndex = 0;
#endif
	MUST(call(s, &i, CMD_ALLOCATE_LINEAR_VIDEO_MEMORY));
	m->node = i.u.AllocateLinearVideoMemory.node;
	m->pool = i.u.AllocateLinearVideoMemory.pool;
	m->bytes = bytes;
	m->info = 0;
	m->words = NULL;
	return 0;
}

static int allocate(struct session *s, struct memory *m, uint32_t bytes, enum pool pool)
{
	return allocate_type(s, m, bytes,
			     s->engine == ENGINE_2D ? VALUE_SURF_BITMAP : VALUE_SURF_RENDER_TARGET,
			     pool);
}

/* Parts of LOCK and UNLOCK, if a library selects them. */
enum { PART_LOCK = 1, PART_MAP = 2, PART_UNLOCK = 4, PART_UNMAP = 8 };

static int lock_parts(struct session *s, struct memory *m, uint32_t parts)
{
	struct abi_interface i;

	begin(&i);
	i.u.LockVideoMemory.node = m->node;
#ifdef HAS_LockVideoMemory_cacheable
	i.u.LockVideoMemory.cacheable = 0;
#endif
#ifdef HAS_LockVideoMemory_op
	i.u.LockVideoMemory.op = parts;
#endif
	MUST(call(s, &i, CMD_LOCK_VIDEO_MEMORY));
	if (parts & PART_LOCK)
		m->address = i.u.LockVideoMemory.address;
	if (parts & PART_MAP)
		m->words = POINTER(i.u.LockVideoMemory.memory);
	return 0;
}

static int lock(struct session *s, struct memory *m)
{
	int in_parts = 0;

#ifdef HAS_LockVideoMemory_op
	in_parts = any() % 3 == 0;
#endif
	/* No part, then one part after the other. */
	if (in_parts ? lock_parts(s, m, 0) || lock_parts(s, m, PART_LOCK) ||
			       lock_parts(s, m, PART_MAP) :
		       lock_parts(s, m, PART_LOCK | PART_MAP))
		return -1;
	if (m->address == 0 || m->words == NULL)
		return because("locked at %#x, %p", m->address, (void *)m->words);
	return 0;
}

static int unlock_parts(struct session *s, const struct memory *m, uint32_t parts)
{
	struct abi_interface i;

	(void)parts;
	begin(&i);
	i.u.UnlockVideoMemory.node = m->node;
	i.u.UnlockVideoMemory.type = VALUE_SURF_BITMAP;
#ifdef HAS_UnlockVideoMemory_op
	i.u.UnlockVideoMemory.op = parts;
#endif
	MUST(call(s, &i, CMD_UNLOCK_VIDEO_MEMORY));
	return i.u.UnlockVideoMemory.asynchroneous != 0;
}

static int unlock(struct session *s, const struct memory *m)
{
#ifdef HAS_UnlockVideoMemory_op
	if (any() % 3 == 0) {
		if (unlock_parts(s, m, 0) < 0 || unlock_parts(s, m, PART_UNMAP) < 0)
			return -1;
		return unlock_parts(s, m, PART_UNLOCK);
	}
#endif
	return unlock_parts(s, m, PART_UNLOCK | PART_UNMAP);
}

static int release(struct session *s, const struct memory *m)
{
	struct abi_interface i;

	begin(&i);
#ifdef CMD_RELEASE_VIDEO_MEMORY
	i.u.ReleaseVideoMemory.node = m->node;
	return call(s, &i, CMD_RELEASE_VIDEO_MEMORY);
#else
	i.u.FreeVideoMemory.node = m->node;
	return call(s, &i, CMD_FREE_VIDEO_MEMORY);
#endif
}

static int map(struct session *s, struct memory *m, void *at, uint32_t bytes)
{
#ifdef CMD_MAP_USER_MEMORY
	struct abi_interface i;

	begin(&i);
	i.u.MapUserMemory.memory = PTR(at);
	i.u.MapUserMemory.size = bytes;
#ifdef HAS_MapUserMemory_physical
	i.u.MapUserMemory.physical = ~0u;
#endif
	MUST(call(s, &i, CMD_MAP_USER_MEMORY));
	m->address = i.u.MapUserMemory.address;
	m->info = i.u.MapUserMemory.info;
	m->node = 0;
	m->pool = 0;
	m->bytes = bytes;
	m->words = at;
	return 0;
#else
	(void)s, (void)m, (void)at, (void)bytes;
	return because("no MAP_USER_MEMORY");
#endif
}

static int wrap(struct session *s, struct memory *m, void *at, uint32_t bytes)
{
#ifdef CMD_WRAP_USER_MEMORY
	struct abi_interface i;

	begin(&i);
#ifdef VALUE_ALLOC_FLAG_USERMEMORY
	i.u.WrapUserMemory.desc_flag = VALUE_ALLOC_FLAG_USERMEMORY;
#endif
	i.u.WrapUserMemory.desc_logical = PTR(at);
	i.u.WrapUserMemory.desc_physical = -1;
	i.u.WrapUserMemory.desc_size = bytes;
#ifdef HAS_WrapUserMemory_type
	i.u.WrapUserMemory.type = VALUE_SURF_BITMAP;
#endif
	MUST(call(s, &i, CMD_WRAP_USER_MEMORY));
	m->node = i.u.WrapUserMemory.node;
	m->pool = 0;
	m->bytes = bytes;
	m->info = 0;
	if (lock(s, m))
		return -1;
	if (m->words != at)
		return because("%p is wrapped, and locked at %p", at, (void *)m->words);
	return 0;
#else
	(void)s, (void)m, (void)at, (void)bytes;
	return because("no WRAP_USER_MEMORY");
#endif
}

static int unmap(struct session *s, const struct memory *m)
{
#ifdef CMD_UNMAP_USER_MEMORY
	struct abi_interface i;

	begin(&i);
	i.u.UnmapUserMemory.memory = PTR(m->words);
	i.u.UnmapUserMemory.size = m->bytes;
	i.u.UnmapUserMemory.info = m->info;
	i.u.UnmapUserMemory.address = m->address;
	MUST(call(s, &i, CMD_UNMAP_USER_MEMORY));
	return 0;
#else
	(void)s, (void)m;
	return because("no UNMAP_USER_MEMORY");
#endif
}

static int cache(struct session *s, const struct memory *m, enum cache what)
{
	struct abi_interface i;

	begin(&i);
#ifdef HAS_Cache_operation
	i.u.Cache.operation = what;
#endif
#ifdef HAS_Cache_invalidate
	i.u.Cache.invalidate = what != CACHE_CLEAN;
#endif
#ifdef HAS_Cache_node
	i.u.Cache.node = m->node;
#endif
#ifdef HAS_Cache_offset
	i.u.Cache.offset = 0;
#endif
	i.u.Cache.process = getpid();
	i.u.Cache.logical = PTR(m->words);
	i.u.Cache.bytes = m->bytes;
	MUST(call(s, &i, CMD_CACHE));
	return 0;
}

static int signal_command(struct session *s, struct abi_interface *i, uint32_t command)
{
	/* gcvUSER_SIGNAL_CREATE, DESTROY, SIGNAL, WAIT are 0 to 3 in all generations. */
	i->u.UserSignal.command = command;
	return call(s, i, CMD_USER_SIGNAL);
}

static int make_signal(struct session *s, int32_t *signal)
{
	struct abi_interface i;

	begin(&i);
	i.u.UserSignal.manualReset = 0;
#ifdef HAS_UserSignal_signalType
	i.u.UserSignal.signalType = 0;
#endif
	MUST(signal_command(s, &i, 0));
	*signal = i.u.UserSignal.id;
	return 0;
}

static int destroy_signal(struct session *s, int32_t signal)
{
	struct abi_interface i;

	begin(&i);
	i.u.UserSignal.id = signal;
	MUST(signal_command(s, &i, 1));
	return 0;
}

static int wait_signal(struct session *s, int32_t signal, uint32_t milliseconds)
{
	struct abi_interface i;

	begin(&i);
	i.u.UserSignal.id = signal;
	i.u.UserSignal.wait = milliseconds;
	return signal_command(s, &i, 3);
}

/* Records in memory that is freed right after the call. */
static struct abi_gcsQUEUE *records(const struct event *events, unsigned int number)
{
	struct abi_gcsQUEUE *first = take((number + !number) * sizeof(*first));
	unsigned int n;

	for (n = 0; n < number; n++) {
		const struct event *event = &events[n];
		struct abi_gcsQUEUE *record = &first[n];

		record->next = n + 1 < number ? PTR(record + 1) : 0;
		switch (event->kind) {
		case EVENT_SIGNAL: {
			struct abi_Signal *signal = (void *)record->u;

			record->iface = CMD_SIGNAL;
			signal->signal = event->signal;
			signal->auxSignal = 0;
			signal->process = MAY_LEAVE_PROCESS && any() % 2 ? 0 : getpid();
			signal->fromWhere = 1;
			break;
		}
		case EVENT_UNLOCK: {
			struct unlock_record *unlock = (void *)record->u;

			record->iface = UNLOCK_RECORD;
			unlock->node = event->memory->node;
			unlock->type = VALUE_SURF_BITMAP;
			break;
		}
		case EVENT_FREE: {
#ifdef CMD_FREE_VIDEO_MEMORY
			struct abi_FreeVideoMemory *free = (void *)record->u;

			record->iface = CMD_FREE_VIDEO_MEMORY;
			free->node = event->memory->node;
#endif
			break;
		}
		case EVENT_UNMAP: {
#ifdef CMD_UNMAP_USER_MEMORY
			struct abi_UnmapUserMemory *unmap = (void *)record->u;

			record->iface = CMD_UNMAP_USER_MEMORY;
			unmap->memory = PTR(event->memory->words);
			unmap->size = event->memory->bytes;
			unmap->info = event->memory->info;
			unmap->address = event->memory->address;
#endif
			break;
		}
		case EVENT_UNKNOWN:
			record->iface = CMD_QUERY_VIDEO_MEMORY;
			break;
		}
	}
	return first;
}

static void drop_records(struct abi_gcsQUEUE *first, unsigned int number)
{
	give_back(first, (number + !number) * sizeof(*first));
}

static int commit_queue(struct session *s, const struct event *events, unsigned int number)
{
	struct abi_gcsQUEUE *queue = records(events, number);
	struct abi_interface i;
	int status;

	begin(&i);
#ifdef HAS_header_engine
	i.engine = 0;
#endif
#ifdef HAS_Event_engine
	i.u.Event.engine = 0;
#endif
	i.u.Event.queue = number ? PTR(queue) : 0;
#ifdef CMD_EVENT_COMMIT
	status = call(s, &i, CMD_EVENT_COMMIT);
#endif
	drop_records(queue, number);
	MUST(status);
	return 0;
}

/* Waits for all commits of the session. */
static int idle(struct session *s)
{
	const struct event done = { .kind = EVENT_SIGNAL, .signal = s->done };

	if (commit_queue(s, &done, 1))
		return -1;
	MUST(wait_signal(s, s->done, FOREVER));
	return 0;
}

/* Allocates command memory of the kind that the generation's drivers execute. */
static int command_memory(struct session *s, struct memory *m, uint32_t *handle)
{
#if defined(CMD_RELEASE_VIDEO_MEMORY) && defined(CMD_ALLOCATE_VIRTUAL_COMMAND_BUFFER)
	struct abi_interface i;

	begin(&i);
	i.u.AllocateVirtualCommandBuffer.bytes = COMMAND_BYTES;
	MUST(call(s, &i, CMD_ALLOCATE_VIRTUAL_COMMAND_BUFFER));
	*handle = i.u.AllocateVirtualCommandBuffer.physical;
	m->words = POINTER(i.u.AllocateVirtualCommandBuffer.logical);
	m->bytes = i.u.AllocateVirtualCommandBuffer.bytes;
#elif defined(CMD_ALLOCATE_CONTIGUOUS_MEMORY)
	struct abi_interface i;

	begin(&i);
	i.u.AllocateContiguousMemory.bytes = COMMAND_BYTES;
	MUST(call(s, &i, CMD_ALLOCATE_CONTIGUOUS_MEMORY));
	*handle = i.u.AllocateContiguousMemory.physical;
	m->words = POINTER(i.u.AllocateContiguousMemory.logical);
	m->bytes = i.u.AllocateContiguousMemory.bytes;
#else
	*handle = 0;
	if (allocate_type(s, m, COMMAND_BYTES, TYPE_COMMAND, POOL_DEFAULT) || lock(s, m))
		return -1;
#endif
	if (m->words == NULL || m->bytes < COMMAND_BYTES)
		return because("%u bytes at %p", m->bytes, (void *)m->words);
	return 0;
}

static int free_command_memory(struct session *s, struct memory *m, uint32_t handle)
{
#if defined(CMD_RELEASE_VIDEO_MEMORY) && defined(CMD_ALLOCATE_VIRTUAL_COMMAND_BUFFER)
	struct abi_interface i;

	begin(&i);
	i.u.FreeVirtualCommandBuffer.bytes = m->bytes;
	i.u.FreeVirtualCommandBuffer.physical = handle;
	i.u.FreeVirtualCommandBuffer.logical = PTR(m->words);
	MUST(call(s, &i, CMD_FREE_VIRTUAL_COMMAND_BUFFER));
#elif defined(CMD_ALLOCATE_CONTIGUOUS_MEMORY)
	struct abi_interface i;

	begin(&i);
	i.u.FreeContiguousMemory.bytes = m->bytes;
	i.u.FreeContiguousMemory.physical = handle;
	i.u.FreeContiguousMemory.logical = PTR(m->words);
	MUST(call(s, &i, CMD_FREE_CONTIGUOUS_MEMORY));
#else
	const struct event record = { .kind = EVENT_UNLOCK, .memory = m };
	int later = unlock(s, m);

	(void)handle;
	if (later < 0 || (later && commit_queue(s, &record, 1)))
		return -1;
	MUST(release(s, m));
#endif
	return 0;
}

#ifdef CMD_ATTACH
#define DELTA_BYTES sizeof(struct abi_gcsSTATE_DELTA)
#define RECORDS_BYTES (MOST_STATES * sizeof(struct abi_gcsSTATE_DELTA_RECORD))

static void drop_delta(struct session *s, unsigned int which)
{
	give_back(s->deltas[which].delta, DELTA_BYTES);
	give_back(s->deltas[which].records, RECORDS_BYTES);
	s->deltas[which].delta = NULL;
	s->deltas[which].records = NULL;
}

static void drop_deltas(struct session *s)
{
	unsigned int n;

	for (n = 0; n < MOST_DELTAS; n++)
		drop_delta(s, n);
}

static void put_record(struct abi_gcsSTATE_DELTA_RECORD *records, uint32_t *count, uint32_t address,
		       uint32_t value)
{
	uint32_t n;

	for (n = 0; n < *count && records[n].address != address / 4; n++)
		;
	if (n == MOST_STATES)
		abort();
	if (n == *count)
		++*count;
	records[n].address = address / 4;
	records[n].mask = n % 2 ? ~0u : 0;
	records[n].data = value;
}

/* Adds the states loaded since the last delta to a delta. */
static void collect(struct session *s, unsigned int which)
{
	struct abi_gcsSTATE_DELTA *delta = s->deltas[which].delta;
	uint32_t count = delta->recordCount;
	unsigned int n;

	for (n = 0; n < s->states_count; n++)
		put_record(s->deltas[which].records, &count, s->states_loaded[n].address,
			   s->states_loaded[n].value);
	delta->recordCount = count;
	/* From 6.2 on the number is one larger, to distinguish zero elements from no change. */
	if (s->elements)
#ifdef HAS_header_coreIndex
		delta->elementCount = s->elements + 1;
#else
		delta->elementCount = s->elements;
#endif
}

/* The delta with all changes. */
static uint64_t delta(struct session *s)
{
	struct abi_gcsSTATE_DELTA *delta = s->deltas[s->current].delta;

	if (delta == NULL) {
		delta = take(sizeof(*delta));
		s->deltas[s->current].delta = delta;
		s->deltas[s->current].records = take(RECORDS_BYTES);
	}
#ifdef HAS_gcsSTATE_DELTA_refCount
	delta->refCount = 0;
#endif
	delta->elementCount = 0;
	delta->recordCount = 0;
	delta->recordArray = PTR(s->deltas[s->current].records);
#ifdef HAS_gcsSTATE_DELTA_prev
	delta->prev = PTR(delta);
	delta->next = PTR(delta);
#endif
	collect(s, s->current);
	return PTR(delta);
}

/* Called after a COMMIT, which may have switched contexts. */
static int let_go_of_delta(struct session *s, int has_switched)
{
#ifdef HAS_gcsSTATE_DELTA_refCount
	struct abi_gcsSTATE_DELTA *delta = s->deltas[s->current].delta;
	unsigned int n;

	(void)has_switched;
	if ((int32_t)delta->refCount > 0) {
		s->previous = s->current;
		s->has_previous = 1;
		/* Frees the deltas that the driver has released. */
		for (n = 0; n < MOST_DELTAS; n++) {
			delta = s->deltas[n].delta;
			if (delta && (int32_t)delta->refCount <= 0)
				drop_delta(s, n);
			if (s->deltas[n].delta == NULL)
				s->current = n;
		}
		if (s->current == s->previous)
			return because("the driver keeps all of %u deltas", MOST_DELTAS);
	} else {
		/* The driver did not take it: add its records to the delta that the driver has, or to the next
		 * one. */
		drop_delta(s, s->current);
		if (!s->has_previous)
			return 0;
		collect(s, s->previous);
	}
	s->states_count = 0;
	s->elements = 0;
#else
	drop_delta(s, s->current);
	/* Without a switch, the states are collected further. */
	if (has_switched) {
		s->states_count = 0;
		s->elements = 0;
	}
#endif
	return 0;
}
#endif

static int attach(struct session *s)
{
#ifdef CMD_ATTACH
	struct abi_interface i;

	begin(&i);
#ifdef HAS_Attach_map
	i.u.Attach.map = 0;
#endif
#ifdef HAS_Attach_shared
	i.u.Attach.shared = 0;
#endif
	MUST(call(s, &i, CMD_ATTACH));
	s->context = i.u.Attach.context;
#else
	struct abi_gcoCONTEXT *context = take(sizeof(*context));
	volatile uint32_t *words;
	unsigned int n;

	if (command_memory(s, &s->states, &s->states_handle))
		return -1;
	/* 32 bytes for a pipe switch, one state, and space for a LINK. */
	words = s->states.words;
	for (n = 0; n < 12; n++)
		words[n] = any();
	words[8] = 0x08010000 | (s->engine == ENGINE_2D ? 0x1260 : 0x1604) / 4;
	words[9] = 0;
	context->object_type = OBJECT_CONTEXT;
	context->id = 0;
	context->pipe2DIndex = 2;
	context->bufferSize = s->states.bytes;
	context->logical = PTR(words);
	context->link = PTR(words + 10);
	context->initialPipe = s->engine;
	context->entryPipe = s->engine;
	context->currentPipe = s->engine;
	context->inUse = PTR(&s->in_use);
	s->own_context = context;
#endif
	return 0;
}

/* Selects the generation. */
static int say(int fd)
{
	char name[16] = ABI_NAME;

	if (ioctl(fd, SAY, name))
		return because("%s is no generation's name: %s", name, strerror(errno));
	return 0;
}

/* Rejects the version of another build, whose interface would be incompatible. */
static int is_own_version(struct session *s)
{
#ifdef CMD_VERSION
	static const uint32_t built[] = { ABI_VERSION };
	const uint32_t *own = claimed_version ? claimed_version : built;
	struct abi_interface i;

	begin(&i);
	MUST(call(s, &i, CMD_VERSION));
	if (i.u.Version.major != own[0] || i.u.Version.minor != own[1] ||
	    i.u.Version.patch != own[2] || i.u.Version.build != own[3])
		return because("VERSION is %u.%u.%u.%u", i.u.Version.major, i.u.Version.minor,
			       i.u.Version.patch, i.u.Version.build);
#else
	(void)s;
#endif
	return 0;
}

static int start(struct session *s, enum engine engine, int fd)
{
	memset(s, 0, sizeof(*s));
	s->library = &LIBRARY;
	s->engine = engine;
	s->is_guest = fd >= 0;
	s->fd = fd >= 0 ? fd : open("/dev/galcore", O_RDWR);
	if (s->fd < 0)
		return because("/dev/galcore: %s", strerror(errno));
	if ((manner == INSISTS || (manner == PLAIN && IS_SILENT)) && fd < 0 && say(s->fd))
		return -1;
	if (manner != PLAIN && is_own_version(s))
		return -1;
	/* The pool is mapped before the first question about the cores. */
	if (query_memory(s))
		return -1;
#ifndef HAS_LockVideoMemory_op
	if (fd < 0 && map_pool(s))
		return -1;
#endif
	if (choose(s) || query_identity(s))
		return -1;
	s->board_2d |= (s->features & 0x200) != 0;
	s->board_3d |= (s->features & 1) != 0;
	if (MAY_LEAVE_HARDWARE && engine == ENGINE_3D && s->board_3d && any() % 2)
		s->hardware = 0;
	if (attach(s) || make_signal(s, &s->done))
		return -1;
	return command_memory(s, &s->commands, &s->commands_handle);
}

static int stop(struct session *s)
{
#ifdef CMD_DETACH
	struct abi_interface i;
#endif

	if (idle(s))
		return -1;
	if (free_command_memory(s, &s->commands, s->commands_handle) ||
	    destroy_signal(s, s->done))
		return -1;
#ifdef CMD_DETACH
	begin(&i);
	i.u.Detach.context = s->context;
	MUST(call(s, &i, CMD_DETACH));
	drop_deltas(s);
#else
	give_back(s->own_context, sizeof(struct abi_gcoCONTEXT));
	if (free_command_memory(s, &s->states, s->states_handle))
		return -1;
#endif
#ifndef HAS_LockVideoMemory_op
	if (s->pool && unmap_pool(s))
		return -1;
#endif
	if (!s->is_guest)
		close(s->fd);
	return 0;
}

static void remember(struct session *s, uint32_t address, uint32_t value)
{
	unsigned int n;

	for (n = 0; n < s->states_count && s->states_loaded[n].address != address; n++)
		;
	if (n == MOST_STATES)
		abort();
	if (n == s->states_count)
		s->states_count++;
	s->states_loaded[n].address = address;
	s->states_loaded[n].value = value;
}

static void use_elements(struct session *s, unsigned int count)
{
	s->elements = count;
}

#ifndef CMD_ATTACH
/* Writes the context's buffer with the states that the next commands find. */
static void rewrite_states(struct session *s)
{
	struct abi_gcoCONTEXT *context = s->own_context;
	volatile uint32_t *to = s->states.words + 8;
	unsigned int n;

	if (s->states_count == 0)
		return;
	for (n = 0; n < s->states_count; n++) {
		*to++ = 0x08010000 | s->states_loaded[n].address / 4;
		*to++ = s->states_loaded[n].value;
	}
	context->link = PTR(to);
	*to++ = any();
	*to++ = any();
}
#endif

/* Describes and sends the commands from start on, with this number of bytes, in the generation's
 * format. */
static int send(struct session *s, uint32_t start, uint32_t bytes, enum entry entry,
		const struct event *events, unsigned int number)
{
	const uint32_t entry_pipe = entry == ENTRY_NAMED ? s->engine : 0;
	const uint32_t exit_pipe = entry == ENTRY_SELECTED_AND_BACK ? 0 : s->engine;
	struct abi_interface i;
	int status;
#ifdef CMD_ATTACH
	struct abi_gcsQUEUE *queue = records(events, number);
#endif
#if !defined(HAS_Commit_subCommit_context)
	struct abi_gcoCMDBUF on_stack, *b = &on_stack;
	/* On the stack or in separate memory. */
	struct abi_gcoCMDBUF *apart = take(sizeof(*apart));

	if (s->commits % 2)
		b = apart;
	scribble(b, sizeof(*b));
	b->object_type = OBJECT_COMMANDS;
#ifdef HAS_gcoCMDBUF_entryPipe
	b->entryPipe = entry_pipe;
	b->exitPipe = exit_pipe;
	b->using2D = s->engine == ENGINE_2D;
	b->using3D = s->engine == ENGINE_3D;
#endif
#ifdef HAS_gcoCMDBUF_usingFilterBlit
	b->usingFilterBlit = 0;
	b->usingPalette = 0;
#endif
#ifdef HAS_gcoCMDBUF_reservedTail
	b->reservedTail = TAIL;
#endif
#ifdef HAS_gcoCMDBUF_reservedHead
	b->reservedHead = HEAD;
#endif
#ifdef HAS_gcoCMDBUF_patchHead
	b->patchHead = 0;
#endif
#ifdef HAS_gcoCMDBUF_nextCMDBUF
	b->nextCMDBUF = 0;
#endif
	b->physical = s->commands_handle;
	b->logical = PTR(s->commands.words);
	b->bytes = s->commands.bytes;
	b->startOffset = start;
	b->offset = start + HEAD + bytes;
	b->free = s->commands.bytes - b->offset - TAIL;
#endif
	begin(&i);
#ifdef HAS_header_engine
	i.engine = 0;
#endif
#if defined(HAS_Commit_subCommit_context)
	/* Some authors set these fields by name, and others leave them unset. No core here is one of
	 * several. */
	i.u.Commit.subCommit_coreId = 0;
	i.u.Commit.subCommit_delta = delta(s);
	i.u.Commit.subCommit_context = s->context;
	i.u.Commit.subCommit_queue = number ? PTR(queue) : 0;
	i.u.Commit.subCommit_next = 0;
	i.u.Commit.subCommit_commandBuffer_videoMemNode = s->commands.node;
	i.u.Commit.subCommit_commandBuffer_address = s->commands.address;
	i.u.Commit.subCommit_commandBuffer_logical = PTR(s->commands.words);
	i.u.Commit.subCommit_commandBuffer_startOffset = start;
	i.u.Commit.subCommit_commandBuffer_size = HEAD + bytes + TAIL;
	i.u.Commit.subCommit_commandBuffer_reservedHead = HEAD;
	i.u.Commit.subCommit_commandBuffer_reservedTail = TAIL;
	i.u.Commit.subCommit_commandBuffer_patchHead = 0;
	i.u.Commit.subCommit_commandBuffer_entryPipe = entry_pipe;
	i.u.Commit.subCommit_commandBuffer_exitPipe = exit_pipe;
	i.u.Commit.subCommit_commandBuffer_next = 0;
	i.u.Commit.shared = 0;
#elif defined(CMD_ATTACH)
	i.u.Commit.context = s->context;
	i.u.Commit.commandBuffer = PTR(b);
	i.u.Commit.delta = delta(s);
	i.u.Commit.queue = number ? PTR(queue) : 0;
#ifdef HAS_Commit_commandBuffers
	{
		/* Arrays of 64-bit words, one per core; the single fields point to them. */
		uint64_t one;

		one = s->context;
		memcpy(i.u.Commit.contexts, &one, sizeof(one));
		one = PTR(b);
		memcpy(i.u.Commit.commandBuffers, &one, sizeof(one));
		one = i.u.Commit.delta;
		memcpy(i.u.Commit.deltas, &one, sizeof(one));
		i.u.Commit.context = PTR(i.u.Commit.contexts);
		i.u.Commit.commandBuffer = PTR(i.u.Commit.commandBuffers);
		i.u.Commit.delta = PTR(i.u.Commit.deltas);
	}
#ifdef HAS_Commit_engine
	i.u.Commit.engine = 0;
#endif
	i.u.Commit.shared = 0;
	i.u.Commit.index = 0;
	i.u.Commit.count = 1;
#endif
#else
	{
		struct abi_gcoCONTEXT *context = s->own_context;

		context->entryPipe = entry_pipe;
		context->currentPipe = exit_pipe;
		i.u.Commit.commandBuffer = PTR(b);
		i.u.Commit.contextBuffer = PTR(context);
		i.u.Commit.process = getpid();
	}
#endif
	status = call(s, &i, CMD_COMMIT);
#ifndef CMD_ATTACH
	rewrite_states(s);
#endif
#if !defined(HAS_Commit_subCommit_context)
	scribble(&on_stack, sizeof(on_stack));
	give_back(apart, sizeof(*apart));
#endif
#ifdef CMD_ATTACH
	drop_records(queue, number);
#endif
	MUST(status);
#ifdef CMD_ATTACH
#ifdef HAS_Commit_contextSwitched
	return let_go_of_delta(s, i.u.Commit.contextSwitched != 0);
#else
	return let_go_of_delta(s, 0);
#endif
#else
	if (number)
		return commit_queue(s, events, number);
	return 0;
#endif
}

static int commit(struct session *s, const uint32_t *words, unsigned int count, enum entry entry,
		  const struct event *events, unsigned int number)
{
	/* Flush of the previous engine, wait, select. */
	const uint32_t select[] = { 0x08010e03, 3,     0x08010e02, 0x701,
				    0x48000000, 0x701, 0x08010e00, 1 };
	const uint32_t back[] = { 0x08010e03, 8,     0x08010e02, 0x701,
				  0x48000000, 0x701, 0x08010e00, 0 };
	const uint32_t room = HEAD + count * 4 + sizeof(select) + sizeof(back) + TAIL;
	volatile uint32_t *to;
	uint32_t start, n;

	if (room > s->commands.bytes)
		return because("%u words of commands", count);
	if (s->used + room > s->commands.bytes) {
		if (idle(s))
			return -1;
		s->used = 0;
	}
	start = s->used;
	to = s->commands.words + start / 4;
	for (n = 0; n < HEAD / 4; n++)
		*to++ = any();
	for (n = 0; entry != ENTRY_NAMED && n < sizeof(select) / 4; n++)
		*to++ = select[n];
	for (n = 0; n < count; n++)
		*to++ = words[n];
	for (n = 0; entry == ENTRY_SELECTED_AND_BACK && n < sizeof(back) / 4; n++)
		*to++ = back[n];
	n = (to - s->commands.words) * 4 - start - HEAD;
	*to++ = any();
	*to++ = any();
	s->used = start + HEAD + n + TAIL;
	s->commits++;
	return send(s, start, n, entry, events, number);
}

/* Random but plausible words, in place of the real arguments. */
#define SCRATCH_BYTES 16384u

static uint64_t word(const char *scratch)
{
	switch (any() % 12) {
	case 0:
	case 1:
	case 2:
		return 0;
	case 3:
	case 4:
		return any() % 8;
	case 5:
	case 6:
		return any() % 64;
	case 7:
	case 8:
		return PTR(scratch + any() % SCRATCH_BYTES / (any() % 8 ? 64 : 1) * 64);
	case 9:
		return any() % 0x10000 * 4096ull;
	case 10:
		return -(uint64_t)(any() % 4);
	default:
		return (uint64_t)any() << 32 | any();
	}
}

static void put_words(void *to, size_t bytes, const char *scratch)
{
	/* 32-bit and 64-bit words, at multiples of 4. */
	char *at = to;

	while (bytes >= 4) {
		const uint64_t value = word(scratch);
		const size_t step = bytes >= 8 && any() % 2 ? 8 : 4;

		memcpy(at, &value, step);
		at += step;
		bytes -= step;
	}
}

/* Less than most, or more than can exist. */
static uint32_t some(uint32_t most)
{
	return any() % 8 ? any() % most : -(any() % 0x10000000);
}

/* Limits values that would only take time, or all of the memory. */
static void restrain(struct abi_interface *i, uint32_t command, const char *scratch)
{
	(void)scratch;
	switch (command) {
	case CMD_ALLOCATE_LINEAR_VIDEO_MEMORY:
		i->u.AllocateLinearVideoMemory.bytes = some(1 << 18);
		break;
#ifdef CMD_ALLOCATE_CONTIGUOUS_MEMORY
	case CMD_ALLOCATE_CONTIGUOUS_MEMORY:
		i->u.AllocateContiguousMemory.bytes = some(1 << 16);
		break;
#endif
#ifdef CMD_ALLOCATE_NON_PAGED_MEMORY
	case CMD_ALLOCATE_NON_PAGED_MEMORY:
		i->u.AllocateNonPagedMemory.bytes = some(1 << 16);
		break;
#endif
#ifdef CMD_ALLOCATE_VIDEO_MEMORY
	case CMD_ALLOCATE_VIDEO_MEMORY:
		i->u.AllocateVideoMemory.width = some(256);
		i->u.AllocateVideoMemory.height = some(256);
		i->u.AllocateVideoMemory.depth = some(2);
		break;
#endif
	case CMD_USER_SIGNAL:
		i->u.UserSignal.wait = any() % 2 * 2;
		break;
#ifdef CMD_WAIT_NATIVE_FENCE
	case CMD_WAIT_NATIVE_FENCE:
		i->u.WaitNativeFence.timeout = any() % 2 * 2;
		i->u.WaitNativeFence.fenceFD = any() % 16;
		break;
#endif
#ifdef CMD_SHBUF
	case CMD_SHBUF:
		i->u.ShBuf.command = some(6);
		i->u.ShBuf.bytes = some(1100);
		break;
#endif
#ifdef CMD_WRAP_USER_MEMORY
	case CMD_WRAP_USER_MEMORY:
		i->u.WrapUserMemory.desc_size = some(1 << 16);
		i->u.WrapUserMemory.desc_handle = any() % 16;
		i->u.WrapUserMemory.desc_flag = any() % 3 ? VALUE_ALLOC_FLAG_USERMEMORY :
							    VALUE_ALLOC_FLAG_DMABUF;
		if (any() % 4) {
			i->u.WrapUserMemory.desc_logical = PTR(scratch);
			i->u.WrapUserMemory.desc_physical = -1;
		}
		break;
#endif
	default:
		break;
	}
}

static int fuzz(unsigned int calls, uint32_t *statuses)
{
	static const uint32_t marks[] = { OBJECT_COMMANDS, OBJECT_CONTEXT };
	struct session session = { 0 }, *s = &session;
	char *scratch = take(SCRATCH_BYTES);
	unsigned int n;

	s->fd = open("/dev/galcore", O_RDWR);
	if (s->fd < 0)
		return because("/dev/galcore: %s", strerror(errno));
	if (say(s->fd))
		return -1;
	put_words(scratch, SCRATCH_BYTES, scratch);
	for (n = 0; n < SCRATCH_BYTES / 512; n++)
		memcpy(scratch + any() % (SCRATCH_BYTES / 64) * 64, &marks[any() % 2], 4);
	for (n = 0; n < calls; n++) {
		/* One more than the number of commands. */
		const uint32_t command = any() % (CMD_LAST + 2);
		struct abi_interface i;
		int status;

		put_words(&i, sizeof(i), scratch);
#ifdef HAS_header_coreIndex
		i.coreIndex = any() % 4 ? 0 : any() % 8;
#endif
#ifdef HAS_header_devIndex
		i.devIndex = any() % 4 ? 0 : any() % 8;
#endif
		restrain(&i, command, scratch);
		s->hardware = any() % 9;
		status = send_as_it_is(s, &i, command);
		if (status == ERRNO + ENOTTY)
			*statuses |= 1u << 31;
		/* A register of a core that is off; unreadable memory. */
		else if (status == 11 || status == 13)
			*statuses |= 1u << (status + 16);
		else if (status <= 0 && status >= -26)
			*statuses |= 1u << -status;
		else
			return because("command %u: %d", command, status);
	}
	give_back(scratch, SCRATCH_BYTES);
	/* Also closes the descriptors that calls returned. */
	close_range(s->fd, ~0u, 0);
	return 0;
}

const struct library LIBRARY = {
	.name = ABI_NAME,
	.is_silent = IS_SILENT,
	.fuzz = fuzz,
	.start = start,
	.stop = stop,
	.query = query,
	.allocate = allocate,
	.lock = lock,
	.unlock = unlock,
	.release = release,
	.map = map,
	.wrap = wrap,
	.unmap = unmap,
	.cache = cache,
	.signal = make_signal,
	.destroy = destroy_signal,
	.wait = wait_signal,
	.commit = commit,
	.remember = remember,
	.use_elements = use_elements,
	.queue = commit_queue,
#ifdef HAS_ChipInfo_types
	.names_cores = 1,
#endif
#ifdef CMD_WRAP_USER_MEMORY
	.has_wrap = 1,
#endif
#ifdef CMD_MAP_USER_MEMORY
	.has_map = 1,
#endif
#ifdef CMD_RELEASE_VIDEO_MEMORY
	.releases = 1,
#endif
#ifdef CMD_ATTACH
	.has_contexts = 1,
#endif
#if !defined(CMD_ATTACH) || defined(CMD_RELEASE_VIDEO_MEMORY)
	.counts_locks = 1,
#endif
};

#endif
