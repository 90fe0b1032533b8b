#include <math.h>

#include "num/backend.h"
#include "num/chunk.h"
#include "num/epilogue.h"

/* A chunked sum on its way, one product at a time; `grain` indices a grain, 0: one. */
struct sum {
    float total, acc;
    size_t count, end, grain;
    bool begun; /* the total holds a chunk, or what is accumulated onto */
};

static void sum_close(struct sum *s)
{
    if (s->count > 0)
        s->total = s->begun ? s->total + s->acc : s->acc;
    s->begun = true;
    s->acc = 0;
}

/* The next index; its product is left out where a is NULL. */
static void sum_add(struct sum *s, const float *a, float b)
{
    if (s->count == s->end) {
        if (s->count > 0)
            sum_close(s);
        s->end = np_chunk_end(s->count, SIZE_MAX, s->grain);
    }
    if (a)
        s->acc = fmaf(*a, b, s->acc);
    s->count++;
}

static float sum_end(struct sum *s)
{
    sum_close(s);
    return s->total;
}

/* What the window's tap (kh, kw) at output position (oh, ow) of sample n sees: channel c of x, NULL
 * outside the image. */
static const float *x_at(const struct np_conv *v, size_t n, size_t oh, size_t ow, int kh, int kw,
                         size_t c)
{
    const struct np_window *win = &v->window;
    ptrdiff_t h = (ptrdiff_t)oh * win->stride_height + kh * win->dilation - win->pad_top;
    ptrdiff_t w = (ptrdiff_t)ow * win->stride_width + kw * win->dilation - win->pad_left;
    if (h < 0 || w < 0 || h >= (ptrdiff_t)v->in_height || w >= (ptrdiff_t)v->in_width)
        return NULL;
    return v->x + ((n * v->in_height + (size_t)h) * v->in_width + (size_t)w) * v->ldx + c;
}

static float w_at(const struct np_conv *v, int kh, int kw, size_t ci, size_t co)
{
    size_t tap = (size_t)kh * (size_t)v->window.kernel_width + (size_t)kw;
    return v->w[(tap * (v->in_channels / v->groups) + ci) * v->out_channels + co];
}

static float y_element(const struct np_conv *v, size_t n, size_t oh, size_t ow, size_t co)
{
    size_t depth = v->in_channels / v->groups;
    size_t first = co / (v->out_channels / v->groups) * depth;
    struct sum sum = {0};
    for (int kh = 0; kh < v->window.kernel_height; kh++)
        for (int kw = 0; kw < v->window.kernel_width; kw++)
            for (size_t ci = 0; ci < depth; ci++)
                sum_add(&sum, x_at(v, n, oh, ow, kh, kw, first + ci), w_at(v, kh, kw, ci, co));
    return sum_end(&sum);
}

bool np_conv_scalar(struct np_team *team, const struct np_conv *v)
{
    size_t width = v->out_width, height = v->out_height;
    struct np_share rows = np_team_share(team, v->samples * height * width, 1);
    bool finite = true;
    for (size_t r = rows.begin; r < rows.end; r++)
        for (size_t co = 0; co < v->out_channels; co++) {
            float y = y_element(v, r / width / height, r / width % height, r % width, co);
            v->out[r * v->ldy + co] = np_epilogue_element(&v->epilogue, r, co, y, &finite);
        }
    return finite;
}

/* dy at the output position, one dimension each, that tap kh (kw) joins with an input position:
 * at = ih + pad_top - kh * dilation, to be divided by the stride. NULL outside. */
static const float *dy_at(const struct np_conv *v, size_t n, ptrdiff_t at_h, ptrdiff_t at_w,
                          size_t co)
{
    ptrdiff_t oh = at_h / v->window.stride_height, ow = at_w / v->window.stride_width;
    if (at_h < 0 || at_w < 0 || oh >= (ptrdiff_t)v->out_height || ow >= (ptrdiff_t)v->out_width)
        return NULL;
    return v->dy + ((n * v->out_height + (size_t)oh) * v->out_width + (size_t)ow) * v->ldy + co;
}

static float dx_element(const struct np_conv *v, size_t n, size_t ih, size_t iw, size_t ci)
{
    const struct np_window *win = &v->window;
    size_t depth = v->in_channels / v->groups, cols = v->out_channels / v->groups;
    size_t first = ci / depth * cols;
    struct sum sum = {0};
    for (int kh = win->kernel_height - 1; kh >= 0; kh--) {
        ptrdiff_t h = (ptrdiff_t)ih + win->pad_top - kh * win->dilation;
        for (int kw = win->kernel_width - 1; kw >= 0; kw--) {
            ptrdiff_t w = (ptrdiff_t)iw + win->pad_left - kw * win->dilation;
            if (h % win->stride_height != 0 || w % win->stride_width != 0)
                continue;
            for (size_t co = first; co < first + cols; co++)
                sum_add(&sum, dy_at(v, n, h, w, co), w_at(v, kh, kw, ci % depth, co));
        }
    }
    return sum_end(&sum);
}

bool np_conv_grad_scalar(struct np_team *team, const struct np_conv *v)
{
    size_t width = v->in_width, height = v->in_height;
    struct np_share rows = np_team_share(team, v->samples * height * width, 1);
    bool finite = true;
    for (size_t r = rows.begin; r < rows.end; r++)
        for (size_t ci = 0; ci < v->in_channels; ci++) {
            float dx = dx_element(v, r / width / height, r / width % height, r % width, ci);
            v->out[r * v->ldx + ci] = np_epilogue_element(&v->epilogue, r, ci, dx, &finite);
        }
    return finite;
}

static float dw_element(const struct np_conv *v, int kh, int kw, size_t ci, size_t co, float old)
{
    size_t depth = v->in_channels / v->groups, cols = v->out_channels / v->groups;
    size_t image = v->out_height * v->out_width;
    struct sum sum = {.total = old, .grain = v->grain * image, .begun = v->accumulate};
    for (size_t r = 0; r < v->samples * image; r++) {
        size_t oh = r % image / v->out_width, ow = r % v->out_width;
        const float *x = x_at(v, r / image, oh, ow, kh, kw, co / cols * depth + ci);
        sum_add(&sum, x, v->dy[r * v->ldy + co]);
    }
    return sum_end(&sum);
}

bool np_conv_grad_weight_scalar(struct np_team *team, const struct np_conv *v)
{
    size_t depth = v->in_channels / v->groups, taps_wide = (size_t)v->window.kernel_width;
    size_t taps = (size_t)v->window.kernel_height * taps_wide;
    struct np_share rows = np_team_share(team, taps * depth, 1);
    bool finite = true;
    for (size_t r = rows.begin; r < rows.end; r++)
        for (size_t co = 0; co < v->out_channels; co++) {
            size_t tap = r / depth;
            float *dw = &v->out[r * v->out_channels + co];
            *dw = dw_element(v, (int)(tap / taps_wide), (int)(tap % taps_wide), r % depth, co,
                             v->accumulate ? *dw : 0);
            finite = finite && np_is_finite(*dw);
        }
    return finite;
}
