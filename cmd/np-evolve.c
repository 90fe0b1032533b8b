/* np-evolve: the next subnets for an evolutionary search to score. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "cli.h"
#include "run/scores.h"
#include "space/breed.h"
#include "space/subnet_set.h"
#include "space_options.h"

/* How many children are tried: for each that is wanted; and in a row without one that is new, for
 * all, and for each that is known. */
enum { TRIES = 1000, IN_VAIN = 20 * TRIES, AGAIN = 10 };

/* What a subnet takes, by its options' names. */
enum measure { MACS, FLOPS, PARAMETERS, MEASURES };
static const char *const measures[MEASURES] = {"macs", "flops", "parameters"};

struct size {
    double of[MEASURES];
};

enum {
    OPT_SCORES = 0x100,
    OPT_BY,
    OPT_PARETO,
    OPT_POPULATION,
    OPT_PARENTS,
    OPT_MUTATION,
    OPT_MACS, /* and the other measures, in their order */
    OPT_FLOPS,
    OPT_PARAMETERS
};

static const struct argp_option table[] = {
    {"scores", OPT_SCORES, "FILE", 0, "what was scored so far, np-evaluate's lines; - is a pipe",
     0},
    {"by", OPT_BY, "WHAT", 0, "what makes parents: the least loss (default), or accuracy", 0},
    {"pareto", OPT_PARETO, "WHAT", 0,
     "parents are those that no other beats in both the score and macs, flops or parameters", 0},
    {"population", OPT_POPULATION, "N", 0, "subnets to write (20)", 0},
    {"parents", OPT_PARENTS, "N", 0, "how many of the best have children (10)", 0},
    {"mutation", OPT_MUTATION, "P", 0, "how likely a mutant's choice is drawn anew (0.1)", 0},
    {"flops", OPT_FLOPS, "N", 0, "operations of a sample's forward pass that a subnet has at most",
     0},
    {"macs", OPT_MACS, "N", 0, "multiply-adds of a sample's forward pass, at most, such as 600M",
     0},
    {"parameters", OPT_PARAMETERS, "N", 0, "weights that a subnet has at most, such as 5M", 0},
    {"output", 'o', "FILE", 0, "write the subnets to FILE instead of standard output", 0},
    {0}};

struct options {
    struct space_options space;
    const char *scores, *output;
    bool by_accuracy;
    bool pareto;
    enum measure beside; /* the score, if so */
    size_t population, parents;
    double mutation;
    struct size most;
};

static void check(const struct options *o, struct argp_state *state)
{
    const char *const inputs[] = {o->space.path, o->scores};
    if (!o->space.path)
        argp_error(state, "a recipe is needed");
    cli_one_standard(state, inputs, 2);
    cli_apart(state, "output", o->output, inputs, 2);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const by[] = {"loss", "accuracy"};
    struct options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->space;
        return 0;
    case OPT_SCORES:
        o->scores = arg;
        return 0;
    case OPT_BY:
        o->by_accuracy = cli_word(state, "by", arg, by, 2) == 1;
        return 0;
    case OPT_PARETO:
        o->pareto = true;
        o->beside = (enum measure)cli_word(state, "pareto", arg, measures, MEASURES);
        return 0;
    case OPT_POPULATION:
        o->population = (size_t)cli_int(state, "population", arg, 1, 65536);
        return 0;
    case OPT_PARENTS:
        o->parents = (size_t)cli_int(state, "parents", arg, 1, 65536);
        return 0;
    case OPT_MUTATION:
        o->mutation = cli_number(state, "mutation", arg, 0, 1);
        return 0;
    case OPT_MACS:
    case OPT_FLOPS:
    case OPT_PARAMETERS:
        o->most.of[key - OPT_MACS] = cli_amount(state, measures[key - OPT_MACS], arg);
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case ARGP_KEY_END:
        check(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct search {
    const struct options *options;
    struct space space;
    struct size *kind_size; /* [kinds of the supernet] */
    struct np_stream_shape shape;
    struct np_stream_block *each; /* of it */
    struct np_scores scores;
    struct np_subnet_set known; /* what was scored, then the children */
    size_t scored;              /* of them */
    uint16_t *parents;          /* [options->parents][blocks] */
    size_t parent_count;
};

/* --- what a subnet takes ---------------------------------------------------------------------- */

/* As np-partition --estimate counts it. */
static enum np_status measure_kinds(struct search *s, struct np_error *err)
{
    const struct np_supernet *net = &s->space.net;
    enum np_status status;
    NP_TRY(np_alloc(&s->kind_size, (size_t)net->kind_count, sizeof *s->kind_size, err));
    for (int k = 0; k < net->kind_count; k++) {
        const struct np_kind *kind = &net->kinds[k];
        double parameters = (double)(kind->whole ? kind->part_floats : kind->floats);
        s->kind_size[k] =
            (struct size){{np_kind_macs(kind), np_kind_flops(kind).forward, parameters}};
    }
out:
    return status;
}

static struct size size_of(const struct search *s, const uint16_t *choices)
{
    const struct np_supernet *net = &s->space.net;
    struct size sum = {0};
    for (int p = 0; p < net->positions; p++) {
        uint32_t kind = net->layer_kind[np_supernet_chosen(net, choices, p)];
        for (int m = 0; m < MEASURES; m++)
            sum.of[m] += s->kind_size[kind].of[m];
    }
    return sum;
}

static bool is_small(const struct search *s, const uint16_t *choices)
{
    struct size size = size_of(s, choices);
    for (int m = 0; m < MEASURES; m++)
        if (!(size.of[m] <= s->options->most.of[m]))
            return false;
    return true;
}

/* --- parents ---------------------------------------------------------------------------------- */

/* What was scored: less is better, of both. */
struct ranked {
    double score, size; /* size: as far as it counts, else 0 */
    size_t subnet;      /* of those known */
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->subnet < y->subnet ? -1 : 1;
}

static const uint16_t *subnet(const struct search *s, size_t number)
{
    return s->known.choices + number * s->known.blocks;
}

/* What was scored, each subnet once, ranked[scores.count], with its last score. */
static enum np_status find_scored(struct search *s, struct ranked *ranked, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (size_t i = 0; i < s->scores.count; i++) {
        struct np_score score = s->scores.score[i];
        const uint16_t *choices = s->scores.choices + i * s->known.blocks;
        size_t which;
        NP_TRY(np_subnet_set_add(&s->known, &which, choices, err));
        ranked[which] = (struct ranked){
            .score = s->options->by_accuracy ? -score.accuracy : score.loss, .subnet = which};
        if (s->options->pareto)
            ranked[which].size = size_of(s, choices).of[s->options->beside];
    }
    s->scored = s->known.count;
out:
    return status;
}

/* The best first; not those whose score is no number. */
static size_t rank(struct ranked *ranked, size_t all)
{
    size_t count = 0;
    for (size_t i = 0; i < all; i++)
        if (!isnan(ranked[i].score))
            ranked[count++] = ranked[i];
    qsort(ranked, count, sizeof *ranked, compare);
    return count;
}

/* Takes from the list those which no other beats in both, into `front`. */
static size_t take_front(struct ranked *front, struct ranked *ranked, size_t *count)
{
    size_t taken = 0, left = 0;
    double least = HUGE_VAL;
    for (size_t i = 0; i < *count; i++)
        if (ranked[i].size < least) {
            least = ranked[i].size;
            front[taken++] = ranked[i];
        } else {
            ranked[left++] = ranked[i];
        }
    *count = left;
    return taken;
}

/* As many of a front as there is room for, evenly from its ends. */
static void add_parents(struct search *s, const struct ranked *front, size_t count)
{
    size_t blocks = (size_t)s->shape.blocks, room = s->options->parents - s->parent_count;
    for (size_t i = 0; i < count && i < room; i++) {
        size_t which = count <= room ? i : room == 1 ? 0 : i * (count - 1) / (room - 1);
        memcpy(s->parents + s->parent_count++ * blocks, subnet(s, front[which].subnet),
               blocks * sizeof *s->parents);
    }
}

static enum np_status choose_parents(struct search *s, struct np_error *err)
{
    size_t blocks = (size_t)s->shape.blocks, count;
    struct ranked *ranked = NULL, *front = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&s->parents, s->options->parents, blocks * sizeof *s->parents, err));
    NP_TRY(np_alloc(&ranked, s->scores.count, sizeof *ranked, err));
    NP_TRY(np_alloc(&front, s->scores.count, sizeof *front, err));
    NP_TRY(find_scored(s, ranked, err));
    count = rank(ranked, s->scored);
    if (!s->options->pareto) {
        add_parents(s, ranked, count < s->options->parents ? count : s->options->parents);
        count = 0;
    }
    while (count > 0 && s->parent_count < s->options->parents) {
        size_t taken = take_front(front, ranked, &count);
        add_parents(s, front, taken);
    }
out:
    free(ranked);
    free(front);
    return status;
}

/* --- children --------------------------------------------------------------------------------- */

/* As many as are wanted, none of which was scored before; fewer where no others are found. */
static enum np_status breed(struct search *s, struct np_error *err)
{
    const struct options *o = s->options;
    const struct np_breed breed = {.shape = &s->shape,
                                   .parents = s->parents,
                                   .count = s->parent_count,
                                   .mutation = o->mutation,
                                   .seed = s->space.recipe.seed,
                                   .round = s->scores.count};
    size_t most = s->scored + o->population, in_vain = 0, which;
    uint16_t *child = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&child, s->known.blocks, sizeof *child, err));
    for (uint32_t i = 0; i < TRIES * o->population && s->known.count < most; i++) {
        size_t known = s->known.count;
        if (cli_stop_requested)
            NP_TRY(np_fail(err, NP_ESTOP, "stopped on request"));
        np_breed_child(child, &breed, i);
        if (is_small(s, child))
            NP_TRY(np_subnet_set_add(&s->known, &which, child, err));
        in_vain = s->known.count > known ? 0 : in_vain + 1;
        if (in_vain > IN_VAIN + AGAIN * known)
            break;
    }
    if (s->known.count == s->scored)
        NP_TRY(
            np_fail(err, NP_ENO, "no subnet that is within the limits, and not scored, was found"));
out:
    free(child);
    return status;
}

static enum np_status write_children(const struct search *s, struct np_buf *text,
                                     struct np_error *err)
{
    enum np_status status = NP_OK;
    const uint16_t *choice = subnet(s, s->scored);
    size_t count = s->known.count - s->scored;
    for (size_t i = 0; i < count; i++)
        for (int b = 0; b < s->shape.blocks; b++)
            NP_TRY(
                np_buf_printf(text, err, "%d%c", *choice++, b + 1 < s->shape.blocks ? ' ' : '\n'));
    NP_TRY(cli_write(s->options->output, text->text, text->used, err));
    if (count < s->options->population)
        cli_note("%zu of %zu subnets: no others were found", count, s->options->population);
out:
    return status;
}

static void search_clear(struct search *s)
{
    free(s->parents);
    np_subnet_set_clear(&s->known);
    np_scores_clear(&s->scores);
    free(s->each);
    free(s->kind_size);
    space_close(&s->space);
}

int main(int argc, char **argv)
{
    static const struct argp_child children[] = {{&space_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = table,
        .parser = parse,
        .args_doc = "RECIPE",
        .doc = "Write the next subnets that an evolutionary search scores: children of the best "
               "that were scored so far, a line each.",
        .children = children};
    struct options options = {
        .population = 20, .parents = 10, .mutation = 0.1, .most = {{HUGE_VAL, HUGE_VAL, HUGE_VAL}}};
    struct search s = {.options = &options};
    struct np_buf text = {0};
    struct np_error err;
    enum np_status status;
    cli_parse(&argp, argc, argv, &options);
    NP_TRY(space_open(&s.space, &options.space, &err));
    NP_TRY(space_spares(&s.space, "output", options.output, &err));
    NP_TRY(measure_kinds(&s, &err));
    NP_TRY(np_stream_shape_init(&s.shape, &s.each, &s.space.recipe, &err));
    s.known.blocks = (size_t)s.shape.blocks;
    if (options.scores)
        NP_TRY(np_scores_read(&s.scores, options.scores, &s.shape, &err));
    cli_catch_signals(); /* who waits for scores is not kept */
    NP_TRY(choose_parents(&s, &err));
    NP_TRY(breed(&s, &err));
    NP_TRY(write_children(&s, &text, &err));
out:
    if (status == NP_ESTOP)
        cli_note("stopped on request: there are no subnets");
    else if (status != NP_OK)
        cli_error(&err);
    np_buf_clear(&text);
    search_clear(&s);
    return cli_finish(cli_exit_code(status));
}
