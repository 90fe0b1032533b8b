/* Evaluation: the forward pass alone, one subnet after another. */
#include <stdlib.h>

#include "base/memory.h"
#include "exec/crew.h"
#include "exec/step.h"
#include "exec/work.h"

struct eval {
    const struct np_train_config *config;
    struct np_state *state;
    struct np_crew *crew;
    float *x, *y, *saved, *work, *grain_loss;
    int32_t *tokens, *targets;
};

static enum np_status eval_init(struct eval *e, int threads, struct np_error *err)
{
    const struct np_supernet *net = e->config->net;
    const struct np_recipe *recipe = net->recipe;
    size_t rows = (size_t)recipe->batch * (size_t)recipe->length;
    size_t width = (size_t)recipe->width, saved = 1, work = 1;
    enum np_status status;
    for (int k = 0; k < net->kind_count; k++) {
        struct np_op_sizes sizes = np_op_sizes(&net->kinds[k], (size_t)recipe->batch);
        saved = sizes.saved > saved ? sizes.saved : saved;
        work = sizes.work > work ? sizes.work : work;
    }
    NP_TRY(np_crew_new(&e->crew, threads, np_kernels_scratch_bytes((size_t)recipe->length, width),
                       err));
    NP_TRY(np_alloc(&e->x, rows, width * sizeof(float), err));
    NP_TRY(np_alloc(&e->y, rows, width * sizeof(float), err));
    NP_TRY(np_alloc(&e->saved, saved, sizeof(float), err));
    NP_TRY(np_alloc(&e->work, work, sizeof(float), err));
    NP_TRY(np_alloc(&e->tokens, rows, sizeof *e->tokens, err));
    NP_TRY(np_alloc(&e->targets, rows, sizeof *e->targets, err));
    NP_TRY(np_alloc(&e->grain_loss, (size_t)(recipe->batch / recipe->grain), sizeof(float), err));
out:
    return status;
}

static void eval_clear(struct eval *e)
{
    np_crew_free(e->crew);
    free(e->x);
    free(e->y);
    free(e->saved);
    free(e->work);
    free(e->tokens);
    free(e->targets);
    free(e->grain_loss);
}

/* The loss of one subnet on the batch in tokens and targets. */
static enum np_status eval_batch(struct eval *e, float *loss, const uint16_t *blocks,
                                 struct np_error *err)
{
    const struct np_supernet *net = e->config->net;
    const struct np_recipe *recipe = net->recipe;
    for (int p = 0; p < net->positions; p++) {
        bool head = p == net->positions - 1;
        uint32_t layer = net->layer_first[p] + (p > 0 && !head ? blocks[p - 1] : 0u);
        struct np_work_result result;
        struct np_work work = {.state = e->state,
                               .version = e->state->layers[layer].updates,
                               .forward = true,
                               .x = p > 0 ? e->x : NULL,
                               .y = head ? NULL : e->y,
                               .grain_loss = head ? e->grain_loss : NULL,
                               .call = {.kernels = e->config->kernels,
                                        .samples = (size_t)recipe->batch,
                                        .grain = (size_t)recipe->grain,
                                        .layer = layer,
                                        .tokens = e->tokens,
                                        .targets = e->targets,
                                        .loss = e->y,
                                        .smoothing = (float)recipe->label_smoothing,
                                        .saved = e->saved,
                                        .work = e->work}};
        if (np_supernet_kind(net, layer)->spec.op == NP_OP_IDENTITY)
            continue;
        enum np_status status = np_work_run(&result, e->crew, &work, err);
        if (status != NP_OK)
            return status;
        float *swap = e->x;
        e->x = e->y;
        e->y = swap;
    }
    *loss = np_step_loss(recipe, e->grain_loss);
    return NP_OK;
}

enum np_status np_evaluate(double *losses, const struct np_train_config *config,
                           struct np_state *state, const struct np_corpus *corpus, int threads,
                           const uint16_t *choices, size_t count, uint64_t batches,
                           struct np_error *err)
{
    struct eval e = {.config = config, .state = state};
    const struct np_train_hooks *hooks = &config->hooks;
    size_t blocks = (size_t)config->net->positions - 2;
    size_t batch = (size_t)config->net->recipe->batch;
    enum np_status status;
    NP_TRY(eval_init(&e, threads < NP_MAX_TEAM ? threads : NP_MAX_TEAM, err));
    for (size_t i = 0; i < count; i++) {
        losses[i] = 0;
        for (uint64_t b = 0; b < batches; b++) {
            float loss;
            if (hooks->stop && hooks->stop(hooks->context)) {
                status = np_fail(err, NP_ESTOP, "stopped on request in an evaluation");
                goto out;
            }
            np_corpus_eval_batch(corpus, e.tokens, e.targets, b, batch, batches * batch);
            NP_TRY(eval_batch(&e, &loss, choices + i * blocks, err));
            losses[i] += (double)loss / (double)batches;
        }
    }
out:
    eval_clear(&e);
    return status;
}
