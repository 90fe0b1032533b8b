#include "num/dwconv_weight_simd.h"
