/* SPDX-License-Identifier: GPL-2.0-only */
/* Pictures of a few rectangles, in commands and in plain software. */
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

/* What the stream draws with. */
struct painter {
	enum engine engine;
	unsigned int pixel_pipes;
	struct stream stream;
};

void fill(struct painter *painter, uint32_t target, struct rect rect, uint32_t colour);
/* By the resolve engine: another fill where the last one was, with all states but the colour. */
void fill_again(struct painter *painter, uint32_t colour);
void copy(struct painter *painter, uint32_t source, struct rect from, uint32_t target, uint32_t x,
	  uint32_t y);
/* What belongs behind all that is drawn. */
void flush(struct painter *painter);

void soft_fill(uint32_t *target, struct rect rect, uint32_t colour);
void soft_copy(const uint32_t *source, struct rect from, uint32_t *target, uint32_t x, uint32_t y);

/* A rectangle that any engine draws, somewhere. */
struct rect any_rect(enum engine engine);
