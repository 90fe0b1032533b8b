/* The wire: heads and bodies of messages from rank to rank. Private to mpi/.
 *
 * One interface; MPI's implementation is wire_mpi.c, and tests have one between threads.
 *
 * Order     heads from one rank come in the order they were sent. Who has taken a head that a body
 *           of `bytes` belongs to says at once where to, before it takes the next.
 * Errors    NP_EIO, NP_EMEM: the wire is of no use any more.
 * Ownership bodies are borrowed until `ended` has told their token, or at once *over: then nothing
 *           will be told, for what is sent has been copied, and what comes is there.
 * Threads   one at a time; wake anyone's, and wait beside the others'.
 */
#ifndef NP_MPI_WIRE_H
#define NP_MPI_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct np_head {
    uint32_t kind, from; /* the rank it comes from; filled in by the wire */
    uint64_t bytes;      /* of the body; 0: none, and no token */
    uint64_t a, b, c, d;
};

struct np_wire;

struct np_wire_ops {
    enum np_status (*send)(struct np_wire *wire, int to, const struct np_head *head,
                           const void *body, void *token, bool *over, struct np_error *err);
    /* False: there is none yet. */
    enum np_status (*next)(struct np_wire *wire, struct np_head *head, bool *is,
                           struct np_error *err);
    enum np_status (*body)(struct np_wire *wire, const struct np_head *head, void *to, void *token,
                           bool *over, struct np_error *err);
    /* A body that has been sent or has come; NULL: none since the last one told. */
    enum np_status (*ended)(struct np_wire *wire, void **token, struct np_error *err);
    /* Waits until something may have come, or its own rank has been woken since the last call
     * returned, or for a while: a short one if bodies are under way, or something just moved. */
    void (*wait)(struct np_wire *wire, bool under_way, bool moved);
    void (*wake)(struct np_wire *wire);
    /* What was sent is waited for; where the wire, or who has it, has failed, all ranks end. */
    void (*close)(struct np_wire *wire, bool failed);
};

/* What every implementation begins with. */
struct np_wire {
    const struct np_wire_ops *ops;
    int rank, ranks;
    int among;      /* its number among the ranks of its host */
    int processors; /* of those that ranks of the host may use, dealt evenly; 1 at least */
};

/* MPI's world, which it begins and, closed, ends. NP_EINPUT: a build without MPI. */
enum np_status np_wire_mpi(struct np_wire **out, struct np_error *err);

#endif
