/* Products of fast numerics, by the shim's cuBLASLt: how far they are from exact ones, that nothing
 * but a product's own sizes and operands changes their bits, and what becomes of failures. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cublasLt.h"

extern "C" {
#include "cuda/cuda_lt.h"
#include "cuda/cuda_team.h"
#include "suite.h"
}

enum { M = 24, N = 10, K = 36, GRAIN = 6, MOST = 48 * 48 };

static struct products_of_test {
    struct np_products products;
    struct np_cuda_team team;
    uint32_t verdict;
    char *scratch;
} the;

/* Room for `extra` bytes beyond what a grain needs. */
static void begin(enum np_operand operand, size_t extra)
{
    static const struct np_numerics numerics[] = {
        {}, {"tf32", 80, NP_OPERAND_TF32}, {"bf16", 80, NP_OPERAND_BF16}};
    size_t bytes = np_cuda_fast_scratch_bytes(3 * MOST) + extra;
    cudaSetDevice(0);
    np_products_init(&the.products, &numerics[operand]);
    the.scratch = (char *)malloc(bytes);
    the.verdict = 0;
    the.team = {{0, 1, nullptr, the.scratch, bytes}, nullptr, &the.verdict, nullptr};
    ck_assert_int_eq(np_cuda_lt_new(&the.team.lt, &the.products, nullptr), NP_OK);
}

static void end(void)
{
    np_cuda_lt_free(the.team.lt);
    np_products_clear(&the.products);
    free(the.scratch);
}

static bool multiply(const struct np_matmul *mm)
{
    return np_kernels_cuda_fast.matmul(&the.team.team, mm);
}

static void fill(float *x, size_t count, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(state >> 33) * 0x1p-30F - 1;
    }
}

/* C = A B with operands where matmul's are, M x K and K x N. */
static struct np_matmul product(float *c, const float *a, const float *b, bool a_trans,
                                bool b_trans)
{
    struct np_matmul mm = {};
    mm.m = M;
    mm.n = N;
    mm.k = K;
    mm.a = a;
    mm.b = b;
    mm.c = c;
    mm.lda = a_trans ? M + 1 : K + 1;
    mm.ldb = b_trans ? K + 3 : N + 3;
    mm.ldc = N + 1;
    mm.a_trans = a_trans;
    mm.b_trans = b_trans;
    return mm;
}

/* The distance to the exact sum, in what the roundings may make of it: operands to p bits, each by
 * u = 2^-p of itself at most, and K rounded additions in any order: sum |a| |b| times
 * (1 + u)^2 (1 + 2^-24)^K - 1. */
static double distance(const struct np_matmul *mm, size_t i, size_t j, int p)
{
    double sum = 0, all = 0;
    for (size_t k = 0; k < mm->k; k++) {
        double a = mm->a[mm->a_trans ? k * mm->lda + i : i * mm->lda + k];
        double b = mm->b[mm->b_trans ? j * mm->ldb + k : k * mm->ldb + j];
        sum += a * b;
        all += fabs(a * b);
    }
    double bound = pow(1 + ldexp(1, -p), 2) * pow(1 + 0x1p-24, (double)mm->k) - 1;
    return fabs(mm->c[i * mm->ldc + j] - sum) / (all * bound);
}

/* And not a single-precision product: somewhere it is more than 16 times as far away as the
 * additions alone can bring it. */
START_TEST(products_are_as_near_as_their_operands)
{
    static float a[MOST], b[MOST], c[MOST];
    enum np_operand operand = _i / 4 ? NP_OPERAND_BF16 : NP_OPERAND_TF32;
    int p = operand == NP_OPERAND_TF32 ? 11 : 8;
    double most = 0;
    fill(a, MOST, 1);
    fill(b, MOST, 2);
    begin(operand, 0);
    struct np_matmul mm = product(c, a, b, _i & 1, _i & 2);
    ck_assert(multiply(&mm));
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            double far = distance(&mm, i, j, p);
            ck_assert_double_le(far, 1);
            most = far > most ? far : most;
        }
    ck_assert_double_ge(most, 16 * (double)K * 0x1p-24 / ldexp(1, 1 - p));
    ck_assert_uint_eq(the.products.count, 1);
    end();
}
END_TEST

static float nearest(float x, int bits)
{
    int exponent;
    float fraction = frexpf(x, &exponent);
    return ldexpf(nearbyintf(ldexpf(fraction, bits)), exponent - bits);
}

/* Times the unit matrix: ties, what is next to them, what carries into the exponent. */
START_TEST(operands_are_rounded_to_nearest_even)
{
    static float a[MOST], unit[MOST], c[MOST];
    int p = _i ? 8 : 11;
    begin(_i ? NP_OPERAND_BF16 : NP_OPERAND_TF32, 0);
    struct np_matmul mm = product(c, a, unit, false, false);
    mm.k = mm.n = mm.ldb = 36;
    mm.ldc = 36;
    fill(a, MOST, 3);
    for (int i = 0; i < 128; i++) {
        float tie = ldexpf((float)(256 + i) + 0.5f, p - 9 - 8);
        a[i] = ldexpf((float)((1 << (p - 1)) + i) + 0.5f, 1 - p) * (i % 2 ? -1 : 1);
        a[128 + i] = nextafterf(a[i], i % 3 ? 4 : 0);
        a[256 + i] = tie;
    }
    a[384] = 2 - 0x1p-23f;
    for (size_t i = 0; i < 36; i++)
        unit[i * 36 + i] = 1;
    ck_assert(multiply(&mm));
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < mm.n; j++)
            ck_assert_float_eq(c[i * mm.ldc + j], nearest(a[i * mm.lda + j], p));
    end();
}
END_TEST

/* However many rows there are at once, and room for. */
START_TEST(a_grain_has_its_bits_alone)
{
    static float a[MOST], b[MOST], all[MOST], some[MOST];
    size_t least = np_cuda_fast_scratch_bytes(0) + 20000;
    fill(a, MOST, 4);
    fill(b, MOST, 5);
    begin(_i ? NP_OPERAND_BF16 : NP_OPERAND_TF32, 1 << 20);
    struct np_matmul mm = product(all, a, b, false, false);
    mm.row_grain = GRAIN;
    ck_assert(multiply(&mm));
    the.team.team.scratch_bytes = least;
    mm.c = some;
    ck_assert(multiply(&mm));
    ck_assert_mem_eq(all, some, sizeof all);
    memset(some, 0, sizeof some);
    for (size_t i = 0; i < M; i += 2 * GRAIN) {
        mm.m = 2 * GRAIN;
        mm.a = a + i * mm.lda;
        mm.c = some + i * mm.ldc;
        ck_assert(multiply(&mm));
    }
    ck_assert_mem_eq(all, some, sizeof all);
    ck_assert_uint_eq(the.products.count, 1);
    mm.m = M; /* as one product it is another */
    mm.row_grain = 0;
    mm.a = a;
    mm.c = some;
    ck_assert(multiply(&mm));
    ck_assert_mem_ne(all, some, sizeof all);
    ck_assert_uint_eq(the.products.count, 2);
    end();
}
END_TEST

START_TEST(gradients_of_grains_are_added_in_order)
{
    static float a[MOST], b[MOST], all[MOST], some[MOST], one[MOST];
    fill(a, MOST, 6);
    fill(b, MOST, 7);
    begin(_i ? NP_OPERAND_BF16 : NP_OPERAND_TF32, 0);
    struct np_matmul mm = product(all, a, b, true, false);
    mm.grain = 12;
    ck_assert(multiply(&mm));
    mm.c = some;
    mm.k = 12;
    for (size_t k = 0; k < K; k += 12) {
        mm.accumulate = k > 0;
        mm.a = a + k * mm.lda;
        mm.b = b + k * mm.ldb;
        ck_assert(multiply(&mm));
    }
    ck_assert_mem_eq(all, some, sizeof all);
    memset(some, 0, sizeof some);
    mm.c = one;
    mm.accumulate = false;
    for (size_t k = 0; k < K; k += 12) {
        mm.a = a + k * mm.lda;
        mm.b = b + k * mm.ldb;
        ck_assert(multiply(&mm));
        for (size_t i = 0; i < MOST; i++)
            some[i] = k == 0 ? one[i] : some[i] + one[i];
    }
    ck_assert_mem_eq(all, some, sizeof all);
    ck_assert_uint_eq(the.products.count, 1);
    end();
}
END_TEST

START_TEST(the_epilogue_follows_and_may_lie_where_the_result_does)
{
    static float a[MOST], b[MOST], c[MOST], plain[MOST], bias[N], kept[MOST];
    fill(a, MOST, 8);
    fill(b, MOST, 9);
    fill(c, MOST, 10);
    fill(bias, N, 11);
    begin(NP_OPERAND_TF32, 0);
    struct np_matmul mm = product(plain, a, b, false, true);
    mm.row_grain = GRAIN;
    ck_assert(multiply(&mm));
    static float expected[MOST];
    memcpy(expected, c, sizeof c);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++)
            expected[i * mm.ldc + j] = c[i * mm.ldc + j] + (plain[i * mm.ldc + j] + bias[j]);
    mm.c = c;
    mm.epilogue = {bias, nullptr, c, NP_ACT_RELU, kept, mm.ldc};
    ck_assert(multiply(&mm));
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            size_t at = i * mm.ldc + j;
            ck_assert_float_eq(kept[at], expected[at]);
            ck_assert_float_eq(c[at], expected[at] > 0 ? expected[at] : 0);
        }
    ck_assert_uint_eq(the.verdict, 0);
    end();
}
END_TEST

/* Rounding never makes a number of what is none. */
START_TEST(what_is_not_finite_is_seen)
{
    static float a[MOST], b[MOST], c[MOST];
    uint32_t bits[] = {0x7fffffff, 0x7f800001, 0x7f800000, 0xffffffff, 0x7f7fffff};
    fill(a, MOST, 12);
    fill(b, MOST, 13);
    begin(_i >= 5 ? NP_OPERAND_BF16 : NP_OPERAND_TF32, 0);
    struct np_matmul mm = product(c, a, b, false, false);
    memcpy(&a[7], &bits[_i % 5], sizeof a[7]);
    multiply(&mm);
    ck_assert_uint_eq(the.verdict, 1);
    end();
}
END_TEST

static enum np_status refuse(const void *, const struct np_products *, struct np_error *err)
{
    return np_fail(err, NP_EIO, "cannot keep it");
}

/* The first failure stays, and nothing is computed after it. */
START_TEST(failures_are_kept)
{
    static float a[MOST], b[MOST], c[MOST];
    begin(NP_OPERAND_TF32, 0);
    struct np_matmul mm = product(c, a, b, false, false);
    the.products.keep = refuse;
    multiply(&mm);
    ck_assert_str_eq(the.team.lt->failure.msg, "cannot keep it");
    the.products.keep = nullptr;
    mm.n = 3;
    multiply(&mm);
    ck_assert_str_eq(the.team.lt->failure.msg, "cannot keep it");
    ck_assert_uint_eq(the.products.count, 1);
    end();
}
END_TEST

/* The advice that the library gives later is not asked for. */
START_TEST(an_algorithm_stays)
{
    static float a[MOST], b[MOST], first[MOST], c[MOST];
    fill(a, MOST, 14);
    fill(b, MOST, 15);
    begin(NP_OPERAND_TF32, 0);
    struct np_matmul mm = product(first, a, b, false, false);
    ck_assert(multiply(&mm));
    setenv("SHIM_LT_ADVICE", "1", 1);
    mm.c = c;
    ck_assert(multiply(&mm));
    ck_assert_mem_eq(first, c, sizeof c);
    end();
    begin(NP_OPERAND_TF32, 0);
    ck_assert(multiply(&mm));
    ck_assert_mem_ne(first, c, sizeof c);
    end();
}
END_TEST

/* Another product's algorithm is refused, as the library refuses it. */
START_TEST(an_algorithm_of_another_product_fails)
{
    static float a[MOST], b[MOST], c[MOST];
    struct np_product_choice wrong = {{M, N, K, false, false}, {}};
    bool added;
    begin(NP_OPERAND_TF32, 0);
    ck_assert_int_eq(np_products_add(&the.products, &wrong, &added, nullptr), NP_OK);
    struct np_matmul mm = product(c, a, b, false, false);
    multiply(&mm);
    ck_assert_str_eq(the.team.lt->failure.msg,
                     "cuBLASLt cannot compute a product of 24 x 10, 36 deep: invalid value");
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("products");
    TCase *tests = suite_case(suite, "products");
    tcase_add_loop_test(tests, products_are_as_near_as_their_operands, 0, 8);
    tcase_add_loop_test(tests, operands_are_rounded_to_nearest_even, 0, 2);
    tcase_add_loop_test(tests, a_grain_has_its_bits_alone, 0, 2);
    tcase_add_loop_test(tests, gradients_of_grains_are_added_in_order, 0, 2);
    tcase_add_test(tests, the_epilogue_follows_and_may_lie_where_the_result_does);
    tcase_add_loop_test(tests, what_is_not_finite_is_seen, 0, 10);
    tcase_add_test(tests, failures_are_kept);
    tcase_add_test(tests, an_algorithm_stays);
    tcase_add_test(tests, an_algorithm_of_another_product_fails);
    return suite_run_apart(suite);
}
