/* y = x + dropout(branch(layernorm(x))), around every branch. */
#include "ops/operator.h"

static const struct np_branch *branch_of(const struct np_pass *pass)
{
    static const struct np_branch *const branches[] = {
        [NP_OP_MHA] = &np_branch_mha,
        [NP_OP_FFN] = &np_branch_ffn,
        [NP_OP_GLU] = &np_branch_glu,
        [NP_OP_CONV1D] = &np_branch_conv1d,
        [NP_OP_SEPCONV1D] = &np_branch_sepconv1d,
        [NP_OP_LIGHTCONV] = &np_branch_lightconv,
    };
    return branches[pass->kind->spec.op];
}

void np_residual_lay(struct np_pass *pass)
{
    np_norm_lay(pass);
    if (pass->kind->spec.dropout > 0.0f)
        pass->dr = np_slab_take(&pass->delta, pass->rows * pass->width);
    branch_of(pass)->lay(pass);
}

static bool drops(const struct np_pass *pass)
{
    return pass->call->train && pass->kind->spec.dropout > 0.0f;
}

/* A 32-bit word below p * 2^32 drops its element: exact, as p is a float below 1. The rest grows by
 * 1 / (1 - p), rounded once. Elements are counted over the mini-batch, so its cuts do not show. */
static void drop(struct np_pass *pass, float *y, const float *x)
{
    const struct np_op_call *call = pass->call;
    double p = (double)pass->kind->spec.dropout;
    struct np_draw_key key = np_draw_key(call->seed, NP_DRAW_DROPOUT, call->member, call->layer, 0);
    pass->kernels->dropout(pass->team, y, x, pass->rows * pass->width, key, call->step,
                           (uint64_t)call->first * pass->length * pass->width,
                           (uint32_t)(p * 0x1p32), (float)(1.0 / (1.0 - p)));
    np_team_wait(pass->team);
}

bool np_residual_forward(struct np_pass *pass, float *y, const float *x)
{
    bool finite;
    np_norm_forward(pass, x);
    branch_of(pass)->forward(pass, y);
    if (drops(pass))
        drop(pass, y, y);
    finite = pass->kernels->add(pass->team, y, x, y, pass->rows * pass->width);
    np_team_wait(pass->team);
    return finite;
}

bool np_residual_backward(struct np_pass *pass, float *dx, const float *x, const float *dy)
{
    if (drops(pass))
        drop(pass, pass->dr, dy);
    branch_of(pass)->backward(pass, dx, drops(pass) ? pass->dr : dy);
    return np_norm_backward(pass, dx, dy, x);
}

void np_residual_weight(struct np_pass *pass, float *g, const float *x, const float *dy,
                        bool accumulate)
{
    branch_of(pass)->weight(pass, g, drops(pass) ? pass->dr : dy, accumulate);
    np_norm_weight(pass, g, x, accumulate);
}
