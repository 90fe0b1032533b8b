/* Initial weights and updates: near the double reference, equal bits for every team and
 * instruction set, and what is not finite is seen by every member. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "base/memory.h"
#include "ops/weights.h"
#include "reference.h"
#include "suite.h"
#include "team_run.h"

enum { SEED = 11, LAYER = 3, UPDATES = 4 };

/* A layer's table as any kind has it: tensors of odd and of large sizes, decayed or not. */
static struct np_tensor tensors[] = {
    {.name = "norm.gamma", .rank = 1, .shape = {37}, .count = 37, .init = NP_INIT_ONE},
    {.name = "norm.beta",
     .rank = 1,
     .shape = {37},
     .offset = 37,
     .count = 37,
     .init = NP_INIT_ZERO},
    {.name = "conv.weight",
     .rank = 4,
     .shape = {3, 3, 37, 11},
     .offset = 74,
     .count = 3663,
     .init = NP_INIT_NORMAL,
     .std = 0.125f,
     .decay = true},
    {.name = "scale", .rank = 1, .shape = {1}, .offset = 3737, .count = 1, .init = NP_INIT_ONE},
};

static const struct np_kind kind = {.tensors = tensors, .tensor_count = 4, .floats = 3738};

static const struct np_recipe recipes[] = {
    {.optimizer = {NP_ADAMW, 0.01, 0.9, 0.999, 1e-8, 0.1, 0.0, false}},
    {.optimizer = {NP_ADAMW, 0.01, 0.5, 0.75, 1e-3, 0.0, 0.0, false},
     .clip = NP_CLIP_VALUE,
     .clip_limit = 0.25},
    {.optimizer = {NP_SGD, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, false}},
    {.optimizer = {NP_SGD, 0.1, 0.0, 0.0, 0.0, 0.01, 0.9, false},
     .clip = NP_CLIP_LAYER,
     .clip_limit = 0.5},
    {.optimizer = {NP_SGD, 0.1, 0.0, 0.0, 0.0, 0.01, 0.9, true},
     .clip = NP_CLIP_LAYER,
     .clip_limit = 1e6},
};

#define RECIPES ((int)(sizeof recipes / sizeof *recipes))

struct state {
    const struct np_kernels *kernels;
    const struct np_recipe *recipe;
    float *slab[3], *g; /* w, m, v */
    float agreed[9], square;
    uint64_t updates, fingerprint[8];
    bool written[8];
};

static float *zeros(size_t count)
{
    float *x;
    ck_assert_int_eq(np_zalloc(&x, count, sizeof *x, NULL), NP_OK);
    return x;
}

static int slabs_of(const struct np_recipe *recipe)
{
    return recipe->optimizer.kind == NP_ADAMW ? 3 : recipe->optimizer.momentum > 0.0 ? 2 : 1;
}

static void initialize(struct np_team *team, void *context)
{
    struct state *s = context;
    np_weights_init(s->kernels, team, s->slab[0], &kind, SEED, LAYER);
}

static void state_init(struct state *s, int backend, const struct np_recipe *recipe, int threads)
{
    *s = (struct state){.kernels = backend_get(backend), .recipe = recipe};
    for (int i = 0; i < 3; i++)
        s->slab[i] = zeros(kind.floats);
    s->g = zeros(kind.floats);
    team_run(threads, 64, initialize, s);
}

static void state_clear(struct state *s)
{
    for (int i = 0; i < 3; i++)
        free(s->slab[i]);
    free(s->g);
}

static void apply(struct np_team *team, void *context)
{
    struct state *s = context;
    int slabs = slabs_of(s->recipe);
    struct np_weights_update update = {.w = s->slab[0],
                                       .m = slabs > 1 ? s->slab[1] : NULL,
                                       .v = slabs > 2 ? s->slab[2] : NULL,
                                       .g = s->g,
                                       .kind = &kind,
                                       .layer = LAYER,
                                       .updates = s->updates,
                                       .lr = (float)s->recipe->optimizer.lr,
                                       .agreed = s->agreed,
                                       .square = &s->square};
    s->written[team->rank] =
        np_weights_update(s->kernels, team, s->recipe, &update, &s->fingerprint[team->rank]);
}

static void draw_gradient(struct state *s)
{
    struct np_draw_key key = np_draw_key(SEED, NP_DRAW_DELAY, 0, 0, (uint32_t)s->updates);
    for (size_t i = 0; i < kind.floats; i++)
        s->g[i] = 2.0f * np_philox_unit(np_draw(key, 0, i).w[0]) - 1.0f;
}

/* UPDATES updates; the sum of the fingerprints of all members and updates. */
static uint64_t train(struct state *s, int threads)
{
    uint64_t sum = 0;
    memset(s->fingerprint, 0, sizeof s->fingerprint);
    for (s->updates = 0; s->updates < UPDATES; s->updates++) {
        draw_gradient(s);
        team_run(threads, 64, apply, s);
        for (int i = 0; i < threads; i++)
            ck_assert(s->written[i]);
    }
    for (int i = 0; i < threads; i++)
        sum += s->fingerprint[i];
    return sum;
}

/* Elementary functions err by a few ulp; r and the angle carry the rounding of their arguments:
 * 16 eps of a deviate no larger than 6. */
START_TEST(initial_weights_match_the_reference)
{
    struct state s;
    double *w;
    state_init(&s, NP_ISA_SCALAR, &recipes[0], 1);
    w = reference_zeros(kind.floats);
    reference_init(w, &kind, SEED, LAYER);
    for (int k = 0; k < kind.tensor_count; k++) {
        const struct np_tensor *t = &kind.tensors[k];
        for (size_t i = t->offset; i < t->offset + t->count; i++)
            ck_assert_double_le(fabs((double)s.slab[0][i] - w[i]),
                                16.0 * 0x1p-24 * 6.0 * (double)t->std);
    }
    free(w);
    state_clear(&s);
}
END_TEST

/* Each update makes some 16 roundings, each at most eps of a number no larger than 4 (weights near
 * 1, momentum below 4), and adamw divides by no less than its largest gradient's tenth. */
START_TEST(updates_match_the_reference)
{
    struct state s;
    double *slab[3], *g, square = 0;
    state_init(&s, NP_ISA_SCALAR, &recipes[_i], 1);
    g = reference_zeros(kind.floats);
    for (int i = 0; i < 3; i++)
        slab[i] = reference_zeros(kind.floats);
    for (size_t i = 0; i < kind.floats; i++)
        slab[0][i] = (double)s.slab[0][i];
    train(&s, 1);
    for (s.updates = 0; s.updates < UPDATES; s.updates++) {
        draw_gradient(&s);
        square = 0;
        for (size_t i = 0; i < kind.floats; i++) {
            g[i] = (double)s.g[i];
            square += g[i] * g[i];
        }
        reference_update(s.recipe, &kind, slab[0], slabs_of(s.recipe) > 1 ? slab[1] : NULL, slab[2],
                         g, (double)(float)s.recipe->optimizer.lr, s.updates + 1);
    }
    square = s.recipe->clip == NP_CLIP_LAYER ? square : 0;
    ck_assert_double_le(fabs((double)s.square - square), square * 0x1p-18);
    for (int i = 0; i < slabs_of(s.recipe); i++)
        for (size_t j = 0; j < kind.floats; j++)
            ck_assert_double_le(fabs((double)s.slab[i][j] - slab[i][j]),
                                UPDATES * 16 * 4.0 * 0x1p-24);
    for (int i = 0; i < 3; i++)
        free(slab[i]);
    free(g);
    state_clear(&s);
}
END_TEST

START_TEST(teams_and_instruction_sets_give_the_same_bits)
{
    struct state one, other;
    uint64_t sum;
    state_init(&one, NP_ISA_SCALAR, &recipes[_i], 1);
    sum = train(&one, 1);
    for (int backend = 0; backend < BACKENDS; backend++) {
        for (int threads = 1; backend_get(backend) && threads <= 3; threads++) {
            if (!team_is_tried(threads, backend))
                continue;
            state_init(&other, backend, &recipes[_i], threads);
            ck_assert_uint_eq(train(&other, threads), sum);
            ck_assert(one.square == other.square);
            for (int i = 0; i < 3; i++)
                ck_assert_mem_eq(one.slab[i], other.slab[i], kind.floats * sizeof(float));
            state_clear(&other);
        }
    }
    state_clear(&one);
}
END_TEST

START_TEST(the_fingerprint_covers_everything_written)
{
    struct state s;
    uint64_t want = 0;
    state_init(&s, NP_ISA_SCALAR, &recipes[_i], 1);
    draw_gradient(&s);
    team_run(1, 64, apply, &s);
    for (int t = 0; t < kind.tensor_count; t++) {
        uint64_t address = np_fingerprint_address(LAYER, kind.tensors[t].offset);
        for (int i = 0; i < slabs_of(s.recipe); i++) {
            for (size_t j = 0; j < kind.tensors[t].count; j++) {
                uint32_t bits;
                memcpy(&bits, &s.slab[i][kind.tensors[t].offset + j], sizeof bits);
                want += np_fingerprint_mix(address++, bits);
            }
        }
    }
    ck_assert_uint_eq(s.fingerprint[0], want);
    state_clear(&s);
}
END_TEST

/* A gradient, even where clipping would make it finite again; a finite one whose square or norm
 * overflows, or that carries a weight out of range, but not where its value is clipped. */
START_TEST(what_is_not_finite_is_seen_by_every_member)
{
    static const float gradients[] = {NAN, INFINITY, -INFINITY, 3e38f};
    struct state s;
    size_t last = kind.floats - 1;
    for (size_t i = 0; i < 4; i++) {
        for (size_t at = 0; at <= last; at += i < 3 ? last / 3 : last) {
            state_init(&s, NP_ISA_SCALAR, &recipes[_i], 3);
            draw_gradient(&s);
            s.g[at] = gradients[i];
            if (i == 3)
                s.slab[0][at] = -FLT_MAX;
            team_run(3, 64, apply, &s);
            for (int rank = 0; rank < 3; rank++)
                ck_assert_msg(s.written[rank] == (i == 3 && s.recipe->clip == NP_CLIP_VALUE),
                              "recipe %d, %g at %zu: member %d", _i, (double)gradients[i], at,
                              rank);
            state_clear(&s);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weights");
    TCase *tests = suite_case(suite, "weights");
    tcase_add_test(tests, initial_weights_match_the_reference);
    tcase_add_loop_test(tests, updates_match_the_reference, 0, RECIPES);
    tcase_add_loop_test(tests, teams_and_instruction_sets_give_the_same_bits, 0, RECIPES);
    tcase_add_loop_test(tests, the_fingerprint_covers_everything_written, 0, RECIPES);
    tcase_add_loop_test(tests, what_is_not_finite_is_seen_by_every_member, 0, RECIPES);
    return suite_run(suite);
}
