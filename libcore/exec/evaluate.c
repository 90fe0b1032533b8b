/* Evaluation: the forward pass alone. Subnets, their batches and these batches' micro-batches form
 * one row of flights. Every stage takes them in this order, each stage another one at a time, so
 * that whatever is summed up on a stage is summed up in order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/crossing.h"
#include "exec/engine.h"
#include "exec/solo.h"

struct eval_stage {
    struct np_evaluator *eval;
    int index;
    struct np_crew *crew;
    struct np_stage *engine; /* its stage there */
    size_t memory;
    pthread_t thread;
    uint64_t done;     /* flights */
    uint16_t *choices; /* [positions]: of the subnet that it works on */
};

struct np_evaluator {
    const struct np_train_config *config;
    const struct np_evaluation *evaluation;
    const struct np_supernet *net;
    struct np_state *state;
    struct np_solo solo;            /* without an engine */
    struct np_transport *transport; /* the engine's, as are: */
    struct np_mirrors *mirrors;
    struct np_replicas *replicas;
    size_t memories;
    const struct np_flight_layout *layout;
    const struct np_flights *flights;
    const int *stage_first; /* [stages + 1] */
    int stages, device;     /* the device of the first */
    int alone[2];           /* without an engine, stage_first */
    uint64_t micro_batches;
    size_t samples, rows; /* of a micro-batch; of a sample's logits */
    uint64_t targets;     /* of all batches */
    struct eval_stage *stage;
    uint16_t *homes; /* [positions]: their stages */
    /* [slots of stage 0][memories][positions]: no more flights are under way */
    struct np_cell *cells;
    uint16_t *choices;    /* [stages][positions] */
    float **stats;        /* [positions], where a candidate has a batch norm */
    size_t *stats_floats; /* [positions] */
    float *grain_loss;    /* of a batch */
    int32_t *hits;
    struct np_score *scores;

    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool quit;
    enum np_status status; /* the first failure */
    struct np_error err;
};

/* Where a stage is in the row. */
struct place {
    uint64_t flight, index; /* of all; of the subnet's */
    size_t subnet;
    uint64_t calibrations, count; /* the subnet's flights: of batch norm's statistics first, all */
};

/* Room for the statistics of each position's largest candidate. */
static enum np_status stats_new(struct np_evaluator *e, struct np_error *err)
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
            NP_TRY(np_device_alloc(np_train_device(e->config, e->device + e->homes[p]),
                                   &e->stats[p], e->stats_floats[p] * sizeof(float), err));
    }
out:
    return status;
}

static enum np_status stages_new(struct np_evaluator *e, const struct np_engine *engine,
                                 struct np_error *err)
{
    size_t positions = (size_t)e->net->positions;
    size_t cells = (size_t)e->layout->stage[0].slots * e->memories * positions;
    enum np_status status;
    NP_TRY(np_zalloc(&e->stage, (size_t)e->stages, sizeof *e->stage, err));
    NP_TRY(np_zalloc(&e->choices, (size_t)e->stages * positions, sizeof *e->choices, err));
    NP_TRY(np_zalloc(&e->homes, positions, sizeof *e->homes, err));
    for (int k = 0; k < e->stages; k++) {
        struct np_stage *place = engine ? &engine->stages[e->device + k] : NULL;
        struct np_crew *crew = place ? place->crew : e->solo.crew;
        e->stage[k] = (struct eval_stage){.eval = e, .index = k, .crew = crew};
        e->stage[k].choices = e->choices + (size_t)k * positions;
        e->stage[k].engine = place;
        e->stage[k].memory = (size_t)np_flight_memory((int)e->memories, e->stages, k);
        for (int p = e->stage_first[k]; p < e->stage_first[k + 1]; p++)
            e->homes[p] = (uint16_t)k;
    }
    NP_TRY(np_zalloc(&e->cells, cells, sizeof *e->cells, err));
out:
    return status;
}

/* The stages of an engine, or one of its own. */
static enum np_status settle(struct np_evaluator *e, const struct np_engine *engine,
                             struct np_error *err)
{
    enum np_status status = NP_OK;
    e->memories = 1;
    if (engine) {
        e->transport = engine->transport;
        e->mirrors = engine->mirrors;
        e->replicas = engine->replicas;
        e->memories = np_engine_memories(engine);
        e->layout = &engine->layout;
        e->device = np_plan_home(engine->config.plan, 0);
        e->flights = engine->flights + e->device;
        e->stage_first = engine->config.plan->stage_first;
        e->stages = engine->config.plan->stages;
        e->micro_batches = (uint64_t)engine->config.plan->micro_batches;
    } else {
        NP_TRY(np_solo_init(&e->solo, e->config, true, err));
        e->layout = &e->solo.layout;
        e->flights = &e->solo.flights;
        e->alone[1] = e->net->positions;
        e->stage_first = e->alone;
        e->stages = 1;
        e->micro_batches = 1;
    }
    NP_TRY(stages_new(e, engine, err));
out:
    return status;
}

static enum np_status init(struct np_evaluator *e, const struct np_engine *engine,
                           struct np_error *err)
{
    const struct np_recipe *recipe = e->net->recipe;
    size_t batch = (size_t)recipe->batch;
    enum np_status status;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->moved, NULL);
    NP_TRY(settle(e, engine, err));
    e->samples = batch / (size_t)e->micro_batches;
    e->rows = np_batch_targets(recipe);
    NP_TRY(np_alloc(&e->grain_loss, batch / (size_t)recipe->grain, sizeof(float), err));
    NP_TRY(np_alloc(&e->hits, batch * e->rows, sizeof *e->hits, err));
    NP_TRY(stats_new(e, err));
out:
    return status;
}

static void begin_subnet(struct eval_stage *stage, struct place *at)
{
    const struct np_evaluator *e = stage->eval;
    const struct np_evaluation *v = e->evaluation;
    size_t blocks = (size_t)e->net->positions - 2;
    const uint16_t *choices = v->choices + at->subnet * blocks;
    memcpy(stage->choices + 1, choices, blocks * sizeof *choices);
    at->index = at->calibrations = 0;
    if (np_supernet_has_batch_norm(e->net, choices))
        at->calibrations = (uint64_t)e->net->recipe->calibration * e->micro_batches;
    at->count = at->calibrations + v->batches * e->micro_batches;
}

static struct np_sweep sweep_of(const struct eval_stage *stage, const struct place *at)
{
    const struct np_evaluator *e = stage->eval;
    const struct np_recipe *recipe = e->net->recipe;
    bool calibrates = at->index < at->calibrations;
    uint64_t index = calibrates ? at->index : at->index - at->calibrations;
    uint64_t batches = calibrates ? (uint64_t)recipe->calibration : e->evaluation->batches;
    size_t alive = (size_t)e->layout->stage[0].slots;
    size_t first = (size_t)(index % e->micro_batches) * e->samples;
    size_t row = (size_t)(at->flight % alive) * e->memories + stage->memory;
    int entry = e->stage_first[stage->index];
    struct np_sweep sweep = {
        .config = e->config,
        .state = e->state,
        .crew = stage->crew,
        .layout = e->layout,
        .device = e->device,
        .flights = e->flights,
        .copies = e->replicas,
        .flight = at->flight,
        .first = first,
        .samples = e->samples,
        .choices = stage->choices,
        .stages = e->homes,
        .cells = e->cells + row * (size_t)e->net->positions,
        .transport = e->transport,
        .entry = e->transport ? np_crossing_entry(e->config->plan, e->homes, entry) : 0,
        .grain_loss = e->grain_loss + first / (size_t)recipe->grain,
        .evaluated = calibrates ? e->config->data : e->evaluation->data,
        .index = index,
        .total = batches * (uint64_t)recipe->batch,
        .norm = calibrates ? NP_NORM_SUM : NP_NORM_FIXED,
        .norm_stats = e->stats,
        .hits = e->hits + first * e->rows};
    if (e->transport) {
        sweep.came = (struct np_carrier){stage->engine->carrier, stage->engine->came};
        sweep.parts = stage->engine->parts;
    }
    return sweep;
}

/* The copy of a layer that is at home on another replica. */
static enum np_status bring_copy(const struct eval_stage *stage, const struct np_sweep *sweep,
                                 int position, uint32_t layer, struct np_error *err)
{
    struct np_replicas *replicas = stage->eval->replicas;
    int device = sweep->device + stage->index;
    uint64_t version = np_sweep_version(sweep, position);
    if (!np_replicas_lacks(replicas, device, layer, version))
        return NP_OK;
    return np_replicas_bring(replicas, device, layer, version, stage->crew, err);
}

/* The pass over a position, with its layer on the device. */
static enum np_status forward(const struct eval_stage *stage, const struct np_sweep *sweep,
                              int position, bool *finite, struct np_error *err)
{
    struct np_residence *residence = sweep->state->residence;
    uint32_t layer = np_step_layer(sweep->config->net, sweep->choices, position);
    enum np_status status = NP_OK;
    if (stage->eval->mirrors)
        NP_TRY(np_mirrors_bring(stage->eval->mirrors, stage->index, layer, stage->crew, err));
    if (stage->eval->replicas)
        NP_TRY(bring_copy(stage, sweep, position, layer, err));
    if (residence)
        NP_TRY(np_residence_enter(residence, stage->index, layer, NP_NO_STEP, NP_CONTEXT_FORWARD,
                                  NULL, err));
    status = np_sweep_forward(sweep, position, finite, err);
    if (residence)
        np_residence_leave(residence, stage->index, layer, false);
out:
    return status;
}

struct calibration {
    const struct np_kernels *kernels;
    float *stats, by; /* by 0: they begin */
    size_t count;
};

static void calibrate_member(struct np_team *team, void *argument)
{
    const struct calibration *c = argument;
    if (c->by > 0.0f)
        c->kernels->divide(team, c->stats, c->stats, NULL, c->count, c->by);
    else
        c->kernels->fill(team, c->stats, c->count, 0.0f);
}

/* Batch norm's statistics of the stage's positions: sums of the subnet's first batches. */
static void calibrate(const struct eval_stage *stage, const struct place *at, int position)
{
    const struct np_evaluator *e = stage->eval;
    struct calibration c = {.kernels = e->config->kernels,
                            .stats = e->stats[position],
                            .count = e->stats_floats[position]};
    if (c.stats && at->index == 0)
        np_crew_run(stage->crew, calibrate_member, &c);
    c.by = (float)e->net->recipe->calibration;
    if (c.stats && at->index == at->calibrations)
        np_crew_run(stage->crew, calibrate_member, &c);
}

/* After the last micro-batch of a batch. */
static void add_batch(const struct np_evaluator *e, const struct place *at)
{
    struct np_score *score = &e->scores[at->subnet];
    size_t samples = (size_t)e->net->recipe->batch, rows = samples * e->rows;
    const struct np_evaluation *v = e->evaluation;
    uint64_t batch = (at->index - at->calibrations) / e->micro_batches, hits = 0;
    uint64_t targets =
        np_data_eval_targets(v->data, batch * samples, samples, v->batches * samples);
    for (size_t i = 0; i < rows; i++)
        hits += (uint64_t)e->hits[i];
    score->loss += (double)np_step_loss(e->net->recipe, e->grain_loss, targets) /
                   ((double)e->targets / (double)targets);
    score->accuracy += (double)hits;
    if (at->index + 1 == at->count)
        score->accuracy = score->accuracy / (double)e->targets;
}

static enum np_status fly(struct eval_stage *stage, const struct place *at, struct np_error *err)
{
    const struct np_evaluator *e = stage->eval;
    const struct np_train_hooks *hooks = &e->config->hooks;
    struct np_sweep sweep = sweep_of(stage, at);
    bool finite = true; /* of no interest: a loss that is not says it itself */
    enum np_status status = NP_OK;
    if (stage->index == 0 && hooks->stop && hooks->stop(hooks->context))
        return np_fail(err, NP_ESTOP, "stopped on request in an evaluation");
    if (stage->index == 0 && hooks->evaluating)
        hooks->evaluating(hooks->context, at->subnet, e->evaluation->count);
    NP_TRY(np_crossing_enter(&sweep, e->stage_first[stage->index], err));
    for (int p = e->stage_first[stage->index]; p < e->stage_first[stage->index + 1]; p++) {
        calibrate(stage, at, p);
        NP_TRY(forward(stage, &sweep, p, &finite, err));
    }
    NP_TRY(np_link_await(e->config->link, stage->crew, np_crew_mark(stage->crew, NULL), err));
    np_crossing_leave(&sweep, e->stage_first[stage->index + 1] - 1);
    if (stage->index == e->stages - 1 && at->index >= at->calibrations &&
        (at->index - at->calibrations) % e->micro_batches == e->micro_batches - 1)
        add_batch(e, at);
out:
    return status;
}

/* Its input is there, and no stage needs any more what its slot holds. */
static bool may_fly(const struct eval_stage *stage, uint64_t flight)
{
    const struct np_evaluator *e = stage->eval;
    uint64_t slots = e->layout->stage[stage->index].slots, gone = e->stage[e->stages - 1].done;
    return (stage->index == 0 || stage[-1].done > flight) && gone + slots > flight;
}

static void *stage_main(void *argument)
{
    struct eval_stage *stage = argument;
    struct np_evaluator *e = stage->eval;
    enum np_status status = NP_OK;
    struct np_error err;
    struct place at = {.flight = 0};
    for (; at.subnet < e->evaluation->count; at.subnet++)
        for (begin_subnet(stage, &at); at.index < at.count; at.index++, at.flight++) {
            pthread_mutex_lock(&e->lock);
            while (!e->quit && !may_fly(stage, at.flight))
                pthread_cond_wait(&e->moved, &e->lock);
            bool quit = e->quit;
            pthread_mutex_unlock(&e->lock);
            if (quit)
                return NULL;
            status = fly(stage, &at, &err);
            pthread_mutex_lock(&e->lock);
            stage->done++;
            if (status != NP_OK && !e->quit) {
                e->quit = true;
                e->status = status;
                e->err = err;
            }
            pthread_cond_broadcast(&e->moved);
            pthread_mutex_unlock(&e->lock);
        }
    return NULL;
}

static enum np_status run(struct np_evaluator *e, struct np_error *err)
{
    int started = 1;
    for (; started < e->stages; started++) {
        struct eval_stage *stage = &e->stage[started];
        errno = pthread_create(&stage->thread, NULL, stage_main, stage);
        if (errno) {
            pthread_mutex_lock(&e->lock);
            e->quit = true;
            e->status = np_fail_errno(&e->err, "cannot start the thread of stage %d", started);
            pthread_cond_broadcast(&e->moved);
            pthread_mutex_unlock(&e->lock);
            break;
        }
    }
    stage_main(&e->stage[0]);
    for (int k = 1; k < started; k++)
        pthread_join(e->stage[k].thread, NULL);
    return e->status == NP_OK ? NP_OK : np_fail(err, e->status, "%s", e->err.msg);
}

enum np_status np_evaluator_new(struct np_evaluator **out, const struct np_train_config *config,
                                struct np_state *state, const struct np_engine *engine,
                                struct np_error *err)
{
    struct np_evaluator *e = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&e, 1, sizeof *e, err));
    e->config = config;
    e->net = config->net;
    e->state = state;
    NP_TRY(init(e, engine, err));
    *out = e;
    e = NULL;
out:
    np_evaluator_free(e);
    return status;
}

void np_evaluator_free(struct np_evaluator *e)
{
    if (!e)
        return;
    np_solo_clear(&e->solo);
    for (int p = 0; e->stats && p < e->net->positions; p++)
        if (e->stats[p])
            np_device_release(np_train_device(e->config, e->device + e->homes[p]), e->stats[p]);
    free(e->stats);
    free(e->stats_floats);
    free(e->grain_loss);
    free(e->hits);
    free(e->cells);
    free(e->choices);
    free(e->homes);
    free(e->stage);
    pthread_cond_destroy(&e->moved);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

enum np_status np_evaluate(struct np_score *scores, struct np_evaluator *e,
                           const struct np_evaluation *evaluation, struct np_error *err)
{
    struct np_residence *residence = e->state->residence;
    enum np_status status;
    uint64_t samples = evaluation->batches * (uint64_t)e->net->recipe->batch;
    e->evaluation = evaluation;
    e->targets = np_data_eval_targets(evaluation->data, 0, samples, samples);
    e->scores = scores;
    e->quit = false;
    e->status = NP_OK;
    for (int k = 0; k < e->stages; k++)
        e->stage[k].done = 0;
    memset(scores, 0, evaluation->count * sizeof *scores);
    if (residence)
        np_residence_begin(residence);
    if (e->mirrors)
        np_mirrors_begin(e->mirrors);
    status = run(e, err);
    if (residence)
        status = np_residence_end(residence, status, err);
    return status;
}

const float *np_evaluator_statistics(const struct np_evaluator *e, int position)
{
    return e->stats[position];
}
