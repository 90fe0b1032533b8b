#include "cuda/launch.cuh"

#define ENTRY(name) .name = np_cuda_##name,

const struct np_kernels np_kernels_cuda = {.name = "cuda", NP_CUDA_ENTRIES(ENTRY)};
