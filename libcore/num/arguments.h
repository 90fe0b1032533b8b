/* What the larger kernels are called with: one struct each. Contracts stand in num/kernels.h.
 *
 * Shapes  R rows (samples x positions), C channels; matrices are row-major, `ld` is the distance of
 *         rows in floats. Images are rows of channels: position (h, w) of a sample is row
 *         h * width + w (NHWC); a sequence is an image of height 1.
 */
#ifndef NP_NUM_ARGUMENTS_H
#define NP_NUM_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/function.h"

/* Functions and slopes (derivatives, as expressions in the input u): num/activation.h. */
enum np_act {
    NP_ACT_NONE,
    NP_ACT_RELU,    /* u > 0 ? u : +0;  slope u > 0 ? 1 : +0 */
    NP_ACT_RELU6,   /* u > 0 ? (u < 6 ? u : 6) : +0;  slope u > 0 and u < 6 ? 1 : +0 */
    NP_ACT_GELU,    /* np_geluf: exact gelu, u * Phi(u);  slope np_gelu_gradf */
    NP_ACT_SWISH,   /* u * np_sigmoidf(u);  slope np_swish_gradf */
    NP_ACT_HSWISH,  /* u * hsigmoid(u);  slope u <= -3 ? +0 : u >= 3 ? 1 : fma(u, 1/3, 0.5) */
    NP_ACT_SIGMOID, /* s = np_sigmoidf(u);  slope s * (1 - s) */
    NP_ACT_HSIGMOID /* relu6(u + 3) * (1/6);  slope u > -3 and u < 3 ? 1/6 : +0; 1/6, 1/3 rounded */
};

/* What happens to an element c of a product once its sum is complete, in this order, each operation
 * rounded by itself; what is NULL is left out. */
struct np_epilogue {
    const float *bias;     /* [n]: c = c + bias[j] */
    const float *before;   /* [m][n]: c = c * act'(before): back through an activation */
    const float *residual; /* [m][n]: c = residual + c; may be where c is stored */
    enum np_act act;       /* with `before`: its activation; else c = act(c) if not none ... */
    float *kept;           /* ... and, if not NULL, what went into act: [m][n] */
    size_t ld;             /* of before, residual and kept; columns as those of the output */
};

/* C = op(A) op(B), or C += op(A) op(B): chunked sum over k. op(A) is m x k, op(B) k x n. */
struct np_matmul {
    size_t m, n, k;
    const float *a, *b;
    float *c;
    size_t lda, ldb, ldc;
    size_t grain;          /* inner indices a grain; 0: one grain */
    size_t row_grain;      /* rows of A and C a grain, or 0; for num/products.h, and portable sums
                              do not depend on it. A is not transposed */
    bool a_trans, b_trans; /* stored as k x m, as n x k */
    bool accumulate;       /* onto C; without an epilogue */
    struct np_epilogue epilogue;
};

/* The geometry of a window that slides over images: convolutions and pools.
 * Output position (oh, ow) and tap (kh, kw) read input position (oh * stride_h + kh * dilation -
 * pad_top, ow * stride_w + kw * dilation - pad_left); pads may be negative. */
struct np_window {
    int kernel_height, kernel_width, stride_height, stride_width, dilation, pad_top, pad_left;
};

struct np_conv {
    struct np_window window;
    size_t samples, in_height, in_width, in_channels, out_height, out_width, out_channels;
    size_t groups;           /* of a convolution; divides both numbers of channels */
    const float *x, *w, *dy; /* each where the kernel reads it */
    float *out;              /* y, dx or dw */
    size_t ldx, ldy;         /* of x and dx, of y and dy */
    size_t grain;            /* weights' gradient: samples a grain; 0: one grain */
    bool accumulate;         /* weights' gradient: onto dw */
    struct np_epilogue epilogue;
};

/* A part of a tensor: element (i, j, k, l) lies i * stride[0] + j * stride[1] + k * stride[2] + l
 * floats behind its first. What is gathered may have strides of 0: it is repeated. */
struct np_slice {
    size_t count[4], stride[3];
};

/* Rotary positions of rows of `cols` floats, `length` a sample, the first of them position 0: of
 * each row the first `heads` * `width` floats are turned, heads of an even width, by the opposite
 * angles if `back`; what is behind them is passed on. */
struct np_rotation {
    size_t samples, length, cols, heads, width;
    int base; /* of the angles */
    bool back;
};

/* Attention of `samples` samples: T queries, S keys and values each. Head h uses columns h*C/heads
 * .. of q, k and v. causal: S = T, and query i sees keys 0 .. i. With lengths, not causal, a sample
 * has its first 1 to S keys alone, as if there were no others; these get +0.
 * With relative positions S = T, those of an image, `across` a row, or of a sequence, all of it a
 * row: offset o(i, j) tells how far key j lies from query i. With row y and column x of each and an
 * image of H x W, o = (y_j - y_i + H - 1) * (2W - 1) + x_j - x_i + W - 1.
 */
struct np_attention {
    size_t samples, queries, keys, width, heads;
    bool causal;
    const float *q, *k, *v; /* [B*T], [B*S], [B*S] rows of C */
    size_t ldq, ldk;        /* of q and dq; of k, v, dk and dv */
    const float *relative;  /* [heads][offsets], NULL: none */
    size_t across;          /* 0: none */
    const int32_t *lengths; /* [B], NULL: every sample has all keys */
};

/* Offsets between positions of an image; causal: of a sequence, to no later ones. */
NP_FN size_t np_offset_count(size_t height, size_t width, bool causal)
{
    return causal ? width : (2 * height - 1) * (2 * width - 1);
}

/* What becomes of the chunks of column sums: they make a result, are added to one, or are kept for
 * moments. The first two are what `accumulate` says elsewhere. */
enum np_sum { NP_SUM_NEW = false, NP_SUM_ONTO = true, NP_SUM_CHUNKS };

/* What is made of sums of chunks: total = chunk 0, + chunk 1, ...; quotient = (gamma * total) / by,
 * without gamma total / by; stats = stats + quotient; rstd = 1 / sqrt(quotient + eps). NULL: not
 * wanted. */
struct np_moment {
    const float *sums; /* [chunks][cols] */
    const float *gamma;
    float *total, *quotient, *stats, *rstd; /* [cols] */
};

struct np_moments {
    struct np_moment of[2];
    int count; /* of them */
    size_t chunks, cols;
    float by, eps;
};

/* A norm whose statistics belong to columns: segments of `rows` rows each have their own. Batch
 * norm: one segment; group norm: a segment a sample, the channels of a group being equal. */
struct np_colnorm {
    size_t segments, rows, cols;
    const float *x;            /* [segments * rows][cols] */
    const float *mean, *rstd;  /* [segments][cols] */
    const float *gamma, *beta; /* [cols] */
    enum np_act act;
    /* colnorm alone, NULL without, laid out like x; the rest is about norms without them: */
    const float *residual; /* added before act */
    float *kept;           /* what goes into act, where there is a residual */
};

/* One layer's tensor at its update. Clip limits are +infinity when there is no clipping. */
struct np_update {
    float *w, *m, *v; /* v: adamw only; m: NULL for sgd without momentum */
    const float *g;
    size_t count;
    uint64_t address; /* of element 0, for the fingerprint: np_fingerprint_address */
    /* Clip per layer, of squared norm *square (in the device's memory; NULL: none): norm is its
     * root, and first g = g * (norm > norm_limit ? norm_limit / norm : 1). */
    const float *square;
    float norm_limit;
    float limit;                     /* clip per value, > 0: then g = min(max(g, -limit), limit) */
    float lr, decay;                 /* decay: weight decay, 0 for tensors that do not decay */
    float beta1, beta2, eps, c1, c2; /* adamw: c1 = 1/(1-beta1^t), c2 = 1/(1-beta2^t) */
    float momentum;                  /* sgd */
    bool nesterov;
};

/* Up to so many tensors of a layer at their update: what is `layer` is about the layer's slabs, and
 * what begins there at float 0; count and decay are each tensor's. */
#define NP_UPDATE_TENSORS 16
struct np_update_tensor {
    size_t offset, count; /* floats */
    float decay;
};

struct np_layer_update {
    struct np_update layer;
    struct np_update_tensor of[NP_UPDATE_TENSORS];
    int count; /* of them */
};

#endif
