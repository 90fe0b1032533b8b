/* The cut against all cuts there are; the partitioner's choices against what it promises. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "num/philox.h"
#include "plan/cut.h"
#include "suite.h"

static double worst_load(const struct np_cut *cut, const int *first)
{
    double worst = 0;
    for (int k = 0; k < cut->stages; k++) {
        double load = 0;
        uint64_t bytes = 0;
        for (int p = first[k]; p < first[k + 1]; p++) {
            load += cut->load[p];
            bytes += cut->bytes ? cut->bytes[k * cut->positions + p] : 0;
        }
        if (cut->bytes && bytes > cut->cap_bytes)
            return INFINITY;
        worst = load > worst ? load : worst;
    }
    return worst;
}

/* Tries every cut: first[k] for k = stage .. stages-1. */
static double best_of_all(const struct np_cut *cut, int *first, int stage)
{
    double best = INFINITY;
    if (stage == cut->stages)
        return worst_load(cut, first);
    for (int p = first[stage - 1] + 1; p <= cut->positions - (cut->stages - stage); p++) {
        first[stage] = p;
        best = fmin(best, best_of_all(cut, first, stage + 1));
    }
    return best;
}

START_TEST(cut_is_the_best_of_all)
{
    struct np_draw_key key = {{(uint32_t)_i, 0}};
    double load[9];
    uint64_t bytes[9 * 9];
    for (int trial = 0; trial < 200; trial++) {
        int first[10] = {0}, all[10] = {0};
        bool fits;
        for (int p = 0; p < 9; p++) {
            struct np_philox drawn = np_draw(key, (uint64_t)trial, (uint64_t)p);
            load[p] = drawn.w[0] % 12;
            for (int k = 0; k < 9; k++) /* later stages hold less */
                bytes[k * 9 + p] = drawn.w[1] % 10 * (uint32_t)(12 - k) / 12;
        }
        struct np_cut cut = {.positions = 9, .stages = 1 + _i % 9, .load = load, .cap_bytes = 12};
        if (trial % 2)
            cut.bytes = bytes;
        all[cut.stages] = 9;
        double best = best_of_all(&cut, all, 1);
        ck_assert_int_eq(np_cut_find(first, &fits, &cut, NULL), NP_OK);
        ck_assert_int_eq(fits, isfinite(best));
        if (!fits)
            continue;
        ck_assert_int_eq(first[0], 0);
        ck_assert_int_eq(first[cut.stages], 9);
        for (int k = 0; k < cut.stages; k++)
            ck_assert_int_lt(first[k], first[k + 1]);
        ck_assert(worst_load(&cut, first) == best);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("partition");
    TCase *tests = suite_case(suite, "cut");
    tcase_add_loop_test(tests, cut_is_the_best_of_all, 0, 18);
    return suite_run(suite);
}
