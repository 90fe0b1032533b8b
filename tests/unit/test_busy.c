/* What a GPU's intervals cover of a window, by hand and against counting every nanosecond. */
#include <check.h>
#include <string.h>

#include "../gpu/busy.h"
#include "suite.h"

START_TEST(by_hand)
{
    struct busy list[] = {{40, 50, NULL}, {10, 20, NULL}, {15, 30, NULL},
                          {16, 18, NULL}, {30, 31, NULL}, {90, 90, NULL}};
    struct busy all = {0, 100, NULL}, middle = {12, 45, NULL}, after = {60, 80, NULL};
    busy_sort(list, 6);
    ck_assert_uint_eq(busy_covers(list, 6, all), 31);
    ck_assert_uint_eq(busy_covers(list, 6, middle), 24);
    ck_assert_uint_eq(busy_covers(list, 6, after), 0);
    ck_assert_uint_eq(busy_covers(list, 0, all), 0);
}
END_TEST

START_TEST(by_counting)
{
    enum { COUNT = 12, SPAN = 200 };
    uint64_t state = 7 + (uint64_t)_i;
    struct busy list[COUNT], window = {40, 160, NULL};
    char at_work[2 * SPAN] = {0};
    uint64_t counted = 0;
    for (int i = 0; i < COUNT; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        list[i].begin = (state >> 33) % SPAN;
        list[i].end = list[i].begin + (state >> 50) % 30;
        memset(at_work + list[i].begin, 1, list[i].end - list[i].begin);
    }
    for (uint64_t t = window.begin; t < window.end; t++)
        counted += (uint64_t)at_work[t];
    busy_sort(list, COUNT);
    ck_assert_uint_eq(busy_covers(list, COUNT, window), counted);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("busy");
    TCase *tests = suite_case(suite, "busy");
    tcase_add_test(tests, by_hand);
    tcase_add_loop_test(tests, by_counting, 0, 50);
    return suite_run(suite);
}
