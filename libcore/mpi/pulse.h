/* Whether the other ranks are still there: rank 0 asks all of them again and again, and they
 * answer. Who has heard nothing for the deadline takes the other for lost. Private to mpi/.
 *
 * Pure: time is told to it, and what shall be asked it only says.
 * Units     nanoseconds.
 * Ownership the array is the pulse's.
 * Threads   one at a time.
 */
#ifndef NP_MPI_PULSE_H
#define NP_MPI_PULSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct np_pulse_peer {
    uint64_t silent_ns;
    unsigned asked; /* and not answered yet */
};

struct np_pulse {
    int rank, ranks;
    uint64_t deadline_ns, asked_ns; /* since all were asked */
    bool rests;                     /* nobody is asked any more */
    struct np_pulse_peer *peers;    /* [ranks] */
};

/* deadline_ns: 0: ranks may be silent for ever. */
enum np_status np_pulse_init(struct np_pulse *pulse, int rank, int ranks, uint64_t deadline_ns,
                             struct np_error *err);
void np_pulse_clear(struct np_pulse *pulse);

/* Time has passed, of which at most an eighth of the deadline counts: who was stopped himself for
 * longer could hear nobody. *asks: all others shall be asked now, which is noted. NP_EIO: a rank,
 * named, is lost. */
enum np_status np_pulse_pass(struct np_pulse *pulse, uint64_t ns, bool *asks, struct np_error *err);
/* Anything has come from a rank; and: its answer. */
void np_pulse_heard(struct np_pulse *pulse, int rank);
void np_pulse_answered(struct np_pulse *pulse, int rank);
/* Nobody is asked any more, but rank 0 asks all others now, where there is a deadline: true. */
bool np_pulse_ask_last(struct np_pulse *pulse);
/* All that was asked is answered. */
bool np_pulse_is_calm(const struct np_pulse *pulse);

#endif
