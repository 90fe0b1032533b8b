/* What both executors need to know of a step. Private to exec/. */
#ifndef NP_EXEC_STEP_H
#define NP_EXEC_STEP_H

#include "exec/train.h"

/* The layer whose weights a subnet has at a position, given choices[positions], and what it
 * computes with them. */
static inline uint32_t np_step_layer(const struct np_supernet *net, const uint16_t *choices,
                                     int position)
{
    return net->layer_whole[net->layer_first[position] + choices[position]];
}

static inline const struct np_kind *np_step_kind(const struct np_supernet *net,
                                                 const uint16_t *choices, int position)
{
    return np_supernet_kind(net, net->layer_first[position] + choices[position]);
}

/* True if the layer is updated by the steps that activate it. */
static inline bool np_step_trains(const struct np_supernet *net, int position, uint32_t layer)
{
    return np_supernet_kind(net, layer)->floats &&
           !(np_supernet_is_end(net, position) && net->recipe->shared_frozen);
}

/* The version that a step reads: a shared layer's after exactly the updates of steps <= step - D,
 * a candidate's latest (the scheduler has made sure that it is the right one). */
uint64_t np_step_version(const struct np_state *state, int position, uint32_t layer, uint64_t step);

/* The first member of the step that activates the same layer at the position: it owns the layer's
 * gradient. choices[members][positions]. */
int np_step_owner(const struct np_supernet *net, const uint16_t *choices, int member, int position);

/* Reads the next step of a stream into choices[members][positions], stem and head included;
 * `blocks` is scratch for [members][blocks]. */
enum np_status np_step_read(const struct np_supernet *net, struct np_stream *stream,
                            uint16_t *choices, uint16_t *blocks, bool *more, struct np_error *err);

/* Whose mini-batch a member trains on. */
static inline uint32_t np_step_batch(const struct np_recipe *recipe, int member)
{
    return recipe->same_batch ? 0 : (uint32_t)member;
}

/* Targets of a member's mini-batch; `step` counts from the run's first. */
uint64_t np_step_targets(const struct np_train_config *config, uint64_t step, int member);

/* A loss: its grains' losses added in order, divided by its targets. */
float np_step_loss(const struct np_recipe *recipe, const float *grain_loss, uint64_t targets);

/* By layer number: the order of a step record. */
void np_step_sort_prints(struct np_layer_print *prints, size_t count);

/* What was not finite; faults are ordered as the sequential reference meets them. */
struct np_step_fault {
    uint64_t step;
    bool update; /* met in an update: these come after all members' passes */
    int member;
    enum np_task_kind pass; /* within a member: F by position, then B and W from the head down */
    int position;
    const char *what; /* "output", "gradient", "update"; of a head "loss": what outputs add up to */
};
/* True if a comes before b. */
bool np_step_fault_before(const struct np_step_fault *a, const struct np_step_fault *b);
/* The error message of a fault: step, subnet, layer. choices[members][positions] of its step. */
enum np_status np_step_fault_error(const struct np_step_fault *fault, const struct np_supernet *net,
                                   const uint16_t *choices, struct np_error *err);

#endif
