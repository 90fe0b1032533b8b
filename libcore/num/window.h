/* Which positions a sliding window joins (struct np_window), along the height or the width: the
 * arithmetic of the reference. Private to num/.
 *
 * NP_OUTSIDE: there is none.
 */
#ifndef NP_NUM_WINDOW_H
#define NP_NUM_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "num/arguments.h"
#include "num/function.h"

#define NP_OUTSIDE SIZE_MAX

/* The input position that tap k of output position o reads. */
NP_FN size_t np_window_reads(size_t o, int k, int stride, int dilation, int pad, size_t size)
{
    ptrdiff_t at = (ptrdiff_t)o * stride + (ptrdiff_t)k * dilation - pad;
    return at < 0 || at >= (ptrdiff_t)size ? NP_OUTSIDE : (size_t)at;
}

/* The output position whose tap k reads input position i. */
NP_FN size_t np_window_reader(size_t i, int k, int stride, int dilation, int pad, size_t size)
{
    ptrdiff_t at = (ptrdiff_t)i + pad - (ptrdiff_t)k * dilation;
    if (at < 0 || at % stride != 0 || at / stride >= (ptrdiff_t)size)
        return NP_OUTSIDE;
    return (size_t)(at / stride);
}

NP_FN size_t np_input_row(const struct np_conv *v, size_t oh, int kh)
{
    const struct np_window *w = &v->window;
    return np_window_reads(oh, kh, w->stride_height, w->dilation, w->pad_top, v->in_height);
}

NP_FN size_t np_input_column(const struct np_conv *v, size_t ow, int kw)
{
    const struct np_window *w = &v->window;
    return np_window_reads(ow, kw, w->stride_width, w->dilation, w->pad_left, v->in_width);
}

NP_FN size_t np_output_row(const struct np_conv *v, size_t ih, int kh)
{
    const struct np_window *w = &v->window;
    return np_window_reader(ih, kh, w->stride_height, w->dilation, w->pad_top, v->out_height);
}

NP_FN size_t np_output_column(const struct np_conv *v, size_t iw, int kw)
{
    const struct np_window *w = &v->window;
    return np_window_reader(iw, kw, w->stride_width, w->dilation, w->pad_left, v->out_width);
}

#endif
