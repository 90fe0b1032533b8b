/* Gated linear unit: a * sigmoid(b), where [a b] = gate(xn). */
#include "ops/operator.h"

enum { GATE = NP_OWN, GATE_BIAS };

static void lay(struct np_pass *pass)
{
    pass->u = np_slab_take(&pass->saved, pass->rows * 2 * pass->width);
    pass->du = np_slab_take(&pass->delta, pass->rows * 2 * pass->width);
}

static void forward(struct np_pass *pass, float *r)
{
    np_linear_forward(pass, pass->u, pass->xn, GATE);
    pass->kernels->bias_glu(pass->team, r, pass->u, np_pass_tensor(pass, GATE_BIAS), pass->rows,
                            pass->width);
    np_team_wait(pass->team);
}

static void backward(struct np_pass *pass, float *scratch, const float *dr)
{
    (void)scratch;
    pass->kernels->glu_grad(pass->team, pass->du, pass->u, dr, pass->rows, pass->width);
    np_team_wait(pass->team);
    np_linear_backward(pass, pass->dxn, pass->du, GATE);
}

static void weight(struct np_pass *pass, float *g, const float *dr, bool accumulate)
{
    (void)dr;
    np_linear_weight(pass, g, pass->xn, pass->du, GATE, accumulate);
    np_bias_weight(pass, g, pass->du, GATE_BIAS, accumulate);
}

const struct np_branch np_branch_glu = {lay, forward, backward, weight};
