/* Calls of kernels, written down where they are made and carried out elsewhere. Private to mpi/.
 *
 * np_kernels_far is a table whose functions write their arguments as orders (mpi/orders.h) of the
 * team they are called with, the first member of a struct np_far_team, rank 0 of 1. All pointers,
 * also inside the arguments' structs, are those of the process that carries it out. What returns
 * bool returns true: what it comes to is found there.
 *
 * Not here  fingerprint, which returns what it finds.
 * Threads   np_call_run is called by all members of a team, which wait for each other before the
 *           next one: where a caller of np_kernels_far would have them wait is not written down.
 */
#ifndef NP_MPI_CALLS_H
#define NP_MPI_CALLS_H

#include "mpi/orders.h"
#include "num/kernels.h"

struct np_far_team {
    struct np_team team;
    struct np_orders *orders;
};

extern const struct np_kernels np_kernels_far;

/* Where the calls end that begin at `at`: orders that np_kernels_far wrote, by their numbers and
 * sizes. */
const char *np_calls_end(const char *at, const char *end);
/* Carries out one of them: false if its kernel says so to this member. */
bool np_call_run(struct np_team *team, const struct np_kernels *kernels,
                 const struct np_order *order);

#define NP_CALL_BUILD_BYTES 64

/* What this process was made of, as text: its version, and the beginning of the SHA-256 of the
 * sources. Where texts differ, calls may be other ones, and the bits of kernels others. */
void np_call_build(char out[NP_CALL_BUILD_BYTES]);

#endif
