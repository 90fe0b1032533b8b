/* Body of attention_<isa>.c.
 *
 * A member takes whole heads. A head's operands are packed once; its rows are worked off in tiles
 * of NP_ATTN_TILE queries, in the backward in blocks of NP_KC queries, which are the chunks of the
 * sums over queries: so no more than two blocks of scores exist at any time.
 */
#ifndef NP_NUM_ATTENTION_SIMD_H
#define NP_NUM_ATTENTION_SIMD_H

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "num/attention.h"
#include "num/backend.h"
#include "num/elementary.h"
#include "num/gemm.h"
#include "num/lanes.h"

#define NR (2 * NP_VW)
#define LANES 32

_Static_assert(NP_ATTN_TILE == LANES, "a row ends with a whole step of the lane sum");

/* A whole right operand, k x n: panels of NP_KC inner indices, each as np_gemm_pack_b leaves it. */
struct packed {
    const float *data;
    size_t k, n;
};

struct scratch {
    float *operands[NP_ATTENTION_PACKED];
    float *p, *dp; /* rows are ld floats apart: odd in cache lines, so that columns spread */
    size_t ld;
};

static struct scratch carve(const struct np_team *team, const struct np_head *h)
{
    struct scratch s;
    size_t longer = h->queries > h->keys ? h->queries : h->keys;
    size_t operand = np_round_up(longer, NP_GEMM_NR) * np_round_up(h->width, NP_GEMM_NR);
    float *at = team->scratch;
    for (size_t i = 0; i < NP_ATTENTION_PACKED; i++, at += operand)
        s.operands[i] = at;
    s.ld = np_round_up(h->keys, NP_GEMM_NR) + NP_GEMM_PAD;
    s.p = at;
    s.dp = at + NP_KC * s.ld;
    return s;
}

static struct packed pack(float *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    struct packed packed = {dst, k, n};
    for (size_t p = 0; p < k; p += NP_KC) {
        size_t kc = np_min(NP_KC, k - p);
        NP_SIMD(np_gemm_pack_b)
        (dst + p * np_round_up(n, NR), kc * NR, b + p * (trans ? 1 : ldb), ldb, trans, kc, n);
    }
    return packed;
}

/* C[m][n] = sum over inner indices begin..end-1 of A B; a points to inner index begin. */
struct product {
    float *c;
    size_t ldc;
    const float *a;
    size_t a_row, a_col;
    size_t m, n, begin, end;
    bool add; /* C += */
};

static void multiply(const struct product *x, const struct packed *b)
{
    struct np_gemm g = {.m = x->m, .n = x->n, .a = x->a, .a_row = x->a_row, .a_col = x->a_col};
    g.c = x->c;
    g.ldc = x->ldc;
    g.first = !x->add;
    for (size_t p = x->begin; p < x->end; p += g.kc) {
        size_t panel = p / NP_KC * NP_KC;
        g.kc = g.step = np_min(panel + NP_KC, x->end) - p;
        g.sliver = np_min(NP_KC, b->k - panel) * NR;
        g.b = b->data + panel * np_round_up(b->n, NR) + (p - panel) * NR;
        NP_SIMD(np_gemm_run)(&g);
        g.a += g.kc * g.a_col;
        g.first = false;
    }
}

/* Scales the scores and finds their maximum; `count` of them, a multiple of LANES. */
static float scale_max(float *s, size_t count, float scale)
{
    vf top = v_set1(-INFINITY), factor = v_set1(scale);
    for (size_t j = 0; j < count; j += NP_VW) {
        vf x = v_mul(v_load(s + j), factor);
        v_store(s + j, x);
        top = v_max(x, top);
    }
    return v_most(top) + 0; /* so that the sign of a zero does not depend on who looked first */
}

static void exponentials(float *s, size_t count, float max)
{
    for (size_t j = 0; j < count; j++)
        s[j] = np_expf(s[j] - max);
}

static void probabilities(float *e, size_t count, float sum)
{
    for (size_t j = 0; j < count; j++) {
        float p = e[j] / sum;
        e[j] = p < NP_FLUSH ? 0 : p;
    }
}

static void fill(float *x, size_t begin, size_t end, float value)
{
    for (; begin < end; begin++)
        x[begin] = value;
}

/* Scores of a query that sees `seen` keys to its probabilities. The row is padded to `end`: e is
 * never negative, so its lanes may add +0 for keys that are not seen. */
static void softmax_row(float *s, float stats[2], size_t seen, size_t end, float scale)
{
    fill(s, seen, end, s[0]);
    stats[0] = scale_max(s, end, scale);
    exponentials(s, end, stats[0]);
    fill(s, seen, end, 0);
    stats[1] = lane_sum(s, end);
    probabilities(s, end, stats[1]);
}

/* Scales the scores of query i and the keys that it sees, and adds what the table has for how far
 * they lie apart. */
static void add_relative(float *s, const struct np_head *h, size_t i)
{
    const size_t seen = np_seen(h, i);
    const float scale = h->scale;
    size_t offset = np_offset(h, i, 0);
    for (size_t j = 0; j < seen; j += h->across, offset += np_offset_row(h)) {
        const float *at = h->relative + offset;
        float *row = s + j;
        for (size_t x = 0, end = np_min(h->across, seen - j); x < end; x++)
            row[x] = np_fmaf(row[x], scale, at[x]);
    }
}

/* Adds the gradients of a query's scores to those of offsets, and scales them. */
static void take_relative(float *drelative, float *ds, const struct np_head *h, size_t i)
{
    const size_t seen = np_seen(h, i);
    const float scale = h->scale;
    size_t offset = np_offset(h, i, 0);
    for (size_t j = 0; j < seen; j += h->across, offset += np_offset_row(h)) {
        float *to = drelative + offset, *row = ds + j;
        for (size_t x = 0, end = np_min(h->across, seen - j); x < end; x++) {
            to[x] += row[x];
            row[x] *= scale;
        }
    }
}

/* What scores are still to be multiplied by. */
static float scale_left(const struct np_head *h)
{
    return h->relative ? 1 : h->scale;
}

/* The queries i.. that are worked off together end here. */
static size_t tile_end(const struct np_head *h, size_t i)
{
    return np_min(i + NP_ATTN_TILE, h->queries);
}

/* Rows of scores q k (or dout v) of the tile of queries i..; key columns of whole slivers. */
static void score_tile(float *s, size_t ld, const float *rows, size_t ld_rows,
                       const struct np_head *h, const struct packed *keys, size_t i)
{
    struct product x = {.c = s, .ldc = ld, .a = rows + i * ld_rows, .a_row = ld_rows, .a_col = 1};
    x.m = tile_end(h, i) - i;
    x.n = np_round_up(np_keys_end(h, i), NR);
    x.end = h->width;
    multiply(&x, keys);
}

static void attend(const struct np_head *h, float *out, float *stats, const struct scratch *s)
{
    struct packed keys = pack(s->operands[0], h->k, h->ldk, true, h->width, h->keys);
    struct packed values = pack(s->operands[1], h->v, h->ldk, false, h->keys, h->width);
    for (size_t i = 0, end; i < h->queries; i = end) {
        size_t sums = np_keys_end(h, i);
        end = tile_end(h, i);
        score_tile(s->p, s->ld, h->q, h->ldq, h, &keys, i);
        for (size_t r = i; r < end; r++) {
            float *row = s->p + (r - i) * s->ld;
            if (h->relative)
                add_relative(row, h, r);
            softmax_row(row, stats + 2 * r, np_seen(h, r), np_round_up(sums, LANES), scale_left(h));
        }
        struct product x = {.c = out + i * h->ld_out, .ldc = h->ld_out, .m = end - i, .end = sums};
        x.n = h->width;
        x.a = s->p;
        x.a_row = s->ld;
        x.a_col = 1;
        multiply(&x, &values);
    }
}

void NP_SIMD(np_attention)(struct np_team *team, float *out, float *stats,
                           const struct np_attention *at)
{
    struct np_deal deal = np_team_deal(team, np_head_count(at), 1);
    for (size_t item; np_deal_item(&deal, &item);) {
        struct np_head h = np_head_at(at, item);
        struct scratch s = carve(team, &h);
        attend(&h, out + h.out_offset, stats + h.stats_offset, &s);
    }
}

/* Scores of query i in p to its probabilities, dp to ds. */
static void grad_row(const struct np_head *h, float *p, float *dp, float *drelative,
                     const float stats[2], size_t i)
{
    const size_t seen = np_seen(h, i), end = np_round_up(np_keys_end(h, i), LANES);
    const float scale = scale_left(h);
    if (h->relative)
        add_relative(p, h, i);
    fill(p, seen, end, p[0]);
    for (size_t j = 0; j < end; j++)
        p[j] = np_expf(p[j] * scale - stats[0]);
    probabilities(p, end, stats[1]);
    float a = lane_dot(p, dp, seen);
    for (size_t j = 0; j < seen; j++)
        dp[j] = (p[j] * (dp[j] - a)) * scale;
    if (h->relative)
        take_relative(drelative, dp, h, i);
    fill(p, seen, end, 0);
    fill(dp, seen, end, 0);
}

/* Where a head's gradients go; relative: its offsets', NULL where it has none. */
struct gradients {
    float *q, *k, *v, *relative;
};

/* The packed operands of the backward. */
struct operands {
    struct packed keys_trans, values_trans, keys, queries, dout;
};

/* p, ds and dq of the queries first..last-1, and what their offsets get. */
static void grad_queries(const struct np_head *h, struct gradients to, const float *dout,
                         const float *stats, const struct operands *o, const struct scratch *s,
                         size_t first, size_t last)
{
    for (size_t i = first, end; i < last; i = end) {
        float *p = s->p + (i - first) * s->ld, *dp = s->dp + (i - first) * s->ld;
        size_t sums = np_keys_end(h, i);
        end = tile_end(h, i);
        score_tile(p, s->ld, h->q, h->ldq, h, &o->keys_trans, i);
        score_tile(dp, s->ld, dout, h->ld_out, h, &o->values_trans, i);
        for (size_t r = i; r < end; r++)
            grad_row(h, p + (r - i) * s->ld, dp + (r - i) * s->ld, to.relative, stats + 2 * r, r);
        struct product x = {.c = to.q + i * h->ldq, .ldc = h->ldq, .m = end - i, .end = sums};
        x.n = h->width;
        x.a = dp;
        x.a_row = s->ld;
        x.a_col = 1;
        multiply(&x, &o->keys);
    }
}

/* dv (from p, dout) or dk (from ds, q): adds the chunk of queries first..last-1 to the sums that
 * began before it at once, and begins the others: all in the first chunk; causal, those of the keys
 * inside the chunk, tile by tile. */
static void grad_keys(const struct np_head *h, float *dk, const float *p, size_t ld,
                      const struct packed *rows, size_t first, size_t last)
{
    struct product x = {.c = dk, .ldc = h->ldk, .a = p, .a_row = 1, .a_col = ld, .n = h->width};
    x.m = h->causal ? first : h->keys;
    x.begin = first;
    x.end = last;
    x.add = first > 0;
    if (x.m > 0)
        multiply(&x, rows);
    x.add = false;
    for (size_t j = first; h->causal && j < last; j += x.m) {
        x.m = tile_end(h, j) - j;
        x.begin = j;
        x.a = p + (j - first) * ld + j;
        x.c = dk + j * h->ldk;
        multiply(&x, rows);
    }
}

static void attend_grad(const struct np_head *h, struct gradients to, const float *dout,
                        const float *stats, const struct scratch *s)
{
    struct operands o = {
        pack(s->operands[0], h->k, h->ldk, true, h->width, h->keys),
        pack(s->operands[1], h->v, h->ldk, true, h->width, h->keys),
        pack(s->operands[2], h->k, h->ldk, false, h->keys, h->width),
        pack(s->operands[3], h->q, h->ldq, false, h->queries, h->width),
        pack(s->operands[4], dout, h->ld_out, false, h->queries, h->width),
    };
    fill(to.relative, 0, h->offsets, 0);
    for (size_t first = 0, last; first < h->queries; first = last) {
        last = np_min(first + NP_KC, h->queries);
        grad_queries(h, to, dout, stats, &o, s, first, last);
        grad_keys(h, to.k, s->dp, s->ld, &o.queries, first, last);
        grad_keys(h, to.v, s->p, s->ld, &o.dout, first, last);
    }
    for (size_t j = h->keys; j < h->rows; j++) {
        fill(to.k + j * h->ldk, 0, h->width, 0);
        fill(to.v + j * h->ldk, 0, h->width, 0);
    }
}

void NP_SIMD(np_attention_grad)(struct np_team *team, float *dq, float *dk, float *dv,
                                float *drelative, const float *dout, const float *stats,
                                const struct np_attention *at)
{
    struct np_deal deal = np_team_deal(team, np_head_count(at), 1);
    for (size_t item; np_deal_item(&deal, &item);) {
        struct np_head h = np_head_at(at, item);
        struct scratch s = carve(team, &h);
        struct gradients to = {dq + h.q_offset, dk + h.k_offset, dv + h.k_offset,
                               h.relative ? drelative + h.relative_offset : NULL};
        attend_grad(&h, to, dout + h.out_offset, stats + h.stats_offset, &s);
    }
}

#endif
