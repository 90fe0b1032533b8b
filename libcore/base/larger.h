/* The larger of two sizes or counts. */
#ifndef NP_BASE_LARGER_H
#define NP_BASE_LARGER_H

#include <stdint.h>

static inline uint64_t np_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
