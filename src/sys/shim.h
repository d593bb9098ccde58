/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions for src/sys that neither the `kernel` crate nor its bindings have. bindgen reads this file.
 */
#ifndef GALCORE_SHIM_H
#define GALCORE_SHIM_H

#include <linux/device.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/types.h>

#include "galcore_trace.h"

/* The C copy of GFP_CLIENT in src/sys/mod.rs. */
#define GAL_GFP_CLIENT (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* gal_NAME() without the option that it needs: it only returns the value, if any. */
#define GAL_ABSENT(type, name, arguments, ...)            \
	type gal_##name arguments { return __VA_ARGS__; } \
	static_assert(true)

struct dentry;
struct dma_buf;
struct dma_buf_attachment;
struct dma_fence;
struct drm_device;
struct drm_file;
struct drm_gem_object;
struct gal_fence;
struct gal_stand_in;
struct proc_dir_entry;
struct sg_table;
struct workqueue_struct;

/* The most 3D cores, and the most 2D cores, that module parameters describe. */
#define GAL_3D_CORES 16
#define GAL_2D_CORES 4

/*
 * Ticks per second. HZ in the bindings of the kernel crate is wrong: the macro has two definitions, and
 * bindgen takes the first, that of user space (100).
 */
enum gal_ticks {
	GAL_HZ = HZ,
};

/* The module parameters. Most have the names of the vendor's driver. */
struct gal_parameters {
	int irqLine;
	unsigned long registerMemBase;
	unsigned long registerMemSize;
	int irqLine2D;
	unsigned long registerMemBase2D;
	unsigned long registerMemSize2D;
	int irqLineVG;
	unsigned long registerMemBaseVG;
	unsigned long registerMemSizeVG;
	int irqs[GAL_3D_CORES];
	unsigned long registerBases[GAL_3D_CORES];
	unsigned long registerSizes[GAL_3D_CORES];
	int irq2Ds[GAL_2D_CORES];
	unsigned long register2DBases[GAL_2D_CORES];
	unsigned long register2DSizes[GAL_2D_CORES];
	unsigned long contiguousBase;
	unsigned long contiguousSize;
	unsigned long bankSize;
	unsigned long baseAddress;
	int fastClear;
	int compression;
	unsigned int major;
	int signal;
	int useLinuxSignal;
	int sharedPool;
	int streamCheck;
	unsigned int gpuTimeout;
	unsigned int jobTimeout;
	int powerManagement;
	unsigned int autosuspend;
	unsigned int coreClock;
	unsigned int coreClock2D;
	unsigned int coreClockVG;
	unsigned long gpu_frequency;
	unsigned int initgpu3DMinClock;
	unsigned int recovery;
	unsigned int stuckDump;
	unsigned int gpuProfiler;
	int sharedNodes;
	int sharedSignals;
	int showArgs;
	char interface[256];
	char version[256];
	char identity[256];
	char cores[16];
	char drm[16];
	char allowedRanges[192];
};

extern struct gal_parameters gal_parameters;

/* A file in debugfs or /proc. The functions are in Rust, and the answers static. */
struct gal_file_answers {
	int (*show)(struct seq_file *m, const struct gal_file_answers *answers);
	ssize_t (*write)(const char __user *from, size_t bytes,
			 const struct gal_file_answers *answers);
};

struct proc_dir_entry *gal_proc_create(const char *name, const struct gal_file_answers *answers);
void gal_proc_remove(struct proc_dir_entry *entry);

/*
 * A file in debugfs that makes one record at a time. It needs CAP_SYS_ADMIN. A mark is a position, at first
 * all zeros. advance() moves it to the next record. False: there is none. show() may run twice for a
 * record.
 */
struct gal_mark {
	u64 words[5];
};

struct gal_debug_records {
	bool (*advance)(struct gal_mark *mark, const struct gal_debug_records *records);
	int (*show)(struct seq_file *m, struct gal_mark *mark,
		    const struct gal_debug_records *records);
};

void gal_debug_records_file(struct dentry *folder, const char *name,
			    const struct gal_debug_records *records);

/* If a file cannot be created, the functions do not fail: it is missing. */
struct dentry *gal_debug_folder(const char *name);
void gal_debug_file(struct dentry *folder, const char *name, bool writable,
		    const struct gal_file_answers *answers);
void gal_debug_remove(struct dentry *folder);

/* gpu_govern, an attribute of the platform driver. The first show creates it, the last hide removes it. */
struct gal_govern_answers {
	ssize_t (*show)(char *page);
	ssize_t (*store)(const char *text, size_t bytes);
};

int gal_show_govern(struct device *dev, const struct gal_govern_answers *answers);
void gal_hide_govern(void);

/* Between these calls, an unload of the module hits a BUG(), so the module's memory is not freed. */
int gal_watch_unload(void);
void gal_unwatch_unload(void);

/* User mappings. */
int gal_check_area(struct vm_area_struct *vma);
void gal_clear_area(struct vm_area_struct *vma);
void gal_prepare_window(struct vm_area_struct *vma, phys_addr_t physical);
vm_fault_t gal_fault_physical(struct vm_fault *vmf, phys_addr_t physical, size_t first,
			      size_t bytes);
struct inode *gal_new_inode(void);
bool gal_is_translated(struct device *dev);
int gal_configure_dma(struct device *dev, struct device *core);
void gal_fill_memory(void *memory, size_t bytes, u8 byte);
void gal_copy_to_memory(void *memory, const void *from, size_t bytes);
phys_addr_t gal_dma_to_phys(struct device *dev, dma_addr_t dma);
int gal_mmap_dma(struct vm_area_struct *vma, struct device *dev, void *cpu, dma_addr_t dma,
		 size_t size, unsigned long attrs);

void gal_mmap_begin(struct vm_area_struct *vma, struct page *first, bool cached);
pgprot_t gal_device_prot(pgprot_t prot, phys_addr_t at);
int gal_mmap_block(struct vm_area_struct *vma, unsigned long user, struct page *page,
		   unsigned long count);

/* Pages for a device: allocated, or pinned in a process. Memory limits and the calling thread. */
unsigned long gal_available_pages(void);
bool gal_comes_from_cma(size_t bytes);
unsigned long gal_total_pages(void);
bool gal_in_compat_call(void);
bool gal_is_killed(void);
bool gal_is_ending(const struct task_struct *task);
void gal_yield(void);
void gal_run_in(struct workqueue_struct *queue, void (*run)(void *context), void *context);
bool gal_is_low(void);
int gal_nice(void);
void gal_preempt_disable(void);
void gal_preempt_enable(void);
struct page *gal_alloc_block(struct device *dev, unsigned int order, dma_addr_t *dma);
unsigned long gal_lock_limit(void);
unsigned long gal_folio_pages(struct page *page, phys_addr_t *start);
phys_addr_t gal_page_address(struct page *page);
bool gal_reaches(struct device *dev, phys_addr_t start, size_t bytes);
bool gal_map_page(struct device *dev, struct page *page, dma_addr_t *dma);
void gal_unmap_page(struct device *dev, dma_addr_t dma);
void gal_sync_for_device(struct device *dev, dma_addr_t dma, size_t size);
void gal_sync_for_cpu(struct device *dev, dma_addr_t dma, size_t size);

void gal_write_page(struct device *dev, struct page *page, dma_addr_t dma, size_t offset, u32 word);

void gal_poke_page(struct page *page, size_t offset, u32 word);

/* A dma-buf of another driver that is attached to a device and mapped for it. */
struct gal_import {
	struct dma_buf_attachment *attachment;
	struct sg_table *table;
	bool read_only;
};

/* Creates a device without hardware that reaches all memory. Its DMA addresses are physical addresses. */
struct device *gal_new_observer(void);

struct dma_buf *gal_get_buffer(int fd);
void gal_hold_buffer(struct dma_buf *buffer);
void gal_put_buffer(struct dma_buf *buffer);
bool gal_is_writeable(struct dma_buf *buffer);
struct file *gal_buffer_file(struct dma_buf *buffer);
size_t gal_buffer_bytes(struct dma_buf *buffer);
int gal_mmap_buffer(struct dma_buf *buffer, struct vm_area_struct *vma);
int gal_attach(struct device *dev, struct dma_buf *buffer, bool read_only,
	       struct gal_import *import);
void gal_detach(struct dma_buf *buffer, const struct gal_import *import);
int gal_import_pages(const struct gal_import *import, dma_addr_t *pages, size_t count);

/* A dma-buf of this driver: pages, or a range of physical addresses. Its release calls put(owner). */
struct gal_export {
	struct page **pages;
	phys_addr_t start;
	size_t bytes;
	const void *exporter;
	void *owner;
	void (*put)(void *owner);
	/* The access mode of its file: O_ACCMODE. */
	unsigned int flags;
};

struct dma_buf *gal_export_buffer(const struct gal_export *what);

/* An object that a file keeps alive. The release of the file calls put(held). */
struct gal_held {
	void (*put)(struct gal_held *held);
};

struct file *gal_new_holder(struct gal_held *held);
void *gal_exported_by(struct dma_buf *buffer, const void *exporter);

/* Fences. If nothing signals a fence for this time, in milliseconds, the driver ends it with -ETIMEDOUT. */
#define GAL_FENCE_MS 10000

/* @core: the index of the core whose job signals the fence, plus 1. 0: no core. */
struct gal_fence *gal_new_fence(struct workqueue_struct *queue, unsigned int core);
/* Whether @fence is one that a job of @core signals. A signaled fence may give false. */
bool gal_is_fence_of(struct dma_fence *fence, unsigned int core);
void gal_end_fences(void);
struct file *gal_fence_file(struct gal_fence *fence);
struct dma_fence *gal_share_fence(struct gal_fence *fence);
bool gal_fence_is_over(struct gal_fence *fence);
void gal_signal_fence(struct gal_fence *fence);
void gal_end_fence(struct gal_fence *fence, int error);
int gal_wait_until(struct dma_fence *fence, ktime_t end, bool outlasts);
int gal_wait_fence(int fd, unsigned int milliseconds, bool outlasts);

/* The caller. */
u32 gal_user_id(void);
u32 gal_effective_user_id(void);
u64 gal_jiffies64(void);
bool gal_will_restart(void);
int gal_sleep(unsigned int milliseconds);

/*
 * gal_count(): a counter that is fast to read. gal_counts_per_jiffy(): its rate. gal_count_ns(): counts in
 * nanoseconds. gal_decimal(): writes a number in decimal digits.
 */
unsigned long gal_count(void);
unsigned long gal_counts_per_jiffy(void);
u64 gal_count_ns(u64 counts);
size_t gal_decimal(char *to, size_t bytes, u64 number);

/* Whether dynamic debug is on for the lines that explain refused requests. */
bool gal_debugs(void);

/* A static key in a form that the kernel crate accepts. */
struct gal_key {
	struct static_key_false key;
};

extern struct gal_key gal_paths;
void gal_watch_paths(bool on);

/* A barrier. */
void gal_wmb(void);

/* Signals. */
bool gal_is_thread_of(struct task_struct *leader);
void gal_send_signal(struct task_struct *leader, const struct mm_struct *mm, int number, u32 value);

/* Physical memory that the kernel does not map. */
bool gal_is_system_ram(phys_addr_t start, size_t size);
int gal_write_physical(phys_addr_t at, u32 word);
int gal_read_physical(phys_addr_t at, u32 *word);
/* Copies the range to @to. If that is NULL, fills the range with @byte. */
int gal_use_physical(phys_addr_t start, size_t size, void *to, u8 byte);

/* Dumps of a device that hangs. */
bool gal_has_dumps(void);
void gal_publish_dump(struct device *dev, void *data, size_t size);
int gal_copy_pages(struct page **pages, size_t offset, void *to, size_t size, bool cached);

/*
 * Finds the framebuffers that the calling process has mapped, contiguous and writable. The first @known
 * entries of @found are input: mappings of these are skipped. Returns the number of all entries, at most
 * @most, or -EINTR. The caller puts the files of the new entries.
 */
struct gal_framebuffer {
	struct file *file;
	phys_addr_t start;
	size_t bytes;
};

int gal_find_framebuffers(struct gal_framebuffer *found, unsigned int known, unsigned int most);
/* Opens the framebuffer of @file again. NULL: this failed. May sleep. */
struct file *gal_open_again(struct file *file);
/* The physical address of a contiguous, writable mapping without pages. */
bool gal_physical_of(unsigned long user, size_t bytes, phys_addr_t *physical);
/* Changes when the calling process maps something. Without CONFIG_PER_VMA_LOCK it may miss a change. */
unsigned long gal_mappings_stamp(void);

/* The memory region of a device's node: 1, 0 if there is none, or an error. */
int gal_memory_region(struct device *dev, phys_addr_t *start, phys_addr_t *size, bool *reusable);
int gal_assign_region(struct device *dev, struct device *core);
void gal_release_region(struct device *dev);

/* The reset lines of a device's node. */
struct reset_control *gal_get_reset(struct device *dev);
void gal_put_reset(struct reset_control *line);
int gal_drive_reset(struct reset_control *line, bool held);
int gal_pulse_reset(struct reset_control *line);

/* Power management of a device: its callbacks, and references that keep it on. */
struct gal_power;
enum gal_power_call {
	GAL_SWITCH_OFF,
	GAL_SWITCH_ON,
	GAL_SLEEP,
	/* Hibernation: after GAL_SLEEP and GAL_SWITCH_OFF, before the kernel makes or loads an image. */
	GAL_HIBERNATE,
	GAL_WAKE,
	/* Limits the clock to @value 64ths of its full rate. Only if it has a divider. */
	GAL_LIMIT,
};

/* The highest cooling state of a core. Each state halves the clock. */
#define GAL_COOLING_STATES 6
struct gal_power *gal_start_power(struct device *dev, void *context,
				  int (*call)(void *context, unsigned int what,
					      unsigned int value),
				  int delay, bool always_on, bool has_divider);
void gal_stop_power(struct gal_power *power);
void gal_stop_cooling(struct gal_power *power);
int gal_off_delay(struct device *dev);
int gal_get_power(struct device *dev);
bool gal_get_power_if_on(struct device *dev);
void gal_put_power(struct device *dev);
void gal_put_power_unused(struct device *dev);
bool gal_switch_off_now(struct device *dev);
void gal_put_power_noidle(struct device *dev);
int gal_request_off(struct device *dev);
void gal_request_off_later(struct device *dev);
bool gal_has_power_domain(struct device *dev);
int gal_keep_domain(struct device *dev, bool keep);
int gal_cycle_power(struct device *dev);

/* The device-tree nodes of cores, and interrupt lines as documents of boards number them. */
unsigned int gal_count_nodes(void);
unsigned int gal_count_domains(struct device *dev);
bool gal_node_holder(unsigned int index, char *device, char *driver, size_t size);
bool gal_find_node(phys_addr_t registers, bool *enabled, unsigned int *line);
int gal_map_irq_line(unsigned int line);

/* Components for the GPU's device-tree nodes. An aggregate driver (etnaviv) waits for one of each node. */
struct gal_stand_in *gal_new_stand_in(struct device *core);
void gal_drop_stand_in(struct gal_stand_in *stand_in);
void gal_end_stand_ins(void);

/*
 * A DRM node. The state of a file lives from open() to close(). The content of an object lives from
 * gal_new_object() or import() to put(). Both belong to the Rust half. enter(): an object gets a handle of a
 * file. leave(): it loses one.
 */
struct gal_drm_answers {
	int (*open)(void **state);
	void (*adopt)(void *state, struct file *file);
	/* Called before an import. Makes the caller the owner of the file, if it has none yet. */
	int (*bind)(void *state);
	void (*close)(void *state);
	int (*call)(void *state, struct drm_file *file, unsigned int number, void *data,
		    size_t bytes);
	int (*mmap)(void *state, struct vm_area_struct *vma);
	void (*show)(void *state, struct seq_file *m);
	int (*enter)(void *state, void *content);
	void (*leave)(void *state, void *content);
	void (*put)(void *content);
	/* Fails unless the caller may export the object. The first time, waits for jobs that write it. */
	int (*check)(void *state, void *content, bool is_first);
	struct dma_buf *(*export)(void *content, int flags);
	void *(*import)(struct dma_buf *buffer);
	/* Called without DRM's locks if an import fails with -EBUSY or -ENOMEM. It is then repeated. */
	int (*settle)(void *state);
};

/* Words of the longest ioctl argument of the nodes. */
enum gal_drm_limits {
	GAL_DRM_WORDS = 19,
};

enum gal_drm_driver {
	GAL_VIVANTE,
	GAL_ETNAVIV,
};

/* Whether DRM was loaded before the module. If not, do not call any of the functions below. */
bool gal_has_drm(void);
struct drm_device *gal_new_node(struct device *parent, enum gal_drm_driver driver,
				const struct gal_drm_answers *answers);
void gal_end_node(struct drm_device *drm);
/* @bytes: whole pages. Takes ownership of @content, even if it fails. */
int gal_new_object(struct drm_file *file, size_t bytes, void *content, u32 *handle);
struct drm_gem_object *gal_find_object(struct drm_file *file, u32 handle);
void *gal_object_content(struct drm_gem_object *object);
size_t gal_object_bytes(struct drm_gem_object *object);
void gal_put_object(struct drm_gem_object *object);
struct file *gal_open_file(struct drm_file *file);
/* Whether the object has a dma-buf. */
bool gal_is_shared(struct drm_gem_object *object);
/* A reference to the object's dma-buf. NULL: it has none. */
struct dma_buf *gal_object_buffer(struct drm_gem_object *object);
int gal_wait_for_others(struct dma_buf *buffer, bool write, unsigned int milliseconds,
			unsigned int except, bool outlasts);
int gal_show_fence(struct dma_buf *buffer, struct dma_fence *fence, bool write);
void gal_put_fence(struct dma_fence *fence);

#endif
