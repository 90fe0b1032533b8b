#include "plan/fit.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/cut.h"
#include "plan/stage_memory.h"

/* What positions weigh: time, and memory on each stage. */
struct weights {
    double *load;
    uint64_t *bytes; /* [stages][positions] */
    uint64_t beside; /* of a stage, beside these */
};

static void weights_clear(struct weights *w)
{
    free(w->load);
    free(w->bytes);
}

static enum np_status weights_init(struct weights *w, const struct np_plan *plan,
                                   const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    size_t positions = (size_t)net->positions;
    *w = (struct weights){NULL};
    NP_TRY(np_zalloc(&w->load, positions, sizeof *w->load, err));
    NP_TRY(np_zalloc(&w->bytes, positions, (size_t)plan->stages * sizeof *w->bytes, err));
    for (int p = 0; p < net->positions; p++)
        w->load[p] = np_plan_load(plan, net, p);
out:
    return status;
}

static enum np_status weigh_memory(struct weights *w, const struct np_plan *plan, int resident,
                                   const struct np_supernet *net, struct np_error *err)
{
    enum np_status status = NP_OK;
    size_t positions = (size_t)net->positions;
    w->beside = 0;
    for (int k = 0; k < plan->stages; k++) {
        uint64_t *row = w->bytes + (size_t)k * positions, beside;
        if (k > 0 && plan->in_flight[k] == plan->in_flight[k - 1]) {
            memcpy(row, row - positions, positions * sizeof *row);
            continue;
        }
        NP_TRY(np_memory_positions(row, &beside, plan, plan->in_flight[k], resident, net, err));
        w->beside = beside > w->beside ? beside : w->beside;
    }
out:
    return status;
}

void np_fit_flights(struct np_plan *plan, const struct np_supernet *net, int most)
{
    int64_t all = np_plan_flights(plan, net);
    for (int k = 0; k < plan->stages; k++) {
        int64_t flights = most > k ? most - k : 1;
        plan->in_flight[k] = flights < all ? (int)flights : (int)all;
    }
}

/* The bound from which on nothing is bounded. */
static int unbounded(const struct np_plan *plan, const struct np_supernet *net)
{
    return (int)np_plan_flights(plan, net) + plan->stages - 1;
}

int np_fit_most_flights(const struct np_plan *plan, const struct np_supernet *net)
{
    for (int k = 0; k < plan->stages; k++)
        if (plan->in_flight[k] < np_plan_flights(plan, net))
            return plan->in_flight[k] + k;
    return unbounded(plan, net);
}

/* Cuts for time within the cap, with `most` flights and room for `resident` candidates a block. */
static enum np_status cut_within(struct np_plan *plan, const struct np_supernet *net,
                                 struct weights *w, int most, int resident, bool *fits,
                                 struct np_error *err)
{
    enum np_status status;
    uint64_t cap = plan->device_bytes, needed;
    struct np_cut cut = {.positions = net->positions, .stages = plan->stages, .load = w->load};
    np_fit_flights(plan, net, most);
    if (cap > 0) {
        NP_TRY(weigh_memory(w, plan, resident, net, err));
        cut.bytes = w->bytes;
        cut.cap_bytes = cap > w->beside ? cap - w->beside : 0;
    }
    NP_TRY(np_cut_find(plan->stage_first, fits, &cut, err));
    if (*fits && cap > 0) { /* of all that crosses a cut the weights do not know */
        NP_TRY(np_memory_least(&needed, plan, net, err));
        *fits = needed <= cap;
    }
out:
    return status;
}

/* The same with as many flights as the cap allows; *fits false when it allows none. */
static enum np_status cut_flights(struct np_plan *plan, const struct np_supernet *net,
                                  struct weights *w, int resident, bool *fits, struct np_error *err)
{
    int low = 0, high = unbounded(plan, net); /* low fits, or is 0; above high nothing does */
    enum np_status status = cut_within(plan, net, w, high, resident, fits, err);
    if (status != NP_OK || *fits)
        return status;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        NP_TRY(cut_within(plan, net, w, middle, resident, fits, err));
        *(*fits ? &low : &high) = middle;
    }
    if (low > 0)
        NP_TRY(cut_within(plan, net, w, low, resident, fits, err));
    *fits = low > 0;
out:
    return status;
}

/* The cut whose stages' positions weigh least, the heaviest one's. */
static enum np_status cut_even(struct np_plan *plan, const struct np_supernet *net,
                               struct weights *w, int resident, struct np_error *err)
{
    bool fits;
    struct np_cut cut = {.positions = net->positions, .stages = plan->stages, .load = w->load};
    enum np_status status;
    np_fit_flights(plan, net, 1);
    NP_TRY(weigh_memory(w, plan, resident, net, err));
    for (int p = 0; p < net->positions; p++)
        w->load[p] = (double)w->bytes[p];
    NP_TRY(np_cut_find(plan->stage_first, &fits, &cut, err));
out:
    return status;
}

/* How many candidates of a block shall have room, best first; replicas keep them all. */
enum { RESIDENTS = 4 };
static int residents(int resident[RESIDENTS], const struct np_plan *plan,
                     const struct np_supernet *net)
{
    int members = net->recipe->members;
    resident[0] = NP_MAX_CHOICES;
    resident[1] = 2 * members;
    resident[2] = members;
    resident[3] = 0;
    return np_plan_replicas(plan) > 1 ? 1 : RESIDENTS;
}

/* Moves where stages begin by a position, as long as the one that needs most comes to need less. */
static enum np_status settle(uint64_t *least, struct np_plan *plan, const struct np_supernet *net,
                             struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int still = 0, i = 0; still < 2 * (plan->stages - 1); i++) {
        int *first = &plan->stage_first[1 + i / 2 % (plan->stages - 1)], old = *first;
        uint64_t needed = UINT64_MAX;
        *first += i % 2 ? 1 : -1;
        if (*first > first[-1] && *first < first[1])
            NP_TRY(np_memory_least(&needed, plan, net, err));
        if (needed < *least) {
            *least = needed;
            still = 0;
        } else {
            *first = old;
            still++;
        }
    }
out:
    return status;
}

/* From a cut of even weights on, for a byte less than is needed until nothing does: what a stage
 * has beside its positions depends on the cut. */
enum np_status np_fit_least(uint64_t *least, struct np_plan *plan, const struct np_supernet *net,
                            struct np_error *err)
{
    const size_t ends = (size_t)plan->stages + 1;
    const uint64_t given = plan->device_bytes;
    int resident[RESIDENTS], tries = residents(resident, plan, net), *best = NULL;
    uint64_t needed;
    bool fits = true;
    enum np_status status;
    struct weights w;
    *least = UINT64_MAX;
    NP_TRY(weights_init(&w, plan, net, err));
    NP_TRY(np_alloc(&best, ends, sizeof *best, err));
    NP_TRY(cut_even(plan, net, &w, resident[tries - 1], err));
    NP_TRY(np_memory_least(&needed, plan, net, err));
    while (fits && needed < *least) {
        memcpy(best, plan->stage_first, ends * sizeof *best);
        *least = needed;
        plan->device_bytes = needed - 1;
        fits = false;
        for (int i = 0; i < tries && !fits; i++)
            NP_TRY(cut_within(plan, net, &w, 1, resident[i], &fits, err));
        NP_TRY(np_memory_least(&needed, plan, net, err));
    }
    memcpy(plan->stage_first, best, ends * sizeof *best);
    NP_TRY(settle(least, plan, net, err));
    NP_TRY(np_memory_fill(plan, net, err));
out:
    plan->device_bytes = given;
    free(best);
    weights_clear(&w);
    return status;
}

enum np_status np_fit(struct np_plan *plan, uint64_t *least, const struct np_supernet *net,
                      struct np_error *err)
{
    int resident[RESIDENTS], tries = residents(resident, plan, net);
    enum np_status status;
    struct weights w;
    bool fits = false;
    NP_TRY(weights_init(&w, plan, net, err));
    *least = 0;
    for (int i = 0; i < tries && !fits; i++)
        NP_TRY(cut_flights(plan, net, &w, resident[i], &fits, err));
    if (fits) {
        status = np_memory_fill(plan, net, err);
        goto out;
    }
    NP_TRY(np_fit_least(least, plan, net, err));
    if (*least <= plan->device_bytes)
        *least = 0;
out:
    weights_clear(&w);
    return status;
}
