/* The memory plan of a layer's pass: where every value, gradient and part of a node lies, and which
 * nodes share a kernel.
 *
 * The plan is made before every call, and for np_op_sizes, by the same function: sizes and pointers
 * cannot disagree. It takes no memory and depends on the kind, the number of samples and the pass
 * alone.
 *
 * What F leaves (values that B or W read, statistics) lies in `saved`, one after the other; so do
 * the gradients that W reads in `delta`. The rest is in `work` for as long as somebody needs it,
 * and its place is used again. A value may lie in the place of one that nobody reads after it is
 * made. Private to ops/.
 *
 * Words     part: a stretch of a slab. Step: the turn of a node in its pass.
 *           gift: what a node gives back, in B, to the gradient of a value that it read.
 * Order     of gradients: space/program.h. The first gift begins the part that a gradient lies in;
 *           the others are added to it in place, unless something else reads the part.
 */
#ifndef NP_OPS_LAYOUT_H
#define NP_OPS_LAYOUT_H

#include "ops/op.h"

enum np_pass_kind { NP_PASS_FORWARD, NP_PASS_BACKWARD, NP_PASS_WEIGHT };

enum np_slab {
    /* the caller's, each one part, numbered like its slab */
    NP_SLAB_X,
    NP_SLAB_MEMORY,
    NP_SLAB_SUM,
    NP_SLAB_IMAGES,
    NP_SLAB_Y,
    NP_SLAB_DY,
    NP_SLAB_DX,
    NP_SLAB_DMEMORY,
    NP_PARTS_OUTSIDE,
    /* what np_op_sizes counts */
    NP_SLAB_SAVED = NP_PARTS_OUTSIDE,
    NP_SLAB_DELTA,
    NP_SLAB_WORK,
    NP_SLABS
};

#define NP_NOWHERE (-1)
#define NP_MAX_PARTS (NP_PARTS_OUTSIDE + 10 * NP_MAX_NODES)

struct np_part {
    enum np_slab slab;
    size_t count, offset; /* floats */
    int begin, end;       /* steps of the pass between which a part of work is in use */
    int holders;          /* how many values' gradient it is, as B goes on */
    bool kept;            /* W reads it */
};

/* A value's rows; those of a slice lie in the rows of what it was cut from. */
struct np_view {
    int part;
    size_t shift, ld;
};

struct np_gift {
    int value;    /* whose gradient gets it; NP_NOWHERE: it is not wanted */
    int to, base; /* parts: to = base + what is given; base NP_NOWHERE: what is given alone */
    int temp;     /* for kernels that take no base, where there is one or the caller may have one */
    bool shared;  /* nothing is computed: the gradient that came in is this one too */
};

struct np_layout_node {
    int tail;                  /* F: the node whose work its kernel does too, NP_NOWHERE: none */
    bool done;                 /* F: it is a tail */
    int through;               /* B: its kernel goes through this node's activation too */
    bool sloped;               /* B: what comes in went through its activation */
    int saved, delta, scratch; /* its own parts; scratch: of this pass */
    int inner;                 /* B, W: the gradient of what its activation reads */
    struct np_gift gift[2];
};

struct np_layout {
    const struct np_program *program;
    enum np_pass_kind pass;
    size_t samples;
    size_t used[NP_SLABS];
    int part_count;
    struct np_part parts[NP_MAX_PARTS];
    struct np_view value[NP_MAX_VALUES];
    int gradient[NP_MAX_VALUES]; /* parts; those of a slice are its origin's */
    int origin[NP_MAX_VALUES];   /* what a slice was cut from; of others, the value itself */
    int readers[NP_MAX_VALUES];
    struct np_layout_node node[NP_MAX_NODES];
};

/* The plan of a pass. used[]: floats of saved, of delta (not F), of work in this pass. */
void np_layout_make(struct np_layout *layout, const struct np_kind *kind, size_t samples,
                    enum np_pass_kind pass);

/* Its halves: values, and (B, W) gradients. */
void np_layout_values(struct np_layout *layout);
void np_layout_gradients(struct np_layout *layout);

/* again[nodes]: of a forward pass, those that leave what B or W reads of saved, and those that lead
 * there; false if there are none. */
bool np_layout_again(const struct np_layout *layout, bool *again);

/* A new part, NP_NOWHERE if it has no floats; in work, from step `begin` to step `end`. */
int np_layout_part(struct np_layout *layout, enum np_slab slab, size_t count, int begin, int end);

/* How many nodes from..to-1 read the value or a slice of it. */
int np_layout_readers(const struct np_layout *layout, int value, int from, int to);

static inline size_t np_layout_floats(const struct np_layout *layout, int value)
{
    return layout->samples * np_shape_floats(layout->program->values[value]);
}

#endif
