/* Kernels of num/kernels.h: element by element without a transcendental function. */
#ifndef NP_NUM_ELEMENTWISE_LOOPS_H
#define NP_NUM_ELEMENTWISE_LOOPS_H

#include <string.h>

#include "num/elementary.h"
#include "num/loops.h"

static void bias_add(struct np_team *team, float *y, const float *x, const float *bias, size_t rows,
                     size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = x + r * cols;
        float *out = y + r * cols;
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++)
            out[j] = in[j] + bias[j];
    }
}

static void col_total(struct np_team *team, float *out, const float *x, size_t segments,
                      size_t chunks, size_t cols)
{
    struct np_share share = np_team_share(team, segments * cols, NP_SHARE_UNIT);
    for (size_t i = share.begin, n; i < share.end; i += n) {
        const float *chunk = x + i / cols * chunks * cols + i % cols;
        float *sum = out + i;
        n = np_min(cols - i % cols, share.end - i);
        memcpy(sum, chunk, n * sizeof *sum);
        for (size_t k = 1; k < chunks; k++) {
            chunk += cols;
            NP_INDEPENDENT
            for (size_t j = 0; j < n; j++)
                sum[j] = sum[j] + chunk[j];
        }
    }
}

static bool all_finite(struct np_team *team, const float *x, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint32_t bad = 0;
    for (size_t i = share.begin; i < share.end; i++)
        bad |= np_not_finite(x[i]);
    return !bad;
}

static void zero(struct np_team *team, float *y, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    memset(y + share.begin, 0, (share.end - share.begin) * sizeof *y);
}

#endif
