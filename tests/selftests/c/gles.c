// SPDX-License-Identifier: GPL-2.0-only
/*
 * What Mesa draws with shaders. The same scenes drawn by two of its drivers: one keeps its pictures, the other's are
 * compared with them.
 *
 * Where edges, texels and colours of 8 bits go is not laid down to the last bit. So a pixel is right if it is between
 * the darkest and the brightest of the other picture's 3 x 3 (or 5 x 5) pixels around it, give or take a tolerance, in each
 * channel; and no more than a share of all pixels may differ from the other picture's at the very place.
 *
 * usage: mesa-shaders --keep|--compare FOLDER [--some] [TEXT]...
 *
 * Scenes whose names have one of the texts in them; of those that differ in a number only, with --some each third.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "surfaceless.h"

/* scripts/pictures makes larger ones. */
#ifndef WIDTH
#define WIDTH 96
#define HEIGHT 64
#endif
#define PIXELS (WIDTH * HEIGHT)

struct scene {
	const char *name;
	void (*draw)(int number);
	/* handed to it, so that one function draws several scenes */
	int number;
	/* in 255 */
	int tolerance;
	/* pixels of 1000 that may be off by as many pixels as `reach` says */
	int share, reach;
	/* pixels that may be further off */
	int strays;
};

static uint8_t found[PIXELS][4], kept[PIXELS][4];

/* ---- shaders ---- */

static GLuint compiled(GLenum kind, const char *text)
{
	GLuint shader = glCreateShader(kind);
	GLint is_good = 0;
	char log[512] = "";

	glShaderSource(shader, 1, &text, NULL);
	glCompileShader(shader);
	glGetShaderiv(shader, GL_COMPILE_STATUS, &is_good);
	if (!is_good) {
		glGetShaderInfoLog(shader, sizeof(log), NULL, log);
		fail("a shader is not compiled: %s", log);
	}
	return shader;
}

static GLuint program(const char *vertex, const char *fragment)
{
	GLuint program = glCreateProgram();
	GLint is_good = 0;
	char log[512] = "";

	glAttachShader(program, compiled(GL_VERTEX_SHADER, vertex));
	glAttachShader(program, compiled(GL_FRAGMENT_SHADER, fragment));
	glBindAttribLocation(program, 0, "place");
	glBindAttribLocation(program, 1, "colour");
	glLinkProgram(program);
	glGetProgramiv(program, GL_LINK_STATUS, &is_good);
	if (!is_good) {
		glGetProgramInfoLog(program, sizeof(log), NULL, log);
		fail("a program is not linked: %s", log);
	}
	glUseProgram(program);
	return program;
}

static GLint uniform(const char *name)
{
	GLint now;

	glGetIntegerv(GL_CURRENT_PROGRAM, &now);
	return glGetUniformLocation((GLuint)now, name);
}

/* Place and colour, both of four numbers. */
#define PLAIN_VERTEX                                                                                                   \
	"attribute vec4 place, colour; varying vec4 shade;\n"                                                          \
	"void main() { gl_Position = place; shade = colour; }\n"
#define PLAIN_FRAGMENT                                                                                                 \
	"precision highp float; varying vec4 shade;\n"                                                                 \
	"void main() { gl_FragColor = shade; }\n"

/* The whole target, with x and y from 0 to 1 in `at`. */
#define WHOLE_VERTEX                                                                                                   \
	"attribute vec4 place; varying vec2 at;\n"                                                                     \
	"void main() { gl_Position = place; at = place.xy * 0.5 + 0.5; }\n"
#define WHOLE_HEAD "precision highp float; varying vec2 at; uniform vec4 u; uniform sampler2D image;\n"

/* ---- what is drawn ---- */

/*
 * From -1 to 1, times `reach`, in a direction of so many pixels: an odd multiple of 1/16 pixel, where no GPU has to
 * round, and not in a pixel's middle.
 */
static float random_place(int pixels, float reach)
{
	int steps = (int)((float)pixels * 4.0f * reach);

	return (float)(random_below(2 * steps) * 2 + 1 - 2 * steps) / (float)(pixels * 8);
}

/* The same, and near a pixel's corner. */
static float random_corner(int pixels, float reach)
{
	int steps = (int)((float)pixels * 0.5f * reach);

	return (float)((random_below(2 * steps) - steps) * 16 + 1) / (float)(pixels * 8);
}

static float random_part(void)
{
	return (float)random_below(256) / 255.0f;
}

static float vertices[4096];

/* Of the viewport. */
static int view_width = WIDTH, view_height = HEIGHT;

static void view(int x, int y, int width, int height)
{
	view_width = width;
	view_height = height;
	glViewport(x, y, width, height);
}

/* So many vertices with places up to `reach` and colours, drawn as they are. */
static void random_vertices_in(int count, float depth, float reach)
{
	for (int i = 0; i < count; i++) {
		float *at = vertices + 8 * i;

		at[0] = random_place(view_width, reach);
		at[1] = random_place(view_height, reach);
		at[2] = (random_part() * 2.0f - 1.0f) * depth;
		at[3] = 1.0f;
		for (int j = 4; j < 8; j++)
			at[j] = random_part();
	}
	glVertexAttribPointer(0, 4, GL_FLOAT, GL_FALSE, 32, vertices);
	glVertexAttribPointer(1, 4, GL_FLOAT, GL_FALSE, 32, vertices + 4);
	glEnableVertexAttribArray(0);
	glEnableVertexAttribArray(1);
}

/* The same, some of them outside. */
static void random_vertices(int count, float depth)
{
	random_vertices_in(count, depth, 1.25f);
}

/* The middles of points, none of them outside: whether such a one is drawn in part, or not at all, is not laid down. */
static void random_points(int count)
{
	random_vertices_in(count, 0.0f, 0.875f);
	for (int i = 0; i < count; i++) {
		vertices[8 * i] = random_corner(WIDTH, 0.875f);
		vertices[8 * i + 1] = random_corner(HEIGHT, 0.875f);
	}
}

/* Triangles that have one colour and one depth each. */
static void flat_vertices(int triangles)
{
	random_vertices(3 * triangles, 0.875f);
	for (int i = 0; i < 3 * triangles; i++)
		for (int j = 2; j < 8; j++)
			vertices[8 * i + j] = vertices[8 * (i - i % 3) + j];
}

static void whole(void)
{
	static const float corners[] = { -1, -1, 1, -1, -1, 1, 1, 1 };

	glVertexAttribPointer(0, 2, GL_FLOAT, GL_FALSE, 8, corners);
	glEnableVertexAttribArray(0);
	glDisableVertexAttribArray(1);
	glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
}

static void draw_triangles(int number)
{
	program(PLAIN_VERTEX, PLAIN_FRAGMENT);
	random_vertices(30, 0.0f);
	if (number)
		flat_vertices(10);
	glDrawArrays(GL_TRIANGLES, 0, 30);
}

static void draw_kinds(int kind)
{
	static const char sized[] = "attribute vec4 place, colour; varying vec4 shade;\n"
				    "void main() { gl_Position = place; shade = colour; gl_PointSize = 2.0 + 2.0 * floor(6.0 * colour.a); }\n";

	program(kind == GL_POINTS ? sized : PLAIN_VERTEX, PLAIN_FRAGMENT);
	if (kind == GL_POINTS)
		random_points(12);
	else
		random_vertices_in(12, 0.0f, kind < GL_TRIANGLES ? 0.875f : 1.25f);
	glDrawArrays((GLenum)kind, 0, 12);
}

static void draw_sprites(int number)
{
	(void)number;
	program("attribute vec4 place, colour; varying vec4 shade;\n"
		"void main() { gl_Position = place; shade = colour; gl_PointSize = 16.0; }\n",
		"precision highp float; varying vec4 shade;\n"
		/* Where y begins on a framebuffer object is not asked: Mesa's etnaviv does not tell the GPU. */
		"void main() { gl_FragColor = vec4(gl_PointCoord.x, abs(gl_PointCoord.y - 0.5), shade.x, 1.0); }\n");
	random_points(8);
	glDrawArrays(GL_POINTS, 0, 8);
}

static void draw_indexed(int kind)
{
	uint32_t words[24];
	uint16_t halves[24];
	uint8_t bytes[24];
	const void *list = kind == GL_UNSIGNED_INT ? (const void *)words :
			   kind == GL_UNSIGNED_SHORT ? (const void *)halves : (const void *)bytes;

	program(PLAIN_VERTEX, PLAIN_FRAGMENT);
	random_vertices(20, 0.0f);
	for (int i = 0; i < 24; i++) {
		words[i] = (uint32_t)random_below(20);
		halves[i] = (uint16_t)words[i];
		bytes[i] = (uint8_t)words[i];
	}
	glDrawElements(GL_TRIANGLES, 24, (GLenum)kind, list);
}

static void draw_buffers(int number)
{
	GLuint buffers[2];
	uint16_t list[24];

	(void)number;
	program(PLAIN_VERTEX, PLAIN_FRAGMENT);
	random_vertices(20, 0.0f);
	for (int i = 0; i < 24; i++)
		list[i] = (uint16_t)random_below(20);
	glGenBuffers(2, buffers);
	glBindBuffer(GL_ARRAY_BUFFER, buffers[0]);
	glBufferData(GL_ARRAY_BUFFER, 20 * 32, vertices, GL_STATIC_DRAW);
	glBindBuffer(GL_ELEMENT_ARRAY_BUFFER, buffers[1]);
	glBufferData(GL_ELEMENT_ARRAY_BUFFER, sizeof(list), list, GL_STATIC_DRAW);
	glVertexAttribPointer(0, 4, GL_FLOAT, GL_FALSE, 32, (void *)0);
	glVertexAttribPointer(1, 4, GL_FLOAT, GL_FALSE, 32, (void *)16);
	/* Two draws, and what is drawn changes between them. */
	glDrawElements(GL_TRIANGLES, 12, GL_UNSIGNED_SHORT, (void *)0);
	vertices[0] = 0.5f;
	glBufferSubData(GL_ARRAY_BUFFER, 0, 32, vertices);
	glDrawElements(GL_TRIANGLES, 12, GL_UNSIGNED_SHORT, (void *)24);
	glBindBuffer(GL_ARRAY_BUFFER, 0);
	glBindBuffer(GL_ELEMENT_ARRAY_BUFFER, 0);
}

/* Vertices of other types, some of them made 0 to 1 or -1 to 1. */
static void draw_attributes(int number)
{
	static const GLenum types[] = { GL_BYTE, GL_UNSIGNED_BYTE, GL_SHORT, GL_UNSIGNED_SHORT, GL_FIXED, GL_FLOAT };
	static uint8_t colours[64 * 16];
	GLenum type = types[number / 2];
	int is_normal = number % 2;

	program("attribute vec4 place, colour; uniform vec4 u; varying vec4 shade;\n"
		"void main() { gl_Position = place; shade = fract(colour * u); }\n",
		PLAIN_FRAGMENT);
	glUniform4f(uniform("u"), is_normal ? 0.75f : 0.0078125f, 0.015625f, 0.0078125f, 0.25f);
	random_vertices(30, 0.0f);
	for (size_t i = 0; i < sizeof(colours); i++)
		colours[i] = (uint8_t)random_below(256);
	if (type == GL_FLOAT)
		for (int i = 0; i < 64 * 4; i++)
			((float *)colours)[i] = random_part() * 100.0f;
	glVertexAttribPointer(1, 1 + number % 4, type, is_normal ? GL_TRUE : GL_FALSE, number % 3 ? 20 : 0, colours);
	glDrawArrays(GL_TRIANGLES, 0, 30);
}

/* The same triangles twice, the second time in other colours, nearer or further or as near. */
static void draw_depth(int func)
{
	program("attribute vec4 place, colour; uniform vec4 u; varying vec4 shade;\n"
		"void main() { gl_Position = place + u; shade = colour; }\n",
		PLAIN_FRAGMENT);
	glUniform4f(uniform("u"), 0.0f, 0.0f, 0.0f, 0.0f);
	glEnable(GL_DEPTH_TEST);
	glDepthFunc(GL_LEQUAL);
	flat_vertices(12);
	glDrawArrays(GL_TRIANGLES, 0, 36);
	for (int i = 0; i < 36; i++)
		vertices[8 * i + 4] = 1.0f - vertices[8 * i + 4];
	glDepthFunc((GLenum)func);
	for (int i = 0; i < 3; i++) {
		glUniform4f(uniform("u"), 0.0f, 0.0f, 0.0625f * (float)(i - 1), 0.0f);
		glDrawArrays(GL_TRIANGLES, 12 * i, 12);
	}
	/* What else a depth is made of. */
	glDepthRangef(0.25f, 0.75f);
	glDrawArrays(GL_TRIANGLES, 9, 18);
	glDepthRangef(0.0f, 1.0f);
}

static void draw_offset(int number)
{
	program(PLAIN_VERTEX, PLAIN_FRAGMENT);
	glEnable(GL_DEPTH_TEST);
	flat_vertices(6);
	glDrawArrays(GL_TRIANGLES, 0, 18);
	glEnable(GL_POLYGON_OFFSET_FILL);
	glPolygonOffset(0.0f, number ? -16.0f : 16.0f);
	for (int i = 0; i < 18; i++)
		vertices[8 * i + 5] = 1.0f;
	glDrawArrays(GL_TRIANGLES, 0, 18);
	glDisable(GL_POLYGON_OFFSET_FILL);
}

static void draw_stencil(int number)
{
	static const GLenum ops[] = { GL_KEEP, GL_ZERO, GL_REPLACE, GL_INCR, GL_DECR, GL_INVERT, GL_INCR_WRAP,
				      GL_DECR_WRAP };

	program(PLAIN_VERTEX, PLAIN_FRAGMENT);
	flat_vertices(16);
	glEnable(GL_STENCIL_TEST);
	glEnable(GL_DEPTH_TEST);
	for (int i = 0; i < 16; i++) {
		GLenum side = i % 2 ? GL_FRONT_AND_BACK : GL_BACK;

		glStencilFuncSeparate(side, GL_NEVER + (GLenum)random_below(8), random_below(256), 0xff);
		glStencilOpSeparate(side, ops[random_below(8)], ops[random_below(8)],
				    ops[(number + i) % 8]);
		glStencilMask(number % 2 ? 0xff : 0x3c);
		glDrawArrays(GL_TRIANGLES, 3 * i, 3);
	}
	glStencilMask(0xff);
	/* Where the stencil is, to be seen. */
	glDisable(GL_DEPTH_TEST);
	glStencilOp(GL_KEEP, GL_KEEP, GL_KEEP);
	for (int bit = 0; bit < 8; bit++) {
		glStencilFunc(GL_EQUAL, 1 << bit, 1u << bit);
		glColorMask(bit % 3 == 0, bit % 3 == 1, bit % 3 == 2, GL_FALSE);
		program(WHOLE_VERTEX, WHOLE_HEAD "void main() { gl_FragColor = u; }\n");
		glUniform4f(uniform("u"), 0.1f * (float)bit, 0.9f - 0.1f * (float)bit, 0.5f, 1.0f);
		whole();
	}
	glColorMask(GL_TRUE, GL_TRUE, GL_TRUE, GL_TRUE);
	glDisable(GL_STENCIL_TEST);
}

static void draw_blended(int number)
{
	static const GLenum factors[] = { GL_ZERO, GL_ONE, GL_SRC_COLOR, GL_ONE_MINUS_SRC_COLOR, GL_DST_COLOR,
					  GL_ONE_MINUS_DST_COLOR, GL_SRC_ALPHA, GL_ONE_MINUS_SRC_ALPHA, GL_DST_ALPHA,
					  GL_ONE_MINUS_DST_ALPHA, GL_CONSTANT_COLOR, GL_ONE_MINUS_CONSTANT_COLOR,
					  GL_CONSTANT_ALPHA, GL_ONE_MINUS_CONSTANT_ALPHA, GL_SRC_ALPHA_SATURATE };
	static const GLenum equations[] = { GL_FUNC_ADD, GL_FUNC_SUBTRACT, GL_FUNC_REVERSE_SUBTRACT };

	program(PLAIN_VERTEX, PLAIN_FRAGMENT);
	flat_vertices(4);
	glEnable(GL_BLEND);
	glBlendColor(0.25f, 0.5f, 0.75f, 0.625f);
	for (int i = 0; i < 4; i++) {
		glBlendEquationSeparate(equations[(number + i) % 3], equations[random_below(3)]);
		glBlendFuncSeparate(factors[(4 * number + i) % 15], factors[random_below(14)],
				    factors[random_below(15)], factors[random_below(14)]);
		glDrawArrays(GL_TRIANGLES, 3 * i, 3);
	}
	glDisable(GL_BLEND);
}

static void draw_culled(int number)
{
	program(PLAIN_VERTEX, "precision highp float; varying vec4 shade;\n"
			      "void main() { gl_FragColor = gl_FrontFacing ? shade : shade.bgra; }\n");
	flat_vertices(16);
	if (number & 3) {
		glEnable(GL_CULL_FACE);
		glCullFace(number & 1 ? GL_FRONT : GL_BACK);
	}
	glFrontFace(number & 4 ? GL_CW : GL_CCW);
	glDrawArrays(GL_TRIANGLES, 0, 48);
	glFrontFace(GL_CCW);
	glDisable(GL_CULL_FACE);
}

static void draw_masked(int number)
{
	program(PLAIN_VERTEX, PLAIN_FRAGMENT);
	flat_vertices(12);
	for (int i = 0; i < 4; i++) {
		int mask = (number + 5 * i) & 15;

		glColorMask(mask & 1, mask >> 1 & 1, mask >> 2 & 1, mask >> 3 & 1);
		glEnable(GL_SCISSOR_TEST);
		glScissor(7 * i, 5 * i, WIDTH - 20, HEIGHT - 18);
		glDrawArrays(GL_TRIANGLES, 9 * i, 9);
		/* A clear that is a draw in Mesa. */
		glScissor(11 + 20 * i, 30 - 7 * i, 9, 13);
		glClearColor(0.25f * (float)i, 0.5f, 1.0f, 0.25f);
		glClear(GL_COLOR_BUFFER_BIT);
	}
	glColorMask(GL_TRUE, GL_TRUE, GL_TRUE, GL_TRUE);
	glDisable(GL_SCISSOR_TEST);
}

static void draw_viewport(int number)
{
	program(PLAIN_VERTEX, PLAIN_FRAGMENT);
	for (int i = 0; i < 4; i++) {
		view(i % 2 * 48 - 10 * number, i / 2 * 32 - 6 * number, 48 + 9 * number, 32 + 5 * number);
		random_vertices(6, 0.0f);
		glDrawArrays(GL_TRIANGLES, 0, 6);
	}
}

/* Triangles with corners behind the eye, and far outside. */
static void draw_clipped(int number)
{
	program(PLAIN_VERTEX, PLAIN_FRAGMENT);
	random_vertices(18, 1.0f);
	for (int i = 0; i < 18; i++) {
		float *at = vertices + 8 * i;

		at[0] *= number & 1 ? 40.0f : 3.0f;
		at[2] *= 1.5f;
		at[3] = number & 2 ? random_part() * 3.0f - 0.5f : 1.0f;
	}
	glDrawArrays(GL_TRIANGLES, 0, 18);
}

/* ---- textures ---- */

static uint32_t texels[64 * 64];

static GLuint texture(GLenum target, int filter, int wrap)
{
	GLuint texture;

	glGenTextures(1, &texture);
	glBindTexture(target, texture);
	glTexParameteri(target, GL_TEXTURE_MIN_FILTER, filter);
	glTexParameteri(target, GL_TEXTURE_MAG_FILTER, filter == GL_NEAREST ? GL_NEAREST : GL_LINEAR);
	glTexParameteri(target, GL_TEXTURE_WRAP_S, wrap);
	glTexParameteri(target, GL_TEXTURE_WRAP_T, wrap);
	return texture;
}

static void random_texels(int count)
{
	for (int i = 0; i < count; i++)
		texels[i] = random_word();
}

#define IMAGE_FRAGMENT WHOLE_HEAD "void main() { gl_FragColor = texture2D(image, at * u.xy + u.zw); }\n"

/* Formats; the second number is how it is filtered. */
static void draw_format(int number)
{
	static const GLenum formats[][2] = { { GL_RGBA, GL_UNSIGNED_BYTE }, { GL_RGB, GL_UNSIGNED_BYTE },
					     { GL_RGB, GL_UNSIGNED_SHORT_5_6_5 }, { GL_RGBA, GL_UNSIGNED_SHORT_4_4_4_4 },
					     { GL_RGBA, GL_UNSIGNED_SHORT_5_5_5_1 }, { GL_LUMINANCE, GL_UNSIGNED_BYTE },
					     { GL_ALPHA, GL_UNSIGNED_BYTE }, { GL_LUMINANCE_ALPHA, GL_UNSIGNED_BYTE } };
	const GLenum *format = formats[number % 8];

	program(WHOLE_VERTEX, IMAGE_FRAGMENT);
	/* Texels' middles are off pixels' middles. */
	glUniform4f(uniform("u"), 0.71f, 0.83f, 0.013f, 0.017f);
	texture(GL_TEXTURE_2D, number < 8 ? GL_NEAREST : GL_LINEAR, GL_REPEAT);
	random_texels(16 * 16);
	glTexImage2D(GL_TEXTURE_2D, 0, (GLint)format[0], 16, 16, 0, format[0], format[1], texels);
	whole();
}

static void draw_wrapped(int number)
{
	static const int wraps[] = { GL_REPEAT, GL_CLAMP_TO_EDGE, GL_MIRRORED_REPEAT };

	program(WHOLE_VERTEX, IMAGE_FRAGMENT);
	glUniform4f(uniform("u"), 3.1f, 2.7f, -1.03f, -0.91f);
	texture(GL_TEXTURE_2D, number < 3 ? GL_NEAREST : GL_LINEAR, wraps[number % 3]);
	random_texels(8 * 8);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, 8, 8, 0, GL_RGBA, GL_UNSIGNED_BYTE, texels);
	whole();
}

/* Blocks of 4 x 4 texels. */
static void draw_compressed(int number)
{
	program(WHOLE_VERTEX, IMAGE_FRAGMENT);
	glUniform4f(uniform("u"), 0.93f, 0.91f, 0.02f, 0.03f);
	texture(GL_TEXTURE_2D, number ? GL_LINEAR : GL_NEAREST, GL_REPEAT);
	random_texels(2 * 16);
	/* Neither of the two colours is out of range: those that differ are half as bright. */
	for (int i = 0; i < 2 * 16; i += 2)
		texels[i] &= i & 2 ? 0xfd777777 & 0xfff8f8f8 : 0xfdffffff;
	glCompressedTexImage2D(GL_TEXTURE_2D, 0, GL_ETC1_RGB8_OES, 16, 16, 0, 8 * 16, texels);
	whole();
}

/* Sizes that are no power of two. */
static void draw_sized(int number)
{
	int width = 5 + 13 * number, height = 19 - number;

	program(WHOLE_VERTEX, IMAGE_FRAGMENT);
	glUniform4f(uniform("u"), 0.93f, 0.91f, 0.02f, 0.03f);
	texture(GL_TEXTURE_2D, GL_NEAREST, GL_CLAMP_TO_EDGE);
	random_texels(width * height);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, width, height, 0, GL_RGBA, GL_UNSIGNED_BYTE, texels);
	whole();
}

/*
 * Levels of one colour each: which are read is seen. Each coordinate changes in one direction only, so that it does not
 * matter how the two directions are taken together.
 */
static void draw_levels(int number)
{
	static const GLenum filters[] = { GL_NEAREST_MIPMAP_NEAREST, GL_LINEAR_MIPMAP_NEAREST, GL_NEAREST_MIPMAP_LINEAR,
					  GL_LINEAR_MIPMAP_LINEAR };

	program(WHOLE_VERTEX, number < 4 ? WHOLE_HEAD "void main() {\n"
						     "	vec2 to = at * vec2(1.0 + 3.0 * at.x, 2.0 + 5.0 * at.y);\n"
						     "	gl_FragColor = texture2D(image, to);\n"
						     "}\n" :
				 WHOLE_HEAD "void main() { gl_FragColor = texture2D(image, at, 0.31 + 4.0 * at.y); }\n");
	texture(GL_TEXTURE_2D, (int)filters[number % 4], GL_REPEAT);
	for (int level = 0; level <= 6; level++) {
		uint32_t colour = random_word();

		for (int i = 0; i < 64 * 64; i++)
			texels[i] = colour;
		glTexImage2D(GL_TEXTURE_2D, level, GL_RGBA, 64 >> level, 64 >> level, 0, GL_RGBA, GL_UNSIGNED_BYTE,
			     texels);
	}
	whole();
}

static void draw_made_levels(int number)
{
	program(WHOLE_VERTEX, WHOLE_HEAD "void main() { gl_FragColor = texture2D(image, at, u.x); }\n");
	glUniform4f(uniform("u"), (float)number, 0.0f, 0.0f, 0.0f);
	texture(GL_TEXTURE_2D, GL_LINEAR_MIPMAP_NEAREST, GL_CLAMP_TO_EDGE);
	random_texels(64 * 64);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, 64, 64, 0, GL_RGBA, GL_UNSIGNED_BYTE, texels);
	glGenerateMipmap(GL_TEXTURE_2D);
	whole();
}

static void draw_cube(int number)
{
	program(WHOLE_VERTEX, "precision highp float; varying vec2 at; uniform samplerCube image; uniform vec4 u;\n"
			      "void main() {\n"
			      "	float turn = 6.2831853 * at.x;\n"
			      "	vec3 to = vec3(cos(turn), 3.0 * at.y - 1.5, sin(turn));\n"
			      "	gl_FragColor = textureCube(image, to);\n"
			      "}\n");
	texture(GL_TEXTURE_CUBE_MAP, number ? GL_LINEAR : GL_NEAREST, GL_CLAMP_TO_EDGE);
	for (GLenum face = 0; face < 6; face++) {
		/* Filtered faces differ little: whether they are filtered across their edges is not laid down. */
		random_texels(1);
		if (number)
			texels[0] = 0x70605040 + face * 0x01020102;
		for (uint32_t i = 1; i < 8 * 8; i++)
			texels[i] = (texels[0] & 0xe0e0e0e0) + (number ? face * 0x01020102 : 0) + (i % 8 << 1) +
				    (i / 8 << 9) + (i % 3 << 18);
		glTexImage2D(GL_TEXTURE_CUBE_MAP_POSITIVE_X + face, 0, GL_RGBA, 8, 8, 0, GL_RGBA, GL_UNSIGNED_BYTE,
			     texels);
	}
	whole();
}

/* A quadrangle that is seen at an angle. */
static void draw_perspective(int number)
{
	static const float corners[] = { -0.9f, -0.9f, 0, 1, 1.8f, -1.8f, 0, 2, -2.7f, 2.7f, 0, 3, 3.6f, 3.6f, 0, 4 };

	program("attribute vec4 place; varying vec2 at;\n"
		"void main() { gl_Position = place; at = place.xy / place.w * 0.5 + 0.5; at *= place.w; }\n",
		IMAGE_FRAGMENT);
	glUniform4f(uniform("u"), 0.43f, 0.37f, 0.11f, 0.13f);
	texture(GL_TEXTURE_2D, number ? GL_LINEAR : GL_NEAREST, GL_REPEAT);
	random_texels(8 * 8);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, 8, 8, 0, GL_RGBA, GL_UNSIGNED_BYTE, texels);
	glVertexAttribPointer(0, 4, GL_FLOAT, GL_FALSE, 16, corners);
	glEnableVertexAttribArray(0);
	glDisableVertexAttribArray(1);
	glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
}

/* A ring with light on it, and a texture around it, in perspective. */
static void draw_ring(int number)
{
	/* Around the ring and around its tube; the next corner of each is this far. */
	enum { AROUND = 24, ACROSS = 12 };
	static const float far[] = { 0.9659258f, 0.2588190f }, wide[] = { 0.8660254f, 0.5f };
	/* Turned by 50 degrees to the viewer, and by 30 aside. */
	static const float turn[] = { 0.8660254f, 0.3830222f, -0.3213938f, 0, 0, 0.6427876f, 0.7660444f, 0,
				      0.5f, -0.6634139f, 0.5566704f, 0, 0, 0, 0, 1 };
	static uint16_t list[AROUND * ACROSS * 6];
	float c = 1, s = 0, *at = vertices;
	uint16_t *to = list;

	(void)number;
	program("attribute vec4 place, colour; uniform mat4 turn; uniform vec4 u;\n"
		"varying vec3 normal, from; varying vec2 on;\n"
		"void main() {\n"
		"	normal = (turn * vec4(colour.xyz, 0.0)).xyz;\n"
		"	from = (turn * vec4(place.xyz, 1.0)).xyz - vec3(0.0, 0.0, 3.5);\n"
		"	on = vec2(place.w, colour.w);\n"
		"	gl_Position = vec4(from.xy * u.xy, -1.5 * from.z - 2.5, -from.z);\n"
		"}\n",
		"precision highp float; varying vec3 normal, from; varying vec2 on; uniform sampler2D image;\n"
		"void main() {\n"
		"	vec3 light = vec3(0.48, 0.6, 0.64), n = normalize(normal);\n"
		"	float bright = max(dot(n, light), 0.0);\n"
		"	float shine = pow(max(dot(n, normalize(light - normalize(from))), 0.0), 24.0);\n"
		"	gl_FragColor = vec4(texture2D(image, on).rgb * (0.25 + 0.75 * bright) + 0.5 * shine, 1.0);\n"
		"}\n");
	glUniformMatrix4fv(uniform("turn"), 1, GL_FALSE, turn);
	glUniform4f(uniform("u"), 2.25f * HEIGHT / WIDTH, 2.25f, 0.0f, 0.0f);
	for (int i = 0; i <= AROUND; i++) {
		float u = 1, v = 0, then = c * far[0] - s * far[1];

		for (int j = 0; j <= ACROSS; j++) {
			float next = u * wide[0] - v * wide[1];
			const float corner[] = { c * (0.9f + 0.4f * u), s * (0.9f + 0.4f * u), 0.4f * v,
						 (float)i / AROUND * 8,	 c * u, s * u, v, (float)j / ACROSS * 4 };

			memcpy(at, corner, sizeof(corner));
			at += 8;
			v = u * wide[1] + v * wide[0];
			u = next;
		}
		s = c * far[1] + s * far[0];
		c = then;
	}
	for (int i = 0; i < AROUND * ACROSS; i++) {
		int corner = i / ACROSS * (ACROSS + 1) + i % ACROSS;
		const uint16_t two[] = { (uint16_t)corner, (uint16_t)(corner + 1), (uint16_t)(corner + ACROSS + 1),
					 (uint16_t)(corner + 1), (uint16_t)(corner + ACROSS + 2),
					 (uint16_t)(corner + ACROSS + 1) };

		memcpy(to, two, sizeof(two));
		to += COUNT(two);
	}
	texture(GL_TEXTURE_2D, GL_LINEAR, GL_REPEAT);
	for (uint32_t i = 0; i < 16 * 16; i++)
		texels[i] = ((i ^ i >> 4) & 8 ? 0xff2060e0 : 0xffe0c080) + (random_word() & 0x0f0f0f);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, 16, 16, 0, GL_RGBA, GL_UNSIGNED_BYTE, texels);
	glClearDepthf(1.0f);
	glClear(GL_DEPTH_BUFFER_BIT);
	glEnable(GL_DEPTH_TEST);
	glDepthFunc(GL_LESS);
	glVertexAttribPointer(0, 4, GL_FLOAT, GL_FALSE, 32, vertices);
	glVertexAttribPointer(1, 4, GL_FLOAT, GL_FALSE, 32, vertices + 4);
	glEnableVertexAttribArray(0);
	glEnableVertexAttribArray(1);
	glDrawElements(GL_TRIANGLES, COUNT(list), GL_UNSIGNED_SHORT, list);
}

/* Drawn, then drawn with. */
static void draw_rendered(int number)
{
	GLint before;
	GLuint target, framebuffer;
	int size = number ? 32 : 23;

	glGetIntegerv(GL_FRAMEBUFFER_BINDING, &before);
	target = texture(GL_TEXTURE_2D, GL_NEAREST, GL_CLAMP_TO_EDGE);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, size, size, 0, GL_RGBA, GL_UNSIGNED_BYTE, NULL);
	glGenFramebuffers(1, &framebuffer);
	glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
	glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, target, 0);
	for (int i = 0; i < 2; i++) {
		glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
		view(0, 0, size, size);
		glClearColor(0.0f, 0.5f, (float)i, 1.0f);
		glClear(GL_COLOR_BUFFER_BIT);
		program(PLAIN_VERTEX, PLAIN_FRAGMENT);
		flat_vertices(5);
		glDrawArrays(GL_TRIANGLES, 0, 15);
		glBindFramebuffer(GL_FRAMEBUFFER, (GLuint)before);
		glViewport(WIDTH / 2 * i, 0, WIDTH / 2, HEIGHT);
		program(WHOLE_VERTEX, IMAGE_FRAGMENT);
		glUniform4f(uniform("u"), 0.97f, 0.95f, 0.01f, 0.02f);
		whole();
	}
}

/* A texture that vertices read. */
static void draw_moved(int number)
{
	GLint most = 0;

	(void)number;
	glGetIntegerv(GL_MAX_VERTEX_TEXTURE_IMAGE_UNITS, &most);
	if (!most)
		return;
	program("attribute vec4 place, colour; varying vec4 shade; uniform sampler2D image;\n"
		"void main() {\n"
		"	shade = texture2DLod(image, colour.xy, 0.0);\n"
		"	gl_Position = place + vec4(shade.xy * 0.25, 0.0, 0.0);\n"
		"}\n",
		PLAIN_FRAGMENT);
	texture(GL_TEXTURE_2D, GL_NEAREST, GL_CLAMP_TO_EDGE);
	random_texels(8 * 8);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, 8, 8, 0, GL_RGBA, GL_UNSIGNED_BYTE, texels);
	random_vertices(18, 0.0f);
	/* The middles of texels. */
	for (int i = 0; i < 18; i++)
		for (int j = 4; j < 6; j++)
			vertices[8 * i + j] = ((float)random_below(8) + 0.5f) / 8.0f;
	glDrawArrays(GL_TRIANGLES, 0, 18);
}

/* ---- shaders' language ---- */

/* What a pixel's colour is computed from x = at.x and y = at.y, both 0 to 1, and u, which is 0.3, 0.7, 2, -1.5. */
static const struct {
	const char *name, *text;
} expressions[] = {
	{ "arithmetic", "vec4(x + y * 0.5, x * y, x - y, 1.0 / (1.0 + x))" },
	{ "sine and cosine", "vec4(sin(x * 9.0), cos(y * 9.0), sin(x + y), tan(x)) * 0.5 + 0.5" },
	{ "arcs", "vec4(asin(x), acos(y), atan(x * 4.0 - 2.0), atan(y - 0.5, x - 0.51)) * 0.25 + 0.5" },
	{ "powers", "vec4(pow(x + 0.1, 1.7), exp2(-x * 3.0), log2(1.0 + y), exp(-y))" },
	{ "roots", "vec4(sqrt(x), inversesqrt(1.0 + y), log(1.0 + x), sqrt(x * y))" },
	{ "parts", "vec4(fract(x * 5.3), floor(y * 4.7) / 4.0, ceil(x * 3.3) / 4.0, mod(y * 7.1, 1.3))" },
	{ "signs", "vec4(sign(x - 0.53), abs(y - 0.5), step(0.47, x), clamp(y * 3.0 - 1.0, 0.0, 1.0))" },
	{ "steps", "vec4(smoothstep(0.2, 0.7, x), mix(0.2, 0.9, y), min(x, y), max(x, y))" },
	{ "vectors", "vec4(cross(vec3(x, y, 0.3), vec3(0.2, 0.9, x)), dot(vec3(x, y, 0.5), u.xyz) * 0.3)" },
	{ "lengths", "vec4(normalize(vec3(x, y, 0.4)), length(vec2(x, y)) * 0.6)" },
	{ "reflections", "vec4(reflect(vec3(x, y, 0.2), vec3(0.6, 0.0, 0.8)), distance(vec2(x, y), u.xy))" },
	{ "matrices", "mat4(0.5, x, 0.1, 0.0, y, 0.3, 0.2, 0.1, 0.0, 0.2, 0.4, x, 0.1, y, 0.3, 0.5) * vec4(x, y, 0.5, 1.0)" },
	{ "choices", "x > 0.51 ? vec4(y, x, 0.5, 1.0) : y < 0.26 ? vec4(1.0, 0.2, x, 1.0) : vec4(0.3, y, x * y, 1.0)" },
	{ "comparisons", "vec4(lessThan(vec4(x, y, x, 0.52), vec4(0.31, 0.72, y + 0.003, x)))" },
	{ "whole numbers", "vec4(float(int(x * 7.3)) / 8.0, float(int(y * 40.0) / 7) / 6.0, float(int(x * 9.1) * 3) / 30.0, 1.0)" },
	{ "swizzles", "(u.wzyx * vec4(x, y, x, y)).yxwz * 0.25 + 0.4" },
	{ "slopes", "vec4(dFdx(x * x) * 40.0, dFdy(y * x) * 30.0, fwidth(x * y) * 20.0, 1.0)" },
	{ "place in the window", "vec4(gl_FragCoord.xy / 96.0, gl_FragCoord.z, gl_FragCoord.w)" },
};

static void draw_expression(int number)
{
	static char text[2048];

	snprintf(text, sizeof(text),
		 "%s" WHOLE_HEAD "void main() {\n"
		 "	float x = at.x, y = at.y;\n"
		 "	gl_FragColor = %s;\n"
		 "}\n",
		 strstr(expressions[number].text, "dFd") ? "#extension GL_OES_standard_derivatives : enable\n" : "",
		 expressions[number].text);
	program(WHOLE_VERTEX, text);
	glUniform4f(uniform("u"), 0.3f, 0.7f, 2.0f, -1.5f);
	whole();
}

static const struct {
	const char *name, *text;
} bodies[] = {
	{ "a loop", "	vec2 z = vec2(0.0), c = at * 2.5 - vec2(1.9, 1.25);\n"
		    "	float count = 0.0;\n"
		    "	for (int i = 0; i < 12; i++) {\n"
		    "		z = vec2(z.x * z.x - z.y * z.y, 2.0 * z.x * z.y) + c;\n"
		    "		if (dot(z, z) > 4.0) break;\n"
		    "		count += 1.0;\n"
		    "	}\n"
		    "	gl_FragColor = vec4(count / 12.0, fract(count * 0.37), 0.5, 1.0);\n" },
	{ "discarding", "	if (fract(at.x * 6.1) > 0.5 != fract(at.y * 4.3) > 0.5) discard;\n"
			"	gl_FragColor = vec4(at, 1.0, 1.0);\n" },
	{ "nested branches", "	vec4 c = vec4(0.1);\n"
			     "	if (at.x < 0.41) {\n"
			     "		if (at.y < 0.62) c = vec4(at.y, 0.3, 0.9, 1.0); else c.xy = at;\n"
			     "	} else if (at.x + at.y > 1.13) {\n"
			     "		for (int i = 0; i < 5; i++) { c += 0.03; if (float(i) > at.x * 6.3) break; }\n"
			     "	} else c = u * 0.4 + at.xyxy * 0.2;\n"
			     "	gl_FragColor = c;\n" },
	{ "a function", "	vec3 total = vec3(0.0);\n"
			"	for (int i = 0; i < 4; i++) {\n"
			"		vec2 from = at - vec2(0.2 + 0.2 * float(i), 0.3 + 0.1 * float(i));\n"
			"		total += vec3(0.02, 0.01, 0.03) / (dot(from, from) + 0.05);\n"
			"	}\n"
			"	gl_FragColor = vec4(total, 1.0);\n" },
	{ "a variable's place", "	vec4 list[4];\n"
				"	list[0] = u; list[1] = u.yxwz; list[2] = at.xyxy; list[3] = vec4(0.5);\n"
				"	gl_FragColor = list[int(at.x * 3.99)] * 0.4 + 0.4;\n" },
	{ "a long one", "	vec4 c = at.xyxy;\n"
			"	for (int i = 0; i < 9; i++) c = fract(c.yzwx * 1.37 + c * vec4(0.11, 0.23, 0.31, 0.07)) * 0.9;\n"
			"	gl_FragColor = vec4(smoothstep(0.0, 1.0, c.x) * 0.0 + at.x, at.y, dot(c, c) * 0.0, 1.0);\n" },
	{ "four reads", "	vec4 c = vec4(0.0);\n"
			"	for (int i = 0; i < 4; i++) c += texture2D(image, at * (0.3 + 0.1 * float(i)) + u.xy) * 0.25;\n"
			"	gl_FragColor = c;\n" },
	{ "a read where another says", "	vec4 c = texture2D(image, at * 0.9);\n"
				       "	gl_FragColor = texture2D(image, at * 0.5 + c.xy * 0.1);\n" },
};

static void draw_body(int number)
{
	static char text[2048];

	snprintf(text, sizeof(text), WHOLE_HEAD "void main() {\n%s}\n", bodies[number].text);
	program(WHOLE_VERTEX, text);
	glUniform4f(uniform("u"), 0.3f, 0.7f, 2.0f, -1.5f);
	texture(GL_TEXTURE_2D, GL_LINEAR, GL_REPEAT);
	random_texels(8 * 8);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, 8, 8, 0, GL_RGBA, GL_UNSIGNED_BYTE, texels);
	whole();
}

/* As many varyings as there are, a table of constants, matrices, and branches for each vertex. */
static void draw_vertex_shader(int number)
{
	static const char *texts[] = {
		"attribute vec4 place, colour; varying vec4 a, b, c, d, e, f, g, h;\n"
		"void main() {\n"
		"	gl_Position = place;\n"
		"	a = colour; b = colour.yxwz; c = colour * 0.5; d = place;\n"
		"	e = colour.wwxx; f = place.yxyx; g = vec4(0.125); h = colour * colour;\n"
		"}\n",
		"attribute vec4 place, colour; varying vec4 shade; uniform vec4 list[6];\n"
		"void main() {\n"
		"	gl_Position = place;\n"
		"	shade = list[int(colour.x * 5.99)] + colour * 0.125;\n"
		"}\n",
		"attribute vec4 place, colour; varying vec4 shade; uniform mat4 m;\n"
		"void main() { gl_Position = m * place; shade = m * colour; }\n",
		"attribute vec4 place, colour; varying vec4 shade;\n"
		"void main() {\n"
		"	vec4 at = place;\n"
		"	shade = vec4(0.1);\n"
		"	if (colour.x > 0.5) { at.xy *= 0.75; shade = colour; }\n"
		"	for (int i = 0; i < 3; i++) if (colour.y > 0.25 * float(i)) shade.yz += vec2(0.2, 0.3) * colour.w;\n"
		"	gl_Position = at;\n"
		"}\n",
	};
	static const float matrix[] = { 0.6f, 0.2f, 0, 0, -0.3f, 0.7f, 0, 0, 0, 0, 1, 0, 0.125f, -0.25f, 0, 1 };
	float list[24];

	program(texts[number], number ? PLAIN_FRAGMENT :
					"precision highp float; varying vec4 a, b, c, d, e, f, g, h;\n"
					"void main() { gl_FragColor = (a + b + c + d * 0.1 + e + f * 0.1 + g + h) * 0.2; }\n");
	for (int i = 0; i < 24; i++)
		list[i] = random_part();
	if (number == 1)
		glUniform4fv(uniform("list"), 6, list);
	if (number == 2)
		glUniformMatrix4fv(uniform("m"), 1, GL_FALSE, matrix);
	random_vertices(30, 0.0f);
	glDrawArrays(GL_TRIANGLES, 0, 30);
}

/* ---- the list ---- */

#define MOST_SCENES 200
static struct scene scenes[MOST_SCENES];
static char names[MOST_SCENES][64];
static unsigned int scene_count;
/* Of those that differ in a number, each third. */
static int has_some;

static void add(const char *what, void (*draw)(int), int number, int tolerance, int share)
{
	struct scene *scene = &scenes[scene_count];

	if (scene_count == MOST_SCENES) {
		fprintf(stderr, "MOST_SCENES is too small\n");
		exit(1);
	}
	scene->name = names[scene_count];
	snprintf(names[scene_count++], sizeof(*names), "%s", what);
	scene->draw = draw;
	scene->number = number;
	scene->tolerance = tolerance;
	scene->share = share;
	/* A level is chosen for 2 x 2 pixels at once. */
	scene->reach = draw == draw_levels ? 2 : 1;
	/* The tips of thin triangles move further, most where corners have to be rounded; and so do lines' ends. */
	scene->strays = 3;
	if (draw == draw_moved || draw == draw_vertex_shader ||
	    (draw == draw_kinds && number >= GL_LINES && number <= GL_LINE_STRIP))
		scene->strays = 12;
	if (draw == draw_clipped)
		scene->strays = 30;
}

static void add_numbered(const char *what, void (*draw)(int), int first, int count, int tolerance, int share)
{
	for (int i = first; i < first + count; i += has_some ? 3 : 1) {
		char name[64];

		snprintf(name, sizeof(name), "%s %d", what, i - first + 1);
		add(name, draw, i, tolerance, share);
	}
}

static void list(void)
{
	add("smooth triangles", draw_triangles, 0, 2, 15);
	add("flat triangles", draw_triangles, 1, 1, 15);
	add("points", draw_kinds, GL_POINTS, 2, 15);
	/* Colours change fast along lines, and where they begin and end is not laid down. */
	add("lines", draw_kinds, GL_LINES, 24, 60);
	add("a line strip", draw_kinds, GL_LINE_STRIP, 24, 60);
	add("a line loop", draw_kinds, GL_LINE_LOOP, 24, 60);
	add("a triangle strip", draw_kinds, GL_TRIANGLE_STRIP, 2, 15);
	add("a triangle fan", draw_kinds, GL_TRIANGLE_FAN, 2, 15);
	add("sprites", draw_sprites, 0, 3, 15);
	add("indices of 8 bits", draw_indexed, GL_UNSIGNED_BYTE, 2, 15);
	add("indices of 16 bits", draw_indexed, GL_UNSIGNED_SHORT, 2, 15);
	add("indices of 32 bits", draw_indexed, GL_UNSIGNED_INT, 2, 15);
	add("buffers", draw_buffers, 0, 2, 15);
	add_numbered("attributes", draw_attributes, 0, 12, 3, 30);
	add_numbered("depth", draw_depth, GL_NEVER, 8, 1, 15);
	add_numbered("polygon offset", draw_offset, 0, 2, 1, 15);
	add_numbered("stencil", draw_stencil, 0, 8, 2, 15);
	add_numbered("blending", draw_blended, 0, 15, 3, 15);
	add_numbered("culling", draw_culled, 0, 8, 1, 15);
	add_numbered("masks", draw_masked, 3, 4, 1, 15);
	add_numbered("viewports", draw_viewport, 0, 2, 2, 15);
	add_numbered("clipping", draw_clipped, 0, 4, 3, 25);
	add_numbered("nearest texels", draw_format, 0, 8, 1, 15);
	add_numbered("filtered texels", draw_format, 8, 8, 3, 15);
	add_numbered("wrapping", draw_wrapped, 0, 6, 3, 30);
	add_numbered("compressed texels", draw_compressed, 0, 2, 3, 15);
	add_numbered("sizes", draw_sized, 0, 4, 1, 15);
	add_numbered("levels", draw_levels, 0, 8, 10, 80);
	add_numbered("levels made", draw_made_levels, 0, 5, 3, 15);
	add("cube, nearest texels", draw_cube, 0, 2, 20);
	add("cube, filtered texels", draw_cube, 1, 8, 20);
	add_numbered("perspective", draw_perspective, 0, 2, 4, 40);
	/* Where the ring ends the texture turns away, and changes from pixel to pixel. */
	add("a lit ring", draw_ring, 0, 8, 20);
	add_numbered("drawn and read", draw_rendered, 0, 2, 1, 20);
	add("a texture for vertices", draw_moved, 0, 3, 40);
	for (int i = 0; i < (int)COUNT(expressions); i++)
		add(expressions[i].name, draw_expression, i, 2, 20);
	for (int i = 0; i < (int)COUNT(bodies); i++)
		add(bodies[i].name, draw_body, i, 3, 30);
	add_numbered("vertex shader", draw_vertex_shader, 0, 4, 3, 30);
}

/* ---- comparison ---- */

/* How many pixels of one are not between those around them of the other; `at` is the last. */
static int strays(const struct scene *scene, uint8_t (*one)[4], uint8_t (*other)[4], int *at)
{
	int count = 0;

	for (int i = 0; i < PIXELS; i++) {
		int x = i % WIDTH, y = i / WIDTH;

		for (int channel = 0; channel < 4; channel++) {
			int least = 255, most = 0, value = one[i][channel];

			for (int row = y - scene->reach; row <= y + scene->reach; row++)
				for (int column = x - scene->reach; column <= x + scene->reach; column++) {
					int there;

					if (row < 0 || row >= HEIGHT || column < 0 || column >= WIDTH)
						continue;
					there = other[row * WIDTH + column][channel];
					least = there < least ? there : least;
					most = there > most ? there : most;
				}
			if (value < least - scene->tolerance || value > most + scene->tolerance) {
				*at = i;
				count++;
				break;
			}
		}
	}
	return count;
}

static void compare(const struct scene *scene)
{
	int differ = 0, first = -1, at = 0;

	for (int i = 0; i < PIXELS; i++) {
		int is_other = 0;

		for (int channel = 0; channel < 4; channel++)
			is_other |= abs(found[i][channel] - kept[i][channel]) > scene->tolerance;
		differ += is_other;
		if (is_other && first < 0)
			first = i;
	}
	if (differ * 1000 > scene->share * PIXELS)
		at = first;
	else if (strays(scene, found, kept, &at) + strays(scene, kept, found, &at) <= scene->strays)
		return;
	fail("%d of %d pixels differ, for instance %d,%d: %02x%02x%02x%02x, not %02x%02x%02x%02x", differ, PIXELS,
	     at % WIDTH, at / WIDTH, found[at][0], found[at][1], found[at][2], found[at][3], kept[at][0], kept[at][1],
	     kept[at][2], kept[at][3]);
}

/* Something must have been drawn: a picture of one colour is no test, but of what draws nothing. */
static void look(const struct scene *scene)
{
	int is_plain = 1;

	for (int i = 1; i < PIXELS; i++)
		is_plain &= !memcmp(found[i], found[0], 4);
	if (is_plain && !(scene->draw == draw_depth && scene->number == GL_NEVER))
		fail("a picture of one colour");
}

static void new_target(void)
{
	GLuint framebuffer, renderbuffers[2];

	glGenFramebuffers(1, &framebuffer);
	glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
	glGenRenderbuffers(2, renderbuffers);
	glBindRenderbuffer(GL_RENDERBUFFER, renderbuffers[0]);
	glRenderbufferStorage(GL_RENDERBUFFER, GL_RGBA8_OES, WIDTH, HEIGHT);
	glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_RENDERBUFFER, renderbuffers[0]);
	glBindRenderbuffer(GL_RENDERBUFFER, renderbuffers[1]);
	glRenderbufferStorage(GL_RENDERBUFFER, GL_DEPTH24_STENCIL8_OES, WIDTH, HEIGHT);
	glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_DEPTH_ATTACHMENT, GL_RENDERBUFFER, renderbuffers[1]);
	glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_STENCIL_ATTACHMENT, GL_RENDERBUFFER, renderbuffers[1]);
	if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE)
		fail("the framebuffer is not complete");
	view(0, 0, WIDTH, HEIGHT);
	glDisable(GL_DITHER);
	glDisable(GL_DEPTH_TEST);
	glClearColor(0.125f, 0.25f, 0.375f, 0.5f);
	glClearDepthf(0.5f);
	glClearStencil(0x55);
	glClear(GL_COLOR_BUFFER_BIT | GL_DEPTH_BUFFER_BIT | GL_STENCIL_BUFFER_BIT);
}

static void run(const struct scene *scene, unsigned int number, const char *folder, int keeps)
{
	char path[256];
	FILE *file;

	random_for(scene->name);
	new_target();
	scene->draw(scene->number);
	memset(found, 0x5a, sizeof(found));
	glReadPixels(0, 0, WIDTH, HEIGHT, GL_RGBA, GL_UNSIGNED_BYTE, found);
	look(scene);
	snprintf(path, sizeof(path), "%s/%u", folder, number);
	file = fopen(path, keeps ? "wb" : "rb");
	if (!file || (keeps ? fwrite(found, sizeof(found), 1, file) : fread(kept, sizeof(kept), 1, file)) != 1)
		fail("%s: no picture", path);
	else if (!keeps)
		compare(scene);
	if (file)
		fclose(file);
}

/* Another context: what was made for the scenes goes with the one before. */
static void renew(void)
{
	EGLSurface surface = eglGetCurrentSurface(EGL_DRAW);

	eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
	eglDestroySurface(display, surface);
	eglDestroyContext(display, context);
	if (!made_current())
		fail("EGL error %#x", eglGetError());
}

/* A draw whose pixels never end. */
static void draw_endless(void)
{
	new_target();
	program(WHOLE_VERTEX, WHOLE_HEAD "void main() {\n"
					 "	float x = at.x;\n"
					 "	while (x < u.x) x *= 0.5;\n"
					 "	gl_FragColor = vec4(x);\n"
					 "}\n");
	glUniform4f(uniform("u"), 2.0f, 0.0f, 0.0f, 0.0f);
	whole();
	glFinish();
}

int main(int count, char **words)
{
	unsigned int number = 0, wanted = 0, times = 1;
	int failed = 0, keeps, hangs;
	char **texts;

	if (count < 3 || (strcmp(words[1], "--keep") && strcmp(words[1], "--compare"))) {
		fprintf(stderr, "usage: mesa-shaders --keep|--compare FOLDER [--some|--hang|--times N] [TEXT]...\n");
		return 2;
	}
	keeps = !strcmp(words[1], "--keep");
	texts = words + 3;
	has_some = *texts && !strcmp(*texts, "--some");
	hangs = *texts && !strcmp(*texts, "--hang");
	if (*texts && !strcmp(*texts, "--times") && texts[1])
		times = (unsigned int)atoi(*++texts);
	texts += has_some || hangs || times > 1;
	list();
	for (unsigned int i = 0; i < scene_count; i++)
		wanted += (unsigned int)has_one_of(scenes[i].name, texts);
	if (!start(wanted))
		return 1;
	if (hangs)
		draw_endless();
	for (unsigned int i = 0; i < scene_count; i++)
		if (has_one_of(scenes[i].name, texts)) {
			has_failed = 0;
			for (unsigned int j = 0; j < times; j++) {
				if (j % 16 == 15)
					renew();
				run(&scenes[i], i, words[2], keeps);
			}
			failed |= tell(++number, scenes[i].name);
		}
	return failed;
}
