/* The reference backend: what every other one is compared with, and what runs where there is none.
 */
#include "num/activation_scalar.h"
#include "num/backend.h"
#include "num/colnorm_scalar.h"
#include "num/columns_scalar.h"
#include "num/draw_scalar.h"
#include "num/elementwise_loops.h"
#include "num/embedding_loops.h"
#include "num/kernels_table.h"
#include "num/merge_scalar.h"
#include "num/norm_scalar.h"
#include "num/optimizer_scalar.h"
#include "num/pool_scalar.h"
#include "num/random_loops.h"
#include "num/rotary_loops.h"

NP_TABLE(scalar);
