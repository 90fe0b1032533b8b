/* With a given number of micro-batches, memory grows with the grains of one: bisection finds the
 * most. Other pipelines and cuts are first asked for one grain more than the best so far has. */
#include "plan/largest_batch.h"

#include "base/text.h"
#include "plan/search.h"

struct probe {
    const struct np_supernet *net;
    const struct np_partition_request *request;
    struct np_pipeline pipeline;
    uint64_t least_bytes; /* of the last probe */
};

/* What the pipeline needs for a batch of so many grains. */
static enum np_status weigh(struct probe *probe, int grains, struct np_error *err)
{
    enum np_status status;
    struct np_recipe recipe = *probe->net->recipe;
    struct np_supernet net = *probe->net;
    struct np_plan plan = {0};
    recipe.batch = grains * recipe.grain;
    net.recipe = &recipe;
    NP_TRY(np_plan_init(&plan, &net, probe->pipeline.stages, err));
    plan.replicas = probe->pipeline.replicas;
    plan.micro_batches = probe->pipeline.micro_batches;
    plan.threads = probe->pipeline.threads;
    plan.scratch = probe->request->scratch;
    plan.memories = np_request_memories(probe->request, plan.replicas);
    plan.window = 1;
    NP_TRY(np_plan_set_recompute(&plan, &net, probe->pipeline.recompute, err));
    NP_TRY(np_search_least(&probe->least_bytes, &plan, &net, probe->request, err));
out:
    np_plan_clear(&plan);
    return status;
}

static bool fits(const struct probe *probe)
{
    return probe->least_bytes <= probe->request->memory_bytes;
}

static int most_grains(const struct np_recipe *recipe)
{
    int grains = NP_MAX_BATCH / recipe->grain;
    return grains < NP_MAX_GRAINS ? grains : NP_MAX_GRAINS;
}

/* Takes over the pipeline's largest batch, if that is larger. */
static enum np_status enlarge(struct np_largest_batch *largest, struct probe *probe,
                              struct np_error *err)
{
    enum np_status status = NP_OK;
    const struct np_recipe *recipe = probe->net->recipe;
    int cuts = probe->pipeline.micro_batches;
    int low = largest->batch / recipe->grain / cuts, high = most_grains(recipe) / cuts + 1;
    for (int middle = low + 1; high - low > 1; middle = low + (high - low) / 2) {
        NP_TRY(weigh(probe, middle * cuts, err));
        if (!fits(probe)) {
            high = middle;
            continue;
        }
        low = middle;
        *largest = (struct np_largest_batch){.batch = middle * cuts * recipe->grain,
                                             .pipeline = probe->pipeline,
                                             .least_bytes = probe->least_bytes};
    }
out:
    return status;
}

/* Of a pipeline, what keeps what operators save goes before what does not, of the same batch. */
static enum np_status enlarge_either(struct np_largest_batch *largest, struct probe *probe,
                                     struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int recompute = 0; recompute < 2; recompute++) {
        probe->pipeline.recompute = recompute;
        if (np_pipeline_may(&probe->pipeline, recompute, probe->request))
            NP_TRY(enlarge(largest, probe, err));
    }
out:
    return status;
}

static enum np_status search_cuts(struct np_largest_batch *largest, struct probe *probe,
                                  const struct np_pipeline *pipeline, struct np_error *err)
{
    enum np_status status = NP_OK;
    probe->pipeline = *pipeline;
    for (int m = most_grains(probe->net->recipe); m > 0; m--) {
        if (!np_pipeline_cuts(pipeline, m, probe->net, probe->request))
            continue;
        probe->pipeline.micro_batches = m;
        NP_TRY(enlarge_either(largest, probe, err));
    }
out:
    return status;
}

/* One replica first: several hold more. Of as many, stages that hold least come last there. */
static enum np_status search(struct np_largest_batch *largest, struct probe *probe,
                             const struct np_pipelines *pipelines, struct np_error *err)
{
    enum np_status status = NP_OK;
    size_t begin = 0, end;
    for (; begin < pipelines->count; begin = end) {
        int replicas = pipelines->list[begin].replicas;
        for (end = begin; end < pipelines->count && pipelines->list[end].replicas == replicas;)
            end++;
        for (size_t i = end; i-- > begin;)
            NP_TRY(search_cuts(largest, probe, &pipelines->list[i], err));
    }
out:
    return status;
}

/* The smallest batch, one grain a micro-batch, needs more than there is: says how much. */
static enum np_status refuse(struct probe *probe, const struct np_pipelines *pipelines,
                             struct np_error *err)
{
    enum np_status status;
    const struct np_partition_request *asked = probe->request;
    int replicas = asked->replicas ? asked->replicas : 1, stages = 0;
    int cuts = asked->micro_batches ? asked->micro_batches : probe->net->whole_batch ? 1 : replicas;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < 2 * pipelines->count; i++) {
        probe->pipeline = pipelines->list[i / 2];
        probe->pipeline.recompute = i % 2;
        if (!np_sched_may_share(probe->pipeline.replicas, probe->net->recipe->members, cuts) ||
            !np_pipeline_may(&probe->pipeline, i % 2, asked))
            continue;
        probe->pipeline.micro_batches = cuts;
        NP_TRY(weigh(probe, cuts, err));
        if (probe->least_bytes < least) {
            least = probe->least_bytes;
            stages = probe->pipeline.stages;
        }
    }
    return np_fail(err, NP_ENO,
                   "nothing fits: with a batch of %d, the largest of %d stage%s needs at least "
                   "%llu bytes (%s), more than %s",
                   cuts * probe->net->recipe->grain, stages, stages == 1 ? "" : "s",
                   (unsigned long long)least, np_text_size(least).s,
                   np_text_size(probe->request->memory_bytes).s);
out:
    return status;
}

enum np_status np_largest_batch(struct np_largest_batch *largest, const struct np_supernet *net,
                                const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status;
    struct np_pipelines pipelines = {NULL};
    struct probe probe = {.net = net, .request = request};
    *largest = (struct np_largest_batch){0};
    if (net->whole_batch && request->micro_batches)
        NP_TRY(np_plan_check_cuts(request->micro_batches, net, err));
    NP_TRY(np_pipelines_list(&pipelines, net, request, err));
    NP_TRY(search(largest, &probe, &pipelines, err));
    if (largest->batch == 0)
        NP_TRY(refuse(&probe, &pipelines, err));
    largest->most = largest->batch + net->recipe->grain > NP_MAX_BATCH ||
                    largest->batch / net->recipe->grain == NP_MAX_GRAINS;
out:
    np_pipelines_clear(&pipelines);
    return status;
}
