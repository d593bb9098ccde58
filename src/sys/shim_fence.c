// SPDX-License-Identifier: GPL-2.0-only
/* The C half of src/sys/file.rs. Without CONFIG_SYNC_FILE, new fences and waits fail with -ENOTSUPP. */
#include <linux/dma-fence.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sync_file.h>
#include <linux/workqueue.h>

#include "shim.h"

#if IS_ENABLED(CONFIG_SYNC_FILE)

/* While a fence is in gal_fences, the list has a reference to it. */
struct gal_fence {
	struct dma_fence base;
	struct list_head late;
	unsigned long deadline;
	/* The core whose job signals it, or 0. */
	unsigned int core;
};

/*
 * The fences that have not ended or timed out, oldest first, and so in the order of their deadlines. One
 * work item ends late ones. With a timer for each, one interrupt could have to end all fences of a process.
 */
static LIST_HEAD(gal_fences);
static DEFINE_SPINLOCK(gal_fences_lock);

static void gal_end_late_fences(struct work_struct *work);
static DECLARE_DELAYED_WORK(gal_late_fences, gal_end_late_fences);
static struct workqueue_struct *gal_late_queue;

static const char *gal_fence_name(struct dma_fence *base)
{
	return "galcore";
}

/* No release() and no wait(): a signaled fence drops its pointer to these. It may outlive the module. */
static const struct dma_fence_ops gal_fence_operations = {
	.get_driver_name = gal_fence_name,
	.get_timeline_name = gal_fence_name,
};

static void gal_complete_fence(struct gal_fence *fence, int error)
{
	unsigned long flags;

	dma_fence_lock_irqsave(&fence->base, flags);
	if (!dma_fence_is_signaled_locked(&fence->base)) {
		if (error)
			dma_fence_set_error(&fence->base, error);
		dma_fence_signal_locked(&fence->base);
	}
	dma_fence_unlock_irqrestore(&fence->base, flags);
}

static void gal_end_late_fences(struct work_struct *work)
{
	struct gal_fence *fence;
	unsigned long now;

	for (;;) {
		spin_lock(&gal_fences_lock);
		fence = list_first_entry_or_null(&gal_fences, struct gal_fence, late);
		now = jiffies;
		if (!fence || time_before(now, fence->deadline))
			break;
		list_del_init(&fence->late);
		spin_unlock(&gal_fences_lock);
		gal_complete_fence(fence, -ETIMEDOUT);
		dma_fence_put(&fence->base);
		cond_resched();
	}
	if (fence)
		mod_delayed_work(gal_late_queue, &gal_late_fences, fence->deadline - now);
	spin_unlock(&gal_fences_lock);
}

struct gal_fence *gal_new_fence(struct workqueue_struct *queue, unsigned int core)
{
	struct gal_fence *fence = kzalloc(sizeof(*fence), GAL_GFP_CLIENT);
	unsigned long limit = msecs_to_jiffies(GAL_FENCE_MS);

	if (!fence)
		return ERR_PTR(-ENOMEM);
	fence->core = core;
	/* The fence's own lock. It, and the class of its lock in lockdep, may outlive the module. */
	dma_fence_init(&fence->base, &gal_fence_operations, NULL, dma_fence_context_alloc(1), 1);
	dma_fence_get(&fence->base);
	spin_lock(&gal_fences_lock);
	fence->deadline = jiffies + limit;
	list_add_tail(&fence->late, &gal_fences);
	gal_late_queue = queue;
	/* If the work is already queued, it runs for an older fence, at its deadline. */
	queue_delayed_work(queue, &gal_late_fences, limit);
	spin_unlock(&gal_fences_lock);
	return fence;
}

void gal_end_fences(void)
{
	cancel_delayed_work_sync(&gal_late_fences);
}

struct file *gal_fence_file(struct gal_fence *fence)
{
	struct sync_file *sync = sync_file_create(&fence->base);

	return sync ? sync->file : ERR_PTR(-ENOMEM);
}

struct dma_fence *gal_share_fence(struct gal_fence *fence)
{
	return dma_fence_get(&fence->base);
}

bool gal_is_fence_of(struct dma_fence *fence, unsigned int core)
{
	return core && fence->ops == &gal_fence_operations &&
	       container_of(fence, struct gal_fence, base)->core == core;
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
	bool was_listed;

	gal_complete_fence(fence, error);
	spin_lock(&gal_fences_lock);
	was_listed = !list_empty(&fence->late);
	list_del_init(&fence->late);
	spin_unlock(&gal_fences_lock);
	if (was_listed)
		dma_fence_put(&fence->base);
	dma_fence_put(&fence->base);
}

/* Waits for @fence until @end. A Unix signal interrupts the wait. If @outlasts, only a fatal one does. */
int gal_wait_until(struct dma_fence *fence, ktime_t end, bool outlasts)
{
	/* The longest single wait. If @outlasts, a fatal signal ends the wait at most about this late. */
	const s64 most = outlasts ? MSEC_PER_SEC / 20 : 60 * MSEC_PER_SEC;

	while (!dma_fence_is_signaled(fence)) {
		ktime_t now = ktime_get();
		long left;

		if (!ktime_before(now, end))
			return -ETIMEDOUT;
		left = msecs_to_jiffies(min(ktime_ms_delta(end, now), most)) + 1;
		left = dma_fence_wait_timeout(fence, !outlasts, left);
		if (left < 0)
			return left;
		if (!left && fatal_signal_pending(current))
			return -ERESTARTSYS;
	}
	return 0;
}

int gal_wait_fence(int fd, unsigned int milliseconds, bool outlasts)
{
	struct dma_fence *fence = sync_file_get_fence(fd);
	ktime_t end = KTIME_MAX;
	int error;

	if (!fence)
		return -EINVAL;
	if (milliseconds != UINT_MAX)
		end = ktime_add_ms(ktime_get(), milliseconds);
	error = gal_wait_until(fence, end, outlasts);
	dma_fence_put(fence);
	return error;
}

#else

GAL_ABSENT(struct gal_fence *, new_fence, (struct workqueue_struct *queue,
					   unsigned int core), ERR_PTR(-ENOTSUPP));
GAL_ABSENT(void, end_fences, (void));
GAL_ABSENT(struct file *, fence_file, (struct gal_fence *fence), ERR_PTR(-ENOTSUPP));
GAL_ABSENT(struct dma_fence *, share_fence, (struct gal_fence *fence), NULL);
GAL_ABSENT(bool, is_fence_of, (struct dma_fence *fence, unsigned int core), false);
GAL_ABSENT(bool, fence_is_over, (struct gal_fence *fence), true);
GAL_ABSENT(void, signal_fence, (struct gal_fence *fence));
GAL_ABSENT(void, end_fence, (struct gal_fence *fence, int error));
GAL_ABSENT(int, wait_fence, (int fd, unsigned int milliseconds, bool outlasts), -ENOTSUPP);
GAL_ABSENT(int, wait_until, (struct dma_fence *fence, ktime_t end, bool outlasts), -ENOTSUPP);

#endif
