#include "io/stash.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/stash_parts.h"

struct record {
    uint64_t bytes, offset;
    void *data; /* in memory only */
    bool put;
};

struct np_stash {
    struct np_stash_file *file; /* NULL: in memory */
    struct record *records;
    size_t count;
    struct np_arena *memory;          /* the records', without a file */
    const struct np_device *device;   /* apart, or NULL: blocks are copied from and to it, */
    struct np_stash_staging *staging; /* in pieces, where there is a file */
    _Atomic uint64_t on_disk;
};

/* A whole number of pages. */
static uint64_t padded(uint64_t bytes)
{
    return (bytes + NP_STASH_ALIGN - 1) / NP_STASH_ALIGN * NP_STASH_ALIGN;
}

/* Ascending offsets; *end is what the file takes, *largest the most of a record. */
static enum np_status lay_out(struct np_stash *stash, const uint64_t *bytes, uint64_t *end,
                              uint64_t *largest, struct np_error *err)
{
    *end = *largest = 0;
    for (size_t i = 0; i < stash->count; i++) {
        stash->records[i] = (struct record){.bytes = bytes[i], .offset = *end};
        if (bytes[i] > INT64_MAX - NP_STASH_ALIGN || padded(bytes[i]) > INT64_MAX - *end)
            return np_fail(err, NP_EMEM, "a stash of %zu records is too large", stash->count);
        *end += padded(bytes[i]);
        *largest = padded(bytes[i]) > *largest ? padded(bytes[i]) : *largest;
    }
    return NP_OK;
}

enum np_status np_stash_new_ways(struct np_stash **out, const struct np_device *device,
                                 const char *path, const uint64_t *bytes, size_t count,
                                 struct np_stash_ways ways, struct np_error *err)
{
    struct np_stash *stash = NULL;
    enum np_status status;
    uint64_t end, largest;
    NP_TRY(np_zalloc(&stash, 1, sizeof *stash, err));
    NP_TRY(np_zalloc(&stash->records, count, sizeof *stash->records, err));
    stash->count = count;
    stash->device = device->ops->apart ? device : NULL;
    NP_TRY(lay_out(stash, bytes, &end, &largest, err));
    if (!path)
        NP_TRY(np_device_pinned_arena(&stash->memory, device, err));
    else
        NP_TRY(np_stash_file_new(&stash->file, path, end, ways, err));
    if (path && stash->device)
        NP_TRY(np_stash_staging_new(&stash->staging, device, largest, err));
    *out = stash;
    stash = NULL;
out:
    np_stash_free(stash);
    return status;
}

enum np_status np_stash_new(struct np_stash **out, const struct np_device *device, const char *path,
                            const uint64_t *bytes, size_t count, struct np_error *err)
{
    struct np_stash_ways all = {.direct = true, .uring = true};
    return np_stash_new_ways(out, device, path, bytes, count, all, err);
}

void np_stash_free(struct np_stash *stash)
{
    if (!stash)
        return;
    np_arena_free(stash->memory);
    free(stash->records);
    np_stash_staging_free(stash->staging);
    np_stash_file_free(stash->file);
    free(stash);
}

static struct np_stash_span span_of(const struct record *r, bool write, uint64_t offset, void *data,
                                    uint64_t n)
{
    return (struct np_stash_span){write, data, r->offset + offset, padded(n)};
}

static bool is_part(const struct record *r, uint64_t offset, uint64_t n)
{
    return offset % NP_STASH_ALIGN == 0 && offset <= r->bytes && n <= r->bytes - offset &&
           (n % NP_STASH_ALIGN == 0 || offset + n == r->bytes);
}

/* The record is whole. */
static void note_put(struct np_stash *stash, struct record *r)
{
    if (!r->put && stash->file)
        atomic_fetch_add(&stash->on_disk, padded(r->bytes));
    r->put = true;
}

enum np_status np_stash_put_part(struct np_stash *stash, size_t record, uint64_t offset,
                                 const void *data, uint64_t n, struct np_error *err)
{
    struct record *r = &stash->records[record];
    enum np_status status = NP_OK;
    assert(record < stash->count && is_part(r, offset, n));
    if (stash->file) {
        /* The span serves reads too; a write only looks. */
        void *looked_at = (void *)(uintptr_t)data;
        NP_TRY(np_stash_file_move(stash->file, span_of(r, true, offset, looked_at, n), err));
    } else {
        if (!r->data)
            NP_TRY(np_arena_take(stash->memory, &r->data, r->bytes, err));
        if (n)
            memcpy((char *)r->data + offset, data, (size_t)n);
    }
    if (offset + n == r->bytes)
        note_put(stash, r);
out:
    return status;
}

enum np_status np_stash_put(struct np_stash *stash, size_t record, const void *data,
                            struct np_error *err)
{
    return np_stash_put_part(stash, record, 0, data, stash->records[record].bytes, err);
}

enum np_status np_stash_get_part(struct np_stash *stash, size_t record, uint64_t offset, void *data,
                                 uint64_t n, struct np_error *err)
{
    const struct record *r = &stash->records[record];
    assert(record < stash->count && r->put && is_part(r, offset, n));
    if (stash->file)
        return np_stash_file_move(stash->file, span_of(r, false, offset, data, n), err);
    if (n)
        memcpy(data, (const char *)r->data + offset, (size_t)n);
    return NP_OK;
}

/* The whole record between its place in the file and a block of an arena. */
static enum np_status move(struct np_stash *stash, const struct record *r, bool write, void *block,
                           struct np_error *err)
{
    struct np_stash_span span = span_of(r, write, 0, block, r->bytes);
    if (stash->staging)
        return np_stash_staging_move(stash->staging, stash->file, span, err);
    return np_stash_file_move(stash->file, span, err);
}

/* The block's contents to the record's own place. */
static enum np_status keep_copy(struct np_stash *stash, struct record *r, void *block,
                                struct np_error *err)
{
    enum np_status status = NP_OK;
    if (!stash->file && !r->data)
        NP_TRY(np_arena_take(stash->memory, &r->data, r->bytes, err));
    if (stash->file)
        NP_TRY(move(stash, r, true, block, err));
    else
        NP_TRY(np_device_copy(stash->device, r->data, block, r->bytes, err));
    note_put(stash, r);
out:
    return status;
}

enum np_status np_stash_send(struct np_stash *stash, size_t record, struct np_arena *arena,
                             void *block, bool changed, struct np_error *err)
{
    struct record *r = &stash->records[record];
    enum np_status status = NP_OK;
    if (stash->file || stash->device) {
        if (changed)
            NP_TRY(keep_copy(stash, r, block, err));
        np_arena_give(arena, block, r->bytes);
    } else {
        NP_TRY(np_arena_move(arena, stash->memory, block, r->bytes, err));
        r->data = block;
        r->put = true;
    }
out:
    return status;
}

enum np_status np_stash_bring(struct np_stash *stash, size_t record, struct np_arena *arena,
                              void *out_pointer, struct np_error *err)
{
    struct record *r = &stash->records[record];
    void *block = r->data;
    enum np_status status;
    assert(r->put);
    if (stash->file) {
        NP_TRY(np_arena_take(arena, &block, r->bytes, err));
        NP_TRY(move(stash, r, false, block, err));
    } else if (stash->device) {
        NP_TRY(np_arena_take(arena, &block, r->bytes, err));
        NP_TRY(np_device_copy(stash->device, block, r->data, r->bytes, err));
    } else {
        NP_TRY(np_arena_move(stash->memory, arena, block, r->bytes, err));
        r->data = NULL;
        r->put = false;
    }
    memcpy(out_pointer, &block, sizeof block);
out:
    return status;
}

const char *np_stash_means(const struct np_stash *stash)
{
    return stash->file ? np_stash_file_means(stash->file) : "memory";
}

uint64_t np_stash_memory(struct np_stash *stash)
{
    return stash->file ? 0 : np_arena_sums(stash->memory).used;
}

uint64_t np_stash_disk(struct np_stash *stash)
{
    return atomic_load(&stash->on_disk);
}
