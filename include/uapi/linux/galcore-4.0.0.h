/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The user interface of the galcore driver as i.MX6 release 4.0.0 has it (4.6.9,
 * build 1210). A newer one is in <linux/galcore.h>, of which this takes the place.
 *
 * A client opens /dev/galcore (or /dev/graphics/galcore), fills in a
 * struct gcsHAL_INTERFACE and passes it through ioctl() with the request
 * IOCTL_GCHAL_INTERFACE and a struct gcsDRIVER_ARGS. The interface is a
 * command number, a status and a union with one member for each command;
 * the same bytes carry the request in and the answer out.
 *
 * The ioctl itself answers 0 whenever the command was looked at, whether it
 * succeeded or not: the result is in @status (0, or a negative
 * enum gceSTATUS), and the whole interface is copied back. It fails with
 * ENOTTY when the request never became a command: an unknown request number,
 * sizes that are not those of this generation, memory that cannot be read or
 * written, a hardware type outside 0..7. It fails with EINTR (or is restarted,
 * as the signal's action says) when a Unix signal ended a wait; then at most
 * @status is written, with a number by which the restarted call continues.
 *
 * Pointers travel as __u64, so a 32-bit and a 64-bit client use the same
 * layout; all padding is written out. Handles (@node, @physical, @info, @id,
 * @context) are small numbers that mean nothing outside the process they were
 * made in, by whatever file of it; 0 is never one.
 *
 * mmap() at offset 0 shows the SYSTEM pool, at GALCORE_COMPLETION_OFFSET the
 * completion page, which is this driver's own.
 *
 * Requests whose number this generation defines but whose member is not in
 * the default build of it (profiler counters, virtual command buffers, the
 * vector graphics core) are listed without a layout.
 */
#ifndef _UAPI_LINUX_GALCORE_4_0_0_H
#define _UAPI_LINUX_GALCORE_4_0_0_H

#ifdef _UAPI_LINUX_GALCORE_H
#error "a program speaks one generation: <linux/galcore.h> is included already"
#endif

#include <linux/galcore-common.h>

/* What VERSION answers. */
#define gcvVERSION_MAJOR		4
#define gcvVERSION_MINOR		6
#define gcvVERSION_PATCH		9
#define gcvVERSION_BUILD		1210

/* Marks a struct gcoCMDBUF: the letters "CMDB". */
#define gcvOBJ_COMMANDBUFFER		0x42444d43

/*
 * Room that a client leaves in each command buffer for the driver: before its
 * own commands, and behind them. Commands start on 8 bytes.
 */
#define gcdCOMMAND_RESERVED_HEAD	32
#define gcdCOMMAND_RESERVED_TAIL	8
#define gcdCOMMAND_ALIGNMENT		8

/* Command numbers, gcsHAL_INTERFACE.command. */
enum gceHAL_COMMAND_CODES {
	gcvHAL_QUERY_VIDEO_MEMORY		= 0,
	gcvHAL_QUERY_CHIP_IDENTITY		= 1,
	gcvHAL_ALLOCATE_NON_PAGED_MEMORY	= 2,
	gcvHAL_FREE_NON_PAGED_MEMORY		= 3,
	gcvHAL_ALLOCATE_CONTIGUOUS_MEMORY	= 4,
	gcvHAL_FREE_CONTIGUOUS_MEMORY		= 5,
	gcvHAL_ALLOCATE_VIDEO_MEMORY		= 6,
	gcvHAL_ALLOCATE_LINEAR_VIDEO_MEMORY	= 7,
	gcvHAL_FREE_VIDEO_MEMORY		= 8,
	gcvHAL_MAP_MEMORY			= 9,
	gcvHAL_UNMAP_MEMORY			= 10,
	gcvHAL_MAP_USER_MEMORY			= 11,
	gcvHAL_UNMAP_USER_MEMORY		= 12,
	gcvHAL_LOCK_VIDEO_MEMORY		= 13,
	gcvHAL_UNLOCK_VIDEO_MEMORY		= 14,
	gcvHAL_EVENT_COMMIT			= 15,
	gcvHAL_USER_SIGNAL			= 16,
	gcvHAL_SIGNAL				= 17,	/* in a queue only */
	gcvHAL_WRITE_DATA			= 18,	/* in a queue only */
	gcvHAL_COMMIT				= 19,
	gcvHAL_STALL				= 20,
	gcvHAL_READ_REGISTER			= 21,
	gcvHAL_WRITE_REGISTER			= 22,
	gcvHAL_GET_PROFILE_SETTING		= 23,
	gcvHAL_SET_PROFILE_SETTING		= 24,
	gcvHAL_READ_ALL_PROFILE_REGISTERS	= 25,
	gcvHAL_PROFILE_REGISTERS_2D		= 26,
	gcvHAL_SET_POWER_MANAGEMENT_STATE	= 27,
	gcvHAL_QUERY_POWER_MANAGEMENT_STATE	= 28,
	gcvHAL_GET_BASE_ADDRESS			= 29,
	gcvHAL_SET_IDLE				= 30,
	gcvHAL_QUERY_KERNEL_SETTINGS		= 31,
	gcvHAL_RESET				= 32,
	gcvHAL_MAP_PHYSICAL			= 33,
	gcvHAL_DEBUG				= 34,
	gcvHAL_CACHE				= 35,
	gcvHAL_TIMESTAMP			= 36,
	gcvHAL_DATABASE				= 37,
	gcvHAL_VERSION				= 38,
	gcvHAL_CHIP_INFO			= 39,
	gcvHAL_ATTACH				= 40,
	gcvHAL_DETACH				= 41,
	gcvHAL_COMPOSE				= 42,
	gcvHAL_SET_TIMEOUT			= 43,
	gcvHAL_GET_FRAME_INFO			= 44,
	gcvHAL_GET_SHARED_INFO			= 45,
	gcvHAL_SET_SHARED_INFO			= 46,
	gcvHAL_QUERY_COMMAND_BUFFER		= 47,
	gcvHAL_COMMIT_DONE			= 48,
	gcvHAL_DUMP_GPU_STATE			= 49,
	gcvHAL_DUMP_EVENT			= 50,
	gcvHAL_ALLOCATE_VIRTUAL_COMMAND_BUFFER	= 51,
	gcvHAL_FREE_VIRTUAL_COMMAND_BUFFER	= 52,
	gcvHAL_SET_FSCALE_VALUE			= 53,
	gcvHAL_GET_FSCALE_VALUE			= 54,
	gcvHAL_QUERY_RESET_TIME_STAMP		= 55,
};

/* Which core a command is for, gcsHAL_INTERFACE.hardwareType. */
enum gceHARDWARE_TYPE {
	gcvHARDWARE_INVALID	= 0,
	gcvHARDWARE_3D		= 1,
	gcvHARDWARE_2D		= 2,
	gcvHARDWARE_3D2D	= 3,	/* both engines in one core */
	gcvHARDWARE_VG		= 4,
};

/* Where memory comes from. */
enum gcePOOL {
	gcvPOOL_UNKNOWN				= 0,
	gcvPOOL_DEFAULT				= 1,
	gcvPOOL_LOCAL				= 2,
	gcvPOOL_LOCAL_INTERNAL			= 3,
	gcvPOOL_LOCAL_EXTERNAL			= 4,
	gcvPOOL_UNIFIED				= 5,
	gcvPOOL_SYSTEM				= 6,	/* the heap that mmap() shows */
	gcvPOOL_VIRTUAL				= 7,	/* pages, through the MMU */
	gcvPOOL_USER				= 8,
	gcvPOOL_CONTIGUOUS			= 9,	/* pages in a row, a block each */
	gcvPOOL_DEFAULT_FORCE_CONTIGUOUS	= 10,
	gcvPOOL_DEFAULT_FORCE_CONTIGUOUS_CACHEABLE = 11,
};

/* What a surface is for; flags may be added. */
enum gceSURF_TYPE {
	gcvSURF_TYPE_UNKNOWN		= 0,
	gcvSURF_INDEX			= 1,
	gcvSURF_VERTEX			= 2,
	gcvSURF_TEXTURE			= 3,
	gcvSURF_RENDER_TARGET		= 4,
	gcvSURF_DEPTH			= 5,
	gcvSURF_BITMAP			= 6,
	gcvSURF_TILE_STATUS		= 7,
	gcvSURF_IMAGE			= 8,
	gcvSURF_MASK			= 9,
	gcvSURF_SCISSOR			= 10,
	gcvSURF_HIERARCHICAL_DEPTH	= 11,
	gcvSURF_NUM_TYPES		= 12,

	gcvSURF_NO_TILE_STATUS		= 0x100,
	gcvSURF_NO_VIDMEM		= 0x200,
	gcvSURF_CACHEABLE		= 0x400,
	gcvSURF_TILE_STATUS_DIRTY	= 0x1000,
};

/* gcsHAL_SIGNAL.fromWhere: a hint; the driver always means PIXEL. */
enum gceKERNEL_WHERE {
	gcvKERNEL_COMMAND	= 0,
	gcvKERNEL_VERTEX	= 1,
	gcvKERNEL_TRIANGLE	= 2,
	gcvKERNEL_TEXTURE	= 3,
	gcvKERNEL_PIXEL		= 4,
};

/* Power states of SET/QUERY_POWER_MANAGEMENT_STATE. */
enum gceCHIPPOWERSTATE {
	gcvPOWER_ON			= 0,
	gcvPOWER_OFF			= 1,
	gcvPOWER_IDLE			= 2,
	gcvPOWER_SUSPEND		= 3,
	gcvPOWER_SUSPEND_ATPOWERON	= 4,
	gcvPOWER_OFF_ATPOWERON		= 5,
	gcvPOWER_IDLE_BROADCAST		= 6,
	gcvPOWER_SUSPEND_BROADCAST	= 7,
	gcvPOWER_OFF_BROADCAST		= 8,
	gcvPOWER_OFF_RECOVERY		= 9,
	gcvPOWER_OFF_TIMEOUT		= 10,
	gcvPOWER_ON_AUTO		= 11,
};

/* gcsHAL_DEBUG.type. */
enum gceDEBUG_MESSAGE_TYPE {
	gcvMESSAGE_TEXT	= 0,
	gcvMESSAGE_DUMP	= 1,
};

/* gcsHAL_GET_SHARED_INFO.infoType and the same of SET. */
enum gceVIDMEM_NODE_SHARED_INFO_TYPE {
	gcvVIDMEM_INFO_GENERIC		= 0,
	gcvVIDMEM_INFO_DIRTY_RECTANGLE	= 1,
};

/**
 * struct gcsHAL_GET_BASE_ADDRESS - GET_BASE_ADDRESS
 * @baseAddress: out: GPU address = physical address - this
 */
struct gcsHAL_GET_BASE_ADDRESS {
	__u32 baseAddress;
};

/**
 * struct gcsHAL_QUERY_VIDEO_MEMORY - QUERY_VIDEO_MEMORY
 * @internalPhysical: out: 0: no core here has memory of its own
 * @internalSize: out: 0
 * @externalPhysical: out: 0
 * @externalSize: out: 0
 * @contiguousPhysical: out: offset to give to mmap(): 0 in this generation
 * @contiguousSize: out: bytes of the SYSTEM pool: the length to give to mmap()
 */
struct gcsHAL_QUERY_VIDEO_MEMORY {
	__u32 internalPhysical;
	__u32 pad0;
	__u64 internalSize;
	__u32 externalPhysical;
	__u32 pad1;
	__u64 externalSize;
	__u32 contiguousPhysical;
	__u32 pad2;
	__u64 contiguousSize;
};

/**
 * struct gcsHAL_QUERY_CHIP_IDENTITY - QUERY_CHIP_IDENTITY; all fields are out
 * @chipModel: 0x600 is a GC600, and so on
 * @chipRevision: of that model
 * @chipFeatures: bit 0 fast clear, 2 3D pipe, 9 2D pipe, ...
 * @chipMinorFeatures: word 0 of the minor features
 * @chipMinorFeatures1: word 1
 * @chipMinorFeatures2: word 2
 * @chipMinorFeatures3: word 3
 * @streamCount: vertex streams
 * @registerMax: temporary registers of a shader
 * @threadCount: shader threads
 * @shaderCoreCount: shader cores
 * @vertexCacheSize: entries
 * @vertexOutputBufferSize: entries
 * @pixelPipes: pixel pipes; the resolve engine is programmed by it
 * @instructionCount: instructions a shader may have
 * @numConstants: shader constants
 * @bufferSize: of the core's command buffer
 * @varyingsCount: varyings a shader may have
 * @superTileMode: 0 none; 1, 2: the order of tiles in a 64x64 block
 */
struct gcsHAL_QUERY_CHIP_IDENTITY {
	__u32 chipModel;
	__u32 chipRevision;
	__u32 chipFeatures;
	__u32 chipMinorFeatures;
	__u32 chipMinorFeatures1;
	__u32 chipMinorFeatures2;
	__u32 chipMinorFeatures3;
	__u32 streamCount;
	__u32 registerMax;
	__u32 threadCount;
	__u32 shaderCoreCount;
	__u32 vertexCacheSize;
	__u32 vertexOutputBufferSize;
	__u32 pixelPipes;
	__u32 instructionCount;
	__u32 numConstants;
	__u32 bufferSize;
	__u32 varyingsCount;
	__u32 superTileMode;
};

/**
 * struct gcsHAL_MAP_MEMORY - MAP_MEMORY and UNMAP_MEMORY
 * @physical: handle of the memory
 * @bytes: its size
 * @logical: out of MAP, in of UNMAP: where it is in the caller
 */
struct gcsHAL_MAP_MEMORY {
	__u32 physical;
	__u32 pad0;
	__u64 bytes;
	__u64 logical;
};

/**
 * struct gcsHAL_ALLOCATE_LINEAR_VIDEO_MEMORY - ALLOCATE_LINEAR_VIDEO_MEMORY
 * @bytes: in: size; 0 is INVALID_ARGUMENT
 * @alignment: in: of the place in the pool; 0 means 1
 * @type: in: enum gceSURF_TYPE: chooses the bank of the SYSTEM pool
 * @pool: in: enum gcePOOL to look in; out: the one it came from
 * @node: out: handle
 *
 * The memory reads as zeros.
 */
struct gcsHAL_ALLOCATE_LINEAR_VIDEO_MEMORY {
	__u32 bytes;
	__u32 alignment;
	__u32 type;
	__u32 pool;
	__u64 node;
};

/**
 * struct gcsHAL_ALLOCATE_VIDEO_MEMORY - ALLOCATE_VIDEO_MEMORY: NOT_SUPPORTED
 * @width: in pixels
 * @height: in pixels
 * @depth: in slices
 * @format: surface format
 * @type: enum gceSURF_TYPE
 * @pool: enum gcePOOL
 * @node: handle
 */
struct gcsHAL_ALLOCATE_VIDEO_MEMORY {
	__u32 width;
	__u32 height;
	__u32 depth;
	__u32 format;
	__u32 type;
	__u32 pool;
	__u64 node;
};

/**
 * struct gcsHAL_FREE_VIDEO_MEMORY - FREE_VIDEO_MEMORY, also in a queue
 * @node: in: handle. A locked node is freed by its last unlock.
 */
struct gcsHAL_FREE_VIDEO_MEMORY {
	__u64 node;
};

/**
 * struct gcsHAL_LOCK_VIDEO_MEMORY - LOCK_VIDEO_MEMORY
 * @node: in: handle
 * @cacheable: in: boolean; INVALID_REQUEST for a node of the SYSTEM pool
 * @address: out: GPU address, good until the unlock
 * @pad0: padding
 * @memory: out: where the caller can see it. For a node of the SYSTEM pool
 *	that is inside the mapping the file's last mmap() made.
 */
struct gcsHAL_LOCK_VIDEO_MEMORY {
	__u64 node;
	__s32 cacheable;
	__u32 address;
	__u64 memory;
};

/**
 * struct gcsHAL_UNLOCK_VIDEO_MEMORY - UNLOCK_VIDEO_MEMORY, also in a queue
 * @node: in: handle
 * @type: in: enum gceSURF_TYPE it was allocated with
 * @asynchroneous: out: boolean: true wants a second half, the same record in
 *	an event queue, once the GPU is done with the node
 */
struct gcsHAL_UNLOCK_VIDEO_MEMORY {
	__u64 node;
	__u32 type;
	__s32 asynchroneous;
};

/**
 * struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY - ALLOCATE_NON_PAGED_MEMORY; also the
 *	layout of FREE_NON_PAGED, FREE_CONTIGUOUS, ALLOCATE_ and
 *	FREE_VIRTUAL_COMMAND_BUFFER
 * @bytes: in: size; out: rounded up to whole pages
 * @physical: out: handle; in of FREE
 * @pad0: padding
 * @logical: out: where it is mapped in the caller; in of FREE
 *
 * FREE wants all three not zero and looks the memory up by @physical.
 */
struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY {
	__u64 bytes;
	__u32 physical;
	__u32 pad0;
	__u64 logical;
};

/**
 * struct gcsHAL_ALLOCATE_CONTIGUOUS_MEMORY - ALLOCATE_CONTIGUOUS_MEMORY
 * @bytes: in: size; out: rounded up to whole pages
 * @address: out: GPU address
 * @physical: out: handle
 * @logical: out: where it is mapped in the caller
 */
struct gcsHAL_ALLOCATE_CONTIGUOUS_MEMORY {
	__u64 bytes;
	__u32 address;
	__u32 physical;
	__u64 logical;
};

/**
 * struct gcsHAL_EVENT_COMMIT - EVENT_COMMIT
 * @queue: in: address of the first struct gcsQUEUE, or 0
 */
struct gcsHAL_EVENT_COMMIT {
	__u64 queue;
};

/**
 * struct gcsHAL_COMMIT - COMMIT
 * @context: in: what ATTACH gave, or 0
 * @commandBuffer: in: address of a struct gcoCMDBUF
 * @delta: in: address of a struct gcsSTATE_DELTA, or 0
 * @queue: in: address of the first struct gcsQUEUE, or 0: run in order once
 *	the GPU has finished this buffer
 */
struct gcsHAL_COMMIT {
	__u64 context;
	__u64 commandBuffer;
	__u64 delta;
	__u64 queue;
};

/**
 * struct gcsHAL_MAP_USER_MEMORY - MAP_USER_MEMORY
 * @memory: in: address in the caller
 * @physical: in: 0xffffffff
 * @pad0: padding
 * @size: in: bytes
 * @info: out: handle
 * @address: out: GPU address
 */
struct gcsHAL_MAP_USER_MEMORY {
	__u64 memory;
	__u32 physical;
	__u32 pad0;
	__u64 size;
	__u32 info;
	__u32 address;
};

/**
 * struct gcsHAL_UNMAP_USER_MEMORY - UNMAP_USER_MEMORY, also in a queue
 * @memory: in: as given to MAP
 * @size: in: as given to MAP
 * @info: in: handle
 * @address: in: GPU address
 */
struct gcsHAL_UNMAP_USER_MEMORY {
	__u64 memory;
	__u64 size;
	__u32 info;
	__u32 address;
};

/**
 * struct gcsHAL_USER_SIGNAL - USER_SIGNAL
 * @command: in: enum gceUSER_SIGNAL_COMMAND_CODES
 * @id: out of CREATE, in of all others
 * @manualReset: in of CREATE: boolean: stays signalled until it is reset;
 *	otherwise one WAIT takes it
 * @wait: in of WAIT: milliseconds, or gcvINFINITE
 * @state: in of SIGNAL: boolean: signal or reset
 */
struct gcsHAL_USER_SIGNAL {
	__u32 command;
	__s32 id;
	__s32 manualReset;
	__u32 wait;
	__s32 state;
};

/**
 * struct gcsHAL_SIGNAL - SIGNAL, a record of a queue
 * @signal: id of the signal to set
 * @auxSignal: 0
 * @process: the caller's process id
 * @fromWhere: enum gceKERNEL_WHERE
 * @pad0: padding
 */
struct gcsHAL_SIGNAL {
	__u64 signal;
	__u64 auxSignal;
	__u64 process;
	__u32 fromWhere;
	__u32 pad0;
};

/**
 * struct gcsHAL_WRITE_DATA - WRITE_DATA, a record of a queue: the driver
 *	writes a word when the GPU is done
 * @address: in: GPU address, a multiple of 4: in a locked node, a buffer or
 *	user memory of the process
 * @data: in: word to write
 */
struct gcsHAL_WRITE_DATA {
	__u32 address;
	__u32 data;
};

/**
 * struct gcsHAL_READ_REGISTER - READ_REGISTER and WRITE_REGISTER
 * @address: byte offset in the register block
 * @data: the word
 */
struct gcsHAL_READ_REGISTER {
	__u32 address;
	__u32 data;
};

/**
 * struct gcsHAL_SET_POWER_MANAGEMENT - SET_POWER_MANAGEMENT_STATE
 * @state: enum gceCHIPPOWERSTATE
 */
struct gcsHAL_SET_POWER_MANAGEMENT {
	__u32 state;
};

/**
 * struct gcsHAL_QUERY_POWER_MANAGEMENT - QUERY_POWER_MANAGEMENT_STATE
 * @state: out: enum gceCHIPPOWERSTATE
 * @isIdle: out: boolean
 */
struct gcsHAL_QUERY_POWER_MANAGEMENT {
	__u32 state;
	__s32 isIdle;
};

/**
 * struct gcsKERNEL_SETTINGS - part of QUERY_KERNEL_SETTINGS
 * @signal: the module parameter of that name, 48 by default
 */
struct gcsKERNEL_SETTINGS {
	__s32 signal;
};

/**
 * struct gcsHAL_QUERY_KERNEL_SETTINGS - QUERY_KERNEL_SETTINGS
 * @settings: out
 */
struct gcsHAL_QUERY_KERNEL_SETTINGS {
	struct gcsKERNEL_SETTINGS settings;
};

/**
 * struct gcsHAL_MAP_PHYSICAL - MAP_PHYSICAL: INVALID_ARGUMENT
 * @map: boolean
 * @pad0: padding
 * @physical: handle
 */
struct gcsHAL_MAP_PHYSICAL {
	__s32 map;
	__u32 pad0;
	__u64 physical;
};

/**
 * struct gcsHAL_DEBUG - DEBUG
 * @set: boolean: change level and zones
 * @level: trace level
 * @zones: trace zones
 * @enable: boolean: set or clear those zones
 * @type: enum gceDEBUG_MESSAGE_TYPE
 * @messageSize: bytes of @message
 * @message: text for the log
 */
struct gcsHAL_DEBUG {
	__s32 set;
	__u32 level;
	__u32 zones;
	__s32 enable;
	__u32 type;
	__u32 messageSize;
	__u8 message[80];
};

/**
 * struct gcsHAL_CACHE - CACHE
 * @operation: enum gceCACHEOPERATION
 * @pad0: padding
 * @process: caller
 * @logical: start
 * @bytes: length
 * @node: handle of the memory; 0: nothing is done
 */
struct gcsHAL_CACHE {
	__u32 operation;
	__u32 pad0;
	__u64 process;
	__u64 logical;
	__u64 bytes;
	__u64 node;
};

/**
 * struct gcsHAL_TIMESTAMP - TIMESTAMP
 * @timer: 0..7
 * @request: 0 stop, 1 start, 2 query
 * @timeDelta: out of query: microseconds
 */
struct gcsHAL_TIMESTAMP {
	__u32 timer;
	__u32 request;
	__s32 timeDelta;
};

/**
 * struct gcsDATABASE_COUNTERS - bytes of one kind of memory of a process
 * @bytes: now
 * @maxBytes: most at a time
 * @totalBytes: ever
 */
struct gcsDATABASE_COUNTERS {
	__u64 bytes;
	__u64 maxBytes;
	__u64 totalBytes;
};

/**
 * struct gcuDATABASE_INFO - one entry of DATABASE
 * @counters: for memory
 * @time: for @gpuIdle
 */
struct gcuDATABASE_INFO {
	struct gcsDATABASE_COUNTERS counters;
	__u64 time;
};

/**
 * struct gcsHAL_DATABASE - DATABASE
 * @validProcessID: out: 1; in: not used by the driver
 * @processID: in: the process's own id: it is told of no other
 * @vidMem: out: video memory
 * @nonPaged: out: non-paged memory
 * @contiguous: out: contiguous memory
 * @gpuIdle: out: 0
 */
struct gcsHAL_DATABASE {
	__s32 validProcessID;
	__u32 processID;
	struct gcuDATABASE_INFO vidMem;
	struct gcuDATABASE_INFO nonPaged;
	struct gcuDATABASE_INFO contiguous;
	struct gcuDATABASE_INFO gpuIdle;
};

/**
 * struct gcsHAL_VERSION - VERSION; all fields are out
 * @major: gcvVERSION_MAJOR
 * @minor: gcvVERSION_MINOR
 * @patch: gcvVERSION_PATCH
 * @build: gcvVERSION_BUILD
 */
struct gcsHAL_VERSION {
	__s32 major;
	__s32 minor;
	__s32 patch;
	__u32 build;
};

/**
 * struct gcsHAL_CHIP_INFO - CHIP_INFO; all fields are out
 * @count: cores
 * @types: enum gceHARDWARE_TYPE of each
 */
struct gcsHAL_CHIP_INFO {
	__s32 count;
	__u32 types[3];
};

/**
 * struct gcsHAL_ATTACH - ATTACH
 * @context: out: handle for COMMIT
 * @pad0: padding
 * @stateCount: out: word states a context covers
 */
struct gcsHAL_ATTACH {
	__u32 context;
	__u32 pad0;
	__u64 stateCount;
};

/**
 * struct gcsHAL_DETACH - DETACH
 * @context: in: handle
 */
struct gcsHAL_DETACH {
	__u32 context;
};

/**
 * struct gcsHAL_COMPOSE - COMPOSE
 * @physical: composition buffer
 * @logical: the same in the caller
 * @offset: start in it
 * @size: bytes
 * @process: caller
 * @signal: signal of the buffer
 * @userProcess: owner of the two signals below
 * @userSignal1: signal
 * @userSignal2: signal
 */
struct gcsHAL_COMPOSE {
	__u64 physical;
	__u64 logical;
	__u32 offset;
	__u32 size;
	__u64 process;
	__u64 signal;
	__u64 userProcess;
	__u64 userSignal1;
	__u64 userSignal2;
};

/**
 * struct gcsHAL_GET_FRAME_INFO - GET_FRAME_INFO
 * @frameInfo: address
 */
struct gcsHAL_GET_FRAME_INFO {
	__u64 frameInfo;
};

/**
 * struct gcsHAL_SET_TIMEOUT - SET_TIMEOUT
 * @timeOut: milliseconds
 */
struct gcsHAL_SET_TIMEOUT {
	__u32 timeOut;
};

/**
 * struct gcsHAL_GET_SHARED_INFO - GET_SHARED_INFO
 * @pid: whose data
 * @dataId: which
 * @node: node it belongs to, or 0
 * @data: address to copy to
 * @nodeData: address to copy the node's to
 * @size: bytes at @data
 * @infoType: enum gceVIDMEM_NODE_SHARED_INFO_TYPE
 * @pad0: padding
 */
struct gcsHAL_GET_SHARED_INFO {
	__u32 pid;
	__u32 dataId;
	__u64 node;
	__u64 data;
	__u64 nodeData;
	__u64 size;
	__u32 infoType;
	__u32 pad0;
};

/**
 * struct gcsHAL_SET_SHARED_INFO - SET_SHARED_INFO
 * @dataId: which
 * @pad0: padding
 * @node: node it belongs to, or 0
 * @data: address to copy from
 * @nodeData: address of the node's
 * @size: bytes at @data
 * @infoType: enum gceVIDMEM_NODE_SHARED_INFO_TYPE
 * @pad1: padding
 */
struct gcsHAL_SET_SHARED_INFO {
	__u32 dataId;
	__u32 pad0;
	__u64 node;
	__u64 data;
	__u64 nodeData;
	__u64 size;
	__u32 infoType;
	__u32 pad1;
};

/**
 * struct gcsHAL_SET_FSCALE_VALUE - SET_FSCALE_VALUE
 * @value: 1..64 64ths of the input clock
 */
struct gcsHAL_SET_FSCALE_VALUE {
	__u32 value;
};

/**
 * struct gcsHAL_GET_FSCALE_VALUE - GET_FSCALE_VALUE; all fields are out
 * @value: now
 * @minValue: lowest
 * @maxValue: highest
 */
struct gcsHAL_GET_FSCALE_VALUE {
	__u32 value;
	__u32 minValue;
	__u32 maxValue;
};

/**
 * struct gcsHAL_QUERY_RESET_TIME_STAMP - QUERY_RESET_TIME_STAMP
 * @timeStamp: out: resets so far
 */
struct gcsHAL_QUERY_RESET_TIME_STAMP {
	__u64 timeStamp;
};

/**
 * struct gcsHAL_INTERFACE - one request and its answer: 168 bytes
 * @command: in: enum gceHAL_COMMAND_CODES
 * @hardwareType: in: enum gceHARDWARE_TYPE: which core
 * @status: out: enum gceSTATUS
 * @pad0: padding
 * @handle: out of COMMIT and EVENT_COMMIT: number of the job, once the process
 *	has mapped the completion page; else not used
 * @pid: not used: a process is known by the file it opened
 * @pad1: padding
 * @u: what belongs to @command
 */
struct gcsHAL_INTERFACE {
	__u32 command;
	__u32 hardwareType;
	__s32 status;
	__u32 pad0;
	__u64 handle;
	__u32 pid;
	__u32 pad1;
	union {
		struct gcsHAL_GET_BASE_ADDRESS GetBaseAddress;
		struct gcsHAL_QUERY_VIDEO_MEMORY QueryVideoMemory;
		struct gcsHAL_QUERY_CHIP_IDENTITY QueryChipIdentity;
		struct gcsHAL_MAP_MEMORY MapMemory;
		struct gcsHAL_MAP_MEMORY UnmapMemory;
		struct gcsHAL_ALLOCATE_LINEAR_VIDEO_MEMORY AllocateLinearVideoMemory;
		struct gcsHAL_ALLOCATE_VIDEO_MEMORY AllocateVideoMemory;
		struct gcsHAL_FREE_VIDEO_MEMORY FreeVideoMemory;
		struct gcsHAL_LOCK_VIDEO_MEMORY LockVideoMemory;
		struct gcsHAL_UNLOCK_VIDEO_MEMORY UnlockVideoMemory;
		struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY AllocateNonPagedMemory;
		struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY FreeNonPagedMemory;
		struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY AllocateVirtualCommandBuffer;
		struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY FreeVirtualCommandBuffer;
		struct gcsHAL_ALLOCATE_CONTIGUOUS_MEMORY AllocateContiguousMemory;
		struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY FreeContiguousMemory;
		struct gcsHAL_EVENT_COMMIT Event;
		struct gcsHAL_COMMIT Commit;
		struct gcsHAL_MAP_USER_MEMORY MapUserMemory;
		struct gcsHAL_UNMAP_USER_MEMORY UnmapUserMemory;
		struct gcsHAL_USER_SIGNAL UserSignal;
		struct gcsHAL_SIGNAL Signal;
		struct gcsHAL_WRITE_DATA WriteData;
		struct gcsHAL_READ_REGISTER ReadRegisterData;
		struct gcsHAL_READ_REGISTER WriteRegisterData;
		struct gcsHAL_SET_POWER_MANAGEMENT SetPowerManagement;
		struct gcsHAL_QUERY_POWER_MANAGEMENT QueryPowerManagement;
		struct gcsHAL_QUERY_KERNEL_SETTINGS QueryKernelSettings;
		struct gcsHAL_MAP_PHYSICAL MapPhysical;
		struct gcsHAL_DEBUG Debug;
		struct gcsHAL_CACHE Cache;
		struct gcsHAL_TIMESTAMP TimeStamp;
		struct gcsHAL_DATABASE Database;
		struct gcsHAL_VERSION Version;
		struct gcsHAL_CHIP_INFO ChipInfo;
		struct gcsHAL_ATTACH Attach;
		struct gcsHAL_DETACH Detach;
		struct gcsHAL_COMPOSE Compose;
		struct gcsHAL_GET_FRAME_INFO GetFrameInfo;
		struct gcsHAL_SET_TIMEOUT SetTimeOut;
		struct gcsHAL_GET_SHARED_INFO GetSharedInfo;
		struct gcsHAL_SET_SHARED_INFO SetSharedInfo;
		struct gcsHAL_SET_FSCALE_VALUE SetFscaleValue;
		struct gcsHAL_GET_FSCALE_VALUE GetFscaleValue;
		struct gcsHAL_QUERY_RESET_TIME_STAMP QueryResetTimeStamp;
	} u;
};

/**
 * struct gcsQUEUE - a record of an event queue
 * @next: address of the next record, or 0
 * @iface: a command that a queue may hold: SIGNAL, FREE_VIDEO_MEMORY,
 *	UNLOCK_VIDEO_MEMORY, FREE_CONTIGUOUS_MEMORY, FREE_NON_PAGED_MEMORY,
 *	UNMAP_USER_MEMORY, WRITE_DATA, TIMESTAMP, COMMIT_DONE
 *
 * The records run in order once the GPU has passed all that was committed
 * before. A list that cannot be read, that is cyclic or longer than 4096
 * records, or that holds a record of another kind has no effect at all. A
 * record about an object that is gone is left out.
 */
struct gcsQUEUE {
	__u64 next;
	struct gcsHAL_INTERFACE iface;
};

/**
 * struct gcsOBJECT - head of an object of the client
 * @type: four letters
 */
struct gcsOBJECT {
	__u32 type;
};

/**
 * struct gcoCMDBUF - commands to run, COMMIT
 * @object: gcvOBJ_COMMANDBUFFER
 * @entryPipe: enum gcePIPE_SELECT the commands begin in: the driver selects it
 *	unless it is @exitPipe of the last COMMIT
 * @exitPipe: the pipe they leave selected
 * @using2D: not used by the driver
 * @using3D: not used by the driver
 * @usingFilterBlit: not used by the driver
 * @usingPalette: not used by the driver
 * @physical: not used by the driver
 * @logical: address of the memory that holds the commands, from
 *	ALLOCATE_CONTIGUOUS_MEMORY or ALLOCATE_NON_PAGED_MEMORY
 * @bytes: size of that memory
 * @startOffset: start of the reserved head in it; a multiple of 8
 * @offset: end of the commands, start of the reserved tail; a multiple of 8
 * @free: not used by the driver
 * @lastReserve: not used by the driver
 * @lastOffset: not used by the driver
 * @pad0: padding
 *
 * The commands are those in [@startOffset + gcdCOMMAND_RESERVED_HEAD, @offset).
 * They are copied before they run: the memory may be used again at once.
 */
struct gcoCMDBUF {
	struct gcsOBJECT object;
	__s32 entryPipe;
	__s32 exitPipe;
	__s32 using2D;
	__s32 using3D;
	__s32 usingFilterBlit;
	__s32 usingPalette;
	__u32 physical;
	__u64 logical;
	__u32 bytes;
	__u32 startOffset;
	__u32 offset;
	__u32 free;
	__u64 lastReserve;
	__u32 lastOffset;
	__u32 pad0;
};

/**
 * struct gcsSTATE_DELTA - the states a commit changes in its context
 * @id: of the delta
 * @refCount: context buffers it still has to be merged into
 * @elementCount: vertex elements in use, plus one; 0: unchanged
 * @recordCount: records
 * @recordArray: address of the records
 * @mapEntryID: the client's own
 * @mapEntryIDSize: the client's own
 * @pad0: padding
 * @mapEntryIndex: the client's own
 * @prev: the client's own
 * @next: the client's own
 */
struct gcsSTATE_DELTA {
	__u32 id;
	__s32 refCount;
	__u32 elementCount;
	__u32 recordCount;
	__u64 recordArray;
	__u64 mapEntryID;
	__u32 mapEntryIDSize;
	__u32 pad0;
	__u64 mapEntryIndex;
	__u64 prev;
	__u64 next;
};

#endif /* _UAPI_LINUX_GALCORE_4_0_0_H */
