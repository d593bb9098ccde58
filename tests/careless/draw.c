// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>

#include "draw.h"

#define STRIDE (WIDTH * 4)

static void word(struct painter *painter, uint32_t word)
{
	struct stream *stream = &painter->stream;

	if (stream->count == sizeof(stream->words) / 4)
		abort();
	stream->words[stream->count++] = word;
}

/* LOAD_STATE of one state, by its byte address. */
static void state(struct painter *painter, uint32_t address, uint32_t value)
{
	word(painter, 0x08010000 | address / 4);
	word(painter, value);
}

static uint32_t point(uint32_t x, uint32_t y)
{
	return y << 16 | x;
}

static void wait_for_pixels(struct painter *painter)
{
	state(painter, 0x3808, 0x701);
	word(painter, 0x48000000);
	word(painter, 0x701);
}

void flush(struct painter *painter)
{
	state(painter, 0x380c, painter->engine == ENGINE_2D ? 8 : 3);
}

/* Destination, raster operation, and clipping: the same for fills and copies. */
static void destination(struct painter *painter, uint32_t target, uint32_t command)
{
	state(painter, 0x1228, target);
	state(painter, 0x122c, STRIDE);
	state(painter, 0x1230, 0);
	state(painter, 0x1234, command << 12 | 6);
	state(painter, 0x125c, 0x0030cccc);
	state(painter, 0x1260, 0);
	state(painter, 0x1264, point(WIDTH, HEIGHT));
	state(painter, 0x127c, 0);
	state(painter, 0x12d4, 0);
	state(painter, 0x12d8, 0);
}

static void draw_2d(struct painter *painter, struct rect rect)
{
	int n;

	word(painter, 0x20000100);
	word(painter, any());
	word(painter, point(rect.x, rect.y));
	word(painter, point(rect.x + rect.width, rect.y + rect.height));
	for (n = 0; n < 3; n++)
		state(painter, 0, 0);
}

/* Sets addresses and window of the resolve engine. */
static void resolve(struct painter *painter, uint32_t from, uint32_t to, uint32_t width,
		    uint32_t height)
{
	state(painter, 0x1604, 6 << 8 | 6);
	state(painter, 0x160c, STRIDE);
	state(painter, 0x1614, STRIDE);
	if (painter->pixel_pipes == 2) {
		/* Each pipe processes half of the rows. */
		height /= 2;
		state(painter, 0x16c0, from);
		state(painter, 0x16c4, from);
		state(painter, 0x16e0, to);
		state(painter, 0x16e4, to);
		state(painter, 0x1700, 0);
		state(painter, 0x1704, point(0, height));
	} else {
		state(painter, 0x1608, from);
		state(painter, 0x1610, to);
	}
	state(painter, 0x1620, point(width, height));
	state(painter, 0x1630, ~0u);
	state(painter, 0x1634, ~0u);
	state(painter, 0x16a0, 0);
}

static uint32_t at(uint32_t surface, uint32_t x, uint32_t y)
{
	return surface + y * STRIDE + x * 4;
}

void fill_again(struct painter *painter, uint32_t colour)
{
	int n;

	for (n = 0; n < 4; n++)
		state(painter, 0x1640 + 4 * n, colour);
	state(painter, 0x1600, 0xbeebbeeb);
}

void fill(struct painter *painter, uint32_t target, struct rect rect, uint32_t colour)
{
	uint32_t to = at(target, rect.x, rect.y);

	if (painter->engine == ENGINE_2D) {
		destination(painter, target, 0);
		state(painter, 0x1268, 0xff);
		state(painter, 0x126c, 0);
		state(painter, 0x1270, colour);
		state(painter, 0x1274, colour);
		state(painter, 0x12c0, colour);
		draw_2d(painter, rect);
		return;
	}
	resolve(painter, to, to, rect.width, rect.height);
	state(painter, 0x163c, 0x1ffff);
	fill_again(painter, colour);
}

void copy(struct painter *painter, uint32_t source, struct rect from, uint32_t target, uint32_t x,
	  uint32_t y)
{
	/* The source may have been drawn just before. */
	flush(painter);
	wait_for_pixels(painter);
	if (painter->engine == ENGINE_2D) {
		destination(painter, target, 2);
		state(painter, 0x1200, source);
		state(painter, 0x1204, STRIDE);
		state(painter, 0x1208, 0);
		state(painter, 0x120c, 6 << 24 | 6);
		state(painter, 0x1210, point(from.x, from.y));
		state(painter, 0x1214, point(WIDTH, HEIGHT));
		draw_2d(painter, (struct rect){ x, y, from.width, from.height });
		return;
	}
	resolve(painter, at(source, from.x, from.y), at(target, x, y), from.width, from.height);
	state(painter, 0x163c, 0);
	state(painter, 0x1600, 0xbeebbeeb);
}

void soft_fill(uint32_t *target, struct rect rect, uint32_t colour)
{
	uint32_t x, y;

	for (y = rect.y; y < rect.y + rect.height; y++)
		for (x = rect.x; x < rect.x + rect.width; x++)
			target[y * WIDTH + x] = colour;
}

void soft_copy(const uint32_t *source, struct rect from, uint32_t *target, uint32_t x, uint32_t y)
{
	uint32_t dx, dy;

	for (dy = 0; dy < from.height; dy++)
		for (dx = 0; dx < from.width; dx++)
			target[(y + dy) * WIDTH + x + dx] =
				source[(from.y + dy) * WIDTH + from.x + dx];
}

struct rect any_rect(enum engine engine)
{
	/* Windows of the resolve engine are multiples of this size. */
	const uint32_t wide = engine == ENGINE_2D ? 1 : 16, high = engine == ENGINE_2D ? 1 : 8;
	const uint32_t columns = WIDTH / wide, rows = HEIGHT / high;
	struct rect rect;

	rect.width = 1 + any() % (columns / 2);
	rect.height = 1 + any() % (rows / 2);
	rect.x = any() % (columns - rect.width) * wide;
	rect.y = any() % (rows - rect.height) * high;
	rect.width *= wide;
	rect.height *= high;
	return rect;
}
