#include "exec/transport.h"

#include <stdlib.h>

#include "base/memory.h"

enum progress { NOTHING, POSTED, THROUGH };

/* A message on its way: what has been posted of it, and room for the other side's. */
struct entry {
    struct np_message message;
    enum progress progress;
    enum np_side side; /* that has posted */
    int count;
    struct np_stamp *through;
    struct np_link_part *parts;
};

struct np_transport {
    struct np_transport_config config;
    struct entry *cuts;   /* [flights][memories][forward, backward] */
    struct entry *layers; /* [layers] */
    struct np_link_part *parts;
};

enum np_status np_transport_new(struct np_transport **out, const struct np_transport_config *config,
                                struct np_error *err)
{
    size_t cuts = (size_t)config->flights * (size_t)config->memories * 2;
    size_t parts = (size_t)config->parts;
    struct np_transport *t = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&t, 1, sizeof *t, err));
    t->config = *config;
    NP_TRY(np_zalloc(&t->cuts, cuts, sizeof *t->cuts, err));
    NP_TRY(np_zalloc(&t->layers, config->layers, sizeof *t->layers, err));
    NP_TRY(np_alloc(&t->parts, cuts * parts + config->layers, sizeof *t->parts, err));
    for (size_t i = 0; i < cuts; i++)
        t->cuts[i].parts = t->parts + i * parts;
    for (size_t i = 0; i < config->layers; i++)
        t->layers[i].parts = t->parts + cuts * parts + i;
    *out = t;
    return NP_OK;
out:
    np_transport_free(t);
    return status;
}

void np_transport_free(struct np_transport *t)
{
    if (!t)
        return;
    free(t->cuts);
    free(t->layers);
    free(t->parts);
    free(t);
}

/* A cut's messages are found at the memory behind it: a flight comes there once. */
static struct entry *entry_of(const struct np_transport *t, const struct np_message *m)
{
    if (m->cargo == NP_CARGO_LAYER)
        return &t->layers[m->number];
    bool back = m->cargo == NP_CARGO_GRADIENTS;
    size_t row = (size_t)(m->flight % t->config.flights) * (size_t)t->config.memories;
    return &t->cuts[(row + (size_t)(back ? m->from : m->to)) * 2 + back];
}

/* What the sender of a layer does not know, `to`, is not compared. */
static bool is_same(const struct np_message *a, const struct np_message *b)
{
    return a->cargo == b->cargo && a->from == b->from && a->flight == b->flight &&
           a->number == b->number && (a->cargo == NP_CARGO_LAYER || a->to == b->to);
}

static enum np_status out_of_order(const struct np_message *m, const char *what,
                                   struct np_error *err)
{
    static const char *const cargo[] = {"values", "gradients", "layer"};
    return np_fail(err, NP_EIO, "the %s %llu.%u from memory %d to %d: %s (a bug in naspipe)",
                   cargo[m->cargo], (unsigned long long)m->flight, m->number, m->from, m->to, what);
}

static void put_side(struct entry *e, enum np_side side, const struct np_cargo_part *parts)
{
    for (int i = 0; i < e->count; i++) {
        if (side == NP_SENDS)
            e->parts[i].from = parts[i].at;
        else
            e->parts[i].to = parts[i].at;
        e->parts[i].bytes = parts[i].bytes;
    }
}

void np_transport_post(struct np_transport *t, enum np_side side, const struct np_message *message,
                       const struct np_cargo_part *parts, int count)
{
    struct entry *e = entry_of(t, message);
    e->message = *message;
    e->side = side;
    e->count = count;
    e->progress = POSTED;
    put_side(e, side, parts);
}

enum np_status np_transport_carry(struct np_transport *t, enum np_side side,
                                  const struct np_message *message,
                                  const struct np_cargo_part *parts, int count,
                                  struct np_carrier carrier, struct np_error *err)
{
    struct entry *e = entry_of(t, message);
    enum np_status status;
    if (e->progress != POSTED || e->side == side || !is_same(&e->message, message))
        return out_of_order(message, "the other side has not come", err);
    if (e->count != count)
        return out_of_order(message, "the sides differ in its parts", err);
    for (int i = 0; i < count; i++)
        if (e->parts[i].bytes != parts[i].bytes)
            return out_of_order(message, "the sides differ in its size", err);
    put_side(e, side, parts);
    status = np_link_carry(t->config.link, carrier.crew, message->from, message->to, e->parts,
                           count, err);
    if (status != NP_OK)
        return status;
    if (carrier.through)
        np_crew_stamp(carrier.crew, carrier.through);
    e->through = carrier.through;
    e->progress = THROUGH;
    return NP_OK;
}

enum np_status np_transport_await(struct np_transport *t, const struct np_message *message,
                                  struct np_crew *crew, struct np_error *err)
{
    const struct entry *e = entry_of(t, message);
    if (e->progress != THROUGH || !is_same(&e->message, message))
        return out_of_order(message, "it has not come", err);
    if (e->through)
        np_crew_after(crew, e->through);
    return NP_OK;
}
