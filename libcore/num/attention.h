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
    size_t ldq, ldk, ld_out, queries, keys, width;
    size_t q_offset, k_offset, out_offset, stats_offset; /* in the tensors of all heads */
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
                        .keys = at->keys,
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
    return h;
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
