#include "run/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "run/checkpoint.h"
#include "run/directory.h"
#include "run/ledger.h"
#include "run/metrics.h"
#include "run/products_file.h"
#include "run/prune.h"
#include "run/subnets_file.h"
#include "space/subnet_set.h"

struct session {
    const struct np_session_config *config;
    struct np_run_dir dir;
    struct np_train_config train;
    struct np_state *state;
    struct np_checkpoints *checkpoints;
    struct np_ledger *ledger;
    struct np_log subnets; /* where a stream chooses them */
    struct np_metrics *metrics;
    struct np_stream *stream;
    struct np_engine *engine;
    struct np_residence_sums *residence; /* [stages]; NULL: layers stay where they are */
    struct np_stream_shape shape;
    struct np_stream_block *each; /* of it */
    uint64_t step;                /* completed */
    double eval_s, save_s;        /* that evaluations and checkpoints took */
    uint64_t saved;               /* step of the last checkpoint, if has_saved */
    bool has_saved;
    bool pruned; /* what earlier sessions left over is gone */
    struct np_digest digest;
    struct np_error hook_err; /* why the caller's hook wants no further step */
    enum np_status hook_status;
};

static bool on_stop(void *context)
{
    const struct session *s = context;
    const struct np_session_hooks *hooks = &s->config->hooks;
    return s->hook_status != NP_OK || (hooks->stop && hooks->stop(hooks->context));
}

static void on_checkpoint(void *context, bool writes, size_t done, size_t layers)
{
    const struct session *s = context;
    const struct np_session_hooks *hooks = &s->config->hooks;
    if (hooks->checkpoint)
        hooks->checkpoint(hooks->context, writes, done, layers);
}

static struct np_checkpoint_hooks checkpoint_hooks(struct session *s)
{
    return (struct np_checkpoint_hooks){s, on_checkpoint, on_stop};
}

static void on_evaluating(void *context, size_t subnet, size_t count)
{
    const struct session *s = context;
    const struct np_session_hooks *hooks = &s->config->hooks;
    if (hooks->evaluating)
        hooks->evaluating(hooks->context, subnet, count);
}

static enum np_status open_stream(struct session *s, struct np_error *err)
{
    const struct np_recipe *recipe = s->config->net->recipe;
    enum np_status status;
    NP_TRY(np_stream_shape_init(&s->shape, &s->each, recipe, err));
    NP_TRY(np_subnets_stream(&s->stream, &s->shape, recipe,
                             s->config->resume ? s->config->run : NULL, s->config->subnets, s->step,
                             on_stop, s, err));
out:
    return status;
}

/* A stream that has nothing to train leaves no file. */
static enum np_status keep_subnets(struct session *s, const struct np_step_record *record,
                                   struct np_error *err)
{
    const struct np_session_config *c = s->config;
    enum np_status status = NP_OK;
    if (!s->subnets.stream)
        status = np_subnets_open(&s->subnets, &s->shape, c->net->recipe, c->run, record->step, err);
    return status == NP_OK ? np_subnets_write(&s->subnets, &s->shape, record, err) : status;
}

static enum np_status on_step(void *context, const struct np_step_record *record,
                              struct np_error *err)
{
    struct session *s = context;
    const struct np_session_hooks *hooks = &s->config->hooks;
    struct np_train_times times = {.busy_s = 0};
    enum np_status status;
    NP_TRY(np_ledger_write(s->ledger, record, err));
    if (s->config->subnets)
        NP_TRY(keep_subnets(s, record, err));
    NP_TRY(np_metrics_step(s->metrics, record, err));
    if (s->engine)
        times = np_engine_times(s->engine);
    if (hooks->step && s->hook_status == NP_OK) /* the step itself is kept whatever it says */
        s->hook_status = hooks->step(hooks->context, record, &times, &s->hook_err);
out:
    return status;
}

/* Whether the first weights can be had. */
static enum np_status check_init(const struct session *s, struct np_error *err)
{
    const struct np_recipe *recipe = s->config->net->recipe;
    if (!recipe->has_init || s->config->inherit)
        return NP_OK;
    return np_fail(err, NP_EINPUT,
                   "'train.init' wants the weights of the run %s: --init says where it is",
                   np_digest_hex(&recipe->init).s);
}

/* What a run that inherits begins with becomes its first checkpoint. */
static enum np_status inherit(struct session *s, struct np_error *err)
{
    const struct np_session_config *c = s->config;
    const struct np_checkpoint_hooks hooks = checkpoint_hooks(s);
    enum np_status status = check_init(s, err);
    if (status != NP_OK || !c->inherit)
        return status;
    NP_TRY(np_inherit_write(c->inherit, c->run, np_data_digest(c->train_data), &hooks, err));
    NP_TRY(np_checkpoints_read(s->checkpoints, &s->has_saved, &s->step, &s->digest, err));
out:
    return status;
}

/* A bad stream leaves no directory behind, and neither do too little memory or too few threads. */
static enum np_status begin_run(struct session *s, struct np_error *err)
{
    const struct np_session_config *c = s->config;
    enum np_status status;
    NP_TRY(check_init(s, err));
    NP_TRY(open_stream(s, err));
    NP_TRY(np_run_dir_create(&s->dir, c->run, c->net->recipe, c->provenance, c->products, err));
    if (c->products)
        np_products_keep(c->products, c->run);
    status = inherit(s, err);
out:
    return status;
}

static enum np_status continue_run(struct session *s, struct np_error *err)
{
    const struct np_session_config *c = s->config;
    enum np_status status;
    NP_TRY(np_run_dir_open(&s->dir, c->run, err));
    NP_TRY(np_run_dir_finish(&s->dir, c->run, c->net->recipe, c->provenance, c->products, err));
    status = np_checkpoints_read(s->checkpoints, &s->has_saved, &s->step, &s->digest, err);
    if (status == NP_ESTOP) /* by then it is known to be this recipe's run */
        np_run_dir_sweep(&s->dir, c->run);
    NP_TRY(status);
    if (s->has_saved)
        NP_TRY(np_run_dir_mend_recipe(c->run, c->net->recipe, err));
    else
        NP_TRY(np_run_dir_check_recipe(c->run, c->net->recipe, err));
    if (c->products)
        NP_TRY(np_products_resume(c->products, c->run, err));
    np_run_dir_sweep(&s->dir, c->run);
    if (!s->has_saved)
        NP_TRY(inherit(s, err));
    s->saved = s->step;
    status = open_stream(s, err);
out:
    return status;
}

static enum np_status session_init(struct session *s, const struct np_session_config *config,
                                   struct np_error *err)
{
    const struct np_digest *data = np_data_digest(config->train_data);
    const struct np_checkpoint_hooks hooks = checkpoint_hooks(s);
    enum np_status status;
    *s = (struct session){.config = config};
    if (config->net->recipe->numerics->capability && !config->products)
        return np_fail(err, NP_EINPUT, "%s: numerics %s are computed on GPUs alone",
                       config->net->recipe->numerics_place, config->net->recipe->numerics->name);
    s->train = (struct np_train_config){.net = config->net,
                                        .data = config->train_data,
                                        .kernels = config->kernels,
                                        .devices = config->devices,
                                        .device_count = config->device_count,
                                        .link = config->link,
                                        .plan = config->plan,
                                        .policy = config->policy,
                                        .stash = config->stash,
                                        .delay_seed = config->delay_seed,
                                        .trace = config->trace,
                                        .hooks = {s, on_step, on_stop, on_evaluating}};
    NP_TRY(np_state_new(&s->state, config->net, err));
    NP_TRY(np_train_place(&s->train, s->state, err));
    if (config->schedule == NP_SESSION_CSP)
        NP_TRY(np_engine_new(&s->engine, &s->train, s->state, err));
    if (s->engine && np_plan_swaps(config->plan))
        NP_TRY(np_zalloc(&s->residence, (size_t)config->plan->stages, sizeof *s->residence, err));
    NP_TRY(np_checkpoints_new(&s->checkpoints, config->run, s->state, data, &hooks, err));
    NP_TRY(config->resume ? continue_run(s, err) : begin_run(s, err));
    NP_TRY(
        np_ledger_open(&s->ledger, config->run, s->step, config->ledger_layers, config->net, err));
    NP_TRY(
        np_metrics_open(&s->metrics, config->run, config->net->recipe->clip == NP_CLIP_LAYER, err));
out:
    return status;
}

static void session_clear(struct session *s)
{
    np_engine_free(s->engine);
    np_stream_close(s->stream);
    np_ledger_close(s->ledger);
    np_log_close(&s->subnets);
    np_metrics_close(s->metrics);
    np_checkpoints_free(s->checkpoints);
    np_run_dir_close(&s->dir);
    np_state_free(s->state);
    free(s->each);
    free(s->residence);
}

/* The evaluation's subnets, each once; as[i], i < count, says which of them the i-th one is: a
 * space of few has them several times. */
static enum np_status draw_subnets(const struct session *s, struct np_subnet_set *different,
                                   size_t *as, size_t count, struct np_error *err)
{
    const struct np_recipe *recipe = s->config->net->recipe;
    uint16_t *choices = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&choices, different->blocks, sizeof *choices, err));
    for (size_t i = 0; i < count; i++) {
        np_stream_eval_subnet(&s->shape, recipe->seed, i, choices);
        NP_TRY(np_subnet_set_add(different, &as[i], choices, err));
    }
out:
    free(choices);
    return status;
}

/* The mean score of the recipe's evaluation subnets on the validation data. */
static enum np_status evaluate(struct session *s, struct np_error *err)
{
    const struct np_session_config *c = s->config;
    size_t count = c->eval_subnets, *as = NULL;
    struct np_subnet_set subnets = {.blocks = (size_t)c->net->recipe->block_count};
    struct np_score *different = NULL, *scores = NULL, mean = {0, 0};
    struct np_evaluator *evaluator = NULL;
    double begun = np_now_s();
    struct np_evaluation evaluation = {.data = c->valid_data, .batches = c->eval_batches};
    enum np_status status;
    NP_TRY(np_alloc(&as, count, sizeof *as, err));
    NP_TRY(np_alloc(&scores, count, sizeof *scores, err));
    NP_TRY(draw_subnets(s, &subnets, as, count, err));
    NP_TRY(np_alloc(&different, subnets.count, sizeof *different, err));
    evaluation.choices = subnets.choices;
    evaluation.count = subnets.count;
    NP_TRY(np_evaluator_new(&evaluator, &s->train, s->state, s->engine, err));
    NP_TRY(np_evaluate(different, evaluator, &evaluation, err));
    for (size_t i = 0; i < count; i++) {
        scores[i] = different[as[i]];
        mean.loss += scores[i].loss / (double)count;
        mean.accuracy += scores[i].accuracy / (double)count;
    }
    NP_TRY(np_metrics_eval(s->metrics, s->step, mean, scores, count, err));
    if (c->hooks.evaluated)
        c->hooks.evaluated(c->hooks.context, s->step, mean);
out:
    s->eval_s += np_now_s() - begun;
    np_evaluator_free(evaluator);
    np_subnet_set_clear(&subnets);
    free(as);
    free(scores);
    free(different);
    return status;
}

static enum np_status checkpoint(struct session *s, struct np_error *err)
{
    double begun = np_now_s();
    enum np_status status = NP_OK;
    if (!s->has_saved || s->saved != s->step) {
        NP_TRY(np_ledger_sync(s->ledger, err));
        NP_TRY(np_log_sync(&s->subnets, err));
        NP_TRY(np_checkpoints_write(s->checkpoints, s->step, &s->digest, err));
        s->saved = s->step;
        s->has_saved = true;
    }
    if (s->config->keep) {
        NP_TRY(np_prune(s->config->run, s->config->keep, !s->pruned, err));
        s->pruned = true;
    }
out:
    s->save_s += np_now_s() - begun;
    return status;
}

/* The first multiple of `every` after step, or end. */
static uint64_t next_stop(uint64_t step, uint64_t every, uint64_t end)
{
    uint64_t at = every ? (step / every + 1) * every : end;
    return at < end ? at : end;
}

static bool due(uint64_t step, uint64_t every, uint64_t end)
{
    return every && (step % every == 0 || step == end);
}

/* The counters of the context managers; what cannot be written, the next line will say. */
static void note_residence(struct session *s)
{
    struct np_residence_sums *sums = s->residence;
    int stages = s->config->plan->stages;
    if (!sums)
        return;
    for (int k = 0; k < stages; k++)
        np_engine_residence(s->engine, k, &sums[k]);
    np_metrics_residence(s->metrics, s->step, sums, stages, NULL);
}

/* An evaluation that was due where the run stopped, and was not finished; or, of a run that
 * inherits weights, the one of these. */
static enum np_status make_up_evaluation(struct session *s, uint64_t end, struct np_error *err)
{
    const struct np_session_config *c = s->config;
    bool trained = s->step > 0 ? c->resume : c->net->recipe->has_init;
    bool wanted = trained && c->valid_data && due(s->step, c->eval_every, end);
    return wanted && !np_metrics_has_eval(s->metrics, s->step) ? evaluate(s, err) : NP_OK;
}

/* Where a stream ends the run, it is evaluated as it is at `end`. */
static enum np_status evaluate_end(struct session *s, struct np_error *err)
{
    const struct np_session_config *c = s->config;
    bool wanted = c->valid_data && c->eval_every && s->step > 0;
    return wanted && !np_metrics_has_eval(s->metrics, s->step) ? evaluate(s, err) : NP_OK;
}

/* Trains to `end`, in segments between checkpoints and evaluations. A stream that ends early ends
 * the run there. */
static enum np_status train(struct session *s, uint64_t end, struct np_error *err)
{
    const struct np_session_config *c = s->config;
    uint64_t every = c->net->recipe->checkpoint_every;
    enum np_status status;
    NP_TRY(make_up_evaluation(s, end, err));
    while (s->step < end) {
        uint64_t to = next_stop(s->step, every, end), eval = next_stop(s->step, c->eval_every, end);
        uint64_t next = s->step;
        to = eval < to ? eval : to;
        status = c->schedule == NP_SESSION_CSP
                     ? np_engine_train(s->engine, s->stream, s->step, to, &next, err)
                     : np_train_sequential(&s->train, s->state, s->stream, s->step, to, &next, err);
        s->step = next;
        note_residence(s);
        if (status == NP_OK && next < to)
            return evaluate_end(s, err);
        NP_TRY(status);
        if (c->valid_data && due(s->step, c->eval_every, end))
            NP_TRY(evaluate(s, err));
        if (every && s->step % every == 0)
            NP_TRY(checkpoint(s, err));
    }
out:
    return status;
}

/* Of all stages together. */
static struct np_residence_sums sum_residence(const struct session *s)
{
    struct np_residence_sums sum = {.copy_s = 0};
    for (int k = 0; k < s->config->plan->stages; k++) {
        const struct np_residence_sums *one = &s->residence[k];
        np_context_sums_add(&sum.context, &one->context);
        sum.copy_s += one->copy_s;
        sum.stall_s += one->stall_s;
        sum.stash = one->stash;
        sum.stash_bytes = one->stash_bytes;
    }
    return sum;
}

enum np_status np_session_run(struct np_session_result *result,
                              const struct np_session_config *config, struct np_error *err)
{
    uint64_t end = config->net->recipe->steps;
    struct session s;
    double begun = np_now_s();
    enum np_status status = session_init(&s, config, err), saved;
    *result = (struct np_session_result){
        .has_digest = s.has_saved, .digest = s.digest, .first = s.step, .next = s.step};
    if (status != NP_OK)
        goto out;
    if (config->stop_after && config->stop_after < end)
        end = config->stop_after;
    begun = np_now_s();
    status = train(&s, end, err);
    result->next = s.step;
    result->seconds = np_now_s() - begun - s.eval_s - s.save_s;
    if (status == NP_OK || status == NP_ESTOP || status == NP_EINPUT) {
        struct np_error why;
        saved = checkpoint(&s, &why);
        if (saved == NP_OK)
            saved = np_metrics_flush(s.metrics, &why);
        if (saved == NP_OK && s.hook_status != NP_OK) {
            saved = s.hook_status;
            why = s.hook_err;
        }
        if (saved != NP_OK)
            status = np_fail(err, saved, "%s", why.msg);
    }
    result->has_digest = s.has_saved;
    result->digest = s.digest;
    result->eval_seconds = s.eval_s;
    result->checkpoint_seconds = s.save_s;
    if (s.engine) {
        result->times = np_engine_times(s.engine);
        for (int d = 0; d < np_plan_devices(config->plan); d++)
            result->memory_bytes += np_engine_memory(s.engine, d).peak;
        result->has_residence = s.residence != NULL;
        if (s.residence)
            result->residence = sum_residence(&s);
    }
out:
    session_clear(&s);
    return status;
}
