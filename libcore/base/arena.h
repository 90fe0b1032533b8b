/* The arena: a device's memory under a hard cap.
 *
 * All that a stage holds while it trains is taken here. Blocks are whole pages straight from the
 * system, or come from another source; a block given back is kept for the next request of the same
 * size. When a request of another size needs the room it goes back where it came from, or its pages
 * become the new block's. So bytes held, vacant ones included, never exceed the cap, and a steady
 * state asks for nothing.
 *
 * Units     bytes; a request counts as np_arena_bytes of it.
 * Errors    NP_EMEM: the cap, with what is in use and what was asked for, or the system.
 * Ownership np_arena_free releases every block, also those not given back.
 * Threads   any.
 */
#ifndef NP_BASE_ARENA_H
#define NP_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define NP_ARENA_PAGE 4096

struct np_arena;

/* A request as it counts: whole pages. */
static inline uint64_t np_arena_bytes(uint64_t bytes)
{
    return (bytes + NP_ARENA_PAGE - 1) / NP_ARENA_PAGE * NP_ARENA_PAGE;
}

/* cap 0: none. */
enum np_status np_arena_new(struct np_arena **out, uint64_t cap, struct np_error *err);
/* With blocks from elsewhere; NULL: from the system. */
struct np_arena_source {
    const void *context; /* borrowed */
    enum np_status (*take)(const void *context, void **block, uint64_t bytes, struct np_error *err);
    void (*give)(const void *context, void *block);
};
enum np_status np_arena_new_from(struct np_arena **out, uint64_t cap,
                                 const struct np_arena_source *source, struct np_error *err);
void np_arena_free(struct np_arena *arena);

/* A block that starts on a page; its contents are undefined. 0 bytes: NULL. */
enum np_status np_arena_take(struct np_arena *arena, void *out_pointer, uint64_t bytes,
                             struct np_error *err);
/* bytes as it was taken with; NULL is accepted. */
void np_arena_give(struct np_arena *arena, void *block, uint64_t bytes);

/* The block changes hands as it is: it is no longer held by `from`, and in use in `to`. Where that
 * fails, it is where it was. */
enum np_status np_arena_move(struct np_arena *from, struct np_arena *to, void *block,
                             uint64_t bytes, struct np_error *err);

/* In use now; the most that was ever in use; asked of the system now (in use and vacant). */
struct np_arena_sums {
    uint64_t used, peak, held;
};
struct np_arena_sums np_arena_sums(struct np_arena *arena);

#endif
