// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The 2D engine: a rectangle copied from one surface to another, and the same once more with an XOR. */
#include "common.h"

/* A square, in the source and in the target. */
#define SIZE 64u
#define FROM_X 16u
#define FROM_Y 8u
#define TO_X 100u
#define TO_Y 50u

/* Raster operations: the code is a table of 8 bits, for pattern, source and target. */
#define ROP_COPY 0xccu
#define ROP_XOR 0x66u

static void blit(const struct memory *from, const struct memory *to, uint32_t rop)
{
	const uint32_t words[] = {
		/* source: address, stride, rotation, format A8R8G8B8, top left corner, size */
		LOAD(0x1200, 6), from->address, STRIDE, 0, 6 << 24 | 6, FROM_Y << 16 | FROM_X,
		HEIGHT << 16 | WIDTH, 0,
		/* destination: address, stride, rotation, command BIT_BLT and format A8R8G8B8 */
		LOAD(0x1228, 4), to->address, STRIDE, 0, 2 << 12 | 6, 0,
		/* raster operation for foreground and background, clipping window */
		LOAD(0x125c, 3), 3 << 20 | rop << 8 | rop, 0, HEIGHT << 16 | WIDTH,
		/* no blending, no transparency */
		LOAD(0x127c, 1), 0,
		LOAD(0x12d4, 1), 0,
		/* DRAW_2D of one rectangle: top left, bottom right; old cores want three loads after it */
		0x20000100, 0, TO_Y << 16 | TO_X, (TO_Y + SIZE) << 16 | (TO_X + SIZE),
		LOAD(0, 1), 0, LOAD(0, 1), 0, LOAD(0, 1), 0,
		/* flush the 2D cache */
		LOAD(0x380c, 1), 8,
	};

	draw(words, COUNT(words), gcvPIPE_2D);
}

int main(void)
{
	struct memory from, to;
	uint32_t x, y;

	start(HAS_2D);
	from = allocate(BYTES, gcvPOOL_DEFAULT);
	to = allocate(BYTES, gcvPOOL_DEFAULT);
	for (y = 0; y < HEIGHT; y++)
		for (x = 0; x < WIDTH; x++)
			from.words[y * WIDTH + x] = 0xff000000 | y << 12 | x;
	fill(&to, 0xff0000ff);
	blit(&from, &to, ROP_COPY);
	for (y = 0; y < HEIGHT; y++)
		for (x = 0; x < WIDTH; x++)
			if (x - TO_X < SIZE && y - TO_Y < SIZE)
				expect(&to, x, y, 0xff000000 | (y - TO_Y + FROM_Y) << 12 | (x - TO_X + FROM_X));
			else
				expect(&to, x, y, 0xff0000ff);
	picture(&to, "blit");
	/* What is the same becomes 0. */
	blit(&from, &to, ROP_XOR);
	expect(&to, TO_X, TO_Y, 0);
	expect(&to, TO_X + SIZE - 1, TO_Y + SIZE - 1, 0);
	expect(&to, TO_X + SIZE, TO_Y, 0xff0000ff);
	release(&to);
	release(&from);
	printf("a square of %u pixels was copied, and taken away by an XOR\n", SIZE);
	return 0;
}
