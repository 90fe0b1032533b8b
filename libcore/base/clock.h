/* The clock of all that is measured or waited for: it never jumps, whatever becomes of the date. */
#ifndef NP_BASE_CLOCK_H
#define NP_BASE_CLOCK_H

#include <time.h>

/* Nanoseconds since some moment before the program began. */
static inline double np_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline double np_now_s(void)
{
    return np_now_ns() * 1e-9;
}

#endif
