/* Division by a multiplication is division, for all numbers below 2^31 that are near a multiple. */
#include <check.h>

#include "cuda/windows.cuh"

extern "C" {
#include "suite.h"
}

static const int large[] = {1 << 8,        (1 << 8) + 1,  641,           999,
                            1 << 15,       (1 << 15) - 1, 65537,         1000003,
                            (1 << 24) + 1, (1 << 30) - 1, (1 << 30) + 1, 2147483647};

static void check_divisor(int by)
{
    const struct divisor d = divisor_of(by);
    int64_t top = INT32_MAX, multiples = top / by, step = multiples / 1000 + 1;
    for (int64_t m = 0; m <= multiples; m += step)
        for (int64_t n = m * by - 1; n <= m * by + 1; n++)
            if (n >= 0 && n <= top) {
                ck_assert_int_eq((int)n / d, (int)n / by);
                ck_assert_int_eq((int)n % d, (int)n % by);
            }
    ck_assert_int_eq((int)top / d, (int)top / by);
}

START_TEST(quotients_are_whole)
{
    for (int by = 1; by < 300; by++)
        check_divisor(by);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        check_divisor(large[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("divisor");
    TCase *tests = suite_case(suite, "divisor");
    tcase_add_test(tests, quotients_are_whole);
    return suite_run_apart(suite);
}
