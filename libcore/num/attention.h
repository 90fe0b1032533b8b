/* What the attention kernels of all backends agree on. Private to num/. */
#ifndef NP_NUM_ATTENTION_H
#define NP_NUM_ATTENTION_H

#include <math.h>

#include "num/chunk.h"
#include "num/kernels.h"

/* A member's scratch: a head's packed operands (forward 2, backward 5), each length x width rounded
 * up to NP_GEMM_NR; then blocks of up to NP_KC queries x length, for p and dp. */
enum { NP_ATTENTION_PACKED = 5, NP_ATTENTION_BLOCKS = 2 };

/* One head of one sample. Rows of q, k, v are ld floats apart; those of out and dout are ld_out. */
struct np_head {
    const float *q, *k, *v;
    size_t ld, ld_out, length, width;
    size_t qkv_offset, out_offset, stats_offset; /* in the tensors of all heads */
    float scale;
};

static inline struct np_head np_head_at(const struct np_attention *at, size_t item)
{
    size_t sample = item / at->heads, number = item % at->heads, width = at->width / at->heads;
    struct np_head h = {.ld = 3 * at->width, .ld_out = at->width, .length = at->length};
    h.width = width;
    h.qkv_offset = sample * at->length * h.ld + number * width;
    h.out_offset = sample * at->length * h.ld_out + number * width;
    h.stats_offset = item * at->length * 2;
    h.q = at->qkv + h.qkv_offset;
    h.k = h.q + at->width;
    h.v = h.k + at->width;
    h.scale = 1 / sqrtf((float)width);
    return h;
}

/* The end of the tile of query i. */
static inline size_t np_tile_end(const struct np_head *h, size_t i)
{
    return np_min(i / NP_ATTN_TILE * NP_ATTN_TILE + NP_ATTN_TILE, h->length);
}

#endif
