/* The causal scheduler on a virtual clock: what the simulator and the look-ahead have in common.
 *
 * A loop of np_virtual_advance, np_virtual_push of what is known by then, np_virtual_assign runs a
 * pipeline whose tasks take what the config says.
 *
 * Units     times in the unit of the config's costs.
 * Errors    NP_EMEM; NP_ENO when a check finds a broken rule.
 */
#ifndef NP_SCHED_VIRTUAL_H
#define NP_SCHED_VIRTUAL_H

#include "sched/disk.h"
#include "sched/span.h"

struct np_virtual_config {
    struct np_sched_config sched;
    double overhead; /* added to every task */
    double transfer; /* from the end of a task until its output has reached another stage */
    bool check;      /* follow every task with np_rule */
    /* Where layers come and go: the stages' context managers, borrowed, and what a copy takes;
     * contexts NULL: all layers are there, as with replicas. A task waits for a position's layer,
     * holds it while it computes there, and goes on to the next. Copies that take time are begun
     * by threads, once the stage is at its next layer; others by the stage before that. The
     * processor time of a copy that begins while all stages compute is taken from its own stage:
     * what that computes next ends later. */
    struct np_context *const *contexts; /* [stages] */
    struct np_copy_speed copy_speed;
    /* Each task when it starts, each task and copy when it has ended: in order of time. NULL: not
     * told. */
    enum np_status (*on_start)(void *context, const struct np_task *task, struct np_error *err);
    void (*on_end)(void *context, const struct np_span *span);
    void (*on_copy)(void *context, const struct np_copy_span *span);
    void *context;
};

struct np_virtual;

/* Copies the config, what it points to, and nothing of the context. */
enum np_status np_virtual_new(struct np_virtual **out, const struct np_virtual_config *config,
                              struct np_error *err);
void np_virtual_free(struct np_virtual *machine);

/* The scheduler: to be looked at, and not changed. */
const struct np_sched *np_virtual_sched(const struct np_virtual *machine);
double np_virtual_now(const struct np_virtual *machine);

/* The next step's subnets, as np_sched_push has them; only if np_sched_wants it. */
enum np_status np_virtual_push(struct np_virtual *machine, const uint16_t *choices,
                               struct np_error *err);
/* More was foretold to the context managers: copies may begin. */
void np_virtual_foretold(struct np_virtual *machine);
/* Every idle device that may have got a task begins it. */
enum np_status np_virtual_assign(struct np_virtual *machine, struct np_error *err);
/* On to the next time at which something happens: all of it, before anything is decided. *more
 * false: nothing is under way. */
enum np_status np_virtual_advance(struct np_virtual *machine, bool *more, struct np_error *err);
/* At the end: all steps pushed were run by the rule. */
enum np_status np_virtual_finish(struct np_virtual *machine, struct np_error *err);

#endif
