#include "space/supernet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/parts.h"
#include "space/shapes.h"
#include "space/widths.h"

/* Open addressing from layer spec and surroundings to kind, while a supernet is built. */
struct kind_table {
    struct np_supernet *net;
    size_t kind_capacity;
    uint32_t *slots; /* kind + 1, 0 free */
    size_t slot_count;
    enum np_padded *padded; /* [positions]: what stands for filled positions in their values */
};

#define NP_MAX_KINDS UINT16_MAX

static const struct np_shape no_shape;

/* The slot that holds the kind, or the free one where it belongs. */
static uint32_t *find_slot(const struct kind_table *table, const struct np_kind *kind)
{
    size_t i = np_kind_hash(kind) & (table->slot_count - 1);
    while (table->slots[i] && !np_kind_equal(&table->net->kinds[table->slots[i] - 1], kind))
        i = (i + 1) & (table->slot_count - 1);
    return &table->slots[i];
}

static enum np_status grow_slots(struct kind_table *table, struct np_error *err)
{
    uint32_t *old = table->slots;
    size_t wanted = table->slot_count ? 2 * table->slot_count : 256;
    enum np_status status = np_zalloc(&table->slots, wanted, sizeof *table->slots, err);
    if (status != NP_OK) {
        table->slots = old;
        return status;
    }
    table->slot_count = wanted;
    for (int i = 0; i < table->net->kind_count; i++)
        *find_slot(table, &table->net->kinds[i]) = (uint32_t)i + 1;
    free(old);
    return NP_OK;
}

static enum np_status add_kind(struct kind_table *table, const struct np_kind *kind,
                               struct np_error *err)
{
    struct np_supernet *net = table->net;
    enum np_status status;
    if (net->kind_count == NP_MAX_KINDS)
        return np_fail(err, NP_EINPUT, "%s: more than %d different layers",
                       np_text_safe(net->recipe->path).s, NP_MAX_KINDS);
    NP_TRY(np_grow(&net->kinds, &table->kind_capacity, (size_t)net->kind_count, sizeof *net->kinds,
                   err));
    struct np_kind *added = &net->kinds[net->kind_count];
    *added = *kind;
    NP_TRY(np_kind_build(added, net->recipe->path, err));
    net->kind_count++;
    if (added->part_of)
        NP_TRY(np_part_join(added, &net->kinds[added->part_of - 1], err));
out:
    return status;
}

static enum np_status find_kind(struct kind_table *table, const struct np_kind *kind,
                                uint16_t *index, struct np_error *err)
{
    enum np_status status = NP_OK;
    uint32_t *slot;
    if (2 * (size_t)table->net->kind_count >= table->slot_count)
        NP_TRY(grow_slots(table, err));
    slot = find_slot(table, kind);
    if (!*slot) {
        NP_TRY(add_kind(table, kind, err));
        *slot = (uint32_t)table->net->kind_count;
    }
    *index = (uint16_t)(*slot - 1);
out:
    return status;
}

/* The block that makes a position's value; NULL: the stem. */
static const struct np_block *made_by(const struct np_recipe *recipe, int position)
{
    return position > 0 ? &recipe->blocks[position - 1] : NULL;
}

/* Whether their candidates read as many channels, as far as blocks before them decide. */
static bool same_widths(const struct np_recipe *recipe, const struct np_block *p,
                        const struct np_block *q)
{
    const struct np_block *a = made_by(recipe, p->from), *b = made_by(recipe, q->from);
    if (!p->widths)
        return true;
    return p->tie_widths == q->tie_widths && a && b && a->choices == b->choices &&
           np_widths_tied(a, p) == np_widths_tied(b, q);
}

/* Whether two blocks give their candidates equal surroundings. */
static bool same_place(const struct kind_table *table, int a, int b)
{
    const struct np_supernet *net = table->net;
    const struct np_block *p = &net->recipe->blocks[a], *q = &net->recipe->blocks[b];
    return p->choices == q->choices && p->stride == q->stride && p->memory == q->memory &&
           p->entangled == q->entangled && same_widths(net->recipe, p, q) &&
           (p->sum < 0) == (q->sum < 0) && table->padded[p->from] == table->padded[q->from] &&
           np_shape_equal(net->shapes[p->from], net->shapes[q->from]) &&
           np_shape_equal(net->shapes[a + 1], net->shapes[b + 1]);
}

/* The kinds of a block's candidates: those with layers of their own, then parts of these. */
static enum np_status add_candidates(struct kind_table *table, int block,
                                     const struct np_setting *setting, struct np_error *err)
{
    struct np_supernet *net = table->net;
    const struct np_block *now = &net->recipe->blocks[block];
    const uint32_t *whole = net->layer_whole + net->layer_first[block + 1];
    uint16_t *kinds = net->layer_kind + net->layer_first[block + 1];
    enum np_status status = NP_OK;
    struct np_kind kind;
    for (int parts = 0; parts < 2; parts++)
        for (int i = 0; i < now->count; i++) {
            uint32_t of = whole[i] - net->layer_first[block + 1];
            if ((of != (uint32_t)i) != parts)
                continue;
            np_kind_set_candidate(&kind, net->recipe, now, i, setting);
            kind.part_of = parts ? kinds[of] + 1 : 0;
            NP_TRY(find_kind(table, &kind, &kinds[i], err));
        }
out:
    return status;
}

/* Which candidates have a part of others' weights. */
static enum np_status find_wholes(struct np_supernet *net, int block,
                                  const struct np_setting *setting, struct np_error *err)
{
    const struct np_block *now = &net->recipe->blocks[block];
    uint32_t first = net->layer_first[block + 1];
    struct np_family family;
    enum np_status status = np_family_init(&family, net->recipe, now, setting, err);
    for (int i = 0; status == NP_OK && i < now->count; i++)
        net->layer_whole[first + (uint32_t)i] = first + (uint32_t)family.whole[i];
    np_family_clear(&family);
    return status;
}

/* Blocks of one `repeat` share their choices, and mostly their kinds. */
static enum np_status add_block(struct kind_table *table, int block, struct np_error *err)
{
    struct np_supernet *net = table->net;
    const struct np_block *now = &net->recipe->blocks[block];
    const struct np_setting setting = {
        .in = net->shapes[now->from],
        .memory = now->memory < 0 ? no_shape : net->shapes[now->memory],
        .out = net->shapes[block + 1],
        .stride = now->stride,
        .summed = now->sum >= 0,
        .x = made_by(net->recipe, now->from),
        .in_padded = table->padded[now->from],
        .memory_padded = now->memory < 0 ? NP_PADDED_NONE : table->padded[now->memory]};
    enum np_status status = NP_OK;
    uint32_t first = net->layer_first[block + 1], count = (uint32_t)now->count;
    if (block > 0 && same_place(table, block - 1, block)) {
        for (uint32_t l = first; l < first + count; l++) {
            net->layer_kind[l] = net->layer_kind[l - count];
            net->layer_whole[l] = net->layer_whole[l - count] + count;
        }
        return NP_OK;
    }
    if (now->entangled)
        NP_TRY(find_wholes(net, block, &setting, err));
    NP_TRY(add_candidates(table, block, &setting, err));
out:
    return status;
}

static enum np_status add_ends(struct kind_table *table, struct np_error *err)
{
    struct np_supernet *net = table->net;
    struct np_setting setting = {.out = net->shapes[0]};
    enum np_status status;
    struct np_kind kind;
    np_kind_set(&kind, net->recipe, &net->recipe->stem, &setting);
    NP_TRY(find_kind(table, &kind, &net->layer_kind[0], err));
    setting.in = net->shapes[net->positions - 2];
    setting.out = net->shapes[net->positions - 1];
    np_kind_set(&kind, net->recipe, &net->recipe->head, &setting);
    NP_TRY(find_kind(table, &kind, &net->layer_kind[net->layers - 1], err));
out:
    return status;
}

/* Digits of the largest of `count` numbers from 0, at least two. */
static int digits_of(int count)
{
    int digits = 2;
    for (int power = 100; power < count; power *= 10)
        digits++;
    return digits;
}

static enum np_status number_layers(struct np_supernet *net, struct np_error *err)
{
    const struct np_recipe *recipe = net->recipe;
    enum np_status status;
    uint32_t layer = 1;
    int most = 0;
    net->positions = recipe->block_count + 2;
    NP_TRY(np_zalloc(&net->layer_first, (size_t)net->positions + 1, sizeof *net->layer_first, err));
    for (int i = 0; i < recipe->block_count; i++) {
        net->layer_first[i + 1] = layer;
        layer += (uint32_t)recipe->blocks[i].count;
        most = recipe->blocks[i].count > most ? recipe->blocks[i].count : most;
    }
    net->layer_first[net->positions - 1] = layer++;
    net->layer_first[net->positions] = layer;
    net->layers = layer;
    net->block_digits = digits_of(recipe->block_count);
    net->choice_digits = digits_of(most);
    NP_TRY(np_zalloc(&net->layer_kind, layer, sizeof *net->layer_kind, err));
    NP_TRY(np_alloc(&net->layer_whole, layer, sizeof *net->layer_whole, err));
    for (uint32_t l = 0; l < layer; l++)
        net->layer_whole[l] = l;
out:
    return status;
}

static enum np_status find_shapes(struct np_supernet *net, struct np_error *err)
{
    const struct np_recipe *recipe = net->recipe;
    enum np_status status;
    NP_TRY(np_zalloc(&net->shapes, (size_t)net->positions, sizeof *net->shapes, err));
    net->shapes[0] = np_shape_of_stem(recipe);
    for (int i = 0; i < recipe->block_count; i++)
        net->shapes[i + 1] =
            np_shape_of_block(recipe, &recipe->blocks[i], net->shapes[recipe->blocks[i].from]);
    net->shapes[net->positions - 1] = (struct np_shape){1, recipe->length, 1};
out:
    return status;
}

/* A value's positions are those of what its block reads, but where the target begins. */
static enum np_status find_padded(struct kind_table *table, struct np_error *err)
{
    const struct np_recipe *recipe = table->net->recipe;
    size_t positions = (size_t)table->net->positions;
    enum np_status status = np_zalloc(&table->padded, positions, sizeof *table->padded, err);
    if (status != NP_OK || !recipe->masked)
        return status;
    table->padded[0] = NP_PADDED_SOURCE;
    for (int i = 0; i < recipe->block_count; i++) {
        const struct np_block *block = &recipe->blocks[i];
        bool begins = block->choices[0].op == NP_OP_EMBEDDING;
        table->padded[i + 1] = begins ? NP_PADDED_TARGET : table->padded[block->from];
    }
    return NP_OK;
}

/* The values that a position reads, as x, memory, sum; -1 none. */
static void values_read(const struct np_supernet *net, int position, int values[3])
{
    const struct np_block *block = &net->recipe->blocks[position - 1];
    bool head = position == net->positions - 1;
    values[NP_VALUE_X] = head ? position - 1 : block->from;
    values[NP_VALUE_MEMORY] = head ? -1 : block->memory;
    values[NP_VALUE_SUM] = head ? -1 : block->sum;
}

/* Counts the readers of each value, and enters them where `next` says that they go. */
static void list_readers(struct np_supernet *net, int *next)
{
    for (int p = 1; p < net->positions; p++) {
        int values[3];
        values_read(net, p, values);
        for (int i = 0; i < 3; i++)
            if (values[i] >= 0 && next)
                net->readers[next[values[i]]++] = (struct np_reader){p, i};
            else if (values[i] >= 0)
                net->reader_first[values[i] + 1]++;
    }
}

static enum np_status find_readers(struct np_supernet *net, struct np_error *err)
{
    size_t positions = (size_t)net->positions;
    enum np_status status;
    int *next = NULL;
    NP_TRY(np_zalloc(&net->reader_first, positions + 1, sizeof *net->reader_first, err));
    list_readers(net, NULL);
    for (size_t i = 0; i < positions; i++)
        net->reader_first[i + 1] += net->reader_first[i];
    NP_TRY(
        np_zalloc(&net->readers, (size_t)net->reader_first[positions], sizeof *net->readers, err));
    NP_TRY(np_alloc(&next, positions, sizeof *next, err));
    memcpy(next, net->reader_first, positions * sizeof *next);
    list_readers(net, next);
out:
    free(next);
    return status;
}

static int moment_slabs(const struct np_optimizer *optimizer)
{
    if (optimizer->kind == NP_ADAMW)
        return 2;
    return (float)optimizer->momentum > 0.0f ? 1 : 0;
}

enum np_status np_supernet_init(struct np_supernet *net, const struct np_recipe *recipe,
                                struct np_error *err)
{
    struct kind_table table = {.net = net};
    enum np_status status;
    memset(net, 0, sizeof *net);
    net->recipe = recipe;
    net->moments = moment_slabs(&recipe->optimizer);
    NP_TRY(number_layers(net, err));
    NP_TRY(find_shapes(net, err));
    NP_TRY(find_readers(net, err));
    NP_TRY(find_padded(&table, err));
    NP_TRY(add_ends(&table, err));
    for (int i = 0; i < recipe->block_count; i++)
        NP_TRY(add_block(&table, i, err));
    for (int k = 0; k < net->kind_count; k++) { /* which lie where they will stay */
        struct np_kind *kind = &net->kinds[k];
        kind->whole = kind->part_of ? &net->kinds[kind->part_of - 1] : NULL;
        net->whole_batch = net->whole_batch || kind->norm_floats > 0;
    }
out:
    free(table.slots);
    free(table.padded);
    if (status != NP_OK)
        np_supernet_clear(net);
    return status;
}

void np_supernet_clear(struct np_supernet *net)
{
    if (!net)
        return;
    for (int k = 0; k < net->kind_count; k++)
        np_kind_clear(&net->kinds[k]);
    free(net->layer_first);
    free(net->layer_kind);
    free(net->layer_whole);
    free(net->shapes);
    free(net->reader_first);
    free(net->readers);
    free(net->kinds);
    memset(net, 0, sizeof *net);
}

bool np_supernet_is_shared(const struct np_supernet *net, uint32_t layer)
{
    return np_supernet_is_end(net, np_supernet_position(net, layer)) &&
           !net->recipe->shared_frozen && np_supernet_kind(net, layer)->floats > 0;
}

int np_supernet_old_count(const struct np_supernet *net, uint32_t layer)
{
    return np_supernet_is_shared(net, layer) ? net->recipe->delay - 1 : 0;
}

int np_supernet_position(const struct np_supernet *net, uint32_t layer)
{
    int low = 0, high = net->positions;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (net->layer_first[middle] <= layer)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Appends a word and a number of so many digits. */
static char *put(char *out, const char *word, int number, int digits)
{
    out = stpcpy(out, word);
    for (int i = digits - 1; i >= 0; i--, number /= 10)
        out[i] = (char)('0' + number % 10);
    out[digits] = '\0';
    return out + digits;
}

static void block_layer_name(const struct np_supernet *net, int block, int choice, char *out)
{
    out = put(out, "block", block, net->block_digits);
    put(out, ".choice", choice, net->choice_digits);
}

void np_supernet_layer_name(const struct np_supernet *net, uint32_t layer, char *out)
{
    int position = np_supernet_position(net, layer);
    if (position == 0)
        strcpy(out, "stem");
    else if (position == net->positions - 1)
        strcpy(out, "head");
    else
        block_layer_name(net, position - 1, (int)(layer - net->layer_first[position]), out);
}

bool np_supernet_find(const struct np_supernet *net, const char *name, uint32_t *layer)
{
    char exact[NP_LAYER_NAME];
    int block, choice;
    if (strcmp(name, "stem") == 0 || strcmp(name, "head") == 0) {
        *layer = name[0] == 's' ? 0 : net->layers - 1;
        return true;
    }
    if (strlen(name) >= sizeof exact || sscanf(name, "block%6d.choice%6d", &block, &choice) != 2)
        return false;
    if (block < 0 || block >= net->recipe->block_count || choice < 0 ||
        choice >= net->recipe->blocks[block].count)
        return false;
    block_layer_name(net, block, choice, exact);
    if (strcmp(name, exact) != 0) /* signs, blanks and other numbers of digits are no names */
        return false;
    *layer = net->layer_first[block + 1] + (uint32_t)choice;
    return true;
}
