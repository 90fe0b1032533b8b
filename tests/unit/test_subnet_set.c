/* Sets of subnets: each once, in the order in which they came. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "space/subnet_set.h"
#include "suite.h"

enum { BLOCKS = 5, SUBNETS = 2000, CANDIDATES = 3 };

/* Numbers in base 3, so that some come again; against all that came before. */
START_TEST(as_a_list)
{
    struct np_subnet_set set = {.blocks = BLOCKS};
    struct np_error err;
    size_t most = CANDIDATES * CANDIDATES * CANDIDATES * CANDIDATES * CANDIDATES;
    srand(7);
    for (int i = 0; i < SUBNETS; i++) {
        uint16_t choices[BLOCKS];
        size_t which, before = set.count, same = 0;
        for (int b = 0; b < BLOCKS; b++)
            choices[b] = (uint16_t)(rand() % CANDIDATES);
        while (same < before && memcmp(set.choices + same * BLOCKS, choices, sizeof choices) != 0)
            same++;
        ck_assert_int_eq(np_subnet_set_add(&set, &which, choices, &err), NP_OK);
        ck_assert_uint_eq(which, same);
        ck_assert_uint_eq(set.count, same == before ? before + 1 : before);
        ck_assert_mem_eq(set.choices + which * BLOCKS, choices, sizeof choices);
    }
    ck_assert_uint_le(set.count, most);
    ck_assert_uint_gt(set.count, most / 2);
    np_subnet_set_clear(&set);
    ck_assert_uint_eq(set.count, 0);
    ck_assert_uint_eq(set.blocks, BLOCKS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("subnet_set");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, as_a_list);
    return suite_run(suite);
}
