// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C half of src/sys: macros and inlines that Rust cannot call. No decision is taken here. It is
 * long because it is a list: no function depends on another.
 */
#include <linux/anon_inodes.h>
#include <linux/cred.h>
#include <linux/debugfs.h>
#include <linux/compat.h>
#include <linux/devcoredump.h>
#include <linux/delay.h>
#include <linux/dma-direct.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dynamic_debug.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/iommu-dma.h>
#include <linux/ioport.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/of_device.h>
#include <linux/of_irq.h>
#include <linux/of_platform.h>
#include <linux/of_reserved_mem.h>
#include <linux/pid.h>
#include <linux/platform_device.h>
#include <linux/proc_fs.h>
#include <linux/ptrace.h>
#include <linux/random.h>
#include <linux/reset.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sizes.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>
#include <linux/vmstat.h>

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

/* Held while the file comes or goes, which waits for its readers and writers: not by these. */
static DEFINE_MUTEX(gal_govern_lock);
static unsigned int gal_govern_count;
static struct device_driver *gal_govern_driver;
static const struct gal_govern_answers *gal_govern_answers;

static ssize_t gpu_govern_show(struct device_driver *driver, char *page)
{
	return gal_govern_answers->show(page);
}

static ssize_t gpu_govern_store(struct device_driver *driver, const char *text, size_t bytes)
{
	return gal_govern_answers->store(text, bytes);
}
static DRIVER_ATTR_RW(gpu_govern);

int gal_show_govern(struct device *dev, const struct gal_govern_answers *answers)
{
	int error = 0;

	guard(mutex)(&gal_govern_lock);
	if (gal_govern_count && (gal_govern_answers != answers || gal_govern_driver != dev->driver))
		return -EBUSY;
	if (!gal_govern_count) {
		gal_govern_answers = answers;
		gal_govern_driver = dev->driver;
		error = driver_create_file(gal_govern_driver, &driver_attr_gpu_govern);
	}
	if (!error)
		gal_govern_count++;
	return error;
}

void gal_hide_govern(void)
{
	guard(mutex)(&gal_govern_lock);
	if (!--gal_govern_count)
		driver_remove_file(gal_govern_driver, &driver_attr_gpu_govern);
}

static int gal_proc_show(struct seq_file *m, void *v)
{
	const struct gal_proc_answers *answers = m->private;

	return answers->show(m);
}

static int gal_proc_open(struct inode *inode, struct file *file)
{
	return single_open(file, gal_proc_show, pde_data(inode));
}

static ssize_t gal_proc_write_op(struct file *file, const char __user *from, size_t bytes,
				 loff_t *position)
{
	const struct gal_proc_answers *answers = pde_data(file_inode(file));

	/* The opener, too: else it could pass the file to a privileged process that writes to it. */
	if (!file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN))
		return -EPERM;
	return answers->write(from, bytes);
}

static const struct proc_ops gal_proc_ops = {
	.proc_open = gal_proc_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
	.proc_write = gal_proc_write_op,
};

struct proc_dir_entry *gal_proc_create(const struct gal_proc_answers *answers)
{
	return proc_create_data("driver/gc", 0644, NULL, &gal_proc_ops, (void *)answers);
}

void gal_proc_remove(struct proc_dir_entry *entry)
{
	proc_remove(entry);
}

static int gal_debug_show(struct seq_file *m, void *v)
{
	const struct gal_debug_answers *answers = m->private;

	return answers->show(m, answers);
}

static int gal_debug_open(struct inode *inode, struct file *file)
{
	return single_open(file, gal_debug_show, inode->i_private);
}

static ssize_t gal_debug_write(struct file *file, const char __user *from, size_t bytes,
			       loff_t *position)
{
	const struct gal_debug_answers *answers = ((struct seq_file *)file->private_data)->private;

	return answers->write(from, bytes, answers);
}

/*
 * With their owner: debugfs looks into them when a file is closed, also when it has been removed long since.
 * So the module stays while one is open.
 */
static const struct file_operations gal_debug_ops = {
	.owner = THIS_MODULE,
	.open = gal_debug_open,
	.read = seq_read,
	.write = gal_debug_write,
	.llseek = seq_lseek,
	.release = single_release,
};

struct dentry *gal_debug_folder(const char *name)
{
	return debugfs_create_dir(name, NULL);
}

void gal_debug_file(struct dentry *folder, const char *name, bool writable,
		    const struct gal_debug_answers *answers)
{
	debugfs_create_file(name, writable ? 0600 : 0400, folder, (void *)answers, &gal_debug_ops);
}

/* Who reads a file of records, and where. Its seq_file has a lock around all of it. */
struct gal_debug_reader {
	const struct gal_debug_records *records;
	bool has_ended;
	struct gal_mark mark;
};

static void *gal_records_here(struct gal_debug_reader *reader)
{
	return reader->has_ended ? NULL : reader;
}

static void *gal_records_start(struct seq_file *m, loff_t *position)
{
	struct gal_debug_reader *reader = m->private;

	if (*position == 0) {
		memset(&reader->mark, 0, sizeof(reader->mark));
		reader->has_ended = !reader->records->advance(&reader->mark, reader->records);
	}
	return gal_records_here(reader);
}

static void *gal_records_next(struct seq_file *m, void *v, loff_t *position)
{
	struct gal_debug_reader *reader = m->private;

	++*position;
	reader->has_ended = !reader->records->advance(&reader->mark, reader->records);
	return gal_records_here(reader);
}

static void gal_records_stop(struct seq_file *m, void *v)
{
}

static int gal_records_show(struct seq_file *m, void *v)
{
	struct gal_debug_reader *reader = v;

	return reader->records->show(m, &reader->mark, reader->records);
}

static const struct seq_operations gal_records_ops = {
	.start = gal_records_start,
	.next = gal_records_next,
	.stop = gal_records_stop,
	.show = gal_records_show,
};

static int gal_records_open(struct inode *inode, struct file *file)
{
	struct gal_debug_reader *reader;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	reader = __seq_open_private(file, &gal_records_ops, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	reader->records = inode->i_private;
	return 0;
}

static const struct file_operations gal_records_file_ops = {
	.owner = THIS_MODULE,
	.open = gal_records_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = seq_release_private,
};

void gal_debug_records_file(struct dentry *folder, const char *name,
			    const struct gal_debug_records *records)
{
	debugfs_create_file(name, 0400, folder, (void *)records, &gal_records_file_ops);
}

void gal_debug_remove(struct dentry *folder)
{
	debugfs_remove(folder);
}

/* After the module's exit function, and before its memory goes. */
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

/*
 * Every mapping of ours is shared. Of a private one the kernel would make copies on write, which are
 * not ours, and it tells those from our pages by vm_pgoff, which has another meaning here.
 */
int gal_check_area(struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_MAYSHARE ? 0 : -EINVAL;
}

/* Takes out what a mapping that has failed half-way has put in: its memory goes next. */
void gal_clear_area(struct vm_area_struct *vma)
{
	/* Nothing else goes in before the pages' mappings have made it such an area. */
	if (!(vma->vm_flags & VM_PFNMAP))
		return;
#ifdef GAL_HAS_ZAP_SPECIAL
	zap_special_vma_range(vma, vma->vm_start, vma->vm_end - vma->vm_start);
#else
	zap_vma_ptes(vma, vma->vm_start, vma->vm_end - vma->vm_start);
#endif
}

void gal_prepare_window(struct vm_area_struct *vma, phys_addr_t physical)
{
	vma->vm_page_prot = gal_device_prot(vma->vm_page_prot, physical);
	vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
}

vm_fault_t gal_fault_physical(struct vm_fault *vmf, phys_addr_t physical, size_t first,
			      size_t bytes)
{
	struct vm_area_struct *vma = vmf->vma;
	/* As many pages at once as lie in one aligned MiB of the window. */
	const unsigned long around = SZ_1M >> PAGE_SHIFT;
	unsigned long from = max(round_down(vmf->pgoff, around), vma->vm_pgoff);
	unsigned long to = min(round_down(vmf->pgoff, around) + around,
			       vma->vm_pgoff + vma_pages(vma));
	vm_fault_t result = VM_FAULT_SIGBUS;
	unsigned long page;

	from = max_t(unsigned long, from, first >> PAGE_SHIFT);
	to = min_t(unsigned long, to, (first + bytes) >> PAGE_SHIFT);
	for (page = from; page < to; page++) {
		unsigned long address = vma->vm_start + ((page - vma->vm_pgoff) << PAGE_SHIFT);

		result = vmf_insert_pfn(vma, address, PHYS_PFN(physical) + page);
		if (result != VM_FAULT_NOPAGE)
			break;
	}
	return result;
}

static const struct file_operations gal_no_operations = {};

/* An inode of its own, of which only the address space is used. */
struct inode *gal_new_inode(void)
{
	struct file *file = anon_inode_create_getfile("galcore", &gal_no_operations, NULL, O_RDWR,
						      NULL);
	struct inode *inode;

	if (IS_ERR(file))
		return ERR_CAST(file);
	inode = file_inode(file);
	ihold(inode);
	/* At once: later it could look at gal_no_operations when the module is gone. */
	__fput_sync(file);
	return inode;
}

void gal_set_mapping(struct file *file, struct inode *inode)
{
	file->f_mapping = inode->i_mapping;
}

void gal_zap(struct inode *inode, size_t offset, size_t bytes)
{
	unmap_mapping_range(inode->i_mapping, offset, bytes, 1);
}

static int gal_holder_release(struct inode *inode, struct file *file)
{
	struct gal_held *held = file->private_data;

	held->put(held);
	return 0;
}

static const struct file_operations gal_holder_operations = {
	.owner = THIS_MODULE,
	.release = gal_holder_release,
};

/* Its name is the vendor's. */
struct file *gal_new_holder(struct gal_held *held)
{
	return anon_inode_getfile("viv-gr", &gal_holder_operations, held, O_RDWR);
}

/* As the DMA interface decides it, but that a translation which could be bypassed counts as one. */
bool gal_is_translated(struct device *dev)
{
	return get_dma_ops(dev) || use_dma_iommu(dev);
}

void gal_fill_memory(void *memory, size_t bytes, u8 byte)
{
	memset(memory, byte, bytes);
}

void gal_copy_to_memory(void *memory, const void *from, size_t bytes)
{
	memcpy(memory, from, bytes);
}

phys_addr_t gal_dma_to_phys(struct device *dev, dma_addr_t dma)
{
	return dma_to_phys(dev, dma);
}

int gal_mmap_dma(struct vm_area_struct *vma, struct device *dev, void *cpu, dma_addr_t dma,
		 size_t size, unsigned long attrs)
{
	/* The offset named the buffer; to dma_mmap_attrs() it is a place inside it. */
	vma->vm_pgoff = 0;
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	return dma_mmap_attrs(dev, vma, cpu, dma, size, attrs);
}

void gal_mmap_begin(struct vm_area_struct *vma, struct page *first, bool cached)
{
	if (!cached)
		vma->vm_page_prot = gal_device_prot(vma->vm_page_prot, page_to_phys(first));
	vm_flags_set(vma, VM_DONTCOPY);
}

/*
 * Without the pages' reference counts: the area keeps its object alive. It is VM_IO then, too: the
 * pages are mapped for the device already and must not be pinned for it again.
 */
int gal_mmap_block(struct vm_area_struct *vma, unsigned long user, struct page *page,
		   unsigned long count)
{
	return remap_pfn_range(vma, user, page_to_pfn(page), count << PAGE_SHIFT,
			       vma->vm_page_prot);
}

bool gal_in_compat_call(void)
{
	return in_compat_syscall();
}

bool gal_is_killed(void)
{
	return fatal_signal_pending(current);
}

/* The process of a task that is referenced: its signal structure lives as long. */
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

unsigned long gal_available_pages(void)
{
	long free_cma = global_zone_page_state(NR_FREE_CMA_PAGES);

	/* What is kept for contiguous memory only goes to pages that can be moved. */
	return max(si_mem_available() - free_cma, 0L);
}

/*
 * Whether contiguous memory of that many bytes is none that others could have: on 32-bit ARM it comes
 * from CMA alone where there is any, else from wherever there is some.
 */
bool gal_is_apart(size_t bytes)
{
	return IS_ENABLED(CONFIG_ARM) &&
	       PFN_UP(bytes) <= global_zone_page_state(NR_FREE_CMA_PAGES);
}

unsigned long gal_total_pages(void)
{
	return totalram_pages();
}

struct page *gal_alloc_block(struct device *dev, unsigned int order, dma_addr_t *dma)
{
	/*
	 * More than one page: only what is at hand, and (as it may not block) none of the contiguous
	 * memory that others may need.
	 */
	gfp_t gfp = order ? GFP_NOWAIT | __GFP_NOWARN | __GFP_ACCOUNT :
			    GAL_GFP_CLIENT;
	size_t size = PAGE_SIZE << order;
	struct page *page;

	if (fatal_signal_pending(current))
		return NULL;
	page = dma_alloc_pages(dev, size, dma, DMA_BIDIRECTIONAL, gfp);

	/* The zeros are in the cache; the user's mapping and the device look past it. */
	if (page)
		dma_sync_single_for_device(dev, *dma, size, DMA_BIDIRECTIONAL);
	return page;
}

void gal_free_block(struct device *dev, struct page *page, unsigned int order, dma_addr_t dma)
{
	dma_free_pages(dev, PAGE_SIZE << order, page, dma, DMA_BIDIRECTIONAL);
}

long gal_pin_pages(unsigned long user, unsigned long count, bool write, bool fault,
		   struct page **pages)
{
	return pin_user_pages_fast(user, count,
				   (write ? FOLL_WRITE : 0) | (fault ? 0 : FOLL_NOFAULT) |
				   FOLL_LONGTERM, pages);
}

unsigned long gal_lock_limit(void)
{
	return rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
}

/* Asked for each time: a refusal is no matter for the audit log. */
bool gal_may_lock_all(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK);
}

/* As RDMA counts them: without the memory map's lock, which completion must not wait for. */
void gal_add_pinned(struct mm_struct *mm, unsigned long count)
{
	atomic64_add(count, &mm->pinned_vm);
}

void gal_remove_pinned(struct mm_struct *mm, unsigned long count)
{
	atomic64_sub(count, &mm->pinned_vm);
}

/* While a page of a folio is pinned, the folio is neither split nor moved. */
unsigned long gal_folio_pages(struct page *page, phys_addr_t *start)
{
	struct folio *folio = page_folio(page);

	*start = page_to_phys(folio_page(folio, 0));
	return folio_nr_pages(folio);
}

phys_addr_t gal_page_address(struct page *page)
{
	return page_to_phys(page);
}

bool gal_reaches(struct device *dev, phys_addr_t start, size_t bytes)
{
	dma_addr_t at = phys_to_dma(dev, start);

	return at != DMA_MAPPING_ERROR &&
	       at + bytes - 1 <= min_not_zero(*dev->dma_mask, dev->bus_dma_limit);
}

/*
 * One mapping of a page serves all who have it pinned, whether the device may write for them or
 * not: so it is for both directions. A reader never asks for what the device wrote.
 */
bool gal_map_page(struct device *dev, struct page *page, dma_addr_t *dma)
{
	/* Only a piece of the page may be the client's: it is synchronised apart. */
	*dma = dma_map_page_attrs(dev, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL,
				  DMA_ATTR_SKIP_CPU_SYNC);
	return !dma_mapping_error(dev, *dma);
}

void gal_unmap_page(struct device *dev, dma_addr_t dma)
{
	dma_unmap_page_attrs(dev, dma, PAGE_SIZE, DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC);
}

void gal_sync_for_device(struct device *dev, dma_addr_t dma, size_t size)
{
	dma_sync_single_for_device(dev, dma, size, DMA_BIDIRECTIONAL);
}

void gal_sync_for_cpu(struct device *dev, dma_addr_t dma, size_t size)
{
	dma_sync_single_for_cpu(dev, dma, size, DMA_BIDIRECTIONAL);
}

void gal_write_page(struct device *dev, struct page *page, dma_addr_t dma, size_t offset, u32 word)
{
	u32 *at = kmap_local_page(page) + offset;

	/* What the device has written beside the word stays. */
	dma_sync_single_for_cpu(dev, dma + offset, sizeof(word), DMA_BIDIRECTIONAL);
	WRITE_ONCE(*at, word);
	kunmap_local(at);
	flush_dcache_page(page);
	dma_sync_single_for_device(dev, dma + offset, sizeof(word), DMA_BIDIRECTIONAL);
}

void gal_poke_page(struct page *page, size_t offset, u32 word)
{
	u32 *at = kmap_local_page(page) + offset;

	WRITE_ONCE(*at, word);
	kunmap_local(at);
	flush_dcache_page(page);
}

void gal_allow_long_segments(struct device *dev)
{
	dma_set_max_seg_size(dev, UINT_MAX);
}

u64 gal_jiffies64(void)
{
	return get_jiffies_64();
}

/*
 * On ARM the counter of the kernel's delays, if that is what they go by; elsewhere reading the clock is
 * quick.
 */
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

struct task_struct *gal_find_leader(pid_t number)
{
	guard(rcu)();
	return get_pid_task(find_vpid(number), PIDTYPE_TGID);
}

u32 gal_user_id(void)
{
	struct user_namespace *namespace = current_user_ns();
	kuid_t user;

	/* Within a namespace a user has many: the owner of the outermost one counts. */
	if (namespace == &init_user_ns)
		return from_kuid(&init_user_ns, current_uid());
	while (namespace->parent != &init_user_ns)
		namespace = namespace->parent;
	user = namespace->owner;
	/* Those that root makes are other people's, each by the users that it was given. */
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

void gal_command_name(char *name, size_t bytes)
{
	strscpy_pad(name, current->comm, bytes);
}

/* Who changes it meanwhile leaves a mixture of both, as with the kernel's own get_task_comm(). */
void gal_task_name(struct task_struct *task, char *name, size_t bytes)
{
	strscpy_pad(name, task->comm, bytes);
}

void gal_wmb(void)
{
	/* pairs with the GPU, which reads what was written before */
	wmb();
}

void gal_smp_rmb(void)
{
	/* pairs with the lock under which memory is given to others before they write to it */
	smp_rmb();
}

void gal_smp_wmb(void)
{
	/* pairs with the clients' reads of the completion page */
	smp_wmb();
}

bool gal_is_thread_of(struct task_struct *leader)
{
	return same_thread_group(leader, current);
}

void gal_send_signal(struct task_struct *leader, const struct mm_struct *mm, int number, u32 value)
{
	struct kernel_siginfo info;
	bool is_other;

	/* A leader that has exited has no memory map; its threads may go on, with that one. */
	task_lock(leader);
	is_other = leader->mm && leader->mm != mm;
	task_unlock(leader);
	/* The kernel looks at the upper end only. */
	if (number < 1 || is_other)
		return;
	clear_siginfo(&info);
	info.si_signo = number;
	info.si_code = SI_QUEUE;
	info.si_int = value;
	send_sig_info(number, &info, leader);
}

bool gal_is_system_ram(phys_addr_t start, size_t size)
{
	return region_intersects(start, size, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) !=
	       REGION_DISJOINT;
}

int gal_write_physical(phys_addr_t at, u32 word)
{
	phys_addr_t start = at & PAGE_MASK;
	void __iomem *window = ioremap_wc(start, PAGE_SIZE);

	if (!window)
		return -ENOMEM;
	writel(word, window + (at - start));
	iounmap(window);
	return 0;
}

int gal_read_physical(phys_addr_t at, u32 *word)
{
	phys_addr_t start = at & PAGE_MASK;
	void __iomem *window = ioremap_wc(start, PAGE_SIZE);

	if (!window)
		return -ENOMEM;
	*word = readl(window + (at - start));
	iounmap(window);
	return 0;
}

int gal_fill_physical(phys_addr_t start, size_t size, u8 byte)
{
	/* In windows: a pool of hundreds of MiB does not fit the address space of 32-bit ARM. */
	while (size) {
		size_t part = min_t(size_t, size, SZ_1M - offset_in_page(start));
		void __iomem *window = ioremap_wc(start, part);

		if (!window)
			return -ENOMEM;
		memset_io(window, byte, part);
		iounmap(window);
		start += part;
		size -= part;
		cond_resched();
	}
	return 0;
}

int gal_copy_physical(phys_addr_t start, void *to, size_t size)
{
	while (size) {
		size_t part = min_t(size_t, size, SZ_1M - offset_in_page(start));
		void __iomem *window = ioremap_wc(start, part);

		if (!window)
			return -ENOMEM;
		memcpy_fromio(to, window, part);
		iounmap(window);
		start += part;
		to += part;
		size -= part;
		cond_resched();
	}
	return 0;
}

bool gal_has_dumps(void)
{
	return IS_ENABLED(CONFIG_DEV_COREDUMP);
}

/* Nothing is reclaimed for it: without spare memory there is no dump. */
void *gal_allocate_dump(size_t size)
{
	return __vmalloc(size, GFP_NOWAIT | __GFP_NOWARN | __GFP_ZERO);
}

void gal_free_dump(void *data)
{
	vfree(data);
}

/* The data is the kernel's from now on, whatever becomes of the module. */
void gal_publish_dump(struct device *dev, void *data, size_t size)
{
	dev_coredump_put(dev);
	dev_coredumpv(dev, data, size, GFP_NOWAIT | __GFP_NOWARN);
}

int gal_copy_pages(struct page **pages, size_t offset, void *to, size_t size, bool cached)
{
	/* What no cache has is not read through one: its lines could be stale. */
	pgprot_t how = cached ? PAGE_KERNEL : gal_device_prot(PAGE_KERNEL, page_to_phys(*pages));

	while (size) {
		size_t part = min_t(size_t, size, SZ_256K - offset_in_page(offset));
		size_t count = DIV_ROUND_UP(offset_in_page(offset) + part, PAGE_SIZE);
		void *window = vmap(pages + (offset >> PAGE_SHIFT), count, VM_MAP, how);

		if (!window)
			return -ENOMEM;
		memcpy(to, window + offset_in_page(offset), part);
		vunmap(window);
		offset += part;
		to += part;
		size -= part;
		cond_resched();
	}
	return 0;
}

unsigned int gal_count_nodes(void)
{
	struct device_node *node;
	unsigned int count = 0;

	for_each_compatible_node(node, NULL, "vivante,gc")
		count += of_device_is_available(node);
	return count;
}

/* Of one the bus takes care; of several it attaches none. */
unsigned int gal_count_domains(struct device *dev)
{
	return max(of_count_phandle_with_args(dev->of_node, "power-domains",
					      "#power-domain-cells"), 0);
}

/* The names of the device of the enabled node with that index, and of the driver that has it. */
bool gal_node_holder(unsigned int index, char *device, char *driver, size_t size)
{
	struct platform_device *pdev = NULL;
	struct device_node *node;

	device[0] = '\0';
	driver[0] = '\0';
	for_each_compatible_node(node, NULL, "vivante,gc") {
		if (of_device_is_available(node) && !index--) {
			pdev = of_find_device_by_node(node);
			break;
		}
	}
	if (!node)
		return false;
	if (pdev) {
		strscpy(device, dev_name(&pdev->dev), size);
		/* The thread that binds it may wait for this module to be loaded. */
		if (device_trylock(&pdev->dev)) {
			if (pdev->dev.driver)
				strscpy(driver, pdev->dev.driver->name, size);
			device_unlock(&pdev->dev);
		}
		put_device(&pdev->dev);
	}
	of_node_put(node);
	return true;
}

/*
 * Whether a node, enabled or not, has its registers there; and its interrupt as
 * the board's documents number it (see gal_map_irq_line), 0 if it has none. Of
 * several nodes an enabled one counts: the kernel makes the core's device of it.
 */
bool gal_find_node(phys_addr_t registers, bool *enabled, unsigned int *line)
{
	struct of_phandle_args irq;
	struct device_node *node;
	struct resource resource;
	bool found = false;

	*enabled = false;
	for_each_compatible_node(node, NULL, "vivante,gc") {
		if (of_address_to_resource(node, 0, &resource) || resource.start != registers)
			continue;
		if (found && !of_device_is_available(node))
			continue;
		found = true;
		*enabled = of_device_is_available(node);
		*line = 0;
		if (!of_irq_parse_one(node, 0, &irq)) {
			if (irq.args_count == 1)
				*line = irq.args[0];
			else if (irq.args_count == 3 && irq.args[0] == 0)
				*line = irq.args[1] + 32;
			of_node_put(irq.np);
		}
		if (*enabled) {
			of_node_put(node);
			break;
		}
	}
	return found;
}

int gal_memory_region(struct device *dev, phys_addr_t *start, phys_addr_t *size, bool *reusable)
{
	struct device_node *node = of_parse_phandle(dev->of_node, "memory-region", 0);
	struct reserved_mem *region;

	if (!node)
		return 0;
	region = of_device_is_available(node) ? of_reserved_mem_lookup(node) : NULL;
	*reusable = of_property_read_bool(node, "reusable");
	of_node_put(node);
	if (!region)
		return -EINVAL;
	*start = region->base;
	*size = region->size;
	return 1;
}

/* The cores look into the caches. They are one device to memory. */
static bool gal_snoops;

int gal_configure_dma(struct device *dev, struct device *core)
{
	int error = core->of_node ? of_dma_configure(dev, core->of_node, true) : 0;

	if (!error)
		gal_snoops = dev_is_dma_coherent(dev);
	return error;
}

/* How memory at @at is mapped that must look the same to the device: the kernel has its own RAM in the caches. */
pgprot_t gal_device_prot(pgprot_t prot, phys_addr_t at)
{
	return gal_snoops && gal_is_system_ram(at, PAGE_SIZE) ? prot : pgprot_writecombine(prot);
}

int gal_assign_region(struct device *dev, struct device *core)
{
	return of_reserved_mem_device_init_by_idx(dev, core->of_node, 0);
}

void gal_release_region(struct device *dev)
{
	of_reserved_mem_device_release(dev);
}

/* The interrupt that a line has already, or 0. */
static unsigned int gal_find_irq(struct irq_fwspec *spec)
{
	struct irq_domain *domain = irq_find_matching_fwspec(spec, DOMAIN_BUS_WIRED);
	irq_hw_number_t hwirq;
	unsigned int type;

	if (!domain)
		domain = irq_find_matching_fwspec(spec, DOMAIN_BUS_ANY);
	if (!domain || !domain->ops->translate ||
	    domain->ops->translate(domain, spec, &hwirq, &type))
		return 0;
	return irq_find_mapping(domain, hwirq);
}

/*
 * The controller that lines of the board's documents are numbered for: the
 * parent of the root, or else of the SoC's bus. Trees of i.MX6, MMP and STM32MP1
 * have it there alone. On i.MX6 it is the GPC, which passes an interrupt on to
 * the GIC only where it was asked to.
 */
static struct device_node *gal_main_controller(void)
{
	struct device_node *root = of_find_node_by_path("/");
	struct device_node *controller, *bus;

	if (!root)
		return NULL;
	controller = of_irq_find_parent(root);
	for_each_available_child_of_node(root, bus) {
		if (!controller && of_device_is_compatible(bus, "simple-bus"))
			controller = of_irq_find_parent(bus);
	}
	of_node_put(root);
	return controller;
}

int gal_map_irq_line(unsigned int line)
{
	struct device_node *controller = gal_main_controller();
	struct irq_fwspec spec = {};
	u32 cells;
	int irq;

	if (!controller)
		return -ENODEV;
	if (of_property_read_u32(controller, "#interrupt-cells", &cells))
		cells = 0;
	spec.fwnode = of_fwnode_handle(controller);
	switch (cells) {
	case 1:
		spec.param[0] = line;
		spec.param_count = 1;
		break;
	case 3:
		/* The GIC: shared peripheral interrupts start at line 32. */
		if (line < 32) {
			of_node_put(controller);
			return -EINVAL;
		}
		spec.param[0] = 0;
		spec.param[1] = line - 32;
		spec.param[2] = IRQ_TYPE_LEVEL_HIGH;
		spec.param_count = 3;
		break;
	default:
		of_node_put(controller);
		return -EOPNOTSUPP;
	}
	irq = gal_find_irq(&spec);
	if (!irq)
		irq = irq_create_fwspec_mapping(&spec);
	of_node_put(controller);
	return irq ? irq : -EINVAL;
}

/*
 * On i.MX6 the GPU's regulator and on i.MX8M its reset controller are modules.
 * A core that waits for them longer than the kernel's 10 s is given up.
 */
MODULE_SOFTDEP("pre: anatop-regulator reset-imx7");
MODULE_VERSION("0.1.0");

/* All of them. Exclusive: a line that two cores share resets both. NULL: the node names none. */
struct reset_control *gal_get_reset(struct device *dev)
{
	return of_reset_control_array_get_optional_exclusive(dev->of_node);
}

void gal_put_reset(struct reset_control *line)
{
	reset_control_put(line);
}

int gal_drive_reset(struct reset_control *line, bool held)
{
	return held ? reset_control_assert(line) : reset_control_deassert(line);
}

/* For controllers that only pulse. */
int gal_pulse_reset(struct reset_control *line)
{
	return reset_control_reset(line);
}

/* The lines themselves are printed by Rust, which has no dynamic debug of its own. */
bool gal_debugs(void)
{
#if defined(CONFIG_DYNAMIC_DEBUG) || \
	(defined(CONFIG_DYNAMIC_DEBUG_CORE) && defined(DYNAMIC_DEBUG_MODULE))
	DEFINE_DYNAMIC_DEBUG_METADATA(lines, "why requests are refused");

	/* Its address goes nowhere else: the compiler would take it for constant. */
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
