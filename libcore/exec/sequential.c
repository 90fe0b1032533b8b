/* The sequential reference: for every step, member after member, forward through the positions,
 * loss, backward; gradients summed over members in order; then one update of every active layer.
 * No scheduler, no micro-batches, no second step in flight: short enough to be checked by eye. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/crew.h"
#include "exec/pool.h"
#include "exec/step.h"
#include "exec/work.h"

struct place { /* one position of the member being trained */
    struct np_buffer *x, *saved, *dy;
};

struct run {
    const struct np_train_config *config;
    const struct np_supernet *net;
    const struct np_recipe *recipe;
    struct np_state *state;
    struct np_crew *crew;
    struct np_pool *pool;
    struct place *places; /* [positions + 1] */
    struct np_buffer **g; /* [members][positions], where the member owns the layer */
    uint16_t *choices, *blocks;
    int32_t *tokens, *targets;
    float *grain_loss, *losses;
    struct np_layer_print *prints;
    size_t activation; /* floats of one activation: batch x T x C */
    uint64_t step;
};

static enum np_status run_init(struct run *r, const struct np_train_config *config,
                               struct np_state *state, struct np_error *err)
{
    const struct np_supernet *net = config->net;
    const struct np_recipe *recipe = net->recipe;
    size_t positions = (size_t)net->positions, members = (size_t)recipe->members;
    size_t rows = (size_t)recipe->batch * (size_t)recipe->length;
    enum np_status status;
    *r = (struct run){.config = config, .net = net, .recipe = recipe, .state = state};
    r->activation = rows * (size_t)recipe->width;
    NP_TRY(np_crew_new(&r->crew, config->plan->threads,
                       np_kernels_scratch_bytes((size_t)recipe->length, (size_t)recipe->width),
                       err));
    NP_TRY(np_pool_new(&r->pool, err));
    NP_TRY(np_zalloc(&r->places, positions + 1, sizeof *r->places, err));
    NP_TRY(np_zalloc(&r->g, members * positions, sizeof *r->g, err));
    NP_TRY(np_zalloc(&r->choices, members * positions, sizeof *r->choices, err));
    NP_TRY(np_zalloc(&r->blocks, members * positions, sizeof *r->blocks, err));
    NP_TRY(np_zalloc(&r->prints, members * positions, sizeof *r->prints, err));
    NP_TRY(np_zalloc(&r->losses, members, sizeof *r->losses, err));
    NP_TRY(np_zalloc(&r->tokens, rows, sizeof *r->tokens, err));
    NP_TRY(np_zalloc(&r->targets, rows, sizeof *r->targets, err));
    NP_TRY(np_zalloc(&r->grain_loss, (size_t)(recipe->batch / recipe->grain), sizeof(float), err));
out:
    return status;
}

static void run_clear(struct run *r)
{
    np_crew_free(r->crew);
    np_pool_free(r->pool);
    free(r->places);
    free(r->g);
    free(r->choices);
    free(r->blocks);
    free(r->prints);
    free(r->losses);
    free(r->tokens);
    free(r->targets);
    free(r->grain_loss);
}

/* The work on one position that all three passes begin with. */
static struct np_work work_at(const struct run *r, int member, int position, uint32_t layer)
{
    size_t rows = (size_t)r->recipe->batch * (size_t)r->recipe->length;
    return (struct np_work){.state = r->state,
                            .version = np_step_version(r->state, position, layer, r->step),
                            .lr = np_recipe_lr(r->recipe, r->step),
                            .call = {.kernels = r->config->kernels,
                                     .samples = (size_t)r->recipe->batch,
                                     .grain = (size_t)r->recipe->grain,
                                     .seed = r->recipe->seed,
                                     .step = r->step,
                                     .member = (uint32_t)member,
                                     .layer = layer,
                                     .train = true,
                                     .tokens = r->tokens,
                                     .targets = r->targets,
                                     .smoothing = (float)r->recipe->label_smoothing,
                                     .scale = 1.0f / (float)rows}};
}

static enum np_status fault(const struct run *r, int member, int position, const char *what,
                            struct np_error *err)
{
    struct np_step_fault f = {
        .step = r->step, .member = member, .position = position, .what = what};
    return np_step_fault_error(&f, r->net, r->choices, err);
}

static enum np_status forward(struct run *r, int member, struct np_error *err)
{
    const uint16_t *choices = r->choices + member * r->net->positions;
    enum np_status status = NP_OK;
    for (int p = 0; p < r->net->positions; p++) {
        uint32_t layer = np_step_layer(r->net, choices, p);
        const struct np_kind *kind = np_supernet_kind(r->net, layer);
        struct np_op_sizes sizes = np_op_sizes(kind, (size_t)r->recipe->batch);
        struct place *here = &r->places[p], *next = here + 1;
        struct np_work work = work_at(r, member, p, layer);
        struct np_buffer *scratch = NULL;
        struct np_work_result result;
        NP_TRY(np_pool_get(r->pool, &next->x, r->activation, err));
        NP_TRY(np_pool_get(r->pool, &here->saved, sizes.saved, err));
        NP_TRY(np_pool_get(r->pool, &scratch, sizes.work + r->activation, err));
        work.forward = true;
        work.x = here->x ? here->x->data : NULL;
        work.y = next->x->data;
        work.call.saved = here->saved->data;
        work.call.work = scratch->data;
        if (p == r->net->positions - 1) {
            work.call.loss = next->x->data;
            work.grain_loss = r->grain_loss;
        }
        status = np_work_run(&result, r->crew, &work, err);
        np_pool_drop(r->pool, &scratch);
        if (status == NP_OK && !result.finite)
            status = fault(r, member, p, "output", err);
        NP_TRY(status);
    }
    r->losses[member] = np_step_loss(r->recipe, r->grain_loss);
out:
    return status;
}

/* Backward-input, then backward-weight, of every position from the head to the stem. */
static enum np_status backward(struct run *r, int member, struct np_error *err)
{
    const uint16_t *choices = r->choices + member * r->net->positions;
    enum np_status status = NP_OK;
    for (int p = r->net->positions - 1; p >= 0; p--) {
        uint32_t layer = np_step_layer(r->net, choices, p);
        const struct np_kind *kind = np_supernet_kind(r->net, layer);
        struct np_op_sizes sizes = np_op_sizes(kind, (size_t)r->recipe->batch);
        struct place *here = &r->places[p];
        struct np_work work = work_at(r, member, p, layer);
        struct np_buffer *delta = NULL, *scratch = NULL, *dx = NULL;
        struct np_buffer **g;
        struct np_work_result result;
        int owner = np_step_owner(r->net, r->choices, member, p);
        g = &r->g[owner * r->net->positions + p];
        NP_TRY(np_pool_get(r->pool, &delta, sizes.delta, err));
        NP_TRY(np_pool_get(r->pool, &scratch, sizes.work, err));
        if (p > 0)
            NP_TRY(np_pool_get(r->pool, &dx, r->activation, err));
        work.backward = p > 0;
        work.weight = np_step_trains(r->net, p, layer);
        work.accumulate = owner != member;
        if (work.weight && !work.accumulate)
            NP_TRY(np_pool_get(r->pool, g, kind->floats, err));
        work.x = here->x ? here->x->data : NULL;
        work.dy = here->dy ? here->dy->data : NULL;
        work.dx = dx ? dx->data : NULL;
        work.g = work.weight ? (*g)->data : NULL;
        work.call.saved = here->saved->data;
        work.call.delta = delta->data;
        work.call.work = scratch->data;
        status = np_work_run(&result, r->crew, &work, err);
        if (status == NP_OK && !result.finite)
            status = fault(r, member, p, "gradient", err);
        np_pool_drop(r->pool, &delta);
        np_pool_drop(r->pool, &scratch);
        np_pool_drop(r->pool, &here->dy);
        np_pool_drop(r->pool, &here->saved);
        np_pool_drop(r->pool, &here[1].x);
        if (p > 0)
            r->places[p - 1].dy = dx;
        NP_TRY(status);
    }
out:
    return status;
}

/* Updates the layers that the step activated, in (member, position) order. */
static enum np_status update(struct run *r, struct np_step_record *record, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 0; i < r->recipe->members * r->net->positions; i++) {
        int member = i / r->net->positions, p = i % r->net->positions;
        uint32_t layer = np_step_layer(r->net, r->choices + member * r->net->positions, p);
        struct np_work work = work_at(r, member, p, layer);
        struct np_work_result result;
        if (!r->g[i])
            continue;
        work.update = true;
        work.g = r->g[i]->data;
        NP_TRY(np_work_run(&result, r->crew, &work, err));
        np_pool_drop(r->pool, &r->g[i]);
        if (!result.finite) {
            status = fault(r, member, p, "update", err);
            goto out;
        }
        record->fingerprint += result.fingerprint;
        r->prints[record->layer_count++] =
            (struct np_layer_print){.layer = layer, .fingerprint = result.fingerprint};
    }
out:
    return status;
}

static enum np_status train_step(struct run *r, struct np_error *err)
{
    struct np_step_record record = {.step = r->step,
                                    .lr = np_recipe_lr(r->recipe, r->step),
                                    .members = r->recipe->members,
                                    .losses = r->losses,
                                    .layers = r->prints};
    enum np_status status;
    for (int member = 0; member < r->recipe->members; member++) {
        np_corpus_batch(r->config->corpus, r->tokens, r->targets, r->recipe->seed, r->step,
                        (uint32_t)member, 0, (size_t)r->recipe->batch);
        NP_TRY(forward(r, member, err));
        NP_TRY(backward(r, member, err));
    }
    NP_TRY(update(r, &record, err));
    np_step_sort_prints(r->prints, record.layer_count);
    NP_TRY(r->config->hooks.step(r->config->hooks.context, &record, err));
out:
    return status;
}

enum np_status np_train_sequential(const struct np_train_config *config, struct np_state *state,
                                   struct np_stream *stream, uint64_t first, uint64_t end,
                                   uint64_t *next, struct np_error *err)
{
    struct run r;
    bool more = true;
    enum np_status status = run_init(&r, config, state, err);
    *next = first;
    for (r.step = first; status == NP_OK && r.step < end; r.step++, *next = r.step) {
        if (config->hooks.stop && config->hooks.stop(config->hooks.context)) {
            status = np_fail(err, NP_ESTOP, "stopped on request after step %llu",
                             (unsigned long long)r.step);
            break;
        }
        NP_TRY(np_step_read(r.net, stream, r.choices, r.blocks, &more, err));
        if (!more)
            break;
        NP_TRY(train_step(&r, err));
    }
out:
    run_clear(&r);
    return status;
}
