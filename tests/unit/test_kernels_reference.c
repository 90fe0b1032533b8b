/* The scalar reference itself is right: against double precision with derived bounds, against the
 * formulas of num/kernels.h written out once more, and against published Philox vectors.
 *
 * In the bounds u = 2^-24 is the error of one rounding; a lane sum of n terms makes n/32 + 5 of
 * them; SECOND covers the products of errors. np_expf and np_logf are within 1 ulp = 2u.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "float_control.h"
#include "num/elementary.h"
#include "num/kernels.h"
#include "num/rotary.h"
#include "suite.h"

#define U 0x1p-24
#define SECOND 1.01
#define ROWS 3
#define MAX_COLS 1031

static struct np_team team = {.size = 1};
static const size_t widths[] = {1, 31, 64, 257, MAX_COLS};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void fill(float *x, size_t count, uint64_t seed, float scale)
{
    struct np_draw_key key = np_draw_key(seed, NP_DRAW_INIT, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        x[i] = scale * (2.0f * np_philox_unit(np_draw(key, 0, i).w[0]) - 1.0f);
}

static void within(double got, double exact, double bound, const char *what, size_t cols)
{
    ck_assert_msg(fabs(got - exact) <= bound * SECOND, "%s, %zu columns: %.9g, not %.9g +- %.3g",
                  what, cols, got, exact, bound);
}

/* mean, variance and the mean of |x| of a row. */
static void moments(double out[3], const float *x, size_t n)
{
    out[0] = out[1] = out[2] = 0;
    for (size_t j = 0; j < n; j++) {
        out[0] += (double)x[j] / (double)n;
        out[2] += fabs((double)x[j]) / (double)n;
    }
    for (size_t j = 0; j < n; j++)
        out[1] += ((double)x[j] - out[0]) * ((double)x[j] - out[0]) / (double)n;
}

START_TEST(layernorm_is_right)
{
    static float x[ROWS * MAX_COLS], y[ROWS * MAX_COLS], gamma[MAX_COLS], beta[MAX_COLS];
    float mean[ROWS], rstd[ROWS], eps = 1e-5f;
    for (size_t w = 0; w < COUNT(widths); w++) {
        size_t n = widths[w];
        double sum = (double)(n / 32 + 6) * U; /* a lane sum's relative error, and the division's */
        fill(x, ROWS * n, 1, 3.0f);
        fill(gamma, n, 2, 2.0f);
        fill(beta, n, 3, 1.0f);
        np_kernels_get(NP_ISA_SCALAR)
            ->layernorm(&team, y, mean, rstd, x, gamma, beta, ROWS, n, eps);
        for (size_t r = 0; r < ROWS; r++) {
            double m[3], scale, e_mean, e_var, e_scale;
            moments(m, x + r * n, n);
            scale = 1 / sqrt(m[1] + (double)eps);
            e_mean = sum * m[2];
            /* var moves by 2 d (e_mean + u|d|) a term, e_mean^2 where d is small */
            e_var = 2 * sqrt(m[1]) * e_mean + e_mean * e_mean + (2 * U + sum + U) * m[1];
            e_scale = e_var / 2 * scale * scale + 2.5 * U; /* relative: sum, root, division */
            within((double)mean[r], m[0], e_mean, "mean", n);
            within((double)rstd[r], scale, e_scale * scale, "rstd", n);
            for (size_t j = 0; j < n; j++) {
                double d = (double)x[r * n + j] - m[0];
                double exact = d * scale * (double)gamma[j] + (double)beta[j];
                double e_h = scale * (e_mean + fabs(d) * (e_scale + 2 * U));
                within((double)y[r * n + j], exact, e_h * fabs((double)gamma[j]) + U * fabs(exact),
                       "layernorm", n);
            }
        }
    }
}
END_TEST

/* Without a mean: numbers far from zero, whose spread it must not take. */
START_TEST(rmsnorm_is_right)
{
    static float x[ROWS * MAX_COLS], y[ROWS * MAX_COLS], gamma[MAX_COLS];
    float rstd[ROWS], eps = 1e-5f;
    for (size_t w = 0; w < COUNT(widths); w++) {
        size_t n = widths[w];
        fill(x, ROWS * n, 1, 3.0f);
        fill(gamma, n, 2, 2.0f);
        for (size_t i = 0; i < ROWS * n; i++)
            x[i] += 5.0f;
        np_kernels_get(NP_ISA_SCALAR)
            ->layernorm(&team, y, NULL, rstd, x, gamma, NULL, ROWS, n, eps);
        for (size_t r = 0; r < ROWS; r++) {
            double square = 0, scale, error; /* relative: half of the sum's, root, division */
            for (size_t j = 0; j < n; j++)
                square += (double)x[r * n + j] * (double)x[r * n + j] / (double)n;
            scale = 1 / sqrt(square + (double)eps);
            error = ((double)(n / 32 + 6) + 1) * U / 2 + 2.5 * U;
            within((double)rstd[r], scale, error * scale, "rstd", n);
            for (size_t j = 0; j < n; j++) {
                double exact = (double)x[r * n + j] * scale * (double)gamma[j];
                within((double)y[r * n + j], exact, (error + 2 * U) * fabs(exact), "rmsnorm", n);
            }
        }
    }
}
END_TEST

START_TEST(octaves_are_right)
{
    const int bases[] = {2, 3, 4, 7, 9999, 10001, 500000, 1000000, 123456789, NP_ROTARY_BASE_MOST};
    ck_assert(np_rotary_octaves(NP_ROTARY_BASE) == 0x1.a934f0979a371p+3);
    for (size_t i = 0; i < COUNT(bases); i++) {
        long double exact = log2l((long double)bases[i]);
        double near = (double)exact, got = np_rotary_octaves(bases[i]);
        ck_assert_msg(got >= nextafter(near, 0) && got <= nextafter(near, 100), "%d", bases[i]);
    }
}
END_TEST

/* A turn is rounded down to 24 bits of one; its error does not grow with the position. */
START_TEST(rotate_is_right)
{
    const size_t places[] = {2, 6, 64, 66, 130};
    const int bases[] = {10000, 500000, 2, 10000, NP_ROTARY_BASE_MOST};
    for (size_t w = 0; w < COUNT(places); w++) {
        size_t width = places[w], length = 4099, half = width / 2;
        struct np_rotation rotation = {1, length, width, 1, width, bases[w], false};
        float *x = calloc(length * width, sizeof *x), *y = calloc(length * width, sizeof *y);
        fill(x, length * width, 1, 2.0f);
        np_kernels_get(NP_ISA_SCALAR)->rotate(&team, y, x, &rotation);
        for (size_t e = 0; e < length * width; e++) {
            size_t i = e % width % half, t = e / width;
            double angle = (double)t * pow((double)bases[w], -2.0 * (double)i / (double)width);
            double u = (double)x[t * width + i], v = (double)x[t * width + i + half];
            double exact = e % width < half ? u * cos(angle) - v * sin(angle)
                                            : v * cos(angle) + u * sin(angle);
            double error = 2 * acos(-1.0) * 0x1p-24 + 6 * U;
            within((double)y[e], exact, error * (fabs(u) + fabs(v)), "rotate", width);
        }
        free(x);
        free(y);
    }
}
END_TEST

/* max, log of the denominator, largest distance from the maximum, sum of distances. */
static void softmax_exact(double out[4], const float *x, size_t n)
{
    double z = 0;
    out[0] = (double)x[0];
    out[2] = out[3] = 0;
    for (size_t j = 0; j < n; j++)
        out[0] = (double)x[j] > out[0] ? (double)x[j] : out[0];
    for (size_t j = 0; j < n; j++) {
        z += exp((double)x[j] - out[0]);
        out[2] = out[0] - (double)x[j] > out[2] ? out[0] - (double)x[j] : out[2];
        out[3] += (double)x[j] - out[0];
    }
    out[1] = log(z);
}

START_TEST(softmax_and_cross_entropy_are_right)
{
    static float x[ROWS * MAX_COLS], p[ROWS * MAX_COLS], d[ROWS * MAX_COLS];
    const struct np_kernels *k = np_kernels_get(NP_ISA_SCALAR);
    float loss[ROWS], plain[ROWS], smoothing = 0.1f;
    const int32_t none[ROWS] = {-1, -1, -1};
    for (size_t w = 0; w < COUNT(widths); w++) {
        size_t n = widths[w];
        int32_t targets[ROWS] = {0, (int32_t)n / 2, (int32_t)n - 1};
        double on = 1 - (double)smoothing, off = (double)smoothing / (double)n;
        fill(x, ROWS * n, 4, 20.0f);
        k->softmax(&team, p, x, ROWS, n);
        k->xent(&team, plain, x, targets, ROWS, n, 0.0f);
        k->xent(&team, loss, x, targets, ROWS, n, smoothing);
        k->xent_grad(&team, d, x, targets, ROWS, n, smoothing, 0.5f);
        for (size_t r = 0; r < ROWS; r++) {
            double s[4], e_z, e_loss, far, exact;
            softmax_exact(s, x + r * n, n);
            e_z = ((double)(n / 32 + 7) + s[2]) * U; /* relative; d is off by u|d| before np_expf */
            far = (double)x[r * n + (size_t)targets[r]] - s[0];
            exact = s[1] - far;
            e_loss = e_z + U * (2 * s[1] + fabs(far) + fabs(exact));
            within((double)plain[r], exact, e_loss, "xent", n);
            exact = s[1] - on * far - off * s[3];
            /* on, off and the sum of distances are rounded too, and each fma */
            e_loss = e_z + U * (2 * s[1] + 2 * fabs(far) + fabs(s[1] - on * far) + fabs(exact)) +
                     (double)(n / 32 + 7) * U * fabs(off * s[3]);
            within((double)loss[r], exact, e_loss, "xent, smoothed", n);
            for (size_t j = 0; j < n; j++) {
                double t = (j == (size_t)targets[r] ? on : 0) + off;
                exact = exp((double)x[r * n + j] - s[0] - s[1]);
                e_loss = exact * (e_z + (3 + s[2]) * U) + (double)NP_FLUSH;
                within((double)p[r * n + j], exact, e_loss, "softmax", n);
                e_loss = (e_loss + 2 * U * t + U * fabs(exact - t)) / 2;
                within((double)d[r * n + j], (exact - t) / 2, e_loss, "xent_grad", n);
            }
        }
        k->xent(&team, loss, x, none, ROWS, n, smoothing);
        k->xent_grad(&team, d, x, none, ROWS, n, smoothing, 0.5f);
        for (size_t i = 0; i < ROWS * n; i++)
            ck_assert(loss[i / n] == 0 && !signbit(loss[i / n]) && d[i] == 0 && !signbit(d[i]));
    }
}
END_TEST

START_TEST(adamw_is_right)
{
    static float w[257], m[257], v[257], g[257], w0[257], m0[257], v0[257];
    uint64_t sum = 0;
    struct np_update u = {.w = w, .m = m, .v = v, .g = g, .count = COUNT(w)};
    u.limit = INFINITY;
    u.lr = 1e-2f;
    u.decay = 0.1f;
    u.beta1 = 0.9f;
    u.beta2 = 0.99f;
    u.eps = 1e-8f;
    u.c1 = 1.25f;
    u.c2 = 8.0f;
    fill(w, COUNT(w), 5, 1.0f);
    fill(m, COUNT(w), 6, 0.1f);
    fill(g, COUNT(w), 7, 0.1f);
    fill(v, COUNT(w), 8, 0.01f);
    for (size_t i = 0; i < COUNT(v); i++)
        v[i] = fabsf(v[i]);
    memcpy(w0, w, sizeof w);
    memcpy(m0, m, sizeof m);
    memcpy(v0, v, sizeof v);
    struct np_layer_update alone = np_update_alone(&u);
    ck_assert(np_kernels_get(NP_ISA_SCALAR)->adamw(&team, &alone, &sum));
    for (size_t i = 0; i < COUNT(w); i++) {
        double b1 = (double)u.beta1, b2 = (double)u.beta2, gi = (double)g[i], lr = (double)u.lr;
        double mi = b1 * (double)m0[i] + (1 - b1) * gi;
        double vi = b2 * (double)v0[i] + (1 - b2) * gi * gi;
        double root = sqrt(vi * (double)u.c2) + (double)u.eps, step = mi * (double)u.c1 / root;
        double shrunk = (double)w0[i] * (1 - lr * (double)u.decay), exact = shrunk - lr * step;
        /* 1 - beta is exact; g * g, its product and the fma round */
        double e_m = U * (fabs((1 - b1) * gi) + fabs(mi));
        double e_v = U * (2 * (1 - b2) * gi * gi + vi);
        double e_root = (e_v / vi + U) / 2 + 2 * U; /* relative: product, root, + eps */
        double e_step = e_m * (double)u.c1 / root + fabs(step) * (2 * U + e_root);
        within((double)m[i], mi, e_m, "adamw m", i);
        within((double)v[i], vi, e_v, "adamw v", i);
        within((double)w[i], exact,
               lr * e_step + U * (lr * (double)u.decay * fabs((double)w0[i]) + fabs(shrunk)) +
                   U * fabs(exact),
               "adamw w", i);
    }
}
END_TEST

START_TEST(philox_gives_the_published_words)
{
    static const struct {
        struct np_philox counter;
        struct np_draw_key key;
        uint32_t words[4];
    } known[] = {
        {{{0, 0, 0, 0}}, {{0, 0}}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{{~0u, ~0u, ~0u, ~0u}}, {{~0u, ~0u}}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {{0xa4093822, 0x299f31d0}},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        struct np_philox drawn = np_philox(known[i].counter, known[i].key);
        ck_assert_mem_eq(drawn.w, known[i].words, sizeof drawn.w);
    }
}
END_TEST

static uint32_t word_of(struct np_draw_key key, uint64_t step, uint64_t element)
{
    return np_draw(key, step, element / 4).w[element % 4];
}

START_TEST(random_kernels_draw_by_address)
{
    const struct np_kernels *k = np_kernels_get(NP_ISA_SCALAR);
    struct np_draw_key key = np_draw_key(1, NP_DRAW_DROPOUT, 2, 3, 4);
    float x[1000], y[1000], w[1001], std = 0.5f;
    uint64_t first = 4 * UINT64_C(0xffffffff) - 37; /* blocks on both sides of 2^32 */
    fill(x, COUNT(x), 9, 1.0f);
    k->dropout(&team, y, x, COUNT(x), key, 11, first, 0x40000000, 1.5f);
    for (size_t i = 0; i < COUNT(x); i++) {
        float kept = x[i] * 1.5f;
        ck_assert_float_eq(y[i], word_of(key, 11, first + i) >= 0x40000000 ? kept : 0.0f);
    }
    k->normal(&team, w, COUNT(w), key, std);
    for (size_t i = 0; i < COUNT(w); i++) {
        float u0 = np_philox_unit(word_of(key, 0, i / 2 * 2));
        float u1 = np_philox_unit(word_of(key, 0, i / 2 * 2 + 1));
        float r = sqrtf(-2.0f * np_logf(1.0f - u0));
        ck_assert_float_eq(w[i], std * (r * (i % 2 ? np_sin2pif(u1) : np_cos2pif(u1))));
    }
}
END_TEST

START_TEST(gated_units_and_embeddings_read_the_right_elements)
{
    enum { B = 3, T = 5, C = 19, R = B * T, V = 4 };
    const struct np_kernels *k = np_kernels_get(NP_ISA_SCALAR);
    float u[R * 2 * C], sum[R * 2 * C], du[R * 2 * C], bias[2 * C], y[R * C], dy[R * C];
    float plain[R * C];
    float table[V * C], positions[T * C], dtable[V * C] = {0}, dpositions[T * C] = {0};
    float table_ref[V * C] = {0}, positions_ref[T * C] = {0};
    int32_t tokens[R];
    fill(u, R * 2 * C, 10, 2.0f);
    fill(bias, 2 * C, 11, 1.0f);
    fill(dy, R * C, 12, 1.0f);
    fill(table, V * C, 13, 1.0f);
    fill(positions, T * C, 14, 1.0f);
    memcpy(sum, u, sizeof u);
    k->bias_glu(&team, y, sum, bias, R, C);
    k->glu_grad(&team, du, sum, dy, R, C);
    for (size_t i = 0; i < R * C; i++) {
        size_t r = i / C, j = i % C, at = r * 2 * C + j;
        float a = u[at] + bias[j], b = u[at + C] + bias[C + j], s = np_sigmoidf(b);
        ck_assert(sum[at] == a && sum[at + C] == b && y[i] == a * s);
        ck_assert(du[at] == dy[i] * s && du[at + C] == ((dy[i] * a) * s) * (1.0f - s));
        tokens[r] = (int32_t)(r * 7 % V);
    }
    k->embed(&team, y, tokens, table, positions, B, T, C);
    k->embed(&team, plain, tokens, table, NULL, B, T, C);
    k->embed_grad(&team, dtable, dpositions, tokens, dy, B, T, C);
    for (size_t i = 0; i < R * C; i++) {
        size_t r = i / C, j = i % C, token = (size_t)tokens[r] * C + j, position = r % T * C + j;
        ck_assert(y[i] == table[token] + positions[position]);
        ck_assert(plain[i] == table[token]);
        table_ref[token] = table_ref[token] + dy[i];
        positions_ref[position] = positions_ref[position] + dy[i];
    }
    ck_assert_mem_eq(dtable, table_ref, sizeof dtable);
    ck_assert_mem_eq(dpositions, positions_ref, sizeof dpositions);
}
END_TEST

START_TEST(small_numbers_are_flushed_and_fingerprinted)
{
    const struct np_kernels *k = np_kernels_get(NP_ISA_SCALAR);
    float w[3] = {0x1p-101f, 1.0f, -0x1p-120f}, m[3] = {0x1p-100f, -0x1p-110f, 0.0f};
    float g[3] = {0x1p-110f, -0.0f, 0.0f};
    uint64_t address = np_fingerprint_address(5, 6), sum = 0, printed = 1;
    struct np_update u = {.w = w, .m = m, .g = g, .count = 3, .address = address};
    u.limit = INFINITY;
    u.lr = 0x1p-40f;
    u.momentum = 1.0f;
    ck_assert_uint_eq(address, (UINT64_C(5) << 44) + 18);
    struct np_layer_update alone = np_update_alone(&u);
    ck_assert(k->sgd(&team, &alone, &printed));
    for (size_t i = 0; i < 3; i++) {
        sum += np_fingerprint_mix(address + i, np_float_bits(w[i]));
        sum += np_fingerprint_mix(address + 3 + i, np_float_bits(m[i]));
    }
    ck_assert_uint_eq(printed, sum + 1);
    ck_assert_uint_eq(np_float_bits(w[0]) | np_float_bits(w[2]) | np_float_bits(m[1]), 0);
    ck_assert(w[1] == 1.0f && m[0] == 0x1p-100f);
}
END_TEST

START_TEST(other_arithmetic_is_refused)
{
    ck_assert_int_eq(np_float_check(NULL), NP_OK);
    float_control(float_changes[_i]);
    enum np_status status = np_float_check(NULL);
    float_control(float_changes[_i]);
    ck_assert_int_eq(status, float_changes[_i] ? NP_EINPUT : NP_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels_reference");
    TCase *tests = suite_case(suite, "scalar");
    tcase_add_test(tests, layernorm_is_right);
    tcase_add_test(tests, rmsnorm_is_right);
    tcase_add_test(tests, octaves_are_right);
    tcase_add_test(tests, rotate_is_right);
    tcase_add_test(tests, softmax_and_cross_entropy_are_right);
    tcase_add_test(tests, adamw_is_right);
    tcase_add_test(tests, philox_gives_the_published_words);
    tcase_add_test(tests, random_kernels_draw_by_address);
    tcase_add_test(tests, gated_units_and_embeddings_read_the_right_elements);
    tcase_add_test(tests, small_numbers_are_flushed_and_fingerprinted);
    tcase_add_loop_test(tests, other_arithmetic_is_refused, 0, FLOAT_CHANGES);
    return suite_run(suite);
}
