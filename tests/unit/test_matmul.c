/* Matrix products: every backend against the scalar one, bit for bit, and that one against double.
 */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "fenced.h"
#include "num/elementary.h"
#include "num/kernels.h"
#include "numbers.h"
#include "suite.h"
#include "team_run.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef bool matmul_function(struct np_team *, const struct np_matmul *);

struct backend {
    const char *name;
    matmul_function *matmul;
};

/* The reference comes first. */
static size_t backends(struct backend out[BACKENDS])
{
    size_t count = 0;
    for (int isa = 0; isa < BACKENDS; isa++) {
        const struct np_kernels *k = backend_get(isa);
        if (k)
            out[count++] = (struct backend){k->name, k->matmul};
    }
    return count;
}

struct call {
    matmul_function *matmul;
    struct np_matmul mm;
    atomic_bool infinite;
};

static void call_matmul(struct np_team *team, void *arg)
{
    struct call *call = arg;
    if (!call->matmul(team, &call->mm))
        call->infinite = true;
}

/* Operands, and matrices of C's size before and after: C, what goes into the activation. They begin
 * `first` floats after an aligned address: one, unless a test wants them aligned. */
enum { C, KEPT, OUTPUTS, BEFORE = OUTPUTS, RESIDUAL, SQUARE };
struct data {
    float *a, *b, *bias, *square[SQUARE], *expected[OUTPUTS], *got[OUTPUTS];
    size_t count, first; /* count: of C */
};

enum residual { NONE, APART, IN_PLACE };

/* An epilogue with everything but the pointers. */
struct ending {
    bool bias, before, kept;
    enum residual residual;
    enum np_act act;
    size_t more; /* floats between its rows than between those of C */
};

/* Not one float more, so that a read past the end is seen. */
static size_t floats(size_t rows, size_t cols, size_t ld)
{
    return rows == 0 ? 0 : (rows - 1) * ld + cols;
}

static void data_init(struct data *d, const struct np_matmul *mm, const struct ending *e,
                      size_t first, uint64_t *state)
{
    const size_t a = mm->a_trans ? floats(mm->k, mm->m, mm->lda) : floats(mm->m, mm->k, mm->lda);
    const size_t b = mm->b_trans ? floats(mm->n, mm->k, mm->ldb) : floats(mm->k, mm->n, mm->ldb);
    d->a = numbers(a, first, state);
    d->b = numbers(b, first, state);
    d->bias = numbers(mm->n, first, state);
    d->count = floats(mm->m, mm->n, mm->ldc + e->more);
    d->first = first;
    for (int i = 0; i < SQUARE; i++)
        d->square[i] = numbers(d->count, first, state);
    for (int i = 0; i < OUTPUTS; i++) {
        d->expected[i] = numbers(d->count, first, state);
        d->got[i] = numbers(d->count, first, state);
    }
}

static void data_clear(struct data *d)
{
    fenced_free(d->a);
    fenced_free(d->b);
    fenced_free(d->bias);
    for (int i = 0; i < SQUARE; i++)
        fenced_free(d->square[i]);
    for (int i = 0; i < OUTPUTS; i++) {
        fenced_free(d->expected[i]);
        fenced_free(d->got[i]);
    }
}

/* Runs a product into out; the team's result. */
static bool run(matmul_function *matmul, int size, const struct np_matmul *mm,
                const struct ending *e, const struct data *d, float *const out[OUTPUTS])
{
    struct call call = {.matmul = matmul, .mm = *mm};
    struct np_epilogue *epilogue = &call.mm.epilogue;
    for (int i = 0; i < OUTPUTS; i++)
        memcpy(out[i], d->square[i], (d->count + 1) * sizeof(float));
    call.mm.a = d->a + d->first;
    call.mm.b = d->b + d->first;
    call.mm.c = out[C] + d->first;
    epilogue->bias = e->bias ? d->bias + d->first : NULL;
    epilogue->before = e->before ? d->square[BEFORE] + d->first : NULL;
    epilogue->kept = e->kept ? out[KEPT] + d->first : NULL;
    epilogue->residual = e->residual == NONE       ? NULL
                         : e->residual == IN_PLACE ? call.mm.c
                                                   : d->square[RESIDUAL] + d->first;
    epilogue->act = e->act;
    epilogue->ld = mm->ldc + e->more;
    team_run(size, np_kernels_scratch_bytes(0, 0), call_matmul, &call);
    return !call.infinite;
}

/* Every backend and team against the reference. */
static void compare_data(const struct np_matmul *mm, const struct ending *e, const struct data *d)
{
    struct backend list[BACKENDS];
    size_t count = backends(list), bytes = (d->count + 1) * sizeof(float);
    bool finite = run(np_kernels_get(NP_ISA_SCALAR)->matmul, 1, mm, e, d, d->expected);
    for (int size = 1; size <= 4; size++)
        for (size_t i = size == 1; i < count; i++) {
            if (!team_is_tried(size, (int)i))
                continue;
            bool same = run(list[i].matmul, size, mm, e, d, d->got) == finite;
            for (int o = 0; o < OUTPUTS && finite; o++)
                same = same && memcmp(d->got[o], d->expected[o], bytes) == 0;
            ck_assert_msg(same,
                          "%s, %d threads: %zu x %zu x %zu, grain %zu, trans %d %d, accumulate %d, "
                          "bias %d, before %d, residual %d, act %d, kept %d, finite %d",
                          list[i].name, size, mm->m, mm->n, mm->k, mm->grain, mm->a_trans,
                          mm->b_trans, mm->accumulate, e->bias, e->before, e->residual, e->act,
                          e->kept, finite);
        }
}

static void compare(struct np_matmul mm, struct ending e, uint64_t seed)
{
    struct data d;
    data_init(&d, &mm, &e, 1, &seed);
    compare_data(&mm, &e, &d);
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

static const struct ending plain = {0};
static const size_t sizes[] = {1,  2,  5,  7,  8,  9,  13, 15, 16,  17,  24, 25,
                               29, 31, 32, 33, 43, 58, 64, 97, 116, 171, 193};
static const size_t inner[] = {1, 3, 7, 8, 31, 64, 255, 256, 257, 300, 523, 771};
static const size_t grains[] = {0, 1, 7, 100, 256, 300};

START_TEST(awkward_shapes)
{
    uint64_t state = 42 + (uint64_t)_i;
    for (int i = 0; i < (tests_are_full() ? 12 : 4); i++) {
        struct np_matmul mm = shape(sizes[number_next(&state) % COUNT(sizes)],
                                    sizes[number_next(&state) % COUNT(sizes)],
                                    inner[number_next(&state) % COUNT(inner)], (unsigned)_i);
        mm.grain = grains[number_next(&state) % COUNT(grains)];
        compare(mm, plain, state);
    }
}
END_TEST

START_TEST(every_grain)
{
    for (unsigned variant = 0; variant < 8; variant += 5) {
        struct np_matmul mm = shape(15, 33, 613, variant);
        mm.grain = grains[_i];
        compare(mm, plain, 7);
    }
}
END_TEST

/* Rows that begin at multiples of vectors are loaded by them, wherever chunks begin: each variant
 * with half of the grains, in a short run with one. */
START_TEST(aligned_rows)
{
    struct ending e = {.bias = true, .residual = APART, .act = NP_ACT_RELU};
    for (size_t i = 0; i < COUNT(grains); i++)
        for (size_t n = 29; n <= 64; n += 35) {
            if (tests_are_full() ? (i + (size_t)_i / 2) % 2 : i != (size_t)_i % COUNT(grains))
                continue;
            struct np_matmul mm = shape(131, n, 613, (unsigned)_i);
            uint64_t state = 8;
            struct data d;
            mm.lda = (mm.lda + 3) / 4 * 4;
            mm.ldb = (mm.ldb + 3) / 4 * 4;
            mm.grain = grains[i];
            data_init(&d, &mm, &e, 0, &state);
            compare_data(&mm, mm.accumulate ? &plain : &e, &d);
            data_clear(&d);
        }
}
END_TEST

/* Every activation, forward and back, with and without everything else. */
START_TEST(epilogues)
{
    uint64_t state = 77 + (uint64_t)_i;
    for (unsigned bits = 0; bits < 8; bits++)
        for (int residual = NONE; residual <= IN_PLACE; residual++) {
            struct ending e = {bits & 1, bits & 2, bits & 4, residual, (enum np_act)_i, 0};
            if (!tests_are_full() && (bits + (unsigned)residual + (unsigned)_i) % 2 == 0)
                continue;
            struct np_matmul mm =
                shape(sizes[number_next(&state) % COUNT(sizes)],
                      sizes[number_next(&state) % COUNT(sizes)],
                      inner[number_next(&state) % COUNT(inner)], (unsigned)number_next(&state) % 4);
            mm.grain = grains[number_next(&state) % COUNT(grains)];
            compare(mm, e, state);
        }
}
END_TEST

/* Rows of C without a gap beside rows with one; at last more columns than are finished together. */
START_TEST(rows_apart)
{
    static const size_t widths[] = {16, 32, 64, 500};
    for (unsigned bits = 0; bits < 8; bits++) {
        struct ending e = {bits & 1, bits & 2, bits & 4, bits & 1 ? APART : NONE, NP_ACT_RELU, 3};
        struct np_matmul mm = shape(41, widths[_i], 24, 0);
        mm.ldc = mm.n;
        compare(mm, e, bits);
    }
}
END_TEST

/* A residual that nothing follows is added within the tiles, each height by itself. */
START_TEST(residuals)
{
    static const size_t widths[] = {8, 13, 24, 31, 57};
    for (size_t n = tests_are_full() ? 0 : (size_t)_i % 2; n < COUNT(widths);
         n += tests_are_full() ? 1 : 2)
        for (unsigned variant = 0; variant < 4; variant++)
            for (int residual = APART; residual <= IN_PLACE; residual++)
                compare(shape((size_t)_i, widths[n], 40, variant),
                        (struct ending){.residual = residual}, n);
}
END_TEST

/* More than one block of rows, columns and inner indices. */
START_TEST(large)
{
    struct ending e = {.residual = _i % 3 ? IN_PLACE : NONE, .act = NP_ACT_RELU};
    if (!tests_are_full() && _i > 0)
        return;
    compare(shape(397, 1061, 300, (unsigned)_i), e, 5);
    compare(shape(57, 40, 27000, (unsigned)_i), e, 5); /* B does not fit the scratch */
}
END_TEST

/* So many rows that a team deals them out. */
START_TEST(many_rows)
{
    struct ending e = {.residual = _i & 1 ? IN_PLACE : NONE, .act = NP_ACT_RELU};
    compare(shape(1100, 40, 40, (unsigned)_i & 2), e, 7);
}
END_TEST

/* A small gradient of weights with more chunks than a team keeps before it adds them up. */
START_TEST(waves_of_chunks)
{
    struct np_matmul mm = shape(120, 130, 19 * 64, _i == 0 ? 1 : 5);
    mm.grain = 64;
    compare(mm, plain, 9);
}
END_TEST

/* A gradient of weights that is wide: B is copied sliver by sliver. */
START_TEST(copied_slivers)
{
    static const size_t dims[][3] = {
        {50, 256, 300}, {50, 287, 300}, {50, 415, 300}, {330, 600, 30}};
    struct ending e = {.residual = _i & 1 ? IN_PLACE : NONE, .act = _i & 2 ? NP_ACT_RELU : 0};
    struct np_matmul mm = shape(dims[_i][0], dims[_i][1], dims[_i][2], 1);
    mm.grain = 100;
    compare(mm, e, 7);
}
END_TEST

/* Rows that fall on each other in the first cache are copied. */
START_TEST(aliasing_rows)
{
    struct np_matmul mm = shape(350, 70, 300, (unsigned)_i);
    mm.lda = 1024;
    compare(mm, plain, 6);
}
END_TEST

/* Inner indices that are far apart are copied, whose columns are all needed or some. */
START_TEST(far_inner_indices)
{
    struct np_matmul mm = shape(_i & 1 ? 400 : 50, 150, 300, _i & 2 ? 1 : 5);
    mm.lda = 2048;
    mm.grain = 100;
    compare(mm, plain, 6);
}
END_TEST

START_TEST(nothing_to_do)
{
    struct ending e = {.bias = true, .act = NP_ACT_SIGMOID};
    compare(shape(0, 5, 5, 0), plain, 1);
    compare(shape(5, 0, 5, 0), plain, 1);
    compare(shape(5, 37, 0, 0), plain, 1);
    compare(shape(5, 37, 0, 4), plain, 1);
    compare(shape(5, 37, 0, 0), e, 1);
}
END_TEST

/* A sum whose products all underflow to -0 stays -0, as does what is accumulated onto. */
START_TEST(signed_zeros)
{
    struct np_matmul mm = shape(17, 37, 260, (unsigned)_i);
    uint64_t state = 2;
    struct data d;
    data_init(&d, &mm, &plain, 1, &state);
    for (size_t i = 0; i < floats(mm.a_trans ? mm.k : mm.m, mm.a_trans ? mm.m : mm.k, mm.lda); i++)
        d.a[1 + i] = 0x1p-100f;
    for (size_t i = 0; i < floats(mm.b_trans ? mm.n : mm.k, mm.b_trans ? mm.k : mm.n, mm.ldb); i++)
        d.b[1 + i] = -0x1p-100f;
    for (size_t i = 0; i < d.count; i++)
        d.square[C][1 + i] = -0.0f;
    compare_data(&mm, &plain, &d);
    ck_assert_uint_eq(np_float_bits(d.got[C][1]), 0x80000000u);
    data_clear(&d);
}
END_TEST

/* One value too large, anywhere, and the team knows; also if the activation hides it, and where it
 * shares the product by chunks or sums are short. */
START_TEST(not_finite)
{
    static const size_t shapes[][2] = {{45, 270}, {45, 1300}, {75, 270}, {75, 1300}, {13, 100}};
    for (int i = 0; i < 6 * (int)COUNT(shapes); i += tests_are_full() ? 1 : 7) {
        struct ending e = {.act = i % 3 == 0   ? NP_ACT_NONE
                                  : i % 3 == 1 ? NP_ACT_RELU
                                               : NP_ACT_SIGMOID};
        struct np_matmul mm = shape(31, shapes[i / 6][0], shapes[i / 6][1], (unsigned)_i % 4);
        uint64_t state = (uint64_t)(10 * _i + i);
        struct data d;
        data_init(&d, &mm, &plain, 1, &state);
        size_t r = number_next(&state) % mm.m, p = number_next(&state) % mm.k;
        d.a[1 + (mm.a_trans ? p * mm.lda + r : r * mm.lda + p)] = i & 1 ? -INFINITY : 3e38f;
        for (size_t j = 0; j < mm.n; j++)
            d.b[1 + (mm.b_trans ? j * mm.ldb + p : p * mm.ldb + j)] = 20;
        ck_assert(!run(np_kernels_get(NP_ISA_SCALAR)->matmul, 1, &mm, &e, &d, d.expected));
        compare_data(&mm, &e, &d);
        data_clear(&d);
    }
}
END_TEST

/* The same if it comes with what is added to a sum. */
START_TEST(not_finite_residual)
{
    struct ending e = {.residual = APART, .act = _i & 1 ? NP_ACT_RELU : NP_ACT_NONE};
    struct np_matmul mm = shape(31, _i & 2 ? 45 : 75, 40, 0);
    uint64_t state = (uint64_t)_i;
    struct data d;
    data_init(&d, &mm, &plain, 1, &state);
    d.square[RESIDUAL][1 + number_next(&state) % mm.m * mm.ldc + number_next(&state) % mm.n] =
        -INFINITY;
    ck_assert(!run(np_kernels_get(NP_ISA_SCALAR)->matmul, 1, &mm, &e, &d, d.expected));
    compare_data(&mm, &e, &d);
    data_clear(&d);
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
    data_init(&d, &mm, &plain, 1, &state);
    mm.a = d.a + 1;
    mm.b = d.b + 1;
    run(np_kernels_get(NP_ISA_SCALAR)->matmul, 1, &mm, &plain, &d, d.got);
    for (size_t i = 0; i < mm.m; i++)
        for (size_t j = 0; j < mm.n; j++) {
            double sum = mm.accumulate ? d.square[C][1 + i * mm.ldc + j] : 0, size = fabs(sum);
            for (size_t p = 0; p < mm.k; p++) {
                double term = (double)mm.a[mm.a_trans ? p * mm.lda + i : i * mm.lda + p] *
                              mm.b[mm.b_trans ? j * mm.ldb + p : p * mm.ldb + j];
                sum += term;
                size += fabs(term);
            }
            double bound = 1.01 * (777 + 8 + 1) * (FLT_EPSILON / 2) * size;
            ck_assert_double_le(fabs(sum - d.got[C][1 + i * mm.ldc + j]), bound);
        }
    data_clear(&d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matmul");
    TCase *tests = suite_case(suite, "matmul");
    tcase_add_loop_test(tests, awkward_shapes, 0, 16);
    tcase_add_loop_test(tests, every_grain, 0, COUNT(grains));
    tcase_add_loop_test(tests, aligned_rows, 0, 8);
    tcase_add_loop_test(tests, rows_apart, 0, 4);
    tcase_add_loop_test(tests, epilogues, NP_ACT_NONE, NP_ACT_HSIGMOID + 1);
    tcase_add_loop_test(tests, residuals, 1, 16);
    tcase_add_loop_test(tests, large, 0, 4);
    tcase_add_loop_test(tests, many_rows, 0, 4);
    tcase_add_loop_test(tests, waves_of_chunks, 0, 2);
    tcase_add_loop_test(tests, copied_slivers, 0, 4);
    tcase_add_loop_test(tests, aliasing_rows, 0, 4);
    tcase_add_loop_test(tests, far_inner_indices, 0, 4);
    tcase_add_test(tests, nothing_to_do);
    tcase_add_loop_test(tests, signed_zeros, 0, 8);
    tcase_add_loop_test(tests, not_finite, 0, 4);
    tcase_add_loop_test(tests, not_finite_residual, 0, 4);
    tcase_add_loop_test(tests, near_double, 0, 8);
    return suite_run(suite);
}
