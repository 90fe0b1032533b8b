/* Orders: what a crew in another process is told, written down in the order it was told. Private to
 * mpi/.
 *
 * One writer, one reader, of one version of naspipe on machines of one byte order. An order is its
 * head and what belongs to it (shapes below), padded to NP_ORDER_ALIGN.
 *
 * Pointers  of a rank's memory carry the rank, so that nobody takes one for his own: np_far_at.
 *           Differences of them, and what a caller adds to them, are as ever.
 * Errors    an order that finds no memory is kept in `lost`, and is found when they are sent.
 * Ownership np_orders_clear releases.
 */
#ifndef NP_MPI_ORDERS_H
#define NP_MPI_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define NP_ORDER_ALIGN 8

enum np_order_kind {
    NP_ORDER_CALL,  /* of a kernel: its arguments (mpi/calls.h) */
    NP_ORDER_SEND,  /* struct np_order_send, and the bytes */
    NP_ORDER_WATCH, /* what is found not to be finite belongs to the next watch */
    NP_ORDER_MARK,  /* uint64_t: so many bytes of replies; ends a task */
    NP_ORDER_STAMP, /* uint64_t: that far the crew is */
    NP_ORDER_AFTER, /* struct np_order_after */
    NP_ORDER_CARRY, /* struct np_order_carry, and the parts */
    NP_ORDER_END    /* the last one */
};

struct np_order {
    uint16_t kind, call;
    uint32_t bytes; /* that follow, padded */
};

struct np_order_send {
    uint64_t to, bytes;
};

/* When crew `crew` of a rank, as it calls it, is as far as `count`. */
struct np_order_after {
    uint64_t rank, crew, count;
};

struct np_order_part {
    uint64_t here, there, bytes;
};

struct np_order_carry {
    uint32_t puts; /* to the other rank, or gets from there */
    uint32_t rank;
    uint64_t count;
};

struct np_orders {
    char *at;
    size_t used, room;
    bool lost;
};

/* Room for an order and `bytes` behind it, to be written at once; NULL: there is none. */
void *np_orders_add(struct np_orders *orders, enum np_order_kind kind, int call, size_t bytes);
void np_orders_clear(struct np_orders *orders);

static inline size_t np_order_padded(size_t bytes)
{
    return (bytes + NP_ORDER_ALIGN - 1) / NP_ORDER_ALIGN * NP_ORDER_ALIGN;
}

/* --- pointers of other processes ------------------------------------------------------------- */

#define NP_FAR_SHIFT 48 /* above all that a process has */

/* The pointer of rank's own, for all others; the rank of such a pointer, or -1; and back. */
static inline uint64_t np_far_at(int rank, uint64_t own)
{
    return own | (uint64_t)(rank + 1) << NP_FAR_SHIFT;
}

static inline int np_far_rank(uint64_t at)
{
    return (int)(at >> NP_FAR_SHIFT) - 1;
}

static inline uint64_t np_far_own(uint64_t at)
{
    return at & (((uint64_t)1 << NP_FAR_SHIFT) - 1);
}

static inline void *np_far_pointer(uint64_t at)
{
    return (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr): see Pointers
}

#endif
