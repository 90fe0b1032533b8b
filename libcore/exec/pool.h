/* The buffer pool: activations, gradients and what operators save, for what is in flight.
 *
 * Buffers come from free lists of size classes (four to a power of two) and go back to them; memory
 * is asked of the system only when more is in flight than ever before, so a steady pipeline
 * allocates nothing. Buffers are counted: a value has as many holders as cells that need it.
 *
 * Units     floats; every buffer starts on a cache line. Contents are undefined.
 * Errors    NP_EMEM.
 * Ownership a buffer lives until its last holder drops it; np_pool_free releases all memory.
 * Threads   any.
 */
#ifndef NP_EXEC_POOL_H
#define NP_EXEC_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct np_buffer {
    struct np_buffer *next; /* in a free list */
    float *data;
    int size_class;
    atomic_int holders;
};

struct np_pool;

enum np_status np_pool_new(struct np_pool **out, struct np_error *err);
void np_pool_free(struct np_pool *pool);

/* A buffer of at least `floats`, held once. */
enum np_status np_pool_get(struct np_pool *pool, struct np_buffer **out, size_t floats,
                           struct np_error *err);
static inline struct np_buffer *np_buffer_hold(struct np_buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->holders, 1, memory_order_relaxed);
    return buffer;
}
/* True if nobody else holds the buffer: what others did with it is done and seen. */
static inline bool np_buffer_is_sole(struct np_buffer *buffer)
{
    return atomic_load_explicit(&buffer->holders, memory_order_acquire) == 1;
}
/* *buffer becomes NULL; NULL is accepted. */
void np_pool_drop(struct np_pool *pool, struct np_buffer **buffer);

/* Bytes asked of the system so far. */
uint64_t np_pool_bytes(const struct np_pool *pool);

#endif
