/* Multi-head causal self-attention: out(attention(qkv(xn))). */
#include "ops/operator.h"

enum { QKV = NP_OWN, QKV_BIAS, OUT, OUT_BIAS };

static void lay(struct np_pass *pass)
{
    size_t heads = (size_t)pass->kind->spec.heads;
    pass->u = np_slab_take(&pass->saved, pass->rows * 3 * pass->width);
    pass->h = np_slab_take(&pass->saved, pass->rows * pass->width);
    pass->stats = np_slab_take(&pass->saved, pass->rows * heads * 2);
    pass->du = np_slab_take(&pass->delta, pass->rows * 3 * pass->width);
}

static struct np_attention attention_of(const struct np_pass *pass)
{
    return (struct np_attention){.samples = pass->call->samples,
                                 .length = pass->length,
                                 .width = pass->width,
                                 .heads = (size_t)pass->kind->spec.heads,
                                 .qkv = pass->u};
}

static void forward(struct np_pass *pass, float *r)
{
    struct np_attention attention = attention_of(pass);
    np_linear_forward(pass, pass->u, pass->xn, QKV);
    np_bias_forward(pass, pass->u, QKV_BIAS);
    pass->kernels->attention(pass->team, pass->h, pass->stats, &attention);
    np_team_wait(pass->team);
    np_linear_forward(pass, r, pass->h, OUT);
    np_bias_forward(pass, r, OUT_BIAS);
}

static void backward(struct np_pass *pass, float *scratch, const float *dr)
{
    struct np_attention attention = attention_of(pass);
    np_linear_backward(pass, scratch, dr, OUT);
    pass->kernels->attention_grad(pass->team, pass->du, scratch, pass->stats, &attention);
    np_team_wait(pass->team);
    np_linear_backward(pass, pass->dxn, pass->du, QKV);
}

static void weight(struct np_pass *pass, float *g, const float *dr, bool accumulate)
{
    np_linear_weight(pass, g, pass->xn, pass->du, QKV, accumulate);
    np_bias_weight(pass, g, pass->du, QKV_BIAS, accumulate);
    np_linear_weight(pass, g, pass->h, dr, OUT, accumulate);
    np_bias_weight(pass, g, dr, OUT_BIAS, accumulate);
}

const struct np_branch np_branch_mha = {lay, forward, backward, weight};
