/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What every client of galcore does: open the device, find a core, get memory, commit commands, and
 * wait. Everything else in this folder is an example of one thing.
 */
#ifndef GALCORE_EXAMPLES_COMMON_H
#define GALCORE_EXAMPLES_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/galcore.h>

/* The surfaces of the examples, in pixels of 32 bits. */
#define WIDTH 256u
#define HEIGHT 128u
#define STRIDE (WIDTH * 4)
#define BYTES (STRIDE * HEIGHT)

/* LOAD_STATE of COUNT states from byte address STATE on; commands start on 8 bytes. */
#define LOAD(state, count) (0x08000000u | (uint32_t)(count) << 16 | (state) / 4)

/* Bits of gcsHAL_QUERY_CHIP_IDENTITY.chipFeatures. */
#define HAS_3D (1u << 2)
#define HAS_2D (1u << 9)

struct memory {
	uint32_t node;
	uint32_t address; /* the GPU's */
	volatile uint32_t *words; /* the process's */
};

extern int device;
/* The core that was taken, in the order of CHIP_INFO; what it is. */
extern uint32_t core;
extern struct gcsHAL_QUERY_CHIP_IDENTITY chip;

/* Prints what is wrong, and ends the program. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/*
 * Opens the device and takes the first core that has any of the engines; ends the program with 0, and
 * says so, if there is none.
 */
void start(uint32_t engines);

/* Sends a command; what the driver says is the result: 0, or a negative enum gceSTATUS. */
int try(struct gcsHAL_INTERFACE *iface, uint32_t command);

/* The same; ends the program if it fails. */
void run(struct gcsHAL_INTERFACE *iface, uint32_t command);

/* Memory from a pool (enum gcePOOL), locked; and its end. */
struct memory allocate(uint32_t bytes, uint32_t pool);
struct memory lock(uint32_t node);
void release(const struct memory *memory);

/* A signal that releases one wait, and is not set. */
int32_t create_signal(void);
/* Waits until it is set: 0, or gcvSTATUS_TIMEOUT. */
int wait_for(int32_t signal, uint32_t milliseconds);

/* Commits commands (count words) for an engine (enum gcePIPE_SELECT); signal: set behind them, or 0. */
void commit(const uint32_t *words, unsigned int count, uint32_t pipe, int32_t signal);

/* Commits commands, and waits for their end. */
void draw(const uint32_t *words, unsigned int count, uint32_t pipe);

/* Fills a surface with a colour, by whatever engine there is. */
void fill(const struct memory *target, uint32_t colour);

/*
 * For the pictures of the documentation: writes a surface as NAME.ppm to the folder that the environment's
 * GALCORE_PICTURES names, if it does.
 */
void picture(const struct memory *surface, const char *name);

/* Ends the program unless a pixel is as it should be. */
void expect(const struct memory *surface, uint32_t x, uint32_t y, uint32_t wanted);

#define COUNT(words) (sizeof(words) / sizeof((words)[0]))

#endif
