/* The device memory of a simulation: what each stage has room for, and what a copy takes. */
#include "base/memory.h"
#include "plan/stage_memory.h"
#include "predict.h"

static enum np_status attach(struct predict_model *model, const struct predict_options *given,
                             struct np_error *err)
{
    size_t layers = model->layer_first[model->sched.positions];
    enum np_status status;
    NP_TRY(np_zalloc(&model->bytes, layers, sizeof *model->bytes, err));
    NP_TRY(np_zalloc(&model->room, (size_t)model->sched.stages, sizeof *model->room, err));
    model->has_memory = true;
    model->memory.bytes = model->bytes;
    model->memory.room = model->room;
    model->memory.policy = prefetch_policy(&given->prefetch);
out:
    return status;
}

enum np_status predict_memory_bare(struct predict_model *model, const struct predict_options *given,
                                   struct np_error *err)
{
    const int *first = model->stage_first;
    enum np_status status;
    NP_TRY(attach(model, given, err));
    for (uint32_t l = 0; l < model->layer_first[model->sched.positions]; l++)
        model->bytes[l] = 1;
    for (int k = 0; k < model->sched.stages; k++)
        model->room[k] = (uint64_t)given->capacity * (uint64_t)(first[k + 1] - first[k]);
    model->memory.speed = (struct np_copy_speed){.latency = given->fetch_time};
out:
    return status;
}

enum np_status predict_memory_of_plan(struct predict_model *model,
                                      const struct predict_options *given,
                                      const struct np_supernet *net, const struct np_plan *plan,
                                      struct np_error *err)
{
    enum np_status status;
    if (plan->disk.read && !model->nanoseconds)
        return np_fail(err, NP_EINPUT,
                       "a stash in a file takes a time that only --costs plan knows");
    NP_TRY(attach(model, given, err));
    NP_TRY(np_memory_room(model->room, model->bytes, plan, net, err));
    model->device_bytes = plan->device_bytes;
    model->disk = plan->disk;
    model->memory.speed = np_memory_copy_speed(&plan->disk);
out:
    return status;
}

struct np_sim_stage predict_sum(const struct predict_run *run)
{
    struct np_sim_stage sum = {.copy = 0};
    for (int k = 0; k < run->model->sched.stages; k++) {
        const struct np_sim_stage *stage = &run->stages[k];
        np_context_sums_add(&sum.sums, &stage->sums);
        sum.copy += stage->copy;
        sum.stall += stage->stall;
    }
    return sum;
}

/* What is always in use beside layers that come and go. */
static uint64_t fixed_bytes(const struct predict_model *model, int stage)
{
    return model->device_bytes ? model->device_bytes - model->room[stage] : 0;
}

uint64_t predict_peak(const struct predict_run *run, int stage)
{
    return fixed_bytes(run->model, stage) + run->stages[stage].sums.peak_bytes;
}

enum np_status predict_trace_stages(struct predict_run *run, struct np_error *err)
{
    const struct predict_model *model = run->model;
    enum np_status status = np_trace_make_stages(&run->trace, model->sched.stages, err);
    run->trace.copying = (struct np_trace_copying){.policy = model->memory.policy,
                                                   .lookahead = model->sched.lookahead,
                                                   .in_file = model->disk.read > 0,
                                                   .disk = model->disk};
    for (int k = 0; k < model->sched.stages && status == NP_OK; k++) {
        uint64_t fixed = fixed_bytes(model, k);
        run->trace.stage[k] = (struct np_trace_stage){.device_bytes = fixed + model->room[k],
                                                      .fixed_bytes = fixed,
                                                      .sums = run->stages[k].sums};
    }
    return status;
}
