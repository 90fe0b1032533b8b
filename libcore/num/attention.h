/* What the attention kernels of all backends agree on. Private to num/. */
#ifndef NP_NUM_ATTENTION_H
#define NP_NUM_ATTENTION_H

#include <math.h>

#include "num/chunk.h"
#include "num/kernels.h"

/* A member's scratch: a head's packed operands (forward 2, backward 5), each as many positions x
 * width, rounded up to NP_GEMM_NR; then blocks of up to NP_KC queries x all keys, for p and dp. */
enum { NP_ATTENTION_PACKED = 5, NP_ATTENTION_BLOCKS = 2 };

/* One head of one sample: rows of q are ldq floats apart, those of k and v ldk, those of out and
 * dout ld_out. */
struct np_head {
    const float *q, *k, *v;
    const float *relative;                               /* of its offsets, NULL: none */
    size_t ldq, ldk, ld_out, queries, keys, rows, width; /* rows: keys, and what is filled */
    size_t across, down, offsets; /* relative positions: of a row, rows, as many as a table has */
    size_t q_offset, k_offset, out_offset, stats_offset; /* in the tensors of all heads */
    size_t relative_offset; /* in those of all heads' offsets, of all samples */
    bool causal;
    float scale;
};

/* The number of heads of all samples. */
NP_FN size_t np_head_count(const struct np_attention *at)
{
    return at->samples * at->heads;
}

NP_FN struct np_head np_head_at(const struct np_attention *at, size_t item)
{
    size_t sample = item / at->heads, width = at->width / at->heads;
    size_t column = item % at->heads * width;
    struct np_head h = {.ldq = at->ldq,
                        .ldk = at->ldk,
                        .ld_out = at->width,
                        .queries = at->queries,
                        .keys = at->lengths ? (size_t)at->lengths[sample] : at->keys,
                        .rows = at->keys,
                        .width = width,
                        .causal = at->causal};
    h.q_offset = sample * at->queries * h.ldq + column;
    h.k_offset = sample * at->keys * h.ldk + column;
    h.out_offset = sample * at->queries * h.ld_out + column;
    h.stats_offset = item * at->queries * 2;
    h.q = at->q + h.q_offset;
    h.k = at->k + h.k_offset;
    h.v = at->v + h.k_offset;
    h.scale = 1 / sqrtf((float)width);
    if (at->relative) {
        h.across = at->across;
        h.down = at->queries / at->across;
        h.offsets = np_offset_count(h.down, h.across, at->causal);
        h.relative = at->relative + item % at->heads * h.offsets;
        h.relative_offset = item * h.offsets;
    }
    return h;
}

/* How far key j lies from query i. The next keys of its row have the next offsets; those of the row
 * after it lie np_offset_row(h) further. */
NP_FN size_t np_offset(const struct np_head *h, size_t i, size_t j)
{
    uint32_t across = (uint32_t)h->across, query = (uint32_t)i, key = (uint32_t)j;
    size_t y = key / across + (h->down - 1) - query / across;
    return y * (2 * h->across - 1) + key % across + (across - 1) - query % across;
}

NP_FN size_t np_offset_row(const struct np_head *h)
{
    return 2 * h->across - 1;
}

/* Query i sees the keys before this one. */
NP_FN size_t np_seen(const struct np_head *h, size_t i)
{
    return h->causal ? i + 1 : h->keys;
}

/* Sums over keys of query i run to here. */
NP_FN size_t np_keys_end(const struct np_head *h, size_t i)
{
    return h->causal ? np_min(i / NP_ATTN_TILE * NP_ATTN_TILE + NP_ATTN_TILE, h->keys) : h->keys;
}

/* Sums over queries of key j begin here. */
NP_FN size_t np_queries_begin(const struct np_head *h, size_t j)
{
    return h->causal ? j / NP_ATTN_TILE * NP_ATTN_TILE : 0;
}

#endif
