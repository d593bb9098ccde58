/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * What all generations of galcore's user interface have in common. Programs
 * include <linux/galcore.h>, the newest of them, or <linux/galcore-4.0.0.h>.
 */
#ifndef _UAPI_LINUX_GALCORE_COMMON_H
#define _UAPI_LINUX_GALCORE_COMMON_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* ioctl request numbers: plain integers, not made with _IOC(). */
#define IOCTL_GCHAL_INTERFACE		30000
/* Refused with ENOTTY: it was the kernel's own entry. */
#define IOCTL_GCHAL_KERNEL_INTERFACE	30001
/* Never implemented. */
#define IOCTL_GCHAL_TERMINATE		30002

/*
 * This driver's own: says which generation of the interface the file speaks,
 * before its first command, where the sizes leave several. The argument is
 * the name, ended by a 0: "dove", "dove_old", "v2", "arnova", "v4", "eureka",
 * "4.0.0", "4.1.0", "4.6.9", "5.0.11.p6", "5.0.11.p8",
 * "6.2.2", "6.2.3", "6.2.4.p2", "6.2.4.p3" or "6.4.11". EINVAL: there is no
 * such generation. EBUSY: the file speaks another one already.
 */
#define GALCORE_IOC_SET_INTERFACE	_IOW('G', 1, char[16])

/**
 * struct galcore_resets - resets of cores that the process was in
 * @guilty: how many its own commands have caused, by hanging a core
 * @innocent: how many others have, or nobody, while it had jobs there
 * @dropped: its jobs that were dropped; with an innocent one there may be none
 * @reserved: 0
 */
struct galcore_resets {
	__u32 guilty;
	__u32 innocent;
	__u32 dropped;
	__u32 reserved;
};

/*
 * This driver's own: what has become of the process's jobs. GL_KHR_robustness
 * wants to know it: compare with what it was before.
 */
#define GALCORE_IOC_RESETS		_IOR('G', 2, struct galcore_resets)

/*
 * Bytes of the interface in the generations, which the driver tells them by;
 * in brackets: builds with the profiler. Those up to 4.6.6 have an argument of
 * 16 bytes, the others struct gcsDRIVER_ARGS.
 */
#define GALCORE_SIZE_ARNOVA		64
#define GALCORE_SIZE_V2			216	/* dove, dove_old, v2 */
#define GALCORE_SIZE_4_6_6		128	/* v4, eureka [224] */
#define GALCORE_SIZE_4_6_9		168	/* 4.0.0, 4.1.0 [240]; 4.6.9 [248, 240] */
#define GALCORE_SIZE_5_0_11		320
#define GALCORE_SIZE_6_2		344	/* [400] */
#define GALCORE_SIZE_6_4_11		384

/* WAIT without an end, in gcsHAL_USER_SIGNAL.wait. */
#define gcvINFINITE			0xffffffffU

/**
 * struct gcsDRIVER_ARGS - the argument of IOCTL_GCHAL_INTERFACE
 * @InputBuffer: address of the interface to read
 * @InputBufferSize: its size: exactly sizeof(struct gcsHAL_INTERFACE)
 * @OutputBuffer: address the answer is written to; usually @InputBuffer
 * @OutputBufferSize: its size: exactly sizeof(struct gcsHAL_INTERFACE)
 *
 * 32-bit clients of this generation declare the two addresses as pointers
 * with padding behind them, so the driver looks at their low 32 bits only.
 */
struct gcsDRIVER_ARGS {
	__u64 InputBuffer;
	__u64 InputBufferSize;
	__u64 OutputBuffer;
	__u64 OutputBufferSize;
};

/* Results, gcsHAL_INTERFACE.status: negative is an error. */
enum gceSTATUS {
	gcvSTATUS_OK			= 0,
	gcvSTATUS_TRUE			= 1,
	gcvSTATUS_CHIP_NOT_READY	= 11,
	gcvSTATUS_SKIP			= 13,	/* there was nothing to be read */
	gcvSTATUS_INVALID_ARGUMENT	= -1,
	gcvSTATUS_INVALID_OBJECT	= -2,
	gcvSTATUS_OUT_OF_MEMORY		= -3,
	gcvSTATUS_MEMORY_LOCKED		= -4,
	gcvSTATUS_MEMORY_UNLOCKED	= -5,
	gcvSTATUS_HEAP_CORRUPTED	= -6,
	gcvSTATUS_GENERIC_IO		= -7,
	gcvSTATUS_INVALID_ADDRESS	= -8,
	gcvSTATUS_CONTEXT_LOSSED	= -9,
	gcvSTATUS_TOO_COMPLEX		= -10,
	gcvSTATUS_BUFFER_TOO_SMALL	= -11,
	gcvSTATUS_INTERFACE_ERROR	= -12,
	gcvSTATUS_NOT_SUPPORTED		= -13,
	gcvSTATUS_MORE_DATA		= -14,
	gcvSTATUS_TIMEOUT		= -15,
	gcvSTATUS_OUT_OF_RESOURCES	= -16,
	gcvSTATUS_INVALID_DATA		= -17,
	gcvSTATUS_INVALID_MIPMAP	= -18,
	gcvSTATUS_NOT_FOUND		= -19,
	gcvSTATUS_NOT_ALIGNED		= -20,
	gcvSTATUS_INVALID_REQUEST	= -21,
	gcvSTATUS_GPU_NOT_RESPONDING	= -22,
	gcvSTATUS_TIMER_OVERFLOW	= -23,
	gcvSTATUS_VERSION_MISMATCH	= -24,
	gcvSTATUS_LOCKED		= -25,
	gcvSTATUS_INTERRUPTED		= -26,
	gcvSTATUS_DEVICE		= -27,
};

/* What commands begin in, entryPipe. */
enum gcePIPE_SELECT {
	gcvPIPE_INVALID	= -1,
	gcvPIPE_3D	= 0,
	gcvPIPE_2D	= 1,
};

/* gcsHAL_USER_SIGNAL.command; up to v2 without the last two. */
enum gceUSER_SIGNAL_COMMAND_CODES {
	gcvUSER_SIGNAL_CREATE	= 0,
	gcvUSER_SIGNAL_DESTROY	= 1,
	gcvUSER_SIGNAL_SIGNAL	= 2,
	gcvUSER_SIGNAL_WAIT	= 3,
	gcvUSER_SIGNAL_MAP	= 4,	/* one more reference */
	gcvUSER_SIGNAL_UNMAP	= 5,	/* as DESTROY: one reference less */
};

/* gcsHAL_CACHE.operation. */
enum gceCACHEOPERATION {
	gcvCACHE_CLEAN		= 1,
	gcvCACHE_INVALIDATE	= 2,
	gcvCACHE_FLUSH		= 3,
	gcvCACHE_MEMORY_BARRIER	= 4,
};

/**
 * struct gcsSTATE_DELTA_RECORD - a state that a context has changed
 * @address: word address of the state
 * @mask: bits that change
 * @data: their new value
 */
struct gcsSTATE_DELTA_RECORD {
	__u32 address;
	__u32 mask;
	__u32 data;
};

/*
 * Offset for mmap() of the completion page: one page, shared and read-only.
 * Once a process has mapped it, its jobs are counted from 1, those of each core
 * apart. Up to 6.2 COMMIT and EVENT_COMMIT write the number of the job into the
 * @handle of the request's header; 6.4.11 has none, so the client counts.
 */
#define GALCORE_COMPLETION_OFFSET	(1ULL << 36)

/**
 * struct galcore_completion_core - what the completion page says of one core
 * @sequence: odd while the rest changes. Read it, the rest, and it again: what
 *	was read is good if both are the same even number.
 * @reserved: 0
 * @completed: number of the process's last job in this core that has ended; 0:
 *	none. It is shown before the job's records run.
 * @timestamp_ns: when that was, in nanoseconds of CLOCK_MONOTONIC
 * @dropped: number of the last of them that was not done, because the core hung
 *	or was taken away; 0: none
 * @unused: 0
 */
struct galcore_completion_core {
	__u32 sequence;
	__u32 reserved;
	__u64 completed;
	__u64 timestamp_ns;
	__u64 dropped;
	__u64 unused[4];
};

/* The version of the completion page that is described here. */
#define GALCORE_COMPLETION_VERSION	1

/* Cores at most. */
#define GALCORE_COMPLETION_CORES	4

/**
 * struct galcore_completion - start of the completion page
 * @version: GALCORE_COMPLETION_VERSION; of another version nothing else is known
 * @cores: how many cores there are
 * @unused: 0
 * @core: what is done on each core; cores are numbered in the order in which
 *	they were first bound
 */
struct galcore_completion {
	__u32 version;
	__u32 cores;
	__u64 unused[7];
	struct galcore_completion_core core[GALCORE_COMPLETION_CORES];
};

/*
 * Russell King's ioctls, which etna_viv and xf86-video-armada know. The
 * argument is that of IOCTL_GCHAL_INTERFACE, and the structure is what it
 * names. The file must have sent a command before, or have said by
 * GALCORE_IOC_SET_INTERFACE what it speaks: @header then has the status where
 * the generation has it (byte 4 up to v2, byte 8 up to 5.0.11, else byte 16).
 * UNMAP_USER_MEMORY ends the mapping by @info and @address.
 */
#define IOC_GDMABUF_MAP		_IOWR('_', 0, struct galcore_dmabuf_map)
#define IOC_GMEMBUF_MAP		_IOWR('_', 1, struct galcore_membuf_map)
/* The first form, of earlier X drivers: for reading and writing. */
#define IOC_GDMABUF_MAP_OLD	_IOWR('_', 0, struct galcore_dmabuf_map_old)

/* @prot of these: what the GPU does. */
#define GALCORE_PROT_READ	1
#define GALCORE_PROT_WRITE	2

/**
 * struct galcore_dmabuf_map - a dma-buf for the GPU
 * @header: out: the status
 * @info: out: handle
 * @address: out: GPU address
 * @fd: in: descriptor of the dma-buf
 * @prot: in: GALCORE_PROT_ bits
 */
struct galcore_dmabuf_map {
	__u32 header[16];
	__u64 info;
	__u64 address;
	__s32 fd;
	__u32 prot;
};

/**
 * struct galcore_membuf_map - the caller's own memory for the GPU
 * @header: out: the status
 * @info: out: handle
 * @address: out: GPU address
 * @virt: in: its address
 * @size: in: its bytes
 * @prot: in: GALCORE_PROT_ bits
 */
struct galcore_membuf_map {
	__u32 header[16];
	__u64 info;
	__u64 address;
	__u64 virt;
	__u32 size;
	__u32 prot;
};

/**
 * struct galcore_dmabuf_map_old - a dma-buf for the GPU, first form
 * @zero: 0
 * @status: out: the status, in every generation
 * @fd: in: descriptor of the dma-buf
 * @info: out: handle
 * @address: out: GPU address
 */
struct galcore_dmabuf_map_old {
	__u32 zero;
	__s32 status;
	__s32 fd;
	__u32 info;
	__u32 address;
};

#endif /* _UAPI_LINUX_GALCORE_COMMON_H */
