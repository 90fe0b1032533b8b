/* What ranks say to each other beside orders. Private to mpi/.
 *
 * Letters to a rank's desk have their kind in head.a and ask in head.b and the body; where there is
 * an answer, it goes to the box head.c of the rank that asks: its head.a is a status, its head.b a
 * value, its body, where the status is not NP_OK, the message.
 */
#ifndef NP_MPI_DESK_H
#define NP_MPI_DESK_H

#include "mpi/orders.h"
#include "mpi/post.h"
#include "num/kernels.h"

enum np_desk_kind {
    NP_DESK_HELLO,   /* np_call_build's text: NP_EINPUT where the desk's own is another */
    NP_DESK_ALLOC,   /* b bytes; the value is np_far_own's */
    NP_DESK_RELEASE, /* at b; no answer */
    NP_DESK_CREW,    /* struct np_desk_crew; the value is the crew's box */
    NP_DESK_AFTER,   /* struct np_order_after: answered when the crew is there */
    NP_DESK_CLOSE    /* no answer */
};

struct np_desk_crew {
    uint64_t size, scratch, scratch_bytes, found, found_bytes, fill_bytes, watches;
    uint64_t notices; /* rank 0's box for them */
};

/* A letter for each NP_ORDER_MARK, and behind it the verdicts of as many watches as the crew may
 * have, a byte each (0: something was not finite), padded, then the replies. */
struct np_notice {
    uint32_t status, pad;
    char text[248];
};

/* What rank 0's letters bring to this process, until they close it: on this device, by kernels of
 * its. why: it cannot work, which rank 0 is told; NULL: it can. */
enum np_status np_desk_serve(struct np_post *post, const struct np_device *device,
                             const struct np_kernels *kernels, const struct np_error *why,
                             struct np_error *err);

/* Asks a desk and waits for the answer. body: freed by the post; NULL: none. */
enum np_status np_desk_ask(struct np_post *post, int rank, struct np_head head, void *body,
                           uint64_t *value, struct np_error *err);
/* And answers who asked: `why` where the status is not NP_OK. */
enum np_status np_desk_answer(struct np_post *post, int rank, uint64_t box, enum np_status status,
                              uint64_t value, const struct np_error *why, struct np_error *err);

#endif
