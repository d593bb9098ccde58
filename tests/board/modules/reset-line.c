// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's own driver of simple reset controllers, as a module: the virtual board's kernel is built
 * without it. It stays until the machine goes, as it has no exit.
 */
#include <linux/module.h>
#include <drivers/reset/reset-simple.c>

MODULE_DESCRIPTION("Simple reset controllers");
MODULE_LICENSE("GPL");
