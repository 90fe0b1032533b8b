/* The sequential reference: for every step, member after member, forward through the positions,
 * loss, backward; gradients summed over members in order; then one update of every active layer.
 * No scheduler, no micro-batches, no second step in flight: short enough to be checked by eye. */
#include <stdlib.h>

#include "base/memory.h"
#include "exec/step.h"
#include "exec/sweep.h"

struct run {
    const struct np_train_config *config;
    const struct np_supernet *net;
    const struct np_recipe *recipe;
    struct np_sweep sweep; /* of the member being trained */
    struct np_batch batch; /* of the same */
    float *batch_slab;
    struct np_cell *cells; /* [positions] */
    struct np_buffer **g;  /* [members][positions], where the member owns the layer */
    uint16_t *choices, *blocks;
    float *grain_loss, *losses;
    struct np_layer_print *prints;
};

static enum np_status run_init(struct run *r, const struct np_train_config *config,
                               struct np_state *state, struct np_error *err)
{
    const struct np_supernet *net = config->net;
    const struct np_recipe *recipe = net->recipe;
    size_t positions = (size_t)net->positions, places = (size_t)recipe->members * positions;
    size_t samples = (size_t)recipe->batch;
    enum np_status status;
    *r = (struct run){.config = config, .net = net, .recipe = recipe};
    r->sweep = (struct np_sweep){.config = config, .state = state, .samples = samples};
    NP_TRY(np_crew_new(&r->sweep.crew, config->plan->threads, np_ops_scratch_bytes(net), err));
    NP_TRY(np_pool_new(&r->sweep.pool, err));
    NP_TRY(np_alloc(&r->sweep.work, np_sweep_work_floats(net, samples), sizeof(float), err));
    NP_TRY(np_alloc(&r->batch_slab, np_batch_lay(&r->batch, recipe, samples, true, true, NULL),
                    sizeof(float), err));
    NP_TRY(np_zalloc(&r->cells, positions, sizeof *r->cells, err));
    NP_TRY(np_zalloc(&r->g, places, sizeof *r->g, err));
    NP_TRY(np_zalloc(&r->choices, places, sizeof *r->choices, err));
    NP_TRY(np_zalloc(&r->blocks, places, sizeof *r->blocks, err));
    NP_TRY(np_zalloc(&r->prints, places, sizeof *r->prints, err));
    NP_TRY(np_zalloc(&r->losses, (size_t)recipe->members, sizeof *r->losses, err));
    NP_TRY(np_zalloc(&r->grain_loss, samples / (size_t)recipe->grain, sizeof(float), err));
    np_batch_lay(&r->batch, recipe, samples, true, true, r->batch_slab);
    r->sweep.batch = &r->batch;
    r->sweep.cells = r->cells;
    r->sweep.grain_loss = r->grain_loss;
out:
    return status;
}

static void run_clear(struct run *r)
{
    np_crew_free(r->sweep.crew);
    np_pool_free(r->sweep.pool);
    free(r->sweep.work);
    free(r->batch_slab);
    free(r->cells);
    free(r->g);
    free(r->choices);
    free(r->blocks);
    free(r->prints);
    free(r->losses);
    free(r->grain_loss);
}

static enum np_status check(const struct run *r, bool finite, int position, const char *what,
                            struct np_error *err)
{
    struct np_step_fault f = {
        .step = r->sweep.step, .member = r->sweep.member, .position = position, .what = what};
    return finite ? NP_OK : np_step_fault_error(&f, r->net, r->choices, err);
}

static void choose_member(struct run *r, int member)
{
    r->sweep.member = member;
    r->sweep.choices = r->choices + member * r->net->positions;
}

static enum np_status forward(struct run *r, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int p = 0; p < r->net->positions; p++) {
        bool finite = true;
        NP_TRY(np_sweep_forward(&r->sweep, p, &finite, err));
        NP_TRY(check(r, finite, p, "output", err));
    }
    r->losses[r->sweep.member] = np_step_loss(r->recipe, r->grain_loss);
out:
    return status;
}

/* Backward-input, then backward-weight, of every position from the head to the stem. */
static enum np_status backward(struct run *r, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int p = r->net->positions - 1; p >= 0; p--) {
        uint32_t layer = np_step_layer(r->net, r->sweep.choices, p);
        int member = r->sweep.member, owner = np_step_owner(r->net, r->choices, member, p);
        struct np_buffer **g = &r->g[owner * r->net->positions + p];
        bool finite = true;
        NP_TRY(np_sweep_backward(&r->sweep, p, &finite, err));
        NP_TRY(check(r, finite, p, "gradient", err));
        if (!np_step_trains(r->net, p, layer))
            continue;
        if (owner == member)
            NP_TRY(np_pool_get(r->sweep.pool, g, np_supernet_kind(r->net, layer)->floats, err));
        NP_TRY(np_sweep_weight(&r->sweep, p, (*g)->data, owner != member, &finite, err));
        NP_TRY(check(r, finite, p, "gradient", err));
    }
out:
    return status;
}

/* Updates the layers that the step activated, in (member, position) order. */
static enum np_status update(struct run *r, struct np_step_record *record, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 0; i < r->recipe->members * r->net->positions; i++) {
        int p = i % r->net->positions;
        uint64_t fingerprint;
        bool finite = true;
        if (!r->g[i])
            continue;
        choose_member(r, i / r->net->positions);
        NP_TRY(np_sweep_update(&r->sweep, p, r->g[i]->data, &fingerprint, &finite, err));
        np_pool_drop(r->sweep.pool, &r->g[i]);
        NP_TRY(check(r, finite, p, "update", err));
        record->fingerprint += fingerprint;
        r->prints[record->layer_count++] =
            (struct np_layer_print){np_step_layer(r->net, r->sweep.choices, p), fingerprint};
    }
out:
    return status;
}

static enum np_status train_step(struct run *r, struct np_error *err)
{
    struct np_step_record record = {.step = r->sweep.step,
                                    .lr = np_recipe_lr(r->recipe, r->sweep.step),
                                    .members = r->recipe->members,
                                    .losses = r->losses,
                                    .layers = r->prints};
    enum np_status status;
    for (int member = 0; member < r->recipe->members; member++) {
        choose_member(r, member);
        np_data_batch(r->config->data, &r->batch, r->recipe->seed, r->sweep.step, (uint32_t)member,
                      0, r->sweep.samples);
        NP_TRY(forward(r, err));
        NP_TRY(backward(r, err));
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
    for (r.sweep.step = first; status == NP_OK && r.sweep.step < end; *next = ++r.sweep.step) {
        if (config->hooks.stop && config->hooks.stop(config->hooks.context)) {
            status = np_fail(err, NP_ESTOP, "stopped on request after step %llu",
                             (unsigned long long)r.sweep.step);
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
