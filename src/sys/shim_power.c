// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C half of src/sys/power.rs: the kernel's callbacks for power management. The `kernel` crate does not
 * have them yet.
 */
#include <linux/cleanup.h>
#include <linux/device.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pm.h>
#include <linux/pm_qos.h>
#include <linux/pm_runtime.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/thermal.h>
#include <linux/wait_bit.h>

#include "shim.h"

struct gal_power {
	struct list_head link;
	struct device *dev;
	void *context;
	int (*call)(void *context, unsigned int what, unsigned int value);
	bool has_divider;
	struct thermal_cooling_device *cooling;
	unsigned long cooling_state;
	bool always_on;
	/* Number of running callbacks. Protected by gal_powers_lock. */
	unsigned int calls;
	/* Keeps the power domain on while the device is off. */
	struct dev_pm_qos_request domain;
};

static DEFINE_SPINLOCK(gal_powers_lock);
static LIST_HEAD(gal_powers);

/* Protects requests to power domains. gal_powers_lock is taken under it. */
static DEFINE_MUTEX(gal_domains_lock);

/* The caller holds gal_powers_lock. */
static struct gal_power *gal_find_power(struct device *dev)
{
	struct gal_power *power;

	list_for_each_entry(power, &gal_powers, link) {
		if (power->dev == dev)
			return power;
	}
	return NULL;
}

/* NULL: the device is being bound or unbound. Else the result is valid until gal_end_call(). */
static struct gal_power *gal_begin_call(struct device *dev)
{
	struct gal_power *power;

	guard(spinlock)(&gal_powers_lock);
	power = gal_find_power(dev);
	if (power)
		power->calls++;
	return power;
}

static void gal_end_call(struct gal_power *power)
{
	if (!power)
		return;
	guard(spinlock)(&gal_powers_lock);
	if (!--power->calls)
		wake_up_var(&power->calls);
}

static bool gal_is_called(struct gal_power *power)
{
	guard(spinlock)(&gal_powers_lock);
	return power->calls;
}

DEFINE_FREE(gal_power, struct gal_power *, gal_end_call(_T))

static int gal_runtime_suspend(struct device *dev)
{
	struct gal_power *power __free(gal_power) = gal_begin_call(dev);

	return power ? power->call(power->context, GAL_SWITCH_OFF, 0) : 0;
}

static int gal_runtime_resume(struct device *dev)
{
	struct gal_power *power __free(gal_power) = gal_begin_call(dev);

	return power ? power->call(power->context, GAL_SWITCH_ON, 0) : 0;
}

static int gal_system_suspend(struct device *dev)
{
	struct gal_power *power __free(gal_power) = gal_begin_call(dev);
	int error;

	if (!power)
		return 0;
	error = power->call(power->context, GAL_SLEEP, 0);
	if (error)
		return error;
	error = pm_runtime_force_suspend(dev);
	if (error)
		power->call(power->context, GAL_WAKE, 0);
	return error;
}

static int gal_system_resume(struct device *dev)
{
	struct gal_power *power __free(gal_power) = gal_begin_call(dev);
	int error;

	if (!power)
		return 0;
	error = pm_runtime_force_resume(dev);
	power->call(power->context, GAL_WAKE, 0);
	return error;
}

/*
 * Called before the kernel makes or loads a hibernation image. In the image, the core is off. After a load,
 * the resume callback assumes that the core has lost all of its state.
 */
static int gal_system_freeze(struct device *dev)
{
	struct gal_power *power __free(gal_power) = gal_begin_call(dev);
	int error = gal_system_suspend(dev);

	if (error || !power)
		return error;
	error = power->call(power->context, GAL_HIBERNATE, 0);
	if (error)
		gal_system_resume(dev);
	return error;
}

static const struct dev_pm_ops gal_pm_ops = {
	RUNTIME_PM_OPS(gal_runtime_suspend, gal_runtime_resume, NULL)
	.suspend = pm_sleep_ptr(gal_system_suspend),
	.resume = pm_sleep_ptr(gal_system_resume),
	.freeze = pm_sleep_ptr(gal_system_freeze),
	.thaw = pm_sleep_ptr(gal_system_resume),
	.poweroff = pm_sleep_ptr(gal_system_suspend),
	.restore = pm_sleep_ptr(gal_system_resume),
};

static int gal_cooling_max(struct thermal_cooling_device *cooling, unsigned long *state)
{
	*state = GAL_COOLING_STATES;
	return 0;
}

static int gal_cooling_get(struct thermal_cooling_device *cooling, unsigned long *state)
{
	struct gal_power *power = cooling->devdata;

	*state = READ_ONCE(power->cooling_state);
	return 0;
}

/* The lock of the cooling device serializes calls. */
static int gal_cooling_set(struct thermal_cooling_device *cooling, unsigned long state)
{
	struct gal_power *power = cooling->devdata;

	if (state > GAL_COOLING_STATES)
		return -EINVAL;
	WRITE_ONCE(power->cooling_state, state);
	power->call(power->context, GAL_LIMIT, 64 >> state);
	return 0;
}

static const struct thermal_cooling_device_ops gal_cooling = {
	.get_max_state = gal_cooling_max,
	.get_cur_state = gal_cooling_get,
	.set_cur_state = gal_cooling_set,
};

/* A failure is not fatal: the core then has no thermal throttling. */
static void gal_start_cooling(struct gal_power *power)
{
	struct device *dev = power->dev;
	struct thermal_cooling_device *cooling;

	if (!IS_REACHABLE(CONFIG_THERMAL) || !power->has_divider)
		return;
#ifdef GAL_HAS_COOLING_IDS
	cooling = thermal_of_cooling_device_register(dev->of_node, 0, dev_name(dev), power,
						     &gal_cooling);
#else
	cooling = thermal_of_cooling_device_register(dev->of_node, dev_name(dev), power,
						     &gal_cooling);
#endif
	if (IS_ERR(cooling))
		dev_warn(dev, "it cannot be registered as a cooling device (%pe)\n", cooling);
	else
		power->cooling = cooling;
}

/*
 * Starts power management of @dev, which must be on. -EINVAL: no driver of this module is bound to it.
 * -EBUSY: its power is managed already.
 */
struct gal_power *gal_start_power(struct device *dev, void *context,
				  int (*call)(void *context, unsigned int what,
					      unsigned int value),
				  int delay, bool always_on, bool has_divider)
{
	struct gal_power *power;

	if (!dev->driver || dev->driver->owner != THIS_MODULE)
		return ERR_PTR(-EINVAL);
	power = kzalloc_obj(*power);
	if (!power)
		return ERR_PTR(-ENOMEM);
	power->dev = dev;
	power->context = context;
	power->call = call;
	power->has_divider = has_divider;
	power->always_on = always_on;
	scoped_guard(spinlock, &gal_powers_lock) {
		if (gal_find_power(dev)) {
			kfree(power);
			return ERR_PTR(-EBUSY);
		}
		list_add(&power->link, &gal_powers);
	}
	/* All devices of the driver share these callbacks. */
	dev->driver->pm = pm_ptr(&gal_pm_ops);
	if (always_on)
		pm_runtime_get_noresume(dev);
	pm_runtime_set_active(dev);
	pm_runtime_set_autosuspend_delay(dev, delay);
	pm_runtime_use_autosuspend(dev);
	pm_runtime_mark_last_busy(dev);
	pm_runtime_enable(dev);
	gal_start_cooling(power);
	return power;
}

/* When this returns, limit() is not running, unless a concurrent call of this function waits for it. */
void gal_stop_cooling(struct gal_power *power)
{
	struct thermal_cooling_device *cooling = xchg(&power->cooling, NULL);

	if (cooling)
		thermal_cooling_device_unregister(cooling);
}

void gal_stop_power(struct gal_power *power)
{
	struct device *dev = power->dev;

	gal_stop_cooling(power);
	pm_runtime_disable(dev);
	pm_runtime_dont_use_autosuspend(dev);
	if (power->always_on)
		pm_runtime_put_noidle(dev);
	pm_runtime_set_suspended(dev);
	scoped_guard(mutex, &gal_domains_lock) {
		scoped_guard(spinlock, &gal_powers_lock)
			list_del(&power->link);
		if (dev_pm_qos_request_active(&power->domain))
			dev_pm_qos_remove_request(&power->domain);
	}
	/* No new call can find it. */
	wait_var_event(&power->calls, !gal_is_called(power));
	kfree(power);
}

/* Idle time in milliseconds before the device is switched off. Negative: it is never switched off. */
int gal_off_delay(struct device *dev)
{
#ifdef CONFIG_PM
	return READ_ONCE(dev->power.autosuspend_delay);
#else
	return -1;
#endif
}

/* Gets a reference, and switches the device on. May sleep. */
int gal_get_power(struct device *dev)
{
	return pm_runtime_resume_and_get(dev);
}

/* Gets a reference if the device is on. Does not sleep. */
bool gal_get_power_if_on(struct device *dev)
{
	return !IS_ENABLED(CONFIG_PM) || pm_runtime_get_if_active(dev) > 0;
}

/* Puts a reference. The device is switched off after the delay. */
void gal_put_power(struct device *dev)
{
	pm_runtime_put_autosuspend(dev);
}

/* As gal_put_power(), but does not restart the delay. */
void gal_put_power_unused(struct device *dev)
{
	__pm_runtime_put_autosuspend(dev);
}

/*
 * Tries to switch the device off now. It stays on if it has a user or is busy. False: a later attempt would
 * fail, too, for example because runtime power management is disabled.
 */
bool gal_switch_off_now(struct device *dev)
{
	switch (pm_runtime_suspend(dev)) {
	case -EINVAL:
	case -EACCES:
	case -EPERM:
		return false;
	}
#ifdef CONFIG_PM
	return dev->power.runtime_auto && READ_ONCE(dev->power.autosuspend_delay) >= 0;
#else
	return false;
#endif
}

void gal_put_power_noidle(struct device *dev)
{
	pm_runtime_put_noidle(dev);
}

int gal_request_off(struct device *dev)
{
	pm_runtime_mark_last_busy(dev);
	return pm_request_autosuspend(dev);
}

/* As gal_request_off(), but first waits for a suspend under way, which may fail. 8 attempts. May sleep. */
void gal_request_off_later(struct device *dev)
{
	int tries;

	for (tries = 0; tries < 8 && gal_request_off(dev) == -EINPROGRESS; tries++)
		pm_runtime_barrier(dev);
}

bool gal_has_power_domain(struct device *dev)
{
	return dev->pm_domain;
}

/*
 * Sets whether the power domain stays on while the device is off. This lasts until the unbind. -ENODEV: the
 * device has no domain, or its power is not managed.
 */
int gal_keep_domain(struct device *dev, bool keep)
{
	struct gal_power *power;
	int error = 0;

	guard(mutex)(&gal_domains_lock);
	scoped_guard(spinlock, &gal_powers_lock)
		power = gal_find_power(dev);
	if (!power || !dev->pm_domain)
		return -ENODEV;
	if (keep && !dev_pm_qos_request_active(&power->domain))
		error = dev_pm_qos_add_request(dev, &power->domain, DEV_PM_QOS_FLAGS,
					       PM_QOS_FLAG_NO_POWER_OFF);
	else if (!keep && dev_pm_qos_request_active(&power->domain))
		error = dev_pm_qos_remove_request(&power->domain);
	return min(error, 0);
}

static void gal_set_domain_flags(struct device *dev, s32 flags)
{
	struct gal_power *power;

	guard(mutex)(&gal_domains_lock);
	scoped_guard(spinlock, &gal_powers_lock)
		power = gal_find_power(dev);
	if (power && dev_pm_qos_request_active(&power->domain))
		dev_pm_qos_update_request(&power->domain, flags);
}

/*
 * Switches the device off and on again. The caller must have the only reference. -EBUSY: it was not
 * switched off. -EIO: it was not switched on. Its domain may go off, too, even if gal_keep_domain() keeps
 * it on.
 */
int gal_cycle_power(struct device *dev)
{
	int error;
	bool off;

	gal_set_domain_flags(dev, 0);
	error = pm_runtime_put_sync_suspend(dev);
	off = pm_runtime_status_suspended(dev);
	gal_set_domain_flags(dev, PM_QOS_FLAG_NO_POWER_OFF);
	if (!off)
		error = error < 0 && error != -EAGAIN ? error : -EBUSY;
	else
		error = 0;
	/* Even after an error, the caller keeps its reference. */
	if (pm_runtime_get_sync(dev) < 0)
		return -EIO;
	return error;
}
