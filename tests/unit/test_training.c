/* Training a small supernet for 50 steps: operators in float against the double reference.
 *
 * The driver is the simplest sequential trainer: one subnet after the other, whole mini-batches. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "layer_cases.h"
#include "ops/op.h"
#include "ops/weights.h"
#include "reference.h"
#include "team_run.h"

enum { STEPS = 50, BLOCKS = 4, CHOICES = 7, MEMBERS = 2, BATCH = 8, DELAY_MAX = 4 };

static struct np_layer_spec choices[CHOICES] = {
    {.op = NP_OP_MHA, .heads = 4},
    {.op = NP_OP_FFN, .ratio = 4, .act = NP_ACT_GELU},
    {.op = NP_OP_GLU, .dropout = 0.1f},
    {.op = NP_OP_CONV1D, .kernel = 3, .dropout = 0.1f},
    {.op = NP_OP_SEPCONV1D, .kernel = 5},
    {.op = NP_OP_LIGHTCONV, .kernel = 4, .heads = 2},
    {.op = NP_OP_IDENTITY},
};

static struct np_block blocks[BLOCKS] = {
    {CHOICES, choices}, {CHOICES, choices}, {CHOICES, choices}, {CHOICES, choices}};

#define COMMON                                                                                     \
    .seed = 5, .vocab = CASE_VOCAB, .length = 12, .width = 16, .stem = {.op = NP_OP_EMBEDDING},    \
    .head = {.op = NP_OP_LM}, .block_count = BLOCKS, .blocks = blocks, .members = MEMBERS,         \
    .steps = STEPS, .batch = BATCH, .grain = 2, .schedule = NP_LR_CONSTANT

static const struct np_recipe recipes[] = {
    {COMMON, .delay = 1, .optimizer = {NP_SGD, 0.1, 0.0, 0.0, 0.0, 0.0, 0.9, false}},
    {COMMON, .delay = DELAY_MAX, .optimizer = {NP_ADAMW, 3e-3, 0.9, 0.999, 1e-8, 0.01, 0.0, false},
     .label_smoothing = 0.1},
    {COMMON, .shared_frozen = true, .clip = NP_CLIP_LAYER, .clip_limit = 0.1,
     .optimizer = {NP_ADAMW, 3e-3, 0.9, 0.999, 1e-8, 0.0, 0.0, false}},
};

#define RECIPES ((int)(sizeof recipes / sizeof *recipes))

struct trainer {
    const struct np_supernet *net;
    const struct np_kernels *kernels;
    struct np_team *team;
    float **w, **m, **v, **g;
    uint64_t *updates, step;
    float *shared[2][DELAY_MAX]; /* gradients of the stem and the head that wait */
    float *x[BLOCKS + 2];        /* inputs of positions; the stem has none */
    float *d[2];
    float *saved[BLOCKS + 2], *delta, *work, *loss, agreed[2];
    const uint16_t *choices;
    const int32_t *tokens, *targets;
    double *losses;
};

static float *zeros(size_t count)
{
    float *x;
    ck_assert_int_eq(np_zalloc(&x, count + 1, sizeof *x, NULL), NP_OK);
    return x;
}

static float **slabs(const struct np_supernet *net)
{
    float **slab;
    ck_assert_int_eq(np_zalloc(&slab, net->layers, sizeof *slab, NULL), NP_OK);
    for (uint32_t i = 0; i < net->layers; i++)
        slab[i] = zeros(np_supernet_kind(net, i)->floats);
    return slab;
}

static void free_slabs(const struct np_supernet *net, float **slab)
{
    for (uint32_t i = 0; i < net->layers; i++)
        free(slab[i]);
    free(slab);
}

/* The largest of every size, as positions change their kinds. */
static struct np_op_sizes largest(const struct np_supernet *net)
{
    struct np_op_sizes most = {0, 0, 0};
    for (int i = 0; i < net->kind_count; i++) {
        struct np_op_sizes s = np_op_sizes(&net->kinds[i], BATCH);
        most.saved = s.saved > most.saved ? s.saved : most.saved;
        most.delta = s.delta > most.delta ? s.delta : most.delta;
        most.work = s.work > most.work ? s.work : most.work;
    }
    return most;
}

static uint32_t shared_layer(const struct np_supernet *net, int which)
{
    return which == 0 ? 0 : net->layers - 1;
}

static void trainer_init(struct trainer *t, const struct np_supernet *net)
{
    struct np_op_sizes most = largest(net);
    size_t rows = BATCH * (size_t)net->recipe->length, count = rows * (size_t)net->recipe->width;
    *t = (struct trainer){.net = net,
                          .kernels = np_kernels_best(),
                          .w = slabs(net),
                          .m = slabs(net),
                          .v = slabs(net),
                          .g = slabs(net),
                          .delta = zeros(most.delta),
                          .work = zeros(most.work),
                          .loss = zeros(rows),
                          .d = {zeros(count), zeros(count)}};
    ck_assert_int_eq(np_zalloc(&t->updates, net->layers, sizeof *t->updates, NULL), NP_OK);
    for (int i = 0; i < BLOCKS + 2; i++) {
        t->x[i] = zeros(count);
        t->saved[i] = zeros(most.saved);
    }
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < DELAY_MAX; i++)
            t->shared[which][i] = zeros(np_supernet_kind(net, shared_layer(net, which))->floats);
}

static void trainer_clear(struct trainer *t)
{
    free_slabs(t->net, t->w);
    free_slabs(t->net, t->m);
    free_slabs(t->net, t->v);
    free_slabs(t->net, t->g);
    for (int i = 0; i < BLOCKS + 2; i++) {
        free(t->x[i]);
        free(t->saved[i]);
    }
    for (int i = 0; i < DELAY_MAX; i++) {
        free(t->shared[0][i]);
        free(t->shared[1][i]);
    }
    free(t->updates);
    free(t->delta);
    free(t->work);
    free(t->loss);
    free(t->d[0]);
    free(t->d[1]);
}

static void initialize(struct np_team *team, void *context)
{
    struct trainer *t = context;
    for (uint32_t i = 0; i < t->net->layers; i++)
        np_weights_init(t->kernels, team, t->w[i], np_supernet_kind(t->net, i),
                        t->net->recipe->seed, i);
}

static uint32_t layer_at(const struct trainer *t, int member, int position)
{
    uint32_t choice = 0;
    if (position > 0 && position <= BLOCKS)
        choice = t->choices[member * BLOCKS + position - 1];
    return t->net->layer_first[position] + choice;
}

static bool used_before(const struct trainer *t, int member, int position)
{
    for (int other = 0; other < member; other++)
        if (layer_at(t, other, position) == layer_at(t, member, position))
            return true;
    return false;
}

static void update(struct trainer *t, uint32_t layer, const float *g, uint64_t step)
{
    const struct np_recipe *recipe = t->net->recipe;
    struct np_weights_update u = {.w = t->w[layer],
                                  .m = t->net->moments > 0 ? t->m[layer] : NULL,
                                  .v = t->net->moments > 1 ? t->v[layer] : NULL,
                                  .g = g,
                                  .kind = np_supernet_kind(t->net, layer),
                                  .layer = layer,
                                  .updates = t->updates[layer]++,
                                  .lr = np_recipe_lr(recipe, step),
                                  .agreed = t->agreed};
    uint64_t fingerprint;
    ck_assert(np_weights_update(t->kernels, t->team, recipe, &u, &fingerprint));
}

static struct np_op_call call_of(const struct trainer *t, int member, int position)
{
    const struct np_recipe *recipe = t->net->recipe;
    size_t rows = BATCH * (size_t)recipe->length;
    uint32_t layer = layer_at(t, member, position);
    return (struct np_op_call){.kernels = t->kernels,
                               .team = t->team,
                               .kind = np_supernet_kind(t->net, layer),
                               .w = t->w[layer],
                               .samples = BATCH,
                               .grain = (size_t)recipe->grain,
                               .seed = recipe->seed,
                               .step = t->step,
                               .member = (uint32_t)member,
                               .layer = layer,
                               .train = true,
                               .tokens = t->tokens + (size_t)member * rows,
                               .targets = t->targets + (size_t)member * rows,
                               .loss = t->loss,
                               .smoothing = (float)recipe->label_smoothing,
                               .scale = 1.0f / (float)rows,
                               .saved = t->saved[position],
                               .delta = t->delta,
                               .work = t->work};
}

static void run_member(struct trainer *t, int member)
{
    size_t rows = BATCH * (size_t)t->net->recipe->length;
    for (int i = 0; i < BLOCKS + 2; i++) {
        struct np_op_call call = call_of(t, member, i);
        ck_assert(np_op_forward(&call, i <= BLOCKS ? t->x[i + 1] : NULL, i > 0 ? t->x[i] : NULL));
    }
    for (int i = BLOCKS + 1; i >= 0; i--) {
        struct np_op_call call = call_of(t, member, i);
        const float *dy = i <= BLOCKS ? t->d[(i + 1) % 2] : NULL;
        if (i > 0)
            ck_assert(np_op_backward(&call, t->d[i % 2], t->x[i], dy));
        np_op_weight(&call, t->g[call.layer], i > 0 ? t->x[i] : NULL, dy,
                     used_before(t, member, i));
    }
    t->losses[member] = 0.0;
    for (size_t r = 0; r < rows; r++)
        t->losses[member] += (double)t->loss[r] / (double)rows;
}

/* Step s reads the shared layers' version after the updates of steps <= s - D. */
static void train_step(struct np_team *team, void *context)
{
    struct trainer *t = context;
    bool frozen = t->net->recipe->shared_frozen;
    uint64_t delay = frozen ? 1 : (uint64_t)t->net->recipe->delay;
    t->team = team;
    for (int which = 0; which < 2 && !frozen && t->step >= delay; which++)
        update(t, shared_layer(t->net, which), t->shared[which][t->step % delay], t->step - delay);
    for (int member = 0; member < MEMBERS; member++)
        run_member(t, member);
    for (int member = 0; member < MEMBERS; member++) {
        for (int i = 1; i <= BLOCKS; i++) {
            uint32_t layer = layer_at(t, member, i);
            if (!used_before(t, member, i))
                update(t, layer, t->g[layer], t->step);
        }
    }
    for (int which = 0; which < 2; which++) {
        uint32_t layer = shared_layer(t->net, which);
        memcpy(t->shared[which][t->step % delay], t->g[layer],
               np_supernet_kind(t->net, layer)->floats * sizeof(float));
    }
    t->step++;
}

/* Sequences that a model can learn: each token is the last one plus a step of the sample's. */
static void draw_batch(int32_t *tokens, int32_t *targets, size_t length, uint64_t step)
{
    for (size_t i = 0; i < MEMBERS * BATCH; i++) {
        uint64_t sample = step * MEMBERS * BATCH + i;
        uint64_t start = sample * 5 % CASE_VOCAB, stride = 1 + sample % 3;
        for (size_t p = 0; p < length; p++) {
            tokens[i * length + p] = (int32_t)((start + p * stride) % CASE_VOCAB);
            targets[i * length + p] = (int32_t)((start + (p + 1) * stride) % CASE_VOCAB);
        }
    }
}

static void draw_subnets(uint16_t *subnets, uint64_t step)
{
    struct np_draw_key key = np_draw_key(9, NP_DRAW_SUBNET, 0, 0, 0);
    for (size_t i = 0; i < MEMBERS * BLOCKS; i++)
        subnets[i] = (uint16_t)np_philox_below(np_draw(key, step, i), CHOICES);
}

/* The bound. A step's loss, and each gradient, is reached through a chain of at most n roundings:
 * BLOCKS + 2 layers of some 10 widths of inner sums. Each errs by eps of a value of order 1, as
 * often up as down, so a loss errs by sqrt(n) eps. An update moves a weight by lr along a gradient
 * that errs as much, and lr times the gradients is what the loss falls in a step, below 1; so the
 * steps so far err by (steps + 1) sqrt(n) eps at most, even if all of them err the same way. */
START_TEST(losses_follow_the_double_reference)
{
    struct np_supernet net;
    struct trainer t;
    struct reference_net ref;
    size_t length = (size_t)recipes[_i].length;
    int32_t tokens[MEMBERS * BATCH * 12], targets[MEMBERS * BATCH * 12];
    uint16_t subnets[MEMBERS * BLOCKS];
    double losses[MEMBERS], want[MEMBERS], first = 0.0;
    double chain = sqrt((BLOCKS + 2) * 10.0 * recipes[_i].width);
    ck_assert_uint_eq(length, 12);
    ck_assert_int_eq(np_supernet_init(&net, &recipes[_i], NULL), NP_OK);
    trainer_init(&t, &net);
    team_run(1, np_kernels_scratch_bytes(length, (size_t)recipes[_i].width), initialize, &t);
    reference_net_init(&ref, &net);
    t.choices = subnets;
    t.tokens = tokens;
    t.targets = targets;
    t.losses = losses;
    for (uint64_t step = 0; step < STEPS; step++) {
        draw_batch(tokens, targets, length, step);
        draw_subnets(subnets, step);
        team_run(1, np_kernels_scratch_bytes(length, (size_t)recipes[_i].width), train_step, &t);
        reference_net_step(&ref, subnets, tokens, targets, want);
        if (step == 0)
            first = want[0];
        for (int i = 0; i < MEMBERS; i++) {
            ck_assert_msg(fabs(losses[i] - want[i]) <= (double)(step + 1) * chain * 0x1p-24,
                          "step %d, member %d: %.9g, not %.9g", (int)step, i, losses[i], want[i]);
        }
    }
    ck_assert_double_lt(want[0], 0.9 * first); /* it learns: the comparison means something */
    reference_net_clear(&ref);
    trainer_clear(&t);
    np_supernet_clear(&net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("training");
    TCase *tcase = tcase_create("training");
    SRunner *runner;
    int failed;
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, losses_follow_the_double_reference, 0, RECIPES);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
