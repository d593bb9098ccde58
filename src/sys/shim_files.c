// SPDX-License-Identifier: GPL-2.0-only
/* The files of the driver in /proc, debugfs and sysfs. Macros and inlines that Rust cannot call. */
#include <linux/debugfs.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/user_namespace.h>

#include "shim.h"

/*
 * Serializes creation and removal of the file. Its readers and writers do not take it: removal
 * waits for them.
 */
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

static int gal_file_show(struct seq_file *m, void *v)
{
	const struct gal_file_answers *answers = m->private;

	return answers->show(m, answers);
}

static ssize_t gal_file_write(struct file *file, const char __user *from, size_t bytes,
			      loff_t *position)
{
	const struct gal_file_answers *answers = ((struct seq_file *)file->private_data)->private;

	return answers->write(from, bytes, answers);
}

static int gal_proc_open(struct inode *inode, struct file *file)
{
	return single_open(file, gal_file_show, pde_data(inode));
}

static ssize_t gal_proc_write(struct file *file, const char __user *from, size_t bytes,
			      loff_t *position)
{
	/* The opener, too: else it could pass the file to a privileged process that writes to it. */
	if (!file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN))
		return -EPERM;
	return gal_file_write(file, from, bytes, position);
}

static const struct proc_ops gal_proc_ops = {
	.proc_open = gal_proc_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
	.proc_write = gal_proc_write,
};

struct proc_dir_entry *gal_proc_create(const char *name, const struct gal_file_answers *answers)
{
	return proc_create_data(name, 0644, NULL, &gal_proc_ops, (void *)answers);
}

void gal_proc_remove(struct proc_dir_entry *entry)
{
	proc_remove(entry);
}

static int gal_debug_open(struct inode *inode, struct file *file)
{
	return single_open(file, gal_file_show, inode->i_private);
}

/* debugfs uses these at the close of a file that was removed. The owner keeps the module until then. */
static const struct file_operations gal_debug_ops = {
	.owner = THIS_MODULE,
	.open = gal_debug_open,
	.read = seq_read,
	.write = gal_file_write,
	.llseek = seq_lseek,
	.release = single_release,
};

struct dentry *gal_debug_folder(const char *name)
{
	return debugfs_create_dir(name, NULL);
}

void gal_debug_file(struct dentry *folder, const char *name, bool writable,
		    const struct gal_file_answers *answers)
{
	debugfs_create_file(name, writable ? 0600 : 0400, folder, (void *)answers, &gal_debug_ops);
}

/* The reader of a file of records, and its position. Protected by the lock of its seq_file. */
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
