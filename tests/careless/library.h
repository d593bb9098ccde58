/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A client library for each generation of the interface, written like an independent author's: it
 * clears no memory, extends signs, and leaves fields that a command does not use uninitialized.
 * It shares no code with the client of the other tests or with the driver's headers. library.c is
 * compiled once for each generation, in a 32-bit and in a 64-bit program.
 */
#include <stddef.h>
#include <stdint.h>

enum engine { ENGINE_3D, ENGINE_2D };

/* How the first engine of the commands is selected. */
enum entry {
	/* entryPipe names it. */
	ENTRY_NAMED,
	/* entryPipe stays 0; the commands select 2D at their start. */
	ENTRY_SELECTED,
	/* The same, and the commands select 3D again at their end. */
	ENTRY_SELECTED_AND_BACK,
};

enum pool { POOL_DEFAULT, POOL_SYSTEM, POOL_VIRTUAL };

enum cache { CACHE_CLEAN = 1, CACHE_INVALIDATE = 2, CACHE_FLUSH = 3 };

struct memory {
	uint64_t node;
	uint32_t address;
	uint32_t pool;
	uint32_t bytes;
	/* Handle to end the mapping of the program's own memory. */
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

/* Words of the identity that many generations have, with the same meaning. */
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
	/* Uses the descriptor of another session, which mapped the pool. */
	int is_guest;
	enum engine engine;
	/* gceHARDWARE_TYPE, with the generation's numbers. */
	uint32_t hardware;
	uint32_t model;
	uint32_t features;
	uint32_t identity[IDENTITY_WORDS];
	/* Bit mask of the words that the generation has. */
	uint32_t identity_has;
	/* Whether any core of the board has the engine. */
	int board_2d, board_3d;
	void *pool;
	uint64_t pool_bytes;
	uint32_t pool_handle;
	uint32_t context;
	int32_t done;
	/* Command memory, and the part in use. */
	struct memory commands;
	uint32_t commands_handle;
	uint32_t used;
	/* In the oldest generations: a gcoCONTEXT, and the states that it refers to. */
	void *own_context;
	struct memory states;
	uint32_t states_handle;
	uint32_t in_use;
	unsigned int commits;
	/* States that the commands loaded and the context lacks, or all states for the context. */
	struct {
		uint32_t address, value;
	} states_loaded[MOST_STATES];
	unsigned int states_count;
	/* Number of vertex elements; 0 means unchanged. */
	unsigned int elements;
	/*
	 * gcsSTATE_DELTAs and their records. If the driver counts references, records are added to the
	 * last delta that it took, and a new delta is started; else there is only one at a time.
	 */
	struct {
		void *delta, *records;
	} deltas[MOST_DELTAS];
	unsigned int current, previous;
	int has_previous;
};

struct library {
	const char *name;
	/* Why the library does not exist in a program of this width. All other members are then unset. */
	const char *lacks;
	/* Whether its behavior does not identify it among others of its size, so that it names its
	 * generation. */
	int is_silent;
	/* Opens the device and runs start-up. fd is that of another session, or -1. */
	int (*start)(struct session *session, enum engine engine, int fd);
	int (*stop)(struct session *session);
	int (*query)(struct session *session);
	int (*allocate)(struct session *session, struct memory *memory, uint32_t bytes,
			enum pool pool);
	int (*lock)(struct session *session, struct memory *memory);
	/* Ends a lock. Returns 1 if its second half must follow in a queue. */
	int (*unlock)(struct session *session, const struct memory *memory);
	/* Releases a handle. Returns the status. */
	int (*release)(struct session *session, const struct memory *memory);
	/* Maps the program's own memory: a mapping, or a locked node if WRAP_USER_MEMORY exists. */
	int (*map)(struct session *session, struct memory *memory, void *at, uint32_t bytes);
	int (*wrap)(struct session *session, struct memory *memory, void *at, uint32_t bytes);
	int (*unmap)(struct session *session, const struct memory *memory);
	int (*cache)(struct session *session, const struct memory *memory, enum cache what);
	int (*signal)(struct session *session, int32_t *signal);
	int (*destroy)(struct session *session, int32_t signal);
	/* Returns a status: 0 if the signal was set. */
	int (*wait)(struct session *session, int32_t signal, uint32_t milliseconds);
	int (*commit)(struct session *session, const uint32_t *words, unsigned int count,
		      enum entry entry, const struct event *events, unsigned int number);
	/* Records in the session's context that a state was loaded, by its byte address. */
	void (*remember)(struct session *session, uint32_t address, uint32_t value);
	/* The same for the number of vertex elements. */
	void (*use_elements)(struct session *session, unsigned int count);
	int (*queue)(struct session *session, const struct event *events, unsigned int number);
	/*
	 * Opens the device, selects the generation, and sends commands with random payloads. Sets a bit
	 * of statuses for each status returned.
	 */
	int (*fuzz)(unsigned int calls, uint32_t *statuses);
	/* Differences between generations. */
	int has_wrap, has_map, counts_locks, releases, has_contexts, names_cores;
};

/* All libraries, oldest first. */
extern const struct library *const libraries[];
extern const unsigned int library_count;

/* How a library starts. */
extern enum manner {
	PLAIN,
	/* Selects the generation, and exits unless VERSION is its own, like most libraries. */
	INSISTS,
	/* Also exits in this case, but the module's parameters select the generation. */
	NAMED,
} manner;

/* The version that it expects; NULL: that of its facts. */
extern const uint32_t *claimed_version;

/*
 * Preferred addresses for the program's own memory: above 2 GiB, to give addresses a sign bit; in
 * a 64-bit program also above 4 GiB, where the low half alone is an unmapped address.
 */
#if UINTPTR_MAX > UINT32_MAX
#define HIGH 0x5500000000u
#define IS_HIGH(at) ((uintptr_t)(at) > UINT32_MAX)
#else
#define HIGH 0u
#define IS_HIGH(at) ((uintptr_t)(at) >= 0x80000000u)
#endif
#define WISH(place) ((void *)(uintptr_t)(HIGH + (place)))

/* Records why a test failed. Returns -1. */
int because(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fills memory with random bytes. */
void scribble(void *memory, size_t bytes);
uint32_t any(void);

/* Allocates scribbled memory at these addresses, with an unmapped page after it; and frees it. */
void *take(size_t bytes);
void give_back(void *memory, size_t bytes);
