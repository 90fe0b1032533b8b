#include "exec/sweep.h"

#include "exec/step.h"

/* One position of a pass. */
struct spot {
    const struct np_sweep *sweep;
    const struct np_supernet *net;
    int stage;
    const struct np_flight_place *place;
    struct np_cell *cell;
    uint32_t layer;
    const struct np_kind *kind;
    int position;
};

static struct spot spot_at(const struct np_sweep *sweep, int position)
{
    const struct np_supernet *net = sweep->config->net;
    uint32_t layer = np_step_layer(net, sweep->choices, position);
    int stage = sweep->stages[position];
    return (struct spot){.sweep = sweep,
                         .net = net,
                         .stage = stage,
                         .place = np_flight_place(&sweep->layout->stage[stage], position),
                         .cell = &sweep->cells[position],
                         .layer = layer,
                         .kind = np_step_kind(net, sweep->choices, position),
                         .position = position};
}

/* A part of the flight's slot on a stage. */
static float *storage(const struct np_sweep *sweep, int stage, size_t part)
{
    return np_flights_part(&sweep->flights[stage], &sweep->layout->stage[stage], sweep->flight,
                           part);
}

/* What operators save and leave for W. */
static float *kept(const struct spot *s, size_t part)
{
    const struct np_flight_stage *stage = &s->sweep->layout->stage[s->stage];
    if (!stage->entries)
        return storage(s->sweep, s->stage, part);
    return np_flights_entry(&s->sweep->flights[s->stage], stage, s->position, part);
}

/* The stage in whose slot a value's storage is: of what is received, that of the entry. */
static int keeper(const struct np_sweep *sweep, int value)
{
    return sweep->stages[value < sweep->entry ? sweep->entry : value];
}

float *np_sweep_gradient(const struct np_sweep *sweep, int value)
{
    int stage = keeper(sweep, value);
    return storage(sweep, stage, np_flight_place(&sweep->layout->stage[stage], value)->dy);
}

float *np_sweep_received(const struct np_sweep *sweep, int entry, int value)
{
    int stage = sweep->stages[entry];
    return storage(sweep, stage, np_flight_place(&sweep->layout->stage[stage], value)->y);
}

static float *work_block(const struct spot *s)
{
    return s->sweep->flights[s->stage].block[NP_BLOCK_WORK];
}

/* Floats of the value that a position makes; the head's are one loss a row. */
static size_t value_floats(const struct spot *s, int position)
{
    if (position == s->net->positions - 1)
        return s->sweep->samples * np_batch_targets(s->net->recipe);
    return s->sweep->samples * np_shape_floats(s->net->shapes[position]);
}

/* The position whose value the layer reads as `value`, -1 none. */
static int source_of(const struct spot *s, int value)
{
    if (s->position == 0)
        return -1;
    if (s->position == s->net->positions - 1)
        return value == NP_VALUE_X ? s->position - 1 : -1;
    const struct np_block *block = &s->net->recipe->blocks[s->position - 1];
    return value == NP_VALUE_X ? block->from : value == NP_VALUE_SUM ? block->sum : block->memory;
}

/* The value that the layer reads as `value`, NULL if none. */
static const float *read_of(const struct spot *s, int value)
{
    int source = source_of(s, value);
    return source >= 0 ? s->sweep->cells[source].y : NULL;
}

static size_t lay_batch(const struct spot *s, struct np_batch *batch, float *slab)
{
    return np_batch_lay(batch, s->net->recipe, s->sweep->samples,
                        np_program_reads(&s->kind->program), slab);
}

/* What the layer reads of the batch. */
static struct np_batch batch_of(const struct spot *s)
{
    struct np_batch batch = {.images = NULL};
    if (s->place->batch != NP_NO_STORAGE)
        lay_batch(s, &batch, storage(s->sweep, s->stage, s->place->batch));
    return batch;
}

/* A batch that is read from the data. */
struct reading {
    const struct np_sweep *sweep;
    struct np_batch batch;
};

static void read_samples(const struct reading *r, size_t first, size_t samples)
{
    const struct np_sweep *sweep = r->sweep;
    const struct np_recipe *recipe = sweep->config->net->recipe;
    const struct np_batch batch = np_batch_from(&r->batch, recipe, first);
    if (sweep->evaluated)
        np_data_eval_batch(sweep->evaluated, &batch, sweep->index * sweep->samples + first, samples,
                           sweep->total);
    else
        np_data_batch(sweep->config->data, &batch, recipe->seed, sweep->step,
                      np_step_batch(recipe, sweep->member), sweep->first + first, samples);
}

static void read_member(struct np_team *team, void *argument)
{
    const struct reading *r = argument;
    struct np_deal deal = np_team_deal(team, r->sweep->samples, 1);
    size_t sample;
    while (np_deal_item(&deal, &sample))
        read_samples(r, sample, 1);
}

/* Images are worth a team: they take longer than its members to meet. */
static void load_batch(const struct spot *s)
{
    const struct np_sweep *sweep = s->sweep;
    struct reading reading = {.sweep = sweep};
    if (s->place->batch == NP_NO_STORAGE)
        return;
    float *at = storage(sweep, s->stage, s->place->batch), *host;
    size_t bytes = lay_batch(s, &reading.batch, NULL) * sizeof(float);
    host = np_crew_fill(sweep->crew, at, bytes);
    lay_batch(s, &reading.batch, host);
    if (reading.batch.images)
        np_crew_help(sweep->crew, read_member, &reading);
    else
        read_samples(&reading, 0, sweep->samples);
    np_crew_send(sweep->crew, at, host, bytes);
}

/* What the head's members learn from the first one, NULL elsewhere. */
static float *soft_of(const struct spot *s)
{
    const struct np_sweep *sweep = s->sweep;
    if (s->position < s->net->positions - 1)
        return NULL;
    return np_flights_soft(&sweep->flights[s->stage], &sweep->layout->stage[s->stage], sweep->step,
                           sweep->first / sweep->samples);
}

uint64_t np_sweep_version(const struct np_sweep *sweep, int position)
{
    uint32_t layer = np_step_layer(sweep->config->net, sweep->choices, position);
    if (sweep->evaluated)
        return sweep->state->layers[layer].updates;
    return np_step_version(sweep->state, position, layer, sweep->step);
}

/* Of the loss of a head's target: the mean is over the mini-batch's. */
static float scale_of(const struct spot *s)
{
    const struct np_sweep *sweep = s->sweep;
    if (sweep->evaluated || s->position < s->net->positions - 1)
        return 0.0f;
    return 1.0f / (float)np_step_targets(sweep->config, sweep->step, sweep->member);
}

/* The work on a position that all passes begin with. */
static struct np_work work_on(const struct spot *s, enum np_work_kind kind)
{
    const struct np_sweep *sweep = s->sweep;
    uint64_t version = np_sweep_version(sweep, s->position);
    const struct np_recipe *recipe = s->net->recipe;
    struct np_batch batch = batch_of(s);
    return (struct np_work){
        .kind = kind,
        .state = sweep->state,
        .version = version,
        .weights = sweep->copies ? np_replicas_weights(sweep->copies, sweep->device + s->stage,
                                                       s->layer, version)
                                 : NULL,
        .lr = np_recipe_lr(recipe, sweep->step),
        .call = {.kernels = sweep->config->kernels,
                 .kind = s->kind,
                 .samples = sweep->samples,
                 .grain = (size_t)recipe->grain,
                 .first = sweep->first,
                 .seed = recipe->seed,
                 .step = sweep->step,
                 .member = (uint32_t)sweep->member,
                 .layer = s->layer,
                 .train = !sweep->evaluated,
                 .norm = sweep->norm,
                 .norm_stats = sweep->norm_stats ? sweep->norm_stats[s->position] : NULL,
                 .images = batch.images,
                 .tokens = batch.tokens,
                 .source = batch.source,
                 .targets = batch.targets,
                 .lengths = batch.source_lengths ? batch.source_lengths : batch.target_lengths,
                 .smoothing = (float)recipe->label_smoothing,
                 .scale = scale_of(s),
                 .soft = soft_of(s),
                 .distill = (float)recipe->distill,
                 .saved = kept(s, s->place->saved),
                 .delta = kept(s, s->place->delta),
                 .work = work_block(s)},
        .backward = {
            .x = read_of(s, NP_VALUE_X), .memory = read_of(s, NP_VALUE_MEMORY), .dy = s->cell->dy}};
}

static enum np_status run(const struct spot *s, const struct np_work *work, bool *finite,
                          struct np_error *err)
{
    bool found = true;
    enum np_status status = np_work_run(&found, s->sweep->crew, work, err);
    if (status == NP_OK && !found)
        *finite = false;
    return status;
}

/* The position's entry: NULL where all that is saved is kept. */
static struct np_held *entry_of(const struct spot *s)
{
    const struct np_flight_stage *stage = &s->sweep->layout->stage[s->stage];
    if (!stage->entries)
        return NULL;
    return &s->sweep->flights[s->stage].held[np_flight_entry(stage, s->position)];
}

static void hold(const struct spot *s, enum np_held_what what)
{
    struct np_held *held = entry_of(s);
    if (held)
        *held = (struct np_held){.what = what, .position = s->position, .flight = s->sweep->flight};
}

static bool is_held(const struct spot *s, enum np_held_what what)
{
    const struct np_held *held = entry_of(s);
    return !held || (held->what == what && held->position == s->position &&
                     held->flight == s->sweep->flight);
}

/* What F saved, if something else has been in its place. */
static enum np_status recompute(const struct spot *s, bool *finite, struct np_error *err)
{
    struct np_work work;
    if (is_held(s, NP_HELD_FORWARD))
        return NP_OK;
    work = work_on(s, NP_WORK_RECOMPUTE);
    work.forward = (struct np_op_forward){
        .x = read_of(s, NP_VALUE_X),
        .memory = read_of(s, NP_VALUE_MEMORY),
        .sum = read_of(s, NP_VALUE_SUM),
        .y = np_flights_output(&s->sweep->flights[s->stage], &s->sweep->layout->stage[s->stage])};
    return run(s, &work, finite, err);
}

/* B of a layer with nodes, for what W reads of it or, with a gradient to give, all of it. */
static enum np_status run_backward(const struct spot *s, const struct np_work *work, bool *finite,
                                   struct np_error *err)
{
    enum np_status status;
    NP_TRY(recompute(s, finite, err));
    hold(s, NP_HELD_BACKWARD);
    NP_TRY(run(s, work, finite, err));
out:
    return status;
}

/* What the head tells the host: losses of grains, hits. */
static void ask_head(const struct spot *s, struct np_work *work)
{
    const struct np_sweep *sweep = s->sweep;
    size_t rows = value_floats(s, s->position), grains = sweep->samples / work->call.grain;
    work->grain_loss = np_crew_reply(sweep->crew, sweep->grain_loss, grains * sizeof(float));
    if (sweep->hits)
        work->call.hits = np_crew_reply(sweep->crew, sweep->hits, rows * sizeof *sweep->hits);
}

enum np_status np_sweep_forward(const struct np_sweep *sweep, int position, bool *finite,
                                struct np_error *err)
{
    struct spot s = spot_at(sweep, position);
    s.cell->dy = NULL;
    if (np_program_passes_on(&s.kind->program)) {
        s.cell->y = read_of(&s, s.kind->program.output);
        return NP_OK;
    }
    np_crew_watch(sweep->crew, finite);
    load_batch(&s);
    float *y = storage(sweep, s.stage, s.place->y);
    struct np_work work = work_on(&s, NP_WORK_FORWARD);
    work.forward = (struct np_op_forward){.x = read_of(&s, NP_VALUE_X),
                                          .memory = read_of(&s, NP_VALUE_MEMORY),
                                          .sum = read_of(&s, NP_VALUE_SUM),
                                          .y = y};
    if (position == s.net->positions - 1) {
        work.forward.y = NULL;
        work.call.loss = y;
        ask_head(&s, &work);
    }
    s.cell->y = y;
    hold(&s, NP_HELD_FORWARD);
    return run(&s, &work, finite, err);
}

/* Adds a contribution that is complete to the gradient of a value: borrows it if it is the first,
 * and lies where it will stay. */
static void add_gradient(const struct spot *s, int value, const float *more, bool *finite)
{
    const struct np_sweep *sweep = s->sweep;
    struct np_cell *cell = &sweep->cells[value];
    float *own = np_sweep_gradient(sweep, value);
    size_t floats = value_floats(s, value);
    if (!cell->dy && keeper(sweep, value) == s->stage) {
        cell->dy = more;
        return;
    }
    if (!cell->dy)
        np_work_copy(sweep->crew, sweep->config->kernels, own, more, floats);
    else if (!np_work_add(sweep->crew, sweep->config->kernels, own, cell->dy, more, floats))
        *finite = false;
    cell->dy = own;
}

/* B of a layer with nodes. */
static enum np_status differentiate(const struct spot *s, bool *finite, struct np_error *err)
{
    struct np_cell *cells = s->sweep->cells;
    int x = np_op_gives(s->kind, NP_VALUE_X) ? source_of(s, NP_VALUE_X) : -1;
    int memory = np_op_gives(s->kind, NP_VALUE_MEMORY) ? source_of(s, NP_VALUE_MEMORY) : -1;
    bool twice = memory >= 0 && memory == x;
    struct np_work work = work_on(s, NP_WORK_BACKWARD);
    if (x >= 0) {
        work.backward.dx = np_sweep_gradient(s->sweep, x);
        work.backward.base = cells[x].dy;
    }
    if (twice) {
        work.backward.dmemory = work_block(s) + s->sweep->layout->stage[s->stage].apart;
    } else if (memory >= 0) {
        work.backward.dmemory = np_sweep_gradient(s->sweep, memory);
        work.backward.memory_base = cells[memory].dy;
    }
    enum np_status status = run_backward(s, &work, finite, err);
    if (status != NP_OK)
        return status;
    if (x >= 0)
        cells[x].dy = work.backward.dx;
    if (twice)
        add_gradient(s, memory, work.backward.dmemory, finite);
    else if (memory >= 0)
        cells[memory].dy = work.backward.dmemory;
    return NP_OK;
}

enum np_status np_sweep_backward(const struct np_sweep *sweep, int position, bool *finite,
                                 struct np_error *err)
{
    struct spot s = spot_at(sweep, position);
    const struct np_program *program = &s.kind->program;
    bool trains = np_step_trains(s.net, position, s.layer);
    int x = source_of(&s, NP_VALUE_X), sum = source_of(&s, NP_VALUE_SUM);
    enum np_status status = NP_OK;
    np_crew_watch(sweep->crew, finite);
    if (!s.cell->dy && position < s.net->positions - 1) { /* no reader gave anything back */
        float *dy = np_sweep_gradient(sweep, position);
        np_work_zero(sweep->crew, sweep->config->kernels, dy, value_floats(&s, position));
        s.cell->dy = dy;
    }
    if (!np_program_passes_on(program)) {
        if (trains || np_op_gives(s.kind, NP_VALUE_X) || np_op_gives(s.kind, NP_VALUE_MEMORY))
            NP_TRY(differentiate(&s, finite, err));
    } else if (program->output == NP_VALUE_X) {
        add_gradient(&s, x, s.cell->dy, finite);
    }
    if (sum >= 0)
        add_gradient(&s, sum, s.cell->dy, finite);
out:
    return status;
}

enum np_status np_sweep_weight(const struct np_sweep *sweep, int position, float *g,
                               bool accumulate, bool *finite, struct np_error *err)
{
    struct spot s = spot_at(sweep, position);
    struct np_work work = work_on(&s, NP_WORK_BACKWARD);
    enum np_status status = NP_OK;
    np_crew_watch(sweep->crew, finite);
    if (!is_held(&s, NP_HELD_BACKWARD)) /* what x and memory get they have had */
        NP_TRY(run_backward(&s, &work, finite, err));
    work.kind = NP_WORK_WEIGHT;
    work.g = g;
    work.accumulate = accumulate;
    NP_TRY(run(&s, &work, finite, err));
out:
    return status;
}

enum np_status np_sweep_update(const struct np_sweep *sweep, int position, float *g,
                               struct np_update_report *report, bool *finite, struct np_error *err)
{
    struct spot s = spot_at(sweep, position);
    struct np_work work = work_on(&s, NP_WORK_UPDATE);
    work.g = g;
    np_crew_watch(sweep->crew, finite);
    work.report = np_crew_reply(sweep->crew, report, NP_UPDATE_REPORT_BYTES(sweep->crew->size));
    return run(&s, &work, finite, err);
}
