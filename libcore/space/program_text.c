/* Operators of sequences. Candidates are residual branches behind a norm of their own. */
#include "num/rotary.h"
#include "space/programs.h"

static int channels_of(const struct np_build *b)
{
    return b->in.channels;
}

static int norm(struct np_build *b, const char *name, int x)
{
    return np_build_norm(b, name, x, b->kind->spec.norm, NP_ACT_NONE);
}

static int linear(struct np_build *b, const char *name, int x, int channels)
{
    return np_build_linear(b, name, x, channels, !b->kind->spec.unbiased, NP_ACT_NONE);
}

static int residual(struct np_build *b, int branch)
{
    return np_build_residual(b, b->x, branch, NP_ACT_NONE);
}

/* Matrices side by side: of keys and values, or of queries too. */
static int projections(struct np_build *b, const char *name, int x, int count, int width)
{
    int first = b->kind->tensor_count;
    x = linear(b, name, x, count * width);
    np_build_abreast(b, first, count);
    return x;
}

/* Of `heads` heads side by side the first `turned`. */
static int rotate(struct np_build *b, int x, int heads, int turned)
{
    struct np_node *node;
    if (b->kind->spec.positions != NP_POSITIONS_ROTARY)
        return x;
    node = np_build_node(b, NP_NODE_ROTATE, x, -1, np_build_shape(b, x));
    node->heads = heads;
    node->first = turned;
    node->base = b->kind->spec.base ? b->kind->spec.base : NP_ROTARY_BASE;
    return node->out;
}

/* Keys and values of fewer heads, for as many as there are queries'. */
static int repeat(struct np_build *b, int x, int width)
{
    struct np_shape out = np_build_shape(b, x);
    struct np_node *node;
    if (out.channels == 2 * width)
        return x;
    out.channels = 2 * width;
    node = np_build_node(b, NP_NODE_REPEAT, x, -1, out);
    node->heads = 2 * b->kind->spec.kv_heads;
    return node->out;
}

static int attention(struct np_build *b, int queries, int keys, int width)
{
    struct np_shape out = b->in;
    struct np_node *node;
    int x;
    out.channels = width;
    node = np_build_node(b, NP_NODE_ATTENTION, queries, keys, out);
    node->heads = b->kind->spec.heads;
    node->causal = b->kind->spec.causal;
    node->padded = b->kind->padded;
    node->relative = b->kind->spec.positions == NP_POSITIONS_RELATIVE;
    x = node->out;
    if (node->relative)
        np_build_tensor(
            b, node, "relative", "table",
            (size_t[4]){(size_t)node->heads,
                        np_offset_count((size_t)out.height, (size_t)out.width, node->causal)},
            NP_FILL_ZERO);
    return x;
}

/* One projection of x gives queries, keys and values; or there are fewer keys and values, or they
 * are of a memory, and have one of their own. */
int np_program_mha(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    int width = spec->hidden ? spec->hidden : channels_of(b);
    int heads = spec->heads, pairs = spec->kv_heads ? spec->kv_heads : heads;
    int x = norm(b, "norm", b->x), keys;
    if (spec->cross || pairs < heads) {
        int from = x;
        x = linear(b, "q", x, width);
        if (spec->cross)
            from = norm(b, "memory", NP_VALUE_MEMORY);
        keys = projections(b, "kv", from, 2, width / heads * pairs);
        x = rotate(b, x, heads, heads);
        keys = repeat(b, rotate(b, keys, 2 * pairs, pairs), width);
    } else {
        x = projections(b, "qkv", x, 3, width);
        keys = x = rotate(b, x, 3 * heads, 2 * heads);
    }
    return residual(b, linear(b, "out", attention(b, x, keys, width), channels_of(b)));
}

/* Channels between the linear layers. */
static int between(const struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    return spec->hidden ? spec->hidden : (int)((double)spec->ratio * channels_of(b));
}

int np_program_ffn(struct np_build *b)
{
    int x = norm(b, "norm", b->x);
    x = np_build_linear(b, "up", x, between(b), !b->kind->spec.unbiased, b->kind->spec.act);
    return residual(b, linear(b, "down", x, channels_of(b)));
}

int np_program_gated_ffn(struct np_build *b)
{
    int n = norm(b, "norm", b->x), scale, x;
    scale = np_build_linear(b, "scale", n, between(b), !b->kind->spec.unbiased, b->kind->spec.act);
    x = linear(b, "up", n, between(b));
    x = np_build_node(b, NP_NODE_CHANNEL_SCALE, x, scale, np_build_shape(b, x))->out;
    return residual(b, linear(b, "down", x, channels_of(b)));
}

int np_program_glu(struct np_build *b)
{
    int width = channels_of(b), x = norm(b, "norm", b->x), first = b->kind->tensor_count;
    struct np_node *node;
    x = np_build_linear(b, "gate", x, 2 * width, false, NP_ACT_NONE);
    node = np_build_node(b, NP_NODE_GLU, x, -1, b->in);
    x = node->out;
    np_build_tensor(b, node, "gate", "bias", (size_t[4]){2 * (size_t)width}, NP_FILL_ZERO);
    np_build_abreast(b, first, 2);
    return residual(b, x);
}

int np_program_conv1d(struct np_build *b)
{
    struct np_build_product product = {.name = "conv",
                                       .channels = channels_of(b),
                                       .groups = 1,
                                       .window = np_build_causal_window(b->kind->spec.kernel[1]),
                                       .bias = true,
                                       .fill = NP_FILL_LINEAR};
    return residual(b, np_build_product(b, norm(b, "norm", b->x), &product));
}

int np_program_sepconv1d(struct np_build *b)
{
    int x = norm(b, "norm", b->x);
    x = np_build_dwconv(b, "depth", x, np_build_causal_window(b->kind->spec.kernel[1]), true,
                        NP_FILL_LINEAR);
    return residual(b, linear(b, "point", x, channels_of(b)));
}

int np_program_lightconv(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    int x = norm(b, "norm", b->x);
    struct np_node *node = np_build_node(b, NP_NODE_LIGHTCONV, x, -1, b->in);
    node->window = np_build_causal_window(spec->kernel[1]);
    node->heads = spec->heads;
    x = node->out;
    np_build_tensor(b, node, "kernel", "logits",
                    (size_t[4]){(size_t)spec->heads, (size_t)spec->kernel[1]}, NP_FILL_TENTH);
    return residual(b, x);
}

/* The stem, or where the target's half of a pair begins. */
int np_program_embedding(struct np_build *b)
{
    const struct np_kind *kind = b->kind;
    size_t width = (size_t)b->out.channels;
    struct np_node *node = np_build_node(b, NP_NODE_EMBED, -1, -1, b->out);
    int out = node->out;
    node->bias = kind->spec.positions == NP_POSITIONS_LEARNED;
    node->source = kind->spec.source;
    np_build_tensor(b, node, "token", "table", (size_t[4]){kind->vocab, width}, NP_FILL_TENTH);
    if (node->bias)
        np_build_tensor(b, node, "position", "table", (size_t[4]){np_shape_rows(b->out), width},
                        NP_FILL_TENTH);
    return out;
}

int np_program_lm(struct np_build *b)
{
    int x = norm(b, "norm", b->x);
    x = np_build_linear(b, "out", x, (int)b->kind->vocab, false, NP_ACT_NONE);
    np_build_xent(b, x);
    return -1;
}
