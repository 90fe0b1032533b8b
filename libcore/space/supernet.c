#include "space/supernet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/kinds.h"

/* Open addressing from layer spec to kind, while a supernet is built. */
struct kind_table {
    struct np_supernet *net;
    size_t kind_capacity;
    uint32_t *slots; /* kind + 1, 0 free */
    size_t slot_count;
};

#define NP_MAX_KINDS UINT16_MAX

static uint64_t hash_spec(const struct np_layer_spec *spec)
{
    const unsigned char *bytes = (const unsigned char *)spec;
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < sizeof *spec; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash ^ hash >> 32;
}

/* The slot that holds the spec's kind, or the free one where it belongs. */
static uint32_t *find_slot(const struct kind_table *table, const struct np_layer_spec *spec)
{
    size_t i = hash_spec(spec) & (table->slot_count - 1);
    while (table->slots[i] &&
           memcmp(&table->net->kinds[table->slots[i] - 1].spec, spec, sizeof *spec) != 0)
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
        *find_slot(table, &table->net->kinds[i].spec) = (uint32_t)i + 1;
    free(old);
    return NP_OK;
}

static enum np_status add_kind(struct kind_table *table, const struct np_layer_spec *spec,
                               struct np_error *err)
{
    struct np_supernet *net = table->net;
    const struct np_recipe *recipe = net->recipe;
    size_t width = (size_t)recipe->width;
    char name[NP_KIND_NAME];
    struct np_kind *kind;
    enum np_status status;
    if (net->kind_count == NP_MAX_KINDS)
        return np_fail(err, NP_EINPUT, "%s: more than %d different layers",
                       np_text_safe(recipe->path).s, NP_MAX_KINDS);
    NP_TRY(np_grow(&net->kinds, &table->kind_capacity, (size_t)net->kind_count, sizeof *net->kinds,
                   err));
    kind = &net->kinds[net->kind_count];
    if (!np_kind_init(kind, spec, width, (size_t)recipe->length, (size_t)recipe->vocab)) {
        np_kind_name(kind, name);
        NP_TRY(np_fail(err, NP_EINPUT, "%s: a layer %s of width %zu has more than 2^38 weights",
                       np_text_safe(recipe->path).s, name, width));
    }
    net->kind_count++;
out:
    return status;
}

static enum np_status find_kind(struct kind_table *table, const struct np_layer_spec *spec,
                                uint16_t *kind, struct np_error *err)
{
    enum np_status status = NP_OK;
    uint32_t *slot;
    if (2 * (size_t)table->net->kind_count >= table->slot_count)
        NP_TRY(grow_slots(table, err));
    slot = find_slot(table, spec);
    if (!*slot) {
        NP_TRY(add_kind(table, spec, err));
        *slot = (uint32_t)table->net->kind_count;
    }
    *kind = (uint16_t)(*slot - 1);
out:
    return status;
}

/* Blocks of one `repeat` share their choices, and so their kinds. */
static enum np_status add_block(struct kind_table *table, int block, struct np_error *err)
{
    struct np_supernet *net = table->net;
    const struct np_block *now = &net->recipe->blocks[block];
    uint16_t *kinds = net->layer_kind + net->layer_first[block + 1];
    enum np_status status = NP_OK;
    if (block > 0 && now->choices == now[-1].choices) {
        memcpy(kinds, kinds - now->count, (size_t)now->count * sizeof *kinds);
        return NP_OK;
    }
    for (int i = 0; i < now->count; i++)
        NP_TRY(find_kind(table, &now->choices[i], &kinds[i], err));
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
out:
    return status;
}

static int moment_slabs(const struct np_optimizer *optimizer)
{
    if (optimizer->kind == NP_ADAMW)
        return 2;
    return optimizer->momentum > 0.0 ? 1 : 0;
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
    NP_TRY(find_kind(&table, &recipe->stem, &net->layer_kind[0], err));
    for (int i = 0; i < recipe->block_count; i++)
        NP_TRY(add_block(&table, i, err));
    NP_TRY(find_kind(&table, &recipe->head, &net->layer_kind[net->layers - 1], err));
out:
    free(table.slots);
    if (status != NP_OK)
        np_supernet_clear(net);
    return status;
}

void np_supernet_clear(struct np_supernet *net)
{
    if (!net)
        return;
    free(net->layer_first);
    free(net->layer_kind);
    free(net->kinds);
    memset(net, 0, sizeof *net);
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
