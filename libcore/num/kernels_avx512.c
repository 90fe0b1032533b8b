/* The AVX-512 backend. */
#if defined(__x86_64__)
#include "num/activation_loops.h"
#include "num/backend.h"
#include "num/columns_simd.h"
#include "num/dwconv_simd.h"
#include "num/elementwise_loops.h"
#include "num/embedding_loops.h"
#include "num/kernels_table.h"
#include "num/norm_simd.h"
#include "num/optimizer_loops.h"
#include "num/random_loops.h"

NP_TABLE(avx512);
#endif
