/* What may be chosen: where subnets come from elsewhere than the sampler. */
#include "space/sampler.h"

/* Which of a block's widths, from 0, a candidate is of. */
static int width_of(const struct np_stream_block *block, int candidate)
{
    return candidate / np_stream_each(block);
}

/* Widths that are tied are of one number: candidates count on it. */
static enum np_status check_width(const struct np_stream_shape *shape, const uint16_t *choices,
                                  int block, struct np_error *err)
{
    const struct np_stream_block *b = &shape->each[block];
    int first = b->width_drawn, width, other;
    if (!b->widths || first == block || b->drawn != block)
        return NP_OK;
    width = width_of(b, choices[block]);
    other = width_of(&shape->each[first], choices[first]);
    if (width == other)
        return NP_OK;
    return np_fail(err, NP_EINPUT,
                   "candidate %d of block %d is of width %d, candidate %d of block %d of width %d: "
                   "they are tied",
                   choices[block], block, width, choices[first], first, other);
}

/* Of one depth the last blocks are passed over: all of a level, and of those behind it. */
static enum np_status check_depth(const struct np_stream_shape *shape, const uint16_t *choices,
                                  int block, struct np_error *err)
{
    const struct np_stream_block *b = &shape->each[block], *before = b - 1;
    bool passed, was;
    if (b->level == 0 || block == b->depth_drawn || before->level == 0)
        return NP_OK;
    passed = np_stream_passes(b, choices[block]);
    was = np_stream_passes(before, choices[block - 1]);
    if (passed == was || (passed && before->level < b->level))
        return NP_OK;
    return np_fail(
        err, NP_EINPUT,
        "candidate %d of block %d %s, candidate %d of block %d %s: they are of one depth",
        choices[block], block, passed ? "passes over it" : "does not pass over it",
        choices[block - 1], block - 1, was ? "does" : "does not");
}

enum np_status np_stream_choose(uint16_t *choices, const struct np_stream_shape *shape, int block,
                                int candidate, struct np_error *err)
{
    enum np_status status;
    if (candidate >= shape->each[block].candidates)
        return np_fail(err, NP_EINPUT, "candidate %d of block %d is not in 0..%d", candidate, block,
                       shape->each[block].candidates - 1);
    choices[block] = (uint16_t)candidate;
    NP_TRY(check_width(shape, choices, block, err));
    NP_TRY(check_depth(shape, choices, block, err));
out:
    return status;
}
