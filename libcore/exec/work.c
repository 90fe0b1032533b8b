#include "exec/work.h"

#include <stdatomic.h>

struct job {
    const struct np_work *work;
    atomic_bool not_finite;
    _Atomic uint64_t fingerprint;
    float agreed[1 + NP_MAX_TEAM];
    enum np_status status; /* rank 0's, the same on every member */
    struct np_error *err;
};

static void run_member(struct np_team *team, void *argument)
{
    struct job *job = argument;
    const struct np_work *w = job->work;
    struct np_op_call call = w->call;
    bool finite = true;
    uint64_t fingerprint = 0;
    enum np_status status =
        np_state_ready(w->state, call.kernels, team, call.layer, team->rank == 0 ? job->err : NULL);
    if (team->rank == 0)
        job->status = status;
    if (status != NP_OK)
        return;
    call.team = team;
    call.kind = np_supernet_kind(w->state->net, call.layer);
    if (call.kind->floats)
        call.w = np_state_weights(w->state, call.layer, w->version);
    if (w->forward)
        finite = np_op_forward(&call, w->y, w->x) && finite;
    if (w->grain_loss)
        np_op_grain_losses(&call, w->grain_loss);
    if (w->backward)
        finite = np_op_backward(&call, w->dx, w->x, w->dy) && finite;
    if (w->weight)
        np_op_weight(&call, w->g, w->x, w->dy, w->accumulate);
    if (w->update)
        finite = np_state_update(w->state, call.kernels, team, call.layer, w->g, w->lr, job->agreed,
                                 &fingerprint) &&
                 finite;
    if (!finite)
        atomic_store_explicit(&job->not_finite, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->fingerprint, fingerprint, memory_order_relaxed);
}

enum np_status np_work_run(struct np_work_result *result, struct np_crew *crew,
                           const struct np_work *work, struct np_error *err)
{
    struct job job;
    job.work = work;
    job.status = NP_OK;
    job.err = err;
    atomic_init(&job.not_finite, false);
    atomic_init(&job.fingerprint, 0);
    np_crew_run(crew, run_member, &job);
    result->finite = !atomic_load(&job.not_finite);
    result->fingerprint = atomic_load(&job.fingerprint);
    return job.status;
}
