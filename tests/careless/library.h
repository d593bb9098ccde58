/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A client library of each generation of the interface, as one author's library is of another's
 * driver: it clears nothing, extends signs, and leaves to chance what a command does not use. It
 * shares nothing with the client of the other tests, nor with the headers of this driver. What a
 * library of a generation is compiled from lies in library.c, once for each, in a program of 32
 * bits and in one of 64.
 */
#include <stddef.h>
#include <stdint.h>

enum engine { ENGINE_3D, ENGINE_2D };

/* How the commands' first engine is told. */
enum entry {
	/* entryPipe names it. */
	ENTRY_NAMED,
	/* entryPipe is left 0, the commands select 2D at their start. */
	ENTRY_SELECTED,
	/* The same, and they select 3D again at their end. */
	ENTRY_SELECTED_AND_BACK,
};

enum pool { POOL_DEFAULT, POOL_SYSTEM, POOL_VIRTUAL };

enum cache { CACHE_CLEAN = 1, CACHE_INVALIDATE = 2, CACHE_FLUSH = 3 };

struct memory {
	uint64_t node;
	uint32_t address;
	uint32_t pool;
	uint32_t bytes;
	/* What the program's own memory is named by to end the mapping. */
	uint32_t info;
	volatile uint32_t *words;
};

struct event {
	enum { EVENT_SIGNAL, EVENT_UNLOCK, EVENT_FREE, EVENT_UNMAP, EVENT_UNKNOWN } kind;
	int32_t signal;
	const struct memory *memory;
};

#define MOST_STATES 64
#define MOST_DELTAS 8

/* What identities of many generations tell, and all the same. */
enum identity {
	IDENTITY_REGISTERS,
	IDENTITY_THREADS,
	IDENTITY_SHADERS,
	IDENTITY_VERTEX_CACHE,
	IDENTITY_INSTRUCTIONS,
	IDENTITY_WORDS,
};

struct session {
	const struct library *library;
	int fd;
	/* Another session's descriptor, which has mapped the pool. */
	int is_guest;
	enum engine engine;
	/* gceHARDWARE_TYPE, by the generation's numbers. */
	uint32_t hardware;
	uint32_t model;
	uint32_t features;
	uint32_t identity[IDENTITY_WORDS];
	/* Which of these the generation has, as bits. */
	uint32_t identity_has;
	/* What any of the board's cores has. */
	int board_2d, board_3d;
	void *pool;
	uint64_t pool_bytes;
	uint32_t pool_handle;
	uint32_t context;
	int32_t done;
	/* Command memory, and what of it is used. */
	struct memory commands;
	uint32_t commands_handle;
	uint32_t used;
	/* The oldest generations: a gcoCONTEXT, and the states that it names. */
	void *own_context;
	struct memory states;
	uint32_t states_handle;
	uint32_t in_use;
	unsigned int commits;
	/* What the commands have loaded and the context does not have yet, or all that it is to have. */
	struct {
		uint32_t address, value;
	} states_loaded[MOST_STATES];
	unsigned int states_count;
	/* Vertex elements in use; 0: as before. */
	unsigned int elements;
	/*
	 * gcsSTATE_DELTAs and their records. Where the driver counts references, the last one that it
	 * has taken is added to, and the one behind it is next; else there is one at a time.
	 */
	struct {
		void *delta, *records;
	} deltas[MOST_DELTAS];
	unsigned int current, previous;
	int has_previous;
};

struct library {
	const char *name;
	/* Why there is none in a program of this width; then all else is missing. */
	const char *lacks;
	/* Whether nothing that it does tells it from others of its size: it says what it is. */
	int is_silent;
	/* Opens the device and goes through start-up; fd is another session's, or -1. */
	int (*start)(struct session *session, enum engine engine, int fd);
	int (*stop)(struct session *session);
	int (*query)(struct session *session);
	int (*allocate)(struct session *session, struct memory *memory, uint32_t bytes,
			enum pool pool);
	int (*lock)(struct session *session, struct memory *memory);
	/* Ends a lock: 1 if its second half must follow in a queue. */
	int (*unlock)(struct session *session, const struct memory *memory);
	/* Gives a handle back; the status. */
	int (*release)(struct session *session, const struct memory *memory);
	/* The program's own memory: a mapping, or a locked node where there is WRAP_USER_MEMORY. */
	int (*map)(struct session *session, struct memory *memory, void *at, uint32_t bytes);
	int (*wrap)(struct session *session, struct memory *memory, void *at, uint32_t bytes);
	int (*unmap)(struct session *session, const struct memory *memory);
	int (*cache)(struct session *session, const struct memory *memory, enum cache what);
	int (*signal)(struct session *session, int32_t *signal);
	int (*destroy)(struct session *session, int32_t signal);
	/* The status: 0 set, else not. */
	int (*wait)(struct session *session, int32_t signal, uint32_t milliseconds);
	int (*commit)(struct session *session, const uint32_t *words, unsigned int count,
		      enum entry entry, const struct event *events, unsigned int number);
	/* Notes for the session's context that a state has been loaded, by its byte address. */
	void (*remember)(struct session *session, uint32_t address, uint32_t value);
	/* The same of how many vertex elements there are. */
	void (*use_elements)(struct session *session, unsigned int count);
	int (*queue)(struct session *session, const struct event *events, unsigned int number);
	/*
	 * Opens the device, says what it is, and sends commands with payloads at random; the number
	 * of statuses that came, each as a bit of statuses.
	 */
	int (*fuzz)(unsigned int calls, uint32_t *statuses);
	/* What differs between generations. */
	int has_wrap, has_map, counts_locks, releases, has_contexts, names_cores;
};

/* All of them, oldest first. */
extern const struct library *const libraries[];
extern const unsigned int library_count;

/* How a library begins. */
extern enum manner {
	PLAIN,
	/* Says what it is, and ends unless VERSION is its own, as most do. */
	INSISTS,
	/* Ends so, too, and leaves it to the module's parameters to say what it is. */
	NAMED,
} manner;

/* The version that it takes for its own; NULL: that of its facts. */
extern const uint32_t *claimed_version;

/*
 * Wishes for memory of the program's own: above 2 GiB, so that addresses have a sign; in a 64-bit
 * program above 4 GiB as well, where the low half alone is nothing's.
 */
#if UINTPTR_MAX > UINT32_MAX
#define HIGH 0x5500000000u
#define IS_HIGH(at) ((uintptr_t)(at) > UINT32_MAX)
#else
#define HIGH 0u
#define IS_HIGH(at) ((uintptr_t)(at) >= 0x80000000u)
#endif
#define WISH(place) ((void *)(uintptr_t)(HIGH + (place)))

/* Where a test was left, and why; -1. */
int because(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fills memory with what may be anything. */
void scribble(void *memory, size_t bytes);
uint32_t any(void);

/* Scribbled memory up there, with nothing behind it; and its end. */
void *take(size_t bytes);
void give_back(void *memory, size_t bytes);
