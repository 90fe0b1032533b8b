#include "vision_runs.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static _Alignas(64) char scratch[4 << 20];
static struct np_team team = {.size = 1, .scratch = scratch, .scratch_bytes = sizeof scratch};

static void run_dwconv(const struct vision_case *b)
{
    b->k->dwconv(&team, &b->conv);
}

static void run_dwconv_grad(const struct vision_case *b)
{
    b->k->dwconv_grad(&team, &b->conv);
}

static void run_dwconv_grad_weight(const struct vision_case *b)
{
    struct np_conv v = b->conv;
    v.out = b->d->weights + (1 << 15);
    b->k->dwconv_grad_weight(&team, &v);
}

static void run_max_pool(const struct vision_case *b)
{
    b->k->max_pool(&team, &b->conv, b->d->which);
}

static void run_max_pool_grad(const struct vision_case *b)
{
    b->k->max_pool_grad(&team, &b->conv, b->d->which, NULL);
}

static void run_avg_pool(const struct vision_case *b)
{
    b->k->avg_pool(&team, &b->conv);
}

static void run_avg_pool_grad(const struct vision_case *b)
{
    b->k->avg_pool_grad(&team, &b->conv, NULL);
}

static void run_col_sum(const struct vision_case *b)
{
    b->k->col_sum(&team, b->d->columns[4], b->d->a[0], b->norm.segments, b->norm.rows, b->norm.cols,
                  0, false);
}

static void run_col_square(const struct vision_case *b)
{
    b->k->col_square(&team, b->d->columns[4], b->d->a[0], b->d->columns[0], b->norm.segments,
                     b->norm.rows, b->norm.cols, NP_SUM_NEW);
}

static void run_col_dot(const struct vision_case *b)
{
    b->k->col_dot(&team, b->d->columns[4], b->d->a[0], b->d->a[1], b->norm.segments, b->norm.rows,
                  b->norm.cols, 0);
}

static void run_colnorm(const struct vision_case *b)
{
    b->k->colnorm(&team, b->d->a[1], &b->norm);
}

static void run_colnorm_grad_sums(const struct vision_case *b)
{
    b->k->colnorm_grad_sums(&team, b->d->columns[4], b->d->columns[5], &b->norm, b->d->a[1],
                            NP_SUM_NEW);
}

static void run_colnorm_grad(const struct vision_case *b)
{
    b->k->colnorm_grad(&team, b->d->a[2], NULL, &b->norm, b->d->a[1], b->d->columns[0],
                       b->d->columns[1]);
}

static void run_col_scale(const struct vision_case *b)
{
    b->k->col_scale(&team, b->d->a[1], NULL, b->d->a[0], b->d->columns[0], b->norm.segments,
                    b->norm.rows, b->norm.cols);
}

static void run_col_spread(const struct vision_case *b)
{
    b->k->col_spread(&team, b->d->a[1], b->d->a[0], b->d->columns[0], b->norm.segments,
                     b->norm.rows, b->norm.cols);
}

static void run_merge(const struct vision_case *b)
{
    size_t n = (size_t)b->s.channels / 2;
    b->k->merge(&team, b->d->a[1], b->d->a[0], b->d->a[2], b->rows, n, n, n, n, b->s.stride == 2);
}

static void run_split(const struct vision_case *b)
{
    size_t n = (size_t)b->s.channels / 2;
    b->k->split(&team, b->d->a[1], b->d->a[2], NULL, NULL, b->d->a[0], b->rows, n, n, n, n,
                b->s.stride == 2);
}

static void run_drop_path(const struct vision_case *b)
{
    struct np_draw_key key = {{1, 2}};
    b->k->drop_path(&team, b->d->a[1], b->d->a[0], b->samples, b->rows / b->samples * b->norm.cols,
                    key, 0, 0, 1u << 29, 1.25f);
}

static const struct vision_shape convs[] = {
    {32, 16, 3, 1}, {32, 24, 3, 1}, {32, 48, 5, 1},    {16, 58, 3, 1},
    {16, 58, 3, 2}, {16, 96, 5, 2}, {8, 116, 3, 1},    {8, 144, 5, 1},
    {8, 232, 7, 1}, {4, 464, 3, 1}, {4, 240, 7, 2},    {28, 48, 5, 2},
    {14, 96, 3, 1}, {7, 240, 7, 1}, {-128, 256, 3, 1}, {-128, 256, 7, 1},
};
static const struct vision_shape pools[] = {
    {32, 16, 3, 1}, {32, 16, 3, 2}, {16, 58, 3, 1}, {8, 116, 2, 2}, {8, 232, 3, 1},
};
static const struct vision_shape norms[] = {
    {32, 16, NP_ACT_NONE, 1}, {32, 24, NP_ACT_RELU6, 1}, {16, 58, NP_ACT_RELU, 1},
    {16, 58, NP_ACT_RELU, 2}, {8, 116, NP_ACT_SWISH, 1}, {8, 116, NP_ACT_HSWISH, 1},
    {8, 232, NP_ACT_NONE, 1}, {4, 464, NP_ACT_RELU, 1},  {4, 464, NP_ACT_RELU, 2},
};
static const struct vision_shape merges[] = {
    {32, 32, 0, 2},  {16, 64, 0, 2},  {8, 128, 0, 2}, {32, 48, 0, 1},
    {16, 116, 0, 1}, {16, 116, 0, 2}, {8, 232, 0, 2}, {4, 464, 0, 2},
};

const struct vision_set vision_sets[] = {
    {convs, COUNT(convs)}, {pools, COUNT(pools)}, {norms, COUNT(norms)}, {merges, COUNT(merges)}};

/* Counted as in kernel_runs.c: what a norm's activation and its slope add, by enum np_act. */
static const struct bench_work acts[] = {
    [NP_ACT_RELU] = {{0, 1}},
    [NP_ACT_RELU6] = {{0, 2}},
    [NP_ACT_SWISH] = {{10, 4, 1, 3, 1, 0, 1}},
    [NP_ACT_HSWISH] = {{2, 3}},
};
static const struct bench_work slopes[] = {
    [NP_ACT_RELU] = {{2, 1, 0, 1}},
    [NP_ACT_RELU6] = {{2, 2, 0, 2}},
    [NP_ACT_SWISH] = {{13, 4, 2, 3, 1, 0, 2}},
    [NP_ACT_HSWISH] = {{3, 2, 1, 1}},
};

const struct vision_kernel vision_kernels[] = {
    {"dwconv", run_dwconv, CONVS, 1, 1, &bench_read_1_write_1, {{1}}, {{0}}, NULL},
    {"dwconv_grad", run_dwconv_grad, CONVS, 1, 1, &bench_read_1_write_1, {{1}}, {{0}}, NULL},
    {"dwconv_grad_weight", run_dwconv_grad_weight, CONVS, 1, 1, &bench_read_2, {{1}}, {{0}}, NULL},
    {"max_pool",
     run_max_pool,
     POOLS,
     1,
     2,
     &bench_read_1_write_2,
     {{0, 2, 1}},
     {{0, -2, -1}},
     NULL},
    {"max_pool_grad",
     run_max_pool_grad,
     POOLS,
     1,
     2,
     &bench_read_2_write_1,
     {{0, 1, 0, 2}},
     {{0}},
     NULL},
    {"avg_pool",
     run_avg_pool,
     POOLS,
     1,
     1,
     &bench_read_1_write_1,
     {{0, 1}},
     {{0, 0, 0, 0, 0, 0, 1}},
     NULL},
    {"avg_pool_grad",
     run_avg_pool_grad,
     POOLS,
     1,
     1,
     &bench_read_1_write_1,
     {{0, 1}},
     {{0, 0, 0, 0, 0, 0, 1}},
     NULL},
    {"col_sum", run_col_sum, NORMS, 1, 0, &bench_read, {{0}}, {{0, 1}}, NULL},
    {"col_square", run_col_square, NORMS, 1, 0, &bench_read, {{0}}, {{1, 1}}, NULL},
    {"col_dot", run_col_dot, NORMS, 2, 0, &bench_read_2, {{0}}, {{1}}, NULL},
    {"colnorm", run_colnorm, NORMS, 2, 0, &bench_read_1_write_1, {{0}}, {{2, 2, 0, 1}}, acts},
    {"colnorm_grad_sums",
     run_colnorm_grad_sums,
     NORMS,
     2,
     0,
     &bench_read_2,
     {{0}},
     {{2, 2}},
     slopes},
    {"colnorm_grad",
     run_colnorm_grad,
     NORMS,
     3,
     0,
     &bench_read_2_write_1,
     {{0}},
     {{4, 4, 0, 1}},
     slopes},
    {"col_scale", run_col_scale, NORMS, 2, 0, &bench_read_1_write_1, {{0}}, {{1, 1, 0, 1}}, NULL},
    {"col_spread", run_col_spread, NORMS, 2, 0, &bench_read_1_write_1, {{0}}, {{0, 2, 0, 1}}, NULL},
    {"drop_path", run_drop_path, NORMS, 2, 0, &bench_read_1_write_1, {{0}}, {{1}}, NULL},
    {"merge", run_merge, MERGES, 2, 0, &bench_read_1_write_1, {{0}}, {{0}}, NULL},
    {"split", run_split, MERGES, 2, 0, &bench_read_1_write_1, {{0}}, {{0}}, NULL},
};

const size_t vision_kernel_count = COUNT(vision_kernels);

void vision_prepare(const struct vision_kernel *k, const struct vision_case *b)
{
    if (k->run == run_max_pool_grad)
        b->k->max_pool(&team, &b->conv, b->d->which);
}
