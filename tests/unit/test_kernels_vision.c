/* The kernels of images' columns and windows, against the scalar reference. Convolutions have tests
 * of their own. */
#include <check.h>

#include "kernel_case.h"
#include "kernel_check.h"
#include "suite.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Segments are samples, or with grains all rows are one. */
static size_t segments_of(const struct call *c)
{
    return c->grain > 0 ? 1 : c->shape.samples;
}

static uint64_t run_col_sum(struct np_team *team, const struct call *c)
{
    size_t segments = segments_of(c), rows = c->rows / segments;
    bool onto = c->accumulate && segments == 1;
    c->kernels->col_sum(team, c->r[5], c->r[0], segments, rows, c->cols, c->grain,
                        onto ? NP_SUM_ONTO : NP_SUM_NEW);
    c->kernels->col_sum(team, c->r[6], c->r[0], segments, rows, c->cols, 0, NP_SUM_CHUNKS);
    return 0;
}

static uint64_t run_col_square(struct np_team *team, const struct call *c)
{
    size_t segments = segments_of(c), rows = c->rows / segments;
    c->kernels->col_square(team, c->r[5], c->r[0], c->r[1], segments, rows, c->cols, NP_SUM_NEW);
    c->kernels->col_square(team, c->r[6], c->r[0], c->r[1], segments, rows, c->cols, NP_SUM_CHUNKS);
    return 0;
}

static uint64_t run_col_dot(struct np_team *team, const struct call *c)
{
    size_t segments = segments_of(c);
    c->kernels->col_dot(team, c->r[5], c->r[0], c->r[1], segments, c->rows / segments, c->cols,
                        c->grain);
    return 0;
}

/* Every part alone and with others, of one and of two moments. */
static uint64_t run_moments(struct np_team *team, const struct call *c)
{
    size_t apart = (c->cols + 15) / 16 * 16; /* cache lines */
    float *out = c->r[5], *stats = c->r[6];
    const struct np_moment alone[] = {{.sums = c->r[0], .quotient = out},
                                      {.sums = c->r[0], .total = out + apart},
                                      {.sums = c->r[1], .gamma = c->r[2], .rstd = out + 2 * apart},
                                      {.sums = c->r[1], .stats = stats},
                                      {.sums = c->r[4],
                                       .quotient = out + 3 * apart,
                                       .stats = stats + apart,
                                       .rstd = out + 4 * apart}};
    struct np_moments moments = {
        .of = {{c->r[0], c->r[2], out + 5 * apart, out + 6 * apart, NULL, NULL},
               {c->r[1], c->r[2], out + 7 * apart, out + 8 * apart, NULL, NULL}},
        .count = 2,
        .chunks = c->shape.length,
        .cols = c->cols,
        .by = 3.0f,
        .eps = 1e-5f};
    uint64_t bad = !c->kernels->moments(team, &moments);
    moments.count = 1;
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
        moments.of[0] = alone[i];
        bad |= !c->kernels->moments(team, &moments);
    }
    return bad;
}

static uint64_t run_norm_weight(struct np_team *team, const struct call *c)
{
    uint64_t bad =
        !c->kernels->norm_weight(team, c->r[5], c->r[6], c->r[0], c->r[1], c->count, false);
    return bad | !c->kernels->norm_weight(team, c->r[2], c->r[3], c->r[0], c->r[1], c->count, true);
}

static struct np_colnorm norm_of(const struct call *c, enum np_act act)
{
    size_t segments = segments_of(c);
    return (struct np_colnorm){.segments = segments,
                               .rows = c->rows / segments,
                               .cols = c->cols,
                               .x = c->r[0],
                               .mean = c->r[1],
                               .rstd = c->r[4],
                               .gamma = c->r[2],
                               .beta = c->r[3],
                               .act = act};
}

/* Alone; with a residual, over it; with what goes into the activation. */
static uint64_t run_colnorm(struct np_team *team, const struct call *c)
{
    uint64_t bad = 0;
    for (int act = NP_ACT_NONE; act <= NP_ACT_HSIGMOID; act++) {
        struct np_colnorm p = norm_of(c, (enum np_act)act);
        bad |= !c->kernels->colnorm(team, c->r[5], &p);
        p.residual = c->r[6];
        bad |= !c->kernels->colnorm(team, c->r[6], &p);
        p.residual = c->r[5];
        p.kept = c->r[4] + REGION / 2;
        bad |= !c->kernels->colnorm(team, c->r[7], &p);
    }
    return bad;
}

static uint64_t grad_sums(struct np_team *team, const struct call *c, enum np_act act)
{
    struct np_colnorm p = norm_of(c, act);
    float *whole = c->r[5], *chunks = c->r[6], *onto = c->r[7];
    c->kernels->colnorm_grad_sums(team, whole, whole + REGION / 2, &p, c->r[3], NP_SUM_NEW);
    c->kernels->colnorm_grad_sums(team, chunks, chunks + REGION / 2, &p, c->r[3], NP_SUM_CHUNKS);
    c->kernels->colnorm_grad_sums(team, onto, onto + REGION / 2, &p, c->r[3], NP_SUM_ONTO);
    return 0;
}

#define GRAD_SUMS(name, act)                                                                       \
    static uint64_t run_grad_sums_##name(struct np_team *team, const struct call *c)               \
    {                                                                                              \
        return grad_sums(team, c, act);                                                            \
    }
GRAD_SUMS(none, NP_ACT_NONE)
GRAD_SUMS(relu, NP_ACT_RELU)
GRAD_SUMS(relu6, NP_ACT_RELU6)
GRAD_SUMS(swish, NP_ACT_SWISH)
GRAD_SUMS(hswish, NP_ACT_HSWISH)

/* Alone, beside a base, over dy. */
static uint64_t run_colnorm_grad(struct np_team *team, const struct call *c)
{
    uint64_t bad = 0;
    for (int act = NP_ACT_NONE; act <= NP_ACT_HSIGMOID; act++) {
        struct np_colnorm p = norm_of(c, (enum np_act)act);
        const float *a = c->r[2] + 1, *b = c->r[3] + 2;
        bad |= !c->kernels->colnorm_grad(team, c->r[5], NULL, &p, c->r[3], a, b);
        bad |= !c->kernels->colnorm_grad(team, c->r[6], c->r[5], &p, c->r[3], a, b);
        bad |= !c->kernels->colnorm_grad(team, c->r[7], NULL, &p, c->r[7], a, b);
    }
    return bad;
}

static uint64_t run_col_scale(struct np_team *team, const struct call *c)
{
    size_t segments = segments_of(c), rows = c->rows / segments;
    const float *x = c->r[0], *s = c->r[1];
    uint64_t bad = !c->kernels->col_scale(team, c->r[5], NULL, x, s, segments, rows, c->cols);
    return bad | !c->kernels->col_scale(team, c->r[6], c->r[6], x, s, segments, rows, c->cols);
}

static uint64_t run_col_spread(struct np_team *team, const struct call *c)
{
    size_t segments = segments_of(c), rows = c->rows / segments;
    uint64_t bad = !c->kernels->col_spread(team, c->r[5], NULL, c->r[1], segments, rows, c->cols);
    return bad | !c->kernels->col_spread(team, c->r[6], c->r[6], c->r[1], segments, rows, c->cols);
}

/* Side by side, interleaved, and beside zeros; rows lie apart. */
static uint64_t run_merge(struct np_team *team, const struct call *c)
{
    size_t na = c->cols, nb = c->cols / 2 + 1;
    c->kernels->merge(team, c->r[5], c->r[0], c->r[1], c->rows, na, nb, na + 1, nb, false);
    c->kernels->merge(team, c->r[6], c->r[0], c->r[1], c->rows, na, na, na, na + 2, true);
    c->kernels->merge(team, c->r[7], c->r[0], NULL, c->rows, na, nb, na + 1, 1, false);
    return 0;
}

static uint64_t run_split(struct np_team *team, const struct call *c)
{
    size_t na = c->cols / 2 + 1, nb = c->cols / 3 + 1;
    const float *y = c->r[0];
    uint64_t bad = !c->kernels->split(team, c->r[5], c->r[6], NULL, NULL, y, c->rows, na, nb, na,
                                      nb + 1, false);
    bad |= !c->kernels->split(team, c->r[5], c->r[7], c->r[5], c->r[3], y, c->rows, na, na, na, na,
                              true);
    return bad | !c->kernels->split(team, NULL, c->r[6] + REGION / 2, NULL, NULL, y, c->rows, na,
                                    na, na, na, true);
}

/* An image whose rows of positions are `length` long, or as many of height 1 or 2: 3 x 3 by steps
 * of one, 2 x 3 of two, and dilated ones. */
enum { POOLS = 4 };
static struct np_conv pool_of(const struct call *c, size_t number)
{
    static const struct np_window windows[POOLS] = {
        {3, 3, 1, 1, 1, 1, 1}, {2, 3, 2, 2, 1, 0, 1}, {1, 3, 1, 2, 3, 0, 3}, {3, 4, 1, 3, 2, 2, 2}};
    size_t height = number < 2 ? c->shape.samples : 1 + (c->shape.samples % 2 == 0);
    struct np_conv v = {.samples = c->shape.samples / height, .in_height = height};
    v.window = windows[number];
    v.in_width = c->shape.length;
    v.out_height = (height + v.window.stride_height - 1) / v.window.stride_height;
    v.out_width = (v.in_width + v.window.stride_width - 1) / v.window.stride_width;
    v.in_channels = v.out_channels = v.groups = v.ldx = v.ldy = c->cols;
    v.x = c->r[0];
    v.dy = c->r[1];
    return v;
}

static uint64_t run_max_pool(struct np_team *team, const struct call *c)
{
    for (size_t i = 0; i < 2; i++) {
        struct np_conv v = pool_of(c, 2 * c->accumulate + i);
        v.out = c->r[5] + (i ? REGION / 2 : 0);
        c->kernels->max_pool(team, &v, (int32_t *)(void *)c->r[6 + i]);
    }
    return 0;
}

/* Taps by number, any of them: only the forward pass makes sense of more. */
static uint64_t run_max_pool_grad(struct np_team *team, const struct call *c)
{
    uint64_t bad = 0;
    for (size_t i = 0; i < 2; i++) {
        struct np_conv v = pool_of(c, 2 * i + c->accumulate);
        v.ldy = c->cols + 1; /* the numbers of taps have no gaps */
        v.out = c->r[5] + (i ? REGION / 2 : 0);
        bad |= !c->kernels->max_pool_grad(team, &v, c->tokens, NULL);
        v.out = c->r[6 + i];
        bad |= !c->kernels->max_pool_grad(team, &v, c->tokens, v.out);
    }
    return bad;
}

static uint64_t run_avg_pool(struct np_team *team, const struct call *c)
{
    for (size_t i = 0; i < 2; i++) {
        struct np_conv v = pool_of(c, 2 * c->accumulate + i);
        v.out = c->r[5 + i];
        c->kernels->avg_pool(team, &v);
    }
    return 0;
}

/* With room for all columns, for a few at a time, for none. */
static uint64_t run_avg_pool_grad(struct np_team *team, const struct call *c)
{
    uint64_t bad = 0;
    for (size_t i = 0; i < 2; i++) {
        struct np_conv v = pool_of(c, 2 * i + c->accumulate);
        struct np_team cramped = *team;
        cramped.scratch_bytes = i * 20 * v.out_height * v.out_width * sizeof(float);
        v.out = c->r[5] + (i ? REGION / 2 : 0);
        bad |= !c->kernels->avg_pool_grad(team, &v, NULL);
        v.out = c->r[6 + i];
        bad |= !c->kernels->avg_pool_grad(&cramped, &v, v.out);
    }
    return bad;
}

static uint64_t run_large_pools(struct np_team *team, const struct call *c)
{
    static const struct np_window windows[] = {{5, 5, 1, 1, 1, 2, 2}, {7, 7, 1, 1, 1, 3, 3}};
    uint64_t bad = 0;
    for (size_t i = 0; i < 2; i++) {
        struct np_conv v = pool_of(c, 0);
        v.window = windows[i];
        v.out = c->r[5] + i * (REGION / 2);
        c->kernels->avg_pool(team, &v);
        v.out = c->r[6] + i * (REGION / 2);
        bad |= !c->kernels->avg_pool_grad(team, &v, NULL);
        v.out = c->r[7] + i * (REGION / 2);
        bad |= !c->kernels->max_pool_grad(team, &v, c->tokens, NULL);
    }
    return bad;
}

static const struct kernel_case cases[] = {
    {.name = "col_sum", .run = run_col_sum},
    {.name = "col_square", .run = run_col_square},
    {.name = "col_dot", .run = run_col_dot},
    {.name = "moments", .run = run_moments, .any = true, .beyond = 0x60},
    {.name = "norm_weight", .run = run_norm_weight, .any = true},
    {.name = "colnorm", .run = run_colnorm, .any = true, .beyond = 0x10},
    {.name = "colnorm_grad_sums", .run = run_grad_sums_none, .beyond = 0xe0},
    {.name = "colnorm_grad_sums, relu", .run = run_grad_sums_relu, .beyond = 0xe0},
    {.name = "colnorm_grad_sums, relu6", .run = run_grad_sums_relu6, .beyond = 0xe0},
    {.name = "colnorm_grad_sums, swish", .run = run_grad_sums_swish, .beyond = 0xe0},
    {.name = "colnorm_grad_sums, hswish", .run = run_grad_sums_hswish, .beyond = 0xe0},
    {.name = "colnorm_grad", .run = run_colnorm_grad, .any = true, .beyond = 0x0c},
    {.name = "col_scale", .run = run_col_scale, .any = true},
    {.name = "col_spread", .run = run_col_spread, .any = true},
    {.name = "merge", .run = run_merge, .beyond = 0xe3},
    {.name = "split", .run = run_split, .any = true, .beyond = 0x41},
    {.name = "max_pool", .run = run_max_pool, .beyond = 0x20},
    {.name = "max_pool_grad", .run = run_max_pool_grad, .any = true, .beyond = 0x22},
    {.name = "avg_pool", .run = run_avg_pool, .beyond = 0x20},
    {.name = "avg_pool_grad", .run = run_avg_pool_grad, .any = true, .beyond = 0x20},
    {.name = "large pools", .run = run_large_pools, .any = true, .beyond = 0xe0},
};

START_TEST(every_kernel_gives_the_reference_bits)
{
    kernel_case_check(&cases[_i]);
}
END_TEST

/* Two halves of rows and the whole, of 2^20 floats: SIMD backends write past the caches what is as
 * large as that and begins at a cache line. */
enum { FAR = 1 << 20, WIDE = 64, HALF = WIDE / 2, ROWS = FAR / WIDE };

struct far {
    float *whole, *left, *right;
    bool interleave, alone; /* alone: beside zeros */
};

static float *take_lines(size_t count)
{
    uintptr_t line = 16 * sizeof(float), at = (uintptr_t)arena_take(count + 16);
    return (float *)((at + line - 1) / line * line);
}

static bool run_far_merge(struct np_team *team, const struct np_kernels *kernels, void *arg)
{
    const struct far *f = arg;
    kernels->merge(team, f->whole, f->left, f->alone ? NULL : f->right, ROWS, HALF, HALF, HALF,
                   HALF, f->interleave);
    np_team_wait(team);
    return kernels->split(team, f->left, f->right, f->left, NULL, f->whole, ROWS, HALF, HALF, HALF,
                          HALF, f->interleave);
}

static bool run_far_colnorm(struct np_team *team, const struct np_kernels *kernels, void *arg)
{
    const struct far *f = arg;
    struct np_colnorm norm = {.segments = 1, .rows = ROWS, .cols = WIDE, .act = NP_ACT_RELU};
    norm.x = f->left; /* and `right`, which is behind it */
    norm.mean = f->right + FAR / 2;
    norm.rstd = norm.mean + WIDE;
    norm.gamma = norm.rstd + WIDE;
    norm.beta = norm.gamma + WIDE;
    return kernels->colnorm(team, f->whole, &norm);
}

START_TEST(what_goes_past_the_caches)
{
    struct far f;
    arena_begin(11 + (uint32_t)_i, false);
    f.whole = take_lines(FAR);
    f.left = take_lines(FAR + (size_t)4 * WIDE);
    f.right = f.left + FAR / 2;
    f.interleave = _i == 1;
    f.alone = _i == 3;
    arena_check(_i == 2 ? run_far_colnorm : run_far_merge, &f, "large outputs");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels_vision");
    TCase *tests = suite_case(suite, "table");
    kernel_case_begin();
    tcase_add_loop_test(tests, every_kernel_gives_the_reference_bits, 0, (int)COUNT(cases));
    tcase_add_loop_test(tests, what_goes_past_the_caches, 0, 4);
    return suite_run(suite);
}
