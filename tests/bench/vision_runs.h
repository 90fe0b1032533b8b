/* Every kernel of images, the shapes it runs over and what it takes: for bench_vision.
 */
#ifndef NP_BENCH_VISION_RUNS_H
#define NP_BENCH_VISION_RUNS_H

#include "num/kernels.h"
#include "roofs.h"
#include "units.h"

#define VISION_ARRAYS 5

/* What a run works on; the arrays hold as many floats as the largest case wants. */
struct vision_data {
    float *a[VISION_ARRAYS], weights[1 << 16], columns[6][1 << 19];
    int32_t *which;
};

/* size: high and wide; below 0: a causal sequence as long. Norms: kernel is the activation, stride
 * 2 means a segment a sample. */
struct vision_shape {
    int size, channels, kernel, stride;
};

struct vision_case {
    const struct np_kernels *k;
    struct vision_data *d;
    struct vision_shape s;
    size_t samples, rows; /* of the input, samples * positions */
    struct np_conv conv;
    struct np_colnorm norm;
};

enum vision_kind { CONVS, POOLS, NORMS, MERGES };

struct vision_set {
    const struct vision_shape *list;
    size_t count;
};

extern const struct vision_set vision_sets[]; /* of a kind */

/* in, out: arrays of the size of x and of y that pass; roof: a loop that reads and writes as many.
 * For each vector of y: `each`, and tap for each tap of it that is inside the image; the first tap
 * of a max pool needs no comparison, choice of a tap, and maximum. act: what an activation adds, or
 * NULL; indices are those of enum np_act. */
struct vision_kernel {
    const char *name;
    void (*run)(const struct vision_case *);
    enum vision_kind kind;
    int in, out;
    const struct bench_roof *roof;
    struct bench_work tap, each;
    const struct bench_work *act;
};

extern const struct vision_kernel vision_kernels[];
extern const size_t vision_kernel_count;

/* Before run: what a kernel reads of another's results. */
void vision_prepare(const struct vision_kernel *k, const struct vision_case *b);

#endif
