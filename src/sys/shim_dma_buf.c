// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C half of src/sys/dma_buf.rs and export.rs: the operations that the kernel calls on the driver's dma-bufs,
 * and functions that Rust cannot call. Without CONFIG_DMA_SHARED_BUFFER, all functions fail.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "shim.h"

#if IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)

struct dma_buf *gal_get_buffer(int fd)
{
	return dma_buf_get(fd);
}

void gal_hold_buffer(struct dma_buf *buffer)
{
	get_dma_buf(buffer);
}

void gal_put_buffer(struct dma_buf *buffer)
{
	dma_buf_put(buffer);
}

bool gal_is_writeable(struct dma_buf *buffer)
{
	return buffer->file->f_mode & FMODE_WRITE;
}

struct gal_looker {
	struct device dev;
	struct device_dma_parameters parameters;
	u64 mask;
};

static void gal_free_looker(struct device *dev)
{
	kfree(container_of(dev, struct gal_looker, dev));
}

struct device *gal_new_observer(void)
{
	struct gal_looker *looker = kzalloc(sizeof(*looker), GFP_KERNEL);
	struct device *dev;

	if (!looker)
		return ERR_PTR(-ENOMEM);
	dev = &looker->dev;
	device_initialize(dev);
	dev->release = gal_free_looker;
	dev->init_name = "galcore-looker";
	looker->mask = DMA_BIT_MASK(64);
	dev->dma_mask = &looker->mask;
	dev->coherent_dma_mask = looker->mask;
	dev->dma_parms = &looker->parameters;
	dma_set_max_seg_size(dev, UINT_MAX);
	dma_set_seg_boundary(dev, ULONG_MAX);
	return dev;
}

static enum dma_data_direction gal_direction(const struct gal_import *import)
{
	return import->read_only ? DMA_TO_DEVICE : DMA_BIDIRECTIONAL;
}

int gal_attach(struct device *dev, struct dma_buf *buffer, bool read_only,
	       struct gal_import *import)
{
	struct dma_buf_attachment *attachment = dma_buf_attach(buffer, dev);
	struct sg_table *table;

	if (IS_ERR(attachment))
		return PTR_ERR(attachment);
	import->read_only = read_only;
	table = dma_buf_map_attachment_unlocked(attachment, gal_direction(import));
	if (IS_ERR(table)) {
		dma_buf_detach(buffer, attachment);
		return PTR_ERR(table);
	}
	import->attachment = attachment;
	import->table = table;
	return 0;
}

void gal_detach(struct dma_buf *buffer, const struct gal_import *import)
{
	dma_buf_unmap_attachment_unlocked(import->attachment, import->table,
					  gal_direction(import));
	dma_buf_detach(buffer, import->attachment);
}

int gal_import_pages(const struct gal_import *import, dma_addr_t *pages, size_t count)
{
	struct scatterlist *part;
	size_t filled = 0;
	int i;

	for_each_sgtable_dma_sg(import->table, part, i) {
		dma_addr_t at = sg_dma_address(part);
		dma_addr_t end = at + sg_dma_len(part);

		if (!PAGE_ALIGNED(at) || !PAGE_ALIGNED(end))
			return -EINVAL;
		for (; at < end && filled < count; at += PAGE_SIZE)
			pages[filled++] = at;
	}
	return filled == count ? 0 : -EINVAL;
}

struct file *gal_buffer_file(struct dma_buf *buffer)
{
	return buffer->file;
}

size_t gal_buffer_bytes(struct dma_buf *buffer)
{
	return buffer->size;
}

int gal_mmap_buffer(struct dma_buf *buffer, struct vm_area_struct *vma)
{
	return dma_buf_mmap(buffer, vma, 0);
}

static void gal_free_table(struct sg_table *table)
{
	sg_free_table(table);
	kfree(table);
}

/* Memory that is not cached, with or without page structures. */
static int gal_map_range(struct device *dev, struct sg_table *table, struct gal_export *export,
			 enum dma_data_direction direction)
{
	dma_addr_t at;

	if (pfn_valid(PHYS_PFN(export->start)))
		at = dma_map_page_attrs(dev, pfn_to_page(PHYS_PFN(export->start)), 0,
					export->bytes, direction, DMA_ATTR_SKIP_CPU_SYNC);
	else
		at = dma_map_resource(dev, export->start, export->bytes, direction,
				      DMA_ATTR_SKIP_CPU_SYNC);
	if (dma_mapping_error(dev, at))
		return -ENOMEM;
	sg_dma_address(table->sgl) = at;
	sg_dma_len(table->sgl) = export->bytes;
	return 0;
}

static void gal_unmap_range(struct device *dev, struct sg_table *table, struct gal_export *export,
			    enum dma_data_direction direction)
{
	dma_addr_t at = sg_dma_address(table->sgl);

	if (pfn_valid(PHYS_PFN(export->start)))
		dma_unmap_page_attrs(dev, at, export->bytes, direction, DMA_ATTR_SKIP_CPU_SYNC);
	else
		dma_unmap_resource(dev, at, export->bytes, direction, DMA_ATTR_SKIP_CPU_SYNC);
}

/* The GPU's device has mapped the pages already. Only syncs them for the other device. */
static int gal_map_pages(struct device *dev, struct sg_table *table,
			 enum dma_data_direction direction)
{
	int error = dma_map_sgtable(dev, table, direction, DMA_ATTR_SKIP_CPU_SYNC);

	if (!error)
		dma_sync_sgtable_for_device(dev, table, direction);
	return error;
}

static void gal_unmap_pages(struct device *dev, struct sg_table *table,
			    enum dma_data_direction direction)
{
	dma_sync_sgtable_for_cpu(dev, table, direction);
	dma_unmap_sgtable(dev, table, direction, DMA_ATTR_SKIP_CPU_SYNC);
}

static struct sg_table *gal_export_map(struct dma_buf_attachment *attachment,
				       enum dma_data_direction direction)
{
	struct gal_export *export = attachment->dmabuf->priv;
	struct device *dev = attachment->dev;
	struct sg_table *table = kzalloc(sizeof(*table), GFP_KERNEL);
	int error;

	if (!table)
		return ERR_PTR(-ENOMEM);
	if (export->pages)
		error = sg_alloc_table_from_pages_segment(table, export->pages,
							  export->bytes >> PAGE_SHIFT, 0,
							  export->bytes, dma_get_max_seg_size(dev),
							  GFP_KERNEL);
	else
		error = sg_alloc_table(table, 1, GFP_KERNEL);
	if (error) {
		kfree(table);
		return ERR_PTR(error);
	}
	if (export->pages)
		error = gal_map_pages(dev, table, direction);
	else
		error = gal_map_range(dev, table, export, direction);
	if (error) {
		gal_free_table(table);
		return ERR_PTR(error);
	}
	return table;
}

static void gal_export_unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
			     enum dma_data_direction direction)
{
	struct gal_export *export = attachment->dmabuf->priv;

	if (export->pages)
		gal_unmap_pages(attachment->dev, table, direction);
	else
		gal_unmap_range(attachment->dev, table, export, direction);
	gal_free_table(table);
}

static int gal_export_mmap(struct dma_buf *buffer, struct vm_area_struct *vma)
{
	struct gal_export *export = buffer->priv;
	unsigned long pages = vma_pages(vma);
	unsigned long first = vma->vm_pgoff;
	unsigned long i;
	int error = gal_check_area(vma);

	if (error)
		return error;
	vma->vm_page_prot = gal_device_prot(vma->vm_page_prot,
					    export->pages ? page_to_phys(*export->pages) : export->start);
	if (!export->pages)
		return remap_pfn_range(vma, vma->vm_start, PHYS_PFN(export->start) + first,
				       pages << PAGE_SHIFT, vma->vm_page_prot);
	for (i = 0; i < pages; i++) {
		error = remap_pfn_range(vma, vma->vm_start + (i << PAGE_SHIFT),
					page_to_pfn(export->pages[first + i]), PAGE_SIZE,
					vma->vm_page_prot);
		if (error)
			return error;
	}
	return 0;
}

static void gal_export_release(struct dma_buf *buffer)
{
	struct gal_export *export = buffer->priv;

	export->put(export->owner);
	kfree(export);
}

static const struct dma_buf_ops gal_export_operations = {
	.map_dma_buf = gal_export_map,
	.unmap_dma_buf = gal_export_unmap,
	.mmap = gal_export_mmap,
	.release = gal_export_release,
};

struct dma_buf *gal_export_buffer(const struct gal_export *what)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct gal_export *export = kmemdup(what, sizeof(*what), GAL_GFP_CLIENT);
	struct dma_buf *buffer;

	if (!export)
		return ERR_PTR(-ENOMEM);
	info.ops = &gal_export_operations;
	info.size = export->bytes;
	info.flags = what->flags & O_ACCMODE;
	info.priv = export;
	buffer = dma_buf_export(&info);
	if (IS_ERR(buffer))
		kfree(export);
	return buffer;
}

void *gal_exported_by(struct dma_buf *buffer, const void *exporter)
{
	struct gal_export *export = buffer->priv;

	if (buffer->ops != &gal_export_operations || export->exporter != exporter)
		return NULL;
	return export->owner;
}

MODULE_IMPORT_NS("DMA_BUF");

#else

GAL_ABSENT(struct dma_buf *, get_buffer, (int fd), ERR_PTR(-ENOTSUPP));
GAL_ABSENT(void, hold_buffer, (struct dma_buf *buffer));
GAL_ABSENT(void, put_buffer, (struct dma_buf *buffer));
GAL_ABSENT(bool, is_writeable, (struct dma_buf *buffer), false);
GAL_ABSENT(struct device *, new_observer, (void), NULL);
GAL_ABSENT(int, attach, (struct device *dev, struct dma_buf *buffer, bool read_only,
			 struct gal_import *import), -ENOTSUPP);
GAL_ABSENT(void, detach, (struct dma_buf *buffer, const struct gal_import *import));
GAL_ABSENT(int, import_pages, (const struct gal_import *import, dma_addr_t *pages,
			       size_t count), -ENOTSUPP);
GAL_ABSENT(struct file *, buffer_file, (struct dma_buf *buffer), NULL);
GAL_ABSENT(size_t, buffer_bytes, (struct dma_buf *buffer), 0);
GAL_ABSENT(int, mmap_buffer, (struct dma_buf *buffer, struct vm_area_struct *vma), -ENOTSUPP);
GAL_ABSENT(struct dma_buf *, export_buffer, (const struct gal_export *what), ERR_PTR(-ENOTSUPP));
GAL_ABSENT(void *, exported_by, (struct dma_buf *buffer, const void *exporter), NULL);

#endif
