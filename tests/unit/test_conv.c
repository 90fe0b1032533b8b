/* Convolutions: every backend against the scalar one, bit for bit, and that one against sums in
 * double that are gathered the other way round. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "conv_check.h"
#include "num/elementary.h"
#include "numbers.h"
#include "suite.h"
#include "team_run.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The output's size of one dimension, a little off where that is allowed. */
static size_t out_size(size_t in, int kernel, int stride, int dilation, int pads)
{
    int room = (int)in + pads - (kernel - 1) * dilation - 1;
    return room < 0 ? 1 : (size_t)(room / stride) + 1;
}

/* Any geometry: channels that fill vectors or do not, windows that leave the image on any side. */
static struct np_conv any_conv(uint64_t *state)
{
    static const size_t channels[] = {1, 2, 3, 5, 8, 16, 19, 24, 33, 58};
    struct np_conv v = {.samples = (size_t)number_draw(state, 1, 4), .groups = 1};
    struct np_window *w = &v.window;
    v.in_height = (size_t)number_draw(state, 1, 12);
    v.in_width = (size_t)number_draw(state, 1, 12);
    v.in_channels = channels[number_next(state) % COUNT(channels)];
    v.out_channels = channels[number_next(state) % COUNT(channels)];
    if (number_next(state) % 4 == 0) {
        v.groups = (size_t)number_draw(state, 2, 3);
        v.in_channels *= v.groups;
        v.out_channels *= v.groups;
    }
    w->kernel_height = number_draw(state, 1, 5);
    w->kernel_width = number_draw(state, 1, 5);
    w->stride_height = number_draw(state, 1, 3);
    w->stride_width = number_draw(state, 1, 3);
    w->dilation = number_draw(state, 1, 2);
    w->pad_top = number_draw(state, -1, 3);
    w->pad_left = number_draw(state, -1, 3);
    v.out_height = out_size(v.in_height, w->kernel_height, w->stride_height, w->dilation,
                            w->pad_top + number_draw(state, -1, 3));
    v.out_width = out_size(v.in_width, w->kernel_width, w->stride_width, w->dilation,
                           w->pad_left + number_draw(state, -1, 3));
    v.ldx = v.in_channels + number_next(state) % 3;
    v.ldy = v.out_channels + number_next(state) % 3;
    return v;
}

START_TEST(any_geometry)
{
    uint64_t state = 1000 + (uint64_t)_i;
    for (int i = 0; i < (tests_are_full() ? 8 : 3); i++) {
        struct np_conv v = any_conv(&state);
        struct conv_ending plain = {0};
        conv_compare(&v, FORWARD, plain, state);
        conv_compare(&v, GRAD, plain, state);
        v.grain = number_next(&state) % (v.samples + 1);
        v.accumulate = number_next(&state) & 1;
        conv_compare(&v, GRAD_WEIGHT, plain, state);
    }
}
END_TEST

START_TEST(epilogues)
{
    uint64_t state = 2000 + (uint64_t)_i;
    for (unsigned bits = 0; bits < 32; bits += tests_are_full() ? 3 : 7) {
        struct np_conv v = any_conv(&state);
        struct conv_ending e = {bits & 1, bits & 2, bits & 4, bits & 8, bits & 16, (enum np_act)_i};
        conv_compare(&v, FORWARD, e, state);
        e.bias = false;
        e.kept = false;
        conv_compare(&v, GRAD, e, state);
    }
}
END_TEST

static struct np_conv conv(size_t samples, size_t size, size_t in, size_t out, int kernel,
                           int stride, int pad)
{
    struct np_conv v = {.samples = samples, .in_height = size, .in_width = size, .groups = 1};
    v.in_channels = v.ldx = in;
    v.out_channels = v.ldy = out;
    v.window = (struct np_window){kernel, kernel, stride, stride, 1, pad, pad};
    v.out_height = v.out_width = out_size(size, kernel, stride, 1, 2 * pad);
    return v;
}

/* Forward and back, plain and added to what is there; where not all is tried, one of either. */
static void both_passes(const struct np_conv *v, int number)
{
    struct conv_ending plain = {0},
                       added = {.residual = true, .in_place = true, .act = NP_ACT_RELU};
    for (int kind = FORWARD; kind <= GRAD; kind++) {
        if (tests_are_full() || (number + kind) % 2 == 0)
            conv_compare(v, (enum conv_kind)kind, plain, (uint64_t)kind + 1);
        if (tests_are_full() || (number + kind) % 2 == 1)
            conv_compare(v, (enum conv_kind)kind, added, (uint64_t)kind + 3);
    }
}

/* Shapes of real networks: several blocks of rows or samples, chunks, rows that have to be
 * copied. */
START_TEST(real_shapes)
{
    static const struct {
        size_t samples, size, in, out;
        int kernel, stride, pad;
    } list[] = {{3, 32, 16, 16, 3, 1, 1},  {2, 16, 32, 64, 3, 2, 1},  {5, 8, 64, 40, 3, 1, 1},
                {1, 60, 3, 24, 7, 2, 3},   {2, 14, 58, 116, 1, 1, 0}, {2, 14, 58, 29, 1, 2, 0},
                {40, 1, 520, 20, 3, 1, 1}, {3, 2, 300, 33, 3, 1, 1},  {1, 5, 3000, 7, 3, 1, 1},
                {2, 3, 1024, 9, 2, 1, 1},  {2, 6, 5, 1024, 1, 2, 0},  {2, 30, 3, 16, 3, 1, 1},
                {5, 90, 35, 8, 1, 2, 0}};
    struct conv_ending plain = {0};
    struct np_conv v = conv(list[_i].samples, list[_i].size, list[_i].in, list[_i].out,
                            list[_i].kernel, list[_i].stride, list[_i].pad);
    both_passes(&v, _i);
    if (tests_are_full())
        conv_compare(&v, GRAD_WEIGHT, plain, 5);
    v.grain = 2;
    v.accumulate = true;
    conv_compare(&v, GRAD_WEIGHT, plain, 6);
}
END_TEST

/* Windows of few channels, whose lines of taps some backends read together, and those beside them;
 * they leave the image on any side, and chunks end anywhere. */
START_TEST(whole_windows)
{
    uint64_t state = 7000 + (uint64_t)_i;
    for (int i = 0; i < (tests_are_full() ? 24 : 6); i++) {
        struct np_conv v = conv((size_t)number_draw(&state, 1, 6), 1, _i % 3 == 0 ? 3 : 1,
                                (size_t)number_draw(&state, 7, 18), _i % 3 == 2 ? 5 : 3, 1, 0);
        struct np_window *w = &v.window;
        struct conv_ending plain = {0};
        v.in_height = (size_t)number_draw(&state, 1, 20);
        v.in_width = (size_t)number_draw(&state, 1, 20);
        w->stride_height = number_draw(&state, 1, 2);
        w->stride_width = number_draw(&state, 1, 3);
        w->pad_top = number_draw(&state, -1, 3);
        w->pad_left = number_draw(&state, -1, 3);
        v.out_height = out_size(v.in_height, w->kernel_height, w->stride_height, 1,
                                w->pad_top + number_draw(&state, -1, 3));
        v.out_width = out_size(v.in_width, w->kernel_width, w->stride_width, 1,
                               w->pad_left + number_draw(&state, -1, 3));
        v.grain = number_next(&state) % (v.samples + 1);
        v.accumulate = number_next(&state) & 1;
        conv_compare(&v, GRAD_WEIGHT, plain, state);
    }
}
END_TEST

/* Groups so narrow that a vector holds several, and others; some are too many for one pass. Each is
 * tried on 9 x 9, the wide ones on 5 x 5, and, with stride 2, on 6 x 6; where not all is tried,
 * those at odd places, the large ones among them, on 6 x 6. */
START_TEST(grouped)
{
    static const struct {
        size_t groups, in, out;
        int kernel;
    } list[] = {{32, 4, 4, 3},  {33, 2, 2, 3}, {7, 3, 3, 10},   {5, 7, 7, 7},   {5, 5, 5, 3},
                {9, 8, 8, 3},   {40, 1, 1, 3}, {11, 1, 4, 3},   {6, 2, 8, 3},   {260, 2, 2, 3},
                {6, 8, 2, 3},   {4, 7, 6, 3},  {4, 32, 32, 3},  {9, 70, 66, 3}, {3, 16, 24, 3},
                {2, 9, 530, 3}, {70, 3, 8, 3}, {3, 300, 16, 3}, {2, 8, 600, 3}};
    uint64_t state = 5000 + (uint64_t)_i;
    size_t number = (size_t)_i / 2 % COUNT(list), groups = list[number].groups;
    size_t in = groups * list[number].in, out = groups * list[number].out;
    struct np_conv v =
        conv(3, _i & 1 ? 6 : (in + out > 500 ? 5 : 9), in, out, list[number].kernel, 1 + _i % 2, 3);
    struct conv_ending plain = {0};
    if (!tests_are_full() && (size_t)_i % 2 != number % 2)
        return;
    v.groups = groups;
    v.ldx += number_next(&state) % 3;
    v.ldy += number_next(&state) % 3;
    v.window.kernel_width -= number_draw(&state, 0, 2);
    v.out_width = out_size(v.in_width, v.window.kernel_width, v.window.stride_width, 1, 6);
    both_passes(&v, (int)number);
    v.grain = (size_t)_i % 3;
    v.accumulate = _i & 1;
    conv_compare(&v, GRAD_WEIGHT, plain, state);
}
END_TEST

/* Taps by twos leave some chunks nothing to see, and groups of 3 to 6 channels begin before one. */
START_TEST(reads_nothing_outside)
{
    static const struct {
        size_t channels, groups;
        int kernel, stride, dilation;
    } shapes[] = {{48, 8, 7, 2, 2},  {48, 8, 7, 1, 2}, {40, 8, 9, 1, 2}, {24, 4, 7, 1, 2},
                  {24, 8, 11, 1, 2}, {30, 5, 7, 2, 2}, {12, 2, 7, 1, 2}, {24, 8, 3, 1, 1},
                  {58, 58, 3, 2, 1}, {29, 1, 3, 2, 2}, {19, 1, 1, 2, 1}, {16, 1, 3, 1, 1}};
    const size_t channels = shapes[_i].channels;
    const int half = shapes[_i].kernel / 2;
    struct np_conv v = conv(1, 8, channels, channels, shapes[_i].kernel, shapes[_i].stride, half);
    v.groups = shapes[_i].groups;
    v.window.dilation = shapes[_i].dilation;
    v.window.pad_top = v.window.pad_left = half * shapes[_i].dilation;
    for (int kind = 0; kind < KINDS; kind++)
        for (uint64_t seed = 0; seed < 4; seed++) /* fences before and behind each operand */
            conv_compare(&v, (enum conv_kind)kind, (struct conv_ending){0}, seed);
}
END_TEST

/* Rows that begin at multiples of vectors. */
START_TEST(aligned_rows)
{
    struct np_conv v = conv(3, 7, 24, 40, 3, 1 + _i % 2, 1);
    v.groups = 1 + (size_t)_i / 2;
    v.grain = 1;
    for (int kind = 0; kind < KINDS; kind++) {
        struct conv_ending plain = {0};
        struct conv_data d;
        uint64_t state = 4;
        conv_data_init(&d, &v, (enum conv_kind)kind, 0, &state);
        conv_compare_data(&v, (enum conv_kind)kind, &plain, &d);
        conv_data_clear(&d);
    }
}
END_TEST

/* Causal, of a sequence: an image of height 1, zeros before it. */
START_TEST(sequences)
{
    struct np_conv v = {.samples = 3, .in_height = 1, .in_width = 70, .groups = 1};
    struct conv_ending e = {.bias = true, .act = NP_ACT_GELU};
    v.out_height = 1;
    v.out_width = 70;
    v.in_channels = v.ldx = 29;
    v.out_channels = v.ldy = 41;
    v.window = (struct np_window){1, 7, 1, 1, 1, 0, 6};
    conv_compare(&v, FORWARD, e, 1);
    e = (struct conv_ending){.before = true, .act = NP_ACT_SWISH};
    conv_compare(&v, GRAD, e, 2);
    v.grain = 1;
    conv_compare(&v, GRAD_WEIGHT, (struct conv_ending){0}, 3);
}
END_TEST

/* What is outside the image is left out, not multiplied by zero: a sum whose products underflow to
 * -0 stays -0 at the borders, too. */
START_TEST(signed_zeros)
{
    struct np_conv v = conv(1, 5, 19, 19, 3, 1, 1);
    for (int kind = 0; kind < KINDS; kind++) {
        struct conv_ending plain = {0};
        struct conv_data d;
        uint64_t state = 3;
        conv_data_init(&d, &v, (enum conv_kind)kind, 1, &state);
        for (size_t i = 0; i < d.count[X] + 1; i++)
            d.tensor[X][i] = 0x1p-100f;
        for (size_t i = 0; i < d.count[W] + 1; i++)
            d.tensor[W][i] = -0x1p-100f;
        for (size_t i = 0; i < d.count[DY] + 1; i++)
            d.tensor[DY][i] = kind == GRAD_WEIGHT ? -0x1p-100f : 0x1p-100f;
        conv_compare_data(&v, (enum conv_kind)kind, &plain, &d);
        for (size_t i = 1; i <= d.count[OUT]; i++)
            ck_assert_uint_eq(np_float_bits(d.got[0][i]), 0x80000000u);
        conv_data_clear(&d);
    }
}
END_TEST

START_TEST(not_finite)
{
    struct np_conv v = conv(2, 9, 19, 37, 3, 2, 1);
    uint64_t state = (uint64_t)_i;
    struct conv_ending plain = {0};
    for (int kind = 0; kind < KINDS; kind++) {
        struct conv_data d;
        conv_data_init(&d, &v, (enum conv_kind)kind, 1, &state);
        int from = kind == GRAD ? DY : X;
        d.tensor[from][1 + number_next(&state) % d.count[from]] = _i & 1 ? INFINITY : NAN;
        ck_assert(!conv_reference(&v, (enum conv_kind)kind, &plain, &d, d.expected));
        conv_compare_data(&v, (enum conv_kind)kind, &plain, &d);
        conv_data_clear(&d);
    }
}
END_TEST

/* Sums in double, and of absolute products, scattered from output positions and taps. */
static void scatter(const struct np_conv *v, enum conv_kind kind, const struct conv_data *d,
                    double *sum, double *size)
{
    const struct np_window *win = &v->window;
    const float *x = d->tensor[X] + 1, *w = d->tensor[W] + 1, *dy = d->tensor[DY] + 1;
    size_t in = v->in_channels / v->groups, out = v->out_channels / v->groups;
    for (size_t r = 0; r < conv_rows_out(v); r++)
        for (int tap = 0; tap < win->kernel_height * win->kernel_width; tap++) {
            long oh = (long)(r / v->out_width % v->out_height), ow = (long)(r % v->out_width);
            long h =
                oh * win->stride_height - win->pad_top + tap / win->kernel_width * win->dilation;
            long i =
                ow * win->stride_width - win->pad_left + tap % win->kernel_width * win->dilation;
            if (h < 0 || i < 0 || h >= (long)v->in_height || i >= (long)v->in_width)
                continue;
            size_t sample = r / v->out_width / v->out_height;
            size_t from = (sample * v->in_height + (size_t)h) * v->in_width + (size_t)i;
            for (size_t co = 0; co < v->out_channels; co++)
                for (size_t ci = 0; ci < in; ci++) {
                    size_t xi = from * v->ldx + co / out * in + ci, yi = r * v->ldy + co;
                    size_t wi = ((size_t)tap * in + ci) * v->out_channels + co;
                    size_t to = kind == FORWARD ? yi : kind == GRAD ? xi : wi;
                    double term = kind == FORWARD ? (double)x[xi] * w[wi]
                                  : kind == GRAD  ? (double)dy[yi] * w[wi]
                                                  : (double)x[xi] * dy[yi];
                    sum[to] += term;
                    size[to] += fabs(term);
                }
        }
}

/* At most gamma(terms + chunks) times the sum of absolute products, as in test_matmul.c; `terms`
 * counts the zeros outside the image as well. */
START_TEST(near_double)
{
    uint64_t state = 3000 + (uint64_t)_i;
    struct np_conv v = any_conv(&state);
    struct conv_ending plain = {0};
    v.ldx = v.in_channels;
    v.ldy = v.out_channels;
    for (int kind = 0; kind < KINDS; kind++) {
        struct conv_data d;
        double *sum, *size;
        size_t terms = kind == GRAD_WEIGHT ? conv_rows_out(&v) : conv_weights(&v);
        conv_data_init(&d, &v, (enum conv_kind)kind, 1, &state);
        ck_assert_int_eq(np_alloc(&sum, d.count[OUT], sizeof(double), NULL), NP_OK);
        ck_assert_int_eq(np_alloc(&size, d.count[OUT], sizeof(double), NULL), NP_OK);
        memset(sum, 0, d.count[OUT] * sizeof(double));
        memset(size, 0, d.count[OUT] * sizeof(double));
        conv_reference(&v, (enum conv_kind)kind, &plain, &d, d.got);
        scatter(&v, (enum conv_kind)kind, &d, sum, size);
        double bound = 1.01 * ((double)terms + (double)terms / NP_KC + 1) * (FLT_EPSILON / 2);
        for (size_t i = 0; i < d.count[OUT]; i++)
            ck_assert_double_le(fabs(sum[i] - d.got[0][1 + i]), bound * size[i]);
        free(sum);
        free(size);
        conv_data_clear(&d);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conv");
    TCase *tests = suite_case(suite, "conv");
    tcase_add_loop_test(tests, any_geometry, 0, 24);
    tcase_add_loop_test(tests, epilogues, NP_ACT_NONE, NP_ACT_HSIGMOID + 1);
    tcase_add_loop_test(tests, real_shapes, 0, 13);
    tcase_add_loop_test(tests, whole_windows, 0, 12);
    tcase_add_loop_test(tests, grouped, 0, 38);
    tcase_add_loop_test(tests, reads_nothing_outside, 0, 12);
    tcase_add_loop_test(tests, aligned_rows, 0, 4);
    tcase_add_test(tests, sequences);
    tcase_add_test(tests, signed_zeros);
    tcase_add_loop_test(tests, not_finite, 0, 4);
    tcase_add_loop_test(tests, near_double, 0, 40);
    return suite_run(suite);
}
