/* SPDX-License-Identifier: GPL-2.0-only */
/* Pictures of a few rectangles, as commands and in software. */
#include "library.h"

#define WIDTH 128u
#define HEIGHT 64u
#define PIXELS (WIDTH * HEIGHT)
#define BYTES (PIXELS * 4)

struct rect {
	uint32_t x, y, width, height;
};

struct stream {
	unsigned int count;
	uint32_t words[2048];
};

/* State of drawing into a stream. */
struct painter {
	enum engine engine;
	unsigned int pixel_pipes;
	struct stream stream;
};

void fill(struct painter *painter, uint32_t target, struct rect rect, uint32_t colour);
/* With the resolve engine: repeats the last fill with another color. Loads no other states. */
void fill_again(struct painter *painter, uint32_t colour);
void copy(struct painter *painter, uint32_t source, struct rect from, uint32_t target, uint32_t x,
	  uint32_t y);
/* Commands that must follow all drawing. */
void flush(struct painter *painter);

void soft_fill(uint32_t *target, struct rect rect, uint32_t colour);
void soft_copy(const uint32_t *source, struct rect from, uint32_t *target, uint32_t x, uint32_t y);

/* A random rectangle that any engine can draw. */
struct rect any_rect(enum engine engine);
