// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The least that draws: memory, a few commands, a signal behind them, and a look at the pixels. */
#include "common.h"

int main(void)
{
	const uint32_t colour = 0xff336699;
	struct memory surface;
	uint32_t x, y;

	start(HAS_2D | HAS_3D);
	surface = allocate(BYTES, gcvPOOL_DEFAULT);
	memset((void *)surface.words, 0, BYTES);
	/* See fill() in common.c: the commands are there. */
	fill(&surface, colour);
	for (y = 0; y < HEIGHT; y++)
		for (x = 0; x < WIDTH; x++)
			expect(&surface, x, y, colour);
	picture(&surface, "clear");
	release(&surface);
	printf("%u x %u pixels are %#010x\n", WIDTH, HEIGHT, colour);
	return 0;
}
