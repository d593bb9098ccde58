// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's own driver for simple reset controllers, as a module, because the virtual board's kernel
 * is built without it. It has no exit function, so it stays loaded.
 */
#include <linux/module.h>
#include <drivers/reset/reset-simple.c>

MODULE_DESCRIPTION("Simple reset controllers");
MODULE_LICENSE("GPL");
