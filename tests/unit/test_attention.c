/* Attention: every backend against the scalar one, bit for bit, and that one against double. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "fenced.h"
#include "num/kernels.h"
#include "numbers.h"
#include "suite.h"
#include "team_run.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct backend {
    const char *name;
    void (*forward)(struct np_team *, float *out, float *stats, const struct np_attention *);
    void (*backward)(struct np_team *, float *dq, float *dk, float *dv, float *drelative,
                     const float *dout, const float *stats, const struct np_attention *);
};

/* The reference comes first. */
static size_t backends(struct backend out[BACKENDS])
{
    size_t count = 0;
    for (int isa = 0; isa < BACKENDS; isa++) {
        const struct np_kernels *k = backend_get(isa);
        if (k)
            out[count++] = (struct backend){k->name, k->attention, k->attention_grad};
    }
    return count;
}

static float *floats(size_t count, uint64_t *state, float range)
{
    float *x = fenced(count, number_next(state) >> 16 & 1);
    for (size_t i = 0; i < count; i++)
        x[i] = range * ((float)number_next(state) * 0x1p-30F - 1);
    return x;
}

/* Self-attention keeps q, k and v side by side in rows of 3C; attention to other positions
 * (`cross`) q in rows of C, k and v in rows of 2C. Relative positions where a row is `across`. All
 * tensors are the last floats of what was allocated, whose first is one more. */
struct data {
    struct np_attention at;
    bool cross;
    float *x, *memory, *dx, *dmemory; /* q, k, v and their gradients; memory only when cross */
    float *dout, *out, *stats, *table, *shares;
    int32_t lengths[4];
};

static size_t x_floats(const struct data *d)
{
    return d->at.samples * d->at.queries * d->at.ldq + 1;
}

static size_t memory_floats(const struct data *d)
{
    return d->cross ? d->at.samples * d->at.keys * d->at.ldk + 1 : 1;
}

static size_t out_floats(const struct data *d)
{
    return d->at.samples * d->at.queries * d->at.width + 1;
}

static size_t stats_floats(const struct data *d)
{
    return d->at.samples * d->at.queries * d->at.heads * 2 + 1;
}

static size_t table_floats(const struct np_attention *at)
{
    return at->across
               ? at->heads * np_offset_count(at->queries / at->across, at->across, at->causal)
               : 0;
}

static size_t shares_floats(const struct data *d)
{
    return d->at.samples * table_floats(&d->at) + 1;
}

/* at.lengths: some, as here; the first sample has all keys, the second one. */
static const int32_t any_lengths;

static struct data data_new(struct np_attention at, float range, uint64_t state)
{
    struct data d = {.at = at, .cross = at.queries != at.keys};
    d.at.ldq = d.cross ? at.width : 3 * at.width;
    d.at.ldk = d.cross ? 2 * at.width : 3 * at.width;
    d.x = floats(x_floats(&d), &state, range);
    d.memory = floats(memory_floats(&d), &state, range);
    d.dx = floats(x_floats(&d), &state, 1);
    d.dmemory = floats(memory_floats(&d), &state, 1);
    d.dout = floats(out_floats(&d), &state, 1);
    d.out = floats(out_floats(&d), &state, 1);
    d.stats = floats(stats_floats(&d), &state, 1);
    d.table = floats(table_floats(&at) + 1, &state, range);
    d.shares = floats(shares_floats(&d), &state, 1);
    d.at.relative = at.across ? d.table + 1 : NULL;
    d.at.q = d.x + 1;
    d.at.k = d.cross ? d.memory + 1 : d.at.q + at.width;
    d.at.v = d.at.k + at.width;
    return d;
}

static float *dk_of(const struct data *d)
{
    return d->cross ? d->dmemory + 1 : d->dx + 1 + d->at.width;
}

static void data_free(struct data *d)
{
    fenced_free(d->x);
    fenced_free(d->memory);
    fenced_free(d->dx);
    fenced_free(d->dmemory);
    fenced_free(d->dout);
    fenced_free(d->out);
    fenced_free(d->stats);
    fenced_free(d->table);
    fenced_free(d->shares);
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
    c->backend->backward(team, d->dx + 1, dk_of(d), dk_of(d) + d->at.width,
                         d->at.across ? d->shares + 1 : NULL, d->dout + 1, d->stats + 1, &d->at);
}

static void run(const struct backend *backend, int size, struct data *d)
{
    struct call call = {backend, d};
    const size_t keys = d->at.keys;
    const size_t lengths[] = {keys, 1, (keys + 1) / 2, keys > 33 ? 33 : keys};
    for (size_t i = 0; i < COUNT(lengths); i++)
        d->lengths[i] = (int32_t)lengths[i];
    if (d->at.lengths)
        d->at.lengths = d->lengths;
    size_t length = d->at.queries > d->at.keys ? d->at.queries : d->at.keys;
    size_t bytes = np_kernels_scratch_bytes(length, d->at.width / d->at.heads);
    team_run(size, bytes, call_attention, &call);
}

static bool same(const float *a, const float *b, size_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}

static void compare(struct np_attention at, float range)
{
    struct backend list[BACKENDS];
    size_t count = backends(list);
    struct data expected = data_new(at, range, 11);
    run(&list[0], 1, &expected);
    for (size_t i = 0; i < count; i++)
        for (int size = i == 0 ? 2 : 1; size <= 4; size++) {
            if (!team_is_tried(size, (int)i))
                continue;
            struct data got = data_new(at, range, 11);
            run(&list[i], size, &got);
            bool forward = same(got.out, expected.out, out_floats(&got)) &&
                           same(got.stats, expected.stats, stats_floats(&got));
            bool backward = same(got.dx, expected.dx, x_floats(&got)) &&
                            same(got.dmemory, expected.dmemory, memory_floats(&got)) &&
                            same(got.shares, expected.shares, shares_floats(&got));
            ck_assert_msg(forward && backward,
                          "%s, %d threads: T %zu, S %zu, causal %d, across %zu, C %zu, heads %zu"
                          "%s: %s differs",
                          list[i].name, size, at.queries, at.keys, at.causal, at.across, at.width,
                          at.heads, at.lengths ? ", lengths" : "", forward ? "gradient" : "output");
            data_free(&got);
        }
    data_free(&expected);
}

/* Around tiles and chunks; causal and not, and more or fewer keys than queries. */
static const size_t lengths[] = {1, 5, 31, 32, 33, 100, 257, 300};
static const struct {
    size_t width, heads;
} shapes[] = {{6, 2}, {16, 1}, {51, 3}, {64, 1}, {96, 4}};

/* Positions of a row of an image. */
static const size_t row_of[] = {1, 5, 31, 8, 11, 10, 257, 20};

/* Of the longest, half of the shapes each; in a short run one, and half with the others. */
START_TEST(same_bits)
{
    const bool is_long = lengths[_i] > 256;
    const size_t few = is_long ? COUNT(shapes) : 2;
    const size_t one_in = tests_are_full() ? 1 + (size_t)is_long : few;
    for (size_t s = 0; s < COUNT(shapes); s++) {
        struct np_attention at = {.samples = 2, .queries = lengths[_i], .keys = lengths[_i]};
        if ((s + (size_t)_i) % one_in != 0)
            continue;
        at.width = shapes[s].width;
        at.heads = shapes[s].heads;
        compare(at, 1);
        at.across = row_of[_i];
        compare(at, 1);
        at.causal = true;
        at.across = 0;
        compare(at, 1);
        at.across = at.queries;
        compare(at, 1);
        at.causal = false;
        at.across = 0;
        at.keys = lengths[(size_t)_i * 3 % COUNT(lengths)] + 1;
        compare(at, 1);
        at.samples = 4;
        at.lengths = &any_lengths;
        compare(at, 1);
        at.keys = at.queries;
        at.across = row_of[_i];
        compare(at, 1);
    }
}
END_TEST

static const struct np_attention extreme[] = {
    {.samples = 1, .queries = 70, .keys = 70, .width = 32, .heads = 2},
    {.samples = 1, .queries = 40, .keys = 40, .width = 300, .heads = 1},
    {.samples = 3, .queries = 40, .keys = 40, .width = 8, .heads = 2},
    {.samples = 4, .queries = 40, .keys = 40, .width = 8, .heads = 8},
};
/* Scores so far apart that probabilities are flushed; a head wider than a chunk; equal scores;
 * scores that underflow to zeros of both signs: the sign of a maximum is part of the statistics. */
static const float extreme_ranges[] = {12, 1, 0, 3.2e-23F};

START_TEST(extremes)
{
    struct np_attention at = extreme[_i];
    compare(at, extreme_ranges[_i]);
    at.causal = true;
    compare(at, extreme_ranges[_i]);
    at.across = at.queries;
    compare(at, extreme_ranges[_i]);
}
END_TEST

/* A query's results do not depend on the keys that it does not see, nor on how many there are:
 * causal attention to a sequence's beginning is the beginning of causal attention. */
START_TEST(what_is_not_seen_does_not_matter)
{
    struct np_attention at = {.samples = 1, .queries = 64, .keys = 64, .width = 12, .heads = 1};
    struct backend list[BACKENDS];
    size_t count = backends(list);
    at.causal = true;
    for (size_t i = 0; i < count; i++) {
        struct data whole = data_new(at, 1, 3), part = data_new(at, 1, 3);
        part.at.queries = part.at.keys = 33;
        run(&list[i], 1, &whole);
        run(&list[i], 1, &part);
        ck_assert(same(whole.out + 1, part.out + 1, 33 * at.width));
        ck_assert(same(whole.stats + 1, part.stats + 1, 33 * 2));
        data_free(&whole);
        data_free(&part);
    }
}
END_TEST

/* Keys behind a sample's length may be anything, and get +0: the rest is what it is without them.
 */
START_TEST(filled_keys_do_not_matter)
{
    struct np_attention at = {.samples = 1, .queries = 40, .keys = 64, .width = 12, .heads = 2};
    const int32_t length = 33;
    struct backend list[BACKENDS];
    size_t count = backends(list);
    for (size_t i = 0; i < count; i++) {
        struct data whole = data_new(at, 1, 3), part = data_new(at, 1, 3);
        const size_t row = whole.at.ldk, real = 33 * row, all = 64 * row;
        part.at.keys = 33;
        for (size_t j = real; j < all; j++)
            whole.memory[1 + j] = NAN;
        run(&list[i], 1, &part);
        struct call call = {&list[i], &whole};
        whole.at.lengths = &length;
        team_run(1, np_kernels_scratch_bytes(64, 6), call_attention, &call);
        ck_assert(same(whole.out, part.out, out_floats(&part)));
        ck_assert(same(whole.stats, part.stats, stats_floats(&part)));
        ck_assert(same(whole.dx, part.dx, x_floats(&part)));
        ck_assert(same(whole.dmemory + 1, part.dmemory + 1, real));
        for (size_t j = real; j < all; j++)
            ck_assert(whole.dmemory[1 + j] == 0 && !signbit(whole.dmemory[1 + j]));
        data_free(&whole);
        data_free(&part);
    }
}
END_TEST

/* The double reference of one head, with a bound for every value. With u = eps / 2 and
 * gamma(n) = 1.01 n u, errors compose to first order, times 1.01 for the rest:
 *   score      sigma = gamma(d + 3) (scale sum |q k| + |relative|), absolute
 *   e          eta = sigma + u |s - m| + 2 u, relative (np_expf is good to 1 ulp)
 *   p          rho = 2 eta_max + gamma(T / 32 + 8), relative
 *   dp, a      tau = gamma(d + 1) D, and D rho + tau + gamma(T / 32 + 7) D,  D = max_j sum |do v|
 *   ds         p E,  E = scale (3 D rho + 2 tau + gamma(T / 32 + 15) D);  |ds| <= 2 scale D p
 *   sums over positions add gamma(T + 3) of the sum of absolute products. */
static double gamma_of(double n)
{
    return 1.01 * n * (FLT_EPSILON / 2);
}

enum { POSITIONS = 64 }; /* most of them */

/* One query's probabilities, score gradients and error factors. */
struct query {
    double p[POSITIONS], ds[POSITIONS], rho, ds_error;
};

/* Where query i and key j are in a head's table. */
static size_t offset_of(const struct np_attention *at, size_t i, size_t j)
{
    long across = (long)at->across, down = (long)(at->queries / at->across);
    long x = (long)j % across - (long)i % across, y = (long)j / across - (long)i / across;
    return (size_t)((y + down - 1) * (2 * across - 1) + x + across - 1);
}

static void query_init(struct query *y, const struct np_attention *at, const float *q,
                       const float *k, const float *v, const float *dout, const float *table,
                       size_t i, size_t seen)
{
    size_t width = at->width / at->heads;
    double lanes = (double)at->keys / 32, n = (double)width, scale = 1 / sqrt(n);
    double max = -INFINITY, min = INFINITY, sigma = 0, z = 0, a = 0, dp[POSITIONS], big = 0;
    for (size_t j = 0; j < seen; j++) {
        double s = 0, s_size = 0, dp_size = 0;
        dp[j] = 0;
        for (size_t c = 0; c < width; c++) {
            double qk = (double)q[i * at->ldq + c] * k[j * at->ldk + c];
            double ov = (double)dout[i * at->width + c] * v[j * at->ldk + c];
            s += scale * qk;
            s_size += scale * fabs(qk);
            dp[j] += ov;
            dp_size += fabs(ov);
        }
        if (at->across) {
            s += (double)table[offset_of(at, i, j)];
            s_size += fabs((double)table[offset_of(at, i, j)]);
        }
        y->p[j] = s;
        max = fmax(max, s);
        min = fmin(min, s);
        sigma = fmax(sigma, gamma_of(n + 3) * s_size);
        big = fmax(big, dp_size);
    }
    for (size_t j = 0; j < seen; j++)
        z += y->p[j] = exp(y->p[j] - max);
    for (size_t j = 0; j < seen; j++)
        a += (y->p[j] /= z) * dp[j];
    for (size_t j = 0; j < seen; j++)
        y->ds[j] = y->p[j] * (dp[j] - a) * scale;
    y->rho = 2 * (sigma + gamma_of(max - min + 2)) + gamma_of(lanes + 8);
    double tau = gamma_of(n + 1) * big;
    y->ds_error = scale * (3 * big * y->rho + 2 * tau + gamma_of(lanes + 15) * big) +
                  gamma_of(POSITIONS + 3) * 2 * scale * big;
}

static void near(const double *expected, const double *bound, const float *got, size_t ld,
                 size_t rows, size_t width)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < width; c++)
            ck_assert_double_le(fabs(expected[i * width + c] - got[i * ld + c]),
                                1.01 * bound[i * width + c] + 1e-28);
}

/* Head `head` of sample `sample`. */
static void check_head(const struct data *d, size_t sample, size_t head)
{
    enum { MOST = POSITIONS * POSITIONS };
    static double sum[5][MOST], bound[5][MOST]; /* out, dq, dk, dv, the table's */
    const struct np_attention *at = &d->at;
    size_t width = at->width / at->heads, column = head * width;
    size_t q_at = sample * at->queries * at->ldq + column;
    size_t k_at = sample * at->keys * at->ldk + column;
    size_t out_at = sample * at->queries * at->width + column;
    const float *q = at->q + q_at, *k = at->k + k_at, *v = at->v + k_at;
    const float *dout = d->dout + 1 + out_at;
    size_t offsets = table_floats(at) / at->heads;
    const float *table = d->table + 1 + head * offsets;
    double scale = 1 / sqrt((double)width);
    struct query y;
    memset(sum, 0, sizeof sum);
    memset(bound, 0, sizeof bound);
    for (size_t i = 0; i < at->queries; i++) {
        size_t seen = at->causal ? i + 1 : at->lengths ? (size_t)at->lengths[sample] : at->keys;
        query_init(&y, at, q, k, v, dout, table, i, seen);
        double p_error = y.rho + gamma_of(POSITIONS + 3);
        for (size_t j = 0; at->across && j < seen; j++) {
            sum[4][offset_of(at, i, j)] += y.ds[j] / scale;
            bound[4][offset_of(at, i, j)] += y.ds_error * y.p[j] / scale;
        }
        for (size_t j = 0; j < seen; j++)
            for (size_t c = 0; c < width; c++) {
                size_t at_i = i * width + c, at_j = j * width + c, row = j * at->ldk + c;
                double qi = q[i * at->ldq + c], o = dout[i * at->width + c];
                sum[0][at_i] += y.p[j] * v[row];
                sum[1][at_i] += y.ds[j] * k[row];
                sum[2][at_j] += y.ds[j] * qi;
                sum[3][at_j] += y.p[j] * o;
                bound[0][at_i] += p_error * y.p[j] * fabs((double)v[row]);
                bound[1][at_i] += y.ds_error * y.p[j] * fabs((double)k[row]);
                bound[2][at_j] += y.ds_error * y.p[j] * fabs(qi);
                bound[3][at_j] += p_error * y.p[j] * fabs(o);
            }
    }
    near(sum[0], bound[0], d->out + 1 + out_at, at->width, at->queries, width);
    near(sum[1], bound[1], d->dx + 1 + q_at, at->ldq, at->queries, width);
    near(sum[2], bound[2], dk_of(d) + k_at, at->ldk, at->keys, width);
    near(sum[3], bound[3], dk_of(d) + at->width + k_at, at->ldk, at->keys, width);
    if (at->across)
        near(sum[4], bound[4], d->shares + 1 + (sample * at->heads + head) * offsets, offsets, 1,
             offsets);
}

START_TEST(near_double)
{
    static const struct np_attention kinds[] = {
        {.samples = 2, .queries = 61, .keys = 61, .width = 36, .heads = 3, .causal = true},
        {.samples = 2, .queries = 61, .keys = 61, .width = 36, .heads = 3},
        {.samples = 2, .queries = 61, .keys = 29, .width = 36, .heads = 3},
        {.samples = 2, .queries = 29, .keys = 61, .width = 36, .heads = 3},
        {.samples = 2,
         .queries = 61,
         .keys = 61,
         .width = 36,
         .heads = 3,
         .causal = true,
         .across = 61},
        {.samples = 2, .queries = 56, .keys = 56, .width = 36, .heads = 3, .across = 7},
        {.samples = 4, .queries = 29, .keys = 61, .width = 36, .heads = 3, .lengths = &any_lengths},
        {.samples = 4,
         .queries = 56,
         .keys = 56,
         .width = 36,
         .heads = 3,
         .across = 7,
         .lengths = &any_lengths},
    };
    struct data d = data_new(kinds[_i], 2, 5);
    struct backend list[BACKENDS];
    backends(list);
    run(&list[0], 1, &d);
    for (size_t b = 0; b < d.at.samples; b++)
        for (size_t h = 0; h < d.at.heads; h++)
            check_head(&d, b, h);
    data_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention");
    TCase *tests = suite_case(suite, "attention");
    tcase_add_loop_test(tests, same_bits, 0, COUNT(lengths));
    tcase_add_loop_test(tests, extremes, 0, COUNT(extreme));
    tcase_add_test(tests, what_is_not_seen_does_not_matter);
    tcase_add_test(tests, filled_keys_do_not_matter);
    tcase_add_loop_test(tests, near_double, 0, 8);
    return suite_run(suite);
}
