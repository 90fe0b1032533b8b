#include "space/recipe_layer.h"

#include <string.h>

#include "base/text.h"
#include "num/rotary.h"
#include "space/widths.h"

#define MAX_RATIO 64
#define MAX_EXPAND 16
#define MAX_REDUCTION 64
#define MAX_PATCH 4096

/* A layer while it is read. */
struct reading {
    struct np_layer_context *context;
    const struct np_op_fields *op;
    struct np_layer_spec *spec;
    struct np_yaml_map map;
    struct np_place places[2]; /* the context's, with the channels that it reads and makes */
    struct np_error *err;
};

static const struct np_yaml_node *find(struct reading *r, enum np_field field)
{
    return np_yaml_find(&r->map, np_field_name(field));
}

static enum np_status read_word(struct reading *r, enum np_field field, int *which,
                                const char *const *words, size_t count)
{
    return np_yaml_get_word(find(r, field), which, words, count, r->err);
}

/* "conv2d" is a word, too, where only sequences are: it gets a message of its own. */
static enum np_status check_input(struct reading *r, const struct np_yaml_node *node)
{
    static const char *const inputs[] = {"tokens", "pairs", "images"};
    const struct np_layer_context *context = r->context;
    const struct np_op_fields *row, *other = NULL;
    if (node->kind != NP_YAML_SCALAR)
        return NP_OK;
    for (size_t i = 0; (row = np_op_row(i)); i++) {
        if (row->role != context->role || strcmp(row->name, node->text) != 0)
            continue;
        if (row->inputs & NP_BIT(context->recipe->input))
            return NP_OK;
        other = row;
    }
    if (!other)
        return NP_OK;
    return np_yaml_fail(node, r->err, "'%s' is an operator of %s, not of %s", other->name,
                        !np_op_of_sequences(other)                ? "images"
                        : other->inputs & NP_BIT(NP_INPUT_TOKENS) ? "sequences"
                                                                  : "pairs",
                        inputs[context->recipe->input]);
}

/* Stem and head have a default, the first row of their role and input. */
static enum np_status read_op(struct reading *r)
{
    const struct np_layer_context *context = r->context;
    const struct np_op_fields *row, *known[NP_OP_COUNT];
    const char *names[NP_OP_COUNT];
    const struct np_yaml_node *node =
        context->role == NP_ROLE_CHOICE ? np_yaml_need(&r->map, "op") : np_yaml_find(&r->map, "op");
    enum np_status status;
    size_t count = 0;
    int which = 0;
    for (size_t i = 0; (row = np_op_row(i)); i++)
        if (row->role == context->role && row->inputs & NP_BIT(context->recipe->input)) {
            known[count] = row;
            names[count++] = row->name;
        }
    NP_TRY(check_input(r, node));
    NP_TRY(np_yaml_get_word(node, &which, names, count, r->err));
    r->op = known[which];
    r->spec->op = r->op->op;
out:
    return status;
}

/* What joins values, and what begins a sequence, is of no width. */
static enum np_status check_width(struct reading *r, const struct np_yaml_node *node)
{
    enum np_op op = r->op->op;
    if (!r->spec->width || (op != NP_OP_CONCAT && op != NP_OP_EMBEDDING))
        return NP_OK;
    return np_yaml_fail(node, r->err, "'%s' is no candidate of a block with widths", r->op->name);
}

static void find_channels(struct reading *r)
{
    const struct np_layer_context *context = r->context;
    for (int i = 0; i < context->place_count; i++) {
        struct np_place *place = &r->places[i];
        *place = context->places[i];
        if (context->block) {
            struct np_channels channels = np_width_channels(context->block, context->candidate,
                                                            place->x, place->in, place->out);
            place->in.channels = channels.reads;
            place->out.channels = channels.makes;
        }
    }
}

/* K or [height, width]. */
static enum np_status read_two(struct reading *r, const struct np_yaml_node *node, int max)
{
    const struct np_yaml_node *item;
    int *kernel = r->spec->kernel;
    enum np_status status;
    if (node->kind == NP_YAML_LIST) {
        NP_TRY(np_yaml_get_list(node, &item, 2, 2, r->err));
        NP_TRY(np_recipe_get_int(item, &kernel[0], 1, max, r->err));
        NP_TRY(np_recipe_get_int(item->next, &kernel[1], 1, max, r->err));
    } else {
        NP_TRY(np_recipe_get_int(node, &kernel[1], 1, max, r->err));
        kernel[0] = kernel[1];
    }
out:
    return status;
}

static enum np_status read_kernel(struct reading *r)
{
    const struct np_yaml_node *node = find(r, NP_FIELD_KERNEL);
    int *kernel = r->spec->kernel;
    enum np_status status;
    kernel[0] = np_op_of_sequences(r->op) ? 1 : r->op->kernel;
    kernel[1] = r->op->kernel;
    if (np_op_of_sequences(r->op))
        return np_recipe_get_int(node, &kernel[1], 1, NP_KC, r->err);
    NP_TRY(read_two(r, node, r->op->op == NP_OP_PATCH ? MAX_PATCH : NP_KC));
    if (r->op->op == NP_OP_PATCH)
        return NP_OK;
    if (kernel[0] * kernel[1] > NP_KC)
        NP_TRY(np_yaml_fail(node, r->err, "a kernel of %d x %d has more than %d taps", kernel[0],
                            kernel[1], NP_KC));
out:
    return status;
}

static enum np_status read_int(struct reading *r, enum np_field field, int preset, int min, int max)
{
    int *value = np_field_int(r->spec, field);
    *value = preset;
    return np_recipe_get_int(find(r, field), value, min, max, r->err);
}

/* The channels of a layer in the middle are given by themselves, and not as a multiple, too. */
static enum np_status check_hidden(struct reading *r, enum np_field field)
{
    const struct np_yaml_node *node = find(r, field);
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    return np_yaml_fail(node, r->err, "'%s' and 'hidden' say the same: one of them",
                        np_field_name(field));
}

static bool has_hidden(struct reading *r)
{
    return find(r, NP_FIELD_HIDDEN)->kind != NP_YAML_ABSENT;
}

static enum np_status read_expand(struct reading *r)
{
    return has_hidden(r) ? check_hidden(r, NP_FIELD_EXPAND)
                         : read_int(r, NP_FIELD_EXPAND, 6, 1, MAX_EXPAND);
}

/* In eighths, whose products with widths are exact. */
static enum np_status read_ratio(struct reading *r)
{
    const struct np_yaml_node *node = find(r, NP_FIELD_RATIO);
    double ratio = 4;
    enum np_status status;
    if (has_hidden(r))
        return check_hidden(r, NP_FIELD_RATIO);
    NP_TRY(np_recipe_get_double(node, &ratio, 1, MAX_RATIO, NP_YAML_CLOSED, r->err));
    if (8 * ratio != (double)(int)(8 * ratio))
        NP_TRY(np_yaml_fail(node, r->err, "'ratio' must be a multiple of 0.125, not '%s'",
                            np_text_safe(node->text).s));
    r->spec->ratio = (float)ratio;
out:
    return status;
}

/* Written down, the channels that it reads are what attention has by default. */
static void drop_default_hidden(struct reading *r)
{
    bool reads_them = true;
    for (int i = 0; i < r->context->place_count; i++)
        reads_them = reads_them && r->places[i].in.channels == r->spec->hidden;
    if (reads_them)
        r->spec->hidden = 0;
}

static enum np_status read_hidden(struct reading *r)
{
    bool head = r->context->role == NP_ROLE_HEAD;
    bool other = np_op_has(r->op, NP_FIELD_RATIO) || np_op_has(r->op, NP_FIELD_EXPAND);
    bool follows = r->context->block && r->context->block->widths;
    int preset = 0;
    if (!other && !follows && !head && r->op->op != NP_OP_MHA)
        preset = np_hidden_of(r->spec, r->places[0].out.channels);
    enum np_status status = read_int(r, NP_FIELD_HIDDEN, preset, head ? 0 : 1, NP_MAX_WIDTH);
    if (status == NP_OK && r->op->op == NP_OP_MHA && !follows)
        drop_default_hidden(r);
    return status;
}

/* Channels that heads share. */
static int heads_width(const struct reading *r)
{
    int hidden = r->spec->hidden;
    return hidden ? hidden : r->places[r->context->place_count - 1].in.channels;
}

static enum np_status read_heads(struct reading *r)
{
    const struct np_yaml_node *node = np_yaml_need(&r->map, "heads");
    int *heads = &r->spec->heads, hidden = r->spec->hidden, width = heads_width(r);
    enum np_status status;
    NP_TRY(np_recipe_get_int(node, heads, 1, width, r->err));
    if (width % *heads != 0)
        NP_TRY(np_yaml_fail(node, r->err, "'heads' must divide the %s of %d, not %d",
                            hidden ? "hidden width" : "width", width, *heads));
out:
    return status;
}

static enum np_status read_kv_heads(struct reading *r)
{
    const struct np_yaml_node *node = find(r, NP_FIELD_KV_HEADS);
    int heads = r->spec->heads, pairs = heads;
    enum np_status status;
    NP_TRY(np_recipe_get_int(node, &pairs, 1, heads, r->err));
    if (heads % pairs != 0)
        NP_TRY(np_yaml_fail(node, r->err, "'kv_heads' must divide the %d heads, not %d", heads,
                            pairs));
    r->spec->kv_heads = pairs < heads ? pairs : 0;
out:
    return status;
}

/* The candidates of a block have one memory. */
static enum np_status read_memory(struct reading *r)
{
    struct np_layer_context *context = r->context;
    const struct np_yaml_node *node = r->op->op == NP_OP_CONCAT
                                          ? np_yaml_need(&r->map, np_field_name(NP_FIELD_MEMORY))
                                          : find(r, NP_FIELD_MEMORY);
    enum np_status status = NP_OK;
    int which = 0;
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (context->name_count == 0)
        NP_TRY(np_yaml_fail(node, r->err, "no block before this one has a name"));
    NP_TRY(np_yaml_get_word(node, &which, context->names, context->name_count, r->err));
    if (context->memory >= 0 && context->memory != which)
        NP_TRY(np_yaml_fail(node, r->err, "the candidates of a block have one memory: '%s'",
                            np_text_safe(context->names[context->memory]).s));
    context->memory = which;
    r->spec->cross = true;
out:
    return status;
}

static enum np_status read_mask(struct reading *r)
{
    static const char *const masks[] = {"none", "causal"};
    bool images = r->context->recipe->input == NP_INPUT_IMAGES, cross = r->spec->cross;
    int causal = !images && !cross;
    enum np_status status;
    NP_TRY(read_word(r, NP_FIELD_MASK, &causal, masks, 2));
    if (causal && (images || cross))
        NP_TRY(np_yaml_fail(find(r, NP_FIELD_MASK), r->err, "%s have no mask",
                            cross ? "layers with a memory" : "images"));
    r->spec->causal = causal == 1;
out:
    return status;
}

/* A stem learns positions; attention turns queries and keys by theirs, which a sequence has, or
 * learns what it adds for how far they lie apart. */
static enum np_status read_positions(struct reading *r)
{
    static const enum np_positions stems[] = {NP_POSITIONS_NONE, NP_POSITIONS_LEARNED};
    static const enum np_positions attentions[] = {NP_POSITIONS_NONE, NP_POSITIONS_ROTARY,
                                                   NP_POSITIONS_RELATIVE};
    bool attends = r->op->op == NP_OP_MHA, cross = r->spec->cross;
    bool images = r->context->recipe->input == NP_INPUT_IMAGES;
    const enum np_positions *known = attends ? attentions : stems;
    const struct np_yaml_node *node = find(r, NP_FIELD_POSITIONS);
    const char *words[NP_POSITIONS_COUNT];
    int which = !attends, width, count = attends ? 3 : 2;
    enum np_status status;
    for (int i = 0; i < count; i++)
        words[i] = np_positions_name(known[i]);
    NP_TRY(read_word(r, NP_FIELD_POSITIONS, &which, words, (size_t)count));
    r->spec->positions = known[which];
    if (!attends || which == 0)
        return NP_OK;
    width = heads_width(r) / r->spec->heads;
    if (cross || (images && r->spec->positions == NP_POSITIONS_ROTARY))
        NP_TRY(np_yaml_fail(node, r->err, "%s have no %s positions",
                            cross ? "layers with a memory" : "images", words[which]));
    if (r->spec->positions == NP_POSITIONS_ROTARY && width % 2 != 0)
        NP_TRY(np_yaml_fail(node, r->err,
                            "rotary positions turn pairs, a head has %d channels here", width));
out:
    return status;
}

static enum np_status read_base(struct reading *r)
{
    const struct np_yaml_node *node = find(r, NP_FIELD_BASE);
    int base = NP_ROTARY_BASE;
    enum np_status status;
    NP_TRY(np_recipe_get_int(node, &base, 2, NP_ROTARY_BASE_MOST, r->err));
    if (node->kind != NP_YAML_ABSENT && r->spec->positions != NP_POSITIONS_ROTARY)
        NP_TRY(np_yaml_fail(node, r->err, "'base' is of rotary positions"));
    r->spec->base = base == NP_ROTARY_BASE ? 0 : base;
out:
    return status;
}

/* Rows of a sequence know nothing of each other. */
static unsigned norms_of(const struct reading *r)
{
    bool sequence = r->op->op == NP_OP_NORM && r->context->recipe->input != NP_INPUT_IMAGES;
    return sequence ? NP_BIT(NP_NORM_OF_LAYER) | NP_BIT(NP_NORM_OF_RMS) : r->op->norms;
}

/* A classifier without features has no norm unless it says so; and no act, unless it is hidden
 * channels'. */
static bool without_features(const struct reading *r)
{
    return r->op->op == NP_OP_CLASSIFIER && r->spec->features == 0;
}

static enum np_status read_norm(struct reading *r)
{
    enum np_norm preset = without_features(r) ? NP_NORM_NONE : r->op->norm, known[NP_NORM_COUNT];
    const char *names[NP_NORM_COUNT];
    enum np_status status;
    size_t count = 0;
    int which = 0;
    for (int i = 0; i < NP_NORM_COUNT; i++)
        if (norms_of(r) & NP_BIT(i)) {
            which = i == (int)preset ? (int)count : which;
            known[count] = (enum np_norm)i;
            names[count++] = np_norm_name((enum np_norm)i);
        }
    status = read_word(r, NP_FIELD_NORM, &which, names, count);
    r->spec->norm = known[which];
    return status;
}

static enum np_status read_bias(struct reading *r)
{
    bool bias = true;
    enum np_status status = np_yaml_get_bool(find(r, NP_FIELD_BIAS), &bias, r->err);
    r->spec->unbiased = !bias;
    return status;
}

static enum np_status read_act(struct reading *r)
{
    const char *names[NP_ACT_COUNT];
    int which = without_features(r) && !r->spec->hidden ? NP_ACT_NONE : (int)r->op->act;
    enum np_status status;
    for (int i = 0; i < NP_ACT_COUNT; i++)
        names[i] = np_act_name((enum np_act)i);
    status = read_word(r, NP_FIELD_ACT, &which, names, NP_ACT_COUNT);
    r->spec->act = (enum np_act)which;
    return status;
}

static enum np_status read_fraction(struct reading *r, enum np_field field, float *out)
{
    double value = 0.0;
    enum np_status status = np_recipe_get_fraction(find(r, field), &value, r->err);
    *out = (float)value;
    return status;
}

static enum np_status read_field(struct reading *r, enum np_field field)
{
    switch (field) {
    case NP_FIELD_KERNEL:
        return read_kernel(r);
    case NP_FIELD_STRIDE:
        return read_int(r, field, 1, 1, 2);
    case NP_FIELD_DILATION:
        return read_int(r, field, r->op->dilation, 1, 2);
    case NP_FIELD_GROUPS:
        return read_int(r, field, 1, 1, NP_MAX_WIDTH);
    case NP_FIELD_HEADS:
        return read_heads(r);
    case NP_FIELD_KV_HEADS:
        return read_kv_heads(r);
    case NP_FIELD_MEMORY:
        return read_memory(r);
    case NP_FIELD_MASK:
        return read_mask(r);
    case NP_FIELD_RATIO:
        return read_ratio(r);
    case NP_FIELD_HIDDEN:
        return read_hidden(r);
    case NP_FIELD_EXPAND:
        return read_expand(r);
    case NP_FIELD_SE:
        return read_int(r, field, 0, 0, MAX_REDUCTION);
    case NP_FIELD_XCEPTION:
        return np_yaml_get_bool(find(r, field), &r->spec->xception, r->err);
    case NP_FIELD_FEATURES:
        return read_int(r, field, 0, 0, NP_MAX_WIDTH);
    case NP_FIELD_NORM:
        return read_norm(r);
    case NP_FIELD_ACT:
        return read_act(r);
    case NP_FIELD_BIAS:
        return read_bias(r);
    case NP_FIELD_POSITIONS:
        return read_positions(r);
    case NP_FIELD_BASE:
        return read_base(r);
    case NP_FIELD_DROPOUT:
        return read_fraction(r, field, &r->spec->dropout);
    case NP_FIELD_DROP_PATH:
        return read_fraction(r, field, &r->spec->drop_path);
    case NP_FIELD_COUNT:
        break;
    }
    return NP_OK;
}

enum np_status np_recipe_read_layer(struct np_layer_spec *spec, const struct np_yaml_node *node,
                                    struct np_layer_context *context, struct np_error *err)
{
    struct reading r = {.context = context, .spec = spec, .err = err};
    struct np_layer_fit fit = {
        .recipe = context->recipe, .spec = spec, .map = &r.map, .node = node};
    enum np_status status;
    NP_TRY(np_yaml_get_map(node, &r.map, err));
    NP_TRY(read_op(&r));
    fit.op = r.op;
    find_channels(&r);
    if (np_yaml_find(&r.map, "op")->kind != NP_YAML_ABSENT)
        fit.node = np_yaml_find(&r.map, "op");
    NP_TRY(check_width(&r, fit.node));
    spec->groups = np_op_has(r.op, NP_FIELD_GROUPS) || spec->op == NP_OP_CONV2D;
    spec->dilation = r.op->dilation;
    for (int i = 0; i < NP_FIELD_COUNT; i++)
        if (np_op_has(r.op, (enum np_field)i))
            NP_TRY(read_field(&r, (enum np_field)i));
    if (context->role == NP_ROLE_STEM)
        NP_TRY(np_recipe_get_word(np_yaml_find(&r.map, "name"), &context->name, NP_MAX_NAME, err));
    NP_TRY(np_yaml_map_finish(&r.map, err));
    if (spec->cross)
        fit.memory = &context->memories[context->memory];
    for (int i = 0; i < context->place_count; i++) {
        fit.place = &r.places[i];
        NP_TRY(np_recipe_fit_layer(&fit, &context->batch_norm, err));
    }
out:
    return status;
}
