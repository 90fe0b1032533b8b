#include "space/breed.h"

#include "num/philox.h"

enum gene { CANDIDATE, WIDTH, DEPTH, FAMILY };

struct child {
    const struct np_breed *breed;
    uint32_t number;
    const uint16_t *parents[2]; /* the same twice: a mutant; NULL: there are none */
    bool mutant;
};

/* Draw number `element` for a gene, or for the family, of which `block` is 0. */
static struct np_philox draw(const struct child *c, enum gene gene, int block, uint64_t element)
{
    struct np_draw_key key =
        np_draw_key(c->breed->seed, NP_DRAW_SEARCH, c->number, (uint32_t)block, (uint32_t)gene);
    return np_draw(key, c->breed->round, element);
}

static int draw_below(const struct child *c, enum gene gene, int block, int bound)
{
    return (int)np_philox_below(draw(c, gene, block, 0), (uint64_t)bound);
}

/* Who has the gene: 0 or 1, -1 if it is drawn. */
static int source(const struct child *c, enum gene gene, int block)
{
    uint32_t word = draw(c, gene, block, 1).w[0];
    if (!c->parents[0])
        return -1;
    if (c->mutant)
        return (double)word * 0x1p-32 < c->breed->mutation ? -1 : 0;
    return word >> 31;
}

static int width_of(const struct child *c, const struct np_stream_block *b)
{
    int from = source(c, WIDTH, b->width_drawn);
    if (from < 0)
        return draw_below(c, WIDTH, b->width_drawn, b->widths);
    return c->parents[from][b->width_drawn] /
           np_stream_each(&c->breed->shape->each[b->width_drawn]);
}

static bool is_passed(const struct child *c, int block)
{
    const struct np_stream_block *b = &c->breed->shape->each[block];
    int from = source(c, DEPTH, b->depth_drawn);
    if (from < 0)
        return draw_below(c, DEPTH, b->depth_drawn, b->depths) < b->level;
    return np_stream_passes(b, c->parents[from][block]);
}

/* One of those of a width. */
static int candidate_of(const struct child *c, const struct np_stream_block *b)
{
    const struct np_stream_block *first = &c->breed->shape->each[b->drawn];
    int each = np_stream_each(b), from = source(c, CANDIDATE, b->drawn);
    for (int i = 0; from >= 0 && i < 2; i++, from = 1 - from)
        if (!np_stream_passes(first, c->parents[from][b->drawn]))
            return c->parents[from][b->drawn] % each;
    return draw_below(c, CANDIDATE, b->drawn, each - (b->level > 0));
}

static struct child child_of(const struct np_breed *breed, uint32_t number)
{
    struct child c = {.breed = breed, .number = number};
    size_t blocks = (size_t)breed->shape->blocks;
    if (breed->count == 0)
        return c;
    c.mutant = draw(&c, FAMILY, 0, 0).w[0] >> 31;
    for (uint64_t i = 0; i < 2; i++)
        c.parents[i] =
            breed->parents + blocks * np_philox_below(draw(&c, FAMILY, 0, 1 + i), breed->count);
    if (c.mutant)
        c.parents[1] = c.parents[0];
    return c;
}

void np_breed_child(uint16_t *choices, const struct np_breed *breed, uint32_t number)
{
    const struct child c = child_of(breed, number);
    for (int block = 0; block < breed->shape->blocks; block++) {
        const struct np_stream_block *b = &breed->shape->each[block];
        int each = np_stream_each(b), width = b->widths ? width_of(&c, b) : 0;
        bool passed = b->level > 0 && is_passed(&c, block);
        choices[block] = (uint16_t)(width * each + (passed ? each - 1 : candidate_of(&c, b)));
    }
}
