// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C half of src/sys/framebuffer.rs: finds mappings of the calling process that have no pages to pin, such
 * as framebuffers.
 */
#include <linux/fb.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/major.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>

#include "shim.h"

/* The largest framebuffer. Larger mappings would take long to walk. */
#define GAL_MOST_BYTES ((unsigned long)SZ_128M)

/*
 * Whether the range from start to end of vma maps contiguous physical memory, all of it writable. The caller
 * holds mmap_lock.
 */
static bool gal_in_one_piece(struct vm_area_struct *vma, unsigned long start, unsigned long end,
			     phys_addr_t *physical)
{
	unsigned long first = 0;
	unsigned long at;

	if (end - start > GAL_MOST_BYTES)
		return false;
	for (at = start; at < end; at += PAGE_SIZE) {
		struct follow_pfnmap_args args = { .vma = vma, .address = at };
		unsigned long pfn;
		bool writable;

		if (follow_pfnmap_start(&args))
			return false;
		pfn = args.pfn;
		writable = args.writable;
		follow_pfnmap_end(&args);
		if (at == start)
			first = pfn;
		if (!writable || pfn - first != (at - start) >> PAGE_SHIFT)
			return false;
		cond_resched();
	}
	*physical = PFN_PHYS(first);
	return true;
}

static bool gal_has_no_pages(const struct vm_area_struct *vma)
{
	const vm_flags_t needed = VM_PFNMAP | VM_SHARED | VM_WRITE;

	return (vma->vm_flags & needed) == needed;
}

static bool gal_is_framebuffer(const struct vm_area_struct *vma)
{
	const struct inode *inode;

	if (!vma->vm_file || !gal_has_no_pages(vma))
		return false;
	inode = file_inode(vma->vm_file);
	return S_ISCHR(inode->i_mode) && imajor(inode) == FB_MAJOR;
}

/* Whether it is registers: some drivers map them after the memory, at offsets from 0 again. */
static bool gal_are_registers(const struct fb_info *info, phys_addr_t start)
{
	const unsigned long registers = READ_ONCE(info->fix.mmio_start);
	const u32 bytes = READ_ONCE(info->fix.mmio_len);

	return bytes && start - (registers & PAGE_MASK) <
			PAGE_ALIGN((registers & ~PAGE_MASK) + bytes);
}

/*
 * Whether vma maps a part of the memory. A process that may map a part may map what precedes it. So the part
 * is extended to the start of the memory, if fbdev reports it.
 */
static bool gal_add_start(const struct vm_area_struct *vma, struct gal_framebuffer *part)
{
	const struct fb_info *info = vma->vm_file->private_data;
	const size_t offset = vma->vm_pgoff << PAGE_SHIFT;
	unsigned long start;
	size_t bytes;

	/* The file has a reference to it. */
	if (!info || gal_are_registers(info, part->start))
		return false;
	if (!vma->vm_pgoff)
		return true;
	bytes = PAGE_ALIGN(READ_ONCE(info->fix.smem_len));
	if (vma->vm_pgoff >= bytes >> PAGE_SHIFT || part->bytes > bytes - offset)
		return false;
	start = READ_ONCE(info->fix.smem_start) & PAGE_MASK;
	if (start && part->start - offset == start && offset + part->bytes <= GAL_MOST_BYTES) {
		part->start -= offset;
		part->bytes += offset;
	}
	return true;
}

/* Whether a framebuffer that is found already includes the mapping. */
static bool gal_is_found(const struct gal_framebuffer *found, unsigned int count,
			 struct vm_area_struct *vma)
{
	const size_t bytes = vma->vm_end - vma->vm_start;
	phys_addr_t start;

	if (!count || !gal_in_one_piece(vma, vma->vm_start, vma->vm_start + PAGE_SIZE, &start))
		return false;
	while (count--)
		if (start >= found[count].start &&
		    start - found[count].start + bytes <= found[count].bytes)
			return true;
	return false;
}

int gal_find_framebuffers(struct gal_framebuffer *found, unsigned int known, unsigned int most)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	unsigned int count = known;

	if (!mm)
		return count;
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	VMA_ITERATOR(area, mm, 0);
	for_each_vma(area, vma) {
		if (count == most || fatal_signal_pending(current))
			break;
		if (!gal_is_framebuffer(vma) || gal_is_found(found, count, vma) ||
		    !gal_in_one_piece(vma, vma->vm_start, vma->vm_end, &found[count].start))
			continue;
		found[count].bytes = vma->vm_end - vma->vm_start;
		if (!gal_add_start(vma, &found[count]))
			continue;
		found[count].file = get_file(vma->vm_file);
		count++;
	}
	mmap_read_unlock(mm);
	return count;
}

struct file *gal_open_again(struct file *file)
{
	struct file *own = file_clone_open(file);

	if (IS_ERR(own))
		return NULL;
	/* The number may belong to another framebuffer now. */
	if (own->f_op == file->f_op && own->private_data == file->private_data)
		return own;
	fput(own);
	return NULL;
}

bool gal_physical_of(unsigned long user, size_t bytes, phys_addr_t *physical)
{
	struct mm_struct *mm = current->mm;
	const unsigned long start = user & PAGE_MASK;
	struct vm_area_struct *vma;
	unsigned long end;
	bool found = false;

	if (!mm || !bytes || check_add_overflow(user, bytes - 1, &end))
		return false;
	end = (end & PAGE_MASK) + PAGE_SIZE;
	if (end <= start || mmap_read_lock_killable(mm))
		return false;
	vma = vma_lookup(mm, start);
	if (vma && end <= vma->vm_end && gal_has_no_pages(vma))
		found = gal_in_one_piece(vma, start, end, physical);
	mmap_read_unlock(mm);
	*physical += user - start;
	return found;
}

/* Changes with the mappings. Without per-VMA locks, a change may be missed. */
unsigned long gal_mappings_stamp(void)
{
	const struct mm_struct *mm = current->mm;

	if (!mm)
		return 0;
#ifdef CONFIG_PER_VMA_LOCK
	return READ_ONCE(mm->mm_lock_seq.sequence);
#else
	return (READ_ONCE(mm->total_vm) << 12) + READ_ONCE(mm->map_count);
#endif
}
