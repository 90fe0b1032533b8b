/* Attention: every backend against the scalar one, bit for bit, and that one against double. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "num/backend.h"
#include "team_run.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct backend {
    const char *name;
    void (*forward)(struct np_team *, float *out, float *stats, const struct np_attention *);
    void (*backward)(struct np_team *, float *dqkv, const float *dout, const float *stats,
                     const struct np_attention *);
};

static const struct backend scalar = {"scalar", np_attention_scalar, np_attention_grad_scalar};

static size_t backends(struct backend out[3])
{
    size_t count = 0;
    out[count++] = scalar;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        out[count++] = (struct backend){"avx2", np_attention_avx2, np_attention_grad_avx2};
    else
        fprintf(stderr, "test_attention: no avx2 here, skipped\n");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        out[count++] = (struct backend){"avx512", np_attention_avx512, np_attention_grad_avx512};
    else
        fprintf(stderr, "test_attention: no avx512 here, skipped\n");
    return count;
}

static float *floats(size_t count, uint64_t *state, float range)
{
    float *x = NULL;
    ck_assert_int_eq(np_alloc(&x, count, sizeof(float), NULL), NP_OK);
    for (size_t i = 0; i < count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        x[i] = range * ((float)(*state >> 40) * 0x1p-23F - 1);
    }
    return x;
}

/* All tensors begin one float after an aligned address. */
struct data {
    struct np_attention at;
    float *qkv, *dout, *out, *stats, *dqkv;
};

static size_t rows(const struct np_attention *at)
{
    return at->samples * at->length;
}

static struct data data_new(struct np_attention at, float range, uint64_t state)
{
    struct data d = {.at = at};
    size_t n = rows(&at);
    d.qkv = floats(n * 3 * at.width + 1, &state, range);
    d.dout = floats(n * at.width + 1, &state, 1);
    d.out = floats(n * at.width + 1, &state, 1);
    d.stats = floats(n * at.heads * 2 + 1, &state, 1);
    d.dqkv = floats(n * 3 * at.width + 1, &state, 1);
    d.at.qkv = d.qkv + 1;
    return d;
}

static void data_free(struct data *d)
{
    free(d->qkv);
    free(d->dout);
    free(d->out);
    free(d->stats);
    free(d->dqkv);
}

struct call {
    const struct backend *backend;
    struct data *d;
};

static void call_attention(struct np_team *team, void *arg)
{
    struct call *c = arg;
    struct data *d = c->d;
    c->backend->forward(team, d->out + 1, d->stats + 1, &d->at);
    np_team_wait(team);
    c->backend->backward(team, d->dqkv + 1, d->dout + 1, d->stats + 1, &d->at);
}

static void run(const struct backend *backend, int size, struct data *d)
{
    struct call call = {backend, d};
    size_t bytes = np_kernels_scratch_bytes(d->at.length, d->at.width / d->at.heads);
    team_run(size, bytes, call_attention, &call);
}

static void compare(struct np_attention at, float range)
{
    struct backend list[3];
    size_t count = backends(list), n = rows(&at);
    struct data expected = data_new(at, range, 11);
    run(&scalar, 1, &expected);
    for (size_t i = 0; i < count; i++)
        for (int size = 1; size <= 4; size += 1 + (int)i) {
            struct data got = data_new(at, range, 11);
            run(&list[i], size, &got);
            bool same = memcmp(got.out, expected.out, (n * at.width + 1) * 4) == 0 &&
                        memcmp(got.stats, expected.stats, (n * at.heads * 2 + 1) * 4) == 0;
            bool same_grad = memcmp(got.dqkv, expected.dqkv, (n * 3 * at.width + 1) * 4) == 0;
            ck_assert_msg(same && same_grad, "%s, %d threads: T %zu, C %zu, heads %zu: %s differs",
                          list[i].name, size, at.length, at.width, at.heads,
                          same ? "gradient" : "output");
            data_free(&got);
        }
    data_free(&expected);
}

static const size_t lengths[] = {1, 5, 31, 32, 33, 100, 257, 300};
static const struct {
    size_t width, heads;
} shapes[] = {{6, 2}, {16, 1}, {51, 3}, {64, 1}, {96, 4}};

START_TEST(same_bits)
{
    for (size_t s = 0; s < COUNT(shapes); s++) {
        struct np_attention at = {.samples = 2, .length = lengths[_i]};
        at.width = shapes[s].width;
        at.heads = shapes[s].heads;
        compare(at, 1);
    }
}
END_TEST

/* Scores so far apart that probabilities are flushed; a head wider than a chunk; equal scores. */
START_TEST(extremes)
{
    compare((struct np_attention){.samples = 1, .length = 70, .width = 32, .heads = 2}, 12);
    compare((struct np_attention){.samples = 1, .length = 40, .width = 300, .heads = 1}, 1);
    compare((struct np_attention){.samples = 3, .length = 40, .width = 8, .heads = 2}, 0);
}
END_TEST

/* Scores that underflow to zeros of both signs: the sign of a maximum is part of the statistics. */
START_TEST(signed_zeros)
{
    compare((struct np_attention){.samples = 4, .length = 40, .width = 8, .heads = 8}, 3.2e-23F);
}
END_TEST

/* The double reference of one head, with a bound for every value. With u = eps / 2 and
 * gamma(n) = 1.01 n u, errors compose to first order, times 1.01 for the rest:
 *   score      sigma = gamma(d + 3) scale sum |q k|, absolute
 *   e          eta = sigma + u |s - m| + 2 u, relative (np_expf is good to 1 ulp)
 *   p          rho = 2 eta_max + gamma(T / 32 + 8), relative
 *   dp, a      tau = gamma(d + 1) D, and D rho + tau + gamma(T / 32 + 7) D,  D = max_j sum |do v|
 *   ds         p E,  E = scale (3 D rho + 2 tau + gamma(T / 32 + 15) D);  |ds| <= 2 scale D p
 *   sums over positions add gamma(T + 3) of the sum of absolute products. */
static double gamma_of(double n)
{
    return 1.01 * n * (FLT_EPSILON / 2);
}

/* One query's probabilities, score gradients and error factors. */
struct query {
    double p[64], ds[64], rho, ds_error;
};

static void query_init(struct query *y, const struct data *d, const float *qkv, const float *dout,
                       size_t i, size_t width)
{
    size_t ld = 3 * d->at.width;
    double lanes = (double)d->at.length / 32, n = (double)width, scale = 1 / sqrt(n);
    double max = -INFINITY, min = INFINITY, sigma = 0, z = 0, a = 0, dp[64], big = 0;
    for (size_t j = 0; j <= i; j++) {
        double s = 0, s_size = 0, dp_size = 0;
        dp[j] = 0;
        for (size_t c = 0; c < width; c++) {
            double qk = (double)qkv[i * ld + c] * qkv[j * ld + d->at.width + c];
            double ov = (double)dout[i * d->at.width + c] * qkv[j * ld + 2 * d->at.width + c];
            s += scale * qk;
            s_size += scale * fabs(qk);
            dp[j] += ov;
            dp_size += fabs(ov);
        }
        y->p[j] = s;
        max = fmax(max, s);
        min = fmin(min, s);
        sigma = fmax(sigma, gamma_of(n + 3) * s_size);
        big = fmax(big, dp_size);
    }
    for (size_t j = 0; j <= i; j++)
        z += y->p[j] = exp(y->p[j] - max);
    for (size_t j = 0; j <= i; j++)
        a += (y->p[j] /= z) * dp[j];
    for (size_t j = 0; j <= i; j++)
        y->ds[j] = y->p[j] * (dp[j] - a) * scale;
    y->rho = 2 * (sigma + gamma_of(max - min + 2)) + gamma_of(lanes + 8);
    double tau = gamma_of(n + 1) * big;
    y->ds_error = scale * (3 * big * y->rho + 2 * tau + gamma_of(lanes + 15) * big) +
                  gamma_of((double)d->at.length + 3) * 2 * scale * big;
}

static void near(const double *expected, const double *bound, const float *got, size_t ld, size_t t,
                 size_t width)
{
    for (size_t i = 0; i < t; i++)
        for (size_t c = 0; c < width; c++)
            ck_assert_double_le(fabs(expected[i * width + c] - got[i * ld + c]),
                                1.01 * bound[i * width + c] + 1e-28);
}

static void check_head(const struct data *d, const float *qkv, const float *dout, const float *out,
                       const float *dqkv)
{
    enum { MOST = 64 * 64 };
    static double sum[4][MOST], bound[4][MOST]; /* out, dq, dk, dv */
    size_t t = d->at.length, all = d->at.width, ld = 3 * all, width = all / d->at.heads;
    struct query y;
    memset(sum, 0, sizeof sum);
    memset(bound, 0, sizeof bound);
    for (size_t i = 0; i < t; i++) {
        query_init(&y, d, qkv, dout, i, width);
        double p_error = y.rho + gamma_of((double)t + 3);
        for (size_t j = 0; j <= i; j++)
            for (size_t c = 0; c < width; c++) {
                size_t at_i = i * width + c, at_j = j * width + c;
                double q = qkv[i * ld + c], k = qkv[j * ld + all + c],
                       v = qkv[j * ld + 2 * all + c];
                double o = dout[i * all + c];
                sum[0][at_i] += y.p[j] * v;
                sum[1][at_i] += y.ds[j] * k;
                sum[2][at_j] += y.ds[j] * q;
                sum[3][at_j] += y.p[j] * o;
                bound[0][at_i] += p_error * y.p[j] * fabs(v);
                bound[1][at_i] += y.ds_error * y.p[j] * fabs(k);
                bound[2][at_j] += y.ds_error * y.p[j] * fabs(q);
                bound[3][at_j] += p_error * y.p[j] * fabs(o);
            }
    }
    near(sum[0], bound[0], out, all, t, width);
    for (size_t part = 0; part < 3; part++)
        near(sum[part + 1], bound[part + 1], dqkv + part * all, ld, t, width);
}

START_TEST(near_double)
{
    struct np_attention at = {.samples = 2, .length = 61, .width = 36, .heads = 3};
    struct data d = data_new(at, 2, 5);
    run(&scalar, 1, &d);
    for (size_t b = 0; b < at.samples; b++)
        for (size_t h = 0; h < at.heads; h++) {
            size_t row = b * at.length * at.width, col = h * (at.width / at.heads);
            check_head(&d, d.at.qkv + 3 * row + col, d.dout + 1 + row + col, d.out + 1 + row + col,
                       d.dqkv + 1 + 3 * row + col);
        }
    data_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention");
    TCase *tests = tcase_create("attention");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, same_bits, 0, COUNT(lengths));
    tcase_add_test(tests, extremes);
    tcase_add_test(tests, signed_zeros);
    tcase_add_test(tests, near_double);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
