/* The transport: what crosses from the memory of one stage into that of another.
 *
 * Stages that share a memory (processors, one GPU) share what is in it: nothing is sent and nothing
 * is copied. Between memories, whoever made something sends it and whoever uses it receives it:
 * activations forward and gradients backward over the cuts of a flight, and the whole state of a
 * layer that the next step runs elsewhere.
 *
 * Words     memory: of those that the stages share in contiguous runs (np_flight_memory). Cut: the
 *           first position of a flight behind a boundary between memories.
 * Key       a message has one, and no side needs a pointer of the other: both compute it, and the
 *           sizes of its parts, from the step's subnets and cut.
 * Order     of the two sides of a message the first posts what it has, or has room for, and goes
 *           on: it keeps that until the message is through. The second carries it. Forward the
 *           sender posts when it has made the values, and the receiver carries them when it begins,
 *           for only then is its slot free; backward the sender carries, for its slot may be wanted
 *           when it has ended, and the receiver has posted long before, with the values: its slot
 *           is held until its own backward pass.
 *           A stage has a crew that carries and no more (num/device.h), so that on GPUs it computes
 *           meanwhile: a stamp notes when a message is through, and who needs it goes on after
 *           that. Nothing is carried before it is known to have been made, so that no message waits
 *           for another one's stage.
 * Progress  so a message waits for nothing but the bytes, and carrying it for no other message: who
 *           waits for whom has no cycle. The scheduler orders the two sides; what comes in another
 *           order is a bug, which is said at once.
 * Several   processes have one scheduler and one transport: that of rank 0 (mpi/mpi_device.h). So
 *           both sides are at hand when the second comes: it gives the link (num/link.h) one send
 *           and its receive together.
 * Errors    NP_EIO of the link, also where a task is awaited (np_link_await); NP_EMEM of _new.
 * Ownership borrows the link; parts are the caller's.
 * Threads   the two sides of a message may be different threads, one after the other; different
 *           messages freely.
 */
#ifndef NP_EXEC_TRANSPORT_H
#define NP_EXEC_TRANSPORT_H

#include "num/link.h"

enum np_cargo {
    NP_CARGO_VALUES,
    NP_CARGO_GRADIENTS,
    NP_CARGO_LAYER /* weights and moments */
};

struct np_message {
    enum np_cargo cargo;
    int from, to;    /* memories; of a layer `to` is whose next user wants it */
    uint64_t flight; /* its number; of a layer: how many updates made it */
    uint32_t number; /* the cut; of a layer: its own */
};

enum np_side { NP_SENDS, NP_RECEIVES };

struct np_cargo_part {
    void *at; /* only read where it is sent */
    uint64_t bytes;
};

struct np_transport_config {
    struct np_link *link;
    int memories;
    uint64_t flights; /* so many, of consecutive numbers, have messages at a time */
    uint32_t layers;
    int parts; /* of a message, at most */
};

struct np_transport;

enum np_status np_transport_new(struct np_transport **out, const struct np_transport_config *config,
                                struct np_error *err);
void np_transport_free(struct np_transport *transport);

/* One side of a message, with `count` parts, at least 1: the first to come, which does not wait. */
void np_transport_post(struct np_transport *transport, enum np_side side,
                       const struct np_message *message, const struct np_cargo_part *parts,
                       int count);
/* Who carries: a crew, as np_link_carry has it, and its stamp of when the message is through; NULL:
 * nobody asks for that. */
struct np_carrier {
    struct np_crew *crew;
    struct np_stamp *through;
};

/* And the second, which has it carried. */
enum np_status np_transport_carry(struct np_transport *transport, enum np_side side,
                                  const struct np_message *message,
                                  const struct np_cargo_part *parts, int count,
                                  struct np_carrier carrier, struct np_error *err);
/* The side that has posted: its crew goes on when the message is through. */
enum np_status np_transport_await(struct np_transport *transport, const struct np_message *message,
                                  struct np_crew *crew, struct np_error *err);

#endif
