/* What one team of np_profile_bench computes with: a layer of every kind, and what their operators
 * read and write, in one slab. Private to plan/profile*.c.
 *
 * Shapes    samples[kinds]: how many samples each kind is run with.
 */
#ifndef NP_PLAN_PROFILE_STAGE_H
#define NP_PLAN_PROFILE_STAGE_H

#include "data/data.h"
#include "num/device.h"
#include "ops/op.h"
#include "plan/profile.h"

enum np_bench_op { NP_BENCH_F, NP_BENCH_B, NP_BENCH_W, NP_BENCH_UPDATE, NP_BENCH_COUNT };

struct np_bench_stage {
    const struct np_supernet *net;
    struct np_op_call *call; /* [kinds] */
    float **weights;         /* [kinds] those that calls read */
    float **gradient;        /* [kinds] */
    float **moments;         /* [kinds][2] */
    struct np_batch batch;
    float *x, *memory, *sum, *y, *dx, *dmemory, *dy, *work, *loss; /* of the largest kind */
    bool sums;     /* gradients are added to what is there, as by all but the first of a step's W */
    float *agreed; /* of the host */
    float *print;  /* where a device adds fingerprints */
    float *slab;
    const struct np_device *device; /* the slab's; NULL: the host */
};

enum np_status np_bench_stage_init(struct np_bench_stage *stage, const struct np_supernet *net,
                                   const struct np_profile_config *config, const size_t *samples,
                                   struct np_error *err);
void np_bench_stage_clear(struct np_bench_stage *stage);

/* Makes the weights; then runs one operator of a kind: both by all members of a team. */
void np_bench_stage_begin(const struct np_bench_stage *stage, struct np_team *team);
void np_bench_stage_run(const struct np_bench_stage *stage, struct np_team *team,
                        enum np_bench_op op, int kind);
/* False if the kind has no such operator. */
bool np_bench_stage_has(const struct np_bench_stage *stage, enum np_bench_op op, int kind);

#endif
