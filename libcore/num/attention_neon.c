#include "num/attention_simd.h"
