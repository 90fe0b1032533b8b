#include "plan/steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum np_status np_steps_init(struct np_steps *steps, struct np_stream *stream,
                             const struct np_stream_shape *shape, int positions, uint64_t limit,
                             struct np_error *err)
{
    *steps = (struct np_steps){.stream = stream,
                               .members = shape->members,
                               .blocks = shape->blocks,
                               .positions = positions,
                               .left = limit};
    enum np_status status = np_zalloc(&steps->row, (size_t)shape->members * (size_t)shape->blocks,
                                      sizeof *steps->row, err);
    if (status != NP_OK)
        np_steps_clear(steps);
    return status;
}

enum np_status np_steps_of_recipe(struct np_steps *steps, const struct np_supernet *net,
                                  uint64_t limit, struct np_error *err)
{
    enum np_status status;
    const struct np_recipe *recipe = net->recipe;
    struct np_stream_shape shape;
    struct np_stream *stream = NULL;
    struct np_stream_block *each = NULL;
    NP_TRY(np_stream_shape_init(&shape, &each, recipe, err));
    NP_TRY(np_stream_draw(&stream, &shape, recipe->sampler, recipe->spread, recipe->seed, 0, err));
    NP_TRY(np_steps_init(steps, stream, &shape, net->positions, limit, err));
out:
    free(each);
    return status;
}

void np_steps_clear(struct np_steps *steps)
{
    np_stream_close(steps->stream);
    free(steps->row);
    *steps = (struct np_steps){0};
}

bool np_steps_next(void *context, uint16_t *choices)
{
    struct np_steps *steps = context;
    int lead = steps->positions > steps->blocks ? 1 : 0; /* the stem */
    bool more = false;
    if (steps->left == 0 || steps->status != NP_OK)
        return false;
    steps->status = np_stream_next(steps->stream, steps->row, &more, &steps->err);
    if (steps->status != NP_OK || !more)
        return false;
    steps->left--;
    memset(choices, 0, (size_t)steps->members * (size_t)steps->positions * sizeof *choices);
    for (int i = 0; i < steps->members; i++)
        memcpy(choices + (size_t)i * (size_t)steps->positions + lead,
               steps->row + (size_t)i * (size_t)steps->blocks,
               (size_t)steps->blocks * sizeof *choices);
    return true;
}
