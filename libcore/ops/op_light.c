/* Lightweight convolution: a causal depthwise convolution whose kernel is the softmax of the head's
 * logits; head h serves channels h*C/heads and on.
 *
 * The logits' gradient goes through sums over the channels of a head and through the softmax. These
 * are not chunked sums over rows, so they are made once a grain, and the grains are added in order:
 * a cut of the mini-batch at a grain's border changes nothing. */
#include "ops/operator.h"

enum { LOGITS = NP_OWN };

static void lay(struct np_pass *pass)
{
    size_t logits = pass->kind->tensors[LOGITS].count, taps = (pass->pad + 1) * pass->width;
    pass->soft = np_slab_take(&pass->saved, logits);
    pass->taps = np_slab_take(&pass->saved, taps);
    pass->dtaps = np_slab_take(&pass->work, taps);
    pass->dsoft[0] = np_slab_take(&pass->work, logits);
    pass->dsoft[1] = np_slab_take(&pass->work, logits);
    pass->dlogits = np_slab_take(&pass->work, logits);
}

/* soft [heads][taps] -> taps [taps][C] */
static void spread(struct np_pass *pass)
{
    size_t heads = (size_t)pass->kind->spec.heads, taps = pass->pad + 1;
    struct np_share share = np_team_share(pass->team, taps, 1);
    for (size_t tap = share.begin; tap < share.end; tap++)
        for (size_t c = 0; c < pass->width; c++)
            pass->taps[tap * pass->width + c] = pass->soft[c / (pass->width / heads) * taps + tap];
}

static void forward(struct np_pass *pass, float *r)
{
    pass->kernels->softmax(pass->team, pass->soft, np_pass_tensor(pass, LOGITS),
                           (size_t)pass->kind->spec.heads, pass->pad + 1);
    np_team_wait(pass->team);
    spread(pass);
    np_team_wait(pass->team);
    pass->kernels->dwconv(pass->team, r, pass->xn, pass->taps, pass->call->samples, pass->length,
                          pass->width, pass->pad + 1);
    np_team_wait(pass->team);
}

static void backward(struct np_pass *pass, float *scratch, const float *dr)
{
    (void)scratch;
    pass->kernels->dwconv_grad(pass->team, pass->dxn, dr, pass->taps, pass->call->samples,
                               pass->length, pass->width, pass->pad + 1);
    np_team_wait(pass->team);
}

/* dlogits of samples first .. first+samples-1. */
static void grain_gradient(struct np_pass *pass, float *dlogits, const float *dr, size_t first,
                           size_t samples)
{
    const struct np_kernels *kernels = pass->kernels;
    size_t heads = (size_t)pass->kind->spec.heads, taps = pass->pad + 1;
    const float *x = pass->xn + first * (pass->pad + pass->length) * pass->width;
    const float *dy = dr + first * pass->length * pass->width;
    kernels->dwconv_grad_weight(pass->team, pass->dtaps, x, dy, samples, pass->length, pass->width,
                                taps, 0, false);
    np_team_wait(pass->team);
    kernels->rowsum(pass->team, pass->dsoft[0], pass->dtaps, taps * heads, pass->width / heads);
    np_team_wait(pass->team);
    kernels->transpose(pass->team, pass->dsoft[1], pass->dsoft[0], taps, heads);
    np_team_wait(pass->team);
    kernels->softmax_grad(pass->team, dlogits, pass->soft, pass->dsoft[1], heads, taps);
    np_team_wait(pass->team);
}

static void weight(struct np_pass *pass, float *g, const float *dr, bool accumulate)
{
    float *sum = np_pass_gradient(pass, g, LOGITS);
    size_t grain = pass->call->grain, samples = pass->call->samples;
    for (size_t first = 0; first < samples; first += grain) {
        bool add = accumulate || first > 0;
        grain_gradient(pass, add ? pass->dlogits : sum, dr, first,
                       grain < samples - first ? grain : samples - first);
        if (add)
            pass->kernels->add(pass->team, sum, sum, pass->dlogits,
                               pass->kind->tensors[LOGITS].count);
        np_team_wait(pass->team);
    }
}

const struct np_branch np_branch_lightconv = {lay, forward, backward, weight};
