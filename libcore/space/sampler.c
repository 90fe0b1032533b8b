#include "space/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "num/philox.h"
#include "space/stream.h"

enum np_status np_stream_new(struct np_stream **out, const struct np_stream_shape *shape,
                             struct np_error *err)
{
    struct np_stream *stream = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&stream, 1, sizeof *stream, err));
    NP_TRY(np_alloc(&stream->each, (size_t)shape->blocks, sizeof *stream->each, err));
    memcpy(stream->each, shape->each, (size_t)shape->blocks * sizeof *stream->each);
    stream->shape = *shape;
    stream->shape.each = stream->each;
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
    free(stream->each);
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

/* One of a block's candidates: element 0; 1 is its width, and 2 the number of its depth. */
static uint16_t draw_choice(const struct np_stream_shape *shape, uint64_t seed,
                            enum np_purpose purpose, int member, int block, uint64_t step)
{
    const struct np_stream_block *b = &shape->each[block];
    int each = np_stream_each(b), passing = b->level > 0, width = 0;
    if (b->widths)
        width = draw_below(seed, purpose, member, b->width_drawn, step, 1, b->widths);
    if (passing && draw_below(seed, purpose, member, b->depth_drawn, step, 2, b->depths) < b->level)
        return (uint16_t)(width * each + each - 1);
    return (uint16_t)(width * each +
                      draw_below(seed, purpose, member, b->drawn, step, 0, each - passing));
}

void np_stream_uniform(const struct np_stream_shape *shape, uint64_t seed, uint64_t step,
                       uint16_t *choices)
{
    for (int member = 0; member < shape->members; member++)
        for (int block = 0; block < shape->blocks; block++)
            *choices++ = draw_choice(shape, seed, NP_DRAW_SUBNET, member, block, step);
}

struct np_stream_block np_stream_block_of(const struct np_recipe *recipe, int block)
{
    const struct np_block *b = &recipe->blocks[block];
    struct np_stream_block of = {.candidates = b->count,
                                 .widths = b->widths,
                                 .drawn = b->drawn,
                                 .width_drawn = b->width_drawn,
                                 .largest = b->largest,
                                 .smallest = b->smallest,
                                 .level = b->level};
    if (b->level > 0) {
        of.depths = recipe->depths[b->depth].count;
        of.depth_drawn = recipe->depths[b->depth].first;
    }
    return of;
}

enum np_status np_stream_shape_init(struct np_stream_shape *shape, struct np_stream_block **each,
                                    const struct np_recipe *recipe, struct np_error *err)
{
    enum np_status status = np_zalloc(each, (size_t)recipe->block_count, sizeof **each, err);
    if (status != NP_OK)
        return status;
    for (int b = 0; b < recipe->block_count; b++)
        (*each)[b] = np_stream_block_of(recipe, b);
    *shape = (struct np_stream_shape){recipe->block_count, recipe->members, *each};
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

static enum np_status next_sandwich(struct np_stream *stream, uint16_t *choices, bool *more,
                                    struct np_error *err)
{
    const int blocks = stream->shape.blocks, members = stream->shape.members;
    enum np_status status = next_uniform(stream, choices, more, err);
    for (int b = 0; b < blocks; b++) {
        choices[b] = (uint16_t)stream->shape.each[b].largest;
        if (members > 1)
            choices[blocks + b] = (uint16_t)stream->shape.each[b].smallest;
    }
    return status;
}

/* Fisher and Yates; elements of the counter from first + 1 on. */
static void shuffle(uint16_t *list, int count, uint64_t seed, int block, uint64_t step,
                    uint64_t first)
{
    for (int i = count - 1; i > 0; i--) {
        int j = draw_below(seed, NP_DRAW_SUBNET, 0, block, step, first + (uint64_t)i, i + 1);
        uint16_t kept = list[i];
        list[i] = list[j];
        list[j] = kept;
    }
}

/* Members take places in a permutation, and each place has a candidate: as many places each width,
 * and each candidate; which of those of the width is another permutation. */
static void draw_fair(const struct np_stream *stream, int block, uint16_t *column)
{
    const struct np_stream_block *b = &stream->shape.each[block];
    uint16_t place[NP_MAX_MEMBERS], candidate[NP_MAX_MEMBERS];
    int members = stream->shape.members, widths = b->widths ? b->widths : 1;
    int places = members / widths, each = b->candidates / widths;
    for (int i = 0; i < members; i++) {
        place[i] = (uint16_t)i;
        candidate[i] = (uint16_t)(i / places * each + i % places % each);
    }
    shuffle(place, members, stream->seed, b->width_drawn, stream->step, 0);
    for (int i = 0; i < b->widths; i++)
        shuffle(candidate + i * places, places, stream->seed, b->drawn, stream->step,
                (uint64_t)(members + i * places));
    for (int i = 0; i < members; i++)
        column[i * stream->shape.blocks] = candidate[place[i]];
}

static enum np_status next_fair(struct np_stream *stream, uint16_t *choices, bool *more,
                                struct np_error *err)
{
    (void)err;
    for (int block = 0; block < stream->shape.blocks; block++)
        draw_fair(stream, block, choices + block);
    stream->step++;
    *more = true;
    return NP_OK;
}

static enum np_status check_fair(const struct np_stream_shape *shape, struct np_error *err)
{
    for (int block = 0; block < shape->blocks; block++)
        if (shape->members % shape->each[block].candidates != 0)
            return np_fail(err, NP_EINPUT,
                           "sampler fair: block %d has %d candidates, a step %d members", block,
                           shape->each[block].candidates, shape->members);
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
    stream->next = kind == NP_SAMPLER_FAIR       ? next_fair
                   : kind == NP_SAMPLER_SANDWICH ? next_sandwich
                                                 : next_uniform;
    if (kind == NP_SAMPLER_SPREAD)
        NP_TRY(np_spread_init(stream, spread, err));
    *out = stream;
    return NP_OK;
out:
    np_stream_close(stream);
    return status;
}
