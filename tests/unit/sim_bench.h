/* What tests of the simulator run: a space of blocks x candidates with equal costs, and a stream of
 * its subnets, drawn or read. Everything asserts. */
#ifndef NP_TEST_SIM_BENCH_H
#define NP_TEST_SIM_BENCH_H

#include <stdio.h>

#include "sched/sim.h"

enum { MOST_POSITIONS = 112, MOST_LAYERS = 48 * 96, MOST_STAGES = 64 };

struct bench {
    uint32_t layer_first[MOST_POSITIONS + 1];
    enum np_shared_kind kind[MOST_POSITIONS];
    struct np_layer_cost cost[MOST_LAYERS];
    bool weightless[MOST_LAYERS];
    int stage_first[MOST_STAGES + 1], in_flight[MOST_STAGES];
    struct np_sim_config config;
    uint64_t steps, at;
    bool fair;    /* members are a random permutation of the candidates, at every block */
    FILE *stream; /* NULL: drawn */
    double last_end[MOST_STAGES];
    uint64_t order;
    struct np_sim_memory memory;
    uint64_t bytes[MOST_LAYERS], room[MOST_STAGES], held[MOST_STAGES], most[MOST_STAGES];
    struct np_sim_stage sums[MOST_STAGES];
};

uint32_t bench_draw(uint64_t step, int member, int position, uint32_t below);

/* Equal stages, 400 drawn steps, everything else as simple as can be. */
void bench_open(struct bench *b, int blocks, int candidates, int stages, int micro_batches);
struct np_sim_report bench_run(struct bench *b, enum np_sim_schedule schedule);

/* np_sim_config's on_task: no two tasks of a device overlap. */
void bench_note_order(void *bench, const struct np_span *span);

/* The published stream of 112 x 24; NULL where it is not, and then said. */
FILE *bench_published(void);

/* Equal but for rounding. */
void bench_near(double value, double expected);

#endif
