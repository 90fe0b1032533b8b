/* Children of subnets: whose choices they have, and that they are subnets. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "io/digest.h"
#include "space/breed.h"
#include "stream_shape.h"
#include "suite.h"

/* Blocks 0 and 1 have one width and a candidate each; 2 and 3 are tied; of 4 .. 7 with three depths
 * two may be passed over, by candidate 2; 8 stands alone. */
enum { BLOCKS = 9, CHILDREN = 8000 };

static struct np_stream_shape shape_of(struct np_stream_block *each)
{
    static const int counts[BLOCKS] = {6, 9, 4, 4, 2, 2, 3, 3, 5};
    struct np_stream_shape shape = stream_shape(each, BLOCKS, 1, counts);
    each[0].widths = each[1].widths = 3;
    each[1].width_drawn = 0;
    each[3].drawn = 2;
    for (int b = 6; b < 8; b++) {
        each[b].level = b - 5;
        each[b].depths = 3;
        each[b].depth_drawn = 4;
    }
    return shape;
}

static void assert_subnet(const struct np_stream_shape *shape, const uint16_t *choices)
{
    uint16_t again[BLOCKS];
    struct np_error err = {.msg = ""};
    for (int b = 0; b < BLOCKS; b++)
        ck_assert_msg(np_stream_choose(again, shape, b, choices[b], &err) == NP_OK, "%s", err.msg);
    ck_assert_uint_eq(choices[2], choices[3]);
}

/* Five deviations of a share of the children. */
static void assert_share(int count, double share)
{
    double wanted = CHILDREN * share, spread = 25 * wanted * (1 - share);
    ck_assert_msg((count - wanted) * (count - wanted) < spread + 1, "%d, not %g", count, wanted);
}

START_TEST(without_parents)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = shape_of(each);
    const struct np_breed breed = {.shape = &shape, .seed = 7};
    int seen[BLOCKS][9] = {{0}}, depths[3] = {0};
    for (uint32_t i = 0; i < CHILDREN; i++) {
        uint16_t choices[BLOCKS];
        np_breed_child(choices, &breed, i);
        assert_subnet(&shape, choices);
        for (int b = 0; b < BLOCKS; b++)
            seen[b][choices[b]]++;
        depths[(choices[6] < 2) + (choices[7] < 2)]++;
    }
    for (int c = 0; c < 9; c++) {
        assert_share(seen[1][c], 1.0 / 9);
        if (c < 6)
            assert_share(seen[0][c], 1.0 / 6);
        if (c < 5)
            assert_share(seen[8][c], 0.2);
        if (c < 3)
            assert_share(depths[c], 1.0 / 3);
    }
    assert_share(seen[7][0], 1.0 / 6);
}
END_TEST

static const uint16_t parents[2][BLOCKS] = {{0, 1, 1, 1, 0, 1, 0, 2, 3},
                                            {5, 7, 3, 3, 1, 0, 1, 1, 4}};

/* Each choice is one of the parents', as often; of the mutants all are one's. */
START_TEST(mixtures)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = shape_of(each);
    const struct np_breed breed = {.shape = &shape, .parents = parents[0], .count = 2, .seed = 7};
    int first[BLOCKS] = {0}, whole = 0, apart = 0;
    for (uint32_t i = 0; i < CHILDREN; i++) {
        uint16_t choices[BLOCKS];
        np_breed_child(choices, &breed, i);
        assert_subnet(&shape, choices);
        for (int b = 0; b < BLOCKS; b++)
            first[b] += choices[b] == parents[0][b];
        ck_assert(choices[7] == 1 || choices[7] == 2); /* what one passes over the other has */
        whole += memcmp(choices, parents[0], sizeof choices) == 0;
        apart += choices[8] == 3 && choices[4] == 1;
    }
    assert_share(first[4], 0.5);
    assert_share(first[7], 0.5);
    assert_share(first[8], 0.5);
    assert_share(first[0], 0.25 + 0.125 + 0.25 * 0.25);
    assert_share(whole, 0.25 + 0.125 + 0.25 / 512); /* genes: 7 candidates, a width, a depth */
    assert_share(apart, 0.25 * 0.25);
}
END_TEST

/* Every gene anew as often as is asked for, or none, or all. */
START_TEST(mutants)
{
    static const double rates[] = {0, 0.25, 1};
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = shape_of(each);
    for (int r = 0; r < 3; r++) {
        const struct np_breed breed = {.shape = &shape,
                                       .parents = parents[1],
                                       .count = 1,
                                       .mutation = rates[r],
                                       .seed = 7,
                                       .round = 30};
        int kept = 0, tied = 0, deep = 0;
        for (uint32_t i = 0; i < CHILDREN; i++) {
            uint16_t choices[BLOCKS];
            np_breed_child(choices, &breed, i);
            assert_subnet(&shape, choices);
            kept += choices[8] == 4;
            tied += choices[2] == 3;
            deep += choices[7] < 2;
        }
        assert_share(kept, 1 - rates[r] / 2 * 0.8);
        assert_share(tied, 1 - rates[r] / 2 * 0.75);
        assert_share(deep, 1 - rates[r] / 2 * 2 / 3);
    }
}
END_TEST

/* The same on every machine, and others in another round and of another seed. */
START_TEST(pinned)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = shape_of(each);
    struct np_breed breed = {
        .shape = &shape, .parents = parents[0], .count = 2, .mutation = 0.1, .seed = 7};
    static uint16_t choices[3][100][BLOCKS];
    struct np_digest found;
    for (int r = 0; r < 3; r++) {
        breed.round = r == 1 ? 20 : 0;
        breed.seed = r == 2 ? 8 : 7;
        for (uint32_t i = 0; i < 100; i++)
            np_breed_child(choices[r][i], &breed, i);
    }
    ck_assert_int_ne(memcmp(choices[0], choices[1], sizeof *choices), 0);
    ck_assert_int_ne(memcmp(choices[0], choices[2], sizeof *choices), 0);
    ck_assert_int_eq(np_digest_compute(&found, choices, sizeof choices, NULL), NP_OK);
    ck_assert_str_eq(np_digest_hex(&found).s,
                     "84b57ec8355f4210a667905d8c1f4ddb97bbde84041e8751d2bdee4705f5bd7f");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("breed");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, without_parents);
    tcase_add_test(tests, mixtures);
    tcase_add_test(tests, mutants);
    tcase_add_test(tests, pinned);
    return suite_run(suite);
}
