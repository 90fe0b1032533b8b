/* Convolutions: every backend against the scalar one, bit for bit, and that one against sums in
 * double that are gathered the other way round. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "base/memory.h"
#include "num/elementary.h"
#include "num/kernels.h"
#include "suite.h"
#include "team_run.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef bool conv_function(struct np_team *, const struct np_conv *);
enum kind { FORWARD, GRAD, GRAD_WEIGHT, KINDS };

struct backend {
    const char *name;
    conv_function *conv[KINDS];
};

/* The reference comes first. */
static size_t backends(struct backend out[BACKENDS])
{
    size_t count = 0;
    for (int isa = 0; isa < BACKENDS; isa++) {
        const struct np_kernels *k = backend_get(isa);
        if (k)
            out[count++] = (struct backend){k->name, {k->conv, k->conv_grad, k->conv_grad_weight}};
    }
    return count;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static float *numbers(size_t count, uint64_t *state)
{
    float *x;
    ck_assert_int_eq(np_alloc(&x, count + 1, sizeof(float), NULL), NP_OK);
    for (size_t i = 0; i < count + 1; i++)
        x[i] = (float)next(state) * 0x1p-30F - 1;
    return x;
}

/* Tensors begin `first` floats after an aligned address, one unless a test wants them aligned, and
 * end with their last element. */
enum { X, W, DY, BIAS, BEFORE, RESIDUAL, OUT, KEPT, TENSORS };
struct data {
    float *tensor[TENSORS], *expected[2], *got[2];
    size_t count[TENSORS], first;
};

/* How a convolution ends. */
struct ending {
    bool bias, before, kept, residual, in_place;
    enum np_act act;
};

static size_t rows_in(const struct np_conv *v)
{
    return v->samples * v->in_height * v->in_width;
}

static size_t rows_out(const struct np_conv *v)
{
    return v->samples * v->out_height * v->out_width;
}

static size_t weights(const struct np_conv *v)
{
    return (size_t)v->window.kernel_height * (size_t)v->window.kernel_width *
           (v->in_channels / v->groups) * v->out_channels;
}

static void data_init(struct data *d, const struct np_conv *v, enum kind kind, uint64_t *state)
{
    size_t x = (rows_in(v) - 1) * v->ldx + v->in_channels;
    size_t y = (rows_out(v) - 1) * v->ldy + v->out_channels;
    size_t out = kind == FORWARD ? y : kind == GRAD ? x : weights(v);
    size_t count[TENSORS] = {x, weights(v), y, v->out_channels, out, out, out, out};
    d->first = 1;
    for (int i = 0; i < TENSORS; i++) {
        d->count[i] = count[i];
        d->tensor[i] = numbers(count[i], state);
    }
    for (int i = 0; i < 2; i++) {
        d->expected[i] = numbers(out, state);
        d->got[i] = numbers(out, state);
    }
}

static void data_clear(struct data *d)
{
    for (int i = 0; i < TENSORS; i++)
        free(d->tensor[i]);
    for (int i = 0; i < 2; i++) {
        free(d->expected[i]);
        free(d->got[i]);
    }
}

struct call {
    conv_function *conv;
    struct np_conv v;
    atomic_bool infinite;
};

static void call_conv(struct np_team *team, void *arg)
{
    struct call *call = arg;
    if (!call->conv(team, &call->v))
        call->infinite = true;
}

/* Runs a convolution; out[0] is its output, out[1] what went into the activation. */
static bool run(conv_function *conv, int size, const struct np_conv *v, enum kind kind,
                const struct ending *e, const struct data *d, float *const out[2])
{
    struct call call = {.conv = conv, .v = *v};
    struct np_epilogue *epilogue = &call.v.epilogue;
    memcpy(out[0], d->tensor[OUT], (d->count[OUT] + 1) * sizeof(float));
    memcpy(out[1], d->tensor[KEPT], (d->count[KEPT] + 1) * sizeof(float));
    call.v.x = kind == GRAD ? NULL : d->tensor[X] + d->first;
    call.v.w = kind == GRAD_WEIGHT ? NULL : d->tensor[W] + d->first;
    call.v.dy = kind == FORWARD ? NULL : d->tensor[DY] + d->first;
    call.v.out = out[0] + d->first;
    epilogue->bias = e->bias ? d->tensor[BIAS] + d->first : NULL;
    epilogue->before = e->before ? d->tensor[BEFORE] + d->first : NULL;
    epilogue->residual =
        e->residual ? (e->in_place ? out[0] : d->tensor[RESIDUAL]) + d->first : NULL;
    epilogue->kept = e->kept ? out[1] + d->first : NULL;
    epilogue->act = e->act;
    epilogue->ld = kind == FORWARD ? v->ldy : v->ldx;
    team_run(size, np_kernels_scratch_bytes(0, 0), call_conv, &call);
    return !call.infinite;
}

static void compare_data(const struct np_conv *v, enum kind kind, const struct ending *e,
                         const struct data *d)
{
    struct backend list[BACKENDS];
    size_t count = backends(list), bytes = (d->count[OUT] + 1) * sizeof(float);
    const struct np_window *w = &v->window;
    bool finite = run(list[0].conv[kind], 1, v, kind, e, d, d->expected);
    for (int size = 1; size <= 4; size++)
        for (size_t i = size == 1; i < count; i++) {
            if (!team_is_tried(size, (int)i))
                continue;
            bool same = run(list[i].conv[kind], size, v, kind, e, d, d->got) == finite;
            for (int o = 0; o < 2 && finite; o++)
                same = same && memcmp(d->got[o], d->expected[o], bytes) == 0;
            ck_assert_msg(same,
                          "%s, kind %d, %d threads: %zu x %zux%zux%zu to %zux%zux%zu, groups %zu, "
                          "kernel %dx%d, stride %d %d, dilation %d, pad %d %d, grain %zu, "
                          "accumulate %d, act %d, finite %d",
                          list[i].name, kind, size, v->samples, v->in_height, v->in_width,
                          v->in_channels, v->out_height, v->out_width, v->out_channels, v->groups,
                          w->kernel_height, w->kernel_width, w->stride_height, w->stride_width,
                          w->dilation, w->pad_top, w->pad_left, v->grain, v->accumulate, e->act,
                          finite);
        }
}

static void compare(const struct np_conv *v, enum kind kind, struct ending e, uint64_t seed)
{
    struct data d;
    data_init(&d, v, kind, &seed);
    compare_data(v, kind, &e, &d);
    data_clear(&d);
}

static int draw(uint64_t *state, int first, int last)
{
    return first + (int)(next(state) % (uint64_t)(last - first + 1));
}

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
    struct np_conv v = {.samples = (size_t)draw(state, 1, 4), .groups = 1};
    struct np_window *w = &v.window;
    v.in_height = (size_t)draw(state, 1, 12);
    v.in_width = (size_t)draw(state, 1, 12);
    v.in_channels = channels[next(state) % COUNT(channels)];
    v.out_channels = channels[next(state) % COUNT(channels)];
    if (next(state) % 4 == 0) {
        v.groups = (size_t)draw(state, 2, 3);
        v.in_channels *= v.groups;
        v.out_channels *= v.groups;
    }
    w->kernel_height = draw(state, 1, 5);
    w->kernel_width = draw(state, 1, 5);
    w->stride_height = draw(state, 1, 3);
    w->stride_width = draw(state, 1, 3);
    w->dilation = draw(state, 1, 2);
    w->pad_top = draw(state, -1, 3);
    w->pad_left = draw(state, -1, 3);
    v.out_height = out_size(v.in_height, w->kernel_height, w->stride_height, w->dilation,
                            w->pad_top + draw(state, -1, 3));
    v.out_width = out_size(v.in_width, w->kernel_width, w->stride_width, w->dilation,
                           w->pad_left + draw(state, -1, 3));
    v.ldx = v.in_channels + next(state) % 3;
    v.ldy = v.out_channels + next(state) % 3;
    return v;
}

START_TEST(any_geometry)
{
    uint64_t state = 1000 + (uint64_t)_i;
    for (int i = 0; i < 8; i++) {
        struct np_conv v = any_conv(&state);
        struct ending plain = {0};
        compare(&v, FORWARD, plain, state);
        compare(&v, GRAD, plain, state);
        v.grain = next(&state) % (v.samples + 1);
        v.accumulate = next(&state) & 1;
        compare(&v, GRAD_WEIGHT, plain, state);
    }
}
END_TEST

START_TEST(epilogues)
{
    uint64_t state = 2000 + (uint64_t)_i;
    for (unsigned bits = 0; bits < 32; bits += 3) {
        struct np_conv v = any_conv(&state);
        struct ending e = {bits & 1, bits & 2, bits & 4, bits & 8, bits & 16, (enum np_act)_i};
        compare(&v, FORWARD, e, state);
        e.bias = false;
        e.kept = false;
        compare(&v, GRAD, e, state);
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
    struct ending plain = {0}, added = {.residual = true, .in_place = true, .act = NP_ACT_RELU};
    for (int kind = FORWARD; kind <= GRAD; kind++) {
        if (tests_are_full() || (number + kind) % 2 == 0)
            compare(v, (enum kind)kind, plain, (uint64_t)kind + 1);
        if (tests_are_full() || (number + kind) % 2 == 1)
            compare(v, (enum kind)kind, added, (uint64_t)kind + 3);
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
    struct ending plain = {0};
    struct np_conv v = conv(list[_i].samples, list[_i].size, list[_i].in, list[_i].out,
                            list[_i].kernel, list[_i].stride, list[_i].pad);
    both_passes(&v, _i);
    if (tests_are_full())
        compare(&v, GRAD_WEIGHT, plain, 5);
    v.grain = 2;
    v.accumulate = true;
    compare(&v, GRAD_WEIGHT, plain, 6);
}
END_TEST

/* Windows of few channels, whose lines of taps some backends read together, and those beside them;
 * they leave the image on any side, and chunks end anywhere. */
START_TEST(whole_windows)
{
    uint64_t state = 7000 + (uint64_t)_i;
    for (int i = 0; i < (tests_are_full() ? 24 : 6); i++) {
        struct np_conv v = conv((size_t)draw(&state, 1, 6), 1, _i % 3 == 0 ? 3 : 1,
                                (size_t)draw(&state, 7, 18), _i % 3 == 2 ? 5 : 3, 1, 0);
        struct np_window *w = &v.window;
        struct ending plain = {0};
        v.in_height = (size_t)draw(&state, 1, 20);
        v.in_width = (size_t)draw(&state, 1, 20);
        w->stride_height = draw(&state, 1, 2);
        w->stride_width = draw(&state, 1, 3);
        w->pad_top = draw(&state, -1, 3);
        w->pad_left = draw(&state, -1, 3);
        v.out_height = out_size(v.in_height, w->kernel_height, w->stride_height, 1,
                                w->pad_top + draw(&state, -1, 3));
        v.out_width = out_size(v.in_width, w->kernel_width, w->stride_width, 1,
                               w->pad_left + draw(&state, -1, 3));
        v.grain = next(&state) % (v.samples + 1);
        v.accumulate = next(&state) & 1;
        compare(&v, GRAD_WEIGHT, plain, state);
    }
}
END_TEST

/* Groups so narrow that a vector holds several, and others; some are too many for one pass. Each is
 * tried on 9 x 9 and, with stride 2, on 6 x 6; where not all is tried, those at odd places, the
 * large ones among them, on 6 x 6. */
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
    struct np_conv v = conv(3, _i & 1 ? 6 : 9, groups * list[number].in, groups * list[number].out,
                            list[number].kernel, 1 + _i % 2, 3);
    struct ending plain = {0};
    if (!tests_are_full() && (size_t)_i % 2 != number % 2)
        return;
    v.groups = groups;
    v.ldx += next(&state) % 3;
    v.ldy += next(&state) % 3;
    v.window.kernel_width -= draw(&state, 0, 2);
    v.out_width = out_size(v.in_width, v.window.kernel_width, v.window.stride_width, 1, 6);
    both_passes(&v, (int)number);
    v.grain = (size_t)_i % 3;
    v.accumulate = _i & 1;
    compare(&v, GRAD_WEIGHT, plain, state);
}
END_TEST

/* Rows that begin at multiples of vectors. */
START_TEST(aligned_rows)
{
    struct np_conv v = conv(3, 7, 24, 40, 3, 1 + _i % 2, 1);
    v.groups = 1 + (size_t)_i / 2;
    v.grain = 1;
    for (int kind = 0; kind < KINDS; kind++) {
        struct ending plain = {0};
        struct data d;
        uint64_t state = 4;
        data_init(&d, &v, (enum kind)kind, &state);
        d.first = 0;
        compare_data(&v, (enum kind)kind, &plain, &d);
        data_clear(&d);
    }
}
END_TEST

/* Causal, of a sequence: an image of height 1, zeros before it. */
START_TEST(sequences)
{
    struct np_conv v = {.samples = 3, .in_height = 1, .in_width = 70, .groups = 1};
    struct ending e = {.bias = true, .act = NP_ACT_GELU};
    v.out_height = 1;
    v.out_width = 70;
    v.in_channels = v.ldx = 29;
    v.out_channels = v.ldy = 41;
    v.window = (struct np_window){1, 7, 1, 1, 1, 0, 6};
    compare(&v, FORWARD, e, 1);
    e = (struct ending){.before = true, .act = NP_ACT_SWISH};
    compare(&v, GRAD, e, 2);
    v.grain = 1;
    compare(&v, GRAD_WEIGHT, (struct ending){0}, 3);
}
END_TEST

/* What is outside the image is left out, not multiplied by zero: a sum whose products underflow to
 * -0 stays -0 at the borders, too. */
START_TEST(signed_zeros)
{
    struct np_conv v = conv(1, 5, 19, 19, 3, 1, 1);
    for (int kind = 0; kind < KINDS; kind++) {
        struct ending plain = {0};
        struct data d;
        uint64_t state = 3;
        data_init(&d, &v, (enum kind)kind, &state);
        for (size_t i = 0; i < d.count[X] + 1; i++)
            d.tensor[X][i] = 0x1p-100f;
        for (size_t i = 0; i < d.count[W] + 1; i++)
            d.tensor[W][i] = -0x1p-100f;
        for (size_t i = 0; i < d.count[DY] + 1; i++)
            d.tensor[DY][i] = kind == GRAD_WEIGHT ? -0x1p-100f : 0x1p-100f;
        compare_data(&v, (enum kind)kind, &plain, &d);
        for (size_t i = 1; i <= d.count[OUT]; i++)
            ck_assert_uint_eq(np_float_bits(d.got[0][i]), 0x80000000u);
        data_clear(&d);
    }
}
END_TEST

START_TEST(not_finite)
{
    struct np_conv v = conv(2, 9, 19, 37, 3, 2, 1);
    uint64_t state = (uint64_t)_i;
    struct ending plain = {0};
    for (int kind = 0; kind < KINDS; kind++) {
        struct backend list[BACKENDS];
        struct data d;
        data_init(&d, &v, (enum kind)kind, &state);
        int from = kind == GRAD ? DY : X;
        d.tensor[from][1 + next(&state) % d.count[from]] = _i & 1 ? INFINITY : NAN;
        backends(list);
        ck_assert(!run(list[0].conv[kind], 1, &v, (enum kind)kind, &plain, &d, d.expected));
        compare_data(&v, (enum kind)kind, &plain, &d);
        data_clear(&d);
    }
}
END_TEST

/* Sums in double, and of absolute products, scattered from output positions and taps. */
static void scatter(const struct np_conv *v, enum kind kind, const struct data *d, double *sum,
                    double *size)
{
    const struct np_window *win = &v->window;
    const float *x = d->tensor[X] + 1, *w = d->tensor[W] + 1, *dy = d->tensor[DY] + 1;
    size_t in = v->in_channels / v->groups, out = v->out_channels / v->groups;
    for (size_t r = 0; r < rows_out(v); r++)
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
    struct backend list[BACKENDS];
    struct ending plain = {0};
    backends(list);
    v.ldx = v.in_channels;
    v.ldy = v.out_channels;
    for (int kind = 0; kind < KINDS; kind++) {
        struct data d;
        double *sum, *size;
        size_t terms = kind == GRAD_WEIGHT ? rows_out(&v) : weights(&v);
        data_init(&d, &v, (enum kind)kind, &state);
        ck_assert_int_eq(np_alloc(&sum, d.count[OUT], sizeof(double), NULL), NP_OK);
        ck_assert_int_eq(np_alloc(&size, d.count[OUT], sizeof(double), NULL), NP_OK);
        memset(sum, 0, d.count[OUT] * sizeof(double));
        memset(size, 0, d.count[OUT] * sizeof(double));
        run(list[0].conv[kind], 1, &v, (enum kind)kind, &plain, &d, d.got);
        scatter(&v, (enum kind)kind, &d, sum, size);
        double bound = 1.01 * ((double)terms + (double)terms / NP_KC + 1) * (FLT_EPSILON / 2);
        for (size_t i = 0; i < d.count[OUT]; i++)
            ck_assert_double_le(fabs(sum[i] - d.got[0][1 + i]), bound * size[i]);
        free(sum);
        free(size);
        data_clear(&d);
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
    tcase_add_loop_test(tests, aligned_rows, 0, 4);
    tcase_add_test(tests, sequences);
    tcase_add_test(tests, signed_zeros);
    tcase_add_loop_test(tests, not_finite, 0, 4);
    tcase_add_loop_test(tests, near_double, 0, 40);
    return suite_run(suite);
}
