/* What CUDA says of a failure, as everything here tells it. Private to cuda/. */
#ifndef NP_CUDA_FAILURE_CUH
#define NP_CUDA_FAILURE_CUH

#include <cuda_runtime.h>

extern "C" {
#include "base/error.h"
}

static inline enum np_status cuda_fail(struct np_error *err, int number, const char *what,
                                       cudaError_t error)
{
    return np_fail(err, NP_EIO, "CUDA device %d: %s: %s", number, what, cudaGetErrorString(error));
}

#endif
