#include "exec/state_stream.h"

struct np_state_stream np_state_stream(struct np_state *state, uint32_t layer, float *window,
                                       size_t window_bytes)
{
    return (struct np_state_stream){
        .state = state, .layer = layer, .window = window, .window_bytes = window_bytes};
}

size_t np_state_stream_floats(const struct np_state *state, uint32_t layer)
{
    return (1 + (size_t)state->net->moments) * np_supernet_kind(state->net, layer)->floats;
}

static bool in_stash(const struct np_state_stream *s)
{
    return !s->state->layers[s->layer].slab && s->state->stash &&
           np_state_may_leave(s->state, s->layer);
}

/* Where in the slab the stream stands, in floats, and how many from there on are in one piece. */
static size_t place(const struct np_state_stream *s, size_t *count)
{
    const struct np_kind *kind = np_supernet_kind(s->state->net, s->layer);
    size_t part = s->at / kind->floats, i = s->at % kind->floats;
    if (*count > kind->floats - i)
        *count = kind->floats - i;
    return part * np_state_stride(kind) + i;
}

/* The bytes of the slab that the window holds. */
static uint64_t held_bytes(const struct np_state_stream *s)
{
    uint64_t rest = np_state_slab_bytes(s->state, s->layer) - s->held;
    return rest < s->window_bytes ? rest : s->window_bytes;
}

/* Where the window has float `from` of the slab, once it has been turned to it; *count: no more
 * than it holds. */
static enum np_status turn(struct np_state_stream *s, float **out, size_t from, size_t *count,
                           bool write, struct np_error *err)
{
    size_t floats = s->window_bytes / sizeof(float), start = from / floats * floats;
    uint64_t wanted = start * sizeof(float);
    enum np_status status = NP_OK;
    if (!s->holds || s->held != wanted) {
        if (write && s->holds)
            NP_TRY(np_stash_put_part(s->state->stash, s->layer, s->held, s->window, held_bytes(s),
                                     err));
        s->held = wanted;
        s->holds = true;
        if (!write)
            NP_TRY(np_stash_get_part(s->state->stash, s->layer, s->held, s->window, held_bytes(s),
                                     err));
    }
    if (*count > start + floats - from)
        *count = start + floats - from;
    *out = s->window + (from - start);
out:
    return status;
}

/* The next floats of the layer, *count of them or fewer. */
static enum np_status next(struct np_state_stream *s, float **out, size_t *count, bool write,
                           struct np_error *err)
{
    size_t from = place(s, count);
    enum np_status status = NP_OK;
    if (in_stash(s))
        NP_TRY(turn(s, out, from, count, write, err));
    else
        *out = s->state->layers[s->layer].slab + from;
    s->at += *count;
out:
    return status;
}

/* The next floats, to or from the host. */
static enum np_status pass(struct np_state_stream *s, float *host, size_t count, bool write,
                           struct np_error *err)
{
    const struct np_device *home = np_state_home(s->state, s->layer);
    enum np_status status = NP_OK;
    while (count) {
        size_t n = count;
        float *values;
        NP_TRY(next(s, &values, &n, write, err));
        NP_TRY(np_device_copy(home, write ? values : host, write ? host : values, n * sizeof *host,
                              err));
        host += n;
        count -= n;
    }
out:
    return status;
}

enum np_status np_state_read(struct np_state_stream *s, float *out, size_t count,
                             struct np_error *err)
{
    return pass(s, out, count, false, err);
}

static enum np_status finish(struct np_state_stream *s, uint64_t updates, struct np_error *err)
{
    struct np_layer_state *l = &s->state->layers[s->layer];
    enum np_status status = NP_OK;
    if (in_stash(s))
        NP_TRY(
            np_stash_put_part(s->state->stash, s->layer, s->held, s->window, held_bytes(s), err));
    else
        l->made = true;
    l->updates = updates;
    l->given = true;
out:
    return status;
}

enum np_status np_state_write(struct np_state_stream *s, const float *values, size_t count,
                              uint64_t updates, struct np_error *err)
{
    enum np_status status = NP_OK;
    if (!in_stash(s))
        NP_TRY(np_state_take(s->state, s->layer, err));
    NP_TRY(pass(s, (float *)values, count, true, err)); /* only read */
    if (s->at == np_state_stream_floats(s->state, s->layer))
        NP_TRY(finish(s, updates, err));
out:
    return status;
}
