/* Norm, linear layer and bias: the steps that operators share. */
#include "ops/operator.h"

void np_norm_lay(struct np_pass *pass)
{
    size_t samples = pass->call->samples;
    pass->mean = np_slab_take(&pass->saved, pass->rows);
    pass->rstd = np_slab_take(&pass->saved, pass->rows);
    pass->xn = np_slab_take(&pass->saved, samples * (pass->pad + pass->length) * pass->width);
    pass->dxn = np_slab_take(&pass->delta, pass->rows * pass->width);
}

/* The zero rows before each sample. */
static void clear_pad(struct np_pass *pass)
{
    size_t stride = (pass->pad + pass->length) * pass->width, count = pass->pad * pass->width;
    struct np_share share = np_team_share(pass->team, pass->call->samples, 1);
    for (size_t i = share.begin; i < share.end; i++)
        for (size_t j = 0; j < count; j++)
            pass->xn[i * stride + j] = 0.0f;
}

void np_norm_forward(struct np_pass *pass, const float *x)
{
    size_t skip = pass->pad * pass->width;
    clear_pad(pass);
    pass->kernels->layernorm(pass->team, pass->xn + skip, pass->mean, pass->rstd, x,
                             np_pass_tensor(pass, NP_GAMMA), np_pass_tensor(pass, NP_BETA),
                             pass->rows, pass->width, NP_NORM_EPS, pass->pad ? pass->length : 0,
                             skip);
    np_team_wait(pass->team);
}

bool np_norm_backward(struct np_pass *pass, float *dx, const float *residual, const float *x)
{
    bool finite = pass->kernels->layernorm_grad(pass->team, dx, residual, x, pass->dxn, pass->mean,
                                                pass->rstd, np_pass_tensor(pass, NP_GAMMA),
                                                pass->rows, pass->width);
    np_team_wait(pass->team);
    return finite;
}

void np_norm_weight(struct np_pass *pass, float *g, const float *x, bool accumulate)
{
    pass->kernels->layernorm_grad_weight(pass->team, np_pass_gradient(pass, g, NP_GAMMA),
                                         np_pass_gradient(pass, g, NP_BETA), x, pass->dxn,
                                         pass->mean, pass->rstd, pass->rows, pass->width,
                                         np_pass_grain(pass), accumulate);
}

void np_linear_forward(struct np_pass *pass, float *y, const float *x, int tensor)
{
    size_t k = pass->kind->tensors[tensor].shape[0], n = pass->kind->tensors[tensor].shape[1];
    struct np_matmul product = {.m = pass->rows,
                                .n = n,
                                .k = k,
                                .a = x,
                                .b = np_pass_tensor(pass, tensor),
                                .c = y,
                                .lda = k,
                                .ldb = n,
                                .ldc = n};
    pass->kernels->matmul(pass->team, &product);
    np_team_wait(pass->team);
}

void np_linear_backward(struct np_pass *pass, float *dx, const float *dy, int tensor)
{
    size_t k = pass->kind->tensors[tensor].shape[0], n = pass->kind->tensors[tensor].shape[1];
    struct np_matmul product = {.m = pass->rows,
                                .n = k,
                                .k = n,
                                .a = dy,
                                .b = np_pass_tensor(pass, tensor),
                                .c = dx,
                                .lda = n,
                                .ldb = n,
                                .ldc = k,
                                .b_trans = true};
    pass->kernels->matmul(pass->team, &product);
    np_team_wait(pass->team);
}

void np_linear_weight(struct np_pass *pass, float *g, const float *x, const float *dy, int tensor,
                      bool accumulate)
{
    size_t k = pass->kind->tensors[tensor].shape[0], n = pass->kind->tensors[tensor].shape[1];
    struct np_matmul product = {.m = k,
                                .n = n,
                                .k = pass->rows,
                                .a = x,
                                .b = dy,
                                .c = np_pass_gradient(pass, g, tensor),
                                .lda = k,
                                .ldb = n,
                                .ldc = n,
                                .grain = np_pass_grain(pass),
                                .a_trans = true,
                                .accumulate = accumulate};
    pass->kernels->matmul(pass->team, &product);
}

void np_bias_forward(struct np_pass *pass, float *y, int tensor)
{
    pass->kernels->bias_add(pass->team, y, y, np_pass_tensor(pass, tensor), pass->rows,
                            pass->kind->tensors[tensor].count);
    np_team_wait(pass->team);
}

void np_bias_weight(struct np_pass *pass, float *g, const float *dy, int tensor, bool accumulate)
{
    pass->kernels->colsum(pass->team, np_pass_gradient(pass, g, tensor), dy, pass->rows,
                          pass->kind->tensors[tensor].count, np_pass_grain(pass), accumulate);
}
