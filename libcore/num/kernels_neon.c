/* The NEON backend. */
#include "num/kernels_simd.h"

NP_TABLE(neon);
