/* Costs by the clock. A pass runs every kind once as a subnet would: all the forwards, then all the
 * backwards, the weights and the updates; so each operator finds its weights and what it saved as
 * cold as training leaves them, and its input as warm. All teams pass at the same time, each
 * beginning with another kind, because stages share memory bandwidth, caches and clock frequency.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "plan/profile_bench.h"
#include "plan/profile_stage.h"

#define PASSES_MIN 2 /* that count */
#define PASSES_MAX 40
#define LONG 4 /* budgets: layers so large are measured by whatever passes that holds */

/* One team's work and what it measured. */
struct stage {
    struct np_bench_stage layers;
    float *times; /* [PASSES_MAX][kinds][NP_BENCH_COUNT] nanoseconds */
    struct np_barrier *barrier;
    char *scratch; /* of all members, one after the other */
};

struct bench {
    const struct np_supernet *net;
    const struct np_profile_config *config;
    const size_t *samples; /* [kinds] */
    struct stage *stages;
    struct worker *workers;
    struct np_barrier *everyone;
    size_t scratch_bytes;      /* of a member */
    int first_pass, last_pass; /* those that count */
    bool stop;
    double started_ns, budget_ns;
    pthread_mutex_t gate; /* held until every worker exists */
    bool cancelled;
};

struct worker {
    struct bench *bench;
    struct stage *stage;
    int stage_index;
    struct np_team team, everyone;
    pthread_t thread;
};

static float *time_of(const struct stage *stage, int pass, int kind, int op)
{
    int kinds = stage->layers.net->kind_count;
    return &stage->times[((size_t)pass * (size_t)kinds + (size_t)kind) * NP_BENCH_COUNT +
                         (size_t)op];
}

static void run_pass(struct worker *worker, int pass)
{
    const struct np_bench_stage *layers = &worker->stage->layers;
    int kinds = layers->net->kind_count;
    for (int op = 0; op < NP_BENCH_COUNT; op++) {
        for (int i = 0; i < kinds; i++) {
            int k = (i + worker->stage_index) % kinds;
            if (!np_bench_stage_has(layers, (enum np_bench_op)op, k))
                continue;
            double begun = np_now_ns();
            np_bench_stage_run(layers, &worker->team, (enum np_bench_op)op, k);
            if (worker->team.rank == 0)
                *time_of(worker->stage, pass, k, op) = (float)(np_now_ns() - begun);
        }
    }
}

/* The first pass warms up, and now and then takes a team 1.6 times as long as the others: it counts
 * only where layers are so large that there is no time for another. */
static void decide(struct bench *bench, int pass)
{
    double spent = np_now_ns() - bench->started_ns;
    bench->first_pass = pass == 0 ? 0 : 1;
    bench->last_pass = pass;
    bench->stop = pass == PASSES_MAX - 1 || (pass >= PASSES_MIN && spent > bench->budget_ns) ||
                  spent > LONG * bench->budget_ns;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct bench *bench = worker->bench;
    pthread_mutex_lock(&bench->gate);
    pthread_mutex_unlock(&bench->gate);
    if (bench->cancelled)
        return NULL;
    np_bench_stage_begin(&worker->stage->layers, &worker->team);
    for (int pass = 0; !bench->stop; pass++) {
        np_team_wait(&worker->everyone);
        run_pass(worker, pass);
        np_team_wait(&worker->everyone);
        if (worker->everyone.rank == 0)
            decide(bench, pass);
        np_team_wait(&worker->everyone);
    }
    return NULL;
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

float np_profile_median(float *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_floats);
    return values[count / 2];
}

/* The median over teams and passes. */
static float median(const struct bench *bench, int kind, int op, float *scratch)
{
    size_t count = 0;
    for (int s = 0; s < bench->config->concurrent; s++)
        for (int pass = bench->first_pass; pass <= bench->last_pass; pass++)
            scratch[count++] = *time_of(&bench->stages[s], pass, kind, op);
    return np_profile_median(scratch, count);
}

static enum np_status summarise(const struct bench *bench, struct np_layer_cost *cost,
                                struct np_error *err)
{
    const struct np_profile_config *config = bench->config;
    float *scratch;
    enum np_status status =
        np_zalloc(&scratch, (size_t)config->concurrent * PASSES_MAX, sizeof *scratch, err);
    if (status != NP_OK)
        return status;
    for (int k = 0; k < bench->net->kind_count; k++) {
        float ratio = (float)config->samples / (float)bench->samples[k];
        float update = median(bench, k, NP_BENCH_UPDATE, scratch) / (float)config->micro_batches;
        cost[k].f = roundf(median(bench, k, NP_BENCH_F, scratch) * ratio);
        cost[k].b = roundf(median(bench, k, NP_BENCH_B, scratch) * ratio);
        cost[k].w = roundf(median(bench, k, NP_BENCH_W, scratch) * ratio + update);
    }
    free(scratch);
    return NP_OK;
}

static enum np_status stage_init(struct stage *stage, const struct bench *bench,
                                 struct np_error *err)
{
    enum np_status status;
    size_t times = (size_t)bench->net->kind_count * PASSES_MAX * NP_BENCH_COUNT;
    NP_TRY(np_zalloc(&stage->times, times, sizeof *stage->times, err));
    NP_TRY(np_barrier_new(&stage->barrier, bench->config->threads, err));
    NP_TRY(np_alloc(&stage->scratch, (size_t)bench->config->threads, bench->scratch_bytes, err));
    NP_TRY(np_bench_stage_init(&stage->layers, bench->net, bench->config, bench->samples, err));
out:
    return status;
}

static void stage_clear(struct stage *stage)
{
    np_bench_stage_clear(&stage->layers);
    np_barrier_free(stage->barrier);
    free(stage->scratch);
    free(stage->times);
}

static void worker_init(struct worker *worker, struct bench *bench, int index)
{
    int threads = bench->config->threads;
    worker->bench = bench;
    worker->stage_index = index / threads;
    worker->stage = &bench->stages[worker->stage_index];
    worker->team = (struct np_team){.rank = index % threads, .size = threads};
    worker->team.barrier = threads > 1 ? worker->stage->barrier : NULL;
    worker->everyone = (struct np_team){.rank = index, .size = threads * bench->config->concurrent};
    worker->everyone.barrier = worker->everyone.size > 1 ? bench->everyone : NULL;
    worker->team.scratch_bytes = bench->scratch_bytes;
    worker->team.scratch =
        worker->stage->scratch + (size_t)worker->team.rank * bench->scratch_bytes;
}

/* Workers wait at the gate until all exist, so that a failure to start one cancels the others. */
static enum np_status start_and_join(struct bench *bench, int count, struct np_error *err)
{
    enum np_status status = NP_OK;
    int started = 0;
    pthread_mutex_lock(&bench->gate);
    for (; started < count && status == NP_OK; started++) {
        struct worker *worker = &bench->workers[started];
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            status = np_fail(err, NP_EIO, "cannot start %d threads to measure layers", count);
            break;
        }
    }
    bench->cancelled = status != NP_OK;
    pthread_mutex_unlock(&bench->gate);
    for (int i = 0; i < started; i++)
        pthread_join(bench->workers[i].thread, NULL);
    return status;
}

enum np_status np_profile_bench(struct np_layer_cost *cost, const struct np_supernet *net,
                                const struct np_profile_config *config, const size_t *samples,
                                double budget_ns, struct np_error *err)
{
    enum np_status status;
    struct bench bench = {.net = net, .config = config, .samples = samples, .budget_ns = budget_ns};
    int count = config->concurrent * config->threads;
    bench.scratch_bytes = np_round_up(np_ops_scratch_bytes(net), NP_ALIGN);
    pthread_mutex_init(&bench.gate, NULL);
    NP_TRY(np_zalloc(&bench.stages, (size_t)config->concurrent, sizeof *bench.stages, err));
    NP_TRY(np_zalloc(&bench.workers, (size_t)count, sizeof *bench.workers, err));
    NP_TRY(np_barrier_new(&bench.everyone, count, err));
    for (int s = 0; s < config->concurrent; s++)
        NP_TRY(stage_init(&bench.stages[s], &bench, err));
    for (int i = 0; i < count; i++)
        worker_init(&bench.workers[i], &bench, i);
    bench.started_ns = np_now_ns();
    NP_TRY(start_and_join(&bench, count, err));
    NP_TRY(summarise(&bench, cost, err));
out:
    for (int s = 0; bench.stages && s < config->concurrent; s++)
        stage_clear(&bench.stages[s]);
    free(bench.stages);
    free(bench.workers);
    np_barrier_free(bench.everyone);
    pthread_mutex_destroy(&bench.gate);
    return status;
}
