// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory: mappings of user space, pages for the device, physical addresses. Wrappers for inlines
 * and macros that Rust cannot call.
 */
#include <linux/anon_inodes.h>
#include <linux/dma-direct.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/iommu-dma.h>
#include <linux/ioport.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_device.h>
#include <linux/of_reserved_mem.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>
#include <linux/vmstat.h>

#include "shim.h"

/*
 * Allows only shared mappings. Private mappings would be copied on write, and the core mm
 * identifies PFN-mapped COW pages by vm_pgoff, which this driver uses as a buffer offset.
 */
int gal_check_area(struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_MAYSHARE ? 0 : -EINVAL;
}

/* Unmaps the pages of a mapping that has failed halfway, before the caller frees them. */
void gal_clear_area(struct vm_area_struct *vma)
{
	/* remap_pfn_range() sets VM_PFNMAP with the first page. Without it, nothing is mapped. */
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

static vm_fault_t gal_insert_page(struct vm_area_struct *vma, phys_addr_t physical,
				  unsigned long page)
{
	unsigned long address = vma->vm_start + ((page - vma->vm_pgoff) << PAGE_SHIFT);

	return vmf_insert_pfn(vma, address, PHYS_PFN(physical) + page);
}

vm_fault_t gal_fault_physical(struct vm_fault *vmf, phys_addr_t physical, size_t first,
			      size_t bytes)
{
	struct vm_area_struct *vma = vmf->vma;
	/* Also maps its neighbors: one aligned MiB, in the area and in first to first + bytes. */
	const unsigned long around = SZ_1M >> PAGE_SHIFT;
	unsigned long from = max(round_down(vmf->pgoff, around), vma->vm_pgoff);
	unsigned long to = min(round_down(vmf->pgoff, around) + around,
			       vma->vm_pgoff + vma_pages(vma));
	vm_fault_t result;
	unsigned long page;

	from = max_t(unsigned long, from, first >> PAGE_SHIFT);
	to = min_t(unsigned long, to, (first + bytes) >> PAGE_SHIFT);
	if (vmf->pgoff < from || vmf->pgoff >= to)
		return VM_FAULT_SIGBUS;

	result = gal_insert_page(vma, physical, vmf->pgoff);
	/* Neighbors that cannot be mapped now fault later. */
	for (page = from; result == VM_FAULT_NOPAGE && page < to; page++)
		if (gal_insert_page(vma, physical, page) != VM_FAULT_NOPAGE)
			break;
	return result;
}

static const struct file_operations gal_no_operations = {};

/* Creates an inode. The driver uses only its address_space. */
struct inode *gal_new_inode(void)
{
	struct file *file = anon_inode_create_getfile("galcore", &gal_no_operations, NULL, O_RDWR,
						      NULL);
	struct inode *inode;

	if (IS_ERR(file))
		return ERR_CAST(file);
	inode = file_inode(file);
	ihold(inode);
	/* Not fput(): it would use gal_no_operations later, when the module may be unloaded. */
	__fput_sync(file);
	return inode;
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

/* "viv-gr" is the vendor's name for such a file. */
struct file *gal_new_holder(struct gal_held *held)
{
	return anon_inode_getfile("viv-gr", &gal_holder_operations, held, O_RDWR);
}

/*
 * Whether DMA addresses are translated. As in the DMA API, but dma_ops_bypass has no effect here.
 */
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
	/* vm_pgoff selected the buffer. dma_mmap_attrs() would take it for an offset in the buffer. */
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
 * Takes no references to the pages: the mapping keeps the object that owns them alive.
 * remap_pfn_range() sets VM_IO, which keeps get_user_pages() away from pages that are already
 * DMA-mapped.
 */
int gal_mmap_block(struct vm_area_struct *vma, unsigned long user, struct page *page,
		   unsigned long count)
{
	return remap_pfn_range(vma, user, page_to_pfn(page), count << PAGE_SHIFT,
			       vma->vm_page_prot);
}

unsigned long gal_available_pages(void)
{
	long free_cma = global_zone_page_state(NR_FREE_CMA_PAGES);

	/* Free CMA memory is only for movable pages. */
	return max(si_mem_available() - free_cma, 0L);
}

/*
 * Whether contiguous memory of @bytes comes from CMA, which gal_available_pages() does not count.
 * That is only sure on 32-bit ARM: elsewhere, single pages do not come from CMA.
 */
bool gal_comes_from_cma(size_t bytes)
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
	 * High orders: do not reclaim or compact. A non-blocking mask also skips CMA, which others
	 * may need.
	 */
	gfp_t gfp = order ? GFP_NOWAIT | __GFP_NOWARN | __GFP_ACCOUNT :
			    GAL_GFP_CLIENT;
	size_t size = PAGE_SIZE << order;
	struct page *page;

	if (fatal_signal_pending(current))
		return NULL;
	page = dma_alloc_pages(dev, size, dma, DMA_BIDIRECTIONAL, gfp);

	/* Write back the zeros: the user's mapping and the device bypass the cache. */
	if (page)
		dma_sync_single_for_device(dev, *dma, size, DMA_BIDIRECTIONAL);
	return page;
}

unsigned long gal_lock_limit(void)
{
	return rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
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
 * All users of a pinned page share its DMA mapping. It is bidirectional, because the device may
 * write for some of them. Read-only users skip the sync for the CPU.
 */
bool gal_map_page(struct device *dev, struct page *page, dma_addr_t *dma)
{
	/* The caller syncs the client's part of the page. The rest may belong to others. */
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
	/* Keep what the device has written next to the word. */
	dma_sync_single_for_cpu(dev, dma + offset, sizeof(word), DMA_BIDIRECTIONAL);
	gal_poke_page(page, offset, word);
	dma_sync_single_for_device(dev, dma + offset, sizeof(word), DMA_BIDIRECTIONAL);
}

void gal_poke_page(struct page *page, size_t offset, u32 word)
{
	u32 *at = kmap_local_page(page) + offset;

	WRITE_ONCE(*at, word);
	kunmap_local(at);
	flush_dcache_page(page);
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

int gal_use_physical(phys_addr_t start, size_t size, void *to, u8 byte)
{
	/* In parts: hundreds of MiB do not fit in the address space of 32-bit ARM. */
	while (size) {
		size_t part = min_t(size_t, size, SZ_1M - offset_in_page(start));
		void __iomem *window = ioremap_wc(start, part);

		if (!window)
			return -ENOMEM;
		if (to) {
			memcpy_fromio(to, window, part);
			to += part;
		} else {
			memset_io(window, byte, part);
		}
		iounmap(window);
		start += part;
		size -= part;
		cond_resched();
	}
	return 0;
}

int gal_copy_pages(struct page **pages, size_t offset, void *to, size_t size, bool cached)
{
	/*
	 * Read uncached memory through an uncached mapping: the cache may have stale lines. All such
	 * pages are system RAM, so the first one decides.
	 */
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

/*
 * Whether the cores snoop the CPU's caches. For DMA, all cores are one device. Set before memory is
 * allocated for it, so that it needs no lock.
 */
static bool gal_snoops;

int gal_configure_dma(struct device *dev, struct device *core)
{
	int error = core->of_node ? of_dma_configure(dev, core->of_node, true) : 0;

	if (!error)
		gal_snoops = dev_is_dma_coherent(dev);
	return error;
}

/* The protection with which a mapping of memory at @at is coherent with the device. */
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
