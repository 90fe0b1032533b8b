/* Where the values of a program lie, and which nodes F computes together. */
#include <assert.h>

#include "ops/node.h"

/* What is known of a value before it gets its place. */
struct life {
    int made;  /* the node whose kernel writes it; NP_NOWHERE: none */
    int last;  /* the last node that reads it or a slice of it; NP_NOWHERE: none */
    bool kept; /* B or W read it */
    int joins; /* the value whose place it takes, which is written over it later; NP_NOWHERE */
};

struct lives {
    struct np_layout *layout;
    const struct np_program *program;
    struct life of[NP_MAX_VALUES];
};

/* Slices count for what they were cut from. */
static void find_readers(struct lives *lives)
{
    struct np_layout *layout = lives->layout;
    for (int v = 0; v < lives->program->value_count; v++)
        lives->of[v] = (struct life){NP_NOWHERE, NP_NOWHERE, false, NP_NOWHERE};
    for (int i = 0; i < lives->program->node_count; i++) {
        const struct np_node *node = &lives->program->nodes[i];
        if (node->op == NP_NODE_SLICE) {
            layout->origin[node->out] = layout->origin[node->in[0]];
            continue;
        }
        for (int k = 0; k < 2; k++) {
            int v = node->in[k] < 0 ? NP_NOWHERE : layout->origin[node->in[k]];
            if (v < 0 || (k == 1 && node->in[0] == node->in[1]))
                continue;
            layout->readers[v]++;
            lives->of[v].last = i;
            if (np_node_ops_of(node)->reads & 1u << k)
                lives->of[v].kept = true;
        }
        if (np_node_ops_of(node)->slopes && node->act != NP_ACT_NONE) {
            if (np_node_slopes_at_output(lives->program, node))
                lives->of[node->out].kept = true;
            else if (node->op == NP_NODE_ACT)
                lives->of[layout->origin[node->in[0]]].kept = true;
        }
    }
}

/* The node that may do what follows node i in the kernel of node i, which is alone to be read by
 * it: an addition whose other summand is there, or (after a convolution) an activation. */
static bool is_tail(const struct lives *lives, int i, int j)
{
    const struct np_node *node = &lives->program->nodes[i], *next = &lives->program->nodes[j];
    int other = next->in[next->in[0] == node->out];
    if (next->op == NP_NODE_ACT)
        return node->op == NP_NODE_CONV;
    return next->op == NP_NODE_ADD && other != node->out && lives->layout->origin[other] == other &&
           (other < NP_VALUE_OWN || lives->of[other].made != NP_NOWHERE);
}

/* Convolutions and norms add what the next addition would, and apply the activation, while elements
 * are at hand. */
static void find_tail(struct lives *lives, int i)
{
    struct np_layout *layout = lives->layout;
    const struct np_node *node = &lives->program->nodes[i];
    int j = lives->of[node->out].last;
    if (!np_node_ops_of(node)->takes_tail || node->act != NP_ACT_NONE ||
        layout->readers[node->out] != 1 || node->out == lives->program->output ||
        !is_tail(lives, i, j))
        return;
    layout->node[i].tail = j;
    layout->node[j].done = true;
    lives->of[lives->program->nodes[j].out].made = i;
}

/* In node order, so that what is made before a node is known. */
static void find_makers(struct lives *lives)
{
    for (int i = 0; i < lives->program->node_count; i++) {
        const struct np_node *node = &lives->program->nodes[i];
        if (node->out < 0 || lives->layout->node[i].done)
            continue;
        find_tail(lives, i);
        lives->of[node->out].made = i;
    }
}

/* Node j, whose output is made at step i, may write it over in[k]: nobody needs that later, and the
 * kernel can. */
static bool may_overwrite(const struct lives *lives, int i, int j, int k)
{
    const struct np_node *node = &lives->program->nodes[j];
    int v = node->in[k];
    return (np_node_ops_of(node)->in_place & 1u << k) && v >= NP_VALUE_OWN &&
           v != lives->program->output && lives->layout->origin[v] == v && !lives->of[v].kept &&
           lives->of[v].made < i && lives->of[v].last == j &&
           lives->program->nodes[lives->of[v].made].op != NP_NODE_IMAGE &&
           np_layout_floats(lives->layout, v) == np_layout_floats(lives->layout, node->out) &&
           np_layout_readers(lives->layout, v, i, j) == 0;
}

static void find_joins(struct lives *lives)
{
    for (int j = 0; j < lives->program->node_count; j++) {
        const struct np_node *node = &lives->program->nodes[j];
        int i = node->out < 0 ? j : lives->of[node->out].made;
        for (int k = 0; k < 2; k++)
            if (may_overwrite(lives, i, j, k)) {
                lives->of[node->in[k]].joins = node->out;
                break;
            }
    }
}

/* The value that is made at this step gets its place, and so do those that will lie there. */
static void place(struct lives *lives, int v, int step)
{
    struct np_layout *layout = lives->layout;
    int t = v, part = NP_NOWHERE;
    if (layout->value[v].part != NP_NOWHERE)
        return;
    while (lives->of[t].joins != NP_NOWHERE)
        t = lives->of[t].joins;
    if (t == lives->program->output)
        part = NP_SLAB_Y;
    else if (lives->of[t].kept)
        part = np_layout_part(layout, NP_SLAB_SAVED, np_layout_floats(layout, t), 0, 0);
    else if (layout->pass == NP_PASS_FORWARD)
        part = np_layout_part(layout, NP_SLAB_WORK, np_layout_floats(layout, t), step,
                              lives->of[t].last);
    for (; v != t; v = lives->of[v].joins)
        layout->value[v].part = part;
    layout->value[t].part = part;
}

static void place_node(struct lives *lives, int i)
{
    struct np_layout *layout = lives->layout;
    const struct np_node *node = &lives->program->nodes[i];
    const struct np_layout_node *lay = &layout->node[i];
    struct np_view *view = node->out < 0 ? NULL : &layout->value[node->out];
    if (node->op == NP_NODE_SLICE) {
        *view = layout->value[node->in[0]];
        view->shift += (size_t)node->first;
    } else if (node->op == NP_NODE_IMAGE) {
        view->part = NP_SLAB_IMAGES;
    } else if (view && !lay->done && (lay->tail == NP_NOWHERE || lives->of[node->out].kept)) {
        place(lives, node->out, i);
    }
    if (lay->tail != NP_NOWHERE)
        place(lives, lives->program->nodes[lay->tail].out, i);
}

static void place_parts(struct np_layout *layout, int i)
{
    const struct np_node *node = &layout->program->nodes[i];
    struct np_node_parts parts = {0};
    if (np_node_ops_of(node)->parts)
        np_node_ops_of(node)->parts(&parts, layout->program, node, layout->samples);
    layout->node[i].saved = np_layout_part(layout, NP_SLAB_SAVED, parts.saved, 0, 0);
    layout->node[i].scratch = NP_NOWHERE;
    if (layout->pass == NP_PASS_FORWARD)
        layout->node[i].scratch = np_layout_part(layout, NP_SLAB_WORK, parts.forward, i, i);
}

void np_layout_values(struct np_layout *layout)
{
    struct lives lives = {.layout = layout, .program = layout->program};
    find_readers(&lives);
    find_makers(&lives);
    find_joins(&lives);
    for (int v = 0; v < NP_VALUE_OWN; v++)
        layout->value[v].part = v; /* X, MEMORY and SUM are numbered like their slabs */
    for (int i = 0; i < layout->program->node_count; i++) {
        place_node(&lives, i);
        place_parts(layout, i);
    }
}
