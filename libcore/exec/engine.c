/* The pipeline engine: its threads, and the feeder that reads the stream. */
#include "exec/engine.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

void np_engine_limit(struct np_engine *e, uint64_t limit)
{
    if (limit >= e->limit)
        return;
    e->limit = limit;
    np_sched_stop_after(e->sched, limit - 1);
    pthread_cond_signal(&e->feed);
}

bool np_engine_drained(const struct np_engine *e)
{
    uint64_t known = np_sched_known(e->sched);
    return e->reported >= (known < e->limit ? known : e->limit);
}

/* Room for one more known step: the scheduler wants it and its slot is free. */
static bool has_room(const struct np_engine *e)
{
    return np_sched_wants(e->sched) && np_sched_known(e->sched) - e->reported < e->slot_count;
}

static void push_step(struct np_engine *e)
{
    uint64_t step = np_sched_known(e->sched);
    struct np_slot *slot = np_engine_slot(e, step);
    slot->print_count = 0;
    slot->fingerprint = 0;
    np_sched_push(e->sched, slot->choices);
    memcpy(slot->stages, np_sched_stages(e->sched, step),
           (size_t)e->config.net->positions * sizeof *slot->stages);
    np_engine_wake(e);
}

/* The members' layers at the positions of some stages. */
struct making {
    const struct np_engine *engine;
    const uint16_t *choices;
    int first, end;
};

static uint32_t layer_to_make(const struct making *m, int member, int position)
{
    const struct np_supernet *net = m->engine->config.net;
    return np_step_layer(net, m->choices + member * net->positions, position);
}

static void make_member(struct np_team *team, void *argument)
{
    struct making *m = argument;
    const struct np_engine *e = m->engine;
    for (int i = 0; i < e->config.net->recipe->members; i++)
        for (int p = m->first; p < m->end; p++)
            np_state_ready(e->state, e->config.kernels, team, layer_to_make(m, i, p));
}

/* Takes memory for those that are not made; *any: there are some. */
static enum np_status take_layers(const struct making *m, bool *any, struct np_error *err)
{
    struct np_state *state = m->engine->state;
    enum np_status status = NP_OK;
    *any = false;
    for (int i = 0; i < state->net->recipe->members; i++)
        for (int p = m->first; p < m->end; p++) {
            uint32_t layer = layer_to_make(m, i, p);
            if (state->layers[layer].made || !np_supernet_kind(state->net, layer)->floats)
                continue;
            *any = true;
            NP_TRY(np_state_take(state, layer, err));
        }
out:
    return status;
}

/* The step's layers, before two replicas can meet at one that no step has used yet. */
static enum np_status make_layers(struct np_engine *e, const uint16_t *choices,
                                  struct np_error *err)
{
    const struct np_plan *plan = e->config.plan;
    enum np_status status = NP_OK;
    bool any;
    for (int k = 0, next; k < plan->stages; k = next) {
        for (next = k + 1; next < plan->stages && !e->makers[next];)
            next++;
        struct making making = {e, choices, plan->stage_first[k], plan->stage_first[next]};
        NP_TRY(take_layers(&making, &any, err));
        if (!any)
            continue;
        np_crew_run(e->makers[k], make_member, &making);
        NP_TRY(np_crew_finish(e->makers[k], err));
    }
out:
    return status;
}

/* No step is wanted any more: a stage has failed, or the run is to end. */
static bool is_over(const struct np_engine *e)
{
    return e->quit || e->limit != UINT64_MAX;
}

static bool wants_stop(const struct np_engine *e)
{
    const struct np_train_hooks *hooks = &e->config.hooks;
    return hooks->stop && hooks->stop(hooks->context);
}

void np_engine_heed_stop(struct np_engine *e)
{
    uint64_t started = np_sched_started(e->sched);
    if (is_over(e) || !wants_stop(e))
        return;
    np_engine_limit(e, started ? started : 1);
    e->stopping = true;
}

/* Whether to wait no longer for the stream's writer, who may wait for a loss that will not come. */
static bool gives_up(void *engine)
{
    struct np_engine *e = engine;
    bool over;
    pthread_mutex_lock(&e->lock);
    over = is_over(e) || wants_stop(e);
    pthread_mutex_unlock(&e->lock);
    return over;
}

/* Reads the stream and pushes steps as room appears; returns with the lock held. A stream may be a
 * pipe whose writer waits for our losses, so it is read without the lock; stages may fail then. */
static enum np_status feed(struct np_engine *e, struct np_stream *stream, uint64_t end,
                           struct np_error *err)
{
    enum np_status status = NP_OK;
    bool more = true, last;
    uint64_t incomplete;
    np_stream_give_up(stream, gives_up, e);
    pthread_mutex_lock(&e->lock);
    while (e->base + np_sched_known(e->sched) < end) {
        struct np_slot *slot;
        while (!has_room(e) && !is_over(e))
            pthread_cond_wait(&e->feed, &e->lock);
        np_engine_heed_stop(e);
        if (is_over(e))
            break;
        slot = np_engine_slot(e, np_sched_known(e->sched));
        last = e->base + np_sched_known(e->sched) + 1 >= end;
        incomplete = np_sched_known(e->sched) - np_sched_completed(e->sched);
        pthread_mutex_unlock(&e->lock);
        status = np_step_read(e->config.net, stream, slot->choices, e->blocks, &more, err);
        if (status == NP_OK && more && e->residence)
            status = np_residence_push(e->residence, slot->choices, incomplete, last, err);
        if (status == NP_OK && more && np_plan_replicas(e->config.plan) > 1)
            status = make_layers(e, slot->choices, err);
        pthread_mutex_lock(&e->lock);
        if (status != NP_OK || !more || is_over(e))
            break;
        push_step(e);
    }
    np_stream_give_up(stream, NULL, NULL);
    return status;
}

static enum np_status start_stages(struct np_engine *e, int *started, struct np_error *err)
{
    for (*started = 0; *started < np_plan_devices(e->config.plan); ++*started) {
        struct np_stage *stage = &e->stages[*started];
        errno = pthread_create(&stage->thread, NULL, np_stage_main, stage);
        if (errno)
            return np_fail_errno(err, "cannot start the thread of stage %d", *started);
    }
    return NP_OK;
}

static void end_stages(struct np_engine *e, int started)
{
    pthread_mutex_lock(&e->lock);
    e->quit = true;
    np_engine_wake(e);
    pthread_mutex_unlock(&e->lock);
    for (int k = 0; k < started; k++)
        pthread_join(e->stages[k].thread, NULL);
    e->quit = false;
}

/* What the run came to, worst first. What is asked when step end - 1 has begun stops nothing. */
static enum np_status verdict(struct np_engine *e, enum np_status fed, uint64_t end,
                              struct np_error *err)
{
    uint64_t next = e->base + e->reported;
    if (e->status != NP_OK)
        return np_fail(err, e->status, "%s", e->err.msg);
    if (e->faulted)
        return np_step_fault_error(&e->fault, e->config.net,
                                   np_engine_slot(e, e->fault.step - e->base)->choices, err);
    if (fed == NP_OK && e->stopping && next < end)
        return np_fail(err, NP_ESTOP, "stopped on request after step %llu",
                       (unsigned long long)next);
    return fed;
}

/* What became of the stages' memory, for the trace. */
static enum np_status trace_stages(struct np_engine *e, struct np_error *err)
{
    const struct np_plan *plan = e->config.plan;
    enum np_status status = np_trace_make_stages(e->config.trace, plan->stages, err);
    e->config.trace->copying = (struct np_trace_copying){.policy = e->config.policy,
                                                         .lookahead = plan->lookahead,
                                                         .in_file = e->config.stash != NULL,
                                                         .disk = plan->disk};
    for (int k = 0; k < plan->stages && status == NP_OK; k++)
        e->config.trace->stage[k] =
            (struct np_trace_stage){.device_bytes = plan->device_bytes,
                                    .fixed_bytes = plan->device_bytes - e->room[k],
                                    .sums = np_residence_sums(e->residence, k).context};
    return status;
}

enum np_status np_engine_train(struct np_engine *e, struct np_stream *stream, uint64_t first,
                               uint64_t end, uint64_t *next, struct np_error *err)
{
    enum np_status status;
    int started;
    if (!e->begun)
        e->base = first;
    e->begun = true;
    e->since_s = np_now_s();
    if (e->residence)
        np_residence_begin(e->residence);
    if (e->mirrors)
        np_mirrors_begin(e->mirrors);
    if (e->replicas)
        np_replicas_begin(e->replicas);
    status = start_stages(e, &started, err);
    if (status == NP_OK) {
        status = feed(e, stream, end, err);
        while (!e->quit && !np_engine_drained(e))
            pthread_cond_wait(&e->feed, &e->lock);
        pthread_mutex_unlock(&e->lock);
    }
    end_stages(e, started);
    if (e->residence)
        e->status = np_residence_end(e->residence, e->status, &e->err);
    if (e->residence && e->config.trace && e->status == NP_OK)
        e->status = trace_stages(e, &e->err);
    e->stage_s += (np_now_s() - e->since_s) * np_plan_devices(e->config.plan);
    e->since_s = 0;
    *next = e->base + e->reported;
    if (e->faulted && e->fault.step < *next) /* which is passed over, not reported */
        *next = e->fault.step;
    return verdict(e, status, end, err);
}

struct np_train_times np_engine_times(const struct np_engine *e)
{
    struct np_train_times times = {.stage_s = e->stage_s};
    if (e->since_s > 0)
        times.stage_s += (np_now_s() - e->since_s) * np_plan_devices(e->config.plan);
    for (int d = 0; d < np_plan_devices(e->config.plan); d++)
        times.busy_s += e->stages[d].busy_s;
    return times;
}

bool np_engine_residence(const struct np_engine *e, int stage, struct np_residence_sums *sums)
{
    if (e->residence)
        *sums = np_residence_sums(e->residence, stage);
    return e->residence != NULL;
}

struct np_arena_sums np_engine_memory(const struct np_engine *e, int device)
{
    return np_arena_sums(e->stages[device].arena);
}
