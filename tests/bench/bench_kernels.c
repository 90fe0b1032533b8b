/* Bandwidth of every kernel that is not a matrix product, on one core, for each instruction set but
 * scalar: `bench_kernels [NAME...]`, all of them without a name; rows as in row.h.
 *
 * GB/s count each array once for each time it must be read or written. In the cache: 64 x 1024
 * floats an array; in memory: 8192 x 1024, and what part that is of the bandwidth that a plain loop
 * reaches, in the same run, which reads and writes as many arrays. Best of several runs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "num/kernels.h"
#include "row.h"

#define COLS 1024
#define CACHE_ROWS 64
#define MEMORY_ROWS 8192
#define ARRAYS 5
#define ARRAY ((size_t)MEMORY_ROWS * 2 * COLS + 304)
#define COUNT(array) (sizeof(array) / sizeof *(array))

static float *a[ARRAYS]; /* MEMORY_ROWS x 2 COLS each, at different places in a page */
static float vector[4][2 * MEMORY_ROWS];
static int32_t tokens[MEMORY_ROWS];
static struct np_team team = {0, 1, NULL, NULL, 0};

typedef void bench_run(const struct np_kernels *k, size_t rows);

/* What memory allows: plain loops over as many arrays as kernels read and write. */
static float sink;

static void roof_read(const struct np_kernels *k, size_t rows)
{
    float sum[64] = {0};
    (void)k;
    for (size_t i = 0; i < rows * COLS; i += 64)
        for (size_t j = 0; j < 64; j++)
            sum[j] += a[0][i + j];
    for (size_t j = 0; j < 64; j++)
        sink += sum[j];
}

static void roof_write(const struct np_kernels *k, size_t rows)
{
    float *y = a[1];
    (void)k;
    for (size_t i = 0; i < rows * COLS; i++)
        y[i] = 0.5f;
}

static void roof_read_1_write_1(const struct np_kernels *k, size_t rows)
{
    float *restrict y = a[1];
    const float *restrict x = a[0];
    (void)k;
    for (size_t i = 0; i < rows * COLS; i++)
        y[i] = 0.5f * x[i];
}

static void roof_read_2_write_1(const struct np_kernels *k, size_t rows)
{
    float *restrict y = a[2];
    const float *restrict x0 = a[0], *restrict x1 = a[1];
    (void)k;
    for (size_t i = 0; i < rows * COLS; i++)
        y[i] = x0[i] + 0.5f * x1[i];
}

static void roof_read_3_write_1(const struct np_kernels *k, size_t rows)
{
    float *restrict y = a[3];
    const float *restrict x0 = a[0], *restrict x1 = a[1], *restrict x2 = a[2];
    (void)k;
    for (size_t i = 0; i < rows * COLS; i++)
        y[i] = x0[i] + 0.5f * x1[i] + x2[i];
}

static void roof_read_2_write_2(const struct np_kernels *k, size_t rows)
{
    float *restrict y0 = a[2], *restrict y1 = a[3];
    const float *restrict x0 = a[0], *restrict x1 = a[1];
    (void)k;
    for (size_t i = 0; i < rows * COLS; i++) {
        y0[i] = x0[i] + 0.5f * x1[i];
        y1[i] = x0[i] - 0.5f * x1[i];
    }
}

static void roof_update_1(const struct np_kernels *k, size_t rows)
{
    float *restrict y = a[0];
    const float *restrict x = a[3];
    (void)k;
    for (size_t i = 0; i < rows * COLS; i++)
        y[i] = y[i] + 0.5f * x[i];
}

static void roof_update_2(const struct np_kernels *k, size_t rows)
{
    float *restrict y0 = a[0], *restrict y1 = a[1];
    const float *restrict x = a[3];
    (void)k;
    for (size_t i = 0; i < rows * COLS; i++) {
        y0[i] = y0[i] + 0.5f * x[i];
        y1[i] = y1[i] - 0.5f * x[i];
    }
}

static void roof_update_3(const struct np_kernels *k, size_t rows)
{
    float *restrict y0 = a[0], *restrict y1 = a[1], *restrict y2 = a[2];
    const float *restrict x = a[3];
    (void)k;
    for (size_t i = 0; i < rows * COLS; i++) {
        y0[i] = y0[i] + 0.5f * x[i];
        y1[i] = y1[i] - 0.5f * x[i];
        y2[i] = y2[i] + 0.25f * x[i];
    }
}

static void run_bias_add(const struct np_kernels *k, size_t rows)
{
    k->bias_add(&team, a[1], a[0], vector[0], rows, COLS);
}

#define RUN_ACT(name, number)                                                                      \
    static void run_act_##name(const struct np_kernels *k, size_t rows)                            \
    {                                                                                              \
        k->act(&team, number, a[1], a[0], rows *COLS);                                             \
    }                                                                                              \
    static void run_act_grad_##name(const struct np_kernels *k, size_t rows)                       \
    {                                                                                              \
        k->act_grad(&team, number, a[2], NULL, a[0], a[1], rows *COLS);                            \
    }

RUN_ACT(relu, NP_ACT_RELU)
RUN_ACT(gelu, NP_ACT_GELU)
RUN_ACT(swish, NP_ACT_SWISH)
RUN_ACT(hswish, NP_ACT_HSWISH)
RUN_ACT(sigmoid, NP_ACT_SIGMOID)

static void run_glu(const struct np_kernels *k, size_t rows)
{
    k->bias_glu(&team, a[1], a[0], vector[0], rows, COLS);
}

static void run_glu_grad(const struct np_kernels *k, size_t rows)
{
    k->glu_grad(&team, a[2], a[0], a[1], rows, COLS);
}

static void run_add(const struct np_kernels *k, size_t rows)
{
    k->add(&team, NP_ACT_NONE, a[2], NULL, a[0], a[1], rows * COLS);
}

static void run_add_relu(const struct np_kernels *k, size_t rows)
{
    k->add(&team, NP_ACT_RELU, a[2], a[3], a[0], a[1], rows * COLS);
}

static void run_finite(const struct np_kernels *k, size_t rows)
{
    k->finite(&team, a[0], rows * COLS);
}

static void run_fill(const struct np_kernels *k, size_t rows)
{
    k->fill(&team, a[1], rows * COLS, 0.0f);
}

static void run_transpose(const struct np_kernels *k, size_t rows)
{
    k->transpose(&team, a[1], a[0], rows, COLS);
}

static void run_dropout(const struct np_kernels *k, size_t rows)
{
    struct np_draw_key key = {{1, 2}};
    k->dropout(&team, a[1], a[0], rows * COLS, key, 0, 0, 1u << 29, 1.25f);
}

static void run_normal(const struct np_kernels *k, size_t rows)
{
    struct np_draw_key key = {{1, 2}};
    k->normal(&team, a[1], rows * COLS, key, 0.02f);
}

static void run_layernorm(const struct np_kernels *k, size_t rows)
{
    k->layernorm(&team, a[1], vector[2], vector[3], a[0], vector[0], vector[1], rows, COLS, 1e-5f);
}

static void run_layernorm_grad(const struct np_kernels *k, size_t rows)
{
    k->layernorm_grad(&team, a[3], a[2], a[0], a[1], vector[2], vector[3], vector[0], rows, COLS);
}

static void run_layernorm_grad_weight(const struct np_kernels *k, size_t rows)
{
    k->layernorm_grad_weight(&team, a[2], a[3], a[0], a[1], vector[2], vector[3], rows, COLS, 0,
                             false);
}

static void run_sumsq(const struct np_kernels *k, size_t rows)
{
    k->sumsq(&team, vector[2], a[0], rows * COLS, false);
}

static void run_softmax(const struct np_kernels *k, size_t rows)
{
    k->softmax(&team, a[1], a[0], rows, COLS);
}

static void run_softmax_grad(const struct np_kernels *k, size_t rows)
{
    k->softmax_grad(&team, a[2], a[0], a[1], rows, COLS);
}

static void run_embed(const struct np_kernels *k, size_t rows)
{
    k->embed(&team, a[1], tokens, a[2], a[3], rows / 64, 64, COLS);
}

static void run_embed_grad(const struct np_kernels *k, size_t rows)
{
    k->embed_grad(&team, a[2], a[3], tokens, a[0], rows / 64, 64, COLS);
}

static void run_xent(const struct np_kernels *k, size_t rows)
{
    k->xent(&team, vector[2], a[0], tokens, rows, COLS, 0.1f);
}

static void run_xent_grad(const struct np_kernels *k, size_t rows)
{
    k->xent_grad(&team, a[1], a[0], tokens, rows, COLS, 0.1f, 0.5f);
}

static void run_update(const struct np_kernels *k, size_t rows, bool adamw, bool moments)
{
    struct np_update u = {.w = a[0], .m = a[1], .v = a[2], .g = a[3], .count = rows * COLS};
    uint64_t sum = 0;
    u.m = moments ? u.m : NULL;
    u.limit = INFINITY;
    u.lr = 1e-3f;
    u.beta1 = u.momentum = 0.9f;
    u.beta2 = 0.999f;
    u.eps = 1e-8f;
    u.c1 = u.c2 = 1.0f;
    (adamw ? k->adamw : k->sgd)(&team, &u, &sum);
}

static void run_adamw(const struct np_kernels *k, size_t rows)
{
    run_update(k, rows, true, true);
}

static void run_sgd(const struct np_kernels *k, size_t rows)
{
    run_update(k, rows, false, false);
}

static void run_momentum(const struct np_kernels *k, size_t rows)
{
    run_update(k, rows, false, true);
}

static void run_fingerprint(const struct np_kernels *k, size_t rows)
{
    k->fingerprint(&team, a[0], rows * COLS, 0);
}

static const struct bench {
    const char *name;
    bench_run *run, *roof;
    int arrays; /* of rows x COLS floats that pass */
} benches[] = {
    {"bias_add", run_bias_add, roof_read_1_write_1, 2},
    {"act relu", run_act_relu, roof_read_1_write_1, 2},
    {"act gelu", run_act_gelu, roof_read_1_write_1, 2},
    {"act swish", run_act_swish, roof_read_1_write_1, 2},
    {"act hswish", run_act_hswish, roof_read_1_write_1, 2},
    {"act sigmoid", run_act_sigmoid, roof_read_1_write_1, 2},
    {"act_grad relu", run_act_grad_relu, roof_read_2_write_1, 3},
    {"act_grad gelu", run_act_grad_gelu, roof_read_2_write_1, 3},
    {"act_grad swish", run_act_grad_swish, roof_read_2_write_1, 3},
    {"act_grad hswish", run_act_grad_hswish, roof_read_2_write_1, 3},
    {"act_grad sigmoid", run_act_grad_sigmoid, roof_read_2_write_1, 3},
    {"bias_glu", run_glu, roof_update_2, 5},
    {"glu_grad", run_glu_grad, roof_read_3_write_1, 5},
    {"add", run_add, roof_read_2_write_1, 3},
    {"add relu, kept", run_add_relu, roof_read_2_write_2, 4},
    {"finite", run_finite, roof_read, 1},
    {"fill", run_fill, roof_write, 1},
    {"transpose", run_transpose, roof_read_1_write_1, 2},
    {"dropout", run_dropout, roof_read_1_write_1, 2},
    {"normal", run_normal, roof_write, 1},
    {"layernorm", run_layernorm, roof_read_1_write_1, 2},
    {"layernorm_grad", run_layernorm_grad, roof_read_3_write_1, 4},
    {"layernorm_grad_weight", run_layernorm_grad_weight, roof_read, 2},
    {"sumsq", run_sumsq, roof_read, 1},
    {"softmax", run_softmax, roof_read_1_write_1, 2},
    {"softmax_grad", run_softmax_grad, roof_read_2_write_1, 3},
    {"embed", run_embed, roof_read_1_write_1, 2},
    {"embed_grad", run_embed_grad, roof_read, 3},
    {"xent", run_xent, roof_read, 1},
    {"xent_grad", run_xent_grad, roof_read_1_write_1, 2},
    {"adamw", run_adamw, roof_update_3, 7},
    {"sgd", run_sgd, roof_update_1, 3},
    {"sgd momentum", run_momentum, roof_update_2, 5},
    {"fingerprint", run_fingerprint, roof_read, 1},
};

/* Arrays that pass in a roof. */
static const struct {
    bench_run *run;
    int arrays;
} roofs[] = {
    {roof_read, 1},           {roof_write, 1},          {roof_read_1_write_1, 2},
    {roof_read_2_write_1, 3}, {roof_read_3_write_1, 4}, {roof_read_2_write_2, 4},
    {roof_update_1, 3},       {roof_update_2, 5},       {roof_update_3, 7},
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Every run begins with the same numbers of ordinary size. */
static void fill(size_t rows)
{
    for (size_t k = 0; k < ARRAYS; k++)
        for (size_t i = 0; i < 2 * rows * COLS; i++)
            a[k][i] = (float)(i * (k + 7) % 1009) / 1009.0f;
}

static double bandwidth(bench_run *bench, int arrays, const struct np_kernels *k, size_t rows)
{
    double best = INFINITY, spent = 0;
    fill(rows);
    for (int run = 0; run < 3 || (spent < 0.05 && run < 1000); run++) {
        double begin = seconds(), took;
        bench(k, rows);
        took = seconds() - begin;
        spent += took;
        best = took < best ? took : best;
    }
    return (double)arrays * (double)(rows * COLS * sizeof(float)) / best * 1e-9;
}

static double roof_of(const struct bench *bench, size_t rows)
{
    int arrays = 0;
    for (size_t i = 0; i < COUNT(roofs); i++)
        if (roofs[i].run == bench->roof)
            arrays = roofs[i].arrays;
    return bandwidth(bench->roof, arrays, NULL, rows);
}

static bool wanted(const char *name, int argc, char **argv)
{
    bool found = argc < 2;
    for (int i = 1; i < argc; i++)
        found = found || strcmp(argv[i], name) == 0;
    return found;
}

static void print_bench(const struct bench *bench, enum np_isa isa)
{
    const struct np_kernels *k = np_kernels_get(isa);
    double memory = bandwidth(bench->run, bench->arrays, k, MEMORY_ROWS);
    double roof = roof_of(bench, MEMORY_ROWS);
    char name[80];
    snprintf(name, sizeof name, "%s, %s, in the cache", bench->name, k->name);
    bench_row(name, bandwidth(bench->run, bench->arrays, k, CACHE_ROWS), "GB/s", 0, NULL);
    snprintf(name, sizeof name, "%s, %s, in memory", bench->name, k->name);
    bench_row(name, memory, "GB/s", memory / roof, "the bandwidth");
}

int main(int argc, char **argv)
{
    float *slab;
    if (np_alloc(&slab, ARRAYS * ARRAY, sizeof *slab, NULL) != NP_OK) {
        fprintf(stderr, "bench_kernels: error: out of memory\n");
        return 2;
    }
    for (size_t k = 0; k < ARRAYS; k++)
        a[k] = slab + k * ARRAY;
    for (size_t r = 0; r < MEMORY_ROWS; r++)
        tokens[r] = (int32_t)(r * 389 % 256);
    for (size_t i = 0; i < 4 * 2 * MEMORY_ROWS; i++)
        vector[i / (2 * MEMORY_ROWS)][i % (2 * MEMORY_ROWS)] = 0.5f + (float)(i % 7);
    for (size_t b = 0; b < COUNT(benches); b++)
        for (int isa = NP_ISA_AVX2; isa < NP_ISA_COUNT; isa++)
            if (np_kernels_get((enum np_isa)isa) && wanted(benches[b].name, argc, argv))
                print_bench(&benches[b], (enum np_isa)isa);
    free(slab);
    return 0;
}
