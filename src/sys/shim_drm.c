// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C half of src/sys/drm.rs: the DRM driver "vivante", and what of DRM Rust cannot call: Debian has CONFIG_DRM=m,
 * and the kernel crate its abstractions for CONFIG_DRM=y alone.
 *
 * All references to DRM are weak: the module loads where DRM is not loaded, and has no node then. modprobe loads DRM
 * first.
 */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "shim.h"

#if IS_REACHABLE(CONFIG_DRM)

#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_prime.h>
#include <drm/vivante_drm.h>


#ifdef CONFIG_COMPAT
#pragma weak drm_compat_ioctl
#endif
#pragma weak drm_dev_alloc
#pragma weak drm_dev_put
#pragma weak drm_dev_register
#pragma weak drm_dev_unplug
#pragma weak drm_gem_handle_create
#pragma weak drm_gem_object_free
#pragma weak drm_gem_object_lookup
#pragma weak drm_gem_object_release
#pragma weak drm_gem_prime_fd_to_handle
#pragma weak drm_gem_prime_handle_to_fd
#pragma weak drm_gem_private_object_init
#pragma weak drm_ioctl
#pragma weak drm_open
#pragma weak drm_poll
#pragma weak drm_read
#pragma weak drm_release

/* An object, and the Rust half's part of it. */
struct gal_object {
	struct drm_gem_object base;
	void *content;
};

static const struct gal_drm_answers *gal_answers(const struct drm_device *drm)
{
	return drm->dev_private;
}

static void *gal_content(struct drm_gem_object *object)
{
	return container_of(object, struct gal_object, base)->content;
}

static int gal_object_open(struct drm_gem_object *object, struct drm_file *file)
{
	return gal_answers(object->dev)->enter(file->driver_priv, gal_content(object));
}

static void gal_object_close(struct drm_gem_object *object, struct drm_file *file)
{
	gal_answers(object->dev)->leave(file->driver_priv, gal_content(object));
}

static void gal_object_free(struct drm_gem_object *object)
{
	gal_answers(object->dev)->put(gal_content(object));
	drm_gem_object_release(object);
	kfree(container_of(object, struct gal_object, base));
}

static struct dma_buf *gal_object_export(struct drm_gem_object *object, int flags)
{
	return gal_answers(object->dev)->export(gal_content(object), flags);
}

static const struct drm_gem_object_funcs gal_object_funcs = {
	.open = gal_object_open,
	.close = gal_object_close,
	.free = gal_object_free,
	.export = gal_object_export,
};

/* Takes the content over, whatever it returns. */
static struct drm_gem_object *gal_make_object(struct drm_device *drm, size_t bytes, void *content)
{
	struct gal_object *object = kzalloc(sizeof(*object), GAL_GFP_CLIENT);

	if (!object) {
		gal_answers(drm)->put(content);
		return ERR_PTR(-ENOMEM);
	}
	object->base.funcs = &gal_object_funcs;
	object->content = content;
	drm_gem_private_object_init(drm, &object->base, bytes);
	return &object->base;
}

int gal_new_object(struct drm_file *file, size_t bytes, void *content, u32 *handle)
{
	struct drm_gem_object *object = gal_make_object(file->minor->dev, bytes, content);
	int error;

	if (IS_ERR(object))
		return PTR_ERR(object);
	error = drm_gem_handle_create(file, object, handle);
	/* The handle has one now, or nothing has. */
	drm_gem_object_put(object);
	return error;
}

struct drm_gem_object *gal_find_object(struct drm_file *file, u32 handle)
{
	return drm_gem_object_lookup(file, handle);
}

void *gal_object_content(struct drm_gem_object *object)
{
	return gal_content(object);
}

size_t gal_object_bytes(struct drm_gem_object *object)
{
	return object->size;
}

void gal_put_object(struct drm_gem_object *object)
{
	drm_gem_object_put(object);
}

struct file *gal_open_file(struct drm_file *file)
{
	return file->filp;
}

static struct drm_gem_object *gal_prime_import(struct drm_device *drm, struct dma_buf *buffer)
{
	size_t bytes = PAGE_ALIGN(gal_buffer_bytes(buffer));
	void *content = gal_answers(drm)->import(buffer);

	if (IS_ERR(content))
		return ERR_CAST(content);
	return gal_make_object(drm, bytes, content);
}

static int gal_handle_to_fd(struct drm_device *drm, struct drm_file *file, u32 handle, u32 flags,
			    int *fd)
{
	int error = gal_answers(drm)->check(file->driver_priv);

	return error ?: drm_gem_prime_handle_to_fd(drm, file, handle, flags, fd);
}

/*
 * The import has DRM's locks of the file and of the node: what waits for the GPU, on account of memory that is still in
 * use, does so outside of them.
 */
static int gal_fd_to_handle(struct drm_device *drm, struct drm_file *file, int fd, u32 *handle)
{
	int error = drm_gem_prime_fd_to_handle(drm, file, fd, handle);

	if (error != -EBUSY)
		return error;
	error = gal_answers(drm)->settle(file->driver_priv);
	return error ?: drm_gem_prime_fd_to_handle(drm, file, fd, handle);
}

static int gal_file_open(struct drm_device *drm, struct drm_file *file)
{
	return gal_answers(drm)->open(&file->driver_priv);
}

static void gal_file_close(struct drm_device *drm, struct drm_file *file)
{
	gal_answers(drm)->close(file->driver_priv);
}

/* The views of all files of a process have one address space: see src/sys/views.rs. */
static int gal_node_open(struct inode *inode, struct file *file)
{
	struct drm_file *opened;
	int error = drm_open(inode, file);

	if (error)
		return error;
	opened = file->private_data;
	gal_answers(opened->minor->dev)->adopt(opened->driver_priv, file);
	return 0;
}

static int gal_node_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct drm_file *opened = file->private_data;

	return gal_answers(opened->minor->dev)->mmap(opened->driver_priv, vma);
}

static void gal_node_show(struct seq_file *m, struct file *file)
{
	struct drm_file *opened = file->private_data;

	gal_answers(opened->minor->dev)->show(opened->driver_priv, m);
}

static const struct file_operations gal_node_operations = {
	.owner = THIS_MODULE,
	.open = gal_node_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.compat_ioctl = drm_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = gal_node_mmap,
	.show_fdinfo = gal_node_show,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

#define GAL_CALLS(call)                                                      \
	call(CREATE, create) call(LOCK, lock) call(UNLOCK, unlock)           \
	call(CACHE, cache) call(QUERY, query) call(TIMESTAMP, timestamp)     \
	call(SET_TILING, set_tiling) call(GET_TILING, get_tiling)            \
	call(ATTACH_AUX, attach_aux) call(REF_NODE, ref_node)

#define GAL_HANDLER(upper, lower)                                                          \
	static int gal_viv_##lower(struct drm_device *drm, void *data, struct drm_file *file) \
	{                                                                                  \
		return gal_answers(drm)->call(file->driver_priv, file, DRM_VIV_GEM_##upper, \
					      data, sizeof(struct drm_viv_gem_##lower));   \
	}

GAL_CALLS(GAL_HANDLER)

#define GAL_ENTRY(upper, lower) \
	DRM_IOCTL_DEF_DRV(VIV_GEM_##upper, gal_viv_##lower, DRM_AUTH | DRM_RENDER_ALLOW),

static const struct drm_ioctl_desc gal_viv_ioctls[] = { GAL_CALLS(GAL_ENTRY) };

static const struct drm_driver gal_viv_driver = {
	.name = "vivante",
	.desc = "vivante DRM",
	.major = 1,
	.minor = 0,
	.driver_features = DRIVER_GEM | DRIVER_RENDER,
	.open = gal_file_open,
	.postclose = gal_file_close,
	.prime_handle_to_fd = gal_handle_to_fd,
	.prime_fd_to_handle = gal_fd_to_handle,
	.gem_prime_import = gal_prime_import,
	.ioctls = gal_viv_ioctls,
	.num_ioctls = ARRAY_SIZE(gal_viv_ioctls),
	.fops = &gal_node_operations,
};

bool gal_has_drm(void)
{
	return drm_dev_alloc;
}

struct drm_device *gal_new_node(struct device *parent, const struct gal_drm_answers *answers)
{
	struct drm_device *drm = drm_dev_alloc(&gal_viv_driver, parent);
	int error;

	if (IS_ERR(drm))
		return drm;
	drm->dev_private = (void *)answers;
	error = drm_dev_register(drm, 0);
	if (error) {
		drm_dev_put(drm);
		return ERR_PTR(error);
	}
	return drm;
}

/* Files stay open, and answer ENODEV. */
void gal_end_node(struct drm_device *drm)
{
	drm_dev_unplug(drm);
	drm_dev_put(drm);
}

#else

bool gal_has_drm(void)
{
	return false;
}

struct drm_device *gal_new_node(struct device *parent, const struct gal_drm_answers *answers)
{
	return ERR_PTR(-ENOTSUPP);
}

void gal_end_node(struct drm_device *drm)
{
}

int gal_new_object(struct drm_file *file, size_t bytes, void *content, u32 *handle)
{
	return -ENOTSUPP;
}

struct drm_gem_object *gal_find_object(struct drm_file *file, u32 handle)
{
	return NULL;
}

void *gal_object_content(struct drm_gem_object *object)
{
	return NULL;
}

size_t gal_object_bytes(struct drm_gem_object *object)
{
	return 0;
}

void gal_put_object(struct drm_gem_object *object)
{
}

struct file *gal_open_file(struct drm_file *file)
{
	return NULL;
}

#endif
