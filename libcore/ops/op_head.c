/* The head: norm, output layer, cross entropy. */
#include "ops/operator.h"

enum { OUT = NP_OWN };

void np_head_lay(struct np_pass *pass)
{
    np_norm_lay(pass);
    pass->u = np_slab_take(&pass->saved, pass->rows * pass->kind->vocab);
    pass->du = np_slab_take(&pass->delta, pass->rows * pass->kind->vocab);
}

bool np_head_forward(struct np_pass *pass, const float *x)
{
    const struct np_op_call *call = pass->call;
    bool finite;
    np_norm_forward(pass, x);
    np_linear_forward(pass, pass->u, pass->xn, OUT);
    pass->kernels->xent(pass->team, call->loss, pass->u, call->targets, pass->rows,
                        pass->kind->vocab, call->smoothing);
    np_team_wait(pass->team);
    finite = pass->kernels->finite(pass->team, call->loss, pass->rows);
    np_team_wait(pass->team);
    return finite;
}

bool np_head_backward(struct np_pass *pass, float *dx, const float *x)
{
    const struct np_op_call *call = pass->call;
    pass->kernels->xent_grad(pass->team, pass->du, pass->u, call->targets, pass->rows,
                             pass->kind->vocab, call->smoothing, call->scale);
    pass->kernels->zero(pass->team, dx, pass->rows * pass->width); /* no residual */
    np_team_wait(pass->team);
    np_linear_backward(pass, pass->dxn, pass->du, OUT);
    return np_norm_backward(pass, dx, dx, x);
}

void np_head_weight(struct np_pass *pass, float *g, const float *x, bool accumulate)
{
    np_linear_weight(pass, g, pass->xn, pass->du, OUT, accumulate);
    np_norm_weight(pass, g, x, accumulate);
}
