/* The balanced cut of a step: where its stages begin, so that the most loaded one is as light as
 * the step's own costs allow, near home.
 *
 * Words    home: the stage that a position belongs to by the pipeline's own cut. Boundary k: the
 *          first position of stage k, in this step.
 * Rule     Boundary k lies at most `reach` positions from home's, not before the home of stage k-1
 *          begins nor after the home of stage k ends: a position runs at home, or one stage before
 *          or after. The first and the last position stay at home. Boundaries lie between units,
 *          which are made by the home cut (sched/sched.h).
 * Order    Of the cuts whose largest load is the smallest, the one with the fewest positions off
 *          home; of these the one whose last boundaries are the lowest. A pure function of loads,
 *          which are finite and not negative.
 */
#ifndef NP_SCHED_BALANCE_H
#define NP_SCHED_BALANCE_H

#include <stddef.h>
#include <stdint.h>

struct np_balance {
    int positions, stages;
    const int *stage_first; /* [stages + 1]: home */
    int unit;
    int reach; /* 0: home */
};

/* The positions that may run on a stage: *first .. *end - 1. */
void np_balance_range(const struct np_balance *balance, int stage, int *first, int *end);

/* Bytes of scratch that np_balance_cut needs, aligned for double. */
size_t np_balance_scratch(const struct np_balance *balance);
/* begins[stages + 1]: the step's boundaries, by load[positions]. */
void np_balance_cut(const struct np_balance *balance, uint16_t *begins, const float *load,
                    void *scratch);

#endif
