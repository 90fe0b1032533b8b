/* The look-ahead: the causal scheduler run ahead on the known stream, to tell in which order layers
 * will be wanted.
 *
 * It runs on a virtual clock (sched/virtual.h) as far as the known steps allow and is never wound
 * back: the pipeline itself may fall behind the clock, but not far out of its order.
 *
 * Errors    NP_EMEM; what on_visit returned.
 * Threads   one caller at a time.
 */
#ifndef NP_SCHED_AHEAD_H
#define NP_SCHED_AHEAD_H

#include "sched/context.h"
#include "sched/sched.h"

/* The first task of one pass of a step that wants a layer: `tasks` of them do in all. */
struct np_visit {
    int stage;
    uint32_t layer;
    uint64_t step;
    enum np_context_pass pass;
    uint32_t tasks;
};

struct np_ahead_config {
    struct np_sched_config sched;
    double overhead, transfer; /* as np_virtual_config has them */
    enum np_status (*on_visit)(void *context, const struct np_visit *visit, struct np_error *err);
    void *context;
};

struct np_ahead;

enum np_status np_ahead_new(struct np_ahead **out, const struct np_ahead_config *config,
                            struct np_error *err);
void np_ahead_free(struct np_ahead *ahead);

/* The next step's subnets, as np_sched_push has them. The clock goes on until there is room. */
enum np_status np_ahead_push(struct np_ahead *ahead, const uint16_t *choices, struct np_error *err);
/* The clock goes on until no more than `keep` known steps are incomplete. The steps of a window
 * overlap: what is kept back until the steps after it are known is foretold in its true order. */
enum np_status np_ahead_run(struct np_ahead *ahead, uint64_t keep, struct np_error *err);

#endif
