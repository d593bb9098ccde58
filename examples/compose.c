// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The 2D engine: a stretched picture, bits that come in the command stream, and a square that is half transparent. */
#include "common.h"

/* The picture that is stretched, and what it becomes. */
#define FROM_SIZE 8u
#define TO_SIZE 112u
#define TO_X 8u
#define TO_Y 8u
#define FACTOR (((FROM_SIZE - 1) << 16) / (TO_SIZE - 1))

/* The text. */
#define TEXT_WIDTH 32u
#define TEXT_HEIGHT 8u
#define TEXT_X 140u
#define TEXT_Y 60u
#define INK 0xffffffffu
#define PAPER 0xff203060u

/* The square, and how opaque it is. */
#define SQUARE 80u
#define SQUARE_X 90u
#define SQUARE_Y 24u
#define ALPHA 0x80u
#define COLOUR 0xffff8000u

/* What is drawn to. The state behind the stride is no rotation. */
#define TARGET(to, command) \
	LOAD(0x1228, 4), (to)->address, STRIDE, 0, (command) << 12 | 6, 0, \
	LOAD(0x125c, 3), 0x0030cccc, 0, HEIGHT << 16 | WIDTH, \
	LOAD(0x126c, 1), 0, LOAD(0x12bc, 1), 0, LOAD(0x12d4, 1), 0

/* DRAW_2D of one rectangle, with so many words of data behind it. */
#define DRAW(data, x, y, width, height) \
	0x20000100 | (data) << 16, 0, (y) << 16 | (x), ((y) + (height)) << 16 | ((x) + (width))

#define END LOAD(0, 1), 0, LOAD(0, 1), 0, LOAD(0, 1), 0, LOAD(0x380c, 1), 8

static void stretch(const struct memory *from, const struct memory *to)
{
	const uint32_t words[] = {
		/* address, stride, rotation, A8R8G8B8, corner, size */
		LOAD(0x1200, 6), from->address, STRIDE, 0, 6 << 24 | 6, 0, FROM_SIZE << 16 | FROM_SIZE, 0,
		LOAD(0x1220, 2), FACTOR, FACTOR, 0,
		TARGET(to, 4), LOAD(0x127c, 1), 0,
		DRAW(0, TO_X, TO_Y, TO_SIZE, TO_SIZE), END,
	};

	draw(words, COUNT(words), gcvPIPE_2D);
}

/* Words of 8 x 4 pixels: the lowest byte is the top row, a byte's highest bit the left pixel. Columns first. */
static const uint32_t text[] = {
	0x10084438, 0x007c4020, 0x44444478, 0x00784444, 0x44444438, 0x00384444, 0x60504844, 0x00444850,
};

static void write_text(const struct memory *to)
{
	const uint32_t words[] = {
		/* MONOCHROME from the stream, packed by 8 x 4; corner 0, no size, colours of 0 and 1 */
		LOAD(0x120c, 5), 10 << 24 | 1 << 8 | 10, 0, 0, PAPER, INK,
		TARGET(to, 2), LOAD(0x127c, 1), 0,
		DRAW(COUNT(text), TEXT_X, TEXT_Y, TEXT_WIDTH, TEXT_HEIGHT),
		text[0], text[1], text[2], text[3], text[4], text[5], text[6], text[7], END,
	};

	draw(words, COUNT(words), gcvPIPE_2D);
}

static void blend(const struct memory *from, const struct memory *to)
{
	const uint32_t words[] = {
		LOAD(0x1200, 6), from->address, STRIDE, 0, 6 << 24 | 6, 0, 0, 0,
		TARGET(to, 2),
		/*
		 * The global alpha, for old engines and for new ones; source x 1 + target x (1 - alpha); the
		 * source's colours are multiplied by alpha (bit 16 for old engines, 0x12d0 for new ones).
		 */
		LOAD(0x127c, 2), ALPHA << 16 | 1, 3 << 28 | 1 << 24 | 1 << 16 | 1 << 8, 0,
		LOAD(0x12c8, 3), ALPHA << 24, 0, 1,
		DRAW(0, SQUARE_X, SQUARE_Y, SQUARE, SQUARE), END,
		LOAD(0x127c, 1), 0, LOAD(0x12d0, 1), 0,
	};

	draw(words, COUNT(words), gcvPIPE_2D);
}

/* What is below the square. */
static uint32_t below(const struct memory *from, uint32_t x, uint32_t y)
{
	uint32_t column = x - TO_X, row = y - TO_Y;

	if (column < TO_SIZE && row < TO_SIZE)
		return from->words[(row * FACTOR >> 16) * WIDTH + (column * FACTOR >> 16)];
	column = x - TEXT_X;
	row = y - TEXT_Y;
	if (column < TEXT_WIDTH && row < TEXT_HEIGHT) {
		uint32_t word = text[column / 8 * 2 + row / 4];

		return word >> (row % 4 * 8 + 7 - column % 8) & 1 ? INK : PAPER;
	}
	return PAPER;
}

/* How products are rounded is not documented. */
static void expect_near(const struct memory *surface, uint32_t x, uint32_t y, uint32_t wanted)
{
	uint32_t found = surface->words[y * WIDTH + x], shift;

	for (shift = 0; shift < 32; shift += 8) {
		int difference = (int)(found >> shift & 255) - (int)(wanted >> shift & 255);

		if (difference < -2 || difference > 2)
			fail("pixel %u, %u is %#010x, not about %#010x", x, y, found, wanted);
	}
}

int main(void)
{
	struct memory from, to;
	uint32_t x, y, shift;

	start(HAS_2D);
	from = allocate(BYTES, gcvPOOL_DEFAULT);
	to = allocate(BYTES, gcvPOOL_DEFAULT);
	fill(&from, COLOUR);
	fill(&to, PAPER);
	for (y = 0; y < FROM_SIZE; y++)
		for (x = 0; x < FROM_SIZE; x++)
			from.words[y * WIDTH + x] = 0xff000000 | 0x20 * x << 16 | 0x20 * y << 8 | 0x60;
	stretch(&from, &to);
	write_text(&to);
	for (y = 0; y < HEIGHT; y++)
		for (x = 0; x < WIDTH; x++)
			expect(&to, x, y, below(&from, x, y));
	for (y = 0; y < FROM_SIZE; y++)
		for (x = 0; x < FROM_SIZE; x++)
			from.words[y * WIDTH + x] = COLOUR;
	/* What is below, for the comparison, before it is overwritten. */
	static uint32_t before[WIDTH * HEIGHT];

	for (x = 0; x < WIDTH * HEIGHT; x++)
		before[x] = to.words[x];
	blend(&from, &to);
	for (y = 0; y < HEIGHT; y++)
		for (x = 0; x < WIDTH; x++) {
			uint32_t under = before[y * WIDTH + x], wanted = 0;

			if (x - SQUARE_X >= SQUARE || y - SQUARE_Y >= SQUARE) {
				expect(&to, x, y, under);
				continue;
			}
			for (shift = 0; shift < 24; shift += 8)
				wanted |= ((COLOUR >> shift & 255) * ALPHA + (under >> shift & 255) * (255 - ALPHA)) /
					255 << shift;
			expect_near(&to, x, y, wanted | 0xff000000);
		}
	picture(&to, "compose");
	release(&to);
	release(&from);
	printf("%u pixels became %u, with words beside them and a square above\n", FROM_SIZE * FROM_SIZE,
	       TO_SIZE * TO_SIZE);
	return 0;
}
