// SPDX-License-Identifier: GPL-2.0-only
/* Nodes of the device tree, interrupts and reset lines. Macros and inlines that Rust cannot call. */
#include <linux/ioport.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/of_irq.h>
#include <linux/of_platform.h>
#include <linux/of_reserved_mem.h>
#include <linux/platform_device.h>
#include <linux/reset.h>

#include "shim.h"

unsigned int gal_count_nodes(void)
{
	struct device_node *node;
	unsigned int count = 0;

	for_each_compatible_node(node, NULL, "vivante,gc")
		count += of_device_is_available(node);
	return count;
}

/* The bus attaches the domain if there is one, and none of several. */
unsigned int gal_count_domains(struct device *dev)
{
	return max(of_count_phandle_with_args(dev->of_node, "power-domains",
					      "#power-domain-cells"), 0);
}

/* The names of the device of the enabled node @index, and of its driver. */
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
		/* Do not wait: the thread that binds it may wait for this module to be loaded. */
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
 * Whether a node, enabled or not, has its registers there; and its interrupt as the board's documents
 * number it (see gal_map_irq_line), 0 if it has none. An enabled node takes precedence: the kernel
 * makes the core's device for it.
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

/* The interrupt that is mapped to a line, or 0. */
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
 * The controller whose lines the board's documents number: the parent of the root, or else of the SoC's
 * bus, where trees of i.MX6, MMP and STM32MP1 have it. On i.MX6 it is the GPC, which passes only
 * requested interrupts on to the GIC.
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

/* All lines of the node, exclusively: a shared one would reset two cores. NULL: there is none. */
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
