/* Time of every kind of layer, forward, backward-input and backward-weight, on one core with the
 * best instruction set: `make bench-ops`. 16 samples of 128 positions, 256 channels. Best of
 * several runs, with the rate of the useful floating-point operations.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "ops/op.h"
#include "ops/weights.h"
#include "space/kinds.h"

enum { SAMPLES = 16, LENGTH = 128, WIDTH = 256, VOCAB = 256, RUNS = 7 };

static const struct np_layer_spec specs[] = {
    {.op = NP_OP_MHA, .heads = 4},
    {.op = NP_OP_FFN, .ratio = 4, .act = NP_ACT_RELU},
    {.op = NP_OP_FFN, .ratio = 4, .act = NP_ACT_GELU},
    {.op = NP_OP_FFN, .ratio = 4, .act = NP_ACT_GELU, .dropout = 0.1f},
    {.op = NP_OP_GLU},
    {.op = NP_OP_CONV1D, .kernel = 3},
    {.op = NP_OP_CONV1D, .kernel = 7},
    {.op = NP_OP_SEPCONV1D, .kernel = 7},
    {.op = NP_OP_LIGHTCONV, .kernel = 7, .heads = 8},
    {.op = NP_OP_IDENTITY},
    {.op = NP_OP_EMBEDDING},
    {.op = NP_OP_LM},
};

struct bench {
    struct np_kind kind;
    struct np_op_call call;
    float *w, *g, *x, *y, *dx, *dy;
};

static float *floats(size_t count)
{
    float *x;
    if (np_alloc(&x, count + 1, sizeof *x, NULL) != NP_OK)
        abort();
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(i * 2654435761u % 1021) / 1021.0f - 0.5f;
    return x;
}

static void bench_init(struct bench *b, const struct np_layer_spec *spec, struct np_team *team)
{
    static int32_t tokens[SAMPLES * LENGTH];
    size_t count = (size_t)SAMPLES * LENGTH * WIDTH;
    struct np_op_sizes sizes;
    if (!np_kind_init(&b->kind, spec, WIDTH, LENGTH, VOCAB))
        abort();
    sizes = np_op_sizes(&b->kind, SAMPLES);
    for (int i = 0; i < SAMPLES * LENGTH; i++)
        tokens[i] = i * 7 % VOCAB;
    b->w = floats(b->kind.floats);
    b->g = floats(b->kind.floats);
    b->x = floats(count);
    b->y = floats(count);
    b->dx = floats(count);
    b->dy = floats(count);
    b->call = (struct np_op_call){.kernels = np_kernels_best(),
                                  .team = team,
                                  .kind = &b->kind,
                                  .w = b->w,
                                  .samples = SAMPLES,
                                  .grain = 2,
                                  .train = true,
                                  .tokens = tokens,
                                  .targets = tokens,
                                  .loss = floats((size_t)SAMPLES * LENGTH),
                                  .scale = 1.0f / (SAMPLES * LENGTH),
                                  .saved = floats(sizes.saved),
                                  .delta = floats(sizes.delta),
                                  .work = floats(sizes.work)};
    np_weights_init(b->call.kernels, team, b->w, &b->kind, 1, 1);
}

static void bench_clear(struct bench *b)
{
    free(b->w);
    free(b->g);
    free(b->x);
    free(b->y);
    free(b->dx);
    free(b->dy);
    free(b->call.loss);
    free(b->call.saved);
    free(b->call.delta);
    free(b->call.work);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void run(struct bench *b, double best[3])
{
    bool stem = b->kind.spec.op == NP_OP_EMBEDDING, sound;
    double at[4];
    at[0] = now_ms();
    sound = np_op_forward(&b->call, b->y, b->x);
    at[1] = now_ms();
    sound = sound && (stem || np_op_backward(&b->call, b->dx, b->x, b->dy));
    at[2] = now_ms();
    np_op_weight(&b->call, b->g, b->x, b->dy, false);
    at[3] = now_ms();
    if (!sound)
        abort();
    for (int i = 0; i < 3; i++)
        if (best[i] == 0.0 || at[i + 1] - at[i] < best[i])
            best[i] = at[i + 1] - at[i];
}

int main(void)
{
    struct np_team team = {.size = 1};
    team.scratch_bytes = np_kernels_scratch_bytes(LENGTH, WIDTH);
    if (np_alloc(&team.scratch, team.scratch_bytes, 1, NULL) != NP_OK)
        abort();
    printf("%-36s %8s %8s %8s  ms (%s)  %6s %6s %6s GFLOP/s\n", "", "F", "B", "W",
           np_kernels_best()->name, "F", "B", "W");
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        double best[3] = {0.0, 0.0, 0.0};
        struct np_flops flops;
        struct bench b;
        char name[NP_KIND_NAME];
        bench_init(&b, &specs[i], &team);
        for (int j = 0; j < RUNS; j++)
            run(&b, best);
        np_kind_name(&b.kind, name);
        flops = np_kind_flops(&b.kind);
        printf("%-36s %8.3f %8.3f %8.3f  %*s %6.1f %6.1f %6.1f\n", name, best[0], best[1], best[2],
               12, "", flops.forward * SAMPLES / best[0] * 1e-6,
               flops.backward * SAMPLES / best[1] * 1e-6, flops.weight * SAMPLES / best[2] * 1e-6);
        bench_clear(&b);
    }
    free(team.scratch);
    return 0;
}
