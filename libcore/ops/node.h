/* The inside of the layer operators: one pass over a program, and what each kind of node does in
 * it.
 *
 * op.c walks over the nodes and waits after each one; np_node_ops_of says what a node computes and
 * what the memory plan (ops/layout.h) must know of it. Private to ops/.
 *
 * Errors    a node's function returns false if this member saw a value that is not finite; a node
 *           that is `silent` does not look, and op.c does where it matters.
 * Threads   functions are called by every member, and wait between kernels of their own alone.
 */
#ifndef NP_OPS_NODE_H
#define NP_OPS_NODE_H

#include "base/memory.h"
#include "ops/layout.h"

struct np_pass {
    const struct np_op_call *call;
    const struct np_program *program;
    const struct np_kernels *kernels;
    struct np_team *team;
    float *slab[NP_SLABS]; /* NULL: absent */
    /* B: the gradients of x and of memory up to now, NULL: none yet; and whether nobody has looked
     * if they are finite. */
    const float *given[2];
    bool unseen[2];
    struct np_layout layout;
};

/* Floats of the parts that a node has for itself: see struct np_layout_node. */
struct np_node_parts {
    size_t saved, delta, forward, backward, weight;
};

enum { NP_IN0 = 1, NP_IN1 = 2 };

struct np_node_ops {
    bool (*forward)(struct np_pass *pass, int node);  /* NULL: nothing to compute */
    bool (*backward)(struct np_pass *pass, int node); /* NULL: nothing, or `passes_on` */
    bool (*weight)(struct np_pass *pass, int node, float *g,
                   bool accumulate); /* NULL: no tensors */
    void (*parts)(struct np_node_parts *parts, const struct np_program *program,
                  const struct np_node *node, size_t samples); /* NULL: none */
    unsigned gives;                                            /* inputs that get a gradient */
    unsigned reads;                                            /* inputs that B or W reads */
    bool takes_tail;         /* F: its kernel can add a residual, and apply an activation */
    unsigned in_place;       /* F: inputs that the output may overwrite */
    unsigned takes_base;     /* inputs: B adds to a base within its kernel, in place if need be */
    bool slopes;             /* has an activation that B knows the slope of */
    bool reads_dy;           /* W reads the gradient of the output, */
    bool reads_gift;         /* that of in[0] */
    bool over_dy;            /* B may write over the gradient that it reads, */
    bool over_input;         /* over in[0], and nobody reads that in W */
    bool passes_on;          /* what comes in (past the activation) is what B gives */
    bool changes_input;      /* F writes to in[0] what B and W read there */
    bool silent;             /* F and B do not tell what is not finite */
    unsigned unseen_tensors; /* nor does W of these */
};

extern const struct np_node_ops np_node_conv, np_node_dwconv, np_node_light, np_node_layer_norm,
    np_node_rms_norm, np_node_batch_norm, np_node_group_norm, np_node_rotate, np_node_repeat,
    np_node_attention, np_node_max_pool, np_node_avg_pool, np_node_global_pool,
    np_node_channel_scale, np_node_act, np_node_glu, np_node_add, np_node_slice, np_node_cut,
    np_node_widen, np_node_merge, np_node_drop, np_node_zero, np_node_positions, np_node_image,
    np_node_embed, np_node_xent;

const struct np_node_ops *np_node_ops_of(const struct np_node *node);

/* True if the slope of a node's activation is taken at its output, which gives the same bits and
 * leaves nothing else to keep: relus. */
static inline bool np_node_slopes_at_output(const struct np_program *program,
                                            const struct np_node *node)
{
    bool relu = node->act == NP_ACT_RELU || node->act == NP_ACT_RELU6;
    bool outside = node->op == NP_NODE_ACT && node->in[0] < NP_VALUE_OWN;
    return relu && !outside && node->out != program->output;
}

static inline const struct np_node *np_pass_node(const struct np_pass *pass, int node)
{
    return &pass->program->nodes[node];
}

/* NULL if there is no such part. */
static inline float *np_pass_part(const struct np_pass *pass, int part)
{
    const struct np_part *p = &pass->layout.parts[part < 0 ? 0 : part];
    return part < 0 || !pass->slab[p->slab] ? NULL : pass->slab[p->slab] + p->offset;
}

static inline float *np_pass_value(const struct np_pass *pass, int value)
{
    const struct np_view *view = &pass->layout.value[value];
    float *part = np_pass_part(pass, view->part);
    return part ? part + view->shift : NULL;
}

static inline size_t np_pass_ld(const struct np_pass *pass, int value)
{
    return pass->layout.value[value].ld;
}

static inline struct np_shape np_pass_shape(const struct np_pass *pass, int value)
{
    return pass->program->values[value];
}

static inline size_t np_pass_channels(const struct np_pass *pass, int value)
{
    return (size_t)pass->program->values[value].channels;
}

/* Rows of a sample, and of the micro-batch. */
static inline size_t np_pass_positions(const struct np_pass *pass, int value)
{
    return np_shape_rows(pass->program->values[value]);
}

static inline size_t np_pass_rows(const struct np_pass *pass, int value)
{
    return pass->call->samples * np_pass_positions(pass, value);
}

static inline size_t np_pass_floats(const struct np_pass *pass, int value)
{
    return np_layout_floats(&pass->layout, value);
}

/* Where a part copies tensors to, behind what else the pass works with. */
static inline float *np_pass_copies(const struct np_pass *pass)
{
    return pass->call->work + pass->layout.used[NP_SLAB_WORK];
}

/* A tensor of the kind's, in a slab like the layer's or, of a part, its whole's. */
static inline float *np_pass_within(const struct np_pass *pass, float *slab, int tensor)
{
    const struct np_kind *kind = pass->call->kind;
    const struct np_piece *piece = kind->pieces ? &kind->pieces[tensor] : NULL;
    if (!piece)
        return slab + kind->tensors[tensor].offset;
    return piece->ld ? slab + piece->offset : np_pass_copies(pass) + piece->copy;
}

/* The node's tensor number k, and its gradient in g. */
static inline const float *np_pass_tensor(const struct np_pass *pass, int node, int k)
{
    return np_pass_within(pass, (float *)pass->call->w, np_pass_node(pass, node)->tensor + k);
}

static inline float *np_pass_gradient(const struct np_pass *pass, float *g, int node, int k)
{
    return np_pass_within(pass, g, np_pass_node(pass, node)->tensor + k);
}

/* The distance of a product's rows in its weight and the gradient of that. */
static inline size_t np_pass_weight_ld(const struct np_pass *pass, int node)
{
    const struct np_piece *pieces = pass->call->kind->pieces;
    const struct np_node *n = np_pass_node(pass, node);
    size_t ld = pieces ? pieces[n->tensor].ld : 0;
    return ld ? ld : (size_t)pass->program->values[n->out].channels;
}

static inline float *np_pass_saved(const struct np_pass *pass, int node)
{
    return np_pass_part(pass, pass->layout.node[node].saved);
}

static inline float *np_pass_delta(const struct np_pass *pass, int node)
{
    return np_pass_part(pass, pass->layout.node[node].delta);
}

static inline float *np_pass_scratch(const struct np_pass *pass, int node)
{
    return np_pass_part(pass, pass->layout.node[node].scratch);
}

/* B, W: the gradient that comes into a node, past its activation. */
static inline const float *np_pass_dy(const struct np_pass *pass, int node)
{
    return np_pass_part(pass, pass->layout.node[node].inner);
}

/* The last node that a node's kernel does in F: its tail, or itself. */
static inline int np_pass_last(const struct np_pass *pass, int node)
{
    int tail = pass->layout.node[node].tail;
    return tail == NP_NOWHERE ? node : tail;
}

/* What a tail adds; NULL if it does not add. */
static inline const float *np_pass_residual(const struct np_pass *pass, int node)
{
    const struct np_node *last = np_pass_node(pass, np_pass_last(pass, node));
    int other = last->in[last->in[0] == np_pass_node(pass, node)->out];
    return last->op == NP_NODE_ADD && other >= 0 ? np_pass_value(pass, other) : NULL;
}

/* Where F keeps what goes into the activation of a node, NULL if it does not. */
float *np_pass_kept(const struct np_pass *pass, int node);

/* What the slope of a node's activation is taken at. */
const float *np_pass_slope(const struct np_pass *pass, int node);

/* Where B puts what a node gives to in[k]. */
struct np_sink {
    float *to;
    const float *base; /* to = base + it, if not NULL; may be `to` */
    float *temp;       /* for kernels that take no base */
    size_t ld, count;
};

/* False if it is not wanted. */
bool np_pass_sink(const struct np_pass *pass, struct np_sink *sink, int node, int k);

/* For kernels that take no base: where they write, and what follows them. */
static inline float *np_sink_start(const struct np_sink *sink)
{
    return sink->base ? sink->temp : sink->to;
}

bool np_sink_finish(const struct np_pass *pass, const struct np_sink *sink);

/* What a node slides a window over, all but its weights and out; one group. */
struct np_conv np_pass_window(const struct np_pass *pass, int node);

/* The column norm of a node, with its tail. */
bool np_pass_colnorm(struct np_pass *pass, int node, struct np_colnorm *norm);

#endif
