/* Causal convolution along time, C channels to C: y[t] = bias + sum over taps of
 * x[t - (kernel-1) + tap] w[tap]. The im2col matrices are addressed, never built: rows of a padded
 * sample overlap (num/kernels.h, struct np_matmul). */
#include "ops/operator.h"

#include <string.h>

enum { CONV = NP_OWN, CONV_BIAS };

static size_t taps_of(const struct np_pass *pass)
{
    return (size_t)pass->kind->spec.kernel;
}

static void lay(struct np_pass *pass)
{
    size_t padded = pass->call->samples * (pass->length + pass->pad);
    pass->turned = np_slab_take(&pass->work, pass->kind->tensors[CONV].count);
    pass->padded = np_slab_take(&pass->work, padded * pass->width);
}

/* The product of the im2col matrix of padded samples with b [taps*C][C]. */
static void convolve(struct np_pass *pass, float *y, const float *padded, const float *b)
{
    struct np_matmul product = {.m = pass->rows,
                                .n = pass->width,
                                .k = taps_of(pass) * pass->width,
                                .a = padded,
                                .b = b,
                                .c = y,
                                .lda = pass->width,
                                .ldb = pass->width,
                                .ldc = pass->width,
                                .period = pass->length,
                                .skip = pass->pad * pass->width};
    pass->kernels->matmul(pass->team, &product);
    np_team_wait(pass->team);
}

static void forward(struct np_pass *pass, float *r)
{
    convolve(pass, r, pass->xn, np_pass_tensor(pass, CONV));
    np_bias_forward(pass, r, CONV_BIAS);
}

/* dr with zero rows after each sample. */
static void pad_behind(struct np_pass *pass, const float *dr)
{
    size_t stride = pass->length + pass->pad, row_bytes = pass->width * sizeof *dr;
    struct np_share share = np_team_share(pass->team, pass->call->samples * stride, 1);
    for (size_t i = share.begin; i < share.end; i++) {
        size_t sample = i / stride, t = i % stride;
        float *row = pass->padded + i * pass->width;
        if (t < pass->length)
            memcpy(row, dr + (sample * pass->length + t) * pass->width, row_bytes);
        else
            memset(row, 0, row_bytes);
    }
}

/* The convolution seen from its input: dx[t] = sum over taps of dr[t + tap] w[kernel-1-tap]^T. */
static void backward(struct np_pass *pass, float *scratch, const float *dr)
{
    size_t taps = taps_of(pass), square = pass->width * pass->width;
    (void)scratch;
    for (size_t tap = 0; tap < taps; tap++)
        pass->kernels->transpose(pass->team, pass->turned + tap * square,
                                 np_pass_tensor(pass, CONV) + (taps - 1 - tap) * square,
                                 pass->width, pass->width);
    pad_behind(pass, dr);
    np_team_wait(pass->team);
    convolve(pass, pass->dxn, pass->padded, pass->turned);
}

static void weight(struct np_pass *pass, float *g, const float *dr, bool accumulate)
{
    struct np_matmul product = {.m = taps_of(pass) * pass->width,
                                .n = pass->width,
                                .k = pass->rows,
                                .a = pass->xn,
                                .b = dr,
                                .c = np_pass_gradient(pass, g, CONV),
                                .lda = pass->width,
                                .ldb = pass->width,
                                .ldc = pass->width,
                                .period = pass->length,
                                .skip = pass->pad * pass->width,
                                .grain = np_pass_grain(pass),
                                .a_trans = true,
                                .accumulate = accumulate};
    pass->kernels->matmul(pass->team, &product);
    np_bias_weight(pass, g, dr, CONV_BIAS, accumulate);
}

const struct np_branch np_branch_conv1d = {lay, forward, backward, weight};
