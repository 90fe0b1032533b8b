#include "exec/work.h"

#include <stdatomic.h>

#include "base/memory.h"

struct job {
    const struct np_work *work;
    atomic_bool not_finite;
    float agreed[NP_MAX_TEAM];
};

static bool run_call(struct job *job, const struct np_op_call *call)
{
    const struct np_work *w = job->work;
    bool finite = true;
    switch (w->kind) {
    case NP_WORK_FORWARD:
        finite = np_op_forward(call, &w->forward);
        if (w->grain_loss)
            np_op_grain_losses(call, w->grain_loss);
        break;
    case NP_WORK_RECOMPUTE:
        np_op_recompute(call, &w->forward);
        break;
    case NP_WORK_BACKWARD:
        finite = np_op_backward(call, &w->backward);
        break;
    case NP_WORK_WEIGHT:
        finite = np_op_weight(call, w->g, &w->backward, w->accumulate);
        break;
    case NP_WORK_UPDATE:
        finite = np_state_update(w->state, call->kernels, call->team, call->layer, w->g, w->lr,
                                 job->agreed, w->report);
    }
    return finite;
}

static void run_member(struct np_team *team, void *argument)
{
    struct job *job = argument;
    const struct np_work *w = job->work;
    struct np_op_call call = w->call;
    call.team = team;
    call.w = w->weights;
    if (!w->weights) {
        np_state_ready(w->state, call.kernels, team, call.layer);
        if (np_kind_whole(call.kind)->floats)
            call.w = np_state_weights(w->state, call.layer, w->version);
    }
    if (!run_call(job, &call))
        atomic_store_explicit(&job->not_finite, true, memory_order_relaxed);
}

enum np_status np_work_run(bool *finite, struct np_crew *crew, const struct np_work *work,
                           struct np_error *err)
{
    struct job job;
    enum np_status status = NP_OK;
    if (!work->weights)
        status = np_state_take(work->state, work->call.layer, err);
    if (status != NP_OK)
        return status;
    job.work = work;
    atomic_init(&job.not_finite, false);
    np_crew_run(crew, run_member, &job);
    *finite = !atomic_load(&job.not_finite);
    return NP_OK;
}

struct sum {
    const struct np_kernels *kernels;
    float *y;
    const float *a, *b; /* a NULL: y = +0; b NULL: y = a */
    size_t count;
    atomic_bool not_finite;
};

static void sum_member(struct np_team *team, void *argument)
{
    struct sum *s = argument;
    if (!s->a) {
        s->kernels->fill(team, s->y, s->count, 0.0f);
    } else if (!s->b) {
        s->kernels->copy(team, s->y, s->a, s->count);
    } else if (!s->kernels->add(team, NP_ACT_NONE, s->y, NULL, s->a, s->b, s->count)) {
        atomic_store_explicit(&s->not_finite, true, memory_order_relaxed);
    }
}

bool np_work_add(struct np_crew *crew, const struct np_kernels *kernels, float *y, const float *a,
                 const float *b, size_t count)
{
    struct sum sum = {.kernels = kernels, .y = y, .a = a, .b = b, .count = count};
    atomic_init(&sum.not_finite, false);
    np_crew_run(crew, sum_member, &sum);
    return !atomic_load(&sum.not_finite);
}

void np_work_copy(struct np_crew *crew, const struct np_kernels *kernels, float *y, const float *a,
                  size_t count)
{
    struct sum sum = {.kernels = kernels, .y = y, .a = a, .count = count};
    np_crew_run(crew, sum_member, &sum);
}

void np_work_zero(struct np_crew *crew, const struct np_kernels *kernels, float *y, size_t count)
{
    struct sum sum = {.kernels = kernels, .y = y, .count = count};
    np_crew_run(crew, sum_member, &sum);
}
