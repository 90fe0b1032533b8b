/* The inside of the layer operators: one pass, its slabs carved into parts, and shared steps.
 *
 * A pass is one call with its slabs carved. Carving runs before every call and, on absent slabs,
 * for np_op_sizes: sizes and pointers cannot disagree. Candidates other than identity are branches
 * that residual.c wraps in norm, dropout and residual; the head shares the norm. Private to ops/.
 *
 * Threads   steps are called by every member and, unless told otherwise, return after a wait.
 */
#ifndef NP_OPS_OPERATOR_H
#define NP_OPS_OPERATOR_H

#include "base/memory.h"
#include "ops/op.h"

/* Tensors of every layer with a norm; an operator's own begin at NP_OWN. */
enum { NP_GAMMA, NP_BETA, NP_OWN };

struct np_slab {
    float *base; /* NULL while sizes are computed */
    size_t used;
};

struct np_pass {
    const struct np_op_call *call;
    const struct np_kind *kind;
    const struct np_kernels *kernels;
    struct np_team *team;
    size_t rows, width, length;
    size_t pad; /* zero rows before each sample of xn, for convolutions: kernel - 1 */
    struct np_slab saved, delta, work;

    /* saved */
    float *mean, *rstd, *xn; /* the norm's; xn is the branch's input */
    float *u, *h;            /* hidden values: of the first linear layer, and what the last reads */
    float *stats;            /* attention's */
    float *soft, *taps;      /* lightconv's kernel: [heads][kernel], and as [kernel][C] */
    /* delta */
    float *dr;  /* gradient of the branch, when dropout makes it differ from dy */
    float *du;  /* of u or h, whichever weight gradients read */
    float *dxn; /* of xn */
    /* work */
    float *turned; /* conv1d's kernel as backward-input reads it */
    float *padded; /* conv1d's dr, zero rows after each sample */
    float *dtaps;  /* lightconv's gradient of taps, one grain */
    float *dsoft[2], *dlogits;
};

static inline float *np_slab_take(struct np_slab *slab, size_t count)
{
    const size_t line = NP_ALIGN / sizeof(float);
    float *part = slab->base ? slab->base + slab->used : NULL;
    slab->used += (count + line - 1) / line * line;
    return part;
}

static inline const float *np_pass_tensor(const struct np_pass *pass, int tensor)
{
    return pass->call->w + pass->kind->tensors[tensor].offset;
}

static inline float *np_pass_gradient(const struct np_pass *pass, float *g, int tensor)
{
    return g + pass->kind->tensors[tensor].offset;
}

/* The grain of a sum over rows. */
static inline size_t np_pass_grain(const struct np_pass *pass)
{
    return pass->call->grain * pass->length;
}

/* Norm: takes mean, rstd, xn, dxn; xn from x; dx from dxn and the residual; gamma's and beta's
 * gradients (no wait). */
void np_norm_lay(struct np_pass *pass);
void np_norm_forward(struct np_pass *pass, const float *x);
bool np_norm_backward(struct np_pass *pass, float *dx, const float *residual, const float *x);
void np_norm_weight(struct np_pass *pass, float *g, const float *x, bool accumulate);

/* A linear layer whose weight is `tensor` [K][N], without its bias: y [R][N] from x [R][K], dx from
 * dy, and the weight's gradient (no wait). */
void np_linear_forward(struct np_pass *pass, float *y, const float *x, int tensor);
void np_linear_backward(struct np_pass *pass, float *dx, const float *dy, int tensor);
void np_linear_weight(struct np_pass *pass, float *g, const float *x, const float *dy, int tensor,
                      bool accumulate);
/* A bias: y = y + bias; its gradient (no wait). */
void np_bias_forward(struct np_pass *pass, float *y, int tensor);
void np_bias_weight(struct np_pass *pass, float *g, const float *dy, int tensor, bool accumulate);

/* A branch: what stands between the norm and the residual. */
struct np_branch {
    void (*lay)(struct np_pass *pass);               /* takes its parts */
    void (*forward)(struct np_pass *pass, float *r); /* r from xn */
    /* dxn and du from dr; scratch [R][C] */
    void (*backward)(struct np_pass *pass, float *scratch, const float *dr);
    void (*weight)(struct np_pass *pass, float *g, const float *dr, bool accumulate); /* no wait */
};

extern const struct np_branch np_branch_mha, np_branch_ffn, np_branch_glu, np_branch_conv1d,
    np_branch_sepconv1d, np_branch_lightconv;

/* Steps of a residual sub-block and of the head, as op.h says. */
void np_residual_lay(struct np_pass *pass);
bool np_residual_forward(struct np_pass *pass, float *y, const float *x);
bool np_residual_backward(struct np_pass *pass, float *dx, const float *x, const float *dy);
void np_residual_weight(struct np_pass *pass, float *g, const float *x, const float *dy,
                        bool accumulate);
void np_head_lay(struct np_pass *pass);
bool np_head_forward(struct np_pass *pass, const float *x);
bool np_head_backward(struct np_pass *pass, float *dx, const float *x);
void np_head_weight(struct np_pass *pass, float *g, const float *x, bool accumulate);
bool np_embedding_forward(struct np_pass *pass, float *y);
void np_embedding_weight(struct np_pass *pass, float *g, const float *dy, bool accumulate);

#endif
