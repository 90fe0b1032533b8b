/* A bell: wakes one thread that waits, of this process or of another that shares its memory.
 * Private to mpi/. */
#ifndef NP_MPI_BELL_H
#define NP_MPI_BELL_H

#include <stdint.h>

struct np_bell {
    uint32_t rings; /* of ever; both by atomic operations */
    uint32_t sleeps;
    char apart[56]; /* from the next one */
};

/* Anybody. */
void np_bell_ring(struct np_bell *bell);
/* Its one listener: returns when it has rung since the last return, or after so many nanoseconds.
 * *heard begins as 0. */
void np_bell_wait(struct np_bell *bell, uint32_t *heard, long ns);

#endif
