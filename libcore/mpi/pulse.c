#include "mpi/pulse.h"

#include <stdlib.h>

#include "base/memory.h"

enum { PARTS = 8 }; /* of the deadline: how often one is asked before one is lost */

enum np_status np_pulse_init(struct np_pulse *p, int rank, int ranks, uint64_t deadline_ns,
                             struct np_error *err)
{
    *p = (struct np_pulse){.rank = rank, .ranks = ranks, .deadline_ns = deadline_ns};
    return np_zalloc(&p->peers, (size_t)ranks, sizeof *p->peers, err);
}

void np_pulse_clear(struct np_pulse *p)
{
    free(p->peers);
    *p = (struct np_pulse){.rank = 0};
}

/* Rank 0 minds all others, and they mind it. At rest one is minded for what it still owes. */
static bool minds(const struct np_pulse *p, int rank)
{
    if (p->rank == rank || !p->deadline_ns)
        return false;
    return p->rank == 0 ? !p->rests || p->peers[rank].asked : rank == 0;
}

static void note_asked(struct np_pulse *p)
{
    p->asked_ns = 0;
    for (int i = 1; i < p->ranks; i++)
        p->peers[i].asked++;
}

enum np_status np_pulse_pass(struct np_pulse *p, uint64_t ns, bool *asks, struct np_error *err)
{
    const uint64_t part = p->deadline_ns / PARTS;
    *asks = false;
    if (ns > part)
        ns = part;
    for (int i = 0; i < p->ranks; i++) {
        if (!minds(p, i))
            continue;
        p->peers[i].silent_ns += ns;
        if (p->peers[i].silent_ns >= p->deadline_ns)
            return np_fail(err, NP_EIO,
                           "rank %d has heard nothing of rank %d for %g s: it is stopped, or cut "
                           "off",
                           p->rank, i, (double)p->deadline_ns * 1e-9);
    }
    p->asked_ns += ns;
    *asks = p->rank == 0 && p->deadline_ns && !p->rests && p->asked_ns >= part;
    if (*asks)
        note_asked(p);
    return NP_OK;
}

bool np_pulse_ask_last(struct np_pulse *p)
{
    bool asks = p->rank == 0 && p->deadline_ns && !p->rests;
    p->rests = true;
    if (asks)
        note_asked(p);
    return asks;
}

void np_pulse_heard(struct np_pulse *p, int rank)
{
    p->peers[rank].silent_ns = 0;
}

void np_pulse_answered(struct np_pulse *p, int rank)
{
    if (p->peers[rank].asked)
        p->peers[rank].asked--;
}

bool np_pulse_is_calm(const struct np_pulse *p)
{
    for (int i = 0; i < p->ranks; i++)
        if (p->peers[i].asked)
            return false;
    return true;
}
