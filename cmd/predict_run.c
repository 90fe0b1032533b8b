#include <stdlib.h>

#include "base/memory.h"
#include "predict.h"

const char *const predict_schedules[PREDICT_SCHEDULES + 1] = {"csp",  "sequential", "gpipe",
                                                              "1f1b", "naspipe",    "all"};

/* The step that used a member's layer last, from 1, as of the steps before; 0: none. */
static uint64_t *last_use(struct predict_run *run, const uint16_t *choices, int member,
                          int position)
{
    const struct np_sched_config *c = &run->model->sched;
    uint16_t choice = choices[member * c->positions + position];
    return &run->last_use[np_sched_whole(c, c->layer_first[position] + choice)];
}

/* A subnet conflicts at a block when one of the steps that may be in flight with its own uses the
 * same layer. */
static void count_conflicts(struct predict_run *run, const uint16_t *choices)
{
    const struct np_sched_config *c = &run->model->sched;
    for (int i = 0; i < c->members; i++)
        for (int p = 0; p < c->positions; p++) {
            uint64_t last = *last_use(run, choices, i, p);
            bool block = run->model->blocks == c->positions || (p > 0 && p < c->positions - 1);
            if (block && last > 0 && run->step + 1 - last < (uint64_t)c->window)
                run->conflicts++;
        }
    run->step++;
    for (int i = 0; i < c->members; i++)
        for (int p = 0; p < c->positions; p++)
            *last_use(run, choices, i, p) = run->step;
}

static bool next_step(void *context, uint16_t *choices)
{
    struct predict_run *run = context;
    bool more = np_steps_next(&run->steps, choices);
    if (more)
        count_conflicts(run, choices);
    if (run->wanted == UINT64_MAX)
        cli_progress_show(&run->progress, "step %llu", (unsigned long long)run->step);
    else
        cli_progress_show(&run->progress, "step %llu/%llu%s", (unsigned long long)run->step,
                          (unsigned long long)run->wanted,
                          cli_progress_eta(&run->progress, run->step, run->wanted).s);
    return more;
}

static void on_task(void *context, const struct np_span *span)
{
    struct predict_run *run = context;
    if (run->keep)
        np_trace_add(&run->trace, span, NULL);
}

static void on_copy(void *context, const struct np_copy_span *span)
{
    struct predict_run *run = context;
    if (run->keep)
        np_trace_add_copy(&run->trace, span, NULL);
}

static enum np_status open_stream(struct predict_run *run, const struct predict_options *given,
                                  const struct np_supernet *net, uint64_t first, uint64_t steps,
                                  struct np_error *err)
{
    enum np_status status;
    const struct predict_model *model = run->model;
    struct np_stream_shape shape = {model->blocks, model->sched.members, model->each};
    struct np_stream *stream = NULL;
    const struct np_recipe *recipe = net ? net->recipe : NULL;
    uint64_t seed = given->seeded || !recipe ? given->seed : recipe->seed;
    if (given->subnets)
        NP_TRY(np_stream_open(&stream, &shape, given->subnets, first, NULL, NULL, err));
    else
        NP_TRY(np_stream_draw(&stream, &shape, recipe ? recipe->sampler : NP_SAMPLER_UNIFORM,
                              recipe ? recipe->spread : 0, seed, first, err));
    NP_TRY(np_steps_init(&run->steps, stream, &shape, model->sched.positions, steps, err));
out:
    return status;
}

static enum np_status outcome(const struct predict_run *run, struct np_error *err)
{
    if (run->steps.status != NP_OK)
        return np_fail(err, run->steps.status, "%s", run->steps.err.msg);
    if (run->report.steps == 0)
        return np_fail(err, NP_EINPUT, "the stream of subnets is empty");
    return np_trace_is_whole(&run->trace, err);
}

enum np_status predict_run(struct predict_run *run, const struct predict_model *model,
                           const struct predict_options *given, const struct np_supernet *net,
                           int schedule, uint64_t first, uint64_t steps, bool keep,
                           struct np_error *err)
{
    enum np_status status;
    struct np_sim_config sim = {.sched = model->sched,
                                .schedule = (enum np_sim_schedule)schedule,
                                .next_step = next_step,
                                .on_task = on_task,
                                .on_copy = on_copy,
                                .context = run};
    sim.memory = model->has_memory ? &model->memory : NULL;
    *run = (struct predict_run){.model = model, .keep = keep, .wanted = steps};
    sim.overhead = model->overhead;
    sim.transfer = model->transfer;
    NP_TRY(np_zalloc(&run->last_use, model->layer_first[model->sched.positions],
                     sizeof *run->last_use, err));
    NP_TRY(np_zalloc(&run->stages, (size_t)model->sched.stages, sizeof *run->stages, err));
    sim.stages = run->stages;
    NP_TRY(open_stream(run, given, net, first, steps, err));
    cli_progress_begin(&run->progress, given->quiet);
    status = np_sim_run(&run->report, &sim, err);
    cli_progress_end(&run->progress);
    NP_TRY(status);
    NP_TRY(outcome(run, err));
    for (size_t i = 0; i < run->trace.count; i++)
        run->trace.spans[i].task.step += first;
    if (sim.memory && schedule == NP_SIM_CSP)
        NP_TRY(predict_trace_stages(run, err));
out:
    return status;
}

void predict_run_clear(struct predict_run *run)
{
    np_steps_clear(&run->steps);
    free(run->last_use);
    free(run->stages);
    np_trace_clear(&run->trace);
    *run = (struct predict_run){0};
}
