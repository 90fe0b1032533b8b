/* SIMD kernels of num/kernels.h: the causal depthwise convolution. */
#ifndef NP_NUM_DWCONV_SIMD_H
#define NP_NUM_DWCONV_SIMD_H

#include "num/loops.h"
#include "num/simd.h"

#define CONV_ROWS 4 /* output rows that share the weights in registers */
#define CONV_TAPS 4 /* taps whose gradients share a row of dy */

/* n (1..NP_VW) elements; the choice disappears where n is a constant. */
NP_INLINE vf conv_load(const float *p, size_t n)
{
    return n == NP_VW ? v_load(p) : v_load_n(p, n);
}

NP_INLINE void conv_store(float *p, vf v, size_t n)
{
    if (n == NP_VW)
        v_store(p, v);
    else
        v_store_n(p, n, v);
}

/* count (1..CONV_ROWS) rows of out, n (1..NP_VW) columns: out[i] = fma over taps of
 * in[i*ld + tap*step] and w[tap*ld]. */
NP_INLINE void conv_block(float *out, const float *in, ptrdiff_t step, const float *w, size_t ld,
                          size_t taps, size_t count, size_t n)
{
    vf acc[CONV_ROWS];
    for (size_t i = 0; i < count; i++)
        acc[i] = v_zero();
    for (size_t tap = 0; tap < taps; tap++, in += step, w += ld) {
        vf weight = conv_load(w, n);
        for (size_t i = 0; i < count; i++)
            acc[i] = v_fma(conv_load(in + i * ld, n), weight, acc[i]);
    }
    for (size_t i = 0; i < count; i++)
        conv_store(out + i * ld, acc[i], n);
}

NP_INLINE void conv_rows(float *out, const float *in, ptrdiff_t step, const float *w, size_t cols,
                         size_t taps, size_t count)
{
    size_t c = 0;
    for (; c + NP_VW <= cols; c += NP_VW)
        conv_block(out + c, in + c, step, w + c, cols, taps, count, NP_VW);
    if (c < cols)
        conv_block(out + c, in + c, step, w + c, cols, taps, count, cols - c);
}

static void dwconv(struct np_team *team, float *y, const float *x, const float *w, size_t samples,
                   size_t length, size_t cols, size_t taps)
{
    struct np_share share = np_team_share(team, samples * length, 1);
    for (size_t r = share.begin, n; r < share.end; r += n) {
        const float *in = x + (r + r / length * (taps - 1)) * cols;
        float *out = y + r * cols;
        n = r % length + CONV_ROWS <= length && r + CONV_ROWS <= share.end ? CONV_ROWS : 1;
        if (n == CONV_ROWS)
            conv_rows(out, in, (ptrdiff_t)cols, w, cols, taps, CONV_ROWS);
        else
            conv_rows(out, in, (ptrdiff_t)cols, w, cols, taps, 1);
    }
}

static void dwconv_grad(struct np_team *team, float *dx, const float *dy, const float *w,
                        size_t samples, size_t length, size_t cols, size_t taps)
{
    struct np_share share = np_team_share(team, samples * length, 1);
    ptrdiff_t back = -(ptrdiff_t)cols;
    for (size_t r = share.begin, n; r < share.end; r += n) {
        size_t t = r % length, last = t + taps - 1; /* what the first tap reads */
        size_t left_out = last < length ? 0 : last - (length - 1);
        const float *in = dy + (r + taps - 1 - left_out) * cols;
        float *out = dx + r * cols;
        n = last + CONV_ROWS <= length && r + CONV_ROWS <= share.end ? CONV_ROWS : 1;
        if (n == CONV_ROWS)
            conv_rows(out, in, back, w, cols, taps, CONV_ROWS);
        else
            conv_rows(out, in, back, w + left_out * cols, cols, taps - left_out, 1);
    }
}

/* The gradients of group (1..CONV_TAPS) taps' weights for n (1..NP_VW) columns: one chunk, its sums
 * in registers. x, dy and dw point at row 0, the first tap and column. */
NP_INLINE void conv_chunk(float *dw, const float *x, const float *dy, struct np_share chunk,
                          size_t length, size_t taps, size_t ld, size_t group, size_t n, bool keep)
{
    vf acc[CONV_TAPS];
    for (size_t i = 0; i < group; i++)
        acc[i] = v_zero();
    for (size_t r = chunk.begin, end; r < chunk.end; r = end) {
        size_t sample = r / length;
        const float *in = x + (r + sample * (taps - 1)) * ld;
        end = np_min((sample + 1) * length, chunk.end);
        for (size_t k = r; k < end; k++, in += ld) {
            vf up = conv_load(dy + k * ld, n);
            for (size_t i = 0; i < group; i++)
                acc[i] = v_fma(conv_load(in + i * ld, n), up, acc[i]);
        }
    }
    for (size_t i = 0; i < group; i++, dw += ld)
        conv_store(dw, keep ? v_add(conv_load(dw, n), acc[i]) : acc[i], n);
}

NP_INLINE void conv_chunk_taps(float *dw, const float *x, const float *dy, struct np_share chunk,
                               size_t length, size_t taps, size_t ld, size_t n, bool keep)
{
    size_t tap = 0;
    for (; tap + CONV_TAPS <= taps; tap += CONV_TAPS, dw += CONV_TAPS * ld, x += CONV_TAPS * ld)
        conv_chunk(dw, x, dy, chunk, length, taps, ld, CONV_TAPS, n, keep);
    if (taps - tap == 3)
        conv_chunk(dw, x, dy, chunk, length, taps, ld, 3, n, keep);
    else if (taps - tap == 2)
        conv_chunk(dw, x, dy, chunk, length, taps, ld, 2, n, keep);
    else if (taps - tap == 1)
        conv_chunk(dw, x, dy, chunk, length, taps, ld, 1, n, keep);
}

static void dwconv_grad_weight(struct np_team *team, float *dw, const float *x, const float *dy,
                               size_t samples, size_t length, size_t cols, size_t taps,
                               size_t grain, bool accumulate)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT), chunk;
    size_t rows = samples * length;
    for (chunk.begin = 0; chunk.begin < rows; chunk.begin = chunk.end) {
        bool keep = accumulate || chunk.begin > 0;
        size_t c = share.begin;
        chunk.end = np_chunk_end(chunk.begin, rows, grain);
        for (; c + NP_VW <= share.end; c += NP_VW)
            conv_chunk_taps(dw + c, x + c, dy + c, chunk, length, taps, cols, NP_VW, keep);
        if (c < share.end)
            conv_chunk_taps(dw + c, x + c, dy + c, chunk, length, taps, cols, share.end - c, keep);
    }
}

#endif
