/* Where the gradients of a program lie, and what each node's kernels write in B. */
#include "ops/node.h"

struct flow {
    struct np_layout *layout;
    const struct np_program *program;
    int first; /* parts from here on are this half's */
    int step;
};

static void hold(struct flow *flow, int part)
{
    flow->layout->parts[part].holders++;
}

static void release(struct flow *flow, int part)
{
    if (--flow->layout->parts[part].holders == 0)
        flow->layout->parts[part].end = flow->step;
}

static int new_part(struct flow *flow, size_t count)
{
    return np_layout_part(flow->layout, NP_SLAB_WORK, count, flow->step, flow->step);
}

/* Nobody but the value that holds it reads the part again. */
static bool exclusive(const struct flow *flow, int part)
{
    const struct np_part *p = &flow->layout->parts[part];
    return part >= flow->first && p->holders == 1 && !p->kept;
}

/* The value that node i gives to by in[k]: what its `through` read, or in[k] itself. */
static int receiver(const struct flow *flow, int i, int k)
{
    const struct np_node *node = &flow->program->nodes[i];
    int v = node->in[k], through = flow->layout->node[i].through;
    if (!(np_node_ops_of(node)->gives & 1u << k) || v < 0)
        return NP_NOWHERE;
    if (node->op == NP_NODE_ATTENTION && k == 1 && node->in[0] == v)
        return NP_NOWHERE; /* keys and values lie in the same rows as queries */
    if (through != NP_NOWHERE && flow->program->nodes[through].op == NP_NODE_ACT)
        v = flow->program->nodes[through].in[0];
    return v != NP_VALUE_SUM && flow->program->live[flow->layout->origin[v]] ? v : NP_NOWHERE;
}

/* The node that writes a value. */
static int writer(const struct flow *flow, int value, int before)
{
    for (int i = before - 1; i >= 0; i--)
        if (flow->program->nodes[i].out == value)
            return i;
    return NP_NOWHERE;
}

/* After node i's turn nobody reads what it read: it was alone to do so, and what made it takes no
 * slope from it. */
static bool is_spent(const struct flow *flow, int i, int value)
{
    const struct np_layout *layout = flow->layout;
    int part = layout->value[value].part, j = writer(flow, value, i);
    return layout->readers[value] == 1 && part >= NP_PARTS_OUTSIDE &&
           layout->parts[part].slab == NP_SLAB_SAVED &&
           !(np_node_ops_of(&flow->program->nodes[j])->slopes &&
             np_node_slopes_at_output(flow->program, &flow->program->nodes[j]));
}

/* Where a gift to `root` is written: in place of its gradient so far, or over what comes in, if
 * that can be; else to a new part. */
static int target(struct flow *flow, int i, int k, int root)
{
    struct np_layout *layout = flow->layout;
    const struct np_node_ops *ops = np_node_ops_of(&flow->program->nodes[i]);
    size_t count = np_layout_floats(layout, root);
    int before = layout->gradient[root], from = layout->node[i].inner;
    bool last = k == 1 || receiver(flow, i, 1) == NP_NOWHERE;
    if (root == NP_VALUE_X)
        return NP_SLAB_DX;
    if (root == NP_VALUE_MEMORY)
        return NP_SLAB_DMEMORY;
    if (ops->over_input && is_spent(flow, i, root))
        return layout->value[root].part;
    if (before != NP_NOWHERE && exclusive(flow, before))
        return before;
    if (ops->over_dy && last && exclusive(flow, from) &&
        layout->parts[from].count == np_lines(count))
        return from;
    return new_part(flow, count);
}

static void lay_gift(struct flow *flow, int i, int k)
{
    struct np_layout *layout = flow->layout;
    const struct np_node_ops *ops = np_node_ops_of(&flow->program->nodes[i]);
    struct np_gift *gift = &layout->node[i].gift[k];
    int v = receiver(flow, i, k), root = v < 0 ? v : layout->origin[v];
    int before = v < 0 ? NP_NOWHERE : layout->gradient[root];
    *gift = (struct np_gift){v, NP_NOWHERE, before, NP_NOWHERE, false};
    if (v == NP_NOWHERE)
        return;
    if (root != v && before != NP_NOWHERE) { /* another slice: each has its own columns */
        gift->to = before;
        gift->base = NP_NOWHERE;
        return;
    }
    gift->shared = ops->passes_on && before == NP_NOWHERE;
    gift->to = gift->shared ? layout->node[i].inner : target(flow, i, k, root);
    if (!(ops->takes_base & 1u << k) && (before != NP_NOWHERE || root < NP_VALUE_OWN))
        gift->temp = new_part(flow, np_layout_floats(layout, v));
    if (gift->to == before)
        return;
    hold(flow, gift->to);
    if (before != NP_NOWHERE)
        release(flow, before);
    layout->gradient[root] = gift->to;
}

/* A convolution's kernel multiplies the gradient of what it read by the slope of the activation
 * that made it, if nobody else has a part in that gradient. Of an activation by itself it then
 * gives to what that read, unless somebody whose turn comes first in between does so too. */
static void find_through(struct flow *flow, int i)
{
    struct np_layout *layout = flow->layout;
    const struct np_node *node = &flow->program->nodes[i], *maker;
    int v = node->in[0], j, u;
    if (node->op != NP_NODE_CONV || layout->origin[v] != v || layout->readers[v] != 1 ||
        v == flow->program->output || (j = writer(flow, v, i)) == NP_NOWHERE)
        return;
    maker = &flow->program->nodes[j];
    if (!np_node_ops_of(maker)->slopes || maker->act == NP_ACT_NONE || !flow->program->live[v])
        return;
    u = maker->in[0];
    if (maker->op == NP_NODE_ACT &&
        (layout->origin[u] != u || np_layout_readers(layout, u, j + 1, i) > 0))
        return;
    layout->node[i].through = j;
    layout->node[j].sloped = true;
}

/* The gradient past the node's own activation: over what comes in if that can be. */
static int lay_inner(struct flow *flow, int i, int dy)
{
    const struct np_node *node = &flow->program->nodes[i];
    int part = dy;
    if (node->op == NP_NODE_ACT || !np_node_ops_of(node)->slopes || node->act == NP_ACT_NONE ||
        flow->layout->node[i].sloped || exclusive(flow, dy))
        return dy;
    part = new_part(flow, np_layout_floats(flow->layout, node->out));
    hold(flow, part);
    release(flow, dy);
    return part;
}

static void lay_node(struct flow *flow, int i)
{
    struct np_layout *layout = flow->layout;
    struct np_layout_node *lay = &layout->node[i];
    const struct np_node *node = &flow->program->nodes[i];
    const struct np_node_ops *ops = np_node_ops_of(node);
    struct np_node_parts parts = {0};
    lay->gift[0].value = lay->gift[1].value = NP_NOWHERE;
    if (node->out >= 0 && layout->gradient[node->out] == NP_NOWHERE)
        return; /* nobody gave it anything, or it is behind another's `through` */
    if (ops->parts)
        ops->parts(&parts, flow->program, node, layout->samples);
    lay->delta = np_layout_part(layout, NP_SLAB_DELTA, parts.delta, 0, 0);
    lay->scratch = np_layout_part(layout, NP_SLAB_WORK, parts.backward, flow->step, flow->step);
    if (node->out >= 0)
        lay->inner = lay_inner(flow, i, layout->gradient[node->out]);
    if (ops->reads_dy)
        layout->parts[lay->inner].kept = true;
    find_through(flow, i);
    for (int k = 0; k < 2; k++)
        lay_gift(flow, i, k);
    if (ops->reads_gift)
        layout->parts[lay->gift[0].to].kept = true;
    if (lay->inner != NP_NOWHERE)
        release(flow, lay->inner);
}

/* What W reads moves to delta; what x or memory still share lasts to the end. */
static void settle(struct flow *flow)
{
    struct np_layout *layout = flow->layout;
    for (int p = flow->first; p < layout->part_count; p++) {
        struct np_part *part = &layout->parts[p];
        if (part->holders > 0)
            part->end = flow->program->node_count;
        if (part->kept && part->slab == NP_SLAB_WORK) {
            part->slab = NP_SLAB_DELTA;
            part->offset = layout->used[NP_SLAB_DELTA];
            layout->used[NP_SLAB_DELTA] += part->count;
        }
    }
}

void np_layout_gradients(struct np_layout *layout)
{
    struct flow flow = {.layout = layout, .program = layout->program, .first = layout->part_count};
    if (flow.program->output >= 0) {
        layout->gradient[flow.program->output] = NP_SLAB_DY;
        hold(&flow, NP_SLAB_DY);
    }
    for (int i = flow.program->node_count - 1; i >= 0; i--, flow.step++)
        lay_node(&flow, i);
    settle(&flow);
}
