#include <check.h>
#include <stdbool.h>
#include <string.h>

#include "data/shuffle.h"
#include "suite.h"

/* Every number comes once. */
START_TEST(test_permutes)
{
    enum { MOST = 70000 };
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 255, 256, 257, 1000, 65536, MOST};
    static bool seen[MOST];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            struct np_draw_key key = np_draw_key(11, NP_DRAW_ORDER, 0, 0, 0);
            memset(seen, 0, sizeof seen);
            for (uint64_t x = 0; x < counts[c]; x++) {
                uint64_t y = np_shuffle(key, epoch, x, counts[c]);
                ck_assert_uint_lt(y, counts[c]);
                ck_assert(!seen[y]);
                seen[y] = true;
            }
        }
}
END_TEST

/* Of few numbers every permutation comes about as often as the others: with 24 of them and 24000
 * epochs 1000 times, and 32 is one standard deviation. */
START_TEST(test_permutations_are_spread)
{
    enum { EPOCHS = 24000 };
    static int seen[256];
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        struct np_draw_key key = np_draw_key(3, NP_DRAW_ORDER, 0, 0, 0);
        unsigned code = 0;
        for (uint64_t x = 0; x < 4; x++)
            code = code << 2 | (unsigned)np_shuffle(key, epoch, x, 4);
        seen[code]++;
    }
    int kinds = 0;
    for (int code = 0; code < 256; code++)
        if (seen[code]) {
            kinds++;
            ck_assert_int_gt(seen[code], 840);
            ck_assert_int_lt(seen[code], 1160);
        }
    ck_assert_int_eq(kinds, 24);
}
END_TEST

/* Of many, where one goes says nothing about where its neighbour, or it in the next epoch, goes:
 * the sums of distances between two places are those of places drawn. */
START_TEST(test_neighbours_part)
{
    enum { COUNT = 50000 };
    struct np_draw_key key = np_draw_key(5, NP_DRAW_ORDER, 0, 0, 0);
    double beside = 0, again = 0;
    for (uint64_t x = 0; x + 1 < COUNT; x++) {
        double y = (double)np_shuffle(key, 0, x, COUNT);
        double next = (double)np_shuffle(key, 0, x + 1, COUNT);
        double later = (double)np_shuffle(key, 1, x, COUNT);
        beside += y > next ? y - next : next - y;
        again += y > later ? y - later : later - y;
    }
    /* Two drawn places are COUNT / 3 apart on average, within COUNT / sqrt(18) of it. */
    ck_assert_double_eq_tol(beside / COUNT / COUNT, 1.0 / 3, 0.005);
    ck_assert_double_eq_tol(again / COUNT / COUNT, 1.0 / 3, 0.005);
}
END_TEST

/* Another key or another epoch is another order; beyond 32 bits, too. */
START_TEST(test_addresses)
{
    const uint64_t count = (uint64_t)1 << 40;
    struct np_draw_key key = np_draw_key(5, NP_DRAW_ORDER, 0, 0, 0);
    struct np_draw_key other = np_draw_key(6, NP_DRAW_ORDER, 0, 0, 0);
    uint64_t y = np_shuffle(key, 1, 77, count);
    ck_assert_uint_lt(y, count);
    ck_assert_uint_ne(y, np_shuffle(other, 1, 77, count));
    ck_assert_uint_ne(y, np_shuffle(key, 2, 77, count));
    ck_assert_uint_ne(y, np_shuffle(key, 1 + ((uint64_t)1 << 32), 77, count));
    ck_assert_uint_lt(np_shuffle(key, 1, UINT64_MAX - 1, UINT64_MAX), UINT64_MAX);
}
END_TEST

/* What a program written after naspipe-numerics(7) gives. */
START_TEST(test_known_values)
{
    static const uint64_t known[] = {5, 6, 2, 0, 4, 1, 3, 9, 7, 8};
    const struct np_draw_key key = np_draw_key(7, NP_DRAW_ORDER, 0, 0, 0);
    for (uint64_t x = 0; x < 10; x++)
        ck_assert_uint_eq(np_shuffle(key, 1, x, 10), known[x]);
    ck_assert_uint_eq(np_shuffle(key, 5, 123456, 1000000), 945398);
    ck_assert_uint_eq(np_shuffle(key, (uint64_t)1 << 33, 1000000000000, ((uint64_t)1 << 41) + 1),
                      1670939651755);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shuffle");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_permutes);
    tcase_add_test(tests, test_permutations_are_spread);
    tcase_add_test(tests, test_neighbours_part);
    tcase_add_test(tests, test_addresses);
    tcase_add_test(tests, test_known_values);
    return suite_run(suite);
}
