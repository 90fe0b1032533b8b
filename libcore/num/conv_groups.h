/* Groups of a convolution that are one product: a part of conv_simd.h.
 *
 * All groups whose columns fit the scratch are worked on together, so that an image is read once,
 * not once for every group. Where groups have so few columns that a vector holds several, a vector
 * of columns is multiplied by one of channels, each lane by one of its own group.
 */
#ifndef NP_NUM_CONV_GROUPS_H
#define NP_NUM_CONV_GROUPS_H

#include <string.h>

#include "num/product_simd.h"

struct bundle {
    struct np_groups groups;
    size_t first, count, all, most; /* the bundle's, of all; and how many fit */
    int32_t order[NP_VW * NP_VW / 2];
};

/* Before the first bundle of `all` groups of `cols` columns of C, which have `depth` columns of A;
 * `inner` inner indices are packed at once. */
static void bundle_init(struct bundle *g, size_t all, size_t cols, size_t depth, size_t inner)
{
    size_t whole = NP_VW / cols, wide = (cols + NR - 1) / NR * NR;
    memset(g, 0, sizeof *g);
    g->groups = (struct np_groups){.cols = cols, .depth = depth};
    g->all = all;
    g->most = np_min(NP_GEMM_NC, NP_GEMM_B / inner) / wide;
    if (all > 1 && whole > 1 && depth <= cols && inner * NP_VW <= NP_GEMM_B) {
        g->groups.lanes = whole * cols;
        g->groups.order = g->order;
        g->most = np_min(NP_GEMM_NC, NP_GEMM_B / inner) / NP_VW * whole;
        for (size_t c = 0; c < depth; c++)
            for (size_t l = 0; l < g->groups.lanes; l++)
                g->order[c * NP_VW + l] = (int32_t)(l / cols * depth + c);
    }
    g->most = g->most > 0 ? g->most : 1;
}

/* False after the last. */
static bool next_bundle(struct bundle *g)
{
    g->first += g->count;
    g->count = np_min(g->most, g->all - g->first);
    return g->count > 0;
}

/* For struct product: NULL if the bundle is one group like any matrix. */
static const struct np_groups *bundle_groups(const struct bundle *g)
{
    return g->count > 1 || g->groups.lanes > 0 ? &g->groups : NULL;
}

/* Whether B may be read in place: its slivers are whole or half vectors. */
static bool can_be_in_place(const struct np_groups *groups)
{
    return !groups || (groups->lanes == 0 && groups->cols % WHOLE == 0);
}

#endif
