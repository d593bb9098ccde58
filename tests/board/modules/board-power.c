// SPDX-License-Identifier: GPL-2.0-only
/*
 * The virtual board's power controller: clock and power domain of one core. Both are bits of a word in
 * the core's control BAR (POWER in tests/control), which informs the software GPU. A node without a
 * slot belongs to no core and is only a clock with a settable rate. The module has no exit function, so
 * it stays loaded.
 */
#include <linux/clk-provider.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/pm_domain.h>
#include <linux/pm_qos.h>
#include <linux/pm_runtime.h>
#include <linux/spinlock.h>

#define CONTROL_BAR 2
#define CONSOLE_SLOT 2
#define POWER 0x120
#define POWER_CLOCK BIT(0)
#define POWER_DOMAIN BIT(1)

struct board_power {
	struct clk_hw clock;
	struct dev_pm_domain domain;
	struct device_node *node;
	/* NULL if it belongs to no core. */
	void __iomem *word;
	/* Clock rate in Hz; 0 means the parent's rate. */
	unsigned long rate;
	spinlock_t lock;
};

static void board_power_change(struct board_power *power, u32 clear, u32 set)
{
	if (!power->word)
		return;
	guard(spinlock_irqsave)(&power->lock);
	writel((readl(power->word) & ~clear) | set, power->word);
	/* The read completes only after the write has arrived. */
	readl(power->word);
}

static int board_power_enable(struct clk_hw *clock)
{
	board_power_change(container_of(clock, struct board_power, clock), 0, POWER_CLOCK);
	return 0;
}

static void board_power_disable(struct clk_hw *clock)
{
	board_power_change(container_of(clock, struct board_power, clock), POWER_CLOCK, 0);
}

static unsigned long board_power_rate(struct clk_hw *clock, unsigned long parent)
{
	return container_of(clock, struct board_power, clock)->rate ?: parent;
}

/* Accepts any rate up to the parent's. */
static int board_power_round(struct clk_hw *clock, struct clk_rate_request *request)
{
	request->rate = min(request->rate, request->best_parent_rate);
	return 0;
}

static int board_power_set_rate(struct clk_hw *clock, unsigned long rate, unsigned long parent)
{
	container_of(clock, struct board_power, clock)->rate = rate;
	return 0;
}

static const struct clk_ops board_power_clock = {
	.enable = board_power_enable,
	.disable = board_power_disable,
	.recalc_rate = board_power_rate,
	.determine_rate = board_power_round,
	.set_rate = board_power_set_rate,
};

static int board_power_suspend(struct device *dev)
{
	struct board_power *power = container_of(dev->pm_domain, struct board_power, domain);
	int error = pm_generic_runtime_suspend(dev);

	/* The kernel's generic power domains do the same. */
	if (!error && dev_pm_qos_flags(dev, PM_QOS_FLAG_NO_POWER_OFF) <= PM_QOS_FLAGS_NONE)
		board_power_change(power, POWER_DOMAIN, 0);
	return error;
}

static int board_power_resume(struct device *dev)
{
	struct board_power *power = container_of(dev->pm_domain, struct board_power, domain);

	board_power_change(power, 0, POWER_DOMAIN);
	return pm_generic_runtime_resume(dev);
}

/* Not a generic power domain: not every kernel has these. The core's driver sees no difference. */
static const struct dev_pm_domain board_power_domain = {
	.ops = {
		RUNTIME_PM_OPS(board_power_suspend, board_power_resume, NULL)
		.suspend = pm_sleep_ptr(pm_generic_suspend),
		.resume = pm_sleep_ptr(pm_generic_resume),
		.freeze = pm_sleep_ptr(pm_generic_freeze),
		.thaw = pm_sleep_ptr(pm_generic_thaw),
		.poweroff = pm_sleep_ptr(pm_generic_poweroff),
		.restore = pm_sleep_ptr(pm_generic_restore),
	},
};

/* Adds a device to this power domain if its node refers to it. */
static int board_power_add(struct device *dev, void *data)
{
	struct board_power *power = data;
	struct device_node *domain;

	domain = of_parse_phandle(dev->of_node, "power-domains", 0);
	of_node_put(domain);
	if (domain && domain == power->node && !device_is_bound(dev))
		dev_pm_domain_set(dev, &power->domain);
	return 0;
}

/* Maps the word of the core in the node's slot. */
static int board_power_map(struct device *dev, struct board_power *power)
{
	struct pci_dev *gpu;
	u32 slot;
	int error = of_property_read_u32(dev->of_node, "slot", &slot);

	if (error)
		return error;
	gpu = pci_get_domain_bus_and_slot(0, 0, PCI_DEVFN(slot, 0));
	if (!gpu)
		return -EPROBE_DEFER;
	power->word = devm_ioremap(dev, pci_resource_start(gpu, CONTROL_BAR) + POWER, 4);
	pci_dev_put(gpu);
	return power->word ? 0 : -ENOMEM;
}

static int board_power_probe(struct platform_device *pdev)
{
	struct device *dev = &pdev->dev;
	const struct clk_parent_data parent = { .index = 0 };
	const struct clk_init_data clock = {
		.name = dev_name(dev),
		.ops = &board_power_clock,
		.parent_data = &parent,
		.num_parents = 1,
	};
	struct board_power *power;
	int error;

	power = devm_kzalloc(dev, sizeof(*power), GFP_KERNEL);
	if (!power)
		return -ENOMEM;
	spin_lock_init(&power->lock);
	if (of_property_present(dev->of_node, "slot")) {
		error = board_power_map(dev, power);
		if (error)
			return error;
	}
	power->clock.init = &clock;
	error = devm_clk_hw_register(dev, &power->clock);
	if (error)
		return error;
	error = devm_of_clk_add_hw_provider(dev, of_clk_hw_simple_get, &power->clock);
	if (error)
		return error;
	power->domain = board_power_domain;
	power->node = dev->of_node;
	return bus_for_each_dev(&platform_bus_type, NULL, power, board_power_add);
}

static const struct of_device_id board_power_nodes[] = {
	{ .compatible = "galcore,board-power" },
	{}
};

static struct platform_driver board_power_driver = {
	.probe = board_power_probe,
	.driver = {
		.name = "board-power",
		.of_match_table = board_power_nodes,
		.suppress_bind_attrs = true,
	},
};

/* Excludes the device and everything below it from system suspend. */
static int board_power_keep_awake(struct device *dev, void *data)
{
	dev_pm_syscore_device(dev, true);
	return device_for_each_child(dev, NULL, board_power_keep_awake);
}

static int __init board_power_init(void)
{
	/* The ports between board and runner would not work after a suspend. */
	struct pci_dev *console = pci_get_domain_bus_and_slot(0, 0, PCI_DEVFN(CONSOLE_SLOT, 0));

	if (console)
		board_power_keep_awake(&console->dev, NULL);
	pci_dev_put(console);
	return platform_driver_register(&board_power_driver);
}
module_init(board_power_init);

MODULE_DESCRIPTION("Power controller of galcore's virtual board");
MODULE_LICENSE("GPL");
