/* The memory model: what a stage holds while it trains, exactly.
 *
 * The engine takes flights' storage by the table that is counted here (plan/flight_layout.h), and
 * layers as np_memory_layer says: weights and moments in one block, delayed versions in another.
 *
 * Units     bytes, as an arena counts them (base/arena.h): whole pages.
 * Errors    NP_EMEM.
 */
#ifndef NP_PLAN_STAGE_MEMORY_H
#define NP_PLAN_STAGE_MEMORY_H

#include "plan/plan.h"
#include "sched/disk.h"

struct np_stage_memory {
    uint64_t flights; /* slots, gradient sums and scratch: always there */
    uint64_t replica; /* of each other replica: flights without sums, which it shares with the first
                         as it does layers; or, if np_plan_apart, with sums and copies of weights,
                         and layers that it updates */
    uint64_t shared;  /* stem and head: always there */
    uint64_t layers;  /* all candidates at home here: may be elsewhere, if np_plan_swaps */
    uint64_t copies;  /* of their weights, where replicas that are apart update them in turn */
    uint64_t largest; /* of all that may run here: the least that must fit beside the rest */
};

/* What a layer takes; 0: it has no weights. And what copies of its weights do, of all versions. */
uint64_t np_memory_layer(const struct np_supernet *net, uint32_t layer);
uint64_t np_memory_copies(const struct np_supernet *net, uint32_t layer);

/* memory[stages] under the plan's cut, flights in flight and micro-batches. */
enum np_status np_memory_stages(struct np_stage_memory *memory, const struct np_plan *plan,
                                const struct np_supernet *net, struct np_error *err);
/* plan->stage_bytes, the sums of these. */
enum np_status np_memory_fill(struct np_plan *plan, const struct np_supernet *net,
                              struct np_error *err);

/* What all stages come to hold in one memory, once every layer has been there; a stash counts
 * unless it is a file. */
enum np_status np_memory_total(uint64_t *total, const struct np_plan *plan, bool filed,
                               const struct np_supernet *net, struct np_error *err);

/* The least memory of a stage with which the plan can be run; replicas share layers that stay. */
enum np_status np_memory_least(uint64_t *least, const struct np_plan *plan,
                               const struct np_supernet *net, struct np_error *err);

/* NP_EINPUT: the plan needs more than its device memory, if it has one. */
enum np_status np_memory_check(const struct np_plan *plan, const struct np_supernet *net,
                               struct np_error *err);

/* What the device memory of a plan that np_plan_swaps leaves: room[stages] for candidates, and
 * bytes[layers] that each of them takes there; 0: it is stem or head, or has no weights. NP_EINPUT:
 * the plan needs more. */
enum np_status np_memory_room(uint64_t *room, uint64_t *bytes, const struct np_plan *plan,
                              const struct np_supernet *net, struct np_error *err);

/* What a copy takes, in nanoseconds, to and from a file on such a disk; zeros: the stash is memory,
 * where blocks change hands: nothing. */
struct np_copy_speed np_memory_copy_speed(const struct np_disk_bandwidth *disk);

/* bytes[positions]: what each position adds to a stage with so many flights in flight and room for
 * `resident` of its candidates, as large as the largest. What does not add up (scratch, which takes
 * the largest, the largest candidate if none is resident, whole pages) is at most `beside`. */
enum np_status np_memory_positions(uint64_t *bytes, uint64_t *beside, const struct np_plan *plan,
                                   int in_flight, int resident, const struct np_supernet *net,
                                   struct np_error *err);

#endif
