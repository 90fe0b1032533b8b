/* Where a stage keeps what its flights hold: one table, made once, that the engine takes memory by
 * and the memory model counts by.
 *
 * Words     flight, retired, in flight: sched/sched.h. Flight q is in slot q % slots of a stage. A
 *           value's own storage: the y of the position that makes it; a gradient's: that
 *           position's dy.
 *
 * Layout    A stage takes some blocks (enum np_flight_block). A slot has, for each position that
 *           the stage may run (sched/balance.h), room for the largest of its candidates: the value
 *           y, its gradient dy, what operators save and leave for W (saved, delta), what they read
 *           of the batch. Gradient sums lie apart, since a sum is open over flights: per position
 *           as many as can be open, the steps that flights of the stage can belong to times the
 *           layers that a step can activate; with one flight a step a sum is opened and closed by
 *           one W, and one buffer serves all positions. Replicas add to the same sums, those of
 *           the first, or hand them on where their memories are apart (exec/replicas.h). They are
 *           open until the last replica has added its share: one for every step of the window.
 *           Every part begins on a cache line.
 *           Where the stages are on several memories, what a stage reads of values that another
 *           memory's stages made is received into its slot (exec/crossing.h): a position that is
 *           read across a cut has room for its value and gradient at every stage that may be the
 *           first behind the cut.
 *
 *           Where activations are computed again (`recompute`), what operators save and leave for
 *           W lies not in slots but in a few entries of the stage, one for each position of a unit:
 *           of whatever passed there last. B and W compute it again if that was another flight or
 *           position (exec/sweep.c).
 *
 * Storage   Why a part is free when written, and still there when read:
 *           - Stage k writes to a slot from the flight's first F there on, which the scheduler
 *             admits when the slot's last flight is retired at k: all its tasks at stages >= k have
 *             ended. So only tasks at stages >= k may use what is in a slot of stage k.
 *           - A value is read by its own and later stages, also through layers that pass it on.
 *           - A value's gradient is gathered in its own storage, by readers at its own and later
 *             stages. The first contribution may instead be borrowed, from the dy of a reader on
 *             the same stage, where it is complete: never from a later stage's, which may have a
 *             new flight in its slot before B and W here have read it. A further contribution
 *             writes borrowed + contribution to the own storage. Nobody writes to a position's dy
 *             after its B, which is when others begin to borrow it.
 *           - A sum is open while flights of its step are at the stage, admitted and not retired:
 *             those of in_flight consecutive numbers, which belong to consecutive steps. Those of
 *             several replicas may be apart, but not by more than the window.
 *
 * Units     floats, and bytes where the name says so. Sums that overflow stay at a value that no
 *           machine has.
 * Errors    NP_EMEM.
 * Ownership np_flight_layout_clear releases; borrows the supernet.
 */
#ifndef NP_PLAN_FLIGHT_LAYOUT_H
#define NP_PLAN_FLIGHT_LAYOUT_H

#include "space/supernet.h"

#define NP_NO_STORAGE SIZE_MAX

/* What decides the layout. */
struct np_flight_shape {
    int stages;
    const int *stage_first; /* [stages + 1] */
    int unit, reach;        /* as np_sched_config has them; reach 0: any unit */
    const int *in_flight;   /* [stages]; NULL or 0: all that the window lets begin */
    int window, micro_batches;
    int replicas;      /* each has this layout; 0 is as 1 */
    int memories;      /* of a replica, np_flight_memory's; 0 is as 1 */
    bool apart;        /* replicas are in different memories: each has gradient sums */
    int threads;       /* of each stage */
    size_t scratch;    /* bytes for each of them; 0: as np_kernels_scratch_bytes has it */
    bool recompute;    /* what operators save is not kept until B, which computes it again */
    bool late_updates; /* sums of all positions stay open until the step's last task */
    bool forward_only; /* an evaluation: nothing is kept for B and W */
};

/* A position's parts on a stage: from the beginning of a slot, or of the stage's sums. */
struct np_flight_place {
    size_t y, dy, saved, delta, batch; /* NP_NO_STORAGE: never needed. If `recompute`, saved and
                                        * delta are from the beginning of an entry. */
    size_t sums, sum_floats;           /* [open steps][layers of a step][sum_floats] */
    size_t sums_a_step;
    bool sums_by_choice; /* fewer candidates than members: a sum for each candidate */
};

enum np_flight_block {
    NP_BLOCK_SLOTS,
    NP_BLOCK_SUMS,
    NP_BLOCK_SOFT,    /* probabilities of a step's first member, for the others */
    NP_BLOCK_ENTRIES, /* if `recompute`: the entries; then, as scratch, an output */
    NP_BLOCK_WORK,    /* scratch of one operator call; then of a gradient, if `apart` says so */
    NP_BLOCK_SCRATCH, /* of each member of the stage's team */
    NP_FLIGHT_BLOCKS
};

struct np_flight_stage {
    int first, end;                /* the positions that it may run */
    int lowest;                    /* and before them those that it may receive */
    struct np_flight_place *place; /* [end - lowest] */
    uint64_t slots;                /* flights in flight */
    uint64_t open_steps;           /* with open sums, in turn */
    size_t slot_floats;
    size_t soft_floats;           /* [open steps][soft_a_step][soft_floats]; 0: not the head's */
    size_t soft_a_step;           /* micro-batches of a replica */
    size_t entries, entry_floats; /* of positions, in turn; 0: what is saved is in the slots */
    size_t output_floats;         /* behind the entries */
    size_t batch_floats;          /* of a position's part of the batch, at most */
    size_t scratch_bytes;         /* of one member of the team */
    size_t
        apart; /* in the work block: a contribution to the gradient that dx is added to as well */
    uint64_t block_bytes[NP_FLIGHT_BLOCKS]; /* 0: not needed */
};

struct np_flight_layout {
    struct np_flight_place *places; /* of all stages */
    struct np_flight_stage *stage;  /* [stages] */
    bool apart;                     /* the shape's */
};

/* Which of the memories that stages share, in contiguous runs, a stage has. */
static inline int np_flight_memory(int memories, int stages, int stage)
{
    return memories > 1 ? stage * memories / stages : 0;
}

enum np_status np_flight_layout_init(struct np_flight_layout *layout, const struct np_supernet *net,
                                     const struct np_flight_shape *shape, struct np_error *err);
void np_flight_layout_clear(struct np_flight_layout *layout);

/* The place of a position on a stage that may run it, or receive its value. */
static inline const struct np_flight_place *np_flight_place(const struct np_flight_stage *stage,
                                                            int position)
{
    return &stage->place[position - stage->lowest];
}

/* The entry of a position. */
static inline size_t np_flight_entry(const struct np_flight_stage *stage, int position)
{
    return (size_t)(position - stage->first) % stage->entries;
}

/* What the blocks of a replica's stage count in its arena: gradient sums are the first's, unless
 * the replicas are apart. */
uint64_t np_flight_layout_bytes(const struct np_flight_layout *layout, int stage, int replica);

/* What a slot would hold of a position with this layer as its only candidate: its output, what of
 * the batch it reads, what operators save, and the gradients. */
size_t np_flight_layer_floats(const struct np_supernet *net, uint32_t layer, size_t samples);

#endif
