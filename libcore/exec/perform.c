/* What a task does: forward, backward-input or backward-weight of its positions. */
#include "exec/engine.h"
#include "exec/work.h"

/* One position of a task. */
struct spot {
    struct np_stage *stage;
    const struct np_task *task;
    struct np_slot *slot;
    struct np_cell *cell; /* cell[1] is the next position's */
    const struct np_kind *kind;
    uint32_t layer;
    int position;
    bool stem, head, trains;
};

static struct spot spot_at(struct np_stage *stage, const struct np_task *task, int position)
{
    const struct np_engine *e = stage->engine;
    const struct np_supernet *net = e->config.net;
    struct np_slot *slot = np_engine_slot(e, task->step);
    size_t row = (size_t)task->member * (size_t)e->config.plan->micro_batches + (size_t)task->micro;
    struct spot s = {.stage = stage, .task = task, .slot = slot, .position = position};
    s.cell = &slot->cells[row * (size_t)net->positions + (size_t)position];
    s.layer = np_step_layer(net, slot->choices + task->member * net->positions, position);
    s.kind = np_supernet_kind(net, s.layer);
    s.stem = position == 0;
    s.head = position == net->positions - 1;
    s.trains = np_step_trains(net, position, s.layer);
    return s;
}

static void empty_cell(struct np_pool *pool, struct np_cell *cell)
{
    np_pool_drop(pool, &cell->x);
    np_pool_drop(pool, &cell->dy);
    np_pool_drop(pool, &cell->saved);
    np_pool_drop(pool, &cell->delta);
    np_pool_drop(pool, &cell->ids);
}

static float *data_of(struct np_buffer *buffer)
{
    return buffer ? buffer->data : NULL;
}

static struct np_work work_of(const struct spot *s)
{
    const struct np_engine *e = s->stage->engine;
    const struct np_recipe *recipe = e->config.net->recipe;
    uint64_t step = e->base + s->task->step;
    size_t rows = e->samples * (size_t)recipe->length;
    int32_t *ids = s->cell->ids ? (int32_t *)(void *)s->cell->ids->data : NULL;
    return (struct np_work){
        .state = e->state,
        .version = np_step_version(e->state, s->position, s->layer, step),
        .x = data_of(s->cell->x),
        .dy = data_of(s->cell->dy),
        .call = {.kernels = e->config.kernels,
                 .samples = e->samples,
                 .grain = (size_t)recipe->grain,
                 .first = (size_t)s->task->micro * e->samples,
                 .seed = recipe->seed,
                 .step = step,
                 .member = (uint32_t)s->task->member,
                 .layer = s->layer,
                 .train = true,
                 .tokens = ids,
                 .targets = ids ? ids + rows : NULL,
                 .smoothing = (float)recipe->label_smoothing,
                 .scale = 1.0f / (float)((size_t)recipe->batch * (size_t)recipe->length),
                 .saved = data_of(s->cell->saved),
                 .delta = data_of(s->cell->delta),
                 .work = s->stage->work}};
}

static void note_fault(struct np_task_outcome *outcome, const struct spot *s, bool update,
                       const char *what)
{
    struct np_step_fault fault = {.step = s->stage->engine->base + s->task->step,
                                  .update = update,
                                  .member = s->task->member,
                                  .pass = s->task->kind,
                                  .position = s->position,
                                  .what = what};
    if (update) /* as the reference: reported for the member that owns the layer */
        fault.member = np_step_owner(s->stage->engine->config.net, s->slot->choices,
                                     s->task->member, s->position);
    if (!outcome->faulted || np_step_fault_before(&fault, &outcome->fault))
        outcome->fault = fault;
    outcome->faulted = true;
}

/* The stem's tokens and the head's targets of this micro-batch. */
static enum np_status load_ids(const struct spot *s, struct np_error *err)
{
    const struct np_engine *e = s->stage->engine;
    const struct np_recipe *recipe = e->config.net->recipe;
    size_t rows = e->samples * (size_t)recipe->length;
    enum np_status status = np_pool_get(e->pool, &s->cell->ids, 2 * rows, err);
    if (status != NP_OK)
        return status;
    int32_t *ids = (int32_t *)(void *)s->cell->ids->data;
    np_corpus_batch(e->config.corpus, ids, ids + rows, recipe->seed, e->base + s->task->step,
                    (uint32_t)s->task->member, (size_t)s->task->micro * e->samples, e->samples);
    return NP_OK;
}

static enum np_status forward(const struct spot *s, struct np_task_outcome *outcome,
                              struct np_error *err)
{
    struct np_engine *e = s->stage->engine;
    const struct np_recipe *recipe = e->config.net->recipe;
    struct np_work_result result;
    struct np_buffer *y = NULL;
    enum np_status status = NP_OK;
    if (s->kind->spec.op == NP_OP_IDENTITY) {
        s->cell[1].x = np_buffer_hold(s->cell->x);
        return NP_OK;
    }
    if (s->stem || s->head)
        NP_TRY(load_ids(s, err));
    NP_TRY(np_pool_get(e->pool, &s->cell->saved, np_op_sizes(s->kind, e->samples).saved, err));
    NP_TRY(np_pool_get(e->pool, &y, e->activation, err)); /* head: a loss a row */
    struct np_work work = work_of(s);
    work.forward = true;
    if (s->head) {
        size_t first = work.call.first / (size_t)recipe->grain;
        work.call.loss = y->data;
        work.grain_loss =
            s->slot->grain_loss + s->task->member * (recipe->batch / recipe->grain) + first;
    } else {
        work.y = y->data;
    }
    NP_TRY(np_work_run(&result, s->stage->crew, &work, err));
    if (!result.finite)
        note_fault(outcome, s, false, "output");
    if (!s->head) {
        s->cell[1].x = y;
        y = NULL;
    }
out:
    np_pool_drop(e->pool, &y);
    return status;
}

static enum np_status backward(const struct spot *s, struct np_task_outcome *outcome,
                               struct np_error *err)
{
    struct np_engine *e = s->stage->engine;
    struct np_work_result result;
    enum np_status status = NP_OK;
    if (s->kind->spec.op == NP_OP_IDENTITY) {
        s->cell[-1].dy = np_buffer_hold(s->cell->dy);
    } else if (!s->stem) {
        NP_TRY(np_pool_get(e->pool, &s->cell->delta, np_op_sizes(s->kind, e->samples).delta, err));
        NP_TRY(np_pool_get(e->pool, &s->cell[-1].dy, e->activation, err));
        struct np_work work = work_of(s);
        work.backward = true;
        work.dx = s->cell[-1].dy->data;
        NP_TRY(np_work_run(&result, s->stage->crew, &work, err));
        if (!result.finite)
            note_fault(outcome, s, false, "gradient");
    }
    if (!s->trains)
        empty_cell(e->pool, s->cell);
out:
    return status;
}

static enum np_status weight(const struct spot *s, struct np_task_outcome *outcome,
                             struct np_error *err)
{
    struct np_engine *e = s->stage->engine;
    const struct np_supernet *net = e->config.net;
    int owner = np_step_owner(net, s->slot->choices, s->task->member, s->position);
    struct np_buffer **g = &s->slot->g[owner * net->positions + s->position];
    struct np_work_result result;
    enum np_status status = NP_OK;
    if (s->task->opens)
        NP_TRY(np_pool_get(e->pool, g, s->kind->floats, err));
    struct np_work work = work_of(s);
    work.weight = true;
    work.accumulate = !s->task->opens;
    work.g = (*g)->data;
    work.update = s->task->updates;
    work.lr = np_recipe_lr(net->recipe, e->base + s->task->step);
    NP_TRY(np_work_run(&result, s->stage->crew, &work, err));
    empty_cell(e->pool, s->cell);
    if (s->task->updates) {
        np_pool_drop(e->pool, g);
        outcome->updated = true;
        outcome->print = (struct np_layer_print){s->layer, result.fingerprint};
        if (!result.finite)
            note_fault(outcome, s, true, "update");
    }
out:
    return status;
}

enum np_status np_engine_perform(struct np_stage *stage, const struct np_task *task,
                                 struct np_task_outcome *outcome, struct np_error *err)
{
    enum np_status status = NP_OK;
    *outcome = (struct np_task_outcome){.faulted = false};
    for (int i = 0; i < task->count; i++) {
        bool down = task->kind == NP_TASK_B;
        struct spot s = spot_at(stage, task, task->first + (down ? task->count - 1 - i : i));
        if (task->kind == NP_TASK_F)
            NP_TRY(forward(&s, outcome, err));
        else if (task->kind == NP_TASK_B)
            NP_TRY(backward(&s, outcome, err));
        else
            NP_TRY(weight(&s, outcome, err));
    }
out:
    return status;
}
