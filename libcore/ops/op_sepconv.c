/* Separable convolution: point(depth(xn)), a causal convolution of each channel by itself, then a
 * linear layer. */
#include "ops/operator.h"

enum { DEPTH = NP_OWN, DEPTH_BIAS, POINT, POINT_BIAS };

static void lay(struct np_pass *pass)
{
    pass->h = np_slab_take(&pass->saved, pass->rows * pass->width);
    pass->du = np_slab_take(&pass->delta, pass->rows * pass->width);
}

static void forward(struct np_pass *pass, float *r)
{
    pass->kernels->dwconv(pass->team, pass->h, pass->xn, np_pass_tensor(pass, DEPTH),
                          pass->call->samples, pass->length, pass->width, pass->pad + 1);
    np_team_wait(pass->team);
    np_bias_forward(pass, pass->h, DEPTH_BIAS);
    np_linear_forward(pass, r, pass->h, POINT);
    np_bias_forward(pass, r, POINT_BIAS);
}

static void backward(struct np_pass *pass, float *scratch, const float *dr)
{
    (void)scratch;
    np_linear_backward(pass, pass->du, dr, POINT);
    pass->kernels->dwconv_grad(pass->team, pass->dxn, pass->du, np_pass_tensor(pass, DEPTH),
                               pass->call->samples, pass->length, pass->width, pass->pad + 1);
    np_team_wait(pass->team);
}

static void weight(struct np_pass *pass, float *g, const float *dr, bool accumulate)
{
    pass->kernels->dwconv_grad_weight(pass->team, np_pass_gradient(pass, g, DEPTH), pass->xn,
                                      pass->du, pass->call->samples, pass->length, pass->width,
                                      pass->pad + 1, np_pass_grain(pass), accumulate);
    np_bias_weight(pass, g, pass->du, DEPTH_BIAS, accumulate);
    np_linear_weight(pass, g, pass->h, dr, POINT, accumulate);
    np_bias_weight(pass, g, dr, POINT_BIAS, accumulate);
}

const struct np_branch np_branch_sepconv1d = {lay, forward, backward, weight};
