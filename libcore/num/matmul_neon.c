#include "num/matmul_simd.h"
