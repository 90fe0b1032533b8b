/* Body of kernels_<isa>.c, the tables of the SIMD backends: everything that has no file of its own
 * per instruction set. Private to num/.
 */
#ifndef NP_NUM_KERNELS_SIMD_H
#define NP_NUM_KERNELS_SIMD_H

#include "num/activation_simd.h"
#include "num/avg_pool_simd.h"
#include "num/backend.h"
#include "num/colnorm_simd.h"
#include "num/columns_simd.h"
#include "num/draw_simd.h"
#include "num/elementwise_loops.h"
#include "num/embedding_loops.h"
#include "num/kernels_table.h"
#include "num/max_pool_simd.h"
#include "num/merge_simd.h"
#include "num/norm_simd.h"
#include "num/optimizer_simd.h"
#include "num/random_loops.h"
#include "num/rotary_loops.h"

#endif
