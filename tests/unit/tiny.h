/* Tiny supernets, with every kind of candidate, on made-up data: for tests of whole runs.
 *
 * tiny_make_files and tiny_remove_files are an unchecked fixture; everything else asserts. */
#ifndef NP_TEST_TINY_H
#define NP_TEST_TINY_H

#include "exec/train.h"
#include "plan/partition.h"
#include "space/sampler.h"

#define TINY_STEPS 10
#define TINY_MEMBERS 8
#define TINY_BLOCKS 40

extern char tiny_directory[];

enum tiny_kind {
    TINY_TEXT,
    TINY_IMAGES, /* batch norm: one micro-batch */
    TINY_NORMS,  /* images with other norms */
    TINY_CELLS,
    TINY_PAIRS,
    TINY_LONG,
    TINY_TRANSLATE,
    TINY_STAGES,
    TINY_ACTS,
    TINY_BETWEEN,
    TINY_GRAPH,
    TINY_JOINS,
    TINY_ENTANGLED,
    TINY_SLICES,
    TINY_WIDTHS,
    TINY_NARROW,
    TINY_SIZES,
    TINY_ROTARY,
    TINY_RMS,
    TINY_KINDS
};

struct tiny {
    struct np_recipe recipe;
    struct np_supernet net;
    struct np_data *data;
    struct np_stream_shape shape;
    struct np_stream_block *each; /* of it */
    struct np_error err;
};

/* How a run is made; stages 0 is the sequential reference. */
struct tiny_shape {
    int stages, micro_batches, window, threads, unit;
    enum np_isa isa;
    uint64_t delay_seed;
    int in_flight; /* of every stage; 0: as the partitioner chooses; -1: no bound */
    int reach;     /* balanced cuts; 0: static */
    int replicas;  /* 0: one */
    bool recompute;
};

/* What a run leaves behind: compared byte by byte. */
struct tiny_outcome {
    struct np_state *state;
    uint64_t steps;
    uint64_t fingerprints[TINY_STEPS];
    float losses[TINY_STEPS][TINY_MEMBERS];
};
/* np_train_hooks' step, with a struct tiny_outcome as context. */
enum np_status tiny_on_step(void *outcome, const struct np_step_record *record,
                            struct np_error *err);

void tiny_make_files(void);
void tiny_remove_files(void);
void tiny_must(enum np_status status, const struct np_error *err);
/* By an evaluator that is made for it. */
enum np_status tiny_evaluate(struct np_score *scores, const struct np_train_config *config,
                             struct np_state *state, const struct np_engine *engine,
                             const struct np_evaluation *evaluation, struct np_error *err);

/* Opens a recipe with `count` overrides. */
void tiny_open(struct tiny *t, enum tiny_kind kind, const char *const *sets, size_t count);
void tiny_close(struct tiny *t);
/* Whether tests that loop over kinds try it, or over variants of one: under the thread sanitizer
 * one kind in four, and every other variant. */
bool tiny_is_tried(int kind);
bool tiny_varies(int variant);
/* The best instruction set there is, which test_engine's matrix compares with scalar code. */
enum np_isa tiny_best_isa(void);
/* That of an instruction set, or of the best where it is missing. */
const struct np_kernels *tiny_kernels(enum np_isa isa);
/* Whether the shape's replicas have the same share of a step each. */
bool tiny_may_share(const struct tiny *t, const struct tiny_shape *shape);
void tiny_plan(struct tiny *t, struct np_plan *plan, const struct tiny_shape *shape);
/* The recipe's stream from a step on. */
struct np_stream *tiny_stream(struct tiny *t, uint64_t first);

#endif
