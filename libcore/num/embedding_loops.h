/* Kernels of num/kernels.h: token and position embedding, and its scattered gradient. */
#ifndef NP_NUM_EMBEDDING_LOOPS_H
#define NP_NUM_EMBEDDING_LOOPS_H

#include <string.h>

#include "num/loops.h"

static void embed(struct np_team *team, float *y, const int32_t *tokens, const float *table,
                  const float *positions, size_t samples, size_t length, size_t cols)
{
    struct np_share share = np_team_share(team, samples * length, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *token = table + (size_t)tokens[r] * cols;
        float *out = y + r * cols;
        if (positions) {
            const float *position = positions + r % length * cols;
            NP_INDEPENDENT
            for (size_t j = 0; j < cols; j++)
                out[j] = token[j] + position[j];
        } else {
            memcpy(out, token, cols * sizeof *out);
        }
    }
}

/* sum = sum + x over a share of a row */
static void add_row(float *sum, const float *x, struct np_share cols)
{
    NP_INDEPENDENT
    for (size_t j = cols.begin; j < cols.end; j++)
        sum[j] = sum[j] + x[j];
}

/* Members take columns, so that each sees every row in order. */
static void embed_grad(struct np_team *team, float *dtable, float *dpositions,
                       const int32_t *tokens, const float *dy, size_t samples, size_t length,
                       size_t cols)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    for (size_t r = 0; r < samples * length; r++) {
        add_row(dtable + (size_t)tokens[r] * cols, dy + r * cols, share);
        if (dpositions)
            add_row(dpositions + r % length * cols, dy + r * cols, share);
    }
}

#endif
