#include "run/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "exec/train.h"
#include "space/parts.h"

#define MAX_HEADER 100000000 /* bytes: readers refuse more */

struct np_export {
    struct np_export_config config;
    struct np_evaluator *evaluator; /* has the statistics; NULL: there are none */
    struct np_plan plan;
    struct np_train_config train;
    const float *weights; /* of the layer that is written */
    struct np_buf header; /* with the 8 bytes before it */
    uint64_t bytes;       /* of tensors */
};

/* A tensor that is written: of the layer, or statistics of one of its batch norms. */
struct piece {
    char name[NP_LAYER_NAME + 64];
    size_t dims[4];
    int rank;
    size_t count;
    const struct np_tensor *tensor; /* NULL: statistics */
    size_t first;                   /* of statistics, in the position's */
    bool turned;                    /* a weight, which lies the other way here */
};

/* Called for every piece of a layer in order. */
typedef enum np_status piece_hook(struct np_export *e, uint32_t layer, const struct piece *piece,
                                  struct np_error *err);

/* PyTorch's shape of a weight that is [kh][kw][C/groups][N], [kh][kw][C] or [K][N] here. */
static void turn_shape(struct piece *piece, bool depthwise, bool of_sequences)
{
    const struct np_tensor *t = piece->tensor;
    int rank = 0;
    piece->dims[rank++] = t->shape[t->rank - 1];
    piece->dims[rank++] = depthwise ? 1 : t->shape[t->rank - 2];
    if (t->rank > 2 && !of_sequences)
        piece->dims[rank++] = t->shape[0];
    if (t->rank > 2)
        piece->dims[rank++] = t->shape[1];
    piece->rank = rank;
}

/* A product's first tensor is its weight. */
static struct piece piece_of(const struct np_kind *kind, const struct np_node *node, int tensor,
                             const char *layer)
{
    const struct np_tensor *t = &kind->tensors[tensor];
    bool depthwise = node->op == NP_NODE_DWCONV;
    struct piece piece = {.tensor = t, .rank = t->rank, .count = t->count};
    snprintf(piece.name, sizeof piece.name, "%s.%s", layer, t->name);
    memcpy(piece.dims, t->shape, sizeof piece.dims);
    piece.turned = (depthwise || node->op == NP_NODE_CONV) && tensor == node->tensor;
    if (piece.turned)
        turn_shape(&piece, depthwise, kind->image.channels == 0);
    return piece;
}

static struct piece statistics_of(const struct np_kind *kind, const struct np_node *node,
                                  bool variance, const char *layer)
{
    const struct np_tensor *gamma = &kind->tensors[node->tensor];
    int prefix = (int)(strlen(gamma->name) - strlen("gamma"));
    struct piece piece = {.rank = 1, .dims = {gamma->count}, .count = gamma->count};
    piece.first = (size_t)node->first + (variance ? gamma->count : 0);
    snprintf(piece.name, sizeof piece.name, "%s.%.*s%s", layer, prefix, gamma->name,
             variance ? "running_var" : "running_mean");
    return piece;
}

/* The node whose first tensor it is, else NULL. */
static const struct np_node *node_from(const struct np_program *program, int tensor)
{
    for (int n = 0; n < program->node_count; n++)
        if (program->nodes[n].tensor == tensor)
            return &program->nodes[n];
    return NULL;
}

/* The tensors of a node are one after the other; batch norm's are gamma and beta. */
static enum np_status each_piece(struct np_export *e, uint32_t layer, piece_hook *hook,
                                 struct np_error *err)
{
    const struct np_kind *kind = np_supernet_kind(e->config.net, layer);
    const struct np_node *node = NULL;
    char name[NP_LAYER_NAME];
    enum np_status status = NP_OK;
    np_supernet_layer_name(e->config.net, layer, name);
    for (int t = 0; t < kind->tensor_count; t++) {
        const struct np_node *next = node_from(&kind->program, t);
        node = next ? next : node;
        struct piece piece = piece_of(kind, node, t, name);
        NP_TRY(hook(e, layer, &piece, err));
        if (node->op != NP_NODE_BATCH_NORM || t == node->tensor || !e->evaluator)
            continue;
        for (int variance = 0; variance < 2; variance++) {
            piece = statistics_of(kind, node, variance, name);
            NP_TRY(hook(e, layer, &piece, err));
        }
    }
out:
    return status;
}

static enum np_status each_layer(struct np_export *e,
                                 enum np_status (*hook)(struct np_export *, uint32_t layer,
                                                        struct np_error *),
                                 struct np_error *err)
{
    const struct np_supernet *net = e->config.net;
    enum np_status status = NP_OK;
    for (int p = 0; p < net->positions; p++) {
        uint32_t first = net->layer_first[p], end = net->layer_first[p + 1];
        if (e->config.choices) {
            first = np_supernet_chosen(net, e->config.choices, p);
            end = first + 1;
        }
        for (uint32_t layer = first; layer < end; layer++)
            if (e->config.choices || net->layer_whole[layer] == layer)
                NP_TRY(hook(e, layer, err));
    }
out:
    return status;
}

/* Names are letters, digits, dots and lines, which JSON has as they are. */
static enum np_status index_piece(struct np_export *e, uint32_t layer, const struct piece *piece,
                                  struct np_error *err)
{
    uint64_t end = e->bytes + piece->count * sizeof(float);
    enum np_status status;
    (void)layer;
    NP_TRY(np_buf_printf(&e->header, err, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[", piece->name));
    for (int i = 0; i < piece->rank; i++)
        NP_TRY(np_buf_printf(&e->header, err, i ? ",%zu" : "%zu", piece->dims[i]));
    NP_TRY(np_buf_printf(&e->header, err, "],\"data_offsets\":[%llu,%llu]}",
                         (unsigned long long)e->bytes, (unsigned long long)end));
    if (e->header.used > MAX_HEADER)
        return np_fail(err, NP_EINPUT, "an export of so many tensors has a header over %d bytes",
                       MAX_HEADER);
    e->bytes = end;
out:
    return status;
}

static enum np_status index_layer(struct np_export *e, uint32_t layer, struct np_error *err)
{
    return each_piece(e, layer, index_piece, err);
}

/* Whose weights they are; metadata are strings. */
static enum np_status index_source(struct np_export *e, struct np_error *err)
{
    const struct np_export_config *c = &e->config;
    enum np_status status;
    NP_TRY(
        np_buf_printf(&e->header, err,
                      "{\"__metadata__\":{\"format\":\"pt\",\"naspipe\":\"%s\",\"recipe\":\"%s\","
                      "\"run\":\"%s\",\"step\":\"%llu\"",
                      NP_VERSION, np_digest_hex(np_trained_recipe(c->trained)).s,
                      np_digest_hex(np_trained_digest(c->trained)).s,
                      (unsigned long long)np_trained_step(c->trained)));
    for (int b = 0; c->choices && b < c->net->positions - 2; b++)
        NP_TRY(np_buf_printf(&e->header, err, b ? " %d" : ",\"subnet\":\"%d", c->choices[b]));
    NP_TRY(np_buf_printf(&e->header, err, c->choices ? "\"}" : "}"));
out:
    return status;
}

static enum np_status index_all(struct np_export *e, struct np_error *err)
{
    const uint64_t room = 0;
    uint64_t bytes;
    enum np_status status;
    NP_TRY(np_buf_append(&e->header, &room, sizeof room, err));
    NP_TRY(index_source(e, err));
    NP_TRY(each_layer(e, index_layer, err));
    NP_TRY(np_buf_printf(&e->header, err, "}"));
    while (e->header.used % sizeof bytes != 0)
        NP_TRY(np_buf_printf(&e->header, err, " "));
    bytes = e->header.used - sizeof bytes;
    memcpy(e->header.text, &bytes, sizeof bytes);
out:
    return status;
}

/* --- statistics ------------------------------------------------------------------------------- */

static bool on_stop(void *context)
{
    const struct np_export *e = context;
    return e->config.stop && e->config.stop(e->config.context);
}

/* An evaluation finds them first, whatever it is of. */
static enum np_status find_statistics(struct np_export *e, struct np_error *err)
{
    const struct np_export_config *c = &e->config;
    struct np_evaluation some = {
        .data = c->train_data, .choices = c->choices, .count = 1, .batches = 1};
    struct np_score score;
    enum np_status status;
    e->plan = (struct np_plan){.stages = 1, .threads = c->threads};
    e->train = (struct np_train_config){.net = c->net,
                                        .data = c->train_data,
                                        .kernels = c->kernels,
                                        .devices = &np_device_host,
                                        .device_count = 1,
                                        .plan = &e->plan,
                                        .hooks = {.context = e, .stop = on_stop}};
    NP_TRY(np_trained_bring(c->trained, c->choices, err));
    NP_TRY(np_evaluator_new(&e->evaluator, &e->train, np_trained_state(c->trained), NULL, err));
    NP_TRY(np_evaluate(&score, e->evaluator, &some, err));
out:
    return status;
}

enum np_status np_export_new(struct np_export **out, const struct np_export_config *config,
                             struct np_error *err)
{
    struct np_export *e = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&e, 1, sizeof *e, err));
    e->config = *config;
    if (config->choices && np_supernet_has_batch_norm(config->net, config->choices))
        NP_TRY(find_statistics(e, err));
    NP_TRY(index_all(e, err));
    *out = e;
    e = NULL;
out:
    np_export_free(e);
    return status;
}

void np_export_free(struct np_export *e)
{
    if (!e)
        return;
    np_evaluator_free(e->evaluator);
    np_buf_clear(&e->header);
    free(e);
}

uint64_t np_export_bytes(const struct np_export *e)
{
    return e->header.used + e->bytes;
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* From [window][inner][outer] to [outer][inner][window]; of a depthwise weight inner is 1. */
static void turn_weight(float *out, const float *w, size_t window, size_t inner, size_t outer)
{
    for (size_t n = 0; n < outer; n++)
        for (size_t c = 0; c < inner; c++)
            for (size_t t = 0; t < window; t++)
                *out++ = w[(t * inner + c) * outer + n];
}

static enum np_status write_piece(struct np_export *e, uint32_t layer, const struct piece *piece,
                                  struct np_error *err)
{
    const struct np_export_config *c = &e->config;
    int position = np_supernet_position(c->net, layer);
    float *turned = NULL;
    const float *values = piece->tensor
                              ? e->weights + piece->tensor->offset
                              : np_evaluator_statistics(e->evaluator, position) + piece->first;
    enum np_status status;
    if (on_stop(e))
        return np_fail(err, NP_ESTOP, "stopped on request in an export");
    if (piece->turned) {
        NP_TRY(np_alloc(&turned, piece->count, sizeof *turned, err));
        turn_weight(turned, values, piece->count / piece->dims[0] / piece->dims[1], piece->dims[1],
                    piece->dims[0]);
        values = turned;
    }
    status = c->write(c->context, values, piece->count * sizeof(float), err);
out:
    free(turned);
    return status;
}

static enum np_status write_layer(struct np_export *e, uint32_t layer, struct np_error *err)
{
    struct np_trained *trained = e->config.trained;
    const struct np_kind *kind = np_supernet_kind(e->config.net, layer);
    uint32_t whole = e->config.net->layer_whole[layer];
    float *part = NULL;
    enum np_status status;
    if (!np_kind_whole(kind)->floats)
        return NP_OK;
    NP_TRY(np_trained_bring_layer(trained, whole, err));
    e->weights = np_trained_state(trained)->layers[whole].slab;
    if (kind->pieces) {
        NP_TRY(np_alloc(&part, kind->part_floats, sizeof *part, err));
        np_part_cut(part, kind, e->weights);
        e->weights = part;
    }
    NP_TRY(each_piece(e, layer, write_piece, err));
    np_trained_forget(trained, whole);
out:
    free(part);
    return status;
}

enum np_status np_export_write(struct np_export *e, struct np_error *err)
{
    enum np_status status;
    NP_TRY(e->config.write(e->config.context, e->header.text, e->header.used, err));
    NP_TRY(each_layer(e, write_layer, err));
out:
    return status;
}
