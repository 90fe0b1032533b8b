/* Elementary functions against double libm, and their bits across instruction sets.
 *
 * By default each function is checked on every STRIDE-th bit pattern, or FEW-th (NP_TEST_FULL), and
 * around the borders of its pieces, and the results' digest against the recorded one, which every
 * machine must reproduce.
 * NP_TEST_EXHAUSTIVE="np_expf np_logf" checks the functions named there ("all": every one) on all
 * 2^32 inputs and prints their largest errors; that takes minutes each.
 */
#include "num/elementary.h"

#include <check.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "suite.h"
#include "team_run.h"

#define BLOCK 4096
#define STRIDE 1021 /* prime, as FEW: every exponent, all kinds of mantissas */
#define FEW 8171
#define NEIGHBOURS 2048 /* bit patterns on either side of a border */
#define SQRT1_2 0.70710678118654752440
#define TWO_PI 6.28318530717958647693

typedef void loop(float *restrict y, const float *restrict x, size_t count);

/* One loop for each instruction set, all compiled from the same text. */
#define LOOP(function, isa, target)                                                                \
    target static void function##_##isa(float *restrict y, const float *restrict x, size_t count)  \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            y[i] = function(x[i]);                                                                 \
    }
#if defined(__x86_64__)
#define ISA_COUNT 3
#define LOOPS(function)                                                                            \
    LOOP(function, plain, )                                                                        \
    LOOP(function, avx2, __attribute__((target("avx2,fma"))))                                      \
    LOOP(function, avx512, __attribute__((target("avx512f,fma"))))
#define LOOP_NAMES(function)                                                                       \
    {                                                                                              \
        function##_plain, function##_avx2, function##_avx512                                       \
    }
#else
#define ISA_COUNT 1
#define LOOPS(function) LOOP(function, plain, )
#define LOOP_NAMES(function)                                                                       \
    {                                                                                              \
        function##_plain                                                                           \
    }
#endif

LOOPS(np_expf)
LOOPS(np_logf)
LOOPS(np_tanhf)
LOOPS(np_sigmoidf)
LOOPS(np_erff)
LOOPS(np_geluf)
LOOPS(np_gelu_gradf)
LOOPS(np_reluf)
LOOPS(np_relu_gradf)
LOOPS(np_relu6f)
LOOPS(np_relu6_gradf)
LOOPS(np_sigmoid_gradf)
LOOPS(np_hsigmoidf)
LOOPS(np_hsigmoid_gradf)
LOOPS(np_hswishf)
LOOPS(np_hswish_gradf)
LOOPS(np_swishf)
LOOPS(np_swish_gradf)
LOOPS(np_cos2pif)
LOOPS(np_sin2pif)
LOOPS(np_flushf)

static double exact_sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double exact_gelu(double x)
{
    return x == -INFINITY ? 0 : x * (0.5 * erfc(-x * SQRT1_2));
}

static double exact_gelu_grad(double x)
{
    double slope = isinf(x) ? 0 : x * exp(-0.5 * x * x) / sqrt(TWO_PI);
    return 0.5 * erfc(-x * SQRT1_2) + slope;
}

static double exact_relu(double x)
{
    return x > 0 ? x : 0;
}

static double exact_relu_grad(double x)
{
    return x > 0 ? 1 : 0;
}

static double exact_swish(double x)
{
    return x * exact_sigmoid(x);
}

static double exact_swish_grad(double x)
{
    return exact_sigmoid(x) * (1 + x * exact_sigmoid(-x));
}

static double exact_relu6(double x)
{
    return x > 0 ? fmin(x, 6) : 0;
}

static double exact_relu6_grad(double x)
{
    return x > 0 && x < 6;
}

static double exact_sigmoid_grad(double x)
{
    return exact_sigmoid(x) * exact_sigmoid(-x);
}

static double exact_hsigmoid(double x)
{
    return exact_relu6(x + 3) / 6;
}

static double exact_hsigmoid_grad(double x)
{
    return x > -3 && x < 3 ? 1.0 / 6 : 0;
}

static double exact_hswish(double x)
{
    return isinf(x) && x < 0 ? NAN : x * exact_hsigmoid(x);
}

static double exact_hswish_grad(double x)
{
    return x > -3 ? (x < 3 ? x / 3 + 0.5 : 1) : 0;
}

static double exact_cos2pi(double u)
{
    double quarters = rint(4 * u), angle = TWO_PI * (u - quarters / 4);
    double parts[4] = {cos(angle), -sin(angle), -cos(angle), sin(angle)};
    return parts[(int)quarters & 3];
}

static double exact_sin2pi(double u)
{
    double quarters = rint(4 * u), angle = TWO_PI * (u - quarters / 4);
    double parts[4] = {sin(angle), cos(angle), -sin(angle), -cos(angle)};
    return parts[(int)quarters & 3];
}

static double exact_flush(double x)
{
    return fabs(x) < 0x1p-100 ? 0 : x;
}

#define ALL_BITS 0x100000000u
#define UNIT_BITS 0x3f800000u /* the bit patterns of [0,1) */
#define NORMAL (1.02 * FLT_MIN)

static const struct function {
    const char *name;
    loop *loops[ISA_COUNT];
    double (*exact)(double);
    double max_ulp, max_absolute; /* either bound may be met */
    double least;                 /* smaller results may also be flushed to zero */
    uint64_t inputs;              /* bit patterns from 0 */
    uint64_t digest, few;         /* of every STRIDE-th, of every FEW-th */
} functions[] = {
    {"np_expf", LOOP_NAMES(np_expf), exp, 1, 0, NORMAL, ALL_BITS, 0xa5c796cb1f0c94d1,
     0x125535ea33c210fb},
    {"np_logf", LOOP_NAMES(np_logf), log, 1, 0, 0, ALL_BITS, 0xdf3873b462ceb9b4,
     0xb93eb862c555c059},
    {"np_tanhf", LOOP_NAMES(np_tanhf), tanh, 2, 0, 0, ALL_BITS, 0xe68212d4836f7eaa,
     0x350e61c417235821},
    {"np_sigmoidf", LOOP_NAMES(np_sigmoidf), exact_sigmoid, 4, 0, NORMAL, ALL_BITS,
     0x2d3833272bb9e288, 0xd1b5254712a402b7},
    {"np_erff", LOOP_NAMES(np_erff), erf, 1, 0, 0, ALL_BITS, 0xed4324808ff62699,
     0x1196a704819eea29},
    {"np_geluf", LOOP_NAMES(np_geluf), exact_gelu, 4, 0, NORMAL, ALL_BITS, 0xebe134a96686c2ba,
     0x5edb13e231b2c056},
    {"np_gelu_gradf", LOOP_NAMES(np_gelu_gradf), exact_gelu_grad, 5, 0x1p-23, 16 * NORMAL, ALL_BITS,
     0x35864284392636f7, 0x577239472eb5bd24},
    {"np_reluf", LOOP_NAMES(np_reluf), exact_relu, 0, 0, 0, ALL_BITS, 0x7baada56c78bc820,
     0xda731c27c1b2055f},
    {"np_relu_gradf", LOOP_NAMES(np_relu_gradf), exact_relu_grad, 0, 0, 0, ALL_BITS,
     0x4aac724f4000000, 0x736760fa88000000},
    {"np_swishf", LOOP_NAMES(np_swishf), exact_swish, 4, 0, 90 * NORMAL, ALL_BITS,
     0x24cc07decfd5531, 0x883272475e1ee2f7},
    {"np_swish_gradf", LOOP_NAMES(np_swish_gradf), exact_swish_grad, 5, 0x1p-25, 90 * NORMAL,
     ALL_BITS, 0xb63cf74e18e3a736, 0x86e6441429e8dba},
    {"np_relu6f", LOOP_NAMES(np_relu6f), exact_relu6, 0, 0, 0, ALL_BITS, 0x2e0f316c23022df,
     0x78f895fac2d2820},
    {"np_relu6_gradf", LOOP_NAMES(np_relu6_gradf), exact_relu6_grad, 0, 0, 0, ALL_BITS,
     0xcb011aa2cb000000, 0x47313bc7a9800000},
    {"np_sigmoid_gradf", LOOP_NAMES(np_sigmoid_gradf), exact_sigmoid_grad, 5, 0x1p-22, NORMAL,
     ALL_BITS, 0x377ff0757ed1d35e, 0x77bfa9f03854d603},
    {"np_hsigmoidf", LOOP_NAMES(np_hsigmoidf), exact_hsigmoid, 2.5, 0, 0, ALL_BITS,
     0x10fc3b1351af494c, 0xa970d984f0b3c702},
    {"np_hsigmoid_gradf", LOOP_NAMES(np_hsigmoid_gradf), exact_hsigmoid_grad, 0.5, 0, 0, ALL_BITS,
     0xc4cae9e117d47053, 0x9beb0364ad098261},
    {"np_hswishf", LOOP_NAMES(np_hswishf), exact_hswish, 3.5, 0, 0, ALL_BITS, 0x1c1f6f1c7f4fe909,
     0xad6c79c5d820b504},
    {"np_hswish_gradf", LOOP_NAMES(np_hswish_gradf), exact_hswish_grad, 1, 0x1p-23, 0, ALL_BITS,
     0xfe71531d6a1a4f8, 0xdb2799e21c7dcb88},
    {"np_cos2pif", LOOP_NAMES(np_cos2pif), exact_cos2pi, 2, 0, 0, UNIT_BITS, 0x83c50e08062f1f3d,
     0x213bc58258c44f14},
    {"np_sin2pif", LOOP_NAMES(np_sin2pif), exact_sin2pi, 2, 0, 0, UNIT_BITS, 0x3b3856c417c2f6c3,
     0x6ce617ad70f7fe61},
    {"np_flushf", LOOP_NAMES(np_flushf), exact_flush, 0, 0, 0, ALL_BITS, 0x73839fc6b5394d3c,
     0x9b152dd03a6ec5e8},
};
#define FUNCTION_COUNT (int)(sizeof(functions) / sizeof(functions[0]))

/* Where functions change their piece, their sign or their kind of result. */
static const float borders[] = {
    0.0f,   FLT_MIN,        0x1p-100f, 0.125f,  0.25f,  0.375f,     0.55f,
    0.625f, (float)SQRT1_2, 0.751791f, 0.875f,  1.0f,   1.278465f,  1.41421354f,
    3.0f,   3.93f,          6.0f,      13.146f, 87.33f, 88.722839f, FLT_MAX,
};
#define BORDER_COUNT (sizeof(borders) / sizeof(borders[0]))

struct tally {
    uint64_t digest;
    double ulp, ulp_at; /* largest error in ulp of those above max_absolute */
};

static bool isa_runs(int isa)
{
#if defined(__x86_64__)
    if (isa == 1)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == 2)
        return __builtin_cpu_supports("avx512f");
#endif
    return isa == 0;
}

/* The distance of floats at value; subnormals' for all that is smaller. */
static double ulp_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    bits &= 0x7ff0000000000000u;
    memcpy(&value, &bits, sizeof(value));
    return fmax(value * FLT_EPSILON, FLT_MIN * FLT_EPSILON);
}

/* NaN payloads and signs are the machine's, everything else is ours. */
static uint32_t portable_bits(float x)
{
    return x == x ? np_float_bits(x) : 0x7fc00000u;
}

/* Fails with where and how much; on success ck_assert would report to its parent on each value. */
static void check_value(const struct function *f, struct tally *tally, float x, float y)
{
    double exact = f->exact((double)x), error, ulps;

    if (isnan(exact)) {
        if (!isnan(y))
            ck_abort_msg("%s(%a) is %a, not NaN", f->name, (double)x, (double)y);
        return;
    }
    if (fabs(exact) >= 0x1.ffffffp+127 || exact == 0) { /* rounds to infinity; exact zero */
        if ((double)y != (exact == 0 ? 0 : copysign(INFINITY, exact)))
            ck_abort_msg("%s(%a) is %a", f->name, (double)x, (double)y);
        return;
    }
    if (y == 0 && fabs(exact) < f->least)
        return;
    error = fabs((double)y - exact);
    ulps = error / ulp_of(exact);
    if (ulps > tally->ulp && error > f->max_absolute) {
        tally->ulp = ulps;
        tally->ulp_at = (double)x;
    }
    if (!(ulps <= f->max_ulp || error <= f->max_absolute))
        ck_abort_msg("%s(%a) is %a, off by %.3f ulp, %.3g", f->name, (double)x, (double)y, ulps,
                     error);
}

static bool is_exhaustive(const struct function *f)
{
    const char *names = getenv("NP_TEST_EXHAUSTIVE");
    return names && (strstr(names, f->name) || strcmp(names, "all") == 0);
}

/* Checks the inputs with bit patterns first, first + stride, ... in every instruction set. How near
 * results are to exact ones, which takes longer, is for full tests: others have their digest. */
static void check_range(const struct function *f, struct tally *tally, uint64_t first,
                        uint64_t count, uint64_t stride)
{
    const bool near = tests_are_full() || is_exhaustive(f);
    float x[BLOCK], y[ISA_COUNT][BLOCK];

    for (uint64_t done = 0; done < count; done += BLOCK) {
        size_t n = count - done < BLOCK ? (size_t)(count - done) : BLOCK;
        for (size_t i = 0; i < n; i++)
            x[i] = np_bits_float((uint32_t)(first + (done + i) * stride));
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            if (isa_runs(isa))
                f->loops[isa](y[isa], x, n);
            else
                memcpy(y[isa], y[0], n * sizeof(float));
        }
        for (size_t i = 0; i < n; i++) {
            uint64_t bits = portable_bits(y[0][i]);
            for (int isa = 1; isa < ISA_COUNT; isa++)
                if (portable_bits(y[isa][i]) != bits)
                    ck_abort_msg("%s(%a) is %a and %a", f->name, (double)x[i], (double)y[0][i],
                                 (double)y[isa][i]);
            tally->digest = (tally->digest ^ bits) * 0x100000001b3u;
            if (near)
                check_value(f, tally, x[i], y[0][i]);
        }
    }
}

static void check_border(const struct function *f, struct tally *tally, float border)
{
    uint32_t bits = np_float_bits(border);
    uint64_t first = (bits & 0x7fffffffu) < NEIGHBOURS ? bits : bits - NEIGHBOURS;

    if (first + 2 * NEIGHBOURS <= f->inputs)
        check_range(f, tally, first, 2 * NEIGHBOURS, 1);
}

START_TEST(accuracy_and_bits)
{
    const struct function *f = &functions[_i];
    const uint64_t stride = tests_are_full() ? STRIDE : FEW;
    const uint64_t digest = tests_are_full() ? f->digest : f->few;
    struct tally tally = {0};

    if (is_exhaustive(f)) {
        check_range(f, &tally, 0, f->inputs, 1);
        printf("%s: %.4f ulp at %a\n", f->name, tally.ulp, tally.ulp_at);
        return;
    }
    check_range(f, &tally, 0, f->inputs / stride, stride);
    for (size_t b = 0; b < BORDER_COUNT; b++) {
        check_border(f, &tally, borders[b]);
        check_border(f, &tally, -borders[b]);
    }
    ck_assert_msg(tally.digest == digest, "%s: digest is %#llx", f->name,
                  (unsigned long long)tally.digest);
}
END_TEST

#define ck_assert_bits(value, expected)                                                            \
    ck_assert_uint_eq(np_float_bits(value), np_float_bits(expected))

START_TEST(special_values)
{
    float below = np_bits_float(np_float_bits(-87.33f) + 1);

    ck_assert_bits(np_expf(0.0f), 1.0f);
    ck_assert_bits(np_expf(-0.0f), 1.0f);
    ck_assert_bits(np_expf(below), 0.0f);
    ck_assert_bits(np_expf(-INFINITY), 0.0f);
    ck_assert_bits(np_expf(INFINITY), INFINITY);
    ck_assert(np_expf(-87.33f) >= FLT_MIN);
    ck_assert(np_is_finite(np_expf(0x1.62e42ep+6f)) && !np_is_finite(np_expf(0x1.62e43p+6f)));
    ck_assert_bits(np_logf(1.0f), 0.0f);
    ck_assert_bits(np_logf(0.0f), -INFINITY);
    ck_assert_bits(np_logf(-0.0f), -INFINITY);
    ck_assert_bits(np_logf(INFINITY), INFINITY);
    ck_assert(isnan(np_logf(-FLT_TRUE_MIN)) && isnan(np_logf(-INFINITY)));
    ck_assert_bits(np_tanhf(-0.0f), -0.0f);
    ck_assert_bits(np_tanhf(-INFINITY), -1.0f);
    ck_assert_bits(np_erff(-0.0f), -0.0f);
    ck_assert_bits(np_erff(INFINITY), 1.0f);
    ck_assert_bits(np_sigmoidf(0.0f), 0.5f);
    ck_assert_bits(np_sigmoidf(-INFINITY), 0.0f);
    ck_assert_bits(np_sigmoidf(INFINITY), 1.0f);
    ck_assert_bits(np_geluf(0.0f), 0.0f);
    ck_assert_bits(np_geluf(-INFINITY), 0.0f);
    ck_assert_bits(np_geluf(INFINITY), INFINITY);
    ck_assert(-np_geluf(-13.146f) >= FLT_MIN);
    ck_assert_bits(np_gelu_gradf(0.0f), 0.5f);
    ck_assert_bits(np_gelu_gradf(-INFINITY), 0.0f);
    ck_assert_bits(np_gelu_gradf(INFINITY), 1.0f);
    ck_assert_bits(np_swish_gradf(0.0f), 0.5f);
}
END_TEST

START_TEST(choosing_and_flushing)
{
    ck_assert_bits(np_reluf(-0.0f), 0.0f);
    ck_assert_bits(np_reluf(NAN), 0.0f);
    ck_assert_bits(np_relu_gradf(0.0f), 0.0f);
    ck_assert_bits(np_relu_gradf(FLT_TRUE_MIN), 1.0f);
    ck_assert_bits(np_relu6f(-0.0f), 0.0f);
    ck_assert_bits(np_relu6_gradf(0.0f), 0.0f);
    ck_assert_bits(np_relu6_gradf(6.0f), 0.0f);
    ck_assert_bits(np_hsigmoidf(-3.0f), 0.0f);
    ck_assert_bits(np_hsigmoidf(3.0f), 1.0f);
    ck_assert_bits(np_hsigmoid_gradf(-3.0f), 0.0f);
    ck_assert_bits(np_hsigmoid_gradf(3.0f), 0.0f);
    ck_assert_bits(np_hswishf(-4.0f), -0.0f);
    ck_assert_bits(np_hswishf(4.0f), 4.0f);
    ck_assert_bits(np_hswish_gradf(-3.0f), 0.0f);
    ck_assert_bits(np_hswish_gradf(0.0f), 0.5f);
    ck_assert_bits(np_hswish_gradf(3.0f), 1.0f);
    ck_assert_bits(np_sigmoid_gradf(0.0f), 0.25f);
    ck_assert_bits(np_flushf(-0x1.fffffep-101f), 0.0f);
    ck_assert_bits(np_flushf(-0x1p-100f), -0x1p-100f);
    ck_assert(isnan(np_flushf(NAN)));
    ck_assert(np_is_finite(-FLT_MAX) && !np_is_finite(-INFINITY) && !np_is_finite(NAN));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("elementary");
    TCase *tests = suite_case(suite, "elementary");
    if (getenv("NP_TEST_EXHAUSTIVE"))
        tcase_set_timeout(tests, 0);
    tcase_add_loop_test(tests, accuracy_and_bits, 0, FUNCTION_COUNT);
    tcase_add_test(tests, special_values);
    tcase_add_test(tests, choosing_and_flushing);
    return suite_run(suite);
}
