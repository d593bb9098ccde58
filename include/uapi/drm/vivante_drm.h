/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The user interface of the DRM node "vivante": memory objects of the galcore
 * driver for window systems. Drawing goes through /dev/galcore.
 *
 * A program opens the render node whose driver is named "vivante" and this
 * node's process is that of /dev/galcore: an object can be named there by
 * DRM_IOCTL_VIV_GEM_REF_NODE. PRIME exports and imports objects as dma-bufs.
 *
 * Each of these fails with ENOTTY, whatever the reason (the driver's log has
 * it, with dynamic debug), and with ENODEV once the device is gone.
 */
#ifndef _UAPI_DRM_VIVANTE_DRM_H
#define _UAPI_DRM_VIVANTE_DRM_H

#include <drm/drm.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* @flags of an object. It may be cached where it is not contiguous. */
#define DRM_VIV_GEM_CONTIGUOUS	0x01
#define DRM_VIV_GEM_CACHED	0x02
#define DRM_VIV_GEM_SECURE	0x04	/* refused: there is no secure memory */
#define DRM_VIV_GEM_CMA_LIMIT	0x08	/* no effect: all memory is in reach */

/* Makes an object of at least @size bytes, whole pages. */
struct drm_viv_gem_create {
	__u64 size;
	__u32 flags;
	__u32 handle;		/* out */
};

/* Maps it into the process, and keeps its GPU address. */
struct drm_viv_gem_lock {
	__u32 handle;
	__u32 cacheable;
	__u64 logical;		/* out: user address */
};

struct drm_viv_gem_unlock {
	__u32 handle;
};

/* @op of DRM_IOCTL_VIV_GEM_CACHE. */
#define DRM_VIV_GEM_CLEAN_CACHE		0x01
#define DRM_VIV_GEM_INVALIDATE_CACHE	0x02
#define DRM_VIV_GEM_FLUSH_CACHE		0x03
#define DRM_VIV_GEM_MEMORY_BARRIER	0x04

/* Hands @bytes bytes at user address @logical of it to the GPU, or back; all of it if either is 0. */
struct drm_viv_gem_cache {
	__u32 handle;
	__u32 op;
	__u64 logical;
	__u64 bytes;
};

/* @param of DRM_IOCTL_VIV_GEM_QUERY: the pool (enum gcePOOL), and the bytes. */
#define DRM_VIV_GEM_PARAM_POOL	0x00
#define DRM_VIV_GEM_PARAM_SIZE	0x01

struct drm_viv_gem_query {
	__u32 handle;
	__u32 param;
	__u64 value;		/* out */
};

/* Adds @inc to the memory's counter, which begins at 0. */
struct drm_viv_gem_timestamp {
	__u32 handle;
	__u32 inc;
	__u64 timestamp;	/* out: the new count */
};

/*
 * What processes tell each other of the memory; the driver does not look at it. Headers before
 * 6.4.3 have no @ts_cache_mode, but padding.
 */
struct drm_viv_gem_set_tiling {
	__u32 handle;
	__u32 tiling_mode;
	__u32 ts_mode;
	__u32 ts_cache_mode;
	__u64 clear_value;
};

struct drm_viv_gem_get_tiling {
	__u32 handle;
	__u32 tiling_mode;	/* out, as all below */
	__u32 ts_mode;
	__u32 ts_cache_mode;
	__u64 clear_value;
};

/*
 * Object @ts_handle is the tile status of object @handle from now on; it is filled with the pattern of
 * tiles that were not cleared. 0: nothing happens.
 */
struct drm_viv_gem_attach_aux {
	__u32 handle;
	__u32 ts_handle;
};

/*
 * Handles of the object's memory, and of its tile status (0: it has none), for the commands of
 * /dev/galcore. Each is released there once.
 */
struct drm_viv_gem_ref_node {
	__u32 handle;
	__u32 node;		/* out */
	__u32 ts_node;		/* out */
};

#define DRM_VIV_GEM_CREATE	0x00
#define DRM_VIV_GEM_LOCK	0x01
#define DRM_VIV_GEM_UNLOCK	0x02
#define DRM_VIV_GEM_CACHE	0x03
#define DRM_VIV_GEM_QUERY	0x04
#define DRM_VIV_GEM_TIMESTAMP	0x05
#define DRM_VIV_GEM_SET_TILING	0x06
#define DRM_VIV_GEM_GET_TILING	0x07
#define DRM_VIV_GEM_ATTACH_AUX	0x08
#define DRM_VIV_GEM_REF_NODE	0x09
#define DRM_VIV_NUM_IOCTLS	0x0a

#define DRM_IOCTL_VIV_GEM_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_CREATE, struct drm_viv_gem_create)
#define DRM_IOCTL_VIV_GEM_LOCK \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_LOCK, struct drm_viv_gem_lock)
#define DRM_IOCTL_VIV_GEM_UNLOCK \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_UNLOCK, struct drm_viv_gem_unlock)
#define DRM_IOCTL_VIV_GEM_CACHE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_CACHE, struct drm_viv_gem_cache)
#define DRM_IOCTL_VIV_GEM_QUERY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_QUERY, struct drm_viv_gem_query)
#define DRM_IOCTL_VIV_GEM_TIMESTAMP \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_TIMESTAMP, struct drm_viv_gem_timestamp)
#define DRM_IOCTL_VIV_GEM_SET_TILING \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_SET_TILING, struct drm_viv_gem_set_tiling)
#define DRM_IOCTL_VIV_GEM_GET_TILING \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_GET_TILING, struct drm_viv_gem_get_tiling)
#define DRM_IOCTL_VIV_GEM_ATTACH_AUX \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_ATTACH_AUX, struct drm_viv_gem_attach_aux)
#define DRM_IOCTL_VIV_GEM_REF_NODE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIV_GEM_REF_NODE, struct drm_viv_gem_ref_node)

#if defined(__cplusplus)
}
#endif

#endif
