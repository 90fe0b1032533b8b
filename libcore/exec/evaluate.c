/* Evaluation: the forward pass alone, one subnet after another. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/residence.h"
#include "exec/solo.h"
#include "exec/step.h"

struct eval {
    const struct np_train_config *config;
    const struct np_supernet *net;
    struct np_solo solo;
    struct np_sweep sweep;
    struct np_batch batch;
    float *batch_slab;
    uint16_t *choices;    /* [positions] */
    float **stats;        /* [positions], where a candidate has a batch norm */
    size_t *stats_floats; /* [positions] */
    float *grain_loss;
    int32_t *hits;
};

/* Room for the statistics of each position's largest candidate. */
static enum np_status stats_new(struct eval *e, struct np_error *err)
{
    size_t positions = (size_t)e->net->positions;
    enum np_status status;
    NP_TRY(np_zalloc(&e->stats, positions, sizeof *e->stats, err));
    NP_TRY(np_zalloc(&e->stats_floats, positions, sizeof *e->stats_floats, err));
    for (int p = 0; p < e->net->positions; p++) {
        for (uint32_t l = e->net->layer_first[p]; l < e->net->layer_first[p + 1]; l++) {
            size_t floats = np_supernet_kind(e->net, l)->norm_floats;
            if (floats > e->stats_floats[p])
                e->stats_floats[p] = floats;
        }
        if (e->stats_floats[p])
            NP_TRY(np_alloc(&e->stats[p], e->stats_floats[p], sizeof(float), err));
    }
    e->sweep.norm_stats = e->stats;
out:
    return status;
}

static enum np_status eval_init(struct eval *e, const struct np_train_config *config,
                                struct np_state *state, int threads, struct np_error *err)
{
    const struct np_supernet *net = config->net;
    const struct np_recipe *recipe = net->recipe;
    size_t samples = (size_t)recipe->batch;
    enum np_status status;
    *e = (struct eval){.config = config, .net = net};
    NP_TRY(np_solo_init(&e->solo, net, threads < NP_MAX_TEAM ? threads : NP_MAX_TEAM, true, err));
    e->sweep = np_solo_sweep(&e->solo, config, state);
    e->sweep.evaluates = true;
    NP_TRY(np_alloc(&e->batch_slab, np_batch_lay(&e->batch, recipe, samples, true, true, NULL),
                    sizeof(float), err));
    NP_TRY(np_zalloc(&e->choices, (size_t)net->positions, sizeof *e->choices, err));
    NP_TRY(np_alloc(&e->grain_loss, samples / (size_t)recipe->grain, sizeof(float), err));
    NP_TRY(np_alloc(&e->hits, samples * np_batch_targets(recipe), sizeof *e->hits, err));
    NP_TRY(stats_new(e, err));
    np_batch_lay(&e->batch, recipe, samples, true, true, e->batch_slab);
    e->sweep.batch = &e->batch;
    e->sweep.choices = e->choices;
    e->sweep.grain_loss = e->grain_loss;
    e->sweep.hits = e->hits;
out:
    return status;
}

static void eval_clear(struct eval *e)
{
    np_solo_clear(&e->solo);
    free(e->batch_slab);
    free(e->choices);
    for (int p = 0; e->stats && p < e->net->positions; p++)
        free(e->stats[p]);
    free(e->stats);
    free(e->stats_floats);
    free(e->grain_loss);
    free(e->hits);
}

/* The pass over a position, with its layer on the device. */
static enum np_status forward(struct eval *e, int position, bool *finite, struct np_error *err)
{
    struct np_residence *residence = e->sweep.state->residence;
    uint32_t layer = np_step_layer(e->net, e->choices, position);
    enum np_status status;
    int stage;
    if (!residence)
        return np_sweep_forward(&e->sweep, position, finite, err);
    stage = np_residence_stage(residence, layer);
    NP_TRY(np_residence_enter(residence, stage, layer, NP_NO_STEP, NP_PASS_FORWARD, NULL, err));
    status = np_sweep_forward(&e->sweep, position, finite, err);
    np_residence_leave(residence, stage, layer, false);
out:
    return status;
}

/* The subnet on batch `index` of `total`; what it gives is in grain_loss and hits. */
static enum np_status run_batch(struct eval *e, const struct np_data *data, uint64_t index,
                                uint64_t total, struct np_error *err)
{
    const struct np_train_hooks *hooks = &e->config->hooks;
    enum np_status status = NP_OK;
    bool finite = true; /* a loss that is not says it itself */
    if (hooks->stop && hooks->stop(hooks->context))
        return np_fail(err, NP_ESTOP, "stopped on request in an evaluation");
    np_data_eval_batch(data, &e->batch, index, e->sweep.samples, total * e->sweep.samples);
    for (int p = 0; p < e->net->positions; p++)
        NP_TRY(forward(e, p, &finite, err));
out:
    return status;
}

/* Batch norm's statistics of the subnet. */
static enum np_status calibrate(struct eval *e, struct np_error *err)
{
    uint64_t batches = (uint64_t)e->net->recipe->calibration;
    enum np_status status = NP_OK;
    for (int p = 0; p < e->net->positions; p++)
        if (e->stats[p])
            memset(e->stats[p], 0, e->stats_floats[p] * sizeof(float));
    e->sweep.norm = NP_NORM_SUM;
    for (uint64_t b = 0; b < batches; b++)
        NP_TRY(run_batch(e, e->config->data, b, batches, err));
    for (int p = 0; p < e->net->positions; p++)
        for (size_t i = 0; i < e->stats_floats[p]; i++)
            e->stats[p][i] = e->stats[p][i] / (float)batches;
    e->sweep.norm = NP_NORM_FIXED;
out:
    return status;
}

static bool has_batch_norm(const struct eval *e)
{
    for (int p = 0; p < e->net->positions; p++)
        if (np_supernet_kind(e->net, np_step_layer(e->net, e->choices, p))->norm_floats)
            return true;
    return false;
}

static enum np_status evaluate_subnet(struct np_score *score, struct eval *e,
                                      const struct np_data *data, uint64_t batches,
                                      struct np_error *err)
{
    size_t targets = e->sweep.samples * np_batch_targets(e->net->recipe);
    uint64_t hits = 0;
    double loss = 0;
    enum np_status status = NP_OK;
    if (has_batch_norm(e))
        NP_TRY(calibrate(e, err));
    for (uint64_t b = 0; b < batches; b++) {
        NP_TRY(run_batch(e, data, b, batches, err));
        loss += (double)np_step_loss(e->net->recipe, e->grain_loss) / (double)batches;
        for (size_t i = 0; i < targets; i++)
            hits += (uint64_t)e->hits[i];
    }
    *score = (struct np_score){loss, (double)hits / (double)(targets * batches)};
out:
    return status;
}

static enum np_status evaluate_all(struct np_score *scores, struct eval *e,
                                   const struct np_data *data, const uint16_t *choices,
                                   size_t count, uint64_t batches, struct np_error *err)
{
    size_t blocks = (size_t)e->net->positions - 2;
    enum np_status status = NP_OK;
    for (size_t i = 0; i < count; i++) {
        memcpy(e->choices + 1, choices + i * blocks, blocks * sizeof *choices);
        NP_TRY(evaluate_subnet(&scores[i], e, data, batches, err));
    }
out:
    return status;
}

enum np_status np_evaluate(struct np_score *scores, const struct np_train_config *config,
                           struct np_state *state, const struct np_data *data, int threads,
                           const uint16_t *choices, size_t count, uint64_t batches,
                           struct np_error *err)
{
    struct eval e;
    enum np_status status;
    NP_TRY(eval_init(&e, config, state, threads, err));
    if (state->residence)
        np_residence_begin(state->residence);
    status = evaluate_all(scores, &e, data, choices, count, batches, err);
    if (state->residence)
        status = np_residence_end(state->residence, status, err);
out:
    eval_clear(&e);
    return status;
}
