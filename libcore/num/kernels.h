/* The kernel table: every primitive that layer operators are built from.
 *
 * Each backend (scalar C, AVX2, AVX-512; later NEON, CUDA) fills the same table and computes the
 * same bits. The scalar backend is the reference: plain loops that read like this header.
 *
 * Shapes  R rows (samples x positions), C channels, B samples, T positions of a sample; matrices are
 *         row-major, `ld` is the distance of rows in floats. Pointers need 4-byte alignment only.
 *         Every size is at least 1 unless a kernel takes a flat count, which may be 0.
 * Order   "chunked sum" over an inner index: the index is cut into grains of `grain` indices from 0
 *         (grain 0: one grain), each grain into chunks of NP_KC; in a chunk acc = +0, then
 *         acc = fma(a, b, acc) ascending; result = chunk0 (or old + chunk0 when accumulating), then
 *         result = result + chunk1, ... Never 0 + chunk0.
 *         "lane sum": 32 lanes, lane l adds elements l, l+32, ... to +0 in order (products with fma);
 *         then x[l] = x[l] + x[l+stride] for strides 16, 8, 4, 2, 1.
 *         Everything else is per element, in the order of operations written here; a fused
 *         multiply-add exactly where `fma` is written. flush(x) is +0 where |x| < 2^-100, else x.
 *         sqrt and / are correctly rounded. Elementary functions: num/elementary.h.
 * Threads Every kernel is called by all members of a team and computes the caller's share; no kernel
 *         waits. Callers put np_team_wait between a kernel and another that reads its result, unless
 *         they are told that shares agree. Outputs do not alias inputs unless stated.
 *         A result of bool is the caller's share alone: the team's is the `and` over its members.
 * Errors  none: sizes are checked by the callers. A kernel never allocates. Where an input is not
 *         finite the outputs that depend on it are unspecified (as a rule not finite either).
 */
#ifndef NP_NUM_KERNELS_H
#define NP_NUM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/philox.h"
#include "num/team.h"

#define NP_KC 256       /* chunk of an inner index */
#define NP_ATTN_TILE 32 /* query rows whose causal sums end (begin) together */
#define NP_FLUSH 0x1p-100f

enum np_isa { NP_ISA_SCALAR, NP_ISA_AVX2, NP_ISA_AVX512, NP_ISA_COUNT };

enum np_act {
    NP_ACT_RELU, /* x > 0 ? x : +0 */
    NP_ACT_GELU, /* np_geluf: exact gelu, x * Phi(x) */
    NP_ACT_SWISH /* x * np_sigmoidf(x) */
};

/* C = op(A) op(B), or C += op(A) op(B): chunked sum over k. op(A) is m x k, op(B) k x n.
 * Row r of A as stored begins at a + r*lda + (r/period)*skip (period 0: no skip): with lda = C, k =
 * taps*C and skip = (taps-1)*C that is the im2col matrix of a causal convolution over zero-padded
 * samples, never built. Stored rows of A may overlap. C aliases nothing. */
struct np_matmul {
    size_t m, n, k;
    const float *a, *b;
    float *c;
    size_t lda, ldb, ldc;
    size_t period, skip;
    size_t grain;          /* inner indices a grain; 0: one grain */
    bool a_trans, b_trans; /* stored as k x m, as n x k */
    bool accumulate;
};

/* Causal self-attention of `samples` samples. qkv is [B*T][3C]: queries, keys, values; head h uses
 * columns h*C/heads .. of each. scale = 1 / sqrt(C / heads), both rounded.
 * For query i and keys j <= i:  s_ij = (chunked sum over d of q_id k_jd) * scale;  m_i = max_j s_ij;
 * e_ij = np_expf(s_ij - m_i);  z_i = lane sum over j of e_ij;  p_ij = flush(e_ij / z_i); p_ij = +0
 * for j > i.  Inner indices over positions run over whole tiles of NP_ATTN_TILE: keys from 0 to the
 * end of the query's tile (cut at T), queries from the beginning of the key's tile to T; chunk
 * borders stay at multiples of NP_KC from position 0. */
struct np_attention {
    size_t samples, length, width, heads;
    const float *qkv;
};

/* One layer's tensor at its update. Clip limits are +infinity when there is no clipping. */
struct np_update {
    float *w, *m, *v; /* v: adamw only; m: NULL for sgd without momentum */
    const float *g;
    size_t count;
    uint64_t address;                /* of element 0, for the fingerprint: np_fingerprint_address */
    float scale;                     /* clip per layer: g = g * scale first (1: none) */
    float limit;                     /* clip per value, > 0: then g = min(max(g, -limit), limit) */
    float lr, decay;                 /* decay: weight decay, 0 for tensors that do not decay */
    float beta1, beta2, eps, c1, c2; /* adamw: c1 = 1/(1-beta1^t), c2 = 1/(1-beta2^t) */
    float momentum;                  /* sgd */
    bool nesterov;
};

struct np_kernels {
    const char *name;

    void (*matmul)(struct np_team *, const struct np_matmul *);

    /* y[r][j] = x[r][j] + bias[j]; y may be x. */
    void (*bias_add)(struct np_team *, float *y, const float *x, const float *bias, size_t rows,
                     size_t cols);
    /* u = x + bias in place over x, y = act(u): saved u serves act_grad. */
    void (*bias_act)(struct np_team *, enum np_act, float *y, float *x, const float *bias,
                     size_t rows, size_t cols);
    /* dx = dy * act'(u); the derivatives are in num/elementary.h. dx may be dy. */
    void (*act_grad)(struct np_team *, enum np_act, float *dx, const float *u, const float *dy,
                     size_t count);
    /* Gated linear unit: u is [R][2C], first in place u = u + bias (bias[2C]); y[r][j] = u[r][j] *
     * np_sigmoidf(u[r][C+j]). */
    void (*bias_glu)(struct np_team *, float *y, float *u, const float *bias, size_t rows,
                     size_t cols);
    /* s = np_sigmoidf(b), a = u[r][j], b = u[r][C+j]: da = dy * s; db = ((dy * a) * s) * (1 - s). */
    void (*glu_grad)(struct np_team *, float *du, const float *u, const float *dy, size_t rows,
                     size_t cols);

    /* y = a + b; y may be a or b. Returns false if any y of this share is not finite. */
    bool (*add)(struct np_team *, float *y, const float *a, const float *b, size_t count);
    bool (*finite)(struct np_team *, const float *x, size_t count);
    void (*zero)(struct np_team *, float *y, size_t count);
    /* [rows][cols] -> [cols][rows] */
    void (*transpose)(struct np_team *, float *y, const float *x, size_t rows, size_t cols);

    /* y = kept ? x * keep_scale : +0, element e of the tensor drawn as word e%4 of np_draw(key, step,
     * e/4), e = first + index; kept when the word >= threshold. Its own backward. y may be x. */
    void (*dropout)(struct np_team *, float *y, const float *x, size_t count,
                    struct np_draw_key key, uint64_t step, uint64_t first, uint32_t threshold,
                    float keep_scale);
    /* w = mean-zero normal deviates times std. Elements 2i, 2i+1 come from u0, u1 = words 0,1 (2,3
     * for the odd pair of a block) of np_draw(key, 0, i/2): r = sqrt(-2 * np_logf(1 - unit(u0))),
     * w[2i] = std * (r * np_cos2pif(unit(u1))), w[2i+1] = std * (r * np_sin2pif(unit(u1))). */
    void (*normal)(struct np_team *, float *w, size_t count, struct np_draw_key key, float std);

    /* Layer norm of each row: mean = lane sum / C; d = x - mean; var = lane sum of fma(d, d) / C;
     * rstd = 1 / sqrt(var + eps); y = fma(d * rstd, gamma, beta). mean, rstd: [R]. y's rows start
     * at y + r*cols + (r/period)*skip as in np_matmul (period 0: dense). */
    void (*layernorm)(struct np_team *, float *y, float *mean, float *rstd, const float *x,
                      const float *gamma, const float *beta, size_t rows, size_t cols, float eps,
                      size_t period, size_t skip);
    /* h = (x - mean) * rstd; t = dy * gamma; a = lane sum of t / C; b = lane sum of fma(t, h) / C;
     * dx = rstd * ((t - a) - h * b) + residual. dx may be residual; residual is [R][C]. Returns
     * false if any dx of this share is not finite. */
    bool (*layernorm_grad)(struct np_team *, float *dx, const float *residual, const float *x,
                           const float *dy, const float *mean, const float *rstd,
                           const float *gamma, size_t rows, size_t cols);
    /* Chunked sums over rows: dgamma of fma(dy, h, acc), dbeta of acc + dy. */
    void (*layernorm_grad_weight)(struct np_team *, float *dgamma, float *dbeta, const float *x,
                                  const float *dy, const float *mean, const float *rstd,
                                  size_t rows, size_t cols, size_t grain, bool accumulate);
    /* Chunked sums over rows of acc + x: the gradient of a bias. */
    void (*colsum)(struct np_team *, float *out, const float *x, size_t rows, size_t cols,
                   size_t grain, bool accumulate);
    /* out[r] = lane sum of x[r][0..cols-1]. */
    void (*rowsum)(struct np_team *, float *out, const float *x, size_t rows, size_t cols);
    /* Lane sum of fma(x, x): the squared norm of a whole tensor; computed by rank 0 alone (other
     * ranks get 0). */
    float (*sumsq)(struct np_team *, const float *x, size_t count);
    /* m = max, e = np_expf(x - m), y = flush(e / lane sum of e), each row. y may be x. */
    void (*softmax)(struct np_team *, float *y, const float *x, size_t rows, size_t cols);
    /* a = lane sum of fma(y, dy); dx = y * (dy - a). */
    void (*softmax_grad)(struct np_team *, float *dx, const float *y, const float *dy, size_t rows,
                         size_t cols);

    /* out [B*T][C]: o_id = chunked sum over j of p_ij v_jd. stats [B][heads][T][2]: m_i, z_i. */
    void (*attention)(struct np_team *, float *out, float *stats, const struct np_attention *);
    /* dqkv from dout [B*T][C] and the stats, p recomputed:  dv_jd = chunked sum over i of p_ij do_id;
     * dp_ij = chunked sum over d of do_id v_jd (j <= i);  a_i = lane sum over j <= i of
     * fma(p_ij, dp_ij);  ds_ij = (p_ij * (dp_ij - a_i)) * scale, +0 for j > i;
     * dq_id = chunked sum over j of ds_ij k_jd;  dk_jd = chunked sum over i of ds_ij q_id. */
    void (*attention_grad)(struct np_team *, float *dqkv, const float *dout, const float *stats,
                           const struct np_attention *);

    /* Causal depthwise convolution. x holds B samples of (taps-1) zero rows then T rows ([B][taps-1+T]
     * [C]); w [taps][C]; y [B*T][C]: y[t][c] = acc over taps ascending of fma(x[t+tap][c],
     * w[tap][c], acc) from +0 (one chunk: taps <= NP_KC), t counted in the padded sample. */
    void (*dwconv)(struct np_team *, float *y, const float *x, const float *w, size_t samples,
                   size_t length, size_t cols, size_t taps);
    /* dx [B*T][C] from dy [B*T][C], not padded: dx[t][c] = taps ascending of
     * fma(dy[t+taps-1-tap][c], w[tap][c], acc) from +0, terms with t+taps-1-tap >= T left out. */
    void (*dwconv_grad)(struct np_team *, float *dx, const float *dy, const float *w,
                        size_t samples, size_t length, size_t cols, size_t taps);
    /* dw[tap][c] = chunked sum over rows (samples x positions; grain in rows) of
     * fma(x[row+tap][c], dy[row][c], acc), x padded as above. */
    void (*dwconv_grad_weight)(struct np_team *, float *dw, const float *x, const float *dy,
                               size_t samples, size_t length, size_t cols, size_t taps,
                               size_t grain, bool accumulate);

    /* y[b*T+t] = table[token] + positions[t]; tokens < vocabulary, checked by the reader. */
    void (*embed)(struct np_team *, float *y, const int32_t *tokens, const float *table,
                  const float *positions, size_t samples, size_t length, size_t cols);
    /* Rows in ascending order: dtable[token] = dtable[token] + dy[row]; dpositions[t] likewise.
     * Always accumulates; the caller zeroes first. */
    void (*embed_grad)(struct np_team *, float *dtable, float *dpositions, const int32_t *tokens,
                       const float *dy, size_t samples, size_t length, size_t cols);

    /* Cross entropy with label smoothing a over V classes, each row: m = max, d_v = x_v - m, z = lane
     * sum of np_expf(d_v), L = np_logf(z); with on = 1 - a, off = a / V (rounded):
     * loss = a == 0 ? L - d_target : fma(-off, lane sum of d_v, fma(-on, d_target, L)). */
    void (*xent)(struct np_team *, float *loss, const float *logits, const int32_t *targets,
                 size_t rows, size_t classes, float smoothing);
    /* dlogits_v = (flush(np_expf(d_v) / z) - t_v) * scale, t_v = off, for the target off + on. */
    void (*xent_grad)(struct np_team *, float *dlogits, const float *logits, const int32_t *targets,
                      size_t rows, size_t classes, float smoothing, float scale);

    /* One tensor's update; returns the fingerprint of this share of everything written (w, then m,
     * then v, at address + index of the concatenation); the shares' sum is the tensor's. With g
     * already scaled and clipped, g = flush(g), and every w, m, v flushed as it is written (what
     * follows uses the flushed m and v; u, t and sgd's decayed g are not flushed):
     * adamw: m = fma(beta1, m, (1-beta1)*g); v = fma(beta2, v, (1-beta2)*(g*g));
     *        u = (m*c1) / (sqrt(v*c2) + eps); w = fma(-lr, u, fma(-(lr*decay), w, w)).
     * sgd:   g = fma(decay, w, g); m = fma(momentum, m, g) (t = m; nesterov: t = fma(momentum, m, g);
     *        no momentum: t = g); w = fma(-lr, t, w). */
    uint64_t (*adamw)(struct np_team *, const struct np_update *);
    uint64_t (*sgd)(struct np_team *, const struct np_update *);
    /* The fingerprint of this share of x[0..count-1] at address. */
    uint64_t (*fingerprint)(struct np_team *, const float *x, size_t count, uint64_t address);
};

/* Fingerprint: wrap-around sum of np_fingerprint_mix over elements, so any order gives it. */
static inline uint64_t np_fingerprint_mix(uint64_t address, uint32_t bits)
{
    uint64_t x = address ^ (uint64_t)bits * 0x9E3779B97F4A7C15u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

/* The address of a tensor's element 0: layers and tensors lie 2^40 elements apart. */
static inline uint64_t np_fingerprint_address(uint32_t layer, uint32_t tensor)
{
    return ((uint64_t)layer << 44) + ((uint64_t)tensor << 40);
}

/* The table of an instruction set, NULL if it was not built in or this machine lacks it. */
const struct np_kernels *np_kernels_get(enum np_isa isa);
/* The best table of this machine; never NULL. */
const struct np_kernels *np_kernels_best(void);
/* "scalar", "avx2", "avx512". */
const char *np_isa_name(enum np_isa isa);

/* Scratch each member of a team needs for attention over `length` positions with heads of
 * `head_width` channels and any matrix product. */
size_t np_kernels_scratch_bytes(size_t length, size_t head_width);

/* NP_EINPUT unless this thread rounds to nearest and keeps subnormals; called at the start of every
 * thread that computes. */
enum np_status np_float_check(struct np_error *err);

#endif
