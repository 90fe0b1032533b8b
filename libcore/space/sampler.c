#include "space/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "num/philox.h"
#include "space/stream.h"

/* Candidates, then draws. */
static struct np_stream_shape shape_of(const int *arrays, int blocks, int members)
{
    return (struct np_stream_shape){blocks, members, arrays, arrays + blocks};
}

static int drawn(const struct np_stream_shape *shape, int block)
{
    return shape->drawn ? shape->drawn[block] : block;
}

enum np_status np_stream_new(struct np_stream **out, const struct np_stream_shape *shape,
                             struct np_error *err)
{
    struct np_stream *stream = NULL;
    size_t blocks = (size_t)shape->blocks;
    enum np_status status;
    NP_TRY(np_zalloc(&stream, 1, sizeof *stream, err));
    NP_TRY(np_alloc(&stream->arrays, 2 * blocks, sizeof *stream->arrays, err));
    memcpy(stream->arrays, shape->candidates, blocks * sizeof *stream->arrays);
    for (int b = 0; b < shape->blocks; b++)
        stream->arrays[shape->blocks + b] = drawn(shape, b);
    stream->shape = shape_of(stream->arrays, shape->blocks, shape->members);
    *out = stream;
    return NP_OK;
out:
    np_stream_close(stream);
    return status;
}

void np_stream_close(struct np_stream *stream)
{
    if (!stream)
        return;
    if (stream->close)
        stream->close(stream);
    free(stream->arrays);
    free(stream);
}

void np_stream_give_up(struct np_stream *stream, bool (*give_up)(void *), void *context)
{
    stream->give_up = give_up;
    stream->waiter = context;
}

enum np_status np_stream_next(struct np_stream *stream, uint16_t *choices, bool *more,
                              struct np_error *err)
{
    return stream->next(stream, choices, more, err);
}

/* The draw of one choice: (member, block) make the key, the step and an element the counter. */
static uint16_t draw_below(uint64_t seed, enum np_purpose purpose, int member, int block,
                           uint64_t step, uint64_t element, int bound)
{
    struct np_draw_key key = np_draw_key(seed, purpose, (uint32_t)member, (uint32_t)block, 0);
    return (uint16_t)np_philox_below(np_draw(key, step, element), (uint64_t)bound);
}

/* One of a block's candidates. */
static uint16_t draw_choice(const struct np_stream_shape *shape, uint64_t seed,
                            enum np_purpose purpose, int member, int block, uint64_t step)
{
    return draw_below(seed, purpose, member, drawn(shape, block), step, 0,
                      shape->candidates[block]);
}

void np_stream_uniform(const struct np_stream_shape *shape, uint64_t seed, uint64_t step,
                       uint16_t *choices)
{
    for (int member = 0; member < shape->members; member++)
        for (int block = 0; block < shape->blocks; block++)
            *choices++ = draw_choice(shape, seed, NP_DRAW_SUBNET, member, block, step);
}

enum np_status np_stream_shape_init(struct np_stream_shape *shape, int **arrays,
                                    const struct np_recipe *recipe, struct np_error *err)
{
    enum np_status status =
        np_zalloc(arrays, 2 * (size_t)recipe->block_count, sizeof **arrays, err);
    if (status != NP_OK)
        return status;
    for (int b = 0; b < recipe->block_count; b++) {
        (*arrays)[b] = recipe->blocks[b].count;
        (*arrays)[recipe->block_count + b] = recipe->blocks[b].drawn;
    }
    *shape = shape_of(*arrays, recipe->block_count, recipe->members);
    return NP_OK;
}

void np_stream_eval_subnet(const struct np_stream_shape *shape, uint64_t seed, uint64_t index,
                           uint16_t *choices)
{
    for (int block = 0; block < shape->blocks; block++)
        choices[block] = draw_choice(shape, seed, NP_DRAW_EVAL, 0, block, index);
}

static enum np_status next_uniform(struct np_stream *stream, uint16_t *choices, bool *more,
                                   struct np_error *err)
{
    (void)err;
    np_stream_uniform(&stream->shape, stream->seed, stream->step++, choices);
    *more = true;
    return NP_OK;
}

/* A permutation of the candidates down each block's column (Fisher and Yates). */
static enum np_status next_fair(struct np_stream *stream, uint16_t *choices, bool *more,
                                struct np_error *err)
{
    int blocks = stream->shape.blocks, members = stream->shape.members;
    (void)err;
    for (int block = 0; block < blocks; block++) {
        uint16_t *column = choices + block;
        int count = stream->shape.candidates[block];
        for (int i = 0; i < members; i++)
            column[i * blocks] = count > 1 ? (uint16_t)i : 0;
        for (int i = count - 1; i > 0; i--) {
            int j = draw_below(stream->seed, NP_DRAW_SUBNET, 0, drawn(&stream->shape, block),
                               stream->step, (uint64_t)i, i + 1);
            uint16_t kept = column[i * blocks];
            column[i * blocks] = column[j * blocks];
            column[j * blocks] = kept;
        }
    }
    stream->step++;
    *more = true;
    return NP_OK;
}

static enum np_status check_fair(const struct np_stream_shape *shape, struct np_error *err)
{
    for (int block = 0; block < shape->blocks; block++)
        if (shape->candidates[block] != shape->members && shape->candidates[block] != 1)
            return np_fail(err, NP_EINPUT,
                           "sampler fair: block %d has %d candidates, a step %d members", block,
                           shape->candidates[block], shape->members);
    return NP_OK;
}

enum np_status np_stream_draw(struct np_stream **out, const struct np_stream_shape *shape,
                              enum np_sampler_kind kind, int spread, uint64_t seed, uint64_t first,
                              struct np_error *err)
{
    struct np_stream *stream = NULL;
    enum np_status status;
    if (kind == NP_SAMPLER_FAIR)
        NP_TRY(check_fair(shape, err));
    NP_TRY(np_stream_new(&stream, shape, err));
    stream->seed = seed;
    stream->step = first;
    stream->next = kind == NP_SAMPLER_FAIR ? next_fair : next_uniform;
    if (kind == NP_SAMPLER_SPREAD)
        NP_TRY(np_spread_init(stream, spread, err));
    *out = stream;
    return NP_OK;
out:
    np_stream_close(stream);
    return status;
}
