#include "sched/contexts.h"

#include <stdlib.h>

#include "base/memory.h"
#include "sched/ahead.h"
#include "sched/balance.h"

struct np_contexts {
    int stages;
    uint64_t window, lookahead;
    struct np_ahead *ahead;
    struct np_context **context; /* [stages] */
};

/* What is fetched ahead: a pass of the stage, and a few layers. While gradients flow back, layers
 * whose update is over make room for those that the next step begins with. */
static uint64_t distance(const struct np_sched_config *sched, int stage)
{
    int positions = sched->stage_first[stage + 1] - sched->stage_first[stage];
    return 2 + (uint64_t)(positions * sched->members);
}

static enum np_status context_new(struct np_contexts *c, const struct np_contexts_config *config,
                                  int stage, struct np_error *err)
{
    const struct np_sched_config *sched = &config->sched;
    const struct np_balance balance = {sched->positions, sched->stages, sched->stage_first,
                                       sched->unit, sched->reach};
    int first, end;
    np_balance_range(&balance, stage, &first, &end);
    struct np_context_config context = {.first = sched->layer_first[first],
                                        .count =
                                            sched->layer_first[end] - sched->layer_first[first],
                                        .bytes = config->bytes + sched->layer_first[first],
                                        .capacity = config->room[stage],
                                        .before = stage > 0 ? c->context[stage - 1] : NULL,
                                        .policy = config->policy,
                                        .distance = distance(sched, stage)};
    return np_context_new(&c->context[stage], &context, err);
}

static enum np_status on_visit(void *contexts, const struct np_visit *visit, struct np_error *err)
{
    const struct np_contexts *c = contexts;
    return np_context_expect(c->context[visit->stage], visit->layer, visit->step, visit->pass,
                             visit->tasks, err);
}

enum np_status np_contexts_new(struct np_contexts **out, const struct np_contexts_config *config,
                               struct np_error *err)
{
    struct np_ahead_config ahead = {.sched = config->sched,
                                    .overhead = config->overhead,
                                    .transfer = config->transfer,
                                    .on_visit = on_visit};
    struct np_contexts *c = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&c, 1, sizeof *c, err));
    c->stages = config->sched.stages;
    c->window = (uint64_t)config->sched.window;
    c->lookahead = (uint64_t)config->sched.lookahead;
    NP_TRY(np_zalloc(&c->context, (size_t)c->stages, sizeof(struct np_context *), err));
    for (int k = 0; k < c->stages; k++)
        NP_TRY(context_new(c, config, k, err));
    ahead.context = c;
    NP_TRY(np_ahead_new(&c->ahead, &ahead, err));
    *out = c;
    return NP_OK;
out:
    np_contexts_free(c);
    return status;
}

void np_contexts_free(struct np_contexts *c)
{
    if (!c)
        return;
    for (int k = 0; c->context && k < c->stages; k++)
        np_context_free(c->context[k]);
    np_ahead_free(c->ahead);
    free(c->context);
    free(c);
}

struct np_context *const *np_contexts_all(const struct np_contexts *c)
{
    return c->context;
}

enum np_status np_contexts_push(struct np_contexts *c, const uint16_t *choices, uint64_t incomplete,
                                bool last, struct np_error *err)
{
    bool hungry = last || incomplete < c->window || c->lookahead < c->window;
    enum np_status status;
    NP_TRY(np_ahead_push(c->ahead, choices, err));
    NP_TRY(np_ahead_run(c->ahead, hungry ? 0 : c->window, err));
out:
    return status;
}

enum np_status np_contexts_end(struct np_contexts *c, struct np_error *err)
{
    return np_ahead_run(c->ahead, 0, err);
}
