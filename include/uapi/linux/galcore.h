/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The user interface of the galcore driver, generation 6.4.11 (build 1049711),
 * the newest with a C header. The driver supports the other generations, too,
 * whose sizes, places and numbers differ: <linux/galcore-4.0.0.h>, and tests/abi
 * of the driver's source.
 *
 * A client opens /dev/galcore (or /dev/graphics/galcore), fills in a
 * struct gcsHAL_INTERFACE and passes it through ioctl() with the request
 * IOCTL_GCHAL_INTERFACE and a struct gcsDRIVER_ARGS. The interface is a
 * command number, a status and a union with one member for each command;
 * the same bytes carry the request in and the answer out. The sizes say which
 * generation it is.
 *
 * The ioctl itself answers 0 whenever the command was looked at, whether it
 * succeeded or not: the result is in @status (0 or a small positive number, or
 * a negative enum gceSTATUS), and the whole interface is copied back. It fails
 * with ENOTTY when the request never became a command: an unknown request
 * number, sizes of no generation, memory that cannot be read or written, a
 * hardware type outside 0..7. It fails with EINTR (or is restarted, as the
 * signal's action says) when a Unix signal ended a wait; then at most @status
 * is written, with a number by which the restarted call continues.
 *
 * Pointers travel as __u64, so a 32-bit and a 64-bit client use the same
 * layout; all padding is written out. Handles (@node, @physName, @id,
 * @context) are small numbers that mean nothing outside the process they were
 * made in; 0 is never one.
 *
 * mmap() at offset 0 shows the SYSTEM pool, at GALCORE_COMPLETION_OFFSET the
 * completion page, which is this driver's own.
 *
 * Commands are listed without a layout if the driver does not do them, or if
 * only the vendor's libraries use them (profiler, power, registers, metadata):
 * the facts in tests/abi/6.4.11.txt have these.
 */
#ifndef _UAPI_LINUX_GALCORE_H
#define _UAPI_LINUX_GALCORE_H

#ifdef _UAPI_LINUX_GALCORE_4_0_0_H
#error "a program speaks one generation: <linux/galcore-4.0.0.h> is included already"
#endif

#include <linux/galcore-common.h>

/* What VERSION answers. */
#define gcvVERSION_MAJOR		6
#define gcvVERSION_MINOR		4
#define gcvVERSION_PATCH		11
#define gcvVERSION_BUILD		1049711

/* Commands start and end on so many bytes. */
#define gcdCOMMAND_ALIGNMENT		8

/*
 * Room before and behind the commands that serves every galcore,
 * gcsHAL_COMMAND_LOCATION.reservedHead and .reservedTail.
 */
#define gcdCOMMAND_RESERVED_HEAD	32
#define gcdCOMMAND_RESERVED_TAIL	8

/* gcsHAL_ALLOCATE_LINEAR_VIDEO_MEMORY.flag and gcsUSER_MEMORY_DESC.flag; others are hints. */
#define gcvALLOC_FLAG_CONTIGUOUS	0x1	/* in one piece */
#define gcvALLOC_FLAG_NON_CONTIGUOUS	0x2	/* in pages, through the MMU */
#define gcvALLOC_FLAG_SECURITY		0x40	/* refused */
#define gcvALLOC_FLAG_DMABUF		0x1000	/* WRAP_USER_MEMORY: a dma-buf */
#define gcvALLOC_FLAG_USERMEMORY	0x2000	/* WRAP_USER_MEMORY: the process's own memory */

/* Command numbers, gcsHAL_INTERFACE.command. */
enum gceHAL_COMMAND_CODES {
	gcvHAL_CHIP_INFO				= 0,
	gcvHAL_VERSION					= 1,
	gcvHAL_QUERY_CHIP_IDENTITY			= 2,
	gcvHAL_QUERY_CHIP_OPTION			= 3,
	gcvHAL_QUERY_CHIP_FREQUENCY			= 4,
	gcvHAL_QUERY_VIDEO_MEMORY			= 5,
	gcvHAL_ALLOCATE_LINEAR_VIDEO_MEMORY		= 6,
	gcvHAL_WRAP_USER_MEMORY				= 7,
	gcvHAL_RELEASE_VIDEO_MEMORY			= 8,
	gcvHAL_LOCK_VIDEO_MEMORY			= 9,
	gcvHAL_UNLOCK_VIDEO_MEMORY			= 10,
	gcvHAL_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY		= 11,
	gcvHAL_MAP_MEMORY				= 12,
	gcvHAL_UNMAP_MEMORY				= 13,
	gcvHAL_CACHE					= 14,
	gcvHAL_ATTACH					= 15,
	gcvHAL_DETACH					= 16,
	gcvHAL_EVENT_COMMIT				= 17,
	gcvHAL_COMMIT					= 18,
	gcvHAL_SET_TIMEOUT				= 19,
	gcvHAL_USER_SIGNAL				= 20,
	gcvHAL_SIGNAL					= 21,	/* in a queue only */
	gcvHAL_SET_PROFILE_SETTING			= 22,
	gcvHAL_READ_PROFILER_REGISTER_SETTING		= 23,
	gcvHAL_READ_ALL_PROFILE_REGISTERS_PART1		= 24,
	gcvHAL_READ_ALL_PROFILE_REGISTERS_PART2		= 25,
	gcvHAL_DATABASE					= 26,
	gcvHAL_CONFIG_POWER_MANAGEMENT			= 27,
	gcvHAL_DEBUG_DUMP				= 28,
	gcvHAL_READ_REGISTER				= 29,
	gcvHAL_WRITE_REGISTER				= 30,
	gcvHAL_PROFILE_REGISTERS_2D			= 31,
	gcvHAL_GET_BASE_ADDRESS				= 32,
	gcvHAL_GET_FRAME_INFO				= 33,
	gcvHAL_SET_VIDEO_MEMORY_METADATA		= 34,
	gcvHAL_QUERY_COMMAND_BUFFER			= 35,
	gcvHAL_QUERY_RESET_TIME_STAMP			= 36,
	gcvHAL_CREATE_NATIVE_FENCE			= 37,
	gcvHAL_WAIT_NATIVE_FENCE			= 38,
	gcvHAL_WAIT_FENCE				= 39,
	gcvHAL_EXPORT_VIDEO_MEMORY			= 40,
	gcvHAL_NAME_VIDEO_MEMORY			= 41,
	gcvHAL_IMPORT_VIDEO_MEMORY			= 42,
	gcvHAL_DEVICE_MUTEX				= 43,
	gcvHAL_DEC200_TEST				= 44,
	gcvHAL_DEC300_READ				= 45,
	gcvHAL_DEC300_WRITE				= 46,
	gcvHAL_DEC300_FLUSH				= 47,
	gcvHAL_DEC300_FLUSH_WAIT			= 48,
	gcvHAL_SHBUF					= 49,
	gcvHAL_GET_GRAPHIC_BUFFER_FD			= 50,
	gcvHAL_UPDATE_DEBUG_CALLBACK			= 51,
	gcvHAL_CONFIG_CTX_FRAMEWORK			= 52,
	gcvHAL_ALLOCATE_NON_PAGED_MEMORY		= 53,
	gcvHAL_FREE_NON_PAGED_MEMORY			= 54,
	gcvHAL_WRITE_DATA				= 55,	/* in a queue only */
	gcvHAL_APB_AXIFE_ACCESS				= 56,
	gcvHAL_RESET					= 57,
	gcvHAL_COMMIT_DONE				= 58,	/* in a queue only */
	gcvHAL_GET_VIDEO_MEMORY_FD			= 59,
	gcvHAL_GET_PROFILE_SETTING			= 60,
	gcvHAL_READ_REGISTER_EX				= 61,
	gcvHAL_WRITE_REGISTER_EX			= 62,
	gcvHAL_SET_POWER_MANAGEMENT_STATE		= 63,
	gcvHAL_QUERY_POWER_MANAGEMENT_STATE		= 64,
	gcvHAL_QUERY_CPU_FREQUENCY			= 65,
	gcvHAL_DUMP_GPU_STATE				= 66,
	gcvHAL_SYNC_VIDEO_MEMORY			= 67,
	gcvHAL_CANCEL_JOB				= 68,
	gcvHAL_TIMESTAMP				= 69,
	gcvHAL_SET_FSCALE_VALUE				= 70,
	gcvHAL_GET_FSCALE_VALUE				= 71,
	gcvHAL_DESTROY_MMU				= 72,
};

/* Which core a command is for, gcsHAL_INTERFACE.hardwareType. */
enum gceHARDWARE_TYPE {
	gcvHARDWARE_INVALID	= 0,
	gcvHARDWARE_3D2D	= 1,
	gcvHARDWARE_3D		= 2,
	gcvHARDWARE_2D		= 3,
	gcvHARDWARE_VIP		= 4,
	gcvHARDWARE_VG		= 5,
};

/* Where memory comes from. */
enum gcePOOL {
	gcvPOOL_UNKNOWN		= 0,
	gcvPOOL_DEFAULT		= 1,
	gcvPOOL_LOCAL		= 2,
	gcvPOOL_LOCAL_INTERNAL	= 3,
	gcvPOOL_LOCAL_EXTERNAL	= 4,
	gcvPOOL_UNIFIED		= 5,
	gcvPOOL_SYSTEM		= 6,	/* the heap that mmap() shows */
	gcvPOOL_VIRTUAL		= 7,	/* pages, through the MMU */
	gcvPOOL_USER		= 8,
	gcvPOOL_INTERNAL_SRAM	= 9,
	gcvPOOL_EXTERNAL_SRAM	= 10,
	gcvPOOL_LOCAL_EXCLUSIVE	= 11,
	gcvPOOL_SYSTEM_32BIT_VA	= 12,
	gcvPOOL_NUMBER_OF_POOLS	= 13,
};

/* What memory is for, gcsHAL_ALLOCATE_LINEAR_VIDEO_MEMORY.type. */
enum gceVIDMEM_TYPE {
	gcvVIDMEM_TYPE_GENERIC		= 0,
	gcvVIDMEM_TYPE_INDEX_BUFFER	= 1,
	gcvVIDMEM_TYPE_VERTEX_BUFFER	= 2,
	gcvVIDMEM_TYPE_TEXTURE		= 3,
	gcvVIDMEM_TYPE_COLOR_BUFFER	= 4,
	gcvVIDMEM_TYPE_DEPTH_BUFFER	= 5,
	gcvVIDMEM_TYPE_BITMAP		= 6,
	gcvVIDMEM_TYPE_TILE_STATUS	= 7,
	gcvVIDMEM_TYPE_IMAGE		= 8,
	gcvVIDMEM_TYPE_MASK		= 9,
	gcvVIDMEM_TYPE_SCISSOR		= 10,
	gcvVIDMEM_TYPE_HZ_BUFFER	= 11,
	gcvVIDMEM_TYPE_ICACHE		= 12,
	gcvVIDMEM_TYPE_TXDESC		= 13,
	gcvVIDMEM_TYPE_FENCE		= 14,
	gcvVIDMEM_TYPE_TFBHEADER	= 15,
	gcvVIDMEM_TYPE_COMMAND		= 16,
	gcvVIDMEM_TYPE_COUNT		= 17,
};

/* What LOCK_VIDEO_MEMORY and UNLOCK_VIDEO_MEMORY do, their @op: bits. */
enum gceLOCK_VIDEO_MEMORY_OP {
	gcvLOCK_VIDEO_MEMORY_OP_NONE	= 0,
	gcvLOCK_VIDEO_MEMORY_OP_LOCK	= 1,
	gcvLOCK_VIDEO_MEMORY_OP_MAP	= 2,
	gcvLOCK_VIDEO_MEMORY_OP_UNLOCK	= 4,
	gcvLOCK_VIDEO_MEMORY_OP_UNMAP	= 8,
};

/* gcsHAL_SHBUF.command. */
enum gceSHBUF_COMMAND_CODES {
	gcvSHBUF_CREATE		= 0,
	gcvSHBUF_DESTROY	= 1,
	gcvSHBUF_MAP		= 2,	/* one more reference, of a buffer of anybody's */
	gcvSHBUF_WRITE		= 3,
	gcvSHBUF_READ		= 4,
};

/* gcsHAL_SIGNAL.fromWhere: a hint; the driver always means PIXEL. */
enum gceKERNEL_WHERE {
	gcvKERNEL_COMMAND	= 0,
	gcvKERNEL_VERTEX	= 1,
	gcvKERNEL_TRIANGLE	= 2,
	gcvKERNEL_TEXTURE	= 3,
	gcvKERNEL_PIXEL		= 4,
	gcvKERNEL_BLT		= 5,
};

/* gcsHAL_QUERY_POWER_MANAGEMENT.state. */
enum gceCHIPPOWERSTATE {
	gcvPOWER_INVALID		= -1,
	gcvPOWER_ON			= 0,
	gcvPOWER_IDLE			= 1,
	gcvPOWER_SUSPEND		= 2,
	gcvPOWER_OFF			= 3,
	gcvPOWER_ON_AUTO		= 4,
	gcvPOWER_FLAG_BROADCAST		= 16,
	gcvPOWER_IDLE_BROADCAST		= 17,
	gcvPOWER_SUSPEND_BROADCAST	= 18,
	gcvPOWER_OFF_BROADCAST		= 19,
	gcvPOWER_FLAG_TIMEOUT		= 32,
	gcvPOWER_IDLE_TIMEOUT		= 33,
	gcvPOWER_SUSPEND_TIMEOUT	= 34,
	gcvPOWER_OFF_TIMEOUT		= 35,
};

/**
 * struct gcsHAL_CHIP_INFO - CHIP_INFO
 * @count: out: cores that are bound, 3D and neural ones before 2D before
 *	vector graphics
 * @types: out: enum gceHARDWARE_TYPE of each
 * @ids: out: number among the 3D and neural cores: their @coreIndex; of a
 *	2D core 0, of one for vector graphics all ones
 * @coreIndexs: out: place among the driver's cores, which stays the same when
 *	another core goes
 * @hwDevIDs: 0
 */
struct gcsHAL_CHIP_INFO {
	__s32 count;
	__u32 types[21];
	__u32 ids[21];
	__u32 coreIndexs[21];
	__u32 hwDevIDs[21];
};

/**
 * struct gcsHAL_VERSION - VERSION
 * @major: 6
 * @minor: 4
 * @patch: 11
 * @build: 1049711
 */
struct gcsHAL_VERSION {
	__s32 major;
	__s32 minor;
	__s32 patch;
	__u32 build;
};

/**
 * struct gcsHAL_SET_TIMEOUT - SET_TIMEOUT
 * @timeOut: in: how long a later wait for the idle GPU may take, in
 *	milliseconds
 */
struct gcsHAL_SET_TIMEOUT {
	__u32 timeOut;
};

/**
 * struct gcsHAL_QUERY_VIDEO_MEMORY - QUERY_VIDEO_MEMORY
 * @internalPhysName: out: 0: no core here has memory of its own
 * @pad0: padding
 * @internalSize: out: 0
 * @externalPhysName: out: 0
 * @pad1: padding
 * @externalSize: out: 0
 * @contiguousPhysName: out: name of the SYSTEM pool, for MAP_MEMORY
 * @pad2: padding
 * @contiguousSize: out: bytes of the SYSTEM pool: the length to give to mmap()
 *	at offset 0
 * @exclusivePhysName: out: 0
 * @pad3: padding
 * @exclusiveSize: out: 0
 */
struct gcsHAL_QUERY_VIDEO_MEMORY {
	__u32 internalPhysName;
	__u32 pad0;
	__u64 internalSize;
	__u32 externalPhysName;
	__u32 pad1;
	__u64 externalSize;
	__u32 contiguousPhysName;
	__u32 pad2;
	__u64 contiguousSize;
	__u32 exclusivePhysName;
	__u32 pad3;
	__u64 exclusiveSize;
};

/**
 * struct gcsHAL_QUERY_CHIP_IDENTITY - QUERY_CHIP_IDENTITY, all out: what the
 *	registers say, with known errors of cores put right; 0: not told
 * @chipModel: out
 * @chipRevision: out
 * @chipDate: out
 * @chipFeatures: out
 * @chipMinorFeatures: out
 * @chipMinorFeatures1: out
 * @chipMinorFeatures2: out
 * @chipMinorFeatures3: out
 * @chipMinorFeatures4: out
 * @chipMinorFeatures5: out
 * @chipMinorFeatures6: out
 * @streamCount: out
 * @pixelPipes: out
 * @resolvePipes: out
 * @instructionCount: out
 * @PSInstructionCount: out
 * @numConstants: out
 * @varyingsCount: out
 * @gpuCoreCount: out
 * @clusterAvailMask: out
 * @productID: out
 * @chipFlags: out
 * @ecoID: out
 * @customerID: out
 * @chipConfig: out
 * @pad0: padding
 * @sRAMBases: out
 * @sRAMSizes: out
 * @platformFlagBits: out
 * @registerAPB: out
 * @nnClusterNum: out
 * @virtualAddressBits: out
 */
struct gcsHAL_QUERY_CHIP_IDENTITY {
	__u32 chipModel;
	__u32 chipRevision;
	__u32 chipDate;
	__u32 chipFeatures;
	__u32 chipMinorFeatures;
	__u32 chipMinorFeatures1;
	__u32 chipMinorFeatures2;
	__u32 chipMinorFeatures3;
	__u32 chipMinorFeatures4;
	__u32 chipMinorFeatures5;
	__u32 chipMinorFeatures6;
	__u32 streamCount;
	__u32 pixelPipes;
	__u32 resolvePipes;
	__u32 instructionCount;
	__u32 PSInstructionCount;
	__u32 numConstants;
	__u32 varyingsCount;
	__u32 gpuCoreCount;
	__u32 clusterAvailMask;
	__u32 productID;
	__u32 chipFlags;
	__u32 ecoID;
	__u32 customerID;
	__u32 chipConfig;
	__u32 pad0;
	__u64 sRAMBases[2];
	__u32 sRAMSizes[2];
	__u64 platformFlagBits;
	__u64 registerAPB;
	__u32 nnClusterNum;
	__u32 virtualAddressBits;
};

/**
 * struct gcsHAL_QUERY_CHIP_OPTIONS - QUERY_CHIP_OPTION, all out; what is not
 *	described is 0
 * @gpuProfiler: 1: the driver reads counters
 * @allowFastClear: 1: fast clear may be used
 * @powerManagement: 1: cores are switched off while they have no work
 * @enableMMU: 1
 * @allowCompression: 1: compression may be used
 * @smallBatch: 1
 * @uscL1CacheRatio: how much of the shaders' cache is the first level's, as
 *	contexts of HALTI5 load it (0x3884, USC_CONTROL); else 0
 * @uscAttribCacheRatio: 2
 * @userClusterMask: out: 0
 * @userClusterMasks: out: 0
 * @pad0: padding
 * @sRAMGPUVirtAddrs: out: 0
 * @sRAMSizes: out: 0
 * @sRAMCount: out: 0
 * @pad1: padding
 * @extSRAMCPUPhysAddrs: out: 0
 * @extSRAMGPUPhysAddrs: out: 0
 * @extSRAMGPUVirtAddrs: out: 0
 * @extSRAMGPUPhysNames: out: 0
 * @extSRAMSizes: out: 0
 * @extSRAMCount: out: 0
 * @vidMemCount: 1 with a pool of contiguous memory, else 0
 * @secureMode: out: 0
 * @hasShader: shader cores
 * @enableNNClusters: 0xff
 * @configNNPowerControl: out: 0
 * @activeNNCoreCount: neural cores
 * @pad2: padding
 */
struct gcsHAL_QUERY_CHIP_OPTIONS {
	__s32 gpuProfiler;
	__s32 allowFastClear;
	__s32 powerManagement;
	__s32 enableMMU;
	__u32 allowCompression;
	__s32 smallBatch;
	__u32 uscL1CacheRatio;
	__u32 uscAttribCacheRatio;
	__u32 userClusterMask;
	__u32 userClusterMasks[20];
	__u32 pad0;
	__u64 sRAMGPUVirtAddrs[2];
	__u32 sRAMSizes[2];
	__u32 sRAMCount;
	__u32 pad1;
	__u64 extSRAMCPUPhysAddrs[2];
	__u64 extSRAMGPUPhysAddrs[2];
	__u64 extSRAMGPUVirtAddrs[2];
	__u32 extSRAMGPUPhysNames[2];
	__u32 extSRAMSizes[2];
	__u32 extSRAMCount;
	__u32 vidMemCount;
	__u32 secureMode;
	__s32 hasShader;
	__u32 enableNNClusters;
	__u32 configNNPowerControl;
	__u32 activeNNCoreCount;
	__u32 pad2;
};

/**
 * struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY - ALLOCATE_NON_PAGED_MEMORY
 * @flags: not used by the driver
 * @pad0: padding
 * @bytes: in: wanted, out: granted
 * @physName: out: handle
 * @pad1: padding
 * @logical: out: address in the process
 */
struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY {
	__u32 flags;
	__u32 pad0;
	__u64 bytes;
	__u32 physName;
	__u32 pad1;
	__u64 logical;
};

/**
 * struct gcsHAL_FREE_NON_PAGED_MEMORY - FREE_NON_PAGED_MEMORY
 * @bytes: in: not 0
 * @physName: in: handle
 * @pad0: padding
 * @logical: in: not 0
 */
struct gcsHAL_FREE_NON_PAGED_MEMORY {
	__u64 bytes;
	__u32 physName;
	__u32 pad0;
	__u64 logical;
};

/**
 * struct gcsHAL_ALLOCATE_LINEAR_VIDEO_MEMORY - ALLOCATE_LINEAR_VIDEO_MEMORY
 * @bytes: in: wanted
 * @alignment: in: of the GPU address, in bytes; 0: any
 * @type: in: enum gceVIDMEM_TYPE
 * @flag: in: gcvALLOC_FLAG_
 * @pool: in: enum gcePOOL to look in, out: that it lies in
 * @sRAMIndex: not used by the driver
 * @extSRAMIndex: not used by the driver
 * @vidMemIndex: in, from 1 on: memory in pages
 * @node: out: handle
 */
struct gcsHAL_ALLOCATE_LINEAR_VIDEO_MEMORY {
	__u64 bytes;
	__u32 alignment;
	__u32 type;
	__u32 flag;
	__u32 pool;
	__s32 sRAMIndex;
	__s32 extSRAMIndex;
	__s32 vidMemIndex;
	__u32 node;
};

/**
 * struct gcsUSER_MEMORY_DESC - memory that is not the driver's
 * @flag: gcvALLOC_FLAG_USERMEMORY or gcvALLOC_FLAG_DMABUF
 * @handle: descriptor of the dma-buf
 * @dmabuf: not used by the driver
 * @logical: address of the process's own memory
 * @physical: all ones
 * @size: bytes of the process's own memory
 */
struct gcsUSER_MEMORY_DESC {
	__u32 flag;
	__u32 handle;
	__u64 dmabuf;
	__u64 logical;
	__u64 physical;
	__u64 size;
};

/**
 * struct gcsHAL_WRAP_USER_MEMORY - WRAP_USER_MEMORY
 * @desc: in: what is to be a node
 * @type: in: not used by the driver
 * @node: out: handle
 * @bytes: out: bytes
 */
struct gcsHAL_WRAP_USER_MEMORY {
	struct gcsUSER_MEMORY_DESC desc;
	__u32 type;
	__u32 node;
	__u64 bytes;
};

/**
 * struct gcsHAL_RELEASE_VIDEO_MEMORY - RELEASE_VIDEO_MEMORY: a locked node
 *	goes with its last unlock
 * @node: in: handle
 */
struct gcsHAL_RELEASE_VIDEO_MEMORY {
	__u32 node;
};

/**
 * struct gcsHAL_LOCK_VIDEO_MEMORY - LOCK_VIDEO_MEMORY
 * @node: in: handle
 * @cacheable: in: 1: the view is to be cached, in pool VIRTUAL
 * @address: out: GPU address, if a lock was asked for
 * @memory: out: address in the process, if a view was asked for; else 0
 * @gid: out: 0
 * @pad0: padding
 * @physicalAddress: out: physical address of memory in one piece; else 0
 * @op: in: bits of enum gceLOCK_VIDEO_MEMORY_OP; 0 does nothing
 * @pad1: padding
 */
struct gcsHAL_LOCK_VIDEO_MEMORY {
	__u32 node;
	__s32 cacheable;
	__u64 address;
	__u64 memory;
	__u32 gid;
	__u32 pad0;
	__u64 physicalAddress;
	__u32 op;
	__u32 pad1;
};

/**
 * struct gcsHAL_UNLOCK_VIDEO_MEMORY - UNLOCK_VIDEO_MEMORY, also in a queue
 * @node: in: handle
 * @type: not used by the driver
 * @pool: out: enum gcePOOL; 0 if only the view was ended
 * @bytes: out: of the node; 0 if only the view was ended
 * @asynchroneous: out: 1: the second half must follow, in a queue or by
 *	BOTTOM_HALF_UNLOCK_VIDEO_MEMORY; as it came if @op does not say to
 *	unlock
 * @op: in: bits of enum gceLOCK_VIDEO_MEMORY_OP; 0 does nothing
 */
struct gcsHAL_UNLOCK_VIDEO_MEMORY {
	__u64 node;
	__u32 type;
	__u32 pool;
	__u64 bytes;
	__s32 asynchroneous;
	__u32 op;
};

/**
 * struct gcsHAL_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY -
 *	BOTTOM_HALF_UNLOCK_VIDEO_MEMORY: the second half, behind what the GPU
 *	has to do
 * @node: in: handle
 * @type: not used by the driver
 */
struct gcsHAL_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY {
	__u32 node;
	__u32 type;
};

/**
 * struct gcsHAL_EXPORT_VIDEO_MEMORY - EXPORT_VIDEO_MEMORY
 * @node: in: handle
 * @flags: in: open(2)'s: O_RDWR to map it for writing, O_CLOEXEC
 * @fd: out: descriptor of a dma-buf of the node
 */
struct gcsHAL_EXPORT_VIDEO_MEMORY {
	__u32 node;
	__u32 flags;
	__s32 fd;
};

/**
 * struct gcsHAL_NAME_VIDEO_MEMORY - NAME_VIDEO_MEMORY
 * @handle: in: handle
 * @name: out: name, for IMPORT_VIDEO_MEMORY in another process
 */
struct gcsHAL_NAME_VIDEO_MEMORY {
	__u32 handle;
	__u32 name;
};

/**
 * struct gcsHAL_IMPORT_VIDEO_MEMORY - IMPORT_VIDEO_MEMORY
 * @name: in: name
 * @handle: out: handle
 */
struct gcsHAL_IMPORT_VIDEO_MEMORY {
	__u32 name;
	__u32 handle;
};

/**
 * struct gcsHAL_MAP_MEMORY - MAP_MEMORY
 * @physName: in: handle of non-paged memory, or contiguousPhysName of
 *	QUERY_VIDEO_MEMORY
 * @pad0: padding
 * @bytes: in, of the pool: not 0
 * @logical: out: address in the process
 */
struct gcsHAL_MAP_MEMORY {
	__u32 physName;
	__u32 pad0;
	__u64 bytes;
	__u64 logical;
};

/**
 * struct gcsHAL_UNMAP_MEMORY - UNMAP_MEMORY
 * @physName: in: as of MAP_MEMORY
 * @pad0: padding
 * @bytes: in, of the pool: not 0
 * @logical: in, of the pool: not 0
 */
struct gcsHAL_UNMAP_MEMORY {
	__u32 physName;
	__u32 pad0;
	__u64 bytes;
	__u64 logical;
};

/**
 * struct gcsHAL_CACHE - CACHE: hands memory from one side to the other
 * @operation: in: enum gceCACHEOPERATION
 * @pad0: padding
 * @process: not used by the driver
 * @logical: in: address in the process
 * @bytes: in: bytes
 * @offset: not used by the driver
 * @node: in: handle; 0: memory of nobody's
 * @pad1: padding
 */
struct gcsHAL_CACHE {
	__u32 operation;
	__u32 pad0;
	__u64 process;
	__u64 logical;
	__u64 bytes;
	__u64 offset;
	__u32 node;
	__u32 pad1;
};

/**
 * struct gcsHAL_ATTACH - ATTACH
 * @context: out: handle
 * @pad0: padding
 * @maxState: out: states that a context keeps
 * @numStates: out: the same
 * @map: not used by the driver
 * @logicals: not used by the driver
 * @bytes: out: 0
 * @shared: not used by the driver
 */
struct gcsHAL_ATTACH {
	__u32 context;
	__u32 pad0;
	__u64 maxState;
	__u32 numStates;
	__s32 map;
	__u64 logicals[2];
	__u32 bytes;
	__s32 shared;
};

/**
 * struct gcsHAL_DETACH - DETACH
 * @context: in: handle
 */
struct gcsHAL_DETACH {
	__u32 context;
};

/**
 * struct gcsHAL_EVENT_COMMIT - EVENT_COMMIT
 * @queue: in: address of the first struct gcsQUEUE
 * @broCoreMask: not used by the driver
 * @shared: not used by the driver
 */
struct gcsHAL_EVENT_COMMIT {
	__u64 queue;
	__u32 broCoreMask;
	__s32 shared;
};

/**
 * struct gcsHAL_COMMAND_LOCATION - where commands are
 * @priority: not used by the driver
 * @channelId: not used by the driver
 * @videoMemNode: handle of the node that holds them; not used by this driver,
 *	but the vendor's finds their memory by it: none is gcvSTATUS_NOT_FOUND
 * @pad0: padding
 * @address: GPU address of the memory that holds them, as LOCK answers it; not
 *	used by this driver, but the vendor's lets the GPU run them there
 * @logical: address of the memory that holds them: a node's that is locked, or
 *	non-paged
 * @startOffset: start of the head in it; a multiple of 8
 * @size: bytes, with head and tail; a multiple of 8: the commands are what is
 *	left without these
 * @reservedHead: bytes of the head, which are not run; a multiple of 8. This
 *	driver writes nothing there and takes 0; the vendor's writes a pipe
 *	switch there: gcdCOMMAND_RESERVED_HEAD
 * @reservedTail: bytes of the tail, which are not run; a multiple of 8. As
 *	the head; the vendor's writes a LINK there: gcdCOMMAND_RESERVED_TAIL
 * @patchHead: not used by the driver
 * @exitIndex: not used by the driver
 * @entryPipe: enum gcePIPE_SELECT that they begin in: the driver selects it
 *	unless it is @exitPipe of the piece before, or of the last COMMIT
 * @exitPipe: the pipe they leave selected
 * @pad1: padding
 * @next: address of the next piece, which runs behind it; 0: the last
 */
struct gcsHAL_COMMAND_LOCATION {
	__u32 priority;
	__u32 channelId;
	__u32 videoMemNode;
	__u32 pad0;
	__u64 address;
	__u64 logical;
	__u32 startOffset;
	__u32 size;
	__u32 reservedHead;
	__u32 reservedTail;
	__u64 patchHead;
	__u32 exitIndex;
	__u32 entryPipe;
	__u32 exitPipe;
	__u32 pad1;
	__u64 next;
};

/**
 * struct gcsHAL_SUBCOMMIT - commands for a core
 * @coreId: of gcvHARDWARE_2D and gcvHARDWARE_VG which of these cores, from
 *	0; with any other @hardwareType the place in CHIP_INFO's list
 * @pad0: padding
 * @delta: address of the first struct gcsSTATE_DELTA; 0: none
 * @context: handle of ATTACH; 0: none
 * @queue: address of the first struct gcsQUEUE; 0: none
 * @commandBuffer: the commands
 * @next: address of the struct gcsHAL_SUBCOMMIT of another core, which is
 *	submitted next; 0: the last
 * @useLocalMem: not used by the driver
 * @pad1: padding
 */
struct gcsHAL_SUBCOMMIT {
	__u32 coreId;
	__u32 pad0;
	__u64 delta;
	__u64 context;
	__u64 queue;
	struct gcsHAL_COMMAND_LOCATION commandBuffer;
	__u64 next;
	__s32 useLocalMem;
	__u32 pad1;
};

/**
 * struct gcsHAL_COMMIT - COMMIT
 * @subCommit: in: the commands
 * @shared: not used by the driver
 * @contextSwitched: out: boolean: the states of the context were loaded, and
 *	the delta was read
 * @commitStamp: out: number of the job, of those of its core
 * @broCoreMask: not used by the driver
 * @pad0: padding
 */
struct gcsHAL_COMMIT {
	struct gcsHAL_SUBCOMMIT subCommit;
	__s32 shared;
	__s32 contextSwitched;
	__u64 commitStamp;
	__u32 broCoreMask;
	__u32 pad0;
};

/**
 * struct gcsHAL_COMMIT_DONE - COMMIT_DONE, in a queue only: nothing
 * @context: not used by the driver
 */
struct gcsHAL_COMMIT_DONE {
	__u64 context;
};

/**
 * struct gcsHAL_USER_SIGNAL - USER_SIGNAL
 * @command: in: enum gceUSER_SIGNAL_COMMAND_CODES
 * @id: out of CREATE, else in: the signal
 * @manualReset: in, CREATE: it stays set until it is reset; else it releases
 *	one wait
 * @wait: in, WAIT: milliseconds, or gcvINFINITE
 * @state: in, SIGNAL: 1 sets, 0 resets
 * @status: not used by the driver
 */
struct gcsHAL_USER_SIGNAL {
	__u32 command;
	__s32 id;
	__s32 manualReset;
	__u32 wait;
	__s32 state;
	__s32 status;
};

/**
 * struct gcsHAL_SIGNAL - SIGNAL, in a queue only
 * @signal: in: the signal
 * @auxSignal: not used by the driver
 * @process: in: the caller's process id, or 0. With the id of another client
 *	the record is left out
 * @fromWhere: not used by the driver: always behind the pixel engine
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
 * struct gcsHAL_WRITE_DATA - WRITE_DATA, in a queue only
 * @address: in: GPU address of a word of this process's
 * @data: in: the word
 */
struct gcsHAL_WRITE_DATA {
	__u32 address;
	__u32 data;
};

/**
 * struct gcsHAL_QUERY_POWER_MANAGEMENT - QUERY_POWER_MANAGEMENT_STATE
 * @state: out: enum gceCHIPPOWERSTATE
 * @isIdle: out: 1: nothing is under way
 */
struct gcsHAL_QUERY_POWER_MANAGEMENT {
	__u32 state;
	__s32 isIdle;
};

/**
 * struct gcsFLAT_MAPPING_RANGE - a range that is mapped as it is
 * @start: not used by the driver
 * @end: not used by the driver
 * @size: not used by the driver
 * @flag: not used by the driver
 * @pad0: padding
 * @vStart: not used by the driver
 */
struct gcsFLAT_MAPPING_RANGE {
	__u64 start;
	__u64 end;
	__u64 size;
	__u32 flag;
	__u32 pad0;
	__u64 vStart;
};

/**
 * struct gcsHAL_GET_BASE_ADDRESS - GET_BASE_ADDRESS
 * @baseAddress: out: GPU address = physical address - this
 * @flatMappingRangeCount: out: 0
 * @flatMappingRanges: not used by the driver
 */
struct gcsHAL_GET_BASE_ADDRESS {
	__u32 baseAddress;
	__u32 flatMappingRangeCount;
	struct gcsFLAT_MAPPING_RANGE flatMappingRanges[8];
};

/**
 * struct gcsHAL_TIMESTAMP - TIMESTAMP; start and stop in a queue only
 * @timer: in: 0 to 7
 * @request: in: 0 stop, 1 start, 2 query
 * @timeDelta: out, query: microseconds
 */
struct gcsHAL_TIMESTAMP {
	__u32 timer;
	__u32 request;
	__s32 timeDelta;
};

/**
 * struct gcsDATABASE_COUNTERS - a ledger
 * @bytes: bytes now
 * @maxBytes: bytes at most
 * @totalBytes: bytes in all
 * @allocCount: 0
 * @freeCount: 0
 */
struct gcsDATABASE_COUNTERS {
	__u64 bytes;
	__u64 maxBytes;
	__u64 totalBytes;
	__u32 allocCount;
	__u32 freeCount;
};

/**
 * struct gcuDATABASE_INFO - a ledger
 * @counters: the ledger
 * @time: not used by the driver
 */
struct gcuDATABASE_INFO {
	struct gcsDATABASE_COUNTERS counters;
	__u64 time;
};

/**
 * struct gcsHAL_DATABASE - DATABASE: what the process has
 * @validProcessID: in: 0: the caller; else @processID says it
 * @processID: in: the caller's own
 * @vidMem: out: nodes
 * @nonPaged: out: non-paged memory
 * @contiguous: out: nodes that are physically contiguous
 * @gpuIdle: out: 0
 * @vidMemPool: out: 0
 */
struct gcsHAL_DATABASE {
	__s32 validProcessID;
	__u32 processID;
	struct gcuDATABASE_INFO vidMem;
	struct gcuDATABASE_INFO nonPaged;
	struct gcuDATABASE_INFO contiguous;
	struct gcuDATABASE_INFO gpuIdle;
	struct gcuDATABASE_INFO vidMemPool[3];
};

/**
 * struct gcsHAL_QUERY_RESET_TIME_STAMP - QUERY_RESET_TIME_STAMP
 * @timeStamp: out: how often the GPU has been reset since it was found
 * @contextID: out: 0
 */
struct gcsHAL_QUERY_RESET_TIME_STAMP {
	__u64 timeStamp;
	__u64 contextID;
};

/**
 * struct gcsHAL_CREATE_NATIVE_FENCE - CREATE_NATIVE_FENCE
 * @signal: in: the signal that the fence is about
 * @fenceFD: out: descriptor of a sync file: signaled when the signal is set
 *	the next time, or is set now
 * @pad0: padding
 */
struct gcsHAL_CREATE_NATIVE_FENCE {
	__u64 signal;
	__s32 fenceFD;
	__u32 pad0;
};

/**
 * struct gcsHAL_WAIT_NATIVE_FENCE - WAIT_NATIVE_FENCE
 * @fenceFD: in: descriptor of a sync file, anybody's
 * @timeout: in: milliseconds, or gcvINFINITE
 */
struct gcsHAL_WAIT_NATIVE_FENCE {
	__s32 fenceFD;
	__u32 timeout;
};

/**
 * struct gcsHAL_SHBUF - SHBUF
 * @command: in: enum gceSHBUF_COMMAND_CODES
 * @pad0: padding
 * @id: out of CREATE, else in: the buffer
 * @data: in, WRITE and READ: address in the process
 * @bytes: in; out of READ: bytes, 1024 at most
 * @pad1: padding
 */
struct gcsHAL_SHBUF {
	__u32 command;
	__u32 pad0;
	__u64 id;
	__u64 data;
	__u32 bytes;
	__u32 pad1;
};

/**
 * struct gcsHAL_GET_VIDEO_MEMORY_FD - GET_VIDEO_MEMORY_FD: as
 *	EXPORT_VIDEO_MEMORY
 * @handle: in: handle
 * @exported: not used by the driver
 * @fd: out: descriptor of a dma-buf of the node
 */
struct gcsHAL_GET_VIDEO_MEMORY_FD {
	__u32 handle;
	__s32 exported;
	__s32 fd;
};

/**
 * struct gcsHAL_INTERFACE - a command and its answer
 * @command: in: enum gceHAL_COMMAND_CODES
 * @hardwareType: in: enum gceHARDWARE_TYPE, 0 to 7
 * @devIndex: 0
 * @coreIndex: in: which of the cores that @hardwareType means, from 0: 3D,
 *	3D-and-2D and neural cores are counted together
 * @status: out: enum gceSTATUS
 * @engine: 0
 * @ignoreTLS: not used by the driver
 * @commitMutex: not used by the driver
 * @devCtxt: not used by the driver
 * @u: what the command needs and gives
 */
struct gcsHAL_INTERFACE {
	__u32 command;
	__u32 hardwareType;
	__u32 devIndex;
	__u32 coreIndex;
	__s32 status;
	__u32 engine;
	__s32 ignoreTLS;
	__s32 commitMutex;
	__u64 devCtxt;
	union {
		struct gcsHAL_CHIP_INFO ChipInfo;
		struct gcsHAL_VERSION Version;
		struct gcsHAL_SET_TIMEOUT SetTimeOut;
		struct gcsHAL_QUERY_VIDEO_MEMORY QueryVideoMemory;
		struct gcsHAL_QUERY_CHIP_IDENTITY QueryChipIdentity;
		struct gcsHAL_QUERY_CHIP_OPTIONS QueryChipOptions;
		struct gcsHAL_ALLOCATE_NON_PAGED_MEMORY AllocateNonPagedMemory;
		struct gcsHAL_FREE_NON_PAGED_MEMORY FreeNonPagedMemory;
		struct gcsHAL_ALLOCATE_LINEAR_VIDEO_MEMORY AllocateLinearVideoMemory;
		struct gcsHAL_WRAP_USER_MEMORY WrapUserMemory;
		struct gcsHAL_RELEASE_VIDEO_MEMORY ReleaseVideoMemory;
		struct gcsHAL_LOCK_VIDEO_MEMORY LockVideoMemory;
		struct gcsHAL_UNLOCK_VIDEO_MEMORY UnlockVideoMemory;
		struct gcsHAL_BOTTOM_HALF_UNLOCK_VIDEO_MEMORY BottomHalfUnlockVideoMemory;
		struct gcsHAL_EXPORT_VIDEO_MEMORY ExportVideoMemory;
		struct gcsHAL_NAME_VIDEO_MEMORY NameVideoMemory;
		struct gcsHAL_IMPORT_VIDEO_MEMORY ImportVideoMemory;
		struct gcsHAL_MAP_MEMORY MapMemory;
		struct gcsHAL_UNMAP_MEMORY UnmapMemory;
		struct gcsHAL_CACHE Cache;
		struct gcsHAL_ATTACH Attach;
		struct gcsHAL_DETACH Detach;
		struct gcsHAL_EVENT_COMMIT Event;
		struct gcsHAL_COMMIT Commit;
		struct gcsHAL_COMMIT_DONE CommitDone;
		struct gcsHAL_USER_SIGNAL UserSignal;
		struct gcsHAL_SIGNAL Signal;
		struct gcsHAL_WRITE_DATA WriteData;
		struct gcsHAL_QUERY_POWER_MANAGEMENT QueryPowerManagement;
		struct gcsHAL_GET_BASE_ADDRESS GetBaseAddress;
		struct gcsHAL_TIMESTAMP TimeStamp;
		struct gcsHAL_DATABASE Database;
		struct gcsHAL_QUERY_RESET_TIME_STAMP QueryResetTimeStamp;
		struct gcsHAL_CREATE_NATIVE_FENCE CreateNativeFence;
		struct gcsHAL_WAIT_NATIVE_FENCE WaitNativeFence;
		struct gcsHAL_SHBUF ShBuf;
		struct gcsHAL_GET_VIDEO_MEMORY_FD GetVideoMemoryFd;
		__u64 room[43];
	} u;
};

/**
 * struct gcsQUEUE - a record of an event queue, COMMIT and EVENT_COMMIT
 * @next: address of the next; 0: the last
 * @command: enum gceHAL_COMMAND_CODES: SIGNAL, WRITE_DATA, TIMESTAMP,
 *	UNLOCK_VIDEO_MEMORY (the second half), FREE_NON_PAGED_MEMORY or
 *	COMMIT_DONE
 * @pad0: padding
 * @u: what the command needs
 */
struct gcsQUEUE {
	__u64 next;
	__u32 command;
	__u32 pad0;
	union {
		struct gcsHAL_UNLOCK_VIDEO_MEMORY UnlockVideoMemory;
		struct gcsHAL_SIGNAL Signal;
		struct gcsHAL_WRITE_DATA WriteData;
		struct gcsHAL_TIMESTAMP TimeStamp;
		struct gcsHAL_COMMIT_DONE CommitDone;
		__u64 room[4];
	} u;
};

/**
 * struct gcsSTATE_DELTA - the states that a commit changes in its context
 * @num: the client's own
 * @id: the client's own
 * @elementCount: vertex elements in use, plus one; 0: unchanged
 * @recordCount: records
 * @recordArray: address of the records
 * @recordSize: the client's own
 * @pad0: padding
 * @mapEntryID: the client's own
 * @mapEntryIDSize: the client's own
 * @pad1: padding
 * @mapEntryIndex: the client's own
 * @prev: the client's own
 * @next: the client's own
 */
struct gcsSTATE_DELTA {
	__u32 num;
	__u32 id;
	__u32 elementCount;
	__u32 recordCount;
	__u64 recordArray;
	__u32 recordSize;
	__u32 pad0;
	__u64 mapEntryID;
	__u32 mapEntryIDSize;
	__u32 pad1;
	__u64 mapEntryIndex;
	__u64 prev;
	__u64 next;
};

#endif /* _UAPI_LINUX_GALCORE_H */
