// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The resolve engine of a 3D core: what it renders lies in tiles of 4 x 4 pixels, what a screen shows in
 * rows. Rows are made tiles here, and rows again.
 */
#include "common.h"


/* The stride of a tiled surface is that of a row of tiles. */
static void resolve(uint32_t from, uint32_t to, int is_from_tiled)
{
	const uint32_t pipes = chip.pixelPipes > 1 ? 2 : 1;
	const uint32_t words[] = {
		/* both A8R8G8B8; the source is tiled, or the target */
		LOAD(0x1604, 1), 6 << 8 | 6 | (is_from_tiled ? 1 << 7 : 1 << 14),
		LOAD(0x1608, 1), from,
		LOAD(0x160c, 1), is_from_tiled ? STRIDE * 4 : STRIDE,
		LOAD(0x1610, 1), to,
		LOAD(0x1614, 1), is_from_tiled ? STRIDE : STRIDE * 4,
		/* with two pixel pipes each does half of the rows */
		LOAD(0x16c0, 2), from, from, 0,
		LOAD(0x16e0, 2), to, to, 0,
		LOAD(0x1700, 2), 0, HEIGHT / 2 << 16, 0,
		/* window, no dithering, no fill */
		LOAD(0x1620, 1), HEIGHT / pipes << 16 | WIDTH,
		LOAD(0x1630, 2), ~0u, ~0u, 0,
		LOAD(0x163c, 1), 0,
		LOAD(0x16a0, 1), 0,
		LOAD(0x1600, 1), 0xbeebbeeb,
		/* flush the colour and depth caches */
		LOAD(0x380c, 1), 3,
	};

	draw(words, COUNT(words), gcvPIPE_3D);
}

int main(void)
{
	struct memory rows, tiles, again;
	uint32_t x, y;

	start(HAS_3D);
	rows = allocate(BYTES, gcvPOOL_DEFAULT);
	tiles = allocate(BYTES, gcvPOOL_DEFAULT);
	again = allocate(BYTES, gcvPOOL_DEFAULT);
	for (y = 0; y < HEIGHT; y++)
		for (x = 0; x < WIDTH; x++)
			rows.words[y * WIDTH + x] = y << 16 | x;
	resolve(rows.address, tiles.address, 0);
	/* The first tile has four pixels of each of the first four rows, the second the next four. */
	expect(&tiles, 4, 0, 1 << 16 | 0);
	expect(&tiles, 16, 0, 0 << 16 | 4);
	/* Taken for rows, a row of tiles is four rows of 4 x 4 pieces. */
	picture(&tiles, "resolve");
	resolve(tiles.address, again.address, 1);
	for (y = 0; y < HEIGHT; y++)
		for (x = 0; x < WIDTH; x++)
			expect(&again, x, y, y << 16 | x);
	release(&again);
	release(&tiles);
	release(&rows);
	printf("%u tiles and back\n", WIDTH * HEIGHT / 16);
	return 0;
}
