/* The weights, or dy, as the right operand of a convolution's product: a part of conv_simd.h. */
#ifndef NP_NUM_CONV_RIGHT_H
#define NP_NUM_CONV_RIGHT_H

#include "num/product_simd.h"

/* Columns of the right operand follow each other: weights of the forward, or dy. */
struct plain_right {
    struct right base;
    const float *b;
};

static void pack_plain(const struct right *right, float *dst, size_t sliver, struct np_share inner,
                       struct np_share cols)
{
    const float *b = ((const struct plain_right *)right)->b + inner.begin * right->ld;
    NP_SIMD(np_gemm_pack_b)
    (dst, sliver, b + cols.begin, right->ld, false, np_share_count(inner), np_share_count(cols));
}

static void pack_plain_narrow(const struct right *right, float *dst, size_t sliver,
                              struct np_share inner, struct np_share cols)
{
    const float *b = ((const struct plain_right *)right)->b + cols.begin;
    (void)sliver;
    for (size_t q = inner.begin; q < inner.end; q++, dst += NP_VW)
        v_store(dst, v_load_n(b + q * right->ld, np_share_count(cols)));
}

/* Weights of the input's gradient: inner index (tap, co), column ci. */
struct turned_right {
    struct right base;
    const float *w;                /* of the last tap, which comes first */
    size_t across, back_h, back_w; /* taps across; floats back to the next tap down, across */
    size_t channels, cols;         /* of a group: co, ci */
};

/* Where the weights of a tap begin. */
static const float *turned_tap(const struct turned_right *b, size_t tap)
{
    return b->w - tap / b->across * b->back_h - tap % b->across * b->back_w;
}

/* And from there on those of column ci. */
static size_t turned_column(const struct turned_right *b, size_t ci)
{
    return ci % b->cols * b->base.ld + ci / b->cols * b->channels;
}

static void pack_turned(const struct right *right, float *dst, size_t sliver, struct np_share inner,
                        struct np_share cols)
{
    const struct turned_right *b = (const struct turned_right *)right;
    for (size_t q = inner.begin, count; q < inner.end; q += count) {
        size_t tap = q / b->channels, co = q % b->channels;
        const float *w = turned_tap(b, tap) + turned_column(b, cols.begin);
        count = np_min(b->channels - co, inner.end - q);
        NP_SIMD(np_gemm_pack_b)
        (dst + (q - inner.begin) * NR, sliver, w + co, right->ld, true, count,
         np_share_count(cols));
    }
}

static void pack_turned_narrow(const struct right *right, float *dst, size_t sliver,
                               struct np_share inner, struct np_share cols)
{
    const struct turned_right *b = (const struct turned_right *)right;
    size_t column[NP_VW], count = np_share_count(cols);
    (void)sliver;
    for (size_t l = 0; l < count; l++)
        column[l] = turned_column(b, cols.begin + l);
    for (size_t q = inner.begin; q < inner.end; q++, dst += NP_VW) {
        const float *w = turned_tap(b, q / b->channels) + q % b->channels;
        for (size_t l = 0; l < NP_VW; l++)
            dst[l] = l < count ? w[column[l]] : 0;
    }
}

#endif
