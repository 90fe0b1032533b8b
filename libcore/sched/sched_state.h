/* The scheduler's state, shared by its own files only.
 *
 * Known steps live in a ring of slots. What is needed per activation of a layer is a `struct
 * np_use`, at node (slot, member, position); per micro-batch there is only a byte of flags. A layer
 * knows its last user, a user its next one: that FIFO replaces every search for conflicts, since
 * exactly one step may use a layer at a time.
 */
#ifndef NP_SCHED_STATE_H
#define NP_SCHED_STATE_H

#include <stddef.h>

#include "sched/balance.h"
#include "sched/ready.h"
#include "sched/sched.h"

#define NP_HORIZON 12 /* steps whose longest paths are computed */
#define NP_NO_NODE UINT32_MAX
#define NP_NO_MEMBER UINT16_MAX

enum np_flight_flag {
    NP_HAS_INPUT = 1, /* the activation for F is there */
    NP_B_ENDED = 2,   /* W may run */
    NP_LED = 4        /* the first member's F has ended */
};

/* One activation of a layer. Members of one step with the same layer form a chain; its first member
 * owns the FIFO link and the turn. */
struct np_use {
    uint32_t layer;
    struct np_layer_cost cost;
    uint32_t next; /* owner: the node that owns the layer in the next step that activates it */
    uint16_t same; /* the next member of this step with this layer */
    uint16_t last; /* owner: the last member of the chain */
    uint16_t owner;
    uint16_t turn_member, turn_micro; /* owner: the contribution whose turn it is */
    bool learns;                      /* has W tasks and versions */
    bool waits;                       /* owner: an earlier step still has to update the layer */
};

/* Longest remaining paths from the start of a task; f and b at the first position of a unit. */
struct np_tail {
    float f, b, w;
};

struct np_unit {
    uint16_t first, count;
};

struct np_step {
    uint64_t number;
    float piece; /* time of one (member, micro-batch) on a stage, on average */
};

/* The flights at a device. */
struct np_lane {
    uint64_t retired;   /* the oldest so many flights are retired here */
    uint64_t in_flight; /* and so many after them may begin */
};

struct np_sched {
    struct np_sched_config config; /* its arrays point into this block */
    struct np_sched_share share;   /* of a replica */
    uint32_t slot_mask;
    int units;
    int woken_first, woken_last; /* devices that the last task that ended let begin something */
    uint64_t base;               /* the oldest step that is not complete */
    uint64_t known;              /* steps pushed */
    uint64_t open;               /* steps below may start: base + window, as far as known */
    uint64_t started;            /* 1 + the last step of which a task was handed out */
    uint64_t last;               /* np_sched_stop_after */
    bool stale;                  /* the priorities do not match the known steps */

    struct np_step *step;     /* [slots] */
    uint16_t *begins;         /* [slots][stages + 1]: a step's cut, by stage */
    uint16_t *stage;          /* [slots][positions]: and by position */
    struct np_use *use;       /* [slots][members][positions] */
    struct np_tail *tail;     /* the same; valid for the NP_HORIZON oldest steps */
    uint16_t *blocked;        /* [slots][members][units]: layers of F that are not free yet */
    uint8_t *flags;           /* [slots][members][units][micro_batches]: enum np_flight_flag */
    uint16_t *lacking;        /* [slots][members][micro_batches][stages]: what a flight lacks to
                               * be retired: its tasks there, and that it is at the next stage */
    uint32_t *last_user;      /* [layers]: owner node of the last known user not yet ended */
    uint64_t *shared_updates; /* [positions]: updates of an NP_SHARED_DELAY position */
    struct np_unit *unit;     /* [units] */
    uint16_t *unit_of;        /* [positions] */
    struct np_ready *ready;   /* [devices] */
    struct np_lane *lane;     /* [devices] */
    float *load;              /* [positions]: of a step; scratch of its cut, as is: */
    double *balance;          /* [np_balance_scratch] */
};

static inline uint32_t np_slot(const struct np_sched *s, uint64_t step)
{
    return (uint32_t)step & s->slot_mask;
}

static inline uint32_t np_node(const struct np_sched *s, uint32_t slot, uint32_t member,
                               uint32_t position)
{
    return (slot * (uint32_t)s->config.members + member) * (uint32_t)s->config.positions + position;
}

static inline uint32_t np_slot_of_node(const struct np_sched *s, uint32_t node)
{
    return node / (uint32_t)s->config.positions / (uint32_t)s->config.members;
}

/* Stage k takes positions begins[k] .. begins[k + 1] - 1 of a step. */
static inline uint16_t *np_begins(const struct np_sched *s, uint32_t slot)
{
    return s->begins + (size_t)slot * ((size_t)s->config.stages + 1);
}

static inline uint16_t *np_stages(const struct np_sched *s, uint32_t slot)
{
    return s->stage + (size_t)slot * (uint32_t)s->config.positions;
}

static inline size_t np_flight(const struct np_sched *s, uint32_t slot, uint32_t member,
                               uint32_t unit)
{
    return ((size_t)slot * (uint32_t)s->config.members + member) * (uint32_t)s->units + unit;
}

/* Flights of a step on a replica. */
static inline int np_pieces(const struct np_sched *s)
{
    return np_sched_flights_of(&s->share);
}

static inline int np_device(const struct np_sched *s, uint32_t member, uint32_t micro, int stage)
{
    return np_sched_replica_of(&s->share, (int)member, (int)micro) * s->config.stages + stage;
}

static inline uint64_t np_flight_number(const struct np_sched *s, uint32_t slot, uint32_t member,
                                        uint32_t micro)
{
    return np_sched_flight_of(&s->share, s->step[slot].number, (int)member, (int)micro);
}

static inline uint16_t *np_lacking(const struct np_sched *s, uint32_t slot, uint32_t member,
                                   uint32_t micro)
{
    size_t piece =
        ((size_t)slot * (uint32_t)s->config.members + member) * (uint32_t)s->config.micro_batches +
        micro;
    return s->lacking + piece * (uint32_t)s->config.stages;
}

static inline struct np_balance np_balance_of(const struct np_sched_config *c)
{
    return (struct np_balance){c->positions, c->stages, c->stage_first, c->unit, c->reach};
}

/* One more known step, of which nothing may begin yet. */
void np_sched_enter(struct np_sched *s, const uint16_t *choices);

/* The key of a ready task: its longest remaining path, the oldest step among equals. */
uint64_t np_priority_key(const struct np_sched *s, const struct np_ready_entry *entry);
/* Computes the longest paths of the oldest steps anew, and the order of the ready tasks. */
void np_priority_refresh(struct np_sched *s);

#endif
