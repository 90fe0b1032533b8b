/* Every kernel that is neither a product nor of images, and what it takes: for bench_kernels.
 */
#ifndef NP_BENCH_KERNEL_RUNS_H
#define NP_BENCH_KERNEL_RUNS_H

#include "num/kernels.h"
#include "roofs.h"
#include "timing.h"

struct bench_kernel {
    const char *name;
    void (*run)(const struct np_kernels *, struct bench_data *);
    const struct bench_roof *roof;
    int arrays; /* of rows x BENCH_COLS floats that pass */
    /* For each vector of such an array, by num/kernels.h and num/elementary.h alone, with the
     * fewest operations of AVX2 that we know: a selection is a comparison and one more, a look
     * whether something is finite two. Loads, stores and what is done once a row do not count. */
    struct bench_work work;
};

extern const struct bench_kernel bench_kernels[];
extern const size_t bench_kernel_count;

#endif
