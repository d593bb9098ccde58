// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C half of src/sys/platform.rs: the operations that the kernel calls on the driver's components.
 *
 * The removal of one component unbinds the whole aggregate, which its clients would not survive. So each
 * component has a device of its own. It stays when its core is unbound, and is deleted after the aggregate.
 */
#include <linux/component.h>
#include <linux/device.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/of.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "shim.h"

struct gal_stand_in {
	struct device dev;
	struct list_head link;
	/* The core of this component is bound. */
	bool wanted;
	/* An aggregate has bound it, which holds a reference to the module. */
	bool taken;
};

/* Taken under the kernel's lock of components. No lock is taken under it. */
static DEFINE_MUTEX(gal_stand_ins_lock);
static LIST_HEAD(gal_stand_ins);

static void gal_sweep_stand_ins(struct work_struct *work);
static DECLARE_WORK(gal_stand_ins_work, gal_sweep_stand_ins);

static int gal_stand_in_bind(struct device *dev, struct device *master, void *data)
{
	struct gal_stand_in *stand_in = container_of(dev, struct gal_stand_in, dev);

	guard(mutex)(&gal_stand_ins_lock);
	/* It will be deleted. */
	if (!stand_in->wanted)
		return -EPROBE_DEFER;
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	stand_in->taken = true;
	return 0;
}

static void gal_stand_in_unbind(struct device *dev, struct device *master, void *data)
{
	struct gal_stand_in *stand_in = container_of(dev, struct gal_stand_in, dev);

	guard(mutex)(&gal_stand_ins_lock);
	stand_in->taken = false;
	/* Delete it later: the caller holds the kernel's lock of components. */
	if (!stand_in->wanted)
		schedule_work(&gal_stand_ins_work);
	module_put(THIS_MODULE);
}

static const struct component_ops gal_stand_in_operations = {
	.bind = gal_stand_in_bind,
	.unbind = gal_stand_in_unbind,
};

static void gal_free_stand_in(struct device *dev)
{
	of_node_put(dev->of_node);
	kfree(container_of(dev, struct gal_stand_in, dev));
}

static struct gal_stand_in *gal_next_unwanted(bool all)
{
	struct gal_stand_in *stand_in;

	guard(mutex)(&gal_stand_ins_lock);
	list_for_each_entry(stand_in, &gal_stand_ins, link) {
		if (all || (!stand_in->wanted && !stand_in->taken)) {
			list_del(&stand_in->link);
			return stand_in;
		}
	}
	return NULL;
}

static void gal_delete_stand_ins(bool all)
{
	struct gal_stand_in *stand_in;

	while ((stand_in = gal_next_unwanted(all))) {
		component_del(&stand_in->dev, &gal_stand_in_operations);
		put_device(&stand_in->dev);
	}
}

static void gal_sweep_stand_ins(struct work_struct *work)
{
	gal_delete_stand_ins(false);
}

static struct gal_stand_in *gal_find_stand_in(struct device *core)
{
	struct gal_stand_in *stand_in;

	guard(mutex)(&gal_stand_ins_lock);
	list_for_each_entry(stand_in, &gal_stand_ins, link) {
		if (stand_in->dev.of_node == core->of_node) {
			if (stand_in->wanted)
				return ERR_PTR(-EBUSY);
			stand_in->wanted = true;
			return stand_in;
		}
	}
	return NULL;
}

struct gal_stand_in *gal_new_stand_in(struct device *core)
{
	struct gal_stand_in *stand_in;
	int error;

	if (!core->of_node)
		return NULL;
	flush_work(&gal_stand_ins_work);
	stand_in = gal_find_stand_in(core);
	if (stand_in)
		return stand_in;
	stand_in = kzalloc_obj(*stand_in);
	if (!stand_in)
		return ERR_PTR(-ENOMEM);
	device_initialize(&stand_in->dev);
	stand_in->dev.release = gal_free_stand_in;
	stand_in->dev.of_node = of_node_get(core->of_node);
	stand_in->wanted = true;
	error = dev_set_name(&stand_in->dev, "galcore-%s", dev_name(core));
	if (!error)
		error = component_add(&stand_in->dev, &gal_stand_in_operations);
	if (error) {
		put_device(&stand_in->dev);
		return ERR_PTR(error);
	}
	guard(mutex)(&gal_stand_ins_lock);
	list_add_tail(&stand_in->link, &gal_stand_ins);
	return stand_in;
}

void gal_drop_stand_in(struct gal_stand_in *stand_in)
{
	scoped_guard(mutex, &gal_stand_ins_lock)
		stand_in->wanted = false;
	/* Delete it before another driver can bind the core. */
	schedule_work(&gal_stand_ins_work);
	flush_work(&gal_stand_ins_work);
}

void gal_end_stand_ins(void)
{
	gal_delete_stand_ins(true);
	flush_work(&gal_stand_ins_work);
}
