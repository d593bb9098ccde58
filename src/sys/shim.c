// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C half of src/sys: the parameters, and macros and inlines that Rust cannot call. It is a list: no
 * function depends on another.
 */
#include <linux/compat.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/devcoredump.h>
#include <linux/dynamic_debug.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sizes.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>
#include <linux/user_namespace.h>

#include "shim.h"

struct gal_parameters gal_parameters = {
	.irqLine = -1,
	.registerMemBase = 0x80000000UL,
	.registerMemSize = SZ_2K,
	.irqLine2D = -1,
	.registerMemSize2D = SZ_2K,
	.irqLineVG = -1,
	.registerMemSizeVG = SZ_2K,
	.irqs = { [0 ... GAL_3D_CORES - 1] = -1 },
	.registerSizes = { [0 ... GAL_3D_CORES - 1] = SZ_2K },
	.irq2Ds = { [0 ... GAL_2D_CORES - 1] = -1 },
	.register2DSizes = { [0 ... GAL_2D_CORES - 1] = SZ_2K },
	.contiguousSize = SZ_4M,
	.fastClear = -1,
	.compression = -1,
	.major = 199,
	.signal = 48,
	.streamCheck = 4,
	.gpuTimeout = 5000,
	.jobTimeout = 10000,
	.recovery = 1,
	.powerManagement = 1,
	.autosuspend = 200,
	.initgpu3DMinClock = 1,
	.stuckDump = 2,
	.gpuProfiler = 1,
};

#define GAL_PARAMETER(name, type, text)                                   \
	module_param_named(name, gal_parameters.name, type, 0444);        \
	MODULE_PARM_DESC(name, text)

#define GAL_ARRAY(name, type, text)                                              \
	module_param_array_named(name, gal_parameters.name, type, NULL, 0444);   \
	MODULE_PARM_DESC(name, text)

GAL_PARAMETER(irqLine, int, "Interrupt line of the 3D core, as board documents number it (GIC: SPI + 32); -1: no such core by parameters");
GAL_PARAMETER(registerMemBase, ulong, "Physical address of the 3D core's registers");
GAL_PARAMETER(registerMemSize, ulong, "Bytes of the 3D core's registers");
GAL_PARAMETER(irqLine2D, int, "Interrupt line of the 2D core; -1: none by parameters");
GAL_PARAMETER(registerMemBase2D, ulong, "Physical address of the 2D core's registers");
GAL_PARAMETER(registerMemSize2D, ulong, "Bytes of the 2D core's registers");
GAL_PARAMETER(irqLineVG, int, "Interrupt line of the core for vector graphics; -1: none by parameters");
GAL_PARAMETER(registerMemBaseVG, ulong, "Physical address of that core's registers");
GAL_PARAMETER(registerMemSizeVG, ulong, "Bytes of that core's registers");
GAL_ARRAY(irqs, int, "Interrupt lines of 3D and neural cores, in one list; -1: none");
GAL_ARRAY(registerBases, ulong, "Physical addresses of their registers");
GAL_ARRAY(registerSizes, ulong, "Bytes of their registers");
GAL_ARRAY(irq2Ds, int, "Interrupt lines of 2D cores, in one list; -1: none");
GAL_ARRAY(register2DBases, ulong, "Physical addresses of their registers");
GAL_ARRAY(register2DSizes, ulong, "Bytes of their registers");
module_param_string(cores, gal_parameters.cores, sizeof(gal_parameters.cores), 0444);
MODULE_PARM_DESC(cores, "Kinds of cores to take: 3d, 2d, vg and npu, such as 2d,vg; empty: all that there are");
module_param_string(drm, gal_parameters.drm, sizeof(gal_parameters.drm), 0444);
MODULE_PARM_DESC(drm, "DRM nodes: vivante, for window systems; etnaviv, for Mesa; both; or none; empty: vivante");
GAL_PARAMETER(contiguousBase, ulong, "Physical address of the video memory pool; 0: allocate it");
GAL_PARAMETER(contiguousSize, ulong, "Bytes of the video memory pool; 0: no pool");
GAL_PARAMETER(bankSize, ulong, "Bytes of one bank of the pool; 0: one bank");
GAL_PARAMETER(baseAddress, ulong, "Physical address that the GPU sees as address 0");
GAL_PARAMETER(fastClear, int, "Fast clear: 1 on, 0 off, -1 what the core can do");
GAL_PARAMETER(compression, int, "Compression: 1 on, 0 off, -1 what the core can do");
GAL_PARAMETER(major, uint, "Major number of /dev/galcore; 0: any");
GAL_PARAMETER(signal, int, "Realtime signal number that QUERY_KERNEL_SETTINGS reports");
GAL_PARAMETER(useLinuxSignal, int, "1: events send the realtime signal instead of setting user signals, as the vendor's USE_NEW_LINUX_SIGNAL builds");
GAL_PARAMETER(sharedPool, int, "1: every client sees all of the pool through its mapping, as with the vendor's driver");
GAL_PARAMETER(streamCheck, int, "What a client's commands are checked for: 1 commands and states, 2 GPU addresses too, 3 as 2, but stray ones are replaced, 4 as 2, and how far the 2D engine writes and the resolve engine goes");
module_param_string(allowedRanges, gal_parameters.allowedRanges,
		    sizeof(gal_parameters.allowedRanges), 0444);
MODULE_PARM_DESC(allowedRanges, "Physical address and bytes, up to 4 times: memory that every client's commands may name; and framebuffer: what a client has mapped of /dev/fb0 and others");
GAL_PARAMETER(gpuTimeout, uint, "Milliseconds without any progress after which a core is reset, and the process that has hung it loses what it has submitted; 0: never");
GAL_PARAMETER(jobTimeout, uint, "Milliseconds for which a job that runs may hold others up before it is dropped like one that hangs; 0: any time");
GAL_PARAMETER(powerManagement, int, "1: a core is switched off while it has nothing to do; 0: never");
GAL_PARAMETER(autosuspend, uint, "Milliseconds without work after which a core is switched off; afterwards autosuspend_delay_ms of each device");
GAL_PARAMETER(coreClock, uint, "Rate of the 3D core's clock in Hz; 0: as it is");
GAL_PARAMETER(coreClock2D, uint, "The same of the 2D core");
GAL_PARAMETER(coreClockVG, uint, "The same of the core for vector graphics");
GAL_PARAMETER(gpu_frequency, ulong, "coreClock in MHz, as Dove's driver has it; 0: as it is");
GAL_PARAMETER(initgpu3DMinClock, uint, "Least 64ths of its clock that a core is slowed down to when it is too warm, from 1 to 64");
GAL_PARAMETER(recovery, uint, "0: a core that hangs is not reset, as with gpuTimeout=0");
GAL_PARAMETER(stuckDump, uint, "What is kept of a core that hangs: 0 nothing, 1 registers and commands, 2 the memory that they name too, 3 more of it");
GAL_PARAMETER(gpuProfiler, uint, "Which processes may read what the cores count: 0 none, 1 all, 2 those with CAP_PERFMON");
GAL_PARAMETER(sharedSignals, int, "1: every client can wait for and set every signal whose number it knows, as with the vendor's driver");
GAL_PARAMETER(sharedNodes, int, "1: every client can lock and free every node whose handle it knows, as with the vendor's driver");
module_param_string(interface, gal_parameters.interface, sizeof(gal_parameters.interface), 0444);
MODULE_PARM_DESC(interface, "Generation of the interface, where its size leaves several: dove, v2, 4.1.0, ..., and by program: kodi.bin:4.6.9,Xorg:dove; empty: what the first commands show");
module_param_string(version, gal_parameters.version, sizeof(gal_parameters.version), 0444);
MODULE_PARM_DESC(version, "What VERSION answers in place of the generation's own, and by program: 6.4.6.351518,kodi.bin:6.4.6.1");
module_param_string(identity, gal_parameters.identity, sizeof(gal_parameters.identity), 0444);
MODULE_PARM_DESC(identity, "What a core is where neither its registers nor the driver say: MODEL:REVISION,NAME=VALUE,... by the names of QUERY_CHIP_IDENTITY, and NNCoreCount, of one core after another");
GAL_PARAMETER(showArgs, int, "Print the parameters at load");

/* Called after the module's exit function, and before its memory is freed. */
static int gal_notice_unload(struct notifier_block *block, unsigned long state, void *module)
{
	BUG_ON(module == THIS_MODULE && state == MODULE_STATE_GOING);
	return NOTIFY_DONE;
}

static struct notifier_block gal_unload_watch = { .notifier_call = gal_notice_unload };

int gal_watch_unload(void)
{
	return register_module_notifier(&gal_unload_watch);
}

void gal_unwatch_unload(void)
{
	unregister_module_notifier(&gal_unload_watch);
}

bool gal_in_compat_call(void)
{
	return in_compat_syscall();
}

bool gal_is_killed(void)
{
	return fatal_signal_pending(current);
}

/* The caller has a reference to the task, and so to its signal structure. */
bool gal_is_ending(const struct task_struct *task)
{
	return READ_ONCE(task->signal->flags) & SIGNAL_GROUP_EXIT;
}

void gal_preempt_disable(void)
{
	preempt_disable();
}

void gal_preempt_enable(void)
{
	preempt_enable();
}

void gal_yield(void)
{
	cond_resched();
}

struct gal_errand {
	struct work_struct work;
	void (*run)(void *context);
	void *context;
};

static void gal_run_errand(struct work_struct *work)
{
	struct gal_errand *errand = container_of(work, struct gal_errand, work);

	errand->run(errand->context);
}

void gal_run_in(struct workqueue_struct *queue, void (*run)(void *context), void *context)
{
	struct gal_errand errand = { .run = run, .context = context };

	INIT_WORK_ONSTACK(&errand.work, gal_run_errand);
	queue_work(queue, &errand.work);
	flush_work(&errand.work);
	destroy_work_on_stack(&errand.work);
}

int gal_nice(void)
{
	return task_nice(current);
}

bool gal_is_low(void)
{
	return current->policy == SCHED_IDLE || task_nice(current) > 0;
}

u64 gal_jiffies64(void)
{
	return get_jiffies_64();
}

/* On ARM the counter of udelay(), if it uses one. Elsewhere reading the clock is fast. */
unsigned long gal_count(void)
{
#ifdef CONFIG_ARM
	if (likely(arm_delay_ops.ticks_per_jiffy))
		return get_cycles();
#endif
	return ktime_get_raw_fast_ns();
}

unsigned long gal_counts_per_jiffy(void)
{
#ifdef CONFIG_ARM
	if (arm_delay_ops.ticks_per_jiffy)
		return arm_delay_ops.ticks_per_jiffy;
#endif
	return NSEC_PER_SEC / HZ;
}

u64 gal_count_ns(u64 counts)
{
	return mul_u64_u32_div(counts, NSEC_PER_SEC / HZ, gal_counts_per_jiffy());
}

size_t gal_decimal(char *to, size_t bytes, u64 number)
{
	return scnprintf(to, bytes, "%llu", number);
}

u32 gal_user_id(void)
{
	struct user_namespace *namespace = current_user_ns();
	kuid_t user;

	/* In a namespace, a user has many ids. The owner of the outermost namespace counts. */
	if (namespace == &init_user_ns)
		return from_kuid(&init_user_ns, current_uid());
	while (namespace->parent != &init_user_ns)
		namespace = namespace->parent;
	user = namespace->owner;
	/* A namespace of root counts as the user that is mapped to its own root. */
	if (uid_eq(user, GLOBAL_ROOT_UID))
		user = make_kuid(namespace, 0);
	return uid_valid(user) ? from_kuid(&init_user_ns, user) : 0;
}

u32 gal_effective_user_id(void)
{
	return from_kuid(&init_user_ns, current_euid());
}

bool gal_will_restart(void)
{
	bool is_handled = false;
	sigset_t pending;
	int number;

	guard(spinlock_irq)(&current->sighand->siglock);
	sigorsets(&pending, &current->pending.signal, &current->signal->shared_pending.signal);
	sigandnsets(&pending, &pending, &current->blocked);
	for (number = 1; number <= _NSIG; number++) {
		const struct sigaction *action = &current->sighand->action[number - 1].sa;

		if (!sigismember(&pending, number) || action->sa_handler == SIG_DFL ||
		    action->sa_handler == SIG_IGN)
			continue;
		if (action->sa_flags & SA_RESTART)
			return true;
		is_handled = true;
	}
	return !is_handled;
}

int gal_sleep(unsigned int milliseconds)
{
	if (signal_pending(current))
		return -EINTR;
	schedule_timeout_interruptible(msecs_to_jiffies(milliseconds));
	return signal_pending(current) ? -EINTR : 0;
}

void gal_wmb(void)
{
	/* pairs with the GPU, which reads what was written before */
	wmb();
}

bool gal_is_thread_of(struct task_struct *leader)
{
	return same_thread_group(leader, current);
}

void gal_send_signal(struct task_struct *leader, const struct mm_struct *mm, int number, u32 value)
{
	struct kernel_siginfo info;
	bool is_other;

	/* A leader that has exited has no mm. Its threads may still run with @mm. */
	task_lock(leader);
	is_other = leader->mm && leader->mm != mm;
	task_unlock(leader);
	/* send_sig_info() checks only the upper limit. */
	if (number < 1 || is_other)
		return;
	clear_siginfo(&info);
	info.si_signo = number;
	info.si_code = SI_QUEUE;
	info.si_int = value;
	send_sig_info(number, &info, leader);
}

bool gal_has_dumps(void)
{
	return IS_ENABLED(CONFIG_DEV_COREDUMP);
}

/* The kernel owns the data, of vmalloc(), from now on, even if the module is unloaded. */
void gal_publish_dump(struct device *dev, void *data, size_t size)
{
	dev_coredump_put(dev);
	dev_coredumpv(dev, data, size, GFP_NOWAIT | __GFP_NOWARN);
}

/*
 * On i.MX6 the GPU's regulator and on i.MX8M its reset controller are modules. The kernel gives up a core
 * that waits for them for more than 10 s.
 */
MODULE_SOFTDEP("pre: anatop-regulator reset-imx7");
MODULE_VERSION("0.1.0");

/* Whether to print debug lines. Rust prints them, but has no dynamic debug. */
bool gal_debugs(void)
{
#if defined(CONFIG_DYNAMIC_DEBUG) || \
	(defined(CONFIG_DYNAMIC_DEBUG_CORE) && defined(DYNAMIC_DEBUG_MODULE))
	DEFINE_DYNAMIC_DEBUG_METADATA(lines, "why requests are refused");

	/* Nothing else uses its address: the compiler would assume that it is constant. */
	barrier_data(&lines);
	return DYNAMIC_DEBUG_BRANCH(lines);
#else
	return false;
#endif
}

struct gal_key gal_paths = { .key = STATIC_KEY_FALSE_INIT };

void gal_watch_paths(bool on)
{
	if (on)
		static_branch_enable(&gal_paths.key);
	else
		static_branch_disable(&gal_paths.key);
}
