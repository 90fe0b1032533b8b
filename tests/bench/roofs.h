/* What memory allows: plain loops over as many arrays as kernels read and write, and the arrays.
 */
#ifndef NP_BENCH_ROOFS_H
#define NP_BENCH_ROOFS_H

#include <stddef.h>
#include <stdint.h>

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

struct bench_roof {
    void (*run)(struct bench_data *);
    int arrays; /* of rows x BENCH_COLS floats that pass */
};

/* update_n: n arrays are read and written, one more is read. */
extern const struct bench_roof bench_read, bench_write, bench_read_1_write_1, bench_read_2_write_1,
    bench_read_3_write_1, bench_read_2_write_2, bench_update_1, bench_update_2, bench_update_3;

#endif
