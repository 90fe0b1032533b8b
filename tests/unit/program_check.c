#include "program_check.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "recipe_text.h"

/* A kind while it is checked, to be named in messages. */
struct kind_check {
    const struct np_kind *kind;
    const struct np_program *program;
    char name[NP_KIND_NAME];
    int next_tensor;
    size_t norm_floats;
};

#define must(check, condition) ck_assert_msg(condition, "%s: %s", (check)->name, #condition)

static struct np_shape shape_of(const struct kind_check *c, int value)
{
    must(c, value >= 0 && value < c->program->value_count);
    must(c, c->program->values[value].channels > 0);
    return c->program->values[value];
}

static bool rows_agree(struct np_shape a, struct np_shape b)
{
    return a.height == b.height && a.width == b.width;
}

/* The next tensor of the slab is the node's, of so many floats. */
static void take_tensor(struct kind_check *c, const struct np_node *node, int which, size_t count)
{
    must(c, c->next_tensor < c->kind->tensor_count);
    must(c, node->tensor + which == c->next_tensor);
    must(c, c->kind->tensors[c->next_tensor].count == count);
    c->next_tensor++;
}

/* The last window begins inside the image, and sizes are ceilings. */
static void check_window(const struct kind_check *c, const struct np_node *node, struct np_shape in,
                         struct np_shape out)
{
    const struct np_window *w = &node->window;
    must(c, w->kernel_height > 0 && w->kernel_width > 0 && w->dilation > 0);
    must(c, out.height == (in.height + w->stride_height - 1) / w->stride_height);
    must(c, out.width == (in.width + w->stride_width - 1) / w->stride_width);
    must(c, (out.height - 1) * w->stride_height - w->pad_top < in.height || w->pad_top < 0);
}

static void check_products(struct kind_check *c, const struct np_node *node)
{
    struct np_shape in = shape_of(c, node->in[0]), out = shape_of(c, node->out);
    size_t taps = (size_t)node->window.kernel_height * (size_t)node->window.kernel_width;
    check_window(c, node, in, out);
    if (node->op == NP_NODE_LIGHTCONV) {
        must(c, np_shape_equal(in, out) && in.channels % node->heads == 0);
        take_tensor(c, node, 0, taps * (size_t)node->heads);
        return;
    }
    must(c, in.channels % node->groups == 0 && out.channels % node->groups == 0);
    if (node->op == NP_NODE_DWCONV)
        must(c, in.channels == out.channels && node->act == NP_ACT_NONE);
    take_tensor(c, node, 0, taps * (size_t)(in.channels / node->groups) * (size_t)out.channels);
    if (node->bias)
        take_tensor(c, node, 1, (size_t)out.channels);
}

static void check_norm(struct kind_check *c, const struct np_node *node)
{
    struct np_shape in = shape_of(c, node->in[0]);
    must(c, np_shape_equal(in, shape_of(c, node->out)));
    take_tensor(c, node, 0, (size_t)in.channels);
    if (node->op != NP_NODE_RMS_NORM)
        take_tensor(c, node, 1, (size_t)in.channels);
    if (node->op == NP_NODE_LAYER_NORM || node->op == NP_NODE_RMS_NORM)
        must(c, node->act == NP_ACT_NONE);
    if (node->op == NP_NODE_GROUP_NORM)
        must(c, node->groups > 0 && in.channels % node->groups == 0);
    if (node->op == NP_NODE_BATCH_NORM) {
        must(c, (size_t)node->first == c->norm_floats);
        c->norm_floats += 2 * (size_t)in.channels;
    }
}

static void check_rotation(struct kind_check *c, const struct np_node *node)
{
    struct np_shape out = shape_of(c, node->out);
    must(c, np_shape_equal(shape_of(c, node->in[0]), out));
    must(c, node->heads > 0 && out.channels % (2 * node->heads) == 0);
    must(c, node->first > 0 && node->first <= node->heads && node->base > 1);
}

static void check_repeat(struct kind_check *c, const struct np_node *node)
{
    struct np_shape in = shape_of(c, node->in[0]), out = shape_of(c, node->out);
    must(c, rows_agree(in, out) && node->heads > 0 && in.channels % node->heads == 0);
    must(c, out.channels > in.channels && out.channels % in.channels == 0);
}

static void check_attention(struct kind_check *c, const struct np_node *node)
{
    struct np_shape q = shape_of(c, node->in[0]), k = shape_of(c, node->in[1]);
    struct np_shape out = shape_of(c, node->out);
    must(c, rows_agree(q, out) && out.channels % node->heads == 0);
    if (node->in[0] == node->in[1])
        must(c, q.channels == 3 * out.channels);
    else
        must(c, q.channels == out.channels && k.channels == 2 * out.channels);
    must(c, !node->causal || (rows_agree(q, k) && !node->padded));
    if (node->relative) {
        must(c, q.height == k.height && q.width == k.width && (!node->causal || q.height == 1));
        take_tensor(c, node, 0,
                    (size_t)node->heads *
                        np_offset_count((size_t)q.height, (size_t)q.width, node->causal));
    }
}

static void check_merge(struct kind_check *c, const struct np_node *node)
{
    struct np_shape a = shape_of(c, node->in[0]), b = shape_of(c, node->in[1]);
    struct np_shape out = shape_of(c, node->out);
    must(c, rows_agree(a, b) && rows_agree(a, out) && a.channels + b.channels == out.channels);
    if (node->interleave)
        must(c, a.channels == b.channels);
}

/* What has one input and keeps its shape, apart from what is checked above. */
static void check_simple(struct kind_check *c, const struct np_node *node)
{
    struct np_shape in = shape_of(c, node->in[0]), out = shape_of(c, node->out);
    switch (node->op) {
    case NP_NODE_GLU:
        must(c, rows_agree(in, out) && in.channels == 2 * out.channels);
        take_tensor(c, node, 0, (size_t)in.channels);
        break;
    case NP_NODE_MAX_POOL:
    case NP_NODE_AVG_POOL:
        must(c, in.channels == out.channels);
        check_window(c, node, in, out);
        break;
    case NP_NODE_GLOBAL_POOL:
        must(c, out.height == 1 && out.width == 1 && in.channels == out.channels);
        break;
    case NP_NODE_SLICE:
        must(c, rows_agree(in, out) && node->first >= 0);
        must(c, node->first + out.channels <= in.channels);
        break;
    case NP_NODE_CUT:
        must(c, rows_agree(in, out) && out.channels < in.channels);
        break;
    case NP_NODE_WIDEN:
        must(c, rows_agree(in, out) && in.channels < out.channels);
        break;
    case NP_NODE_DROPOUT:
    case NP_NODE_DROP_PATH:
        must(c, np_shape_equal(in, out) && node->drop > 0.0f && node->drop < 1.0f);
        break;
    case NP_NODE_POSITIONS:
        must(c, np_shape_equal(in, out));
        take_tensor(c, node, 0, np_shape_floats(in));
        break;
    default:
        must(c, node->op == NP_NODE_ACT && np_shape_equal(in, out) && node->act != NP_ACT_NONE);
    }
}

static void check_source(struct kind_check *c, const struct np_node *node)
{
    struct np_shape out = shape_of(c, node->out);
    must(c, node->in[0] < 0 && node->in[1] < 0);
    if (node->op == NP_NODE_IMAGE)
        must(c, np_shape_equal(out, c->kind->image));
    if (node->op == NP_NODE_EMBED) {
        take_tensor(c, node, 0, c->kind->vocab * (size_t)out.channels);
        if (node->bias)
            take_tensor(c, node, 1, np_shape_floats(out));
    }
}

static void check_node(struct kind_check *c, const struct np_node *node)
{
    switch (node->op) {
    case NP_NODE_CONV:
    case NP_NODE_DWCONV:
    case NP_NODE_LIGHTCONV:
        check_products(c, node);
        break;
    case NP_NODE_LAYER_NORM:
    case NP_NODE_RMS_NORM:
    case NP_NODE_BATCH_NORM:
    case NP_NODE_GROUP_NORM:
        check_norm(c, node);
        break;
    case NP_NODE_ROTATE:
        check_rotation(c, node);
        break;
    case NP_NODE_REPEAT:
        check_repeat(c, node);
        break;
    case NP_NODE_ATTENTION:
        check_attention(c, node);
        break;
    case NP_NODE_MERGE:
        check_merge(c, node);
        break;
    case NP_NODE_ADD:
        must(c, np_shape_equal(shape_of(c, node->in[0]), shape_of(c, node->in[1])));
        must(c, np_shape_equal(shape_of(c, node->in[0]), shape_of(c, node->out)));
        break;
    case NP_NODE_CHANNEL_SCALE:
        must(c, np_shape_equal(shape_of(c, node->in[0]), shape_of(c, node->out)));
        must(c, np_shape_equal(shape_of(c, node->in[1]), shape_of(c, node->out)) ||
                    np_shape_floats(shape_of(c, node->in[1])) ==
                        (size_t)shape_of(c, node->out).channels);
        break;
    case NP_NODE_ZERO:
    case NP_NODE_IMAGE:
    case NP_NODE_EMBED:
        check_source(c, node);
        break;
    case NP_NODE_XENT:
        must(c, node->out == -1 && (size_t)shape_of(c, node->in[0]).channels == c->kind->vocab);
        must(c, np_shape_rows(shape_of(c, node->in[0])) == c->kind->length);
        break;
    default:
        check_simple(c, node);
    }
}

/* Inputs are there from the beginning; a node reads what is written, and writes what is not. A
 * value is live if an input or a tensor lies before it. */
static void check_values(struct kind_check *c)
{
    bool *written = calloc((size_t)c->program->value_count, sizeof *written);
    for (int i = 0; i < NP_VALUE_OWN; i++) {
        written[i] = c->program->values[i].channels > 0;
        must(c, c->program->live[i] == written[i]);
    }
    for (int i = 0; i < c->program->node_count; i++) {
        const struct np_node *node = &c->program->nodes[i];
        bool live = node->tensor >= 0;
        for (int k = 0; k < 2; k++) {
            must(c, node->in[k] >= -1 && node->in[k] < c->program->value_count);
            must(c, node->in[k] < 0 || written[node->in[k]]);
            live = live || (node->in[k] >= 0 && c->program->live[node->in[k]]);
        }
        if (node->out < 0)
            continue;
        must(c, node->out < c->program->value_count && !written[node->out]);
        must(c, c->program->live[node->out] == live);
        written[node->out] = true;
    }
    for (int i = NP_VALUE_OWN; i < c->program->value_count; i++)
        must(c, written[i]);
    must(c, c->program->output < 0 || written[c->program->output]);
    free(written);
}

static void check_slab(const struct kind_check *c)
{
    size_t offset = 0;
    for (int i = 0; i < c->kind->tensor_count; i++) {
        const struct np_tensor *tensor = &c->kind->tensors[i];
        size_t count = 1;
        for (int d = 0; d < tensor->rank; d++)
            count *= tensor->shape[d];
        must(c, tensor->rank >= 1 && tensor->rank <= 4);
        must(c, tensor->offset == offset && tensor->count == count && count > 0);
        must(c, tensor->decay == (tensor->rank > 1));
        must(c, (tensor->std > 0.0f) == (tensor->init == NP_INIT_NORMAL));
        for (int k = 0; k < i; k++)
            must(c, strcmp(c->kind->tensors[k].name, tensor->name) != 0);
        offset += count;
    }
    must(c, (c->kind->whole ? c->kind->part_floats : c->kind->floats) == offset);
    must(c, !c->kind->whole || c->kind->floats == 0);
}

void check_kind(const struct np_kind *kind)
{
    struct kind_check c = {.kind = kind, .program = &kind->program};
    np_kind_name(kind, c.name);
    must(&c, np_shape_equal(kind->program.values[NP_VALUE_X], kind->in));
    must(&c, np_shape_equal(kind->program.values[NP_VALUE_MEMORY], kind->memory));
    must(&c, (kind->memory.channels > 0) == kind->spec.cross);
    check_values(&c);
    for (int i = 0; i < kind->program.node_count; i++)
        check_node(&c, &kind->program.nodes[i]);
    must(&c, c.next_tensor == kind->tensor_count && c.norm_floats == kind->norm_floats);
    check_slab(&c);
    if (kind->program.output < 0)
        must(&c, kind->program.nodes[kind->program.node_count - 1].op == NP_NODE_XENT);
    else
        must(&c, np_shape_equal(kind->program.values[kind->program.output], kind->out));
}

void check_space(const struct space *s)
{
    char(*names)[NP_KIND_NAME] = calloc((size_t)s->net.kind_count, sizeof *names);
    for (int k = 0; k < s->net.kind_count; k++) {
        check_kind(&s->net.kinds[k]);
        np_kind_name(&s->net.kinds[k], names[k]);
        for (int i = 0; i < k; i++)
            ck_assert_str_ne(names[i], names[k]);
    }
    ck_assert_int_eq(s->net.whole_batch, s->recipe.calibration > 0);
    free(names);
}

void space_open(struct space *s, const char *name)
{
    struct np_error err = {.msg = ""};
    ck_assert_msg(np_recipe_read(&s->recipe, name, NULL, 0, &err) == NP_OK, "%s", err.msg);
    ck_assert_msg(np_supernet_init(&s->net, &s->recipe, &err) == NP_OK, "%s", err.msg);
}

void space_open_text(struct space *s, const char *text)
{
    recipe_text_write(text, strlen(text));
    space_open(s, recipe_path);
}

void space_close(struct space *s)
{
    np_supernet_clear(&s->net);
    np_recipe_clear(&s->recipe);
}

const struct np_kind *space_kind(const struct space *s, int position, int choice)
{
    return np_supernet_kind(&s->net, s->net.layer_first[position] + (uint32_t)choice);
}
