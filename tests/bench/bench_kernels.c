/* Bandwidth of every kernel that is not a matrix product, on one core, for each instruction set,
 * beside memcpy and a triad measured in the same run: `make bench-kernels`.
 *
 * GB/s count each array once for each time it must be read or written. `cache`: 64 x 1024 floats an
 * array; `memory`: 8192 x 1024 (scalar: 1024 x 1024). Best of several runs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "num/kernels.h"

#define COLS 1024
#define CACHE_ROWS 64
#define MEMORY_ROWS 8192
#define ARRAYS 5

static float *a[ARRAYS]; /* MEMORY_ROWS x 2 COLS each */
static float vector[4][2 * MEMORY_ROWS];
static int32_t tokens[MEMORY_ROWS];
static struct np_team team = {0, 1, NULL, NULL, 0};

typedef void bench_run(const struct np_kernels *k, size_t rows);

static void run_memcpy(const struct np_kernels *k, size_t rows)
{
    (void)k;
    memcpy(a[1], a[0], rows * COLS * sizeof(float));
}

static void run_triad(const struct np_kernels *k, size_t rows)
{
    float *restrict y = a[2];
    const float *restrict x0 = a[0], *restrict x1 = a[1];
    (void)k;
    for (size_t i = 0; i < rows * COLS; i++)
        y[i] = x0[i] + 0.5f * x1[i];
}

static void run_bias_add(const struct np_kernels *k, size_t rows)
{
    k->bias_add(&team, a[1], a[0], vector[0], rows, COLS);
}

static void run_relu(const struct np_kernels *k, size_t rows)
{
    k->bias_act(&team, NP_ACT_RELU, a[1], a[0], vector[0], rows, COLS);
}

static void run_gelu(const struct np_kernels *k, size_t rows)
{
    k->bias_act(&team, NP_ACT_GELU, a[1], a[0], vector[0], rows, COLS);
}

static void run_swish(const struct np_kernels *k, size_t rows)
{
    k->bias_act(&team, NP_ACT_SWISH, a[1], a[0], vector[0], rows, COLS);
}

static void run_gelu_grad(const struct np_kernels *k, size_t rows)
{
    k->act_grad(&team, NP_ACT_GELU, a[2], a[0], a[1], rows * COLS);
}

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
    k->add(&team, a[2], a[0], a[1], rows * COLS);
}

static void run_finite(const struct np_kernels *k, size_t rows)
{
    k->finite(&team, a[0], rows * COLS);
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
    k->layernorm(&team, a[1], vector[2], vector[3], a[0], vector[0], vector[1], rows, COLS, 1e-5f,
                 0, 0);
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

static void run_colsum(const struct np_kernels *k, size_t rows)
{
    k->colsum(&team, a[2], a[0], rows, COLS, 0, false);
}

static void run_sumsq(const struct np_kernels *k, size_t rows)
{
    k->sumsq(&team, a[0], rows * COLS);
}

static void run_softmax(const struct np_kernels *k, size_t rows)
{
    k->softmax(&team, a[1], a[0], rows, COLS);
}

static void run_softmax_grad(const struct np_kernels *k, size_t rows)
{
    k->softmax_grad(&team, a[2], a[0], a[1], rows, COLS);
}

static void run_dwconv(const struct np_kernels *k, size_t rows)
{
    k->dwconv(&team, a[1], a[0], vector[0], rows / 64, 64, COLS, 7);
}

static void run_dwconv_grad(const struct np_kernels *k, size_t rows)
{
    k->dwconv_grad(&team, a[1], a[0], vector[0], rows / 64, 64, COLS, 7);
}

static void run_dwconv_grad_weight(const struct np_kernels *k, size_t rows)
{
    k->dwconv_grad_weight(&team, a[2], a[0], a[1], rows / 64, 64, COLS, 7, 0, false);
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

static void run_update(const struct np_kernels *k, size_t rows, bool adamw)
{
    struct np_update u = {.w = a[0], .m = a[1], .v = a[2], .g = a[3], .count = rows * COLS};
    u.scale = 1.0f;
    u.limit = INFINITY;
    u.lr = 1e-3f;
    u.beta1 = u.momentum = 0.9f;
    u.beta2 = 0.999f;
    u.eps = 1e-8f;
    u.c1 = u.c2 = 1.0f;
    (adamw ? k->adamw : k->sgd)(&team, &u);
}

static void run_adamw(const struct np_kernels *k, size_t rows)
{
    run_update(k, rows, true);
}

static void run_sgd(const struct np_kernels *k, size_t rows)
{
    run_update(k, rows, false);
}

static void run_fingerprint(const struct np_kernels *k, size_t rows)
{
    k->fingerprint(&team, a[0], rows * COLS, 0);
}

/* arrays: how many arrays of rows x COLS floats pass. */
static const struct {
    const char *name;
    bench_run *run;
    int arrays;
} benches[] = {
    {"memcpy", run_memcpy, 2},
    {"triad", run_triad, 3},
    {"bias_add", run_bias_add, 2},
    {"bias_act relu", run_relu, 3},
    {"bias_act gelu", run_gelu, 3},
    {"bias_act swish", run_swish, 3},
    {"act_grad gelu", run_gelu_grad, 3},
    {"bias_glu", run_glu, 5},
    {"glu_grad", run_glu_grad, 5},
    {"add", run_add, 3},
    {"finite", run_finite, 1},
    {"transpose", run_transpose, 2},
    {"dropout", run_dropout, 2},
    {"normal", run_normal, 1},
    {"layernorm", run_layernorm, 2},
    {"layernorm_grad", run_layernorm_grad, 4},
    {"layernorm_grad_weight", run_layernorm_grad_weight, 2},
    {"colsum", run_colsum, 1},
    {"sumsq", run_sumsq, 1},
    {"softmax", run_softmax, 2},
    {"softmax_grad", run_softmax_grad, 3},
    {"dwconv 7", run_dwconv, 2},
    {"dwconv_grad 7", run_dwconv_grad, 2},
    {"dwconv_grad_weight 7", run_dwconv_grad_weight, 2},
    {"embed", run_embed, 2},
    {"embed_grad", run_embed_grad, 3},
    {"xent", run_xent, 1},
    {"xent_grad", run_xent_grad, 2},
    {"adamw", run_adamw, 7},
    {"sgd momentum", run_sgd, 5},
    {"fingerprint", run_fingerprint, 1},
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Every run begins with the same numbers of ordinary size. */
static void fill(size_t rows)
{
    for (size_t k = 0; k < ARRAYS; k++)
        for (size_t i = 0; i < 2 * rows * COLS; i++)
            a[k][i] = (float)(i * (k + 7) % 1009) / 1009.0f;
}

static double bandwidth(size_t which, const struct np_kernels *k, size_t rows)
{
    double best = INFINITY, spent = 0;
    fill(rows);
    for (int run = 0; run < 3 || (spent < 0.05 && run < 1000); run++) {
        double begin = seconds(), took;
        benches[which].run(k, rows);
        took = seconds() - begin;
        spent += took;
        best = took < best ? took : best;
    }
    return (double)benches[which].arrays * (double)(rows * COLS * sizeof(float)) / best * 1e-9;
}

int main(void)
{
    for (size_t k = 0; k < ARRAYS; k++) {
        if (np_alloc(&a[k], MEMORY_ROWS, 2 * COLS * sizeof(float), NULL) != NP_OK) {
            fprintf(stderr, "bench_kernels: error: out of memory\n");
            return 2;
        }
    }
    for (size_t r = 0; r < MEMORY_ROWS; r++)
        tokens[r] = (int32_t)(r * 389 % 256);
    for (size_t i = 0; i < 4 * 2 * MEMORY_ROWS; i++)
        vector[i / (2 * MEMORY_ROWS)][i % (2 * MEMORY_ROWS)] = 0.5f + (float)(i % 7);
    printf("%-22s", "GB/s");
    for (int isa = 0; isa < NP_ISA_COUNT; isa++)
        printf(" %8s cache  memory", np_isa_name((enum np_isa)isa));
    for (size_t b = 0; b < sizeof benches / sizeof *benches; b++) {
        printf("\n%-22s", benches[b].name);
        for (int isa = 0; isa < NP_ISA_COUNT; isa++) {
            const struct np_kernels *k = np_kernels_get((enum np_isa)isa);
            size_t rows = isa == NP_ISA_SCALAR ? MEMORY_ROWS / 8 : MEMORY_ROWS;
            if (k)
                printf(" %14.1f %7.1f", bandwidth(b, k, CACHE_ROWS), bandwidth(b, k, rows));
            fflush(stdout);
        }
    }
    printf("\n");
    for (size_t k = 0; k < ARRAYS; k++)
        free(a[k]);
    return 0;
}
