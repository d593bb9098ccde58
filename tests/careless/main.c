// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of careless but reasonable programs, with a client library for each generation: pictures
 * drawn with the 2D engine and the resolve engine, in every kind of memory; calls in unusual
 * orders; threads; processes that fork. Every pixel is compared with a software rendering.
 *
 * With --random, several threads make the same calls in random order, for this time in each
 * generation. With --fuzz, all commands of each generation are sent with random payloads, this
 * many in total.
 *
 * --named PROGRAM:GENERATION:VERSION describes a program in the module's parameters, which must
 * use this generation and get this version as the answer.
 *
 * Generations that only their name distinguishes run only the main part of the tests; with --all,
 * they run all tests.
 *
 * usage: careless [--all] [--named PROGRAM:GENERATION:VERSION]...
 *        careless --random MILLISECONDS
 *        careless --fuzz CALLS [SEED]
 *        careless --draw GENERATION ROUNDS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "draw.h"

#define FOREVER 20000u
#define THREADS 4

/* Properties of the board, even if a generation cannot report them. */
static struct {
	uint32_t model;
	int has_2d, has_3d;
	/* One core has both engines. */
	int has_both;
	uint32_t identity[2][IDENTITY_WORDS];
} board;

static _Thread_local char reason[240];
static _Thread_local uint32_t seed = 1;
static unsigned int number, failed;
enum manner manner;
const uint32_t *claimed_version;

int because(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	return -1;
}

uint32_t any(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

void scribble(void *memory, size_t bytes)
{
	uint32_t *words = memory;
	size_t n;

	for (n = 0; n < bytes / 4; n++)
		words[n] = any();
}

/*
 * The generation that the driver detects from a program's requests. Requests of these programs
 * never conflict with the detected generation, except in the identity, which the programs ask for
 * before the driver could notice. Documentation/generations.md describes what these programs
 * lose, and how a user can select the generation.
 */
static const struct {
	const char *name, *taken, *on_gc600;
} alike[] = {
	/* Without any difference, programs of dove_old are taken for Dove's; their signals and contexts
	 * differ. */
	{ "dove_old", "v2", "dove_old" },
	{ "v2", "v2", "dove_old" },
	{ "4.1.0", "4.0.0", "4.0.0" },
	{ "5.0.11.p6", "5.0.11.p8", "5.0.11.p8" },
};

static const char *taken_for(const char *name)
{
	unsigned int n;

	for (n = 0; n < sizeof(alike) / sizeof(*alike); n++)
		if (strcmp(name, alike[n].name) == 0)
			return board.model == 0x600 ? alike[n].on_gc600 : alike[n].taken;
	return name;
}

/* Whether its identity is that of another generation. */
static int has_lost_identity(const char *name)
{
	if (strcmp(name, "dove") == 0 || strcmp(name, "dove_old") == 0)
		return board.model != 0x600;
	if (strcmp(name, "v2") == 0)
		return board.model == 0x600;
	return strcmp(name, "4.1.0") == 0 || strcmp(name, "5.0.11.p6") == 0;
}

static void report(const char *of, const char *name, int result)
{
	if (result) {
		printf("# %s\nnot ok %u - %s: %s\n", reason, ++number, of, name);
		failed++;
	} else {
		printf("ok %u - %s: %s\n", ++number, of, name);
	}
	fflush(stdout);
}

static unsigned int pixel_pipes(void)
{
	return board.model == 0x2000 || board.model == 0x3000 ? 2 : 1;
}

static enum engine an_engine(void)
{
	return board.has_2d ? ENGINE_2D : ENGINE_3D;
}

static enum entry an_entry(enum engine engine)
{
	if (engine == ENGINE_3D)
		return ENTRY_NAMED;
	return any() % (board.has_both ? 3 : 2);
}

/* A surface and its expected pixels. */
struct surface {
	struct memory memory;
	uint32_t *soft;
	/* The program's own memory. */
	void *own;
	enum { OF_POOL, MAPPED, WRAPPED } kind;
};

#define SURFACE_BYTES ((BYTES + 4095) & ~4095u)

static int make_surface(struct session *s, struct surface *surface, enum pool pool)
{
	memset(surface, 0, sizeof(*surface));
	surface->soft = calloc(PIXELS, 4);
	if (surface->soft == NULL)
		return because("no memory");
	if (s->library->allocate(s, &surface->memory, BYTES, pool) || s->library->query(s))
		return -1;
	return s->library->lock(s, &surface->memory);
}

static int make_own_surface(struct session *s, struct surface *surface, int is_wrapped)
{
	void *const wish = WISH(0xa0000000u + (any() & 0xfff000));
	const struct library *l = s->library;

	memset(surface, 0, sizeof(*surface));
	surface->kind = is_wrapped ? WRAPPED : MAPPED;
	surface->soft = calloc(PIXELS, 4);
	surface->own = mmap(wish, SURFACE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (surface->soft == NULL || surface->own == MAP_FAILED)
		return because("no memory");
	if (!IS_HIGH(surface->own))
		return because("mapped at %p", surface->own);
	memset(surface->own, 0, SURFACE_BYTES);
	if (is_wrapped ? l->wrap(s, &surface->memory, surface->own, SURFACE_BYTES) :
			 l->map(s, &surface->memory, surface->own, SURFACE_BYTES))
		return -1;
	return l->cache(s, &surface->memory, CACHE_FLUSH);
}

/* Frees a surface. The remaining work goes into a queue, as events; returns their number. */
static int drop_surface(struct session *s, struct surface *surface, struct event *events)
{
	const struct library *l = s->library;
	int later, status, n = 0;

	if (surface->kind == MAPPED) {
		events[n++] = (struct event){ .kind = EVENT_UNMAP, .memory = &surface->memory };
		return n;
	}
	later = l->unlock(s, &surface->memory);
	if (later < 0)
		return -1;
	if (later)
		events[n++] = (struct event){ .kind = EVENT_UNLOCK, .memory = &surface->memory };
	if (l->releases) {
		status = l->release(s, &surface->memory);
		if (status)
			return because("release: %d", status);
	} else {
		events[n++] = (struct event){ .kind = EVENT_FREE, .memory = &surface->memory };
	}
	return n;
}

/* Frees a surface and waits for the end. */
static int end_surface(struct session *s, struct surface *surface)
{
	const struct library *l = s->library;
	struct event events[3];
	int n = drop_surface(s, surface, events);

	if (n < 0)
		return -1;
	events[n++] = (struct event){ .kind = EVENT_SIGNAL, .signal = s->done };
	if (l->queue(s, events, n))
		return -1;
	if (l->wait(s, s->done, FOREVER))
		return because("what frees a surface has no end");
	free(surface->soft);
	if (surface->own)
		munmap(surface->own, SURFACE_BYTES);
	return 0;
}

static int look(const char *what, const struct surface *surface)
{
	unsigned int n, wrong = 0, first = 0;

	for (n = 0; n < PIXELS; n++)
		if (surface->memory.words[n] != surface->soft[n] && wrong++ == 0)
			first = n;
	if (wrong == 0)
		return 0;
	return because("%s: %u of %u pixels are wrong, at %u, %u first: %#x, not %#x", what, wrong,
		       PIXELS, first % WIDTH, first / WIDTH,
		       (unsigned int)surface->memory.words[first], surface->soft[first]);
}

static struct painter *painter(enum engine engine)
{
	static _Thread_local struct painter painter;

	painter.engine = engine;
	painter.pixel_pipes = pixel_pipes();
	painter.stream.count = 0;
	return &painter;
}

static int submit(struct session *s, struct painter *p, const struct event *events,
		  unsigned int count)
{
	flush(p);
	return s->library->commit(s, p->stream.words, p->stream.count, an_entry(s->engine), events,
				  count);
}

static void fill_both(struct painter *p, struct surface *to, struct rect rect)
{
	const uint32_t colour = any();

	fill(p, to->memory.address, rect, colour);
	soft_fill(to->soft, rect, colour);
}

static void copy_both(struct painter *p, struct surface *from, struct surface *to)
{
	const struct rect rect = any_rect(p->engine), where = any_rect(p->engine);
	const uint32_t x = where.x + rect.width <= WIDTH ? where.x : 0;
	const uint32_t y = where.y + rect.height <= HEIGHT ? where.y : 0;

	copy(p, from->memory.address, rect, to->memory.address, x, y);
	soft_copy(from->soft, rect, to->soft, x, y);
}

/* Clears, rectangles, and copies, in a few commits; the last one has a signal. */
static int draw(struct session *s, struct surface *source, struct surface *target)
{
	const struct rect all = { 0, 0, WIDTH, HEIGHT };
	const struct event done = { .kind = EVENT_SIGNAL, .signal = s->done };
	struct painter *p;
	int n, part;

	p = painter(s->engine);
	fill_both(p, source, all);
	fill_both(p, target, all);
	if (submit(s, p, NULL, 0))
		return -1;
	for (part = 0; part < 2; part++) {
		p = painter(s->engine);
		for (n = 0; n < 3; n++) {
			fill_both(p, source, any_rect(p->engine));
			fill_both(p, target, any_rect(p->engine));
		}
		copy_both(p, source, target);
		if (submit(s, p, &done, part == 1))
			return -1;
	}
	if (s->library->wait(s, s->done, FOREVER))
		return because("the picture's signal does not come");
	return 0;
}

static int picture(struct session *s, struct surface *source, struct surface *target)
{
	if (draw(s, source, target))
		return -1;
	if (source->kind != OF_POOL &&
	    s->library->cache(s, &source->memory, CACHE_INVALIDATE))
		return -1;
	if (target->kind != OF_POOL &&
	    s->library->cache(s, &target->memory, CACHE_INVALIDATE))
		return -1;
	return look("the source", source) || look("the target", target) ? -1 : 0;
}

static int pool_picture(struct session *s, enum pool first, enum pool second)
{
	struct surface source, target;

	if (make_surface(s, &source, first) || make_surface(s, &target, second) ||
	    picture(s, &source, &target))
		return -1;
	return end_surface(s, &target) || end_surface(s, &source) ? -1 : 0;
}

static int own_picture(struct session *s, int is_wrapped)
{
	struct surface source, target;

	if (make_surface(s, &source, POOL_VIRTUAL) || make_own_surface(s, &target, is_wrapped) ||
	    picture(s, &source, &target))
		return -1;
	return end_surface(s, &target) || end_surface(s, &source) ? -1 : 0;
}

static int pictures(const struct library *l, enum engine engine)
{
	struct session session, *s = &session;

	if (l->start(s, engine, -1))
		return -1;
	if (pool_picture(s, POOL_DEFAULT, POOL_DEFAULT) ||
	    pool_picture(s, POOL_SYSTEM, POOL_VIRTUAL) || pool_picture(s, POOL_VIRTUAL, POOL_SYSTEM))
		return -1;
	if (l->has_map && own_picture(s, 0))
		return -1;
	if (l->has_wrap && own_picture(s, 1))
		return -1;
	return l->stop(s);
}

/* Commits the drawing, and records the loaded states in the context. */
static int submit_and_remember(struct session *s, struct painter *p)
{
	const struct event done = { .kind = EVENT_SIGNAL, .signal = s->done };
	/* FE_VERTEX_ELEMENT_CONFIG: three floats at bytes 0 to 12, two at 12 to 20. */
	const uint32_t element[] = { 0x0c003008, 0x140c2008 };
	const uint32_t *words = p->stream.words;
	unsigned int n;

	/* This drawing uses no vertices, but the program had some before. */
	if (s->commits == 0) {
		for (n = 0; n < 2; n++) {
			p->stream.words[p->stream.count++] = 0x08010000 | (0x600 / 4 + n);
			p->stream.words[p->stream.count++] = element[n];
			s->library->remember(s, 0x600 + 4 * n, element[n]);
		}
		s->library->use_elements(s, 2);
	}
	flush(p);
	for (n = 0; n < p->stream.count; n += 2) {
		const uint32_t address = (words[n] & 0xffff) * 4;

		/* All states of the resolve engine except its start. */
		if (words[n] >> 27 == 1 && address > 0x1600 && address < 0x1800)
			s->library->remember(s, address, words[n + 1]);
	}
	if (s->library->commit(s, words, p->stream.count, ENTRY_NAMED, &done, 1))
		return -1;
	if (s->library->wait(s, s->done, FOREVER))
		return because("no signal");
	return 0;
}

/* Two contexts in turn: states loaded in one context are still there later. */
static int contexts(const struct library *l)
{
	const struct rect all = { 0, 0, WIDTH, HEIGHT }, corner = { 16, 8, 32, 16 };
	struct session first, second;
	struct surface a, b;
	struct painter *p;
	int n;

	if (l->start(&first, ENGINE_3D, -1) || l->start(&second, ENGINE_3D, first.fd) ||
	    make_surface(&first, &a, POOL_DEFAULT) || make_surface(&second, &b, POOL_DEFAULT))
		return -1;
	p = painter(ENGINE_3D);
	fill_both(p, &b, all);
	if (submit_and_remember(&second, p))
		return -1;
	p = painter(ENGINE_3D);
	fill_both(p, &a, all);
	if (submit_and_remember(&first, p))
		return -1;
	for (n = 0; n < 4; n++) {
		const uint32_t colour = any();

		p = painter(ENGINE_3D);
		fill_both(p, &b, corner);
		if (submit_and_remember(&second, p))
			return -1;
		/* Addresses, strides, and window are unchanged. */
		p = painter(ENGINE_3D);
		fill_again(p, colour);
		soft_fill(a.soft, all, colour);
		if (submit_and_remember(&first, p) || look("the first's", &a) ||
		    look("the second's", &b))
			return -1;
	}
	if (end_surface(&first, &a) || end_surface(&second, &b))
		return -1;
	return l->stop(&second) || l->stop(&first) ? -1 : 0;
}

/* A program may free memory right after the commit, with a signal for later. */
static int gives_back_early(struct session *s)
{
	const struct library *l = s->library;
	const struct rect all = { 0, 0, WIDTH, HEIGHT };
	struct surface source, target;
	struct event events[3];
	struct painter *p = painter(s->engine);
	int n;

	if (make_surface(s, &source, POOL_VIRTUAL) || make_surface(s, &target, POOL_DEFAULT))
		return -1;
	fill_both(p, &source, all);
	fill_both(p, &source, any_rect(p->engine));
	copy(p, source.memory.address, all, target.memory.address, 0, 0);
	soft_copy(source.soft, all, target.soft, 0, 0);
	/* From 5.0.11 on, the source is released before its use. */
	n = l->releases ? drop_surface(s, &source, events) : 0;
	if (n < 0)
		return -1;
	events[n++] = (struct event){ .kind = EVENT_SIGNAL, .signal = s->done };
	if (submit(s, p, events, n))
		return -1;
	if (!l->releases) {
		n = drop_surface(s, &source, events);
		if (n < 0 || l->queue(s, events, n))
			return -1;
	}
	if (l->wait(s, s->done, FOREVER))
		return because("no signal");
	free(source.soft);
	return look("the target", &target) || end_surface(s, &target) ? -1 : 0;
}

/* Locks memory twice, unlocks it once in between, and still uses it. */
static int locks_twice(struct session *s, enum pool pool)
{
	const struct library *l = s->library;
	struct surface source, target;
	struct memory again;
	struct event event;
	int later;

	if (make_surface(s, &source, POOL_DEFAULT) || make_surface(s, &target, pool))
		return -1;
	again = target.memory;
	if (l->lock(s, &again))
		return -1;
	if (again.address != target.memory.address || again.words != target.memory.words)
		return because("locked at %#x, %p, and again at %#x, %p", target.memory.address,
			       (void *)target.memory.words, again.address, (void *)again.words);
	later = l->unlock(s, &again);
	event = (struct event){ .kind = EVENT_UNLOCK, .memory = &again };
	if (later < 0 || l->queue(s, &event, later))
		return -1;
	if (picture(s, &source, &target))
		return -1;
	return end_surface(s, &target) || end_surface(s, &source) ? -1 : 0;
}

/* Frees memory while it is locked, and draws to it until the unlock. */
static int frees_locked(struct session *s)
{
	const struct library *l = s->library;
	struct surface source, target;
	struct event event = { .kind = EVENT_UNLOCK, .memory = &target.memory };
	int status, later;

	if (make_surface(s, &source, POOL_DEFAULT) || make_surface(s, &target, POOL_VIRTUAL))
		return -1;
	status = l->release(s, &target.memory);
	/* The drivers that have contexts also wait. */
	if (l->has_contexts && status)
		return because("freed while locked: %d", status);
	if (!l->has_contexts && status == 0)
		return because("freed while locked");
	if (picture(s, &source, &target))
		return -1;
	later = l->unlock(s, &target.memory);
	if (later < 0 || l->queue(s, &event, later))
		return -1;
	if (!l->has_contexts) {
		event.kind = EVENT_FREE;
		if (l->queue(s, &event, 1))
			return -1;
	}
	free(target.soft);
	return end_surface(s, &source);
}

static int orders(const struct library *l)
{
	struct session session, *s = &session;
	const struct event done[] = {
		{ .kind = EVENT_UNKNOWN },
		{ .kind = EVENT_SIGNAL, .signal = 0 },
		{ .kind = EVENT_UNKNOWN },
	};
	struct event events[3];

	if (l->start(s, an_engine(), -1) || gives_back_early(s) || locks_twice(s, POOL_SYSTEM) ||
	    (l->counts_locks && locks_twice(s, POOL_VIRTUAL)) || frees_locked(s))
		return -1;
	/* Sends the same queue twice, with invalid records. */
	memcpy(events, done, sizeof(done));
	events[1].signal = s->done;
	if (l->queue(s, events, 3) || l->queue(s, events, 3))
		return -1;
	if (l->wait(s, s->done, FOREVER))
		return because("the records behind an unknown one do not run");
	/* Consumes the second signal, if it came later. */
	l->wait(s, s->done, 10);
	/* Empty queue, empty commit. */
	if (l->queue(s, NULL, 0) || l->commit(s, NULL, 0, ENTRY_NAMED, NULL, 0))
		return -1;
	if (l->wait(s, 0x7fffffff, 10) == 0)
		return because("a signal that there is not is set");
	if (pool_picture(s, POOL_DEFAULT, POOL_VIRTUAL))
		return -1;
	return l->stop(s);
}

struct worker {
	pthread_t thread;
	const struct library *library;
	/* Descriptor of another thread's session, or -1. */
	int fd;
	uint32_t seed;
	unsigned int milliseconds;
	int result;
	char reason[sizeof(reason)];
};

static int some_pictures(const struct library *l, int fd)
{
	struct session session, *s = &session;

	if (l->start(s, any() % 2 && board.has_3d ? ENGINE_3D : an_engine(), fd))
		return -1;
	if (pool_picture(s, POOL_VIRTUAL, POOL_DEFAULT))
		return -1;
	if (l->has_wrap && own_picture(s, 1))
		return -1;
	return l->stop(s);
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	seed = worker->seed;
	worker->result = some_pictures(worker->library, worker->fd);
	memcpy(worker->reason, reason, sizeof(reason));
	return NULL;
}

/* Runs body in threads. Half of them share one file. */
static int in_threads(struct session *s, void *(*body)(void *), unsigned int milliseconds)
{
	struct worker workers[THREADS];
	int n, result = 0;

	memset(workers, 0, sizeof(workers));
	for (n = 0; n < THREADS; n++) {
		workers[n].library = s->library;
		workers[n].fd = n % 2 ? s->fd : -1;
		workers[n].seed = any() | 1;
		workers[n].milliseconds = milliseconds;
		if (pthread_create(&workers[n].thread, NULL, body, &workers[n]))
			return because("no thread");
	}
	for (n = 0; n < THREADS; n++) {
		pthread_join(workers[n].thread, NULL);
		if (workers[n].result)
			result = because("thread %d: %s", n, workers[n].reason);
	}
	return result;
}

static int threads(const struct library *l)
{
	struct session session, *s = &session;

	if (l->start(s, an_engine(), -1) || in_threads(s, work, 0) ||
	    pool_picture(s, POOL_DEFAULT, POOL_DEFAULT))
		return -1;
	return l->stop(s);
}

/* Memory that all threads use in any way. The lock protects only the descriptions. */
#define SHARED 8
static struct memory shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static struct memory any_shared(unsigned int *which)
{
	struct memory memory;

	*which = any() % SHARED;
	pthread_mutex_lock(&shared_lock);
	memory = shared[*which];
	pthread_mutex_unlock(&shared_lock);
	return memory;
}

static void put_shared(unsigned int which, struct memory memory)
{
	pthread_mutex_lock(&shared_lock);
	shared[which] = memory;
	pthread_mutex_unlock(&shared_lock);
}

/* Makes one call of any kind, valid or not. The driver may refuse it. */
static void any_call(struct session *s)
{
	const struct library *l = s->library;
	const struct rect all = { 0, 0, WIDTH, HEIGHT };
	struct memory memory, own = { 0 };
	struct event events[3];
	struct painter *p;
	unsigned int which, n;
	void *at;

	memory = any_shared(&which);
	switch (any() % 12) {
	case 0:
	case 1:
		if (memory.node == 0 &&
		    l->allocate(s, &memory, BYTES, any() % 2 ? POOL_VIRTUAL : POOL_DEFAULT) == 0)
			put_shared(which, memory);
		break;
	case 2:
	case 3:
		if (l->lock(s, &memory) == 0)
			put_shared(which, memory);
		break;
	case 4:
		l->unlock(s, &memory);
		break;
	case 5:
		put_shared(which, own);
		l->release(s, &memory);
		break;
	case 6:
	case 7:
		p = painter(s->engine);
		fill(p, memory.address, all, any());
		copy(p, any_shared(&which).address, any_rect(p->engine), memory.address, 0, 0);
		events[0] = (struct event){ .kind = EVENT_SIGNAL, .signal = s->done };
		events[1] = (struct event){ .kind = EVENT_UNLOCK, .memory = &memory };
		submit(s, p, events, any() % 3);
		break;
	case 8:
		for (n = 0; n < 3; n++)
			events[n] = (struct event){ .kind = any() % (EVENT_UNKNOWN + 1),
						    .signal = s->done,
						    .memory = &memory };
		l->queue(s, events, any() % 4);
		break;
	case 9:
		l->wait(s, s->done, any() % 3);
		break;
	case 10:
		l->query(s);
		l->cache(s, &memory, CACHE_FLUSH);
		break;
	case 11:
		at = mmap(WISH(0xa0000000u), SURFACE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			break;
		if (l->has_map && l->map(s, &own, at, SURFACE_BYTES) == 0)
			l->unmap(s, &own);
		munmap(at, SURFACE_BYTES);
		break;
	}
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000ull + time.tv_nsec / 1000000;
}

static void *call_anything(void *argument)
{
	struct worker *worker = argument;
	const uint64_t end = now() + worker->milliseconds;
	struct session session, *s = &session;

	seed = worker->seed;
	worker->result = worker->library->start(
		s, any() % 2 && board.has_3d ? ENGINE_3D : an_engine(), worker->fd);
	while (worker->result == 0 && now() < end)
		any_call(s);
	/* The session's own objects must be unchanged: no other thread had their handles. */
	if (worker->result == 0)
		worker->result = worker->library->stop(s);
	memcpy(worker->reason, reason, sizeof(reason));
	return NULL;
}

static int at_random(const struct library *l, unsigned int milliseconds)
{
	struct session session, *s = &session;
	struct event event = { .kind = EVENT_UNLOCK };
	unsigned int n, locks;

	if (l->start(s, an_engine(), -1) || in_threads(s, call_anything, milliseconds))
		return -1;
	for (n = 0; n < SHARED; n++) {
		event.memory = &shared[n];
		for (locks = 0; locks < 10000 && l->unlock(s, &shared[n]) == 1; locks++)
			if (l->queue(s, &event, 1))
				return -1;
		l->release(s, &shared[n]);
	}
	memset(shared, 0, sizeof(shared));
	if (pool_picture(s, POOL_DEFAULT, POOL_VIRTUAL))
		return -1;
	return l->stop(s);
}

/*
 * Runs in a separate process: threads overwrite each other's nodes and leak them. The leaks last
 * until the process ends, because its views keep the file open.
 */
static int at_random_apart(const struct library *l, unsigned int milliseconds)
{
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	if (child < 0)
		return because("fork");
	if (child == 0) {
		status = at_random(l, milliseconds);
		if (status)
			printf("# %s\n", reason);
		fflush(stdout);
		_exit(status != 0);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return because("it ends by %#x", status);
	return WEXITSTATUS(status) ? because("see above") : 0;
}

/* The child has its parent's files and GPU mappings, and starts its own library. */
static int forks(const struct library *l)
{
	struct session session, *s = &session, own;
	struct surface source, target;
	int status;
	pid_t child;

	if (l->start(s, an_engine(), -1) || make_surface(s, &source, POOL_VIRTUAL) ||
	    make_surface(s, &target, POOL_DEFAULT) || picture(s, &source, &target))
		return -1;
	fflush(stdout);
	child = fork();
	if (child < 0)
		return because("no process");
	if (child == 0) {
		/* Any answer is acceptable. */
		l->query(s);
		if (l->start(&own, an_engine(), -1) ||
		    pool_picture(&own, POOL_VIRTUAL, POOL_DEFAULT)) {
			printf("# the child: %s\n", reason);
			fflush(stdout);
			_exit(1);
		}
		/* Its resources are freed with it. */
		_exit(0);
	}
	if (picture(s, &source, &target))
		return -1;
	if (waitpid(child, &status, 0) != child || status)
		return because("the child's status is %#x", status);
	if (picture(s, &source, &target) || end_surface(s, &target) || end_surface(s, &source))
		return -1;
	return l->stop(s);
}

/* Checks that registers, instructions and so on are those of the core, unless the generation is
 * known to lose them. */
static int is_identity_true(const struct library *l, enum engine engine)
{
	struct session session, *s = &session;
	unsigned int n;

	if (l->start(s, engine, -1))
		return -1;
	/* A program that cannot select a core gets the identity of the first one. */
	for (n = 0; n < IDENTITY_WORDS && (l->names_cores || board.has_both); n++)
		if (s->identity_has & 1u << n && s->identity[n] != board.identity[engine][n] &&
		    !has_lost_identity(l->name))
			return because("word %u of the identity is %#x, not %#x", n,
				       s->identity[n], board.identity[engine][n]);
	return l->stop(s);
}

/* Checks the generation that the driver detected for the process. */
static int is_taken_right(const struct library *l)
{
	const char *wanted = l->is_silent ? l->name : taken_for(l->name);
	char line[200], name[32], taken[sizeof(name)] = "nothing";
	struct session session, *s = &session;
	int process;
	FILE *file;

	if (is_identity_true(l, an_engine()) || l->start(s, an_engine(), -1) ||
	    pool_picture(s, POOL_DEFAULT, POOL_VIRTUAL) || (l->has_map && own_picture(s, 0)))
		return -1;
	file = fopen("/sys/kernel/debug/galcore/interface", "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%d %31s", &process, name) == 2 && process == getpid())
			strcpy(taken, name);
	if (file)
		fclose(file);
	if (strcmp(taken, wanted))
		return because("taken for %s, not for %s", taken, wanted);
	return l->stop(s);
}

static const struct library *named(const char *name)
{
	unsigned int n;

	for (n = 0; n < library_count; n++)
		if (strcmp(libraries[n]->name, name) == 0 && libraries[n]->lacks == NULL)
			return libraries[n];
	return NULL;
}

static int probe(void)
{
	const struct library *l = named("4.0.0");
	struct session s;

	if (l == NULL || l->start(&s, ENGINE_2D, -1))
		return -1;
	board.has_2d = s.board_2d;
	board.has_3d = s.board_3d;
	board.has_both = (s.features & 0x201) == 0x201;
	board.model = s.model;
	memcpy(board.identity[ENGINE_2D], s.identity, sizeof(s.identity));
	if (l->stop(&s) || l->start(&s, ENGINE_3D, -1))
		return -1;
	memcpy(board.identity[ENGINE_3D], s.identity, sizeof(s.identity));
	if (s.board_3d) {
		board.has_3d = 1;
		board.has_2d |= s.board_2d;
		board.model = s.model;
	}
	return l->stop(&s);
}

/* Prints the driver's memory statistics as comments. */
static void tell_memory(void)
{
	static const char *const files[] = { "/proc/driver/gc", "/sys/kernel/debug/gc/vidmem",
					     "/sys/kernel/debug/galcore/pending" };
	char line[200];
	unsigned int n;
	FILE *file;

	for (n = 0; n < sizeof(files) / sizeof(*files); n++) {
		file = fopen(files[n], "r");
		while (file && fgets(line, sizeof(line), file))
			printf("# %s", line);
		if (file)
			fclose(file);
	}
}

/* Checks that almost the whole pool can be allocated. */
static int is_all_back(void)
{
	const struct library *l = named("6.4.11");
	struct session session, *s = &session;
	struct memory memory;
	int status;

	if (l->start(s, an_engine(), -1) ||
	    l->allocate(s, &memory, s->pool_bytes - (1 << 20), POOL_SYSTEM)) {
		tell_memory();
		return -1;
	}
	status = l->release(s, &memory);
	if (status)
		return because("release: %d", status);
	return l->stop(s);
}

/* Exits unless the driver answers with its own version; draws otherwise. */
static int insists(const struct library *l)
{
	struct session session, *s = &session;
	int result;

	manner = INSISTS;
	result = l->start(s, an_engine(), -1) || pool_picture(s, POOL_DEFAULT, POOL_VIRTUAL) ||
		 l->stop(s);
	manner = PLAIN;
	return result ? -1 : 0;
}

static int is_thorough;

static int has_all(const struct library *l)
{
	return is_thorough || !l->is_silent;
}

static int tests_of(const struct library *l)
{
	return 2 + board.has_2d + 2 * board.has_3d + (has_all(l) ? 3 : 0);
}

static void all(const struct library *l)
{
	if (board.has_2d)
		report(l->name, "pictures by the 2D engine", pictures(l, ENGINE_2D));
	if (board.has_3d)
		report(l->name, "pictures by the resolve engine", pictures(l, ENGINE_3D));
	if (board.has_3d)
		report(l->name, "contexts in turn", contexts(l));
	if (has_all(l)) {
		report(l->name, "calls in unusual orders", orders(l));
		report(l->name, "threads, on one file and on several", threads(l));
		report(l->name, "a process that forks", forks(l));
	}
	report(l->name, "taken for what it is", is_taken_right(l));
	report(l->name, "runs with its own version alone", insists(l));
}

static int end_of(pid_t child)
{
	int status;

	if (child < 0)
		return because("no process");
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return because("it ends by %#x", status);
	return WEXITSTATUS(status);
}

/* Runs in a separate process: a process has one library, and the driver keeps the generation that
 * it detected. */
static void all_apart(const struct library *l)
{
	pid_t child;
	int result;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		failed = 0;
		all(l);
		_exit(failed);
	}
	result = end_of(child);
	if (result < 0) {
		printf("# %s does not come to its end\n", l->name);
		result = 1;
	}
	failed += result;
	number += tests_of(l);
}

/* Draws repeatedly, in a separate process, after the other process is also ready. */
static int draw_beside(const struct library *l, unsigned int rounds, int ready, int go)
{
	struct session session, *s = &session;
	char byte = 0;

	if (l->start(s, an_engine(), -1))
		return -1;
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1)
		return because("no other process");
	while (rounds--)
		if (pool_picture(s, rounds % 2 ? POOL_VIRTUAL : POOL_DEFAULT, POOL_DEFAULT))
			return -1;
	return l->stop(s);
}

#define ROUNDS "6"

struct beside {
	pid_t process;
	int ready;
};

/* program: NULL means this program. The new process has only its two pipe ends. */
static struct beside draws(const char *program, const char *generation, int go)
{
	struct beside beside = { .process = -1, .ready = -1 };
	int ready[2];

	if (pipe2(ready, O_CLOEXEC))
		return beside;
	fflush(stdout);
	beside.process = fork();
	if (beside.process == 0) {
		dup2(ready[1], 1);
		dup2(go, 0);
		execl(program ? program : "/proc/self/exe", "careless", "--draw", generation, ROUNDS,
		      NULL);
		_exit(127);
	}
	close(ready[1]);
	beside.ready = ready[0];
	return beside;
}

/* Programs of two generations at the same time, of two widths if program has the other one. */
static int at_once(const char *program, const char *first, const char *second)
{
	const char *const names[] = { first, second };
	struct beside both[2];
	int go[2], n, started = 0, result = 0;
	char bytes[2];

	if (pipe2(go, O_CLOEXEC))
		return because("no pipe");
	both[0] = draws(NULL, first, go[0]);
	both[1] = draws(program, second, go[0]);
	for (n = 0; n < 2; n++)
		started += read(both[n].ready, bytes, 1) == 1;
	/* A single program would be useless. Without a byte, it ends. */
	if (started == 2 && write(go[1], bytes, 2) != 2)
		result = because("the pipe takes nothing");
	close(go[1]);
	for (n = 0; n < 2; n++) {
		if (end_of(both[n].process))
			result = because("the program of %s fails: see stderr", names[n]);
		close(both[n].ready);
	}
	close(go[0]);
	return result;
}

/* Path of the 32-bit build of a 64-bit program, in the same folder; "" if there is none. */
static const char *narrow_form(void)
{
	static char path[300];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length < 3 || strcmp(path + length - 3, "-64"))
		return "";
	path[length - 3] = 0;
	return access(path, X_OK) ? "" : path;
}

static const struct {
	const char *first, *second, *narrow;
} pairs[] = {
	{ "4.0.0", "6.4.11", "v4" },
	{ "5.0.11.p8", "6.4.3-nxp", "dove" },
	{ "6.2.4.p2", "6.4.21.1", "6.4.13" },
};

#define PAIRS ((unsigned int)(sizeof(pairs) / sizeof(*pairs)))

static void two_at_once(const char *narrow)
{
	char name[100];
	unsigned int n;

	for (n = 0; n < PAIRS; n++) {
		snprintf(name, sizeof(name), "%s and %s", pairs[n].first, pairs[n].second);
		report("two at once", name, at_once(NULL, pairs[n].first, pairs[n].second));
		if (*narrow == 0)
			continue;
		snprintf(name, sizeof(name), "%s with 64 bits and %s with 32", pairs[n].first,
			 pairs[n].narrow);
		report("two at once", name, at_once(narrow, pairs[n].first, pairs[n].narrow));
	}
}

/* A program that the module's parameters name, and the same under another name. */
static int is_named(const char *description)
{
	char name[16], generation[16];
	struct session session, *s = &session;
	uint32_t version[4];
	const struct library *l;

	if (sscanf(description, "%15[^:]:%15[^:]:%u.%u.%u.%u", name, generation, &version[0],
		   &version[1], &version[2], &version[3]) != 6)
		return because("not PROGRAM:GENERATION:VERSION");
	l = named(generation);
	if (l == NULL)
		return because("no %s", generation);
	manner = NAMED;
	claimed_version = version;
	prctl(PR_SET_NAME, "somebody");
	if (l->start(s, an_engine(), -1) == 0)
		return because("any program is answered its version");
	if (strncmp(reason, "VERSION", 7))
		return -1;
	/* Closes the file, like a library that exits. */
	close(s->fd);
	prctl(PR_SET_NAME, name);
	if (l->start(s, an_engine(), -1) || pool_picture(s, POOL_DEFAULT, POOL_VIRTUAL))
		return -1;
	return l->stop(s);
}

static void named_apart(const char *description)
{
	pid_t child;
	int result;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		result = is_named(description);
		if (result)
			printf("# %s\n", reason);
		fflush(stdout);
		_exit(result != 0);
	}
	result = end_of(child);
	report("by parameter", description, result > 0 ? because("see above") : result);
}

/* Commands of a generation with random contents, then a picture. */
static int fuzz(const struct library *l, unsigned int calls)
{
	const unsigned int calls_of_a_file = 250;
	struct session session, *s = &session;
	uint32_t statuses = 0;
	unsigned int part;

	for (; calls; calls -= part) {
		part = calls < calls_of_a_file ? calls : calls_of_a_file;
		if (l->fuzz(part, &statuses))
			return -1;
	}
	printf("# %s: statuses %#x\n", l->name, statuses);
	if (__builtin_popcount(statuses) < 4)
		return because("nothing was looked at");
	if (l->start(s, an_engine(), -1) || pool_picture(s, POOL_DEFAULT, POOL_VIRTUAL))
		return -1;
	return l->stop(s);
}

/* Random mappings keep a file open until the process ends. */
static int fuzz_apart(const struct library *l, unsigned int calls)
{
	pid_t child;
	int result;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		manner = INSISTS;
		result = fuzz(l, calls);
		if (result)
			printf("# %s\n", reason);
		fflush(stdout);
		_exit(result != 0);
	}
	result = end_of(child);
	return result > 0 ? because("see above") : result;
}

static void lacks(const struct library *l)
{
	printf("ok %u - %s # SKIP %s\n", ++number, l->name, l->lacks);
	fflush(stdout);
}

static int draw_alone(const char *generation, unsigned int rounds)
{
	const struct library *l = named(generation);
	int result = l == NULL ? because("no library") : draw_beside(l, rounds, 1, 0);

	if (result)
		fprintf(stderr, "%s: %s\n", generation, reason);
	return result != 0;
}

/* Tests the programs named in the arguments, or only counts them. Returns their number. */
static unsigned int test_named(int count, char **arguments, int is_counted)
{
	unsigned int found = 0;
	int n;

	for (n = 1; n + 1 < count; n++) {
		if (strcmp(arguments[n], "--named"))
			continue;
		found++;
		if (!is_counted)
			named_apart(arguments[n + 1]);
	}
	return found;
}

static unsigned int planned(int count, char **arguments, const char *narrow, int is_usual)
{
	unsigned int n, tests = 1;

	for (n = 0; n < library_count; n++)
		tests += libraries[n]->lacks || !is_usual ? 1 : tests_of(libraries[n]);
	if (is_usual)
		tests += PAIRS * (*narrow ? 2 : 1) + test_named(count, arguments, 1);
	return tests;
}

int main(int count, char **arguments)
{
	const int is_random = count == 3 && strcmp(arguments[1], "--random") == 0;
	const int is_fuzz = count >= 3 && strcmp(arguments[1], "--fuzz") == 0;
	const int is_usual = !is_random && !is_fuzz;
	const unsigned int first_seed = is_fuzz && count > 3 ? atoi(arguments[3]) << 16 : 0x5eed0000;
	const char *narrow = narrow_form();
	unsigned int n;

	is_thorough = count > 1 && strcmp(arguments[1], "--all") == 0;
	if (probe()) {
		printf("KTAP version 1\n1..1\n");
		report("start", "the board", -1);
		return 1;
	}
	if (count == 4 && strcmp(arguments[1], "--draw") == 0)
		return draw_alone(arguments[2], atoi(arguments[3]));
	printf("KTAP version 1\n1..%u\n", planned(count, arguments, narrow, is_usual));
	printf("# GC%x, 2D %d, 3D %d, both in one %d; %zu bits\n", board.model, board.has_2d,
	       board.has_3d, board.has_both, sizeof(void *) * 8);
	for (n = 0; n < library_count; n++) {
		const struct library *l = libraries[n];

		seed = first_seed + n + 1;
		if (l->lacks)
			lacks(l);
		else if (is_random)
			report(l->name, "anything from several threads",
			       at_random_apart(l, atoi(arguments[2])));
		else if (is_fuzz)
			report(l->name, "payloads at random",
			       fuzz_apart(l, atoi(arguments[2]) / library_count));
		else
			all_apart(l);
	}
	if (is_usual) {
		two_at_once(narrow);
		test_named(count, arguments, 0);
	}
	report("at the end", "all memory is back", is_all_back());
	return failed != 0;
}
