/* What memory allows: plain loops over as many arrays as kernels read and write.
 */
#ifndef NP_BENCH_ROOFS_H
#define NP_BENCH_ROOFS_H

#include <stddef.h>

struct bench_roof {
    void (*run)(float *const *a, size_t floats); /* of as many of a */
    int arrays;                                  /* how many pass */
};

/* update_n: n arrays are read and written, the fourth is read or, write_1, the third written. */
extern const struct bench_roof bench_read, bench_read_2, bench_write, bench_read_1_write_1,
    bench_read_1_write_2, bench_read_2_write_1, bench_read_3_write_1, bench_read_2_write_2,
    bench_read_3_write_2, bench_update_1, bench_update_2, bench_update_2_write_1, bench_update_3;

#endif
