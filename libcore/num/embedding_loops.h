/* Kernels of num/kernels.h: token and position embedding, and its scattered gradient. */
#ifndef NP_NUM_EMBEDDING_LOOPS_H
#define NP_NUM_EMBEDDING_LOOPS_H

#include "num/loops.h"

static void embed(struct np_team *team, float *y, const int32_t *tokens, const float *table,
                  const float *positions, size_t samples, size_t length, size_t cols)
{
    struct np_share share = np_team_share(team, samples * length, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *token = table + (size_t)tokens[r] * cols;
        const float *position = positions + r % length * cols;
        float *out = y + r * cols;
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++)
            out[j] = token[j] + position[j];
    }
}

/* Members take columns, so that each sees every row in order. */
static void embed_grad(struct np_team *team, float *dtable, float *dpositions,
                       const int32_t *tokens, const float *dy, size_t samples, size_t length,
                       size_t cols)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    for (size_t r = 0; r < samples * length; r++) {
        float *token = dtable + (size_t)tokens[r] * cols;
        float *position = dpositions + r % length * cols;
        const float *up = dy + r * cols;
        NP_INDEPENDENT
        for (size_t j = share.begin; j < share.end; j++) {
            token[j] = token[j] + up[j];
            position[j] = position[j] + up[j];
        }
    }
}

#endif
