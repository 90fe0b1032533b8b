#include <math.h>

#include "num/attention.h"
#include "num/backend.h"
#include "num/elementary.h"

/* Chunked sum of fma(a[p * a_step], b[p * b_step]) over p in [begin, end); chunk borders lie at
 * multiples of NP_KC. Continues *sum when it is not the first chunk. */
static void add_chunks(float *sum, bool first, const float *a, size_t a_step, const float *b,
                       size_t b_step, size_t begin, size_t end)
{
    for (size_t stop; begin < end; begin = stop, first = false) {
        float acc = 0;
        stop = np_min(begin / NP_KC * NP_KC + NP_KC, end);
        for (size_t p = begin; p < stop; p++)
            acc = fmaf(a[p * a_step], b[p * b_step], acc);
        *sum = first ? acc : *sum + acc;
    }
}

static float dot(const float *a, const float *b, size_t count)
{
    float sum = 0;
    add_chunks(&sum, true, a, 1, b, 1, 0, count);
    return sum;
}

static float combine_lanes(float lane[32])
{
    for (size_t stride = 16; stride > 0; stride /= 2)
        for (size_t l = 0; l < stride; l++)
            lane[l] = lane[l] + lane[l + stride];
    return lane[0];
}

static float probability(float s, float max, float sum)
{
    float p = np_expf(s - max) / sum;
    return p < NP_FLUSH ? 0 : p;
}

/* p[0..end-1] of a query that sees the first `seen` keys, whose scores are in p; others get +0. */
static void softmax_row(float *p, float stats[2], size_t seen, size_t end)
{
    float max = p[0], lane[32] = {0};
    for (size_t j = 1; j < seen; j++)
        max = p[j] > max ? p[j] : max;
    stats[0] = max + 0; /* so that the sign of a zero does not depend on who looked first */
    for (size_t j = 0; j < seen; j++)
        lane[j % 32] += np_expf(p[j] - stats[0]);
    stats[1] = combine_lanes(lane);
    for (size_t j = 0; j < end; j++)
        p[j] = j < seen ? probability(p[j], stats[0], stats[1]) : 0;
}

static void scores(float *s, const struct np_head *h, size_t i)
{
    for (size_t j = 0; j < np_seen(h, i); j++) {
        float x = dot(h->q + i * h->ldq, h->k + j * h->ldk, h->width);
        s[j] = h->relative ? fmaf(x, h->scale, h->relative[np_offset(h, i, j)]) : x * h->scale;
    }
}

void np_attention_scalar(struct np_team *team, float *out, float *stats,
                         const struct np_attention *at)
{
    struct np_share items = np_team_share(team, np_head_count(at), 1);
    float *p = team->scratch;
    for (size_t item = items.begin; item < items.end; item++) {
        struct np_head h = np_head_at(at, item);
        for (size_t i = 0; i < h.queries; i++) {
            float *row = out + h.out_offset + i * h.ld_out;
            size_t end = np_keys_end(&h, i);
            scores(p, &h, i);
            softmax_row(p, stats + h.stats_offset + 2 * i, np_seen(&h, i), end);
            for (size_t d = 0; d < h.width; d++)
                add_chunks(&row[d], true, p, 1, h.v + d, h.ldk, 0, end);
        }
    }
}

/* p and ds of query i for the keys that its sums run over; adds to what its offsets get. */
static void grad_row(float *p, float *ds, float *drelative, const struct np_head *h,
                     const float *dout, const float stats[2], size_t i)
{
    size_t seen = np_seen(h, i);
    float lane[32] = {0}, a;
    scores(p, h, i);
    for (size_t j = 0; j < seen; j++) {
        p[j] = probability(p[j], stats[0], stats[1]);
        ds[j] = dot(dout, h->v + j * h->ldk, h->width);
        lane[j % 32] = fmaf(p[j], ds[j], lane[j % 32]);
    }
    a = combine_lanes(lane);
    for (size_t j = 0; j < np_keys_end(h, i); j++) {
        float g = j < seen ? p[j] * (ds[j] - a) : 0;
        if (h->relative && j < seen)
            drelative[np_offset(h, i, j)] += g;
        p[j] = j < seen ? p[j] : 0;
        ds[j] = j < seen ? g * h->scale : 0;
    }
}

/* Adds the queries first..end-1, one chunk, to the gradients of key and value j. */
static void grad_key(float *dk, float *dv, const struct np_head *h, const float *p, const float *ds,
                     const float *dout, size_t j, size_t first, size_t end)
{
    size_t all = np_queries_begin(h, j), begin = all > first ? all : first;
    size_t skipped = begin - first;
    p += skipped * h->keys + j;
    ds += skipped * h->keys + j;
    for (size_t d = 0; d < h->width; d++) {
        add_chunks(&dv[d], all >= first, p, h->keys, dout + begin * h->ld_out + d, h->ld_out, 0,
                   end - begin);
        add_chunks(&dk[d], all >= first, ds, h->keys, h->q + begin * h->ldq + d, h->ldq, 0,
                   end - begin);
    }
}

static void grad_head(const struct np_head *h, float *dq, float *dk, float *dv, float *drelative,
                      const float *dout, const float *stats, float *scratch)
{
    float *p = scratch, *ds = scratch + NP_KC * h->keys;
    for (size_t o = 0; o < h->offsets; o++)
        drelative[o] = 0;
    for (size_t first = 0, end; first < h->queries; first = end) {
        end = np_min(first + NP_KC, h->queries);
        for (size_t i = first; i < end; i++) {
            float *ds_row = ds + (i - first) * h->keys;
            grad_row(p + (i - first) * h->keys, ds_row, drelative, h, dout + i * h->ld_out,
                     stats + 2 * i, i);
            for (size_t d = 0; d < h->width; d++)
                add_chunks(&dq[i * h->ldq + d], true, ds_row, 1, h->k + d, h->ldk, 0,
                           np_keys_end(h, i));
        }
        for (size_t j = 0; j < np_keys_end(h, end - 1); j++)
            grad_key(dk + j * h->ldk, dv + j * h->ldk, h, p, ds, dout, j, first, end);
    }
    for (size_t j = h->keys; j < h->rows; j++)
        for (size_t d = 0; d < h->width; d++)
            dk[j * h->ldk + d] = dv[j * h->ldk + d] = 0;
}

void np_attention_grad_scalar(struct np_team *team, float *dq, float *dk, float *dv,
                              float *drelative, const float *dout, const float *stats,
                              const struct np_attention *at)
{
    struct np_share items = np_team_share(team, np_head_count(at), 1);
    for (size_t item = items.begin; item < items.end; item++) {
        struct np_head h = np_head_at(at, item);
        grad_head(&h, dq + h.q_offset, dk + h.k_offset, dv + h.k_offset,
                  h.relative ? drelative + h.relative_offset : NULL, dout + h.out_offset,
                  stats + h.stats_offset, team->scratch);
    }
}
