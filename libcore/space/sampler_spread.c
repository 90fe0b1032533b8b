/* The spread sampler: drawn steps reordered so that neighbours conflict as little as possible.
 *
 * A step's score is when its forward could end on a pipeline with a stage a block: block b waits
 * for block b-1 and for the last update of its layers, which comes after the last user's whole
 * forward and its backward down to block b. So a layer shared with a recent step costs most in the
 * early blocks, and only as far as it makes the step late. Steps enter as fast as 32 busy stages
 * would take them. Of the pool the step that ends first goes first, the earliest drawn among
 * equals. All of it is integers, and does not depend on any plan.
 *
 * The stream is cut into epochs: reordering stays inside one, and each begins without history. So
 * any step is reached by replaying less than an epoch, and no drawn step is lost or put off for
 * ever.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "space/stream.h"

#define EPOCH 4096 /* steps */
#define TASK 32    /* ticks of a forward or backward of one block */
#define PACE 3     /* ticks from step to step for each block: its three tasks on 32 stages */

struct spread {
    int pool;          /* steps to choose from */
    size_t step_words; /* members * blocks */
    uint16_t *drawn;   /* [pool][members][blocks] */
    int *order;        /* slots in use, in drawn order */
    int waiting;       /* of them */
    uint64_t *updated; /* [layer] tick at which the layer's last update is done */
    size_t *first;     /* [blocks] a block's first layer */
    size_t layers;
};

static const uint16_t *slot_of(const struct spread *s, int slot)
{
    return s->drawn + (size_t)slot * s->step_words;
}

/* The tick at which the step's forward ends, or some tick from `limit` on if it does so later. */
static uint64_t forward_end(const struct np_stream *stream, const uint16_t *step, uint64_t enter,
                            uint64_t limit)
{
    const struct spread *s = stream->state;
    int blocks = stream->shape.blocks, members = stream->shape.members;
    uint64_t now = enter;
    for (int block = 0; block < blocks; block++) {
        const uint64_t *updated = s->updated + s->first[block];
        for (int member = 0; member < members; member++) {
            int candidate = step[member * blocks + block];
            bool waits = !np_stream_passes(&stream->shape.each[block], candidate);
            if (waits && updated[candidate] > now)
                now = updated[candidate];
        }
        now += TASK;
        if (now + (uint64_t)(blocks - 1 - block) * TASK >= limit)
            return limit;
    }
    return now;
}

/* The layers of a step are updated one after the other while its backward walks down. */
static void run_step(const struct np_stream *stream, const uint16_t *step, uint64_t forward)
{
    const struct spread *s = stream->state;
    int blocks = stream->shape.blocks;
    for (int member = 0; member < stream->shape.members; member++)
        for (int block = 0; block < blocks; block++)
            s->updated[s->first[block] + step[member * blocks + block]] =
                forward + (uint64_t)(blocks - block + 1) * TASK;
}

static void fill_pool(struct np_stream *stream)
{
    struct spread *s = stream->state;
    uint64_t done = stream->step % EPOCH;
    if (done == 0)
        memset(s->updated, 0, s->layers * sizeof *s->updated);
    while (s->waiting < s->pool && done + (uint64_t)s->waiting < EPOCH) {
        int slot = s->order[s->waiting];
        np_stream_uniform(&stream->shape, stream->seed, stream->step + (uint64_t)s->waiting,
                          s->drawn + (size_t)slot * s->step_words);
        s->waiting++;
    }
}

/* The place in the order of the step to emit next. */
static int choose(const struct np_stream *stream, uint64_t enter, uint64_t *forward)
{
    const struct spread *s = stream->state;
    int best = 0;
    *forward = UINT64_MAX;
    for (int i = 0; i < s->waiting; i++) {
        uint64_t end = forward_end(stream, slot_of(s, s->order[i]), enter, *forward);
        if (end < *forward) {
            *forward = end;
            best = i;
        }
    }
    return best;
}

/* Emits one step; its slot goes behind the waiting ones, free for the next draw. */
static enum np_status next_spread(struct np_stream *stream, uint16_t *choices, bool *more,
                                  struct np_error *err)
{
    struct spread *s = stream->state;
    uint64_t pace = PACE * (uint64_t)stream->shape.blocks * (uint64_t)stream->shape.members;
    uint64_t forward;
    int place, slot;
    (void)err;
    fill_pool(stream);
    place = choose(stream, stream->step % EPOCH * pace, &forward);
    slot = s->order[place];
    memcpy(choices, slot_of(s, slot), s->step_words * sizeof *choices);
    run_step(stream, choices, forward);
    s->waiting--;
    memmove(s->order + place, s->order + place + 1,
            (size_t)(s->waiting - place) * sizeof *s->order);
    s->order[s->waiting] = slot;
    stream->step++;
    *more = true;
    return NP_OK;
}

static void close_spread(struct np_stream *stream)
{
    struct spread *s = stream->state;
    free(s->drawn);
    free(s->order);
    free(s->updated);
    free(s->first);
    free(s);
}

static enum np_status allocate(struct spread *s, const struct np_stream_shape *shape,
                               struct np_error *err)
{
    enum np_status status;
    size_t words;
    s->step_words = (size_t)shape->members * (size_t)shape->blocks;
    if (!np_mul_size(&words, (size_t)s->pool, s->step_words))
        return np_fail(err, NP_EMEM, "a pool of %d steps is too large", s->pool);
    NP_TRY(np_alloc(&s->first, (size_t)shape->blocks, sizeof *s->first, err));
    for (int block = 0; block < shape->blocks; block++) {
        s->first[block] = s->layers;
        s->layers += (size_t)shape->each[block].candidates;
    }
    NP_TRY(np_alloc(&s->drawn, words, sizeof *s->drawn, err));
    NP_TRY(np_alloc(&s->order, (size_t)s->pool, sizeof *s->order, err));
    NP_TRY(np_zalloc(&s->updated, s->layers, sizeof *s->updated, err));
    for (int i = 0; i < s->pool; i++)
        s->order[i] = i;
out:
    return status;
}

enum np_status np_spread_init(struct np_stream *stream, int pool, struct np_error *err)
{
    uint64_t target = stream->step;
    struct spread *s = NULL;
    uint16_t *passed = NULL;
    enum np_status status;
    bool more;
    NP_TRY(np_zalloc(&s, 1, sizeof *s, err));
    s->pool = pool;
    stream->state = s;
    stream->close = close_spread;
    stream->next = next_spread;
    NP_TRY(allocate(s, &stream->shape, err));
    NP_TRY(np_alloc(&passed, s->step_words, sizeof *passed, err));
    stream->step = target - target % EPOCH;
    while (stream->step < target)
        NP_TRY(next_spread(stream, passed, &more, err));
out:
    free(passed);
    return status;
}
