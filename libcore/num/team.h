/* A team: the threads that execute one stage together (one or more).
 *
 * Code that runs on a team is written once and executed by every member (single program, multiple
 * data): each member computes its own share of every output, chosen from rank and size alone, and
 * the members meet at np_team_wait() between steps that read each other's results. Shares never
 * change the order of a sum, so the team's size changes time only.
 *
 * Threads:   np_team_wait is called by all members; everything else by the owner.
 * Ownership: scratch is the member's own, NP_ALIGN-aligned, np_kernels_scratch_bytes() or more;
 *            those of a team follow each other in memory. A kernel may read another member's
 *            between two waits.
 */
#ifndef NP_NUM_TEAM_H
#define NP_NUM_TEAM_H

#include <stddef.h>

#include "base/error.h"

#define NP_MAX_TEAM 256

struct np_barrier;

struct np_team {
    int rank, size;
    struct np_barrier *barrier; /* NULL when size is 1 */
    void *scratch;              /* for the inside of one kernel call */
    size_t scratch_bytes;
};

struct np_share {
    size_t begin, end;
};

/* Splits count items among the team in contiguous shares that begin at multiples of unit. */
static inline struct np_share np_team_share(const struct np_team *team, size_t count, size_t unit)
{
    size_t units = (count + unit - 1) / unit;
    size_t size = (size_t)team->size, rank = (size_t)team->rank;
    struct np_share s = {units * rank / size * unit, units * (rank + 1) / size * unit};
    if (s.begin > count)
        s.begin = count;
    if (s.end > count)
        s.end = count;
    return s;
}

/* The scratch of another member. */
static inline void *np_team_scratch(const struct np_team *team, int rank)
{
    return (char *)team->scratch + (ptrdiff_t)(rank - team->rank) * (ptrdiff_t)team->scratch_bytes;
}

enum np_status np_barrier_new(struct np_barrier **out, int size, struct np_error *err);
void np_barrier_free(struct np_barrier *barrier);

/* Returns when every member has called it; what members wrote before is visible after. */
void np_team_wait(struct np_team *team);

#endif
