/* What a task does: the forward, backward-input or backward-weight pass of its positions. */
#include "exec/crossing.h"
#include "exec/engine.h"

struct job {
    struct np_engine *engine;
    const struct np_task *task;
    struct np_slot *slot;
    struct np_sweep sweep;
    struct np_started *started;
};

/* The number of a task's flight on its replica. */
static uint64_t flight_of(const struct np_engine *e, const struct np_task *task)
{
    const struct np_sched_share share = np_plan_share(e->config.plan, e->config.net);
    return np_sched_flight_of(&share, task->step, task->member, task->micro);
}

static struct np_sweep sweep_of(const struct np_stage *stage, const struct np_task *task)
{
    const struct np_engine *e = stage->engine;
    const struct np_recipe *recipe = e->config.net->recipe;
    const struct np_plan *plan = e->config.plan;
    struct np_slot *slot = np_engine_slot(e, task->step);
    size_t positions = (size_t)e->config.net->positions, member = (size_t)task->member;
    size_t micros = (size_t)plan->micro_batches;
    size_t memories = np_engine_memories(e);
    size_t memory = (size_t)np_flight_memory((int)memories, plan->stages, task->stage);
    int device = task->device - task->stage;
    size_t row = (member * micros + (size_t)task->micro) * memories + memory;
    size_t first = (size_t)task->micro * e->samples, grain = (size_t)recipe->grain;
    struct np_sweep sweep = {
        .config = &e->config,
        .state = e->state,
        .crew = stage->crew,
        .layout = &e->layout,
        .device = device,
        .flights = e->flights + device,
        .copies = e->replicas,
        .flight = flight_of(e, task),
        .step = e->base + task->step,
        .member = task->member,
        .first = first,
        .samples = e->samples,
        .choices = slot->choices + member * positions,
        .stages = slot->stages,
        .cells = slot->cells + row * positions,
        .transport = e->transport,
        .came = {stage->carrier, stage->came},
        .parts = stage->parts,
        .entry = e->transport ? np_crossing_entry(plan, slot->stages, task->first) : 0,
        .grain_loss = slot->grain_loss + (member * (size_t)recipe->batch + first) / grain};
    if (e->transport)
        sweep.went =
            (struct np_carrier){stage->carrier, stage->went[sweep.flight % e->stamp_count]};
    return sweep;
}

/* The gradient; after the last contribution to the layer, its update. */
static enum np_status weight(const struct job *job, int position, bool *finite,
                             struct np_error *err)
{
    struct np_started *started = job->started;
    const struct np_supernet *net = job->engine->config.net;
    uint32_t layer = np_step_layer(net, job->sweep.choices, position);
    int owner = np_step_owner(net, job->slot->choices, job->task->member, position);
    int stage = job->task->stage;
    float *g = np_flights_sum(&job->sweep.flights[stage], &job->engine->layout.stage[stage],
                              position, job->task->step, owner, layer - net->layer_first[position]);
    struct np_replicas *replicas = job->engine->replicas;
    enum np_status status = NP_OK;
    if (replicas)
        NP_TRY(np_replicas_take_sum(replicas, job->task, layer, owner, job->slot->choices,
                                    job->sweep.crew, err));
    NP_TRY(np_sweep_weight(&job->sweep, position, g, !job->task->opens, finite, err));
    if (!job->task->updates)
        goto out;
    if (replicas)
        NP_TRY(np_replicas_take_layer(replicas, job->task->device, layer, job->sweep.crew, err));
    NP_TRY(
        np_sweep_update(&job->sweep, position, g, &started->report, &started->update_finite, err));
    if (job->engine->mirrors)
        np_mirrors_send(job->engine->mirrors, layer);
    started->updates = true;
out:
    return status;
}

static enum np_status pass(const struct job *job, int position, bool *finite, struct np_error *err)
{
    if (job->task->kind == NP_TASK_F)
        return np_sweep_forward(&job->sweep, position, finite, err);
    if (job->task->kind == NP_TASK_B)
        return np_sweep_backward(&job->sweep, position, finite, err);
    return weight(job, position, finite, err);
}

/* Keeps an update of stem or head and what other replicas do with it apart; NULL: nobody else is
 * there. */
static pthread_rwlock_t *guard(const struct job *job, int position)
{
    struct np_engine *e = job->engine;
    if (np_plan_replicas(e->config.plan) == 1 || !np_supernet_is_end(e->config.net, position))
        return NULL;
    return &e->shared[position > 0];
}

/* What the crew has been told is done before: also what it was to carry. */
static enum np_status unlock(const struct job *job, pthread_rwlock_t *lock, enum np_status status,
                             struct np_error *err)
{
    struct np_crew *crew = job->sweep.crew;
    if (lock && status == NP_OK)
        status = np_link_await(job->engine->config.link, crew, np_crew_mark(crew, NULL), err);
    if (lock)
        pthread_rwlock_unlock(lock);
    return status;
}

static enum np_status guarded_pass(const struct job *job, int position, bool *finite,
                                   struct np_error *err)
{
    pthread_rwlock_t *lock = guard(job, position);
    if (job->engine->replicas && !job->task->updates) /* it has a copy, or is who updates */
        lock = NULL;
    if (lock && job->task->updates)
        pthread_rwlock_wrlock(lock);
    else if (lock)
        pthread_rwlock_rdlock(lock);
    return unlock(job, lock, pass(job, position, finite, err), err);
}

/* The copy of a layer that its replica shall have, from where the layer is at home. */
static enum np_status bring_copy(const struct job *job, int position, uint32_t layer,
                                 struct np_error *err)
{
    struct np_replicas *replicas = job->engine->replicas;
    uint64_t version = np_sweep_version(&job->sweep, position);
    pthread_rwlock_t *lock;
    if (!replicas || !np_replicas_lacks(replicas, job->task->device, layer, version))
        return NP_OK;
    lock = guard(job, position);
    if (lock)
        pthread_rwlock_rdlock(lock);
    return unlock(
        job, lock,
        np_replicas_bring(replicas, job->task->device, layer, version, job->sweep.crew, err), err);
}

/* The pass over a position, with its layer on the device. */
static enum np_status visit(const struct job *job, int position, bool *finite, struct np_error *err)
{
    struct np_residence *residence = job->engine->residence;
    const struct np_task *task = job->task;
    uint32_t layer = np_step_layer(job->engine->config.net, job->sweep.choices, position);
    enum np_context_pass which = task->kind == NP_TASK_F ? NP_CONTEXT_FORWARD : NP_CONTEXT_BACKWARD;
    enum np_status status;
    if (job->engine->mirrors)
        NP_TRY(np_mirrors_bring(job->engine->mirrors, task->stage, layer, job->sweep.crew, err));
    NP_TRY(bring_copy(job, position, layer, err));
    if (!residence)
        return guarded_pass(job, position, finite, err);
    NP_TRY(np_residence_enter(residence, task->stage, layer, task->step, which,
                              &job->started->stall_s, err));
    status = pass(job, position, finite, err);
    np_residence_leave(residence, task->stage, layer, job->started->updates);
out:
    return status;
}

/* What the task needs of other memories comes before it. */
static enum np_status enter(const struct job *job, struct np_error *err)
{
    const struct np_task *task = job->task;
    if (task->kind == NP_TASK_F)
        return np_crossing_enter(&job->sweep, task->first, err);
    if (task->kind == NP_TASK_B)
        return np_crossing_enter_back(&job->sweep, task->first + task->count - 1, err);
    return NP_OK;
}

/* The i-th position that a task visits. */
static int visited(const struct np_task *task, int i)
{
    return task->first + (task->kind == NP_TASK_B ? task->count - 1 - i : i);
}

bool np_engine_succeeds(const struct np_stage *stage, const struct np_task *task)
{
    const struct np_engine *e = stage->engine;
    uint64_t slots = e->layout.stage[task->stage].slots;
    for (uint64_t i = stage->settled; stage->carrier && i < stage->started; i++) {
        const struct np_task *told = &stage->tasks[i % NP_CREW_AHEAD].task;
        if (task->kind == NP_TASK_F && told->kind == NP_TASK_B &&
            flight_of(e, told) % slots == flight_of(e, task) % slots)
            return true;
    }
    return false;
}

/* A flight comes to a stage whose slot later stages may still read for an earlier one. Gradients
 * that go out of it were told to the carrier before what now comes in (np_engine_succeeds), and the
 * crew goes on after that. */
static void await_slot(const struct job *job)
{
    const struct np_engine *e = job->engine;
    const struct np_task *task = job->task;
    const struct np_stage *stage = &e->stages[task->device];
    uint64_t slots = e->layout.stage[task->stage].slots, flight = job->sweep.flight;
    size_t before = (size_t)((flight - slots) % e->stamp_count);
    bool comes = task->kind == NP_TASK_F &&
                 (task->first == 0 || job->sweep.stages[task->first - 1] != task->stage);
    if (!comes || flight < slots)
        return;
    for (int k = task->stage; k < e->config.plan->stages && stage->stamps; k++) {
        if (k > task->stage)
            np_crew_after(stage->crew, e->stages[k].stamps[before]);
        if (stage->carrier) /* which does not follow the stage's own crew either */
            np_crew_after(stage->carrier, e->stages[k].stamps[before]);
    }
}

enum np_status np_engine_perform(struct np_stage *stage, struct np_started *started,
                                 struct np_error *err)
{
    const struct np_task *task = &started->task;
    struct np_engine *e = stage->engine;
    struct job job = {.engine = e,
                      .task = task,
                      .slot = np_engine_slot(e, task->step),
                      .sweep = sweep_of(stage, task),
                      .started = started};
    struct np_stamp *stamp = NULL;
    enum np_status status = NP_OK;
    started->update_finite = true;
    await_slot(&job);
    NP_TRY(enter(&job, err));
    for (int i = 0; i < task->count; i++) {
        started->finite[i] = true;
        NP_TRY(visit(&job, visited(task, i), &started->finite[i], err));
    }
    if (task->kind == NP_TASK_F)
        np_crossing_leave(&job.sweep, task->first + task->count - 1);
    if (stage->stamps)
        stamp = stage->stamps[job.sweep.flight % e->stamp_count];
    started->mark = np_crew_mark(stage->crew, stamp);
    if (stage->ahead == 1)
        status = np_engine_await(stage, started, err);
out:
    return status;
}

enum np_status np_engine_await(struct np_stage *stage, struct np_started *started,
                               struct np_error *err)
{
    const struct np_task *task = &started->task;
    struct np_sweep sweep = sweep_of(stage, task);
    enum np_status status =
        np_link_await(stage->engine->config.link, stage->crew, started->mark, err);
    if (status == NP_OK && task->kind == NP_TASK_B)
        status = np_crossing_leave_back(&sweep, task->first, err);
    return status;
}

bool np_engine_fault(const struct np_stage *stage, const struct np_started *started,
                     struct np_step_fault *fault)
{
    const struct np_engine *e = stage->engine;
    const struct np_task *task = &started->task;
    int i = 0;
    while (i < task->count && started->finite[i])
        i++;
    if (i == task->count && started->update_finite)
        return false;
    *fault = (struct np_step_fault){.step = e->base + task->step,
                                    .member = task->member,
                                    .pass = task->kind,
                                    .position = visited(task, i),
                                    .what = task->kind == NP_TASK_F ? "output" : "gradient"};
    if (i == task->count) { /* as the reference: reported for the member that owns the layer */
        fault->update = true;
        fault->what = "update";
        fault->position = task->first;
        fault->member = np_step_owner(e->config.net, np_engine_slot(e, task->step)->choices,
                                      task->member, task->first);
    }
    return true;
}
