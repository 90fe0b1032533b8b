#include "exec/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"

enum { CLASSES = 4 * 64 };

struct np_pool {
    pthread_mutex_t lock;
    struct np_buffer *vacant[CLASSES];
    struct np_buffer **all;
    size_t count, capacity;
    uint64_t bytes;
};

/* Classes are (4 + q) * 2^e floats, q = 0..3, from 64 floats up. */
static int class_of(size_t floats, size_t *rounded)
{
    size_t size = floats < 64 ? 64 : floats;
    int e = 63 - __builtin_clzll((unsigned long long)size) - 2;
    size_t q = (size + ((size_t)1 << e) - 1) >> e; /* 4 .. 8 */
    *rounded = q << e;
    return 4 * e + (int)(q - 4);
}

enum np_status np_pool_new(struct np_pool **out, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_zalloc(out, 1, sizeof **out, err));
    pthread_mutex_init(&(*out)->lock, NULL);
out:
    return status;
}

void np_pool_free(struct np_pool *pool)
{
    if (!pool)
        return;
    for (size_t i = 0; i < pool->count; i++) {
        free(pool->all[i]->data);
        free(pool->all[i]);
    }
    free(pool->all);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* A new buffer of the class, under the lock. */
static enum np_status grow(struct np_pool *pool, struct np_buffer **out, int size_class,
                           size_t floats, struct np_error *err)
{
    struct np_buffer *buffer = NULL;
    enum np_status status;
    NP_TRY(np_grow(&pool->all, &pool->capacity, pool->count, sizeof(struct np_buffer *), err));
    NP_TRY(np_zalloc(&buffer, 1, sizeof *buffer, err));
    NP_TRY(np_alloc(&buffer->data, floats, sizeof(float), err));
    buffer->size_class = size_class;
    pool->all[pool->count++] = buffer;
    pool->bytes += floats * sizeof(float);
    *out = buffer;
    return NP_OK;
out:
    free(buffer);
    return status;
}

enum np_status np_pool_get(struct np_pool *pool, struct np_buffer **out, size_t floats,
                           struct np_error *err)
{
    size_t rounded;
    int size_class = class_of(floats, &rounded);
    struct np_buffer *buffer;
    enum np_status status = NP_OK;
    pthread_mutex_lock(&pool->lock);
    buffer = pool->vacant[size_class];
    if (buffer)
        pool->vacant[size_class] = buffer->next;
    else
        status = grow(pool, &buffer, size_class, rounded, err);
    pthread_mutex_unlock(&pool->lock);
    if (status != NP_OK)
        return status;
    atomic_store_explicit(&buffer->holders, 1, memory_order_relaxed);
    *out = buffer;
    return NP_OK;
}

void np_pool_drop(struct np_pool *pool, struct np_buffer **slot)
{
    struct np_buffer *buffer = *slot;
    *slot = NULL;
    if (!buffer || atomic_fetch_sub_explicit(&buffer->holders, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_lock(&pool->lock);
    buffer->next = pool->vacant[buffer->size_class];
    pool->vacant[buffer->size_class] = buffer;
    pthread_mutex_unlock(&pool->lock);
}

uint64_t np_pool_bytes(const struct np_pool *pool)
{
    return pool->bytes;
}
