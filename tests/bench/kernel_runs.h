/* Every kernel that is neither a product nor of images, and what it takes: for bench_kernels.
 */
#ifndef NP_BENCH_KERNEL_RUNS_H
#define NP_BENCH_KERNEL_RUNS_H

#include "num/kernels.h"
#include "roofs.h"
#include "units.h"

#define BENCH_ARRAYS 5
#define BENCH_COLS 1024
#define BENCH_MOST_ROWS 8192

/* What a run works on: rows x BENCH_COLS floats of each array it needs, or twice as many. */
struct bench_data {
    float *a[BENCH_ARRAYS];               /* BENCH_MOST_ROWS x 2 BENCH_COLS each */
    float vector[4][2 * BENCH_MOST_ROWS]; /* for a row, or an element of each row */
    int32_t tokens[BENCH_MOST_ROWS];      /* less than 256 */
    size_t rows;
};

struct bench_kernel {
    const char *name;
    void (*run)(const struct np_kernels *, struct bench_data *);
    const struct bench_roof *roof;
    int arrays; /* of rows x BENCH_COLS floats that pass */
    /* A selection is a comparison and LOGIC, or SELECT where signs choose; a look whether something
     * is finite is ADD and LOGIC. Loads and stores count where a row must be read again, or
     * something else for each of its elements. What is done once a row does not count. */
    struct bench_work work;
};

extern const struct bench_kernel bench_kernels[];
extern const size_t bench_kernel_count;

#endif
