#include "ops/op.h"

#include <string.h>

#include "base/larger.h"
#include "ops/node.h"

/* What a part does not use where it lies, out of a slab of its whole. */
static void gather_part(const struct np_pass *pass, const float *slab)
{
    const struct np_kind *kind = pass->call->kind;
    for (int t = 0; t < kind->tensor_count; t++) {
        const struct np_piece *piece = &kind->pieces[t];
        if (!piece->ld)
            pass->kernels->gather(pass->team, np_pass_copies(pass) + piece->copy,
                                  slab + piece->offset, &piece->slice);
    }
    if (kind->copy_floats)
        np_team_wait(pass->team);
}

/* The same, back into the slab. */
static void scatter_part(const struct np_pass *pass, float *slab)
{
    const struct np_kind *kind = pass->call->kind;
    for (int t = 0; t < kind->tensor_count; t++) {
        const struct np_piece *piece = &kind->pieces[t];
        if (!piece->ld)
            pass->kernels->scatter(pass->team, slab + piece->offset,
                                   np_pass_copies(pass) + piece->copy, &piece->slice);
    }
}

static void begin(struct np_pass *pass, const struct np_op_call *call, enum np_pass_kind kind)
{
    pass->call = call;
    pass->program = &call->kind->program;
    pass->kernels = call->kernels;
    pass->team = call->team;
    memset(pass->slab, 0, sizeof pass->slab);
    pass->slab[NP_SLAB_IMAGES] = (float *)call->images; /* read alone, like all inputs */
    pass->slab[NP_SLAB_SAVED] = call->saved;
    pass->slab[NP_SLAB_DELTA] = call->delta;
    pass->slab[NP_SLAB_WORK] = call->work;
    np_layout_make(&pass->layout, call->kind, call->samples, kind);
}

static void gather_weights(const struct np_pass *pass)
{
    if (pass->call->kind->pieces)
        gather_part(pass, pass->call->w);
}

static void begin_back(struct np_pass *pass, const struct np_op_call *call,
                       const struct np_op_backward *io, enum np_pass_kind kind)
{
    begin(pass, call, kind);
    pass->slab[NP_SLAB_X] = (float *)io->x;
    pass->slab[NP_SLAB_MEMORY] = (float *)io->memory;
    pass->slab[NP_SLAB_DY] = (float *)io->dy;
    pass->slab[NP_SLAB_DX] = io->dx;
    pass->slab[NP_SLAB_DMEMORY] = io->dmemory;
    pass->given[NP_VALUE_X] = io->base;
    pass->given[NP_VALUE_MEMORY] = io->memory_base;
    pass->unseen[NP_VALUE_X] = pass->unseen[NP_VALUE_MEMORY] = false;
}

struct np_op_sizes np_op_sizes(const struct np_kind *kind, size_t samples)
{
    struct np_op_sizes sizes = {0, 0, 0};
    struct np_layout layout;
    for (int pass = NP_PASS_FORWARD; pass <= NP_PASS_WEIGHT; pass++) {
        np_layout_make(&layout, kind, samples, (enum np_pass_kind)pass);
        sizes.saved = np_larger(sizes.saved, layout.used[NP_SLAB_SAVED]);
        sizes.delta = np_larger(sizes.delta, layout.used[NP_SLAB_DELTA]);
        sizes.work = np_larger(sizes.work, layout.used[NP_SLAB_WORK]);
    }
    sizes.work += kind->copy_floats;
    return sizes;
}

bool np_op_gives(const struct np_kind *kind, int value)
{
    const struct np_program *program = &kind->program;
    if (np_program_passes_on(program))
        return program->output == value;
    for (int i = 0; i < program->node_count; i++)
        for (int k = 0; k < 2; k++)
            if (program->nodes[i].in[k] == value)
                return true;
    return false;
}

/* y, if no kernel wrote it, or none that looks whether it is finite. */
static bool finish_output(struct np_pass *pass)
{
    int output = pass->program->output;
    const struct np_node_ops *last = NULL;
    bool finite = true;
    if (output < 0)
        return true;
    for (int i = 0; i < pass->program->node_count; i++)
        if (pass->program->nodes[i].out == output)
            last = np_node_ops_of(&pass->program->nodes[i]);
    if (pass->layout.value[output].part != NP_SLAB_Y)
        pass->kernels->copy(pass->team, pass->slab[NP_SLAB_Y], np_pass_value(pass, output),
                            np_pass_floats(pass, output));
    else if (last->silent)
        finite =
            pass->kernels->finite(pass->team, pass->slab[NP_SLAB_Y], np_pass_floats(pass, output));
    np_team_wait(pass->team);
    return finite;
}

static void begin_forward(struct np_pass *pass, const struct np_op_call *call,
                          const struct np_op_forward *io)
{
    begin(pass, call, NP_PASS_FORWARD);
    pass->slab[NP_SLAB_X] = (float *)io->x;
    pass->slab[NP_SLAB_MEMORY] = (float *)io->memory;
    pass->slab[NP_SLAB_SUM] = (float *)io->sum;
    pass->slab[NP_SLAB_Y] = io->y;
}

bool np_op_forward(const struct np_op_call *call, const struct np_op_forward *io)
{
    struct np_pass pass;
    bool finite = true;
    begin_forward(&pass, call, io);
    gather_weights(&pass);
    for (int i = 0; i < pass.program->node_count; i++) {
        const struct np_node_ops *ops = np_node_ops_of(&pass.program->nodes[i]);
        if (!ops->forward || pass.layout.node[i].done)
            continue;
        finite = ops->forward(&pass, i) && finite;
        np_team_wait(pass.team);
    }
    return finish_output(&pass) && finite;
}

void np_op_recompute(const struct np_op_call *call, const struct np_op_forward *io)
{
    struct np_pass pass;
    bool again[NP_MAX_NODES];
    begin_forward(&pass, call, io);
    if (!np_layout_again(&pass.layout, again))
        return;
    gather_weights(&pass);
    for (int i = 0; i < pass.program->node_count; i++) {
        if (!again[i])
            continue;
        np_node_ops_of(&pass.program->nodes[i])->forward(&pass, i);
        np_team_wait(pass.team);
    }
}

double np_op_recompute_share(const struct np_kind *kind)
{
    struct np_layout layout;
    bool again[NP_MAX_NODES];
    double some = 0, all = 0;
    np_layout_make(&layout, kind, 1, NP_PASS_FORWARD);
    np_layout_again(&layout, again);
    for (int i = 0; i < kind->program.node_count; i++) {
        int tail = layout.node[i].tail;
        all += np_node_flops(kind, i).forward;
        if (again[i])
            some += np_node_flops(kind, i).forward;
        if (again[i] && tail != NP_NOWHERE)
            some += np_node_flops(kind, tail).forward;
    }
    return all > 0 ? some / all : 0;
}

/* What comes into a node in B is what its activation wrote; its kernel wants what went in. */
static bool pass_activation(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    const struct np_layout_node *lay = &pass->layout.node[i];
    bool finite;
    if (node->op == NP_NODE_ACT || !np_node_ops_of(node)->slopes || node->act == NP_ACT_NONE ||
        lay->sloped)
        return true;
    finite = pass->kernels->act_grad(
        pass->team, node->act, np_pass_part(pass, lay->inner), NULL, np_pass_slope(pass, i),
        np_pass_part(pass, pass->layout.gradient[node->out]), np_pass_floats(pass, node->out));
    np_team_wait(pass->team);
    return finite;
}

/* Gives in[k] the gradient that came in. What x or memory gets first is not copied yet. */
static bool hand_on(struct np_pass *pass, int i, int k)
{
    const struct np_gift *gift = &pass->layout.node[i].gift[k];
    const float *dy = np_pass_dy(pass, i);
    struct np_sink sink;
    bool finite = true;
    if (!np_pass_sink(pass, &sink, i, k))
        return true;
    if (sink.base)
        finite =
            pass->kernels->add(pass->team, NP_ACT_NONE, sink.to, NULL, sink.base, dy, sink.count);
    if (gift->value < NP_VALUE_OWN)
        pass->given[gift->value] = sink.base ? sink.to : dy;
    return finite;
}

static bool node_backward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    const struct np_node_ops *ops = np_node_ops_of(node);
    bool finite;
    if (node->out >= 0 && pass->layout.node[i].inner == NP_NOWHERE)
        return true;
    finite = pass_activation(pass, i);
    for (int k = 0; ops->passes_on && k < 2; k++)
        finite = hand_on(pass, i, k) && finite;
    if (ops->backward)
        finite = ops->backward(pass, i) && finite;
    np_team_wait(pass->team);
    for (int k = 0; ops->backward && k < 2; k++) {
        int v = pass->layout.node[i].gift[k].value;
        if (v != NP_VALUE_X && v != NP_VALUE_MEMORY)
            continue;
        pass->unseen[v] = ops->silent && !pass->given[v];
        pass->given[v] = pass->slab[NP_SLAB_DX + v];
    }
    return finite;
}

/* x or memory, whose gradient may still be one that it shares; or the caller's, where nodes gave to
 * slices. */
static bool finish_input(struct np_pass *pass, int value)
{
    float *to = pass->slab[NP_SLAB_DX + value];
    size_t count = pass->program->values[value].channels ? np_pass_floats(pass, value) : 0;
    if (!to || !np_op_gives(pass->call->kind, value))
        return true;
    if (pass->layout.gradient[value] != NP_SLAB_DX + value)
        pass->kernels->copy(pass->team, to, pass->given[value], count);
    return !pass->unseen[value] || pass->kernels->finite(pass->team, to, count);
}

/* A layer without nodes: the gradient of y is that of what it passes on. */
static bool pass_back(struct np_pass *pass)
{
    int value = pass->program->output;
    float *to = value == NP_VALUE_X ? pass->slab[NP_SLAB_DX] : NULL;
    const float *dy = pass->slab[NP_SLAB_DY], *base = pass->given[NP_VALUE_X];
    bool finite = true;
    if (to && base)
        finite = pass->kernels->add(pass->team, NP_ACT_NONE, to, NULL, base, dy,
                                    np_pass_floats(pass, value));
    else if (to)
        pass->kernels->copy(pass->team, to, dy, np_pass_floats(pass, value));
    np_team_wait(pass->team);
    return finite;
}

bool np_op_backward(const struct np_op_call *call, const struct np_op_backward *io)
{
    struct np_pass pass;
    bool finite = true;
    begin_back(&pass, call, io, NP_PASS_BACKWARD);
    gather_weights(&pass);
    if (np_program_passes_on(pass.program))
        return pass_back(&pass);
    for (int i = pass.program->node_count - 1; i >= 0; i--)
        finite = node_backward(&pass, i) && finite;
    finite = finish_input(&pass, NP_VALUE_X) && finite;
    finite = finish_input(&pass, NP_VALUE_MEMORY) && finite;
    np_team_wait(pass.team);
    return finite;
}

/* The gradients that no kernel looked at. */
static bool look_at_tensors(struct np_pass *pass, int i, float *g)
{
    const struct np_node *node = np_pass_node(pass, i);
    unsigned unseen = np_node_ops_of(node)->unseen_tensors;
    bool product = node->op == NP_NODE_CONV || node->op == NP_NODE_DWCONV, finite = true;
    if (node->tensor < 0)
        return true;
    for (int k = 0; unseen >> k; k++)
        if (unseen >> k & 1 && (node->bias || !product))
            finite = pass->kernels->finite(pass->team, np_pass_gradient(pass, g, i, k),
                                           pass->call->kind->tensors[node->tensor + k].count) &&
                     finite;
    return finite;
}

static bool differentiate(struct np_pass *pass, float *g, bool accumulate)
{
    bool finite = true;
    for (int i = 0; i < pass->program->node_count; i++) {
        const struct np_node_ops *ops = np_node_ops_of(np_pass_node(pass, i));
        if (ops->weight)
            finite = ops->weight(pass, i, g, accumulate) && finite;
    }
    np_team_wait(pass->team);
    for (int i = 0; i < pass->program->node_count; i++)
        finite = look_at_tensors(pass, i, g) && finite;
    return finite;
}

/* A part's gradient goes on from what is there of its whole's, and back there; +0 else. */
static bool differentiate_part(struct np_pass *pass, float *g, bool accumulate)
{
    bool finite;
    if (accumulate) {
        gather_part(pass, g);
    } else {
        pass->kernels->fill(pass->team, g, pass->call->kind->whole->floats, 0.0f);
        np_team_wait(pass->team);
    }
    finite = differentiate(pass, g, accumulate);
    np_team_wait(pass->team);
    scatter_part(pass, g);
    return finite;
}

bool np_op_weight(const struct np_op_call *call, float *g, const struct np_op_backward *io,
                  bool accumulate)
{
    struct np_pass pass;
    bool finite;
    begin_back(&pass, call, io, NP_PASS_WEIGHT);
    finite = call->kind->pieces ? differentiate_part(&pass, g, accumulate)
                                : differentiate(&pass, g, accumulate);
    np_team_wait(call->team);
    return finite;
}

void np_op_grain_losses(const struct np_op_call *call, float *grain_loss)
{
    call->kernels->rowsum(call->team, grain_loss, call->loss, call->samples / call->grain,
                          call->grain * call->kind->length);
}
