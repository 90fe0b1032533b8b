#include "mpi/orders.h"

#include <stdlib.h>
#include <string.h>

#define LEAST ((size_t)64 << 10)

void *np_orders_add(struct np_orders *o, enum np_order_kind kind, int call, size_t bytes)
{
    size_t padded = np_order_padded(bytes);
    size_t wanted = o->used + sizeof(struct np_order) + padded;
    struct np_order order = {(uint16_t)kind, (uint16_t)call, (uint32_t)padded};
    char *at;
    if (o->lost || padded > UINT32_MAX)
        goto lost;
    if (wanted > o->room) {
        size_t room = wanted > LEAST / 2 ? 2 * wanted : LEAST;
        char *more = realloc(o->at, room);
        if (!more)
            goto lost;
        o->at = more;
        o->room = room;
    }
    at = o->at + o->used;
    memcpy(at, &order, sizeof order);
    if (padded)
        memset(at + sizeof order + padded - NP_ORDER_ALIGN, 0, NP_ORDER_ALIGN);
    o->used = wanted;
    return at + sizeof order;
lost:
    o->lost = true;
    return NULL;
}

void np_orders_clear(struct np_orders *o)
{
    free(o->at);
    *o = (struct np_orders){NULL, 0, 0, false};
}
