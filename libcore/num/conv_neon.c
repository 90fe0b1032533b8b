#include "num/conv_simd.h"
