/* Depthwise convolutions: every backend gives the bits of the reference, and the reference what a
 * plain sum in double precision gives, within the bound of its rounding.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel_check.h"
#include "suite.h"
#include "team_run.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define U 0x1p-24 /* unit of rounding */

/* Sizes of x and y, the window, columns beyond the channels in x and y, grain in samples. */
struct shape {
    size_t samples, height, width, out_height, out_width, channels;
    struct np_window window;
    size_t more_x, more_y, grain;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 1, {1, 1, 1, 1, 1, 0, 0}, 0, 0, 0},
    {2, 8, 8, 8, 8, 24, {3, 3, 1, 1, 1, 1, 1}, 0, 0, 1},
    {3, 32, 32, 32, 32, 16, {3, 3, 1, 1, 1, 1, 1}, 0, 0, 1},
    {5, 32, 32, 32, 32, 58, {3, 3, 1, 1, 1, 1, 1}, 0, 0, 1}, /* fetched ahead */
    {9, 33, 31, 17, 16, 47, {3, 3, 2, 2, 1, 1, 1}, 1, 0, 2}, /* the same */
    {2, 13, 29, 13, 29, 58, {3, 3, 1, 1, 1, 1, 1}, 58, 3, 1},
    {5, 14, 14, 7, 7, 33, {3, 3, 2, 2, 1, 1, 1}, 0, 7, 2},
    {3, 15, 17, 8, 9, 48, {5, 5, 2, 2, 1, 2, 2}, 0, 0, 3},
    {2, 14, 14, 7, 7, 50, {7, 7, 2, 2, 1, 2, 3}, 1, 0, 0},
    {2, 28, 23, 28, 23, 40, {7, 7, 1, 1, 1, 3, 3}, 0, 0, 1},
    {40, 4, 4, 4, 4, 116, {7, 7, 1, 1, 1, 3, 3}, 0, 0, 40},
    {40, 4, 4, 4, 4, 116, {7, 7, 1, 1, 1, 3, 3}, 0, 0, 1}, /* many chunks */
    {70, 2, 2, 2, 2, 19, {5, 5, 1, 1, 1, 2, 2}, 2, 2, 30},
    {90, 2, 2, 2, 2, 8, {3, 3, 1, 1, 1, 1, 1}, 0, 0, 90}, /* short rows */
    {40, 4, 4, 2, 2, 47, {7, 7, 2, 2, 1, 3, 3}, 0, 0, 7},
    {30, 4, 4, 4, 4, 142, {3, 3, 1, 1, 1, 1, 1}, 0, 1, 4},
    {9, 10, 10, 5, 5, 58, {3, 3, 2, 2, 1, 1, 1}, 0, 0, 4},
    {2, 16, 16, 16, 16, 21, {5, 5, 1, 1, 2, 4, 4}, 0, 0, 1},
    {2, 16, 16, 8, 8, 21, {3, 3, 2, 2, 2, 2, 2}, 0, 0, 1},
    {2, 17, 19, 6, 6, 23, {3, 5, 3, 3, 1, 1, 2}, 0, 0, 1},
    {2, 12, 31, 9, 8, 17, {4, 2, 1, 4, 3, 0, -1}, 0, 0, 1}, /* pads below zero */
    {2, 9, 12, 6, 5, 31, {2, 6, 1, 1, 1, -2, -1}, 5, 0, 1},
    {1, 3, 3, 7, 8, 9, {1, 1, 1, 1, 1, 2, 3}, 0, 0, 0},      /* outputs without a tap */
    {1, 5, 5, 3, 3, 18, {1, 1, 2, 2, 1, 0, 0}, 0, 0, 0},     /* inputs without a tap */
    {4, 1, 128, 1, 128, 37, {1, 3, 1, 1, 1, 0, 2}, 0, 0, 1}, /* causal sequences */
    {3, 1, 300, 1, 300, 32, {1, 7, 1, 1, 1, 0, 6}, 32, 64, 3},
    {2, 1, 90, 1, 90, 20, {1, 31, 1, 1, 1, 0, 30}, 0, 0, 1},
    {2, 1, 40, 1, 40, 20, {1, 11, 1, 1, 2, 0, 20}, 0, 0, 1},
    {1, 20, 20, 20, 20, 5, {16, 16, 1, 1, 1, 8, 8}, 0, 0, 0}, /* the most taps */
};

struct call {
    struct np_conv v;
    size_t which;
};

static bool run(struct np_team *team, const struct np_kernels *k, void *arg)
{
    const struct call *c = arg;
    return (c->which == 0   ? k->dwconv
            : c->which == 1 ? k->dwconv_grad
                            : k->dwconv_grad_weight)(team, &c->v);
}

static struct np_conv conv_of(const struct shape *s)
{
    struct np_conv v = {.window = s->window, .samples = s->samples, .grain = s->grain};
    v.in_height = s->height;
    v.in_width = s->width;
    v.out_height = s->out_height;
    v.out_width = s->out_width;
    v.in_channels = v.out_channels = v.groups = s->channels;
    v.ldx = s->channels + s->more_x;
    v.ldy = s->channels + s->more_y;
    return v;
}

static size_t x_floats(const struct np_conv *v)
{
    return v->samples * v->in_height * v->in_width * v->ldx;
}

static size_t y_floats(const struct np_conv *v)
{
    return v->samples * v->out_height * v->out_width * v->ldy;
}

static size_t w_floats(const struct np_conv *v)
{
    return (size_t)(v->window.kernel_height * v->window.kernel_width) * v->in_channels;
}

/* All three kernels on one shape, with all epilogues. */
static void check_shape(const struct shape *s, uint32_t seed, bool special)
{
    char what[200];
    snprintf(what, sizeof what, "shape %u: %zux%zux%zux%zu to %zux%zu, kernel %dx%d", seed,
             s->samples, s->height, s->width, s->channels, s->out_height, s->out_width,
             s->window.kernel_height, s->window.kernel_width);
    for (size_t which = 0; which < 7; which++) {
        struct call c = {.v = conv_of(s), .which = which < 3 ? 0 : which < 5 ? 1 : 2};
        bool gradient = which >= 3;
        size_t out = which < 3 ? y_floats(&c.v) : which < 5 ? x_floats(&c.v) : w_floats(&c.v);
        arena_begin(seed, special);
        c.v.w = arena_take(w_floats(&c.v));
        c.v.x = arena_take(x_floats(&c.v));
        c.v.dy = arena_take(y_floats(&c.v));
        c.v.out = arena_take(out);
        c.v.epilogue.ld = gradient ? c.v.ldx : c.v.ldy;
        if (which == 1)
            c.v.epilogue.bias = arena_take(s->channels);
        if (which == 2)
            c.v.epilogue.residual = arena_take(out);
        if (which == 4)
            c.v.epilogue.residual = c.v.out;
        c.v.accumulate = which == 6;
        arena_check(run, &c, what);
    }
}

/* With numbers of all kinds; in a full run, unless that takes long, with plain ones as well. */
START_TEST(backends_agree)
{
    for (uint32_t i = 0; i < COUNT(shapes); i++) {
        struct np_conv v = conv_of(&shapes[i]);
        check_shape(&shapes[i], i, true);
        if (tests_are_full() && y_floats(&v) * w_floats(&v) / v.in_channels < 1 << 20)
            check_shape(&shapes[i], i, false);
    }
}
END_TEST

/* Shapes of all kinds: windows may lie beside the image. */
static struct shape drawn_shape(uint32_t seed)
{
    static const size_t channels[] = {1, 3, 8, 15, 16, 17, 24, 29, 32, 40, 58};
    struct shape s = {.samples = 1 + check_draw(seed, 0, 3)};
    struct np_window *w = &s.window;
    s.height = 1 + check_draw(seed, 1, 12);
    s.width = 1 + check_draw(seed, 2, 24);
    s.out_height = 1 + check_draw(seed, 3, 12);
    s.out_width = 1 + check_draw(seed, 4, 24);
    s.channels = channels[check_draw(seed, 5, COUNT(channels))];
    w->kernel_height = 1 + (int)check_draw(seed, 6, 5);
    w->kernel_width = 1 + (int)check_draw(seed, 7, 9);
    w->stride_height = 1 + (int)check_draw(seed, 8, 3);
    w->stride_width = 1 + (int)check_draw(seed, 9, 3);
    w->dilation = 1 + (int)check_draw(seed, 10, 3);
    w->pad_top = (int)check_draw(seed, 11, 7) - 2;
    w->pad_left = (int)check_draw(seed, 12, 9) - 3;
    s.more_x = check_draw(seed, 13, 3);
    s.more_y = check_draw(seed, 14, 3);
    s.grain = check_draw(seed, 15, s.samples + 1);
    return s;
}

START_TEST(backends_agree_on_any_shape)
{
    for (uint32_t seed = 100; seed < 300; seed += tests_are_full() ? 1 : 5) {
        struct shape s = drawn_shape(seed);
        check_shape(&s, seed, true);
    }
}
END_TEST

/* Images as wide as blocks of outputs are, or some of them, with edges of all kinds. */
static struct shape drawn_whole_blocks(uint32_t seed)
{
    static const size_t widths[] = {4, 7, 8, 12, 14, 16, 21, 24, 28, 35};
    static const size_t channels[] = {15, 16, 17, 24, 32, 48, 58};
    struct shape s = {.samples = 1 + check_draw(seed, 0, 3)};
    struct np_window *w = &s.window;
    w->kernel_width = 3 + 2 * (int)check_draw(seed, 1, 3);
    w->kernel_height = check_draw(seed, 2, 3) == 0 ? 3 : w->kernel_width;
    w->stride_height = w->stride_width = check_draw(seed, 3, 4) == 0 ? 2 : 1;
    w->dilation = 1;
    w->pad_top = (int)check_draw(seed, 4, 4) - 1;
    w->pad_left = w->kernel_width / 2 + (int)check_draw(seed, 5, 3) - 1;
    s.out_width = widths[check_draw(seed, 6, COUNT(widths))];
    s.width = s.out_width * (size_t)w->stride_width + check_draw(seed, 7, 3) - 1;
    s.out_height = 1 + check_draw(seed, 8, 7);
    s.height = s.out_height * (size_t)w->stride_height + check_draw(seed, 9, 3);
    s.channels = channels[check_draw(seed, 10, COUNT(channels))];
    s.more_x = check_draw(seed, 11, 3);
    s.more_y = check_draw(seed, 12, 3);
    s.grain = check_draw(seed, 13, s.samples + 1);
    return s;
}

START_TEST(backends_agree_where_blocks_fit)
{
    for (uint32_t seed = 1000; seed < 1200; seed += tests_are_full() ? 1 : 5) {
        struct shape s = drawn_whole_blocks(seed);
        check_shape(&s, seed, true);
    }
}
END_TEST

START_TEST(what_is_not_finite_is_reported)
{
    for (size_t which = 0; which < 3; which++) {
        struct call c = {.v = conv_of(&shapes[3]), .which = which};
        float *bad;
        arena_begin(1, false);
        c.v.w = arena_take(w_floats(&c.v));
        c.v.x = arena_take(x_floats(&c.v));
        c.v.dy = bad = arena_take(y_floats(&c.v));
        if (which == 0)
            c.v.x = bad = arena_take(x_floats(&c.v));
        c.v.out = arena_take(x_floats(&c.v) + y_floats(&c.v) + w_floats(&c.v));
        ck_assert(run(&(struct np_team){.size = 1}, np_kernels_get(NP_ISA_SCALAR), &c));
        bad[57] = INFINITY;
        ck_assert(!run(&(struct np_team){.size = 1}, np_kernels_get(NP_ISA_SCALAR), &c));
        arena_check(run, &c, "infinite input");
    }
}
END_TEST

/* Sums in double precision, by scattering what each pair of positions gives: of the terms and of
 * their magnitudes. */
struct exact {
    double *sum, *size;
};

static struct exact exact_new(size_t count)
{
    struct exact e = {calloc(count, sizeof(double)), calloc(count, sizeof(double))};
    ck_assert(e.sum && e.size);
    return e;
}

static void exact_add(struct exact *e, size_t at, float a, float b)
{
    e->sum[at] += (double)a * (double)b;
    e->size[at] += fabs((double)a * (double)b);
}

/* terms: the most that one element sums, and additions of chunks. */
static void exact_check(struct exact *e, const float *got, size_t count, size_t terms,
                        const char *what)
{
    for (size_t i = 0; i < count; i++) {
        double bound = (double)terms * U * e->size[i] * (1 + 1e-3) + 0x1p-149 * (double)terms;
        if (fabs((double)got[i] - e->sum[i]) > bound)
            ck_abort_msg("%s[%zu]: %.9g, not %.9g +- %.3g", what, i, (double)got[i], e->sum[i],
                         bound);
    }
    free(e->sum);
    free(e->size);
}

static void scatter(const struct np_conv *v, struct exact *y, struct exact *dx, struct exact *dw)
{
    const struct np_window *w = &v->window;
    size_t in = v->in_height * v->in_width, out = v->out_height * v->out_width;
    for (size_t i = 0; i < v->samples * in; i++) {
        for (size_t o = i / in * out; o < (i / in + 1) * out; o++) {
            int top = (int)(i % in / v->in_width) + w->pad_top;
            int left = (int)(i % v->in_width) + w->pad_left;
            top -= (int)(o % out / v->out_width) * w->stride_height;
            left -= (int)(o % v->out_width) * w->stride_width;
            if (top < 0 || left < 0 || top % w->dilation != 0 || left % w->dilation != 0 ||
                top / w->dilation >= w->kernel_height || left / w->dilation >= w->kernel_width)
                continue;
            for (size_t c = 0; c < v->in_channels; c++) {
                size_t tap = (size_t)(top / w->dilation * w->kernel_width + left / w->dilation);
                float x = v->x[i * v->ldx + c], dy = v->dy[o * v->ldy + c];
                float weight = v->w[tap * v->in_channels + c];
                exact_add(y, o * v->ldy + c, x, weight);
                exact_add(dx, i * v->ldx + c, dy, weight);
                exact_add(dw, tap * v->in_channels + c, x, dy);
            }
        }
    }
}

START_TEST(sums_are_right)
{
    struct np_team team = {.size = 1};
    const struct np_kernels *k = np_kernels_get(NP_ISA_SCALAR);
    for (uint32_t i = 0; i < COUNT(shapes); i++) {
        struct np_conv v = conv_of(&shapes[i]);
        size_t taps = w_floats(&v) / v.in_channels, rows = y_floats(&v) / v.ldy;
        struct exact y = exact_new(y_floats(&v)), dx = exact_new(x_floats(&v));
        struct exact dw = exact_new(w_floats(&v));
        float *out;
        arena_begin(i, false);
        v.w = arena_take(w_floats(&v));
        v.x = arena_take(x_floats(&v));
        v.dy = arena_take(y_floats(&v));
        scatter(&v, &y, &dx, &dw);
        out = v.out = calloc(y_floats(&v), sizeof *out);
        k->dwconv(&team, &v);
        exact_check(&y, out, y_floats(&v), taps, "y");
        free(out);
        out = v.out = calloc(x_floats(&v), sizeof *out);
        k->dwconv_grad(&team, &v);
        exact_check(&dx, out, x_floats(&v), taps, "dx");
        free(out);
        out = v.out = calloc(w_floats(&v), sizeof *out);
        k->dwconv_grad_weight(&team, &v);
        exact_check(&dw, out, w_floats(&v), NP_KC + rows / NP_KC + v.samples, "dw");
        free(out);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dwconv");
    TCase *tests = suite_case(suite, "depthwise");
    tcase_add_test(tests, backends_agree);
    tcase_add_test(tests, backends_agree_on_any_shape);
    tcase_add_test(tests, backends_agree_where_blocks_fit);
    tcase_add_test(tests, what_is_not_finite_is_reported);
    tcase_add_test(tests, sums_are_right);
    return suite_run(suite);
}
