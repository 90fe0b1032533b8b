/* Costs on a device apart from the host, by the host's clock: one crew passes over all kinds, as
 * teams of processors do (profile_bench.c), and each operator is awaited, as a task's are. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "plan/profile_bench.h"
#include "plan/profile_stage.h"

#define PASSES_MIN 3 /* the first of which warms up */
#define PASSES_MAX 40

struct bench {
    struct np_bench_stage layers;
    struct np_crew *crew;
    void *scratch;
    float *times; /* [kinds][NP_BENCH_COUNT][PASSES_MAX] nanoseconds */
};

struct job {
    const struct np_bench_stage *layers;
    enum np_bench_op op;
    int kind;
};

static float *times_of(const struct bench *bench, int kind, int op)
{
    return bench->times + ((size_t)kind * NP_BENCH_COUNT + (size_t)op) * PASSES_MAX;
}

static void begin(struct np_team *team, void *argument)
{
    np_bench_stage_begin(argument, team);
}

static void run(struct np_team *team, void *argument)
{
    const struct job *job = argument;
    np_bench_stage_run(job->layers, team, job->op, job->kind);
}

static enum np_status run_pass(const struct bench *bench, int pass, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int op = 0; op < NP_BENCH_COUNT; op++) {
        for (int k = 0; k < bench->layers.net->kind_count; k++) {
            struct job job = {&bench->layers, (enum np_bench_op)op, k};
            if (!np_bench_stage_has(&bench->layers, job.op, k))
                continue;
            double begun = np_now_ns();
            np_crew_run(bench->crew, run, &job);
            NP_TRY(np_crew_finish(bench->crew, err));
            times_of(bench, k, op)[pass] = (float)(np_now_ns() - begun);
        }
    }
out:
    return status;
}

static enum np_status bench_init(struct bench *bench, const struct np_supernet *net,
                                 const struct np_profile_config *config, const size_t *samples,
                                 struct np_error *err)
{
    struct np_crew_config crew = {.size = 1, .scratch_bytes = config->scratch};
    enum np_status status;
    NP_TRY(np_zalloc(&bench->times, (size_t)net->kind_count * NP_BENCH_COUNT * PASSES_MAX,
                     sizeof *bench->times, err));
    NP_TRY(np_device_alloc(config->device, &bench->scratch, config->scratch, err));
    crew.scratch = bench->scratch;
    NP_TRY(np_crew_new(&bench->crew, config->device, &crew, err));
    NP_TRY(np_bench_stage_init(&bench->layers, net, config, samples, err));
    np_crew_run(bench->crew, begin, &bench->layers);
    NP_TRY(np_crew_finish(bench->crew, err));
out:
    return status;
}

/* The medians of all passes but the first, which warms up. */
static void summarise(const struct bench *bench, struct np_layer_cost *cost,
                      const struct np_profile_config *config, const size_t *samples, int passes)
{
    for (int k = 0; k < bench->layers.net->kind_count; k++) {
        float ratio = (float)config->samples / (float)samples[k], ns[NP_BENCH_COUNT];
        for (int op = 0; op < NP_BENCH_COUNT; op++)
            ns[op] = np_profile_median(times_of(bench, k, op) + 1, (size_t)passes - 1);
        cost[k].f = roundf(ns[NP_BENCH_F] * ratio);
        cost[k].b = roundf(ns[NP_BENCH_B] * ratio);
        cost[k].w =
            roundf(ns[NP_BENCH_W] * ratio + ns[NP_BENCH_UPDATE] / (float)config->micro_batches);
    }
}

enum np_status np_profile_bench_device(struct np_layer_cost *cost, const struct np_supernet *net,
                                       const struct np_profile_config *config,
                                       const size_t *samples, double budget_ns,
                                       struct np_error *err)
{
    struct bench bench = {.crew = NULL};
    enum np_status status;
    double started = np_now_ns();
    int passes = 0;
    NP_TRY(bench_init(&bench, net, config, samples, err));
    while (passes < 2 || (passes < PASSES_MAX && np_now_ns() - started < 4 * budget_ns &&
                          (passes < PASSES_MIN || np_now_ns() - started < budget_ns)))
        NP_TRY(run_pass(&bench, passes++, err));
    summarise(&bench, cost, config, samples, passes);
out:
    np_crew_free(bench.crew);
    np_bench_stage_clear(&bench.layers);
    np_device_release(config->device, bench.scratch);
    free(bench.times);
    return status;
}
