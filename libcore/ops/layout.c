#include "ops/layout.h"

#include <assert.h>

#include "ops/node.h"

int np_layout_part(struct np_layout *layout, enum np_slab slab, size_t count, int begin, int end)
{
    struct np_part *part = &layout->parts[layout->part_count];
    if (count == 0)
        return NP_NOWHERE;
    assert(layout->part_count < NP_MAX_PARTS);
    *part = (struct np_part){.slab = slab, .count = np_lines(count), .begin = begin, .end = end};
    if (slab != NP_SLAB_WORK) {
        part->offset = layout->used[slab];
        layout->used[slab] += part->count;
    }
    return layout->part_count++;
}

int np_layout_readers(const struct np_layout *layout, int value, int from, int to)
{
    int count = 0;
    for (int i = from; i < to; i++)
        for (int k = 0; k < 2; k++) {
            int in = layout->program->nodes[i].in[k];
            count += in >= 0 && layout->origin[in] == value;
        }
    return count;
}

static bool collide(const struct np_part *a, const struct np_part *b)
{
    return a->begin <= b->end && b->begin <= a->end && a->offset < b->offset + b->count &&
           b->offset < a->offset + a->count;
}

/* Puts the parts of work from `first` on where there is room, lowest first. */
static void place_work(struct np_layout *layout, int first)
{
    for (int p = first; p < layout->part_count; p++) {
        struct np_part *part = &layout->parts[p];
        if (part->slab != NP_SLAB_WORK)
            continue;
        for (int q = first; q < p; q++) {
            const struct np_part *other = &layout->parts[q];
            if (other->slab == NP_SLAB_WORK && collide(part, other)) {
                part->offset = other->offset + other->count;
                q = first - 1;
            }
        }
        if (part->offset + part->count > layout->used[NP_SLAB_WORK])
            layout->used[NP_SLAB_WORK] = part->offset + part->count;
    }
}

/* Parts of nodes that live through their own step of this pass. */
static void lay_weight_scratch(struct np_layout *layout)
{
    for (int i = 0; i < layout->program->node_count; i++) {
        const struct np_node *node = &layout->program->nodes[i];
        struct np_node_parts parts = {0};
        if (np_node_ops_of(node)->parts)
            np_node_ops_of(node)->parts(&parts, layout->program, node, layout->samples);
        layout->node[i].scratch = np_layout_part(layout, NP_SLAB_WORK, parts.weight, i, i);
    }
}

static void begin(struct np_layout *layout, const struct np_kind *kind, size_t samples,
                  enum np_pass_kind pass)
{
    const struct np_program *program = &kind->program;
    assert(program->node_count <= NP_MAX_NODES && program->value_count <= NP_MAX_VALUES);
    layout->program = program;
    layout->pass = pass;
    layout->samples = samples;
    for (int slab = 0; slab < NP_SLABS; slab++)
        layout->used[slab] = 0;
    layout->part_count = NP_PARTS_OUTSIDE;
    for (int p = 0; p < NP_PARTS_OUTSIDE; p++)
        layout->parts[p] = (struct np_part){.slab = (enum np_slab)p};
    for (int v = 0; v < program->value_count; v++) {
        layout->value[v] = (struct np_view){NP_NOWHERE, 0, (size_t)program->values[v].channels};
        layout->gradient[v] = NP_NOWHERE;
        layout->origin[v] = v;
        layout->readers[v] = 0;
    }
    for (int i = 0; i < program->node_count; i++)
        layout->node[i] = (struct np_layout_node){
            .tail = NP_NOWHERE, .through = NP_NOWHERE, .inner = NP_NOWHERE, .delta = NP_NOWHERE};
}

void np_layout_make(struct np_layout *layout, const struct np_kind *kind, size_t samples,
                    enum np_pass_kind pass)
{
    int first;
    begin(layout, kind, samples, pass);
    first = layout->part_count;
    np_layout_values(layout);
    if (pass != NP_PASS_FORWARD) {
        first = layout->part_count;
        np_layout_gradients(layout);
    }
    if (pass == NP_PASS_WEIGHT) {
        first = layout->part_count;
        lay_weight_scratch(layout);
    }
    place_work(layout, first);
}
