#include "ops/op.h"

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Attention is the only kernel whose scratch depends on its sizes. */
static size_t kind_bytes(const struct np_kind *kind)
{
    const struct np_program *program = &kind->program;
    size_t bytes = np_kernels_scratch_bytes(1, 1);
    for (int i = 0; i < program->node_count; i++) {
        const struct np_node *node = &program->nodes[i];
        if (node->op != NP_NODE_ATTENTION)
            continue;
        size_t queries = np_shape_rows(program->values[node->in[0]]);
        size_t keys = np_shape_rows(program->values[node->in[1]]);
        size_t width = (size_t)program->values[node->out].channels / (size_t)node->heads;
        bytes = max_size(bytes, np_kernels_scratch_bytes(max_size(queries, keys), width));
    }
    return bytes;
}

size_t np_ops_scratch_bytes(const struct np_supernet *net)
{
    size_t bytes = 0;
    for (int k = 0; k < net->kind_count; k++)
        bytes = max_size(bytes, kind_bytes(&net->kinds[k]));
    return bytes;
}

static void kind_extent(const struct np_kind *kind, size_t samples, size_t *queries, size_t *rows)
{
    const struct np_program *program = &kind->program;
    for (int i = 0; i < program->node_count; i++) {
        const struct np_node *node = &program->nodes[i];
        size_t positions = node->out < 0 ? 0 : np_shape_rows(program->values[node->out]);
        if (node->op == NP_NODE_ATTENTION)
            *queries = max_size(*queries, samples * positions * (size_t)node->heads);
        if (node->op == NP_NODE_EMBED)
            *rows = max_size(*rows, samples * positions);
    }
}

void np_ops_extent(const struct np_supernet *net, size_t samples, size_t *queries, size_t *rows)
{
    *queries = *rows = 0;
    for (int k = 0; k < net->kind_count; k++)
        kind_extent(&net->kinds[k], samples, queries, rows);
}
