// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C half of src/sys/drm.rs: the DRM drivers "vivante" and "etnaviv". The kernel crate has abstractions of
 * DRM only for CONFIG_DRM=y, and Debian has CONFIG_DRM=m.
 *
 * All references to DRM are weak: without DRM the module loads, too, but has no DRM nodes. modprobe loads
 * DRM first.
 */
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>

#include "shim.h"

#if IS_REACHABLE(CONFIG_DRM)

#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_prime.h>
#include <drm/etnaviv_drm.h>
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

/*
 * A direct call needs a PLT entry on arm64. One for address 0 cannot be made, and the module loader
 * BUGs if it compares two of them in different pages.
 */
#define gal_call(function) ({						\
	static typeof(&(function)) const address = function;		\
	typeof(&(function)) const *from = &address;			\
									\
	OPTIMIZER_HIDE_VAR(from);					\
	*from;								\
})

static void gal_put(struct drm_gem_object *object)
{
	kref_put(&object->refcount, gal_call(drm_gem_object_free));
}

/* An object, and its content, which belongs to the Rust half. */
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
	gal_call(drm_gem_object_release)(object);
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

/* Takes ownership of @content, even if it fails. */
static struct drm_gem_object *gal_make_object(struct drm_device *drm, size_t bytes, void *content)
{
	struct gal_object *object = kzalloc(sizeof(*object), GAL_GFP_CLIENT);

	if (!object) {
		gal_answers(drm)->put(content);
		return ERR_PTR(-ENOMEM);
	}
	object->base.funcs = &gal_object_funcs;
	object->content = content;
	gal_call(drm_gem_private_object_init)(drm, &object->base, bytes);
	return &object->base;
}

int gal_new_object(struct drm_file *file, size_t bytes, void *content, u32 *handle)
{
	struct drm_gem_object *object = gal_make_object(file->minor->dev, bytes, content);
	int error;

	if (IS_ERR(object))
		return PTR_ERR(object);
	error = gal_call(drm_gem_handle_create)(file, object, handle);
	/* On success, the handle has a reference. */
	gal_put(object);
	return error;
}

struct drm_gem_object *gal_find_object(struct drm_file *file, u32 handle)
{
	return gal_call(drm_gem_object_lookup)(file, handle);
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
	gal_put(object);
}

struct file *gal_open_file(struct drm_file *file)
{
	return file->filp;
}

/* A reference to the object's dma-buf. NULL: it has none. */
struct dma_buf *gal_object_buffer(struct drm_gem_object *object)
{
	struct dma_buf *buffer;

	guard(mutex)(&object->dev->object_name_lock);
	buffer = object->dma_buf;
	if (buffer)
		get_dma_buf(buffer);
	return buffer;
}

bool gal_is_shared(struct drm_gem_object *object)
{
	return READ_ONCE(object->dma_buf);
}

int gal_wait_for_others(struct dma_buf *buffer, bool write, unsigned int milliseconds,
			unsigned int except, bool outlasts)
{
	/* With 0 milliseconds, checks whether they are signaled. */
	ktime_t end = ktime_add_ms(ktime_get(), milliseconds);
	struct dma_resv_iter cursor;
	struct dma_fence *fence;
	int error = 0;

	dma_resv_iter_begin(&cursor, buffer->resv, dma_resv_usage_rw(write));
	dma_resv_for_each_fence_unlocked(&cursor, fence) {
		if (gal_is_fence_of(fence, except) || dma_fence_is_signaled(fence))
			continue;
		error = gal_wait_until(fence, end, outlasts);
		if (error)
			break;
	}
	dma_resv_iter_end(&cursor);
	return error;
}

int gal_show_fence(struct dma_buf *buffer, struct dma_fence *fence, bool write)
{
	int error;

	dma_resv_lock(buffer->resv, NULL);
	error = dma_resv_reserve_fences(buffer->resv, 1);
	if (!error)
		dma_resv_add_fence(buffer->resv, fence,
				   write ? DMA_RESV_USAGE_WRITE : DMA_RESV_USAGE_READ);
	dma_resv_unlock(buffer->resv);
	return error;
}

void gal_put_fence(struct dma_fence *fence)
{
	dma_fence_put(fence);
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
	struct drm_gem_object *object = gal_call(drm_gem_object_lookup)(file, handle);
	int error;

	if (!object)
		return -ENOENT;
	error = gal_answers(drm)->check(file->driver_priv, gal_content(object),
					!gal_is_shared(object));
	gal_put(object);
	return error ?: gal_call(drm_gem_prime_handle_to_fd)(drm, file, handle, flags, fd);
}

/*
 * The import runs under DRM's locks of the file and of the node. If memory is still in use by the GPU,
 * settle() waits without them, and the import is tried again.
 */
static int gal_fd_to_handle(struct drm_device *drm, struct drm_file *file, int fd, u32 *handle)
{
	int error = gal_answers(drm)->bind(file->driver_priv);

	if (error)
		return error;
	error = gal_call(drm_gem_prime_fd_to_handle)(drm, file, fd, handle);
	if (error != -EBUSY && error != -ENOMEM)
		return error;
	error = gal_answers(drm)->settle(file->driver_priv);
	return error ?: gal_call(drm_gem_prime_fd_to_handle)(drm, file, fd, handle);
}

static int gal_file_open(struct drm_device *drm, struct drm_file *file)
{
	return gal_answers(drm)->open(&file->driver_priv);
}

static void gal_file_close(struct drm_device *drm, struct drm_file *file)
{
	gal_answers(drm)->close(file->driver_priv);
}

/* All files of a process share an address space for their mappings: see src/sys/vma.rs. */
static int gal_node_open(struct inode *inode, struct file *file)
{
	struct drm_file *opened;
	int error = gal_call(drm_open)(inode, file);

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

/* The ioctls of a driver. Each calls the Rust half with its argument. */
#define GAL_HANDLER(name, type)                                                           \
	static int gal_##name(struct drm_device *drm, void *data, struct drm_file *file)  \
	{                                                                                 \
		return gal_answers(drm)->call(file->driver_priv, file, DRM_##name, data,  \
					      sizeof(struct type));                       \
	}                                                                                 \
	static_assert(sizeof(struct type) <= GAL_DRM_WORDS * sizeof(u32))

GAL_HANDLER(VIV_GEM_CREATE, drm_viv_gem_create);
GAL_HANDLER(VIV_GEM_LOCK, drm_viv_gem_lock);
GAL_HANDLER(VIV_GEM_UNLOCK, drm_viv_gem_unlock);
GAL_HANDLER(VIV_GEM_CACHE, drm_viv_gem_cache);
GAL_HANDLER(VIV_GEM_QUERY, drm_viv_gem_query);
GAL_HANDLER(VIV_GEM_TIMESTAMP, drm_viv_gem_timestamp);
GAL_HANDLER(VIV_GEM_SET_TILING, drm_viv_gem_set_tiling);
GAL_HANDLER(VIV_GEM_GET_TILING, drm_viv_gem_get_tiling);
GAL_HANDLER(VIV_GEM_ATTACH_AUX, drm_viv_gem_attach_aux);
GAL_HANDLER(VIV_GEM_REF_NODE, drm_viv_gem_ref_node);
GAL_HANDLER(ETNAVIV_GET_PARAM, drm_etnaviv_param);
GAL_HANDLER(ETNAVIV_GEM_NEW, drm_etnaviv_gem_new);
GAL_HANDLER(ETNAVIV_GEM_INFO, drm_etnaviv_gem_info);
GAL_HANDLER(ETNAVIV_GEM_CPU_PREP, drm_etnaviv_gem_cpu_prep);
GAL_HANDLER(ETNAVIV_GEM_CPU_FINI, drm_etnaviv_gem_cpu_fini);
GAL_HANDLER(ETNAVIV_GEM_SUBMIT, drm_etnaviv_gem_submit);
GAL_HANDLER(ETNAVIV_WAIT_FENCE, drm_etnaviv_wait_fence);
GAL_HANDLER(ETNAVIV_GEM_USERPTR, drm_etnaviv_gem_userptr);
GAL_HANDLER(ETNAVIV_GEM_WAIT, drm_etnaviv_gem_wait);
GAL_HANDLER(ETNAVIV_PM_QUERY_DOM, drm_etnaviv_pm_domain);
GAL_HANDLER(ETNAVIV_PM_QUERY_SIG, drm_etnaviv_pm_signal);

#define GAL_ENTRY(name, flags) DRM_IOCTL_DEF_DRV(name, gal_##name, flags)

static const struct drm_ioctl_desc gal_viv_ioctls[] = {
	GAL_ENTRY(VIV_GEM_CREATE, DRM_AUTH | DRM_RENDER_ALLOW),
	GAL_ENTRY(VIV_GEM_LOCK, DRM_AUTH | DRM_RENDER_ALLOW),
	GAL_ENTRY(VIV_GEM_UNLOCK, DRM_AUTH | DRM_RENDER_ALLOW),
	GAL_ENTRY(VIV_GEM_CACHE, DRM_AUTH | DRM_RENDER_ALLOW),
	GAL_ENTRY(VIV_GEM_QUERY, DRM_AUTH | DRM_RENDER_ALLOW),
	GAL_ENTRY(VIV_GEM_TIMESTAMP, DRM_AUTH | DRM_RENDER_ALLOW),
	GAL_ENTRY(VIV_GEM_SET_TILING, DRM_AUTH | DRM_RENDER_ALLOW),
	GAL_ENTRY(VIV_GEM_GET_TILING, DRM_AUTH | DRM_RENDER_ALLOW),
	GAL_ENTRY(VIV_GEM_ATTACH_AUX, DRM_AUTH | DRM_RENDER_ALLOW),
	GAL_ENTRY(VIV_GEM_REF_NODE, DRM_AUTH | DRM_RENDER_ALLOW),
};

static const struct drm_ioctl_desc gal_etnaviv_ioctls[] = {
	GAL_ENTRY(ETNAVIV_GET_PARAM, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_GEM_NEW, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_GEM_INFO, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_GEM_CPU_PREP, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_GEM_CPU_FINI, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_GEM_SUBMIT, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_WAIT_FENCE, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_GEM_USERPTR, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_GEM_WAIT, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_PM_QUERY_DOM, DRM_RENDER_ALLOW),
	GAL_ENTRY(ETNAVIV_PM_QUERY_SIG, DRM_RENDER_ALLOW),
};

#define GAL_DRIVER \
	.driver_features = DRIVER_GEM | DRIVER_RENDER,\
	.open = gal_file_open,\
	.postclose = gal_file_close,\
	.prime_handle_to_fd = gal_handle_to_fd,\
	.prime_fd_to_handle = gal_fd_to_handle,\
	.gem_prime_import = gal_prime_import,\
	.fops = &gal_node_operations

static const struct drm_driver gal_drivers[] = {
	[GAL_VIVANTE] = {
		GAL_DRIVER,
		.name = "vivante",
		.desc = "vivante DRM",
		.major = 1,
		.minor = 0,
		.ioctls = gal_viv_ioctls,
		.num_ioctls = ARRAY_SIZE(gal_viv_ioctls),
	},
	[GAL_ETNAVIV] = {
		GAL_DRIVER,
		.name = "etnaviv",
		.desc = "etnaviv interface of galcore",
		.major = 1,
		.minor = 4,
		.ioctls = gal_etnaviv_ioctls,
		.num_ioctls = ARRAY_SIZE(gal_etnaviv_ioctls),
	},
};

/* In data: code would find it by way of a GOT, which modules do not have on arm64. */
static const void *gal_drm_probe = drm_dev_alloc;

bool gal_has_drm(void)
{
	return READ_ONCE(gal_drm_probe);
}

/*
 * Libraries assume that all nodes of a device have the same driver. So the node "etnaviv" has a device of its
 * own, as with Linux's driver.
 */
static struct platform_device *gal_new_parent(struct device *parent)
{
	struct platform_device_info info = {
		.parent = parent,
		.name = "galcore-etnaviv",
		.id = PLATFORM_DEVID_NONE,
	};

	return platform_device_register_full(&info);
}

struct drm_device *gal_new_node(struct device *parent, enum gal_drm_driver driver,
				const struct gal_drm_answers *answers)
{
	struct platform_device *own = NULL;
	struct drm_device *drm;
	int error;

	if (driver == GAL_ETNAVIV) {
		own = gal_new_parent(parent);
		if (IS_ERR(own))
			return ERR_CAST(own);
		parent = &own->dev;
	}
	drm = gal_call(drm_dev_alloc)(&gal_drivers[driver], parent);
	if (IS_ERR(drm)) {
		platform_device_unregister(own);
		return drm;
	}
	drm->dev_private = (void *)answers;
	error = gal_call(drm_dev_register)(drm, 0);
	if (error) {
		gal_call(drm_dev_put)(drm);
		platform_device_unregister(own);
		return ERR_PTR(error);
	}
	return drm;
}

/* Open files remain. Their ioctls fail with ENODEV. */
void gal_end_node(struct drm_device *drm)
{
	struct platform_device *own = NULL;

	if (drm->driver == &gal_drivers[GAL_ETNAVIV])
		own = to_platform_device(drm->dev);
	gal_call(drm_dev_unplug)(drm);
	gal_call(drm_dev_put)(drm);
	platform_device_unregister(own);
}

#else

GAL_ABSENT(bool, has_drm, (void), false);
GAL_ABSENT(struct drm_device *, new_node,
	   (struct device *parent, enum gal_drm_driver driver,
	    const struct gal_drm_answers *answers), ERR_PTR(-ENOTSUPP));
GAL_ABSENT(void, end_node, (struct drm_device *drm));
GAL_ABSENT(int, new_object, (struct drm_file *file, size_t bytes, void *content,
			     u32 *handle), -ENOTSUPP);
GAL_ABSENT(struct drm_gem_object *, find_object, (struct drm_file *file, u32 handle), NULL);
GAL_ABSENT(void *, object_content, (struct drm_gem_object *object), NULL);
GAL_ABSENT(size_t, object_bytes, (struct drm_gem_object *object), 0);
GAL_ABSENT(void, put_object, (struct drm_gem_object *object));
GAL_ABSENT(struct file *, open_file, (struct drm_file *file), NULL);
GAL_ABSENT(bool, is_shared, (struct drm_gem_object *object), false);
GAL_ABSENT(struct dma_buf *, object_buffer, (struct drm_gem_object *object), NULL);
GAL_ABSENT(int, wait_for_others, (struct dma_buf *buffer, bool write, unsigned int milliseconds,
				  unsigned int except, bool outlasts), 0);
GAL_ABSENT(int, show_fence, (struct dma_buf *buffer, struct dma_fence *fence, bool write), 0);
GAL_ABSENT(void, put_fence, (struct dma_fence *fence));

#endif
