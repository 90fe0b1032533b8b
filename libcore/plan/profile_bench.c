/* Costs by the clock. A pass runs every kind once as a subnet would: all the forwards, then all the
 * backwards, the weights and the updates; so each operator finds its weights and what it saved as
 * cold as training leaves them, and its input as warm. All teams pass at the same time, each
 * beginning with another kind, because stages share memory bandwidth, caches and clock frequency.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "ops/op.h"
#include "ops/weights.h"
#include "plan/profile_bench.h"

enum { OP_F, OP_B, OP_W, OP_UPDATE, OP_COUNT };

#define PASSES_MIN 5
#define PASSES_MAX 40

/* What one team computes with: a layer of each kind, and one set of activations. */
struct stage {
    struct np_op_call *call; /* [kinds] */
    float **gradient;        /* [kinds] */
    float **moments;         /* [kinds][moments], one slab */
    float *x, *y, *dx, *dy, *loss, *agreed;
    int32_t *tokens;
    float *samples; /* [PASSES_MAX][kinds][OP_COUNT] nanoseconds */
    struct np_barrier *barrier;
    float *slab;
};

struct bench {
    const struct np_supernet *net;
    const struct np_profile_config *config;
    struct stage *stages;
    struct worker *workers;
    struct np_barrier *everyone;
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

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Small values around zero; what they are does not matter, only that none is subnormal. */
static void fill(float *x, size_t count, float scale, uint32_t seed)
{
    struct np_draw_key key = {{seed, 0}};
    for (size_t i = 0; i < count; i++) {
        struct np_philox drawn = np_draw(key, 0, i / 4);
        x[i] = scale * (np_philox_unit(drawn.w[i % 4]) - 0.5f);
    }
}

/* A piece of the slab that starts on a cache line; only counted while the slab does not exist. */
static float *carve(float *slab, size_t *used, size_t floats)
{
    float *piece = slab ? slab + *used : NULL;
    *used += (floats + 15) / 16 * 16;
    return piece;
}

/* Called twice: to count, then to lay out. */
static size_t lay_out(struct stage *stage, const struct bench *bench, float *slab)
{
    const struct np_supernet *net = bench->net;
    size_t samples = bench->config->samples, used = 0;
    size_t positions = samples * net->kinds[0].length, rows = positions * net->kinds[0].width;
    stage->x = carve(slab, &used, rows);
    stage->y = carve(slab, &used, rows);
    stage->dx = carve(slab, &used, rows);
    stage->dy = carve(slab, &used, rows);
    stage->loss = carve(slab, &used, positions);
    stage->agreed = carve(slab, &used, 1 + (size_t)bench->config->threads);
    for (int k = 0; k < net->kind_count; k++) {
        const struct np_kind *kind = &net->kinds[k];
        struct np_op_sizes sizes = np_op_sizes(kind, samples);
        struct np_op_call *call = &stage->call[k];
        call->w = carve(slab, &used, kind->floats);
        call->saved = carve(slab, &used, sizes.saved);
        call->delta = carve(slab, &used, sizes.delta);
        call->work = carve(slab, &used, sizes.work);
        stage->gradient[k] = carve(slab, &used, kind->floats);
        stage->moments[2 * k] = net->moments > 0 ? carve(slab, &used, kind->floats) : NULL;
        stage->moments[2 * k + 1] = net->moments > 1 ? carve(slab, &used, kind->floats) : NULL;
    }
    return used;
}

static void prepare(struct stage *stage, const struct bench *bench)
{
    const struct np_supernet *net = bench->net;
    const struct np_recipe *recipe = net->recipe;
    size_t samples = bench->config->samples;
    size_t positions = samples * net->kinds[0].length, rows = positions * net->kinds[0].width;
    fill(stage->x, rows, 2.0f, 1);
    fill(stage->dy, rows, 0.01f, 2);
    for (size_t i = 0; i < positions; i++)
        stage->tokens[i] = (int32_t)(i * 7 % (size_t)recipe->vocab);
    for (int k = 0; k < net->kind_count; k++) {
        struct np_op_call *call = &stage->call[k];
        call->kernels = bench->config->kernels;
        call->kind = &net->kinds[k];
        call->samples = samples;
        call->grain = (size_t)recipe->grain;
        call->seed = recipe->seed;
        call->train = true;
        call->tokens = call->targets = stage->tokens;
        call->loss = stage->loss;
        call->smoothing = (float)recipe->label_smoothing;
        call->scale = 1.0f / (float)positions;
    }
}

static enum np_status stage_init(struct stage *stage, const struct bench *bench,
                                 struct np_error *err)
{
    enum np_status status;
    size_t kinds = (size_t)bench->net->kind_count, floats;
    NP_TRY(np_zalloc(&stage->call, kinds, sizeof *stage->call, err));
    NP_TRY(np_zalloc(&stage->gradient, kinds, sizeof *stage->gradient, err));
    NP_TRY(np_zalloc(&stage->moments, 2 * kinds, sizeof *stage->moments, err));
    NP_TRY(np_zalloc(&stage->samples, kinds * PASSES_MAX * OP_COUNT, sizeof(float), err));
    NP_TRY(np_zalloc(&stage->tokens, bench->config->samples * bench->net->kinds[0].length,
                     sizeof *stage->tokens, err));
    NP_TRY(np_barrier_new(&stage->barrier, bench->config->threads, err));
    floats = lay_out(stage, bench, NULL);
    NP_TRY(np_alloc(&stage->slab, floats, sizeof(float), err));
    memset(stage->slab, 0, floats * sizeof(float));
    lay_out(stage, bench, stage->slab);
    prepare(stage, bench);
out:
    return status;
}

static void stage_clear(struct stage *stage)
{
    free(stage->call);
    free(stage->gradient);
    free(stage->moments);
    free(stage->samples);
    free(stage->tokens);
    free(stage->slab);
    np_barrier_free(stage->barrier);
}

static void update(const struct worker *worker, const struct np_op_call *call, int k)
{
    const struct stage *stage = worker->stage;
    struct np_weights_update u = {.m = stage->moments[2 * k],
                                  .v = stage->moments[2 * k + 1],
                                  .g = stage->gradient[k],
                                  .kind = call->kind,
                                  .agreed = stage->agreed};
    uint64_t fingerprint = 0;
    memcpy(&u.w, &call->w, sizeof u.w); /* the bench's own weights, const only for operators */
    np_weights_update(call->kernels, call->team, worker->bench->net->recipe, &u, &fingerprint);
}

static void run_op(const struct worker *worker, const struct np_op_call *call, int op, int k)
{
    const struct stage *stage = worker->stage;
    bool stem = call->kind->spec.op == NP_OP_EMBEDDING, head = call->kind->spec.op == NP_OP_LM;
    const float *x = stem ? NULL : stage->x, *dy = head ? NULL : stage->dy;
    switch (op) {
    case OP_F:
        np_op_forward(call, head ? NULL : stage->y, x);
        break;
    case OP_B:
        if (!stem)
            np_op_backward(call, stage->dx, x, dy);
        break;
    case OP_W:
        np_op_weight(call, stage->gradient[k], x, dy, false);
        break;
    default:
        update(worker, call, k);
    }
}

static void run_pass(struct worker *worker, int pass)
{
    int kinds = worker->bench->net->kind_count;
    for (int op = 0; op < OP_COUNT; op++) {
        for (int i = 0; i < kinds; i++) {
            int k = (i + worker->stage_index) % kinds;
            struct np_op_call call = worker->stage->call[k];
            call.team = &worker->team;
            if (call.kind->floats == 0 && op >= OP_W)
                continue;
            double begun = now_ns();
            run_op(worker, &call, op, k);
            if (worker->team.rank == 0)
                worker->stage->samples[(pass * kinds + k) * OP_COUNT + op] =
                    (float)(now_ns() - begun);
        }
    }
}

/* The first pass warms up and is measured again by the next, unless layers are so large that it
 * took all the time there is: then what it missed hardly counts. */
static void decide(struct bench *bench, int pass)
{
    double spent = now_ns() - bench->started_ns;
    bool enough = spent > bench->budget_ns;
    bench->first_pass = pass == 0 ? 0 : 1;
    bench->last_pass = pass;
    bench->stop = pass == PASSES_MAX - 1 || (enough && (pass == 0 || pass >= PASSES_MIN)) ||
                  spent > 4 * bench->budget_ns;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct bench *bench = worker->bench;
    const struct np_supernet *net = bench->net;
    pthread_mutex_lock(&bench->gate);
    pthread_mutex_unlock(&bench->gate);
    if (bench->cancelled)
        return NULL;
    for (int k = 0; k < net->kind_count; k++) {
        float *w;
        memcpy(&w, &worker->stage->call[k].w, sizeof w);
        np_weights_init(bench->config->kernels, &worker->team, w, &net->kinds[k], 1, 0);
    }
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

/* The median over teams and passes. */
static float median(const struct bench *bench, int kind, int op, float *scratch)
{
    size_t count = 0;
    int kinds = bench->net->kind_count;
    for (int s = 0; s < bench->config->concurrent; s++)
        for (int pass = bench->first_pass; pass <= bench->last_pass; pass++)
            scratch[count++] = bench->stages[s].samples[(pass * kinds + kind) * OP_COUNT + op];
    qsort(scratch, count, sizeof *scratch, compare_floats);
    return scratch[count / 2];
}

static enum np_status summarise(const struct bench *bench, struct np_layer_cost *cost,
                                struct np_error *err)
{
    float *scratch;
    enum np_status status =
        np_zalloc(&scratch, (size_t)bench->config->concurrent * PASSES_MAX, sizeof *scratch, err);
    if (status != NP_OK)
        return status;
    for (int k = 0; k < bench->net->kind_count; k++) {
        cost[k].f = roundf(median(bench, k, OP_F, scratch));
        cost[k].b = roundf(median(bench, k, OP_B, scratch));
        cost[k].w =
            roundf(median(bench, k, OP_W, scratch) +
                   median(bench, k, OP_UPDATE, scratch) / (float)bench->config->micro_batches);
    }
    free(scratch);
    return NP_OK;
}

static size_t scratch_bytes(const struct np_supernet *net)
{
    size_t bytes = 0;
    for (int k = 0; k < net->kind_count; k++) {
        const struct np_kind *kind = &net->kinds[k];
        size_t heads = kind->spec.heads > 0 ? (size_t)kind->spec.heads : 1;
        size_t wanted = np_kernels_scratch_bytes(kind->length, kind->width / heads);
        bytes = wanted > bytes ? wanted : bytes;
    }
    return bytes;
}

static enum np_status worker_init(struct worker *worker, struct bench *bench, int index,
                                  size_t scratch, struct np_error *err)
{
    int threads = bench->config->threads;
    worker->bench = bench;
    worker->stage_index = index / threads;
    worker->stage = &bench->stages[worker->stage_index];
    worker->team = (struct np_team){.rank = index % threads, .size = threads};
    worker->team.barrier = threads > 1 ? worker->stage->barrier : NULL;
    worker->everyone = (struct np_team){.rank = index, .size = threads * bench->config->concurrent};
    worker->everyone.barrier = worker->everyone.size > 1 ? bench->everyone : NULL;
    worker->team.scratch_bytes = scratch;
    return np_alloc(&worker->team.scratch, scratch, 1, err);
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
                                const struct np_profile_config *config, double budget_ns,
                                struct np_error *err)
{
    enum np_status status;
    struct bench bench = {.net = net, .config = config, .budget_ns = budget_ns};
    int count = config->concurrent * config->threads;
    size_t scratch = scratch_bytes(net);
    pthread_mutex_init(&bench.gate, NULL);
    NP_TRY(np_zalloc(&bench.stages, (size_t)config->concurrent, sizeof *bench.stages, err));
    NP_TRY(np_zalloc(&bench.workers, (size_t)count, sizeof *bench.workers, err));
    NP_TRY(np_barrier_new(&bench.everyone, count, err));
    for (int s = 0; s < config->concurrent; s++)
        NP_TRY(stage_init(&bench.stages[s], &bench, err));
    for (int i = 0; i < count; i++)
        NP_TRY(worker_init(&bench.workers[i], &bench, i, scratch, err));
    bench.started_ns = now_ns();
    NP_TRY(start_and_join(&bench, count, err));
    NP_TRY(summarise(&bench, cost, err));
out:
    for (int s = 0; bench.stages && s < config->concurrent; s++)
        stage_clear(&bench.stages[s]);
    for (int i = 0; bench.workers && i < count; i++)
        free(bench.workers[i].team.scratch);
    free(bench.stages);
    free(bench.workers);
    np_barrier_free(bench.everyone);
    pthread_mutex_destroy(&bench.gate);
    return status;
}
