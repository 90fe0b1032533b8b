/* Which nodes the forward pass is repeated of, where what it saved was not kept. */
#include "ops/node.h"

struct demand {
    const struct np_layout *layout;
    bool of[NP_MAX_VALUES]; /* values, by origin, that a node which is repeated reads */
};

static bool is_saved(const struct np_layout *layout, int value)
{
    int part = value < 0 ? NP_NOWHERE : layout->value[value].part;
    return part != NP_NOWHERE && layout->parts[part].slab == NP_SLAB_SAVED;
}

static bool is_wanted(const struct demand *demand, int value)
{
    const struct np_layout *layout = demand->layout;
    return is_saved(layout, value) || (value >= 0 && demand->of[layout->origin[value]]);
}

/* What node i leaves, whose kernel does the work of `last` too, is read by B or W, or on the way
 * there. */
static bool leaves(const struct demand *demand, int i, int last)
{
    const struct np_layout *layout = demand->layout;
    const struct np_node *nodes = layout->program->nodes;
    return layout->node[i].saved != NP_NOWHERE || layout->node[last].saved != NP_NOWHERE ||
           is_wanted(demand, nodes[i].out) || is_wanted(demand, nodes[last].out) ||
           (np_node_ops_of(&nodes[i])->changes_input && is_saved(layout, nodes[i].in[0]));
}

static void want_inputs(struct demand *demand, const struct np_node *node)
{
    for (int k = 0; k < 2; k++)
        if (node->in[k] >= 0)
            demand->of[demand->layout->origin[node->in[k]]] = true;
}

bool np_layout_again(const struct np_layout *layout, bool *again)
{
    const struct np_node *nodes = layout->program->nodes;
    struct demand demand = {.layout = layout};
    bool any = false;
    for (int i = layout->program->node_count - 1; i >= 0; i--) {
        int tail = layout->node[i].tail, last = tail == NP_NOWHERE ? i : tail;
        again[i] =
            np_node_ops_of(&nodes[i])->forward && !layout->node[i].done && leaves(&demand, i, last);
        if (!again[i])
            continue;
        want_inputs(&demand, &nodes[i]);
        want_inputs(&demand, &nodes[last]);
        any = true;
    }
    return any;
}
