/* The AVX-512 backend. */
#include "num/kernels_simd.h"

NP_TABLE(avx512);
