/* Matrix products: every backend against the scalar one, bit for bit, and that one against double.
 */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "num/backend.h"
#include "team_run.h"

typedef void matmul_function(struct np_team *, const struct np_matmul *);

struct backend {
    const char *name;
    matmul_function *matmul;
};

static size_t backends(struct backend out[2])
{
    size_t count = 0;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        out[count++] = (struct backend){"avx2", np_matmul_avx2};
    else
        fprintf(stderr, "test_matmul: no avx2 here, skipped\n");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        out[count++] = (struct backend){"avx512", np_matmul_avx512};
    else
        fprintf(stderr, "test_matmul: no avx512 here, skipped\n");
    return count;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void fill(float *x, size_t count, uint64_t *state)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (float)next(state) * 0x1p-30F - 1;
}

struct call {
    matmul_function *matmul;
    struct np_matmul mm;
};

static void call_matmul(struct np_team *team, void *arg)
{
    struct call *call = arg;
    call->matmul(team, &call->mm);
}

static void run(matmul_function *matmul, int size, const struct np_matmul *mm, float *c)
{
    struct call call = {matmul, *mm};
    call.mm.c = c;
    team_run(size, np_kernels_scratch_bytes(0, 0), call_matmul, &call);
}

/* Operands that begin one float after an aligned address, and C before and after. */
struct data {
    float *a, *b, *c, *expected, *got;
    size_t c_count;
};

/* Not one float more, so that a sanitizer sees a read past the end. */
static size_t floats(size_t rows, size_t cols, size_t ld, size_t period, size_t skip)
{
    if (rows == 0)
        return 0;
    return (rows - 1) * ld + (period ? (rows - 1) / period * skip : 0) + cols;
}

static void data_init(struct data *d, struct np_matmul *mm, uint64_t *state)
{
    size_t a = mm->a_trans ? floats(mm->k, mm->m, mm->lda, mm->period, mm->skip)
                           : floats(mm->m, mm->k, mm->lda, mm->period, mm->skip);
    size_t b =
        mm->b_trans ? floats(mm->n, mm->k, mm->ldb, 0, 0) : floats(mm->k, mm->n, mm->ldb, 0, 0);
    d->c_count = floats(mm->m, mm->n, mm->ldc, 0, 0);
    ck_assert_int_eq(np_alloc(&d->a, a + 1, sizeof(float), NULL), NP_OK);
    ck_assert_int_eq(np_alloc(&d->b, b + 1, sizeof(float), NULL), NP_OK);
    ck_assert_int_eq(np_alloc(&d->c, d->c_count + 1, sizeof(float), NULL), NP_OK);
    ck_assert_int_eq(np_alloc(&d->expected, d->c_count + 1, sizeof(float), NULL), NP_OK);
    ck_assert_int_eq(np_alloc(&d->got, d->c_count + 1, sizeof(float), NULL), NP_OK);
    fill(d->a, a + 1, state);
    fill(d->b, b + 1, state);
    fill(d->c, d->c_count + 1, state);
    mm->a = d->a + 1;
    mm->b = d->b + 1;
}

static void data_clear(struct data *d)
{
    free(d->a);
    free(d->b);
    free(d->c);
    free(d->expected);
    free(d->got);
}

static void compare(struct np_matmul mm, uint64_t seed)
{
    struct backend list[2];
    size_t count = backends(list);
    struct data d;
    data_init(&d, &mm, &seed);
    size_t bytes = (d.c_count + 1) * sizeof(float);
    memcpy(d.expected, d.c, bytes);
    run(np_matmul_scalar, 1, &mm, d.expected + 1);
    for (int size = 1; size <= 4; size++)
        for (size_t i = 0; i < count + 1; i++) {
            matmul_function *f = i < count ? list[i].matmul : np_matmul_scalar;
            memcpy(d.got, d.c, bytes);
            run(f, size, &mm, d.got + 1);
            ck_assert_msg(memcmp(d.got, d.expected, bytes) == 0,
                          "%s, %d threads: %zu x %zu x %zu, grain %zu, trans %d %d, accumulate %d, "
                          "period %zu skip %zu",
                          i < count ? list[i].name : "scalar", size, mm.m, mm.n, mm.k, mm.grain,
                          mm.a_trans, mm.b_trans, mm.accumulate, mm.period, mm.skip);
        }
    data_clear(&d);
}

/* Dense rows with a few floats between them. */
static struct np_matmul shape(size_t m, size_t n, size_t k, unsigned variant)
{
    struct np_matmul mm = {.m = m, .n = n, .k = k};
    mm.a_trans = variant & 1;
    mm.b_trans = variant >> 1 & 1;
    mm.accumulate = variant >> 2 & 1;
    mm.lda = (mm.a_trans ? m : k) + variant % 3;
    mm.ldb = (mm.b_trans ? k : n) + variant % 5;
    mm.ldc = n + variant % 2;
    return mm;
}

static const size_t sizes[] = {1, 2, 5, 7, 13, 15, 16, 17, 29, 31, 32, 33, 43, 64, 97, 171, 193};
static const size_t inner[] = {1, 3, 7, 8, 31, 64, 255, 256, 257, 300, 523, 771};
static const size_t grains[] = {0, 1, 7, 100, 256, 300};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

START_TEST(awkward_shapes)
{
    uint64_t state = 42 + (uint64_t)_i;
    for (int i = 0; i < 12; i++) {
        struct np_matmul mm =
            shape(sizes[next(&state) % COUNT(sizes)], sizes[next(&state) % COUNT(sizes)],
                  inner[next(&state) % COUNT(inner)], (unsigned)_i);
        mm.grain = grains[next(&state) % COUNT(grains)];
        compare(mm, state);
    }
}
END_TEST

START_TEST(every_grain)
{
    for (unsigned variant = 0; variant < 8; variant += 5) {
        struct np_matmul mm = shape(15, 33, 613, variant);
        mm.grain = grains[_i];
        compare(mm, 7);
    }
}
END_TEST

/* The im2col matrix of a causal convolution: stored rows overlap, samples are apart by the padding.
 */
START_TEST(convolution_rows)
{
    const size_t channels = 19, taps = 3, length = 23, samples = 9;
    struct np_matmul mm = {.m = samples * length, .n = 41, .k = taps * channels};
    mm.lda = channels;
    mm.period = length;
    mm.skip = (taps - 1) * channels;
    mm.ldb = mm.ldc = mm.n;
    mm.b_trans = _i & 1;
    if (mm.b_trans)
        mm.ldb = mm.k;
    compare(mm, 3);
    /* The gradient of its weights: inner index over rows. */
    struct np_matmul grad = mm;
    grad.a_trans = true;
    grad.b_trans = false;
    grad.m = mm.k;
    grad.k = mm.m;
    grad.ldb = grad.n;
    grad.grain = 3 * length;
    grad.accumulate = _i & 2;
    compare(grad, 4);
}
END_TEST

/* More than one block of rows, columns and inner indices. */
START_TEST(large)
{
    struct np_matmul mm = shape(397, 1061, 300, (unsigned)_i);
    compare(mm, 5);
}
END_TEST

START_TEST(nothing_to_do)
{
    compare(shape(0, 5, 5, 0), 1);
    compare(shape(5, 0, 5, 0), 1);
    compare(shape(5, 37, 0, 0), 1);
    compare(shape(5, 37, 0, 4), 1);
}
END_TEST

/* A product of k terms, chunked or not, has rounding errors of at most gamma(k + chunks + 1) times
 * the sum of absolute products (Higham, Accuracy and Stability, 3.1); gamma(n) <= 1.01 n u. */
START_TEST(near_double)
{
    struct np_matmul mm = shape(9, 11, 777, (unsigned)_i);
    struct data d;
    uint64_t state = 9;
    mm.lda = mm.a_trans ? mm.m : mm.k;
    mm.ldb = mm.b_trans ? mm.k : mm.n;
    mm.grain = 100;
    data_init(&d, &mm, &state);
    memcpy(d.got, d.c, (d.c_count + 1) * sizeof(float));
    run(np_matmul_scalar, 1, &mm, d.got + 1);
    for (size_t i = 0; i < mm.m; i++)
        for (size_t j = 0; j < mm.n; j++) {
            double sum = mm.accumulate ? d.c[1 + i * mm.ldc + j] : 0, size = fabs(sum);
            for (size_t p = 0; p < mm.k; p++) {
                double term = (double)mm.a[mm.a_trans ? p * mm.lda + i : i * mm.lda + p] *
                              mm.b[mm.b_trans ? j * mm.ldb + p : p * mm.ldb + j];
                sum += term;
                size += fabs(term);
            }
            double bound = 1.01 * (777 + 8 + 1) * (FLT_EPSILON / 2) * size;
            ck_assert_double_le(fabs(sum - d.got[1 + i * mm.ldc + j]), bound);
        }
    data_clear(&d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matmul");
    TCase *tests = tcase_create("matmul");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, awkward_shapes, 0, 16);
    tcase_add_loop_test(tests, every_grain, 0, COUNT(grains));
    tcase_add_loop_test(tests, convolution_rows, 0, 4);
    tcase_add_loop_test(tests, large, 0, 4);
    tcase_add_test(tests, nothing_to_do);
    tcase_add_loop_test(tests, near_double, 0, 8);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
