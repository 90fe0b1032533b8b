/* The cut: consecutive positions to stages, so that the most loaded stage is as light as possible.
 *
 * Order     exact, by dynamic programming: best[k][j] = min over i of
 *           max(best[k-1][i], load of i .. j-1). The first term rises with i and the second falls,
 *           so the best i is found by bisection: O(stages x positions x log positions).
 */
#ifndef NP_PLAN_CUT_H
#define NP_PLAN_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct np_cut {
    int positions, stages;
    const double *load; /* [positions] */
    /* [stages][positions]: what a position takes on a stage, which may hold cap_bytes; or NULL. */
    const uint64_t *bytes;
    uint64_t cap_bytes;
};

/* first[stages + 1]. *fits false, first untouched, when no cut keeps every stage within the cap;
 * every stage gets at least one position (stages <= positions, the caller's to check). */
enum np_status np_cut_find(int *first, bool *fits, const struct np_cut *cut, struct np_error *err);

#endif
