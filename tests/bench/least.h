/* The least time of a kernel and of what it is compared with, taken by turns in several visits, so
 * that a while in which others were at work, or the clock was low, spoils neither.
 */
#ifndef NP_BENCH_LEAST_H
#define NP_BENCH_LEAST_H

#include <math.h>

#include "timing.h"

#define BENCH_VISITS 6

struct bench_least {
    double kernel, roof; /* seconds; begin as INFINITY */
};

static inline double bench_sooner(double best, double begin)
{
    double took = bench_seconds(1) - begin;
    return took > 0 && took < best ? took : best; /* clocks of guests may stand still */
}

/* One visit: KERNEL and ROOF, twice at least, for some milliseconds. */
#define BENCH_VISIT(least, KERNEL, ROOF)                                                           \
    do {                                                                                           \
        double bench_first = bench_seconds(1), bench_at;                                           \
        for (int run = 0; run < 2 || (bench_seconds(1) - bench_first < 0.008 && run < 500);        \
             run++) {                                                                              \
            bench_at = bench_seconds(1);                                                           \
            KERNEL;                                                                                \
            (least)->kernel = bench_sooner((least)->kernel, bench_at);                             \
            bench_at = bench_seconds(1);                                                           \
            ROOF;                                                                                  \
            (least)->roof = bench_sooner((least)->roof, bench_at);                                 \
        }                                                                                          \
    } while (0)

#endif
