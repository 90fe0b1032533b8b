/* The kernel table: every primitive that layer operators are built from.
 *
 * Each backend (scalar C, AVX2, AVX-512, NEON, CUDA) fills the same table and computes the
 * same bits. The scalar backend is the reference: plain loops that read like this header.
 *
 * Shapes  R rows (samples x positions), C channels, B samples, T positions of a sample; matrices
 *         are row-major, `ld` is the distance of rows in floats. Pointers need 4-byte alignment
 *         only. Every size is at least 1 unless a kernel takes a flat count, which may be 0.
 * Order   "chunked sum" over an inner index: the index is cut into grains of `grain` indices from 0
 *         (grain 0: one grain), each grain into chunks of NP_KC; in a chunk acc = +0, then
 *         acc = fma(a, b, acc) ascending; result = chunk0 (or old + chunk0 when accumulating), then
 *         result = result + chunk1, ... Never 0 + chunk0.
 *         "lane sum": 32 lanes, lane l adds elements l, l+32, ... to +0 in order (products with
 *         fma); then x[l] = x[l] + x[l+stride] for strides 16, 8, 4, 2, 1.
 *         Everything else is per element, in the order of operations written here; a fused
 *         multiply-add exactly where `fma` is written. flush(x) is +0 where |x| < 2^-100, else x.
 *         sqrt and / are correctly rounded. Elementary functions: num/elementary.h.
 * Threads Every kernel is called by all members of a team and computes the caller's share. Those
 *         that make gradients of weights from products, layernorm_grad_weight and col_sum may wait
 *         inside, no other does. Callers put np_team_wait between a kernel and another that reads
 *         its result, unless they are told that shares agree: those of add, fill, copy, divide,
 *         rstd and moments do where they write equally many elements. Others may deal their work
 *         out while it is done: the share is then what the caller took. Outputs do not alias inputs
 *         unless stated. A result of bool is the caller's share alone: the team's is the `and` over
 *         its members. Unless stated it is false if this share wrote a value that is not finite, or
 *         put one into an activation (which may hide it).
 * Errors  none: sizes are checked by the callers. A kernel never allocates. Where an input is not
 *         finite the outputs that depend on it are unspecified (as a rule not finite either).
 */
#ifndef NP_NUM_KERNELS_H
#define NP_NUM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/arguments.h"
#include "num/function.h"
#include "num/philox.h"
#include "num/team.h"

#define NP_KC 256       /* chunk of an inner index */
#define NP_ATTN_TILE 32 /* query rows whose causal sums end (begin) together */
#define NP_FLUSH 0x1p-100f

enum np_isa { NP_ISA_SCALAR, NP_ISA_AVX2, NP_ISA_AVX512, NP_ISA_NEON, NP_ISA_COUNT };

/* Chunks of an inner index that has no grains. */
NP_FN size_t np_chunks(size_t count)
{
    return (count + NP_KC - 1) / NP_KC;
}

/* Kernels that return bool say whether all that they wrote is finite. An operator passes that on:
 * ranks and GPUs look at every kernel by themselves, and would stop at what others do not. */
#ifdef NP_OPERATORS
#define NP_CHECKED __attribute__((warn_unused_result))
#else
#define NP_CHECKED
#endif

struct np_kernels {
    const char *name;

    bool (*matmul)(struct np_team *, const struct np_matmul *) NP_CHECKED;

    /* Convolutions. w [kernel_height][kernel_width][in_channels/groups][out_channels], so that it
     * is the matrix [k][out_channels] with k = (kh, kw, ci); group g reads its own channels and
     * writes columns g*out_channels/groups ... Products with positions outside the image are left
     * out of their chunks, whose borders do not move; a chunk of nothing is +0.
     * conv: y = chunked sum over k of x w.  epilogue: over y. */
    bool (*conv)(struct np_team *, const struct np_conv *) NP_CHECKED;
    /* dx at (ih, iw): chunked sum over (tap, co) of dy w, the taps being those whose output
     * position (oh, ow) is whole (stride divides ih + pad_top - kh * dilation, and so for the
     * width), ordered by ascending (oh, ow), i.e. descending (kh, kw); output positions outside are
     * left out likewise. No such tap: +0.  epilogue (no bias): over dx. */
    bool (*conv_grad)(struct np_team *, const struct np_conv *) NP_CHECKED;
    /* dw[k][co] = chunked sum over output rows of x dy, those left out whose tap is outside. No
     * epilogue. */
    bool (*conv_grad_weight)(struct np_team *, const struct np_conv *) NP_CHECKED;

    /* y[r][j] = x[r][j] + bias[j]; y may be x. */
    void (*bias_add)(struct np_team *, float *y, const float *x, const float *bias, size_t rows,
                     size_t cols);
    /* dx = dy * act'(u), then base + dx if base is not NULL; the derivatives are in
     * num/elementary.h. dx may be dy or base. */
    bool (*act_grad)(struct np_team *, enum np_act, float *dx, const float *base, const float *u,
                     const float *dy, size_t count) NP_CHECKED;
    /* Gated linear unit: u is [R][2C], first in place u = u + bias (bias[2C]); y[r][j] = u[r][j] *
     * np_sigmoidf(u[r][C+j]). */
    void (*bias_glu)(struct np_team *, float *y, float *u, const float *bias, size_t rows,
                     size_t cols);
    /* s = np_sigmoidf(b), a = u[r][j], b = u[r][C+j]: da = dy * s; 
     * db = ((dy * a) * s) * (1 - s). */
    void (*glu_grad)(struct np_team *, float *du, const float *u, const float *dy, size_t rows,
                     size_t cols);

    /* y = act(a + b); with an activation kept = a + b if not NULL. y may be a or b. */
    bool (*add)(struct np_team *, enum np_act, float *y, float *kept, const float *a,
                const float *b, size_t count) NP_CHECKED;
    /* y = act(x); y may be x. */
    bool (*act)(struct np_team *, enum np_act, float *y, const float *x, size_t count) NP_CHECKED;
    bool (*finite)(struct np_team *, const float *x, size_t count) NP_CHECKED;
    void (*fill)(struct np_team *, float *y, size_t count, float value);
    /* y = x, which may be y. */
    void (*copy)(struct np_team *, float *y, const float *x, size_t count);
    /* gather: y [count], the part of the tensor that begins at x. scatter: the inverse, the part of
     * the tensor that begins at y; the rest of it stays. */
    void (*gather)(struct np_team *, float *y, const float *x, const struct np_slice *);
    void (*scatter)(struct np_team *, float *y, const float *x, const struct np_slice *);
    /* y = x / by; with gamma, y = (gamma * x) / by. y may be x. */
    bool (*divide)(struct np_team *, float *y, const float *x, const float *gamma, size_t count,
                   float by) NP_CHECKED;
    /* y = 1 / sqrt(x + eps); false also where x is not finite. y may be x. */
    bool (*rstd)(struct np_team *, float *y, const float *x, size_t count, float eps) NP_CHECKED;
    /* y [count][width]: x[i] all along row i. */
    void (*spread)(struct np_team *, float *y, const float *x, size_t count, size_t width);
    /* [rows][cols] -> [cols][rows] */
    void (*transpose)(struct np_team *, float *y, const float *x, size_t rows, size_t cols);

    /* y = kept ? x * keep_scale : +0, element e of the tensor drawn as word e%4 of np_draw(key,
     * step, e/4), e = first + index; kept when the word >= threshold. Its own backward.
     * y may be x. */
    void (*dropout)(struct np_team *, float *y, const float *x, size_t count,
                    struct np_draw_key key, uint64_t step, uint64_t first, uint32_t threshold,
                    float keep_scale);
    /* w = mean-zero normal deviates times std. Elements 2i, 2i+1 come from u0, u1 = words 0,1 (2,3
     * for the odd pair of a block) of np_draw(key, 0, i/2): r = sqrt(-2 * np_logf(1 - unit(u0))),
     * w[2i] = std * (r * np_cos2pif(unit(u1))), w[2i+1] = std * (r * np_sin2pif(unit(u1))). */
    void (*normal)(struct np_team *, float *w, size_t count, struct np_draw_key key, float std);

    /* Layer norm of each row: mean = lane sum / C; d = x - mean; var = lane sum of fma(d, d) / C;
     * rstd = 1 / sqrt(var + eps); y = fma(d * rstd, gamma, beta). mean, rstd: [R].
     * RMS norm, for which mean, beta and dbeta are NULL: the same with a mean of +0, an `a` of +0
     * in the gradient, and y = (d * rstd) * gamma. */
    void (*layernorm)(struct np_team *, float *y, float *mean, float *rstd, const float *x,
                      const float *gamma, const float *beta, size_t rows, size_t cols, float eps);
    /* h = (x - mean) * rstd; t = dy * gamma; a = lane sum of t / C; b = lane sum of fma(t, h) / C;
     * dx = rstd * ((t - a) - h * b), then + base if base is not NULL. dx may be base. */
    bool (*layernorm_grad)(struct np_team *, float *dx, const float *base, const float *x,
                           const float *dy, const float *mean, const float *rstd,
                           const float *gamma, size_t rows, size_t cols) NP_CHECKED;
    /* Chunked sums over rows: dgamma of fma(dy, h, acc), dbeta of acc + dy. */
    void (*layernorm_grad_weight)(struct np_team *, float *dgamma, float *dbeta, const float *x,
                                  const float *dy, const float *mean, const float *rstd,
                                  size_t rows, size_t cols, size_t grain, bool accumulate);
    /* out[r] = lane sum of x[r][0..cols-1]. */
    void (*rowsum)(struct np_team *, float *out, const float *x, size_t rows, size_t cols);
    /* *sum = (accumulate: *sum +) lane sum of fma(x, x), the squared norm of a whole tensor;
     * written by rank 0 alone. */
    void (*sumsq)(struct np_team *, float *sum, const float *x, size_t count, bool accumulate);
    /* m = max, e = np_expf(x - m), y = flush(e / lane sum of e), each row. y may be x. */
    void (*softmax)(struct np_team *, float *y, const float *x, size_t rows, size_t cols);
    /* a = lane sum of fma(y, dy); dx = y * (dy - a). */
    void (*softmax_grad)(struct np_team *, float *dx, const float *y, const float *dy, size_t rows,
                         size_t cols);

    /* Rotary positions: pair (u, v) = (x[i], x[i + width / 2]) of a head becomes
     * (fma(u, c, -(v * s)), fma(v, c, u * s)), c and s being np_cos2pif and np_sin2pif of the
     * pair's turn at the row's position (num/rotary.h), s negated if back. y may be x. */
    void (*rotate)(struct np_team *, float *y, const float *x, const struct np_rotation *);

    /* scale = 1 / sqrt(C / heads), both rounded. For query i and the keys j that it sees:
     * s_ij = (chunked sum over d of q_id k_jd) * scale;  m_i = max_j s_ij;  with relative positions
     * s_ij = fma(that sum, scale, relative[head][o(i, j)]);
     * e_ij = np_expf(s_ij - m_i);  z_i = lane sum over j of e_ij;
     * p_ij = flush(e_ij / z_i), +0 for unseen j;
     * out [B*T][C]: o_id = chunked sum over j of p_ij v_jd. stats [B][heads][T][2]: m_i, z_i.
     * Inner indices over positions run over all of them; causal: over whole tiles of NP_ATTN_TILE,
     * keys from 0 to the end of the query's tile (cut at T), queries from the beginning of the
     * key's tile to T. Chunk borders stay at multiples of NP_KC from position 0. */
    void (*attention)(struct np_team *, float *out, float *stats, const struct np_attention *);
    /* dq, dk, dv from dout [B*T][C] and the stats, p recomputed:  dv_jd = chunked sum over i of
     * p_ij do_id; dp_ij = chunked sum over d of do_id v_jd (seen j);  a_i = lane sum over seen j of
     * fma(p_ij, dp_ij);  g_ij = p_ij * (dp_ij - a_i);  ds_ij = g_ij * scale, +0 for unseen j;
     * dq_id = chunked sum over j of ds_ij k_jd;  dk_jd = chunked sum over i of ds_ij q_id.
     * With relative positions drelative [B][heads][offsets], of each offset o, from +0, queries
     * ascending: acc + g_ij, the seen j with o(i, j) = o; else NULL. */
    void (*attention_grad)(struct np_team *, float *dq, float *dk, float *dv, float *drelative,
                           const float *dout, const float *stats, const struct np_attention *);

    /* Depthwise convolutions: in_channels = out_channels = C, w [taps][C], taps = (kh, kw) <=
     * NP_KC. Positions outside are left out. y = taps ascending of fma(x, w, acc) from +0;
     * epilogue: bias or residual.  dx = taps ascending (unlike conv_grad) of fma(dy, w, acc) from
     * +0, those taps whose output position is whole and inside; epilogue: residual.  dw = chunked
     * sum over output rows of fma(x, dy, acc). */
    bool (*dwconv)(struct np_team *, const struct np_conv *) NP_CHECKED;
    bool (*dwconv_grad)(struct np_team *, const struct np_conv *) NP_CHECKED;
    bool (*dwconv_grad_weight)(struct np_team *, const struct np_conv *) NP_CHECKED;

    /* Pools over windows, C channels; positions outside are left out (every window holds at least
     * one position). Max: the first tap that is largest, its number in which [B*OH*OW][C]; average:
     * taps ascending of acc + x from +0, / their number n. Gradients, in ascending (oh, ow) of the
     * windows that hold the position: acc + dy where `which` names it (max), acc + dy / n
     * (average), acc from +0; then base + acc if base is not NULL. dx may be base. */
    void (*max_pool)(struct np_team *, const struct np_conv *, int32_t *which);
    bool (*max_pool_grad)(struct np_team *, const struct np_conv *, const int32_t *which,
                          const float *base) NP_CHECKED;
    void (*avg_pool)(struct np_team *, const struct np_conv *);
    bool (*avg_pool_grad)(struct np_team *, const struct np_conv *, const float *base) NP_CHECKED;

    /* Column sums of segments: x [segments * rows][cols], out [segments][cols]: chunked sums over
     * the rows of a segment (grain in rows, or 0). col_sum of acc + x (NP_SUM_ONTO: one segment
     * only); col_square of fma(d, d, acc), d = x - mean; col_dot of fma(a, b, acc).
     * NP_SUM_CHUNKS (grain 0): out [segments][np_chunks(rows)][cols], so that members share rows,
     * which are many where columns are few; the sums of one segment are for moments. */
    void (*col_sum)(struct np_team *, float *out, const float *x, size_t segments, size_t rows,
                    size_t cols, size_t grain, enum np_sum);
    void (*col_square)(struct np_team *, float *out, const float *x, const float *mean,
                       size_t segments, size_t rows, size_t cols, enum np_sum);
    void (*col_dot)(struct np_team *, float *out, const float *a, const float *b, size_t segments,
                    size_t rows, size_t cols, size_t grain);
    /* False also where a quotient is not finite that stats or rstd are made of. */
    bool (*moments)(struct np_team *, const struct np_moments *) NP_CHECKED;
    /* The gradients of a norm's weights: dgamma = +0 + dot, dbeta = +0 + sum, or onto what they
     * are; all [cols]. */
    bool (*norm_weight)(struct np_team *, float *dgamma, float *dbeta, const float *dot,
                        const float *sum, size_t cols, bool accumulate) NP_CHECKED;
    /* h = (x - mean) * rstd, u = fma(h, gamma, beta), u = residual + u if residual is not NULL,
     * then kept = u if kept is not NULL; y = act(u). y may be residual. */
    bool (*colnorm)(struct np_team *, float *y, const struct np_colnorm *) NP_CHECKED;
    /* du = dy * act'(u), u and h recomputed. Chunked sums over a segment's rows: sum of acc + du,
     * dot of fma(du, h, acc), laid out like those of col_square. */
    void (*colnorm_grad_sums)(struct np_team *, float *sum, float *dot, const struct np_colnorm *,
                              const float *dy, enum np_sum);
    /* dx = rstd * ((du * gamma - a) - h * b), then base + dx if base is not NULL; a, b
     * [segments][cols]. dx may be base, dy or x. */
    bool (*colnorm_grad)(struct np_team *, float *dx, const float *base, const struct np_colnorm *,
                         const float *dy, const float *a, const float *b) NP_CHECKED;
    /* y = x * s, s [segments][cols]; then base + y if base is not NULL. y may be base. */
    bool (*col_scale)(struct np_team *, float *y, const float *base, const float *x, const float *s,
                      size_t segments, size_t rows, size_t cols) NP_CHECKED;
    /* y = s for every row of its segment; base + s if base is not NULL. y may be base. */
    bool (*col_spread)(struct np_team *, float *y, const float *base, const float *s,
                       size_t segments, size_t rows, size_t cols) NP_CHECKED;

    /* y [R][na+nb] from a [R][na] and b [R][nb]: side by side, or interleaved (na = nb): y[2i] =
     * a[i], y[2i+1] = b[i]: concatenation and a channel shuffle by two.
     * b NULL: +0, side by side. */
    void (*merge)(struct np_team *, float *y, const float *a, const float *b, size_t rows,
                  size_t na, size_t nb, size_t lda, size_t ldb, bool interleave);
    /* The inverse; what is NULL is not wanted; base_a + a if base_a is not NULL (ld as a;
     * a may be base_a). */
    bool (*split)(struct np_team *, float *a, float *b, const float *base_a, const float *base_b,
                  const float *y, size_t rows, size_t na, size_t nb, size_t lda, size_t ldb,
                  bool interleave) NP_CHECKED;
    /* y = kept ? x * keep_scale : +0 for a whole sample of `each` floats, kept when word i % 4 of
     * np_draw(key, step, i / 4) >= threshold, i = first + the sample's index. y may be x. */
    void (*drop_path)(struct np_team *, float *y, const float *x, size_t samples, size_t each,
                      struct np_draw_key key, uint64_t step, uint64_t first, uint32_t threshold,
                      float keep_scale);

    /* y[b*T+t] = table[token] + positions[t] (NULL: without); tokens < vocabulary, checked by the
     * reader. */
    void (*embed)(struct np_team *, float *y, const int32_t *tokens, const float *table,
                  const float *positions, size_t samples, size_t length, size_t cols);
    /* Rows in ascending order: dtable[token] = dtable[token] + dy[row]; dpositions[t] likewise.
     * Always accumulates; the caller zeroes first. dpositions may be NULL. */
    void (*embed_grad)(struct np_team *, float *dtable, float *dpositions, const int32_t *tokens,
                       const float *dy, size_t samples, size_t length, size_t cols);

    /* Cross entropy with label smoothing a over V classes, each row: m = max, d_v = x_v - m, z =
     * lane sum of np_expf(d_v), L = np_logf(z); with on = 1 - a, off = a / V (rounded):
     * loss = a == 0 ? L - d_target : fma(-off, lane sum of d_v, fma(-on, d_target, L)). A target
     * below 0 is none: the loss, and all of the gradient, are +0. */
    void (*xent)(struct np_team *, float *loss, const float *logits, const int32_t *targets,
                 size_t rows, size_t classes, float smoothing);
    /* hits[r] = 1 if the target of row r is the first of its largest logits, else 0. */
    void (*hits)(struct np_team *, int32_t *hits, const float *logits, const int32_t *targets,
                 size_t rows, size_t classes);
    /* dlogits_v = (flush(np_expf(d_v) / z) - t_v) * scale, t_v = off, for the target off + on.
     * dlogits may be logits. */
    void (*xent_grad)(struct np_team *, float *dlogits, const float *logits, const int32_t *targets,
                      size_t rows, size_t classes, float smoothing, float scale);

    /* y = y + (p - q) * scale: the gradient of logits with softmax p towards probabilities q, in
     * rows that have a target. */
    void (*distill)(struct np_team *, float *y, const float *p, const float *q,
                    const int32_t *targets, size_t rows, size_t classes, float scale);

    /* The update of a layer's tensors; adds to *fingerprint that of this share of everything
     * written: of each tensor w, then m, then v, at address + index of the concatenation, the
     * address of a tensor being three times its offset behind the layer's. The shares' sum is the
     * layer's. False if a gradient of this share, or what was written, or the norm is not finite.
     * With g already scaled and clipped, g = flush(g), and every w, m, v flushed as it is written
     * (what follows uses the flushed m and v; u, t and sgd's decayed g are not flushed):
     * adamw: m = fma(beta1, m, (1-beta1)*g); v = fma(beta2, v, (1-beta2)*(g*g));
     *        u = (m*c1) / (sqrt(v*c2) + eps); w = fma(-lr, u, fma(-(lr*decay), w, w)).
     * sgd:   g = fma(decay, w, g); m = fma(momentum, m, g) (t = m; nesterov: t = fma(momentum, m,
     *        g); no momentum: t = g); w = fma(-lr, t, w). */
    bool (*adamw)(struct np_team *, const struct np_layer_update *,
                  uint64_t *fingerprint) NP_CHECKED;
    bool (*sgd)(struct np_team *, const struct np_layer_update *, uint64_t *fingerprint) NP_CHECKED;
    /* The fingerprint of this share of x[0..count-1] at address. */
    uint64_t (*fingerprint)(struct np_team *, const float *x, size_t count, uint64_t address);
};

/* Fingerprint: wrap-around sum of np_fingerprint_mix over elements, so any order gives it. */
#define NP_FINGERPRINT_MUL0 0x9E3779B97F4A7C15u
#define NP_FINGERPRINT_MUL1 0xD6E8FEB86659FD93u

NP_FN uint64_t np_fingerprint_mix(uint64_t address, uint32_t bits)
{
    uint64_t x = address ^ (uint64_t)bits * NP_FINGERPRINT_MUL0;
    x ^= x >> 32;
    x *= NP_FINGERPRINT_MUL1;
    return x ^ x >> 32;
}

/* The address of the first element that an update writes of a tensor, which begins `offset` floats
 * into its layer's slab: w, m and v take three addresses a weight; layers lie 2^44 apart. */
static inline uint64_t np_fingerprint_address(uint32_t layer, size_t offset)
{
    return ((uint64_t)layer << 44) + 3 * (uint64_t)offset;
}

/* A layer of one tensor. */
static inline struct np_layer_update np_update_alone(const struct np_update *u)
{
    struct np_layer_update all = {.layer = *u, .of = {{0, u->count, u->decay}}, .count = 1};
    return all;
}

/* The table of an instruction set, NULL if it was not built in or this machine lacks it. */
const struct np_kernels *np_kernels_get(enum np_isa isa);
/* The best table of this machine; never NULL. */
const struct np_kernels *np_kernels_best(void);
/* "scalar", "avx2", "avx512", "neon". */
const char *np_isa_name(enum np_isa isa);

/* Scratch each member of a team needs for attention over `length` positions (the longer of queries
 * and keys) with heads of `head_width` channels, and any product or convolution. */
size_t np_kernels_scratch_bytes(size_t length, size_t head_width);

/* NP_EINPUT unless this thread rounds to nearest and keeps subnormals; called at the start of every
 * thread that computes. */
enum np_status np_float_check(struct np_error *err);

#endif
