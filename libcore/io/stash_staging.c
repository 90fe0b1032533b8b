/* Why several pieces, and the whole of a block in one: copies of different layers are under way at
 * the same time, so while one waits for the disk another one's piece crosses to the device. A copy
 * takes a free piece or, if all are taken, waits for one. They are all made at first: to pin memory
 * makes a device wait.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"
#include "io/stash_parts.h"

#define PIECES 4
#define PIECE ((uint64_t)4 << 20) /* bytes: some chunks of a ring */

struct np_stash_staging {
    const struct np_device *device;
    uint64_t piece_bytes;
    pthread_mutex_t mutex;
    pthread_cond_t given;
    void *pinned; /* all pieces, and what a device may be off a page */
    char *idle[PIECES];
    int idle_count;
};

static char *on_page(void *address)
{
    return (char *)address + -(uintptr_t)address % NP_STASH_ALIGN;
}

enum np_status np_stash_staging_new(struct np_stash_staging **out, const struct np_device *device,
                                    uint64_t largest, struct np_error *err)
{
    struct np_stash_staging *s = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&s, 1, sizeof *s, err));
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->given, NULL);
    s->device = device;
    s->piece_bytes = largest > PIECE ? PIECE : largest ? largest : NP_STASH_ALIGN;
    NP_TRY(device->ops->pin(device, &s->pinned, PIECES * s->piece_bytes + NP_STASH_ALIGN, err));
    for (; s->idle_count < PIECES; s->idle_count++)
        s->idle[s->idle_count] = on_page(s->pinned) + (uint64_t)s->idle_count * s->piece_bytes;
    *out = s;
    s = NULL;
out:
    np_stash_staging_free(s);
    return status;
}

void np_stash_staging_free(struct np_stash_staging *s)
{
    if (!s)
        return;
    if (s->pinned)
        s->device->ops->unpin(s->device, s->pinned);
    pthread_cond_destroy(&s->given);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

static char *take(struct np_stash_staging *s)
{
    char *piece;
    pthread_mutex_lock(&s->mutex);
    while (s->idle_count == 0)
        pthread_cond_wait(&s->given, &s->mutex);
    piece = s->idle[--s->idle_count];
    pthread_mutex_unlock(&s->mutex);
    return piece;
}

static void give(struct np_stash_staging *s, char *piece)
{
    pthread_mutex_lock(&s->mutex);
    s->idle[s->idle_count++] = piece;
    pthread_cond_signal(&s->given);
    pthread_mutex_unlock(&s->mutex);
}

enum np_status np_stash_staging_move(struct np_stash_staging *s, struct np_stash_file *file,
                                     struct np_stash_span span, struct np_error *err)
{
    enum np_status status = NP_OK;
    char *piece = take(s);
    for (uint64_t n; span.bytes; span.bytes -= n, span.offset += n, span.data += n) {
        n = span.bytes < s->piece_bytes ? span.bytes : s->piece_bytes;
        const struct np_stash_span part = {span.write, piece, span.offset, n};
        if (span.write)
            NP_TRY(np_device_copy(s->device, piece, span.data, n, err));
        NP_TRY(np_stash_file_move(file, part, err));
        if (!span.write)
            NP_TRY(np_device_copy(s->device, span.data, piece, n, err));
    }
out:
    give(s, piece);
    return status;
}
