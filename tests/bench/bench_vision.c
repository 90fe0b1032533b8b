/* Bandwidth of the kernels of vision models for each instruction set, on one core, over images of
 * the usual shapes: `make bench-vision`. An argument keeps the kernels whose name begins with it.
 *
 * GB/s count each array once for each time it must be read or written. `cache`: about 32768 floats
 * an array; `memory`: about 4 million. After each stands its part of the limit, the smaller of the
 * bandwidth of a triad of the same sizes and of the arithmetic (timing.h) of convolutions and
 * pools, to which taps outside the image add none, both measured in this run. Best of several runs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "num/kernels.h"
#include "row.h"
#include "timing.h"

#define ARRAYS 5
#define FLOATS (6u << 20)
#define CACHE_FLOATS (1u << 15)
#define MEMORY_FLOATS (4u << 20)
#define COUNT(array) (sizeof(array) / sizeof *(array))

static float *a[ARRAYS], weights[1 << 16], columns[6][1 << 19];
static int32_t *which;
static _Alignas(64) char scratch[4 << 20];
static struct np_team team = {.size = 1, .scratch = scratch, .scratch_bytes = sizeof scratch};

struct shape {
    int size, channels, kernel, stride;
};

struct bench {
    const struct np_kernels *k;
    struct shape s;
    size_t samples, rows; /* of the input, samples * positions */
    struct np_conv conv;
    struct np_colnorm norm;
};

typedef void bench_run(const struct bench *b);

static void run_triad(const struct bench *b)
{
    float *restrict y = a[2];
    const float *restrict x0 = a[0], *restrict x1 = a[1];
    for (size_t i = 0, n = b->rows * (size_t)b->s.channels; i < n; i++)
        y[i] = x0[i] + 0.5f * x1[i];
}

static void run_dwconv(const struct bench *b)
{
    b->k->dwconv(&team, &b->conv);
}

static void run_dwconv_grad(const struct bench *b)
{
    b->k->dwconv_grad(&team, &b->conv);
}

static void run_dwconv_grad_weight(const struct bench *b)
{
    struct np_conv v = b->conv;
    v.out = weights + (1 << 15);
    b->k->dwconv_grad_weight(&team, &v);
}

static void run_max_pool(const struct bench *b)
{
    b->k->max_pool(&team, &b->conv, which);
}

static void run_max_pool_grad(const struct bench *b)
{
    b->k->max_pool_grad(&team, &b->conv, which, NULL);
}

static void run_avg_pool(const struct bench *b)
{
    b->k->avg_pool(&team, &b->conv);
}

static void run_avg_pool_grad(const struct bench *b)
{
    b->k->avg_pool_grad(&team, &b->conv, NULL);
}

static void run_col_sum(const struct bench *b)
{
    b->k->col_sum(&team, columns[4], a[0], b->norm.segments, b->norm.rows, b->norm.cols, 0, false);
}

static void run_col_square(const struct bench *b)
{
    b->k->col_square(&team, columns[4], a[0], columns[0], b->norm.segments, b->norm.rows,
                     b->norm.cols, NP_SUM_NEW);
}

static void run_col_dot(const struct bench *b)
{
    b->k->col_dot(&team, columns[4], a[0], a[1], b->norm.segments, b->norm.rows, b->norm.cols, 0);
}

static void run_colnorm(const struct bench *b)
{
    b->k->colnorm(&team, a[1], &b->norm);
}

static void run_colnorm_grad_sums(const struct bench *b)
{
    b->k->colnorm_grad_sums(&team, columns[4], columns[5], &b->norm, a[1], NP_SUM_NEW);
}

static void run_colnorm_grad(const struct bench *b)
{
    b->k->colnorm_grad(&team, a[2], NULL, &b->norm, a[1], columns[0], columns[1]);
}

static void run_col_scale(const struct bench *b)
{
    b->k->col_scale(&team, a[1], NULL, a[0], columns[0], b->norm.segments, b->norm.rows,
                    b->norm.cols);
}

static void run_col_spread(const struct bench *b)
{
    b->k->col_spread(&team, a[1], a[0], columns[0], b->norm.segments, b->norm.rows, b->norm.cols);
}

static void run_merge(const struct bench *b)
{
    size_t n = (size_t)b->s.channels / 2;
    b->k->merge(&team, a[1], a[0], a[2], b->rows, n, n, n, n, b->s.stride == 2);
}

static void run_split(const struct bench *b)
{
    size_t n = (size_t)b->s.channels / 2;
    b->k->split(&team, a[1], a[2], NULL, NULL, a[0], b->rows, n, n, n, n, b->s.stride == 2);
}

static void run_drop_path(const struct bench *b)
{
    struct np_draw_key key = {{1, 2}};
    b->k->drop_path(&team, a[1], a[0], b->samples, b->rows / b->samples * b->norm.cols, key, 0, 0,
                    1u << 29, 1.25f);
}

enum set { CONVS, POOLS, NORMS, MERGES };

static const struct shape convs[] = {
    {32, 16, 3, 1}, {32, 24, 3, 1},    {32, 48, 5, 1},    {16, 58, 3, 1}, {16, 58, 3, 2},
    {16, 96, 5, 2}, {8, 116, 3, 1},    {8, 144, 5, 1},    {8, 232, 7, 1}, {4, 464, 3, 1},
    {4, 240, 7, 2}, {-128, 256, 3, 1}, {-128, 256, 7, 1},
};
static const struct shape pools[] = {
    {32, 16, 3, 1}, {32, 16, 3, 2}, {16, 58, 3, 1}, {8, 116, 2, 2}, {8, 232, 3, 1},
};
/* stride 2: a segment a sample; kernel: the activation */
static const struct shape norms[] = {
    {32, 16, NP_ACT_NONE, 1}, {32, 24, NP_ACT_RELU6, 1}, {16, 58, NP_ACT_RELU, 1},
    {16, 58, NP_ACT_RELU, 2}, {8, 116, NP_ACT_SWISH, 1}, {8, 116, NP_ACT_HSWISH, 1},
    {8, 232, NP_ACT_NONE, 1}, {4, 464, NP_ACT_RELU, 1},  {4, 464, NP_ACT_RELU, 2},
};
static const struct shape merges[] = {
    {32, 48, 0, 1}, {16, 116, 0, 1}, {16, 116, 0, 2}, {8, 232, 0, 2}, {4, 464, 0, 2},
};

static const struct {
    const struct shape *list;
    size_t count;
} sets[] = {
    {convs, COUNT(convs)}, {pools, COUNT(pools)}, {norms, COUNT(norms)}, {merges, COUNT(merges)}};

/* in, out: arrays of the size of x and of y that pass. For each vector of y: tap, for each tap of
 * it that is inside the image, and each, besides. The first tap of a max pool needs no comparison,
 * choice of a tap, and maximum; its gradient needs a comparison, a selection and a sum. */
static const struct {
    const char *name;
    bench_run *run;
    enum set set;
    int in, out;
    struct bench_work tap, each;
} benches[] = {
    {"dwconv", run_dwconv, CONVS, 1, 1, {1, 0, 0, 0}, {0, 0, 0, 0}},
    {"dwconv_grad", run_dwconv_grad, CONVS, 1, 1, {1, 0, 0, 0}, {0, 0, 0, 0}},
    {"dwconv_grad_weight", run_dwconv_grad_weight, CONVS, 1, 1, {1, 0, 0, 0}, {0, 0, 0, 0}},
    {"max_pool", run_max_pool, POOLS, 1, 2, {0, 3, 0, 0}, {0, -3, 0, 0}},
    {"max_pool_grad", run_max_pool_grad, POOLS, 1, 2, {0, 3, 0, 0}, {0, 0, 0, 0}},
    {"avg_pool", run_avg_pool, POOLS, 1, 1, {0, 1, 0, 0}, {0, 0, 1, 0}},
    {"avg_pool_grad", run_avg_pool_grad, POOLS, 1, 1, {0, 1, 0, 0}, {0, 0, 1, 0}},
    {"col_sum", run_col_sum, NORMS, 1, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"col_square", run_col_square, NORMS, 1, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"col_dot", run_col_dot, NORMS, 2, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"colnorm", run_colnorm, NORMS, 2, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"colnorm_grad_sums", run_colnorm_grad_sums, NORMS, 2, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"colnorm_grad", run_colnorm_grad, NORMS, 3, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"col_scale", run_col_scale, NORMS, 2, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"col_spread", run_col_spread, NORMS, 2, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"drop_path", run_drop_path, NORMS, 2, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"merge", run_merge, MERGES, 2, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {"split", run_split, MERGES, 2, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
};

/* Of this thread: others may be at work. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double best_seconds(bench_run *run, const struct bench *b)
{
    double best = INFINITY, spent = 0;
    for (int i = 0; i < 4 || (spent < 0.03 && i < 1000); i++) {
        double begin = seconds(), took;
        run(b);
        took = seconds() - begin;
        spent += took;
        best = took > 0 && took < best ? took : best; /* clocks of guests may stand still */
    }
    return best;
}

/* An even size with zeros around, or, size < 0, a causal sequence. */
static void set_conv(struct bench *b)
{
    int size = abs(b->s.size), height = b->s.size < 0 ? 1 : size, k = b->s.kernel, s = b->s.stride;
    struct np_conv *v = &b->conv;
    *v = (struct np_conv){.x = a[0], .dy = a[1], .w = weights, .out = a[2], .samples = b->samples};
    v->window = (struct np_window){height == 1 ? 1 : k, k, s, s, 1, height == 1 ? 0 : k / 2, 0};
    v->window.pad_left = height == 1 ? k - 1 : k / 2;
    v->in_height = (size_t)height;
    v->in_width = (size_t)size;
    v->out_height = (size_t)((height - 1) / s + 1);
    v->out_width = (size_t)((size - 1) / s + 1);
    v->in_channels = v->out_channels = v->groups = v->ldx = v->ldy = (size_t)b->s.channels;
}

static void set(struct bench *b, struct shape s, enum set kind, size_t floats)
{
    size_t positions = (size_t)(s.size < 0 ? -s.size : s.size * s.size), cols = (size_t)s.channels;
    b->s = s;
    b->samples = floats / (positions * cols) + 1;
    b->rows = b->samples * positions;
    if (kind == CONVS || kind == POOLS)
        set_conv(b);
    b->norm = (struct np_colnorm){.segments = s.stride == 2 ? b->samples : 1, .cols = cols};
    b->norm.rows = b->rows / b->norm.segments;
    b->norm.x = a[0];
    b->norm.mean = columns[0];
    b->norm.rstd = columns[1];
    b->norm.gamma = columns[2];
    b->norm.beta = columns[3];
    b->norm.act = (enum np_act)s.kernel;
}

/* Taps of all outputs that are inside the image, along one dimension. */
static double taps_inside(size_t out, size_t in, int stride, int taps, int pad)
{
    size_t count = 0;
    for (int o = 0; o < (int)out; o++)
        for (int k = 0; k < taps; k++)
            count += o * stride + k >= pad && o * stride + k - pad < (int)in;
    return (double)count;
}

/* Taps inside the image for an output position. */
static double taps_of(const struct np_conv *v)
{
    const struct np_window *w = &v->window;
    double high =
        taps_inside(v->out_height, v->in_height, w->stride_height, w->kernel_height, w->pad_top);
    double wide =
        taps_inside(v->out_width, v->in_width, w->stride_width, w->kernel_width, w->pad_left);
    return high * wide / (double)(v->out_height * v->out_width);
}

static double arithmetic_seconds(size_t which_bench, const struct bench *b,
                                 const struct bench_units *units, size_t y)
{
    struct bench_work work = benches[which_bench].each;
    const struct bench_work *tap = &benches[which_bench].tap;
    double taps = taps_of(&b->conv);
    work.mul += taps * tap->mul;
    work.other += taps * tap->other;
    return bench_work_seconds(units, &work, y);
}

/* Prints a row: GB/s and the part of the limit. */
static void measure(size_t which_bench, struct bench *b, size_t floats,
                    const struct bench_units *units)
{
    double bytes, took, least;
    char name[80];
    set(b, b->s, benches[which_bench].set, floats);
    size_t x = b->rows * (size_t)b->s.channels, y = x;
    if (benches[which_bench].set < NORMS)
        y = b->samples * b->conv.out_height * b->conv.out_width * (size_t)b->s.channels;
    if (benches[which_bench].run == run_max_pool_grad)
        b->k->max_pool(&team, &b->conv, which);
    bytes = 4.0 * ((double)x * benches[which_bench].in + (double)y * benches[which_bench].out);
    took = best_seconds(benches[which_bench].run, b);
    least = bytes * best_seconds(run_triad, b) / (12.0 * (double)x);
    if (benches[which_bench].set < NORMS)
        least = fmax(least, arithmetic_seconds(which_bench, b, units, y));
    snprintf(name, sizeof name, "%s %dx%d %d/%d, %s, in %s", benches[which_bench].name,
             abs(b->s.size), b->s.channels, b->s.kernel, b->s.stride, b->k->name,
             floats == CACHE_FLOATS ? "the cache" : "memory");
    bench_row(name, bytes / took * 1e-9, "GB/s", least / took, "the limit");
}

int main(int argc, char **argv)
{
    const char *prefix = argc > 1 ? argv[1] : "";
    struct bench_units units[NP_ISA_COUNT];
    for (size_t k = 0; k < ARRAYS; k++) {
        if (np_alloc(&a[k], FLOATS, sizeof(float), NULL) != NP_OK)
            return 2;
        for (size_t i = 0; i < FLOATS; i++)
            a[k][i] = (float)(i * (k + 7) % 1009) / 1009.0f - 0.5f;
    }
    if (np_alloc(&which, FLOATS, sizeof *which, NULL) != NP_OK)
        return 2;
    for (size_t i = 0; i < COUNT(weights); i++)
        weights[i] = 0.5f - (float)(i % 7) / 7.0f;
    for (size_t i = 0; i < COUNT(columns) * COUNT(columns[0]); i++)
        columns[i / COUNT(columns[0])][i % COUNT(columns[0])] = 0.5f + (float)(i % 7) / 7.0f;
    for (int isa = NP_ISA_AVX2; isa < NP_ISA_COUNT; isa++)
        if (np_kernels_get((enum np_isa)isa))
            units[isa] = bench_units((enum np_isa)isa);
    for (size_t i = 0; i < COUNT(benches); i++) {
        for (size_t j = 0; j < sets[benches[i].set].count; j++) {
            struct bench b = {.s = sets[benches[i].set].list[j]};
            if (strncmp(benches[i].name, prefix, strlen(prefix)) != 0)
                continue;
            for (int isa = NP_ISA_AVX2; isa < NP_ISA_COUNT; isa++) {
                b.k = np_kernels_get((enum np_isa)isa);
                if (b.k) {
                    measure(i, &b, CACHE_FLOATS, &units[isa]);
                    measure(i, &b, MEMORY_FLOATS, &units[isa]);
                }
            }
        }
    }
    for (size_t k = 0; k < ARRAYS; k++)
        free(a[k]);
    free(which);
    return 0;
}
