#include "conv_check.h"

#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "fenced.h"
#include "numbers.h"
#include "team_run.h"

typedef bool conv_function(struct np_team *, const struct np_conv *);

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

static size_t rows_in(const struct np_conv *v)
{
    return v->samples * v->in_height * v->in_width;
}

size_t conv_rows_out(const struct np_conv *v)
{
    return v->samples * v->out_height * v->out_width;
}

size_t conv_weights(const struct np_conv *v)
{
    return (size_t)v->window.kernel_height * (size_t)v->window.kernel_width *
           (v->in_channels / v->groups) * v->out_channels;
}

void conv_data_init(struct conv_data *d, const struct np_conv *v, enum conv_kind kind, size_t first,
                    uint64_t *state)
{
    size_t x = (rows_in(v) - 1) * v->ldx + v->in_channels;
    size_t y = (conv_rows_out(v) - 1) * v->ldy + v->out_channels;
    size_t out = kind == FORWARD ? y : kind == GRAD ? x : conv_weights(v);
    size_t count[TENSORS] = {x, conv_weights(v), y, v->out_channels, out, out, out, out};
    d->first = first;
    for (int i = 0; i < TENSORS; i++) {
        d->count[i] = count[i];
        d->tensor[i] = numbers(count[i], first, state);
    }
    for (int i = 0; i < 2; i++) {
        d->expected[i] = numbers(out, first, state);
        d->got[i] = numbers(out, first, state);
    }
}

void conv_data_clear(struct conv_data *d)
{
    for (int i = 0; i < TENSORS; i++)
        fenced_free(d->tensor[i]);
    for (int i = 0; i < 2; i++) {
        fenced_free(d->expected[i]);
        fenced_free(d->got[i]);
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
static bool run(conv_function *conv, int size, const struct np_conv *v, enum conv_kind kind,
                const struct conv_ending *e, const struct conv_data *d, float *const out[2])
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

bool conv_reference(const struct np_conv *v, enum conv_kind kind, const struct conv_ending *e,
                    const struct conv_data *d, float *const out[2])
{
    struct backend list[BACKENDS];
    backends(list);
    return run(list[0].conv[kind], 1, v, kind, e, d, out);
}

void conv_compare_data(const struct np_conv *v, enum conv_kind kind, const struct conv_ending *e,
                       const struct conv_data *d)
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

void conv_compare(const struct np_conv *v, enum conv_kind kind, struct conv_ending e, uint64_t seed)
{
    struct conv_data d;
    conv_data_init(&d, v, kind, 1, &seed);
    conv_compare_data(v, kind, &e, &d);
    conv_data_clear(&d);
}
