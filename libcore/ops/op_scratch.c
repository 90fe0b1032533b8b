#include "base/larger.h"
#include "num/products.h"
#include "ops/node.h"

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
        bytes = np_larger(bytes, np_kernels_scratch_bytes(np_larger(queries, keys), width));
    }
    return bytes;
}

size_t np_ops_scratch_bytes(const struct np_supernet *net)
{
    size_t bytes = 0;
    for (int k = 0; k < net->kind_count; k++)
        bytes = np_larger(bytes, kind_bytes(&net->kinds[k]));
    return bytes;
}

/* Of [rows][k] times [k][n], of either gradient, whose matrices are the same. */
static size_t product_floats(const struct np_program *program, const struct np_node *node,
                             size_t grain)
{
    size_t k = (size_t)program->values[node->in[0]].channels;
    size_t n = (size_t)program->values[node->out].channels;
    size_t rows = grain * np_shape_rows(program->values[node->out]);
    return rows * np_product_ld(k) + k * np_product_ld(n) + rows * np_product_ld(n);
}

static void kind_extent(const struct np_kind *kind, size_t samples, size_t grain,
                        struct np_extent *most)
{
    const struct np_program *program = &kind->program;
    for (int i = 0; i < program->node_count; i++) {
        const struct np_node *node = &program->nodes[i];
        size_t positions = node->out < 0 ? 0 : np_shape_rows(program->values[node->out]);
        if (node->op == NP_NODE_ATTENTION)
            most->queries = np_larger(most->queries, samples * positions * (size_t)node->heads);
        if (node->op == NP_NODE_EMBED)
            most->rows = np_larger(most->rows, samples * positions);
        if (np_node_is_product(node))
            most->product = np_larger(most->product, product_floats(program, node, grain));
    }
}

struct np_extent np_ops_extent(const struct np_supernet *net, size_t samples)
{
    struct np_extent most = {.queries = 0};
    for (int k = 0; k < net->kind_count; k++)
        kind_extent(&net->kinds[k], samples, (size_t)net->recipe->grain, &most);
    return most;
}

size_t np_ops_rows(const struct np_supernet *net)
{
    size_t rows = 0;
    for (int k = 0; k < net->kind_count; k++) {
        const struct np_program *program = &net->kinds[k].program;
        for (int v = 0; v < program->value_count; v++)
            rows = np_larger(rows, np_shape_rows(program->values[v]));
    }
    return rows;
}
