// SPDX-License-Identifier: GPL-2.0-only
/*
 * What Mesa makes of clears, uploads, copies and readbacks, every pixel compared with what it must be. No
 * shader runs: a clear with a scissor or a mask of channels would be a draw in Mesa (see gles.c).
 *
 * usage: mesa-pictures [TEXT]...     (checks whose names have one of the texts in them)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "surfaceless.h"

#define MOST_CHECKS 400
/* Of the largest picture. */
#define MOST_PIXELS (512 * 256)

struct format {
	const char *name;
	GLenum external, type, renderbuffer;
	/* bits of red, green, blue and alpha; 0: reads as opaque */
	int bits[4];
};

static const struct format formats[] = {
	{ "rgba8888", GL_RGBA, GL_UNSIGNED_BYTE, GL_RGBA8_OES, { 8, 8, 8, 8 } },
	{ "rgb565", GL_RGB, GL_UNSIGNED_SHORT_5_6_5, GL_RGB565, { 5, 6, 5, 0 } },
	{ "rgba4444", GL_RGBA, GL_UNSIGNED_SHORT_4_4_4_4, GL_RGBA4, { 4, 4, 4, 4 } },
	{ "rgba5551", GL_RGBA, GL_UNSIGNED_SHORT_5_5_5_1, GL_RGB5_A1, { 5, 5, 5, 1 } },
};

#define RGBA8888 (&formats[0])

/* A picture as glReadPixels tells it, a byte for each channel. */
struct picture {
	int width, height;
	uint8_t pixels[MOST_PIXELS][4];
};

struct check {
	char name[64];
	void (*run)(const struct check *check);
	const struct format *format;
	int width, height;
};

static struct check checks[MOST_CHECKS];
static unsigned int check_count;
static struct picture expected, found;
/* What was there before a clear, in the checks that remember it. */
static struct picture before;
static int has_before;
static uint32_t packed[MOST_PIXELS];

/* ---- channels ---- */

/* A channel of so many bits, as a byte. */
static int as_byte(int value, int bits)
{
	int most = (1 << bits) - 1;

	return bits ? (value * 255 + most / 2) / most : 255;
}

/* A random colour that the format can tell, its channels as they are in it. */
static void random_colour(const struct format *format, int channels[4])
{
	for (int i = 0; i < 4; i++)
		channels[i] = random_below(1 << format->bits[i]);
}

/* How the colour is handed to glTexImage2D. */
static uint32_t packed_colour(const struct format *format, const int channels[4])
{
	uint32_t word = 0;
	int from_top = 16;

	if (format->type == GL_UNSIGNED_BYTE)
		return (uint32_t)channels[0] | (uint32_t)channels[1] << 8 | (uint32_t)channels[2] << 16 |
		       (uint32_t)channels[3] << 24;
	for (int i = 0; i < 4; i++) {
		from_top -= format->bits[i];
		word |= (uint32_t)channels[i] << from_top;
	}
	return word;
}

static void put(struct picture *picture, int x, int y, const struct format *format, const int channels[4])
{
	for (int i = 0; i < 4; i++)
		picture->pixels[y * picture->width + x][i] = (uint8_t)as_byte(channels[i], format->bits[i]);
}

/* ---- pictures ---- */

static void compare_part(const struct format *format, int x, int y, int width, int height)
{
	int wrong = 0, stale = 0, first_x = 0, first_y = 0;
	/* How narrow channels are made wide is not laid down to the last bit. */
	int tolerance = format->type == GL_UNSIGNED_BYTE ? 0 : 1;

	memset(found.pixels, 0x5a, (size_t)(width * height) * 4);
	glReadPixels(x, y, width, height, GL_RGBA, GL_UNSIGNED_BYTE, found.pixels);
	for (int row = 0; row < height; row++)
		for (int column = 0; column < width; column++) {
			const uint8_t *is = found.pixels[row * width + column];
			const uint8_t *want = expected.pixels[(y + row) * expected.width + x + column];
			int differs = 0;

			for (int i = 0; i < 4; i++)
				differs |= abs(is[i] - want[i]) > tolerance;
			if (differs && has_before)
				stale += !memcmp(is, before.pixels[(y + row) * before.width + x + column], 4);
			if (differs && wrong++ == 0) {
				first_x = column;
				first_y = row;
			}
		}
	if (wrong) {
		const uint8_t *is = found.pixels[first_y * width + first_x];
		const uint8_t *want = expected.pixels[(y + first_y) * expected.width + x + first_x];

		fail("%d of %d pixels are wrong, %d as before the clear, the first at %d,%d: %02x%02x%02x%02x, not "
		     "%02x%02x%02x%02x",
		     wrong, width * height, stale, x + first_x, y + first_y, is[0], is[1], is[2], is[3], want[0],
		     want[1], want[2], want[3]);
	}
}

static void compare(const struct format *format)
{
	compare_part(format, 0, 0, expected.width, expected.height);
}

static void begin(int width, int height)
{
	expected.width = width;
	expected.height = height;
	has_before = 0;
}

/* What is expected now is to be gone soon. */
static void remember(void)
{
	memcpy(&before, &expected, sizeof(before));
	has_before = 1;
}

/* ---- what is drawn on ---- */

static GLuint new_texture(const struct format *format, int width, int height)
{
	GLuint texture;

	glGenTextures(1, &texture);
	glBindTexture(GL_TEXTURE_2D, texture);
	glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
	glTexImage2D(GL_TEXTURE_2D, 0, (GLint)format->external, width, height, 0, format->external, format->type, NULL);
	return texture;
}

static void complete(void)
{
	GLenum status = glCheckFramebufferStatus(GL_FRAMEBUFFER);

	if (status != GL_FRAMEBUFFER_COMPLETE)
		fail("the framebuffer is not complete: %#x", status);
}

static GLuint onto_texture(GLuint texture)
{
	GLuint framebuffer;

	glGenFramebuffers(1, &framebuffer);
	glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
	glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, texture, 0);
	complete();
	return framebuffer;
}

static GLuint new_renderbuffer(GLenum format, int width, int height)
{
	GLuint renderbuffer;

	glGenRenderbuffers(1, &renderbuffer);
	glBindRenderbuffer(GL_RENDERBUFFER, renderbuffer);
	glRenderbufferStorage(GL_RENDERBUFFER, format, width, height);
	return renderbuffer;
}

static GLuint onto_renderbuffer(GLenum format, int width, int height)
{
	GLuint framebuffer, renderbuffer = new_renderbuffer(format, width, height);

	glGenFramebuffers(1, &framebuffer);
	glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
	glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_RENDERBUFFER, renderbuffer);
	complete();
	return framebuffer;
}

/* Clears what is bound to a random colour, and the expected picture with it. */
static void clear_colour(const struct format *format)
{
	int channels[4];
	float values[4];

	random_colour(format, channels);
	for (int i = 0; i < 4; i++)
		values[i] = format->bits[i] ? (float)channels[i] / (float)((1 << format->bits[i]) - 1) : 1.0f;
	glClearColor(values[0], values[1], values[2], values[3]);
	glClear(GL_COLOR_BUFFER_BIT);
	for (int y = 0; y < expected.height; y++)
		for (int x = 0; x < expected.width; x++)
			put(&expected, x, y, format, channels);
}

/* Puts random pixels into a part of the bound texture's level, and into the expected picture at its place. */
static void upload_part(const struct format *format, int level, int x, int y, int width, int height)
{
	uint16_t *narrow = (uint16_t *)packed;

	for (int row = 0; row < height; row++)
		for (int column = 0; column < width; column++) {
			int channels[4], index = row * width + column;

			random_colour(format, channels);
			put(&expected, x + column, y + row, format, channels);
			if (format->type == GL_UNSIGNED_BYTE)
				packed[index] = packed_colour(format, channels);
			else
				narrow[index] = (uint16_t)packed_colour(format, channels);
		}
	glTexSubImage2D(GL_TEXTURE_2D, level, x, y, width, height, format->external, format->type, packed);
}

static void upload(const struct format *format)
{
	upload_part(format, 0, 0, 0, expected.width, expected.height);
}

/* ---- checks of colour ---- */

static void check_clear_renderbuffer(const struct check *check)
{
	begin(check->width, check->height);
	onto_renderbuffer(check->format->renderbuffer, check->width, check->height);
	clear_colour(check->format);
	compare(check->format);
	/* Again, and not read between two clears. */
	clear_colour(check->format);
	clear_colour(check->format);
	compare(check->format);
}

static void check_clear_texture(const struct check *check)
{
	begin(check->width, check->height);
	onto_texture(new_texture(check->format, check->width, check->height));
	clear_colour(check->format);
	compare(check->format);
	clear_colour(check->format);
	compare(check->format);
}

/* Two that take turns: each keeps its own. */
static void check_clear_two(const struct check *check)
{
	static struct picture first;
	GLuint framebuffers[2];

	begin(check->width, check->height);
	framebuffers[0] = onto_renderbuffer(check->format->renderbuffer, check->width, check->height);
	clear_colour(check->format);
	memcpy(&first, &expected, sizeof(first));
	framebuffers[1] = onto_renderbuffer(check->format->renderbuffer, check->width, check->height);
	clear_colour(check->format);
	compare(check->format);
	glBindFramebuffer(GL_FRAMEBUFFER, framebuffers[0]);
	memcpy(&found, &expected, sizeof(found));
	memcpy(&expected, &first, sizeof(expected));
	memcpy(&first, &found, sizeof(first));
	compare(check->format);
	clear_colour(check->format);
	compare(check->format);
	glBindFramebuffer(GL_FRAMEBUFFER, framebuffers[1]);
	memcpy(&expected, &first, sizeof(expected));
	compare(check->format);
}

static void read_parts(const struct format *format)
{
	for (int i = 0; i < 6; i++) {
		int x = random_below(expected.width), y = random_below(expected.height);

		compare_part(format, x, y, 1 + random_below(expected.width - x), 1 + random_below(expected.height - y));
	}
}

static void check_read_part_cleared(const struct check *check)
{
	begin(check->width, check->height);
	onto_renderbuffer(check->format->renderbuffer, check->width, check->height);
	clear_colour(check->format);
	read_parts(check->format);
}

static void check_read_part_uploaded(const struct check *check)
{
	GLuint texture = new_texture(check->format, check->width, check->height);

	begin(check->width, check->height);
	upload(check->format);
	onto_texture(texture);
	read_parts(check->format);
}

static void check_upload(const struct check *check)
{
	GLuint texture = new_texture(check->format, check->width, check->height);

	begin(check->width, check->height);
	upload(check->format);
	onto_texture(texture);
	compare(check->format);
}

/* Several parts, some over others. */
static void check_upload_part(const struct check *check)
{
	GLuint texture = new_texture(check->format, check->width, check->height);

	begin(check->width, check->height);
	upload(check->format);
	for (int i = 0; i < 4; i++) {
		int x = random_below(check->width), y = random_below(check->height);

		upload_part(check->format, 0, x, y, 1 + random_below(check->width - x),
			    1 + random_below(check->height - y));
	}
	onto_texture(texture);
	compare(check->format);
}

static void check_upload_cleared(const struct check *check)
{
	begin(check->width, check->height);
	onto_texture(new_texture(check->format, check->width, check->height));
	clear_colour(check->format);
	upload(check->format);
	compare(check->format);
}

static void check_upload_part_cleared(const struct check *check)
{
	GLuint texture = new_texture(check->format, check->width, check->height);

	begin(check->width, check->height);
	upload(check->format);
	remember();
	onto_texture(texture);
	clear_colour(check->format);
	upload_part(check->format, 0, check->width / 3, check->height / 3, check->width / 2, check->height / 2);
	compare(check->format);
}

/* Uploaded pixels, then cleared ones. */
static void check_clear_uploaded(const struct check *check)
{
	GLuint texture = new_texture(check->format, check->width, check->height);

	begin(check->width, check->height);
	upload(check->format);
	onto_texture(texture);
	compare(check->format);
	clear_colour(check->format);
	compare(check->format);
}

/* Makes a copy of what is bound, and binds that. */
static void copy_whole(const struct check *check, GLuint to)
{
	glBindTexture(GL_TEXTURE_2D, to);
	glCopyTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, 0, 0, check->width, check->height);
	onto_texture(to);
}

static void check_copy_cleared(const struct check *check)
{
	GLuint to = new_texture(check->format, check->width, check->height);
	GLuint from = new_texture(check->format, check->width, check->height);

	begin(check->width, check->height);
	upload(check->format);
	remember();
	onto_texture(from);
	clear_colour(check->format);
	copy_whole(check, to);
	compare(check->format);
}

static void check_copy_uploaded(const struct check *check)
{
	GLuint to = new_texture(check->format, check->width, check->height);
	GLuint from = new_texture(check->format, check->width, check->height);

	begin(check->width, check->height);
	upload(check->format);
	onto_texture(from);
	copy_whole(check, to);
	compare(check->format);
}

static void check_copy_into_cleared(const struct check *check)
{
	GLuint to = new_texture(check->format, check->width, check->height), from;

	begin(check->width, check->height);
	onto_texture(to);
	clear_colour(check->format);
	from = new_texture(check->format, check->width, check->height);
	upload(check->format);
	onto_texture(from);
	copy_whole(check, to);
	compare(check->format);
}

/* A level's width or height. */
static int minified(int size, int level)
{
	return size >> level ? size >> level : 1;
}

/* A texture with all its levels: each keeps its own. */
static void check_levels(const struct check *check)
{
	const struct format *format = check->format;
	GLuint texture = new_texture(format, check->width, check->height), framebuffer;
	int levels = 1;

	for (; check->width >> levels || check->height >> levels; levels++)
		glTexImage2D(GL_TEXTURE_2D, levels, (GLint)format->external, minified(check->width, levels),
			     minified(check->height, levels), 0, format->external, format->type, NULL);
	glGenFramebuffers(1, &framebuffer);
	glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
	for (int level = 0; level < levels; level++) {
		begin(minified(check->width, level), minified(check->height, level));
		upload_part(format, level, 0, 0, expected.width, expected.height);
		glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, texture, level);
		complete();
		compare(format);
		clear_colour(format);
		compare(format);
	}
}

static void check_pbuffer(const struct check *check)
{
	const EGLint attributes[] = { EGL_WIDTH, check->width, EGL_HEIGHT, check->height, EGL_NONE };
	EGLSurface surface = eglCreatePbufferSurface(display, config, attributes);
	EGLSurface before = eglGetCurrentSurface(EGL_DRAW);

	if (!eglMakeCurrent(display, surface, surface, context)) {
		fail("no pbuffer: EGL error %#x", eglGetError());
		return;
	}
	glBindFramebuffer(GL_FRAMEBUFFER, 0);
	begin(check->width, check->height);
	clear_colour(check->format);
	compare(check->format);
	clear_colour(check->format);
	read_parts(check->format);
	eglMakeCurrent(display, before, before, context);
	eglDestroySurface(display, surface);
}

/* ---- checks of depth and stencil ---- */

/* Adds them to what is bound. */
static void add_depth_stencil(GLenum format, int width, int height)
{
	GLuint renderbuffer = new_renderbuffer(format, width, height);

	glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_DEPTH_ATTACHMENT, GL_RENDERBUFFER, renderbuffer);
	if (format == GL_DEPTH24_STENCIL8_OES)
		glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_STENCIL_ATTACHMENT, GL_RENDERBUFFER, renderbuffer);
	complete();
}

/* depth: of 65535 */
static void compare_depth(int depth)
{
	uint32_t *values = packed;

	glReadPixels(0, 0, expected.width, expected.height, GL_DEPTH_COMPONENT, GL_UNSIGNED_INT, values);
	for (int i = 0; i < expected.width * expected.height; i++)
		if (abs((int)(values[i] >> 16) - depth) > 1) {
			fail("depth at %d,%d is %#x, not %#x", i % expected.width, i / expected.width, values[i] >> 16,
			     depth);
			break;
		}
}

/* Both, as they are kept; depth: of 65535 */
static void compare_both(int depth, int stencil)
{
	uint32_t *values = packed;

	/* Mesa reads stencil alone by a blit, which etnaviv has none for. */
	glReadPixels(0, 0, expected.width, expected.height, GL_DEPTH_STENCIL_OES, GL_UNSIGNED_INT_24_8_OES, values);
	for (int i = 0; i < expected.width * expected.height; i++)
		if (abs((int)(values[i] >> 16) - depth) > 1 || (values[i] & 0xff) != (uint32_t)stencil) {
			fail("depth and stencil at %d,%d are %#x, not %#x and %#x", i % expected.width,
			     i / expected.width, values[i], depth, stencil);
			break;
		}
}

/* Clears what is asked for to something random. */
static void clear_both(GLbitfield what, int *depth, int *stencil)
{
	if (what & GL_DEPTH_BUFFER_BIT)
		*depth = random_below(65536);
	if (what & GL_STENCIL_BUFFER_BIT)
		*stencil = random_below(256);
	glClearDepthf((float)*depth / 65535.0f);
	glClearStencil(*stencil);
	glClear(what);
}

static void check_depth_stencil(const struct check *check)
{
	const GLbitfield both = GL_DEPTH_BUFFER_BIT | GL_STENCIL_BUFFER_BIT;
	const GLbitfield order[] = { both, GL_DEPTH_BUFFER_BIT, GL_STENCIL_BUFFER_BIT, both, GL_STENCIL_BUFFER_BIT,
				     GL_DEPTH_BUFFER_BIT };
	int depth = 0, stencil = 0;

	begin(check->width, check->height);
	onto_renderbuffer(check->format->renderbuffer, check->width, check->height);
	add_depth_stencil(GL_DEPTH24_STENCIL8_OES, check->width, check->height);
	clear_colour(check->format);
	for (size_t i = 0; i < COUNT(order); i++) {
		clear_both(order[i], &depth, &stencil);
		compare_both(depth, stencil);
	}
	/* Several in a row, and nothing is read between them. */
	for (size_t i = 0; i < COUNT(order); i++)
		clear_both(order[i], &depth, &stencil);
	compare_both(depth, stencil);
	compare(check->format);
}

static void check_depth(const struct check *check)
{
	int depth = 0, none = 0;

	begin(check->width, check->height);
	onto_renderbuffer(check->format->renderbuffer, check->width, check->height);
	add_depth_stencil(GL_DEPTH_COMPONENT16, check->width, check->height);
	clear_colour(check->format);
	clear_both(GL_DEPTH_BUFFER_BIT, &depth, &none);
	compare_depth(depth);
	clear_both(GL_DEPTH_BUFFER_BIT, &depth, &none);
	compare_depth(depth);
	compare(check->format);
}

/* Everything by one call. */
static void check_clear_all(const struct check *check)
{
	int depth = random_below(65536), stencil = random_below(256);

	begin(check->width, check->height);
	onto_renderbuffer(check->format->renderbuffer, check->width, check->height);
	add_depth_stencil(GL_DEPTH24_STENCIL8_OES, check->width, check->height);
	glClearColor(1.0f, 0.0f, 1.0f, 0.0f);
	glClearDepthf((float)depth / 65535.0f);
	glClearStencil(stencil);
	glClear(GL_COLOR_BUFFER_BIT | GL_DEPTH_BUFFER_BIT | GL_STENCIL_BUFFER_BIT);
	for (int i = 0; i < check->width * check->height; i++)
		memcpy(expected.pixels[i], (uint8_t[4]){ 255, 0, 255, 0 }, 4);
	compare(check->format);
	compare_both(depth, stencil);
}

/* ---- the list ---- */

static void add(const char *what, void (*run)(const struct check *), const struct format *format, int width, int height)
{
	struct check *check = &checks[check_count];

	if (check_count == COUNT(checks)) {
		fprintf(stderr, "MOST_CHECKS is too small\n");
		exit(1);
	}
	check_count++;
	check->run = run;
	check->format = format;
	check->width = width;
	check->height = height;
	snprintf(check->name, sizeof(check->name), "%s %s %dx%d", what, format->name, width, height);
}

static void list(void)
{
	/* All formats in the first three. */
	static const int sizes[][2] = { { 64, 64 }, { 61, 35 }, { 130, 70 }, { 16, 4 }, { 1, 1 }, { 17, 200 }, { 256, 128 } };

	for (size_t i = 0; i < COUNT(sizes); i++) {
		int width = sizes[i][0], height = sizes[i][1];
		size_t kinds = i < 3 ? COUNT(formats) : 1;

		for (size_t j = 0; j < kinds; j++) {
			const struct format *format = &formats[j];

			add("clear renderbuffer", check_clear_renderbuffer, format, width, height);
			add("clear texture", check_clear_texture, format, width, height);
			add("upload", check_upload, format, width, height);
			add("upload part", check_upload_part, format, width, height);
		}
		add("clear two", check_clear_two, RGBA8888, width, height);
		add("clear uploaded", check_clear_uploaded, RGBA8888, width, height);
		add("clear pbuffer", check_pbuffer, RGBA8888, width, height);
		add("clear depth", check_depth, RGBA8888, width, height);
		add("clear depth and stencil", check_depth_stencil, RGBA8888, width, height);
		add("clear all", check_clear_all, RGBA8888, width, height);
		add("read part cleared", check_read_part_cleared, RGBA8888, width, height);
		add("read part uploaded", check_read_part_uploaded, RGBA8888, width, height);
		add("upload cleared", check_upload_cleared, RGBA8888, width, height);
		add("upload part cleared", check_upload_part_cleared, RGBA8888, width, height);
		add("copy cleared", check_copy_cleared, RGBA8888, width, height);
		add("copy uploaded", check_copy_uploaded, RGBA8888, width, height);
		add("copy into cleared", check_copy_into_cleared, RGBA8888, width, height);
		add("levels", check_levels, RGBA8888, width, height);
	}
}

int main(int count, char **texts)
{
	unsigned int number = 0, wanted = 0;
	int failed = 0;

	(void)count;
	texts++;
	list();
	for (unsigned int i = 0; i < check_count; i++)
		wanted += (unsigned int)has_one_of(checks[i].name, texts);
	if (!start(wanted))
		return 1;
	for (unsigned int i = 0; i < check_count; i++)
		if (has_one_of(checks[i].name, texts)) {
			has_failed = 0;
			checks[i].run(&checks[i]);
			failed |= tell(++number, checks[i].name);
		}
	return failed;
}
