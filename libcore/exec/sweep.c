#include "exec/sweep.h"

#include "exec/step.h"

/* One position of a pass. */
struct spot {
    const struct np_sweep *sweep;
    const struct np_supernet *net;
    struct np_cell *cell;
    uint32_t layer;
    const struct np_kind *kind;
    int position;
};

static struct spot spot_at(const struct np_sweep *sweep, int position)
{
    const struct np_supernet *net = sweep->config->net;
    uint32_t layer = np_step_layer(net, sweep->choices, position);
    return (struct spot){.sweep = sweep,
                         .net = net,
                         .cell = &sweep->cells[position],
                         .layer = layer,
                         .kind = np_supernet_kind(net, layer),
                         .position = position};
}

void np_cell_empty(struct np_pool *pool, struct np_cell *cell)
{
    np_pool_drop(pool, &cell->x);
    np_pool_drop(pool, &cell->memory);
    np_pool_drop(pool, &cell->sum);
    np_pool_drop(pool, &cell->dy);
    np_pool_drop(pool, &cell->saved);
    np_pool_drop(pool, &cell->delta);
    np_pool_drop(pool, &cell->batch);
}

size_t np_sweep_work_floats(const struct np_supernet *net, size_t samples)
{
    size_t largest = 1;
    for (int k = 0; k < net->kind_count; k++) {
        size_t floats = np_op_sizes(&net->kinds[k], samples).work;
        largest = floats > largest ? floats : largest;
    }
    return largest;
}

/* Floats of the value that a position makes; the head's are one loss a row. */
static size_t value_floats(const struct spot *s, int position)
{
    if (position == s->net->positions - 1)
        return s->sweep->samples * np_batch_targets(s->net->recipe);
    return s->sweep->samples * np_shape_floats(s->net->shapes[position]);
}

static float *data_of(struct np_buffer *buffer)
{
    return buffer ? buffer->data : NULL;
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

/* What the layer reads of the batch. */
static struct np_batch batch_of(const struct spot *s)
{
    struct np_batch batch = {.images = NULL};
    if (s->sweep->batch)
        return *s->sweep->batch;
    if (s->cell->batch)
        np_batch_lay(&batch, s->net->recipe, s->sweep->samples,
                     np_program_reads_inputs(&s->kind->program),
                     np_program_reads_targets(&s->kind->program), s->cell->batch->data);
    return batch;
}

static enum np_status load_batch(const struct spot *s, struct np_error *err)
{
    const struct np_sweep *sweep = s->sweep;
    struct np_batch batch;
    bool inputs = np_program_reads_inputs(&s->kind->program);
    bool targets = np_program_reads_targets(&s->kind->program);
    if (sweep->batch || (!inputs && !targets))
        return NP_OK;
    size_t words = np_batch_lay(&batch, s->net->recipe, sweep->samples, inputs, targets, NULL);
    enum np_status status = np_pool_get(sweep->pool, &s->cell->batch, words, err);
    if (status != NP_OK)
        return status;
    batch = batch_of(s);
    np_data_batch(sweep->config->data, &batch, s->net->recipe->seed, sweep->step,
                  (uint32_t)sweep->member, sweep->first, sweep->samples);
    return NP_OK;
}

/* The work on a position that all passes begin with. */
static struct np_work work_on(const struct spot *s, enum np_work_kind kind)
{
    const struct np_sweep *sweep = s->sweep;
    const struct np_recipe *recipe = s->net->recipe;
    size_t targets = (size_t)recipe->batch * np_batch_targets(recipe);
    struct np_batch batch = batch_of(s);
    return (struct np_work){
        .kind = kind,
        .state = sweep->state,
        .version = sweep->evaluates
                       ? sweep->state->layers[s->layer].updates
                       : np_step_version(sweep->state, s->position, s->layer, sweep->step),
        .lr = np_recipe_lr(recipe, sweep->step),
        .call = {.kernels = sweep->config->kernels,
                 .samples = sweep->samples,
                 .grain = (size_t)recipe->grain,
                 .first = sweep->first,
                 .seed = recipe->seed,
                 .step = sweep->step,
                 .member = (uint32_t)sweep->member,
                 .layer = s->layer,
                 .train = !sweep->evaluates,
                 .norm = sweep->norm,
                 .norm_stats = sweep->norm_stats ? sweep->norm_stats[s->position] : NULL,
                 .images = batch.images,
                 .tokens = batch.tokens,
                 .source = batch.source,
                 .targets = batch.targets,
                 .hits = sweep->hits,
                 .smoothing = (float)recipe->label_smoothing,
                 .scale = 1.0f / (float)targets,
                 .saved = data_of(s->cell->saved),
                 .delta = data_of(s->cell->delta),
                 .work = sweep->work},
        .backward = {.x = data_of(s->cell->x),
                     .memory = data_of(s->cell->memory),
                     .dy = data_of(s->cell->dy)}};
}

static enum np_status run(const struct spot *s, const struct np_work *work, bool *finite,
                          struct np_error *err)
{
    struct np_work_result result;
    enum np_status status = np_work_run(&result, s->sweep->crew, work, err);
    if (status == NP_OK && !result.finite)
        *finite = false;
    return status;
}

/* Every reader of the position's value gets it. Takes y. */
static void hand_out(const struct spot *s, struct np_buffer *y)
{
    int first = s->net->reader_first[s->position], end = s->net->reader_first[s->position + 1];
    for (int i = first; i < end; i++) {
        const struct np_reader *reader = &s->net->readers[i];
        struct np_cell *cell = &s->sweep->cells[reader->position];
        if (reader->value == NP_VALUE_X)
            cell->x = np_buffer_hold(y);
        else if (reader->value == NP_VALUE_MEMORY)
            cell->memory = np_buffer_hold(y);
        else
            cell->sum = np_buffer_hold(y);
    }
    np_pool_drop(s->sweep->pool, &y);
}

enum np_status np_sweep_forward(const struct np_sweep *sweep, int position, bool *finite,
                                struct np_error *err)
{
    struct spot s = spot_at(sweep, position);
    struct np_cell *cell = s.cell;
    struct np_buffer *y = NULL;
    enum np_status status = NP_OK;
    if (np_program_passes_on(&s.kind->program)) {
        hand_out(&s, np_buffer_hold(s.kind->program.output == NP_VALUE_SUM ? cell->sum : cell->x));
        np_pool_drop(sweep->pool, &cell->sum);
        return NP_OK;
    }
    NP_TRY(load_batch(&s, err));
    NP_TRY(np_pool_get(sweep->pool, &cell->saved, np_op_sizes(s.kind, sweep->samples).saved, err));
    NP_TRY(np_pool_get(sweep->pool, &y, value_floats(&s, position), err));
    struct np_work work = work_on(&s, NP_WORK_FORWARD);
    work.forward = (struct np_op_forward){.x = data_of(cell->x),
                                          .memory = data_of(cell->memory),
                                          .sum = data_of(cell->sum),
                                          .y = y->data};
    if (position == s.net->positions - 1) {
        work.forward.y = NULL;
        work.call.loss = y->data;
        work.grain_loss = sweep->grain_loss;
    }
    NP_TRY(run(&s, &work, finite, err));
    np_pool_drop(sweep->pool, &cell->sum); /* its gradient is dy */
    hand_out(&s, y);
    y = NULL;
out:
    np_pool_drop(sweep->pool, &y);
    return status;
}

/* Where a contribution to a value's gradient goes: onto what there is if nobody else holds that,
 * else into a new buffer. */
struct gradient {
    struct np_buffer **held; /* dy of the value's cell */
    struct np_buffer *to;
    const float *base; /* NULL: the first contribution */
};

static enum np_status gradient_begin(struct gradient *g, const struct spot *s, int value,
                                     struct np_error *err)
{
    struct np_buffer **held = &s->sweep->cells[value].dy;
    *g = (struct gradient){held, *held, data_of(*held)};
    if (*held && np_buffer_is_sole(*held))
        return NP_OK;
    return np_pool_get(s->sweep->pool, &g->to, value_floats(s, value), err);
}

static void gradient_end(struct gradient *g, const struct spot *s)
{
    if (g->to == *g->held)
        return;
    np_pool_drop(s->sweep->pool, g->held);
    *g->held = g->to;
}

/* Adds a finished contribution. Takes the buffer. */
static enum np_status gradient_add(const struct spot *s, int value, struct np_buffer *more,
                                   bool *finite, struct np_error *err)
{
    struct gradient g;
    enum np_status status = NP_OK;
    if (!s->sweep->cells[value].dy) {
        s->sweep->cells[value].dy = more;
        return NP_OK;
    }
    NP_TRY(gradient_begin(&g, s, value, err));
    if (!np_work_add(s->sweep->crew, s->sweep->config->kernels, g.to->data, g.base, more->data,
                     value_floats(s, value)))
        *finite = false;
    gradient_end(&g, s);
out:
    np_pool_drop(s->sweep->pool, &more);
    return status;
}

/* B of a layer with nodes. */
static enum np_status differentiate(const struct spot *s, bool *finite, struct np_error *err)
{
    const struct np_sweep *sweep = s->sweep;
    int x = np_op_gives(s->kind, NP_VALUE_X) ? source_of(s, NP_VALUE_X) : -1;
    int memory = np_op_gives(s->kind, NP_VALUE_MEMORY) ? source_of(s, NP_VALUE_MEMORY) : -1;
    struct np_buffer *apart = NULL; /* memory's contribution where memory is x */
    struct gradient dx, dmemory;
    enum np_status status;
    NP_TRY(
        np_pool_get(sweep->pool, &s->cell->delta, np_op_sizes(s->kind, sweep->samples).delta, err));
    struct np_work work = work_on(s, NP_WORK_BACKWARD);
    if (x >= 0) {
        NP_TRY(gradient_begin(&dx, s, x, err));
        work.backward.dx = dx.to->data;
        work.backward.base = dx.base;
    }
    if (memory >= 0 && memory == x) {
        NP_TRY(np_pool_get(sweep->pool, &apart, value_floats(s, memory), err));
        work.backward.dmemory = apart->data;
    } else if (memory >= 0) {
        NP_TRY(gradient_begin(&dmemory, s, memory, err));
        work.backward.dmemory = dmemory.to->data;
        work.backward.memory_base = dmemory.base;
    }
    NP_TRY(run(s, &work, finite, err));
    if (x >= 0)
        gradient_end(&dx, s);
    if (apart)
        NP_TRY(gradient_add(s, memory, apart, finite, err));
    else if (memory >= 0)
        gradient_end(&dmemory, s);
out:
    return status;
}

enum np_status np_sweep_backward(const struct np_sweep *sweep, int position, bool *finite,
                                 struct np_error *err)
{
    struct spot s = spot_at(sweep, position);
    const struct np_program *program = &s.kind->program;
    bool trains = np_step_trains(s.net, position, s.layer);
    int x = source_of(&s, NP_VALUE_X), sum = source_of(&s, NP_VALUE_SUM);
    size_t floats = value_floats(&s, position);
    enum np_status status = NP_OK;
    if (!s.cell->dy && position < s.net->positions - 1) { /* no reader gave anything back */
        NP_TRY(np_pool_get(sweep->pool, &s.cell->dy, floats, err));
        np_work_zero(sweep->crew, sweep->config->kernels, s.cell->dy->data, floats);
    }
    if (!np_program_passes_on(program)) {
        if (trains || np_op_gives(s.kind, NP_VALUE_X) || np_op_gives(s.kind, NP_VALUE_MEMORY))
            NP_TRY(differentiate(&s, finite, err));
    } else if (program->output == NP_VALUE_X) {
        NP_TRY(gradient_add(&s, x, np_buffer_hold(s.cell->dy), finite, err));
    }
    if (sum >= 0)
        NP_TRY(gradient_add(&s, sum, np_buffer_hold(s.cell->dy), finite, err));
    if (!trains)
        np_cell_empty(sweep->pool, s.cell);
out:
    return status;
}

enum np_status np_sweep_weight(const struct np_sweep *sweep, int position, float *g,
                               bool accumulate, bool *finite, struct np_error *err)
{
    struct spot s = spot_at(sweep, position);
    struct np_work work = work_on(&s, NP_WORK_WEIGHT);
    work.g = g;
    work.accumulate = accumulate;
    enum np_status status = run(&s, &work, finite, err);
    np_cell_empty(sweep->pool, s.cell);
    return status;
}

enum np_status np_sweep_update(const struct np_sweep *sweep, int position, float *g,
                               uint64_t *fingerprint, bool *finite, struct np_error *err)
{
    struct spot s = spot_at(sweep, position);
    struct np_work work = work_on(&s, NP_WORK_UPDATE);
    struct np_work_result result;
    work.g = g;
    enum np_status status = np_work_run(&result, sweep->crew, &work, err);
    if (status != NP_OK)
        return status;
    *fingerprint = result.fingerprint;
    if (!result.finite)
        *finite = false;
    return NP_OK;
}
