/* Feed-forward: down(act(up(xn))). */
#include "ops/operator.h"

enum { UP = NP_OWN, UP_BIAS, DOWN, DOWN_BIAS };

static size_t hidden(const struct np_pass *pass)
{
    return pass->kind->tensors[UP_BIAS].count;
}

static void lay(struct np_pass *pass)
{
    pass->u = np_slab_take(&pass->saved, pass->rows * hidden(pass));
    pass->h = np_slab_take(&pass->saved, pass->rows * hidden(pass));
    pass->du = np_slab_take(&pass->delta, pass->rows * hidden(pass));
}

static void forward(struct np_pass *pass, float *r)
{
    np_linear_forward(pass, pass->u, pass->xn, UP);
    pass->kernels->bias_act(pass->team, pass->kind->spec.act, pass->h, pass->u,
                            np_pass_tensor(pass, UP_BIAS), pass->rows, hidden(pass));
    np_team_wait(pass->team);
    np_linear_forward(pass, r, pass->h, DOWN);
    np_bias_forward(pass, r, DOWN_BIAS);
}

static void backward(struct np_pass *pass, float *scratch, const float *dr)
{
    (void)scratch;
    np_linear_backward(pass, pass->du, dr, DOWN);
    pass->kernels->act_grad(pass->team, pass->kind->spec.act, pass->du, pass->u, pass->du,
                            pass->rows * hidden(pass));
    np_team_wait(pass->team);
    np_linear_backward(pass, pass->dxn, pass->du, UP);
}

static void weight(struct np_pass *pass, float *g, const float *dr, bool accumulate)
{
    np_linear_weight(pass, g, pass->xn, pass->du, UP, accumulate);
    np_bias_weight(pass, g, pass->du, UP_BIAS, accumulate);
    np_linear_weight(pass, g, pass->h, dr, DOWN, accumulate);
    np_bias_weight(pass, g, dr, DOWN_BIAS, accumulate);
}

const struct np_branch np_branch_ffn = {lay, forward, backward, weight};
