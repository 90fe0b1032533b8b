/* A team: the threads that execute one stage together (one or more).
 *
 * Code that runs on a team is written once and executed by every member (single program, multiple
 * data): each member computes its own share of every output, chosen from rank and size alone, and
 * the members meet at np_team_wait() between steps that read each other's results. Shares never
 * change the order of a sum, so the team's size changes time only.
 *
 * Threads do not run alike: one is interrupted, or its processor is shared or slow. So what is long
 * and falls into pieces is dealt out while it is done (np_team_deal): a member takes its own share
 * from the front and then, while others are at work, from the ends of theirs. Which member computes
 * an element is then left open, not what it computes.
 *
 * Threads:   np_team_wait and np_team_deal are called by all members in the same order; everything
 *            else by the owner.
 * Ownership: scratch is the member's own, NP_ALIGN-aligned, np_kernels_scratch_bytes() or more;
 *            those of a team follow each other in memory. A kernel may read another member's
 *            between two waits.
 */
#ifndef NP_NUM_TEAM_H
#define NP_NUM_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define NP_MAX_TEAM 256

struct np_barrier;

struct np_team {
    int rank, size;
    struct np_barrier *barrier; /* NULL when size is 1 */
    void *scratch;              /* for the inside of one kernel call */
    size_t scratch_bytes;
    unsigned deals;   /* calls of np_team_deal */
    unsigned crowded; /* meetings to come at which it soon sleeps: others want its processor */
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

/* `count` items that are dealt out; what is taken begins at a multiple of `unit`. */
struct np_deal {
    const struct np_team *team; /* NULL: there is no more to take */
    size_t count, unit, pieces;
    unsigned number;
    struct np_share piece; /* what the caller has taken and not worked on yet ... */
    bool own;              /* ... from its own share, whose front it works off in order */
};

/* From now on others that have made the same call may take of the caller's share. So a piece may
 * write the scratch of the member whose share it is of. Members without a barrier, as in a test
 * that plays one after the other, get their np_team_share. */
struct np_deal np_team_deal(struct np_team *team, size_t count, size_t unit);

/* Takes half of what is left of the caller's share from its front, or, where nothing is, of
 * another's from its end; false if nobody has any left, though others may be at work on theirs. */
bool np_deal_more(struct np_deal *deal);

/* The caller's next items, or false: one; some of one group, where each `each` items make a group;
 * all that it has taken. */
static inline bool np_deal_item(struct np_deal *deal, size_t *item)
{
    if (deal->piece.begin == deal->piece.end && !np_deal_more(deal))
        return false;
    *item = deal->piece.begin++;
    return true;
}

static inline bool np_deal_run(struct np_deal *deal, size_t each, struct np_share *run)
{
    struct np_share *piece = &deal->piece;
    if (piece->begin == piece->end && !np_deal_more(deal))
        return false;
    size_t end = piece->begin - piece->begin % each + each;
    *run = (struct np_share){piece->begin, end < piece->end ? end : piece->end};
    piece->begin = run->end;
    return true;
}

static inline bool np_deal_piece(struct np_deal *deal, struct np_share *piece)
{
    return np_deal_run(deal, SIZE_MAX, piece);
}

/* Where the items end that the first member has taken from its own share. To be called by members
 * that have met, all items being taken, before they meet again. */
size_t np_deal_front(const struct np_deal *deal);

enum np_status np_barrier_new(struct np_barrier **out, int size, struct np_error *err);
void np_barrier_free(struct np_barrier *barrier);

/* Returns when every member has called it; what members wrote before is visible after. */
void np_team_wait(struct np_team *team);
/* So many members, which do not exist, are not waited for once; by one who waits thereafter. */
void np_team_excuse(struct np_team *team, int absent);

#endif
