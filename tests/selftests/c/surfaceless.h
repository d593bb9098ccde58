/* SPDX-License-Identifier: GPL-2.0-only */
/* What programs that judge Mesa have in common: GLES2 without a window, random numbers, and results as KTAP. */
#ifndef SURFACELESS_H
#define SURFACELESS_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GLES2/gl2.h>
#include <GLES2/gl2ext.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static int has_failed;
static EGLDisplay display;
static EGLConfig config;
static EGLContext context;
static uint32_t random_state = 1;

/* What runs has failed; the first reason is told. */
__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list arguments;

	if (!has_failed) {
		printf("# ");
		va_start(arguments, format);
		vprintf(format, arguments);
		va_end(arguments);
		printf("\n");
	}
	has_failed = 1;
}

/* The same numbers for the same name, whatever was drawn before. */
static inline void random_for(const char *name)
{
	random_state = 2166136261u;
	for (; *name; name++)
		random_state = (random_state ^ (uint8_t)*name) * 16777619u;
	random_state |= 1;
}

static uint32_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

static int random_below(int limit)
{
	return (int)(random_word() % (uint32_t)limit);
}

/*
 * Whether a name is wanted: it has one of the texts in it, or there are none. A text that begins with ! is a whole name
 * that is not.
 */
static int has_one_of(const char *name, char **texts)
{
	int is_wanted = 1, has_texts = 0;

	for (; *texts; texts++) {
		if (**texts == '!') {
			if (!strcmp(name, *texts + 1))
				return 0;
			continue;
		}
		if (!has_texts++)
			is_wanted = 0;
		is_wanted |= strstr(name, *texts) != NULL;
	}
	return is_wanted;
}

static int made_current(void)
{
	static const EGLint attributes[] = { EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_ES2_BIT,
					     EGL_RED_SIZE, 8, EGL_GREEN_SIZE, 8, EGL_BLUE_SIZE, 8, EGL_ALPHA_SIZE, 8,
					     EGL_NONE };
	static const EGLint client[] = { EGL_CONTEXT_CLIENT_VERSION, 2, EGL_NONE };
	static const EGLint size[] = { EGL_WIDTH, 16, EGL_HEIGHT, 16, EGL_NONE };
	EGLSurface surface;
	EGLint count = 0;

	display = eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, NULL);
	if (!eglInitialize(display, NULL, NULL) || !eglBindAPI(EGL_OPENGL_ES_API) ||
	    !eglChooseConfig(display, attributes, &config, 1, &count) || count < 1)
		return 0;
	context = eglCreateContext(display, config, EGL_NO_CONTEXT, client);
	surface = eglCreatePbufferSurface(display, config, size);
	if (!eglMakeCurrent(display, surface, surface, context))
		return 0;
	glPixelStorei(GL_PACK_ALIGNMENT, 1);
	glPixelStorei(GL_UNPACK_ALIGNMENT, 1);
	return 1;
}

/* Begins to tell of so many checks, and starts GLES2. */
static int start(unsigned int checks)
{
	printf("KTAP version 1\n1..%u\n", checks);
	if (!made_current()) {
		printf("Bail out! EGL error %#x\n", eglGetError());
		return 0;
	}
	printf("# %s, %s\n", (const char *)glGetString(GL_RENDERER), (const char *)glGetString(GL_VERSION));
	return 1;
}

/* Tells what came of a check; whether it has failed. */
static int tell(unsigned int number, const char *name)
{
	GLenum error = glGetError();

	if (error != GL_NO_ERROR)
		fail("GL error %#x", error);
	printf("%s %u - %s\n", has_failed ? "not ok" : "ok", number, name);
	fflush(stdout);
	return has_failed;
}

#endif
