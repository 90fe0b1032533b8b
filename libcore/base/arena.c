/* Why lists by exact size: what a stage takes repeats from step to step in few sizes (layers,
 * activations), so that a vacant block fits its next user exactly or not at all, and nothing is
 * ever cut or joined. Where a block goes because another size wants its room, its pages stay: the
 * system would take them, clear others and enter them one by one, which for layers of a few sizes
 * that come and go costs more than reading them from a file.
 */
#define _GNU_SOURCE /* mremap */
#include "base/arena.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/text.h"

/* All blocks of one size, those in use first, then the vacant, the last one given back before the
 * others. */
struct size_list {
    uint64_t bytes, last_use;
    void **blocks;
    size_t used, count, capacity;
};

/* A block that has gone to make room, for the one that comes; at NULL: none. */
struct pages {
    void *at;
    uint64_t bytes;
};

struct np_arena {
    pthread_mutex_t mutex;
    struct np_arena_source source; /* take NULL: the system */
    uint64_t cap, clock;
    struct np_arena_sums sums;
    struct size_list *lists; /* ascending sizes */
    size_t count, capacity;
};

enum np_status np_arena_new(struct np_arena **out, uint64_t cap, struct np_error *err)
{
    return np_arena_new_from(out, cap, NULL, err);
}

enum np_status np_arena_new_from(struct np_arena **out, uint64_t cap,
                                 const struct np_arena_source *source, struct np_error *err)
{
    struct np_arena *arena;
    enum np_status status = np_zalloc(&arena, 1, sizeof *arena, err);
    if (status != NP_OK)
        return status;
    pthread_mutex_init(&arena->mutex, NULL); /* cannot fail without attributes */
    arena->cap = cap;
    if (source)
        arena->source = *source;
    *out = arena;
    return NP_OK;
}

static void give_back(struct np_arena *arena, void *block, uint64_t bytes)
{
    if (arena->source.take)
        arena->source.give(arena->source.context, block);
    else
        munmap(block, (size_t)bytes);
}

void np_arena_free(struct np_arena *arena)
{
    if (!arena)
        return;
    for (size_t i = 0; i < arena->count; i++) {
        struct size_list *list = &arena->lists[i];
        for (size_t k = 0; k < list->count; k++)
            give_back(arena, list->blocks[k], list->bytes);
        free(list->blocks);
    }
    free(arena->lists);
    pthread_mutex_destroy(&arena->mutex);
    free(arena);
}

/* The first list of at least that size, or the end. */
static size_t find_list(const struct np_arena *arena, uint64_t bytes)
{
    size_t low = 0, high = arena->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (arena->lists[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum np_status get_list(struct np_arena *arena, struct size_list **out, uint64_t bytes,
                               struct np_error *err)
{
    size_t at = find_list(arena, bytes);
    enum np_status status;
    if (at == arena->count || arena->lists[at].bytes != bytes) {
        status = np_grow(&arena->lists, &arena->capacity, arena->count, sizeof *arena->lists, err);
        if (status != NP_OK)
            return status;
        memmove(&arena->lists[at + 1], &arena->lists[at],
                (arena->count - at) * sizeof *arena->lists);
        arena->lists[at] = (struct size_list){.bytes = bytes};
        arena->count++;
    }
    *out = &arena->lists[at];
    return NP_OK;
}

static void give_back_pages(struct np_arena *arena, struct pages *pages)
{
    if (pages->at)
        give_back(arena, pages->at, pages->bytes);
    *pages = (struct pages){NULL, 0};
}

/* One vacant block goes, of the size that was used least recently: back to where it came from; but
 * of the system's, the larger of it and *kept is kept. */
static bool drop_vacant(struct np_arena *arena, struct pages *kept)
{
    struct size_list *oldest = NULL;
    for (size_t i = 0; i < arena->count; i++) {
        struct size_list *list = &arena->lists[i];
        if (list->used < list->count && (!oldest || list->last_use < oldest->last_use))
            oldest = list;
    }
    if (!oldest)
        return false;
    struct pages gone = {oldest->blocks[--oldest->count], oldest->bytes}, less = gone;
    arena->sums.held -= gone.bytes;
    if (!arena->source.take && gone.bytes > kept->bytes) {
        less = *kept;
        *kept = gone;
    }
    give_back_pages(arena, &less);
    return true;
}

static bool fits(const struct np_arena *arena, uint64_t bytes)
{
    return !arena->cap || (bytes <= arena->cap && arena->sums.held <= arena->cap - bytes);
}

/* Room under the cap for one more block, if need be in place of vacant ones, of which the largest
 * is kept; and in the list. */
static enum np_status make_room(struct np_arena *arena, struct size_list *list, struct pages *kept,
                                struct np_error *err)
{
    enum np_status status =
        np_grow(&list->blocks, &list->capacity, list->count, sizeof *list->blocks, err);
    if (status != NP_OK)
        return status;
    while (!fits(arena, list->bytes))
        if (!drop_vacant(arena, kept))
            return np_fail(err, NP_EMEM,
                           "the device's memory of %s is used up: %s are in use, %s were asked for",
                           np_text_size(arena->cap).s, np_text_size(arena->sums.used).s,
                           np_text_size(list->bytes).s);
    return NP_OK;
}

/* Enters a block that nobody uses yet, at the end of the list. */
static void hold(struct np_arena *arena, struct size_list *list, void *block)
{
    list->blocks[list->count++] = block;
    arena->sums.held += list->bytes;
}

/* A block of pages that were kept, or else of new ones. */
static enum np_status map_pages(struct np_arena *arena, void **out, uint64_t bytes,
                                struct pages *kept, struct np_error *err)
{
    void *block = MAP_FAILED;
    if (kept->at && bytes < NP_HUGE_PAGE)
        block = mremap(kept->at, (size_t)kept->bytes, (size_t)bytes, MREMAP_MAYMOVE);
    if (block != MAP_FAILED) {
        *kept = (struct pages){NULL, 0};
    } else {
        give_back_pages(arena, kept);
        block =
            mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            return np_fail_errno(err, "cannot allocate %s", np_text_size(bytes).s);
        np_want_huge_pages(block, (size_t)bytes);
    }
    *out = block;
    return NP_OK;
}

/* A new block in the list, which has no vacant one. */
static enum np_status add_block(struct np_arena *arena, struct size_list *list,
                                struct np_error *err)
{
    const struct np_arena_source *source = &arena->source;
    struct pages kept = {NULL, 0};
    void *block = NULL;
    struct np_error why;
    enum np_status status;
    NP_TRY(make_room(arena, list, &kept, err));
    do
        status = source->take ? source->take(source->context, &block, list->bytes, &why)
                              : map_pages(arena, &block, list->bytes, &kept, &why);
    while (status != NP_OK && drop_vacant(arena, &kept));
    if (status == NP_OK)
        hold(arena, list, block);
    else
        np_fail(err, status, "%s", why.msg);
out:
    give_back_pages(arena, &kept);
    return status;
}

/* The vacant block at list->used is in use from here on. */
static void use(struct np_arena *arena, struct size_list *list)
{
    struct np_arena_sums *sums = &arena->sums;
    list->used++;
    list->last_use = ++arena->clock;
    sums->used += list->bytes;
    sums->peak = sums->used > sums->peak ? sums->used : sums->peak;
}

static enum np_status take(struct np_arena *arena, void **out, uint64_t bytes, struct np_error *err)
{
    struct size_list *list;
    enum np_status status = get_list(arena, &list, bytes, err);
    if (status == NP_OK && list->used == list->count)
        status = add_block(arena, list, err);
    if (status != NP_OK)
        return status;
    *out = list->blocks[list->used];
    use(arena, list);
    return NP_OK;
}

enum np_status np_arena_take(struct np_arena *arena, void *out_pointer, uint64_t bytes,
                             struct np_error *err)
{
    enum np_status status = NP_OK;
    void *block = NULL;
    if (bytes > SIZE_MAX / 2)
        return np_fail(err, NP_EMEM, "cannot allocate %s", np_text_size(bytes).s);
    if (bytes) {
        pthread_mutex_lock(&arena->mutex);
        status = take(arena, &block, np_arena_bytes(bytes), err);
        pthread_mutex_unlock(&arena->mutex);
    }
    if (status == NP_OK)
        memcpy(out_pointer, &block, sizeof block);
    return status;
}

/* The block becomes the first vacant one of its list. */
static struct size_list *vacate(struct np_arena *arena, void *block, uint64_t bytes)
{
    size_t at = find_list(arena, bytes);
    assert(at < arena->count && arena->lists[at].bytes == bytes);
    struct size_list *list = &arena->lists[at];
    for (at = list->used; at > 0 && list->blocks[at - 1] != block; at--)
        ;
    assert(at > 0);
    list->blocks[at - 1] = list->blocks[--list->used];
    list->blocks[list->used] = block;
    list->last_use = ++arena->clock;
    arena->sums.used -= bytes;
    return list;
}

void np_arena_give(struct np_arena *arena, void *block, uint64_t bytes)
{
    if (!block)
        return;
    pthread_mutex_lock(&arena->mutex);
    vacate(arena, block, np_arena_bytes(bytes));
    pthread_mutex_unlock(&arena->mutex);
}

/* Takes over a block in use. */
static enum np_status adopt(struct np_arena *arena, void *block, uint64_t bytes,
                            struct np_error *err)
{
    struct size_list *list;
    struct pages kept = {NULL, 0};
    enum np_status status;
    NP_TRY(get_list(arena, &list, bytes, err));
    NP_TRY(make_room(arena, list, &kept, err));
    hold(arena, list, block);
    list->blocks[list->count - 1] = list->blocks[list->used]; /* in use before vacant */
    list->blocks[list->used] = block;
    use(arena, list);
out:
    give_back_pages(arena, &kept);
    return status;
}

enum np_status np_arena_move(struct np_arena *from, struct np_arena *to, void *block,
                             uint64_t bytes, struct np_error *err)
{
    struct size_list *list;
    enum np_status status;
    bytes = np_arena_bytes(bytes);
    pthread_mutex_lock(&to->mutex);
    status = adopt(to, block, bytes, err);
    pthread_mutex_unlock(&to->mutex);
    if (status != NP_OK)
        return status;
    pthread_mutex_lock(&from->mutex);
    list = vacate(from, block, bytes);
    list->blocks[list->used] = list->blocks[--list->count];
    from->sums.held -= bytes;
    pthread_mutex_unlock(&from->mutex);
    return NP_OK;
}

struct np_arena_sums np_arena_sums(struct np_arena *arena)
{
    struct np_arena_sums sums;
    pthread_mutex_lock(&arena->mutex);
    sums = arena->sums;
    pthread_mutex_unlock(&arena->mutex);
    return sums;
}
