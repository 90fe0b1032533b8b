#include "num/gemm_simd.h"
