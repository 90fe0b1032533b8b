/* The AVX2 backend. */
#include "num/kernels_simd.h"

NP_TABLE(avx2);
