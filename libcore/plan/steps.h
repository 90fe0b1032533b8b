/* Steps for the simulator: a stream of subnets, cut off after a number of steps.
 *
 * Shapes    a stream gives choices per block; the scheduler wants them per position: with stem and
 *           head (positions = blocks + 2) those take candidate 0.
 * Errors    the simulator knows only "no more": what went wrong stays in status and err.
 * Ownership np_steps_clear closes the stream.
 */
#ifndef NP_PLAN_STEPS_H
#define NP_PLAN_STEPS_H

#include "space/sampler.h"

struct np_steps {
    struct np_stream *stream;
    int members, blocks, positions;
    uint64_t left;
    uint16_t *row; /* [members][blocks] */
    enum np_status status;
    struct np_error err;
};

/* Takes the stream, also when it fails. */
enum np_status np_steps_init(struct np_steps *steps, struct np_stream *stream,
                             const struct np_stream_shape *shape, int positions, uint64_t limit,
                             struct np_error *err);
/* The recipe's own stream from step 0. */
enum np_status np_steps_of_recipe(struct np_steps *steps, const struct np_supernet *net,
                                  uint64_t limit, struct np_error *err);
void np_steps_clear(struct np_steps *steps);

/* np_sim_config's next_step, with a struct np_steps as context. */
bool np_steps_next(void *steps, uint16_t *choices);

#endif
