/* A layer operator run by ops/, or plainly: whole or in micro-batches, by a backend and a team, and
 * what came of it.
 */
#ifndef NP_TEST_OP_RUNS_H
#define NP_TEST_OP_RUNS_H

#include "layer_cases.h"
#include "ops/op.h"

enum { SAMPLES = 8, GRAIN = 2, SEED = 7, STEP = 5, LAYER = 2, THREADS = 4 };

/* A layer with its inputs, for SAMPLES samples. */
struct setting {
    struct np_kind kind;
    bool head, whole; /* whole: batch norm, which wants the mini-batch in one piece */
    size_t rows;      /* targets */
    float *w, *x, *memory, *sum, *images, *dy, *base, *memory_base;
    float *soft; /* what later members learn from */
    int32_t *tokens, *source, *targets, *lengths;
};

enum base { NONE, APART, IN_PLACE };

/* What F saves: B and W find it; it is computed again for B; and with what B leaves again for W. */
enum saved { KEPT, AGAIN, TWICE };

/* How to run it. */
struct plan {
    int backend;
    int threads, members;
    size_t micro; /* samples a micro-batch */
    enum base base;
    bool plain; /* not by ops/, but plainly */
    enum saved saved;
};

/* What came of it. */
struct outcome {
    float *y, *dx, *dmemory, *g, *loss; /* y: losses of a head; all but g the last member's */
    float *soft;                        /* of a head that distills: the first member's */
    bool finite[THREADS];
};

/* Floats of SAMPLES samples. */
size_t op_floats(struct np_shape shape);

/* Of a layer case. */
void op_setting_init(struct setting *s, int index);
void op_setting_clear(struct setting *s);
/* Its kind's, until the next call. */
const char *op_name(const struct setting *s);

struct outcome op_run(const struct setting *s, struct plan plan);
void op_outcome_clear(struct outcome *o);
/* Bit for bit, what the kind has. */
bool op_same(const struct setting *s, const struct outcome *a, const struct outcome *b);

#endif
