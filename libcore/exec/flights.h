/* The storage of a stage's flights, as plan/flight_layout.h lays it out: taken from the stage's
 * arena when the engine is made.
 *
 * Errors    NP_EMEM.
 * Ownership the blocks belong to the arena; np_flights_clear releases the rest.
 */
#ifndef NP_EXEC_FLIGHTS_H
#define NP_EXEC_FLIGHTS_H

#include "base/arena.h"
#include "plan/flight_layout.h"

/* What an entry holds: what F, or F and B, left there of a position. */
enum np_held_what { NP_HELD_NOTHING, NP_HELD_FORWARD, NP_HELD_BACKWARD };

struct np_held {
    enum np_held_what what;
    int position;
    uint64_t flight;
};

struct np_flights {
    float *block[NP_FLIGHT_BLOCKS]; /* NULL: not needed */
    struct np_held *held;           /* [entries] */
};

/* sums: of the first replica's stage, whose gradient sums are used; NULL: it is the first. */
enum np_status np_flights_take(struct np_flights *flights, struct np_arena *arena,
                               const struct np_flight_stage *stage, const struct np_flights *sums,
                               struct np_error *err);

void np_flights_clear(struct np_flights *flights);

/* A part of a flight's slot; NULL if the layout gives it none. */
static inline float *np_flights_part(const struct np_flights *flights,
                                     const struct np_flight_stage *stage, uint64_t flight,
                                     size_t part)
{
    if (part == NP_NO_STORAGE)
        return NULL;
    return flights->block[NP_BLOCK_SLOTS] + (size_t)(flight % stage->slots) * stage->slot_floats +
           part;
}

/* A part of a position's entry, likewise. */
static inline float *np_flights_entry(const struct np_flights *flights,
                                      const struct np_flight_stage *stage, int position,
                                      size_t part)
{
    if (part == NP_NO_STORAGE)
        return NULL;
    return flights->block[NP_BLOCK_ENTRIES] +
           np_flight_entry(stage, position) * stage->entry_floats + part;
}

/* The scratch behind the entries. */
static inline float *np_flights_output(const struct np_flights *flights,
                                       const struct np_flight_stage *stage)
{
    return flights->block[NP_BLOCK_ENTRIES] + stage->entries * stage->entry_floats;
}

/* The gradient sum of a layer, number `candidate` of its position, which `owner` (np_step_owner)
 * owns. */
static inline float *np_flights_sum(const struct np_flights *flights,
                                    const struct np_flight_stage *stage, int position,
                                    uint64_t step, int owner, uint32_t candidate)
{
    const struct np_flight_place *place = np_flight_place(stage, position);
    size_t sum = (size_t)(step % stage->open_steps) * place->sums_a_step +
                 (place->sums_by_choice ? (size_t)candidate : (size_t)owner);
    return flights->block[NP_BLOCK_SUMS] + place->sums + sum * place->sum_floats;
}

/* The probabilities of a step's first member, of a micro-batch of the mini-batch; NULL: none. */
static inline float *np_flights_soft(const struct np_flights *flights,
                                     const struct np_flight_stage *stage, uint64_t step,
                                     size_t micro)
{
    if (stage->soft_floats == 0)
        return NULL;
    size_t number = (size_t)(step % stage->open_steps) * stage->soft_a_step;
    number += micro % stage->soft_a_step;
    return flights->block[NP_BLOCK_SOFT] + number * stage->soft_floats;
}

#endif
