/* Scalar reference of num/kernels.h: optimizer updates with the fingerprint of what they write. */
#ifndef NP_NUM_OPTIMIZER_SCALAR_H
#define NP_NUM_OPTIMIZER_SCALAR_H

#include "num/optimizer_element.h"

static uint64_t fingerprint(struct np_team *team, const float *x, size_t count, uint64_t address)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint64_t sum = 0;
    for (size_t i = share.begin; i < share.end; i++)
        sum += np_fingerprint_mix(address + i, np_float_bits(x[i]));
    return sum;
}

static bool adamw_tensor(struct np_team *team, const struct np_update *u, uint64_t *sum)
{
    struct np_share share = np_team_share(team, u->count, NP_SHARE_UNIT);
    float scale = clip_scale(u);
    struct tally tally = {*sum, scale > 0};
    for (size_t i = share.begin; i < share.end; i++)
        adamw_element(u, scale, i, &tally);
    *sum = tally.sum;
    return tally.finite;
}

static bool sgd_tensor(struct np_team *team, const struct np_update *u, uint64_t *sum)
{
    struct np_share share = np_team_share(team, u->count, NP_SHARE_UNIT);
    float scale = clip_scale(u);
    struct tally tally = {*sum, scale > 0};
    for (size_t i = share.begin; i < share.end; i++)
        sgd_element(u, scale, i, &tally);
    *sum = tally.sum;
    return tally.finite;
}

NP_LAYER_UPDATE(adamw)
NP_LAYER_UPDATE(sgd)

#endif
