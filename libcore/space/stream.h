/* Inside of struct np_stream: one way to make the next step, behind sampler.h.
 *
 * Ownership: a stream owns its copy of the shape and what `state` points to.
 */
#ifndef NP_SPACE_STREAM_H
#define NP_SPACE_STREAM_H

#include "space/sampler.h"

struct np_stream {
    struct np_stream_shape shape;
    struct np_stream_block *each; /* of the shape */
    uint64_t seed, step;
    enum np_status (*next)(struct np_stream *stream, uint16_t *choices, bool *more,
                           struct np_error *err);
    void (*close)(struct np_stream *stream); /* NULL: nothing to release */
    void *state;
    bool (*give_up)(void *); /* see np_stream_give_up */
    void *waiter;
};

/* A stream of the shape with nothing to make steps yet. */
enum np_status np_stream_new(struct np_stream **out, const struct np_stream_shape *shape,
                             struct np_error *err);

/* Draws one step, every choice independent. */
void np_stream_uniform(const struct np_stream_shape *shape, uint64_t seed, uint64_t step,
                       uint16_t *choices);

/* Makes it a stream of spread steps from stream->step on. */
enum np_status np_spread_init(struct np_stream *stream, int pool, struct np_error *err);

#endif
