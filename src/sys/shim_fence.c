// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C half of src/sys/fence.rs. Without CONFIG_SYNC_FILE each function says so.
 */
#include <linux/dma-fence.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sync_file.h>
#include <linux/timer.h>

#include "shim.h"

#if IS_ENABLED(CONFIG_SYNC_FILE)

/* The timer has a reference as long as it is pending or runs. */
struct gal_fence {
	struct dma_fence base;
	spinlock_t lock;
	struct timer_list timer;
};

static const char *gal_fence_name(struct dma_fence *base)
{
	return "galcore";
}

/* No release and no wait: the kernel needs these no more once the fence is signaled. */
static const struct dma_fence_ops gal_fence_operations = {
	.get_driver_name = gal_fence_name,
	.get_timeline_name = gal_fence_name,
};

static void gal_complete_fence(struct gal_fence *fence, int error)
{
	unsigned long flags;

	spin_lock_irqsave(&fence->lock, flags);
	if (!dma_fence_is_signaled_locked(&fence->base)) {
		if (error)
			dma_fence_set_error(&fence->base, error);
		dma_fence_signal_locked(&fence->base);
	}
	spin_unlock_irqrestore(&fence->lock, flags);
}

static void gal_fence_late(struct timer_list *timer)
{
	struct gal_fence *fence = timer_container_of(fence, timer, timer);

	gal_complete_fence(fence, -ETIMEDOUT);
	dma_fence_put(&fence->base);
}

struct gal_fence *gal_new_fence(unsigned int milliseconds)
{
	struct gal_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL_ACCOUNT);

	if (!fence)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&fence->lock);
	dma_fence_init(&fence->base, &gal_fence_operations, &fence->lock,
		       dma_fence_context_alloc(1), 1);
	timer_setup(&fence->timer, gal_fence_late, 0);
	dma_fence_get(&fence->base);
	mod_timer(&fence->timer, jiffies + msecs_to_jiffies(milliseconds));
	return fence;
}

struct file *gal_fence_file(struct gal_fence *fence)
{
	struct sync_file *sync = sync_file_create(&fence->base);

	return sync ? sync->file : ERR_PTR(-ENOMEM);
}

bool gal_fence_is_over(struct gal_fence *fence)
{
	return dma_fence_is_signaled(&fence->base);
}

void gal_signal_fence(struct gal_fence *fence)
{
	gal_complete_fence(fence, 0);
}

void gal_end_fence(struct gal_fence *fence, int error)
{
	gal_complete_fence(fence, error);
	/* Once this is over nothing of this module is needed by the fence. */
	if (timer_delete_sync(&fence->timer))
		dma_fence_put(&fence->base);
	dma_fence_put(&fence->base);
}

int gal_wait_fence(int fd, unsigned int milliseconds)
{
	struct dma_fence *fence = sync_file_get_fence(fd);
	signed long limit = MAX_SCHEDULE_TIMEOUT;
	signed long left;

	if (!fence)
		return -EINVAL;
	/* A jiffy more, as the first one may be almost over. */
	if (milliseconds != UINT_MAX)
		limit = min_t(unsigned long, msecs_to_jiffies(milliseconds),
			      MAX_SCHEDULE_TIMEOUT - 1);
	if (limit && limit != MAX_SCHEDULE_TIMEOUT)
		limit++;
	left = dma_fence_wait_timeout(fence, true, limit);
	dma_fence_put(fence);
	if (left < 0)
		return left;
	return left ? 0 : -ETIMEDOUT;
}

#else

struct gal_fence *gal_new_fence(unsigned int milliseconds)
{
	return ERR_PTR(-ENOTSUPP);
}

struct file *gal_fence_file(struct gal_fence *fence)
{
	return ERR_PTR(-ENOTSUPP);
}

bool gal_fence_is_over(struct gal_fence *fence)
{
	return true;
}

void gal_signal_fence(struct gal_fence *fence)
{
}

void gal_end_fence(struct gal_fence *fence, int error)
{
}

int gal_wait_fence(int fd, unsigned int milliseconds)
{
	return -ENOTSUPP;
}

#endif
